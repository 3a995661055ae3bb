// SPDX-License-Identifier: BSD-3-Clause
//! Strings that a replica holds as entries of the keyspace.

use braid_active::Replica;
use braid_active::view::View;
use braid_keyspace::HeldString;
use fastrand::Rng;

/// Gives a replica the keyspace's entries of some of its strings, as a server does now and then.
pub fn hold_strings(replica: &mut Replica, random: &mut Rng) {
    let string = |(database, name, view, until): (u32, &[u8], View, Option<u64>)| match view {
        View::String(value) => {
            Some((database, HeldString::alone(name, &value, until.map(|time| time as i64))?))
        }
        _ => None,
    };
    let strings: Vec<(u32, HeldString)> = replica.views().filter_map(string).collect();
    for (database, string) in strings.into_iter().filter(|_| random.bool()) {
        replica.hold(database, string);
    }
}
