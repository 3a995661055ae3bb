// SPDX-License-Identifier: BSD-3-Clause
//! Applies configuration changes to the engine's parts.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::{LOADING, MEMORY_LIMIT, SLOT_STATS, WRITES_REFUSED};
use braid_config::{MaxmemoryPolicy, NotifyFlags};
use braid_keyspace::eviction::Policy;
use braid_keyspace::keyspace::Removal;

use crate::engine::Engine;

/// Copies settings to where hot paths read them.
pub fn apply_settings(engine: &Engine) {
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
        MaxmemoryPolicy::AllkeysLrm => Policy::AllKeysLrm,
        MaxmemoryPolicy::VolatileLru => Policy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu => Policy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom => Policy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl => Policy::VolatileTtl,
        MaxmemoryPolicy::VolatileLrm => Policy::VolatileLrm,
    });
    settings.lfu_log_factor.store(config.lfu_log_factor(), Relaxed);
    settings.lfu_decay_minutes.store(config.lfu_decay_time_minutes(), Relaxed);
    settings.eviction_samples.store(config.maxmemory_samples(), Relaxed);
    let events = config.notify_keyspace_events().0;
    let of_keys = events & (NotifyFlags::KEYSPACE | NotifyFlags::KEYEVENT);
    let of_members = events & NotifyFlags::MEMBERS;
    engine.hub.event_channels.store(of_keys | of_members, Relaxed);
    let told = if of_keys == 0 { of_members } else { events };
    let silent = engine.attention.get() & LOADING != 0;
    settings.events.store(if silent { 0 } else { told }, Relaxed);
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
    apply_refusal(engine);
}

/// Refuses or allows writes according to the last save and the configuration.
pub fn apply_refusal(engine: &Engine) {
    let config = &engine.config;
    let refused = config.stop_writes_on_bgsave_error()
        && !config.save_points().is_empty()
        && engine.background_save.last_failed.load(Relaxed);
    engine.attention.set(WRITES_REFUSED, refused);
}

/// Tells the kernel how soon to kill this process if memory runs out, by the role.
///
/// # Errors
/// If the kernel refuses the score, usually for lack of permission to lower it.
pub fn apply_oom_score(engine: &Engine) -> Result<(), String> {
    let [primary, replica, _] = engine.config.oom_score_adj_values();
    let of_role = if engine.replication.link.is_replica() { replica } else { primary };
    engine.process.oom_score.apply(engine.config.oom_score_adj(), of_role)
}

/// True if slot statistics are enabled.
pub fn counts_slots(engine: &Engine) -> bool {
    engine.cluster.is_some() && engine.config.cluster_slot_stats_enabled()
}
