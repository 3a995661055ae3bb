// SPDX-License-Identifier: BSD-3-Clause
//! `min-sync-replicas` while replies wait: the set becomes too small after the writes were
//! executed.

use braid_tests::{Value, request, wait_for};

use crate::{Group, Member, assert_held, assert_uncertain, integer, send_held};

const MODELS: [&str; 5] = ["parallel", "global-lock", "handoff", "hybrid", "fanout"];
const REFUSAL: &str = "NOREPLICAS Not enough in-sync replicas to write.";

fn blocked(group: &mut Group) -> Option<String> {
    group.admin.info_field("clients", "blocked_clients")
}

/// Clients of each kind whose replies wait for a member that does not acknowledge.
fn held_clients(group: &mut Group) -> Vec<braid_tests::RawClient> {
    let [mut write, mut read, mut transaction, mut script, mut popper, mut listener, mut waiter] =
        std::array::from_fn(|_| group.durable());
    popper.send(&request("BLPOP list 0"));
    wait_for("BLPOP waits", || blocked(group).as_deref() == Some("1"));
    listener.call("SUBSCRIBE news");
    transaction.ok("MULTI");
    assert_eq!(transaction.call("INCR n").text(), "QUEUED");
    send_held(&mut write, "SET k 1");
    send_held(&mut read, "GET k");
    send_held(&mut transaction, "EXEC");
    send_held(&mut script, "EVAL \"return redis.call('incr', 's')\" 1 s");
    assert_eq!(group.admin.call("RPUSH list a"), integer(1));
    assert_held(&mut popper);
    group.admin.call("PUBLISH news text");
    assert_held(&mut listener);
    waiter.send(&[request("SET w 1"), request("WAIT 1 1")].concat());
    assert_held(&mut waiter);
    vec![write, read, transaction, script, popper, listener, waiter]
}

#[test]
fn held_replies_wait_until_the_set_is_large_enough_again() {
    for model in MODELS {
        let arguments = ["--min-sync-replicas", "1", "--io-threads", "3", "--threading-model", model];
        let (mut group, mut members) = Group::with(&["a/1"], &arguments);
        let mut clients = held_clients(&mut group);
        group.set(1, &[]);
        clients.iter_mut().for_each(assert_held);
        assert_eq!(group.durable().call("SET late 1").text(), REFUSAL);
        // It acknowledges, but is not in the set yet.
        members[0].catch_up(&mut group.admin);
        members[0].acknowledge();
        clients.iter_mut().for_each(assert_held);
        group.set(1, &["a/1"]);
        members[0].catch_up(&mut group.admin);
        members[0].acknowledge();
        let texts: Vec<Value> = clients.iter_mut().map(braid_tests::RawClient::read).collect();
        assert_eq!((texts[0].text(), texts[1].text()), ("OK".into(), "1".into()));
        assert_eq!((&texts[2], &texts[3]), (&Value::Array(vec![integer(1)]), &integer(1)));
        assert_eq!(texts[4].elements().map(|pair| pair[1].text()), Some("a".into()));
        assert_eq!(texts[5].elements().map(|pair| pair[2].text()), Some("text".into()));
        assert_eq!(texts[6].text(), "OK");
    }
}

#[test]
fn held_replies_become_uncertain_if_the_set_stays_too_small() {
    let (mut group, _members) =
        Group::with(&["a/1", "b/1"], &["--min-sync-replicas", "2", "--sync-timeout", "100"]);
    let mut clients = held_clients(&mut group);
    group.set(1, &[]);
    clients.iter_mut().for_each(assert_uncertain);
    // A read finds the writes at this server alone.
    let mut reader = group.durable();
    send_held(&mut reader, "GET k");
    assert_uncertain(&mut reader);
    assert_eq!(group.admin.call("GET k").text(), "1");
}

#[test]
fn acknowledgements_of_a_part_of_the_set_do_not_suffice() {
    let (mut group, mut members) = Group::with(&["a/1", "b/1"], &["--min-sync-replicas", "2"]);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    group.set(1, &["a/1"]);
    assert_held(&mut client);
    // The minimum is lowered: an acknowledgement by one replica is enough now.
    group.admin.ok("CONFIG SET min-sync-replicas 1");
    assert_eq!(client.read().text(), "OK");
}

#[test]
fn reads_in_a_small_set_reveal_only_confirmed_writes() {
    let (mut group, mut members) = Group::with(&["a/1"], &["--min-sync-replicas", "1"]);
    group.admin.ok("SET k 1");
    group.admin.ok("SET short 1 PX 300");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    // Its acknowledgement has arrived once this is answered.
    let mut reader = group.durable();
    assert_eq!(reader.call("GET k").text(), "1");
    group.set(1, &[]);
    assert_eq!(reader.call("GET k").text(), "1");
    // Keys expire meanwhile. No client has written that.
    wait_for("a key expires", || reader.call("GET short") == Value::NullBulk);
    assert_eq!(reader.call("DBSIZE"), integer(1));
    // A client that does not wait writes: that is at this server alone.
    group.admin.ok("SET k 2");
    send_held(&mut reader, "GET k");
    let mut script = group.durable();
    send_held(&mut script, "EVAL \"return redis.call('get', 'k')\" 1 k");
    let mut member = Member::attach(&group, "a/2", 1);
    group.set(1, &["a/2"]);
    member.catch_up(&mut group.admin);
    member.acknowledge();
    assert_eq!(reader.read().text(), "2");
    assert_eq!(script.read().text(), "2");
}

#[test]
fn a_pop_served_in_a_small_set_waits() {
    let (mut group, mut members) = Group::with(&["a/1"], &["--min-sync-replicas", "1"]);
    let mut popper = group.durable();
    popper.send(&request("BLPOP list 0"));
    wait_for("BLPOP waits", || blocked(&mut group).as_deref() == Some("1"));
    group.set(1, &[]);
    assert_eq!(group.durable().call("RPUSH list a").text(), REFUSAL);
    assert_eq!(group.admin.call("EVAL \"return redis.call('rpush', 'list', 'a')\" 1 list"), integer(1));
    assert_held(&mut popper);
    group.set(1, &["a/1"]);
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_eq!(popper.read().elements().map(|pair| pair[1].text()), Some("a".into()));
}

#[test]
fn the_minimum_applies_to_what_is_on_disk() {
    let arguments = [
        "--min-sync-replicas",
        "1",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--sync-level",
        "disk",
    ];
    let (mut group, mut members) = Group::with(&["a/1"], &arguments);
    let end = members[0].offset();
    members[0].acknowledge_on_disk(end);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge_on_disk(end);
    group.set(1, &[]);
    assert_held(&mut client);
    group.set(1, &["a/1"]);
    assert_held(&mut client);
    members[0].catch_up(&mut group.admin);
    let end = members[0].offset();
    members[0].acknowledge_on_disk(end);
    assert_eq!(client.read().text(), "OK");
}
