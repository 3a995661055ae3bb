// SPDX-License-Identifier: BSD-3-Clause
//! A replica's stream, once the replica has received everything else.
//!
//! The loop that owns the replica's connection sends it. While that loop sleeps, another thread
//! that has made changes sends them itself, before the replies to its clients: waking the loop
//! would cost as much, and a client that has its reply could read the old value from the replica.
//! Only plain connections without compression can be shared in this way.
//!
//! The mutex keeps the order of the bytes: whoever sends holds it, and the position advances by
//! what the socket has taken.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use braid_journal::Journal;
use parking_lot::{Mutex, MutexGuard};
use rustix::net::SendFlags;

use super::stream_position::StreamPosition;
use braid_clients::{ClientRecord, client_flags};

/// The most bytes that a thread sends for the owner of the connection.
const SHARED_BYTES_MAX: u64 = 64 << 10;

/// The stream of one replica.
#[derive(Default)]
pub struct StreamOutput {
    part: Mutex<Part>,
}

/// What a sender needs.
#[derive(Default)]
pub struct Part {
    /// None before the order that names it.
    pub position: Option<StreamPosition>,
    /// The connection, for threads other than its owner.
    socket: Option<(OwnedFd, Arc<ClientRecord>)>,
    /// Other threads may send: everything up to `position` has been sent, and nothing but the
    /// stream follows.
    pub is_open: bool,
}

impl StreamOutput {
    /// Waits until no other thread is sending.
    pub fn lock(&self) -> MutexGuard<'_, Part> {
        self.part.lock()
    }

    /// Takes the connection back.
    pub fn close(&self) {
        *self.lock() = Part::default();
    }
}

impl Part {
    /// Sends the journal up to `end`. False if that is not possible now: the owner must send.
    fn send(&mut self, journal: &Journal, end: u64, sent_bytes: &AtomicU64) -> bool {
        let Part { position: Some(position), socket: Some((socket, record)), is_open: true } = self else {
            return false;
        };
        let Some(reader) = position.reader() else { return false };
        if record.has(client_flags::CLOSE_NOW) {
            // The server may be in another history by now.
            return false;
        }
        let begin = reader.position();
        if end.saturating_sub(begin) > SHARED_BYTES_MAX {
            return false;
        }
        let mut sent = 0;
        if begin < end {
            reader.read(journal, end, |piece| {
                let taken = rustix::net::send(&*socket, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                let taken = taken.unwrap_or(0);
                sent += taken as u64;
                taken
            });
            record.net_out.store(record.net_out.load(Relaxed) + sent, Relaxed);
            sent_bytes.fetch_add(sent, Relaxed);
        }
        self.is_open = reader.position() >= end;
        self.is_open
    }
}

/// The streams that any thread may send.
#[derive(Default)]
pub struct SharedStreams {
    streams: Mutex<Vec<Weak<StreamOutput>>>,
}

impl SharedStreams {
    /// Offers a stream with its connection, until the stream is dropped.
    pub fn add(&self, stream: &Arc<StreamOutput>, socket: OwnedFd, record: Arc<ClientRecord>) {
        stream.lock().socket = Some((socket, record));
        self.streams.lock().push(Arc::downgrade(stream));
    }

    /// Sends the journal up to `end` to all these replicas, and counts the bytes. False if that was
    /// not possible for one of them: the loops that own them must be woken.
    #[must_use]
    pub fn send(&self, journal: &Journal, end: u64, sent_bytes: &AtomicU64) -> bool {
        // Another thread is sending: one of the loops does it for both from now on.
        let Some(mut streams) = self.streams.try_lock() else { return false };
        let mut are_sent = true;
        streams.retain(|stream| {
            let Some(stream) = stream.upgrade() else { return false };
            // The owner is awake if it holds the lock, and looks once more before it sleeps.
            are_sent &= stream.part.try_lock().is_some_and(|mut part| part.send(journal, end, sent_bytes));
            true
        });
        are_sent
    }
}
