// SPDX-License-Identifier: BSD-3-Clause
//! A member of an element's attribute as one word: a number, or a kind with 48 bits of detail in
//! the bits of those floats that are no numbers.

/// Bits of the detail.
const DETAIL_BITS: u32 = 48;
const DETAIL: u64 = (1 << DETAIL_BITS) - 1;
/// Kinds, above the greatest word of a number, which is that of minus infinity.
const MISSING: u64 = 0xfff1;
const OTHER: u64 = 0xfff2;
const NULL: u64 = 0xfff3;
const TEXT: u64 = 0xfff4;
const RARE: u64 = 0xfff5;
const LIST: u64 = 0xfff6;
const LONG_LIST: u64 = 0xfff7;

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// The attribute has no such member.
    Missing,
    /// A value that no filter matches.
    Other,
    Null,
    Number(f64),
    /// A text of the column's dictionary.
    Text(u32),
    /// Another text: the lower bits of its hash.
    Rare(u64),
    /// A list, to be read from the attribute.
    List,
    /// As above, with more items than the column's order has.
    LongList,
}

/// A packed [`Content`].
#[derive(Clone, Copy)]
pub struct Cell(u64);

impl Cell {
    pub fn new(content: Content) -> Cell {
        let of = |kind: u64, detail: u64| Cell(kind << DETAIL_BITS | detail & DETAIL);
        match content {
            Content::Missing => of(MISSING, 0),
            Content::Number(number) if number.is_nan() => of(OTHER, 0),
            Content::Other => of(OTHER, 0),
            Content::Null => of(NULL, 0),
            Content::Number(number) => Cell(number.to_bits()),
            Content::Text(code) => of(TEXT, u64::from(code)),
            Content::Rare(hash) => of(RARE, hash),
            Content::List => of(LIST, 0),
            Content::LongList => of(LONG_LIST, 0),
        }
    }

    #[inline]
    pub fn content(self) -> Content {
        let detail = self.0 & DETAIL;
        match self.0 >> DETAIL_BITS {
            MISSING => Content::Missing,
            OTHER => Content::Other,
            NULL => Content::Null,
            TEXT => Content::Text(detail as u32),
            RARE => Content::Rare(detail),
            LIST => Content::List,
            LONG_LIST => Content::LongList,
            _ => Content::Number(f64::from_bits(self.0)),
        }
    }
}

/// The bits of a hash that a cell keeps.
pub fn hash_bits(hash: u64) -> u64 {
    hash & DETAIL
}
