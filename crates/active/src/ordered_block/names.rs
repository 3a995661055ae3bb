// SPDX-License-Identifier: BSD-3-Clause
//! How a [block](super) stores its names: the beginning that all have in common once, and of each
//! name the rest.
//!
//! If the rests have decimal digits only, as in `user:000012345`, two digits take a byte. A digit
//! is stored as its value plus 1, and 0 fills the last byte, so the bytes order as the names do.

use smallvec::SmallVec;

/// A name without the common beginning, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rest<'n> {
    Text(&'n [u8]),
    Digits(SmallVec<[u8; 16]>),
}

impl std::ops::Deref for Rest<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Rest::Text(text) => text,
            Rest::Digits(packed) => packed,
        }
    }
}

/// How a block stores names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NameForm<'b> {
    pub common: &'b [u8],
    /// The rests have decimal digits only.
    pub is_digits: bool,
}

#[inline]
fn all_digits(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

/// The length of the common beginning of two names.
pub(crate) fn common_len(one: &[u8], two: &[u8]) -> usize {
    one.iter().zip(two).take_while(|(one, two)| one == two).count()
}

impl<'b> NameForm<'b> {
    /// The shortest form for names in order.
    pub fn of(names: impl DoubleEndedIterator<Item = &'b [u8]> + Clone) -> NameForm<'b> {
        let (mut ends, mut all) = (names.clone(), names);
        let first = ends.next().unwrap_or_default();
        let common = &first[..common_len(first, ends.next_back().unwrap_or(first))];
        NameForm { common, is_digits: all.all(|name| all_digits(&name[common.len()..])) }
    }

    /// True if names are stored as they are.
    #[inline]
    pub fn is_text(&self) -> bool {
        self.common.is_empty() && !self.is_digits
    }

    /// The stored rest of a name; `None` if the form cannot express it.
    #[inline]
    pub fn rest<'n>(&self, name: &'n [u8]) -> Option<Rest<'n>> {
        let rest = name.strip_prefix(self.common)?;
        if !self.is_digits {
            return Some(Rest::Text(rest));
        }
        let nibble = |digit: u8| digit - b'0' + 1;
        let pack = |pair: &[u8]| nibble(pair[0]) << 4 | pair.get(1).map_or(0, |digit| nibble(*digit));
        all_digits(rest).then(|| Rest::Digits(rest.chunks(2).map(pack).collect()))
    }

    /// Appends the name with a stored rest.
    #[inline]
    pub fn add_name(&self, rest: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.common);
        if !self.is_digits {
            return out.extend_from_slice(rest);
        }
        let nibbles = rest.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        out.extend(nibbles.filter(|nibble| *nibble != 0).map(|nibble| nibble - 1 + b'0'));
    }
}
