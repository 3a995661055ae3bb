// SPDX-License-Identifier: BSD-3-Clause
//! A vector set: a graph of vectors, and a table from names to their numbers in it.
//!
//! ```text
//! table   name -> number (4 bytes), then, if the element has an attribute, a byte and the text
//! graph   number -> vector and links, labelled with the hash of the name in the table
//! ```
//! The label leads from a number back to the name: the table finds the member with that hash and
//! that number. A name is stored once, and snapshots share the blocks of both.
//!
//! Every vector gets a serial number; its level in the graph follows from that. So equal requests
//! make equal graphs, here and on replicas.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use braid_base::relocation::Mover;
use braid_containers::member_table::{Expiry, Member, Table};
use braid_vectors::{Error, Found, Graph, Hit, Matches, Projection, Query, Shape, SharedGraph, State, Visit};

use super::columns::{self, AttributeIndex, Attributes, Behind, Bound, Help, Moment};
use super::filter::Filter;

/// Size from which on a snapshot shares the set, in bytes.
const LARGE: usize = 64 * 1024;
/// Position of the graph's first block for a defragmenter; the names' come before.
const GRAPH: u64 = 1 << 48;
/// Elements that are asked for at once.
const AT_ONCE: usize = 1024;
/// Vectors that a walk compares with while an attribute is read, roughly.
const COMPARED: usize = 2;
/// Before the text of an attribute.
const HAS_ATTRIBUTE: u8 = 1;

/// The number of the last set made.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A vector set.
pub struct VectorSet {
    /// Shared as a whole at first, then by blocks: sharing takes no longer for a large graph.
    graph: SharedGraph,
    names: Table<true>,
    /// Elements with an attribute.
    attributes: usize,
    projection: Option<Arc<Projection>>,
    /// The set's number in this process.
    uid: u64,
    /// Serial number of the last vector.
    serial: u64,
    /// Elements removed since the set was made here.
    removed: u64,
    /// Made by the first filter.
    pub(super) index: OnceLock<Arc<AttributeIndex>>,
    /// In a shared copy, how far the index was when it was taken.
    copied_at: Option<Moment>,
}

/// An element's attribute in its member of the table.
fn attribute_of(value: &[u8]) -> Option<&[u8]> {
    value.get(5..)
}

fn number_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|number| u32::from_le_bytes(*number))
}

fn value_of(number: u32, attribute: Option<&[u8]>) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    if let Some(attribute) = attribute {
        value.push(HAS_ATTRIBUTE);
        value.extend_from_slice(attribute);
    }
    value
}

/// A random number for a serial number, the same everywhere (splitmix64).
fn random_of(serial: u64) -> u64 {
    let mut mixed = serial.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

impl VectorSet {
    /// An empty set.
    ///
    /// # Errors
    /// If the shape is out of range.
    pub fn new(shape: Shape, projection: Option<Projection>) -> Result<VectorSet, Error> {
        Ok(VectorSet::with_graph(Graph::new(shape)?, projection.map(Arc::new), 0))
    }

    fn with_graph(graph: Graph, projection: Option<Arc<Projection>>, serial: u64) -> VectorSet {
        let uid = LAST.fetch_add(1, Relaxed) + 1;
        let (graph, names) = (SharedGraph::new(graph), Table::new());
        VectorSet {
            graph,
            names,
            attributes: 0,
            projection,
            uid,
            serial,
            removed: 0,
            index: OnceLock::new(),
            copied_at: None,
        }
    }

    /// Joins a loaded graph with its names, whose numbers are those of the graph.
    pub(super) fn from_parts(
        graph: Graph,
        names: Names,
        projection: Option<Projection>,
        serial: u64,
    ) -> VectorSet {
        let mut set = VectorSet::with_graph(graph, projection.map(Arc::new), serial);
        (set.names, set.attributes) = (names.table, names.attributes);
        set
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.graph.len()
    }

    pub fn is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    pub fn projection(&self) -> Option<&Projection> {
        self.projection.as_deref()
    }

    /// Number of elements with an attribute.
    pub fn attributes(&self) -> usize {
        self.attributes
    }

    /// The set's number in this process.
    pub fn uid(&self) -> u64 {
        self.uid
    }

    /// Serial number of the last vector.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The number of an element.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.names.get(name).and_then(|member| number_of(member.value))
    }

    fn member(&self, id: u32) -> Option<Member<'_>> {
        self.names.find(self.graph.label(id), |member| number_of(member.value) == Some(id))
    }

    /// The name of an element; empty only if the number is none of an element.
    pub fn name(&self, id: u32) -> &[u8] {
        self.member(id).map_or(&[], |member| member.key)
    }

    /// The name and the attribute of an element.
    pub fn name_and_attribute(&self, id: u32) -> (&[u8], Option<&[u8]>) {
        self.member(id).map_or((&[], None), |member| (member.key, attribute_of(member.value)))
    }

    /// The attribute of an element, if it has one.
    pub fn attribute(&self, id: u32) -> Option<&[u8]> {
        self.name_and_attribute(id).1
    }

    /// Adds an element, or gives an existing one another vector; true if it is new. An attribute
    /// stays unless there is another.
    ///
    /// # Errors
    /// If the vector's dimension is not the set's, or the set is full; nothing is changed then.
    pub fn put(
        &mut self,
        name: &[u8],
        vector: &[f32],
        ef: usize,
        attribute: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.put_near(name, vector, ef, attribute, None)
    }

    /// What takes most of the time of [`VectorSet::put`], on a shared copy: finds elements near
    /// the new one.
    ///
    /// # Errors
    /// If the vector's dimension is not the set's.
    pub fn look_around(&self, vector: &[f32], ef: usize) -> Result<Found, Error> {
        Ok(Found::new(self.state(), self.graph.look_around(vector, ef, self.next_level())?))
    }

    /// Lets the calling thread look around without a lock, unless a snapshot shares the set.
    pub fn visit(&self) -> Option<Visit> {
        Visit::begin(&self.graph, self.state(), self.next_level())
    }

    fn state(&self) -> State {
        State { uid: self.uid, put: self.serial, removed: self.removed, len: self.len() as u32 }
    }

    fn next_level(&self) -> u8 {
        self.graph.level_from(random_of(self.serial + 1))
    }

    /// [`VectorSet::put`] with what a search for the element's place has found, if there was one.
    /// The same links result if nothing has changed since.
    ///
    /// # Errors
    /// As [`VectorSet::put`].
    pub fn put_near(
        &mut self,
        name: &[u8],
        vector: &[f32],
        ef: usize,
        attribute: Option<&[u8]>,
        found: Option<Found>,
    ) -> Result<bool, Error> {
        let level = self.next_level();
        let near = found.and_then(|found| found.until(self.state()));
        if let Some(id) = self.find(name) {
            self.graph.own_mut().replace_near(id, vector, ef, level, near.as_ref())?;
            self.serial += 1;
            if attribute.is_some() {
                self.set_attribute(name, attribute);
            }
            return Ok(false);
        }
        let id = self.graph.add_near(vector, self.names.hash_of(name), ef, level, near.as_ref())?;
        self.serial += 1;
        self.names.set(name, &value_of(id, attribute), Expiry::Clear);
        self.attributes += usize::from(attribute.is_some());
        self.touch(&[id]);
        Ok(true)
    }

    /// Tells the columns of attributes that these elements have changed.
    fn touch(&mut self, ids: &[u32]) {
        if self.copied_at.take().is_some() {
            // A copy that changes is a set of its own.
            self.index = OnceLock::new();
        } else if let Some(index) = self.index.get() {
            index.touch(ids, self);
        }
    }

    /// Sets or removes an attribute; false if there is no such element.
    pub fn set_attribute(&mut self, name: &[u8], attribute: Option<&[u8]>) -> bool {
        let Some(member) = self.names.get(name) else { return false };
        let had_one = attribute_of(member.value).is_some();
        let Some(id) = number_of(member.value) else { return false };
        self.names.set(name, &value_of(id, attribute), Expiry::Clear);
        self.attributes = self.attributes + usize::from(attribute.is_some()) - usize::from(had_one);
        self.touch(&[id]);
        true
    }

    /// Removes an element; false if there is none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self
            .names
            .remove_with(name, |member| (number_of(member.value), attribute_of(member.value).is_some()));
        let Some((Some(id), had_attribute)) = removed else { return false };
        self.attributes -= usize::from(had_attribute);
        self.removed += 1;
        if let Some(last) = self.graph.own_mut().remove(id) {
            // Its table member still has the old number.
            let label = self.graph.label(id);
            let member = self.names.find(label, |member| number_of(member.value) == Some(last));
            if let Some(member) = member {
                let (name, value) = (member.key.to_vec(), value_of(id, attribute_of(member.value)));
                self.names.set(&name, &value, Expiry::Clear);
            }
        }
        // The last one has the number of the removed one, or was it.
        self.touch(&[id, self.len() as u32]);
        true
    }

    /// The closest elements to a query among those that a filter matches; see
    /// [`Graph::search_matching`].
    pub fn search_matching(
        &self,
        query: &Query,
        count: usize,
        ef: usize,
        limits: (usize, usize),
        filter: &Filter,
    ) -> Option<Vec<Hit>> {
        if self.attributes == 0 {
            return Some(Vec::new());
        }
        if self.len() < columns::LEN_MIN {
            return self.ask(query, (count, ef), limits, Matching::new(self, filter, Columns::None));
        }
        let index = self.index.get_or_init(Arc::default);
        if let Some(taken) = self.copied_at {
            index.build_for(taken, self);
            let mut behind = index.behind(taken);
            let columns = if behind.is_ready(filter) { Columns::Behind(behind) } else { Columns::None };
            return self.ask(query, (count, ef), limits, Matching::new(self, filter, columns));
        }
        let help = index.help(self, filter, limits.1 != usize::MAX);
        let columns = match &help {
            Help::None => Columns::None,
            Help::Copy => return None,
            Help::Ready(ready) => ready.bound(filter).map_or(Columns::None, Columns::Ready),
        };
        self.ask(query, (count, ef), limits, Matching::new(self, filter, columns))
    }

    fn ask(
        &self,
        query: &Query,
        (count, ef): (usize, usize),
        limits: (usize, usize),
        mut matching: Matching<'_>,
    ) -> Option<Vec<Hit>> {
        let found = self.graph.search_matching(query, count, ef, limits, &mut matching);
        if let Some(index) = self.index.get() {
            index.count_asked(matching.asked);
        }
        found
    }

    /// The closest elements to a query.
    pub fn search(&self, query: &Query, count: usize, ef: usize) -> Vec<Hit> {
        self.graph.search(query, count, ef)
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let projection = self.projection.as_ref().map_or(0, |projection| projection.memory_bytes());
        let index = match self.copied_at {
            None => self.index.get().map_or(0, |index| index.memory_bytes()),
            Some(_) => 0,
        };
        self.graph.memory_bytes() + self.names.memory_bytes() + projection + index
    }

    /// Number of blocks of memory, roughly.
    pub fn block_count(&self) -> usize {
        self.graph.block_count() + self.names.segment_lens().len()
    }

    /// True if a snapshot should share the set rather than write it immediately.
    pub fn is_large(&self) -> bool {
        self.graph.memory_bytes() >= LARGE || self.names.is_large()
    }

    /// A second owner of the same elements, sharing memory until either side changes them.
    pub fn cow(&self) -> VectorSet {
        let mut copy = self.with(self.graph.cow(), self.names.cow(), self.uid);
        copy.copied_at = self.copied_at.or(Some(Moment::default()));
        if let Some(index) = self.index.get() {
            copy.index = Arc::clone(index).into();
            copy.copied_at = self.copied_at.or_else(|| Some(index.now()));
        }
        copy
    }

    fn with(&self, graph: SharedGraph, names: Table<true>, uid: u64) -> VectorSet {
        let projection = self.projection.clone();
        VectorSet {
            graph,
            names,
            attributes: self.attributes,
            projection,
            uid,
            serial: self.serial,
            removed: self.removed,
            index: OnceLock::new(),
            copied_at: None,
        }
    }

    /// Moves blocks to better places; see
    /// [`Collection::relocate_blocks`](braid_keyspace::object::Collection::relocate_blocks).
    /// Positions are those of the names, then those of the graph.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let from_graph = from.checked_sub(GRAPH);
        if from_graph.is_none()
            && let Some(next) = self.names.relocate(from, mover)
        {
            return Some(next);
        }
        let next = self.graph.relocate(from_graph.unwrap_or(0), mover);
        next.map(|next| GRAPH + next)
    }
}

impl Attributes for VectorSet {
    fn len(&self) -> usize {
        VectorSet::len(self)
    }

    fn attribute(&self, id: u32) -> Option<&[u8]> {
        VectorSet::attribute(self, id)
    }
}

/// The columns of a filter's members.
enum Columns<'s> {
    None,
    Ready(Bound<'s>),
    /// Those of the set of which this one is a copy.
    Behind(Behind<'s>),
}

/// The elements that a filter matches.
struct Matching<'s> {
    set: &'s VectorSet,
    filter: &'s Filter,
    columns: Columns<'s>,
    /// Attributes read, and what took as long.
    asked: usize,
}

impl<'s> Matching<'s> {
    fn new(set: &'s VectorSet, filter: &'s Filter, columns: Columns<'s>) -> Matching<'s> {
        Matching { set, filter, columns, asked: 0 }
    }

    fn read(&mut self, id: u32) -> bool {
        self.asked += 1;
        self.set.attribute(id).is_some_and(|attribute| self.filter.matches(attribute))
    }
}

impl Matches for Matching<'_> {
    fn is_match(&mut self, id: u32) -> bool {
        match &self.columns {
            Columns::None => self.read(id),
            Columns::Ready(columns) => match columns.evaluate(self.filter, id) {
                Some(answer) => answer,
                None => self.read(id),
            },
            Columns::Behind(_) => {
                let mut ids = vec![id];
                self.retain(&mut ids);
                !ids.is_empty()
            }
        }
    }

    fn retain(&mut self, ids: &mut Vec<u32>) {
        let Columns::Behind(behind) = &mut self.columns else {
            return ids.retain(|&id| self.is_match(id));
        };
        let (set, filter, asked) = (self.set, self.filter, &mut self.asked);
        behind.retain(filter, ids, |id| {
            *asked += 1;
            set.attribute(id).is_some_and(|attribute| filter.matches(attribute))
        });
    }

    fn is_quick(&self) -> bool {
        !matches!(self.columns, Columns::None)
    }

    fn compared_more(&mut self, vectors: usize) {
        if !self.is_quick() {
            self.asked += vectors / COMPARED;
        }
    }

    fn few(&mut self, most: usize) -> Option<Vec<u32>> {
        match &mut self.columns {
            Columns::None => None,
            Columns::Ready(columns) => columns.lookup(self.filter, most),
            Columns::Behind(behind) => behind.lookup(self.filter, self.set.len(), most),
        }
    }

    /// In the order of the table: an attribute need not be looked for then.
    fn each_match(&mut self, len: u32, most: usize, see: &mut dyn FnMut(u32)) {
        if self.is_quick() {
            let len = len.min(u32::try_from(most).unwrap_or(u32::MAX));
            for start in (0..len).step_by(AT_ONCE) {
                let mut ids: Vec<u32> = (start..len.min(start.saturating_add(AT_ONCE as u32))).collect();
                self.retain(&mut ids);
                ids.into_iter().for_each(&mut *see);
            }
            return;
        }
        let with_attributes = self.set.names.iter().filter_map(|member| {
            attribute_of(member.value).and_then(|attribute| Some((number_of(member.value)?, attribute)))
        });
        let (filter, asked) = (self.filter, &mut self.asked);
        let matching = with_attributes.take(most).inspect(|_| *asked += 1);
        matching.filter(|(_, attribute)| filter.matches(attribute)).for_each(|(id, _)| see(id));
    }
}

impl Clone for VectorSet {
    fn clone(&self) -> VectorSet {
        let uid = LAST.fetch_add(1, Relaxed) + 1;
        self.with(self.graph.duplicate(), self.names.clone(), uid)
    }
}

/// The names of a set that is being loaded.
pub(super) struct Names {
    table: Table<true>,
    attributes: usize,
}

impl Names {
    pub(super) fn new() -> Names {
        Names { table: Table::new(), attributes: 0 }
    }

    /// Adds the name of the next number; its label, or `None` if the name is known.
    pub(super) fn push(&mut self, name: &[u8], attribute: Option<&[u8]>) -> Option<u64> {
        let id = u32::try_from(self.table.len()).ok()?;
        let is_new = self.table.set(name, &value_of(id, attribute), Expiry::Clear);
        self.attributes += usize::from(attribute.is_some());
        is_new.then(|| self.table.hash_of(name))
    }
}
