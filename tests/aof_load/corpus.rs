// SPDX-License-Identifier: BSD-3-Clause
//! Files written by stock servers (`tests/corpus`): each is loaded, and the digest must equal its
//! writer's. And the reverse: stock servers, if installed, load the files that this server
//! writes.
//!
//! `BRAID_CORPUS=write` regenerates the files with the installed stock servers, and with the
//! KeyDB that `BRAID_KEYDB` names.

use std::fs;
use std::path::{Path, PathBuf};

use braid_tests::server::{Peer, is_braid, newer_peers, stock};
use braid_tests::{RawClient, TestServer, wait_for};

use super::rewrite;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Thresholds so low that a few members are enough to produce every encoding.
const SETTINGS: &[&str] = &[
    "hash-max-listpack-entries 8",
    "set-max-listpack-entries 8",
    "set-max-intset-entries 8",
    "zset-max-listpack-entries 8",
    "list-max-listpack-size 8",
    "stream-node-max-entries 5",
    // The names before Redis 7.
    "hash-max-ziplist-entries 8",
    "zset-max-ziplist-entries 8",
    "list-max-ziplist-size 8",
];

fn settle(client: &mut RawClient) {
    for setting in SETTINGS {
        // Errors are ignored: Redis 7.0 has no listpack encoding of sets, for example.
        client.call(&format!("CONFIG SET {setting}"));
    }
}

/// Writes keys of every type and encoding. `part` becomes part of their names.
fn fill(client: &mut RawClient, part: &str) {
    let long = "compressible ".repeat(700);
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut add = |line: &str| {
        let words = line.split(' ').map(|word| word.replace("{}", part));
        commands.push(words.collect());
    };
    for number in ["0", "-1", "127", "-32768", "2147483647", "-9223372036854775808", "007", "3.5"] {
        add(&format!("SET number:{number}:{{}} {number}"));
    }
    add("SET short:{} text");
    add("SET empty:{} x");
    add("SETRANGE zeros:{} 300 end");
    add("SETBIT bits:{} 1000 1");
    add("SET expires:{} v PXAT 4000000000000");
    for size in [5, 12] {
        for member in 0..size {
            add(&format!("RPUSH list:{size}:{{}} element-{member} {member}"));
            add(&format!("SADD ints:{size}:{{}} {}", member * 70_000));
            add(&format!("SADD set:{size}:{{}} member-{member} {member}"));
            add(&format!("HSET hash:{size}:{{}} field-{member} {member} {member} value"));
            add(&format!("ZADD sorted:{size}:{{}} {}.25 member-{member}", member * 3 - 20));
            add(&format!("PFADD hll:{size}:{{}} element-{member}"));
            add(&format!("XADD stream:{size}:{{}} {}-1 field {member} other-{member} value", member + 1));
        }
        add(&format!("XDEL stream:{size}:{{}} 2-1 3-1"));
        add(&format!("XGROUP CREATE stream:{size}:{{}} group 0"));
        add(&format!("XREADGROUP GROUP group one COUNT 2 STREAMS stream:{size}:{{}} >"));
        add(&format!("XREADGROUP GROUP group two COUNT 1 STREAMS stream:{size}:{{}} >"));
        add(&format!("XACK stream:{size}:{{}} group 1-1"));
    }
    add("ZADD infinite:{} inf a -inf b 0 c -0.0 d 0.125 e");
    add("GEOADD geo:{} 13.361389 38.115556 Palermo 15.087269 37.502669 Catania");
    add("PEXPIREAT hash:5:{} 4000000000000");
    add("SELECT 9");
    add("SET other:{} database");
    add("SELECT 0");
    for (key, command) in [("long", "SET"), ("list:long", "RPUSH"), ("set:long", "SADD")] {
        commands.push(vec![command.to_owned(), format!("{key}:{part}"), long.clone()]);
    }
    commands.push(vec!["HSET".to_owned(), format!("hash:long:{part}"), "field".to_owned(), long.clone()]);
    let all: String = (0..300).map(|number| format!("e{number} ")).collect();
    let dense = ["PFADD".to_owned(), format!("hll:dense:{part}")];
    commands.push(dense.into_iter().chain(all.split_whitespace().map(str::to_owned)).collect());
    for command in commands {
        let reply = client.call_arguments(&command);
        assert!(!reply.is_error(), "{command:?}: {reply}");
    }
}

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', function() return 'function' end)";

/// The digest of the dataset without hashes with expiring fields, and those hashes' content as
/// text. Deletes these hashes.
fn state(client: &mut RawClient) -> String {
    for key in TIMED {
        client.call(&format!("DEL {key}"));
    }
    let mut lines = take_expiring(client);
    lines.insert(0, client.call("DEBUG DIGEST").text());
    lines.push(String::new());
    lines.join("\n")
}

/// Keys with expiring members, as KeyDB has them. They are checked separately, because every
/// server computes their digest differently.
const TIMED: [&str; 3] = ["timed:set", "timed:sorted", "timed:hash"];

/// Creates those keys, and deletes data that KeyDB stores differently.
fn fill_timed(client: &mut RawClient) {
    for line in [
        "SADD timed:set a b gone",
        "ZADD timed:sorted 1 a 2 b 3 gone",
        "HSET timed:hash a 1 b 2 gone 3",
        "EXPIREMEMBERAT timed:set a 4000000000",
        "PEXPIREMEMBERAT timed:sorted a 4000000000000",
        "PEXPIREMEMBERAT timed:hash a 4000000000000",
        "EXPIREMEMBERAT timed:hash b 4000000000",
        "PERSIST timed:hash b",
        // Before Redis 7, small sorted sets could contain a negative zero.
        "ZREM infinite:first d",
        "ZREM infinite:second d",
    ] {
        let reply = client.call(line);
        assert!(!reply.is_error(), "{line}: {reply}");
    }
}

/// Checks the keys that [`fill_timed`] creates.
fn check_timed(client: &mut RawClient) {
    for (line, expected) in [
        ("SPEXPIRETIME timed:set MEMBERS 2 a b", [4_000_000_000_000, -1]),
        ("ZPEXPIRETIME timed:sorted MEMBERS 2 a b", [4_000_000_000_000, -1]),
        ("HPEXPIRETIME timed:hash FIELDS 2 a b", [4_000_000_000_000, -1]),
    ] {
        let times = client.call(line);
        let times: Vec<i64> =
            times.elements().unwrap_or_default().iter().filter_map(|time| time.integer()).collect();
        assert_eq!(times, expected, "{line}");
    }
}

/// Removes the hashes with expiring fields and returns their content, because every server
/// computes such fields' part of the digest differently.
fn take_expiring(client: &mut RawClient) -> Vec<String> {
    let mut held = Vec::new();
    for size in [5, 12] {
        let key = format!("hash:{size}:first");
        let times = client.call(&format!("HPEXPIRETIME {key} FIELDS 2 field-1 field-2"));
        let all = client.call(&format!("HGETALL {key}"));
        let pairs = all.elements().unwrap_or_default().chunks(2);
        let mut fields: Vec<String> =
            pairs.map(|pair| format!("{}={}", pair[0].text(), pair[1].text())).collect();
        fields.sort();
        // Redis before 7.4 does not have such times.
        let times = if times.to_string().contains("4000000000000") { "times" } else { "no times" };
        held.push(format!("{key} {times} {}", fields.join(" ")));
        client.call(&format!("DEL {key}"));
    }
    held
}

/// Sets an expiry on fields, if the server supports that.
fn expire_fields(client: &mut RawClient) {
    for size in [5, 12] {
        client.call(&format!("HPEXPIREAT hash:{size}:first 4000000000000 FIELDS 1 field-1"));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("a folder") {
        let file = file.expect("readable");
        fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

/// Makes a server write an append-only file and a dump with everything, and copies them and the
/// digest to `to`.
fn write(mut server: TestServer, to: &Path, with_times: bool) {
    let mut client = server.connect();
    settle(&mut client);
    fill(&mut client, "first");
    if with_times {
        expire_fields(&mut client);
    }
    // KeyDB has no functions.
    let has_functions = !client.call_arguments(&["FUNCTION", "LOAD", LIBRARY]).is_error();
    rewrite(&mut client);
    fill(&mut client, "second");
    for line in
        ["MULTI", "INCR counter", "INCR counter", "EXEC", "DEL number:0:first", "RENAME short:first renamed"]
    {
        assert!(!client.call(line).is_error(), "{line}");
    }
    // Servers before Redis 7.2 do not know WAITAOF; they write before they reply.
    client.call("WAITAOF 1 0 0");
    assert!(!client.call("SAVE").is_error());
    fs::create_dir_all(to).expect("a folder");
    if !has_functions {
        fill_timed(&mut client);
        assert!(!client.call("SAVE").is_error());
        client.ok("CONFIG SET appendfsync always");
        client.ok("SET last write");
        assert_eq!(client.call("DEL last").integer(), Some(1));
    }
    fs::copy(server.directory().join("dump.rdb"), to.join("dump.rdb")).expect("a copy");
    copy_append_only(server.directory(), to);
    fs::write(to.join("digest"), state(&mut client)).expect("a file");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
}

/// Copies an append-only file: a folder, or a single file as before Redis 7.
fn copy_append_only(from: &Path, to: &Path) {
    if from.join("appendonlydir").is_dir() {
        copy(&from.join("appendonlydir"), &to.join("appendonlydir"));
    } else {
        fs::copy(from.join("appendonly.aof"), to.join("appendonly.aof")).expect("a copy");
    }
}

/// Makes a KeyDB write the changes that it receives from another active KeyDB: requests nested in
/// requests.
fn write_of_active_keydb(program: &Path, to: &Path) {
    let arguments = [
        "--appendonly",
        "yes",
        "--aof-use-rdb-preamble",
        "no",
        "--active-replica",
        "yes",
        "--server-threads",
        "1",
    ];
    let (source, writer) =
        (TestServer::start_program(program, &arguments), TestServer::start_program(program, &arguments));
    let (mut from, mut client) = (source.connect(), writer.connect());
    settle(&mut from);
    settle(&mut client);
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", source.port()));
    wait_for("the link", || {
        client.info_field("replication", "master_link_status").as_deref() == Some("up")
            && client.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
    });
    fill(&mut from, "first");
    fill(&mut from, "second");
    for line in ["MULTI", "INCR counter", "INCR counter", "EXEC", "RENAME short:first renamed"] {
        assert!(!from.call(line).is_error(), "{line}");
    }
    fill_timed(&mut from);
    from.ok("SET the-last 1");
    wait_for("the last change", || client.call("GET the-last").text() == "1");
    client.ok("CONFIG SET appendfsync always");
    client.ok("SET own write");
    assert!(!client.call("SAVE").is_error());
    fs::create_dir_all(to).expect("a folder");
    fs::copy(writer.directory().join("dump.rdb"), to.join("dump.rdb")).expect("a copy");
    copy_append_only(writer.directory(), to);
    let text = fs::read(to.join("appendonly.aof")).expect("a file");
    assert!(text.windows(7).any(|word| word.eq_ignore_ascii_case(b"RREPLAY")));
    fs::write(to.join("digest"), state(&mut client)).expect("a file");
}

const WRITES: [&str; 4] = ["--appendonly", "yes", "--enable-debug-command", "yes"];

fn start(peer: Option<&Peer>, arguments: &[&str]) -> TestServer {
    match peer {
        Some(peer) => TestServer::start_program(&peer.program, arguments),
        None => TestServer::start(arguments),
    }
}

/// The folder's name for files written by a server.
fn folder_of(peer: &Peer, preamble: bool) -> String {
    let version: Vec<&str> = peer.version.split('.').collect();
    format!("{}.{}-{}", version[0].replace(' ', "-"), version[1], if preamble { "dump" } else { "commands" })
}

/// Starts a server with a folder's files, once as a dump and once as an append-only file, and
/// compares digests.
fn load(peer: Option<&Peer>, folder: &Path) {
    let expected = fs::read_to_string(folder.join("digest")).expect("a digest");
    for append_only in [false, true] {
        let place = tempfile::tempdir().expect("a folder");
        fs::copy(folder.join("dump.rdb"), place.path().join("dump.rdb")).expect("a copy");
        if append_only {
            copy_append_only(folder, place.path());
        }
        let path = place.path().to_str().expect("readable");
        let yes_or_no = if append_only { "yes" } else { "no" };
        let server =
            start(peer, &["--dir", path, "--appendonly", yes_or_no, "--enable-debug-command", "yes"]);
        let mut client = server.connect();
        let who = peer.map_or("the server under test", |peer| &peer.version);
        let is_of_keydb = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("keydb"));
        if is_of_keydb {
            check_timed(&mut client);
        } else {
            assert_eq!(client.call("FCALL f 0").text(), "function");
        }
        let found = state(&mut client);
        assert_eq!(found, expected, "{} in {who}, append-only: {append_only}", folder.display());
        assert_eq!(client.call("PEXPIRETIME expires:second").integer(), Some(4_000_000_000_000));
        let log = server.log();
        assert!(!log.contains("== CRITICAL =="), "{log}");
    }
}

fn writes_corpus() -> bool {
    std::env::var_os("BRAID_CORPUS").is_some_and(|wanted| wanted == "write")
}

#[test]
fn files_of_stock_servers() {
    if writes_corpus() {
        for peer in stock().into_iter().chain(newer_peers()) {
            for preamble in [true, false] {
                let arguments =
                    [&WRITES[..], &["--aof-use-rdb-preamble", if preamble { "yes" } else { "no" }]];
                let server = start(Some(&peer), &arguments.concat());
                let folder = corpus().join(folder_of(&peer, preamble));
                let _ = fs::remove_dir_all(&folder);
                write(server, &folder, true);
            }
        }
    }
    if let (Some(program), true) = (std::env::var_os("BRAID_KEYDB"), writes_corpus()) {
        for (preamble, form) in [("yes", "dump"), ("no", "commands")] {
            let arguments =
                [&WRITES[..2], &["--aof-use-rdb-preamble", preamble, "--server-threads", "2"]].concat();
            let folder = corpus().join(format!("keydb-6.3-{form}"));
            let _ = fs::remove_dir_all(&folder);
            write(TestServer::start_program(Path::new(&program), &arguments), &folder, false);
        }
        let folder = corpus().join("keydb-6.3-active");
        let _ = fs::remove_dir_all(&folder);
        write_of_active_keydb(Path::new(&program), &folder);
    }
    if !is_braid() {
        return;
    }
    let mut folders: Vec<PathBuf> =
        fs::read_dir(corpus()).expect("the corpus").map(|folder| folder.expect("readable").path()).collect();
    folders.sort();
    assert!(folders.len() >= 9, "{folders:?}");
    for folder in folders {
        load(None, &folder);
    }
}

#[test]
fn files_of_this_server() {
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    if peers.is_empty() || !is_braid() {
        println!("skipped: no stock server");
        return;
    }
    let probe = TestServer::start(&WRITES);
    let writes = probe.connect().info_field("persistence", "aof_enabled").as_deref() == Some("1");
    drop(probe);
    if !writes {
        return;
    }
    for (with_times, preamble) in [(false, "yes"), (true, "yes"), (false, "no"), (true, "no")] {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("made");
        let arguments = [&WRITES[..], &["--aof-use-rdb-preamble", preamble]].concat();
        write(TestServer::start(&arguments), &folder, with_times);
        let base = if preamble == "yes" { "appendonly.aof.2.base.rdb" } else { "appendonly.aof.2.base.aof" };
        assert!(folder.join("appendonlydir").join(base).is_file(), "{base}");
        load(None, &folder);
        for peer in &peers {
            // These servers load files written for them in full.
            let target = match &peer.version {
                version if version.starts_with("redis 7.0") && !with_times => "redis-7.0",
                version if version.starts_with("redis 8") && preamble == "yes" => "redis-8",
                _ => "",
            };
            if !target.is_empty() {
                let place = tempfile::tempdir().expect("a folder");
                let folder = place.path().join("made");
                write(
                    TestServer::start(&[&arguments[..], &["--rdb-target", target]].concat()),
                    &folder,
                    with_times,
                );
                load(Some(peer), &folder);
            }
            // Files have the format of Redis 7.2. Expiring fields are written as Valkey 9 writes
            // them, and only Valkey 9 loads those.
            let reads = if with_times { "valkey 9" } else { "" };
            if peer.version.starts_with(reads) && !peer.version.starts_with("redis 7.0") {
                load(Some(peer), &folder);
            }
        }
    }
}
