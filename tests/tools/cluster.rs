// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster against a real primary and its replicas.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use braid_tests::etcd::Etcd;
use braid_tests::server::free_port;
use braid_tests::wait::wait_for;
use braid_tests::{TestServer, Value};

fn run(arguments: &str) -> Output {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| crate::program("braid-cluster"));
    Command::new(program).args(arguments.split_whitespace()).output().expect("braid-cluster starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A primary with data, and a replica of it whose link is up.
fn pair() -> (TestServer, TestServer) {
    let options = ["--repl-diskless-sync-delay", "0"];
    let primary = TestServer::start(&options);
    primary.connect().ok("SET k v");
    let replica = TestServer::start(&options);
    replica.connect().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let mut client = replica.connect();
    wait_for("the link is up", || info(&mut client).contains("master_link_status:up"));
    let mut client = primary.connect();
    wait_for("the replica is online", || info(&mut client).contains("state=online"));
    (primary, replica)
}

fn info(client: &mut braid_tests::RawClient) -> String {
    match client.call("INFO replication") {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn status_is_the_same_from_either_side() {
    let (primary, replica) = pair();
    let (first, second) = (format!("127.0.0.1:{}", primary.port()), format!("127.0.0.1:{}", replica.port()));
    for asked in [&first, &second] {
        let output = run(&format!("status {asked}"));
        let told = text(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(told.starts_with(&format!("no group, primary {first}, 2 of 2 in sync\n")), "{told}");
        assert!(told.contains(&format!("   `===== {second}\n")), "{told}");
        let row =
            |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!(row(&first).contains("primary") && row(&second).contains("replica"), "{told}");
    }
    drop(primary);
    let output = run(&format!("status {second}"));
    let told = text(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("NO PRIMARY") && told.contains(&format!("{first}: cannot connect")), "{told}");
}

#[test]
fn a_failover_is_waited_for() {
    let (primary, replica) = pair();
    let told = text(&run(&format!("failover 127.0.0.1:{} nobody", replica.port())));
    assert!(told.contains("there is no member nobody, only "), "{told}");
    let output =
        run(&format!("failover 127.0.0.1:{} 127.0.0.1:{} --timeout 20", primary.port(), replica.port()));
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.starts_with(&format!("127.0.0.1:{} has taken over", replica.port())), "{told}");
    assert!(info(&mut replica.connect()).contains("role:master"));
    assert!(info(&mut primary.connect()).contains("role:slave"));
    replica.connect().ok("SET k w");
}

#[test]
fn cluster_tool_reports_failures() {
    let output = run(&format!("status 127.0.0.1:{}", free_port()));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cannot connect"), "{}", text(&output));
    assert_eq!(run("status --nothing").status.code(), Some(2));
    assert!(text(&run("--help")).contains("Exit status"));
    // A primary without replicas cannot hand over.
    let server = TestServer::start(&[]);
    let output = run(&format!("failover 127.0.0.1:{}", server.port()));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("refuses"), "{}", text(&output));
}

#[test]
fn a_group_is_shown_and_hands_over() {
    let Some(etcd) = Etcd::start() else { return };
    let start = |name: &str| {
        TestServer::start(&[
            "--group-name",
            "g",
            "--node-name",
            name,
            "--etcd-endpoints",
            etcd.endpoint(),
            "--repl-diskless-sync-delay",
            "0",
        ])
    };
    let first = start("a");
    if !first.is_braid() {
        return;
    }
    let mut servers = vec![first, start("b")];
    let asked = format!("127.0.0.1:{}", servers[1].port());
    let mut told = String::new();
    wait_for("the group to be healthy", || {
        let output = run(&format!("status {asked}"));
        told = text(&output);
        output.status.code() == Some(0)
    });
    let names = |told: &str| {
        let primary = told.split_once("primary ").expect("a primary").1[..1].to_owned();
        let replica = if primary == "a" { "b" } else { "a" }.to_owned();
        (primary, replica)
    };
    let (primary, replica) = names(&told);
    assert!(told.starts_with("group g, epoch 1, primary "), "{told}");
    assert!(told.contains(", 2 of 2 in sync, lease "), "{told}");
    assert!(told.contains(&format!("  {primary}\n   `===== {replica}")), "{told}");

    let output = run(&format!("failover {asked} {replica}"));
    let done = text(&output);
    assert_eq!(output.status.code(), Some(0), "{done}");
    assert!(done.starts_with(&format!("{replica} has taken over from {primary}")), "{done}");
    wait_for("the new epoch", || text(&run(&format!("status {asked}"))).starts_with("group g, epoch 2"));

    // Stop the former primary, now a replica.
    let (index, other) = if primary == "a" { (0, 1) } else { (1, 0) };
    let left = format!("127.0.0.1:{}", servers[other].port());
    drop(servers.remove(index));
    wait_for("the member to leave", || text(&run(&format!("status {left}"))).contains("1 of 1 in sync"));
}
