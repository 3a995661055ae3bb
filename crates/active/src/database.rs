// SPDX-License-Identifier: BSD-3-Clause
//! The keys of one database, each in the form that takes the least memory.

use std::collections::hash_map::RandomState;
use std::ops::Deref;

use braid_keyspace::HeldString;

use crate::cell::{At, CellChange, Sides};
use crate::change::{Change, SeenAt};
use crate::evicted::{Mark, Marks};
use crate::key::Key;
use crate::others::Others;
use crate::plain::{Plain, Plains, fits_block};
use crate::rules::Rules;
use crate::stamp::Stamp;
use crate::value::Value;
use crate::{Name, Text};

/// The keys of a database. Each is either in `plain` or in `others`.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Strings that have been written once.
    pub plain: Plains,
    pub others: Others,
    /// The marks of evicted keys that are not in `plain` or `others`, or only in part.
    pub evicted: Marks,
}

/// Access to a key or value.
#[derive(Debug)]
pub enum BorrowedOrOwned<'k, T> {
    Kept(&'k T),
    /// Built from a plain string.
    Made(T),
}

pub type KeyRef<'k> = BorrowedOrOwned<'k, Key>;
pub type ValueRef<'k> = BorrowedOrOwned<'k, Value>;

impl<T> Deref for BorrowedOrOwned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            BorrowedOrOwned::Kept(kept) => kept,
            BorrowedOrOwned::Made(made) => made,
        }
    }
}

impl<'k> KeyRef<'k> {
    /// The visible value.
    pub fn into_value(self) -> Option<ValueRef<'k>> {
        match self {
            KeyRef::Kept(key) => key.value().map(ValueRef::Kept),
            KeyRef::Made(key) => key.into_value().map(ValueRef::Made),
        }
    }
}

impl Database {
    pub fn new(hasher: &RandomState) -> Database {
        Database {
            plain: Plains::new(hasher.clone()),
            others: Others::new(hasher.clone()),
            evicted: Marks::new(hasher.clone()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.evicted.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<KeyRef<'_>> {
        match self.plain.get(name) {
            Some(plain) => Some(KeyRef::Made(Key::of_plain(plain))),
            None => self.others.get(name).map(KeyRef::Kept),
        }
    }

    /// Changes a key, or creates it, and moves it to where it then belongs.
    pub fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Key) -> R) -> R {
        if let Some(key) = self.others.get_mut(name) {
            let result = change(key);
            let plain = key.as_plain().filter(|plain| plain.fits(name));
            if let Some(plain) = plain {
                self.plain.put(name, plain);
            }
            if plain.is_some() || key.is_empty() {
                self.others.remove(name);
            }
            return result;
        }
        let had = self.plain.get(name).map(Key::of_plain);
        let was_plain = had.is_some();
        let mut key = had.unwrap_or_default();
        let result = change(&mut key);
        match key.as_plain().filter(|plain| plain.fits(name)) {
            Some(plain) => self.plain.put(name, plain),
            None => {
                if was_plain {
                    self.plain.remove(name);
                }
                if !key.is_empty() {
                    self.others.insert(name, key);
                }
            }
        }
        result
    }

    /// Adds plain strings, each with the hash of its name, in place of what there is.
    pub fn put_plain(&mut self, strings: &[(u64, &[u8], Plain<'_>)]) {
        strings.iter().for_each(|(hash, ..)| self.plain.prefetch_bucket(*hash));
        strings.iter().for_each(|(hash, ..)| self.plain.prefetch_strings(*hash));
        for (hash, name, plain) in strings {
            match self.others.get_hashed(*hash, name) {
                Some(_) => self.change(name, |key| *key = Key::of_plain(*plain)),
                None => self.plain.put_hashed(*hash, name, *plain),
            }
        }
    }

    /// Takes the key of a mark out of the database.
    fn take_marked(&mut self, name: &[u8], mark: &mut Mark) -> Key {
        match mark.is_hidden {
            true => std::mem::take(&mut mark.rest),
            false => self.change(name, std::mem::take),
        }
    }

    /// Puts the key of a mark back where it belongs. `run` returns the start of a stamp's run.
    fn put_marked(&mut self, name: &[u8], key: Key, mut mark: Mark, run: impl Fn(Stamp) -> Option<Stamp>) {
        match mark.is_hidden {
            true => {
                mark.rest = key;
                mark.rest.strip(&mut mark.lost);
                mark.lost.shorten(run);
            }
            false => self.change(name, |there| *there = key),
        }
        self.evicted.set(name, &mark);
    }

    /// Records that the keyspace has evicted a key. Nothing of it is visible any more.
    pub fn evict(&mut self, name: &[u8], run: impl Fn(Stamp) -> Option<Stamp>) {
        let mut mark = self.evicted.get(name).unwrap_or_default();
        if !mark.is_hidden {
            let key = self.take_marked(name, &mut mark);
            mark.is_hidden = true;
            self.put_marked(name, key, mark, run);
        }
    }

    /// Changes a key that was evicted, at least in part. Returns whether it now holds garbage,
    /// and whether it shows more than the client knows, if a client here made the change.
    pub fn change_evicted(
        &mut self,
        at: &At,
        name: &[u8],
        mut mark: Mark,
        (change, is_own): (&Change, bool),
        run: impl Fn(Stamp) -> Option<Stamp>,
    ) -> (bool, bool) {
        let was_hidden = mark.is_hidden;
        let mut key = self.take_marked(name, &mut mark);
        let had_rest = was_hidden && !key.is_empty();
        let is_put = matches!(change, Change::String(CellChange::Put { .. }));
        if is_put || matches!(change, Change::Remove { .. }) {
            mark.lost.retain(|stamp| !at.removes(stamp));
        }
        let mut has_garbage = key.apply(at, change.clone());
        let is_whole = is_put && mark.lost.is_exact() && mark.lost.latest() < at.stamp;
        mark.is_hidden = was_hidden && !(is_own || is_whole || mark.lost.is_empty());
        has_garbage |= was_hidden && !mark.is_hidden && key.has_garbage(at.rules);
        let shows_more = is_own && had_rest && !mark.is_hidden && key.value().is_some();
        self.put_marked(name, key, mark, run);
        (has_garbage, shows_more)
    }

    /// Merges a key that either side has evicted. Returns true if it now holds garbage.
    pub fn merge_evicted(
        &mut self,
        name: &[u8],
        others: &Database,
        sides: &Sides,
        run: impl Fn(Stamp) -> Option<Stamp>,
    ) -> bool {
        let mut mark = self.evicted.get(name).unwrap_or_default();
        let theirs = others.evicted.get(name).unwrap_or_default();
        let none = Key::default();
        let in_place = others.get(name);
        let other = if theirs.is_hidden { &theirs.rest } else { in_place.as_deref().unwrap_or(&none) };
        let was_hidden = mark.is_hidden;
        let mut key = self.take_marked(name, &mut mark);
        let mut there = Vec::new();
        other.each_stamp(&mut |stamp| there.push(stamp));
        there.sort_unstable();
        let is_there = |stamp: Stamp| {
            // A stamp of a collection also stands for earlier stamps of its run.
            let is_of_region = |other: &Stamp| other.region() == stamp.region();
            let is_alive = match mark.lost.is_exact() {
                true => there.binary_search(&stamp).is_ok() || theirs.lost.may_have(stamp),
                false => there.iter().chain(theirs.lost.stamps()).any(is_of_region),
            };
            is_alive || !sides.theirs.covers(stamp) || stamp <= sides.horizon
        };
        let kept: Vec<Stamp> = mark.lost.stamps().iter().copied().filter(|stamp| is_there(*stamp)).collect();
        mark.lost.retain(|stamp| kept.contains(&stamp));
        key.merge(other, &Sides { lost: &theirs.lost, ..*sides });
        // Take over the marks of values that are missing here too; of a collection all marks,
        // since they do not tell which elements the other side has seen removed.
        let is_unknown = !theirs.lost.is_exact() && !sides.mine.includes(sides.theirs);
        let is_new = |stamp: &Stamp| is_unknown || !sides.mine.covers(*stamp);
        let new: Vec<Stamp> = theirs.lost.stamps().iter().copied().filter(is_new).collect();
        mark.lost.add(new, theirs.lost.is_exact());
        let is_older = mark.lost.is_exact() && key.is_older(mark.lost.latest());
        mark.is_hidden = !mark.lost.is_empty() && (was_hidden || key.value().is_none() || is_older);
        let has_garbage = match mark.is_hidden {
            true => key.values_have_garbage(sides.rules),
            false => key.has_garbage(sides.rules),
        };
        self.put_marked(name, key, mark, run);
        has_garbage
    }

    /// FLUSH of the evicted keys, after the others. `seen` returns the increments of a key that
    /// it saw.
    pub fn flush_evicted<'s>(
        &mut self,
        at: &At,
        seen: impl Fn(&[u8]) -> &'s [SeenAt],
        run: impl Fn(Stamp) -> Option<Stamp>,
    ) -> Vec<Name> {
        let mut touched = Vec::new();
        let names: Vec<Name> = self.evicted.names().map(Name::from).collect();
        for name in names {
            let Some(mut mark) = self.evicted.get(&name) else { continue };
            mark.lost.retain(|stamp| !at.removes(stamp));
            if mark.is_hidden {
                mark.rest.remove(at, seen(&name));
                mark.is_hidden = !mark.lost.is_empty();
                let key = std::mem::take(&mut mark.rest);
                self.put_marked(&name, key, mark, &run);
                touched.push(name);
            } else {
                self.evicted.set(&name, &mark);
            }
        }
        touched
    }

    /// Drops a key's garbage.
    pub fn collect_garbage(&mut self, name: &[u8], rules: &Rules) {
        match self.evicted.get(name) {
            Some(mut mark) if mark.is_hidden => {
                mark.rest.collect_garbage_of_values(rules);
                self.evicted.set(name, &mark);
            }
            _ => drop(self.change(name, |key| key.collect_garbage(rules))),
        }
    }

    /// Drops the forgotten tallies of a key that `is_over` says no region adds to. Returns true
    /// if the key still holds garbage.
    pub fn drop_tallies(&mut self, name: &[u8], is_over: &dyn Fn(Stamp) -> bool, rules: &Rules) -> bool {
        match self.evicted.get(name) {
            Some(mut mark) if mark.is_hidden => {
                mark.rest.drop_tallies(is_over);
                self.evicted.set(name, &mark);
                mark.rest.values_have_garbage(rules)
            }
            _ => self.change(name, |key| {
                key.drop_tallies(is_over);
                key.has_garbage(rules)
            }),
        }
    }

    /// True if a write of a string replaces everything there is of a key: nothing, or a plain
    /// string whose stamp is covered.
    pub fn is_replaced(&self, name: &[u8], covers: impl FnOnce(Stamp) -> bool) -> bool {
        match self.plain.get(name) {
            _ if self.evicted.has(name) => false,
            Some(had) => covers(had.stamp),
            None => !self.others.has(name),
        }
    }

    /// Writes a string to a key that does not exist, or has a plain string that the write
    /// replaces: the fast path of [`Database::change`]. Returns false, and changes nothing, in
    /// any other case.
    pub fn write_plain(&mut self, at: &At, name: &[u8], change: &CellChange<Text>) -> bool {
        let CellChange::Put { value, time, seen } = change else { return false };
        let plain = Plain { stamp: at.stamp, time: *time, value };
        let is_usual =
            seen.is_empty() && plain.fits(name) && self.is_replaced(name, |stamp| at.removes(stamp));
        if is_usual {
            self.plain.put(name, plain);
        }
        is_usual
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], KeyRef<'_>)> {
        let plain = self.plain.iter().map(|(name, plain)| (name, KeyRef::Made(Key::of_plain(plain))));
        plain.chain(self.others.iter().map(|(name, key)| (name, KeyRef::Kept(key))))
    }

    pub fn plain_len(&self) -> usize {
        self.plain.len()
    }

    pub fn plain_strings(&self) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        self.plain.iter()
    }

    pub fn iter_others(&self) -> impl Iterator<Item = (&[u8], &Key)> {
        self.others.iter()
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.plain.iter().map(|(name, _)| name).chain(self.others.iter().map(|(name, _)| name))
    }

    /// The names of strings too long for a block, unless they are held.
    pub fn long_strings(&self) -> impl Iterator<Item = &[u8]> {
        let is_long = |name: &[u8], key: &Key| key.text().is_some_and(|text| !fits_block(name, text));
        self.others.iter().filter(move |(name, key)| is_long(name, key)).map(|(name, _)| name)
    }

    /// Takes over `text` in place of the equal string of a key.
    pub fn share(&mut self, name: &[u8], text: &Text) {
        if let Some(key) = self.others.get_mut(name) {
            key.share(text);
        }
    }

    /// Holds `string` for the equal string of its key, if that is a plain one.
    pub fn hold(&mut self, string: HeldString) {
        let plain = self.others.get(string.key()).and_then(Key::as_plain);
        match plain.filter(|plain| plain.equals(&string)).map(|plain| plain.stamp) {
            Some(stamp) => {
                self.others.remove(string.key());
                self.plain.hold_new(stamp, string);
            }
            None => drop(self.plain.hold(string)),
        }
    }

    pub fn len(&self) -> usize {
        self.plain.len() + self.others.len()
    }

    /// The number of buckets of the table that has most.
    pub fn buckets_max(&self) -> usize {
        self.plain.buckets().max(self.others.buckets()).max(self.evicted.buckets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lost::Lost;
    use crate::stamp::Region;
    use crate::vector::{Run, Seen, Vector};

    /// A region has lost values of its earlier run, and flushes values of its present run: only
    /// the latter count as removed.
    #[test]
    fn a_flush_leaves_the_marks_of_another_run() {
        let stamp = |position| Stamp::of(Region::new(1).unwrap(), position).unwrap();
        let runs = [(0, 10), (100, 110)].map(|(start, last)| Run { start: stamp(start), last: stamp(last) });
        let run = |stamp: Stamp| runs.into_iter().find(|run| run.covers(stamp)).map(|run| run.start);
        let (nothing, rules, lost) = (Vector::default(), Rules::default(), std::cell::Cell::new(0));
        let at = |position, own| At {
            stamp: stamp(position),
            seen: Seen { others: &nothing, own },
            rules: &rules,
            lost: &lost,
        };
        let mut keys = Database::new(&RandomState::new());
        for (position, own) in [(5, runs[0]), (105, runs[1])] {
            let own = Run { last: stamp(position - 1), ..own };
            keys.change(b"key", |key| key.apply(&at(position, own), Change::Count(vec![(3, 4)])));
        }
        keys.evict(b"key", run);
        let unseen = Run { start: stamp(100), last: stamp(100) };
        for own in [unseen, runs[1]] {
            keys.flush_evicted(&at(120, own), |_| &[], run);
            assert!(keys.evicted.has(b"key"), "the flush does not cover the first run's values");
        }
        keys.flush_evicted(&at(130, runs[0]), |_| &[], run);
        assert!(!keys.evicted.has(b"key"));
    }

    /// Both sides have evicted a collection, the other side after the latest element had been
    /// removed: the earlier element is still lost.
    #[test]
    fn merge_keeps_the_eviction_mark_if_both_sides_evicted() {
        let stamp = |position| Stamp::of(Region::new(1).unwrap(), position).unwrap();
        let start = stamp(0);
        let (rules, lost, mut seen) = (Rules::default(), std::cell::Cell::new(0), Vector::default());
        seen.add(Run { start, last: stamp(20) });
        let evicted = |positions: &[u64]| {
            let mut keys = Database::new(&RandomState::new());
            for (register, position) in (0..).zip(positions) {
                let own = Run { start, last: stamp(position - 1) };
                let none = Vector::default();
                let seen = Seen { others: &none, own };
                let at = At { stamp: stamp(*position), seen, rules: &rules, lost: &lost };
                keys.change(b"key", |key| key.apply(&at, Change::Count(vec![(register, 4)])));
            }
            keys.evict(b"key", |_| Some(start));
            keys
        };
        let merged = |theirs: &Database| {
            let none = Lost::none();
            let sides =
                Sides { mine: &seen, theirs: &seen, lost: &none, horizon: Stamp::ZERO, rules: &rules };
            let mut mine = evicted(&[5, 9]);
            mine.merge_evicted(b"key", theirs, &sides, |_| Some(start));
            mine.evicted.has(b"key")
        };
        assert!(merged(&evicted(&[5])));
        assert!(!merged(&Database::new(&RandomState::new())), "the peer has seen every value removed");
    }
}
