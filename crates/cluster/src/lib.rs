// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster: shows and changes groups and clusters of servers.
//!
//! Groups: [`gather`] queries the servers, [`group`] holds their answers, [`status`] prints them,
//! [`failover`] makes the primary hand over, [`promote`] makes a server the primary on an
//! operator's decision. Clusters: [`nodes`] parses a node's view of the cluster, [`cluster`] gives
//! access to it, [`overview`] prints it, [`change`] creates clusters, adds nodes and removes them,
//! [`plan`] computes slot moves, [`moving`] carries them out, [`import`] imports another cluster's
//! keys.
//!
//! It talks to servers as any client does. It neither reads etcd nor writes to it, so it can never
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
