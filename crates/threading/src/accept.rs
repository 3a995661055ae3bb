// SPDX-License-Identifier: BSD-3-Clause
//! Accepting connections: who may come in, and which loop serves them.

use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use arc_swap::ArcSwapOption;
use braid_base::slots::Slots;
use braid_clients::record::Accepted;
use braid_clients::{Address, ClientRecord, Message};
use braid_engine::Engine;
use braid_engine::engine::THREADS_MAX;
use braid_net::listener::{Connection, Listener, set_keepalive};
use braid_net::poller::{Interest, Poller};
use braid_net::tls::{ServerConfig, TlsConnection};
use crossbeam_queue::SegQueue;
use parking_lot::{Mutex, MutexGuard};

use crate::client::Client;
use crate::steps::is_exhaustion;

/// Which loops there are, which of them are given clients, and how many clients each of them has.
pub struct LoopLoads {
    /// Of so many threads, the loops that are given clients; the last one of them is the last loop.
    serving: fn(usize) -> Range<usize>,
    threads: AtomicUsize,
    /// Moves with the number of threads.
    version: AtomicU64,
    /// Held while a client is assigned to a loop and until it waits there, and while the number of threads changes: nobody is sent to a loop
    /// that is about to end.
    assigning: Mutex<()>,
    loops: Slots<Arrivals>,
}

/// What others know of a loop.
#[derive(Default)]
struct Arrivals {
    /// Clients, counted by who hands them out and by who drops them.
    clients: AtomicUsize,
    /// Clients that others have handed over.
    handed_over: SegQueue<Box<Client>>,
}

/// The right to assign clients to loops.
pub struct Assigning<'a> {
    loads: &'a LoopLoads,
    _guard: MutexGuard<'a, ()>,
}

impl Assigning<'_> {
    /// The loop with the fewest clients.
    pub fn least(&self) -> usize {
        let clients = |&index: &usize| self.loads.loops[index].clients.load(Relaxed);
        self.loads.serving().min_by_key(clients).unwrap_or(0)
    }

    /// A loop is about to get a client more.
    pub fn take(&self, index: usize) {
        self.loads.loops[index].clients.fetch_add(1, Relaxed);
    }

    /// Leaves a client for another loop, which has been counted there; its bell is still to be rung.
    pub fn hand_over(&self, to: usize, client: Box<Client>) {
        self.loads.loops[to].handed_over.push(client);
    }
}

impl LoopLoads {
    /// For so many threads. `serving`: the loops that are given clients, for each number of threads.
    pub fn new(threads: usize, serving: fn(usize) -> Range<usize>) -> LoopLoads {
        let loads = LoopLoads {
            serving,
            threads: AtomicUsize::new(threads),
            version: AtomicU64::new(0),
            assigning: Mutex::new(()),
            loops: Slots::new(THREADS_MAX),
        };
        loads.make_room(threads);
        loads
    }

    /// Provides for so many threads.
    pub fn make_room(&self, threads: usize) {
        self.loops.grow(threads, |_| Arrivals::default());
    }

    /// Changes the number of threads: the loops beyond it, and those that are not to serve any more, are to hand their clients over. There has to
    /// be room. Loops notice it when they wake up.
    pub fn set_threads(&self, threads: usize) {
        let _guard = self.assigning.lock();
        self.threads.store(threads, Relaxed);
        self.version.fetch_add(1, Release);
    }

    /// Moves when the number of threads changes.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Number of threads, with or without a loop, that are to stay.
    pub fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// Number of loops, serving or not.
    pub fn loops(&self) -> usize {
        self.serving().end
    }

    /// The loops that are given clients.
    pub fn serving(&self) -> Range<usize> {
        (self.serving)(self.threads())
    }

    /// Nobody else assigns clients, and the number of threads stays, while this is held.
    pub fn assign(&self) -> Assigning<'_> {
        Assigning { loads: self, _guard: self.assigning.lock() }
    }

    /// The next client that another loop has left for this one.
    pub fn take_handed_over(&self, index: usize) -> Option<Box<Client>> {
        self.loops[index].handed_over.pop()
    }

    /// A loop has dropped a client, or does not get it after all.
    pub fn release(&self, index: usize) {
        self.loops[index].clients.fetch_sub(1, Relaxed);
    }
}

/// The sockets that connections come in on. They are polled by one loop and may be exchanged by any thread.
#[derive(Default)]
pub struct Listeners {
    entries: Mutex<Vec<Entry>>,
    /// What TLS handshakes that begin now go by.
    tls: ArcSwapOption<ServerConfig>,
}

struct Entry {
    token: u64,
    listener: Listener,
    is_polled: bool,
}

/// Tokens of listeners count down from here: places of clients are small numbers.
const FIRST_TOKEN: u64 = u64::MAX - 1;

impl Listeners {
    /// Has TLS handshakes go by this from now on; connections that are there stay as they are.
    pub fn set_tls(&self, config: Option<Arc<ServerConfig>>) {
        self.tls.store(config);
    }

    /// The server's side of a TLS connection that has just come in.
    pub(crate) fn handshake(&self) -> Result<TlsConnection, String> {
        let config = self.tls.load_full().ok_or("TLS is not configured")?;
        TlsConnection::new(config)
    }

    /// Closes the listeners that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&Listener) -> bool) {
        self.entries.lock().retain(|entry| keep(&entry.listener));
    }

    /// True if one of the listeners fulfils a condition.
    pub fn any(&self, condition: impl Fn(&Listener) -> bool) -> bool {
        self.entries.lock().iter().any(|entry| condition(&entry.listener))
    }

    /// Adds a listener. Once the loops run, tell the first of them by `Message::Reconfigure`.
    pub fn add(&self, listener: Listener) {
        let mut entries = self.entries.lock();
        // Ever smaller, so that an event of a closed listener is not taken for one of a new listener.
        static NEXT_TOKEN: AtomicU64 = AtomicU64::new(FIRST_TOKEN);
        let token = NEXT_TOKEN.fetch_sub(1, Relaxed);
        entries.push(Entry { token, listener, is_polled: false });
    }

    /// Has all of them polled.
    pub(crate) fn poll(&self, poller: &Poller) {
        for entry in self.entries.lock().iter_mut().filter(|entry| !entry.is_polled) {
            match poller.add(&entry.listener, entry.token, Interest::Read) {
                Ok(()) => entry.is_polled = true,
                Err(error) => log::error!("Cannot accept connections: {error}"),
            }
        }
    }

    /// Has none of them polled.
    pub(crate) fn rest(&self, poller: &Poller) {
        for entry in self.entries.lock().iter_mut().filter(|entry| entry.is_polled) {
            // Not being polled is the aim, however it is reached.
            let _ = poller.remove(&entry.listener);
            entry.is_polled = false;
        }
    }

    /// Takes the connections that wait at one listener.
    pub(crate) fn accept(&self, engine: &Engine, loads: &LoopLoads, token: u64) -> Accepting {
        let entries = self.entries.lock();
        let entry = entries.iter().find(|entry| entry.token == token);
        entry.map_or(Accepting::Fine, |entry| accept(engine, loads, &entry.listener))
    }
}

/// What came of accepting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepting {
    /// All that waited has been taken, or enough for this turn.
    Fine,
    /// The process is out of descriptors: try again later.
    Exhausted,
}

/// Takes waiting connections and hands them to loops.
fn accept(engine: &Engine, loads: &LoopLoads, listener: &Listener) -> Accepting {
    // A storm of connections does not hold up clients: the rest is taken in the next turn.
    let config = &engine.config;
    let most = match listener.is_tls() {
        true => config.max_new_tls_connections_per_cycle(),
        false => config.max_new_connections_per_cycle(),
    };
    for _ in 0..most {
        match listener.accept() {
            Ok(connection) => admit(engine, loads, listener, connection),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) if is_exhaustion(&error) => {
                log::warn!("Error registering fd event for the new client: {error}");
                return Accepting::Exhausted;
            }
            // The connection was gone before it was taken.
            Err(_) => {}
        }
    }
    Accepting::Fine
}

fn admit(engine: &Engine, loads: &LoopLoads, listener: &Listener, connection: Connection) {
    let Connection { socket, peer, local } = connection;
    let is_tls = listener.is_tls();
    // A peer that expects TLS could make nothing of a plain line.
    let refuse = |text: &[u8]| {
        if !is_tls {
            refuse(&socket, text)
        }
    };
    if engine.clients.count() >= engine.config.maxclients() as usize {
        engine.clients.rejected.fetch_add(1, Relaxed);
        refuse(b"-ERR max number of clients reached\r\n");
        return;
    }
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    if engine.config.protected_mode()
        && engine.acl.default_user().no_password
        && peer.is_some_and(|peer| !is_loopback(peer.ip()))
    {
        engine.clients.rejected.fetch_add(1, Relaxed);
        refuse(PROTECTED);
        return;
    }
    let keepalive = engine.config.tcp_keepalive_seconds();
    if peer.is_some() && keepalive > 0 {
        // A connection that cannot be probed is still a connection.
        let _ = set_keepalive(&socket, keepalive);
    }
    let unix =
        || listener.path().map_or(Address::Unknown, |path| Address::Unix(path.to_string_lossy().into()));
    let address = peer.map_or_else(unix, Address::Tcp);
    let local_address = local.map_or_else(unix, Address::Tcp);
    let now = braid_base::clock::unix_ms();
    let id = engine.clients.next_id();
    let record = Arc::new(ClientRecord::new(id, socket.as_raw_fd(), address, local_address, now));
    let assigning = loads.assign();
    let target = assigning.least();
    assigning.take(target);
    record.io_thread.store(target as u32, Relaxed);
    record.set_mailbox(&engine.mailboxes[target]);
    engine.clients.accepted.fetch_add(1, Relaxed);
    engine.clients.add(Arc::clone(&record));
    engine.mailboxes[target].send(Message::Accepted(Accepted { socket, is_tls, record }));
}

const PROTECTED: &[u8] = b"-DENIED Braid is running in protected mode because protected mode is enabled and no password is set \
for the default user. In this mode connections are only accepted from the loopback interface. To connect from other \
computers: 1) switch protected mode off by 'CONFIG SET protected-mode no' from the machine the server runs on, if it cannot \
be reached from the internet (add CONFIG REWRITE to keep it); 2) or set 'protected-mode no' in the configuration file and \
restart; 3) or start the server with '--protected-mode no' for a test; 4) or set a password for the default user. Only one \
of these is needed.\r\n";

/// Says why and hangs up; whether the peer hears it is its own business.
fn refuse(socket: &OwnedFd, text: &[u8]) {
    let _ =
        rustix::net::send(socket, text, rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT);
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use braid_config::Config;
    use braid_engine::engine::Start;

    use super::*;

    /// How many connections each call takes of nine that wait, until none is left.
    fn takes(settings: &str, listener: Listener, connect: impl Fn()) -> Vec<u64> {
        let config = Config::new();
        config.load_text(&format!("io-threads 2\nshards 16\n{settings}\n")).expect("valid settings");
        let engine =
            Engine::new(Arc::new(config), braid_commands::table(), Start::default()).expect("an engine");
        let loads = LoopLoads::new(2, |threads| 0..threads);
        let listeners = Listeners::default();
        listeners.add(listener);
        let token = listeners.entries.lock()[0].token;
        (0..9).for_each(|_| connect());
        let accepted = || engine.clients.accepted.load(Relaxed);
        std::iter::from_fn(|| {
            let before = accepted();
            assert_eq!(listeners.accept(&engine, &loads, token), Accepting::Fine);
            Some(accepted() - before).filter(|&count| count > 0)
        })
        .collect()
    }

    #[test]
    fn a_turn_takes_so_many_connections_at_most() {
        let tcp = |settings: &str, is_tls: bool| {
            let listener = Listener::tcp("127.0.0.1", 0, 100).expect("a port").with_tls(is_tls);
            let port = listener.port().expect("its number");
            let streams = Mutex::new(Vec::new());
            // Connected is who stands in the listener's queue.
            takes(settings, listener, || {
                streams.lock().push(TcpStream::connect(("127.0.0.1", port)).expect("a connection"));
            })
        };
        assert_eq!(tcp("", false), [9]);
        assert_eq!(tcp("max-new-connections-per-cycle 4", false), [4, 4, 1]);
        assert_eq!(
            tcp("max-new-connections-per-cycle 3\nmax-new-tls-connections-per-cycle 9", false),
            [3, 3, 3]
        );
        assert_eq!(tcp("", true), [1; 9]);
        assert_eq!(
            tcp("max-new-tls-connections-per-cycle 4\nmax-new-connections-per-cycle 9", true),
            [4, 4, 1]
        );
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = Listener::unix(&path, 0, 100).expect("a socket");
        let streams = Mutex::new(Vec::new());
        let taken = takes("max-new-connections-per-cycle 5", listener, || {
            streams.lock().push(UnixStream::connect(&path).expect("a connection"));
        });
        assert_eq!(taken, [5, 4]);
    }
}
