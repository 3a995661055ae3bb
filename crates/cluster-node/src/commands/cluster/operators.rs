// SPDX-License-Identifier: BSD-3-Clause
//! Operators' commands that change a cluster.
//!
//! In a multi-node cluster each command changes records in etcd (`braid_group::cluster`), and
//! replies once the change is committed and this node has applied it. A single-node cluster keeps
//! all slots, so only its epoch can change: a request gets the error that a stock server gives on
//! a node that owns everything, or, where a stock server would give slots away or join others, an
//! error that this is not possible here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_base::crc::HASH_SLOTS;
use braid_executor::background::Answer;
use braid_executor::cluster_map::{ClusterMap, ClusterView};
use braid_executor::services::Membership;
use braid_executor::{Call, Engine};
use braid_group::cluster::changes::{LocalIdentity, Operator};
use braid_group::cluster::slot_changes::{SlotChange, SlotRequest};
use braid_group::cluster::{Change, MapNode, Refusal, SlotSet};
use braid_replica::commands::{NO_REPLICAS, NOT_A_REPLICA, NOT_ONLINE};
use braid_resp::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use super::node_of;
use crate::cluster_report;
use crate::group::changes::{self, AskError, ChangeError};
use crate::group::slot_batch::{self, reply_to};
use crate::group::{self, foreign_keys};
use crate::identity::{self, Bump, Epochs};
use crate::slot_moves::orders;

/// How long MEET waits for the record of a server that responds.
const MEET_PATIENCE: Duration = Duration::from_secs(2);
/// Interval of asking a primary again that has not yet seen its replica online.
const ONLINE_PAUSE: Duration = Duration::from_millis(20);

/// A node's host and port.
type NodePlace = (String, u16);

const INVALID_SETSLOT: &str = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";

/// The error for requests that need other nodes or unassigned slots.
pub(super) fn alone(call: &Call) -> CommandError {
    let name = call.command.full_name.replace('|', " ").to_ascii_uppercase();
    CommandError::text(format!(
        "ERR {name} is not possible: this server is a cluster by itself and owns all slots"
    ))
}

fn unknown_node(id: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown node ", id, "")
}

fn not_written(error: std::io::Error) -> CommandError {
    CommandError::text(format!("ERR error saving the cluster node config: {error}"))
}

/// The cluster map, if there are several nodes.
pub(super) fn map_of<'e>(call: &Call<'e, '_>) -> Result<Option<&'e ClusterMap>, CommandError> {
    node_of(call)?;
    Ok(call.engine.cluster_map())
}

/// A request in the background, where it can wait for etcd.
pub(super) struct Task<'e> {
    pub(super) engine: &'e Engine,
    me: LocalIdentity,
    answer: Answer,
}

impl Task<'_> {
    /// Changes the cluster. False if the client has already received its error.
    fn change(&self, work: impl Fn(&Operator<'_>) -> Result<Change, Refusal>) -> Result<bool, CommandError> {
        changes::change_cluster(self.engine, &self.me, work)
            .map_err(|error: ChangeError| CommandError::text(error.to_string()))
    }

    /// Orders moves of slots; returns their names.
    pub(super) fn order(&self, wanted: Vec<(SlotSet, Arc<str>)>) -> Result<Vec<Arc<str>>, CommandError> {
        let names = orders::order_moves(self.engine, &self.me, wanted);
        names.map_err(|error| CommandError::text(error.to_string()))
    }

    /// Cancels moves from this server's shard, and with `also_to` those to it; returns their
    /// number.
    pub(super) fn cancel(&self, also_to: bool, name: Option<&str>) -> Result<usize, CommandError> {
        let count = orders::cancel_moves(self.engine, &self.me, also_to, name);
        count.map_err(|error| CommandError::text(error.to_string()))
    }
}

/// Runs `work` in the background and replies with its text.
pub(super) fn in_background(
    call: &mut Call,
    map: &ClusterMap,
    work: impl FnOnce(&Task<'_>) -> Result<String, CommandError> + Send + 'static,
) -> CommandResult {
    answer_later(call, map, work, |reply, text| reply.simple(&text))
}

/// [`in_background`] with a number as the reply.
pub(super) fn count_in_background(
    call: &mut Call,
    map: &ClusterMap,
    work: impl FnOnce(&Task<'_>) -> Result<usize, CommandError> + Send + 'static,
) -> CommandResult {
    answer_later(call, map, work, |reply, count| reply.integer(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn answer_later<T>(
    call: &mut Call,
    map: &ClusterMap,
    work: impl FnOnce(&Task<'_>) -> Result<T, CommandError> + Send + 'static,
    tell: impl FnOnce(&mut ReplyBuffer, T) + Send + 'static,
) -> CommandResult {
    let name = || call.command.full_name.replace('|', " ").to_ascii_uppercase();
    if !call.may_leave(false) {
        let error = format!("ERR {} is not allowed in a transaction or script", name());
        return Err(CommandError::text(error));
    }
    let engine = call.engine;
    let group = group::of(engine).ok_or(CommandError::text("ERR this server is not in a group"))?;
    let me = group.as_newcomer(&engine.config, &map.id(), &call.session.record.local_address);
    let record = &call.session.record;
    log::info!("{} (user request from 'id={} addr={}')", name(), record.id, record.address);
    call.work_in_background(move |engine, answer| {
        let task = Task { engine, me, answer };
        match work(&task) {
            Ok(done) => {
                let mut reply = task.answer.buffer();
                tell(&mut reply, done);
                task.answer.give(reply);
            }
            Err(error) => task.answer.give_error(&error),
        }
    })
}

/// Changes the cluster as `work` decides, and replies OK.
fn change(
    call: &mut Call,
    map: &ClusterMap,
    work: impl Fn(&Operator<'_>) -> Result<Change, Refusal> + Send + 'static,
) -> CommandResult {
    in_background(call, map, move |task| task.change(work).map(|_| "OK".to_owned()))
}

/// Changes slots. In a transaction of nothing else, EXEC does that.
fn change_slots(call: &mut Call, map: &ClusterMap, request: SlotRequest) -> CommandResult {
    if let Some(batch) = &mut call.session.transaction.slot_batch {
        batch.add(request);
        return Ok(());
    }
    in_background(call, map, move |task| {
        let outcomes = slot_batch::change_slots(task.engine, &task.me, vec![request.clone()]);
        let outcomes = outcomes.map_err(|error| CommandError::text(error.to_string()))?;
        match outcomes.into_iter().next() {
            Some(Err(refusal)) => Err(CommandError::text(refusal.0)),
            Some(Ok(done)) => Ok(reply_to(&request, done)),
            None => Err(CommandError::text("ERR nothing was changed")),
        }
    })
}

/// Reads an argument as a node id.
pub(super) fn id_arg(call: &Call, index: usize) -> String {
    String::from_utf8_lossy(call.args[index]).into_owned()
}

/// All slots of these ranges.
fn each_of(ranges: Vec<(u16, u16)>) -> Vec<u16> {
    ranges.into_iter().flat_map(|(first, last)| first..=last).collect()
}

/// Parses an argument as a slot.
pub(super) fn slot_arg(call: &Call, index: usize) -> Result<u16, CommandError> {
    slot_of_text(call.args[index])
}

/// Parses a slot number.
///
/// # Errors
/// If the text is not the number of a slot.
pub fn slot_of_text(text: &[u8]) -> Result<u16, CommandError> {
    let slot = braid_base::number::parse_i64(text).and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|&slot| slot < HASH_SLOTS).ok_or(CommandError::text("ERR Invalid or out of range slot"))
}

/// Parses all arguments as slots.
fn slot_args(call: &Call) -> Result<Vec<u16>, CommandError> {
    (2..call.args.len()).map(|index| slot_arg(call, index)).collect()
}

/// Parses all arguments as slot ranges, first and last.
fn range_args(call: &Call) -> Result<Vec<(u16, u16)>, CommandError> {
    range_args_from(call, 2)
}

/// Parses the arguments from an index on as slot ranges.
pub(super) fn range_args_from(call: &Call, from: usize) -> Result<Vec<(u16, u16)>, CommandError> {
    if call.args.len() <= from || !(call.args.len() - from).is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let range = |index: usize| {
        let (start, end) = (slot_arg(call, index)?, slot_arg(call, index + 1)?);
        if start > end {
            return Err(CommandError::text(format!(
                "ERR start slot number {start} is greater than end slot number {end}"
            )));
        }
        Ok((start, end))
    };
    (from..call.args.len()).step_by(2).map(range).collect()
}

fn busy_slot(slot: u16) -> CommandError {
    CommandError::text(format!("ERR Slot {slot} is already busy"))
}

pub(super) fn add_slots(call: &mut Call) -> CommandResult {
    if let Some(map) = map_of(call)? {
        let slots = slot_args(call)?;
        return change_slots(call, map, SlotRequest::Add(slots));
    }
    // Redis checks one slot after the other, and the first is already busy.
    let slot = slot_arg(call, 2)?;
    Err(busy_slot(slot))
}

pub(super) fn add_slots_range(call: &mut Call) -> CommandResult {
    let map = map_of(call)?;
    let ranges = range_args(call)?;
    if let Some(map) = map {
        return change_slots(call, map, SlotRequest::Add(each_of(ranges)));
    }
    Err(ranges.first().map_or_else(|| call.wrong_arity(), |&(start, _)| busy_slot(start)))
}

pub(super) fn delete_slots(call: &mut Call) -> CommandResult {
    if let Some(map) = map_of(call)? {
        let slots = slot_args(call)?;
        return change_slots(call, map, SlotRequest::Delete(slots));
    }
    let mut slots = slot_args(call)?;
    slots.sort_unstable();
    if let Some(pair) = slots.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CommandError::text(format!("ERR Slot {} specified multiple times", pair[0])));
    }
    Err(alone(call))
}

pub(super) fn delete_slots_range(call: &mut Call) -> CommandResult {
    let map = map_of(call)?;
    let ranges = range_args(call)?;
    if let Some(map) = map {
        return change_slots(call, map, SlotRequest::Delete(each_of(ranges)));
    }
    Err(alone(call))
}

pub(super) fn flush_slots(call: &mut Call) -> CommandResult {
    if let Some(map) = map_of(call)? {
        if !call.engine.keyspace.is_empty() {
            return Err(CommandError::text("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
        }
        return change_slots(call, map, SlotRequest::Flush);
    }
    Err(alone(call))
}

pub(super) fn meet(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 5 {
        return Err(call.unknown_subcommand());
    }
    if call.integer_arg(3).is_err() {
        return Err(CommandError::quoting("ERR Invalid base port specified: ", call.args[3], ""));
    }
    if let Some(map) = map_of(call)? {
        return introduce(call, map);
    }
    Err(alone(call))
}

/// Makes another server join the cluster, and this one if it has not joined yet.
fn introduce(call: &mut Call, map: &ClusterMap) -> CommandResult {
    let host = id_arg(call, 2);
    let port = call.integer_arg(3).ok().and_then(|port| u16::try_from(port).ok()).filter(|&port| port != 0);
    let Some(port) = port else {
        let place = [call.args[2], b":", call.args[3]].concat();
        return Err(CommandError::quoting("ERR Invalid node address specified: ", &place, ""));
    };
    in_background(call, map, move |task| {
        let failed = |why: String| CommandError::text(format!("ERR cannot meet {host}:{port}: {why}"));
        let id = changes::ask_node(task.engine, &host, port, &[b"CLUSTER", b"MYID"]);
        let id = id.map_err(|why| failed(why.to_string()))?;
        // A server that has just started, or has a new id after CLUSTER RESET HARD, may not be in
        // etcd yet.
        let is_server = |view: &ClusterView| view.map.servers.values().any(|server| *server.id == *id);
        if !task.engine.cluster_map().is_some_and(|map| map.wait_until(is_server, MEET_PATIENCE)) {
            return Err(failed("it does not have this cluster's name, or has just started".into()));
        }
        task.change(|operator| operator.meet(&id, &host))?;
        Ok("OK".to_owned())
    })
}

pub(super) fn forget(call: &mut Call) -> CommandResult {
    let id = call.args[2];
    if let Some(map) = map_of(call)? {
        let id = id_arg(call, 2);
        if map.was_forgotten(&id) {
            call.reply.ok();
            return Ok(());
        }
        // Another node may have received the command first, of which this node has not heard yet.
        let was_known = map.view().map.node(&id).is_some();
        return change(call, map, move |operator| match was_known && operator.map.node(&id).is_none() {
            true => Ok(Change::default()),
            false => operator.forget(&id),
        });
    }
    if id == node_of(call)?.id().as_bytes() {
        return Err(CommandError::text("ERR I tried hard but I can't forget myself..."));
    }
    Err(unknown_node(id))
}

pub(super) fn replicate(call: &mut Call) -> CommandResult {
    let id = call.args[2];
    if let Some(map) = map_of(call)? {
        let id = id_arg(call, 2);
        return in_background(call, map, move |task| {
            let is_empty = task.engine.keyspace.is_empty();
            task.change(|operator| operator.replicate(&id, is_empty))?;
            changes::wait_for_primary(task.engine);
            Ok("OK".to_owned())
        });
    }
    if id == node_of(call)?.id().as_bytes() {
        return Err(CommandError::text("ERR Can't replicate myself"));
    }
    Err(unknown_node(id))
}

pub(super) fn fail_over(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    if call.args.len() == 3 && !call.arg_is(2, "force") && !call.arg_is(2, "takeover") {
        return Err(CommandError::Syntax);
    }
    if let Some(map) = map_of(call)? {
        return take_place(call, map);
    }
    Err(CommandError::text("ERR You should send CLUSTER FAILOVER to a replica"))
}

/// Makes this replica take over from its primary by a handover. If the primary is gone: with
/// FORCE, once its lease has expired and if this replica has all acknowledged data; with TAKEOVER,
/// with the data it has.
fn take_place(call: &mut Call, map: &ClusterMap) -> CommandResult {
    let view = map.view();
    if view.own().is_none() || view.leads {
        return Err(CommandError::text("ERR You should send CLUSTER FAILOVER to a replica"));
    }
    if call.args.len() == 3 && call.arg_is(2, "takeover") {
        let group = group::of(call.engine);
        let asked = group.map_or(Err("this server is not in a group"), |group| group.ask_takeover());
        asked.map_err(|why| CommandError::text(format!("ERR CLUSTER FAILOVER TAKEOVER: {why}")))?;
        call.reply.ok();
        return Ok(());
    }
    let is_forced = call.args.len() == 3;
    let is_tls = call.engine.config.tls_cluster();
    if is_forced
        && handover(&view, is_tls).is_none()
        && let Some(group) = group::of(call.engine)
    {
        group.ask_candidacy();
        call.reply.ok();
        return Ok(());
    }
    in_background(call, map, move |task| {
        let config = &task.engine.config;
        // Another failover may just be changing the primary.
        let patience = Duration::from_millis(u64::from(config.lease_time_ms()));
        let is_decided = |view: &ClusterView| view.leads || handover(view, is_tls).is_some();
        let map = task.engine.cluster_map().filter(|map| map.wait_until(is_decided, patience));
        let view = map.map(ClusterMap::view).unwrap_or_default();
        if view.leads {
            return Ok("OK".to_owned());
        }
        let Some((at, to)) = handover(&view, is_tls) else {
            return Err(CommandError::text(
                "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE",
            ));
        };
        let limit = config.cluster_manual_failover_timeout_milliseconds();
        let until = Instant::now() + Duration::from_millis(limit.into());
        let (port, limit) = (to.1.to_string(), limit.to_string());
        let request =
            [&b"FAILOVER"[..], b"TO", to.0.as_bytes(), port.as_bytes(), b"TIMEOUT", limit.as_bytes()];
        let error = loop {
            match changes::ask_node(task.engine, &at.0, at.1, &request) {
                Ok(text) => return Ok(text),
                Err(AskError::Refused(why)) if is_unseen(&why) && Instant::now() < until => {
                    std::thread::sleep(ONLINE_PAUSE);
                }
                Err(error) => break error,
            }
        };
        let text = match (group::of(task.engine), error) {
            (Some(group), AskError::Silent(_)) if is_forced => {
                group.ask_candidacy();
                return Ok("OK".to_owned());
            }
            // The primary may have received the request and act on it once it resumes.
            (_, AskError::Silent(why)) => {
                format!("ERR the outcome of the handover is unknown: {why}")
            }
            (_, AskError::Refused(why)) => {
                format!("ERR the primary refuses to hand over: {}", why.trim_start_matches("ERR "))
            }
        };
        Err(CommandError::text(text))
    })
}

/// The address of the primary of this replica's shard, and this replica's own. `None` if no server
/// leads the shard, or this one does.
fn handover(view: &ClusterView, is_tls: bool) -> Option<(NodePlace, NodePlace)> {
    let own = view.own().filter(|_| !view.leads)?;
    let shard = &own.known.shard;
    view.map.shards.get(shard)?.holder.as_ref()?;
    let primary = view.map.primary(shard).filter(|primary| primary.server.is_some())?;
    let place = |node: &MapNode| {
        let port = if is_tls { node.tls_port() } else { node.port() };
        (node.host().to_owned(), port)
    };
    Some((place(primary), place(own)))
}

/// True if a primary refuses a handover because it does not see this replica online. It learns
/// later than the replica that a full sync is complete, and that a link is up again.
fn is_unseen(why: &str) -> bool {
    [NOT_ONLINE, NOT_A_REPLICA, NO_REPLICAS].contains(&why)
}

pub(super) fn reset(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    if call.args.len() == 3 && !call.arg_is(2, "hard") && !call.arg_is(2, "soft") {
        return Err(CommandError::Syntax);
    }
    if let Some(map) = map_of(call)? {
        let is_hard = call.args.len() == 3 && call.arg_is(2, "hard");
        return leave(call, map, is_hard);
    }
    Err(alone(call))
}

/// Makes this node leave the cluster.
fn leave(call: &mut Call, map: &ClusterMap, is_hard: bool) -> CommandResult {
    if map.view().leads && !call.engine.keyspace.is_empty() {
        return Err(CommandError::text(
            "ERR CLUSTER RESET can't be called with master nodes containing keys",
        ));
    }
    in_background(call, map, move |task| {
        let engine = task.engine;
        let was_replica = engine.replication.link.is_replica();
        let node = identity::of(engine);
        // The node uses these epochs while it is alone.
        if let (Some(node), Some(report)) = (node, cluster_report::cluster_report(engine)) {
            let epochs = Epochs { own: report.own_epoch, current: report.epoch };
            node.keep_epochs(&engine.config, epochs).map_err(not_written)?;
        }
        task.change(|operator| operator.flush_slots())?;
        task.change(|operator| operator.leave())?;
        if was_replica {
            // A replica's data belong to its primary.
            foreign_keys::remove_all_keys(engine);
        }
        if let Some(node) = node.filter(|_| is_hard) {
            node.renew(&engine.config, engine.cluster_map()).map_err(not_written)?;
        }
        Ok("OK".to_owned())
    })
}

pub(super) fn save_config(call: &mut Call) -> CommandResult {
    node_of(call)?.save(&call.engine.config).map_err(not_written)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn set_config_epoch(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    let epoch = call.integer_arg(2)?;
    let Ok(epoch) = u64::try_from(epoch) else {
        return Err(CommandError::text(format!("ERR Invalid config epoch specified: {epoch}")));
    };
    let knows_others = |view: &ClusterView| view.own().is_some() && view.map.nodes.len() > 1;
    if map_of(call)?.is_some_and(|map| knows_others(&map.view())) {
        return Err(CommandError::text(
            "ERR The user can assign a config epoch only when the node does not know any other node.",
        ));
    }
    if !node.set_epoch(&call.engine.config, epoch).map_err(not_written)? {
        return Err(CommandError::text("ERR Node config epoch is already non-zero"));
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn bump_epoch(call: &mut Call) -> CommandResult {
    if let Some(map) = map_of(call)? {
        return change_slots(call, map, SlotRequest::BumpEpoch);
    }
    let bump = node_of(call)?.bump_epoch(&call.engine.config).map_err(not_written)?;
    match bump {
        Bump::Raised(epoch) => call.reply.simple(&format!("BUMPED {epoch}")),
        Bump::Still(epoch) => call.reply.simple(&format!("STILL {epoch}")),
    }
    Ok(())
}

pub(super) fn set_slot(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    let slot = slot_arg(call, 2)?;
    let id = call.args.get(4).copied();
    if let Some(map) = call.engine.cluster_map() {
        let wanted = match (id.map(|_| id_arg(call, 4)), call.args.len()) {
            (None, 4) if call.arg_is(3, "stable") => SlotChange::Stable,
            (Some(id), 5) if call.arg_is(3, "node") => SlotChange::Node(id),
            (Some(id), 5) if call.arg_is(3, "migrating") => SlotChange::Migrating(id),
            (Some(id), 5) if call.arg_is(3, "importing") => SlotChange::Importing(id),
            _ => return Err(CommandError::text(INVALID_SETSLOT)),
        };
        // Counted later, in the background.
        let request = SlotRequest::Set { slot, wanted, has_keys: false, emptied: None };
        return change_slots(call, map, request);
    }
    let is_own = id == Some(node.id().as_bytes());
    match (id, call.args.len()) {
        // The slot already has its owner and is not being moved.
        (None, 4) if call.arg_is(3, "stable") => {}
        (Some(_), 5) if call.arg_is(3, "node") && is_own => {}
        (Some(id), 5) if call.arg_is(3, "node") => return Err(unknown_node(id)),
        (Some(_), 5) if call.arg_is(3, "migrating") && is_own => return Err(alone(call)),
        (Some(id), 5) if call.arg_is(3, "migrating") => {
            return Err(CommandError::quoting("ERR I don't know about node ", id, ""));
        }
        (Some(_), 5) if call.arg_is(3, "importing") => {
            return Err(CommandError::text(format!("ERR I'm already the owner of hash slot {slot}")));
        }
        _ => {
            return Err(CommandError::text(INVALID_SETSLOT));
        }
    }
    call.reply.ok();
    Ok(())
}
