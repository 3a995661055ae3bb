// SPDX-License-Identifier: BSD-3-Clause
//! The cron of a loop: expiry, eviction, client timeouts and accounting, at the rate of `hz`.
//! Every task is bounded, so it does not delay clients.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{self, Ticks};
use braid_base::gate::Entered;
use braid_base::relocation::{flush_cache, occupancy};
use braid_clients::attention::{LOADING, MEMORY_LIMIT};
use braid_clients::client_flags;
use braid_config::Config;
use braid_durable::load_defrag::defrag_limits;
use braid_durable::{append_only, background_save, backup};
use braid_executor::memory::{self, make_room};
use braid_executor::{Engine, Worker, client_eviction, dispatch};
use braid_keyspace::defrag::Limits;
use braid_keyspace::expiry;
use braid_process::memory::resident_bytes;
use braid_replica::cron;
use braid_telemetry::{LinkBytes, Telemetry};

use crate::client_set::ClientSet;

/// Entries visited per expiry pass.
const EXPIRY_BUDGET: usize = 2000;
/// Nanoseconds of expiry per cron run, times `active-expire-effort`.
const EXPIRY_NANOS: u64 = 1_000_000;

/// Milliseconds between two looks at the waste of memory.
const DEFRAG_REVIEW_MS: i64 = 1000;
/// Milliseconds between two looks at the resident memory.
const EXCESS_MS: i64 = 100;
/// The part of `maxmemory` by which keys make room, at most, for memory that no value uses.
const EXCESS_PART: usize = 3;
/// Parts of what is beyond the limit, or below it, by which keys make more or less room at a time.
const EXCESS_RISE: usize = 24;
const EXCESS_FALL: usize = 8;

/// Idle milliseconds after which a client's spare capacity is freed, and those of a loop after
/// which the loop's is.
const IDLE_MS: i64 = 2000;
/// Maximum number of commands and sends between two cron runs for a loop that counts as idle.
const IDLE_WORK_MAX: u64 = 100;

/// Milliseconds without reading after which a client counts as not reading at all.
const DEAF_MS: i64 = 3000;

/// State of one loop's cron.
pub struct Cron {
    slot: usize,
    loops: usize,
    next_ms: i64,
    next_client: usize,
    /// This loop has been active since the last run.
    busy: bool,
    /// The next run has been put off for lack of activity.
    resting: bool,
    /// Commands executed and replies sent on this loop up to the last run.
    done: u64,
    /// Since when the loop has been idle; None once the spare memory is freed.
    idle_since: Option<i64>,
    /// When the waste of memory is next looked at.
    next_review_ms: i64,
    /// When the resident memory is.
    next_excess_ms: i64,
}

impl Cron {
    /// The cron of loop `slot` of `loops`.
    pub fn new(slot: usize, loops: usize) -> Cron {
        Cron {
            slot,
            loops,
            next_ms: 0,
            next_client: 0,
            busy: true,
            resting: false,
            done: 0,
            idle_since: None,
            next_review_ms: 0,
            next_excess_ms: 0,
        }
    }

    /// Sets the number of loops.
    pub fn set_loops(&mut self, loops: usize) {
        self.loops = loops;
    }

    /// Milliseconds until the next run is due.
    pub fn wait_ms(&self, now_ms: i64) -> i64 {
        (self.next_ms - now_ms).clamp(0, 1000)
    }

    /// Records activity: the next run comes at its usual time.
    #[inline]
    pub fn note_activity(&mut self, engine: &Engine) {
        self.busy = true;
        if self.resting {
            self.end_rest(engine);
            self.next_ms = self.next_ms.min(clock::unix_ms() + period_ms(&engine.config));
        }
    }

    fn end_rest(&mut self, engine: &Engine) {
        self.resting = false;
        engine.telemetry.threads[self.slot].resting.store(false, Relaxed);
    }

    /// Runs the tasks that are due. Called outside the gate.
    pub fn run(&mut self, engine: &Engine, worker: &mut Worker, clients: &mut ClientSet, now_ms: i64) {
        if self.slot == 0 {
            engine.clients.pause.end_in_time(&engine.attention, &engine.clients.mailboxes, now_ms);
        }
        if now_ms < self.next_ms {
            return;
        }
        let start = Ticks::now();
        if self.resting {
            self.end_rest(engine);
        }
        let period = period_ms(&engine.config);
        self.next_ms = now_ms + period;
        if engine.debug.cron_paused.load(Relaxed) {
            return;
        }
        if self.slot == 0 {
            engine.keyspace.tick(now_ms);
            let (received, sent) = (&engine.replication.link.received_bytes, &engine.replication.sent_bytes);
            let links = LinkBytes { received: received.load(Relaxed), sent: sent.load(Relaxed) };
            engine.telemetry.sample_rates(links, clock::unix_us());
            engine.memory.note_peak();
            engine.telemetry.hot_keys.end_if_due(&engine.telemetry.threads, now_ms);
        }
        if self.slot == 0 {
            background_save::save_if_due(engine, now_ms);
            append_only::append_only_cron(engine, now_ms);
            backup::backup_cron(engine, now_ms);
            cron::check_replicas(engine, now_ms);
            memory::note_uncounted_bytes(engine);
            self.note_excess(engine, now_ms);
            self.review_defrag(engine, now_ms);
        }
        if engine.keyspace.gate.enter_unless_busy(self.slot) == Entered::Busy {
            // A script has stopped the world for long.
            return;
        }
        worker.begin_batch();
        // A dataset must not change while it is being loaded.
        let is_loading = engine.attention.get() & LOADING != 0;
        let is_paused = memory::is_paused(engine, now_ms);
        if !is_paused && !is_loading {
            self.expire(engine, worker, now_ms);
            if engine.attention.get() & MEMORY_LIMIT != 0 {
                make_room(engine, worker, now_ms, true);
            }
        }
        if std::mem::take(&mut worker.context.outside) {
            return;
        }
        if self.slot == 0 {
            cron::ping_replicas(engine, &mut worker.context, now_ms);
            if !is_paused && !is_loading && engine.replication.link.is_replica() {
                engine.keyspace.expire_own(&mut worker.context, now_ms);
            }
            if !is_loading {
                engine.telemetry.big_keys.step(&engine.keyspace, now_ms);
            }
        }
        dispatch::follow_up(engine, worker);
        engine.keyspace.gate.leave(self.slot);
        worker.context.limbo.reclaim_now();
        worker.value_cache.sweep();
        self.visit_clients(engine, clients, now_ms, period);
        self.release_spare(&engine.telemetry, clients, now_ms);
        let timeouts = engine.config.timeout_seconds() > 0 && !clients.slab.is_empty();
        let quiet = !std::mem::take(&mut self.busy) && engine.attention.get() == 0;
        if quiet && !timeouts && clients.tracked.is_empty() && self.next_ms == now_ms + period {
            self.rest(engine, now_ms);
        }
        engine.telemetry.threads[self.slot].cron_nanos.add(Ticks::now().nanos_since(start));
    }

    /// Decides about once a second whether the memory is to be defragmented.
    fn review_defrag(&mut self, engine: &Engine, now_ms: i64) {
        if now_ms < self.next_review_ms || engine.attention.get() & LOADING != 0 {
            return;
        }
        self.next_review_ms = now_ms + DEFRAG_REVIEW_MS;
        let keys_make_room = engine.memory.excess_bytes.load(Relaxed) > 0;
        let limits = Limits { keys_make_room, ..defrag_limits(&engine.config) };
        engine.keyspace.review_defrag(limits, now_ms, occupancy);
    }

    /// Notes the resident memory for which keys have to make room: ten times a second at most,
    /// however often the cron runs, since each look changes it by a part.
    fn note_excess(&mut self, engine: &Engine, now_ms: i64) {
        if now_ms < self.next_excess_ms {
            return;
        }
        self.next_excess_ms = now_ms + EXCESS_MS;
        let excess = match engine.config.maxmemory_resident_limit() {
            true => {
                let uncounted = engine.memory.uncounted_bytes.load(Relaxed);
                let resident = resident_bytes().saturating_sub(uncounted);
                let before = engine.memory.excess_bytes.load(Relaxed);
                excess_bytes(before, engine.config.maxmemory() as usize, resident)
            }
            false => 0,
        };
        engine.memory.excess_bytes.store(excess, Relaxed);
    }

    /// Puts off the next run: with no activity, waking up ten times a second would be a waste.
    /// The first loop sleeps less, since it keeps time and statistics for all loops.
    fn rest(&mut self, engine: &Engine, now_ms: i64) {
        let rest_ms = if self.slot == 0 { 200 } else { 500 };
        // Over all shards, not only this loop's share: the other loops may have gone to rest
        // before a key in their shares got its expiry.
        let due = expiry::next_due(&engine.keyspace).unwrap_or(i64::MAX);
        self.next_ms = due.min(now_ms.saturating_add(rest_ms)).max(self.next_ms);
        self.resting = true;
        engine.telemetry.threads[self.slot].resting.store(true, Relaxed);
    }

    fn expire(&mut self, engine: &Engine, worker: &mut Worker, now_ms: i64) {
        let start = Ticks::now();
        let allowed = EXPIRY_NANOS * u64::from(engine.config.active_expire_effort());
        // Each loop expires its own share of the shards. The first loop that is awake also expires
        // the shares of resting loops, which may have gone to rest before a key there got its
        // expiry.
        let is_resting = |slot: usize| engine.telemetry.threads[slot].resting.load(Relaxed);
        let is_first_awake = !(0..self.slot).any(|slot| !is_resting(slot));
        let others = (0..self.loops).filter(|&slot| slot != self.slot && is_first_awake && is_resting(slot));
        'shares: for slot in std::iter::once(self.slot).chain(others) {
            let share = (slot as u32, self.loops as u32);
            loop {
                let pass =
                    expiry::expire_due(&engine.keyspace, &mut worker.context, share, now_ms, EXPIRY_BUDGET);
                let spent = Ticks::now().nanos_since(start);
                if spent > allowed && !pass.complete {
                    // More keys are due: run again soon, but leave three quarters of the time to
                    // clients.
                    self.next_ms = now_ms + (spent / 1_000_000).max(1) as i64 * 3;
                    break 'shares;
                }
                if pass.complete {
                    break;
                }
            }
        }
        let spent = Ticks::now().nanos_since(start) / 1_000_000;
        let threshold = engine.config.latency_monitor_threshold_milliseconds();
        if threshold > 0 && spent >= threshold {
            engine.telemetry.latency.add("expire-cycle", now_ms / 1000, spent as u32);
        }
    }

    /// Frees memory kept for reuse once the loop has had little use for it for a while.
    fn release_spare(&mut self, telemetry: &Telemetry, clients: &mut ClientSet, now_ms: i64) {
        let stats = &telemetry.threads[self.slot];
        // A reset of the statistics looks like much activity, once.
        let done = stats.executed.get().wrapping_add(stats.writes.get());
        if done.wrapping_sub(std::mem::replace(&mut self.done, done)) > IDLE_WORK_MAX {
            self.idle_since = Some(now_ms);
        } else if self.idle_since.is_some_and(|since| now_ms - since >= IDLE_MS) {
            self.idle_since = None;
            clients.release_spare();
            flush_cache();
        }
    }

    /// Closes clients that do not read their messages, those with the most first, while all unread
    /// messages exceed their share of a memory limit that is exceeded as well.
    fn close_deaf(&self, engine: &Engine, clients: &mut ClientSet, mut deaf: Vec<(usize, u32)>) {
        if deaf.is_empty() {
            return;
        }
        let mut excess = client_eviction::excess_push_bytes(engine);
        deaf.sort_unstable();
        while let Some((bytes, place)) = deaf.pop().filter(|_| excess > 0) {
            let Some(client) = clients.slab.get(place) else { continue };
            let record = &client.session.record;
            log::warn!(
                "Closing a client that does not read its messages: id={} addr={}, {bytes} bytes \
                 (maxmemory-pushes)",
                record.id,
                record.address
            );
            engine.telemetry.threads[self.slot].output_limit_disconnections.add(1);
            excess = excess.saturating_sub(bytes);
            client.break_off();
            clients.to_drop.push(place);
        }
    }

    /// Visits all clients that hold memory, and with `timeout` the others too: a share per run,
    /// and all of them about once a second. Otherwise idle clients cost nothing.
    fn visit_clients(&mut self, engine: &Engine, clients: &mut ClientSet, now_ms: i64, period: i64) {
        // Clients that migrated meanwhile may be listed several times.
        clients.tracked.sort_unstable();
        clients.tracked.dedup();
        let mut deaf = Vec::new();
        for place in std::mem::take(&mut clients.tracked) {
            // A place that now belongs to another client is visited needlessly, once.
            let Some(client) = clients.slab.get(place) else { continue };
            if now_ms - client.session.record.last_active_ms.load(Relaxed) > IDLE_MS {
                client.release_room();
            }
            client.publish_sizes(&clients.client_bytes);
            client.count_pushes(&engine.clients.push_bytes);
            if client.stalled_ms(now_ms) >= DEAF_MS && client.counted_push_bytes() > 0 && !client.is_broken()
            {
                deaf.push((client.counted_push_bytes(), place));
            }
            client.listed.tracked = client.holds_memory();
            if client.listed.tracked {
                clients.tracked.push(place);
            }
            clients.check_output_limit(engine, place, now_ms);
        }
        self.close_deaf(engine, clients, deaf);
        let timeout = i64::from(engine.config.timeout_seconds()) * 1000;
        if timeout == 0 {
            return;
        }
        let share = clients.slab.places() * period as usize / 1000 + 16;
        let (places, next) = clients.slab.some_from(self.next_client, share);
        self.next_client = next;
        for place in places {
            let Some(client) = clients.slab.get(place) else { continue };
            let record = &client.session.record;
            let idle = now_ms - record.last_active_ms.load(Relaxed);
            let listens = record.has(client_flags::PUBSUB)
                || record.has(client_flags::MONITOR)
                || record.has(client_flags::REPLICA);
            if idle > timeout && !listens && !client.is_held() && !client.is_broken() {
                log::debug!("Closing idle client: id={} addr={}", record.id, record.address);
                client.break_off();
                clients.to_drop.push(place);
            }
        }
    }
}

/// How much of the resident memory that no value uses keys have to make room for: more while the
/// limit is exceeded, and less, slowly, while it is not. No more than a part of the limit: what is
/// evicted gives pages back only once others have been moved.
fn excess_bytes(before: usize, limit: usize, resident: usize) -> usize {
    let more = resident.saturating_sub(limit) / EXCESS_RISE;
    let less = limit.saturating_sub(resident).div_ceil(EXCESS_FALL);
    (before + more).saturating_sub(less).min(limit / EXCESS_PART)
}

/// Milliseconds between two runs of the cron.
fn period_ms(config: &Config) -> i64 {
    1000 / i64::from(config.hz().clamp(1, 500))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use braid_config::{ClientClass, Config};
    use braid_executor::engine::Start;
    use braid_keyspace::{Expiry, KeyRef, Txn, Value};

    use super::*;
    use crate::client_set::Settings;

    struct Rig {
        engine: Arc<Engine>,
        worker: Worker,
        clients: ClientSet,
        cron: Cron,
    }

    /// Two loops; the cron belongs to the first one and is at rest.
    fn at_rest(now_ms: i64) -> Rig {
        let config = Config::new();
        config.load_text("io-threads 2\nshards 16\n").expect("valid settings");
        let output_limit = config.client_output_buffer_limit(ClientClass::Normal);
        let listener_limit = output_limit;
        let settings = Settings {
            bulk_len_max: 1 << 29,
            query_bytes_max: 1 << 30,
            output_limit,
            listener_limit,
            monitor_bytes_max: 0,
            tracking_bytes_max: 0,
            is_short: false,
        };
        let engine =
            braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine");
        let worker = engine.worker(0);
        let mut rig = Rig {
            worker,
            clients: ClientSet::new(settings, Arc::clone(&engine.clients.bytes)),
            cron: Cron::new(0, 2),
            engine,
        };
        rig.engine.telemetry.threads[1].resting.store(true, Relaxed);
        // The first run follows activity; the second finds none.
        rig.run(now_ms - 100);
        rig.run(now_ms);
        assert!(rig.cron.resting && rig.cron.wait_ms(now_ms) == 200, "{}", rig.cron.wait_ms(now_ms));
        rig
    }

    impl Rig {
        fn run(&mut self, now_ms: i64) {
            self.cron.run(&self.engine, &mut self.worker, &mut self.clients, now_ms);
        }

        /// Sets keys in shards of both loops.
        fn set(&mut self, count: usize, expiry: i64) {
            let keyspace = &self.engine.keyspace;
            for number in 0..count {
                let name = format!("key:{number}");
                let keys =
                    [KeyRef { key: name.as_bytes(), hash: keyspace.hash(name.as_bytes()), write: true }];
                let mut txn = Txn::lock(keyspace, &mut self.worker.context, 0, 0, &keys);
                txn.set(name.as_bytes(), Value::string(b"v"), Expiry::At(expiry));
            }
        }
    }

    #[test]
    fn activity_ends_a_rest_so_that_expiry_is_a_period_late_at_most() {
        let now = clock::unix_ms();
        let mut rig = at_rest(now);
        rig.set(200, now + 10);
        rig.cron.note_activity(&rig.engine);
        assert!(rig.cron.wait_ms(clock::unix_ms()) <= 100, "the next turn is due at its usual time");
        assert!(!rig.engine.telemetry.threads[0].resting.load(Relaxed));
        // The other loop has been resting since before the keys were set: its share is expired as
        // well.
        rig.run(rig.cron.next_ms.max(now + 11));
        assert_eq!(rig.engine.keyspace.len(0), (0, 0));
    }

    #[test]
    fn a_rest_ends_when_a_key_of_any_loop_is_due() {
        let now = clock::unix_ms();
        let mut rig = at_rest(now);
        rig.set(200, now + 350);
        rig.run(now + 200);
        assert!(rig.cron.resting);
        assert_eq!(rig.cron.wait_ms(now + 200), 150, "the wait ends when keys are due, before the rest");
        rig.run(now + 351);
        assert_eq!(rig.engine.keyspace.len(0), (0, 0));
    }

    #[test]
    fn spare_memory_is_freed_after_a_period_of_low_load() {
        let start = clock::unix_ms();
        let mut rig = at_rest(start);
        rig.clients.keep_spare(1 << 20);
        let executed = |rig: &Rig, count: u64| rig.engine.telemetry.threads[0].executed.add(count);
        // Busy: nothing is freed, however long the load lasts.
        let mut now = start + 1000;
        for _ in 0..50 {
            executed(&rig, IDLE_WORK_MAX + 1);
            rig.run(now);
            now += 200;
        }
        assert!(rig.clients.spare_bytes() >= 1 << 20, "{}", rig.clients.spare_bytes());
        // Idle, but not for long enough at first.
        let last = now - 200;
        while now < last + IDLE_MS {
            executed(&rig, IDLE_WORK_MAX / 2);
            rig.run(now);
            assert!(rig.clients.spare_bytes() >= 1 << 20, "after {} ms", now - last);
            now += 200;
        }
        rig.run(last + IDLE_MS);
        assert!(rig.clients.spare_bytes() <= 64 << 10, "{}", rig.clients.spare_bytes());
    }

    #[test]
    fn loops_that_are_awake_see_to_their_own_shares() {
        let now = clock::unix_ms();
        let mut rig = at_rest(now);
        rig.engine.telemetry.threads[1].resting.store(false, Relaxed);
        rig.set(200, now + 10);
        rig.run(now + 200);
        let (left, _) = rig.engine.keyspace.len(0);
        assert!((1..200).contains(&left), "{left} keys left for the other loop");
    }

    #[test]
    fn room_is_made_until_resident_memory_is_within_the_limit() {
        let limit = 1_000_000;
        // What is resident beyond the keys, which use what the excess leaves them.
        let excess_after = |mut excess: usize, waste: usize| {
            for _ in 0..300 {
                excess = excess_bytes(excess, limit, limit - excess + waste);
            }
            excess
        };
        let excess = excess_after(0, 120_000);
        assert!((115_000..=120_000).contains(&excess), "{excess}");
        assert!(excess_after(excess, 0) < 100, "the waste is gone, and keys get the room back");
        assert_eq!(excess_after(0, 900_000), limit / EXCESS_PART, "never all keys");
        assert_eq!(excess_after(500, 0), 0);
    }
}
