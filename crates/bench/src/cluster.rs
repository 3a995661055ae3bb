// SPDX-License-Identifier: BSD-3-Clause
//! The cluster's map from slots to primaries, shared by all threads, and the key positions of
//! commands.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_base::crc::HASH_SLOTS;
use braid_client::{Address, Connection, Target, Value, cannot_connect};
use socket2::SockAddr;

/// The owner of an unassigned slot.
pub const NOBODY: u16 = u16::MAX;

/// The cluster map. Nodes keep their numbers; new nodes get the next number.
pub struct ClusterMap {
    /// The settings of all connections.
    base: Target,
    state: Mutex<State>,
    /// Raised with each change.
    version: AtomicU64,
    /// The position of the first key, by sample request.
    keys: Mutex<HashMap<Vec<u8>, Option<usize>>>,
}

struct State {
    nodes: Vec<(Target, SockAddr)>,
    owners: Arc<[u16]>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterMap {
    /// Discovers a cluster through one of its nodes.
    ///
    /// # Errors
    /// If the node cannot be reached, or is not in a cluster.
    pub fn discover(target: &Target) -> Result<ClusterMap, String> {
        let owners = vec![NOBODY; usize::from(HASH_SLOTS)].into();
        let map = ClusterMap {
            base: target.clone(),
            state: Mutex::new(State { nodes: Vec::new(), owners }),
            version: AtomicU64::new(0),
            keys: Mutex::new(HashMap::new()),
        };
        map.ask(target)?;
        Ok(map)
    }

    /// A map of one primary with all slots, without a connection.
    #[cfg(test)]
    pub fn of_one(target: Target, key_places: HashMap<Vec<u8>, Option<usize>>) -> ClusterMap {
        let address = SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        let owners = vec![0; usize::from(HASH_SLOTS)].into();
        ClusterMap {
            base: target.clone(),
            state: Mutex::new(State { nodes: vec![(target, address)], owners }),
            version: AtomicU64::new(0),
            keys: Mutex::new(key_places),
        }
    }

    /// Number of primaries seen so far.
    pub fn node_count(&self) -> usize {
        locked(&self.state).nodes.len()
    }

    /// A primary and its resolved address.
    pub fn node(&self, number: usize) -> (Target, SockAddr) {
        locked(&self.state).nodes[number].clone()
    }

    /// All primaries seen so far.
    pub fn targets(&self) -> Vec<Target> {
        locked(&self.state).nodes.iter().map(|(target, _)| target.clone()).collect()
    }

    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    pub fn owners(&self) -> Arc<[u16]> {
        locked(&self.state).owners.clone()
    }

    /// Refreshes the map from the first primary that answers.
    ///
    /// # Errors
    /// If no primary answers; the text is the last one's failure.
    pub fn refresh(&self) -> Result<(), String> {
        let mut why = "the cluster has no primary".to_owned();
        for target in self.targets() {
            match self.ask(&target) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn ask(&self, target: &Target) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("CLUSTER SLOTS: {error}");
        let mut connection =
            Connection::open(target).map_err(|error| cannot_connect(&target.address, &error))?;
        let reply = connection.expect(&["CLUSTER", "SLOTS"]).map_err(failed)?;
        let mut owners = vec![NOBODY; usize::from(HASH_SLOTS)];
        for range in reply.elements() {
            let mut fields = range.elements().into_iter();
            let mut slot = || fields.next()?.integer().and_then(|slot| usize::try_from(slot).ok());
            let (first, last) = (slot(), slot());
            let mut primary = fields.next().map(Value::elements).unwrap_or_default().into_iter();
            let host = primary.next().map(|host| host.text()).unwrap_or_default();
            let port = primary.next().and_then(|port| u16::try_from(port.integer()?).ok());
            let (Some(first), Some(last), Some(port)) = (first, last, port) else {
                return Err("cannot parse CLUSTER SLOTS".into());
            };
            let Some(owned) = owners.get_mut(first..=last) else {
                return Err("cannot parse CLUSTER SLOTS".into());
            };
            owned.fill(self.number_of(&self.at(target, &host, port))?);
        }
        if owners.iter().all(|&owner| owner == NOBODY) {
            return Err("no node of the cluster has slots".into());
        }
        locked(&self.state).owners = owners.into();
        self.version.fetch_add(1, Release);
        Ok(())
    }

    /// The target of a node's announced address. Without a host, the queried node's host is used.
    fn at(&self, asked: &Target, host: &str, port: u16) -> Target {
        let asked_host = match &asked.address {
            Address::Tcp { host, .. } => host.as_str(),
            Address::Unix(_) => "127.0.0.1",
        };
        let host = if host.is_empty() || host == "?" { asked_host } else { host };
        Target { address: Address::Tcp { host: host.into(), port }, ..self.base.clone() }
    }

    /// A node's number.
    fn number_of(&self, target: &Target) -> Result<u16, String> {
        let mut state = locked(&self.state);
        if let Some(known) = state.nodes.iter().position(|(node, _)| node.address == target.address) {
            return Ok(known as u16);
        }
        let address = target.resolve().ok().and_then(|addresses| addresses.into_iter().next());
        let address = address.ok_or_else(|| format!("{} does not resolve", target.address))?;
        state.nodes.push((target.clone(), address));
        Ok((state.nodes.len() - 1) as u16)
    }

    /// Applies a MOVED redirection (`MOVED slot host:port`) to the map. Returns the node's number;
    /// `None` if the text is malformed.
    pub fn moved(&self, from: &Target, text: &str) -> Option<u16> {
        let mut words = text.split_whitespace().skip(1);
        let slot: usize = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let number = self.number_of(&self.at(from, host, port.parse().ok()?)).ok()?;
        let mut state = locked(&self.state);
        let mut owners = state.owners.to_vec();
        *owners.get_mut(slot)? = number;
        state.owners = owners.into();
        drop(state);
        self.version.fetch_add(1, Release);
        Some(number)
    }

    /// The position of the first key in requests like the sample.
    pub fn key_place(&self, sample: &[u8]) -> Option<usize> {
        if let Some(known) = locked(&self.keys).get(sample) {
            return *known;
        }
        let place = self.ask_key_place(sample);
        locked(&self.keys).insert(sample.to_vec(), place);
        place
    }

    fn ask_key_place(&self, sample: &[u8]) -> Option<usize> {
        let words: Vec<&[u8]> = (0..).map_while(|place| argument(sample, place)).collect();
        let mut request = vec![&b"COMMAND"[..], b"GETKEYS"];
        request.extend_from_slice(&words);
        let mut connection = Connection::open(&self.node(0).0).ok()?;
        let keys = connection.expect(&request).ok()?.elements();
        let Some(Value::Bulk(key)) = keys.into_iter().next() else { return None };
        Some(words.iter().skip(1).position(|word| *word == key)? + 1)
    }
}

/// The argument at a position of an encoded request. `None` if there is no such argument, or the
/// request is inline.
#[inline]
pub fn argument(request: &[u8], place: usize) -> Option<&[u8]> {
    let mut rest = request.strip_prefix(b"*")?;
    rest = &rest[memchr::memchr(b'\n', rest)? + 1..];
    for step in 0.. {
        rest = rest.strip_prefix(b"$")?;
        let end = memchr::memchr(b'\r', rest)?;
        let len = rest[..end].iter().fold(0, |len, digit| len * 10 + usize::from(digit.wrapping_sub(b'0')));
        let body = rest.get(end + 2..)?;
        if step == place {
            return body.get(..len);
        }
        rest = body.get(len + 2..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found() {
        let request = b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$12\r\n0123456789ab\r\n";
        let found = |place| argument(request, place).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_eq!(
            [0, 1, 2, 3].map(found),
            [Some("SET".into()), Some("key:1".into()), Some("0123456789ab".into()), None]
        );
        assert_eq!(argument(b"PING\r\n", 0), None);
    }
}
