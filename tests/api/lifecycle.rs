// SPDX-License-Identifier: BSD-3-Clause
//! Starting, stopping, and the cost of an idle server.

use std::io::Write;
use std::time::Duration;

use braid_tests::process::{processor_time, threads, voluntary_switches};
use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::{Pid, Signal};

#[test]
fn a_signal_to_end_ends_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = TestServer::start(&["--io-threads", "4"]);
        let mut clients: Vec<RawClient> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.ok("SET k v");
        }
        server.signal(signal);
        let status = server.wait();
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
        for client in &mut clients {
            assert!(client.read_to_close().is_some(), "connections are closed");
        }
    }
}

#[test]
fn a_signal_under_load_ends_cleanly_too() {
    let mut server = TestServer::start(&["--io-threads", "4"]);
    let address = server.address();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let Ok(mut client) = RawClient::tcp(address) else { return };
                let request = braid_tests::request("INCR n").repeat(20);
                while client.try_send(&request).is_ok() && (0..20).all(|_| client.try_read().is_ok()) {}
            });
        }
        let mut observer = server.connect();
        wait_for("load", || observer.call("GET n").text().parse::<u64>().is_ok_and(|count| count > 1_000));
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
    });
}

/// The process title, without the NULs that pad it.
fn title(server: &TestServer) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", server.process_id())).expect("it runs");
    String::from_utf8(bytes).expect("ASCII").trim_end_matches('\0').to_owned()
}

#[test]
fn process_title_follows_the_template() {
    let environment = vec![("BRAID_TEST_ROOM", "x".repeat(300).into())];
    let server = TestServer::start_with(Options { environment, ..Options::default() });
    if !server.is_braid() {
        return;
    }
    let program = braid_tests::server::program_under_test().display().to_string();
    let port = server.port();
    assert_eq!(title(&server), format!("{program} 127.0.0.1:{port}"));
    let mut client = server.connect();
    client.ok("CONFIG SET proc-title-template \" a{{b {port} {tls-port} {config-file} {unixsocket} \"");
    assert_eq!(title(&server), format!("a{{b {port} 0 -"));
    // Longer than the arguments: the title extends into the environment, and beyond that is cut.
    client.ok(&format!("CONFIG SET proc-title-template {}", "t".repeat(500)));
    assert_eq!(title(&server), "t".repeat(500));
    client.ok(&format!("CONFIG SET proc-title-template {}", "t".repeat(100_000)));
    let cut = title(&server);
    assert!(cut.len() > 500 && cut.bytes().all(|byte| byte == b't'), "{} bytes", cut.len());
    for bad in ["{invalid}", "{port", "\"\"", "{title}"] {
        assert_eq!(
            client.call(&format!("CONFIG SET proc-title-template {bad}")).text(),
            "ERR CONFIG SET failed (possibly related to argument 'proc-title-template') - template format is invalid or \
             contains unknown variables"
        );
    }
    assert_eq!(title(&server), cut);
    wait_for("threads to keep their names", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
        let mut names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.any(|name| name.is_ok_and(|name| name.trim_end() == "signals"))
    });
}

#[test]
fn without_a_title_the_arguments_are_shown() {
    let server = TestServer::start(&["--set-proc-title", "no"]);
    assert!(title(&server).contains("--set-proc-title\0no"), "{}", title(&server));
    server.connect().ok("CONFIG SET proc-title-template other");
    if server.is_braid() {
        assert!(title(&server).contains("--set-proc-title\0no"), "{}", title(&server));
    }
}

#[test]
fn shutdown_ends_without_a_reply() {
    let mut server = TestServer::start(&[]);
    let mut client = server.connect();
    client.send(&braid_tests::request("SHUTDOWN NOSAVE"));
    assert_eq!(client.read_to_close().expect("it is closed"), b"");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn port_in_use_is_reported_and_startup_fails() {
    let server = TestServer::start(&[]);
    let output = std::process::Command::new(braid_tests::server::program_under_test())
        .args(["--port", &server.port().to_string(), "--bind", "127.0.0.1", "--save", ""])
        .output()
        .expect("it starts and ends");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).to_lowercase();
    assert!(text.contains("address already in use"), "{text}");
    assert_eq!(server.connect().call("PING").text(), "PONG");
}

/// A process that is killed at the end of the test.
struct Leftover(Option<Pid>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// The background process is a new one: it must resolve the same words to the same file and
/// folder, and have the same standard input.
#[test]
fn in_the_background_the_command_line_means_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("data")).expect("a folder in it");
    std::fs::write(folder.path().join("some.conf"), "dir data\nlogfile log\npidfile pid\n").expect("written");
    let port = braid_tests::server::free_port();
    let mut foreground = std::process::Command::new(braid_tests::server::program_under_test())
        .current_dir(folder.path())
        .args(["some.conf", "--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "yes", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = foreground.stdin.take().expect("its standard input");
    input.write_all(b"maxmemory 123mb\n").expect("it reads");
    drop(input);
    assert!(foreground.wait().expect("an exit status").success());
    let read =
        |name: &str| std::fs::read_to_string(folder.path().join("data").join(name)).unwrap_or_default();
    let mut process = Leftover(None);
    wait_for(&format!("the server to listen: {}", read("log")), || {
        process.0 = read("pid").trim().parse().ok().and_then(Pid::from_raw);
        RawClient::tcp(([127, 0, 0, 1], port).into()).is_ok()
    });
    let mut client = RawClient::tcp(([127, 0, 0, 1], port).into()).expect("a connection");
    assert!(client.call("CONFIG GET maxmemory").to_string().contains("128974848"));
    client.ok("CONFIG REWRITE");
    let rewritten = std::fs::read_to_string(folder.path().join("some.conf")).expect("the configuration file");
    assert!(rewritten.contains(&port.to_string()), "{rewritten}");
    client.send(&braid_tests::request("SHUTDOWN NOSAVE"));
    assert_eq!(client.read_to_close().expect("it is closed"), b"");
    wait_for("the process to end", || read("pid").is_empty());
    process.0 = None;
}

/// Processor time and wake-ups of a server during two seconds without requests.
fn cost_of_idling(server: &TestServer) -> (Duration, u64) {
    let id = server.process_id();
    let (time, switches) = (processor_time(id), voluntary_switches(id));
    std::thread::sleep(Duration::from_secs(2));
    (processor_time(id) - time, voluntary_switches(id) - switches)
}

#[test]
fn an_idle_server_costs_nothing() {
    for io_threads in ["1", "4"] {
        let server = TestServer::start(&["--io-threads", io_threads]);
        let (time, wakeups) = cost_of_idling(&server);
        assert!(
            time <= Duration::from_millis(20),
            "{io_threads} threads: {time:?} of processor time in two idle seconds"
        );
        assert!(wakeups < 400, "{io_threads} threads: {wakeups} wake-ups in two idle seconds");
    }
}

#[test]
fn idle_connections_cost_nothing() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut clients: Vec<RawClient> = (0..200).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ok("SET k v");
    }
    let (time, wakeups) = cost_of_idling(&server);
    assert!(
        time <= Duration::from_millis(40),
        "{time:?} of processor time in two seconds with idle connections"
    );
    assert!(wakeups < 500, "{wakeups} wake-ups in two seconds with idle connections");
}

#[test]
fn threads_go_back_to_sleep_after_work() {
    let server = TestServer::start(&["--io-threads", "4"]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || (0..3_000).for_each(|_| assert!(client.call("INCR n").integer().is_some())));
        }
    });
    let (time, _) = cost_of_idling(&server);
    assert!(time <= Duration::from_millis(30), "{time:?} of processor time in the two seconds after work");
}

#[test]
fn waiting_for_a_paused_server_does_not_spin() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut pauser = server.connect();
    pauser.ok("CLIENT PAUSE 30000 WRITE");
    let mut waiting: Vec<RawClient> = (0..10).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send(&braid_tests::request("INCR n"));
    }
    let (time, _) = cost_of_idling(&server);
    assert!(time <= Duration::from_millis(40), "{time:?} of processor time while paused");
    pauser.ok("CLIENT UNPAUSE");
    for client in &mut waiting {
        assert!(client.read().integer().is_some());
    }
}

#[test]
fn the_number_of_threads_is_as_asked() {
    let server = TestServer::start(&["--io-threads", "4"]);
    if !server.is_braid() {
        println!("skipped: stock servers start other threads");
        return;
    }
    let count = threads(server.process_id());
    assert!((4..=12).contains(&count), "{count} threads for --io-threads 4");
}

#[test]
fn restarting_begins_empty_without_persistence() {
    let mut server = TestServer::start(&[]);
    server.connect().ok("SET k v");
    server.signal(Signal::TERM);
    server.wait();
    let server = TestServer::start(&[]);
    assert_eq!(server.connect().call("DBSIZE"), Value::Integer(0));
}

#[test]
fn endless_script_does_not_prevent_shutdown() {
    // The script has written, under its key's lock only: nothing can end it except ending the
    // server.
    let script = "redis.call('set', KEYS[1], 'v') for i = 1, 1e12 do end";
    for by_signal in [true, false] {
        let mut server = TestServer::start(&[
            "--io-threads",
            "2",
            "--busy-reply-threshold",
            "10",
            "--shutdown-timeout",
            "1",
        ]);
        let mut other = server.connect();
        let mut client = server.connect();
        client.send(&braid_tests::words::encode(&["EVAL", script, "1", "k"]));
        wait_for("the script to be busy", || other.call("SCRIPT KILL").text().starts_with("UNKILLABLE"));
        if by_signal {
            server.signal(Signal::TERM);
        } else {
            other.send(&braid_tests::request("SHUTDOWN NOSAVE"));
        }
        assert!(server.wait().success(), "by signal: {by_signal}");
    }
}
