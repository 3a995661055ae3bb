// SPDX-License-Identifier: BSD-3-Clause
//! A reader's place in the journal.

use braid_journal::Reader;

/// A place in the journal, which keeps what lies behind it until this is dropped.
pub struct StreamPosition {
    reader: Option<Reader>,
    end: Option<Box<dyn FnOnce(Reader) + Send + Sync>>,
}

impl StreamPosition {
    /// The place of a reader; `end` gives it back to its journal.
    pub fn new(reader: Reader, end: Box<dyn FnOnce(Reader) + Send + Sync>) -> StreamPosition {
        StreamPosition { reader: Some(reader), end: Some(end) }
    }

    /// The reader.
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
