// SPDX-License-Identifier: BSD-3-Clause
//! The value details that active-active replication needs: the HyperLogLog register that PFADD
//! sets for an element, and the names and code of function libraries.

use braid_active::translate::Values;
use braid_active::view::View;
use braid_active::{Bytes, Name};
use braid_containers::hyperloglog;
use braid_scripting::function_libraries::{codes_of, name_of};

/// [`Values`] for the types of this crate.
pub struct ActiveValues;

impl Values for ActiveValues {
    /// `None`: the key's value after RESTORE is read from the keyspace.
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
