// SPDX-License-Identifier: BSD-3-Clause
//! Counters that take as few bytes as they need: blocks of cells, each block as wide as its largest
//! count needs, and absent as long as all its cells are 0.
//!
//! Blocks are shared with a snapshot until they change (`braid_containers::cow`), so adding to a
//! cell copies at most one block. A block's word is the width of its cells in bytes: 1, 2, 4 or 8.

use braid_base::relocation::Mover;
use braid_containers::thin_block::ThinBlock;

/// Cells of a block: with its header, a block of any width fills one of the allocator's classes.
const BLOCK: usize = 504;

/// Counters, all 0 at first.
pub struct Cells {
    len: usize,
    blocks: Vec<Option<ThinBlock>>,
}

fn width_for(count: u64) -> usize {
    match count {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

#[inline(always)]
fn read(block: &ThinBlock, at: usize) -> u64 {
    let bytes = block.bytes();
    match block.word() {
        1 => u64::from(bytes[at]),
        2 => u64::from(u16::from_le_bytes(bytes[at * 2..at * 2 + 2].try_into().expect("two bytes"))),
        4 => u64::from(u32::from_le_bytes(bytes[at * 4..at * 4 + 4].try_into().expect("four bytes"))),
        _ => u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes")),
    }
}

/// False if the block is too narrow for the count.
#[inline(always)]
fn write(block: &mut ThinBlock, at: usize, count: u64) -> bool {
    // Copies of a length known beforehand: others are calls.
    let (width, count) = (block.word(), count.to_le_bytes());
    let word = u64::from_le_bytes(count);
    match width {
        1 if word <= 0xff => block.bytes_mut()[at] = count[0],
        2 if word <= 0xffff => block.bytes_mut()[at * 2..at * 2 + 2].copy_from_slice(&count[..2]),
        4 if word <= 0xffff_ffff => block.bytes_mut()[at * 4..at * 4 + 4].copy_from_slice(&count[..4]),
        8 => block.bytes_mut()[at * 8..at * 8 + 8].copy_from_slice(&count),
        _ => return false,
    }
    true
}

impl Cells {
    pub fn new(len: usize) -> Cells {
        Cells { len, blocks: (0..len.div_ceil(BLOCK)).map(|_| None).collect() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn get(&self, at: usize) -> u64 {
        self.blocks[at / BLOCK].as_ref().map_or(0, |block| read(block, at % BLOCK))
    }

    #[inline(always)]
    pub fn set(&mut self, at: usize, count: u64) {
        let (index, at) = (at / BLOCK, at % BLOCK);
        if let Some(block) = &mut self.blocks[index]
            && write(block, at, count)
        {
            return;
        }
        self.set_wider(index, at, count);
    }

    #[cold]
    fn set_wider(&mut self, index: usize, at: usize, count: u64) {
        if count > 0 {
            self.widen(index, width_for(count));
            write(self.blocks[index].as_mut().expect("just made"), at, count);
        }
    }

    #[cold]
    fn widen(&mut self, index: usize, width: usize) {
        let cells = BLOCK.min(self.len - index * BLOCK);
        let mut wide = ThinBlock::zeroed(cells * width);
        wide.set_word(width as u32);
        if let Some(block) = &self.blocks[index] {
            (0..cells).for_each(|at| _ = write(&mut wide, at, read(block, at)));
        }
        self.blocks[index] = Some(wide);
    }

    /// All cells as little-endian numbers of `width` bytes, in pieces; counts must fit.
    pub fn pieces(&self, width: usize) -> impl Iterator<Item = Vec<u8>> {
        self.blocks.iter().enumerate().map(move |(index, block)| {
            let cells = BLOCK.min(self.len - index * BLOCK);
            let mut piece = vec![0; cells * width];
            if let Some(block) = block {
                for (at, cell) in piece.chunks_exact_mut(width).enumerate() {
                    cell.copy_from_slice(&read(block, at).to_le_bytes()[..width]);
                }
            }
            piece
        })
    }

    /// Cells from little-endian numbers of `width` bytes, at most 8.
    pub fn from_bytes(bytes: &[u8], width: usize) -> Cells {
        let mut cells = Cells::new(bytes.len() / width);
        for (block, piece) in bytes.chunks(BLOCK * width).enumerate() {
            let number = |cell: &[u8]| {
                let mut word = [0; 8];
                word[..width].copy_from_slice(cell);
                u64::from_le_bytes(word)
            };
            // The largest first: the block is made once.
            let largest = piece.chunks_exact(width).map(number).max().unwrap_or(0);
            if largest > 0 {
                cells.widen(block, width_for(largest));
                let made = cells.blocks[block].as_mut().expect("just made");
                piece
                    .chunks_exact(width)
                    .enumerate()
                    .for_each(|(at, cell)| _ = write(made, at, number(cell)));
            }
        }
        cells
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        let class = braid_base::alloc::size_class;
        let blocks = self.blocks.iter().flatten().map(|block| class(block.allocation_bytes()));
        blocks.sum::<usize>() + class(self.blocks.capacity() * size_of::<Option<ThinBlock>>())
    }

    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// A second owner of the same cells, sharing the blocks until either side changes them.
    pub fn cow(&self) -> Cells {
        let blocks = self.blocks.iter().map(|block| block.as_ref().map(ThinBlock::cow)).collect();
        Cells { len: self.len, blocks }
    }

    /// See `Collection::relocate_blocks`; positions are numbers of blocks.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        for at in from as usize..self.blocks.len() {
            if mover.is_over() {
                return Some(at as u64);
            }
            if let Some(block) = &mut self.blocks[at] {
                block.relocate(mover);
            }
        }
        None
    }
}

impl Clone for Cells {
    fn clone(&self) -> Cells {
        Cells { len: self.len, blocks: self.blocks.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn cells_are_those_of_a_plain_array(
            len in 1usize..9000,
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0u32..64, any::<u64>()), 0..60),
        ) {
            let (mut cells, mut plain) = (Cells::new(len), vec![0u64; len]);
            let mut shared = None;
            for (step, (at, shift, count)) in steps.into_iter().enumerate() {
                let at = at.index(len);
                cells.set(at, count >> shift);
                plain[at] = count >> shift;
                if step == 20 {
                    shared = Some((cells.cow(), plain.clone()));
                }
            }
            prop_assert!((0..len).all(|at| cells.get(at) == plain[at]));
            if let Some((shared, plain)) = shared {
                prop_assert!((0..len).all(|at| shared.get(at) == plain[at]));
            }
            let bytes: Vec<u8> = cells.pieces(8).flatten().collect();
            let copy = Cells::from_bytes(&bytes, 8);
            prop_assert!((0..len).all(|at| copy.get(at) == plain[at]));
        }
    }
}
