// SPDX-License-Identifier: BSD-3-Clause
//! A blocking client that works in bytes: it sends exactly the given bytes and returns exactly
//! the received ones.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::value::{Arrival, ParseError, Value};
use crate::words::{encode, line, words};

/// Time limit for a reply. Long, because a busy machine is not the server's fault.
pub const REPLY_PATIENCE: Duration = Duration::from_secs(20);

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection.
pub struct RawClient {
    socket: Socket,
    received: Vec<u8>,
    /// Length of the prefix of `received` that has already been returned as replies.
    used: usize,
    /// How much of the next reply has arrived.
    arrival: Arrival,
}

/// Why no reply was read.
#[derive(Debug)]
pub enum ReadError {
    /// The server closed the connection. Holds the unread bytes, which do not form a complete
    /// reply.
    Closed(Vec<u8>),
    /// Nothing arrived within the time limit.
    TimedOut,
    /// The received bytes are not valid RESP.
    Malformed(String),
}

impl RawClient {
    /// Connects over TCP with Nagle's algorithm off, so that each write is a segment of its own.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn tcp(address: SocketAddr) -> std::io::Result<RawClient> {
        let socket = TcpStream::connect_timeout(&address, REPLY_PATIENCE)?;
        socket.set_nodelay(true)?;
        RawClient::over(Socket::Tcp(socket))
    }

    /// Connects over a unix socket.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn unix(path: &Path) -> std::io::Result<RawClient> {
        RawClient::over(Socket::Unix(UnixStream::connect(path)?))
    }

    /// Wraps an existing TCP connection.
    ///
    /// # Errors
    /// If the socket's timeouts cannot be set.
    pub fn from_tcp(socket: TcpStream) -> std::io::Result<RawClient> {
        RawClient::over(Socket::Tcp(socket))
    }

    fn over(socket: Socket) -> std::io::Result<RawClient> {
        let mut client = RawClient { socket, received: Vec::new(), used: 0, arrival: Arrival::default() };
        client.set_patience(REPLY_PATIENCE)?;
        Ok(client)
    }

    /// Sets the time limit for reads and writes.
    ///
    /// # Errors
    /// If the time is zero.
    pub fn set_patience(&mut self, patience: Duration) -> std::io::Result<()> {
        match &self.socket {
            Socket::Tcp(socket) => {
                socket.set_read_timeout(Some(patience))?;
                socket.set_write_timeout(Some(patience))
            }
            Socket::Unix(socket) => {
                socket.set_read_timeout(Some(patience))?;
                socket.set_write_timeout(Some(patience))
            }
        }
    }

    /// Sends bytes as they are; panics if the write fails.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the connection accepts the bytes");
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write_all(bytes),
            Socket::Unix(socket) => socket.write_all(bytes),
        }
    }

    /// Half-closes the connection: nothing more will be sent, but replies can still be read.
    pub fn finish_sending(&mut self) {
        let done = match &self.socket {
            Socket::Tcp(socket) => socket.shutdown(std::net::Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(std::net::Shutdown::Write),
        };
        done.expect("the connection is open");
    }

    /// The client's own address, as the server shows it in CLIENT LIST (TCP only).
    pub fn local_address(&self) -> String {
        match &self.socket {
            Socket::Tcp(socket) => {
                socket.local_addr().expect("a connected socket has an address").to_string()
            }
            Socket::Unix(_) => String::new(),
        }
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        let mut chunk = [0; 16 * 1024];
        let got = loop {
            let result = match &mut self.socket {
                Socket::Tcp(socket) => socket.read(&mut chunk),
                Socket::Unix(socket) => socket.read(&mut chunk),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ReadError::TimedOut);
                }
                Err(_) => break 0,
                Ok(got) => break got,
            }
        };
        if got == 0 {
            return Err(ReadError::Closed(self.received[self.used..].to_vec()));
        }
        if self.used == self.received.len() {
            self.received.clear();
            self.used = 0;
        }
        self.received.extend_from_slice(&chunk[..got]);
        Ok(())
    }

    /// The next reply, parsed and as raw bytes.
    ///
    /// # Errors
    /// If the connection ends or fails, no reply arrives in time, or it is not one.
    pub fn try_read_raw(&mut self) -> Result<(Value, Vec<u8>), ReadError> {
        while !self.arrival.is_complete(&self.received[self.used..]) {
            self.fill()?;
        }
        match Value::parse(&self.received[self.used..]) {
            Ok((value, len)) => {
                let raw = self.take(len);
                Ok((value, raw))
            }
            Err(ParseError::Malformed(what)) => Err(ReadError::Malformed(what)),
            Err(ParseError::Incomplete) => Err(ReadError::Malformed("a complete reply is incomplete".into())),
        }
    }

    /// The next received bytes.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let bytes = self.received[self.used..self.used + len].to_vec();
        self.used += len;
        self.arrival = Arrival::default();
        bytes
    }

    /// The next reply.
    ///
    /// # Errors
    /// As [`RawClient::try_read_raw`].
    pub fn try_read(&mut self) -> Result<Value, ReadError> {
        self.try_read_raw().map(|(value, _)| value)
    }

    /// The next reply; panics if there is none.
    #[track_caller]
    pub fn read(&mut self) -> Value {
        match self.try_read() {
            Ok(value) => value,
            Err(error) => panic!("no reply: {error:?}"),
        }
    }

    /// The unread bytes that have arrived, without waiting for more.
    pub fn read_arrived(&mut self) -> Vec<u8> {
        let set_nonblocking = |socket: &Socket, on| match socket {
            Socket::Tcp(socket) => socket.set_nonblocking(on),
            Socket::Unix(socket) => socket.set_nonblocking(on),
        };
        set_nonblocking(&self.socket, true).expect("the connection is open");
        while self.fill().is_ok() {}
        set_nonblocking(&self.socket, false).expect("the connection is open");
        self.take(self.received.len() - self.used)
    }

    /// The next `len` bytes as they came; fewer if the connection ends first.
    pub fn read_bytes(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() - self.used < len {
            if self.fill().is_err() {
                break;
            }
        }
        self.take(len.min(self.received.len() - self.used))
    }

    /// All bytes up to the end of the connection; `None` if the server does not close it in time.
    pub fn read_to_close(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(ReadError::Closed(_)) => return Some(self.take(self.received.len() - self.used)),
                Err(_) => return None,
            }
        }
    }

    /// Sends a command given as text and returns its reply: `client.call("SET k \"a b\"")`.
    #[track_caller]
    pub fn call(&mut self, text: &str) -> Value {
        let arguments = words(text);
        self.call_arguments(&arguments)
    }

    /// Sends a command given as arguments and returns its reply.
    #[track_caller]
    pub fn call_arguments<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        self.send(&encode(arguments));
        match self.try_read() {
            Ok(value) => value,
            Err(error) => {
                let mut text = line(arguments);
                text.truncate(200);
                panic!("no reply to {text}: {error:?}")
            }
        }
    }

    /// Sends a command given as text and panics unless the reply is `+OK`.
    #[track_caller]
    pub fn ok(&mut self, text: &str) {
        assert_eq!(self.call(text), Value::ok(), "reply to {text}");
    }

    /// A section of INFO, or all of it for `""`.
    #[track_caller]
    pub fn info(&mut self, section: &str) -> String {
        self.call(&format!("INFO {section}")).text()
    }

    /// The text of one INFO field.
    #[track_caller]
    pub fn info_field(&mut self, section: &str, field: &str) -> Option<String> {
        let prefix = format!("{field}:");
        self.info(section).lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    }
}
