// SPDX-License-Identifier: BSD-3-Clause
//! What active-active replication asks of values: the HyperLogLog register that PFADD sets for an
//! element, and names and code of function libraries.

use braid_active::translate::Values;
use braid_active::view::View;
use braid_active::{Bytes, Name};
use braid_containers::hyperloglog;
use braid_scripting::function_libraries::{codes_of, name_of};

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

    fn library_name(&self, code: &[u8]) -> Option<Name> {
        name_of(code).ok().map(Name::from)
    }

    fn libraries(&self, payload: &[u8]) -> Option<Vec<Bytes>> {
        codes_of(payload).ok()
    }
}
