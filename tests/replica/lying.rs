// SPDX-License-Identifier: BSD-3-Clause
//! Faulty primaries: the replica reports the fault, keeps the data that it must keep, tries
//! again, and survives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use braid_tests::random::source;
use braid_tests::server::is_braid;
use braid_tests::words::encode;
use braid_tests::{RawClient, TestServer, Value, request, wait_for};
use rustix::process::Signal;

use crate::families::FAMILIES;
use crate::generator::Generator;
use crate::rounds::OF_DATA;

pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A dump with a few keys, written by the server under test.
pub fn dump() -> Vec<u8> {
    let server = TestServer::start(&["--save", ""]);
    let mut client = server.connect();
    client.ok("SET theirs 1");
    client.call("RPUSH list a b c");
    client.ok("SAVE");
    std::fs::read(server.directory().join("dump.rdb")).expect("a dump")
}

/// A dump with enough keys for its load to be observed.
pub fn many_keys() -> Vec<u8> {
    let server = TestServer::start(&["--save", "", "--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.ok("DEBUG POPULATE 3000");
    client.ok("SAVE");
    std::fs::read(server.directory().join("dump.rdb")).expect("a dump")
}

/// Answers a replica's handshake up to its request for the stream; returns that request.
fn introduced(socket: &TcpStream) -> String {
    let mut reader = BufReader::new(socket.try_clone().expect("a socket"));
    let mut writer = socket.try_clone().expect("a socket");
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return String::new();
        }
        let count = line.trim_start_matches('*').trim().parse::<usize>().unwrap_or(0);
        for _ in 0..count {
            let mut len = String::new();
            reader.read_line(&mut len).expect("a length");
            let len = len.trim_start_matches('$').trim().parse::<usize>().expect("a length");
            let mut word = vec![0; len + 2];
            reader.read_exact(&mut word).expect("an argument");
            words.push(String::from_utf8_lossy(&word[..len]).into_owned());
        }
        match words.first().map(String::as_str) {
            Some("PSYNC") => return words.join(" "),
            Some("PING") => writer.write_all(b"+PONG\r\n").expect("sent"),
            _ => writer.write_all(b"+OK\r\n").expect("sent"),
        }
    }
}

pub struct Liar {
    listener: TcpListener,
}

impl Liar {
    pub fn new() -> Liar {
        Liar { listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }

    /// Accepts the replica's next attempt, up to its request for the stream.
    pub fn next(&self) -> TcpStream {
        let (socket, _) = self.listener.accept().expect("the replica connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        introduced(&socket);
        socket
    }
}

pub fn send(socket: &mut TcpStream, bytes: &[u8]) {
    // The replica may have closed the connection by now.
    let _ = socket.write_all(bytes);
}

/// A replica of the faulty primary with a key of its own, and with this way of loading full
/// syncs.
fn victim(liar: &Liar, load: &str) -> (TestServer, RawClient) {
    let server = TestServer::start(&[
        "--repl-diskless-load",
        load,
        "--repl-timeout",
        "2",
        "--enable-debug-command",
        "yes",
        "--save",
        "",
    ]);
    let mut client = server.connect();
    client.ok("SET own 1");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
    (server, client)
}

fn is_up(client: &mut RawClient) -> bool {
    client.info_field("replication", "master_link_status").as_deref() == Some("up")
}

/// Finally sends a valid full sync, and then the stream.
fn mend(liar: &Liar, client: &mut RawClient) {
    let mut socket = liar.next();
    let dump = dump();
    send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", dump.len()).as_bytes());
    send(&mut socket, &dump);
    wait_for("the link is up", || is_up(client));
    send(&mut socket, &request("INCR counter"));
    wait_for("the increment is applied", || client.call("GET counter").text() == "1");
    assert_eq!(client.call("GET own").to_string(), "(nil)", "the old dataset survived the full sync");
    assert_eq!(client.call("LLEN list").to_string(), "(integer) 3");
    let end = 100 + request("INCR counter").len();
    assert_eq!(client.info_field("replication", "slave_repl_offset"), Some(end.to_string()));
}

#[test]
fn restart_removes_partial_sync_file_of_a_killed_replica() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let files = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with("temp-"));
        names.sort();
        names
    };
    // A temporary file of a stock server, which may run elsewhere.
    std::fs::write(folder.path().join("temp-1700000000.999999999.rdb"), "REDIS").expect("written");
    let liar = Liar::new();
    let begin = || {
        let server = TestServer::start(&["--dir", path, "--save", ""]);
        server.connect().ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
        let mut socket = liar.next();
        send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n$1000\r\n").as_bytes());
        send(&mut socket, &dump()[..50]);
        let own = format!("temp-sync-{}.rdb", server.process_id());
        wait_for("the temporary file exists", || files().contains(&own));
        (server, socket, own)
    };
    let (mut killed, socket, left_over) = begin();
    killed.signal(Signal::KILL);
    killed.wait();
    drop(socket);
    assert!(files().contains(&left_over), "the killed server's file was removed");
    // The files of other running servers stay.
    let (_other, _socket, others) = begin();
    assert_eq!(files(), ["temp-1700000000.999999999.rdb", &others]);
    let third = TestServer::start(&["--dir", path, "--save", ""]);
    assert_eq!(third.connect().call("PING").text(), "PONG");
    assert_eq!(files(), ["temp-1700000000.999999999.rdb", &others]);
}

#[test]
fn a_replica_answers_while_its_full_sync_stalls() {
    if !is_braid() {
        return;
    }
    let liar = Liar::new();
    let server = TestServer::start(&["--repl-timeout", "60", "--save", ""]);
    let mut client = server.connect();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
    // Only part of a dump. Requests that cannot be served get the reply that the server is
    // loading.
    let dump = many_keys();
    for load in ["on-empty-db", "flush-before-load", "swapdb"] {
        client.ok(&format!("CONFIG SET repl-diskless-load {load}"));
        let mut socket = liar.next();
        send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", dump.len()).as_bytes());
        if load == "swapdb" {
            send(&mut socket, &dump);
            wait_for("the link is up", || is_up(&mut client));
            drop(socket);
            // An older state of the same history is served.
            socket = liar.next();
            send(&mut socket, format!("+FULLRESYNC {ID} 200\r\n${}\r\n", dump.len()).as_bytes());
        }
        // Nothing of the dump, or half of it.
        let len = if load == "on-empty-db" { 0 } else { dump.len() / 2 };
        send(&mut socket, &dump[..len]);
        let field = if load == "swapdb" { "async_loading" } else { "loading" };
        wait_for("the load starts", || client.info_field("persistence", field).as_deref() == Some("1"));
        let began = Instant::now();
        for _ in 0..10 {
            let answer = client.call("GET key:7").text();
            if load == "swapdb" {
                assert_eq!(answer, "value:7");
            } else {
                assert!(answer.starts_with("LOADING"), "{load}: {answer}");
            }
        }
        if load == "swapdb" {
            // A long-running script makes the server busy, and can be killed.
            client.ok("CONFIG SET busy-reply-threshold 10");
            let mut running = server.connect();
            running.send(&request("EVAL \"while true do end\" 0"));
            wait_for("the server is busy", || client.call("PING").text().starts_with("BUSY"));
            client.ok("SCRIPT KILL");
            assert!(running.read().is_error());
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{load}: {:?}", began.elapsed());
        assert_eq!(client.info_field("persistence", field).as_deref(), Some("1"));
        drop(socket);
        wait_for("the load is aborted", || client.info_field("persistence", field).as_deref() == Some("0"));
    }
}

#[test]
fn lies_in_front_of_a_full_sync() {
    let liar = Liar::new();
    let (server, mut client) = victim(&liar, "disabled");
    let lies: [(&[u8], &str); 8] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Unexpected reply to PSYNC"),
        (b"+FULLRESYNC\r\n", "wrong +FULLRESYNC syntax"),
        (b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 -3\r\n", "wrong +FULLRESYNC syntax"),
        (b"+CONTINUE nonsense\r\n", "Unexpected reply to PSYNC"),
        (b"-LOADING later\r\n", "unable to PSYNC"),
        (b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 1\r\n$-7\r\n", "first byte is not '$'"),
        (b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 1\r\n-ERR no\r\n", "aborted replication"),
        (
            b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 1\r\n$EOF:short\r\n",
            "first byte is not '$'",
        ),
    ];
    for (lie, told) in lies {
        let mut socket = liar.next();
        send(&mut socket, lie);
        wait_for("the error is logged", || server.log().contains(told));
        assert!(!is_up(&mut client) && client.call("GET own").text() == "1");
    }
    // An endless line.
    let mut socket = liar.next();
    send(&mut socket, &[b'x'; 200_000]);
    wait_for("the error is logged", || server.log().contains("an unterminated line"));
    // Keep-alive bytes, and nothing else.
    let mut socket = liar.next();
    for _ in 0..20 {
        send(&mut socket, b"\n");
    }
    wait_for("the replica times out", || server.log().contains("Timeout connecting to the MASTER"));
    drop(socket);
    mend(&liar, &mut client);
}

#[test]
fn damaged_full_syncs() {
    let whole = dump();
    for load in ["disabled", "swapdb", "flush-before-load"] {
        let mut random = source("damaged_full_syncs");
        let liar = Liar::new();
        let (mut server, mut client) = victim(&liar, load);
        for round in 0..12 {
            let mut damaged = whole.clone();
            let (announced, hangs_up) = match round % 4 {
                // Truncated.
                0 => {
                    damaged.truncate(random.usize(9..whole.len()));
                    (whole.len(), true)
                }
                // Truncated, but with the right length announced.
                1 => {
                    damaged.truncate(random.usize(9..whole.len()));
                    (damaged.len(), false)
                }
                // One flipped bit. In an annotation the checksum reveals it.
                2 => {
                    // Not in the version: dumps of old versions have no checksum.
                    let at = random.usize(9..whole.len());
                    damaged[at] ^= 1 << random.u32(0..8);
                    (whole.len(), false)
                }
                _ => {
                    damaged = (0..random.usize(1..400)).map(|_| random.u8(..)).collect();
                    (damaged.len(), false)
                }
            };
            let attempts = server.log().matches("Full resync from master").count();
            let mut socket = liar.next();
            send(&mut socket, format!("+FULLRESYNC {ID} 7\r\n${announced}\r\n").as_bytes());
            send(&mut socket, &damaged);
            if hangs_up {
                drop(socket);
            }
            wait_for("the full sync has failed", || {
                let log = server.log();
                log.matches("Full resync from master").count() > attempts
                    && !is_up(&mut client)
                    && client.info_field("replication", "master_sync_in_progress").as_deref() == Some("0")
                    && ["loading", "async_loading"]
                        .iter()
                        .all(|field| client.info_field("persistence", field).as_deref() == Some("0"))
            });
            assert!(server.is_alive(), "round {round}, {load}");
            // A file is checked before the dataset is deleted.
            if load != "flush-before-load" {
                assert_eq!(client.call("GET own").text(), "1", "round {round}, {load}");
            }
        }
        mend(&liar, &mut client);
    }
}

/// A full sync with a value of a module, as of Redis Stack.
#[test]
fn full_syncs_with_values_of_modules() {
    let module = b"\x07\x04json\x81\x7c\x11\x2d\x1b\x08\xa5\x7c\x01\x02\x05\x05\x02ab\x00";
    let mut dump = b"REDIS0011\xfe\x00".to_vec();
    dump.extend_from_slice(module);
    dump.extend_from_slice(b"\x00\x06theirs\x01v\xff\0\0\0\0\0\0\0\0");
    let liar = Liar::new();
    let (server, mut client) = victim(&liar, "disabled");
    client.ok("SAVE");
    let file = std::fs::read(server.directory().join("dump.rdb")).expect("a dump");
    let copy = |socket: &mut TcpStream| {
        send(socket, format!("+FULLRESYNC {ID} 7\r\n${}\r\n", dump.len()).as_bytes());
        send(socket, &dump);
    };
    for round in 1..=2 {
        let mut socket = liar.next();
        copy(&mut socket);
        wait_for("the full sync has failed", || {
            server.log().matches("the full sync cannot be loaded, the old data is kept").count() == round
        });
        assert_eq!(client.call("GET own").text(), "1");
    }
    assert_eq!(std::fs::read(server.directory().join("dump.rdb")).expect("a dump"), file);
    wait_for("it says that it tries less often", || server.log().contains("next attempt in 2 seconds"));
    assert!(server.log().contains("of the module type 'fBEtGwilf', which is not supported"));
    client.ok("CONFIG SET rdb-skip-unsupported yes");
    let mut socket = liar.next();
    copy(&mut socket);
    wait_for("the link is up", || is_up(&mut client));
    assert_eq!(client.call("GET theirs").text(), "v");
    assert_eq!(client.call("DBSIZE").to_string(), "(integer) 1");
    let left_out = client.info_field("persistence", "rdb_last_load_keys_unsupported");
    assert_eq!(left_out.as_deref(), Some("1"));
    assert!(server.log().contains("1 key of the module type 'fBEtGwilf' left out"));
}

#[test]
fn streams_that_make_no_sense() {
    let liar = Liar::new();
    let (mut server, mut client) = victim(&liar, "disabled");
    mend(&liar, &mut client);
    // The first socket was closed by `mend`: the replica tries to resume at its offset.
    let (socket, _) = liar.listener.accept().expect("the replica reconnects");
    let asked = introduced(&socket);
    let offset = 100 + request("INCR counter").len() + 1;
    assert_eq!(asked, format!("PSYNC {ID} {offset}"));
    let mut socket = socket;
    // Requests that cannot be executed are logged, and the stream continues: the primary has
    // executed them.
    send(&mut socket, b"+CONTINUE\r\n");
    send(&mut socket, &request("NOSUCH command"));
    send(&mut socket, &request("LPUSH counter x"));
    send(&mut socket, &request("SELECT 99"));
    send(&mut socket, &request("INCR counter"));
    wait_for("the increment is applied", || client.call("GET counter").text() == "2");
    let log = server.log();
    let unknown = "'ERR unknown command 'NOSUCH', with args beginning with: 'command' ' after processing the command '<unknown>'";
    for told in [unknown, "WRONGTYPE", "No such database: 99"] {
        assert!(log.contains(told), "the log lacks {told}:\n{log}");
    }
    // And counted.
    assert_eq!(client.info_field("stats", "unexpected_error_replies").as_deref(), Some("3"));
    // A transaction without an end is not executed.
    send(&mut socket, &request("MULTI"));
    send(&mut socket, &request("INCR counter"));
    drop(socket);
    let mut socket = liar.next();
    assert_eq!(client.call("GET counter").text(), "2");
    // Garbage: the stream is not resumed after it.
    send(&mut socket, b"+CONTINUE\r\n*1\r\n:5\r\n");
    wait_for("the error is logged", || server.log().contains("Protocol error in the stream"));
    let (socket, _) = liar.listener.accept().expect("the replica reconnects");
    assert!(!introduced(&socket).contains(ID), "the replica asked for the old history");
    drop(socket);
    assert!(server.is_alive());
    mend(&liar, &mut client);
}

/// With `propagation-error-behavior` a failed command ends the replica, unless clients may write
/// to it.
#[test]
fn propagation_errors_end_the_replica_if_that_is_wanted() {
    let asked = |behavior: &str, read_only: &str, bad: &str| {
        let liar = Liar::new();
        let (mut server, mut client) = victim(&liar, "disabled");
        client.ok(&format!("CONFIG SET propagation-error-behavior {behavior}"));
        client.ok(&format!("CONFIG SET replica-read-only {read_only}"));
        let mut socket = liar.next();
        let dump = dump();
        send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", dump.len()).as_bytes());
        send(&mut socket, &dump);
        wait_for("the link is up", || is_up(&mut client));
        send(&mut socket, &request(bad));
        send(&mut socket, &request("SET after 1"));
        let mut lives = true;
        wait_for("the command is applied or the server ends", || {
            lives = server.is_alive();
            let asked = client.try_send(&request("EXISTS after"));
            let applied =
                asked.is_ok() && client.try_read().is_ok_and(|reply| reply.to_string() == "(integer) 1");
            !lives || applied
        });
        let said =
            server.log().contains("Guru Meditation: This replica panicked sending an error to its master");
        assert_eq!(said, !lives, "{behavior}, {read_only}, {bad}");
        lives
    };
    for bad in ["NOSUCH d $ 1", "LPUSH theirs x"] {
        for behavior in ["panic", "panic-on-replicas"] {
            assert!(!asked(behavior, "yes", bad), "{behavior}: {bad}");
        }
        assert!(asked("ignore", "yes", bad), "{bad}");
    }
    assert!(asked("panic", "no", "NOSUCH d $ 1"));
}

/// Requests of all kinds, and the length in bytes of the complete units: all but the last
/// transaction, which has no end.
fn random_stream(random: &mut fastrand::Rng) -> (Vec<u8>, usize) {
    let families: Vec<_> = FAMILIES.iter().filter(|family| OF_DATA.contains(&family.name)).collect();
    let mut generator = Generator::new(random.u64(..), &families);
    let mut stream = Vec::new();
    for _ in 0..random.u32(1..400) {
        let words = generator.command();
        let name = words[0].to_ascii_lowercase();
        // Exclude commands that only clients use, and commands that would move or delete the
        // counter.
        if !["multi", "exec", "discard", "watch", "flushall", "flushdb", "swapdb"]
            .iter()
            .any(|&word| word.as_bytes() == name)
        {
            stream.extend(encode(&words));
        }
        if random.u32(..10) == 0 {
            for line in ["MULTI", "SELECT 0", "INCR whole", "INCR whole", "EXEC"] {
                stream.extend(request(line));
            }
        }
    }
    let whole = stream.len();
    for line in ["MULTI", "SELECT 0", "INCR whole", "INCR whole", "EXEC"] {
        stream.extend(request(line));
    }
    stream.truncate(random.usize(whole..stream.len()));
    (stream, whole)
}

/// Sends a full sync to the next replica, and then a stream in pieces.
fn serve(liar: &Liar, stream: &[u8], random: &mut fastrand::Rng) {
    let mut socket = liar.next();
    let dump = dump();
    send(&mut socket, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", dump.len()).as_bytes());
    send(&mut socket, &dump);
    let mut rest = stream;
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(random.usize(1..=rest.len().min(5000)));
        send(&mut socket, piece);
        rest = others;
    }
    // All sent bytes arrive before the end of the connection.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
}

#[test]
fn a_stream_is_applied_unit_by_unit_wherever_it_ends() {
    let mut random = source("a_stream_is_applied_unit_by_unit_wherever_it_ends");
    for _ in 0..6 {
        let liar = Liar::new();
        let (_server, mut client) = victim(&liar, "disabled");
        let (stream, whole) = random_stream(&mut random);
        serve(&liar, &stream, &mut random);
        // The replica has applied all complete units, and resumes after them.
        let (socket, _) = liar.listener.accept().expect("the replica reconnects");
        assert_eq!(introduced(&socket), format!("PSYNC {ID} {}", 100 + whole + 1));
        let increments = stream[..whole].windows(5).filter(|bytes| bytes == b"whole").count();
        let seen = client.call("GET whole").text().parse().unwrap_or(0);
        assert_eq!(seen, increments, "a transaction was applied in part");
    }
}

#[test]
fn damaged_streams_do_no_harm() {
    let mut random = source("damaged_streams_do_no_harm");
    let liar = Liar::new();
    let (mut server, mut client) = victim(&liar, "disabled");
    for round in 0..12 {
        let (mut stream, _) = random_stream(&mut random);
        for _ in 0..random.u32(1..8) {
            let at = random.usize(..stream.len());
            match random.u32(..3) {
                0 => stream[at] ^= 1 << random.u32(..8),
                1 => drop(stream.remove(at)),
                _ => stream.insert(at, random.u8(..)),
            }
        }
        serve(&liar, &stream, &mut random);
        // Depending on the damage, it resumes or starts over.
        let (socket, _) = liar.listener.accept().expect("the replica reconnects");
        let asked = introduced(&socket);
        assert!(asked.starts_with("PSYNC "), "{asked}");
        drop(socket);
        assert_eq!(client.call("PING").text(), "PONG", "round {round}");
    }
    assert!(server.is_alive());
    mend(&liar, &mut client);
}

#[test]
fn a_replica_that_is_promoted_after_a_bad_full_sync_writes_its_append_only_file() {
    let liar = Liar::new();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a readable path").to_owned();
    let arguments = ["--dir", &dir, "--appendonly", "yes", "--repl-diskless-load", "swapdb"];
    let mut server = TestServer::start(&arguments);
    let mut client = server.connect();
    client.ok("SET own 1");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", liar.port()));
    let mut socket = liar.next();
    send(&mut socket, format!("+FULLRESYNC {ID} 7\r\n$9\r\nREDIS0011").as_bytes());
    drop(socket);
    wait_for("the full sync has failed", || server.log().contains("Discarding temporary DB"));
    // The server counts as loading until it has cleaned up.
    wait_for("the replica is promoted", || client.call("REPLICAOF NO ONE") == Value::ok());
    client.ok("SET own 2");
    assert_eq!(client.info_field("persistence", "aof_enabled").as_deref(), Some("1"));
    wait_for("the base file is written", || {
        let field = |client: &mut RawClient, name: &str| client.info_field("persistence", name);
        field(&mut client, "aof_rewrite_in_progress").as_deref() == Some("0")
            && field(&mut client, "aof_rewrite_scheduled").as_deref() == Some("0")
    });
    client.ok("SET own 3");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let server = TestServer::start(&arguments);
    assert_eq!(server.connect().call("GET own").text(), "3");
}
