// SPDX-License-Identifier: BSD-3-Clause
//! Short names: keys of the [map of blocks](crate::block_map). Nearly all are short, so they are in
//! the map's pages, and a search compares them without following pointers.

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

/// The beginning of a name as a word that compares as it does.
fn word(bytes: [u8; INLINE]) -> u128 {
    let mut all = [0; 16];
    all[..INLINE].copy_from_slice(&bytes);
    u128::from_be_bytes(all)
}

/// The beginning of a name, with zeros after its end.
fn beginning(name: &[u8]) -> [u8; INLINE] {
    let (mut bytes, len) = ([0; INLINE], name.len().min(INLINE));
    bytes[..len].copy_from_slice(&name[..len]);
    bytes
}

/// A name that is searched for.
pub(crate) struct Wanted<'n> {
    name: &'n [u8],
    word: u128,
}

impl<'n> Wanted<'n> {
    pub fn new(name: &'n [u8]) -> Wanted<'n> {
        Wanted { name, word: word(beginning(name)) }
    }
}

impl ShortName {
    /// True if this name is not after the wanted one.
    #[inline]
    pub fn is_up_to(&self, wanted: &Wanted<'_>) -> bool {
        let own = match self {
            ShortName::Inline(_, bytes) => word(*bytes),
            ShortName::Long(name) => word(beginning(name)),
        };
        // Names that differ within the beginning, where a shorter one has zeros, differ as words.
        if own == wanted.word { self.as_bytes() <= wanted.name } else { own < wanted.word }
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
        ShortName::Inline(name.len() as u8, beginning(name))
    }
}

impl PartialEq for ShortName {
    fn eq(&self, other: &ShortName) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ShortName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_names_order_as_bytes() {
        let names = (0..40).flat_map(|len| [vec![0; len], vec![b'n'; len], vec![255; len]]);
        let names: Vec<Vec<u8>> =
            names.chain([b"nnnnnnnnnnnnnm".into(), b"nnnnnnnnnnnnnno".into()]).collect();
        for one in &names {
            let short = ShortName::from(&one[..]);
            assert_eq!(short.as_bytes(), &one[..]);
            for other in &names {
                assert_eq!(short.is_up_to(&Wanted::new(other)), one <= other, "{one:?} {other:?}");
            }
        }
        assert!(size_of::<ShortName>() == 16 && ShortName::default().as_bytes().is_empty());
    }
}
