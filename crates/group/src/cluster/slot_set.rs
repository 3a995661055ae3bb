// SPDX-License-Identifier: BSD-3-Clause
//! A set of hash slots.

use std::fmt;
use std::str::FromStr;

use braid_base::crc::HASH_SLOTS;

const WORDS: usize = HASH_SLOTS as usize / 64;

/// A set of hash slots, one bit each. Displayed as ranges: `0-5460,7000`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

/// Text that is not a set of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("slots must be comma-separated numbers and ranges between 0 and 16383")]
pub struct BadSlots;

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }
}

impl SlotSet {
    /// All slots.
    pub fn all() -> SlotSet {
        SlotSet(Box::new([u64::MAX; WORDS]))
    }

    /// False for slots out of range.
    pub fn contains(&self, slot: u16) -> bool {
        let word = self.0.get(usize::from(slot / 64));
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Adds a slot. False if it was already present or is out of range.
    pub fn insert(&mut self, slot: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(slot / 64)) else { return false };
        let before = *word;
        *word |= 1 << (slot % 64);
        *word != before
    }

    /// Removes a slot. False if it was not present.
    pub fn remove(&mut self, slot: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(slot / 64)) else { return false };
        let before = *word;
        *word &= !(1 << (slot % 64));
        *word != before
    }

    /// Adds all slots of another set.
    pub fn add(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word |= other);
    }

    /// The slots that are not in another set.
    pub fn without(&self, other: &SlotSet) -> SlotSet {
        let mut left = self.clone();
        left.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word &= !other);
        left
    }

    /// One bit per slot, lowest first.
    pub fn words(&self) -> &[u64] {
        &*self.0
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Keeps the slots that `is_wanted` selects.
    pub fn retain(&mut self, is_wanted: impl Fn(u16) -> bool) {
        if !self.is_empty() {
            *self = self.iter().filter(|&slot| is_wanted(slot)).collect();
        }
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().zip(0..).flat_map(|(&word, number): (_, u16)| {
            let rest = |word: &u64| Some(word & (word - 1)).filter(|&rest| rest != 0);
            let words = std::iter::successors(Some(word).filter(|&word| word != 0), rest);
            words.map(move |word| number * 64 + word.trailing_zeros() as u16)
        })
    }

    /// The slots in ascending order, as the first and last of each run.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromStr for SlotSet {
    type Err = BadSlots;

    fn from_str(text: &str) -> Result<SlotSet, BadSlots> {
        let mut set = SlotSet::default();
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let slot = text.parse().ok().filter(|&slot: &u16| is_number && slot < HASH_SLOTS);
            slot.ok_or(BadSlots)
        };
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(BadSlots);
            }
            for slot in first..=last {
                set.insert(slot);
            }
        }
        Ok(set)
    }
}
