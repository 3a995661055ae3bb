// SPDX-License-Identifier: BSD-3-Clause
//! Helper threads that do one kind of work at a time for the main thread, which waits for them at a
//! barrier: receiving and parsing, or sending.
//!
//! The main thread deals clients out to the helpers' lists ([`HelperPool::deal`]), starts the
//! helpers, does its own share, and waits until all are done ([`HelperPool::wait`]). A helper's
//! list is behind a lock that is never contended: an adjacent atomic says whose turn it is. The
//! main thread sets it to [`WORKING`], the helper back to [`IDLE`]. The waiting side spins
//! briefly and then parks; the other side unparks it after the change, and a thread that is
//! unparked before it parks does not sleep, so no wake-up is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Thread;

use braid_base::clock::Ticks;
use braid_executor::Engine;
use braid_telemetry::stats::ThreadStats;
use parking_lot::Mutex;

use crate::batch::ParsedInput;
use crate::client::Client;
use crate::client_set::{self, ClientSet, Settings};

const IDLE: u32 = 0;
const WORKING: u32 = 1;
const ENDING: u32 = 2;

/// Number of state checks before a thread parks: some microseconds.
const SPINS: u32 = 400;

/// The task of the helpers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Receive, and parse into the client's [`ParsedInput`].
    Read,
    /// Send replies.
    Write,
}

/// A client in a helper's list.
pub struct DealtClient {
    /// Its place in the main thread's client set.
    place: u32,
    client: Box<Client>,
    /// Whether the client is on these lists of the main thread's client set.
    in_write_list: bool,
    in_resume_list: bool,
    is_tracked: bool,
}

impl DealtClient {
    /// Takes a client out of the main thread's client set, to carry its requests in
    /// `parsed_input`. None if the client is not there.
    pub fn take(
        clients: &mut ClientSet,
        place: u32,
        parsed_input: Option<Box<ParsedInput>>,
    ) -> Option<DealtClient> {
        let mut client = clients.slab.take_out(place)?;
        client.input.parsed = parsed_input;
        let (in_write_list, in_resume_list) = (client.listed.to_write, client.listed.to_resume);
        Some(DealtClient { place, in_write_list, in_resume_list, is_tracked: client.listed.tracked, client })
    }

    /// Gives the client back, and puts it on the lists that it joined at the helper. Returns its
    /// place.
    pub fn give_back(self, clients: &mut ClientSet) -> u32 {
        let DealtClient { place, mut client, .. } = self;
        if client.is_finished() {
            clients.to_drop.push(place);
        }
        if client.listed.to_write && !self.in_write_list {
            clients.to_write.push(place);
        }
        if client.listed.to_resume && !self.in_resume_list {
            clients.to_resume.push(place);
        }
        if client.listed.tracked && !self.is_tracked {
            clients.tracked.push(place);
        }
        if let Some(mut parsed_input) = client.input.parsed.take() {
            clients.batch.append(&mut parsed_input.batch, place);
            clients.recycle_input(parsed_input);
        }
        clients.slab.put_back(place, client);
        place
    }
}

/// State shared by the main thread and one helper.
pub struct HelperLink {
    state: AtomicU32,
    work: Mutex<Work>,
}

struct Work {
    task: Task,
    clients: Vec<DealtClient>,
    settings: Settings,
    /// Unparked when the work is done.
    main: Thread,
}

impl HelperLink {
    /// A link without work. Called by the main thread or before it runs: each start of work names
    /// the thread to unpark.
    pub fn new(settings: Settings) -> Arc<HelperLink> {
        let work = Work { task: Task::Read, clients: Vec::new(), settings, main: std::thread::current() };
        Arc::new(HelperLink { state: AtomicU32::new(IDLE), work: Mutex::new(work) })
    }

    /// Waits while the state is `state`. Returns the next state.
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

/// One helper, as seen by the main thread.
struct PoolThread {
    link: Arc<HelperLink>,
    thread: Thread,
    /// Clients being dealt out or taken back.
    clients: Vec<DealtClient>,
}

impl PoolThread {
    fn end(&self) {
        end(&self.link, &self.thread);
    }
}

/// Ends the thread of an idle helper.
pub fn end(link: &HelperLink, thread: &Thread) {
    link.state.store(ENDING, Ordering::Release);
    thread.unpark();
}

/// The helpers of the main thread.
#[derive(Default)]
pub struct HelperPool(Vec<PoolThread>);

impl HelperPool {
    /// Adds a helper. No helper may be working.
    pub fn add(&mut self, link: Arc<HelperLink>, thread: Thread) {
        self.0.push(PoolThread { link, thread, clients: Vec::new() });
    }

    /// Keeps the first `count` helpers and ends the threads of the others. No helper may be
    /// working.
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
    pub fn deal(&mut self, helper: usize, dealt: DealtClient) {
        self.0[helper].clients.push(dealt);
    }

    /// Starts the helpers on the clients dealt to them.
    pub fn start(&mut self, task: Task, settings: Settings) {
        for helper in self.0.iter_mut().filter(|helper| !helper.clients.is_empty()) {
            let mut work = helper.link.work.lock();
            std::mem::swap(&mut work.clients, &mut helper.clients);
            (work.task, work.settings, work.main) = (task, settings, std::thread::current());
            drop(work);
            helper.link.state.store(WORKING, Ordering::Release);
            helper.thread.unpark();
        }
    }

    /// Waits until all helpers are done.
    pub fn wait(&mut self) {
        for helper in &mut self.0 {
            if helper.link.state.load(Ordering::Acquire) == WORKING {
                helper.link.wait_while(WORKING);
            }
            std::mem::swap(&mut helper.link.work.lock().clients, &mut helper.clients);
        }
    }

    /// Takes a client back from a helper's list.
    pub fn take_back(&mut self) -> Option<DealtClient> {
        self.0.iter_mut().find_map(|helper| helper.clients.pop())
    }
}

/// The helper threads end with the pool.
impl Drop for HelperPool {
    fn drop(&mut self) {
        self.0.iter().for_each(PoolThread::end);
    }
}

/// The body of a helper thread: works until the pool ends it.
pub fn help(engine: &Engine, slot: usize, link: &HelperLink) {
    let settings = link.work.lock().settings;
    let mut clients = ClientSet::new(settings, std::sync::Arc::clone(&engine.clients.bytes));
    let stats = &engine.telemetry.threads[slot];
    let mut todo = Vec::new();
    while link.wait_while(IDLE) == WORKING {
        let start = Ticks::now();
        let mut work = link.work.lock();
        clients.apply(work.settings);
        let task = work.task;
        std::mem::swap(&mut todo, &mut work.clients);
        work.clients.extend(todo.drain(..).filter_map(|mut dealt| match task {
            Task::Read => read(engine, stats, &mut clients, dealt),
            Task::Write => {
                client_set::send(&mut dealt.client, stats);
                Some(dealt)
            }
        }));
        clients.forget_lists();
        let main = work.main.clone();
        drop(work);
        // Messages to all loops are for threads that poll; a helper ignores them.
        while engine.clients.mailboxes[slot].take().is_some() {}
        stats.cycles.add(1);
        stats.cycle_nanos.add(Ticks::now().nanos_since(start));
        // The end may have been requested meanwhile and must not be overwritten.
        let _ = link.state.compare_exchange(WORKING, IDLE, Ordering::Release, Ordering::Relaxed);
        main.unpark();
    }
}

/// Receives from a client and packs its parsed requests. Meanwhile the client is in the helper's
/// client set.
fn read(
    engine: &Engine,
    stats: &ThreadStats,
    clients: &mut ClientSet,
    dealt: DealtClient,
) -> Option<DealtClient> {
    let place = clients.slab.add(dealt.client);
    let received = clients.read(engine, place);
    stats.count_received(received);
    if !clients.batch.is_empty() {
        clients.pack(place);
    }
    clients.slab.remove(place).map(|client| DealtClient { client, ..dealt })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use braid_clients::{Address, ClientRecord};
    use braid_config::Config;
    use braid_executor::Session;
    use braid_executor::engine::Start;
    use braid_net::stream::Stream;

    use super::*;

    #[test]
    fn every_round_returns_every_client_with_its_input() {
        const CLIENTS: usize = 7;
        const HELPERS: usize = 2;
        let config = Config::new();
        config.load_text("io-threads 3\nshards 16\n").expect("valid settings");
        let engine =
            braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine");
        let mut clients = ClientSet::new(Settings::of(&engine), Arc::clone(&engine.clients.bytes));
        let mut peers: Vec<UnixStream> = (0..CLIENTS)
            .map(|id| {
                let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
                ours.set_nonblocking(true).expect("a socket that does not block");
                let record = ClientRecord::new(id as u64, 0, Address::Unknown, Address::Unknown, 0);
                let stream = Stream::new(OwnedFd::from(ours), None);
                let session = Session::new(Arc::new(record), &engine.attention, &engine.acl);
                assert_eq!(clients.slab.add(Box::new(Client::new(stream, session))), id as u32);
                theirs
            })
            .collect();
        std::thread::scope(|scope| {
            // Dropped at the end of the scope, which ends the helpers.
            let mut helpers = HelperPool::default();
            let mut ending = None;
            let mut random = fastrand::Rng::with_seed(1);
            for round in 0..3000 {
                if round % 100 == 0 {
                    // One helper, two, one, and so on.
                    if helpers.len() == HELPERS {
                        helpers.keep(1);
                    }
                    let slot = helpers.len() + 1;
                    let before: Option<std::thread::ScopedJoinHandle<'_, ()>> = ending.take();
                    before.into_iter().for_each(|thread| thread.join().expect("no panic"));
                    let link = HelperLink::new(Settings::of(&engine));
                    let (engine, at) = (&engine, Arc::clone(&link));
                    let thread = scope.spawn(move || help(engine, slot, &at));
                    helpers.add(link, thread.thread().clone());
                    if slot == HELPERS {
                        ending = Some(thread);
                    }
                }
                let places: Vec<u32> = (0..CLIENTS as u32).filter(|_| random.bool()).collect();
                for &place in &places {
                    peers[place as usize].write_all(b"PING\r\n").expect("sent");
                    let parsed_input = Some(clients.take_spare_input());
                    let dealt =
                        DealtClient::take(&mut clients, place, parsed_input).expect("the client is here");
                    helpers.deal(random.usize(0..helpers.len()), dealt);
                }
                if random.u8(0..20) == 0 {
                    // Long enough for the helpers to fall asleep.
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                helpers.start(Task::Read, clients.settings);
                helpers.wait();
                while let Some(dealt) = helpers.take_back() {
                    dealt.give_back(&mut clients);
                }
                let mut read: Vec<u32> =
                    clients.batch.requests.iter().map(|request| request.client).collect();
                read.sort_unstable();
                assert_eq!(read, places, "round {round}");
                if let Some(run) = clients.begin() {
                    clients.end(&engine, run, 0);
                }
            }
        });
    }
}
