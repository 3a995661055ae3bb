// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE: transfers keys to another server by RESTORE there, and deletes them here.
//!
//! Stock servers block until the target has answered. Here a separate thread does the work while
//! the client waits (`background.rs`) and all others are served. Only commands that write to one of
//! the keys are held back, as by a pause (`dispatch/checks.rs`). The thread
//!
//! 1. claims the keys ([`Migrations`]), which holds writers back, and waits for commands that began
//!    before;
//! 2. shares the values (`keyspace/reader.rs`), which holds each key's lock for microseconds, and
//!    watches them from then on;
//! 3. sends them and reads the replies, holding nothing;
//! 4. stops the world for a moment and deletes each acknowledged key that has not changed since it
//!    was shared. So no change is lost, and a key is never seen to come back.
//!
//! A key may still change, through commands that do not name it: a script with undeclared keys, a
//! push that serves a waiting BLMOVE, FLUSHALL. Such a key is sent again from step 2 on, with
//! REPLACE, since the target has our own older copy; a deleted one is removed there. After some
//! rounds the last one runs with the world stopped. A client that disconnects does not end this:
//! its keys would be in two places. Write pauses delay step 4; a server that has become a replica
//! aborts.
//!
//! A key has one MIGRATE at a time: otherwise one would take another's deletion for a client's
//! DEL and remove the key at the target, too. In a transaction or script everything happens at
//! one moment, as in stock servers: the command waits for the target under its locks
//! ([`move_now`]), and notifies the MIGRATEs in the background of the keys it has moved.
//!
//! Values are sent in the oldest version that can hold them, so that any target can read them,
//! and in the next one when a target refuses the version.

use std::io::ErrorKind;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_base::crc::key_hash_slot;
use braid_base::gate::World;
use braid_base::number::write_i64;
use braid_clients::attention::{JOURNAL_FULL, SNAPSHOT_FULL, STOPPING};
use braid_durable::saving::rdb_format;
use braid_executor::background::Answer;
use braid_executor::engine::Engine;
use braid_executor::engine::call::Call;
use braid_executor::state::migrations::Claims;
use braid_executor::world;
use braid_executor::{memory, world_change};
use braid_keyspace::cow_entry::CowEntry;
use braid_keyspace::reader::CowWatch;
use braid_keyspace::{Entry, Txn};
use braid_rdb::{Format, Target as Version};
use braid_spec::{CommandError, CommandResult};

pub use braid_executor::state::migrations::Migrations;
pub use braid_net::target::Credentials;
use braid_net::target::{Broken, Connection, Target};
use braid_process::connector::{ConnectError, Connector};

use crate::group::leftovers;

/// Rounds before the one with the world stopped.
const ROUNDS_MAX: usize = 3;
/// How long a commit waits before it checks again whether writes are still held back.
const LOOK: Duration = Duration::from_millis(10);
/// Versions in which a value is tried, as far as they can hold it.
const VERSIONS: [Version; 4] = [Version::Redis70, Version::Own, Version::Redis8, Version::KeyDb];
/// A target's refusal of a version, after the `-`.
const REFUSED_VERSION: &[u8] = b"ERR DUMP payload version or checksum are wrong";

/// The arguments of MIGRATE besides the keys.
pub struct Migration {
    pub host: String,
    pub port: u16,
    /// The keys' database here.
    pub db: u32,
    /// The database at the target.
    pub target_db: i64,
    /// Timeout of each step: connecting, a write, a read.
    pub timeout: Duration,
    pub copy: bool,
    pub replace: bool,
    pub credentials: Option<Credentials>,
}

/// Why not all keys were moved.
#[derive(Debug)]
enum Failure {
    Connect,
    Broken(Broken),
    /// An error of the target.
    Target(Vec<u8>),
    /// This server has become a replica.
    ReadOnly,
    /// This server is about to shut down.
    Ending,
}

impl Failure {
    fn error(&self) -> CommandError {
        match self {
            Failure::Connect => CommandError::text("IOERR error or timeout connecting to the client"),
            Failure::Broken(Broken { writing: true, .. }) => {
                CommandError::text("IOERR error or timeout writing to target instance")
            }
            Failure::Broken(Broken { writing: false, .. }) => {
                CommandError::text("IOERR error or timeout reading to target instance")
            }
            Failure::Target(line) => {
                CommandError::Bytes([&b"ERR Target instance replied with error: "[..], line].concat())
            }
            Failure::ReadOnly => CommandError::text("READONLY You can't write against a read only replica."),
            Failure::Ending => CommandError::text("ERR the server is shutting down"),
        }
    }

    /// True if nothing more can be sent.
    fn is_final(&self) -> bool {
        !matches!(self, Failure::Target(_))
    }
}

/// A key still to be moved.
struct Pending {
    key: Box<[u8]>,
    /// Index of the value's next version to try.
    version: usize,
    /// The target has an older copy of it.
    is_there: bool,
}

/// The value to send for a key.
enum Content {
    Shared(CowEntry),
    /// The payload, `None` if the value has none in the wanted version; and the expiry.
    Copied(Option<Payload>, Option<i64>),
    /// The key is gone: the target's copy must be deleted, too.
    Gone,
}

/// A value as the payload of RESTORE.
struct Payload {
    bytes: Vec<u8>,
    /// There is another version to try.
    has_next: bool,
}

/// Result of sending a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The key has expired meanwhile.
    Skipped,
    Unanswered,
    Acknowledged,
    Refused,
    /// Must be sent in another version.
    WrongVersion,
}

/// A key within a round.
struct Item {
    key: Box<[u8]>,
    version: usize,
    is_there: bool,
    content: Content,
    /// Watches the key since its content was read. `None` if the key is still locked.
    watch: Option<CowWatch>,
    outcome: Outcome,
    has_next: bool,
}

impl Item {
    fn new(pending: Pending, content: Content, watch: Option<CowWatch>) -> Item {
        let Pending { key, version, is_there } = pending;
        Item { key, version, is_there, content, watch, outcome: Outcome::Unanswered, has_next: false }
    }

    /// True if the key must be deleted here.
    fn has_moved(&self) -> bool {
        self.outcome == Outcome::Acknowledged && !matches!(self.content, Content::Gone)
    }

    fn again(&self, version: usize, is_there: bool) -> Pending {
        Pending { key: self.key.clone(), version, is_there }
    }

    /// The key for the next round, if the target wants another version.
    fn in_next_version(&self) -> Option<Pending> {
        (self.outcome == Outcome::WrongVersion).then(|| self.again(self.version + 1, self.is_there))
    }
}

/// The result of a commit.
#[derive(Default)]
struct Committed {
    pending: Vec<Pending>,
    failure: Option<Failure>,
    /// Journal offset at which its changes end; 0 if nothing was journalled.
    written_to: u64,
}

/// Moves keys and replies. At least one of them must exist.
///
/// # Errors
/// If the target cannot be reached or refuses a key: the keys that it has taken are deleted here,
/// unless they are copied. If the work is left to a background thread, its error is the reply.
pub fn migrate_keys(call: &mut Call<'_, '_>, migration: Migration, keys: Vec<Box<[u8]>>) -> CommandResult {
    let engine = call.engine;
    if call.may_leave(false)
        && let Some(reservation) = engine.migrations.reserve()
    {
        if let Some(answer) = call.leave_to_background()? {
            let weak = engine.weak();
            reservation.give(move || {
                if let Some(engine) = weak.upgrade() {
                    migrate(&engine, &migration, keys, answer);
                }
            });
        }
        return Ok(());
    }
    let slot = key_hash_slot(&keys[0]);
    let (failure, deleted) = move_now(engine, call.keyspace, &migration, first(keys));
    note_failure(engine, &migration, slot, failure.is_some());
    let deleted: Vec<&[u8]> = deleted.iter().map(|key| &**key).collect();
    engine.migrations.note_moved(migration.db, &deleted);
    if !deleted.is_empty() {
        call.keyspace.journal_as(&del(&deleted));
    }
    match failure {
        Some(failure) => Err(failure.error()),
        None => {
            call.reply.ok();
            Ok(())
        }
    }
}

/// The target may have keys of a MIGRATE that failed, also if it replied with an error: with
/// synchronous writes that may mean that its replicas do not have them yet. All keys are of one
/// slot.
fn note_failure(engine: &Engine, migration: &Migration, slot: u16, has_failed: bool) {
    if has_failed && !migration.copy {
        leftovers::note_interrupted(engine, slot);
    }
}

fn first(keys: Vec<Box<[u8]>>) -> Vec<Pending> {
    keys.into_iter().map(|key| Pending { key, version: 0, is_there: false }).collect()
}

fn del<'k>(keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
    std::iter::once(&b"DEL"[..]).chain(keys.iter().copied()).collect()
}

/// The job of a thread of [`Migrations`].
fn migrate(engine: &Engine, migration: &Migration, keys: Vec<Box<[u8]>>, answer: Answer) {
    if !answer.is_wanted() {
        return;
    }
    let claimed = if migration.copy { &[][..] } else { &keys };
    let claims = engine.migrations.claim(migration.db, claimed, &engine.attention, &engine.clients.mailboxes);
    if !migration.copy {
        // Commands that were checked before the claim have left the gate afterwards.
        world::wait_for_commands(engine);
    }
    let slot = key_hash_slot(&keys[0]);
    let mut pending = first(keys);
    let (mut failure, mut written_to, mut found) = (None, 0, false);
    for round in 0..=ROUNDS_MAX {
        let ended = if round < ROUNDS_MAX {
            let mut items = share_values(engine, migration, pending);
            found |= !items.is_empty();
            one_round(engine, migration, &mut items, &claims, &mut failure)
        } else {
            last_round(engine, migration, pending)
        };
        written_to = written_to.max(ended.written_to);
        let is_final = ended.failure.as_ref().is_some_and(Failure::is_final);
        failure = failure.or(ended.failure);
        pending = ended.pending;
        if pending.is_empty() || is_final {
            break;
        }
    }
    drop(claims);
    note_failure(engine, migration, slot, failure.is_some());
    let mut reply = answer.buffer();
    match failure {
        Some(failure) => reply.error_bytes(&failure.error().line()),
        None if found => reply.ok(),
        None => reply.simple("NOKEY"),
    }
    answer.give_after(reply, written_to);
}

/// Shares the keys' current values. Missing keys are left out, unless the target has a copy.
fn share_values(engine: &Engine, migration: &Migration, pending: Vec<Pending>) -> Vec<Item> {
    let mut items = Vec::with_capacity(pending.len());
    for key in pending {
        let now = unix_ms();
        let copy = |entry: Entry<'_>| (payload(engine, entry, key.version, now), entry.expiry());
        let shared = engine.keyspace.reader().share_or_copy(migration.db, now, &key.key, copy);
        let (content, watch) = match shared {
            Some((Ok(entry), watch)) => (Content::Shared(entry), Some(watch)),
            Some((Err((payload, expiry)), watch)) => (Content::Copied(payload, expiry), Some(watch)),
            None if key.is_there => (Content::Gone, None),
            None => continue,
        };
        items.push(Item::new(key, content, watch));
    }
    items
}

/// Sends keys, and deletes those that can be deleted.
fn one_round(
    engine: &Engine,
    migration: &Migration,
    items: &mut [Item],
    claims: &Claims<'_>,
    failure: &mut Option<Failure>,
) -> Committed {
    if items.is_empty() {
        return Committed::default();
    }
    let told = exchange(engine, migration, items);
    let is_final = told.as_ref().is_some_and(Failure::is_final);
    *failure = failure.take().or(told);
    let mut ended = Committed::default();
    if !migration.copy && items.iter().any(Item::has_moved) {
        ended = commit(engine, migration.db, items, claims);
    }
    if is_final {
        ended.pending.clear();
    } else {
        ended.pending.extend(items.iter().filter_map(Item::in_next_version));
    }
    // The world is running again: a reader must enter the gate.
    for watch in items.iter_mut().filter_map(|item| item.watch.take()) {
        engine.keyspace.reader().unwatch(&watch);
    }
    ended
}

/// Stops the world for a change of keys, once nothing holds writes back.
pub(crate) fn world_for_changes(engine: &Engine) -> Result<World<'_>, CommandError> {
    world_for_writes(engine).map_err(|failure| failure.error())
}

fn world_for_writes(engine: &Engine) -> Result<World<'_>, Failure> {
    loop {
        let world = world::stop(engine);
        let state = engine.attention.get();
        if state & STOPPING != 0 {
            return Err(Failure::Ending);
        }
        if engine.replication.link.is_replica() && engine.config.replica_read_only() {
            return Err(Failure::ReadOnly);
        }
        if !memory::is_paused(engine, unix_ms()) && state & (JOURNAL_FULL | SNAPSHOT_FULL) == 0 {
            return Ok(world);
        }
        drop(world);
        std::thread::sleep(LOOK);
    }
}

/// Runs `change` with the world stopped, with the follow-up work for changed keys. `change`
/// returns the keys that it has deleted.
fn change_all<R>(
    engine: &Engine,
    db: u32,
    change: impl FnOnce(&mut Txn<'_>) -> (R, Vec<Box<[u8]>>),
) -> Result<(R, u64), Failure> {
    let world = world_for_writes(engine)?;
    // The first loop's context is free while the world is stopped.
    let mut worker = engine.worker(0);
    Ok(world_change::change_in_world(engine, world, &mut worker, db, unix_ms(), |txn| {
        let (result, deleted) = change(txn);
        if !deleted.is_empty() {
            txn.journal_too(&del(&deleted.iter().map(|key| &**key).collect::<Vec<_>>()));
        }
        txn.journal_now();
        (result, txn.context.journal.end)
    }))
}

/// Deletes keys, each given with its slot, with the follow-up work, if `is_wanted` still
/// holds for the slot once the world is stopped.
///
/// # Errors
/// This server has become a replica, or is about to shut down.
pub(crate) fn delete_keys(
    engine: &Engine,
    db: u32,
    mut keys: Vec<(u16, Box<[u8]>)>,
    is_wanted: impl Fn(u16) -> bool,
) -> Result<(), CommandError> {
    let deleted = change_all(engine, db, |txn| {
        let mut last = None;
        keys.retain(|(slot, key)| {
            let wanted = match last {
                Some((of, wanted)) if of == *slot => wanted,
                _ => is_wanted(*slot),
            };
            last = Some((*slot, wanted));
            wanted && txn.delete(key)
        });
        ((), keys.into_iter().map(|(_, key)| key).collect())
    });
    deleted.map(drop).map_err(|failure| failure.error())
}

/// Deletes the keys that have not changed since they were sent; the others must be sent again.
fn commit(engine: &Engine, db: u32, items: &[Item], claims: &Claims<'_>) -> Committed {
    let committed = change_all(engine, db, |txn| {
        let now = txn.now();
        let arrived = items.iter().filter(|item| item.has_moved());
        // Evaluated before any deletion, because a key may be named twice.
        let unchanged = |item: &Item| item.watch.as_ref().is_some_and(|watch| watch.holds(now));
        let arrived: Vec<(&Item, bool)> = arrived.map(|item| (item, unchanged(item))).collect();
        let (mut pending, mut deleted) = (Vec::new(), Vec::new());
        for (item, is_unchanged) in arrived {
            let key = &item.key;
            if is_unchanged {
                if txn.delete(key) {
                    deleted.push(key.clone());
                }
            } else if !claims.is_moved(db, key) && !has_expired(item, txn) {
                pending.push(item.again(item.version, true));
            }
        }
        (pending, deleted)
    });
    match committed {
        Ok((pending, written_to)) => Committed { pending, written_to, failure: None },
        Err(failure) => Committed { failure: Some(failure), ..Committed::default() },
    }
}

/// Moves keys with the world stopped.
fn last_round(engine: &Engine, migration: &Migration, pending: Vec<Pending>) -> Committed {
    let moved = change_all(engine, migration.db, |txn| move_now(engine, txn, migration, pending));
    match moved {
        Ok((failure, written_to)) => Committed { failure, written_to, pending: Vec::new() },
        Err(failure) => Committed { failure: Some(failure), ..Committed::default() },
    }
}

/// The payload of a value in one of the versions that can hold it. `None` if there is no such
/// version, or all members of the value have expired.
fn payload(engine: &Engine, entry: Entry<'_>, version: usize, now_ms: i64) -> Option<Payload> {
    let value = braid_persistence::to_rdb(entry);
    let configured = rdb_format(&engine.config);
    let versions: Vec<Format> = match configured.target {
        Version::Own => VERSIONS
            .map(|target| Format { target, now_ms })
            .into_iter()
            .filter(|format| !format.is_foreign(value) && format.times_left_out(value, false) == 0)
            .collect(),
        _ => vec![configured],
    };
    let format = *versions.get(version)?;
    if format.is_void(value) {
        return None;
    }
    let bytes = braid_rdb::dump(value, format, engine.config.rdbcompression());
    Some(Payload { bytes, has_next: version + 1 < versions.len() })
}

/// Sends the keys and reads the target's reply to each. A connection that breaks before the
/// first reply is reopened once, unless it timed out.
fn exchange(engine: &Engine, migration: &Migration, items: &mut [Item]) -> Option<Failure> {
    let target = Target {
        host: migration.host.clone(),
        port: migration.port,
        credentials: migration.credentials.clone(),
        tls: engine.config.tls_cluster(),
    };
    let mut may_retry = true;
    loop {
        let mut connection = match connection(engine, &target, migration.timeout) {
            Ok(connection) => connection,
            Err(failure) => return Some(failure),
        };
        items.iter_mut().for_each(|item| item.outcome = Outcome::Unanswered);
        let mut refusal = None;
        let Err(broken) = talk(engine, &mut connection, migration, items, &mut refusal) else {
            engine.migrations.keep(target, connection);
            return refusal;
        };
        // A key that arrived after this would be there and here.
        connection.abort();
        let is_silent =
            items.iter().all(|item| matches!(item.outcome, Outcome::Unanswered | Outcome::Skipped));
        if !(is_silent && may_retry && !broken.timed_out) {
            return refusal.or(Some(Failure::Broken(broken)));
        }
        may_retry = false;
    }
}

fn connection(engine: &Engine, target: &Target, timeout: Duration) -> Result<Connection, Failure> {
    if let Some(kept) = engine.migrations.take(target) {
        return Ok(kept);
    }
    let connector = Connector::new(&engine.config, target.tls, timeout);
    connector.open(&target.host, target.port).map_err(|error| match error {
        ConnectError::Settings(why) => {
            log::warn!("MIGRATE cannot use TLS: {why}");
            Failure::Connect
        }
        ConnectError::Socket(error) => {
            log::debug!("MIGRATE to {}:{}: {error}", target.host, target.port);
            match error.kind() {
                // Stock servers notice this when they write.
                ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable => {
                    Failure::Broken(Broken { writing: true, timed_out: false })
                }
                _ => Failure::Connect,
            }
        }
    })
}

/// Logs in, selects the database, sends everything, reads all replies. `refusal`: the first
/// error of the target.
fn talk(
    engine: &Engine,
    connection: &mut Connection,
    migration: &Migration,
    items: &mut [Item],
    refusal: &mut Option<Failure>,
) -> Result<(), Broken> {
    connection.set_timeout(migration.timeout)?;
    if let Some(line) = enter(connection, migration)? {
        *refusal = Some(Failure::Target(line));
        items.iter_mut().for_each(|item| item.outcome = Outcome::Refused);
        return Ok(());
    }
    for item in items.iter_mut() {
        send(engine, connection, migration, item)?;
    }
    connection.flush()?;
    for item in items.iter_mut().filter(|item| item.outcome != Outcome::Skipped) {
        let line = connection.line()?;
        let Some(error) = line.strip_prefix(b"-") else {
            item.outcome = Outcome::Acknowledged;
            continue;
        };
        if error.starts_with(REFUSED_VERSION) && item.has_next {
            item.outcome = Outcome::WrongVersion;
            continue;
        }
        item.outcome = Outcome::Refused;
        connection.selected = None;
        refusal.get_or_insert_with(|| Failure::Target(error.to_vec()));
    }
    Ok(())
}

fn send(
    engine: &Engine,
    connection: &mut Connection,
    migration: &Migration,
    item: &mut Item,
) -> Result<(), Broken> {
    let now = unix_ms();
    let made;
    let (payload, expiry) = match &item.content {
        Content::Gone => return connection.request(&[b"DEL".as_slice(), &item.key]),
        Content::Copied(payload, expiry) => (payload.as_ref(), *expiry),
        Content::Shared(entry) => {
            made = payload(engine, entry.entry(), item.version, now);
            (made.as_ref(), entry.entry().expiry())
        }
    };
    let ttl = expiry.map_or(0, |at| (at - now).max(1));
    let payload = payload.filter(|_| expiry.is_none_or(|at| at >= now));
    let Some(payload) = payload else {
        item.outcome = Outcome::Skipped;
        return Ok(());
    };
    item.has_next = payload.has_next;
    let name: &[u8] = if engine.config.cluster_enabled() { b"RESTORE-ASKING" } else { b"RESTORE" };
    let mut number = [0; 20];
    let args = [name, &item.key, write_i64(&mut number, ttl), &payload.bytes, b"REPLACE"];
    let replaces = migration.replace || item.is_there;
    connection.request(if replaces { &args } else { &args[..4] })
}

/// Logs in and selects the database. Nothing else is sent before both have succeeded, so that
/// keys cannot get into another database. Returns the target's error.
fn enter(connection: &mut Connection, migration: &Migration) -> Result<Option<Vec<u8>>, Broken> {
    let mut questions = 0;
    if let Some(Credentials { name, password }) = &migration.credentials {
        match name {
            Some(name) => connection.request(&[b"AUTH", name, password])?,
            None => connection.request(&[b"AUTH", password])?,
        }
        questions += 1;
    }
    if connection.selected != Some(migration.target_db) {
        let mut number = [0; 20];
        connection.request(&[b"SELECT", write_i64(&mut number, migration.target_db)])?;
        questions += 1;
    }
    connection.flush()?;
    let mut refusal = None;
    for _ in 0..questions {
        if let Some(error) = connection.line()?.strip_prefix(b"-") {
            refusal.get_or_insert_with(|| error.to_vec());
        }
    }
    connection.selected = refusal.is_none().then_some(migration.target_db);
    Ok(refusal)
}

/// True if a key is gone because it has expired: then it expires at the target, too.
fn has_expired(item: &Item, txn: &Txn<'_>) -> bool {
    item.watch.as_ref().is_some_and(|watch| watch.is_past(txn.now())) && txn.peek(&item.key).is_none()
}

/// Moves keys under the held locks, which last until the target has answered. Returns the deleted
/// keys.
fn move_now(
    engine: &Engine,
    txn: &mut Txn<'_>,
    migration: &Migration,
    mut pending: Vec<Pending>,
) -> (Option<Failure>, Vec<Box<[u8]>>) {
    let (mut failure, mut deleted) = (None, Vec::new());
    while !pending.is_empty() {
        let mut items = Vec::with_capacity(pending.len());
        for key in pending {
            let content = match txn.peek(&key.key) {
                Some(entry) => {
                    let payload = payload(engine, entry, key.version, unix_ms());
                    Content::Copied(payload, entry.expiry())
                }
                None if key.is_there => Content::Gone,
                None => continue,
            };
            items.push(Item::new(key, content, None));
        }
        let told = exchange(engine, migration, &mut items);
        let is_final = told.as_ref().is_some_and(Failure::is_final);
        failure = failure.or(told);
        for item in items.iter().filter(|item| item.has_moved() && !migration.copy) {
            if txn.delete(&item.key) {
                deleted.push(item.key.clone());
            }
        }
        pending =
            if is_final { Vec::new() } else { items.iter().filter_map(Item::in_next_version).collect() };
    }
    (failure, deleted)
}
