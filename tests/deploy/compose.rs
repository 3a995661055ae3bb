// SPDX-License-Identifier: BSD-3-Clause
//! `deploy/compose.yaml`: its syntax, the servers' arguments, and the client's script.

use std::process::Command;

use braid_tests::TestServer;
use braid_tests::server::is_braid;

use crate::{deploy, is_there, root, runs};

#[test]
fn the_compose_file_is_valid_and_its_servers_start() {
    if !is_there("deploy/compose.yaml", "python3-yaml", runs("python3", &["-c", "import yaml"])) {
        return;
    }
    let output = Command::new(root().join("tests/deploy/compose.py"))
        .arg(deploy("compose.yaml"))
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let servers = text(&output.stdout);
    let servers: Vec<&str> = servers.lines().collect();
    assert_eq!(servers.len(), 3, "{servers:?}");
    if !is_braid() {
        return;
    }
    // No etcd answers at its name here: a server of the group waits for it, and meanwhile answers
    // PING.
    let arguments: Vec<&str> = servers[0].split_whitespace().collect();
    let server = TestServer::start(&arguments);
    assert_eq!(server.connect().call("PING"), braid_tests::Value::Simple("PONG".into()));
    assert!(server.log().contains("in the group local"), "{}", server.log());
}

#[test]
fn the_clients_script_is_valid() {
    let file = std::fs::read_to_string(deploy("compose.yaml")).expect("a file");
    let (_, after) = file.split_once("      - |\n").expect("a script");
    let script: String = after
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("        "))
        .map(|line| format!("{}\n", line.replace("$$", "$")))
        .collect();
    assert!(script.contains("redis-cli"));
    let status = Command::new("bash").args(["-n", "-c", &script]).status().expect("bash");
    assert!(status.success(), "{script}");
}
