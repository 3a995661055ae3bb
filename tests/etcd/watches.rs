// SPDX-License-Identifier: BSD-3-Clause
//! Watches: order, expiry of leases, restarts, compaction.

use std::time::{Duration, Instant};

use braid_etcd::{Client, Error, Event, Watch};
use braid_tests::wait::PATIENCE;
use braid_tests::{Etcd, wait_for};

use crate::client;

/// The next `count` changes as `+key=value` and `-key`.
fn changes(watch: &mut Watch, count: usize) -> Vec<String> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < count {
        assert!(start.elapsed() < PATIENCE, "only {seen:?} was seen");
        let Some(batch) = watch.wait().unwrap() else { continue };
        seen.extend(batch.events.iter().map(|event| match event {
            Event::Put(pair) => {
                format!("+{}={}", String::from_utf8_lossy(&pair.key), String::from_utf8_lossy(&pair.value))
            }
            Event::Delete { key, .. } => format!("-{}", String::from_utf8_lossy(key)),
        }));
    }
    seen
}

fn watch(client: &Client, from_revision: i64) -> Watch {
    client.watch_prefix(b"/w/", from_revision, Duration::from_secs(1)).unwrap()
}

#[test]
fn watch_delivers_changes_in_order_across_a_restart() {
    let Some(mut etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    let mut all = watch(&client, 0);
    let lease = client.grant(2).unwrap();
    client.put(b"/w/leased", b"", Some(lease)).unwrap();
    client.put(b"/w/a", b"1", None).unwrap();
    client.put(b"/x", b"not watched", None).unwrap();
    client.put(b"/w/a", b"2", None).unwrap();
    client.delete(b"/w/a").unwrap();
    let seen = changes(&mut all, 5);
    assert_eq!(seen, ["+/w/leased=", "+/w/a=1", "+/w/a=2", "-/w/a", "-/w/leased"]);
    // A period without events yields `None`, not an error.
    assert_eq!(all.wait().unwrap(), None);

    etcd.stop();
    let error = all.wait().unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(all.wait().is_err(), "a failed watch still delivers");
    etcd.restart();
    client.put(b"/w/b", b"while it was not watched", None).unwrap();
    let mut again = watch(&client, all.next_revision());
    assert_eq!(changes(&mut again, 1), ["+/w/b=while it was not watched"]);
    client.put(b"/w/b", b"3", None).unwrap();
    assert_eq!(changes(&mut again, 1), ["+/w/b=3"]);
}

#[test]
fn a_watch_of_compacted_revisions_says_so() {
    let Some(etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    for _ in 0..5 {
        client.put(b"/w/k", b"v", None).unwrap();
    }
    let (_, revision) = client.get_prefix(b"/w/").unwrap();
    etcd.post("/v3/kv/compaction", &format!(r#"{{"revision":"{revision}"}}"#));
    let mut watch = watch(&client, 1);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < PATIENCE);
        if let Err(error) = watch.wait() {
            break error;
        }
    };
    assert_eq!(error, Error::Compacted { oldest: revision });
}

#[test]
fn a_watch_ends_when_its_endpoint_stops_answering() {
    let Some(etcd) = Etcd::start() else { return };
    let options =
        braid_etcd::Options { request_timeout: Duration::from_secs(1), ..crate::options(&[etcd.endpoint()]) };
    let client = Client::new(&options).unwrap();
    let mut watch = watch(&client, 0);
    etcd.pause();
    assert_eq!(watch.wait().unwrap(), None, "silence alone is no error");
    assert!(client.get(b"k").is_err());
    assert!(matches!(watch.wait(), Err(Error::Unreachable(_))));
    etcd.resume();
    wait_for("etcd to answer", || client.get(b"k").is_ok());
}
