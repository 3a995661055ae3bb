// SPDX-License-Identifier: BSD-3-Clause
//! Primaries that die, and nodes that come back.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use braid_tests::{RawClient, Value, request};
use rustix::process::Signal;

use crate::Cluster;

/// A key in each of two shards.
const KEYS: [&str; 2] = ["hello", "foo"];

fn says(cluster: &Cluster, index: usize, of: &str, flags: &str) -> bool {
    cluster.lines(index).iter().any(|line| line.starts_with(of) && line.contains(flags))
}

/// A node's column in CLUSTER NODES of another node.
fn column(cluster: &Cluster, index: usize, of: &str, column: usize) -> u64 {
    let line = cluster.lines(index).into_iter().find(|line| line.starts_with(of)).expect("a known node");
    line.split(' ').nth(column).and_then(|word| word.parse().ok()).expect("a number")
}

/// The configuration epoch of a node.
fn epoch(cluster: &Cluster, index: usize, of: &str) -> u64 {
    column(cluster, index, of, 6)
}

/// The current epoch according to a node.
fn current_epoch(cluster: &Cluster, index: usize) -> u64 {
    let info = cluster.client(index).call("CLUSTER INFO").text();
    let value = info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"));
    value.and_then(|value| value.trim().parse().ok()).expect("an epoch")
}

#[test]
fn epochs_rise_with_a_failover_and_all_nodes_show_the_same() {
    let Some(mut cluster) = Cluster::create(5, 3, &[]) else { return };
    let ids: Vec<String> = (0..5).map(|index| cluster.id(index)).collect();
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n3"));
    let before: Vec<u64> = (0..3).map(|index| epoch(&cluster, 1, &ids[index])).collect();
    assert_eq!(BTreeSet::from_iter(&before).len(), 3, "each shard has its own epoch: {before:?}");
    let current = current_epoch(&cluster, 1);
    assert!(before.iter().all(|&epoch| epoch > 0 && epoch <= current), "{before:?}, {current}");
    assert_eq!(epoch(&cluster, 1, &ids[3]), before[0], "a replica shows its primary's epoch");
    let (first, second) = (cluster.lines(1), cluster.lines(1));
    for (before, after) in first.iter().zip(&second) {
        let heard = |line: &str| line.split(' ').nth(5).and_then(|word| word.parse::<i64>().ok());
        assert!(heard(before).is_some_and(|heard| heard % 2_000 == 0), "{before}");
        assert!(heard(after) >= heard(before), "{after}");
    }
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    cluster.wait_for("the epoch has risen on all nodes", || {
        (1..5).all(|index| {
            let risen = epoch(&cluster, index, &ids[3]);
            risen > current && current_epoch(&cluster, index) == risen
        })
    });
    let risen = epoch(&cluster, 1, &ids[3]);
    for index in 1..5 {
        let shown: Vec<u64> = ids.iter().map(|id| epoch(&cluster, index, id)).collect();
        assert_eq!(shown, [risen, before[1], before[2], risen, before[1]], "n{index}");
    }
    let lost = column(&cluster, 1, &ids[0], 5);
    assert!(lost > 0, "the failed node has no last pong time");
    // Without a failover it stays the same, whatever restarts.
    cluster.restart(0);
    cluster.wait_for("the old primary is connected", || says(&cluster, 1, &ids[0], "connected"));
    cluster.wait_until_ready(3);
    assert!((0..5).all(|index| current_epoch(&cluster, index) == risen), "{}", cluster.logs());
    // A planned failover counts as well.
    cluster.wait_for("the replica is in sync", || cluster.client(0).call("CLUSTER FAILOVER") == Value::ok());
    cluster.wait_for("the epoch has risen again", || {
        (0..5).all(|index| {
            current_epoch(&cluster, index) == risen + 1 && epoch(&cluster, index, &ids[0]) == risen + 1
        })
    });
}

#[test]
fn a_replica_takes_over_and_the_primary_comes_back_as_one() {
    let durable = ["--sync-writes", "yes", "--min-sync-replicas", "1"];
    let Some(mut cluster) = Cluster::create(4, 2, &durable) else { return };
    let ids: Vec<String> = (0..4).map(|index| cluster.id(index)).collect();
    for key in KEYS {
        cluster.wait_for("writes are acknowledged", || {
            cluster.call(&format!("SET {key} before")) == Value::Simple("OK".into())
        });
    }
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    // A client continues with the other shard, and finds the new primary.
    cluster.wait_for("the replica has taken over", || says(&cluster, 1, &ids[2], "master"));
    assert!(says(&cluster, 1, &ids[0], "slave,fail"), "{:?}", cluster.lines(1));
    assert_eq!(cluster.call("GET hello"), Value::Bulk("before".into()));
    assert_eq!(cluster.call("SET foo after"), Value::Simple("OK".into()), "the other shard is unaffected");
    cluster.restart(0);
    cluster.wait_for("the old primary is a replica", || {
        says(&cluster, 0, &ids[0], "myself,slave")
            && cluster.client(0).call("ROLE").to_string().contains("connected")
    });
    cluster.wait_for("the replica is in sync and writes succeed", || {
        cluster.call("SET hello after") == Value::Simple("OK".into())
    });
    // Only clients that opt in may read from a replica.
    let mut reader = cluster.client(0);
    assert!(reader.call("GET hello").to_string().contains("MOVED"));
    reader.ok("READONLY");
    cluster.wait_for("the replica has the write", || reader.call("GET hello") == Value::Bulk("after".into()));
    assert!(reader.call("SET hello x").to_string().contains("MOVED"));
}

#[test]
fn a_replica_is_named_to_clients_when_it_has_its_data() {
    let Some(cluster) = Cluster::start(2, &["--key-load-delay", "4000"]) else { return };
    let mut primary = cluster.client(0);
    primary.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    cluster.wait_for("the primary serves", || cluster.client(0).call("SET {hello}0 x") == Value::ok());
    (0..1_000).for_each(|number| primary.ok(&format!("SET {{hello}}{number} x")));
    let mut replica = cluster.client(1);
    replica.ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
    replica.ok(&format!("CLUSTER REPLICATE {}", cluster.id(0)));
    let id = cluster.id(1);
    let is_named = |index: usize| cluster.client(index).call("CLUSTER SLOTS").to_string().contains(&id);
    let shards = |index: usize| cluster.client(index).call("CLUSTER SHARDS").to_string();
    cluster.wait_for("the replica loads", || shards(0).contains("loading") && !is_named(0));
    cluster.wait_for("the replica has loaded", || {
        (0..2).all(|index| is_named(index) && !shards(index).contains("loading"))
    });
    replica.ok("READONLY");
    assert_eq!(replica.call("GET {hello}999"), Value::Bulk("x".into()));
}

#[test]
fn info_lists_the_servers_of_a_shard_alone() {
    let Some(cluster) = Cluster::create(4, 2, &[]) else { return };
    cluster.wait_for("the replica is known", || {
        cluster.client(0).info("group").contains("group_nodes_elsewhere:2\r\ngroup_members:2\r\n")
    });
    let told = cluster.client(0).info("group");
    let names: Vec<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("group_member")?.split_once(":name=")?.1.split(',').next())
        .collect();
    assert_eq!(names, ["n0", "n2"], "{told}");
}

#[test]
fn a_replica_takes_over_when_asked() {
    let Some(cluster) = Cluster::create(3, 1, &[]) else { return };
    assert_eq!(cluster.call("SET hello 1"), Value::Simple("OK".into()));
    let id = cluster.id(2);
    cluster.wait_for("the replica is in sync", || {
        cluster.client(2).call("CLUSTER FAILOVER") == Value::Simple("OK".into())
    });
    cluster.wait_for("the replica leads", || says(&cluster, 0, &id, "master"));
    cluster.wait_for("the new primary serves", || cluster.call("GET hello") == Value::Bulk("1".into()));
    cluster.wait_for("a second takeover is refused", || {
        cluster.client(1).call("CLUSTER FAILOVER TAKEOVER").to_string().contains("the primary is alive")
    });
}

/// `cluster-replica-no-failover`: neither a shutdown nor a crash of the primary promotes the
/// replica.
#[test]
fn a_replica_that_is_to_stay_one_takes_over_when_asked_alone() {
    let Some(mut cluster) = Cluster::create(3, 2, &["--cluster-replica-no-failover", "yes"]) else { return };
    let ids: Vec<String> = (0..3).map(|index| cluster.id(index)).collect();
    assert!(says(&cluster, 1, &ids[2], " slave,nofailover "), "{:?}", cluster.lines(1));
    assert!(says(&cluster, 1, &ids[1], " myself,master,nofailover "), "{:?}", cluster.lines(1));
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n2"));
    cluster.nodes[0].signal(Signal::TERM);
    cluster.nodes[0].wait();
    let info = |index: usize| cluster.client(index).call("CLUSTER INFO").text();
    for index in 1..3 {
        cluster.wait_for("the slots have failed", || {
            let told = info(index);
            told.contains("cluster_state:fail") && told.contains("cluster_slots_fail:8192\r")
        });
    }
    assert!(cluster.client(1).call("GET foo").to_string().contains("CLUSTERDOWN"));
    assert!(says(&cluster, 1, &ids[2], " slave,nofailover "), "{:?}", cluster.lines(1));
    let roles = cluster.nodes[2].log().matches("is now the primary of the group").count();
    cluster.restart(0);
    // The node knows the cluster as soon as it replies at all. Its data in memory is lost, so it
    // does not lead.
    let port = cluster.nodes[0].port();
    let slots = cluster.client(0).call("CLUSTER SLOTS").to_string();
    assert!(slots.contains(&port.to_string()) && slots.contains(&ids[1]), "{slots}");
    assert_eq!(cluster.nodes[2].log().matches("is now the primary of the group").count(), roles);
    cluster.wait_for("the forced failover is accepted", || {
        cluster.client(2).call("CLUSTER FAILOVER FORCE") == Value::ok()
            || says(&cluster, 1, &ids[2], "master")
    });
    cluster.wait_for("the replica leads", || says(&cluster, 1, &ids[2], "master"));
    cluster.wait_until_ready(2);
    cluster.wait_for("the new primary serves", || cluster.call("SET hello x") == Value::ok());
}

/// A replica is asked to take over as soon as it is one: the new primary may not hold the shard's
/// lease yet, and may not see the replica online.
#[test]
fn a_failover_follows_another_at_once() {
    let Some(cluster) = Cluster::create(2, 1, &[]) else { return };
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n1"));
    for round in 1..=20 {
        let replica = round % 2;
        cluster.wait_for("the node is a replica", || {
            says(&cluster, replica, &cluster.id(replica), "myself,slave")
        });
        cluster.client(replica).ok("CLUSTER FAILOVER");
    }
    cluster.wait_until_ready(1);
    assert_eq!(cluster.call("SET a 1"), Value::ok());
}

/// The new primary learns last that it is one. Clients of the old one are redirected only then:
/// before, the new one would send them back.
#[test]
fn no_client_is_sent_to_a_primary_that_does_not_know_that_it_is_one() {
    let Some(cluster) = Cluster::create(2, 1, &["--lease-time", "10000"]) else { return };
    let id = cluster.id(1);
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n1"));
    let (mut old, mut new) = (cluster.client(0), cluster.client(1));
    assert_eq!((old.call("SET hello x"), old.call("WAIT 1 0")), (Value::ok(), Value::Integer(1)));
    cluster.nodes[1].signal(Signal::STOP);
    let port = cluster.nodes[1].port();
    old.ok(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 9000"));
    cluster.wait_for("the shard has another primary", || says(&cluster, 0, &id, "master"));
    old.set_patience(Duration::from_millis(100)).expect("set");
    old.send(&request("GET hello"));
    let early = old.try_read();
    assert!(early.is_err(), "{early:?}");
    cluster.nodes[1].signal(Signal::CONT);
    old.set_patience(Duration::from_secs(20)).expect("set");
    let reply = old.read().to_string();
    assert!(reply.contains("MOVED 866 ") && reply.contains(&port.to_string()), "{reply}");
    assert_eq!(new.call("GET hello"), Value::Bulk("x".into()));
}

/// A primary that hands over when it is shut down ends once its successor serves.
#[test]
fn a_shutdown_with_a_failover_leaves_a_primary_that_serves() {
    let more = ["--shutdown-on-sigterm", "failover", "--shutdown-timeout", "60"];
    let Some(mut cluster) = Cluster::create(2, 1, &more) else { return };
    for round in 0..6 {
        let (old, new) = (round % 2, 1 - round % 2);
        let in_sync = format!("in_sync:n{},n{}", old.min(new), old.max(new));
        cluster.wait_for("the replica is in sync", || cluster.client(old).info("group").contains(&in_sync));
        let mut client = cluster.client(new);
        let begin = Instant::now();
        cluster.nodes[old].signal(Signal::TERM);
        cluster.nodes[old].wait();
        assert!(begin.elapsed() < Duration::from_secs(30), "it waited for nothing");
        assert_eq!(client.call(&format!("SET hello {round}")), Value::ok());
        cluster.restart(old);
        cluster.wait_until_ready(1);
    }
}

/// A script's request right after the primary's machine has failed: the primary's lease has not
/// expired yet.
#[test]
fn a_forced_failover_waits_for_the_end_of_the_dead_primarys_lease() {
    let Some(mut cluster) = Cluster::create(2, 1, &["--cluster-replica-no-failover", "yes"]) else { return };
    let id = cluster.id(1);
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n1"));
    let mut primary = cluster.client(0);
    primary.ok("SET hello x");
    assert_eq!(primary.call("WAIT 1 20000"), Value::Integer(1));
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    let plain = cluster.client(1).call("CLUSTER FAILOVER").to_string();
    assert!(
        plain.contains("the outcome of the handover is unknown") || plain.contains("Master is down"),
        "{plain}"
    );
    cluster.client(1).ok("CLUSTER FAILOVER FORCE");
    cluster.wait_for("the replica leads", || says(&cluster, 1, &id, "myself,master"));
    cluster.wait_for("the replica serves", || cluster.client(1).call("GET hello") == Value::Bulk("x".into()));
}

/// The resumed primary receives the request to hand over when its replica already leads: by then
/// the request is obsolete.
#[test]
fn a_primary_that_is_asked_too_late_follows_its_replica() {
    let Some(cluster) = Cluster::create(2, 1, &[]) else { return };
    let id = cluster.id(1);
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n1"));
    cluster.nodes[0].signal(Signal::STOP);
    let silent = cluster.client(1).call("CLUSTER FAILOVER").to_string();
    assert!(silent.contains("the outcome of the handover is unknown"), "{silent}");
    cluster.wait_for("the replica leads", || says(&cluster, 1, &id, "myself,master"));
    cluster.nodes[0].signal(Signal::CONT);
    cluster.wait_for("the new primary serves", || cluster.client(1).call("SET hello x") == Value::ok());
    let mut client = cluster.client(0);
    cluster.wait_for("the old primary is a replica", || client.info("replication").contains("role:slave"));
    assert!(client.info("replication").contains("master_failover_state:no-failover"));
    client.ok("READONLY");
    cluster.wait_for("it has the write", || client.call("GET hello") == Value::Bulk("x".into()));
    assert!(client.call("FLUSHALL").to_string().contains("READONLY"));
}

/// `cluster-manual-failover-timeout` limits how long the primary holds clients back.
#[test]
fn a_failover_that_was_asked_for_has_its_time() {
    let Some(cluster) = Cluster::create(2, 1, &["--cluster-manual-failover-timeout", "4321"]) else { return };
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n1"));
    let mut primary = cluster.client(0);
    primary.ok("CONFIG SET slowlog-log-slower-than 0");
    cluster.client(1).ok("CLUSTER FAILOVER");
    let log = primary.call("SLOWLOG GET").to_string();
    assert!(log.contains(r#""TIMEOUT", "4321""#), "{log}");
}

/// Writes to a shard for a while; returns the longest pause.
fn longest_pause(client: &mut RawClient, key: &str, time: Duration) -> Duration {
    let (begin, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    while begin.elapsed() < time {
        assert!(matches!(client.call(&format!("INCR n:{{{key}}}")), Value::Integer(_)));
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

#[test]
fn service_survives_an_etcd_outage_and_a_full_cluster_restart() {
    let more =
        ["--appendonly", "yes", "--appendfsync", "always", "--sync-writes", "yes", "--sync-level", "disk"];
    let Some(mut cluster) = Cluster::create(4, 2, &more) else { return };
    let primary =
        (0..2).find(|&index| !cluster.client(index).call("GET hello").to_string().contains("MOVED"));
    let primary = primary.expect("one node has the slot");
    cluster.etcd.stop();
    let pause = longest_pause(&mut cluster.client(primary), "hello", Duration::from_secs(6));
    assert!(pause < Duration::from_secs(3), "{pause:?}");
    cluster.etcd.restart();
    let before = cluster.client(primary).call("GET n:{hello}");
    for signal in [Signal::STOP, Signal::KILL] {
        cluster.nodes.iter().for_each(|node| node.signal(signal));
    }
    for index in 0..4 {
        cluster.nodes[index].wait();
        cluster.restart(index);
    }
    cluster.wait_for("the cluster serves again", || cluster.call("GET n:{hello}") == before);
}

/// A stock node that has become a replica keeps redirecting its clients to the new primary. They
/// need not reconnect, which their libraries would count as a failure.
#[test]
fn clients_of_a_former_primary_are_redirected_and_stay_connected() {
    let Some(cluster) = Cluster::create(3, 2, &[]) else { return };
    let mut client = cluster.client(0);
    client.ok("SET {hello} x");
    cluster.wait_for("the replica is in sync", || {
        cluster
            .client(0)
            .info("group")
            .lines()
            .any(|line| line.starts_with("group_in_sync:") && line.contains(','))
    });
    cluster.client(2).ok("CLUSTER FAILOVER");
    cluster.wait_for("the replica has taken over", || {
        cluster.lines(0).iter().any(|line| line.contains("myself,slave"))
    });
    let port = cluster.nodes[2].port();
    // For longer than clients of a former primary outside of clusters may stay connected.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        let reply = client.call("GET {hello}").to_string();
        assert!(reply.contains(&format!("MOVED 866 127.0.0.1:{port}")), "{reply}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Replicas deliver messages of shard channels, as in a stock cluster.
    assert!(matches!(client.call("SSUBSCRIBE channel:{hello}"), Value::Array(_)));
    assert_eq!(cluster.client(2).call("SPUBLISH channel:{hello} message"), Value::Integer(0));
    let heard = client.read();
    assert_eq!(
        heard,
        Value::Array(["smessage", "channel:{hello}", "message"].map(|word| Value::Bulk(word.into())).into())
    );
    cluster.move_slots(2, 1, "866 866");
    let left = client.read().to_string();
    assert!(left.contains("sunsubscribe"), "{left}");
}

/// A script without declared keys is not redirected. A node that claims to lead runs it, or holds
/// it until the change of role is complete; it does not refuse it.
#[test]
fn scripts_without_declared_keys_wait_while_a_node_takes_over() {
    let Some(cluster) = Cluster::create(3, 2, &[]) else { return };
    let (stopped, executed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = |index: usize| {
        let mut client = cluster.client(index);
        let script = request("EVAL \"return redis.call('incr', '{hello}')\" 0");
        let nodes = request("CLUSTER NODES");
        let requests = [nodes.clone(), script, nodes].concat();
        while !stopped.load(Relaxed) {
            client.send(&requests);
            let [before, reply, after] = [client.read(), client.read(), client.read()];
            let leads = |nodes: &Value| nodes.to_string().contains("myself,master");
            if leads(&before) && leads(&after) {
                assert!(matches!(reply, Value::Integer(_)), "n{index}: {reply}");
                executed.fetch_add(1, Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        let asking: Vec<_> = [0, 2, 0, 2].map(|index| scope.spawn(move || ask(index))).into();
        for to in [2, 0, 2, 0] {
            let before = executed.load(Relaxed);
            cluster.wait_for("scripts are executed", || executed.load(Relaxed) > before + 100);
            // Stop if a client has failed.
            if asking.iter().any(|one| one.is_finished()) {
                break;
            }
            cluster.wait_for("the replica is in sync", || {
                cluster.client(to).call("CLUSTER FAILOVER") == Value::ok()
            });
            let id = cluster.id(to);
            cluster.wait_for("the replica leads", || says(&cluster, to, &id, "master"));
        }
        stopped.store(true, Relaxed);
    });
}

#[test]
fn blocked_client_gets_clusterdown_error() {
    // A killed primary leads its shard again if everything is on disk.
    let more = ["--appendonly", "yes", "--sync-level", "disk"];
    let Some(mut cluster) = Cluster::create(2, 2, &more) else { return };
    cluster.wait_for("the record has on-disk set", || cluster.is_on_disk(1));
    let mut waiting = cluster.client(0);
    waiting.send(&request("BLPOP list:{hello} 0"));
    cluster.wait_for("the client waits", || cluster.client(0).info("clients").contains("blocked_clients:1"));
    cluster.nodes[1].signal(Signal::KILL);
    cluster.nodes[1].wait();
    assert_eq!(waiting.read(), Value::Error("CLUSTERDOWN The cluster is down".into()));
    cluster.restart(1);
    cluster.wait_until_ready(2);
    waiting.ok("SET {hello} x");
}

/// While it loads, a replica answers the commands that clients need for routing, as in Valkey 9.
#[test]
fn loading_replica_answers_cluster_topology_commands() {
    const TELL: [&str; 5] =
        ["CLUSTER NODES", "CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER MYSHARDID"];
    let Some(cluster) = Cluster::start(2, &[]) else { return };
    let mut primary = cluster.client(0);
    primary.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    cluster.wait_for("the primary serves", || cluster.client(0).call("SET {hello}0 x") == Value::ok());
    (0..1_000).for_each(|number| primary.ok(&format!("SET {{hello}}{number} x")));
    let mut replica = cluster.client(1);
    replica.ok("CONFIG SET key-load-delay 4000");
    replica.ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
    replica.ok(&format!("CLUSTER REPLICATE {}", cluster.id(0)));
    cluster.wait_for("the replica loads", || replica.call("DBSIZE").to_string().contains("LOADING"));
    for request in TELL {
        assert!(!matches!(replica.call(request), Value::Error(_)), "{request}");
    }
    assert!(
        cluster.lines(1).iter().any(|line| line.contains(" connected 0-16383")),
        "{:?}",
        cluster.lines(1)
    );
    assert!(replica.call("DBSIZE").to_string().contains("LOADING"), "loading ended too early");
}

/// Data that was in sync only in memory is lost when both servers of a shard restart: neither
/// leads, and the cluster reports that, until an operator decides.
#[test]
fn shard_fails_if_all_its_servers_lose_their_memory() {
    let Some(mut cluster) = Cluster::create(4, 2, &["--cluster-require-full-coverage", "no"]) else { return };
    let ids: Vec<String> = (0..4).map(|index| cluster.id(index)).collect();
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n2"));
    cluster.wait_for("the primary serves", || cluster.call("SET hello before") == Value::ok());
    for index in [0, 2] {
        cluster.nodes[index].signal(Signal::KILL);
        cluster.nodes[index].wait();
    }
    for index in [0, 2] {
        cluster.restart(index);
    }
    // The primary according to the records.
    let (mut client, mut reader) = (cluster.client(0), cluster.client(0));
    let down = Value::Error("CLUSTERDOWN Hash slot not served".into());
    reader.ok("READONLY");
    let begin = Instant::now();
    let mut has_failed = false;
    cluster.wait_for("the slots have failed for some time", || {
        assert_eq!(client.call("GET hello"), down, "a failed slot was served");
        assert_eq!(reader.call("GET hello"), down);
        let told = (0..4).map(|index| cluster.client(index).call("CLUSTER INFO").text());
        has_failed = told.into_iter().all(|told| told.contains("cluster_slots_fail:8192\r"));
        has_failed && begin.elapsed() > Duration::from_secs(5)
    });
    assert!(cluster.lines(0).iter().any(|line| line.contains("myself,master")), "{:?}", cluster.lines(0));
    // If all slots must be served, the whole cluster is down.
    let mut other = cluster.client(1);
    assert!(other.call("SET foo x") == Value::ok());
    other.ok("CONFIG SET cluster-require-full-coverage yes");
    assert!(other.call("CLUSTER INFO").text().contains("cluster_state:fail"));
    cluster.wait_for("the takeover is accepted", || {
        cluster.client(2).call("CLUSTER FAILOVER TAKEOVER") == Value::ok()
            || says(&cluster, 1, &ids[2], "master")
    });
    cluster.wait_for("the replica leads", || says(&cluster, 1, &ids[2], "master"));
    cluster.wait_until_ready(2);
    cluster.wait_for("the new primary serves", || cluster.call("SET hello x") == Value::ok());
}

/// A clean shutdown of a shard's servers loses nothing, although no reply waits for the disk.
#[test]
fn cluster_recovers_automatically_after_clean_shutdown() {
    let more = ["--save", "3600 1", "--sync-writes", "yes"];
    let Some(mut cluster) = Cluster::create(4, 2, &more) else { return };
    for (key, set) in KEYS.into_iter().zip(["in_sync:n0,n2", "in_sync:n1,n3"]) {
        cluster.wait_for("the replica is in sync", || {
            cluster.call(&format!("SET {key} x")) == Value::ok()
                && (0..2).any(|index| cluster.client(index).info("group").contains(set))
        });
    }
    cluster.nodes.iter().for_each(|node| node.signal(Signal::TERM));
    for index in 0..4 {
        assert!(cluster.nodes[index].wait().success());
    }
    (0..4).for_each(|index| cluster.restart(index));
    cluster.wait_until_ready(2);
    for key in KEYS {
        cluster.wait_for("the acknowledged write is readable", || {
            cluster.call(&format!("GET {key}")) == Value::Bulk(b"x".to_vec())
        });
    }
}

#[test]
fn etcd_outage_is_logged_once() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    cluster.etcd.pause();
    // A setting that changes the node's record.
    cluster.client(0).ok("CONFIG SET cluster-announce-hostname other.example");
    cluster
        .wait_for("a try failed", || cluster.nodes[0].log().contains("Cannot publish this server's address"));
    std::thread::sleep(Duration::from_secs(3));
    cluster.etcd.resume();
    cluster.wait_for("the other node knows the new hostname", || {
        cluster.client(1).call("CLUSTER NODES").to_string().contains("other.example")
    });
    let log = cluster.nodes[0].log();
    assert_eq!(log.matches("Cannot publish this server's address").count(), 1, "{log}");
}
