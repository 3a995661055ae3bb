// SPDX-License-Identifier: BSD-3-Clause
//! What several commands share: documents and paths in arguments, messages, and changes of all the
//! values that a path matches.

use braid_executor::Call;
use braid_keyspace::{Event, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use braid_values::json::doc::Doc;
use braid_values::json::edit;
use braid_values::json::floats::FloatType;
use braid_values::json::location::{self, Part};
use braid_values::json::packed::{self, Slot};
use braid_values::json::parse::{parse_with, trailing};
use braid_values::json::path::Path;
use braid_values::json::value::{BYTES_MAX, Json, TooLarge};

use super::find;

/// Documents and texts of this many bytes are printed and parsed in the background: one MB takes
/// some ms.
pub(super) const LONG: usize = 1 << 20;

pub(super) const WRONG_TYPE: &str = "Existing key has wrong Redis type";
pub(super) const NO_KEY: &str = "ERR could not perform this operation on a key that doesn't exist";
pub(super) const NOT_UTF8: &str = "Couldn't parse as UTF-8 string";
pub(super) const NOT_AN_INTEGER: &str = "Couldn't parse as integer";

pub(super) fn text(text: impl Into<std::borrow::Cow<'static, str>>) -> CommandError {
    CommandError::text(text)
}

/// The document at a key, for reading.
pub(super) fn read<'s>(keyspace: &'s Txn<'_>, key: &[u8]) -> Result<Option<&'s Json>, CommandError> {
    keyspace.read_as::<Json>(key).map_err(|_| text(WRONG_TYPE))
}

/// The document at a key that may be changed: such a look counts as neither hit nor miss.
pub(super) fn peek<'s>(keyspace: &'s Txn<'_>, key: &[u8]) -> Result<Option<&'s Json>, CommandError> {
    keyspace.peek_as::<Json>(key).map_err(|_| text(WRONG_TYPE))
}

/// The document at a key, for a change.
pub(super) fn change<'s>(keyspace: &'s mut Txn<'_>, key: &[u8]) -> Result<&'s mut Json, CommandError> {
    match keyspace.write_as::<Json>(key) {
        Ok(Some(document)) => Ok(document),
        Ok(None) => Err(text(NO_KEY)),
        Err(_) => Err(text(WRONG_TYPE)),
    }
}

/// The path in an argument, or the root in the older syntax.
pub(super) fn path_arg<'a>(args: &[&'a [u8]], index: usize) -> Result<Path<'a>, CommandError> {
    match args.get(index) {
        Some(path) => parse_path(path),
        None => Ok(Path::root()),
    }
}

pub(super) fn parse_path(path: &[u8]) -> Result<Path<'_>, CommandError> {
    Path::parse(path).map_err(|error| text(error.to_string()))
}

/// The path in an argument of a command that changes a document: the key is looked at first, as in
/// Redis Stack.
pub(super) fn path_of_change<'a>(call: &Call<'a, '_>, index: usize) -> Result<Path<'a>, CommandError> {
    peek(call.keyspace, call.args[1])?.ok_or_else(|| text(NO_KEY))?;
    path_arg(call.args, index)
}

/// A JSON text, packed; `prefix` is put before the parser's message.
pub(super) fn parse_value(json: &[u8], prefix: &str) -> Result<Vec<u8>, CommandError> {
    parse_value_with(json, prefix, None)
}

/// [`parse_value`], with the type that FPHA gives to the numbers of arrays.
pub(super) fn parse_value_with(
    json: &[u8],
    prefix: &str,
    floats: Option<FloatType>,
) -> Result<Vec<u8>, CommandError> {
    let json = std::str::from_utf8(json).map_err(|_| text(NOT_UTF8))?;
    parse_with(json, floats).map_err(|error| text(format!("{prefix}{error}")))
}

/// A JSON text with nothing behind it, packed.
pub(super) fn parse_only_value(json: &[u8]) -> Result<Vec<u8>, CommandError> {
    let value = parse_value(json, "ERR ")?;
    match std::str::from_utf8(json).ok().and_then(trailing) {
        Some(error) => Err(text(format!("ERR {error}"))),
        None => Ok(value),
    }
}

/// The error for a path that matches nothing, or nothing of the type that a command needs: the
/// path as JSONPath.
pub(super) fn no_match(path: &Path<'_>, what: &str) -> CommandError {
    text(format!("ERR Path '{}' does not exist{what}", path.shown()))
}

/// Like [`no_match`], with the path as the client wrote it.
pub(super) fn no_match_raw(path: &Path<'_>, what: &str) -> CommandError {
    text(format!("ERR Path '{}' does not exist{what}", String::from_utf8_lossy(path.text)))
}

pub(super) fn too_large(error: TooLarge) -> CommandError {
    text(error.to_string())
}

/// What a change does with one value: its part of the reply (`None` for a value of another type),
/// and the new value, packed, if there is one.
pub(super) type Outcome<T> = (Option<T>, Option<Vec<u8>>);

/// Changes the value in a slot.
type Work<'w, T> = &'w mut dyn FnMut(Doc<'_>, Slot) -> Result<Outcome<T>, CommandError>;

/// Changes all values that a path matches, and returns what is to be replied for each. Reports
/// `event` if any value was changed.
pub(super) fn change_each<T>(
    call: &mut Call,
    path: &Path<'_>,
    event: Event,
    work: Work<'_, T>,
) -> Result<Vec<Option<T>>, CommandError> {
    let key = call.args[1];
    let document = change(call.keyspace, key)?;
    let (replies, has_changed) = change_values(document, path, work);
    if has_changed {
        call.keyspace.finish_change(event, key, 1, false);
    }
    replies
}

/// The replies, and whether anything changed: an error may come after changes.
pub(super) fn change_values<T>(
    document: &mut Json,
    path: &Path<'_>,
    work: Work<'_, T>,
) -> (Result<Vec<Option<T>>, CommandError>, bool) {
    let slots = match find::all(document.doc(), path) {
        Ok(slots) => slots,
        Err(error) => return (Err(error), false),
    };
    let mut sorted: Vec<Slot> = slots.clone();
    sorted.sort_unstable();
    let mut has_changed = false;
    let mut replies = Vec::with_capacity(slots.len());
    if slots.len() > 1 && edit::are_disjoint(document.doc(), &sorted) {
        let mut changed: Vec<(Slot, Vec<u8>)> = Vec::new();
        for &slot in &slots {
            match work(document.doc(), slot) {
                Ok((reply, value)) => {
                    replies.push(reply);
                    changed.extend(value.map(|value| (slot, value)));
                }
                Err(error) => return (Err(error), false),
            }
        }
        if changed.is_empty() {
            return (Ok(replies), false);
        }
        let stored = store_all(document, changed);
        return match stored {
            Ok(()) => (Ok(replies), true),
            Err(error) => (Err(error), false),
        };
    }
    let routes: Vec<Vec<Part>> = match slots.len() {
        1 => Vec::new(),
        _ => slots.iter().map(|&slot| location::route(document.doc(), slot)).collect(),
    };
    for (index, &slot) in slots.iter().enumerate() {
        let slot = match routes.get(index) {
            Some(route) => location::follow(document.doc(), route),
            None => Some(slot),
        };
        // An earlier change has removed the value.
        let Some(slot) = slot else {
            replies.push(None);
            continue;
        };
        let done = work(document.doc(), slot).and_then(|(reply, value)| {
            if let Some(value) = value {
                edit::replace(document, slot, &value).map_err(too_large)?;
                has_changed = true;
            }
            Ok(reply)
        });
        match done {
            Ok(reply) => replies.push(reply),
            Err(error) => return (Err(error), has_changed),
        }
    }
    (Ok(replies), has_changed)
}

/// Replaces values that are not inside each other.
pub(super) fn store_all(document: &mut Json, mut changed: Vec<(Slot, Vec<u8>)>) -> Result<(), CommandError> {
    changed.sort_unstable_by_key(|(slot, _)| *slot);
    let bytes = document.doc();
    let keeps_sizes = changed.iter().all(|(slot, value)| {
        !slot.is_element()
            && packed::size(bytes, *slot) == value.len()
            && bytes.is_contiguous(slot.at()..slot.at() + value.len())
    });
    if keeps_sizes {
        changed.iter().for_each(|(slot, value)| document.overwrite(slot.at(), value));
        return Ok(());
    }
    if document.is_in_pieces() && changed.len() <= edit::FEW_IN_PIECES {
        let more: usize = changed.iter().map(|(_, value)| value.len()).sum();
        // Otherwise the limit is checked for the result.
        if bytes.len() + more < BYTES_MAX / 2 {
            return store_few(document, &changed);
        }
    }
    let slots: Vec<Slot> = changed.iter().map(|(slot, _)| *slot).collect();
    let rebuilt = edit::rebuild(bytes, &slots, &mut |index, out| {
        out.copy(Doc::flat(&changed[index].1), Slot::whole(0));
    });
    document.set(&rebuilt).map_err(too_large)
}

/// Replaces values one after the other.
fn store_few(document: &mut Json, changed: &[(Slot, Vec<u8>)]) -> Result<(), CommandError> {
    let routes: Vec<Vec<Part>> =
        changed.iter().map(|(slot, _)| location::route(document.doc(), *slot)).collect();
    for (route, (_, value)) in routes.iter().zip(changed) {
        if let Some(slot) = location::follow(document.doc(), route) {
            edit::replace(document, slot, value).map_err(too_large)?;
        }
    }
    Ok(())
}

/// Replies with an array of all results in JSONPath, or with one result in the older syntax:
/// the last one that is there, or an error.
pub(super) fn reply_each<T>(
    reply: &mut ReplyBuffer,
    path: &Path<'_>,
    results: &[Option<T>],
    missing: impl FnOnce() -> CommandError,
    mut one: impl FnMut(&mut ReplyBuffer, &T),
) -> CommandResult {
    if path.is_legacy {
        let last = results.iter().rev().flatten().next().ok_or_else(missing)?;
        one(reply, last);
        return Ok(());
    }
    reply.array(results.len());
    for result in results {
        match result {
            Some(result) => one(reply, result),
            None => reply.null(),
        }
    }
    Ok(())
}
