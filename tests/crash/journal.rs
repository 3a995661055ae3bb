// SPDX-License-Identifier: BSD-3-Clause
//! A command's form in the append-only file: it has the same effect whenever and wherever it is
//! replayed.

use braid_tests::server::is_braid;

use braid_tests::{RawClient, TestServer, Value, words};

/// Commands, and their form in the journal; `*` stands for a time or an ID, bars separate several
/// requests.
const CASES: &[(&str, &str)] = &[
    ("SET k v", "SELECT 0|SET k v"),
    ("GET k", ""),
    ("SET k w NX", ""),
    ("DEL nosuch", ""),
    ("SET k v EX 100", "SET k v PXAT *"),
    ("SET k v XX PX 100000 GET", "SET k v PXAT *"),
    ("SETEX k 100 v", "SET k v PXAT *"),
    ("SET k v pxat 4000000000000 XX", "SET k v pxat 4000000000000 XX"),
    ("SET k w IFEQ v KEEPTTL", "SET k w KEEPTTL"),
    ("SET k v IFEQ w EX 9", "SET k v PXAT *"),
    ("SET k w IFEQ v", "SET k w"),
    ("GETEX k", ""),
    ("GETEX k EX 50", "PEXPIREAT k *"),
    ("GETEX k PERSIST", "PERSIST k"),
    ("EXPIRE k 100 NX", "PEXPIREAT k *"),
    ("EXPIRE k 200 NX", ""),
    ("EXPIRE k -1", "DEL k"),
    ("SET f 1", "SET f 1"),
    ("INCRBYFLOAT f 1.5", "SET f 2.5 KEEPTTL"),
    ("GETDEL f", "DEL f"),
    ("SETBIT bits 3 0", "SETBIT bits 3 0"),
    ("SETBIT bits 3 0", ""),
    ("BITFIELD bits OVERFLOW FAIL SET u8 8 300", "BITFIELD bits OVERFLOW FAIL SET u8 8 300"),
    ("BITFIELD bits OVERFLOW FAIL SET u8 8 300", ""),
    ("BITFIELD bits GET u8 64", ""),
    ("SADD s a", "SADD s a"),
    ("SPOP s", "SREM s a"),
    ("SADD s a b c", "SADD s a b c"),
    ("SPOP s 5", "DEL s"),
    ("CONFIG SET lazyfree-lazy-server-del yes lazyfree-lazy-expire yes", ""),
    ("SADD s a b c", "SADD s a b c"),
    ("SPOP s 5", "UNLINK s"),
    ("SADD s a b c", "SADD s a b c"),
    ("EXPIRE s -1", "UNLINK s"),
    ("RPUSH l a b c d", "RPUSH l a b c d"),
    ("BLPOP nosuch l 0", "LPOP l"),
    ("LMPOP 2 nosuch l RIGHT COUNT 1", "RPOP l 1"),
    ("RPUSH few a b", "RPUSH few a b"),
    ("LMPOP 1 few LEFT COUNT 7", "LPOP few 2"),
    ("RPUSH few a", "RPUSH few a"),
    ("BLMPOP 0 2 nosuch few RIGHT COUNT 7", "RPOP few 1"),
    ("BLMOVE l m LEFT RIGHT 0", "LMOVE l m left right"),
    ("BRPOPLPUSH m l 0", "RPOPLPUSH m l"),
    ("LMOVEM l l LEFT RIGHT", "LMOVE l l left right"),
    ("LMOVEM l m LEFT LEFT COUNT 2 OBO", "MULTI|LPOP l 2|LPUSH m c b|EXEC"),
    ("BLMOVEM m l LEFT LEFT 0 EXACTLY 2 OBO", "MULTI|LPOP m 2|LPUSH l b c|EXEC"),
    ("LMOVEM l m LEFT LEFT EXACTLY 9 BULK", ""),
    ("SORT l ALPHA DESC STORE sorted", "MULTI|DEL sorted|RPUSH sorted c b|EXEC"),
    ("ZADD z 1 a 2 b 3 c", "ZADD z 1 a 2 b 3 c"),
    ("BZPOPMIN z 0", "ZPOPMIN z"),
    ("ZMPOP 1 z MAX COUNT 1", "ZPOPMAX z 1"),
    // Not all servers parse hexadecimal numbers.
    ("ZADD z CH 0x10 0x10 +5 d", "ZADD z CH 16 0x10 +5 d"),
    ("ZADD z NX 0x10 d", ""),
    ("ZINCRBY z -0x1.8p1 0x10", "ZINCRBY z -3 0x10"),
    ("ZUNIONSTORE 0x1 1 z WEIGHTS 0X2 AGGREGATE MAX", "ZUNIONSTORE 0x1 1 z WEIGHTS 2 AGGREGATE MAX"),
    (
        "ZUNIONSTORE counted 1 z WEIGHTS 0X2 AGGREGATE COUNT",
        "MULTI|DEL counted|ZADD counted 2 0x10 2 b 2 d|EXEC",
    ),
    ("ZRANGESTORE 0x1 z (0x1 +inf BYSCORE", "ZRANGESTORE 0x1 z (1 +inf BYSCORE"),
    ("ZRANGESTORE 0x1 z [0x1 + BYLEX", "ZRANGESTORE 0x1 z [0x1 + BYLEX"),
    ("ZREMRANGEBYSCORE z 0x5 0xf", "ZREMRANGEBYSCORE z 5 15"),
    ("GEOADD geo 0x1 +2 0x1 3 0x2 b", "GEOADD geo 1 +2 0x1 3 2 b"),
    (
        "GEOSEARCHSTORE 0x1 geo FROMMEMBER 0x1 BYBOX 0x400 500 km",
        "GEOSEARCHSTORE 0x1 geo FROMMEMBER 0x1 BYBOX 1024 500 km",
    ),
    (
        "GEOSEARCHSTORE 0x1 geo FROMLONLAT 0x1 2 BYRADIUS 0x5 km",
        "GEOSEARCHSTORE 0x1 geo FROMLONLAT 1 2 BYRADIUS 5 km",
    ),
    ("GEORADIUS geo 0x1 2 0x5 km STORE 0x1", "GEORADIUS geo 1 2 5 km STORE 0x1"),
    ("GEORADIUSBYMEMBER geo 0x1 0x5 km STORE 0x1", "GEORADIUSBYMEMBER geo 0x1 5 km STORE 0x1"),
    ("MSETEX 2 a 1 b 2 NX", "MSET a 1 b 2"),
    ("MSETEX 2 a 1 b 2 EX 100", "MULTI|SET a 1 PXAT *|SET b 2 PXAT *|EXEC"),
    ("MSETEX 1 a 3 KEEPTTL XX", "SET a 3 KEEPTTL"),
    ("INCREX n BYINT 5 EX 100", "SET n 5 PXAT *"),
    ("INCREX n", "SET n 6 KEEPTTL"),
    ("INCREX n EX 200 ENX", "SET n 7 KEEPTTL"),
    ("INCREX n UBOUND 7", ""),
    ("INCREX n BYFLOAT 0.5 PERSIST", "SET n 7.5"),
    ("INCREX n BYFLOAT 0.5 PXAT 1", "UNLINK n"),
    ("SET a 4 IFNE 4", "SET a 4"),
    ("SET a 4 IFNE 4", ""),
    ("SET a 5 IFDNE 2d06800538d394c2 EX 100", "SET a 5 PXAT *"),
    ("DELEX a IFNE 5", ""),
    ("DELEX a IFEQ 5", "DEL a"),
    ("DELEX b", "DEL b"),
    ("MULTI", ""),
    ("ZADD z 0x1 m", ""),
    ("SET plain 0x1", ""),
    ("EXEC", "MULTI|ZADD z 1 m|SET plain 0x1|EXEC"),
    ("EVAL \"return redis.call('ZADD', 'z', '0x2', 'm')\" 0", "ZADD z 2 m"),
    ("HSET h f 1 g 2", "HSET h f 1 g 2"),
    ("HEXPIRE h 100 FIELDS 2 f nosuch", "HPEXPIREAT h * FIELDS 1 f"),
    ("HINCRBYFLOAT h g 0.5", "HSET h g 2.5"),
    ("HINCRBYFLOAT h f 0.5", "HSETEX h KEEPTTL FIELDS 1 f 1.5"),
    ("HGETEX h PERSIST FIELDS 1 f", "HPERSIST h FIELDS 1 f"),
    ("HEXPIRE h 0 FIELDS 1 f", "HDEL h f"),
    ("HIMPORT PREPARE u name age", ""),
    ("HIMPORT SET hi u ada 36", "HSET hi name ada age 36"),
    ("HIMPORT SET hi u bob 25", "MULTI|DEL hi|HSET hi name bob age 25|EXEC"),
    ("HIMPORT DISCARD u", ""),
    ("BLESS SET hi NO-EVICT", "BLESS SET hi NO-EVICT"),
    ("BLESS SET hi no-evict", ""),
    ("BLESS CLEAR hi NO-EVICT", "BLESS CLEAR hi NO-EVICT"),
    ("XADD x * f v", "XADD x *-* f v"),
    ("XADD x MAXLEN ~ 1000 * f v", "XADD x *-* f v"),
    ("XADD x MAXLEN 1 * f v", "XADD x MAXLEN = 1 *-* f v"),
    ("XGROUP CREATE x g 0", "XGROUP CREATE x g 0"),
    (
        "XREADGROUP GROUP g c STREAMS x >",
        "MULTI|XGROUP CREATECONSUMER x g c|XCLAIM x g c 0 * TIME * RETRYCOUNT 1 FORCE JUSTID LASTID *|\
         XGROUP SETID x g * ENTRIESREAD 3|EXEC",
    ),
    ("XADD y 1 f v", "XADD y 1-0 f v"),
    ("XADD y 2 f v", "XADD y 2-0 f v"),
    ("XADD y 3 f v", "XADD y 3-0 f v"),
    ("XADD y 4 f v", "XADD y 4-0 f v"),
    ("XADD y 5 f v", "XADD y 5-0 f v"),
    ("XGROUP CREATE y g 0", "XGROUP CREATE y g 0"),
    ("XGROUP CREATE y h 0", "XGROUP CREATE y h 0"),
    ("XREADGROUP GROUP g c COUNT 4 STREAMS y >", "MULTI|*|*|*|*|*|*|EXEC"),
    ("XREADGROUP GROUP h d COUNT 4 STREAMS y >", "MULTI|*|*|*|*|*|*|EXEC"),
    (
        "XREADGROUP GROUP g e COUNT 1 CLAIM 0 STREAMS y >",
        "MULTI|XGROUP CREATECONSUMER y g e|XCLAIM y g e 0 1-0 TIME * RETRYCOUNT 2 FORCE JUSTID LASTID 4-0|EXEC",
    ),
    ("XREADGROUP GROUP g e CLAIM 1000000 COUNT 1 NOACK STREAMS y >", "XGROUP SETID y g 5-0 ENTRIESREAD 5"),
    ("XNACK y g SILENT IDS 2 1-0 9-0", "XCLAIM y g  0 1-0 TIME 0 RETRYCOUNT 1 FORCE JUSTID"),
    ("XNACK y g FAIL IDS 1 9-0", ""),
    (
        "XREADGROUP GROUP g e MAXCOUNT 1 CLAIM 100000 STREAMS y >",
        "XCLAIM y g e 0 1-0 TIME * RETRYCOUNT 2 FORCE JUSTID LASTID 5-0",
    ),
    ("XADD named IDMP p one * f v", "MULTI|XADD named *-* f v|XACK named __idmp__1:pone *-*|EXEC"),
    ("XADD named IDMP p one * f v", ""),
    ("XCFGSET named IDMP-DURATION 200", "XACK named __idmp-bounds__200:100 0-1"),
    ("XDELEX y IDS 2 1-0 9-0", "XDEL y 1-0"),
    ("XDELEX y ACKED IDS 1 2-0", ""),
    ("XDELEX y DELREF IDS 1 1-0", "MULTI|XACK y g 1-0|XACK y h 1-0|EXEC"),
    ("XACKDEL y g ACKED IDS 1 2-0", "XACK y g 2-0"),
    ("XACKDEL y h ACKED IDS 2 2-0 9-0", "MULTI|XDEL y 2-0|XACK y h 2-0|EXEC"),
    ("XTRIM y MAXLEN ~ 0 DELREF LIMIT 1", ""),
    ("XTRIM y MAXLEN 2 DELREF", "MULTI|XTRIM y MAXLEN = 2|XACK y g 3-0|XACK y h 3-0|EXEC"),
    ("XTRIM y MAXLEN 0 ACKED", ""),
    ("XADD y MAXLEN 1 DELREF 6 f v", "MULTI|XADD y MAXLEN = 1 6-0 f v|XACK y g 4-0|XACK y h 4-0|EXEC"),
    ("XGROUP SETID y g 6", "XGROUP SETID y g 6"),
    ("XGROUP SETID y h 6", "XGROUP SETID y h 6"),
    ("XADD y MAXLEN 1 ACKED 7 f v", "XADD y MAXLEN = 1 7-0 f v"),
    ("CF.ADD cuckoo a", "CF.ADD cuckoo a"),
    ("CONFIG SET cf-bucket-size 4 bf-error-rate 0.5 bf-initial-size 9", ""),
    ("CF.ADD cuckoo b", "CF.ADD cuckoo b"),
    (
        "CF.ADD cuckoos b",
        "MULTI|CF.RESERVE cuckoos 1024 BUCKETSIZE 4 MAXITERATIONS 20 EXPANSION 1|CF.ADD cuckoos b|EXEC",
    ),
    (
        "CF.RESERVE reserved 50 EXPANSION 3",
        "CF.RESERVE reserved 50 BUCKETSIZE 4 MAXITERATIONS 20 EXPANSION 3",
    ),
    ("BF.ADD bloom a", "MULTI|BF.RESERVE bloom 0.25 9 EXPANSION 2|BF.ADD bloom a|EXEC"),
    ("BF.RESERVE blooms 0.1 20", "BF.RESERVE blooms 0.1 20"),
    (
        "BF.INSERT bloomed ERROR 0.1 ITEMS a b",
        "MULTI|BF.RESERVE bloomed 0.1 9 EXPANSION 2|BF.INSERT bloomed ERROR 0.1 ITEMS a b|EXEC",
    ),
    ("TS.CREATE ts", "TS.CREATE ts"),
    ("CONFIG SET ts-retention-policy 5000 ts-duplicate-policy last ts-ignore-max-val-diff 0.5", ""),
    (
        "TS.CREATE ts2 LABELS a b",
        "TS.CREATE ts2 RETENTION 5000 CHUNK_SIZE 4096 ENCODING COMPRESSED DUPLICATE_POLICY last IGNORE 0 0.5 LABELS a b",
    ),
    (
        "TS.ADD ts3 * 1 RETENTION 70",
        "MULTI|TS.CREATE ts3 RETENTION 70 CHUNK_SIZE 4096 ENCODING COMPRESSED DUPLICATE_POLICY last IGNORE 0 0.5 LABELS|\
         TS.ADD ts3 * 1 RETENTION 70|EXEC",
    ),
    ("TS.ADD ts3 99999999999999 2", "TS.ADD ts3 99999999999999 2"),
    (
        "TS.INCRBY ts4 2 CHUNK_SIZE 128",
        "MULTI|TS.CREATE ts4 RETENTION 5000 CHUNK_SIZE 128 ENCODING COMPRESSED DUPLICATE_POLICY last IGNORE 0 0.5 LABELS|\
         TS.INCRBY ts4 2 TIMESTAMP * CHUNK_SIZE 128|EXEC",
    ),
    ("EVAL \"redis.call('SET','e','1') return redis.call('GET','e')\" 0", "SET e 1"),
    ("EVAL \"redis.call('SET','e','1') redis.call('INCR','e')\" 0", "MULTI|SET e 1|INCR e|EXEC"),
    ("EVAL \"return redis.call('GET','e')\" 0", ""),
    ("SELECT 3", ""),
    ("EVAL \"redis.call('SET','e','1') redis.call('INCR','e')\" 0", "MULTI|SELECT 3|SET e 1|INCR e|EXEC"),
    ("FLUSHDB", "FLUSHDB"),
    ("SET k v", "SET k v"),
    ("MOVE k 4", "MOVE k 4"),
    ("FLUSHALL", "FLUSHALL"),
    ("FLUSHALL", "FLUSHALL"),
];

/// The requests in a file, one per line, without annotations and without the zeros written ahead.
fn lines(server: &TestServer) -> Vec<String> {
    let file = server.directory().join("appendonlydir").join("appendonly.aof.1.incr.aof");
    let bytes = std::fs::read(file).expect("the file is there");
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.trim_end_matches('\0').split("\r\n").filter(|line| !line.starts_with('#'));
    let mut lines = Vec::new();
    while let Some(count) = words.next().and_then(|head| head.strip_prefix('*')) {
        let count = count.parse().expect("a number of arguments");
        let args: Vec<&str> = (0..count).map(|_| words.nth(1).expect("an argument")).collect();
        lines.push(args.join(" "));
    }
    lines
}

#[test]
fn commands_are_journalled_in_deterministic_form() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "always", "--io-threads", "2"]);
    let mut client: RawClient = server.connect();
    let mut seen = 0;
    for (command, expected) in CASES {
        let reply = client.call(command);
        assert!(!reply.is_error(), "{command}: {reply}");
        let all = lines(&server);
        let expected: Vec<&str> = expected.split('|').filter(|line| !line.is_empty()).collect();
        let fits = |(pattern, line): (&&str, &String)| words::glob(pattern.as_bytes(), line.as_bytes());
        let new = &all[seen..];
        assert!(
            new.len() == expected.len() && expected.iter().zip(new).all(fits),
            "{command}: {new:?} instead of {expected:?}"
        );
        seen = all.len();
    }
}

/// Only a relative time is replaced, by an absolute one; other arguments stay unchanged.
#[test]
fn restored_values_are_journalled_as_they_came() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client: RawClient = server.connect();
    client.ok("SET k v");
    let Value::Bulk(payload) = client.call("DUMP k") else { panic!("DUMP gives bytes") };
    let mut restore = |key: &str, time: &str, options: &[&str]| {
        let mut args: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), time.as_bytes(), &payload];
        args.extend(options.iter().map(|option| option.as_bytes()));
        assert_eq!(client.call_arguments(&args), Value::Simple(b"OK".to_vec()));
    };
    restore("a", "0", &[]);
    restore("a", "100000", &["replace"]);
    restore("b", "4000000000000", &["absttl", "IDLETIME", "5"]);
    restore("nosuch", "1", &["ABSTTL"]);
    restore("a", "1", &["ABSTTL", "REPLACE"]);
    let expected = [
        "SELECT 0",
        "SET k v",
        "RESTORE a 0 *v*",
        "RESTORE a 1???????????? *v* replace ABSTTL",
        "RESTORE b 4000000000000 *v* absttl IDLETIME 5",
        "DEL a",
    ];
    let lines = lines(&server);
    let fits = |(pattern, line): (&&str, &String)| words::glob(pattern.as_bytes(), line.as_bytes());
    assert!(lines.len() == expected.len() && expected.iter().zip(&lines).all(fits), "{lines:?}");
}

/// Failing BITFIELD steps extend the string nevertheless. Stock servers do not propagate that,
/// and have a different string after a restart.
#[test]
fn room_that_failing_bitfields_make_is_there_after_a_load() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--appendonly", "yes", "--enable-debug-command", "yes"]);
    let (mut client, mut other): (RawClient, RawClient) = (server.connect(), server.connect());
    client.ok("SET grown ab");
    client.ok(&format!("SET long {}", "x".repeat(3000)));
    client.ok("WATCH new grown long");
    for (command, len) in [
        ("BITFIELD new OVERFLOW FAIL SET u8 16 300", 3),
        ("BITFIELD grown OVERFLOW FAIL INCRBY i8 #9 -129 INCRBY u4 0 16", 10),
        ("BITFIELD long OVERFLOW FAIL SET u8 40000 256", 5001),
    ] {
        let reply = other.call(command);
        let answers = reply.elements().expect("a reply for each step");
        assert!(answers.iter().all(|answer| *answer == Value::NullBulk), "{command}: {reply}");
        let key = command.split(' ').nth(1).expect("a key");
        assert_eq!(other.call(&format!("STRLEN {key}")), Value::Integer(len));
    }
    client.ok("MULTI");
    client.call("PING");
    assert_eq!(client.call("EXEC"), Value::NullArray, "the keys have changed");
    client.ok("DEBUG LOADAOF");
    for (key, len) in [("new", 3), ("grown", 10), ("long", 5001)] {
        assert_eq!(client.call(&format!("STRLEN {key}")), Value::Integer(len), "{key}");
    }
}
