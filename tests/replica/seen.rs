// SPDX-License-Identifier: BSD-3-Clause
//! Observability of replication: INFO with the fields of stock servers, the lag of links, and the
//! progress of full syncs.

use std::path::Path;
use std::time::Duration;

use braid_tests::server::{free_port, is_braid, program_under_test};
use braid_tests::{RawClient, TestServer, request, wait_for};
use rustix::process::Signal;

use crate::lying::{ID, Liar, dump, many_keys, send};
use crate::{figure, peers, primary, replica_at, wait_until_in_sync};

const USUAL: [&str; 6] = ["--repl-diskless-sync-delay", "0", "--repl-timeout", "20", "--save", ""];

/// Names and values of an INFO section, in order.
fn fields(client: &mut RawClient, section: &str) -> Vec<(String, String)> {
    let text = client.info(section);
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn names(fields: &[(String, String)]) -> Vec<&str> {
    fields.iter().map(|(name, _)| name.as_str()).collect()
}

/// The names in a value `name=value,name=value`.
fn parts<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let value = fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value);
    value.split(',').filter_map(|part| part.split_once('=')).map(|(name, _)| name).collect()
}

/// INFO replication in each state whose fields differ from those of the previous one.
fn in_all_states(program: &Path) -> Vec<(&'static str, Vec<(String, String)>)> {
    let mut states = Vec::new();
    let head = TestServer::start_program(program, &USUAL);
    let mut client = head.connect();
    states.push(("alone", fields(&mut client, "replication")));
    client.ok("CONFIG SET min-replicas-to-write 1");
    let replica = TestServer::start_program(
        program,
        &[&USUAL[..], &["--replicaof", "127.0.0.1", &head.port().to_string()]].concat(),
    );
    let mut its = replica.connect();
    wait_until_in_sync(&mut client, &mut its);
    states.push(("with a replica", fields(&mut client, "replication")));
    states.push(("replica", fields(&mut its, "replication")));
    let liar = Liar::new();
    its.ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
    let mut socket = liar.next();
    send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n$1000\r\n").as_bytes());
    send(&mut socket, &dump()[..50]);
    wait_for("part of the full sync has arrived", || {
        its.info_field("replication", "master_sync_read_bytes").is_some_and(|read| read != "0")
    });
    states.push(("full sync", fields(&mut its, "replication")));
    drop((liar, socket));
    wait_for("the link is lost", || {
        its.info_field("replication", "master_sync_in_progress").as_deref() == Some("0")
    });
    states.push(("no link", fields(&mut its, "replication")));
    states
}

#[test]
fn info_has_the_fields_of_stock_servers_in_their_order() {
    let ours = in_all_states(program_under_test());
    for peer in peers() {
        println!("{}", peer.version);
        for ((state, ours), (_, theirs)) in ours.iter().zip(in_all_states(&peer.program)) {
            let known = names(&theirs);
            let mut all = names(ours);
            all.retain(|name| known.contains(name));
            assert_eq!(all, known, "{} {state}: {ours:?}", peer.version);
            let (all, known) = (parts(ours, "slave0"), parts(&theirs, "slave0"));
            assert!(all.starts_with(&known), "{} {state}: {all:?} {known:?}", peer.version);
        }
    }
}

/// INFO's `master_link_down_since_seconds` of a replica in each state of its link. "up": the
/// field is missing.
fn down_times(program: &Path) -> Vec<(&'static str, String)> {
    let nobody = format!("127.0.0.1 {}", free_port());
    let (host, port) = nobody.split_once(' ').expect("a host and a port");
    let replica = TestServer::start_program(program, &["--replicaof", host, port]);
    let mut client = replica.connect();
    let mut states = Vec::new();
    let mut note = |client: &mut RawClient, state| {
        let seconds = client.info_field("replication", "master_link_down_since_seconds");
        let shown = match seconds.as_deref() {
            Some("-1") => "-1",
            Some(_) => "some time",
            None => "up",
        };
        states.push((state, shown.to_owned()));
    };
    wait_for("a connection attempt fails", || replica.log().contains("Error condition on socket for SYNC"));
    note(&mut client, "never up");
    let head = TestServer::start_program(program, &USUAL);
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", head.port()));
    wait_until_in_sync(&mut head.connect(), &mut client);
    note(&mut client, "connected");
    client.ok(&format!("REPLICAOF {nobody}"));
    note(&mut client, "another primary");
    client.ok("REPLICAOF NO ONE");
    client.ok(&format!("REPLICAOF {nobody}"));
    note(&mut client, "primary in between");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", head.port()));
    wait_until_in_sync(&mut head.connect(), &mut client);
    drop(head);
    let status = |client: &mut RawClient| client.info_field("replication", "master_link_status");
    wait_for("the link is lost", || status(&mut client).as_deref() == Some("down"));
    note(&mut client, "lost");
    states
}

#[test]
fn link_down_time_is_reported_once_the_link_was_up() {
    let ours = down_times(program_under_test());
    assert_eq!(ours[0].1, "-1");
    assert_eq!(ours.last().map(|(_, shown)| shown.as_str()), Some("some time"));
    for peer in peers() {
        assert_eq!(ours, down_times(&peer.program), "{}", peer.version);
    }
}

/// A named number in a field of the section of links; `None` if it is missing.
fn of_link(client: &mut RawClient, link: &str, name: &str) -> Option<f64> {
    let line = client.info_field("links", link)?;
    let parts = line.split(',').filter_map(|part| part.split_once('='));
    parts.into_iter().find(|(own, _)| *own == name)?.1.parse().ok()
}

#[test]
fn full_sync_progress_is_shown_while_receiving_and_loading() {
    if !is_braid() {
        return;
    }
    let liar = Liar::new();
    let server = TestServer::start(&["--key-load-delay", "300", "--save", ""]);
    let mut client = server.connect();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
    let mut socket = liar.next();
    let dump = many_keys();
    let half = dump.len() / 2;
    send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", dump.len()).as_bytes());
    send(&mut socket, &dump[..half]);
    wait_for("half of the dump has arrived", || {
        of_link(&mut client, "primary", "sync_read_bytes") == Some(half as f64)
    });
    assert_eq!(of_link(&mut client, "primary", "sync_total_bytes"), Some(dump.len() as f64));
    assert_eq!(of_link(&mut client, "primary", "sync_loaded_perc"), Some(-1.0));
    assert_eq!(figure(&mut client, "replication", "master_sync_total_bytes"), dump.len() as i64);
    assert_eq!(figure(&mut client, "replication", "master_sync_read_bytes"), half as i64);
    assert_eq!(figure(&mut client, "replication", "master_sync_left_bytes"), (dump.len() - half) as i64);
    let percent = client.info_field("replication", "master_sync_perc").expect("a percentage");
    assert!((percent.parse::<f64>().expect("a number") - 50.0).abs() < 0.1, "{percent}");
    assert!(figure(&mut client, "stats", "total_net_repl_input_bytes") > half as i64);
    wait_for("the input rate is nonzero", || {
        let rate = client.info_field("stats", "instantaneous_input_repl_kbps").expect("a rate");
        rate.parse::<f64>().expect("a number") > 0.0
    });
    send(&mut socket, &dump[half..]);
    wait_for("the dump is being loaded", || {
        of_link(&mut client, "primary", "sync_loaded_perc").is_some_and(|share| 0.0 < share && share < 100.0)
    });
    wait_for("the link is up", || {
        client.info_field("replication", "master_link_status").as_deref() == Some("up")
    });
    assert_eq!(of_link(&mut client, "primary", "sync_read_bytes"), None);
    assert!(of_link(&mut client, "primary", "last_io_ms").is_some_and(|since| since >= 0.0));
}

#[test]
fn full_sync_progress_is_shown_while_sending() {
    if !is_braid() {
        return;
    }
    for diskless in ["yes", "no"] {
        let server = primary(&["--repl-diskless-sync", diskless, "--rdbcompression", "no"]);
        let mut client = server.connect();
        // More than the buffers of a socket hold.
        client.ok("DEBUG POPULATE 4000 key 10000");
        // This replica requests a full sync, and reads none of it.
        let mut link = server.connect();
        link.ok("REPLCONF listening-port 12345 capa eof capa psync2");
        link.send(&request("PSYNC ? -1"));
        wait_for("part of the full sync is sent", || {
            of_link(&mut client, "replica0", "sync_sent_bytes").is_some_and(|sent| sent > 100_000.0)
        });
        let share = of_link(&mut client, "replica0", "sync_perc").expect("a percentage");
        assert!(0.0 < share && share < 100.0, "{share}");
        // As in stock servers: a streamed full sync counts as being saved until its end.
        let state = if diskless == "yes" { "state=wait_bgsave" } else { "state=send_bulk" };
        let line = client.info_field("replication", "slave0").expect("a replica");
        assert!(line.contains(state), "repl-diskless-sync {diskless}: {line}");
        assert_eq!(figure(&mut client, "replication", "connected_slaves"), 1);
        client.ok("SET more 1");
        wait_for("the replica lags", || {
            of_link(&mut client, "replica0", "lag_bytes").is_some_and(|behind| behind > 0.0)
        });
        drop(link);
        wait_for("the link is closed", || client.info_field("links", "replica0").is_none());
    }
}

#[test]
fn a_replica_that_stops_is_behind_in_bytes_and_in_time() {
    if !is_braid() {
        return;
    }
    let server = primary(&[]);
    let mut client = server.connect();
    let Some(peer) = braid_tests::server::peer(program_under_test()) else { return };
    let replica = replica_at(&peer, &server.port().to_string(), &[]);
    let mut its = replica.connect();
    client.ok("SET a 1");
    wait_until_in_sync(&mut client, &mut its);
    wait_for("the change is acknowledged", || of_link(&mut client, "replica0", "lag_bytes") == Some(0.0));
    assert_eq!(of_link(&mut client, "replica0", "lag_ms"), Some(0.0));
    replica.signal(Signal::STOP);
    let value = "x".repeat(1000);
    client.ok(&format!("SET a {value}"));
    let began = std::time::Instant::now();
    wait_for("the replica is a second behind", || {
        of_link(&mut client, "replica0", "lag_ms").is_some_and(|lag| lag > 1000.0)
    });
    assert!(began.elapsed() > Duration::from_millis(800), "lagged a second after {:?}", began.elapsed());
    assert!(of_link(&mut client, "replica0", "lag_bytes").is_some_and(|behind| behind > 1000.0));
    assert!(figure(&mut client, "stats", "total_net_repl_output_bytes") > 1000);
    replica.signal(Signal::CONT);
    wait_for("the replica has caught up", || of_link(&mut client, "replica0", "lag_ms") == Some(0.0));
}

#[test]
fn ipv6_addresses_are_reported_unchanged() {
    let server = primary(&["--bind", "127.0.0.1 -::1"]);
    let mut client = server.connect();
    let mut link = server.connect();
    link.ok("REPLCONF listening-port 12345 ip-address fd00::12 capa psync2");
    link.send(&request("PSYNC ? -1"));
    wait_for("the replica is attached", || {
        let line = client.info_field("replication", "slave0").unwrap_or_default();
        line.starts_with("ip=fd00::12,port=12345,")
    });
    client.ok("REPLICAOF ::1 1");
    assert_eq!(client.info_field("replication", "master_host").as_deref(), Some("::1"));
}
