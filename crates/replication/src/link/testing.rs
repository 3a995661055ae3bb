// SPDX-License-Identifier: BSD-3-Clause
//! Doubles for tests of the link: a primary that has said everything, and a thread with patience.

use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

use super::peer::Watch;

/// A primary that sends what it was given, in pieces, whatever it is asked.
pub struct Script {
    pub replies: Cursor<Vec<u8>>,
    /// Most bytes of a read.
    piece: usize,
    /// What it was sent.
    pub sent: Vec<u8>,
}

impl Script {
    pub fn new(replies: &[u8], piece: usize) -> Script {
        Script { replies: Cursor::new(replies.to_vec()), piece, sent: Vec::new() }
    }
}

impl Read for Script {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = to.len().min(self.piece);
        self.replies.read(&mut to[..most])
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Never calls the link off.
pub struct Patient;

impl Watch for Patient {
    fn is_called_off(&self) -> bool {
        false
    }

    fn note_io(&self, _bytes: usize) {}

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}
