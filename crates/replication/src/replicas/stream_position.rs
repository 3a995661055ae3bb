// SPDX-License-Identifier: BSD-3-Clause
//! A reader's place in the journal.

use braid_journal::Reader;

/// A position in the journal. The journal keeps everything after it until this is dropped.
pub struct StreamPosition {
    reader: Option<Reader>,
    end: Option<Box<dyn FnOnce(Reader) + Send + Sync>>,
}

impl StreamPosition {
    /// The position of a reader; `end` returns the reader to its journal.
    pub fn new(reader: Reader, end: Box<dyn FnOnce(Reader) + Send + Sync>) -> StreamPosition {
        StreamPosition { reader: Some(reader), end: Some(end) }
    }

    pub fn reader(&mut self) -> Option<&mut Reader> {
        self.reader.as_mut()
    }
}

impl Drop for StreamPosition {
    fn drop(&mut self) {
        if let (Some(reader), Some(end)) = (self.reader.take(), self.end.take()) {
            end(reader);
        }
    }
}
