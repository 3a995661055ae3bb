// SPDX-License-Identifier: BSD-3-Clause
//! Periodic duties: ceilings, forcing the log to disk, acknowledgements, and membership changes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_active::backlog::Backlog;
use braid_active::replica::{Replica, State};
use braid_active::{Region, Stamp, Vector};
use braid_base::clock::unix_ms;

use super::Thread;
use crate::files::{CEILING_MS, free_region, settings};

/// Interval of forcing the log to disk.
const SYNC: Duration = Duration::from_secs(1);
/// Interval of checking for evicted keys that have expired.
const END_EVICTED: Duration = Duration::from_secs(2);
/// Marks of evicted keys may take this fraction of the memory limit, at [`MARK_BYTES`] each; at
/// least [`MARKS_MIN`] are allowed.
const MARKS_PART: usize = 8;
const MARK_BYTES: usize = 48;
const MARKS_MIN: usize = 1000;

impl Thread<'_> {
    /// Records a higher ceiling, then raises it.
    pub(super) fn raise_ceiling(&mut self) {
        let ceiling = self.replica.next_ceiling(unix_ms() as u64, CEILING_MS);
        let before = std::mem::replace(&mut self.manifest.ceiling, ceiling.word());
        match self.store_manifest_now() {
            true => self.replica.raise_ceiling(ceiling),
            false => self.manifest.ceiling = before,
        }
    }

    /// Stores the manifest and waits until it is on disk. False, and logged, if it cannot be
    /// written.
    fn store_manifest_now(&self) -> bool {
        let outcome = self.disk.store_now(&self.manifest);
        if let Err(error) = &outcome {
            self.active.note_error(format!("the manifest cannot be written: {error}"));
        }
        outcome.is_ok()
    }

    /// [`Thread::raise_ceiling`] long before it is needed, so that no unit waits for the disk.
    fn raise_ceiling_early(&mut self) {
        let now_ms = unix_ms() as u64;
        if !self.ceiling_asked && self.replica.needs_ceiling(now_ms + CEILING_MS / 2) {
            let ceiling = self.replica.next_ceiling(now_ms, CEILING_MS);
            (self.ceiling_asked, self.manifest.ceiling) = (true, ceiling.word());
            self.disk.store_with_ceiling(&self.manifest, ceiling);
        }
    }

    /// A ceiling is on disk.
    pub(super) fn note_ceiling(&mut self, ceiling: Option<Stamp>) {
        self.ceiling_asked = false;
        // It may be of the region that this server was before.
        if let Some(ceiling) = ceiling.filter(|ceiling| ceiling.region() == self.replica.region()) {
            self.replica.raise_ceiling(ceiling);
        }
    }

    /// Performs all duties.
    pub(super) fn duties(&mut self) {
        self.last_duties = Instant::now();
        self.raise_ceiling_early();
        if self.disk.take_manifest_failure() {
            self.store_manifest();
        }
        self.note_members();
        self.bound_evicted();
        self.sync();
        self.acknowledge();
        self.flush();
        self.begin_generation_in_time();
        self.begin_log_in_time();
        self.bound_kept_logs();
        self.share();
        let figures = &self.active.figures;
        figures.type_conflicts.store(self.replica.type_conflicts(), Relaxed);
        for (kind, count) in self.replica.conflicts() {
            figures.conflicts[kind as usize].store(count, Relaxed);
        }
        figures.evicted.store(self.replica.evicted() as u64, Relaxed);
        figures.shared.store(self.replica.held() as u64, Relaxed);
        figures.tombstones.store(self.replica.tombstones() as u64, Relaxed);
        figures.log_bytes.store(self.files.log_bytes(), Relaxed);
        figures.log_unwritten_bytes.store(self.disk.behind(unix_ms()).1, Relaxed);
        figures.clock_ahead_ms.store(self.replica.ahead_ms(unix_ms() as u64), Relaxed);
    }

    /// Bounds the marks kept of evicted keys, and expires those that are due like any other key.
    fn bound_evicted(&mut self) {
        let limit = self.engine.config.maxmemory() as usize;
        if limit > 0 {
            self.replica.limit_marks((limit / MARKS_PART / MARK_BYTES).max(MARKS_MIN));
        }
        if self.last_evicted_end.elapsed() >= END_EVICTED {
            self.last_evicted_end = Instant::now();
            self.execute(|replica, now_ms| replica.end_evicted(now_ms));
        }
    }

    /// Adds regions met by links and peers, and records this server's identity.
    fn note_members(&mut self) {
        let me = self.active.me.lock().clone();
        for region in me.members.keys().filter_map(|number| Region::new(*number)) {
            self.replica.add_member(region);
        }
        let members: Vec<(u8, String)> = me.members.into_iter().collect();
        if members != self.manifest.members || me.is_final != self.manifest.is_final {
            (self.manifest.members, self.manifest.is_final) = (members, me.is_final);
            self.store_manifest();
        }
        let mut outbox = self.active.outbox.lock();
        outbox.members = self.manifest.members.iter().cloned().collect();
        outbox.members.insert(self.manifest.region, self.manifest.identity.clone());
    }

    /// Has the manifest stored; a failure is logged and retried.
    pub(super) fn store_manifest(&mut self) {
        self.manifest.is_final = self.active.me.lock().is_final;
        self.disk.store(&self.manifest);
    }

    /// Has the log forced to disk once a second: this is what the region acknowledges.
    fn sync(&mut self) {
        let is_due = self.has_unsynced || self.active.on_disk.offset() < self.logged_until();
        if is_due && self.last_sync.elapsed() >= SYNC {
            self.sync_now();
        }
    }

    /// With `appendfsync always` replies wait for the log as well, so that is done every turn.
    pub(super) fn sync_for_replies(&mut self) {
        let is_wanted = self.engine.sync_writes.waits_for_disk();
        if is_wanted && self.active.on_disk.offset() < self.logged_until() {
            self.sync_now();
        }
    }

    /// The journal up to here has become units in the log, or produced none.
    fn logged_until(&self) -> u64 {
        self.reader.position() - self.buffer.len() as u64
    }

    fn sync_now(&mut self) {
        let until = self.logged_until();
        let waits = !self.pending.is_empty() || self.all_dirty || !self.dirty.is_empty();
        // A doubtful log's records count once the next generation is valid.
        if waits || self.files.is_doubtful() || !self.has_unsynced && until <= self.sync_asked {
            return;
        }
        if let Ok(log) = self.files.log() {
            (self.last_sync, self.sync_asked, self.has_unsynced) = (Instant::now(), until, false);
            self.disk.sync(log, until);
        }
    }

    /// Collects garbage that all regions have acknowledged.
    fn acknowledge(&mut self) {
        if std::mem::take(&mut self.has_acknowledgements) {
            let table = self.active.outbox.lock().on_disk.clone();
            for (region, vector) in table {
                if region != self.replica.region() {
                    self.replica.acknowledge(region, vector);
                }
            }
        }
        self.has_garbage = self.replica.collect_garbage();
    }

    /// Removes a region permanently.
    pub(super) fn forget(&mut self, region: Region) {
        let number = region.number();
        {
            let mut me = self.active.me.lock();
            me.gone |= 1 << number;
            me.members.remove(&number);
            self.manifest.gone = me.gone;
            self.manifest.members = me.members.iter().map(|(one, name)| (*one, name.clone())).collect();
        }
        self.active.outbox.lock().on_disk.remove(&region);
        self.active.refusals.lock().forget(number);
        // The answer to the operator comes afterwards.
        if !self.store_manifest_now() {
            self.store_manifest();
        }
        self.replica.remove_region(region);
        self.remove_inherited();
        log::info!("Active-active: region {number} was removed permanently");
    }

    /// Removes expired content whose removal was the task of a region that is gone, if the task
    /// has passed to this region.
    fn remove_inherited(&mut self) {
        if self.replica.needs_ceiling(unix_ms() as u64) {
            self.raise_ceiling();
        }
        match self.replica.remove_inherited(unix_ms() as u64) {
            Ok(Some(unit)) => self.keep_own(&unit),
            Ok(None) => {}
            Err(refusal) => self.active.note_error(refusal.to_string()),
        }
        self.flush();
    }

    /// Takes another region number, since another known server has this one. This server's data
    /// becomes the new region's own.
    pub(super) fn change_region(&mut self, taken: u64) {
        if let Err(error) = self.bring_to_log() {
            return self.active.note_error(error);
        }
        {
            let mut me = self.active.me.lock();
            let free = free_region(taken | 1 << me.region, &me.identity);
            let Some(region) = free.filter(|_| !me.is_final) else { return };
            log::info!(
                "Active-active: region {} belongs to another server, this server becomes region {region}",
                me.region
            );
            me.region = region;
            self.manifest.region = region;
        }
        let settings = match settings(&self.engine.config, &self.manifest) {
            Ok(settings) => settings,
            Err(error) => return self.active.note_error(error),
        };
        self.replica = Replica::new(settings, State::default());
        {
            let mut outbox = self.active.outbox.lock();
            outbox.backlog = Backlog::default();
            outbox.disk.logs.clear();
            outbox.applied = Vector::default();
            outbox.on_disk.clear();
        }
        *self.active.received.lock() = Vector::default();
        self.raise_ceiling();
        if let Err(error) = self.write_generation(false) {
            self.active.note_error(error);
        }
        self.note_members();
        self.all_dirty = true;
        self.read_dirty_keys();
        self.flush();
    }

    /// Clean shutdown.
    pub(super) fn end(&mut self) {
        // Servers met since the last duties.
        self.note_members();
        while self.read_journal() {}
        if self.all_dirty || !self.dirty.is_empty() {
            self.read_dirty_keys();
        }
        self.flush();
        match self.write_generation(true) {
            Ok(()) => {
                self.active.on_disk.note(u64::MAX);
                log::info!("Active-active: everything is on disk");
            }
            Err(error) => log::warn!("Active-active: {error}; the log will be replayed at the next start"),
        }
    }
}
