// SPDX-License-Identifier: BSD-3-Clause
//! The documents of a word or tag, in blocks that are mended in place.
//!
//! A few bytes are in the map of postings itself: most words are rare. More are in blocks.
//!
//! A block has up to 128 documents in ascending order: each as the difference to the one before it
//! (the first as it is), then what is known about it. A change rewrites one block. Blocks that
//! become large are divided, neighbours that become small are joined, an empty one is freed: there
//! is nothing to clean up later.
//!
//! About a document of a tag nothing is known. About one of a word: how often it occurs, weighted;
//! in which fields; and where. Most words occur once, in the first text field, which takes one
//! integer.

use std::marker::PhantomData;

use braid_base::relocation::Mover;

use super::varint;

type DocId = u32;

const DOCS_MAX: usize = 128;
const BYTES_MAX: usize = 1024;
/// Neighbours with no more than so many are joined.
const DOCS_JOINED: usize = 48;

/// What follows a document in a block.
pub trait Payload {
    /// Its length at the beginning of these bytes.
    fn len(bytes: &[u8]) -> usize;
}

/// Of tags.
#[derive(Debug)]
pub struct Nothing;

impl Payload for Nothing {
    #[inline]
    fn len(_: &[u8]) -> usize {
        0
    }
}

/// Of words: see [`push_hit`].
#[derive(Debug)]
pub struct Places;

impl Payload for Places {
    #[inline]
    fn len(bytes: &[u8]) -> usize {
        let first = bytes.first().copied().unwrap_or(0);
        // One occurrence, near the beginning.
        if first & 0x81 == 0 {
            return bytes.len().min(1);
        }
        let head = varint::len(bytes);
        if first & 1 == 0 {
            return head;
        }
        let fields = head + varint::len(&bytes[head..]);
        let mut rest = &bytes[fields..];
        let positions = varint::take(&mut rest) as usize;
        bytes.len() - rest.get(positions..).unwrap_or_default().len()
    }
}

/// Writes how often a word occurs, in which fields, and at which ascending positions.
pub fn push_hit(out: &mut Vec<u8>, frequency: u32, fields: u128, positions: &[u32]) {
    if frequency == 1 && fields == 1 && positions.len() == 1 {
        varint::push(out, u128::from(positions[0]) << 1);
        return;
    }
    varint::push(out, u128::from(frequency) << 1 | 1);
    varint::push(out, fields);
    let mut bytes = Vec::with_capacity(positions.len() + 8);
    let mut last = 0;
    for position in positions {
        varint::push(&mut bytes, u128::from(position - last));
        last = *position;
    }
    varint::push(out, bytes.len() as u128);
    out.extend_from_slice(&bytes);
}

/// What is known about a word in a document.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    pub frequency: u32,
    pub fields: u128,
    single: Option<u32>,
    positions: &'a [u8],
}

impl<'a> Hit<'a> {
    fn read(mut bytes: &'a [u8]) -> Hit<'a> {
        let head = varint::take_wide(&mut bytes);
        if head & 1 == 0 {
            return Hit { frequency: 1, fields: 1, single: Some((head >> 1) as u32), positions: &[] };
        }
        let fields = varint::take_wide(&mut bytes);
        let len = varint::take(&mut bytes) as usize;
        Hit {
            frequency: (head >> 1) as u32,
            fields,
            single: None,
            positions: bytes.get(..len).unwrap_or_default(),
        }
    }

    /// Where the word is, ascending.
    pub fn positions(&self) -> impl Iterator<Item = u32> + use<'a> {
        let mut rest = self.positions;
        let mut last = 0;
        let several = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            last += varint::take(&mut rest);
            Some(last)
        });
        self.single.into_iter().chain(several)
    }
}

#[derive(Debug, Default)]
struct Block {
    last: DocId,
    docs: u16,
    bytes: Box<[u8]>,
}

impl Block {
    fn is_full(&self) -> bool {
        usize::from(self.docs) >= DOCS_MAX || self.bytes.len() >= BYTES_MAX
    }
}

#[derive(Debug)]
enum Blocks {
    One(Block),
    Many(Vec<Block>),
}

/// Postings that are not in blocks have no more bytes than this.
const INLINE_MAX: usize = 14;

#[derive(Debug)]
enum Storage {
    /// What would be a block's bytes.
    Inline(u8, [u8; INLINE_MAX]),
    Heap(Box<Blocks>),
}

/// Postings.
#[derive(Debug)]
pub struct Postings<P>(Storage, PhantomData<P>);

impl<P: Payload> Postings<P> {
    /// Of one document.
    pub fn new(doc: DocId, payload: &[u8]) -> Postings<P> {
        Postings(Storage::of(Blocks::One(block_of(doc, payload))), PhantomData)
    }

    /// Changes the blocks that there are, or would be.
    fn change<R>(&mut self, change: impl FnOnce(&mut Chain<P>) -> R) -> R {
        match &mut self.0 {
            Storage::Heap(blocks) => {
                let mut chain =
                    Chain(std::mem::replace(&mut **blocks, Blocks::One(Block::default())), PhantomData);
                let result = change(&mut chain);
                match &chain.0 {
                    Blocks::One(block) if block.bytes.len() <= INLINE_MAX => self.0 = Storage::of(chain.0),
                    _ => **blocks = chain.0,
                }
                result
            }
            Storage::Inline(len, bytes) => {
                let mut chain = Chain(Blocks::One(block_from::<P>(&bytes[..usize::from(*len)])), PhantomData);
                let result = change(&mut chain);
                self.0 = Storage::of(chain.0);
                result
            }
        }
    }

    /// Adds a document, or replaces what is known about it.
    pub fn put(&mut self, doc: DocId, payload: &[u8]) {
        self.change(|chain: &mut Chain<P>| chain.put(doc, payload));
    }

    /// Removes a document; true if none is left. Empty postings are to be dropped.
    pub fn remove(&mut self, doc: DocId) -> bool {
        self.change(|chain: &mut Chain<P>| chain.remove(doc))
    }

    fn blocks(&self) -> &[Block] {
        match &self.0 {
            Storage::Inline(..) => &[],
            Storage::Heap(blocks) => blocks.all(),
        }
    }

    /// What is known about a document.
    pub fn get(&self, doc: DocId) -> Option<&[u8]> {
        let bytes = match &self.0 {
            Storage::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Storage::Heap(blocks) => {
                let blocks = blocks.all();
                &blocks.get(blocks.partition_point(|block| block.last < doc))?.bytes
            }
        };
        let spot = find::<P>(bytes, doc);
        (spot.doc == Some(doc)).then(|| &bytes[spot.payload..spot.end])
    }

    pub fn reader(&self) -> Reader<'_, P> {
        let rest = match &self.0 {
            Storage::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Storage::Heap(_) => &[],
        };
        Reader { blocks: self.blocks(), rest, doc: 0, payload: &[], started: false, marker: PhantomData }
    }

    pub fn docs(&self) -> usize {
        match &self.0 {
            Storage::Inline(len, bytes) => usize::from(block_from::<P>(&bytes[..usize::from(*len)]).docs),
            Storage::Heap(blocks) => blocks.all().iter().map(|block| usize::from(block.docs)).sum(),
        }
    }

    /// Moves the blocks to better places.
    pub fn relocate(&mut self, mover: &mut Mover) {
        let Storage::Heap(blocks) = &mut self.0 else { return };
        mover.relocate_box(blocks);
        match &mut **blocks {
            Blocks::One(block) => mover.relocate_slice(&mut block.bytes),
            Blocks::Many(blocks) => {
                mover.relocate_vec(blocks);
                blocks.iter_mut().for_each(|block| mover.relocate_slice(&mut block.bytes));
            }
        }
    }

    /// Beyond the postings' own size.
    pub fn heap_bytes(&self) -> usize {
        let Storage::Heap(blocks) = &self.0 else { return 0 };
        let several = match &**blocks {
            Blocks::One(_) => 0,
            Blocks::Many(blocks) => blocks.capacity() * size_of::<Block>(),
        };
        size_of::<Blocks>() + several + blocks.all().iter().map(|block| block.bytes.len()).sum::<usize>()
    }
}

impl Storage {
    fn of(blocks: Blocks) -> Storage {
        match &blocks {
            Blocks::One(block) if block.bytes.len() <= INLINE_MAX => {
                let mut bytes = [0; INLINE_MAX];
                bytes[..block.bytes.len()].copy_from_slice(&block.bytes);
                Storage::Inline(block.bytes.len() as u8, bytes)
            }
            _ => Storage::Heap(Box::new(blocks)),
        }
    }
}

impl Blocks {
    fn all(&self) -> &[Block] {
        match self {
            Blocks::One(block) => std::slice::from_ref(block),
            Blocks::Many(blocks) => blocks,
        }
    }
}

/// Blocks while they are changed. There is one at least.
struct Chain<P>(Blocks, PhantomData<P>);

/// Where a document is in a block, or would be.
struct Spot {
    /// The offsets of its entry, of its payload, and of what follows.
    start: usize,
    payload: usize,
    end: usize,
    /// The document before.
    before: DocId,
    /// The document there, if there is one.
    doc: Option<DocId>,
}

impl<P: Payload> Chain<P> {
    fn blocks(&self) -> &[Block] {
        self.0.all()
    }

    fn blocks_mut(&mut self) -> &mut Vec<Block> {
        if let Blocks::One(block) = &mut self.0 {
            self.0 = Blocks::Many(vec![std::mem::take(block)]);
        }
        match &mut self.0 {
            Blocks::Many(blocks) => blocks,
            Blocks::One(_) => unreachable!("it was changed above"),
        }
    }

    fn block_mut(&mut self, at: usize) -> &mut Block {
        match &mut self.0 {
            Blocks::One(block) => block,
            Blocks::Many(blocks) => &mut blocks[at],
        }
    }

    /// The block that has the document, or would have it.
    fn block_of(&self, doc: DocId) -> usize {
        self.blocks().partition_point(|block| block.last < doc)
    }

    fn put(&mut self, doc: DocId, payload: &[u8]) {
        let at = self.block_of(doc);
        if at == self.blocks().len() {
            let last = &self.blocks()[at - 1];
            if last.is_full() {
                self.blocks_mut().push(block_of(doc, payload));
                return;
            }
            let mut entry = Vec::with_capacity(payload.len() + 5);
            varint::push(&mut entry, u128::from(doc - last.last));
            entry.extend_from_slice(payload);
            let block = self.block_mut(at - 1);
            let end = block.bytes.len();
            splice(&mut block.bytes, end, end, &entry);
            block.last = doc;
            block.docs += 1;
            return;
        }
        let block = self.block_mut(at);
        let spot = find::<P>(&block.bytes, doc);
        let mut entry = Vec::with_capacity(payload.len() + 10);
        if spot.doc == Some(doc) {
            splice(&mut block.bytes, spot.payload, spot.end, payload);
            return;
        }
        varint::push(&mut entry, u128::from(doc - spot.before));
        entry.extend_from_slice(payload);
        if let Some(next) = spot.doc {
            varint::push(&mut entry, u128::from(next - doc));
        }
        splice(&mut block.bytes, spot.start, spot.payload, &entry);
        block.docs += 1;
        if usize::from(block.docs) > DOCS_MAX || (block.bytes.len() > 2 * BYTES_MAX && block.docs > 1) {
            let upper = divide::<P>(block);
            self.blocks_mut().insert(at + 1, upper);
        }
    }

    /// True if none is left.
    fn remove(&mut self, doc: DocId) -> bool {
        let at = self.block_of(doc);
        if at == self.blocks().len() {
            return false;
        }
        let block = self.block_mut(at);
        let spot = find::<P>(&block.bytes, doc);
        if spot.doc != Some(doc) {
            return false;
        }
        let mut rest = &block.bytes[spot.end..];
        let mut entry = Vec::new();
        let mut end = spot.end;
        if rest.is_empty() {
            block.last = spot.before;
        } else {
            let next = doc + varint::take(&mut rest);
            varint::push(&mut entry, u128::from(next - spot.before));
            end = block.bytes.len() - rest.len();
        }
        splice(&mut block.bytes, spot.start, end, &entry);
        block.docs -= 1;
        match &mut self.0 {
            Blocks::One(block) => block.docs == 0,
            Blocks::Many(blocks) => {
                if blocks[at].docs == 0 {
                    blocks.remove(at);
                }
                join(blocks, at.saturating_sub(1));
                join(blocks, at);
                if blocks.len() == 1 {
                    let last = blocks.remove(0);
                    self.0 = Blocks::One(last);
                    return false;
                }
                blocks.is_empty()
            }
        }
    }
}

/// A block of these bytes.
fn block_from<P: Payload>(bytes: &[u8]) -> Block {
    let (mut last, mut docs, mut rest) = (0, 0, bytes);
    while !rest.is_empty() {
        last += varint::take(&mut rest);
        rest = &rest[P::len(rest)..];
        docs += 1;
    }
    Block { last, docs, bytes: bytes.into() }
}

fn block_of(doc: DocId, payload: &[u8]) -> Block {
    let mut bytes = Vec::with_capacity(payload.len() + 5);
    varint::push(&mut bytes, u128::from(doc));
    bytes.extend_from_slice(payload);
    Block { last: doc, docs: 1, bytes: bytes.into() }
}

/// Replaces a range of bytes, without room to spare afterwards.
fn splice(bytes: &mut Box<[u8]>, start: usize, end: usize, with: &[u8]) {
    let mut owned = std::mem::take(bytes).into_vec();
    let tail = owned.len() - end;
    let len = start + with.len() + tail;
    if len > owned.len() {
        owned.reserve_exact(len - owned.len());
        let old = owned.len();
        owned.resize(len, 0);
        owned.copy_within(end..old, start + with.len());
    } else {
        owned.copy_within(end.., start + with.len());
        owned.truncate(len);
    }
    owned[start..start + with.len()].copy_from_slice(with);
    *bytes = owned.into_boxed_slice();
}

/// The first document of a block that is not before the one wanted.
fn find<P: Payload>(bytes: &[u8], wanted: DocId) -> Spot {
    let mut at = 0;
    let mut before = 0;
    while at < bytes.len() {
        let mut rest = &bytes[at..];
        let doc = before + varint::take(&mut rest);
        let payload = bytes.len() - rest.len();
        let end = payload + P::len(rest);
        if doc >= wanted {
            return Spot { start: at, payload, end, before, doc: Some(doc) };
        }
        before = doc;
        at = end;
    }
    Spot { start: at, payload: at, end: at, before, doc: None }
}

/// Cuts a block in two and returns the upper one.
fn divide<P: Payload>(block: &mut Block) -> Block {
    let half = block.docs / 2;
    let mut at = 0;
    let mut doc = 0;
    for _ in 0..half {
        let mut rest = &block.bytes[at..];
        doc += varint::take(&mut rest);
        at = block.bytes.len() - rest.len() + P::len(rest);
    }
    let mut rest = &block.bytes[at..];
    let first = doc + varint::take(&mut rest);
    let mut upper = Vec::with_capacity(rest.len() + 5);
    varint::push(&mut upper, u128::from(first));
    upper.extend_from_slice(rest);
    let upper = Block { last: block.last, docs: block.docs - half, bytes: upper.into() };
    let lower = block.bytes[..at].into();
    *block = Block { last: doc, docs: half, bytes: lower };
    upper
}

/// Joins a block with the next one if both are small.
fn join(blocks: &mut Vec<Block>, at: usize) {
    let Some([first, second]) = blocks.get(at..at + 2) else { return };
    let docs = first.docs + second.docs;
    if usize::from(docs) > DOCS_JOINED || first.bytes.len() + second.bytes.len() > BYTES_MAX {
        return;
    }
    let mut rest = &second.bytes[..];
    let doc = varint::take(&mut rest);
    let mut bytes = Vec::with_capacity(first.bytes.len() + second.bytes.len());
    bytes.extend_from_slice(&first.bytes);
    varint::push(&mut bytes, u128::from(doc - first.last));
    bytes.extend_from_slice(rest);
    blocks[at] = Block { last: second.last, docs, bytes: bytes.into() };
    blocks.remove(at + 1);
}

/// Reads the documents in order, and skips blocks.
#[derive(Debug)]
pub struct Reader<'a, P> {
    /// The block being read, and those after it; none if the documents are not in blocks.
    blocks: &'a [Block],
    rest: &'a [u8],
    doc: DocId,
    payload: &'a [u8],
    started: bool,
    marker: PhantomData<P>,
}

pub type WordReader<'a> = Reader<'a, Places>;
pub type TagReader<'a> = Reader<'a, Nothing>;

impl<'a, P: Payload> Reader<'a, P> {
    /// The first document from the wanted one on. Calls must ask for ascending documents.
    #[inline]
    pub fn seek(&mut self, wanted: DocId) -> Option<DocId> {
        if self.blocks.first().is_some_and(|block| !self.started || block.last < wanted) {
            let skipped = self.blocks.partition_point(|block| block.last < wanted);
            self.blocks = &self.blocks[skipped..];
            let Some(block) = self.blocks.first() else {
                self.rest = &[];
                return None;
            };
            self.rest = &block.bytes;
            self.doc = 0;
            self.advance()?;
        } else if !self.started {
            self.advance()?;
        }
        self.started = true;
        while self.doc < wanted {
            self.advance()?;
        }
        Some(self.doc)
    }

    /// About how many documents the blocks have that are not skipped yet.
    pub fn docs_left(&self) -> usize {
        let in_blocks: usize = self.blocks.iter().map(|block| usize::from(block.docs)).sum();
        if in_blocks == 0 { INLINE_MAX / 2 } else { in_blocks }
    }

    #[inline]
    fn advance(&mut self) -> Option<()> {
        if self.rest.is_empty() {
            return None;
        }
        self.doc += varint::take(&mut self.rest);
        let (payload, rest) = self.rest.split_at(P::len(self.rest));
        (self.payload, self.rest) = (payload, rest);
        Some(())
    }
}

impl<'a> WordReader<'a> {
    /// What is known about the document found last.
    pub fn hit(&self) -> Hit<'a> {
        Hit::read(self.payload)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn hit(frequency: u32, fields: u128, positions: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_hit(&mut bytes, frequency, fields, positions);
        bytes
    }

    #[test]
    fn a_hit_is_read_as_it_was_written() {
        for (frequency, fields, positions) in
            [(1, 1, vec![7]), (1, 2, vec![0]), (5, 1 << 100 | 1, vec![3, 4, 400]), (2, 1, vec![])]
        {
            let mut bytes = hit(frequency, fields, &positions);
            assert_eq!(Places::len(&bytes), bytes.len());
            bytes.push(9);
            assert_eq!(Places::len(&bytes), bytes.len() - 1);
            let read = Hit::read(&bytes);
            assert_eq!((read.frequency, read.fields), (frequency, fields));
            assert_eq!(read.positions().collect::<Vec<_>>(), positions);
        }
        assert_eq!(hit(1, 1, &[7]).len(), 1);
    }

    fn check<P: Payload>(postings: &Option<Postings<P>>, model: &BTreeMap<u32, Vec<u8>>) {
        let Some(postings) = postings else {
            assert!(model.is_empty());
            return;
        };
        let mut reader = postings.reader();
        for (doc, payload) in model {
            assert_eq!(reader.seek(*doc), Some(*doc));
            assert_eq!(reader.payload, payload);
            assert_eq!(postings.get(*doc), Some(&payload[..]));
        }
        assert_eq!(reader.seek(u32::MAX), None);
        assert_eq!(postings.docs(), model.len());
        for block in postings.blocks() {
            assert!(block.docs > 0 && usize::from(block.docs) <= DOCS_MAX);
        }
    }

    proptest! {
        #[test]
        fn postings_behave_as_a_map(
            changes in proptest::collection::vec((0u8..3, 0u32..1200, 1usize..4), 0..3000),
            seeks in proptest::collection::vec(0u32..60, 0..100),
        ) {
            let mut postings: Option<Postings<Places>> = None;
            let mut tags: Option<Postings<Nothing>> = None;
            let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
            for (what, doc, places) in changes {
                if what > 0 {
                    let positions: Vec<u32> = (0..places as u32).map(|at| doc % 7 + at * 50).collect();
                    let payload = hit(places as u32, 1, &positions);
                    match &mut postings {
                        Some(postings) => postings.put(doc, &payload),
                        None => postings = Some(Postings::new(doc, &payload)),
                    }
                    match &mut tags {
                        Some(tags) => tags.put(doc, &[]),
                        None => tags = Some(Postings::new(doc, &[])),
                    }
                    model.insert(doc, payload);
                } else {
                    model.remove(&doc);
                    if postings.as_mut().is_some_and(|postings| postings.remove(doc)) {
                        postings = None;
                    }
                    if tags.as_mut().is_some_and(|tags| tags.remove(doc)) {
                        tags = None;
                    }
                }
            }
            check(&postings, &model);
            check(&tags, &model.keys().map(|doc| (*doc, Vec::new())).collect());
            if let Some(tags) = &tags {
                let mut reader = tags.reader();
                let mut wanted = 0;
                for step in seeks {
                    wanted += step;
                    prop_assert_eq!(reader.seek(wanted), model.range(wanted..).next().map(|(doc, _)| *doc));
                }
            }
        }
    }

    #[test]
    fn a_change_leaves_the_other_blocks_alone() {
        let mut postings: Postings<Nothing> = Postings::new(0, &[]);
        (1..10_000).for_each(|doc| postings.put(doc * 2, &[]));
        let before: Vec<*const u8> = postings.blocks().iter().map(|block| block.bytes.as_ptr()).collect();
        postings.put(5001, &[]);
        let after: Vec<*const u8> = postings.blocks().iter().map(|block| block.bytes.as_ptr()).collect();
        let same = before.iter().filter(|block| after.contains(block)).count();
        assert!(same >= before.len() - 1);
    }
}
