// SPDX-License-Identifier: BSD-3-Clause
//! The file `group-member`: the group member to which the files in this folder belong. A process
//! writes its own name only once it leads or follows: until then the files belong to its former
//! process.
//!
//! A process that shuts down cleanly, and does nothing more after it has saved everything, adds a
//! second line: the last epoch known to it, and the fingerprint of the saved files. The next
//! process that loads these files can continue as the same member. It removes the line before it
//! communicates with any other server ([`consume_clean_shutdown`]): after a later crash the files
//! prove nothing.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_durable::aof_load::append_only_folder;
use braid_executor::engine::Engine;
use braid_executor::services::Membership;
use braid_group::{CleanShutdown, MemberId};
use braid_persistence::{files, fingerprint};
use braid_replication::link::Phase;

use crate::group;

const FILE: &str = "group-member";
/// First word of the line for a clean shutdown.
const ENDED: &str = "ended";

/// The former process of this server, whose files were loaded.
#[derive(Clone, Default)]
pub(super) struct PreviousProcess {
    pub run: Option<Arc<str>>,
    /// Set if that process shut down cleanly.
    pub clean_shutdown: Option<CleanShutdown>,
}

/// A clean shutdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    epoch: u64,
    files: u64,
}

fn path() -> PathBuf {
    std::env::current_dir().unwrap_or_default().join(FILE)
}

fn parse(text: &str) -> Option<(MemberId, Option<End>)> {
    let mut lines = text.lines();
    let member = lines.next()?.trim().parse().ok()?;
    let end = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_end = words.next()? == ENDED;
        let epoch = words.next()?.parse().ok()?;
        let files = u64::from_str_radix(words.next()?, 16).ok()?;
        is_end.then_some(End { epoch, files })
    };
    Some((member, lines.next().and_then(end)))
}

fn format(id: &MemberId, end: Option<End>) -> String {
    match end {
        None => format!("{id}\n"),
        Some(End { epoch, files }) => format!("{id}\n{ENDED} {epoch} {files:016x}\n"),
    }
}

/// The member of this node to which the files belong, if any, and its clean shutdown.
fn load(node: &str) -> Option<(MemberId, Option<End>)> {
    let mut text = String::new();
    let read = files::open(&path()).and_then(|mut file| file.read_to_string(&mut text));
    read.ok().and_then(|_| parse(&text)).filter(|(member, _)| *member.node == *node)
}

fn store(id: &MemberId, end: Option<End>) -> io::Result<()> {
    let path = path();
    files::store(&path, format(id, end).as_bytes())
        .inspect_err(|error| log::warn!("Cannot write {}: {error}", path.display()))
}

/// The run of the member of this node to which the files belong, if any.
pub(super) fn read(node: &str) -> Option<Arc<str>> {
    load(node).map(|(member, _)| member.run)
}

/// From now on the files belong to `id`.
pub(super) fn write(id: &MemberId) {
    if read(&id.node).is_none_or(|run| run != id.run) {
        // An error has been logged.
        let _ = store(id, None);
    }
}

/// The fingerprint of the files that this server, as configured, loads at startup.
fn fingerprint_of_files(engine: &Engine) -> io::Result<u64> {
    if engine.config.appendonly() {
        fingerprint::of_append_only(&append_only_folder(&engine.config))
    } else {
        fingerprint::of_dump(Path::new(&*engine.config.dbfilename()))
    }
}

/// Checks, before the files are loaded, whether they are as a former process left them at a
/// clean shutdown.
pub fn recognize_files(engine: &Engine) {
    let Some(group) = group::of(engine) else { return };
    let Some((member, Some(end))) = load(&group.settings.node) else { return };
    match fingerprint_of_files(engine) {
        Ok(files) if files == end.files => {
            *group.clean_shutdown.lock() = Some(CleanShutdown { run: member.run, epoch: end.epoch });
        }
        _ => log::warn!("The files are not those that member {member} saved at shutdown"),
    }
}

/// Uses up the former process's clean shutdown, so that it counts once. Nothing has been
/// communicated yet.
pub(super) fn consume_clean_shutdown(engine: &Engine) {
    let Some(group) = group::of(engine) else { return };
    if engine.persistence.progress.active.load(Relaxed) {
        // The load was stopped: this process ends, and the files stay unchanged.
        group.distrust_files();
    } else if let Some((member, Some(_))) = load(&group.settings.node)
        && store(&member, None).is_err()
    {
        group.distrust_files();
    }
}

/// Records that this process has shut down cleanly. Everything it has ever acknowledged or
/// sent is on disk, in the files that it would load, and nothing is executed or applied any
/// more.
pub fn record_clean_shutdown(engine: &Engine) {
    let Some(group) = group::of(engine) else { return };
    // Until it is decided which member it is, it has communicated nothing as another one.
    let own = {
        let view = group.view.lock();
        view.has_id.then(|| CleanShutdown { run: Arc::clone(&view.id.run), epoch: view.epoch })
    };
    let Some(CleanShutdown { run, epoch }) = own.or_else(|| group.clean_shutdown.lock().clone()) else {
        return;
    };
    let id = MemberId { node: group.settings.node.as_str().into(), run };
    let is_own = read(&id.node).as_ref() == Some(&id.run);
    let is_whole = group.is_whole.load(Relaxed) && engine.replication.link.phase() != Phase::Sync;
    if !is_own || !is_whole {
        return;
    }
    match fingerprint_of_files(engine) {
        // If it cannot be written, that has been logged.
        Ok(files) => drop(store(&id, Some(End { epoch, files }))),
        Err(error) => log::warn!("The saved files cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_end_is_read_as_it_was_written() {
        let id = MemberId::new("db1", "12ab");
        for end in [None, Some(End { epoch: 7, files: 0x1f }), Some(End { epoch: 0, files: u64::MAX })] {
            assert_eq!(parse(&format(&id, end)), Some((id.clone(), end)));
        }
        // From an older version, or damaged.
        for text in
            ["db1/12ab", "db1/12ab\n\n", "db1/12ab\nended", "db1/12ab\nended 7", "db1/12ab\nended x 1f"]
        {
            assert_eq!(parse(text), Some((id.clone(), None)), "{text:?}");
        }
        assert_eq!(parse(""), None);
        assert_eq!(parse("db1\nended 7 1f\n"), None);
    }
}
