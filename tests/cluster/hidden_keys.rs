// SPDX-License-Identifier: BSD-3-Clause
//! Keys that are being moved are invisible at every server of the target's shard until the slots
//! are its own, and no longer visible at those of the source's shard from then on.

use braid_tests::{RawClient, Value, request};
use rustix::process::Signal;

use crate::Cluster;
use crate::moves::{begin, leads, newest, ok, wait_for_keys};
use crate::target_faults::{fill, physical};

/// Keys of slot 12182 (foo), which move; the target's own is in slot 866.
const KEYS: usize = 40_000;
const OWN: &str = "{hello}";

fn words(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|&word| Value::Bulk(word.into())).collect())
}

/// A cluster of two shards: n0 with the replica n2, and n1.
fn create() -> Option<Cluster> {
    let cluster = Cluster::create(3, 2, &["--enable-debug-command", "yes"])?;
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n2"));
    fill(&cluster, 1, "foo", KEYS);
    let mut client = cluster.client(1);
    for number in 0..100 {
        assert_eq!(client.call(&format!("EXPIRE {{foo}}:{number} 10000")), Value::Integer(1));
    }
    client.call("HSET {foo}:hash field value");
    client.call("HEXPIRE {foo}:hash 10000 FIELDS 1 field");
    cluster.client(0).ok(&format!("SET {OWN} x"));
    Some(cluster)
}

/// Begins the move to n0, and stops its source when n0 and the given replicas have some of the
/// keys.
fn half_moved(cluster: &Cluster, replicas: &[usize]) {
    assert_eq!(begin(cluster, 1, 0, "12182 12182"), ok());
    cluster.wait_for("the target has received keys", || physical(cluster, 0) > 1000);
    cluster.nodes[1].signal(Signal::STOP);
    assert!(newest(cluster, 0).is_some_and(|(state, _)| state == "snapshotting"), "the move was too fast");
    check_hidden(cluster, &[&[0], replicas].concat());
}

/// Servers of the target's shard that have keys of the move show none of them.
fn check_hidden(cluster: &Cluster, nodes: &[usize]) {
    for &index in nodes {
        cluster.wait_for("the server has received keys", || physical(cluster, index) > 1000);
        let mut client = cluster.client(index);
        client.ok("READONLY");
        let mut check = |request: &str, expected: Value| {
            assert_eq!(client.call(request), expected, "n{index}: {request}");
        };
        check("DBSIZE", Value::Integer(1));
        check("KEYS *", words(&[OWN]));
        check("RANDOMKEY", Value::Bulk(OWN.into()));
        check("CLUSTER COUNTKEYSINSLOT 12182", Value::Integer(0));
        check("CLUSTER GETKEYSINSLOT 12182 10", words(&[]));
        check("CLUSTER SLOT-STATS SLOTSRANGE 12182 12182", words(&[]));
        check("EVAL_RO \"return redis.call('KEYS','*')\" 0", words(&[OWN]));
        check("EVAL_RO \"return redis.call('DBSIZE')\" 0", Value::Integer(1));
        check("EVAL_RO \"return redis.call('RANDOMKEY')\" 0", Value::Bulk(OWN.into()));
        check("EVAL_RO \"return redis.call('SCAN', 0, 'COUNT', 100000)[2]\" 0", words(&[OWN]));
        let told = client.call("CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 1").to_string();
        assert!(told.contains("866") && !told.contains("12182"), "n{index}: {told}");
        assert_eq!(scanned(&mut client), [OWN], "n{index}");
        assert_eq!(
            client.info_field("keyspace", "db0").as_deref(),
            Some("keys=1,expires=0,avg_ttl=0,keys_with_volatile_items=0"),
            "n{index}"
        );
        let memory = client.call("MEMORY STATS").to_string();
        assert!(memory.contains("keys.count\", (integer) 1,"), "n{index}: {memory}");
        for read in [
            "CLUSTERSCAN 0-{foo}-0 SLOT 12182 COUNT 100",
            "GET {foo}:1",
            "EVAL_RO \"return redis.call('GET', KEYS[1])\" 1 {foo}:1",
        ] {
            let told = client.call(read).to_string();
            assert!(told.contains("MOVED 12182"), "n{index}: {read}: {told}");
        }
        let told = client.call("EVAL_RO \"return redis.call('GET', '{foo}:1')\" 0").to_string();
        assert!(told.contains("non local key"), "n{index}: {told}");
    }
}

fn scanned(client: &mut RawClient) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Value::Array(parts) = client.call(&format!("SCAN {cursor} COUNT 1000")) else { panic!() };
        let [next, Value::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(keys.iter().map(|key| key.clone().text()));
        cursor = next.clone().text();
        if cursor == "0" {
            return found;
        }
    }
}

/// Clients that receive the keyspace events of these nodes.
fn listeners(cluster: &Cluster, nodes: &[usize]) -> Vec<(usize, RawClient)> {
    let listen = |&index: &usize| {
        let mut client = cluster.client(index);
        client.ok("CONFIG SET notify-keyspace-events KA");
        client.call("PSUBSCRIBE __keyspace@*");
        (index, client)
    };
    nodes.iter().map(listen).collect()
}

/// No event was caused by moving keys: the next one is that of a change that a client makes now.
fn check_events(cluster: &Cluster, listeners: &mut [(usize, RawClient)], key: &str) {
    assert_eq!(cluster.call(&format!("INCR {key}")), Value::Integer(1));
    for (index, client) in listeners {
        let event = client.read();
        let channel = format!("__keyspace@0__:{key}");
        assert_eq!(event, words(&["pmessage", "__keyspace@*", &channel, "incrby"]), "n{index}");
    }
}

/// Clients of these nodes that watch what happens there: by MONITOR, and by tracking all changes.
struct Watchers {
    monitors: Vec<(usize, RawClient)>,
    trackers: Vec<(usize, RawClient)>,
}

impl Watchers {
    fn new(cluster: &Cluster, nodes: &[usize]) -> Watchers {
        let monitor = |&index: &usize| {
            let mut client = cluster.client(index);
            client.ok("MONITOR");
            (index, client)
        };
        let track = |&index: &usize| {
            let mut client = cluster.client(index);
            client.call("HELLO 3");
            client.ok("CLIENT TRACKING ON BCAST");
            (index, client)
        };
        Watchers {
            monitors: nodes.iter().map(monitor).collect(),
            trackers: nodes.iter().map(track).collect(),
        }
    }

    /// Nobody has heard of moving keys: since the last check clients have changed these keys only,
    /// the last of them by this INCR. MONITOR shows no requests that fill the slots.
    fn check(&mut self, cluster: &Cluster, keys: &[&str]) {
        let key = keys[keys.len() - 1];
        cluster.call(&format!("INCR {key}"));
        for (index, client) in &mut self.monitors {
            cluster.client(*index).call(&format!("ECHO mark:{key}"));
            let mark = format!("\"mark:{key}\"");
            loop {
                let line = client.read().text();
                if line.contains(&mark) {
                    break;
                }
                let is_filled = line.contains("\"RESTORE\"") || line.contains("\"UNLINK\"");
                assert!(!is_filled, "n{index}: {line}");
            }
        }
        for (index, client) in &mut self.trackers {
            for key in keys {
                assert_eq!(invalidated(client), [*key], "n{index}");
            }
        }
    }
}

/// The keys of a client's next invalidation.
fn invalidated(client: &mut RawClient) -> Vec<String> {
    let message = client.read();
    let parts = message.elements().unwrap_or_default();
    let keys = parts.get(1).and_then(Value::elements).unwrap_or_else(|| panic!("{message}"));
    keys.iter().map(Value::text).collect()
}

/// Waits until all nodes show all keys. Until then each shows none of those that move: they
/// appear together.
fn check_arrival(cluster: &Cluster, nodes: &[usize], own: usize) {
    let mut clients: Vec<RawClient> = nodes.iter().map(|&index| cluster.client(index)).collect();
    let (before, after) = (own as i64, (own + KEYS + 1) as i64);
    cluster.wait_for("the keys are visible", || {
        let counts = clients.iter_mut().map(|client| match client.call("DBSIZE") {
            Value::Integer(count) => count,
            other => panic!("{other}"),
        });
        let counts: Vec<i64> = counts.collect();
        assert!(counts.iter().all(|count| [before, after].contains(count)), "{counts:?}");
        counts.iter().all(|count| *count == after)
    });
}

#[test]
fn keys_appear_at_all_members_of_the_target_together() {
    let Some(mut cluster) = create() else { return };
    let mut events = listeners(&cluster, &[0, 2]);
    let mut at_source = listeners(&cluster, &[1]);
    let mut watchers = Watchers::new(&cluster, &[0, 2]);
    let mut source_watchers = Watchers::new(&cluster, &[1]);
    // A replica that joins in the middle gets the keys in its full sync.
    half_moved(&cluster, &[2]);
    cluster.add_node();
    let primary = cluster.id(0);
    cluster.client(3).ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
    cluster.wait_for("the node knows the cluster", || cluster.lines(3).len() == 4);
    cluster.client(3).ok(&format!("CLUSTER REPLICATE {primary}"));
    cluster.wait_for("the node has its copy", || {
        cluster.client(3).call("ROLE").to_string().contains("connected")
    });
    check_hidden(&cluster, &[0, 2, 3]);
    check_events(&cluster, &mut events, "{hello}:before");
    cluster.client(0).call("DEL {hello}:before");
    events.iter_mut().for_each(|(_, client)| drop(client.read()));
    // Of INCR, and of DEL.
    watchers.check(&cluster, &["{hello}:before", "{hello}:before", "{hello}:watched"]);
    cluster.client(0).call("DEL {hello}:watched");
    events.iter_mut().for_each(|(_, client)| drop((client.read(), client.read())));
    cluster.nodes[1].signal(Signal::CONT);
    check_arrival(&cluster, &[0, 2, 3], 1);
    check_events(&cluster, &mut events, "{foo}:after");
    // Nor do the deletions at the source cause any.
    cluster.wait_for("the source has deleted the keys", || physical(&cluster, 1) == 0);
    assert_eq!(cluster.client(1).call("DBSIZE"), Value::Integer(0));
    check_events(&cluster, &mut at_source, "a");
    watchers.check(&cluster, &["{hello}:watched", "{foo}:after", "{foo}:watched"]);
    check_departure(&mut source_watchers.trackers[0].1);
}

/// Clients that may have cached keys at the source hear that they are gone: nobody else may tell
/// them.
fn check_departure(client: &mut RawClient) {
    let mut gone = std::collections::HashSet::new();
    loop {
        let keys = invalidated(client);
        if keys == ["a"] {
            break;
        }
        gone.extend(keys);
    }
    assert_eq!(gone.len(), KEYS + 1);
}

#[test]
fn keys_of_a_cancelled_move_are_never_visible() {
    let Some(cluster) = create() else { return };
    let mut events = listeners(&cluster, &[0, 2]);
    let mut watchers = Watchers::new(&cluster, &[0, 2]);
    half_moved(&cluster, &[2]);
    let mut clients = [0, 2].map(|index| cluster.client(index));
    assert_eq!(clients[0].call("CLUSTER MIGRATION CANCEL ALL"), Value::Integer(1));
    cluster.wait_for("the keys are deleted", || {
        for client in &mut clients {
            assert_eq!(client.call("DBSIZE"), Value::Integer(1));
        }
        [0, 2].iter().all(|&index| physical(&cluster, index) == 1)
    });
    check_events(&cluster, &mut events, "{hello}:after");
    watchers.check(&cluster, &["{hello}:after", "{hello}:watched"]);
    cluster.nodes[1].signal(Signal::CONT);
    wait_for_keys(&cluster, &[1], KEYS as i64 + 1);
}

#[test]
fn keys_of_a_move_are_not_visible_at_a_promoted_replica() {
    let Some(mut cluster) = create() else { return };
    half_moved(&cluster, &[2]);
    let mut client = cluster.client(2);
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    cluster.wait_for("the replica leads and has deleted the keys", || {
        assert_eq!(client.call("DBSIZE"), Value::Integer(1));
        leads(&cluster, 2) && physical(&cluster, 2) == 1
    });
    cluster.nodes[1].signal(Signal::CONT);
    check_arrival(&cluster, &[2], 1);
    cluster.restart(0);
    cluster.wait_until_ready(2);
    check_arrival(&cluster, &[0, 2], 1);
}

/// A slot that is moved key by key shows at the replica as at the primary.
#[test]
fn keys_that_are_moved_one_by_one_show_at_the_replica() {
    let Some(cluster) = Cluster::create(3, 2, &[]) else { return };
    let ids = [0, 1].map(|index| cluster.id(index));
    cluster.client(1).ok("SET foo x");
    cluster.client(0).ok(&format!("CLUSTER SETSLOT 12182 IMPORTING {}", ids[1]));
    cluster.client(1).ok(&format!("CLUSTER SETSLOT 12182 MIGRATING {}", ids[0]));
    let port = cluster.nodes[0].port();
    let mut source = cluster.client(1);
    source.send(&request(&format!("MIGRATE 127.0.0.1 {port} foo 0 5000")));
    assert_eq!(source.read(), ok());
    for index in [0, 2] {
        cluster.wait_for("the key shows", || cluster.client(index).call("KEYS *") == words(&["foo"]));
    }
}
