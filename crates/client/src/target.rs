// SPDX-License-Identifier: BSD-3-Clause
//! A server's address, and the start of a connection.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::stream::Stream;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// A message for the user that states why a server is unreachable.
pub fn cannot_connect(address: &Address, error: &io::Error) -> String {
    let error_text = error.to_string();
    // The error number adds nothing to the text.
    let reason = error_text.split(" (os error ").next().unwrap_or_default();
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "; no server listens there (choose another one with -h, -p or -s)"
        }
        _ => "",
    };
    format!("cannot connect to {address}: {reason}{advice}")
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(out, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(out, "{host}:{port}"),
            Address::Unix(path) => write!(out, "{}", path.display()),
        }
    }
}

/// A server, and the settings for the start of every connection to it.
#[derive(Clone)]
pub struct Target {
    pub address: Address,
    pub user: Option<String>,
    pub password: Option<String>,
    pub db: u32,
    /// Start with HELLO 3.
    pub resp3: bool,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Timeout of a connection attempt.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

impl Target {
    /// A server on this machine, with default settings.
    pub fn local(port: u16) -> Target {
        let address = Address::Tcp { host: "127.0.0.1".into(), port };
        Target { address, user: None, password: None, db: 0, resp3: false, tls: None }
    }

    /// The commands sent at the start of every connection; each has one reply.
    pub fn greeting(&self) -> Vec<Vec<String>> {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        let mut commands = Vec::new();
        if let Some(password) = &self.password {
            match &self.user {
                Some(user) => commands.push(words(&["AUTH", user, password])),
                None => commands.push(words(&["AUTH", password])),
            }
        }
        if self.resp3 {
            commands.push(words(&["HELLO", "3"]));
        }
        if self.db != 0 {
            commands.push(words(&["SELECT", &self.db.to_string()]));
        }
        commands
    }

    /// The socket addresses to try, in order.
    ///
    /// # Errors
    /// If the host name cannot be resolved, or the socket's path is too long.
    pub fn resolve(&self) -> io::Result<Vec<SockAddr>> {
        match &self.address {
            Address::Unix(path) => Ok(vec![SockAddr::unix(path)?]),
            Address::Tcp { host, port } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.map(SockAddr::from).collect())
            }
        }
    }

    /// Connects and waits for the connection. Also returns the address that accepted, the first
    /// to do so. Does not send the greeting.
    ///
    /// # Errors
    /// If the name cannot be resolved or no address accepts in time; the error is the last
    /// address's.
    pub fn connect(&self) -> io::Result<(Stream, SockAddr)> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in self.resolve()? {
            let attempt = socket_for(&address).and_then(|socket| {
                socket.connect_timeout(&address, CONNECT_PATIENCE)?;
                self.dress(socket)
            });
            match attempt {
                Ok(stream) => return Ok((stream, address)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Starts a non-blocking connect: writable means connected (or failed, which the first write
    /// reports).
    ///
    /// # Errors
    /// If the connection fails at once. Later failures are those of the first write.
    pub fn connect_later(&self, address: &SockAddr) -> io::Result<Stream> {
        let socket = socket_for(address)?;
        if address.is_unix() {
            // Unix sockets connect immediately or not at all, so a non-blocking attempt that
            // fails would have to be repeated.
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            return self.dress(socket);
        }
        socket.set_nonblocking(true)?;
        match socket.connect(address) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                Err(error)
            }
            _ => self.dress(socket),
        }
    }

    fn dress(&self, socket: Socket) -> io::Result<Stream> {
        let tls = match &self.tls {
            None => None,
            Some((config, name)) => {
                let mut connection =
                    ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
                connection.set_buffer_limit(None);
                Some(Box::new(connection))
            }
        };
        Ok(Stream::new(socket, tls))
    }

    /// True if the server probably runs on this machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Unix(_) => true,
            Address::Tcp { .. } => self.resolve().is_ok_and(|addresses| {
                addresses
                    .iter()
                    .any(|address| address.as_socket().is_some_and(|address| address.ip().is_loopback()))
            }),
        }
    }
}

fn socket_for(address: &SockAddr) -> io::Result<Socket> {
    let domain = address.domain();
    let protocol = (domain != Domain::UNIX).then_some(Protocol::TCP);
    let socket = Socket::new(domain, Type::STREAM, protocol)?;
    if protocol.is_some() {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connection_is_explained() {
        let address = Address::Tcp { host: "127.0.0.1".into(), port: 1 };
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(
            cannot_connect(&address, &refused),
            "cannot connect to 127.0.0.1:1: Connection refused; no server listens there (choose another one with -h, -p or -s)"
        );
        assert_eq!(cannot_connect(&address, &io::Error::other("odd")), "cannot connect to 127.0.0.1:1: odd");
    }

    #[test]
    fn greeting_contains_the_requested_commands() {
        let mut target = Target::local(6379);
        assert!(target.greeting().is_empty());
        target.password = Some("secret".into());
        target.db = 3;
        assert_eq!(target.greeting(), [vec!["AUTH", "secret"], vec!["SELECT", "3"]]);
        target.user = Some("me".into());
        target.resp3 = true;
        target.db = 0;
        assert_eq!(target.greeting(), [vec!["AUTH", "me", "secret"], vec!["HELLO", "3"]]);
    }

    #[test]
    fn loopback_and_unix_sockets_are_local() {
        assert!(Target::local(1).is_local());
        let mut target = Target::local(1);
        target.address = Address::Unix("/tmp/x".into());
        assert!(target.is_local());
        target.address = Address::Tcp { host: "192.0.2.1".into(), port: 1 };
        assert!(!target.is_local());
        assert_eq!(target.address.to_string(), "192.0.2.1:1");
    }
}
