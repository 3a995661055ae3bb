// SPDX-License-Identifier: BSD-3-Clause
//! Skips values without decoding them, to find their end. Does not validate them.

use crate::decode::{Decoder, Length};
use crate::error::Error;
use crate::rdb_type::{Part, RdbType};
use crate::source::Source;

/// The value may exceed the limit, or its end cannot be found without decoding it, or it is
/// invalid.
pub struct NotSkipped;

impl From<Error> for NotSkipped {
    fn from(_: Error) -> NotSkipped {
        NotSkipped
    }
}

impl<S: Source> Decoder<S> {
    /// Skips a value of this type, up to position `end` of the source.
    ///
    /// # Errors
    /// If the value cannot be skipped without decoding it: its type has no fixed layout, it goes
    /// beyond `end`, or it is invalid. The position is undefined then.
    pub fn skip_value(&mut self, kind: RdbType, end: u64) -> Result<(), NotSkipped> {
        match kind.0.layout {
            Some([Part::Text]) => self.skip_text(end),
            Some(parts) => self.skip_parts(parts, end),
            None => Err(NotSkipped),
        }
    }

    fn skip_bytes(&mut self, len: u64, end: u64) -> Result<(), NotSkipped> {
        if len > end.saturating_sub(self.position()) {
            return Err(NotSkipped);
        }
        // At most `end`, which fits into memory.
        self.take(len as usize)?;
        Ok(())
    }

    #[inline]
    fn skip_text(&mut self, end: u64) -> Result<(), NotSkipped> {
        let len = match self.length_field()? {
            Length::Plain(len) => len,
            Length::Integer(width) => width as u64,
            Length::Compressed => {
                let packed = self.length()?;
                self.length()?;
                packed
            }
        };
        self.skip_bytes(len, end)
    }

    fn skip_parts(&mut self, parts: &[Part], end: u64) -> Result<(), NotSkipped> {
        for part in parts {
            match *part {
                Part::Text => self.skip_text(end)?,
                Part::Number => drop(self.length()?),
                Part::Bytes(len) => self.skip_bytes(len, end)?,
                Part::ScoreText => {
                    let len = self.byte()?;
                    self.skip_bytes(if len < 253 { u64::from(len) } else { 0 }, end)?;
                }
                Part::Members(member) => {
                    for _ in 0..self.length()? {
                        self.skip_parts(member, end)?;
                        // The check is needed here: a member may consist of numbers only.
                        if self.position() > end {
                            return Err(NotSkipped);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
