// SPDX-License-Identifier: BSD-3-Clause
//! Bloom filters as requests: BF.LOADCHUNK.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::chunks::{HEADER, header, piece_after};
use super::value::{Bloom, SEGMENT};

pub(super) fn rewrite(bloom: &Bloom, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    request::push(out.buffer(), &[b"BF.LOADCHUNK", name, b"1", &header(bloom)]);
    out.complete()?;
    let mut iterator = HEADER;
    while let Some((next, piece)) = piece_after(bloom, iterator, SEGMENT) {
        iterator = next;
        request::push(
            out.buffer(),
            &[b"BF.LOADCHUNK", name, itoa::Buffer::new().format(iterator).as_bytes(), &piece],
        );
        out.complete()?;
    }
    Ok(())
}
