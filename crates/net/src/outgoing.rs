// SPDX-License-Identifier: BSD-3-Clause
//! Connections that the server opens itself, to a primary or for MIGRATE: blocking, with
//! timeouts, for threads that serve no clients.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::SockRef;

use crate::listener::tcp_socket;

/// Options of a connection attempt.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// Local address to connect from (`bind-source-addr`); empty means any.
    pub source: String,
    /// Use TLS with this configuration.
    pub tls: Option<Arc<ClientConfig>>,
    /// Offer multipath TCP; a peer that does not speak it is connected by ordinary TCP.
    pub is_multipath: bool,
    /// Timeout for each address of the host.
    pub timeout: Duration,
}

/// A connection. Reads and writes fail with `WouldBlock` after the timeouts of
/// [`Outgoing::set_timeouts`]; the connection stays usable.
pub struct Outgoing(Wire);

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Shuts down a connection from another thread.
#[derive(Debug)]
pub struct Hangup(TcpStream);

impl Hangup {
    /// Ends all reads and writes.
    pub fn hang_up(&self) {
        // The connection may already be gone.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Outgoing {
    /// Connects to the first address of `host` that accepts.
    ///
    /// # Errors
    /// If the host name cannot be resolved, or no address accepts in time (the error is the last
    /// one's), or the TLS handshake cannot be set up.
    pub fn connect(host: &str, port: u16, options: &ConnectOptions) -> io::Result<Outgoing> {
        // Brackets around an IPv6 address are needed only in texts with a port after it.
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let mut last = io::Error::new(io::ErrorKind::NotFound, format!("no address found for {host}"));
        for address in (bare, port).to_socket_addrs()? {
            match open(address, options) {
                Ok(socket) => return Outgoing::wrap(socket, bare, options),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn wrap(socket: TcpStream, host: &str, options: &ConnectOptions) -> io::Result<Outgoing> {
        socket.set_nodelay(true)?;
        let Some(config) = &options.tls else { return Ok(Outgoing(Wire::Plain(socket))) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        stream.sock.set_read_timeout(Some(options.timeout))?;
        stream.sock.set_write_timeout(Some(options.timeout))?;
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Outgoing(Wire::Tls(Box::new(stream))))
    }

    fn socket(&self) -> &TcpStream {
        match &self.0 {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    /// Sets the timeouts of reads and writes.
    ///
    /// # Errors
    /// If a timeout is zero.
    pub fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        let socket = self.socket();
        socket.set_read_timeout(Some(read))?;
        socket.set_write_timeout(Some(write))
    }

    /// Closes the connection at once: what the peer has not received yet never arrives.
    pub fn abort(self) {
        // At worst it arrives.
        let _ = SockRef::from(self.socket()).set_linger(Some(Duration::ZERO));
    }

    /// Makes the kernel probe a silent peer after `seconds`.
    ///
    /// # Errors
    /// If the time is out of the kernel's range.
    pub fn set_keepalive(&self, seconds: u64) -> io::Result<()> {
        let probes = socket2::TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)));
        SockRef::from(self.socket()).set_tcp_keepalive(&probes)
    }

    /// Sets TCP_NODELAY: false lets the kernel coalesce small writes into fewer packets.
    ///
    /// # Errors
    /// If the connection no longer exists.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket().set_nodelay(nodelay)
    }

    /// A handle that can end the connection.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn hangup(&self) -> io::Result<Hangup> {
        self.socket().try_clone().map(Hangup)
    }

    /// The peer's address and the local address.
    ///
    /// # Errors
    /// If the peer has closed the connection.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        let socket = self.socket();
        Ok((socket.peer_addr()?, socket.local_addr()?))
    }
}

fn open(address: SocketAddr, options: &ConnectOptions) -> io::Result<TcpStream> {
    let socket = tcp_socket(address, options.is_multipath)?;
    if !options.source.is_empty() {
        let source: Vec<SocketAddr> = match options.source.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, 0)],
            Err(_) => (options.source.as_str(), 0).to_socket_addrs()?.collect(),
        };
        let fitting = source.into_iter().find(|source| source.is_ipv4() == address.is_ipv4());
        let source = fitting.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("bind-source-addr {} has no address of the family of {address}", options.source),
            )
        })?;
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
    }
    socket.connect_timeout(&address.into(), options.timeout)?;
    Ok(socket.into())
}

impl Read for Outgoing {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Wire::Plain(socket) => socket.read(to),
            Wire::Tls(stream) => stream.read(to),
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Wire::Plain(socket) => socket.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::Protocol;

    use super::*;

    fn options() -> ConnectOptions {
        ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() }
    }

    #[test]
    fn a_connection_starts_at_the_source_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let with_source = ConnectOptions { source: "127.0.0.3".into(), ..options() };
        let mut connection = Outgoing::connect("localhost", port, &with_source).expect("connected");
        let (mut peer, from) = listener.accept().expect("accepted");
        assert_eq!(from.ip().to_string(), "127.0.0.3");
        connection.write_all(b"ping").expect("sent");
        let mut received = [0; 4];
        peer.read_exact(&mut received).expect("received");
        assert_eq!(&received, b"ping");
        let wrong_kind = ConnectOptions { source: "::1".into(), ..options() };
        let error = Outgoing::connect("127.0.0.1", port, &wrong_kind).err().expect("refused");
        assert!(error.to_string().contains("bind-source-addr"), "{error}");
    }

    #[test]
    fn a_connection_offers_multipath_if_requested() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        for (is_multipath, protocol) in [(false, Protocol::TCP), (true, Protocol::MPTCP)] {
            let connection =
                match Outgoing::connect("127.0.0.1", port, &ConnectOptions { is_multipath, ..options() }) {
                    Err(error) if is_multipath => return println!("skipped: no multipath TCP: {error}"),
                    connected => connected.expect("connected"),
                };
            let socket = SockRef::from(connection.socket());
            assert_eq!(socket.protocol().expect("a protocol"), Some(protocol));
        }
    }

    #[test]
    fn hanging_up_ends_a_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let mut connection = Outgoing::connect("127.0.0.1", port, &options()).expect("connected");
        let hangup = connection.hangup().expect("a handle");
        let reader = std::thread::spawn(move || connection.read(&mut [0; 8]));
        hangup.hang_up();
        assert_eq!(reader.join().expect("no panic").expect("end of stream"), 0);
    }
}
