// SPDX-License-Identifier: BSD-3-Clause
//! Receives data ahead of a load, so that the load does not wait for a socket while the world is
//! stopped.
//!
//! Between two records, while commands run, [`Prefetch::fill`] waits until enough data for
//! several records is buffered. Only a larger value can still make the load wait.

use std::cell::RefCell;
use std::io::{self, Read};
use std::ops::Range;

/// The buffer should be filled when it has fewer bytes.
const LOW: usize = 256 << 10;
const FULL: usize = 2 * LOW;

/// A source that can receive ahead.
pub trait Prefetch {
    /// True if [`Prefetch::fill`] should be called.
    fn is_low(&self) -> bool;
    /// Waits for enough data, or the end. Errors are reported by a later read.
    fn fill(&self);
}

/// Reads ahead from a source. Reading needs only a shared reference, so that another owner can
/// call `fill`.
pub struct PrefetchReader<R> {
    state: RefCell<State<R>>,
}

struct State<R> {
    source: R,
    /// `FULL` bytes, of which `unread` are waiting.
    bytes: Vec<u8>,
    unread: Range<usize>,
    /// The source has ended, or has failed.
    is_over: bool,
    failure: Option<io::Error>,
}

impl<R: Read> PrefetchReader<R> {
    pub fn new(source: R) -> PrefetchReader<R> {
        let bytes = vec![0; FULL];
        let state = State { source, bytes, unread: 0..0, is_over: false, failure: None };
        PrefetchReader { state: RefCell::new(state) }
    }

    /// The source, and the number of bytes taken from it but not read.
    pub fn into_source(self) -> (R, usize) {
        let state = self.state.into_inner();
        (state.source, state.unread.len())
    }
}

impl<R: Read> Prefetch for PrefetchReader<R> {
    fn is_low(&self) -> bool {
        let state = self.state.borrow();
        !state.is_over && state.unread.len() < LOW
    }

    fn fill(&self) {
        let State { source, bytes, unread, is_over, failure } = &mut *self.state.borrow_mut();
        bytes.copy_within(unread.clone(), 0);
        *unread = 0..unread.len();
        while unread.end < FULL && !*is_over {
            match source.read(&mut bytes[unread.end..]) {
                Ok(0) => *is_over = true,
                Ok(count) => unread.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (*is_over, *failure) = (true, Some(error)),
            }
        }
    }
}

impl<R: Read> Read for &PrefetchReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.state.borrow_mut();
        let count = state.unread.len().min(to.len());
        if count > 0 {
            let from = state.unread.start;
            to[..count].copy_from_slice(&state.bytes[from..from + count]);
            state.unread.start += count;
            return Ok(count);
        }
        match state.failure.take() {
            Some(failure) => Err(failure),
            None if state.is_over => Ok(0),
            None => state.source.read(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields a thousand bytes per read, and fails at the end.
    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("cut"));
            }
            let count = self.0.min(to.len()).min(1000);
            to[..count].fill(7);
            self.0 -= count;
            Ok(count)
        }
    }

    #[test]
    fn prefetched_data_is_read_before_the_failure() {
        let reader = PrefetchReader::new(Failing(FULL + 10));
        assert!(reader.is_low());
        reader.fill();
        assert!(!reader.is_low());
        let mut bytes = vec![0; FULL - 5];
        (&reader).read_exact(&mut bytes).expect("the bytes are available");
        assert!(reader.is_low() && bytes.iter().all(|byte| *byte == 7));
        reader.fill();
        assert!(!reader.is_low(), "the source has no more data");
        let mut rest = Vec::new();
        let error = (&reader).read_to_end(&mut rest).expect_err("the source fails at its end");
        assert_eq!((rest.len(), error.to_string().as_str()), (15, "cut"));
    }

    #[test]
    fn without_being_filled_it_reads_through() {
        let reader = PrefetchReader::new(&b"abcdef"[..]);
        let mut bytes = [0; 4];
        (&reader).read_exact(&mut bytes).expect("the bytes are available");
        assert_eq!((&bytes, reader.is_low()), (b"abcd", true));
        reader.fill();
        assert_eq!(reader.into_source().1, 2);
    }
}
