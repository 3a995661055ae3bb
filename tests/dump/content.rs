// SPDX-License-Identifier: BSD-3-Clause
//! A key's content, read by commands.

use braid_tests::{RawClient, Value};

fn ask(client: &mut RawClient, words: &[&[u8]]) -> Value {
    client.call_arguments(words)
}

/// Groups of `width` elements, sorted.
fn sorted(reply: Value, width: usize) -> Vec<String> {
    let mut all: Vec<String> = reply
        .elements()
        .unwrap_or_default()
        .chunks(width)
        .map(|some| some.iter().map(|one| format!("{one}")).collect::<Vec<_>>().join(" = "))
        .collect();
    all.sort();
    all
}

/// A key's whole content as text, equal on all servers that hold the same data.
pub fn content(client: &mut RawClient, key: &[u8], times_of_fields: bool) -> Vec<String> {
    let kind = ask(client, &[b"TYPE", key]).text();
    let mut lines = match kind.as_str() {
        "string" => vec![format!("{}", ask(client, &[b"GET", key]))],
        "list" => vec![format!("{}", ask(client, &[b"LRANGE", key, b"0", b"-1"]))],
        "set" => sorted(ask(client, &[b"SMEMBERS", key]), 1),
        "zset" => scores(ask(client, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])),
        "hash" => hash(client, key, times_of_fields),
        "stream" => stream(client, key),
        // The key has expired since the caller saw it.
        "none" => Vec::new(),
        other => panic!("a key of type {other}"),
    };
    lines.insert(0, kind);
    lines
}

/// Members in order, with their scores as numbers because servers format scores differently.
fn scores(reply: Value) -> Vec<String> {
    let number = |score: &Value| score.text().parse::<f64>().expect("a score");
    reply
        .elements()
        .unwrap_or_default()
        .chunks(2)
        .map(|pair| format!("{} {:?}", pair[0], number(&pair[1])))
        .collect()
}

fn hash(client: &mut RawClient, key: &[u8], times_of_fields: bool) -> Vec<String> {
    let reply = ask(client, &[b"HGETALL", key]);
    let fields: Vec<Vec<u8>> = reply
        .elements()
        .unwrap_or_default()
        .chunks(2)
        .filter_map(|pair| Some(pair[0].bytes()?.to_vec()))
        .collect();
    let mut lines = sorted(reply, 2);
    if times_of_fields {
        let mut times: Vec<String> = fields
            .iter()
            .map(|field| {
                format!("{field:?} {}", ask(client, &[b"HPEXPIRETIME", key, b"FIELDS", b"1", field]))
            })
            .collect();
        times.sort();
        lines.extend(times);
    }
    lines
}

/// Entries, and XINFO without the fields that describe the representation or that servers compute
/// differently.
fn stream(client: &mut RawClient, key: &[u8]) -> Vec<String> {
    const KEPT: [&str; 5] = ["radix-tree-keys", "radix-tree-nodes", "entries", "lag", "active-time"];
    let mut lines = vec![format!("{}", ask(client, &[b"XRANGE", key, b"-", b"+"]))];
    let info = ask(client, &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
    without(&info, &KEPT, &mut lines);
    lines
}

/// Flattens a reply of names and values, omitting some names.
fn without(value: &Value, names: &[&str], lines: &mut Vec<String>) {
    let Some(items) = value.elements() else {
        lines.push(format!("{value}"));
        return;
    };
    let mut at = 0;
    while let Some(item) = items.get(at) {
        if names.contains(&item.text().as_str()) {
            at += 1;
        } else {
            without(item, names, lines);
        }
        at += 1;
    }
}
