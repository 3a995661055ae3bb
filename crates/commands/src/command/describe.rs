// SPDX-License-Identifier: BSD-3-Clause
//! The reply of COMMAND and COMMAND INFO for one command.

use braid_resp::reply::ReplyBuffer;
use braid_spec::spec::Spec;
use braid_spec::{Begin, Command, CommandTable, Find, Flags, KeyFlags, KeySpec};

/// The listed flags in order, which is not that of their numbers; other flags are not listed.
const LISTED: &[Flags] = &[
    Flags::WRITE,
    Flags::READONLY,
    Flags::DENYOOM,
    Flags::ADMIN,
    Flags::PUBSUB,
    Flags::NOSCRIPT,
    Flags::BLOCKING,
    Flags::LOADING,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::SKIP_SLOWLOG,
    Flags::ASKING,
    Flags::FAST,
    Flags::NO_AUTH,
    Flags::NO_MANDATORY_KEYS,
    Flags::NO_ASYNC_LOADING,
    Flags::NO_MULTI,
    Flags::MOVABLE_KEYS,
    Flags::ALLOW_BUSY,
];

/// The names of a command's flags.
pub fn command_flags(spec: &Spec) -> impl Iterator<Item = &'static str> {
    let mut flags = spec.flags;
    if Positions::of(spec.keys).movable {
        flags = flags | Flags::MOVABLE_KEYS;
    }
    LISTED.iter().filter(move |flag| flags.has(**flag)).flat_map(|flag| flag.names())
}

/// Replies with names as a set of status replies.
pub fn flag_names(reply: &mut ReplyBuffer, names: impl Iterator<Item = &'static str>) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    for name in names {
        reply.simple(name);
    }
}

/// Key positions as three numbers, the format before key specifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Positions {
    pub first: i32,
    /// Negative: counted from the end.
    pub last: i32,
    pub step: i32,
    /// True if the numbers do not cover all keys.
    pub movable: bool,
}

impl Positions {
    /// The numbers that cover as many key specifications as three numbers can: one range, or
    /// consecutive plain ranges.
    pub fn of(keys: &[KeySpec]) -> Positions {
        let absolute = |first: i32, last: i32| if last < 0 { last } else { first + last };
        if let [KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, .. }, flags, .. }] =
            keys
        {
            let movable = flags.has(KeyFlags::INCOMPLETE);
            return Positions { first: *first, last: absolute(*first, *last), step: *step, movable };
        }
        let mut positions = Positions::default();
        for key in keys {
            let (Begin::Index(first), Find::Range { last, step, .. }) = (key.begin, key.find) else {
                positions.movable = true;
                continue;
            };
            let in_a_row = positions.last == 0 || positions.last == first - 1;
            if step != 1 || !in_a_row {
                positions.movable = true;
                continue;
            }
            positions.movable |= key.flags.has(KeyFlags::INCOMPLETE);
            if positions.first == 0 {
                positions.first = first;
            }
            positions.last = absolute(first, last);
            positions.step = 1;
        }
        positions
    }
}

/// Replies with the full description of a command: ten elements, the last of which lists its
/// subcommands in the same form.
pub fn describe(reply: &mut ReplyBuffer, table: &CommandTable, command: &Command) {
    let spec = command.spec;
    let positions = Positions::of(spec.keys);
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.integer(spec.arity.number());
    flag_names(reply, command_flags(spec));
    for number in [positions.first, positions.last, positions.step] {
        reply.integer(i64::from(number));
    }
    let categories: Vec<&str> = spec.categories_all().names().collect();
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    reply.set(spec.tips.len());
    for tip in spec.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(spec.keys.len());
    for key in spec.keys {
        describe_keys(reply, key);
    }
    if command.subcommands.is_empty() {
        reply.set(0);
        return;
    }
    reply.array(command.subcommands.len());
    for &sub in &command.subcommands {
        describe(reply, table, table.get(sub));
    }
}

fn pair(reply: &mut ReplyBuffer, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// Writes a search of a key specification: its type and numbers.
fn search(reply: &mut ReplyBuffer, kind: &str, numbers: &[(&str, i32)]) {
    reply.map(2);
    pair(reply, "type", kind);
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*number));
    }
}

fn describe_keys(reply: &mut ReplyBuffer, key: &KeySpec) {
    reply.map(if key.notes.is_empty() { 3 } else { 4 });
    if !key.notes.is_empty() {
        pair(reply, "notes", key.notes);
    }
    reply.bulk(b"flags");
    flag_names(reply, key.flags.names());
    reply.bulk(b"begin_search");
    match key.begin {
        Begin::Index(index) => search(reply, "index", &[("index", index)]),
        Begin::Keyword { word, from } => {
            reply.map(2);
            pair(reply, "type", "keyword");
            reply.bulk(b"spec");
            reply.map(2);
            pair(reply, "keyword", word);
            reply.bulk(b"startfrom");
            reply.integer(i64::from(from));
        }
        Begin::Unknown => search(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match key.find {
        Find::Range { last, step, limit } => {
            search(reply, "range", &[("lastkey", last), ("keystep", step), ("limit", limit)]);
        }
        Find::KeyNum { count_at, first, step } => {
            search(reply, "keynum", &[("keynumidx", count_at), ("firstkey", first), ("keystep", step)]);
        }
        Find::Unknown => search(reply, "unknown", &[]),
    }
}
