// SPDX-License-Identifier: BSD-3-Clause
//! A reader's place in the journal.

use braid_journal::Reader;

/// A place in the journal, which keeps what lies behind it until this is dropped.
pub struct Place {
    reader: Option<Reader>,
    end: Option<Box<dyn FnOnce(Reader) + Send + Sync>>,
}

impl Place {
    /// The place of a reader; `end` gives it back to its journal.
    pub(super) fn new(reader: Reader, end: Box<dyn FnOnce(Reader) + Send + Sync>) -> Place {
        Place { reader: Some(reader), end: Some(end) }
    }

    /// The reader.
    pub fn reader(&mut self) -> Option<&mut Reader> {
        self.reader.as_mut()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (Some(reader), Some(end)) = (self.reader.take(), self.end.take()) {
            end(reader);
        }
    }
}
