// SPDX-License-Identifier: BSD-3-Clause
//! Short names: keys of the map of [blocks](crate::ordered_block). Nearly all are short, so they
//! are in the map's nodes, and a search compares them without following pointers.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::Bytes;

/// The longest name in a node, which keeps the key in two words.
const INLINE: usize = 14;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) enum ShortName {
    Inline(u8, [u8; INLINE]),
    /// Boxed twice, since a pointer to a slice takes two words.
    Long(Box<Bytes>),
}

impl ShortName {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            ShortName::Inline(len, bytes) => &bytes[..usize::from(*len).min(INLINE)],
            ShortName::Long(name) => name,
        }
    }
}

impl Default for ShortName {
    fn default() -> ShortName {
        ShortName::Inline(0, [0; INLINE])
    }
}

impl From<&[u8]> for ShortName {
    fn from(name: &[u8]) -> ShortName {
        if name.len() > INLINE {
            return ShortName::Long(Box::new(name.into()));
        }
        let mut bytes = [0; INLINE];
        bytes[..name.len()].copy_from_slice(name);
        ShortName::Inline(name.len() as u8, bytes)
    }
}

impl Borrow<[u8]> for ShortName {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for ShortName {
    fn eq(&self, other: &ShortName) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ShortName {}

impl PartialOrd for ShortName {
    fn partial_cmp(&self, other: &ShortName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShortName {
    fn cmp(&self, other: &ShortName) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_names_order_as_bytes() {
        let mut names: Vec<Vec<u8>> = (0..40).flat_map(|len| [vec![0; len], vec![b'n'; len]]).collect();
        let mut short: Vec<ShortName> = names.iter().map(|name| name.as_slice().into()).collect();
        names.sort();
        short.sort();
        assert!(names.iter().eq(short.iter().map(ShortName::as_bytes)));
        assert!(size_of::<ShortName>() == 16 && ShortName::default().as_bytes().is_empty());
    }
}
