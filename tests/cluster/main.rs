// SPDX-License-Identifier: BSD-3-Clause
//! Multi-server clusters on etcd: created and changed by stock tools and by braid-cluster,
//! redirections compared with a stock cluster, imports of one, failover, outages and damaged
//! records, cluster-wide state, and the page.
//!
//!   cargo test -p braid-tests --test cluster
//!
//! Needs an `etcd` in `BRAID_PEERS_DIR` or on PATH; otherwise the tests are skipped.

mod big_moves;
mod braid_cluster;
mod failover;
mod hidden_keys;
mod import;
mod interrupted;
mod moves;
mod operators;
mod page;
mod redirections;
mod replica_migration;
mod saturated_source;
mod scan;
mod target_faults;
mod tools;
mod whole;

use std::path::PathBuf;
use std::process::Command;

pub use braid_tests::cluster::{Cluster, ranges};

/// The available `redis-cli` programs: the one on PATH (Redis 7), and Redis 8's.
pub fn redis_clis() -> Vec<PathBuf> {
    let newer = std::env::var_os("BRAID_PEERS_DIR").map(|folder| PathBuf::from(folder).join("redis-cli"));
    let programs = [Some(PathBuf::from("redis-cli")), newer].into_iter().flatten();
    programs.filter(|program| Command::new(program).arg("--version").output().is_ok()).collect()
}
