// SPDX-License-Identifier: BSD-3-Clause
//! Commands on Bloom filters, with Redis 8's replies: integers and arrays in RESP2, booleans and
//! maps in RESP3.

use crate::family::{Family, reply_bool};
use braid_base::number::parse_f64;
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_resp::reply::Protocol;
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::bloom::chunks::{HEADER, PIECE_MAX, from_header, header, load_piece, piece_after};
use braid_values::bloom::value::{
    Bloom, CAPACITY_DEFAULT, ERROR_DEFAULT, EXPANSION_DEFAULT, EXPANSION_MAX, Refusal,
};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const INSERT_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const READS: Flags = Flags::READONLY.and(Flags::FAST);

const ADD: Event = Event::generic("bloom.add");
const RESERVE: Event = Event::generic("bloom.reserve");

const NOT_FOUND: &str = "ERR not found";
const BAD_DATA: &str = "ERR received bad data";

const FAMILY: Family = Family::of_module(Category::BLOOM);

/// Rows of the Bloom filter commands.
pub const COMMANDS: &[Row] = &[
    FAMILY.row("bf.add", bf_add, GROWS, INSERT_ONE)
        .exactly(3)
        .docs("8.0.0", "Adds an item to a Bloom filter; creates the filter if it does not exist.", "O(k), where k is the number of hash functions used by the last sub-filter")
        .syntax("key:key#0 item:string"),
    FAMILY.row("bf.card", bf_card, READS, READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the cardinality of a Bloom filter.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("bf.exists", bf_exists, READS, READ_ONE)
        .exactly(3)
        .docs("8.0.0", "Returns whether an item may have been added to a Bloom filter.", "O(k), where k is the number of hash functions used by the last sub-filter")
        .syntax("key:key#0 item:string"),
    FAMILY.row("bf.info", bf_info, READS, READ_ONE)
        .at_least(2)
        .docs("8.0.0", "Returns the properties of a Bloom filter.", "O(1)")
        .syntax("key:key#0 [single-value:(CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION)]"),
    FAMILY.row("bf.insert", bf_insert, GROWS, INSERT_ONE)
        .at_least(4)
        .docs("8.0.0", "Adds items to a Bloom filter; creates the filter with given properties if it does \
                        not exist.", "O(k * n), where k is the number of hash functions and n is the number of items")
        .syntax("key:key#0 [CAPACITY capacity:integer] [ERROR error:double] [EXPANSION expansion:integer] [NOCREATE] [NONSCALING] ITEMS item:string..."),
    FAMILY.row("bf.loadchunk", bf_loadchunk, GROWS, INSERT_ONE)
        .exactly(4)
        .docs("8.0.0", "Restores a part of a Bloom filter returned by BF.SCANDUMP.", "O(n), where n is the capacity")
        .syntax("key:key#0 iterator:integer data:string"),
    FAMILY.row("bf.madd", bf_madd, GROWS, INSERT_ONE)
        .at_least(3)
        .docs("8.0.0", "Adds items to a Bloom filter; creates the filter if it does not exist.", "O(k * n), where k is the number of hash functions and n is the number of items")
        .syntax("key:key#0 item:string..."),
    FAMILY.row("bf.mexists", bf_mexists, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns which items may have been added to a Bloom filter.", "O(k * n), where k is the number of hash functions and n is the number of items")
        .syntax("key:key#0 item:string..."),
    FAMILY.row("bf.reserve", bf_reserve, GROWS, INSERT_ONE)
        .at_least(4)
        .docs("8.0.0", "Creates a Bloom filter with a given error rate and capacity.", "O(1)")
        .syntax("key:key#0 error_rate:double capacity:integer [EXPANSION expansion:integer] [NONSCALING]"),
    FAMILY.row("bf.scandump", bf_scandump, Flags::READONLY, READ_ONE)
        .exactly(3)
        .docs("8.0.0", "Returns the next part of a Bloom filter, for BF.LOADCHUNK.", "O(n), where n is the capacity")
        .syntax("key:key#0 iterator:integer"),
];

fn refused(refusal: Refusal) -> CommandError {
    CommandError::text(refusal.to_string())
}

/// What a request states of a new filter; the rest is as configured.
#[derive(Clone, Copy, Default)]
struct Plan {
    capacity: Option<u64>,
    error: Option<f64>,
    expansion: Option<u32>,
}

fn error_arg(call: &Call, index: usize) -> Result<f64, CommandError> {
    let error = parse_f64(call.args[index]).ok_or(CommandError::text("ERR bad error rate"))?;
    if error > 0.0 && error < 1.0 {
        Ok(error)
    } else {
        Err(CommandError::text("ERR (0 < error rate range < 1)"))
    }
}

fn capacity_arg(call: &Call, index: usize) -> Result<u64, CommandError> {
    match braid_base::number::parse_i64(call.args[index]) {
        Some(1..) => Ok(call.integer_arg(index)? as u64),
        Some(0) => Err(CommandError::text("ERR (capacity should be larger than 0)")),
        _ => Err(CommandError::text("ERR bad capacity")),
    }
}

/// Parses an expansion; 0 means a filter that does not scale.
fn expansion_arg(call: &Call, index: usize) -> Result<u32, CommandError> {
    braid_base::number::parse_i64(call.args[index])
        .and_then(|given| u32::try_from(given).ok())
        .filter(|&given| given <= EXPANSION_MAX)
        .ok_or(CommandError::text("ERR bad expansion"))
}

fn bf_reserve(call: &mut Call) -> CommandResult {
    let mut plan =
        Plan { error: Some(error_arg(call, 2)?), capacity: Some(capacity_arg(call, 3)?), expansion: None };
    let (mut expansion, mut is_fixed, mut at) = (None, false, 4);
    while at < call.args.len() {
        if call.arg_is(at, "nonscaling") {
            is_fixed = true;
        } else if call.arg_is(at, "expansion") && at + 1 < call.args.len() {
            at += 1;
            expansion = Some(expansion_arg(call, at)?);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if is_fixed && expansion.is_some_and(|expansion| expansion > 0) {
        return Err(CommandError::text("ERR Nonscaling filters cannot expand"));
    }
    plan.expansion = if is_fixed { Some(0) } else { expansion };
    let key = call.args[1];
    if call.keyspace.peek_as::<Bloom>(key)?.is_some() {
        return Err(CommandError::text("ERR item exists"));
    }
    make(call, key, plan)?;
    call.reply.ok();
    Ok(())
}

/// Creates a filter at a missing key. If its parameters depend on the configuration, which may be
/// another one on a replica or at the next start, it is journalled as BF.RESERVE: true then.
fn make(call: &mut Call, key: &[u8], plan: Plan) -> Result<bool, CommandError> {
    let config = &call.engine.config;
    let configured = || config.bf_error_rate().parse::<f64>().map_or(ERROR_DEFAULT, |rate| rate.min(0.25));
    let error = plan.error.unwrap_or_else(configured);
    let capacity = plan.capacity.unwrap_or_else(|| config.bf_initial_size());
    let expansion = plan.expansion.unwrap_or_else(|| config.bf_expansion_factor());
    let bloom = Bloom::new(capacity, error, expansion).map_err(refused)?;
    call.keyspace.set_object(RESERVE, key, Object::new(bloom), Expiry::Clear);
    let is_usual = error == plan.error.unwrap_or(ERROR_DEFAULT)
        && capacity == plan.capacity.unwrap_or(CAPACITY_DEFAULT)
        && expansion == plan.expansion.unwrap_or(EXPANSION_DEFAULT);
    if !is_usual {
        let numbers = [error.to_string(), capacity.to_string(), expansion.to_string()];
        let [error, capacity, expansion] = numbers.each_ref().map(|number| number.as_bytes());
        call.keyspace.journal_as(&[b"BF.RESERVE", key, error, capacity, b"EXPANSION", expansion]);
    }
    Ok(!is_usual)
}

/// Adds the arguments from `first` on to the filter at the key, which must exist; stops at the
/// first refused one.
fn add_all(call: &mut Call, first: usize) -> Result<Vec<Result<bool, Refusal>>, CommandError> {
    let (key, items) = (call.args[1], &call.args[first..]);
    let bloom = call.keyspace.write_as::<Bloom>(key)?.ok_or(CommandError::text(NOT_FOUND))?;
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        let outcome = bloom.add(item);
        outcomes.push(outcome);
        if outcome.is_err() {
            break;
        }
    }
    let added = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count() as u64;
    if added > 0 {
        call.keyspace.finish_change(ADD, key, added, false);
    }
    Ok(outcomes)
}

fn insert(call: &mut Call, first: usize, plan: Plan) -> Result<Vec<Result<bool, Refusal>>, CommandError> {
    let key = call.args[1];
    if call.keyspace.peek_as::<Bloom>(key)?.is_none() && make(call, key, plan)? {
        call.keyspace.journal_as(call.args);
    }
    add_all(call, first)
}

fn reply_outcomes(call: &mut Call, outcomes: &[Result<bool, Refusal>]) {
    call.reply.array(outcomes.len());
    for outcome in outcomes {
        match outcome {
            Ok(is_new) => reply_bool(call, *is_new),
            Err(refusal) => call.reply.error(&refusal.to_string()),
        }
    }
}

fn bf_add(call: &mut Call) -> CommandResult {
    let outcomes = insert(call, 2, Plan::default())?;
    reply_bool(call, outcomes[0].map_err(refused)?);
    Ok(())
}

fn bf_madd(call: &mut Call) -> CommandResult {
    let outcomes = insert(call, 2, Plan::default())?;
    reply_outcomes(call, &outcomes);
    Ok(())
}

fn bf_insert(call: &mut Call) -> CommandResult {
    let (mut plan, mut creates, mut is_sized, mut is_fixed, mut at) =
        (Plan::default(), true, false, false, 2);
    loop {
        if at + 1 >= call.args.len() {
            return Err(call.wrong_arity());
        }
        if call.arg_is(at, "items") {
            break;
        } else if call.arg_is(at, "nocreate") {
            creates = false;
        } else if call.arg_is(at, "nonscaling") {
            is_fixed = true;
        } else if call.arg_is(at, "capacity") {
            at += 1;
            (plan.capacity, is_sized) = (Some(capacity_arg(call, at)?), true);
        } else if call.arg_is(at, "error") {
            at += 1;
            (plan.error, is_sized) = (Some(error_arg(call, at)?), true);
        } else if call.arg_is(at, "expansion") {
            at += 1;
            plan.expansion = Some(expansion_arg(call, at)?);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if !creates && is_sized {
        return Err(CommandError::Syntax);
    }
    if is_fixed {
        plan.expansion = Some(0);
    }
    if !creates && call.keyspace.peek_as::<Bloom>(call.args[1])?.is_none() {
        return Err(CommandError::text(NOT_FOUND));
    }
    let outcomes = insert(call, at + 1, plan)?;
    reply_outcomes(call, &outcomes);
    Ok(())
}

fn bf_exists(call: &mut Call) -> CommandResult {
    let bloom = call.keyspace.read_as::<Bloom>(call.args[1])?;
    let found = bloom.is_some_and(|bloom| bloom.contains(call.args[2]));
    reply_bool(call, found);
    Ok(())
}

fn bf_mexists(call: &mut Call) -> CommandResult {
    let bloom = call.keyspace.read_as::<Bloom>(call.args[1])?;
    let contains = |item: &&[u8]| bloom.is_some_and(|bloom| bloom.contains(item));
    let found: Vec<bool> = call.args[2..].iter().map(contains).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|found| reply_bool(call, found));
    Ok(())
}

fn bf_card(call: &mut Call) -> CommandResult {
    let items = call.keyspace.read_as::<Bloom>(call.args[1])?.map_or(0, Bloom::items);
    call.reply.integer(items as i64);
    Ok(())
}

/// The properties in BF.INFO: selecting argument, name, and value. The expansion rate of a filter
/// that does not scale is nil.
fn properties(bloom: &Bloom) -> [(&'static str, &'static str, Option<i64>); 5] {
    let number = |value: u64| Some(i64::try_from(value).unwrap_or(i64::MAX));
    let bytes = bloom.memory_bytes() + size_of::<Bloom>();
    let expansion = Some(i64::from(bloom.expansion())).filter(|&expansion| expansion > 0);
    [
        ("capacity", "Capacity", number(bloom.capacity())),
        ("size", "Size", number(bytes as u64)),
        ("filters", "Number of filters", number(bloom.layers().len() as u64)),
        ("items", "Number of items inserted", number(bloom.items())),
        ("expansion", "Expansion rate", expansion),
    ]
}

fn bf_info(call: &mut Call) -> CommandResult {
    if call.args.len() > 3 {
        return Err(call.wrong_arity());
    }
    let bloom = call.keyspace.read_as::<Bloom>(call.args[1])?;
    let all = properties(bloom.ok_or(CommandError::text(NOT_FOUND))?);
    let reply_value = |call: &mut Call, value: Option<i64>| match value {
        Some(value) => call.reply.integer(value),
        None => call.reply.null(),
    };
    if call.args.len() == 3 {
        let asked = all.into_iter().find(|(word, ..)| call.arg_is(2, word));
        let (_, name, value) = asked.ok_or(CommandError::text("ERR Invalid information value"))?;
        if call.reply.protocol == Protocol::Resp3 {
            call.reply.map(1);
            call.reply.simple(name);
        } else {
            call.reply.array(1);
        }
        reply_value(call, value);
        return Ok(());
    }
    call.reply.map(all.len());
    for (_, name, value) in all {
        call.reply.simple(name);
        reply_value(call, value);
    }
    Ok(())
}

fn iterator_arg(call: &Call, index: usize) -> Result<u64, CommandError> {
    braid_base::number::parse_i64(call.args[index])
        .and_then(|given| u64::try_from(given).ok())
        .ok_or(CommandError::text("ERR Second argument must be numeric"))
}

fn bf_scandump(call: &mut Call) -> CommandResult {
    let iterator = iterator_arg(call, 2)?;
    let bloom = call.keyspace.read_as::<Bloom>(call.args[1])?;
    let bloom = bloom.ok_or(CommandError::text(NOT_FOUND))?;
    let piece = match iterator {
        0 => Some((HEADER, header(bloom))),
        _ => piece_after(bloom, iterator, PIECE_MAX),
    };
    let (next, bytes) = piece.unwrap_or_default();
    call.reply.array(2);
    call.reply.integer(next as i64);
    call.reply.bulk(&bytes);
    Ok(())
}

fn bf_loadchunk(call: &mut Call) -> CommandResult {
    let (key, data) = (call.args[1], call.args[3]);
    let iterator = iterator_arg(call, 2)?;
    if iterator == HEADER {
        call.keyspace.peek_as::<Bloom>(key)?;
        let bloom = from_header(data).ok_or(CommandError::text(BAD_DATA))?;
        call.keyspace.set_object(RESERVE, key, Object::new(bloom), Expiry::Keep);
    } else {
        let bloom = call.keyspace.write_as::<Bloom>(key)?;
        let bloom = bloom.ok_or(CommandError::text(BAD_DATA))?;
        if !load_piece(bloom, iterator, data) {
            return Err(CommandError::text(BAD_DATA));
        }
        call.keyspace.finish_change(ADD, key, 1, false);
    }
    call.reply.ok();
    Ok(())
}
