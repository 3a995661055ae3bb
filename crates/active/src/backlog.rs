// SPDX-License-Identifier: BSD-3-Clause
//! The backlog: encoded units, local and remote, in the order in which this server applied them.
//! Peers are served from it. In that order no unit precedes its dependencies, so any topology
//! works: pairs, rings, meshes.
//!
//! Units that were dropped, or arrived in a full copy, are remembered as a vector: a peer that
//! lacks any of them needs a full copy.
//!
//! Units are short and numerous, so they are stored contiguously in pieces.

use std::collections::VecDeque;

use crate::stamp::Stamp;
use crate::vector::{Run, Vector};

/// Size in bytes from which a piece takes no further units.
const PIECE: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Kept {
    first: Stamp,
    /// The end of its bytes in the piece.
    end: u32,
    /// The distance from its first stamp to its last.
    stamps: u32,
    /// The index of its run's start in `starts`.
    start: u32,
}

/// Consecutive units.
#[derive(Clone, Debug, Default)]
struct Piece {
    /// The position of the first unit.
    position: u64,
    bytes: Vec<u8>,
    units: Vec<Kept>,
}

#[derive(Clone, Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<Piece>,
    /// Bytes of the kept units and their entries.
    bytes: usize,
    /// The starts of the runs that the units belong to.
    starts: Vec<Stamp>,
    /// Every applied effect that cannot be sent unit by unit.
    before: Vector,
    /// The number of dropped units: the position of the first kept unit.
    dropped: u64,
    /// A dropped piece, whose memory the next one uses: fresh memory costs page faults.
    spare: Piece,
}

impl Piece {
    /// The bytes of a unit.
    fn bytes_of(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.units[before].end as usize);
        &self.bytes[start..self.units[index].end as usize]
    }

    fn end(&self) -> u64 {
        self.position + self.units.len() as u64
    }

    /// The units from a position on: position, bytes, first stamp.
    fn since(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], Stamp)> {
        let first = usize::try_from(position.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let units = self.units.iter().enumerate().skip(first);
        units.map(|(index, kept)| (self.position + index as u64, self.bytes_of(index), kept.first))
    }
}

/// Gives back memory if much of it is unused.
fn shrink<T>(all: &mut Vec<T>) {
    if all.capacity() > all.len() + all.len() / 4 {
        all.shrink_to_fit();
    }
}

impl Backlog {
    /// Creates a backlog that begins after everything applied so far.
    pub fn new(applied: Vector) -> Backlog {
        Backlog { before: applied, ..Backlog::default() }
    }

    /// Appends a unit that has just been applied, and so is the last of its run.
    pub fn push(&mut self, first: Stamp, applied: &Vector, bytes: &[u8]) {
        if let Some(run) = applied.run_of(first) {
            self.push_of(first, run, bytes);
        }
    }

    /// [`Backlog::push`] for a known run: `run` extends up to and including the unit.
    pub fn push_of(&mut self, first: Stamp, run: Run, bytes: &[u8]) {
        let start = self.starts.iter().position(|start| *start == run.start).unwrap_or_else(|| {
            self.starts.push(run.start);
            self.starts.len() - 1
        });
        if self.pieces.back().is_none_or(|piece| piece.bytes.len() + bytes.len() > PIECE) {
            if let Some(full) = self.pieces.back_mut() {
                shrink(&mut full.bytes);
                shrink(&mut full.units);
            }
            let mut piece = Piece { position: self.end(), ..std::mem::take(&mut self.spare) };
            piece.bytes.clear();
            piece.bytes.reserve_exact(PIECE);
            piece.units.clear();
            self.pieces.push_back(piece);
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

    /// Records that a full copy is about to be merged.
    pub fn merges(&mut self, copy: &Vector, applied: &Vector) {
        for run in copy.runs() {
            if applied.run(run.start).is_none_or(|known| known.last < run.last) {
                self.before.add(*run);
            }
        }
    }

    /// Drops the oldest units until the rest takes at most `bytes_max` bytes.
    pub fn trim(&mut self, bytes_max: usize) {
        self.trim_before(u64::MAX, bytes_max);
    }

    /// [`Backlog::trim`], but drops only units before a position.
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
            if self.dropped == piece.end()
                && let Some(piece) = self.pieces.pop_front()
                && piece.bytes.capacity() <= PIECE
            {
                self.spare = piece;
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position of the first kept unit.
    pub fn begin(&self) -> u64 {
        self.dropped
    }

    /// The position after the last unit.
    pub fn end(&self) -> u64 {
        self.pieces.back().map_or(self.dropped, Piece::end)
    }

    /// The time at which the unit at a position was made, in ms of Unix time.
    pub fn made_ms(&self, position: u64) -> Option<u64> {
        let position = position.max(self.dropped);
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.end() <= position))?;
        Some(piece.units[(position - piece.position) as usize].first.unix_ms())
    }

    /// The approximate size in bytes of the units from a position on.
    pub fn bytes_since(&self, position: u64) -> usize {
        let (behind, all) = (self.end().saturating_sub(position), self.end() - self.dropped);
        match all {
            0 => 0,
            all => (self.bytes as u128 * u128::from(behind.min(all)) / u128::from(all)) as usize,
        }
    }

    /// [`Backlog::since`] for a peer that has applied everything before a position: the units
    /// with their positions and first stamps.
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

    /// The units missing from a peer that has applied `applied`; `None` if it needs a full copy.
    pub fn since<'b>(&'b self, applied: &Vector) -> Option<impl Iterator<Item = &'b [u8]>> {
        Some(self.since_position(applied, 0)?.map(|(_, bytes, _)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;

    /// Units come back whole and in order across piece boundaries, and dropped units are known.
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
                let units = backlog.since_position(&lacking, position).expect("no full copy is needed");
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
        assert_eq!(
            backlog.since(&applied_to(2_000)).expect("no full copy is needed").next(),
            Some(&b"more"[..])
        );
    }
}
