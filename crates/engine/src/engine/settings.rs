// SPDX-License-Identifier: BSD-3-Clause
//! Applies configuration changes to the engine's parts.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::{LOADING, MEMORY_LIMIT, SLOT_STATS};
use braid_config::{MaxmemoryPolicy, NotifyFlags};
use braid_keyspace::eviction::Policy;
use braid_keyspace::keyspace::Removal;

use crate::active::peers;
use crate::append_only;
use crate::background_save;
use crate::engine::Engine;
use crate::engine::access;
use crate::replication;
use crate::replication::role;
use crate::shard_channels;
use crate::sync_writes;

/// Copies settings to where hot paths read them.
pub(crate) fn apply_settings(engine: &Engine) {
    let (config, settings) = (&engine.config, &engine.keyspace.settings);
    let is_replica = engine.replication.link.is_replica();
    settings.keeps_expired.store(config.import_mode() || is_replica, Relaxed);
    settings.notes_own_expiring.store(is_replica && !config.replica_read_only(), Relaxed);
    if !is_replica {
        engine.keyspace.forget_own_expiring();
    }
    settings.set_policy(match config.maxmemory_policy() {
        MaxmemoryPolicy::NoEviction => Policy::NoEviction,
        MaxmemoryPolicy::AllkeysLru => Policy::AllKeysLru,
        MaxmemoryPolicy::AllkeysLfu => Policy::AllKeysLfu,
        MaxmemoryPolicy::AllkeysRandom => Policy::AllKeysRandom,
        MaxmemoryPolicy::VolatileLru => Policy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu => Policy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom => Policy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl => Policy::VolatileTtl,
    });
    settings.lfu_log_factor.store(config.lfu_log_factor(), Relaxed);
    settings.lfu_decay_minutes.store(config.lfu_decay_time_minutes(), Relaxed);
    settings.eviction_samples.store(config.maxmemory_samples(), Relaxed);
    let events = config.notify_keyspace_events().0;
    let channels = events & (NotifyFlags::KEYSPACE | NotifyFlags::KEYEVENT);
    engine.hub.event_channels.store(channels, Relaxed);
    let silent = channels == 0 || engine.attention.get() & LOADING != 0;
    settings.events.store(if silent { 0 } else { events }, Relaxed);
    let unlinks = [
        (config.lazyfree_lazy_expire(), Removal::Expired),
        (config.lazyfree_lazy_eviction(), Removal::Evicted),
        (config.lazyfree_lazy_server_del(), Removal::Server),
    ];
    let unlinks = unlinks.iter().filter(|(is_on, _)| *is_on).fold(0, |bits, (_, why)| bits | *why as u8);
    settings.unlinks.store(unlinks, Relaxed);
    settings.events_with_values.store(config.notify_keyspace_values().into(), Relaxed);
    // The primary evicts for its replicas.
    let evicts = !(is_replica && config.replica_ignore_maxmemory());
    engine.attention.set(MEMORY_LIMIT, evicts && config.maxmemory() > 0);
    engine.attention.set(SLOT_STATS, counts_slots(engine));
    background_save::apply_refusal(engine);
}

/// Tells the kernel how soon to kill this process if memory runs out, by the role.
pub(crate) fn apply_oom_score(engine: &Engine) -> Result<(), String> {
    let [primary, replica, _] = engine.config.oom_score_adj_values();
    let of_role = if engine.replication.link.is_replica() { replica } else { primary };
    engine.process.oom_score.apply(engine.config.oom_score_adj(), of_role)
}

/// True if slot statistics are enabled.
pub fn counts_slots(engine: &Engine) -> bool {
    engine.cluster.is_some() && engine.config.cluster_slot_stats_enabled()
}

/// Subscribes the engine to configuration changes, and the loops' bells to the journal.
pub(super) fn follow_settings(engine: &Arc<Engine>) {
    // First, because it may refuse a change before others apply it.
    follow_sync_settings(engine);
    let weak = Arc::downgrade(engine);
    let names = [
        "maxmemory",
        "maxmemory-policy",
        "maxmemory-samples",
        "lfu-log-factor",
        "lfu-decay-time",
        "lazyfree-lazy-expire",
        "lazyfree-lazy-eviction",
        "lazyfree-lazy-server-del",
        "save",
        "stop-writes-on-bgsave-error",
        "notify-keyspace-events",
        "notify-keyspace-values",
        "import-mode",
        "cluster-slot-stats-enabled",
    ];
    engine.config.on_change(&names, move |_| {
        if let Some(engine) = weak.upgrade() {
            apply_settings(&engine);
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["appendonly"], move |_| match weak.upgrade() {
        Some(engine) => append_only::switch_append_only(&engine),
        None => Ok(()),
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["appendfsync", "aof-timestamp-enabled"], move |_| {
        if let Some(engine) = weak.upgrade() {
            append_only::configure_append_only(&engine);
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    let thresholds =
        ["slowlog-log-slower-than", "commandlog-request-larger-than", "commandlog-reply-larger-than"];
    engine.config.on_change(&thresholds, move |config| {
        if let Some(engine) = weak.upgrade() {
            engine.telemetry.logs.configure(config);
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["requirepass"], move |config| {
        if let Some(engine) = weak.upgrade() {
            engine.acl.set_default_password(access::acl_server(&engine), config.requirepass().as_bytes());
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["repl-backlog-size"], move |config| {
        if let Some(engine) = weak.upgrade() {
            engine.keyspace.journal.resize_backlog(config.repl_backlog_size());
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    let names = ["replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"];
    engine.config.on_change(&names, move |_| {
        if let Some(engine) = weak.upgrade() {
            role::apply_role(&engine);
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["oom-score-adj", "oom-score-adj-values"], move |_| match weak.upgrade() {
        Some(engine) => apply_oom_score(&engine),
        None => Ok(()),
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["min-replicas-to-write", "min-replicas-max-lag"], move |_| {
        if let Some(engine) = weak.upgrade() {
            replication::count_good_replicas(&engine, braid_base::clock::unix_ms());
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.keyspace.journal.set_bell(move || {
        if let Some(engine) = weak.upgrade() {
            replication::tell_feeders(&engine);
        }
    });
    replication::count_good_replicas(engine, braid_base::clock::unix_ms());
    follow_active_settings(engine);
    follow_cluster_settings(engine);
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["tracking-table-max-keys"], move |config| {
        if let Some(engine) = weak.upgrade() {
            // Called on any thread: all loops are woken.
            let most = config.tracking_table_max_keys();
            engine.trackers.enforce_limit(&engine.keyspace, most, usize::MAX);
        }
        Ok(())
    });
}

/// Subscribes the engine to settings of active-active replication.
fn follow_active_settings(engine: &Arc<Engine>) {
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["import-mode"], move |config| {
        let is_active = weak.upgrade().is_some_and(|engine| engine.active.is_some());
        match is_active && config.import_mode() {
            true => Err("not with active-replica".into()),
            false => Ok(()),
        }
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["active-peers"], move |_| match weak.upgrade() {
        Some(engine) => peers::apply_peers(&engine),
        None => Ok(()),
    });
}

/// Subscribes the engine to settings of the cluster's map.
fn follow_cluster_settings(engine: &Arc<Engine>) {
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["cluster-require-full-coverage"], move |config| {
        let engine = weak.upgrade();
        if let Some(map) = engine.as_ref().and_then(|engine| shard_channels::cluster_map(engine)) {
            map.set_coverage(config.cluster_require_full_coverage());
        }
        Ok(())
    });
}

/// Subscribes the engine to settings of synchronous writes.
fn follow_sync_settings(engine: &Arc<Engine>) {
    let weak = Arc::downgrade(engine);
    let names =
        ["sync-writes", "min-sync-replicas", "sync-level", "sync-timeout", "appendonly", "appendfsync"];
    engine.config.on_change(&names, move |config| {
        let Some(engine) = weak.upgrade() else { return Ok(()) };
        sync_writes::check_sync_writes(&engine, config)?;
        sync_writes::apply_sync_writes(&engine);
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.replication.in_sync.on_change(move || {
        if let Some(engine) = weak.upgrade() {
            sync_writes::apply_sync_writes(&engine);
        }
    });
}
