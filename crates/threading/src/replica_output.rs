// SPDX-License-Identifier: BSD-3-Clause
//! Replica output: a replica's connection carries the full sync and then the changes, straight
//! from the journal.
//!
//! The engine orders what to send next ([`Order`]). Everything on the connection is sent here, in
//! order: lines, full sync, stream; a replica gets no replies. `event_loop/replicas.rs`
//! calls this once per turn of the loop that owns the connection. While that loop sleeps, others
//! may send the stream ([`StreamOutput`]).
//!
//! A replica that falls behind by more than its limit (`client-output-buffer-limit replica`) is
//! disconnected, so that the journal need not keep everything for it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_config::OutputLimit;
use braid_executor::Engine;
use braid_net::stream::Stream;
use braid_replica::replicas;
use braid_replication::blocks::push_block;
use braid_replication::replicas::full_sync::Next;
use braid_replication::replicas::stream_output::Part;
use braid_replication::{FullSync, Order, Replica, StreamOutput, StreamPosition};
use rustix::io::Errno;

/// Maximum number of bytes sent to a replica in a turn of the loop, since other clients are
/// waiting.
const TURN_BYTES: usize = 1 << 20;
/// Bytes of a full sync's file that are read at a time.
const FILE_BYTES: usize = 64 << 10;
/// The maximum for a full sync, whose replica can wait longer than clients.
const FULL_SYNC_TURN_BYTES: u64 = 256 << 10;
/// Milliseconds between heartbeats to a replica that waits for its full sync.
const HEARTBEAT_MS: i64 = 1000;

/// The output of a replica's connection.
pub struct ReplicaOutput {
    replica: Arc<Replica>,
    /// Sent before anything else.
    head: Vec<u8>,
    phase: Phase,
    /// The stream and its position.
    stream: Arc<StreamOutput>,
    /// The stream has been offered to other threads.
    is_shared: bool,
    /// The socket takes no more for now.
    pub blocked: bool,
    /// Set once the following output is compressed.
    packer: Option<Packer>,
    /// Compression starts once `head` has been sent.
    begins_compression: bool,
    /// The kernel holds bytes back.
    holds: bool,
    last_heartbeat_ms: i64,
    over_soft_limit_since: Option<i64>,
    /// Bytes not yet sent.
    pub behind: u64,
}

enum Phase {
    /// Waiting for an order.
    AwaitsOrder,
    /// A full sync is being sent. `is_announced`: its length or mark has been sent. `sent`: bytes
    /// sent of a file.
    FullSync {
        full_sync: Arc<FullSync>,
        sent: u64,
        is_announced: bool,
    },
    /// The full sync has been sent, except for `head`. `marked`: its end is marked.
    Synced {
        marked: bool,
    },
    /// The replica must acknowledge the full sync.
    AwaitsAck,
    Stream,
}

/// The outcome of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    /// Everything has been sent for now.
    CaughtUp,
    /// More is pending for the next turn.
    More,
    /// The socket takes no more for now.
    Blocked,
    /// The connection must be closed.
    Close,
}

/// Context shared by all replicas of a loop in a turn.
pub struct SendContext<'e> {
    pub engine: &'e Engine,
    pub slot: usize,
    pub now_ms: i64,
    /// The offset up to which the journal may be sent.
    pub end: u64,
    /// The kernel may hold back the end of the stream until more follows (see
    /// `event_loop/pacing.rs`). If not, everything held back so far must also be sent.
    pub may_hold: bool,
    /// This server is a replica without a link to its primary, so it sends heartbeats to its own
    /// replicas.
    pub is_cut_off: bool,
}

impl ReplicaOutput {
    pub fn new(replica: Arc<Replica>, now_ms: i64) -> ReplicaOutput {
        ReplicaOutput {
            replica,
            head: Vec::new(),
            phase: Phase::AwaitsOrder,
            stream: Arc::default(),
            is_shared: false,
            blocked: false,
            packer: None,
            begins_compression: false,
            holds: false,
            last_heartbeat_ms: now_ms,
            over_soft_limit_since: None,
            behind: 0,
        }
    }

    /// Sends as much of the due data as the socket and the turn allow.
    pub fn advance(&mut self, context: &SendContext<'_>, socket: &mut Stream) -> SendOutcome {
        let stream = Arc::clone(&self.stream);
        let mut part = stream.lock();
        part.is_open = false;
        let holds = context.may_hold && matches!(self.phase, Phase::Stream) && !socket.is_tls();
        let mut sender = Sender { socket, left: TURN_BYTES, packer: self.packer.take(), sent: 0, holds };
        let mut outcome = loop {
            if let Some(outcome) = self.step(context, &mut sender, &mut part) {
                break outcome;
            }
        };
        if outcome == SendOutcome::CaughtUp && sender.has_unsent() {
            outcome = SendOutcome::Blocked;
        }
        if sender.sent > 0 {
            self.holds = sender.holds;
            let net_out = &self.replica.record.net_out;
            net_out.store(net_out.load(Relaxed) + sender.sent, Relaxed);
            context.engine.replication.sent_bytes.fetch_add(sender.sent, Relaxed);
        }
        if self.holds && !holds {
            sender.socket.push();
            self.holds = false;
        }
        self.packer = sender.packer;
        self.blocked = outcome == SendOutcome::Blocked;
        if self.blocked {
            // The kernel has enough to send and continues by itself.
            self.holds = false;
        }
        let is_plain = self.packer.is_none() && !socket.is_tls();
        if outcome == SendOutcome::CaughtUp && matches!(self.phase, Phase::Stream) && is_plain {
            part.is_open = true;
            drop(part);
            self.share(context.engine, socket);
        }
        outcome
    }

    /// Offers the stream to other threads, once.
    fn share(&mut self, engine: &Engine, socket: &Stream) {
        if !std::mem::replace(&mut self.is_shared, true) {
            match rustix::io::fcntl_dupfd_cloexec(socket, 0) {
                Ok(socket) => {
                    let record = Arc::clone(&self.replica.record);
                    engine.replication.streams.add(&self.stream, socket, record);
                }
                Err(error) => log::debug!("Only one thread can send to {}: {error}", self.replica.name()),
            }
        }
    }

    /// Takes the next step. None if another step can follow.
    fn step(
        &mut self,
        context: &SendContext<'_>,
        sender: &mut Sender<'_>,
        part: &mut Part,
    ) -> Option<SendOutcome> {
        if let Err(outcome) = sender.flush() {
            return Some(outcome);
        }
        if !self.head.is_empty() {
            match sender.send(&self.head) {
                Ok(sent) => drop(self.head.drain(..sent)),
                Err(outcome) => return Some(outcome),
            }
            if self.head.is_empty() && std::mem::take(&mut self.begins_compression) {
                sender.packer = Some(Packer::default());
            }
            return None;
        }
        match &mut self.phase {
            Phase::AwaitsOrder => self.follow_orders(context, part),
            Phase::FullSync { .. } => self.send_full_sync(context, sender),
            Phase::Synced { marked } => {
                let marked = *marked;
                self.replica.full_sync_sent(marked);
                // Writes may have been waiting for one more replica.
                replicas::count_good_replicas(context.engine, context.now_ms);
                if part.position.is_none() {
                    log::info!(
                        "Closing the connection of replica {}: its full sync is complete",
                        self.replica.name()
                    );
                    return Some(SendOutcome::Close);
                }
                log::info!("A full copy has been sent to replica {}", self.replica.name());
                self.phase = if marked { Phase::AwaitsAck } else { Phase::Stream };
                None
            }
            Phase::AwaitsAck if self.replica.awaits_acknowledgement.load(Relaxed) => {
                Some(SendOutcome::CaughtUp)
            }
            Phase::AwaitsAck => {
                self.phase = Phase::Stream;
                None
            }
            Phase::Stream => Some(self.send_stream(context, sender, part)),
        }
    }

    fn follow_orders(&mut self, context: &SendContext<'_>, part: &mut Part) -> Option<SendOutcome> {
        // A replica gets one order in its lifetime.
        let Some(order) = self.replica.orders().pop() else { return self.heartbeat(context) };
        self.begins_compression = self.replica.is_compressed();
        match order {
            Order::Stream { head, position } => {
                (self.head, part.position, self.phase) = (head.into_bytes(), Some(position), Phase::Stream);
            }
            Order::FullSync { head, full_sync, position } => {
                (self.head, part.position) = (head.into_bytes(), position);
                self.phase = Phase::FullSync { full_sync, sent: 0, is_announced: false };
            }
        }
        None
    }

    /// Shows a waiting replica that the link is alive.
    fn heartbeat(&mut self, context: &SendContext<'_>) -> Option<SendOutcome> {
        if context.now_ms - self.last_heartbeat_ms < HEARTBEAT_MS {
            return Some(SendOutcome::CaughtUp);
        }
        self.last_heartbeat_ms = context.now_ms;
        self.head.push(b'\n');
        None
    }

    fn send_full_sync(&mut self, context: &SendContext<'_>, sender: &mut Sender<'_>) -> Option<SendOutcome> {
        let Phase::FullSync { full_sync, sent, is_announced } = &mut self.phase else { return None };
        let id = self.replica.record.id;
        if let Some(mark) = full_sync.mark().filter(|_| !*is_announced) {
            *is_announced = true;
            self.head = format!("$EOF:{mark}\r\n").into_bytes();
            return None;
        }
        if sender.sent >= FULL_SYNC_TURN_BYTES {
            return Some(SendOutcome::More);
        }
        match full_sync.next(id, context.slot) {
            Next::Bytes(piece, from) => match sender.send(&piece[from..]) {
                Ok(count) => full_sync.took(id, count as u64),
                Err(outcome) => return Some(outcome),
            },
            Next::File(len) if !*is_announced => {
                *is_announced = true;
                self.head = format!("${len}\r\n").into_bytes();
            }
            Next::File(len) if *sent < len => {
                let Some(file) = full_sync.file() else { return Some(SendOutcome::Close) };
                let mut bytes = vec![0; FILE_BYTES.min((len - *sent) as usize)];
                if let Err(error) = file.read_exact_at(&mut bytes, *sent) {
                    log::warn!("Read error sending a full copy to replica: {error}");
                    return Some(SendOutcome::Close);
                }
                match sender.send(&bytes) {
                    Ok(count) => {
                        *sent += count as u64;
                        full_sync.took(id, count as u64);
                    }
                    Err(outcome) => return Some(outcome),
                }
            }
            Next::File(_) => self.end_full_sync(false),
            Next::End => {
                self.head = full_sync.mark().unwrap_or_default().into();
                self.end_full_sync(true);
            }
            // Heartbeats may precede a file, but must not occur within a stream.
            Next::Later if full_sync.file().is_some() => return self.heartbeat(context),
            Next::Later => return Some(SendOutcome::CaughtUp),
            Next::Failed => return Some(SendOutcome::Close),
        }
        None
    }

    fn end_full_sync(&mut self, marked: bool) {
        if let Phase::FullSync { full_sync, .. } =
            std::mem::replace(&mut self.phase, Phase::Synced { marked })
        {
            full_sync.leave(self.replica.record.id);
        }
    }

    fn send_stream(
        &mut self,
        context: &SendContext<'_>,
        sender: &mut Sender<'_>,
        part: &mut Part,
    ) -> SendOutcome {
        let Some(reader) = part.position.as_mut().and_then(StreamPosition::reader) else {
            return SendOutcome::Close;
        };
        let mut outcome = SendOutcome::CaughtUp;
        if reader.position() < context.end {
            reader.read(&context.engine.keyspace.journal, context.end, |piece| match sender.send(piece) {
                Ok(sent) => sent,
                Err(why) => {
                    outcome = why;
                    0
                }
            });
        }
        let all = reader.position() >= context.end;
        let keeps_alive = context.is_cut_off && self.replica.options.keepalive;
        if all && outcome == SendOutcome::CaughtUp && keeps_alive {
            // The stream is between two units.
            let _ = self.heartbeat(context);
            if !self.head.is_empty() {
                return SendOutcome::More;
            }
        }
        match outcome {
            SendOutcome::CaughtUp if !all => SendOutcome::More,
            outcome => outcome,
        }
    }

    /// Measures how far the replica is behind: unsent bytes of an in-memory full sync and of the
    /// changes.
    pub fn measure(&mut self, end: u64) -> u64 {
        let full_sync = match &self.phase {
            Phase::FullSync { full_sync, .. } => full_sync.behind(self.replica.record.id),
            _ => 0,
        };
        let mut part = self.stream.lock();
        let position =
            part.position.as_mut().and_then(StreamPosition::reader).map_or(end, |reader| reader.position());
        drop(part);
        self.behind = full_sync + end.saturating_sub(position);
        self.replica.record.reply_bytes.store(self.behind as usize, Relaxed);
        self.behind
    }

    /// Whether the replica is further behind than its limit allows.
    pub fn is_beyond(&mut self, limit: OutputLimit, now_ms: i64) -> bool {
        let hard = limit.hard_bytes > 0 && self.behind > limit.hard_bytes;
        if limit.soft_bytes == 0 || self.behind <= limit.soft_bytes {
            self.over_soft_limit_since = None;
            return hard;
        }
        let since = *self.over_soft_limit_since.get_or_insert(now_ms);
        hard || now_ms - since > i64::from(limit.soft_seconds) * 1000
    }

    /// True if the kernel holds bytes back until told to send them.
    pub fn is_holding(&self) -> bool {
        self.holds
    }

    /// True if everything has been sent, so new changes are due at once.
    pub fn is_caught_up(&self) -> bool {
        matches!(self.phase, Phase::Stream) && !self.blocked
    }
}

impl Drop for ReplicaOutput {
    fn drop(&mut self) {
        self.stream.close();
        if let Phase::FullSync { full_sync, .. } = &self.phase {
            full_sync.leave(self.replica.record.id);
        }
    }
}

/// A socket, and the number of bytes that it may still be sent in this turn.
struct Sender<'s> {
    socket: &'s mut Stream,
    left: usize,
    packer: Option<Packer>,
    /// Bytes that the socket has taken.
    sent: u64,
    /// More will follow soon.
    holds: bool,
}

/// Compresses the output of a connection.
#[derive(Default)]
struct Packer {
    /// Compressed blocks; the socket has the first `sent` bytes.
    blocks: Vec<u8>,
    sent: usize,
}

impl Sender<'_> {
    /// Sends bytes. Returns the number of bytes taken, or the reason why none were.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, SendOutcome> {
        if self.left == 0 {
            return Err(SendOutcome::More);
        }
        let part = &bytes[..bytes.len().min(self.left)];
        let taken = match &mut self.packer {
            None => self.send_raw(part)?,
            Some(_) => {
                self.send_blocks()?;
                let taken = self.packer.as_mut().map_or(0, |packer| push_block(&mut packer.blocks, part));
                match self.send_blocks() {
                    // The rest stays with the packer.
                    Ok(()) | Err(SendOutcome::Blocked) => taken,
                    Err(outcome) => return Err(outcome),
                }
            }
        };
        self.left -= taken;
        Ok(taken)
    }

    /// Sends the compressed blocks.
    fn send_blocks(&mut self) -> Result<(), SendOutcome> {
        let Some(mut packer) = self.packer.take() else { return Ok(()) };
        let mut outcome = Ok(());
        while packer.sent < packer.blocks.len() && outcome.is_ok() {
            match self.send_raw(&packer.blocks[packer.sent..]) {
                Ok(sent) => packer.sent += sent,
                Err(why) => outcome = Err(why),
            }
        }
        if packer.sent == packer.blocks.len() {
            packer.blocks.clear();
            packer.sent = 0;
        }
        self.packer = Some(packer);
        outcome
    }

    fn send_raw(&mut self, bytes: &[u8]) -> Result<usize, SendOutcome> {
        let outcome =
            if self.holds { self.socket.send_with_more_to_come(bytes) } else { self.socket.send(bytes) };
        match outcome {
            Ok(sent) => {
                self.sent += sent as u64;
                Ok(sent)
            }
            Err(Errno::AGAIN) => Err(SendOutcome::Blocked),
            Err(Errno::INTR) => Ok(0),
            Err(_) => Err(SendOutcome::Close),
        }
    }

    /// True if bytes that were taken have not been sent.
    fn has_unsent(&self) -> bool {
        self.packer.as_ref().is_some_and(|packer| !packer.blocks.is_empty()) || self.socket.has_unsent()
    }

    /// Flushes bytes that were taken earlier.
    fn flush(&mut self) -> Result<(), SendOutcome> {
        self.send_blocks()?;
        if !self.socket.has_unsent() {
            return Ok(());
        }
        match self.socket.flush() {
            Ok(()) if !self.socket.has_unsent() => Ok(()),
            Ok(()) | Err(Errno::AGAIN) => Err(SendOutcome::Blocked),
            Err(_) => Err(SendOutcome::Close),
        }
    }
}
