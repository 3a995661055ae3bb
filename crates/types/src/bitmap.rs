// SPDX-License-Identifier: BSD-3-Clause
//! Commands on strings as bitmaps: arguments, limits and replies. The algorithms are in
//! `braid_containers::bits`.
//!
//! A string never grows beyond `proto-max-bulk-len`: offsets are checked before any change.

use braid_base::number;
use braid_containers::bits::{self, FieldType, Operation, Overflow};
use braid_executor::{Call, Row};
use braid_keyspace::txn::StringRef;
use braid_keyspace::{Event, Expiry, Value};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};
use smallvec::SmallVec;

use crate::string::memory_size;

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const CHANGE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE);

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];

/// Rows of the bitmap commands.
pub const COMMANDS: &[Row] = &[
    Row::new("bitcount", Group::Bitmap, bitcount)
        .at_least(2)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("2.6.0", "Counts the bits that are set in a string or a part of it.", "O(N)")
        .syntax("key:key#0 [range:{start:integer [end-unit-block:{end:integer [unit:(BYTE|BIT)@7.0.0]}]}]")
        .history(&[("7.0.0", "Option `BYTE|BIT`."), ("8.0.0", "`end` is optional.")]),
    Row::new("bitfield", Group::Bitmap, bitfield)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[KeySpec::at(1, CHANGE.and(KeyFlags::VARIABLE_FLAGS))
            .notes("This command allows both access and modification of the key")])
        .exact_key_flags(key_flags)
        .docs(
            "3.2.0",
            "Reads and changes integers of any width within a string.",
            "O(1) for each subcommand specified",
        )
        .syntax(
            "key:key#0 [operation:(GET get-block:{encoding:string offset:integer}|\
             write:{[OVERFLOW overflow-block:(WRAP|SAT|FAIL)] \
             write-operation:(SET set-block:{encoding:string offset:integer value:integer}|\
             INCRBY incrby-block:{encoding:string offset:integer increment:integer})})...]",
        ),
    Row::new("bitfield_ro", Group::Bitmap, bitfield_ro)
        .at_least(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ_ONE)
        .docs("6.0.0", "Reads integers of any width within a string.", "O(1) for each subcommand specified")
        .syntax("key:key#0 [GET get-block:{encoding:string offset:integer}...TOKEN]"),
    Row::new("bitop", Group::Bitmap, bitop)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[KeySpec::at(2, KeyFlags::OW.and(KeyFlags::UPDATE)), KeySpec::range(3, -1, 1, READ)])
        .docs("2.6.0", "Combines strings bit by bit and stores the result.", "O(N)")
        .syntax("operation:(AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE) destkey:key#0 key:key#1...")
        .history(&[("8.2.0", "Operations `DIFF`, `DIFF1`, `ANDOR` and `ONE`.")]),
    Row::new("bitpos", Group::Bitmap, bitpos)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("2.8.7", "Finds the first bit that is set, or clear, in a string or a part of it.", "O(N)")
        .syntax(
            "key:key#0 bit:integer \
             [range:{start:integer [end-unit-block:{end:integer [unit:(BYTE|BIT)@7.0.0]}]}]",
        )
        .history(&[("7.0.0", "Option `BYTE|BIT`.")]),
    Row::new("bitrangeintarray", Group::Bitmap, bitrangeintarray)
        .at_least(4)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "8.12.0",
            "Returns the offsets of the bits that are set, or clear, in a part of a string.",
            "O(N)",
        )
        .syntax("key:key#0 start:integer end:integer [unit:(BYTE|BIT)] [LIMIT count:integer] [ZEROS]"),
    Row::new("getbit", Group::Bitmap, getbit)
        .exactly(3)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ_ONE)
        .docs("2.2.0", "Returns a bit of a string.", "O(1)")
        .syntax("key:key#0 offset:integer"),
    Row::new("setbit", Group::Bitmap, setbit)
        .exactly(4)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[KeySpec::at(1, CHANGE)])
        .docs("2.2.0", "Sets a bit of a string and returns its old value.", "O(1)")
        .syntax("key:key#0 offset:integer value:integer"),
];

/// Parses a bit offset: not negative, with its byte within `proto-max-bulk-len`. With `field`, an
/// offset after `#` counts fields.
fn bit_offset(call: &Call, index: usize, field: Option<FieldType>) -> Result<u64, CommandError> {
    let text = call.args[index];
    let (text, scale) = match (field, text.strip_prefix(b"#")) {
        (Some(field), Some(rest)) => (rest, i64::from(field.width())),
        _ => (text, 1),
    };
    number::parse_i64(text)
        .and_then(|offset| offset.checked_mul(scale))
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < call.engine.config.proto_max_bulk_len())
        .ok_or(CommandError::text("ERR bit offset is not an integer or out of range"))
}

fn setbit(call: &mut Call) -> CommandResult {
    let offset = bit_offset(call, 2, None)?;
    let bit = match call.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(CommandError::text("ERR bit is not an integer or out of range")),
    };
    let len = memory_size(bits::bytes_for_bit(offset))?;
    let old = call.keyspace.edit_string(Event::string("setbit"), call.args[1], len, |bytes, old_len| {
        let old = bits::set(bytes, offset, bit);
        let changed = old != bit || bytes.len() != old_len;
        (old, u64::from(changed))
    })?;
    call.reply.integer(i64::from(old));
    Ok(())
}

fn getbit(call: &mut Call) -> CommandResult {
    let offset = bit_offset(call, 2, None)?;
    let value = call.keyspace.string(call.args[1])?;
    let bit = value.is_some_and(|value| bits::get(value.bytes(&mut [0; 20]), offset));
    call.reply.integer(i64::from(bit));
    Ok(())
}

/// True for a range in bits, false for one in bytes.
fn unit_is_bit(call: &Call, index: usize) -> Result<bool, CommandError> {
    match (call.arg_is(index, "BIT"), call.arg_is(index, "BYTE")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

fn bitcount(call: &mut Call) -> CommandResult {
    let mut scratch = [0; 20];
    // As in Redis 7.2, a missing key is answered before the other arguments are checked.
    let Some(value) = call.keyspace.string(call.args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let bytes = value.bytes(&mut scratch);
    let count = match call.args.len() {
        2 => bits::count_ones(bytes),
        3..=5 => {
            let start = call.integer_arg(2)?;
            let end = if call.args.len() == 3 { -1 } else { call.integer_arg(3)? };
            let backward = bits::is_backward(start, end);
            let in_bits = !backward && call.args.len() == 5 && unit_is_bit(call, 4)?;
            let units = bytes.len() as u64 * if in_bits { 8 } else { 1 };
            match bits::normalize_range(start, end, units).filter(|_| !backward) {
                None => 0,
                Some(range) if in_bits => bits::count_ones_in_bit_range(bytes, range),
                Some(range) => bits::count_ones_in_byte_range(bytes, range),
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    call.reply.integer(count as i64);
    Ok(())
}

fn bitpos(call: &mut Call) -> CommandResult {
    let bit = match call.integer_arg(2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::text("ERR The bit argument must be 1 or 0.")),
    };
    let mut scratch = [0; 20];
    let Some(value) = call.keyspace.string(call.args[1])? else {
        // A missing key counts as an endless run of zeros.
        call.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let bytes = value.bytes(&mut scratch);
    let (mut start, mut end, mut in_bits) = (0, -1, false);
    match call.args.len() {
        3 => {}
        count @ 4..=6 => {
            start = call.integer_arg(3)?;
            if count == 6 {
                in_bits = unit_is_bit(call, 5)?;
            }
            if count > 4 {
                end = call.integer_arg(4)?;
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    let units = bytes.len() as u64 * if in_bits { 8 } else { 1 };
    let found = bits::normalize_range(start, end, units).and_then(|range| {
        let range = if in_bits { range } else { bits::to_bits(range) };
        // Without an explicit end, the string is treated as followed by zeros.
        let behind = (!bit && call.args.len() < 5).then_some(bytes.len() as u64 * 8);
        bits::position(bytes, bit, range).or(behind)
    });
    call.reply.integer(found.map_or(-1, |position| position as i64));
    Ok(())
}

/// The options of BITRANGEINTARRAY, in any order.
struct Offsets {
    in_bits: bool,
    bit: bool,
    most: u64,
}

fn offsets_options(call: &Call) -> Result<Offsets, CommandError> {
    let mut options = Offsets { in_bits: false, bit: true, most: u64::MAX };
    let (mut index, mut has_unit) = (4, false);
    while index < call.args.len() {
        if call.arg_is(index, "LIMIT") && options.most == u64::MAX && index + 1 < call.args.len() {
            index += 1;
            let count = u64::try_from(call.integer_arg(index)?);
            options.most = count
                .ok()
                .filter(|&count| count > 0)
                .ok_or(CommandError::text("ERR value is out of range, must be positive"))?;
        } else if call.arg_is(index, "ZEROS") && options.bit {
            options.bit = false;
        } else if has_unit {
            return Err(CommandError::Syntax);
        } else {
            options.in_bits = unit_is_bit(call, index)?;
            has_unit = true;
        }
        index += 1;
    }
    Ok(options)
}

fn bitrangeintarray(call: &mut Call) -> CommandResult {
    let (start, end) = (call.integer_arg(2)?, call.integer_arg(3)?);
    let Offsets { in_bits, bit, most } = offsets_options(call)?;
    let mut scratch = [0; 20];
    let value = call.keyspace.string(call.args[1])?;
    let bytes = value.map_or(&b""[..], |value| value.bytes(&mut scratch));
    let units = bytes.len() as u64 * if in_bits { 8 } else { 1 };
    let range = bits::normalize_range(start, end, units).filter(|_| !bits::is_backward(start, end));
    let Some(range) = range.map(|range| if in_bits { range } else { bits::to_bits(range) }) else {
        call.reply.array(0);
        return Ok(());
    };
    let ones = bits::count_ones_in_bit_range(bytes, range.clone());
    let found = if bit { ones } else { range.end() - range.start() + 1 - ones };
    let reply = &mut *call.reply;
    reply.array(found.min(most) as usize);
    bits::each_offset(bytes, bit, range, most, |offset| reply.integer(offset as i64));
    Ok(())
}

fn bitop(call: &mut Call) -> CommandResult {
    let operations = [
        ("AND", Operation::And),
        ("OR", Operation::Or),
        ("XOR", Operation::Xor),
        ("NOT", Operation::Not),
        ("DIFF", Operation::Diff),
        ("DIFF1", Operation::Diff1),
        ("ANDOR", Operation::AndOr),
        ("ONE", Operation::One),
    ];
    let named = operations.iter().find(|(name, _)| call.arg_is(1, name));
    let &(name, operation) = named.ok_or(CommandError::Syntax)?;
    let (target, sources) = (call.args[2], &call.args[3..]);
    match operation {
        Operation::Not if sources.len() != 1 => {
            return Err(CommandError::text("ERR BITOP NOT must be called with a single source key."));
        }
        Operation::Diff | Operation::Diff1 | Operation::AndOr if sources.len() < 2 => {
            let text = format!("ERR BITOP {name} must be called with at least two source keys.");
            return Err(CommandError::text(text));
        }
        _ => {}
    }
    let result = combine(call, operation, sources)?;
    if result.is_empty() {
        call.keyspace.delete(target);
    } else {
        call.keyspace.set_as(Event::string("set"), target, Value::plain(&result, true), Expiry::Clear);
    }
    call.reply.integer(result.len() as i64);
    Ok(())
}

/// Combines the strings at these keys.
fn combine(call: &Call, operation: Operation, keys: &[&[u8]]) -> Result<Vec<u8>, CommandError> {
    let mut values = SmallVec::<[StringRef<'_>; 8]>::new();
    for key in keys {
        values.push(call.keyspace.string(key)?.unwrap_or(StringRef::Bytes(b"")));
    }
    let mut scratch: SmallVec<[[u8; 20]; 8]> = values.iter().map(|_| [0; 20]).collect();
    let texts: SmallVec<[&[u8]; 8]> =
        values.iter().zip(&mut scratch).map(|(value, scratch)| value.bytes(scratch)).collect();
    Ok(bits::operate(operation, &texts))
}

/// One step of BITFIELD.
struct Step {
    action: Action,
    field: FieldType,
    offset: u64,
    overflow: Overflow,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

type Steps = SmallVec<[Step; 4]>;

fn parse_steps(call: &Call) -> Result<Steps, CommandError> {
    let mut steps = Steps::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < call.args.len() {
        let behind = call.args.len() - index - 1;
        if call.arg_is(index, "OVERFLOW") && behind >= 1 {
            overflow = match () {
                () if call.arg_is(index + 1, "WRAP") => Overflow::Wrap,
                () if call.arg_is(index + 1, "SAT") => Overflow::Saturate,
                () if call.arg_is(index + 1, "FAIL") => Overflow::Fail,
                () => return Err(CommandError::text("ERR Invalid OVERFLOW type specified")),
            };
            index += 2;
            continue;
        }
        let gets = call.arg_is(index, "GET") && behind >= 2;
        let sets = call.arg_is(index, "SET") && behind >= 3;
        let adds = call.arg_is(index, "INCRBY") && behind >= 3;
        if !(gets || sets || adds) {
            return Err(CommandError::Syntax);
        }
        let field = FieldType::parse(call.args[index + 1]).ok_or(CommandError::text(
            "ERR Invalid bitfield type. Use something like i16 u8. \
             Note that u64 is not supported but i64 is.",
        ))?;
        let offset = bit_offset(call, index + 2, Some(field))?;
        let action = if gets {
            Action::Get
        } else {
            let number = call.integer_arg(index + 3)?;
            if sets { Action::Set(number) } else { Action::Add(number) }
        };
        steps.push(Step { action, field, offset, overflow });
        index += if gets { 3 } else { 4 };
    }
    Ok(steps)
}

/// BITFIELD is read-only if all its operations are.
fn key_flags(args: &[&[u8]]) -> KeyFlags {
    let is = |arg: &[u8], word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
    let mut rest = &args[2..];
    // Skips each operation with its arguments; all but GET count as writes.
    while let [operation, ..] = rest {
        let skip = match () {
            () if is(operation, "get") => 3,
            () if is(operation, "overflow") => 2,
            () => return CHANGE,
        };
        match rest.get(skip..) {
            Some(after) => rest = after,
            None => return CHANGE,
        }
    }
    READ
}

fn bitfield(call: &mut Call) -> CommandResult {
    let steps = parse_steps(call)?;
    let written = steps.iter().filter(|step| step.action != Action::Get);
    let Some(len) = written.map(|step| bits::bytes_for_field(step.offset, step.field.width())).max() else {
        return read_fields(call, &steps);
    };
    let reply = &mut *call.reply;
    call.keyspace.edit_string(
        Event::string("setbit"),
        call.args[1],
        memory_size(len)?,
        |bytes, old_len| {
            reply.array(steps.len());
            let grown = bytes.len() != old_len;
            let mut changes = 0;
            for &Step { action, field, offset, overflow } in &steps {
                let before = bits::field_get(bytes, field, offset);
                let answer = match action {
                    Action::Get => Some(before),
                    Action::Set(value) => bits::field_set(bytes, field, offset, value, overflow),
                    Action::Add(by) => bits::field_increment(bytes, field, offset, by, overflow),
                };
                match answer {
                    Some(answer) => reply.integer(answer),
                    None => reply.null(),
                }
                let wrote = action != Action::Get && answer.is_some();
                if wrote && (grown || bits::field_get(bytes, field, offset) != before) {
                    changes += 1;
                }
            }
            // The string has grown even if every step failed. Stock servers do not replicate that
            // growth, so their replicas and append-only files lack it.
            ((), changes.max(u64::from(grown)))
        },
    )?;
    Ok(())
}

fn bitfield_ro(call: &mut Call) -> CommandResult {
    let steps = parse_steps(call)?;
    if steps.iter().any(|step| step.action != Action::Get) {
        return Err(CommandError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_fields(call, &steps)
}

fn read_fields(call: &mut Call, steps: &[Step]) -> CommandResult {
    let value = call.keyspace.string(call.args[1])?;
    let mut scratch = [0; 20];
    let bytes = value.map_or(&b""[..], |value| value.bytes(&mut scratch));
    call.reply.array(steps.len());
    for step in steps {
        call.reply.integer(bits::field_get(bytes, step.field, step.offset));
    }
    Ok(())
}
