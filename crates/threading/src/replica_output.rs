// SPDX-License-Identifier: BSD-3-Clause
//! Feeding replicas: the loop that owns a replica's connection sends it its full copy, and then the changes, straight out of the journal.
//!
//! What a replica is to be sent next is told by the engine ([`Order`]). Everything on its connection is sent here, in order: lines, copy, stream; it has
//! no replies. A loop that has sent all there is has its bell rung when there is more; who appends to the journal looks at one word for that, and
//! only the first one after a loop has fallen asleep does more.
//!
//! A replica that falls so far behind that its limit is exceeded (`client-output-buffer-limit replica`) is cut off, so that the journal need not keep
//! everything for it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_config::{ClientClass, OutputLimit};
use braid_engine::Engine;
use braid_engine::replication::copy::{Copy, Next};
use braid_engine::replication::{Order, Place, Replica};
use braid_net::stream::Stream;
use rustix::io::Errno;

use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::models::Model;

/// Bytes sent to a replica in a turn of the loop: others are waiting.
const TURN_BYTES: usize = 1 << 20;
/// Bytes read from a copy's file at once.
const FILE_BYTES: usize = 64 << 10;
/// A replica that waits for its copy is shown so often, in ms, that the link is alive.
const BEAT_MS: i64 = 1000;

/// What a replica's connection is fed with.
pub struct Feed {
    replica: Arc<Replica>,
    /// Sent before anything else.
    head: Vec<u8>,
    at: At,
    place: Option<Place>,
    /// The socket takes no more for now.
    pub blocked: bool,
    beaten_ms: i64,
    over_soft_limit_since: Option<i64>,
    /// Bytes that it has not been sent.
    pub behind: u64,
}

enum At {
    /// It waits to be told.
    Waits,
    /// A copy of which so many bytes have been sent, if it is a file; its length has been said.
    Copy {
        copy: Arc<Copy>,
        sent: u64,
        is_announced: bool,
    },
    /// The copy has been sent, once `head` is. Its end was marked.
    Copied {
        marked: bool,
    },
    /// The copy is to be acknowledged.
    Acknowledges,
    Stream,
}

/// What came of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fed {
    /// There is nothing more for now.
    All,
    /// There is more for the next turn.
    More,
    /// The socket takes no more for now.
    Blocked,
    /// The connection is to be closed.
    Over,
}

/// What a feed works with.
struct Table<'e> {
    engine: &'e Engine,
    slot: usize,
    now_ms: i64,
    /// How far the journal may be sent.
    end: u64,
}

impl Feed {
    fn new(replica: Arc<Replica>, now_ms: i64) -> Feed {
        Feed {
            replica,
            head: Vec::new(),
            at: At::Waits,
            place: None,
            blocked: false,
            beaten_ms: now_ms,
            over_soft_limit_since: None,
            behind: 0,
        }
    }

    /// Sends what there is, as much as socket and turn allow.
    fn advance(&mut self, table: &Table<'_>, socket: &mut Stream) -> Fed {
        let mut sender = Sender { socket, left: TURN_BYTES };
        let fed = loop {
            if let Some(fed) = self.step(table, &mut sender) {
                break fed;
            }
        };
        let sent = TURN_BYTES - sender.left;
        if sent > 0 {
            let net_out = &self.replica.record.net_out;
            net_out.store(net_out.load(Relaxed) + sent as u64, Relaxed);
            table.engine.replication.sent_bytes.fetch_add(sent as u64, Relaxed);
        }
        self.blocked = fed == Fed::Blocked;
        fed
    }

    /// Does the next thing; nothing if there is another one to be done.
    fn step(&mut self, table: &Table<'_>, sender: &mut Sender<'_>) -> Option<Fed> {
        if let Err(fed) = sender.flush() {
            return Some(fed);
        }
        if !self.head.is_empty() {
            match sender.send(&self.head) {
                Ok(sent) => drop(self.head.drain(..sent)),
                Err(fed) => return Some(fed),
            }
            return None;
        }
        match &mut self.at {
            At::Waits => self.follow_orders(table),
            At::Copy { .. } => self.send_copy(table, sender),
            At::Copied { marked } => {
                let marked = *marked;
                self.replica.has_copy(marked);
                if self.place.is_none() {
                    log::info!(
                        "Close the connection with replica {} as its copy is complete",
                        self.replica.name()
                    );
                    return Some(Fed::Over);
                }
                log::info!("Synchronization with replica {} succeeded", self.replica.name());
                self.at = if marked { At::Acknowledges } else { At::Stream };
                None
            }
            At::Acknowledges if self.replica.awaits_acknowledgement.load(Relaxed) => Some(Fed::All),
            At::Acknowledges => {
                self.at = At::Stream;
                None
            }
            At::Stream => Some(self.send_stream(table, sender)),
        }
    }

    fn follow_orders(&mut self, table: &Table<'_>) -> Option<Fed> {
        // One comes in a replica's life.
        let Some(order) = self.replica.orders().pop() else { return self.beat(table) };
        match order {
            Order::Stream { head, place } => {
                (self.head, self.place, self.at) = (head.into_bytes(), Some(place), At::Stream);
            }
            Order::Copy { mut head, copy, place } => {
                if let Some(mark) = copy.mark() {
                    head.push_str(&format!("$EOF:{mark}\r\n"));
                }
                (self.head, self.place) = (head.into_bytes(), place);
                self.at = At::Copy { copy, sent: 0, is_announced: false };
            }
        }
        None
    }

    /// Shows one that waits that the link is alive.
    fn beat(&mut self, table: &Table<'_>) -> Option<Fed> {
        if table.now_ms - self.beaten_ms < BEAT_MS {
            return Some(Fed::All);
        }
        self.beaten_ms = table.now_ms;
        self.head.push(b'\n');
        None
    }

    fn send_copy(&mut self, table: &Table<'_>, sender: &mut Sender<'_>) -> Option<Fed> {
        let At::Copy { copy, sent, is_announced } = &mut self.at else { return None };
        let id = self.replica.record.id;
        match copy.next(id, table.slot) {
            Next::Bytes(piece, from) => match sender.send(&piece[from..]) {
                Ok(count) => copy.took(id, count as u64),
                Err(fed) => return Some(fed),
            },
            Next::File(len) if !*is_announced => {
                *is_announced = true;
                self.head = format!("${len}\r\n").into_bytes();
            }
            Next::File(len) if *sent < len => {
                let Some(file) = copy.file() else { return Some(Fed::Over) };
                let mut bytes = vec![0; FILE_BYTES.min((len - *sent) as usize)];
                if let Err(error) = file.read_exact_at(&mut bytes, *sent) {
                    log::warn!("Read error sending a full copy to replica: {error}");
                    return Some(Fed::Over);
                }
                match sender.send(&bytes) {
                    Ok(count) => *sent += count as u64,
                    Err(fed) => return Some(fed),
                }
                copy.took(id, 0);
            }
            Next::File(_) => self.end_copy(false),
            Next::End => {
                self.head = copy.mark().unwrap_or_default().into();
                self.end_copy(true);
            }
            // In front of a file there may be beats; within a stream there may not.
            Next::Later if copy.file().is_some() => return self.beat(table),
            Next::Later => return Some(Fed::All),
            Next::Failed => return Some(Fed::Over),
        }
        None
    }

    fn end_copy(&mut self, marked: bool) {
        if let At::Copy { copy, .. } = std::mem::replace(&mut self.at, At::Copied { marked }) {
            copy.leave(self.replica.record.id);
        }
    }

    fn send_stream(&mut self, table: &Table<'_>, sender: &mut Sender<'_>) -> Fed {
        let Some(reader) = self.place.as_mut().and_then(Place::reader) else { return Fed::Over };
        let mut fed = Fed::All;
        if reader.position() < table.end {
            reader.read(&table.engine.keyspace.journal, table.end, |piece| match sender.send(piece) {
                Ok(sent) => sent,
                Err(why) => {
                    fed = why;
                    0
                }
            });
        }
        let all = reader.position() >= table.end;
        match fed {
            Fed::All if !all => Fed::More,
            fed => fed,
        }
    }

    /// Bytes that it has not been sent, of the copy in memory and of the changes.
    fn measure(&mut self, end: u64) -> u64 {
        let copy = match &self.at {
            At::Copy { copy, .. } => copy.behind(self.replica.record.id),
            _ => 0,
        };
        let position = self.place.as_mut().and_then(Place::reader).map_or(end, |reader| reader.position());
        self.behind = copy + end.saturating_sub(position);
        self.replica.record.reply_bytes.store(self.behind as usize, Relaxed);
        self.behind
    }

    /// Whether it is further behind than it may be.
    fn is_beyond(&mut self, limit: OutputLimit, now_ms: i64) -> bool {
        let hard = limit.hard_bytes > 0 && self.behind > limit.hard_bytes;
        if limit.soft_bytes == 0 || self.behind <= limit.soft_bytes {
            self.over_soft_limit_since = None;
            return hard;
        }
        let since = *self.over_soft_limit_since.get_or_insert(now_ms);
        hard || now_ms - since > i64::from(limit.soft_seconds) * 1000
    }

    /// True if it has been sent everything, and is to be told of what comes.
    fn hears(&self) -> bool {
        matches!(self.at, At::Stream) && !self.blocked
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let At::Copy { copy, .. } = &self.at {
            copy.leave(self.replica.record.id);
        }
    }
}

/// A socket, and how much it may be sent in a turn.
struct Sender<'s> {
    socket: &'s mut Stream,
    left: usize,
}

impl Sender<'_> {
    /// Bytes taken of these; otherwise why there are none.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Fed> {
        if self.left == 0 {
            return Err(Fed::More);
        }
        let part = &bytes[..bytes.len().min(self.left)];
        match self.socket.send(part) {
            Ok(sent) => {
                self.left -= sent;
                Ok(sent)
            }
            Err(Errno::AGAIN) => Err(Fed::Blocked),
            Err(Errno::INTR) => Ok(0),
            Err(_) => Err(Fed::Over),
        }
    }

    /// Sees to it that what was taken before is on its way.
    fn flush(&mut self) -> Result<(), Fed> {
        if !self.socket.has_unsent() {
            return Ok(());
        }
        match self.socket.flush() {
            Ok(()) if !self.socket.has_unsent() => Ok(()),
            Ok(()) | Err(Errno::AGAIN) => Err(Fed::Blocked),
            Err(_) => Err(Fed::Over),
        }
    }
}

impl<M: Model> EventLoop<M> {
    /// A client has become a replica, or there is something for it.
    pub(crate) fn begin_feed(&mut self, id: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let now = self.worker.now_ms();
        let Some(client) = self.station.clients.get(place) else { return };
        if let Some(replica) = client.session.replica.clone()
            && client.feed.is_none()
        {
            client.feed = Some(Box::new(Feed::new(replica, now)));
            self.feeds.push(place);
        }
    }

    /// Sends this loop's replicas what there is for them.
    #[inline]
    pub(crate) fn feed_replicas(&mut self, now_ms: i64) {
        if !self.feeds.is_empty() {
            self.feed_all(now_ms);
        }
    }

    #[cold]
    fn feed_all(&mut self, now_ms: i64) {
        let engine = Arc::clone(&self.engine);
        let (end, awaited) = engine.sendable();
        if let Some(offset) = awaited {
            engine.ask_for_disk(self.slot, offset);
        }
        let limit = limit(&engine);
        let table = Table { engine: &engine, slot: self.slot, now_ms, end };
        (self.fed_up_to, self.known_up_to) = (end, awaited.unwrap_or(end));
        self.feeds_more = false;
        for place in self.feeds.clone() {
            // It may be away, with another thread.
            let Some(client) = self.station.clients.get(place).filter(|client| !client.broken) else {
                continue;
            };
            let Client { socket, feed: Some(feed), .. } = client else { continue };
            let fed = if feed.blocked { Fed::Blocked } else { feed.advance(&table, socket) };
            feed.measure(end);
            let is_beyond = feed.is_beyond(limit, now_ms);
            if is_beyond {
                log::warn!(
                    "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                    client.session.record.id,
                    client.session.record.address
                );
                self.engine.threads[self.slot].output_limit_disconnections.add(1);
            }
            self.feeds_more |= fed == Fed::More;
            if is_beyond || fed == Fed::Over {
                client.broken = true;
                self.station.to_drop.push(place);
            } else {
                self.update_interest(place, now_ms);
            }
        }
    }

    /// True if the loop must not sleep, since there is something to be sent to a replica. Otherwise its bell will be rung.
    pub(crate) fn has_news_for_replicas(&self, clients_hear: bool) -> bool {
        // What waits for the disk is no news, but what is on disk by now is: the bell does not tell what has happened before it was asked for.
        self.feeds_more
            || (clients_hear
                && (self.engine.sendable().0 > self.fed_up_to
                    || self.engine.wants_news(self.slot, self.known_up_to)))
    }

    /// Whether any replica of this loop has been sent everything.
    pub(crate) fn any_replica_hears(&mut self) -> bool {
        let EventLoop { feeds, station, .. } = self;
        feeds.iter().any(|&place| {
            let feed = station.clients.get(place).and_then(|client| client.feed.as_ref());
            feed.is_some_and(|feed| feed.hears())
        })
    }
}

/// How far a replica may be behind.
fn limit(engine: &Engine) -> OutputLimit {
    let mut limit = engine.config.client_output_buffer_limit(ClientClass::Replica);
    // Less than what is kept for replicas anyway makes no sense.
    let least = engine.config.repl_backlog_size();
    if limit.hard_bytes > 0 {
        limit.hard_bytes = limit.hard_bytes.max(least);
    }
    if limit.soft_bytes > 0 {
        limit.soft_bytes = limit.soft_bytes.max(least);
    }
    limit
}
