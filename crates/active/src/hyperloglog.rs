// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: the union of the counts of all regions; DEL removes the additions it saw.
//!
//! A register keeps the additions that may still show: a later addition replaces an earlier one
//! that it had seen, unless its rank is lower. Therefore a DEL leaves exactly the additions it had
//! not seen, even in registers where it removed a greater rank. That is why PFADD sends every rank
//! that it counts, whether or not it changes a register. Hidden additions are dropped once all
//! regions know them: no removal can then remove the visible one without them.
//!
//! PFADD without elements creates a HyperLogLog that counts nothing. It travels as a count of no
//! registers, and is kept as an addition of rank 0 to a register that does not exist. An addition
//! to any register replaces one that it had seen.

use crate::cell::{At, Sides};
use crate::stamp::Stamp;
use crate::stored::stored;

/// The number of registers, and the greatest rank.
pub const REGISTERS: u16 = 1 << 14;
pub const RANK_MAX: u8 = 51;
/// The register of additions that count nothing. It sorts last.
const NONE: u16 = REGISTERS;

/// One addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Addition {
    register: u16,
    rank: u8,
    stamp: Stamp,
}

impl Addition {
    /// True if the register and rank are valid.
    fn can_be(&self) -> bool {
        match self.register {
            NONE => self.rank == 0,
            register => register < REGISTERS && (1..=RANK_MAX).contains(&self.rank),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HyperLogLog {
    /// Sorted.
    additions: Vec<Addition>,
}

impl HyperLogLog {
    pub fn is_empty(&self) -> bool {
        self.additions.is_empty()
    }

    /// Visits the stamps of everything.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.additions.iter().for_each(|one| note(one.stamp));
    }

    /// Counts registers and ranks; without any, makes it exist. Returns true if a counted register
    /// now holds garbage.
    pub fn apply(&mut self, at: &At, registers: &[(u16, u8)]) -> bool {
        if self.has_none() {
            let counting = self.additions.partition_point(|one| one.register < NONE);
            let mut others = self.additions.split_off(counting);
            others.retain(|one| !at.removes(one.stamp));
            self.additions.append(&mut others);
        }
        let mut has_garbage = false;
        let registers = if registers.is_empty() { &[(NONE, 0)][..] } else { registers };
        for &(register, rank) in registers {
            let from = self.additions.partition_point(|one| one.register < register);
            let to = self.additions.partition_point(|one| one.register <= register);
            let mut kept: Vec<Addition> = self.additions[from..to].to_vec();
            kept.retain(|one| one.rank > rank || !at.removes(one.stamp));
            kept.push(Addition { register, rank, stamp: at.stamp });
            kept.sort_unstable();
            kept.dedup();
            has_garbage |= kept.len() > 1;
            self.additions.splice(from..to, kept);
        }
        has_garbage || self.counts() && self.has_none()
    }

    /// True if it has additions to registers.
    fn counts(&self) -> bool {
        self.additions.first().is_some_and(|one| one.register < NONE)
    }

    /// True if it has additions that count nothing.
    fn has_none(&self) -> bool {
        self.additions.last().is_some_and(|one| one.register == NONE)
    }

    pub fn remove_all(&mut self, at: &At) {
        self.additions.retain(|one| !at.removes(one.stamp));
    }

    pub fn merge(&mut self, theirs: &HyperLogLog, sides: &Sides) {
        let has = |side: &[Addition], one: &Addition| side.binary_search(one).is_ok();
        let new = theirs.additions.iter().copied();
        let new: Vec<Addition> =
            new.filter(|one| !has(&self.additions, one) && !sides.removed_here(one.stamp)).collect();
        self.additions.retain(|one| has(&theirs.additions, one) || !sides.removed_there(one.stamp));
        self.additions.extend(new);
        self.additions.sort_unstable();
    }

    /// True if it has hidden additions.
    pub fn has_garbage(&self) -> bool {
        self.counts() && self.has_none()
            || self.additions.windows(2).any(|pair| pair[0].register == pair[1].register)
    }

    /// Drops the hidden additions, and returns their number.
    pub fn collect_garbage(&mut self) -> usize {
        let before = self.additions.len();
        // The last addition of a register has the greatest rank, and is kept.
        self.additions.reverse();
        self.additions.dedup_by_key(|one| one.register);
        self.additions.reverse();
        if self.counts() {
            self.additions.pop_if(|one| one.register == NONE);
        }
        self.additions.shrink_to(self.additions.len() + self.additions.len() / 4);
        before - self.additions.len()
    }

    /// True if the additions are in order.
    fn can_be(&self) -> bool {
        self.additions.is_sorted_by(|one, next| one < next)
    }

    /// The non-zero registers, with their ranks.
    pub fn registers(&self) -> Vec<(u16, u8)> {
        let mut shown: Vec<(u16, u8)> = Vec::new();
        for one in self.additions.iter().filter(|one| one.register < NONE) {
            match shown.last_mut() {
                Some((register, rank)) if *register == one.register => *rank = one.rank.max(*rank),
                _ => shown.push((one.register, one.rank)),
            }
        }
        shown
    }
}

stored!(HyperLogLog { additions }, HyperLogLog::can_be);
stored!(Addition { register, rank, stamp }, Addition::can_be);
