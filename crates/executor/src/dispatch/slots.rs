// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: the keys of a request must be in one slot, and that slot must be served here.
//! Otherwise the client is redirected or told to wait.
//!
//! Source: Redis documentation, "Redis cluster specification".

use braid_base::crc::key_hash_slot;
use braid_clients::{Address, ClientRecord, client_flags};
use braid_config::{ClusterEndpointType, Config};
use braid_group::cluster::MapNode;
use braid_keyspace::{KeyRef, Keyspace};
use braid_spec::{Behavior, ChannelAccess, Command, CommandError, CommandTable, Flags, keys};

use super::Worker;
use super::data::{is_exec, writes};
use crate::cluster_map::{ClusterMap, ClusterView};
use crate::engine::Engine;
use crate::locks::{LockSet, lock};
use crate::session::Session;
use crate::state::slot_moves::ImportSession;

/// The error for keys in several slots; the texts here are Redis's.
const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// The error for a slot without an owner.
const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";

/// The error while slots have no owner and the cluster must serve all or none.
const DOWN: &str = "CLUSTERDOWN The cluster is down";

/// The error for writes in that state where reads are served nevertheless.
const DOWN_FOR_WRITES: &str = "CLUSTERDOWN The cluster is down and only accepts read commands";

/// The error for several keys of a slot being moved, some of which are elsewhere.
const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";

/// The slot of the keys seen so far.
#[derive(Default)]
pub struct OneSlot(Option<u16>);

impl OneSlot {
    /// Adds a key or shard channel. False if its slot differs.
    pub fn accepts(&mut self, key: &[u8]) -> bool {
        let slot = key_hash_slot(key);
        *self.0.get_or_insert(slot) == slot
    }

    /// Adds all keys and shard channels of a request. False if a slot differs.
    pub fn accepts_all(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let found = keys::find_slotted(command.spec, args).unwrap_or_default();
        found.into_iter().all(|at| self.accepts(args[at.index]))
    }
}

/// True if a lock set is in one slot, according to its hashes.
#[inline]
pub(super) fn are_of_one(keyspace: &Keyspace, keys: &[KeyRef<'_>]) -> bool {
    let slot = |key: &KeyRef<'_>| keyspace.slot_of(key.hash);
    keys.windows(2).all(|pair| slot(&pair[0]) == slot(&pair[1]))
}

/// Refuses a request whose keys are in several slots, or in a slot served elsewhere. For EXEC,
/// the keys of all its commands count together.
#[cold]
pub(super) fn check(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    if session
        .cluster
        .import
        .as_ref()
        .is_some_and(|import| fills(&engine.commands, import, session, command, args))
    {
        return Ok(());
    }
    let asks = session.cluster.asks;
    session.cluster.asks &= is_in_transaction_after(session, command);
    let mut slot = OneSlot::default();
    let is_one = match &session.transaction.queue {
        // A broken transaction is refused for being broken.
        Some(queue) if is_exec(command) => {
            if queue.broken {
                return Ok(());
            }
            queue
                .commands
                .iter()
                .all(|queued| slot.accepts_all(engine.commands.get(queued.command), &queued.args()))
        }
        _ if command.simple_keys.is_single() => args.get(1).is_none_or(|key| slot.accepts(key)),
        _ => slot.accepts_all(command, args),
    };
    let map = engine.cluster_map().filter(|_| !only_unsubscribes(&engine.commands, session, command));
    // As in Redis, an unserved slot is reported before keys in several slots.
    let Some(map) = map.filter(|_| !session.execution.is_replay) else {
        return if is_one { Ok(()) } else { Err(CommandError::text(CROSS_SLOT)) };
    };
    let Some(slot) = slot.0 else { return Ok(()) };
    if is_one && map.serves(slot) {
        session.cluster.served = Some(slot);
        return Ok(());
    }
    let view = map.view();
    if view.map.owner(slot).is_none() {
        return Err(CommandError::text(NOT_SERVED));
    }
    if !is_one {
        return Err(CommandError::text(CROSS_SLOT));
    }
    let asked = Elsewhere { engine, session, command, args, view: &view, slot };
    asked.check(worker, asks || command.spec.flags.has(Flags::ASKING))
}

/// True for SUNSUBSCRIBE, and for EXEC of nothing else. It is served wherever it arrives: after a
/// move, or while one ends, the client may not know yet that its subscription is over, and takes
/// the message about that for the reply. A redirection would then be one reply too many.
pub(super) fn only_unsubscribes(commands: &CommandTable, session: &Session, command: &Command) -> bool {
    let ends = |command: &Command| {
        let channels = command.spec.channels;
        channels.is_some_and(|channels| channels.access == ChannelAccess::Unsubscribe)
    };
    match &session.transaction.queue {
        Some(queue) if is_exec(command) => {
            let mut queued = queue.commands.iter();
            !queue.commands.is_empty() && queued.all(|queued| ends(commands.get(queued.command)))
        }
        _ => ends(command),
    }
}

/// True if a transaction is open once a command has run: ASKING before MULTI holds until its end.
fn is_in_transaction_after(session: &Session, command: &Command) -> bool {
    match session.transaction.queue.is_some() {
        true => !is_exec(command) && !command.behavior.has(Behavior::REPLAY_DROPS_TRANSACTION),
        false => command.behavior.has(Behavior::REPLAY_OPENS_TRANSACTION),
    }
}

/// True if a request reaches only slots that its connection imports.
#[cold]
fn fills(
    commands: &CommandTable,
    import: &ImportSession,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    let fills = |command: &Command, args: &[&[u8]]| {
        let found = keys::find_slotted(command.spec, args).unwrap_or_default();
        found.into_iter().all(|at| import.covers(args[at.index]))
    };
    match &session.transaction.queue {
        Some(queue) if is_exec(command) => {
            queue.commands.iter().all(|queued| fills(commands.get(queued.command), &queued.args()))
        }
        _ => fills(command, args),
    }
}

/// A request for a slot that is not served here unconditionally.
struct Elsewhere<'r> {
    engine: &'r Engine,
    session: &'r Session,
    command: &'r Command,
    args: &'r [&'r [u8]],
    view: &'r ClusterView,
    slot: u16,
}

impl Elsewhere<'_> {
    fn check(&self, worker: &mut Worker, asks: bool) -> Result<(), CommandError> {
        let Elsewhere { engine, session, command, view, slot, .. } = *self;
        let config = &engine.config;
        if config.cluster_require_full_coverage() && !view.map.is_complete() {
            let is_channel = command.spec.channels.is_some();
            let (reads, writes) = (config.cluster_allow_reads_when_down(), self.writes());
            match () {
                () if is_channel && config.cluster_allow_pubsubshard_when_down() => {}
                () if is_channel || !reads => return Err(CommandError::text(DOWN)),
                () if writes => return Err(CommandError::text(DOWN_FOR_WRITES)),
                () => {}
            }
        }
        let owns = view.owns(slot);
        // The primary according to the records was restarted, and its shard's leader is not yet
        // decided. While that takes moments only, commands wait, and MULTI queues them.
        let is_led = || engine.cluster_map().is_some_and(ClusterMap::is_led);
        if owns && view.leads && !is_led() && !engine.slot_moves.holds_all() {
            return Err(CommandError::text(NOT_SERVED));
        }
        let own = view.own_slots().filter(|_| view.leads);
        let target = own.and_then(|own| own.migrating.get(&slot)).filter(|_| owns);
        let is_importing = own.is_some_and(|own| own.importing.contains_key(&slot)) && !owns;
        // Its keys are being counted.
        let is_left = own.is_some_and(|own| own.left.contains(slot)) && !owns;
        if command.behavior.has(Behavior::MOVES_KEYS) && (target.is_some() || is_importing) {
            return Ok(());
        }
        if is_left && asks {
            return Err(CommandError::text(TRY_AGAIN));
        }
        // Keys come back from the node that the owner refers clients to.
        if target.is_some() && command.spec.flags.has(Flags::ASKING) {
            return Ok(());
        }
        if target.is_some() || is_importing && asks {
            let (there, missing) = self.count(worker);
            match target {
                Some(_) if missing > 0 && there > 0 => return Err(CommandError::text(TRY_AGAIN)),
                Some(target) if missing > 0 => {
                    return Err(self.redirect("ASK", view.map.node(&view.map.primary_for(target))));
                }
                None if missing > 0 && there + missing > 1 => return Err(CommandError::text(TRY_AGAIN)),
                _ => return Ok(()),
            }
        }
        if owns && view.leads {
            return Ok(());
        }
        // Messages published at the primary reach its replicas' subscribers.
        let reads_here = command.spec.channels.is_some() || session.record.has(client_flags::READS_REPLICA);
        if owns && reads_here && !self.writes() {
            return Ok(());
        }
        let primary = view.map.owner(slot).and_then(|shard| view.map.primary(shard));
        Err(self.redirect("MOVED", primary))
    }

    fn writes(&self) -> bool {
        writes(self.engine, self.session.transaction.queue.as_deref(), self.command, self.args)
            || self.command.spec.flags.has(Flags::MAY_REPLICATE)
    }

    /// The numbers of the request's keys that are present and missing here.
    fn count(&self, worker: &mut Worker) -> (usize, usize) {
        let Elsewhere { engine, session, command, args, .. } = *self;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut add = |command: &Command, args: &[&[u8]]| {
            let found = keys::find(command.spec, args).unwrap_or_default();
            keys.extend(found.into_iter().map(|at| args[at.index].to_vec()));
        };
        match &session.transaction.queue {
            Some(queue) if is_exec(command) => {
                queue
                    .commands
                    .iter()
                    .for_each(|queued| add(engine.commands.get(queued.command), &queued.args()));
            }
            _ => add(command, args),
        }
        // A key may occur several times, for example in a transaction.
        keys.sort_unstable();
        keys.dedup();
        let hash = |key: &Vec<u8>| engine.keyspace.hash(key);
        let refs: Vec<KeyRef<'_>> =
            keys.iter().map(|key| KeyRef { key, hash: hash(key), write: false }).collect();
        let now = worker.now_ms;
        let txn = lock(&engine.keyspace, &mut worker.context, LockSet::Keys(&refs), session.db, now);
        let there = keys.iter().filter(|key| txn.peek(key).is_some()).count();
        (there, keys.len() - there)
    }

    /// The error that sends a client to another node.
    fn redirect(&self, how: &str, node: Option<&MapNode>) -> CommandError {
        let Some(node) = node else { return CommandError::text(NOT_SERVED) };
        let is_tls = is_over_tls(&self.engine.config, &self.session.record);
        let (port, slot) = (if is_tls { node.tls_port() } else { node.port() }, self.slot);
        let host = match self.engine.config.cluster_preferred_endpoint_type() {
            ClusterEndpointType::Ip => node.host(),
            ClusterEndpointType::Hostname if node.hostname().is_empty() => "?",
            ClusterEndpointType::Hostname => node.hostname(),
            ClusterEndpointType::UnknownEndpoint => "",
        };
        CommandError::text(format!("{how} {slot} {host}:{port}"))
    }
}

/// True if this node of a cluster of several serves the slot of a key without further checks.
#[inline]
pub(super) fn serves_slot_of(engine: &Engine, hash: u64) -> bool {
    let map = engine.cluster_map();
    map.is_some_and(|map| map.serves(engine.keyspace.slot_of(hash)))
}

/// True if the slot for which a session's command was allowed is no longer served here.
pub(super) fn has_left(engine: &Engine, session: &Session) -> bool {
    session.cluster.served.is_some_and(|slot| engine.cluster_map().is_some_and(|map| !map.serves(slot)))
}

/// True if a client is connected by TLS: redirections then name TLS ports.
pub fn is_over_tls(config: &Config, record: &ClientRecord) -> bool {
    match &record.local_address {
        Address::Tcp(address) if config.tls_port() != 0 => address.port() == config.tls_port(),
        _ => config.port() == 0,
    }
}
