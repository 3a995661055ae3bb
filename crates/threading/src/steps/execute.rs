// SPDX-License-Identifier: BSD-3-Clause
//! Step two: executes the requests of a batch, in the order in which they came.
//!
//! HOT PATH: per request no allocation; what the next requests touch is fetched into the cache together.

use std::cell::Cell;

use arrayvec::ArrayVec;
use braid_base::blob::Blob;
use braid_clients::client_flags;
use braid_engine::{Engine, Outcome, Worker, dispatch};
use braid_resp::parse::Span;
use smallvec::SmallVec;

use super::read::READ_CHUNK;
use super::{Relaxed, Station, linger};
use crate::batch::{Batch, Request, Source, Turn};
use crate::client::{Client, Keep, PACE_MAX};
use crate::clients::Clients;
use crate::keep::{keep, keep_rest, pack_rest};

/// Requests whose keys are fetched into the cache together.
const PREFETCH_GROUP: usize = 32;
/// Arguments that are listed without more ado.
const FEW_ARGUMENTS: usize = 8;

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

/// Where a request's arguments are.
enum Arguments<'a> {
    /// Parts of these bytes, or big ones of their own.
    Spans(&'a [Span], &'a [u8]),
    /// The arguments themselves, of an inline request that had to be unquoted.
    Words(&'a [Vec<u8>]),
}

impl Station {
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
}

#[inline]
pub(super) fn slice_of<'a>(span: Span, buffer: &'a [u8], blobs: &'a [Blob]) -> &'a [u8] {
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
