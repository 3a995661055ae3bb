// SPDX-License-Identifier: BSD-3-Clause
//! Helper threads that do one kind of work for the main thread at a time, while it waits at a barrier: receiving and parsing, or sending.
//!
//! The main thread deals clients out to the helpers' lists ([`Crew::deal`]), starts them, does its own share, and waits until all are done
//! ([`Crew::wait`]). A helper's list is behind a lock that is never contended: whose turn it is says a word beside it, which the main thread sets
//! to [`WORKING`] and the helper back to [`IDLE`]. Whoever waits looks at the word for a moment and then parks; the other one unparks it after
//! setting the word, and a thread that is unparked before it parks does not sleep, so no wake-up is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Thread;

use braid_base::clock::Ticks;
use braid_engine::Engine;
use braid_telemetry::stats::ThreadStats;
use parking_lot::Mutex;

use crate::client::Client;
use crate::steps::{self, Settings, Station};
use crate::travel::Trip;

const IDLE: u32 = 0;
const WORKING: u32 = 1;
const ENDING: u32 = 2;

/// Looks at the word before a thread parks: some microseconds.
const SPINS: u32 = 400;

/// What a helper does with its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Receive, and parse into the client's [`crate::travel::Trip`].
    Read,
    /// Send replies.
    Write,
}

/// A client in a helper's list.
pub struct Lent {
    /// Its place in the main thread's station.
    place: u32,
    client: Box<Client>,
    /// The lists of the main thread's station that it is on.
    in_write_list: bool,
    in_resume_list: bool,
    lingers: bool,
}

impl Lent {
    /// Takes a client out of the main thread's station, to have it carry its requests in `trip`. Nothing if it is not there.
    pub fn take(station: &mut Station, place: u32, trip: Option<Box<Trip>>) -> Option<Lent> {
        let mut client = station.clients.lend(place)?;
        client.trip = trip;
        let (in_write_list, in_resume_list) = (client.in_write_list, client.in_resume_list);
        Some(Lent { place, in_write_list, in_resume_list, lingers: client.lingers, client })
    }

    /// Gives it back, and puts it on the lists that the helper would have put it on. Returns its place.
    pub fn give_back(self, station: &mut Station) -> u32 {
        let Lent { place, mut client, .. } = self;
        if client.is_finished() {
            station.to_drop.push(place);
        }
        if client.in_write_list && !self.in_write_list {
            station.to_write.push(place);
        }
        if client.in_resume_list && !self.in_resume_list {
            station.to_resume.push(place);
        }
        if client.lingers && !self.lingers {
            station.lingering.push(place);
        }
        if let Some(mut trip) = client.trip.take() {
            station.batch.append(&mut trip.batch, place);
            station.keep_trip(trip);
        }
        station.clients.give_back(place, client);
        place
    }
}

/// What the main thread and a helper share.
pub struct Desk {
    state: AtomicU32,
    work: Mutex<Work>,
}

struct Work {
    task: Task,
    clients: Vec<Lent>,
    settings: Settings,
    /// To be unparked when the work is done.
    main: Thread,
}

impl Desk {
    /// A desk without work. Called by the main thread, or before it runs: whoever deals says who it is.
    pub fn new(settings: Settings) -> Arc<Desk> {
        let work = Work { task: Task::Read, clients: Vec::new(), settings, main: std::thread::current() };
        Arc::new(Desk { state: AtomicU32::new(IDLE), work: Mutex::new(work) })
    }

    /// Waits while the word is `state`; what it is then.
    fn wait_while(&self, state: u32) -> u32 {
        let mut looks = 0;
        loop {
            let now = self.state.load(Ordering::Acquire);
            if now != state {
                return now;
            }
            if looks < SPINS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

/// One helper, for the main thread.
struct Helper {
    desk: Arc<Desk>,
    thread: Thread,
    /// Being dealt, or taken back.
    clients: Vec<Lent>,
}

impl Helper {
    fn end(&self) {
        end(&self.desk, &self.thread);
    }
}

/// Ends the thread of a helper that is not at work.
pub fn end(desk: &Desk, thread: &Thread) {
    desk.state.store(ENDING, Ordering::Release);
    thread.unpark();
}

/// The helpers, for the main thread.
#[derive(Default)]
pub struct Crew(Vec<Helper>);

impl Crew {
    /// Takes in the helper that sits at this desk. Nobody may be at work.
    pub fn add(&mut self, desk: Arc<Desk>, thread: Thread) {
        self.0.push(Helper { desk, thread, clients: Vec::new() });
    }

    /// Keeps the first so many helpers; the threads of the others end. Nobody may be at work.
    pub fn keep(&mut self, count: usize) {
        for helper in self.0.drain(count.min(self.0.len())..) {
            helper.end();
        }
    }

    /// Number of helpers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Puts a client into a helper's list.
    pub fn deal(&mut self, helper: usize, lent: Lent) {
        self.0[helper].clients.push(lent);
    }

    /// Has the helpers begin with what they have been dealt.
    pub fn start(&mut self, task: Task, settings: Settings) {
        for helper in self.0.iter_mut().filter(|helper| !helper.clients.is_empty()) {
            let mut work = helper.desk.work.lock();
            std::mem::swap(&mut work.clients, &mut helper.clients);
            (work.task, work.settings, work.main) = (task, settings, std::thread::current());
            drop(work);
            helper.desk.state.store(WORKING, Ordering::Release);
            helper.thread.unpark();
        }
    }

    /// Waits until all helpers are done.
    pub fn wait(&mut self) {
        for helper in &mut self.0 {
            if helper.desk.state.load(Ordering::Acquire) == WORKING {
                helper.desk.wait_while(WORKING);
            }
            std::mem::swap(&mut helper.desk.work.lock().clients, &mut helper.clients);
        }
    }

    /// Takes a client back from a helper's list.
    pub fn take_back(&mut self) -> Option<Lent> {
        self.0.iter_mut().find_map(|helper| helper.clients.pop())
    }
}

/// The helpers' threads end with the crew.
impl Drop for Crew {
    fn drop(&mut self) {
        self.0.iter().for_each(Helper::end);
    }
}

/// A helper's thread: works until the crew ends.
pub fn help(engine: &Engine, slot: usize, desk: &Desk) {
    let settings = desk.work.lock().settings;
    let mut station = Station::new(settings, std::sync::Arc::clone(&engine.client_bytes));
    let stats = &engine.threads[slot];
    let mut todo = Vec::new();
    while desk.wait_while(IDLE) == WORKING {
        let start = Ticks::now();
        let mut work = desk.work.lock();
        station.follow(work.settings);
        let task = work.task;
        std::mem::swap(&mut todo, &mut work.clients);
        work.clients.extend(todo.drain(..).filter_map(|mut lent| match task {
            Task::Read => read(engine, stats, &mut station, lent),
            Task::Write => {
                steps::send(&mut lent.client, stats);
                Some(lent)
            }
        }));
        station.forget_lists();
        let main = work.main.clone();
        drop(work);
        // What is sent to all loops is for those that poll; a helper has nothing to do with it.
        while engine.mailboxes[slot].take().is_some() {}
        stats.cycles.add(1);
        stats.cycle_nanos.add(Ticks::now().nanos_since(start));
        // The end may have been announced meanwhile: that must not be undone.
        let _ = desk.state.compare_exchange(WORKING, IDLE, Ordering::Release, Ordering::Relaxed);
        main.unpark();
    }
}

/// Receives from a client and packs what can be parsed. For that moment it is among the clients of the helper's station.
fn read(engine: &Engine, stats: &ThreadStats, station: &mut Station, lent: Lent) -> Option<Lent> {
    let place = station.clients.add(lent.client);
    let received = station.read(engine, place);
    stats.count_received(received);
    if !station.batch.is_empty() {
        station.pack(place);
    }
    station.clients.remove(place).map(|client| Lent { client, ..lent })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use braid_clients::{Address, ClientRecord};
    use braid_config::Config;
    use braid_engine::Session;
    use braid_engine::engine::Start;
    use braid_net::stream::Stream;

    use super::*;
    use crate::event_loop::settings;

    #[test]
    fn every_client_comes_back_from_every_round_with_what_it_has_sent() {
        const CLIENTS: usize = 7;
        const HELPERS: usize = 2;
        let config = Config::new();
        config.load_text("io-threads 3\nshards 16\n").expect("valid settings");
        let engine =
            Engine::new(Arc::new(config), braid_commands::table(), Start::default()).expect("an engine");
        let mut station = Station::new(settings(&engine), Arc::clone(&engine.client_bytes));
        let mut peers: Vec<UnixStream> = (0..CLIENTS)
            .map(|id| {
                let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
                ours.set_nonblocking(true).expect("a socket that does not block");
                let record = ClientRecord::new(id as u64, 0, Address::Unknown, Address::Unknown, 0);
                let stream = Stream::new(OwnedFd::from(ours), None);
                let session = Session::new(Arc::new(record), &engine);
                assert_eq!(station.clients.add(Box::new(Client::new(stream, session))), id as u32);
                theirs
            })
            .collect();
        std::thread::scope(|scope| {
            // Dropped at the end of the scope, which ends the helpers.
            let mut crew = Crew::default();
            let mut ending = None;
            let mut random = fastrand::Rng::with_seed(1);
            for round in 0..3000 {
                if round % 100 == 0 {
                    // One helper, two, one...
                    if crew.len() == HELPERS {
                        crew.keep(1);
                    }
                    let slot = crew.len() + 1;
                    let before: Option<std::thread::ScopedJoinHandle<'_, ()>> = ending.take();
                    before.into_iter().for_each(|thread| thread.join().expect("it has ended"));
                    let desk = Desk::new(settings(&engine));
                    let (engine, at) = (&engine, Arc::clone(&desk));
                    let thread = scope.spawn(move || help(engine, slot, &at));
                    crew.add(desk, thread.thread().clone());
                    if slot == HELPERS {
                        ending = Some(thread);
                    }
                }
                let places: Vec<u32> = (0..CLIENTS as u32).filter(|_| random.bool()).collect();
                for &place in &places {
                    peers[place as usize].write_all(b"PING\r\n").expect("sent");
                    let trip = Some(station.spare_trip());
                    let lent = Lent::take(&mut station, place, trip).expect("the client is here");
                    crew.deal(random.usize(0..crew.len()), lent);
                }
                if random.u8(0..20) == 0 {
                    // Long enough for the helpers to fall asleep.
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                crew.start(Task::Read, station.settings);
                crew.wait();
                while let Some(lent) = crew.take_back() {
                    lent.give_back(&mut station);
                }
                let mut read: Vec<u32> =
                    station.batch.requests.iter().map(|request| request.client).collect();
                read.sort_unstable();
                assert_eq!(read, places, "round {round}");
                if let Some(run) = station.begin() {
                    station.end(&engine, run, 0);
                }
            }
        });
    }
}
