// SPDX-License-Identifier: BSD-3-Clause
//! Step two, for all threading models: executes the batch in order of arrival.
//!
//! [`EventLoop::execute`] is the only way into the dispatcher. It enters the gate once per batch,
//! delivers the messages that the batch publishes, shares time between clients, and keeps the
//! loop responsive while a script runs. Execution of a single request is in [`super::run`].
//!
//! HOT PATH: per request no allocation and no system call.

use std::sync::Arc;
use std::time::Duration;

use braid_base::gate::Entered;
use braid_executor::dispatch;
use braid_executor::engine::call::Others;
use braid_replica::{replicas, sync_writes};

use super::EventLoop;
use super::run::Run;
use crate::batch::Request;
use crate::client::{Client, Input};

/// Execution time that one client gets before the others have their turn: enough for a
/// thousand ordinary commands, and one search among many vectors.
pub(super) const TURN_NANOS: u64 = 250_000;

/// Requests executed between two checks for pushes published by the batch itself.
const DELIVERY_PERIOD: usize = 32;

impl EventLoop {
    /// Executes the whole batch.
    pub(crate) fn execute(&mut self) {
        // Pushes go before the replies to requests that were sent later.
        self.deliver();
        self.evict_clients();
        let Some(mut run) = self.clients.begin() else { return };
        if !run.batch.requests.is_empty() {
            self.model().before_execution(self);
            let gate = &self.engine.keyspace.gate;
            // While a script runs further up the stack, its locks are held even if the gate is
            // open.
            self.worker.context.outside =
                self.in_script || gate.enter_unless_busy(self.slot) == Entered::Busy;
            self.worker.begin_batch();
            self.worker.context.journal.defers_bell = true;
            // Read after the requests were received, so this server had the right to serve while
            // they were in flight.
            self.worker.fence = sync_writes::fence(&self.engine);
            // A refusal reveals nothing and need not wait.
            self.worker.was_refused.set(false);
            self.worker.notes_data = self.worker.fence == 0 && self.engine.sync_writes.waits_for_members();
            self.reply_hold.begin(self.engine.replication.in_sync.losses());
            // The client whose turn it is, its first request in the batch, and the start of its
            // turn.
            let (mut client, mut first, mut began) = (u32::MAX, 0, self.worker.boundary());
            while let Some(&request) = run.batch.requests.get(run.at) {
                if run.at.is_multiple_of(DELIVERY_PERIOD) {
                    // While the published messages are still in the cache.
                    self.deliver();
                }
                if request.client != client {
                    (client, first, began) = (request.client, run.at, self.worker.boundary());
                }
                self.execute_next(&run, &request);
                run.at += 1;
                if self.worker.boundary().exceeds(began, self.turn_span) {
                    self.clients.cut_short(&self.engine, self.slot, &mut run, first);
                }
            }
            if !std::mem::take(&mut self.worker.context.outside) {
                self.engine.keyspace.gate.leave(self.slot);
            }
            self.worker.context.limbo.reclaim();
            self.worker.context.journal.defers_bell = false;
            if std::mem::take(&mut self.worker.context.journal.owes_bell) {
                replicas::tell_replicas_of_changes(&self.engine);
            }
            self.model().after_execution(self);
            self.reply_hold.note_changes();
        }
        self.clients.end(&self.engine, run, self.worker.now_ms());
        self.ensure_on_disk();
        self.evict_clients();
    }

    /// Executes the current request of a run.
    #[inline]
    fn execute_next(&mut self, run: &Run, request: &Request) {
        if !self.worker.context.outside || self.reenter_gate() {
            self.clients.prefetch_next(&self.engine, run);
        }
        if run.is_finished() && !self.clients.slab.is_in_batch(request.client) {
            // Already executed while a script ran.
        } else if self.properties.migrates_requests && self.model().migrates(self, run, request) {
            // The request waits for its client to migrate.
        } else if request.prepared.runs_scripts()
            && !self.worker.context.outside
            && self.clients.runs_scripts(&self.engine, request)
        {
            self.execute_script(run, request);
        } else {
            self.clients.execute_one(&self.engine, &mut self.worker, run, request);
        }
    }

    #[cold]
    fn reenter_gate(&mut self) -> bool {
        !self.in_script && self.engine.keyspace.reenter_gate(&mut self.worker.context)
    }

    /// Executes a request that runs scripts, and serves the loop's other clients if it takes
    /// long.
    fn execute_script(&mut self, run: &Run, request: &Request) {
        let place = request.client;
        let Some(mut client) = self.clients.slab.take_out(place) else { return };
        if client.skips_requests() {
            return self.clients.slab.put_back(place, client);
        }
        // Other batches are executed during the script.
        if client.input.parsed.is_none() {
            client.hold.losses = Some(self.reply_hold.losses());
        }
        // The stand-ins are kept, so a script costs no new worker and no reference count.
        let (spare, held) =
            self.spare.take().unwrap_or_else(|| (self.engine.worker(self.slot), Arc::clone(&self.engine)));
        let mut worker = std::mem::replace(&mut self.worker, spare);
        let engine = std::mem::replace(&mut self.engine, held);
        client.reply.set_limit(self.clients.settings.reply_max());
        let Client { session, reply, input: Input { query, blobs, .. }, .. } = &mut *client;
        let args = run.arguments(request, query, blobs);
        let mut serve_others = || self.serve_during_script(run, place);
        let mut given = dispatch::Request {
            engine: &engine,
            worker: &mut worker,
            session,
            reply,
            args: &args,
            blobs,
            others: Others::new(&mut serve_others),
        };
        let outcome = dispatch::execute(&mut given, request.prepared);
        drop(args);
        if run.is_finished() {
            // The client was absent from the slab when replies were sent during the script.
            client.listed.to_write = self.clients.to_write.contains(&place);
        }
        self.clients.slab.put_back(place, client);
        self.clients.executed(&engine, &worker, request, outcome);
        self.spare =
            Some((std::mem::replace(&mut self.worker, worker), std::mem::replace(&mut self.engine, engine)));
        self.model().script_has_ended(self);
    }

    /// A turn of the loop while one of its clients runs a script that has stopped the world for
    /// long: commands are refused as busy, but every client gets an answer, and the script can be
    /// killed.
    fn serve_during_script(&mut self, run: &Run, script_of: u32) {
        self.model().script_takes_long(self);
        self.in_script = true;
        self.worker.context.outside = true;
        self.worker.begin_batch();
        self.clients.finish_others(&self.engine, &mut self.worker, run, script_of);
        self.clients.receive_during_script();
        let events = self.poller.wait(Some(Duration::ZERO)).unwrap_or(0);
        self.serve_events(events);
        self.worker.context.outside = false;
        self.in_script = false;
    }

    /// Enters the gate for the loop's own work. False if a script has stopped the world for long.
    pub(super) fn enter(&mut self) -> bool {
        !self.in_script && self.engine.keyspace.gate.enter_unless_busy(self.slot) == Entered::Inside
    }
}
