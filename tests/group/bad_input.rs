// SPDX-License-Identifier: BSD-3-Clause
//! Invalid settings, servers with equal names, and malformed records.

use std::path::Path;
use std::process::{Command, Stdio};

use braid_tests::certificates::certificates;
use braid_tests::process::shifted_clock;
use braid_tests::server::{free_port, program_under_test};
use braid_tests::{Etcd, Options, TestServer, wait_for};
use rustix::process::Signal;

use crate::writer::Writer;
use crate::{Group, arguments, is_primary, number};

/// Starts a server that must fail; returns its output.
fn refused(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(program_under_test())
        .current_dir(&folder)
        .args(["--port", &free_port().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the server starts");
    assert!(!output.status.success(), "the server accepted {arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The current reason why etcd cannot be used. The log has only the first reason, which may be a
/// timeout on a busy machine.
fn etcd_error(server: &TestServer) -> String {
    server.connect().info_field("group", "group_etcd_error").unwrap_or_default()
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let etcd = ["--etcd-endpoints", "127.0.0.1:1"];
    let group = ["--group-name", "g"];
    for (arguments, reason) in [
        (&[&group[..]].concat(), "group-name needs etcd-endpoints"),
        (&[&etcd[..]].concat(), "group-name is missing"),
        (&[&group[..], &["--etcd-endpoints", "127.0.0.1"]].concat(), "not an etcd endpoint"),
        (&[&["--group-name", "a/b"], &etcd[..]].concat(), "group-name 'a/b' must be"),
        (&[&group[..], &etcd, &["--node-name", "a b"]].concat(), "node-name 'a b' must be"),
        (
            &[&group[..], &etcd, &["--replicaof", "127.0.0.1", "1"]].concat(),
            "replicaof cannot be used in a group",
        ),
        (&[&group[..], &etcd, &["--etcd-ca-cert-file", "/nosuch"]].concat(), "/nosuch"),
        (&[&group[..], &etcd, &["--lease-time", "1500"]].concat(), "lease-time"),
        (&[&["--sync-writes", "yes"][..]].concat(), "group"),
    ] {
        let told = refused(arguments);
        assert!(told.contains(reason), "{arguments:?}: {told}");
    }
}

#[test]
fn a_server_without_etcd_waits_and_says_so() {
    let port = free_port();
    let server = TestServer::start_with(Options {
        arguments: arguments(&format!("127.0.0.1:{port}"), 0),
        ..Options::default()
    });
    wait_for("the log reports the outage", || server.log().contains("the group's roles stay as they are"));
    wait_for("INFO names the endpoint", || etcd_error(&server).contains(&format!("127.0.0.1:{port}")));
    let mut client = server.connect();
    assert!(client.call("SET a 1").text().starts_with("READONLY"), "a server without a role accepts a write");
    assert_eq!(client.call("PING").text(), "PONG");
}

#[test]
fn a_second_server_with_a_name_does_not_split_the_group() {
    let Some(group) = Group::start(2, &[]) else { return };
    let primary = group.primary().expect("a primary");
    let epoch = group.epoch();
    group.servers[primary].connect().ok("SET a 1");
    let second = group.start_server(primary, None);
    wait_for("the log reports the duplicate name", || second.log().contains("Another server has the name"));
    assert!(!is_primary(&second) && is_primary(&group.servers[primary]));
    assert_eq!(group.epoch(), epoch);
}

#[test]
fn foreign_and_damaged_records_do_no_harm() {
    let Some(group) = Group::start(2, &[]) else { return };
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    let put = |key: &str, value: &str| {
        let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        let body = format!(r#"{{"key":"{}","value":"{}"}}"#, encode(key), encode(value));
        group.etcd.post("/v3/kv/put", &body);
    };
    put("/braid/g/node/stranger", "damaged");
    put("/braid/g/what/is/this", "");
    let server = &group.servers[primary];
    wait_for("the log reports bad records", || server.log().contains("invalid records of the group"));
    server.connect().ok("SET a 1");
    // The shard's own record: no server acts on an incomplete one.
    put("/braid/g/shard/0", r#"{"epoch":99}"#);
    wait_for("the log reports the record", || server.log().contains("cannot parse the record of the shard"));
    server.connect().ok("SET a 2");
    assert_eq!(group.primary(), Some(primary));
    assert!(epoch < 99);
}

#[test]
fn wrong_password_is_reported() {
    let Some(etcd) = Etcd::start() else { return };
    etcd.enable_auth("braid", "secret", "/braid/", "/braid0");
    let start = |password: &str| {
        let mut arguments = arguments(etcd.endpoint(), 0);
        arguments.extend(["--etcd-user", "braid", "--etcd-password", password].map(String::from));
        TestServer::start_with(Options { arguments, ..Options::default() })
    };
    let wrong = start("wrong");
    wait_for("the log reports a failure", || wrong.log().contains("the group's roles stay as they are"));
    wait_for("INFO gives the reason", || etcd_error(&wrong).contains("invalid user ID or password"));
    assert!(!is_primary(&wrong));
    drop(wrong);
    let right = start("secret");
    wait_for("the server is the primary", || is_primary(&right));
}

#[test]
fn wrong_certificate_is_reported() {
    let (right, other) = (certificates(), certificates());
    let Some(etcd) = Etcd::start_tls(right.path(), true) else { return };
    let start = |authority: &Path, own: &Path| {
        let mut arguments = arguments(etcd.endpoint(), 0);
        for (setting, file) in [
            ("--etcd-ca-cert-file", authority.join("ca.pem")),
            ("--etcd-cert-file", own.join("client.pem")),
            ("--etcd-key-file", own.join("client.key")),
        ] {
            arguments.extend([setting.to_owned(), file.display().to_string()]);
        }
        TestServer::start_with(Options { arguments, ..Options::default() })
    };
    // An authority that is not etcd's; a certificate that etcd does not trust.
    for (authority, own) in [(&other, &right), (&right, &other)] {
        let server = start(authority.path(), own.path());
        wait_for("the log reports a failure", || server.log().contains("the group's roles stay as they are"));
        wait_for("INFO gives the reason", || etcd_error(&server).contains("certificate"));
        assert!(!is_primary(&server));
    }
    let server = start(right.path(), right.path());
    wait_for("the server is the primary", || is_primary(&server));
}

#[test]
fn clock_skew_of_two_days_is_logged_and_harmless() {
    let (Some(ahead), Some(behind)) = (shifted_clock("+1d"), shifted_clock("-1d")) else { return };
    let Some(etcd) = Etcd::start() else { return };
    let mut group = Group { etcd, servers: Vec::new(), more: Vec::new() };
    for (index, environment) in [ahead, behind].into_iter().enumerate() {
        let arguments = arguments(group.etcd.endpoint(), index);
        let server = TestServer::start_with(Options { arguments, environment, ..Options::default() });
        group.servers.push(server);
    }
    group.wait_until_in_sync();
    for (index, told) in ["ahead of etcd's", "behind etcd's"].into_iter().enumerate() {
        let log = || group.servers[index].log();
        wait_for("the log reports the clock skew", || log().contains(told));
        assert_eq!(log().matches("This server's clock is").count(), 1, "{}", log());
    }
    // Each server leads once, and all acknowledged writes are there.
    let writer = Writer::start(&group.servers, true);
    // The former one calls itself the primary for a moment longer than the failover takes.
    let mut primary = group.primary().expect("a primary");
    for _ in 0..2 {
        let begin = writer.acknowledged();
        wait_for("some writes", || writer.acknowledged() > begin + 50);
        group.servers[primary].connect().ok("FAILOVER");
        let former = primary;
        primary = group.wait_for_other(former);
        wait_for("the former primary has stepped down", || !is_primary(&group.servers[former]));
        group.wait_until_in_sync();
    }
    let (old, begin) = (primary, writer.acknowledged());
    wait_for("some writes", || writer.acknowledged() > begin + 50);
    group.servers[old].signal(Signal::KILL);
    let new = group.wait_for_other(old);
    wait_for("the writer continues", || writer.acknowledged() > begin + 100);
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
    assert!(number(&mut group.servers[new].connect(), "n") >= seen.acknowledged);
}
