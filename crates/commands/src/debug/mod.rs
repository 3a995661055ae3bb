// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG: switches and inspection for tests and troubleshooting. Disabled by default
//! (`enable-debug-command`).
//!
//! The whole command runs with the world stopped: DEBUG SLEEP blocks every client, as tests of
//! other servers expect, and inspection sees a single moment.

mod digest;
mod group;
mod inside;
mod populate;
mod protocol;
mod reload;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::number;
use braid_config::ExtraLines;
use braid_executor::{Call, Row, tell_replicas};
use braid_keyspace::object::DigestSink;
use braid_keyspace::{Entry, ValueRef, eviction};
use braid_spec::{CommandError, CommandResult, Flags, Group, Scope};
use digest::DataDigest;

use crate::server::{Tuned, mallctl_integer, mallctl_text, mallctl_void};

/// Rows of the DEBUG command.
pub const COMMANDS: &[Row] = &[Row::new("debug", Group::Server, debug)
    .at_least(2)
    .flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE).and(Flags::PROTECTED))
    .scope(Scope::World)
    .docs("1.0.0", "Groups the commands for testing and debugging.", "Depends on subcommand.")];

fn debug(call: &mut Call) -> CommandResult {
    let name = call.args[1].to_ascii_lowercase();
    match (name.as_slice(), call.args.len()) {
        (b"help", 2) => help(call),
        (b"sleep", 3) => sleep(call),
        (b"set-active-expire", 3) => switch(call, |engine, value| {
            engine.keyspace.settings.active_expire_off.store(u8::from(value == 0), Relaxed);
        }),
        (b"pause-cron", 3) => {
            switch(call, |engine, value| engine.debug.cron_paused.store(value != 0, Relaxed))
        }
        (b"relocate-all", 3) => {
            switch(call, |engine, value| engine.keyspace.defrag.set_moves_all(value != 0))
        }
        (b"aof-flush-sleep", 3) => switch(call, |engine, value| {
            engine.append_only.appender.set_delay(u64::try_from(value).unwrap_or(0));
        }),
        (b"set-skip-checksum-validation", 3) => {
            switch(call, |engine, value| engine.debug.skip_checksums.store(value != 0, Relaxed))
        }
        (b"set-disable-deny-scripts", 3) => {
            switch(call, |engine, value| engine.debug.scripts_call_all.store(value != 0, Relaxed))
        }
        // Tables grow segment by segment: there is no resizing to prevent.
        (b"dict-resizing", 3) => switch(call, |_, _| {}),
        (b"reload", 2..) => reload::reload(call),
        (b"loadaof", 2) => reload::load_append_only(call),
        (b"replybuffer", 4) => reply_buffer(call),
        (b"object", 3) => object(call),
        (b"sdslen", 3) => string_lengths(call),
        (b"digest", 2) => digest_all(call),
        (b"digest-value", _) => digest_values(call),
        (b"populate", 3..=5) => populate::populate(call),
        (b"protocol", 3) => protocol::protocol(call),
        (b"error", 3) => {
            call.reply.error_bytes(call.args[2]);
            Ok(())
        }
        (b"replicate", 3..) => {
            let (engine, args) = (call.engine, call.args);
            tell_replicas::tell_replicas(engine, call.keyspace, &args[2..]);
            done(call)
        }
        (b"change-repl-id", 2) => {
            log::info!("Changing replication IDs after receiving change-repl-id");
            call.engine.replication.state.lock().history.begin_anew();
            done(call)
        }
        (b"log", 3) => {
            log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.args[2]));
            done(call)
        }
        (b"htstats", 3..) => table_statistics(call),
        (b"htstats-key", 3..) => inside::table(call),
        (b"listpack", 3) => inside::listpack(call),
        (b"quicklist", 3 | 4) => inside::quicklist(call),
        (b"quicklist-packed-threshold", 3) => inside::packed_threshold(call),
        (b"mallctl", 3 | 4) => tune_integer(call),
        (b"mallctl-str", 3 | 4) => tune_text(call),
        (b"in-sync", 2..) => group::in_sync(call),
        (b"serve-until", 3) => group::serve_until(call),
        (b"config-rewrite-force-all", 2) => rewrite_everything(call),
        (b"stringmatch-test", 2) => match_test(call),
        (b"segfault", 2) => {
            fault();
            // The fault did not happen: there was no memory for it.
            std::process::abort()
        }
        (b"panic" | b"assert", 2) => {
            log::error!("DEBUG {} called", String::from_utf8_lossy(&name).to_ascii_uppercase());
            std::process::abort()
        }
        _ => Err(call.unknown_subcommand()),
    }
}

/// Writes to read-only memory.
fn fault() {
    let (flags, nowhere) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, std::ptr::null_mut());
    // SAFETY: a new page of memory. Writing to it is meant to fault; nothing is changed.
    unsafe {
        let page = libc::mmap(nowhere, 4096, libc::PROT_READ, flags, -1, 0);
        if page != libc::MAP_FAILED {
            page.cast::<u8>().write_volatile(1);
        }
    }
}

fn done(call: &mut Call) -> CommandResult {
    call.reply.ok();
    Ok(())
}

/// The leading integer of a text, as C's `atoi` reads switches.
fn leading_integer(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let value = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0i64, |value, byte| value.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    if negative { -value } else { value }
}

fn switch(call: &mut Call, set: impl Fn(&braid_executor::Engine, i64)) -> CommandResult {
    set(call.engine, leading_integer(call.args[2]));
    done(call)
}

/// Longest sleep: a day.
const SLEEP_SECONDS_MAX: f64 = 86_400.0;

fn sleep(call: &mut Call) -> CommandResult {
    let seconds = number::parse_f64(call.args[2]).filter(|seconds| *seconds > 0.0).unwrap_or(0.0);
    std::thread::sleep(Duration::from_secs_f64(seconds.min(SLEEP_SECONDS_MAX)));
    done(call)
}

/// The default interval at which a reply buffer's peak is reset; 0: the loops' default.
const PEAK_RESET_DEFAULT: i64 = 0;

fn reply_buffer(call: &mut Call) -> CommandResult {
    let settings = &call.engine.debug;
    if call.arg_is(2, "peak-reset-time") {
        let millis = if call.arg_is(3, "never") {
            -1
        } else if call.arg_is(3, "reset") {
            PEAK_RESET_DEFAULT
        } else {
            call.integer_arg(3)?
        };
        settings.reply_buffer_peak_reset_ms.store(millis, Relaxed);
    } else if call.arg_is(2, "resizing") {
        settings.reply_buffer_fixed.store(leading_integer(call.args[3]) == 0, Relaxed);
    } else {
        return Err(call.unknown_subcommand());
    }
    done(call)
}

/// The entry of a key, even if expired.
fn find<'t>(call: &'t Call<'_, '_>, key: &[u8]) -> Option<Entry<'t>> {
    call.keyspace.peek(key).or_else(|| call.keyspace.peek_expired(key))
}

/// A value's size in a dump file, in bytes.
fn serialized_bytes(entry: Entry<'_>, compress: bool) -> usize {
    let mut encoder = braid_rdb::Encoder::new(Vec::new(), compress);
    match encoder.value(braid_persistence::to_rdb(entry)) {
        Ok(()) => encoder.into_inner().len(),
        Err(_) => 0,
    }
}

fn object(call: &mut Call) -> CommandResult {
    let entry = find(call, call.args[2]).ok_or(CommandError::NoSuchKey)?;
    let text = format!(
        "Value at:0x{:x} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        entry.address(),
        entry.encoding_name(),
        serialized_bytes(entry, call.engine.config.rdbcompression()),
        entry.clock(),
        eviction::idle_seconds(&call.engine.keyspace, entry.clock()),
    );
    call.reply.simple(&text);
    Ok(())
}

fn string_lengths(call: &mut Call) -> CommandResult {
    let entry = find(call, call.args[2]).ok_or(CommandError::NoSuchKey)?;
    let class = braid_base::alloc::size_class;
    let own = class(entry.allocation_bytes());
    let (len, spare, allocated) = match entry.value() {
        ValueRef::Bytes(bytes) => (bytes.len(), 0, own),
        ValueRef::Blob(blob) => (blob.len(), blob.capacity() - blob.len(), class(blob.allocation_bytes())),
        _ => return Err(CommandError::text("ERR Not an sds encoded string.")),
    };
    // A key and a short value share an allocation, which both report.
    let text = format!(
        "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {own}, val_sds_len:{len}, val_sds_avail:{spare}, val_zmalloc: {allocated}",
        entry.key().len()
    );
    call.reply.simple(&text);
    Ok(())
}

fn digest_all(call: &mut Call) -> CommandResult {
    let mut digest = DataDigest::default();
    let selected = call.keyspace.db();
    for db in 0..call.engine.keyspace.databases() {
        if call.engine.keyspace.len(db).0 == 0 {
            continue;
        }
        digest.mix(&db.to_be_bytes());
        call.keyspace.set_db(db);
        call.keyspace.for_each(|entry| digest.entry(entry));
    }
    call.keyspace.set_db(selected);
    call.reply.simple(&digest.hex());
    Ok(())
}

fn digest_values(call: &mut Call) -> CommandResult {
    let digests: Vec<String> = call.args[2..]
        .iter()
        .map(|key| {
            let mut digest = DataDigest::default();
            if let Some(entry) = find(call, key) {
                digest.value(entry);
            }
            digest.hex()
        })
        .collect();
    call.reply.array(digests.len());
    for digest in digests {
        call.reply.simple(&digest);
    }
    Ok(())
}

/// Describes tables in other servers' format, as far as it fits: there is one table of segments
/// per shard.
fn table_statistics(call: &mut Call) -> CommandResult {
    let keyspace = &call.engine.keyspace;
    let db = call.integer_arg(2)?;
    let db = u32::try_from(db)
        .ok()
        .filter(|db| *db < keyspace.databases())
        .ok_or(CommandError::text("ERR Out of range database"))?;
    let (keys, expires) = keyspace.len(db);
    let mut text = String::from("[Dictionary HT]\n");
    if keys == 0 {
        text.push_str("No stats available for empty dictionaries\n");
    } else {
        let (segments, slots) = keyspace.shards().iter().fold((0, 0), |(segments, slots), shard| {
            let (more_segments, more_slots) = shard.table(db).shape();
            (segments + more_segments, slots + more_slots)
        });
        text.push_str(&format!(
            "Hash table 0 stats (main hash table):\n table size: {slots}\n number of elements: {keys}\n segments: {segments}\n \
             shards: {}\n",
            keyspace.shard_count()
        ));
    }
    text.push_str("[Expires HT]\n");
    if expires == 0 {
        text.push_str("No stats available for empty dictionaries\n");
    } else {
        text.push_str(&format!("Kept in the entries themselves:\n number of elements: {expires}\n"));
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn system_error(number: i32) -> CommandError {
    let error = std::io::Error::from_raw_os_error(number);
    CommandError::text(format!("ERR {}", braid_base::system_text::reason(&error)))
}

fn tune_integer(call: &mut Call) -> CommandResult {
    let new = if call.args.len() == 4 { Some(call.integer_arg(3)?) } else { None };
    match mallctl_integer(call.args[2], new) {
        Tuned::Was(value) => call.reply.integer(value),
        Tuned::Set => call.reply.ok(),
        Tuned::Error(number) => return Err(system_error(number)),
    }
    Ok(())
}

fn tune_text(call: &mut Call) -> CommandResult {
    let tuned = match call.args.get(3) {
        None => mallctl_text(call.args[2]),
        Some(new) if *new == b"VOID" => mallctl_void(call.args[2]),
        Some(_) => return Err(system_error(libc::EPERM)),
    };
    match tuned {
        Tuned::Was(text) => call.reply.bulk(text.as_bytes()),
        Tuned::Set => call.reply.ok(),
        Tuned::Error(number) => return Err(system_error(number)),
    }
    Ok(())
}

fn rewrite_everything(call: &mut Call) -> CommandResult {
    let failed = |reason: &str| CommandError::text(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {reason}"));
    let Some(path) = &call.engine.process.config_file else {
        return Err(failed("No such file or directory"));
    };
    let lines =
        ExtraLines { users: Some(call.engine.acl.config_lines(&call.engine.config)), everything: true };
    call.engine.config.rewrite_with(path, &lines).map_err(|reason| failed(&reason))?;
    done(call)
}

/// Matches random patterns against random texts: matching must terminate, and an escaped text must
/// match itself.
fn match_test(call: &mut Call) -> CommandResult {
    let mut random = fastrand::Rng::new();
    let mut text = |len: usize, alphabet: &[u8]| -> Vec<u8> {
        (0..len).map(|_| alphabet[random.usize(0..alphabet.len())]).collect()
    };
    for round in 0..10_000 {
        let (pattern, subject) = (text(round % 16, b"*?[]^-\\abc"), text(round % 64, b"abc"));
        braid_base::glob::matches(&pattern, &subject, round % 2 == 0);
        let escaped: Vec<u8> = subject.iter().flat_map(|&byte| [b'\\', byte]).collect();
        if !braid_base::glob::matches(&escaped, &subject, false) {
            return Err(CommandError::text("ERR a text does not match itself"));
        }
    }
    call.reply.simple("Apparently Redis did not crash: test passed");
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "AOF-FLUSH-SLEEP <microsec>",
        "    Wait before each write to the append-only file.",
        "CHANGE-REPL-ID",
        "    Start a new replication history: reconnecting replicas need a full sync.",
        "CONFIG-REWRITE-FORCE-ALL",
        "    Like CONFIG REWRITE, but write every directive.",
        "DICT-RESIZING <0|1>",
        "    Accepted; tables are never resized as a whole.",
        "DIGEST",
        "    Return a digest that is equal for equal data.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Return the digest of the value of each <key>.",
        "ERROR <string>",
        "    Reply with the error <string>.",
        "HTSTATS <dbid> [full]",
        "    Statistics of the tables of a database.",
        "HTSTATS-KEY <key> [full]",
        "    Statistics of the table that is the value of <key>.",
        "IN-SYNC <epoch> <size> [<node>/<run> ...]",
        "    For tests: act as the primary of a group whose in-sync set has <size> members, and wait for",
        "    these. OFF: stop acting as primary. Without arguments: list the members that replies have",
        "    waited for too long.",
        "LISTPACK <key>",
        "    Log the layout of the packed list of <key>.",
        "LOADAOF",
        "    Discard all data and load the append-only file.",
        "LOG <message>",
        "    Write <message> to the log.",
        "MALLCTL <key> [<val>]",
        "    Read or set a numeric value of the allocator.",
        "MALLCTL-STR <key> [VOID]",
        "    Read a text value of the allocator, or with VOID start an action that takes no value.",
        "OBJECT <key>",
        "    Describe how the value of <key> is stored.",
        "PANIC",
        "    End the process at once.",
        "PAUSE-CRON <0|1>",
        "    Pause periodic work.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Make <count> strings named <prefix>:<number> (key:<number>).",
        "PROTOCOL <type>",
        "    Reply with a sample of <type>: string, integer, double, bignum, null, array, set, map,",
        "    attrib, push, verbatim, true, false.",
        "QUICKLIST <key> [<0|1>]",
        "    Log the layout of the blocks of the long list <key>.",
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "    Set the size in bytes from which a list element gets its own block; 0: the default.",
        "RELOCATE-ALL <0|1>",
        "    Let defragmentation move every value again and again.",
        "RELOAD [option ...]",
        "    Save to the dump file, remove everything and load it again. Options:",
        "    * MERGE: the file's keys replace existing ones.",
        "    * NOFLUSH: keep existing keys; without MERGE, a duplicate key is an error.",
        "    * NOSAVE: load the existing file.",
        "REPLYBUFFER PEAK-RESET-TIME <NEVER|RESET|time>",
        "    Set how long (ms) the peak of a reply buffer is remembered.",
        "REPLYBUFFER RESIZING <0|1>",
        "    Set whether reply buffers are resized.",
        "SDSLEN <key>",
        "    Lengths of <key> and of the string it holds.",
        "SEGFAULT",
        "    Crash the process with an access violation.",
        "SERVE-UNTIL <ms from now|NEVER|ALWAYS>",
        "    For tests: set until when the lease lets this server serve.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Set whether expired keys are removed in the background.",
        "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
        "    Set whether RESTORE accepts payloads with a wrong checksum.",
        "SLEEP <seconds>",
        "    Stop the server for a while. Decimals are allowed.",
        "STRINGMATCH-TEST",
        "    Try random patterns.",
    ])
}

#[cfg(test)]
mod tests;
