// SPDX-License-Identifier: BSD-3-Clause
//! Where the server listens: several addresses, IPv6, a unix socket; and which clients it
//! accepts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, wait_for};

fn pings(address: SocketAddr) -> Option<String> {
    let mut client = RawClient::tcp(address).ok()?;
    client.try_send(b"PING\r\n").ok()?;
    client.try_read().ok().map(|reply| reply.text())
}

#[test]
fn a_unix_socket_serves_like_tcp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("socket");
    let text = path.to_str().expect("a plain path");
    let server = TestServer::start(&["--unixsocket", text, "--unixsocketperm", "700"]);
    wait_for("the unix socket", || path.exists());
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "permissions {mode:o}");
    let mut client = RawClient::unix(&path).expect("the socket accepts");
    client.ok("SET k v");
    assert_eq!(server.connect().call("GET k"), Value::bulk("v"));
    let value = vec![b'u'; 300_000];
    assert_eq!(client.call_arguments(&[b"SET", &b"big"[..], &value]), Value::ok());
    assert_eq!(client.call("GET big"), Value::Bulk(value));
    let list = client.call("CLIENT LIST").text();
    assert!(list.contains(&format!("addr={text}:0")), "{list}");
}

#[test]
fn a_unix_socket_belongs_to_the_group_that_is_set() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("socket");
    let text = path.to_str().expect("a plain path");
    // Only the administrator may choose a group without being in it.
    let own = std::fs::metadata(folder.path()).expect("the folder").gid();
    let is_root = std::fs::metadata(folder.path()).expect("the folder").uid() == 0;
    let group = if is_root { own + 1 } else { own };
    let server = TestServer::start(&["--unixsocket", text, "--unixsocketgroup", &group.to_string()]);
    if server.is_braid() {
        assert_eq!(std::fs::metadata(&path).expect("the socket").gid(), group);
    }
}

#[test]
fn several_addresses_are_served() {
    let server = TestServer::start_with(Options {
        arguments: ["--bind", "127.0.0.1", "127.0.0.2"].map(str::to_owned).to_vec(),
        no_bind: true,
        ..Options::default()
    });
    assert_eq!(pings(server.address()).as_deref(), Some("PONG"));
    let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), server.port()));
    assert_eq!(pings(second).as_deref(), Some("PONG"));
    let third = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 3), server.port()));
    assert_eq!(pings(third), None, "nothing listens there");
}

#[test]
fn ipv6_is_served() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let server = TestServer::start_with(Options {
        arguments: ["--bind", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
        no_bind: true,
        ..Options::default()
    });
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port()));
    assert_eq!(pings(address).as_deref(), Some("PONG"));
    let mut client = RawClient::tcp(address).expect("it accepts");
    let list = client.call("CLIENT LIST").text();
    assert!(list.contains("addr=[::1]:"), "{list}");
}

#[test]
fn an_optional_address_that_cannot_be_bound_is_left_out() {
    // 192.0.2.0/24 is reserved for documentation: no machine has it.
    let server = TestServer::start_with(Options {
        arguments: ["--bind", "127.0.0.1", "-192.0.2.1"].map(str::to_owned).to_vec(),
        no_bind: true,
        ..Options::default()
    });
    assert_eq!(pings(server.address()).as_deref(), Some("PONG"));
}

/// A non-loopback address of this machine, found without sending anything.
fn outer_address() -> Option<Ipv4Addr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V4(address) if !address.ip().is_loopback() && !address.ip().is_unspecified() => {
            Some(*address.ip())
        }
        _ => None,
    }
}

#[test]
fn protected_mode_lets_in_only_this_machine() {
    let Some(outer) = outer_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let open = |arguments: &[&str]| {
        TestServer::start_with(Options {
            arguments: [&["--bind", "0.0.0.0"], arguments]
                .concat()
                .iter()
                .map(|&text| text.to_owned())
                .collect(),
            no_bind: true,
            ..Options::default()
        })
    };
    let server = open(&[]);
    assert_eq!(pings(server.address()).as_deref(), Some("PONG"));
    let mut refused = RawClient::tcp(SocketAddr::from((outer, server.port()))).expect("it accepts");
    let text = refused.read_to_close().expect("it is closed");
    assert!(text.starts_with(b"-DENIED "), "{}", String::from_utf8_lossy(&text));
    let server = open(&["--protected-mode", "no"]);
    assert_eq!(pings(SocketAddr::from((outer, server.port()))).as_deref(), Some("PONG"));
    let server = open(&["--requirepass", "secret"]);
    let asked = pings(SocketAddr::from((outer, server.port()))).expect("an answer");
    assert!(asked.starts_with("NOAUTH"), "{asked}");
}

#[test]
fn port_and_addresses_change_while_the_server_runs() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let port = braid_tests::server::free_port();
    let at = |last: u8, port: u16| pings(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port)));
    client.ok(&format!("CONFIG SET port {port}"));
    wait_for("the new port to be served", || at(1, port).as_deref() == Some("PONG"));
    assert_eq!(at(1, server.port()), None, "the old port is closed");
    client.ok("CONFIG SET bind \"127.0.0.1 127.0.0.2\"");
    wait_for("the second address to be served", || at(2, port).as_deref() == Some("PONG"));
    assert_eq!(at(1, port).as_deref(), Some("PONG"));
    // A failed attempt to listen changes nothing.
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let taken_port = taken.local_addr().expect("an address").port();
    assert!(client.call(&format!("CONFIG SET port {taken_port}")).is_error());
    assert_eq!(client.call("CONFIG GET port").elements().expect("a pair")[1], Value::bulk(port.to_string()));
    wait_for("the port to be served again", || at(1, port).as_deref() == Some("PONG"));
    assert_eq!(client.call("PING").text(), "PONG", "connections stay open");
}
