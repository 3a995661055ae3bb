// SPDX-License-Identifier: BSD-3-Clause
//! `braid-bench floor`: a server that gives fixed replies, the least that any server does: wait,
//! receive, send.
//!
//! It looks at the first request of a connection for the reply and for the length of all further
//! ones, which are alike in a benchmark. What another server takes beyond this program's processor
//! time is its own; the rest is the kernel's (`bench/floor`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use braid_net::poller::{Interest, Poller};
use memchr::memchr;

/// Bytes received at once.
const BUFFER: usize = 64 * 1024;
/// The listener's token; clients have the numbers of their places.
const LISTENER: u64 = u64::MAX;
/// Time until a signal is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// A connection.
struct Client {
    stream: TcpStream,
    /// Bytes of a request that is not complete.
    rest: Vec<u8>,
    /// The first bytes of the requests, their length, and the reply to each.
    known: Option<(Vec<u8>, usize, Vec<u8>)>,
}

/// The line at the start, without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b'\n', bytes)?;
    Some((bytes[..end].strip_suffix(b"\r")?, &bytes[end + 1..]))
}

/// The number behind a first byte.
fn number(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}

/// Length and name of the first request, if it is complete.
fn request(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (head, mut left) = line(bytes)?;
    let (mut name, count) = (&b""[..], number(head)?);
    for index in 0..count {
        let (head, content) = line(left)?;
        let len = number(head)?;
        if index == 0 {
            name = content.get(..len)?;
        }
        left = content.get(len.checked_add(2)?..)?;
    }
    Some((bytes.len() - left.len(), name))
}

/// The reply to a command; `value` is that of GET.
fn reply(name: &[u8], value: &[u8]) -> Vec<u8> {
    if name.eq_ignore_ascii_case(b"get") {
        [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
    } else if name.eq_ignore_ascii_case(b"ping") {
        b"+PONG\r\n".to_vec()
    } else if name.eq_ignore_ascii_case(b"config") {
        b"*0\r\n".to_vec()
    } else {
        b"+OK\r\n".to_vec()
    }
}

impl Client {
    /// Appends the replies to all complete requests of `received`, and keeps the rest.
    fn answer(&mut self, received: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let joined;
        let mut bytes = received;
        if !self.rest.is_empty() {
            joined = [&self.rest[..], received].concat();
            (bytes, self.rest) = (&joined[..], Vec::new());
        }
        while !bytes.is_empty() {
            match &self.known {
                Some((head, len, reply)) if bytes.len() >= *len && bytes.starts_with(head) => {
                    out.extend_from_slice(reply);
                    bytes = &bytes[*len..];
                }
                _ => {
                    let Some((len, name)) = request(bytes) else { break };
                    // With the length of the first argument after the name.
                    let head = bytes[..(name.as_ptr().addr() - bytes.as_ptr().addr()) + name.len()].to_vec();
                    self.known = Some((head, len, reply(name, value)));
                }
            }
        }
        self.rest = bytes.to_vec();
    }
}

/// Serves until `stop`. GET returns `value_bytes` bytes.
///
/// # Errors
/// If the port is in use, or the kernel refuses a wait.
pub fn run(port: u16, value_bytes: usize, stop: &AtomicBool) -> io::Result<()> {
    let value = vec![b'x'; value_bytes];
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let mut poller = Poller::new()?;
    poller.add(&listener, LISTENER, Interest::Read)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let (mut buffer, mut out) = (vec![0; BUFFER], Vec::new());
    while !stop.load(Relaxed) {
        for index in 0..poller.wait(Some(LOOK))? {
            let token = poller.event(index).token;
            if token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let place = clients.iter().position(Option::is_none).unwrap_or(clients.len());
                    poller.add(&stream, place as u64, Interest::Read)?;
                    clients.resize_with(clients.len().max(place + 1), || None);
                    clients[place] = Some(Client { stream, rest: Vec::new(), known: None });
                }
                continue;
            }
            let place = token as usize;
            let Some(client) = clients.get_mut(place).and_then(Option::as_mut) else { continue };
            out.clear();
            let is_open = match client.stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(received) => {
                    client.answer(&buffer[..received], &value, &mut out);
                    client.stream.write_all(&out).is_ok()
                }
                Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            };
            if !is_open {
                // Closing ends the watch.
                clients[place] = None;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_get_their_replies_however_they_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let text = b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\nk:1\r\n*2\r\n$3\r\nGET\r\n$3\r\nk:2\r\n\
                     *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n";
        for cut in 0..text.len() {
            let mut client =
                Client { stream: stream.try_clone().expect("cloned"), rest: Vec::new(), known: None };
            let mut out = Vec::new();
            client.answer(&text[..cut], b"xy", &mut out);
            client.answer(&text[cut..], b"xy", &mut out);
            assert_eq!(out, b"+PONG\r\n$2\r\nxy\r\n$2\r\nxy\r\n+OK\r\n", "{cut}");
        }
    }

    #[test]
    fn a_client_is_served() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| run(free.port(), 3, &stop));
            let mut client = (0..100).find_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                TcpStream::connect(free).ok()
            });
            let client = client.as_mut().expect("connected");
            client.write_all(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n").expect("sent");
            let mut reply = [0; 9];
            client.read_exact(&mut reply).expect("received");
            assert_eq!(&reply, b"$3\r\nxxx\r\n");
            stop.store(true, Relaxed);
            server.join().expect("no panic").expect("no error");
        });
    }
}
