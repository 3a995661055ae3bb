// SPDX-License-Identifier: BSD-3-Clause
//! Members of attributes in columns, so that filters need not read JSON for each element.
//!
//! ```text
//! cell       a member of one attribute, in 8 bytes
//! column     a member of all attributes: cells, and elements ordered by value
//! evaluate   a filter on cells
//! order      a sorted set of words
//! lookup     the elements that may match a filter, from the orders
//! ```
//! A set has columns for the members that its filters name, once filters have read as many
//! attributes as making the columns does twice; a set that is not filtered has none. They are
//! part of no file, copy or replica: each server makes its own. Changes of the set keep them up to
//! date, and drop them if nobody has filtered for as many changes as there are elements.
//!
//! What takes long is made from a shared copy of the set, on the thread of a filter that runs
//! there. Meanwhile the set notes the elements that change ([`Building`]), and reads their
//! attributes again when the columns arrive.
//!
//! A search in the background runs on a copy, and uses the columns of the set beside the set's own
//! changes ([`Behind`]): the elements that changed last are known, and of those among them that
//! changed after the copy was taken it reads its own attributes.
//!
//! Invariants: columns that are ready agree with the attributes of the set that owns them. Only
//! that set writes to them; a copy holds their lock for some elements at a time. A copy builds
//! only for the ticket that was current when it was taken, so the noted changes are all that it
//! lacks.

mod cell;
mod column;
mod evaluate;
mod lookup;
mod order;

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use smallvec::SmallVec;

use super::filter::{Filter, member};
use cell::Content;
use column::Column;

/// Fewest elements for which columns are worthwhile.
pub const LEN_MIN: usize = 256;
/// Most cells that are made at once rather than from a shared copy.
const AT_ONCE: usize = 4096;
/// Columns of a set.
const COLUMNS_MAX: usize = 8;
/// Changes that are noted while columns are made.
const TOUCHED_MAX: usize = 65_536;
/// The last changes that are known, while there are columns. A copy that lacks more reads
/// attributes.
const RECENT_MAX: usize = 4096;
/// Elements for which a copy holds the columns at a time.
const HELD: usize = 256;
/// Attributes read, as a multiple of the elements, until columns are made, and until columns that
/// have not arrived are given up.
const ASKED_MIN: usize = 2;
const ASKED_MAX: usize = 16;
/// Changes without a filter after which columns are dropped, if there are not more elements.
const UNUSED_MIN: usize = 10_000;

/// What a set of columns is made from.
pub trait Attributes {
    fn len(&self) -> usize;
    fn attribute(&self, id: u32) -> Option<&[u8]>;
}

/// Columns in the making.
struct Building {
    ticket: u64,
    names: Vec<Box<[u8]>>,
    /// True if a copy has begun.
    is_taken: bool,
    /// Elements changed since.
    touched: Vec<u32>,
    /// What a copy has made.
    built: Option<Vec<Column>>,
}

#[derive(Default)]
struct State {
    columns: Vec<Column>,
    building: Option<Building>,
    last_ticket: u64,
    /// Changes since the last filter.
    unused: usize,
    /// Elements that were changed, in all, and the last of them.
    changes: u64,
    recent: VecDeque<u32>,
}

/// How far the columns of a set were when a copy of it was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Of columns in the making; 0 without.
    ticket: u64,
    changes: u64,
}

/// The columns of a set, and how they come to be. The set and its copies own it.
#[derive(Default)]
pub struct AttributeIndex {
    state: RwLock<State>,
    /// Attributes read by filters since columns were last made.
    asked: AtomicUsize,
    was_used: AtomicBool,
}

/// What a set shall do for a filter.
pub enum Help<'i> {
    /// Use these.
    Ready(Ready<'i>),
    /// Read attributes.
    None,
    /// Leave the search to a copy that is yet to be made.
    Copy,
}

/// The columns of a set while a filter uses them.
pub struct Ready<'i>(RwLockReadGuard<'i, State>);

/// The columns of a filter's members, in its order.
pub struct Bound<'c> {
    columns: SmallVec<[&'c Column; 4]>,
    /// The whole filter, if it is that simple.
    comparison: Option<evaluate::Comparison>,
}

fn bind<'c>(columns: &'c [Column], filter: &Filter) -> Option<Bound<'c>> {
    let of = |name: &[u8]| columns.iter().find(|column| column.name() == name);
    let columns = filter.members.iter().map(|name| of(name)).collect::<Option<_>>()?;
    Some(Bound { columns, comparison: evaluate::Comparison::of(filter) })
}

impl Ready<'_> {
    pub fn bound(&self, filter: &Filter) -> Option<Bound<'_>> {
        bind(&self.0.columns, filter)
    }
}

impl Bound<'_> {
    /// Whether an element matches; `None` if its attribute must be read to say.
    #[inline]
    pub fn evaluate(&self, filter: &Filter, id: u32) -> Option<bool> {
        if let Some(comparison) = &self.comparison
            && let Content::Number(number) = self.columns[0].content(id)
        {
            return Some(comparison.holds(number));
        }
        evaluate::evaluate(filter, &self.columns, id)
    }

    /// The elements that may match, if that are known to be `most` or fewer.
    pub fn lookup(&self, filter: &Filter, most: usize) -> Option<Vec<u32>> {
        lookup::lookup(filter, &self.columns, most)
    }
}

/// The columns of a set for a copy of it, which lacks the set's later changes.
pub struct Behind<'i> {
    index: &'i AttributeIndex,
    /// The changes of which `changed` has the elements, or which the copy has.
    known: u64,
    changed: HashSet<u32, foldhash::fast::RandomState>,
}

impl Behind<'_> {
    /// Runs a function with the columns of a filter's members and the elements for which they do
    /// not hold; `None` if there are no such columns, or what has changed is not known any more.
    fn with<R>(
        &mut self,
        filter: &Filter,
        run: impl FnOnce(&Bound<'_>, &HashSet<u32, foldhash::fast::RandomState>) -> R,
    ) -> Option<R> {
        let state = self.index.read();
        let bound = bind(&state.columns, filter)?;
        let missed = usize::try_from(state.changes - self.known).ok()?;
        if missed > state.recent.len() {
            return None;
        }
        self.changed.extend(state.recent.range(state.recent.len() - missed..));
        self.known = state.changes;
        Some(run(&bound, &self.changed))
    }

    /// True if the columns can be used.
    pub fn is_ready(&mut self, filter: &Filter) -> bool {
        self.with(filter, |_, _| ()).is_some()
    }

    /// Keeps the elements of a copy that match. `read` says so from an element's attribute.
    pub fn retain(&mut self, filter: &Filter, ids: &mut Vec<u32>, mut read: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for start in (0..ids.len()).step_by(HELD) {
            let held = start..ids.len().min(start + HELD);
            let mut answers: SmallVec<[Option<bool>; HELD]> = SmallVec::new();
            let asked = &ids[held.clone()];
            self.with(filter, |bound, changed| {
                let of = |id: &u32| bound.evaluate(filter, *id).filter(|_| !changed.contains(id));
                answers.extend(asked.iter().map(of));
            });
            answers.resize(held.len(), None);
            for (at, answer) in held.zip(answers) {
                let id = ids[at];
                if answer.unwrap_or_else(|| read(id)) {
                    ids[kept] = id;
                    kept += 1;
                }
            }
        }
        ids.truncate(kept);
    }

    /// As [`Bound::lookup`], for a copy of so many elements.
    pub fn lookup(&mut self, filter: &Filter, len: usize, most: usize) -> Option<Vec<u32>> {
        self.with(filter, |bound, changed| {
            let mut found = bound.lookup(filter, most)?;
            found.extend(changed);
            found.retain(|&id| (id as usize) < len);
            found.sort_unstable();
            found.dedup();
            (found.len() <= most).then_some(found)
        })?
    }
}

fn build(set: &impl Attributes, name: &[u8]) -> Column {
    let mut column = Column::new(name);
    let attributes = (0..set.len() as u32).map(|id| set.attribute(id));
    column.fill(attributes.map(|attribute| attribute.and_then(|text| member(text, name))));
    column
}

/// Brings columns up to date with elements that have changed.
fn refresh(columns: &mut [Column], ids: &[u32], set: &impl Attributes) {
    let len = set.len();
    for column in columns {
        let name: Box<[u8]> = column.name().into();
        column.truncate(len);
        for &id in ids.iter().filter(|&&id| (id as usize) < len) {
            let found = set.attribute(id).and_then(|text| member(text, &name));
            column.set(id, found.as_ref());
        }
    }
}

impl State {
    fn add(&mut self, columns: Vec<Column>) {
        self.columns.extend(columns);
        let excess = self.columns.len().saturating_sub(COLUMNS_MAX);
        self.columns.drain(..excess);
    }

    /// Notes changes for copies. Those that happen while there are no columns are only counted.
    fn note(&mut self, ids: &[u32]) {
        self.changes += ids.len() as u64;
        if self.columns.is_empty() && self.building.is_none() {
            self.recent = VecDeque::new();
            return;
        }
        self.recent.extend(ids);
        let excess = self.recent.len().saturating_sub(RECENT_MAX);
        self.recent.drain(..excess);
    }

    fn missing(&self, filter: &Filter) -> Vec<Box<[u8]>> {
        let has = |name: &[u8]| self.columns.iter().any(|column| column.name() == name);
        filter.members.iter().filter(|name| !has(name)).cloned().collect()
    }
}

impl AttributeIndex {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts attributes that a filter has read.
    pub fn count_asked(&self, asked: usize) {
        self.asked.fetch_add(asked, Relaxed);
    }

    /// For a copy that is being taken.
    pub fn now(&self) -> Moment {
        let state = self.read();
        let ticket = state.building.as_ref().map_or(0, |building| building.ticket);
        Moment { ticket, changes: state.changes }
    }

    /// The columns for a copy that was taken then.
    pub fn behind(&self, taken: Moment) -> Behind<'_> {
        Behind { index: self, known: taken.changes, changed: HashSet::default() }
    }

    /// Help for a filter of the set that owns the columns.
    pub fn help(&self, set: &impl Attributes, filter: &Filter, may_copy: bool) -> Help<'_> {
        if filter.members.is_empty() || filter.members.len() > COLUMNS_MAX {
            return Help::None;
        }
        if self.read().building.as_ref().is_some_and(|building| building.built.is_some()) {
            self.take_built(set);
        }
        let state = self.read();
        if bind(&state.columns, filter).is_some() {
            self.was_used.store(true, Relaxed);
            return Help::Ready(Ready(state));
        }
        let is_building = state.building.is_some();
        drop(state);
        let (asked, len) = (self.asked.load(Relaxed), set.len());
        if asked < len.saturating_mul(if is_building { ASKED_MAX } else { ASKED_MIN }) {
            return Help::None;
        }
        let mut state = self.write();
        self.asked.store(0, Relaxed);
        state.building = None;
        let names = state.missing(filter);
        if len * names.len() <= AT_ONCE {
            let made = names.iter().map(|name| build(set, name)).collect();
            state.add(made);
            drop(state);
            return Help::Ready(Ready(self.read()));
        }
        if !may_copy {
            return Help::None;
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.building = Some(Building { ticket, names, is_taken: false, touched: Vec::new(), built: None });
        Help::Copy
    }

    fn take_built(&self, set: &impl Attributes) {
        let mut state = self.write();
        let building = state.building.take_if(|building| building.built.is_some());
        if let Some(Building { touched, built: Some(mut columns), .. }) = building {
            refresh(&mut columns, &touched, set);
            state.add(columns);
            self.asked.store(0, Relaxed);
        }
    }

    /// Makes the columns for which a copy was taken, unless another copy does.
    pub fn build_for(&self, taken: Moment, copy: &impl Attributes) {
        let ticket = taken.ticket;
        let names = {
            let mut state = self.write();
            let mine = state.building.as_mut().filter(|building| building.ticket == ticket);
            let Some(building) = mine.filter(|building| !building.is_taken) else { return };
            building.is_taken = true;
            building.names.clone()
        };
        let columns = names.iter().map(|name| build(copy, name)).collect();
        let mut state = self.write();
        if let Some(building) = state.building.as_mut().filter(|building| building.ticket == ticket) {
            building.built = Some(columns);
        }
    }

    /// Brings the columns up to date after a change of these elements, or of their number.
    pub fn touch(&self, ids: &[u32], set: &impl Attributes) {
        let mut state = self.write();
        let state = &mut *state;
        state.note(ids);
        if let Some(building) = &mut state.building {
            building.touched.extend_from_slice(ids);
            if building.touched.len() > TOUCHED_MAX {
                state.building = None;
                self.asked.store(0, Relaxed);
            }
        }
        if state.columns.is_empty() {
            return;
        }
        state.unused = if self.was_used.swap(false, Relaxed) { 0 } else { state.unused + 1 };
        if state.unused > set.len().max(UNUSED_MIN) {
            state.columns = Vec::new();
            state.unused = 0;
            return;
        }
        refresh(&mut state.columns, ids, set);
    }

    /// Bytes allocated, roughly.
    pub fn memory_bytes(&self) -> usize {
        let state = self.read();
        let columns: usize = state.columns.iter().map(Column::memory_bytes).sum();
        let recent = state.recent.capacity() * size_of::<u32>();
        size_of::<Arc<AttributeIndex>>() + size_of::<AttributeIndex>() + columns + recent
    }
}
