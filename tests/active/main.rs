// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication with real servers: pairs, meshes and rings that all take writes,
//! links that are cut and healed, servers that are killed, peers that join with data, and invalid
//! peers.
//!
//!   cargo test -p braid-tests --test active
//!
//! At the end of each test all servers must show the same `ACTIVE DIGEST`, computed from the
//! values with their merge metadata, and the same `DEBUG DIGEST`, computed from the keyspace that
//! clients see.

mod away;
mod copies;
mod crash;
mod disk_backlog;
mod documents;
mod eviction;
mod examples;
mod forget;
mod functions;
mod generations;
mod isolated;
mod lag;
mod pair;
mod parts;
mod power;
mod refused;
mod search;
mod shared_strings;
mod slow_disk;
mod topologies;
mod troubles;

#[path = "../replica/proxy.rs"]
#[allow(dead_code, reason = "only the replica tests use all of it")]
mod proxy;

use std::ffi::OsString;

use braid_tests::server::Options;
use braid_tests::wait::PATIENCE;
use braid_tests::{RawClient, TestServer, Value, wait_for, wait_for_within};

/// Options of a server that keeps so few units for its peers that they need full copies.
const NEEDS_COPIES: [&str; 4] = ["--active-backlog-size", "64kb", "--active-backlog-disk-size", "0"];

/// An active-active server without peers.
fn server(region: u8, more: &[&str]) -> TestServer {
    server_with(region, more, Vec::new())
}

/// [`server`] with environment variables.
fn server_with(region: u8, more: &[&str], environment: Vec<(&'static str, OsString)>) -> TestServer {
    let region = region.to_string();
    let usual = ["--active-replica", "yes", "--active-region", &region, "--enable-debug-command", "yes"];
    let arguments = [&usual[..], more].concat().into_iter().map(str::to_owned).collect();
    TestServer::start_with(Options { arguments, environment, ..Options::default() })
}

/// A number in a server's INFO.
fn field(server: &TestServer, name: &str) -> u64 {
    let text = server.connect().info_field("active", name).expect("the field");
    text.parse().expect("a number")
}

/// Makes servers each other's peers.
fn link_all(servers: &[&TestServer]) {
    // A peer that comes before all units are in the backlog needs no full copy for them.
    servers.iter().for_each(|server| bring_to_log(server));
    for server in servers {
        let others = servers.iter().filter(|other| other.port() != server.port());
        link(server, &others.map(|other| other.port()).collect::<Vec<_>>());
    }
}

/// Waits until all writes so far are units in the log and the backlog, as a digest does.
fn bring_to_log(server: &TestServer) {
    server.connect().call("ACTIVE DIGEST");
}

/// Makes a server pull from the peers at these ports.
fn link(server: &TestServer, ports: &[u16]) {
    let peers = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    server.connect().ok(&format!("CONFIG SET active-peers \"{peers}\""));
}

/// Disconnects servers from all others.
fn cut(servers: &[&TestServer]) {
    for server in servers {
        link(server, &[]);
        wait_for("the server to have no peers", || {
            server.connect().info_field("active", "active_peers").as_deref() == Some("0")
        });
    }
}

/// The elements of a reply; null becomes an empty text.
fn texts(reply: &Value) -> Vec<String> {
    let text = |one: &Value| if one.is_null() { String::new() } else { one.text().to_string() };
    reply.elements().unwrap_or_default().iter().map(text).collect()
}

fn digests(client: &mut RawClient) -> (String, String) {
    let active = client.call("ACTIVE DIGEST").text().to_string();
    (active, client.call("DEBUG DIGEST").text().to_string())
}

/// Waits until all servers have equal merge metadata and keyspaces.
#[track_caller]
fn wait_until_equal(servers: &[&TestServer]) {
    let mut clients: Vec<RawClient> = servers.iter().map(|server| server.connect()).collect();
    let mut seen = Vec::new();
    let equal = wait_for_within(PATIENCE, || {
        seen = clients.iter_mut().map(digests).collect::<Vec<_>>();
        let vectors: Vec<String> = clients.iter_mut().map(applied).collect();
        seen.windows(2).all(|pair| pair[0] == pair[1]) && vectors.windows(2).all(|pair| pair[0] == pair[1])
    });
    let logs: Vec<String> = servers.iter().map(|server| server.log()).collect();
    assert!(equal, "the servers differ: {seen:?}\n{}", logs.join("\n---\n"));
}

/// The units that a server has applied, in the form it reports to a peer.
fn applied(client: &mut RawClient) -> String {
    client.info_field("active", "active_applied").unwrap_or_default()
}
