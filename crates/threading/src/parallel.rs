//! The `parallel` model: every thread reads, parses, executes and replies for its own clients, under the locks of just the
//! shards that a command's keys live in.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use braid_engine::Engine;
use braid_net::affinity;

use crate::accept::{Listeners, LoopLoads};
use crate::event_loop::EventLoop;

/// Starts one loop per thread; the first one accepts connections too.
pub fn start(engine: &Arc<Engine>, listeners: &Arc<Listeners>) -> io::Result<Vec<JoinHandle<()>>> {
    let count = engine.threads.len();
    let loads = Arc::new(LoopLoads::new(count));
    let mut threads = Vec::with_capacity(count);
    for slot in 0..count {
        let (engine, listeners, loads) = (Arc::clone(engine), Arc::clone(listeners), Arc::clone(&loads));
        let thread = std::thread::Builder::new().name(format!("io_thd_{slot}")).spawn(move || {
            let _guard = AbortOnPanic;
            braid_base::alloc::register_thread(slot + 1);
            bind(&engine, slot);
            // Made on the thread itself, so that its memory is local to it.
            match EventLoop::new(Arc::clone(&engine), slot, loads, listeners) {
                Ok(event_loop) => event_loop.run(),
                Err(error) => {
                    log::error!("Cannot start I/O thread {slot}: {error}");
                    engine.request_shutdown();
                }
            }
        })?;
        threads.push(thread);
    }
    Ok(threads)
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
