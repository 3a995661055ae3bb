// SPDX-License-Identifier: BSD-3-Clause
//! The memory of the keys that a user may change, for users who have a limit of it
//! (`limit-memory`).
//!
//! The user's requests start a measurement on a background thread when the last one has become old:
//! it walks through all keys, a few under each lock, with pauses, so that it takes a tenth of a
//! processor at most. The requests since then that may have taken memory count with their size, so
//! they cannot outrun the measurement. Without such users none of this runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_acl::user::User;
use braid_base::clock::unix_ms;
use braid_clients::identity::Measured;
use braid_spec::CommandError;

use crate::background::{in_background, start_background};
use crate::engine::Engine;

/// Keys weighed under a lock.
const AT_ONCE: usize = 50;

/// After work of this length the thread pauses nine times as long.
const WORK: Duration = Duration::from_millis(1);

/// Checks that a user may have more memory, and keeps the measurement up to date. `taken`: the size
/// of the request, if it may take memory.
///
/// # Errors
/// If the user has too much.
pub(crate) fn check_memory(
    engine: &Engine,
    user: &Arc<User>,
    taken: impl FnOnce() -> Option<usize>,
    now_ms: i64,
) -> Result<(), CommandError> {
    if user.limits().memory_bytes() == 0 {
        return Ok(());
    }
    let memory = &user.identity.memory;
    if memory.begin(now_ms) {
        let user = Arc::clone(user);
        if !(start_background(engine) && in_background(engine, move |engine| measure(engine, &user))) {
            memory.abandon();
        }
    }
    let Some(taken) = taken() else { return Ok(()) };
    user.limits().check_memory(&user.identity)?;
    memory.add(taken as u64);
    Ok(())
}

/// Measures the memory of the keys that a user may change.
fn measure(engine: &Engine, user: &User) {
    let memory = &user.identity.memory;
    let (keyspace, before) = (&engine.keyspace, memory.added());
    let (mut bytes, mut since) = (0, Instant::now());
    for shard in 0..keyspace.shard_count() as u32 {
        for db in 0..keyspace.databases() {
            let mut cursor = Some(Default::default());
            while let Some(from) = cursor {
                let weigh = |entry: braid_keyspace::Entry<'_>| {
                    if user.may_change(entry.key(), db) {
                        bytes += entry.memory_bytes() as u64;
                    }
                };
                cursor = keyspace.reader().visit_some(shard, db, from, AT_ONCE, unix_ms(), weigh);
                if since.elapsed() >= WORK {
                    if engine.shutdown.is_requested() {
                        return memory.abandon();
                    }
                    std::thread::sleep(since.elapsed() * 9);
                    since = Instant::now();
                }
            }
        }
    }
    memory.end(Measured { bytes, added: before }, unix_ms());
}
