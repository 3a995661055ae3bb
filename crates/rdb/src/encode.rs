// SPDX-License-Identifier: BSD-3-Clause
//! Encodes the elements of the format (see `decode.rs`).

use std::io::{self, Write};

use braid_base::number;

use crate::compression::Compressor;
use crate::staged::Staged;
use crate::target::Format;

/// Strings longer than this may be compressed, if that saves at least 4 bytes.
const COMPRESS_ABOVE: usize = 20;
const GAIN_MIN: usize = 4;
/// Maximum length of a string that may be a 4-byte integer.
const INTEGER_TEXT_MAX: usize = 11;

/// Writes values into a sink.
pub struct Encoder<W> {
    pub(crate) out: W,
    pub(crate) compressor: Option<Box<Compressor>>,
    pub(crate) format: Format,
    /// The buffer of [`Staged`], kept for reuse.
    pub(crate) stage: Vec<u8>,
}

/// The encoder passed to a type's own code, for one value.
pub type ValueEncoder<'w> = Encoder<Staged<'w>>;

impl<W: Write> Encoder<W> {
    /// An encoder with or without compression of strings (`rdbcompression`).
    pub fn new(out: W, compress: bool) -> Encoder<W> {
        Encoder {
            out,
            compressor: compress.then(|| Box::new(Compressor::new())),
            format: Format::default(),
            stage: Vec::new(),
        }
    }

    /// Sets the format of values.
    pub fn with_format(mut self, format: Format) -> Encoder<W> {
        self.format = format;
        self
    }

    /// Returns the sink.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// The sink.
    pub fn sink(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes raw bytes.
    ///
    /// # Errors
    /// If the sink fails.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// If the sink fails.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.bytes(&[byte])
    }

    /// A length, in its shortest form.
    ///
    /// # Errors
    /// If the sink fails.
    #[inline]
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        write_length(&mut self.out, length)
    }

    /// Writes an integer as a string value: in 1, 2 or 4 bytes if it fits, else as text.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn integer(&mut self, value: i64) -> io::Result<()> {
        if let Ok(value) = i8::try_from(value) {
            self.bytes(&[0xc0, value as u8])
        } else if let Ok(value) = i16::try_from(value) {
            let [low, high] = value.to_le_bytes();
            self.bytes(&[0xc1, low, high])
        } else if let Ok(value) = i32::try_from(value) {
            let [a, b, c, d] = value.to_le_bytes();
            self.bytes(&[0xc2, a, b, c, d])
        } else {
            let mut digits = [0; number::INTEGER_LEN_MAX];
            let text = number::write_i64(&mut digits, value);
            self.length(text.len() as u64)?;
            self.bytes(text)
        }
    }

    /// A string, in its shortest form.
    ///
    /// # Errors
    /// If the sink fails.
    #[inline]
    pub fn string(&mut self, text: &[u8]) -> io::Result<()> {
        if text.len() <= INTEGER_TEXT_MAX
            && let Some(value) = number::parse_i64(text)
            && i32::try_from(value).is_ok()
        {
            return self.integer(value);
        }
        if text.len() > COMPRESS_ABOVE
            && let Some(compressor) = &mut self.compressor
            && let Some(packed) = compressor.compress(text, text.len() - GAIN_MIN + 1)
        {
            self.out.write_all(&[0xc3])?;
            write_length(&mut self.out, packed.len() as u64)?;
            write_length(&mut self.out, text.len() as u64)?;
            return self.out.write_all(packed);
        }
        self.length(text.len() as u64)?;
        self.bytes(text)
    }

    /// A time in milliseconds.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn time_ms(&mut self, time: i64) -> io::Result<()> {
        self.bytes(&time.to_le_bytes())
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn double(&mut self, value: f64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }
}

#[inline]
fn write_length(out: &mut impl Write, length: u64) -> io::Result<()> {
    match length {
        0..=0x3f => out.write_all(&[length as u8]),
        0x40..=0x3fff => out.write_all(&[0x40 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            let [a, b, c, d] = (length as u32).to_be_bytes();
            out.write_all(&[0x80, a, b, c, d])
        }
        _ => {
            out.write_all(&[0x81])?;
            out.write_all(&length.to_be_bytes())
        }
    }
}
