// SPDX-License-Identifier: BSD-3-Clause
//! Commands on HyperLogLogs, which are strings in a special format
//! (`braid_containers::hyperloglog`).
//!
//! Flow: a value is copied from the keyspace, changed and stored again, so that a refused change
//! leaves no trace. Clients may have written arbitrary bytes to the string: every body handles the
//! errors of `hyperloglog::check` and its relatives.

use braid_base::blob::Blob;
use braid_containers::hyperloglog::{self as hll, Encoding, HllError, Registers};
use braid_executor::{Call, Row};
use braid_keyspace::entry::EMBEDDED_MAX;
use braid_keyspace::{Event, Expiry, Txn, Value};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};

/// Rows of the HyperLogLog commands.
pub const COMMANDS: &[Row] = &[
    Row::new("pfadd", Group::HyperLogLog, pfadd)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))])
        .docs(
            "2.8.9",
            "Adds elements to a HyperLogLog; creates the key if it does not exist.",
            "O(1) to add every element.",
        )
        .syntax("key:key#0 [element:string...]"),
    Row::new("pfcount", Group::HyperLogLog, pfcount)
        .at_least(2)
        .flags(Flags::READONLY.and(Flags::MAY_REPLICATE))
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RW.and(KeyFlags::ACCESS)).notes(
            "RW because it may change the internal representation of the key, and propagate to replicas",
        )])
        .docs(
            "2.8.9",
            "Estimates how many different elements the HyperLogLogs of one or more keys have seen.",
            "O(1) with a very small average constant time when called with a single key. O(N) with N \
             being the number of keys, and much bigger constant times, when called with multiple keys.",
        )
        .syntax("key:key#0..."),
    Row::new("pfdebug", Group::HyperLogLog, pfdebug)
        .exactly(3)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::ADMIN))
        .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::ACCESS))])
        .docs("2.8.9", "Shows the internals of a HyperLogLog.", "N/A")
        .syntax("subcommand:string key:key#0"),
    Row::new("pfmerge", Group::HyperLogLog, pfmerge)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[
            KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::INSERT)),
            KeySpec::range(2, -1, 1, KeyFlags::RO.and(KeyFlags::ACCESS)),
        ])
        .docs(
            "2.8.9",
            "Merges HyperLogLogs into one key.",
            "O(N) to merge N HyperLogLogs, but with high constant times.",
        )
        .syntax("destkey:key#0 [sourcekey:key#1...]"),
    Row::new("pfselftest", Group::HyperLogLog, pfselftest).exactly(1).flags(Flags::ADMIN).docs(
        "2.8.9",
        "Checks the HyperLogLog code.",
        "N/A",
    ),
];

fn refused(error: HllError) -> CommandError {
    CommandError::text(error.to_string())
}

const PFADD: Event = Event::string("pfadd");
/// No event: a count that stores its cached result sends none, nor does another encoding.
const UNTOLD: Event = Event { class: 0, name: "" };

/// Stores a changed HyperLogLog at its key.
fn store(keyspace: &mut Txn<'_>, event: Event, key: &[u8], value: &[u8]) {
    let value = if value.len() <= EMBEDDED_MAX {
        Value::Bytes { bytes: value, raw: true }
    } else {
        Value::Blob(Blob::from_slice(value))
    };
    keyspace.update(event, key, value, Expiry::Keep);
}

/// A copy of the HyperLogLog at a key that is about to change.
fn take(keyspace: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(string) = keyspace.string_for_change(key)? else { return Ok(None) };
    let mut scratch = [0; 20];
    let bytes = string.bytes(&mut scratch);
    hll::check(bytes).map_err(refused)?;
    Ok(Some(bytes.to_vec()))
}

fn pfadd(call: &mut Call) -> CommandResult {
    let args = call.args;
    if let Some(string) = call.keyspace.string_for_change(args[1])?
        && hll::check(string.bytes(&mut [0; 20])) == Ok(Encoding::Dense)
    {
        let changed = call.keyspace.edit_string(PFADD, args[1], 0, |value, _| {
            let changes = args[2..].iter().filter(|element| hll::add_dense(value, element)).count();
            (changes > 0, changes as u64)
        })?;
        return reply_counted(call, changed);
    }
    let sparse_len_max = call.engine.config.hll_sparse_max_bytes();
    // A new key is a change of its own.
    let (mut value, mut changes) = match take(call.keyspace, args[1])? {
        Some(value) => (value, 0),
        None => (hll::create(), 1),
    };
    for element in &args[2..] {
        changes += u64::from(hll::add(&mut value, element, sparse_len_max).map_err(refused)?);
    }
    if changes > 0 {
        hll::invalidate_cache(&mut value);
        store(call.keyspace, PFADD, args[1], &value);
        call.keyspace.count_changes(changes - 1);
    }
    reply_counted(call, changes > 0)
}

fn reply_counted(call: &mut Call, changed: bool) -> CommandResult {
    if !changed && call.args.len() > 2 {
        call.keyspace.journal_addition();
    }
    call.reply.integer(i64::from(changed));
    Ok(())
}

fn pfcount(call: &mut Call) -> CommandResult {
    let keys = &call.args[1..];
    let mut scratch = [0; 20];
    if let [key] = keys {
        let Some(string) = call.keyspace.string(key)? else {
            call.reply.integer(0);
            return Ok(());
        };
        let bytes = string.bytes(&mut scratch);
        hll::check(bytes).map_err(refused)?;
        let count = match hll::cached_count(bytes) {
            Some(count) => count,
            None => {
                let count = hll::count(bytes).map_err(refused)?;
                call.keyspace.edit_string(UNTOLD, key, 0, |bytes, _| {
                    hll::store_count(bytes, count);
                    ((), 1)
                })?;
                count
            }
        };
        call.reply.integer(count as i64);
        return Ok(());
    }
    let mut registers = Registers::default();
    for key in keys {
        if let Some(string) = call.keyspace.string(key)? {
            registers.merge(string.bytes(&mut scratch)).map_err(refused)?;
        }
    }
    call.reply.integer(registers.count() as i64);
    Ok(())
}

fn pfmerge(call: &mut Call) -> CommandResult {
    let keys = &call.args[1..];
    let mut registers = Registers::default();
    let mut dense = false;
    let mut scratch = [0; 20];
    for key in keys {
        if let Some(string) = call.keyspace.string(key)? {
            dense |= registers.merge(string.bytes(&mut scratch)).map_err(refused)? == Encoding::Dense;
        }
    }
    let mut target = take(call.keyspace, keys[0])?.unwrap_or_else(hll::create);
    let sparse_len_max = call.engine.config.hll_sparse_max_bytes();
    registers.store(&mut target, dense, sparse_len_max).map_err(refused)?;
    store(call.keyspace, PFADD, keys[0], &target);
    call.reply.ok();
    Ok(())
}

fn pfdebug(call: &mut Call) -> CommandResult {
    let key = call.args[2];
    let Some(mut value) = take(call.keyspace, key)? else {
        return Err(CommandError::text("ERR The specified key does not exist"));
    };
    match call.args[1].to_ascii_lowercase().as_slice() {
        b"getreg" => {
            // Reading registers is a visible change: the value becomes dense.
            if hll::to_dense(&mut value).map_err(refused)? {
                store(call.keyspace, UNTOLD, key, &value);
            }
            let mut registers = Registers::default();
            registers.merge(&value).map_err(refused)?;
            call.reply.array(hll::REGISTERS);
            registers.as_slice().iter().for_each(|&register| call.reply.integer(i64::from(register)));
        }
        b"decode" => match hll::describe(&value) {
            Some(text) => call.reply.bulk(text.as_bytes()),
            None => return Err(CommandError::text("ERR HLL encoding is not sparse")),
        },
        b"encoding" => {
            let encoding = hll::check(&value).map_err(refused)?;
            call.reply.simple(encoding.name());
        }
        b"todense" => {
            let changed = hll::to_dense(&mut value).map_err(refused)?;
            if changed {
                store(call.keyspace, UNTOLD, key, &value);
            }
            call.reply.integer(i64::from(changed));
        }
        _ => return Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand '", call.args[1], "'")),
    }
    Ok(())
}

/// Number of elements that PFSELFTEST adds.
const TESTED: u64 = 1_000_000;

fn pfselftest(call: &mut Call) -> CommandResult {
    let sparse_len_max = call.engine.config.hll_sparse_max_bytes();
    let seed = call.keyspace.context.random.u64(..);
    self_test(seed, sparse_len_max).map_err(CommandError::text)?;
    call.reply.ok();
    Ok(())
}

/// Adds distinct elements to a dense and a sparse value: both must agree, and the estimate must be
/// close.
fn self_test(seed: u64, sparse_len_max: usize) -> Result<(), String> {
    let failed = |error: HllError| format!("TESTFAILED {error}");
    let (mut sparse, mut dense) = (hll::create(), hll::create());
    hll::to_dense(&mut dense).map_err(failed)?;
    let mut checkpoint = 1;
    for number in 1..=TESTED {
        let element = (number ^ seed).to_le_bytes();
        let changed = hll::add(&mut dense, &element, sparse_len_max).map_err(failed)?;
        if hll::add(&mut sparse, &element, sparse_len_max).map_err(failed)? != changed {
            return Err("TESTFAILED dense/sparse disagree".to_owned());
        }
        if number != checkpoint {
            continue;
        }
        if number < sparse_len_max as u64 / 2 && hll::check(&sparse) != Ok(Encoding::Sparse) {
            return Err("TESTFAILED sparse encoding not used".to_owned());
        }
        let count = hll::count(&dense).map_err(failed)?;
        if hll::count(&sparse) != Ok(count) {
            return Err("TESTFAILED dense/sparse disagree".to_owned());
        }
        // Six standard errors; with ten elements a single collision exceeds that.
        let standard_error = 1.04 / (hll::REGISTERS as f64).sqrt();
        let error_max = if number == 10 { 1.0 } else { (standard_error * 6.0 * number as f64).ceil() };
        if count.abs_diff(number) as f64 > error_max {
            return Err(format!("TESTFAILED Too big error. card:{number} abserr:{}", count.abs_diff(number)));
        }
        checkpoint *= 10;
    }
    Ok(())
}
