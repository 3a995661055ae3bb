// SPDX-License-Identifier: BSD-3-Clause
//! Throttling of writers for replicas that cannot keep up (`replica-throttle-writers`).
//!
//! Stock servers disconnect a replica whose unsent bytes exceed its limit
//! (`client-output-buffer-limit replica`); it returns for a full sync, falls behind again, and so
//! on. Here writes pause at half of the limit until the replica has taken all but a quarter. A
//! silent replica is not waited for: it may be dead.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::pause::{PauseMode, Purpose};
use braid_config::{ClientClass, OutputLimit};
use braid_executor::engine::Engine;
use braid_replication::Stage;

/// Milliseconds of silence after which writers no longer wait for a replica. Replicas send an
/// acknowledgement, or an empty line while they load, every second.
const PATIENCE_MS: i64 = 5000;

/// How many bytes a replica may lag behind.
pub fn replica_output_limit(engine: &Engine) -> OutputLimit {
    let mut limit = engine.config.client_output_buffer_limit(ClientClass::Replica);
    // Bytes that are kept for replicas anyway cost nothing.
    let least = engine.config.repl_backlog_size();
    if limit.hard_bytes > 0 {
        limit.hard_bytes = limit.hard_bytes.max(least);
    }
    if limit.soft_bytes > 0 {
        limit.soft_bytes = limit.soft_bytes.max(least);
    }
    limit
}

/// Pauses writes while a replica is close to its limit. Loops call it after they have written
/// to their replicas. Without a limit it never pauses.
pub fn throttle_writers(engine: &Engine, limit: OutputLimit, now_ms: i64) {
    let replication = &engine.replication;
    let was_throttling = replication.throttles.load(Relaxed);
    let is_wanted = engine.config.replica_throttle_writers();
    if !was_throttling && !is_wanted {
        return;
    }
    let bound = [limit.hard_bytes, limit.soft_bytes].into_iter().filter(|&bytes| bytes > 0).min();
    let threshold = bound.filter(|_| is_wanted).map(|bytes| bytes / if was_throttling { 4 } else { 2 });
    let slow = threshold.and_then(|threshold| {
        let mut replicas = replication.replicas();
        replicas.retain(|replica| {
            matches!(replica.stage(), Stage::Online | Stage::Copying)
                && now_ms - replica.heard_ms() < PATIENCE_MS
                && replica.record.reply_bytes.load(Relaxed) as u64 > threshold
        });
        replicas.into_iter().max_by_key(|replica| replica.heard_ms())
    });
    // Several loops may call this at once: one of them sees the change.
    let was_throttling = replication.throttles.swap(slow.is_some(), Relaxed);
    match slow {
        Some(slow) => {
            if !was_throttling {
                replication.throttled.fetch_add(1, Relaxed);
                log::warn!(
                    "Writes wait for replica {}, which is {} bytes behind",
                    slow.name(),
                    slow.record.reply_bytes.load(Relaxed)
                );
            }
            let until_ms = slow.heard_ms() + PATIENCE_MS;
            engine.clients.pause.begin(
                &engine.attention,
                Purpose::Throttle,
                PauseMode::Write,
                until_ms,
                now_ms,
            );
        }
        None if !was_throttling => {}
        None => {
            log::info!("Writes no longer wait for replicas");
            engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Throttle);
        }
    }
}
