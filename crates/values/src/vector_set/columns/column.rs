// SPDX-License-Identifier: BSD-3-Clause
//! One member of all attributes: a cell for each element, and the elements in the order of their
//! values.
//!
//! An entry of the order is one word:
//!
//! ```text
//! number or text (1 bit) | the number's first bits, or the text's hash (31) | element (32)
//! ```
//! Different values can have the same 31 bits, so what the order finds is asked for again by the
//! cells. A list has an entry for each of its items; a text that reads as a number has one for
//! both. What counts as 0 in comparisons without being a number (other texts, lists, null) has no
//! entry as a number: the order does not answer for ranges with 0 in them while there is any.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;

use braid_base::number::ordered_bits;
use smallvec::SmallVec;

use super::super::filter::{Found, Value};
use super::cell::{Cell, Content, hash_bits};
use super::order::Order;

/// Texts in the dictionary of a column, and their greatest length: what a few values are repeated
/// for is compared without its attribute.
const TEXTS_MAX: usize = 4096;
const TEXT_MAX: usize = 64;
/// Items of a list that have entries in the order.
const ITEMS_MAX: usize = 64;
/// In the order, above all numbers.
const IS_TEXT: u32 = 1 << 31;
type Keys = SmallVec<[u32; 2]>;

/// Elements whose keys do not follow from their cells.
type Listed = HashMap<u32, Keys, foldhash::fast::RandomState>;

/// A column.
pub struct Column {
    name: Box<[u8]>,
    cells: Vec<Cell>,
    order: Order,
    listed: Listed,
    texts: Vec<Box<[u8]>>,
    codes: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    hasher: foldhash::quality::RandomState,
    /// Elements that count as 0 without an entry as such.
    zeros: usize,
    lists: usize,
    long_lists: usize,
}

fn number_key(number: f64) -> u32 {
    // The sum makes one zero of both.
    (ordered_bits(number + 0.0) >> 33) as u32
}

fn entry(key: u32, id: u32) -> u64 {
    u64::from(key) << 32 | u64::from(id)
}

impl Column {
    pub fn new(name: &[u8]) -> Column {
        Column {
            name: name.into(),
            cells: Vec::new(),
            order: Order::default(),
            listed: HashMap::default(),
            texts: Vec::new(),
            codes: HashMap::default(),
            hasher: foldhash::quality::RandomState::default(),
            zeros: 0,
            lists: 0,
            long_lists: 0,
        }
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    #[inline]
    pub fn content(&self, id: u32) -> Content {
        self.cells.get(id as usize).map_or(Content::Missing, |cell| cell.content())
    }

    /// A text of the dictionary.
    #[inline]
    pub fn text(&self, code: u32) -> &[u8] {
        self.texts.get(code as usize).map_or(&[], |text| text)
    }

    /// What a cell has of the hash of this text.
    pub fn text_hash(&self, text: &[u8]) -> u64 {
        hash_bits(self.hasher.hash_one(text))
    }

    fn text_key(&self, text: &[u8]) -> u32 {
        IS_TEXT | self.text_hash(text) as u32 >> 1
    }

    /// Fills an empty column with the members of elements 0, 1 and so on.
    pub fn fill<'a>(&mut self, members: impl Iterator<Item = Option<Found<'a>>>) {
        let mut entries = Vec::new();
        for (id, member) in members.enumerate() {
            for key in self.push(id as u32, member.as_ref()) {
                entries.push(entry(key, id as u32));
            }
        }
        entries.sort_unstable();
        self.order = Order::of_sorted(&entries);
    }

    /// Sets an element's member; elements before it that the column lacks are without one.
    pub fn set(&mut self, id: u32, member: Option<&Found<'_>>) {
        while self.cells.len() < id as usize {
            self.cells.push(Cell::new(Content::Missing));
        }
        self.clear(id);
        for key in self.push(id, member) {
            self.order.insert(entry(key, id));
        }
    }

    /// Forgets the elements from this number on.
    pub fn truncate(&mut self, len: usize) {
        while self.cells.len() > len {
            self.clear(self.cells.len() as u32 - 1);
            self.cells.pop();
        }
    }

    /// Writes a cell, and returns the keys that the order must get for it.
    fn push(&mut self, id: u32, member: Option<&Found<'_>>) -> Keys {
        let mut keys = Keys::new();
        let content = match member {
            None => Content::Missing,
            Some(Found::Other) => Content::Other,
            Some(Found::Value(value)) => match value {
                Value::Null => Content::Null,
                Value::Number(number) => Content::Number(*number),
                Value::Text(text) => self.intern(text),
                Value::List(items) if items.len() <= ITEMS_MAX => Content::List,
                Value::List(_) => Content::LongList,
            },
        };
        match (content, member) {
            (Content::List, Some(Found::Value(Value::List(items)))) => {
                items.iter().for_each(|item| self.add_keys(item, &mut keys));
            }
            (Content::LongList, _) => {}
            (_, Some(Found::Value(value))) => self.add_keys(value, &mut keys),
            _ => {}
        }
        keys.sort_unstable();
        keys.dedup();
        let is_listed = content == Content::List || keys.len() > 1;
        if is_listed {
            self.listed.insert(id, keys.clone());
        }
        self.count(content, is_listed, 1);
        let cell = Cell::new(content);
        match self.cells.get_mut(id as usize) {
            Some(place) => *place = cell,
            None => self.cells.push(cell),
        }
        keys
    }

    fn clear(&mut self, id: u32) {
        if id as usize >= self.cells.len() {
            return;
        }
        let content = self.content(id);
        let listed = self.listed.remove(&id);
        self.count(content, listed.is_some(), -1);
        let keys = listed.unwrap_or_else(|| match content {
            Content::Number(number) => Keys::from_slice(&[number_key(number)]),
            Content::Text(code) => Keys::from_slice(&[self.text_key(self.text(code))]),
            Content::Rare(hash) => Keys::from_slice(&[IS_TEXT | hash as u32 >> 1]),
            _ => Keys::new(),
        });
        for key in keys {
            self.order.remove(entry(key, id));
        }
        self.cells[id as usize] = Cell::new(Content::Missing);
    }

    fn count(&mut self, content: Content, is_listed: bool, change: isize) {
        let add = |count: &mut usize| *count = count.saturating_add_signed(change);
        match content {
            Content::Null => add(&mut self.zeros),
            Content::Text(_) | Content::Rare(_) if !is_listed => add(&mut self.zeros),
            Content::List => add(&mut self.lists),
            Content::LongList => {
                add(&mut self.lists);
                add(&mut self.long_lists);
            }
            _ => {}
        }
    }

    fn intern(&mut self, text: &[u8]) -> Content {
        if let Some(&code) = self.codes.get(text) {
            return Content::Text(code);
        }
        let is_common = self.texts.len() < TEXTS_MAX && text.len() <= TEXT_MAX;
        // An empty text is false, unlike others, so it must not be a rare one.
        if !is_common && !text.is_empty() {
            return Content::Rare(self.text_hash(text));
        }
        let code = self.texts.len() as u32;
        self.texts.push(text.into());
        self.codes.insert(text.into(), code);
        Content::Text(code)
    }

    fn add_keys(&self, value: &Value<'_>, keys: &mut Keys) {
        match value {
            Value::Number(number) => keys.push(number_key(*number)),
            Value::Text(text) => {
                keys.push(self.text_key(text));
                let number = value.number();
                if number != 0.0 && !number.is_nan() {
                    keys.push(number_key(number));
                }
            }
            Value::List(_) | Value::Null => {}
        }
    }

    /// Elements whose numbers are in a range, and maybe others; `None` if they are more than
    /// `most` or the order does not have them all.
    pub fn in_range(&self, range: RangeInclusive<f64>, most: usize) -> Option<Vec<u32>> {
        let keys = number_key(*range.start())..=number_key(*range.end());
        if keys.contains(&number_key(0.0)) && self.zeros + self.lists > 0 {
            return None;
        }
        let mut found = Vec::new();
        self.collect(keys, most, &mut found).then_some(found)
    }

    /// As above, for elements whose value equals this one.
    pub fn equal(&self, value: &Value<'_>, most: usize) -> Option<Vec<u32>> {
        let Value::Text(text) = value else {
            return match value {
                Value::Number(number) => self.in_range(*number..=*number, most),
                _ => None,
            };
        };
        let number = value.number();
        if number == 0.0 && self.lists > 0 {
            return None;
        }
        self.with_text(text, number, most)
    }

    /// As above, for elements with a list that has this value.
    pub fn with_item(&self, value: &Value<'_>, most: usize) -> Option<Vec<u32>> {
        if self.long_lists > 0 {
            return None;
        }
        match value {
            Value::Text(text) => self.with_text(text, value.number(), most),
            // Items that count as 0 have no entry as such.
            Value::Number(number) if *number != 0.0 => {
                let (key, mut found) = (number_key(*number), Vec::new());
                self.collect(key..=key, most, &mut found).then_some(found)
            }
            _ => None,
        }
    }

    fn with_text(&self, text: &[u8], number: f64, most: usize) -> Option<Vec<u32>> {
        let (text, number) = (self.text_key(text), number_key(number));
        let mut found = Vec::new();
        let is_whole =
            self.collect(text..=text, most, &mut found) && self.collect(number..=number, most, &mut found);
        is_whole.then_some(found)
    }

    /// Collects elements of these keys; false if there are more than `most` in all.
    fn collect(&self, keys: RangeInclusive<u32>, most: usize, found: &mut Vec<u32>) -> bool {
        if keys.is_empty() {
            return true;
        }
        let range = entry(*keys.start(), 0)..=entry(*keys.end(), u32::MAX);
        for entries in self.order.range(range) {
            if entries.len() > most - found.len() {
                return false;
            }
            found.extend(entries.iter().map(|&entry| entry as u32));
        }
        true
    }

    /// Bytes allocated, roughly.
    pub fn memory_bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(|text| 2 * text.len() + 48).sum();
        let listed = self.listed.capacity() * size_of::<(u32, Keys)>();
        self.cells.capacity() * size_of::<Cell>() + self.order.memory_bytes() + texts + listed
    }

    /// True if both have the same values and entries, whatever the numbers of their texts.
    #[cfg(test)]
    pub fn is_like(&self, other: &Column) -> bool {
        let numbers =
            |column: &Column| -> Vec<u64> { column.order.iter().filter(|entry| entry >> 63 == 0).collect() };
        let counts = |column: &Column| {
            let listed: usize = column.listed.values().map(SmallVec::len).sum();
            (column.cells.len(), column.order.len(), listed, column.zeros, column.lists, column.long_lists)
        };
        numbers(self) == numbers(other) && counts(self) == counts(other)
    }
}
