// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster: groups and clusters of servers, shown and changed.
//!
//! Of a group: [`gather`] asks the servers, [`group`] is what they said, [`status`] prints it,
//! [`failover`] has the primary hand over, [`promote`] makes a server the primary by an operator's
//! word. Of a cluster: [`nodes`] is what a node tells of all, [`cluster`] asks it, [`overview`]
//! prints it, [`change`] makes clusters, adds nodes and removes them, [`plan`] says which slots are
//! to go where, [`moving`] has them go, [`import`] takes over another cluster's keys.
//!
//! It sees servers as every client does; it neither reads etcd nor writes to it, so it can never
//! change a group or a cluster by itself.
#![forbid(unsafe_code)]

pub mod change;
pub mod cluster;
pub mod failover;
pub mod gather;
pub mod group;
pub mod import;
pub mod moving;
pub mod nodes;
pub mod options;
pub mod overview;
pub mod plan;
pub mod progress;
pub mod promote;
pub mod slots;
pub mod status;
