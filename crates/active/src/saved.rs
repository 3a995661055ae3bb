// SPDX-License-Identifier: BSD-3-Clause
//! Serialized state of a replica, for a file and for a full copy.
//!
//! Format: magic and version; the state in the form of `stored`, cut into parts, each after its
//! length; a length of 0; a CRC-64 of the state. The state is written in pieces while the replica
//! continues, and is exactly the state at the start of the save. A state with missing or excess
//! bytes is refused.

use braid_base::crc::crc64;

use crate::replica::{Replica, State};

/// The version that is written.
pub const VERSION: u8 = 4;
/// An older version that can still be loaded: it has no marks of evicted keys.
const WITHOUT_MARKS: u8 = 3;
const MAGIC: &[u8] = b"BRAIDAAS";
/// Size of magic and version, in bytes.
const HEAD: usize = MAGIC.len() + 1;
/// Size of a length or checksum, in bytes.
const WORD: usize = 8;
/// Approximate size of a piece in bytes. One takes much less than a millisecond.
pub const PIECE: usize = 64 << 10;

/// Reasons for refusing bytes as a saved state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SavedError {
    #[error("not a saved state of active-active replication")]
    Magic,
    #[error("the state has version {0}, this server supports {VERSION}")]
    Version(u8),
    #[error("the state is truncated")]
    Short,
    #[error("{0} bytes follow the state")]
    Trailing(usize),
    #[error("the checksum is wrong")]
    Checksum,
    #[error("the state is damaged")]
    Damaged,
}

/// The next piece of a state.
#[derive(Debug)]
pub enum Piece {
    More(Vec<u8>),
    Last(Vec<u8>),
    /// The save was aborted, since everything has changed at once or another save has begun.
    /// Start again.
    Lost,
}

/// Saves a replica's state in pieces.
#[derive(Debug)]
pub struct Saver {
    number: u64,
    sum: u64,
    is_begun: bool,
}

impl Saver {
    /// Starts a save of the present state. Aborts any save or digest in progress.
    pub fn begin(replica: &mut Replica) -> Saver {
        Saver { number: replica.begin_saving(), sum: 0, is_begun: false }
    }

    /// The next piece, of about `bytes` bytes: more if a key is large, or if much has changed
    /// since the previous piece.
    pub fn piece(&mut self, replica: &mut Replica, bytes: usize) -> Piece {
        let Some((part, is_last)) = replica.take_piece(self.number, bytes.max(1)) else { return Piece::Lost };
        self.sum = crc64(self.sum, &part);
        let mut bytes = Vec::with_capacity(part.len() + HEAD + 3 * WORD);
        if !std::mem::replace(&mut self.is_begun, true) {
            bytes.extend_from_slice(MAGIC);
            bytes.push(VERSION);
        }
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
        if !is_last {
            return Piece::More(bytes);
        }
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(self.sum.to_le_bytes());
        Piece::Last(bytes)
    }
}

/// Progress of a digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digesting {
    More,
    Done(u64),
    /// Aborted, as [`Piece::Lost`]. Start again.
    Lost,
}

/// Computes a replica's digest in pieces: [`Replica::digest`] as of the start.
#[derive(Debug)]
pub struct Digester(u64);

impl Digester {
    /// Starts a digest of the present state. Aborts any save or digest in progress.
    pub fn begin(replica: &mut Replica) -> Digester {
        Digester(replica.begin_digest())
    }

    /// Digests about `bytes` more bytes.
    pub fn go_on(&self, replica: &mut Replica, bytes: usize) -> Digesting {
        match replica.take_piece(self.0, bytes.max(1)) {
            None => Digesting::Lost,
            Some((_, false)) => Digesting::More,
            Some((sum, true)) => Digesting::Done(sum.first_chunk().map_or(0, |sum| u64::from_le_bytes(*sum))),
        }
    }
}

/// Saves the whole state at once; returns its pieces.
pub fn save(replica: &mut Replica) -> Vec<Vec<u8>> {
    let mut saver = Saver::begin(replica);
    let mut pieces = Vec::new();
    loop {
        match saver.piece(replica, PIECE) {
            Piece::More(piece) => pieces.push(piece),
            Piece::Last(piece) => {
                pieces.push(piece);
                return pieces;
            }
            // Nothing changes between the pieces.
            Piece::Lost => return pieces,
        }
    }
}

/// The part of the format that is read next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Head,
    Len,
    Part(u64),
    Sum,
    Nothing,
}

/// Loads the output of [`save`].
#[derive(Debug)]
pub struct Loader {
    next: Next,
    version: u8,
    /// The incomplete field that is being read.
    buffer: Vec<u8>,
    content: Vec<u8>,
}

impl Default for Loader {
    fn default() -> Loader {
        Loader { next: Next::Head, version: VERSION, buffer: Vec::new(), content: Vec::new() }
    }
}

/// Moves bytes to `buffer` until it has `len`. Returns false if `bytes` runs out first.
fn fill(buffer: &mut Vec<u8>, len: usize, bytes: &mut &[u8]) -> bool {
    let (some, rest) = bytes.split_at(bytes.len().min(len - buffer.len()));
    buffer.extend_from_slice(some);
    *bytes = rest;
    buffer.len() == len
}

impl Loader {
    pub fn new() -> Loader {
        Loader::default()
    }

    /// A loader of a state of which all `bytes` are there.
    pub fn of_whole(bytes: &[u8]) -> Loader {
        Loader { content: Vec::with_capacity(bytes.len()), ..Loader::default() }
    }

    /// Takes the next bytes, split anywhere. Returns true once the state is complete; `bytes` is
    /// then left at the first byte after it.
    ///
    /// # Errors
    /// If the bytes are not a saved state, have another version, or do not match their checksum.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<bool, SavedError> {
        loop {
            match self.next {
                Next::Nothing => return Ok(true),
                Next::Part(0) => self.next = Next::Len,
                Next::Part(left) => {
                    let some = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if some == 0 {
                        return Ok(false);
                    }
                    self.content.extend_from_slice(&bytes[..some]);
                    *bytes = &bytes[some..];
                    self.next = Next::Part(left - some as u64);
                }
                Next::Head => {
                    let is_whole = fill(&mut self.buffer, HEAD, bytes);
                    if !self.buffer.starts_with(&MAGIC[..self.buffer.len().min(MAGIC.len())]) {
                        return Err(SavedError::Magic);
                    }
                    if !is_whole {
                        return Ok(false);
                    }
                    self.version = self.buffer[MAGIC.len()];
                    if self.version != VERSION && self.version != WITHOUT_MARKS {
                        return Err(SavedError::Version(self.version));
                    }
                    self.buffer.clear();
                    self.next = Next::Len;
                }
                Next::Len | Next::Sum => {
                    if !fill(&mut self.buffer, WORD, bytes) {
                        return Ok(false);
                    }
                    let word = self.buffer.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                    self.buffer.clear();
                    self.next = match (self.next, word) {
                        (Next::Len, 0) => Next::Sum,
                        (Next::Len, len) => Next::Part(len),
                        (_, sum) if sum == crc64(0, &self.content) => Next::Nothing,
                        _ => return Err(SavedError::Checksum),
                    };
                }
            }
        }
    }

    /// The loaded state.
    ///
    /// # Errors
    /// If the state is incomplete or damaged, or more bytes follow it.
    pub fn finish(self) -> Result<State, SavedError> {
        if !matches!(self.next, Next::Nothing) {
            return Err(SavedError::Short);
        }
        let mut left = &self.content[..];
        let state = State::load(&mut left, self.version != WITHOUT_MARKS).ok_or(SavedError::Damaged)?;
        match left.len() {
            0 => Ok(state),
            more => Err(SavedError::Trailing(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::amount::Amount;
    use crate::difference::{Difference, merge_part_with_difference};
    use crate::position::Side;
    use crate::testing::{NOW, replica};
    use crate::{Bytes, Name};

    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(content);

    /// A state with a value of each type, without its framing.
    fn content() -> Vec<u8> {
        let mut replica = replica(1);
        let name = |text: &str| -> Name { text.as_bytes().into() };
        let bytes = |text: &str| -> Bytes { text.as_bytes().into() };
        let unit = replica.execute(NOW, |transaction| {
            transaction.set(0, &name("s"), bytes("text"), Some(NOW + 5));
            assert!(transaction.increment(0, &name("n"), Amount::of_integer(-3)));
            transaction.hash_set(1, &name("h"), bytes("f"), bytes("v"), None);
            transaction.set_add(1, &name("a"), bytes("m"));
            transaction.sorted_set_add(2, &name("z"), bytes("m"), 2.5);
            transaction.list_push(0, &name("l"), Side::Left, vec![bytes("x"), bytes("y")]);
            transaction.list_insert(0, &name("l"), 1, bytes("i"));
            transaction.stream_add(0, &name("x"), None, vec![bytes("f"), bytes("v")].into());
            transaction.count(0, &name("p"), vec![(9, 51), (16_383, 7)]);
            transaction.set(0, &name("e"), bytes("1"), None);
            transaction.evict(0, &name("e"));
        });
        unit.expect("nothing is refused");
        let mut loader = Loader::new();
        assert_eq!(loader.feed(&mut &save(&mut replica).concat()[..]), Ok(true));
        loader.content
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The peer supplies the checksum, so it proves nothing. Any state that loads must merge.
        #[test]
        fn damage_does_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
            let mut bytes = CONTENT.clone();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(state) = State::load(&mut &bytes[..], true) {
                let (mut own, mut difference) = (replica(2), Difference::default());
                let _ = own.begin_merge(NOW, &state);
                while own.is_merging() {
                    merge_part_with_difference(&mut own, &state, &mut difference);
                }
                difference.requests(&own);
            }
        }
    }
}
