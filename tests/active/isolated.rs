// SPDX-License-Identifier: BSD-3-Clause
//! Servers whose changes their peers refuse: a clock that was ahead, a folder that is older than
//! what the peers have, a folder that was lost. Both ends say so, and clients are kept away.

use std::path::Path;

use super::crash::kept;
use super::{link, link_all, server, server_with, wait_until_equal};
use braid_tests::process::{set_clock, shifted_clock};
use braid_tests::server::free_port;
use braid_tests::{TestServer, Value, http, wait_for};
use rustix::process::Signal;

fn trouble(server: &TestServer) -> String {
    server.connect().info_field("active", "active_trouble").expect("the field")
}

fn ready(metrics: u16) -> String {
    http::get(metrics, "/ready").unwrap_or_default()
}

/// What a server whose changes nobody takes shows.
#[track_caller]
fn check_isolated(server: &TestServer, metrics: u16, reason: &str) {
    wait_for("the reason in INFO", || trouble(server).contains(reason));
    wait_for("the reason in the log", || server.log().contains(reason));
    wait_for("it to be out of rotation", || ready(metrics).contains("refused"));
    assert_eq!(http::metric(metrics, "braid_active_refused_by_servers"), Some(1.0));
    assert_eq!(http::metric(metrics, "braid_active_files_ok"), Some(1.0));
}

#[track_caller]
fn check_well(server: &TestServer, metrics: u16) {
    wait_for("the trouble to end", || trouble(server).is_empty());
    wait_for("it to be ready", || ready(metrics).contains(r#""ready""#));
    assert_eq!(http::metric(metrics, "braid_active_refused_by_servers"), Some(0.0));
}

#[test]
fn a_server_whose_clock_was_ahead_says_so_and_can_be_cured() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = folder.path().join("clock");
    set_clock(&clock, 864_000);
    let Some(mut environment) = shifted_clock("+0") else { return };
    environment.retain(|(name, _)| *name != "FAKETIME");
    environment.push(("FAKETIME_TIMESTAMP_FILE", clock.clone().into()));
    environment.push(("FAKETIME_NO_CACHE", "1".into()));
    let metrics = [free_port(), free_port()];
    let [of_one, of_two] = metrics.map(|port| port.to_string());
    let one = server_with(1, &["--metrics-port", &of_one], environment);
    let two = server(2, &["--metrics-port", &of_two]);
    link_all(&[&one, &two]);
    one.connect().ok("SET wrong 1");
    check_isolated(&one, metrics[0], "ahead of this server's clock");
    // A second later the clock is right; the damage is done.
    set_clock(&clock, 0);
    one.connect().ok("SET right 1");
    wait_for("the server to see it from its own side", || trouble(&one).contains("ms ahead of its clock"));
    assert!(
        http::metric(metrics[0], "braid_active_clock_ahead_seconds").is_some_and(|ahead| ahead > 800_000.0)
    );
    assert!(trouble(&two).contains("a stamp of region 1 is"), "{}", trouble(&two));
    assert!(ready(metrics[1]).contains(r#""ready""#), "the peer is well");
    two.connect().ok("SET back 1");
    wait_for("the peer's changes", || one.connect().call("EXISTS back") == Value::Integer(1));
    // The cure, without a restart and without the loss of a write.
    for server in [&one, &two] {
        server.connect().ok("CONFIG SET active-clock-ahead-max 900000000");
    }
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("EXISTS wrong right"), Value::Integer(2));
    check_well(&one, metrics[0]);
    check_well(&two, metrics[1]);
    // Later writes of either win.
    two.connect().ok("SET right 2");
    wait_until_equal(&[&one, &two]);
    one.connect().ok("SET wrong 2");
    wait_until_equal(&[&one, &two]);
    for server in [&one, &two] {
        assert_eq!(super::texts(&server.connect().call("MGET right wrong")), ["2", "2"]);
    }
}

/// A killed server went on above the ceiling of its stamps, a minute ahead. With a clock that is
/// ahead by less than the limit, all its peers then refused it.
#[test]
fn a_killed_server_whose_clock_is_a_little_ahead_is_not_refused() {
    let Some(environment) = shifted_clock("+50") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &[]);
    let start = || {
        let dir = folder.path().to_str().expect("a name");
        let one = server_with(1, &["--dir", dir], environment.clone());
        link_all(&[&one, &two]);
        one
    };
    let mut one = start();
    for round in 0..4 {
        one.connect().ok(&format!("SET key:{round} x"));
        wait_until_equal(&[&one, &two]);
        one.signal(Signal::KILL);
        one.wait();
        one = start();
    }
    one.connect().ok("SET last x");
    wait_until_equal(&[&one, &two]);
    assert!(!two.log().contains("ahead of this server's clock"), "{}", two.log());
}

fn copy_of(from: &Path, to: &Path) {
    for entry in from.read_dir().expect("the folder").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a type").is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
}

#[test]
fn a_server_restored_from_an_older_copy_says_so() {
    let (folder, older) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let metrics = free_port();
    let more = ["--metrics-port", &metrics.to_string()];
    let one = server(1, &[]);
    let mut two = kept(2, &folder, &more);
    link_all(&[&one, &two]);
    two.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two]);
    let stop = |mut server: TestServer| {
        link(&one, &[]);
        server.signal(Signal::TERM);
        server.wait();
    };
    stop(two);
    copy_of(folder.path(), older.path());
    two = kept(2, &folder, &more);
    link_all(&[&one, &two]);
    for number in 0..20 {
        two.connect().ok(&format!("SET lost:{number} 1"));
    }
    wait_until_equal(&[&one, &two]);
    stop(two);
    let two = kept(2, &older, &more);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    two.connect().ok("SET new 1");
    check_isolated(&two, metrics, "restored from older files");
    assert!(trouble(&one).contains("region 2"), "{}", trouble(&one));
    assert_eq!(one.connect().call("EXISTS new"), Value::Integer(0));
}

#[test]
fn a_server_whose_folder_was_lost_says_so_under_its_old_number() {
    let metrics = free_port();
    let more = ["--metrics-port", &metrics.to_string()];
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    two.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two]);
    drop(two);
    let two = server(2, &more);
    link(&one, &[two.port()]);
    two.connect().ok("SET new 1");
    // Told by the peer, before this server has named it.
    check_isolated(&two, metrics, "region 2 belongs to another server");
    link(&two, &[one.port()]);
    check_isolated(&two, metrics, "region 2 belongs to another server");
    assert_eq!(one.connect().call("EXISTS new"), Value::Integer(0));
}
