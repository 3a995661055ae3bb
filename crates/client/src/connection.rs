// SPDX-License-Identifier: BSD-3-Clause
//! A blocking connection: one command, one reply. For the tools' queries outside their main work.

use std::io;
use std::time::Duration;

use crate::reply::{Arrival, Reply};
use crate::stream::Stream;
use crate::target::Target;
use crate::value::Value;
use socket2::SockAddr;

/// A connection that sends one command at a time and waits for its reply.
pub struct Connection {
    stream: Stream,
    address: SockAddr,
    received: Vec<u8>,
    /// How much of the next reply is in `received`.
    arrival: Arrival,
    patience: Duration,
}

/// Timeout of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

impl Connection {
    /// Connects, sends the greeting (AUTH, HELLO, SELECT) and checks the replies.
    ///
    /// # Errors
    /// If the server cannot be reached, does not answer in time, or refuses the greeting.
    pub fn open(target: &Target) -> io::Result<Connection> {
        Connection::open_within(target, PATIENCE)
    }

    /// As [`Connection::open`], with a timeout of `patience` for replies.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn open_within(target: &Target, patience: Duration) -> io::Result<Connection> {
        let (stream, address) = target.connect()?;
        stream.socket().set_read_timeout(Some(patience))?;
        let (received, arrival) = Default::default();
        let mut connection = Connection { stream, address, received, arrival, patience };
        for command in target.greeting() {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            if let Value::Error(text) = connection.command(&words)? {
                return Err(io::Error::other(format!("{}: {text}", words[0])));
            }
        }
        Ok(connection)
    }

    /// The address that accepted the connection.
    pub fn address(&self) -> &SockAddr {
        &self.address
    }

    /// Sends one command and waits for its reply; an error reply is a value.
    ///
    /// # Errors
    /// If the connection fails, no reply comes in time, or it is not a Redis reply.
    pub fn command<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        encode(words, &mut bytes);
        self.send(&bytes)?;
        self.receive()
    }

    /// Sends encoded commands; their replies must be received in order. Keep them few enough that
    /// the socket buffers hold their replies: the server may stop reading until the replies are
    /// received.
    ///
    /// # Errors
    /// If the connection fails, or the server takes no bytes in time.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.stream.write(&bytes[sent..])?;
        }
        Ok(())
    }

    /// As [`Connection::command`], but an error reply is an error.
    ///
    /// # Errors
    /// The text of an error reply; otherwise as [`Connection::command`].
    pub fn expect<T: AsRef<[u8]>>(&mut self, words: &[T]) -> io::Result<Value> {
        match self.command(words)? {
            Value::Error(text) => Err(io::Error::other(text)),
            value => Ok(value),
        }
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// If the connection fails or ends, no reply comes in time, or it is not a Redis reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        let mut chunk = [0; 16 * 1024];
        while !self.arrival.is_complete(&self.received) {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection",
                    ));
                }
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let text = format!("no reply within {} seconds", self.patience.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(error) => return Err(error),
            }
        }
        let Ok((value, len)) = Reply::parse(&self.received) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server does not speak the Redis protocol",
            ));
        };
        self.arrival = Arrival::default();
        self.received.drain(..len);
        Ok(value.into())
    }
}

/// Appends an encoded command.
pub fn encode<T: AsRef<[u8]>>(words: &[T], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words.iter().map(AsRef::as_ref) {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
