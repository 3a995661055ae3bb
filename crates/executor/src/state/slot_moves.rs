// SPDX-License-Identifier: BSD-3-Clause
//! Slot moves as data: the moves that this server takes part in, the held slots, and a
//! connection's right to fill slots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_group::cluster::SlotSet;
use parking_lot::Mutex;

use crate::state::slowed_slots::Slowed;

/// Delay before an interrupted move is begun again. It grows with each retry, up to this
/// multiple.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: u32 = 20;

/// The state of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveState {
    Connecting,
    /// The keys are being copied.
    Snapshotting,
    /// Changes made since are being passed on.
    Streaming,
    /// Commands that reach the slots wait.
    Paused,
    Success,
    Failed,
    Cancelled,
}

impl MoveState {
    /// Valkey's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            MoveState::Connecting => "connecting",
            MoveState::Snapshotting => "snapshotting",
            MoveState::Streaming => "replicating",
            MoveState::Paused => "failover-paused",
            MoveState::Success => "success",
            MoveState::Failed => "failed",
            MoveState::Cancelled => "cancelled",
        }
    }

    /// True if nothing more happens.
    pub fn is_over(self) -> bool {
        matches!(self, MoveState::Success | MoveState::Failed | MoveState::Cancelled)
    }
}

/// The progress of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveProgress {
    pub state: MoveState,
    /// Why it failed, or why an earlier attempt was interrupted; empty otherwise.
    pub message: String,
    /// ms since the Unix epoch.
    pub updated_ms: i64,
    updated: Instant,
    /// When the other side last answered, ms since the Unix epoch; 0 if never.
    pub answered_ms: i64,
    /// Keys copied, and the approximate total.
    pub keys: u64,
    pub keys_total: u64,
    /// Unread bytes of the journal.
    pub behind: u64,
    /// How long commands waited, in ms.
    pub pause_ms: u64,
}

/// The source's connection as the target knows it.
#[derive(Default)]
pub struct ImportState {
    /// The number of the connection: each one replaces the one before.
    pub number: u64,
    /// The number of the last APPLY that was executed.
    pub applied: u64,
    /// When the connection was lost.
    pub lost: Option<Instant>,
}

/// A slot move as seen by one of its two sides.
pub struct Move {
    /// 40 hexadecimal digits.
    pub name: String,
    /// This server is the source.
    pub is_export: bool,
    pub slots: SlotSet,
    /// Node ids.
    pub source: Arc<str>,
    pub target: Arc<str>,
    /// ms since the Unix epoch.
    pub created_ms: i64,
    /// Number of earlier attempts by this server.
    pub retries: u64,
    progress: Mutex<MoveProgress>,
    pub is_cancelled: AtomicBool,
    /// Nothing more is accepted from its source, and its keys are about to be deleted.
    pub is_ending: AtomicBool,
    /// The source's connection, if this server is the target.
    pub import: Mutex<ImportState>,
    /// A map has contained its order.
    pub was_ordered: AtomicBool,
    /// The attempt has ended, but its order still stood.
    pub is_interrupted: AtomicBool,
}

impl Move {
    pub fn new(
        name: &str,
        is_export: bool,
        slots: SlotSet,
        source: Arc<str>,
        target: Arc<str>,
        created_ms: i64,
    ) -> Move {
        let progress = MoveProgress {
            state: if is_export { MoveState::Connecting } else { MoveState::Snapshotting },
            message: String::new(),
            updated_ms: unix_ms(),
            updated: Instant::now(),
            answered_ms: 0,
            keys: 0,
            keys_total: 0,
            behind: 0,
            pause_ms: 0,
        };
        Move {
            name: name.to_owned(),
            is_export,
            slots,
            source,
            target,
            created_ms,
            retries: 0,
            progress: Mutex::new(progress),
            is_cancelled: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            import: Mutex::default(),
            was_ordered: AtomicBool::new(false),
            is_interrupted: AtomicBool::new(false),
        }
    }

    /// Continues the reported history of an ended attempt at the same move.
    fn after(mut self, before: &Move) -> Move {
        self.retries = before.retries + 1;
        self.progress.get_mut().message = before.progress().message;
        self
    }

    /// An ordered move that waits for its next attempt.
    pub fn waiting(mut self, before: Option<&Move>) -> Move {
        let progress = self.progress.get_mut();
        (progress.state, progress.updated_ms) = (MoveState::Connecting, self.created_ms);
        if let Some(before) = before {
            self.retries = before.retries;
            let before = before.progress();
            (progress.message, progress.updated_ms) = (before.message, before.updated_ms);
        }
        self
    }

    pub fn progress(&self) -> MoveProgress {
        self.progress.lock().clone()
    }

    /// Changes the progress, unless the move is over.
    pub fn note(&self, change: impl FnOnce(&mut MoveProgress)) {
        let mut progress = self.progress.lock();
        if !progress.state.is_over() {
            change(&mut progress);
            (progress.updated_ms, progress.updated) = (unix_ms(), Instant::now());
        }
    }

    pub fn enter(&self, state: MoveState) {
        self.note(|progress| progress.state = state);
    }

    pub fn succeed(&self) {
        self.note(|progress| {
            progress.state = MoveState::Success;
            progress.message.clear();
        });
    }

    pub fn fail(&self, why: &str) {
        self.note(|progress| {
            // While the progress is locked: see `cancel`.
            let is_cancelled = self.is_cancelled.load(Relaxed);
            progress.state = if is_cancelled { MoveState::Cancelled } else { MoveState::Failed };
            progress.message = if is_cancelled { String::new() } else { why.to_owned() };
        });
    }

    /// Ends this attempt; the order still stands.
    pub fn interrupt(&self, why: &str) {
        self.is_interrupted.store(true, Relaxed);
        self.fail(why);
        // The order has been withdrawn meanwhile: there will be no other attempt.
        if self.progress().state == MoveState::Cancelled {
            self.is_interrupted.store(false, Relaxed);
        }
    }

    /// Records that an operator has withdrawn the order. An attempt under way ends.
    fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
        let mut progress = self.progress.lock();
        if progress.state.is_over() && self.is_interrupted.swap(false, Relaxed) {
            progress.state = MoveState::Cancelled;
            progress.message.clear();
        }
    }

    /// True while the move continues.
    pub fn is_wanted(&self) -> bool {
        !self.is_over() && !self.is_cancelled.load(Relaxed) && !self.is_ending.load(Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.progress.lock().state.is_over()
    }
}

/// All moves that this server takes part in.
pub struct SlotMoves {
    /// Newest first.
    moves: Mutex<VecDeque<Arc<Move>>>,
    /// One bit per slot; set while the slot is being handed over.
    held: Box<[AtomicU64]>,
    /// While it is being decided which server leads this server's shard, all slots are held,
    /// until this time at most, nanoseconds of CLOCK_BOOTTIME; 0: it is decided.
    pub holds_all_until: AtomicU64,
    /// Slots whose writes wait.
    pub slowed: Slowed,
    /// Number of threads that read the journal.
    pub readers: Mutex<usize>,
    /// The deletion of keys in other shards' slots.
    pub drops: OneThread,
    /// The counting of keys in slots that this server's shard has left.
    pub counts: OneThread,
    /// Searches for keys that an interrupted MIGRATE has left at its target.
    pub searches: OneThread,
    /// Held while the hidden slots are computed from the current map.
    pub hiding: Mutex<()>,
}

/// Work done by one thread at a time, and repeated if it is requested meanwhile.
#[derive(Default)]
pub struct OneThread(Mutex<Running>);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Running {
    #[default]
    No,
    Yes,
    Again,
}

impl OneThread {
    /// Requests the work. True if the caller must start the thread.
    pub fn ask(&self) -> bool {
        let mut running = self.0.lock();
        let before = *running;
        *running = if before == Running::No { Running::Yes } else { Running::Again };
        before == Running::No
    }

    /// Called by the thread after doing the work. True if it must do it again.
    pub fn goes_on(&self) -> bool {
        let mut running = self.0.lock();
        let before = *running;
        *running = if before == Running::Again { Running::Yes } else { Running::No };
        before == Running::Again
    }

    /// Records that there is no thread.
    pub fn stop(&self) {
        *self.0.lock() = Running::No;
    }
}

impl Default for SlotMoves {
    fn default() -> SlotMoves {
        SlotMoves {
            moves: Mutex::default(),
            held: (0..HASH_SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            holds_all_until: AtomicU64::new(0),
            slowed: Slowed::default(),
            readers: Mutex::default(),
            drops: OneThread::default(),
            counts: OneThread::default(),
            searches: OneThread::default(),
            hiding: Mutex::default(),
        }
    }
}

impl SlotMoves {
    /// Moves under way and recently ended moves; newest first.
    pub fn all(&self) -> Vec<Arc<Move>> {
        self.moves.lock().iter().cloned().collect()
    }

    /// Adds a move, unless one of its slots is already being moved. It replaces an ended attempt
    /// at the same move.
    ///
    /// # Errors
    /// The slot that is already being moved.
    pub fn add(&self, mut new: Move, log_len: usize) -> Result<Arc<Move>, u16> {
        let mut moves = self.moves.lock();
        for slot in new.slots.iter() {
            if moves.iter().any(|one| !one.is_over() && one.slots.contains(slot)) {
                return Err(slot);
            }
        }
        let before = moves.iter().position(|one| one.name == new.name && one.is_export == new.is_export);
        if let Some(before) = before.and_then(|at| moves.remove(at)) {
            new = new.after(&before);
        }
        let new = Arc::new(new);
        moves.push_front(Arc::clone(&new));
        let mut ended = 0;
        moves.retain(|one| {
            ended += usize::from(one.is_over());
            !one.is_over() || ended <= log_len
        });
        Ok(new)
    }

    /// Ends moves whose orders were withdrawn. A move whose transaction is in flight is no longer
    /// stopped.
    pub fn cancel(&self, names: &[Arc<str>]) {
        let moves = self.moves.lock();
        let is_meant = |one: &&Arc<Move>| names.iter().any(|name| **name == one.name);
        moves.iter().filter(is_meant).for_each(|one| one.cancel());
    }

    /// True if an ordered move may begin: it is not under way, and was not until just now.
    pub fn may_begin(&self, name: &str) -> bool {
        let moves = self.moves.lock();
        moves.iter().find(|one| one.is_export && one.name == name).is_none_or(|last| {
            let pause = AGAIN * u32::try_from(last.retries + 1).unwrap_or(u32::MAX).min(AGAIN_MAX);
            last.is_over() && last.progress.lock().updated.elapsed() >= pause
        })
    }

    /// True if a slot is being moved here.
    pub fn is_coming(&self, slot: u16) -> bool {
        let moves = self.moves.lock();
        moves.iter().any(|one| !one.is_export && one.slots.contains(slot) && !one.is_over())
    }

    /// Imports that are not over.
    pub fn imports(&self) -> Vec<Arc<Move>> {
        self.moves.lock().iter().filter(|one| !one.is_export && !one.is_over()).cloned().collect()
    }

    /// True while all slots are held, because it is being decided which server leads this
    /// server's shard.
    pub fn holds_all(&self) -> bool {
        self.holds_all_until.load(SeqCst) != 0
    }

    /// True if commands that reach a slot must wait.
    pub fn holds(&self, slot: u16) -> bool {
        let word = self.held.get(usize::from(slot / 64));
        self.holds_all() || word.is_some_and(|word| word.load(SeqCst) >> (slot % 64) & 1 == 1)
    }

    /// [`SlotMoves::holds`] for the slot of a key or shard channel.
    pub fn holds_key(&self, key: &[u8]) -> bool {
        self.holds(key_hash_slot(key))
    }

    /// True if writes to the slot of a key wait.
    pub fn slows_key(&self, key: &[u8]) -> bool {
        self.slowed.has(key_hash_slot(key))
    }

    pub fn set_held(&self, slots: &SlotSet, is_held: bool) {
        for slot in slots.iter() {
            let bit = 1 << (slot % 64);
            match is_held {
                true => self.held[usize::from(slot / 64)].fetch_or(bit, SeqCst),
                false => self.held[usize::from(slot / 64)].fetch_and(!bit, SeqCst),
            };
        }
    }

    pub fn holds_any(&self) -> bool {
        let is_slowed = !self.slowed.is_empty();
        is_slowed || self.holds_all() || self.held.iter().any(|word| word.load(SeqCst) != 0)
    }
}

/// A connection's right to fill slots that are being moved here, until another connection of the
/// source takes over.
pub struct ImportSession {
    pub job: Arc<Move>,
    number: u64,
    lost: Mutex<Option<Lost>>,
}

/// Called if the connection has ended before the slots are here.
type Lost = Box<dyn FnOnce(Arc<Move>) + Send>;

impl ImportSession {
    /// Takes the import of a move from any connection that has it. Work of that connection may
    /// still be under way.
    pub fn new(job: Arc<Move>, lost: impl FnOnce(Arc<Move>) + Send + 'static) -> ImportSession {
        let number = {
            let mut import = job.import.lock();
            (import.number, import.lost) = (import.number + 1, None);
            import.number
        };
        ImportSession { job, number, lost: Mutex::new(Some(Box::new(lost))) }
    }

    /// True while the connection has the right.
    pub fn is_taken(&self) -> bool {
        self.job.is_wanted() && self.job.import.lock().number == self.number
    }

    /// Records an APPLY as executed; false if another connection has taken the import.
    pub fn note_applied(&self, number: u64) -> bool {
        let mut import = self.job.import.lock();
        let is_taken = import.number == self.number;
        if is_taken {
            import.applied = number;
        }
        is_taken
    }

    /// True if the connection may reach the slot of a key.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.job.slots.contains(key_hash_slot(key)) && self.is_taken()
    }
}

impl Drop for ImportSession {
    fn drop(&mut self) {
        let lost = self.lost.lock().take().filter(|_| !self.job.is_over());
        if let Some(lost) = lost {
            let is_current = {
                let mut import = self.job.import.lock();
                let is_current = import.number == self.number;
                if is_current {
                    import.lost = Some(Instant::now());
                }
                is_current
            };
            if is_current {
                lost(Arc::clone(&self.job));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(name: &str, is_export: bool, slots: &str) -> Move {
        Move::new(name, is_export, slots.parse().expect("slots"), "a".into(), "b".into(), 0)
    }

    #[test]
    fn a_slot_moves_once_at_a_time() {
        let moves = SlotMoves::default();
        let first = moves.add(moving("m", true, "1-5,9"), 2).expect("the first move");
        assert_eq!(moves.add(moving("n", true, "9-10"), 2).err(), Some(9));
        assert_eq!(moves.all().len(), 1, "the refused move was added");
        assert!(!moves.is_coming(1), "the slot is being exported");
        assert!(!moves.may_begin("m") && moves.may_begin("n"));
        moves.cancel(&["m".into()]);
        first.fail("stopped");
        assert_eq!(first.progress().state, MoveState::Cancelled);
        first.enter(MoveState::Streaming);
        assert_eq!(first.progress().state, MoveState::Cancelled, "an ended move stays ended");
        for name in ["a", "b", "c", "d"] {
            let one = moves.add(moving(name, false, "1"), 2).expect("the previous move has ended");
            assert!(moves.is_coming(1) && !moves.is_coming(2));
            one.fail("");
        }
        assert_eq!(moves.all().len(), 3, "the last move, and two that had ended before it");
    }

    /// Whichever of the two comes first, the move is shown as cancelled, and not as one whose
    /// outcome is shown elsewhere.
    #[test]
    fn a_move_that_is_cancelled_and_interrupted_is_cancelled() {
        for cancels_first in [true, false] {
            let moves = SlotMoves::default();
            let one = moves.add(moving("m", true, "1-5"), 2).expect("the first move");
            if cancels_first {
                moves.cancel(&["m".into()]);
            }
            one.interrupt("the connection was lost");
            assert_eq!(one.is_interrupted.load(Relaxed), !cancels_first);
            moves.cancel(&["m".into()]);
            assert_eq!(one.progress().state, MoveState::Cancelled);
            assert!(!one.is_interrupted.load(Relaxed) && one.progress().message.is_empty());
        }
    }

    #[test]
    fn a_move_that_was_interrupted_is_one_move() {
        let moves = SlotMoves::default();
        moves.add(moving("m", true, "1"), 2).expect("the first move").fail("it died");
        assert!(!moves.may_begin("m"), "a retry must wait");
        let again = moves.add(moving("m", true, "1"), 2).expect("the first attempt has ended");
        assert_eq!((again.retries, again.progress().message.as_str()), (1, "it died"));
        again.succeed();
        assert_eq!((moves.all().len(), again.progress().message.as_str()), (1, ""));
    }

    #[test]
    fn one_thread_handles_all_requests() {
        let work = OneThread::default();
        assert!(work.ask(), "a thread is started");
        assert!(!work.ask() && !work.ask(), "the thread is running");
        assert!(work.goes_on(), "one more run serves both requests");
        assert!(!work.goes_on() && work.ask(), "the thread ends, and the next request starts one");
    }

    #[test]
    fn slots_are_held_one_by_one() {
        let moves = SlotMoves::default();
        let slots: SlotSet = "0,63-64,16383".parse().expect("slots");
        moves.set_held(&slots, true);
        assert!([0, 63, 64, 16383].iter().all(|&slot| moves.holds(slot)));
        assert!(!moves.holds(1) && !moves.holds(16384) && moves.holds_any());
        moves.set_held(&slots, false);
        assert!(!moves.holds_any());
    }
}
