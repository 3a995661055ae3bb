// SPDX-License-Identifier: BSD-3-Clause
//! A replica's state as bytes, for a file and for a full copy.
//!
//! Frames of bounded size, each with its checksum, so both ends stream: [`save`] yields one after the
//! other, [`Loader`] takes bytes as they come. A version stands in front. What this version would not
//! have written is refused with its reason, nothing is allocated that the bytes cannot fill.

use crate::replica::{Replica, State};
use crate::stamp::{Region, Stamp};

/// The version that is written and read.
pub const VERSION: u8 = 1;

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
    #[error("the checksum of a part is wrong")]
    Checksum,
    #[error("the state is damaged: {0}")]
    Damaged(&'static str),
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    pub state: State,
    /// Whose it was.
    pub region: Region,
    /// The run in which it wrote, and up to where it could.
    pub run: Stamp,
    pub ceiling: Stamp,
    /// Regions that are gone for good, a bit for each.
    pub gone: u64,
}

/// The bytes, in pieces of about 64 KB (one key's marks may make a longer one).
pub fn save(replica: &Replica) -> impl Iterator<Item = Vec<u8>> {
    let _ = replica;
    std::iter::empty()
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

    /// Takes the next bytes, however they are cut. True when the state is complete: what follows is
    /// not taken, and `bytes` is left behind it.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<bool, SavedError> {
        self.buffer.extend_from_slice(bytes);
        *bytes = &[];
        Ok(false)
    }

    pub fn finish(self) -> Result<Saved, SavedError> {
        Err(SavedError::Short)
    }
}

impl Replica {
    /// Whether keys wait for [`crate::difference::return_with_difference`].
    pub fn has_returning(&self) -> bool {
        false
    }

    /// Whether [`crate::difference::expire_with_difference`] has something to do.
    pub fn has_due(&self, now_ms: u64) -> bool {
        let _ = now_ms;
        true
    }
}
