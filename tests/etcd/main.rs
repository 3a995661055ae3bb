// SPDX-License-Identifier: BSD-3-Clause
//! Tests the etcd client (crates/etcd) against real servers: calls, leases, watches, failover
//! between endpoints, logins, TLS, and unresponsive servers.
//!
//! Needs an `etcd` in `BRAID_PEERS_DIR` or on PATH; otherwise the tests are skipped.

mod access;
mod calls;
mod endpoints;
mod watches;

use std::time::Duration;

use braid_etcd::{Client, Options};
use braid_tests::Etcd;

/// Generous limits, because the tests share their machine.
fn options(endpoints: &[&str]) -> Options {
    Options {
        endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(10),
        ..Options::default()
    }
}

fn client(etcd: &Etcd) -> Client {
    Client::new(&options(&[etcd.endpoint()])).unwrap()
}
