// SPDX-License-Identifier: BSD-3-Clause
//! Closing clients under the model checker: `cargo test -p braid-clients --features model --test
//! model`.
//!
//! One thread executes a client's BLPOP while another closes the client (CLIENT KILL, eviction, a
//! deleted user) and then pushes an element. The closing thread may look for a wait before there is
//! one. Still, once it has closed the client, the element must not go to it.

#![cfg(feature = "model")]

use std::sync::{Arc, Mutex};

use braid_base::sync::{Fault, holds_unless};
use braid_clients::record::BlockedCommand;
use braid_clients::record::Waiting;
use braid_clients::{Address, ClientRecord, Registry, client_flags};
use braid_keyspace::Type;
use braid_keyspace::waiters::Waiter;
use shuttle::thread;

const SCHEDULES: usize = 10_000;

struct Command;

impl BlockedCommand for Command {
    fn command(&self) -> u32 {
        0
    }

    fn nanos(&self) -> u64 {
        0
    }
}

/// A client, and the queue of the key that it waits for. The mutex stands for the shard's lock.
struct Store {
    registry: Registry,
    client: Arc<ClientRecord>,
    queue: shuttle::sync::Mutex<Vec<Arc<Waiter<Command>>>>,
    // The checker does not switch threads while this one is held.
    served: Mutex<u32>,
}

impl Store {
    fn new() -> Store {
        let registry = Registry::default();
        let id = registry.next_id();
        let client = Arc::new(ClientRecord::new(id, -1, Address::Unknown, Address::Unknown, 0));
        registry.add(Arc::clone(&client));
        Store { registry, client, queue: shuttle::sync::Mutex::default(), served: Mutex::new(0) }
    }

    /// BLPOP finds nothing: the client waits.
    fn wait(&self) {
        let mut queue = self.queue.lock().unwrap();
        let waiter = Arc::new(Waiter::new(0, &[b"k"], Type::new(1), false, Command));
        let waiting = Waiting { waiter: Arc::clone(&waiter) as _, has_deadline: false, can_be_ended: true };
        self.client.begin_wait(waiting);
        queue.push(waiter);
    }

    /// RPUSH: gives the element to the client if it waits.
    fn push(&self) {
        let queue = self.queue.lock().unwrap();
        if queue.iter().any(|waiter| waiter.is_waiting() && self.client.claim(waiter.as_ref())) {
            *self.served.lock().unwrap() += 1;
        }
    }
}

#[test]
fn a_client_that_another_thread_has_closed_is_not_served() {
    holds_unless(Fault::ClosedClientWaits, SCHEDULES, || {
        let store = Arc::new(Store::new());
        let waiting = thread::spawn({
            let store = Arc::clone(&store);
            move || {
                store.wait();
                store.client.show_wait();
            }
        });
        store.registry.disconnect(&store.client);
        store.push();
        waiting.join().unwrap();
        assert_eq!(*store.served.lock().unwrap(), 0, "an element went to a closed client");
        assert!(store.queue.lock().unwrap().iter().all(|waiter| !waiter.is_waiting()));
        assert!(!store.client.has(client_flags::BLOCKED), "a closed client is shown as waiting");
    });
}

/// The loop that owns a client breaks it off, an eviction closes it and a push serves it at the
/// same time: whoever comes first wins, and the element is given at most once.
#[test]
fn a_wait_ends_once_however_many_threads_end_it() {
    holds_unless(Fault::ClaimInTwoSteps, SCHEDULES, || {
        let store = Arc::new(Store::new());
        store.wait();
        let ends = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (store, ends) = (Arc::clone(&store), Arc::clone(&ends));
                thread::spawn(move || match number {
                    0 => store.push(),
                    1 => {
                        let ended = store.client.end_wait();
                        *ends.lock().unwrap() += u32::from(ended);
                    }
                    _ => {
                        let ended = store.client.unblock().is_some();
                        *ends.lock().unwrap() += u32::from(ended);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*store.served.lock().unwrap() + *ends.lock().unwrap(), 1);
    });
}
