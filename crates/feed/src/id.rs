// SPDX-License-Identifier: BSD-3-Clause
//! Entry IDs, which all servers of a history agree on.
//!
//! An ID has the two numbers of a stream's ID. The first is the offset in the replication history
//! at which the entry's unit ends: a command, or a transaction from MULTI to EXEC. The second is a
//! checksum of the unit's bytes, followed by nine digits that number the unit's entries up to
//! 999999999. All entries of a unit so have one beginning, and an ID tells whether its entry is the
//! last one: then its reader has everything up to that offset.
//!
//! The checksum tells histories apart that have diverged: after a failover that lost changes, the
//! offset of a lost unit belongs to another one.

use braid_base::crc::crc64;

/// One more than the number of a unit's last entry.
const SCALE: u64 = 1_000_000_000;

/// The ID of an entry, or a position between units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EntryId {
    /// The offset in the history at which the unit ends.
    pub place: u64,
    pub second: u64,
}

impl EntryId {
    pub const MIN: EntryId = EntryId { place: 0, second: 0 };
    pub const MAX: EntryId = EntryId { place: u64::MAX, second: u64::MAX };

    /// A position between two units: a reader that names it has everything before it.
    pub fn at(place: u64) -> EntryId {
        EntryId { place, second: 0 }
    }

    /// An entry of a unit. `more`: the number of entries of the unit that follow.
    pub fn of(place: u64, check: u32, more: usize) -> EntryId {
        let number = (SCALE - 1).saturating_sub(more as u64);
        EntryId { place, second: u64::from(check) * SCALE + number }
    }

    /// True if a reader that names it has everything up to its place.
    pub fn completes_unit(self) -> bool {
        self.check().is_none() || self.second % SCALE == SCALE - 1
    }

    /// The checksum of the unit, if this is the ID of an entry.
    pub fn check(self) -> Option<u32> {
        u32::try_from(self.second / SCALE).ok().filter(|&check| check != 0)
    }

    /// True if this is the start of everything, the ID with which readers begin.
    pub fn is_start(self) -> bool {
        self == EntryId::MIN
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.place, self.second)
    }
}

/// The checksum of a unit; never 0.
pub fn check_of(unit: &[u8]) -> u32 {
    let crc = crc64(0, unit);
    (((crc >> 32) ^ crc) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_unit_are_in_order_and_between_their_neighbours() {
        let check = check_of(b"*1\r\n$4\r\nPING\r\n");
        let ids = [
            EntryId::at(70),
            EntryId::of(70, check, 999_999_999),
            EntryId::of(70, check, 2),
            EntryId::of(70, check, 1),
            EntryId::of(70, check, 0),
            EntryId::at(71),
        ];
        assert!(ids.is_sorted());
        let (none, some) = (None, Some(check));
        assert_eq!(ids.map(EntryId::check), [none, some, some, some, some, none]);
        assert_eq!(ids.map(EntryId::completes_unit), [true, false, false, false, true, true]);
        assert!(EntryId::of(70, u32::MAX, 0).second <= i64::MAX as u64, "fits a signed number");
        assert_eq!(EntryId::MAX.check(), None, "greater than all");
    }
}
