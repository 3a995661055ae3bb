// SPDX-License-Identifier: BSD-3-Clause
//! The fuzzer's input as a sequence of small choices.

#![allow(dead_code, reason = "no target uses all of it")]

/// The rest of the input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A text: mostly short, sometimes long, sometimes a number.
    pub fn text(&mut self) -> Option<Vec<u8>> {
        let shape = self.byte()?;
        let len = usize::from(shape & 15);
        let (text, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(match shape >> 4 {
            0..=6 => text.to_vec(),
            7..=11 => number(text).to_string().into_bytes(),
            12..=14 => text.repeat(9),
            _ => text.repeat(400),
        })
    }

    /// A number of any size.
    pub fn number(&mut self) -> Option<i64> {
        let len = usize::from(self.byte()? & 7) + 1;
        let (text, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(number(text))
    }
}

fn number(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    // Sign-extended, so that small negative numbers come as often as small positive ones.
    let shift = 64 - 8 * len.max(1) as u32;
    i64::from_le_bytes(wide) << shift >> shift
}
