// SPDX-License-Identifier: BSD-3-Clause
//! CONFIG: reading, changing and saving the configuration, and resetting statistics.

use std::sync::atomic::Ordering::Relaxed;

use braid_cluster_node::commands::cluster::shared::{for_cluster, share};
use braid_config::{ExtraLines, Origin};
use braid_executor::{Call, Engine, Row, client_eviction};
use braid_group::cluster::shared::SharedKind;
use braid_spec::{CommandError, CommandResult, Group};

use super::{ADMIN, BY_SUBCOMMAND, HELP, HELP_SUMMARY};

pub const CONFIG: Row = Row::container("config", Group::Server, SUBCOMMANDS).docs(
    "2.0.0",
    "Groups the commands of the configuration.",
    BY_SUBCOMMAND,
);

const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SUBCOMMANDS: &[Row] = &[
    Row::new("get", Group::Server, get)
        .at_least(3)
        .flags(ADMIN)
        .docs(
            "2.0.0",
            "Returns the values of directives.",
            "O(N) when N is the number of configuration parameters provided",
        )
        .history(&[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")])
        .syntax("parameter:string..."),
    Row::new("help", Group::Server, help).exactly(2).flags(HELP).docs("5.0.0", HELP_SUMMARY, "O(1)"),
    Row::new("resetstat", Group::Server, reset_stat)
        .exactly(2)
        .flags(ADMIN)
        .docs("2.0.0", "Resets the statistics.", "O(1)")
        .tips(EVERY_NODE),
    Row::new("rewrite", Group::Server, rewrite)
        .exactly(2)
        .flags(ADMIN)
        .docs("2.8.0", "Writes the current configuration to its file.", "O(1)")
        .tips(EVERY_NODE),
    Row::new("set", Group::Server, set)
        .at_least(4)
        .flags(ADMIN)
        .secrets(|args, index| {
            let name = |index: usize| args.get(index).map(|name| String::from_utf8_lossy(name));
            // Values follow their names, from the third argument on.
            index > 2 && index % 2 == 1 && name(index - 1).is_some_and(|name| braid_config::is_secret(&name))
        })
        .docs(
            "2.0.0",
            "Changes directives while the server runs.",
            "O(N) when N is the number of configuration parameters provided",
        )
        .history(&[("7.0.0", "Added the ability to set multiple parameters in one call.")])
        .tips(EVERY_NODE)
        .syntax("data:{parameter:string value:string}..."),
];

fn get(call: &mut Call) -> CommandResult {
    let patterns: Vec<_> = call.args[2..].iter().map(|pattern| String::from_utf8_lossy(pattern)).collect();
    let found = call.engine.config.get(&patterns);
    call.reply.map(found.len());
    for (name, value) in &found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// The client's origin, for directives and commands restricted to local clients.
fn origin(call: &Call) -> Origin {
    if call.session.record.is_local() { Origin::Local } else { Origin::Remote }
}

fn set(call: &mut Call) -> CommandResult {
    if let Some(words) = for_cluster(call, &call.args[2..]) {
        return set_for_cluster(call, words);
    }
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let changes = call.engine.config.set_from(origin(call), &pairs).map_err(CommandError::text)?;
    for change in changes {
        log::debug!("Configuration: {change}");
    }
    // A lower maxmemory-clients holds once the command has replied.
    let closed = client_eviction::evict_clients(call.engine, call.keyspace.context.slot);
    client_eviction::log_evicted(call.engine, &closed, call.clock_ms());
    call.reply.ok();
    Ok(())
}

/// Sets directives on all nodes of the cluster.
fn set_for_cluster(call: &mut Call, words: &[&[u8]]) -> CommandResult {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let checked = call.engine.config.check_for_cluster(origin(call), &pairs).map_err(CommandError::text)?;
    let values = checked.into_iter().map(|(name, text)| (SharedKind::Setting, name.to_owned(), Some(text)));
    share(call, values.collect(), |reply| reply.ok())
}

fn rewrite(call: &mut Call) -> CommandResult {
    let Some(path) = &call.engine.process.config_file else {
        return Err(CommandError::text("ERR The server is running without a config file"));
    };
    let extra =
        ExtraLines { users: Some(call.engine.acl.config_lines(&call.engine.config)), everything: false };
    if let Err(error) = call.engine.config.rewrite_with(path, &extra) {
        log::warn!("CONFIG REWRITE failed: {error}");
        return Err(CommandError::text(format!("ERR Rewriting config file: {error}")));
    }
    log::info!("CONFIG REWRITE executed with success.");
    call.reply.ok();
    Ok(())
}

fn reset_stat(call: &mut Call) -> CommandResult {
    reset_statistics(call.engine);
    call.reply.ok();
    Ok(())
}

/// Resets the counters of all threads to zero. The number of changes since the last save is not a
/// statistic and is kept.
fn reset_statistics(engine: &Engine) {
    let keyspace = &engine.keyspace;
    let unsaved = keyspace.unsaved_changes();
    keyspace.counters.iter().for_each(|counters| counters.reset());
    keyspace.dirty_baseline.store(0u64.wrapping_sub(unsaved), Relaxed);
    engine.telemetry.threads.iter().for_each(|thread| thread.reset());
    engine.telemetry.slot_stats.reset(|_| true);
    engine.acl.reset_statistics();
    engine.clients.registry.accepted.store(0, Relaxed);
    engine.clients.registry.rejected.store(0, Relaxed);
    engine.clients.registry.rejected_priority.store(0, Relaxed);
    engine.memory.over_limit.reset(braid_base::clock::unix_ms());
    engine.replication.reset_statistics();
    keyspace.lazy_free.reset_freed();
    crate::scripting::reset_figures(engine);
    engine.telemetry.rates.lock().clear();
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "GET <pattern>",
        "    Return the directives whose names match the glob-like <pattern>, with their values.",
        "SET <directive> <value>",
        "    Set <directive> to <value>.",
        "RESETSTAT",
        "    Reset the statistics reported by the INFO command.",
        "REWRITE",
        "    Write the current configuration to the configuration file.",
    ])
}
