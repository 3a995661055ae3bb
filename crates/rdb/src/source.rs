// SPDX-License-Identifier: BSD-3-Clause
//! Sources of encoded values: bytes in memory, or a stream.

use std::io::Read;

use braid_base::crc::crc64;

use crate::error::Fault;

/// A sequence of bytes.
pub trait Source {
    /// The next `len` bytes, valid until the next call.
    ///
    /// # Errors
    /// If the source ends before, without an allocation of more than it can contain, or fails.
    fn take(&mut self, len: usize) -> Result<&[u8], Fault>;

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    /// If the source ends before, or fails.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), Fault>;

    /// Number of bytes taken.
    fn position(&self) -> u64;

    /// Upper bound of the remaining bytes, if known.
    fn left(&self) -> Option<u64>;
}

impl Source for &mut dyn Source {
    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Fault> {
        (**self).take(len)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), Fault> {
        (**self).fill(out)
    }

    fn position(&self) -> u64 {
        (**self).position()
    }

    fn left(&self) -> Option<u64> {
        (**self).left()
    }
}

/// Bytes in memory.
pub struct Bytes<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, position: 0 }
    }
}

impl Source for Bytes<'_> {
    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Fault> {
        let end = self.position.checked_add(len).ok_or(Fault::Short)?;
        let taken = self.bytes.get(self.position..end).ok_or(Fault::Short)?;
        self.position = end;
        Ok(taken)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), Fault> {
        out.copy_from_slice(self.take(out.len())?);
        Ok(())
    }

    fn position(&self) -> u64 {
        self.position as u64
    }

    fn left(&self) -> Option<u64> {
        Some((self.bytes.len() - self.position) as u64)
    }
}

/// The size of a stream's buffer, and its growth step: a false length allocates no more than this
/// beyond the bytes that actually arrive.
const STEP: usize = 256 * 1024;

/// A buffered stream; computes the checksum of the bytes taken.
pub struct Stream<R> {
    inner: R,
    /// Bytes read, of which `start..end` are not yet taken.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes up to here are included in `crc`.
    summed: usize,
    crc: u64,
    /// Start of the bytes to keep, if any.
    mark: Option<usize>,
    /// Position in the stream of the buffer's first byte.
    base: u64,
    /// Length of the stream, if known.
    len: Option<u64>,
    checks: bool,
}

impl<R: Read> Stream<R> {
    /// A stream of `len` bytes, if the length is known. Without `checks` no checksum is computed.
    pub fn new(inner: R, len: Option<u64>, checks: bool) -> Stream<R> {
        Stream {
            inner,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            summed: 0,
            crc: 0,
            mark: None,
            base: 0,
            len,
            checks,
        }
    }

    /// CRC-64 of all bytes taken.
    pub fn checksum(&mut self) -> u64 {
        self.sum_up_to(self.start);
        self.crc
    }

    fn sum_up_to(&mut self, end: usize) {
        if self.checks {
            self.crc = crc64(self.crc, &self.buffer[self.summed..end]);
        }
        self.summed = end;
    }

    /// Keeps the bytes taken from now on, until [`Stream::taken`] or [`Stream::take_back`].
    pub fn keep(&mut self) {
        self.mark = Some(self.start);
    }

    /// Returns the bytes taken since [`Stream::keep`], and stops keeping them.
    pub fn taken(&mut self) -> &[u8] {
        let from = self.mark.take().unwrap_or(self.start);
        &self.buffer[from..self.start]
    }

    /// Returns the bytes taken since [`Stream::keep`] to the stream, to be taken again.
    pub fn take_back(&mut self) {
        self.start = self.mark.take().unwrap_or(self.start);
    }

    /// The bytes read but not taken, and the stream.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.buffer[self.start..self.end].to_vec(), self.inner)
    }

    /// Drops the bytes taken, to make room at the end.
    fn compact(&mut self) {
        let from = self.mark.unwrap_or(self.start);
        // Bytes that may be taken back are not summed yet.
        self.sum_up_to(from);
        self.base += from as u64;
        self.buffer.copy_within(from..self.end, 0);
        (self.end, self.start, self.summed) = (self.end - from, self.start - from, 0);
        self.mark = self.mark.map(|_| 0);
    }

    #[cold]
    fn read_more(&mut self, len: usize) -> Result<(), Fault> {
        if self.left().is_some_and(|left| left < len as u64) {
            return Err(Fault::Short);
        }
        self.compact();
        while self.end - self.start < len {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end + STEP, 0);
            }
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(Fault::Short),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Frees the memory to which a large value grew the buffer.
    fn shrink(&mut self) {
        if self.buffer.len() > 4 * STEP && self.end - self.start <= STEP {
            self.compact();
            self.buffer.truncate(STEP.max(self.end));
            self.buffer.shrink_to_fit();
        }
    }
}

impl<R: Read> Source for Stream<R> {
    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Fault> {
        if self.end - self.start < len {
            self.shrink();
            self.read_more(len)?;
        }
        let from = self.start;
        self.start += len;
        Ok(&self.buffer[from..self.start])
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), Fault> {
        for piece in out.chunks_mut(STEP) {
            piece.copy_from_slice(self.take(piece.len())?);
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    fn left(&self) -> Option<u64> {
        self.len.map(|len| len.saturating_sub(self.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields a few bytes at a time.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = out.len().min(7).min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn stream_yields_its_bytes_and_checksum() {
        let data: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
        let mut stream = Stream::new(Drip(&data), Some(data.len() as u64), true);
        assert_eq!(stream.take(3).unwrap(), &data[..3]);
        assert_eq!(stream.checksum(), crc64(0, &data[..3]));
        let mut middle = vec![0; 270_000];
        stream.fill(&mut middle).unwrap();
        assert_eq!(middle, &data[3..270_003]);
        assert_eq!((stream.position(), stream.left()), (270_003, Some(29_997)));
        assert!(matches!(stream.take(29_998), Err(Fault::Short)));
        assert_eq!(stream.take(29_997).unwrap(), &data[270_003..]);
        assert_eq!(stream.checksum(), crc64(0, &data));
        assert!(matches!(stream.take(1), Err(Fault::Short)));
    }

    #[test]
    fn a_false_length_takes_no_memory() {
        let mut stream = Stream::new(Drip(b"few"), None, true);
        assert!(matches!(stream.take(usize::MAX / 2), Err(Fault::Short)));
        assert!(stream.buffer.capacity() <= 2 * STEP);
        assert!(matches!(Bytes::new(b"few").take(usize::MAX), Err(Fault::Short)));
    }
}
