// SPDX-License-Identifier: BSD-3-Clause
//! Slots whose writes wait for a move that has to catch up (`cluster-node/slot_moves/pace.rs`).
//! Reads are served, and nothing depends on a write that gets through: this only slows clients
//! down.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use braid_base::crc::HASH_SLOTS;
use braid_group::cluster::SlotSet;
use parking_lot::Mutex;

/// The writes that wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    Nothing,
    /// Those to the moving slots.
    Moving,
    /// Those to all slots of this server.
    All,
}

/// The writes that wait for moves.
pub struct Slowed {
    /// For each move whose writes wait: its name, which of them, and their slots.
    by_move: Mutex<Vec<(String, Reach, SlotSet)>>,
    /// One bit per slot.
    words: Box<[AtomicU64]>,
}

impl Default for Slowed {
    fn default() -> Slowed {
        let words = (0..HASH_SLOTS / 64).map(|_| AtomicU64::new(0)).collect();
        Slowed { by_move: Mutex::default(), words }
    }
}

impl Slowed {
    pub fn has(&self, slot: u16) -> bool {
        let word = self.words.get(usize::from(slot / 64));
        word.is_some_and(|word| word.load(SeqCst) >> (slot % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.by_move.lock().is_empty()
    }

    /// Sets which writes wait for a move, and returns which did. `slots` is called if they differ.
    pub fn set(&self, name: &str, reach: Reach, slots: impl FnOnce() -> SlotSet) -> Reach {
        let mut by_move = self.by_move.lock();
        let at = by_move.iter().position(|(known, ..)| known == name);
        let before = at.map_or(Reach::Nothing, |at| by_move[at].1);
        if before == reach {
            return before;
        }
        at.map(|at| by_move.swap_remove(at));
        if reach != Reach::Nothing {
            by_move.push((name.to_owned(), reach, slots()));
        }
        for (index, word) in (0..).zip(&self.words) {
            let waits = |bit: &u16| by_move.iter().any(|(.., slots)| slots.contains(64 * index + bit));
            word.store((0..64).filter(waits).fold(0, |word, bit| word | 1 << bit), SeqCst);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wait_as_long_as_any_move_wants() {
        let slowed = Slowed::default();
        let slots = |slots: &[u16]| slots.iter().copied().collect::<SlotSet>();
        let waiting = |of: &[u16]| of.iter().map(|&slot| slowed.has(slot)).collect::<Vec<_>>();
        assert_eq!(slowed.set("a", Reach::Moving, || slots(&[1, 64])), Reach::Nothing);
        assert_eq!(slowed.set("b", Reach::All, || slots(&[1, 2, 16_383])), Reach::Nothing);
        assert_eq!(waiting(&[0, 1, 2, 64, 16_383]), [false, true, true, true, true]);
        assert_eq!(slowed.set("a", Reach::Moving, || panic!("nothing changes")), Reach::Moving);
        assert_eq!(slowed.set("b", Reach::Nothing, SlotSet::default), Reach::All);
        assert_eq!(waiting(&[0, 1, 2, 64, 16_383]), [false, true, false, true, false]);
        assert_eq!(slowed.set("a", Reach::Nothing, SlotSet::default), Reach::Moving);
        assert!(slowed.is_empty() && !slowed.has(1));
    }
}
