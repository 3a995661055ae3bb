// SPDX-License-Identifier: BSD-3-Clause
//! Hand-made append-only files: the data that a server loads from them, the files that it
//! refuses, and its log messages.
//!
//!   cargo test -p braid-tests --test aof_load
//!
//! `BRAID_VECTOR_STEPS`: number of random steps of the test of vector sets (default 12000).

mod arrays;
mod backup;
mod bloom;
mod corpus;
mod json;
mod protection;
mod restarts;
mod search;
mod sketches;
mod stream_names;
mod suggestions;
mod vectors;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use braid_tests::server::{free_port, is_braid, program_under_test};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;
use tempfile::TempDir;

/// Rewrites the append-only file, and waits until that is done.
#[track_caller]
fn rewrite(client: &mut RawClient) {
    let mut field = |name: &str| client.info_field("persistence", name).unwrap_or_default();
    let before: u64 = field("aof_rewrites").parse().expect("a number");
    client.call("BGREWRITEAOF");
    let mut field = |name: &str| client.info_field("persistence", name).unwrap_or_default();
    wait_for("the rewrite is over", || {
        field("aof_rewrite_in_progress") == "0"
            && field("aof_rewrite_scheduled") == "0"
            && field("aof_rewrites") == (before + 1).to_string()
    });
    assert_eq!(field("aof_last_bgrewrite_status"), "ok");
}

/// A folder to start a server in.
struct DataFolder(TempDir);

const INCR: &str = "appendonly.aof.1.incr.aof";

impl DataFolder {
    fn new() -> DataFolder {
        DataFolder(tempfile::tempdir().expect("a folder"))
    }

    /// A folder with an append-only file of these files; those with `base` in their names are
    /// bases. The sequence numbers in the manifest come from the names.
    fn with(files: &[(&str, Vec<u8>)]) -> DataFolder {
        let place = DataFolder::new();
        let mut manifest = String::new();
        for (name, content) in files {
            place.write(name, content);
            let kind = if name.contains("base") { "b" } else { "i" };
            let seq = name.split('.').find_map(|part| part.parse::<u32>().ok()).expect("a number");
            manifest.push_str(&format!("file {name} seq {seq} type {kind}\n"));
        }
        place.write("appendonly.aof.manifest", manifest.as_bytes());
        place
    }

    /// An append-only file with a single increment.
    fn of(content: Vec<u8>) -> DataFolder {
        DataFolder::with(&[(INCR, content)])
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, content: &[u8]) {
        let folder = self.path().join("appendonlydir");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), content).expect("a file");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join("appendonlydir").join(name)).expect("the file is there")
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = ["--dir", self.path().to_str().expect("a readable path"), "--appendonly", "yes"];
        own.iter().chain(more).copied().collect()
    }

    fn start(&self, more: &[&str]) -> TestServer {
        TestServer::start(&self.arguments(more))
    }

    /// Starts a server that must refuse to come up; returns its log.
    #[track_caller]
    fn refused(&self, more: &[&str]) -> String {
        let mut command = Command::new(program_under_test());
        command.args(["--port", &free_port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        let path = self.path().join("refused.log");
        let log = fs::File::create(&path).expect("a log file");
        command.args(self.arguments(more)).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let mut server = Killed(command.spawn().expect("it runs"));
        let mut status = None;
        wait_for("the server to exit", || {
            status = server.0.try_wait().expect("our own child");
            status.is_some()
        });
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(status.and_then(|status| status.code()), Some(1), "{text}");
        text
    }
}

/// A command as it is written in the file.
fn command(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text.into_bytes()
}

/// Commands, each given as a line of words.
fn commands(lines: &[&str]) -> Vec<u8> {
    lines.iter().map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect::<Vec<_>>().concat()
}

#[track_caller]
fn check(client: &mut RawClient, exchanges: &[(&str, &str)]) {
    for (line, reply) in exchanges {
        assert_eq!(client.call(line).to_string(), *reply, "{line}");
    }
}

#[test]
fn base_and_increments_in_order() {
    let place = DataFolder::with(&[
        ("appendonly.aof.3.base.aof", commands(&["SET k base", "SET gone base", "LPUSH l a"])),
        ("appendonly.aof.4.incr.aof", commands(&["SELECT 3", "SET k other", "SELECT 0", "APPEND k -one"])),
        ("appendonly.aof.5.incr.aof", Vec::new()),
        ("appendonly.aof.9.incr.aof", commands(&["RPUSH l b", "DEL gone", "APPEND k -two"])),
    ]);
    let server = place.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("GET k").text(), "base-one-two");
    assert_eq!(client.call("LRANGE l 0 -1"), Value::Array(vec![Value::bulk("a"), Value::bulk("b")]));
    assert_eq!(client.call("DBSIZE").integer(), Some(2));
    client.ok("SELECT 3");
    assert_eq!(client.call("GET k").text(), "other");
    let log = server.log();
    assert!(log.contains("DB loaded from base file appendonly.aof.3.base.aof: "), "{log}");
    assert!(log.contains("DB loaded from incr file appendonly.aof.9.incr.aof: "), "{log}");
    assert!(log.contains("DB loaded from append only file: "), "{log}");
}

#[test]
fn loads_transactions_scripts_annotations_and_read_commands() {
    let mut content = b"#TS:1700000000\r\n".to_vec();
    content.extend(commands(&["SELECT 0", "MULTI", "SET a 1", "INCR a", "SELECT 2", "SET b 2", "EXEC"]));
    content.extend_from_slice(b"# anything\r\n");
    content.extend(commands(&["SELECT 0", "PING", "GET a", "PUBLISH c m", "pfadd hll x", "PFCOUNT hll"]));
    content.extend(command(&["EVAL", "redis.call('SET', KEYS[1], ARGV[1])", "1", "s", "v"]));
    content.extend(command(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 7 end)",
    ]));
    let place = DataFolder::of(content.clone());
    let server = place.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("GET a").text(), "2");
    assert_eq!(client.call("GET s").text(), "v");
    assert_eq!(client.call("PFCOUNT hll").integer(), Some(1));
    assert_eq!(client.call("FCALL f 0").integer(), Some(7));
    client.ok("SELECT 2");
    assert_eq!(client.call("GET b").text(), "2");
    assert_eq!(place.read(INCR)[..content.len()], content, "loading changed the file");
}

/// Stock servers replace the requested threshold with the effective one, but leave LIMIT in
/// place.
#[test]
fn trim_limit_with_an_exact_threshold_is_loaded() {
    let place = DataFolder::of(commands(&[
        "SELECT 0",
        "XADD s 1-1 f v",
        "XADD s 2-1 f v",
        "XADD s MAXLEN = 2 LIMIT 1 3-1 f v",
        "XTRIM s MAXLEN = 1 LIMIT 10",
    ]));
    let server = place.start(&[]);
    assert_eq!(server.connect().call("XLEN s"), Value::Integer(1), "{}", server.log());
    assert!(!server.log().contains("CRITICAL"), "{}", server.log());
}

#[test]
fn aof_loading_ignores_acl_and_maxmemory() {
    let mut content = commands(&["SET k v", "SET s v"]);
    if is_braid() {
        // A stock server exits at this command.
        content.extend(commands(&["EVAL return(redis.call('set','s','w')) 0"]));
    }
    let place = DataFolder::of(content);
    let users = place.path().join("users.acl");
    fs::write(&users, "user default off -@all\nuser admin on nopass ~* +@all\n").expect("a file");
    let server = place.start(&["--aclfile", users.to_str().expect("readable"), "--maxmemory", "1"]);
    let mut client = server.connect();
    client.ok("AUTH admin any");
    assert_eq!(client.call("EXISTS k s").integer(), Some(2));
}

#[test]
fn scripts_in_the_file_of_a_replica_write() {
    let place = DataFolder::of(commands(&[
        "EVAL return(redis.call('set',KEYS[1],'100')) 1 foo",
        "EVAL return(redis.call('incr',KEYS[1])) 1 foo",
    ]));
    let port = free_port().to_string();
    let server = place.start(&["--replicaof", "127.0.0.1", &port]);
    assert_eq!(server.connect().call("GET foo").text(), "101");
}

#[test]
fn a_file_that_ends_within_a_command_is_cut() {
    let good = commands(&["SET a 1", "SET b 2"]);
    for tail in [&b"*3\r\n$3\r\nSET\r\n$1\r\nc"[..], b"*", b"*3\r", b"*3\r\n$3\r\nSET\r\n$1000\r\nabc"] {
        let place = DataFolder::of([&good, tail].concat());
        let log = place.refused(&["--aof-load-truncated", "no"]);
        assert!(
            log.contains(&format!("Unexpected end of file reading the append only file {INCR}")),
            "{log}"
        );
        assert_eq!(place.read(INCR), [&good, tail].concat());
        let server = place.start(&[]);
        assert_eq!(server.connect().call("MGET a b c").to_string(), "[\"1\", \"2\", (nil)]");
        let log = server.log();
        assert!(
            log.contains(&format!("!!! Warning: short read while loading the AOF file {INCR}!!!")),
            "{log}"
        );
        let cut = format!("!!! Truncating the AOF {INCR} at offset {} !!!", good.len());
        assert!(log.contains(&cut), "{log}");
        assert!(
            log.contains(&format!("AOF {INCR} loaded anyway because aof-load-truncated is enabled")),
            "{log}"
        );
        assert!(place.read(INCR).starts_with(&good));
    }
}

/// The commands of a file whose lines begin with `#` in annotations only.
fn without_annotations(file: &[u8]) -> Vec<u8> {
    file.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"#"))
        .flatten()
        .copied()
        .collect()
}

#[test]
fn a_transaction_without_its_end_is_not_done() {
    let good = commands(&["SELECT 0", "SET a 1"]);
    // A stock server truncates the second file after INCR, so commands appended later become part
    // of the transaction.
    let tails = [&b""[..], b"*2\r\n$3\r\nDEL"];
    for tail in &tails[..if is_braid() { 2 } else { 1 }] {
        let open = commands(&["MULTI", "SET b 2", "INCR a"]);
        let place = DataFolder::of([&good[..], &open, tail].concat());
        let server = place.start(&[]);
        assert_eq!(server.connect().call("MGET a b").to_string(), "[\"1\", (nil)]");
        let log = server.log();
        assert!(log.contains(&format!("at offset {} !!!", good.len())), "{log}");
        drop(server);
        assert_eq!(without_annotations(&place.read(INCR)), good);
    }
    let place = DataFolder::of([&good[..], &commands(&["MULTI", "SET b 2"])].concat());
    place.refused(&["--aof-load-truncated", "no"]);
}

#[test]
fn the_zeros_of_a_base_without_a_checksum_are_its_own() {
    let place = DataFolder::new();
    let server = place.start(&["--rdbchecksum", "no"]);
    let base = "appendonly.aof.1.base.rdb";
    let before = place.read(base);
    assert!(before.ends_with(&[0; 8]), "no checksum");
    server.connect().ok("SET k v");
    drop(server);
    for _ in 0..2 {
        let server = place.start(&["--rdbchecksum", "no"]);
        assert_eq!(server.connect().call("GET k").text(), "v");
        assert_eq!(place.read(base), before);
    }
}

/// With `appendfsync always` a killed server leaves zeros at the end, written ahead. They are not
/// a truncated command: the file is intact.
#[test]
fn zeros_at_the_end_are_no_damage() {
    if !is_braid() {
        return;
    }
    let (good, zeros) = (commands(&["SET a 1"]), [0; 5000]);
    let refuses = ["--aof-load-truncated", "no"];
    let place = DataFolder::of([&good[..], &zeros].concat());
    let server = place.start(&refuses);
    assert_eq!(server.connect().call("GET a").text(), "1");
    drop(server);
    let left = place.read(INCR);
    assert!(left.starts_with(&good) && !left.contains(&0));
    let cut = [&good[..], b"*3\r\n$3\r\nSET\r\n$1\r\nb"].concat();
    let place = DataFolder::of([&cut[..], &zeros].concat());
    place.refused(&refuses);
    assert!(place.read(INCR).starts_with(&cut));
    assert_eq!(place.start(&[]).connect().call("MGET a b").to_string(), "[\"1\", (nil)]");
}

/// Zeros in part of a file.
fn with_hole(content: &[u8], hole: std::ops::Range<usize>) -> Vec<u8> {
    let mut content = content.to_vec();
    content[hole].fill(0);
    content
}

/// Two units of disk space within the long value of a key.
fn within_value(content: &[u8], key: &str) -> std::ops::Range<usize> {
    let named = content.windows(key.len()).position(|window| window == key.as_bytes());
    let start = (named.expect("the command") + 20).next_multiple_of(512);
    start..start + 1024
}

/// A power failure can keep data from the disk although later data is there: the file is cut where
/// the zeros begin.
#[test]
fn a_file_with_a_hole_is_cut() {
    if !is_braid() {
        return;
    }
    let lines: Vec<String> = (10..70).map(|number| format!("SET key:{number} value:{number}")).collect();
    let content = commands(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let record = content.len() / lines.len();
    for start in [0, 1, 3, 16, record, record + 2, record + 9, record + 31, record + 32, 490, 700] {
        let hole = start..(start + 16).next_multiple_of(512);
        let holed = with_hole(&content, hole.clone());
        let place = DataFolder::of(holed.clone());
        let log = place.refused(&["--aof-load-truncated", "no"]);
        assert!(log.contains("Bad file format"), "{log}");
        assert_eq!(place.read(INCR), holed);
        let mut server = place.start(&[]);
        let log = server.log();
        assert!(log.contains("in place of data that was not synced"), "{hole:?}: {log}");
        let whole = (start / record) as i64;
        let mut client = server.connect();
        assert_eq!(client.call("DBSIZE"), Value::Integer(whole), "{hole:?}");
        client.ok("SET later 1");
        server.signal(Signal::TERM);
        server.wait();
        let server = place.start(&["--aof-load-truncated", "no"]);
        assert_eq!(server.connect().call("DBSIZE"), Value::Integer(whole + 1), "{hole:?}");
        // Later files may depend on what is missing.
        let next = ("appendonly.aof.2.incr.aof", commands(&["SET b 2"]));
        DataFolder::with(&[(INCR, holed), next]).refused(&[]);
    }
}

/// Only the checksum finds a hole in a value. By then the server has executed commands that it
/// must forget.
#[test]
fn nothing_after_a_hole_in_a_value_remains() {
    if !is_braid() {
        return;
    }
    let written = DataFolder::new();
    let mut server = written.start(&["--auto-aof-rewrite-percentage", "0"]);
    let mut client = server.connect();
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    for number in 0..8 {
        client.call("INCR count");
        let key = format!("long:{number}");
        client.call_arguments(&["SET", &key, &"v".repeat(3000)]);
        // Each write has a checksum, so they must not be joined.
        let is_written = || written.read(INCR).windows(key.len()).any(|window| window == key.as_bytes());
        wait_for("the file has the value", is_written);
    }
    client.call_arguments(&["FUNCTION", "LOAD", library]);
    server.signal(Signal::TERM);
    server.wait();
    let content = written.read(INCR);
    let hole = within_value(&content, "long:3");
    let place = DataFolder::of(with_hole(&content, hole.clone()));
    let server = place.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("MGET count long:3 long:4").to_string(), r#"["4", (nil), (nil)]"#);
    assert_eq!(client.call("DBSIZE"), Value::Integer(4));
    assert_eq!(client.call("FUNCTION LIST"), Value::Array(Vec::new()));
    assert!(
        server.log().contains(&format!("zeros at offset {} of the AOF file", hole.start)),
        "{}",
        server.log()
    );
}

/// Commands whose checksum comes late, because they were written together, are kept up to the hole.
#[test]
fn what_is_before_a_hole_remains_although_one_sum_covers_both() {
    if !is_braid() {
        return;
    }
    let written = DataFolder::new();
    let mut server = written.start(&["--auto-aof-rewrite-percentage", "0"]);
    let mut client = server.connect();
    let (short, long) = ("v".repeat(200), "v".repeat(3000));
    // Less than a checksum is written for, and then a value that calls for one.
    for number in 0..7 {
        client.call_arguments(&["SET", &format!("short:{number}"), &short]);
    }
    client.call_arguments(&["SET", "long", &long]);
    server.signal(Signal::TERM);
    server.wait();
    let content = written.read(INCR);
    let place = DataFolder::of(with_hole(&content, within_value(&content, "long")));
    let server = place.start(&[]);
    assert_eq!(server.connect().call("DBSIZE"), Value::Integer(7), "{}", server.log());
}

#[test]
fn only_the_last_file_may_be_cut() {
    let first = [&commands(&["SET a 1"])[..], b"*3\r\n$3"].concat();
    let place = DataFolder::with(&[(INCR, first), ("appendonly.aof.2.incr.aof", commands(&["SET b 2"]))]);
    let log = place.refused(&[]);
    assert!(log.contains("Fatal error: the truncated file is not the last file"), "{log}");
}

/// A server killed during a rewrite leaves the file that it was writing, and the next one, which
/// the manifest already names.
#[test]
fn the_file_before_an_empty_one_may_be_cut() {
    if !is_braid() {
        return;
    }
    const NEXT: &str = "appendonly.aof.2.incr.aof";
    let cut = [&commands(&["SET a 1"])[..], b"*3\r\n$3"].concat();
    for next in [&b""[..], &[0; 5000]] {
        let place = DataFolder::with(&[(INCR, cut.clone()), (NEXT, next.to_vec())]);
        place.refused(&["--aof-load-truncated", "no"]);
        assert_eq!(place.read(INCR), cut);
        for value in ["1", "2"] {
            let server = place.start(&["--appendfsync", "always"]);
            let mut client = server.connect();
            assert_eq!(client.call("GET a").text(), value);
            client.ok("SET a 2");
        }
        assert_eq!(place.read(INCR), commands(&["SET a 1"]));
        let next = without_annotations(&place.read(NEXT));
        assert!(next.starts_with(&commands(&["SELECT 0", "SET a 2"])));
    }
}

#[test]
fn damage_is_refused() {
    let good = commands(&["SET a 1"]);
    for tail in [&b"x"[..], b"*0\r\n", b"*x\r\n", b"*1\r\n:4\r\nPING\r\n", b"\0\0\0x"] {
        let place = DataFolder::of([&good, tail].concat());
        let log = place.refused(&[]);
        assert!(log.contains(&format!("Bad file format reading the append only file {INCR}")), "{log}");
        assert_eq!(place.read(INCR), [&good, tail].concat());
    }
    let log = DataFolder::of(commands(&["NOSUCH a"])).refused(&[]);
    assert!(log.contains(&format!("Unknown command 'NOSUCH' reading the append only file {INCR}")), "{log}");
    let place = DataFolder::of(good);
    fs::remove_file(place.path().join("appendonlydir").join(INCR)).expect("it is there");
    let log = place.refused(&[]);
    assert!(log.contains(&format!("Unable to obtain the AOF file {INCR} length. stat: ")), "{log}");
    assert!(log.contains("No such file or directory"), "{log}");
    place.write("appendonly.aof.manifest", b"file appendonly.aof.1.incr.aof seq 1 type x\n");
    let log = place.refused(&[]);
    assert!(log.contains("Unknown AOF file type"), "{log}");
    let place = DataFolder::with(&[("appendonly.aof.1.base.rdb", b"REDIS0011\xff".to_vec())]);
    let log = place.refused(&[]);
    assert!(
        log.contains("Error reading the RDB base file appendonly.aof.1.base.rdb, AOF loading aborted"),
        "{log}"
    );
}

#[test]
fn braid_refuses_aof_files_that_stock_servers_load() {
    if !is_braid() {
        return;
    }
    // A stock server would continue in the wrong database, or stop in the middle of the command.
    let log = DataFolder::of(commands(&["SELECT 16", "SET a 1"])).refused(&[]);
    assert!(log.contains(&format!("No such database: 16 reading the append only file {INCR}")), "{log}");
    let log = DataFolder::of(commands(&["SET a"])).refused(&[]);
    assert!(log.contains("Wrong number of arguments for 'SET'"), "{log}");
}

#[test]
fn aof_load_errors_name_the_file_and_repair_tool() {
    if !is_braid() {
        return;
    }
    let good = commands(&["SET a 1"]);
    let of_manifest = |place: &DataFolder| {
        let path =
            place.path().canonicalize().expect("a folder").join("appendonlydir/appendonly.aof.manifest");
        format!("braid-check-aof --fix {}", path.display())
    };
    let place = DataFolder::of([&good[..], b"*x"].concat());
    let log = place.refused(&[]);
    assert!(log.contains(&of_manifest(&place)), "{log}");
    let place = DataFolder::of(good[..good.len() - 3].to_vec());
    let log = place.refused(&["--aof-load-truncated", "no"]);
    assert!(log.contains(&of_manifest(&place)) && !log.contains(".. Exiting"), "{log}");
    let place = DataFolder::with(&[("appendonly.aof.1.base.rdb", b"REDIS0011\xff".to_vec())]);
    let log = place.refused(&[]);
    assert!(log.contains("'braid-check-rdb ") && log.contains("appendonly.aof.1.base.rdb' to see"), "{log}");
    let place = DataFolder::of(good);
    fs::remove_file(place.path().join("appendonlydir").join(INCR)).expect("it is there");
    let log = place.refused(&[]);
    assert!(!log.contains("os error"), "{log}");
    // Stock servers start with an empty dataset, and so does Braid, but it logs the files that it
    // ignores.
    let place = DataFolder::of(commands(&["SET a 1"]));
    fs::remove_file(place.path().join("appendonlydir/appendonly.aof.manifest")).expect("it is there");
    let server = place.start(&[]);
    assert_eq!(server.connect().call("DBSIZE").to_string(), "(integer) 0");
    let log = server.log();
    assert!(log.contains(&format!("are not loaded: {INCR}")), "{log}");
}

#[test]
fn nothing_expires_until_all_is_loaded() {
    let place = DataFolder::of(commands(&[
        "SET a 1 PXAT 1000",
        "PERSIST a",
        "SET b 1 PXAT 1000",
        "APPEND b 2",
        "SET c 1",
        "PEXPIREAT c 1000",
        "PEXPIREAT c 4000000000000",
        "SET d 1",
        "PEXPIREAT d 1000",
        "SET f 1 EX 1000",
        "XADD x 1-1 a b",
        "XGROUP CREATE x g 0",
        "XGROUP CREATECONSUMER x g c",
    ]));
    let server = place.start(&[]);
    let mut client = server.connect();
    check(
        &mut client,
        &[("GET b", "(nil)"), ("GET d", "(nil)"), ("PEXPIRETIME c", "(integer) 4000000000000")],
    );
    assert_eq!(client.call("MGET a c f").to_string(), "[\"1\", \"1\", \"1\"]");
    let ttl = client.call("TTL f").integer().expect("a number");
    assert!((900..=1000).contains(&ttl), "EX counts from the load: {ttl}");
    let consumers = client.call("XINFO CONSUMERS x g");
    let idle = consumers.elements().and_then(|all| all[0].elements()?[5].integer()).expect("a number");
    assert!((0..1_000_000).contains(&idle), "idle time counts from the load: {idle}");
    wait_for("expired keys to be removed", || client.call("DBSIZE").integer() == Some(4));
}

#[test]
fn an_old_file_is_taken_over() {
    let place = DataFolder::new();
    let old = place.path().join("appendonly.aof");
    fs::write(&old, commands(&["SET k1 v1", "SET k2 v2"])).expect("a file");
    let server = place.start(&[]);
    assert_eq!(server.connect().call("MGET k1 k2").to_string(), "[\"v1\", \"v2\"]");
    let log = server.log();
    let words = "Successfully migrated an old-style AOF file (appendonly.aof) into the AOF directory (appendonlydir).";
    assert!(log.contains(words), "{log}");
    assert!(!old.exists());
    let manifest = String::from_utf8(place.read("appendonly.aof.manifest")).expect("text");
    assert!(manifest.starts_with("file appendonly.aof seq 1 type b\n"), "{manifest}");
}

#[test]
fn dump_file_is_ignored_when_the_aof_is_enabled() {
    let place = DataFolder::new();
    let path = place.path().to_str().expect("readable").to_owned();
    let mut server = TestServer::start(&["--dir", &path]);
    let mut client = server.connect();
    client.ok("SET k v");
    client.ok("SAVE");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let server = place.start(&[]);
    assert_eq!(server.connect().call("DBSIZE").integer(), Some(0));
}

#[test]
fn clients_get_loading_errors_during_aof_load() {
    const KEYS: i64 = 8000;
    let lines: Vec<String> = (0..KEYS).map(|number| format!("SET k{number} v")).collect();
    let content = commands(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let total = content.len();
    let place = DataFolder::of(content);
    let port = free_port();
    let mut command = Command::new(program_under_test());
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(place.arguments(&["--key-load-delay", "300"])).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Killed(command.spawn().expect("it starts"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut client = None;
    wait_for("the server", || {
        client = RawClient::tcp(address).ok();
        client.is_some()
    });
    let mut client = client.expect("just connected");
    let reply = client.call("GET k1").to_string();
    assert!(reply.contains("LOADING Redis is loading the dataset in memory"), "{reply}");
    assert_eq!(client.info_field("persistence", "loading").as_deref(), Some("1"));
    let expected = total.to_string();
    assert_eq!(client.info_field("persistence", "loading_total_bytes"), Some(expected));
    wait_for("progress", || {
        let loaded = client.info_field("persistence", "loading_loaded_bytes");
        loaded.is_none_or(|bytes| bytes.parse::<usize>().expect("a number") > total / 10)
    });
    wait_for("the end of the load", || client.info_field("persistence", "loading").as_deref() == Some("0"));
    assert_eq!(client.call("DBSIZE").integer(), Some(KEYS));
    client.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(server.0.wait().is_ok_and(|status| status.success()));
}

/// A process that is killed at the end of its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The format itself cannot detect the change; a checksum in an annotation does.
#[test]
fn a_bit_that_has_changed_ends_the_start() {
    if !is_braid() {
        return;
    }
    let place = DataFolder::new();
    let server = place.start(&["--appendfsync", "always"]);
    let mut client = server.connect();
    for number in 0..200 {
        client.ok(&format!("SET key:{number} {}", "x".repeat(100)));
    }
    server.signal(rustix::process::Signal::KILL);
    drop(server);
    let good = place.read(INCR);
    let at = good.windows(8).rposition(|bytes| bytes.starts_with(b"#CRC64:")).expect("a checksum");
    let value = good[..at].windows(4).rposition(|bytes| bytes == b"xxxx").expect("a value");
    let mut damaged = good.clone();
    damaged[value] ^= 1;
    place.write(INCR, &damaged);
    let text = place.refused(&[]);
    assert!(text.contains("wrong checksum at byte"), "{text}");
    assert_eq!(place.read(INCR).len(), damaged.len() - trailing_zeros(&damaged), "only zeros are cut off");
    place.write(INCR, &good);
    assert_eq!(place.start(&[]).connect().call("DBSIZE").integer(), Some(200));
}

fn trailing_zeros(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|&&byte| byte == 0).count()
}

/// A KeyDB that receives changes from another one writes them as received: requests nested in a
/// request.
#[test]
fn requests_of_keydb() {
    if !is_braid() {
        return;
    }
    let stream = |time: &str, words: &[Vec<u8>]| {
        let requests = words.concat();
        let mut wrapped = b"*5\r\n$7\r\nRREPLAY\r\n$36\r\n7d2e1a52-91a5-4b5e-bb57-3f1c2f2a9e01\r\n".to_vec();
        wrapped.extend_from_slice(format!("${}\r\n", requests.len()).as_bytes());
        wrapped.extend_from_slice(&requests);
        wrapped.extend_from_slice(format!("\r\n$1\r\n3\r\n$19\r\n17312223344556605{time}\r\n").as_bytes());
        wrapped
    };
    let source = TestServer::start(&[]);
    let mut client = source.connect();
    client.call("RPUSH l a b");
    let payload = client.call("DUMP l").bytes().expect("a payload").to_vec();
    let restore = |key: &str, time: &str| {
        let mut bytes = format!("*5\r\n$17\r\nKEYDB.MVCCRESTORE\r\n${}\r\n{key}\r\n$1\r\n7\r\n", key.len());
        bytes.push_str(&format!("${}\r\n{time}\r\n${}\r\n", time.len(), payload.len()));
        [bytes.as_bytes(), &payload, b"\r\n"].concat()
    };
    let content = [
        commands(&["SELECT 0", "SET plain 1", "SADD s a b"]),
        stream("10", &[commands(&["SET inner 1", "INCR inner"])]),
        // Received from two sides.
        stream("10", &[commands(&["SET inner 1", "INCR inner"])]),
        stream("11", &[commands(&["INCR inner"])]),
        stream("11", &[commands(&["INCR inner"])]),
        // A transaction in several pieces, and a forwarded stream.
        stream("12", &[commands(&["MULTI", "INCR inner"])]),
        stream("13", &[stream("14", &[commands(&["INCR inner"])])]),
        stream("15", &[commands(&["EXEC"])]),
        commands(&[
            "SELECT 0",
            "PEXPIREMEMBERAT s a 4000000000000",
            "PEXPIREMEMBERAT s b 4000000000000",
            "PERSIST s b",
        ]),
        restore("plain", "-1"),
        restore("timed", "4000000000000"),
        commands(&["KEYDB.CRON job single 100000 script 1 k"]),
    ]
    .concat();
    let place = DataFolder::new();
    fs::write(place.path().join("appendonly.aof"), content).expect("a file");
    let server = place.start(&[]);
    let mut client = server.connect();
    check(
        &mut client,
        &[
            ("LRANGE plain 0 -1", "[\"a\", \"b\"]"),
            ("PEXPIRETIME plain", "(integer) -1"),
            ("PEXPIRETIME timed", "(integer) 4000000000000"),
            ("SPEXPIRETIME s MEMBERS 2 a b", "[(integer) 4000000000000, (integer) -1]"),
            ("EXISTS job", "(integer) 0"),
            ("SELECT 3", "+OK"),
            ("GET inner", "\"5\""),
        ],
    );
    assert!(server.log().contains("key 'job' is skipped: a job of KeyDB's KEYDB.CRON"), "{}", server.log());
    let broken = DataFolder::new();
    fs::write(broken.path().join("appendonly.aof"), stream("10", &[b"*1\r\n$3\r\nSE".to_vec()]))
        .expect("a file");
    assert!(broken.refused(&[]).contains("Bad RREPLAY: not a stream of requests"));
}
