// SPDX-License-Identifier: BSD-3-Clause
//! The [blocks](crate::ordered_block) of a large collection, each under the least name that it may
//! hold. The first block's is the empty name, and that block stays, so every name has a block.
//!
//! Blocks are on pages of some dozen, with their names side by side: a search compares one name of
//! some pages and then some names of one page, as words. It is a large part of the cost of a change
//! of an element. What the least names have in common at their beginning is kept once, so that a
//! word tells nearly all of them apart.

use std::cmp::Ordering;

use crate::ordered_block::{Block, common_len};
use crate::short_name::{ShortName, Wanted};

/// The maximum number of blocks on a page.
const PAGE: usize = 64;

/// Some blocks, never none.
#[derive(Clone, Debug)]
struct Page {
    least: Vec<ShortName>,
    blocks: Vec<Block>,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    pages: Vec<Page>,
    /// The first name of each page.
    firsts: Vec<ShortName>,
    /// The beginning of all least names but the first, which are kept without it.
    beginning: Vec<u8>,
    len: usize,
}

/// Adds an item to a short list, which grows in small steps.
fn insert<T>(all: &mut Vec<T>, index: usize, item: T) {
    if all.len() == all.capacity() {
        all.reserve_exact(1 + all.len() / 4);
    }
    all.insert(index, item);
}

/// The index of the last of some sorted names that is not after the wanted one.
fn last_up_to(names: &[ShortName], wanted: &Wanted<'_>) -> usize {
    names.partition_point(|least| least.is_up_to(wanted)).saturating_sub(1)
}

impl BlockMap {
    pub fn new(first: Block) -> BlockMap {
        let page = Page { least: vec![ShortName::default()], blocks: vec![first] };
        BlockMap { pages: vec![page], firsts: vec![ShortName::default()], beginning: Vec::new(), len: 1 }
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The page of a name, and the index of its block there.
    fn place(&self, name: &[u8]) -> (usize, usize) {
        let (start, rest) = name.split_at(name.len().min(self.beginning.len()));
        match start.cmp(&self.beginning) {
            Ordering::Equal => {
                let wanted = Wanted::new(rest);
                let page = last_up_to(&self.firsts, &wanted);
                (page, last_up_to(&self.pages[page].least, &wanted))
            }
            Ordering::Less => (0, 0),
            Ordering::Greater => (self.pages.len() - 1, self.pages[self.pages.len() - 1].blocks.len() - 1),
        }
    }

    /// Shortens what the least names have in common, so that another one begins with it.
    fn shorten_beginning(&mut self, least: &[u8]) {
        if self.len == 1 {
            self.beginning = least.into();
        }
        let gone = self.beginning.split_off(common_len(&self.beginning, least));
        if gone.is_empty() {
            return;
        }
        let others = self.pages.iter_mut().flat_map(|page| &mut page.least).skip(1);
        for name in others.chain(self.firsts.iter_mut().skip(1)) {
            *name = ShortName::from(&[&gone[..], name.as_bytes()].concat()[..]);
        }
    }

    /// The block that holds a name, if any does.
    pub fn get(&self, name: &[u8]) -> &Block {
        let (page, at) = self.place(name);
        &self.pages[page].blocks[at]
    }

    pub fn get_mut(&mut self, name: &[u8]) -> &mut Block {
        let (page, at) = self.place(name);
        &mut self.pages[page].blocks[at]
    }

    /// All blocks, in order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.pages.iter().flat_map(|page| &page.blocks)
    }

    /// The block that holds a name, if any does, and those after it.
    pub fn blocks_from(&self, name: &[u8]) -> impl Iterator<Item = &Block> {
        let (page, at) = self.place(name);
        let rest = self.pages[page + 1..].iter().flat_map(|page| &page.blocks);
        self.pages[page].blocks[at..].iter().chain(rest)
    }

    /// Adds the block of the names from `least` on, which is no other block's least name.
    pub fn insert(&mut self, least: &[u8], block: Block) {
        self.shorten_beginning(least);
        let (page, at) = self.place(least);
        let full = &mut self.pages[page];
        insert(&mut full.least, at + 1, ShortName::from(&least[self.beginning.len()..]));
        insert(&mut full.blocks, at + 1, block);
        self.len += 1;
        if full.blocks.len() > PAGE {
            // Names that arrive in order leave full pages.
            let middle = if at + 2 == full.blocks.len() { PAGE } else { PAGE / 2 };
            let second = Page { least: full.least.split_off(middle), blocks: full.blocks.split_off(middle) };
            full.least.shrink_to_fit();
            full.blocks.shrink_to_fit();
            self.firsts.insert(page + 1, second.least[0].clone());
            self.pages.insert(page + 1, second);
        }
    }

    /// Removes an entry, and its block if that is empty then.
    pub fn remove(&mut self, name: &[u8]) {
        let (page, at) = self.place(name);
        let block = &mut self.pages[page].blocks[at];
        block.remove(name);
        if block.is_empty() && (page, at) != (0, 0) {
            self.pages[page].least.remove(at);
            self.pages[page].blocks.remove(at);
            self.len -= 1;
            self.end_removal(page);
        }
    }

    /// Removes a page without blocks, or notes its first name.
    fn end_removal(&mut self, page: usize) {
        match self.pages[page].least.first() {
            Some(first) if self.firsts[page] != *first => self.firsts[page] = first.clone(),
            Some(_) => {}
            None => {
                self.pages.remove(page);
                self.firsts.remove(page);
            }
        }
    }

    /// Changes all blocks, and removes those that are empty then.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut Block)) {
        for page in (0..self.pages.len()).rev() {
            let Page { least, blocks } = &mut self.pages[page];
            blocks.iter_mut().for_each(&mut change);
            let (had, mut index) = (blocks.len(), 0);
            let is_kept = blocks.iter().map(|block| !block.is_empty());
            let mut is_kept: Vec<bool> = is_kept.collect();
            is_kept[0] |= page == 0;
            least.retain(|_| {
                index += 1;
                is_kept[index - 1]
            });
            index = 0;
            blocks.retain(|_| {
                index += 1;
                is_kept[index - 1]
            });
            self.len -= had - blocks.len();
            self.end_removal(page);
        }
    }

    /// The block, if there is only one; it is taken then.
    pub fn take_only(&mut self) -> Option<Block> {
        (self.len == 1).then(|| std::mem::take(&mut self.pages[0].blocks[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered_block::Content;
    use crate::stamp::Stamp;
    use std::collections::BTreeMap;

    /// Other beginnings of names, as long as the usual one.
    const OTHERS: [&str; 4] = ["nama:", "name;", "zero:", "\u{1}ame:"];

    fn block_of(name: &[u8]) -> Block {
        let mut block = Block::default();
        let place = block.place_of(name);
        block.put_at(&place, name, Content::Plain(Stamp::ZERO, b""));
        block
    }

    /// Blocks of one entry each are found as in a map that is sorted by their least names.
    #[test]
    fn blocks_are_found_by_their_least_names() {
        let mut random = fastrand::Rng::with_seed(23);
        for in_order in [false, true] {
            let (mut map, mut expected) = (BlockMap::new(Block::default()), BTreeMap::new());
            expected.insert(Vec::new(), Block::default());
            for number in 0..3_000_u32 {
                let number = if in_order { number } else { random.u32(0..100_000) };
                let long = if random.u8(0..9) == 0 { &b" and a name that is not in a node"[..] } else { b"" };
                let is_other = random.u16(0..900) == 0;
                let start = if is_other { OTHERS[random.usize(0..OTHERS.len())] } else { "name:" };
                let name = [format!("{start}{number:06}").as_bytes(), long].concat();
                if random.u8(0..4) == 0 {
                    let known = expected.range(..=name.clone()).next_back().map(|(least, _)| least.clone());
                    let gone = known.filter(|least| !least.is_empty()).unwrap_or_default();
                    map.remove(&gone);
                    if !gone.is_empty() {
                        expected.remove(&gone);
                    }
                } else if !expected.contains_key(&name) {
                    map.insert(&name, block_of(&name));
                    expected.insert(name.clone(), block_of(&name));
                }
                let (_, there) = expected.range(..=name.clone()).next_back().expect("the first block");
                let entries = |block: &Block| block.iter().map(|entry| entry.name()).collect::<Vec<_>>();
                assert_eq!(entries(map.get(&name)), entries(there));
                assert_eq!(map.len(), expected.len());
                if number % 64 == 0 {
                    assert!(map.blocks().map(entries).eq(expected.values().map(entries)));
                    assert!(map.pages.iter().all(|page| (1..=PAGE).contains(&page.blocks.len())));
                }
            }
            let is_even = |name: &[u8]| name[10].is_multiple_of(2);
            map.change_all(|block| block.retain(|entry| is_even(&entry.name())));
            expected.retain(|name, _| name.is_empty() || is_even(name));
            assert_eq!((map.len(), map.blocks().count()), (expected.len(), expected.len()));
            for name in expected.keys().filter(|name| !name.is_empty()) {
                assert!(map.get(name).get(name).is_some());
                map.remove(name);
            }
            assert!(map.take_only().is_some_and(|block| block.is_empty()));
        }
    }
}
