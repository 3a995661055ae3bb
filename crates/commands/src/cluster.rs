// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER, READONLY, READWRITE and ASKING: answered as by a stock server with cluster mode off.
//!
//! Configurations and users of stock servers name these commands (`+cluster|slots`, `rename-command
//! CLUSTER ""`), so their rows must exist without a cluster.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::client_flags;
use braid_engine::{Call, Row};
use braid_spec::{Category, CommandError, CommandResult, Flags, Group};

const ADMIN: Flags = Flags::ADMIN.and(Flags::STALE);
const CHANGES: Flags = ADMIN.and(Flags::NO_ASYNC_LOADING);
const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

const PER_SLOT: &str = "O(N) where N is the total number of hash slot arguments";
const PER_SLOT_IN_RANGES: &str =
    "O(N) where N is the total number of the slots between the start slot and end slot arguments.";
const PER_NODE: &str = "O(N) where N is the total number of Cluster nodes";
const PER_NODE_LOWER_CASE: &str = "O(N) where N is the total number of cluster nodes";
const PER_REPLICA: &str = "O(N) where N is the number of replicas.";

/// What the compatibility page says of each of them.
const LIMITS: &str = "answers as without cluster mode";

const fn row(name: &'static str) -> Row {
    Row::new(name, Group::Cluster, disabled).unsupported(LIMITS)
}

const SUBCOMMANDS: &[Row] = &[
    row("addslots")
        .at_least(3)
        .flags(CHANGES)
        .docs("3.0.0", "Gives hash slots to this node.", PER_SLOT)
        .syntax("slot:integer..."),
    row("addslotsrange")
        .at_least(4)
        .flags(CHANGES)
        .docs("7.0.0", "Gives ranges of hash slots to this node.", PER_SLOT_IN_RANGES)
        .syntax("range:{start-slot:integer end-slot:integer}..."),
    row("bumpepoch")
        .exactly(2)
        .flags(CHANGES)
        .docs("3.0.0", "Raises this node's configuration epoch.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("count-failure-reports")
        .exactly(3)
        .flags(ADMIN)
        .docs(
            "3.0.0",
            "Returns how many nodes report that a node fails.",
            "O(N) where N is the number of failure reports",
        )
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC),
    row("countkeysinslot")
        .exactly(3)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the number of keys in a hash slot.", "O(1)")
        .syntax("slot:integer"),
    row("delslots")
        .at_least(3)
        .flags(CHANGES)
        .docs("3.0.0", "Makes this node forget who serves hash slots.", PER_SLOT)
        .syntax("slot:integer..."),
    row("delslotsrange")
        .at_least(4)
        .flags(CHANGES)
        .docs("7.0.0", "Makes this node forget who serves ranges of hash slots.", PER_SLOT_IN_RANGES)
        .syntax("range:{start-slot:integer end-slot:integer}..."),
    row("failover")
        .at_least(2)
        .flags(CHANGES)
        .docs("3.0.0", "Makes a replica take its primary's place.", "O(1)")
        .syntax("[options:(FORCE|TAKEOVER)]"),
    row("flushslots").exactly(2).flags(CHANGES).docs("3.0.0", "Takes all hash slots from this node.", "O(1)"),
    row("forget")
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Removes a node from the table of nodes.", "O(1)")
        .syntax("node-id:string"),
    row("getkeysinslot")
        .exactly(4)
        .flags(Flags::STALE)
        .docs(
            "3.0.0",
            "Returns names of keys in a hash slot.",
            "O(N) where N is the number of requested keys",
        )
        .syntax("slot:integer count:integer")
        .tips(NONDETERMINISTIC),
    row("help").exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "5.0.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    row("info")
        .exactly(2)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the state of the cluster as this node sees it.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("keyslot")
        .exactly(3)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the hash slot of a key.", "O(N) where N is the number of bytes in the key")
        .syntax("key:string"),
    row("links")
        .exactly(2)
        .flags(Flags::STALE)
        .docs("7.0.0", "Lists the connections between this node and its peers.", PER_NODE)
        .tips(NONDETERMINISTIC),
    row("meet")
        .at_least(4)
        .flags(CHANGES)
        .docs("3.0.0", "Makes this node shake hands with another.", "O(1)")
        .syntax("ip:string port:integer [cluster-bus-port:integer@4.0.0]")
        .history(&[("4.0.0", "Argument `cluster_bus_port`.")]),
    row("myid").exactly(2).flags(Flags::STALE).docs("3.0.0", "Returns this node's ID.", "O(1)"),
    row("myshardid")
        .exactly(2)
        .flags(Flags::STALE)
        .docs("7.2.0", "Returns the ID of this node's shard.", "O(1)")
        .tips(NONDETERMINISTIC),
    row("nodes")
        .exactly(2)
        .flags(Flags::STALE)
        .docs("3.0.0", "Returns the nodes and their slots as this node sees them.", PER_NODE)
        .tips(NONDETERMINISTIC),
    row("replicas")
        .exactly(3)
        .flags(ADMIN)
        .docs("5.0.0", "Lists the replicas of a primary.", PER_REPLICA)
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC),
    row("replicate")
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Makes this node a replica of a primary.", "O(1)")
        .syntax("node-id:string"),
    row("reset")
        .at_least(2)
        .flags(ADMIN.and(Flags::NOSCRIPT))
        .docs(
            "3.0.0",
            "Makes this node forget the cluster.",
            "O(N) where N is the number of known nodes. May flush all keys.",
        )
        .syntax("[reset-type:(HARD|SOFT)]"),
    row("saveconfig").exactly(2).flags(CHANGES).docs(
        "3.0.0",
        "Saves the state of the cluster to disk.",
        "O(1)",
    ),
    row("set-config-epoch")
        .exactly(3)
        .flags(CHANGES)
        .docs("3.0.0", "Sets the configuration epoch of a new node.", "O(1)")
        .syntax("config-epoch:integer"),
    row("setslot")
        .at_least(4)
        .flags(CHANGES)
        .docs("3.0.0", "Binds a hash slot to a node, or marks it as moving.", "O(1)")
        .syntax(
            "slot:integer subcommand:(IMPORTING importing:string/node-id|MIGRATING migrating:string/node-id|\
             NODE node:string/node-id|STABLE)",
        ),
    row("shards")
        .exactly(2)
        .flags(Flags::LOADING.and(Flags::STALE))
        .docs("7.0.0", "Returns which nodes serve which hash slots.", PER_NODE_LOWER_CASE)
        .tips(NONDETERMINISTIC),
    row("slaves")
        .exactly(3)
        .flags(ADMIN)
        .docs("3.0.0", "Lists the replicas of a primary.", PER_REPLICA)
        .syntax("node-id:string")
        .tips(NONDETERMINISTIC)
        .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
    row("slots")
        .exactly(2)
        .flags(Flags::LOADING.and(Flags::STALE))
        .docs("3.0.0", "Returns which nodes serve which hash slots.", PER_NODE)
        .history(&[("4.0.0", "Node IDs."), ("7.0.0", "Further metadata of addresses.")])
        .tips(NONDETERMINISTIC)
        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
];

/// The family.
pub const COMMANDS: &[Row] = &[
    row("asking").exactly(1).flags(Flags::FAST).categories(Category::CONNECTION).docs(
        "3.0.0",
        "Lets the next command reach a hash slot that is being moved here.",
        "O(1)",
    ),
    Row::container("cluster", Group::Cluster, SUBCOMMANDS)
        .docs("3.0.0", "Groups the commands on the cluster.", "Depends on subcommand.")
        .unsupported(LIMITS),
    Row::new("readonly", Group::Cluster, read_only)
        .exactly(1)
        .flags(Flags::FAST.and(Flags::LOADING).and(Flags::STALE))
        .categories(Category::CONNECTION)
        .docs("3.0.0", "Lets this connection read from a replica.", "O(1)"),
    Row::new("readwrite", Group::Cluster, read_write)
        .exactly(1)
        .flags(Flags::FAST.and(Flags::LOADING).and(Flags::STALE))
        .categories(Category::CONNECTION)
        .docs("3.0.0", "Takes back READONLY.", "O(1)"),
];

fn disabled(_: &mut Call) -> CommandResult {
    Err(CommandError::text("ERR This instance has cluster support disabled"))
}

fn read_only(call: &mut Call) -> CommandResult {
    reads_replica(call, true)
}

fn read_write(call: &mut Call) -> CommandResult {
    reads_replica(call, false)
}

/// Without a cluster, only clients that know redirections are concerned: a replica serves the reads
/// of others in any case.
fn reads_replica(call: &mut Call, reads: bool) -> CommandResult {
    let record = &call.session.record;
    if !record.knows_redirect.load(Relaxed) {
        return disabled(call);
    }
    record.set_flag(client_flags::READS_REPLICA, reads);
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Tester;

    #[test]
    fn commands_of_clusters_answer_as_without_cluster_mode() {
        const DISABLED: &str = "-ERR This instance has cluster support disabled\r\n";
        Tester::new().check(&[
            ("CLUSTER INFO", DISABLED),
            ("cluster help", DISABLED),
            ("CLUSTER SLOTS", DISABLED),
            ("CLUSTER KEYSLOT k", DISABLED),
            ("CLUSTER RESET x y z", DISABLED),
            ("READONLY", DISABLED),
            ("READWRITE", DISABLED),
            ("ASKING", DISABLED),
            ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command\r\n"),
            ("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n"),
            ("CLUSTER FOO", "-ERR unknown subcommand 'FOO'. Try CLUSTER HELP.\r\n"),
            ("READONLY x", "-ERR wrong number of arguments for 'readonly' command\r\n"),
        ]);
    }
}
