// SPDX-License-Identifier: BSD-3-Clause
//! The HTTP port: metrics, health checks, and access control.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use braid_tests::server::{free_port, program_under_test};
use braid_tests::{TestServer, wait_for};

/// Starts a server with a metrics port, which another process might take in the meantime.
pub fn start(arguments: &[&str]) -> (TestServer, u16) {
    let port = free_port();
    let text = port.to_string();
    let arguments: Vec<&str> = ["--metrics-port", &text].iter().chain(arguments).copied().collect();
    (TestServer::start(&arguments), port)
}

/// A request's response: status, header, body.
fn ask(port: u16, request: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    socket.write_all(request.replace('\n', "\r\n").as_bytes()).expect("the request is sent");
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
fn metrics_endpoint_reflects_server_activity() {
    let (server, port) = start(&["--io-threads", "3"]);
    let mut client = server.connect();
    client.ok("SET k v");
    for _ in 0..5 {
        client.call("GET k");
    }
    client.call("INCR k");
    wait_for("the startup probe to disconnect", || {
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
    // A foreign page must not read this one through its visitor's browser.
    let foreign = "GET / HTTP/1.1\nHost: foreign.example\nConnection: close\n\n";
    assert_eq!(ask(port, foreign).0, 403);
}

#[test]
fn metrics_require_the_password_if_one_is_set() {
    let (server, port) = start(&["--requirepass", "open sesame"]);
    let (status, header, _) = get(port, "/metrics", "");
    assert_eq!(status, 401);
    assert!(header.contains("www-authenticate: basic realm="), "{header}");
    let with = |code: &str| get(port, "/metrics", &format!("Authorization: Basic {code}\n")).0;
    // Base64 of `:wrong`, `:open sesame` and `default:open sesame`.
    assert_eq!(with("Ondyb25n"), 401);
    assert_eq!(with("Om9wZW4gc2VzYW1l"), 200);
    assert_eq!(with("ZGVmYXVsdDpvcGVuIHNlc2FtZQ=="), 200);
    assert_eq!(with("nonsense"), 401);
    let mut client = server.connect();
    client.ok("AUTH \"open sesame\"");
    let log = client.call("ACL LOG 1").to_string();
    assert!(log.contains("cmd=http") && log.contains("auth"), "{log}");
    let denied = client.info_field("stats", "acl_access_denied_auth");
    assert_eq!(denied.as_deref(), Some("1"), "a malformed header was counted as a wrong password");
    // Users need the permission for INFO. Base64 of `a:x` and `b:x`.
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

/// Asserts that a request is answered without waiting for these connections.
fn assert_answered_despite(port: u16, others: &[TcpStream]) {
    let begin = Instant::now();
    assert_eq!(get(port, "/health", "").0, 200);
    // The server closes silent connections by itself after ten seconds.
    assert!(begin.elapsed() < Duration::from_secs(8), "{} others: {:?}", others.len(), begin.elapsed());
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    socket
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let (_server, port) = start(&[]);
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(port)).collect();
    assert_answered_despite(port, &silent);
}

#[test]
fn connections_kept_after_a_refusal_do_not_keep_others_out() {
    let (_server, port) = start(&["--requirepass", "sesame"]);
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut refused: Vec<TcpStream> = (0..40).map(|_| connect(port)).collect();
    let mut answers = 0;
    for socket in &mut refused {
        // Connections closed in favour of newer ones get no response.
        let _ = socket.write_all(request);
        let mut answer = Vec::new();
        // A refusal closes the connection: end of file comes immediately.
        let begin = Instant::now();
        let _ = socket.read_to_end(&mut answer);
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if !answer.is_empty() {
            assert!(answer.starts_with("http/1.1 401") && answer.contains("connection: close"), "{answer}");
            answers += 1;
        }
    }
    assert!(answers >= 16, "{answers}");
    assert_answered_despite(port, &refused);
}

#[test]
fn connections_that_read_nothing_do_not_keep_others_out() {
    let (_server, port) = start(&[]);
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let mut deaf: Vec<TcpStream> = (0..40).map(|_| connect(port)).collect();
    for socket in &mut deaf {
        let _ = socket.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = socket.write_all(&request);
    }
    assert_answered_despite(port, &deaf);
}

#[test]
fn a_connection_is_kept_for_the_next_scrape() {
    let (_server, port) = start(&[]);
    let mut socket = connect(port);
    for _ in 0..3 {
        socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the request is sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"{\"status\":\"ok\"}\n") {
            let mut bytes = [0; 1024];
            let count = socket.read(&mut bytes).expect("an answer");
            assert!(count > 0, "closed: {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&bytes[..count]);
        }
    }
}

#[test]
fn health_checks_need_no_password() {
    let (server, port) = start(&["--requirepass", "sesame"]);
    let (status, header, body) = get(port, "/health", "");
    assert_eq!((status, &*body), (200, "{\"status\":\"ok\"}\n"));
    assert!(header.contains("content-type: application/json"), "{header}");
    let (status, _, body) = get(port, "/ready", "");
    assert_eq!((status, &*body), (200, "{\"status\":\"ready\"}\n"));
    // Whatever name the probe uses for the server.
    let probe = "HEAD /ready HTTP/1.1\nHost: braid-0.braid.svc\nConnection: close\n\n";
    assert_eq!(ask(port, probe).0, 200);
    let post = "POST /health HTTP/1.1\nHost: localhost\nContent-Length: 0\nConnection: close\n\n";
    assert_eq!(ask(port, post).0, 401);
    let mut client = server.connect();
    client.ok("AUTH sesame");
    assert_eq!(client.info_field("stats", "acl_access_denied_auth").as_deref(), Some("0"));
}

#[test]
fn a_server_that_loads_is_healthy_but_not_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path");
    let (server, _) = start(&["--dir", dir, "--save", ""]);
    let mut client = server.connect();
    for number in 0..300 {
        client.ok(&format!("SET k{number} v"));
    }
    client.ok("SAVE");
    drop(server);
    // Ten milliseconds per key, so that the load can be observed.
    let port = free_port();
    let mut server = Process(
        Command::new(program_under_test())
            .args(["--port", &free_port().to_string(), "--metrics-port", &port.to_string()])
            .args(["--dir", dir, "--save", "", "--key-load-delay", "10000"])
            .args(["--loading-process-events-interval-bytes", "1024"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts"),
    );
    wait_for("the port to be open", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let (status, _, body) = get(port, "/ready", "");
    assert_eq!((status, &*body), (503, "{\"status\":\"loading\"}\n"));
    assert_eq!(get(port, "/health", "").0, 200);
    assert!(get(port, "/metrics", "").2.contains("\nbraid_loading 1\n"));
    wait_for("loading to finish", || get(port, "/ready", "").0 == 200);
    assert!(get(port, "/metrics", "").2.contains("\nbraid_keys{db=\"0\"} 300\n"));
    assert!(server.0.try_wait().expect("a child").is_none());
}

#[test]
fn a_replica_is_ready_once_it_has_data() {
    let primary = TestServer::start(&["--repl-diskless-sync-delay", "0"]);
    let nowhere = free_port().to_string();
    let (replica, port) = start(&["--replicaof", "127.0.0.1", &nowhere]);
    let readiness = || {
        let (status, _, body) = get(port, "/ready", "");
        (status, body)
    };
    assert_eq!(readiness(), (503, "{\"status\":\"no-data\"}\n".to_owned()));
    assert_eq!(get(port, "/health", "").0, 200);
    // Its primary is empty, so the replica has all data.
    let mut client = replica.connect();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    wait_for("the replica to be ready", || readiness().0 == 200);
    // The replica serves its data while the link is down, unless that is forbidden.
    client.ok(&format!("REPLICAOF 127.0.0.1 {nowhere}"));
    assert_eq!(readiness().0, 200);
    client.ok("CONFIG SET replica-serve-stale-data no");
    assert_eq!(readiness(), (503, "{\"status\":\"link-down\"}\n".to_owned()));
    client.ok("REPLICAOF NO ONE");
    assert_eq!(readiness().0, 200);
}

/// A process that is killed on drop, however the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn access_denials_are_exported_per_user() {
    let (server, port) = start(&[]);
    let mut client = server.connect();
    client.ok("ACL SETUSER app on >secret +@all -flushall ~app:*");
    let mut app = server.connect();
    app.call("AUTH app wrong");
    app.call("AUTH nobody wrong");
    app.ok("AUTH app secret");
    app.call("FLUSHALL");
    app.call("GET other:key");
    app.call("GET other:key");
    let body = get(port, "/metrics", "").2;
    let has = |line: &str| assert!(body.lines().any(|found| found == line), "no {line} in\n{body}");
    has("braid_user_access_denied_total{user=\"app\",reason=\"auth\"} 1");
    has("braid_user_access_denied_total{user=\"app\",reason=\"command\"} 1");
    has("braid_user_access_denied_total{user=\"app\",reason=\"key\"} 2");
    has("braid_access_denied_total{reason=\"auth\"} 2");
    assert!(!body.contains("nobody"), "an unknown user's name became a label");
    client.call("ACL DELUSER app");
    assert!(!get(port, "/metrics", "").2.contains("user=\"app\""));
}

#[test]
fn panels_require_permissions_for_their_commands() {
    let (server, port) = start(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect();
    client.ok("SET k \"two words\"");
    let log = get(port, "/slowlog", "");
    assert_eq!(log.0, 200);
    assert!(log.2.contains("\"args\":[\"SET\",\"k\",\"two words\"]"), "{}", log.2);
    wait_for("the key to be found", || get(port, "/bigkeys", "").2.contains("\"key\":\"k\""));
    client.ok("ACL SETUSER app on >x +info +slowlog +scan +memory|usage ~app:*");
    client.ok("ACL SETUSER default >y");
    client.ok("CONFIG SET requirepass y");
    let app = "Authorization: Basic YXBwOng=\n";
    assert_eq!(get(port, "/bigkeys", "").0, 401);
    assert_eq!(get(port, "/slowlog", app).0, 200);
    assert_eq!(get(port, "/bigkeys", app).0, 403, "the user may not access all keys");
    client.ok("AUTH y");
    client.ok("ACL SETUSER app ~* -slowlog");
    assert_eq!((get(port, "/slowlog", app).0, get(port, "/bigkeys", app).0), (403, 200));
    assert_eq!(get(port, "/metrics", app).0, 200);
}

#[test]
fn replication_links_are_reported_in_both_roles() {
    let (server, port) = start(&["--repl-diskless-sync-delay", "0"]);
    let (replica, its) = start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    server.connect().ok("SET k v");
    let primary = format!("127.0.0.1:{}", server.port());
    let address = format!("127.0.0.1:{}", replica.port());
    wait_for("the link to be up", || {
        get(its, "/metrics", "").2.contains(&format!("braid_primary_link_up{{primary=\"{primary}\"}} 1\n"))
    });
    wait_for("the replica to catch up", || {
        let body = get(port, "/metrics", "").2;
        let is_told =
            |name: &str, value: &str| body.contains(&format!("{name}{{replica=\"{address}\"}} {value}\n"));
        is_told("braid_replica_online", "1")
            && is_told("braid_replica_lag_bytes", "0")
            && is_told("braid_replica_delay_seconds", "0")
    });
    let body = get(its, "/metrics", "").2;
    let has = |line: &str| assert!(body.contains(line), "{line} is missing in {body}");
    has("braid_is_replica 1\n");
    for name in ["braid_primary_link_up", "braid_primary_last_io_seconds", "braid_primary_sync_in_progress"] {
        has(&format!("{name}{{primary=\"{primary}\"}} "));
    }
    has(&format!("braid_primary_link_up{{primary=\"{primary}\"}} 1\n"));
    assert!(!body.contains("braid_replication_received_bytes_total 0\n"), "{body}");
    let panel = get(its, "/replication", "").2;
    assert!(panel.contains("\"role\":\"replica\""), "{panel}");
    assert!(panel.contains(&format!("\"address\":\"{primary}\"")), "{panel}");
    assert!(panel.contains("\"state\":\"connected\""), "{panel}");
    let panel = get(port, "/replication", "").2;
    assert!(panel.contains("\"role\":\"primary\"") && panel.contains(&address), "{panel}");
}

#[test]
fn metrics_include_active_active_peers() {
    let (one, its) = start(&["--active-replica", "yes", "--active-region", "7"]);
    let (two, other) = start(&["--active-replica", "yes", "--active-region", "8"]);
    two.connect().ok(&format!("CONFIG SET active-peers \"127.0.0.1:{},127.0.0.1:1\"", one.port()));
    one.connect().ok("SET k v");
    let peer = format!("{{peer=\"127.0.0.1:{}\",peer_region=\"7\"}}", one.port());
    let mut body = String::new();
    wait_for("the unit to arrive", || {
        body = get(other, "/metrics", "").2;
        body.contains(&format!("braid_active_peer_received_units_total{peer} 1\n"))
            && body.contains(&format!("braid_active_peer_up{peer} 1\n"))
    });
    let has = |line: &str| assert!(body.contains(line), "{line} is missing in {body}");
    has(&format!("braid_active_peer_up{peer} 1\n"));
    has(&format!("braid_active_peer_lag_seconds{peer} "));
    // A peer that was never reached.
    has("braid_active_peer_up{peer=\"127.0.0.1:1\",peer_region=\"\"} 0\n");
    has("braid_active_merged_units_total{region=\"8\"} 1\n");
    has("braid_active_files_ok{region=\"8\"} 1\n");
    let body = get(its, "/metrics", "").2;
    assert!(body.contains("braid_active_own_units_total{region=\"7\"} 1\n"), "{body}");
    let panel = get(other, "/replication", "").2;
    for part in ["\"region\":8", "\"merged\":1", &format!("\"address\":\"127.0.0.1:{}\"", one.port())] {
        assert!(panel.contains(part), "{part} is missing in {panel}");
    }
    let (_plain, port) = start(&[]);
    assert!(get(port, "/replication", "").2.contains("\"active\":null"));
    assert!(
        !get(port, "/metrics", "").2.contains("\nbraid_active_"),
        "active-active metrics outside active mode"
    );
}
