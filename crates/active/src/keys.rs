// SPDX-License-Identifier: BSD-3-Clause
//! All keys of a replica, and the index of those with [garbage](crate::garbage).

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use braid_keyspace::HeldString;
use smallvec::SmallVec;

use crate::amount::Amount;
use crate::cell::{At, CellChange, Sides, Sum};
use crate::change::{Change, Kind, SeenAt, UnitWrite, Written};
use crate::database::{Database, KeyRef};
use crate::effect::{Effect, FlushSeen};
use crate::evicted::Mark;
use crate::garbage::Garbage;
use crate::hidden::{flushes, is_of_clients};
use crate::key::Key;
use crate::plain::{Plain, Plains};
use crate::rules::Rules;
use crate::saving::{MARK, Out, Saving};
use crate::stamp::{Region, Stamp};
use crate::stored::{Stored, load_len};
use crate::value::Value;
use crate::vector::Seen;
use crate::{KeyId, Name, Text};

/// Marks of evicted keys sampled per database to find old ones.
const MARKS_SAMPLED: usize = 4096;
/// Plain strings that are added together.
pub(crate) const TOGETHER: usize = 32;

/// A key with the hash of its name ([`Replica::hash`](crate::Replica::hash)).
#[derive(Clone, Copy, Debug)]
pub struct Hashed<'n> {
    pub database: u32,
    pub hash: u64,
    pub name: &'n [u8],
}

#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// By database.
    all: BTreeMap<u32, Database>,
    hasher: Hasher,
    garbage: Garbage,
    /// The save or digest in progress.
    saving: Option<Box<Saving>>,
    /// The number of saves and digests started so far.
    savings: u64,
    /// The latest stamp of the dropped marks of evicted keys.
    pub horizon: Stamp,
    /// Evicted keys that clients here have written, and that show more than those clients know
    /// of.
    revived: Vec<KeyId>,
    /// Changes so far.
    pub changes: u64,
    /// The number of values that became hidden behind a value of another type.
    pub type_conflicts: u64,
    /// The number of values that lost to a concurrent write of another region, by type. Not
    /// saved.
    pub conflicts: [u64; Kind::ALL.len()],
}

/// Shared by all databases of all replicas in this process, including recreated databases: a name
/// is in the same bucket of any two tables with equally many.
#[derive(Clone, Debug)]
struct Hasher(RandomState);

impl Default for Hasher {
    fn default() -> Hasher {
        static SHARED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Hasher(SHARED.clone())
    }
}

/// The keys of a database whose names are in one bucket if there are `among` buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeysPart {
    pub database: u32,
    pub bucket: usize,
    pub among: usize,
}

/// The changes that merging a part of another replica's keys makes.
#[derive(Debug, Default)]
pub struct Changes<'t> {
    /// Plain strings that are new here or replace everything here.
    pub new: Vec<(u32, &'t [u8], Plain<'t>)>,
    /// Other changed keys, in their merged form.
    pub merged: Vec<(u32, Name, Key)>,
    /// Keys with an eviction mark on either side.
    pub evicted: Vec<KeyId>,
    /// Unchanged keys that hold garbage.
    garbage: Vec<KeyId>,
}

impl Keys {
    pub fn get(&self, database: u32, name: &[u8]) -> Option<KeyRef<'_>> {
        self.all.get(&database)?.get(name)
    }

    pub fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.0.hash_one(name)
    }

    /// Prefetches keys, by database and hash of the name.
    pub fn prefetch(&self, hashed: &[(u32, u64)]) {
        let each = |one: fn(&Database, u64)| {
            let found = hashed.iter().filter_map(|(database, hash)| Some((self.all.get(database)?, *hash)));
            found.for_each(|(keys, hash)| one(keys, hash));
        };
        each(|keys, hash| {
            keys.plain.prefetch_bucket(hash);
            keys.others.prefetch_bucket(hash);
        });
        each(|keys, hash| {
            keys.plain.prefetch_strings(hash);
            keys.others.prefetch_list(hash);
        });
        if self.all.values().any(|keys| keys.others.len() > 0) {
            each(|keys, hash| keys.others.prefetch_key(hash));
            each(|keys, hash| keys.others.prefetch_marks(hash));
        }
    }

    /// Applies a [plain write](crate::write), with the same result as [`Keys::apply`]: of a string
    /// to a key that does not exist, or is a plain string that the write replaces; of a part to a
    /// key that is visible and has nothing else. Returns false, and changes nothing, in any other
    /// case.
    pub fn write(&mut self, at: &At, key: Hashed<'_>, written: UnitWrite<'_>) -> bool {
        match written {
            Written::Text(value) => self.write_text(at, key, value),
            written => self.write_part(at, key, written),
        }
    }

    fn write_text(&mut self, at: &At, key: Hashed<'_>, value: &[u8]) -> bool {
        let Hashed { database, hash, name } = key;
        let Some(keys) = self.all.get_mut(&database) else { return false };
        let plain = Plain { stamp: at.stamp, time: None, value };
        let Some(place) = keys.plain.place_of(hash, name) else { return false };
        let is_replaced = match keys.plain.stamp_at(&place) {
            Some(stamp) => at.removes(stamp),
            None => !keys.others.has_hashed(hash, name),
        };
        if !is_replaced || !plain.fits(name) || keys.evicted.has(name) {
            return false;
        }
        if let Some(saving) = self.saving.as_mut().filter(|_| at.rules.saves_before_changes) {
            saving.before(database, keys, name);
        }
        keys.plain.put_at(&place, name, plain);
        self.changes += 1;
        true
    }

    /// Increments a string, or writes an element.
    fn write_part(&mut self, at: &At, key: Hashed<'_>, written: UnitWrite<'_>) -> bool {
        let Hashed { database, hash, name } = key;
        let Some(keys) = self.all.get_mut(&database) else { return false };
        if !keys.others.has_hashed(hash, name) || keys.evicted.has(name) {
            return false;
        }
        if let Some(saving) = self.saving.as_mut().filter(|_| at.rules.saves_before_changes) {
            saving.before(database, keys, name);
        }
        let key = keys.others.get_hashed_mut(hash, name);
        let Some(has_garbage) = key.and_then(|key| key.write(at, written)) else { return false };
        match has_garbage || !self.garbage.is_empty() {
            true => self.note(database, &Name::from(name), has_garbage),
            false => self.changes += 1,
        }
        true
    }

    /// The increment by `by`, at `stamp`, of a string that has been incremented before. `run` is
    /// the start of the region's run.
    pub fn sum(
        &self,
        key: Hashed<'_>,
        (region, run, stamp): (Region, Stamp, Stamp),
        by: Amount,
    ) -> Option<Sum> {
        let there = self.all.get(&key.database)?.others.get_hashed(key.hash, key.name)?;
        match there.only()? {
            Value::String(cell) => cell.increment(region, run, stamp, by),
            _ => None,
        }
    }

    /// See [`Replica::long_strings`](crate::Replica::long_strings).
    pub fn long_strings(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let of_clients = self.all.iter().filter(|(database, _)| is_of_clients(**database));
        of_clients.flat_map(|(database, keys)| keys.long_strings().map(|name| (*database, name)))
    }

    /// See [`Replica::share`](crate::Replica::share).
    pub fn share(&mut self, database: u32, name: &[u8], text: &Text) {
        if let Some(keys) = self.all.get_mut(&database) {
            keys.share(name, text);
        }
    }

    /// See [`Replica::hold`](crate::Replica::hold).
    pub fn hold(&mut self, database: u32, string: HeldString) {
        let Some(keys) = self.all.get_mut(&database) else { return };
        if let Some(saving) = &mut self.saving {
            // The key may move to another table.
            saving.before(database, keys, string.key());
        }
        keys.hold(string);
    }

    /// The number of held strings.
    pub fn held(&self) -> usize {
        self.all.values().map(|keys| keys.plain.held()).sum()
    }

    /// The first database of clients from `number` on, with its plain strings.
    pub fn plain_from(&self, number: u32) -> Option<(u32, &Plains)> {
        let (number, keys) = self.all.range(number..).find(|(number, _)| is_of_clients(**number))?;
        Some((*number, &keys.plain))
    }

    /// True if a key is a string that has been written once, so that a write sees all of it.
    pub fn is_plain(&self, database: u32, name: &[u8]) -> bool {
        self.all.get(&database).is_some_and(|keys| keys.plain.get(name).is_some())
    }

    /// True if a write that has seen `seen` replaces everything there is of a string or element:
    /// nothing, or a value that has been written once; or if it increments a visible string
    /// without a time.
    pub fn is_replaced(&self, database: u32, name: &[u8], change: &Change, seen: &Seen) -> bool {
        let is_string = matches!(change, Change::String(CellChange::Put { .. }));
        let Some(keys) = self.all.get(&database) else { return is_string };
        if is_string {
            return keys.is_replaced(name, |stamp| seen.covers(stamp));
        }
        let Some(key) = keys.others.get(name) else { return false };
        let adds = matches!(change, Change::String(_));
        if keys.evicted.has(name) {
            return false;
        }
        key.only().is_some_and(|value| value.is_replaced(change, seen)) && !(adds && key.has_times())
    }

    /// All keys of all databases, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], KeyRef<'_>)> {
        self.all.iter().flat_map(|(database, keys)| keys.iter().map(|(name, key)| (*database, name, key)))
    }

    /// The plain strings, by database.
    pub fn plain_strings(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = (&[u8], Plain<'_>)>)> {
        self.all.iter().map(|(database, keys)| (*database, keys.plain_strings()))
    }

    /// The numbers of plain strings, by database.
    pub fn plain_len(&self) -> impl Iterator<Item = (u32, usize)> {
        self.all.iter().map(|(database, keys)| (*database, keys.plain_len()))
    }

    /// All other keys.
    pub fn iter_others(&self) -> impl Iterator<Item = (u32, &[u8], &Key)> {
        self.all
            .iter()
            .flat_map(|(database, keys)| keys.iter_others().map(|(name, key)| (*database, name, key)))
    }

    /// The names of all keys.
    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.all.iter().flat_map(|(database, keys)| keys.names().map(|name| (*database, name)))
    }

    /// The keys of one database.
    pub fn of_database(&self, database: u32) -> impl Iterator<Item = (&[u8], KeyRef<'_>)> {
        self.all.get(&database).into_iter().flat_map(|keys| keys.iter())
    }

    /// The last database of clients.
    pub fn last_database(&self) -> Option<u32> {
        self.all.keys().copied().rfind(|database| is_of_clients(*database))
    }

    pub fn garbage_len(&self) -> usize {
        self.garbage.len()
    }

    fn note(&mut self, database: u32, name: &Name, has_garbage: bool) {
        self.changes += 1;
        if has_garbage || !self.garbage.is_empty() {
            self.garbage.note((database, name.clone()), self.changes, has_garbage);
        }
    }

    /// Applies an effect; `is_own` for one of a client here. `run` returns the start of a stamp's
    /// run.
    pub fn apply(&mut self, at: &At, effect: &Effect, is_own: bool, run: impl Fn(Stamp) -> Option<Stamp>) {
        match effect {
            Effect::Key { database, name, change } => {
                let hasher = &self.hasher.0;
                let keys = self.all.entry(*database).or_insert_with(|| Database::new(hasher));
                if let Some(saving) = self.saving.as_mut().filter(|_| at.rules.saves_before_changes) {
                    saving.before(*database, keys, name);
                }
                if let Some(mark) = keys.evicted.get(name) {
                    let change = (change, is_own);
                    let (has_garbage, shows_more) = keys.change_evicted(at, name, mark, change, run);
                    if shows_more {
                        self.revived.push((*database, name.clone()));
                    }
                    if keys.is_empty() {
                        self.all.remove(database);
                    }
                    return self.note(*database, name, has_garbage);
                }
                if let Change::String(change) = change
                    && keys.write_plain(at, name, change)
                {
                    // It has no garbage. A stale entry in the garbage index does no harm.
                    self.changes += 1;
                    return;
                }
                let lost_before = at.lost.get();
                let (has_garbage, hidden) = keys.change(name, |key| {
                    if key.write_plain(at, change) {
                        return (false, 0);
                    }
                    let before = key.hidden();
                    (key.apply(at, change.clone()), key.hidden() & !before)
                });
                for kind in Kind::ALL.into_iter().filter(|kind| hidden & kind.bit() != 0) {
                    self.type_conflicts += 1;
                    self.conflicts[kind as usize] += 1;
                }
                if let Some(kind) = change.kind() {
                    self.conflicts[kind as usize] += at.lost.get() - lost_before;
                }
                if keys.is_empty() {
                    self.all.remove(database);
                }
                self.note(*database, name, has_garbage);
            }
            Effect::Flush { database, seen } => self.flush(at, *database, seen, run),
        }
    }

    fn flush(
        &mut self,
        at: &At,
        database: Option<u32>,
        seen: &[FlushSeen],
        run: impl Fn(Stamp) -> Option<Stamp>,
    ) {
        self.saving = None;
        let mut of_keys: BTreeMap<KeyId, Vec<SeenAt>> = BTreeMap::new();
        for one in seen {
            of_keys.entry((one.database, one.name.clone())).or_default().push(one.at.clone());
        }
        let mut touched = Vec::new();
        let notes_all = !self.garbage.is_empty();
        for (number, keys) in self.all.iter_mut().filter(|(number, _)| flushes(database, **number)) {
            keys.plain.retain(|name, plain| {
                if notes_all {
                    touched.push(((*number, name.into()), false));
                }
                !at.removes(plain.stamp)
            });
            let of_name = |name: &[u8]| match of_keys.is_empty() {
                true => &[][..],
                false => of_keys.get(&(*number, Name::from(name))).map_or(&[][..], Vec::as_slice),
            };
            let mut left = Vec::new();
            keys.others.retain(|name, key| {
                key.remove(at, of_name(name));
                let is_left = !key.is_empty();
                if is_left {
                    left.push(Name::from(name));
                }
                if is_left || notes_all {
                    touched.push(((*number, name.into()), key.has_garbage(at.rules)));
                }
                is_left
            });
            // The remainder of a key may be plain now.
            left.iter().for_each(|name| keys.change(name, |_| ()));
            let evicted = keys.flush_evicted(at, of_name, &run);
            touched.extend(evicted.into_iter().map(|name| ((*number, name), true)));
        }
        self.end_visit(touched);
    }

    /// Finishes a change of many keys.
    fn end_visit(&mut self, touched: Vec<(KeyId, bool)>) {
        self.all.retain(|_, keys| !keys.is_empty());
        self.changes += 1;
        touched.iter().for_each(|((database, name), has_garbage)| self.note(*database, name, *has_garbage));
    }

    /// `sides` for a database; `self` are the keys of the other side.
    fn sides_in<'s>(&self, number: u32, sides: &Sides<'s>) -> Sides<'s> {
        // Libraries are not evicted.
        let horizon = if is_of_clients(number) { self.horizon } else { Stamp::ZERO };
        Sides { horizon, ..*sides }
    }

    /// The databases of either side, those that no client can select first, each with the largest
    /// number of buckets that one of its tables has.
    pub fn buckets_with(&self, theirs: &Keys) -> Vec<(u32, usize)> {
        let numbers: BTreeSet<u32> = self.all.keys().chain(theirs.all.keys()).copied().collect();
        let buckets = |number: u32| {
            let both = [&self.all, &theirs.all].into_iter().filter_map(move |all| all.get(&number));
            both.map(Database::buckets_max).max().unwrap_or(0)
        };
        numbers.into_iter().rev().map(|number| (number, buckets(number))).collect()
    }

    /// True if a part has a large key on either side.
    pub fn is_large_with(&self, theirs: &Keys, part: KeysPart) -> bool {
        let both = [&self.all, &theirs.all].into_iter().filter_map(|all| all.get(&part.database));
        both.flat_map(|keys| keys.others.of_part(part.bucket, part.among)).any(|(_, key)| key.is_large())
    }

    /// The changes that merging a part of another replica's keys makes. Most keys are equal on
    /// both sides, or known to only one of them.
    pub fn changes_by<'t>(&self, theirs: &'t Keys, sides: &Sides, part: KeysPart) -> Changes<'t> {
        let (none, no_key) = (Database::default(), Key::default());
        let (mut changes, mut new) = (Changes::default(), Vec::new());
        let KeysPart { database: number, bucket, among } = part;
        let mine = self.all.get(&number).unwrap_or(&none);
        let other = theirs.all.get(&number);
        let sides = &theirs.sides_in(number, sides);
        let evicted_there = other.into_iter().flat_map(|other| other.evicted.of_part(bucket, among));
        let evicted = mine.evicted.of_part(bucket, among).chain(evicted_there);
        let evicted: BTreeSet<Name> = evicted.map(Name::from).collect();
        let is_left = |name: &[u8]| evicted.is_empty() || !evicted.contains(name);
        let mut merge = |name: &[u8]| {
            let before = mine.get(name);
            let mut key = before.as_deref().cloned().unwrap_or_default();
            let added = other.and_then(|other| other.get(name));
            key.merge(added.as_deref().unwrap_or(&no_key), sides);
            if key != *before.as_deref().unwrap_or(&no_key) {
                changes.merged.push((number, name.into(), key));
            } else if key.has_garbage(sides.rules) {
                changes.garbage.push((number, name.into()));
            }
        };
        let here = mine.others.of_part(bucket, among).map(|(name, _)| name);
        here.filter(|name| is_left(name)).for_each(&mut merge);
        let plain = mine.plain.of_part(bucket, among);
        let removed = plain.filter(|(_, plain)| sides.removed_there(plain.stamp));
        let is_gone = |name: &[u8]| other.is_none_or(|other| other.get(name).is_none());
        let removed = removed.map(|(name, _)| name).filter(|name| is_gone(name));
        removed.filter(|name| is_left(name)).for_each(&mut merge);
        if let Some(other) = other {
            let there = other.others.of_part(bucket, among).map(|(name, _)| name);
            there.filter(|name| !mine.others.has(name) && is_left(name)).for_each(&mut merge);
            for (name, plain) in other.plain.of_part(bucket, among).filter(|(name, _)| is_left(name)) {
                match mine.plain.get(name) {
                    Some(had) if had == plain => {}
                    // The other side has seen it and overwritten it.
                    Some(had) if sides.removed_there(had.stamp) && !sides.removed_here(plain.stamp) => {
                        new.push((number, name, plain));
                    }
                    Some(_) => merge(name),
                    None if mine.others.has(name) || sides.removed_here(plain.stamp) => {}
                    None => new.push((number, name, plain)),
                }
            }
        }
        changes.evicted = evicted.into_iter().map(|name| (number, name)).collect();
        changes.new = new;
        changes
    }

    /// Makes the changes that merging a part of another replica's keys makes.
    pub fn merge(&mut self, changes: Changes, theirs: &Keys, sides: &Sides) {
        self.saving = None;
        self.horizon = self.horizon.max(theirs.horizon);
        let Changes { new, merged, evicted, garbage } = changes;
        let (none, hasher) = (Database::default(), &self.hasher.0);
        for (number, name, plain) in new {
            let keys = self.all.entry(number).or_insert_with(|| Database::new(hasher));
            keys.plain.put(name, plain);
            self.changes += 1;
        }
        let mut touched: Vec<(KeyId, bool)> = garbage.into_iter().map(|id| (id, true)).collect();
        for (number, name, key) in merged {
            let keys = self.all.entry(number).or_insert_with(|| Database::new(hasher));
            let has_garbage = key.has_garbage(sides.rules);
            keys.change(&name, |there| *there = key);
            touched.push(((number, name), has_garbage));
        }
        let run = |stamp| {
            let run = sides.mine.run_of(stamp).or_else(|| sides.theirs.run_of(stamp));
            run.map(|run| run.start)
        };
        for (number, name) in evicted {
            let sides = theirs.sides_in(number, sides);
            let keys = self.all.entry(number).or_insert_with(|| Database::new(hasher));
            let others = theirs.all.get(&number).unwrap_or(&none);
            let has_garbage = keys.merge_evicted(&name, others, &sides, run);
            touched.push(((number, name), has_garbage));
        }
        self.end_visit(touched);
    }

    /// Drops the garbage of at most `most` keys that were last touched by a change up to `up_to`.
    /// Returns true if there is more.
    pub fn collect_garbage(&mut self, up_to: u64, most: usize, rules: &Rules) -> bool {
        for _ in 0..most {
            let Some(id) = self.garbage.take_up_to(up_to) else { break };
            let (database, name) = &id;
            let Some(keys) = self.all.get_mut(database) else { continue };
            if let Some(saving) = self.saving.as_mut().filter(|_| rules.saves_before_changes) {
                saving.before(*database, keys, name);
            }
            keys.collect_garbage(name, rules);
            if keys.is_empty() {
                self.all.remove(database);
            }
        }
        self.garbage.has_up_to(up_to)
    }

    /// Drops the forgotten tallies that `is_over` says no region adds to, of at most `most` keys
    /// with garbage that were last touched by a change after `after`, up to `until`. Returns the
    /// last change up to which that is done.
    pub fn drop_tallies(
        &mut self,
        (after, until): (u64, u64),
        most: usize,
        is_over: &dyn Fn(Stamp) -> bool,
        rules: &Rules,
    ) -> u64 {
        let due = self.garbage.touched((after, until), most);
        let done = due.last().filter(|_| due.len() == most).map_or(until, |(number, _)| *number);
        for entry in due {
            let (database, name) = &entry.1;
            let Some(keys) = self.all.get_mut(database) else { continue };
            if let Some(saving) = self.saving.as_mut().filter(|_| rules.saves_before_changes) {
                saving.before(*database, keys, name);
            }
            let has_garbage = keys.drop_tallies(name, is_over, rules);
            if keys.is_empty() {
                self.all.remove(database);
            }
            if !has_garbage {
                self.garbage.remove(&entry);
            }
        }
        done
    }

    /// Indexes the garbage of loaded keys.
    pub fn find_garbage(&mut self, rules: &Rules) {
        for (database, keys) in &self.all {
            // Plain strings have none.
            let with_garbage = keys.others.iter().filter(|(_, key)| key.has_garbage(rules));
            let with_garbage = with_garbage.map(|(name, _)| name.into());
            let evicted = keys.evicted.with_rest().filter(|(_, mark)| mark.rest.values_have_garbage(rules));
            for name in with_garbage.chain(evicted.map(|(name, _)| name.into())) {
                self.changes += 1;
                self.garbage.note((*database, name), self.changes, true);
            }
        }
    }

    /// Starts to serialize all keys in their present state, after the bytes `before`. Returns the
    /// number that [`Keys::take_piece`] takes.
    pub fn begin_saving(&mut self, before: Vec<u8>) -> u64 {
        let mut end = Vec::new();
        self.changes.store(&mut end);
        self.type_conflicts.store(&mut end);
        self.horizon.store(&mut end);
        self.begin(Out::State { bytes: before, end })
    }

    /// Starts to digest all keys in their present state. The digest is the last piece, 8 bytes.
    pub fn begin_digest(&mut self, rules: Rules) -> u64 {
        self.begin(Out::Digest { sum: 0, bytes: 0, rules })
    }

    fn begin(&mut self, out: Out) -> u64 {
        self.savings += 1;
        self.saving = Some(Box::new(Saving::new(self.savings, &self.all, out)));
        self.savings
    }

    /// The next piece, of about `bytes` bytes, and whether it is the last; `None` if everything
    /// has changed at once, or another save or digest has begun.
    pub fn take_piece(&mut self, number: u64, bytes: usize) -> Option<(Vec<u8>, bool)> {
        let saving = self.saving.as_mut().filter(|saving| saving.number == number)?;
        let (piece, is_last) = saving.take_piece(&self.all, bytes);
        if is_last {
            self.saving = None;
        }
        Some((piece, is_last))
    }

    /// Aborts the save or digest.
    pub fn stop_saving(&mut self) {
        self.saving = None;
    }

    fn database(&mut self, number: u32, hasher: &RandomState) -> &mut Database {
        self.all.entry(number).or_insert_with(|| Database::new(hasher))
    }

    /// Parses the output of a save. A state of an older version has no marks.
    pub fn load(from: &mut &[u8], has_marks: bool) -> Option<Keys> {
        let mut keys = Keys::default();
        let hasher = keys.hasher.0.clone();
        // Nearly all keys are plain strings. Some are put together, so that their places can be
        // fetched from memory meanwhile.
        let mut strings: SmallVec<[(u64, &[u8], Plain<'_>); TOGETHER]> = SmallVec::new();
        let mut of = 0;
        for _ in 0..load_len(from)? {
            let is_mark = has_marks && u8::load(from)? == MARK;
            let number = u32::load(from)?;
            let len = load_len(from)?;
            let name = from.split_off(..len)?;
            if !strings.is_empty() && (number != of || strings.len() == TOGETHER) {
                keys.database(of, &hasher).put_plain(&strings);
                strings.clear();
            }
            let plain = if is_mark { None } else { Key::take_plain(from) };
            if let Some(plain) = plain.filter(|plain| plain.fits(name)) {
                of = number;
                strings.push((hasher.hash_one(name), name, plain));
                continue;
            }
            let database = keys.database(number, &hasher);
            match (is_mark, plain) {
                (true, _) => database.evicted.set(name, &Mark::load(from)?),
                (false, Some(plain)) => database.change(name, |key| *key = Key::of_plain(plain)),
                (false, None) => {
                    let loaded = Key::load(from)?;
                    database.change(name, |key| *key = loaded);
                }
            }
        }
        if !strings.is_empty() {
            keys.database(of, &hasher).put_plain(&strings);
        }
        keys.all.retain(|_, keys| !keys.is_empty());
        (keys.changes, keys.type_conflicts) = (u64::load(from)?, u64::load(from)?);
        if has_marks {
            keys.horizon = Stamp::load(from)?;
        }
        Some(keys)
    }

    /// The rest of an evicted key that has not been written here since.
    pub(crate) fn hidden(&self, database: u32, name: &[u8]) -> Option<Key> {
        let mark = self.all.get(&database)?.evicted.get(name)?;
        mark.is_hidden.then_some(mark.rest)
    }

    /// True if a key was evicted here, and not all of it has been written again.
    pub fn is_evicted(&self, database: u32, name: &[u8]) -> bool {
        self.all.get(&database).is_some_and(|keys| keys.evicted.has(name))
    }

    /// The names of these keys.
    pub fn evicted_names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.all.iter().flat_map(|(database, keys)| keys.evicted.names().map(|name| (*database, name)))
    }

    pub fn evicted_len(&self) -> usize {
        self.all.values().map(|keys| keys.evicted.len()).sum()
    }

    /// The rests of evicted keys that have one.
    pub(crate) fn all_hidden(&self) -> impl Iterator<Item = (u32, &[u8], Key)> {
        self.all.iter().flat_map(|(database, keys)| {
            keys.evicted.with_rest().map(|(name, mark)| (*database, name, mark.rest))
        })
    }

    /// Records that the keyspace has evicted a key.
    pub fn evict(&mut self, database: u32, name: &Name, rules: &Rules, run: impl Fn(Stamp) -> Option<Stamp>) {
        let Some(keys) = self.all.get_mut(&database) else { return };
        if let Some(saving) = self.saving.as_mut().filter(|_| rules.saves_before_changes) {
            saving.before(database, keys, name);
        }
        keys.evict(name, run);
        self.changes += 1;
    }

    /// Takes the evicted keys that show more than the clients here that wrote them know of.
    pub fn take_revived(&mut self) -> Vec<KeyId> {
        std::mem::take(&mut self.revived)
    }

    pub fn has_revived(&self) -> bool {
        !self.revived.is_empty()
    }

    /// If there are more than `most` marks of evicted keys, drops about half of the droppable
    /// ones, oldest first.
    pub fn limit_marks(&mut self, most: usize) {
        if self.evicted_len() <= most {
            return;
        }
        let samples = self.all.values().flat_map(|keys| keys.evicted.sample(MARKS_SAMPLED));
        let mut samples: Vec<Stamp> = samples.collect();
        if samples.is_empty() {
            return;
        }
        let middle = samples.len() / 2;
        let (_, horizon, _) = samples.select_nth_unstable(middle);
        self.horizon = self.horizon.max(*horizon);
        // A save in progress would miss them.
        self.saving = None;
        for keys in self.all.values_mut() {
            keys.evicted.drop_until(self.horizon);
        }
        self.all.retain(|_, keys| !keys.is_empty());
    }

    /// True if a key holds garbage that is not indexed. Must never happen; for tests.
    pub fn has_forgotten_garbage(&self, rules: &Rules) -> bool {
        self.iter().any(|(database, name, key)| {
            key.has_garbage(rules) && !self.garbage.has(&(database, name.into()))
        })
    }
}
