// SPDX-License-Identifier: BSD-3-Clause
//! The backlog: encoded units in the order in which a server applied them, its own and others',
//! from which it serves its peers. In that order nothing comes before what it depends on, so units
//! may go any way: pairs, rings, meshes.
//!
//! What was dropped, or came by a full copy, is remembered as a vector: a peer that lacks some of
//! it needs a full copy.
//!
//! Units are short, and there are many of them, so they stand one after another in pieces.

use std::collections::VecDeque;

use crate::stamp::Stamp;
use crate::vector::{Run, Vector};

/// A piece with so many bytes takes no further units.
const PIECE: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Kept {
    first: Stamp,
    /// Where its bytes end in its piece.
    end: u32,
    /// From its first stamp to its last.
    stamps: u32,
    /// The start of its run, as an index.
    start: u32,
}

/// Units that follow each other.
#[derive(Clone, Debug, Default)]
struct Piece {
    /// Of the first unit.
    position: u64,
    bytes: Vec<u8>,
    units: Vec<Kept>,
}

#[derive(Clone, Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<Piece>,
    /// Of units and what is kept beside them, without those that were dropped.
    bytes: usize,
    /// Where the runs start that units are of.
    starts: Vec<Stamp>,
    /// Everything that was applied and cannot be sent unit by unit.
    before: Vector,
    /// Units that were dropped: the position of the first that is kept.
    dropped: u64,
}

impl Piece {
    /// A unit's bytes.
    fn bytes_of(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.units[before].end as usize);
        &self.bytes[start..self.units[index].end as usize]
    }

    fn end(&self) -> u64 {
        self.position + self.units.len() as u64
    }

    /// Units from a position on.
    fn since(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], Stamp)> {
        let first = usize::try_from(position.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let units = self.units.iter().enumerate().skip(first);
        units.map(|(index, kept)| (self.position + index as u64, self.bytes_of(index), kept.first))
    }
}

impl Backlog {
    /// A backlog that begins after what has been applied so far.
    pub fn new(applied: Vector) -> Backlog {
        Backlog { before: applied, ..Backlog::default() }
    }

    /// Keeps a unit that has just been applied, so that it is the last of its run.
    pub fn push(&mut self, first: Stamp, applied: &Vector, bytes: &[u8]) {
        if let Some(run) = applied.run_of(first) {
            self.push_of(first, run, bytes);
        }
    }

    /// As [`Backlog::push`]: `run` was its run, up to and with it.
    pub fn push_of(&mut self, first: Stamp, run: Run, bytes: &[u8]) {
        let start = self.starts.iter().position(|start| *start == run.start).unwrap_or_else(|| {
            self.starts.push(run.start);
            self.starts.len() - 1
        });
        if self.pieces.back().is_none_or(|piece| piece.bytes.len() + bytes.len() > PIECE) {
            if let Some(full) = self.pieces.back_mut() {
                full.bytes.shrink_to_fit();
                full.units.shrink_to_fit();
            }
            self.pieces.push_back(Piece { position: self.end(), ..Piece::default() });
        }
        let Some(piece) = self.pieces.back_mut() else { return };
        piece.bytes.extend_from_slice(bytes);
        let stamps = run.last.position() - first.position();
        piece.units.push(Kept {
            first,
            end: piece.bytes.len() as u32,
            stamps: stamps as u32,
            start: start as u32,
        });
        self.bytes += bytes.len() + size_of::<Kept>();
    }

    /// A full copy is about to be merged into what has been applied.
    pub fn merges(&mut self, copy: &Vector, applied: &Vector) {
        for run in copy.runs() {
            if applied.run(run.start).is_none_or(|known| known.last < run.last) {
                self.before.add(*run);
            }
        }
    }

    /// Drops the oldest units until the rest takes no more than so many bytes.
    pub fn trim(&mut self, bytes_max: usize) {
        self.trim_before(u64::MAX, bytes_max);
    }

    /// The same of units before a position.
    pub fn trim_before(&mut self, position: u64, bytes_max: usize) {
        while self.bytes > bytes_max
            && self.dropped < position
            && let Some(piece) = self.pieces.front()
        {
            let index = (self.dropped - piece.position) as usize;
            let kept = piece.units[index];
            self.bytes -= piece.bytes_of(index).len() + size_of::<Kept>();
            let last = kept.first.plus(u64::from(kept.stamps));
            self.before.add(Run { start: self.starts[kept.start as usize], last });
            self.dropped += 1;
            if self.dropped == piece.end() {
                self.pieces.pop_front();
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position of the first unit that is kept.
    pub fn begin(&self) -> u64 {
        self.dropped
    }

    /// The position behind the last unit.
    pub fn end(&self) -> u64 {
        self.pieces.back().map_or(self.dropped, Piece::end)
    }

    /// When the unit of a position was made, in ms of Unix time.
    pub fn made_ms(&self, position: u64) -> Option<u64> {
        let position = position.max(self.dropped);
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.end() <= position))?;
        Some(piece.units[(position - piece.position) as usize].first.unix_ms())
    }

    /// Bytes of the units from a position on, about.
    pub fn bytes_since(&self, position: u64) -> usize {
        let (behind, all) = (self.end().saturating_sub(position), self.end() - self.dropped);
        match all {
            0 => 0,
            all => (self.bytes as u128 * u128::from(behind.min(all)) / u128::from(all)) as usize,
        }
    }

    /// As [`Backlog::since`], for a peer that has applied everything before a position: units with
    /// their positions and first stamps.
    pub fn since_position<'b>(
        &'b self,
        applied: &Vector,
        position: u64,
    ) -> Option<impl Iterator<Item = (u64, &'b [u8], Stamp)>> {
        let position = position.max(self.dropped);
        let first = self.pieces.partition_point(|piece| piece.end() <= position);
        let units = self.pieces.range(first..).flat_map(move |piece| piece.since(position));
        let lacking = units.filter(|(.., first)| !applied.covers(*first));
        applied.includes(&self.before).then_some(lacking)
    }

    /// The units that a peer lacks that has applied so much, or nothing if it needs a full copy.
    pub fn since<'b>(&'b self, applied: &Vector) -> Option<impl Iterator<Item = &'b [u8]>> {
        Some(self.since_position(applied, 0)?.map(|(_, bytes, _)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;

    /// Units come back whole and in order, wherever pieces end, and what was dropped is known.
    #[test]
    fn units_stand_in_pieces() {
        let region = Region::new(3).unwrap();
        let stamp = |position| Stamp::of(region, position).unwrap();
        let start = stamp(0);
        let applied_to = |position| {
            let mut applied = Vector::default();
            applied.add(Run { start, last: stamp(position) });
            applied
        };
        let mut backlog = Backlog::default();
        let unit = |number: u64| vec![number as u8; 1 + (number as usize * 37) % 5_000];
        for number in 0..1_000 {
            let (first, last) = (stamp(1 + 2 * number), stamp(2 + 2 * number));
            backlog.push_of(first, Run { start, last }, &unit(number));
        }
        assert!(backlog.pieces.len() > 10);
        let check = |backlog: &Backlog, from: u64| {
            let lacking = applied_to(2 * from);
            for position in [0, from] {
                let units = backlog.since_position(&lacking, position).expect("no copy");
                let expected = (from..1_000).map(|number| (number, unit(number), stamp(1 + 2 * number)));
                assert!(units.map(|(at, bytes, region)| (at, bytes.to_vec(), region)).eq(expected));
            }
        };
        check(&backlog, 0);
        check(&backlog, 321);
        let all = backlog.bytes();
        assert_eq!((backlog.bytes_since(0), backlog.bytes_since(1_000)), (all, 0));
        backlog.trim_before(3, 0);
        assert_eq!(backlog.begin(), 3);
        backlog.trim(all / 2);
        assert!(backlog.bytes() <= all / 2 && backlog.end() == 1_000);
        let dropped = backlog.dropped;
        assert!(dropped > 0 && backlog.since(&applied_to(2 * dropped - 2)).is_none());
        check(&backlog, dropped);
        check(&backlog, 900);
        backlog.trim(0);
        assert_eq!((backlog.bytes(), backlog.end(), backlog.pieces.len()), (0, 1_000, 0));
        backlog.push_of(stamp(2_001), Run { start, last: stamp(2_001) }, b"more");
        assert_eq!(backlog.since(&applied_to(2_000)).expect("no copy").next(), Some(&b"more"[..]));
    }
}
