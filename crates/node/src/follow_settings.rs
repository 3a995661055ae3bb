// SPDX-License-Identifier: BSD-3-Clause
//! Subscribes the services to the settings that concern them, so that CONFIG SET takes effect.

use std::sync::Arc;

use braid_active_node::peers;
use braid_durable::append_only;
use braid_executor::engine::{Engine, access};
use braid_executor::settings;
use braid_replica::{replicas, role, sync_writes};

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
            settings::apply_settings(&engine);
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
        Some(engine) => settings::apply_oom_score(&engine),
        None => Ok(()),
    });
    let weak = Arc::downgrade(engine);
    engine.config.on_change(&["min-replicas-to-write", "min-replicas-max-lag"], move |_| {
        if let Some(engine) = weak.upgrade() {
            replicas::count_good_replicas(&engine, braid_base::clock::unix_ms());
        }
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.keyspace.journal.set_bell(move || {
        if let Some(engine) = weak.upgrade() {
            replicas::tell_feeders(&engine);
        }
    });
    replicas::count_good_replicas(engine, braid_base::clock::unix_ms());
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
        if let Some(map) = engine.as_ref().and_then(|engine| engine.cluster_map()) {
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
