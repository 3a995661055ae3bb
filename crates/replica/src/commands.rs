// SPDX-License-Identifier: BSD-3-Clause
//! Replication commands: REPLCONF, PSYNC and SYNC from replicas, ROLE and FAILOVER. REPLICAOF,
//! which also names active-active peers, is in the crate `commands`.

use braid_base::number;
use braid_clients::ClientRecord;
use braid_executor::{Call, Row};
use braid_group::MemberId;
use braid_replication::failover::{FailoverPhase, FailoverRequest};
use braid_replication::link::Primary;
use braid_replication::replicas::options::{KEEPALIVE, SIBLING, SIBLING_SYNC};
use braid_replication::{Filter, ReplicaOptions, Stage, blocks};
use braid_spec::{Behavior, Category, CommandError, CommandResult, Flags, Group, Scope};

use crate::replicas::{self, Position};
use crate::{dual_channel, end_failover, failover, full_syncs, role, siblings};

/// Maximum length of an address announced by a replica.
const IP_LEN_MAX: usize = 255;

/// Errors of FAILOVER while the primary does not see the replica online.
pub const NO_REPLICAS: &str = "ERR FAILOVER requires connected replicas.";
pub const NOT_A_REPLICA: &str = "ERR FAILOVER target HOST and PORT is not a replica.";
pub const NOT_ONLINE: &str = "ERR FAILOVER target replica is not online.";

const SYNCHRONISES: Flags =
    Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NO_MULTI).and(Flags::NOSCRIPT);

/// Rows of the replication commands.
pub const COMMANDS: &[Row] = &[
    Row::new("failover", Group::Server, failover)
        .at_least(1)
        .flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE))
        .docs("6.2.0", "Lets a replica take this primary's place.", "O(1)")
        .scope(Scope::World)
        .syntax("[TO target:{host:string port:integer [FORCE]}] [ABORT] [TIMEOUT milliseconds:integer] [TAKEOVER]"),
    Row::new("psync", Group::Server, psync)
        .behavior(Behavior::ALLOWED_ON_REPLICA_LINK)
        .at_least(3)
        .flags(SYNCHRONISES)
        .scope(Scope::World)
        .docs("2.8.0", "Sends a replica the changes since an offset, after a full sync if needed.", "")
        .syntax("replicationid:string offset:integer"),
    Row::new("replconf", Group::Server, replconf)
        .behavior(Behavior::ALLOWED_ON_REPLICA_LINK)
        .at_least(1)
        .flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE).and(Flags::ALLOW_BUSY))
        .docs("3.0.0", "Reports a replica's properties and offset to its primary.", "O(1)"),
    Row::new("role", Group::Server, role)
        .exactly(1)
        .flags(Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE).and(Flags::FAST).and(Flags::SENTINEL))
        .categories(Category::ADMIN.and(Category::DANGEROUS))
        .docs("2.8.12", "Returns the server's replication role.", "O(1)"),
    Row::new("sync", Group::Server, sync)
        .behavior(Behavior::ALLOWED_ON_REPLICA_LINK)
        .exactly(1)
        .flags(SYNCHRONISES)
        .docs("1.0.0", "Sends a replica a full sync, and then all changes.", ""),
];

fn sync(call: &mut Call) -> CommandResult {
    attach(call, None)
}

fn psync(call: &mut Call) -> CommandResult {
    if call.session.replication.replica.is_some() {
        return Ok(());
    }
    let next = call.integer_arg(2).inspect_err(|_| {
        let client = describe(&call.session.record);
        log::warn!("Replica {client} asks for synchronization but with a wrong offset");
    })?;
    if call.args.len() > 3 && call.arg_is(3, "failover") {
        take_over(call)?;
    }
    let position = Position { id: call.args[1], next };
    attach(call, Some(&position))
}

/// Takes over on the request of this replica's primary.
fn take_over(call: &mut Call) -> CommandResult {
    let engine = call.engine;
    log::info!("Failover request received for replid {}.", call.args[1].escape_ascii());
    if engine.group.is_some() || engine.active.is_some() {
        return Err(CommandError::text("ERR PSYNC FAILOVER not allowed in a group."));
    }
    if !engine.replication.link.is_replica() {
        return Err(CommandError::text("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !engine.replication.history().id().as_bytes().eq_ignore_ascii_case(call.args[1]) {
        return Err(CommandError::text("ERR PSYNC FAILOVER replid must match my replid."));
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    role::become_primary(engine, world);
    log::info!("MASTER MODE enabled (failover request from '{}')", describe(&call.session.record));
    Ok(())
}

fn attach(call: &mut Call, position: Option<&Position<'_>>) -> CommandResult {
    if call.session.replication.replica.is_some() {
        return Ok(());
    }
    let link = &call.engine.replication.link;
    if link.is_replica() && !link.is_up() {
        return Err(CommandError::text("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let options = call.session.replication.options.as_deref();
    if let Some((_, epoch)) =
        options.filter(|options| !options.rdb_only).and_then(|options| options.member.as_ref())
        && (link.is_replica() || call.engine.replication.in_sync.epoch() != *epoch)
    {
        return Err(CommandError::text(format!(
            "NOMASTERLINK This server is not the primary of epoch {epoch}"
        )));
    }
    let is_other = call.session.replication.options.as_ref().is_none_or(|options| options.is_other());
    if is_other && call.engine.active.as_ref().is_some_and(|active| active.merges_copy()) {
        return Err(CommandError::text("NOMASTERLINK Can't SYNC while a peer's full copy is merged"));
    }
    if !call.reply.is_empty() {
        return Err(CommandError::text("ERR SYNC and PSYNC are invalid with pending output"));
    }
    let options = call.session.replication.options.as_deref();
    if options.is_some_and(|options| options.filter != Filter::ALL && !options.eof) {
        return Err(CommandError::text("ERR Filtered replica requires EOF capability"));
    }
    if let Some(sibling) = siblings::sibling_for(call.engine, call.session, position) {
        log::info!("Redirecting a replica to its sibling {sibling} for a full sync");
        call.reply.simple(&format!("{} {} {}", SIBLING.to_ascii_uppercase(), sibling.host, sibling.port));
        return Ok(());
    }
    if let Some(error) = full_syncs::unreadable_for(call.engine, call.session, position) {
        // Redis asks again later after this word. After others it would ask with SYNC at once.
        return Err(CommandError::text(format!("NOMASTERLINK {error}")));
    }
    if dual_channel::needs_dual_channel_sync(call.engine, call.session, position) {
        call.reply.simple("DUALCHANNELSYNC");
        return Ok(());
    }
    let now = call.clock_ms();
    replicas::attach_replica(call.engine, call.session, position, now);
    Ok(())
}

fn replconf(call: &mut Call) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let mut at = 1;
    while at + 1 < call.args.len() {
        let value = call.args[at + 1];
        let name = call.args[at].to_ascii_lowercase();
        match name.as_slice() {
            // Neither has a reply.
            b"ack" => return acknowledge(call, at),
            b"getack" => return Ok(()),
            b"version" => replica_options(call).valkey = major_version(value),
            b"listening-port" => {
                let port = number::parse_i64(value).and_then(|port| u16::try_from(port).ok());
                replica_options(call).port = port.ok_or(CommandError::NotAnInteger)?;
            }
            b"ip-address" => {
                if value.len() > IP_LEN_MAX {
                    return Err(CommandError::text(format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                        value.len()
                    )));
                }
                replica_options(call).ip = String::from_utf8_lossy(value).into_owned();
            }
            b"capa" if value.eq_ignore_ascii_case(b"dual-channel") => {
                let config = &call.engine.config;
                let is_on = config.dual_channel_replication_enabled() && config.repl_diskless_sync();
                replica_options(call).dual_channel |= is_on;
            }
            b"capa" => note_capability(replica_options(call), value),
            b"rdb-only" => replica_options(call).rdb_only = flag(value)?,
            b"rdb-channel" => replica_options(call).rdb_channel = flag(value)?,
            b"set-rdb-client-id" => {
                let id = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
                let client =
                    u64::try_from(id).ok().filter(|&client| dual_channel::has_reserved(call.engine, client));
                let unknown = || CommandError::text(format!("ERR Unrecognized RDB client id {id}"));
                replica_options(call).rdb_client = Some(client.ok_or_else(unknown)?);
            }
            b"rdb-filter-only" => replica_options(call).filter = filter(value)?,
            b"group-member" => {
                replica_options(call).member = Some(group_member(&call.args[at + 1..])?);
                // This option has two more values than the others.
                at += 2;
            }
            _ => {
                let text = String::from_utf8_lossy(call.args[at]).into_owned();
                return Err(CommandError::text(format!("ERR Unrecognized REPLCONF option: {text}")));
            }
        }
        at += 2;
    }
    call.reply.ok();
    Ok(())
}

/// The major version in `9.1.2`; 0 if it cannot be read.
fn major_version(text: &[u8]) -> u16 {
    let digits = text.split(|&byte| byte == b'.').next().unwrap_or_default();
    number::parse_i64(digits).and_then(|major| u16::try_from(major).ok()).unwrap_or(0)
}

/// Notes a capability of the replica; unknown ones are ignored.
fn note_capability(options: &mut ReplicaOptions, word: &[u8]) {
    let known = [
        ("eof", &mut options.eof),
        ("psync2", &mut options.psync2),
        (blocks::WORD, &mut options.compressed),
        (KEEPALIVE, &mut options.keepalive),
        (SIBLING, &mut options.sibling),
        (SIBLING_SYNC, &mut options.takes_sibling),
    ];
    for (name, has) in known {
        *has |= word.eq_ignore_ascii_case(name.as_bytes());
    }
}

fn replica_options<'c>(call: &'c mut Call) -> &'c mut ReplicaOptions {
    call.session.replication.options.get_or_insert_default()
}

fn flag(value: &[u8]) -> Result<bool, CommandError> {
    let flag = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
    let is_flag = (0..=1).contains(&flag);
    is_flag
        .then_some(flag == 1)
        .ok_or(CommandError::text("ERR value is out of range, must be between 0 and 1"))
}

/// REPLCONF group-member node run epoch: the identity of a replica in a group.
fn group_member(values: &[&[u8]]) -> Result<(MemberId, u64), CommandError> {
    let [node, run, epoch, ..] = values else {
        return Err(CommandError::text("ERR REPLCONF group-member needs a node, a run and an epoch"));
    };
    let (node, run) = (String::from_utf8_lossy(node), String::from_utf8_lossy(run));
    let member = MemberId::checked(&node, &run)
        .map_err(|error| CommandError::text(format!("ERR REPLCONF group-member: {error}")))?;
    let epoch =
        number::parse_i64(epoch).and_then(|epoch| u64::try_from(epoch).ok()).filter(|&epoch| epoch > 0);
    let epoch = epoch
        .ok_or(CommandError::text("ERR REPLCONF group-member: the epoch must be a number of at least 1"))?;
    Ok((member, epoch))
}

/// Parses the parts that a full sync includes, separated by spaces.
fn filter(text: &[u8]) -> Result<Filter, CommandError> {
    let mut filter = Filter { keys: false, functions: false };
    for part in text.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty()) {
        if part.eq_ignore_ascii_case(b"functions") {
            filter.functions = true;
        } else {
            let part = String::from_utf8_lossy(part);
            return Err(CommandError::text(format!("ERR Unsupported rdb-filter-only option: {part}")));
        }
    }
    Ok(filter)
}

/// REPLCONF ACK offset [FACK offset].
fn acknowledge(call: &mut Call, at: usize) -> CommandResult {
    let Some(replica) = call.session.replication.replica.clone() else { return Ok(()) };
    let offset = |index: usize| {
        let text = call.args.get(index)?;
        number::parse_i64(text).and_then(|offset| u64::try_from(offset).ok())
    };
    let on_disk = if call.args.len() > at + 3 && call.arg_is(at + 2, "fack") { offset(at + 3) } else { None };
    if let Some(acknowledged) = offset(at + 1) {
        let now = call.clock_ms();
        replicas::acknowledge(call.engine, &replica, acknowledged, on_disk, now, call.keyspace.context);
    }
    Ok(())
}

fn role(call: &mut Call) -> CommandResult {
    let engine = call.engine;
    let history = engine.replication.history();
    let own_offset = i64::try_from(history.offset(engine.keyspace.journal.end())).unwrap_or(i64::MAX);
    if let Some(primary) = engine.replication.link.primary() {
        let link = &engine.replication.link;
        call.reply.array(5);
        call.reply.bulk(b"slave");
        call.reply.bulk(primary.host.as_bytes());
        call.reply.integer(i64::from(primary.port));
        call.reply.bulk(link.phase().name().as_bytes());
        call.reply.integer(if link.is_up() { own_offset } else { -1 });
        return Ok(());
    }
    let mut replicas = engine.replication.replicas();
    replicas.retain(|replica| replica.stage() == Stage::Online);
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(own_offset);
    call.reply.array(replicas.len());
    for replica in replicas {
        call.reply.array(3);
        call.reply.bulk(replica.ip().as_bytes());
        call.reply.bulk(replica.options.port.to_string().as_bytes());
        let offset = history.offset(replica.acknowledged.load(std::sync::atomic::Ordering::Relaxed));
        call.reply.bulk(offset.to_string().as_bytes());
    }
    Ok(())
}

/// A client's identity for the log.
pub fn describe(record: &ClientRecord) -> String {
    format!("id={} addr={}", record.id, record.address)
}

/// The options of FAILOVER.
#[derive(Default)]
struct FailoverOptions {
    request: FailoverRequest,
    abort: bool,
    timeout: bool,
    /// Braid's own, in a group: an operator makes this server the primary.
    takeover: bool,
}

impl FailoverOptions {
    fn parse(call: &Call) -> Result<FailoverOptions, CommandError> {
        let mut options = FailoverOptions::default();
        let mut at = 1;
        while at < call.args.len() {
            let behind = call.args.len() - at - 1;
            if call.arg_is(at, "timeout") && behind >= 1 && !options.timeout {
                options.request.timeout_ms = call.integer_arg(at + 1)?;
                if options.request.timeout_ms <= 0 {
                    return Err(CommandError::text("ERR FAILOVER timeout must be greater than 0"));
                }
                options.timeout = true;
                at += 1;
            } else if call.arg_is(at, "abort") && call.args.len() == 2 {
                options.abort = true;
            } else if call.arg_is(at, "takeover") && call.args.len() == 2 && call.engine.group.is_some() {
                options.takeover = true;
            } else if call.arg_is(at, "to") && behind >= 2 && options.request.target.is_none() {
                // An invalid port matches no replica.
                let port = u16::try_from(call.integer_arg(at + 2)?).unwrap_or(0);
                let host = String::from_utf8_lossy(call.args[at + 1]).into_owned();
                options.request.target = Some(Primary { host, port });
                at += 2;
            } else if call.arg_is(at, "force") && !options.request.force {
                options.request.force = true;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }
}

fn failover(call: &mut Call) -> CommandResult {
    let engine = call.engine;
    if engine.active.is_some() {
        return Err(CommandError::text(
            "ERR FAILOVER not allowed with active-replica: every server accepts writes.",
        ));
    }
    if engine.cluster.as_ref().is_some_and(|node| node.map.is_none()) {
        return Err(CommandError::text(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    let FailoverOptions { request, abort, takeover, .. } = FailoverOptions::parse(call)?;
    if let Some(group) = engine.group.as_ref().filter(|_| takeover) {
        group.ask_takeover().map_err(|why| CommandError::text(format!("ERR FAILOVER TAKEOVER: {why}")))?;
        call.reply.ok();
        return Ok(());
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    if abort {
        if !end_failover::end_failover_in(engine, world, "Failover manually aborted") {
            return Err(CommandError::text("ERR No failover in progress."));
        }
        call.reply.ok();
        return Ok(());
    }
    if engine.replication.failover.phase() != FailoverPhase::None {
        return Err(CommandError::text("ERR FAILOVER already in progress."));
    }
    if engine.replication.link.is_replica() {
        return Err(CommandError::text("ERR FAILOVER is not valid when server is a replica."));
    }
    if engine.group.is_some() && request.force {
        return Err(CommandError::text("ERR FAILOVER FORCE not allowed in a group: it would lose writes."));
    }
    if engine.replication.replicas().is_empty() {
        return Err(CommandError::text(NO_REPLICAS));
    }
    if request.force && (request.timeout_ms == 0 || request.target.is_none()) {
        return Err(CommandError::text(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    if let Some(target) = &request.target {
        let replica = failover::replica_at(engine, target);
        let replica = replica.ok_or(CommandError::text(NOT_A_REPLICA))?;
        if replica.stage() != Stage::Online {
            return Err(CommandError::text(NOT_ONLINE));
        }
    }
    failover::begin_failover(engine, world, request).map_err(CommandError::text)?;
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_copy_are_named() {
        assert_eq!(filter(b""), Ok(Filter { keys: false, functions: false }));
        assert_eq!(filter(b" Functions  functions"), Ok(Filter { keys: false, functions: true }));
        assert_eq!(
            filter(b"functions keys"),
            Err(CommandError::text("ERR Unsupported rdb-filter-only option: keys"))
        );
    }
}
