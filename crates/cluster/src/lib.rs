// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster: the state of a group of servers, and planned handovers.
//!
//! [`gather`] asks the servers, [`group`] is what they said, [`status`] prints it, [`failover`] has
//! the primary hand over, [`promote`] makes a server the primary by an operator's word. It sees
//! servers as every client does; it neither reads etcd nor writes to it, so it can never change a
//! group by itself.
#![forbid(unsafe_code)]

pub mod failover;
pub mod gather;
pub mod group;
pub mod options;
pub mod promote;
pub mod status;
