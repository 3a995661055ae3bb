// SPDX-License-Identifier: BSD-3-Clause
//! One entry of a packed list: encoding and decoding of a value.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.
//!
//! Format (Redis's listpack, since RDB files and DUMP payloads contain it verbatim): an encoding
//! byte with the kind and often the length, the content, and the size of both, written backwards
//! ("back length"), so that the list can be walked from its end. Every reader here accepts
//! untrusted bytes and returns `None` rather than reading past their end.

use braid_base::number::parse_i64;

/// The byte that ends a list, in place of an encoding byte.
pub const END: u8 = 0xFF;

const WORD_STRING: u8 = 0xF0;
const INT_16: u8 = 0xF1;
const INT_24: u8 = 0xF2;
const INT_32: u8 = 0xF3;
const INT_64: u8 = 0xF4;

/// A value read from a packed list. An integer is stored in binary if the text is its canonical
/// form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element<'a> {
    /// A number; its text is the value.
    Int(i64),
    /// Any other bytes.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The value as text; a number is formatted into `buffer`.
    #[inline]
    pub fn text<'b>(&self, buffer: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Element::Int(number) => buffer.format(number).as_bytes(),
            Element::Bytes(bytes) => bytes,
        }
    }

    /// The value's text as an owned byte string.
    pub fn to_vec(&self) -> Vec<u8> {
        self.text(&mut itoa::Buffer::new()).to_vec()
    }

    /// Appends the value's text to `out`.
    #[inline]
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text(&mut itoa::Buffer::new()));
    }

    /// Length of the text in bytes.
    #[inline]
    pub fn text_len(&self) -> usize {
        match *self {
            Element::Int(number) => decimal_len(number),
            Element::Bytes(bytes) => bytes.len(),
        }
    }

    /// True if the value's text is `text`.
    #[inline]
    pub fn is_text(&self, text: &[u8]) -> bool {
        match *self {
            Element::Int(number) => parse_i64(text) == Some(number),
            Element::Bytes(bytes) => bytes == text,
        }
    }

    /// The value as a number, if its text is canonical.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Element::Int(number) => Some(number),
            Element::Bytes(bytes) => parse_i64(bytes),
        }
    }
}

/// Length of the decimal text of `number`.
pub fn decimal_len(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(number < 0)
}

/// An entry about to be written: `head`, then `body`, then `tail`. A number's head contains the
/// value.
pub struct Encoded<'a> {
    head: [u8; 9],
    head_len: u8,
    tail: [u8; 5],
    tail_len: u8,
    body: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// The encoding of `text`: as a number if it is a number's canonical text. `None` for texts of
    /// 4 GiB or more.
    #[inline]
    pub fn new(text: &'a [u8]) -> Option<Encoded<'a>> {
        // A canonical number has at most 20 bytes and begins with a digit or a minus sign.
        if text.len() <= 20
            && matches!(text.first(), Some(b'0'..=b'9' | b'-'))
            && let Some(number) = parse_i64(text)
        {
            return Some(Encoded::of_int(number));
        }
        Encoded::of_bytes(text)
    }

    /// The encoding of an element read from another list.
    pub fn of(element: Element<'a>) -> Option<Encoded<'a>> {
        match element {
            Element::Int(number) => Some(Encoded::of_int(number)),
            Element::Bytes(bytes) => Encoded::new(bytes),
        }
    }

    #[inline]
    fn of_bytes(body: &'a [u8]) -> Option<Encoded<'a>> {
        let mut head = [0; 9];
        let length = body.len();
        let head_len = if length < 64 {
            head[0] = 0x80 | length as u8;
            1
        } else if length < 4096 {
            head[0] = 0xE0 | (length >> 8) as u8;
            head[1] = length as u8;
            2
        } else {
            head[0] = WORD_STRING;
            head[1..5].copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
            5
        };
        Some(Encoded::with(head, head_len, body))
    }

    /// The encoding of a number, in the shortest integer form.
    #[inline]
    pub fn of_int(number: i64) -> Encoded<'static> {
        let mut head = [0; 9];
        let bytes = number.to_le_bytes();
        let head_len = if (0..=127).contains(&number) {
            head[0] = number as u8;
            1
        } else if (-4096..=4095).contains(&number) {
            head[0] = 0xC0 | ((number >> 8) & 0x1F) as u8;
            head[1] = number as u8;
            2
        } else {
            let (encoding, width) = if i16::try_from(number).is_ok() {
                (INT_16, 2)
            } else if (-(1 << 23)..1 << 23).contains(&number) {
                (INT_24, 3)
            } else if i32::try_from(number).is_ok() {
                (INT_32, 4)
            } else {
                (INT_64, 8)
            };
            head[0] = encoding;
            head[1..].copy_from_slice(&bytes);
            1 + width
        };
        Encoded::with(head, head_len, &[])
    }

    #[inline]
    fn with(head: [u8; 9], head_len: u8, body: &'a [u8]) -> Encoded<'a> {
        let mut tail = [0; 5];
        let tail_len = write_back_len(&mut tail, usize::from(head_len) + body.len());
        Encoded { head, head_len, tail, tail_len, body }
    }

    /// The bytes before the content; for a number, all bytes except the back length.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len.min(9))]
    }

    /// The content.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The back length.
    #[inline]
    pub fn tail(&self) -> &[u8] {
        &self.tail[..usize::from(self.tail_len.min(5))]
    }

    /// Length in bytes without the back length.
    #[inline]
    pub fn content_len(&self) -> usize {
        usize::from(self.head_len) + self.body.len()
    }

    /// Length in bytes of the whole entry.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an entry is never empty")]
    pub fn len(&self) -> usize {
        self.content_len() + usize::from(self.tail_len)
    }

    /// The encoding byte.
    #[inline]
    pub fn first_byte(&self) -> u8 {
        self.head[0]
    }

    /// The last eight bytes of the content, if it has as many: similar texts usually differ there.
    #[inline]
    pub fn last_bytes(&self) -> Option<[u8; 8]> {
        self.body.last_chunk().copied()
    }

    /// True if `bytes` begins with exactly this value.
    #[inline]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        // The head contains the body's length, so equal heads imply equal lengths.
        let Some((head, rest)) = bytes.split_at_checked(usize::from(self.head_len)) else { return false };
        head[0] == self.head[0] && head == self.head() && rest.get(..self.body.len()) == Some(self.body)
    }

    /// Writes the entry to the start of `to`, which must have room for it.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (head, body, tail) = (self.head(), self.body, self.tail());
        if let ([head], [tail]) = (head, tail) {
            // The common case; avoids calls for copying single bytes.
            to[0] = *head;
            to[1..1 + body.len()].copy_from_slice(body);
            to[1 + body.len()] = *tail;
            return;
        }
        let (head_to, rest) = to.split_at_mut(head.len());
        head_to.copy_from_slice(head);
        let (body_to, rest) = rest.split_at_mut(body.len());
        body_to.copy_from_slice(body);
        rest[..tail.len()].copy_from_slice(tail);
    }
}

/// Number of bytes of the back length of an entry of `length` bytes. Each step comes one short of
/// the capacity of 7 bits per byte, as in Redis; readers depend on it.
#[inline]
pub fn back_len_size(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16382 => 2,
        16383..=2097150 => 3,
        2097151..=268435454 => 4,
        _ => 5,
    }
}

#[inline]
fn write_back_len(to: &mut [u8; 5], length: usize) -> u8 {
    if length <= 127 {
        to[0] = length as u8;
        return 1;
    }
    let size = back_len_size(length);
    for (index, byte) in to.iter_mut().enumerate().take(size) {
        let group = (length >> (7 * (size - 1 - index))) as u8 & 0x7F;
        *byte = if index == 0 { group } else { group | 0x80 };
    }
    size as u8
}

/// Reads the back length that ends just before `end`: `(length, size in bytes)`.
#[inline]
pub fn read_back_len(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    let mut length = 0usize;
    for taken in 0..5 {
        let byte = *bytes.get(end.checked_sub(taken + 1)?)?;
        length |= usize::from(byte & 0x7F) << (7 * taken);
        if byte & 0x80 == 0 {
            return Some((length, taken + 1));
        }
    }
    None
}

/// Size of the entry at `at` without its back length, read from its encoding; `None` at the end
/// mark, for an unknown encoding, or if the bytes end. The content itself may still extend past
/// the end.
#[inline]
pub fn content_size(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at)?;
    Some(match first {
        0..=0x7F => 1,
        0x80..=0xBF => 1 + usize::from(first & 0x3F),
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 2 + (usize::from(first & 0x0F) << 8 | usize::from(*bytes.get(at + 1)?)),
        WORD_STRING => {
            let length = bytes.get(at + 1..at + 5)?;
            5usize.checked_add(u32::from_le_bytes(length.try_into().ok()?) as usize)?
        }
        INT_16 => 3,
        INT_24 => 4,
        INT_32 => 5,
        INT_64 => 9,
        _ => return None,
    })
}

/// Size of the whole entry at `at`, back length included.
#[inline]
pub fn entry_size(bytes: &[u8], at: usize) -> Option<usize> {
    let content = content_size(bytes, at)?;
    Some(content + back_len_size(content))
}

/// The value at `at` and the size of its whole entry.
#[inline]
pub fn decode(bytes: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let first = *bytes.get(at)?;
    let content_len = content_size(bytes, at)?;
    let content = bytes.get(at..at.checked_add(content_len)?)?;
    let element = match first {
        0..=0x7F => Element::Int(i64::from(first)),
        0x80..=0xBF => Element::Bytes(content.get(1..)?),
        0xC0..=0xDF => {
            let raw = i64::from(first & 0x1F) << 8 | i64::from(*content.get(1)?);
            Element::Int(if raw < 4096 { raw } else { raw - 8192 })
        }
        0xE0..=0xEF => Element::Bytes(content.get(2..)?),
        WORD_STRING => Element::Bytes(content.get(5..)?),
        _ => Element::Int(signed(content.get(1..)?)),
    };
    Some((element, content_len + back_len_size(content_len)))
}

/// A little-endian two's complement number of 1 to 8 bytes.
#[inline]
fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let Some(to) = wide.get_mut(..bytes.len()) else { return 0 };
    to.copy_from_slice(bytes);
    let spare = 64 - 8 * bytes.len() as u32;
    if spare == 64 { 0 } else { i64::from_le_bytes(wide) << spare >> spare }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bytes_of(text: &[u8]) -> Vec<u8> {
        let entry = Encoded::new(text).unwrap();
        let mut bytes = vec![0; entry.len()];
        entry.write(&mut bytes);
        bytes
    }

    #[test]
    fn entry_encodings_match_the_listpack_format() {
        assert_eq!(bytes_of(b"0"), [0, 1]);
        assert_eq!(bytes_of(b"127"), [127, 1]);
        assert_eq!(bytes_of(b"128"), [0xC0, 0x80, 2]);
        assert_eq!(bytes_of(b"-1"), [0xDF, 0xFF, 2]);
        assert_eq!(bytes_of(b"4096"), [0xF1, 0x00, 0x10, 3]);
        assert_eq!(bytes_of(b"-32769"), [0xF2, 0xFF, 0x7F, 0xFF, 4]);
        assert_eq!(bytes_of(b"8388608"), [0xF3, 0, 0, 0x80, 0, 5]);
        assert_eq!(bytes_of(b"-9223372036854775808"), [0xF4, 0, 0, 0, 0, 0, 0, 0, 0x80, 9]);
        assert_eq!(bytes_of(b""), [0x80, 1]);
        assert_eq!(bytes_of(b"hi"), [0x82, b'h', b'i', 3]);
        assert_eq!(bytes_of(b"007"), [0x83, b'0', b'0', b'7', 4], "not canonical, so not a number");
        assert_eq!(bytes_of(&[b'x'; 300])[..2], [0xE1, 0x2C]);
        assert_eq!(bytes_of(&[b'x'; 300])[302..], [2, 0x80 | 46], "302 backwards");
        assert_eq!(bytes_of(&[b'x'; 5000])[..5], [0xF0, 0x88, 0x13, 0, 0]);
    }

    #[test]
    fn back_lengths_round_trip_at_the_steps() {
        for length in
            [0, 1, 127, 128, 16382, 16383, 16384, 2097150, 2097151, 268435454, 268435455, 4294967300]
        {
            let mut bytes = [0; 5];
            let size = usize::from(write_back_len(&mut bytes, length));
            assert_eq!(size, back_len_size(length));
            assert_eq!(read_back_len(&bytes, size), Some((length, size)), "{length}");
        }
        assert_eq!(read_back_len(&[0x80; 9], 9), None);
        assert_eq!(read_back_len(&[0x80], 1), None);
    }

    #[test]
    fn decimal_lengths() {
        for number in [0, 9, 10, -1, -10, i64::MAX, i64::MIN, 99, 100] {
            assert_eq!(decimal_len(number), number.to_string().len());
        }
    }

    const CASES: u32 = if cfg!(miri) { 2 } else { 200 };

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
        #[test]
        fn numbers_round_trip(number: i64, shift in 0u32..64) {
            let number = number >> shift;
            let bytes = bytes_of(number.to_string().as_bytes());
            prop_assert_eq!(decode(&bytes, 0), Some((Element::Int(number), bytes.len())));
        }
        #[test]
        fn bytes_round_trip(text in vec(any::<u8>(), 0..9000)) {
            let bytes = bytes_of(&text);
            let (element, size) = decode(&bytes, 0).unwrap();
            prop_assert!(element.is_text(&text) && size == bytes.len() && element.to_vec() == text);
            let (back, taken) = read_back_len(&bytes, bytes.len()).unwrap();
            prop_assert_eq!(back + taken, bytes.len());
        }
        #[test]
        fn hostile_bytes_never_panic(bytes in vec(any::<u8>(), 0..20), at in 0usize..24) {
            let _ = (decode(&bytes, at), entry_size(&bytes, at), read_back_len(&bytes, at));
        }
    }
}
