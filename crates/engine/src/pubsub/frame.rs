//! A message as it is sent, encoded once for all who get it.
//!
//! The forms of RESP2 and RESP3 differ in the first header only, so the rest is the same bytes for everybody.

use braid_base::blob::Blob;
use braid_resp::reply::ReplyBuffer;

/// Messages of at least this many bytes are sent from where they are, if they came in an allocation of their own.
const SHARED_MIN: usize = 16 * 1024;

/// An encoded message.
#[derive(Debug)]
pub struct Frame {
    /// Elements of the array or push that it is.
    elements: usize,
    /// What comes behind the header.
    text: Box<[u8]>,
    /// The last element, if it is not part of the text.
    big: Option<Blob>,
}

impl Frame {
    /// A message of some strings, of which the last is the body; `blob` holds its bytes too if they have an allocation of their own.
    pub fn new(head: &[&[u8]], body: &[u8], blob: Option<&Blob>) -> Frame {
        let big = blob.filter(|blob| blob.len() >= SHARED_MIN).cloned();
        let inline = big.is_none().then_some(body);
        let room: usize = head.iter().chain(&inline).map(|part| part.len() + 16).sum();
        let mut text = Vec::with_capacity(room);
        for part in head.iter().copied().chain(inline) {
            put_bulk(&mut text, part);
        }
        Frame { elements: head.len() + 1, text: text.into(), big }
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

/// Encodes a string.
pub fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut digits = [0; 20];
    out.push(b'$');
    out.extend_from_slice(braid_base::number::write_i64(&mut digits, bytes.len() as i64));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
