// SPDX-License-Identifier: BSD-3-Clause
//! The best results so far, no more than are wanted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::explanation::Explanation;
use crate::index::{DocRef, SortValue};
use crate::schema::FieldId;

/// How results are sorted. Equal ones are in the order in which the documents were put into the
/// index, or the opposite one if the order is descending.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    Score,
    /// By a field whose values the index has: a sortable or a number.
    Field { field: FieldId, descending: bool },
    /// By a distance to a vector, under the name that the query gives it.
    Distance { name: String, descending: bool },
    /// As they were put.
    Sequence,
}

/// A document found.
#[derive(Clone, Debug)]
pub struct Hit {
    pub key: Box<[u8]>,
    pub doc: DocRef,
    pub sequence: u64,
    pub score: f64,
    /// What it was sorted by.
    pub sort: SortValue,
    /// Of each vector search of the query that returns distances, in order.
    pub distances: Vec<Option<f64>>,
    /// How the score came about, if that is asked for.
    pub explanation: Option<Box<Explanation>>,
}

#[derive(Debug)]
struct Ranked {
    hit: Hit,
    order: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Score,
    Ascending,
    Descending,
    Sequence,
}

/// Better results are less.
fn compare(direction: Direction, one: (f64, &SortValue, u64), other: (f64, &SortValue, u64)) -> Ordering {
    let (score, value, sequence) = one;
    let by_value = match direction {
        Direction::Score => other.0.total_cmp(&score),
        Direction::Sequence => Ordering::Equal,
        Direction::Ascending => value.compare(other.1),
        // What lacks a value stays last.
        Direction::Descending if value.is_none() || other.1.is_none() => value.compare(other.1),
        Direction::Descending => other.1.compare(value),
    };
    by_value.then(match direction {
        Direction::Descending => other.2.cmp(&sequence),
        _ => sequence.cmp(&other.2),
    })
}

impl Ranked {
    fn rank(&self) -> (f64, &SortValue, u64) {
        (self.hit.score, &self.hit.sort, self.hit.sequence)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        compare(self.order, self.rank(), other.rank())
    }
}

#[derive(Debug)]
pub struct Top {
    /// The worst result is the first to leave.
    best: BinaryHeap<Ranked>,
    max: usize,
    direction: Direction,
    pub total: usize,
}

impl Top {
    pub fn new(order: &Order, max: usize) -> Top {
        let direction = match order {
            Order::Score => Direction::Score,
            Order::Field { descending: true, .. } | Order::Distance { descending: true, .. } => {
                Direction::Descending
            }
            Order::Field { .. } | Order::Distance { .. } => Direction::Ascending,
            Order::Sequence => Direction::Sequence,
        };
        Top { best: BinaryHeap::new(), max, direction, total: 0 }
    }

    /// Counts a result, and takes it if it is among the best. Only then it is made.
    pub fn offer(&mut self, score: f64, sort: SortValue, sequence: u64, make: impl FnOnce(SortValue) -> Hit) {
        self.total += 1;
        if self.best.len() >= self.max {
            let Some(worst) = self.best.peek() else { return };
            if compare(self.direction, (score, &sort, sequence), worst.rank()) != Ordering::Less {
                return;
            }
            self.best.pop();
        }
        self.best.push(Ranked { hit: make(sort), order: self.direction });
    }

    /// The results, best first.
    pub fn finish(self) -> Vec<Hit> {
        self.best.into_sorted_vec().into_iter().map(|ranked| ranked.hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(order: Order, max: usize, offered: &[(f64, SortValue)]) -> (usize, Vec<u64>) {
        let mut top = Top::new(&order, max);
        for (sequence, (score, sort)) in offered.iter().enumerate() {
            let sequence = sequence as u64;
            let doc = DocRef { part: 0, doc: 0, generation: 0 };
            let make = |sort| Hit {
                key: Box::new([]),
                doc,
                sequence,
                score: *score,
                sort,
                distances: vec![],
                explanation: None,
            };
            top.offer(*score, sort.clone(), sequence, make);
        }
        (top.total, top.finish().iter().map(|hit| hit.sequence).collect())
    }

    #[test]
    fn the_best_are_kept_in_order() {
        let number = SortValue::Number;
        let offered = [
            (1.0, number(5.0)),
            (3.0, SortValue::None),
            (3.0, number(7.0)),
            (2.0, number(5.0)),
            (0.5, number(1.0)),
        ];
        assert_eq!(kept(Order::Score, 3, &offered), (5, vec![1, 2, 3]));
        assert_eq!(kept(Order::Score, 0, &offered), (5, vec![]));
        let by = |descending| Order::Field { field: 0, descending };
        assert_eq!(kept(by(false), 9, &offered), (5, vec![4, 0, 3, 2, 1]));
        assert_eq!(kept(by(true), 9, &offered), (5, vec![2, 3, 0, 4, 1]));
        assert_eq!(kept(Order::Sequence, 2, &offered), (5, vec![0, 1]));
    }
}
