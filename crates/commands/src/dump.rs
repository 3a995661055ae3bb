// SPDX-License-Identifier: BSD-3-Clause
//! DUMP and RESTORE: values as payloads that other servers can also read.
//!
//! Flow: DUMP writes the value in its current encoding (crate `rdb`). RESTORE validates the whole
//! payload, builds the value in the encoding that the thresholds require, and only then changes
//! the key. Payloads are never trusted, whatever `sanitize-dump-payload` is set to: validation is
//! part of reading.

use std::sync::atomic::Ordering::Relaxed;

use braid_config::SanitizeDumpPayload;
use braid_durable::saving::rdb_format;
use braid_executor::{Call, Row, limits};
use braid_keyspace::keyspace::Removal;
use braid_keyspace::{Event, Expiry, Value, eviction};
use braid_spec::{Category, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};

const OVERWRITE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE))];
const COST: &str = "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number \
     of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) \
     where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into \
     sorted sets is O(log(N)).";
const SYNTAX: &str = "key:key#0 ttl:integer serialized-value:string [REPLACE@3.0.0] [ABSTTL@5.0.0] \
     [IDLETIME seconds:integer@5.0.0] [FREQ frequency:integer@5.0.0]";

/// Rows of DUMP and RESTORE.
pub const COMMANDS: &[Row] = &[
    Row::new("dump", Group::Generic, dump)
        .exactly(2)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .docs(
            "2.6.0",
            "Returns a value as a payload for RESTORE.",
            "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value \
             and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply \
             O(1).",
        )
        .syntax("key:key#0")
        .tips(&["nondeterministic_output"]),
    restore_spec("restore", Group::Generic, Flags::NONE)
        .docs("2.6.0", "Creates a key from a DUMP payload.", COST),
    restore_spec("restore-asking", Group::Server, Flags::ASKING).docs(
        "3.0.0",
        "RESTORE for key moves within a cluster; internal.",
        COST,
    ),
];

const fn restore_spec(name: &'static str, group: Group, flags: Flags) -> Row {
    Row::new(name, group, restore)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(flags))
        .categories(Category::KEYSPACE.and(Category::DANGEROUS))
        .keys(OVERWRITE)
        .syntax(SYNTAX)
        .history(&[
            ("3.0.0", "New modifier `REPLACE`."),
            ("5.0.0", "New modifier `ABSTTL`."),
            ("5.0.0", "New options `IDLETIME` and `FREQ`."),
        ])
}

fn dump(call: &mut Call) -> CommandResult {
    let Some(entry) = call.keyspace.read(call.args[1]) else {
        call.reply.null();
        return Ok(());
    };
    let (value, format) = (braid_persistence::to_rdb(entry), rdb_format(&call.engine.config));
    if format.is_void(value) {
        call.reply.null();
        return Ok(());
    }
    call.reply.bulk(&braid_rdb::dump(value, format, call.engine.config.rdbcompression()));
    Ok(())
}

#[derive(Default)]
struct Options {
    replace: bool,
    /// The TTL is an absolute time, not a duration.
    absolute: bool,
    idle_seconds: Option<i64>,
    frequency: Option<u8>,
}

fn options(call: &Call) -> Result<Options, CommandError> {
    let mut options = Options::default();
    let mut at = 4;
    while at < call.args.len() {
        let has_more = at + 1 < call.args.len();
        if call.arg_is(at, "replace") {
            options.replace = true;
        } else if call.arg_is(at, "absttl") {
            options.absolute = true;
        } else if call.arg_is(at, "idletime") && has_more && options.frequency.is_none() {
            at += 1;
            let seconds = call.integer_arg(at)?;
            if seconds < 0 {
                return Err(CommandError::text("ERR Invalid IDLETIME value, must be >= 0"));
            }
            options.idle_seconds = Some(seconds);
        } else if call.arg_is(at, "freq") && has_more && options.idle_seconds.is_none() {
            at += 1;
            let frequency = u8::try_from(call.integer_arg(at)?)
                .map_err(|_| CommandError::text("ERR Invalid FREQ value, must be >= 0 and <= 255"))?;
            options.frequency = Some(frequency);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

fn restore(call: &mut Call) -> CommandResult {
    let options = options(call)?;
    let (key, payload) = (call.args[1], call.args[3]);
    if !options.replace && call.keyspace.peek(key).is_some() {
        return Err(CommandError::text("BUSYKEY Target key name already exists."));
    }
    let ttl = call.integer_arg(2)?;
    if ttl < 0 {
        return Err(CommandError::text("ERR Invalid TTL value, must be >= 0"));
    }
    let checks = !call.engine.debug.skip_checksums.load(Relaxed);
    let mut decoder = braid_rdb::open(payload, checks)
        .map_err(|_| CommandError::text("ERR DUMP payload version or checksum are wrong"))?;
    let value = read_value(call, &mut decoder).map_err(|error| {
        log::warn!("Bad data in a payload of RESTORE: {error}");
        CommandError::text("ERR Bad data format")
    })?;
    let expire_at = match ttl {
        0 => None,
        _ if options.absolute => Some(ttl),
        _ => Some(ttl.saturating_add(call.clock_ms())),
    };
    if expire_at.is_some_and(|at| at <= call.now()) {
        // Already expired: only removes the old value.
        if call.keyspace.delete(key) {
            call.keyspace.journal_removal(key, Removal::Server);
        }
        call.reply.ok();
        return Ok(());
    }
    let expiry = expire_at.map_or(Expiry::Clear, Expiry::At);
    call.keyspace.replace(Event::generic("restore"), key, value, expiry);
    if let Some(at) = expire_at
        && !options.absolute
    {
        let mut time = itoa::Buffer::new();
        let mut args = call.args.to_vec();
        args[2] = time.format(at).as_bytes();
        args.push(b"ABSTTL");
        call.keyspace.journal_as(&args);
    }
    let keyspace = call.keyspace.keyspace();
    let by_frequency = keyspace.settings.policy().is_lfu();
    let clock = match (options.idle_seconds, options.frequency) {
        (Some(seconds), _) if !by_frequency => Some(eviction::clock_for_idle(
            keyspace,
            u32::try_from(seconds).unwrap_or(u32::MAX).min(eviction::IDLE_MAX),
        )),
        (_, Some(frequency)) if by_frequency => Some(eviction::clock_for_frequency(keyspace, frequency)),
        _ => None,
    };
    if let Some(clock) = clock {
        call.keyspace.set_clock(key, clock);
    }
    call.reply.ok();
    Ok(())
}

/// Reads the whole value. Hash fields that have expired in the meantime are kept until they are
/// removed, as in a live hash.
fn read_value<'d>(
    call: &Call,
    decoder: &'d mut braid_rdb::Decoder<braid_rdb::Bytes<'_>>,
) -> Result<Value<'d>, braid_rdb::Error> {
    let kind = decoder.kind()?;
    if kind.is_packed() && call.engine.config.sanitize_dump_payload() != SanitizeDumpPayload::No {
        call.engine.telemetry.threads[call.keyspace.context.slot].payload_checks.add(1);
    }
    braid_persistence::read_value(decoder, kind, &limits::limits(call.engine), i64::MIN)
}

#[cfg(test)]
mod tests;
