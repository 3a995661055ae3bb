// SPDX-License-Identifier: BSD-3-Clause
//! Vulnerabilities in accepting, reading and closing connections.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use braid_tests::{RawClient, TestServer, Value, request, wait_for, words};
use socket2::SockRef;

/// CVE-2025-48367: an endless stream of connections that end immediately or break the protocol
/// locks no other client out.
#[test]
fn unauthenticated_protocol_errors_lock_out_no_client() {
    let server = TestServer::start(&["--requirepass", "secret", "--io-threads", "2"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for kind in 0..3 {
            let (stop, server) = (&stop, &server);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(socket) = TcpStream::connect(server.address()) else { continue };
                    // The connection is reset, not closed in order, either before it is accepted
                    // or while its request is read.
                    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("a socket");
                    if let (1.., Ok(mut client)) = (kind, RawClient::from_tcp(socket)) {
                        let _ = client.try_send(b"*1\r\n$x\r\n");
                        if kind == 2 {
                            let _ = client.try_read();
                        }
                    }
                }
            });
        }
        let mut known = server.connect();
        known.ok("AUTH secret");
        for _ in 0..200 {
            let mut fresh = server.connect();
            fresh.ok("AUTH secret");
            assert_eq!(fresh.call("PING"), Value::Simple(b"PONG".to_vec()));
            assert_eq!(known.call("PING"), Value::Simple(b"PONG".to_vec()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut client = server.connect();
    client.ok("AUTH secret");
    wait_for("all other connections to close", || {
        client.info_field("clients", "connected_clients").as_deref() == Some("1")
    });
}

/// CVE-2023-45145: the unix socket must never, not even briefly, accept clients that its final
/// permissions exclude. That no client can connect before the permissions are set is tested where
/// the socket is created.
#[test]
fn the_unix_socket_has_the_permissions_that_were_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let name = path.to_str().expect("a name");
    let _server = TestServer::start(&["--unixsocket", name, "--unixsocketperm", "700"]);
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(RawClient::unix(&path).expect("a connection").call("PING"), Value::Simple(b"PONG".to_vec()));
}

/// CVE-2026-27623 and earlier ones: empty requests before authentication, in one piece and byte
/// by byte.
#[test]
fn empty_requests_are_nothing() {
    let server = TestServer::start(&["--requirepass", "secret"]);
    let nothing: &[u8] = b"*0\r\n\r\n*-1\r\n  \r\n*0\r\n*-2147483648\r\n\n*0\r\n";
    for in_pieces in [false, true] {
        let mut client = server.connect();
        let request =
            [nothing, b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", nothing, b"PING\r\n", nothing].concat();
        let size = if in_pieces { 1 } else { request.len() };
        for piece in request.chunks(size) {
            client.send(piece);
        }
        assert_eq!(client.read(), Value::ok());
        assert_eq!(client.read(), Value::Simple(b"PONG".to_vec()));
        assert_eq!(client.call("ECHO end").text(), "end");
    }
    // Bytes after an empty request do not belong to it, and a request without a command name is
    // not an empty request.
    for line in ["*0\r\n$4\r\nPING\r\n", "*1\r\n$0\r\n\r\n", "*1\r\n$-1\r\n", "*2\r\n$0\r\n\r\n$0\r\n\r\n"] {
        let mut client = server.connect();
        client.send(line.as_bytes());
        client.send(&request("PING"));
        // An error or nothing, then the end of the connection or another error. In any case the
        // server keeps running.
        let _ = client.try_read();
        server.connect().ok("AUTH secret");
    }
}

/// CVE-2025-67733: a script's error or status is a single reply, whatever it contains.
#[test]
fn a_script_cannot_forge_replies() {
    let server = TestServer::start(&[]);
    let forged = "\r\n$6\r\nforged\r\n";
    let error = format!("ERR a\0b{forged}");
    for script in [
        "return redis.error_reply(ARGV[1])",
        "return {err = ARGV[1]}",
        "return redis.status_reply(ARGV[1])",
        "return {ok = ARGV[1]}",
        "error(ARGV[1])",
        "error({err = ARGV[1]})",
        "return redis.call(ARGV[1])",
        "return redis.call('set', 'k', 'v', ARGV[1])",
        "return redis.pcall(ARGV[1])",
        "return {{err = ARGV[1]}, {ok = ARGV[1]}}",
        "redis.setresp(3) return {double = ARGV[1]}",
        "redis.setresp(3) return {big_number = ARGV[1]}",
        "return redis.call('acl', 'dryrun', 'default', ARGV[1])",
        "return loadstring(ARGV[1])()",
        "return cjson.decode(ARGV[1])",
        "return struct.unpack(ARGV[1], '')",
    ] {
        for protocol in ["2", "3"] {
            let mut client = server.connect();
            client.call_arguments(&["HELLO", protocol]);
            client.send(&words::encode(&["EVAL", script, "0", &error]));
            client.send(&request("ECHO end"));
            let reply = client.read();
            assert_eq!(client.read().text(), "end", "{script} in RESP{protocol}: {reply}");
        }
    }
    // The same holds for names outside of scripts.
    let mut client = server.connect();
    for line in [
        &[&error[..]][..],
        &["CONFIG", &error],
        &["EVALSHA", &error, "0"],
        &["FCALL", &error, "0"],
        &["FUNCTION", "LOAD", &error],
        &["ACL", "SETUSER", "u", &error],
        &["CONFIG", "SET", &error, "1"],
        &["HELLO", &error],
        &["CLIENT", "SETNAME", &error],
    ] {
        client.send(&words::encode(line));
        client.send(&request("ECHO end"));
        let reply = client.read();
        assert_eq!(client.read().text(), "end", "{line:?}: {reply}");
    }
}

/// CVE-2026-23479: waiting clients are evicted for lack of memory at the moment they are served.
#[test]
fn blocked_clients_evicted_while_being_served_lose_no_elements() {
    const CLIENTS: usize = 24;
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut admin = server.connect();
    admin.ok("CLIENT NO-EVICT ON");
    let padding = "x".repeat(100_000);
    for round in 0..20 {
        admin.ok("CONFIG SET maxmemory-clients 0");
        let mut waiting: Vec<RawClient> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut waiting {
            // Both kinds of blocking pop: from several possible keys and from one.
            let line: &[&str] = match round % 2 {
                0 => &["BLMPOP", "0", "2", "list", &padding, "LEFT"],
                _ => &["BLPOP", "list", &padding, "0"],
            };
            client.send(&words::encode(line));
        }
        wait_for("all clients to block", || {
            admin.info_field("clients", "blocked_clients") == Some(CLIENTS.to_string())
        });
        let mut pipeline = request("CONFIG SET maxmemory-clients 1mb");
        for number in 0..CLIENTS {
            pipeline.extend_from_slice(&request(&format!("RPUSH list {number}")));
        }
        admin.send(&pipeline);
        assert_eq!(admin.read(), Value::ok());
        for _ in 0..CLIENTS {
            assert!(admin.read().integer().is_some());
        }
        admin.ok("CONFIG SET maxmemory-clients 0");
        // Each element is in exactly one place: with a client, in the list, or on its way to a
        // client that was closed.
        let mut served: Vec<String> = Vec::new();
        for client in &mut waiting {
            client.set_patience(Duration::from_millis(1)).expect("a socket");
            served.extend(client.try_read().ok().map(|reply| reply.to_string()));
        }
        let count = served.len();
        served.sort_unstable();
        served.dedup();
        assert_eq!(served.len(), count, "an element was given to two clients");
        let left = admin.call("LLEN list").integer().expect("a number");
        assert!(left as usize + count <= CLIENTS, "{left} in the list, {count} served");
        admin.call("DEL list");
    }
}
