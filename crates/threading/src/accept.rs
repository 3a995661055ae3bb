// SPDX-License-Identifier: BSD-3-Clause
//! Accepting connections: which connections are admitted, and which loop serves them.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwapOption;
use braid_clients::record::Accepted;
use braid_clients::{Address, ClientRecord, Message, Registry, client_flags};
use braid_config::{Config, subnets};
use braid_executor::Engine;
use braid_net::listener::{Connection, Listener, set_keepalive};
use braid_net::poller::{Interest, Poller};
use braid_net::tls::{ServerConfig, TlsConnection};
use parking_lot::Mutex;

use crate::loop_loads::LoopLoads;

/// The listening sockets. One loop polls them; any thread may replace them.
#[derive(Default)]
pub struct Listeners {
    entries: Mutex<Vec<Entry>>,
    /// Settings for new TLS handshakes.
    tls: ArcSwapOption<ServerConfig>,
}

struct Entry {
    token: u64,
    listener: Listener,
    is_polled: bool,
}

/// Poller tokens of listeners count down from here; client places are small numbers.
const FIRST_TOKEN: u64 = u64::MAX - 1;

impl Listeners {
    /// Sets the configuration of TLS handshakes; existing connections keep theirs.
    pub fn set_tls(&self, config: Option<Arc<ServerConfig>>) {
        self.tls.store(config);
    }

    /// The server's side of a new TLS connection.
    pub(crate) fn handshake(&self) -> Result<TlsConnection, String> {
        let config = self.tls.load_full().ok_or("TLS is not configured")?;
        TlsConnection::new(config)
    }

    /// Keeps only the listeners for which `keep` returns true.
    pub fn retain(&self, keep: impl Fn(&Listener) -> bool) {
        self.entries.lock().retain(|entry| keep(&entry.listener));
    }

    /// True if a condition holds for any listener.
    pub fn any(&self, condition: impl Fn(&Listener) -> bool) -> bool {
        self.entries.lock().iter().any(|entry| condition(&entry.listener))
    }

    /// Adds a listener. Once the loops run, the first loop must be sent `Message::Reconfigure`.
    pub fn add(&self, listener: Listener) {
        let mut entries = self.entries.lock();
        // Tokens are never reused, so an event of a closed listener is not attributed to a new
        // one.
        static NEXT_TOKEN: AtomicU64 = AtomicU64::new(FIRST_TOKEN);
        let token = NEXT_TOKEN.fetch_sub(1, Relaxed);
        entries.push(Entry { token, listener, is_polled: false });
    }

    /// Starts polling all listeners.
    pub(crate) fn poll(&self, poller: &Poller) {
        for entry in self.entries.lock().iter_mut().filter(|entry| !entry.is_polled) {
            match poller.add(&entry.listener, entry.token, Interest::Read) {
                Ok(()) => entry.is_polled = true,
                Err(error) => log::error!("Cannot accept connections: {error}"),
            }
        }
    }

    /// Stops polling all listeners.
    pub(crate) fn rest(&self, poller: &Poller) {
        for entry in self.entries.lock().iter_mut().filter(|entry| entry.is_polled) {
            // If this fails, the listener is not polled either.
            let _ = poller.remove(&entry.listener);
            entry.is_polled = false;
        }
    }

    /// Accepts the connections pending at one listener.
    pub(crate) fn accept(&self, engine: &Engine, loads: &LoopLoads, token: u64) -> AcceptOutcome {
        let entries = self.entries.lock();
        let entry = entries.iter().find(|entry| entry.token == token);
        entry.map_or(AcceptOutcome::Fine, |entry| accept(engine, loads, &entry.listener))
    }
}

/// The outcome of accepting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptOutcome {
    /// All pending connections have been accepted, or enough for this turn.
    Fine,
    /// The process is out of descriptors: try again later.
    Exhausted,
}

/// Accepts pending connections and assigns them to loops.
fn accept(engine: &Engine, loads: &LoopLoads, listener: &Listener) -> AcceptOutcome {
    // A burst of connections must not delay clients: the rest is accepted in the next turn.
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
                return AcceptOutcome::Exhausted;
            }
            // The peer closed the connection before it was accepted.
            Err(_) => {}
        }
    }
    AcceptOutcome::Fine
}

fn admit(engine: &Engine, loads: &LoopLoads, listener: &Listener, connection: Connection) {
    let Connection { socket, peer, local } = connection;
    let is_tls = listener.is_tls();
    // A peer that expects TLS cannot read a plain line.
    let refuse = |text: &[u8]| {
        if !is_tls {
            refuse(&socket, text)
        }
    };
    let subnets = engine.config.priority_subnets();
    let has_priority = peer.is_some_and(|peer| subnets::lists(&subnets, peer.ip()));
    let registry = &engine.clients.registry;
    if !has_room(registry, &engine.config, !subnets.is_empty(), has_priority) {
        registry.rejected.fetch_add(1, Relaxed);
        registry.rejected_priority.fetch_add(u64::from(has_priority), Relaxed);
        refuse(b"-ERR max number of clients reached\r\n");
        return;
    }
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    if engine.config.protected_mode()
        && engine.acl.default_user().no_password
        && peer.is_some_and(|peer| !is_loopback(peer.ip()))
    {
        engine.clients.registry.rejected.fetch_add(1, Relaxed);
        refuse(PROTECTED);
        return;
    }
    let keepalive = engine.config.tcp_keepalive_seconds();
    if peer.is_some() && keepalive > 0 {
        // A connection without keepalive still works.
        let _ = set_keepalive(&socket, keepalive);
    }
    let unix =
        || listener.path().map_or(Address::Unknown, |path| Address::Unix(path.to_string_lossy().into()));
    let address = peer.map_or_else(unix, Address::Tcp);
    let local_address = local.map_or_else(unix, Address::Tcp);
    let now = braid_base::clock::unix_ms();
    let id = engine.clients.registry.next_id();
    let record = Arc::new(ClientRecord::new(id, socket.as_raw_fd(), address, local_address, now));
    if has_priority {
        record.set_flag(client_flags::PRIORITY, true);
    }
    let assigning = loads.assign();
    let target = assigning.least();
    assigning.take(target);
    record.io_thread.store(target as u32, Relaxed);
    record.set_mailbox(&engine.clients.mailboxes[target]);
    engine.clients.registry.accepted.fetch_add(1, Relaxed);
    engine.clients.registry.add(Arc::clone(&record));
    engine.clients.mailboxes[target].send(Message::Accepted(Accepted { socket, is_tls, record }));
}

/// Whether `maxclients` lets one more client in. Without `priority-subnets` none of them is
/// reserved.
fn has_room(registry: &Registry, config: &Config, reserves: bool, has_priority: bool) -> bool {
    let (all, most) = (registry.count(), config.maxclients() as usize);
    let reserved = if reserves { config.maxclients_reserved() as usize } else { 0 };
    let others = all.saturating_sub(registry.priority_count());
    all < most && (has_priority || reserved == 0 || others < most.saturating_sub(reserved))
}

const PROTECTED: &[u8] = b"-DENIED Braid is running in protected mode because protected mode is enabled \
                           and no password is set for the default user. In this mode connections are only \
                           accepted from the loopback interface. To connect from other computers: 1) set a \
                           password for the default user with 'CONFIG SET requirepass <password>' on the \
                           server's machine (add CONFIG REWRITE to keep it), or with 'requirepass' in the \
                           configuration file and a restart; 2) or, only if the server cannot be reached \
                           from the internet, switch protected mode off with 'CONFIG SET protected-mode \
                           no', in the configuration file, or with '--protected-mode no' for a test. One of \
                           these is enough.\r\n";

/// Sends the reason; the connection is closed whether or not the peer reads it.
fn refuse(socket: &OwnedFd, text: &[u8]) {
    let _ =
        rustix::net::send(socket, text, rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT);
}

/// True for errors after which accepting should pause: out of descriptors or memory.
fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use braid_executor::engine::Start;
    use braid_net::listener::TcpOptions;

    use super::*;

    /// The numbers of connections accepted by successive calls, with nine pending.
    fn takes(settings: &str, listener: Listener, connect: impl Fn()) -> Vec<u64> {
        let config = Config::new();
        config.load_text(&format!("io-threads 2\nshards 16\n{settings}\n")).expect("valid settings");
        let engine =
            braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine");
        let loads = LoopLoads::new(2, |threads| 0..threads);
        let listeners = Listeners::default();
        listeners.add(listener);
        let token = listeners.entries.lock()[0].token;
        (0..9).for_each(|_| connect());
        let accepted = || engine.clients.registry.accepted.load(Relaxed);
        std::iter::from_fn(|| {
            let before = accepted();
            assert_eq!(listeners.accept(&engine, &loads, token), AcceptOutcome::Fine);
            Some(accepted() - before).filter(|&count| count > 0)
        })
        .collect()
    }

    #[test]
    fn accepted_connections_per_cycle_are_limited() {
        let options = TcpOptions { backlog: 100, ..TcpOptions::default() };
        let tcp = |settings: &str, is_tls: bool| {
            let listener = Listener::tcp("127.0.0.1", 0, options).expect("a port").with_tls(is_tls);
            let port = listener.port().expect("a port number");
            let streams = Mutex::new(Vec::new());
            // A connection is established once it is in the listener's queue.
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
