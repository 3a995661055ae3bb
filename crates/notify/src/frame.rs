// SPDX-License-Identifier: BSD-3-Clause
//! A message as it is sent, encoded once for all who get it.
//!
//! The forms of RESP2 and RESP3 differ in the first header only, so the rest is the same bytes for everybody.

use braid_base::blob::Blob;
use braid_resp::reply::ReplyBuffer;
use smallvec::SmallVec;

/// Messages of at least this many bytes are sent from where they are, if they came in an allocation
/// of their own.
const SHARED_MIN: usize = 16 * 1024;

/// Texts of so many bytes need no allocation of their own.
const INLINE: usize = 96;
type Text = SmallVec<[u8; INLINE]>;

/// An encoded message.
#[derive(Debug)]
pub struct Frame {
    /// Elements of the array or push that it is.
    elements: usize,
    /// What comes behind the header.
    text: Text,
    /// The last element, if it is not part of the text.
    big: Option<Blob>,
}

impl Frame {
    /// A message of some strings, of which the last is the body; `blob` holds its bytes too if they
    /// have an allocation of their own.
    pub fn new(head: &[&[u8]], body: &[u8], blob: Option<&Blob>) -> Frame {
        let big = blob.filter(|blob| blob.len() >= SHARED_MIN).cloned();
        let inline = big.is_none().then_some(body);
        let room: usize = head.iter().chain(&inline).map(|part| encoded_len(part.len())).sum();
        let mut text = if room <= INLINE {
            Text::from_buf_and_len([0; INLINE], room)
        } else {
            Text::from_vec(vec![0; room])
        };
        let mut rest = &mut text[..];
        for part in head.iter().copied().chain(inline) {
            let mut header = [0; HEADER];
            rest = put(rest, write_header(&mut header, part.len()));
            rest = put(rest, part);
            rest = put(rest, b"\r\n");
        }
        Frame { elements: head.len() + 1, text, big }
    }

    /// A message of `elements` whose encoding, without the header, is given.
    pub fn encoded(elements: usize, text: Vec<u8>) -> Frame {
        Frame { elements, text: text.into(), big: None }
    }

    /// Adds it to what a client is sent.
    pub fn write(&self, reply: &mut ReplyBuffer) {
        reply.push(self.elements);
        reply.raw(&self.text);
        if let Some(big) = &self.big {
            reply.bulk_blob(big);
        }
    }
}

/// Bytes that a string of so many takes when it is encoded.
fn encoded_len(len: usize) -> usize {
    let digits = len.checked_ilog10().map_or(1, |log| log as usize + 1);
    1 + digits + 2 + len + 2
}

/// Writes bytes to the front of what is to be written; what is left of that.
#[inline]
fn put<'a>(rest: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (front, rest) = rest.split_at_mut(bytes.len());
    front.copy_from_slice(bytes);
    rest
}

/// Bytes of the longest header.
const HEADER: usize = 24;

/// What stands in front of a string of so many bytes.
#[inline]
fn write_header(header: &mut [u8; HEADER], len: usize) -> &[u8] {
    let (mut rest, mut at) = (len, HEADER - 2);
    header[at..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        header[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    at -= 1;
    header[at] = b'$';
    &header[at..]
}

/// Encodes a string.
pub fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut header = [0; HEADER];
    out.extend_from_slice(write_header(&mut header, bytes.len()));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        for len in [0, 7, 10, 4_321, usize::MAX] {
            assert_eq!(write_header(&mut [0; HEADER], len), format!("${len}\r\n").as_bytes());
        }
    }

    #[test]
    fn the_room_is_just_what_is_written() {
        for len in [0, 1, 9, 10, 62, 63, 64, 65, 99, 100, 101, 12_345] {
            let body = vec![b'x'; len];
            let frame = Frame::new(&[b"message", b"c"], &body, None);
            let mut expected = Vec::new();
            for part in [&b"message"[..], b"c", &body] {
                put_bulk(&mut expected, part);
            }
            assert_eq!(&frame.text[..], expected, "{len}");
        }
    }
}
