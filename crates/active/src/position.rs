// SPDX-License-Identifier: BSD-3-Clause
//! Places of list elements: words that give the same order on every server, without tombstones.
//!
//! Elements form a tree. A push attaches its element to the root, on the left (LPUSH) or the
//! right (RPUSH); LINSERT attaches it to a neighbour. The order is left children, the element,
//! right children. Pushes to one side are ordered by stamp, outwards; inserted children of one
//! side are ordered by stamp towards their parent, so the newest stands next to it. A new stamp
//! is later than every stamp its region has seen, so an element lands where the client put it.
//!
//! A place is the path from the root, one word per step. The top bit is the side; the rest is a
//! stamp, or its complement where later elements come first, so words compare as their elements
//! do. The path names all ancestors, so they need not exist any more. Nearly every place is one
//! word.
//!
//! Worked example: RPUSH a (stamp 5), RPUSH b (6), LINSERT AFTER a x (7), LINSERT AFTER a y (8)
//! gives `a = [R5], y = [R5, R8], x = [R5, R7], b = [R6]`.

use std::cmp::Ordering;

use crate::stamp::Stamp;
use crate::stored::Stored;

const RIGHT: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Left,
    Right,
}

/// One step of a path. Steps compare as their elements do among siblings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Step(u64);

impl Stored for Step {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        u64::load(from).map(Step)
    }
}

impl Step {
    /// A step from the root.
    pub fn push(side: Side, stamp: Stamp) -> Step {
        match side {
            Side::Left => Step(!stamp.word() & !RIGHT),
            Side::Right => Step(RIGHT | stamp.word()),
        }
    }

    /// A step from another element.
    pub fn child(side: Side, stamp: Stamp) -> Step {
        match side {
            Side::Left => Step(stamp.word()),
            Side::Right => Step(!stamp.word()),
        }
    }

    pub fn from_word(word: u64) -> Step {
        Step(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    fn is_right(self) -> bool {
        self.0 & RIGHT != 0
    }

    /// The stamp of the element's creation. `is_push`: the step is the first of its path.
    pub fn stamp(self, is_push: bool) -> Stamp {
        let word = if self.is_right() == is_push { self.0 } else { !self.0 };
        Stamp::from_word(word & !RIGHT).unwrap_or(Stamp::ZERO)
    }
}

/// Compares paths.
pub fn compare(mut one: impl Iterator<Item = Step>, mut other: impl Iterator<Item = Step>) -> Ordering {
    loop {
        let side = |step: Step| if step.is_right() { Ordering::Greater } else { Ordering::Less };
        match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            // A descendant stands on its side of its ancestor.
            (Some(step), None) => return side(step),
            (None, Some(step)) => return side(step).reverse(),
            (Some(one), Some(other)) if one != other => return one.cmp(&other),
            _ => {}
        }
    }
}

/// The path to an element; at least one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position(Box<[Step]>);

impl Position {
    pub fn new(steps: impl Iterator<Item = Step>) -> Option<Position> {
        let steps: Box<[Step]> = steps.collect();
        (!steps.is_empty()).then_some(Position(steps))
    }

    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Position) -> Ordering {
        compare(self.0.iter().copied(), other.0.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;

    #[test]
    fn the_example_of_the_module() {
        let stamp = |position| Stamp::of(Region::new(1).unwrap(), position).unwrap();
        let place = |steps: &[Step]| Position::new(steps.iter().copied()).unwrap();
        let push = |position| Step::push(Side::Right, stamp(position));
        let (a, b) = (place(&[push(5)]), place(&[push(6)]));
        let x = place(&[push(5), Step::child(Side::Right, stamp(7))]);
        let y = place(&[push(5), Step::child(Side::Right, stamp(8))]);
        let z = place(&[push(6), Step::child(Side::Left, stamp(9))]);
        let first = place(&[Step::push(Side::Left, stamp(10))]);
        let second = place(&[Step::push(Side::Left, stamp(9))]);
        let mut places = [&b, &x, &second, &z, &a, &y, &first];
        places.sort();
        assert_eq!(places, [&first, &second, &a, &y, &x, &z, &b]);
        for (side, is_push) in
            [(Side::Left, true), (Side::Right, true), (Side::Left, false), (Side::Right, false)]
        {
            let step = if is_push { Step::push(side, stamp(77)) } else { Step::child(side, stamp(77)) };
            assert_eq!(step.stamp(is_push), stamp(77));
        }
    }
}
