//! The text is read as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use braid_config::Config;
use braid_engine::client::{Address, ClientRecord};
use braid_engine::engine::Start;
use braid_engine::hot_keys::{Totals, Wish};
use braid_engine::{Engine, Session, dispatch};
use braid_resp::reply::{Protocol, ReplyBuffer};

use super::*;

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads a text; panics where Prometheus would refuse it.
fn parse(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    let mut kinds = BTreeMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut seen = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = (&line[..end], &line[end..]);
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            while !rest.starts_with('}') {
                let (label, after) = rest.trim_start_matches(',').split_once("=\"").unwrap();
                let mut value = String::new();
                let mut bytes = after.char_indices();
                let close = loop {
                    match bytes.next().unwrap() {
                        (_, '\\') => value.push(match bytes.next().unwrap().1 {
                            'n' => '\n',
                            other => other,
                        }),
                        (at, '"') => break at,
                        (_, other) => value.push(other),
                    }
                };
                assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
                rest = &after[close + 1..];
            }
            rest = &rest[1..];
        }
        assert!(seen.insert(line[..line.rfind(' ').unwrap()].to_owned()), "twice: {line}");
        let value: f64 = rest.trim().parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|name| kinds.contains_key(*name)))
            .unwrap_or(name);
        let kind = kinds.get(family).unwrap_or_else(|| panic!("no type before: {line}"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        samples.push((name.to_owned(), labels, value));
    }
    (kinds, samples)
}

fn engine() -> Arc<Engine> {
    let config = Config::new();
    config.load_text("io-threads 2\nshards 16\n").unwrap();
    Engine::new(Arc::new(config), braid_commands::table(), Start::default()).unwrap()
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |sample: &&Sample| {
        sample.0 == name
            && labels.iter().all(|(label, text)| sample.1.get(*label).is_some_and(|found| found == text))
    };
    let mut found = samples.iter().filter(fits);
    let first = found.next().unwrap_or_else(|| panic!("no {name} {labels:?}"));
    assert!(found.next().is_none(), "several of {name} {labels:?}");
    first.2
}

#[test]
fn figures_are_what_has_happened() {
    let engine = engine();
    let now = braid_base::clock::unix_ms();
    let record = Arc::new(ClientRecord::new(1, -1, Address::Unknown, Address::Unknown, now));
    engine.clients.add(Arc::clone(&record));
    let mut session = Session::new(record, &engine);
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    let mut worker = engine.worker(1);
    let requests: [&[&[u8]]; 5] =
        [&[b"SET", b"k", b"v"], &[b"GET", b"k"], &[b"GET", b"none"], &[b"INCR", b"k"], &[b"GET"]];
    engine.keyspace.gate.enter(1);
    worker.begin_batch();
    for args in requests {
        let prepared = dispatch::prepare(&engine, args);
        dispatch::execute(&engine, &mut worker, &mut session, &mut reply, prepared, args, &[]);
    }
    engine.keyspace.gate.leave(1);
    let (kinds, samples) = parse(&render(&engine));
    assert!(kinds.len() > 35, "{}", kinds.len());
    assert!(!kinds.contains_key("braid_hot_keys_tracking"), "nobody has asked");
    let get = &[("command", "get")];
    assert_eq!(value(&samples, "braid_command_calls_total", get), 2.0);
    assert_eq!(value(&samples, "braid_command_rejected_total", get), 1.0);
    assert_eq!(value(&samples, "braid_command_failed_total", &[("command", "incr")]), 1.0);
    assert_eq!(value(&samples, "braid_keys", &[("db", "0")]), 1.0);
    assert_eq!(value(&samples, "braid_keyspace_hits_total", &[]), 1.0);
    assert_eq!(value(&samples, "braid_keyspace_misses_total", &[]), 1.0);
    assert_eq!(value(&samples, "braid_clients", &[]), 1.0);
    assert_eq!(value(&samples, "braid_thread_commands_total", &[("thread", "1")]), 4.0);
    assert_eq!(value(&samples, "braid_thread_commands_total", &[("thread", "0")]), 0.0);
    assert!(value(&samples, "braid_memory_resident_bytes", &[]) > 1e6);
    // Buckets add up, and the last one holds all.
    let buckets: Vec<f64> = samples
        .iter()
        .filter(|(name, labels, _)| {
            name == "braid_command_duration_seconds_bucket" && labels["command"] == "get"
        })
        .map(|(_, _, count)| *count)
        .collect();
    assert_eq!(buckets.len(), BUCKETS_NANOS.len() + 1);
    assert!(buckets.is_sorted() && buckets.last() == Some(&2.0), "{buckets:?}");
    assert_eq!(value(&samples, "braid_command_duration_seconds_count", get), 2.0);
}

#[test]
fn hot_keys_are_shown_while_somebody_wants_to_know() {
    let engine = engine();
    let wish = Wish { cpu: false, net: true, count: 2, sample: 1, duration_ms: None };
    engine.hot_keys.start(&engine, wish, |engine| Totals::of(engine, Default::default()));
    let record = Arc::new(ClientRecord::new(1, -1, Address::Unknown, Address::Unknown, 0));
    let mut session = Session::new(record, &engine);
    let (mut reply, mut worker) = (ReplyBuffer::new(Protocol::Resp2), engine.worker(1));
    engine.keyspace.gate.enter(1);
    worker.begin_batch();
    for key in [b"a".as_slice(), b"b\"\n", b"b\"\n"] {
        let args = [b"GET".as_slice(), key];
        let prepared = dispatch::prepare(&engine, &args);
        dispatch::execute(&engine, &mut worker, &mut session, &mut reply, prepared, &args, &[]);
    }
    engine.keyspace.gate.leave(1);
    let (_, samples) = parse(&render(&engine));
    assert_eq!(value(&samples, "braid_hot_keys_tracking", &[]), 1.0);
    // *2 $3 GET $1 a and $-1, each with a line end.
    assert_eq!(value(&samples, "braid_hot_key_net_bytes", &[("key", "a")]), 25.0);
    assert_eq!(value(&samples, "braid_hot_key_net_bytes", &[("key", "b\\\"\\n")]), 54.0);
}

#[test]
fn labels_are_quoted() {
    let mut text = Text(String::new());
    text.family("x_total", Kind::Counter, "y");
    text.sample("x_total", &[("a", "\"\\\n"), ("b", "}{,=")], 1.5);
    let (_, samples) = parse(&text.0);
    assert_eq!(value(&samples, "x_total", &[("a", "\"\\\n"), ("b", "}{,=")]), 1.5);
}
