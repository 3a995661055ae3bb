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
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::beam::{Candidate, descend, walk, with_scratch};
use crate::locks::Guards;
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
        let (entry, top) = self.0.entry();
        if entry == NONE || level > top {
            self.0.set_entry(id, level);
        }
    }
}

fn degree(slots: &[AtomicU32]) -> usize {
    slots.iter().position(|slot| slot.load(Acquire) == NONE).unwrap_or(slots.len())
}

fn room(graph: &Graph, id: u32, level: u8) -> usize {
    let slots = graph.slots(id, level);
    slots.len() - degree(slots)
}

fn is_linked(graph: &Graph, a: u32, b: u32, level: u8) -> bool {
    graph.links(a, level).any(|id| id == b)
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

/// The neighbour of `b`, which is full, whose link `a` takes over: the farthest one that is closer
/// to `a` than to `b`. If `must` is set, the farthest if there is none.
fn victim(graph: &Graph, a: u32, b: u32, level: u8, must: bool) -> Option<u32> {
    let mut far: Vec<Candidate> =
        graph.links(b, level).filter(|&c| c != a).map(|c| Candidate::new(graph.between(b, c), c)).collect();
    far.sort_unstable_by(|left, right| right.cmp(left));
    let reach = graph.between(a, b);
    let (has_two, spare) = (room(graph, a, level) >= 2, graph.slots(b, level).len() / 4);
    let may_lose = |c: u32| {
        if is_linked(graph, a, c, level) { degree(graph.slots(c, level)) > spare } else { has_two }
    };
    let closer = |c: &&Candidate| graph.between(a, c.id()) < c.distance();
    let beyond = far.iter().take_while(|c| c.distance() > reach);
    let found = beyond.filter(|c| may_lose(c.id())).find(closer).map(|c| c.id());
    found.or_else(|| must.then(|| far.iter().map(|c| c.id()).find(|&c| may_lose(c))).flatten())
}

/// Links two vectors, taking a link over from the second if that is full; false if the first is
/// full, or the second has no link to give.
fn connect(writer: &mut impl Writer, a: u32, b: u32, level: u8, must: bool) -> bool {
    for _ in 0..ATTEMPTS {
        let graph = writer.graph();
        let taken = if room(graph, b, level) > 0 {
            None
        } else {
            match victim(graph, a, b, level, must) {
                Some(c) => Some(c),
                None => return false,
            }
        };
        let _guards = writer.lock([a, b, taken.unwrap_or(b)]);
        let graph = writer.graph();
        if is_linked(graph, a, b, level) {
            return true;
        }
        let (room_a, room_b) = (room(graph, a, level), room(graph, b, level));
        if room_a == 0 {
            return false;
        }
        match taken {
            None if room_b > 0 => {
                link(writer, a, b, level);
                return true;
            }
            Some(c) if room_b == 0 && is_linked(graph, b, c, level) => {
                let has_way = is_linked(graph, a, c, level);
                if has_way || room_a >= 2 {
                    cut(writer, b, c, level);
                    link(writer, a, b, level);
                    if !has_way {
                        link(writer, a, c, level);
                    }
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Splits candidates, closest first, into up to `want` of which none is closer to another than to
/// the vector itself, and the rest.
fn diverse(graph: &Graph, found: &[Candidate], want: usize) -> (Vec<Candidate>, Vec<Candidate>) {
    let (mut chosen, mut rest): (Vec<Candidate>, Vec<Candidate>) = (Vec::with_capacity(want), Vec::new());
    for &candidate in found {
        if chosen.len() == want {
            break;
        }
        let is_covered =
            chosen.iter().any(|other| graph.between(candidate.id(), other.id()) <= candidate.distance());
        if is_covered { rest.push(candidate) } else { chosen.push(candidate) }
    }
    (chosen, rest)
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

/// A vector found beside the place of a new one, and the level where it was found.
pub type Near = (u8, u32);

/// Links a new vector, whose records are without links, on all its levels. On levels where vectors
/// near it are known there is no walk; which they are, and whether they still exist, may have
/// changed.
pub fn insert(writer: &mut impl Writer, id: u32, ef: usize, level: u8, near: &[Near]) {
    let words = writer.graph().query_of(id).words;
    let (entry, top) = writer.graph().entry();
    if entry != NONE {
        let mut entries = Vec::new();
        for level in (0..=level.min(top)).rev() {
            let graph = writer.graph();
            let known = known(graph, &words, id, level, near);
            entries = if known.is_empty() { candidates(graph, &words, &entries, ef, level) } else { known };
            entries.retain(|candidate| candidate.id() != id);
            let want = writer.graph().slots(id, level).len().div_ceil(2);
            attach(writer, id, level, &entries, want);
        }
    }
    writer.raise_entry(id, level);
}

/// Candidates for the links of a vector at a level, from those of the level above.
fn candidates(
    graph: &Graph,
    words: &[AtomicU32],
    above: &[Candidate],
    ef: usize,
    level: u8,
) -> Vec<Candidate> {
    with_scratch(|scratch| match above {
        [] => {
            let entries = descend(graph, words, level, scratch);
            walk(graph, level, words, &entries, ef.max(1), scratch)
        }
        _ => walk(graph, level, words, above, ef.max(1), scratch),
    })
}

/// Those of the vectors that exist at a level, closest first.
fn known(graph: &Graph, words: &[AtomicU32], id: u32, level: u8, near: &[Near]) -> Vec<Candidate> {
    let at_level = near.iter().filter(|&&(at, _)| at == level).map(|&(_, other)| other);
    let exists = |&other: &u32| other != id && (other as usize) < graph.len() && graph.level(other) >= level;
    let mut found: Vec<Candidate> =
        at_level.filter(exists).map(|other| Candidate::new(graph.distance_to(words, other), other)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The vectors that [`insert`] would find for the links of a new vector.
pub fn look_around(graph: &Graph, words: &[AtomicU32], ef: usize, level: u8) -> Vec<Near> {
    let (mut near, mut entries) = (Vec::new(), Vec::new());
    for level in (0..=level.min(graph.top_level())).rev() {
        entries = candidates(graph, words, &entries, ef, level);
        near.extend(entries.iter().map(|candidate| (level, candidate.id())));
    }
    near
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
