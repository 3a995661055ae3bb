// SPDX-License-Identifier: BSD-3-Clause
//! Loads in slices: the world is stopped for some milliseconds, then resumes for a moment, so that
//! clients get replies.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_keyspace::Txn;

use crate::prefetch::Prefetch;
use crate::save::Pause;
use crate::state::Progress;

/// Records between two checks of the clock and of the request to stop.
const RECORDS_BETWEEN: u32 = 64;
/// Length of a slice, and of the break after it.
const SLICE: Duration = Duration::from_millis(10);
const BREAK: Duration = Duration::from_micros(200);
/// The same, while clients are served.
const SHORT_SLICE: Duration = Duration::from_millis(1);
/// Interval of progress lines in the log.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The load was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The slices of one load, of one or several files.
pub struct Slices<'p> {
    progress: &'p Progress,
    /// Resume the world periodically.
    in_slices: bool,
    /// Length of a slice, and of the break after it.
    slice: Duration,
    rest: Duration,
    /// Bytes of the files before the current one.
    before: u64,
    left: u32,
    slice_began: Instant,
    reported: Instant,
    pause: Pause,
    has_pause: bool,
    /// Called each second.
    heartbeat: Option<&'p dyn Fn()>,
    last_heartbeat: Instant,
    /// Called in each turn.
    upkeep: Option<&'p dyn Fn(&mut Txn<'_>)>,
    /// The source, if the load may have to wait for it.
    prefetch: Option<&'p dyn Prefetch>,
}

impl<'p> Slices<'p> {
    /// `key_delay` is `key-load-delay`: delay after each record in microseconds; if negative, one
    /// microsecond after this many records.
    pub fn new(progress: &'p Progress, in_slices: bool, key_delay: i64) -> Slices<'p> {
        let now = Instant::now();
        Slices {
            progress,
            in_slices,
            slice: SLICE,
            rest: BREAK,
            before: 0,
            left: 0,
            slice_began: now,
            reported: now,
            pause: Pause::new(key_delay),
            has_pause: key_delay != 0,
            heartbeat: None,
            last_heartbeat: now,
            upkeep: None,
            prefetch: None,
        }
    }

    /// Resumes the world for half of the time, in turns too short to disturb clients.
    pub fn with_long_breaks(mut self) -> Slices<'p> {
        (self.slice, self.rest) = (SHORT_SLICE, SHORT_SLICE);
        self
    }

    /// Calls `heartbeat` every second during the load.
    pub fn with_heartbeat(mut self, heartbeat: &'p dyn Fn()) -> Slices<'p> {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Calls `upkeep` in each turn, while the world is stopped.
    pub fn with_upkeep(mut self, upkeep: &'p dyn Fn(&mut Txn<'_>)) -> Slices<'p> {
        self.upkeep = Some(upkeep);
        self
    }

    /// Resumes the world while the load waits for its source.
    pub fn with_prefetch(mut self, prefetch: &'p dyn Prefetch) -> Slices<'p> {
        self.prefetch = Some(prefetch);
        self
    }

    /// True if there is a delay after each record.
    pub fn waits(&self) -> bool {
        self.has_pause
    }

    /// Must be called before each record. True if a turn is due: call [`Slices::turn`].
    #[inline]
    pub fn is_due(&mut self) -> bool {
        if self.left > 0 && !self.has_pause && !self.prefetch.is_some_and(Prefetch::is_low) {
            self.left -= 1;
            return false;
        }
        self.left = RECORDS_BETWEEN - 1;
        true
    }

    /// Publishes the progress, at `position` of the current file, and resumes the world if it is
    /// time, after calling `drain`. `what` describes the loaded items.
    ///
    /// # Errors
    /// [`Stopped`] if the load is to end, and otherwise the error of `drain`.
    pub fn turn<E: From<Stopped>>(
        &mut self,
        txn: &mut Txn<'_>,
        position: u64,
        what: impl FnOnce() -> String,
        drain: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let progress = self.progress;
        if progress.stop.load(Relaxed) {
            return Err(Stopped.into());
        }
        progress.loaded_bytes.store(self.before + position, Relaxed);
        // Otherwise memory retired by adding keys would be freed only at the end.
        txn.context.limbo.reclaim();
        if let Some(upkeep) = self.upkeep {
            upkeep(txn);
        }
        let now = Instant::now();
        if let Some(prefetch) = self.prefetch.filter(|prefetch| prefetch.is_low()) {
            drain()?;
            txn.resume_world_during(|| prefetch.fill());
            self.slice_began = Instant::now();
        } else if self.in_slices && now.duration_since(self.slice_began) >= self.slice {
            drain()?;
            txn.resume_world_for(self.rest);
            self.slice_began = Instant::now();
        }
        if let Some(heartbeat) =
            self.heartbeat.filter(|_| now.duration_since(self.last_heartbeat) >= HEARTBEAT)
        {
            self.last_heartbeat = now;
            heartbeat();
        }
        if now.duration_since(self.reported) >= REPORT_EVERY {
            self.reported = now;
            log::info!("Loading: {} so far, {:.0}% of the file", what(), progress.percent());
        }
        Ok(())
    }

    /// Delays as configured after each record.
    #[inline]
    pub fn after_record(&mut self) {
        if self.has_pause {
            self.pause.after_key(|| false);
        }
    }

    /// Ends the current file, of `bytes` bytes; another one may follow.
    pub fn end_file(&mut self, bytes: u64) {
        self.before += bytes;
        self.progress.loaded_bytes.store(self.before, Relaxed);
    }
}
