// SPDX-License-Identifier: BSD-3-Clause
//! Moves as data: what this server takes part in, which slots are held back, and the right of a
//! connection to fill slots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::clock::unix_ms;
use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_group::cluster::SlotSet;
use parking_lot::Mutex;

/// What a move is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveState {
    Connecting,
    /// The keys are being copied.
    Snapshotting,
    /// What has changed since is being passed on.
    Streaming,
    /// Commands that reach the slots wait.
    Paused,
    Success,
    Failed,
    Cancelled,
}

impl MoveState {
    /// As Valkey calls it.
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

    /// Nothing more happens.
    pub fn is_over(self) -> bool {
        matches!(self, MoveState::Success | MoveState::Failed | MoveState::Cancelled)
    }
}

/// How far a move has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveProgress {
    pub state: MoveState,
    /// Why it has failed; empty otherwise.
    pub message: String,
    /// ms since the Unix epoch.
    pub updated_ms: i64,
    /// When the other side last answered; 0: never.
    pub answered_ms: i64,
    /// Keys copied, of about so many.
    pub keys: u64,
    pub keys_total: u64,
    /// Bytes of the journal that have not been looked at.
    pub behind: u64,
    /// For how long commands waited.
    pub pause_ms: u64,
}

/// A move of slots, as one of its two sides has it.
pub struct Move {
    /// 40 hexadecimal digits.
    pub name: String,
    /// This server is the source.
    pub is_export: bool,
    pub slots: SlotSet,
    /// Ids of nodes.
    pub source: Arc<str>,
    pub target: Arc<str>,
    /// ms since the Unix epoch.
    pub created_ms: i64,
    progress: Mutex<MoveProgress>,
    pub(super) is_cancelled: AtomicBool,
}

impl Move {
    pub(super) fn new(
        name: String,
        is_export: bool,
        slots: SlotSet,
        source: Arc<str>,
        target: Arc<str>,
    ) -> Move {
        let now = unix_ms();
        let progress = MoveProgress {
            state: if is_export { MoveState::Connecting } else { MoveState::Snapshotting },
            message: String::new(),
            updated_ms: now,
            answered_ms: 0,
            keys: 0,
            keys_total: 0,
            behind: 0,
            pause_ms: 0,
        };
        Move {
            name,
            is_export,
            slots,
            source,
            target,
            created_ms: now,
            progress: Mutex::new(progress),
            is_cancelled: AtomicBool::new(false),
        }
    }

    pub fn progress(&self) -> MoveProgress {
        self.progress.lock().clone()
    }

    /// Changes the progress, unless the move is over.
    pub(super) fn note(&self, change: impl FnOnce(&mut MoveProgress)) {
        let mut progress = self.progress.lock();
        if !progress.state.is_over() {
            change(&mut progress);
            progress.updated_ms = unix_ms();
        }
    }

    pub(super) fn enter(&self, state: MoveState) {
        self.note(|progress| progress.state = state);
    }

    pub(super) fn fail(&self, why: &str) {
        let is_cancelled = self.is_cancelled.load(Relaxed);
        self.note(|progress| {
            progress.state = if is_cancelled { MoveState::Cancelled } else { MoveState::Failed };
            progress.message = if is_cancelled { String::new() } else { why.to_owned() };
        });
    }

    /// It goes on.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_over() && !self.is_cancelled.load(Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.progress.lock().state.is_over()
    }
}

/// All moves that this server takes part in.
pub struct SlotMoves {
    /// The newest first.
    moves: Mutex<VecDeque<Arc<Move>>>,
    /// A bit for each slot that is being handed over.
    held: Box<[AtomicU64]>,
    /// Who leads this server's shard is being settled: until then at most all slots are held,
    /// nanoseconds of CLOCK_BOOTTIME; 0: it is settled.
    pub(super) unsettled_until: AtomicU64,
    /// Threads that read the journal.
    pub(super) readers: Mutex<usize>,
}

impl Default for SlotMoves {
    fn default() -> SlotMoves {
        SlotMoves {
            moves: Mutex::default(),
            held: (0..HASH_SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            unsettled_until: AtomicU64::new(0),
            readers: Mutex::default(),
        }
    }
}

impl SlotMoves {
    /// Moves under way, and those that have ended lately; the newest first.
    pub fn all(&self) -> Vec<Arc<Move>> {
        self.moves.lock().iter().cloned().collect()
    }

    /// Adds a move, unless one of its slots is on the way already.
    ///
    /// # Errors
    /// That slot.
    pub(super) fn add(&self, new: Vec<Arc<Move>>, log_len: usize) -> Result<(), u16> {
        let mut moves = self.moves.lock();
        for slot in new.iter().flat_map(|one| one.slots.iter()) {
            if moves.iter().any(|one| !one.is_over() && one.slots.contains(slot)) {
                return Err(slot);
            }
        }
        for one in new {
            moves.push_front(one);
        }
        let mut ended = 0;
        moves.retain(|one| {
            ended += usize::from(one.is_over());
            !one.is_over() || ended <= log_len
        });
        Ok(())
    }

    /// Has moves end that this server has begun and `wanted` says; how many. A move whose
    /// transaction is under way is not stopped any more.
    pub fn cancel(&self, wanted: impl Fn(&Move) -> bool) -> usize {
        let moves = self.moves.lock();
        let wanted = moves.iter().filter(|one| !one.is_over() && wanted(one));
        wanted.map(|one| one.is_cancelled.store(true, Relaxed)).count()
    }

    /// Whether a slot is on its way here.
    pub(crate) fn is_coming(&self, slot: u16) -> bool {
        let moves = self.moves.lock();
        moves.iter().any(|one| !one.is_export && one.slots.contains(slot) && !one.is_over())
    }

    /// Imports that are not over.
    pub(super) fn imports(&self) -> Vec<Arc<Move>> {
        self.moves.lock().iter().filter(|one| !one.is_export && !one.is_over()).cloned().collect()
    }
    /// Keys of other shards' slots are deleted.
    pub(crate) drops: OneThread,
}

/// Work that one thread does at a time, and once more if it is asked for meanwhile.
#[derive(Default)]
pub(crate) struct OneThread(Mutex<Running>);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Running {
    #[default]
    No,
    Yes,
    Again,
}

impl OneThread {
    /// Asks for the work. True: the caller has to start the thread.
    pub(crate) fn ask(&self) -> bool {
        let mut running = self.0.lock();
        let before = *running;
        *running = if before == Running::No { Running::Yes } else { Running::Again };
        before == Running::No
    }

    /// Called by the thread when it has done the work: whether it has to do it again.
    pub(crate) fn goes_on(&self) -> bool {
        let mut running = self.0.lock();
        let before = *running;
        *running = if before == Running::Again { Running::Yes } else { Running::No };
        before == Running::Again
    }

    /// There is no thread.
    pub(crate) fn stop(&self) {
        *self.0.lock() = Running::No;
    }

    /// Whether all slots wait, since who leads this server's shard is being settled.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled_until.load(SeqCst) != 0
    }

    /// Whether what reaches a slot waits.
    pub(crate) fn holds(&self, slot: u16) -> bool {
        let word = self.held.get(usize::from(slot / 64));
            drops: OneThread::default(),
        self.is_unsettled() || word.is_some_and(|word| word.load(SeqCst) >> (slot % 64) & 1 == 1)
    }

    /// The same of a key's or shard channel's slot.
    pub(crate) fn holds_key(&self, key: &[u8]) -> bool {
        self.holds(key_hash_slot(key))
    }

    pub(super) fn set_held(&self, slots: &SlotSet, is_held: bool) {
        for slot in slots.iter() {
            let bit = 1 << (slot % 64);
            match is_held {
                true => self.held[usize::from(slot / 64)].fetch_or(bit, SeqCst),
                false => self.held[usize::from(slot / 64)].fetch_and(!bit, SeqCst),
            };
        }
    }

    pub(super) fn holds_any(&self) -> bool {
        self.is_unsettled() || self.held.iter().any(|word| word.load(SeqCst) != 0)
    }
}

/// The right of a connection to fill slots that come here. When it goes, the move has failed,
/// unless the slots are here.
pub struct ImportSeat {
    pub(super) job: Arc<Move>,
    give_up: Mutex<Option<GiveUp>>,
}

/// What is done when the connection has ended too early.
type GiveUp = Box<dyn FnOnce(Arc<Move>) + Send>;

impl ImportSeat {
    pub(super) fn new(job: Arc<Move>, give_up: impl FnOnce(Arc<Move>) + Send + 'static) -> ImportSeat {
        ImportSeat { job, give_up: Mutex::new(Some(Box::new(give_up))) }
    }

    /// Whether the connection may reach the slot of a key.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.job.slots.contains(key_hash_slot(key)) && self.job.is_wanted()
    }
}

impl Drop for ImportSeat {
    fn drop(&mut self) {
        if let Some(give_up) = self.give_up.lock().take().filter(|_| !self.job.is_over()) {
            give_up(Arc::clone(&self.job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(is_export: bool, slots: &str) -> Arc<Move> {
        let slots = slots.parse().expect("slots");
        Arc::new(Move::new("m".into(), is_export, slots, "a".into(), "b".into()))
    }

    #[test]
    fn a_slot_moves_once_at_a_time() {
        let moves = SlotMoves::default();
        let first = moving(true, "1-5,9");
        assert_eq!(moves.add(vec![Arc::clone(&first)], 2), Ok(()));
        assert_eq!(moves.add(vec![moving(true, "20"), moving(true, "9-10")], 2), Err(9));
        assert_eq!(moves.all().len(), 1, "all or nothing");
        assert!(!moves.is_coming(1), "it goes");
        assert_eq!(moves.cancel(|one| one.is_export), 1);
        first.fail("stopped");
        assert_eq!(first.progress().state, MoveState::Cancelled);
        first.enter(MoveState::Success);
        assert_eq!(first.progress().state, MoveState::Cancelled, "over is over");
        for _ in 0..4 {
            let one = moving(false, "1");
            assert_eq!(moves.add(vec![Arc::clone(&one)], 2), Ok(()));
            assert!(moves.is_coming(1) && !moves.is_coming(2));
            one.fail("");
        }
        assert_eq!(moves.all().len(), 3, "the one that had not ended when it was added, and two");
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
    #[test]
    fn one_thread_does_all_that_is_asked_for() {
        let work = OneThread::default();
        assert!(work.ask(), "a thread is started");
        assert!(!work.ask() && !work.ask(), "it is there");
        assert!(work.goes_on(), "once more for both");
        assert!(!work.goes_on() && work.ask(), "then it has ended");
    }

