// SPDX-License-Identifier: BSD-3-Clause
//! The framing of a full sync: `$<length>` and that many bytes, or `$EOF:<mark>`, the bytes, and
//! the mark.
//!
//! Empty lines may precede it. The stream follows it, and its bytes stay with the peer.

use std::io::{self, Read, Write};

use memchr::memmem;

use super::LinkError;
use super::peer::{Peer, Watch};
use crate::history::ID_LEN;

const DURING: &str = "receiving bulk data from MASTER";

/// The end of a full sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// After this many bytes.
    Len(u64),
    /// Before this mark.
    Mark([u8; ID_LEN]),
}

impl Frame {
    /// Length of the full sync in bytes, if known.
    pub fn known_len(&self) -> Option<u64> {
        match self {
            Frame::Len(len) => Some(*len),
            Frame::Mark(_) => None,
        }
    }
}

/// Reads the line that precedes a full sync.
///
/// # Errors
/// As [`Peer::line`], and if the primary reports an error or sends another line.
pub fn read_frame<S: Read + Write>(peer: &mut Peer<S>, watch: &impl Watch) -> Result<Frame, LinkError> {
    let line = peer.line(watch, DURING)?;
    if line.starts_with('-') {
        return Err(LinkError::Refused(format!("MASTER aborted replication with an error: {line}")));
    }
    let bad = || {
        LinkError::Refused(format!(
            "Bad protocol from MASTER, the first byte is not '$' (we received '{}'), are you sure the host and port are right?",
            line.chars().take(64).collect::<String>()
        ))
    };
    let rest = line.strip_prefix('$').ok_or_else(bad)?;
    if let Some(mark) = rest.strip_prefix("EOF:") {
        return Ok(Frame::Mark(mark.as_bytes().try_into().map_err(|_| bad())?));
    }
    rest.parse().ok().filter(|len| *len <= i64::MAX as u64).map(Frame::Len).ok_or_else(bad)
}

/// Reader of a full sync's bytes.
pub struct Payload<'p, S, W> {
    peer: &'p mut Peer<S>,
    watch: &'p W,
    frame: Frame,
    /// Bytes returned so far.
    pub read: u64,
    is_over: bool,
    /// Why it ended early.
    pub failure: Option<LinkError>,
}

impl<'p, S: Read + Write, W: Watch> Payload<'p, S, W> {
    /// Reads the bytes after the line that [`read_frame`] has read.
    pub fn new(peer: &'p mut Peer<S>, watch: &'p W, frame: Frame) -> Payload<'p, S, W> {
        let is_over = frame == Frame::Len(0);
        Payload { peer, watch, frame, read: 0, is_over, failure: None }
    }

    /// Whether the full sync has been read to its end.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads and discards the rest, at most `most` bytes.
    ///
    /// # Errors
    /// If the connection fails, or more than `most` bytes are left.
    pub fn finish(&mut self, most: u64) -> Result<(), LinkError> {
        let mut scratch = vec![0; 64 << 10];
        let mut left = most;
        while !self.is_over {
            match self.read(&mut scratch) {
                Ok(count) => left = left.saturating_sub(count as u64),
                Err(error) => return Err(self.failure.take().unwrap_or(LinkError::Io(error))),
            }
            if left == 0 && !self.is_over {
                return Err(LinkError::Protocol("unexpected data after the end of the full sync".into()));
            }
        }
        Ok(())
    }

    /// The number of buffered bytes that certainly belong to the full sync.
    fn available(&mut self) -> usize {
        let unused = self.peer.buffered();
        match &self.frame {
            Frame::Len(len) => unused.len().min(usize::try_from(len - self.read).unwrap_or(usize::MAX)),
            Frame::Mark(mark) => match memmem::find(unused, mark) {
                Some(0) => {
                    self.peer.consume(ID_LEN);
                    self.is_over = true;
                    0
                }
                Some(at) => at,
                // The buffer may end with the start of the mark.
                None => (unused.len() + 1).saturating_sub(ID_LEN),
            },
        }
    }
}

impl<S: Read + Write, W: Watch> Read for Payload<'_, S, W> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_over {
                return Ok(0);
            }
            let count = self.available().min(to.len());
            if count > 0 {
                to[..count].copy_from_slice(&self.peer.buffered()[..count]);
                self.peer.consume(count);
                self.read += count as u64;
                self.is_over = self.frame.known_len() == Some(self.read);
                return Ok(count);
            }
            if !self.is_over
                && let Err(error) = self.peer.fill(self.watch, DURING)
            {
                let kind = match &error {
                    LinkError::Io(error) => error.kind(),
                    _ => io::ErrorKind::Other,
                };
                let text = error.to_string();
                self.failure = Some(error);
                return Err(io::Error::new(kind, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Patient, Script};
    use super::*;

    fn receive(sent: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>), String> {
        let mut peer = Peer::new(Script::new(sent, piece));
        let frame = read_frame(&mut peer, &Patient).map_err(|error| error.to_string())?;
        let mut payload = Payload::new(&mut peer, &Patient, frame);
        let mut bytes = Vec::new();
        payload.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        assert!(payload.is_over() && payload.read == bytes.len() as u64);
        // The stream may follow directly.
        let _ = peer.receive();
        Ok((bytes, peer.buffered().to_vec()))
    }

    #[test]
    fn the_end_is_found_however_the_bytes_arrive() {
        let mark = "0123456789abcdefghijklmnopqrstuvwxyzABCD";
        // The payload ends with a prefix of the mark.
        let body = format!("{}{}", "x".repeat(100), &mark[..39]);
        for piece in [1, 7, 39, 40, 41, 1000] {
            let marked = format!("\n\n$EOF:{mark}\r\n{body}{mark}*1\r\n");
            let (bytes, _) = receive(marked.as_bytes(), piece).expect("received");
            assert_eq!(bytes, body.as_bytes(), "in pieces of {piece}");
            let sized = format!("${}\r\n{body}*1\r\n", body.len());
            let (bytes, rest) = receive(sized.as_bytes(), piece).expect("received");
            assert_eq!(bytes, body.as_bytes(), "in pieces of {piece}");
            assert!(b"*1\r\n".starts_with(&rest[..]), "only the stream is left");
        }
        let (bytes, _) = receive(b"$0\r\n", 9).expect("received");
        assert!(bytes.is_empty());
    }

    #[test]
    fn invalid_full_sync_payloads_are_refused() {
        for (sent, why) in [
            ("-ERR no\r\n", "MASTER aborted replication with an error: -ERR no"),
            ("HTTP/1.1 400\r\n", "the first byte is not '$' (we received 'HTTP/1.1 400')"),
            ("$EOF:short\r\n", "the first byte is not '$'"),
            ("$-1\r\n", "the first byte is not '$'"),
            ("$99999999999999999999\r\n", "the first byte is not '$'"),
            ("$5\r\nabc", "Connection with master lost."),
        ] {
            let error = receive(sent.as_bytes(), 3).expect_err(sent);
            assert!(error.contains(why), "{sent}: {error}");
        }
    }
}
