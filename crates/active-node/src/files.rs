// SPDX-License-Identifier: BSD-3-Clause
//! Startup of a server in active mode: loads its files, or begins with none.
//!
//! After a clean shutdown the state file is complete. After a crash the log continues it, with
//! full copies of peers at the points where they were merged. The new run begins above the
//! ceiling, which is on disk before any stamp below it is issued, so no stamp is issued twice.
//!
//! The ceiling is up to [`CEILING_MS`] ahead of the clock, and peers refuse stamps that are too
//! far ahead. If only the process has ended, and not the machine, then the log is complete: no
//! peer has a unit that it lacks. The new run then begins above the last stamp in the log.

use braid_active::backlog::Backlog;
use braid_active::logs::Logs;
use braid_active::replica::{Replica, Settings, State, ceiling_after};
use braid_active::saved::{Loader, PIECE, Piece, Saver};
use braid_active::{Region, Stamp, Vector, wire};
use braid_base::clock::unix_ms;
use braid_config::Config;
use braid_persistence::active::{ActiveFiles, ActiveManifest, Logged, Records, StateFile};

use super::codec::parse_vector;

/// How far ahead, in ms, a ceiling allows the server to issue stamps.
pub(super) const CEILING_MS: u64 = 60_000;

/// The thread's initial data.
pub(super) struct Begin {
    pub files: ActiveFiles,
    pub manifest: ActiveManifest,
    pub replica: Replica,
    pub backlog: Backlog,
    /// Logs that peers can be sent units from.
    pub logs: Logs,
    /// Files existed: the shadow is authoritative, not the keyspace.
    pub is_known: bool,
}

/// Chooses a free region number for an identity; `None` if all are taken.
pub(super) fn free_region(taken: u64, identity: &str) -> Option<u8> {
    let first = identity.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (0..64).map(|step| ((first + step) % 64) as u8).find(|number| taken >> number & 1 == 0)
}

/// The replica's settings, from the configuration and the manifest.
pub(super) fn settings(config: &Config, manifest: &ActiveManifest) -> Result<Settings, String> {
    let region = Region::new(manifest.region).ok_or("active.manifest names no region")?;
    let members = manifest.members.iter().fold(1 << manifest.region, |all, (number, _)| all | 1 << number);
    let ahead_ms_max = config.active_clock_ahead_max_ms();
    Ok(Settings { region, members, ahead_ms_max, rules: Default::default() })
}

/// Reads the files of the current folder. An error says why the server cannot start.
pub(super) fn begin(config: &Config) -> Result<Begin, String> {
    let told = |error: std::io::Error| format!("active-active replication: {error}");
    let folder = std::env::current_dir().map_err(told)?;
    let (files, manifest) = ActiveFiles::open(&folder).map_err(told)?;
    let wanted = u8::try_from(config.active_region()).ok();
    match manifest {
        None => begin_anew(config, files, wanted),
        Some(manifest) => {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != manifest.region) {
                return Err(format!(
                    "active-region is {wanted}, but the files in this directory belong to region {}: a \
                     region's number cannot change. Remove active.* to start as a new region",
                    manifest.region
                ));
            }
            go_on(config, files, manifest).map_err(|error| format!("active-active replication: {error}"))
        }
    }
}

fn begin_anew(config: &Config, mut files: ActiveFiles, wanted: Option<u8>) -> Result<Begin, String> {
    let told = |error: std::io::Error| format!("active-active replication: {error}");
    let identity = braid_replication::random_id();
    let region = wanted.or_else(|| free_region(0, &identity)).unwrap_or_default();
    let mut manifest = ActiveManifest { identity, region, is_final: wanted.is_some(), ..Default::default() };
    let mut replica = Replica::new(settings(config, &manifest)?, State::default());
    let ceiling = replica.next_ceiling(unix_ms() as u64, CEILING_MS);
    manifest.ceiling = ceiling.word();
    files.note_boot().map_err(told)?;
    let (number, file) = files.begin().map_err(told)?;
    write_state(&mut replica, file).map_err(told)?;
    manifest.generation = number;
    manifest.store(files.folder()).map_err(told)?;
    replica.raise_ceiling(ceiling);
    let mut logs = Logs::default();
    logs.push(number, Vector::default());
    Ok(Begin { files, manifest, replica, backlog: Backlog::default(), logs, is_known: false })
}

/// Writes a replica's state in one go and returns its size in bytes.
pub(super) fn write_state(replica: &mut Replica, mut file: StateFile) -> std::io::Result<u64> {
    let mut saver = Saver::begin(replica);
    loop {
        match saver.piece(replica, PIECE) {
            Piece::More(bytes) => file.write(&bytes)?,
            Piece::Last(bytes) => {
                file.write(&bytes)?;
                return file.finish();
            }
            Piece::Lost => return Err(std::io::Error::other("the state changed while it was being written")),
        }
    }
}

fn load_state(bytes: Option<Vec<u8>>) -> Result<State, String> {
    let Some(bytes) = bytes else { return Err("the state file is missing".into()) };
    let mut loader = Loader::of_whole(&bytes);
    loader.feed(&mut &bytes[..]).map_err(|error| error.to_string())?;
    loader.finish().map_err(|error| error.to_string())
}

fn go_on(config: &Config, mut files: ActiveFiles, mut manifest: ActiveManifest) -> Result<Begin, String> {
    let told = |error: std::io::Error| error.to_string();
    let now_ms = unix_ms() as u64;
    let settings = settings(config, &manifest)?;
    let region = settings.region;
    let state = load_state(files.state(manifest.generation).map_err(told)?)?;
    if let Some(last) = state.last_database().filter(|last| *last >= config.databases()) {
        return Err(format!("database {last} has keys: raise 'databases' above it"));
    }
    let mut backlog = Backlog::new(state.vector.clone());
    let mut logs = kept_logs(&mut files, &manifest);
    logs.push(manifest.generation, state.vector.clone());
    let mut entries = Vec::new();
    let visit = |logged: Logged<'_>| match logged {
        Logged::Unit(record) => entries.push(Entry::Unit(record.into())),
        Logged::Copy(bytes) => entries.push(Entry::Copy(bytes)),
        Logged::Log(number) if number > manifest.generation => entries.push(Entry::Log(number)),
        Logged::Log(_) => {}
    };
    let is_same_boot = files.note_boot().map_err(told)?;
    let torn = files.resume_logs(manifest.generation, visit).map_err(told)?;
    if torn > 0 {
        log::warn!("Active-active: {torn} bytes of torn records were truncated from the logs");
    }
    let last = Stamp::from_word(manifest.ceiling).ok_or("active.manifest has no ceiling")?;
    let is_good = manifest.clean && entries.is_empty();
    let latest = state.vector.latest().max(last);
    let last = if is_same_boot && torn == 0 { last_issued(region, &state, &entries)? } else { last };
    let ceiling = ceiling_after(latest, region, now_ms, CEILING_MS);
    // From here on the run counts as crashed until a clean shutdown is recorded.
    (manifest.clean, manifest.ceiling) = (false, ceiling.word());
    manifest.store(files.folder()).map_err(told)?;
    let mut replica = if is_good {
        let mut replica = Replica::new(settings, state);
        replica.raise_ceiling(ceiling);
        replica
    } else {
        let (replica, unit) =
            Replica::restart(settings, state, last, ceiling, now_ms).map_err(|error| error.to_string())?;
        if let Some(unit) = unit {
            let (bytes, mut records) = (wire::encode(&unit), Records::default());
            records.add(&bytes);
            files.log().and_then(|log| log.append(&mut records)).map_err(told)?;
            backlog.push(unit.first, replica.vector(), &bytes);
        }
        replica
    };
    for region in (0..64).filter(|number| manifest.gone >> number & 1 == 1).filter_map(Region::new) {
        replica.remove_region(region);
    }
    let count = entries.len();
    for entry in entries {
        redo(entry, now_ms, &mut replica, (&mut backlog, &mut logs))?;
    }
    logs.set_len_of(|number| files.len_of(number));
    if !is_good {
        log::warn!(
            "Active-active: the server was not shut down cleanly; {count} units and copies were replayed \
             from the log"
        );
    }
    Ok(Begin { files, manifest, replica, backlog, logs, is_known: true })
}

/// The last stamp that the server has issued, if the log is complete.
fn last_issued(region: Region, state: &State, entries: &[Entry]) -> Result<Stamp, String> {
    let own = entries.iter().filter_map(|entry| match entry {
        Entry::Unit(bytes) => {
            wire::first(bytes).ok().filter(|first| first.region() == region).zip(Some(bytes))
        }
        Entry::Copy(_) | Entry::Log(_) => None,
    });
    let in_state = state.vector.newest_run(region).map_or(Stamp::start(region), |run| run.last);
    let Some((_, bytes)) = own.max_by_key(|(first, _)| *first) else { return Ok(in_state) };
    let unit = wire::decode(bytes).map_err(|error| format!("the log cannot be read: {error}"))?;
    Ok(in_state.max(unit.last()))
}

/// The logs older than this generation's that the manifest names and that still exist.
fn kept_logs(files: &mut ActiveFiles, manifest: &ActiveManifest) -> Logs {
    let generation = manifest.generation;
    let named = manifest.kept_logs.first().map_or(generation, |(number, _)| (*number).min(generation));
    let first = files.find_earlier(named, generation);
    let mut logs = Logs::default();
    for (number, begin) in manifest.kept_logs.iter().filter(|(number, _)| *number >= first) {
        match parse_vector(begin) {
            Some(begin) => logs.push(*number, begin),
            None => logs.clear(),
        }
    }
    logs
}

/// A log entry after the saved state.
enum Entry {
    Unit(Box<[u8]>),
    Copy(Vec<u8>),
    /// Another log file begins.
    Log(u64),
}

fn redo(
    entry: Entry,
    now_ms: u64,
    replica: &mut Replica,
    (backlog, logs): (&mut Backlog, &mut Logs),
) -> Result<(), String> {
    match entry {
        Entry::Log(number) => logs.push(number, replica.vector().clone()),
        Entry::Unit(bytes) => {
            let unit = wire::decode(&bytes).map_err(|error| format!("the log cannot be read: {error}"))?;
            // A clock set back since then is no reason to lose logged units.
            let now_ms = now_ms.max(unit.last().unix_ms());
            match replica.apply(now_ms, &unit) {
                Ok(braid_active::Applied::Now) => backlog.push(unit.first, replica.vector(), &bytes),
                Ok(braid_active::Applied::Known) => {}
                Ok(early) => log::warn!("Active-active: a unit of the log was skipped: {early:?}"),
                Err(error) => log::warn!("Active-active: a unit of the log was skipped: {error}"),
            }
        }
        Entry::Copy(bytes) => {
            let copy = load_state(Some(bytes)).map_err(|error| format!("a full copy: {error}"))?;
            let now_ms = now_ms.max(copy.vector.latest().unix_ms());
            let applied = replica.vector().clone();
            match replica.merge(now_ms, &copy) {
                Ok(()) => {
                    backlog.merges(&copy.vector, &applied);
                    logs.clear();
                }
                Err(error) => log::warn!("Active-active: a peer's full copy was skipped: {error}"),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use braid_active::effect::{Effects, Unit};
    use braid_active::vector::Run;

    use super::*;

    /// The last stamp is found among units of other regions and of earlier runs, which a server
    /// gets back from its peers.
    #[test]
    fn the_last_issued_stamp_is_in_the_state_or_the_log() {
        let stamp = |region, position| Stamp::of(Region::new(region).unwrap(), position).unwrap();
        let region = Region::new(1).unwrap();
        let last = |state: &State, entries: &[Entry]| last_issued(region, state, entries).unwrap();
        assert_eq!(last(&State::default(), &[]), Stamp::start(region));
        let unit = |region, position| {
            let first = stamp(region, position);
            let previous = stamp(region, position - 1);
            let (seen, effects) = (Vector::default(), Effects::new());
            let unit = Unit { first, previous, starts_run: true, seen, effects, seen_less: None };
            Entry::Unit(wire::encode(&unit).into())
        };
        let entries = [unit(1, 50), unit(2, 99), unit(1, 70), Entry::Log(3), unit(1, 20)];
        assert_eq!(last(&State::default(), &entries), stamp(1, 70));
        let mut state = State::default();
        state.vector.add(Run { start: stamp(1, 80), last: stamp(1, 90) });
        state.vector.add(Run { start: stamp(2, 0), last: stamp(2, 200) });
        assert_eq!(last(&state, &entries), stamp(1, 90));
    }
}
