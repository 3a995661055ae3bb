// SPDX-License-Identifier: BSD-3-Clause
//! The `fanout` model, that of Redis 6: the main thread polls all clients and executes; the other threads only receive and parse
//! (`io-threads-do-reads yes`), and send.
//!
//! A turn of the main thread has phases with barriers between them: clients with something to read are dealt out in turn to all threads, the
//! main thread among them, which wait for the last one; the main thread executes everything; clients with replies are dealt out
//! likewise. No phase overlaps another, which is what this design pays. With fewer than two clients for each thread the main thread does the work
//! alone, and the helpers sleep.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Thread;

use braid_base::clock::Ticks;
use parking_lot::Mutex;

use super::{Model, Starting};
use crate::event_loop::{EventLoop, settings};
use crate::models::migration::MAIN;
use crate::pool::Starter;

mod helper_pool;

use helper_pool::{self as crew, Crew, Desk, Lent, Task};

/// Clients for each thread below which the helpers are left alone.
const CLIENTS_PER_THREAD: usize = 2;

/// A helper that has been started and does not belong to the crew yet.
struct NewHelper {
    desk: Arc<Desk>,
    thread: Thread,
    /// That of the loads when it was started: it is counted from the next one on.
    version: u64,
}

/// Those that the main thread has not seen yet.
#[derive(Default)]
struct NewHelpers {
    /// In the order of their slots.
    waiting: Vec<NewHelper>,
    /// The main thread has ended: it will not see anybody any more.
    is_closed: bool,
}

impl Drop for Fanout {
    fn drop(&mut self) {
        let mut new = self.new.lock();
        new.is_closed = true;
        new.waiting.iter().for_each(|helper| crew::end(&helper.desk, &helper.thread));
    }
}

struct Fanout {
    crew: Crew,
    new: Arc<Mutex<NewHelpers>>,
    /// Clients that have sent something in this turn.
    to_read: Vec<u32>,
    /// What of a phase is the main thread's.
    share: Vec<u32>,
}

impl Model for Fanout {
    fn read(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.model.to_read.push(place);
    }

    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        read_all(event_loop);
        event_loop.execute();
        write_all(event_loop);
    }

    fn follow_thread_count(event_loop: &mut EventLoop<Self>) {
        let EventLoop { model, loads, loads_version, .. } = event_loop;
        let helpers = loads.threads() - 1;
        model.crew.keep(helpers);
        let Fanout { crew, new, .. } = model;
        new.lock().waiting.retain(|new| {
            if crew.len() < helpers {
                crew.add(Arc::clone(&new.desk), new.thread.clone());
                return false;
            }
            // It is not counted yet; or it was, and is too many again.
            let is_early = new.version >= *loads_version;
            if !is_early {
                crate::models::fanout::helper_pool::end(&new.desk, &new.thread);
            }
            is_early
        });
    }
}

/// The first phase: receives from all clients that have sent something.
fn read_all(event_loop: &mut EventLoop<Fanout>) {
    if event_loop.model.to_read.is_empty() {
        return;
    }
    let mut clients = std::mem::take(&mut event_loop.model.to_read);
    if !event_loop.engine.config.io_threads_do_reads() || is_little(event_loop, clients.len()) {
        for place in clients.drain(..) {
            event_loop.read_here(place);
        }
    } else {
        deal(event_loop, &mut clients, Task::Read);
        for place in std::mem::take(&mut event_loop.model.share) {
            // What finds no room any more is reported again.
            if !event_loop.station.is_full() {
                let received = event_loop.station.read(&event_loop.engine, place);
                event_loop.count_received(received);
            }
        }
        wait(event_loop);
        while let Some(lent) = event_loop.model.crew.take_back() {
            lent.give_back(&mut event_loop.station);
        }
    }
    // Room for the next turn, unless that has begun further up the stack.
    if event_loop.model.to_read.is_empty() {
        event_loop.model.to_read = clients;
    }
}

/// The last phase: sends the replies.
fn write_all(event_loop: &mut EventLoop<Fanout>) {
    event_loop.deliver();
    event_loop.settle_changes();
    let count = event_loop.station.to_write.len();
    if count == 0 {
        return;
    }
    let is_little = is_little(event_loop, count);
    event_loop.engine.io_threads_active.store(!is_little, Relaxed);
    if is_little {
        event_loop.write_replies();
        return;
    }
    let mut clients = std::mem::take(&mut event_loop.station.to_write);
    deal(event_loop, &mut clients, Task::Write);
    event_loop.station.to_write = std::mem::take(&mut event_loop.model.share);
    event_loop.write_replies();
    wait(event_loop);
    let now = event_loop.worker.now_ms();
    while let Some(lent) = event_loop.model.crew.take_back() {
        let place = lent.give_back(&mut event_loop.station);
        if let Some(client) = event_loop.station.clients.get(place) {
            client.in_write_list = false;
        }
        event_loop.station.written(place);
        event_loop.update_interest(place, now);
    }
}

/// True if so many clients are not worth waking anybody.
fn is_little(event_loop: &EventLoop<Fanout>, clients: usize) -> bool {
    let helpers = event_loop.model.crew.len();
    helpers == 0 || clients < CLIENTS_PER_THREAD * (helpers + 1)
}

/// Deals clients out to all threads, and starts the helpers. The main thread's share is left in `share`.
fn deal(event_loop: &mut EventLoop<Fanout>, clients: &mut Vec<u32>, task: Task) {
    let EventLoop { model, station, .. } = event_loop;
    let threads = model.crew.len() + 1;
    for (number, place) in clients.drain(..).enumerate() {
        match number % threads {
            MAIN => model.share.push(place),
            helper => {
                let trip = (task == Task::Read).then(|| station.spare_trip());
                if let Some(lent) = Lent::take(station, place, trip) {
                    model.crew.deal(helper - 1, lent);
                }
            }
        }
    }
    model.crew.start(task, station.settings);
}

/// Waits for the helpers.
fn wait(event_loop: &mut EventLoop<Fanout>) {
    let start = Ticks::now();
    event_loop.model.crew.wait();
    event_loop.waited(Ticks::now().nanos_since(start));
}

/// Only the main thread has clients.
pub(super) fn serving(_threads: usize) -> Range<usize> {
    MAIN..MAIN + 1
}

/// Starts the main thread and its helpers.
pub(super) fn starter(starting: Starting) -> Starter {
    let new = Arc::<Mutex<NewHelpers>>::default();
    Box::new(move |slot| {
        if slot == MAIN {
            let new = Arc::clone(&new);
            let fanout = || Fanout { crew: Crew::default(), new, to_read: Vec::new(), share: Vec::new() };
            return starting.event_loop(MAIN, fanout);
        }
        let desk = Desk::new(settings(&starting.engine));
        let (engine, at) = (Arc::clone(&starting.engine), Arc::clone(&desk));
        let version = starting.loads.version();
        let handle = starting.thread(slot, move || crew::help(&engine, slot, &at))?;
        let thread = handle.thread().clone();
        let mut new = new.lock();
        if new.is_closed {
            crew::end(&desk, &thread);
        } else {
            new.waiting.push(NewHelper { desk, thread, version });
        }
        drop(new);
        Ok(handle)
    })
}
