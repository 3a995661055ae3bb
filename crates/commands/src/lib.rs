// SPDX-License-Identifier: BSD-3-Clause
//! Commands that belong to no data type: one file per family, each row with its body and tests.
//! Commands of data types are in the types' folders (crate `types`).
//!
//! A family exports `COMMANDS`, a list of [`Row`]s. Bodies run under the locks that their specs
//! name; code here must not block, lock a shard for a key of its own, or perform I/O.

use braid_config::Config;
use braid_executor::{Row, Rows};

pub mod acl;
pub mod bless;
pub mod client;
pub mod cluster_scan;
pub mod command;
pub mod connection;
pub mod debug;
pub mod dump;
pub mod expire;
pub mod keys;
#[cfg(test)]
mod models;
pub mod module;
pub mod pubsub;
pub mod replicaof;
pub mod scan;
pub mod scripting;
pub mod server;
#[cfg(test)]
mod service_tests;
pub mod sort;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transaction;
#[cfg(test)]
mod waiting_tests;

/// The command families of this crate.
pub const FAMILIES: &[&[Row]] = &[
    acl::COMMANDS,
    bless::COMMANDS,
    client::COMMANDS,
    braid_cluster_node::commands::cluster::COMMANDS,
    cluster_scan::COMMANDS,
    command::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    keys::COMMANDS,
    braid_cluster_node::commands::migrate::COMMANDS,
    module::COMMANDS,
    pubsub::COMMANDS,
    braid_durable::commands::COMMANDS,
    braid_replica::commands::COMMANDS,
    replicaof::COMMANDS,
    scan::COMMANDS,
    scripting::COMMANDS,
    braid_search_node::commands::COMMANDS,
    server::COMMANDS,
    sort::COMMANDS,
    transaction::COMMANDS,
];

/// All commands under their own names, with their bodies.
pub fn rows() -> Rows {
    rows_and(&[])
}

/// The commands of a server with this configuration: group and active mode add some. Active mode
/// lacks the commands on values that cannot be merged, and BLESS, of which peers do not tell each
/// other.
pub fn rows_of(config: &Config) -> Rows {
    if config.active_replica() {
        let is_left_out = |family: &&[Row]| {
            let first = |family: &[Row]| family.first().map(|row| row.spec.name);
            let mut others = braid_types::unmergeable_families().chain([bless::COMMANDS]);
            others.any(|other| first(other) == first(family))
        };
        return rows_without(&[braid_active_node::commands::COMMANDS], is_left_out);
    }
    if config.group_name().is_empty() {
        rows()
    } else {
        rows_and(&[braid_cluster_node::commands::sentinel::COMMANDS])
    }
}

fn rows_and(more: &[&'static [Row]]) -> Rows {
    rows_without(more, |_| false)
}

fn rows_without(more: &[&'static [Row]], is_left_out: impl Fn(&&[Row]) -> bool) -> Rows {
    braid_values::register();
    let families = FAMILIES.iter().chain(more).copied().chain(braid_types::families());
    let families: Vec<&[Row]> = families.filter(|family| !is_left_out(family)).collect();
    Rows::new(&families)
}
