// SPDX-License-Identifier: BSD-3-Clause
//! Listening and accepting: TCP over IPv4 and IPv6, and Unix sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

/// A listening socket.
pub struct Listener {
    socket: Socket,
    /// The Unix socket's file, removed when the listener is dropped.
    path: Option<PathBuf>,
    /// Address and port as given to [`Listener::tcp`].
    asked: Option<(String, u16)>,
    is_tls: bool,
}

/// An accepted connection.
pub struct Connection {
    pub socket: OwnedFd,
    /// None for Unix sockets.
    pub peer: Option<SocketAddr>,
    pub local: Option<SocketAddr>,
}

/// Options of a TCP listener.
#[derive(Clone, Copy, Default)]
pub struct TcpOptions {
    /// Maximum number of connections that wait to be accepted.
    pub backlog: u32,
    /// Offer multipath TCP; clients that do not speak it connect by ordinary TCP.
    pub is_multipath: bool,
    /// Mark for packet filters (SO_MARK), also of the accepted connections; 0 sets none.
    pub mark: u32,
}

impl Listener {
    /// Listens on an address such as `127.0.0.1`, `::1`, `*` (all IPv4) or `::*` (all IPv6).
    ///
    /// # Errors
    /// If the host name cannot be resolved, the address or port is in use or not this machine's, or
    /// a socket option (multipath, the mark) is not available or not permitted.
    pub fn tcp(address: &str, port: u16, options: TcpOptions) -> io::Result<Listener> {
        let asked = Some((address.to_owned(), port));
        let host = match address {
            "*" => "0.0.0.0",
            "::*" => "::",
            other => other,
        };
        let address = (host, port).to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = tcp_socket(address, options.is_multipath)?;
        if options.mark != 0 {
            let refused =
                |error: io::Error| io::Error::new(error.kind(), format!("the mark cannot be set: {error}"));
            socket.set_mark(options.mark).map_err(refused)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        Ok(Listener { socket, path: None, asked, is_tls: false })
    }

    /// Listens on a Unix socket, replacing a stale file. `mode`: the file's permissions; 0 means
    /// by the umask.
    ///
    /// # Errors
    /// If a stale file cannot be removed, or the path is invalid, too long, or in a folder that
    /// cannot be written.
    pub fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Listener> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = bind_unix(path, mode)?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(Listener { socket, path: Some(path.to_owned()), asked: None, is_tls: false })
    }

    /// Sets whether connections speak TLS.
    pub fn with_tls(mut self, is_tls: bool) -> Listener {
        self.is_tls = is_tls;
        self
    }

    /// True if connections speak TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// True for a Unix socket.
    pub fn is_unix(&self) -> bool {
        self.path.is_some()
    }

    /// The Unix socket's file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// True if [`Listener::tcp`] created it from this address and port, with this TLS setting.
    pub fn is_tcp(&self, address: &str, port: u16, is_tls: bool) -> bool {
        self.is_tls == is_tls
            && self
                .asked
                .as_ref()
                .is_some_and(|(own_address, own_port)| own_address == address && *own_port == port)
    }

    /// The listening port (chosen by the system if 0 was requested).
    pub fn port(&self) -> Option<u16> {
        self.socket.local_addr().ok()?.as_socket().map(|address| address.port())
    }

    /// Accepts the next connection without blocking.
    ///
    /// # Errors
    /// `WouldBlock` if none is pending, and otherwise the operating system's error, such as the
    /// lack of file descriptors or a connection that the client has already reset.
    pub fn accept(&self) -> io::Result<Connection> {
        let (socket, peer) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr().ok().and_then(|address| address.as_socket());
        let peer = peer.as_socket();
        if peer.is_some() {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Connection { socket: socket.into(), peer, local })
    }
}

/// A socket for an address of this family, for multipath TCP if requested.
pub(crate) fn tcp_socket(address: SocketAddr, is_multipath: bool) -> io::Result<Socket> {
    let protocol = if is_multipath { Protocol::MPTCP } else { Protocol::TCP };
    Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))
}

/// Creates a Unix socket with its file and permissions. It does not listen yet, so no client can
/// connect before the permissions are set.
fn bind_unix(path: &Path, mode: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if mode != 0 {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    Ok(socket)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The file may already be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the kernel probe a connection after `seconds` of silence, and give up after another
/// `seconds`.
///
/// # Errors
/// If the socket has no such option: it is not a TCP socket, or is closed.
pub fn set_keepalive(socket: &OwnedFd, seconds: u32) -> io::Result<()> {
    let interval = Duration::from_secs(u64::from((seconds / 3).max(1)));
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(seconds.into()))
        .with_interval(interval)
        .with_retries(3);
    socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::outgoing::{ConnectOptions, Outgoing};

    #[test]
    fn multipath_listeners_take_ordinary_clients_too() {
        let options = TcpOptions { backlog: 10, is_multipath: true, mark: 0 };
        let listener = match Listener::tcp("127.0.0.1", 0, options) {
            Ok(listener) => listener,
            Err(error) => return println!("skipped: no multipath TCP: {error}"),
        };
        assert_eq!(listener.socket.protocol().expect("a protocol"), Some(Protocol::MPTCP));
        let port = listener.port().expect("a port");
        for is_multipath in [false, true] {
            let options =
                ConnectOptions { is_multipath, timeout: Duration::from_secs(5), ..ConnectOptions::default() };
            let mut client = Outgoing::connect("127.0.0.1", port, &options).expect("a connection");
            client.write_all(b"hello").expect("sent");
            listener.socket.set_nonblocking(false).expect("a blocking socket");
            let (mut accepted, _) = listener.socket.accept().expect("a connection");
            let mut bytes = [0; 5];
            accepted.read_exact(&mut bytes).expect("received");
            assert_eq!(&bytes, b"hello");
        }
    }

    #[test]
    fn accepted_connections_have_the_listeners_mark() {
        let options = TcpOptions { backlog: 10, is_multipath: false, mark: 7 };
        let listener = match Listener::tcp("127.0.0.1", 0, options) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return println!("skipped: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        let _client = TcpStream::connect(("127.0.0.1", listener.port().expect("a port")));
        listener.socket.set_nonblocking(false).expect("a blocking socket");
        let (accepted, _) = listener.socket.accept().expect("a connection");
        assert_eq!((listener.socket.mark().ok(), accepted.mark().ok()), (Some(7), Some(7)));
    }

    /// CVE-2023-45145: a socket that others can connect to before its permissions are set.
    #[test]
    fn unix_socket_refuses_connections_until_permissions_are_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let socket = bind_unix(&path, 0o600).expect("a socket");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        let refusal = UnixStream::connect(&path).expect_err("the socket does not listen yet");
        assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
        drop(socket);
        let _listener = Listener::unix(&path, 0o700, 10).expect("a socket");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o700);
        UnixStream::connect(&path).expect("the socket listens");
    }
}
