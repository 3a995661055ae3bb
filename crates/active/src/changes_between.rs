// SPDX-License-Identifier: BSD-3-Clause
//! What lies between two views of a key: as requests for a keyspace that shows the one and is to show
//! the other, and as effects for a shadow. Only elements that differ are touched.

use crate::cell::Time;
use crate::local::Transaction;
use crate::place::Side;
use crate::stream::{Fields, GroupView, Id};
use crate::view::{Until, View};
use crate::{Bytes, Name};

/// What a key shows, and its time; nothing if it is not there.
pub type Shown = Option<(View, Until)>;

/// Elements of a request at most.
const ELEMENTS: usize = 512;

/// Requests that change one database.
pub struct Requests {
    pub database: u32,
    pub all: Vec<Vec<Vec<u8>>>,
}

impl Requests {
    fn push(&mut self, words: &[&[u8]]) {
        self.all.push(words.iter().map(|word| word.to_vec()).collect());
    }

    /// Several requests with the same begin, of not too many elements each.
    fn spread(&mut self, head: &[&[u8]], elements: &[Vec<&[u8]>]) {
        for some in elements.chunks(ELEMENTS) {
            let words: Vec<&[u8]> = head.iter().copied().chain(some.iter().flatten().copied()).collect();
            self.push(&words);
        }
    }

    /// A member's time, by the commands of a type.
    fn element_time(&mut self, prefix: &str, key: &[u8], element: &[u8], until: Until) {
        let at = until.map(|time| time.to_string());
        let name = format!("{prefix}{}", if at.is_some() { "PEXPIREAT" } else { "PERSIST" });
        let mut words: Vec<&[u8]> = vec![name.as_bytes(), key];
        words.extend(at.as_deref().map(str::as_bytes));
        let word: &[u8] = if prefix == "H" { b"FIELDS" } else { b"MEMBERS" };
        words.extend([word, b"1", element]);
        self.push(&words);
    }

    /// Brings a key from one view to another.
    pub fn bring(&mut self, key: &[u8], before: &Shown, after: &Shown) {
        if before == after {
            return;
        }
        let Some((to, until)) = after else { return self.push(&[b"DEL", key]) };
        let from = before.as_ref().map(|(view, _)| view);
        let mut had = before.as_ref().and_then(|(_, until)| *until);
        let goes_on = from.is_some_and(|from| self.bring_view(key, from, to));
        if !goes_on {
            // It may be there still, past its time.
            self.push(&[b"DEL", key]);
            self.write_view(key, to);
            had = None;
        }
        let is_string = matches!(to, View::String(_) | View::HyperLogLog(_));
        if is_string && from != Some(to) {
            // SET takes the time away.
            had = None;
        }
        match until {
            Some(time) if had != *until => self.push(&[b"PEXPIREAT", key, time.to_string().as_bytes()]),
            None if had.is_some() => self.push(&[b"PERSIST", key]),
            _ => {}
        }
    }

    /// False if the key has to be written anew.
    fn bring_view(&mut self, key: &[u8], from: &View, to: &View) -> bool {
        match (from, to) {
            (View::String(from), View::String(to)) => {
                if from != to {
                    self.push(&[b"SET", key, to]);
                }
                true
            }
            (View::HyperLogLog(from), View::HyperLogLog(registers)) => {
                if from != registers {
                    self.push(&[b"SET", key, &dense(registers)]);
                }
                true
            }
            (View::Set(from), View::Set(to)) => {
                let new: Vec<_> = to.iter().filter(|one| !from.contains(one)).collect();
                let fresh: Vec<Vec<&[u8]>> = new.iter().map(|(one, _)| vec![&one[..]]).collect();
                self.spread(&[b"SADD", key], &fresh);
                // Not before, since an empty set would be gone, with its time.
                let gone = gone_of(from.iter().map(|(one, _)| one), to.iter().map(|(one, _)| one));
                self.spread(&[b"SREM", key], &gone);
                for (member, until) in new {
                    let had = from.iter().find(|(one, _)| one == member).and_then(|(_, until)| *until);
                    if had != *until {
                        self.element_time("S", key, member, *until);
                    }
                }
                true
            }
            (View::Hash(from), View::Hash(to)) => {
                let new: Vec<_> = to.iter().filter(|one| !from.contains(one)).collect();
                let pairs: Vec<Vec<&[u8]>> =
                    new.iter().map(|(field, value, _)| vec![&field[..], &value[..]]).collect();
                self.spread(&[b"HSET", key], &pairs);
                let gone = gone_of(from.iter().map(|(one, ..)| one), to.iter().map(|(one, ..)| one));
                self.spread(&[b"HDEL", key], &gone);
                // HSET has taken the times away.
                for (field, _, until) in new.into_iter().filter(|(.., until)| until.is_some()) {
                    self.element_time("H", key, field, *until);
                }
                true
            }
            (View::SortedSet(from), View::SortedSet(to)) => {
                let new: Vec<_> = to.iter().filter(|one| !from.contains(one)).collect();
                let scores: Vec<String> = new.iter().map(|(_, score, _)| score_text(*score)).collect();
                let pairs: Vec<Vec<&[u8]>> = new
                    .iter()
                    .zip(&scores)
                    .map(|((member, ..), score)| vec![score.as_bytes(), &member[..]])
                    .collect();
                self.spread(&[b"ZADD", key], &pairs);
                let gone = gone_of(from.iter().map(|(one, ..)| one), to.iter().map(|(one, ..)| one));
                self.spread(&[b"ZREM", key], &gone);
                for (member, _, until) in new {
                    let had = from.iter().find(|(one, ..)| one == member).and_then(|(.., until)| *until);
                    if had != *until {
                        self.element_time("Z", key, member, *until);
                    }
                }
                true
            }
            (View::List(from), View::List(to)) => self.bring_list(key, from, to),
            (
                View::Stream { entries: from, last: from_last, groups: from_groups },
                View::Stream { entries: to, last, groups },
            ) => {
                let is_longer = to.len() >= from.len() && to[..from.len()] == from[..];
                if !is_longer || from_groups != groups {
                    return false;
                }
                self.add_entries(key, &to[from.len()..]);
                if from_last != last {
                    self.push(&[b"XSETID", key, id_text(*last).as_bytes()]);
                }
                true
            }
            _ => false,
        }
    }

    fn bring_list(&mut self, key: &[u8], from: &[Bytes], to: &[Bytes]) -> bool {
        let (start, end) = common(from, to);
        let (gone, new) = (from.len() - start - end, &to[start..to.len() - end]);
        let count = gone.to_string();
        if end == 0 && start > 0 {
            if gone > 0 {
                self.push(&[b"RPOP", key, count.as_bytes()]);
            }
            let values: Vec<Vec<&[u8]>> = new.iter().map(|value| vec![&value[..]]).collect();
            self.spread(&[b"RPUSH", key], &values);
            return true;
        }
        if start == 0 && end > 0 {
            if gone > 0 {
                self.push(&[b"LPOP", key, count.as_bytes()]);
            }
            let values: Vec<Vec<&[u8]>> = new.iter().rev().map(|value| vec![&value[..]]).collect();
            self.spread(&[b"LPUSH", key], &values);
            return true;
        }
        false
    }

    fn add_entries(&mut self, key: &[u8], entries: &[(Id, Fields)]) {
        for (id, fields) in entries {
            let id = id_text(*id);
            let mut words: Vec<&[u8]> = vec![b"XADD", key, id.as_bytes()];
            words.extend(fields.iter().map(|field| &field[..]));
            self.push(&words);
        }
    }

    /// Writes a key that is not there.
    fn write_view(&mut self, key: &[u8], view: &View) {
        match view {
            View::List(values) => {
                let values: Vec<Vec<&[u8]>> = values.iter().map(|value| vec![&value[..]]).collect();
                self.spread(&[b"RPUSH", key], &values);
            }
            View::Stream { entries, last, groups } => {
                match entries.is_empty() {
                    // Only so is an empty stream made.
                    true => {
                        self.push(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
                    }
                    false => self.add_entries(key, entries),
                }
                self.push(&[b"XSETID", key, id_text(*last).as_bytes()]);
                groups.iter().for_each(|(name, group)| self.add_group(key, name, group));
            }
            View::String(text) => self.push(&[b"SET", key, text]),
            View::HyperLogLog(registers) => self.push(&[b"SET", key, &dense(registers)]),
            View::Set(_) => drop(self.bring_view(key, &View::Set(Vec::new()), view)),
            View::Hash(_) => drop(self.bring_view(key, &View::Hash(Vec::new()), view)),
            View::SortedSet(_) => drop(self.bring_view(key, &View::SortedSet(Vec::new()), view)),
        }
    }

    fn add_group(&mut self, key: &[u8], name: &[u8], group: &GroupView) {
        self.push(&[b"XGROUP", b"CREATE", key, name, id_text(group.delivered).as_bytes()]);
        for consumer in &group.consumers {
            self.push(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
        }
        for (id, pending) in &group.pending {
            let (id, time) = (id_text(*id), pending.delivered_ms.to_string());
            let count = pending.count.to_string();
            self.push(&[
                b"XCLAIM",
                key,
                name,
                &pending.consumer,
                b"0",
                id.as_bytes(),
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"FORCE",
                b"JUSTID",
            ]);
        }
    }
}

/// Elements that are gone, each as what a request names.
fn gone_of<'a>(
    from: impl Iterator<Item = &'a Bytes>,
    to: impl Iterator<Item = &'a Bytes>,
) -> Vec<Vec<&'a [u8]>> {
    let kept: std::collections::BTreeSet<&Bytes> = to.collect();
    from.filter(|one| !kept.contains(one)).map(|one| vec![&one[..]]).collect()
}

/// How many elements two lists have in common at the begin, and at the end of the rest.
fn common(from: &[Bytes], to: &[Bytes]) -> (usize, usize) {
    let start = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let rest = from[start..].iter().rev().zip(to[start..].iter().rev());
    (start, rest.take_while(|(one, other)| one == other).count())
}

pub(crate) fn id_text(id: Id) -> String {
    format!("{}-{}", id.ms, id.sequence)
}

fn score_text(score: f64) -> String {
    match score {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        // The shortest text that reads as the same number.
        score => format!("{score:?}"),
    }
}

/// A HyperLogLog's value in its dense form, without a cached count.
fn dense(registers: &[(u16, u8)]) -> Vec<u8> {
    let mut value = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    let head = value.len();
    value.resize(head + 12288, 0);
    for (register, rank) in registers {
        let bit = usize::from(*register) * 6;
        let (byte, shift) = (head + bit / 8, bit % 8);
        value[byte] |= rank << shift;
        if shift > 2 {
            value[byte + 1] |= rank >> (8 - shift);
        }
    }
    value
}

impl Transaction<'_> {
    /// Brings a key of the shadow from what it shows to what the keyspace has.
    pub fn bring(&mut self, database: u32, name: &Name, before: &Shown, after: &Shown) {
        if before == after {
            return;
        }
        let Some((to, until)) = after else { return self.remove(database, name) };
        if let View::String(text) = to {
            return self.set(database, name, text.clone(), *until);
        }
        let none = || match to {
            View::List(_) => View::List(Vec::new()),
            View::Set(_) => View::Set(Vec::new()),
            View::Hash(_) => View::Hash(Vec::new()),
            View::SortedSet(_) => View::SortedSet(Vec::new()),
            other => other.clone(),
        };
        let same =
            before.as_ref().filter(|(from, _)| std::mem::discriminant(from) == std::mem::discriminant(to));
        if before.is_some() && same.is_none() {
            self.remove(database, name);
        }
        let empty = none();
        let from = same.map_or(&empty, |(from, _)| from);
        self.bring_elements(database, name, from, to, same.is_none());
        let had = same.and_then(|(_, until)| *until);
        if had != *until {
            self.live(database, name, until.map_or(Time::Never, Time::At));
        }
    }

    fn bring_elements(&mut self, database: u32, name: &Name, from: &View, to: &View, is_new: bool) {
        match (from, to) {
            (View::Set(from), View::Set(to)) => {
                for (member, until) in to.iter().filter(|one| !from.contains(one)) {
                    let had = from.iter().find(|(one, _)| one == member);
                    if had.is_none() {
                        self.set_add(database, name, member.clone());
                    }
                    if had.and_then(|(_, until)| *until) != *until {
                        self.set_live(database, name, member.clone(), until.map_or(Time::Never, Time::At));
                    }
                }
                for (member, _) in from.iter().filter(|(one, _)| to.iter().all(|(other, _)| one != other)) {
                    self.set_remove(database, name, member.clone());
                }
            }
            (View::Hash(from), View::Hash(to)) => {
                for (field, value, until) in to.iter().filter(|one| !from.contains(one)) {
                    self.hash_set(database, name, field.clone(), value.clone(), *until);
                }
                for (field, ..) in from.iter().filter(|(one, ..)| to.iter().all(|(other, ..)| one != other)) {
                    self.hash_remove(database, name, field.clone());
                }
            }
            (View::SortedSet(from), View::SortedSet(to)) => {
                for (member, score, until) in to.iter().filter(|one| !from.contains(one)) {
                    self.sorted_set_add(database, name, member.clone(), *score);
                    if until.is_some() {
                        self.sorted_set_live(
                            database,
                            name,
                            member.clone(),
                            until.map_or(Time::Never, Time::At),
                        );
                    }
                }
                for (member, ..) in from.iter().filter(|(one, ..)| to.iter().all(|(other, ..)| one != other))
                {
                    self.sorted_set_remove(database, name, member.clone());
                }
            }
            (View::List(from), View::List(to)) => self.bring_list(database, name, from, to),
            (View::HyperLogLog(_), View::HyperLogLog(registers)) => {
                self.count(database, name, registers.clone());
            }
            (
                View::Stream { entries: from, last: from_last, groups: from_groups },
                View::Stream { entries, last, groups },
            ) => {
                let from = if is_new { &[][..] } else { &from[..] };
                for (id, fields) in entries.iter().filter(|(id, _)| from.iter().all(|(other, _)| id != other))
                {
                    self.stream_add(database, name, Some(*id), fields.clone());
                }
                for (id, _) in from.iter().filter(|(id, _)| entries.iter().all(|(other, _)| id != other)) {
                    self.stream_remove(database, name, *id);
                }
                if is_new || from_last != last {
                    self.stream_set_id(database, name, *last);
                }
                let from_groups = if is_new { &[][..] } else { &from_groups[..] };
                self.bring_groups(database, name, from_groups, groups);
            }
            _ => {}
        }
    }

    fn bring_list(&mut self, database: u32, name: &Name, from: &[Bytes], to: &[Bytes]) {
        let (start, end) = common(from, to);
        let new = &to[start..to.len() - end];
        for _ in 0..from.len() - start - end {
            self.list_remove(database, name, start);
        }
        if end == 0 {
            self.list_push(database, name, Side::Right, new.to_vec());
        } else if start == 0 {
            self.list_push(database, name, Side::Left, new.iter().rev().cloned().collect());
        } else {
            new.iter().rev().for_each(|value| self.list_insert(database, name, start, value.clone()));
        }
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
            for consumer in &view.consumers {
                let entries: Vec<(Id, u64)> = view
                    .pending
                    .iter()
                    .filter(|(id, one)| one.consumer == *consumer && pending.get(id) != Some(one))
                    .map(|(id, one)| (*id, one.count))
                    .collect();
                if !entries.is_empty() || !consumers.contains(consumer) {
                    self.group_deliver(database, name, group, consumer, &entries);
                }
            }
            for consumer in consumers.iter().filter(|one| !view.consumers.contains(one)) {
                self.group_remove_consumer(database, name, group, consumer);
            }
        }
    }
}
