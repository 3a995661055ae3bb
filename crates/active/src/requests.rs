// SPDX-License-Identifier: BSD-3-Clause
//! Requests that bring a keyspace from one view of a key to another. Only elements that differ
//! are touched. A key is rewritten where no request can do that (an element in the middle of a
//! list, another type).
//!
//! An entry in the middle of a stream is an XADD with its ID, which only Braid accepts, and only
//! in such requests. So is the last word of XCLAIM ... DELETED: the entry stays pending although
//! the stream no longer has it. Other servers drop such an entry, so for them the stream is
//! rewritten, and has the entry for as long as the claims take.
//!
//! Both views may cover only a part of a collection: the elements that may differ.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::Kind;
use crate::document::Step;
use crate::lookup::Lookup;
use crate::matching::common;
use crate::position::Side;
use crate::stream::{Fields, GroupView, Id, Pending, Stream};
use crate::vector_set::{Element, Shape};
use crate::view::{Shown, Until, View};
use crate::{Bytes, document};

/// The maximum number of elements in a request.
const ELEMENTS: usize = 512;

/// Requests that change one database.
pub struct Requests {
    pub database: u32,
    pub all: Vec<Vec<Vec<u8>>>,
    /// Rewrite streams with late or deleted entries, for servers other than Braid.
    pub rewrites_streams: bool,
    /// Pending entries that the stream has, though the view of its parts does not cover them.
    uncovered: BTreeSet<Id>,
}

impl Requests {
    pub fn new(database: u32) -> Requests {
        Requests { database, all: Vec::new(), rewrites_streams: false, uncovered: BTreeSet::new() }
    }

    fn push(&mut self, words: &[&[u8]]) {
        self.all.push(words.iter().map(|word| word.to_vec()).collect());
    }

    /// Splits elements over several requests with the same head.
    fn spread(&mut self, head: &[&[u8]], elements: &[Vec<&[u8]>]) {
        for some in elements.chunks(ELEMENTS) {
            let words: Vec<&[u8]> = head.iter().copied().chain(some.iter().flatten().copied()).collect();
            self.push(&words);
        }
    }

    /// Sets or clears an element's time; `prefix` selects the type's command.
    fn element_time(&mut self, prefix: &str, key: &[u8], element: &[u8], until: Until) {
        let at = until.map(|time| time.to_string());
        let name = format!("{prefix}{}", if at.is_some() { "PEXPIREAT" } else { "PERSIST" });
        let mut words: Vec<&[u8]> = vec![name.as_bytes(), key];
        words.extend(at.as_deref().map(str::as_bytes));
        let word: &[u8] = if prefix == "H" { b"FIELDS" } else { b"MEMBERS" };
        words.extend([word, b"1", element]);
        self.push(&words);
    }

    /// Notes which newly pending entries the whole stream has.
    pub fn note_uncovered(&mut self, from: &View, to: &View, stream: &Stream) {
        if let (View::Stream { groups: from, .. }, View::Stream { groups, .. }) = (from, to) {
            self.uncovered = given(from, groups).filter(|id| stream.entry(*id).is_some()).collect();
        }
    }

    /// Deletes a key, which the keyspace may hold past its time.
    pub fn delete(&mut self, key: &[u8]) {
        self.push(&[b"DEL", key]);
    }

    /// Removes elements of a collection, which the keyspace may hold past their times.
    pub fn delete_elements<'a>(
        &mut self,
        key: &[u8],
        view: &View,
        elements: impl Iterator<Item = &'a Bytes>,
    ) {
        let name: &[u8] = match view {
            View::Set(_) => b"SREM",
            View::Hash(_) => b"HDEL",
            View::SortedSet(_) => b"ZREM",
            _ => return,
        };
        let all: Vec<Vec<&[u8]>> = elements.map(|element| vec![&element[..]]).collect();
        self.spread(&[name, key], &all);
    }

    /// Rewrites a key, whatever is there.
    pub fn rewrite(&mut self, key: &[u8], view: &View, until: Until) {
        self.delete(key);
        self.write(key, view, until);
    }

    /// Writes a key that does not exist.
    pub fn write(&mut self, key: &[u8], view: &View, until: Until) {
        self.write_view(key, view);
        self.time(key, None, until);
    }

    /// Changes a key's time if it differs.
    pub fn time(&mut self, key: &[u8], had: Until, until: Until) {
        match until {
            Some(time) if had != until => self.push(&[b"PEXPIREAT", key, time.to_string().as_bytes()]),
            None if had.is_some() => self.push(&[b"PERSIST", key]),
            _ => {}
        }
    }

    /// Brings a key from one view to another.
    pub fn bring(&mut self, key: &[u8], before: &Shown, after: &Shown) {
        match (before, after) {
            (before, after) if before == after => {}
            (_, None) => self.delete(key),
            (Some((from, had)), Some((to, until))) if self.goes_on(key, from, *had, to, *until) => {}
            (_, Some((to, until))) => self.rewrite(key, to, *until),
        }
    }

    /// Brings an existing key from one view to another of the same type. Returns false, without
    /// requests, if the key must be rewritten.
    pub fn goes_on(&mut self, key: &[u8], from: &View, had: Until, to: &View, until: Until) -> bool {
        if !self.bring_view(key, from, to) {
            return false;
        }
        let is_string = matches!(to, View::String(_) | View::HyperLogLog(_));
        // SET clears the time.
        let had = had.filter(|_| !is_string || from == to);
        self.time(key, had, until);
        true
    }

    fn bring_view(&mut self, key: &[u8], from: &View, to: &View) -> bool {
        match (from, to) {
            (View::String(from), View::String(to)) => {
                if from != to {
                    self.push(&[b"SET", key, to]);
                }
            }
            (View::HyperLogLog(from), View::HyperLogLog(registers)) => {
                if from != registers {
                    self.push(&[b"SET", key, &dense(registers)]);
                }
            }
            (View::Set(from), View::Set(to)) => self.bring_set(key, from, to),
            (View::Hash(from), View::Hash(to)) => self.bring_hash(key, from, to),
            (View::SortedSet(from), View::SortedSet(to)) => self.bring_sorted_set(key, from, to),
            (View::Parts(Kind::VectorSet, from), View::Parts(Kind::VectorSet, to)) => {
                return self.bring_vector_set(key, from, to);
            }
            (View::Parts(Kind::Json, from), View::Parts(Kind::Json, to)) => {
                self.bring_document(key, from, to);
            }
            (View::List(from), View::List(to)) => return self.bring_list(key, from, to),
            (
                View::Stream { entries: from, last: from_last, groups: from_groups },
                View::Stream { entries, last, groups },
            ) => {
                let had: BTreeMap<Id, &Fields> = from.iter().map(|(id, fields)| (*id, fields)).collect();
                let new = entries.iter().filter(|(id, fields)| had.get(id) != Some(&fields));
                let new: Vec<&(Id, Fields)> = new.collect();
                let kept: BTreeSet<Id> = entries.iter().map(|(id, _)| *id).collect();
                let mut there: BTreeSet<Id> = kept.union(&self.uncovered).copied().collect();
                // Those that go are removed after the claims.
                there.extend(had.keys());
                let is_late = new.iter().any(|(id, _)| id <= from_last);
                let is_foreign = is_late || given(from_groups, groups).any(|id| !there.contains(&id));
                if is_foreign && self.rewrites_streams || last < from_last {
                    return false;
                }
                self.add_entries(key, new.into_iter().map(|(id, fields)| (*id, fields)));
                self.bring_groups(key, from_groups, groups, &there);
                self.delete_entries(key, had.into_keys().filter(|id| !kept.contains(id)));
                if entries.last().map_or(*from_last, |(id, _)| *id.max(from_last)) != *last {
                    self.push(&[b"XSETID", key, id_text(*last).as_bytes()]);
                }
            }
            _ => return false,
        }
        true
    }

    fn bring_set(&mut self, key: &[u8], from: &[(Bytes, Until)], to: &[(Bytes, Until)]) {
        let had = Lookup::new(from, |(member, _)| member);
        let added = to.iter().filter(|(member, _)| !had.has(member));
        let added: Vec<Vec<&[u8]>> = added.map(|(member, _)| vec![&member[..]]).collect();
        self.spread(&[b"SADD", key], &added);
        let gone = removed_elements(from, to, |(one, ..)| one);
        self.spread(&[b"SREM", key], &gone);
        for (member, until) in to {
            if had.get(member).and_then(|(_, until)| *until) != *until {
                self.element_time("S", key, member, *until);
            }
        }
    }

    fn bring_hash(&mut self, key: &[u8], from: &[(Bytes, Bytes, Until)], to: &[(Bytes, Bytes, Until)]) {
        let had = Lookup::new(from, |(field, ..)| field);
        let new: Vec<_> = to.iter().filter(|one| had.get(&one.0) != Some(one)).collect();
        let pairs: Vec<Vec<&[u8]>> =
            new.iter().map(|(field, value, _)| vec![&field[..], &value[..]]).collect();
        self.spread(&[b"HSET", key], &pairs);
        let gone = removed_elements(from, to, |(one, ..)| one);
        self.spread(&[b"HDEL", key], &gone);
        // HSET has cleared the times.
        for (field, _, until) in new.into_iter().filter(|(.., until)| until.is_some()) {
            self.element_time("H", key, field, *until);
        }
    }

    fn bring_sorted_set(&mut self, key: &[u8], from: &[(Bytes, f64, Until)], to: &[(Bytes, f64, Until)]) {
        let had = Lookup::new(from, |(member, ..)| member);
        let new: Vec<_> = to.iter().filter(|one| had.get(&one.0) != Some(one)).collect();
        let scores: Vec<String> = new.iter().map(|(_, score, _)| score_text(*score)).collect();
        let pairs: Vec<Vec<&[u8]>> = new
            .iter()
            .zip(&scores)
            .map(|((member, ..), score)| vec![score.as_bytes(), &member[..]])
            .collect();
        self.spread(&[b"ZADD", key], &pairs);
        let gone = removed_elements(from, to, |(one, ..)| one);
        self.spread(&[b"ZREM", key], &gone);
        // ZADD has cleared the times.
        for (member, _, until) in new.into_iter().filter(|(.., until)| until.is_some()) {
            self.element_time("Z", key, member, *until);
        }
    }

    fn bring_document(&mut self, key: &[u8], from: &[(Bytes, Bytes)], to: &[(Bytes, Bytes)]) {
        let steps = document::steps(from, to);
        if steps.len() > ELEMENTS {
            return self.push(&[b"JSON.SET", key, b"$", &document::text(to)]);
        }
        for step in steps {
            match step {
                Step::Set(parts) => {
                    self.push(&[b"JSON.SET", key, &document::path(&parts[0].0), &document::text(parts)]);
                }
                Step::Append(part, elements) => {
                    let path = document::path(part);
                    let elements: Vec<Vec<&[u8]>> = elements.into_iter().map(|one| vec![one]).collect();
                    self.spread(&[b"JSON.ARRAPPEND", key, &path], &elements);
                }
                Step::Remove(part) => self.push(&[b"JSON.DEL", key, &document::path(part)]),
            }
        }
    }

    /// Both views begin with the shape, unless they are empty.
    fn bring_vector_set(&mut self, key: &[u8], from: &[(Bytes, Bytes)], to: &[(Bytes, Bytes)]) -> bool {
        if !from.is_empty() && from.first() != to.first() {
            return false;
        }
        let had = Lookup::new(from, |(name, _)| name);
        let mut is_there = !from.is_empty();
        for (name, value) in to.iter().filter(|one| had.get(&one.0) != Some(one)) {
            let (Some(shape), Some(new)) = (Shape::of_part(name), Element::of_part(name, value)) else {
                continue;
            };
            let before = had.get(name).and_then(|(_, before)| Element::of_part(name, before));
            if before.is_none_or(|before| before.vector != new.vector) {
                let mut words: Vec<&[u8]> = vec![b"VADD", key, b"FP32", new.vector, new.name];
                words.push(shape.quantisation.word());
                let links = new.links.to_string();
                if !is_there {
                    words.extend([b"M", links.as_bytes()]);
                }
                self.push(&words);
                is_there = true;
            }
            if before.map_or(&b""[..], |before| before.attribute) != new.attribute {
                self.push(&[b"VSETATTR", key, new.name, new.attribute]);
            }
        }
        let kept = Lookup::new(to, |(part, _)| part);
        for (part, value) in from.iter().filter(|(part, _)| !kept.has(part)) {
            if let Some(element) = Element::of_part(part, value) {
                self.push(&[b"VREM", key, element.name]);
            }
        }
        true
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
        from == to
    }

    /// Replaces elements at the ends of a list that keeps some between them. Each end has the
    /// number of elements to pop, and the new elements from the middle outwards.
    pub fn replace_ends(&mut self, key: &[u8], ends: [(Side, usize, Vec<&Bytes>); 2]) {
        for (side, gone, new) in ends {
            let (pop, push): (&[u8], &[u8]) = match side {
                Side::Left => (b"LPOP", b"LPUSH"),
                Side::Right => (b"RPOP", b"RPUSH"),
            };
            if gone > 0 {
                self.push(&[pop, key, gone.to_string().as_bytes()]);
            }
            let values: Vec<Vec<&[u8]>> = new.iter().map(|value| vec![&value[..]]).collect();
            self.spread(&[push, key], &values);
        }
    }

    /// Sets the value of a list element.
    pub fn set_element(&mut self, key: &[u8], index: usize, value: &[u8]) {
        self.push(&[b"LSET", key, index.to_string().as_bytes(), value]);
    }

    /// Inserts an element into a list, `BEFORE` or `AFTER` the first one equal to `pivot`.
    pub fn insert_element(&mut self, key: &[u8], side: &[u8], pivot: &[u8], value: &[u8]) {
        self.push(&[b"LINSERT", key, side, pivot, value]);
    }

    /// Removes one element of a value from a list: the first (`1`) or the last one (`-1`).
    pub fn remove_element(&mut self, key: &[u8], count: &[u8], value: &[u8]) {
        self.push(&[b"LREM", key, count, value]);
    }

    /// Replaces `gone` elements at one end of a list that keeps some at the other end.
    pub fn rewrite_end(&mut self, key: &[u8], side: Side, gone: usize, new: Vec<&Bytes>) {
        let none = match side {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        };
        self.replace_ends(key, [(side, gone, new), (none, 0, Vec::new())]);
    }

    fn add_entries<'a>(&mut self, key: &[u8], entries: impl Iterator<Item = (Id, &'a Fields)>) {
        for (id, fields) in entries {
            let id = id_text(id);
            let mut words: Vec<&[u8]> = vec![b"XADD", key, id.as_bytes()];
            words.extend(fields.iter().map(|field| &field[..]));
            self.push(&words);
        }
    }

    fn delete_entries(&mut self, key: &[u8], ids: impl Iterator<Item = Id>) {
        let ids: Vec<String> = ids.map(id_text).collect();
        let ids: Vec<Vec<&[u8]>> = ids.iter().map(|id| vec![id.as_bytes()]).collect();
        self.spread(&[b"XDEL", key], &ids);
    }

    fn write_stream(
        &mut self,
        key: &[u8],
        entries: &[(Id, Fields)],
        last: Id,
        groups: &[(Bytes, GroupView)],
    ) {
        let mut all: BTreeMap<Id, &Fields> = entries.iter().map(|(id, fields)| (*id, fields)).collect();
        let is_possible = |id: &Id| *id > Id::default() && *id <= last;
        let missing = given(&[], groups).filter(|id| self.rewrites_streams && is_possible(id));
        let missing: BTreeSet<Id> = missing.filter(|id| !all.contains_key(id)).collect();
        let filler: Fields = [Bytes::from(&b"x"[..]), Bytes::from(&b"y"[..])].into();
        all.extend(missing.iter().map(|id| (*id, &filler)));
        let there: BTreeSet<Id> = all.keys().copied().collect();
        match all.is_empty() {
            // The only way to create an empty stream.
            true => self.push(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]),
            false => self.add_entries(key, all.into_iter()),
        }
        self.push(&[b"XSETID", key, id_text(last).as_bytes()]);
        self.bring_groups(key, &[], groups, &there);
        self.delete_entries(key, missing.into_iter());
    }

    fn write_view(&mut self, key: &[u8], view: &View) {
        match view {
            View::List(values) => {
                let values: Vec<Vec<&[u8]>> = values.iter().map(|value| vec![&value[..]]).collect();
                self.spread(&[b"RPUSH", key], &values);
            }
            View::Stream { entries, last, groups } => self.write_stream(key, entries, *last, groups),
            View::String(text) => self.push(&[b"SET", key, text]),
            View::HyperLogLog(registers) => self.push(&[b"SET", key, &dense(registers)]),
            View::Set(to) => self.bring_set(key, &[], to),
            View::Hash(to) => self.bring_hash(key, &[], to),
            View::SortedSet(to) => self.bring_sorted_set(key, &[], to),
            View::Parts(Kind::VectorSet, to) => {
                self.bring_vector_set(key, &[], to);
            }
            View::Parts(_, to) => self.bring_document(key, &[], to),
        }
    }

    /// `there`: entries that the stream has while these requests run.
    fn bring_groups(
        &mut self,
        key: &[u8],
        from: &[(Bytes, GroupView)],
        to: &[(Bytes, GroupView)],
        there: &BTreeSet<Id>,
    ) {
        let had = Lookup::new(from, |(name, _)| name);
        let kept = Lookup::new(to, |(name, _)| name);
        for (name, _) in had.iter().filter(|(name, _)| !kept.has(name)) {
            self.push(&[b"XGROUP", b"DESTROY", key, name]);
        }
        for (name, group) in to {
            let delivered = id_text(group.delivered);
            let empty = GroupView { delivered: group.delivered, ..GroupView::default() };
            let before = match had.get(name) {
                Some((_, before)) => before,
                None => {
                    self.push(&[b"XGROUP", b"CREATE", key, name, delivered.as_bytes()]);
                    &empty
                }
            };
            self.bring_group(key, name, before, group, there);
            // Last, so that no claim moves it.
            if before.delivered != group.delivered {
                self.push(&[b"XGROUP", b"SETID", key, name, delivered.as_bytes()]);
            }
        }
    }

    fn bring_group(
        &mut self,
        key: &[u8],
        name: &[u8],
        before: &GroupView,
        group: &GroupView,
        there: &BTreeSet<Id>,
    ) {
        for consumer in group.consumers.iter().filter(|one| before.consumers.binary_search(one).is_err()) {
            self.push(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
        }
        for (id, pending) in group.pending.iter().filter(|(id, one)| before.pending.get(id) != Some(one)) {
            let deleted: &[&[u8]] = if there.contains(id) { &[] } else { &[b"DELETED"] };
            let (id, time) = (id_text(*id), pending.delivered_ms.to_string());
            let (count, delivered) = (pending.count.to_string(), id_text(group.delivered));
            let claim: [&[u8]; 8] =
                [b"XCLAIM", key, name, &pending.consumer, b"0", id.as_bytes(), b"TIME", time.as_bytes()];
            let options: [&[u8]; 6] =
                [b"RETRYCOUNT", count.as_bytes(), b"FORCE", b"JUSTID", b"LASTID", delivered.as_bytes()];
            self.push(&[&claim[..], &options[..], deleted].concat());
        }
        let gone = before.pending.keys().filter(|id| !group.pending.contains_key(id));
        let gone: Vec<String> = gone.map(|id| id_text(*id)).collect();
        let gone: Vec<Vec<&[u8]>> = gone.iter().map(|id| vec![id.as_bytes()]).collect();
        self.spread(&[b"XACK", key, name], &gone);
        for consumer in before.consumers.iter().filter(|one| group.consumers.binary_search(one).is_err()) {
            self.push(&[b"XGROUP", b"DELCONSUMER", key, name, consumer]);
        }
    }
}

/// The entries that are pending in other ways than before.
fn given<'a>(from: &'a [(Bytes, GroupView)], to: &'a [(Bytes, GroupView)]) -> impl Iterator<Item = Id> + 'a {
    to.iter().flat_map(move |(name, group)| {
        let before = from.iter().find(|(other, _)| other == name).map(|(_, before)| before);
        let is_new = move |id: &Id, one: &Pending| before.and_then(|it| it.pending.get(id)) != Some(one);
        group.pending.iter().filter(move |(id, one)| is_new(id, one)).map(|(id, _)| *id)
    })
}

/// The removed elements, each as the word that names it in a request.
fn removed_elements<'a, T>(from: &'a [T], to: &'a [T], name: fn(&T) -> &[u8]) -> Vec<Vec<&'a [u8]>> {
    let kept = Lookup::new(to, name);
    from.iter().map(name).filter(|one| !kept.has(one)).map(|one| vec![one]).collect()
}

fn id_text(id: Id) -> String {
    format!("{}-{}", id.ms, id.sequence)
}

pub(crate) fn score_text(score: f64) -> String {
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
