// SPDX-License-Identifier: BSD-3-Clause
//! The server's notifications to the service manager that started it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use braid_tests::server::{Options, is_braid};
use braid_tests::wait::PATIENCE;
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

/// A process that is killed at the end of the test, however it ends.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A notification socket like systemd's, and the value of NOTIFY_SOCKET.
fn manager(folder: &std::path::Path, is_abstract: bool) -> (UnixDatagram, String) {
    let (address, name) = if is_abstract {
        let name = format!("braid-test-{}", folder.file_name().expect("a name").display());
        (SocketAddr::from_abstract_name(&name).expect("a name"), format!("@{name}"))
    } else {
        let path = folder.join("notify");
        (SocketAddr::from_pathname(&path).expect("a path"), path.to_str().expect("a path").to_owned())
    };
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    (socket, name)
}

/// Receives the next message.
fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1000];
    let len = loop {
        match socket.recv(&mut buffer) {
            // The kernel does not restart a receive with a timeout after the machine has
            // suspended processes for a moment.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => break received.expect("a message"),
        }
    };
    String::from_utf8_lossy(&buffer[..len]).into_owned()
}

/// Waits for a message with this line; returns all lines up to it.
fn until(socket: &UnixDatagram, line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|last| last != line) {
        let message = next(socket);
        assert!(message.ends_with('\n'), "{message:?}");
        lines.extend(message.lines().map(str::to_owned));
        assert!(lines.len() < 1000, "no {line} among {lines:?}");
    }
    lines
}

fn supervised(socket: &str, arguments: &[&str]) -> TestServer {
    TestServer::start_with(Options {
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        environment: vec![("NOTIFY_SOCKET", socket.into())],
        ..Options::default()
    })
}

#[test]
fn systemd_is_notified_of_server_state_changes() {
    for (mode, is_abstract) in [("systemd", false), ("auto", true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, name) = manager(folder.path(), is_abstract);
        // Supervised processes stay in the foreground.
        let mut server =
            supervised(&name, &["--supervised", mode, "--daemonize", "yes", "--appendonly", "no"]);
        let lines = until(&socket, "READY=1");
        assert!(lines[0].starts_with("STATUS=") && lines[0].ends_with(" is loading..."), "{lines:?}");
        assert_eq!(lines[1..], ["STATUS=Ready to accept connections", "READY=1"]);
        let mut client = server.connect();
        assert_eq!(client.info_field("server", "process_supervised").as_deref(), Some("systemd"));
        let process = client.info_field("server", "process_id").expect("the field");
        assert_eq!(process, server.process_id().to_string());
        let reply = client.call("CONFIG GET supervised");
        assert_eq!(reply.elements().map(|words| words[1].text()).as_deref(), Some("systemd"));
        client.ok("CONFIG SET save \"3600 1\"");
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
        let mut lines = vec![next(&socket), next(&socket)];
        // Sorted, because stock servers announce the stop first and only then try whether they
        // can stop.
        lines.sort();
        assert_eq!(lines, ["STATUS=Saving the final RDB snapshot\n", "STOPPING=1\n"]);
    }
}

#[test]
fn readiness_follows_loading_with_progress_reports() {
    if !is_braid() {
        return;
    }
    let mut server = TestServer::start(&[]);
    let mut client = server.connect();
    for number in 0..600 {
        client.send(&braid_tests::request(&format!("SET key:{number} value")));
    }
    for _ in 0..600 {
        client.read();
    }
    client.ok("SAVE");
    server.signal(Signal::TERM);
    server.wait();
    let folder = server.directory().to_str().expect("a path").to_owned();
    let (socket, name) = manager(server.directory(), false);
    // 600 keys at 5 ms: three seconds.
    let slow = ["--supervised", "systemd", "--dir", &folder, "--key-load-delay", "5000"];
    let program = braid_tests::server::program_under_test();
    let port = braid_tests::server::free_port();
    let child = std::process::Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(slow)
        .env("NOTIFY_SOCKET", name)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let _child = Killed(child);
    let lines = until(&socket, "READY=1");
    let progress = lines.iter().filter(|line| line.starts_with("STATUS=Loading: ")).count();
    let extensions = lines.iter().filter(|line| *line == "EXTEND_TIMEOUT_USEC=60000000").count();
    let mut client = RawClient::tcp(([127, 0, 0, 1], port).into()).expect("it listens");
    let reply = client.call("GET key:599");
    assert_eq!(reply.text(), "value");
    assert!(progress >= 1 && extensions >= progress, "{lines:?}");
}

#[test]
fn a_failed_final_save_does_not_say_that_the_server_stops() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, name) = manager(folder.path(), false);
    let server = supervised(&name, &["--supervised", "systemd"]);
    until(&socket, "READY=1");
    // A folder stands where the dump file would be.
    std::fs::create_dir_all(server.directory().join("dump.rdb/in-the-way")).expect("a folder");
    let mut client = server.connect();
    assert!(client.call("SHUTDOWN SAVE").text().starts_with("ERR Errors trying to SHUTDOWN"));
    let expected =
        ["STATUS=Saving the final RDB snapshot\n", "STATUS=Error trying to save the DB, can't exit\n"];
    assert_eq!([next(&socket), next(&socket)], expected);
    assert_eq!(client.call("PING").text(), "PONG");
    client.send(&braid_tests::request("SHUTDOWN NOSAVE"));
    assert_eq!(next(&socket), "STOPPING=1\n");
}

#[test]
fn without_the_manager_that_is_asked_for_the_server_runs_and_says_so() {
    for (mode, told) in [("systemd", "NOTIFY_SOCKET not found"), ("upstart", "UPSTART_JOB not found")] {
        let server = TestServer::start(&["--supervised", mode]);
        let mut client = server.connect();
        assert_eq!(client.info_field("server", "process_supervised").as_deref(), Some("no"));
        assert!(server.log().contains(told), "{}", server.log());
    }
    let server = TestServer::start(&["--supervised", "auto"]);
    assert_eq!(server.connect().info_field("server", "process_supervised").as_deref(), Some("no"));
}

#[test]
fn upstart_sees_the_process_stop_before_it_serves() {
    let mut command = std::process::Command::new(braid_tests::server::program_under_test());
    let port = braid_tests::server::free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let child = command
        .args(["--port", &port.to_string(), "--supervised", "upstart", "--save", "", "--dir"])
        .arg(folder.path())
        .env("UPSTART_JOB", "braid")
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let child = Killed(child);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap_or_default();
        stat.rsplit(") ").next().unwrap_or_default().chars().next()
    };
    wait_for("the process to stop", || state() == Some('T'));
    let address = ([127, 0, 0, 1], port).into();
    assert!(RawClient::tcp(address).is_err(), "the server listens before SIGCONT");
    let id = i32::try_from(child.0.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(id, Signal::CONT).expect("the process exists");
    wait_for("the server to listen", || RawClient::tcp(address).is_ok());
    let mut client = RawClient::tcp(address).expect("it listens");
    client.set_patience(Duration::from_secs(20)).expect("a socket");
    assert_eq!(client.info_field("server", "process_supervised").as_deref(), Some("upstart"));
}
