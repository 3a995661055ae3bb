// SPDX-License-Identifier: BSD-3-Clause
//! Commands on suggestions (FT.SUGADD ...), with the replies and messages of Redis Stack 7.4.
//!
//! The other FT.* commands, which concern indexes, are in the crate `search-node`. Bodies check
//! their arities themselves: the module's messages name the commands in upper case.

use crate::family::Family;
use braid_base::number::{parse_f64, parse_i64};
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_resp::reply::Protocol;
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::suggestions::Suggestions;

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];

/// Stock servers report no events of suggestions but those of keys.
const SILENT: Event = Event { class: 0, name: "sugadd" };

/// What is typed has fewer bytes and characters.
const QUERY_BYTES: usize = 200;
const QUERY_CHARS: usize = 100;
const MAX_DEFAULT: usize = 5;

const FAMILY: Family = Family::of_module(Category::SEARCH);

/// Rows of the suggestion commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("ft.sugadd", add, Flags::WRITE.and(Flags::DENYOOM), CHANGE)
        .at_least(2)
        .docs("8.0.0", "Adds a text to those that are suggested, or gives it another score.", "O(log(N)) where N is the number of texts")
        .syntax("key:key#0 string:string score:double [INCR] [PAYLOAD payload:string]"),
    FAMILY.row("ft.sugget", get, Flags::READONLY, READ_ONE)
        .at_least(2)
        .docs("8.0.0", "Returns the best texts that begin with a prefix.", "O(M) where M is the number of texts with the prefix; with FUZZY up to the number of all texts")
        .syntax("key:key#0 prefix:string [FUZZY] [WITHSCORES] [WITHPAYLOADS] [MAX max:integer]"),
    FAMILY.row("ft.sugdel", delete, Flags::WRITE, CHANGE)
        .at_least(2)
        .docs("8.0.0", "Removes a text from those that are suggested.", "O(log(N)) where N is the number of texts")
        .syntax("key:key#0 string:string"),
    FAMILY.row("ft.suglen", len, Flags::READONLY.and(Flags::FAST), READ_ONE)
        .at_least(2)
        .docs("8.0.0", "Returns the number of texts that are suggested.", "O(1)")
        .syntax("key:key#0"),
];

fn wrong_arity(call: &Call<'_, '_>) -> CommandError {
    CommandError::WrongArity(call.command.full_name.to_ascii_uppercase().into())
}

fn add(call: &mut Call) -> CommandResult {
    let &[_, key, text, score, ref options @ ..] = call.args else { return Err(wrong_arity(call)) };
    let is_there = call.keyspace.peek_as::<Suggestions>(key)?.is_some();
    let score = parse_f64(score).filter(|score| !score.is_nan());
    let score = score.ok_or(CommandError::text("ERR invalid score"))? as f32;
    let (mut increment, mut payload) = (false, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"INCR") {
            increment = true;
        } else if option.eq_ignore_ascii_case(b"PAYLOAD") {
            let missing = "Invalid payload: Expected an argument, but none provided";
            payload = Some(*options.next().ok_or(CommandError::text(missing))?);
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::text(format!("Unknown argument `{option}`")));
        }
    }
    let payload = payload.filter(|payload| !payload.is_empty());
    if !is_there {
        call.keyspace.set_object(SILENT, key, Object::new(Suggestions::default()), Expiry::Clear);
    }
    let text = String::from_utf8_lossy(text);
    let suggestions = call.keyspace.write_as::<Suggestions>(key)?;
    let suggestions = suggestions.ok_or(CommandError::text("ERR no such key"))?;
    let is_changed = suggestions.add(&text, score, increment, payload);
    let len = suggestions.len();
    if is_changed {
        call.keyspace.finish_change(SILENT, key, 1, false);
    }
    call.reply.integer(len as i64);
    Ok(())
}

struct Get {
    fuzzy: bool,
    with_scores: bool,
    with_payloads: bool,
    max: usize,
}

fn parse_get(options: &[&[u8]]) -> Result<Get, CommandError> {
    let mut get = Get { fuzzy: false, with_scores: false, with_payloads: false, max: MAX_DEFAULT };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"FUZZY" => get.fuzzy = true,
            b"WITHSCORES" => get.with_scores = true,
            b"WITHPAYLOADS" => get.with_payloads = true,
            b"MAX" => {
                let missing = CommandError::text("MAX: Expected an argument, but none provided");
                let text = options.next().ok_or(missing)?;
                let no_number = CommandError::text("MAX: Could not convert argument to expected type");
                let out_of_bounds = CommandError::text("MAX: Value is outside acceptable bounds");
                get.max = match parse_i64(text) {
                    Some(max @ 1..=0xffff_ffff) => max as usize,
                    Some(_) => return Err(out_of_bounds),
                    None if parse_f64(text).is_some() => return Err(out_of_bounds),
                    None => return Err(no_number),
                };
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(CommandError::text(format!("Unrecognized argument: {option}")));
            }
        }
    }
    Ok(get)
}

fn get(call: &mut Call) -> CommandResult {
    let &[_, key, typed, ref options @ ..] = call.args else { return Err(wrong_arity(call)) };
    let Get { fuzzy, with_scores, with_payloads, max } = parse_get(options)?;
    if typed.len() >= QUERY_BYTES {
        return Err(CommandError::text("Invalid query length"));
    }
    let typed = String::from_utf8_lossy(typed);
    if typed.chars().count() >= QUERY_CHARS {
        return Err(CommandError::text("Invalid query"));
    }
    let Some(suggestions) = call.keyspace.read_as::<Suggestions>(key)? else {
        call.reply.null();
        return Ok(());
    };
    let found = suggestions.get(&typed, max, fuzzy);
    let reply = &mut *call.reply;
    reply.array(found.len() * (1 + usize::from(with_scores) + usize::from(with_payloads)));
    for one in found {
        reply.bulk(one.text.as_bytes());
        let score = f64::from(one.score);
        if with_scores && reply.protocol == Protocol::Resp3 {
            reply.double(score);
        } else if with_scores {
            reply.bulk(score.to_string().as_bytes());
        }
        match one.payload {
            _ if !with_payloads => {}
            Some(payload) => reply.bulk(payload),
            None => reply.null(),
        }
    }
    Ok(())
}

fn delete(call: &mut Call) -> CommandResult {
    let &[_, key, text] = call.args else { return Err(wrong_arity(call)) };
    call.keyspace.peek_as::<Suggestions>(key)?;
    let text = String::from_utf8_lossy(text);
    let suggestions = call.keyspace.write_as::<Suggestions>(key)?;
    let is_removed = suggestions.is_some_and(|suggestions| suggestions.remove(&text));
    if is_removed {
        call.keyspace.finish_change(SILENT, key, 1, false);
    }
    call.reply.integer(i64::from(is_removed));
    Ok(())
}

fn len(call: &mut Call) -> CommandResult {
    let &[_, key] = call.args else { return Err(wrong_arity(call)) };
    let len = call.keyspace.read_as::<Suggestions>(key)?.map_or(0, Suggestions::len);
    call.reply.integer(len as i64);
    Ok(())
}
