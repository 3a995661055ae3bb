// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTERSCAN of Valkey 9.1: walks the keys of the whole cluster, slot after slot. A client sends
//! the cursor to the node that serves the slot of its hash tag.
//!
//! A cursor is `<fingerprint>-{<hash tag of the slot>}-<position in the slot>`. A position is
//! valid only in the process that issued it, which the fingerprint identifies; any other process
//! starts at the beginning of the slot. Position 0 needs no fingerprint.
//!
//! Source: Valkey documentation, "CLUSTERSCAN", and replies of a Valkey 9.1 server.

use std::sync::LazyLock;

use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_base::number;
use braid_cluster_node::commands::cluster::node_of;
use braid_cluster_node::commands::cluster::operators::slot_of_text;
use braid_executor::{Call, Engine, Row};
use braid_keyspace::scan as walk;
use braid_process::Process;
use braid_spec::{Category, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec, Scope};
use braid_types::scan_options::{ScanExtras, ScanOptions, TypeFilter};

use crate::scan::{FoundKeys, check_may_walk, expire_found};

/// The row.
pub const COMMANDS: &[Row] = &[Row::new("clusterscan", Group::Cluster, cluster_scan)
    .at_least(2)
    .flags(Flags::READONLY)
    .categories(Category::KEYSPACE)
    .scope(Scope::Walk)
    .keys(&[KeySpec::at(1, KeyFlags::NOT_KEY)])
    .docs(
        "9.1.0",
        "Iterates over the keys of the whole cluster.",
        "O(N) where N is the number of elements returned.",
    )
    .syntax(
        "cursor:string [MATCH match-pattern:pattern] [COUNT count:integer] [TYPE type:string] [SLOT slot:integer]",
    )
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])];

/// A short hash tag for each slot.
static TAGS: LazyLock<Vec<Box<[u8]>>> = LazyLock::new(tags);

fn tags() -> Vec<Box<[u8]>> {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut tags = vec![Box::default(); usize::from(HASH_SLOTS)];
    let mut left = tags.len();
    let (mut texts, mut longer) = (vec![Vec::new()], Vec::new());
    while left > 0 {
        for text in &texts {
            for letter in LETTERS {
                let text = [&text[..], &[*letter]].concat();
                let tag: &mut Box<[u8]> = &mut tags[usize::from(key_hash_slot(&text))];
                if tag.is_empty() {
                    *tag = text.as_slice().into();
                    left -= 1;
                }
                longer.push(text);
            }
        }
        texts = std::mem::take(&mut longer);
    }
    tags
}

/// The progress of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WalkPosition {
    slot: u16,
    /// A SCAN cursor within the slot; 0: its beginning.
    cursor: u64,
}

/// Identifies the process that a position belongs to.
fn fingerprint(process: &Process) -> &str {
    &process.run_id[..8]
}

impl WalkPosition {
    /// Parses a cursor; `None` for one that starts a walk.
    fn parse(engine: &Engine, text: &[u8]) -> Result<Option<WalkPosition>, CommandError> {
        if text == b"0" {
            return Ok(None);
        }
        let invalid = || CommandError::text("ERR Invalid cursor");
        let text = std::str::from_utf8(text).map_err(|_| invalid())?;
        let (of, rest) = text.split_once("-{").ok_or_else(invalid)?;
        let (tag, cursor) = rest.split_once("}-").ok_or_else(invalid)?;
        let cursor = number::parse_cursor(cursor.as_bytes()).ok_or_else(invalid)?;
        if tag.is_empty() {
            return Err(invalid());
        }
        let is_own = of == fingerprint(&engine.process);
        Ok(Some(WalkPosition {
            slot: key_hash_slot(tag.as_bytes()),
            cursor: if is_own { cursor } else { 0 },
        }))
    }

    fn to_text(self, engine: &Engine) -> Vec<u8> {
        let of = if self.cursor == 0 { "0" } else { fingerprint(&engine.process) };
        let cursor = self.cursor.to_string();
        [of.as_bytes(), b"-{", &TAGS[usize::from(self.slot)], b"}-", cursor.as_bytes()].concat()
    }
}

/// The only slot whose keys can match a pattern, if there is just one.
fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let varies = |text: &[u8]| text.iter().any(|byte| b"*?[\\".contains(byte));
    let tag = pattern.iter().position(|&byte| byte == b'{').and_then(|open| {
        let len = pattern[open + 1..].iter().position(|&byte| byte == b'}').filter(|&len| len > 0)?;
        Some((open, &pattern[open + 1..open + 1 + len]))
    });
    let fixed = match tag {
        // Wildcards before the brace may match an earlier brace.
        Some((open, tag)) => !varies(&pattern[..open]) && !varies(tag),
        None => !varies(pattern),
    };
    fixed.then(|| key_hash_slot(pattern))
}

fn cluster_scan(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let engine = call.engine;
    let begun = WalkPosition::parse(engine, call.args[1])?;
    let (options, only) = options_of(&call.args[2..])?;
    check_may_walk(call)?;
    let of_pattern = options.pattern.and_then(slot_of_pattern);
    let place = match (begun, only, of_pattern) {
        (Some(place), Some(only), _) if place.slot != only => {
            return Err(CommandError::text("ERR Cursor slot mismatch with SLOT argument"));
        }
        // Nothing can match.
        (_, Some(only), Some(slot)) if slot != only => None,
        (Some(place), None, Some(slot)) if slot < place.slot => None,
        (Some(place), None, Some(slot)) if slot > place.slot => Some(Err(slot)),
        (Some(place), ..) => Some(Ok(place)),
        (None, ..) => Some(Err(only.or(of_pattern).unwrap_or(0))),
    };
    match place {
        None => reply(call, None, None),
        // Another node may own the slot.
        Some(Err(slot)) => reply(call, Some(WalkPosition { slot, cursor: 0 }), None),
        Some(Ok(place)) => walk_from(call, place, &options, only.or(of_pattern).is_some()),
    }
    Ok(())
}

/// Parses the options, and SLOT.
fn options_of<'a>(words: &[&'a [u8]]) -> Result<(ScanOptions<'a>, Option<u16>), CommandError> {
    let (mut rest, mut only) = (Vec::new(), None);
    for pair in words.chunks(2) {
        match pair {
            [name, slot] if name.eq_ignore_ascii_case(b"slot") => only = Some(slot_of_text(slot)?),
            _ => rest.extend_from_slice(pair),
        }
    }
    let options = ScanOptions::parse(&rest, ScanExtras { kind: true, bare: None })?;
    if options.kind == TypeFilter::Unknown {
        let mut pairs = rest.chunks_exact(2).rev();
        let named = pairs.find(|pair| pair[0].eq_ignore_ascii_case(b"type")).map_or(&b""[..], |pair| pair[1]);
        return Err(CommandError::quoting("ERR unknown type name '", named, "'"));
    }
    Ok((options, only))
}

/// Walks from a position on, as long as slots are served here and up to the requested number of
/// keys.
fn walk_from(call: &mut Call, from: WalkPosition, options: &ScanOptions<'_>, stays: bool) {
    let view = call.engine.cluster_view();
    let is_here = |slot: u16| view.as_ref().is_none_or(|view| view.owns(slot));
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let (mut found, mut visited) = (FoundKeys::new(call.reply.protocol), 0);
    let mut place = Some(from);
    while let Some(WalkPosition { slot, cursor }) =
        place.filter(|place| visited < options.count && is_here(place.slot))
    {
        let next = walk::scan_slot(keyspace, slot, db, cursor, options.count - visited, |entry| {
            visited += 1;
            found.visit(options, entry, now);
        });
        place = match next {
            0 if stays || slot + 1 == HASH_SLOTS => None,
            0 => Some(WalkPosition { slot: slot + 1, cursor: 0 }),
            cursor => Some(WalkPosition { slot, cursor }),
        };
    }
    reply(call, place, Some(&mut found));
    expire_found(call, &found.expired);
}

fn reply(call: &mut Call, next: Option<WalkPosition>, found: Option<&mut FoundKeys>) {
    call.reply.array(2);
    match next {
        Some(place) => call.reply.bulk(&place.to_text(call.engine)),
        None => call.reply.bulk(b"0"),
    }
    call.reply.array(found.as_ref().map_or(0, |found| found.count));
    if let Some(found) = found {
        found.write(call.reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_tag() {
        let slots = (0..HASH_SLOTS).zip(TAGS.iter());
        assert!(slots.into_iter().all(|(slot, tag)| key_hash_slot(tag) == slot && tag.len() <= 4));
    }

    #[test]
    fn patterns_of_one_slot() {
        let slot = |pattern: &str| slot_of_pattern(pattern.as_bytes());
        assert_eq!(slot("foo"), Some(12182));
        assert_eq!(slot("{foo}*"), Some(12182));
        assert_eq!(slot("x{foo}?"), Some(12182));
        for pattern in ["f*", "*{foo}", "{f?o}x", "{}*", "x[ab]"] {
            assert_eq!(slot(pattern), None, "{pattern}");
        }
    }
}
