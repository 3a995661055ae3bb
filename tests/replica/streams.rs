// SPDX-License-Identifier: BSD-3-Clause
//! Streams with consumer groups: random histories, after each step of which a group's lag is the
//! number of entries that it has yet to read. At their end replicas (the program under test and
//! stock servers), the append-only file and DUMP have the same stream: entries, counters, groups,
//! pending entries.
//!
//! `BRAID_HISTORIES` is the number of histories (default 8).

use std::path::Path;

use braid_tests::random::{number, source};
use braid_tests::server::{is_braid, newer_peers};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

use crate::{primary, replica, replica_at, wait_until_in_sync};

const KEYS: [&str; 2] = ["s1", "s2"];
const STEPS: usize = 100;

/// A random step of a history. `LAST` is the ID of the stream's last entry, `NEXT` a greater one
/// than the last ID.
fn step(random: &mut fastrand::Rng, is_newest: bool) -> (&'static str, String) {
    let key = KEYS[random.usize(..KEYS.len())];
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..3 {
        let most = [12, 30, 60][random.usize(..3)];
        ids.push(format!("{}-0", random.u32(..most)));
    }
    let [id, other, third] = [&ids[0], &ids[1], &ids[2]];
    let mut one_of = |words: &[&'static str]| words[random.usize(..words.len())];
    let (group, consumer, few) =
        (one_of(&["g", "h"]), one_of(&["ann", "bob"]), one_of(&["1", "2", "3", "5", "8"]));
    let policy = if is_newest { one_of(&["", "", " KEEPREF", " DELREF", " ACKED", " ACKED"]) } else { "" };
    let bound = match one_of(&["len", "id", "last", "about"]) {
        "len" => format!("MAXLEN {few}"),
        "id" => format!("MINID {id}"),
        "last" => "MINID LAST".to_owned(),
        _ => format!("MAXLEN ~ {few}"),
    };
    let text = match random.u32(..100) {
        0..20 => format!("XADD {key} NEXT f v"),
        20..28 => format!("XADD {key} {bound}{policy} NEXT f v"),
        28..44 => format!("XREADGROUP GROUP {group} {consumer} COUNT {few} STREAMS {key} >"),
        44..47 => format!("XREADGROUP GROUP {group} {consumer} COUNT {few} NOACK STREAMS {key} >"),
        47..57 => format!("XREADGROUP GROUP {group} {consumer} STREAMS {key} 0"),
        57..60 => format!("XREADGROUP GROUP {group} {consumer} COUNT {few} STREAMS {key} {id}"),
        60..64 => format!("XDEL {key} {id} {other}"),
        64..66 => format!("XDEL {key} LAST"),
        66..72 => format!("XTRIM {key} {bound}{policy}"),
        72..77 => format!("XACK {key} {group} {id} {other} {third}"),
        77..81 if is_newest => format!("XACKDEL {key} {group}{policy} IDS 3 {id} {other} {third}"),
        81..84 if is_newest => format!("XDELEX {key}{policy} IDS 2 {id} {other}"),
        84..87 => format!("XCLAIM {key} {group} {consumer} 0 {id} {other} FORCE JUSTID"),
        87..88 => format!("XCLAIM {key} {group} {consumer} 0 {id} LASTID {other}"),
        88..91 => format!("XAUTOCLAIM {key} {group} {consumer} 0 {id} COUNT {few}"),
        91..93 => format!("XGROUP SETID {key} {group} {id}"),
        93..95 => format!("XGROUP CREATE {key} {group} $ MKSTREAM"),
        95..96 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
        96..97 => format!("XSETID {key} NEXT"),
        97..98 => "COPY s1 s2 REPLACE".to_owned(),
        98..99 => "DEBUG RELOAD".to_owned(),
        _ => format!("XGROUP CREATE {key} {group} 0 MKSTREAM"),
    };
    (key, text)
}

/// A reply without the fields that depend on a server's clock or memory, or on `without`.
fn told(value: &Value, without: &[&str]) -> String {
    let Some(elements) = value.elements() else {
        return match value {
            Value::Null | Value::NullBulk | Value::NullArray => "nil".to_owned(),
            Value::Integer(number) => number.to_string(),
            other => other.text(),
        };
    };
    let mut texts = Vec::new();
    let mut rest = elements.iter();
    while let Some(element) = rest.next() {
        let name = if element.elements().is_some() { String::new() } else { element.text() };
        let own = ["seen-time", "active-time", "radix-tree-keys", "radix-tree-nodes"];
        if own.contains(&name.as_str()) || without.contains(&name.as_str()) {
            rest.next();
        } else {
            texts.push(told(element, without));
        }
    }
    format!("[{}]", texts.join(" "))
}

/// All that a server says about a stream.
fn state(client: &mut RawClient, key: &str, without: &[&str]) -> String {
    let mut lines = vec![told(&client.call(&format!("XINFO STREAM {key} FULL COUNT 0")), without)];
    for group in ["g", "h"] {
        let pending = client.call(&format!("XPENDING {key} {group}"));
        // Errors name the key.
        lines.push(if pending.is_error() { "no group".to_owned() } else { told(&pending, &[]) });
    }
    lines.join("\n")
}

fn states(client: &mut RawClient, without: &[&str]) -> Vec<String> {
    KEYS.iter().map(|key| state(client, key, without)).collect()
}

/// The value of a field in a reply of alternating names and values.
fn field(pairs: &Value, name: &str) -> Value {
    let pairs = pairs.elements().unwrap_or_default();
    let found = pairs.chunks_exact(2).find(|pair| pair[0].text() == name);
    found.unwrap_or_else(|| panic!("no {name}"))[1].clone()
}

/// Checks counters of a stream against its entries.
#[track_caller]
fn check_counters(client: &mut RawClient, key: &str, history: &[String]) {
    let about = client.call(&format!("XINFO STREAM {key}"));
    if about.is_error() {
        return;
    }
    let of = |name: &str| field(&about, name);
    let length = client.call(&format!("XLEN {key}"));
    assert_eq!(of("length"), length, "{history:#?}");
    let (is_empty, has_nodes) = (length == Value::Integer(0), of("radix-tree-keys") != Value::Integer(0));
    assert_eq!(is_empty, !has_nodes, "a node without entries: {history:#?}");
    for group in client.call(&format!("XINFO GROUPS {key}")).elements().unwrap_or_default() {
        let after = field(group, "last-delivered-id").text();
        if let Value::Integer(lag) = field(group, "lag") {
            let unread = client.call(&format!("XRANGE {key} ({after} +"));
            let unread = unread.elements().map_or(0, <[Value]>::len) as i64;
            assert_eq!(lag, unread, "group {} of {key}: {history:#?}", field(group, "name").text());
        }
    }
}

/// Runs a random history; returns its requests.
fn run(client: &mut RawClient, random: &mut fastrand::Rng) -> Vec<String> {
    let mut history = Vec::new();
    let mut last = 0;
    for _ in 0..STEPS {
        let (key, mut text) = step(random, is_braid());
        if text.contains("NEXT") {
            last += random.u32(1..3);
            text = text.replace("NEXT", &format!("{last}-0"));
        }
        if text.ends_with(" LAST") || text.contains(" LAST ") {
            let entry = client.call(&format!("XREVRANGE {key} + - COUNT 1"));
            let id = entry.elements().and_then(|entries| entries.first()?.elements()?.first().cloned());
            text = text.replace("LAST", &id.map_or("1-0".to_owned(), |id| id.text()));
        }
        client.call(&text);
        history.push(text);
        KEYS.iter().for_each(|key| check_counters(client, key, &history));
    }
    history
}

/// Checks that a server restores what DUMP says.
#[track_caller]
fn check_dump(client: &mut RawClient, its: &mut RawClient, without: &[&str], history: &[String]) {
    for key in KEYS {
        let Value::Bulk(payload) = client.call(&format!("DUMP {key}")) else { continue };
        let reply = its.call_arguments(&[b"RESTORE", b"restored".as_slice(), b"0", &payload, b"REPLACE"]);
        assert_eq!(reply, Value::ok(), "{history:#?}");
        assert_eq!(state(client, key, without), state(its, "restored", without), "{history:#?}");
        its.call("DEL restored");
    }
}

fn rewrite(client: &mut RawClient) {
    client.call("BGREWRITEAOF");
    wait_for("the rewrite", || {
        let field = |client: &mut RawClient, name: &str| client.info_field("persistence", name);
        field(client, "aof_rewrite_in_progress").as_deref() == Some("0")
            && field(client, "aof_rewrite_scheduled").as_deref() != Some("1")
    });
    assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
}

fn with_file(folder: &Path) -> TestServer {
    let folder = folder.to_str().expect("a readable path");
    let file = ["--appendonly", "yes", "--dir", folder, "--auto-aof-rewrite-percentage", "0"];
    primary(&[&file[..], &["--stream-node-max-entries", "5"]].concat())
}

/// Stops a server and starts it again with its append-only file.
fn restarted(mut server: TestServer, folder: &Path) -> TestServer {
    server.signal(Signal::TERM);
    assert!(server.wait().success(), "{}", server.log());
    drop(server);
    with_file(folder)
}

#[test]
fn random_histories_of_streams_are_the_same_everywhere() {
    let mut random = source("random_histories_of_streams_are_the_same_everywhere");
    let folder = tempfile::tempdir().expect("a folder");
    let server = with_file(folder.path());
    let mut client = server.connect();
    let port = server.port().to_string();
    let own = primary(&["--replicaof", "127.0.0.1", &port, "--stream-node-max-entries", "5"]);
    let mut its = own.connect();
    wait_until_in_sync(&mut client, &mut its);
    let mut replicas = vec![("the program under test".to_owned(), own, its)];
    for peer in newer_peers() {
        let other = replica(&peer, &server, &[]);
        let its = other.connect();
        replicas.push((peer.version.clone(), other, its));
    }
    let newer = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis"));
    let alone = newer.map(|peer| TestServer::start_program(&peer.program, &[]));
    for round in 0..number("BRAID_HISTORIES", 8) {
        client.call("FLUSHALL");
        client.ok(&format!("CONFIG SET aof-use-rdb-preamble {}", ["yes", "no"][round as usize % 2]));
        let history = run(&mut client, &mut random);
        for (name, _, its) in &mut replicas {
            wait_until_in_sync(&mut client, its);
            // Valkey counts a lag that is not there.
            let without: &[&str] = if name.starts_with("valkey") { &["lag"] } else { &[] };
            for key in KEYS {
                let (ours, theirs) = (state(&mut client, key, without), state(its, key, without));
                // 0-1 stands for 0-0 if entries were trimmed from the middle.
                let theirs = match ours.contains("max-deleted-entry-id 0-0") {
                    true => theirs.replace("max-deleted-entry-id 0-1", "max-deleted-entry-id 0-0"),
                    false => theirs,
                };
                assert_eq!(ours, theirs, "{name}: {history:#?}");
            }
        }
        check_dump(&mut client, &mut server.connect(), &[], &history);
        if let Some(alone) = &alone {
            check_dump(&mut client, &mut alone.connect(), &[], &history);
        }
        let before = states(&mut client, &[]);
        client.ok("DEBUG LOADAOF");
        assert_eq!(before, states(&mut client, &[]), "the file: {history:#?}");
        rewrite(&mut client);
        client.ok("DEBUG LOADAOF");
        assert_eq!(before, states(&mut client, &[]), "the rewritten file: {history:#?}");
    }
    let before = states(&mut client, &[]);
    drop((client, replicas));
    let server = restarted(server, folder.path());
    assert_eq!(before, states(&mut server.connect(), &[]), "after a restart");
}

#[test]
fn reading_a_history_keeps_pending_entries_that_are_gone_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = with_file(folder.path());
    let mut client = server.connect();
    let own = primary(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let mut others = vec![(own.connect(), own)];
    for peer in newer_peers() {
        let other = replica_at(&peer, &server.port().to_string(), &[]);
        others.push((other.connect(), other));
    }
    for ms in 1..=5 {
        client.call(&format!("XADD s {ms}-0 f v"));
    }
    client.ok("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g ann STREAMS s >");
    client.call("XDEL s 1-0 4-0");
    client.call("XTRIM s MAXLEN 2");
    let history = client.call("XREADGROUP GROUP g ann STREAMS s 0");
    assert_eq!(told(&history, &[]).matches("nil").count(), 3, "{history}");
    // Nothing is left of what this reads.
    client.call("XREADGROUP GROUP g ann COUNT 1 STREAMS s 0");
    let pending = "[5 1-0 5-0 [[ann 5]]]";
    assert_eq!(told(&client.call("XPENDING s g"), &[]), pending);
    for (its, _) in &mut others {
        wait_until_in_sync(&mut client, its);
        assert_eq!(told(&its.call("XPENDING s g"), &[]), pending);
    }
    let before = state(&mut client, "s", &[]);
    drop((client, others));
    let server = restarted(server, folder.path());
    let mut client = server.connect();
    assert_eq!(state(&mut client, "s", &[]), before);
    // As commands, too, of which XCLAIM drops pending entries that are gone.
    client.ok("CONFIG SET aof-use-rdb-preamble no");
    rewrite(&mut client);
    drop(client);
    let server = restarted(server, folder.path());
    assert_eq!(state(&mut server.connect(), "s", &[]), before);
}

/// Requests with their replies by Redis 8.2.3.
const OF_8_2: &[(&str, &str)] = &[
    // With DELREF the references of other groups go only with one that this group waits for.
    ("XADD a 1-0 f v", "1-0"),
    ("XADD a 2-0 f v", "2-0"),
    ("XADD a 3-0 f v", "3-0"),
    ("XGROUP CREATE a g 0", "OK"),
    ("XGROUP CREATE a h 0", "OK"),
    ("XGROUP CREATE a i 0", "OK"),
    ("XACKDEL a g DELREF IDS 2 1-0 2-0", "[-1 -1]"),
    ("XDEL a 1-0", "1"),
    ("XACKDEL a g ACKED IDS 1 1-0", "[-1]"),
    ("XDELEX a ACKED IDS 2 9-0 0-0", "[2 -1]"),
    ("XDELEX a ACKED IDS 1 3-0", "[2]"),
    ("XDELEX nokey IDS 1 abc", "[-1]"),
    ("XDELEX nokey IDS 2 abc", "ERR The `numids` parameter must match the number of arguments"),
    ("XDELEX nokey BOGUS IDS 1 abc", "ERR syntax error"),
    ("XACKDEL nokey g IDS 1 abc", "[-1]"),
    ("XACKDEL a nogroup IDS 1 abc", "[-1]"),
    ("XACKDEL a nogroup BOGUS IDS 1 1", "ERR syntax error"),
    ("XACKDEL a g IDS 1 abc", "ERR Invalid stream ID specified as stream command argument"),
    ("SET text a", "OK"),
    ("XDELEX text BOGUS IDS 1 1-0", "WRONGTYPE"),
    ("XDELEX text IDS 0 zz", "WRONGTYPE"),
    ("XACKDEL text g IDS 1 zz", "WRONGTYPE"),
    ("XDELEX a KEEPREF DELREF IDS 1 1-0", "ERR syntax error"),
    ("XDELEX a IDS 1 zz IDS 1 3-0", "[1]"),
    ("XADD a DELREF DELREF 9-0 f v", "ERR Invalid stream ID specified as stream command argument"),
    ("XADD a DELREF KEEPREF 9-0 f v", "ERR Invalid stream ID specified as stream command argument"),
    ("XTRIM a MAXLEN 1 DELREF DELREF", "ERR syntax error"),
    // What is acknowledged although its entry is gone.
    ("XADD b 1-0 f v", "1-0"),
    ("XADD b 2-0 f v", "2-0"),
    ("XADD b 3-0 f v", "3-0"),
    ("XGROUP CREATE b g 0", "OK"),
    ("XGROUP CREATE b h 0", "OK"),
    ("XREADGROUP GROUP g ann COUNT 2 STREAMS b >", ""),
    ("XREADGROUP GROUP h ann STREAMS b >", ""),
    ("XDEL b 1-0 3-0", "2"),
    ("XACKDEL b g DELREF IDS 2 1-0 3-0", "[1 -1]"),
    ("XPENDING b h", "[2 2-0 3-0 [[ann 2]]]"),
    ("XACKDEL b h ACKED IDS 2 2-0 3-0", "[2 2]"),
    ("XACKDEL b g ACKED IDS 1 2-0", "[1]"),
    ("XLEN b", "0"),
    // A trim is no deletion.
    ("XADD c 1-0 f v", "1-0"),
    ("XADD c 2-0 f v", "2-0"),
    ("XADD c 3-0 f v", "3-0"),
    ("XADD c 4-0 f v", "4-0"),
    ("XGROUP CREATE c g 0", "OK"),
    ("XREADGROUP GROUP g ann COUNT 3 STREAMS c >", ""),
    ("XACK c g 2-0 3-0", "2"),
    ("XTRIM c MAXLEN 2 ACKED", "2"),
    ("XINFO GROUPS c", "[[name g consumers 1 pending 1 last-delivered-id 3-0 entries-read 3 lag 1]]"),
    // What stock servers count wrongly: a node without entries, entries passed by LASTID.
    ("XADD d 1-0 f v", "1-0"),
    ("XADD d 2-0 f v", "2-0"),
    ("XDEL d 2-0", "1"),
    ("XTRIM d MINID = 2-0", "1"),
    ("XADD e 1-0 f v", "1-0"),
    ("XADD e 2-0 f v", "2-0"),
    ("XADD e 3-0 f v", "3-0"),
    ("XGROUP CREATE e g 0", "OK"),
    ("XREADGROUP GROUP g ann COUNT 1 STREAMS e >", ""),
    ("XCLAIM e g ann 0 1-0 JUSTID LASTID 2-0", "[1-0]"),
    ("XINFO GROUPS e", "[[name g consumers 1 pending 1 last-delivered-id 2-0 entries-read 2 lag 1]]"),
];

#[test]
fn replies_about_removed_entries_are_those_of_8_2() {
    if !is_braid() {
        return;
    }
    let server = primary(&[]);
    let mut client = server.connect();
    for (request, expected) in OF_8_2 {
        let reply = told(&client.call(request), &[]);
        let agrees = expected.is_empty()
            || reply == *expected
            || *expected == "WRONGTYPE" && reply.starts_with("WRONGTYPE ");
        assert!(agrees, "{request}: {reply}");
    }
    assert_eq!(field(&client.call("XINFO STREAM c"), "max-deleted-entry-id").text(), "0-0");
    assert_eq!(field(&client.call("XINFO STREAM d"), "radix-tree-keys"), Value::Integer(0));
}

/// Commands that look up a stream once.
const LOOKUPS: &[&str] = &[
    "XINFO STREAM x",
    "XINFO STREAM x FULL",
    "XINFO STREAM x BOGUS",
    "XINFO GROUPS x",
    "XINFO CONSUMERS x g",
    "XACK x g 1-1",
    "XACK x g zz",
    "XACK x nogroup 1-1",
    "XCLAIM x g ann 0 1-1",
    "XCLAIM x nogroup ann 0 1-1",
    "XCLAIM x g ann zz 1-1",
    "XAUTOCLAIM x g ann 0 0",
    "XAUTOCLAIM x g ann zz 0",
    "XPENDING x g",
    "XDEL x 9-9",
    "XTRIM x MAXLEN 100",
    "XADD x NOMKSTREAM * a b",
    "XGROUP SETID x g 0",
    "XGROUP CREATECONSUMER x g bob",
    "XLEN x",
    "XRANGE x - +",
];

/// Such commands of 8.2, whose look-ups Redis 8.2.3 counts like those of XACK and XDEL.
const NEWER_LOOKUPS: &[(&str, [i64; 2])] = &[
    ("XACKDEL x g IDS 1 9-9", [1, 1]),
    ("XACKDEL x nogroup IDS 1 9-9", [1, 1]),
    ("XACKDEL x g IDS 1 zz", [1, 1]),
    ("XDELEX x IDS 1 9-9", [0, 0]),
];

/// Hits, misses and `keymiss` events of a command on a missing key, on a stream and on a string.
fn lookups(server: &TestServer, request: &str) -> Vec<[i64; 3]> {
    let mut client = server.connect();
    client.ok("CONFIG SET notify-keyspace-events Em");
    let setups: [&[&str]; 3] = [&[], &["XADD x 1-1 f v", "XGROUP CREATE x g 0"], &["SET x v"]];
    let counted = setups.map(|setup| {
        client.call("DEL x");
        setup.iter().for_each(|text| _ = client.call(text));
        let mut listener = server.connect();
        listener.call("SUBSCRIBE __keyevent@0__:keymiss");
        client.ok("CONFIG RESETSTAT");
        client.call(request);
        let figures =
            ["keyspace_hits", "keyspace_misses"].map(|name| crate::figure(&mut client, "stats", name));
        client.call("PUBLISH __keyevent@0__:keymiss end");
        let mut events = 0;
        while listener.read().elements().and_then(|message| message.last().map(Value::text))
            != Some("end".into())
        {
            events += 1;
        }
        [figures[0], figures[1], events]
    });
    counted.to_vec()
}

#[test]
fn look_ups_of_streams_are_counted_as_by_stock_servers() {
    let server = primary(&[]);
    for peer in newer_peers() {
        let other = TestServer::start_program(&peer.program, &[]);
        for request in LOOKUPS {
            assert_eq!(lookups(&server, request), lookups(&other, request), "{}: {request}", peer.version);
        }
    }
    for (request, [hits, misses]) in NEWER_LOOKUPS.iter().filter(|_| is_braid()) {
        let expected = [[0, *misses, *misses], [*hits, 0, 0], [*hits, 0, 0]];
        assert_eq!(lookups(&server, request), expected, "{request}");
    }
}
