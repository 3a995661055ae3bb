// SPDX-License-Identifier: BSD-3-Clause
//! Values for active-active replication: the HyperLogLog register that PFADD sets for an element.

use braid_active::translate::Values;
use braid_active::view::View;
use braid_containers::hyperloglog;

/// The values of this crate.
pub struct ActiveValues;

impl Values for ActiveValues {
    /// Nothing: the keyspace is asked what RESTORE has made of the key.
    fn decode(&self, _payload: &[u8]) -> Option<View> {
        None
    }

    fn register(&self, element: &[u8]) -> (u16, u8) {
        let (register, rank) = hyperloglog::place_of(element);
        // There are 2^14 registers.
        (register as u16, rank)
    }
}
