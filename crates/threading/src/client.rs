// SPDX-License-Identifier: BSD-3-Clause
//! A connected client, as held by its owning thread: socket, session, unexecuted input and unsent
//! replies.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::blob::Blob;
use braid_clients::{ClientRecord, client_flags};
use braid_executor::Session;
use braid_net::poller::Interest;
use braid_net::stream::Stream;
use braid_resp::error::ProtocolError;
use braid_resp::parse::RequestParser;
use braid_resp::reply::ReplyBuffer;

use crate::batch::ParsedInput;
use crate::replica_output::ReplicaOutput;

/// Maximum number of requests of one client in a batch; after a pause a client may have far more.
pub const BATCH_QUOTA_MAX: u32 = 64 * 1024;

/// A big argument being received.
pub struct Incoming {
    pub blob: Blob,
    /// Length of the argument. The line end after it is received as well and then cut off.
    pub len: usize,
}

impl Incoming {
    /// Bytes still missing, including the line end.
    pub fn missing(&self) -> usize {
        self.len + 2 - self.blob.len()
    }
}

/// Approximate memory of a watched key, a subscription or a prefix of tracked keys.
const NAME_BYTES: usize = 128;

/// Where in a batch execution of a client's requests stops, and why.
#[derive(Clone, Copy)]
pub enum Deferral {
    /// Postponed: from the request at this offset of the client's buffer.
    Before(usize),
    /// Blocked: after the request at this offset, which has been executed.
    After(usize),
    /// As [`Deferral::Before`], to give other clients their turn: resumes in the loop's next
    /// turn.
    NextTurn(usize),
    /// Executed by another thread, from the request with this index in the batch.
    Elsewhere(usize),
}

/// A client's requests that are not executed yet.
pub struct Input {
    pub parser: RequestParser,
    /// Received bytes that outlive the shared receive buffer: the start of a request, or deferred
    /// input.
    pub query: Vec<u8>,
    /// A big argument being received.
    pub incoming: Option<Incoming>,
    /// Big arguments of the request being received.
    pub blobs: Vec<Blob>,
    /// Where execution of the client's requests in the current batch stopped, if it did.
    pub deferred_from: Option<Deferral>,
    /// Maximum number of the client's requests in a batch: below [`BATCH_QUOTA_MAX`] once they
    /// have kept others waiting.
    pub batch_quota: u32,
    /// Reported once all earlier requests are executed; then the connection is closed.
    pub protocol_error: Option<ProtocolError>,
    /// Parsed requests while a thread other than the client's origin executes them.
    pub parsed: Option<Box<ParsedInput>>,
}

/// Whether a client's replies are held until they are durable, and what they say.
#[derive(Default)]
pub struct Hold {
    /// The number of times that this server had lost the primary role when the client's request
    /// went to another thread, or began to wait for a key.
    pub losses: Option<u64>,
    /// Replies are held; the client is on no write list.
    pub is_on: bool,
    /// Replies are held for the members of the group: no pushes are added to them.
    pub for_members: bool,
    /// Pending replies may reveal data, because they answer commands that read or write keys.
    /// Maintained while some replies wait for members.
    pub reveals: bool,
    /// Pending replies include published messages.
    pub has_messages: bool,
}

/// The loop's lists that the client is on.
#[derive(Default)]
pub struct Listed {
    /// Clients with replies to send.
    pub to_write: bool,
    /// The client has a turn in the current batch: nothing more of its input may be parsed until
    /// the batch is executed.
    pub in_batch: bool,
    /// Clients with input received earlier.
    pub to_resume: bool,
    /// Clients that hold memory or have unsent replies; the cron visits them.
    pub tracked: bool,
}

/// How the client takes its replies.
#[derive(Default)]
pub struct Output {
    /// When the replies began to exceed the soft limit (ms since the Unix epoch).
    pub over_soft_limit_since: Option<i64>,
    /// Bytes of messages among the pending replies.
    pub push_bytes: usize,
    /// The memory of those messages, as counted in the sum of all clients.
    counted_push_bytes: i64,
    /// Bytes sent to the client so far, and since when there have been no more.
    stall: (u64, i64),
}

/// One client.
pub struct Client {
    pub socket: Stream,
    pub session: Session,
    pub reply: ReplyBuffer,
    pub input: Input,
    /// Requests are held back until `Message::Resume`.
    pub postponed: bool,
    /// See [`Client::break_off`].
    broken: bool,
    /// Polled for writing as well.
    pub wants_write: bool,
    pub listed: Listed,
    pub hold: Hold,
    pub output: Output,
    /// Commands executed or queued; copied to the shared record once per batch.
    pub commands: u64,
    /// Output to a replica, if the client is one.
    pub replica_output: Option<Box<ReplicaOutput>>,
}

impl Client {
    /// A newly connected client.
    pub fn new(socket: Stream, session: Session) -> Client {
        Client {
            socket,
            session,
            reply: ReplyBuffer::default(),
            input: Input {
                parser: RequestParser::default(),
                query: Vec::new(),
                incoming: None,
                blobs: Vec::new(),
                deferred_from: None,
                batch_quota: BATCH_QUOTA_MAX,
                protocol_error: None,
                parsed: None,
            },
            postponed: false,
            broken: false,
            wants_write: false,
            listed: Listed::default(),
            hold: Hold::default(),
            output: Output::default(),
            commands: 0,
            replica_output: None,
        }
    }

    /// True while the client's received requests take turns with those of others, or are parsed
    /// one by one before it has logged in: nothing more is received until they are executed.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.listed.to_resume && (self.input.batch_quota < BATCH_QUOTA_MAX || !self.session.authenticated)
    }

    /// True while input is only stored: the client's requests are postponed, one of them waits,
    /// or its replies are held.
    pub fn is_held(&self) -> bool {
        self.postponed || self.hold.is_on || self.session.blocked.is_some()
    }

    /// True while the client's next request waits for a limit of its user. Nothing more is received
    /// then: what it sends beyond its limits is not kept here.
    pub fn is_delayed(&self) -> bool {
        self.postponed && self.session.delayed_until_ms().is_some()
    }

    /// True between the end of such a wait and the execution of the request: what was received
    /// before comes first, or more would be received for each request than is executed.
    pub fn has_just_waited(&self) -> bool {
        !self.postponed && self.session.delayed_until_ms().is_some()
    }

    /// What the poller is to report.
    pub fn interest(&self) -> Interest {
        match (self.is_delayed(), self.wants_write) {
            (true, true) => Interest::Write,
            (true, false) => Interest::Neither,
            (false, true) => Interest::ReadWrite,
            (false, false) => Interest::Read,
        }
    }

    /// True if the client is known to have sent input that is not parsed yet.
    pub fn has_deferred_input(&self) -> bool {
        !self.input.query.is_empty() || self.input.incoming.is_some() || self.socket.has_received()
    }

    /// Bytes received and not yet executed.
    pub fn query_bytes(&self) -> usize {
        self.input.query.len() + self.input.incoming.as_ref().map_or(0, |incoming| incoming.blob.len())
    }

    /// Unused capacity of the input buffers, in bytes.
    fn query_room(&self) -> usize {
        let incoming =
            self.input.incoming.as_ref().map_or(0, |incoming| incoming.blob.capacity() - incoming.blob.len());
        self.input.query.capacity() - self.input.query.len() + incoming
    }

    /// Memory held for this client, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let blobs: usize = self.input.blobs.iter().map(|blob| blob.capacity()).sum();
        let queued = self.session.record.multi_bytes.load(Relaxed);
        let record = &self.session.record;
        let listens =
            [&record.channels, &record.patterns, &record.shard_channels].map(|count| count.load(Relaxed));
        let prefixes = self.session.listener.tracking.as_ref().map_or(0, |tracking| tracking.prefixes.len());
        let names = self.session.transaction.watched.len() + prefixes + listens.iter().sum::<u32>() as usize;
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

    /// True while unexecuted requests take memory.
    pub fn holds_requests(&self) -> bool {
        let received =
            self.input.query.capacity() > 0 || self.input.incoming.is_some() || !self.input.blobs.is_empty();
        received || self.session.transaction.queue.is_some()
    }

    /// True while the client holds more memory than an idle client.
    pub fn holds_memory(&self) -> bool {
        !self.reply.is_empty() || self.holds_requests()
    }

    /// Publishes the sizes of the buffers in the shared record. `all` is the memory of all
    /// clients together.
    pub fn publish_sizes(&mut self, all: &AtomicI64) {
        let record = &self.session.record;
        // Arguments in front of a big argument being received are parsed already.
        let (unparsed, parsed) = match &self.input.incoming {
            Some(incoming) => (incoming.blob.len(), self.input.query.len()),
            None => (self.input.query.len(), 0),
        };
        record.query_bytes.store(unparsed, Relaxed);
        record.query_free.store(self.query_room(), Relaxed);
        let blobs: usize = self.input.blobs.iter().map(|blob| blob.len()).sum();
        record.argument_bytes.store(parsed + blobs, Relaxed);
        let behind = self.replica_output.as_ref().map_or(0, |replica_output| replica_output.behind as usize);
        record.reply_bytes.store(self.reply.len() + behind, Relaxed);
        record.reply_capacity.store(self.reply.memory_bytes(), Relaxed);
        let bytes = self.memory_bytes();
        record.total_bytes.store(bytes, Relaxed);
        let is_exempt = self.session.options.no_evict || self.broken || record.has(client_flags::CLOSE_NOW);
        record.count_bytes(if is_exempt { 0 } else { bytes as i64 }, all);
    }

    /// Counts the memory of the client's unread messages in `all`, the sum of all clients.
    pub fn count_pushes(&mut self, all: &AtomicI64) {
        if self.output.push_bytes == 0 && self.output.counted_push_bytes == 0 {
            return;
        }
        let len = self.reply.len();
        // Together with the unused capacity around them, but without attached values, which others
        // may share.
        let share = (self.reply.capacity() as u128 * self.output.push_bytes.min(len) as u128)
            .checked_div(len as u128)
            .unwrap_or(0) as i64;
        let before = std::mem::replace(&mut self.output.counted_push_bytes, share);
        if share != before {
            all.fetch_add(share - before, Relaxed);
        }
    }

    /// Memory of unread messages as counted last.
    pub fn counted_push_bytes(&self) -> usize {
        usize::try_from(self.output.counted_push_bytes).unwrap_or(0)
    }

    /// Updates the number of message bytes after sending, when `before` bytes were pending: their
    /// share of what is left stays the same.
    pub fn note_sent(&mut self, before: usize) {
        if self.output.push_bytes > 0 {
            let left = self.reply.len() as u128;
            self.output.push_bytes =
                (self.output.push_bytes as u128 * left).checked_div(before as u128).unwrap_or(0) as usize;
        }
    }

    /// Milliseconds for which the client has read nothing of what is pending for it.
    pub fn stalled_ms(&mut self, now_ms: i64) -> i64 {
        let sent = self.session.record.net_out.load(Relaxed);
        if self.reply.is_empty() || self.output.stall.0 != sent {
            self.output.stall = (sent, now_ms);
        }
        now_ms - self.output.stall.1
    }

    /// Stops counting the client's memory, because the client is about to be closed.
    pub fn uncount(&mut self, all: &AtomicI64) {
        self.session.record.total_bytes.store(0, Relaxed);
        self.session.record.count_bytes(0, all);
    }

    /// Frees capacity that the client does not need after an idle period.
    pub fn release_room(&mut self) {
        self.input.query.shrink_to_fit();
        if let Some(incoming) = &mut self.input.incoming {
            incoming.blob.shrink_to_fit();
        }
    }

    /// The connection is gone or must be closed at once. From now on no element goes to the
    /// client, although it is dropped only later in the turn. The caller puts the client on the
    /// list of those to drop.
    pub fn break_off(&mut self) {
        self.broken = true;
        self.end_wait();
    }

    /// True once the client is [broken off](Client::break_off).
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Closes the client once its replies are sent. No element goes to it any more.
    pub fn close_after_reply(&mut self) {
        self.session.reply.close_after = true;
        self.end_wait();
    }

    /// Ends the client's wait without a reply. The client leaves the queues when it is dropped.
    fn end_wait(&self) {
        if let Some(blocked) = &self.session.blocked {
            blocked.claim();
        }
    }

    /// True if the client's requests in the current batch are not, or no longer, executed.
    #[inline]
    pub fn skips_requests(&self) -> bool {
        self.broken || self.input.deferred_from.is_some() || self.session.reply.close_after
    }

    /// True when the client must be closed, now or once its replies are sent.
    pub fn is_finished(&self) -> bool {
        self.broken || (self.session.reply.close_after && !self.has_unsent())
    }

    /// True if the poller should report when the socket can take more.
    #[inline]
    pub fn wants_room(&self) -> bool {
        self.has_unsent() || self.replica_output.as_ref().is_some_and(|replica_output| replica_output.blocked)
    }

    /// True while bytes wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.reply.is_empty() || self.socket.has_unsent()
    }
}
