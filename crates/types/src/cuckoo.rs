// SPDX-License-Identifier: BSD-3-Clause
//! Commands on cuckoo filters, with the replies and messages of Redis Stack 7.4.

use crate::family::{Family, reply_bool};
use braid_base::number::parse_i64;
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_resp::reply::Protocol;
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::cuckoo::chunks::{HEADER, PIECE_MAX, from_header, header, load_piece, piece_after};
use braid_values::cuckoo::value::{
    BUCKET_DEFAULT, BUCKET_MAX, CAPACITY_DEFAULT, Cuckoo, EXPANSION_DEFAULT, EXPANSION_MAX,
    ITERATIONS_DEFAULT, ItemHash, Refusal, Shape,
};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const INSERT_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const DELETE_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))];
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const READS: Flags = Flags::READONLY.and(Flags::FAST);

/// Stock servers report no events of filters but those of keys.
const SILENT: Event = Event { class: 0, name: "cf" };

const NOT_FOUND: &str = "ERR not found";
const EXISTS: &str = "ERR item exists";
const POSITION: &str = "Invalid position";

const FAMILY: Family = Family::of_module(Category::CUCKOO);

/// Rows of the cuckoo filter commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("cf.add", add, GROWS, INSERT_ONE)
        .exactly(3)
        .docs("8.0.0", "Adds an item to a cuckoo filter; creates the filter if it does not exist.", "O(k + i), where k is the number of sub-filters and i is maxIterations")
        .syntax("key:key#0 item:string"),
    FAMILY.row("cf.addnx", add_new, GROWS, INSERT_ONE)
        .exactly(3)
        .docs("8.0.0", "Adds an item to a cuckoo filter if it is not there; creates the filter if it does not exist.", "O(k + i), where k is the number of sub-filters and i is maxIterations")
        .syntax("key:key#0 item:string"),
    FAMILY.row("cf.compact", compact, Flags::WRITE, DELETE_ONE)
        .exactly(2)
        .docs("8.0.0", "Moves the items of later sub-filters into free places of earlier ones.", "O(n), where n is the capacity")
        .syntax("key:key#0"),
    FAMILY.row("cf.count", count, READS, READ_ONE)
        .exactly(3)
        .docs("8.0.0", "Returns how often an item may be in a cuckoo filter.", "O(k), where k is the number of sub-filters")
        .syntax("key:key#0 item:string"),
    FAMILY.row("cf.debug", debug, READS, READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the properties of a cuckoo filter as a text.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("cf.del", del, Flags::WRITE.and(Flags::FAST), DELETE_ONE)
        .exactly(3)
        .docs("8.0.0", "Deletes an item from a cuckoo filter, once.", "O(k), where k is the number of sub-filters")
        .syntax("key:key#0 item:string"),
    FAMILY.row("cf.exists", exists, READS, READ_ONE)
        .exactly(3)
        .docs("8.0.0", "Returns whether an item may be in a cuckoo filter.", "O(k), where k is the number of sub-filters")
        .syntax("key:key#0 item:string"),
    FAMILY.row("cf.info", info, READS, READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the properties of a cuckoo filter.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("cf.insert", insert, GROWS, INSERT_ONE)
        .at_least(4)
        .docs("8.0.0", "Adds items to a cuckoo filter; creates the filter if it does not exist.", "O(n * (k + i)), where n is the number of items, k is the number of sub-filters and i is maxIterations")
        .syntax("key:key#0 [CAPACITY capacity:integer] [NOCREATE] ITEMS item:string..."),
    FAMILY.row("cf.insertnx", insert_new, GROWS, INSERT_ONE)
        .at_least(4)
        .docs("8.0.0", "Adds items to a cuckoo filter that are not there; creates the filter if it does not exist.", "O(n * (k + i)), where n is the number of items, k is the number of sub-filters and i is maxIterations")
        .syntax("key:key#0 [CAPACITY capacity:integer] [NOCREATE] ITEMS item:string..."),
    FAMILY.row("cf.loadchunk", load_chunk, GROWS, INSERT_ONE)
        .exactly(4)
        .docs("8.0.0", "Restores a part of a cuckoo filter returned by CF.SCANDUMP.", "O(n), where n is the capacity")
        .syntax("key:key#0 iterator:integer data:string"),
    FAMILY.row("cf.mexists", mexists, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns which items may be in a cuckoo filter.", "O(k * n), where k is the number of sub-filters and n is the number of items")
        .syntax("key:key#0 item:string..."),
    FAMILY.row("cf.reserve", reserve, GROWS, INSERT_ONE)
        .at_least(3)
        .docs("8.0.0", "Creates an empty cuckoo filter.", "O(1)")
        .syntax("key:key#0 capacity:integer [BUCKETSIZE bucketsize:integer] [MAXITERATIONS maxiterations:integer] [EXPANSION expansion:integer]"),
    FAMILY.row("cf.scandump", scan_dump, Flags::READONLY, READ_ONE)
        .exactly(3)
        .docs("8.0.0", "Returns the next part of a cuckoo filter, for CF.LOADCHUNK.", "O(n), where n is the capacity")
        .syntax("key:key#0 iterator:integer"),
];

fn refused(refusal: Refusal) -> CommandError {
    CommandError::text(refusal.to_string())
}

/// An option's number in a range.
fn option(call: &Call, at: usize, word: &str, least: i64, most: u16) -> Result<u16, CommandError> {
    let number =
        parse_i64(call.args[at]).ok_or_else(|| CommandError::text(format!("Couldn't parse {word}")))?;
    if (least..=i64::from(most)).contains(&number) {
        return Ok(number as u16);
    }
    Err(CommandError::text(format!(
        "{word}: value must be an integer between {least} and {most}, inclusive."
    )))
}

fn capacity_arg(call: &Call, index: usize) -> Result<i64, CommandError> {
    parse_i64(call.args[index]).ok_or(CommandError::text("Bad capacity"))
}

fn shape(capacity: i64, bucket: u16, iterations: u16, expansion: u16) -> Result<Shape, CommandError> {
    if capacity < 2 * i64::from(bucket) {
        return Err(CommandError::text("Capacity must be at least (BucketSize * 2)"));
    }
    let shape = Shape::for_capacity(capacity as u64, bucket, iterations, expansion);
    shape.ok_or_else(|| refused(Refusal::TooLarge))
}

/// The parameters of a new filter; those that a request does not state are as configured.
#[derive(Clone, Copy, PartialEq)]
struct Plan {
    capacity: i64,
    bucket: u16,
    iterations: u16,
    expansion: u16,
}

impl Plan {
    const USUAL: Plan = Plan {
        capacity: CAPACITY_DEFAULT as i64,
        bucket: BUCKET_DEFAULT,
        iterations: ITERATIONS_DEFAULT,
        expansion: EXPANSION_DEFAULT,
    };

    fn configured(call: &Call) -> Plan {
        let config = &call.engine.config;
        Plan {
            capacity: i64::try_from(config.cf_initial_size()).unwrap_or(i64::MAX),
            bucket: config.cf_bucket_size(),
            iterations: config.cf_max_iterations(),
            expansion: config.cf_expansion_factor(),
        }
    }

    fn shape(self) -> Result<Shape, CommandError> {
        shape(self.capacity, self.bucket, self.iterations, self.expansion)
    }

    /// Creates a filter at the missing key. If the configuration, which may be another one on a
    /// replica or at the next start, is not the usual one, it is journalled as CF.RESERVE with all
    /// parameters: true then.
    fn make(self, call: &mut Call) -> Result<bool, CommandError> {
        let filter = Cuckoo::new(self.shape()?).map_err(refused)?;
        let key = call.args[1];
        call.keyspace.set_object(SILENT, key, Object::new(filter), Expiry::Clear);
        let is_usual = Plan::configured(call) == Plan::USUAL;
        if !is_usual {
            let numbers = [self.bucket, self.iterations, self.expansion].map(|number| number.to_string());
            let [bucket, iterations, expansion] = numbers.each_ref().map(|number| number.as_bytes());
            let capacity = self.capacity.to_string();
            let capacity = capacity.as_bytes();
            let (sizes, moves) = ([&b"BUCKETSIZE"[..], bucket], [&b"MAXITERATIONS"[..], iterations]);
            let request = [&b"CF.RESERVE"[..], key, capacity, sizes[0], sizes[1], moves[0], moves[1]];
            call.keyspace.journal_as(&[&request[..], &[b"EXPANSION", expansion]].concat());
        }
        Ok(!is_usual)
    }
}

fn reserve(call: &mut Call) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let mut plan = Plan { capacity: capacity_arg(call, 2)?, ..Plan::configured(call) };
    // Redis ignores words that it does not know.
    for at in (3..call.args.len()).step_by(2) {
        if call.arg_is(at, "bucketsize") {
            plan.bucket = option(call, at + 1, "BUCKETSIZE", 1, BUCKET_MAX)?;
        } else if call.arg_is(at, "maxiterations") {
            plan.iterations = option(call, at + 1, "MAXITERATIONS", 1, u16::MAX)?;
        } else if call.arg_is(at, "expansion") {
            plan.expansion = option(call, at + 1, "EXPANSION", 0, EXPANSION_MAX)?;
        }
    }
    plan.shape()?;
    if call.keyspace.peek_as::<Cuckoo>(call.args[1])?.is_some() {
        return Err(CommandError::text(EXISTS));
    }
    plan.make(call)?;
    call.reply.ok();
    Ok(())
}

/// Adds the arguments from `first` on to the filter at the key, which is made if it is missing.
/// False for an item that is there already, if only new ones are to be added.
fn add_all(
    call: &mut Call,
    first: usize,
    plan: Plan,
    only_new: bool,
) -> Result<Vec<Result<bool, Refusal>>, CommandError> {
    let key = call.args[1];
    if call.keyspace.peek_as::<Cuckoo>(key)?.is_none() && plan.make(call)? {
        call.keyspace.journal_as(call.args);
    }
    let filter = call.keyspace.write_as::<Cuckoo>(key)?.ok_or(CommandError::text(NOT_FOUND))?;
    if filter.has_ended() {
        return Err(refused(Refusal::Expansions));
    }
    let put = |item: &&[u8]| {
        let item = ItemHash::of(item);
        if only_new && filter.contains(item) { Ok(false) } else { filter.add(item).map(|()| true) }
    };
    let outcomes: Vec<_> = call.args[first..].iter().map(put).collect();
    let added = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count() as u64;
    if added > 0 {
        call.keyspace.finish_change(SILENT, key, added, false);
    }
    Ok(outcomes)
}

fn add_one(call: &mut Call, only_new: bool) -> CommandResult {
    let plan = Plan::configured(call);
    let outcome = add_all(call, 2, plan, only_new)?[0].map_err(refused)?;
    reply_bool(call, outcome);
    Ok(())
}

fn add(call: &mut Call) -> CommandResult {
    add_one(call, false)
}

fn add_new(call: &mut Call) -> CommandResult {
    add_one(call, true)
}

fn insert_all(call: &mut Call, only_new: bool) -> CommandResult {
    let (mut plan, mut creates, mut at) = (Plan::configured(call), true, 2);
    while !call.arg_is(at, "items") {
        if call.arg_is(at, "nocreate") {
            creates = false;
        } else if call.arg_is(at, "capacity") && at + 1 < call.args.len() {
            at += 1;
            plan.capacity = capacity_arg(call, at)?;
        } else {
            return Err(CommandError::text("Unknown argument received"));
        }
        at += 1;
        if at >= call.args.len() {
            return Err(call.wrong_arity());
        }
    }
    if at + 1 >= call.args.len() {
        return Err(call.wrong_arity());
    }
    plan.shape()?;
    if !creates && call.keyspace.peek_as::<Cuckoo>(call.args[1])?.is_none() {
        return Err(CommandError::text(NOT_FOUND));
    }
    let outcomes = add_all(call, at + 1, plan, only_new)?;
    // The items before the one that found no room stay.
    if let Some(refusal) = outcomes.iter().find_map(|outcome| outcome.err()).filter(|it| *it != Refusal::Full)
    {
        return Err(refused(refusal));
    }
    call.reply.array(outcomes.len());
    // As in Redis: CF.INSERTNX replies with integers in both protocols, and CF.INSERT cannot tell a
    // full filter from anything else in RESP3.
    for outcome in outcomes {
        match outcome {
            Ok(is_added) if only_new => call.reply.integer(is_added.into()),
            Err(_) if only_new || call.reply.protocol == Protocol::Resp2 => call.reply.integer(-1),
            outcome => reply_bool(call, outcome.unwrap_or(false)),
        }
    }
    Ok(())
}

fn insert(call: &mut Call) -> CommandResult {
    insert_all(call, false)
}

fn insert_new(call: &mut Call) -> CommandResult {
    insert_all(call, true)
}

fn del(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let filter = call.keyspace.write_as::<Cuckoo>(key)?.ok_or(CommandError::text("Not found"))?;
    let is_deleted = filter.delete(ItemHash::of(call.args[2]));
    if is_deleted {
        call.keyspace.finish_change(SILENT, key, 1, false);
    }
    reply_bool(call, is_deleted);
    Ok(())
}

fn compact(call: &mut Call) -> CommandResult {
    const MISSING: &str = "Cuckoo filter was not found";
    let key = call.args[1];
    call.keyspace.write_as::<Cuckoo>(key)?.ok_or(CommandError::text(MISSING))?.compact(true);
    call.keyspace.finish_change(SILENT, key, 1, false);
    call.reply.ok();
    Ok(())
}

fn exists(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?;
    let found = filter.is_some_and(|filter| filter.contains(ItemHash::of(call.args[2])));
    reply_bool(call, found);
    Ok(())
}

fn mexists(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?;
    let contains = |item: &&[u8]| filter.is_some_and(|filter| filter.contains(ItemHash::of(item)));
    let found: Vec<bool> = call.args[2..].iter().map(contains).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|found| reply_bool(call, found));
    Ok(())
}

fn count(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?;
    let count = filter.map_or(0, |filter| filter.count(ItemHash::of(call.args[2])));
    call.reply.integer(count as i64);
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?.ok_or(CommandError::text(NOT_FOUND))?;
    let shape = filter.shape();
    let fields = [
        ("Size", (filter.memory_bytes() + size_of::<Cuckoo>()) as u64),
        ("Number of buckets", shape.buckets),
        ("Number of filters", filter.layer_count() as u64),
        ("Number of items inserted", filter.items()),
        ("Number of items deleted", filter.deleted()),
        ("Bucket size", shape.bucket_size.into()),
        ("Expansion rate", shape.expansion.into()),
        ("Max iterations", shape.iterations.into()),
    ];
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.simple(name);
        call.reply.integer(value as i64);
    }
    Ok(())
}

fn debug(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?.ok_or(CommandError::text(NOT_FOUND))?;
    let shape = filter.shape();
    let text = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        shape.bucket_size,
        shape.buckets,
        filter.items(),
        filter.deleted(),
        filter.layer_count(),
        shape.iterations,
        shape.expansion
    );
    call.reply.bulk(text.as_bytes());
    Ok(())
}

fn iterator_arg(call: &Call, index: usize) -> Result<u64, CommandError> {
    let given = parse_i64(call.args[index]).and_then(|given| u64::try_from(given).ok());
    given.ok_or(CommandError::text(POSITION))
}

fn scan_dump(call: &mut Call) -> CommandResult {
    let filter = call.keyspace.read_as::<Cuckoo>(call.args[1])?.ok_or(CommandError::text(NOT_FOUND))?;
    let iterator = iterator_arg(call, 2)?;
    let piece = match iterator {
        0 if filter.items() == 0 => None,
        0 => Some((HEADER, header(filter))),
        _ => piece_after(filter, iterator, PIECE_MAX),
    };
    call.reply.array(2);
    match piece {
        Some((next, bytes)) => {
            call.reply.integer(next as i64);
            call.reply.bulk(&bytes);
        }
        None => {
            call.reply.integer(0);
            call.reply.null();
        }
    }
    Ok(())
}

fn load_chunk(call: &mut Call) -> CommandResult {
    let (key, data) = (call.args[1], call.args[3]);
    let position = CommandError::text(POSITION);
    let iterator = parse_i64(call.args[2]).filter(|&given| given != 0).ok_or(position)?;
    if iterator == HEADER as i64 {
        if call.keyspace.peek_as::<Cuckoo>(key)?.is_some() {
            return Err(CommandError::text(EXISTS));
        }
        let filter = from_header(data).ok_or(CommandError::text("Invalid header"))?;
        call.keyspace.set_object(SILENT, key, Object::new(filter), Expiry::Keep);
    } else {
        let filter = call.keyspace.write_as::<Cuckoo>(key)?.ok_or(CommandError::text(NOT_FOUND))?;
        if !u64::try_from(iterator).is_ok_and(|iterator| load_piece(filter, iterator, data)) {
            return Err(CommandError::text("Couldn't load chunk!"));
        }
        call.keyspace.finish_change(SILENT, key, 1, false);
    }
    call.reply.ok();
    Ok(())
}
