// SPDX-License-Identifier: BSD-3-Clause
//! The pool of the server's threads, whose number may change at run time (`CONFIG SET
//! io-threads`).
//!
//! The thread that runs CONFIG SET is inside the gate and must not wait for loops: it only
//! allocates the parts that can fail for lack of descriptors and records the wanted number of
//! threads. A temporary thread does the rest, one step at a time:
//!
//! - *Growing*: the other threads learn that the new slot is in use
//!   ([`Engine::set_thread_count`], with the world stopped for a moment), the thread starts, and
//!   then it is given clients ([`LoopLoads::set_threads`]).
//! - *Shrinking*: surplus threads get no more clients and hand theirs over to the others
//!   (`event_loop/handover.rs`); once they have ended, their slots are free.
//!
//! The first thread always stays: it accepts connections and keeps time for all threads.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use braid_base::plural::plural;
use braid_clients::Message;
use braid_executor::Engine;
use parking_lot::{Condvar, Mutex};

use crate::loop_loads::LoopLoads;

/// Starts the thread of a slot; there must be room for it.
pub type Starter = Box<dyn Fn(usize) -> io::Result<JoinHandle<()>> + Send + Sync>;

/// All threads that serve clients.
pub struct Pool {
    engine: Arc<Engine>,
    loads: Arc<LoopLoads>,
    start: Starter,
    state: Mutex<State>,
    /// Signalled when threads have been started or have ended.
    changed: Condvar,
}

struct State {
    /// By slot. [`Pool::join`] takes out the first one.
    threads: Vec<Option<JoinHandle<()>>>,
    wanted: usize,
    /// A thread is making the change.
    is_changing: bool,
    /// The server is shutting down.
    is_ending: bool,
}

impl Pool {
    /// Starts as many threads as the engine has slots for. From then on, their number follows the
    /// configuration.
    pub(crate) fn new(engine: &Arc<Engine>, loads: Arc<LoopLoads>, start: Starter) -> io::Result<Arc<Pool>> {
        let count = engine.clients.mailboxes.thread_count();
        let others: Vec<_> = (1..count).map(&start).collect::<io::Result<_>>()?;
        let threads = std::iter::once(None).chain(others.into_iter().map(Some)).collect();
        // A change requested while the first thread starts is only recorded.
        let state = State { threads, wanted: count, is_changing: true, is_ending: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let pool = Arc::new(Pool { engine: Arc::clone(engine), loads, start, state, changed });
        let weak = Arc::downgrade(&pool);
        engine.config.on_change(&["io-threads"], move |config| match weak.upgrade() {
            Some(pool) => pool.resize(config.io_threads()),
            None => Ok(()),
        });
        // The first thread starts last: it accepts connections, and a client may request more
        // threads at once.
        let first = (pool.start)(0)?;
        pool.state.lock().threads[0] = Some(first);
        pool.loads.set_threads(count);
        pool.change();
        Ok(pool)
    }

    /// Waits until the server is told to shut down and all threads have ended.
    ///
    /// # Errors
    /// If a thread has panicked.
    pub fn join(&self) -> Result<(), &'static str> {
        let mut all = Ok(());
        let mut join = |thread: Option<JoinHandle<()>>| {
            if thread.is_some_and(|thread| thread.join().is_err()) {
                all = Err("an I/O thread panicked");
            }
        };
        let first = self.state.lock().threads[0].take();
        join(first);
        let mut state = self.state.lock();
        state.is_ending = true;
        while state.is_changing {
            self.changed.wait(&mut state);
        }
        let others = std::mem::take(&mut state.threads);
        drop(state);
        others.into_iter().for_each(join);
        all
    }

    /// Requests this number of threads.
    fn resize(self: &Arc<Pool>, count: usize) -> Result<(), String> {
        let room = self.engine.make_room_for_threads(count);
        room.map_err(|error| format!("Cannot start {count} threads: {error}"))?;
        self.loads.make_room(count);
        let mut state = self.state.lock();
        if !state.is_changing {
            let pool = Arc::clone(self);
            let thread = std::thread::Builder::new().name("io_resize".into());
            thread.spawn(move || pool.change()).map_err(|error| format!("Cannot start a thread: {error}"))?;
        }
        (state.wanted, state.is_changing) = (count, true);
        Ok(())
    }

    /// Starts and ends threads until the wanted number is reached.
    fn change(&self) {
        loop {
            let mut state = self.state.lock();
            let (present, wanted) = (state.threads.len(), state.wanted);
            if present == wanted || state.is_ending {
                state.is_changing = false;
                self.changed.notify_all();
                return;
            }
            if present > wanted {
                let surplus = state.threads.split_off(wanted);
                drop(state);
                self.end(surplus, wanted);
            } else {
                drop(state);
                match self.add(present) {
                    Ok(thread) => self.state.lock().threads.push(Some(thread)),
                    Err(error) => self.give_up(present, &error),
                }
            }
            if self.engine.shutdown.is_requested() {
                // Threads that have just been started may have missed the message.
                self.engine.clients.mailboxes.tell_all(|| Message::Stop);
            }
        }
    }

    /// Starts one more thread.
    fn add(&self, slot: usize) -> io::Result<JoinHandle<()>> {
        self.engine.set_thread_count(slot + 1);
        let thread = (self.start)(slot).inspect_err(|_| self.engine.set_thread_count(slot))?;
        self.loads.set_threads(slot + 1);
        self.wake_all();
        log::info!("The server now has {}", plural(slot as u64 + 1, "thread"));
        Ok(thread)
    }

    /// Ends surplus threads; `left` remain.
    fn end(&self, surplus: Vec<Option<JoinHandle<()>>>, left: usize) {
        self.loads.set_threads(left);
        self.wake_all();
        for thread in surplus.into_iter().flatten() {
            // A panic has already ended the process.
            let _ = thread.join();
        }
        self.engine.set_thread_count(left);
        log::info!("The server now has {}", plural(left as u64, "thread"));
    }

    /// Another thread could not be started: the present number becomes the wanted number.
    fn give_up(&self, count: usize, error: &io::Error) {
        log::warn!(
            "The server has only {}: cannot start another one: {error}",
            plural(count as u64, "thread")
        );
        self.state.lock().wanted = count;
        if let Err(error) = self.engine.config.assign("io-threads", &[&count.to_string()]) {
            log::warn!("{error}");
        }
    }

    /// Wakes all loops, so that they notice the changed number of threads.
    fn wake_all(&self) {
        self.engine
            .clients
            .mailboxes
            .iter()
            .take(self.engine.clients.mailboxes.thread_count())
            .for_each(|mailbox| mailbox.ring());
    }
}

#[cfg(test)]
mod tests {
    use braid_config::Config;
    use braid_executor::engine::Start;

    use super::*;

    #[test]
    fn a_change_that_is_asked_for_while_the_first_thread_starts_is_made() {
        let config = Arc::new(Config::new());
        config.load_text("io-threads 1\nshards 16\n").expect("valid settings");
        let engine = braid_node::start(Arc::clone(&config), braid_commands::rows(), Start::default());
        let engine = engine.expect("an engine");
        let loads = Arc::new(LoopLoads::new(1, |threads| 0..threads));
        let starter = Box::new(move |slot| {
            if slot == 0 {
                // As a client accepted at once may do.
                config.set(&[("io-threads", "3")]).expect("three threads are allowed");
            }
            Ok(std::thread::spawn(|| ()))
        });
        let pool = Pool::new(&engine, loads, starter).expect("threads");
        assert_eq!((engine.clients.mailboxes.thread_count(), pool.state.lock().threads.len()), (3, 3));
        pool.join().expect("no thread panicked");
    }
}
