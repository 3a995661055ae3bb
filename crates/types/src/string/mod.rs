// SPDX-License-Identifier: BSD-3-Clause
//! Commands on string values: all rows, and the read-only bodies.
//!
//! Flow: the dispatcher has checked arity and memory and holds the locks of the shards that
//! `.keys(..)` names. Bodies read or change values and write the reply. Commands that set whole
//! values are in `set.rs`, their conditions in `compare.rs`, changes in place in `edit.rs`, bounded
//! increments in `increx.rs`, LCS in `lcs.rs`, rate limits in `throttle.rs`.
//!
//! HOT PATH: GET, SET, INCR, MGET and MSET allocate nothing but the entry that they store.

mod compare;
mod edit;
mod increx;
mod lcs;
mod set;
mod throttle;

use braid_containers::bits;
use braid_executor::dispatch::Request;
use braid_executor::{Call, Row};
use braid_keyspace::events::KEY_MISS;
use braid_keyspace::txn::{KeyRef, Optimistic, StringRef};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{Begin, CommandError, CommandResult, Find, Flags, Group, KeyFlags, KeySpec};

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const CHANGE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE);
const OVERWRITE: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];
const CHANGE_ONE: &[KeySpec] = &[KeySpec::at(1, CHANGE)];
const OVERWRITE_ONE: &[KeySpec] = &[KeySpec::at(1, OVERWRITE)];

const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const GROWS_FAST: Flags = GROWS.and(Flags::FAST);
const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);
const READS_FAST: Flags = Flags::READONLY.and(Flags::FAST);

const KEY: &str = "key:key#0";
const KEY_VALUE: &str = "key:key#0 value:string";
const KEY_VALUES: &str = "data:{key:key#0 value:string}...";

const SUBSTRING_COST: &str =
    "O(N) where N is the length of the returned string; as good as O(1) for short ones.";

/// Rows of the string commands.
pub const COMMANDS: &[Row] = &[
    Row::new("append", Group::String, edit::append)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .docs(
            "2.0.0",
            "Appends a string to the value of a key; creates the key if it does not exist.",
            "O(1). Amortized, for short appended strings: the room of a growing value is doubled.",
        )
        .syntax(KEY_VALUE),
    Row::new("cl.throttle", Group::String, throttle::throttle)
        .at_least(5)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("0.1.0", "Takes from a rate limit, and says how much is left and when there will be more.", "O(1)")
        .syntax("key:key#0 max-burst:integer count:integer period:integer [quantity:integer]"),
    Row::new("decr", Group::String, edit::decr)
        .exactly(2)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("1.0.0", "Subtracts one from the integer at a key; a missing key counts as 0.", "O(1)")
        .syntax(KEY),
    Row::new("decrby", Group::String, edit::decrby)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("1.0.0", "Subtracts a number from the integer at a key; a missing key counts as 0.", "O(1)")
        .syntax("key:key#0 decrement:integer"),
    Row::new("delex", Group::String, compare::delex)
        .at_least(2)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE).and(KeyFlags::VARIABLE_FLAGS))
            .notes("ACCESS only with a condition, RM without one")])
        .exact_key_flags(compare::delex_key_flags)
        .docs(
            "8.4.0",
            "Deletes a key, optionally on a condition on its value or digest.",
            "O(1), or O(N) with IFDEQ or IFDNE where N is the length of the value.",
        )
        .syntax(
            "key:key#0 [condition:(IFEQ ifeq-value:string|IFNE ifne-value:string|\
             IFDEQ ifdeq-digest:string|IFDNE ifdne-digest:string)]",
        ),
    Row::new("delifeq", Group::String, compare::delifeq)
        .exactly(3)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RM.and(KeyFlags::DELETE))])
        .docs("9.0.0", "Deletes a key if its value equals the given string.", "O(1)")
        .syntax(KEY_VALUE),
    Row::new("digest", Group::String, compare::digest)
        .exactly(2)
        .flags(READS_FAST)
        .keys(READ_ONE)
        .docs(
            "8.4.0",
            "Returns the XXH3 digest of the string at a key.",
            "O(N) where N is the length of the string value.",
        )
        .syntax(KEY),
    Row::new("get", Group::String, get)
        .exactly(2)
        .flags(READS_FAST)
        .keys(READ_ONE)
        .lock_free(get_lock_free)
        .docs("1.0.0", "Returns the string value of a key.", "O(1)")
        .syntax(KEY),
    Row::new("getdel", Group::String, getdel)
        .exactly(2)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs("6.2.0", "Returns the string value of a key and deletes the key.", "O(1)")
        .syntax(KEY),
    Row::new("getex", Group::String, set::getex)
        .at_least(2)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, CHANGE).notes("RW and UPDATE because it changes the TTL")])
        .docs("6.2.0", "Returns the string value of a key and changes when the key expires.", "O(1)")
        .syntax(
            "key:key#0 [expiration:(EX seconds:integer|PX milliseconds:integer|\
             EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|PERSIST)]",
        ),
    Row::new("getrange", Group::String, getrange)
        .exactly(4)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("2.4.0", "Returns a part of the string at a key.", SUBSTRING_COST)
        .syntax("key:key#0 start:integer end:integer"),
    Row::new("getset", Group::String, set::getset)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("1.0.0", "Sets a key to a string and returns the string it held before.", "O(1)")
        .syntax(KEY_VALUE)
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    Row::new("incr", Group::String, edit::incr)
        .exactly(2)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("1.0.0", "Adds one to the integer at a key; a missing key counts as 0.", "O(1)")
        .syntax(KEY),
    Row::new("incrby", Group::String, edit::incrby)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("1.0.0", "Adds a number to the integer at a key; a missing key counts as 0.", "O(1)")
        .syntax("key:key#0 increment:integer"),
    Row::new("incrbyfloat", Group::String, edit::incrbyfloat)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs("2.6.0", "Adds to the floating point number at a key; a missing key counts as 0.", "O(1)")
        .syntax("key:key#0 increment:double"),
    Row::new("increx", Group::String, increx::increx)
        .at_least(2)
        .flags(GROWS_FAST)
        .keys(CHANGE_ONE)
        .docs(
            "8.8.0",
            "Adds to the number at a key within bounds, and sets its expiry; a missing key counts as 0.",
            "O(1)",
        )
        .syntax(
            "key:key#0 [condition:(NX|XX)] [increment:(BYFLOAT float:double|BYINT integer:integer)] [SATURATE] \
             [LBOUND lowerbound:string] [UBOUND upperbound:string] \
             [expiration:(EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|\
             PXAT unix-time-milliseconds:unix-time|PERSIST)] [ENX]",
        ),
    Row::new("lcs", Group::String, lcs::lcs)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::range(1, 1, 1, READ)])
        .docs(
            "7.0.0",
            "Finds the longest common subsequence of two strings.",
            "O(N*M) where N and M are the lengths of s1 and s2, respectively",
        )
        .syntax("key1:key#0 key2:key#0 [LEN] [IDX] [MINMATCHLEN min-match-len:integer] [WITHMATCHLEN]"),
    Row::new("mget", Group::String, mget)
        .at_least(2)
        .flags(READS_FAST)
        .keys(&[KeySpec::range(1, -1, 1, READ)])
        .docs(
            "1.0.0",
            "Returns the string values of several keys atomically.",
            "O(N) where N is the number of keys to retrieve.",
        )
        .syntax("key:key#0...")
        .tips(&["request_policy:multi_shard"]),
    Row::new("mset", Group::String, set::mset)
        .at_least(3)
        .flags(GROWS)
        .keys(&[KeySpec::range(1, -1, 2, OVERWRITE)])
        .docs(
            "1.0.1",
            "Sets the string values of several keys at once.",
            "O(N) where N is the number of keys to set.",
        )
        .syntax(KEY_VALUES)
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Row::new("msetex", Group::String, set::msetex)
        .at_least(4)
        .flags(GROWS.and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec {
            flags: OVERWRITE,
            begin: Begin::Index(1),
            find: Find::KeyNum { count_at: 0, first: 1, step: 2 },
            notes: "",
        }])
        .docs(
            "9.1.0",
            "Sets the string values of several keys at once, optionally on a condition and with an expiry.",
            "O(N) where N is the number of keys to set.",
        )
        .syntax(
            "numkeys:integer data:{key:key#0 value:string}... [condition:(NX|XX)] \
             [expiration:(EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|\
             PXAT unix-time-milliseconds:unix-time|KEEPTTL)]",
        )
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Row::new("msetnx", Group::String, set::msetnx)
        .at_least(3)
        .flags(GROWS)
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OW.and(KeyFlags::INSERT))])
        .docs(
            "1.0.1",
            "Sets the string values of several keys at once, if none of them exists.",
            "O(N) where N is the number of keys to set.",
        )
        .syntax(KEY_VALUES),
    Row::new("psetex", Group::String, set::psetex)
        .exactly(4)
        .flags(GROWS)
        .keys(OVERWRITE_ONE)
        .docs("2.6.0", "Sets a key to a string that expires after some milliseconds.", "O(1)")
        .syntax("key:key#0 milliseconds:integer value:string")
        .deprecated("2.6.12", "`SET` with the `PX` argument"),
    Row::new("set", Group::String, set::set)
        .at_least(3)
        .flags(GROWS)
        .keys(&[KeySpec::at(1, CHANGE.and(KeyFlags::VARIABLE_FLAGS))
            .notes("RW and ACCESS due to the optional `GET` argument")])
        .exact_key_flags(set::key_flags)
        .docs("1.0.0", "Sets a key, new or not, to a string, whatever it held before.", "O(1)")
        .syntax(
            "key:key#0 value:string [condition:(NX|XX|IFEQ ifeq-value:string@8.1.0|\
             IFNE ifne-value:string@8.4.0|IFDEQ ifdeq-digest:string@8.4.0|\
             IFDNE ifdne-digest:string@8.4.0)] [GET] [expiration:(EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|\
             PXAT unix-time-milliseconds:unix-time|KEEPTTL)]",
        )
        .history(&[
            ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` may be given together."),
            ("8.1.0", "Option `IFEQ`."),
            ("8.4.0", "Options `IFNE`, `IFDEQ` and `IFDNE`."),
        ]),
    Row::new("setex", Group::String, set::setex)
        .exactly(4)
        .flags(GROWS)
        .keys(OVERWRITE_ONE)
        .docs("2.0.0", "Sets a key to a string that expires after some seconds.", "O(1)")
        .syntax("key:key#0 seconds:integer value:string")
        .deprecated("2.6.12", "`SET` with the `EX` argument"),
    Row::new("setnx", Group::String, set::setnx)
        .exactly(3)
        .flags(GROWS_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::OW.and(KeyFlags::INSERT))])
        .docs("1.0.0", "Sets a key to a string if the key does not exist.", "O(1)")
        .syntax(KEY_VALUE)
        .deprecated("2.6.12", "`SET` with the `NX` argument"),
    Row::new("setrange", Group::String, edit::setrange)
        .exactly(4)
        .flags(GROWS)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "2.2.0",
            "Overwrites a part of the string at a key; a gap before the offset is filled with zeros.",
            "O(1) but for the copying, which is O(M) with M being the length of the value argument.",
        )
        .syntax("key:key#0 offset:integer value:string"),
    Row::new("strlen", Group::String, strlen)
        .exactly(2)
        .flags(READS_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .docs("2.2.0", "Returns the length of the string at a key in bytes.", "O(1)")
        .syntax(KEY),
    Row::new("substr", Group::String, getrange)
        .exactly(4)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("1.0.0", "Returns a part of the string at a key.", SUBSTRING_COST)
        .syntax("key:key#0 start:integer end:integer")
        .deprecated("2.0.0", "`GETRANGE`"),
];

/// Writes a string value as a bulk reply.
#[inline]
fn reply_string(reply: &mut ReplyBuffer, value: StringRef<'_>) {
    match value {
        StringRef::Bytes(bytes) => reply.bulk(bytes),
        StringRef::Integer(number) => reply.bulk_integer(number),
        StringRef::Blob(blob) => reply.bulk_blob(blob),
    }
}

/// Replies with the string at the call's key, or nil. Returns whether there is one.
#[inline]
fn reply_value(call: &mut Call) -> Result<bool, CommandError> {
    match call.keyspace.string(call.args[1])? {
        Some(value) => {
            reply_string(call.reply, value);
            Ok(true)
        }
        None => {
            call.reply.null();
            Ok(false)
        }
    }
}

/// Refuses a string longer than `proto-max-bulk-len`, or than memory could hold.
fn check_length(call: &Call, bytes: u64, more: u64) -> CommandResult {
    let total = bytes.checked_add(more).filter(|total| *total <= call.engine.config.proto_max_bulk_len());
    memory_size(total.ok_or(CommandError::StringTooLong)?).map(drop)
}

/// A string's length as a size in memory. Lengths beyond the machine's memory are refused: with a
/// raised `proto-max-bulk-len`, a single offset could otherwise kill the server.
pub(crate) fn memory_size(bytes: u64) -> Result<usize, CommandError> {
    const ALWAYS: u64 = 512 << 20;
    let is_possible = bytes <= ALWAYS || bytes <= braid_process::memory::machine_bytes();
    usize::try_from(bytes).ok().filter(|_| is_possible).ok_or(CommandError::StringTooLong)
}

fn get(call: &mut Call) -> CommandResult {
    reply_value(call).map(drop)
}

/// GET's fast path: copies the value without a lock; the copy is valid if nothing was written to
/// the shard meanwhile.
fn get_lock_free(request: &mut Request<'_>, key: &KeyRef<'_>) -> bool {
    let Request { engine, worker, session, reply, .. } = request;
    if session.attention != 0 {
        return false;
    }
    let (keyspace, mark, now) = (&engine.keyspace, reply.mark(), worker.now_ms());
    match keyspace.read_optimistic(&worker.context, session.db, now, key, |len| reply.bulk_reserve(len)) {
        Optimistic::Copied => {}
        Optimistic::Missing => {
            reply.truncate(mark);
            reply.null();
            if keyspace.wants(KEY_MISS.class) {
                keyspace.tell_event(worker.context.slot, session.db, KEY_MISS, key.key, None);
            }
        }
        Optimistic::Integer(number) => reply.bulk_integer(number),
        Optimistic::Large(state) => return worker.read_cached(keyspace, session.db, reply, key, state),
        Optimistic::Failed => {
            reply.truncate(mark);
            return false;
        }
    }
    true
}

fn getdel(call: &mut Call) -> CommandResult {
    if reply_value(call)? {
        call.keyspace.delete(call.args[1]);
        call.keyspace.journal_as(&[b"DEL", call.args[1]]);
    }
    Ok(())
}

fn mget(call: &mut Call) -> CommandResult {
    let keys = &call.args[1..];
    call.reply.array(keys.len());
    for key in keys {
        match call.keyspace.string(key) {
            Ok(Some(value)) => reply_string(call.reply, value),
            // Keys of other types count as missing.
            Ok(None) | Err(_) => call.reply.null(),
        }
    }
    Ok(())
}

fn strlen(call: &mut Call) -> CommandResult {
    let value = call.keyspace.string(call.args[1])?;
    call.reply.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

fn getrange(call: &mut Call) -> CommandResult {
    let (start, end) = (call.integer_arg(2)?, call.integer_arg(3)?);
    let Some(value) = call.keyspace.string(call.args[1])? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let mut scratch = [0; 20];
    let bytes = value.bytes(&mut scratch);
    let range = if bits::is_backward(start, end) {
        None
    } else {
        bits::normalize_range(start, end, bytes.len() as u64)
    };
    match range {
        None => call.reply.bulk(b""),
        // The range lies within the string, so both ends fit.
        Some(range) => match (value, &bytes[*range.start() as usize..=*range.end() as usize]) {
            (StringRef::Blob(blob), part) if part.len() == blob.len() => call.reply.bulk_blob(blob),
            (_, part) => call.reply.bulk(part),
        },
    }
    Ok(())
}
