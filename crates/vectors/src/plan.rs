// SPDX-License-Identifier: BSD-3-Clause
//! Which links a new vector will get on a level: what `link` does to the graph for it is chosen
//! here, by reading only. So it can be chosen before the graph is locked for the change.

use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use crate::beam::Candidate;
use crate::store::{Graph, NONE};

/// A link that a new vector will get, and the neighbour from which that vector takes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    pub to: u32,
    pub from: Option<u32>,
}

/// The links of a new vector on a level, in the order in which they are made.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub joins: Vec<Join>,
    /// Distance of the farthest vector that was chosen; infinite if there was place for more.
    pub reach: f32,
}

impl Plan {
    /// True if a vector is part of it.
    pub fn names(&self, id: u32) -> bool {
        self.joins.iter().any(|join| join.to == id || join.from == Some(id))
    }
}

pub fn degree(slots: &[AtomicU32]) -> usize {
    slots.iter().position(|slot| slot.load(Acquire) == NONE).unwrap_or(slots.len())
}

pub fn room(graph: &Graph, id: u32, level: u8) -> usize {
    let slots = graph.slots(id, level);
    slots.len() - degree(slots)
}

pub fn is_linked(graph: &Graph, a: u32, b: u32, level: u8) -> bool {
    graph.links(a, level).any(|id| id == b)
}

/// A vector that gets links: one of the graph, or one that is not there yet.
pub trait Joining {
    /// True if it is this vector.
    fn is(&self, id: u32) -> bool;
    fn distance(&self, graph: &Graph, to: u32) -> f32;
    fn is_linked(&self, graph: &Graph, to: u32, level: u8) -> bool;
    /// True if it can get two more links.
    fn has_two(&self, graph: &Graph, level: u8) -> bool;
}

impl Joining for u32 {
    fn is(&self, id: u32) -> bool {
        *self == id
    }

    fn distance(&self, graph: &Graph, to: u32) -> f32 {
        graph.between(*self, to)
    }

    fn is_linked(&self, graph: &Graph, to: u32, level: u8) -> bool {
        is_linked(graph, *self, to, level)
    }

    fn has_two(&self, graph: &Graph, level: u8) -> bool {
        room(graph, *self, level) >= 2
    }
}

/// A vector that is not there yet, with the links that it has got so far.
struct Newcomer<'q> {
    words: &'q [AtomicU32],
    links: Vec<u32>,
    most: usize,
}

impl Joining for Newcomer<'_> {
    fn is(&self, _: u32) -> bool {
        false
    }

    fn distance(&self, graph: &Graph, to: u32) -> f32 {
        graph.distance_to(self.words, to)
    }

    fn is_linked(&self, _: &Graph, to: u32, _: u8) -> bool {
        self.links.contains(&to)
    }

    fn has_two(&self, _: &Graph, _: u8) -> bool {
        self.links.len() + 2 <= self.most
    }
}

/// The neighbour of `b`, which is full, whose link `a` takes over: the farthest one that is closer
/// to `a` than to `b`. If `must` is set, the farthest if there is none.
pub fn victim(graph: &Graph, a: &impl Joining, b: u32, level: u8, must: bool) -> Option<u32> {
    let neighbours = graph.links(b, level).filter(|&c| !a.is(c));
    let mut far: Vec<Candidate> = neighbours.map(|c| Candidate::new(graph.between(b, c), c)).collect();
    far.sort_unstable_by(|left, right| right.cmp(left));
    let reach = a.distance(graph, b);
    let (has_two, spare) = (a.has_two(graph, level), graph.slots(b, level).len() / 4);
    let may_lose = |c: u32| {
        if a.is_linked(graph, c, level) { degree(graph.slots(c, level)) > spare } else { has_two }
    };
    let closer = |c: &&Candidate| a.distance(graph, c.id()) < c.distance();
    let beyond = far.iter().take_while(|c| c.distance() > reach);
    let found = beyond.filter(|c| may_lose(c.id())).find(closer).map(|c| c.id());
    found.or_else(|| must.then(|| far.iter().map(|c| c.id()).find(|&c| may_lose(c))).flatten())
}

/// Splits candidates, closest first, into up to `want` of which none is closer to another than to
/// the vector itself, and the rest.
pub fn diverse(graph: &Graph, found: &[Candidate], want: usize) -> (Vec<Candidate>, Vec<Candidate>) {
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

/// Chooses links of a new vector among candidates, closest first: the diverse ones, then others
/// until there are half as many as it can have.
pub fn plan(graph: &Graph, words: &[AtomicU32], found: &[Candidate], level: u8) -> Plan {
    let links = graph.shape().links as usize;
    let most = if level == 0 { 2 * links } else { links };
    let want = most.div_ceil(2);
    let (chosen, rest) = diverse(graph, found, want);
    let mut new = Newcomer { words, links: Vec::with_capacity(most), most };
    let mut plan = Plan { joins: Vec::with_capacity(want), reach: f32::INFINITY };
    let in_order = chosen.iter().map(|candidate| (candidate, true)).chain(rest.iter().map(|it| (it, false)));
    for (candidate, is_chosen) in in_order {
        let (to, count) = (candidate.id(), new.links.len());
        if count == most || (!is_chosen && count >= want) {
            break;
        }
        if new.links.contains(&to) {
            continue;
        }
        let from = match room(graph, to, level) > 0 {
            true => None,
            false => match victim(graph, &new, to, level, false) {
                None => continue,
                found => found,
            },
        };
        plan.joins.push(Join { to, from });
        new.links.push(to);
        if let Some(from) = from
            && !new.links.contains(&from)
        {
            new.links.push(from);
        }
    }
    if chosen.len() == want {
        plan.reach = chosen.last().map_or(f32::INFINITY, |last| last.distance());
    }
    plan
}
