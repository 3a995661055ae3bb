// SPDX-License-Identifier: BSD-3-Clause
//! Commands that change nothing, but for VSIM.

use std::collections::BinaryHeap;
use std::ops::Bound;

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::vector_set::VectorSet;

use super::arguments::{arity, quantisation_name, read, score, wrong_arity};
use crate::family::reply_bool;

pub(super) fn vcard(call: &mut Call) -> CommandResult {
    arity(call, 2..=2)?;
    let len = read(call)?.map_or(0, VectorSet::len);
    call.reply.integer(len as i64);
    Ok(())
}

pub(super) fn vdim(call: &mut Call) -> CommandResult {
    arity(call, 2..=2)?;
    let set = read(call)?.ok_or(CommandError::text("ERR key does not exist"))?;
    call.reply.integer(i64::from(set.graph().shape().dim));
    Ok(())
}

pub(super) fn vismember(call: &mut Call) -> CommandResult {
    arity(call, 3..=3)?;
    let is_there = read(call)?.is_some_and(|set| set.find(call.args[2]).is_some());
    reply_bool(call, is_there);
    Ok(())
}

pub(super) fn vemb(call: &mut Call) -> CommandResult {
    arity(call, 3..=usize::MAX)?;
    if (3..call.args.len()).any(|at| !call.arg_is(at, "raw")) {
        return Err(CommandError::text("ERR invalid option"));
    }
    let set = call.keyspace.read_as::<VectorSet>(call.args[1])?;
    let Some((set, id)) = set.and_then(|set| Some((set, set.find(call.args[2])?))) else {
        call.reply.null();
        return Ok(());
    };
    let graph = set.graph();
    if call.args.len() == 3 {
        let vector = graph.vector(id);
        call.reply.array(vector.len());
        vector.iter().for_each(|&x| call.reply.double(f64::from(x)));
        return Ok(());
    }
    let range = graph.range(id);
    call.reply.array(3 + usize::from(range.is_some()));
    call.reply.simple(quantisation_name(graph.shape().quantisation));
    call.reply.bulk(&graph.raw(id));
    call.reply.double(f64::from(graph.norm(id)));
    if let Some(range) = range {
        call.reply.double(f64::from(range));
    }
    Ok(())
}

pub(super) fn vgetattr(call: &mut Call) -> CommandResult {
    arity(call, 3..=3)?;
    let set = call.keyspace.read_as::<VectorSet>(call.args[1])?;
    match set.and_then(|set| set.attribute(set.find(call.args[2])?)) {
        Some(attribute) => call.reply.bulk(attribute),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn vinfo(call: &mut Call) -> CommandResult {
    arity(call, 2..=2)?;
    let Some(set) = call.keyspace.read_as::<VectorSet>(call.args[1])? else {
        call.reply.null_array();
        return Ok(());
    };
    let shape = set.graph().shape();
    call.reply.map(9);
    call.reply.simple("quant-type");
    call.reply.simple(quantisation_name(shape.quantisation));
    for (name, value) in [
        ("hnsw-m", u64::from(shape.links)),
        ("vector-dim", u64::from(shape.dim)),
        ("projection-input-dim", set.projection().map_or(0, |projection| u64::from(projection.input()))),
        ("size", set.len() as u64),
        ("max-level", u64::from(set.graph().top_level())),
        ("attributes-count", set.attributes() as u64),
        ("vset-uid", set.uid()),
        ("hnsw-max-node-uid", set.serial()),
    ] {
        call.reply.simple(name);
        call.reply.integer(value as i64);
    }
    Ok(())
}

pub(super) fn vlinks(call: &mut Call) -> CommandResult {
    arity(call, 3..=4)?;
    let with_scores = call.args.len() == 4;
    if with_scores && !call.arg_is(3, "withscores") {
        return Err(wrong_arity(call));
    }
    let set = call.keyspace.read_as::<VectorSet>(call.args[1])?;
    let Some((set, id)) = set.and_then(|set| Some((set, set.find(call.args[2])?))) else {
        call.reply.null();
        return Ok(());
    };
    let graph = set.graph();
    let level = graph.level(id);
    call.reply.array(usize::from(level) + 1);
    for level in (0..=level).rev() {
        let links: Vec<u32> = graph.links(id, level).collect();
        match with_scores {
            true => call.reply.map(links.len()),
            false => call.reply.array(links.len()),
        }
        for link in links {
            call.reply.bulk(set.name(link));
            if with_scores {
                call.reply.double(score(set, graph.distance_between(id, link)));
            }
        }
    }
    Ok(())
}

pub(super) fn vrandmember(call: &mut Call) -> CommandResult {
    arity(call, 2..=3)?;
    let given = call.args.get(2).map(|count| parse_i64(count));
    if given == Some(None) {
        return Err(CommandError::text("ERR COUNT value is not an integer"));
    }
    if given == Some(Some(0)) {
        call.reply.array(0);
        return Ok(());
    }
    let set = call.keyspace.read_as::<VectorSet>(call.args[1])?;
    let Some(set) = set.filter(|set| !set.is_empty()) else {
        match given {
            Some(_) => call.reply.array(0),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let len = set.len() as u32;
    match given.flatten() {
        None => call.reply.bulk(set.name(fastrand::u32(..len))),
        Some(count) if count < 0 => {
            let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            call.reply.array(count);
            for _ in 0..count {
                call.reply.bulk(set.name(fastrand::u32(..len)));
            }
        }
        Some(count) => {
            let chosen = distinct(len, u32::try_from(count).unwrap_or(u32::MAX).min(len));
            call.reply.array(chosen.len());
            chosen.iter().for_each(|&id| call.reply.bulk(set.name(id)));
        }
    }
    Ok(())
}

/// Distinct random numbers below `len` (Floyd's method), in random order.
fn distinct(len: u32, count: u32) -> Vec<u32> {
    let (mut taken, mut chosen) = (std::collections::HashSet::new(), Vec::new());
    for at in len - count..len {
        let drawn = fastrand::u32(..=at);
        let drawn = if taken.contains(&drawn) { at } else { drawn };
        taken.insert(drawn);
        chosen.push(drawn);
    }
    fastrand::shuffle(&mut chosen);
    chosen
}

fn bound(text: &[u8]) -> Result<Bound<&[u8]>, CommandError> {
    match text {
        b"-" | b"+" => Ok(Bound::Unbounded),
        [b'[', rest @ ..] => Ok(Bound::Included(rest)),
        [b'(', rest @ ..] => Ok(Bound::Excluded(rest)),
        _ => Err(CommandError::text("ERR min or max not valid string range item")),
    }
}

pub(super) fn vrange(call: &mut Call) -> CommandResult {
    arity(call, 4..=5)?;
    let (start, end) = (bound(call.args[2])?, bound(call.args[3])?);
    let is_nowhere = call.args[2] == b"+" || call.args[3] == b"-";
    let count = match call.args.get(4) {
        None => None,
        Some(_) => usize::try_from(call.integer_arg(4)?).ok(),
    };
    let mut least: BinaryHeap<&[u8]> = BinaryHeap::new();
    if let Some(set) = call.keyspace.read_as::<VectorSet>(call.args[1])?
        && !is_nowhere
        && count != Some(0)
    {
        let is_within = |name: &&[u8]| {
            let after = match start {
                Bound::Included(start) => *name >= start,
                Bound::Excluded(start) => *name > start,
                Bound::Unbounded => true,
            };
            let before = match end {
                Bound::Included(end) => *name <= end,
                Bound::Excluded(end) => *name < end,
                Bound::Unbounded => true,
            };
            after && before
        };
        for name in (0..set.len() as u32).map(|id| set.name(id)).filter(is_within) {
            if count.is_none_or(|count| least.len() < count) {
                least.push(name);
            } else if let Some(mut greatest) = least.peek_mut()
                && name < *greatest
            {
                *greatest = name;
            }
        }
    }
    let names = least.into_sorted_vec();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}
