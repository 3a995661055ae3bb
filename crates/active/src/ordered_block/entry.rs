// SPDX-License-Identifier: BSD-3-Clause
//! Entries of a [block](super), and its head: the bytes of each, and nothing about their order.

use std::cmp::Ordering;

use super::names::{NameForm, Rest};
use super::stamps::StampForm;
use crate::Bytes;
use crate::lengths::{number_len, put, put_number};
use crate::stamp::Stamp;

const WORD: usize = 8;
/// Lengths in four bits from these on have a varint of the excess.
const LONG_NAME: usize = 15;
const LONG: usize = 14;
/// In place of a value's length.
const MARKED: u8 = 15;
/// Stands for whole stamps in the three bits for the length of a stamp's code.
const WHOLE_WIDTH: usize = 7;

/// What an entry has in addition to its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content<'b> {
    /// A value that has been written once.
    Plain(Stamp, &'b [u8]),
    /// Anything else, in a form that is the owner's business.
    Marked(&'b [u8]),
}

/// An entry of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'b> {
    names: NameForm<'b>,
    rest: &'b [u8],
    pub content: Content<'b>,
}

impl Content<'_> {
    #[inline]
    pub fn stamp(&self) -> Option<Stamp> {
        match self {
            Content::Plain(stamp, _) => Some(*stamp),
            Content::Marked(_) => None,
        }
    }
}

impl Entry<'_> {
    #[inline]
    pub fn is_marked(&self) -> bool {
        matches!(self.content, Content::Marked(_))
    }

    pub fn name(&self) -> Bytes {
        let mut name = Vec::with_capacity(self.names.common.len() + 2 * self.rest.len());
        self.add_name(&mut name);
        name.into()
    }

    /// Calls `run` with the name.
    #[inline]
    pub fn with_name<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        if self.names.is_text() { run(self.rest) } else { run(&self.name()) }
    }

    /// Appends the name.
    #[inline]
    pub fn add_name(&self, out: &mut Vec<u8>) {
        self.names.add_name(self.rest, out);
    }
}

/// The beginning of a block.
pub(crate) struct Head<'b> {
    pub stamps: StampForm,
    pub names: NameForm<'b>,
    /// Where the entries start.
    pub len: usize,
}

/// Where the parts of an entry start.
pub(crate) struct Parts {
    name: usize,
    content: usize,
    value: usize,
    pub end: usize,
    pub is_marked: bool,
}

/// An entry about to be written.
pub(crate) struct New<'n> {
    rest: Rest<'n>,
    code: u64,
    width: usize,
    value: &'n [u8],
    is_marked: bool,
}

/// Takes a varint at a place that it advances.
fn take_number(bytes: &[u8], at: &mut usize) -> usize {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
        shift += 7;
    }
}

impl Head<'_> {
    /// The head of an empty block.
    pub const NONE: Head<'static> =
        Head { stamps: StampForm::WHOLE, names: NameForm { common: &[], is_digits: false }, len: 1 };

    #[inline]
    pub fn of(bytes: &[u8]) -> Head<'_> {
        let Some(forms) = bytes.first() else { return Head::NONE };
        let (width, mut common_len, mut at) = (usize::from(forms & 7), usize::from(forms >> 4), 1);
        if common_len == LONG_NAME {
            common_len += take_number(bytes, &mut at);
        }
        let mut stamps = StampForm::WHOLE;
        if width < WHOLE_WIDTH
            && let Some(word) = bytes[at..].first_chunk::<WORD>()
        {
            stamps = StampForm { width, word: u64::from_le_bytes(*word) };
            at += WORD;
        }
        let len = at + common_len;
        let names = NameForm { common: &bytes[at..len], is_digits: forms & 8 != 0 };
        Head { stamps, names, len }
    }

    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>) {
        let width = self.stamps.width.min(WHOLE_WIDTH) as u8;
        let common = self.names.common;
        out.push(width | u8::from(self.names.is_digits) << 3 | (common.len().min(LONG_NAME) as u8) << 4);
        if let Some(excess) = common.len().checked_sub(LONG_NAME) {
            let start = out.len();
            out.resize(start + number_len(excess), 0);
            put_number(&mut &mut out[start..], excess);
        }
        if !self.stamps.is_whole() {
            out.extend_from_slice(&self.stamps.word.to_le_bytes());
        }
        out.extend_from_slice(common);
    }

    /// Where the form of the stamps is, unless they are whole.
    pub fn word_at(&self) -> Option<usize> {
        (!self.stamps.is_whole()).then(|| self.len - self.names.common.len() - WORD)
    }
}

/// The first bytes as a number that orders as they do, as far as it goes.
#[inline]
pub(crate) fn ordinal(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    let len = bytes.len().min(WORD);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(word)
}

impl Parts {
    #[inline]
    pub fn at(bytes: &[u8], at: usize, width: usize) -> Parts {
        let lengths = bytes[at];
        let (name_len, value_len) = (usize::from(lengths & 0xF), usize::from(lengths >> 4));
        if name_len == LONG_NAME || value_len >= LONG {
            return Parts::at_long(bytes, at, width);
        }
        let content = at + 1 + name_len;
        let value = content + width;
        Parts { name: at + 1, content, value, end: value + value_len, is_marked: false }
    }

    fn at_long(bytes: &[u8], mut at: usize, width: usize) -> Parts {
        let lengths = bytes[at];
        let (mut name_len, mut value_len) = (usize::from(lengths & 0xF), usize::from(lengths >> 4));
        let is_marked = lengths >> 4 == MARKED;
        at += 1;
        if name_len == LONG_NAME {
            name_len += take_number(bytes, &mut at);
        }
        if is_marked {
            value_len = take_number(bytes, &mut at);
        } else if value_len == LONG {
            value_len += take_number(bytes, &mut at);
        }
        let content = at + name_len;
        let value = if is_marked { content } else { content + width };
        Parts { name: at, content, value, end: value + value_len, is_marked }
    }

    /// Compares the entry's rest of the name with one whose [`ordinal`] is given.
    #[inline]
    pub fn compare(&self, bytes: &[u8], rest: &[u8], ordinal: u64) -> Ordering {
        let mine = &bytes[self.name..self.content];
        if let Some(word) = bytes[self.name..].first_chunk::<WORD>() {
            let word = match u64::from_be_bytes(*word) {
                word if mine.len() >= WORD => word,
                word => word & !(u64::MAX >> (8 * mine.len())),
            };
            if word != ordinal {
                return word.cmp(&ordinal);
            }
            if mine.len().min(rest.len()) <= WORD {
                return mine.len().cmp(&rest.len());
            }
        }
        mine.cmp(rest)
    }

    #[inline]
    pub fn entry<'b>(&self, bytes: &'b [u8], head: &Head<'b>) -> Entry<'b> {
        let value = &bytes[self.value..self.end];
        let content = if self.is_marked {
            Content::Marked(value)
        } else {
            // The code is loaded with what follows it, if there are that many bytes.
            let code = match bytes[self.content..].first_chunk::<WORD>() {
                Some(word) => {
                    let mask = u64::MAX.checked_shr(u64::BITS - 8 * head.stamps.width as u32);
                    u64::from_le_bytes(*word) & mask.unwrap_or(0)
                }
                None => {
                    let code = &bytes[self.content..self.value];
                    code.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte))
                }
            };
            // The block's own stamps can be stamps.
            Content::Plain(Stamp::from_word(head.stamps.stamp_word(code)).unwrap_or_default(), value)
        };
        Entry { names: head.names, rest: &bytes[self.name..self.content], content }
    }
}

impl<'n> New<'n> {
    /// `None` if the form cannot express the entry.
    #[inline]
    pub fn of(
        stamps: &StampForm,
        names: &NameForm<'_>,
        name: &'n [u8],
        content: Content<'n>,
    ) -> Option<New<'n>> {
        let rest = names.rest(name)?;
        Some(match content {
            Content::Plain(stamp, value) => {
                New { rest, code: stamps.code(stamp)?, width: stamps.width, value, is_marked: false }
            }
            Content::Marked(value) => New { rest, code: 0, width: 0, value, is_marked: true },
        })
    }

    /// The varints of the lengths of name and value.
    #[inline]
    fn numbers(&self) -> (Option<usize>, Option<usize>) {
        let value_len = self.value.len();
        let value = if self.is_marked { Some(value_len) } else { value_len.checked_sub(LONG) };
        (self.rest.len().checked_sub(LONG_NAME), value)
    }

    /// The bytes that the entry takes.
    #[inline]
    pub fn len(&self) -> usize {
        let (name, value) = self.numbers();
        1 + name.map_or(0, number_len)
            + value.map_or(0, number_len)
            + self.rest.len()
            + self.width
            + self.value.len()
    }

    /// Writes the entry to exactly its length.
    #[inline]
    pub fn write(&self, mut out: &mut [u8]) {
        let (name, value) = self.numbers();
        let value_len = if self.is_marked { MARKED } else { self.value.len().min(LONG) as u8 };
        put(&mut out, &[self.rest.len().min(LONG_NAME) as u8 | value_len << 4]);
        name.into_iter().chain(value).for_each(|number| put_number(&mut out, number));
        put(&mut out, &self.rest);
        match self.code.to_le_bytes() {
            code if self.width == WORD => put(&mut out, &code),
            code => put(&mut out, &code[..self.width]),
        }
        put(&mut out, self.value);
    }
}
