// SPDX-License-Identifier: BSD-3-Clause
//! Writes while the in-sync set is too small for synchronous ones (`min-sync-replicas`).

use crate::engine::Engine;
use crate::state::sync_writes::LastWrite;

/// A client writes although the in-sync set is too small: it does not wait, or its command has
/// waited since before. Called before the write is executed, or before its reply is sent.
#[cold]
pub fn note_write_in_small_set(engine: &Engine) {
    let mut last_write = engine.sync_writes.last_write.lock();
    if *last_write != (LastWrite::Ahead { epoch: None }) {
        *last_write = LastWrite::Ahead { epoch: Some(engine.keyspace.gate.epoch() + 2) };
    }
}
