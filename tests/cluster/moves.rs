// SPDX-License-Identifier: BSD-3-Clause
//! Atomic slot moves: under load, with faults on all sides, compared with Valkey 9.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_tests::{RawClient, Value, request};
use rustix::process::Signal;

use crate::Cluster;

pub(crate) fn ok() -> Value {
    Value::Simple("OK".into())
}

/// State and message of the newest move that a node reports.
pub(crate) fn newest(cluster: &Cluster, index: usize) -> Option<(String, String)> {
    let Value::Array(moves) = cluster.client(index).call("CLUSTER GETSLOTMIGRATIONS") else { return None };
    let Some(Value::Array(fields)) = moves.first() else { return None };
    let field = |name: &str| {
        let at = fields.iter().position(|field| *field == Value::Bulk(name.into()))?;
        Some(fields[at + 1].clone().text())
    };
    Some((field("state")?, field("message")?))
}

fn wait_for_state(cluster: &Cluster, index: usize, state: &str) {
    cluster.wait_for(&format!("the move is {state}: {:?}", newest(cluster, index)), || {
        newest(cluster, index).is_some_and(|(now, _)| now == state)
    });
}

pub(crate) fn begin(cluster: &Cluster, from: usize, to: usize, slots: &str) -> Value {
    order(cluster, from, &cluster.id(to), slots)
}

/// As [`begin`], for a target that may not reply.
fn order(cluster: &Cluster, from: usize, target: &str, slots: &str) -> Value {
    cluster.client(from).call(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slots} NODE {target}"))
}

/// A client's work: it increments, appends, and changes pairs of keys in transactions, on keys of
/// its own, and knows every expected reply.
pub struct Load {
    nodes: Vec<SocketAddr>,
    clients: HashMap<SocketAddr, RawClient>,
    /// Where a key was last found.
    places: HashMap<String, SocketAddr>,
    tag: usize,
    pub(crate) counters: Vec<i64>,
    pub(crate) longest: Wait,
    redirected: usize,
}

pub const TAGS: usize = 64;

impl Load {
    pub fn new(cluster: &Cluster, tag: usize) -> Load {
        Load::at(cluster.nodes.iter().map(|node| node.address()).collect(), tag)
    }

    /// A load for a cluster with nodes at these addresses.
    pub fn at(nodes: Vec<SocketAddr>, tag: usize) -> Load {
        let (clients, places) = (HashMap::new(), HashMap::new());
        Load { nodes, clients, places, tag, counters: vec![0; TAGS], longest: Wait::default(), redirected: 0 }
    }

    /// Continues on another cluster, which must have the same data.
    pub fn go_to(&mut self, nodes: Vec<SocketAddr>) {
        self.nodes = nodes;
        self.clients.clear();
        self.places.clear();
    }

    /// A request for a key, sent to its slot's node. `None`: the connection was lost, so the
    /// outcome is unknown.
    fn call(&mut self, key: &str, requests: &[&str]) -> Option<Value> {
        let begin = Instant::now();
        for turn in 0..400 {
            let place = *self.places.entry(key.to_owned()).or_insert(self.nodes[turn % self.nodes.len()]);
            let client = match self.clients.get_mut(&place) {
                Some(client) => client,
                None => match RawClient::tcp(place) {
                    Ok(client) => self.clients.entry(place).or_insert(client),
                    Err(_) => {
                        self.places.remove(key);
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                },
            };
            let (mut last, mut moved) = (None, None);
            let bytes: Vec<u8> = requests.iter().map(|text| request(text)).collect::<Vec<_>>().concat();
            if client.try_send(&bytes).is_ok() {
                for _ in requests {
                    last = client.try_read().ok();
                    let Some(reply) = &last else { break };
                    // In a transaction, the redirected request names the new place.
                    moved = moved.or_else(|| Some(reply.to_string().split_once("MOVED ")?.1.to_owned()));
                }
            }
            let Some(reply) = last else {
                self.clients.remove(&place);
                self.places.remove(key);
                return None;
            };
            let text = reply.to_string();
            if let Some(to) = moved {
                let to = to.split_whitespace().nth(1).expect("an address").trim_matches(['"', '\'', ')']);
                self.places.insert(key.to_owned(), to.parse().expect("an address"));
                self.redirected += 1;
                continue;
            }
            if ["CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "READONLY", "LOADING", "EXECABORT"]
                .iter()
                .any(|word| text.contains(word))
            {
                self.places.remove(key);
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            if text.contains("UNCERTAIN") {
                return None;
            }
            if begin.elapsed() > self.longest.time {
                self.longest = Wait { time: begin.elapsed(), tries: turn + 1, ended: Some(Instant::now()) };
            }
            return Some(reply);
        }
        panic!("{requests:?} is never served");
    }

    /// One change and its check. Without a reply it may or may not have been executed.
    pub fn step(&mut self, number: usize) {
        let index = number * 7 % TAGS;
        let key = format!("{{{}-{index}}}", self.tag);
        let expected = self.counters[index] + 1;
        let requests = [
            "MULTI".to_owned(),
            format!("INCR c:{key}"),
            format!("RPUSH l:{key} {expected}"),
            format!("HINCRBY h:{key} f 1"),
            "EXEC".to_owned(),
        ];
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        match self.call(&key, &requests) {
            Some(reply) => {
                let all = Value::Array(vec![Value::Integer(expected); 3]);
                assert_eq!(reply, all, "{key}: every write of the transaction is applied once");
                self.counters[index] = expected;
            }
            None => loop {
                // A read reveals the outcome.
                let Some(reply) = self.call(&key, &[&format!("GET c:{key}")]) else { continue };
                let now = match reply {
                    Value::Bulk(now) => String::from_utf8_lossy(&now).parse().expect("a number"),
                    _ => 0,
                };
                assert!(now == expected || now == expected - 1, "{key}: {now}, not {expected} or one less");
                self.counters[index] = now;
                break;
            },
        }
    }

    /// Reads, retrying if the connection is lost because its node has died.
    fn read(&mut self, key: &str, request: &str) -> Value {
        loop {
            if let Some(reply) = self.call(key, &[request]) {
                return reply;
            }
        }
    }

    pub fn check(&mut self) {
        for index in 0..TAGS {
            let (key, expected) = (format!("{{{}-{index}}}", self.tag), self.counters[index]);
            if expected == 0 {
                continue;
            }
            let reply = self.read(&key, &format!("GET c:{key}"));
            assert_eq!(reply, Value::Bulk(expected.to_string().into()), "{key}");
            let reply = self.read(&key, &format!("LRANGE l:{key} 0 -1"));
            let list = (1..=expected).map(|number| Value::Bulk(number.to_string().into())).collect();
            assert_eq!(reply, Value::Array(list), "{key}");
            let reply = self.read(&key, &format!("HGET h:{key} f"));
            assert_eq!(reply, Value::Bulk(expected.to_string().into()), "{key}");
        }
    }
}

/// The longest time that a client waited for a request to be executed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Wait {
    pub time: Duration,
    /// Number of attempts, including redirections and replies to try again.
    pub tries: usize,
    pub ended: Option<Instant>,
}

/// Observations of clients under load.
#[derive(Default)]
pub(crate) struct Seen {
    /// Number of transactions.
    pub changes: usize,
    pub longest: Wait,
    /// Number of keys at the end.
    pub keys: usize,
    redirected: usize,
}

/// Runs `work` while one client per tag changes keys, starting when each has changed all of its
/// keys. At the end all data matches the clients' expectations.
pub(crate) fn loaded<T>(cluster: &Cluster, tags: Range<usize>, work: impl FnOnce() -> T) -> (T, Seen) {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(tags.len() + 1));
    std::thread::scope(|scope| {
        let client = |tag: usize| {
            let (mut load, stop, ready) = (Load::new(cluster, tag), &stop, &ready);
            scope.spawn(move || {
                (0..TAGS).for_each(|number| load.step(number));
                load.longest = Wait::default();
                ready.wait();
                let mut number = 0;
                while !stop.load(Relaxed) {
                    load.step(number);
                    number += 1;
                }
                let longest = load.longest;
                load.check();
                Seen { changes: number, longest, keys: 3 * TAGS, redirected: load.redirected }
            })
        };
        let threads: Vec<_> = tags.map(client).collect();
        ready.wait();
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Relaxed);
        let mut all = Seen::default();
        for thread in threads {
            let seen = thread.join().expect("no client received a wrong reply");
            all.changes += seen.changes;
            if seen.longest.time > all.longest.time {
                all.longest = seen.longest;
            }
            all.keys += seen.keys;
            all.redirected += seen.redirected;
        }
        (worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), all)
    })
}

/// The same while slots move. Returns the longest time that a client waited.
pub fn under_load(cluster: &Cluster, clients: usize, work: impl FnOnce()) -> Duration {
    let ((), seen) = loaded(cluster, 0..clients, work);
    assert!(seen.redirected > 0, "no client was redirected");
    seen.longest.time
}

/// The total number of keys on these nodes.
pub(crate) fn keys_of(cluster: &Cluster, nodes: &[usize]) -> i64 {
    nodes
        .iter()
        .map(|&index| match cluster.client(index).call("DBSIZE") {
            Value::Integer(count) => count,
            other => panic!("{other}"),
        })
        .sum()
}

/// Waits until nodes have this many keys together: keys that have moved away are deleted
/// gradually.
pub fn wait_for_keys(cluster: &Cluster, nodes: &[usize], expected: i64) {
    let mut found = 0;
    let is_so = braid_tests::wait_for_within(Duration::from_secs(20), || {
        found = keys_of(cluster, nodes);
        found == expected
    });
    assert!(is_so, "keys are missing or duplicated: {found}, not {expected}\n{}", cluster.logs());
}

#[test]
fn nothing_is_lost_while_slots_go_back_and_forth_under_load() {
    let Some(cluster) = Cluster::create(2, 2, &["--enable-debug-command", "yes"]) else { return };
    // Values also move from place to place in memory (defragmentation).
    for node in 0..2 {
        cluster.client(node).ok("DEBUG RELOCATE-ALL 1");
    }
    let longest = under_load(&cluster, 4, || {
        for turn in 0..16 {
            let (from, to) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
            cluster.move_slots(from, to, "0 4095 5000 5999");
        }
        // Requested from the target.
        let id = cluster.client(1).call("CLUSTER MIGRATION IMPORT 0 1000").text();
        cluster.wait_for("the import is complete", || {
            let status = cluster.client(1).call("CLUSTER MIGRATION STATUS ALL").to_string();
            status.contains("completed") && !status.contains("in_progress")
        });
        cluster.wait_for("the source reports the move as complete", || {
            let status = cluster.client(0).call(&format!("CLUSTER MIGRATION STATUS ID {id}")).to_string();
            status.contains("migrate") && status.contains("completed")
        });
    });
    println!("longest wait of a client: {longest:?}");
    wait_for_keys(&cluster, &[0, 1], 3 * 4 * TAGS as i64);
    let slots = cluster.client(0).call("CLUSTER SLOTS").to_string();
    assert!(slots.contains("1001"), "{slots}");
}

/// Otherwise, replies to synchronous writes on the source would wait behind the deletions.
#[test]
fn moved_keys_are_deleted_at_the_pace_of_the_replica() {
    let patient = ["--sync-writes", "yes", "--sync-timeout", "60000"];
    let Some(cluster) = Cluster::create(4, 2, &patient) else { return };
    // Slot 866, whose primary is the first node and whose replica is the third one.
    const COUNT: u64 = 20_000;
    const NAME: u64 = 100;
    let fill = "EVAL \"for i = 1, 20000 do redis.call('set', KEYS[1]..string.format('%093d', i), '') end\" 1 {hello}";
    cluster.client(0).call(fill);
    let offset = || -> u64 {
        let offset = cluster.client(0).info_field("replication", "master_repl_offset");
        offset.expect("the field").parse().expect("a number")
    };
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n2"));
    let before = offset();
    cluster.nodes[2].signal(Signal::STOP);
    let began = Instant::now();
    cluster.move_slots(0, 1, "866 866");
    // Bytes deleted together, and the time after which deletion continues without an
    // acknowledgement from the replica.
    let (chunk, patience) = (500 * (NAME + 10), Duration::from_millis(50));
    cluster.wait_for("some keys are deleted", || offset() - before > chunk / 2);
    while began.elapsed() < Duration::from_secs(1) {
        let gone = offset() - before;
        let chunks = 3 + (began.elapsed().as_millis() / patience.as_millis()) as u64;
        assert!(gone < chunks * chunk, "{gone} bytes in {:?}", began.elapsed());
    }
    cluster.nodes[2].signal(Signal::CONT);
    cluster.wait_for("all keys are deleted", || offset() - before > COUNT * NAME);
}

#[test]
fn values_of_all_sizes_and_databases_arrive() {
    let Some(cluster) = Cluster::create(2, 2, &["--cluster-databases", "3"]) else { return };
    let mut client = cluster.client(0);
    // Slot 866, which belongs to the first node.
    for batch in 0..100 {
        let members: Vec<String> = (0..1000).map(|number| format!("{}", batch * 1000 + number)).collect();
        let scored: Vec<String> = members.iter().map(|member| format!("{member} {member}")).collect();
        for text in [
            format!("RPUSH list:{{hello}} {}", members.join(" ")),
            format!("ZADD zset:{{hello}} {}", scored.join(" ")),
            format!("HSET hash:{{hello}} {}", scored.join(" ")),
        ] {
            assert!(matches!(client.call(&text), Value::Integer(_)));
        }
    }
    client.ok(&format!("SET big:{{hello}} {}", "x".repeat(3 << 20)));
    client.ok("SET gone:{hello} x PX 30");
    client.ok("SET later:{hello} x PX 100000000");
    client.ok("SELECT 2");
    client.ok("SET other:{hello} two");
    let digest = |index: usize| {
        cluster.client(index).call("DEBUG DIGEST-VALUE list:{hello} zset:{hello} hash:{hello} big:{hello}")
    };
    let before = digest(0);
    cluster.move_slots(0, 1, "866 866");
    assert_eq!(digest(1).to_string(), before.to_string());
    let mut there = cluster.client(1);
    assert!(matches!(there.call("PTTL later:{hello}"), Value::Integer(99_000_000..)));
    assert_eq!(there.call("EXISTS gone:{hello}"), Value::Integer(0));
    there.ok("SELECT 2");
    assert_eq!(there.call("GET other:{hello}"), Value::Bulk("two".into()));
    wait_for_keys(&cluster, &[0], 0);
    assert!(cluster.client(0).call("SET x:{hello} 1").to_string().contains("MOVED 866"));
}

#[test]
fn blocked_and_subscribed_clients_are_redirected_after_a_move() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let (mut waiting, mut listening) = (cluster.client(0), cluster.client(0));
    waiting.send(&request("BLPOP list:{hello} 100"));
    assert!(matches!(listening.call("SSUBSCRIBE channel:{hello}"), Value::Array(_)));
    cluster.wait_for("the client waits", || {
        cluster.client(0).call("INFO clients").text().contains("blocked_clients:1")
    });
    cluster.move_slots(0, 1, "866 866");
    let port = cluster.nodes[1].port();
    let moved = waiting.read().to_string();
    assert!(moved.contains(&format!("MOVED 866 127.0.0.1:{port}")), "{moved}");
    let left = listening.read();
    let expected = ["sunsubscribe", "channel:{hello}"].map(|word| Value::Bulk(word.into()));
    assert_eq!(left, Value::Array([&expected[..], &[Value::Integer(0)]].concat()));
    assert!(listening.call("SSUBSCRIBE channel:{hello}").to_string().contains("MOVED 866"));
    // A client may take the message for the reply to its own SUNSUBSCRIBE. What it receives for
    // that later is such a message again, never a redirection, as outside of cluster mode.
    assert_eq!(listening.call("SUNSUBSCRIBE channel:{hello}"), left);
    assert_eq!(listening.call("MULTI"), ok());
    assert_eq!(listening.call("SUNSUBSCRIBE channel:{hello}"), Value::Simple("QUEUED".into()));
    assert_eq!(listening.call("EXEC"), Value::Array(vec![left]));
    assert_eq!(waiting.call("PING"), Value::Simple("PONG".into()));
    // A script without the declared key cannot access it.
    let undeclared = cluster.client(0).call("EVAL \"return redis.call('SET','{hello}','x')\" 0").to_string();
    assert!(undeclared.contains("non local key"), "{undeclared}");
}

#[test]
fn slot_move_can_be_cancelled_and_restarted() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    for number in 0..2000 {
        cluster.call(&format!("SET key:{number} {number}"));
    }
    let before = keys_of(&cluster, &[0]);
    // The target does not reply.
    cluster.nodes[1].signal(Signal::STOP);
    let id =
        cluster.lines(0).iter().find(|line| !line.contains("myself")).expect("another node")[..40].to_owned();
    let request = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 4000 NODE {id}");
    assert_eq!(cluster.client(0).call(&request), ok());
    let again = cluster.client(0).call(&request).to_string();
    assert!(again.contains("already being moved"), "{again}");
    assert_eq!(cluster.client(0).call("CLUSTER CANCELSLOTMIGRATIONS"), ok());
    cluster.nodes[1].signal(Signal::CONT);
    wait_for_state(&cluster, 0, "cancelled");
    cluster.wait_for("the target gave up", || newest(&cluster, 1).is_none_or(|(state, _)| state == "failed"));
    let nothing = cluster.client(0).call("CLUSTER CANCELSLOTMIGRATIONS").to_string();
    assert!(nothing.contains("No migrations ongoing"), "{nothing}");
    assert_eq!(keys_of(&cluster, &[0]), before);
    cluster.wait_for("the cluster state is ok", || {
        cluster.client(0).call("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    cluster.move_slots(0, 1, "0 4000");
    wait_for_keys(&cluster, &[0, 1], 2000);
    for number in 0..2000 {
        assert_eq!(cluster.call(&format!("GET key:{number}")), Value::Bulk(number.to_string().into()));
    }
}

/// The connection between source and target is cut again and again. The move continues where it
/// was: it is one attempt.
#[test]
fn a_move_whose_connection_is_lost_is_resumed() {
    let Some(cluster) = Cluster::create(2, 2, &["--cluster-databases", "3"]) else { return };
    // Of all sizes, in several databases; slot 866 is the first node's.
    let (mut client, long) = (cluster.client(0), "x".repeat(300_000));
    for number in 0..30_000 {
        let value = match number % 1000 {
            0 => &long[..],
            _ => &long[..number % 500],
        };
        client.send(&request(&format!("SET {number}:{{hello}} v{value}")));
        if number % 100 == 99 {
            (0..100).for_each(|_| assert_eq!(client.read(), ok()));
        }
    }
    client.ok("SELECT 2");
    (0..500).for_each(|number| client.ok(&format!("SET other:{number}:{{hello}} {number}")));
    let (mut cuts, mut longest) = (0, Duration::ZERO);
    for round in 0..4 {
        let (from, target) = (round % 2, 1 - round % 2);
        let ((), seen) = loaded(&cluster, 10 * round..10 * round + 2, || {
            assert_eq!(begin(&cluster, from, target, "0 4095"), ok());
            let mut killer = cluster.client(target);
            let mut has_begun = false;
            cluster.wait_for("the move succeeds", || {
                let clients = killer.call("CLIENT LIST").text();
                has_begun |= clients.contains("cmd=restore ");
                let is_source = |line: &&str| {
                    ["cmd=restore ", "cmd=cluster|syncslots", "cmd=dbsize", "cmd=client|durable"]
                        .iter()
                        .any(|command| line.contains(command))
                };
                for line in clients.lines().filter(is_source).filter(|_| has_begun) {
                    let id = line.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id");
                    killer.call(&format!("CLIENT KILL ID {id}"));
                    cuts += 1;
                }
                // A handover takes about as long.
                std::thread::sleep(Duration::from_millis(10));
                newest(&cluster, from).is_some_and(|(state, _)| state == "success")
            });
        });
        longest = longest.max(seen.longest.time);
        assert_eq!(told(&cluster, from, "retries"), Some(Value::Integer(0)), "{}", cluster.logs());
    }
    println!("{cuts} connections were cut; a client waited {longest:?} at most");
    assert!(cluster.logs().contains("is resumed"), "no connection was cut in time");
    wait_for_keys(&cluster, &[0, 1], 30_000 + 4 * 3 * 2 * TAGS as i64);
    let (mut client, mut other) = (cluster.client(0), cluster.client(0));
    other.ok("SELECT 2");
    for number in (0..30_000).step_by(7) {
        let expected = 1 + if number % 1000 == 0 { long.len() } else { number % 500 };
        assert_eq!(client.call(&format!("STRLEN {number}:{{hello}}")), Value::Integer(expected as i64));
    }
    for number in 0..500 {
        let found = other.call(&format!("GET other:{number}:{{hello}}"));
        assert_eq!(found, Value::Bulk(number.to_string().into()));
    }
}

#[test]
fn no_writes_are_lost_when_a_primary_dies_during_slot_moves() {
    let durable = ["--sync-writes", "yes", "--appendonly", "yes"];
    let Some(mut cluster) = Cluster::create(4, 2, &durable) else { return };
    let mut keys = 0;
    for round in 0..4 {
        let shared = &cluster;
        shared.wait_for("both replicas are in sync", || {
            let sets =
                (0..4).filter(|&index| leads(shared, index)).map(|index| shared.client(index).info("group"));
            let has_two = |info: &String| {
                info.lines().any(|line| line.starts_with("group_in_sync:") && line.contains(','))
            };
            sets.filter(has_two).count() == 2
        });
        let leaders: Vec<usize> = (0..4).filter(|&index| leads(shared, index)).collect();
        let (from, to) = (leaders[round % 2], leaders[1 - round % 2]);
        let victim = if round < 2 { from } else { to };
        keys += under_load_with_faults(shared, round, || {
            assert_eq!(begin(shared, from, to, &own_slots(shared, from)), ok());
            // In the middle of the move, or at its end.
            std::thread::sleep(Duration::from_millis(7 * round as u64));
            shared.nodes[victim].signal(Signal::KILL);
        });
        cluster.nodes[victim].wait();
        cluster.restart(victim);
        cluster.wait_until_ready(2);
        // The current primary continues the move.
        cluster.wait_for("no slots are moving", || (0..4).all(|index| !is_moving(&cluster, index)));
    }
    let leaders: Vec<usize> = (0..4).filter(|&index| leads(&cluster, index)).collect();
    wait_for_keys(&cluster, &leaders, keys);
}

/// True if a node reports an unfinished move.
fn is_moving(cluster: &Cluster, index: usize) -> bool {
    let moves = cluster.client(index).call("CLUSTER MIGRATION STATUS ALL").to_string();
    moves.contains("in_progress")
}

/// A field of the newest move that a node reports, by Redis's name.
fn told(cluster: &Cluster, index: usize, name: &str) -> Option<Value> {
    let Value::Array(moves) = cluster.client(index).call("CLUSTER MIGRATION STATUS ALL") else { return None };
    let Some(Value::Array(fields)) = moves.first() else { return None };
    let at = fields.iter().position(|field| *field == Value::Bulk(name.into()))?;
    Some(fields[at + 1].clone())
}

/// A node that is stopped until this is dropped, even by a failed assertion: otherwise clients
/// would wait for it forever.
pub(crate) struct Stopped<'c>(&'c Cluster, usize);

impl<'c> Stopped<'c> {
    pub(crate) fn new(cluster: &'c Cluster, index: usize) -> Stopped<'c> {
        cluster.nodes[index].signal(Signal::STOP);
        Stopped(cluster, index)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.nodes[self.1].signal(Signal::CONT);
    }
}

/// The source is connected to a target that has stopped replying: it does not wait for
/// `repl-timeout` (60 s) once another node leads the target's shard.
#[test]
fn a_move_does_not_wait_for_a_target_that_stands_still() {
    let Some(cluster) = Cluster::create(4, 2, &[]) else { return };
    let target = cluster.id(1);
    cluster.wait_for("the replica is in sync", || cluster.client(1).info("group").contains("in_sync:n1,n3"));
    let _stopped = Stopped::new(&cluster, 1);
    assert_eq!(order(&cluster, 0, &target, "0 4095"), ok());
    cluster.wait_for("the successor of the target has the slots", || {
        told(&cluster, 3, "state") == Some(Value::Bulk("completed".into()))
    });
    assert!(matches!(told(&cluster, 0, "retries"), Some(Value::Integer(1..))));
}

/// Both primaries fail in the middle of a move: their successors complete it.
#[test]
fn slot_move_is_completed_by_the_new_primaries() {
    let durable = ["--sync-writes", "yes"];
    let Some(mut cluster) = Cluster::create(4, 2, &durable) else { return };
    let ids: Vec<String> = (0..4).map(|index| cluster.id(index)).collect();
    let slots = "0 4095";
    cluster.wait_for("the replicas are in sync", || {
        (0..2).all(|index| {
            cluster.client(index).info("group").contains(&format!("in_sync:n{index},n{}", index + 2))
        })
    });
    let ((), seen) = loaded(&cluster, 0..2, || {
        // The target no longer replies, so the original primaries cannot complete the move.
        let _stopped = Stopped::new(&cluster, 1);
        assert_eq!(order(&cluster, 0, &ids[1], slots), ok());
        let name = told(&cluster, 0, "id");
        assert!(is_moving(&cluster, 0), "{name:?}");
        cluster.nodes[0].signal(Signal::KILL);
        cluster.wait_for("the successor of the target has the slots", || {
            told(&cluster, 3, "state") == Some(Value::Bulk("completed".into()))
        });
        cluster.wait_for("the successor of the source reports the move as complete", || {
            told(&cluster, 2, "state") == Some(Value::Bulk("completed".into()))
        });
        for index in [2, 3] {
            assert_eq!(told(&cluster, index, "id"), name, "the move keeps its ID");
            let sides = ["source", "dest"].map(|side| told(&cluster, index, side));
            assert_eq!(sides, [&ids[2], &ids[3]].map(|id| Some(Value::Bulk(id.as_str().into()))));
        }
    });
    cluster.nodes[0].wait();
    cluster.restart(0);
    cluster.wait_until_ready(2);
    wait_for_keys(&cluster, &[2, 3], seen.keys as i64);
    let owner = cluster.lines(2).into_iter().find(|line| line.contains(" 0-4095")).expect("the owner");
    assert!(owner.starts_with(&ids[3]), "{owner}");
    cluster.wait_for("no slots are moving", || (0..4).all(|index| !is_moving(&cluster, index)));
}

/// A target that is away for a long time: the move waits, reports why, and can be cancelled;
/// otherwise it continues.
#[test]
fn a_move_waits_for_its_target_until_it_is_cancelled() {
    let Some(mut cluster) = Cluster::create(2, 2, &["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    (0..200).for_each(|number| drop(cluster.call(&format!("SET key:{number} x"))));
    let ids: Vec<String> = (0..2).map(|index| cluster.id(index)).collect();
    let before = keys_of(&cluster, &[0]);
    for is_cancelled in [true, false] {
        cluster.nodes[1].signal(Signal::STOP);
        assert_eq!(order(&cluster, 0, &ids[1], "0 4000"), ok());
        cluster.nodes[1].signal(Signal::KILL);
        cluster.nodes[1].wait();
        cluster.wait_for("the move is interrupted but not over", || {
            let message = newest(&cluster, 0)
                .is_some_and(|(state, message)| state == "connecting" && !message.is_empty());
            message && is_moving(&cluster, 0)
        });
        if is_cancelled {
            assert_eq!(cluster.client(0).call("CLUSTER MIGRATION CANCEL ALL"), Value::Integer(1));
            wait_for_state(&cluster, 0, "cancelled");
        }
        cluster.restart(1);
        cluster.wait_until_ready(2);
        if is_cancelled {
            assert_eq!(keys_of(&cluster, &[0]), before, "keys left the source");
            assert_eq!(newest(&cluster, 1), None, "the target still reports a move");
        } else {
            wait_for_state(&cluster, 0, "success");
            assert!(matches!(told(&cluster, 0, "retries"), Some(Value::Integer(1..))));
            wait_for_keys(&cluster, &[0, 1], 200);
        }
    }
}

pub(crate) fn leads(cluster: &Cluster, index: usize) -> bool {
    cluster.lines(index).iter().any(|line| line.contains("myself,master"))
}

/// The first half of a primary's first slot range, as arguments.
fn own_slots(cluster: &Cluster, index: usize) -> String {
    let lines = cluster.lines(index);
    let line = lines.iter().find(|line| line.contains("myself")).expect("its own line");
    let range = line.split_whitespace().nth(8).expect("slots");
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u16, u16) = (first.parse().expect("a slot"), last.parse().expect("a slot"));
    format!("{first} {}", first.midpoint(last))
}

/// Two clients change keys named after this round during a fault and for a while after it.
/// Returns the number of keys.
fn under_load_with_faults(cluster: &Cluster, round: usize, fault: impl FnOnce()) -> i64 {
    let tags = 100 * (round + 1);
    let ((), seen) = loaded(cluster, tags..tags + 2, || {
        fault();
        std::thread::sleep(Duration::from_secs(4));
    });
    seen.keys as i64
}

#[test]
fn etcd_may_be_away_while_slots_move() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    under_load(&cluster, 2, || {
        cluster.move_slots(0, 1, "0 999");
        assert_eq!(begin(&cluster, 0, 1, "1000 1999"), ok());
        cluster.etcd.pause();
        std::thread::sleep(Duration::from_secs(3));
        cluster.etcd.resume();
        wait_for_state(&cluster, 0, "success");
        cluster.wait_for("both nodes agree on the owner", || {
            let owners = |index: usize| cluster.client(index).call("CLUSTER SLOTS").to_string();
            owners(0) == owners(1) && owners(0).contains("1999") == owners(1).contains("1999")
        });
    });
    wait_for_keys(&cluster, &[0, 1], 3 * 2 * TAGS as i64);
}

#[test]
fn migrateslots_errors_match_valkey() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let (own, other) = (cluster.id(0), cluster.id(1));
    // The errors of Valkey 9.1.
    let cases = [
        ("SLOTSRANGE 0 99".to_owned(), "ERR syntax error"),
        (format!("SLOTSRANGE 0 99 SLOTSRANGE 100 101 NODE {other}"), "ERR syntax error"),
        (
            format!("SLOTSRANGE 5 0 NODE {other}"),
            "ERR Start slot number 5 is greater than end slot number 0.",
        ),
        (format!("SLOTSRANGE 5 99999 NODE {other}"), "ERR Invalid or out of range slot"),
        (format!("SLOTSRANGE a 9 NODE {other}"), "ERR No slot ranges specified"),
        (format!("SLOTSRANGE 16000 16001 NODE {other}"), "ERR Slots are not served by this node."),
        (format!("SLOTSRANGE 0 5 NODE {own}"), "ERR Target node can not be this node."),
        ("SLOTSRANGE 0 5 NODE aaaa".to_owned(), "ERR Invalid node name: aaaa"),
        (
            format!("SLOTSRANGE 500 505 505 506 NODE {other}"),
            "ERR Slot range 505-506 overlaps with previous range 500-505.",
        ),
        (
            format!("SLOTSRANGE 0 5 NODE {other} SLOTSRANGE 5 6 NODE {other}"),
            "ERR Slot ranges in migrations overlap",
        ),
    ];
    for (arguments, expected) in cases {
        let reply = cluster.client(0).call(&format!("CLUSTER MIGRATESLOTS {arguments}"));
        assert_eq!(reply, Value::Error(expected.into()), "{arguments}");
    }
    assert_eq!(cluster.client(0).call("CLUSTER GETSLOTMIGRATIONS"), Value::Array(Vec::new()));
    for garbage in [
        "APPLY x",
        "APPLY 1 x",
        "APPLY x 1",
        "RESUME a b",
        "READY",
        "DONE",
        "ESTABLISH a b 0-99999",
        "ESTABLISH a b 0-9",
        "EXPORT 0-9 x",
        "x",
    ] {
        let reply = cluster.client(0).call(&format!("CLUSTER SYNCSLOTS {garbage}"));
        assert!(matches!(reply, Value::Error(_)), "{garbage}: {reply}");
    }
}
