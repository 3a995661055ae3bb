//! The HTTP port: figures, and who may see them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use braid_tests::server::free_port;
use braid_tests::{TestServer, wait_for};

/// A server with the port, which another process might have taken in between.
pub fn start(arguments: &[&str]) -> (TestServer, u16) {
    let port = free_port();
    let text = port.to_string();
    let arguments: Vec<&str> = ["--metrics-port", &text].iter().chain(arguments).copied().collect();
    (TestServer::start(&arguments), port)
}

/// The answer to a request: status, header, body.
fn ask(port: u16, request: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    socket.write_all(request.replace('\n', "\r\n").as_bytes()).expect("it is read");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers and closes");
    let (header, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no header: {answer}"));
    let status = header.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, header.to_ascii_lowercase(), body.to_owned())
}

fn get(port: u16, path: &str, more: &str) -> (u16, String, String) {
    ask(port, &format!("GET {path} HTTP/1.1\nHost: localhost:{port}\nConnection: close\n{more}\n"))
}

#[test]
fn figures_follow_what_happens() {
    let (server, port) = start(&["--io-threads", "3"]);
    let mut client = server.connect();
    client.ok("SET k v");
    for _ in 0..5 {
        client.call("GET k");
    }
    client.call("INCR k");
    wait_for("the connection that found the server up to be gone", || {
        client.info_field("clients", "connected_clients").as_deref() == Some("1")
    });
    let (status, header, body) = get(port, "/metrics", "");
    assert_eq!(status, 200);
    assert!(header.contains("content-type: text/plain; version=0.0.4"), "{header}");
    let has = |line: &str| assert!(body.lines().any(|found| found == line), "no {line} in\n{body}");
    has("braid_command_calls_total{command=\"get\"} 5");
    has("braid_command_failed_total{command=\"incr\"} 1");
    has("braid_command_duration_seconds_count{command=\"get\"} 5");
    has("braid_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"} 5");
    has("braid_keys{db=\"0\"} 1");
    has("braid_clients 1");
    has("# TYPE braid_thread_cpu_seconds_total counter");
    assert_eq!(body.matches("\nbraid_thread_busy_seconds_total{thread=").count(), 3);
    assert_eq!(get(port, "/nosuch", "").0, 404);
    let head = ask(port, "HEAD /metrics HTTP/1.1\nHost: localhost\nConnection: close\n\n");
    assert_eq!((head.0, &*head.2), (200, ""));
    let post = "POST / HTTP/1.1\nHost: localhost\nConnection: close\nContent-Length: 0\n\n";
    assert_eq!(ask(port, post).0, 405);
    // A page elsewhere cannot have its reader's browser look.
    let foreign = "GET / HTTP/1.1\nHost: foreign.example\nConnection: close\n\n";
    assert_eq!(ask(port, foreign).0, 403);
}

#[test]
fn a_password_is_asked_for_when_there_is_one() {
    let (server, port) = start(&["--requirepass", "open sesame"]);
    let (status, header, _) = get(port, "/metrics", "");
    assert_eq!(status, 401);
    assert!(header.contains("www-authenticate: basic realm="), "{header}");
    let with = |code: &str| get(port, "/metrics", &format!("Authorization: Basic {code}\n")).0;
    // :wrong, :open sesame, default:open sesame
    assert_eq!(with("Ondyb25n"), 401);
    assert_eq!(with("Om9wZW4gc2VzYW1l"), 200);
    assert_eq!(with("ZGVmYXVsdDpvcGVuIHNlc2FtZQ=="), 200);
    assert_eq!(with("nonsense"), 401);
    let mut client = server.connect();
    client.ok("AUTH \"open sesame\"");
    let log = client.call("ACL LOG 1").to_string();
    assert!(log.contains("cmd=http") && log.contains("auth"), "{log}");
    let denied = client.info_field("stats", "acl_access_denied_auth");
    assert_eq!(denied.as_deref(), Some("1"), "a header without name and password is not a wrong one");
    // Users have to be allowed INFO: a:x, b:x.
    client.ok("ACL SETUSER a on >x +get");
    client.ok("ACL SETUSER b on >x +info");
    assert_eq!(with("YTp4"), 403);
    assert_eq!(with("Yjp4"), 200);
    client.ok("CONFIG SET requirepass \"\"");
    assert_eq!(get(port, "/", "").0, 200);
}

#[test]
fn it_is_off_unless_asked_for_and_only_for_this_machine() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("CONFIG GET metrics-port").to_string(), "[\"metrics-port\", \"0\"]");
    assert_eq!(client.call("CONFIG GET metrics-bind").to_string(), "[\"metrics-bind\", \"127.0.0.1\"]");
}

#[test]
fn silent_connections_are_closed_and_do_not_keep_others_out() {
    let (_server, port) = start(&[]);
    let idle: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("the port is open")).collect();
    // More than are served at once: the next one waits until these are given up.
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    socket.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(idle);
}
