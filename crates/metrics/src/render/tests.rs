// SPDX-License-Identifier: BSD-3-Clause
//! Tests that parse the text as Prometheus does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use braid_clients::attention::APPEND_ONLY_FAILED;
use braid_clients::{Address, ClientRecord};
use braid_config::Config;
use braid_executor::engine::call::Others;
use braid_executor::engine::{Start, access};
use braid_executor::{Engine, Session, Worker, dispatch};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_telemetry::MetricKind;
use braid_telemetry::hot_keys::{Options, Totals};

use super::*;
use crate::catalogue::{BUCKETS_NANOS, Metric};

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses a text; panics where Prometheus would reject it.
fn parse(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    let mut kinds = BTreeMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut seen = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "duplicate: {line}");
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
        assert!(seen.insert(line[..line.rfind(' ').unwrap()].to_owned()), "duplicate: {line}");
        let value: f64 = rest.trim().parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|name| kinds.contains_key(*name)))
            .unwrap_or(name);
        let kind = kinds.get(family).unwrap_or_else(|| panic!("no TYPE line before: {line}"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        samples.push((name.to_owned(), labels, value));
    }
    (kinds, samples)
}

fn engine() -> Arc<Engine> {
    let config = Config::new();
    config.load_text("io-threads 2\nshards 16\n").unwrap();
    braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).unwrap()
}

fn execute(engine: &Engine, worker: &mut Worker, session: &mut Session, args: &[&[u8]]) {
    let (mut reply, others) = (ReplyBuffer::new(Protocol::Resp2), Others::default());
    let prepared = dispatch::prepare(engine, args);
    let (reply, blobs) = (&mut reply, &[][..]);
    let mut request = dispatch::Request { engine, worker, session, reply, args, blobs, others };
    dispatch::execute(&mut request, prepared);
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
fn rendered_metrics_match_executed_commands() {
    let engine = engine();
    let now = braid_base::clock::unix_ms();
    let record = Arc::new(ClientRecord::new(1, -1, Address::Unknown, Address::Unknown, now));
    engine.clients.registry.add(Arc::clone(&record));
    let mut session = Session::new(record, &engine.attention, &engine.acl);
    let mut worker = engine.worker(1);
    let requests: [&[&[u8]]; 5] =
        [&[b"SET", b"k", b"v"], &[b"GET", b"k"], &[b"GET", b"none"], &[b"INCR", b"k"], &[b"GET"]];
    engine.keyspace.gate.enter(1);
    worker.begin_batch();
    for args in requests {
        execute(&engine, &mut worker, &mut session, args);
    }
    engine.keyspace.gate.leave(1);
    let (kinds, samples) = parse(&render(&engine));
    assert!(kinds.len() > 100, "{}", kinds.len());
    assert!(!kinds.contains_key("braid_hot_keys_tracking"), "tracking was not requested");
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
    assert_eq!(value(&samples, "braid_errors_total", &[("code", "ERR")]), 2.0);
    assert_eq!(value(&samples, "braid_rdb_changes_since_last_save", &[]), 1.0);
    // Buckets are cumulative, and the last one contains all calls.
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
fn hot_keys_are_exported_while_tracking_is_on() {
    let engine = engine();
    let options = Options { cpu: false, net: true, count: 2, sample: 1, duration_ms: None };
    engine
        .telemetry
        .hot_keys
        .start(&engine.telemetry.threads, options, |threads| Totals::of(threads, Default::default()));
    let record = Arc::new(ClientRecord::new(1, -1, Address::Unknown, Address::Unknown, 0));
    let mut session = Session::new(record, &engine.attention, &engine.acl);
    let mut worker = engine.worker(1);
    engine.keyspace.gate.enter(1);
    worker.begin_batch();
    for key in [b"a".as_slice(), b"b\"\n", b"b\"\n"] {
        let args = [b"GET".as_slice(), key];
        execute(&engine, &mut worker, &mut session, &args);
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
    let mut text = String::new();
    let mut samples = Samples::new("x_total", MetricKind::Counter, "y", &mut text);
    samples.add(&[("a", "\"\\\n"), ("b", "}{,=")], 1.5);
    let (_, samples) = parse(&text);
    assert_eq!(value(&samples, "x_total", &[("a", "\"\\\n"), ("b", "}{,=")]), 1.5);
}

/// The rules of `promtool check metrics`, and the project's own rules.
#[test]
fn names_and_help_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for metric in METRICS {
        let Metric { name, help, kind, .. } = metric;
        assert!(names.insert(name), "duplicate: {name}");
        assert!(name.starts_with("braid_") || name.starts_with("process_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(*kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
        for wrong in ["_ms", "_micros", "_usec", "_millis", "_kb", "_percent", "_count", "_sum", "_bucket"] {
            assert!(!name.trim_end_matches("_total").ends_with(wrong), "{name}");
        }
        assert!(help.ends_with('.') && help.len() > 10 && !help.contains('\n'), "{name}: {help}");
        assert!(
            help.starts_with(|first: char| first.is_ascii_uppercase() || first.is_ascii_digit()),
            "{name}"
        );
        assert!(!help.to_lowercase().contains("figure"), "{name}: {help}");
    }
}

#[test]
fn metrics_without_labels_are_always_there() {
    let engine = engine();
    let (kinds, samples) = parse(&render(&engine));
    for metric in METRICS.iter().filter(|metric| matches!(metric.source, Source::One(_))) {
        assert!(kinds.contains_key(metric.name), "{}", metric.name);
        let found: f64 = value(&samples, metric.name, &[]);
        let may_be_none = metric.name.ends_with("_duration_seconds");
        assert!(found >= 0.0 || (may_be_none && found.is_nan()), "{}: {found}", metric.name);
    }
    assert!(value(&samples, "braid_rdb_last_save_timestamp_seconds", &[]) > 1.7e9);
    assert!(value(&samples, "process_open_fds", &[]) >= 3.0);
    assert_eq!(value(&samples, "braid_writes_refused", &[("reason", "aof_write")]), 0.0);
    engine.attention.set(APPEND_ONLY_FAILED, true);
    let (_, samples) = parse(&render(&engine));
    assert_eq!(value(&samples, "braid_writes_refused", &[("reason", "aof_write")]), 1.0);
}

#[test]
fn denials_are_counted_per_user_up_to_a_series_limit() {
    let engine = engine();
    for number in 0..120 {
        engine
            .acl
            .set_user(access::acl_server(&engine), format!("u{number}").as_bytes(), &["on", ">secret"])
            .unwrap();
        let times = if number >= 115 { 5 } else { 1 };
        (0..times).for_each(|_| engine.acl.count_denied_by_http(format!("u{number}").as_bytes()));
    }
    // Not a user's name: the refusal is counted, but gets no series.
    (0..50).for_each(|number| engine.acl.count_denied_by_http(format!("made up {number}").as_bytes()));
    let name = "braid_user_access_denied_total";
    let (_, samples) = parse(&render(&engine));
    assert_eq!(samples.iter().filter(|sample| sample.0 == name).count(), 100);
    assert_eq!(value(&samples, name, &[("user", "u117"), ("reason", "auth")]), 5.0);
    assert_eq!(value(&samples, "braid_access_denied_total", &[("reason", "auth")]), 115.0 + 25.0 + 50.0);
    engine.acl.reset_statistics();
    let (kinds, samples) = parse(&render(&engine));
    assert!(!kinds.contains_key(name));
    assert_eq!(value(&samples, "braid_access_denied_total", &[("reason", "auth")]), 0.0);
}
