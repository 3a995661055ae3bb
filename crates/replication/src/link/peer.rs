// SPDX-License-Identifier: BSD-3-Clause
//! The connection to a primary, with its receive buffer.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use braid_resp::request;

use super::LinkError;
use crate::blocks::Unpacker;

/// Minimum and maximum bytes of a read. The buffer is zeroed for each read, which costs more than
/// the read itself when little data arrives at a time.
const READ_MIN: usize = 16 << 10;
const READ_MAX: usize = 256 << 10;
/// Longest line that a primary may send before a full sync.
const LINE_MAX: usize = 64 << 10;

/// Callbacks of the link's thread while it waits for the primary.
pub trait Watch {
    /// Whether the link is no longer wanted.
    fn is_called_off(&self) -> bool;
    /// Reports received bytes.
    fn note_io(&self, bytes: usize);
    /// How long the primary may be silent.
    fn timeout(&self) -> Duration;
}

/// The connection to a primary.
pub struct Peer<S> {
    stream: S,
    /// Received bytes; those from `at` on are unread.
    buffer: Vec<u8>,
    at: usize,
    /// Bytes to request in the next read.
    room: usize,
    /// Decompresses received bytes, if the connection is compressed.
    unpacker: Option<Unpacker>,
}

impl<S: Read + Write> Peer<S> {
    /// `stream` is connected to the primary; its reads must time out with `WouldBlock`
    /// periodically.
    pub fn new(stream: S) -> Peer<S> {
        Peer { stream, buffer: Vec::new(), at: 0, room: READ_MIN, unpacker: None }
    }

    /// Treats the unread bytes, and all that follow, as compressed.
    ///
    /// # Errors
    /// If the unread bytes are not valid blocks.
    pub fn begin_compression(&mut self) -> Result<(), LinkError> {
        let mut unpacker = Unpacker::default();
        *unpacker.input() = self.take_buffer();
        unpacker.unpack_onto(&mut self.buffer)?;
        self.unpacker = Some(unpacker);
        Ok(())
    }

    /// Whether the received bytes are compressed.
    pub fn is_compressed(&self) -> bool {
        self.unpacker.is_some()
    }

    /// The underlying connection.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The unread bytes.
    pub fn buffered(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Takes the unread bytes out of the buffer.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.buffer.drain(..self.at);
        self.at = 0;
        std::mem::take(&mut self.buffer)
    }

    /// Marks `count` bytes as read.
    pub fn consume(&mut self, count: usize) {
        self.at += count;
        debug_assert!(self.at <= self.buffer.len());
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
    }

    /// Receives more bytes. `during` names the current step for timeout errors.
    ///
    /// # Errors
    /// If the connection fails or ends, nothing arrives within the watch's timeout, or the link is
    /// called off.
    pub fn fill(&mut self, watch: &impl Watch, during: &'static str) -> Result<(), LinkError> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let began = Instant::now();
        loop {
            if watch.is_called_off() {
                return Err(LinkError::CalledOff);
            }
            let received = self.receive()?;
            if received > 0 {
                watch.note_io(received);
                return Ok(());
            }
            if began.elapsed() > watch.timeout() {
                return Err(LinkError::Timeout(during));
            }
        }
    }

    /// Receives available bytes, up to a limit; 0 if the read timed out.
    ///
    /// # Errors
    /// If the connection fails or ends, or what arrives is not a valid block. A read that times out
    /// is no error.
    pub fn receive(&mut self) -> Result<usize, LinkError> {
        match &mut self.unpacker {
            None => receive(&mut self.stream, &mut self.room, &mut self.buffer),
            Some(unpacker) => receive_blocks(&mut self.stream, &mut self.room, unpacker, &mut self.buffer),
        }
    }

    /// Like [`Peer::receive`], into the caller's buffer.
    ///
    /// # Errors
    /// As [`Peer::receive`].
    pub fn receive_onto(&mut self, buffer: &mut Vec<u8>) -> Result<usize, LinkError> {
        match &mut self.unpacker {
            None => receive(&mut self.stream, &mut self.room, buffer),
            Some(unpacker) => receive_blocks(&mut self.stream, &mut self.room, unpacker, buffer),
        }
    }

    /// Reads a line, without its line ending. Empty lines are dropped: they are the primary's
    /// keep-alives.
    ///
    /// # Errors
    /// As [`Peer::fill`], and if the line is too long.
    pub fn line(&mut self, watch: &impl Watch, during: &'static str) -> Result<String, LinkError> {
        let mut searched = 0;
        loop {
            let unused = self.buffered();
            if let Some(found) = unused[searched..].iter().position(|&byte| byte == b'\n') {
                let end = searched + found;
                let line = String::from_utf8_lossy(&unused[..end]).trim_end_matches('\r').to_owned();
                self.consume(end + 1);
                searched = 0;
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            searched = unused.len();
            if searched > LINE_MAX {
                return Err(LinkError::Refused("the primary sent an unterminated line".into()));
            }
            self.fill(watch, during)?;
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, args: &[&[u8]]) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        request::push(&mut bytes, args);
        self.send_bytes(&bytes)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).map_err(LinkError::Io)
    }

    /// Sends a request and reads its one-line reply.
    ///
    /// # Errors
    /// As [`Peer::line`].
    pub fn ask(
        &mut self,
        args: &[&[u8]],
        watch: &impl Watch,
        during: &'static str,
    ) -> Result<String, LinkError> {
        self.send(args)?;
        self.line(watch, during)
    }
}

/// Reads compressed bytes and appends their content to `buffer`; 0 if the read timed out.
fn receive_blocks(
    stream: &mut impl Read,
    room: &mut usize,
    unpacker: &mut Unpacker,
    buffer: &mut Vec<u8>,
) -> Result<usize, LinkError> {
    let count = receive(stream, room, unpacker.input())?;
    unpacker.unpack_onto(buffer)?;
    Ok(count)
}

/// Reads into `buffer`; 0 if the read timed out. The end of the connection is an error.
fn receive(stream: &mut impl Read, room: &mut usize, buffer: &mut Vec<u8>) -> Result<usize, LinkError> {
    let len = buffer.len();
    buffer.resize(len + *room, 0);
    let outcome = stream.read(&mut buffer[len..]);
    let count = outcome.as_ref().map_or(0, |count| *count);
    buffer.truncate(len + count);
    if count == *room {
        *room = READ_MAX.min(2 * count);
    } else if count < *room / 4 {
        *room = READ_MIN.max(*room / 2);
    }
    match outcome {
        Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "Connection with master lost.").into()),
        Ok(count) => Ok(count),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) =>
        {
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}
