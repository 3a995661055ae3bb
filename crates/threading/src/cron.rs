//! What a loop does from time to time: expiry, eviction, timeouts, accounting. Every task is bounded.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{self, Ticks};
use braid_engine::attention::{MEMORY_LIMIT, PAUSED};
use braid_engine::memory::make_room;
use braid_engine::{Engine, Worker};
use braid_keyspace::expiry;

use crate::steps::Station;

/// Entries looked at per expiry pass.
const EXPIRY_BUDGET: usize = 2000;
/// Nanoseconds of expiry per turn of the cron, times `active-expire-effort`.
const EXPIRY_NANOS: u64 = 1_000_000;

/// Milliseconds of silence after which a client's spare room is given back.
const IDLE_MS: i64 = 2000;

/// State of one loop's cron.
pub struct Cron {
    slot: usize,
    loops: usize,
    next_ms: i64,
    next_client: usize,
    /// Something has happened on this loop since the last turn of the cron.
    busy: bool,
}

impl Cron {
    /// The cron of loop `slot` of `loops`.
    pub fn new(slot: usize, loops: usize) -> Cron {
        Cron { slot, loops, next_ms: 0, next_client: 0, busy: true }
    }

    /// Milliseconds until the next turn is due.
    pub fn wait_ms(&self, now_ms: i64) -> i64 {
        (self.next_ms - now_ms).clamp(0, 1000)
    }

    /// Notes that there was something to do: the next turn comes at its usual time.
    #[inline]
    pub fn note_activity(&mut self) {
        self.busy = true;
    }

    /// Does what is due. Called outside the gate.
    pub fn run(&mut self, engine: &Engine, worker: &mut Worker, station: &mut Station, now_ms: i64) {
        if self.slot == 0 {
            end_pause(engine, now_ms);
        }
        if now_ms < self.next_ms {
            return;
        }
        let period = 1000 / i64::from(engine.config.hz().clamp(1, 500));
        self.next_ms = now_ms + period;
        if engine.debug.cron_paused.load(Relaxed) {
            return;
        }
        if self.slot == 0 {
            engine.keyspace.tick(now_ms);
            engine.sample_rates(clock::unix_us());
        }
        engine.keyspace.gate.enter(self.slot);
        worker.begin_batch();
        let paused = engine.attention.get() & PAUSED != 0 && engine.pause.current(now_ms).is_some();
        if !paused {
            self.expire(engine, worker, now_ms);
            if engine.attention.get() & MEMORY_LIMIT != 0 {
                make_room(engine, worker, now_ms);
            }
        }
        engine.keyspace.gate.leave(self.slot);
        worker.context.limbo.reclaim_now();
        self.visit_clients(engine, station, now_ms, period);
        let timeouts = engine.config.timeout_seconds() > 0 && !station.clients.is_empty();
        let quiet = !std::mem::take(&mut self.busy) && engine.attention.get() == 0;
        if quiet && !timeouts && station.lingering.is_empty() && self.next_ms == now_ms + period {
            self.rest(engine, now_ms);
        }
    }

    /// Puts the next turn off: nothing happens, so waking up ten times a second would be a waste. The first loop sleeps less, as it
    /// keeps time and statistics for all.
    fn rest(&mut self, engine: &Engine, now_ms: i64) {
        let rest_ms = if self.slot == 0 { 200 } else { 500 };
        let due =
            expiry::next_due(&engine.keyspace, (self.slot as u32, self.loops as u32)).unwrap_or(i64::MAX);
        self.next_ms = due.min(now_ms.saturating_add(rest_ms)).max(self.next_ms);
    }

    fn expire(&mut self, engine: &Engine, worker: &mut Worker, now_ms: i64) {
        let start = Ticks::now();
        let allowed = EXPIRY_NANOS * u64::from(engine.config.active_expire_effort());
        let share = (self.slot as u32, self.loops as u32);
        loop {
            let pass =
                expiry::expire_due(&engine.keyspace, &mut worker.context, share, now_ms, EXPIRY_BUDGET);
            let spent = Ticks::now().nanos_since(start);
            if pass.complete {
                break;
            }
            if spent > allowed {
                // More is due: come back soon, but leave three quarters of the time to clients.
                self.next_ms = now_ms + (spent / 1_000_000).max(1) as i64 * 3;
                break;
            }
        }
        let spent = Ticks::now().nanos_since(start) / 1_000_000;
        let threshold = engine.config.latency_monitor_threshold_milliseconds();
        if threshold > 0 && spent >= threshold {
            engine.latency.add("expire-cycle", now_ms / 1000, spent as u32);
        }
    }

    /// Looks at all clients that hold memory, and with `timeout` at the others too, a share per turn and all of them about once a
    /// second. Idle clients otherwise cost nothing.
    fn visit_clients(&mut self, engine: &Engine, station: &mut Station, now_ms: i64, period: i64) {
        for place in std::mem::take(&mut station.lingering) {
            // A place that was given to another client meanwhile is looked at for nothing, once.
            let Some(client) = station.clients.get(place) else { continue };
            if now_ms - client.session.record.last_active_ms.load(Relaxed) > IDLE_MS {
                client.release_room();
            }
            client.publish_sizes();
            client.lingers = client.holds_memory();
            if client.lingers {
                station.lingering.push(place);
            }
            station.check_output_limit(engine, place, now_ms);
        }
        let timeout = i64::from(engine.config.timeout_seconds()) * 1000;
        if timeout == 0 {
            return;
        }
        let share = station.clients.places() * period as usize / 1000 + 16;
        let (places, next) = station.clients.some_from(self.next_client, share);
        self.next_client = next;
        for place in places {
            let Some(client) = station.clients.get(place) else { continue };
            let record = &client.session.record;
            let idle = now_ms - record.last_active_ms.load(Relaxed);
            if idle > timeout && !client.postponed && !client.broken {
                log::debug!("Closing idle client: id={} addr={}", record.id, record.address);
                client.broken = true;
                station.to_drop.push(place);
            }
        }
    }
}

/// Lets clients go on when the time of a pause is over.
fn end_pause(engine: &Engine, now_ms: i64) {
    if engine.attention.get() & PAUSED == 0 || engine.pause.current(now_ms).is_some() {
        return;
    }
    engine.attention.set(PAUSED, false);
    if engine.pause.current(now_ms).is_some() {
        // A client began another pause just now: its bit must not be lost.
        engine.attention.set(PAUSED, true);
        return;
    }
    engine.tell_loops(|| braid_engine::client::Message::Resume);
}
