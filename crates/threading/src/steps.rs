//! The three steps that every threading model is made of: read and parse, execute, write.
//!
//! HOT PATH: per request no allocation; per client and turn one receive and one send; no logging.
//!
//! They work on a [`Station`]: the clients a thread holds at the moment, its shared receive buffer and the batch in the making. A
//! model decides which thread does which step for which client, and moves clients between stations.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use braid_base::blob::Blob;
use braid_config::OutputLimit;
use braid_engine::client::{UNCOUNTED_REPLY, client_flags, counted_reply_bytes};
use braid_engine::pubsub::queue::Push;
use braid_engine::stats::ThreadStats;
use braid_engine::{Engine, Outcome, Worker, dispatch};
use braid_resp::parse::{Limits, Span, Step};
use braid_resp::reply::SpareBuffer;
use smallvec::SmallVec;

use crate::batch::{Batch, Request, Source, Turn};
use crate::client::{Client, Incoming, Keep, PACE_MAX};
use crate::clients::Clients;
use crate::keep::{keep, keep_rest, pack_rest};
use crate::travel::Trip;

/// Received at once from a client.
const READ_CHUNK: usize = 32 * 1024;
/// The shared receive buffer.
const SHARED: usize = 512 * 1024;
/// Requests executed before the next batch is begun.
const BATCH_REQUESTS: usize = 1024;
/// Requests whose keys are fetched into the cache together.
const PREFETCH_GROUP: usize = 32;
/// Arguments that are listed without more ado.
const FEW_ARGUMENTS: usize = 8;
/// Arguments of at least this many bytes are received into allocations of their own.
const BIG_ARGUMENT: usize = 32 * 1024;
/// First allocation for a big argument; it doubles as bytes arrive, so that an announcement alone costs little.
const BIG_FIRST: usize = 1024 * 1024;
/// Replies that a client has waiting are sent before its next request is executed from this many bytes on, unless they are limited: what
/// stays in the cache is cheaper than what grows.
const SEND_EARLY: usize = 64 * 1024;
/// What counts of the replies of a client that has not logged in at most. It gets nothing but errors, and must not fill the memory with
/// those that it does not read.
const STRANGER_REPLY_MAX: u64 = 1024;
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

/// A batch on its way through step two.
pub struct Run {
    pub batch: Batch,
    shared: Box<[u8]>,
    /// The request that is executed now.
    pub at: usize,
    /// All turns but that of a client whose script took long have ended.
    finished: Cell<bool>,
}

impl Run {
    /// A request's arguments.
    #[inline]
    pub fn arguments<'a>(
        &'a self,
        request: &Request,
        query: &'a [u8],
        blobs: &'a [Blob],
    ) -> SmallVec<[&'a [u8]; 8]> {
        arguments(&self.batch, request, &self.shared, query, blobs)
    }

    /// True if the requests of others than a client whose script took long have been executed.
    pub fn is_finished(&self) -> bool {
        self.finished.get()
    }
}

/// What became of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    Done,
    /// The client is not at hand, or something has to come before.
    Later,
    /// The client is leaving.
    Gone,
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

    /// Step one: receives what a client has sent and parses it into the batch. Returns the bytes received.
    pub fn read(&mut self, engine: &Engine, place: u32) -> usize {
        let received = self.receive(engine, place);
        if let Some(client) = self.clients.get(place)
            && client.socket.is_tls()
        {
            self.follow_tls(place);
        }
        received
    }

    /// Looks after what polling the socket does not tell of: decrypted bytes that wait, and answers of a handshake.
    fn follow_tls(&mut self, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        if client.socket.has_unsent() && !client.in_write_list {
            client.in_write_list = true;
            self.to_write.push(place);
        }
        if client.socket.has_received() && !client.in_batch && !client.in_resume_list && !client.broken {
            client.in_resume_list = true;
            self.to_resume.push(place);
        }
    }

    fn receive(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.clients.get(place) else { return 0 };
        if client.in_batch || client.takes_turns() {
            // The poller will say so again.
            return 0;
        }
        if client.session.record.has(client_flags::CLOSE_NOW) {
            // Killed: nothing that it sends counts any more, though the message may still be on its way.
            client.broken = true;
            self.to_drop.push(place);
            return 0;
        }
        if client.broken || client.session.close_after_reply {
            // What a leaving client still sends is of no interest; only its end is.
            let mut sink = [0; 4096];
            if !matches!(client.socket.recv(&mut sink), Ok(1..) | Err(WOULD_BLOCK)) {
                client.broken = true;
                self.to_drop.push(place);
            }
            return 0;
        }
        if let Some(incoming) = &client.incoming {
            // One that is complete is kept while the client is held.
            return if incoming.missing() > 0 { self.read_big(engine, place) } else { 0 };
        }
        let own = !client.query.is_empty() || client.is_held();
        let received = if own {
            client.socket.recv_onto(&mut client.query, READ_CHUNK)
        } else {
            let room = &mut self.shared[self.shared_used..self.shared_used + READ_CHUNK];
            client.socket.recv(room)
        };
        let Some(received) = self.received(place, received) else { return 0 };
        let Some(client) = self.clients.get(place) else { return received };
        if client.query_bytes() > self.settings.query_bytes_max {
            self.drop_for_query(engine, place);
        } else if client.is_held() {
            // Kept until the client is resumed.
            client.publish_sizes(&self.client_bytes);
            linger(client, &mut self.lingering, place);
        } else if own {
            let end = client.query.len();
            self.parse(engine, place, Source::Own, 0, end, false);
        } else {
            let start = self.shared_used;
            self.shared_used += received;
            self.parse(engine, place, Source::Shared, start, start + received, false);
        }
        received
    }

    /// Bytes received, or nothing if there were none; notes the end of the connection.
    fn received(&mut self, place: u32, result: rustix::io::Result<usize>) -> Option<usize> {
        match result {
            Ok(count) if count > 0 => {
                if let Some(client) = self.clients.get(place) {
                    add(&client.session.record.net_in, count as u64);
                }
                return Some(count);
            }
            Err(WOULD_BLOCK | rustix::io::Errno::INTR) => return None,
            _ => {}
        }
        if let Some(client) = self.clients.get(place) {
            client.broken = true;
        }
        self.to_drop.push(place);
        None
    }

    #[cold]
    fn drop_for_query(&mut self, engine: &Engine, place: u32) {
        if let Some(client) = self.clients.get(place) {
            let record = &client.session.record;
            log::warn!(
                "Closing client that reached max query buffer length: id={} addr={}",
                record.id,
                record.address
            );
            engine.threads[record.io_thread.load(Relaxed) as usize].query_limit_disconnections.add(1);
            client.broken = true;
            self.to_drop.push(place);
        }
    }

    /// Goes on receiving a big argument, straight into its allocation.
    fn read_big(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.clients.get(place) else { return 0 };
        let Client { incoming: Some(incoming), socket, .. } = client else { return 0 };
        let missing = incoming.missing();
        if incoming.blob.len() == incoming.blob.capacity() {
            let more = incoming.blob.capacity().max(BIG_FIRST).min(missing);
            incoming.blob.reserve_exact(more);
        }
        let result = incoming.blob.fill_with(missing, |room| socket.recv_uninit(room));
        let Some(received) = self.received(place, result) else { return 0 };
        if self.clients.get(place).is_some_and(|client| client.query_bytes() > self.settings.query_bytes_max)
        {
            self.drop_for_query(engine, place);
        } else {
            if let Some(client) = self.clients.get(place) {
                client.publish_sizes(&self.client_bytes);
            }
            self.complete_big(engine, place);
        }
        received
    }

    /// Hands a big argument that is all there to the parser, and parses on.
    fn complete_big(&mut self, engine: &Engine, place: u32) {
        let Some(client) = self.clients.get(place).filter(|client| !client.is_held()) else { return };
        let Some(mut incoming) = client.incoming.take_if(|incoming| incoming.missing() == 0) else { return };
        incoming.blob.resize_zeroed(incoming.len);
        client.blobs.push(incoming.blob);
        client.parser.big_argument_done();
        let end = client.query.len();
        self.parse(engine, place, Source::Own, 0, end, true);
    }

    /// Parses what a client already sent and nobody has executed yet. Returns the bytes received on the way.
    pub fn resume(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.clients.get(place) else { return 0 };
        client.in_resume_list = false;
        let leaves = client.broken || client.session.close_after_reply;
        if client.is_held() || client.in_batch || leaves {
            return 0;
        }
        if client.incoming.as_ref().is_some_and(|incoming| incoming.missing() == 0) {
            // It became complete while the client was held.
            self.complete_big(engine, place);
            return 0;
        }
        if client.socket.has_received() {
            return self.read(engine, place);
        }
        let end = client.query.len();
        if end > 0 && client.incoming.is_none() {
            self.parse(engine, place, Source::Own, 0, end, false);
        }
        0
    }

    /// Parses requests out of a range of the shared buffer or the client's own.
    fn parse(
        &mut self,
        engine: &Engine,
        place: u32,
        source: Source,
        start: usize,
        end: usize,
        mid_request: bool,
    ) {
        let Some(client) = self.clients.get(place) else { return };
        let limits = Limits {
            bulk_len_max: self.settings.bulk_len_max,
            authenticated: client.session.authenticated,
            big_argument_min: BIG_ARGUMENT,
        };
        client.in_batch = true;
        let batch = &mut self.batch;
        let requests_max = batch.requests.len() + client.pace as usize;
        let mut turn = Turn {
            client: place,
            source,
            rest_start: start,
            rest_end: end,
            received_end: end,
            more: false,
            used_blobs: false,
        };
        let mut at = start;
        let mut forced = mid_request;
        while at < end || forced {
            forced = false;
            let first_span = batch.spans.len();
            let buffer = match source {
                Source::Own => &client.query[at..end],
                _ => &self.shared[at..end],
            };
            match client.parser.next(buffer, &limits, &mut batch.spans) {
                Step::Request { consumed } => {
                    let spans = &batch.spans[first_span..];
                    let begin = at;
                    at += consumed;
                    if spans.is_empty() {
                        continue;
                    }
                    let argument =
                        |index| spans.get(index).map(|&span: &Span| slice_of(span, buffer, &client.blobs));
                    let prepared = dispatch::prepare_by(engine, argument);
                    batch.requests.push(Request {
                        client: place,
                        source,
                        start: begin,
                        first_span: first_span as u32,
                        span_count: spans.len() as u32,
                        prepared,
                    });
                }
                Step::Inline { consumed, arguments } => {
                    let begin = at;
                    at += consumed;
                    if arguments.is_empty() {
                        continue;
                    }
                    let prepared =
                        dispatch::prepare_by(engine, |index| arguments.get(index).map(Vec::as_slice));
                    let source = Source::Inline(batch.inline.len() as u32);
                    batch.inline.push(arguments);
                    batch.requests.push(Request {
                        client: place,
                        source,
                        start: begin,
                        first_span: 0,
                        span_count: 0,
                        prepared,
                    });
                }
                Step::Incomplete => break,
                Step::BigArgument { start, len } => {
                    let from = at + start;
                    let have = &buffer[start..];
                    let mut blob = Blob::with_capacity((len + 2).min(BIG_FIRST.max(have.len())));
                    blob.extend_from_slice(have);
                    client.incoming = Some(Incoming { blob, len });
                    turn.rest_end = from;
                    break;
                }
                Step::Error(error) => {
                    client.protocol_error = Some(error);
                    turn.rest_end = at;
                    break;
                }
            }
            turn.used_blobs = !client.blobs.is_empty();
            // The next request may be judged by other limits once this one has run; and blobs belong to one request.
            if !limits.authenticated || turn.used_blobs || batch.requests.len() >= requests_max {
                turn.more = at < end;
                break;
            }
        }
        turn.rest_start = at.min(turn.rest_end);
        batch.turns.push(turn);
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

    /// Begins step two: takes the batch, to be executed in the order in which its requests came. Nothing if it is empty.
    pub fn begin(&mut self) -> Option<Run> {
        if self.batch.is_empty() {
            return None;
        }
        let (batch, shared) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.shared));
        self.shared_used = 0;
        Some(Run { batch, shared, at: 0, finished: Cell::new(false) })
    }

    /// Ends step two.
    pub fn end(&mut self, engine: &Engine, run: Run, now_ms: i64) {
        let Run { mut batch, shared, finished, .. } = run;
        for turn in &batch.turns {
            // Those whose requests were executed while a script ran have ended their turns then.
            let ended = finished.get() && self.clients.get(turn.client).is_none_or(|client| !client.in_batch);
            if !ended {
                self.finish(engine, &batch, &shared, turn, now_ms);
            }
        }
        batch.clear();
        (self.batch, self.shared) = (batch, shared);
    }

    /// Lets those who come later in a batch than a client's script not wait for it: executes their requests, as far as that is possible
    /// meanwhile, and ends their turns.
    pub fn settle_others(&mut self, engine: &Engine, worker: &mut Worker, run: &Run, script_of: u32) {
        if run.finished.replace(true) {
            return;
        }
        for at in run.at + 1..run.batch.requests.len() {
            let request = run.batch.requests[at];
            if request.client != script_of {
                self.execute_one(engine, worker, run, &request);
            }
        }
        let now = worker.now_ms();
        for turn in run.batch.turns.iter().filter(|turn| turn.client != script_of) {
            self.finish(engine, &run.batch, &run.shared, turn, now);
        }
    }

    /// Gives the station a small buffer to receive into while a run has the real one.
    pub fn receive_meanwhile(&mut self) {
        if self.shared.is_empty() {
            self.shared = vec![0; 4 * READ_CHUNK].into_boxed_slice();
            self.shared_used = 0;
        }
    }

    /// Fetches what the next requests of a run need into the cache.
    #[inline]
    pub fn prefetch_next(&mut self, engine: &Engine, run: &Run) {
        if run.at.is_multiple_of(PREFETCH_GROUP) {
            let end = (run.at + PREFETCH_GROUP).min(run.batch.requests.len());
            self.prefetch(engine, &run.batch.requests[run.at..end]);
        }
    }

    #[inline]
    fn prefetch(&mut self, engine: &Engine, group: &[Request]) {
        if group.len() < 2 {
            return;
        }
        let db = |clients: &mut Clients, request: &Request| {
            clients.get(request.client).map_or(0, |c| c.session.db)
        };
        // A request for the key of the one before needs nothing more.
        let mut last = 0;
        for request in group.iter().filter(|request| is_other(request, &mut last)) {
            engine.keyspace.prefetch_bucket(db(&mut self.clients, request), request.prepared.hash);
        }
        last = 0;
        for request in group.iter().filter(|request| is_other(request, &mut last)) {
            engine.keyspace.prefetch_entry(db(&mut self.clients, request), request.prepared.hash);
        }
    }

    /// Executes a request of a run.
    #[inline]
    pub fn execute_one(&mut self, engine: &Engine, worker: &mut Worker, run: &Run, request: &Request) {
        let Some(client) = self.clients.get(request.client) else { return };
        if client.broken || client.keep_from.is_some() || client.session.close_after_reply {
            return;
        }
        let Client { session, reply, query, blobs, .. } = client;
        // Few arguments, as nearly all requests have, are listed here: a list that was handed back would go through the memory.
        let (mut few, mut many) = (ArrayVec::<&[u8], FEW_ARGUMENTS>::new(), None);
        let args = match find_arguments(&run.batch, request, &run.shared, query) {
            Arguments::Spans(spans, buffer) if spans.len() <= FEW_ARGUMENTS => {
                few.extend(spans.iter().map(|&span| slice_of(span, buffer, blobs)));
                &few[..]
            }
            _ => &many.insert(run.arguments(request, query, blobs))[..],
        };
        if request.prepared.is_unknown() && is_http(args[0]) {
            log::warn!(
                "Possible attack: {} sends HTTP, as a web page does that makes its reader's browser talk to this server. The \
                 connection is closed.",
                session.record.address
            );
            client.broken = true;
            self.to_drop.push(request.client);
            return;
        }
        if reply.is_empty()
            && let Some(spare) = self.pool.take()
        {
            reply.reuse(spare);
        }
        reply.set_limit(self.settings.reply_max());
        let outcome = if worker.context.outside {
            dispatch::execute_outside(engine, worker, session, reply, request.prepared, args)
        } else {
            dispatch::execute(engine, worker, session, reply, request.prepared, args, blobs)
        };
        drop((few, many));
        self.executed(engine, worker, request, outcome);
    }

    /// Ends the turn of a client whose requests have taken so long that others come first: what is left of them from `run.at` on is for the
    /// next turn of the loop. `first`: the client's first request in the batch.
    #[cold]
    pub fn cut_short(&mut self, engine: &Engine, slot: usize, run: &mut Run, first: usize) {
        let rest = &run.batch.requests[run.at..];
        let place = run.batch.requests[first].client;
        let own = rest.iter().take_while(|request| request.client == place).count();
        let Some(client) = self.clients.get(place) else { return };
        if own == 0 || client.broken || client.keep_from.is_some() || client.session.close_after_reply {
            return;
        }
        client.keep_from = Some(Keep::Later(rest[0].start));
        client.pace = u32::try_from(run.at - first).unwrap_or(PACE_MAX).clamp(1, PACE_MAX - 1);
        run.at += own;
        engine.threads[slot].turns_cut_short.add(1);
    }

    /// Whether a request runs scripts (EXEC: whether any of its commands does).
    pub fn runs_scripts(&mut self, engine: &Engine, request: &Request) -> bool {
        let Some(client) = self.clients.get(request.client) else { return false };
        match &client.session.queue {
            Some(queue) => {
                queue.commands.iter().any(|queued| engine.commands.get(queued.command).runs_scripts)
            }
            None => true,
        }
    }

    /// What is to be done when a request has been executed.
    #[inline]
    pub fn executed(&mut self, engine: &Engine, worker: &Worker, request: &Request, outcome: Outcome) {
        let Some(client) = self.clients.get(request.client) else { return };
        client.commands += u64::from(outcome != Outcome::Postponed);
        match outcome {
            Outcome::Done => {}
            Outcome::Postponed => {
                client.keep_from = Some(Keep::Before(request.start));
                client.postponed = true;
                client.session.record.set_flag(client_flags::BLOCKED | client_flags::POSTPONED, true);
                self.postponed.push(request.client);
            }
            Outcome::Blocked => {
                client.keep_from = Some(Keep::Behind(request.start));
                let deadline = client.session.blocked.as_ref().map_or(0, |blocked| blocked.deadline_ms);
                if deadline > 0 {
                    self.deadlines.insert((deadline, request.client));
                }
            }
        }
        self.replied(engine, worker.context.slot, request.client, worker.now_ms());
    }

    /// Sees to it that what was added to a client's replies is sent.
    #[inline]
    fn replied(&mut self, engine: &Engine, slot: usize, place: u32, now_ms: i64) {
        let Some(client) = self.clients.get(place) else { return };
        let waiting = client.reply.len();
        // Those of a guest are sent by its home. Where a limit is set, all replies to what was received at once count together, as in Redis: a
        // client that goes beyond it gets none of them.
        let limit = self.settings.output_limit;
        let early = waiting >= SEND_EARLY
            && !client.wants_write
            && !client.session.close_after_reply
            && client.trip.is_none()
            && limit.hard_bytes == 0
            && limit.soft_bytes == 0;
        if !client.in_write_list && (!client.reply.is_empty() || client.session.close_after_reply) {
            client.in_write_list = true;
            self.to_write.push(place);
        }
        if waiting > UNCOUNTED_REPLY {
            let dropped = self.check_output_limit(engine, place, now_ms);
            // Not where what it tells has to be on disk before.
            if early && !dropped && !engine.append_only.waits.load(Relaxed) {
                self.send_early(&engine.threads[slot], place);
            }
        }
    }

    /// Adds a push to what a client is sent.
    pub fn push(&mut self, engine: &Engine, slot: usize, place: u32, push: &Push, now_ms: i64) -> Pushed {
        let Some(client) = self.clients.get(place) else { return Pushed::Later };
        if client.broken || client.session.close_after_reply {
            return Pushed::Gone;
        }
        if client.session.blocked.as_ref().is_some_and(|blocked| blocked.is_over()) {
            // The reply of whoever serves it comes first.
            return Pushed::Later;
        }
        let Client { session, reply, .. } = client;
        if push.number < session.pushes_seen {
            return Pushed::Done;
        }
        if reply.is_empty()
            && let Some(spare) = self.pool.take()
        {
            reply.reuse(spare);
        }
        push.payload.write(session, reply);
        self.replied(engine, slot, place, now_ms);
        Pushed::Done
    }

    /// Keeps what a client sent beyond its executed requests.
    fn finish(&mut self, engine: &Engine, batch: &Batch, shared: &[u8], turn: &Turn, now_ms: i64) {
        let Some(client) = self.clients.get(turn.client) else { return };
        client.in_batch = false;
        client.session.record.last_active_ms.store(now_ms, Relaxed);
        client.session.record.commands.store(client.commands, Relaxed);
        if let Some(from) = client.keep_from.take() {
            match from {
                Keep::Before(start) => keep(client, shared, batch, turn, start),
                Keep::Later(start) => {
                    keep(client, shared, batch, turn, start);
                    if !client.in_resume_list {
                        client.in_resume_list = true;
                        self.to_resume.push(turn.client);
                    }
                }
                Keep::Behind(start) => keep_rest(client, shared, batch, turn, start),
                Keep::Elsewhere(request) => {
                    let mut trip = self.spare_trips.pop().unwrap_or_default();
                    pack_rest(client, &mut trip.batch, shared, batch, turn, request);
                    client.trip = Some(trip);
                    // Nothing more is parsed before that is executed.
                    client.in_batch = true;
                    self.to_leave.push(turn.client);
                    return;
                }
            }
            client.publish_sizes(&self.client_bytes);
            linger(client, &mut self.lingering, turn.client);
            return;
        }
        if client.pace < PACE_MAX {
            client.pace = (client.pace * 2).min(PACE_MAX);
        }
        if turn.used_blobs {
            client.blobs.clear();
        }
        match turn.source {
            Source::Own => {
                client.query.truncate(turn.rest_end);
                if turn.rest_start >= client.query.len() {
                    // A big argument's request has no bytes left here, but its header was needed until now.
                    client.query = Vec::new();
                } else {
                    client.query.drain(..turn.rest_start);
                }
            }
            _ => client.query.extend_from_slice(&shared[turn.rest_start..turn.rest_end]),
        }
        if let Some(error) = client.protocol_error.take()
            && !client.session.close_after_reply
        {
            let text = error.message();
            let record = &client.session.record;
            log::debug!("Protocol error ({text}) from client: id={} addr={}", record.id, record.address);
            client.reply.protocol_error(&error);
            let thread = record.io_thread.load(Relaxed) as usize;
            engine.threads[thread].count_error(b"ERR");
            client.session.close();
            if !client.in_write_list {
                client.in_write_list = true;
                self.to_write.push(turn.client);
            }
        }
        if (turn.more || client.socket.has_received()) && !client.in_resume_list {
            client.in_resume_list = true;
            self.to_resume.push(turn.client);
        }
        let session = &client.session;
        let names =
            !session.watched.is_empty() || session.subscriptions.is_some() || session.tracking.is_some();
        if names && !client.lingers && !client.holds_requests() {
            client.publish_sizes(&self.client_bytes);
        }
        if client.lingers || client.holds_requests() {
            client.publish_sizes(&self.client_bytes);
            linger(client, &mut self.lingering, turn.client);
        }
    }

    /// Step three: sends a client's replies, as much as its socket takes.
    pub fn write(&mut self, stats: &ThreadStats, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        client.in_write_list = false;
        if client.broken {
            return;
        }
        send(client, stats);
        self.written(place);
    }

    /// What is to be done when a client has been sent what its socket took.
    #[inline]
    pub fn written(&mut self, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        if client.reply.is_empty() {
            self.pool.give(client.reply.take_spare(), self.settings.pool_max());
        }
        if client.is_finished() {
            self.to_drop.push(place);
        } else if client.lingers || client.holds_memory() {
            client.publish_sizes(&self.client_bytes);
            linger(client, &mut self.lingering, place);
        }
    }

    /// Sends what a client in the middle of its batch has waiting; the loop's list still holds it for the rest.
    #[cold]
    fn send_early(&mut self, stats: &ThreadStats, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        send(client, stats);
        if client.broken {
            self.to_drop.push(place);
        }
    }

    /// Marks a client for dropping if more waits to be sent to it than may. Returns true if so.
    ///
    /// As in Redis, what exceeds the first [`UNCOUNTED_REPLY`] bytes counts, whether or not the client would read it.
    pub fn check_output_limit(&mut self, engine: &Engine, place: u32, now_ms: i64) -> bool {
        let Settings { output_limit, listener_limit, .. } = self.settings;
        let Some(client) = self.clients.get(place).filter(|client| !client.broken) else { return false };
        let limit = if client.session.subscriptions.is_some() { listener_limit } else { output_limit };
        let bytes = counted_reply_bytes(client.reply.len()) as u64;
        let is_stranger = bytes > STRANGER_REPLY_MAX && engine.must_log_in(&client.session);
        if limit.hard_bytes == 0 && limit.soft_bytes == 0 && !is_stranger {
            return false;
        }
        let hard = is_stranger || (limit.hard_bytes > 0 && bytes > limit.hard_bytes);
        let soft = if limit.soft_bytes > 0 && bytes > limit.soft_bytes {
            let since = *client.over_soft_limit_since.get_or_insert(now_ms);
            now_ms - since > i64::from(limit.soft_seconds) * 1000
        } else {
            client.over_soft_limit_since = None;
            false
        };
        if hard || soft {
            let record = &client.session.record;
            log::warn!(
                "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                record.id,
                record.address
            );
            let thread = record.io_thread.load(Relaxed) as usize;
            engine.threads[thread].output_limit_disconnections.add(1);
            client.broken = true;
            client.uncount(&self.client_bytes);
            self.to_drop.push(place);
        }
        hard || soft
    }
}

/// Puts a client on the list of those that hold memory, once.
fn linger(client: &mut Client, lingering: &mut Vec<u32>, place: u32) {
    if !client.lingers {
        client.lingers = true;
        lingering.push(place);
    }
}

/// Sends a client's replies, as much as its socket takes and a turn allows.
pub fn send(client: &mut Client, stats: &ThreadStats) {
    let mut sent = 0;
    while !client.reply.is_empty() {
        let result = match client.reply.as_contiguous() {
            Some(bytes) => client.socket.send(bytes),
            None => {
                let mut slices = Vec::new();
                client.reply.io_slices(&mut slices, 64);
                client.socket.send_slices(&slices)
            }
        };
        match result {
            Ok(count) => {
                client.reply.consume(count);
                sent += count;
                if sent >= 1 << 20 {
                    // Enough for one turn: others are waiting.
                    break;
                }
            }
            Err(WOULD_BLOCK) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                client.broken = true;
                break;
            }
        }
    }
    if client.socket.has_unsent()
        && let Err(error) = client.socket.flush()
        && error != WOULD_BLOCK
    {
        client.broken = true;
    }
    if sent > 0 {
        add(&client.session.record.net_out, sent as u64);
        stats.writes.add(1);
        stats.net_out.add(sent as u64);
    }
}

/// Adds to a counter that only the calling thread changes.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

const WOULD_BLOCK: rustix::io::Errno = rustix::io::Errno::AGAIN;

#[inline]
fn slice_of<'a>(span: Span, buffer: &'a [u8], blobs: &'a [Blob]) -> &'a [u8] {
    if span.is_big() { &blobs[span.len as usize] } else { &buffer[span.range()] }
}

#[inline]
pub(crate) fn arguments<'a>(
    batch: &'a Batch,
    request: &Request,
    shared: &'a [u8],
    own: &'a [u8],
    blobs: &'a [Blob],
) -> SmallVec<[&'a [u8]; 8]> {
    match find_arguments(batch, request, shared, own) {
        Arguments::Spans(spans, buffer) => spans.iter().map(|&span| slice_of(span, buffer, blobs)).collect(),
        Arguments::Words(words) => words.iter().map(Vec::as_slice).collect(),
    }
}

/// Where a request's arguments are.
enum Arguments<'a> {
    /// Parts of these bytes, or big ones of their own.
    Spans(&'a [Span], &'a [u8]),
    /// The arguments themselves, of an inline request that had to be unquoted.
    Words(&'a [Vec<u8>]),
}

#[inline]
fn find_arguments<'a>(batch: &'a Batch, request: &Request, shared: &'a [u8], own: &'a [u8]) -> Arguments<'a> {
    let first = request.first_span as usize;
    let spans = &batch.spans[first..first + request.span_count as usize];
    match request.source {
        Source::Shared => Arguments::Spans(spans, &shared[request.start..]),
        Source::Own => Arguments::Spans(spans, &own[request.start..]),
        Source::Inline(index) => Arguments::Words(&batch.inline[index as usize]),
    }
}

/// Whether a request has a first key, and another one than the request before it, which had `last`.
#[inline]
fn is_other(request: &Request, last: &mut u64) -> bool {
    let hash = request.prepared.hash;
    hash != 0 && std::mem::replace(last, hash) != hash
}

/// True for words that only HTTP begins lines with.
#[cold]
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// True for errors after which accepting should pause: no descriptors, no memory.
pub fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
