// SPDX-License-Identifier: BSD-3-Clause
//! The `fanout` model, as in Redis 6: the main thread polls all clients and executes; the other
//! threads, its helpers, only receive and parse (`io-threads-do-reads yes`), and send.
//!
//! A turn of the main thread has phases separated by barriers. Readable clients are dealt out to
//! all threads, including the main thread, and all wait for the slowest; the main thread executes
//! everything; clients with replies are dealt out likewise. No phase overlaps another, which is
//! the price of this design. With fewer than two clients per thread, the main thread does the
//! work alone and the helpers sleep.

mod helper_pool;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Thread;

use braid_base::clock::Ticks;
use parking_lot::Mutex;

use super::{Row, Starting};
use crate::client_set::{ClientSet, Settings};
use crate::event_loop::{EventLoop, Model};
use crate::models::migration::MAIN;
use crate::pool::Starter;
use helper_pool::{DealtClient, HelperLink, HelperPool, Task};

/// The main thread and its helpers. Only the main thread has clients.
pub(super) const ROW: Row = Row { serving: |_| MAIN..MAIN + 1, rests_threads: true, ..Row::new(starter) };

/// Clients per thread below which the helpers are not used.
const CLIENTS_PER_THREAD: usize = 2;

/// A started helper that has not joined the pool yet.
struct NewHelper {
    link: Arc<HelperLink>,
    thread: Thread,
    /// Version of the loop loads when the helper was started: the next version counts it.
    version: u64,
}

/// Helpers that the main thread has not seen yet.
#[derive(Default)]
struct NewHelpers {
    /// In slot order.
    waiting: Vec<NewHelper>,
    /// The main thread has ended and takes no more helpers.
    is_closed: bool,
}

struct Fanout {
    helpers: RefCell<HelperPool>,
    new: Arc<Mutex<NewHelpers>>,
    /// Clients to read from in this turn.
    to_read: RefCell<Vec<u32>>,
    /// The main thread's own share of a phase.
    share: RefCell<Vec<u32>>,
}

impl Drop for Fanout {
    fn drop(&mut self) {
        let mut new = self.new.lock();
        new.is_closed = true;
        new.waiting.iter().for_each(|helper| helper_pool::end(&helper.link, &helper.thread));
    }
}

impl Model for Fanout {
    fn read(&self, _event_loop: &mut EventLoop, place: u32) {
        self.to_read.borrow_mut().push(place);
    }

    fn execute_and_write(&self, event_loop: &mut EventLoop) {
        self.read_all(event_loop);
        event_loop.execute();
        self.write_all(event_loop);
    }

    fn follow_thread_count(&self, event_loop: &mut EventLoop) {
        let EventLoop { loads, loads_version, .. } = event_loop;
        let count = loads.threads() - 1;
        let mut helpers = self.helpers.borrow_mut();
        helpers.keep(count);
        self.new.lock().waiting.retain(|new| {
            if helpers.len() < count {
                helpers.add(Arc::clone(&new.link), new.thread.clone());
                return false;
            }
            // Either the count does not include this helper yet, or it did and has shrunk again.
            let is_early = new.version >= *loads_version;
            if !is_early {
                helper_pool::end(&new.link, &new.thread);
            }
            is_early
        });
    }
}

impl Fanout {
    /// The first phase: receives from all readable clients.
    fn read_all(&self, event_loop: &mut EventLoop) {
        if self.to_read.borrow().is_empty() {
            return;
        }
        let mut places = self.to_read.take();
        if !event_loop.engine.config.io_threads_do_reads() || self.is_little(places.len()) {
            for place in places.drain(..) {
                event_loop.read_here(place);
            }
        } else {
            self.deal(&mut event_loop.clients, &mut places, Task::Read);
            for place in self.share.take() {
                // If there is no room now, the poller reports the client again.
                if !event_loop.clients.is_full() {
                    let received = event_loop.clients.read(&event_loop.engine, place);
                    event_loop.count_received(received);
                }
            }
            self.wait(event_loop);
            while let Some(dealt) = self.take_back() {
                dealt.give_back(&mut event_loop.clients);
            }
        }
        // Reuse the memory in the next turn, unless that turn has begun further up the stack.
        let mut to_read = self.to_read.borrow_mut();
        if to_read.is_empty() {
            *to_read = places;
        }
    }

    /// The last phase: sends the replies.
    fn write_all(&self, event_loop: &mut EventLoop) {
        event_loop.deliver();
        event_loop.ensure_durable();
        let count = event_loop.clients.to_write.len();
        if count == 0 {
            return;
        }
        event_loop.feed_replicas_before_replies();
        let is_little = self.is_little(count);
        event_loop.engine.telemetry.io_threads_active.store(!is_little, Relaxed);
        if is_little {
            event_loop.write_replies();
            return;
        }
        let mut places = std::mem::take(&mut event_loop.clients.to_write);
        self.deal(&mut event_loop.clients, &mut places, Task::Write);
        event_loop.clients.to_write = self.share.take();
        event_loop.write_replies();
        self.wait(event_loop);
        let now = event_loop.worker.now_ms();
        while let Some(dealt) = self.take_back() {
            let place = dealt.give_back(&mut event_loop.clients);
            if let Some(client) = event_loop.clients.slab.get(place) {
                client.listed.to_write = false;
            }
            event_loop.clients.written(place);
            event_loop.update_interest(place, now);
        }
    }

    /// True if there are too few clients to be worth waking a helper.
    fn is_little(&self, clients: usize) -> bool {
        let helpers = self.helpers.borrow().len();
        helpers == 0 || clients < CLIENTS_PER_THREAD * (helpers + 1)
    }

    /// Deals clients out to all threads and starts the helpers. Leaves the main thread's share in
    /// `share`.
    fn deal(&self, clients: &mut ClientSet, places: &mut Vec<u32>, task: Task) {
        let (mut helpers, mut share) = (self.helpers.borrow_mut(), self.share.borrow_mut());
        let threads = helpers.len() + 1;
        for (number, place) in places.drain(..).enumerate() {
            match number % threads {
                MAIN => share.push(place),
                helper => {
                    let input = (task == Task::Read).then(|| clients.take_spare_input());
                    if let Some(dealt) = DealtClient::take(clients, place, input) {
                        helpers.deal(helper - 1, dealt);
                    }
                }
            }
        }
        helpers.start(task, clients.settings);
    }

    /// Waits for the helpers.
    fn wait(&self, event_loop: &mut EventLoop) {
        let start = Ticks::now();
        self.helpers.borrow_mut().wait();
        event_loop.note_wait(Ticks::now().nanos_since(start));
    }

    /// Takes back a client that a helper is done with.
    fn take_back(&self) -> Option<DealtClient> {
        self.helpers.borrow_mut().take_back()
    }
}

fn starter(starting: Starting) -> Starter {
    let new = Arc::<Mutex<NewHelpers>>::default();
    Box::new(move |slot| {
        if slot == MAIN {
            let new = Arc::clone(&new);
            let fanout = || Fanout {
                helpers: RefCell::default(),
                new,
                to_read: RefCell::default(),
                share: RefCell::default(),
            };
            return starting.event_loop(MAIN, fanout);
        }
        let link = HelperLink::new(Settings::of(&starting.engine));
        let (engine, at) = (Arc::clone(&starting.engine), Arc::clone(&link));
        let version = starting.loads.version();
        let handle = starting.thread(slot, move || helper_pool::help(&engine, slot, &at))?;
        let thread = handle.thread().clone();
        let mut new = new.lock();
        if new.is_closed {
            helper_pool::end(&link, &thread);
        } else {
            new.waiting.push(NewHelper { link, thread, version });
        }
        drop(new);
        Ok(handle)
    })
}
