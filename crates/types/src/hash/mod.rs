// SPDX-License-Identifier: BSD-3-Clause
//! Commands on hashes: all rows, and the read-only bodies.
//!
//! Flow: the dispatcher holds the lock of the key's shard. Changes of values are in `change.rs`,
//! field expiry in `get_set.rs` and, for all types with members, in `member_expiry.rs`, random
//! fields in `random.rs`, HIMPORT in `import.rs`.
//!
//! Expired fields are hidden from every read but HLEN and are removed by the next write. A hash
//! that becomes empty is removed with its key.

mod change;
mod get_set;
mod import;
mod member_expiry;
mod random;

use braid_executor::{Call, Handler, Row};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_values::hash::Hash;

use crate::collection::reply_element;
use crate::scan_options::{ScanExtras, ScanOptions, parse_cursor, reply_cursor};

pub use member_expiry::MEMBER_EXPIRY;

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const LOOK_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO)];
const UPDATE_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
const INSERT_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const CHANGE_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];

const READS_FAST: Flags = Flags::READONLY.and(Flags::FAST);
const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS_FAST: Flags = WRITES_FAST.and(Flags::DENYOOM);

const PAIRS: &str = "key:key#0 data:{field:string value:string}...";
/// As in Redis, without Valkey's condition on the key.
const SETEX: &str = "key:key#0 [condition:(FNX|FXX)] [expiration:(EX seconds:integer|PX milliseconds:integer|\
                     EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|KEEPTTL)] \
                     FIELDS fields:{numfields:integer data:{field:string value:string}...}";
const FIELDS: &str = "key:key#0 FIELDS fields:{numfields:integer field:string...}";
const SIZE_COST: &str = "O(N) where N is the size of the hash.";
const FIELDS_COST: &str = "O(N) where N is the number of specified fields.";

/// Rows of the hash commands.
pub const COMMANDS: &[Row] = &[
    Row::new("hdel", Group::Hash, change::hdel)
        .at_least(3)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs("2.0.0", "Removes fields from a hash.", "O(N) where N is the number of fields to be removed.")
        .syntax("key:key#0 field:string...")
        .history(&[("2.4.0", "Accepts several `field` arguments.")]),
    reader("hexists", hexists, 3)
        .keys(LOOK_ONE)
        .docs("2.0.0", "Returns whether a hash has a field.", "O(1)")
        .syntax("key:key#0 field:string"),
    reader("hget", hget, 3)
        .docs("2.0.0", "Returns the value of a field of a hash.", "O(1)")
        .syntax("key:key#0 field:string"),
    whole("hgetall", hgetall, "Returns all fields of a hash and their values."),
    Row::new("hgetdel", Group::Hash, get_set::hgetdel)
        .at_least(5)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs(
            "9.1.0",
            "Returns the values of fields of a hash and removes the fields.",
            "O(N) where N is the number of fields to be retrieved and deleted.",
        )
        .syntax(FIELDS)
        .in_redis("8.0.0", ""),
    Row::new("hgetex", Group::Hash, get_set::hgetex)
        .at_least(5)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))
            .notes("RW and UPDATE because it changes the TTL")])
        .docs("9.0.0", "Returns the values of fields of a hash and changes when they expire.", FIELDS_COST)
        .syntax(
            "key:key#0 [expiration:(EX seconds:integer|PX milliseconds:integer|\
             EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|PERSIST)] \
             FIELDS fields:{numfields:integer field:string...}",
        )
        .in_redis("8.0.0", ""),
    Row::new("hincrby", Group::Hash, change::hincrby)
        .exactly(4)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs(
            "2.0.0",
            "Adds a number to the integer in a field of a hash; a missing field counts as \
               0.",
            "O(1)",
        )
        .syntax("key:key#0 field:string increment:integer"),
    Row::new("hincrbyfloat", Group::Hash, change::hincrbyfloat)
        .exactly(4)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs(
            "2.6.0",
            "Adds a number to the floating point number in a field of a hash; a missing field counts as 0.",
            "O(1)",
        )
        .syntax("key:key#0 field:string increment:double"),
    whole("hkeys", hkeys, "Returns all fields of a hash."),
    reader("hlen", hlen, 2)
        .keys(LOOK_ONE)
        .docs("2.0.0", "Returns the number of fields of a hash.", "O(1)")
        .syntax("key:key#0"),
    Row::new("hmget", Group::Hash, hmget)
        .at_least(3)
        .flags(READS_FAST)
        .keys(READ_ONE)
        .docs(
            "2.0.0",
            "Returns the values of several fields of a hash.",
            "O(N) where N is the number of fields being requested.",
        )
        .syntax("key:key#0 field:string..."),
    import::IMPORT,
    Row::new("hmset", Group::Hash, change::hmset)
        .at_least(4)
        .flags(GROWS_FAST)
        .keys(UPDATE_ONE)
        .docs("2.0.0", "Sets several fields of a hash.", "O(N) where N is the number of fields being set.")
        .syntax(PAIRS)
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    Row::new("hrandfield", Group::Hash, random::hrandfield)
        .at_least(2)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("6.2.0", "Returns random fields of a hash.", "O(N) where N is the number of fields returned")
        .syntax("key:key#0 [options:{count:integer [WITHVALUES]}]")
        .tips(&["nondeterministic_output"]),
    Row::new("hscan", Group::Hash, hscan)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "2.8.0",
            "Iterates over the fields and values of a hash.",
            "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
             cursor to return back to 0. N is the number of elements inside the collection.",
        )
        .syntax("key:key#0 cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [NOVALUES]")
        .tips(&["nondeterministic_output"]),
    Row::new("hset", Group::Hash, change::hset)
        .at_least(4)
        .flags(GROWS_FAST)
        .keys(UPDATE_ONE)
        .docs(
            "2.0.0",
            "Sets fields of a hash; creates it if it does not exist.",
            "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is \
             called with multiple field/value pairs.",
        )
        .syntax(PAIRS)
        .history(&[("4.0.0", "Accepts several `field` and `value` arguments.")]),
    Row::new("hsetex", Group::Hash, get_set::hsetex)
        .at_least(6)
        .flags(GROWS_FAST)
        .keys(INSERT_ONE)
        .docs("9.0.0", "Sets fields of a hash, optionally on conditions and with an expiry.", FIELDS_COST)
        .syntax(
            "key:key#0 [key-condition:(NX|XX)] [fields-condition:(FNX|FXX)] \
             [expiration:(EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|\
             PXAT unix-time-milliseconds:unix-time|KEEPTTL)] \
             FIELDS fields:{numfields:integer data:{field:string value:string}...}",
        )
        .in_redis("8.0.0", SETEX),
    Row::new("hsetnx", Group::Hash, change::hsetnx)
        .exactly(4)
        .flags(GROWS_FAST)
        .keys(INSERT_ONE)
        .docs("2.0.0", "Sets a field of a hash if the field does not exist.", "O(1)")
        .syntax("key:key#0 field:string value:string"),
    reader("hstrlen", hstrlen, 3)
        .keys(LOOK_ONE)
        .docs("3.2.0", "Returns the length of the value of a field of a hash.", "O(1)")
        .syntax("key:key#0 field:string"),
    whole("hvals", hvals, "Returns the values of all fields of a hash."),
];

const fn reader(name: &'static str, handler: Handler, arity: u32) -> Row {
    Row::new(name, Group::Hash, handler).exactly(arity).flags(READS_FAST).keys(READ_ONE)
}

const fn whole(name: &'static str, handler: Handler, summary: &'static str) -> Row {
    Row::new(name, Group::Hash, handler)
        .exactly(2)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("2.0.0", summary, SIZE_COST)
        .syntax("key:key#0")
        .tips(&["nondeterministic_output_order"])
}

/// Replies with the value of a field, or with nil.
#[inline]
fn reply_field(reply: &mut ReplyBuffer, hash: Option<&Hash>, field: &[u8], now: i64) {
    match hash.and_then(|hash| hash.get(field, now)) {
        Some(value) => reply_element(reply, value),
        None => reply.null(),
    }
}

fn hget(call: &mut Call) -> CommandResult {
    let now = call.now();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    reply_field(call.reply, hash, call.args[2], now);
    Ok(())
}

fn hmget(call: &mut Call) -> CommandResult {
    let now = call.now();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for field in &call.args[2..] {
        reply_field(call.reply, hash, field, now);
    }
    Ok(())
}

fn hlen(call: &mut Call) -> CommandResult {
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    call.reply.integer(hash.map_or(0, Hash::len) as i64);
    Ok(())
}

fn hexists(call: &mut Call) -> CommandResult {
    let now = call.now();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    call.reply.integer(i64::from(hash.is_some_and(|hash| hash.contains(call.args[2], now))));
    Ok(())
}

fn hstrlen(call: &mut Call) -> CommandResult {
    let now = call.now();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    let value = hash.and_then(|hash| hash.get(call.args[2], now));
    call.reply.integer(value.map_or(0, |value| value.text_len()) as i64);
    Ok(())
}

fn hgetall(call: &mut Call) -> CommandResult {
    let now = call.now();
    let Some(hash) = call.keyspace.read_as::<Hash>(call.args[1])? else {
        call.reply.map(0);
        return Ok(());
    };
    call.reply.map(hash.live_len(now));
    for (field, value) in hash.iter(now) {
        reply_element(call.reply, field);
        reply_element(call.reply, value);
    }
    Ok(())
}

fn hkeys(call: &mut Call) -> CommandResult {
    reply_halves(call, true)
}

fn hvals(call: &mut Call) -> CommandResult {
    reply_halves(call, false)
}

fn reply_halves(call: &mut Call, fields: bool) -> CommandResult {
    let now = call.now();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    call.reply.array(hash.map_or(0, |hash| hash.live_len(now)));
    for (field, value) in hash.into_iter().flat_map(|hash| hash.iter(now)) {
        reply_element(call.reply, if fields { field } else { value });
    }
    Ok(())
}

fn hscan(call: &mut Call) -> CommandResult {
    let cursor = parse_cursor(call.args[2])?;
    let now = call.now();
    let Some(hash) = call.keyspace.read_as::<Hash>(call.args[1])? else {
        reply_cursor(call.reply, 0, 0);
        return Ok(());
    };
    let extras = ScanExtras { kind: false, bare: Some("novalues") };
    let options = ScanOptions::parse(&call.args[3..], extras)?;
    let mut found = ReplyBuffer::new(call.reply.protocol);
    let mut count = 0;
    let mut text = itoa::Buffer::new();
    let next = hash.scan(cursor, options.count, now, |field, value| {
        if options.matches(field.text(&mut text)) {
            reply_element(&mut found, field);
            count += 1;
            if !options.bare {
                reply_element(&mut found, value);
                count += 1;
            }
        }
    });
    reply_cursor(call.reply, next, count);
    call.reply.raw(found.as_contiguous().expect("elements are copied, not attached"));
    Ok(())
}
