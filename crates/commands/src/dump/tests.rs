// SPDX-License-Identifier: BSD-3-Clause
//! Tests of DUMP and RESTORE.

use crate::testing::{Tester, check};

/// The payload in a bulk reply.
fn payload(reply: &[u8]) -> Vec<u8> {
    let start = reply.windows(2).position(|pair| pair == b"\r\n").expect("a bulk reply") + 2;
    reply[start..reply.len() - 2].to_vec()
}

fn restore(tester: &mut Tester, key: &str, payload: &[u8], options: &[&str]) -> String {
    let mut args = vec![&b"RESTORE"[..], key.as_bytes(), b"0", payload];
    args.extend(options.iter().map(|option| option.as_bytes()));
    String::from_utf8_lossy(&tester.run_args(0, &args)).into_owned()
}

/// Dumps a key and restores it under another name; both keys must then have the same digest and
/// encoding.
#[track_caller]
fn round_trip(tester: &mut Tester, key: &str) {
    let payload = payload(&tester.run_args(0, &[b"DUMP", key.as_bytes()]));
    assert_eq!(restore(tester, "copy", &payload, &["REPLACE"]), "+OK\r\n", "{key}");
    let digests = tester.run(&format!("DEBUG DIGEST-VALUE {key} copy"));
    let digests: Vec<&str> = digests.lines().skip(1).collect();
    assert_eq!(digests[0], digests[1], "{key}");
    assert_eq!(tester.encoding(key), tester.encoding("copy"), "{key}");
}

#[test]
fn every_type_and_encoding_survives_dump_and_restore() {
    let mut tester = Tester::with("enable-debug-command yes");
    let long = "x".repeat(100);
    let many = |make: &dyn Fn(usize) -> String| (0..600).map(make).collect::<Vec<_>>().join(" ");
    let lines = [
        "SET integer -12345".to_string(),
        "SET large 123456789012345678".into(),
        "SET text hello".into(),
        "SET empty \"\"".into(),
        format!("SET raw {}", "abc".repeat(1000)),
        "RPUSH list-small a 1 b 2".into(),
        format!("RPUSH list {}", many(&|number| format!("{number}-{long}"))),
        "SADD integers 1 2 3 100000".into(),
        "SADD set-small a b 3".into(),
        format!("SADD set {}", many(&|number| format!("m{number}"))),
        "ZADD sorted-small 1 a 1.5 b -inf c inf d".into(),
        format!("ZADD sorted {}", many(&|number| format!("{}.25 m{number}", number % 7))),
        "HSET hash-small a 1 b two".into(),
        format!("HSET hash {}", many(&|number| format!("f{number} {number}"))),
        "HSET hash-expiring a 1 b 2 c 3".into(),
        "HPEXPIREAT hash-expiring 4000000000000 FIELDS 1 b".into(),
        "XADD stream 1-1 a b".into(),
        "XADD stream 1-2 c d e f".into(),
        "XADD stream 7-0 a b".into(),
        "XDEL stream 1-2".into(),
        "XGROUP CREATE stream group 0".into(),
        "XREADGROUP GROUP group one COUNT 1 STREAMS stream >".into(),
        "XREADGROUP GROUP group two STREAMS stream >".into(),
        "XGROUP CREATECONSUMER stream group idle".into(),
        "XGROUP CREATE stream later 1-1".into(),
        "XGROUP CREATE stream-empty group $ MKSTREAM".into(),
    ];
    for line in &lines {
        let reply = tester.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for key in [
        "integer",
        "large",
        "text",
        "empty",
        "raw",
        "list-small",
        "list",
        "integers",
        "set-small",
        "set",
        "sorted-small",
        "sorted",
        "hash-small",
        "hash",
        "hash-expiring",
        "stream",
        "stream-empty",
    ] {
        round_trip(&mut tester, key);
    }
    round_trip(&mut tester, "stream");
    for (question, key) in [("XINFO STREAM KEY FULL", "stream"), ("XPENDING KEY group - + 10", "stream")] {
        let ask = |tester: &mut Tester, key: &str| tester.run(&question.replace("KEY", key));
        let (one, other) = (ask(&mut tester, key), ask(&mut tester, "copy"));
        assert_eq!(one.lines().count(), other.lines().count(), "{question}");
        if question.starts_with("XINFO") {
            // XPENDING reports idle times, which differ.
            assert_eq!(one, other);
        }
    }
    round_trip(&mut tester, "hash-expiring");
    assert_eq!(tester.run("HPEXPIRETIME copy FIELDS 3 a b c"), "*3\r\n:-1\r\n:4000000000000\r\n:-1\r\n");
}

#[test]
fn refusals() {
    check(&[
        ("DUMP nosuch", "$-1\r\n"),
        ("SET k v", "+OK\r\n"),
        ("RESTORE k 0 x", "-BUSYKEY Target key name already exists.\r\n"),
        ("RESTORE k 0 x REPLACE", "-ERR DUMP payload version or checksum are wrong\r\n"),
        ("RESTORE k -1 x REPLACE", "-ERR Invalid TTL value, must be >= 0\r\n"),
        ("RESTORE k a x REPLACE", "-ERR value is not an integer or out of range\r\n"),
        ("RESTORE k 0 x IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0\r\n"),
        ("RESTORE k 0 x FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"),
        ("RESTORE k 0 x FREQ 1 IDLETIME 1", "-ERR syntax error\r\n"),
        ("RESTORE k 0 x FREQ", "-ERR syntax error\r\n"),
        ("RESTORE k 0 x LATER", "-ERR syntax error\r\n"),
        ("GET k", "$1\r\nv\r\n"),
    ]);
    let mut tester = Tester::with("enable-debug-command yes");
    let refused = "-ERR Bad data format\r\n";
    let wrong = "-ERR DUMP payload version or checksum are wrong\r\n";
    for version in [13, 79, 81, u16::MAX] {
        let mut payload = b"\x00\x01v".to_vec();
        braid_rdb::seal(&mut payload, version);
        assert_eq!(restore(&mut tester, "k", &payload, &[]), wrong, "{version}");
    }
    // No members, a repeated member, an unknown type, a truncated value, a module's value.
    for body in
        [&b"\x02\x00"[..], b"\x02\x02\x01a\x01a", b"\x17\x01a", b"\x00\x09v", b"\x07\x81\0\0\0\0\0\0\0\0"]
    {
        let mut payload = body.to_vec();
        braid_rdb::seal(&mut payload, 11);
        assert_eq!(restore(&mut tester, "k", &payload, &[]), refused, "{body:?}");
    }
    let mut payload = b"\x00\x01v".to_vec();
    braid_rdb::seal(&mut payload, 6);
    *payload.last_mut().unwrap() ^= 1;
    assert_eq!(restore(&mut tester, "k", &payload, &[]), wrong);
    tester.check(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK\r\n")]);
    assert_eq!(restore(&mut tester, "k", &payload, &[]), "+OK\r\n");
    tester.check(&[("GET k", "$1\r\nv\r\n")]);
}

#[test]
fn times_and_access_clocks() {
    let mut tester = Tester::new();
    tester.run("SET k value");
    let payload = payload(&tester.run_args(0, &[b"DUMP", b"k"]));
    let mut run = |args: &[&[u8]]| {
        let mut all = vec![&b"RESTORE"[..], b"k"];
        all.extend_from_slice(args);
        String::from_utf8_lossy(&tester.run_args(0, &all)).into_owned()
    };
    assert_eq!(run(&[b"100000", &payload, b"replace", b"idletime", b"1000"]), "+OK\r\n");
    let ttl: i64 = tester.run("PTTL k").trim_matches([':', '\r', '\n']).parse().unwrap();
    assert!((99_000..=100_000).contains(&ttl));
    tester.check(&[("OBJECT IDLETIME k", ":1000\r\n")]);
    let mut run = |args: &[&[u8]]| {
        let mut all = vec![&b"RESTORE"[..], b"k"];
        all.extend_from_slice(args);
        String::from_utf8_lossy(&tester.run_args(0, &all)).into_owned()
    };
    assert_eq!(run(&[b"4000000000000", &payload, b"absttl", b"REPLACE"]), "+OK\r\n");
    tester.check(&[("PEXPIRETIME k", ":4000000000000\r\n")]);
    assert_eq!(
        tester.run_args(0, &[b"RESTORE", b"k", b"1000", &payload, b"REPLACE", b"ABSTTL"]),
        b"+OK\r\n",
        "an expiry in the past"
    );
    tester.check(&[("EXISTS k", ":0\r\n")]);
    let mut tester = Tester::with("maxmemory-policy allkeys-lfu\nlfu-decay-time 0");
    assert_eq!(restore(&mut tester, "k", &payload, &["FREQ", "200"]), "+OK\r\n");
    tester.check(&[("OBJECT FREQ k", ":200\r\n")]);
}
