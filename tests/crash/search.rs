// SPDX-License-Identifier: BSD-3-Clause
//! A server with search indexes that is killed while clients write: after its restart queries find
//! each document that is there, by what is in it, and none that is not.

use std::collections::BTreeMap;
use std::time::Duration;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value, wait_for, words};
use rustix::process::Signal;

const CLIENTS: usize = 4;
/// Keys that a client changes.
const KEYS: u32 = 300;
/// Requests of a client in flight.
const PIPELINE: usize = 16;
const TAGS: u32 = 5;
const WORDS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const DIM: usize = 4;

const INDEXES: [&str; 2] = [
    "FT.CREATE h PREFIX 1 h: SCHEMA t TEXT g TAG n NUMERIC SORTABLE v VECTOR HNSW 6 TYPE FLOAT32 DIM 4 \
     DISTANCE_METRIC L2",
    "FT.CREATE j ON JSON PREFIX 1 j: SCHEMA $.t AS t TEXT $.g AS g TAG $.n AS n NUMERIC",
];

/// A random change of a document.
fn change(random: &mut fastrand::Rng, client: usize) -> Vec<u8> {
    let key = format!("{client}:{}", random.u32(..KEYS));
    let text = format!("{} {}", WORDS[random.usize(..4)], WORDS[random.usize(..4)]);
    let (tag, figure) = (random.u32(..TAGS).to_string(), random.u32(..100).to_string());
    let vector: Vec<u8> = (0..DIM).flat_map(|_| random.f32().to_le_bytes()).collect();
    let (hash, json) = (format!("h:{key}"), format!("j:{key}"));
    match random.u32(..10) {
        0 | 1 => words::encode(&["DEL", &hash, &json]),
        2 => words::encode(&["RENAME", &hash, &format!("h:{client}:{}", random.u32(..KEYS))]),
        3 => words::encode(&["HDEL", &hash, "g"]),
        4 | 5 => {
            let document = format!("{{\"t\":\"{text}\",\"g\":\"{tag}\",\"n\":{figure}}}");
            words::encode(&["JSON.SET", &json, "$", &document])
        }
        _ => words::encode(&[
            &b"HSET"[..],
            hash.as_bytes(),
            b"t",
            text.as_bytes(),
            b"g",
            tag.as_bytes(),
            b"n",
            figure.as_bytes(),
            b"v",
            &vector,
        ]),
    }
}

/// Sends changes until the server is gone; how many were acknowledged.
fn work(server: &TestServer, client: usize, seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let Ok(mut connection) = RawClient::tcp(server.address()) else { return 0 };
    let mut acknowledged = 0;
    loop {
        let requests: Vec<u8> = (0..PIPELINE).flat_map(|_| change(&mut random, client)).collect();
        if connection.try_send(&requests).is_err() {
            return acknowledged;
        }
        for _ in 0..PIPELINE {
            if connection.try_read().is_err() {
                return acknowledged;
            }
            acknowledged += 1;
        }
    }
}

/// Keys by what a query asks for.
type Answers = BTreeMap<String, Vec<String>>;

/// What each query must find, from the documents themselves.
fn expected(client: &mut RawClient, index: &str) -> Answers {
    let mut answers = Answers::new();
    let keys = client.call(&format!("KEYS {index}:*"));
    for key in keys.elements().expect("keys").iter().map(Value::text) {
        let values: Vec<Option<String>> = match index {
            "h" => {
                let values = client.call(&format!("HMGET {key} t g n v"));
                let values = values.elements().expect("values");
                values.iter().map(|value| (*value != Value::NullBulk).then(|| value.text())).collect()
            }
            _ => ["t", "g", "n"]
                .map(|name| {
                    let found = client.call(&format!("JSON.GET {key} .{name}")).text();
                    Some(found.trim_matches('"').to_owned())
                })
                .into(),
        };
        let mut add = |query: String| answers.entry(query).or_default().push(key.clone());
        add("*".to_owned());
        for word in WORDS.iter().filter(|word| values[0].as_ref().is_some_and(|text| text.contains(*word))) {
            add(format!("@t:{word}"));
        }
        if let Some(tag) = &values[1] {
            add(format!("@g:{{{tag}}}"));
        }
        if let Some(figure) = &values[2] {
            add(format!("@n:[{figure} {figure}]"));
        }
        if values.get(3).is_some_and(Option::is_some) {
            add("*=>[KNN 5000 @v $v]".to_owned());
        }
    }
    answers.values_mut().for_each(|keys| keys.sort());
    answers
}

/// All keys that a query finds.
fn found(client: &mut RawClient, index: &str, query: &str) -> Vec<String> {
    let vector = [0_u8; DIM * 4];
    let reply = client.call_arguments(&[
        &b"FT.SEARCH"[..],
        index.as_bytes(),
        query.as_bytes(),
        b"NOCONTENT",
        b"LIMIT",
        b"0",
        b"10000",
        b"PARAMS",
        b"2",
        b"v",
        &vector,
    ]);
    let words = reply.elements().unwrap_or_else(|| panic!("{query}: {reply:?}"));
    let mut keys: Vec<String> = words[1..].iter().map(Value::text).collect();
    keys.sort();
    keys
}

fn is_complete(client: &mut RawClient, index: &str) -> bool {
    let report = client.call(&format!("FT.INFO {index}"));
    let words = report.elements().unwrap_or_else(|| panic!("{report:?}"));
    let at = words.iter().position(|word| word.text() == "indexing").expect("a field");
    words[at + 1].integer() == Some(0)
}

/// Every query finds what is there; the number of documents.
fn check(server: &TestServer) -> usize {
    let mut client = server.connect();
    let mut documents = 0;
    for index in ["h", "j"] {
        wait_for("the index", || is_complete(&mut client, index));
        let mut answers = expected(&mut client, index);
        // Queries that must find nothing are asked, too.
        let tags = (0..TAGS).map(|tag| format!("@g:{{{tag}}}"));
        let figures = (0..100).map(|figure| format!("@n:[{figure} {figure}]"));
        let texts = WORDS.iter().map(|word| format!("@t:{word}"));
        tags.chain(figures).chain(texts).for_each(|query| {
            answers.entry(query).or_default();
        });
        for (query, keys) in &answers {
            assert_eq!(&found(&mut client, index, query), keys, "{index}: {query}");
        }
        documents += answers.get("*").map_or(0, Vec::len);
    }
    documents
}

fn kill_again_and_again(test: &str, more: &[&str]) {
    if !is_braid() {
        return;
    }
    let mut random = source(test);
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..number("BRAID_ROUNDS", 3) {
        let server = super::start(folder.path(), more);
        let mut client = server.connect();
        for line in INDEXES.iter().filter(|_| round == 0) {
            client.ok(line);
        }
        let life = Duration::from_millis(random.u64(50..600));
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.u64(..)).collect();
        let acknowledged: usize = std::thread::scope(|scope| {
            let server = &server;
            let workers: Vec<_> = seeds
                .iter()
                .enumerate()
                .map(|(client, seed)| scope.spawn(move || work(server, client, *seed)))
                .collect();
            std::thread::sleep(life);
            server.signal(Signal::KILL);
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
        });
        drop(server);
        let server = super::start(folder.path(), more);
        let documents = check(&server);
        println!("{test}, round {round}: {acknowledged} changes acknowledged, {documents} documents found");
    }
}

#[test]
fn after_a_kill_queries_find_the_documents_that_are_there() {
    kill_again_and_again("search, append-only file", super::ON);
}

#[test]
fn after_a_kill_during_rewrites_queries_find_the_documents_that_are_there() {
    kill_again_and_again(
        "search, rewritten",
        &["--appendonly", "yes", "--auto-aof-rewrite-min-size", "64kb"],
    );
}
