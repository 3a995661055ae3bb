// SPDX-License-Identifier: BSD-3-Clause
//! One server-side TLS connection over a non-blocking socket.
//!
//! It buffers only the leftovers of a slow peer: the start of an incomplete record, plaintext for
//! which the caller had no room, and encrypted bytes that the socket did not take. Everything
//! else goes through scratch memory shared by the thread's connections.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::settings::explained;

/// Maximum number of bytes received at a time.
const READ: usize = 32 * 1024;
/// Maximum number of plaintext bytes encrypted at a time.
const WRITE: usize = 64 * 1024;
/// Maximum record overhead for that many plaintext bytes.
const OVERHEAD: usize = 1024;

#[derive(Default)]
struct Scratch {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// State of one connection.
pub struct TlsConnection {
    tls: Box<UnbufferedServerConnection>,
    /// Received but not yet processed: part of a record.
    incoming: Vec<u8>,
    /// Decrypted but not yet returned, from `plain_start` on.
    plain: Vec<u8>,
    plain_start: usize,
    /// Encrypted but not yet sent, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The peer will send no more.
    ended: bool,
    /// The protocol was violated: the library must not be called again.
    failed: bool,
    handshake: Handshake,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Handshake {
    Begun,
    /// Completed, and [`TlsConnection::take_completion`] has not told it yet.
    Completed,
    Reported,
}

impl TlsConnection {
    /// A connection before its handshake.
    ///
    /// # Errors
    /// If the library refuses the configuration.
    pub fn new(config: Arc<ServerConfig>) -> Result<TlsConnection, String> {
        let tls = UnbufferedServerConnection::new(config).map_err(|error| error.to_string())?;
        Ok(TlsConnection {
            tls: Box::new(tls),
            incoming: Vec::new(),
            plain: Vec::new(),
            plain_start: 0,
            outgoing: Vec::new(),
            sent: 0,
            ended: false,
            failed: false,
            handshake: Handshake::Begun,
        })
    }

    /// True if decrypted bytes are waiting to be received, even if the socket has none.
    #[inline]
    pub fn has_plain(&self) -> bool {
        self.plain_start < self.plain.len()
    }

    /// True if encrypted bytes are waiting for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// True once, after the receive that completed the handshake.
    #[inline]
    pub fn take_completion(&mut self) -> bool {
        let completed = self.handshake == Handshake::Completed;
        if completed {
            self.handshake = Handshake::Reported;
        }
        completed
    }

    /// The peer's verified certificate, after the handshake, if it has presented one.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// Memory held beyond the protocol state, in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.incoming.capacity() + self.plain.capacity() + self.outgoing.capacity()
    }

    /// As `recv`: 0 at the end of the connection.
    ///
    /// # Errors
    /// `AGAIN` if nothing is available, `PROTO` after a protocol violation (the log has the
    /// reason), and otherwise the socket's error.
    pub fn recv(&mut self, socket: impl AsFd, to: &mut [u8]) -> Result<usize, Errno> {
        if to.is_empty() {
            return Err(Errno::AGAIN);
        }
        if !self.has_plain() && !self.ended {
            let outcome = SCRATCH.with_borrow_mut(|scratch| self.receive(&socket, scratch, to));
            // Handshake answers are sent as soon as they exist, alerts even after an error.
            let flushed = self.flush(socket);
            let count = outcome?;
            if count > 0 {
                return Ok(count);
            }
            if let Err(error) = flushed
                && error != Errno::AGAIN
            {
                return Err(error);
            }
        }
        let left = &self.plain[self.plain_start..];
        if left.is_empty() {
            return if self.ended { Ok(0) } else { Err(Errno::AGAIN) };
        }
        let count = left.len().min(to.len());
        to[..count].copy_from_slice(&left[..count]);
        self.plain_start += count;
        if !self.has_plain() {
            self.plain = Vec::new();
            self.plain_start = 0;
        }
        Ok(count)
    }

    /// Receives from the socket and decrypts: into `to` as far as it has room, the rest into
    /// `self.plain`. Returns the number of bytes in `to`.
    fn receive(&mut self, socket: &impl AsFd, scratch: &mut Scratch, to: &mut [u8]) -> Result<usize, Errno> {
        let bytes = &mut scratch.incoming;
        bytes.clear();
        bytes.append(&mut self.incoming);
        self.incoming = Vec::new();
        let kept = bytes.len();
        bytes.reserve(READ);
        let room = rustix::buffer::spare_capacity(bytes);
        let received = match rustix::net::recv(socket, room, RecvFlags::DONTWAIT) {
            Ok((_, count)) => count,
            Err(error) => {
                self.incoming = bytes[..kept].to_vec();
                return Err(error);
            }
        };
        if received == 0 {
            // The peer closed without a close alert, as many clients do.
            self.ended = true;
            return Ok(0);
        }
        let mut start = 0;
        let mut filled = 0;
        let outcome = loop {
            let UnbufferedStatus { discard, state, .. } = self.tls.process_tls_records(&mut bytes[start..]);
            let mut waits = false;
            let outcome = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        let fits = record.payload.len().min(to.len() - filled);
                        let (now, later) = record.payload.split_at(fits);
                        to[filled..filled + fits].copy_from_slice(now);
                        filled += fits;
                        self.plain.extend_from_slice(later);
                    }
                    Ok(())
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let mut size = 0;
                    loop {
                        let end = self.outgoing.len();
                        self.outgoing.resize(end + size, 0);
                        match data.encode(&mut self.outgoing[end..]) {
                            Ok(written) => {
                                self.outgoing.truncate(end + written);
                                break Ok(());
                            }
                            Err(EncodeError::InsufficientSize(need)) => {
                                self.outgoing.truncate(end);
                                size = need.required_size;
                            }
                            Err(EncodeError::AlreadyEncoded) => break Ok(()),
                        }
                    }
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    // The encoded bytes are queued in order; `flush` sends them.
                    transmit.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.ended = true;
                    waits = true;
                    Ok(())
                }
                Ok(_) => {
                    waits = true;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            start += discard;
            if let Err(error) = outcome {
                log::debug!("Error accepting a client connection: {}", explained(&error));
                self.encode_alert(&mut bytes[start..]);
                break Err(Errno::PROTO);
            }
            if waits {
                break Ok(filled);
            }
        };
        if self.handshake == Handshake::Begun && !self.tls.is_handshaking() {
            self.handshake = Handshake::Completed;
        }
        if start < bytes.len() {
            self.incoming = bytes[start..].to_vec();
        }
        outcome
    }

    /// Sends the peer an alert. The library must be given the leftover bytes again.
    fn encode_alert(&mut self, rest: &mut [u8]) {
        (self.ended, self.failed) = (true, true);
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process_tls_records(rest).state {
            let end = self.outgoing.len();
            self.outgoing.resize(end + OVERHEAD, 0);
            let written = data.encode(&mut self.outgoing[end..]).unwrap_or(0);
            self.outgoing.truncate(end + written);
        }
    }

    /// As `send`: encrypts and sends as much as possible. Bytes counted as sent may still wait
    /// here: see [`TlsConnection::has_unsent`].
    ///
    /// # Errors
    /// `AGAIN` while earlier bytes wait for the socket or the handshake is not complete, `PROTO`
    /// after a protocol violation, and otherwise the socket's error.
    pub fn send(&mut self, socket: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
        self.flush(&socket)?;
        if self.failed {
            return Err(Errno::PROTO);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let plain = &bytes[..bytes.len().min(WRITE)];
            // All received bytes have been processed; the library must still be given its
            // leftover bytes.
            let status = self.tls.process_tls_records(&mut self.incoming);
            let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else {
                // Nothing can be sent before the handshake is complete.
                return Err(Errno::AGAIN);
            };
            let encrypted = &mut scratch.outgoing;
            if encrypted.len() < plain.len() + OVERHEAD {
                encrypted.resize(plain.len() + OVERHEAD, 0);
            }
            let written = loop {
                match traffic.encrypt(plain, encrypted) {
                    Ok(written) => break written,
                    Err(EncryptError::InsufficientSize(need)) => encrypted.resize(need.required_size, 0),
                    Err(EncryptError::EncryptExhausted) => return Err(Errno::PROTO),
                }
            };
            let sent = match rustix::net::send(socket, &encrypted[..written], SendFlags::NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            if sent < written {
                self.outgoing = encrypted[sent..written].to_vec();
                self.sent = 0;
            }
            Ok(plain.len())
        })
    }

    /// Sends the pending bytes.
    ///
    /// # Errors
    /// `AGAIN` if the socket does not take all of them, and otherwise the socket's error.
    pub fn flush(&mut self, socket: impl AsFd) -> Result<(), Errno> {
        while self.has_unsent() {
            match rustix::net::send(&socket, &self.outgoing[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.outgoing.is_empty() {
            self.outgoing = Vec::new();
            self.sent = 0;
        }
        Ok(())
    }

    /// Sends a close alert, as far as the socket takes it immediately.
    pub fn close(&mut self, socket: impl AsFd) {
        if self.flush(&socket).is_err() || self.failed {
            return;
        }
        let status = self.tls.process_tls_records(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
            let mut farewell = [0; OVERHEAD];
            if let Ok(written) = traffic.queue_close_notify(&mut farewell) {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                // The peer need not receive it.
                let _ = rustix::net::send(socket, &farewell[..written], flags);
            }
        }
    }
}
