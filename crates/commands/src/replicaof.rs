// SPDX-License-Identifier: BSD-3-Clause
//! REPLICAOF and SLAVEOF: a new primary, or in active mode a new peer.

use braid_active_node::peers;
use braid_base::number;
use braid_executor::{Call, Row};
use braid_replica::become_replica::become_replica;
use braid_replica::commands::describe;
use braid_replica::role;
use braid_replication::failover::FailoverPhase;
use braid_replication::link::Primary;
use braid_spec::{CommandError, CommandResult, Flags, Group, Scope};

const CHANGES_ROLE: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_ASYNC_LOADING);

/// The row of REPLICAOF, for each of its names.
const fn replica_of(name: &'static str) -> Row {
    Row::new(name, Group::Server, replicaof)
        .exactly(3)
        .flags(CHANGES_ROLE)
        .scope(Scope::World)
        .syntax("args:(host-port:{host:string port:integer}|no-one:{NO ONE})")
}

/// Rows of both names.
pub const COMMANDS: &[Row] = &[
    replica_of("replicaof").docs("5.0.0", "Makes the server a replica of another, or a primary.", "O(1)"),
    replica_of("slaveof")
        .docs("1.0.0", "Makes the server a replica of another, or a primary.", "O(1)")
        .deprecated("5.0.0", "`REPLICAOF`"),
];

/// Parses the address of REPLICAOF.
fn address_arg<'a>(call: &Call<'a, '_>) -> Result<(&'a str, u16), CommandError> {
    let port = number::parse_i64(call.args[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::text("ERR Invalid master port"))?;
    let host = std::str::from_utf8(call.args[1]).ok().filter(|host| !host.contains('\0'));
    Ok((host.ok_or(CommandError::text("ERR Invalid master host"))?, port))
}

/// REPLICAOF in active mode: the other server becomes a peer, and this one continues to take
/// writes.
fn change_active_peers(call: &mut Call) -> CommandResult {
    let failed = |error: String| CommandError::text(format!("ERR {error}"));
    if call.arg_is(1, "no") && call.arg_is(2, "one") {
        peers::remove_active_peers(call.engine).map_err(failed)?;
    } else {
        let (host, port) = address_arg(call)?;
        peers::add_active_peer(call.engine, host, port).map_err(failed)?;
    }
    call.reply.ok();
    Ok(())
}

fn replicaof(call: &mut Call) -> CommandResult {
    let engine = call.engine;
    if engine.cluster.is_some() {
        return Err(CommandError::text("ERR REPLICAOF not allowed in cluster mode."));
    }
    if call.session.replication.replica.is_some() {
        return Err(CommandError::text("ERR Command is not valid when client is a replica."));
    }
    if engine.group.is_some() {
        return Err(CommandError::text(
            "ERR REPLICAOF not allowed in a group: FAILOVER changes its primary.",
        ));
    }
    if engine.replication.failover.phase() != FailoverPhase::None {
        return Err(CommandError::text("ERR REPLICAOF not allowed while failing over."));
    }
    if engine.active.is_some() {
        return change_active_peers(call);
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    let link = &engine.replication.link;
    if call.arg_is(1, "no") && call.arg_is(2, "one") {
        if link.is_replica() {
            role::become_primary(engine, world);
            log::info!("MASTER MODE enabled (user request from '{}')", describe(&call.session.record));
        }
        call.reply.ok();
        return Ok(());
    }
    let (host, port) = address_arg(call)?;
    let primary = Primary { host: host.to_owned(), port };
    if link.primary().as_ref() == Some(&primary) {
        log::info!(
            "REPLICAOF would result into synchronization with the master we are already connected with. No operation performed."
        );
        call.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    become_replica(engine, world, primary);
    log::info!("REPLICAOF {host}:{port} enabled (user request from '{}')", describe(&call.session.record));
    call.reply.ok();
    Ok(())
}
