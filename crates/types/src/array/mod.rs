// SPDX-License-Identifier: BSD-3-Clause
//! Commands on arrays, as redis.io's pages of Redis 8.8 describe them.
//!
//! ```text
//! mod.rs      rows, and what several commands share
//! read.rs     texts, ranges, ARINFO
//! search.rs   AROP, ARGREP
//! write.rs    changes
//! ```
//! The pages do not have the words of errors; those of other commands are used.

mod read;
mod search;
mod write;

use braid_base::number::parse_u64;
use braid_executor::Row;
use braid_keyspace::Event;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{Category, CommandError, Flags, Group, KeyFlags, KeySpec};
use braid_values::array::value::{INDEX_MAX, Text};

use crate::family::Family;

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
const REMOVE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))];
const READS: Flags = Flags::READONLY;
const READS_FAST: Flags = Flags::READONLY.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const GROWS_FAST: Flags = GROWS.and(Flags::FAST);
const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);

const FAMILY: Family = Family { group: Group::Array, category: Category::NONE };

/// Rows of the array commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("arcount", read::arcount, READS_FAST, READ_ONE).exactly(2)
        .docs("8.8.0", "Returns the number of indexes of an array that are set.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("ardel", write::ardel, WRITES_FAST, REMOVE).at_least(3)
        .docs("8.8.0", "Unsets indexes of an array. Deletes the array if no other is set.", "O(N) where N is the number of indices to delete")
        .syntax("key:key#0 index:integer..."),
    FAMILY.row("ardelrange", write::ardelrange, Flags::WRITE, REMOVE).at_least(4)
        .docs("8.8.0", "Unsets ranges of indexes of an array. Deletes the array if no other is set.", "Proportional to the number of existing elements / slices touched, not to the numeric span of the requested ranges")
        .syntax("key:key#0 range:{start:integer end:integer}..."),
    FAMILY.row("arget", read::arget, READS_FAST, READ_ONE).exactly(3)
        .docs("8.8.0", "Returns the text at an index of an array.", "O(1)")
        .syntax("key:key#0 index:integer"),
    FAMILY.row("argetrange", read::argetrange, READS, READ_ONE).exactly(4)
        .docs("8.8.0", "Returns the texts at a range of indexes of an array.", "O(N) where N is the range length")
        .syntax("key:key#0 start:integer end:integer"),
    FAMILY.row("argrep", search::argrep, READS, READ_ONE).at_least(6)
        .docs("8.8.0", "Searches a range of an array for texts that equal, contain or match others.", "O(P * C) where P is the number of visited positions in touched slices and C is the cost of evaluating the predicates on one existing element.")
        .syntax("key:key#0 start:string end:string predicate:(exact:{EXACT string:string}|match:{MATCH string:string}|glob:{GLOB pattern:string}|re:{RE pattern:string})... [options:(AND|OR|LIMIT limit:integer|WITHVALUES|NOCASE)...]"),
    FAMILY.row("arinfo", read::arinfo, READS, READ_ONE).at_least(2)
        .docs("8.8.0", "Returns the size, the cursor and the structure of an array.", "O(1), or O(N) with FULL option where N is the number of slices.")
        .syntax("key:key#0 [FULL]"),
    FAMILY.row("arinsert", write::arinsert, GROWS_FAST, CHANGE).at_least(3)
        .docs("8.8.0", "Inserts texts into an array at its cursor.", "O(N) where N is the number of values")
        .syntax("key:key#0 value:string..."),
    FAMILY.row("arlastitems", read::arlastitems, READS, READ_ONE).at_least(3)
        .docs("8.8.0", "Returns the texts that were last inserted into an array.", "O(N) where N is the count")
        .syntax("key:key#0 count:integer [REV]"),
    FAMILY.row("arlen", read::arlen, READS_FAST, READ_ONE).exactly(2)
        .docs("8.8.0", "Returns the last index of an array that is set, plus one.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("armget", read::armget, READS_FAST, READ_ONE).at_least(3)
        .docs("8.8.0", "Returns the texts at several indexes of an array.", "O(N) where N is the number of indices")
        .syntax("key:key#0 index:integer..."),
    FAMILY.row("armset", write::armset, GROWS_FAST, CHANGE).at_least(4)
        .docs("8.8.0", "Sets the texts at several indexes of an array.", "O(N) where N is the number of pairs")
        .syntax("key:key#0 data:{index:integer value:string}..."),
    FAMILY.row("arnext", read::arnext, READS_FAST, READ_ONE).exactly(2)
        .docs("8.8.0", "Returns the index at which ARINSERT would insert.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("arop", search::arop, READS, READ_ONE).at_least(5)
        .docs("8.8.0", "Computes a sum, an extreme, a count or bits of a range of an array.", "O(P) where P is visited positions in touched slices (dense scanned slots + sparse entries), with worst-case O(|end-start|+1) and typical case close to O(N), where N is the number of existing elements in range.")
        .syntax("key:key#0 start:integer end:integer operation:(SUM|MIN|MAX|AND|OR|XOR|match:{MATCH value:string}|USED)"),
    FAMILY.row("arring", write::arring, GROWS, CHANGE).at_least(4)
        .docs("8.8.0", "Inserts texts into an array that is used as a ring.", "O(M) normally, O(N+M) on ring resize, where N is the maximum of the old and new ring size and M is the number of inserted values")
        .syntax("key:key#0 size:integer value:string..."),
    FAMILY.row("arscan", read::arscan, READS, READ_ONE).at_least(4)
        .docs("8.8.0", "Returns the indexes that are set in a range of an array, with their texts.", "O(P) where P is visited positions in touched slices (dense scanned slots + sparse entries), with worst-case O(|end-start|+1) and typical case close to O(N), where N is the number of existing elements in range.")
        .syntax("key:key#0 start:integer end:integer [LIMIT limit:integer]"),
    FAMILY.row("arseek", write::arseek, WRITES_FAST, CHANGE).exactly(3)
        .docs("8.8.0", "Sets the cursor of an array.", "O(1)")
        .syntax("key:key#0 index:integer"),
    FAMILY.row("arset", write::arset, GROWS_FAST, CHANGE).at_least(4)
        .docs("8.8.0", "Sets the texts at indexes of an array that follow each other.", "O(N) where N is the number of values")
        .syntax("key:key#0 index:integer value:string..."),
];

const ARSET: Event = Event::module("arset");
const ARDEL: Event = Event::module("ardel");
const ARINSERT: Event = Event::module("arinsert");
const ARRING: Event = Event::module("arring");
const ARSEEK: Event = Event::module("arseek");

/// An index: at most [`INDEX_MAX`].
fn index_of(text: &[u8]) -> Result<u64, CommandError> {
    parse_u64(text).filter(|index| *index <= INDEX_MAX).ok_or(CommandError::NotAnInteger)
}

/// A number of at least 1.
fn positive(text: &[u8]) -> Result<u64, CommandError> {
    let refusal = CommandError::text("ERR value is out of range, must be positive");
    parse_u64(text).filter(|number| *number > 0).ok_or(refusal)
}

/// An index or a length; beyond 63 bits a big number, or a string before RESP3.
fn reply_index(reply: &mut ReplyBuffer, index: u64) {
    match i64::try_from(index) {
        Ok(index) => reply.integer(index),
        Err(_) => reply.big_number(&index.to_string()),
    }
}

fn reply_text(reply: &mut ReplyBuffer, text: Option<Text<'_>>) {
    match text {
        Some(Text::Bytes(bytes)) => reply.bulk(bytes),
        Some(Text::Blob(blob)) => reply.bulk_blob(blob),
        None => reply.null(),
    }
}

/// An index with its text.
fn reply_pair(reply: &mut ReplyBuffer, index: u64, text: Text<'_>) {
    reply.array(2);
    reply_index(reply, index);
    reply_text(reply, Some(text));
}
