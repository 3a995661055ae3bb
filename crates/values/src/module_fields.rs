// SPDX-License-Identifier: BSD-3-Clause
//! The fields of a module's value in dump files: a kind, then the field.
//!
//! ```text
//! 2, number     an unsigned number, as a length
//! 4, 8 bytes    a double
//! 5, string     a string, as any other in the file
//! 0             the end
//! ```
//! Each type that Redis keeps in a module reads and writes its fields with these functions.

use std::io;

use braid_rdb::{Error, ValueDecoder, ValueEncoder};

const END: u64 = 0;
const NUMBER: u64 = 2;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// Strings beyond this size are written without compression, which would need a copy of the whole.
pub const COMPRESSED_MAX: usize = 1 << 20;

pub fn write_number(out: &mut ValueEncoder<'_>, number: u64) -> io::Result<()> {
    out.length(NUMBER)?;
    out.length(number)
}

pub fn write_double(out: &mut ValueEncoder<'_>, number: f64) -> io::Result<()> {
    out.length(DOUBLE)?;
    out.double(number)
}

pub fn write_text(out: &mut ValueEncoder<'_>, text: &[u8]) -> io::Result<()> {
    out.length(STRING)?;
    out.string(text)
}

/// Writes a string that consists of pieces of `len` bytes in all.
pub fn write_pieces<P: AsRef<[u8]>>(
    out: &mut ValueEncoder<'_>,
    len: usize,
    pieces: impl Iterator<Item = P>,
) -> io::Result<()> {
    if len <= COMPRESSED_MAX {
        let mut whole = Vec::with_capacity(len);
        pieces.for_each(|piece| whole.extend_from_slice(piece.as_ref()));
        debug_assert_eq!(whole.len(), len);
        return write_text(out, &whole);
    }
    out.length(STRING)?;
    out.length(len as u64)?;
    let mut pieces = pieces;
    pieces.try_for_each(|piece| out.bytes(piece.as_ref()))
}

pub fn write_end(out: &mut ValueEncoder<'_>) -> io::Result<()> {
    out.length(END)
}

fn expect(decoder: &mut ValueDecoder<'_>, kind: u64) -> Result<(), Error> {
    let found = decoder.length()?;
    decoder.ensure(found == kind, "a module's value with a field of the wrong kind")
}

pub fn read_number(decoder: &mut ValueDecoder<'_>) -> Result<u64, Error> {
    expect(decoder, NUMBER)?;
    decoder.length()
}

pub fn read_double(decoder: &mut ValueDecoder<'_>) -> Result<f64, Error> {
    expect(decoder, DOUBLE)?;
    decoder.double()
}

pub fn read_text<'d>(decoder: &'d mut ValueDecoder<'_>) -> Result<&'d [u8], Error> {
    expect(decoder, STRING)?;
    decoder.string()
}

pub fn read_end(decoder: &mut ValueDecoder<'_>) -> Result<(), Error> {
    let found = decoder.length()?;
    decoder.ensure(found == END, "a module's value with more than its fields")
}
