// SPDX-License-Identifier: BSD-3-Clause
//! Refused input: a clear line in the log, and nothing applied.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};

use super::{link, server};
use braid_tests::process::shifted_clock;
use braid_tests::{TestServer, Value, wait_for};

#[test]
fn wrong_passwords_are_refused_until_they_are_right() {
    let (one, two) = (server(1, &["--requirepass", "secret"]), server(2, &["--masterauth", "wrong"]));
    link(&two, &[one.port()]);
    wait_for("the refusal", || two.log().contains("the peer rejects the password"));
    two.connect().ok("CONFIG SET masterauth secret");
    let mut client = one.connect();
    client.ok("AUTH secret");
    client.ok("SET a 1");
    wait_for("the value", || two.connect().call("EXISTS a") == Value::Integer(1));
}

#[test]
fn two_servers_with_one_number_refuse_each_other() {
    let (one, two) = (server(5, &[]), server(5, &[]));
    one.connect().ok("SET a 1");
    link(&two, &[one.port()]);
    wait_for("the refusal", || two.log().contains("region 5 belongs to another server"));
    wait_for("the other server's log line", || one.log().contains("give each server its own active-region"));
    assert_eq!(two.connect().call("DBSIZE"), Value::Integer(0));
    link(&one, &[one.port()]);
    wait_for("the server to recognize itself", || one.log().contains("same server"));
}

#[test]
fn a_peer_that_is_another_kind_of_server_is_named() {
    let Some(stock) = braid_tests::server::stock() else {
        println!("skipped: no stock server");
        return;
    };
    let stock = TestServer::start_program(&stock.program, &[]);
    let metrics = braid_tests::server::free_port();
    let server = server(1, &["--metrics-port", &metrics.to_string()]);
    let ready = || braid_tests::http::get(metrics, "/ready").unwrap_or_default();
    wait_for("the server to be ready without peers", || ready().contains(r#""ready""#));
    link(&server, &[stock.port()]);
    wait_for("the reason in the log", || server.log().contains("the peer is not a Braid server"));
    assert!(ready().contains("no-data"), "{}", ready());
    // A Braid server among the peers is enough.
    let other = super::server(2, &[]);
    link(&server, &[stock.port(), other.port()]);
    wait_for("the server to be ready with a peer", || ready().contains(r#""ready""#));
}

/// A peer that introduces itself correctly and then replies to PULL and COPY with these bytes.
fn liar(answers: &'static [u8], copy: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut reader = BufReader::new(connection.try_clone().expect("a second handle"));
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                if line.trim_end() == "HELLO" {
                    let hello = format!("*5\r\n:4\r\n$40\r\n{}\r\n:9\r\n:1\r\n$3\r\n512\r\n", "a".repeat(40));
                    let _ = connection.write_all(hello.as_bytes());
                } else if line.trim_end() == "TELL" {
                    // A former version.
                    let _ = connection.write_all(b"-ERR unknown subcommand 'TELL'\r\n");
                } else if line.trim_end() == "PULL" {
                    let _ = connection.write_all(answers);
                } else if line.trim_end() == "COPY" {
                    let _ = connection.write_all(copy);
                }
                line.clear();
            }
        }
    });
    port
}

#[test]
fn peers_that_send_garbage_are_refused() {
    let good = server(2, &[]);
    good.connect().ok("SET good 1");
    const COPY: &[u8] = b"*5\r\n$4\r\ncopy\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n";
    let lies: [(&[u8], &[u8], &str); 10] = [
        (
            b"*6\r\n$5\r\nunits\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$3\r\nxyz\r\n",
            b"",
            "protocol error",
        ),
        (b"+OK\r\n", b"", "protocol error"),
        (b"*1\r\n$-5\r\n", b"", "protocol error"),
        (COPY, b"*2\r\n:0\r\n$3\r\nxyz\r\n", "not a saved state"),
        (COPY, b"*1\r\n:0\r\n", "a truncated full copy"),
        (COPY, b"*1\r\n:7\r\n", "invalid reply to ACTIVE COPY"),
        (COPY, b"*2\r\n:1\r\n:1\r\n", "a number in a full copy"),
        (COPY, b"*1\r\n:-1\r\n", "full copy failed"),
        (b"*5\r\n$4\r\nword\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n", b"", "protocol error"),
        (
            b"*6\r\n$5\r\nunits\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n\xff\r\n",
            b"",
            "has version 255",
        ),
    ];
    for (region, (answer, copy, line)) in (11..).zip(lies) {
        // Each is a different server to the good peer.
        let one = server(region, &[]);
        let port = liar(answer, copy);
        link(&one, &[port, good.port()]);
        wait_for("the refusal", || one.log().contains(line));
        wait_for("the good peer's data", || one.connect().call("EXISTS good") == Value::Integer(1));
        assert_eq!(one.connect().call("DBSIZE"), Value::Integer(1));
    }
}

#[test]
fn stamps_from_the_future_are_refused() {
    let Some(environment) = shifted_clock("+365d") else { return };
    let arguments = ["--active-replica", "yes", "--active-region", "1"].map(str::to_owned).to_vec();
    let ahead =
        TestServer::start_with(braid_tests::server::Options { arguments, environment, ..Default::default() });
    ahead.connect().ok("SET future 1");
    let two = server(2, &[]);
    two.connect().ok("SET here 1");
    link(&two, &[ahead.port()]);
    wait_for("the refusal", || two.log().contains("ahead of this server's clock"));
    assert_eq!(two.connect().call("DBSIZE"), Value::Integer(1));
}

#[test]
fn incompatible_active_settings_are_refused_at_startup() {
    let program = braid_tests::server::program_under_test();
    for (arguments, line) in [
        (&["--active-replica", "yes", "--cluster-enabled", "yes"][..], "cannot be used in cluster mode"),
        (&["--active-replica", "yes", "--group-name", "g"], "cannot be used in a group"),
        (&["--active-peers", "a:1"], "need active-replica yes"),
        (&["--active-replica", "yes", "--active-peers", "nowhere"], "is not host:port"),
    ] {
        let output = std::process::Command::new(program).args(["--port", "0"]).args(arguments).output();
        let output = output.expect("it ran");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(line), "{arguments:?}: {said}");
    }
}

#[test]
fn values_that_do_not_merge_have_no_commands() {
    let one = server(1, &[]);
    assert!(matches!(one.connect().call("BF.ADD b x"), Value::Error(_)));
    let plain = TestServer::start(&[]);
    assert!(matches!(plain.connect().call("ACTIVE PEERS"), Value::Error(_)), "only in active mode");
}
