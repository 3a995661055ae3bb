// SPDX-License-Identifier: BSD-3-Clause
//! Values of all types and encodings move all the time (defragmentation, DEBUG RELOCATE-ALL) while
//! clients read them, others change and evict theirs, and saves, rewrites and a full sync take
//! place beside it. Nobody sees anything of it.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value};

/// For how long values move.
const TIME: Duration = Duration::from_secs(5);

/// Requests that make a value, and one whose reply shows it.
struct Kept {
    make: Vec<String>,
    read: String,
}

fn repeated(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

/// A value of each type in each encoding.
fn kept() -> Vec<Kept> {
    let mut kept = Vec::new();
    let mut add = |make: String, read: &str| {
        kept.push(Kept { make: vec![make], read: read.into() });
    };
    add("SET k:integer 12345".into(), "GET k:integer");
    add("SET k:short text".into(), "GET k:short");
    add(format!("SET k:apart {}", "a".repeat(500)), "GET k:apart");
    add(format!("SET k:long {}", "l".repeat(5000)), "GET k:long");
    add(format!("SET k:huge {}", "h".repeat(100_000)), "GETRANGE k:huge 99000 -1");
    add(format!("SET k:{} value", "n".repeat(300)), &format!("GET k:{}", "n".repeat(300)));
    for (name, count) in [("small", 20), ("big", 3000)] {
        let ordered = |one: fn(usize) -> String| repeated(count, one);
        add(
            format!("HSET k:hash:{name}{}", ordered(|n| format!(" field:{n} value:{n}"))),
            &format!("HMGET k:hash:{name} field:1 field:19 field:2999 none"),
        );
        add(
            format!("SADD k:set:{name}{}", ordered(|n| format!(" m{n}"))),
            &format!("SMISMEMBER k:set:{name} m1 m19 m2999"),
        );
        add(
            format!("SADD k:ints:{name}{}", ordered(|n| format!(" {}", n * 7))),
            &format!("SMISMEMBER k:ints:{name} 7 8 140"),
        );
        add(
            format!("ZADD k:sorted:{name}{}", ordered(|n| format!(" {}.5 member:{n}", n * 3))),
            &format!("ZRANGE k:sorted:{name} 10 60 WITHSCORES"),
        );
        add(
            format!("RPUSH k:list:{name}{}", ordered(|n| format!(" element:{n}"))),
            &format!("LRANGE k:list:{name} -9 -1"),
        );
        add(
            format!("PFADD k:counted:{name}{}", ordered(|n| format!(" {n}"))),
            &format!("PFCOUNT k:counted:{name}"),
        );
        add(
            format!("BF.MADD k:bloom:{name}{}", ordered(|n| format!(" i{n}"))),
            &format!("BF.MEXISTS k:bloom:{name} i1 i19 i5"),
        );
        add(format!("TDIGEST.CREATE k:digest:{name}"), &format!("TDIGEST.QUANTILE k:digest:{name} 0.1 0.5"));
        add(
            format!("CMS.INITBYDIM k:sketch:{name} {} 4", count * 10),
            &format!("CMS.QUERY k:sketch:{name} a b"),
        );
        add(format!("TOPK.RESERVE k:top:{name} 5 {count} 4 0.9"), &format!("TOPK.LIST k:top:{name}"));
        add(format!("CF.RESERVE k:cuckoo:{name} {}", count * 10), &format!("CF.EXISTS k:cuckoo:{name} a"));
        add(
            format!(
                "JSON.SET k:json:{name} $ '[{}{{}}]'",
                ordered(|n| format!("{{\"n\":{n},\"s\":\"text{n}\"}},"))
            ),
            &format!("JSON.GET k:json:{name} $[17].s $[-2].n"),
        );
        add(
            format!("TS.CREATE k:series:{name} CHUNK_SIZE 128"),
            &format!("TS.RANGE k:series:{name} - + COUNT 30"),
        );
        for at in 0..count {
            add(
                format!("XADD k:stream:{name} {}-1 field value:{at}", at + 1),
                &format!("XREVRANGE k:stream:{name} + - COUNT 3"),
            );
            kept_more(&mut add, name, at);
        }
        add(format!("XGROUP CREATE k:stream:{name} group 0"), &format!("XINFO STREAM k:stream:{name}"));
        add(
            format!("XREADGROUP GROUP group one COUNT {} STREAMS k:stream:{name} >", count / 2),
            &format!("XPENDING k:stream:{name} group"),
        );
        add(
            format!("XREADGROUP GROUP group two COUNT {} STREAMS k:stream:{name} >", count / 4),
            &format!("XPENDING k:stream:{name} group"),
        );
    }
    add(
        "FT.CREATE words ON HASH PREFIX 1 k:doc: SCHEMA t TEXT SORTABLE g TAG n NUMERIC v VECTOR FLAT 6 \
         TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2"
            .into(),
        "FT.SEARCH words three SORTBY t LIMIT 0 5",
    );
    for at in 0..300 {
        add(
            format!("HSET k:doc:{at} t 'text {at} three' g tag{} n {at} v abc{}", at % 9, at % 10),
            "FT.SEARCH words '@g:{tag4} @n:[10 90]' SORTBY n NOCONTENT",
        );
    }
    add("HEXPIRE k:hash:big 100000 FIELDS 1 field:7".into(), "HMGET k:hash:big field:7");
    add("FT.SUGADD k:words hello 1".into(), "FT.SUGGET k:words he");
    kept
}

/// Values that are made by many requests.
fn kept_more(add: &mut impl FnMut(String, &str), name: &str, at: usize) {
    if at.is_multiple_of(10) {
        add(format!("TS.ADD k:series:{name} {} {at}", at * 100 + 1), &format!("TS.GET k:series:{name}"));
        add(format!("TDIGEST.ADD k:digest:{name} {at}"), &format!("TDIGEST.MAX k:digest:{name}"));
        add(
            format!("ARMSET k:array:{name} {at} text:{at} {} far:{at}", at * 1000),
            &format!("ARSCAN k:array:{name} 0 1000000 LIMIT 9"),
        );
        add(format!("CMS.INCRBY k:sketch:{name} a 1 b 2"), &format!("CMS.QUERY k:sketch:{name} b"));
        add(format!("TOPK.ADD k:top:{name} item{}", at % 50), &format!("TOPK.LIST k:top:{name}"));
        add(format!("CF.ADDNX k:cuckoo:{name} i{at}"), &format!("CF.EXISTS k:cuckoo:{name} i0"));
    }
    if at.is_multiple_of(100) {
        let vector: String = (0..4).map(|n| format!(" {}", (at * (n + 1)) % 97)).collect();
        add(
            format!("VADD k:vectors:{name} VALUES 4{vector} e{at}"),
            &format!("VSIM k:vectors:{name} VALUES 4 1 2 3 4 COUNT 1 TRUTH"),
        );
    }
}

fn figure(server: &TestServer, field: &str) -> u64 {
    server.connect().info_field("stats", field).expect("the field").parse().expect("a number")
}

#[test]
fn values_that_move_are_read_changed_saved_and_copied() {
    let settings =
        ["--io-threads", "3", "--enable-debug-command", "yes", "--appendonly", "yes", "--save", ""];
    let (server, replica) = (TestServer::start(&settings), TestServer::start(&settings[..4]));
    let mut client = server.connect();
    let kept = kept();
    for Kept { make, .. } in &kept {
        for request in make {
            let reply = client.call(request);
            assert!(!matches!(reply, Value::Error(_)), "{}: {reply:?}", &request[..request.len().min(80)]);
        }
    }
    client.call("EVAL \"return 'a script'\" 0");
    let mut reads: Vec<&str> = kept.iter().map(|kept| kept.read.as_str()).collect();
    reads.sort_unstable();
    reads.dedup();
    let expected: Vec<Value> = reads.iter().map(|read| client.call(read)).collect();
    for (read, reply) in reads.iter().zip(&expected) {
        assert!(!matches!(reply, Value::Error(_)), "{read}: {reply:?}");
    }
    let mut keys: Vec<&str> =
        reads.iter().filter_map(|read| read.split(' ').find(|word| word.starts_with("k:"))).collect();
    keys.sort_unstable();
    keys.dedup();
    let digests = |client: &mut RawClient| client.call(&format!("DEBUG DIGEST-VALUE {}", keys.join(" ")));
    let before = digests(&mut client);

    client.ok("DEBUG RELOCATE-ALL 1");
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (server, reads, expected) = (&server, &reads, &expected);
            let (stop, count) = (&stop, &count);
            scope.spawn(move || {
                let (mut client, mut random) = (server.connect(), fastrand::Rng::with_seed(seed));
                while !stop.load(Relaxed) {
                    let at = random.usize(..reads.len());
                    assert_eq!(client.call(reads[at]), expected[at], "{}", reads[at]);
                    count.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(|| churn(&server, &stop));
        let began = Instant::now();
        replica.connect().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
        while began.elapsed() < TIME {
            // Refused while another one runs.
            client.call("BGSAVE");
            client.call("BGREWRITEAOF");
            assert_eq!(client.call("EVAL \"return 'a script'\" 0"), Value::Bulk(b"a script".to_vec()));
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(digests(&mut client), before);
    let moved = figure(&server, "active_defrag_hits");
    assert!(moved > 10_000 && count.load(Relaxed) > 100, "{moved} moved, {} reads", count.load(Relaxed));
    // A load moves what it has loaded, between two requests.
    client.ok("DEBUG LOADAOF");
    assert_eq!(digests(&mut client), before, "from the append-only file");
    client.ok("DEBUG RELOCATE-ALL 0");
    // The copies, made meanwhile, are whole.
    let mut copy = replica.connect();
    let until = Instant::now() + Duration::from_secs(60);
    while copy.info_field("replication", "master_link_status").as_deref() != Some("up") {
        assert!(Instant::now() < until, "the full sync does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(digests(&mut copy), before, "on the replica");
    client.ok("DEBUG RELOAD");
    assert_eq!(digests(&mut client), before, "from a dump");
}

/// Makes and removes other values of many sizes, by clients, by expiry and by eviction.
fn churn(server: &TestServer, stop: &AtomicBool) {
    let (mut client, mut random) = (server.connect(), fastrand::Rng::with_seed(9));
    let mut round = 0;
    while !stop.load(Relaxed) {
        let mut batch = String::new();
        for _ in 0..50 {
            let (number, size) = (random.u32(..2000), random.usize(1..1500));
            let request = match random.u8(..5) {
                0 => format!("DEL other:{number}"),
                1 => format!("SET other:{number} {} PX 30", "e".repeat(size)),
                2 => format!("RPUSH other:list:{} {}", number % 20, "l".repeat(size)),
                3 => format!("LTRIM other:list:{} 0 20", number % 20),
                _ => format!("SET other:{number} {}", "v".repeat(size)),
            };
            write!(batch, "{request}\r\n").expect("a string");
        }
        client.send(batch.as_bytes());
        for _ in 0..50 {
            let reply = client.read();
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
        round += 1;
        if round % 40 == 0 {
            // Keys with an expiry alone: those that are read have none that is near.
            client.ok("CONFIG SET maxmemory-policy volatile-ttl");
            client.ok("CONFIG SET maxmemory 3mb");
            client.ok("CONFIG SET maxmemory 0");
        }
    }
}
