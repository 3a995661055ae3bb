// SPDX-License-Identifier: BSD-3-Clause
//! Reads the elements of the format: lengths, strings, numbers.
//!
//! ```text
//! length:  00xxxxxx                        6 bits
//!          01xxxxxx xxxxxxxx              14 bits
//!          10000000 and 4 bytes           32 bits, most significant first
//!          10000001 and 8 bytes           64 bits, most significant first
//! string:  a length and that many bytes, or
//!          11000000 and 1 byte, 11000001 and 2, 11000010 and 4: an integer, least significant
//!          first
//!          11000011, compressed length, original length, compressed bytes: LZF
//! ```

use braid_base::blob::Blob;
use braid_base::number::{self, INTEGER_LEN_MAX};
use braid_containers::lzf;

use crate::error::{Error, Fault};
use crate::source::Source;

/// Content of a length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A number of bytes or elements.
    Plain(u64),
    /// An integer of this many bytes (1, 2 or 4) follows.
    Integer(usize),
    /// A compressed string follows.
    Compressed,
}

/// A string in its encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
}

/// Strings of this length and more are received into allocations of their own.
const BLOB_MIN: u64 = 64 * 1024;
/// Growth step of such an allocation when the source does not know its length.
const BLOB_STEP: usize = 1024 * 1024;

/// Reads values from a source.
pub struct Decoder<S> {
    source: S,
    /// Version of the format.
    pub version: u16,
    /// Holds the last string read, if it is not contiguous in the source.
    scratch: Vec<u8>,
}

/// The decoder passed to a type's own code, for one value.
pub type ValueDecoder<'s> = Decoder<&'s mut dyn Source>;

impl<S: Source> Decoder<S> {
    /// A decoder of a given version of the format.
    pub fn new(source: S, version: u16) -> Decoder<S> {
        Decoder { source, version, scratch: Vec::new() }
    }

    /// Reads a value with code that is compiled only for `dyn Source`.
    pub fn erased<R>(&mut self, read: impl FnOnce(&mut ValueDecoder<'_>) -> R) -> R {
        let (version, scratch) = (self.version, std::mem::take(&mut self.scratch));
        let mut inner = Decoder { source: &mut self.source as &mut dyn Source, version, scratch };
        let result = read(&mut inner);
        self.scratch = inner.scratch;
        result
    }

    pub fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the source.
    pub fn into_source(self) -> S {
        self.source
    }

    /// Number of bytes read.
    pub fn position(&self) -> u64 {
        self.source.position()
    }

    /// The error for a fault at this position.
    pub fn error(&self, fault: Fault) -> Error {
        Error { position: self.source.position(), fault }
    }

    /// The error for invalid data.
    pub fn corrupt(&self, what: &'static str) -> Error {
        self.error(Fault::Corrupt(what))
    }

    /// Checks a property of the data.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] with `what`, unless `holds` is true.
    pub fn ensure(&self, holds: bool, what: &'static str) -> Result<(), Error> {
        if holds { Ok(()) } else { Err(self.corrupt(what)) }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// If the source ends before `len` bytes, or fails.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        let position = self.source.position();
        self.source.take(len).map_err(|fault| Error { position, fault })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// If the source ends or fails.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// A length, or another encoding instead.
    ///
    /// # Errors
    /// If the source ends or fails, or the encoding is unknown.
    #[inline]
    pub fn length_field(&mut self) -> Result<Length, Error> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            2 => match first {
                0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
                0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
                _ => return Err(self.corrupt("a length in an unknown encoding")),
            },
            _ => match first & 0x3f {
                0 => Length::Integer(1),
                1 => Length::Integer(2),
                2 => Length::Integer(4),
                3 => Length::Compressed,
                _ => return Err(self.corrupt("a string in an unknown encoding")),
            },
        })
    }

    /// A length or another number.
    ///
    /// # Errors
    /// If the source ends or fails, or a string stands there.
    #[inline]
    pub fn length(&mut self) -> Result<u64, Error> {
        match self.length_field()? {
            Length::Plain(length) => Ok(length),
            _ => Err(self.corrupt("a string where a number belongs")),
        }
    }

    /// A number of elements that take at least `least` bytes each.
    ///
    /// # Errors
    /// If the source ends or fails, a string stands there, or the rest of the source is too short
    /// for so many elements.
    pub fn count(&mut self, least: u64) -> Result<usize, Error> {
        let count = self.length()?;
        if self.source.left().is_some_and(|left| count > left / least.max(1)) {
            return Err(self.error(Fault::Short));
        }
        usize::try_from(count).map_err(|_| self.error(Fault::Short))
    }

    fn integer(&mut self, width: usize) -> Result<i64, Error> {
        Ok(match width {
            1 => i64::from(i8::from_le_bytes(self.array()?)),
            2 => i64::from(i16::from_le_bytes(self.array()?)),
            _ => i64::from(i32::from_le_bytes(self.array()?)),
        })
    }

    fn size(&self, length: u64) -> Result<usize, Error> {
        usize::try_from(length).map_err(|_| self.error(Fault::Short))
    }

    fn compressed(&mut self) -> Result<Vec<u8>, Error> {
        let (packed, length) = (self.length()?, self.length()?);
        let (packed, length) = (self.size(packed)?, self.size(length)?);
        let position = self.position();
        let bytes = self.take(packed)?;
        let fault = Fault::Corrupt("a compressed string that cannot be decompressed");
        lzf::decompress(bytes, length).ok_or(Error { position, fault })
    }

    /// A string, as bytes or as the encoded integer.
    ///
    /// # Errors
    /// If the source ends before the end of the string or fails, or the string's encoding is
    /// unknown or its compressed form damaged.
    #[inline]
    pub fn text(&mut self) -> Result<Text<'_>, Error> {
        Ok(match self.length_field()? {
            Length::Plain(length) => {
                let length = self.size(length)?;
                Text::Bytes(self.take(length)?)
            }
            Length::Integer(width) => Text::Integer(self.integer(width)?),
            Length::Compressed => {
                self.scratch = self.compressed()?;
                Text::Bytes(&self.scratch)
            }
        })
    }

    /// A string.
    ///
    /// # Errors
    /// As [`Decoder::text`].
    #[inline]
    pub fn string(&mut self) -> Result<&[u8], Error> {
        Ok(match self.length_field()? {
            Length::Plain(length) => {
                let length = self.size(length)?;
                self.take(length)?
            }
            Length::Integer(width) => {
                let integer = self.integer(width)?;
                self.scratch.clear();
                self.scratch.extend_from_slice(number::write_i64(&mut [0; INTEGER_LEN_MAX], integer));
                &self.scratch
            }
            Length::Compressed => {
                self.scratch = self.compressed()?;
                &self.scratch
            }
        })
    }

    /// Reads a string into `out`.
    ///
    /// # Errors
    /// As [`Decoder::text`].
    pub fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        out.extend_from_slice(self.string()?);
        Ok(())
    }

    /// A string value; a large one is received into its own allocation.
    ///
    /// # Errors
    /// As [`Decoder::text`]. The inner `Err` is no error, but a string large enough for an
    /// allocation of its own.
    pub fn text_or_blob(&mut self) -> Result<Result<Text<'_>, Blob>, Error> {
        match self.length_field()? {
            Length::Plain(length) if length >= BLOB_MIN => {
                let position = self.position();
                if self.source.left().is_some_and(|left| length > left) {
                    return Err(self.error(Fault::Short));
                }
                let length = self.size(length)?;
                let known = self.source.left().is_some();
                let mut blob = Blob::with_capacity(if known { length } else { BLOB_STEP.min(length) });
                while blob.len() < length {
                    let (from, step) = (blob.len(), BLOB_STEP.min(length - blob.len()));
                    if blob.capacity() < from + step {
                        blob.reserve_exact(from.max(step).min(length - from));
                    }
                    blob.resize_zeroed(from + step);
                    self.source
                        .fill(&mut blob.make_mut()[from..])
                        .map_err(|fault| Error { position, fault })?;
                }
                Ok(Err(blob))
            }
            Length::Plain(length) => {
                let length = self.size(length)?;
                Ok(Ok(Text::Bytes(self.take(length)?)))
            }
            Length::Integer(width) => Ok(Ok(Text::Integer(self.integer(width)?))),
            Length::Compressed => {
                self.scratch = self.compressed()?;
                Ok(Ok(Text::Bytes(&self.scratch)))
            }
        }
    }

    /// A time in milliseconds.
    ///
    /// # Errors
    /// If the source ends or fails.
    pub fn time_ms(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A time in seconds, as written by old versions.
    ///
    /// # Errors
    /// If the source ends or fails.
    pub fn time_s(&mut self) -> Result<i32, Error> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, least significant first (the checksum of a file).
    ///
    /// # Errors
    /// If the source ends or fails.
    pub fn word(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A floating-point number in 8 bytes.
    ///
    /// # Errors
    /// If the source ends or fails.
    pub fn double(&mut self) -> Result<f64, Error> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A floating-point number as text, preceded by its length, or by a code for infinities and
    /// NaN.
    ///
    /// # Errors
    /// If the source ends or fails, or the text is not a number.
    pub fn double_text(&mut self) -> Result<f64, Error> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            length => {
                let position = self.position();
                let text = self.take(usize::from(length))?;
                let fault = Fault::Corrupt("a score that is not a number");
                number::parse_f64(text).ok_or(Error { position, fault })
            }
        }
    }
}
