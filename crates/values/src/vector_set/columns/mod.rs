// SPDX-License-Identifier: BSD-3-Clause
//! Members of attributes in columns, so that filters need not read JSON for each element.
//!
//! ```text
//! cell       a member of one attribute, in 8 bytes
//! column     a member of all attributes: cells, and elements ordered by value
//! evaluate   a filter on cells
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
//! Invariants: columns that are ready agree with the attributes of the set that owns them. Only
//! that set uses them or writes to them; copies only ask and build. A copy builds only for the
//! ticket that was current when it was taken, so the noted changes are all that it lacks.

mod cell;
mod column;
mod evaluate;
mod lookup;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::filter::{Filter, member};
use column::Column;

/// Fewest elements for which columns are worthwhile.
pub const LEN_MIN: usize = 256;
/// Most cells that are made at once rather than from a shared copy.
const AT_ONCE: usize = 4096;
/// Columns of a set.
const COLUMNS_MAX: usize = 8;
/// Changes that are noted while columns are made.
const TOUCHED_MAX: usize = 65_536;
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
pub struct Bound<'c>(Vec<&'c Column>);

fn bind<'c>(columns: &'c [Column], filter: &Filter) -> Option<Bound<'c>> {
    let of = |name: &[u8]| columns.iter().find(|column| column.name() == name);
    filter.members.iter().map(|name| of(name)).collect::<Option<Vec<_>>>().map(Bound)
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
        evaluate::evaluate(filter, &self.0, id)
    }

    /// The elements that may match, if that are known to be `most` or fewer.
    pub fn lookup(&self, filter: &Filter, most: usize) -> Option<Vec<u32>> {
        lookup::lookup(filter, &self.0, most)
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

    /// The ticket of columns in the making, for a copy that is being taken; 0 without.
    pub fn ticket(&self) -> u64 {
        self.read().building.as_ref().map_or(0, |building| building.ticket)
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
    pub fn build_for(&self, ticket: u64, copy: &impl Attributes) {
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
        let columns: usize = self.read().columns.iter().map(Column::memory_bytes).sum();
        size_of::<Arc<AttributeIndex>>() + size_of::<AttributeIndex>() + columns
    }
}
