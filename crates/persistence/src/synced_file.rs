// SPDX-License-Identifier: BSD-3-Clause
//! The file below a [`Writer`](crate::writer::Writer): forced to disk piece by piece, so that the
//! end of a large save does not stall the disk, and written at the pace of its thread.

use std::fs::File;
use std::io::{self, Write};

use crate::pace::Pace;
use crate::tail::Tail;

/// Bytes after which a file is forced to disk.
const PIECE: u64 = 4 << 20;

/// What is written to.
pub(crate) enum Sink {
    /// A new file, which is forced to disk in the end.
    File { file: File, tail: Tail },
    /// Whatever takes bytes.
    Other(Box<dyn Write>),
}

impl Sink {
    pub(crate) fn file(file: File) -> Sink {
        let tail = Tail::new(&file, 0);
        Sink::File { file, tail }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File { file, tail } => {
                if tail.room() == 0 {
                    tail.flush(file, true, 0)?;
                }
                Ok(tail.push(bytes))
            }
            Sink::Other(sink) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File { file, tail } => tail.flush(file, true, 0),
            Sink::Other(sink) => sink.flush(),
        }
    }

    /// Forces to disk what was written through the page cache.
    fn sync(&self) -> io::Result<()> {
        match self {
            Sink::File { tail, .. } if tail.is_direct() => Ok(()),
            Sink::File { file, .. } => file.sync_data(),
            Sink::Other(_) => Ok(()),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        match self {
            Sink::File { file, .. } => file.sync_all(),
            Sink::Other(_) => Ok(()),
        }
    }
}

/// A file that is forced to disk piece by piece, or only at its end; or something else that is
/// written at the same pace.
pub(crate) struct SyncedFile {
    file: Sink,
    sync_pieces: bool,
    /// Bytes written since it was last forced to disk.
    waiting: u64,
    /// Of the thread that writes beside others.
    pace: Option<Pace>,
}

impl SyncedFile {
    /// `sync_pieces`: force it to disk piece by piece (`rdb-save-incremental-fsync`).
    pub(crate) fn new(file: Sink, sync_pieces: bool, pace: Option<Pace>) -> SyncedFile {
        SyncedFile { file, sync_pieces, waiting: 0, pace }
    }

    /// Forces all of a file to disk.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.waiting += written as u64;
        if self.sync_pieces && self.waiting >= PIECE {
            self.file.sync()?;
            self.waiting = 0;
        }
        if let Some(pace) = &self.pace {
            pace.turn();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
