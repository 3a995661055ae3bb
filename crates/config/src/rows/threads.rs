// SPDX-License-Identifier: BSD-3-Clause
//! Directives about threads and CPUs.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ConfigEnum, ThreadingModel};
use crate::rows::INT_MAX;

super::directives! {
    "Threads", after general;

    /// Number of threads that serve clients; can be changed at run time.
    io_threads: usize => integer("io-threads", checks::processors, 1, 256, Unit::Plain)
        .unlisted_aliases(&["server-threads"])
        .documented_default("4", "the number of processors this process may use");

    /// How threads share the work. In `parallel` every thread reads, executes and replies, and
    /// locks only the shards it needs. The others are designs of other servers, for comparison:
    /// `handoff` and `fanout` execute on one thread, `hybrid` runs multi-key commands on one
    /// thread, `global-lock` executes under one lock.
    threading_model: ThreadingModel =>
        choice("threading-model", ThreadingModel::Parallel.raw(), ThreadingModel::WORDS).immutable().beyond_redis();

    /// With threading-model `fanout`: receive and parse on the helper threads, not only send. No
    /// effect with other models.
    io_threads_do_reads: bool => switch("io-threads-do-reads", false).immutable();

    /// Number of shards of the keyspace, each with its own lock; a power of two. Cluster mode
    /// always has 16384.
    shards: usize =>
        integer("shards", || 1024, 1, 65_536, Unit::Plain).immutable().integer_check(checks::power_of_two)
            .beyond_redis();

    /// Let scripts access undeclared keys, as stock servers do. Such a script stops all other
    /// threads while it runs; with `no`, scripts lock their declared keys and run in parallel.
    script_undeclared_keys: bool => switch("script-undeclared-keys", true);

    /// Maximum number of keys of a batch prefetched into the CPU cache together; 0 disables
    /// prefetching.
    prefetch_batch_max_size: usize => integer("prefetch-batch-max-size", || 16, 0, 128, Unit::Plain).no_effect_yet();

    /// Minimum number of events per thread before the thread is used.
    events_per_io_thread: u32 =>
        integer("events-per-io-thread", || 2, 0, INT_MAX, Unit::Plain).hidden().no_effect_yet();

    /// Pin each serving thread to one CPU; no effect with server_cpulist.
    server_thread_affinity: bool =>
        switch("server-thread-affinity", false).immutable()
            .also_true_false().beyond_redis();

    /// CPUs of the serving threads, for example `0-7:2` or `1,3`.
    server_cpulist: text =>
        optional_text("server_cpulist").aliases(&["server-cpulist"]).immutable();

    /// CPUs of the threads that write the append-only file, execute long commands, follow a primary
    /// and move slots. If it is empty, they use all CPUs of the process.
    bio_cpulist: text => optional_text("bio_cpulist").aliases(&["bio-cpulist"]).immutable();

    /// CPUs for rewriting the append-only file. If it is empty, all CPUs of the process are used.
    aof_rewrite_cpulist: text =>
        optional_text("aof_rewrite_cpulist").aliases(&["aof-rewrite-cpulist"]).immutable();

    /// CPUs for writing snapshots and sending full syncs. If it is empty, all CPUs of the process
    /// are used.
    bgsave_cpulist: text =>
        optional_text("bgsave_cpulist").aliases(&["bgsave-cpulist"]).immutable();
}
