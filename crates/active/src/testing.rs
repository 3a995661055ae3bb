// SPDX-License-Identifier: BSD-3-Clause
//! Helpers shared by unit tests.

use crate::replica::{Replica, Settings, State, ceiling_after};
use crate::stamp::Region;

/// Unix time in ms.
pub(crate) const NOW: u64 = 1_800_000_000_000;

/// A replica of region 1 or 2, with a ceiling that lets it give stamps.
pub(crate) fn replica(number: u8) -> Replica {
    let region = Region::new(number).unwrap();
    let settings = Settings { region, members: 0b110, ahead_ms_max: 60_000, rules: Default::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(ceiling_after(replica.run(), region, NOW, 1_000_000));
    replica
}
