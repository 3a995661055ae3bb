// SPDX-License-Identifier: BSD-3-Clause
//! Sockets, TLS, listeners, the poller and processor affinity. Must not know about requests or
//! commands.

pub mod affinity;
pub mod listener;
pub mod outgoing;
pub mod poller;
pub mod stream;
pub mod target;
pub mod tls;
