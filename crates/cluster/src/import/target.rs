// SPDX-License-Identifier: BSD-3-Clause
//! Writes to the cluster: sends each change to the primary of its slot, pipelined and in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use braid_client::connection::encode;
use braid_client::{Connection, TargetOptions, Value};

use crate::cluster::Cluster;
use crate::nodes::{Node, Nodes};

/// Limits of a batch in bytes and changes. Its replies must fit into the socket buffers.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_ITEMS: usize = 1_000;
/// How long a primary may fail to accept changes, to allow for a failover.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(20);

/// Errors that do not end the import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tolerance {
    None,
    /// A key may expire here before its primary says so.
    GoneKeys,
    Anything,
}

/// A change or a transaction.
pub(super) struct Item {
    pub(super) slot: u16,
    pub(super) db: u64,
    /// The encoded requests.
    pub(super) bytes: Vec<u8>,
    /// The number of requests, and so of replies.
    pub(super) replies: usize,
    pub(super) tolerance: Tolerance,
}

/// The requests sent to a primary: the index of each item (`None` for a SELECT) and the number of
/// its replies.
struct Sent {
    id: String,
    replies: Vec<(Option<usize>, usize)>,
}

/// The outcome of an item.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Done,
    /// Not executed; retry, elsewhere or later.
    Again,
    Refused(String),
}

/// The connections to the cluster's primaries.
pub(super) struct Router {
    cluster: Cluster,
    nodes: Nodes,
    /// By node ID, with the selected database.
    connections: HashMap<String, (Connection, u64)>,
    /// The position of each command's first key; 0: it has none, or not always at the same
    /// position.
    positions: HashMap<String, usize>,
    queue: Vec<Item>,
    queued_bytes: usize,
}

impl Router {
    pub(super) fn open(options: &TargetOptions) -> Result<Router, String> {
        let mut cluster = Cluster::open(options)?;
        let nodes = cluster.nodes()?;
        let some = nodes.primaries().first().copied().cloned().ok_or("the cluster has no primary")?;
        let commands = cluster.ask(&some, &["COMMAND"])?;
        let mut positions = HashMap::new();
        commands.elements().into_iter().for_each(|command| note_position(command, &mut positions));
        Ok(Router {
            cluster,
            nodes,
            connections: HashMap::new(),
            positions,
            queue: Vec::new(),
            queued_bytes: 0,
        })
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The position of a command's first key.
    pub(super) fn key_of(&mut self, words: &[Vec<u8>]) -> Result<usize, String> {
        let name = String::from_utf8_lossy(&words[0]).to_lowercase();
        let full = || {
            let second = words.get(1).map(|word| String::from_utf8_lossy(word).to_lowercase());
            format!("{name}|{}", second.unwrap_or_default())
        };
        let known = self.positions.get(&name).copied().filter(|&place| place > 0);
        let known = known.or_else(|| self.positions.get(&full()).copied().filter(|&place| place > 0));
        if let Some(place) = known.filter(|&place| place < words.len()) {
            return Ok(place);
        }
        let some = self.nodes.primaries().first().copied().cloned().ok_or("the cluster has no primary")?;
        let mut request = vec![b"COMMAND".to_vec(), b"GETKEYS".to_vec()];
        request.extend(words.iter().cloned());
        let reply = self.connection(&some, 0)?.command(&request).map_err(|error| error.to_string())?;
        let keys = match reply {
            Value::Error(error) => return Err(format!("{name} cannot be replicated: {error}")),
            reply => reply.elements(),
        };
        let Some(Value::Bulk(key)) = keys.first() else {
            return Err(format!("{name} cannot be replicated: it has no key"));
        };
        let place = words.iter().skip(1).position(|word| word == key);
        place
            .map(|place| place + 1)
            .ok_or_else(|| format!("{name} cannot be replicated: its key was not found"))
    }

    /// Queues an item, and sends the queue when it is large enough.
    pub(super) fn add(&mut self, item: Item) -> Result<(), String> {
        self.queued_bytes += item.bytes.len();
        self.queue.push(item);
        if self.queued_bytes >= BATCH_BYTES || self.queue.len() >= BATCH_ITEMS {
            return self.flush();
        }
        Ok(())
    }

    /// Sends the queue, and waits until everything is applied.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        let mut items = std::mem::take(&mut self.queue);
        self.queued_bytes = 0;
        let begin = Instant::now();
        while !items.is_empty() {
            items = self.send(items)?;
            if items.is_empty() {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("the cluster does not accept changes of slot {}", items[0].slot));
            }
            std::thread::sleep(BETWEEN);
            self.nodes = self.cluster.nodes()?;
        }
        Ok(())
    }

    /// Sends each item to its primary. Returns the items to retry.
    fn send(&mut self, items: Vec<Item>) -> Result<Vec<Item>, String> {
        let owners: Vec<Option<Node>> = {
            let owners = self.nodes.owners();
            items.iter().map(|item| owners[usize::from(item.slot)].cloned()).collect()
        };
        let mut parts: BTreeMap<String, (Node, Vec<usize>)> = BTreeMap::new();
        let mut again: BTreeSet<usize> = BTreeSet::new();
        for (index, owner) in owners.into_iter().enumerate() {
            match owner {
                Some(node) => {
                    parts.entry(node.id.clone()).or_insert_with(|| (node, Vec::new())).1.push(index)
                }
                None => drop(again.insert(index)),
            }
        }
        // All requests are sent before any reply is read.
        let mut expected: Vec<Sent> = Vec::new();
        for (id, (node, part)) in parts {
            let mut bytes = Vec::new();
            let mut replies = Vec::new();
            let Ok((connection, db)) = self.slot_connection(&node) else {
                // The node is gone; nothing was sent.
                self.connections.remove(&id);
                again.extend(part);
                continue;
            };
            for index in part {
                let item = &items[index];
                if item.db != *db {
                    encode(&["SELECT", &item.db.to_string()], &mut bytes);
                    replies.push((None, 1));
                    *db = item.db;
                }
                bytes.extend_from_slice(&item.bytes);
                replies.push((Some(index), item.replies));
            }
            connection.send(&bytes).map_err(|error| lost(&node, &error))?;
            expected.push(Sent { id, replies });
        }
        let mut stuck: BTreeSet<u16> = BTreeSet::new();
        for Sent { id, replies } in expected {
            let Some((connection, _)) = self.connections.get_mut(&id) else { continue };
            for (index, count) in replies {
                let tolerance = index.map_or(Tolerance::None, |index| items[index].tolerance);
                let outcome = outcome(connection, count, tolerance)
                    .map_err(|error| format!("the connection to a primary was lost: {error}"))?;
                let Some(index) = index else {
                    match outcome {
                        Outcome::Done => continue,
                        Outcome::Again => return Err("a database cannot be selected now".into()),
                        Outcome::Refused(why) => return Err(format!("{why} (cluster-databases)")),
                    }
                };
                let slot = items[index].slot;
                match outcome {
                    Outcome::Done if stuck.contains(&slot) => {
                        return Err(format!("changes of slot {slot} were applied out of order"));
                    }
                    Outcome::Done => {}
                    Outcome::Again => {
                        stuck.insert(slot);
                        again.insert(index);
                    }
                    Outcome::Refused(why) => return Err(why),
                }
            }
        }
        let keep = |(index, item)| again.contains(&index).then_some(item);
        Ok(items.into_iter().enumerate().filter_map(keep).collect())
    }

    fn slot_connection(&mut self, node: &Node) -> Result<&mut (Connection, u64), String> {
        if !self.connections.contains_key(&node.id) {
            self.connections.insert(node.id.clone(), (self.cluster.connect(node)?, 0));
        }
        self.connections.get_mut(&node.id).ok_or_else(|| "no connection".into())
    }

    fn connection(&mut self, node: &Node, db: u64) -> Result<&mut Connection, String> {
        let (connection, selected) = self.slot_connection(node)?;
        if *selected != db {
            connection.expect(&["SELECT", &db.to_string()]).map_err(|error| error.to_string())?;
            *selected = db;
        }
        Ok(connection)
    }

    /// Sends a command to all primaries.
    pub(super) fn everywhere(&mut self, words: &[&[u8]], tolerance: Tolerance) -> Result<(), String> {
        self.flush()?;
        for node in self.nodes.primaries().into_iter().cloned().collect::<Vec<_>>() {
            let reply = self.connection(&node, 0)?.command(words).map_err(|error| lost(&node, &error))?;
            if let Value::Error(error) = reply
                && tolerance != Tolerance::Anything
            {
                return Err(format!("{}: {error}", node.address()));
            }
        }
        Ok(())
    }

    /// Removes the keys of a database that `is_meant` selects.
    pub(super) fn remove(&mut self, db: u64, is_meant: impl Fn(&[u8]) -> bool) -> Result<(), String> {
        for node in self.nodes.primaries().into_iter().cloned().collect::<Vec<_>>() {
            let connection = self.connection(&node, db)?;
            let mut cursor = "0".to_owned();
            loop {
                let reply = connection.expect(&["SCAN", &cursor, "COUNT", "1000"]);
                let mut reply = reply.map_err(|error| lost(&node, &error))?.elements().into_iter();
                cursor = reply.next().map(|cursor| cursor.text()).unwrap_or_default();
                for key in reply.next().map(Value::elements).unwrap_or_default() {
                    let Value::Bulk(key) = key else { continue };
                    if is_meant(&key) {
                        let removed = connection.expect(&[&b"UNLINK"[..], &key]);
                        removed.map_err(|error| lost(&node, &error))?;
                    }
                }
                if cursor == "0" || cursor.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn lost(node: &Node, error: &std::io::Error) -> String {
    format!("{}: {error}", node.address())
}

/// Records the first-key positions of a command in COMMAND's reply, and of its subcommands.
fn note_position(command: Value, positions: &mut HashMap<String, usize>) {
    let fields = command.elements();
    let Some(name) = fields.first().map(Value::text) else { return };
    let first = fields.get(3).and_then(Value::integer).and_then(|place| usize::try_from(place).ok());
    positions.insert(name.to_lowercase(), first.unwrap_or(0));
    if let Some(subcommands) = fields.into_iter().nth(9) {
        subcommands.elements().into_iter().for_each(|command| note_position(command, positions));
    }
}

/// Receives the replies to an item.
fn outcome(connection: &mut Connection, count: usize, tolerance: Tolerance) -> std::io::Result<Outcome> {
    let mut outcome = Outcome::Done;
    for _ in 0..count {
        let reply = connection.receive()?;
        // EXEC's reply contains the replies to the transaction's commands.
        let errors = match reply {
            Value::Array(replies) if count > 1 => replies,
            reply => vec![reply],
        };
        for reply in errors {
            if let Value::Error(error) = reply
                && outcome == Outcome::Done
            {
                outcome = judge(&error, tolerance);
            }
        }
    }
    Ok(outcome)
}

fn judge(error: &str, tolerance: Tolerance) -> Outcome {
    let code = error.split(' ').next().unwrap_or_default();
    match code {
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "LOADING" | "NOREPLICAS"
        | "READONLY" => Outcome::Again,
        _ if tolerance == Tolerance::Anything => Outcome::Done,
        _ if tolerance == Tolerance::GoneKeys && error.contains("no such key") => Outcome::Done,
        _ => Outcome::Refused(format!("a change was rejected: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_judged() {
        let judge = |error| judge(error, Tolerance::GoneKeys);
        assert_eq!(judge("MOVED 5 a:1"), Outcome::Again);
        assert_eq!(judge("CLUSTERDOWN The cluster is down"), Outcome::Again);
        assert_eq!(judge("ERR no such key"), Outcome::Done);
        assert!(matches!(judge("OOM command not allowed"), Outcome::Refused(_)));
        assert!(matches!(super::judge("ERR no such key", Tolerance::None), Outcome::Refused(_)));
    }

    #[test]
    fn commands_say_where_their_key_is() {
        let text = |text: &str| Value::Bulk(text.into());
        let row = |name: &str, first: i64, sub: Vec<Value>| {
            let mut fields = vec![text(name), Value::Integer(2), Value::Array(vec![]), Value::Integer(first)];
            fields.extend(vec![Value::Null; 5]);
            fields.push(Value::Array(sub));
            Value::Array(fields)
        };
        let mut positions = HashMap::new();
        note_position(row("GET", 1, vec![]), &mut positions);
        note_position(row("xgroup", 0, vec![row("xgroup|create", 2, vec![])]), &mut positions);
        assert_eq!(positions["get"], 1);
        assert_eq!(positions["xgroup|create"], 2);
    }
}
