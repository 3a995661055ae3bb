// SPDX-License-Identifier: BSD-3-Clause
//! The threading models: which thread does which of the three steps for which client.
//!
//! All models are the same event loop ([`crate::event_loop`]) over the same engine. Each model
//! fills in the few places where models differ ([`crate::event_loop::Model`]) and declares here
//! how its threads are started ([`Row`]). Clients are moved between threads, never shared: only
//! the thread that holds a client's box may touch the client.
//!
//! A new model is a file in this folder and a line in `braid_config::threading_models!`.

pub mod migration;

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use braid_config::{Config, ThreadingModel};
use braid_executor::Engine;
use braid_net::affinity;
use braid_net::poller::Poller;

use crate::accept::Listeners;
use crate::event_loop::{EventLoop, Model};
use crate::loop_loads::LoopLoads;
use crate::pool::{Pool, Starter};

/// Declares each model's module and maps models to their rows.
macro_rules! models {
    ($($module:ident $variant:ident = $word:literal,)+) => {
        $(mod $module;)+

        /// The row of a model.
        fn row(model: ThreadingModel) -> Row {
            match model {
                $(ThreadingModel::$variant => $module::ROW,)+
            }
        }

        /// The models' files; rustfmt does not look into macros for modules.
        #[cfg(test)]
        const FILES: &[&str] = &[$(concat!(stringify!($module), ".rs")),+];
    };
}

braid_config::threading_models!(models);

/// Start-up description of a model. Each model has one, named `ROW`.
#[derive(Clone, Copy)]
struct Row {
    /// Makes the function that starts a thread.
    starter: fn(Starting) -> Starter,
    /// The loops that are given clients, by number of threads.
    serving: fn(usize) -> Range<usize>,
    /// Scripts may run concurrently with other commands, since every thread executes.
    scripts_run_beside: bool,
    /// Threads sleep under light load (`io_threads_active` of INFO).
    rests_threads: bool,
}

impl Row {
    /// A model in which every thread has clients and scripts run alone.
    const fn new(starter: fn(Starting) -> Starter) -> Row {
        Row { starter, serving: |threads| 0..threads, scripts_run_beside: false, rests_threads: false }
    }
}

/// Starts the threads of the configured model; the first thread accepts connections.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(engine: &Arc<Engine>, listeners: &Arc<Listeners>) -> io::Result<Arc<Pool>> {
    let row = row(engine.config.threading_model());
    engine.scripts.run_beside.store(row.scripts_run_beside, Relaxed);
    engine.telemetry.io_threads_active.store(!row.rests_threads, Relaxed);
    let loads = Arc::new(LoopLoads::new(engine.clients.mailboxes.thread_count(), row.serving));
    let (engine, listeners) = (Arc::clone(engine), Arc::clone(listeners));
    let starting = Starting { engine: Arc::clone(&engine), listeners, loads: Arc::clone(&loads) };
    Pool::new(&engine, loads, (row.starter)(starting))
}

/// Arguments common to the start of all threads.
struct Starting {
    engine: Arc<Engine>,
    listeners: Arc<Listeners>,
    loads: Arc<LoopLoads>,
}

impl Starting {
    /// Starts a thread with an event loop. Its model is created on the thread itself.
    fn event_loop<M: Model + 'static>(
        &self,
        slot: usize,
        model: impl FnOnce() -> M + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        self.start_loop(slot, Box::new(|| Rc::new(model())))
    }

    fn start_loop(
        &self,
        slot: usize,
        model: Box<dyn FnOnce() -> Rc<dyn Model> + Send>,
    ) -> io::Result<JoinHandle<()>> {
        let (engine, listeners) = (Arc::clone(&self.engine), Arc::clone(&self.listeners));
        let (loads, version) = (Arc::clone(&self.loads), self.loads.version());
        // Opened here, where running out of descriptors only costs one thread.
        let epoll = Poller::open()?;
        self.thread(slot, move || {
            match EventLoop::new(Arc::clone(&engine), slot, epoll, (loads, version), listeners, model()) {
                Ok(event_loop) => event_loop.run(),
                Err(error) => {
                    log::error!("Cannot start I/O thread {slot}: {error}");
                    engine.shutdown.request();
                }
            }
        })
    }

    /// Starts a thread that owns an engine slot.
    fn thread(&self, slot: usize, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let engine = Arc::clone(&self.engine);
        std::thread::Builder::new().name(format!("io_thd_{slot}")).spawn(move || {
            let _guard = AbortOnPanic;
            braid_base::alloc::register_thread(slot + 1);
            bind(&engine.config, slot);
            let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            engine.telemetry.threads[slot].task.store(task, Relaxed);
            drop(engine);
            body();
        })
    }
}

/// Aborts the process when a loop panics: its clients would hang, and its locks would stay
/// locked.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!("An I/O thread panicked");
            std::process::abort();
        }
    }
}

/// Binds the calling thread to processors, according to `server_cpulist` or
/// `server-thread-affinity`.
fn bind(config: &Config, slot: usize) {
    let list = config.server_cpulist();
    let processors = if !list.is_empty() {
        let Some(listed) = affinity::listed("server_cpulist", &list) else { return };
        listed
    } else if config.server_thread_affinity() {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        vec![slot % count]
    } else {
        return;
    };
    if !affinity::bind_thread(&processors) {
        log::warn!("Cannot bind I/O thread {slot} to processors {processors:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    /// `cargo fmt` follows `mod` items only where it sees them.
    #[test]
    fn files_of_models_are_formatted() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/models");
        let files = super::FILES.iter().map(|file| folder.join(file));
        match Command::new("rustfmt").args(["--edition", "2024", "--check"]).args(files).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
            Err(error) => println!("skipped: rustfmt cannot be started: {error}"),
        }
    }
}
