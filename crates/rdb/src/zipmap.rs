// SPDX-License-Identifier: BSD-3-Clause
//! The packed hash of Redis before 2.6.
//!
//! ```text
//! map:     number of pairs or 254 (1), pairs, 255
//! pair:    length, field, length, number of unused bytes (1), value, unused bytes
//! length:  1 byte up to 253; above, 254 and 4 bytes, least significant first
//! ```

const LONG: u8 = 254;
const END: u8 = 255;

/// Removes a length from the front.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    match first {
        END => None,
        LONG => {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            *bytes = rest;
            let length = u32::from_le_bytes(*length);
            (length >= LONG.into()).then_some(length as usize)
        }
        short => Some(usize::from(short)),
    }
}

/// The fields and values in order; `None` if the bytes are not a valid zipmap.
pub fn read(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (&count, rest) = bytes.split_first()?;
    let (&end, mut rest) = rest.split_last()?;
    if end != END {
        return None;
    }
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let field_len = length(&mut rest)?;
        let (field, behind) = rest.split_at_checked(field_len)?;
        rest = behind;
        let value_len = length(&mut rest)?;
        let (&unused, behind) = rest.split_first()?;
        let (value, behind) = behind.split_at_checked(value_len)?;
        rest = behind.split_at_checked(usize::from(unused))?.1;
        pairs.push((field, value));
    }
    (count >= LONG || usize::from(count) == pairs.len()).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipmap_pairs_are_read_and_malformed_input_is_refused() {
        let name = [b'n'; 254];
        let good = [&b"\x02\x03foo\x03\x01bar.\xfe\xfe\0\0\0"[..], &name, b"\x05\0world\xff"].concat();
        let pairs = [(&b"foo"[..], &b"bar"[..]), (&name, b"world")];
        assert_eq!(read(&good).unwrap(), pairs);
        for length in 0..good.len() {
            assert_eq!(read(&good[..length]), None);
        }
        for (at, value) in [(0, 1), (1, 255), (1, 200), (5, 200), (6, 9), (11, 253)] {
            let mut bad = good.to_vec();
            bad[at] = value;
            assert_eq!(read(&bad), None, "byte {at} = {value}");
        }
    }
}
