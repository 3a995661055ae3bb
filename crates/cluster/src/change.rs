// SPDX-License-Identifier: BSD-3-Clause
//! Creates clusters, adds and removes nodes, and runs failovers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use braid_client::{Connection, Info, TargetOptions};

use crate::cluster::{Cluster, wait_until};
use crate::gather;
use crate::nodes::{Node, Nodes};
use crate::progress::Progress;
use crate::slots::SLOTS;

/// Timeout for servers to apply a change.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server's host and port.
pub type NodeAddress = (String, u16);

/// The layout of a new cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Each primary with its replicas, as indexes into the servers.
    pub shards: Vec<(usize, Vec<usize>)>,
}

impl Layout {
    /// Spreads primaries and replicas evenly over hosts, and places replicas on other hosts than
    /// their primary where possible.
    ///
    /// # Errors
    /// If there are too few servers for one shard.
    pub fn of(hosts: &[&str], replicas: usize) -> Result<Layout, String> {
        let shards = hosts.len() / (replicas + 1);
        if shards == 0 {
            return Err(format!("{replicas} replicas need at least {} servers", replicas + 1));
        }
        // Takes servers from the hosts in turn.
        let mut by_host: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut order = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let own = by_host.entry(host).or_default();
            order.push((own.len(), index));
            own.push(index);
        }
        order.sort_unstable();
        let order: Vec<usize> = order.into_iter().map(|(_, index)| index).collect();
        let mut layout =
            Layout { shards: order[..shards].iter().map(|&primary| (primary, Vec::new())).collect() };
        for &server in &order[shards..] {
            let is_near = |shard: &(usize, Vec<usize>)| hosts[shard.0] == hosts[server];
            let best = layout.shards.iter_mut().min_by_key(|shard| (shard.1.len(), is_near(shard)));
            if let Some(shard) = best {
                shard.1.push(server);
            }
        }
        layout.part(hosts);
        Ok(layout)
    }

    /// Swaps replicas that share a host with their primary with others, where that helps.
    fn part(&mut self, hosts: &[&str]) {
        for shard in 0..self.shards.len() {
            for place in 0..self.shards[shard].1.len() {
                let (primary, replica) = (self.shards[shard].0, self.shards[shard].1[place]);
                if hosts[primary] != hosts[replica] {
                    continue;
                }
                let fits = |other: &(usize, Vec<usize>), index: usize| {
                    hosts[other.0] != hosts[replica] && hosts[other.1[index]] != hosts[primary]
                };
                let found = self.shards.iter().enumerate().find_map(|(number, other)| {
                    let index = (0..other.1.len()).find(|&index| fits(other, index))?;
                    Some((number, index))
                });
                if let Some((number, index)) = found {
                    self.shards[shard].1[place] = self.shards[number].1[index];
                    self.shards[number].1[index] = replica;
                }
            }
        }
    }

    /// The first and last slot of a shard.
    pub fn range(&self, shard: usize) -> (usize, usize) {
        let count = self.shards.len();
        (shard * SLOTS / count, (shard + 1) * SLOTS / count - 1)
    }

    /// The layout as text.
    pub fn text(&self, places: &[NodeAddress]) -> String {
        let mut out = String::new();
        for (shard, (primary, replicas)) in self.shards.iter().enumerate() {
            let (first, last) = self.range(shard);
            out += &format!("slots {first}-{last}  primary {}", address(&places[*primary]));
            if !replicas.is_empty() {
                let replicas: Vec<String> =
                    replicas.iter().map(|&replica| address(&places[replica])).collect();
                out += &format!("  replicas {}", replicas.join(", "));
            }
            out.push('\n');
        }
        out
    }
}

pub fn address(place: &NodeAddress) -> String {
    if place.0.contains(':') {
        format!("[{}]:{}", place.0, place.1)
    } else {
        format!("{}:{}", place.0, place.1)
    }
}

fn connect(options: &TargetOptions, place: &NodeAddress) -> Result<Connection, String> {
    gather::connect(&gather::place(options, &place.0, place.1)?)
}

fn ask(connection: &mut Connection, place: &NodeAddress, words: &[&str]) -> Result<String, String> {
    let reply = connection.expect(words).map_err(|error| format!("{}: {error}", address(place)))?;
    Ok(reply.text())
}

/// Checks that a server can become a node: it must be in no cluster and hold no data.
fn check_new(options: &TargetOptions, place: &NodeAddress) -> Result<(), String> {
    let mut server = connect(options, place)?;
    let mut info = |words: &[&str]| ask(&mut server, place, words).map(|text| Info::parse(&text));
    if info(&["INFO", "cluster"])?.get("cluster_enabled") != Some("1") {
        return Err(format!("{} is not in cluster mode (cluster-enabled yes)", address(place)));
    }
    let state = info(&["CLUSTER", "INFO"])?;
    let number = |name: &str| state.number(name).unwrap_or(0.0) as u64;
    let (known, assigned) = (number("cluster_known_nodes"), number("cluster_slots_assigned"));
    if known > 1 {
        return Err(format!("{} is already a node of a cluster: it knows {known} nodes", address(place)));
    }
    if assigned > 0 {
        return Err(format!(
            "{} has {assigned} slots: it is a cluster by itself (set cluster-name and etcd-endpoints to \
             make it a node of one)",
            address(place)
        ));
    }
    if info(&["INFO", "keyspace"])?.with_prefix("db").next().is_some() {
        return Err(format!("{} has keys: a new node must be empty", address(place)));
    }
    Ok(())
}

/// Checks the servers and computes the layout of a cluster on them.
///
/// # Errors
/// If a server is named twice, cannot be reached, already belongs to a cluster or has keys, or
/// there are too few of them.
pub fn layout(options: &TargetOptions, places: &[NodeAddress], replicas: usize) -> Result<Layout, String> {
    for (index, place) in places.iter().enumerate() {
        if places[..index].contains(place) {
            return Err(format!("{} is given twice", address(place)));
        }
        check_new(options, place)?;
    }
    let hosts: Vec<&str> = places.iter().map(|(host, _)| host.as_str()).collect();
    Layout::of(&hosts, replicas)
}

/// Creates the cluster, and waits until all nodes report it healthy.
///
/// # Errors
/// If a server cannot be reached or refuses a step, or the nodes do not report a healthy cluster in
/// time. The steps before are not undone.
pub fn create(options: &TargetOptions, places: &[NodeAddress], layout: &Layout) -> Result<String, String> {
    let begin = Instant::now();
    let mut progress = Progress::new("steps", 2 * places.len() as u64);
    let mut servers = Vec::new();
    for place in places {
        servers.push(connect(options, place)?);
    }
    let first = layout.shards[0].0;
    for (index, place) in places.iter().enumerate() {
        if index != first {
            meet(&mut servers[first], &places[first], place)?;
        }
        progress.advance(1, &format!("{} has joined", address(place)));
    }
    for (shard, (primary, replicas)) in layout.shards.iter().enumerate() {
        let (from, to) = layout.range(shard);
        let words = ["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()];
        ask(&mut servers[*primary], &places[*primary], &words)?;
        progress.advance(1, &format!("{} has its slots", address(&places[*primary])));
        let id = ask(&mut servers[*primary], &places[*primary], &["CLUSTER", "MYID"])?;
        for &replica in replicas {
            follow(&mut servers[replica], &places[replica], &id)?;
            progress.advance(1, &format!("{} is a replica", address(&places[replica])));
        }
    }
    // A node that joins its shard disappears briefly and returns as a new member.
    for place in layout.shards.iter().map(|(primary, _)| &places[*primary]) {
        wait_until(&format!("{} leads its shard", address(place)), PATIENCE, || {
            is_serving(&mut connect(options, place)?, place)
        })?;
    }
    for (index, place) in places.iter().enumerate() {
        let is_primary = layout.shards.iter().any(|(primary, _)| *primary == index);
        wait_until(&format!("{} sees all nodes of the cluster", address(place)), PATIENCE, || {
            // The server closes its connections when its role changes.
            let mut server = connect(options, place)?;
            let info = Info::parse(&ask(&mut server, place, &["CLUSTER", "INFO"])?);
            let is_whole = info.get("cluster_state") == Some("ok")
                && info.number("cluster_known_nodes") == Some(places.len() as f64)
                && info.number("cluster_size") == Some(layout.shards.len() as f64);
            Ok(is_whole && (is_primary || is_linked(&mut server, place)?))
        })?;
    }
    drop(progress);
    Ok(format!(
        "a cluster of {} and {} after {:.1} s\n",
        plural(layout.shards.len(), "shard"),
        plural(places.len(), "node"),
        begin.elapsed().as_secs_f64()
    ))
}

pub fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn is_serving(server: &mut Connection, place: &NodeAddress) -> Result<bool, String> {
    let info = Info::parse(&ask(server, place, &["INFO", "group"])?);
    Ok(info.get("group_role") == Some("primary") && info.get("group_serving") == Some("1"))
}

fn is_linked(server: &mut Connection, place: &NodeAddress) -> Result<bool, String> {
    let info = Info::parse(&ask(server, place, &["INFO", "replication"])?);
    Ok(info.get("role") == Some("slave") && info.get("master_link_status") == Some("up"))
}

/// Makes a server join. A newly started server may not be known yet.
fn meet(entry: &mut Connection, at: &NodeAddress, place: &NodeAddress) -> Result<(), String> {
    insist(&format!("{} joins", address(place)), Duration::from_secs(15), "has just started", || {
        ask(entry, at, &["CLUSTER", "MEET", &place.0, &place.1.to_string()])
    })
}

/// Makes a node a replica. It may not know its primary yet.
fn follow(server: &mut Connection, place: &NodeAddress, primary: &str) -> Result<(), String> {
    insist(&format!("{} becomes a replica", address(place)), PATIENCE, "Unknown node", || {
        ask(server, place, &["CLUSTER", "REPLICATE", primary])
    })
}

/// Retries a request while its error contains `passing`.
fn insist(
    what: &str,
    patience: Duration,
    passing: &str,
    mut request: impl FnMut() -> Result<String, String>,
) -> Result<(), String> {
    let mut last = Ok(());
    wait_until(what, patience, || match request() {
        Err(error) if error.contains(passing) => Err(error),
        done => {
            last = done.map(drop);
            Ok(true)
        }
    })?;
    last
}

/// Checks whether a node can be added. Returns the primary it should replicate, if one was
/// requested: that of the named node's shard.
///
/// # Errors
/// If the cluster cannot be queried, the server is one of its nodes, cannot be reached or is not
/// empty, or the named node does not exist or has no primary.
pub fn check_add(
    cluster: &mut Cluster,
    options: &TargetOptions,
    place: &NodeAddress,
    of: Option<&str>,
) -> Result<Option<Node>, String> {
    let nodes = cluster.nodes()?;
    if nodes.nodes.len() == 1 && nodes.nodes[0].slots.is_empty() {
        return Err(format!(
            "{} is not in a cluster (-h and -p must name a node of one)",
            nodes.nodes[0].address()
        ));
    }
    if nodes.find(&address(place))?.is_some() {
        return Err(format!("{} is already a node of the cluster", address(place)));
    }
    check_new(options, place)?;
    let Some(word) = of else { return Ok(None) };
    let node = cluster.find(&nodes, word)?;
    let primary = nodes.primary_of(&node).cloned();
    primary.map(Some).ok_or_else(|| format!("the shard of {word} has no primary"))
}

/// Adds a node: a primary without slots, or a replica.
///
/// # Errors
/// If a server cannot be reached or refuses a step, or the new node is not known or not in sync in
/// time. The steps before are not undone.
pub fn add(
    cluster: &mut Cluster,
    options: &TargetOptions,
    place: &NodeAddress,
    primary: Option<&Node>,
) -> Result<String, String> {
    let begin = Instant::now();
    let nodes = cluster.nodes()?;
    let entry = nodes.primaries().into_iter().find(|node| !node.has_failed).or(nodes.nodes.first());
    let entry = entry.ok_or("the cluster has no node")?.clone();
    meet(&mut cluster.connect(&entry)?, &(entry.host.clone(), entry.port), place)?;
    let id = ask(&mut connect(options, place)?, place, &["CLUSTER", "MYID"])?;
    wait_until("the cluster knows it", PATIENCE, || Ok(cluster.nodes()?.node(&id).is_some()))?;
    // It may be the next node queried.
    wait_until("it knows the cluster", PATIENCE, || {
        let text = ask(&mut connect(options, place)?, place, &["CLUSTER", "NODES"])?;
        Ok(Nodes::parse(&text, &place.0)?.node(&entry.id).is_some())
    })?;
    let Some(primary) = primary else {
        return Ok(format!(
            "{} is a node after {:.1} s. It has no slots: run braid-cluster rebalance to assign some\n",
            address(place),
            begin.elapsed().as_secs_f64()
        ));
    };
    follow(&mut connect(options, place)?, place, &primary.id)?;
    wait_until("the replica is in sync", PATIENCE, || is_linked(&mut connect(options, place)?, place))?;
    Ok(format!(
        "{} is a replica of {} after {:.1} s\n",
        address(place),
        primary.address(),
        begin.elapsed().as_secs_f64()
    ))
}

/// The node to remove, if it can be removed.
///
/// # Errors
/// If the cluster cannot be queried or has no such node, or the node has slots or replicas or is
/// the only one.
pub fn check_remove(cluster: &mut Cluster, word: &str) -> Result<Node, String> {
    let nodes = cluster.nodes()?;
    let node = cluster.find(&nodes, word)?;
    if !node.slots.is_empty() {
        return Err(format!(
            "{} has {}: move them away with braid-cluster drain",
            node.address(),
            plural(node.slots.len(), "slot")
        ));
    }
    let followers: Vec<String> = nodes.replicas(&node.id).map(Node::address).collect();
    if !followers.is_empty() {
        return Err(format!("{} has replicas: remove them first: {}", node.address(), followers.join(", ")));
    }
    if nodes.nodes.len() == 1 {
        return Err(format!("{} is the only node", node.address()));
    }
    Ok(node)
}

/// Removes a node: it leaves, or is forgotten if it cannot be reached.
///
/// # Errors
/// If the node refuses to leave, no other node can be reached, or the others still list it after
/// the time allowed.
pub fn remove(cluster: &mut Cluster, node: &Node) -> Result<String, String> {
    let how = match cluster.connect(node) {
        Ok(_) => {
            // Keys of slots that have moved away are deleted in the background.
            insist(&format!("{} leaves", node.address()), PATIENCE, "containing keys", || {
                cluster.ask(node, &["CLUSTER", "RESET"]).map(|_| String::new())
            })?;
            "has left the cluster"
        }
        Err(_) => {
            let nodes = cluster.nodes()?;
            let other = nodes.nodes.iter().find(|other| other.id != node.id && !other.has_failed);
            let other = other.ok_or("no other node is reachable")?;
            cluster.ask(other, &["CLUSTER", "FORGET", &node.id])?;
            "is unreachable and was forgotten"
        }
    };
    // The node queried so far may be the removed one.
    wait_until("the other nodes have removed it", PATIENCE, || {
        let nodes = cluster.nodes()?;
        if nodes.nodes.len() == 1 && nodes.nodes[0].id == node.id {
            return Ok(true);
        }
        Ok(nodes.node(&node.id).is_none())
    })?;
    Ok(format!("{} {how}\n", node.address()))
}

/// The primary to replace and the replica to take over. `word` names the replica, or a shard by its
/// primary.
///
/// # Errors
/// If the cluster cannot be queried or has no such node, or its shard has no primary or no replica
/// to take over.
pub fn check_failover(cluster: &mut Cluster, word: &str) -> Result<(Node, Node), String> {
    let nodes = cluster.nodes()?;
    let node = cluster.find(&nodes, word)?;
    let successor = match node.is_primary() {
        false => node,
        true => {
            let replica = nodes.replicas(&node.id).find(|replica| !replica.has_failed).cloned();
            replica.ok_or_else(|| format!("{} has no replica to take over", node.address()))?
        }
    };
    let primary = nodes.primary_of(&successor).cloned();
    let primary = primary.ok_or_else(|| format!("the shard of {} has no primary", successor.address()))?;
    Ok((primary, successor))
}

/// Makes the replica take over, and waits until the cluster knows.
///
/// # Errors
/// If the replica cannot be reached or refuses, or has not taken over in time.
pub fn fail_over(
    cluster: &mut Cluster,
    primary: &Node,
    successor: &Node,
    timeout: Duration,
) -> Result<String, String> {
    let begin = Instant::now();
    cluster.ask(successor, &["CLUSTER", "FAILOVER"])?;
    let what = format!("{} has taken over", successor.address());
    wait_until(&what, timeout, || {
        let nodes = cluster.nodes()?;
        let leads = nodes.node(&successor.id).is_some_and(Node::is_primary);
        Ok(leads && nodes.node(&primary.id).is_none_or(|old| !old.is_primary()))
    })?;
    Ok(format!("{what} from {} after {:.2} s\n", primary.address(), begin.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_and_replicas_are_spread_over_hosts() {
        let layout = Layout::of(&["a", "a", "b", "b", "c", "c"], 1).unwrap();
        assert_eq!(layout.shards, [(0, vec![5]), (2, vec![1]), (4, vec![3])]);
        assert_eq!(layout.range(0), (0, 5_460));
        assert_eq!(layout.range(2), (10_922, 16_383));
        let places: Vec<NodeAddress> = (1..=6).map(|port| ("h".to_owned(), port)).collect();
        assert!(layout.text(&places).starts_with("slots 0-5460  primary h:1  replicas h:6\n"));
    }

    #[test]
    fn surplus_servers_become_extra_replicas() {
        let layout = Layout::of(&["a"; 5], 1).unwrap();
        assert_eq!(layout.shards, [(0, vec![2, 4]), (1, vec![3])]);
        assert_eq!(layout.range(1), (8_192, 16_383));
        assert_eq!(Layout::of(&["a", "b"], 0).unwrap().shards, [(0, vec![]), (1, vec![])]);
        assert!(Layout::of(&["a"], 1).unwrap_err().contains("need at least 2 servers"));
    }
}
