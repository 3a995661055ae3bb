// SPDX-License-Identifier: BSD-3-Clause
//! Commands of the services (crates `replica` and `cluster-node`), through the dispatcher of an
//! engine with all commands.

mod cluster;
mod migrate;
mod replication;
