// SPDX-License-Identifier: BSD-3-Clause
//! The event loop of one thread: polls its clients and runs the three steps on them.
//!
//! One turn: take events, receive and parse what is ready into a batch (over several clients, so that what their keys touch can be
//! fetched together), execute, send the replies. Then mail, dropping, and the cron when it is due. A turn never waits except in
//! the poller.
//!
//! Where threading models differ the loop asks its model ([`Model`]), a type that it is compiled for.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::{self, TickSpan, Ticks};
use braid_base::gate::Entered;
use braid_clients::attention::{MEMORY_LIMIT, PAUSED};
use braid_config::ClientClass;
use braid_engine::blocking::Ending;
use braid_engine::{Engine, Worker, dispatch, monitor};
use braid_keyspace::context::Meanwhile;
use braid_net::poller::{Interest, Poller};
use braid_notify::tracking;
use braid_telemetry::stats::ThreadStats;
use hashbrown::HashMap;

use crate::accept::{Accepting, Listeners, LoopLoads};
use crate::balance::Balance;
use crate::batch::Request;
use crate::client::Client;
use crate::cron::Cron;
use crate::give_way::GiveWay;
use crate::leave;
use crate::models::Model;
use crate::push::Pushes;
use crate::settle::Settling;
use crate::steps::{Run, Settings, Station};

const MAILBOX: u64 = u64::MAX;
/// Milliseconds without accepting after the process ran out of descriptors.
const ACCEPT_PAUSE_MS: i64 = 100;

/// For so long the requests of one client are executed before others get their turn. Long enough for some thousand ordinary commands.
const TURN_NANOS: u64 = 1_000_000;

/// Requests between two looks for what their own batch has published.
const DELIVERY_PERIOD: usize = 32;

/// One thread's loop.
pub struct EventLoop<M: Model> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) slot: usize,
    pub(crate) poller: Poller,
    pub(crate) station: Station,
    pub(crate) worker: Worker,
    /// What the loop's threading model keeps.
    pub(crate) model: M,
    pub(crate) cron: Cron,
    pub(crate) balance: Balance,
    pub(crate) loads: Arc<LoopLoads>,
    /// Polled by the first loop.
    pub(crate) listeners: Arc<Listeners>,
    accepting_again_at: Option<i64>,
    /// Places of clients by id.
    pub(crate) by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
    pub(crate) pushes: Pushes,
    pub(crate) config_version: u64,
    /// [`TURN_NANOS`].
    turn_span: TickSpan,
    pub(crate) loads_version: u64,
    /// All clients are to go to other loops.
    pub(crate) is_left: bool,
    pub(crate) stopping: bool,
    /// Clients that are fed as replicas, how far they may be sent the journal, and whether there is more for them.
    pub(crate) feeds: Vec<u32>,
    pub(crate) fed_up_to: u64,
    /// How much of the journal was there then: what is not on disk yet may have to wait.
    pub(crate) known_up_to: u64,
    pub(crate) feeds_more: bool,
    /// Replies that wait for the disk.
    pub(crate) settling: Settling,
    /// Stand in for the worker and the engine while those run a script.
    spare: Option<(Worker, Arc<Engine>)>,
    /// A script is running further up the stack: what needs keys has to wait.
    meanwhile: bool,
    pub(crate) held: Held,
    /// How often it was told that postponed requests may go on.
    pub(crate) resumes: u64,
    /// Nanoseconds of the present turn that went by waiting for other threads.
    waited_nanos: u64,
    /// The last turn has executed something.
    has_executed: bool,
    way: GiveWay,
}

/// What could not be done while a script had stopped the world.
#[derive(Default)]
pub(crate) struct Held {
    endings: Vec<(Vec<u32>, Ending)>,
    drops: Vec<u32>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.endings.is_empty() && self.drops.is_empty()
    }
}

impl<M: Model> EventLoop<M> {
    /// The loop of the thread that owns `slot`. The first one accepts connections.
    ///
    /// `loads` with their version when the thread began to be started: what has changed since then is followed in the first turn.
    pub fn new(
        engine: Arc<Engine>,
        slot: usize,
        epoll: OwnedFd,
        (loads, loads_version): (Arc<LoopLoads>, u64),
        listeners: Arc<Listeners>,
        model: M,
    ) -> std::io::Result<EventLoop<M>> {
        let poller = Poller::on(epoll);
        poller.add(engine.mailboxes[slot].notifier(), MAILBOX, Interest::Read)?;
        if slot == 0 {
            listeners.poll(&poller);
        }
        let worker = engine.worker(slot);
        let station = Station::new(settings(&engine), Arc::clone(&engine.client_bytes));
        Ok(EventLoop {
            cron: Cron::new(slot, loads.loops()),
            balance: Balance::new(slot, &loads),
            config_version: engine.config.version(),
            turn_span: TickSpan::from_nanos(TURN_NANOS),
            loads_version,
            is_left: false,
            engine,
            slot,
            poller,
            station,
            worker,
            model,
            loads,
            listeners,
            accepting_again_at: None,
            by_id: HashMap::default(),
            pushes: Pushes::default(),
            settling: Settling::default(),
            feeds: Vec::new(),
            fed_up_to: 0,
            known_up_to: 0,
            feeds_more: false,
            stopping: false,
            spare: None,
            meanwhile: false,
            held: Held::default(),
            resumes: 0,
            waited_nanos: 0,
            has_executed: false,
            way: GiveWay::default(),
        })
    }

    /// Serves until told to stop.
    pub fn run(mut self) {
        while !self.stopping {
            self.turn();
        }
        self.release_all();
        for place in self.station.clients.all() {
            self.drop_client(place);
        }
        self.sign_off();
    }

    pub(crate) fn stats(&self) -> &ThreadStats {
        &self.engine.threads[self.slot]
    }

    fn turn(&mut self) {
        if std::mem::take(&mut self.has_executed) {
            self.way.offer();
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
        self.do_held();
        let executed = self.stats().executed.get();
        if self.engine.config.version() != self.config_version {
            self.config_version = self.engine.config.version();
            self.station.follow(settings(&self.engine));
        }
        let is_short = is_short(&self.engine);
        if is_short || self.station.settings.is_short {
            self.station.follow(Settings { is_short, ..self.station.settings });
        }
        if self.loads.version() != self.loads_version {
            self.follow_thread_count();
        }
        if events > 0 {
            self.cron.note_activity(&self.engine);
        }
        self.release_replies();
        self.serve_events(events);
        self.shed_clients();
        self.drop_finished();
        let now = clock::unix_ms();
        self.end_waits(now);
        if self.accepting_again_at.is_some_and(|at| now >= at) {
            self.resume_accepting();
        }
        self.cron.run(&self.engine, &mut self.worker, &mut self.station, now);
        if self.engine.hub.has_pushes(self.slot) {
            // Keys that have expired, for instance.
            M::execute_and_write(self);
        }
        self.drop_finished();
        if self.is_left {
            self.leave();
        } else if self.balance.is_due(now) {
            self.rebalance(now);
        }
        if !self.station.to_write.is_empty() {
            // Those who were told of something when others were handed over.
            M::execute_and_write(self);
        }
        self.feed_replicas(now);
        self.drop_finished();
        self.station.clients.settle();
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

    /// Serves the clients that the poller has reported, then the mail, then those who have sent more than was executed at once.
    fn serve_events(&mut self, events: usize) {
        let mut mail = false;
        let turn = self.poller.waits();
        for index in 0..events {
            if self.poller.waits() != turn {
                // Events were taken while a script ran; what is left of the old ones is reported again.
                break;
            }
            let event = self.poller.event(index);
            match event.token {
                MAILBOX => mail = true,
                token if token > u64::from(u32::MAX) => self.accept(token),
                token => self.serve(token as u32, event.readable, event.writable),
            }
        }
        M::execute_and_write(self);
        if mail || M::has_arrivals(self) {
            self.read_mail(mail);
            M::execute_and_write(self);
        }
        // Once per turn: a client with a lot to catch up on takes turns with the others.
        if !self.station.to_resume.is_empty() {
            if self.is_left {
                // They go on elsewhere. Places of guests, who have gone, are forgotten.
                let Station { clients, to_resume, .. } = &mut self.station;
                to_resume.retain(|&place| clients.get(place).is_some_and(|client| client.in_resume_list));
                return;
            }
            for place in std::mem::take(&mut self.station.to_resume) {
                M::resume(self, place);
            }
            M::execute_and_write(self);
        }
    }

    /// Notes that the present turn had to wait for other threads: a thread that waits is not busy.
    pub(crate) fn waited(&mut self, nanos: u64) {
        self.waited_nanos += nanos;
        let stats = self.stats();
        stats.waits.add(1);
        stats.wait_nanos.add(nanos);
    }

    fn timeout(&mut self) -> Option<Duration> {
        if !self.station.to_resume.is_empty() || M::has_arrivals(self) || self.can_release() {
            return Some(Duration::ZERO);
        }
        if !self.feeds.is_empty() {
            let hears = self.any_replica_hears();
            if self.has_news_for_replicas(hears) {
                return Some(Duration::ZERO);
            }
        }
        let now = clock::unix_ms();
        let mut wait = self.cron.wait_ms(now);
        if !self.held.is_empty() {
            wait = wait.min(20);
        }
        if self.is_left {
            wait = wait.min(leave::ATTEMPT_MS);
        }
        if let Some(at) = self.accepting_again_at {
            wait = wait.min((at - now).max(0));
        }
        if self.engine.attention.get() & PAUSED != 0
            && let Some((_, until)) = self.engine.pause.current(now)
        {
            wait = wait.min((until - now).max(1));
        }
        if let Some(&(deadline, _)) = self.station.deadlines.first() {
            wait = wait.min((deadline - now).max(0));
        }
        Some(Duration::from_millis(wait as u64))
    }

    #[inline]
    fn serve(&mut self, place: u32, readable: bool, writable: bool) {
        if writable
            && let Some(client) = self.station.clients.get(place)
            && client.wants_write
            && !client.in_write_list
        {
            if let Some(feed) = &mut client.feed {
                feed.blocked = false;
            }
            client.in_write_list = true;
            self.station.to_write.push(place);
        }
        if readable {
            M::read(self, place);
        }
    }

    /// Step one on this thread: receives and parses into the loop's own batch.
    #[inline]
    pub(crate) fn read_here(&mut self, place: u32) {
        if self.station.is_full() {
            M::execute_and_write(self);
        }
        let received = self.station.read(&self.engine, place);
        self.count_received(received);
    }

    /// Parses what a client has sent before into the loop's own batch.
    #[inline]
    pub(crate) fn resume_here(&mut self, place: u32) {
        let received = self.station.resume(&self.engine, place);
        self.count_received(received);
    }

    #[inline]
    pub(crate) fn count_received(&self, received: usize) {
        self.stats().count_received(received);
    }

    /// Step three: sends the replies of the clients that have any.
    pub(crate) fn write_replies(&mut self) {
        self.deliver();
        self.settle_changes();
        let now = self.worker.now_ms();
        let mut list = std::mem::take(&mut self.station.to_write);
        for place in list.drain(..) {
            self.station.write(&self.engine.threads[self.slot], place);
            self.update_interest(place, now);
        }
        self.station.to_write = list;
    }

    /// Step two, for the whole batch.
    pub(crate) fn execute(&mut self) {
        // Before the replies to what was sent later.
        self.deliver();
        self.shed_clients();
        let Some(mut run) = self.station.begin() else { return };
        if !run.batch.requests.is_empty() {
            M::before_execution(self);
            let gate = &self.engine.keyspace.gate;
            // While a script runs further up the stack, what it has locked is out of reach even if the gate is open.
            self.worker.context.outside =
                self.meanwhile || gate.enter_unless_busy(self.slot) == Entered::Busy;
            self.worker.begin_batch();
            // The client whose turn it is, its first request in the batch, and when its turn began.
            let (mut client, mut first, mut began) = (u32::MAX, 0, self.worker.boundary());
            while let Some(&request) = run.batch.requests.get(run.at) {
                if run.at.is_multiple_of(DELIVERY_PERIOD) {
                    // What the batch has published so far, while it is in the cache.
                    self.deliver();
                }
                if request.client != client {
                    (client, first, began) = (request.client, run.at, self.worker.boundary());
                }
                self.execute_next(&run, &request);
                run.at += 1;
                if self.worker.boundary().exceeds(began, self.turn_span) {
                    self.station.cut_short(&self.engine, self.slot, &mut run, first);
                }
            }
            if !std::mem::take(&mut self.worker.context.outside) {
                self.engine.keyspace.gate.leave(self.slot);
            }
            self.worker.context.limbo.reclaim();
            M::after_execution(self);
            self.settling.note_changes();
        }
        self.station.end(&self.engine, run, self.worker.now_ms());
        if !M::HOLDS_REPLIES {
            self.settle_changes();
        }
        self.shed_clients();
    }

    /// Executes a run's present request.
    #[inline]
    fn execute_next(&mut self, run: &Run, request: &Request) {
        if !self.worker.context.outside || self.come_in() {
            self.station.prefetch_next(&self.engine, run);
        }
        if run.is_finished() && !self.station.clients.is_in_batch(request.client) {
            // Executed while a script ran.
        } else if M::SENDS_AWAY && M::sends_away(self, run, request) {
            // It waits for its client to leave.
        } else if request.prepared.runs_scripts()
            && !self.worker.context.outside
            && self.station.runs_scripts(&self.engine, request)
        {
            self.execute_script(run, request);
        } else {
            self.station.execute_one(&self.engine, &mut self.worker, run, request);
        }
    }

    #[cold]
    fn come_in(&mut self) -> bool {
        !self.meanwhile && self.engine.keyspace.come_in(&mut self.worker.context)
    }

    /// Executes a request that runs scripts, and serves the loop's other clients when that takes long.
    fn execute_script(&mut self, run: &Run, request: &Request) {
        let place = request.client;
        let Some(mut client) = self.station.clients.lend(place) else { return };
        if client.broken || client.keep_from.is_some() || client.session.close_after_reply {
            return self.station.clients.give_back(place, client);
        }
        // A worker that stands in for the one that is occupied, and the engine at hand without counting one reference more each time.
        let (spare, held) =
            self.spare.take().unwrap_or_else(|| (self.engine.worker(self.slot), Arc::clone(&self.engine)));
        let mut worker = std::mem::replace(&mut self.worker, spare);
        let engine = std::mem::replace(&mut self.engine, held);
        client.reply.set_limit(self.station.settings.reply_max());
        let Client { session, reply, query, blobs, .. } = &mut *client;
        let args = run.arguments(request, query, blobs);
        let mut call = || self.serve_meanwhile(run, place);
        let outcome = Meanwhile::with(
            &mut worker,
            |worker| &mut worker.context,
            &mut call,
            |worker| dispatch::execute(&engine, worker, session, reply, request.prepared, &args, blobs),
        );
        drop(args);
        if run.is_finished() {
            // It was not there when replies were sent meanwhile.
            client.in_write_list = self.station.to_write.contains(&place);
        }
        self.station.clients.give_back(place, client);
        self.station.executed(&engine, &worker, request, outcome);
        self.spare =
            Some((std::mem::replace(&mut self.worker, worker), std::mem::replace(&mut self.engine, engine)));
        M::script_has_ended(self);
    }

    /// A turn of the loop while one of its clients runs a script that has stopped the world for long: nobody is served, but everybody is
    /// answered, and the script can be ended.
    fn serve_meanwhile(&mut self, run: &Run, script_of: u32) {
        M::script_takes_long(self);
        self.meanwhile = true;
        self.worker.context.outside = true;
        self.worker.begin_batch();
        self.station.settle_others(&self.engine, &mut self.worker, run, script_of);
        self.station.receive_meanwhile();
        let events = self.poller.wait(Some(Duration::ZERO)).unwrap_or(0);
        self.serve_events(events);
        self.worker.context.outside = false;
        self.meanwhile = false;
    }

    /// Enters the gate for the loop's own purposes. False if a script has stopped the world for long.
    fn enter(&mut self) -> bool {
        !self.meanwhile && self.engine.keyspace.gate.enter_unless_busy(self.slot) == Entered::Inside
    }

    /// Does what had to wait for a script.
    fn do_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let Held { endings, drops } = std::mem::take(&mut self.held);
        for (places, ending) in endings {
            self.give_up_waiting(&places, ending);
        }
        for place in drops {
            self.drop_client(place);
        }
    }

    /// Polls for writing exactly while something is left to send.
    pub(crate) fn update_interest(&mut self, place: u32, now: i64) {
        let Some(client) = self.station.clients.get(place) else { return };
        let wants = client.wants_room() && !client.broken;
        if client.wants_write != wants {
            client.wants_write = wants;
            let interest = if wants { Interest::ReadWrite } else { Interest::Read };
            if self.poller.modify(&client.socket, u64::from(place), interest).is_err() {
                client.broken = true;
                self.station.to_drop.push(place);
            }
        }
        if wants {
            self.station.check_output_limit(&self.engine, place, now);
        }
    }

    fn accept(&mut self, token: u64) {
        if self.listeners.accept(&self.engine, &self.loads, token) == Accepting::Exhausted {
            self.listeners.rest(&self.poller);
            self.accepting_again_at = Some(clock::unix_ms() + ACCEPT_PAUSE_MS);
        }
    }

    pub(crate) fn resume_accepting(&mut self) {
        self.accepting_again_at = None;
        if self.slot == 0 {
            self.listeners.poll(&self.poller);
        }
    }

    /// Ends the waits whose time is over.
    fn end_waits(&mut self, now: i64) {
        let mut over = Vec::new();
        while let Some(&(deadline, place)) = self.station.deadlines.first()
            && deadline <= now
        {
            self.station.deadlines.pop_first();
            let Some(client) = self.station.clients.get(place) else { continue };
            // Otherwise somebody serves it just now: the reply is on its way.
            if client.session.blocked.as_ref().is_some_and(|blocked| blocked.claim()) {
                over.push(place);
            }
        }
        if !over.is_empty() {
            self.give_up_waiting(&over, Ending::Timeout);
            M::execute_and_write(self);
        }
    }

    /// Answers clients whose waits have been ended before they were served.
    pub(crate) fn give_up_waiting(&mut self, places: &[u32], ending: Ending) {
        if !self.enter() {
            self.held.endings.push((places.to_vec(), ending));
            return;
        }
        let engine = Arc::clone(&self.engine);
        for &place in places {
            let Some(client) = self.station.clients.get(place) else { continue };
            let Some(blocked) = client.session.blocked.take() else { continue };
            blocked.leave(&engine, &mut self.worker);
            blocked.give_up(&engine, &self.worker, &client.session, &mut client.reply, ending);
            self.station.deadlines.remove(&(blocked.deadline_ms, place));
            self.go_on(place);
        }
        engine.keyspace.gate.leave(self.slot);
    }

    /// Goes on with a client whose wait is over: sends the reply, and executes what it has sent meanwhile.
    pub(crate) fn go_on(&mut self, place: u32) {
        let Some(client) = self.station.clients.get(place) else { return };
        client.session.record.last_active_ms.store(clock::unix_ms(), Relaxed);
        if !client.in_write_list && !client.reply.is_empty() {
            client.in_write_list = true;
            self.station.to_write.push(place);
        }
        if !client.in_resume_list {
            client.in_resume_list = true;
            self.station.to_resume.push(place);
        }
    }

    fn drop_finished(&mut self) {
        while let Some(place) = self.station.to_drop.pop() {
            if self.station.clients.get(place).is_some_and(|client| client.is_finished()) {
                self.drop_client(place);
            }
        }
    }

    fn drop_client(&mut self, place: u32) {
        let Some(client) = self.station.clients.get(place) else { return };
        let needs_keys = !client.session.watched.is_empty() || client.session.blocked.is_some();
        if needs_keys && !self.enter() {
            self.held.drops.push(place);
            return;
        }
        let Some(mut client) = self.station.clients.remove(place) else { return };
        // The kernel forgets a closed descriptor by itself; a duplicated one it would not.
        let _ = self.poller.remove(&client.socket);
        let engine = Arc::clone(&self.engine);
        if !client.session.watched.is_empty() {
            dispatch::unwatch_all(&engine, &mut self.worker.context, &mut client.session);
        }
        engine.hub.leave(&mut client.session);
        monitor::stop(&engine, &mut client.session);
        tracking::stop(&engine, &mut client.session);
        if client.session.replica.is_some() {
            self.feeds.retain(|&other| other != place);
            engine.detach_replica(&mut client.session, clock::unix_ms());
        }
        if let Some(blocked) = client.session.blocked.take() {
            // Whoever serves it just now takes it out of the queues too; twice does no harm.
            blocked.claim();
            blocked.leave(&engine, &mut self.worker);
            self.station.deadlines.remove(&(blocked.deadline_ms, place));
        }
        if needs_keys {
            engine.keyspace.gate.leave(self.slot);
        }
        client.uncount(&self.station.client_bytes);
        let id = client.session.id();
        self.by_id.remove(&id);
        engine.clients.remove(id);
        self.loads.release(self.slot);
        let stats = self.stats();
        // Minus one, in wrapping arithmetic.
        stats.clients.add(u64::MAX);
    }
}

/// What the steps go by, as configured now.
pub(crate) fn settings(engine: &Engine) -> Settings {
    Settings {
        bulk_len_max: engine.config.proto_max_bulk_len(),
        query_bytes_max: usize::try_from(engine.config.client_query_buffer_limit()).unwrap_or(usize::MAX),
        output_limit: engine.config.client_output_buffer_limit(ClientClass::Normal),
        listener_limit: engine.config.client_output_buffer_limit(ClientClass::Pubsub),
        monitor_bytes_max: engine.config.monitor_output_bytes(),
        is_short: is_short(engine),
    }
}

/// Whether memory is short at present.
#[inline]
fn is_short(engine: &Engine) -> bool {
    engine.attention.get() & MEMORY_LIMIT != 0 && engine.over_limit.is_short()
}
