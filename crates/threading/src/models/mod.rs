// SPDX-License-Identifier: BSD-3-Clause
//! The threading models: which thread does which of the three steps for which client.
//!
//! All of them are the same event loop ([`crate::event_loop`]) and the same steps ([`crate::steps`]) over the same engine. A model
//! fills in the few places where they differ ([`Model`]), at compile time, so that none of them pays for another. Clients are moved between
//! threads, never shared: whoever holds the box may touch the client.

mod fanout;
mod global_lock;
mod handoff;
mod hybrid;
mod parallel;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use braid_clients::Message;
use braid_config::ThreadingModel;
use braid_engine::Engine;
use braid_net::affinity;
use braid_net::poller::Poller;

use crate::accept::{Listeners, LoopLoads};
use crate::batch::Request;
use crate::event_loop::EventLoop;
use crate::pool::{Pool, Starter};
use crate::steps::Run;
use crate::travel::guests::Guests;
use crate::travel::home::Home;
use crate::travel::{MAIN, Roads, ToMain};

/// What a model does in its own way. What is written here is what a thread does that serves its clients all by itself.
pub trait Model: Sized {
    /// Some requests are executed by another thread: [`Model::sends_away`] is asked about each.
    const SENDS_AWAY: bool = false;

    /// Clients are with another thread now and then.
    const CLIENTS_TRAVEL: bool = false;

    /// The loop sends its clients' replies itself, and holds them back while the disk has to come before (`crate::settle`). Otherwise it waits.
    const HOLDS_REPLIES: bool = false;

    /// There may be something to read from a client.
    #[inline]
    fn read(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.read_here(place);
    }

    /// A client has sent requests before that are not executed yet.
    #[inline]
    fn resume(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.resume_here(place);
    }

    /// Executes what has been read, and sends the replies.
    #[inline]
    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        event_loop.execute();
        event_loop.write_replies();
    }

    /// A batch is about to be executed. The thread is outside of the gate.
    #[inline]
    fn before_execution(_event_loop: &mut EventLoop<Self>) {}

    /// A batch has been executed. The thread is outside of the gate.
    #[inline]
    fn after_execution(_event_loop: &mut EventLoop<Self>) {}

    /// Whether a request is executed elsewhere; if so, its client has been told to leave (`Keep::Elsewhere`).
    #[inline]
    fn sends_away(_event_loop: &mut EventLoop<Self>, _run: &Run, _request: &Request) -> bool {
        false
    }

    /// A script of this thread has stopped the world for long, and the loop is about to take a turn meanwhile.
    fn script_takes_long(_event_loop: &mut EventLoop<Self>) {}

    /// A request that ran scripts has been executed. The thread is inside of the gate, unless `outside` is set.
    #[inline]
    fn script_has_ended(_event_loop: &mut EventLoop<Self>) {}

    /// The bell has been rung: there may be more than mail.
    #[inline]
    fn take_arrivals(_event_loop: &mut EventLoop<Self>) {}

    /// Clients have come that could not be taken in this turn.
    #[inline]
    fn has_arrivals(_event_loop: &EventLoop<Self>) -> bool {
        false
    }

    /// The number of threads has changed.
    fn follow_thread_count(_event_loop: &mut EventLoop<Self>) {}

    /// Keeps a message for a client that is away until it is back. Returns it if the client is here.
    #[inline]
    fn defer(_event_loop: &mut EventLoop<Self>, _id: u64, message: Message) -> Option<Message> {
        Some(message)
    }
}

/// Starts the threads of the configured model; the first one accepts connections.
pub fn start(engine: &Arc<Engine>, listeners: &Arc<Listeners>) -> io::Result<Arc<Pool>> {
    let model = engine.config.threading_model();
    let serving = match model {
        ThreadingModel::Parallel | ThreadingModel::GlobalLock | ThreadingModel::Hybrid => {
            |threads| 0..threads
        }
        ThreadingModel::Handoff => handoff::serving,
        ThreadingModel::Fanout => fanout::serving,
    };
    let loads = Arc::new(LoopLoads::new(engine.thread_count(), serving));
    let (engine, listeners) = (Arc::clone(engine), Arc::clone(listeners));
    let starting = Starting { engine: Arc::clone(&engine), listeners, loads: Arc::clone(&loads) };
    let starter = match model {
        ThreadingModel::Parallel => parallel::starter(starting),
        ThreadingModel::GlobalLock => global_lock::starter(starting),
        ThreadingModel::Handoff => handoff::starter(starting),
        ThreadingModel::Hybrid => hybrid::starter(starting),
        ThreadingModel::Fanout => fanout::starter(starting),
    };
    Pool::new(&engine, loads, starter)
}

/// What the threads of all models are started with.
struct Starting {
    engine: Arc<Engine>,
    listeners: Arc<Listeners>,
    loads: Arc<LoopLoads>,
}

impl Starting {
    /// Starts the loop of a thread. Its model is made on the thread itself.
    fn event_loop<M: Model>(
        &self,
        slot: usize,
        model: impl FnOnce() -> M + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (engine, listeners) = (Arc::clone(&self.engine), Arc::clone(&self.listeners));
        let (loads, version) = (Arc::clone(&self.loads), self.loads.version());
        // Here, where it is not too late to do without the thread.
        let epoll = Poller::open()?;
        self.thread(slot, move || {
            match EventLoop::new(Arc::clone(&engine), slot, epoll, (loads, version), listeners, model()) {
                Ok(event_loop) => event_loop.run(),
                Err(error) => {
                    log::error!("Cannot start I/O thread {slot}: {error}");
                    engine.request_shutdown();
                }
            }
        })
    }

    /// Starts threads of which the main one executes, to which clients travel on this road, and the other ones have the clients.
    fn travelling<Q: ToMain + 'static, M: Model + 'static>(
        self,
        to_main: Q,
        io: fn(Home<Q>) -> M,
    ) -> Starter {
        let roads = Roads::new(self.engine.thread_count(), to_main);
        Box::new(move |slot| {
            roads.make_room(slot + 1);
            let roads = Arc::clone(&roads);
            match slot {
                MAIN => self.event_loop(slot, || Guests::new(roads)),
                _ => self.event_loop(slot, move || io(Home::new(roads))),
            }
        })
    }

    /// Starts a thread that owns a slot of the engine.
    fn thread(&self, slot: usize, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let engine = Arc::clone(&self.engine);
        std::thread::Builder::new().name(format!("io_thd_{slot}")).spawn(move || {
            let _guard = AbortOnPanic;
            braid_base::alloc::register_thread(slot + 1);
            bind(&engine, slot);
            let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            engine.threads[slot].task.store(task, std::sync::atomic::Ordering::Relaxed);
            drop(engine);
            body();
        })
    }
}

/// Ends the process when a loop ends by a panic: its clients would hang, and what it had locked stays locked.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!("An I/O thread ended by a panic");
            std::process::abort();
        }
    }
}

/// Binds the calling thread as `server_cpulist` or `server-thread-affinity` say.
fn bind(engine: &Engine, slot: usize) {
    let list = engine.config.server_cpulist();
    let processors = if !list.is_empty() {
        match affinity::parse_list(&list) {
            Some(processors) if !processors.is_empty() => processors,
            _ => {
                log::warn!("server_cpulist '{list}' is not a list of processors; threads are not bound");
                return;
            }
        }
    } else if engine.config.server_thread_affinity() {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        vec![slot % count]
    } else {
        return;
    };
    if !affinity::bind_thread(&processors) {
        log::warn!("Cannot bind I/O thread {slot} to processors {processors:?}");
    }
}
