// SPDX-License-Identifier: BSD-3-Clause
//! The packed list of Redis before 7.0.
//!
//! ```text
//! list:   size in bytes (4), position of the last entry (4), number of entries or 65535 (2),
//!         entries, 255
//! entry:  size of the previous entry (1 byte, or 254 and 4 bytes), encoding, content
//! encoding:  00xxxxxx, 01xxxxxx x (2 bytes), 10...... and 4 bytes: length of a text,
//!            most significant byte first
//!            11000000, 11010000, 11100000: an integer of 2, 4 or 8 bytes; 11110000: of 3;
//!            11111110: of 1
//!            1111xxxx, xxxx from 1 to 13: that integer less 1
//! ```
//! Numbers are little-endian unless stated otherwise.

use braid_containers::listpack::{Element, Listpack};

const HEADER: usize = 10;
const END: u8 = 255;
const COUNT_UNKNOWN: u16 = u16::MAX;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The element whose encoding is at `at`, and the position after it.
fn element(bytes: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let first = *bytes.get(at)?;
    let (head, text) = match first >> 6 {
        0 => (1, Some(usize::from(first & 0x3f))),
        1 => (2, Some(usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?))),
        2 => (5, Some(u32::from_be_bytes(number(bytes, at + 1)?) as usize)),
        _ => (1, None),
    };
    let from = at + head;
    if let Some(length) = text {
        let end = from.checked_add(length)?;
        return Some((Element::Bytes(bytes.get(from..end)?), end));
    }
    let (value, size) = match first {
        0b1100_0000 => (i64::from(i16::from_le_bytes(number(bytes, from)?)), 2),
        0b1101_0000 => (i64::from(i32::from_le_bytes(number(bytes, from)?)), 4),
        0b1110_0000 => (i64::from_le_bytes(number(bytes, from)?), 8),
        0b1111_0000 => {
            let [low, middle, high] = number(bytes, from)?;
            (i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8), 3)
        }
        0b1111_1110 => (i64::from(*bytes.get(from)? as i8), 1),
        0b1111_0001..=0b1111_1101 => (i64::from(first & 0x0f) - 1, 0),
        _ => return None,
    };
    Some((Element::Int(value), from + size))
}

/// Passes the elements in order to `see`, until it returns false. `None` if the bytes are not a
/// valid list, or if `see` returned false.
pub fn read(bytes: &[u8], mut see: impl FnMut(Element<'_>) -> bool) -> Option<()> {
    let size = u32::from_le_bytes(number(bytes, 0)?) as usize;
    let last = u32::from_le_bytes(number(bytes, 4)?) as usize;
    let count = u16::from_le_bytes(number(bytes, 8)?);
    if size != bytes.len() || bytes.len() < HEADER + 1 || bytes.last() != Some(&END) {
        return None;
    }
    let content = &bytes[..size - 1];
    let (mut at, mut previous, mut before, mut entries) = (HEADER, HEADER, 0, 0usize);
    while at < content.len() {
        let (told, head) = match *content.get(at)? {
            254 => (u32::from_le_bytes(number(content, at + 1)?) as usize, 5),
            END => return None,
            short => (usize::from(short), 1),
        };
        if told != before {
            return None;
        }
        let (element, next) = element(content, at + head)?;
        if !see(element) {
            return None;
        }
        (previous, before, at) = (at, next - at, next);
        entries += 1;
    }
    let tail_is_right = last == previous || (entries == 0 && last < size);
    (tail_is_right && (count == COUNT_UNKNOWN || usize::from(count) == entries)).then_some(())
}

/// The same elements as a listpack.
pub fn to_listpack(bytes: &[u8]) -> Option<Listpack> {
    let mut list = Listpack::with_capacity(bytes.len());
    read(bytes, |element| match element {
        // Texts that are integers become integers.
        Element::Bytes(text) => list.push_back(text),
        Element::Int(number) => list.push_back_int(number),
    })?;
    list.shrink();
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        read(bytes, |element| {
            found.push(element.to_vec());
            true
        })?;
        Some(found)
    }

    /// A list with one entry of every encoding.
    fn sample() -> Vec<u8> {
        let long = [b'y'; 300];
        let mut contents: Vec<Vec<u8>> = vec![
            [&[2][..], b"ab"].concat(),
            [&[0x41, 0x2c][..], &long].concat(),
            [&[0x80, 0, 0, 0, 3][..], b"xyz"].concat(),
            vec![0xc0, 0x18, 0xfc],
            vec![0xd0, 0, 0, 1, 0],
            vec![0xe0, 0, 0, 0, 0, 1, 0, 0, 0],
            vec![0xf0, 0xff, 0xff, 0xff],
            vec![0xfe, 0x80],
            vec![0xf1],
            vec![0xfd],
        ];
        let (mut bytes, mut before, mut last) = (vec![0; HEADER], 0, HEADER);
        let count = contents.len() as u8;
        for content in &mut contents {
            last = bytes.len();
            if before < 254 {
                bytes.push(before as u8);
            } else {
                bytes.push(254);
                bytes.extend_from_slice(&(before as u32).to_le_bytes());
            }
            bytes.append(content);
            before = bytes.len() - last;
        }
        bytes.push(END);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8] = count;
        bytes
    }

    #[test]
    fn every_encoding_is_read() {
        let bytes = sample();
        let found = texts(&bytes).unwrap();
        let long = "y".repeat(300);
        let expected =
            ["ab", &long, "xyz", "-1000", "65536", "4294967296", "-1", "-128", "0", "12"].map(str::as_bytes);
        assert_eq!(found, expected);
        assert!(to_listpack(&bytes).unwrap().iter().map(|element| element.to_vec()).eq(expected));
        assert_eq!(texts(&[11, 0, 0, 0, 10, 0, 0, 0, 0, 0, 255]), Some(Vec::new()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = sample();
        for length in 0..good.len() {
            assert_eq!(texts(&good[..length]), None);
        }
        for (at, value) in [(0, 9), (4, 0), (8, 9), (10, 1), (11, 60), (11, 0xff), (good.len() - 1, 254)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(texts(&bad), None, "byte {at} = {value}");
        }
    }
}
