// SPDX-License-Identifier: BSD-3-Clause
//! A connection to another server, the target of MIGRATE for example: requests out, reply lines in,
//! each within the time-out. The crate `process` opens it.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use braid_resp::request;

use crate::outgoing::Outgoing;

/// Bytes collected before they are sent. Longer arguments are sent without being copied.
const CHUNK_BYTES: usize = 64 << 10;
/// Longest reply line accepted.
const LINE_MAX: usize = 64 << 10;

/// Name and password for the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// `None` for AUTH, which logs in as the default user.
    pub name: Option<Vec<u8>>,
    pub password: Vec<u8>,
}

/// A server, the user to log in as, and whether to use TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub credentials: Option<Credentials>,
    pub tls: bool,
}

/// Why an exchange with the target ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    pub writing: bool,
    pub timed_out: bool,
}

/// A connection to a target.
pub struct Connection {
    /// The database selected there, if known.
    pub selected: Option<i64>,
    pub last_used: Instant,
    stream: Outgoing,
    to_send: Vec<u8>,
    received: Vec<u8>,
    /// Number of bytes of `received` already consumed.
    used: usize,
    /// How long writes go on beyond their timeout.
    persistence: Option<Persistence>,
}

/// A peer that takes no bytes is waited for in steps of the write timeout.
struct Persistence {
    /// For how long at most.
    patience: Duration,
    /// Asked after each step, with the time waited so far: false ends the wait.
    goes_on: Box<dyn Fn(Duration) -> bool + Send>,
}

impl Connection {
    /// For an open connection on which nothing has been sent.
    pub fn new(stream: Outgoing) -> Connection {
        Connection {
            selected: None,
            last_used: Instant::now(),
            stream,
            to_send: Vec::new(),
            received: Vec::new(),
            used: 0,
            persistence: None,
        }
    }

    /// Sets the timeout of each read and each write.
    ///
    /// # Errors
    /// If the timeout is zero.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), Broken> {
        self.persistence = None;
        let failed = Broken { writing: true, timed_out: false };
        self.stream.set_timeouts(timeout, timeout).map_err(|_| failed)
    }

    /// Closes the connection at once: requests that the peer has not received yet never arrive.
    pub fn abort(self) {
        self.stream.abort();
    }

    /// Sets the timeout of each read, which can be repeated, and lets writes wait for `patience`,
    /// as long as `goes_on` says so whenever the timeout has passed without progress.
    ///
    /// # Errors
    /// If the timeout is zero.
    pub fn set_steps(
        &mut self,
        timeout: Duration,
        patience: Duration,
        goes_on: impl Fn(Duration) -> bool + Send + 'static,
    ) -> Result<(), Broken> {
        self.set_timeout(timeout)?;
        self.persistence = Some(Persistence { patience, goes_on: Box::new(goes_on) });
        Ok(())
    }

    /// Logs in, unless there is no password.
    ///
    /// # Errors
    /// If the connection breaks or a read times out. The inner `Err` is the target's error reply.
    pub fn log_in(&mut self, user: &str, password: &str) -> Result<Result<(), String>, Broken> {
        let Some(words) = request::auth(user, password) else { return Ok(Ok(())) };
        self.request(&words)?;
        self.flush()?;
        let line = self.line()?;
        Ok(line.strip_prefix(b"-").map_or(Ok(()), |error| Err(String::from_utf8_lossy(error).into_owned())))
    }

    /// Queues a request; sends a part of the queue when it has grown long.
    ///
    /// # Errors
    /// If a part of the queue was sent, and the connection broke or the write timed out.
    pub fn request(&mut self, args: &[&[u8]]) -> Result<(), Broken> {
        request::push_count(&mut self.to_send, args.len());
        for arg in args {
            if arg.len() < CHUNK_BYTES {
                request::push_bulk(&mut self.to_send, arg);
            } else {
                self.to_send.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                self.flush()?;
                self.send(arg)?;
                self.to_send.extend_from_slice(b"\r\n");
            }
        }
        if self.to_send.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Queues an encoded request.
    ///
    /// # Errors
    /// If a part of the queue was sent, and the connection broke or the write timed out.
    pub fn push_encoded(&mut self, request: &[u8]) -> Result<(), Broken> {
        self.to_send.extend_from_slice(request);
        if self.to_send.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// If the connection breaks or the write times out. The queue is empty afterwards in any case.
    pub fn flush(&mut self) -> Result<(), Broken> {
        let bytes = std::mem::take(&mut self.to_send);
        let sent = self.send(&bytes);
        self.to_send = bytes;
        self.to_send.clear();
        sent
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        // The first time-out since the last progress.
        let mut stalled = None;
        loop {
            let sent = match bytes {
                [] => self.stream.flush().map(|()| None),
                _ => self.stream.write(bytes).map(Some),
            };
            match sent {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err(Broken { writing: true, timed_out: false }),
                Ok(Some(count)) => (bytes, stalled) = (&bytes[count..], None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let timed_out = is_timeout(error.kind());
                    let since = *stalled.get_or_insert_with(Instant::now);
                    let waited = since.elapsed();
                    let may_wait = |wait: &Persistence| waited < wait.patience && (wait.goes_on)(waited);
                    if !timed_out || !self.persistence.as_ref().is_some_and(may_wait) {
                        return Err(Broken { writing: true, timed_out });
                    }
                }
            }
        }
    }

    /// The next reply, which must be a line, without its line end.
    ///
    /// # Errors
    /// If the connection breaks or ends, no line arrives within the timeout, or the line is too
    /// long.
    pub fn line(&mut self) -> Result<Vec<u8>, Broken> {
        let broken = |timed_out| Broken { writing: false, timed_out };
        let mut searched = self.used;
        loop {
            if let Some(at) = self.received[searched..].iter().position(|&byte| byte == b'\n') {
                let end = searched + at;
                let line = self.received[self.used..end].trim_ascii_end().to_vec();
                self.used = end + 1;
                if self.used == self.received.len() {
                    self.received.clear();
                    self.used = 0;
                }
                return Ok(line);
            }
            searched = self.received.len();
            if searched - self.used > LINE_MAX {
                return Err(broken(false));
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(broken(false)),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(is_timeout(error.kind()))),
            }
        }
    }

    /// True if every reply has been read, so that the next one belongs to the next request.
    pub fn is_clean(&self) -> bool {
        self.received.is_empty() && self.to_send.is_empty()
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::outgoing::ConnectOptions;

    fn connected(port: u16) -> Connection {
        let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
        Connection::new(Outgoing::connect("127.0.0.1", port, &options).expect("connected"))
    }

    #[test]
    fn requests_of_any_length_are_sent_and_reply_lines_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let mut connection = connected(port);
        connection.set_timeout(Duration::from_millis(50)).expect("set");
        let (mut peer, _) = listener.accept().expect("accepted");
        let long = vec![b'x'; 3 * CHUNK_BYTES];
        let mut expected = Vec::new();
        for args in [&[&b"A"[..], b"b"][..], &[b"C", &long, b"d"]] {
            request::push(&mut expected, args);
        }
        let length = expected.len();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; length];
            peer.read_exact(&mut received).expect("both requests");
            peer.write_all(b"+OK\r\n-ERR some").expect("sent");
            (received, peer)
        });
        connection.request(&[b"A", b"b"]).expect("taken");
        connection.request(&[b"C", &long, b"d"]).expect("taken");
        connection.flush().expect("sent");
        let (received, mut peer) = reader.join().expect("no panic");
        assert!(received == expected);
        assert_eq!(connection.line(), Ok(b"+OK".to_vec()));
        assert!(!connection.is_clean() || connection.received.is_empty());
        assert_eq!(connection.line(), Err(Broken { writing: false, timed_out: true }));
        peer.write_all(b"thing\r\n").expect("sent");
        assert_eq!(connection.line(), Ok(b"-ERR something".to_vec()));
        assert!(connection.is_clean());
        drop(peer);
        assert_eq!(connection.line(), Err(Broken { writing: false, timed_out: false }));
    }

    /// More than socket buffers hold is sent to a peer that does not read.
    #[test]
    fn a_write_waits_for_a_peer_as_long_as_that_makes_sense() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let long = vec![b'x'; 64 << 20];
        let (step, hour) = (Duration::from_millis(5), Duration::from_secs(3600));
        let open = |goes_on: Box<dyn Fn(Duration) -> bool + Send>| {
            let mut connection = connected(port);
            connection.set_steps(step, hour, goes_on).expect("set");
            (connection, listener.accept().expect("accepted").0)
        };
        let timed_out = Err(Broken { writing: true, timed_out: true });
        let (mut connection, _peer) = open(Box::new(|waited| waited < 4 * Duration::from_millis(5)));
        assert_eq!(connection.request(&[&long]), timed_out);
        // From the second question on the peer reads: nothing is lost or sent twice.
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&asked);
        let count = move |_| count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 1_000_000;
        let (mut connection, mut peer) = open(Box::new(count));
        let mut expected = Vec::new();
        request::push(&mut expected, &[&long]);
        let reader = std::thread::spawn(move || {
            while asked.load(std::sync::atomic::Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            let mut received = vec![0; expected.len()];
            peer.read_exact(&mut received).expect("the request");
            received == expected
        });
        connection.request(&[&long]).expect("sent");
        connection.flush().expect("sent");
        assert!(reader.join().expect("no panic"), "the request arrives unchanged");
        // A plain timeout again.
        let (mut connection, _peer) = open(Box::new(|_| true));
        connection.set_timeout(step).expect("set");
        assert_eq!(connection.request(&[&long]), timed_out);
    }
}
