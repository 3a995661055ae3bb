// SPDX-License-Identifier: BSD-3-Clause
//! Walking a packed list from both ends.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.

use super::entry::{Element, decode, read_back_len};

/// The values of a packed list, or of a part of it.
#[derive(Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Iter<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, end: usize) -> Iter<'a> {
        // Iteration must not leave the part in either direction.
        Iter { bytes: bytes.get(..end).unwrap_or_default(), at, end }
    }

    /// Place of the entry that `next` will return.
    pub fn place(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.at >= self.end {
            return None;
        }
        let (element, size) = decode(self.bytes, self.at)?;
        self.at += size;
        Some(element)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (content, taken) = read_back_len(self.bytes, self.end)?;
        let at = self.end.checked_sub(content)?.checked_sub(taken).filter(|&at| at >= self.at)?;
        let (element, _) = decode(self.bytes, at)?;
        self.end = at;
        Some(element)
    }
}

/// Places and values of a packed list.
#[derive(Clone)]
pub struct Entries<'a>(pub(super) Iter<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (usize, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.0.at;
        Some((at, self.0.next()?))
    }
}
