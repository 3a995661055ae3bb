// SPDX-License-Identifier: BSD-3-Clause
//! Moves slots: plans the moves, shows the plan, and carries it out by CLUSTER MIGRATESLOTS, a few
//! hundred slots at a time.
//!
//! The servers carry out each step as one atomic move, which completes or leaves the slots where
//! they are, and which they resume by themselves after a failover. Therefore if this program is
//! interrupted, no slot is left half moved, and the same command continues where it stopped.

use std::time::{Duration, Instant};

use braid_client::{Connection, Info, Value, figures};
use serde_json::{Value as Json, json};

use crate::cluster::{Cluster, wait_until};
use crate::nodes::{Node, Nodes};
use crate::plan::{self, Move};
use crate::progress::Progress;
use crate::slots;

/// Slots per step. The source buffers their changes during the move.
const AT_ONCE: usize = 512;
/// Attempts per step: nodes fail over, and other operators also move slots.
const ATTEMPTS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(500);
/// Polling interval of a move's progress.
const INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the queried node to learn of a move, for a shard without slots to join another one,
/// and for its nodes to load the data there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The quantity to balance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Slots,
    Keys,
    Bytes,
    Load,
}

impl By {
    pub fn word(self) -> &'static str {
        match self {
            By::Slots => "slots",
            By::Keys => "keys",
            By::Bytes => "bytes",
            By::Load => "load",
        }
    }

    /// Parses a word of the command line.
    ///
    /// # Errors
    /// If there is no such word.
    pub fn parse(text: &str) -> Result<By, String> {
        let all = [By::Slots, By::Keys, By::Bytes, By::Load];
        let found = all.into_iter().find(|by| by.word() == text);
        found.ok_or_else(|| format!("cannot rebalance by '{text}': use slots, keys, bytes or load"))
    }
}

/// The requested move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MoveRequest {
    /// Move all slots of a node's shard to the others.
    Drain(String),
    Rebalance(By),
    Move {
        slots: Vec<u16>,
        to: String,
    },
}

/// A plan, and the nodes involved.
pub struct Plan {
    pub primaries: Vec<Node>,
    pub moves: Vec<Move>,
    /// The nodes of the shard to be drained, its primary first.
    drained: Vec<Node>,
}

impl Plan {
    /// Computes the plan for a request.
    ///
    /// # Errors
    /// If the cluster cannot be queried or has no such node, a slot has no owner, a primary has
    /// failed, or there is no shard to take the slots.
    pub fn of(cluster: &mut Cluster, request: &MoveRequest) -> Result<Plan, String> {
        let nodes = cluster.nodes()?;
        let primaries: Vec<&Node> = nodes.primaries();
        let owned = Nodes::owned(&primaries);
        let place = |node: &Node| {
            let primary = nodes.primary_of(node).unwrap_or(node);
            let found = primaries.iter().position(|other| other.id == primary.id);
            found.ok_or_else(|| format!("the shard of {} has no primary", node.address()))
        };
        if let Some(node) = primaries.iter().find(|node| node.has_failed) {
            return Err(format!("{} has failed: see braid-cluster status", node.address()));
        }
        let mut drained = Vec::new();
        let moves = match request {
            MoveRequest::Move { slots: wanted, to } => {
                let owners = nodes.owners();
                let lost: Vec<u16> =
                    wanted.iter().copied().filter(|&slot| owners[usize::from(slot)].is_none()).collect();
                if !lost.is_empty() {
                    return Err(format!("no node has slots {}", slots::short_text(&lost, 60)));
                }
                plan::given(&owned, wanted, place(&cluster.find(&nodes, to)?)?)
            }
            MoveRequest::Drain(word) => {
                let node = cluster.find(&nodes, word)?;
                // It may not be in the shard the operator expects: the nodes of a drained shard are
                // replicas in another shard now.
                if let Some(primary) = nodes.primary_of(&node).filter(|primary| primary.id != node.id) {
                    return Err(format!(
                        "{} is a replica of {}: name the primary to drain its shard",
                        node.address(),
                        primary.address()
                    ));
                }
                let shard = place(&node)?;
                if primaries.len() == 1 {
                    return Err("there is no other primary to take its slots".into());
                }
                let replicas = nodes.replicas(&node.id).cloned().collect();
                drained = [vec![node], replicas].concat();
                plan::emptied(&owned, shard)
            }
            MoveRequest::Rebalance(by) => {
                let lost = nodes.uncovered();
                if !lost.is_empty() {
                    return Err(format!("no node has slots {}", slots::short_text(&lost, 60)));
                }
                match by {
                    By::Slots => plan::even(&owned),
                    by => plan::by_weight(&owned, &weights(cluster, &primaries, *by)?),
                }
            }
        };
        Ok(Plan { primaries: primaries.into_iter().cloned().collect(), moves, drained })
    }

    /// The plan as text.
    pub fn text(&self) -> String {
        if self.moves.is_empty() {
            return "no slot needs to move\n".into();
        }
        let mut out = String::new();
        for one in &self.moves {
            let (from, to) = (&self.primaries[one.from], &self.primaries[one.to]);
            out += &format!(
                "{} slots  {} -> {}  {}\n",
                one.slots.len(),
                from.address(),
                to.address(),
                slots::short_text(&one.slots, 60)
            );
        }
        out
    }

    /// The plan as JSON.
    pub fn json(&self) -> Json {
        let side = |shard: usize| {
            let node = &self.primaries[shard];
            json!({ "id": node.id.as_str(), "address": node.address() })
        };
        let one = |one: &Move| {
            json!({
                "from": side(one.from),
                "to": side(one.to),
                "count": one.slots.len(),
                "slots": slots::text(&one.slots),
            })
        };
        Json::Array(self.moves.iter().map(one).collect())
    }

    /// Carries out all moves, and waits until they are done.
    ///
    /// # Errors
    /// If a node cannot be reached or refuses, or a step does not end in time. The slots moved
    /// before stay moved.
    pub fn carry_out(&self, cluster: &mut Cluster) -> Result<(), String> {
        let mut progress = Progress::new("slots", plan::size(&self.moves) as u64);
        for one in &self.moves {
            let (from, to) = (&self.primaries[one.from], &self.primaries[one.to]);
            let remark = format!("{} -> {}", from.address(), to.address());
            for slots in one.slots.chunks(AT_ONCE) {
                progress.show(&remark);
                step(cluster, slots, &to.id, &progress, &remark)?;
                progress.advance(slots.len() as u64, &remark);
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Waits until the nodes of a drained shard are replicas in the shard that received its last
    /// slots and have loaded its data; does not wait if its primary is configured to stay one.
    /// Returns the nodes and their new primary; `None` if nothing was drained or the nodes have not
    /// joined another shard.
    pub fn await_joining(&self, cluster: &mut Cluster) -> Option<(&[Node], Node)> {
        let node = self.drained.first().filter(|_| !self.moves.is_empty())?;
        let mut joined = None;
        let waited = wait_until("it is a replica", PATIENCE, || {
            let nodes = cluster.nodes()?;
            // The node may have failed over or left.
            let Some(primary) = nodes.node(&node.id).and_then(|node| nodes.primary_of(node)) else {
                return Ok(true);
            };
            joined = Some(primary.clone()).filter(|primary| !primary.slots.is_empty());
            Ok(joined.is_some() || !may_join(cluster, primary))
        });
        // Remaining keys may keep it a primary; its log says so.
        let primary = joined.filter(|_| waited.is_ok())?;
        let is_linked = |node: &Node| {
            // Do not wait for an unreachable node.
            let Ok(told) = cluster.ask(node, &["INFO", "replication"]) else { return true };
            Info::parse(&told.text()).get("master_link_status") == Some("up")
        };
        // If loading takes too long, report them nevertheless.
        let _ = wait_until("the replicas are in sync", PATIENCE, || Ok(self.drained.iter().all(is_linked)));
        Some((&self.drained, primary))
    }
}

/// True if a primary becomes a replica once it has no slots. False if its settings cannot be read.
fn may_join(cluster: &Cluster, primary: &Node) -> bool {
    let told = cluster.ask(primary, &["CONFIG", "GET", "cluster-allow-replica-migration"]);
    told.is_ok_and(|told| told.elements().get(1).is_some_and(|value| value.text() == "yes"))
}

/// The weight of each slot, as reported by its primary.
fn weights(cluster: &Cluster, primaries: &[&Node], by: By) -> Result<Vec<u64>, String> {
    let all = ["SLOTSRANGE", "0", "16383"];
    let (field, which) = match by {
        By::Slots | By::Keys => ("key-count", &all[..]),
        // Slot memory is summed up only for this request.
        By::Bytes => ("memory-bytes", &["ORDERBY", "MEMORY-BYTES"][..]),
        By::Load => ("cpu-usec", &all[..]),
    };
    let mut weights = vec![0; slots::SLOTS];
    for node in primaries.iter().filter(|node| !node.slots.is_empty()) {
        let reply = cluster.ask(node, &[&["CLUSTER", "SLOT-STATS"][..], which].concat())?;
        for entry in reply.elements() {
            let mut entry = entry.elements().into_iter();
            let slot = entry.next().and_then(|slot| slot.integer()).and_then(|slot| u16::try_from(slot).ok());
            let fields = entry.next().map(Value::elements).unwrap_or_default();
            let Some(slot) = slot.filter(|slot| node.slots.binary_search(slot).is_ok()) else { continue };
            let told = fields.chunks_exact(2).find(|pair| pair[0].text() == field);
            let told = told.and_then(|pair| pair[1].integer()).and_then(|number| u64::try_from(number).ok());
            weights[usize::from(slot)] = told.ok_or_else(|| {
                format!(
                    "{} does not measure the {} of its slots (CLUSTER SLOT-STATS has no {field}): set \
                     cluster-slot-stats-enabled on all primaries and wait, or rebalance by slots, keys or \
                     bytes",
                    node.address(),
                    by.word()
                )
            })?;
        }
    }
    Ok(weights)
}

/// Moves some slots of one owner, with retries.
fn step(
    cluster: &mut Cluster,
    slots: &[u16],
    to: &str,
    progress: &Progress,
    remark: &str,
) -> Result<(), String> {
    let mut failures = 0;
    loop {
        match attempt(cluster, slots, to, progress, remark) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => {
                failures += 1;
                if failures == ATTEMPTS || is_final(&error) {
                    return Err(format!(
                        "slots {} cannot be moved: {error}. Slots already moved stay where they are; \
                         repeat the command to move the others",
                        slots::short_text(slots, 60)
                    ));
                }
                progress.show(&format!("{remark}, retrying: {error}"));
                std::thread::sleep(BETWEEN);
            }
        }
    }
}

/// True if a retry cannot help.
fn is_final(error: &str) -> bool {
    ["NOPERM", "NOAUTH", "unknown subcommand", "unknown command", "is not possible", "no node has"]
        .iter()
        .any(|words| error.contains(words))
}

/// True if the target already has all the slots. Otherwise moves those of one owner and returns
/// false.
fn attempt(
    cluster: &mut Cluster,
    slots: &[u16],
    to: &str,
    progress: &Progress,
    remark: &str,
) -> Result<bool, String> {
    let nodes = cluster.nodes()?;
    // Either side may have failed over.
    let target = nodes.node(to).and_then(|node| nodes.primary_of(node));
    let target = target.ok_or("the target has left the cluster")?;
    let owners = nodes.owners();
    let owner = |slot: u16| owners[usize::from(slot)];
    let missing: Vec<u16> =
        slots.iter().copied().filter(|&slot| owner(slot).is_none_or(|node| node.id != target.id)).collect();
    let Some(&first) = missing.first() else { return Ok(true) };
    let source = owner(first).ok_or_else(|| format!("no node has slot {first}"))?;
    let part: Vec<u16> =
        missing.into_iter().filter(|&slot| owner(slot).is_some_and(|node| node.id == source.id)).collect();
    let mut connection = cluster.connect(source)?;
    let at_source = |error: String| format!("{}: {error}", source.address());
    // A move may be in progress: an operator's, or our own, which continues after a failover.
    let known = find(&mut connection, |one| !one.is_over() && one.has(first)).map_err(at_source)?;
    let name = match known {
        Some(known) => known.text("name"),
        None => {
            let ranges = slots::ranges(&part);
            let mut words = vec!["CLUSTER".to_owned(), "MIGRATESLOTS".into(), "SLOTSRANGE".into()];
            words.extend(ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
            words.extend(["NODE".to_owned(), target.id.clone()]);
            connection.expect(&words).map_err(|error| at_source(error.to_string()))?;
            // The newest comes first.
            let ours = find(&mut connection, |one| one.has(first)).map_err(at_source)?;
            ours.ok_or_else(|| at_source("it does not know the move".into()))?.text("name")
        }
    };
    await_move(&mut connection, &name, progress, remark).map_err(at_source)?;
    let from = source.id.clone();
    wait_until("the cluster knows the new owner", PATIENCE, || {
        let nodes = cluster.nodes()?;
        let owners = nodes.owners();
        Ok(part.iter().all(|&slot| owners[usize::from(slot)].is_some_and(|node| node.id != from)))
    })?;
    Ok(false)
}

/// The first outgoing move that `is_meant` selects.
fn find(source: &mut Connection, is_meant: impl Fn(&Fields) -> bool) -> Result<Option<Fields>, String> {
    let moves = source.expect(&["CLUSTER", "GETSLOTMIGRATIONS"]).map_err(|error| error.to_string())?;
    let mut moves = moves.elements().into_iter().map(Fields::of);
    Ok(moves.find(|one| one.text("operation") == "EXPORT" && is_meant(one)))
}

/// Waits until a started move has succeeded.
fn await_move(source: &mut Connection, name: &str, progress: &Progress, remark: &str) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let ours = find(source, |one| one.text("name") == name)?;
        let Some(ours) = ours else { return Err("it no longer knows the move".into()) };
        let message = ours.text("message");
        match ours.text("state").as_str() {
            "success" => return Ok(()),
            state if ours.is_over() => return Err(format!("the move ended as {state}: {message}")),
            state => {
                let behind = ours.text("remaining_repl_size").parse().unwrap_or(0.0);
                let again = if message.is_empty() { message } else { format!(" again ({message})") };
                progress.show(&format!(
                    "{remark}, {state}{again}, {} to go, {:.0} s",
                    figures::bytes(behind),
                    begin.elapsed().as_secs_f64()
                ));
            }
        }
        std::thread::sleep(INTERVAL);
    }
}

/// A reply of names and values.
struct Fields(Vec<Value>);

impl Fields {
    fn of(value: Value) -> Fields {
        Fields(value.elements())
    }

    /// True if a move has ended.
    fn is_over(&self) -> bool {
        ["success", "failed", "cancelled"].contains(&self.text("state").as_str())
    }

    /// True if a move includes the slot.
    fn has(&self, slot: u16) -> bool {
        let ranges = self.text("slot_ranges");
        ranges.split(' ').filter_map(|range| range.split_once('-')).any(|(first, last)| {
            let bound = |text: &str| text.parse::<u16>().ok();
            bound(first).zip(bound(last)).is_some_and(|(first, last)| (first..=last).contains(&slot))
        })
    }

    fn text(&self, name: &str) -> String {
        let found = self.0.chunks_exact(2).find(|pair| pair[0].text() == name);
        found.map(|pair| pair[1].text()).unwrap_or_default()
    }
}
