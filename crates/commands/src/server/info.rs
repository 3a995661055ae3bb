// SPDX-License-Identifier: BSD-3-Clause
//! INFO: selection and order of sections. Their content is in `sections.rs`, but for that of
//! `key_sizes.rs`, which takes long.

use std::collections::BTreeSet;

use braid_executor::{Call, Engine, Row};
use braid_spec::{Category, CommandResult, Flags, Group, Scope};

use super::key_sizes;
use super::sections::{self, SECTIONS, Usually};

pub const INFO: Row = Row::new("info", Group::Server, info)
    .at_least(1)
    .flags(Flags::LOADING.and(Flags::STALE).and(Flags::SENTINEL))
    .categories(Category::DANGEROUS)
    // The memory and keyspace sections visit the shards one after the other.
    .scope(Scope::Walk)
    .docs("1.0.0", "Returns figures and facts about the server.", "O(1)")
    .history(&[("7.0.0", "Added support for taking multiple section arguments.")])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
    .syntax("[section:string...]");

fn info(call: &mut Call) -> CommandResult {
    let asked = &call.args[1..];
    let text = render(call.engine, asked);
    if asked.iter().any(|name| name.eq_ignore_ascii_case(key_sizes::NAME.as_bytes())) {
        return key_sizes::reply(call, text);
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The requested sections, in their fixed order, separated by empty lines. Unknown names are
/// ignored.
pub fn render(engine: &Engine, asked: &[&[u8]]) -> String {
    let names: BTreeSet<Vec<u8>> = asked.iter().map(|name| name.to_ascii_lowercase()).collect();
    let has = |name: &str| names.contains(name.as_bytes());
    let everything = has("everything");
    let all = everything || has("all");
    let default = names.is_empty() || has("default");
    let mut text = String::new();
    for section in SECTIONS {
        let wanted = match section.usually {
            Usually::Shown => default || all,
            Usually::ShownInGroups => everything || (default || all) && engine.group.is_some(),
            Usually::ShownInRedis8 => everything || (default || all) && engine.process.follows_redis_8(),
            Usually::OnlyWithAll => all,
            Usually::OnlyWithEverything => everything,
            Usually::OnlyByName => false,
        };
        if wanted || section.names.iter().any(|name| has(name)) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            sections::write(engine, section, &mut text);
        }
    }
    text
}
