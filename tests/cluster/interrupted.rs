// SPDX-License-Identifier: BSD-3-Clause
//! A move of a slot by `redis-cli --cluster reshard`, and the repair of one by `--cluster fix`,
//! interrupted after each of their steps and repaired with `--cluster fix`: all keys can be read at
//! every moment, and nothing is lost. The steps are those that redis-cli 7 and 8 send.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use braid_tests::{RawClient, Value, wait_for, wait_for_within};
use rustix::process::Signal;

use crate::{Cluster, redis_clis};

/// The move's source, its target, and another primary.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
/// Number of keys in the slot.
const KEYS: usize = 5;

/// A slot that moves.
struct Case<'c> {
    cluster: &'c Cluster,
    tag: String,
    slot: i64,
}

impl Case<'_> {
    fn key(&self, number: usize) -> String {
        format!("{{{}}}:{number}", self.tag)
    }

    /// A command that the tool sends, whose outcome does not matter to it.
    fn send(&self, node: usize, text: &str) -> Value {
        self.cluster.client(node).call(text)
    }

    fn setslot(&self, node: usize, how: &str, of: usize) {
        let text = format!("CLUSTER SETSLOT {} {how} {}", self.slot, self.cluster.id(of));
        assert_eq!(self.send(node, &text), Value::ok(), "{text}\n{}", self.cluster.logs());
    }

    fn stable(&self, node: usize) {
        assert_eq!(self.send(node, &format!("CLUSTER SETSLOT {} STABLE", self.slot)), Value::ok());
    }

    /// MIGRATE of some of the keys.
    fn migrate(&self, from: usize, to: usize, keys: std::ops::Range<usize>) {
        let (address, keys) = (self.cluster.nodes[to].address(), keys.map(|key| self.key(key)));
        let keys = keys.collect::<Vec<_>>().join(" ");
        if keys.is_empty() {
            return;
        }
        let text = format!("MIGRATE {} {} \"\" 0 5000 KEYS {keys}", address.ip(), address.port());
        let reply = self.send(from, &text).to_string();
        assert!(reply.contains("OK") || reply.contains("NOKEY"), "{text}: {reply}");
    }

    /// What a reshard sends, up to a step. `moved`: the number of keys that the first MIGRATE
    /// moves.
    fn reshard(&self, moved: usize, steps: usize) {
        let all: [&dyn Fn(); 7] = [
            &|| self.setslot(B, "IMPORTING", A),
            &|| self.setslot(A, "MIGRATING", B),
            &|| self.migrate(A, B, 0..moved),
            &|| self.migrate(A, B, moved..KEYS),
            &|| self.setslot(B, "NODE", B),
            &|| self.setslot(A, "NODE", B),
            &|| self.setslot(C, "NODE", B),
        ];
        self.steps(&all[..steps]);
    }

    /// What `fix` sends to make one of two nodes that have keys the owner, up to a step.
    fn fix_by_hand(&self, owner: usize, other: usize, steps: usize) {
        let all: [&dyn Fn(); 8] = [
            &|| self.stable(owner),
            &|| self.own(owner, false),
            &|| drop(self.send(other, &format!("CLUSTER DELSLOTS {}", self.slot))),
            &|| self.setslot(other, "NODE", owner),
            &|| self.setslot(other, "IMPORTING", owner),
            &|| self.migrate(other, owner, 0..KEYS),
            &|| self.stable(other),
            &|| self.setslot(C, "NODE", owner),
        ];
        self.steps(&all[..steps]);
    }

    /// The transaction that makes a node a slot's owner.
    fn own(&self, node: usize, clears: bool) {
        let mut client = self.cluster.client(node);
        let slot = self.slot;
        let mut requests = vec![format!("CLUSTER DELSLOTS {slot}"), format!("CLUSTER ADDSLOTS {slot}")];
        requests.extend(clears.then(|| format!("CLUSTER SETSLOT {slot} STABLE")));
        requests.push("CLUSTER BUMPEPOCH".into());
        client.ok("MULTI");
        for request in &requests {
            assert_eq!(client.call(request), Value::Simple("QUEUED".into()));
        }
        let Value::Array(replies) = client.call("EXEC") else { panic!("no replies") };
        assert_eq!(replies.len(), requests.len(), "{replies:?}");
        assert_eq!(replies[1], Value::ok(), "ADDSLOTS: {replies:?}\n{}", self.cluster.logs());
    }

    fn steps(&self, steps: &[&dyn Fn()]) {
        for step in steps {
            step();
            self.check_keys();
        }
    }

    /// Each key has its value for a client that follows redirections.
    fn check_keys(&self) {
        for number in 0..KEYS {
            let value = self.cluster_call(&format!("GET {}", self.key(number)));
            assert_eq!(value, Value::Bulk(number.to_string().into()), "{}", self.cluster.logs());
        }
    }

    fn cluster_call(&self, text: &str) -> Value {
        let mut last = None;
        wait_for("a reply", || {
            let mut address = self.cluster.nodes[A].address().to_string();
            let mut asks = false;
            for _ in 0..5 {
                let mut client = RawClient::tcp(address.parse().expect("an address")).expect("a connection");
                if asks {
                    client.ok("ASKING");
                }
                let reply = client.call(text);
                let Value::Error(line) = &reply else {
                    last = Some(reply);
                    return true;
                };
                let line = String::from_utf8_lossy(line).into_owned();
                let mut words = line.split_whitespace();
                asks = match words.next() {
                    Some("ASK") => true,
                    Some("MOVED") => false,
                    // The node may not have seen the repaired map yet.
                    Some("TRYAGAIN" | "CLUSTERDOWN") => return false,
                    _ => panic!("{text}: {line}\n{}", self.cluster.logs()),
                };
                address = words.nth(1).expect("an address").to_owned();
            }
            false
        });
        last.expect("a reply")
    }

    /// Repairs the cluster with redis-cli, after which it has nothing to repair.
    fn repair(&self, program: &Path, what: &str) {
        let address = self.cluster.nodes[A].address().to_string();
        let run = |arguments: &[&str]| {
            let output = Command::new(program).arg("--cluster").args(arguments).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.success(), text)
        };
        let fixed = run(&["fix", &address, "--cluster-yes"]);
        let mut checked = run(&["check", &address]);
        // Another node may still be reading the records of the last change.
        wait_for_within(Duration::from_secs(20), || {
            if !checked.0 {
                checked = run(&["check", &address]);
            }
            checked.0
        });
        assert!(checked.0, "{what}: {}\n{}\n{}", fixed.1, checked.1, self.cluster.logs());
        self.check_keys();
        let count = |node: usize| match self.send(node, &format!("CLUSTER COUNTKEYSINSLOT {}", self.slot)) {
            Value::Integer(count) => count,
            other => panic!("{other}"),
        };
        assert_eq!((A..=C).map(count).sum::<i64>(), KEYS as i64, "{what}: a key is on two nodes");
        // The slot has no state left: an atomic move is accepted.
        for node in A..=C {
            let lines = self.cluster.lines(node);
            assert!(lines.iter().all(|line| !line.contains('[')), "{what}: {lines:?}");
        }
    }
}

/// Makes cases of slots that belong to node A, with their keys.
fn cases<'c>(cluster: &'c Cluster) -> impl FnMut() -> Case<'c> {
    let (_, last) = crate::ranges(3)[A];
    let mut number = 0;
    move || loop {
        number += 1;
        let tag = format!("t{number}");
        let Value::Integer(slot) = cluster.client(A).call(&format!("CLUSTER KEYSLOT {tag}")) else {
            panic!("no slot")
        };
        if slot > last as i64 {
            continue;
        }
        let case = Case { cluster, tag, slot };
        for number in 0..KEYS {
            cluster.client(A).ok(&format!("SET {} {number}", case.key(number)));
        }
        return case;
    }
}

#[test]
fn an_interrupted_reshard_is_repaired() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let mut next = cases(&cluster);
    for program in redis_clis() {
        for moved in [1, KEYS - 1, KEYS] {
            for steps in 1..=7 {
                let case = next();
                case.reshard(moved, steps);
                case.repair(&program, &format!("{steps} steps, {moved} keys first"));
            }
        }
    }
}

#[test]
fn an_interrupted_fix_is_repaired() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let mut next = cases(&cluster);
    for program in redis_clis() {
        // The node with most keys becomes the owner.
        for (moved, owner, other) in [(1, A, B), (KEYS - 1, B, A), (KEYS, B, A)] {
            for steps in 1..=8 {
                let case = next();
                case.reshard(moved, 3);
                case.fix_by_hand(owner, other, steps);
                case.repair(&program, &format!("{steps} steps of a fix, {moved} keys moved"));
            }
        }
    }
}

/// The slot has no owner, and several nodes have keys of it.
#[test]
fn an_uncovered_slot_is_repaired() {
    let Some(cluster) = Cluster::create(3, 3, &["--cluster-require-full-coverage", "no"]) else { return };
    let mut next = cases(&cluster);
    for program in redis_clis() {
        for (moved, owner) in [(1, A), (KEYS - 1, B), (KEYS, B), (0, A)] {
            let case = next();
            case.reshard(moved, if moved > 0 { 3 } else { 2 });
            assert_eq!(case.send(A, &format!("CLUSTER DELSLOTS {}", case.slot)), Value::ok());
            if owner == B {
                // Interrupted after the first transaction of the repair.
                case.own(B, true);
                case.check_keys();
            }
            case.repair(&program, &format!("no owner, {moved} keys moved"));
        }
    }
}

/// STABLE at the two nodes of an interrupted move, in both orders, with and without keys moved.
#[test]
fn stable_deletes_no_keys() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let mut next = cases(&cluster);
    for moved in [0, 2, KEYS] {
        for order in [[A, B], [B, A]] {
            let case = next();
            case.reshard(moved, if moved > 0 { 3 } else { 2 });
            for node in order {
                case.stable(node);
                case.check_keys();
            }
            let is_open = |node: usize| cluster.lines(node).iter().any(|line| line.contains('['));
            assert_eq!([is_open(A), is_open(B)], [moved > 0; 2], "{moved} keys moved, {order:?}");
            // Afterwards the move is completed, or begins anew.
            case.reshard(KEYS, 7);
            assert!(!is_open(A) && !is_open(B));
        }
    }
}

/// A MIGRATE whose answer was lost has left keys at its target. The owner, which goes on with its
/// own, deletes them there: after the MIGRATE, or if the process that sent it has ended, when it
/// takes the lead.
#[test]
fn keys_left_at_the_target_go() {
    for restarts in [false, true] {
        let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
        let Some(mut cluster) = Cluster::create(3, 3, &arguments) else { return };
        let case = cases(&cluster)();
        case.reshard(1, 2);
        let copy = |key: usize| {
            let address = cluster.nodes[B].address();
            let (ip, port) = (address.ip(), address.port());
            let text = format!("MIGRATE {ip} {port} {} 0 5000 COPY", case.key(key));
            assert_eq!(case.send(A, &text), Value::ok(), "{text}");
        };
        copy(0);
        copy(1);
        cluster.client(A).ok(&format!("SET {} newer", case.key(0)));
        case.migrate(A, B, KEYS - 1..KEYS);
        let (tag, slot) = (case.tag.clone(), case.slot);
        match restarts {
            true => {
                cluster.nodes[A].signal(Signal::KILL);
                cluster.nodes[A].wait();
                cluster.restart(A);
            }
            false => {
                let reply = case.send(A, &format!("MIGRATE 127.0.0.1 1 {} 0 5000", case.key(2)));
                assert!(reply.to_string().contains("IOERR"), "{reply}");
            }
        }
        let case = Case { cluster: &cluster, tag, slot };
        let keys_at = |node: usize| case.send(node, &format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        let moved = Value::Array(vec![Value::Bulk(case.key(KEYS - 1).into())]);
        cluster.wait_for("only what has moved is at the target", || keys_at(B) == moved);
        let Value::Array(here) = keys_at(A) else { panic!("no keys") };
        assert_eq!(here.len(), KEYS - 1);
        let newer = Value::Bulk(b"newer"[..].into());
        assert_eq!(case.cluster_call(&format!("GET {}", case.key(0))), newer);
        assert_eq!(case.cluster_call(&format!("SET {} 0", case.key(0))), Value::ok());
        case.check_keys();
        case.reshard(KEYS, 7);
        assert_eq!(keys_at(A), Value::Array(Vec::new()));
    }
}
