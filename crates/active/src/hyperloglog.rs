// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: the union of what all regions have counted; DEL takes what it saw.
//!
//! Of each register there are the additions that may still show: a later one that had seen an
//! earlier one replaces it if its rank is not less. So after a DEL exactly the additions are left
//! that it had not seen, also in registers where a greater rank was removed. PFADD therefore says
//! every rank that it counts, whether or not it changes a register. Additions that do not show go
//! when all regions know them: no removal can take the one that shows without them any more.

use crate::cell::{At, Sides};
use crate::stamp::Stamp;
use crate::stored::stored;

/// Registers, and the greatest rank.
pub const REGISTERS: u16 = 1 << 14;
pub const RANK_MAX: u8 = 51;

/// One addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Addition {
    register: u16,
    rank: u8,
    stamp: Stamp,
}

impl Addition {
    /// Whether there are such a register and rank.
    fn can_be(&self) -> bool {
        self.register < REGISTERS && (1..=RANK_MAX).contains(&self.rank)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HyperLogLog {
    /// In order.
    additions: Vec<Addition>,
}

impl HyperLogLog {
    pub fn is_empty(&self) -> bool {
        self.additions.is_empty()
    }

    /// The stamps of all that there is.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.additions.iter().for_each(|one| note(one.stamp));
    }

    /// Counts, and answers whether what it counted holds garbage now.
    pub fn apply(&mut self, at: &At, registers: &[(u16, u8)]) -> bool {
        let mut has_garbage = false;
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
        has_garbage
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

    /// Whether it has additions that do not show.
    pub fn has_garbage(&self) -> bool {
        self.additions.windows(2).any(|pair| pair[0].register == pair[1].register)
    }

    /// Drops them, and answers how many.
    pub fn settle(&mut self) -> usize {
        let before = self.additions.len();
        // The last of a register, which has the greatest rank, is the one that stays.
        self.additions.reverse();
        self.additions.dedup_by_key(|one| one.register);
        self.additions.reverse();
        self.additions.shrink_to(self.additions.len() + self.additions.len() / 4);
        before - self.additions.len()
    }

    /// Whether its additions are in order.
    fn can_be(&self) -> bool {
        self.additions.is_sorted_by(|one, next| one < next)
    }

    /// Registers that are not 0, with their ranks.
    pub fn registers(&self) -> Vec<(u16, u8)> {
        let mut shown: Vec<(u16, u8)> = Vec::new();
        for one in &self.additions {
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
