// SPDX-License-Identifier: BSD-3-Clause
//! One connection's byte stream, plain or over TLS, on TCP or a Unix socket.
//!
//! Supports blocking and non-blocking sockets. On non-blocking ones, both directions return
//! `WouldBlock`, and unsent TLS records are kept here until [`Stream::flush`].

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;
use socket2::Socket;

/// A connection to a server.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    pub(crate) fn new(socket: Socket, tls: Option<Box<ClientConnection>>) -> Stream {
        Stream { socket, tls }
    }

    /// Receives into `buffer`. `Ok(0)` is the end of the connection. If fewer bytes than the
    /// buffer's size arrive, none are buffered here: the socket's readiness says when to call
    /// again.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is available (or the read times out); otherwise the connection has
    /// failed, with TLS also because of a protocol violation.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => Ok(rustix::net::recv(&self.socket, buffer, rustix::net::RecvFlags::empty())?.0),
            Some(_) => self.read_tls(buffer),
        }
    }

    fn read_tls(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let tls = self.tls.as_mut().expect("the caller has checked");
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A close without TLS's close_notify also ends the connection.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if tls.read_tls(&mut &self.socket)? == 0 {
                return Ok(0);
            }
            let processed = tls.process_new_packets();
            // Handshake replies, or the alert that states why the handshake failed.
            while tls.wants_write() {
                match tls.write_tls(&mut &self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Sends from `bytes`. Returns the number of bytes taken. With TLS all bytes are taken, but
    /// some may still be unsent: see [`Stream::wants_write`].
    ///
    /// # Errors
    /// `WouldBlock` if the socket takes none now; otherwise the connection has failed.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => Ok(rustix::net::send(&self.socket, bytes, rustix::net::SendFlags::NOSIGNAL)?),
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                self.flush()?;
                Ok(bytes.len())
            }
        }
    }

    /// Sends the bytes that TLS has buffered, as far as the socket takes them.
    ///
    /// # Errors
    /// If the connection fails. Bytes that the socket does not take now are no error.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True if TLS has bytes to send that the socket has not taken.
    #[inline]
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// The underlying socket, for setting options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
