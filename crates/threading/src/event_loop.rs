// SPDX-License-Identifier: BSD-3-Clause
//! The event loop of one thread: polls its clients and runs the three steps on them.
//!
//! One turn: wait for events; receive and parse into a batch that spans several clients, so the
//! memory behind their keys can be prefetched together; execute the batch; send the replies. Mail
//! from other threads, closed connections and the cron follow. A turn blocks only in the poller.
//!
//! Where threading models differ, the loop calls its model ([`Model`]). Steps one and three live in
//! [`crate::client_set`], step two only in [`execute`]. The child modules hold the loop's other
//! duties; they know the loop, and nothing below the loop knows them.

mod client_eviction;
mod close;
mod defrag;
mod durable_replies;
pub mod execute;
mod handover;
mod mail;
pub mod model;
mod pacing;
mod push;
mod rebalance;
mod replicas;
pub mod run;
mod shard_channels;
mod waits;

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::{self, TickSpan, Ticks};
use braid_clients::attention::PAUSED;
use braid_executor::{Engine, Worker};
use braid_net::poller::{Interest, Poller};
use braid_telemetry::stats::ThreadStats;
use defrag::DefragSteps;
use durable_replies::ReplyHold;
use hashbrown::HashMap;

use crate::accept::{AcceptOutcome, Listeners};
use crate::adaptive_yield::AdaptiveYield;
use crate::client_set::{ClientSet, Settings};
use crate::cron::Cron;
use crate::loop_loads::LoopLoads;

pub use model::{Model, Properties};
use push::Pushes;
use rebalance::Balance;
use replicas::Replicas;
pub use run::Run;
use waits::AfterScript;

/// Poller token of the loop's mailbox.
const MAILBOX: u64 = u64::MAX;
/// How long accepting pauses after the process ran out of descriptors, in milliseconds.
const ACCEPT_PAUSE_MS: i64 = 100;

/// One thread's loop.
pub struct EventLoop {
    pub(crate) engine: Arc<Engine>,
    /// The thread's slot in the engine.
    pub(crate) slot: usize,
    pub(crate) poller: Poller,
    pub(crate) clients: ClientSet,
    pub(crate) worker: Worker,
    /// The threading model, and what the loop does differently for it.
    model: Rc<dyn Model>,
    pub(crate) properties: Properties,
    pub(crate) cron: Cron,
    balance: Balance,
    pub(crate) loads: Arc<LoopLoads>,
    /// Polled by the first loop.
    listeners: Arc<Listeners>,
    /// When accepting resumes after the process ran out of descriptors (ms since the Unix epoch).
    accepting_again_at: Option<i64>,
    /// Client places by client ID.
    pub(crate) by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
    pushes: Pushes,
    config_version: u64,
    /// Execution time that one client gets before the others have their turn.
    turn_span: TickSpan,
    /// The version of `loads` that this loop has adopted.
    pub(crate) loads_version: u64,
    /// The loop is handing all of its clients over to other loops.
    is_draining: bool,
    stopping: bool,
    replicas: Replicas,
    /// Replies held back until the data they reveal is durable.
    pub(crate) reply_hold: ReplyHold,
    /// Stand-ins for the worker and the engine while a script occupies the real ones.
    spare: Option<(Worker, Arc<Engine>)>,
    /// A script is running further up the stack: work that needs keys is deferred.
    in_script: bool,
    after_script: AfterScript,
    /// Number of `Message::Resume` received so far.
    pub(crate) resumes: u64,
    /// Nanoseconds of the current turn spent waiting for other threads.
    waited_nanos: u64,
    /// The last turn executed requests.
    has_executed: bool,
    adaptive_yield: AdaptiveYield,
    defrag: DefragSteps,
}

impl EventLoop {
    /// The loop of the thread that owns `slot`. The first loop accepts connections.
    ///
    /// `loads` comes with its version at the time the thread was requested; the first turn picks
    /// up later changes.
    ///
    /// # Errors
    /// If the mailbox cannot be polled.
    pub fn new(
        engine: Arc<Engine>,
        slot: usize,
        epoll: OwnedFd,
        (loads, loads_version): (Arc<LoopLoads>, u64),
        listeners: Arc<Listeners>,
        model: Rc<dyn Model>,
    ) -> std::io::Result<EventLoop> {
        let poller = Poller::on(epoll);
        poller.add(engine.clients.mailboxes[slot].notifier(), MAILBOX, Interest::Read)?;
        if slot == 0 {
            listeners.poll(&poller);
        }
        let worker = engine.worker(slot);
        let clients = ClientSet::new(Settings::of(&engine), Arc::clone(&engine.clients.bytes));
        Ok(EventLoop {
            cron: Cron::new(slot, loads.loops()),
            balance: Balance::new(slot, &loads),
            config_version: engine.config.version(),
            turn_span: TickSpan::from_nanos(execute::TURN_NANOS),
            loads_version,
            is_draining: false,
            engine,
            slot,
            poller,
            clients,
            worker,
            properties: model.properties(),
            model,
            loads,
            listeners,
            accepting_again_at: None,
            by_id: HashMap::default(),
            pushes: Pushes::default(),
            reply_hold: ReplyHold::default(),
            replicas: Replicas::default(),
            stopping: false,
            spare: None,
            in_script: false,
            after_script: AfterScript::default(),
            resumes: 0,
            waited_nanos: 0,
            has_executed: false,
            adaptive_yield: AdaptiveYield::default(),
            defrag: DefragSteps::default(),
        })
    }

    /// Serves until the loop is told to stop.
    pub fn run(mut self) {
        while !self.stopping {
            self.turn();
        }
        self.release_all();
        for place in self.clients.slab.all() {
            self.drop_client(place);
        }
        self.sign_off();
    }

    /// The threading model. Borrowed apart from the loop, which the model's methods change.
    #[inline]
    fn model(&self) -> Rc<dyn Model> {
        Rc::clone(&self.model)
    }

    pub(crate) fn execute_and_write(&mut self) {
        self.model().execute_and_write(self);
    }

    pub(crate) fn stats(&self) -> &ThreadStats {
        &self.engine.telemetry.threads[self.slot]
    }

    fn turn(&mut self) {
        if std::mem::take(&mut self.has_executed) {
            self.adaptive_yield.offer();
        }
        let timeout = self.timeout();
        let events = match self.poller.wait(timeout) {
            Ok(events) => events,
            Err(error) => {
                log::error!("Waiting for events failed: {error}");
                std::thread::sleep(Duration::from_millis(10));
                0
            }
        };
        let start = Ticks::now();
        self.forgo_bell();
        self.do_after_script();
        let executed = self.stats().executed.get();
        self.follow_changes();
        if events > 0 {
            self.cron.note_activity(&self.engine);
        }
        self.release_replies();
        self.serve_events(events);
        // A replica of this loop may have acknowledged the held changes.
        self.release_replies();
        self.evict_clients();
        self.drop_finished();
        let now = clock::unix_ms();
        self.end_waits(now);
        self.rest_delayed();
        if self.accepting_again_at.is_some_and(|at| now >= at) {
            self.resume_accepting();
        }
        self.cron.run(&self.engine, &mut self.worker, &mut self.clients, now);
        self.defragment();
        if self.engine.hub.has_pushes(self.slot) {
            // For instance, notifications of keys that the cron expired.
            self.execute_and_write();
        }
        self.drop_finished();
        if self.is_draining {
            self.drain();
        } else if self.balance.is_due(now) {
            self.rebalance(now);
        }
        if !self.clients.to_write.is_empty() {
            // Clients that received pushes while others were handed over.
            self.execute_and_write();
        }
        self.feed_replicas(now);
        self.drop_finished();
        self.clients.slab.recycle();
        let stats = self.stats();
        stats.cycles.add(1);
        let nanos = Ticks::now().nanos_since(start).saturating_sub(self.waited_nanos);
        stats.cycle_nanos.add(nanos);
        stats.cycle_nanos_max.raise(nanos);
        let executed = stats.executed.get().saturating_sub(executed);
        stats.cycle_commands_max.raise(executed);
        self.has_executed = executed > 0;
        self.waited_nanos = 0;
    }

    /// Applies changes of the configuration, the memory pressure and the number of threads.
    #[inline]
    fn follow_changes(&mut self) {
        if self.engine.config.version() != self.config_version {
            self.config_version = self.engine.config.version();
            self.clients.apply(Settings::of(&self.engine));
        }
        let is_short = Settings::is_memory_short(&self.engine);
        if is_short || self.clients.settings.is_short {
            self.clients.apply(Settings { is_short, ..self.clients.settings });
        }
        if self.loads.version() != self.loads_version {
            self.follow_thread_count();
        }
    }

    /// Serves the clients that the poller reported, then the mail, then clients with input that was
    /// received earlier.
    fn serve_events(&mut self, events: usize) {
        let mut mail = false;
        let turn = self.poller.waits();
        for index in 0..events {
            if self.poller.waits() != turn {
                // A script polled again and overwrote these events; epoll reports the remaining
                // ones again.
                break;
            }
            let event = self.poller.event(index);
            match event.token {
                MAILBOX => mail = true,
                token if token > u64::from(u32::MAX) => self.accept(token),
                token => self.serve(token as u32, event.readable, event.writable),
            }
        }
        self.execute_and_write();
        if mail || self.model.has_arrivals() {
            self.read_mail(mail);
            self.execute_and_write();
        }
        // Once per turn, so that a client with a long backlog takes turns with the others.
        if !self.clients.to_resume.is_empty() {
            if self.is_draining {
                // They resume on their next loop. Places of departed visitors are removed.
                let ClientSet { slab, to_resume, .. } = &mut self.clients;
                to_resume.retain(|&place| slab.get(place).is_some_and(|client| client.listed.to_resume));
                return;
            }
            for place in std::mem::take(&mut self.clients.to_resume) {
                self.model().resume(self, place);
            }
            self.execute_and_write();
        }
    }

    /// Records that the current turn waited for other threads: waiting does not count as load.
    pub(crate) fn note_wait(&mut self, nanos: u64) {
        self.waited_nanos += nanos;
        let stats = self.stats();
        stats.waits.add(1);
        stats.wait_nanos.add(nanos);
    }

    fn timeout(&mut self) -> Option<Duration> {
        if !self.clients.to_resume.is_empty() || self.model.has_arrivals() || self.can_release() {
            return Some(Duration::ZERO);
        }
        if self.has_replica_output() {
            return Some(Duration::ZERO);
        }
        let now = clock::unix_ms();
        let mut wait = self.cron.wait_ms(now);
        if !self.after_script.is_empty() {
            wait = wait.min(20);
        }
        if self.is_draining {
            wait = wait.min(handover::ATTEMPT_MS);
        }
        if let Some(at) = self.accepting_again_at {
            wait = wait.min((at - now).max(0));
        }
        if self.engine.attention.get() & PAUSED != 0
            && let Some((_, until)) = self.engine.clients.pause.current(now)
        {
            wait = wait.min((until - now).max(1));
        }
        if let Some(patience) = self.hold_patience_ms() {
            wait = wait.min(patience);
        }
        if let Some(patience) = self.replica_patience_ms() {
            wait = wait.min(patience);
        }
        if let Some(&(deadline, _)) = self.clients.deadlines.first() {
            wait = wait.min((deadline - now).max(0));
        }
        let wait = Duration::from_millis(wait as u64);
        Some(self.until_defrag().map_or(wait, |until| wait.min(until)))
    }

    #[inline]
    fn serve(&mut self, place: u32, readable: bool, writable: bool) {
        if writable
            && let Some(client) = self.clients.slab.get(place)
            && client.wants_write
            && !client.listed.to_write
        {
            if let Some(output) = &mut client.replica_output {
                output.blocked = false;
            }
            client.listed.to_write = true;
            self.clients.to_write.push(place);
        }
        if readable {
            self.model().read(self, place);
        }
    }

    /// Step one on this thread: receives and parses into the loop's own batch.
    #[inline]
    pub(crate) fn read_here(&mut self, place: u32) {
        if self.clients.is_full() {
            self.execute_and_write();
        }
        let received = self.clients.read(&self.engine, place);
        self.count_received(received);
    }

    /// Parses input that a client sent earlier into the loop's own batch.
    #[inline]
    pub(crate) fn resume_here(&mut self, place: u32) {
        let received = self.clients.resume(&self.engine, place);
        self.count_received(received);
    }

    #[inline]
    pub(crate) fn count_received(&self, received: usize) {
        self.stats().count_received(received);
    }

    /// Step three: sends pending replies.
    pub(crate) fn write_replies(&mut self) {
        self.deliver();
        self.ensure_durable();
        if !self.clients.to_write.is_empty() {
            self.feed_replicas_before_replies();
        }
        let now = self.worker.now_ms();
        let mut list = std::mem::take(&mut self.clients.to_write);
        for place in list.drain(..) {
            self.clients.write(&self.engine.telemetry.threads[self.slot], place);
            self.update_interest(place, now);
        }
        self.clients.to_write = list;
    }

    /// Polls a client for writing only while output is left to send.
    pub(crate) fn update_interest(&mut self, place: u32, now: i64) {
        let Some(client) = self.clients.slab.get(place) else { return };
        let wants = client.wants_room() && !client.is_broken();
        if client.wants_write != wants {
            client.wants_write = wants;
            if self.poller.modify(&client.socket, u64::from(place), client.interest()).is_err() {
                client.break_off();
                self.clients.to_drop.push(place);
            }
        }
        if wants {
            self.clients.check_output_limit(&self.engine, place, now);
        }
    }

    fn accept(&mut self, token: u64) {
        if self.listeners.accept(&self.engine, &self.loads, token) == AcceptOutcome::Exhausted {
            self.listeners.rest(&self.poller);
            self.accepting_again_at = Some(clock::unix_ms() + ACCEPT_PAUSE_MS);
        }
    }

    fn resume_accepting(&mut self) {
        self.accepting_again_at = None;
        if self.slot == 0 {
            self.listeners.poll(&self.poller);
        }
    }
}
