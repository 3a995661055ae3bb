// SPDX-License-Identifier: BSD-3-Clause
//! Lines of the log: formats, and the system's log.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use braid_tests::server::{self, Options};
use braid_tests::words::encode;
use braid_tests::{RawClient, TestServer, wait_for};

/// Makes the server log this message as a notice.
fn log(client: &mut RawClient, message: &str) {
    client.send(&encode(&["EVAL", "redis.log(redis.LOG_NOTICE, ARGV[1])", "0", message]));
    client.read();
}

/// Hard to quote, but one line.
const MESSAGE: &str = "user=\"a b\"\t\\n end-of-message";
const FORMATS: [&str; 3] = ["legacy", "logfmt", "json"];
const TIMES: [&str; 3] = ["legacy", "iso8601", "milliseconds"];

/// Logs the message in every format, and returns the lines without what differs between servers
/// and moments: process, digits and the mark of a script.
fn lines_in_every_format(server: &TestServer) -> Vec<String> {
    let mut client = server.connect();
    for format in FORMATS {
        for time in TIMES {
            client.ok(&format!("CONFIG SET log-format {format} log-timestamp-format {time}"));
            log(&mut client, MESSAGE);
        }
    }
    let is_complete = |log: &str| log.matches("end-of-message").count() == FORMATS.len() * TIMES.len();
    wait_for("the lines", || is_complete(&server.log()));
    let (log, process) = (server.log(), server.process_id().to_string());
    let lines = log.lines().filter(|line| line.contains("end-of-message"));
    let lines = lines.map(|line| line.replacen(&process, "PID", 1).replace("<lua> ", ""));
    lines.map(|line| line.replace(|character: char| character.is_ascii_digit(), "0")).collect()
}

/// Unlike other servers, Braid logs in UTC, wherever it runs.
fn in_utc(program: Option<&Path>) -> TestServer {
    let environment = vec![("TZ", "UTC".into())];
    TestServer::start_with(Options { program: program.map(Into::into), environment, ..Options::default() })
}

#[test]
fn lines_have_the_format_that_is_set() {
    if !server::is_braid() {
        return;
    }
    let lines = lines_in_every_format(&in_utc(None));
    let month = lines[0].split(' ').nth(2).unwrap_or_default();
    let times = [
        format!("00 {month} 0000 00:00:00.000"),
        "0000-00-00T00:00:00.000+00:00".into(),
        "0000000000000".into(),
    ];
    let expected = FORMATS.iter().flat_map(|format| times.iter().map(move |time| (*format, time)));
    let expected = expected.map(|(format, time)| match format {
        "legacy" => format!("PID:M {time} * {MESSAGE}"),
        "logfmt" => {
            let message = MESSAGE.replace('"', "'");
            format!("pid=PID role=primary timestamp=\"{time}\" level=notice message=\"{message}\"")
        }
        _ => {
            let message = MESSAGE.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t");
            format!(
                "{{\"pid\":PID,\"role\":\"primary\",\"timestamp\":\"{time}\",\"level\":\"notice\",\
                 \"message\":\"{message}\"}}"
            )
        }
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
    for peer in server::newer_peers().iter().filter(|peer| peer.version.starts_with("valkey")) {
        assert_eq!(lines, lines_in_every_format(&in_utc(Some(&peer.program))), "{}", peer.version);
    }
}

#[test]
fn the_role_of_a_replica_and_invalid_formats() {
    let server = TestServer::start(&["--log-format", "logfmt"]);
    if !server.is_braid() {
        return;
    }
    let mut client = server.connect();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", server::free_port()));
    wait_for("lines of a replica", || server.log().contains(" role=replica timestamp="));
    for (name, words) in [("log-format", FORMATS), ("log-timestamp-format", TIMES)] {
        let refusal = client.call(&format!("CONFIG SET {name} xml")).text();
        assert!(refusal.ends_with(&words.join(", ")), "{refusal}");
    }
    for name in ["syslog-enabled yes", "syslog-ident other", "syslog-facility user"] {
        let refusal = client.call(&format!("CONFIG SET {name}")).text();
        assert!(refusal.ends_with("can't set immutable config"), "{refusal}");
    }
}

/// A server that sends its lines to this socket.
fn with_syslog(socket: &Path, arguments: &[&str]) -> TestServer {
    let arguments = [&["--syslog-enabled", "yes"], arguments].concat();
    TestServer::start_with(Options {
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        environment: vec![("BRAID_SYSLOG", socket.into())],
        ..Options::default()
    })
}

#[test]
fn the_system_log_gets_every_line() {
    if !server::is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.ends_with("bye bye...")) {
            let mut datagram = [0; 9000];
            let len = socket.recv(&mut datagram).unwrap_or_else(|error| panic!("{error} after {lines:#?}"));
            lines.push(String::from_utf8_lossy(&datagram[..len]).into_owned());
        }
        lines
    });
    let format = ["--log-format", "json", "--syslog-ident", "cache", "--syslog-facility", "local3"];
    let mut server = with_syslog(&path, &format);
    let mut client = server.connect();
    log(&mut client, MESSAGE);
    client.ok("CONFIG SET loglevel warning");
    log(&mut client, "below the level");
    client.send(&braid_tests::request("SHUTDOWN NOSAVE"));
    assert!(server.wait().success());
    let lines = reader.join().expect("lines");
    let tag = format!("cache[{}]: ", server.process_id());
    assert!(lines.contains(&format!("<157>{tag}{MESSAGE}")), "{lines:#?}");
    assert!(lines.iter().all(|line| line[5..].starts_with(&tag) && !line.contains("below")), "{lines:#?}");
    // A loaded machine may have lost lines, and says so.
    let missing = lines.iter().any(|line| line.contains(" are missing: "));
    assert!(missing || lines.len() == server.log().lines().count(), "{lines:#?}\n{}", server.log());
}

#[test]
fn a_system_log_that_is_missing_or_full_stops_nothing() {
    if !server::is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let full = folder.path().join("full");
    let _unread = UnixDatagram::bind(&full).expect("a socket");
    for (path, reason) in [
        (folder.path().join("missing"), "No such file or directory"),
        (full, "Resource temporarily unavailable"),
    ] {
        let server = with_syslog(&path, &[]);
        let mut client = server.connect();
        // More than the system keeps for a program that does not read.
        for number in 0..2_000 {
            log(&mut client, &format!("line {number}"));
        }
        wait_for("the last line", || server.log().contains("line 1999\n"));
        let report = format!(" # Can't log to syslog at {}: {reason}\n", path.display());
        assert_eq!(server.log().matches("Can't log to syslog").count(), 1, "{}", server.log());
        assert!(server.log().contains(&report), "{}", server.log());
    }
}

/// With the system's log alone, for example in the background, it is all that the operator sees.
#[test]
fn a_failed_start_is_in_the_system_log() {
    if !server::is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_nonblocking(true).expect("a mode");
    let output = std::process::Command::new(server::program_under_test())
        .args(["--timeout", "abc", "--syslog-enabled", "yes", "--syslog-ident", "cache"])
        .env("BRAID_SYSLOG", &path)
        .output()
        .expect("it starts and ends");
    assert!(!output.status.success());
    let mut datagram = [0; 9000];
    let len = socket.recv(&mut datagram).expect("a line");
    let line = String::from_utf8_lossy(&datagram[..len]);
    assert!(line.starts_with("<132>cache[") && line.contains("argument couldn't be parsed"), "{line}");
}
