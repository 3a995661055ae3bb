// SPDX-License-Identifier: BSD-3-Clause
//! The file below a [`Writer`](crate::writer::Writer): throttled, and synced piece by piece so
//! that the end of a large save does not stall the disk.

use std::fs::File;
use std::io::{self, Write};

use crate::direct_writer::DirectWriter;
use crate::throttle::Throttle;

/// Bytes between syncs.
const PIECE: u64 = 4 << 20;

/// Destination of the bytes.
pub(crate) enum Sink {
    /// A new file, synced at the end.
    File { file: File, writer: DirectWriter },
    /// Any other destination, such as a socket.
    Other(Box<dyn Write>),
}

impl Sink {
    pub(crate) fn file(file: File) -> Sink {
        let writer = DirectWriter::new(&file, 0);
        Sink::File { file, writer }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File { file, writer } => {
                if writer.room() == 0 {
                    writer.flush(file, true, 0)?;
                }
                Ok(writer.push(bytes))
            }
            Sink::Other(sink) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File { file, writer } => writer.flush(file, true, 0),
            Sink::Other(sink) => sink.flush(),
        }
    }

    /// Syncs data written through the page cache.
    fn sync(&self) -> io::Result<()> {
        match self {
            Sink::File { writer, .. } if writer.is_direct() => Ok(()),
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

/// A throttled destination; a file is synced piece by piece or only at its end.
pub(crate) struct SyncedFile {
    file: Sink,
    sync_pieces: bool,
    /// Bytes written since the last sync.
    waiting: u64,
    /// Set for background saves.
    throttle: Option<Throttle>,
}

impl SyncedFile {
    /// `sync_pieces`: sync piece by piece (`rdb-save-incremental-fsync`).
    pub(crate) fn new(file: Sink, sync_pieces: bool, throttle: Option<Throttle>) -> SyncedFile {
        SyncedFile { file, sync_pieces, waiting: 0, throttle }
    }

    /// Syncs the whole file.
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
        if let Some(throttle) = &self.throttle {
            throttle.pause_if_due();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
