// SPDX-License-Identifier: BSD-3-Clause
//! Directives about memory: its limit, eviction, expiry and giving it back.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ConfigEnum, MaxmemoryPolicy};
use crate::rows::{INT_MAX, LONG_MAX, ULONG_MAX};

super::directives! {
    "Memory", after limits;

    /// Most memory for data; 0 means no limit.
    maxmemory: u64 => integer("maxmemory", || 0, 0, ULONG_MAX, Unit::Bytes);

    /// What happens when that limit is reached: noeviction refuses writes; the others remove keys,
    /// of all keys or only of those that expire, by least recent use, by least frequent use, at
    /// random, or by nearest expiry.
    maxmemory_policy: MaxmemoryPolicy =>
        choice("maxmemory-policy", MaxmemoryPolicy::NoEviction.raw(), MaxmemoryPolicy::WORDS);

    /// Keys looked at to choose one to evict.
    maxmemory_samples: u32 => integer("maxmemory-samples", || 5, 1, INT_MAX, Unit::Plain);

    /// How long evicting may hold up commands, from 0 (least) to 100 (as long as needed).
    maxmemory_eviction_tenacity: u32 => integer("maxmemory-eviction-tenacity", || 10, 0, 100, Unit::Plain);

    /// Most memory for buffers of all clients together, in bytes or in percent of maxmemory; 0
    /// means no limit.
    maxmemory_clients_raw: i64 =>
        integer("maxmemory-clients", || 0, -100, LONG_MAX, Unit::BytesOrPercent);

    /// How slowly the counter of uses grows: about this many times more uses for each step.
    lfu_log_factor: u32 => integer("lfu-log-factor", || 10, 0, INT_MAX, Unit::Plain);

    /// Minutes without use after which the counter of uses goes down by one; 0 never lowers it.
    lfu_decay_time_minutes: u32 => integer("lfu-decay-time", || 1, 0, INT_MAX, Unit::Plain);

    /// Effort of active expiry, from 1 to 10.
    active_expire_effort: u32 => integer("active-expire-effort", || 1, 1, 10, Unit::Plain);

    /// Neither expire nor evict anything while data is being imported: keys past their expiry stay,
    /// visible only to clients that have sent CLIENT IMPORT-SOURCE ON.
    import_mode: bool => switch("import-mode", false);

    /// Let the background enlarge tables. Accepted for old files: tables here grow in small steps
    /// of their own.
    activerehashing: bool => switch("activerehashing", true).no_effect_yet();

    /// Tell replicas and the append-only file of evicted keys by UNLINK instead of DEL. Here values
    /// that take long to free, more than 64 allocations or 256 KiB, always go to the background,
    /// and others are freed at once.
    lazyfree_lazy_eviction: bool => switch("lazyfree-lazy-eviction", false);

    /// The same for expired keys, see `lazyfree-lazy-eviction`.
    lazyfree_lazy_expire: bool => switch("lazyfree-lazy-expire", false);

    /// The same for keys that other commands remove (SPOP of all members, RESTORE of what has
    /// expired), see `lazyfree-lazy-eviction`.
    lazyfree_lazy_server_del: bool => switch("lazyfree-lazy-server-del", false);

    /// Let DEL free in the background, as UNLINK does. Accepted for old files: DEL and UNLINK are
    /// the same here, see `lazyfree-lazy-eviction`.
    lazyfree_lazy_user_del: bool => switch("lazyfree-lazy-user-del", false).no_effect_yet();

    /// Let FLUSHDB, FLUSHALL and SCRIPT FLUSH free in the background unless they say otherwise.
    lazyfree_lazy_user_flush: bool => switch("lazyfree-lazy-user-flush", false);

    /// Let the allocator give memory back from a thread of its own.
    jemalloc_bg_thread: bool => switch("jemalloc-bg-thread", true).no_effect_yet();

    /// Move live values together to give memory back.
    activedefrag: bool =>
        switch("activedefrag", false).switch_check(checks::no_defragmentation).no_effect_yet();

    /// Do not defragment below this much waste.
    active_defrag_ignore_bytes: u64 =>
        integer("active-defrag-ignore-bytes", || 100 << 20, 1, LONG_MAX, Unit::Bytes).no_effect_yet();

    /// Start defragmenting at this percentage of waste.
    active_defrag_threshold_lower: u32 =>
        integer("active-defrag-threshold-lower", || 10, 0, 1000, Unit::Percent).no_effect_yet();

    /// Defragment as hard as allowed at this percentage of waste.
    active_defrag_threshold_upper: u32 =>
        integer("active-defrag-threshold-upper", || 100, 0, 1000, Unit::Percent).no_effect_yet();

    /// Least share of a processor for defragmenting, in percent.
    active_defrag_cycle_min: u32 =>
        integer("active-defrag-cycle-min", || 1, 1, 99, Unit::Percent).no_effect_yet();

    /// Largest share of a processor for defragmenting, in percent.
    active_defrag_cycle_max: u32 =>
        integer("active-defrag-cycle-max", || 25, 1, 99, Unit::Percent).no_effect_yet();

    /// Fields of one collection that are defragmented at once.
    active_defrag_max_scan_fields: u64 =>
        integer("active-defrag-max-scan-fields", || 1000, 1, LONG_MAX, Unit::Plain).no_effect_yet();
}

/// Position of `maxmemory-clients`.
pub(crate) const MAXMEMORY_CLIENTS: usize = index_of!(maxmemory_clients_raw);
