// SPDX-License-Identifier: BSD-3-Clause
//! What clients of this region do, turned into effects: each method changes the replica and records
//! what the other regions are to do.
//!
//! Which of these a command is, its checks and its reply are the caller's: a method does what it is
//! told, once the command has been found to change something. A write that finds no key, or no
//! element to add to, first removes what may be left of a former one, also elsewhere.

use crate::amount::Amount;
use crate::cell::{At, Cell, CellChange, Time};
use crate::change::Change;
use crate::database::{KeyRef, ValueRef};
use crate::effect::{Effect, Effects, FlushSeen, Unit};
use crate::key::Key;
use crate::libraries::flushes;
use crate::place::Side;
use crate::replica::{Refusal, Replica};
use crate::stamp::Stamp;
use crate::stream::{Fields, Group, GroupChange, Id, Pending, Stream, StreamChange};
use crate::tally::SeenTally;
use crate::value::Value;
use crate::vector::{Run, Seen};
use crate::view::View;
use crate::{Bytes, Name};

/// What one command, transaction or script does.
pub struct Transaction<'a> {
    replica: &'a mut Replica,
    now_ms: u64,
    /// Of the next effect.
    next: Stamp,
    effects: Effects,
}

impl Replica {
    /// Does what a client wants, and returns what the other regions are to get: nothing if nothing
    /// has changed. What has a time is there until it [is ended](Transaction::end), whatever the
    /// clock says.
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
        let mut transaction = Transaction { replica: self, now_ms, next: first, effects: Effects::new() };
        body(&mut transaction);
        let Transaction { effects, next, .. } = transaction;
        if effects.is_empty() {
            return Ok(None);
        }
        self.clock.tick(now_ms, next.position() - first.position(), &rules);
        let mut seen = self.state.vector.clone();
        let previous = seen.run(self.run).map_or(self.run, |run| run.last);
        seen.remove_run(self.run);
        let starts_run = previous == self.run;
        let unit = Unit { first, previous, starts_run, seen, effects };
        self.state.vector.add(Run { start: self.run, last: unit.last() });
        Ok(Some(unit))
    }
}

impl Transaction<'_> {
    fn effect(&mut self, effect: Effect) {
        let replica = &mut *self.replica;
        let own = Run { start: replica.run, last: self.next.before() };
        let seen = Seen { others: &replica.state.vector, own };
        let lost = std::cell::Cell::new(0);
        let at = At { stamp: self.next, seen, rules: &replica.settings.rules, lost: &lost };
        let (vector, own_run) = (&replica.state.vector, replica.run);
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

    /// What a client sees of a key.
    pub fn view(&self, database: u32, name: &Name) -> Option<View> {
        self.replica.view(database, name)
    }

    /// The keyspace has evicted a key: no other region hears of it.
    pub fn evict(&mut self, database: u32, name: &Name) {
        if self.value(database, name).is_none() {
            return;
        }
        if !self.replica.settings.rules.eviction_is_no_removal {
            return self.remove(database, name);
        }
        let replica = &mut *self.replica;
        let (vector, own_run) = (&replica.state.vector, replica.run);
        let starts = |stamp| Some(vector.run_start(stamp, own_run));
        replica.state.keys.evict(database, name, &replica.settings.rules, starts);
        replica.review_key(database, name);
    }

    /// What is left of an evicted key that is not there.
    fn rest(&self, database: u32, name: &Name) -> Option<Key> {
        self.replica.state.keys.hidden(database, name)
    }

    /// Whether others may have more of a key than is known here.
    fn may_have_lost(&self, database: u32, name: &Name) -> bool {
        self.replica.state.keys.horizon > Stamp::ZERO || self.replica.is_evicted(database, name)
    }

    /// Whether an evicted key, which is not there, is known all the same: what a client adds to it
    /// is not all that shows then. Tests ask.
    pub fn keeps_rest(&self, database: u32, name: &Name) -> bool {
        self.rest(database, name).is_some_and(|rest| rest.value().is_some())
    }

    /// Before a write to a key: removes what is hidden of it, or left of it if it is not there.
    fn prepare(&mut self, database: u32, name: &Name) {
        let rules = self.replica.settings.rules;
        let key = self.replica.key(database, name);
        let clears: Vec<Change> = match key {
            Some(key) if self.value(database, name).is_some() => {
                key.losers().map(|loser| Change::Clear { kind: loser.kind(), seen: loser.seen() }).collect()
            }
            // Others still have what was evicted.
            None if self.may_have_lost(database, name) => Vec::new(),
            key if rules.clears_before_creating => {
                vec![Change::Remove { seen: key.map_or_else(Vec::new, |key| key.seen()) }]
            }
            _ => Vec::new(),
        };
        clears.into_iter().for_each(|change| self.change(database, name, change));
    }

    /// SET and all that writes a whole string; `time` is its time to live, a kept one as well.
    pub fn set(&mut self, database: u32, name: &Name, value: Bytes, time: Option<u64>) {
        let is_string = || matches!(self.value(database, name).as_deref(), Some(Value::String(_)));
        let seen = if self.replica.is_evicted(database, name) {
            let rest = self.rest(database, name);
            let seen = rest.or_else(|| self.replica.key(database, name).map(|key| key.clone()));
            let seen = seen.map_or_else(Vec::new, |key| key.seen());
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

    /// INCR and its kind. False if the sum is out of range: the caller writes the result instead.
    pub fn increment(&mut self, database: u32, name: &Name, by: Amount) -> bool {
        self.prepare(database, name);
        let none = Cell::default();
        let value = self.value(database, name);
        let cell = match value.as_deref() {
            Some(Value::String(cell)) => cell,
            _ => &none,
        };
        let change = cell.increment(self.replica.region(), self.replica.run, self.next, by);
        let Some(change) = change else { return false };
        self.change(database, name, Change::String(change));
        true
    }

    /// DEL and what overwrites a key.
    pub fn remove(&mut self, database: u32, name: &Name) {
        if let Some(seen) = self.replica.key(database, name).map(|key| key.seen()) {
            self.change(database, name, Change::Remove { seen });
        }
    }

    /// FLUSHDB, or FLUSHALL without a database.
    pub fn flush(&mut self, database: Option<u32>) {
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

    /// EXPIRE and PERSIST of a key that is there.
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

    /// HINCRBY and HINCRBYFLOAT; false as for [`Transaction::increment`].
    pub fn hash_increment(&mut self, database: u32, name: &Name, field: Bytes, by: Amount) -> bool {
        self.prepare(database, name);
        // What was evicted of it is not removed elsewhere.
        let is_known = self.hash_cell(database, name, &field).is_some();
        if !self.shows(database, name, &field) && (is_known || !self.may_have_lost(database, name)) {
            self.hash_remove(database, name, field.clone());
        }
        let cell = self.hash_cell(database, name, &field).unwrap_or_default();
        let change = cell.increment(self.replica.region(), self.replica.run, self.next, by);
        let Some(change) = change else { return false };
        self.change(database, name, Change::Hash(field, change));
        true
    }

    /// HEXPIRE and HPERSIST of a field that is there.
    pub fn hash_live(&mut self, database: u32, name: &Name, field: Bytes, time: Time) {
        self.prepare(database, name);
        self.change(database, name, Change::Hash(field, CellChange::Live(time)));
    }

    /// Whether a collection shows an element.
    fn shows(&self, database: u32, name: &Name, element: &[u8]) -> bool {
        let ended = self.replica.ended.of(database, name);
        let is_ended = ended.is_some_and(|ended| ended.has(element));
        !is_ended && self.value(database, name).is_some_and(|value| value.has(element))
    }

    /// Until when an element of a collection lives that shows.
    pub(crate) fn time_of_element(&self, database: u32, name: &Name, element: &[u8]) -> Option<u64> {
        let shown = self.value(database, name).filter(|_| self.shows(database, name, element));
        shown.and_then(|value| value.time_of(element, &self.replica.settings.rules)).map(|(_, time)| time)
    }

    /// What a write of a hash's field is to say that it saw of increments.
    fn seen_of_field(&self, database: u32, name: &Name, field: &[u8]) -> Vec<SeenTally> {
        self.seen_of(database, name, |value| match value {
            Value::Hash(hash) => hash.seen(field),
            _ => Vec::new(),
        })
    }

    /// The same of a sorted set's member.
    fn seen_of_member(&self, database: u32, name: &Name, member: &[u8]) -> Vec<SeenTally> {
        self.seen_of(database, name, |value| match value {
            Value::SortedSet(set) => set.seen(member),
            _ => Vec::new(),
        })
    }

    /// Of the value that shows, or of what is left of one that was evicted, of whatever type.
    fn seen_of(
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
        // A member that is there already keeps its time.
        let time = self.time_of_element(database, name, &member);
        let change = CellChange::Put { value: (), time, seen: Vec::new() };
        self.change(database, name, Change::Set(member, change));
    }

    pub fn set_remove(&mut self, database: u32, name: &Name, member: Bytes) {
        self.prepare(database, name);
        self.change(database, name, Change::Set(member, CellChange::Remove { seen: Vec::new() }));
    }

    /// SMOVE of a member that is there. It keeps its time where it was not yet.
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
        // What ZADD keeps of a member's time is the caller's to say again.
        let seen = self.seen_of_member(database, name, &member);
        let change = CellChange::Put { value: score, time: None, seen };
        self.change(database, name, Change::SortedSet(member, change));
    }

    pub fn sorted_set_remove(&mut self, database: u32, name: &Name, member: Bytes) {
        self.prepare(database, name);
        let seen = self.seen_of_member(database, name, &member);
        self.change(database, name, Change::SortedSet(member, CellChange::Remove { seen }));
    }

    /// ZINCRBY; false as for [`Transaction::increment`].
    pub fn sorted_set_increment(&mut self, database: u32, name: &Name, member: Bytes, by: Amount) -> bool {
        self.prepare(database, name);
        let is_known = self.sorted_set_cell(database, name, &member).is_some();
        if !self.shows(database, name, &member) && (is_known || !self.may_have_lost(database, name)) {
            self.sorted_set_remove(database, name, member.clone());
        }
        let cell = self.sorted_set_cell(database, name, &member).unwrap_or_default();
        let change = cell.increment(self.replica.region(), self.replica.run, self.next, by);
        let Some(change) = change else { return false };
        self.change(database, name, Change::SortedSet(member, change));
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

    /// LINSERT before the element of an index.
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

    /// Pops, LREM and LTRIM, an element at a time.
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

    /// PFADD and PFMERGE: registers and ranks.
    pub fn count(&mut self, database: u32, name: &Name, registers: Vec<(u16, u8)>) {
        self.prepare(database, name);
        self.change(database, name, Change::Count(registers));
    }

    fn stream(&self, database: u32, name: &Name) -> Option<&Stream> {
        match self.value(database, name) {
            Some(ValueRef::Kept(Value::Stream(stream))) => Some(stream),
            _ => None,
        }
    }

    /// XADD, with an ID of the client's or the region's next one; nothing if there is none.
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

    /// XTRIM: what comes before the first entry that is kept.
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

    /// Before a removal: an empty stream stays, with its last ID.
    fn record_last_id(&mut self, database: u32, name: &Name) {
        let stream = self.stream(database, name).filter(|stream| !stream.records_last_id());
        if let Some(last) = stream.map(Stream::last_id) {
            self.change(database, name, Change::Stream(StreamChange::Last(last)));
        }
    }

    /// XSETID, and MKSTREAM of an empty one.
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

    /// The group's creations, with what each counts from and how far it has read.
    fn creations(&self, database: u32, name: &Name, group: &Bytes) -> Vec<(Stamp, Stamp, Id)> {
        let stream = self.stream(database, name);
        let creations = stream.map_or(&[][..], |stream| stream.creations(group));
        let of_group = |group: &Group| {
            let (since, id) = group.delivered();
            (group.created(), since, id)
        };
        creations.iter().map(of_group).collect()
    }

    /// XGROUP SETID. Forwards it is as if the group had read: of two regions' the larger ID counts.
    /// Backwards it wins over what was read meanwhile.
    pub fn group_set_id(&mut self, database: u32, name: &Name, group: &Bytes, id: Id) {
        self.prepare(database, name);
        for (created, since, delivered) in self.creations(database, name, group) {
            let since = (id >= delivered).then_some(since);
            self.group(database, name, group, GroupChange::Deliver { created, since, id });
        }
    }

    /// XREADGROUP: entries are delivered to a consumer, for the first time or again.
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

    /// XCLAIM: entries go to their consumers; the group has read up to `last`, if it is given.
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
            if known != Some(&pending.consumer) {
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

    /// XGROUP DELCONSUMER, with what was pending for it.
    pub fn group_remove_consumer(&mut self, database: u32, name: &Name, group: &Bytes, consumer: &Bytes) {
        self.prepare(database, name);
        let view = self.stream(database, name).and_then(|stream| stream.group(group));
        let pending = view.into_iter().flat_map(|view| view.pending);
        let of_consumer: Vec<Id> =
            pending.filter(|(_, one)| one.consumer == *consumer).map(|(id, _)| id).collect();
        for id in of_consumer {
            self.group(database, name, group, GroupChange::Acknowledge { id });
        }
        for (created, ..) in self.creations(database, name, group) {
            let change = GroupChange::Consumer { created, name: consumer.clone(), is_there: false };
            self.group(database, name, group, change);
        }
    }

    /// Until when a key lives that is there.
    pub(crate) fn time_of(&self, database: u32, name: &Name) -> Option<u64> {
        self.value(database, name)?;
        let key = self.replica.key(database, name)?;
        key.time(&self.replica.settings.rules).map(|(_, time)| time)
    }

    /// The keyspace has ended a key or an element, as its time had come: removes it if that is for
    /// this region to do. Otherwise it is hidden until the region does so whose time it is. False
    /// if there is no such time.
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

    /// Numbers of an evicted key are still counted elsewhere. A write of one says that it has seen
    /// it, also where a number of another type, which a peer has made of the key, would show.
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

    /// A full copy of a server that has evicted a key tells its time all the same: a time that came
    /// with the value, and was replaced, does not count any more.
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
        let (database, _, view, until) = two.views().next().expect("it is no removal");
        assert_eq!((database, view, until), (0, View::String(value()), Some(NOW + 1_000)));
    }
}
