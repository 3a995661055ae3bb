// SPDX-License-Identifier: BSD-3-Clause
//! Integers in as few bytes as they need: seven bits a byte, the lowest first, the highest bit set
//! in all bytes but the last.
//!
//! What is read here was written here: bytes that end too early read as zeros.

#[inline]
pub fn push(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads an integer of at most 32 bits and moves on.
#[inline]
pub fn take(bytes: &mut &[u8]) -> u32 {
    let Some((&first, rest)) = bytes.split_first() else { return 0 };
    *bytes = rest;
    if first < 0x80 { u32::from(first) } else { take_long(u128::from(first & 0x7f), bytes) as u32 }
}

/// Reads an integer of any size and moves on.
#[inline]
pub fn take_wide(bytes: &mut &[u8]) -> u128 {
    let Some((&first, rest)) = bytes.split_first() else { return 0 };
    *bytes = rest;
    if first < 0x80 { u128::from(first) } else { take_long(u128::from(first & 0x7f), bytes) }
}

/// The length of an integer at the beginning.
#[inline]
pub fn len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte < 0x80).map_or(bytes.len(), |at| at + 1)
}

fn take_long(mut value: u128, bytes: &mut &[u8]) -> u128 {
    let mut shift = 7;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u128::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_they_were_written() {
        let values = [0, 1, 127, 128, 300, u128::from(u32::MAX), 1 << 100, u128::MAX];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| push(&mut bytes, *value));
        let mut rest = &bytes[..];
        let read: Vec<u128> = values.iter().map(|_| take_wide(&mut rest)).collect();
        assert_eq!((read.as_slice(), rest), (&values[..], &[][..]));
        let mut rest = &bytes[..];
        assert_eq!((0..6).map(|_| take(&mut rest)).collect::<Vec<_>>(), [0, 1, 127, 128, 300, u32::MAX]);
        assert_eq!((len(&bytes), len(&bytes[3..]), len(&[0x80]), len(&[])), (1, 2, 1, 0));
        assert_eq!(take(&mut &[][..]), 0);
        assert_eq!(take(&mut &[0xff; 40][..]), u32::MAX);
    }
}
