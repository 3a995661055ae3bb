// SPDX-License-Identifier: BSD-3-Clause
//! A cluster as seen by one of its nodes: CLUSTER NODES, parsed without I/O.

use crate::slots::SLOTS;

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    pub id: String,
    pub host: String,
    pub port: u16,
    /// A replica's primary, by ID.
    pub primary: Option<String>,
    pub has_failed: bool,
    /// A primary's slots, in ascending order.
    pub slots: Vec<u16>,
    /// It reports slots that are migrating key by key.
    pub has_open_slots: bool,
}

impl Node {
    pub fn is_primary(&self) -> bool {
        self.primary.is_none()
    }

    pub fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The nodes of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nodes {
    pub nodes: Vec<Node>,
}

/// Minimum length of an ID prefix that may name a node.
const PREFIX_LEAST: usize = 6;

impl Nodes {
    /// Parses CLUSTER NODES. Nodes without a host get the host that was queried.
    ///
    /// # Errors
    /// If a line is malformed.
    pub fn parse(text: &str, asked_host: &str) -> Result<Nodes, String> {
        let nodes: Option<Vec<Node>> =
            text.lines().filter(|line| !line.trim().is_empty()).map(|line| node(line, asked_host)).collect();
        let mut nodes = nodes.ok_or_else(|| format!("cannot parse CLUSTER NODES: {text}"))?;
        let place =
            |node: &Node| (node.slots.first().copied().unwrap_or(u16::MAX), node.host.clone(), node.port);
        nodes.sort_by_key(place);
        Ok(Nodes { nodes })
    }

    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The primaries in slot order; those without slots come last.
    pub fn primaries(&self) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.is_primary()).collect()
    }

    pub fn replicas<'n>(&'n self, id: &'n str) -> impl Iterator<Item = &'n Node> {
        self.nodes.iter().filter(move |node| node.primary.as_deref() == Some(id))
    }

    /// The primary of a node's shard, possibly the node itself.
    pub fn primary_of<'n>(&'n self, node: &'n Node) -> Option<&'n Node> {
        match &node.primary {
            None => Some(node),
            Some(id) => self.node(id),
        }
    }

    /// The slots of each given primary.
    pub fn owned(primaries: &[&Node]) -> Vec<Vec<u16>> {
        primaries.iter().map(|node| node.slots.clone()).collect()
    }

    /// The owner of each slot.
    pub fn owners(&self) -> Vec<Option<&Node>> {
        let mut owners = vec![None; SLOTS];
        for node in &self.nodes {
            for &slot in &node.slots {
                owners[usize::from(slot)] = Some(node);
            }
        }
        owners
    }

    /// The slots without an owner.
    pub fn uncovered(&self) -> Vec<u16> {
        let owners = self.owners();
        (0..SLOTS as u16).filter(|&slot| owners[usize::from(slot)].is_none()).collect()
    }

    /// Finds a node by its address, its ID or a unique prefix of its ID.
    ///
    /// # Errors
    /// If the word is a prefix of the IDs of several nodes.
    pub fn find(&self, word: &str) -> Result<Option<&Node>, String> {
        let exact = self.nodes.iter().find(|node| node.id == word || node.address() == word);
        if exact.is_some() {
            return Ok(exact);
        }
        let is_prefix = word.len() >= PREFIX_LEAST && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut alike = self.nodes.iter().filter(|node| is_prefix && node.id.starts_with(word));
        match (alike.next(), alike.next()) {
            (Some(_), Some(_)) => Err(format!("{word} matches the ids of several nodes")),
            (found, _) => Ok(found),
        }
    }
}

/// One line of CLUSTER NODES.
fn node(line: &str, asked_host: &str) -> Option<Node> {
    let mut words = line.split_whitespace();
    let id = words.next()?.to_owned();
    let place = words.next()?;
    // host:port@bus_port,hostname,name=value
    let place = place.split(',').next()?;
    let (host, port) = place.split('@').next()?.rsplit_once(':')?;
    let flags: Vec<&str> = words.next()?.split(',').collect();
    let primary = words.next()?;
    let primary = (primary != "-" && !flags.contains(&"master")).then(|| primary.to_owned());
    // Skips ping, pong, epoch and link state.
    let mut rest = words.skip(4);
    let (mut slots, mut has_open_slots) = (Vec::new(), false);
    for word in rest.by_ref() {
        if word.starts_with('[') {
            has_open_slots = true;
            continue;
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || usize::from(last) >= SLOTS {
            return None;
        }
        slots.extend(first..=last);
    }
    slots.sort_unstable();
    Some(Node {
        id,
        host: if host.is_empty() { asked_host } else { host }.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok()?,
        primary,
        has_failed: flags.iter().any(|flag| matches!(*flag, "fail" | "fail?" | "noaddr" | "handshake")),
        slots,
        has_open_slots,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two shards, the second with a replica that has failed.
    pub const TEXT: &str = "\
aaaaaa11 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-99 200 [300->-bbbbbb22]
bbbbbb22 10.0.0.2:7002@17002,db2.example master - 0 1700000000000 4 connected 100-199 201-16383
cccccc33 ::1:7003@17003 slave,fail bbbbbb22 0 1700000000000 4 disconnected
dddddd44 :7004@17004 master - 0 0 0 connected
";

    #[test]
    fn nodes_are_read() {
        let nodes = Nodes::parse(TEXT, "asked").unwrap();
        let [a, b, c, d] =
            ["aaaaaa11", "bbbbbb22", "cccccc33", "dddddd44"].map(|id| nodes.node(id).unwrap().clone());
        assert_eq!((a.address().as_str(), a.slots.len(), a.has_open_slots), ("10.0.0.1:7001", 101, true));
        assert_eq!((b.address().as_str(), b.slots.len(), b.has_failed), ("10.0.0.2:7002", 16_283, false));
        assert_eq!((c.address().as_str(), c.is_primary(), c.has_failed), ("[::1]:7003", false, true));
        assert_eq!((d.address().as_str(), d.slots.len()), ("asked:7004", 0));
        assert_eq!(nodes.primary_of(&c), Some(&b));
        assert_eq!(nodes.replicas("bbbbbb22").count(), 1);
        let order: Vec<_> = nodes.primaries().iter().map(|node| node.id.clone()).collect();
        assert_eq!(order, ["aaaaaa11", "bbbbbb22", "dddddd44"]);
        assert!(nodes.uncovered().is_empty());
        assert_eq!(nodes.owners()[200], Some(&a));
        for wrong in ["x", "a b c d", "aaaaaa11 h:1@2 master - 0 0 3 connected 7-16384"] {
            assert!(Nodes::parse(wrong, "h").is_err(), "{wrong}");
        }
    }

    #[test]
    fn nodes_have_several_names() {
        let nodes = Nodes::parse(&TEXT.replace("bbbbbb22", "aaaaaa22"), "asked").unwrap();
        let id = |word: &str| nodes.find(word).map(|node| node.map(|node| node.id.clone()));
        assert_eq!(id("10.0.0.1:7001"), Ok(Some("aaaaaa11".into())));
        assert_eq!(id("cccccc"), Ok(Some("cccccc33".into())));
        assert_eq!(id("ccccc"), Ok(None));
        assert_eq!(id("nobody"), Ok(None));
        assert!(id("aaaaaa").unwrap_err().contains("several"));
    }
}
