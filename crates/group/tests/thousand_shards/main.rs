// SPDX-License-Identifier: BSD-3-Clause
//! A cluster of 1,000 shards with two nodes each: the time until all nodes know a change, the bytes
//! etcd sends for it, and the memory of a map. Nodes follow watch events; some watches break, and
//! their nodes read all records again.
//!
//!   cargo test -p braid-group --test thousand_shards -- --nocapture
//!
//! The network and etcd are modelled (constants below); reading records is real.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use braid_group::cluster::{KnownNode, Map, ShardSlots};
use braid_group::record::{Keys, Record};
use braid_group::{Holder, MemberId, Node, Shard};

const SHARDS: usize = 1000;
const NODES: usize = 2 * SHARDS;
/// Range of etcd's commit time in microseconds: a write to three disks.
const COMMIT: (u64, u64) = (2_000, 10_000);
/// Range of the latency from etcd to a node in microseconds.
const WAY: (u64, u64) = (100, 1_000);
/// etcd's work per notified watcher in microseconds, and its bandwidth in bytes per microsecond (1
/// Gbit/s).
const PER_WATCHER: u64 = 20;
const BYTES_PER_MICROSECOND: u64 = 125;
/// Bytes of JSON around a record, in addition to the base64 of its key and value.
const AROUND: usize = 250;
/// One watch in `BREAKS` breaks at a change; its node starts over after `ANEW` to twice as many
/// microseconds.
const BREAKS: usize = 100;
const ANEW: u64 = 250_000;

type Records = BTreeMap<String, (String, u64)>;

/// An ID of 40 hex digits.
fn id(number: usize) -> String {
    format!("{number:040x}")
}

fn slots_of(shard: usize) -> ShardSlots {
    let range = shard * 16_384 / SHARDS..(shard + 1) * 16_384 / SHARDS;
    ShardSlots {
        slots: range.map(|slot| slot as u16).collect(),
        config_epoch: shard as u64 + 1,
        leader: Some(id(2 * shard).into()),
        migrating: BTreeMap::new(),
        importing: BTreeMap::new(),
        left: braid_group::cluster::SlotSet::default(),
        ordered: BTreeMap::new(),
        taken_by: None,
    }
}

/// The records of the whole cluster.
fn cluster() -> Records {
    let mut records = Records::new();
    let mut put = |key: String, value: String| drop(records.insert(format!("/braid/c/{key}"), (value, 1)));
    put("epoch".into(), SHARDS.to_string());
    for shard in 0..SHARDS {
        let shard_id: Arc<str> = id(2 * shard).into();
        let members: Vec<MemberId> = (2 * shard..2 * shard + 2)
            .map(|node| MemberId::new(&format!("node-{node}"), &id(100_000 + node)))
            .collect();
        for (node, member) in (2 * shard..).zip(&members) {
            let host = format!("10.{}.{}.{}", node >> 16, node >> 8 & 255, node & 255);
            let known = KnownNode {
                id: id(node).into(),
                shard: Arc::clone(&shard_id),
                host: host.clone().into(),
                port: 6379,
                tls_port: 0,
            };
            put(format!("known/{}", member.node), known.to_json());
            let server = Node {
                run: Arc::clone(&member.run),
                host: host.into(),
                port: 6379,
                tls_port: 0,
                bus_port: 0,
                priority: 100,
                version: "0.1.0".into(),
                id: id(node).into(),
                hostname: "".into(),
                is_loading: false,
            };
            put(format!("node/{}", member.node), server.to_json());
        }
        let holder = Holder { epoch: 1, member: members[0].clone(), lease: 7_000_000_000 + shard as i64 };
        put(format!("primary/{shard_id}"), holder.to_json());
        let record = Shard {
            epoch: 1,
            primary: members[0].clone(),
            in_sync: members.into_iter().collect(),
            lease: 10_000_000_000,
            is_handed_over: false,
            is_on_disk: false,
            base: None,
        };
        put(format!("shard/{shard_id}"), record.to_json());
        put(format!("slots/{shard_id}"), slots_of(shard).to_json());
    }
    records
}

fn read(records: &Records, revision: u64) -> Map {
    let keys = Keys::of_shard("c", "-");
    let records = records.iter().map(|(key, (value, revision))| Record {
        key: key.as_bytes(),
        value: value.as_bytes(),
        revision: *revision,
        lease: 0,
    });
    Map::read(&keys, records, revision)
}

fn bytes_of<'a>(records: impl Iterator<Item = (&'a String, &'a (String, u64))>) -> u64 {
    records.map(|(key, (value, _))| ((key.len() + value.len()) * 4 / 3 + AROUND) as u64).sum()
}

/// Moves a slot from the first shard to the last: two records and the epoch. Returns the written
/// records.
fn change(records: &mut Records, slot: u16, revision: u64) -> Records {
    let (mut from, mut to) = (slots_of(0), slots_of(SHARDS - 1));
    from.slots = from.slots.iter().filter(|&known| known != slot).collect();
    to.slots.insert(slot);
    to.config_epoch = SHARDS as u64 + revision;
    let written = Records::from([
        ("/braid/c/epoch".to_owned(), ((SHARDS as u64 + revision).to_string(), revision)),
        (format!("/braid/c/slots/{}", id(0)), (from.to_json(), revision)),
        (format!("/braid/c/slots/{}", id(2 * (SHARDS - 1))), (to.to_json(), revision)),
    ]);
    records.extend(written.clone());
    written
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Microseconds until a change is known to all nodes whose watch is intact, and to all nodes; and
/// the bytes sent by etcd.
fn spread(random: &mut fastrand::Rng, told: u64, all: u64, work: u64) -> (u64, u64, u64) {
    let commit = random.u64(COMMIT.0..COMMIT.1);
    let (mut line_free, mut bytes) = (commit, 0);
    let (mut watched, mut last) = (0, 0);
    for node in 0..NODES {
        let breaks = random.usize(0..BREAKS) == 0;
        let size = if breaks { all } else { told };
        // Nodes that start over come later, at different times, when the link is free again.
        let begins = if breaks { commit + ANEW + random.u64(0..ANEW) } else { line_free };
        let sent = begins + PER_WATCHER + size / BYTES_PER_MICROSECOND;
        if !breaks {
            line_free = sent;
        }
        bytes += size;
        let knows = sent + random.u64(WAY.0..WAY.1) + work;
        assert!(knows > commit, "node {node}");
        last = last.max(knows);
        if !breaks {
            watched = watched.max(knows);
        }
    }
    (watched, last, bytes)
}

#[test]
fn all_nodes_know_a_change_soon() {
    let mut random = fastrand::Rng::with_seed(19);
    let mut etcd = cluster();
    let all = bytes_of(etcd.iter());
    let before = resident_bytes();
    let maps: Vec<Map> = (0..8).map(|_| read(&etcd, 1)).collect();
    let memory = resident_bytes().saturating_sub(before) / 8;
    assert_eq!(maps[0].size(), SHARDS);
    assert!(maps.iter().all(Map::is_complete));
    drop(maps);

    // A node that follows events, one that rereads everything at some changes, and etcd itself
    // agree.
    let (mut mirror, mut told) = (etcd.clone(), 0);
    for revision in 2..12 {
        let slot = random.u16(1..16);
        let written = change(&mut etcd, slot, revision);
        told = bytes_of(written.iter());
        mirror.extend(written);
        if revision % 4 == 0 {
            mirror = etcd.clone();
        }
        let (map, truth) = (read(&mirror, revision), read(&etcd, revision));
        assert!(map.epoch == truth.epoch && map.is_complete());
        assert!((0..16_384).all(|slot| map.owner(slot) == truth.owner(slot)), "revision {revision}");
        assert_eq!(map.owner(slot).map(|owner| &**owner), Some(&*id(2 * (SHARDS - 1))));
    }

    let begin = Instant::now();
    (0..10).for_each(|_| drop(read(&mirror, 12)));
    let work = begin.elapsed().as_micros() as u64 / 10;
    let runs: Vec<_> = (0..100).map(|_| spread(&mut random, told, all, work)).collect();
    let worst = |of: fn(&(u64, u64, u64)) -> u64| runs.iter().map(of).max().unwrap_or(0);
    let (watched, last, bytes) = (worst(|run| run.0), worst(|run| run.1), worst(|run| run.2));
    // The cost if each node reread everything at each change.
    let reading = NODES as u64 * all;
    println!(
        "{} records of {} kB; a map takes {} kB, reading one {work} us",
        etcd.len(),
        all >> 10,
        memory >> 10
    );
    println!("a change: {told} bytes to each node, {} kB from etcd", bytes >> 10);
    println!("known by all that watch after {} ms, by all after {} ms", watched / 1000, last / 1000);
    println!(
        "with a full read by each node: {} MB, {} ms",
        reading >> 20,
        reading / BYTES_PER_MICROSECOND / 1000
    );
    assert!(bytes * 20 < reading, "{bytes} of {reading}");
    assert!(memory < 64 << 20, "{memory}");
}
