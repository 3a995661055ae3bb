// SPDX-License-Identifier: BSD-3-Clause
//! braid-top's `--once`, as scripts use it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use braid_tests::TestServer;
use braid_tests::cluster::Cluster;

fn top() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| crate::program("braid-top"))
}

fn run(server: &TestServer, arguments: &str) -> Output {
    Command::new(top())
        .args(["-p", &server.port().to_string(), "--once", "--interval", "0.2"])
        .args(arguments.split_whitespace())
        .output()
        .expect("braid-top starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The number after the first `"name": ` in JSON.
#[track_caller]
fn number(json: &str, name: &str) -> f64 {
    let start = json.find(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name} in {json}"));
    let value = json[start + name.len() + 4..].split([',', '\n']).next().unwrap();
    value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}"))
}

#[test]
fn json_output_shows_server_activity() {
    let server = TestServer::start(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect();
    client.ok("SET k v");
    client.ok("CLIENT SETNAME worker");
    // Commands continue while braid-top samples.
    let output = std::thread::scope(|scope| {
        let looking = scope.spawn(|| run(&server, "--json --clients"));
        while !looking.is_finished() {
            client.call("GET k");
        }
        looking.join().unwrap()
    });
    assert!(output.status.success(), "{}", text(&output));
    let json = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(number(&json, "commands_per_second") > 10.0, "{json}");
    assert!((0.15..5.0).contains(&number(&json, "seconds")), "{json}");
    assert!(number(&json, "used") > 0.0 && number(&json, "keys") == 1.0);
    for part in ["\"name\": \"get\"", "\"name\": \"worker\"", "\"db0\"", "\"slow_log\": [", "\"threads\": ["]
    {
        assert!(json.contains(part), "{part} is missing in {json}");
    }
    assert!(json.contains("GET k"), "GET k is missing from the slow log: {json}");
    if server.is_braid() {
        assert!(
            json.contains("\"threading_model\": \"parallel\"") && json.contains("\"name\": \"io 0\""),
            "{json}"
        );
    }
}

#[test]
fn text_is_for_people() {
    let server = TestServer::start(&[]);
    server.connect().ok("SET k v");
    let output = run(&server, "");
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    for part in ["commands", "useful %", "us/call", "resident", "db0"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[test]
fn top_reports_auth_errors_and_unknown_options() {
    let server = TestServer::start(&["--requirepass", "secret"]);
    let refused = run(&server, "");
    assert!(refused.status.code() == Some(1) && text(&refused).contains("NOAUTH"), "{}", text(&refused));
    assert!(run(&server, "-a secret").status.success());
    assert_eq!(run(&server, "--no-such-option").status.code(), Some(2));
}

#[test]
fn links_are_shown_in_both_roles() {
    let server = TestServer::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let (mut its, mut of_server) = (replica.connect(), server.connect());
    // The primary counts the replica as online once it has acknowledged the full sync, which is
    // later.
    braid_tests::wait_for("the link is up at both ends", || {
        its.info_field("replication", "master_link_status").as_deref() == Some("up")
            && of_server.info_field("replication", "slave0").is_some_and(|line| line.contains("state=online"))
    });
    let of_primary = text(&run(&server, ""));
    let line = format!("replica 127.0.0.1:{}", replica.port());
    assert!(of_primary.contains(&line) && of_primary.contains("replicas 1 of 1 online"), "{of_primary}");
    let of_replica = text(&run(&replica, ""));
    let role = format!("replica of 127.0.0.1:{} (connected)", server.port());
    assert!(of_replica.contains(&role), "{of_replica}");
    let json = text(&run(&replica, "--json"));
    assert!(json.contains(&format!("\"peer\": \"primary 127.0.0.1:{}\"", server.port())), "{json}");
    assert_eq!(number(&json, "lag_bytes"), 0.0);
}

/// For a cluster node: its slots with their costs, and the members of its own shard.
#[test]
fn cluster_node_shows_its_slots_and_shard() {
    let Some(cluster) = Cluster::create(3, 2, &["--cluster-slot-stats-enabled", "yes"]) else { return };
    let mut client = cluster.client(0);
    client.ok("SET {hello}1 v");
    let output = std::thread::scope(|scope| {
        let looking = scope.spawn(|| run(&cluster.nodes[0], "--json"));
        while !looking.is_finished() {
            client.call("GET {hello}1");
        }
        looking.join().expect("it ends")
    });
    assert!(output.status.success(), "{}", text(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let slot = &told["slots"][0];
    assert_eq!((slot["slot"].as_i64(), slot["keys"].as_i64()), (Some(866), Some(1)), "{told}");
    for figure in ["cores", "cpu_seconds", "input_bytes_per_second", "output_bytes_per_second"] {
        assert!(slot[figure].as_f64() > Some(0.0), "{figure}: {slot}");
    }
    let group = &told["group"];
    let members = group["members"].as_array().expect("members");
    let names: Vec<_> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    assert_eq!((names, group["nodes_elsewhere"].as_i64()), (vec!["n0", "n2"], Some(1)), "{group}");
    let said = text(&run(&cluster.nodes[0], ""));
    assert!(said.contains(", 1 node in other shards, ") && !said.contains("n1 "), "{said}");
    let mut lines = said.lines().skip_while(|line| !line.trim_start().starts_with("slot "));
    let is_slot = |line: &str| line.trim_start().starts_with("866 ");
    assert!(lines.nth(1).is_some_and(is_slot), "{said}");
    // braid-top does not query slots of a server without cluster mode.
    let server = TestServer::start(&[]);
    let told = text(&run(&server, "--json"));
    assert!(told.contains("\"slots\": null"), "{told}");
    assert!(!server.connect().info("errorstats").contains("errorstat_"), "the server refused a request");
}
