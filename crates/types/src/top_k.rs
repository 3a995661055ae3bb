// SPDX-License-Identifier: BSD-3-Clause
//! Commands on top-k values, with the replies and messages of Redis Stack 7.4.

use std::borrow::Cow;

use crate::family::Family;
use braid_base::number::{parse_f64, parse_i64};
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_resp::reply::Protocol;
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::top_k::value::{DECAY_DEFAULT, DEPTH_DEFAULT, INCREMENT_MAX, Shape, TopK, WIDTH_DEFAULT};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const INSERT: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);

/// Stock servers report no events of sketches but those of keys.
const SILENT: Event = Event { class: 0, name: "topk" };

const MISSING: CommandError = CommandError::Text(Cow::Borrowed("TopK: key does not exist"));
/// With the blanks that Redis has in it.
const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0                            \
                             and smaller or equal to 100,000";

const FAMILY: Family = Family::of_module(Category::TOPK);

/// Rows of the top-k commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("topk.add", add, GROWS, CHANGE)
        .at_least(3)
        .docs("8.0.0", "Counts items; returns those that they drive out of the most frequent.", "O(n * k) where n is the number of items and k is the depth")
        .syntax("key:key#0 item:string..."),
    FAMILY.row("topk.count", count, Flags::READONLY, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns the counts of items in the sketch.", "O(n) where n is the number of items")
        .syntax("key:key#0 item:string...")
        .deprecated("8.0.0", "`TOPK.LIST`, `TOPK.QUERY`"),
    FAMILY.row("topk.incrby", incrby, GROWS, CHANGE)
        .at_least(4)
        .docs("8.0.0", "Counts items several times; returns those that they drive out of the most frequent.", "O(n * k * incr) where n is the number of items, k is the depth and incr is the increment")
        .syntax("key:key#0 items:{item:string increment:integer}..."),
    FAMILY.row("topk.info", info, Flags::READONLY.and(Flags::FAST), READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the number of items kept, the dimensions and the decay.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("topk.list", list, Flags::READONLY, READ_ONE)
        .at_least(2)
        .docs("8.0.0", "Returns the most frequent items.", "O(k*log(k)) where k is the number of items kept")
        .syntax("key:key#0 [WITHCOUNT]"),
    FAMILY.row("topk.query", query, Flags::READONLY, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns whether items are among the most frequent.", "O(n) where n is the number of items")
        .syntax("key:key#0 item:string..."),
    FAMILY.row("topk.reserve", reserve, GROWS.and(Flags::FAST), INSERT)
        .at_least(3)
        .docs("8.0.0", "Creates an empty top-k value.", "O(1)")
        .syntax("key:key#0 topk:integer [params:{width:integer depth:integer decay:double}]"),
];

fn positive(call: &Call, index: usize, what: &'static str) -> Result<u64, CommandError> {
    let number = parse_i64(call.args[index]).filter(|&number| number > 0);
    number.map(|number| number as u64).ok_or(CommandError::text(what))
}

fn reserve(call: &mut Call) -> CommandResult {
    if !matches!(call.args.len(), 3 | 6) {
        return Err(call.wrong_arity());
    }
    if call.keyspace.look_at(call.args[1]).is_some() {
        return Err(CommandError::text("TopK: key already exists"));
    }
    let k = positive(call, 2, "TopK: invalid k")?;
    let mut shape = Shape { k, width: WIDTH_DEFAULT, depth: DEPTH_DEFAULT, decay: DECAY_DEFAULT };
    if call.args.len() == 6 {
        shape.width = positive(call, 3, "TopK: invalid width")?;
        shape.depth = positive(call, 4, "TopK: invalid depth")?;
        let decay = parse_f64(call.args[5]).filter(|&decay| decay > 0.0 && decay <= 1.0);
        let refusal = CommandError::text("TopK: invalid decay value. must be '<= 1' & '> 0'");
        shape.decay = decay.ok_or(refusal)?;
    }
    let value = TopK::new(shape).ok_or(CommandError::text("TopK: insufficient memory to create the key"))?;
    call.keyspace.set_object(SILENT, call.args[1], Object::new(value), Expiry::Clear);
    call.reply.ok();
    Ok(())
}

fn reply_expelled(call: &mut Call, expelled: Option<Box<[u8]>>) {
    match expelled {
        Some(item) => call.reply.bulk(&item),
        None => call.reply.null(),
    }
}

fn add(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let items = &call.args[2..];
    let value = call.keyspace.write_as::<TopK>(key)?.ok_or(MISSING)?;
    let expelled: smallvec::SmallVec<[_; 4]> = items.iter().map(|item| value.add(item, 1)).collect();
    call.keyspace.finish_change(SILENT, key, items.len() as u64, false);
    call.reply.array(expelled.len());
    expelled.into_iter().for_each(|item| reply_expelled(call, item));
    Ok(())
}

/// The items up to the first increment that is none are counted; the reply ends with the error.
fn incrby(call: &mut Call) -> CommandResult {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let key = call.args[1];
    let (pairs, _) = call.args[2..].as_chunks::<2>();
    let value = call.keyspace.write_as::<TopK>(key)?.ok_or(MISSING)?;
    let (mut expelled, mut is_refused) = (Vec::with_capacity(pairs.len()), false);
    for [item, increment] in pairs {
        let Some(by) = parse_i64(increment).filter(|by| (0..=INCREMENT_MAX).contains(by)) else {
            is_refused = true;
            break;
        };
        expelled.push(value.add(item, by as u32));
    }
    if !expelled.is_empty() {
        call.keyspace.finish_change(SILENT, key, expelled.len() as u64, false);
    }
    call.reply.array(expelled.len() + usize::from(is_refused));
    expelled.into_iter().for_each(|item| reply_expelled(call, item));
    if is_refused {
        call.reply.error(BAD_INCREMENT);
    }
    Ok(())
}

fn query(call: &mut Call) -> CommandResult {
    let value = call.keyspace.read_as::<TopK>(call.args[1])?.ok_or(MISSING)?;
    call.reply.array(call.args.len() - 2);
    for item in &call.args[2..] {
        let is_there = value.contains(item);
        match call.reply.protocol {
            Protocol::Resp3 => call.reply.boolean(is_there),
            Protocol::Resp2 => call.reply.integer(is_there.into()),
        }
    }
    Ok(())
}

fn count(call: &mut Call) -> CommandResult {
    let value = call.keyspace.read_as::<TopK>(call.args[1])?.ok_or(MISSING)?;
    call.reply.array(call.args.len() - 2);
    call.args[2..].iter().for_each(|item| call.reply.integer(value.count(item) as i64));
    Ok(())
}

fn list(call: &mut Call) -> CommandResult {
    let with_count = match call.args.len() {
        2 => false,
        3 => true,
        _ => return Err(call.wrong_arity()),
    };
    let value = call.keyspace.read_as::<TopK>(call.args[1])?.ok_or(MISSING)?;
    if with_count && !call.arg_is(2, "withcount") {
        return Err(CommandError::text("WITHCOUNT keyword expected"));
    }
    let kept = value.heap().iter().filter_map(|kept| Some((kept.item.as_deref()?, kept.count)));
    let mut kept: Vec<(&[u8], u32)> = kept.collect();
    // Items with the same count stay in the heap's order.
    kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    call.reply.array(kept.len() * if with_count { 2 } else { 1 });
    for (item, count) in kept {
        call.reply.bulk(item);
        if with_count {
            call.reply.integer(count.into());
        }
    }
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let shape = call.keyspace.read_as::<TopK>(call.args[1])?.ok_or(MISSING)?.shape();
    call.reply.map(4);
    for (name, number) in [("k", shape.k), ("width", shape.width), ("depth", shape.depth)] {
        call.reply.simple(name);
        call.reply.integer(number as i64);
    }
    call.reply.simple("decay");
    call.reply.double(shape.decay);
    Ok(())
}
