// SPDX-License-Identifier: BSD-3-Clause
//! Proxies between servers, which form a network of links that can be cut and healed.
//!
//! Each ordered pair of servers has a proxy of its own. A cut behaves like a network failure:
//! either connections are closed and new ones refused, or connections stay open and nothing
//! arrives. Within a connection, bytes are never changed or dropped.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Link {
    Open = 0,
    /// Existing and new connections are closed.
    Closed = 1,
    /// Nothing passes.
    Silent = 2,
}

/// Polling interval of a silent link.
const PAUSE: Duration = Duration::from_millis(2);
/// Connection timeout towards the server.
const PATIENCE: Duration = Duration::from_secs(5);

struct Shared {
    target: SocketAddr,
    state: AtomicU8,
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn is(&self, link: Link) -> bool {
        self.state.load(SeqCst) == link as u8
    }

    fn close_all(&self) {
        for socket in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Forwards connections to a server. Stops when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A proxy on a local address, in front of a server.
    ///
    /// # Errors
    /// If the target's name cannot be resolved, or the host cannot be listened at.
    pub fn new(host: &str, target: &str) -> Result<Proxy, String> {
        let target = target
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or(format!("{target} does not resolve"))?;
        let listener = TcpListener::bind((host, 0))
            .map_err(|error| format!("cannot start a proxy at {host}: {error}"))?;
        let address =
            listener.local_addr().map_err(|error| format!("cannot start a proxy at {host}: {error}"))?;
        let shared = Arc::new(Shared {
            target,
            state: AtomicU8::new(Link::Open as u8),
            is_over: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let its = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &its));
        Ok(Proxy { address, shared })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts the link, or heals it.
    pub fn set(&self, link: Link) {
        self.shared.state.store(link as u8, SeqCst);
        if link == Link::Closed {
            self.shared.close_all();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        self.shared.close_all();
        // Wakes the accepting thread.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.is_over.load(SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        if shared.is(Link::Closed) {
            continue;
        }
        // If the server is unreachable, the client finds the connection closed and retries.
        let Ok(server) = TcpStream::connect_timeout(&shared.target, PATIENCE) else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let handles = (client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(from), Ok(to), Ok(back_to), Ok(back_from)) = handles else { continue };
        {
            let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
            // Drops closed sockets, which would pile up.
            open.retain(|socket| socket.peer_addr().is_ok());
            open.extend([client, server]);
        }
        if shared.is(Link::Closed) {
            // The link was cut in the meantime.
            shared.close_all();
        }
        for (from, to) in [(from, to), (back_from, back_to)] {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || copy(from, to, &shared));
        }
    }
}

/// Copies bytes until one end is closed.
fn copy(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while shared.is(Link::Silent) && !shared.is_over.load(SeqCst) {
            std::thread::sleep(PAUSE);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A temporary partition of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The side that each server is on.
    pub sides: Vec<bool>,
    pub link: Link,
}

impl Cut {
    /// True if the cut separates two servers.
    pub fn parts(&self, one: usize, other: usize) -> bool {
        self.sides[one] != self.sides[other]
    }

    /// A random cut with servers on both sides.
    pub fn random(servers: usize, random: &mut fastrand::Rng) -> Cut {
        let mut sides: Vec<bool> = (0..servers).map(|_| random.bool()).collect();
        if sides.iter().all(|side| *side == sides[0]) {
            let alone = random.usize(..servers);
            sides[alone] = !sides[alone];
        }
        let link = if random.bool() { Link::Closed } else { Link::Silent };
        Cut { sides, link }
    }
}

/// All proxies: `one` reaches `other` through `proxies[one][other]`.
pub struct Network {
    proxies: Vec<Vec<Option<Proxy>>>,
    host: String,
}

impl Network {
    /// Proxies between the servers at these addresses.
    ///
    /// # Errors
    /// As [`Proxy::new`].
    pub fn new(host: &str, addresses: &[String]) -> Result<Network, String> {
        let proxy = |one: usize, other: usize| match one == other {
            true => Ok(None),
            false => Proxy::new(host, &addresses[other]).map(Some),
        };
        let row = |one| (0..addresses.len()).map(|other| proxy(one, other)).collect();
        let proxies = (0..addresses.len()).map(row).collect::<Result<_, String>>()?;
        Ok(Network { proxies, host: host.to_owned() })
    }

    /// The host and port at which a server reaches each other server.
    pub fn peers(&self, server: usize) -> Vec<(String, u16)> {
        self.proxies[server].iter().flatten().map(|proxy| (self.host.clone(), proxy.port())).collect()
    }

    /// Cuts links.
    pub fn cut(&self, cut: &Cut) {
        for (one, row) in self.proxies.iter().enumerate() {
            for (other, proxy) in row.iter().enumerate() {
                if let Some(proxy) = proxy.as_ref().filter(|_| cut.parts(one, other)) {
                    proxy.set(cut.link);
                }
            }
        }
    }

    /// Heals all links.
    pub fn heal(&self) {
        self.proxies.iter().flatten().flatten().for_each(|proxy| proxy.set(Link::Open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server.
    fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = socket.read(&mut byte) {
                        let _ = socket.write_all(&byte);
                    }
                });
            }
        });
        address
    }

    fn ask(socket: &mut TcpStream, byte: u8) -> Option<u8> {
        socket.write_all(&[byte]).ok()?;
        let mut answer = [0];
        socket.read_exact(&mut answer).ok()?;
        Some(answer[0])
    }

    #[test]
    fn links_are_closed_silenced_and_healed() {
        let proxy = Proxy::new("127.0.0.1", &echo()).expect("a proxy");
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens");
        let mut socket = connect();
        assert_eq!(ask(&mut socket, 1), Some(1));
        proxy.set(Link::Closed);
        assert_eq!(ask(&mut socket, 2), None);
        assert_eq!(ask(&mut connect(), 3), None);
        proxy.set(Link::Open);
        let mut socket = connect();
        assert_eq!(ask(&mut socket, 4), Some(4));
        proxy.set(Link::Silent);
        socket.write_all(&[5]).expect("the connection is open");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let mut answer = [0];
        assert!(socket.read_exact(&mut answer).is_err(), "nothing passes");
        proxy.set(Link::Open);
        socket.set_read_timeout(None).expect("a timeout");
        socket.read_exact(&mut answer).expect("the byte sent before arrives");
        assert_eq!(answer, [5]);
    }

    #[test]
    fn every_cut_parts_some() {
        let mut random = fastrand::Rng::with_seed(1);
        for servers in 2..6 {
            for _ in 0..50 {
                let cut = Cut::random(servers, &mut random);
                assert!(cut.sides.contains(&true) && cut.sides.contains(&false), "{cut:?}");
            }
        }
    }
}
