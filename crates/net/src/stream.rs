// SPDX-License-Identifier: BSD-3-Clause
//! A connection's byte stream: a bare socket, or TLS over one.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::tls::TlsConnection;

/// The bytes of one connection, both ways. Never blocks.
pub struct Stream {
    socket: OwnedFd,
    tls: Option<Box<TlsConnection>>,
}

impl Stream {
    /// Over a non-blocking socket, with TLS or without.
    pub fn new(socket: OwnedFd, tls: Option<TlsConnection>) -> Stream {
        Stream { socket, tls: tls.map(Box::new) }
    }

    /// True with TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Receives into initialised memory: bytes received, 0 at the end, `AGAIN` when there is
    /// nothing now.
    #[inline]
    pub fn recv(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::recv(&self.socket, to, RecvFlags::DONTWAIT).map(|(_, count)| count),
            Some(tls) => tls.recv(&self.socket, to),
        }
    }

    /// As [`Stream::recv`], appending at most `most` bytes to a vector.
    pub fn recv_onto(&mut self, vec: &mut Vec<u8>, most: usize) -> Result<usize, Errno> {
        vec.reserve(most);
        match &mut self.tls {
            None => {
                let room = rustix::buffer::spare_capacity(vec);
                rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT).map(|(_, count)| count)
            }
            Some(tls) => {
                let start = vec.len();
                vec.resize(start + most, 0);
                let received = tls.recv(&self.socket, &mut vec[start..]);
                vec.truncate(start + *received.as_ref().unwrap_or(&0));
                received
            }
        }
    }

    /// As [`Stream::recv`], into memory that need not be initialised; received bytes count as
    /// initialised.
    pub fn recv_uninit(&mut self, to: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::recv(&self.socket, to, RecvFlags::DONTWAIT).map(|(_, count)| count),
            Some(tls) => {
                // Piece by piece, so that the zeroed memory stays in the cache.
                let piece = to.len().min(64 * 1024);
                let mut bytes = vec![0; piece];
                let count = tls.recv(&self.socket, &mut bytes)?;
                to[..count].write_copy_of_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    /// Received bytes are available that polling the socket does not report.
    #[inline]
    pub fn has_received(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_plain())
    }

    /// Sends: bytes taken, `AGAIN` when the socket takes none now.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL),
            Some(tls) => tls.send(&self.socket, bytes),
        }
    }

    /// Sends several pieces: bytes taken of all.
    pub fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return rustix::io::writev(&self.socket, slices);
        };
        let mut sent = 0;
        for slice in slices {
            let mut rest = &slice[..];
            while !rest.is_empty() {
                match tls.send(&self.socket, rest) {
                    Ok(count) => {
                        sent += count;
                        rest = &rest[count..];
                    }
                    Err(_) if sent > 0 => return Ok(sent),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(sent)
    }

    /// Bytes taken by [`Stream::send`] still wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Sends what waits; `AGAIN` if the socket does not take all of it.
    pub fn flush(&mut self) -> Result<(), Errno> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.flush(&self.socket),
        }
    }

    /// Memory held beyond the socket, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| size_of::<TlsConnection>() + tls.buffer_bytes())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }
}
