// SPDX-License-Identifier: BSD-3-Clause
//! A hand-made file in the format of KeyDB 6.3, after its `rdb.cpp`: a file of Redis 6 with
//! annotations and member expiry times among the keys, and a type of its own. (Files written by a
//! real KeyDB are in `tests/corpus`.) Also files for KeyDB, if `BRAID_KEYDB` names its program:
//! no package archive has one.

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, wait_for};

use crate::fill;

/// Builds a file. Strings and lengths must be short.
#[derive(Default)]
struct File(Vec<u8>);

impl File {
    fn text(&mut self, text: &str) -> &mut File {
        self.0.push(u8::try_from(text.len()).ok().filter(|len| *len < 64).expect("a short text"));
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut File {
        self.0.extend_from_slice(bytes);
        self
    }

    fn note(&mut self, name: &str, text: &str) -> &mut File {
        self.bytes(&[250]).text(name).text(text)
    }

    /// The records that precede a key's type, as an active replica writes them.
    fn begin(&mut self, expire_at: Option<i64>, idle: Option<u8>) -> &mut File {
        if let Some(time) = expire_at {
            self.bytes(&[252]).bytes(&time.to_le_bytes());
        }
        if let Some(seconds) = idle {
            self.bytes(&[248, seconds]);
        }
        self.note("mvcc-tstamp", "1731222334455660545")
    }

    fn member_expires(&mut self, member: &str, at: &str) -> &mut File {
        self.note("keydb-subexpire-key", member).note("keydb-subexpire-when", at)
    }
}

const LATER: i64 = 4_000_000_000_000;

fn file() -> Vec<u8> {
    let mut file = File::default();
    file.bytes(b"REDIS0009").note("redis-ver", "6.3.4").note("aof-preamble", "0").note("repl-masters", "");
    file.bytes(&[254, 0, 251, 7, 5]);
    file.begin(Some(LATER), Some(9)).bytes(&[0]).text("string").text("value");
    file.begin(None, None).bytes(&[0]).text("plain").text("value");
    file.begin(None, None).bytes(&[4]).text("hash").bytes(&[2]);
    file.text("f").text("1").text("g").text("2").member_expires("f", "4000000000000");
    file.begin(Some(LATER), None).bytes(&[2]).text("set").bytes(&[3]).text("a").text("b").text("c");
    file.member_expires("a", "4000000000001")
        .member_expires("b", "1000")
        .member_expires("nosuch", "4000000000002");
    file.bytes(&[5]).text("sorted").bytes(&[2]).text("m").bytes(&1.5f64.to_le_bytes());
    file.text("n").bytes(&2.5f64.to_le_bytes()).member_expires("n", "4000000000003");
    file.bytes(&[5])
        .text("gone")
        .bytes(&[1])
        .text("m")
        .bytes(&1f64.to_le_bytes())
        .member_expires("m", "1000");
    // KEYDB.CRON job single 0 1000 "script" 1 key argument
    file.begin(None, None).bytes(&[64]).text("job").text("script");
    file.bytes(&[0; 8]).bytes(&1000i64.to_le_bytes()).bytes(&[1]).text("key").bytes(&[1]).text("argument");
    file.bytes(&[254, 3]);
    file.begin(None, None)
        .bytes(&[2])
        .text("elsewhere")
        .bytes(&[1])
        .text("x")
        .member_expires("x", "4000000000004");
    file.note("lua", "return 1").bytes(&[255]).bytes(&[0; 8]);
    file.0
}

#[test]
fn a_file_of_keydb() {
    if !is_braid() {
        return;
    }
    for threads in ["1", "3"] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("dump.rdb"), file()).expect("a file");
        let path = folder.path().to_str().expect("a readable path");
        let arguments = ["--dir", path, "--io-threads", threads, "--enable-debug-command", "yes"];
        let server = TestServer::start(&arguments);
        let mut client = server.connect();
        wait_for("expired keys to be removed", || client.call("DBSIZE").integer() == Some(5));
        // Loaded data is also saved.
        for _ in 0..2 {
            for (line, expected) in [
                ("MGET string plain", "[\"value\", \"value\"]"),
                ("PEXPIRETIME string", "4000000000000"),
                ("PEXPIRETIME plain", "-1"),
                ("HPEXPIRETIME hash FIELDS 2 f g", "[4000000000000, -1]"),
                ("HGET hash f", "\"1\""),
                ("PEXPIRETIME set", "4000000000000"),
                ("SMISMEMBER set a b c", "[1, 0, 1]"),
                ("SPEXPIRETIME set MEMBERS 3 a c nosuch", "[4000000000001, -1, -2]"),
                ("ZPEXPIRETIME sorted MEMBERS 2 m n", "[-1, 4000000000003]"),
                ("EXISTS gone job", "0"),
            ] {
                assert_eq!(client.call(line).to_string().replace("(integer) ", ""), expected, "{line}");
            }
            client.ok("SELECT 3");
            let time = client.call("SPEXPIRETIME elsewhere MEMBERS 1 x").to_string();
            assert!(time.contains("4000000000004"), "{time}");
            client.ok("SELECT 0");
            client.ok("DEBUG RELOAD");
        }
        let log = server.log();
        assert!(log.contains("key 'job' is skipped: a job of KeyDB's KEYDB.CRON"), "{log}");
    }
}

/// One line per key: name, digest and expiry. KeyDB computes a sorted set's digest from
/// differently formatted scores, so sorted sets are listed with their scores as numbers instead.
fn digests(client: &mut RawClient) -> Vec<String> {
    let keys = client.call("KEYS *").elements().expect("keys").to_vec();
    let mut line = |key: &[u8]| {
        let digest = if client.call_arguments(&[&b"TYPE"[..], key]).text() == "zset" {
            let all = client.call_arguments(&[&b"ZRANGE"[..], key, b"0", b"-1", b"WITHSCORES"]);
            let scores = all.elements().unwrap_or_default().chunks(2);
            let scores = scores.map(|pair| (pair[0].text(), pair[1].text().parse::<f64>()));
            format!("{:?}", scores.collect::<Vec<_>>())
        } else {
            client.call_arguments(&[&b"DEBUG"[..], b"DIGEST-VALUE", key]).to_string()
        };
        let expires = client.call_arguments(&[&b"TTL"[..], key]).integer() != Some(-1);
        format!("{} {digest} {expires}", key.escape_ascii())
    };
    keys.iter().map(|key| line(key.bytes().expect("a key"))).collect()
}

/// KeyDB loads all types that it supports, with equal digests. Member expiry times are checked
/// separately.
#[test]
fn a_file_for_keydb() {
    let Some(program) = std::env::var_os("BRAID_KEYDB").filter(|_| is_braid()) else { return };
    let mut random = braid_tests::random::source("a_file_for_keydb");
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("a readable path");
        let arguments = ["--dir", path, "--rdb-target", "keydb", "--enable-debug-command", "yes"];
        let mut server = TestServer::start(&arguments);
        let mut client = server.connect();
        fill::fill(&mut client, &mut fastrand::Rng::with_seed(random.u64(..)), false);
        client.ok("SELECT 3");
        client.ok("SET far away PXAT 4000000000000");
        client.ok("SELECT 0");
        let digests = digests(&mut client);
        client.ok("SELECT 5");
        client.call("SADD set a b c");
        client.call("ZADD sorted 1 a 2 b");
        client.call("HSET hash a 1 b 2");
        for key in ["set", "sorted", "hash"] {
            assert_eq!(client.call(&format!("PEXPIREMEMBERAT {key} a 4000000000000")).integer(), Some(1));
        }
        client.ok("SAVE");
        client.send(b"SHUTDOWN NOSAVE\r\n");
        server.wait();
        let reader = TestServer::start_program(std::path::Path::new(&program), &["--dir", path]);
        let mut client = reader.connect();
        client.ok("SELECT 5");
        for (key, len) in [("set", "SCARD set"), ("sorted", "ZCARD sorted"), ("hash", "HLEN hash")] {
            let left = client.call(&format!("PTTL {key} a")).integer().expect("a time");
            assert!(left > 1_000_000_000_000, "{key}: {left}");
            assert!(client.call(len).integer() >= Some(2));
        }
        client.ok("SELECT 0");
        let loaded = self::digests(&mut client);
        let differ: Vec<_> = digests.iter().filter(|line| !loaded.contains(line)).collect();
        assert!(differ.is_empty() && digests.len() == loaded.len(), "{differ:#?}\n{}", reader.log());
        client.ok("SELECT 3");
        assert!(client.call("PTTL far").integer() > Some(1_000_000_000_000));
    }
}
