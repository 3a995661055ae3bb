// SPDX-License-Identifier: BSD-3-Clause
//! Commands that passed the checks, while their thread waits outside of the gate.

use std::sync::Arc;

use braid_clients::{Address, ClientRecord};
use braid_group::cluster::{KnownNode, Map, ShardSlots};
use braid_group::record::{Holder, Keys, MemberId, Node, Record, Shard};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{Group, KeySpec, Scope};

use super::*;
use crate::cluster_map::ClusterView;
use crate::engine::call::{Call, Others};
use crate::engine::row::Row;
use crate::testing::cluster_engine;

/// A command that stops the world.
static ROWS: [Row; 1] = [Row::new("sweep", Group::Generic, |_: &mut Call| Ok(()))
    .exactly(2)
    .keys(&[KeySpec::at(1, KeyFlags::RW)])
    .scope(Scope::World)];
const ARGS: &[&[u8]] = &[b"SWEEP", b"key"];

/// Publishes a cluster of one node, which leads a shard with these slots.
fn show(engine: &Engine, slots: &str) {
    let map = engine.cluster_map().expect("a cluster of several nodes");
    let id = map.id();
    let keys = Keys::of_shard("test", &id);
    let member = MemberId::new("a", "r");
    let known = KnownNode { id: id.clone(), shard: id.clone(), host: "h".into(), port: 7000, tls_port: 0 };
    let node = Node { run: "r".into(), id: (&*id).into(), host: "h".into(), port: 7000, ..Node::default() };
    let shard = Shard {
        epoch: 1,
        primary: member.clone(),
        in_sync: [member.clone()].into(),
        lease: 1,
        is_handed_over: false,
        is_on_disk: false,
        base: None,
    };
    let slots = ShardSlots { slots: slots.parse().expect("slots"), ..ShardSlots::default() };
    let prefix = keys.prefix();
    let records = [
        (format!("{prefix}known/a"), known.to_json()),
        (format!("{prefix}slots/{id}"), slots.to_json()),
        (keys.node("a"), node.to_json()),
        (keys.shard(), shard.to_json()),
        (keys.holder(), Holder { epoch: 1, member, lease: 1 }.to_json()),
    ];
    let records = records.iter().map(|(key, value)| Record {
        key: key.as_bytes(),
        value: value.as_bytes(),
        revision: 1,
        lease: 1,
    });
    let view = ClusterView::new(Arc::new(Map::read(&keys, records, 1)), id);
    assert!(view.leads);
    map.publish(view, false);
    map.set_led(true, false);
}

#[test]
fn waiting_command_is_rechecked_when_its_slot_moves() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = cluster_engine(&folder, &ROWS);
    engine.attention.set(LOADING, false);
    let record = ClientRecord::new(1, 0, Address::Unknown, Address::Unknown, 0);
    let mut session = Session::new(Arc::new(record), &engine.attention, &engine.acl);
    let (mut worker, mut reply) = (engine.worker(0), ReplyBuffer::default());
    let command = engine.commands.find(b"SWEEP").expect("a command");
    let mut request = Request {
        engine: &engine,
        worker: &mut worker,
        session: &mut session,
        reply: &mut reply,
        args: ARGS,
        blobs: &[],
        others: Others::default(),
    };
    show(&engine, "0-16383");
    let attention = engine.attention.get() | OTHER_NODES;
    assert!(check(&mut request, command, attention).is_ok());
    assert!(!AdmissionContext::of(&request, command).is_outdated());
    show(&engine, "0-100");
    assert!(AdmissionContext::of(&request, command).is_outdated(), "the slot belongs to another node");
    assert!(check(&mut request, command, attention).is_err());
    show(&engine, "0-16383");
    engine.attention.set(LOADING, true);
    assert!(AdmissionContext::of(&request, command).is_outdated(), "the dataset is being replaced");
}
