// SPDX-License-Identifier: BSD-3-Clause
//! A replica's state as bytes, for a file and for a full copy.
//!
//! A mark and a version, the length and a checksum, then every structure in the form of `stored`.
//! What does not fill the bytes exactly is refused.

use braid_base::crc::crc64;

use crate::replica::{Replica, State};
use crate::stored::Stored;

/// The version that is written and read.
pub const VERSION: u8 = 1;
const MAGIC: &[u8] = b"BRAIDAAS";
/// Mark, version, length, checksum.
const HEAD: usize = MAGIC.len() + 1 + 8 + 8;
/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// Why bytes are no saved state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SavedError {
    #[error("this is no state of active-active replication")]
    Magic,
    #[error("the state has version {0}, this server knows {VERSION}")]
    Version(u8),
    #[error("the state ends too early")]
    Short,
    #[error("{0} bytes follow the state")]
    Trailing(usize),
    #[error("the checksum is wrong")]
    Checksum,
    #[error("the state is damaged")]
    Damaged,
}

/// The bytes.
pub fn save_whole(replica: &Replica) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    bytes.resize(HEAD, 0);
    replica.state().store(&mut bytes);
    let (head, content) = bytes.split_at_mut(HEAD);
    let (len, sum) = head[MAGIC.len() + 1..].split_at_mut(8);
    len.copy_from_slice(&(content.len() as u64).to_le_bytes());
    sum.copy_from_slice(&crc64(0, content).to_le_bytes());
    bytes
}

/// The bytes, in pieces of 64 KB.
pub fn save(replica: &Replica) -> impl Iterator<Item = Vec<u8>> {
    let bytes = save_whole(replica);
    (0..bytes.len().div_ceil(PIECE))
        .map(move |piece| bytes[piece * PIECE..bytes.len().min((piece + 1) * PIECE)].to_vec())
}

/// Reads what [`save`] wrote.
#[derive(Debug, Default)]
pub struct Loader {
    buffer: Vec<u8>,
}

impl Loader {
    pub fn new() -> Loader {
        Loader::default()
    }

    /// The length of all, once that has come.
    fn len(&self) -> Result<Option<usize>, SavedError> {
        let begin = &self.buffer[..self.buffer.len().min(MAGIC.len())];
        if !MAGIC.starts_with(begin) {
            return Err(SavedError::Magic);
        }
        match self.buffer.get(MAGIC.len()) {
            Some(&VERSION) | None => {}
            Some(&other) => return Err(SavedError::Version(other)),
        }
        let len = self.buffer.get(MAGIC.len() + 1..).and_then(|rest| rest.first_chunk::<8>());
        Ok(len
            .map(|len| usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX).saturating_add(HEAD)))
    }

    /// Takes the next bytes, however they are cut. True when the state is complete: what follows is
    /// not taken, and `bytes` is left behind it.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<bool, SavedError> {
        let before = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        let Some(len) = self.len()? else {
            *bytes = &[];
            return Ok(false);
        };
        let is_whole = self.buffer.len() >= len;
        if is_whole {
            self.buffer.truncate(len);
        }
        *bytes = &bytes[self.buffer.len() - before..];
        Ok(is_whole)
    }

    /// The state.
    pub fn finish(self) -> Result<State, SavedError> {
        if self.len()? != Some(self.buffer.len()) || self.buffer.len() < HEAD {
            return Err(SavedError::Short);
        }
        let (head, content) = self.buffer.split_at(HEAD);
        let sum = head.last_chunk::<8>().map(|sum| u64::from_le_bytes(*sum));
        if sum != Some(crc64(0, content)) {
            return Err(SavedError::Checksum);
        }
        let mut left = content;
        let state = State::load(&mut left).ok_or(SavedError::Damaged)?;
        match left.len() {
            0 => Ok(state),
            more => Err(SavedError::Trailing(more)),
        }
    }
}
