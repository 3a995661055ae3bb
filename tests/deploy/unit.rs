// SPDX-License-Identifier: BSD-3-Clause
//! The server under the restrictions of `deploy/braid.service`, which `tests/deploy/confine`
//! applies as systemd does. A refused system call kills the server here, so a server that exits
//! normally has made none.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use braid_tests::certificates::{certificates, client_config};
use braid_tests::server::{Options, free_port, is_braid, program_under_test, stock};
use braid_tests::{RawClient, TestServer, request, wait_for};
use rustix::process::Signal;

use crate::{deploy, is_there, root, runs};

/// True if units can be parsed and filters installed on this machine.
fn can_confine(test: &str) -> bool {
    is_braid()
        && is_there(test, "python3-seccomp", runs("/usr/bin/python3", &["-c", "import seccomp"]))
        && is_there(test, "systemd-analyze", runs("systemd-analyze", &["--version"]))
}

/// The server under the unit's restrictions; a refused system call kills it.
fn confined(arguments: &[&str]) -> TestServer {
    let server = TestServer::start_with(Options {
        program: Some(root().join("tests/deploy/braid-server-confined")),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        environment: vec![("BRAID_CONFINED", program_under_test().into())],
        ..Options::default()
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("it runs");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    assert_eq!(field("Seccomp"), Some("2"), "the filter is installed");
    assert_eq!(field("NoNewPrivs"), Some("1"));
    assert_eq!(field("CapEff"), Some("0000000000000000"));
    server
}

/// Shuts down a server that must still be running.
fn end(mut server: TestServer) {
    server.signal(Signal::TERM);
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status}; its log:\n{}", server.log());
}

/// Runs a program under the unit's restrictions and returns its output.
fn run_confined(program: &[&str]) -> String {
    let output = Command::new(root().join("tests/deploy/confine"))
        .arg(deploy("braid.service"))
        .args(program)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program:?}: {}\n{text}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn systemd_unit_denies_unneeded_system_calls_with_an_error() {
    if !can_confine("the_unit_refuses") {
        return;
    }
    let program = r#"
import ctypes, errno, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def number(work):
    try:
        result = work()
        return errno.errorcode[ctypes.get_errno()] if result == -1 else "OK"
    except OSError as error:
        return errno.errorcode[error.errno]
print("setpriority", number(lambda: libc.setpriority(0, 0, 5)))
print("namespace", number(lambda: libc.unshare(0x10000000)))
print("packets", number(lambda: socket.socket(17, socket.SOCK_RAW)))
print("mmap", number(lambda: mmap.mmap(-1, 4096, prot=7)))
print("suid", number(lambda: os.chmod(os.devnull, 0o4755)))
print("network", number(lambda: socket.socket()))
print("affinity", number(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))))
"#;
    let text = run_confined(&["/usr/bin/python3", "-c", program]);
    let expected = "setpriority EPERM\nnamespace EPERM\npackets EAFNOSUPPORT\nmmap EPERM\nsuid EPERM\nnetwork OK\naffinity OK\n";
    assert_eq!(text, expected);
    if rustix::process::geteuid().is_root() {
        let text =
            run_confined(&["/bin/sh", "-c", "touch /etc/braid-test 2>&1; test ! -e /dev/mem && echo gone"]);
        assert!(text.contains("Read-only file system") && text.ends_with("gone\n"), "{text}");
    }
}

#[test]
fn everything_about_data_works_under_the_unit() {
    if !can_confine("everything_about_data") {
        return;
    }
    let server =
        confined(&["--io-threads", "3", "--repl-diskless-sync-delay", "0", "--appendfsync", "always"]);
    let mut client = server.connect();
    for number in 0..2_000 {
        client.ok(&format!("SET key:{number} {}", "v".repeat(100)));
    }
    client.ok("SAVE");
    let done = |client: &mut RawClient, section: &str, field: &str| {
        wait_for(field, || client.info_field(section, field).as_deref() == Some("0"));
    };
    assert_eq!(client.call("BGSAVE").text(), "Background saving started");
    done(&mut client, "persistence", "rdb_bgsave_in_progress");
    assert_eq!(client.info_field("persistence", "rdb_last_bgsave_status").as_deref(), Some("ok"));
    client.ok("CONFIG SET appendonly yes");
    done(&mut client, "persistence", "aof_rewrite_in_progress");
    for _ in 0..100 {
        client.call("INCR n");
    }
    assert_eq!(client.call("BGREWRITEAOF").text(), "Background append only file rewriting started");
    done(&mut client, "persistence", "aof_rewrite_in_progress");
    assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
    assert_eq!(client.info_field("persistence", "aof_last_write_status").as_deref(), Some("ok"));
    if let Some(peer) = stock() {
        for streamed in ["yes", "no"] {
            client.ok(&format!("CONFIG SET repl-diskless-sync {streamed}"));
            let port = server.port().to_string();
            let replica = TestServer::start_program(&peer.program, &["--replicaof", "127.0.0.1", &port]);
            let mut its = replica.connect();
            wait_for("the replica is in sync", || its.call("GET n").text() == "100");
        }
    }
    client.ok("CONFIG SET save \"1 1\"");
    client.call("FLUSHALL");
    client.ok("SET last one");
    client.send(&request("SHUTDOWN SAVE"));
    assert!(client.read_to_close().is_some());
    let mut server = server;
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());

    // Another server loads its data.
    let folder = server.directory().to_str().expect("a name").to_owned();
    let again = confined(&["--appendonly", "yes", "--dir", &folder]);
    assert_eq!(again.connect().call("GET last").text(), "one");
    end(again);
}

#[test]
fn settings_and_scripts_work_under_the_unit() {
    if !can_confine("settings_and_scripts") {
        return;
    }
    let metrics = free_port();
    let socket = tempfile::tempdir().expect("a folder");
    let configuration = socket.path().join("braid.conf");
    std::fs::write(&configuration, "io-threads 2\n").expect("a file");
    let server = TestServer::start_with(Options {
        program: Some(root().join("tests/deploy/braid-server-confined")),
        config_file: Some(configuration),
        arguments: [
            "--metrics-port",
            &metrics.to_string(),
            "--server_cpulist",
            "0",
            "--unixsocket",
            "braid.sock",
        ]
        .map(str::to_owned)
        .to_vec(),
        environment: vec![("BRAID_CONFINED", program_under_test().into())],
        ..Options::default()
    });
    let mut client = server.connect();
    for (name, value) in [
        ("io-threads", "4"),
        ("io-threads", "1"),
        ("maxclients", "20000"),
        ("maxmemory", "100mb"),
        ("hz", "100"),
        ("watchdog-period", "100"),
        ("activedefrag", "yes"),
        ("notify-keyspace-events", "KEA"),
    ] {
        let reply = client.call(&format!("CONFIG SET {name} {value}"));
        assert!(reply.text() == "OK" || name == "maxclients", "{name}: {reply:?}");
    }
    assert_eq!(client.call("EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 k").text(), "OK");
    assert_eq!(
        client
            .call("FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 7 end)\"")
            .text(),
        "l"
    );
    assert_eq!(client.call("FCALL f 0"), braid_tests::Value::Integer(7));
    client.ok("CONFIG REWRITE");
    client.call("CLIENT LIST");
    client.call("INFO everything");
    client.call("MEMORY PURGE");
    client.call("LATENCY DOCTOR");
    let mut by_path = RawClient::unix(&server.directory().join("braid.sock")).expect("it listens");
    assert_eq!(by_path.call("PING").text(), "PONG");
    let mut page = RawClient::tcp(([127, 0, 0, 1], metrics).into()).expect("it listens");
    page.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let figures = page.read_to_close().expect("it answers and closes");
    assert!(figures.starts_with(b"HTTP/1.1 200"), "{}", figures.escape_ascii());
    end(server);
}

#[test]
fn tls_works_under_the_unit() {
    if !can_confine("tls_works") {
        return;
    }
    let folder = certificates();
    let file = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let port = free_port();
    let server = confined(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-auth-clients",
        "no",
    ]);
    let config = client_config(folder.path(), None);
    let name = "localhost".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(config, name).expect("settings");
    let socket = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut client = rustls::StreamOwned::new(connection, socket);
    std::io::Write::write_all(&mut client, b"PING\r\n").expect("the server reads it");
    let mut reply = [0; 7];
    std::io::Read::read_exact(&mut client, &mut reply).expect("it answers");
    assert_eq!(&reply, b"+PONG\r\n");
    server.connect().ok(&format!("CONFIG SET tls-cert-file {}", file("server.pem")));
    end(server);
}

#[test]
fn crashes_are_reported_under_the_unit() {
    if !can_confine("crashes_are_reported") {
        return;
    }
    let mut server = confined(&["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.send(&request("DEBUG SEGFAULT"));
    assert!(client.read_to_close().is_some());
    // Not SIGSYS, the signal of a refused call.
    assert_eq!(server.wait().signal(), Some(Signal::SEGV.as_raw()));
    let log = server.log();
    assert!(log.contains("BUG REPORT END") && log.contains("executor/src/dispatch.rs:"), "{log}");
}

#[test]
fn systemd_takes_the_unit() {
    let test = "systemd_takes_the_unit";
    if !is_there(test, "systemd-analyze", runs("systemd-analyze", &["--version"])) {
        return;
    }
    // Substitute an existing program, so that any complaint is about the unit.
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("braid.service");
    let text = std::fs::read_to_string(deploy("braid.service")).expect("the unit");
    assert!(text.contains("\nExecStart=braid-server "), "ExecStart is not braid-server");
    std::fs::write(&unit, text.replace("ExecStart=braid-server", "ExecStart=/bin/true")).expect("a file");
    let output = Command::new("systemd-analyze").arg("verify").arg(&unit).output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // Ignore complaints about other units of this machine.
    assert!(output.status.success() && !text.contains("braid.service"), "{text}");
    // The overall exposure is below 2.0 of 10.
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=20"])
        .arg(&unit)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
