// SPDX-License-Identifier: BSD-3-Clause
//! Keys, transactions and leases.

use braid_etcd::{Compare, Error, LeaseId, Operation, Transaction};
use braid_tests::{Etcd, wait_for};

use crate::client;

#[test]
fn keys_are_set_read_and_deleted() {
    let Some(etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    assert_eq!(client.get(b"/a/x").unwrap(), None);
    let all_bytes: Vec<u8> = (0..=255).collect();
    let first = client.put(b"/a/x", &all_bytes, None).unwrap();
    let second = client.put(b"/a/\xff", b"", None).unwrap();
    client.put(b"/b", b"other", None).unwrap();
    assert_eq!(second, first + 1);
    let pair = client.get(b"/a/x").unwrap().unwrap();
    assert_eq!((pair.value, pair.mod_revision, pair.version, pair.lease), (all_bytes, first, 1, None));
    let (pairs, revision) = client.get_prefix(b"/a/").unwrap();
    let keys: Vec<_> = pairs.iter().map(|pair| pair.key.as_slice()).collect();
    assert_eq!(keys, [&b"/a/x"[..], b"/a/\xff"]);
    assert_eq!(revision, second + 1);
    assert_eq!(client.get_prefix(b"").unwrap().0.len(), 3);
    assert!(client.delete(b"/a/x").unwrap());
    assert!(!client.delete(b"/a/x").unwrap());
    let status = client.status().unwrap();
    assert_eq!(status.revision, second + 2);
    assert_eq!(status.leader, Some(status.member));
    assert!(status.version.starts_with("3.") && status.database_size > 0);
}

#[test]
fn a_transaction_does_one_or_the_other() {
    let Some(etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    let get = Operation::Get { key: b"k".to_vec() };
    let put = |value: &[u8]| Operation::Put { key: b"k".to_vec(), value: value.to_vec(), lease: None };
    let change = |compare, value: &[u8]| {
        let others = Operation::GetPrefix { prefix: b"k".to_vec() };
        Transaction { compares: vec![compare], then: vec![put(value)], otherwise: vec![get.clone(), others] }
    };
    let absent = Compare::Version { key: b"k".to_vec(), equals: 0 };
    let made = client.transaction(&change(absent.clone(), b"1")).unwrap();
    assert!(made.succeeded && made.read.is_empty());
    let refused = client.transaction(&change(absent, b"2")).unwrap();
    assert!(!refused.succeeded);
    assert_eq!((refused.read.len(), refused.read[0].len(), refused.read[1].len()), (2, 1, 1));
    assert_eq!((&*refused.read[0][0].value, refused.read[0][0].mod_revision), (&b"1"[..], made.revision));
    let by_revision = |equals| Compare::ModRevision { key: b"k".to_vec(), equals };
    assert!(!client.transaction(&change(by_revision(made.revision - 1), b"2")).unwrap().succeeded);
    let second = client.transaction(&change(by_revision(made.revision), b"2")).unwrap();
    assert!(second.succeeded && second.revision == made.revision + 1);
    let by_value = |value: &[u8]| Compare::Value { key: b"k".to_vec(), equals: value.to_vec() };
    assert!(!client.transaction(&change(by_value(b"1"), b"3")).unwrap().succeeded);
    assert!(client.transaction(&change(by_value(b"2"), b"3")).unwrap().succeeded);
    // Gets in the executed branch see its puts.
    let read = Transaction { then: vec![put(b"4"), get], ..Transaction::default() };
    assert_eq!(client.transaction(&read).unwrap().read[0][0].value, b"4");
    let twice = Transaction { then: vec![put(b"5"), put(b"6")], ..Transaction::default() };
    assert!(
        matches!(client.transaction(&twice), Err(Error::Refused(text)) if text.contains("duplicate key"))
    );
    let delete =
        Transaction { then: vec![Operation::Delete { key: b"k".to_vec() }], ..Transaction::default() };
    assert!(client.transaction(&delete).unwrap().succeeded);
    assert_eq!(client.get(b"k").unwrap(), None);
}

#[test]
fn a_lease_that_ends_takes_its_keys_along() {
    let Some(etcd) = Etcd::start() else { return };
    let client = client(&etcd);
    let lease = client.grant(2).unwrap();
    client.put(b"k", b"v", Some(lease)).unwrap();
    assert_eq!(client.get(b"k").unwrap().unwrap().lease, Some(lease));
    assert_eq!(client.keep_alive(lease).unwrap(), Some(2));
    assert!(client.time_to_live(lease).unwrap().is_some());
    wait_for("the lease to end", || client.get(b"k").unwrap().is_none());
    wait_for("the lease to be deleted", || client.time_to_live(lease).unwrap().is_none());
    assert_eq!(client.keep_alive(lease).unwrap(), None);
    assert_eq!(client.put(b"k", b"v", Some(lease)), Err(Error::LeaseGone));
    let put = Operation::Put { key: b"k".to_vec(), value: b"v".to_vec(), lease: Some(lease) };
    let transaction = Transaction { then: vec![put], ..Transaction::default() };
    assert_eq!(client.transaction(&transaction), Err(Error::LeaseGone));
    assert_eq!(client.get(b"k").unwrap(), None);

    let lease = client.grant(60).unwrap();
    client.put(b"k", b"v", Some(lease)).unwrap();
    assert!(client.revoke(lease).unwrap());
    assert!(!client.revoke(lease).unwrap());
    assert_eq!(client.get(b"k").unwrap(), None);
    assert_eq!(client.keep_alive(LeaseId(77)).unwrap(), None);
}
