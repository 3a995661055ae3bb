// SPDX-License-Identifier: BSD-3-Clause
//! Pub/sub: SUBSCRIBE and its relatives, PUBLISH, SPUBLISH, PUBSUB.
//!
//! Subscriptions and delivery are in `braid_notify::hub`. A subscription is confirmed by a push
//! per channel instead of a reply.

use braid_clients::attention::SLOT_STATS;
use braid_cluster_node::forwarding;
use braid_executor::{Call, Row, tell_replicas};
use braid_notify::SubscriptionKind;
use braid_spec::{ChannelAccess, ChannelSpec, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};

const ANY_TIME: Flags = Flags::PUBSUB.and(Flags::LOADING).and(Flags::STALE);
/// Flags of commands that change the client's subscriptions.
const LISTENING: Flags = ANY_TIME.and(Flags::NOSCRIPT);
const PUBLISHING: Flags = ANY_TIME.and(Flags::FAST).and(Flags::MAY_REPLICATE);

/// Cluster clients see shard channels as keys, so that they find the node.
const SHARD_CHANNELS: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)];
const SHARD_CHANNEL: &[KeySpec] = &[KeySpec::at(1, KeyFlags::NOT_KEY)];

const fn channels(access: ChannelAccess, patterns: bool) -> ChannelSpec {
    ChannelSpec { first: 1, all: !matches!(access, ChannelAccess::Publish), patterns, access }
}

/// Rows of the pub/sub commands.
pub const COMMANDS: &[Row] = &[
    Row::new("psubscribe", Group::PubSub, psubscribe)
        .at_least(2)
        .flags(LISTENING.and(Flags::SENTINEL))
        .channels(channels(ChannelAccess::Subscribe, true))
        .docs(
            "2.0.0",
            "Subscribes to all channels whose names match patterns.",
            "O(N) where N is the number of patterns to subscribe to.",
        )
        .syntax("pattern:pattern..."),
    Row::new("publish", Group::PubSub, publish)
        .exactly(3)
        .flags(PUBLISHING.and(Flags::SENTINEL))
        .channels(channels(ChannelAccess::Publish, false))
        .docs(
            "2.0.0",
            "Sends a message to a channel's subscribers.",
            "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of \
             subscribed patterns (by any client).",
        )
        .syntax("channel:string message:string"),
    Row::container("pubsub", Group::PubSub, SUBCOMMANDS).docs(
        "2.8.0",
        "Groups commands that describe channels.",
        "Depends on subcommand.",
    ),
    Row::new("punsubscribe", Group::PubSub, punsubscribe)
        .at_least(1)
        .flags(LISTENING.and(Flags::SENTINEL))
        .channels(channels(ChannelAccess::Unsubscribe, true))
        .docs(
            "2.0.0",
            "Unsubscribes from patterns.",
            "O(N) where N is the number of patterns to unsubscribe.",
        )
        .syntax("[pattern:pattern...]"),
    Row::new("spublish", Group::PubSub, spublish)
        .exactly(3)
        .flags(PUBLISHING)
        .keys(SHARD_CHANNEL)
        .channels(channels(ChannelAccess::Publish, false))
        .docs(
            "7.0.0",
            "Sends a message to a shard channel's subscribers.",
            "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        )
        .syntax("shardchannel:string message:string"),
    Row::new("ssubscribe", Group::PubSub, ssubscribe)
        .at_least(2)
        .flags(LISTENING)
        .keys(SHARD_CHANNELS)
        .channels(channels(ChannelAccess::Subscribe, false))
        .docs(
            "7.0.0",
            "Subscribes to shard channels.",
            "O(N) where N is the number of shard channels to subscribe to.",
        )
        .syntax("shardchannel:string..."),
    Row::new("subscribe", Group::PubSub, subscribe)
        .at_least(2)
        .flags(LISTENING.and(Flags::SENTINEL))
        .channels(channels(ChannelAccess::Subscribe, false))
        .docs("2.0.0", "Subscribes to channels.", "O(N) where N is the number of channels to subscribe to.")
        .syntax("channel:string..."),
    Row::new("sunsubscribe", Group::PubSub, sunsubscribe)
        .at_least(1)
        .flags(LISTENING)
        .keys(SHARD_CHANNELS)
        .channels(channels(ChannelAccess::Unsubscribe, false))
        .docs(
            "7.0.0",
            "Unsubscribes from shard channels.",
            "O(N) where N is the number of shard channels to unsubscribe.",
        )
        .syntax("[shardchannel:string...]"),
    Row::new("unsubscribe", Group::PubSub, unsubscribe)
        .at_least(1)
        .flags(LISTENING.and(Flags::SENTINEL))
        .channels(channels(ChannelAccess::Unsubscribe, false))
        .docs("2.0.0", "Unsubscribes from channels.", "O(N) where N is the number of channels to unsubscribe.")
        .syntax("[channel:string...]"),
];

const SUBCOMMANDS: &[Row] = &[
    Row::new("channels", Group::PubSub, list_channels)
        .at_least(2)
        .flags(ANY_TIME)
        .docs(
            "2.8.0",
            "Lists the channels that have subscribers.",
            "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively \
             short channels and patterns)",
        )
        .syntax("[pattern:pattern]"),
    Row::new("help", Group::PubSub, help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "6.2.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    Row::new("numpat", Group::PubSub, count_patterns).exactly(2).flags(ANY_TIME).docs(
        "2.8.0",
        "Counts the patterns that have subscribers.",
        "O(1)",
    ),
    Row::new("numsub", Group::PubSub, count_listeners)
        .at_least(2)
        .flags(ANY_TIME)
        .docs(
            "2.8.0",
            "Counts the subscribers of each given channel.",
            "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
        )
        .syntax("[channel:string...]"),
    Row::new("shardchannels", Group::PubSub, list_shard_channels)
        .at_least(2)
        .flags(ANY_TIME)
        .docs(
            "7.0.0",
            "Lists the shard channels that have subscribers.",
            "O(N) where N is the number of active shard channels, and assuming constant time pattern matching \
             (relatively short shard channels).",
        )
        .syntax("[pattern:pattern]"),
    Row::new("shardnumsub", Group::PubSub, count_shard_listeners)
        .at_least(2)
        .flags(ANY_TIME)
        .docs(
            "7.0.0",
            "Counts the subscribers of each given shard channel.",
            "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
        )
        .syntax("[shardchannel:string...]"),
];

fn subscribe(call: &mut Call) -> CommandResult {
    listen(call, SubscriptionKind::Channel, "subscribe")
}

fn psubscribe(call: &mut Call) -> CommandResult {
    listen(call, SubscriptionKind::Pattern, "psubscribe")
}

fn ssubscribe(call: &mut Call) -> CommandResult {
    listen(call, SubscriptionKind::ShardChannel, "ssubscribe")
}

fn unsubscribe(call: &mut Call) -> CommandResult {
    stop_listening(call, SubscriptionKind::Channel, "unsubscribe")
}

fn punsubscribe(call: &mut Call) -> CommandResult {
    stop_listening(call, SubscriptionKind::Pattern, "punsubscribe")
}

fn sunsubscribe(call: &mut Call) -> CommandResult {
    stop_listening(call, SubscriptionKind::ShardChannel, "sunsubscribe")
}

fn listen(call: &mut Call, kind: SubscriptionKind, event: &str) -> CommandResult {
    // A script takes a single reply from each command; so does a transaction, but subscribing in
    // one has always been allowed.
    let in_transaction = call.session.execution.deny_blocking && !call.session.execution.in_script;
    if call.session.execution.in_script || (in_transaction && kind == SubscriptionKind::ShardChannel) {
        let name = event.to_ascii_uppercase();
        return Err(CommandError::text(format!("ERR {name} isn't allowed for a DENY BLOCKING client")));
    }
    for name in &call.args[1..] {
        let count = call.session.subscribe(&call.engine.hub, kind, name);
        tell(call, event, Some(name), count);
    }
    Ok(())
}

fn stop_listening(call: &mut Call, kind: SubscriptionKind, event: &str) -> CommandResult {
    let hub = &call.engine.hub;
    let all;
    let mut names: Vec<&[u8]> = call.args[1..].to_vec();
    if names.is_empty() {
        all = hub.names_of(&mut call.session.listener, kind);
        names = all.iter().map(|name| &**name).collect();
        if names.is_empty() {
            let count = call.session.listener.subscriptions.as_ref().map_or(0, |all| all.count(kind));
            tell(call, event, None, count);
        }
    }
    for name in names {
        let count = call.session.unsubscribe(hub, kind, name);
        if !call.session.execution.deny_blocking {
            // No new messages arrive from here on: deliver the pending ones first.
            hub.claim(&mut call.session.listener, call.reply);
            if call.session.listener.subscriptions.is_none() {
                hub.skip(&mut call.session.listener);
            }
        } else if call.session.listener.subscriptions.is_none() && call.session.record.speaks_resp2() {
            // A message has no place within a transaction's reply, and after it would be taken for
            // a reply.
            hub.skip(&mut call.session.listener);
        }
        tell(call, event, Some(name), count);
    }
    Ok(())
}

/// Confirms a change of the client's subscriptions.
fn tell(call: &mut Call, event: &str, name: Option<&[u8]>, count: usize) {
    call.reply.push(3);
    call.reply.bulk(event.as_bytes());
    match name {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    call.reply.integer(count as i64);
}

fn publish(call: &mut Call) -> CommandResult {
    let (from, blob) = (call.keyspace.context.slot, call.blob_of(call.args[2]));
    let receivers = call.engine.hub.publish(from, call.args[1], call.args[2], blob.as_ref());
    match forwarding::of(call.engine) {
        None => tell_replicas::tell_replicas(call.engine, call.keyspace, call.args),
        // Replicas are also nodes of the cluster.
        Some(forwarding) if !call.session.execution.is_replay => {
            forwarding::forward(call.engine, forwarding, call.args[1], call.args[2]);
        }
        Some(_) => {}
    }
    call.reply.integer(receivers as i64);
    Ok(())
}

fn spublish(call: &mut Call) -> CommandResult {
    let (from, blob) = (call.keyspace.context.slot, call.blob_of(call.args[2]));
    let receivers = call.engine.hub.publish_shard(from, call.args[1], call.args[2], blob.as_ref());
    if receivers > 0 && call.engine.attention.get() & SLOT_STATS != 0 {
        let (thread, stats) = (call.keyspace.context.slot, &call.engine.telemetry.slot_stats);
        stats.add_shard_message(thread, call.args[1], call.args[2], receivers);
    }
    tell_replicas::tell_replicas(call.engine, call.keyspace, call.args);
    call.reply.integer(receivers as i64);
    Ok(())
}

fn list_channels(call: &mut Call) -> CommandResult {
    list(call, SubscriptionKind::Channel)
}

fn list_shard_channels(call: &mut Call) -> CommandResult {
    list(call, SubscriptionKind::ShardChannel)
}

fn list(call: &mut Call, kind: SubscriptionKind) -> CommandResult {
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    let names = call.engine.hub.channel_names(kind, call.args.get(2).copied());
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(&name);
    }
    Ok(())
}

fn count_patterns(call: &mut Call) -> CommandResult {
    call.reply.integer(call.engine.hub.name_count(SubscriptionKind::Pattern) as i64);
    Ok(())
}

fn count_listeners(call: &mut Call) -> CommandResult {
    count(call, SubscriptionKind::Channel)
}

fn count_shard_listeners(call: &mut Call) -> CommandResult {
    count(call, SubscriptionKind::ShardChannel)
}

fn count(call: &mut Call, kind: SubscriptionKind) -> CommandResult {
    let names = &call.args[2..];
    call.reply.array(names.len() * 2);
    for name in names {
        call.reply.bulk(name);
        call.reply.integer(call.engine.hub.listener_count(kind, name) as i64);
    }
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CHANNELS [<pattern>]",
        "    List the channels that have subscribers, or those of them that match <pattern>.",
        "NUMPAT",
        "    Count the patterns that have subscribers.",
        "NUMSUB [<channel> ...]",
        "    Count the subscribers of each channel. Subscribers of patterns are",
        "    not counted.",
        "SHARDCHANNELS [<pattern>]",
        "    Like CHANNELS, for shard channels.",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Like NUMSUB, for shard channels.",
    ])
}

#[cfg(test)]
mod tests;
