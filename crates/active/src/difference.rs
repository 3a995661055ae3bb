// SPDX-License-Identifier: BSD-3-Clause
//! Turns effects of peers into requests for the keyspace: brings a keyspace that agrees with the
//! former state of the shadow to its present state.
//!
//! Use with the world stopped and the journal [translated](crate::translate) to its end: apply one
//! or more units, then call [`Difference::finish`], and run the requests as a replica runs its
//! primary's, without expiry by time. They go to the append-only file and to ordinary replicas, and
//! must never be translated back. For what is [hidden](crate::hidden) there is only a flag that it
//! was touched: only the server can tell what follows from it.
//!
//! In a hash, set, sorted set, stream or list only the parts that effects name are compared.
//! After a removal of the whole key, or a change of its type, the remainder is rewritten. A
//! change in the middle of a list ([`crate::list_difference`]) that no command can make rewrites
//! everything between it and the nearer end.

use std::collections::btree_map::IntoIter;
use std::collections::{BTreeMap, BTreeSet};

use crate::cell::CellChange;
use crate::change::{Change, Kind, UnitWrite, Written};
use crate::database::KeyRef;
use crate::effect::{Effect, Unit};
use crate::ended::EndedOfKey;
use crate::hidden::{Touches, flushes, is_of_clients};
use crate::list_difference::bring_list;
use crate::position::{Position, Step};
use crate::replica::{Applied, Refusal, Replica, State};
use crate::requests::{Requests, score_text};
use crate::stamp::Stamp;
use crate::stream::StreamChange;
use crate::translate::shown;
use crate::value::Value;
use crate::vector::{Run, Seen};
use crate::view::{Part, Shown, Until, View};
use crate::{Bytes, Name, string};

/// A request for the keyspace, with the arguments as plain bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRequest {
    pub database: u32,
    pub args: Vec<Vec<u8>>,
}

/// The former state of a key.
#[derive(Debug)]
enum Before {
    Whole(Shown),
    /// A collection, and its touched parts.
    Parts {
        kind: Kind,
        until: Until,
        touched: BTreeSet<Part>,
        /// The former state of the touched parts; of a list, the touched places that had an
        /// element, with its value.
        view: View,
        places: Vec<(Position, Bytes)>,
    },
    /// It existed, and more than parts was touched.
    Something,
}

#[derive(Debug)]
struct Touched {
    before: Before,
    ended: Option<EndedOfKey>,
}

/// A write that the keyspace can simply repeat, without a comparison, as is true of most writes:
/// it creates a string or element or replaces everything there is of it, increments a string, or
/// is a flush.
#[derive(Debug)]
struct Direct<'u> {
    database: u32,
    name: &'u [u8],
    written: Repeated<'u>,
}

#[derive(Debug)]
enum Repeated<'u> {
    String(&'u [u8], Until),
    /// An increment; the present value is read later.
    Sum,
    Field(&'u [u8], &'u [u8]),
    Member(&'u [u8]),
    Score(&'u [u8], f64),
    /// A flush of one database, or of all. `name` is empty.
    Flush(Option<u32>),
}

impl<'u> Repeated<'u> {
    /// The written element, and its type.
    fn element(&self) -> Option<(Kind, &'u [u8])> {
        match *self {
            Repeated::Field(field, _) => Some((Kind::Hash, field)),
            Repeated::Member(member) => Some((Kind::Set, member)),
            Repeated::Score(member, _) => Some((Kind::SortedSet, member)),
            Repeated::String(..) | Repeated::Sum | Repeated::Flush(_) => None,
        }
    }

    fn of_plain(written: UnitWrite<'u>) -> Repeated<'u> {
        match written {
            Written::Text(value) => Repeated::String(value, None),
            Written::Sum(_) => Repeated::Sum,
            Written::Field(field, value) => Repeated::Field(field, value),
            Written::Member(member) => Repeated::Member(member),
            Written::Score(member, score) => Repeated::Score(member, score),
        }
    }

    fn of(change: &'u Change) -> Option<Repeated<'u>> {
        Some(match change {
            Change::String(CellChange::Add(_)) => Repeated::Sum,
            Change::String(change) => Repeated::String(change.written()?, None),
            Change::Hash(field, change) => Repeated::Field(field, change.written()?),
            Change::Set(member, change) => {
                change.written()?;
                Repeated::Member(member)
            }
            Change::SortedSet(member, change) => Repeated::Score(member, *change.written()?),
            _ => return None,
        })
    }
}

/// The touched keys, with their former state.
#[derive(Debug, Default)]
pub struct Difference<'u> {
    /// Direct writes, in order. They run before all others.
    direct: Vec<Direct<'u>>,
    /// Other touched keys, by database.
    touched: BTreeMap<u32, BTreeMap<Name, Touched>>,
    pub touches: Touches,
    /// See [`Pieces::rewrites_streams`].
    pub rewrites_streams: bool,
}

/// The parts that a change touches; `None` if it touches more than parts.
fn parts_of(change: &Change, stamp: Stamp, kind: Kind) -> Option<Vec<Part>> {
    let parts = match change {
        Change::Live(_) | Change::Stream(StreamChange::Last(_)) => Vec::new(),
        Change::Hash(element, _)
        | Change::Set(element, _)
        | Change::SortedSet(element, _)
        | Change::Part(Kind::VectorSet, element, _) => {
            vec![Part::Element(element.clone())]
        }
        Change::Stream(StreamChange::Entry(id, _)) => vec![Part::Entry(*id)],
        Change::Stream(StreamChange::Group(name, _)) => vec![Part::Group(name.clone())],
        Change::Element(place, _) => vec![Part::Item(place.clone())],
        Change::Push { side, values } => {
            let places = (0..values.len() as u64).map(|count| Step::push(*side, stamp.plus(count)));
            places.filter_map(|step| Some(Part::Item(Position::new([step].into_iter())?))).collect()
        }
        _ => return None,
    };
    change.kind().is_none_or(|of_change| of_change == kind).then_some(parts)
}

/// True if an effect with this causal context had seen any part of a value.
fn has_any_of(value: &Value, seen: &Seen<'_>) -> bool {
    let mut has_any = false;
    value.each_stamp(&mut |stamp| has_any |= seen.covers(stamp));
    has_any
}

fn has_parts(value: &Value) -> bool {
    !matches!(value, Value::String(_) | Value::HyperLogLog(_) | Value::Parts(Kind::Json, _))
}

impl<'u> Difference<'u> {
    /// Creates an empty difference with room for this many direct writes.
    pub fn with_capacity(direct: usize) -> Difference<'u> {
        Difference { direct: Vec::with_capacity(direct), ..Difference::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.direct.is_empty() && self.touched.is_empty()
    }

    /// True if a key was touched by anything but a direct write. For the write of one element,
    /// which may come before the key's other requests, only if the element was touched, or more
    /// than elements.
    pub(crate) fn touches(&self, database: u32, name: &[u8], element: Option<(Kind, &[u8])>) -> bool {
        let touched = self.touched.get(&database).and_then(|names| names.get(name));
        let Some(touched) = touched else { return false };
        let (Before::Parts { kind, touched: parts, .. }, None) = (&touched.before, &touched.ended) else {
            return true;
        };
        element.is_none_or(|(of, element)| of != *kind || parts.contains(&Part::Element(element.into())))
    }

    /// Notes a plain write that has replaced everything there was, or has incremented a string.
    pub(crate) fn note_write(&mut self, database: u32, name: &'u [u8], written: UnitWrite<'u>) {
        self.direct.push(Direct { database, name, written: Repeated::of_plain(written) });
    }

    /// The direct write that a unit consists of, if it is one.
    fn direct_of(&self, replica: &Replica, unit: &'u Unit) -> Option<Direct<'u>> {
        let [Effect::Key { database, name, change }] = &unit.effects[..] else { return None };
        let written = Repeated::of(change).filter(|_| is_of_clients(*database))?;
        let is_direct = replica.is_replaced_by(unit, *database, name, change)
            && !self.touches(*database, name, written.element());
        is_direct.then_some(Direct { database: *database, name, written })
    }

    /// Notes the state of a key, unless that has been noted before.
    fn note(
        &mut self,
        replica: &Replica,
        database: u32,
        name: &Name,
        before: impl FnOnce(Option<&Value>) -> Before,
    ) -> &mut Touched {
        self.touched.entry(database).or_default().entry(name.clone()).or_insert_with(|| Touched {
            before: before(replica.visible(database, name).as_deref()),
            ended: replica.ended.of(database, name).cloned(),
        })
    }

    fn note_change(
        &mut self,
        replica: &Replica,
        database: u32,
        name: &Name,
        (stamp, change): (Stamp, &Change),
        seen: Option<Seen<'_>>,
    ) {
        if !is_of_clients(database) {
            return self.touches.note(database);
        }
        let ended = replica.ended.of(database, name);
        let touched = self.note(replica, database, name, |value| match value {
            Some(value) if has_parts(value) => Before::Parts {
                kind: value.kind(),
                until: shown_until(replica, database, name),
                touched: BTreeSet::new(),
                view: View::of_parts(value, std::iter::empty(), ended, replica.rules()),
                places: Vec::new(),
            },
            _ => Before::Whole(shown(replica, database, name)),
        });
        let Before::Parts { kind, touched: parts, view, places, .. } = &mut touched.before else { return };
        let value = replica.key(database, name).and_then(KeyRef::into_value);
        let value = value.as_deref().filter(|value| value.kind() == *kind);
        // A write that found no key removes only what it had seen of a former key, which may be
        // nothing.
        let removes_nothing = || {
            matches!(change, Change::Remove { seen } if seen.is_empty())
                && seen.zip(value).is_some_and(|(seen, value)| !has_any_of(value, &seen))
        };
        let new = match parts_of(change, stamp, *kind) {
            Some(new) => new,
            None if removes_nothing() => return,
            None => {
                touched.before = Before::Something;
                return;
            }
        };
        for part in new {
            // No earlier unit has touched the part, so it still shows its former state.
            if !parts.insert(part.clone()) {
                continue;
            }
            match (value, part) {
                (Some(Value::List(list)), Part::Item(place)) => {
                    let value = list.index(&place).ok().and_then(|index| list.value(index));
                    places.extend(value.cloned().map(|value| (place, value)));
                }
                (Some(value), part) => {
                    view.append(View::of_parts(value, std::iter::once(&part), ended, replica.rules()));
                }
                (None, _) => {}
            }
        }
    }

    /// Notes a flush that has been applied and was the only effect of its unit. The keyspace is
    /// flushed as well, and the keys that the flush had not seen are rewritten.
    fn flush(&mut self, replica: &Replica, only: Option<u32>) {
        self.touches.definitions = true;
        self.touched.retain(|database, _| !flushes(only, *database));
        self.direct.push(Direct { database: 0, name: &[], written: Repeated::Flush(only) });
        for (database, name, ..) in replica.views().filter(|(database, ..)| flushes(only, *database)) {
            let nothing = Touched { before: Before::Whole(None), ended: None };
            self.touched.entry(database).or_default().insert(Name::from(name), nothing);
        }
    }

    /// Notes all keys that a flush may remove.
    fn note_flush(&mut self, replica: &Replica, only: Option<u32>) {
        if let Some(hidden) = only.filter(|only| !is_of_clients(*only)) {
            return self.touches.note(hidden);
        }
        // The keyspace loses the definitions with the keys that they are about.
        self.touches.definitions = true;
        for (database, name) in replica.state.keys.names() {
            if flushes(only, database) && is_of_clients(database) {
                let of_value =
                    |value: Option<&Value>| value.map_or(Before::Whole(None), |_| Before::Something);
                let touched = self.note(replica, database, &Name::from(name), of_value);
                if matches!(touched.before, Before::Parts { .. }) {
                    touched.before = Before::Something;
                }
            }
        }
    }

    fn note_whole_key(&mut self, replica: &Replica, database: u32, name: &Name) {
        self.note(replica, database, name, |_| Before::Whole(shown(replica, database, name)));
    }

    /// All requests, in order.
    pub fn requests(self, replica: &Replica) -> Vec<OwnedRequest> {
        let mut all = Vec::new();
        self.finish(replica, |database, args| {
            all.push(OwnedRequest { database, args: args.iter().map(|arg| arg.to_vec()).collect() });
        });
        all
    }

    /// Runs all requests in order, each in its database.
    pub fn finish(self, replica: &Replica, run: impl FnMut(u32, &[&[u8]])) {
        self.into_pieces().run(replica, run, || true);
    }

    /// Converts it to pieces, to run the requests a few at a time.
    pub fn into_pieces(self) -> Pieces<'u> {
        Pieces {
            direct: self.direct.into_iter(),
            databases: self.touched.into_iter(),
            touched: (0, BTreeMap::new().into_iter()),
            ready: (0, Vec::new().into_iter()),
            rewrites_streams: self.rewrites_streams,
        }
    }
}

/// The requests that are left of a difference. Its keys must not change, in the shadow or in the
/// keyspace, until all of them have been run.
#[derive(Debug)]
pub struct Pieces<'u> {
    direct: std::vec::IntoIter<Direct<'u>>,
    databases: IntoIter<u32, BTreeMap<Name, Touched>>,
    /// The touched keys of the present database.
    touched: (u32, IntoIter<Name, Touched>),
    /// The pending requests of a key, and its database.
    ready: (u32, std::vec::IntoIter<Vec<Vec<u8>>>),
    /// The requests must also work on servers other than Braid, which cannot insert an entry in
    /// the middle of a stream: such a stream is rewritten.
    pub rewrites_streams: bool,
}

impl Pieces<'_> {
    fn next_touched(&mut self) -> Option<(u32, Name, Touched)> {
        loop {
            if let Some((name, touched)) = self.touched.1.next() {
                return Some((self.touched.0, name, touched));
            }
            let (database, names) = self.databases.next()?;
            self.touched = (database, names.into_iter());
        }
    }

    /// Makes the next requests ahead of [`Pieces::run`]. That takes long for a large key, or for
    /// many keys in a row that need no requests.
    pub fn prepare(&mut self, replica: &Replica) {
        while self.direct.len() == 0 && self.ready.1.len() == 0 && self.prepare_key(replica) {}
    }

    /// Makes the requests of the next key. Returns false if there is no key left.
    fn prepare_key(&mut self, replica: &Replica) -> bool {
        let Some((database, name, touched)) = self.next_touched() else { return false };
        let mut requests = Requests::new(database);
        requests.rewrites_streams = self.rewrites_streams;
        finish_key(&mut requests, replica, &name, touched);
        self.ready = (database, requests.all.into_iter());
        true
    }

    /// Runs requests one by one while `goes_on` returns true; requests that rewrite a key run
    /// together. Returns true if none is left.
    pub fn run(
        &mut self,
        replica: &Replica,
        mut run: impl FnMut(u32, &[&[u8]]),
        mut goes_on: impl FnMut() -> bool,
    ) -> bool {
        while goes_on() {
            if let Some(direct) = self.direct.next() {
                direct.run(replica, &mut run);
            } else if let Some(args) = self.ready.1.next() {
                let mut run =
                    |args: &[Vec<u8>]| run(self.ready.0, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                run(&args);
                if args[0] == b"DEL" {
                    self.ready.1.by_ref().for_each(|args| run(&args));
                }
            } else if !self.prepare_key(replica) {
                return true;
            }
        }
        false
    }
}

impl Direct<'_> {
    fn run(self, replica: &Replica, run: &mut impl FnMut(u32, &[&[u8]])) {
        let Direct { database, name, written } = self;
        match written {
            Repeated::String(value, until) => {
                run(database, &[b"SET", name, value]);
                if let Some(time) = until {
                    run(database, &[b"PEXPIREAT", name, time.to_string().as_bytes()]);
                }
            }
            Repeated::Sum => {
                // If no string shows now, a later effect has touched the key.
                if let Some(Value::String(cell)) = replica.visible(database, name).as_deref()
                    && let Some(text) = string::shown(cell)
                {
                    run(database, &[b"SET", name, &text]);
                }
            }
            Repeated::Field(field, value) => run(database, &[b"HSET", name, field, value]),
            Repeated::Member(member) => run(database, &[b"SADD", name, member]),
            Repeated::Score(member, score) => {
                run(database, &[b"ZADD", name, score_text(score).as_bytes(), member]);
            }
            Repeated::Flush(Some(database)) => run(database, &[b"FLUSHDB"]),
            Repeated::Flush(None) => run(database, &[b"FLUSHALL"]),
        }
    }
}

fn shown_until(replica: &Replica, database: u32, name: &[u8]) -> Until {
    let time = replica.key(database, name).and_then(|key| key.time(replica.rules()));
    time.map(|(_, until)| until)
}

fn finish_key(requests: &mut Requests, replica: &Replica, name: &Name, touched: Touched) {
    let database = requests.database;
    let (value, now_ended) = (replica.visible(database, name), replica.ended.of(database, name));
    let Some(value) = value.as_deref() else {
        // The keyspace may still hold the key past its time: delete it unless that is known to be
        // over.
        let is_new = touched.ended.as_ref() != now_ended;
        if is_new || !matches!(touched.before, Before::Whole(None)) {
            requests.delete(name);
        }
        return;
    };
    // Likewise elements that were ended and no longer are.
    if let Some(ended) = &touched.ended
        && !ended.is_whole()
    {
        let over = ended.elements().filter(|one| !now_ended.is_some_and(|now| now.has(one)));
        let empty = View::of_parts(value, std::iter::empty(), None, replica.rules());
        requests.delete_elements(name, &empty, over);
    }
    let until = shown_until(replica, database, name);
    if let Before::Parts { kind, until: had, touched, view: from, places } = &touched.before
        && value.kind() == *kind
    {
        let goes_on = match value {
            Value::List(list) => bring_list(requests, name, list, touched, places),
            value => {
                let to = View::of_parts(value, touched.iter(), now_ended, replica.rules());
                if let Value::Stream(stream) = value {
                    requests.note_uncovered(from, &to, stream);
                }
                requests.goes_on(name, from, None, &to, None)
            }
        };
        if goes_on {
            return requests.time(name, *had, until);
        }
    }
    let after = shown(replica, database, name);
    match touched.before {
        Before::Whole(before) => requests.bring(name, &before, &after),
        _ => {
            let Some((view, until)) = after else { return };
            requests.rewrite(name, &view, until);
        }
    }
}

/// [`Replica::apply`] that also records the difference.
///
/// # Errors
/// As [`Replica::apply`].
pub fn apply_with_difference<'u>(
    replica: &mut Replica,
    now_ms: u64,
    unit: &'u Unit,
    difference: &mut Difference<'u>,
) -> Result<Applied, Refusal> {
    if let Some(direct) = difference.direct_of(replica, unit) {
        let applied = replica.apply(now_ms, unit)?;
        if applied == Applied::Now {
            difference.direct.push(direct);
        }
        return Ok(applied);
    }
    if let [Effect::Flush { database, .. }] = &unit.effects[..]
        && database.is_none_or(is_of_clients)
    {
        let applied = replica.apply(now_ms, unit)?;
        if applied == Applied::Now {
            difference.flush(replica, *database);
        }
        return Ok(applied);
    }
    let run = unit.head().run(replica.vector());
    for (number, (stamp, effect)) in unit.stamped().enumerate() {
        match effect {
            Effect::Key { database, name, change } => {
                let own = run.map(|run| Run { start: run.start, last: stamp.before() });
                let seen = own.map(|own| Seen { others: unit.seen_by(number), own });
                difference.note_change(replica, *database, name, (stamp, change), seen);
            }
            Effect::Flush { database, .. } => difference.note_flush(replica, *database),
        }
    }
    replica.apply(now_ms, unit)
}

/// [`Replica::merge_part`] that also records the difference.
pub fn merge_part_with_difference<'u>(
    replica: &mut Replica,
    theirs: &'u State,
    difference: &mut Difference<'u>,
) {
    replica.merge_part_noting(theirs, |replica, changes| {
        for (database, name, plain) in &changes.new {
            match *database {
                hidden if !is_of_clients(hidden) => difference.touches.note(hidden),
                database if difference.touches(database, name, None) => {}
                database if replica.ended.of(database, name).is_some() => {
                    difference.note_whole_key(replica, database, &Name::from(*name));
                }
                database => {
                    let written = Repeated::String(plain.value, plain.time);
                    difference.direct.push(Direct { database, name, written });
                }
            }
        }
        let merged = changes.merged.iter().map(|(database, name, _)| (*database, name));
        for (database, name) in merged.chain(changes.evicted.iter().map(|(database, name)| (*database, name)))
        {
            match database {
                hidden if !is_of_clients(hidden) => difference.touches.note(hidden),
                database => difference.note_whole_key(replica, database, name),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transaction;
    use crate::position::Side;
    use crate::stream::Id;
    use crate::testing::{NOW, replica};

    const MANY: u64 = 5_000;

    fn bytes(number: u64) -> Bytes {
        number.to_string().into_bytes().into()
    }

    /// A flush by a peer that has seen everything is one request to the keyspace; keys that it
    /// had not seen are rewritten.
    #[test]
    fn a_flush_is_one_request() {
        let (mut one, mut two) = (replica(1), replica(2));
        let key = |number: u64| Name::from(number.to_string().into_bytes());
        let fill = |transaction: &mut Transaction<'_>| {
            (0..MANY).for_each(|number| transaction.set(0, &key(number), bytes(number), None));
            transaction.set_add(1, &key(0), bytes(0));
        };
        let filled = one.execute(NOW, fill).unwrap().unwrap();
        two.apply(NOW, &filled).unwrap();
        let mut requests = |two: &mut Replica, database| {
            let flush = one.execute(NOW, |transaction| transaction.flush(database)).unwrap().unwrap();
            let mut difference = Difference::default();
            apply_with_difference(two, NOW, &flush, &mut difference).unwrap();
            let requests = difference.requests(two).into_iter();
            let args = requests.map(|request| (request.database, request.args.join(&b' ')));
            args.collect::<Vec<_>>()
        };
        let write = two.execute(NOW, |transaction| transaction.set(0, &key(7), bytes(8), None)).unwrap();
        assert!(write.is_some());
        let expected =
            |flush: &str| [flush, "DEL 7", "SET 7 8"].map(|request| (0, request.as_bytes().to_vec()));
        assert_eq!(requests(&mut two, Some(0)), expected("FLUSHDB"));
        assert_eq!(requests(&mut two, None), expected("FLUSHALL"));
        assert_eq!(two.views().count(), 1);
    }

    /// Strings that the other side has overwritten are written here, and their former state is
    /// not kept. The caller can stop after each key, even where nothing has to be written.
    #[test]
    fn copy_rewrites_overwritten_strings_without_former_state() {
        let (mut one, mut two) = (replica(1), replica(2));
        let key = |number: u64| Name::from(number.to_string().into_bytes());
        let write = |replica: &mut Replica, keys: std::ops::Range<u64>, value: u64, time| {
            let body = |transaction: &mut Transaction<'_>| {
                keys.for_each(|number| transaction.set(0, &key(number), bytes(value), time));
            };
            replica.execute(NOW, body).unwrap().unwrap()
        };
        let unit = write(&mut one, 0..MANY, 7, Some(NOW + 1000));
        two.apply(NOW, &unit).unwrap();
        write(&mut one, 0..2, 8, None);
        write(&mut one, 2..3, 9, Some(NOW + 2000));
        // On both sides, to the same value.
        write(&mut one, 10..MANY, 10, None);
        write(&mut two, 10..MANY, 10, None);
        // The keyspace here has ended this one.
        two.execute(NOW, |transaction| assert!(transaction.end(0, &key(1), None))).unwrap();
        let mut difference = Difference::default();
        two.begin_merge(NOW, one.state()).unwrap();
        while two.is_merging() {
            merge_part_with_difference(&mut two, one.state(), &mut difference);
        }
        let direct: Vec<_> = difference.direct.iter().map(|direct| direct.name).collect();
        assert_eq!(direct.len(), 2, "{direct:?}");
        assert_eq!(difference.touched[&0].len(), MANY as usize - 10 + 1);
        let (mut pieces, mut requests) = (difference.into_pieces(), Vec::new());
        let mut left = 10;
        let note = |_, args: &[&[u8]]| requests.push(args.join(&b' '));
        let is_over = pieces.run(&two, note, || {
            left -= 1;
            left > 0
        });
        assert!(!is_over, "the copy did not stop at keys that need no write");
        assert!(pieces.run(&two, |_, args| requests.push(args.join(&b' ')), || true));
        let mut texts: Vec<String> =
            requests.iter().map(|request| String::from_utf8_lossy(request).into_owned()).collect();
        texts.sort();
        let expected = ["PEXPIREAT 2 1800000002000", "SET 0 8", "SET 1 8", "SET 2 9"];
        assert_eq!(texts[texts.len() - 4..], expected, "{texts:?}");
    }

    /// In a large collection only the parts that an effect names are compared and written.
    #[test]
    fn work_is_proportional_to_the_elements_touched() {
        type Write = fn(&mut Transaction, &Name, u64);
        let writes: [Write; 5] = [
            |transaction, key, number| {
                transaction.hash_set(0, key, bytes(number), bytes(number), None);
            },
            |transaction, key, number| transaction.set_add(0, key, bytes(number)),
            |transaction, key, number| transaction.sorted_set_add(0, key, bytes(number), 1.5),
            |transaction, key, number| {
                let id = Id { ms: number + 1, sequence: 0 };
                transaction.stream_add(0, key, Some(id), [bytes(0), bytes(number)].into());
            },
            |transaction, key, number| {
                transaction.list_push(0, key, Side::Right, vec![bytes(number)]);
            },
        ];
        for write in writes {
            let (mut one, mut two) = (replica(1), replica(2));
            let name = Name::from(&b"key"[..]);
            let unit = one.execute(NOW, |transaction| {
                (0..MANY).for_each(|number| write(transaction, &name, number));
            });
            two.apply(NOW, &unit.unwrap().unwrap()).unwrap();
            let units: Vec<Unit> = (MANY..MANY + 2)
                .map(|number| {
                    one.execute(NOW, |transaction| write(transaction, &name, number)).unwrap().unwrap()
                })
                .collect();
            let mut difference = Difference::default();
            for unit in &units {
                apply_with_difference(&mut two, NOW, unit, &mut difference).unwrap();
            }
            let touched: Vec<&Touched> = difference.touched.values().flat_map(BTreeMap::values).collect();
            assert_eq!(difference.direct.len() + 2 * touched.len(), 2);
            for touched in touched {
                let Before::Parts { touched: parts, view, .. } = &touched.before else {
                    panic!("{:?}", touched.before)
                };
                assert_eq!(parts.len(), 2);
                assert!(format!("{view:?}").len() < 200, "{view:?}");
            }
            let requests = difference.requests(&two);
            let words: usize = requests.iter().map(|request| request.args.len()).sum();
            assert!(words < 12, "{requests:?}");
        }
    }

    /// The write of an element beside one that both regions have written is repeated as it is.
    #[test]
    fn an_element_beside_a_touched_one_is_direct() {
        let (mut one, mut two) = (replica(1), replica(2));
        let name = Name::from(&b"key"[..]);
        let set = |replica: &mut Replica, field, value| {
            let set = |transaction: &mut Transaction<'_>| {
                transaction.hash_set(0, &name, bytes(field), bytes(value), None);
            };
            replica.execute(NOW, set).unwrap().unwrap()
        };
        let created = set(&mut one, 1, 1);
        two.apply(NOW, &created).unwrap();
        set(&mut two, 1, 2);
        let units = [(1, 3), (2, 3), (1, 4)].map(|(field, value)| set(&mut one, field, value));
        let mut difference = Difference::default();
        for unit in &units {
            apply_with_difference(&mut two, NOW, unit, &mut difference).unwrap();
        }
        assert_eq!(difference.direct.len(), 1);
        let requests = difference.requests(&two).into_iter();
        let texts: Vec<_> = requests.map(|one| String::from_utf8(one.args.join(&b' ')).unwrap()).collect();
        assert_eq!(texts, ["HSET key 2 3", "HSET key 1 4"]);
    }

    /// The requests after a write to a list of `MANY` elements.
    fn after_write(
        element: impl Fn(u64) -> Bytes,
        write: impl FnOnce(&mut Transaction, &Name),
    ) -> Vec<OwnedRequest> {
        let (mut one, mut two) = (replica(1), replica(2));
        let name = Name::from(&b"key"[..]);
        let unit = one.execute(NOW, |transaction| {
            transaction.list_push(0, &name, Side::Right, (0..MANY).map(element).collect());
        });
        two.apply(NOW, &unit.unwrap().unwrap()).unwrap();
        let mut difference = Difference::default();
        let unit = one.execute(NOW, |transaction| write(transaction, &name)).unwrap().unwrap();
        apply_with_difference(&mut two, NOW, &unit, &mut difference).unwrap();
        difference.requests(&two)
    }

    #[test]
    fn a_change_in_the_middle_of_a_list_is_one_request() {
        let at = 7;
        let words = |requests: Vec<OwnedRequest>| -> Vec<String> {
            let [request] = &requests[..] else { panic!("{requests:?}") };
            request.args.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        let removed = after_write(bytes, |transaction, key| transaction.list_remove(0, key, at));
        assert_eq!(words(removed), ["LREM", "key", "1", "7"]);
        let set = after_write(bytes, |transaction, key| transaction.list_set(0, key, at, bytes(9)));
        assert_eq!(words(set), ["LSET", "key", "7", "9"]);
        let inserted = after_write(bytes, |transaction, key| transaction.list_insert(0, key, at, bytes(9)));
        assert_eq!(words(inserted), ["LINSERT", "key", "BEFORE", "7", "9"]);
        // Equal elements come before it.
        let zeros_before = |number: u64| bytes(if number < 7 { 0 } else { number });
        let removed = after_write(zeros_before, |transaction, key| transaction.list_remove(0, key, at - 1));
        assert_eq!(words(removed), ["LREM", "key", "-1", "0"]);
        let of_two = |number: u64| bytes(if number > 7 { 0 } else { number });
        let inserted = after_write(of_two, |transaction, key| transaction.list_insert(0, key, 8, bytes(9)));
        assert_eq!(words(inserted), ["LINSERT", "key", "AFTER", "7", "9"]);
    }

    /// In a long list of equal elements that a peer has changed in the middle, only the shorter
    /// side is rewritten.
    #[test]
    fn a_change_among_equal_elements_rewrites_the_shorter_side() {
        type Write = fn(&mut Transaction, &Name, usize);
        let writes: [Write; 2] = [
            |transaction, key, index| transaction.list_remove(0, key, index),
            |transaction, key, index| transaction.list_insert(0, key, index, bytes(7)),
        ];
        for (write, index) in writes.into_iter().flat_map(|write| [(write, 3), (write, MANY as usize - 3)]) {
            let requests = after_write(|_| bytes(1), |transaction, key| write(transaction, key, index));
            let words: usize = requests.iter().map(|request| request.args.len()).sum();
            assert!((5..12).contains(&words), "{requests:?}");
            assert!(requests.iter().all(|request| request.args[0] != b"DEL"), "{requests:?}");
        }
    }
}
