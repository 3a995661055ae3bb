// SPDX-License-Identifier: BSD-3-Clause
//! Has slots move: plans them, shows the plan, and carries it out by CLUSTER MIGRATESLOTS, a few
//! hundred slots at a time.
//!
//! Each step is a move of the servers' own, which goes through or leaves the slots where they are,
//! and which they take up again by themselves after a failover. So whatever ends this program, no
//! slot is half way, and the same command begins where it has ended.

use std::time::{Duration, Instant};

use braid_client::{Connection, Info, Value, figures};
use serde_json::{Value as Json, json};

use crate::cluster::{Cluster, wait_until};
use crate::nodes::{Node, Nodes};
use crate::plan::{self, Move};
use crate::progress::Progress;
use crate::slots;

/// Slots that move at once: what changes in them meanwhile is kept by their source.
const AT_ONCE: usize = 512;
/// How often a step is tried: nodes fail over, and other operators move slots, too.
const ATTEMPTS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(500);
/// How often a move's progress is looked at.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long the node that is asked may take to hear of a move, a shard without slots to join
/// another one, and its nodes to load the data there.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is evened out.
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

    /// Reads a word of a command line.
    pub fn parse(text: &str) -> Result<By, String> {
        let all = [By::Slots, By::Keys, By::Bytes, By::Load];
        let found = all.into_iter().find(|by| by.word() == text);
        found.ok_or_else(|| format!("'{text}' cannot be evened out: slots, keys, bytes or load"))
    }
}

/// What is to move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// All slots of a node's shard to the others.
    Drain(String),
    Rebalance(By),
    Move {
        slots: Vec<u16>,
        to: String,
    },
}

/// A plan, and whom it is about.
pub struct Plan {
    pub primaries: Vec<Node>,
    pub moves: Vec<Move>,
    /// The nodes of the shard that is to lose all slots, its primary first.
    drained: Vec<Node>,
}

impl Plan {
    /// Works out what a wish takes.
    pub fn of(cluster: &mut Cluster, wish: &Wish) -> Result<Plan, String> {
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
        let moves = match wish {
            Wish::Move { slots: wanted, to } => {
                let owners = nodes.owners();
                let lost: Vec<u16> =
                    wanted.iter().copied().filter(|&slot| owners[usize::from(slot)].is_none()).collect();
                if !lost.is_empty() {
                    return Err(format!("nobody has slots {}", slots::short_text(&lost, 60)));
                }
                plan::given(&owned, wanted, place(&cluster.find(&nodes, to)?)?)
            }
            Wish::Drain(word) => {
                let node = cluster.find(&nodes, word)?;
                // Its shard may be another than is thought: one that was drained is a replica now.
                if let Some(primary) = nodes.primary_of(&node).filter(|primary| primary.id != node.id) {
                    return Err(format!(
                        "{} is a replica of {}, which is to be named if its shard is to be drained",
                        node.address(),
                        primary.address()
                    ));
                }
                let shard = place(&node)?;
                if primaries.len() == 1 {
                    return Err("there is no other primary that could have its slots".into());
                }
                let replicas = nodes.replicas(&node.id).cloned().collect();
                drained = [vec![node], replicas].concat();
                plan::emptied(&owned, shard)
            }
            Wish::Rebalance(by) => {
                let lost = nodes.uncovered();
                if !lost.is_empty() {
                    return Err(format!("nobody has slots {}", slots::short_text(&lost, 60)));
                }
                match by {
                    By::Slots => plan::even(&owned),
                    by => plan::by_weight(&owned, &weights(cluster, &primaries, *by)?),
                }
            }
        };
        Ok(Plan { primaries: primaries.into_iter().cloned().collect(), moves, drained })
    }

    /// For people.
    pub fn text(&self) -> String {
        if self.moves.is_empty() {
            return "no slot has to move\n".into();
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

    /// For programs.
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

    /// Has everything move, and waits until it has.
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
    /// Waits until the nodes of a shard that was drained are replicas of the one that has got the
    /// last slots and have its data, unless its primary is set to stay one. Which nodes, and whose.
    pub fn await_joining(&self, cluster: &mut Cluster) -> Option<(&[Node], Node)> {
        let node = self.drained.first().filter(|_| !self.moves.is_empty())?;
        let mut joined = None;
        let is_settled = wait_until("it is a replica", PATIENCE, || {
            let nodes = cluster.nodes()?;
            // It may have failed over, or left.
            let Some(primary) = nodes.node(&node.id).and_then(|node| nodes.primary_of(node)) else {
                return Ok(true);
            };
            joined = Some(primary.clone()).filter(|primary| !primary.slots.is_empty());
            Ok(joined.is_some() || !may_join(cluster, primary))
        });
        // Keys may keep it a primary, as its log tells.
        let primary = joined.filter(|_| is_settled.is_ok())?;
        let is_linked = |node: &Node| {
            // One that is not reached is not waited for.
            let Ok(told) = cluster.ask(node, &["INFO", "replication"]) else { return true };
            Info::parse(&told.text()).get("master_link_status") == Some("up")
        };
        // What they load takes its time: then they are told of nevertheless.
        let _ = wait_until("they have everything", PATIENCE, || Ok(self.drained.iter().all(is_linked)));
        Some((&self.drained, primary))
    }
}

/// Whether a primary becomes a replica when it has no slots any more. One that does not tell its
/// settings is not waited for.
fn may_join(cluster: &Cluster, primary: &Node) -> bool {
    let told = cluster.ask(primary, &["CONFIG", "GET", "cluster-allow-replica-migration"]);
    told.is_ok_and(|told| told.elements().get(1).is_some_and(|value| value.text() == "yes"))
}

/// What each slot holds, or costs, as its primary tells.
fn weights(cluster: &Cluster, primaries: &[&Node], by: By) -> Result<Vec<u64>, String> {
    let all = ["SLOTSRANGE", "0", "16383"];
    let (field, which) = match by {
        By::Slots | By::Keys => ("key-count", &all[..]),
        // Added up when it is asked for.
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
                    "{} does not count the {} of its slots (CLUSTER SLOT-STATS has no {field}): set \
                     cluster-slot-stats-enabled at all primaries and wait, or rebalance by slots, keys or bytes",
                    node.address(),
                    by.word()
                )
            })?;
        }
    }
    Ok(weights)
}

/// Has some slots of one owner move, again if it fails.
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
                        "slots {} cannot be moved: {error}. Those that have moved stay where they are; \
                         the same command goes on with the others",
                        slots::short_text(slots, 60)
                    ));
                }
                progress.show(&format!("{remark}, again: {error}"));
                std::thread::sleep(BETWEEN);
            }
        }
    }
}

/// Trying again does not help.
fn is_final(error: &str) -> bool {
    ["NOPERM", "NOAUTH", "unknown subcommand", "unknown command", "is not possible", "nobody has"]
        .iter()
        .any(|words| error.contains(words))
}

/// Whether the slots are there. If not, those of one owner have been moved.
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
    let target = target.ok_or("the target is in the cluster no more")?;
    let owners = nodes.owners();
    let owner = |slot: u16| owners[usize::from(slot)];
    let missing: Vec<u16> =
        slots.iter().copied().filter(|&slot| owner(slot).is_none_or(|node| node.id != target.id)).collect();
    let Some(&first) = missing.first() else { return Ok(true) };
    let source = owner(first).ok_or_else(|| format!("nobody has slot {first}"))?;
    let part: Vec<u16> =
        missing.into_iter().filter(|&slot| owner(slot).is_some_and(|node| node.id == source.id)).collect();
    let mut connection = cluster.connect(source)?;
    let at_source = |error: String| format!("{}: {error}", source.address());
    // One may be under way: an operator's, or this one's, which goes on after a failover.
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
            ours.ok_or_else(|| at_source("it does not know of the move".into()))?.text("name")
        }
    };
    await_move(&mut connection, &name, progress, remark).map_err(at_source)?;
    let from = source.id.clone();
    wait_until("the move is known", PATIENCE, || {
        let nodes = cluster.nodes()?;
        let owners = nodes.owners();
        Ok(part.iter().all(|&slot| owners[usize::from(slot)].is_some_and(|node| node.id != from)))
    })?;
    Ok(false)
}

/// The first move from a node that is meant.
fn find(source: &mut Connection, is_meant: impl Fn(&Fields) -> bool) -> Result<Option<Fields>, String> {
    let moves = source.expect(&["CLUSTER", "GETSLOTMIGRATIONS"]).map_err(|error| error.to_string())?;
    let mut moves = moves.elements().into_iter().map(Fields::of);
    Ok(moves.find(|one| one.text("operation") == "EXPORT" && is_meant(one)))
}

/// Waits until a move that was begun has succeeded.
fn await_move(source: &mut Connection, name: &str, progress: &Progress, remark: &str) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let ours = find(source, |one| one.text("name") == name)?;
        let Some(ours) = ours else { return Err("it does not know of the move any more".into()) };
        let message = ours.text("message");
        match ours.text("state").as_str() {
            "success" => return Ok(()),
            state if ours.is_over() => return Err(format!("the move has {state}: {message}")),
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

/// Names and values of a reply.
struct Fields(Vec<Value>);

impl Fields {
    fn of(value: Value) -> Fields {
        Fields(value.elements())
    }

    /// Of a move: nothing more happens.
    fn is_over(&self) -> bool {
        ["success", "failed", "cancelled"].contains(&self.text("state").as_str())
    }

    /// Of a move: a slot is among those that move.
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
