// SPDX-License-Identifier: BSD-3-Clause
//! Commands on count-min sketches, with the replies and messages of Redis Stack, and the cell sizes
//! and decrements of Redis 8.12.

use crate::family::Family;
use braid_base::number::{parse_f64, parse_i64};
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::count_min::value::{CELL_DEFAULT, CountMin, Refusal, Shape};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const INSERT: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const MERGE: &[KeySpec] = &[
    KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE)),
    KeySpec::counted(2, KeyFlags::RO.and(KeyFlags::ACCESS)),
];
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);

/// Stock servers report no events of sketches but those of keys.
const SILENT: Event = Event { class: 0, name: "cms" };

const MISSING: CommandError = CommandError::Text(std::borrow::Cow::Borrowed("CMS: key does not exist"));

const FAMILY: Family = Family::of_module(Category::CMS);

/// Rows of the count-min sketch commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("cms.incrby", incrby, GROWS, CHANGE)
        .at_least(4)
        .docs("8.0.0", "Adds to the counts of items in a count-min sketch.", "O(n) where n is the number of items")
        .syntax("key:key#0 items:{item:string increment:integer}..."),
    FAMILY.row("cms.info", info, Flags::READONLY.and(Flags::FAST), READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the dimensions and the total count of a count-min sketch.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("cms.initbydim", init_by_dim, GROWS.and(Flags::FAST), INSERT)
        .at_least(4)
        .docs("8.0.0", "Creates a count-min sketch with given dimensions.", "O(1)")
        .syntax("key:key#0 width:integer depth:integer [CELL_SIZE cell_size:integer]")
        .history(&[("8.12.0", "New option `CELL_SIZE`.")]),
    FAMILY.row("cms.initbyprob", init_by_prob, GROWS.and(Flags::FAST), INSERT)
        .at_least(4)
        .docs("8.0.0", "Creates a count-min sketch for a given error and its probability.", "O(1)")
        .syntax("key:key#0 error:double probability:double [CELL_SIZE cell_size:integer]")
        .history(&[("8.12.0", "New option `CELL_SIZE`.")]),
    FAMILY.row("cms.merge", merge, GROWS.and(Flags::MOVABLE_KEYS), MERGE)
        .at_least(4)
        .docs("8.0.0", "Stores the weighted sum of count-min sketches in an existing one.", "O(n) where n is the number of sketches")
        .syntax("destination:key#0 numkeys:integer source:key#1... [WEIGHTS weight:integer...]"),
    FAMILY.row("cms.query", query, Flags::READONLY, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns the counts of items in a count-min sketch.", "O(n) where n is the number of items")
        .syntax("key:key#0 item:string..."),
];

fn refused(refusal: Refusal) -> CommandError {
    CommandError::text(refusal.to_string())
}

fn positive(call: &Call, index: usize, what: &'static str) -> Result<u64, CommandError> {
    let number = parse_i64(call.args[index]).filter(|&number| number > 0);
    number.map(|number| number as u64).ok_or(CommandError::text(what))
}

/// A number between 0 and 1.
fn share(call: &Call, index: usize, what: &'static str) -> Result<f64, CommandError> {
    let number = parse_f64(call.args[index]).filter(|&number| number > 0.0 && number < 1.0);
    number.ok_or(CommandError::text(what))
}

fn cell_size(call: &Call) -> Result<u8, CommandError> {
    match call.args.len() {
        4 => Ok(CELL_DEFAULT),
        6 if call.arg_is(4, "cell_size") => match parse_i64(call.args[5]) {
            Some(bytes @ (1 | 2 | 4 | 8)) => Ok(bytes as u8),
            _ => Err(CommandError::text("CMS: invalid cell size")),
        },
        _ => Err(call.wrong_arity()),
    }
}

fn refuse_existing(call: &Call) -> CommandResult {
    match call.keyspace.look_at(call.args[1]).is_some() {
        true => Err(CommandError::text("CMS: key already exists")),
        false => Ok(()),
    }
}

fn make(call: &mut Call, shape: Shape) -> CommandResult {
    let sketch = CountMin::new(shape).map_err(refused)?;
    call.keyspace.set_object(SILENT, call.args[1], Object::new(sketch), Expiry::Clear);
    call.reply.ok();
    Ok(())
}

fn init_by_dim(call: &mut Call) -> CommandResult {
    let cell = cell_size(call)?;
    refuse_existing(call)?;
    let width = positive(call, 2, "CMS: invalid width")?;
    let depth = positive(call, 3, "CMS: invalid depth")?;
    make(call, Shape { width, depth, cell })
}

fn init_by_prob(call: &mut Call) -> CommandResult {
    let cell = cell_size(call)?;
    refuse_existing(call)?;
    let error = share(call, 2, "CMS: invalid overestimation value")?;
    let probability = share(call, 3, "CMS: invalid prob value")?;
    // Numbers out of range become the largest ones, which are refused.
    let width = (2.0 / error).ceil() as u64;
    let depth = (probability.log10() / 0.5f64.log10()).ceil() as u64;
    make(call, Shape { width, depth, cell })
}

fn incrby(call: &mut Call) -> CommandResult {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let key = call.args[1];
    if call.keyspace.peek_as::<CountMin>(key)?.is_none() {
        return Err(MISSING);
    }
    let (pairs, _) = call.args[2..].as_chunks::<2>();
    let mut increments = smallvec::SmallVec::<[i64; 8]>::with_capacity(pairs.len());
    for [_, increment] in pairs {
        increments.push(parse_i64(increment).ok_or(CommandError::text("CMS: Cannot parse number"))?);
    }
    let sketch = call.keyspace.write_as::<CountMin>(key)?.ok_or(MISSING)?;
    call.reply.array(pairs.len());
    let mut changes = 0;
    for ([item, _], by) in pairs.iter().zip(increments) {
        match sketch.add(item, by) {
            Ok(count) => {
                changes += 1;
                call.reply.integer(count as i64);
            }
            Err(refusal) => call.reply.error(&refusal.to_string()),
        }
    }
    if changes > 0 {
        call.keyspace.finish_change(SILENT, key, changes, false);
    }
    Ok(())
}

fn query(call: &mut Call) -> CommandResult {
    let sketch = call.keyspace.read_as::<CountMin>(call.args[1])?.ok_or(MISSING)?;
    call.reply.array(call.args.len() - 2);
    call.args[2..].iter().for_each(|item| call.reply.integer(sketch.count(item) as i64));
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let sketch = call.keyspace.read_as::<CountMin>(call.args[1])?.ok_or(MISSING)?;
    let (shape, total) = (sketch.shape(), sketch.total());
    let fields = [
        ("width", shape.width as i64),
        ("depth", shape.depth as i64),
        ("count", total),
        ("cell_size", shape.cell.into()),
    ];
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.simple(name);
        call.reply.integer(value);
    }
    Ok(())
}

/// The arguments of CMS.MERGE: the sources' positions, and a weight for each.
fn merge_args(call: &Call) -> Result<Vec<i64>, CommandError> {
    let count = parse_i64(call.args[2]).ok_or(CommandError::text("CMS: invalid numkeys"))?;
    if count < 1 {
        return Err(CommandError::text("CMS: Number of keys must be positive"));
    }
    let rest = &call.args[3..];
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let Some(at) = rest.iter().position(|word| word.eq_ignore_ascii_case(b"weights")) else {
        let fits = rest.len() == count;
        return fits.then(|| vec![1; count]).ok_or(CommandError::text("CMS: wrong number of keys"));
    };
    if at != count || rest.len() - at - 1 != count {
        return Err(CommandError::text("CMS: wrong number of keys/weights"));
    }
    let weight = |word: &&[u8]| parse_i64(word).ok_or(CommandError::text("CMS: invalid weight value"));
    rest[at + 1..].iter().map(weight).collect()
}

fn merge(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    // Without a valid number of keys none is locked: even the destination must not be looked at.
    let weights = merge_args(call);
    if !parse_i64(call.args[2]).is_some_and(|count| (1..=call.args.len() as i64 - 3).contains(&count)) {
        return weights.and(Err(call.wrong_arity()));
    }
    let shape = call.keyspace.peek_as::<CountMin>(key)?.ok_or(MISSING)?.shape();
    let weights = weights?;
    let mut sources = Vec::with_capacity(weights.len());
    for (source, weight) in call.args[3..].iter().zip(weights) {
        sources.push((call.keyspace.read_as::<CountMin>(source)?.ok_or(MISSING)?, weight));
    }
    let merged = CountMin::merged(shape, &sources).map_err(refused)?;
    *call.keyspace.write_as::<CountMin>(key)?.ok_or(MISSING)? = merged;
    call.keyspace.finish_change(SILENT, key, 1, false);
    call.reply.ok();
    Ok(())
}
