// SPDX-License-Identifier: BSD-3-Clause
//! Full syncs: when to begin one, for which replicas, and how to write it.
//!
//! A full sync is a snapshot like that of a background save, and there is one snapshot at a time:
//! another one waits for its end. All replicas waiting for the same parts of the dataset share a
//! full sync, and a later replica joins if the start is still buffered.
//!
//! Unless `rdb-target` says otherwise, each gets the form that it reads ([`Reads`]): Braid its own,
//! which loses nothing, others that of Redis 7.0, since a replica does not say which version it
//! reads. That form has no times for hash fields, and a stock replica deletes its dataset before it
//! finds a copy unreadable. So one that does not say that it reads such times is refused while
//! members expire, with the directive's name.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_config::RdbTarget;
use braid_durable::background_save::{self, old_forms_limit};
use braid_durable::saving::Settings;
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_REPLICAS};
use braid_executor::processors::{self, Work};
use braid_executor::session::Session;
use braid_executor::threads;
use braid_executor::world;
use braid_keyspace::object::{self, Descriptor};
use braid_persistence::Cut;
use braid_persistence::files::{self, File};
use braid_persistence::temporary::{Purpose, temporary_path};
use braid_replication::replicas::full_sync::FullSyncWriter;
use braid_replication::{Filter, FullSync, Reads, Replica, ReplicaOptions, Stage};

use crate::position::{self, Position};
use crate::replicas;

/// Delay, in ms, of the next full sync after a failed one.
const RETRY_MS: i64 = 1000;

/// Why a replica is refused a full sync that it may not be able to read.
const UNREADABLE: &str = "members of keys expire, and a replica that does not state its version may \
                          not read that: set rdb-target on the primary, for example to redis-8";

/// Why a replica is refused that may lack a type of value.
const TYPE_UNKNOWN: &str = "there are JSON documents or vector sets, and a replica that does not state its version may not \
                            have that type: set rdb-target on the primary to redis-8 if it has";

/// A full sync to be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    filter: Filter,
    /// The replicas that can read it; `None`: all.
    reads: Option<Reads>,
    /// Written to memory, not to a file.
    streamed: bool,
    /// Some replicas want more than the full sync: they continue from its offset.
    needs_offset: bool,
}

/// The full sync for the waiting replicas: for the first of them, and all others with the same
/// filter that read the same (`is_for_all`: they all read what is written). `None` while they
/// should wait for more replicas.
fn plan(
    replicas: &[Arc<Replica>],
    now_ms: i64,
    (streams, is_for_all): (bool, bool),
    delay_ms: i64,
    enough: usize,
) -> Option<Plan> {
    let waits = |replica: &&Arc<Replica>| replica.stage() == Stage::Waits;
    let first = &replicas.iter().find(waits)?.options;
    let (filter, reads) = (first.filter, (!is_for_all).then(|| first.reads()));
    let is_alike = |options: &ReplicaOptions| {
        options.filter == filter && reads.is_none_or(|reads| reads == options.reads())
    };
    let group = || replicas.iter().filter(waits).filter(|replica| is_alike(&replica.options));
    // A partial dataset must not be stored in a file that is called a dump.
    let streamed = (streams || filter != Filter::ALL) && group().all(|replica| replica.options.eof);
    let since_ms = group().map(|replica| replica.since_ms).min()?;
    let is_due = !streamed || now_ms - since_ms >= delay_ms || (enough > 0 && group().count() >= enough);
    let needs_offset = group().any(|replica| replica.options.needs_offset());
    is_due.then_some(Plan { filter, reads, streamed, needs_offset })
}

/// Begins a full sync that is due. Called by the first loop's cron, outside of the gate.
pub(super) fn begin_full_sync_if_due(engine: &Engine, now_ms: i64) {
    let is_busy = background_save::is_saving(engine)
        || engine.append_only.rewriting.load(Relaxed)
        || engine.persistence.progress.active.load(Relaxed);
    if is_busy {
        return;
    }
    let config = &engine.config;
    let delay_ms = i64::from(config.repl_diskless_sync_delay_seconds()) * 1000;
    let enough = config.repl_diskless_sync_max_replicas() as usize;
    let plan = {
        let state = engine.replication.state.lock();
        if now_ms < state.not_before_ms {
            return;
        }
        let is_waiting = state.replicas.iter().any(|replica| replica.stage() == Stage::Waits);
        // In a group there is nobody else to wait for.
        let delay_ms = if is_waiting && has_all_members(engine, &state.replicas) { 0 } else { delay_ms };
        let is_for_all = config.rdb_target() != RdbTarget::Braid;
        let form = (config.repl_diskless_sync(), is_for_all);
        plan(&state.replicas, now_ms, form, delay_ms, enough)
    };
    let Some(plan) = plan else { return };
    engine.replication.progress.begin();
    engine.replication.full_sync_active.store(true, Relaxed);
    let thread = threads::spawn(engine, "full-copy", move |engine| {
        processors::bind_thread(engine, Work::Save);
        if let Err(error) = run_full_sync(engine, plan) {
            log::warn!("A full copy for replicas has failed: {error}");
            engine.replication.state.lock().not_before_ms = unix_ms() + RETRY_MS;
        }
        engine.replication.full_sync_active.store(false, Relaxed);
    });
    if let Err(error) = thread {
        log::warn!("Can't make a full copy for replicas: {error}");
        engine.replication.state.lock().not_before_ms = now_ms + RETRY_MS;
        engine.replication.full_sync_active.store(false, Relaxed);
    }
}

fn run_full_sync(engine: &Engine, plan: Plan) -> std::io::Result<()> {
    let file = if plan.streamed { None } else { Some(nameless_file()?) };
    let (full_sync, cut, mut settings) = {
        let world = world::stop(engine);
        let keyspace = &engine.keyspace;
        let expiring = keyspace.has_expiring_members();
        let settings = Settings::for_full_sync(engine, plan.reads, expiring);
        if expiring {
            refuse_unreadable(engine);
        }
        let cut = if plan.filter.keys {
            let forms = &engine.background_save.forms;
            let limit = old_forms_limit();
            let form = settings.form();
            let Some(cut) = braid_persistence::cut(keyspace, &world, forms, limit, form) else {
                // A save to disk was started first.
                return Ok(());
            };
            Some(cut)
        } else {
            None
        };
        let keys = cut.as_ref().map_or(0, Cut::keys);
        engine.replication.full_sync_keys.store(keys, Relaxed);
        let offset = plan.needs_offset.then(|| begin_stream(engine));
        let full_sync = FullSync::new(
            Arc::clone(&engine.clients.mailboxes),
            replicas::must_go_on(engine),
            offset,
            (plan.filter, plan.reads),
            file,
        );
        share(engine, &full_sync);
        (full_sync, cut, settings)
    };
    log::info!(
        "Starting a full copy for replicas with target: {}",
        if plan.streamed { "replicas sockets" } else { "disk" }
    );
    if !plan.filter.functions {
        settings.forget_functions();
    }
    let outcome = write_full_sync(engine, &full_sync, cut, &settings);
    // Replicas that arrive from now on wait for the next full sync.
    engine.replication.state.lock().full_sync = None;
    full_sync.end(outcome.is_ok());
    let bytes = outcome?;
    log::info!("A full copy for replicas is complete: {bytes} bytes");
    Ok(())
}

/// Why a full sync would be unreadable for a replica: members expire, and it has not said that
/// it reads that.
fn unreadable(engine: &Engine, options: &ReplicaOptions) -> Option<&'static str> {
    // Clients that are no servers have no data to lose.
    let is_unreadable = options.port != 0
        && options.reads() == Reads::Unstated
        && engine.config.rdb_target() == RdbTarget::Braid
        && engine.keyspace.has_expiring_members();
    is_unreadable.then_some(UNREADABLE).or_else(|| lacks_a_type(engine, options))
}

/// Why a replica cannot follow at all: there are values of a type that it may lack.
fn lacks_a_type(engine: &Engine, options: &ReplicaOptions) -> Option<&'static str> {
    let has_type = options.port == 0
        || match options.reads() {
            Reads::Own => true,
            Reads::Unstated => engine.config.rdb_target() == RdbTarget::Redis8,
            Reads::Valkey9 => false,
        };
    let is_lacking = !has_type && object::types().any(Descriptor::refuses_others);
    is_lacking.then_some(TYPE_UNKNOWN)
}

/// The reason for refusing a replica that cannot follow, or that needs a full sync and cannot
/// read it.
pub fn unreadable_for(
    engine: &Engine,
    session: &Session,
    position: Option<&Position<'_>>,
) -> Option<&'static str> {
    let options = session.replication.options.as_deref()?;
    let reason = unreadable(engine, options)?;
    let resumes =
        |position: &Position<'_>| position::can_resume_at(engine, &engine.replication.state.lock(), position);
    if lacks_a_type(engine, options).is_none() && position.is_some_and(resumes) {
        return None;
    }
    log::warn!("A replica at port {} is refused: {reason}", options.port);
    Some(reason)
}

/// Closes the connections of waiting replicas that cannot read the full sync about to be
/// written: members expire only since their request.
fn refuse_unreadable(engine: &Engine) {
    refuse(engine, |replica| match replica.stage() {
        Stage::Waits => unreadable(engine, &replica.options),
        _ => None,
    });
}

/// Closes the connections of replicas that cannot follow: the first value of a type that they
/// may lack has been made since they came.
pub(super) fn refuse_those_that_lack_a_type(engine: &Engine) {
    refuse(engine, |replica| match replica.stage() {
        Stage::Gone => None,
        _ => lacks_a_type(engine, &replica.options),
    });
}

fn refuse(engine: &Engine, reason: impl Fn(&Replica) -> Option<&'static str>) {
    let state = engine.replication.state.lock();
    for replica in &state.replicas {
        if let Some(reason) = reason(replica) {
            log::warn!("Replica {} is refused: {reason}", replica.name());
            replica.set_stage(Stage::Gone);
            engine.clients.registry.disconnect(&replica.record);
        }
    }
}

fn write_full_sync(
    engine: &Engine,
    full_sync: &Arc<FullSync>,
    cut: Option<Cut>,
    settings: &Settings,
) -> std::io::Result<u64> {
    let notes = settings.notes();
    let options = settings.options(&notes);
    let writer = Box::new(FullSyncWriter(Arc::clone(full_sync)));
    match cut {
        Some(cut) => {
            let progress = &engine.replication.progress;
            let sent = braid_persistence::send_snapshot(&engine.keyspace, cut, &options, writer, progress);
            sent.map(|(_, bytes)| bytes)
        }
        None => braid_persistence::send_without_keys(&options, writer),
    }
}

/// The offset from which replicas with a full sync of the current dataset continue. The world
/// is stopped. If nothing has been kept for replicas so far, a new history begins, because
/// earlier changes are recorded nowhere.
fn begin_stream(engine: &Engine) -> u64 {
    let journal = &engine.keyspace.journal;
    if journal.backlog().is_none() {
        let mut state = engine.replication.state.lock();
        state.history.begin_anew();
        journal_uses::begin_backlog(engine);
        log::info!("Replication backlog created, my new replication ID is '{}'", state.history.id());
    }
    journal_uses::set_journal_use(engine, FOR_REPLICAS, true);
    if engine.replication.link.is_replica() {
        // The stream is the primary's: the full sync states its database.
        return journal.end();
    }
    journal.forget_database()
}

/// Adds all replicas that wait for such a full sync.
fn share(engine: &Engine, full_sync: &Arc<FullSync>) {
    let mut state = engine.replication.state.lock();
    for replica in &state.replicas.clone() {
        if replica.stage() == Stage::Waits && full_sync.serves(&replica.options) {
            replicas::join(engine, &mut state, replica, full_sync);
            replica.record.send(braid_clients::Message::Feed(replica.record.id));
        }
    }
    state.full_sync = Some(Arc::clone(full_sync));
}

/// True if every known server of this server's group that is up, other than this one, is
/// connected as a replica.
fn has_all_members(engine: &Engine, replicas: &[Arc<Replica>]) -> bool {
    let map = engine.cluster_map();
    engine.group.as_ref().is_some_and(|group| group.has_all_members(map, replicas))
}

/// Aborts a full sync in progress, and waits a limited time for its end.
pub fn stop_full_syncs(engine: &Engine) {
    let mut rounds = 0;
    while engine.replication.full_sync_active.load(Relaxed) && rounds < 100 {
        engine.replication.progress.stop();
        std::thread::sleep(std::time::Duration::from_millis(10));
        rounds += 1;
    }
}

/// A file in the current folder that disappears with its last user.
fn nameless_file() -> std::io::Result<File> {
    files::nameless(&temporary_path(Path::new(""), Purpose::FullSync))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_clients::{Address, ClientRecord};

    fn replica(id: u64, since_ms: i64, options: ReplicaOptions) -> Arc<Replica> {
        let record = Arc::new(ClientRecord::new(id, 0, Address::Unknown, Address::Unknown, 0));
        Arc::new(Replica::new(record, options, true, since_ms))
    }

    #[test]
    fn replicas_with_equal_options_share_a_delayed_full_sync() {
        let all = Filter { keys: true, functions: true };
        let none = Filter { keys: false, functions: true };
        let modern = ReplicaOptions { eof: true, ..ReplicaOptions::default() };
        let mut replicas = vec![replica(1, 1000, modern.clone()), replica(2, 3000, modern.clone())];
        assert_eq!(plan(&[], 9000, (true, true), 5000, 0), None);
        assert_eq!(plan(&replicas, 5999, (true, true), 5000, 0), None);
        let streamed = Some(Plan { filter: all, reads: None, streamed: true, needs_offset: true });
        assert_eq!(plan(&replicas, 6000, (true, true), 5000, 0), streamed);
        assert_eq!(plan(&replicas, 3000, (true, true), 5000, 2), streamed, "enough replicas are waiting");
        let file = Some(Plan { filter: all, reads: None, streamed: false, needs_offset: true });
        assert_eq!(
            plan(&replicas, 3000, (false, true), 5000, 0),
            file,
            "a full sync to a file waits for no other replica"
        );
        replicas.push(replica(3, 5000, ReplicaOptions { filter: none, ..ReplicaOptions::default() }));
        assert_eq!(plan(&replicas, 6000, (true, true), 5000, 0), streamed, "replica 3 has another filter");
        replicas.push(replica(4, 5000, ReplicaOptions::default()));
        assert_eq!(
            plan(&replicas, 6000, (true, true), 5000, 0),
            file,
            "a replica cannot detect the stream's end"
        );
        replicas[0].set_stage(Stage::Copying);
        replicas[1].set_stage(Stage::Online);
        replicas[3].set_stage(Stage::Gone);
        assert_eq!(
            plan(&replicas, 6000, (false, true), 5000, 0),
            Some(Plan { filter: none, reads: None, streamed: false, needs_offset: true })
        );
    }

    #[test]
    fn replicas_that_read_different_forms_get_different_full_syncs() {
        let with =
            |keepalive, valkey| ReplicaOptions { eof: true, keepalive, valkey, ..ReplicaOptions::default() };
        let replicas = [
            replica(1, 0, with(false, 0)),
            replica(2, 0, with(true, 0)),
            replica(3, 0, with(false, 9)),
            replica(4, 0, with(true, 9)),
        ];
        let reads = || plan(&replicas, 9000, (true, false), 0, 0).map(|plan| plan.reads.expect("a form"));
        assert_eq!(reads(), Some(Reads::Unstated));
        replicas[0].set_stage(Stage::Copying);
        assert_eq!(reads(), Some(Reads::Own));
        let full_sync = |reads| {
            FullSync::new(
                Arc::new(braid_clients::Mailboxes::new(1)),
                Box::new(|| false),
                Some(0),
                (Filter::ALL, reads),
                None,
            )
        };
        let served = |reads| replicas.each_ref().map(|replica| full_sync(reads).serves(&replica.options));
        assert_eq!(served(Some(Reads::Own)), [false, true, false, true]);
        assert_eq!(served(Some(Reads::Valkey9)), [false, false, true, false]);
        assert_eq!(served(None), [true; 4]);
        assert_eq!(plan(&replicas, 9000, (true, true), 0, 0).map(|plan| plan.reads), Some(None));
    }
}
