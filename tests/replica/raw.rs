// SPDX-License-Identifier: BSD-3-Clause
//! The link byte by byte: the replica's messages, and the data that it receives.

use braid_tests::server::program_under_test;
use braid_tests::{RawClient, TestServer, Value, request, wait_for};

use crate::{figure, peers, primary};

/// A line in place of a RESP reply.
pub fn line(client: &mut RawClient) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let byte = client.read_bytes(1);
        assert!(!byte.is_empty(), "closed after {line:?}");
        // Empty lines are keep-alives.
        if byte != b"\n" || !line.is_empty() {
            line.extend(byte);
        }
    }
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}

/// The bytes of a full sync, after its header line.
pub fn copy(client: &mut RawClient) -> Vec<u8> {
    let head = line(client);
    if let Some(mark) = head.strip_prefix("$EOF:") {
        assert_eq!(mark.len(), 40);
        let mut bytes = Vec::new();
        while !bytes.ends_with(mark.as_bytes()) {
            let more = client.read_bytes(1);
            assert!(!more.is_empty(), "closed after {} bytes", bytes.len());
            bytes.extend(more);
        }
        bytes.truncate(bytes.len() - mark.len());
        return bytes;
    }
    let len = head.strip_prefix('$').and_then(|len| len.parse().ok()).expect("a length");
    client.read_bytes(len)
}

/// A connection that has received a full sync and continues with the stream; also the replication
/// ID and the start offset.
pub fn attached(server: &TestServer) -> (RawClient, String, i64) {
    attached_with(server, "capa psync2")
}

/// The same, with other capabilities of the replica.
fn attached_with(server: &TestServer, capabilities: &str) -> (RawClient, String, i64) {
    let mut link = server.connect();
    link.ok(&format!("REPLCONF listening-port 12345 {capabilities}"));
    link.send(&request("PSYNC ? -1"));
    let head = line(&mut link);
    let words: Vec<&str> = head.split(' ').collect();
    assert_eq!((words[0], words[1].len()), ("+FULLRESYNC", 40), "{head}");
    let (id, offset) = (words[1].to_owned(), words[2].parse().expect("an offset"));
    assert!(copy(&mut link).starts_with(b"REDIS00"));
    (link, id, offset)
}

#[test]
fn malformed_replica_requests_are_logged() {
    for program in
        [program_under_test().clone()].into_iter().chain(peers().into_iter().map(|peer| peer.program))
    {
        let server = TestServer::start_program(&program, &["--repl-diskless-sync-delay", "0"]);
        let mut link = server.connect();
        assert_eq!(link.call("PSYNC a b").text(), "ERR value is not an integer or out of range");
        link.send(&request("PSYNC ? -1"));
        assert!(line(&mut link).starts_with("+FULLRESYNC"));
        link.send(&request("GET k"));
        for told in [
            "asks for synchronization but with a wrong offset",
            "Replica generated a reply to command 'get', disconnecting it: id=",
            " is sending an error to its replica: 'Replica can't interact with the keyspace' after processing the command 'get'",
        ] {
            wait_for(told, || server.log().contains(told));
        }
    }
}

#[test]
fn the_stream_is_counted_from_the_copy_on() {
    let server = primary(&["--repl-ping-replica-period", "1000"]);
    let mut client = server.connect();
    client.ok("SET before 1");
    let (mut link, id, offset) = attached(&server);
    client.ok("SET a 1");
    client.ok("SELECT 3");
    client.ok("SET b 2");
    let mut stream = Vec::new();
    while !stream.ends_with(b"$1\r\n2\r\n") {
        stream.extend(link.read_bytes(1));
    }
    let end = figure(&mut client, "replication", "master_repl_offset");
    assert_eq!(offset + stream.len() as i64, end);
    let text = String::from_utf8_lossy(&stream);
    let set = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
    assert!(text.ends_with(&format!("{set}*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n")), "{text}");
    // Another replica that has part of the stream resumes there; the first byte has number 1.
    let mut other = server.connect();
    other.ok("REPLCONF capa psync2");
    let had = stream.len() as i64 / 2;
    other.send(&request(&format!("PSYNC {id} {}", offset + had + 1)));
    assert_eq!(line(&mut other), format!("+CONTINUE {id}"));
    assert_eq!(other.read_bytes(stream.len() - had as usize), stream[had as usize..]);
    client.ok("SET c 3");
    assert!(other.read_bytes(10).starts_with(b"*3\r\n$3\r\nSET"[..10].as_ref()));
    // Neither an unknown history nor an offset that has not been reached.
    for wrong in [format!("PSYNC {} {}", "0".repeat(40), offset + 1), format!("PSYNC {id} {}", end + 1000)] {
        let mut stranger = server.connect();
        stranger.send(&request(&wrong));
        assert!(line(&mut stranger).starts_with("+FULLRESYNC "));
    }
}

/// Stock servers count every byte of a stream in its offset.
#[test]
fn only_braid_replicas_get_empty_lines_within_a_stream() {
    let top = primary(&["--repl-ping-replica-period", "1000"]);
    let middle = primary(&["--replicaof", "127.0.0.1", &top.port().to_string()]);
    wait_for("the link is up", || {
        middle.connect().call("INFO replication").text().contains("link_status:up")
    });
    let (mut stock, ..) = attached(&middle);
    let (mut braid, ..) = attached_with(&middle, "capa psync2 capa keepalive");
    drop(top);
    for _ in 0..2 {
        assert_eq!(braid.read_bytes(1), b"\n");
    }
    assert_eq!(middle.connect().call("CLIENT KILL TYPE replica"), Value::Integer(2));
    assert_eq!(stock.read_to_close(), Some(Vec::new()));
}

/// A client that has the reply to its write may read from the replica at once. The clients are
/// spread over both threads, the replica belongs to one; a thread that is awake for another reason
/// (cron) sends a moment later.
#[test]
fn changes_leave_before_the_replies_to_them() {
    const ROUNDS: usize = 2000;
    let server = primary(&["--io-threads", "2", "--repl-ping-replica-period", "1000"]);
    let mut clients: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    let (mut link, ..) = attached(&server);
    let mut late = 0;
    for round in 0..ROUNDS {
        let sent = format!("${}\r\n{round}\r\n", round.to_string().len());
        clients[round % 4].ok(&format!("SET k {round}"));
        let mut received = link.read_arrived();
        late += usize::from(!received.ends_with(sent.as_bytes()));
        while !received.ends_with(sent.as_bytes()) {
            received.extend(link.read_bytes(1));
        }
    }
    assert!(late <= ROUNDS / 200, "{late} of {ROUNDS} changes left after their replies");
}

#[test]
fn a_question_is_answered_by_one_word_only() {
    let server = primary(&["--repl-ping-replica-period", "1000"]);
    let mut client = server.connect();
    let (mut link, _, offset) = attached(&server);
    client.ok("SET a 1");
    client.send(&request("WAIT 1 0"));
    let mut stream = Vec::new();
    while !stream.ends_with(b"$6\r\nGETACK\r\n$1\r\n*\r\n") {
        stream.extend(link.read_bytes(1));
    }
    // Acknowledging up to the SET is enough; the GETACK does not count.
    link.send(&request(&format!("REPLCONF ACK {}", offset + stream.len() as i64 - 37)));
    assert_eq!(client.read(), Value::Integer(1));
    // Any other request from a replica closes the link, without a reply that could be mistaken
    // for changes.
    link.send(&request("GET a"));
    assert_eq!(link.read_to_close(), Some(Vec::new()));
}

#[test]
fn a_copy_alone_is_the_last_word() {
    let server = primary(&[]);
    let mut client = server.connect();
    client.ok("SET a 1");
    client.call("FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 7 end)\"");
    let bytes_of = |words: &str| {
        let mut link = server.connect();
        link.ok(&format!("REPLCONF capa eof rdb-only 1 {words}"));
        link.send(&request("SYNC"));
        let bytes = copy(&mut link);
        assert_eq!(link.read_to_close(), Some(Vec::new()), "{words}");
        assert!(bytes.starts_with(b"REDIS00"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let all = bytes_of("");
    assert!(all.contains("register_function") && all.contains("\u{0}\u{1}a"));
    let functions = bytes_of("rdb-filter-only functions");
    assert!(functions.contains("register_function") && !functions.contains("\u{0}\u{1}a"));
}

#[test]
fn mistakes_are_named() {
    let server = primary(&[]);
    let mut client = server.connect();
    for (words, error) in [
        ("REPLCONF listening-port", "ERR syntax error"),
        ("REPLCONF listening-port x", "ERR value is not an integer or out of range"),
        ("REPLCONF nosuch 1", "ERR Unrecognized REPLCONF option: nosuch"),
        ("REPLCONF rdb-filter-only keys", "ERR Unsupported rdb-filter-only option: keys"),
        ("PSYNC ? x", "ERR value is not an integer or out of range"),
    ] {
        assert_eq!(client.call(words).text(), error, "{words}");
    }
    client.ok("REPLCONF capa unheard-of listening-port 1");
    client.ok("REPLCONF rdb-filter-only functions");
    assert_eq!(client.call("SYNC").text(), "ERR Filtered replica requires EOF capability");
    // From a client that is not a replica it has no effect, and no reply.
    client.send(&request("REPLCONF ACK 100"));
    assert_eq!(client.call("PING").text(), "PONG");
}

/// An acknowledged change then survives the server. With one thread this always holds; with
/// several, the replica may belong to another thread.
#[test]
fn a_change_is_sent_to_the_replica_before_it_is_acknowledged() {
    let usual = ["--io-threads", "1", "--repl-ping-replica-period", "1000", "--appendfsync", "always"];
    for file in ["no", "yes"] {
        let server = primary(&[&usual[..], &["--appendonly", file]].concat());
        let mut client = server.connect();
        let (mut link, _, _) = attached(&server);
        client.ok("SET n first");
        let mut stream = Vec::new();
        while !stream.ends_with(b"first\r\n") {
            stream.extend(link.read_bytes(1));
        }
        for number in 0..1000 {
            let change = format!("SET n {number}");
            client.ok(&change);
            let sent = link.read_arrived();
            assert_eq!(sent, request(&change), "appendonly {file}, {number}: {}", sent.escape_ascii());
        }
    }
}
