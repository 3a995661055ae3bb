// SPDX-License-Identifier: BSD-3-Clause
//! Texts with scores, found by their beginning.
//!
//! Texts are sorted by what they are in lower case, so those with the same beginning follow each
//! other. They are kept in sorted chunks of up to [`CHUNK_MAX`]; a snapshot shares the chunks, and
//! a change copies at most one.
//!
//! A FUZZY look-up goes over the sorted texts as over a trie: it keeps a row of edit distances for
//! each character of the current text, and leaves out all texts that begin with something that is
//! two edits away from every beginning of what was typed.

use std::borrow::Cow;
use std::cmp::Ordering;

use braid_base::alloc::size_class;
use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

/// Texts in a chunk at most.
const CHUNK_MAX: usize = 64;
/// Texts of this many characters are not kept, as in Redis Stack.
pub const CHARS_MAX: usize = 256;
/// With so many texts a value is large: a snapshot shares it.
const LARGE: usize = 1024;
/// What a text scores that is the typed one.
const EXACT: f32 = 2_147_483_648.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub text: Box<str>,
    /// The text in lower case, if that is another one.
    folded: Option<Box<str>>,
    pub score: f32,
    pub payload: Option<Box<[u8]>>,
}

impl Entry {
    fn folded(&self) -> &str {
        self.folded.as_deref().unwrap_or(&self.text)
    }

    fn key(&self) -> (&str, &str) {
        (self.folded(), &self.text)
    }

    fn heap_bytes(&self) -> usize {
        let bytes = |len: usize| if len == 0 { 0 } else { size_class(len) };
        size_of::<Entry>()
            + bytes(self.text.len())
            + self.folded.as_ref().map_or(0, |text| bytes(text.len()))
            + self.payload.as_ref().map_or(0, |payload| bytes(payload.len()))
    }
}

/// A text in lower case.
fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.to_lowercase())
}

/// A text that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suggested<'a> {
    pub text: &'a str,
    pub score: f32,
    pub payload: Option<&'a [u8]>,
}

/// Where a text is, or would be: its chunk, and its place there.
#[derive(Clone, Copy)]
struct Spot {
    chunk: usize,
    at: usize,
}

#[derive(Clone, Default)]
pub struct Suggestions {
    /// None is empty.
    chunks: Vec<CowBox<Vec<Entry>>>,
    len: usize,
    /// Of all entries.
    entry_bytes: usize,
}

impl Suggestions {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Bytes of all allocations.
    pub fn memory_bytes(&self) -> usize {
        let heads = self.chunks.len() * size_class(CowBox::<Vec<Entry>>::bytes());
        size_class(self.chunks.capacity() * size_of::<usize>()) + heads + self.entry_bytes
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        for (number, chunk) in (0..).zip(&mut self.chunks).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if mover.is_over() {
                return Some(number);
            }
            let Some(entries) = chunk.own_mut() else { continue };
            for entry in &mut *entries {
                mover.relocate_text(&mut entry.text);
                entry.folded.iter_mut().for_each(|folded| mover.relocate_text(folded));
                entry.payload.iter_mut().for_each(|payload| mover.relocate_slice(payload));
            }
            mover.relocate_vec(entries);
            chunk.relocate(mover);
        }
        None
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn is_large(&self) -> bool {
        self.len >= LARGE
    }

    /// The place of a key: `Ok` if it is there.
    fn find(&self, key: (&str, &str)) -> Result<Spot, Spot> {
        let after = self.chunks.partition_point(|chunk| chunk[0].key() <= key);
        let chunk = after.saturating_sub(1);
        let Some(entries) = self.chunks.get(chunk) else { return Err(Spot { chunk: 0, at: 0 }) };
        match entries.binary_search_by(|entry| entry.key().cmp(&key)) {
            Ok(at) => Ok(Spot { chunk, at }),
            Err(at) => Err(Spot { chunk, at }),
        }
    }

    /// Adds a text, or gives it another score; `increment` adds to the score that it has. A
    /// payload that is there stays unless there is a new one. Nothing happens for a score of 0, no
    /// text, or one of [`CHARS_MAX`] characters. Returns whether something changed.
    pub fn add(&mut self, text: &str, score: f32, increment: bool, payload: Option<&[u8]>) -> bool {
        if score == 0.0 || text.is_empty() || text.chars().nth(CHARS_MAX - 1).is_some() {
            return false;
        }
        let folded = fold(text);
        match self.find((&folded, text)) {
            Ok(Spot { chunk, at }) => {
                let entry = &mut self.chunks[chunk][at];
                self.entry_bytes -= entry.heap_bytes();
                let new = if increment { entry.score + score } else { score };
                // Opposite infinities have no sum.
                entry.score = if new.is_nan() { entry.score } else { new };
                if let Some(payload) = payload {
                    entry.payload = Some(payload.into());
                }
                self.entry_bytes += entry.heap_bytes();
            }
            Err(spot) => {
                let folded = (*folded != *text).then(|| folded.into());
                let entry = Entry { text: text.into(), folded, score, payload: payload.map(Into::into) };
                self.insert(spot, entry);
            }
        }
        true
    }

    fn insert(&mut self, Spot { chunk, at }: Spot, entry: Entry) {
        self.len += 1;
        self.entry_bytes += entry.heap_bytes();
        if self.chunks.is_empty() {
            self.chunks.push(CowBox::new(vec![entry]));
            return;
        }
        let entries = &mut *self.chunks[chunk];
        entries.insert(at, entry);
        if entries.len() > CHUNK_MAX {
            // Texts that come in order leave full chunks behind.
            let is_last = chunk + 1 == self.chunks.len() && at + 1 == self.chunks[chunk].len();
            let from = if is_last { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let rest = self.chunks[chunk].split_off(from);
            self.chunks.insert(chunk + 1, CowBox::new(rest));
        }
    }

    /// Removes a text; false if it is not there.
    pub fn remove(&mut self, text: &str) -> bool {
        let Ok(Spot { chunk, at }) = self.find((&fold(text), text)) else { return false };
        let removed = self.chunks[chunk].remove(at);
        self.len -= 1;
        self.entry_bytes -= removed.heap_bytes();
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
        true
    }

    /// The entries from a place on.
    fn from(&self, spot: Spot) -> impl Iterator<Item = &Entry> {
        let chunks = self.chunks.iter().skip(spot.chunk).enumerate();
        chunks.flat_map(move |(number, chunk)| chunk.iter().skip(if number == 0 { spot.at } else { 0 }))
    }

    fn seek(&self, folded: &str) -> Spot {
        match self.find((folded, "")) {
            Ok(spot) | Err(spot) => spot,
        }
    }

    /// The best texts that begin with a prefix; if `fuzzy` with something at most one edit away
    /// from it.
    pub fn get(&self, prefix: &str, max: usize, fuzzy: bool) -> Vec<Suggested<'_>> {
        let prefix: Vec<char> = fold(prefix).chars().collect();
        let mut best = Best { max, found: Vec::new(), least: f32::NEG_INFINITY };
        if fuzzy {
            self.visit_near(&prefix, |entry, distance| best.take(suggested(&prefix, entry, distance)));
        } else {
            let text: String = prefix.iter().collect();
            let with_prefix =
                self.from(self.seek(&text)).take_while(|entry| entry.folded().starts_with(&text));
            with_prefix.for_each(|entry| best.take(suggested(&prefix, entry, 0)));
        }
        best.finish()
    }

    /// Calls for each text that begins with something at most one edit away from a prefix, with
    /// the fewest edits.
    fn visit_near<'a>(&'a self, prefix: &[char], mut visit: impl FnMut(&'a Entry, u32)) {
        let mut walk = Walk::new(prefix);
        let mut spot = Spot { chunk: 0, at: 0 };
        'seek: loop {
            for entry in self.from(spot) {
                match walk.next(entry.folded()) {
                    Ok(Some(distance)) => visit(entry, distance),
                    Ok(None) => {}
                    Err(Some(next)) => {
                        spot = self.seek(&next);
                        continue 'seek;
                    }
                    Err(None) => return,
                }
            }
            return;
        }
    }
}

/// Rows of edit distances between a prefix and the beginnings of the current text.
struct Walk<'a> {
    prefix: &'a [char],
    text: Vec<char>,
    /// One row more than characters of the text that have been looked at.
    rows: Vec<Row>,
}

struct Row {
    costs: Vec<u32>,
    /// The fewest edits to the whole prefix from this beginning of the text or a shorter one.
    best: u32,
}

impl<'a> Walk<'a> {
    fn new(prefix: &'a [char]) -> Walk<'a> {
        let costs: Vec<u32> = (0..=prefix.len() as u32).collect();
        // Stock finds with nothing typed as if one character were.
        let best = if prefix.is_empty() { 1 } else { prefix.len() as u32 };
        Walk { prefix, text: Vec::new(), rows: vec![Row { costs, best }] }
    }

    /// The fewest edits from a beginning of the next text to the prefix, if it is at most one.
    /// `Err`: neither this text has one nor those before the one given.
    fn next(&mut self, text: &str) -> Result<Option<u32>, Option<String>> {
        let shared = self.text.iter().zip(text.chars()).take_while(|(one, other)| **one == *other).count();
        let known = shared.min(self.rows.len() - 1);
        self.rows.truncate(known + 1);
        self.text.truncate(known);
        for next in text.chars().skip(known) {
            if self.rows.len() > self.prefix.len() + 1 {
                break;
            }
            let row = self.row_after(next);
            let is_dead = row.best > 1 && row.costs.iter().all(|cost| *cost > 1);
            self.text.push(next);
            self.rows.push(row);
            if is_dead {
                return Err(successor(&self.text));
            }
        }
        Ok(self.rows.last().map(|row| row.best).filter(|best| *best <= 1))
    }

    fn row_after(&self, next: char) -> Row {
        let above = &self.rows[self.rows.len() - 1];
        let mut costs = Vec::with_capacity(above.costs.len());
        costs.push(above.costs[0] + 1);
        for (column, typed) in self.prefix.iter().enumerate() {
            let replaced = above.costs[column] + u32::from(*typed != next);
            costs.push(replaced.min(above.costs[column + 1] + 1).min(costs[column] + 1));
        }
        let best = above.best.min(costs[self.prefix.len()]);
        Row { costs, best }
    }
}

/// The least text after all those that begin with these characters.
fn successor(text: &[char]) -> Option<String> {
    let last = text.iter().rposition(|one| *one != char::MAX)?;
    let next = if text[last] == '\u{d7ff}' { '\u{e000}' } else { char::from_u32(text[last] as u32 + 1)? };
    Some(text[..last].iter().chain([&next]).collect())
}

/// A text counts the less the more it adds to what was typed, and the more that was mistyped. It
/// is taken for the typed one if it is as long and its first half is the same, as in Redis Stack.
fn suggested<'a>(prefix: &[char], entry: &'a Entry, distance: u32) -> Suggested<'a> {
    let chars = entry.text.chars().count();
    let half = prefix.len().div_ceil(2);
    let is_exact = chars == prefix.len() && entry.text.chars().zip(prefix).take(half).all(|(a, b)| a == *b);
    let rest = chars.abs_diff(prefix.len());
    // Single precision after each step, as there.
    let score = if is_exact { EXACT } else { entry.score };
    let score = if distance == 0 { score } else { (f64::from(score) * (-2.0f64).exp()) as f32 };
    let score = if is_exact { score } else { (f64::from(score) / (1.0 + rest as f64).sqrt()) as f32 };
    Suggested { text: &entry.text, score, payload: entry.payload.as_deref() }
}

/// The best of what is found.
struct Best<'a> {
    max: usize,
    found: Vec<Suggested<'a>>,
    /// What scores less is not among them.
    least: f32,
}

impl<'a> Best<'a> {
    fn take(&mut self, one: Suggested<'a>) {
        if one.score < self.least {
            return;
        }
        self.found.push(one);
        if self.found.len() >= self.max.saturating_mul(2).max(64) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let order = |one: &Suggested<'_>, other: &Suggested<'_>| {
            other
                .score
                .partial_cmp(&one.score)
                .unwrap_or(Ordering::Equal)
                .then_with(|| one.text.cmp(other.text))
        };
        self.found.sort_by(order);
        self.found.truncate(self.max);
        if self.found.len() == self.max {
            self.least = self.found.last().map_or(self.least, |last| last.score);
        }
    }

    fn finish(mut self) -> Vec<Suggested<'a>> {
        self.cut();
        self.found
    }
}
