// SPDX-License-Identifier: BSD-3-Clause
//! The client set: the clients that a thread currently owns, its shared receive buffer, and the
//! batch being collected. Steps one (`read.rs`) and three (`write.rs`) work on it.
//!
//! A client set belongs to one thread and is never shared; a threading model moves clients between
//! sets. Other parts of the loop refer to a client by its *place*, the index in the set's slab.
//!
//! HOT PATH: per request no allocation; per client and turn one receive and one send; no logging.

mod read;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use braid_clients::attention::MEMORY_LIMIT;
use braid_clients::record::UNCOUNTED_REPLY;
use braid_config::{ClientClass, OutputLimit};
use braid_executor::Engine;
use braid_resp::reply::{ReplyBuffer, SpareBuffer};
use read::READ_CHUNK;

use crate::batch::{Batch, ParsedInput, Source};
use crate::client::Client;
use crate::client_slab::ClientSlab;

pub use write::{Pushed, send};

/// Size of the shared receive buffer.
const SHARED_BYTES: usize = 512 * 1024;
/// Size of its stand-in while a script occupies the shared buffer.
const SHARED_BYTES_DURING_SCRIPT: usize = 4 * READ_CHUNK;
/// Requests in a batch before it is executed and a new batch starts.
const BATCH_REQUESTS: usize = 1024;
/// Empty parsed inputs kept for migrating clients.
const SPARE_INPUTS: usize = 256;
/// Bytes of reply buffers kept for reuse: in total, and the largest single buffer.
const POOL_BYTES: usize = 4 * 1024 * 1024;
const POOLED_BYTES: usize = 512 * 1024;
/// The same limits while memory is short and while the loop is idle.
const POOL_BYTES_SHORT: usize = 64 * 1024;
const SPARE_INPUTS_IDLE: usize = 4;

/// Settings read once per turn of the loop instead of once per request.
#[derive(Clone, Copy)]
pub struct Settings {
    pub bulk_len_max: u64,
    pub query_bytes_max: usize,
    pub output_limit: OutputLimit,
    /// Limit of clients that subscribe to channels.
    pub listener_limit: OutputLimit,
    /// Unsent bytes beyond which a monitor that does not read is closed; 0 means never.
    pub monitor_bytes_max: u64,
    /// The same for invalidations.
    pub tracking_bytes_max: u64,
    /// Memory is short, so buffers kept for reuse count as well.
    pub is_short: bool,
}

impl Settings {
    /// The settings as currently configured.
    pub fn of(engine: &Engine) -> Settings {
        Settings {
            bulk_len_max: engine.config.proto_max_bulk_len(),
            query_bytes_max: usize::try_from(engine.config.client_query_buffer_limit()).unwrap_or(usize::MAX),
            output_limit: engine.config.client_output_buffer_limit(ClientClass::Normal),
            listener_limit: engine.config.client_output_buffer_limit(ClientClass::Pubsub),
            monitor_bytes_max: engine.config.monitor_output_bytes(),
            tracking_bytes_max: engine.config.tracking_output_bytes(),
            is_short: Settings::is_memory_short(engine),
        }
    }

    /// Whether memory is currently short.
    #[inline]
    pub fn is_memory_short(engine: &Engine) -> bool {
        engine.attention.get() & MEMORY_LIMIT != 0 && engine.memory.over_limit.is_short()
    }

    /// Pending reply bytes beyond which a client is closed at once; 0 means never.
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

/// Empty reply buffers for clients with replies to send; an idle client owns none.
#[derive(Default)]
pub(crate) struct ReplyPool {
    buffers: Vec<SpareBuffer>,
    bytes: usize,
}

impl ReplyPool {
    /// Gives an empty reply a buffer from the pool, if there is one.
    #[inline]
    pub fn equip(&mut self, reply: &mut ReplyBuffer) {
        if reply.is_empty()
            && let Some(spare) = self.take()
        {
            reply.reuse(spare);
        }
    }

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

    /// Frees buffers beyond this many bytes.
    fn trim(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.take().is_some() {}
        self.buffers.shrink_to(2 * self.buffers.len());
    }
}

/// The clients of one thread, and the state that the steps need to serve them.
pub struct ClientSet {
    pub slab: ClientSlab,
    pub batch: Batch,
    shared: Box<[u8]>,
    shared_used: usize,
    /// Clients with replies to send.
    pub to_write: Vec<u32>,
    /// Clients with input received earlier.
    pub to_resume: Vec<u32>,
    /// Clients to check for closing.
    pub to_drop: Vec<u32>,
    /// Clients whose requests wait for the end of a pause.
    pub postponed: Vec<u32>,
    /// Clients that have just begun to wait for a limit of their user.
    pub delayed: Vec<u32>,
    /// Deadlines of clients' waits: ms since the Unix epoch, and the client's place.
    pub deadlines: BTreeSet<(i64, u32)>,
    /// Clients that hold memory or have unsent replies.
    pub tracked: Vec<u32>,
    /// Clients to migrate with their packed requests, for another thread to execute.
    pub to_migrate: Vec<u32>,
    /// Kept for the next migrating clients.
    #[expect(clippy::vec_box, reason = "the box moves with its client")]
    pub(crate) spare_inputs: Vec<Box<ParsedInput>>,
    /// Memory of all clients of the server that counts towards `maxmemory-clients`.
    pub client_bytes: Arc<AtomicI64>,
    pub(crate) pool: ReplyPool,
    pub settings: Settings,
}

impl ClientSet {
    /// A set without clients.
    pub fn new(settings: Settings, client_bytes: Arc<AtomicI64>) -> ClientSet {
        ClientSet {
            slab: ClientSlab::default(),
            batch: Batch::default(),
            shared: vec![0; SHARED_BYTES].into_boxed_slice(),
            shared_used: 0,
            to_write: Vec::new(),
            to_resume: Vec::new(),
            to_drop: Vec::new(),
            postponed: Vec::new(),
            delayed: Vec::new(),
            deadlines: BTreeSet::new(),
            tracked: Vec::new(),
            to_migrate: Vec::new(),
            spare_inputs: Vec::new(),
            client_bytes,
            pool: ReplyPool::default(),
            settings,
        }
    }

    /// Applies new settings.
    pub fn apply(&mut self, settings: Settings) {
        self.settings = settings;
        if settings.is_short {
            self.pool.trim(settings.pool_max());
        }
    }

    /// Frees buffers kept for a load that is over.
    pub fn release_spare(&mut self) {
        self.pool.trim(POOL_BYTES_SHORT);
        if self.spare_inputs.len() > SPARE_INPUTS_IDLE {
            self.spare_inputs.truncate(SPARE_INPUTS_IDLE);
            self.spare_inputs.shrink_to_fit();
        }
    }

    /// Fills the pool of reply buffers up to this many bytes, as a past load would have.
    #[cfg(test)]
    pub fn keep_spare(&mut self, bytes: usize) {
        while self.pool.bytes < bytes {
            let mut reply = ReplyBuffer::default();
            reply.bulk(&[b'x'; 16 * 1024]);
            self.pool.give(reply.take_spare(), POOL_BYTES);
        }
    }

    /// Bytes of reply buffers kept for reuse.
    pub fn spare_bytes(&self) -> usize {
        self.pool.bytes
    }

    /// True when the batch should be executed before more is received.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.requests.len() >= BATCH_REQUESTS || self.shared.len() - self.shared_used < READ_CHUNK
    }

    /// Takes the batch, and the receive buffer that it refers to, for execution.
    pub fn take_batch(&mut self) -> (Batch, Box<[u8]>) {
        self.shared_used = 0;
        (std::mem::take(&mut self.batch), std::mem::take(&mut self.shared))
    }

    /// Puts the batch and the receive buffer back for reuse.
    pub fn put_back_batch(&mut self, mut batch: Batch, shared: Box<[u8]>) {
        batch.clear();
        (self.batch, self.shared) = (batch, shared);
    }

    /// Sets up a small receive buffer while a batch that uses the real one is being executed.
    pub fn receive_during_script(&mut self) {
        if self.shared.is_empty() {
            self.shared = vec![0; SHARED_BYTES_DURING_SCRIPT].into_boxed_slice();
            self.shared_used = 0;
        }
    }

    /// Packs the batch into the client's parsed input, for another thread. The batch must hold
    /// requests of this client only.
    pub fn pack(&mut self, place: u32) {
        let Some(client) = self.slab.get(place) else { return };
        let mut input = client.input.parsed.take().or_else(|| self.spare_inputs.pop()).unwrap_or_default();
        std::mem::swap(&mut input.batch, &mut self.batch);
        for turn in input.batch.turns.iter_mut().filter(|turn| turn.source == Source::Shared) {
            // The shared buffer is about to be reused. Nothing preceded these bytes, neither
            // there nor in the client's buffer, so offsets stay valid.
            client.input.query.extend_from_slice(&self.shared[..turn.received_end]);
            turn.source = Source::Own;
        }
        for request in input.batch.requests.iter_mut().filter(|request| request.source == Source::Shared) {
            request.source = Source::Own;
        }
        self.shared_used = 0;
        client.input.parsed = Some(input);
    }

    /// An empty parsed input for a client.
    pub fn take_spare_input(&mut self) -> Box<ParsedInput> {
        self.spare_inputs.pop().unwrap_or_default()
    }

    /// Keeps an executed parsed input for the next client that migrates.
    pub fn recycle_input(&mut self, input: Box<ParsedInput>) {
        if self.spare_inputs.len() < SPARE_INPUTS && input.batch.requests.capacity() <= BATCH_REQUESTS {
            self.spare_inputs.push(input);
        }
    }

    /// Empties the lists of clients. For a set that clients only pass through: their home set puts
    /// them on its own lists.
    pub fn forget_lists(&mut self) {
        self.to_write.clear();
        self.to_resume.clear();
        self.to_drop.clear();
        self.tracked.clear();
        self.slab.recycle();
    }

    /// Gives a client that is about to migrate a reply buffer, which returns to this set with the
    /// client.
    pub fn lend_reply_buffer(&mut self, place: u32) {
        if let Some(client) = self.slab.get(place) {
            self.pool.equip(&mut client.reply);
        }
    }
}

/// Puts a client on the list of clients that hold memory, once.
pub fn track_for_cron(client: &mut Client, tracked: &mut Vec<u32>, place: u32) {
    if !client.listed.tracked {
        client.listed.tracked = true;
        tracked.push(place);
    }
}

/// Adds to a counter that only the calling thread changes.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

const WOULD_BLOCK: rustix::io::Errno = rustix::io::Errno::AGAIN;
