// SPDX-License-Identifier: BSD-3-Clause
//! Waiting clients under the model checker, which explores interleavings of the real locks, queues
//! and claims: `cargo test -p braid-keyspace --features model --test model`.
//!
//! The threads do what the dispatcher does for BLPOP and RPUSH (`blocking.rs` of the engine): begin
//! to wait under the locks of all keys, serve under the locks that a push holds, leave the queues
//! of other keys afterwards, and end a wait by claiming it. Like the models of `braid-base`, each
//! test runs with the unmodified code, and with a planted fault that some schedule must expose.

#![cfg(feature = "model")]

use std::sync::{Arc, Mutex};

use braid_base::hash::KeyHasher;
use braid_base::sync::{Fault, holds_unless};
use braid_keyspace::keyspace::Shape;
use braid_keyspace::object::ObjectType;
use braid_keyspace::testing::Texts;
use braid_keyspace::waiters::{WaitQueues, Waiter};
use braid_keyspace::{Context, Event, KeyRef, Keyspace, Txn};
use shuttle::thread;

const SCHEDULES: usize = 10_000;
const NOW: i64 = 1_000_000;
const CLIENTS: usize = 2;

/// A reply to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Element(Vec<u8>),
    TimeIsOver,
}

/// A server: its keys, and each client's wait and replies.
struct Store {
    keyspace: Keyspace,
    /// A waiter's request is the number of its client.
    queues: Arc<WaitQueues<usize>>,
    /// Two keys of different shards.
    keys: [Box<[u8]>; 2],
    // Standard library mutexes: the checker does not switch threads while they are held.
    waits: [Mutex<Option<Arc<Waiter<usize>>>>; CLIENTS],
    told: [Mutex<Vec<Outcome>>; CLIENTS],
}

impl Store {
    fn new(threads: usize) -> Store {
        let shape = Shape { shards: 4, databases: 1, threads, threads_max: threads };
        let keyspace = Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"));
        let mut keys = (0u8..).map(|n| Box::from([b'k', n]));
        let first: Box<[u8]> = keys.next().expect("endless");
        let shard = |key: &[u8]| keyspace.shard_of(keyspace.hash(key));
        let second = keys.find(|key| shard(key) != shard(&first)).expect("endless");
        let (queues, keys) = (keyspace.wait_queues(), [first, second]);
        Store { keyspace, queues, keys, waits: Default::default(), told: Default::default() }
    }

    fn set<'k>(&self, keys: &[&'k [u8]]) -> Vec<KeyRef<'k>> {
        keys.iter().map(|key| KeyRef { key, hash: self.keyspace.hash(key), write: true }).collect()
    }

    fn lock<'a>(&'a self, context: &'a mut Context, set: &'a [KeyRef<'a>]) -> Txn<'a> {
        Txn::lock(&self.keyspace, context, 0, NOW, set)
    }

    fn tell(&self, client: usize, told: Outcome) {
        self.told[client].lock().unwrap().push(told);
    }

    /// Takes the first element at a key, if there is one and `may`, which is called before any
    /// change, returns true.
    fn take(&self, txn: &mut Txn<'_>, key: &[u8], may: impl FnOnce() -> bool) -> Option<Vec<u8>> {
        let list = txn.write_as::<Texts>(key).unwrap()?;
        if !may() {
            return None;
        }
        let taken = list.0.remove(0);
        let empty = list.0.is_empty();
        txn.finish_change(Event::list("lpop"), key, 1, empty);
        Some(taken)
    }

    /// BLPOP: an element of the first key that has one, or a wait.
    fn pop_or_wait(&self, slot: usize, client: usize, keys: &[&[u8]]) {
        let mut context = Context::new(&self.keyspace, slot);
        let set = self.set(keys);
        self.keyspace.gate.enter(slot);
        let mut txn = self.lock(&mut context, &set);
        let mut found = None;
        for key in keys {
            // Leave elements to clients that have waited longer.
            if found.is_none() && txn.next_waiter(&self.queues, key, 0).is_none() {
                found = self.take(&mut txn, key, || true);
            }
        }
        match found {
            Some(element) => self.tell(client, Outcome::Element(element)),
            None => {
                let waiter = Arc::new(Waiter::new(0, keys, Texts::TYPE, false, client));
                *self.waits[client].lock().unwrap() = Some(Arc::clone(&waiter));
                txn.wait(&self.queues, &waiter);
            }
        }
        drop(txn);
        self.keyspace.gate.leave(slot);
    }

    /// Ends a client's wait, if it is waiting: a timeout, or CLIENT UNBLOCK.
    fn give_up(&self, slot: usize, client: usize) {
        let wait = self.waits[client].lock().unwrap().clone();
        if let Some(waiter) = wait
            && waiter.claim()
        {
            let mut context = Context::new(&self.keyspace, slot);
            self.keyspace.gate.enter(slot);
            self.leave_queues(&mut context, &waiter);
            self.keyspace.gate.leave(slot);
            self.tell(client, Outcome::TimeIsOver);
        }
    }

    fn leave_queues(&self, context: &mut Context, waiter: &Waiter<usize>) {
        let keys: Vec<&[u8]> = waiter.keys.iter().map(|key| &**key).collect();
        self.lock(context, &self.set(&keys)).stop_waiting(&self.queues, waiter);
    }

    /// RPUSH of one element, and the dispatcher's work after it.
    fn push(&self, slot: usize, key: &[u8], element: &[u8]) {
        let mut context = Context::new(&self.keyspace, slot);
        let set = self.set(&[key]);
        self.keyspace.gate.enter(slot);
        let mut txn = self.lock(&mut context, &set);
        let list = txn.write_or_create(key, Texts::default).unwrap();
        list.0.push(element.to_vec());
        txn.finish_change(Event::list("rpush"), key, 1, false);
        let elsewhere = self.serve(&mut txn);
        drop(txn);
        elsewhere.iter().for_each(|waiter| self.leave_queues(&mut context, waiter));
        self.keyspace.gate.leave(slot);
    }

    /// Serves the waiters of the changed keys; returns those that are still in queues of other
    /// keys.
    fn serve(&self, txn: &mut Txn<'_>) -> Vec<Arc<Waiter<usize>>> {
        let mut elsewhere = Vec::new();
        loop {
            let ready = std::mem::take(txn.context.ready.get_mut());
            if ready.is_empty() {
                return elsewhere;
            }
            for (_, key) in ready {
                let mut behind = 0;
                while let Some(waiter) = txn.next_waiter(&self.queues, &key, behind) {
                    behind = waiter.ticket();
                    let Some(element) = self.take(txn, &key, || waiter.claim()) else { continue };
                    self.tell(waiter.request, Outcome::Element(element));
                    if !txn.stop_waiting(&self.queues, &waiter) {
                        elsewhere.push(waiter);
                    }
                }
            }
        }
    }

    /// Checks that each client got exactly one reply or waits for empty keys, and that every
    /// element is in exactly one place.
    fn check(&self) {
        let mut elements: Vec<Vec<u8>> = Vec::new();
        let mut context = Context::new(&self.keyspace, 0);
        let keys: Vec<&[u8]> = self.keys.iter().map(|key| &**key).collect();
        let set = self.set(&keys);
        let mut txn = self.lock(&mut context, &set);
        for key in &keys {
            let awaited = txn.next_waiter(&self.queues, key, 0).is_some();
            while let Some(element) = self.take(&mut txn, key, || true) {
                assert!(!awaited, "a client waits for a key that has an element");
                elements.push(element);
            }
        }
        for (told, wait) in self.told.iter().zip(&self.waits) {
            let (told, wait) = (told.lock().unwrap(), wait.lock().unwrap().clone());
            let waits = wait.as_ref().is_some_and(|waiter| waiter.is_waiting());
            assert_eq!(told.len(), usize::from(!waits), "{told:?}");
            elements.extend(told.iter().filter_map(|told| match told {
                Outcome::Element(element) => Some(element.clone()),
                Outcome::TimeIsOver => None,
            }));
            if let Some(waiter) = wait
                && waits
            {
                assert!(txn.stop_waiting(&self.queues, &waiter));
            }
        }
        elements.sort();
        assert_eq!(elements, [b"1", b"2"], "an element was lost or duplicated");
        drop(txn);
        assert_eq!(self.keyspace.awaited_keys(), (0, 0), "a client was left in a queue");
    }
}

fn run(store: &Arc<Store>, threads: Vec<fn(&Store, usize)>) {
    let start = |(slot, work): (usize, fn(&Store, usize))| {
        let store = Arc::clone(store);
        thread::spawn(move || work(&store, slot))
    };
    let handles: Vec<_> = threads.into_iter().enumerate().map(start).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    store.check();
}

/// One client waits for two keys until its timeout, another for the second key; meanwhile both
/// keys are filled.
fn pushes_race_with_ends() {
    let store = Arc::new(Store::new(4));
    run(
        &store,
        vec![
            |store, slot| {
                store.pop_or_wait(slot, 0, &[&store.keys[0], &store.keys[1]]);
                thread::yield_now();
                store.give_up(slot, 0);
            },
            |store, slot| {
                store.pop_or_wait(slot, 1, &[&store.keys[1]]);
                store.give_up(slot, 0);
            },
            |store, slot| {
                store.push(slot, &store.keys[0], b"1");
                store.give_up(slot, 1);
            },
            |store, slot| store.push(slot, &store.keys[1], b"2"),
        ],
    );
}

/// Two clients wait for the same two keys, which are filled at the same time: both get an element,
/// whichever thread serves them.
fn pushes_race_with_each_other() {
    let store = Arc::new(Store::new(2));
    for client in 0..CLIENTS {
        store.pop_or_wait(0, client, &[&store.keys[0], &store.keys[1]]);
    }
    run(
        &store,
        vec![|store, slot| store.push(slot, &store.keys[0], b"1"), |store, slot| {
            store.push(slot, &store.keys[1], b"2")
        }],
    );
    assert!(store.told.iter().all(|told| matches!(told.lock().unwrap()[..], [Outcome::Element(_)])));
}

#[test]
fn a_wait_ends_once() {
    holds_unless(Fault::ClaimInTwoSteps, SCHEDULES, pushes_race_with_ends);
}

#[test]
fn one_of_two_pushes_serves_a_client() {
    holds_unless(Fault::ClaimInTwoSteps, SCHEDULES, pushes_race_with_each_other);
}

#[test]
fn claimed_waiters_do_not_hide_others() {
    holds_unless(Fault::ClaimedHideOthers, SCHEDULES, pushes_race_with_each_other);
}
