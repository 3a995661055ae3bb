// SPDX-License-Identifier: BSD-3-Clause
//! A connected client as its owning thread holds it.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use braid_base::blob::Blob;
use braid_clients::ClientRecord;
use braid_engine::Session;
use braid_net::stream::Stream;
use braid_resp::error::ProtocolError;
use braid_resp::parse::RequestParser;
use braid_resp::reply::ReplyBuffer;

use crate::feed::Feed;
use crate::travel::Trip;

/// Requests of one client in a batch; it may have kept far more while it was paused.
pub const PACE_MAX: u32 = 64 * 1024;

/// A big argument on its way in.
pub struct Incoming {
    pub blob: Blob,
    /// Length of the argument; the line end behind it is received too and then cut off.
    pub len: usize,
}

impl Incoming {
    /// Bytes still to come, the line end included.
    pub fn missing(&self) -> usize {
        self.len + 2 - self.blob.len()
    }
}

/// What a watched key, a subscription or a prefix of tracked keys takes, roughly.
const NAME_BYTES: usize = 128;

/// Where execution stopped in a batch.
#[derive(Clone, Copy)]
pub enum Keep {
    /// Before the request at this offset of the client's buffer.
    Before(usize),
    /// Behind the request at this offset.
    Behind(usize),
    /// As [`Keep::Before`], because others are waiting: it goes on in the loop's next turn.
    Later(usize),
    /// Before the request at this offset, which another thread executes, and those behind it.
    Elsewhere(usize),
}

/// One client: its socket, what was received and not yet executed, what is to be sent.
pub struct Client {
    pub socket: Stream,
    pub session: Session,
    pub reply: ReplyBuffer,
    pub parser: RequestParser,
    /// Received bytes that could not be executed from the loop's shared buffer: a request's beginning.
    pub query: Vec<u8>,
    /// A big argument being received.
    pub incoming: Option<Incoming>,
    /// Big arguments of the request being received.
    pub blobs: Vec<Blob>,
    /// Its requests wait until it is resumed.
    pub postponed: bool,
    /// Its replies wait until what they tell is on disk; it is on no list of clients with something to send.
    pub awaits_disk: bool,
    /// Execution of a batch stopped at one of the client's requests: what follows is kept.
    pub keep_from: Option<Keep>,
    /// How many of its requests are put into a batch at most. Fewer than [`PACE_MAX`] once they have kept others waiting.
    pub pace: u32,
    /// To be reported, and the connection closed, when all requests before it are executed.
    pub protocol_error: Option<ProtocolError>,
    /// Polled for writing too.
    pub wants_write: bool,
    /// The connection is gone or to be dropped at once.
    pub broken: bool,
    /// On the loop's list of clients with something to send.
    pub in_write_list: bool,
    /// It has a turn in the batch in the making: nothing more of it may be parsed before that is executed.
    pub in_batch: bool,
    /// On the loop's list of clients with requests already received.
    pub in_resume_list: bool,
    /// On the loop's list of clients that hold memory or have unsent replies: the cron looks at them.
    pub lingers: bool,
    /// Since when (ms) its replies have been above the soft limit.
    pub over_soft_limit_since: Option<i64>,
    /// What of its memory counts towards `maxmemory-clients`.
    counted_bytes: i64,
    /// Commands executed or queued; the shared record is told once per batch.
    pub commands: u64,
    /// What it is fed with, as a replica.
    pub feed: Option<Box<Feed>>,
    /// What it carries while its requests are executed by another thread than the one that polls it.
    pub trip: Option<Box<Trip>>,
}

impl Client {
    /// A client that has just connected.
    pub fn new(socket: Stream, session: Session) -> Client {
        Client {
            socket,
            session,
            reply: ReplyBuffer::default(),
            parser: RequestParser::default(),
            query: Vec::new(),
            incoming: None,
            blobs: Vec::new(),
            postponed: false,
            awaits_disk: false,
            keep_from: None,
            pace: PACE_MAX,
            protocol_error: None,
            wants_write: false,
            broken: false,
            in_write_list: false,
            in_batch: false,
            in_resume_list: false,
            lingers: false,
            over_soft_limit_since: None,
            counted_bytes: 0,
            commands: 0,
            feed: None,
            trip: None,
        }
    }

    /// True while its requests, of which some have been received already, take turns with those of others, or are looked at one by one
    /// since it has not logged in: nothing more is received before these are executed.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.in_resume_list && (self.pace < PACE_MAX || !self.session.authenticated)
    }

    /// True while what it sends is kept and not looked at: its requests are postponed, or one of them waits, or the replies to those before do.
    pub fn is_held(&self) -> bool {
        self.postponed || self.awaits_disk || self.session.blocked.is_some()
    }

    /// Whether it has sent something, as far as that is known, that has not been looked at.
    pub fn has_kept(&self) -> bool {
        !self.query.is_empty() || self.incoming.is_some() || self.socket.has_received()
    }

    /// Bytes received and not yet executed.
    pub fn query_bytes(&self) -> usize {
        self.query.len() + self.incoming.as_ref().map_or(0, |incoming| incoming.blob.len())
    }

    /// Bytes of room behind what was received.
    fn query_room(&self) -> usize {
        let incoming =
            self.incoming.as_ref().map_or(0, |incoming| incoming.blob.capacity() - incoming.blob.len());
        self.query.capacity() - self.query.len() + incoming
    }

    /// Memory held for this client, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let blobs: usize = self.blobs.iter().map(|blob| blob.capacity()).sum();
        let queued = self.session.record.multi_bytes.load(Relaxed);
        let record = &self.session.record;
        let listens =
            [&record.channels, &record.patterns, &record.shard_channels].map(|count| count.load(Relaxed));
        let prefixes = self.session.tracking.as_ref().map_or(0, |tracking| tracking.prefixes.len());
        let names = self.session.watched.len() + prefixes + listens.iter().sum::<u32>() as usize;
        let fixed = size_of::<Client>() + size_of::<ClientRecord>();
        fixed
            + self.query_bytes()
            + self.query_room()
            + blobs
            + queued
            + names * NAME_BYTES
            + self.reply.memory_bytes()
            + self.socket.memory_bytes()
    }

    /// True while requests that are not executed take memory.
    pub fn holds_requests(&self) -> bool {
        let received = self.query.capacity() > 0 || self.incoming.is_some() || !self.blobs.is_empty();
        received || self.session.queue.is_some()
    }

    /// True while it holds more memory than an idle client does.
    pub fn holds_memory(&self) -> bool {
        !self.reply.is_empty() || self.holds_requests()
    }

    /// Tells the shared record the sizes of the buffers. `all`: what all clients hold together.
    pub fn publish_sizes(&mut self, all: &AtomicI64) {
        let record = &self.session.record;
        // In front of a big argument on its way in are others, which have been parsed.
        let (unparsed, parsed) = match &self.incoming {
            Some(incoming) => (incoming.blob.len(), self.query.len()),
            None => (self.query.len(), 0),
        };
        record.query_bytes.store(unparsed, Relaxed);
        record.query_free.store(self.query_room(), Relaxed);
        let blobs: usize = self.blobs.iter().map(|blob| blob.len()).sum();
        record.argument_bytes.store(parsed + blobs, Relaxed);
        let behind = self.feed.as_ref().map_or(0, |feed| feed.behind as usize);
        record.reply_bytes.store(self.reply.len() + behind, Relaxed);
        record.reply_capacity.store(self.reply.memory_bytes(), Relaxed);
        let bytes = self.memory_bytes();
        record.total_bytes.store(bytes, Relaxed);
        let counted = if self.session.no_evict || self.broken { 0 } else { bytes as i64 };
        self.count(counted, all);
    }

    /// It is about to go: its memory no longer counts.
    pub fn uncount(&mut self, all: &AtomicI64) {
        self.session.record.total_bytes.store(0, Relaxed);
        self.count(0, all);
    }

    fn count(&mut self, bytes: i64, all: &AtomicI64) {
        let before = std::mem::replace(&mut self.counted_bytes, bytes);
        if bytes != before {
            all.fetch_add(bytes - before, Relaxed);
        }
    }

    /// Gives back room that a client which has been silent for a while does not need.
    pub fn release_room(&mut self) {
        self.query.shrink_to_fit();
        if let Some(incoming) = &mut self.incoming {
            incoming.blob.shrink_to_fit();
        }
    }

    /// True when the client is to be dropped once (or even before) its replies are sent.
    pub fn is_finished(&self) -> bool {
        self.broken || (self.session.close_after_reply && !self.has_unsent())
    }

    /// The socket is to tell when it takes more.
    #[inline]
    pub fn wants_room(&self) -> bool {
        self.has_unsent() || self.feed.as_ref().is_some_and(|feed| feed.blocked)
    }

    /// Bytes wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.reply.is_empty() || self.socket.has_unsent()
    }
}
