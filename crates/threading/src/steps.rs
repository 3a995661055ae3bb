// SPDX-License-Identifier: BSD-3-Clause
//! The three steps that every threading model is made of: read and parse, execute, write.
//!
//! HOT PATH: per request no allocation; per client and turn one receive and one send; no logging.
//!
//! They work on a [`Station`]: the clients a thread holds at the moment, its shared receive buffer and the batch in the making. A
//! model decides which thread does which step for which client, and moves clients between stations.

mod execute;
mod read;
mod write;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use braid_clients::record::UNCOUNTED_REPLY;
use braid_config::OutputLimit;
use braid_resp::reply::SpareBuffer;

use crate::batch::{Batch, Source};
use crate::client::Client;
use crate::clients::Clients;
use crate::travel::Trip;

pub use execute::Run;
pub(crate) use execute::arguments;
use read::READ_CHUNK;
pub use write::{Pushed, send};

/// The shared receive buffer.
const SHARED: usize = 512 * 1024;
/// Requests executed before the next batch is begun.
const BATCH_REQUESTS: usize = 1024;
/// Emptied batches kept for clients that leave.
const SPARE_TRIPS: usize = 256;
/// Memory kept in reply buffers for reuse, together and in the largest one.
const POOL_BYTES: usize = 4 * 1024 * 1024;
const POOLED_BYTES: usize = 512 * 1024;
/// The same while keys have to go because memory is short, and while there is little to do.
const POOL_BYTES_SHORT: usize = 64 * 1024;
const SPARE_TRIPS_CALM: usize = 4;

/// Settings read once per turn of the loop instead of once per request.
#[derive(Clone, Copy)]
pub struct Settings {
    pub bulk_len_max: u64,
    pub query_bytes_max: usize,
    pub output_limit: OutputLimit,
    /// The limit of clients that listen to channels.
    pub listener_limit: OutputLimit,
    /// Unsent bytes beyond which a client that monitors and does not read is dropped; 0 = never.
    pub monitor_bytes_max: u64,
    /// Memory is short: what is kept for later counts as well.
    pub is_short: bool,
}

impl Settings {
    /// Pending reply bytes beyond which a client is dropped at once; 0 = never.
    #[inline]
    pub fn reply_max(&self) -> usize {
        match usize::try_from(self.output_limit.hard_bytes) {
            Ok(0) | Err(_) => 0,
            Ok(hard) => hard.saturating_add(UNCOUNTED_REPLY),
        }
    }

    fn pool_max(&self) -> usize {
        if self.is_short { POOL_BYTES_SHORT } else { POOL_BYTES }
    }
}

/// Buffers without content for clients that have something to say; an idle client owns none.
#[derive(Default)]
struct ReplyPool {
    buffers: Vec<SpareBuffer>,
    bytes: usize,
}

impl ReplyPool {
    #[inline]
    fn take(&mut self) -> Option<SpareBuffer> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    #[inline]
    fn give(&mut self, buffer: SpareBuffer, bytes_max: usize) {
        let bytes = buffer.capacity();
        if bytes > 0 && bytes <= POOLED_BYTES && self.bytes + bytes <= bytes_max {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }

    /// Frees what is beyond so many bytes.
    fn trim(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.take().is_some() {}
        self.buffers.shrink_to(2 * self.buffers.len());
    }
}

/// What the steps work on.
pub struct Station {
    pub clients: Clients,
    pub batch: Batch,
    shared: Box<[u8]>,
    shared_used: usize,
    /// Clients with replies to send.
    pub to_write: Vec<u32>,
    /// Clients with requests already received.
    pub to_resume: Vec<u32>,
    /// Clients to be looked at for dropping.
    pub to_drop: Vec<u32>,
    /// Clients whose requests wait for the end of a pause.
    pub postponed: Vec<u32>,
    /// When waits of clients end: ms since the Unix epoch, and the client's place.
    pub deadlines: BTreeSet<(i64, u32)>,
    /// Clients that hold memory or have unsent replies.
    pub lingering: Vec<u32>,
    /// Clients that are to leave with the requests that they have packed, since another thread executes those.
    pub to_leave: Vec<u32>,
    /// For those who leave next.
    #[expect(clippy::vec_box, reason = "a client takes the box along")]
    spare_trips: Vec<Box<Trip>>,
    /// What of all clients' memory counts towards `maxmemory-clients`.
    pub client_bytes: Arc<AtomicI64>,
    pool: ReplyPool,
    pub settings: Settings,
}

impl Station {
    /// Goes by these settings from now on.
    pub fn follow(&mut self, settings: Settings) {
        self.settings = settings;
        if settings.is_short {
            self.pool.trim(settings.pool_max());
        }
    }

    /// Gives back what is kept for a load that is over.
    pub fn release_spare(&mut self) {
        self.pool.trim(POOL_BYTES_SHORT);
        if self.spare_trips.len() > SPARE_TRIPS_CALM {
            self.spare_trips.truncate(SPARE_TRIPS_CALM);
            self.spare_trips.shrink_to_fit();
        }
    }

    /// Keeps reply buffers of so many bytes, as if clients had needed them.
    #[cfg(test)]
    pub fn keep_spare(&mut self, bytes: usize) {
        while self.pool.bytes < bytes {
            let mut reply = braid_resp::reply::ReplyBuffer::default();
            reply.bulk(&[b'x'; 16 * 1024]);
            self.pool.give(reply.take_spare(), POOL_BYTES);
        }
    }

    /// Bytes that are kept in reply buffers for reuse.
    pub fn spare_bytes(&self) -> usize {
        self.pool.bytes
    }

    /// An empty station.
    pub fn new(settings: Settings, client_bytes: Arc<AtomicI64>) -> Station {
        Station {
            clients: Clients::default(),
            batch: Batch::default(),
            shared: vec![0; SHARED].into_boxed_slice(),
            shared_used: 0,
            to_write: Vec::new(),
            to_resume: Vec::new(),
            to_drop: Vec::new(),
            postponed: Vec::new(),
            deadlines: BTreeSet::new(),
            lingering: Vec::new(),
            to_leave: Vec::new(),
            spare_trips: Vec::new(),
            client_bytes,
            pool: ReplyPool::default(),
            settings,
        }
    }

    /// True when the batch should be executed before more is received.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.requests.len() >= BATCH_REQUESTS || self.shared.len() - self.shared_used < READ_CHUNK
    }

    /// Gives a client what was read from it, which is all that the batch holds, to take it along to another thread.
    pub fn pack(&mut self, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        let mut trip = client.trip.take().or_else(|| self.spare_trips.pop()).unwrap_or_default();
        std::mem::swap(&mut trip.batch, &mut self.batch);
        for turn in trip.batch.turns.iter_mut().filter(|turn| turn.source == Source::Shared) {
            // What is received next may overwrite it there. Nothing was in front of it, neither there nor in the client's buffer.
            client.query.extend_from_slice(&self.shared[..turn.received_end]);
            turn.source = Source::Own;
        }
        for request in trip.batch.requests.iter_mut().filter(|request| request.source == Source::Shared) {
            request.source = Source::Own;
        }
        self.shared_used = 0;
        client.trip = Some(trip);
    }

    /// Something for a client to take along.
    pub fn spare_trip(&mut self) -> Box<Trip> {
        self.spare_trips.pop().unwrap_or_default()
    }

    /// Empties the lists of clients: those who were here for a moment only are put on lists where they belong.
    pub fn forget_lists(&mut self) {
        self.to_write.clear();
        self.to_resume.clear();
        self.to_drop.clear();
        self.lingering.clear();
        self.clients.settle();
    }

    /// Keeps what a client had with it for the next one that leaves.
    pub fn keep_trip(&mut self, trip: Box<Trip>) {
        if self.spare_trips.len() < SPARE_TRIPS && trip.batch.requests.capacity() <= BATCH_REQUESTS {
            self.spare_trips.push(trip);
        }
    }

    /// Has a client without replies take a buffer along for them, which comes back to this station with it.
    pub fn lend_reply_buffer(&mut self, place: u32) {
        if let Some(client) = self.clients.get(place)
            && client.reply.is_empty()
            && let Some(spare) = self.pool.take()
        {
            client.reply.reuse(spare);
        }
    }
}

/// Puts a client on the list of those that hold memory, once.
fn linger(client: &mut Client, lingering: &mut Vec<u32>, place: u32) {
    if !client.lingers {
        client.lingers = true;
        lingering.push(place);
    }
}

/// Adds to a counter that only the calling thread changes.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

const WOULD_BLOCK: rustix::io::Errno = rustix::io::Errno::AGAIN;

/// True for errors after which accepting should pause: no descriptors, no memory.
pub fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
