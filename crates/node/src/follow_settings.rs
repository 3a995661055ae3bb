// SPDX-License-Identifier: BSD-3-Clause
//! Subscribes the services to the settings that concern them, so that CONFIG SET takes effect.

use std::sync::Arc;

use braid_active_node::peers;
use braid_config::Config;
use braid_durable::append_only;
use braid_executor::engine::{Engine, access};
use braid_executor::settings;
use braid_replica::{replicas, role, sync_writes};

/// Calls `apply` after a change of any of these settings; its error refuses the change.
fn follow(
    engine: &Arc<Engine>,
    names: &[&'static str],
    apply: impl Fn(&Engine, &Config) -> Result<(), String> + Send + Sync + 'static,
) {
    let weak = Arc::downgrade(engine);
    engine.config.on_change(names, move |config| match weak.upgrade() {
        Some(engine) => apply(&engine, config),
        None => Ok(()),
    });
}

/// [`follow`] for what cannot be refused.
fn follow_always(
    engine: &Arc<Engine>,
    names: &[&'static str],
    apply: impl Fn(&Engine, &Config) + Send + Sync + 'static,
) {
    follow(engine, names, move |engine, config| {
        apply(engine, config);
        Ok(())
    });
}

/// Subscribes the engine to configuration changes, and the loops' bells to the journal.
pub(super) fn follow_settings(engine: &Arc<Engine>) {
    // First, because it may refuse a change before others apply it.
    follow_sync_settings(engine);
    let copied = [
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
    follow_always(engine, &copied, |engine, _| settings::apply_settings(engine));
    follow(engine, &["appendonly"], |engine, _| append_only::switch_append_only(engine));
    let of_file = ["appendfsync", "aof-timestamp-enabled"];
    follow_always(engine, &of_file, |engine, _| append_only::configure_append_only(engine));
    let thresholds =
        ["slowlog-log-slower-than", "commandlog-request-larger-than", "commandlog-reply-larger-than"];
    follow_always(engine, &thresholds, |engine, config| engine.telemetry.logs.configure(config));
    follow_always(engine, &["requirepass"], |engine, config| {
        engine.acl.set_default_password(access::acl_server(engine), config.requirepass().as_bytes());
    });
    follow_always(engine, &["repl-backlog-size"], |engine, config| {
        engine.keyspace.journal.resize_backlog(config.repl_backlog_size());
    });
    let of_role = ["replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"];
    follow_always(engine, &of_role, |engine, _| role::apply_role(engine));
    let of_kernel = ["oom-score-adj", "oom-score-adj-values"];
    follow(engine, &of_kernel, |engine, _| settings::apply_oom_score(engine));
    follow_always(engine, &["min-replicas-to-write", "min-replicas-max-lag"], |engine, _| {
        replicas::count_good_replicas(engine, braid_base::clock::unix_ms());
    });
    let weak = Arc::downgrade(engine);
    engine.keyspace.journal.set_bell(move || {
        if let Some(engine) = weak.upgrade() {
            replicas::tell_feeders(&engine);
        }
    });
    replicas::count_good_replicas(engine, braid_base::clock::unix_ms());
    follow_active_settings(engine);
    follow_always(engine, &["cluster-require-full-coverage"], |engine, config| {
        if let Some(map) = engine.cluster_map() {
            map.set_coverage(config.cluster_require_full_coverage());
        }
    });
    follow_always(engine, &["tracking-table-max-keys"], |engine, config| {
        // Called on any thread: all loops are woken.
        let most = config.tracking_table_max_keys();
        engine.trackers.enforce_limit(&engine.keyspace, most, usize::MAX);
    });
}

/// Subscribes the engine to settings of active-active replication.
fn follow_active_settings(engine: &Arc<Engine>) {
    follow(engine, &["import-mode"], |engine, config| {
        match engine.active.is_some() && config.import_mode() {
            true => Err("not with active-replica".into()),
            false => Ok(()),
        }
    });
    follow(engine, &["active-peers"], |engine, _| peers::apply_peers(engine));
}

/// Subscribes the engine to settings of synchronous writes.
fn follow_sync_settings(engine: &Arc<Engine>) {
    let names =
        ["sync-writes", "min-sync-replicas", "sync-level", "sync-timeout", "appendonly", "appendfsync"];
    follow(engine, &names, |engine, config| {
        sync_writes::check_sync_writes(engine, config)?;
        sync_writes::apply_sync_writes(engine);
        Ok(())
    });
    let weak = Arc::downgrade(engine);
    engine.replication.in_sync.on_change(move || {
        if let Some(engine) = weak.upgrade() {
            sync_writes::apply_sync_writes(&engine);
        }
    });
}
