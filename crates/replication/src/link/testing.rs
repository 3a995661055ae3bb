// SPDX-License-Identifier: BSD-3-Clause
//! Test doubles for the link: a primary with scripted replies, and a watch that never gives up.

use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

use super::peer::Watch;

/// A primary that sends its scripted replies in pieces, whatever it is sent.
pub struct Script {
    pub replies: Cursor<Vec<u8>>,
    /// Maximum bytes of a read.
    piece: usize,
    /// Everything it was sent.
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

/// Never gives up on the link.
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
