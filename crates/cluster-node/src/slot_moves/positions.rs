// SPDX-License-Identifier: BSD-3-Clause
//! Decides which parts of the journal the target of a move needs: pure, without input or output.
//!
//! The source copies each key at some moment, under its slot's lock, and passes on the journal
//! from then on. The moment is the journal's end: changes reserved before it are in the copy,
//! later ones are not. So each copied key has a *position*. A unit goes to the target if all of
//! its keys were copied before it. If only some were, it cannot be repeated there, and those keys
//! are copied again. A unit whose keys are all copied later is contained in the copies.
//!
//! Positions of single keys are kept only while a slot is being copied; afterwards one position
//! stands for all of its keys.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

/// A key in its database.
pub(super) type Name = (u32, Box<[u8]>);

/// How far a slot has been copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copied {
    /// It will be copied later, so nothing of the journal is needed yet.
    NotYet,
    /// Some keys have been copied, at unknown positions.
    InPart,
    /// Each key was copied at this position or before.
    By(u64),
}

#[derive(Debug)]
struct Slot {
    copied: Copied,
    /// Keys with more precise information: the position of the newest copy, or `None` if one is
    /// needed.
    keys: HashMap<Name, Option<u64>, RandomState>,
}

/// How a unit's key relates to the copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// A copy that has been or will be made contains the unit's change.
    InCopy,
    /// The copy is older than the unit.
    Behind,
    /// It was copied, either before or after the unit.
    Unknown,
}

/// The positions of all slots of a move.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<u16, Slot>);

impl Positions {
    /// Creates positions with nothing copied.
    pub(super) fn new(slots: impl Iterator<Item = u16>) -> Positions {
        let slot = || Slot { copied: Copied::NotYet, keys: HashMap::default() };
        Positions(slots.map(|number| (number, slot())).collect())
    }

    /// True if a slot belongs to the move.
    pub(super) fn has(&self, slot: u16) -> bool {
        self.0.contains_key(&slot)
    }

    /// Records that copying of a slot's keys begins.
    pub(super) fn begin(&mut self, slot: u16) {
        if let Some(slot) = self.0.get_mut(&slot) {
            slot.copied = Copied::InPart;
        }
    }

    /// Records that all keys of a slot have been copied, the last ones at this position.
    pub(super) fn end(&mut self, slot: u16, position: u64) {
        if let Some(slot) = self.0.get_mut(&slot) {
            slot.copied = Copied::By(position);
        }
    }

    /// Records that a key was copied again, at this position.
    pub(super) fn copied_again(&mut self, slot: u16, name: Name, position: u64) {
        if let Some(slot) = self.0.get_mut(&slot) {
            slot.keys.insert(name, Some(position));
        }
    }

    /// True if a unit that begins at an offset goes to the target. If not, keys that must be
    /// copied again are recorded. `keys`: those in the move's slots; `is_all`: there are no
    /// others.
    pub(super) fn needs(&mut self, offset: u64, keys: &[(u16, Name)], is_all: bool) -> bool {
        let relation = |(slot, name): &(u16, Name)| {
            let Some(slot) = self.0.get(slot) else { return Relation::InCopy };
            match (slot.keys.get(name), slot.copied) {
                (Some(None), _) | (None, Copied::NotYet) => Relation::InCopy,
                (Some(Some(position)), _) if *position > offset => Relation::InCopy,
                (Some(Some(_)), _) => Relation::Behind,
                (None, Copied::By(position)) if position <= offset => Relation::Behind,
                (None, Copied::InPart | Copied::By(_)) => Relation::Unknown,
            }
        };
        let relations: Vec<Relation> = keys.iter().map(relation).collect();
        if relations.iter().all(|relation| *relation == Relation::InCopy) {
            return false;
        }
        if is_all && relations.iter().all(|relation| *relation == Relation::Behind) {
            return true;
        }
        for ((slot, name), _) in
            keys.iter().zip(relations).filter(|(_, relation)| *relation != Relation::InCopy)
        {
            if let Some(slot) = self.0.get_mut(slot) {
                slot.keys.insert(name.clone(), None);
            }
        }
        false
    }

    /// Keys to be copied again, at most `most`, all of one slot.
    pub(super) fn wanted(&self, most: usize) -> Option<(u16, Vec<Name>)> {
        let is_wanted = |slot: &Slot| slot.keys.values().any(Option::is_none);
        let ended = |slot: &Slot| matches!(slot.copied, Copied::By(_));
        let (number, slot) = self.0.iter().find(|(_, slot)| ended(slot) && is_wanted(slot))?;
        let wanted = slot.keys.iter().filter(|(_, position)| position.is_none());
        Some((*number, wanted.take(most).map(|(name, _)| name.clone()).collect()))
    }

    /// Records that all units before an offset have been examined: positions up to there are no
    /// longer needed.
    pub(super) fn passed(&mut self, offset: u64) {
        for slot in self.0.values_mut().filter(|slot| !slot.keys.is_empty()) {
            if matches!(slot.copied, Copied::By(position) if position <= offset) {
                slot.keys.retain(|_, position| position.is_none_or(|position| position > offset));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    const SLOTS: u16 = 3;
    const KEYS: u8 = 4;

    /// A key's slot and number.
    type Key = (u16, u8);
    type Data = BTreeMap<Key, u64>;

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Add(Key),
        /// The second key's value takes the place of the first one's.
        Copy(Key, Key),
        Delete(Key),
    }

    fn apply(data: &mut Data, change: Change) {
        match change {
            Change::Add(key) => *data.entry(key).or_default() += 1,
            Change::Copy(to, from) => match data.get(&from).copied() {
                Some(value) => {
                    data.insert(to, value);
                }
                None => {
                    data.remove(&to);
                }
            },
            Change::Delete(key) => {
                data.remove(&key);
            }
        }
    }

    fn name((slot, key): Key) -> (u16, Name) {
        (slot, (0, Box::from([key])))
    }

    /// One run: writers, the copying thread and its reads of the journal in random order. Slot 0
    /// is not moved.
    fn run(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut source, mut target) = (Data::new(), Data::new());
        let mut journal: VecDeque<(u64, Change)> = VecDeque::new();
        let (mut end, mut looked_at) = (0, 0);
        let mut positions = Positions::new(1..SLOTS);
        let mut walk: Vec<(u16, u8)> =
            (1..SLOTS).flat_map(|slot| (0..KEYS).map(move |key| (slot, key))).collect();
        walk.reverse();
        let mut writes = random.usize(20..200);
        let read = |journal: &mut VecDeque<(u64, Change)>,
                    positions: &mut Positions,
                    target: &mut Data,
                    looked_at: &mut u64| {
            let Some((offset, change)) = journal.pop_front() else { return };
            let named = match change {
                Change::Add(key) | Change::Delete(key) => vec![key],
                Change::Copy(to, from) => vec![to, from],
            };
            let keys: Vec<_> =
                named.iter().filter(|key| positions.has(key.0)).map(|key| name(*key)).collect();
            if !keys.is_empty() && positions.needs(offset, &keys, keys.len() == named.len()) {
                apply(target, change);
            }
            *looked_at = offset + 1;
            positions.passed(*looked_at);
        };
        loop {
            match random.u8(0..10) {
                0..4 if writes > 0 => {
                    writes -= 1;
                    let key = (random.u16(0..SLOTS), random.u8(0..KEYS));
                    let other = (random.u16(0..SLOTS), random.u8(0..KEYS));
                    let change = match random.u8(0..6) {
                        0..3 => Change::Add(key),
                        3..5 => Change::Copy(key, other),
                        _ => Change::Delete(key),
                    };
                    apply(&mut source, change);
                    journal.push_back((end, change));
                    end += 1;
                }
                4..7 => read(&mut journal, &mut positions, &mut target, &mut looked_at),
                7..9 => {
                    let Some((slot, key)) = walk.pop() else { continue };
                    if key == 0 {
                        positions.begin(slot);
                    }
                    if let Some(value) = source.get(&(slot, key)) {
                        target.insert((slot, key), *value);
                    }
                    if key == KEYS - 1 {
                        positions.end(slot, end);
                    }
                }
                _ => {
                    if let Some((slot, names)) = positions.wanted(2) {
                        for name in names {
                            let key = (slot, name.1[0]);
                            match source.get(&key) {
                                Some(value) => target.insert(key, *value),
                                None => target.remove(&key),
                            };
                            positions.copied_again(slot, name, end);
                        }
                    }
                }
            }
            let is_done = writes == 0 && walk.is_empty() && journal.is_empty();
            if is_done && positions.wanted(1).is_none() {
                break;
            }
        }
        let moved = |data: &Data| {
            data.iter().filter(|(key, _)| key.0 > 0).map(|(key, value)| (*key, *value)).collect::<Vec<_>>()
        };
        assert_eq!(moved(&target), moved(&source), "seed {seed}");
        positions.passed(end);
        assert!(positions.0.values().all(|slot| slot.keys.is_empty()), "seed {seed}: {positions:?}");
    }

    #[test]
    fn the_target_ends_up_as_the_source_in_any_order_of_events() {
        for seed in 0..if cfg!(miri) { 20 } else { 20_000 } {
            run(seed);
        }
    }

    #[test]
    fn a_unit_goes_to_the_target_once() {
        let key = |slot: u16| vec![name((slot, 1))];
        let mut positions = Positions::new(1..3);
        assert!(!positions.needs(5, &key(1), true), "the key is copied later");
        positions.begin(1);
        assert!(
            !positions.needs(6, &key(1), true) && positions.wanted(9).is_none(),
            "the slot is being copied"
        );
        positions.end(1, 10);
        assert_eq!(positions.wanted(9), Some((1, vec![(0, Box::from([1u8]))])));
        positions.copied_again(1, (0, Box::from([1u8])), 12);
        assert!(!positions.needs(11, &key(1), true), "the second copy contains the change");
        assert!(positions.needs(12, &key(1), true));
        assert!(!positions.needs(13, &[key(1), key(2)].concat(), true), "the other key is copied later");
        assert!(positions.wanted(9).is_some());
        assert!(!positions.needs(14, &key(1), true), "the key waits for its copy");
    }
}
