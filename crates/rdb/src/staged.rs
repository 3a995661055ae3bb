// SPDX-License-Identifier: BSD-3-Clause
//! The buffered sink that types write into.

use std::io::{self, Write};

/// Bytes staged before they are passed to the sink by a virtual call.
const STAGE: usize = 16 * 1024;

/// Any sink behind a small buffer, so that types are compiled for a single sink type and small
/// writes stay cheap.
pub struct Staged<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
}

impl<'w> Staged<'w> {
    pub(crate) fn new(out: &'w mut dyn Write, buffer: Vec<u8>) -> Staged<'w> {
        debug_assert!(buffer.is_empty());
        Staged { out, buffer }
    }

    /// Returns the buffer, emptied, for the next value.
    pub(crate) fn into_buffer(mut self) -> Vec<u8> {
        self.buffer.clear();
        self.buffer
    }
}

impl Write for Staged<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > STAGE {
            self.flush_stage()?;
            if bytes.len() >= STAGE {
                self.out.write_all(bytes)?;
                return Ok(bytes.len());
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_stage()
    }
}

impl Staged<'_> {
    pub(crate) fn flush_stage(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
