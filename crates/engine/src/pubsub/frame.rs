//! A message as it is sent, encoded once for all who get it.
//!
//! The forms of RESP2 and RESP3 differ in the first header only, so the rest is the same bytes for everybody.

use braid_base::blob::Blob;
use braid_resp::reply::ReplyBuffer;
use smallvec::SmallVec;

/// Messages of at least this many bytes are sent from where they are, if they came in an allocation of their own.
const SHARED_MIN: usize = 16 * 1024;

/// Short ones need no allocation of their own.
type Text = SmallVec<[u8; 96]>;

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
    /// A message of some strings, of which the last is the body; `blob` holds its bytes too if they have an allocation of their own.
    pub fn new(head: &[&[u8]], body: &[u8], blob: Option<&Blob>) -> Frame {
        let big = blob.filter(|blob| blob.len() >= SHARED_MIN).cloned();
        let inline = big.is_none().then_some(body);
        let room: usize = head.iter().chain(&inline).map(|part| encoded_len(part.len())).sum();
        let mut text = Text::with_capacity(room);
        for part in head.iter().copied().chain(inline) {
            let mut header = [0; HEADER];
            text.extend_from_slice(write_header(&mut header, part.len()));
            text.extend_from_slice(part);
            text.extend_from_slice(b"\r\n");
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
    fn room_is_neither_too_small_nor_too_large() {
        for len in [0, 1, 9, 10, 99, 100, 101, 12_345] {
            let frame = Frame::new(&[b"message", b"c"], &vec![b'x'; len], None);
            assert_eq!(frame.text.len(), encoded_len(7) + encoded_len(1) + encoded_len(len));
            assert_eq!(frame.text.capacity(), frame.text.len().max(Text::default().inline_size()), "{len}");
        }
    }
}
