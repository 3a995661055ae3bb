// SPDX-License-Identifier: BSD-3-Clause
//! How a client finds the server for a key: the primary of a group, or the owner of the key's slot
//! in a cluster. What a request did is unknown if no reply comes; a redirection says that nothing
//! was executed.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use braid_tests::{RawClient, Value};

/// Time limit for a reply. Longer than a failover, or most outcomes would be unknown.
const PATIENCE: Duration = Duration::from_millis(1500);
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);
/// Redirections that are followed for one request.
const REDIRECTIONS: usize = 8;

/// A client's way to the servers.
pub enum Route {
    Primary(ToPrimary),
    Slots(ToSlots),
}

impl Route {
    /// To a group: all keys are at its primary.
    pub fn to_primary(addresses: Vec<SocketAddr>) -> Route {
        Route::Primary(ToPrimary { addresses, connection: None })
    }

    /// To a cluster.
    pub fn to_slots(addresses: Vec<SocketAddr>) -> Route {
        Route::Slots(ToSlots { addresses, connections: HashMap::new(), owners: HashMap::new() })
    }

    /// Connects if necessary. False if that is not possible at present: nothing is sent.
    pub fn prepare(&mut self, random: &mut fastrand::Rng) -> bool {
        match self {
            Route::Primary(to) => to.prepare(random),
            Route::Slots(_) => true,
        }
    }

    /// The reply; `None` if there is none.
    pub fn ask(&mut self, key: &str, request: &[u8], random: &mut fastrand::Rng) -> Option<Value> {
        match self {
            Route::Primary(to) => to.ask(request),
            Route::Slots(to) => to.ask(key, request, random),
        }
    }
}

fn connect(address: SocketAddr) -> Option<RawClient> {
    let socket = TcpStream::connect_timeout(&address, CONNECT_PATIENCE).ok()?;
    let mut client = RawClient::from_tcp(socket).ok()?;
    client.set_patience(PATIENCE).ok()?;
    Some(client)
}

fn exchange(client: &mut RawClient, request: &[u8]) -> Option<Value> {
    client.try_send(request).ok()?;
    client.try_read().ok()
}

pub struct ToPrimary {
    addresses: Vec<SocketAddr>,
    connection: Option<RawClient>,
}

impl ToPrimary {
    /// A connection to a server that claims to be the primary.
    fn connect(address: SocketAddr) -> Option<RawClient> {
        let mut client = connect(address)?;
        let role = exchange(&mut client, b"*1\r\n$4\r\nROLE\r\n")?;
        role.to_string().contains("master").then_some(client)
    }

    fn prepare(&mut self, random: &mut fastrand::Rng) -> bool {
        if self.connection.is_none() {
            random.shuffle(&mut self.addresses);
            self.connection = self.addresses.iter().find_map(|&address| ToPrimary::connect(address));
        }
        self.connection.is_some()
    }

    fn ask(&mut self, request: &[u8]) -> Option<Value> {
        let reply = exchange(self.connection.as_mut()?, request);
        if reply.as_ref().is_none_or(Value::is_error) {
            self.connection = None;
        }
        reply
    }
}

pub struct ToSlots {
    addresses: Vec<SocketAddr>,
    connections: HashMap<SocketAddr, RawClient>,
    /// The owner of a key's slot, by hash tag, once a redirection has named it.
    owners: HashMap<String, SocketAddr>,
}

/// The part of a key that selects its slot.
fn tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

/// The address that a redirection names.
fn target(error: &str) -> Option<SocketAddr> {
    error.split_whitespace().nth(2)?.parse().ok()
}

impl ToSlots {
    fn ask(&mut self, key: &str, request: &[u8], random: &mut fastrand::Rng) -> Option<Value> {
        let any = self.addresses[random.usize(..self.addresses.len())];
        let mut address = self.owners.get(tag(key)).copied().unwrap_or(any);
        let mut reply = Value::Error("CLUSTERDOWN no server was reached".into());
        let mut is_asking = false;
        for _ in 0..REDIRECTIONS {
            let connection = match self.connections.remove(&address).or_else(|| connect(address)) {
                Some(connection) => connection,
                None => {
                    self.owners.remove(tag(key));
                    return Some(reply);
                }
            };
            let connection = self.connections.entry(address).or_insert(connection);
            let sent =
                if is_asking { [b"*1\r\n$6\r\nASKING\r\n", request].concat() } else { request.to_vec() };
            let answered = exchange(connection, &sent)
                .and_then(|first| if is_asking { connection.try_read().ok() } else { Some(first) });
            let Some(answer) = answered else {
                self.connections.remove(&address);
                self.owners.remove(tag(key));
                return None;
            };
            let text = if answer.is_error() { answer.text() } else { String::new() };
            is_asking = text.starts_with("ASK ");
            let next = target(&text).filter(|_| is_asking || text.starts_with("MOVED "));
            let Some(next) = next else {
                if answer.is_error() {
                    self.owners.remove(tag(key));
                }
                return Some(answer);
            };
            if !is_asking {
                self.owners.insert(tag(key).to_owned(), next);
            }
            (address, reply) = (next, answer);
        }
        Some(reply)
    }
}
