// SPDX-License-Identifier: BSD-3-Clause
//! The vectors of an index: of each field a graph, or a list that is searched whole (FLAT).
//!
//! One for all parts, with a lock of its own, taken after the part's. A vector is known by the
//! number of its document; whoever asks compares the generations.
//!
//! In a graph the place of a vector is looked for without that lock (`vectors`, `place.rs`), so
//! threads add vectors beside each other and beside queries.

use std::collections::HashMap;

use braid_base::relocation::Mover;
use braid_search::execute::{DocSet, Vectors};
use braid_search::index::DocRef;
use braid_search::query::VectorOptions;
use braid_search::schema::FieldId;
use braid_vectors::{Error, Found, Graph, Metric, Quantisation, Shape, SharedGraph, State, Visit};
use parking_lot::RwLock;

use crate::definition::{Algorithm, VectorField};
use crate::values::components;

/// In smaller graphs a place is found at once.
const VISITED_LEAST: usize = 64;

/// Vectors in the order of their numbers.
struct Flat {
    numbers: Vec<f32>,
}

enum Store {
    Flat(Flat),
    Graph(Stored),
}

/// A graph, and how often it has changed.
struct Stored {
    graph: SharedGraph,
    put: u64,
    removed: u64,
}

impl Stored {
    fn state(&self) -> State {
        State { uid: 0, put: self.put, removed: self.removed, len: self.graph.len() as u32 }
    }

    /// The level of a document's vector.
    fn level(&self, doc: DocRef) -> u8 {
        let random = u64::from(doc.doc) << 16 | u64::from(doc.part);
        self.graph.level_from(random.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }

    /// Adds a document's vector, or replaces the one that it has; returns its number.
    fn put(
        &mut self,
        doc: DocRef,
        vector: &[f32],
        ef: usize,
        known: Option<u32>,
        found: Option<Found>,
    ) -> Result<u32, Error> {
        let near = found.and_then(|found| found.until(self.state()));
        let (near, level) = (near.as_ref(), self.level(doc));
        let id = match known {
            Some(id) => self.graph.own_mut().replace_near(id, vector, ef, level, near).map(|()| id),
            None => self.graph.add_near(vector, 0, ef, level, near),
        }?;
        self.put += 1;
        Ok(id)
    }
}

/// The vectors of a field.
struct Field {
    definition: VectorField,
    store: Store,
    docs: Vec<DocRef>,
    places: HashMap<(u16, u32), u32>,
}

/// The vectors of all fields that have some.
#[derive(Default)]
pub struct VectorStores {
    fields: RwLock<HashMap<FieldId, RwLock<Field>>>,
}

impl Field {
    fn new(definition: &VectorField) -> Option<Field> {
        let store = match definition.algorithm {
            Algorithm::Flat => Store::Flat(Flat { numbers: Vec::new() }),
            Algorithm::Hnsw { links, .. } => {
                let graph = Graph::new(Shape {
                    metric: definition.metric,
                    quantisation: Quantisation::F32,
                    dim: definition.dimensions,
                    links,
                });
                Store::Graph(Stored { graph: SharedGraph::new(graph.ok()?), put: 0, removed: 0 })
            }
        };
        Some(Field { definition: definition.clone(), store, docs: Vec::new(), places: HashMap::new() })
    }

    /// Removes a document's vector. The document's number may be another one's by now, which is
    /// told by the generation.
    fn remove(&mut self, doc: DocRef) {
        let Some(&id) = self.places.get(&(doc.part, doc.doc)) else { return };
        if self.docs[id as usize].generation != doc.generation {
            return;
        }
        self.take(id);
    }

    fn take(&mut self, id: u32) {
        let DocRef { part, doc, .. } = self.docs[id as usize];
        self.places.remove(&(part, doc));
        let dim = self.definition.dimensions as usize;
        match &mut self.store {
            Store::Flat(flat) => {
                let (at, last) = (id as usize * dim, flat.numbers.len() - dim);
                flat.numbers.copy_within(last.., at);
                flat.numbers.truncate(last);
            }
            Store::Graph(stored) => {
                stored.removed += 1;
                stored.graph.own_mut().remove(id);
            }
        }
        self.docs.swap_remove(id as usize);
        if let Some(moved) = self.docs.get(id as usize) {
            self.places.insert((moved.part, moved.doc), id);
        }
    }

    /// A visit that looks for the place of a document's vector, if that takes long.
    fn visit(&self, doc: DocRef) -> Option<(Visit, usize)> {
        let (Store::Graph(stored), Algorithm::Hnsw { ef_construction, .. }) =
            (&self.store, self.definition.algorithm)
        else {
            return None;
        };
        let is_worth_it = stored.graph.len() >= VISITED_LEAST;
        let visit = is_worth_it.then(|| Visit::begin(&stored.graph, stored.state(), stored.level(doc)));
        Some((visit??, ef_construction))
    }

    fn put(&mut self, doc: DocRef, vector: &[f32], found: Option<Found>) {
        let known = self.places.get(&(doc.part, doc.doc)).copied();
        if let (Store::Flat(_), Some(id)) = (&self.store, known) {
            // It comes after all others.
            self.take(id);
        }
        let id = match &mut self.store {
            Store::Flat(flat) => {
                let factor = if self.definition.metric == Metric::Cosine { unit_factor(vector) } else { 1.0 };
                flat.numbers.extend(vector.iter().map(|number| number * factor));
                self.docs.len() as u32
            }
            Store::Graph(stored) => {
                let Algorithm::Hnsw { ef_construction, .. } = self.definition.algorithm else { return };
                let Ok(id) = stored.put(doc, vector, ef_construction, known, found) else { return };
                id
            }
        };
        match self.docs.get_mut(id as usize) {
            Some(of) => *of = doc,
            None => {
                self.docs.push(doc);
                self.places.insert((doc.part, doc.doc), id);
            }
        }
    }

    /// A distance as RediSearch shows it: graphs have a negative product.
    fn shown(&self, distance: f32) -> f64 {
        let base = if self.definition.metric == Metric::InnerProduct { 1.0 } else { 0.0 };
        f64::from(base + distance)
    }

    fn query(&self, bytes: &[u8]) -> Result<Vec<f32>, String> {
        if bytes.len() != self.definition.bytes() {
            return Err(format!(
                "Error parsing vector similarity query: query vector blob size ({}) does not match index's \
                 expected size ({}).",
                bytes.len(),
                self.definition.bytes()
            ));
        }
        Ok(components(bytes, self.definition.element))
    }

    /// The distances of all vectors of a list, by number.
    fn all_distances<'s>(&'s self, flat: &'s Flat, query: &[f32]) -> impl Iterator<Item = f64> + 's {
        let (metric, dim) = (self.definition.metric, self.definition.dimensions as usize);
        let factor = if metric == Metric::Cosine { unit_factor(query) } else { 1.0 };
        let query: Vec<f32> = query.iter().map(|number| number * factor).collect();
        flat.numbers.chunks_exact(dim).map(move |vector| distance(metric, &query, vector))
    }
}

fn unit_factor(vector: &[f32]) -> f32 {
    let norm = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if norm > 0.0 { 1.0 / norm } else { 0.0 }
}

fn distance(metric: Metric, one: &[f32], other: &[f32]) -> f64 {
    let pairs = one.iter().zip(other);
    f64::from(match metric {
        Metric::L2 => pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>(),
        Metric::InnerProduct | Metric::Cosine => 1.0 - pairs.map(|(a, b)| a * b).sum::<f32>(),
    })
}

impl VectorStores {
    /// Makes room for a field; one that is there stays.
    pub fn add_field(&self, id: FieldId, definition: &VectorField) {
        if let Some(field) = Field::new(definition) {
            self.fields.write().entry(id).or_insert_with(|| RwLock::new(field));
        }
    }

    /// Gives a document these vectors, and no others.
    pub fn put(&self, doc: DocRef, vectors: &[(FieldId, Vec<f32>)]) {
        for (id, field) in &*self.fields.read() {
            match vectors.iter().find(|(one, _)| one == id) {
                Some((_, vector)) => {
                    let visit = field.read().visit(doc);
                    let found = visit.and_then(|(visit, ef)| visit.look_around(vector, ef).ok());
                    field.write().put(doc, vector, found);
                }
                None => field.write().remove(doc),
            }
        }
    }

    pub fn remove(&self, doc: DocRef) {
        for field in self.fields.read().values() {
            field.write().remove(doc);
        }
    }

    /// Moves blocks of a field, the one with this number in any order, to better places; see
    /// `braid_vectors::Graph::relocate`. `None` at its end, and false if there is no such field.
    /// What is being read or changed stays.
    pub fn relocate(&self, number: usize, from: u64, mover: &mut Mover) -> (Option<u64>, bool) {
        let fields = self.fields.read();
        let Some(field) = fields.values().nth(number) else { return (None, false) };
        let next = field.try_write().and_then(|mut field| match &mut field.store {
            // One block, which is too large for a slab.
            Store::Flat(_) => None,
            Store::Graph(stored) => stored.graph.relocate(from, mover),
        });
        (next, true)
    }

    /// The memory of all fields.
    pub fn memory_bytes(&self) -> usize {
        let of = |field: &RwLock<Field>| {
            let field = field.read();
            let vectors = match &field.store {
                Store::Flat(flat) => flat.numbers.capacity() * size_of::<f32>(),
                Store::Graph(stored) => stored.graph.memory_bytes(),
            };
            vectors
                + field.docs.capacity() * size_of::<DocRef>()
                + field.places.capacity() * (size_of::<((u16, u32), u32)>() + 1)
        };
        self.fields.read().values().map(of).sum()
    }
}

impl Vectors for VectorStores {
    fn nearest(
        &self,
        field: FieldId,
        vector: &[u8],
        count: usize,
        options: &VectorOptions,
        allowed: Option<&DocSet>,
    ) -> Result<Vec<(DocRef, f64)>, String> {
        let fields = self.fields.read();
        let Some(field) = fields.get(&field) else { return Ok(Vec::new()) };
        let field = field.read();
        let query = field.query(vector)?;
        let may = |id: u32| allowed.is_none_or(|allowed| allowed.contains(field.docs[id as usize]));
        match &field.store {
            Store::Flat(flat) => {
                if options.ef_runtime.is_some() || options.epsilon.is_some() {
                    return Err("Error parsing vector similarity parameters: Invalid option".to_owned());
                }
                let all = (0..).zip(field.all_distances(flat, &query));
                let mut found: Vec<(u32, f64)> = all.filter(|(id, _)| may(*id)).collect();
                // Of equal ones those that were put first.
                let nearer = |one: &(u32, f64), other: &(u32, f64)| {
                    one.1.total_cmp(&other.1).then(one.0.cmp(&other.0))
                };
                if count < found.len() {
                    found.select_nth_unstable_by(count, nearer);
                    found.truncate(count);
                }
                found.sort_by(nearer);
                Ok(found.into_iter().map(|(id, distance)| (field.docs[id as usize], distance)).collect())
            }
            Store::Graph(Stored { graph, .. }) => {
                let Algorithm::Hnsw { ef_runtime, .. } = field.definition.algorithm else {
                    return Ok(Vec::new());
                };
                let ef = options.ef_runtime.map_or(ef_runtime, |ef| ef as usize).clamp(1, 1 << 20);
                let query = graph.query(&query).map_err(|wrong| wrong.to_string())?;
                let found = match allowed {
                    None => graph.search(&query, count, ef),
                    Some(_) => {
                        let limits = (usize::MAX, usize::MAX);
                        let found = graph.search_matching(&query, count, ef, limits, &mut |id| may(id));
                        found.unwrap_or_default()
                    }
                };
                let found = found.into_iter();
                Ok(found.map(|hit| (field.docs[hit.id as usize], field.shown(hit.distance))).collect())
            }
        }
    }

    fn within(
        &self,
        field: FieldId,
        vector: &[u8],
        radius: f64,
        options: &VectorOptions,
    ) -> Result<Vec<(DocRef, f64)>, String> {
        let fields = self.fields.read();
        let Some(field) = fields.get(&field) else { return Ok(Vec::new()) };
        let field = field.read();
        let query = field.query(vector)?;
        let found: Vec<(u32, f64)> = match &field.store {
            Store::Flat(_) if options.epsilon.is_some() => {
                return Err("Error parsing vector similarity parameters: Invalid option".to_owned());
            }
            Store::Flat(flat) => (0..).zip(field.all_distances(flat, &query)).collect(),
            // Exactly: a walk would have to guess how far it must go.
            Store::Graph(Stored { graph, .. }) => {
                let query = graph.query(&query).map_err(|wrong| wrong.to_string())?;
                (0..graph.len() as u32).map(|id| (id, field.shown(graph.distance(&query, id)))).collect()
            }
        };
        let near = found.into_iter().filter(|(_, distance)| *distance <= radius);
        Ok(near.map(|(id, distance)| (field.docs[id as usize], distance)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ElementType;

    fn doc(doc: u32) -> DocRef {
        DocRef { part: 1, doc, generation: 0 }
    }

    #[test]
    fn lists_and_graphs_find_the_same() {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            let stores = VectorStores::default();
            let of =
                |algorithm| VectorField { algorithm, element: ElementType::Float32, dimensions: 2, metric };
            stores.add_field(0, &of(Algorithm::Flat));
            stores.add_field(1, &of(Algorithm::Hnsw { links: 16, ef_construction: 200, ef_runtime: 10 }));
            for id in 0..50 {
                let vector = vec![(id % 7) as f32 - 3.0, 1.0 + (id % 11) as f32 / 4.0];
                stores.put(doc(id), &[(0, vector.clone()), (1, vector)]);
            }
            (0..50).step_by(3).for_each(|id| stores.remove(doc(id)));
            stores.put(doc(1), &[]);
            // The number of a document that goes may have been given to the next one already.
            stores.remove(DocRef { generation: 7, ..doc(2) });
            stores.put(doc(4), &[(0, vec![9.0, 9.0]), (1, vec![9.0, 9.0])]);
            stores.put(doc(4), &[(0, vec![0.0, 2.0]), (1, vec![0.0, 2.0])]);
            let query: Vec<u8> = [0.5f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
            let find = |field| {
                let mut found = stores.nearest(field, &query, 5, &VectorOptions::default(), None).unwrap();
                found.iter_mut().for_each(|(_, distance)| *distance = (*distance * 1e4).round());
                found.iter().map(|(_, distance)| *distance).collect::<Vec<_>>()
            };
            assert_eq!(find(0), find(1), "{metric:?}");
            assert_eq!(find(0).len(), 5);
            let near = |field| stores.within(field, &query, 0.5, &VectorOptions::default()).unwrap().len();
            assert_eq!(near(0), near(1), "{metric:?}");
            assert!(stores.nearest(0, &query[..4], 1, &VectorOptions::default(), None).is_err());
        }
    }

    /// Vectors are put, replaced and removed by four threads, beside queries. Afterwards the graph
    /// finds what a list finds.
    #[test]
    fn threads_put_vectors_beside_each_other() {
        const EACH: u32 = 400;
        let stores = VectorStores::default();
        let of = |algorithm| VectorField {
            algorithm,
            element: ElementType::Float32,
            dimensions: 8,
            metric: Metric::L2,
        };
        stores.add_field(0, &of(Algorithm::Flat));
        stores.add_field(1, &of(Algorithm::Hnsw { links: 16, ef_construction: 100, ef_runtime: 50 }));
        let vector = |random: &mut fastrand::Rng| (0..8).map(|_| random.f32()).collect::<Vec<f32>>();
        let query = |random: &mut fastrand::Rng| -> Vec<u8> {
            vector(random).iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let options = VectorOptions::default();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let (stores, options, vector, query) = (&stores, &options, &vector, &query);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(u64::from(part));
                    let doc = |doc| DocRef { part, doc, generation: 0 };
                    for number in 0..EACH {
                        let put = vector(&mut random);
                        stores.put(doc(number), &[(0, put.clone()), (1, put)]);
                        let other = random.u32(0..=number);
                        match number % 4 {
                            0 => stores.remove(doc(other)),
                            1 => {
                                let put = vector(&mut random);
                                stores.put(doc(other), &[(0, put.clone()), (1, put)]);
                            }
                            _ => drop(stores.nearest(1, &query(&mut random), 5, options, None)),
                        }
                    }
                });
            }
        });
        let (mut random, mut found) = (fastrand::Rng::with_seed(9), 0);
        for _ in 0..50 {
            let query = query(&mut random);
            let find = |field| stores.nearest(field, &query, 10, &options, None).unwrap();
            let (all, near) = (find(0), find(1));
            assert_eq!(near.len(), 10);
            let is_found = |(doc, _): &&(DocRef, f64)| near.iter().any(|(other, _)| doc == other);
            found += all.iter().filter(is_found).count();
        }
        assert!(found > 475, "{found} of 500");
    }
}
