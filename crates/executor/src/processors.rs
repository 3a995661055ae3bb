// SPDX-License-Identifier: BSD-3-Clause
//! The processors of background threads: `bio_cpulist`, `bgsave_cpulist`, `aof_rewrite_cpulist`.
//!
//! A thread begins with the processors of the thread that starts it, and loops may be bound
//! (`server_cpulist`, `server-thread-affinity`). So a thread that works for long binds itself
//! first.

use braid_net::affinity;

use crate::engine::Engine;

/// The work of a background thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Writing the append-only file, and long commands.
    Background,
    /// Snapshots and full syncs.
    Save,
    /// Rewriting the append-only file.
    Rewrite,
}

/// [`bind_thread`] for a thread that does a client's work.
pub fn bind_background_thread(engine: &Engine) {
    bind_thread(engine, Work::Background);
}

/// Binds the calling thread to the processors configured for its work, or else to all that the
/// process had at its start.
pub fn bind_thread(engine: &Engine, work: Work) {
    let (name, list) = match work {
        Work::Background => ("bio_cpulist", engine.config.bio_cpulist()),
        Work::Save => ("bgsave_cpulist", engine.config.bgsave_cpulist()),
        Work::Rewrite => ("aof_rewrite_cpulist", engine.config.aof_rewrite_cpulist()),
    };
    let listed = affinity::listed(name, &list);
    let processors = listed.as_deref().unwrap_or(&engine.process.processors);
    if !processors.is_empty() && !affinity::bind_thread(processors) {
        log::warn!("Cannot bind a background thread to processors {processors:?}");
    }
}
