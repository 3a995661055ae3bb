// SPDX-License-Identifier: BSD-3-Clause
//! Arrays as requests: ARRING for the size of a ring, ARSET for texts in a row, ARSEEK.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::value::Array;

/// Texts in a request at most, and about how many bytes.
const TEXTS_MAX: usize = 64;
const BYTES_MAX: usize = 64 << 10;

pub(super) fn rewrite(array: &Array, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let mut number = itoa::Buffer::new();
    if array.ring() != 0 {
        // It writes index 0, which is set or removed below.
        let size = number.format(array.ring());
        request::push(out.buffer(), &[b"ARRING", name, size.as_bytes(), b""]);
        out.complete()?;
    }
    let mut row: Vec<&[u8]> = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (index, text) in array.iter() {
        let follows = first + row.len() as u64 == index;
        if !row.is_empty() && (!follows || row.len() == TEXTS_MAX || bytes > BYTES_MAX) {
            push_row(out, name, first, &row)?;
            row.clear();
        }
        if row.is_empty() {
            (first, bytes) = (index, 0);
        }
        row.push(text.bytes());
        bytes += text.bytes().len();
    }
    push_row(out, name, first, &row)?;
    if array.ring() != 0 && array.get(0).is_none() {
        request::push(out.buffer(), &[b"ARDEL", name, b"0"]);
        out.complete()?;
    }
    let cursor = number.format(array.cursor());
    request::push(out.buffer(), &[b"ARSEEK", name, cursor.as_bytes()]);
    out.complete()
}

fn push_row(out: &mut dyn RequestSink, name: &[u8], first: u64, row: &[&[u8]]) -> io::Result<()> {
    let mut number = itoa::Buffer::new();
    let head: [&[u8]; 3] = [b"ARSET", name, number.format(first).as_bytes()];
    let args: Vec<&[u8]> = head.into_iter().chain(row.iter().copied()).collect();
    request::push(out.buffer(), &args);
    out.complete()
}
