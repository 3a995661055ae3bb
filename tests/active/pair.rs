// SPDX-License-Identifier: BSD-3-Clause
//! Two active-active servers: replication in both directions, partitions, conflicts and expiry.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use super::proxy::Proxy;
use super::{NEEDS_COPIES, bring_to_log, cut, link, link_all, server, texts, wait_until_equal};
use braid_tests::wait::PATIENCE;
use braid_tests::{RawClient, TestServer, Value, wait_for, wait_for_within};

/// Sends requests, none of which may fail.
pub(crate) fn all(server: &TestServer, lines: &[&str]) {
    all_of(&mut server.connect(), lines);
}

fn all_of(client: &mut RawClient, lines: &[&str]) {
    for line in lines {
        let reply = client.call(line);
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
    }
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a date").as_millis()
}

/// Makes sure that the server's writes so far are stamped, and that later writes elsewhere get
/// later stamps.
pub(crate) fn let_time_pass(server: &TestServer) {
    bring_to_log(server);
    let stamped = now_ms();
    wait_for("a millisecond has passed", || now_ms() > stamped + 1);
}

#[test]
fn writes_on_either_side_reach_both() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    all(
        &one,
        &[
            "SET text a",
            "APPEND text b",
            "SETRANGE text 3 c",
            "SETBIT bits 7 1",
            "INCRBY number 5",
            "INCRBYFLOAT float 1.5",
            "HSET hash f 1 g 2",
            "HDEL hash g",
            "HINCRBY hash h 3",
            "SADD set a b c",
            "SREM set c",
            "ZADD sorted 1 a 2 b",
            "ZINCRBY sorted 5 a",
            "RPUSH list a b c",
            "LPOP list",
            "XADD stream * f v",
            "XGROUP CREATE stream g 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
            "SET mortal x PX 100000",
            "EXPIRE hash 5000",
        ],
    );
    all(
        &two,
        &[
            "SELECT 3",
            "SET text other",
            "MULTI",
            "SET in-transaction 1",
            "RPUSH in-transaction-list a",
            "EXEC",
            "EVAL \"redis.call('set',KEYS[1],'x') redis.call('incr',KEYS[2])\" 2 by-script by-script-too",
        ],
    );
    wait_until_equal(&[&one, &two]);
    let mut client = two.connect();
    assert_eq!(client.call("GET text").text(), "ab\0c");
    assert_eq!(client.call("INCR number"), Value::Integer(6));
    assert_eq!(client.call("XLEN stream"), Value::Integer(1));
    assert_eq!(texts(&client.call("LRANGE list 0 -1")), ["b", "c"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(one.connect().call("GET number").text(), "6");
    // From here on the peer knows the key, and its removal covers what was seen.
    all(&one, &["DEL text hash", "FLUSHDB"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(client.call("DBSIZE"), Value::Integer(0));
}

/// Their bytes may differ (sparse or dense), so their counts are compared.
#[test]
fn hyperloglogs_are_united() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    all(&one, &["PFADD counted a b c"]);
    all(&two, &["PFADD counted c d", "PFADD more x", "PFMERGE more counted"]);
    link_all(&[&one, &two]);
    for server in [&one, &two] {
        wait_for("the union", || server.connect().call("PFCOUNT counted") == Value::Integer(4));
        wait_for("the merged HyperLogLog", || server.connect().call("PFCOUNT more") == Value::Integer(3));
    }
    all(&one, &["PFADD counted e"]);
    wait_for("the added element", || two.connect().call("PFCOUNT counted") == Value::Integer(5));
}

#[test]
fn derived_results_replicate_as_values() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    all(
        &one,
        &[
            "SADD a 1 2 3",
            "SADD b 2 3 4",
            "SINTERSTORE c a b",
            "ZADD x 1 a 2 b",
            "ZADD y 3 b 4 c",
            "ZUNIONSTORE z 2 x y",
            "RPUSH l 3 1 2",
            "SORT l STORE sorted",
            "SET s value PX 100000",
            "COPY s copy",
            "RENAME s renamed",
            "BITOP NOT inverted copy",
            "BITFIELD field SET u8 0 200",
            "MOVE renamed 5",
            "GEOADD places 13.36 38.11 Palermo 15.08 37.50 Catania",
            "GEOSEARCHSTORE near places FROMLONLAT 15 37 BYRADIUS 200 km",
            "LMOVE l sorted LEFT RIGHT",
            "SPOP b",
            "GETDEL copy",
        ],
    );
    wait_until_equal(&[&one, &two]);
    let mut client = two.connect();
    assert_eq!(client.call("SCARD c"), Value::Integer(2));
    assert_eq!(client.call("ZSCORE z b").text(), "5");
    assert_eq!(texts(&client.call("LRANGE sorted 0 -1")), ["1", "2", "3", "3"]);
    assert_eq!(client.call("EXISTS s renamed copy"), Value::Integer(0));
}

/// Both sides write while they are disconnected. KeyDB's users have reported that in this
/// situation deleted keys come back, counters lose increments, values are swapped, lists and sets
/// lose additions, and writes lose to older ones.
#[test]
fn partitions_heal() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    let (to_one, to_two) = (Proxy::new(one.port()), Proxy::new(two.port()));
    link(&one, &[to_two.port()]);
    link(&two, &[to_one.port()]);
    all(
        &one,
        &[
            "SET deleted x",
            "SET swapped first",
            "SET counter 10",
            "RPUSH list a",
            "SADD set a b",
            "HSET hash f 1",
            "ZADD board 1 player",
            "SET extended x PX 60000",
        ],
    );
    wait_until_equal(&[&one, &two]);
    link(&one, &[]);
    link(&two, &[]);
    wait_for("both servers to have no peers", || {
        [&one, &two]
            .iter()
            .all(|server| server.connect().info_field("active", "active_peers").as_deref() == Some("0"))
    });
    all(
        &one,
        &[
            "DEL deleted",
            "SET swapped of-one",
            "INCRBY counter 5",
            "RPUSH list one",
            "SREM set a",
            "HSET hash one 1",
            "ZINCRBY board 3 player",
            "EXPIRE extended 100000",
            "SET only-one 1",
        ],
    );
    let_time_pass(&one);
    all(
        &two,
        &[
            "SET swapped of-two",
            "INCRBY counter 7",
            "RPUSH list two",
            "SREM set a",
            "SADD set a",
            "HDEL hash f",
            "ZINCRBY board 4 player",
            "EXPIRE extended 5",
            "SET only-two 2",
        ],
    );
    to_one.cut();
    to_two.cut();
    link(&one, &[to_two.port()]);
    link(&two, &[to_one.port()]);
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    assert_eq!(client.call("EXISTS deleted"), Value::Integer(0), "a deleted key came back");
    assert_eq!(client.call("GET swapped").text(), "of-two", "the later write wins");
    assert_eq!(client.call("GET counter").text(), "22");
    assert_eq!(client.call("LLEN list"), Value::Integer(3));
    assert_eq!(texts(&client.call("SMEMBERS set")).len(), 2, "an addition wins");
    assert_eq!(texts(&client.call("HGETALL hash")), ["one", "1"]);
    assert_eq!(client.call("ZSCORE board player").text(), "8");
    assert_eq!(client.call("EXISTS only-one only-two"), Value::Integer(2));
    let Value::Integer(left) = client.call("PTTL extended") else { panic!("no time") };
    assert!(left > 60_000, "the longest expiry wins: {left}");
}

/// Waits until one server's writes have reached another. HyperLogLogs with equal counts may
/// differ in bytes, so digests cannot be compared.
fn hear(from: &TestServer, at: &TestServer) {
    let value = format!("{}-{}", from.port(), now_ms());
    from.connect().ok(&format!("SET heard {value}"));
    wait_for("the write to arrive", || at.connect().call("GET heard").text() == value);
}

/// Adding an existing element still counts as an addition: a removal that has not seen it leaves
/// the element. Locally nothing else happens.
#[test]
fn adding_an_existing_element_protects_it_from_removal() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    let members = "tx script plain removed";
    link_all(&[&one, &two]);
    all(
        &one,
        &[
            &format!("SADD set {members}"),
            "ZADD board 1 plain 1 changed 1 zero 1 new-only 1 existing-only 1 greater",
            "PFADD seen a b",
        ],
    );
    hear(&one, &two);
    cut(&[&one, &two]);
    all(&one, &["DEL set board seen"]);
    let mut client = two.connect();
    let mut watching = two.connect();
    watching.ok("WATCH set board seen");
    let changes = client.info_field("persistence", "rdb_changes_since_last_save");
    for (command, reply) in [
        ("SADD set plain plain", 0),
        ("ZADD board 1 plain", 0),
        ("ZADD board CH 0x1 changed", 0),
        ("ZADD board NX 1 new-only", 0),
        ("ZADD board XX 1 existing-only", 0),
        ("ZADD board GT 1 greater", 0),
        ("PFADD seen a", 0),
        ("EVAL \"return redis.call('sadd',KEYS[1],'script')\" 1 set", 0),
    ] {
        assert_eq!(client.call(command), Value::Integer(reply), "{command}");
    }
    assert_eq!(client.call("ZINCRBY board 0 zero").text(), "1");
    all(&two, &["MULTI", "SADD set tx", "EXEC"]);
    assert_eq!(client.info_field("persistence", "rdb_changes_since_last_save"), changes);
    all_of(&mut watching, &["MULTI", "PING"]);
    assert!(!watching.call("EXEC").is_null(), "no watched key has changed");
    link_all(&[&one, &two]);
    hear(&one, &two);
    hear(&two, &one);
    for server in [&one, &two] {
        let mut client = server.connect();
        let mut set = texts(&client.call("SMEMBERS set"));
        set.sort();
        assert_eq!(set, ["plain", "script", "tx"]);
        assert_eq!(client.call("PFCOUNT seen"), Value::Integer(1));
        assert_eq!(
            texts(&client.call("ZRANGE board 0 -1 WITHSCORES")),
            ["zero", "0", "changed", "1", "plain", "1"]
        );
    }
}

#[test]
fn peers_join_with_data_on_both_sides() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    all(&one, &["SET a 1", "SADD set one", "SET both of-one", "INCRBY sum 3"]);
    let_time_pass(&one);
    all(&two, &["SET b 2", "SADD set two", "SET both of-two", "INCRBY sum 4"]);
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    assert_eq!(texts(&client.call("MGET a b both")), ["1", "2", "of-two"]);
    assert_eq!(client.call("SCARD set"), Value::Integer(2));
    assert_eq!(client.call("GET sum").text(), "7");
}

#[test]
fn keydbs_names_and_numbers_by_first_contact() {
    let usual = ["--active-replica", "yes", "--enable-debug-command", "yes"];
    let one = TestServer::start(&usual);
    let port = one.port().to_string();
    let two = TestServer::start(
        &[&usual[..], &["--multi-master", "yes", "--replicaof", "127.0.0.1", &port]].concat(),
    );
    one.connect().ok(&format!("REPLICAOF 127.0.0.1 {}", two.port()));
    all(&one, &["SET a 1"]);
    all(&two, &["SET b 2"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(texts(&two.connect().call("MGET a b")), ["1", "2"]);
    assert!(one.connect().info("replication").contains("role:master"), "the server takes writes");
}

#[test]
fn a_full_copy_merges_where_the_backlog_does_not_reach() {
    let (one, two) = (server(1, &NEEDS_COPIES), server(2, &[]));
    let mut client = one.connect();
    for number in 0..2000 {
        client.ok(&format!("SET key:{number} {number:0>100}"));
    }
    all(&two, &["SET mine 1", "SET key:1 of-two"]);
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    let copies = || two.connect().info_field("active", "active_full_copies_merged");
    wait_for("the copy is counted", || copies().as_deref() == Some("1"));
    assert_eq!(two.connect().call("DBSIZE"), Value::Integer(2001));
    all(&two, &["DEL key:7"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(one.connect().call("EXISTS key:7"), Value::Integer(0));
}

/// Clients see the copy arrive; their writes wait, and are applied once.
#[test]
fn clients_read_while_a_full_copy_is_merged() {
    const KEYS: i64 = 300_000;
    let (one, two) = (server(1, &NEEDS_COPIES), server(2, &[]));
    let mut client = one.connect();
    for first in (0..KEYS).step_by(1000) {
        let words: String = (first..first + 1000).map(|key| format!(" key:{key} {key}")).collect();
        client.ok(&format!("MSET{words}"));
    }
    all(&two, &["SET mine 1", "INCR counter"]);
    let is_merged = AtomicBool::new(false);
    let (partly, written) = std::thread::scope(|scope| {
        let read = || {
            let (mut client, mut partly) = (two.connect(), 0);
            while !is_merged.load(Relaxed) {
                let size = client.call("DBSIZE");
                partly += usize::from(matches!(size, Value::Integer(size) if (3..KEYS).contains(&size)));
            }
            partly
        };
        let write = || {
            let (mut client, mut written) = (two.connect(), 0);
            while !is_merged.load(Relaxed) {
                client.call("INCR counter");
                written += 1;
            }
            written
        };
        let (reader, writer) = (scope.spawn(read), scope.spawn(write));
        link_all(&[&one, &two]);
        let copies = || two.connect().info_field("active", "active_full_copies_merged");
        wait_for("the copy is merged", || copies().as_deref() == Some("1"));
        is_merged.store(true, Relaxed);
        (reader.join().expect("no panic"), writer.join().expect("no panic"))
    });
    assert!(partly > 0, "no read saw a partial copy");
    wait_until_equal(&[&one, &two]);
    let mut client = two.connect();
    assert_eq!(client.call("DBSIZE"), Value::Integer(KEYS + 2));
    assert_eq!(client.call("GET counter").text(), (written + 1).to_string());
    assert_eq!(client.call(&format!("GET key:{}", KEYS - 1)).text(), (KEYS - 1).to_string());
}

#[test]
fn times_end_once_and_for_all() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    all(&one, &["SET short x PX 300", "HSET hash f 1 g 2", "HPEXPIRE hash 300 FIELDS 1 f", "SET long x"]);
    wait_until_equal(&[&one, &two]);
    wait_for("expired keys and fields to disappear", || {
        [&one, &two].iter().all(|server| {
            let mut client = server.connect();
            client.call("DBSIZE") == Value::Integer(2) && client.call("HLEN hash") == Value::Integer(1)
        })
    });
    wait_until_equal(&[&one, &two]);
}

#[test]
fn replicas_and_append_only_files_contain_peer_writes() {
    let (one, two) = (server(1, &["--repl-diskless-sync-delay", "0"]), server(2, &["--appendonly", "yes"]));
    let port = one.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
    link_all(&[&one, &two]);
    all(&two, &["SET a 1", "RPUSH list a b", "INCRBYFLOAT f 1.25", "SET mortal x PX 200"]);
    all(&one, &["SET b 1", "SADD set a", "ZADD z 1 a", "SINTERSTORE s set set"]);
    wait_until_equal(&[&one, &two]);
    let digest = |server: &TestServer| server.connect().call("DEBUG DIGEST").text().to_string();
    wait_for("the replica to have all data", || digest(&replica) == digest(&one));
    two.connect().ok("DEBUG LOADAOF");
    wait_for("the file to have all data", || digest(&two) == digest(&one));
}

/// Keys that are written around their expiry, by type: the command that creates a key, and a
/// write that is valid both before and after it expires.
const ABOUT_TO_END: [(&str, &str); 7] = [
    ("HSET KEY a 1", "HSET KEY b 2"),
    ("SADD KEY a", "SADD KEY b"),
    ("ZADD KEY 1 a", "ZINCRBY KEY 2 b"),
    ("RPUSH KEY a", "LPUSH KEY b"),
    ("SET KEY a", "APPEND KEY b"),
    ("SET KEY 1", "INCR KEY"),
    ("XADD KEY * f v", "XADD KEY * f v"),
];

/// As above, for a field or member: the commands that create it, set its expiry, and write it.
const ABOUT_TO_LOSE: [(&str, &str, &str); 4] = [
    ("HSET KEY f 1 g 1", "HPEXPIREAT KEY TIME FIELDS 1 f", "HINCRBY KEY f 1"),
    ("HSET KEY f 1 g 1", "HPEXPIREAT KEY TIME FIELDS 1 f", "HSET KEY h 1"),
    ("SADD KEY f g", "SPEXPIREAT KEY TIME MEMBERS 1 f", "SADD KEY f h"),
    ("ZADD KEY 1 f 1 g", "ZPEXPIREAT KEY TIME MEMBERS 1 f", "ZINCRBY KEY 1 f"),
];

/// Gives keys the same expiry and writes to them until it has passed: each line has KEY in place
/// of its key, and TIME in place of the expiry.
fn write_until_the_end(server: &TestServer, name: &str, lines: &[(String, String, String)]) {
    let mut client = server.connect();
    let end = now_ms() + 40;
    let line = |text: &str, key: usize| {
        text.replace("KEY", &format!("{name}:{key}")).replace("TIME", &end.to_string())
    };
    for (key, (make, expire, _)) in lines.iter().enumerate() {
        client.call(&line(make, key));
        client.call(&line(expire, key));
    }
    while now_ms() < end + 3 {
        for (key, (.., write)) in lines.iter().enumerate() {
            let reply = client.call(&line(write, key));
            assert!(!matches!(reply, Value::Error(_)), "{write}: {reply:?}");
        }
    }
}

fn about_ends() -> Vec<(String, String, String)> {
    let keys = ABOUT_TO_END.iter().map(|(make, write)| (*make, "PEXPIREAT KEY TIME", *write));
    let all = keys.chain(ABOUT_TO_LOSE).cycle().take(22);
    all.map(|(make, expire, write)| (make.into(), expire.into(), write.into())).collect()
}

/// Number of rounds of tests that need a write in the right millisecond.
fn rounds(usual: usize) -> usize {
    std::env::var("BRAID_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The peer receives such writes after the expiry: the keys must end there as well, and later
/// writes must stay.
#[test]
fn writes_about_a_keys_time_mean_the_same_at_the_peer() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    for round in 0..rounds(15) {
        write_until_the_end(&one, &format!("one:{round}"), &about_ends());
        if round % 50 == 49 {
            wait_until_equal(&[&one, &two]);
        }
    }
    wait_until_equal(&[&one, &two]);
}

/// Both write to keys whose expiry was set by the other, each with its own view of when that is.
#[test]
fn both_write_about_a_keys_time() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    for round in 0..rounds(15) {
        let name = format!("both:{round}");
        std::thread::scope(|scope| {
            for server in [&one, &two] {
                let name = &name;
                scope.spawn(move || write_until_the_end(server, name, &about_ends()));
            }
        });
        if round % 50 == 49 {
            wait_until_equal(&[&one, &two]);
        }
    }
    wait_until_equal(&[&one, &two]);
}

/// Setting an expiry in the past removes the key everywhere.
#[test]
fn a_time_in_the_past_removes_everywhere() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    all(&one, &["SET a 1", "SET b 1", "HSET h f 1 g 1", "SET c 1"]);
    wait_until_equal(&[&one, &two]);
    all(&two, &["PEXPIREAT a 1", "EXPIRE b -1", "HPEXPIREAT h 1 FIELDS 1 f", "GETEX c EXAT 1"]);
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    assert_eq!(client.call("EXISTS a b c"), Value::Integer(0));
    assert_eq!(client.call("HLEN h"), Value::Integer(1));
}

/// The region that set the expiry removes the key. If that region is permanently gone, another
/// one does.
#[test]
fn keys_of_a_forgotten_region_still_expire() {
    let one = server(1, &[]);
    {
        let two = server(2, &[]);
        link_all(&[&one, &two]);
        all(
            &two,
            &["SET ends x PX 1", "HSET hash f 1 g 1", "HPEXPIRE hash 1 FIELDS 1 f", "SET later x PX 700"],
        );
        let has_heard = || one.connect().call("EXISTS hash later") == Value::Integer(2);
        wait_for("the keys to arrive", has_heard);
    }
    link(&one, &[]);
    let mut client = one.connect();
    wait_for("expired keys to be hidden", || client.call("DBSIZE") == Value::Integer(1));
    wait_for("the region is forgotten", || client.call("ACTIVE FORGET 2").text() == "OK");
    let three = server(3, &[]);
    link_all(&[&one, &three]);
    wait_until_equal(&[&one, &three]);
    assert_eq!(client.call("HLEN hash"), Value::Integer(1));
    assert_eq!(three.connect().call("DBSIZE"), Value::Integer(1));
}

#[test]
fn claims_do_not_move_the_last_delivered_id() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    let mut client = one.connect();
    for id in 1..=3 {
        client.call(&format!("XADD s {id}-1 f v"));
    }
    client.ok("XGROUP CREATE s g 0");
    client.call("XCLAIM s g c 0 3-1 FORCE JUSTID");
    let groups = client.call("XINFO GROUPS s").to_string();
    let mut peer = two.connect();
    let mut seen = String::new();
    let equal = wait_for_within(PATIENCE, || {
        seen = peer.call("XINFO GROUPS s").to_string();
        seen == groups
    });
    assert!(equal, "{seen}, not {groups}");
    // Also if the whole value is read from the keyspace.
    client.ok("RENAME s t");
    client.ok("SET renamed 1");
    wait_for("the writes to arrive", || peer.call("EXISTS renamed t") == Value::Integer(2));
    let delivered = |client: &mut RawClient| {
        let groups = client.call("XINFO GROUPS t");
        texts(&groups.elements().expect("groups")[0])[7].clone()
    };
    assert_eq!((delivered(&mut client), delivered(&mut peer)), ("0-0".into(), "0-0".into()));
    client.call("XREADGROUP GROUP g c COUNT 2 STREAMS t >");
    client.call("XACK t g 1-1");
    client.call("XGROUP SETID t g 1-1");
    wait_for("both servers to agree", || {
        let show = |client: &mut RawClient| (delivered(client), client.call("XPENDING t g").to_string());
        show(&mut client) == show(&mut peer) && delivered(&mut peer) == "1-1"
    });
}

#[test]
fn entries_given_back_have_no_consumer_at_the_peer() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    let (mut client, mut peer) = (one.connect(), two.connect());
    client.call("XADD s 1-1 f v");
    client.call("XADD s 2-1 f v");
    client.ok("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g c STREAMS s >");
    assert_eq!(client.call("XNACK s g FATAL IDS 1 1-1"), Value::Integer(1));
    let mut check = |key: &str, client: &mut RawClient| {
        let released = client.call(&format!("XPENDING {key} g 1-1 1-1 1")).to_string();
        assert!(released.contains("9223372036854775807"), "{released}");
        wait_for("the release to arrive", || {
            peer.call(&format!("XPENDING {key} g 1-1 1-1 1")).to_string() == released
        });
        for client in [client, &mut peer] {
            let consumers = client.call(&format!("XINFO CONSUMERS {key} g"));
            assert_eq!(consumers.elements().expect("consumers").len(), 1);
        }
    };
    check("s", &mut client);
    // Also if the whole value is read from the keyspace.
    client.ok("RENAME s t");
    client.ok("SET renamed 1");
    wait_for("the writes to arrive", || two.connect().call("EXISTS renamed t") == Value::Integer(2));
    check("t", &mut client);
    assert!(client.call("XADD t IDMP p 1 * f v").text().contains("unavailable with active-replica"));
    wait_until_equal(&[&one, &two]);
}

/// List commands are replicated as changes of exactly the elements they touched, even among equal
/// ones.
#[test]
fn list_commands_are_about_the_same_elements_at_the_peer() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    let mut peer = two.connect();
    for (commands, expected) in [
        (&["RPUSH list x a x b x c x d x"][..], "x a x b x c x d x"),
        (&["LREM list 1 x"], "a x b x c x d x"),
        (&["LREM list -2 x"], "a x b x c d"),
        (&["LSET list 3 y", "LSET list -1 x"], "a x b y c x"),
        (&["LINSERT list BEFORE x z", "LINSERT list AFTER x z"], "a z x z b y c x"),
        (&["LTRIM list 1 -2"], "z x z b y c"),
        (&["LMOVE list list LEFT RIGHT", "RPOPLPUSH list list", "LMOVE list other RIGHT LEFT"], "z x z b y"),
        (&["MULTI", "RPUSH list z", "LREM list 0 z", "EXEC"], "x b y"),
        (&["EVAL \"redis.call('lset',KEYS[1],1,'x')\" 1 list"], "x x y"),
        (&["RPUSH list z z", "LPOP list 2", "RPOP list"], "y z"),
        (&["LMPOP 2 none list LEFT COUNT 1", "BLMOVE other list LEFT LEFT 0"], "c z"),
    ] {
        all(&one, commands);
        assert_eq!(texts(&one.connect().call("LRANGE list 0 -1")).join(" "), expected);
        let mut held = String::new();
        let arrived = wait_for_within(PATIENCE, || {
            held = texts(&peer.call("LRANGE list 0 -1")).join(" ");
            held == expected
        });
        assert!(arrived, "after {commands:?} the peer has {held}, not {expected}");
    }
    wait_until_equal(&[&one, &two]);
    let sent = one.connect().info_field("active", "active_sent_as_values");
    assert_eq!(sent.as_deref(), Some("0"), "a list was sent as a whole value");
}

/// Both push to a list and remove what they have pushed, as fast as they can: in the end no
/// removed element is present, and none is present twice.
#[test]
fn removed_list_elements_stay_away_under_load() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    let write = |server: &TestServer, first: u32| -> Vec<String> {
        let mut client = server.connect();
        let mut kept = Vec::new();
        for number in first..first + 3000 {
            client.call(&format!("RPUSH list {number}"));
            if number % 3 == 0 {
                kept.push(number.to_string());
            } else {
                assert_eq!(client.call(&format!("LREM list 1 {number}")), Value::Integer(1));
            }
        }
        kept
    };
    let mut expected: Vec<String> = std::thread::scope(|scope| {
        let writers = [(&one, 0), (&one, 10_000), (&two, 20_000), (&two, 30_000)]
            .map(|(server, first)| scope.spawn(move || write(server, first)));
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect()
    });
    wait_until_equal(&[&one, &two]);
    let mut held = texts(&one.connect().call("LRANGE list 0 -1"));
    held.sort_unstable();
    expected.sort_unstable();
    assert_eq!(held.len(), expected.len());
    assert_eq!(held, expected);
}
