// SPDX-License-Identifier: BSD-3-Clause
//! The ways from other servers to Braid (docs/moving.md) with data that not every server knows:
//! hash fields that expire, vector sets, and values of modules, JSON documents among them, if
//! `BRAID_STACK` names a program that starts Redis Stack.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use braid_tests::server::{Peer, free_port, program_under_test};
use braid_tests::{RawClient, TestServer, Value, wait_for};

use crate::{figure, peers, wait_until_in_sync};

/// Commands that create values for which Braid has no place. Servers know some of them or none.
const FOREIGN: [&str; 1] = ["TS.ADD series 1 2"];
const DOCUMENT: &str = r#"JSON.SET document $ {"a":[1,2.5,"x"]}"#;
const VECTORS: &str = "VADD vectors VALUES 2 3 4 element";
/// A command that makes a sketch of each type, a command that asks it, and the reply.
const SKETCHES: [(&[&str], &str, &str); 5] = [
    (&["BF.ADD bloom one"], "BF.MEXISTS bloom one two", "[1, 0]"),
    (&["CF.ADD cuckoo one"], "CF.MEXISTS cuckoo one two", "[1, 0]"),
    (&["CMS.INITBYDIM cms 100 5", "CMS.INCRBY cms one 7"], "CMS.QUERY cms one two", "[7, 0]"),
    (&["TOPK.RESERVE topk 2", "TOPK.ADD topk one"], "TOPK.LIST topk WITHCOUNT", "[\"one\", 1]"),
    (&["TDIGEST.CREATE digest", "TDIGEST.ADD digest 1 2 3"], "TDIGEST.QUANTILE digest 0.5", "[\"2\"]"),
];
const TIME: i64 = 4_000_000_000_000;

/// Stock servers, and Redis Stack.
fn sources() -> Vec<Peer> {
    let stack = std::env::var_os("BRAID_STACK")
        .map(|program| Peer { program: program.into(), version: "redis stack".to_owned() });
    peers().into_iter().chain(stack).collect()
}

/// A running source.
struct From {
    server: TestServer,
    client: RawClient,
    name: String,
    /// Its hash fields can expire.
    has_times: bool,
    has_documents: bool,
    has_vectors: bool,
    has_sketches: bool,
    /// The command that created each key that Braid cannot have.
    foreign: Vec<&'static str>,
}

impl From {
    fn start(peer: &Peer, arguments: &[&str]) -> From {
        let usual = ["--repl-diskless-sync-delay", "0"];
        let server = TestServer::start_program(&peer.program, &[&usual[..], arguments].concat());
        let mut client = server.connect();
        client.ok("SET plain value");
        client.call("HSET hash a 1 b 2");
        let has_times = !client.call(&format!("HPEXPIREAT hash {TIME} FIELDS 1 a")).is_error();
        let has_documents = !client.call(DOCUMENT).is_error();
        let has_vectors = !client.call(VECTORS).is_error();
        let foreign = FOREIGN.into_iter().filter(|command| !client.call(command).is_error()).collect();
        println!("{} has {foreign:?}", peer.version);
        let make = |(commands, ..): &(&[&str], _, _)| {
            commands.iter().all(|command| !client.call(command).is_error())
        };
        let has_sketches = SKETCHES.iter().all(make);
        let name = peer.version.clone();
        From { server, client, name, has_times, foreign, has_documents, has_vectors, has_sketches }
    }

    fn is_valkey(&self) -> bool {
        self.name.starts_with("valkey")
    }

    fn foreign_keys(&self) -> Vec<&'static str> {
        self.foreign.iter().filter_map(|command| command.split(' ').nth(1)).collect()
    }

    /// Copies its dump file, or its folder of append-only files, into a new folder.
    fn copied(&self, name: &str) -> tempfile::TempDir {
        let to = tempfile::tempdir().expect("a folder");
        let from = self.server.directory().join(name);
        if from.is_dir() {
            fs::create_dir(to.path().join(name)).expect("a folder");
            for file in fs::read_dir(&from).expect("files").flatten() {
                fs::copy(file.path(), to.path().join(name).join(file.file_name())).expect("a copy");
            }
        } else {
            fs::copy(from, to.path().join(name)).expect("a copy");
        }
        to
    }
}

/// Everything that Braid can have is there, times included, and nothing else.
#[track_caller]
fn check(from: &From, client: &mut RawClient) {
    assert_eq!(client.call("GET plain").text(), "value");
    assert_eq!(client.call("HGETALL hash").to_string(), "[\"a\", \"1\", \"b\", \"2\"]");
    let times = [if from.has_times { TIME } else { -1 }, -1].map(Value::Integer);
    assert_eq!(client.call("HPEXPIRETIME hash FIELDS 2 a b"), Value::Array(times.to_vec()));
    if from.has_documents {
        assert_eq!(client.call("JSON.GET document").text(), r#"{"a":[1,2.5,"x"]}"#);
    }
    if from.has_vectors {
        assert_eq!(client.call("VSIM vectors VALUES 2 3 4").to_string(), "[\"element\"]");
    }
    let mut own = i64::from(from.has_documents) + i64::from(from.has_vectors);
    if from.has_sketches {
        for (_, question, answer) in SKETCHES {
            assert_eq!(client.call(question).to_string(), answer, "{}: {question}", from.name);
        }
        own += SKETCHES.len() as i64;
    }
    assert_eq!(client.call("DBSIZE"), Value::Integer(2 + own));
}

/// The output of a server under test that cannot start with the files of this folder.
#[track_caller]
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program_under_test())
        .args(["--port", &free_port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder)
        .args(arguments)
        .output()
        .expect("the program runs");
    assert!(!output.status.success(), "it started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a server under test with the files of this folder: with all data, or if the source has
/// values of modules only with `rdb-skip-unsupported`.
#[track_caller]
fn load(from: &From, folder: &Path, arguments: &[&str]) {
    let path = folder.to_str().expect("text");
    let start =
        |more: &[&str]| TestServer::start(&[&["--dir", path, "--save", ""], arguments, more].concat());
    if from.foreign.is_empty() {
        return check(from, &mut start(&[]).connect());
    }
    let log = refusal(folder, arguments);
    assert!(log.contains("a value of the module type '"), "{}: {log}", from.name);
    let server = start(&["--rdb-skip-unsupported", "yes"]);
    let mut client = server.connect();
    check(from, &mut client);
    let left_out = figure(&mut client, "persistence", "rdb_last_load_keys_unsupported");
    assert_eq!(left_out as usize, from.foreign.len(), "{}", from.name);
}

#[test]
fn by_a_dump_file() {
    for peer in sources() {
        let mut from = From::start(&peer, &[]);
        from.client.ok("SAVE");
        load(&from, from.copied("dump.rdb").path(), &[]);
    }
}

#[test]
fn by_a_dump_file_that_a_command_line_client_fetches() {
    for peer in sources() {
        let from = From::start(&peer, &[]);
        let name = if from.is_valkey() { "valkey-cli" } else { "redis-cli" };
        let beside = std::env::var_os("BRAID_PEERS_DIR").map(|folder| PathBuf::from(folder).join(name));
        let client = beside.filter(|program| program.is_file()).unwrap_or_else(|| name.into());
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dump.rdb");
        let output = Command::new(client)
            .args(["-p", &from.server.port().to_string(), "--rdb"])
            .arg(&file)
            .output()
            .expect("the client starts");
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if from.is_valkey() {
            // It has no version in which it could send fields that expire to such a client.
            assert!(!output.status.success(), "{said}");
            let known =
                ["Error reading bulk length while SYNCing", "I/O Error reading RDB payload from socket"];
            assert!(known.iter().any(|error| said.contains(error)), "{said}");
            continue;
        }
        assert!(output.status.success(), "{said}");
        load(&from, folder.path(), &[]);
    }
}

#[test]
fn by_an_append_only_file() {
    for peer in sources() {
        // Otherwise a stock server may put off its writes while it syncs.
        let mut from = From::start(&peer, &["--appendonly", "yes", "--appendfsync", "always"]);
        let loads = ["--appendonly", "yes"];
        // Everything is in the increment, and then in the base.
        let folder = from.copied("appendonlydir");
        if from.foreign.is_empty() {
            load(&from, folder.path(), &loads);
        } else {
            let log = refusal(folder.path(), &[&loads[..], &["--rdb-skip-unsupported", "yes"]].concat());
            let command = from.foreign[0].split(' ').next().expect("a name");
            let expected = format!("Unknown command '{command}' reading the append only file");
            assert!(log.to_lowercase().contains(&expected.to_lowercase()), "{}: {log}", from.name);
        }
        from.client.call("BGREWRITEAOF");
        wait_for("the file is rewritten", || {
            figure(&mut from.client, "persistence", "aof_rewrite_in_progress") == 0
                && from.server.directory().join("appendonlydir/appendonly.aof.2.base.rdb").exists()
        });
        load(&from, from.copied("appendonlydir").path(), &loads);
    }
}

#[test]
fn by_migrate() {
    for peer in sources() {
        let mut from = From::start(&peer, &[]);
        let server = TestServer::start(&[]);
        let port = server.port();
        for key in from.foreign_keys() {
            let reply = from.client.call(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
            let error = "ERR Target instance replied with error: ERR Bad data format";
            assert_eq!(reply.text(), error, "{}: {key}", from.name);
            assert_eq!(from.client.call(&format!("EXISTS {key}")), Value::Integer(1));
        }
        let documents = if from.has_documents { "document" } else { "" };
        let vectors = if from.has_vectors { "vectors" } else { "" };
        let sketches = if from.has_sketches { "bloom cuckoo cms topk digest" } else { "" };
        let keys = format!("plain hash {documents} {vectors} {sketches}");
        from.client.ok(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {}", keys.trim()));
        check(&from, &mut server.connect());
        assert_eq!(from.client.call("EXISTS plain hash"), Value::Integer(0));
    }
}

/// And back: the source takes over again, with everything it had.
#[test]
fn by_replication() {
    for peer in sources() {
        let mut from = From::start(&peer, &[]);
        let server = TestServer::start(&["--enable-debug-command", "yes"]);
        let mut client = server.connect();
        client.ok("SET own 1");
        client.ok(&format!("REPLICAOF 127.0.0.1 {}", from.server.port()));
        if !from.foreign.is_empty() {
            wait_for("the full sync is refused", || {
                server.log().contains("the full sync cannot be loaded, the old data is kept")
            });
            assert!(server.log().contains("a value of the module type '"), "{}", server.log());
            assert_eq!(client.call("GET own").text(), "1");
            client.ok("CONFIG SET rdb-skip-unsupported yes");
        }
        wait_until_in_sync(&mut from.client, &mut client);
        check(&from, &mut client);
        check_stream(&mut from, &mut client);
        if from.has_documents || from.has_vectors || from.has_sketches {
            // Otherwise Braid takes the source for a server that lacks these types.
            client.ok("CONFIG SET rdb-target redis-8");
        }
        let keys = from.client.call("DBSIZE");
        from.client.ok(&format!("FAILOVER TO 127.0.0.1 {}", server.port()));
        wait_for("Braid leads", || client.call("ROLE").to_string().contains("master"));
        client.ok("SET plain moved");
        wait_until_in_sync(&mut client, &mut from.client);
        assert_eq!(from.client.call("GET plain").text(), "moved");
        assert_eq!(figure(&mut client, "stats", "sync_full"), 0, "the source took a full sync");
        client.ok(&format!("FAILOVER TO 127.0.0.1 {}", from.server.port()));
        wait_for("the source leads", || from.client.call("ROLE").to_string().contains("master"));
        assert_eq!(from.client.call("DBSIZE"), keys, "{} has lost keys", from.name);
    }
}

/// Commands of modules that arrive in the stream change nothing, and are counted.
fn check_stream(from: &mut From, client: &mut RawClient) {
    let refused = |client: &mut RawClient| figure(client, "stats", "unexpected_error_replies");
    assert_eq!(refused(client), 0);
    let unknown = from.foreign.clone();
    for command in &unknown {
        let words: Vec<&str> = command.split(' ').collect();
        let name = format!("another-{}", words[1]);
        let again = [&[words[0], &name], &words[2..]].concat().join(" ");
        assert!(!from.client.call(&again).is_error(), "{again}");
    }
    from.client.ok("SET last 1");
    wait_until_in_sync(&mut from.client, client);
    assert_eq!(client.call("GET last").text(), "1");
    assert_eq!(refused(client) as usize, unknown.len(), "{}", from.name);
}
