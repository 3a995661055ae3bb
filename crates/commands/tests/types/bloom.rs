// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the Bloom filter commands.

use braid_commands::testing::Tester;
use braid_resp::reply::Protocol;

const OK: &str = "+OK\r\n";

#[test]
fn items_are_added_and_found() {
    Tester::new().check(&[
        ("BF.EXISTS f a", ":0\r\n"),
        ("BF.ADD f a", ":1\r\n"),
        ("BF.ADD f a", ":0\r\n"),
        ("BF.MADD f a b c", "*3\r\n:0\r\n:1\r\n:1\r\n"),
        ("BF.EXISTS f b", ":1\r\n"),
        ("BF.MEXISTS f a nobody c", "*3\r\n:1\r\n:0\r\n:1\r\n"),
        ("BF.MEXISTS none a b", "*2\r\n:0\r\n:0\r\n"),
        ("BF.CARD f", ":3\r\n"),
        ("BF.CARD none", ":0\r\n"),
        ("TYPE f", "+MBbloom--\r\n"),
        ("OBJECT ENCODING f", "$3\r\nraw\r\n"),
        ("SCAN 0 TYPE mbbloom-- COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nf\r\n"),
    ]);
}

#[test]
fn filters_are_reserved_and_described() {
    let mut tester = Tester::new();
    tester.check(&[
        ("BF.RESERVE f 0.01 1000", OK),
        ("BF.RESERVE f 0.01 1000", "-ERR item exists\r\n"),
        ("BF.INFO f CAPACITY", "*1\r\n:1000\r\n"),
        ("BF.INFO f filters", "*1\r\n:1\r\n"),
        ("BF.INFO f ITEMS", "*1\r\n:0\r\n"),
        ("BF.INFO f EXPANSION", "*1\r\n:2\r\n"),
        ("BF.INFO f WHAT", "-ERR Invalid information value\r\n"),
        ("BF.INFO none", "-ERR not found\r\n"),
        ("BF.RESERVE g 0.1 2 NONSCALING", OK),
        ("BF.INFO g EXPANSION", "*1\r\n$-1\r\n"),
        ("BF.MADD g a b c d", "*3\r\n:1\r\n:1\r\n-ERR non scaling filter is full\r\n"),
        ("BF.ADD g c", "-ERR non scaling filter is full\r\n"),
        ("BF.ADD g a", ":0\r\n"),
        ("BF.RESERVE h 0.1 4 EXPANSION 3", OK),
        ("BF.MADD h 1 2 3 4 5", "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"),
        ("BF.INFO h CAPACITY", "*1\r\n:16\r\n"),
        ("BF.INFO h FILTERS", "*1\r\n:2\r\n"),
    ]);
    let all = tester.run("BF.INFO h");
    assert!(all.starts_with("*10\r\n+Capacity\r\n:16\r\n+Size\r\n:"), "{all}");
    assert!(
        all.ends_with(
            "+Number of filters\r\n:2\r\n+Number of items inserted\r\n:5\r\n+Expansion rate\r\n:3\r\n"
        ),
        "{all}"
    );
}

#[test]
fn resp3_has_booleans_and_maps() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        ("BF.ADD f a", "#t\r\n"),
        ("BF.MADD f a b", "*2\r\n#f\r\n#t\r\n"),
        ("BF.EXISTS f a", "#t\r\n"),
        ("BF.INFO f ITEMS", "%1\r\n+Number of items inserted\r\n:2\r\n"),
        ("BF.CARD f", ":2\r\n"),
    ]);
    assert!(tester.run("BF.INFO f").starts_with("%5\r\n+Capacity\r\n:100\r\n"));
}

#[test]
fn what_is_refused() {
    Tester::new().check(&[
        ("SET s x", OK),
        ("BF.ADD s a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("BF.EXISTS s a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("BF.RESERVE s 0.1 1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("BF.RESERVE f 0 10", "-ERR (0 < error rate range < 1)\r\n"),
        ("BF.RESERVE f 1 10", "-ERR (0 < error rate range < 1)\r\n"),
        ("BF.RESERVE f nan 10", "-ERR bad error rate\r\n"),
        ("BF.RESERVE f x 10", "-ERR bad error rate\r\n"),
        ("BF.RESERVE f 0.1 0", "-ERR (capacity should be larger than 0)\r\n"),
        ("BF.RESERVE f 0.1 x", "-ERR bad capacity\r\n"),
        ("BF.RESERVE f 0.1 -1", "-ERR bad capacity\r\n"),
        ("BF.RESERVE f 0.1 9223372036854775807", "-ERR operation exceeds bloom object memory limit\r\n"),
        ("BF.RESERVE f 1e-300 1000000000", "-ERR operation exceeds bloom object memory limit\r\n"),
        ("BF.RESERVE f 0.1 10 EXPANSION -1", "-ERR bad expansion\r\n"),
        ("BF.RESERVE f 0.1 10 EXPANSION 2 NONSCALING", "-ERR Nonscaling filters cannot expand\r\n"),
        ("BF.RESERVE f 0.1 10 WHAT", "-ERR syntax error\r\n"),
        ("BF.INSERT f NOCREATE ITEMS a", "-ERR not found\r\n"),
        ("BF.INSERT f NOCREATE CAPACITY 5 ITEMS a", "-ERR syntax error\r\n"),
        ("BF.INSERT f CAPACITY 5", "-ERR wrong number of arguments for 'bf.insert' command\r\n"),
        ("BF.INSERT f CAPACITY 5 ITEMS", "-ERR wrong number of arguments for 'bf.insert' command\r\n"),
        ("BF.LOADCHUNK f 1 rubbish", "-ERR received bad data\r\n"),
        ("BF.LOADCHUNK f 9 rubbish", "-ERR received bad data\r\n"),
        ("BF.LOADCHUNK f x rubbish", "-ERR Second argument must be numeric\r\n"),
        ("BF.SCANDUMP f 0", "-ERR not found\r\n"),
        ("EXISTS f", ":0\r\n"),
        ("BF.INSERT f CAPACITY 5 ERROR 0.1 EXPANSION 1 ITEMS a b", "*2\r\n:1\r\n:1\r\n"),
        ("BF.INSERT f NOCREATE ITEMS b c", "*2\r\n:0\r\n:1\r\n"),
        ("BF.INFO f CAPACITY", "*1\r\n:5\r\n"),
    ]);
}

/// The BF.SCANDUMP example from Redis's documentation, byte for byte.
#[test]
fn a_dump_is_that_of_redis() {
    let mut tester = Tester::new();
    tester.check(&[("BF.RESERVE bf 0.1 10", OK), ("BF.ADD bf item1", ":1\r\n")]);
    let head = [
        &b"*2\r\n:1\r\n$73\r\n\x01\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0@\0\0\0\0\0\0\0"[..],
        b"\x01\0\0\0\0\0\0\0\x9a\x99\x99\x99\x99\x99\xa9?J\xf7\xd4\x9e\xde\xf0\x18@\x05\0\0\0\n\0\0\0\0\0\0\0\0\r\n",
    ]
    .concat();
    assert_eq!(
        tester.run_args(0, &[b"BF.SCANDUMP", b"bf", b"0"]).escape_ascii().to_string(),
        head.escape_ascii().to_string()
    );
    let bits = tester.run_args(0, &[b"BF.SCANDUMP", b"bf", b"1"]);
    assert_eq!(bits, b"*2\r\n:9\r\n$8\r\n\x01\x08\x00\x80\x00\x04 \x00\r\n");
    tester.check(&[("BF.SCANDUMP bf 9", "*2\r\n:0\r\n$0\r\n\r\n"), ("DEL bf", ":1\r\n")]);
    let header = &head[head.len() - 75..head.len() - 2];
    assert_eq!(tester.run_args(0, &[b"BF.LOADCHUNK", b"bf", b"1", header]), OK.as_bytes());
    assert_eq!(
        tester.run_args(0, &[b"BF.LOADCHUNK", b"bf", b"9", b"\x01\x08\x00\x80\x00\x04 \x00"]),
        OK.as_bytes()
    );
    tester.check(&[("BF.EXISTS bf item1", ":1\r\n"), ("BF.EXISTS bf item2", ":0\r\n")]);
}

fn bulk(reply: &[u8]) -> &[u8] {
    let at = reply.iter().position(|&byte| byte == b'\n').expect("a bulk string") + 1;
    &reply[at..reply.len() - 2]
}

#[test]
fn generic_commands_know_filters() {
    let mut tester = Tester::with("enable-debug-command yes");
    for item in 0..500 {
        tester.run(&format!("BF.ADD f {item}"));
    }
    // A few are false positives, taken for items added before.
    let card = tester.run("BF.CARD f");
    assert!((":490\r\n"..=":500\r\n").contains(&card.as_str()), "{card}");
    tester.check(&[("COPY f g", ":1\r\n"), ("BF.CARD g", &card), ("BF.EXISTS g 77", ":1\r\n")]);
    let digest = |tester: &mut Tester, key: &str| tester.run(&format!("DEBUG DIGEST-VALUE {key}"));
    assert_eq!(digest(&mut tester, "f"), digest(&mut tester, "g"));
    tester.run("BF.MADD g g:1 g:2 g:3 g:4 g:5 g:6 g:7 g:8");
    assert_ne!(digest(&mut tester, "f"), digest(&mut tester, "g"));
    let dumped = tester.run_args(0, &[b"DUMP", b"f"]);
    let payload = bulk(&dumped).to_vec();
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"h", b"0", &payload]), OK.as_bytes());
    assert_eq!(digest(&mut tester, "f"), digest(&mut tester, "h"));
    for at in 0..payload.len() - 10 {
        let mut cut = payload[..at].to_vec();
        braid_rdb::seal(&mut cut, braid_rdb::VERSION);
        let reply = tester.run_args(0, &[b"RESTORE", b"bad", b"0", &cut]);
        assert!(reply.starts_with(b"-ERR Bad data format"), "cut at {at}");
    }
    let bytes = tester.run("MEMORY USAGE f");
    assert!(bytes[1..].trim().parse::<usize>().expect("a number") > 1000, "{bytes}");
    let members = tester.run("ACL CAT bloom");
    assert!(members.contains("bf.add") && members.starts_with("*10\r\n"), "{members}");
    tester.check(&[("UNLINK f g", ":2\r\n"), ("RENAME h f", OK), ("BF.CARD f", &card)]);
}
