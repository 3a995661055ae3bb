// SPDX-License-Identifier: BSD-3-Clause
//! The server's log after a crash.

use std::os::unix::process::ExitStatusExt;

use braid_tests::{TestServer, request};
use rustix::process::Signal;

/// The crash report in a log, from its first line to its last.
#[track_caller]
fn report(log: &str) -> &str {
    let begin = log.find("BUG REPORT START").unwrap_or_else(|| panic!("no report in:\n{log}"));
    let end = log[begin..].find("BUG REPORT END").unwrap_or_else(|| panic!("no end in:\n{log}"));
    &log[begin..begin + end]
}

#[test]
fn a_signal_leaves_a_report_and_ends_the_process_as_it_always_does() {
    for signal in [Signal::ABORT, Signal::SEGV, Signal::BUS, Signal::FPE, Signal::ILL] {
        let mut server = TestServer::start(&["--io-threads", "2"]);
        if !server.is_braid() {
            return;
        }
        server.connect().ok("SET name-of-a-key value-of-a-key");
        server.signal(signal);
        assert_eq!(server.wait().signal(), Some(signal.as_raw()));
        let log = server.log();
        let report = report(&log);
        for part in [
            &format!("crashed by signal: {}, si_code: 0\n", signal.as_raw())[..],
            &format!("Killed by PID: {}\n", std::process::id()),
            "------ STACK TRACE ------\nbraid-server(+0x",
            "------ THREADS ------",
            "(io_thd_1)",
            "------ INFO OUTPUT ------",
            "# Server\r\n",
            "connected_clients:",
        ] {
            assert!(report.contains(part), "{signal:?}: no {part:?} in:\n{log}");
        }
        assert!(!report.contains("-of-a-key"), "the report contains user data");
    }
}

#[test]
fn the_report_names_the_functions_that_were_at_work() {
    let cases = [
        ("DEBUG SEGFAULT", Signal::SEGV, "si_code: 2\n"),
        ("DEBUG PANIC", Signal::ABORT, "DEBUG PANIC called"),
    ];
    for (request_text, signal, told) in cases {
        let mut server = TestServer::start(&["--enable-debug-command", "yes"]);
        if !server.is_braid() {
            return;
        }
        let mut client = server.connect();
        client.send(&request(request_text));
        assert_eq!(client.read_to_close().as_deref(), Some(&b""[..]));
        assert_eq!(server.wait().signal(), Some(signal.as_raw()));
        let log = server.log();
        assert!(report(&log).contains("executor/src/dispatch.rs:"), "{request_text}:\n{log}");
        assert!(log.contains(told), "{request_text}:\n{log}");
    }
}

#[test]
fn no_crash_report_when_crash_log_is_disabled() {
    let mut server = TestServer::start(&["--crash-log-enabled", "no"]);
    if !server.is_braid() {
        return;
    }
    let mut client = server.connect();
    client.ok("CONFIG SET crash-log-enabled yes");
    client.ok("CONFIG SET crash-log-enabled no");
    server.signal(Signal::ABORT);
    assert_eq!(server.wait().signal(), Some(Signal::ABORT.as_raw()));
    assert!(!server.log().contains("BUG REPORT"));
}
