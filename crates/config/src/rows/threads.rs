// SPDX-License-Identifier: BSD-3-Clause
//! Directives about threads and processors.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ConfigEnum, ThreadingModel};
use crate::rows::INT_MAX;

super::directives! {
    "Threads", after general;

    /// Number of threads that serve clients. It may be changed while they do.
    io_threads: usize => integer("io-threads", checks::processors, 1, 256, Unit::Plain)
        .unlisted_aliases(&["server-threads"])
        .documented_default("4", "the number of processors this process may use");

    /// How the threads share the work. In `parallel` every thread reads, executes and replies under
    /// the locks of just the shards it needs. The others are designs of other servers, for
    /// comparison: `handoff` and `fanout` execute on one thread, `hybrid` sends multi-key work to
    /// one thread, `global-lock` executes under one lock.
    threading_model: ThreadingModel =>
        choice("threading-model", ThreadingModel::Parallel.raw(), ThreadingModel::WORDS).immutable().beyond_redis();

    /// In the model `fanout`: receive and parse on the threads too, not only send. The other models
    /// do what they do either way.
    io_threads_do_reads: bool => switch("io-threads-do-reads", false).immutable();

    /// Number of parts of the keyspace, each with a lock of its own; a power of two.
    shards: usize =>
        integer("shards", || 1024, 1, 65_536, Unit::Plain).immutable().integer_check(checks::power_of_two)
            .beyond_redis();

    /// Let scripts reach keys that they did not declare, as stock servers do. Such a script stops
    /// all other threads while it runs; with `no`, scripts lock their declared keys and run in
    /// parallel.
    script_undeclared_keys: bool => switch("script-undeclared-keys", true);

    /// Keys of a batch of commands that are fetched into the processor's cache together; 0 fetches
    /// none ahead.
    prefetch_batch_max_size: usize => integer("prefetch-batch-max-size", || 16, 0, 128, Unit::Plain).no_effect_yet();

    /// Events for each thread before it is used at all.
    events_per_io_thread: u32 =>
        integer("events-per-io-thread", || 2, 0, INT_MAX, Unit::Plain).hidden().no_effect_yet();

    /// Bind each serving thread to one processor.
    server_thread_affinity: bool =>
        switch("server-thread-affinity", false).immutable()
            .also_true_false().beyond_redis();

    /// Processors for the serving threads, for example `0-7:2` or `1,3`.
    server_cpulist: text =>
        optional_text("server_cpulist").unlisted_aliases(&["server-cpulist"]).immutable();

    /// Processors for background threads.
    bio_cpulist: text => optional_text("bio_cpulist").unlisted_aliases(&["bio-cpulist"]).immutable().no_effect_yet();

    /// Processors for rewriting the append-only file.
    aof_rewrite_cpulist: text =>
        optional_text("aof_rewrite_cpulist").unlisted_aliases(&["aof-rewrite-cpulist"]).immutable().no_effect_yet();

    /// Processors for writing snapshots.
    bgsave_cpulist: text =>
        optional_text("bgsave_cpulist").unlisted_aliases(&["bgsave-cpulist"]).immutable().no_effect_yet();
}
