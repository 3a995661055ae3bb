// SPDX-License-Identifier: BSD-3-Clause
//! Search on servers in active-active mode: definitions travel, and each server indexes what it
//! receives.

use super::crash::kept;
use super::pair::{all, let_time_pass};
use super::{bring_to_log, cut, link_all, server, texts, wait_until_equal};
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

const CREATE: &str = "FT.CREATE idx ON HASH PREFIX 1 doc: SCHEMA title TEXT price NUMERIC SORTABLE";

/// The keys that a query finds.
fn found(server: &TestServer, index: &str, query: &str) -> Vec<String> {
    let reply = server.connect().call_arguments(&["FT.SEARCH", index, query, "NOCONTENT"]);
    let mut keys = texts(&reply);
    if !keys.is_empty() {
        keys.remove(0);
    }
    keys.sort();
    keys
}

#[track_caller]
fn wait_for_found(servers: &[&TestServer], index: &str, query: &str, keys: &[&str]) {
    wait_for(&format!("all servers to find {keys:?} by {query} in {index}"), || {
        servers.iter().all(|server| found(server, index, query) == keys)
    });
}

#[track_caller]
fn wait_for_indexes(servers: &[&TestServer], names: &[&str]) {
    wait_for(&format!("all servers to have the indexes {names:?}"), || {
        servers.iter().all(|server| {
            let mut there = texts(&server.connect().call("FT._LIST"));
            there.sort();
            there == names
        })
    });
}

#[test]
fn indexes_are_on_all_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, mut two) = (server(1, &["--repl-diskless-sync-delay", "0"]), kept(2, &folder, &[]));
    all(&one, &["HSET doc:1 title 'a red bike' price 5", CREATE]);
    link_all(&[&one, &two]);
    all(&two, &["HSET doc:2 title 'a blue bike' price 7"]);
    wait_for_found(&[&one, &two], "idx", "bike", &["doc:1", "doc:2"]);
    // Changes of an index, and what else a client defines.
    all(&two, &["FT.ALTER idx SCHEMA ADD colour TAG", "FT.ALIASADD shop idx", "FT.DICTADD words one two"]);
    all(&two, &["FT.SYNUPDATE idx group bike bicycle", "HSET doc:3 title other colour green"]);
    wait_for_found(&[&one, &two], "shop", "@colour:{green}", &["doc:3"]);
    wait_for_found(&[&one, &two], "idx", "bicycle", &["doc:1", "doc:2"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(texts(&one.connect().call("FT.DICTDUMP words")), ["one", "two"]);
    // A replica of one has what clients of the other define.
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &one.port().to_string()]);
    all(&two, &["FT.CREATE json ON JSON SCHEMA $.a AS a TAG", "JSON.SET j $ '{\"a\":\"x\"}'"]);
    wait_for_found(&[&one, &two, &replica], "json", "@a:{x}", &["j"]);
    // The files have the definitions.
    bring_to_log(&two);
    two.signal(Signal::KILL);
    two.wait();
    let two = kept(2, &folder, &[]);
    wait_for_found(&[&two], "shop", "@colour:{green}", &["doc:3"]);
    link_all(&[&one, &two]);
    all(&one, &["FT.DROPINDEX json", "FT.DICTDEL words two", "FT.ALIASDEL shop"]);
    wait_for_indexes(&[&one, &two], &["idx"]);
    wait_for("the dictionary to be shorter", || texts(&two.connect().call("FT.DICTDUMP words")) == ["one"]);
    wait_for("the alias to be gone", || matches!(two.connect().call("FT.SEARCH shop bike"), Value::Error(_)));
    wait_until_equal(&[&one, &two]);
    // A third server gets all of it as a full copy.
    let third = server(3, &[]);
    link_all(&[&one, &two, &third]);
    wait_for_found(&[&third], "idx", "bicycle", &["doc:1", "doc:2"]);
}

#[test]
fn definitions_merge() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    let servers = [&one, &two];
    link_all(&servers);
    all(&one, &["HSET doc:1 title bike price 5", CREATE, "FT.CREATE gone SCHEMA title TEXT"]);
    wait_for_indexes(&servers, &["gone", "idx"]);
    cut(&servers);
    all(
        &one,
        &["FT.ALTER idx SCHEMA ADD earlier TAG", "FT.CREATE mine SCHEMA title TEXT", "FT.DROPINDEX gone"],
    );
    let_time_pass(&one);
    all(&two, &["FT.ALTER idx SCHEMA ADD later TAG", "FT.CREATE yours SCHEMA title TEXT"]);
    all(&two, &["HSET doc:2 title bike later x"]);
    link_all(&servers);
    wait_for_indexes(&servers, &["idx", "mine", "yours"]);
    wait_until_equal(&servers);
    wait_for_found(&servers, "idx", "@later:{x}", &["doc:2"]);
    // FLUSHALL takes the definitions that its server had seen.
    cut(&servers);
    all(&one, &["FLUSHALL"]);
    all(&two, &["FT.CREATE new SCHEMA title TEXT", "HSET doc:9 title bike"]);
    link_all(&servers);
    wait_for_indexes(&servers, &["new"]);
    wait_for_found(&servers, "new", "bike", &["doc:9"]);
    wait_until_equal(&servers);
}
