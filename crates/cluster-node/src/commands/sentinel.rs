// SPDX-License-Identifier: BSD-3-Clause
//! SENTINEL in a group: discovery for Sentinel clients, which can find the primary here without a
//! Sentinel process.
//!
//! Every server of the group answers for the group's name, from the last records that it read from
//! etcd, and lists the other servers as further Sentinels. Replies have the fields of Redis 7.0's
//! Sentinel in their order; figures that a Sentinel measures itself (pings, links) are 0. Outside
//! a group the command does not exist, as on any server that is not a Sentinel.
//!
//! Code here must not access keys or wait: clients ask while the server serves no data.

use braid_executor::{Call, Handler, Row};
use braid_group::Node;
use braid_spec::{Category, CommandError, CommandResult, Flags, Group};

use crate::group;
use crate::group::view::{Address, View};

const ANY_TIME: Flags =
    Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE).and(Flags::SENTINEL);

const fn row(name: &'static str, handler: Handler, summary: &'static str) -> Row {
    Row::new(name, Group::Server, handler).flags(ANY_TIME).docs("2.8.4", summary, "O(N)")
}

const SUBCOMMANDS: &[Row] = &[
    row("ckquorum", check_quorum, "Returns whether a failover could be authorized.")
        .exactly(3)
        .syntax("master-name:string"),
    row("get-master-addr-by-name", primary_address, "Returns the primary's host and port.")
        .exactly(3)
        .syntax("master-name:string"),
    row("help", help, "Lists the subcommands.").exactly(2),
    row("is-master-down-by-addr", is_down, "Returns whether a primary is down.")
        .exactly(6)
        .syntax("ip:string port:integer current-epoch:integer runid:string"),
    row("master", master, "Describes the primary.").exactly(3).syntax("master-name:string"),
    row("masters", masters, "Describes all primaries: the group's.").exactly(2),
    row("myid", my_id, "Returns this server's run ID.").exactly(2),
    row("replicas", replicas, "Describes the replicas.").exactly(3).syntax("master-name:string"),
    row("sentinels", sentinels, "Describes the other servers.").exactly(3).syntax("master-name:string"),
    row("slaves", replicas, "Describes the replicas.")
        .exactly(3)
        .syntax("master-name:string")
        .deprecated("5.0.0", "`SENTINEL REPLICAS`"),
];

/// Rows for servers of a group.
pub const COMMANDS: &[Row] = &[Row::container("sentinel", Group::Server, SUBCOMMANDS)
    .categories(Category::ADMIN.and(Category::DANGEROUS))
    .docs(
        "2.8.4",
        "Groups the commands that Sentinel clients use to find the primary.",
        "Depends on subcommand.",
    )];

/// True if the client is connected to the TLS port; it then gets the TLS ports of other servers.
fn came_over_tls(call: &Call) -> bool {
    let tls_port = call.engine.config.tls_port();
    tls_port != 0 && call.session.record.local_address.to_string().ends_with(&format!(":{tls_port}"))
}

/// This server's view of its group.
fn view(call: &Call) -> Result<View, CommandError> {
    let group = group::of(call.engine).ok_or(CommandError::text("ERR this server is not in a group"))?;
    let mut view = group.view.lock().clone();
    let over_tls = came_over_tls(call);
    view.primary_address = view.primary_address.map(|address| address.for_client(over_tls));
    Ok(view)
}

/// [`view`] if the client names this group.
fn named_view(call: &Call) -> Result<View, CommandError> {
    let view = view(call)?;
    let is_named = call.args[2] == view.group.as_bytes();
    is_named.then_some(view).ok_or(CommandError::text("ERR No such master with that name"))
}

fn primary_address(call: &mut Call) -> CommandResult {
    let view = view(call)?;
    match view.primary_address.filter(|_| call.args[2] == view.group.as_bytes()) {
        Some(Address { host, port, .. }) => {
            call.reply.array(2);
            call.reply.bulk(host.as_bytes());
            call.reply.bulk_integer(i64::from(port));
        }
        None => call.reply.null_array(),
    }
    Ok(())
}

/// Writes an instance as a map.
fn instance(call: &mut Call, fields: &[(&str, String)]) {
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
}

/// The leading fields of all kinds of instances.
fn head(
    name: String,
    Address { host, port, .. }: &Address,
    run: &str,
    flags: &str,
) -> Vec<(&'static str, String)> {
    let zero = || "0".to_owned();
    vec![
        ("name", name),
        ("ip", host.to_string()),
        ("port", port.to_string()),
        ("runid", run.into()),
        ("flags", flags.into()),
        ("link-pending-commands", zero()),
        ("link-refcount", "1".into()),
        ("last-ping-sent", zero()),
        ("last-ok-ping-reply", zero()),
        ("last-ping-reply", zero()),
    ]
}

/// All servers except `but`, with their names.
fn others<'v>(view: &'v View, but: Option<&'v str>) -> Vec<(&'v str, &'v Node)> {
    let nodes = view.records.nodes.iter().map(|(name, node)| (&**name, node));
    nodes.filter(|(name, _)| Some(*name) != but).collect()
}

fn primary_node(view: &View) -> Option<&str> {
    view.primary.as_ref().map(|primary| &*primary.node)
}

fn describe_primary(call: &mut Call, view: &View) {
    let nowhere = Address { host: "".into(), port: 0, tls_port: 0 };
    let address = view.primary_address.as_ref().unwrap_or(&nowhere);
    let run = view.primary.as_ref().map_or("", |primary| &primary.run);
    let flags = if view.is_primary_down() { "s_down,o_down,master" } else { "master" };
    let lease_ms = group::of(call.engine).map_or(0, |group| group.settings.lease_ms);
    let mut fields = head(view.group.clone(), address, run, flags);
    fields.extend([
        ("down-after-milliseconds", lease_ms.to_string()),
        ("info-refresh", "0".into()),
        ("role-reported", "master".into()),
        ("role-reported-time", "0".into()),
        ("config-epoch", view.epoch.to_string()),
        ("num-slaves", others(view, primary_node(view)).len().to_string()),
        ("num-other-sentinels", others(view, Some(&view.id.node)).len().to_string()),
        ("quorum", "1".into()),
        ("failover-timeout", lease_ms.to_string()),
        ("parallel-syncs", "1".into()),
    ]);
    instance(call, &fields);
}

fn masters(call: &mut Call) -> CommandResult {
    let view = view(call)?;
    // There is no primary to describe before the first election.
    call.reply.array(usize::from(view.primary.is_some()));
    if view.primary.is_some() {
        describe_primary(call, &view);
    }
    Ok(())
}

fn master(call: &mut Call) -> CommandResult {
    let view = named_view(call)?;
    describe_primary(call, &view);
    Ok(())
}

fn replicas(call: &mut Call) -> CommandResult {
    let view = named_view(call)?;
    let replicas = others(&view, primary_node(&view));
    let over_tls = came_over_tls(call);
    call.reply.array(replicas.len());
    for (name, node) in replicas {
        let address = Address::of(node).for_client(over_tls);
        let is_in_sync = view.in_sync.iter().any(|id| *id.node == *name && id.run == node.run);
        let primary = view.primary_address.clone();
        let mut fields = head(address.to_string(), &address, &node.run, "slave");
        fields.extend([
            ("down-after-milliseconds", "0".into()),
            ("info-refresh", "0".into()),
            ("role-reported", "slave".into()),
            ("role-reported-time", "0".into()),
            ("master-link-down-time", "0".into()),
            ("master-link-status", if is_in_sync { "ok" } else { "err" }.into()),
            ("master-host", primary.as_ref().map_or("?".into(), |primary| primary.host.to_string())),
            ("master-port", primary.map_or(0, |primary| primary.port).to_string()),
            ("slave-priority", node.priority.to_string()),
            ("slave-repl-offset", "0".into()),
            ("replica-announced", "1".into()),
        ]);
        instance(call, &fields);
    }
    Ok(())
}

fn sentinels(call: &mut Call) -> CommandResult {
    let view = named_view(call)?;
    let servers = others(&view, Some(&view.id.node));
    let over_tls = came_over_tls(call);
    call.reply.array(servers.len());
    for (_, node) in servers {
        let mut fields =
            head(node.run.to_string(), &Address::of(node).for_client(over_tls), &node.run, "sentinel");
        fields.extend([
            ("last-hello-message", "0".into()),
            ("voted-leader", "?".into()),
            ("voted-leader-epoch", "0".into()),
        ]);
        instance(call, &fields);
    }
    Ok(())
}

fn check_quorum(call: &mut Call) -> CommandResult {
    let view = named_view(call)?;
    let usable = view.records.nodes.len();
    let why = if !view.etcd_error.is_empty() {
        "etcd is unreachable"
    } else if view.in_sync.len() < 2 {
        "No replica is in sync"
    } else {
        call.reply.simple(&format!(
            "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
        ));
        return Ok(());
    };
    Err(CommandError::text(format!("NOQUORUM {usable} usable Sentinels. {why}: there can be no failover")))
}

fn is_down(call: &mut Call) -> CommandResult {
    let view = view(call)?;
    let (port, _) = (call.integer_arg(3)?, call.integer_arg(4)?);
    let is_primary = view
        .primary_address
        .as_ref()
        .is_some_and(|address| call.args[2] == address.host.as_bytes() && port == i64::from(address.port));
    call.reply.array(3);
    call.reply.integer(i64::from(is_primary && view.is_primary_down()));
    call.reply.bulk(b"*");
    call.reply.integer(0);
    Ok(())
}

fn my_id(call: &mut Call) -> CommandResult {
    let view = view(call)?;
    call.reply.bulk(view.id.run.as_bytes());
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CKQUORUM <master-name>",
        "    Return whether another server could take over from the primary now.",
        "GET-MASTER-ADDR-BY-NAME <master-name>",
        "    Return the host and port of the group's primary. The name is the group's.",
        "IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
        "    Return whether the address is the primary's and no server holds its lease.",
        "MASTER <master-name>",
        "    Describe the group's primary.",
        "MASTERS",
        "    Describe it, in a list.",
        "MYID",
        "    Return this server's run ID.",
        "REPLICAS <master-name>",
        "    Describe the other servers.",
        "SENTINELS <master-name>",
        "    Describe the other servers that can be queried.",
    ])
}
