//! The `fanout` model, that of Redis 6: the main thread polls all clients and executes; the other threads only receive and parse
//! (`io-threads-do-reads yes`), and send.
//!
//! A turn of the main thread has phases with barriers between them: clients with something to read are dealt out in turn to all threads, the
//! main thread among them, which wait for the last one; the main thread executes everything; clients with replies are dealt out
//! likewise. No phase overlaps another, which is what this design pays. With fewer than two clients for each thread the main thread does the work
//! alone, and the helpers sleep.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{JoinHandle, Thread};

use braid_base::clock::Ticks;

use super::{Model, Starting};
use crate::accept::LoopLoads;
use crate::crew::{self, Crew, Desk, Lent, Task};
use crate::event_loop::{EventLoop, settings};
use crate::travel::MAIN;

/// Clients for each thread below which the helpers are left alone.
const CLIENTS_PER_THREAD: usize = 2;

struct Fanout {
    crew: Crew,
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
    clients < CLIENTS_PER_THREAD * (event_loop.model.crew.len() + 1)
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

/// Starts the main thread and its helpers.
pub(super) fn start(starting: &Starting<'_>) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::with_capacity(starting.count());
    let mut desks: Vec<(Arc<Desk>, Thread)> = Vec::new();
    for slot in MAIN + 1..starting.count() {
        let desk = Desk::new(settings(starting.engine));
        let (engine, at) = (Arc::clone(starting.engine), Arc::clone(&desk));
        let thread = starting.thread(slot, move || crew::help(&engine, slot, &at))?;
        desks.push((desk, thread.thread().clone()));
        threads.push(thread);
    }
    let crew = Crew::new(desks);
    // Only the main thread has a loop.
    let loads = Arc::new(LoopLoads::new(1, MAIN..MAIN + 1));
    let model = move || Fanout { crew, to_read: Vec::new(), share: Vec::new() };
    threads.push(starting.event_loop(MAIN, &loads, model)?);
    Ok(threads)
}
