// SPDX-License-Identifier: BSD-3-Clause
//! Commands of groups and clusters: CLUSTER and its relatives, SENTINEL, MIGRATE.

pub mod cluster;
pub mod migrate;
pub mod sentinel;
