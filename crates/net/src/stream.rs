// SPDX-License-Identifier: BSD-3-Clause
//! A connection's byte stream: a bare socket, or TLS over one.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::tls::{CertificateDer, TlsConnection};

/// The byte stream of one connection, in both directions. Never blocks.
pub struct Stream {
    socket: OwnedFd,
    tls: Option<Box<TlsConnection>>,
}

impl Stream {
    /// A stream over a non-blocking socket, with or without TLS.
    pub fn new(socket: OwnedFd, tls: Option<TlsConnection>) -> Stream {
        Stream { socket, tls: tls.map(Box::new) }
    }

    /// True if TLS is used.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Receives into initialised memory. Returns the bytes received, 0 at the end of the stream.
    ///
    /// # Errors
    /// `AGAIN` if nothing is available; otherwise the connection has failed, with TLS also because
    /// of a protocol violation (`PROTO`).
    #[inline]
    pub fn recv(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::recv(&self.socket, to, RecvFlags::DONTWAIT).map(|(_, count)| count),
            Some(tls) => tls.recv(&self.socket, to),
        }
    }

    /// As [`Stream::recv`], appending at most `most` bytes to a vector.
    ///
    /// # Errors
    /// As [`Stream::recv`].
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
    ///
    /// # Errors
    /// As [`Stream::recv`].
    pub fn recv_uninit(&mut self, to: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::recv(&self.socket, to, RecvFlags::DONTWAIT).map(|(_, count)| count),
            Some(tls) => {
                // In pieces, so that the zeroed memory stays in the cache.
                let piece = to.len().min(64 * 1024);
                let mut bytes = vec![0; piece];
                let count = tls.recv(&self.socket, &mut bytes)?;
                to[..count].write_copy_of_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    /// True once, after the receive that completed the TLS handshake.
    #[inline]
    pub fn take_handshake_completion(&mut self) -> bool {
        self.tls.as_mut().is_some_and(|tls| tls.take_completion())
    }

    /// The certificate with which the peer has authenticated itself by TLS.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificate()
    }

    /// True if received bytes are available that polling the socket does not report.
    #[inline]
    pub fn has_received(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_plain())
    }

    /// Sends bytes. Returns the number of bytes taken.
    ///
    /// # Errors
    /// `AGAIN` if the socket takes none now; otherwise the connection has failed.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL),
            Some(tls) => tls.send(&self.socket, bytes),
        }
    }

    /// As [`Stream::send`], but the kernel may hold back the last bytes until more are sent or
    /// [`Stream::push`] is called, to fill packets. The bytes are sent in any case, even if this
    /// process dies.
    ///
    /// # Errors
    /// As [`Stream::send`].
    #[inline]
    pub fn send_with_more_to_come(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::MORE),
            Some(tls) => tls.send(&self.socket, bytes),
        }
    }

    /// Makes the kernel send the bytes that it has held back.
    pub fn push(&self) {
        // Only TCP sockets hold bytes back.
        let _ = rustix::net::sockopt::set_tcp_cork(&self.socket, false);
    }

    /// Sends several slices. Returns the total number of bytes taken.
    ///
    /// # Errors
    /// As [`Stream::send`], if no byte was taken before.
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

    /// True if bytes taken by [`Stream::send`] still wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Sends the pending bytes.
    ///
    /// # Errors
    /// `AGAIN` if the socket does not take all of them; otherwise the connection has failed.
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    fn arrives(peer: &mut impl Read, expected: &[u8]) {
        let mut bytes = vec![0; expected.len()];
        peer.read_exact(&mut bytes).expect("the bytes arrive");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn push_flushes_data_held_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        peer.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nodelay(true).expect("an option");
        let mut stream = Stream::new(socket.into(), None);
        assert_eq!(stream.send_with_more_to_come(b"abc"), Ok(3));
        stream.push();
        arrives(&mut peer, b"abc");
        // Later bytes take them along, in order.
        assert_eq!(stream.send_with_more_to_come(b"def"), Ok(3));
        assert_eq!(stream.send_with_more_to_come(b"ghi"), Ok(3));
        assert_eq!(stream.send(b"jkl"), Ok(3));
        arrives(&mut peer, b"defghijkl");
        // They are sent in the end even without a push.
        assert_eq!(stream.send_with_more_to_come(b"mno"), Ok(3));
        drop(stream);
        arrives(&mut peer, b"mno");
        assert_eq!(peer.read(&mut [0]).expect("end of stream"), 0);
    }

    #[test]
    fn a_socket_that_keeps_nothing_back_needs_no_push() {
        let (ours, mut peer) = UnixStream::pair().expect("a pair of sockets");
        peer.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut stream = Stream::new(ours.into(), None);
        assert_eq!(stream.send_with_more_to_come(b"abc"), Ok(3));
        arrives(&mut peer, b"abc");
        stream.push();
    }
}
