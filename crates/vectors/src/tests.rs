// SPDX-License-Identifier: BSD-3-Clause
//! Graphs as a whole: what is found, after what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;

use braid_base::relocation::Mover;

use crate::codec::Codec;
use crate::kernels;
use crate::link::check;
use crate::{Error, Graph, Loader, Matches, Metric, Quantisation, Query, Shape, SharedGraph};

/// No limit of a search with a filter.
const UNLIMITED: (usize, usize) = (usize::MAX, usize::MAX);

/// A number of vectors or steps; under Miri fewer.
const fn many(count: usize) -> usize {
    unless_miri(count, count.div_ceil(50))
}

/// A number, and the one under Miri.
const fn unless_miri(usual: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { usual }
}

fn shape(quantisation: Quantisation, dim: u32, links: u32) -> Shape {
    Shape { metric: Metric::Cosine, quantisation, dim, links }
}

/// Vectors in clusters.
pub struct Clusters {
    centres: Vec<Vec<f32>>,
    spread: f32,
    random: fastrand::Rng,
}

impl Clusters {
    pub fn new(dim: usize, clusters: usize, spread: f32, seed: u64) -> Clusters {
        let mut random = fastrand::Rng::with_seed(seed);
        let centres = (0..clusters).map(|_| (0..dim).map(|_| normal(&mut random)).collect()).collect();
        Clusters { centres, spread, random }
    }

    pub fn of(&mut self, cluster: usize) -> Vec<f32> {
        let Clusters { centres, spread, random } = self;
        centres[cluster].iter().map(|x| x + normal(random) * *spread).collect()
    }

    pub fn any(&mut self) -> Vec<f32> {
        let cluster = self.random.usize(..self.centres.len());
        self.of(cluster)
    }
}

fn normal(random: &mut fastrand::Rng) -> f32 {
    (0..4).map(|_| random.f32() - 0.5).sum::<f32>() * 1.732
}

fn add(graph: &mut Graph, vector: &[f32], random: &mut fastrand::Rng) -> u32 {
    let level = graph.level_from(random.u64(..));
    graph.add(vector, 0, 200, level).expect("a vector of the graph's dimension")
}

fn query(graph: &Graph, vector: &[f32]) -> Query {
    graph.query(vector).expect("a vector of the graph's dimension")
}

/// Near vectors, quantised: the order of the results is closer to that of the vectors as given than
/// the order by which the walk goes.
#[test]
fn results_are_ordered_without_the_lengths_of_quantised_vectors() {
    const DIM: usize = 64;
    let mut clusters = Clusters::new(DIM, 1, 0.5, 7);
    let mut graph = Graph::new(shape(Quantisation::I8, DIM as u32, 16)).expect("a good shape");
    let mut random = fastrand::Rng::with_seed(8);
    let vectors: Vec<Vec<f32>> = (0..300).map(|_| clusters.any()).collect();
    for vector in &vectors {
        add(&mut graph, vector, &mut random);
    }
    let (mut estimated, mut exact) = (0.0, 0.0);
    for _ in 0..20 {
        let given = clusters.any();
        let of_query = query(&graph, &given);
        for (id, vector) in (0..).zip(&vectors) {
            let truth = 1.0 - cosine(&given, vector);
            estimated += (graph.distance_to(&of_query.words, id) - truth).abs();
            exact += (graph.distance(&of_query, id) - truth).abs();
        }
        let found = graph.walk_for(&of_query, 10, 100);
        assert_eq!(found, graph.scan(&of_query, 10));
        let distances = found.iter().map(|hit| graph.distance(&of_query, hit.id));
        assert!(found.iter().map(|hit| hit.distance).eq(distances));
    }
    assert!(exact < 0.75 * estimated, "errors: {exact} of {estimated}");
    // A vector is as close to itself as can be, however it was rounded.
    assert!((0..300).all(|id| graph.distance(&graph.query_of(id), id).abs() < 1e-6));
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Mean and least share of the `count` closest vectors that searches find.
fn recall(graph: &Graph, queries: &[Vec<f32>], count: usize, ef: usize) -> (f64, f64) {
    let (mut sum, mut least) = (0.0, 1.0f64);
    for vector in queries {
        let query = query(graph, vector);
        let truth = graph.scan(&query, count);
        let farthest = truth.last().expect("vectors").distance;
        let found = graph.walk_for(&query, count, ef);
        let hits = found.iter().filter(|hit| hit.distance <= farthest).count().min(truth.len());
        let share = hits as f64 / truth.len() as f64;
        sum += share;
        least = least.min(share);
    }
    (sum / queries.len() as f64, least)
}

/// Number of vectors that a search for themselves does not find.
fn lost(graph: &Graph) -> usize {
    let is_found = |id: u32| {
        let query = graph.query_of(id);
        let own = graph.distance(&query, id);
        graph.walk_for(&query, 10, 100).iter().any(|hit| hit.id == id || hit.distance <= own)
    };
    (0..graph.len() as u32).filter(|&id| !is_found(id)).count()
}

#[test]
fn recall_on_clustered_data() {
    for (spread, quantisation) in
        [(0.1, Quantisation::F32), (0.3, Quantisation::I8), (1.0, Quantisation::I8), (0.5, Quantisation::F32)]
    {
        let (mut data, mut random) = (Clusters::new(64, 50, spread, 1), fastrand::Rng::with_seed(2));
        let mut graph = Graph::new(shape(quantisation, 64, 16)).unwrap();
        for _ in 0..6000 {
            add(&mut graph, &data.any(), &mut random);
        }
        check(&graph);
        let queries: Vec<_> = (0..300).map(|_| data.any()).collect();
        let (mean, least) = recall(&graph, &queries, 10, 100);
        assert!(mean >= 0.98 && least >= 0.8, "{spread} {quantisation:?}: {mean} {least}");
        assert_eq!(lost(&graph), 0, "{spread} {quantisation:?}");
    }
}

#[test]
fn clusters_added_one_after_the_other_stay_reachable() {
    let (mut data, mut random) = (Clusters::new(32, 100, 0.05, 5), fastrand::Rng::with_seed(6));
    let mut graph = Graph::new(shape(Quantisation::F32, 32, 8)).unwrap();
    for cluster in 0..100 {
        for _ in 0..60 {
            add(&mut graph, &data.of(cluster), &mut random);
        }
    }
    check(&graph);
    assert_eq!(lost(&graph), 0);
    let queries: Vec<_> = (0..300).map(|_| data.any()).collect();
    let (mean, least) = recall(&graph, &queries, 10, 100);
    assert!(mean >= 0.98 && least >= 0.8, "{mean} {least}");
}

#[test]
fn a_walk_finds_where_it_starts() {
    let (mut data, mut random) = (Clusters::new(16, 40, 0.2, 18), fastrand::Rng::with_seed(19));
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 4)).unwrap();
    for _ in 0..2000 {
        add(&mut graph, &data.any(), &mut random);
    }
    let is_found = |id: u32, query: Query| graph.walk_for(&query, 1, 1).iter().any(|hit| hit.id == id);
    let alone = (0..2000).filter(|&id| is_found(id, graph.query_of(id))).count();
    assert!(alone < 2000, "a walk with one candidate finds everything");
    assert!((0..2000).all(|id| is_found(id, graph.query_of(id).starting_at(id))));
}

#[test]
fn equal_vectors_do_not_hide_others() {
    let (mut data, mut random) = (Clusters::new(16, 10, 0.3, 8), fastrand::Rng::with_seed(9));
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 4)).unwrap();
    let twin = data.any();
    for at in 0..3000 {
        let vector = if at % 4 > 0 { data.any() } else { twin.clone() };
        add(&mut graph, &vector, &mut random);
    }
    check(&graph);
    assert_eq!(lost(&graph), 0);
}

#[test]
fn churn_loses_nothing() {
    let (mut data, mut random) = (Clusters::new(48, 40, 0.3, 3), fastrand::Rng::with_seed(4));
    let mut graph = Graph::new(shape(Quantisation::I8, 48, 16)).unwrap();
    for _ in 0..many(4000) {
        add(&mut graph, &data.any(), &mut random);
    }
    let queries: Vec<_> = (0..many(200)).map(|_| data.any()).collect();
    let (fresh, _) = recall(&graph, &queries, 10, 100);
    for _ in 0..unless_miri(6, 2) {
        for _ in 0..many(2000) {
            graph.remove(random.u32(..graph.len() as u32));
        }
        check(&graph);
        assert_eq!(lost(&graph), 0, "after removals");
        for _ in 0..many(2000) {
            add(&mut graph, &data.any(), &mut random);
        }
        assert_eq!(lost(&graph), 0, "after additions");
    }
    let (mean, least) = recall(&graph, &queries, 10, 100);
    assert!(mean >= fresh - 0.01 && least >= 0.8, "{fresh} {mean} {least}");
}

#[test]
fn removing_all_leaves_nothing() {
    let (mut data, mut random) = (Clusters::new(8, 3, 0.5, 3), fastrand::Rng::with_seed(4));
    let mut graph = Graph::new(shape(Quantisation::F32, 8, 4)).unwrap();
    for round in 0..3 {
        for _ in 0..many(500) {
            add(&mut graph, &data.any(), &mut random);
        }
        while !graph.is_empty() {
            let id = if round == 0 { graph.entry().0 } else { random.u32(..graph.len() as u32) };
            graph.remove(id);
        }
        check(&graph);
        assert_eq!((graph.block_count(), graph.memory_bytes()), (0, graph.memory_bytes()));
        assert!(graph.memory_bytes() < 300);
        assert!(graph.search(&query(&graph, &data.any()), 5, 10).is_empty());
    }
}

#[test]
fn threads_add_into_one_graph() {
    const FIRST: usize = unless_miri(100, 8);
    const MORE: usize = unless_miri(4000, 18);
    const EF: usize = unless_miri(100, 8);
    let (mut data, mut random) = (Clusters::new(32, 30, 0.3, 11), fastrand::Rng::with_seed(12));
    let mut graph = Graph::new(shape(Quantisation::I8, 32, 8)).unwrap();
    for _ in 0..FIRST {
        add(&mut graph, &data.any(), &mut random);
    }
    let vectors: Vec<_> = (0..MORE).map(|_| data.any()).collect();
    let (next, adder) = (AtomicUsize::new(0), graph.adder(MORE).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..unless_miri(4, 3) as u64 {
            let (next, adder, vectors) = (&next, &adder, &vectors);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while let Some(vector) = vectors.get(next.fetch_add(1, Relaxed)) {
                    let level = (random.u64(..).trailing_zeros() / 3) as u8;
                    let id = adder.add(vector, 7, EF, level).expect("room");
                    let query = adder.query(vector).unwrap();
                    assert!(adder.search(&query, 5, EF).iter().any(|hit| hit.id == id));
                }
            });
        }
    });
    // The allocation of a few records can have room for another one.
    let more = usize::from(adder.add(&vectors[0], 0, EF, 0) != Err(Error::Full));
    drop(adder);
    assert!(more == 0 || cfg!(miri));
    assert_eq!(graph.len(), FIRST + MORE + more);
    check(&graph);
    assert_eq!(lost(&graph), 0);
    let queries: Vec<_> = (0..many(200)).map(|_| data.any()).collect();
    let (mean, least) = recall(&graph, &queries, 10, 100);
    assert!(mean >= 0.98 && least >= 0.8, "{mean} {least}");
}

#[test]
fn matching_vectors_are_found_whatever_their_share() {
    let (mut data, mut random) = (Clusters::new(24, 20, 0.4, 21), fastrand::Rng::with_seed(22));
    let mut graph = Graph::new(shape(Quantisation::F32, 24, 16)).unwrap();
    for _ in 0..5000 {
        add(&mut graph, &data.any(), &mut random);
    }
    for every in [2, 33, 1000] {
        let (mut hits, mut all) = (0, 0);
        for _ in 0..50 {
            let query = query(&graph, &data.any());
            let mut truth = graph.scan(&query, 5000);
            truth.retain(|hit| hit.id % every == 0);
            truth.truncate(10);
            let found = graph.search_matching(&query, 10, 100, UNLIMITED, &mut |id| id % every == 0);
            let found = found.expect("no limit");
            assert!(found.iter().all(|hit| hit.id % every == 0));
            hits += truth.iter().filter(|hit| found.contains(hit)).count();
            all += truth.len();
        }
        assert!(hits as f64 >= 0.95 * all as f64, "{every}: {hits} of {all}");
    }
    let mut asked = 0;
    let none = graph.search_matching(&query(&graph, &data.any()), 10, 100, (700, usize::MAX), &mut |_| {
        asked += 1;
        false
    });
    assert!(none.is_some_and(|found| found.is_empty()) && asked <= 700);
}

/// Counts what a walk is made wider for.
struct Slow {
    every: u32,
    compared: usize,
}

impl Matches for Slow {
    fn is_match(&mut self, id: u32) -> bool {
        id.is_multiple_of(self.every)
    }

    fn compared_more(&mut self, vectors: usize) {
        self.compared += vectors;
    }
}

#[test]
fn a_slow_filter_is_told_what_it_costs() {
    let (mut data, mut random) = (Clusters::new(16, 200, 0.4, 29), fastrand::Rng::with_seed(30));
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 8)).unwrap();
    for _ in 0..many(5000) {
        add(&mut graph, &data.any(), &mut random);
    }
    let query = query(&graph, &data.any());
    for (every, costs) in [(1, false), (20, unless_miri(1, 0) == 1)] {
        let mut filter = Slow { every, compared: 0 };
        graph.search_matching(&query, 10, 20, UNLIMITED, &mut filter).expect("no limit");
        assert_eq!(filter.compared > 0, costs, "{every}");
    }
}

/// Every so many in turn, of which it knows all.
struct Turns {
    every: u32,
    rest: u32,
    len: u32,
    named: usize,
}

impl Matches for Turns {
    fn is_match(&mut self, id: u32) -> bool {
        id % self.every == self.rest
    }

    fn is_quick(&self) -> bool {
        true
    }

    fn few(&mut self, most: usize) -> Option<Vec<u32>> {
        let few: Vec<u32> = (0..self.len).filter(|id| id % self.every == self.rest).collect();
        let few = (few.len() <= most).then_some(few);
        self.named = self.named.max(few.as_ref().map_or(0, Vec::len));
        few
    }
}

/// What is wide for a walk and small beside all is compared as a whole, in one attempt.
#[test]
fn quick_filters_are_planned_by_a_sample() {
    let (mut data, mut random) = (Clusters::new(16, 200, 0.4, 27), fastrand::Rng::with_seed(28));
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 8)).unwrap();
    let len = many(10_000) as u32;
    for _ in 0..len {
        add(&mut graph, &data.any(), &mut random);
    }
    for (every, rest, is_named) in [(2, 1, false), (6, 5, true), (100, 50, true)] {
        let (mut hits, mut all) = (0, 0);
        for _ in 0..20 {
            let query = query(&graph, &data.any());
            let mut filter = Turns { every, rest, len, named: 0 };
            let found = graph.search_matching(&query, 10, 100, UNLIMITED, &mut filter).expect("no limit");
            if len >= 10_000 {
                assert_eq!(filter.named > 0, is_named, "{every}");
            }
            let mut truth = graph.scan(&query, len as usize);
            truth.retain(|hit| hit.id % every == rest);
            truth.truncate(10);
            hits += truth.iter().filter(|hit| found.contains(hit)).count();
            all += truth.len();
        }
        assert!(hits as f64 >= 0.95 * all as f64, "{every}: {hits} of {all}");
    }
}

/// A search within a budget is complete, or ends before it has done much more.
#[test]
fn searches_end_with_their_budget() {
    let (mut data, mut random) = (Clusters::new(24, 20, 0.4, 23), fastrand::Rng::with_seed(24));
    let mut graph = Graph::new(shape(Quantisation::F32, 24, 16)).unwrap();
    for _ in 0..5000 {
        add(&mut graph, &data.any(), &mut random);
    }
    let query = query(&graph, &data.any());
    for every in [1, 10, 100, 2000] {
        let mut matches = |id: u32| id.is_multiple_of(every);
        let all = graph.search_matching(&query, 10, 100, UNLIMITED, &mut matches).expect("no limit");
        let mut completed = false;
        for budget in [0, 100, 3000, 10_000, 30_000, 100_000, 1_000_000] {
            let mut asked = 0;
            let found = graph.search_matching(&query, 10, 100, (usize::MAX, budget), &mut |id: u32| {
                asked += 1;
                id.is_multiple_of(every)
            });
            assert!(asked * 8 <= budget, "{asked} answers, {budget}");
            assert!(found.is_some() || !completed, "a smaller budget was enough");
            completed = found.is_some();
            assert!(found.is_none_or(|found| found == all));
        }
        assert!(completed);
    }
}

#[test]
fn what_was_found_before_links_as_a_walk_does() {
    let (mut data, mut random) = (Clusters::new(16, 20, 0.3, 25), fastrand::Rng::with_seed(26));
    let mut walking = Graph::new(shape(Quantisation::I8, 16, 8)).unwrap();
    let mut prepared = walking.clone();
    for label in 0..many(1500) as u64 {
        let (vector, level) = (data.any(), walking.level_from(random.u64(..)));
        walking.add(&vector, label, 50, level).unwrap();
        let near = prepared.look_around(&vector, 50, level).unwrap();
        prepared.add_near(&vector, label, 50, level, Some(&near)).unwrap();
        if label % 3 == 0 {
            let (id, vector) = (random.u32(..walking.len() as u32), data.any());
            let near = prepared.look_around(&vector, 50, level).unwrap();
            walking.replace(id, &vector, 50, level).unwrap();
            prepared.replace_near(id, &vector, 50, level, Some(&near)).unwrap();
        }
    }
    assert!(saved(&walking) == saved(&prepared));
    // Vectors that have gone, other ones under their numbers, and others added since.
    for label in 0..many(3000) as u64 {
        let (vector, level) = (data.any(), prepared.level_from(random.u64(..)));
        let mut near = prepared.look_around(&vector, 50, random.u8(0..=level + 1)).unwrap();
        for _ in 0..random.u8(..3) {
            prepared.remove(random.u32(..prepared.len() as u32));
            near.note_removed();
        }
        let len = prepared.len() as u32;
        for _ in 0..random.u8(..4) {
            add(&mut prepared, &data.any(), &mut random);
        }
        near.note_added(len..prepared.len() as u32);
        match random.u8(..8) {
            0 => {
                let id = random.u32(..prepared.len() as u32);
                near.note_removed();
                prepared.replace_near(id, &vector, 50, level, Some(&near)).unwrap();
            }
            _ => drop(prepared.add_near(&vector, label, 50, level, Some(&near)).unwrap()),
        }
    }
    check(&prepared);
    assert_eq!(lost(&prepared), 0);
    let queries: Vec<_> = (0..many(200)).map(|_| data.any()).collect();
    let (mean, least) = recall(&prepared, &queries, 10, 100);
    assert!(mean >= 0.98 && least >= 0.8, "{mean} {least}");
}

/// Vectors come and go under a lock, while threads look for places without it and snapshots are
/// taken.
#[test]
fn guests_walk_while_vectors_are_added() {
    const FIRST: usize = unless_miri(100, 8);
    const EACH: u64 = unless_miri(1500, 5) as u64;
    const EF: usize = unless_miri(60, 8);
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 6)).unwrap();
    let (mut data, mut random) = (Clusters::new(16, 20, 0.3, 41), fastrand::Rng::with_seed(42));
    for _ in 0..FIRST {
        add(&mut graph, &data.any(), &mut random);
    }
    let (shared, beside, done) =
        (Mutex::new(SharedGraph::new(graph)), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let adders: Vec<_> = (1..=3u64)
            .map(|thread| {
                let (shared, beside, mut data) = (&shared, &beside, Clusters::new(16, 20, 0.3, 41));
                data.random = fastrand::Rng::with_seed(100 + thread);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for n in 0..EACH {
                        let (vector, level) = (data.any(), (random.u64(..).trailing_zeros() / 2) as u8);
                        let found = {
                            let graph = shared.lock().unwrap();
                            graph.visit().map(|guest| (guest, graph.len() as u32))
                        };
                        let near =
                            found.map(|(guest, len)| (guest.look_around(&vector, EF, level).unwrap(), len));
                        let mut graph = shared.lock().unwrap();
                        let near = near.map(|(mut near, len)| {
                            // Others may have removed one each, or more: it is only a hint.
                            near.note_added(len.saturating_sub(8)..graph.len() as u32);
                            near.note_removed();
                            near
                        });
                        beside.fetch_add(usize::from(graph.guests.load(Relaxed) > 0), Relaxed);
                        let id = graph.add_near(&vector, thread << 32 | n, EF, level, near.as_ref()).unwrap();
                        assert_eq!((id as usize, graph.label(id)), (graph.len() - 1, thread << 32 | n));
                        if n % 7 == 0 {
                            let id = random.u32(..graph.len() as u32);
                            match graph.label(id) {
                                0 => drop(graph.own_mut().remove(id)),
                                _ => graph.own_mut().replace(id, &data.any(), EF, level % 2).unwrap(),
                            }
                        }
                    }
                })
            })
            .collect();
        let (shared, done) = (&shared, &done);
        scope.spawn(move || {
            while !done.load(Relaxed) {
                let snapshot = shared.lock().unwrap().cow();
                let before = saved(&snapshot);
                std::thread::sleep(std::time::Duration::from_millis(5));
                check(&snapshot);
                assert!(saved(&snapshot) == before);
                drop(snapshot);
                std::thread::sleep(std::time::Duration::from_millis(unless_miri(20, 300) as u64));
            }
        });
        let ends: Vec<_> = adders.into_iter().map(|adder| adder.join()).collect();
        done.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    let graph = shared.into_inner().unwrap();
    assert!(beside.into_inner() > 0, "nothing was added beside a guest");
    assert_eq!((graph.guests.load(Relaxed), graph.visit().is_some()), (0, true));
    check(&graph);
    let mut labels: Vec<u64> = (0..graph.len() as u32).map(|id| graph.label(id)).filter(|&l| l > 0).collect();
    labels.sort_unstable();
    let all: Vec<u64> = (1..=3u64).flat_map(|thread| (0..EACH).map(move |n| thread << 32 | n)).collect();
    assert!(labels == all);
    assert_eq!(lost(&graph), 0);
    let queries: Vec<_> = (0..many(200)).map(|_| data.any()).collect();
    let (mean, least) = recall(&graph, &queries, 10, 100);
    assert!(mean >= 0.98 && least >= 0.8, "{mean} {least}");
}

/// Additions in place do what others do; all other changes leave a guest the graph as it was.
#[test]
fn a_guest_sees_additions_only() {
    let (mut data, mut random) = (Clusters::new(16, 5, 0.5, 43), fastrand::Rng::with_seed(44));
    let mut alone = Graph::new(shape(Quantisation::I8, 16, 4)).unwrap();
    for _ in 0..many(600) {
        add(&mut alone, &data.any(), &mut random);
    }
    let mut shared = SharedGraph::new(alone.duplicate());
    let mut in_place = 0;
    for label in 0..many(200) as u64 {
        let guest = shared.visit().expect("no snapshot");
        let (vector, level) = (data.any(), alone.level_from(random.u64(..)));
        alone.add(&vector, label, 50, level).unwrap();
        let near = guest.look_around(&vector, 50, level).unwrap();
        let (len, had_room) = (shared.len(), shared.has_room(level));
        shared.add_near(&vector, label, 50, level, Some(&near)).unwrap();
        assert_eq!(guest.len(), len + usize::from(had_room));
        in_place += usize::from(had_room);
        assert!(saved(&shared) == saved(&alone));
    }
    assert!(cfg!(miri) || in_place > 50 && in_place < 200, "{in_place}");
    let (guest, before) = (shared.visit().expect("no snapshot"), saved(&shared));
    shared.own_mut().remove(3);
    assert!(saved(&guest) == before && saved(&shared) != before);
    check(&guest);
    check(&shared);
    // They share blocks: until the guest leaves, nobody else can come.
    assert!(shared.visit().is_none());
    drop(guest);
    let snapshot = shared.visit().map(drop).map(|()| shared.cow()).expect("no snapshot");
    assert!(shared.visit().is_none() && snapshot.visit().is_none());
    let before = saved(&snapshot);
    shared.add_near(&data.any(), 0, 50, 0, None).unwrap();
    assert!(saved(&snapshot) == before && shared.visit().is_none());
    drop(snapshot);
    assert!(shared.visit().is_some());
}

/// The saved form as one text.
fn saved(graph: &Graph) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some((piece, next)) = graph.save_piece(at) {
        pieces.push(piece);
        at = next;
    }
    (graph.save_head(), pieces)
}

fn loaded(head: &[u8], pieces: &[Vec<u8>]) -> Result<Graph, Error> {
    let mut loader = Loader::new(head)?;
    pieces.iter().try_for_each(|piece| loader.push(piece, &mut |id| u64::from(id)))?;
    loader.finish()
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let (mut data, mut random) = (Clusters::new(16, 5, 0.5, 31), fastrand::Rng::with_seed(32));
    let mut graph = Graph::new(shape(Quantisation::I8, 16, 8)).unwrap();
    for _ in 0..many(2000) {
        add(&mut graph, &data.any(), &mut random);
    }
    let (shared, before) = (graph.clone(), saved(&graph));
    for _ in 0..many(600) {
        graph.remove(random.u32(..graph.len() as u32));
        add(&mut graph, &data.any(), &mut random);
        let id = random.u32(..graph.len() as u32);
        graph.replace(id, &data.any(), 50, 1).unwrap();
    }
    check(&graph);
    assert!(saved(&shared) == before && saved(&graph) != before);
    assert!(saved(&graph.duplicate()) == saved(&graph));
    drop(shared);
    let blocks = graph.block_count() as u64;
    let whole = saved(&graph);
    let mut mover = Mover::new(u64::MAX / 4, true);
    assert_eq!((graph.relocate(0, &mut mover), mover.hits), (None, blocks));
    assert!(saved(&graph) == whole);
    // A mover without time moves nothing, and says where to begin.
    let mut mover = Mover::new(0, true);
    assert_eq!((graph.relocate(1 << 32, &mut mover), mover.hits), (Some(1 << 32), 0));
    let mut mover = Mover::new(u64::MAX / 4, true);
    assert_eq!(graph.relocate(1 << 32, &mut mover), None);
    assert_eq!(mover.hits, (graph.nodes.block_count() + graph.uppers.block_count()) as u64);
    assert!(saved(&graph) == whole);
}

#[test]
fn processors_build_equal_graphs() {
    let graphs = kernels::available().into_iter().map(|kernels| {
        let shape = Shape { metric: Metric::L2, ..shape(Quantisation::F32, 37, 6) };
        let mut graph = Graph::with_codec(shape, Codec::with_kernels(shape, kernels));
        let (mut data, mut random) = (Clusters::new(37, 9, 0.5, 1), fastrand::Rng::with_seed(2));
        for _ in 0..many(600) {
            add(&mut graph, &data.any(), &mut random);
            if random.u8(..4) == 0 {
                graph.remove(random.u32(..graph.len() as u32));
            }
        }
        saved(&graph)
    });
    let graphs: Vec<_> = graphs.collect();
    assert!(graphs.windows(2).all(|pair| pair[0] == pair[1]));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u8),
    Remove(prop::sample::Index),
    Replace(prop::sample::Index, u8),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<u8>(), 0u8..4).prop_map(|(vector, level)| Step::Add(vector, level)),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, vector)| Step::Replace(at, vector)),
        1 => Just(Step::Reload),
    ]
}

fn tiny(seed: u8) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    (0..5).map(|_| random.f32() - 0.5).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }) })]

    #[test]
    fn invariants_hold_after_any_steps(
        steps in prop::collection::vec(step(), 0..400), links in 2u32..6, metric in 0usize..3, kind in 0usize..3,
    ) {
        let metric = [Metric::Cosine, Metric::InnerProduct, Metric::L2][metric];
        let quantisation = [Quantisation::F32, Quantisation::I8, Quantisation::Bin][kind];
        let mut graph = Graph::new(Shape { metric, quantisation, dim: 5, links }).unwrap();
        // The vector of each number.
        let (mut model, mut labels, mut reloaded) = (Vec::<u8>::new(), Vec::new(), false);
        for step in steps {
            match step {
                Step::Add(vector, level) => {
                    prop_assert_eq!(graph.add(&tiny(vector), u64::from(vector) << 40 | 5, 20, level), Ok(model.len() as u32));
                    model.push(vector);
                    labels.push(vector);
                }
                Step::Remove(_) | Step::Replace(..) if model.is_empty() => {}
                Step::Remove(at) => {
                    let at = at.index(model.len());
                    let moved = graph.remove(at as u32);
                    model.swap_remove(at);
                    labels.swap_remove(at);
                    prop_assert_eq!(moved, (at < model.len()).then_some(model.len() as u32));
                }
                Step::Replace(at, vector) => {
                    let at = at.index(model.len());
                    graph.replace(at as u32, &tiny(vector), 20, vector % 3).unwrap();
                    model[at] = vector;
                }
                Step::Reload => {
                    let (head, pieces) = saved(&graph);
                    graph = loaded(&head, &pieces).unwrap();
                    reloaded = true;
                    prop_assert!(saved(&graph) == (head, pieces));
                }
            }
        }
        check(&graph);
        prop_assert_eq!(graph.len(), model.len());
        for (id, &vector) in model.iter().enumerate() {
            if !reloaded {
                prop_assert_eq!(graph.label(id as u32) >> 40, u64::from(labels[id]));
            }
            let query = query(&graph, &tiny(vector));
            prop_assert_eq!(&graph.query_of(id as u32).words.iter().map(|w| w.load(Relaxed)).collect::<Vec<_>>(),
                &query.words.iter().map(|w| w.load(Relaxed)).collect::<Vec<_>>());
            let own = graph.distance(&query, id as u32);
            prop_assert!(graph.walk_for(&query, 1, 50)[0].distance <= own || metric != Metric::L2);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_sound(
        steps in 1u32..60, at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<prop::sample::Index>(),
    ) {
        let mut graph = Graph::new(shape(Quantisation::I8, 5, 3)).unwrap();
        for seed in 0..steps {
            graph.add(&tiny(seed as u8), 0, 20, (seed % 5 / 4) as u8).unwrap();
        }
        let (head, pieces) = saved(&graph);
        let (mut bad_head, mut bad_piece) = (head.clone(), pieces[0].clone());
        let place = at.index(bad_head.len() + bad_piece.len());
        match place.checked_sub(bad_head.len()) {
            Some(place) => bad_piece[place] ^= flip,
            None => bad_head[place] ^= flip,
        }
        if let Ok(mut graph) = loaded(&bad_head, &[bad_piece]) {
            check(&graph);
            let query = graph.query_of(0);
            prop_assert!(!graph.search(&query, 3, 10).is_empty());
            graph.remove(0);
            check(&graph);
        }
        prop_assert!(loaded(&head, &[pieces[0][..cut.index(pieces[0].len())].to_vec()]).is_err());
        prop_assert!(Loader::new(&head[..cut.index(head.len())]).is_err());
    }
}
