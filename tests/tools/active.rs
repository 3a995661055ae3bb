// SPDX-License-Identifier: BSD-3-Clause
//! braid-bench active: two servers that converge, two that are not connected, and servers that
//! cannot take part.

use std::process::{Command, Output, Stdio};

use braid_tests::server::program_under_test;
use braid_tests::{TestServer, wait_for};
use serde_json::Value;

fn server(region: &str) -> TestServer {
    TestServer::start(&["--active-replica", "yes", "--active-region", region])
}

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(crate::program("braid-bench"));
    command.arg("active").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn merging_servers_keep_acknowledged_writes() {
    let one = server("1");
    let address = format!("127.0.0.1:{}", one.port());
    // The program starts the other server.
    let line = format!("{} --active-replica yes --active-region 2", program_under_test().display());
    let words =
        ["--seconds", "3", "--cuts", "2", "--rate", "300", "--seed", "7", "--patience", "60", "--json"];
    let output = bench(&[&words[..], &[address.as_str(), line.as_str()]].concat()).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["is_good"], &json["seed"]), (&Value::Bool(true), &7.into()));
    assert_eq!(json["cuts"].as_array().map(Vec::len), Some(2), "{json}");
    assert!(json["lag_ms"]["count"].as_u64() > Some(0) && json["lag_ms"]["p50"].is_f64(), "{json}");
    assert_eq!(json["servers"].as_array().map(Vec::len), Some(2), "{json}");
    let kinds = json["kinds"].as_array().expect("kinds");
    assert!(kinds.len() >= 12, "{json}");
    let writes: u64 = kinds.iter().filter_map(|kind| kind["writes"].as_u64()).sum();
    assert!(writes > 100, "{json}");
    // The server's configuration is restored.
    assert_eq!(one.connect().info_field("active", "active_peers").as_deref(), Some("0"));
}

#[test]
fn servers_that_are_kept_apart_are_found_out() {
    let (one, two) = (server("1"), server("2"));
    let addresses = [&one, &two].map(|server| format!("127.0.0.1:{}", server.port()));
    let words = ["--seconds", "4", "--cuts", "0", "--rate", "300", "--patience", "1"];
    let child = bench(&[&words[..], &[addresses[0].as_str(), addresses[1].as_str()]].concat())
        .spawn()
        .expect("it starts");
    wait_for("writes to arrive at both servers", || {
        [&one, &two].iter().all(|server| {
            server.connect().call("KEYS *:string:*").elements().is_some_and(|keys| !keys.is_empty())
        })
    });
    for server in [&one, &two] {
        server.connect().ok("CONFIG SET active-peers \"\"");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("THE SERVERS DIFFER"), "{}", text(&output));
}

#[test]
fn unsuitable_servers_are_reported() {
    let (one, plain) = (server("1"), TestServer::start(&[]));
    let addresses = [&one, &plain].map(|server| format!("127.0.0.1:{}", server.port()));
    let output = bench(&[&addresses[0], &addresses[1]]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("start it with active-replica yes"), "{}", text(&output));
    let output = bench(&[&addresses[0]]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}
