// SPDX-License-Identifier: BSD-3-Clause
//! The state that all regions must show, computed from the history alone: every effect counts
//! unless one that had seen it removed or replaced it. The oracle knows neither marks nor vectors
//! nor merging; the world records which effects had seen which.

use std::collections::{BTreeMap, BTreeSet};

use braid_active::amount::Amount;
use braid_active::cell::{CellChange, Sum, Time};
use braid_active::change::{Change, Kind};
use braid_active::document::OBJECT;
use braid_active::effect::{Effect, Unit};
use braid_active::hidden::{LIBRARIES, flushes};
use braid_active::position::{Position, Side, Step};
use braid_active::stream::{GroupChange, GroupView, Id, StreamChange};
use braid_active::view::{Until, View};
use braid_active::{Bytes, Name, Stamp};

/// A set of units, by their numbers in the history.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Units([u64; 6]);

impl Units {
    pub const MAX: usize = 6 * 64;

    pub fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub fn join(&mut self, other: &Units) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// A unit with the units that its server had applied when it made it.
pub struct Made {
    pub unit: Unit,
    pub seen: Units,
    /// The units that it had applied without the copy that it was merging. Effects on keys that
    /// were not merged had seen these.
    pub without_copy: Units,
    /// The server that made it.
    pub by: usize,
    /// It reports an eviction, which must never happen.
    pub is_eviction: bool,
}

/// One effect on one key.
#[derive(Clone, Copy)]
struct Op<'a> {
    unit: usize,
    stamp: Stamp,
    seen: &'a Units,
    /// `None` for a flush.
    change: Option<&'a Change>,
}

impl Op<'_> {
    fn saw(&self, other: &Op) -> bool {
        if self.unit == other.unit { other.stamp < self.stamp } else { self.seen.has(other.unit) }
    }

    /// True if it removes the whole value of a type.
    fn clears(&self, kind: Kind) -> bool {
        match self.change {
            None | Some(Change::Remove { .. } | Change::String(CellChange::Put { .. })) => true,
            Some(Change::Clear { kind: other, .. }) => *other == kind,
            _ => false,
        }
    }
}

impl Made {
    fn seen_by(&self, effect: usize) -> &Units {
        let less = self.unit.seen_less.as_ref();
        let is_less = less.is_some_and(|less| less.effects.contains(&(effect as u32)));
        if is_less { &self.without_copy } else { &self.seen }
    }
}

pub type Expected = BTreeMap<(u32, Name), (View, Until)>;

/// The visible state of replicas that have applied these units.
pub fn expected(history: &[Made], applied: &Units) -> Expected {
    let mut keys: BTreeMap<(u32, Name), Vec<Op>> = BTreeMap::new();
    let counts = |(number, made): &(usize, &Made)| applied.has(*number) && !made.is_eviction;
    let units = || history.iter().enumerate().filter(counts);
    for (unit, made) in units() {
        for (number, (stamp, effect)) in made.unit.stamped().enumerate() {
            if let Effect::Key { database, name, change } = effect {
                let op = Op { unit, stamp, seen: made.seen_by(number), change: Some(change) };
                keys.entry((*database, name.clone())).or_default().push(op);
            }
        }
    }
    for (unit, made) in units() {
        for (effect_number, (stamp, effect)) in made.unit.stamped().enumerate() {
            let Effect::Flush { database, .. } = effect else { continue };
            for ((number, _), ops) in &mut keys {
                if flushes(*database, *number) {
                    ops.push(Op { unit, stamp, seen: made.seen_by(effect_number), change: None });
                }
            }
        }
    }
    keys.into_iter().filter_map(|(id, ops)| Some((id, key(&ops)?))).collect()
}

/// The expected code of all libraries, sorted.
pub fn libraries(expected: &Expected) -> Vec<Bytes> {
    let of = expected.iter().filter(|((database, _), _)| *database == LIBRARIES);
    let mut codes: Vec<Bytes> = of
        .filter_map(|(_, (view, _))| match view {
            View::String(code) => Some(code.clone()),
            _ => None,
        })
        .collect();
    codes.sort();
    codes
}

fn key(ops: &[Op]) -> Option<(View, Until)> {
    let string = cell(ops, Kind::String, |change| match change {
        Change::String(change) => Some(change),
        _ => None,
    });
    let view = vector_set(ops)
        .or_else(|| document(ops))
        .or_else(|| stream(ops))
        .or_else(|| sorted_set(ops))
        .or_else(|| hash(ops))
        .or_else(|| set(ops))
        .or_else(|| list(ops))
        .or_else(|| registers(ops))
        .or_else(|| Some(View::String(text(&string)?)))?;
    let floor = if matches!(view, View::String(_)) { string.base.map(|(stamp, _)| stamp) } else { None };
    let times = ops.iter().filter_map(|op| match op.change {
        Some(Change::Live(time)) => Some((op, *time)),
        Some(Change::String(CellChange::Put { time: Some(time), .. })) => Some((op, Time::At(*time))),
        _ => None,
    });
    let removes = |op: &Op| {
        let change = op.change;
        let is_put = matches!(change, Some(Change::String(CellChange::Put { .. }) | Change::Live(_)));
        is_put || matches!(change, None | Some(Change::Remove { .. }))
    };
    let removers: Vec<&Op> = ops.iter().filter(|op| removes(op)).collect();
    Some((view, longest(times, &removers, floor)))
}

fn survives(op: &Op, removers: &[&Op]) -> bool {
    removers.iter().all(|remover| !remover.saw(op))
}

fn longest<'a>(
    times: impl Iterator<Item = (&'a Op<'a>, Time)>,
    removers: &[&Op],
    floor: Option<Stamp>,
) -> Until {
    let valid = times.filter(|(op, _)| floor.is_none_or(|floor| op.stamp >= floor));
    let left = valid.filter(|(op, _)| survives(op, removers));
    match left.map(|(_, time)| time).max() {
        Some(Time::At(time)) => Some(time),
        _ => None,
    }
}

struct Shown<V> {
    base: Option<(Stamp, V)>,
    amount: Option<Amount>,
    until: Until,
}

impl<V> Shown<V> {
    fn is_live(&self) -> bool {
        self.base.is_some() || self.amount.is_some()
    }
}

/// The remaining state of one value.
fn cell<'a, V: Clone + 'a>(
    ops: &'a [Op<'a>],
    kind: Kind,
    select: impl Fn(&'a Change) -> Option<&'a CellChange<V>>,
) -> Shown<V> {
    let own: Vec<(&Op, &CellChange<V>)> =
        ops.iter().filter_map(|op| Some((op, op.change.and_then(&select)?))).collect();
    let removes =
        |change: &CellChange<V>| matches!(change, CellChange::Put { .. } | CellChange::Remove { .. });
    let clearing = ops.iter().filter(|op| op.clears(kind));
    let removing = own.iter().filter(|(_, change)| removes(change)).map(|(op, _)| *op);
    let mut removers: Vec<&Op> = clearing.chain(removing).collect();
    let base = own.iter().filter_map(|(op, change)| match change {
        CellChange::Put { value, .. } if survives(op, &removers) => Some((op.stamp, value.clone())),
        _ => None,
    });
    let base = base.max_by_key(|(stamp, _)| *stamp);
    let amounts = own.iter().filter_map(|(op, change)| match change {
        CellChange::Add(Sum { before, sum, .. }) if survives(op, &removers) => Some(sum.minus(*before)),
        _ => None,
    });
    let amount = amounts.reduce(Amount::plus);
    removers
        .extend(own.iter().filter(|(_, change)| matches!(change, CellChange::Live(_))).map(|(op, _)| *op));
    let times = own.iter().filter_map(|(op, change)| match change {
        CellChange::Put { time: Some(time), .. } => Some((*op, Time::At(*time))),
        CellChange::Live(time) => Some((*op, *time)),
        _ => None,
    });
    let until = longest(times, &removers, base.as_ref().map(|(stamp, _)| *stamp));
    Shown { base, amount, until }
}

fn text<T: AsRef<[u8]>>(shown: &Shown<T>) -> Option<Bytes> {
    let base = shown.base.as_ref().map(|(_, text)| Bytes::from(text.as_ref()));
    let Some(amount) = shown.amount else { return base };
    let number = base.as_ref().map_or(Some(Amount::ZERO), |text| Amount::parse(text));
    let Some(number) = number else { return base };
    let mut out = Vec::new();
    number.plus(amount).write(&mut out);
    Some(out.into())
}

fn hash(ops: &[Op]) -> Option<View> {
    let fields: BTreeSet<&Bytes> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::Hash(field, _)) => Some(field),
            _ => None,
        })
        .collect();
    let shown = fields.into_iter().filter_map(|field| {
        let shown = cell(ops, Kind::Hash, |change| match change {
            Change::Hash(other, change) if other == field => Some(change),
            _ => None,
        });
        Some((field.clone(), text(&shown)?, shown.until))
    });
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then_some(View::Hash(shown))
}

/// The remaining parts of a value of a type.
fn parts(ops: &[Op], kind: Kind) -> BTreeMap<Bytes, Bytes> {
    let names: BTreeSet<&Bytes> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::Part(of, part, _)) if *of == kind => Some(part),
            _ => None,
        })
        .collect();
    let shown = names.into_iter().filter_map(|part| {
        let shown = cell(ops, kind, |change| match change {
            Change::Part(of, other, change) if *of == kind && other == part => Some(change),
            _ => None,
        });
        Some((part.clone(), text(&shown)?))
    });
    shown.collect()
}

/// The array to which a part of a document has been appended.
fn array_of(part: &Bytes) -> Option<&[u8]> {
    let at = part.len().checked_sub(12)?;
    (part[at..].starts_with(&[1, 3]) && part[at + 2..at + 11].iter().all(|digit| *digit > 127))
        .then_some(&part[..at])
}

/// A part shows unless one around it is there and no object; objects around it show as well.
/// Appended elements show behind those that are in their array's part, or as an array if there is
/// neither a part in its place nor a member below it.
fn document(ops: &[Op]) -> Option<View> {
    let (appended, parts): (BTreeMap<Bytes, Bytes>, BTreeMap<Bytes, Bytes>) =
        parts(ops, Kind::Json).into_iter().partition(|(name, _)| array_of(name).is_some());
    let mut arrays: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    for (name, value) in &appended {
        let array = array_of(name).expect("an element has an array");
        arrays.entry(array).or_default().push(String::from_utf8_lossy(value).into_owned());
    }
    let mut with_arrays = parts.clone();
    for (array, elements) in arrays {
        let base = match parts.get(array) {
            Some(value) if value.starts_with(b"[") => String::from_utf8_lossy(value).into_owned(),
            None if !parts.keys().any(|name| name.starts_with(array)) => "[]".to_owned(),
            _ => continue,
        };
        let inside = base[1..base.len() - 1].to_owned();
        let all: Vec<String> =
            std::iter::once(inside).filter(|one| !one.is_empty()).chain(elements).collect();
        with_arrays.insert(array.into(), format!("[{}]", all.join(",")).into_bytes().into());
    }
    let parts = with_arrays;
    let mut shown = BTreeMap::new();
    for (name, value) in &parts {
        let around: Vec<&[u8]> =
            (0..name.len()).filter(|at| *at == 0 || name[at - 1] == 0).map(|at| &name[..at]).collect();
        if around.iter().all(|one| parts.get(*one).is_none_or(|value| **value == *OBJECT)) {
            shown.extend(around.into_iter().map(|one| (one.into(), OBJECT.into())));
            shown.insert(name.clone(), value.clone());
        }
    }
    (!shown.is_empty()).then(|| View::Parts(Kind::Json, shown.into_iter().collect()))
}

fn vector_set(ops: &[Op]) -> Option<View> {
    let parts = braid_active::vector_set::visible(parts(ops, Kind::VectorSet).into_iter());
    (!parts.is_empty()).then_some(View::Parts(Kind::VectorSet, parts))
}

fn set(ops: &[Op]) -> Option<View> {
    let members: BTreeSet<&Bytes> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::Set(member, _)) => Some(member),
            _ => None,
        })
        .collect();
    let shown = members.into_iter().filter_map(|member| {
        let shown = cell(ops, Kind::Set, |change| match change {
            Change::Set(other, change) if other == member => Some(change),
            _ => None,
        });
        shown.is_live().then(|| (member.clone(), shown.until))
    });
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then_some(View::Set(shown))
}

fn sorted_set(ops: &[Op]) -> Option<View> {
    let members: BTreeSet<&Bytes> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::SortedSet(member, _)) => Some(member),
            _ => None,
        })
        .collect();
    let shown = members.into_iter().filter_map(|member| {
        let shown = cell(ops, Kind::SortedSet, |change| match change {
            Change::SortedSet(other, change) if other == member => Some(change),
            _ => None,
        });
        let base = shown.base.as_ref().map_or(0.0, |(_, score)| *score);
        let score = shown.amount.map_or(base, |amount| base + amount.to_float());
        shown.is_live().then(|| (member.clone(), score, shown.until))
    });
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then_some(View::SortedSet(shown))
}

/// A write of an element: the operation, its stamp, and the value; `None` for a removal.
type Write<'a> = (&'a Op<'a>, Stamp, Option<&'a Bytes>);

fn list(ops: &[Op]) -> Option<View> {
    let mut writes: BTreeMap<Position, Vec<Write>> = BTreeMap::new();
    for op in ops {
        match op.change {
            Some(Change::Push { side, values }) => {
                for (count, value) in (0..).zip(values) {
                    let stamp = op.stamp.plus(count);
                    let side = if *side == Side::Left { Side::Left } else { Side::Right };
                    let place = Position::new([Step::push(side, stamp)].into_iter()).expect("a step");
                    writes.entry(place).or_default().push((op, stamp, Some(value)));
                }
            }
            Some(Change::Element(place, change)) => {
                let value = match change {
                    CellChange::Put { value, .. } => Some(value),
                    _ => None,
                };
                writes.entry(place.clone()).or_default().push((op, op.stamp, value));
            }
            _ => {}
        }
    }
    let clearing: Vec<&Op> = ops.iter().filter(|op| op.clears(Kind::List)).collect();
    let shown = writes.into_values().filter_map(|writes| {
        let removers: Vec<&Op> =
            clearing.iter().copied().chain(writes.iter().map(|(op, _, _)| *op)).collect();
        let left = writes.iter().filter(|(op, _, value)| value.is_some() && survives(op, &removers));
        left.max_by_key(|(_, stamp, _)| *stamp).and_then(|(_, _, value)| value.cloned())
    });
    let shown: Vec<Bytes> = shown.collect();
    (!shown.is_empty()).then_some(View::List(shown))
}

fn registers(ops: &[Op]) -> Option<View> {
    let clearing: Vec<&Op> = ops.iter().filter(|op| op.clears(Kind::HyperLogLog)).collect();
    let mut shown: BTreeMap<u16, u8> = BTreeMap::new();
    let mut is_there = false;
    for op in ops.iter().filter(|op| survives(op, &clearing)) {
        if let Some(Change::Count(registers)) = op.change {
            is_there = true;
            for (register, rank) in registers {
                let greatest = shown.entry(*register).or_default();
                *greatest = (*greatest).max(*rank);
            }
        }
    }
    is_there.then(|| View::HyperLogLog(shown.into_iter().collect()))
}

fn stream(ops: &[Op]) -> Option<View> {
    if !ops.iter().any(|op| matches!(op.change, Some(Change::Stream(_)))) {
        return None;
    }
    let ids: BTreeSet<Id> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::Stream(StreamChange::Entry(id, _))) => Some(*id),
            _ => None,
        })
        .collect();
    let entries = ids.into_iter().filter_map(|id| {
        let shown = cell(ops, Kind::Stream, |change| match change {
            Change::Stream(StreamChange::Entry(other, change)) if *other == id => Some(change),
            _ => None,
        });
        Some((id, shown.base?.1))
    });
    let entries: Vec<_> = entries.collect();
    let removes = |op: &&Op| {
        op.clears(Kind::Stream) || matches!(op.change, Some(Change::Stream(StreamChange::Last(_))))
    };
    let removers: Vec<&Op> = ops.iter().filter(removes).collect();
    let lasts = ops.iter().filter_map(|op| match op.change {
        Some(Change::Stream(StreamChange::Last(id))) if survives(op, &removers) => Some((op.stamp, *id)),
        _ => None,
    });
    let last = lasts.max().map(|(_, id)| id);
    let groups = groups(ops);
    if entries.is_empty() && last.is_none() && groups.is_empty() {
        return None;
    }
    let last = last.max(entries.last().map(|(id, _)| *id)).unwrap_or_default();
    Some(View::Stream { entries, last, groups })
}

fn groups(ops: &[Op]) -> Vec<(Bytes, GroupView)> {
    let all: Vec<(&Op, &Bytes, &GroupChange)> = ops
        .iter()
        .filter_map(|op| match op.change {
            Some(Change::Stream(StreamChange::Group(name, change))) => Some((op, name, change)),
            _ => None,
        })
        .collect();
    let names: BTreeSet<&Bytes> = all.iter().map(|(_, name, _)| *name).collect();
    let clearing: Vec<&Op> = ops.iter().filter(|op| op.clears(Kind::Stream)).collect();
    let shown = names.into_iter().filter_map(|name| {
        let own: Vec<(&Op, &GroupChange)> =
            all.iter().filter(|(_, other, _)| *other == name).map(|(op, _, change)| (*op, *change)).collect();
        let destroying = own.iter().filter(|(_, change)| **change == GroupChange::Destroy).map(|(op, _)| *op);
        let removers: Vec<&Op> = clearing.iter().copied().chain(destroying).collect();
        let mut view: Option<GroupView> = None;
        let mut stamps: BTreeMap<Id, Stamp> = BTreeMap::new();
        for (creation, change) in &own {
            let GroupChange::Create { delivered } = change else { continue };
            if survives(creation, &removers) {
                creation_view(&own, creation.stamp, *delivered, view.get_or_insert_default(), &mut stamps);
            }
        }
        let mut view = view?;
        view.consumers.sort_unstable();
        view.consumers.dedup();
        Some((name.clone(), view))
    });
    shown.collect()
}

fn creation_view(
    own: &[(&Op, &GroupChange)],
    of: Stamp,
    delivered: Id,
    view: &mut GroupView,
    stamps: &mut BTreeMap<Id, Stamp>,
) {
    let mut furthest = (of, delivered);
    for (op, change) in own {
        match change {
            GroupChange::Deliver { created, since, id } if *created == of => {
                furthest = furthest.max((since.unwrap_or(op.stamp), *id));
            }
            GroupChange::Pending { created, id, pending } if *created == of => {
                let replaces = |change: &GroupChange| match change {
                    GroupChange::Pending { created, id: other, .. } => *created == of && other == id,
                    GroupChange::Acknowledge { id: other } => other == id,
                    _ => false,
                };
                let is_left = own.iter().all(|(other, change)| !(replaces(change) && other.saw(op)));
                if is_left && stamps.get(id).is_none_or(|stamp| *stamp < op.stamp) {
                    stamps.insert(*id, op.stamp);
                    view.pending.insert(*id, pending.clone());
                }
            }
            GroupChange::Consumer { created, name, is_there: true } if *created == of => {
                let replaces = |change: &GroupChange| match change {
                    GroupChange::Consumer { created, name: other, .. } => *created == of && other == name,
                    _ => false,
                };
                if own.iter().all(|(other, change)| !(replaces(change) && other.saw(op))) {
                    view.consumers.push(name.clone());
                }
            }
            _ => {}
        }
    }
    view.delivered = view.delivered.max(furthest.1);
}
