// SPDX-License-Identifier: BSD-3-Clause
//! Changes of a former primary that no other member has: when it returns as a replica, they are
//! saved to a file before the new primary's dataset replaces its own.
//!
//! The file has requests as in an append-only file: `redis-cli --pipe` repeats them. If the changes
//! are no longer in the backlog, the whole append-only file is kept.

use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_durable::aof_load::append_only_folder;
use braid_executor::engine::Engine;
use braid_group::Shard;
use braid_persistence::files;
use braid_replication::link::units::Units;
use braid_resp::request;

/// Requests of the stream that are not changes.
const NO_CHANGES: [&[u8]; 5] = [b"PING", b"REPLCONF", b"SELECT", b"MULTI", b"EXEC"];

/// Saves this server's changes beyond the point at which the current primary's history
/// begins.
pub(super) fn keep_divergence(engine: &Engine, shard: Option<&Shard>) {
    let Some(base) = shard.and_then(|shard| shard.base.as_ref()) else { return };
    let journal = &engine.keyspace.journal;
    let (begin, end) = {
        let state = engine.replication.state.lock();
        let end = journal.end();
        let is_shared = state.history.contains(base.history.as_bytes(), base.offset);
        if !is_shared || state.history.offset(end) <= base.offset {
            return;
        }
        (state.history.journal_offset(base.offset), end)
    };
    let Some(mut reader) = begin.and_then(|begin| journal.reader_from(begin)) else {
        keep_files(engine, shard.map_or(0, |shard| shard.epoch), base.offset);
        return;
    };
    let mut tail = Vec::new();
    reader.read(journal, end.min(journal.complete()), |bytes| {
        tail.extend_from_slice(bytes);
        bytes.len()
    });
    reader.end(journal);
    let changes = count_changes(&tail);
    if changes == 0 {
        return;
    }
    let name = format!("divergent-{}-{}.aof", shard.map_or(0, |shard| shard.epoch), unix_ms());
    let path = std::env::current_dir().unwrap_or_default().join(&name);
    let mut bytes = Vec::new();
    if let Some(db) = journal.database() {
        request::push(&mut bytes, &[b"SELECT", db.to_string().as_bytes()]);
    }
    bytes.extend_from_slice(&tail);
    let written = files::create(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    match written {
        Ok(()) => log::warn!(
            "{changes} changes after offset {} are not in the new primary's history: saved to {name}",
            base.offset
        ),
        Err(error) => log::warn!(
            "{changes} changes after offset {} are not in the new primary's history and could not be \
             saved to {name}: {error}",
            base.offset
        ),
    }
}

/// Keeps the append-only file aside, since it has changes that are no longer in the backlog, as
/// after a restart: a full sync is about to replace it.
fn keep_files(engine: &Engine, epoch: u64, offset: u64) {
    let what = format!("This server has changes after offset {offset} that the new primary does not have");
    if !engine.append_only.on.load(Relaxed) {
        log::warn!("{what}; they are no longer in the backlog");
        return;
    }
    let files = append_only_folder(&engine.config);
    let name = format!("divergent-{epoch}-{}", unix_ms());
    let kept = std::env::current_dir().unwrap_or_default().join(&name);
    // No rewrite removes files meanwhile.
    let _files = engine.append_only.hold_files();
    let outcome = files.load_manifest().map_err(|error| error.to_string()).and_then(|manifest| {
        let paths = manifest.data().map(|(_, info)| files.path(&info.name));
        let mut paths = paths.chain([files.manifest_path()]);
        paths.try_for_each(|path| files::keep_in(&path, &kept)).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(()) => log::warn!("{what}; its append-only file is kept in {name}"),
        Err(error) => log::warn!("{what}; its append-only file could not be kept in {name}: {error}"),
    }
}

/// Number of requests of a stream that are changes.
fn count_changes(stream: &[u8]) -> usize {
    let mut units = Units::default();
    // An incomplete unit at the end was not executed as a whole.
    if units.parse(stream).is_err() {
        return 1;
    }
    let is_change = |name: &[u8]| !NO_CHANGES.iter().any(|word| name.eq_ignore_ascii_case(word));
    let requests = units.requests().iter();
    requests.filter(|request| units.args(request, stream).next().is_some_and(is_change)).count()
}
