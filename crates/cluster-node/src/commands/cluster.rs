// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER, READONLY, READWRITE and ASKING. In cluster mode this server is either a single-node
//! cluster that owns all slots (`crate::identity`) or a node of a multi-node cluster
//! (`braid_executor::cluster_map`). Otherwise they reply that cluster support is disabled, except
//! READONLY and READWRITE for clients that support redirections.
//!
//! Descriptions of the cluster are in `describe.rs`, slot queries in `slots.rs`, changes of the
//! cluster in `operators.rs`, atomic slot migration in `moves.rs`.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::client_flags;
use braid_executor::{Call, Engine, Handler, Row};
use braid_spec::{
    Behavior, Category, ChannelAccess, ChannelSpec, CommandError, CommandResult, Flags, Group, Scope,
    UsedDatabases,
};

use crate::forwarding;
use crate::identity::{self, ClusterNode};

mod describe;
mod moves;
pub mod operators;
pub mod shared;
pub mod slot_stats;
mod slots;

const ADMIN: Flags = Flags::ADMIN.and(Flags::STALE);
/// Flags of subcommands that describe the cluster; a loading replica answers them, too, as in
/// Valkey 9.
const TELLS: Flags = Flags::LOADING.and(Flags::STALE);
const CHANGES: Flags = ADMIN.and(Flags::NO_ASYNC_LOADING);
const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

const PER_SLOT: &str = "O(N) where N is the total number of hash slot arguments";
const PER_SLOT_IN_RANGES: &str =
    "O(N) where N is the total number of the slots between the start slot and end slot arguments.";
const PER_NODE: &str = "O(N) where N is the total number of Cluster nodes";
const PER_NODE_LOWER_CASE: &str = "O(N) where N is the total number of cluster nodes";
const PER_REPLICA: &str = "O(N) where N is the number of replicas.";

const fn row(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Cluster, handler)
}

const SUBCOMMANDS: &[Row] = &[
    row("addslots", operators::add_slots)
        .at_least(3)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("3.0.0", "Assigns hash slots to this node.", PER_SLOT)
        .syntax("slot:integer..."),
    row("addslotsrange", operators::add_slots_range)
        .at_least(4)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("7.0.0", "Assigns ranges of hash slots to this node.", PER_SLOT_IN_RANGES)
        .syntax("range:{start-slot:integer end-slot:integer}..."),
    row("bumpepoch", operators::bump_epoch)
        .exactly(2)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("3.0.0", "Raises this node's configuration epoch.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("cancelslotmigrations", moves::cancel_slot_migrations)
        .exactly(2)
        .databases(UsedDatabases::All)
        .flags(CHANGES)
        .docs(
            "9.0.0",
            "Cancels the slot moves started on this node.",
            "O(N), where N is the number of slot migration operations being cancelled.",
        ),
    row("count-failure-reports", describe::count_failure_reports)
        .exactly(3)
        .flags(ADMIN)
        .docs(
            "3.0.0",
            "Returns the number of nodes that report a node as failing.",
            "O(N) where N is the number of failure reports",
        )
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC),
    row("countkeysinslot", slots::count_keys)
        .exactly(3)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the number of keys in a hash slot.", "O(1)")
        .syntax("slot:integer"),
    row("delslots", operators::delete_slots)
        .at_least(3)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("3.0.0", "Makes this node forget the owners of hash slots.", PER_SLOT)
        .syntax("slot:integer..."),
    row("delslotsrange", operators::delete_slots_range)
        .at_least(4)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("7.0.0", "Makes this node forget the owners of ranges of hash slots.", PER_SLOT_IN_RANGES)
        .syntax("range:{start-slot:integer end-slot:integer}..."),
    row("failover", operators::fail_over)
        .at_least(2)
        .flags(CHANGES)
        .docs("3.0.0", "Makes a replica take its primary's place.", "O(1)")
        .syntax("[options:(FORCE|TAKEOVER)]"),
    row("flushslots", operators::flush_slots)
        .exactly(2)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("3.0.0", "Takes all hash slots from this node.", "O(1)"),
    row("forget", operators::forget)
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Removes a node from the table of nodes.", "O(1)")
        .syntax("node-id:string"),
    row("forward", forward)
        .exactly(4)
        .flags(ADMIN.and(Flags::LOADING))
        .channels(ChannelSpec { first: 2, all: false, patterns: false, access: ChannelAccess::Publish })
        .docs(
            "8.0.0",
            "Delivers a message published on another node to this node's subscribers.",
            "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of \
             subscribed patterns (by any client).",
        )
        .syntax("channel:string message:string"),
    row("getkeysinslot", slots::get_keys)
        .scope(Scope::Walk)
        .exactly(4)
        .flags(Flags::STALE)
        .docs(
            "3.0.0",
            "Returns names of keys in a hash slot.",
            "O(N) where N is the number of requested keys",
        )
        .syntax("slot:integer count:integer")
        .tips(NONDETERMINISTIC),
    row("getslotmigrations", moves::get_slot_migrations)
        .exactly(2)
        .flags(CHANGES)
        .docs(
            "9.0.0",
            "Lists slot moves that are in progress or ended recently.",
            "O(N), where N is the number of active slot import and export jobs.",
        ),
    row("help", help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "5.0.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    row("info", describe::info)
        .exactly(2)
        .flags(TELLS)
        .docs("3.0.0", "Returns the state of the cluster as this node sees it.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("keyslot", slots::key_slot)
        .exactly(3)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the hash slot of a key.", "O(N) where N is the number of bytes in the key")
        .syntax("key:string"),
    row("links", describe::links)
        .exactly(2)
        .flags(Flags::STALE)
        .docs("7.0.0", "Lists the connections between this node and its peers.", PER_NODE)
        .tips(NONDETERMINISTIC),
    row("meet", operators::meet)
        .at_least(4)
        .flags(CHANGES)
        .docs("3.0.0", "Makes this node shake hands with another.", "O(1)")
        .syntax("ip:string port:integer [cluster-bus-port:integer@4.0.0]")
        .history(&[("4.0.0", "Argument `cluster_bus_port`.")]),
    row("migrateslots", moves::migrate_slots)
        .at_least(4)
        .databases(UsedDatabases::All)
        .flags(CHANGES)
        .docs(
            "9.0.0",
            "Moves slots from this node to others.",
            "O(N) where N is the total number of the slots between all start slot and end slot arguments.",
        )
        .syntax(
            "migration-group:{SLOTSRANGE=slotsrange-token range:{start-slot:integer end-slot:integer}... \
             NODE=node-token node-id:string}...",
        ),
    row("migration", moves::migration)
        .at_least(4)
        .flags(CHANGES)
        .docs("8.4.0", "Starts, lists and cancels slot moves.", PER_SLOT_IN_RANGES)
        .syntax(
            "subcommand:(import=IMPORT:{start-slot:integer end-slot:integer}...|\
             cancel=CANCEL:(ID task-id:string|ALL)|status=STATUS:([ID task-id:string]|[ALL]))",
        ),
    row("myid", describe::my_id).exactly(2).flags(TELLS).docs("3.0.0", "Returns this node's ID.", "O(1)"),
    row("myshardid", describe::my_shard_id)
        .exactly(2)
        .flags(TELLS)
        .docs("7.2.0", "Returns the ID of this node's shard.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("nodes", describe::nodes)
        .exactly(2)
        .flags(TELLS)
        .docs("3.0.0", "Returns the nodes and their slots as this node sees them.", PER_NODE)
        .tips(NONDETERMINISTIC),
    row("replicas", describe::replicas)
        .exactly(3)
        .flags(ADMIN)
        .docs("5.0.0", "Lists the replicas of a primary.", PER_REPLICA)
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC),
    row("replicate", operators::replicate)
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Makes this node a replica of a primary.", "O(1)")
        .syntax("node-id:string"),
    row("reset", operators::reset)
        .at_least(2)
        .flags(ADMIN.and(Flags::NOSCRIPT))
        .docs(
            "3.0.0",
            "Makes this node forget the cluster.",
            "O(N) where N is the number of known nodes. May flush all keys.",
        )
        .syntax("[reset-type:(HARD|SOFT)]"),
    row("saveconfig", operators::save_config).exactly(2).flags(CHANGES).docs(
        "3.0.0",
        "Saves the state of the cluster to disk.",
        "O(1)",
    ),
    row("set-config-epoch", operators::set_config_epoch)
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Sets the configuration epoch of a new node.", "O(1)")
        .syntax("config-epoch:integer"),
    row("setslot", operators::set_slot)
        .at_least(4)
        .flags(CHANGES)
        .behavior(Behavior::CHANGES_SLOTS)
        .docs("3.0.0", "Binds a hash slot to a node, or marks it as moving.", "O(1)")
        .syntax(
            "slot:integer subcommand:(IMPORTING importing:string/node-id|MIGRATING migrating:string/node-id|\
             NODE node:string/node-id|STABLE)",
        ),
    row("settings", shared::settings)
        .at_least(2)
        .flags(ADMIN.and(Flags::NOSCRIPT))
        .docs(
            "8.0.0",
            "Lists or removes cluster-wide settings, users and functions.",
            "O(N) where N is the number of records",
        )
        .syntax(
            "[subcommand:(forget=FORGET:{kind:string name:string}|delete=DELETE:{LIBRARY name:string})]",
        ),
    row("shards", describe::shards)
        .exactly(2)
        .flags(TELLS)
        .docs("7.0.0", "Returns the hash slots and the nodes that serve them.", PER_NODE_LOWER_CASE)
        .tips(NONDETERMINISTIC),
    row("slaves", describe::replicas)
        .exactly(3)
        .flags(ADMIN)
        .docs("3.0.0", "Lists the replicas of a primary.", PER_REPLICA)
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC)
        .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
    row("slot-stats", slot_stats::slot_stats)
        .at_least(4)
        .flags(Flags::LOADING.and(Flags::STALE))
        .docs("8.2.0", "Returns statistics of slots.", "O(N log N) where N is the number of slots.")
        .syntax(
            "filter:(SLOTSRANGE slotsrange:{start-slot:integer end-slot:integer}|ORDERBY orderby:{metric:string \
             [LIMIT limit:integer] [order:(ASC|DESC)]})",
        )
        .tips(&["nondeterministic_output", "request_policy:all_shards"]),
    row("slots", describe::slots)
        .exactly(2)
        .flags(TELLS)
        .docs("3.0.0", "Returns the hash slots and the nodes that serve them.", PER_NODE)
        .history(&[("4.0.0", "Node IDs."), ("7.0.0", "Further metadata of addresses.")])
        .tips(NONDETERMINISTIC)
        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
    row("syncslots", moves::sync_slots).at_least(3).flags(CHANGES).docs(
        "9.0.0",
        "Exchanges messages about slot moves between nodes.",
        "O(N) where N is the size of what is passed on.",
    ),
];

/// Rows of the cluster commands.
pub const COMMANDS: &[Row] = &[
    row("asking", asking).exactly(1).flags(Flags::FAST).categories(Category::CONNECTION).docs(
        "3.0.0",
        "Lets the next command access a hash slot that is being moved here.",
        "O(1)",
    ),
    Row::container("cluster", Group::Cluster, SUBCOMMANDS).docs(
        "3.0.0",
        "Groups the commands on the cluster.",
        "Depends on subcommand.",
    ),
    Row::new("readonly", Group::Cluster, read_only)
        .exactly(1)
        .flags(Flags::FAST.and(Flags::LOADING).and(Flags::STALE))
        .categories(Category::CONNECTION)
        .docs("3.0.0", "Lets this connection read from a replica.", "O(1)"),
    Row::new("readwrite", Group::Cluster, read_write)
        .exactly(1)
        .flags(Flags::FAST.and(Flags::LOADING).and(Flags::STALE))
        .categories(Category::CONNECTION)
        .docs("3.0.0", "Reverts READONLY.", "O(1)"),
];

/// This server as a node, or the error of a server without cluster mode.
///
/// # Errors
/// If this server is not in cluster mode.
pub fn node_of<'e>(call: &Call<'e, '_>) -> Result<&'e ClusterNode, CommandError> {
    let engine: &'e Engine = call.engine;
    identity::of(engine).ok_or(CommandError::text("ERR This instance has cluster support disabled"))
}

fn asking(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.session.cluster.asks = true;
    call.reply.ok();
    Ok(())
}

/// Delivers a message that was published on another node.
fn forward(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let Some(forwarding) = forwarding::of(call.engine) else {
        return Err(operators::alone(call));
    };
    forwarding.received.fetch_add(1, Relaxed);
    let (from, blob) = (call.keyspace.context.slot, call.blob_of(call.args[3]));
    let receivers = call.engine.hub.publish(from, call.args[2], call.args[3], blob.as_ref());
    call.reply.integer(receivers as i64);
    Ok(())
}

fn read_only(call: &mut Call) -> CommandResult {
    reads_replica(call, true)
}

fn read_write(call: &mut Call) -> CommandResult {
    reads_replica(call, false)
}

/// Without a cluster, this matters only to clients that support redirections: a replica serves the
/// reads of other clients in any case.
fn reads_replica(call: &mut Call, reads: bool) -> CommandResult {
    let record = &call.session.record;
    if !record.knows_redirect.load(Relaxed) {
        node_of(call)?;
    }
    record.set_flag(client_flags::READS_REPLICA, reads);
    call.reply.ok();
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.help(&[
        "COUNTKEYSINSLOT <slot>",
        "    Number of keys in <slot>.",
        "GETKEYSINSLOT <slot> <count>",
        "    Names of at most <count> keys in <slot>.",
        "INFO",
        "    State of the cluster.",
        "KEYSLOT <key>",
        "    Slot of <key>.",
        "MYID",
        "    Id of this node.",
        "MYSHARDID",
        "    Id of this node's shard.",
        "NODES",
        "    The nodes, a line each:",
        "    <id> <ip:port@bus-port[,hostname]> <flags> <primary> <pings> <pongs> <epoch> <link> <slot> ...",
        "REPLICAS <node-id>",
        "    Replicas of a primary, as in NODES.",
        "SLOTS",
        "    Ranges of slots with their nodes' addresses, ports and ids.",
        "SLOT-STATS SLOTSRANGE <start> <end> | ORDERBY <metric> [LIMIT <limit>] [ASC|DESC]",
        "    Keys, processor time and traffic of slots; with MEMORY-BYTES also the memory of their keys.",
        "SHARDS",
        "    Ranges of slots with their nodes.",
        "LINKS",
        "    Connections to other nodes, which carry PUBLISH messages.",
        "COUNT-FAILURE-REPORTS <node-id>",
        "    Number of nodes that report <node-id> as failing.",
        "SET-CONFIG-EPOCH <epoch>",
        "    Set the configuration epoch of a node that has none.",
        "BUMPEPOCH",
        "    Give a node the first configuration epoch.",
        "SAVECONFIG",
        "    Save the node's configuration file.",
        "ADDSLOTS <slot> ... | ADDSLOTSRANGE <start> <end> ...",
        "    Assign unowned slots to this node.",
        "DELSLOTS <slot> ... | DELSLOTSRANGE <start> <end> ... | FLUSHSLOTS",
        "    Take slots from this node.",
        "MEET <ip> <port>",
        "    Add a server that has this cluster's name.",
        "FORGET <node-id>",
        "    Remove a node.",
        "REPLICATE <node-id>",
        "    Make this node a replica of a primary.",
        "FAILOVER [FORCE|TAKEOVER]",
        "    Make this replica take its primary's place.",
        "RESET [HARD|SOFT]",
        "    Leave the cluster; HARD: also get a new node ID.",
        "SETTINGS [FORGET <setting | user | library> <name> | DELETE LIBRARY <name>]",
        "    List or remove cluster-wide settings, users and functions.",
        "SETSLOT <slot> IMPORTING <node-id> | MIGRATING <node-id> | NODE <node-id> | STABLE",
        "    Move a slot key by key, or stop doing so.",
        "MIGRATESLOTS SLOTSRANGE <start> <end> ... NODE <node-id> ...",
        "    Move slots of this node to others, as a whole.",
        "GETSLOTMIGRATIONS",
        "    Slot moves that are in progress or ended recently.",
        "CANCELSLOTMIGRATIONS",
        "    Cancel the slot moves started on this node.",
        "MIGRATION IMPORT <start> <end> ... | STATUS <ID <id> | ALL> | CANCEL <ID <id> | ALL>",
        "    The same, as in Redis: slots move to this node.",
    ])
}
