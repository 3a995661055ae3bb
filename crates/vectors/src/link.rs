// SPDX-License-Identifier: BSD-3-Clause
//! Which vectors are linked.
//!
//! A new vector `a` is linked to the closest candidates that are in different directions. If such
//! a candidate `b` has no free slot, one of its links is taken over: `b-c` becomes `b-a-c`, where
//! `c` is a far neighbour of `b` that is closer to `a`. No link is lost without a way around it,
//! so a level that was connected stays connected; no vector gets out of reach because others were
//! added near its neighbours. (The idea is that of graphs of constant degree, Hezel et al., "Fast
//! Approximate Nearest Neighbor Search with a Dynamic Exploration Graph".)
//!
//! When a vector is removed, each of its neighbours has lost one link. Those that are not
//! connected with each other by at most two links are joined first, then pairs of them are linked,
//! closest first; a neighbour with few links left looks for new ones as a new vector does.

use std::collections::HashMap;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use crate::beam::{Candidate, descend, walk, with_scratch};
use crate::locks::Guards;
use crate::near::{At, Near, candidates};
use crate::plan::{Join, Plan, degree, diverse, is_linked, plan, room, victim};
use crate::store::{Graph, NONE};

/// Candidates for the links of a vector that has lost some.
const RELINK_EF: usize = 64;
/// Attempts to link two vectors whose links other threads change meanwhile.
const ATTEMPTS: usize = 8;

/// Write access to a graph's links.
pub trait Writer {
    fn graph(&self) -> &Graph;
    /// Makes a vector's links at a level writable: not shared with a snapshot.
    fn own(&mut self, id: u32, level: u8);
    /// Keeps other threads from changing the links of these vectors.
    fn lock(&self, ids: [u32; 3]) -> Guards;
    /// Makes a vector the entry if its level is above the entry's.
    fn raise_entry(&self, id: u32, level: u8);
}

/// Access by the only thread that uses the graph.
pub struct Exclusive<'g>(pub &'g mut Graph);

impl Writer for Exclusive<'_> {
    fn graph(&self) -> &Graph {
        self.0
    }

    fn own(&mut self, id: u32, level: u8) {
        if level == 0 {
            self.0.nodes.own(id);
        } else {
            let record = self.0.upper(id, level);
            self.0.uppers.own(record);
        }
    }

    fn lock(&self, _: [u32; 3]) -> Guards {
        Guards::default()
    }

    fn raise_entry(&self, id: u32, level: u8) {
        raise_entry(self.0, id, level);
    }
}

/// Access by the only thread that changes the graph, beside others that walk in it. All blocks have
/// one owner, and there is memory for the new vector.
pub struct Beside<'g>(pub &'g Graph);

impl Writer for Beside<'_> {
    fn graph(&self) -> &Graph {
        self.0
    }

    fn own(&mut self, _: u32, _: u8) {
        // The caller has seen that no snapshot has any block.
    }

    fn lock(&self, _: [u32; 3]) -> Guards {
        Guards::default()
    }

    fn raise_entry(&self, id: u32, level: u8) {
        raise_entry(self.0, id, level);
    }
}

fn raise_entry(graph: &Graph, id: u32, level: u8) {
    let (entry, top) = graph.entry();
    if entry == NONE || level > top {
        graph.set_entry(id, level);
    }
}

/// Adds `b` to the links of `a`, which has a free slot.
fn push(writer: &mut impl Writer, a: u32, b: u32, level: u8) {
    writer.own(a, level);
    let slots = writer.graph().slots(a, level);
    debug_assert!(degree(slots) < slots.len());
    if let Some(slot) = slots.get(degree(slots)) {
        slot.store(b, Release);
    }
}

/// Removes `b` from the links of `a`.
fn drop_link(writer: &mut impl Writer, a: u32, b: u32, level: u8) {
    writer.own(a, level);
    let slots = writer.graph().slots(a, level);
    let count = degree(slots);
    if let Some(at) = slots[..count].iter().position(|slot| slot.load(Relaxed) == b) {
        slots[at].store(slots[count - 1].load(Relaxed), Release);
        slots[count - 1].store(NONE, Release);
    }
}

fn link(writer: &mut impl Writer, a: u32, b: u32, level: u8) {
    push(writer, a, b, level);
    push(writer, b, a, level);
}

fn cut(writer: &mut impl Writer, a: u32, b: u32, level: u8) {
    drop_link(writer, a, b, level);
    drop_link(writer, b, a, level);
}

/// Links two vectors, taking a link over from the second if that is full; false if the first is
/// full, or the second has no link to give.
fn connect(writer: &mut impl Writer, a: u32, b: u32, level: u8, must: bool) -> bool {
    for _ in 0..ATTEMPTS {
        let graph = writer.graph();
        let taken = if room(graph, b, level) > 0 {
            None
        } else {
            match victim(graph, &a, b, level, must) {
                Some(c) => Some(c),
                None => return false,
            }
        };
        if let Some(is_linked) = try_to_join(writer, a, Join { to: b, from: taken }, level) {
            return is_linked;
        }
    }
    false
}

/// Makes one link, if the graph is still as it was when that was chosen; else `None`, with nothing
/// done. False if `a` is full.
fn try_to_join(writer: &mut impl Writer, a: u32, join: Join, level: u8) -> Option<bool> {
    let Join { to: b, from: taken } = join;
    let _guards = writer.lock([a, b, taken.unwrap_or(b)]);
    let graph = writer.graph();
    if is_linked(graph, a, b, level) {
        return Some(true);
    }
    let (room_a, room_b) = (room(graph, a, level), room(graph, b, level));
    if room_a == 0 {
        return Some(false);
    }
    match taken {
        None if room_b > 0 => {
            link(writer, a, b, level);
            Some(true)
        }
        Some(c) if room_b == 0 && is_linked(graph, b, c, level) => {
            let has_way = is_linked(graph, a, c, level);
            if !has_way && room_a < 2 {
                return None;
            }
            cut(writer, b, c, level);
            link(writer, a, b, level);
            if !has_way {
                link(writer, a, c, level);
            }
            Some(true)
        }
        _ => None,
    }
}

/// Gives a new vector the links of a plan. What has changed since is chosen anew.
fn follow(writer: &mut impl Writer, id: u32, level: u8, plan: &Plan) {
    for &join in &plan.joins {
        if try_to_join(writer, id, join, level).is_none() {
            connect(writer, id, join.to, level, false);
        }
    }
}

/// Links a vector to candidates until it has `want` links or no candidate is left.
fn attach(writer: &mut impl Writer, id: u32, level: u8, found: &[Candidate], want: usize) {
    let (chosen, rest) = diverse(writer.graph(), found, want);
    for candidate in &chosen {
        connect(writer, id, candidate.id(), level, false);
    }
    for candidate in &rest {
        if degree(writer.graph().slots(id, level)) >= want {
            return;
        }
        connect(writer, id, candidate.id(), level, false);
    }
    if degree(writer.graph().slots(id, level)) == 0 {
        found.iter().any(|candidate| connect(writer, id, candidate.id(), level, true));
    }
}

/// Links a new vector, whose records are without links, on all its levels. On levels where vectors
/// near it are known there is no walk.
pub fn insert(writer: &mut impl Writer, id: u32, ef: usize, level: u8, near: Option<&Near>) {
    let words = writer.graph().query_of(id).words;
    let (entry, top) = writer.graph().entry();
    if entry != NONE {
        let mut entries = Vec::new();
        for level in (0..=level.min(top)).rev() {
            let graph = writer.graph();
            let mut known = near.map_or_else(At::default, |near| near.at(graph, &words, id, level));
            if known.candidates.is_empty() {
                known.candidates = candidates(graph, &words, &entries, ef, level);
                known.plan = None;
            }
            known.candidates.retain(|candidate| candidate.id() != id);
            let plan = known.plan.unwrap_or_else(|| plan(graph, &words, &known.candidates, level));
            follow(writer, id, level, &plan);
            if degree(writer.graph().slots(id, level)) == 0 {
                known.candidates.iter().any(|candidate| connect(writer, id, candidate.id(), level, true));
            }
            entries = known.candidates;
        }
    }
    writer.raise_entry(id, level);
}

/// Removes all links of a vector at a level; returns its former neighbours.
pub fn unlink(writer: &mut impl Writer, id: u32, level: u8) -> Vec<u32> {
    let neighbours: Vec<u32> = writer.graph().links(id, level).collect();
    for &neighbour in &neighbours {
        drop_link(writer, neighbour, id, level);
    }
    writer.own(id, level);
    writer.graph().slots(id, level).iter().for_each(|slot| slot.store(NONE, Relaxed));
    neighbours
}

/// Groups of orphans that are connected with each other.
struct Groups(Vec<usize>);

impl Groups {
    fn of(&self, mut at: usize) -> usize {
        while self.0[at] != at {
            at = self.0[at];
        }
        at
    }

    /// True if they were in different groups.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
        a != b
    }

    fn is_one(&self) -> bool {
        (0..self.0.len()).all(|at| self.of(at) == 0)
    }
}

/// Which orphans are connected by one link or, if not all are, by two.
fn groups(graph: &Graph, orphans: &[u32], level: u8) -> Groups {
    let mut groups = Groups((0..orphans.len()).collect());
    let mut first_at: HashMap<u32, usize> = orphans.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    for (at, &orphan) in orphans.iter().enumerate() {
        for neighbour in graph.links(orphan, level) {
            if let Some(&other) = first_at.get(&neighbour) {
                groups.join(at, other);
            }
        }
    }
    if groups.is_one() {
        return groups;
    }
    for (at, &orphan) in orphans.iter().enumerate() {
        for neighbour in graph.links(orphan, level) {
            let other = *first_at.entry(neighbour).or_insert(at);
            groups.join(at, other);
        }
    }
    groups
}

/// Frees a slot of a full vector: the farthest link goes that has a way around it by one other
/// vector. False if there is none.
fn make_room(writer: &mut impl Writer, id: u32, level: u8) -> bool {
    let graph = writer.graph();
    if room(graph, id, level) > 0 {
        return true;
    }
    let mut far: Vec<Candidate> =
        graph.links(id, level).map(|c| Candidate::new(graph.between(id, c), c)).collect();
    far.sort_unstable_by(|left, right| right.cmp(left));
    let has_way = |c: u32| graph.links(c, level).any(|way| is_linked(graph, id, way, level));
    let Some(spare) = far.iter().map(|c| c.id()).find(|&c| has_way(c)) else { return false };
    cut(writer, id, spare, level);
    true
}

/// Links the former neighbours of a removed vector.
pub fn repair(writer: &mut impl Writer, orphans: &[u32], level: u8) {
    let graph = writer.graph();
    let mut groups = groups(graph, orphans, level);
    let mut pairs = Vec::with_capacity(orphans.len() * orphans.len() / 2);
    for (at, &a) in orphans.iter().enumerate() {
        for (other, &b) in orphans.iter().enumerate().skip(at + 1) {
            pairs.push((Candidate::new(graph.between(a, b), 0), at, other));
        }
    }
    pairs.sort_unstable();
    let mut gained = vec![false; orphans.len()];
    if !groups.is_one() {
        for &(_, a, b) in &pairs {
            if groups.of(a) != groups.of(b) {
                groups.join(a, b);
                join(writer, orphans[a], orphans[b], level);
                (gained[a], gained[b]) = (true, true);
            }
        }
    }
    for &(_, a, b) in &pairs {
        if !gained[a] && !gained[b] {
            let (left, right) = (orphans[a], orphans[b]);
            let graph = writer.graph();
            let fits = room(graph, left, level) > 0 && room(graph, right, level) > 0;
            if fits && !is_linked(graph, left, right, level) {
                link(writer, left, right, level);
                (gained[a], gained[b]) = (true, true);
            }
        }
    }
    for &orphan in orphans {
        let slots = writer.graph().slots(orphan, level);
        if degree(slots) < slots.len() / 4 {
            relink(writer, orphan, level, slots_wanted(writer.graph(), level));
        }
    }
}

fn slots_wanted(graph: &Graph, level: u8) -> usize {
    let links = graph.shape().links as usize;
    if level == 0 { links } else { links.div_ceil(2) }
}

/// Links two vectors of different groups.
fn join(writer: &mut impl Writer, a: u32, b: u32, level: u8) {
    if make_room(writer, a, level) && make_room(writer, b, level) && !is_linked(writer.graph(), a, b, level) {
        link(writer, a, b, level);
    }
}

/// Looks for new links of a vector that has few.
fn relink(writer: &mut impl Writer, id: u32, level: u8, want: usize) {
    let words = writer.graph().query_of(id).words;
    let found = with_scratch(|scratch| {
        let graph = writer.graph();
        let (_, top) = graph.entry();
        let mut entries = descend(graph, &words, level.min(top), scratch);
        entries.extend(graph.links(id, level).map(|c| Candidate::new(graph.distance_to(&words, c), c)));
        walk(graph, level, &words, &entries, RELINK_EF, scratch)
    });
    let new =
        |candidate: &Candidate| candidate.id() != id && !is_linked(writer.graph(), id, candidate.id(), level);
    let found: Vec<Candidate> = found.into_iter().filter(new).collect();
    attach(writer, id, level, &found, want);
}

/// Gives a vector another number, which has no vector.
pub fn renumber(writer: &mut Exclusive<'_>, from: u32, to: u32) {
    for level in 0..=writer.graph().level(from) {
        let neighbours: Vec<u32> = writer.graph().links(from, level).collect();
        for neighbour in neighbours {
            writer.own(neighbour, level);
            let slots = writer.graph().slots(neighbour, level);
            if let Some(slot) = slots.iter().find(|slot| slot.load(Relaxed) == from) {
                slot.store(to, Relaxed);
            }
        }
        if level > 0 {
            writer.own(from, level);
            let graph = writer.graph();
            graph.uppers.get(graph.upper(from, level))[0].store(to, Relaxed);
        }
    }
    let graph = &mut *writer.0;
    graph.vectors.own(to);
    graph.nodes.own(to);
    graph.vectors.copy_record(from, to);
    graph.nodes.copy_record(from, to);
    let (entry, level) = graph.entry();
    if entry == from {
        graph.set_entry(to, level);
    }
}

/// Checks the invariants of the graph's links; for tests.
///
/// # Panics
/// If one is broken.
#[cfg(test)]
pub fn check(graph: &Graph) {
    let mut uppers = 0;
    let (entry, top) = graph.entry();
    for id in 0..graph.len() as u32 {
        let level = graph.level(id);
        assert!(level <= top, "the entry is not of the highest level");
        for level in 0..=level {
            if level > 0 {
                uppers += 1;
                assert_eq!(graph.uppers.get(graph.upper(id, level))[0].load(Relaxed), id);
            }
            let slots = graph.slots(id, level);
            assert!(slots[degree(slots)..].iter().all(|slot| slot.load(Relaxed) == NONE));
            let mut links: Vec<u32> = graph.links(id, level).collect();
            for &other in &links {
                assert!((other as usize) < graph.len() && other != id);
                assert!(graph.level(other) >= level && is_linked(graph, other, id, level));
            }
            links.sort_unstable();
            links.dedup();
            assert_eq!(links.len(), degree(slots), "a vector is linked twice");
        }
    }
    assert_eq!(uppers, graph.upper_len.load(Relaxed));
    assert!(if graph.is_empty() { entry == NONE } else { graph.level(entry) == top });
}
