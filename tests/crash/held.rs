// SPDX-License-Identifier: BSD-3-Clause
//! Replies that wait for a slow disk (`appendfsync always`): in order, complete, each to its own
//! client, and none before its data is on disk. A preloaded library decides when the disk is
//! ready.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use braid_tests::preload::library;
use braid_tests::server::{Options, free_port, is_braid};
use braid_tests::wait::PATIENCE;
use braid_tests::{TestServer, Value, wait_for, wait_for_within};

/// While the file named by `HOLD` exists, each fdatasync waits for a file with that name and
/// `.pass`, which it removes. `.waits` grows by one byte per wait.
const LIBRARY: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int fdatasync(int descriptor) {
    char pass[4096], waits[4096];
    const char *hold = getenv("HOLD");
    snprintf(pass, sizeof pass, "%s.pass", hold);
    snprintf(waits, sizeof waits, "%s.waits", hold);
    if (access(hold, F_OK) == 0) {
        int log = open(waits, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (write(log, "w", 1) != 1) abort();
        close(log);
        while (access(hold, F_OK) == 0 && unlink(pass) != 0) usleep(500);
    }
    return (int) syscall(SYS_fdatasync, descriptor);
}
"#;

/// A server on a disk that can be paused.
struct Disk {
    folder: tempfile::TempDir,
    server: TestServer,
    metrics_port: u16,
}

impl Disk {
    /// `None` without a C compiler, or for a server other than Braid.
    fn start() -> Option<Disk> {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(library) = library(folder.path(), LIBRARY).filter(|_| is_braid()) else {
            println!("skipped: needs Braid under test and a C compiler");
            return None;
        };
        let (path, metrics_port) = (folder.path().to_str().expect("a readable path"), free_port());
        let port = metrics_port.to_string();
        let arguments =
            ["--dir", path, "--appendonly", "yes", "--appendfsync", "always", "--metrics-port", &port];
        // In the other models the whole loop waits.
        let more = ["--io-threads", "1", "--threading-model", "parallel"];
        let options = Options {
            arguments: arguments.iter().chain(&more).map(|&text| text.to_owned()).collect(),
            environment: vec![
                ("LD_PRELOAD", library.into_os_string()),
                ("HOLD", hold(folder.path()).into_os_string()),
            ],
            ..Options::default()
        };
        let server = TestServer::start_with(options);
        Some(Disk { folder, server, metrics_port })
    }

    /// From now on each sync needs a pass.
    fn hold(&self) {
        std::fs::write(hold(self.folder.path()), "").expect("a file");
    }

    fn let_go(&self) {
        std::fs::remove_file(hold(self.folder.path())).expect("it is there");
    }

    fn pass(&self) {
        std::fs::write(hold(self.folder.path()).with_extension("pass"), "").expect("a file");
    }

    /// Waits until the server has waited for the disk `count` times.
    fn wait_for_waits(&self, count: u64) {
        let waits = hold(self.folder.path()).with_extension("waits");
        wait_for("a wait for the disk", || waits.metadata().is_ok_and(|file| file.len() >= count));
    }

    /// The server's metrics; no other client gets a reply while the server waits for the disk.
    fn metrics(&self) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.metrics_port)).expect("the port is open");
        socket
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn wait_for_calls(&self, command: &str, calls: u64) {
        let line = format!("braid_command_calls_total{{command=\"{command}\"}} {calls}\n");
        let mut seen = String::new();
        let came = wait_for_within(PATIENCE, || {
            seen = self.metrics();
            seen.contains(&line)
        });
        assert!(came, "gave up waiting for {calls} calls of {command}:\n{seen}");
    }
}

fn hold(folder: &Path) -> PathBuf {
    folder.join("hold")
}

/// A client whose reply is held runs a blocking command and is served: the reply to that is also
/// sent only when it is on disk.
#[test]
fn served_while_a_reply_waits() {
    let is_possible = (0..10).any(|_| {
        let Some(disk) = Disk::start() else { return true };
        let (mut waiting, mut pushing) = (disk.server.connect(), disk.server.connect());
        disk.hold();
        waiting.send(b"SET k 1\r\nBLPOP l 0\r\n");
        disk.wait_for_waits(1);
        disk.wait_for_calls("set", 1);
        // On a busy machine, the second command may be postponed to another turn, which comes
        // after the first reply.
        let waits = || disk.metrics().contains("\nbraid_clients_blocked 1\n");
        if !wait_for_within(Duration::from_secs(1), waits) {
            disk.let_go();
            return false;
        }
        pushing.send(b"RPUSH l v\r\n");
        disk.wait_for_calls("blpop", 1);
        let is_on_disk = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                assert_eq!(waiting.read(), Value::ok());
                assert_eq!(waiting.read().to_string(), "[\"l\", \"v\"]");
                assert!(is_on_disk.load(SeqCst), "the BLPOP reply was sent before its data was on disk");
            });
            disk.pass();
            disk.wait_for_waits(2);
            // Enough time for a premature reply to arrive.
            for _ in 0..5 {
                disk.metrics();
            }
            is_on_disk.store(true, SeqCst);
            disk.let_go();
            reader.join().expect("the replies are right");
        });
        assert_eq!(pushing.read().integer(), Some(1));
        true
    });
    assert!(is_possible, "the client was never blocked");
}

/// Requests sent while replies wait are executed afterwards, in order; a client that disconnects
/// meanwhile leaves nothing behind for the next client in its place.
#[test]
fn sent_while_replies_wait() {
    let Some(disk) = Disk::start() else { return };
    let (mut sending, mut leaving) = (disk.server.connect(), disk.server.connect());
    disk.hold();
    sending.send(b"SET a 1\r\n");
    leaving.send(b"SET b 1\r\n");
    disk.wait_for_waits(1);
    disk.wait_for_calls("set", 2);
    let big = vec![b'x'; 200_000];
    sending.send(format!("INCR a\r\n*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", big.len()).as_bytes());
    sending.send(&big);
    sending.send(b"\r\nSTRLEN big\r\n");
    drop(leaving);
    wait_for("one client to disconnect", || disk.metrics().contains("\nbraid_clients 1\n"));
    let mut late = disk.server.connect();
    late.send(b"PING\r\n");
    wait_for("another client to connect", || disk.metrics().contains("\nbraid_clients 2\n"));
    assert!(disk.metrics().contains("braid_command_calls_total{command=\"set\"} 2\n"), "later requests wait");
    disk.let_go();
    let replies = [(); 4].map(|()| sending.read().to_string());
    assert_eq!(replies, ["+OK", "(integer) 2", "+OK", "(integer) 200000"]);
    assert_eq!(late.read(), Value::Simple("PONG".into()));
    assert_eq!(late.call("MGET a b").to_string(), "[\"2\", \"1\"]");
}
