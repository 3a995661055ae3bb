// SPDX-License-Identifier: BSD-3-Clause
//! The form of a small sorted set: one packed list of alternating members and scores, in order.
//!
//! A score that is a whole number within +-2^62 is stored as an integer, any other as its shortest
//! text, as in Redis, because RDB files and DUMP payloads contain the list unchanged. (So `-0`
//! becomes `0` here, as in Redis.)

use std::ops::Range;

use braid_base::number::{format_f64_shortest, parse_f64};
use braid_base::relocation::Mover;

use super::bounds::Edge;
use braid_containers::listpack::{Element, Iter, Listpack};

/// Longest text of a score in bytes, with room to spare.
const SCORE_TEXT: usize = 32;

/// See the module. Invariants: an even number of elements; the second of each pair is a score that
/// is not NaN; pairs are in order, and no member is repeated.
#[derive(Clone, Default)]
pub(super) struct Packed {
    list: Listpack,
}

/// A score as the list stores it.
enum Stored {
    Whole(i64),
    Text(Vec<u8>),
}

impl Stored {
    fn new(score: f64) -> Stored {
        // Redis tests for the same range: half that of an i64.
        let limit = (i64::MAX / 2) as f64;
        let whole = score as i64;
        if score >= -limit && score <= limit && whole as f64 == score {
            return Stored::Whole(whole);
        }
        let mut text = Vec::with_capacity(SCORE_TEXT);
        format_f64_shortest(&mut text, score);
        Stored::Text(text)
    }
}

fn read_score(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Int(whole) => Some(whole as f64),
        Element::Bytes(text) => parse_f64(text),
    }
}

/// Calls `with` with the text of a member.
fn with_text<R>(member: Element<'_>, with: impl FnOnce(&[u8]) -> R) -> R {
    match member {
        Element::Bytes(bytes) => with(bytes),
        number => with(number.text(&mut itoa::Buffer::new())),
    }
}

/// Entries in ascending order.
pub(super) struct Pairs<'a>(Iter<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (Element<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<(Element<'a>, f64)> {
        Some((self.0.next()?, read_score(self.0.next()?)?))
    }
}

/// Entries in descending order.
pub(super) struct PairsBack<'a>(Iter<'a>);

impl<'a> Iterator for PairsBack<'a> {
    type Item = (Element<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<(Element<'a>, f64)> {
        let score = read_score(self.0.next_back()?)?;
        Some((self.0.next_back()?, score))
    }
}

impl Packed {
    /// Moves the list's block to a better place.
    pub fn relocate(&mut self, mover: &mut Mover) {
        self.list.relocate(mover);
    }

    /// Validates an untrusted list as a sorted set; sorts a list that is out of order.
    pub fn from_list(list: Listpack) -> Option<Packed> {
        if list.has_doubles(1) {
            return None;
        }
        let mut pairs = Vec::new();
        let mut elements = list.iter();
        while let Some(member) = elements.next() {
            pairs.push((read_score(elements.next()?)?, member));
        }
        // Text is compared only for members with equal scores.
        let order = |one: &(f64, Element<'_>), other: &(f64, Element<'_>)| {
            let by_member = || with_text(one.1, |one| with_text(other.1, |other| one.cmp(other)));
            one.0.total_cmp(&other.0).then_with(by_member)
        };
        let in_order = |pair: &[(f64, Element<'_>)]| match pair[0].0.partial_cmp(&pair[1].0) {
            Some(std::cmp::Ordering::Equal) => order(&(0.0, pair[0].1), &(0.0, pair[1].1)).is_lt(),
            compared => compared == Some(std::cmp::Ordering::Less),
        };
        if pairs.windows(2).all(in_order) {
            return Some(Packed { list });
        }
        // 0 and -0 are equal; both are stored as 0.
        pairs.iter_mut().for_each(|(score, _)| *score += 0.0);
        pairs.sort_unstable_by(order);
        let mut sorted = Packed::default();
        pairs
            .iter()
            .all(|(score, member)| with_text(*member, |text| sorted.push(text, *score)))
            .then_some(sorted)
    }

    pub fn list(&self) -> &Listpack {
        &self.list
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() / 2
    }

    /// True if a member of this length can be added without making the list too long.
    pub fn has_room(&self, member_len: usize) -> bool {
        self.list.safe_to_add(member_len.saturating_add(2 * SCORE_TEXT))
    }

    fn place(&self, member: &[u8]) -> Option<usize> {
        self.list.find(member, 0, 1)
    }

    fn score_behind(&self, place: usize) -> Option<f64> {
        read_score(self.list.get(self.list.next(place)?)?)
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.score_behind(self.place(member)?)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let mut pairs = self.pairs(0).enumerate();
        pairs.find(|(_, (element, _))| element.is_text(member)).map(|(rank, (_, score))| (rank, score))
    }

    /// Number of entries before an edge.
    pub fn rank_of(&self, edge: &Edge<'_>) -> usize {
        match edge {
            Edge::Start => 0,
            Edge::End => self.len(),
            _ => {
                let before =
                    |&(member, score): &(Element<'_>, f64)| with_text(member, |m| edge.is_after(score, m));
                self.pairs(0).take_while(before).count()
            }
        }
    }

    /// Adds a missing member. False, with nothing changed, if there is no room.
    pub fn insert(&mut self, member: &[u8], score: f64) -> bool {
        if !self.has_room(member.len()) {
            return false;
        }
        let at = self.place_for(member, score);
        let inserted = match Stored::new(score) {
            Stored::Whole(whole) => self.list.insert_int(at, whole),
            Stored::Text(text) => self.list.insert(at, &text),
        };
        inserted && self.list.insert(at, member)
    }

    /// The place before which a new entry belongs.
    fn place_for(&self, member: &[u8], score: f64) -> usize {
        let edge = Edge::BeforeEntry(score, member);
        // Members are often added in order: check the last entry first.
        let last = self.list.last().and_then(|place| Some((self.list.prev(place)?, self.list.get(place)?)));
        if let Some((place, element)) = last
            && let (Some(last_score), Some(last_member)) = (read_score(element), self.list.get(place))
            && with_text(last_member, |text| edge.is_after(last_score, text))
        {
            return self.list.end();
        }
        let mut elements = self.list.iter();
        loop {
            let place = elements.place();
            let (Some(other), Some(other_score)) = (elements.next(), elements.next()) else {
                return self.list.end();
            };
            let other_score = read_score(other_score).unwrap_or_default();
            if !with_text(other, |text| edge.is_after(other_score, text)) {
                return place;
            }
        }
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = self.place(member)?;
        let score = self.score_behind(place)?;
        self.list.remove_run(place, 2);
        Some(score)
    }

    /// Removes the entries with these ranks, passing each to `removed` in order.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, removed: &mut dyn FnMut(Element<'_>, f64)) -> usize {
        let count = ranks.end.min(self.len()).saturating_sub(ranks.start);
        self.pairs(ranks.start).take(count).for_each(|(member, score)| removed(member, score));
        match i64::try_from(ranks.start.saturating_mul(2)) {
            Ok(index) if count > 0 => self.list.remove_range(index, 2 * count) / 2,
            _ => 0,
        }
    }

    /// Entries in ascending order from a rank.
    pub fn pairs(&self, rank: usize) -> Pairs<'_> {
        let index = i64::try_from(rank.saturating_mul(2)).unwrap_or(i64::MAX);
        let from = if rank == 0 { self.list.first() } else { self.list.seek(index) };
        Pairs(self.list.iter_from(from.unwrap_or(self.list.end())))
    }

    /// Entries in descending order from a rank.
    pub fn pairs_back(&self, rank: usize) -> PairsBack<'_> {
        // The place after the entry, if there is one.
        let index = i64::try_from(rank.saturating_add(1).saturating_mul(2)).unwrap_or(i64::MAX);
        let until = self.list.seek(index).unwrap_or(self.list.end());
        PairsBack(self.list.iter_until(until))
    }

    /// Appends an entry known to be the last in order. False if there is no room.
    pub fn push(&mut self, member: &[u8], score: f64) -> bool {
        let stored = Stored::new(score);
        self.list.push_back(member)
            && match stored {
                Stored::Whole(whole) => self.list.push_back_int(whole),
                Stored::Text(text) => self.list.push_back(&text),
            }
    }

    pub fn memory_bytes(&self) -> usize {
        self.list.memory_bytes()
    }
}
