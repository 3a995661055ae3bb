// SPDX-License-Identifier: BSD-3-Clause
//! Labels of a series: pairs of texts in their order, in one allocation.

use braid_base::relocation::Mover;

/// Labels, each as the length of its name, the name, the length of its value, the value. Lengths
/// take four bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels(Box<[u8]>);

impl Labels {
    /// `None` if a text is too long.
    pub fn new<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Labels> {
        let mut packed = Vec::new();
        for text in pairs.flat_map(|(name, value)| [name, value]) {
            packed.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
            packed.extend_from_slice(text);
        }
        Some(Labels(packed.into()))
    }

    pub fn relocate(&mut self, mover: &mut Mover) {
        mover.relocate_slice(&mut self.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pairs of name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }

    /// The value of the first label with this name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub fn memory_bytes(&self) -> usize {
        if self.0.is_empty() { 0 } else { braid_base::alloc::size_class(self.0.len()) }
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = after;
    Some(text)
}
