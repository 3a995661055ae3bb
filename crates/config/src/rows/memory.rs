// SPDX-License-Identifier: BSD-3-Clause
//! Directives about memory: limit, eviction, expiry, freeing and defragmentation.

use crate::directive::Unit;
use crate::enums::{ConfigEnum, MaxmemoryPolicy};
use crate::rows::{INT_MAX, LONG_MAX, ULONG_MAX};

super::directives! {
    "Memory", after limits;

    /// Memory limit, above which maxmemory-policy applies; 0 means no limit.
    maxmemory: u64 => integer("maxmemory", || 0, 0, ULONG_MAX, Unit::Bytes);

    /// Policy at the memory limit: noeviction refuses writes; the others evict keys, either any
    /// key or only keys with an expiry: least recently used, least frequently used, random, or
    /// nearest expiry.
    maxmemory_policy: MaxmemoryPolicy =>
        choice("maxmemory-policy", MaxmemoryPolicy::NoEviction.raw(), MaxmemoryPolicy::WORDS);

    /// With this, keys also make room for memory that the process has and no value uses, such as
    /// sparsely used pages: its resident memory counts instead, up to a third of maxmemory more.
    /// Meant for containers, together with activedefrag.
    maxmemory_resident_limit: bool => switch("maxmemory-resident-limit", false);

    /// Number of keys sampled per eviction.
    maxmemory_samples: u32 => integer("maxmemory-samples", || 5, 1, INT_MAX, Unit::Plain);

    /// Time for which eviction may delay commands, from 0 (shortest) to 100 (unlimited).
    maxmemory_eviction_tenacity: u32 => integer("maxmemory-eviction-tenacity", || 10, 0, 100, Unit::Plain);

    /// Maximum memory of the buffers of all clients, in bytes or percent of maxmemory; 0 means no
    /// limit.
    maxmemory_clients_raw: i64 =>
        integer("maxmemory-clients", || 0, -100, LONG_MAX, Unit::BytesOrPercent);

    /// Percentage of maxmemory for messages that clients have not read: invalidations, published
    /// messages, keyspace events, MONITOR lines. They do not count towards maxmemory, because
    /// eviction would cause more of them. While memory is above maxmemory and they hold more than
    /// this, clients that have read nothing for three seconds are closed. 0 means that they count
    /// and no client is closed for them.
    maxmemory_pushes_percent: u32 => integer("maxmemory-pushes", || 12, 0, 100, Unit::Percent);

    /// Growth of the LFU access counter: its N-th increment takes about N times this many
    /// accesses.
    lfu_log_factor: u32 => integer("lfu-log-factor", || 10, 0, INT_MAX, Unit::Plain);

    /// Minutes without access after which the LFU access counter is decremented; 0 disables the
    /// decay.
    lfu_decay_time_minutes: u32 => integer("lfu-decay-time", || 1, 0, INT_MAX, Unit::Plain);

    /// CPU time spent on active expiry, from 1 (least) to 10.
    active_expire_effort: u32 => integer("active-expire-effort", || 1, 1, 10, Unit::Plain);

    /// Disable expiry and eviction during a data import: expired keys stay, visible only to
    /// clients that have sent CLIENT IMPORT-SOURCE ON.
    import_mode: bool => switch("import-mode", false);

    /// Let a command of a transaction or script delete expired keys that it meets but does not
    /// name, such as SCAN. Braid hides them, and they are deleted afterwards.
    lazyexpire_nested_arbitrary_keys: bool =>
        switch("lazyexpire-nested-arbitrary-keys", true).hidden().no_effect_yet();

    /// Resize hash tables in the background. Accepted for compatibility: Braid's tables always
    /// grow in small steps.
    activerehashing: bool => switch("activerehashing", true).always_on();

    /// Propagate evicted keys to replicas and the append-only file as UNLINK instead of DEL.
    /// Freeing does not depend on it: values of more than 64 allocations or 4 MiB are freed in
    /// the background, others immediately.
    lazyfree_lazy_eviction: bool => switch("lazyfree-lazy-eviction", false);

    /// Propagate expired keys as UNLINK instead of DEL; see `lazyfree-lazy-eviction`.
    lazyfree_lazy_expire: bool => switch("lazyfree-lazy-expire", false);

    /// Propagate keys removed by other commands (SPOP of all members, RESTORE of an expired
    /// value) as UNLINK instead of DEL; see `lazyfree-lazy-eviction`.
    lazyfree_lazy_server_del: bool => switch("lazyfree-lazy-server-del", false);

    /// Make DEL free in the background, like UNLINK. Accepted for compatibility: DEL and UNLINK
    /// are equivalent, see `lazyfree-lazy-eviction`.
    lazyfree_lazy_user_del: bool => switch("lazyfree-lazy-user-del", false).always_on();

    /// Make FLUSHDB and FLUSHALL without SYNC or ASYNC free memory in the background.
    lazyfree_lazy_user_flush: bool => switch("lazyfree-lazy-user-flush", false);

    /// Return free memory to the system from a background thread of the allocator.
    jemalloc_bg_thread: bool => switch("jemalloc-bg-thread", true);

    /// Move live values out of sparsely filled memory, so that it can be returned to the system.
    /// Unlike in Redis, this is on by default.
    activedefrag: bool => switch("activedefrag", true);

    /// Do not defragment below this much wasted memory.
    active_defrag_ignore_bytes: u64 =>
        integer("active-defrag-ignore-bytes", || 100 << 20, 1, LONG_MAX, Unit::Bytes);

    /// Percentage of wasted memory at which defragmentation starts.
    active_defrag_threshold_lower: u32 =>
        integer("active-defrag-threshold-lower", || 10, 0, 1000, Unit::Percent);

    /// Percentage of wasted memory at which defragmentation reaches active-defrag-cycle-max.
    active_defrag_threshold_upper: u32 =>
        integer("active-defrag-threshold-upper", || 100, 0, 1000, Unit::Percent);

    /// Minimum percentage of each thread's time for defragmentation.
    active_defrag_cycle_min: u32 =>
        integer("active-defrag-cycle-min", || 1, 1, 99, Unit::Percent);

    /// Maximum percentage of each thread's time for defragmentation. A thread that executes
    /// requests spends no more than 4 percent, unless sparsely used pages exceed maxmemory.
    active_defrag_cycle_max: u32 =>
        integer("active-defrag-cycle-max", || 25, 1, 99, Unit::Percent);

    /// Length of a step of defragmentation. Here a step takes no more than 100 microseconds.
    active_defrag_cycle_microseconds: u32 =>
        integer("active-defrag-cycle-us", || 500, 0, 100_000, Unit::Microseconds);

    /// Maximum number of fields of a collection defragmented in one step. Here a step's time is
    /// limited instead.
    active_defrag_max_scan_fields: u64 =>
        integer("active-defrag-max-scan-fields", || 1000, 1, LONG_MAX, Unit::Plain).no_effect_yet();
}

/// Position of `maxmemory-clients`.
pub(crate) const MAXMEMORY_CLIENTS: usize = index_of!(maxmemory_clients_raw);
