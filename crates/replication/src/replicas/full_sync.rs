// SPDX-License-Identifier: BSD-3-Clause
//! A full sync in progress: the bytes written so far, and each replica's read position.
//!
//! The writing thread writes to an unnamed file, or to memory, which keeps only bytes that some
//! replica has yet to read. When it writes to memory, the thread waits for the slowest replica,
//! unless clients would then wait for the snapshot: in that case the buffer grows, and a replica
//! that falls too far behind is disconnected by its limit (`client-output-buffer-limit`).

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_persistence::files::File;
use parking_lot::{Condvar, Mutex};

use braid_clients::Mailboxes;

use super::options::{Filter, Reads, ReplicaOptions};
use crate::history::{ID_LEN, random_id};

/// Unread bytes in memory at which the writing thread waits.
const AHEAD: u64 = 8 << 20;
/// How often the waiting thread checks whether it may continue although no replica has advanced.
const LOOK: Duration = Duration::from_millis(50);

/// The content of a full sync.
#[derive(Default)]
struct Content {
    /// The bytes in memory, and the offset of the first.
    pieces: VecDeque<Arc<Vec<u8>>>,
    first: u64,
    /// Bytes written.
    len: u64,
    /// Whether it succeeded; `None` while it is being written.
    outcome: Option<bool>,
    readers: Vec<Reader>,
    /// Loops to wake when more bytes are available.
    loops: Vec<usize>,
}

struct Reader {
    id: u64,
    position: u64,
    /// When it last took bytes, or when bytes became available, ms since the Unix epoch.
    moved_ms: i64,
}

/// One full sync, for one or more replicas.
pub struct FullSync {
    /// The journal offset of the cut.
    pub offset: u64,
    pub filter: Filter,
    /// The replicas that can read its values; `None`: all.
    reads: Option<Reads>,
    /// Its offset is known, and the journal keeps the changes after it.
    has_stream: bool,
    /// The unnamed file; `None` if the full sync is written to memory.
    file: Option<File>,
    /// End mark of a full sync whose length is unknown at its start.
    mark: String,
    content: Mutex<Content>,
    taken: Condvar,
    mailboxes: Arc<Mailboxes>,
    /// Whether the writer must not wait for readers: old forms are filling up, or it was stopped.
    must_go_on: Box<dyn Fn() -> bool + Send + Sync>,
}

/// What a replica can be sent next.
pub enum Next {
    /// These bytes, from this index on.
    Bytes(Arc<Vec<u8>>, usize),
    /// The unnamed file, with this many bytes.
    File(u64),
    /// Nothing yet. The loop's bell is rung when there is more.
    Later,
    /// Nothing more: the full sync is complete.
    End,
    /// The full sync failed.
    Failed,
}

impl FullSync {
    pub fn new(
        mailboxes: Arc<Mailboxes>,
        must_go_on: Box<dyn Fn() -> bool + Send + Sync>,
        offset: Option<u64>,
        (filter, reads): (Filter, Option<Reads>),
        file: Option<File>,
    ) -> Arc<FullSync> {
        let mark = random_id();
        debug_assert_eq!(mark.len(), ID_LEN);
        let (content, taken) = Default::default();
        let (has_stream, offset) = (offset.is_some(), offset.unwrap_or(0));
        Arc::new(FullSync {
            offset,
            filter,
            reads,
            has_stream,
            file,
            mark,
            content,
            taken,
            mailboxes,
            must_go_on,
        })
    }

    /// The mark before and after a full sync of unknown length; `None` if its length will be
    /// known.
    pub fn mark(&self) -> Option<&str> {
        self.file.is_none().then_some(&self.mark)
    }

    /// The file that it is written to, if any.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Whether this full sync suits a replica with these options.
    pub fn serves(&self, options: &ReplicaOptions) -> bool {
        let is_enough = self.has_stream || !options.needs_offset();
        let is_readable = self.reads.is_none_or(|reads| reads == options.reads());
        is_enough && is_readable && self.filter == options.filter && (self.file.is_some() || options.eof)
    }

    /// Adds a client from the first byte on. False if that byte is no longer kept, or the full
    /// sync has ended.
    pub fn join(&self, id: u64) -> bool {
        let mut content = self.content.lock();
        let may = content.first == 0 && content.outcome.is_none();
        if may {
            content.readers.push(Reader { id, position: 0, moved_ms: unix_ms() });
        }
        may
    }

    /// Removes a client.
    pub fn leave(&self, id: u64) {
        let mut content = self.content.lock();
        content.readers.retain(|reader| reader.id != id);
        content.forget();
        self.taken.notify_all();
    }

    /// What a client can be sent next; if it must wait, its loop's bell is rung later.
    pub fn next(&self, id: u64, slot: usize) -> Next {
        let mut content = self.content.lock();
        if content.outcome == Some(false) {
            return Next::Failed;
        }
        if self.file.is_some() {
            if content.outcome.is_some() {
                return Next::File(content.len);
            }
        } else if let Some(position) =
            content.readers.iter().find(|reader| reader.id == id).map(|reader| reader.position)
        {
            let mut begin = content.first;
            for piece in &content.pieces {
                let end = begin + piece.len() as u64;
                if position < end {
                    return Next::Bytes(Arc::clone(piece), (position - begin) as usize);
                }
                begin = end;
            }
            if content.outcome.is_some() {
                return Next::End;
            }
        } else {
            return Next::Failed;
        }
        if !content.loops.contains(&slot) {
            content.loops.push(slot);
        }
        Next::Later
    }

    /// Bytes in memory that a client has not been sent.
    pub fn behind(&self, id: u64) -> u64 {
        let content = self.content.lock();
        let reader = content.readers.iter().find(|reader| reader.id == id && self.file.is_none());
        reader.map_or(0, |reader| content.len - reader.position)
    }

    /// Bytes sent to a client, and bytes written so far; `None` if the client takes no part.
    pub fn sent_of(&self, id: u64) -> Option<(u64, u64)> {
        let content = self.content.lock();
        let reader = content.readers.iter().find(|reader| reader.id == id)?;
        Some((reader.position, content.len))
    }

    /// Records that a client was sent `bytes` more.
    pub fn took(&self, id: u64, bytes: u64) {
        let mut content = self.content.lock();
        if let Some(reader) = content.readers.iter_mut().find(|reader| reader.id == id) {
            reader.position += bytes;
            reader.moved_ms = unix_ms();
        }
        if self.file.is_none() {
            content.forget();
            self.taken.notify_all();
        }
    }

    /// Since when a client has taken nothing although bytes are available, ms since the Unix
    /// epoch. A file that is still being written offers no bytes.
    pub fn stalled_since_ms(&self, id: u64) -> Option<i64> {
        let content = self.content.lock();
        let can_take = self.file.is_none() || content.outcome.is_some();
        let reader = content.readers.iter().find(|reader| reader.id == id)?;
        (can_take && reader.position < content.len).then_some(reader.moved_ms)
    }

    /// Ends the full sync, as complete or failed.
    pub fn end(&self, complete: bool) {
        let mut content = self.content.lock();
        content.outcome = Some(complete);
        if self.file.is_some() {
            content.readers.iter_mut().for_each(|reader| reader.moved_ms = unix_ms());
        }
        drop(content);
        self.ring();
    }

    /// Whether it was written completely.
    pub fn is_complete(&self) -> bool {
        self.content.lock().outcome == Some(true)
    }

    fn ring(&self) {
        let loops = std::mem::take(&mut self.content.lock().loops);
        loops.into_iter().for_each(|slot| self.mailboxes[slot].ring());
    }

    /// True if no client takes part any more.
    fn is_abandoned(&self) -> bool {
        self.content.lock().readers.is_empty()
    }

    fn add(&self, bytes: &[u8]) {
        let mut content = self.content.lock();
        if self.file.is_none() {
            let (len, now_ms) = (content.len, unix_ms());
            let waiting = content.readers.iter_mut().filter(|reader| reader.position == len);
            waiting.for_each(|reader| reader.moved_ms = now_ms);
        }
        content.len += bytes.len() as u64;
        if self.file.is_none() {
            content.pieces.push_back(Arc::new(bytes.to_vec()));
        }
    }

    /// Waits while too much is unread, unless the writer must not wait.
    fn wait_for_takers(&self) {
        let mut content = self.content.lock();
        while content.waiting() > AHEAD && !(self.must_go_on)() {
            self.taken.wait_for(&mut content, LOOK);
        }
    }
}

impl Content {
    /// Frees the pieces that all readers have read.
    fn forget(&mut self) {
        let least = self.readers.iter().map(|reader| reader.position).min().unwrap_or(self.len);
        while let Some(piece) = self.pieces.front() {
            let end = self.first + piece.len() as u64;
            if end > least {
                break;
            }
            self.first = end;
            self.pieces.pop_front();
        }
    }

    /// Bytes that the slowest reader has not read.
    fn waiting(&self) -> u64 {
        self.readers.iter().map(|reader| self.len - reader.position).max().unwrap_or(0)
    }
}

/// Writes a full sync, as [`Write`].
pub struct FullSyncWriter(pub Arc<FullSync>);

impl Write for FullSyncWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let full_sync = &self.0;
        if full_sync.is_abandoned() {
            return Err(io::Error::other("no replica waits for it any longer"));
        }
        let taken = match &full_sync.file {
            Some(file) => (&mut &*file).write(bytes)?,
            None => bytes.len(),
        };
        full_sync.add(&bytes[..taken]);
        if full_sync.file.is_none() {
            full_sync.ring();
            full_sync.wait_for_takers();
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_sync() -> Arc<FullSync> {
        sync_to(None)
    }

    fn sync_to(file: Option<File>) -> Arc<FullSync> {
        let mailboxes = Arc::new(Mailboxes::new(8));
        mailboxes.make_room(8).expect("mailboxes");
        FullSync::new(mailboxes, Box::new(|| false), Some(7), (Filter::ALL, None), file)
    }

    /// Everything available to a client, in pieces of at most `most` bytes.
    fn take(full_sync: &FullSync, id: u64, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Next::Bytes(piece, from) = full_sync.next(id, 0) {
            let part = &piece[from..piece.len().min(from + most)];
            all.extend_from_slice(part);
            full_sync.took(id, part.len() as u64);
        }
        all
    }

    #[test]
    fn each_replica_reads_the_full_sync_at_its_own_pace() {
        let full_sync = new_sync();
        assert!(full_sync.join(1) && full_sync.join(2));
        let mut writer = FullSyncWriter(Arc::clone(&full_sync));
        writer.write_all(b"abcdef").expect("the writer accepts it");
        assert_eq!(take(&full_sync, 1, 4), b"abcdef");
        assert!(full_sync.join(3), "the slower replica keeps the first byte");
        assert_eq!(full_sync.behind(2), 6);
        assert_eq!(take(&full_sync, 2, 1), b"abcdef");
        writer.write_all(b"gh").expect("the writer accepts it");
        full_sync.end(true);
        assert_eq!([take(&full_sync, 1, 9), take(&full_sync, 2, 9)], [b"gh", b"gh"]);
        assert_eq!(take(&full_sync, 3, 9), b"abcdefgh");
        assert!(matches!(full_sync.next(1, 0), Next::End) && full_sync.behind(3) == 0);
        assert!(!full_sync.join(4), "the full sync has ended");
    }

    #[test]
    fn full_sync_receiver_stalls_only_while_data_is_pending() {
        let now_ms = unix_ms();
        let full_sync = new_sync();
        assert!(full_sync.join(1));
        assert_eq!(full_sync.stalled_since_ms(1), None);
        let mut writer = FullSyncWriter(Arc::clone(&full_sync));
        full_sync.content.lock().readers[0].moved_ms = 1;
        writer.write_all(b"abc").expect("the writer accepts it");
        assert!(full_sync.stalled_since_ms(1) >= Some(now_ms), "the replica had everything until now");
        full_sync.content.lock().readers[0].moved_ms = 1;
        writer.write_all(b"def").expect("the writer accepts it");
        full_sync.end(true);
        assert_eq!(full_sync.stalled_since_ms(1), Some(1));
        full_sync.took(1, 6);
        assert_eq!((full_sync.stalled_since_ms(1), full_sync.stalled_since_ms(2)), (None, None));
    }

    #[test]
    fn a_file_can_be_taken_when_it_is_complete() {
        let now_ms = unix_ms();
        let full_sync = sync_to(Some(tempfile::tempfile().expect("a file")));
        assert!(full_sync.join(1));
        full_sync.content.lock().readers[0].moved_ms = 1;
        let mut writer = FullSyncWriter(Arc::clone(&full_sync));
        writer.write_all(b"abc").expect("written");
        assert_eq!(full_sync.stalled_since_ms(1), None);
        full_sync.end(true);
        assert!(full_sync.stalled_since_ms(1) >= Some(now_ms));
        full_sync.took(1, 3);
        assert_eq!(full_sync.stalled_since_ms(1), None);
    }

    #[test]
    fn without_takers_it_ends() {
        let full_sync = new_sync();
        assert!(full_sync.join(1));
        let mut writer = FullSyncWriter(Arc::clone(&full_sync));
        writer.write_all(b"abc").expect("the writer accepts it");
        full_sync.leave(1);
        assert!(writer.write_all(b"def").is_err());
        assert!(!full_sync.join(2), "the first byte is no longer kept");
        assert!(matches!(full_sync.next(1, 0), Next::Failed));
    }
}
