// SPDX-License-Identifier: BSD-3-Clause
//! A batch in execution: prefetching, single requests, and the end of each client's turn.
//!
//! Only [`super::execute`] drives a run. After the last request, deferred input stays with its
//! client as bytes, or migrates as parsed requests ([`crate::deferred_input`]).
//!
//! HOT PATH: per request no allocation; the memory behind the next keys is prefetched together.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use braid_base::blob::Blob;
use braid_clients::client_flags;
use braid_executor::engine::call::Others;
use braid_executor::{Engine, Outcome, Worker, dispatch};
use braid_keyspace::Keyspace;
use braid_telemetry::Telemetry;
use smallvec::SmallVec;

use crate::batch::{self, Arguments, Batch, Request, Source, Turn, find_arguments, slice_of};
use crate::client::{BATCH_QUOTA_MAX, Client, Deferral, Input};
use crate::client_set::{ClientSet, track_for_cron};
use crate::client_slab::ClientSlab;
use crate::deferred_input::{defer_after, defer_from, pack_from};

/// Requests whose keys are prefetched together.
const PREFETCH_GROUP: usize = 32;
/// Requests with at most this many arguments have them listed on the stack.
const FEW_ARGUMENTS: usize = 8;

/// A batch in execution.
pub struct Run {
    pub batch: Batch,
    /// The receive buffer that the batch refers to.
    shared: Box<[u8]>,
    /// Index of the request that is executed now.
    pub at: usize,
    /// All turns have ended, except that of the client with the long-running script.
    finished: Cell<bool>,
}

impl Run {
    /// A request's arguments. `query` and `blobs` belong to its client.
    #[inline]
    pub fn arguments<'a>(
        &'a self,
        request: &Request,
        query: &'a [u8],
        blobs: &'a [Blob],
    ) -> SmallVec<[&'a [u8]; 8]> {
        batch::arguments(&self.batch, request, &self.shared, query, blobs)
    }

    /// True once the requests of all other clients have been executed during a long script.
    pub fn is_finished(&self) -> bool {
        self.finished.get()
    }
}

impl ClientSet {
    /// Starts executing the batch. None if the batch is empty.
    pub fn begin(&mut self) -> Option<Run> {
        if self.batch.is_empty() {
            return None;
        }
        let (batch, shared) = self.take_batch();
        Some(Run { batch, shared, at: 0, finished: Cell::new(false) })
    }

    /// Ends a run and the turns of its clients.
    pub fn end(&mut self, engine: &Engine, run: Run, now_ms: i64) {
        let Run { batch, shared, finished, .. } = run;
        for turn in &batch.turns {
            // Turns that ended during a long script do not end again.
            let ended =
                finished.get() && self.slab.get(turn.client).is_none_or(|client| !client.listed.in_batch);
            if !ended {
                self.finish(&engine.telemetry, &batch, &shared, turn, now_ms);
            }
        }
        self.put_back_batch(batch, shared);
    }

    /// Executes the requests after a client's long script as far as the dispatcher allows, and
    /// ends their clients' turns, so those clients need not wait for the script.
    pub fn finish_others(&mut self, engine: &Engine, worker: &mut Worker, run: &Run, script_of: u32) {
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
            self.finish(&engine.telemetry, &run.batch, &run.shared, turn, now);
        }
    }

    /// Prefetches the memory behind the next requests of a run.
    #[inline]
    pub fn prefetch_next(&mut self, engine: &Engine, run: &Run) {
        if run.at.is_multiple_of(PREFETCH_GROUP) {
            let end = (run.at + PREFETCH_GROUP).min(run.batch.requests.len());
            self.prefetch(&engine.keyspace, &run.batch.requests[run.at..end]);
        }
    }

    #[inline]
    fn prefetch(&mut self, keyspace: &Keyspace, group: &[Request]) {
        if group.len() < 2 {
            return;
        }
        let db =
            |slab: &mut ClientSlab, request: &Request| slab.get(request.client).map_or(0, |c| c.session.db);
        // A request for the same key as its predecessor needs no prefetch.
        let mut last = 0;
        if keyspace.is_by_slot() {
            // A shard for each slot: too many for the inner caches.
            for request in group.iter().filter(|request| is_other(request, &mut last)) {
                keyspace.prefetch_shard(request.prepared.hash);
            }
            last = 0;
        }
        for request in group.iter().filter(|request| is_other(request, &mut last)) {
            keyspace.prefetch_bucket(db(&mut self.slab, request), request.prepared.hash);
        }
        last = 0;
        for request in group.iter().filter(|request| is_other(request, &mut last)) {
            keyspace.prefetch_entry(db(&mut self.slab, request), request.prepared.hash);
        }
    }

    /// Executes a single request of a run.
    #[inline]
    pub fn execute_one(&mut self, engine: &Engine, worker: &mut Worker, run: &Run, request: &Request) {
        let Some(client) = self.slab.get(request.client) else { return };
        if client.skips_requests() {
            return;
        }
        if client.input.parsed.is_none() {
            client.hold.losses = None;
        }
        let Client { session, reply, input: Input { query, blobs, .. }, .. } = client;
        // Nearly all requests have few arguments. They are listed inline, because a list returned
        // by a function would take a detour through memory.
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
                "Possible attack: {} sends HTTP, as a browser does when a web page makes it connect to \
                 this server. The connection is closed.",
                session.record.address
            );
            drop((few, many));
            client.break_off();
            self.to_drop.push(request.client);
            return;
        }
        self.pool.equip(reply);
        reply.set_limit(self.settings.reply_max());
        let is_outside = worker.context.outside;
        let others = Others::default();
        let mut given = dispatch::Request { engine, worker, session, reply, args, blobs, others };
        let outcome = if is_outside {
            dispatch::execute_outside(&mut given, request.prepared)
        } else {
            dispatch::execute(&mut given, request.prepared)
        };
        drop((few, many));
        self.executed(engine, worker, request, outcome);
    }

    /// Ends the turn of a client that has used up its time: its requests from `run.at` on are
    /// deferred to the loop's next turn. `first` is the index of the client's first request in
    /// the batch.
    #[cold]
    pub fn cut_short(&mut self, engine: &Engine, slot: usize, run: &mut Run, first: usize) {
        let rest = &run.batch.requests[run.at..];
        let place = run.batch.requests[first].client;
        let own = rest.iter().take_while(|request| request.client == place).count();
        let Some(client) = self.slab.get(place) else { return };
        if own == 0 || client.skips_requests() {
            return;
        }
        client.input.deferred_from = Some(Deferral::NextTurn(rest[0].start));
        client.input.batch_quota =
            u32::try_from(run.at - first).unwrap_or(BATCH_QUOTA_MAX).clamp(1, BATCH_QUOTA_MAX - 1);
        run.at += own;
        engine.telemetry.threads[slot].turns_cut_short.add(1);
    }

    /// Whether a request whose command may run scripts does run one: EXEC does if one of its
    /// queued commands does.
    pub fn runs_scripts(&mut self, engine: &Engine, request: &Request) -> bool {
        let Some(client) = self.slab.get(request.client) else { return false };
        match &client.session.transaction.queue {
            Some(queue) => {
                queue.commands.iter().any(|queued| engine.commands.get(queued.command).runs_scripts)
            }
            None => true,
        }
    }

    /// Follows up on an executed request.
    #[inline]
    pub fn executed(&mut self, engine: &Engine, worker: &Worker, request: &Request, outcome: Outcome) {
        let Some(client) = self.slab.get(request.client) else { return };
        client.commands += u64::from(outcome != Outcome::Postponed);
        if worker.notes_data {
            client.hold.reveals |=
                !worker.was_refused.take() && dispatch::reveals_data(engine, request.prepared);
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Postponed => {
                client.input.deferred_from = Some(Deferral::Before(request.start));
                client.postponed = true;
                client.session.record.set_flag(client_flags::BLOCKED | client_flags::POSTPONED, true);
                // A request that has waited long enough may have met a pause.
                match client.session.delayed_until_ms().filter(|until| *until > worker.now_ms()) {
                    None => self.postponed.push(request.client),
                    Some(until) => {
                        self.deadlines.insert((until, request.client));
                        self.delayed.push(request.client);
                    }
                }
            }
            Outcome::Blocked => {
                client.input.deferred_from = Some(Deferral::After(request.start));
                client.hold.losses = Some(engine.replication.in_sync.losses());
                let deadline = client.session.blocked.as_ref().map_or(0, |blocked| blocked.deadline_ms);
                if deadline > 0 {
                    self.deadlines.insert((deadline, request.client));
                }
            }
        }
        self.replied(engine, worker.context.slot, request.client, worker.now_ms());
    }

    /// Ends a client's turn: keeps the input after its executed requests.
    fn finish(&mut self, telemetry: &Telemetry, batch: &Batch, shared: &[u8], turn: &Turn, now_ms: i64) {
        let Some(client) = self.slab.get(turn.client) else { return };
        client.listed.in_batch = false;
        client.session.record.last_active_ms.store(now_ms, Relaxed);
        client.session.record.commands.store(client.commands, Relaxed);
        if let Some(from) = client.input.deferred_from.take() {
            match from {
                Deferral::Before(start) => defer_from(client, shared, batch, turn, start),
                Deferral::NextTurn(start) => {
                    defer_from(client, shared, batch, turn, start);
                    if !client.listed.to_resume {
                        client.listed.to_resume = true;
                        self.to_resume.push(turn.client);
                    }
                }
                Deferral::After(start) => defer_after(client, shared, batch, turn, start),
                Deferral::Elsewhere(request) => {
                    let mut input = self.spare_inputs.pop().unwrap_or_default();
                    pack_from(client, &mut input.batch, shared, batch, turn, request);
                    client.input.parsed = Some(input);
                    // Nothing more is parsed until these requests are executed.
                    client.listed.in_batch = true;
                    self.to_migrate.push(turn.client);
                    return;
                }
            }
            client.publish_sizes(&self.client_bytes);
            track_for_cron(client, &mut self.tracked, turn.client);
            return;
        }
        if client.input.batch_quota < BATCH_QUOTA_MAX {
            client.input.batch_quota = (client.input.batch_quota * 2).min(BATCH_QUOTA_MAX);
        }
        if turn.used_blobs {
            client.input.blobs.clear();
        }
        match turn.source {
            Source::Own => {
                client.input.query.truncate(turn.rest_end);
                if turn.rest_start >= client.input.query.len() {
                    // A request with big arguments leaves no bytes here, but its header was
                    // needed until now.
                    client.input.query = Vec::new();
                } else {
                    client.input.query.drain(..turn.rest_start);
                }
            }
            _ => client.input.query.extend_from_slice(&shared[turn.rest_start..turn.rest_end]),
        }
        if let Some(error) = client.input.protocol_error.take()
            && !client.session.reply.close_after
        {
            let text = error.message();
            let record = &client.session.record;
            log::debug!("Protocol error ({text}) from client: id={} addr={}", record.id, record.address);
            client.reply.protocol_error(&error);
            let thread = record.io_thread.load(Relaxed) as usize;
            telemetry.threads[thread].count_error(b"ERR");
            client.session.close();
            if !client.listed.to_write {
                client.listed.to_write = true;
                self.to_write.push(turn.client);
            }
        }
        if (turn.more || client.socket.has_received()) && !client.listed.to_resume {
            client.listed.to_resume = true;
            self.to_resume.push(turn.client);
        }
        let session = &client.session;
        let names = !session.transaction.watched.is_empty()
            || session.listener.subscriptions.is_some()
            || session.listener.tracking.is_some();
        if names && !client.listed.tracked && !client.holds_requests() {
            client.publish_sizes(&self.client_bytes);
        }
        if client.listed.tracked || client.holds_requests() {
            client.publish_sizes(&self.client_bytes);
            track_for_cron(client, &mut self.tracked, turn.client);
        }
    }
}

/// Whether a request's first key differs from that of the request before it, whose key hash is
/// `last`.
#[inline]
fn is_other(request: &Request, last: &mut u64) -> bool {
    let hash = request.prepared.hash;
    hash != 0 && std::mem::replace(last, hash) != hash
}

/// True for words that begin an HTTP line and name no command.
#[cold]
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}
