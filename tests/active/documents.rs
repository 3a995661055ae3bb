// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents and vector sets of servers in active-active mode.

use super::crash::kept;
use super::pair::all;
use super::{NEEDS_COPIES, bring_to_log, cut, link_all, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

/// Commands of all kinds: at paths of members, in arrays, at several paths at once.
const WRITES: [&str; 25] = [
    r#"JSON.SET a $ '{"n":1,"o":{"x":1,"y":{"z":null}},"l":[1,{"m":2}],"t":"text"}'"#,
    "JSON.SET a $.o.x 7",
    r#"JSON.SET a $.new '{"é\"":[],"":{}}'"#,
    r#"JSON.SET a '$["new"][""].deep' true"#,
    "JSON.NUMINCRBY a $.n 41",
    "JSON.NUMINCRBY a $.n 0.5",
    "JSON.NUMINCRBY a $..x 1",
    "JSON.NUMMULTBY a .n 2",
    "JSON.ARRAPPEND a $.l 3 4",
    "JSON.ARRINSERT a $.l 0 '{\"first\":1}'",
    "JSON.ARRPOP a $.l 1",
    "JSON.ARRTRIM a .l 0 2",
    "JSON.SET a $.l[0].first 2",
    "JSON.STRAPPEND a .t '\"more\"'",
    r#"JSON.TOGGLE a "$.new[''].deep""#,
    "JSON.MERGE a $ '{\"o\":{\"y\":null,\"w\":{\"v\":1}},\"n\":null}'",
    "JSON.CLEAR a $.o.w",
    "JSON.DEL a $..x",
    "JSON.MSET b $ '[1,2]' c $ '{\"k\":{}}'",
    "JSON.MSET c $.k.l 5 b $[0] 7",
    "JSON.DEL b",
    "RENAME c d",
    "COPY a e",
    "EXPIRE e 1000",
    "JSON.SET e $ 5",
];

const VECTORS: [&str; 12] = [
    "VADD v VALUES 3 0.1 0.7 -0.3 a SETATTR '{\"x\":1}'",
    "VADD v VALUES 3 1 2 3 b",
    "VADD v VALUES 3 -1 2 5 c M 16",
    "VADD v VALUES 3 3 2 5.5 a",
    "VREM v b",
    "VSETATTR v c '{\"y\":2}'",
    "VSETATTR v a ''",
    "VADD plain VALUES 2 0.25 -4 e NOQUANT M 8",
    "VADD binary VALUES 3 1 -1 1 e BIN",
    "VADD gone VALUES 3 1 -1 1 e",
    "VREM gone e",
    "RENAME binary signs",
];

/// A document with the members of its objects in order; empty if there is none.
fn document(client: &mut RawClient, key: &str) -> String {
    let reply = client.call(&format!("JSON.GET {key}"));
    if reply.is_null() || matches!(reply, Value::Error(_)) {
        return String::new();
    }
    let mut value: serde_json::Value = serde_json::from_str(&reply.text()).expect("JSON");
    value.sort_all_objects();
    value.to_string()
}

#[track_caller]
fn same_documents(servers: &[&TestServer], keys: &[&str]) -> Vec<String> {
    let shown: Vec<Vec<String>> = servers
        .iter()
        .map(|server| {
            let mut client = server.connect();
            keys.iter().map(|key| document(&mut client, key)).collect()
        })
        .collect();
    assert!(shown.iter().all(|one| *one == shown[0]), "{shown:#?}");
    shown.into_iter().next().expect("a server")
}

#[test]
fn documents_and_vector_sets_are_the_same_everywhere() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    let servers = [&one, &two];
    link_all(&servers);
    for line in WRITES.iter().chain(&VECTORS) {
        let reply = one.connect().call(line);
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
        wait_until_equal(&servers);
    }
    let mut client = two.connect();
    all(&two, &["MULTI", "JSON.SET f $ '{\"i\":1}'", "JSON.SET f $.j 2", "JSON.DEL f $.i", "EXEC"]);
    wait_until_equal(&servers);
    let shown = same_documents(&servers, &["a", "b", "c", "d", "e", "f"]);
    let expected = [
        r#"{"l":[{"first":2},{"m":2},3],"new":{"":{"deep":false},"é\"":[]},"o":{"w":{}},"t":"textmore"}"#,
        "",
        "",
        r#"{"k":{"l":5}}"#,
        "5",
        r#"{"j":2}"#,
    ];
    assert_eq!(shown, expected);
    assert!(client.call("TTL e").integer() > Some(900));
    for line in
        ["VEMB v a", "VEMB v c RAW", "VGETATTR v c", "VGETATTR v a", "VEMB plain e RAW", "VEMB signs e"]
    {
        let replies = servers.map(|server| server.connect().call(line));
        assert_eq!(replies[0], replies[1], "{line}");
    }
    assert_eq!(client.call("VCARD v"), Value::Integer(2));
    assert_eq!(client.call("EXISTS gone binary"), Value::Integer(0));
    assert_eq!(client.call("VLINKS plain e").elements().map(|levels| levels.len()), Some(1));
}

/// Both sides write while they are cut off, one is killed, and a third gets everything as a full
/// copy. Ordinary replicas have the same.
#[test]
fn documents_outlive_partitions_kills_and_copies() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--repl-diskless-sync-delay", "0", "--appendonly", "yes"];
    let (mut one, two) = (kept(1, &folder, &options), server(2, &NEEDS_COPIES));
    link_all(&[&one, &two]);
    all(&one, &[r#"JSON.SET d $ '{"a":{"n":1},"b":{"n":2},"log":["first"]}'"#, "VADD v VALUES 2 1 0 e"]);
    wait_until_equal(&[&one, &two]);
    let port = one.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
    cut(&[&one, &two]);
    for number in 0..400 {
        all(&one, &[&format!("JSON.SET d $.a.one{number} {number}"), "JSON.NUMINCRBY d $.a.n 1"]);
        all(&one, &[&format!("VADD v VALUES 2 {number} 1 one{number} SETATTR {number}")]);
        all(&one, &[&format!("JSON.ARRAPPEND d $.log {number}")]);
        all(&two, &[&format!("JSON.ARRAPPEND d .log '{{\"two\": {number}}}' '[{number}]'")]);
        all(&two, &[&format!("JSON.SET d $.b.two{number} {number}"), "JSON.NUMINCRBY d $.a.n 2"]);
        all(&two, &[&format!("VADD v VALUES 2 1 {number} two{number}")]);
    }
    all(&two, &["JSON.DEL d $.b.n", "VREM v e"]);
    bring_to_log(&one);
    one.signal(Signal::KILL);
    one.wait();
    let one = kept(1, &folder, &options);
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    let third = server(3, &[]);
    link_all(&[&one, &two, &third]);
    wait_until_equal(&[&one, &two, &third]);
    let shown = same_documents(&[&one, &two, &third], &["d"]);
    let value: serde_json::Value = serde_json::from_str(&shown[0]).expect("JSON");
    assert_eq!(value["a"]["n"], 1201);
    assert_eq!((value["a"].as_object().map(serde_json::Map::len), value["b"].get("n")), (Some(401), None));
    assert_eq!(value["b"].as_object().map(serde_json::Map::len), Some(400));
    // All that was appended is there, in the order in which each server appended it.
    let log = value["log"].as_array().expect("an array");
    assert_eq!((log.len(), log[0].as_str()), (1 + 400 + 800, Some("first")));
    let of_one = log.iter().filter_map(serde_json::Value::as_i64);
    assert!(of_one.eq(0..400), "{log:?}");
    let of_two = log.iter().filter_map(|one| one["two"].as_i64().or(one[0].as_i64().map(|number| -number)));
    assert!(of_two.eq((0..400).flat_map(|number| [number, -number])), "{log:?}");
    assert_eq!(third.connect().call("VCARD v"), Value::Integer(800));
    all(&replica, &[&format!("REPLICAOF 127.0.0.1 {}", third.port())]);
    wait_for("the replica has the document", || {
        document(&mut replica.connect(), "d") == shown[0]
            && replica.connect().call("VCARD v") == Value::Integer(800)
    });
}

/// Vectors that are reduced cannot be sent as they were given.
#[test]
fn reduced_vectors_are_refused() {
    let one = server(1, &[]);
    let reply = one.connect().call("VADD v REDUCE 2 VALUES 4 1 2 3 4 e");
    assert_eq!(reply, Value::Error(b"ERR REDUCE is unavailable with active-replica".to_vec()));
    assert_eq!(one.connect().call("EXISTS v"), Value::Integer(0));
}
