// SPDX-License-Identifier: BSD-3-Clause
//! Turns changes by this region's clients into effects: each method changes the replica and
//! records the effect for the other regions.
//!
//! The caller maps a command to these methods, checks it and makes the reply. A method performs
//! its change unconditionally, so it is called only if the command changes something. A write
//! that finds no key, or no element to add to, first removes possible remains of a former one,
//! also at other regions.

use crate::amount::Amount;
use crate::cell::{At, Cell, CellChange, Sum, Time};
use crate::change::{Change, SeenAt};
use crate::database::{KeyRef, ValueRef};
use crate::effect::{Effect, Effects, FlushSeen, SeenLess, Unit};
use crate::hidden::flushes;
use crate::key::Key;
use crate::position::Side;
use crate::replica::{Refusal, Replica};
use crate::stamp::Stamp;
use crate::stream::{Fields, Group, GroupChange, Id, Pending, Stream, StreamChange};
use crate::tally::SeenTally;
use crate::value::Value;
use crate::vector::{Run, Seen, Vector};
use crate::view::{Shown, View};
use crate::{Bytes, Name, Text};

/// The effects of one command, transaction or script.
pub struct Transaction<'a> {
    replica: &'a mut Replica,
    now_ms: u64,
    /// The stamp of the next effect.
    pub(crate) next: Stamp,
    effects: Effects,
    /// The numbers of the effects that have not seen the copy that is being merged.
    without_copy: Vec<u32>,
}

impl Replica {
    /// Runs a client's changes and returns the unit for the other regions; `None` if nothing has
    /// changed. A key or element with a time exists until it [is ended](Transaction::end),
    /// whatever the clock says.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`] if a higher ceiling must be on disk first; `body` has not run then.
    pub fn execute(
        &mut self,
        now_ms: u64,
        body: impl FnOnce(&mut Transaction),
    ) -> Result<Option<Unit>, Refusal> {
        let rules = self.settings.rules;
        if self.needs_ceiling(now_ms) {
            return Err(Refusal::Ceiling);
        }
        let first = self.clock.clone().tick(now_ms, 1, &rules);
        let (effects, without_copy) = (Effects::new(), Vec::new());
        let mut transaction = Transaction { replica: self, now_ms, next: first, effects, without_copy };
        body(&mut transaction);
        let Transaction { effects, next, without_copy, .. } = transaction;
        if effects.is_empty() {
            return Ok(None);
        }
        self.clock.tick(now_ms, next.position() - first.position(), &rules);
        let previous = self.state.vector.run(self.run).map_or(self.run, |run| run.last);
        let of_others = |vector: &Vector| {
            let mut seen = vector.clone();
            seen.remove_run(self.run);
            seen
        };
        let (mut seen, mut seen_less) = (of_others(&self.state.vector), None);
        if without_copy.len() < effects.len() && self.is_merging() {
            let less = std::mem::replace(&mut seen, of_others(self.vector_with_copy()));
            // The copy may have nothing that is new.
            if !without_copy.is_empty() && less != seen {
                seen_less = Some(Box::new(SeenLess { seen: less, effects: without_copy }));
            }
        }
        let unit = Unit { first, previous, starts_run: previous == self.run, seen, effects, seen_less };
        self.note_own(Run { start: self.run, last: unit.last() });
        Ok(Some(unit))
    }
}

impl Transaction<'_> {
    fn effect(&mut self, effect: Effect) {
        let replica = &mut *self.replica;
        let own = Run { start: replica.run, last: self.next.before() };
        let with_copy = replica.merging.as_ref().map_or(&replica.state.vector, |merging| merging.joined());
        let is_without = replica.has_unmerged(&effect);
        if is_without {
            self.without_copy.push(self.effects.len() as u32);
        }
        let others = if is_without { &replica.state.vector } else { with_copy };
        let lost = std::cell::Cell::new(0);
        let seen = Seen { others, own };
        let at = At { stamp: self.next, seen, rules: &replica.settings.rules, lost: &lost };
        let (vector, own_run) = (with_copy, replica.run);
        let starts = |stamp| Some(vector.run_start(stamp, own_run));
        replica.state.keys.apply(&at, &effect, true, starts);
        replica.review(&effect);
        self.next = self.next.plus(effect.stamps());
        self.effects.push(effect);
    }

    pub(crate) fn change(&mut self, database: u32, name: &Name, change: Change) {
        self.effect(Effect::Key { database, name: name.clone(), change });
    }

    pub(crate) fn value(&self, database: u32, name: &Name) -> Option<ValueRef<'_>> {
        self.replica.visible(database, name)
    }

    /// A key as clients see it.
    pub fn view(&self, database: u32, name: &Name) -> Option<View> {
        self.replica.view(database, name)
    }

    /// A key as clients see it, with its time.
    pub(crate) fn shown(&self, database: u32, name: &Name) -> Shown {
        Some((self.view(database, name)?, self.time_of(database, name)))
    }

    /// Records that the keyspace has evicted a key. Other regions are not notified.
    pub fn evict(&mut self, database: u32, name: &Name) {
        if self.value(database, name).is_none() {
            return;
        }
        if !self.replica.settings.rules.eviction_is_no_removal {
            return self.remove(database, name);
        }
        let replica = &mut *self.replica;
        let with_copy = replica.merging.as_ref().map_or(&replica.state.vector, |merging| merging.joined());
        let (vector, own_run) = (with_copy, replica.run);
        let starts = |stamp| Some(vector.run_start(stamp, own_run));
        replica.state.keys.evict(database, name, &replica.settings.rules, starts);
        replica.review_key(database, name);
    }

    /// The rest of a hidden evicted key.
    fn rest(&self, database: u32, name: &Name) -> Option<Key> {
        self.replica.state.keys.hidden(database, name)
    }

    /// The increments of a key, evicted or not, that a removal has to list as seen.
    fn seen_of_all(&self, database: u32, name: &Name) -> Vec<SeenAt> {
        match self.rest(database, name) {
            Some(rest) => rest.seen(),
            None => self.replica.key(database, name).map_or_else(Vec::new, |key| key.seen()),
        }
    }

    /// True if other regions may have more of a key than is known here.
    fn may_have_lost(&self, database: u32, name: &Name) -> bool {
        self.replica.state.keys.horizon > Stamp::ZERO || self.replica.is_evicted(database, name)
    }

    /// True if a hidden evicted key has a rest with a value: a client's increment is then not all
    /// that shows. For tests.
    pub fn keeps_rest(&self, database: u32, name: &Name) -> bool {
        self.rest(database, name).is_some_and(|rest| rest.value().is_some())
    }

    /// Called before a write to a key. Removes its hidden values, or its remains if it does not
    /// exist.
    pub(crate) fn prepare(&mut self, database: u32, name: &Name) {
        let rules = self.replica.settings.rules;
        let key = self.replica.key(database, name);
        let clears: Vec<Change> = match key {
            Some(key) if self.value(database, name).is_some() => {
                key.losers().map(|loser| Change::Clear { kind: loser.kind(), seen: loser.seen() }).collect()
            }
            // Other regions still have the evicted value.
            None if self.may_have_lost(database, name) => Vec::new(),
            key if rules.clears_before_creating => {
                vec![Change::Remove { seen: key.map_or_else(Vec::new, |key| key.seen()) }]
            }
            _ => Vec::new(),
        };
        clears.into_iter().for_each(|change| self.change(database, name, change));
    }

    /// SET and every other write of a whole string. `time` is the expiry time in Unix ms, also
    /// one that is kept.
    pub fn set(&mut self, database: u32, name: &Name, value: impl AsRef<[u8]>, time: Option<u64>) {
        let value = Text::from_slice(value.as_ref());
        let is_string = || matches!(self.value(database, name).as_deref(), Some(Value::String(_)));
        let seen = if self.replica.is_evicted(database, name) {
            let seen = self.seen_of_all(database, name);
            self.change(database, name, Change::Remove { seen });
            Vec::new()
        } else if self.replica.is_plain(database, name) || self.replica.key(database, name).is_none() {
            Vec::new()
        } else if is_string() {
            self.prepare(database, name);
            match self.value(database, name).as_deref() {
                Some(Value::String(cell)) => cell.seen(),
                _ => Vec::new(),
            }
        } else {
            self.remove(database, name);
            Vec::new()
        };
        self.change(database, name, Change::String(CellChange::Put { value, time, seen }));
    }

    /// INCR and similar commands. Returns false if the sum is out of range: the caller then
    /// writes the result instead.
    pub fn increment(&mut self, database: u32, name: &Name, by: Amount) -> bool {
        self.prepare(database, name);
        let none = Cell::default();
        let value = self.value(database, name);
        let cell = match value.as_deref() {
            Some(Value::String(cell)) => cell,
            _ => &none,
        };
        let sum = self.sum_of(cell, by);
        let Some(sum) = sum else { return false };
        self.change(database, name, Change::String(CellChange::Add(sum)));
        true
    }

    /// DEL and commands that overwrite a key.
    pub fn remove(&mut self, database: u32, name: &Name) {
        if let Some(seen) = self.replica.key(database, name).map(|key| key.seen()) {
            self.change(database, name, Change::Remove { seen });
        }
    }

    /// FLUSHDB, or FLUSHALL if `database` is `None`.
    pub fn flush(&mut self, database: Option<u32>) {
        for (database, name) in self.replica.merged_keys(database) {
            let seen = self.seen_of_all(database, &name);
            self.change(database, &name, Change::Remove { seen });
        }
        let keys = self.replica.state.keys.iter().map(|(number, name, key)| (number, name, key.seen()));
        let evicted = self.replica.state.keys.all_hidden();
        let evicted = evicted.map(|(number, name, rest)| (number, name, rest.seen()));
        let keys = keys.chain(evicted).filter(|(number, ..)| flushes(database, *number));
        let of_key = keys.flat_map(|(database, name, seen)| {
            seen.into_iter().map(move |at| FlushSeen { database, name: name.into(), at })
        });
        let mut seen: Vec<FlushSeen> = of_key.collect();
        seen.sort_by(|one, other| (one.database, &one.name).cmp(&(other.database, &other.name)));
        self.effect(Effect::Flush { database, seen });
    }

    /// EXPIRE and PERSIST of an existing key.
    pub fn live(&mut self, database: u32, name: &Name, time: Time) {
        self.prepare(database, name);
        self.change(database, name, Change::Live(time));
    }

    pub fn hash_set(&mut self, database: u32, name: &Name, field: Bytes, value: Bytes, time: Option<u64>) {
        self.prepare(database, name);
        let seen = self.seen_of_field(database, name, &field);
        self.change(database, name, Change::Hash(field, CellChange::Put { value, time, seen }));
    }

    pub fn hash_remove(&mut self, database: u32, name: &Name, field: Bytes) {
        self.prepare(database, name);
        let seen = self.seen_of_field(database, name, &field);
        self.change(database, name, Change::Hash(field, CellChange::Remove { seen }));
    }

    /// HINCRBY and HINCRBYFLOAT. Returns false as [`Transaction::increment`] does.
    pub fn hash_increment(&mut self, database: u32, name: &Name, field: Bytes, by: Amount) -> bool {
        self.prepare(database, name);
        // An evicted field must not be removed elsewhere.
        let is_known = self.hash_cell(database, name, &field).is_some();
        if !self.shows(database, name, &field) && (is_known || !self.may_have_lost(database, name)) {
            self.hash_remove(database, name, field.clone());
        }
        let cell = self.hash_cell(database, name, &field).unwrap_or_default();
        let sum = self.sum_of(&cell, by);
        let Some(sum) = sum else { return false };
        self.change(database, name, Change::Hash(field, CellChange::Add(sum)));
        true
    }

    /// An increment of a cell by this region; `None` if the sum is out of range.
    pub(crate) fn sum_of<V: Clone>(&self, cell: &Cell<V>, by: Amount) -> Option<Sum> {
        cell.increment(self.replica.region(), self.replica.run, self.next, by)
    }

    /// HEXPIRE and HPERSIST of an existing field.
    pub fn hash_live(&mut self, database: u32, name: &Name, field: Bytes, time: Time) {
        self.prepare(database, name);
        self.change(database, name, Change::Hash(field, CellChange::Live(time)));
    }

    /// True if a collection shows an element.
    fn shows(&self, database: u32, name: &Name, element: &[u8]) -> bool {
        let ended = self.replica.ended.of(database, name);
        let is_ended = ended.is_some_and(|ended| ended.has(element));
        !is_ended && self.value(database, name).is_some_and(|value| value.has(element))
    }

    /// The expiry time of a visible element, in Unix ms.
    pub(crate) fn time_of_element(&self, database: u32, name: &Name, element: &[u8]) -> Option<u64> {
        let shown = self.value(database, name).filter(|_| self.shows(database, name, element));
        shown.and_then(|value| value.time_of(element, &self.replica.settings.rules)).map(|(_, time)| time)
    }

    /// The increments that a write of a hash field has to list as seen.
    fn seen_of_field(&self, database: u32, name: &Name, field: &[u8]) -> Vec<SeenTally> {
        self.seen_of(database, name, |value| match value {
            Value::Hash(hash) => hash.seen(field),
            _ => Vec::new(),
        })
    }

    /// The increments that a write of a sorted set member has to list as seen.
    fn seen_of_member(&self, database: u32, name: &Name, member: &[u8]) -> Vec<SeenTally> {
        self.seen_of(database, name, |value| match value {
            Value::SortedSet(set) => set.seen(member),
            _ => Vec::new(),
        })
    }

    /// The increments in the visible value, or in the rest of an evicted key, whatever its type.
    pub(crate) fn seen_of(
        &self,
        database: u32,
        name: &Name,
        of_value: impl Fn(&Value) -> Vec<SeenTally>,
    ) -> Vec<SeenTally> {
        match self.value(database, name).as_deref() {
            Some(value) => of_value(value),
            None => self
                .rest(database, name)
                .map_or_else(Vec::new, |rest| rest.all().flat_map(of_value).collect()),
        }
    }

    fn hash_cell(&self, database: u32, name: &Name, field: &[u8]) -> Option<Cell<Bytes>> {
        match self.value(database, name).as_deref() {
            Some(Value::Hash(hash)) => hash.get(field),
            _ => None,
        }
    }

    pub fn set_add(&mut self, database: u32, name: &Name, member: Bytes) {
        self.prepare(database, name);
        // An existing member keeps its time.
        let time = self.time_of_element(database, name, &member);
        let change = CellChange::Put { value: (), time, seen: Vec::new() };
        self.change(database, name, Change::Set(member, change));
    }

    pub fn set_remove(&mut self, database: u32, name: &Name, member: Bytes) {
        self.prepare(database, name);
        self.change(database, name, Change::Set(member, CellChange::Remove { seen: Vec::new() }));
    }

    /// SMOVE of an existing member. It keeps its time if it is new in the destination.
    pub fn set_move(&mut self, database: u32, from: &Name, to: &Name, member: Bytes) {
        let time = self.time_of_element(database, from, &member);
        let is_new = !self.shows(database, to, &member);
        self.set_remove(database, from, member.clone());
        self.set_add(database, to, member.clone());
        if let Some(time) = time.filter(|_| is_new) {
            self.set_live(database, to, member, Time::At(time));
        }
    }

    pub fn set_live(&mut self, database: u32, name: &Name, member: Bytes, time: Time) {
        self.prepare(database, name);
        self.change(database, name, Change::Set(member, CellChange::Live(time)));
    }

    pub fn sorted_set_add(&mut self, database: u32, name: &Name, member: Bytes, score: f64) {
        self.prepare(database, name);
        // If ZADD keeps a member's time, the caller gives it again.
        let seen = self.seen_of_member(database, name, &member);
        let change = CellChange::Put { value: score, time: None, seen };
        self.change(database, name, Change::SortedSet(member, change));
    }

    pub fn sorted_set_remove(&mut self, database: u32, name: &Name, member: Bytes) {
        self.prepare(database, name);
        let seen = self.seen_of_member(database, name, &member);
        self.change(database, name, Change::SortedSet(member, CellChange::Remove { seen }));
    }

    /// ZINCRBY. Returns false as [`Transaction::increment`] does.
    pub fn sorted_set_increment(&mut self, database: u32, name: &Name, member: Bytes, by: Amount) -> bool {
        self.prepare(database, name);
        let is_known = self.sorted_set_cell(database, name, &member).is_some();
        if !self.shows(database, name, &member) && (is_known || !self.may_have_lost(database, name)) {
            self.sorted_set_remove(database, name, member.clone());
        }
        let cell = self.sorted_set_cell(database, name, &member).unwrap_or_default();
        let sum = self.sum_of(&cell, by);
        let Some(sum) = sum else { return false };
        self.change(database, name, Change::SortedSet(member, CellChange::Add(sum)));
        true
    }

    pub fn sorted_set_live(&mut self, database: u32, name: &Name, member: Bytes, time: Time) {
        self.prepare(database, name);
        self.change(database, name, Change::SortedSet(member, CellChange::Live(time)));
    }

    fn sorted_set_cell(&self, database: u32, name: &Name, member: &[u8]) -> Option<Cell<f64>> {
        match self.value(database, name).as_deref() {
            Some(Value::SortedSet(set)) => set.get(member),
            _ => None,
        }
    }

    pub fn list_push(&mut self, database: u32, name: &Name, side: Side, values: Vec<Bytes>) {
        if !values.is_empty() {
            self.prepare(database, name);
            self.change(database, name, Change::Push { side, values });
        }
    }

    /// LINSERT before the element at an index.
    pub fn list_insert(&mut self, database: u32, name: &Name, index: usize, value: Bytes) {
        self.prepare(database, name);
        let key = self.value(database, name);
        let Some(Value::List(list)) = key.as_deref() else { return };
        let Some(place) = list.place_before(index, self.next) else { return };
        let change = CellChange::Put { value, time: None, seen: Vec::new() };
        self.change(database, name, Change::Element(place, change));
    }

    pub fn list_set(&mut self, database: u32, name: &Name, index: usize, value: Bytes) {
        let change = CellChange::Put { value, time: None, seen: Vec::new() };
        self.list_element(database, name, index, change);
    }

    /// Pops, LREM and LTRIM, one element at a time.
    pub fn list_remove(&mut self, database: u32, name: &Name, index: usize) {
        self.list_element(database, name, index, CellChange::Remove { seen: Vec::new() });
    }

    fn list_element(&mut self, database: u32, name: &Name, index: usize, change: CellChange<Bytes>) {
        self.prepare(database, name);
        let key = self.value(database, name);
        let Some(Value::List(list)) = key.as_deref() else { return };
        let Some(place) = list.place(index) else { return };
        self.change(database, name, Change::Element(place, change));
    }

    /// PFADD and PFMERGE, as registers and ranks. Without any, a HyperLogLog that counts nothing is
    /// created if there is none.
    pub fn count(&mut self, database: u32, name: &Name, registers: Vec<(u16, u8)>) {
        let is_there = matches!(self.value(database, name).as_deref(), Some(Value::HyperLogLog(_)));
        if is_there && registers.is_empty() {
            return;
        }
        self.prepare(database, name);
        self.change(database, name, Change::Count(registers));
    }

    fn stream(&self, database: u32, name: &Name) -> Option<&Stream> {
        match self.value(database, name) {
            Some(ValueRef::Kept(Value::Stream(stream))) => Some(stream),
            _ => None,
        }
    }

    /// XADD with the client's ID or the region's next one. Returns the ID; `None` if no ID is
    /// left.
    pub fn stream_add(&mut self, database: u32, name: &Name, id: Option<Id>, fields: Fields) -> Option<Id> {
        let last = self.stream(database, name).map_or_else(Id::default, Stream::last_id);
        let id = match id {
            Some(id) => id,
            None => Id::next(last, self.now_ms, self.replica.region())?,
        };
        self.prepare(database, name);
        let entry = CellChange::Put { value: fields, time: None, seen: Vec::new() };
        self.change(database, name, Change::Stream(StreamChange::Entry(id, entry)));
        self.change(database, name, Change::Stream(StreamChange::Last(id.max(last))));
        Some(id)
    }

    /// XTRIM: removes the entries before `first`.
    pub fn stream_trim(&mut self, database: u32, name: &Name, first: Id) {
        let Some(stream) = self.stream(database, name) else { return };
        let gone: Vec<Id> = stream.entries().map(|(id, _)| id).take_while(|id| *id < first).collect();
        gone.into_iter().for_each(|id| self.stream_remove(database, name, id));
    }

    /// XDEL.
    pub fn stream_remove(&mut self, database: u32, name: &Name, id: Id) {
        self.prepare(database, name);
        self.record_last_id(database, name);
        let change = CellChange::Remove { seen: Vec::new() };
        self.change(database, name, Change::Stream(StreamChange::Entry(id, change)));
    }

    /// Called before a removal: an empty stream remains, with its last ID.
    fn record_last_id(&mut self, database: u32, name: &Name) {
        let stream = self.stream(database, name).filter(|stream| !stream.records_last_id());
        if let Some(last) = stream.map(Stream::last_id) {
            self.change(database, name, Change::Stream(StreamChange::Last(last)));
        }
    }

    /// XSETID, and MKSTREAM of an empty stream.
    pub fn stream_set_id(&mut self, database: u32, name: &Name, last: Id) {
        self.prepare(database, name);
        self.change(database, name, Change::Stream(StreamChange::Last(last)));
    }

    fn group(&mut self, database: u32, name: &Name, group: &Bytes, change: GroupChange) {
        self.change(database, name, Change::Stream(StreamChange::Group(group.clone(), change)));
    }

    pub fn group_create(&mut self, database: u32, name: &Name, group: &Bytes, delivered: Id) {
        self.prepare(database, name);
        self.group(database, name, group, GroupChange::Create { delivered });
    }

    pub fn group_destroy(&mut self, database: u32, name: &Name, group: &Bytes) {
        self.prepare(database, name);
        self.record_last_id(database, name);
        self.group(database, name, group, GroupChange::Destroy);
    }

    /// The group's creations: the stamps of the creation and of its last repositioning, and the
    /// ID up to which it has read.
    fn creations(&self, database: u32, name: &Name, group: &Bytes) -> Vec<(Stamp, Stamp, Id)> {
        let stream = self.stream(database, name);
        let creations = stream.map_or(&[][..], |stream| stream.creations(group));
        let of_group = |group: &Group| {
            let (since, id) = group.delivered();
            (group.created(), since, id)
        };
        creations.iter().map(of_group).collect()
    }

    /// XGROUP SETID. A move forwards counts as reading: of two regions' IDs the larger wins. A
    /// move backwards overrides concurrent reads.
    pub fn group_set_id(&mut self, database: u32, name: &Name, group: &Bytes, id: Id) {
        self.prepare(database, name);
        for (created, since, delivered) in self.creations(database, name, group) {
            let since = (id >= delivered).then_some(since);
            self.group(database, name, group, GroupChange::Deliver { created, since, id });
        }
    }

    /// XREADGROUP: delivers entries to a consumer, for the first time or again.
    pub fn group_deliver(
        &mut self,
        database: u32,
        name: &Name,
        group: &Bytes,
        consumer: &Bytes,
        entries: &[(Id, u64)],
    ) {
        let last = entries.iter().max().map(|&(id, _)| id);
        if entries.is_empty() {
            return self.group_consumer(database, name, group, consumer);
        }
        let delivered_ms = self.now_ms;
        let pending = |count| Pending { consumer: consumer.clone(), delivered_ms, count };
        let entries: Vec<(Id, Pending)> = entries.iter().map(|&(id, count)| (id, pending(count))).collect();
        self.group_claim(database, name, group, &entries, last);
    }

    /// XGROUP CREATECONSUMER.
    pub fn group_consumer(&mut self, database: u32, name: &Name, group: &Bytes, consumer: &Bytes) {
        self.prepare(database, name);
        let Some(&(created, ..)) = self.creations(database, name, group).last() else { return };
        let change = GroupChange::Consumer { created, name: consumer.clone(), is_there: true };
        self.group(database, name, group, change);
    }

    /// XCLAIM: assigns entries to consumers. `last`, if given, is the ID up to which the group
    /// has read.
    pub fn group_claim(
        &mut self,
        database: u32,
        name: &Name,
        group: &Bytes,
        entries: &[(Id, Pending)],
        last: Option<Id>,
    ) {
        let mut known: Option<&Bytes> = None;
        for (_, pending) in entries {
            // A released entry has no consumer.
            if known != Some(&pending.consumer) && !pending.is_released() {
                self.group_consumer(database, name, group, &pending.consumer);
                known = Some(&pending.consumer);
            }
        }
        let Some(&(created, since, _)) = self.creations(database, name, group).last() else { return };
        for (id, pending) in entries {
            let change = GroupChange::Pending { created, id: *id, pending: pending.clone() };
            self.group(database, name, group, change);
        }
        if let Some(id) = last {
            self.group(database, name, group, GroupChange::Deliver { created, since: Some(since), id });
        }
    }

    /// XACK.
    pub fn group_acknowledge(&mut self, database: u32, name: &Name, group: &Bytes, id: Id) {
        self.prepare(database, name);
        self.group(database, name, group, GroupChange::Acknowledge { id });
    }

    /// XGROUP DELCONSUMER, with the consumer's pending entries.
    pub fn group_remove_consumer(&mut self, database: u32, name: &Name, group: &Bytes, consumer: &Bytes) {
        self.prepare(database, name);
        let view = self.stream(database, name).and_then(|stream| stream.group(group));
        let pending = view.into_iter().flat_map(|view| view.pending);
        let of_consumer: Vec<Id> = pending
            .filter(|(_, one)| one.consumer == *consumer && !one.is_released())
            .map(|(id, _)| id)
            .collect();
        for id in of_consumer {
            self.group(database, name, group, GroupChange::Acknowledge { id });
        }
        for (created, ..) in self.creations(database, name, group) {
            let change = GroupChange::Consumer { created, name: consumer.clone(), is_there: false };
            self.group(database, name, group, change);
        }
    }

    /// The expiry time of an existing key, in Unix ms.
    pub(crate) fn time_of(&self, database: u32, name: &Name) -> Option<u64> {
        self.value(database, name)?;
        let key = self.replica.key(database, name)?;
        key.time(&self.replica.settings.rules).map(|(_, time)| time)
    }

    /// The keyspace has ended a key or element because its time has come. Removes it if this
    /// region has to; otherwise hides it until the region that gave the time removes it. Returns
    /// false if it is visible and has no time.
    pub fn end(&mut self, database: u32, name: &Name, element: Option<&[u8]>) -> bool {
        let rules = self.replica.settings.rules;
        let Some(time) = self.replica.key(database, name).map(|key| key.time_of(element, &rules)) else {
            return true;
        };
        let Some(time) = time else {
            return !match element {
                None => self.value(database, name).is_some(),
                Some(element) => self.shows(database, name, element),
            };
        };
        if self.replica.expires(time.0) {
            match element {
                None => self.remove(database, name),
                Some(element) => self.remove_element(database, name, element),
            }
        } else {
            self.replica.ended.note(database, name, element, time);
        }
        true
    }

    fn remove_element(&mut self, database: u32, name: &Name, element: &[u8]) {
        let value = self.replica.key(database, name).and_then(KeyRef::into_value);
        let change = match value.as_deref() {
            Some(Value::Hash(hash)) => {
                let seen = hash.get(element).map_or_else(Vec::new, |cell| cell.seen());
                Change::Hash(element.into(), CellChange::Remove { seen })
            }
            Some(Value::SortedSet(set)) => {
                let seen = set.get(element).map_or_else(Vec::new, |cell| cell.seen());
                Change::SortedSet(element.into(), CellChange::Remove { seen })
            }
            Some(Value::Set(_)) => Change::Set(element.into(), CellChange::Remove { seen: Vec::new() }),
            _ => return,
        };
        self.change(database, name, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, replica};

    /// Numbers of an evicted key still count elsewhere. A write of one states that it has seen
    /// it, even if a number of another type, which a peer has created under the key, would show.
    #[test]
    fn a_write_has_seen_the_numbers_of_an_evicted_key() {
        let (mut one, mut two) = (replica(1), replica(2));
        let name = Name::from(&b"key"[..]);
        let field = || Bytes::from(&b"field"[..]);
        let by = Amount::of_integer(6);
        let add = |transaction: &mut Transaction<'_>| {
            assert!(transaction.hash_increment(0, &name, field(), by));
        };
        let added = one.execute(NOW, add).unwrap().unwrap();
        let of_two = |transaction: &mut Transaction<'_>| {
            assert!(transaction.sorted_set_increment(0, &name, Bytes::from(&b"member"[..]), by));
        };
        let other = two.execute(NOW, of_two).unwrap().unwrap();
        one.apply(NOW, &other).unwrap();
        one.execute(NOW, |transaction| transaction.evict(0, &name)).unwrap();
        let set = |transaction: &mut Transaction<'_>| {
            transaction.hash_set(0, &name, field(), Bytes::from(&b"5"[..]), None);
        };
        let written = one.execute(NOW, set).unwrap().unwrap();
        let remove = |transaction: &mut Transaction<'_>| {
            transaction.sorted_set_remove(0, &name, Bytes::from(&b"member"[..]));
        };
        two.execute(NOW, remove).unwrap();
        for unit in [&added, &written] {
            two.apply(NOW, unit).unwrap();
        }
        let expected = View::Hash(vec![(field(), Bytes::from(&b"5"[..]), None)]);
        assert_eq!(two.view(0, &name), Some(expected));
    }

    /// A full copy from a server that has evicted a key still carries its time: a time that came
    /// with the value and was replaced no longer counts.
    #[test]
    fn an_evicted_key_keeps_its_time_in_copies() {
        let (mut one, mut two) = (replica(1), replica(2));
        let name = Name::from(&b"key"[..]);
        let value = || Bytes::from(&b"value"[..]);
        let set = |transaction: &mut Transaction<'_>| transaction.set(0, &name, value(), Some(NOW + 9_000));
        let unit = one.execute(NOW, set).unwrap().unwrap();
        two.apply(NOW, &unit).unwrap();
        one.execute(NOW, |transaction| transaction.live(0, &name, Time::At(NOW + 1_000))).unwrap();
        one.execute(NOW, |transaction| transaction.evict(0, &name)).unwrap();
        two.merge(NOW, one.state()).unwrap();
        let (database, _, view, until) = two.views().next().expect("an eviction removes no key");
        assert_eq!((database, view, until), (0, View::String(value()), Some(NOW + 1_000)));
    }
}
