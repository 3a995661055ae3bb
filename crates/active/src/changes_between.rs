// SPDX-License-Identifier: BSD-3-Clause
//! The difference between two views of a key, as effects for a shadow that shows the one view
//! while the keyspace has the other. Only elements that differ are touched.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cell::Time;
use crate::local::Transaction;
use crate::lookup::Lookup;
use crate::matching::matching;
use crate::position::Side;
use crate::stream::{Fields, GroupView, Id, Pending};
use crate::view::{Shown, Until, View};
use crate::{Bytes, Name};

fn given(until: Until) -> Time {
    until.map_or(Time::Never, Time::At)
}

impl Transaction<'_> {
    /// Brings a key of the shadow from its present view to the one that the keyspace has.
    pub fn bring(&mut self, database: u32, name: &Name, before: &Shown, after: &Shown) {
        if before == after {
            return;
        }
        let Some((to, until)) = after else { return self.remove(database, name) };
        if let View::String(text) = to {
            return self.set(database, name, text, *until);
        }
        let none = || match to {
            View::List(_) => View::List(Vec::new()),
            View::Set(_) => View::Set(Vec::new()),
            View::Hash(_) => View::Hash(Vec::new()),
            View::SortedSet(_) => View::SortedSet(Vec::new()),
            View::Parts(kind, _) => View::Parts(*kind, Vec::new()),
            other => other.clone(),
        };
        let same = before.as_ref().filter(|(from, _)| from.kind() == to.kind());
        if before.is_some() && same.is_none() {
            self.remove(database, name);
        }
        let empty = none();
        let from = same.map_or(&empty, |(from, _)| from);
        self.bring_elements(database, name, from, to, same.is_none());
        let had = same.and_then(|(_, until)| *until);
        if had != *until {
            self.live(database, name, given(*until));
        }
    }

    fn bring_elements(&mut self, database: u32, name: &Name, from: &View, to: &View, is_new: bool) {
        match (from, to) {
            (View::Set(from), View::Set(to)) => {
                let (had, kept) = (Lookup::new(from, |(one, _)| one), Lookup::new(to, |(one, _)| one));
                for (member, until) in to {
                    let before = had.get(member);
                    if before.is_none() {
                        self.set_add(database, name, member.clone());
                    }
                    if before.and_then(|(_, until)| *until) != *until {
                        self.set_live(database, name, member.clone(), given(*until));
                    }
                }
                for (member, _) in had.iter().filter(|(member, _)| !kept.has(member)) {
                    self.set_remove(database, name, member.clone());
                }
            }
            (View::Hash(from), View::Hash(to)) => {
                let (had, kept) = (Lookup::new(from, |(one, ..)| one), Lookup::new(to, |(one, ..)| one));
                for (field, value, until) in to.iter().filter(|one| had.get(&one.0) != Some(one)) {
                    self.hash_set(database, name, field.clone(), value.clone(), *until);
                }
                for (field, ..) in had.iter().filter(|(field, ..)| !kept.has(field)) {
                    self.hash_remove(database, name, field.clone());
                }
            }
            (View::SortedSet(from), View::SortedSet(to)) => {
                let (had, kept) = (Lookup::new(from, |(one, ..)| one), Lookup::new(to, |(one, ..)| one));
                for (member, score, until) in to.iter().filter(|one| had.get(&one.0) != Some(one)) {
                    self.sorted_set_add(database, name, member.clone(), *score);
                    if until.is_some() {
                        self.sorted_set_live(database, name, member.clone(), given(*until));
                    }
                }
                for (member, ..) in had.iter().filter(|(member, ..)| !kept.has(member)) {
                    self.sorted_set_remove(database, name, member.clone());
                }
            }
            (_, View::Parts(kind, to)) => self.bring_parts(database, name, *kind, to),
            (View::List(from), View::List(to)) => self.bring_list(database, name, from, to),
            (View::HyperLogLog(from), View::HyperLogLog(registers)) => {
                let now = |register: u16| {
                    let at = registers.binary_search_by_key(&register, |(one, _)| *one).ok()?;
                    Some(registers[at].1)
                };
                let is_less = |(register, rank): &(u16, u8)| now(*register).is_none_or(|now| now < *rank);
                if from.iter().any(is_less) {
                    self.remove(database, name);
                }
                self.count(database, name, registers.clone());
            }
            (
                View::Stream { entries: from, last: from_last, groups: from_groups },
                View::Stream { entries, last, groups },
            ) => {
                let from = if is_new { &[][..] } else { &from[..] };
                let mut had: BTreeMap<Id, &Fields> = from.iter().map(|(id, fields)| (*id, fields)).collect();
                for (id, fields) in entries {
                    if had.remove(id) != Some(fields) {
                        self.stream_add(database, name, Some(*id), fields.clone());
                    }
                }
                had.into_keys().for_each(|id| self.stream_remove(database, name, id));
                if is_new || from_last != last {
                    self.stream_set_id(database, name, *last);
                }
                let from_groups = if is_new { &[][..] } else { &from_groups[..] };
                self.bring_groups(database, name, from_groups, groups);
            }
            _ => {}
        }
    }

    /// Unchanged elements keep their places: regions that rewrite a list concurrently duplicate
    /// its elements.
    fn bring_list(&mut self, database: u32, name: &Name, from: &[Bytes], to: &[Bytes]) {
        // From right to left, so that elements further left keep their indexes.
        let (mut from_end, mut to_end) = (from.len(), to.len());
        for (from_at, to_at) in matching(from, to).into_iter().rev() {
            self.replace(database, name, from_at + 1..from_end, &to[to_at + 1..to_end], from.len());
            (from_end, to_end) = (from_at, to_at);
        }
        self.replace(database, name, 0..from_end, &to[..to_end], from.len());
    }

    /// Replaces a range of elements in a list that had `len`. New elements are added first: a key
    /// that is empty in between loses its time.
    fn replace(&mut self, database: u32, name: &Name, gone: Range<usize>, new: &[Bytes], len: usize) {
        let mut first = gone.start;
        if gone.end == len {
            self.list_push(database, name, Side::Right, new.to_vec());
        } else if gone.start == 0 {
            self.list_push(database, name, Side::Left, new.iter().rev().cloned().collect());
            first = new.len();
        } else {
            new.iter().rev().for_each(|value| self.list_insert(database, name, gone.end, value.clone()));
        }
        gone.for_each(|_| self.list_remove(database, name, first));
    }

    fn bring_groups(
        &mut self,
        database: u32,
        name: &Name,
        from: &[(Bytes, GroupView)],
        to: &[(Bytes, GroupView)],
    ) {
        for (group, _) in from.iter().filter(|(one, _)| to.iter().all(|(other, _)| one != other)) {
            self.group_destroy(database, name, group);
        }
        for (group, view) in to {
            let had = from.iter().find(|(one, _)| one == group).map(|(_, view)| view);
            if had.is_none() {
                self.group_create(database, name, group, view.delivered);
            } else if had.is_some_and(|had| had.delivered != view.delivered) {
                self.group_set_id(database, name, group, view.delivered);
            }
            let pending = had.map(|had| had.pending.clone()).unwrap_or_default();
            for (id, _) in pending.iter().filter(|(id, _)| !view.pending.contains_key(id)) {
                self.group_acknowledge(database, name, group, *id);
            }
            let consumers = had.map(|had| had.consumers.clone()).unwrap_or_default();
            for consumer in view.consumers.iter().filter(|one| !consumers.contains(one)) {
                self.group_consumer(database, name, group, consumer);
            }
            let given = view.pending.iter().filter(|(id, one)| pending.get(id) != Some(one));
            let mut given: Vec<(Id, Pending)> = given.map(|(id, one)| (*id, one.clone())).collect();
            given.sort_by(|(_, one), (_, other)| one.consumer.cmp(&other.consumer));
            // The group's position has been set above.
            self.group_claim(database, name, group, &given, None);
            for consumer in consumers.iter().filter(|one| !view.consumers.contains(one)) {
                self.group_remove_consumer(database, name, group, consumer);
            }
        }
    }
}
