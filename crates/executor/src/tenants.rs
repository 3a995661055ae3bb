// SPDX-License-Identifier: BSD-3-Clause
//! The memory of the keys that a user may change, for users who have a limit of it
//! (`limit-memory`).
//!
//! The user's requests ask for a measurement when the last one has become old. A thread of its own,
//! one for all users, walks through all keys, a few under each lock, with pauses, so that it takes
//! a tenth of a processor at most; it ends when nobody asks. The requests since then that may have
//! taken memory count with their size, so they cannot outrun the measurement. Without such users
//! none of this runs.

use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use braid_acl::user::User;
use braid_base::clock::unix_ms;
use braid_clients::identity::Measured;
use braid_keyspace::Entry;
use braid_spec::CommandError;

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
        ask(engine, user);
    }
    let Some(taken) = taken() else { return Ok(()) };
    user.limits().check_memory(&user.identity)?;
    memory.add(taken as u64);
    Ok(())
}

/// Has the memory of a user measured.
fn ask(engine: &Engine, user: &Arc<User>) {
    let mut measuring = engine.background.measuring.lock();
    measuring.asked.push(Arc::clone(user));
    if measuring.has_thread {
        return;
    }
    let weak = engine.weak();
    let run = move || {
        while let Some(engine) = weak.upgrade()
            && let Some(users) = next(&engine)
        {
            measure(&engine, &users);
        }
    };
    match Builder::new().name("tenants".into()).spawn(run) {
        Ok(_) => measuring.has_thread = true,
        Err(error) => {
            log::warn!("Cannot start a thread that measures the memory of users: {error}");
            measuring.asked.drain(..).for_each(|user| user.identity.memory.abandon());
        }
    }
}

/// The users who have been asked for; `None` if there are none: the thread must end then.
fn next(engine: &Engine) -> Option<Vec<Arc<User>>> {
    let mut measuring = engine.background.measuring.lock();
    measuring.has_thread = !measuring.asked.is_empty();
    measuring.has_thread.then(|| std::mem::take(&mut measuring.asked))
}

/// Measures the memory of the keys that each user may change.
fn measure(engine: &Engine, users: &[Arc<User>]) {
    let keyspace = &engine.keyspace;
    let begin = |user: &Arc<User>| Measured { bytes: 0, added: user.identity.memory.added() };
    let mut measured: Vec<Measured> = users.iter().map(begin).collect();
    let mut since = Instant::now();
    for shard in 0..keyspace.shard_count() as u32 {
        for db in 0..keyspace.databases() {
            let mut cursor = Some(Default::default());
            while let Some(from) = cursor {
                let weigh = |entry: Entry<'_>| {
                    for (user, measured) in users.iter().zip(&mut measured) {
                        if user.may_change(entry.key(), db) {
                            measured.bytes += entry.memory_bytes() as u64;
                        }
                    }
                };
                cursor = keyspace.reader().visit_some(shard, db, from, AT_ONCE, unix_ms(), weigh);
                if since.elapsed() >= WORK {
                    if engine.shutdown.is_requested() {
                        return users.iter().for_each(|user| user.identity.memory.abandon());
                    }
                    std::thread::sleep(since.elapsed() * 9);
                    since = Instant::now();
                }
            }
        }
    }
    let now_ms = unix_ms();
    users.iter().zip(measured).for_each(|(user, measured)| user.identity.memory.end(measured, now_ms));
}
