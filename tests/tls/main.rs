// SPDX-License-Identifier: BSD-3-Clause
//! TLS as clients see it: handshakes, pipelines of all sizes, certificates replaced while clients
//! are connected.

mod certificate_users;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use braid_tests::certificates::{certificates, client_config};
use braid_tests::server::TestServer;
use braid_tests::words::encode;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

type Client = StreamOwned<ClientConnection, TcpStream>;

/// Starts a server with TLS on a separate port; returns both.
fn start(folder: &Path, more: &[&str]) -> (TestServer, u16) {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let port = braid_tests::server::free_port().to_string();
    let (certificate, key, authority) = (file("server.pem"), file("server.key"), file("ca.pem"));
    let mut arguments = vec!["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    arguments.extend(["--tls-ca-cert-file", &authority]);
    arguments.extend(more);
    let server = TestServer::start(&arguments);
    let port = port.parse().unwrap();
    (server, port)
}

fn connect(port: u16, config: &Arc<ClientConfig>) -> Client {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket)
}

fn ask(client: &mut Client, request: &[u8], reply: &[u8]) -> std::io::Result<()> {
    client.write_all(request)?;
    client.flush()?;
    let mut answer = vec![0; reply.len()];
    client.read_exact(&mut answer)?;
    assert_eq!(String::from_utf8_lossy(&answer), String::from_utf8_lossy(reply));
    Ok(())
}

fn set_request(key: &str, value: &[u8]) -> Vec<u8> {
    let mut request =
        format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len()).into_bytes();
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    request
}

#[test]
fn values_of_all_sizes_travel() {
    let folder = certificates();
    let (_server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    let mut client = connect(port, &client_config(folder.path(), None));
    // Around the sizes of a TLS record, of a single receive, and of an argument with an
    // allocation of its own.
    for size in [0, 1, 100, 16_383, 16_384, 16_385, 32_700, 32_768, 40_000, 70_000, 1_000_000, 5_000_000] {
        let value: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        ask(&mut client, &set_request("key", &value), b"+OK\r\n").unwrap();
        let reply = [format!("${size}\r\n").as_bytes(), &value, b"\r\n"].concat();
        client.write_all(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n").unwrap();
        let mut answer = vec![0; reply.len()];
        client.read_exact(&mut answer).unwrap();
        assert!(answer == reply, "a value of {size} bytes was altered");
    }
}

#[test]
fn a_pipeline_is_answered_without_another_word() {
    let folder = certificates();
    let (_server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    let mut client = connect(port, &client_config(folder.path(), None));
    // More than a single receive holds: decrypted bytes must be served without another event on
    // the socket.
    for count in [1, 10, 1_000, 20_000] {
        let request = b"*1\r\n$4\r\nPING\r\n".repeat(count);
        let reply = b"+PONG\r\n".repeat(count);
        ask(&mut client, &request, &reply).unwrap();
    }
    // With a big argument in the middle.
    let big = vec![b'x'; 100_000];
    let mut request = b"*1\r\n$4\r\nPING\r\n".repeat(100);
    request.extend(set_request("big", &big));
    request.extend(b"*2\r\n$6\r\nSTRLEN\r\n$3\r\nbig\r\n".repeat(100));
    let mut reply = b"+PONG\r\n".repeat(100);
    reply.extend(b"+OK\r\n");
    reply.extend(b":100000\r\n".repeat(100));
    ask(&mut client, &request, &reply).unwrap();
}

#[test]
fn certificates_of_clients_are_asked_for_by_default() {
    let folder = certificates();
    let (server, port) = start(folder.path(), &[]);
    ask(&mut connect(port, &client_config(folder.path(), Some(folder.path()))), b"PING\r\n", b"+PONG\r\n")
        .unwrap();
    assert!(ask(&mut connect(port, &client_config(folder.path(), None)), b"PING\r\n", b"+PONG\r\n").is_err());
    let mut plain = server.connect();
    plain.ok("CONFIG SET tls-auth-clients optional");
    ask(&mut connect(port, &client_config(folder.path(), None)), b"PING\r\n", b"+PONG\r\n").unwrap();
}

#[test]
fn certificates_are_exchanged_under_connected_clients() {
    let (folder, other) = (certificates(), certificates());
    let (server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    let mut old = connect(port, &client_config(folder.path(), None));
    ask(&mut old, b"PING\r\n", b"+PONG\r\n").unwrap();
    let mut plain = server.connect();
    let file = |name: &str| other.path().join(name).to_str().unwrap().to_owned();
    // A key without its certificate is refused, and nothing changes.
    let refused = plain.call_arguments(&["CONFIG", "SET", "tls-key-file", &file("server.key")]).text();
    assert!(refused.contains("Unable to update TLS configuration"), "{refused}");
    ask(&mut connect(port, &client_config(folder.path(), None)), b"PING\r\n", b"+PONG\r\n").unwrap();
    let both = ["CONFIG", "SET", "tls-key-file", &file("server.key"), "tls-cert-file", &file("server.pem")];
    assert_eq!(plain.call_arguments(&both).text(), "OK");
    ask(&mut connect(port, &client_config(other.path(), None)), b"PING\r\n", b"+PONG\r\n").unwrap();
    assert!(ask(&mut connect(port, &client_config(folder.path(), None)), b"PING\r\n", b"+PONG\r\n").is_err());
    ask(&mut old, b"PING\r\n", b"+PONG\r\n").unwrap();
}

#[test]
fn changed_certificate_files_are_reloaded() {
    let (folder, other) = (certificates(), certificates());
    let (server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    let config = |authority: &Path| client_config(authority, None);
    let (old, new) = (config(folder.path()), config(other.path()));
    let mut connected = connect(port, &old);
    ask(&mut connected, b"PING\r\n", b"+PONG\r\n").unwrap();
    server.connect().ok("CONFIG SET tls-auto-reload-interval 1");
    let replace =
        |name: &str| std::fs::copy(other.path().join(name), folder.path().join(name)).expect("a copy");
    // A certificate without its key is reported, and the former one stays in use.
    replace("server.pem");
    let is_reported = || server.log().contains("Changed TLS certificates cannot be used yet");
    braid_tests::wait_for("the report", is_reported);
    ask(&mut connect(port, &old), b"PING\r\n", b"+PONG\r\n").unwrap();
    replace("server.key");
    braid_tests::wait_for("the new certificate", || {
        ask(&mut connect(port, &new), b"PING\r\n", b"+PONG\r\n").is_ok()
    });
    assert!(ask(&mut connect(port, &old), b"PING\r\n", b"+PONG\r\n").is_err());
    ask(&mut connected, b"PING\r\n", b"+PONG\r\n").unwrap();
}

#[test]
fn invalid_tls_handshakes_affect_no_other_client() {
    let folder = certificates();
    let (server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    for nonsense in [&b"PING\r\n"[..], &[0x16, 3, 1, 0xFF, 0xFF], &[0; 20_000], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(nonsense).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        // An alert or nothing, then end of file.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    // A handshake that is abandoned half-way.
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    drop(socket);
    ask(&mut connect(port, &client_config(folder.path(), None)), b"PING\r\n", b"+PONG\r\n").unwrap();
    assert_eq!(server.connect().call("PING").text(), "PONG");
}

#[test]
fn tls_connections_survive_thread_count_changes() {
    let folder = certificates();
    for model in ["parallel", "handoff", "hybrid", "fanout"] {
        let more = ["--tls-auth-clients", "no", "--io-threads", "1", "--threading-model", model];
        let (server, port) = start(folder.path(), &more);
        if !server.is_braid() {
            return;
        }
        let mut clients: Vec<Client> =
            (0..3).map(|_| connect(port, &client_config(folder.path(), None))).collect();
        // Throughout, one client is in the middle of a request.
        let mut half = connect(port, &client_config(folder.path(), None));
        ask(&mut half, b"PING\r\n*2\r\n$4\r\nECHO\r\n$4\r\nha", b"+PONG\r\n").unwrap();
        let mut plain = server.connect();
        // More than a single receive holds: decrypted bytes are pending when the connection moves
        // to another thread.
        let request = [b"*1\r\n$4\r\nPING\r\n".repeat(6_000), set_request("big", &[b'x'; 60_000])].concat();
        let reply = [b"+PONG\r\n".repeat(6_000), b"+OK\r\n".to_vec()].concat();
        std::thread::scope(|scope| {
            let asking: Vec<_> = clients
                .iter_mut()
                .map(|client| scope.spawn(|| (0..20).for_each(|_| ask(client, &request, &reply).unwrap())))
                .collect();
            while asking.iter().any(|thread| !thread.is_finished()) {
                for count in [3, 1, 2, 4, 1] {
                    plain.ok(&format!("CONFIG SET io-threads {count}"));
                    braid_tests::wait_for("the thread count", || {
                        plain.info_field("threads", "io_threads") == Some(count.to_string())
                    });
                }
            }
        });
        ask(&mut half, b"lf\r\n", b"$4\r\nhalf\r\n").unwrap();
    }
}

/// CVE-2026-56684: connections are killed while requests and replies are pending in their TLS
/// layer.
#[test]
fn server_survives_killing_busy_tls_connections() {
    let folder = certificates();
    let (server, port) = start(folder.path(), &["--tls-auth-clients", "no", "--io-threads", "2"]);
    let mut admin = server.connect();
    let config = client_config(folder.path(), None);
    let value = vec![b'x'; 300_000];
    let mut first = connect(port, &config);
    ask(&mut first, &set_request("key", &value), b"+OK\r\n").unwrap();
    for round in 0..10 {
        let mut clients: Vec<Client> = (0..8).map(|_| connect(port, &config)).collect();
        for client in &mut clients {
            ask(client, b"PING\r\n", b"+PONG\r\n").unwrap();
            // More than one read takes, and replies that are never read; the last request is
            // incomplete.
            let pipeline = [
                b"GET key\r\n".repeat(20),
                b"*2\r\n$4\r\nECHO\r\n$100000\r\n".to_vec(),
                value[..50_000].to_vec(),
            ]
            .concat();
            client.sock.set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
            let _ = client.write_all(&pipeline);
        }
        // One of the clients kills its own connection in a pipeline.
        let _ = clients[0].write_all(b"CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n");
        let line = if round % 2 == 0 { "CLIENT KILL TYPE normal" } else { "CLIENT KILL MAXAGE 0" };
        admin.call(line);
        drop(clients);
        if admin.try_send(b"PING\r\n").is_err() || admin.try_read().is_err() {
            admin = server.connect();
        }
        assert_eq!(admin.call("PING").text(), "PONG");
    }
    let mut last = connect(port, &config);
    ask(&mut last, b"STRLEN key\r\n", b":300000\r\n").unwrap();
}

/// With `tls-cluster`, MIGRATE uses TLS and presents the client certificate that the target
/// requires.
/// The connection leaves its loop, with the state of TLS.
#[test]
fn scripts_are_debugged_over_tls() {
    let folder = certificates();
    let (_server, port) = start(folder.path(), &["--tls-auth-clients", "no"]);
    for mode in ["yes", "sync"] {
        let mut client = connect(port, &client_config(folder.path(), None));
        let debug = encode(&["SCRIPT", "DEBUG", mode]);
        ask(&mut client, &debug, b"+OK\r\n").unwrap();
        let script = encode(&["EVAL", "local a = ARGV[1]\nreturn a", "0", &"x".repeat(100_000)]);
        let stopped = b"*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   local a = ARGV[1]\r\n";
        ask(&mut client, &script, stopped).unwrap();
        let unlimited = b"*1\r\n+<value> replies are unlimited.\r\n";
        ask(&mut client, &encode(&["maxlen", "0"]), unlimited).unwrap();
        let value = format!("*1\r\n+<value> {{\"{}\"}}\r\n", "x".repeat(100_000));
        ask(&mut client, &encode(&["print", "ARGV"]), value.as_bytes()).unwrap();
        let reply = format!("*1\r\n+<endsession>\r\n$100000\r\n{}\r\n", "x".repeat(100_000));
        ask(&mut client, &encode(&["continue"]), reply.as_bytes()).unwrap();
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "the connection is closed");
    }
}

#[test]
fn keys_are_moved_over_tls() {
    let folder = certificates();
    let (from, _) = start(folder.path(), &[]);
    let (to, port) = start(folder.path(), &[]);
    let (mut client, mut there) = (from.connect(), to.connect());
    client.ok("SET k v");
    let migrate = format!("MIGRATE localhost {port} \"\" 0 5000 KEYS k long");
    assert_eq!(client.call(&migrate).text(), "IOERR error or timeout reading to target instance");
    client.ok("CONFIG SET tls-cluster yes");
    client.call("SETRANGE long 2999999 x");
    client.ok(&migrate);
    assert_eq!(client.call("EXISTS k long").integer(), Some(0));
    assert_eq!(there.call("GET k").text(), "v");
    assert_eq!(there.call("STRLEN long").integer(), Some(3_000_000));
}
