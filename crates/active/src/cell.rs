// SPDX-License-Identifier: BSD-3-Clause
//! Cells: one value that any region may write, increment, give a time to live, or remove. A string
//! is a cell, and so is a hash field, a member of a set or sorted set, an element of a list, an
//! entry of a stream, so the laws of merging are proved once.
//!
//! Every change removes exactly the part of the cell that its causal context covers. The writes
//! that remain have not been overwritten by one that saw them: a single write, unless regions
//! wrote concurrently. The latest of them shows; the others (*losers*) are kept until all regions
//! know both, since a removal may have seen only one of them. Increments
//! ([`tally`]) and times to live are kept beside the value and follow the same
//! rule.
//!
//! A cell keeps no tombstone for a value: a value that a replica has seen ([`Vector`]) and does
//! not have was removed. This holds for effects and full copies alike.
//!
//! [`Mark`] is the metadata of a value: 16 bytes, and a box for rare parts. The value is separate
//! from it, so the engine may keep values where they are and marks elsewhere.

use braid_base::prefetch::{CACHE_LINE, prefetch};

use crate::Text;
use crate::amount::Amount;
use crate::lost::Lost;
use crate::rules::Rules;
use crate::stamp::{Region, Stamp, sort_few};
use crate::stored::stored;
use crate::tally::{self, SeenTally, Tally};
use crate::vector::{Seen, Vector};

/// The position of an effect: its own stamp and its causal context.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub stamp: Stamp,
    pub seen: Seen<'a>,
    pub rules: &'a Rules,
    /// Counts values that lose to concurrent ones.
    pub lost: &'a std::cell::Cell<u64>,
}

impl At<'_> {
    /// True if the effect replaces or removes a value with this stamp.
    pub fn removes(&self, stamp: Stamp) -> bool {
        self.seen.covers(stamp) || !self.rules.removes_only_seen
    }

    /// True if the effect has forgotten all that its own region will ever add to a tally: the
    /// region's next increment in this run starts a new one. What a crash has lost of an earlier
    /// run may still come back.
    fn ends(&self, tally: &Tally) -> bool {
        let is_own = match self.rules.tallies_end_with_their_run {
            true => self.seen.own.covers(tally.start),
            false => self.stamp.region() == tally.start.region(),
        };
        is_own && !tally.counts()
    }
}

/// The vectors of two merging replicas.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    pub mine: &'a Vector,
    pub theirs: &'a Vector,
    /// Values that the other side lacks because it evicted them: those of the present key, and
    /// with `horizon` those of keys whose marks it has dropped.
    pub lost: &'a Lost,
    pub horizon: Stamp,
    pub rules: &'a Rules,
}

impl Sides<'_> {
    /// True if the other side, which lacks a value with this stamp, has seen it removed.
    pub fn removed_there(&self, stamp: Stamp) -> bool {
        self.rules.merge_knows_removals
            && self.theirs.covers(stamp)
            && !(self.rules.eviction_is_no_removal && (stamp <= self.horizon || self.lost.may_have(stamp)))
    }

    pub fn removed_here(&self, stamp: Stamp) -> bool {
        self.rules.merge_knows_removals && self.mine.covers(stamp)
    }
}

/// True if a write wins over a concurrent one.
fn wins(stamp: Stamp, over: Stamp, rules: &Rules) -> bool {
    if rules.ties_by_region { stamp > over } else { stamp.position() > over.position() }
}

/// An expiry time in ms of Unix time, or none, by PERSIST.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Time {
    At(u64),
    Never,
}

/// The times given by concurrent effects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times(Vec<(Stamp, Time)>);

impl Times {
    pub const fn none() -> Times {
        Times(Vec::new())
    }

    /// The time that a write with this stamp gave.
    pub(crate) fn given(stamp: Stamp, time: u64) -> Times {
        Times(vec![(stamp, Time::At(time))])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn set(&mut self, at: &At, time: Time) {
        self.remove(at);
        self.0.push((at.stamp, time));
        sort_few(&mut self.0, |(stamp, _)| *stamp);
    }

    pub fn remove(&mut self, at: &At) {
        self.0.retain(|(stamp, _)| !at.removes(*stamp));
    }

    /// The time, if there is exactly one and it is not from PERSIST.
    pub(crate) fn only(&self) -> Option<(Stamp, u64)> {
        match self.0.as_slice() {
            [(stamp, Time::At(time))] => Some((*stamp, *time)),
            _ => None,
        }
    }

    /// The longest time, with its stamp. A value written after a time was given lives without it,
    /// so times before `floor` do not count.
    pub fn winner(&self, floor: Stamp, rules: &Rules) -> Option<(Stamp, Time)> {
        let valid = self.0.iter().copied().filter(|(stamp, _)| *stamp >= floor);
        if rules.longest_time_wins {
            valid.max_by_key(|&(stamp, time)| (time, stamp))
        } else {
            valid.max_by_key(|&(stamp, _)| stamp)
        }
    }

    pub fn merge(&mut self, theirs: &Times, sides: &Sides) {
        merge_stamped(&mut self.0, &theirs.0, sides);
    }

    /// True if [`Times::collect_garbage`] would drop something.
    pub fn has_garbage(&self, is_live: bool, floor: Stamp, rules: &Rules) -> bool {
        match self.0.as_slice() {
            [] => false,
            [_] => !is_live || !matches!(self.winner(floor, rules), Some((_, Time::At(_)))),
            _ => true,
        }
    }

    /// Keeps only the time in effect.
    pub fn collect_garbage(&mut self, is_live: bool, floor: Stamp, rules: &Rules) {
        let winner = self.winner(floor, rules).filter(|(_, time)| is_live && *time != Time::Never);
        self.0.retain(|one| Some(*one) == winner);
    }
}

/// Merges values that each carry the stamp of their effect.
fn merge_stamped<V: Clone>(mine: &mut Vec<(Stamp, V)>, theirs: &[(Stamp, V)], sides: &Sides) {
    mine.retain(|(stamp, _)| theirs.iter().any(|(other, _)| other == stamp) || !sides.removed_there(*stamp));
    for (stamp, value) in theirs {
        if !sides.removed_here(*stamp) && mine.iter().all(|(other, _)| other != stamp) {
            mine.push((*stamp, value.clone()));
        }
    }
    sort_few(mine, |(stamp, _)| *stamp);
}

/// The marks of one value.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark<V> {
    /// The stamp of the visible write; [`Stamp::ZERO`] if there is none.
    stamp: Stamp,
    more: Option<Box<More<V>>>,
}

/// Marks that most values lack.
#[derive(Clone, PartialEq, Debug)]
struct More<V> {
    /// Concurrent writes that are not visible.
    losers: Vec<(Stamp, V)>,
    tallies: Vec<Tally>,
    times: Times,
}

impl<V> Default for Mark<V> {
    fn default() -> Mark<V> {
        Mark { stamp: Stamp::ZERO, more: None }
    }
}

impl<V> Default for More<V> {
    fn default() -> More<V> {
        More { losers: Vec::new(), tallies: Vec::new(), times: Times::default() }
    }
}

/// An increment: the region's sum before and after it, and the start of that sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sum {
    pub start: Stamp,
    pub before: Amount,
    pub sum: Amount,
}

/// A change of a cell, in the form that is sent.
#[derive(Clone, PartialEq, Debug)]
pub enum CellChange<V> {
    /// Writes the whole value, with its expiry time.
    Put {
        value: V,
        time: Option<u64>,
        seen: Vec<SeenTally>,
    },
    Remove {
        seen: Vec<SeenTally>,
    },
    Add(Sum),
    Live(Time),
}

impl<V> CellChange<V> {
    /// The value, if writing it is the only thing the change does.
    pub(crate) fn written(&self) -> Option<&V> {
        match self {
            CellChange::Put { value, time: None, seen } if seen.is_empty() => Some(value),
            _ => None,
        }
    }
}

/// A value with its marks.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell<V> {
    value: Option<V>,
    mark: Mark<V>,
}

impl<V> Default for Cell<V> {
    fn default() -> Cell<V> {
        Cell { value: None, mark: Mark::default() }
    }
}

impl Cell<Text> {
    pub(crate) fn prefetch_marks(&self) {
        if let Some(more) = &self.mark.more {
            let start: *const More<Text> = &**more;
            prefetch(start);
            prefetch(start.wrapping_byte_add(CACHE_LINE));
        }
    }

    /// Takes over `text` in place of an equal value.
    pub(crate) fn share(&mut self, text: &Text) {
        if let Some(own) = self.value.as_mut().filter(|own| *own == text) {
            *own = text.clone();
        }
    }
}

impl<V: Clone> Cell<V> {
    /// A cell that has been written once.
    pub fn written(stamp: Stamp, value: V) -> Cell<V> {
        Cell { value: Some(value), mark: Mark { stamp, more: None } }
    }

    /// Its stamp and value, if it has nothing else.
    ///
    /// # Errors
    /// The cell itself, if it has more than a stamp and a value.
    pub fn into_plain(self) -> Result<(Stamp, V), Cell<V>> {
        match self {
            Cell { value: Some(value), mark: Mark { stamp, more: None } } => Ok((stamp, value)),
            cell => Err(cell),
        }
    }

    /// Its stamp and value, if it has nothing else.
    pub fn plain(&self) -> Option<(Stamp, &V)> {
        match self {
            Cell { value: Some(value), mark: Mark { stamp, more: None } } => Some((*stamp, value)),
            _ => None,
        }
    }

    /// The value without its increments.
    pub fn base(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// The stamp of the visible write.
    pub fn stamp(&self) -> Option<Stamp> {
        self.value.is_some().then_some(self.mark.stamp)
    }

    /// The sum of all increments that count; `None` if there are none.
    pub fn amount(&self) -> Option<Amount> {
        let counting = self.tallies().iter().filter(|tally| tally.counts());
        counting.map(Tally::amount).reduce(Amount::plus)
    }

    pub fn tallies(&self) -> &[Tally] {
        self.mark.more.as_ref().map_or(&[], |more| &more.tallies)
    }

    /// The increments that a removal has to list as seen.
    pub fn seen(&self) -> Vec<SeenTally> {
        self.tallies().iter().filter(|tally| tally.counts()).map(Tally::seen).collect()
    }

    /// True if it has a value, or increments that stand for one.
    pub fn is_live(&self) -> bool {
        self.value.is_some() || self.tallies().iter().any(Tally::counts)
    }

    /// True if nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.value.is_none() && self.mark.more.is_none()
    }

    fn floor(&self) -> Stamp {
        self.stamp().unwrap_or(Stamp::ZERO)
    }

    /// The expiry time in Unix ms, with the stamp of the effect that gave it.
    pub fn time(&self, rules: &Rules) -> Option<(Stamp, u64)> {
        match self.mark.more.as_ref()?.times.winner(self.floor(), rules) {
            Some((stamp, Time::At(time))) => Some((stamp, time)),
            _ => None,
        }
    }

    /// Applies a change. Returns true if the cell now holds garbage.
    pub fn apply(&mut self, at: &At, change: CellChange<V>) -> bool {
        match change {
            CellChange::Put { value, time, seen } => {
                self.remove(at, &seen);
                self.insert(at, value);
                if let Some(time) = time {
                    self.more().times.set(at, Time::At(time));
                }
            }
            CellChange::Remove { seen } => self.remove(at, &seen),
            CellChange::Add(sum) => self.add(at, sum),
            CellChange::Live(time) => self.more().times.set(at, time),
        }
        self.compact();
        self.has_garbage(at.rules)
    }

    fn more(&mut self) -> &mut More<V> {
        self.mark.more.get_or_insert_default()
    }

    /// Frees the box of rare marks if it is empty.
    fn compact(&mut self) {
        let is_spare = |more: &mut Box<More<V>>| {
            more.losers.is_empty() && more.tallies.is_empty() && more.times.is_empty()
        };
        self.mark.more.take_if(is_spare);
    }

    /// Removes everything that the effect saw.
    pub fn remove(&mut self, at: &At, seen: &[SeenTally]) {
        if at.removes(self.mark.stamp) {
            self.value = None;
        }
        if let Some(more) = &mut self.mark.more {
            more.losers.retain(|(stamp, _)| !at.removes(*stamp));
            more.times.remove(at);
            if self.value.is_none()
                && let Some((stamp, value)) = more.losers.pop()
            {
                (self.value, self.mark.stamp) = (Some(value), stamp);
            }
            if !at.rules.forgets_only_seen {
                more.tallies.iter_mut().for_each(|tally| tally.forget(tally.last, tally.sum));
            }
            for one in seen {
                if let Some(index) = more.tallies.iter().position(|tally| tally.start == one.start) {
                    more.tallies[index].forget(one.last, one.sum);
                    if at.ends(&more.tallies[index]) {
                        more.tallies.remove(index);
                    }
                }
            }
            if !at.rules.keeps_forgotten {
                more.tallies.retain(Tally::counts);
            }
        }
        if self.value.is_none() {
            self.mark.stamp = Stamp::ZERO;
        }
        self.compact();
    }

    /// Adds a write that no write here has overwritten.
    fn insert(&mut self, at: &At, value: V) {
        let (stamp, rules) = (at.stamp, at.rules);
        let loser = match self.value.take() {
            Some(shown) if wins(self.mark.stamp, stamp, rules) || self.mark.stamp == stamp => {
                self.value = Some(shown);
                (stamp, value)
            }
            shown => {
                let was = std::mem::replace(&mut self.mark.stamp, stamp);
                self.value = Some(value);
                match shown {
                    Some(shown) => (was, shown),
                    None => return,
                }
            }
        };
        at.lost.set(at.lost.get() + 1);
        if rules.keeps_losers && loser.0 != self.mark.stamp {
            let more = self.more();
            more.losers.push(loser);
            sort_few(&mut more.losers, |(stamp, _)| *stamp);
        }
    }

    fn add(&mut self, at: &At, Sum { start, before, sum }: Sum) {
        let more = self.mark.more.get_or_insert_default();
        match more.tallies.iter_mut().find(|tally| tally.start == start) {
            Some(tally) if at.stamp > tally.last => (tally.last, tally.sum) = (at.stamp, sum),
            Some(_) => {}
            None => {
                // A tally that started earlier and is not here has been forgotten up to this
                // increment.
                let forgotten = if start < at.stamp { at.stamp.before() } else { Stamp::ZERO };
                more.tallies.push(Tally { start, last: at.stamp, sum, forgotten, forgotten_sum: before });
                sort_few(&mut more.tallies, |tally| tally.start);
            }
        }
    }

    /// An increment by the region whose run starts at `run`; `None` if the sum is out of range.
    pub fn increment(&self, region: Region, run: Stamp, stamp: Stamp, by: Amount) -> Option<Sum> {
        let is_own = |tally: &&Tally| tally.start.region() == region && tally.start > run && tally.counts();
        let (start, before) = self
            .tallies()
            .iter()
            .rfind(is_own)
            .map_or((stamp, Amount::ZERO), |tally| (tally.start, tally.sum));
        let sum = before.checked_plus(by)?;
        Some(Sum { start, before, sum })
    }

    pub fn merge(&mut self, theirs: &Cell<V>, sides: &Sides) {
        let mut mine = self.take_writes();
        merge_stamped(&mut mine, &theirs.writes(), sides);
        if let Some((stamp, value)) = mine.pop() {
            (self.value, self.mark.stamp) = (Some(value), stamp);
        }
        if !mine.is_empty() && sides.rules.keeps_losers {
            self.more().losers = mine;
        }
        if self.mark.more.is_some() || theirs.mark.more.is_some() {
            let empty = More::default();
            let other = theirs.mark.more.as_deref().unwrap_or(&empty);
            let more = self.more();
            more.times.merge(&other.times, sides);
            tally::merge(&mut more.tallies, sides.mine, &other.tallies, sides.theirs);
        }
        self.compact();
    }

    /// All writes; the visible one is last, if ties are decided by region.
    fn writes(&self) -> Vec<(Stamp, V)> {
        let losers = self.mark.more.iter().flat_map(|more| more.losers.iter().cloned());
        let shown = self.value.clone().map(|value| (self.mark.stamp, value));
        losers.chain(shown).collect()
    }

    fn take_writes(&mut self) -> Vec<(Stamp, V)> {
        let mut writes =
            self.mark.more.as_mut().map(|more| std::mem::take(&mut more.losers)).unwrap_or_default();
        let shown = self.value.take();
        writes.extend(shown.map(|value| (self.mark.stamp, value)));
        self.mark.stamp = Stamp::ZERO;
        writes
    }

    /// Visits the stamps of everything but increments.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.stamp().into_iter().for_each(&mut *note);
        if let Some(more) = &self.mark.more {
            let times = more.times.0.iter().map(|(stamp, _)| *stamp);
            more.losers.iter().map(|(stamp, _)| *stamp).chain(times).for_each(note);
        }
    }

    /// A cell with only the increments.
    pub(crate) fn into_tallies(self) -> Cell<V> {
        let mut cell = Cell::default();
        if let Some(more) = self.mark.more.filter(|more| !more.tallies.is_empty()) {
            cell.more().tallies = more.tallies;
        }
        cell
    }

    /// True if the cell holds invisible state that can be dropped once every region has
    /// acknowledged it.
    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.mark.more.as_ref().is_some_and(|more| {
            !more.losers.is_empty()
                || more.tallies.iter().any(|tally| !tally.counts())
                || more.times.has_garbage(self.is_live(), self.floor(), rules)
        })
    }

    /// Drops the forgotten tallies that `is_over` says no region adds to.
    pub(crate) fn drop_tallies(&mut self, is_over: impl Fn(Stamp) -> bool) {
        if let Some(more) = &mut self.mark.more {
            more.tallies.retain(|tally| tally.counts() || !is_over(tally.start));
            self.compact();
        }
    }

    /// Drops all garbage, and returns the number of dropped items.
    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let (is_live, floor) = (self.is_live(), self.floor());
        let Some(more) = &mut self.mark.more else { return 0 };
        let count = |more: &More<V>| more.losers.len() + more.tallies.len() + more.times.0.len();
        let before = count(more);
        more.losers.clear();
        more.tallies.retain(Tally::counts);
        more.times.collect_garbage(is_live, floor, rules);
        let dropped = before - count(more);
        self.compact();
        dropped
    }
}

stored!(<V> Cell { value, mark });
stored!(<V> Mark { stamp, more });
stored!(<V> More { losers, tallies, times }, |more| more.tallies.is_sorted_by(|one, next| one.start < next.start));

impl crate::stored::Stored for Times {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        Vec::load(from).map(Times)
    }
}

impl crate::stored::Stored for Time {
    fn store(&self, out: &mut Vec<u8>) {
        let time = match self {
            Time::At(time) => Some(*time),
            Time::Never => None,
        };
        time.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Option::load(from)?.map_or(Time::Never, Time::At))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_takes_over_equal_bytes_only() {
        let stamp = Stamp::start(Region::new(1).unwrap()).plus(1);
        let mut cell = Cell::written(stamp, Text::from_slice(b"value"));
        let (equal, other) = (Text::from_slice(b"value"), Text::from_slice(b"other"));
        cell.share(&equal);
        cell.share(&other);
        assert!(!equal.is_unique() && other.is_unique());
        assert_eq!(cell.base(), Some(&equal));
    }

    #[test]
    fn marks_are_small() {
        assert_eq!(size_of::<Mark<Box<[u8]>>>(), 16);
        assert_eq!(size_of::<Mark<()>>(), 16);
    }
}
