// SPDX-License-Identifier: BSD-3-Clause
//! Unions, intersections and differences of sorted sets and plain sets.
//!
//! Large operations run in the background (`braid_executor::background`), on shared copies.

use std::cell::OnceCell;
use std::cmp::Ordering::Equal;

use braid_base::number;
use braid_containers::listpack::Element;
use braid_executor::{Call, limits};
use braid_keyspace::entry::ValueRef;
use braid_keyspace::reader::CowValue;
use braid_keyspace::{Event, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::set::Set;
use braid_values::sorted_set::{
    AddRule, Aggregate, Input, MemberSource, PackedLimits, SortedSet, View, difference, intersection,
    intersection_count, union,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Layout, store};
use crate::collection::MANY_MEMBERS;
use crate::decimal::journal_in_decimal;

/// An operation on the inputs.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The value at an input key.
enum Source<'a> {
    Missing,
    Ranked(View<'a>),
    Borrowed(Borrowed<'a>),
    Plain { set: &'a Set, now: i64 },
}

/// A copy of a large sorted set that supports only walks: a lookup by member builds an index.
struct Borrowed<'a> {
    set: &'a SortedSet,
    scores: OnceCell<HashMap<&'a [u8], f64, foldhash::quality::RandomState>>,
}

impl Borrowed<'_> {
    fn score_of(&self, member: &[u8]) -> Option<f64> {
        let scores = self.scores.get_or_init(|| {
            let mut scores = HashMap::with_capacity_and_hasher(self.set.len(), Default::default());
            for (member, score, _) in self.set.iter_back_with_expiry() {
                if let Element::Bytes(member) = member {
                    scores.insert(member, score);
                }
            }
            scores
        });
        scores.get(member).copied()
    }
}

impl MemberSource for Source<'_> {
    fn member_count(&self) -> usize {
        match self {
            Source::Missing => 0,
            Source::Ranked(view) => view.member_count(),
            Source::Borrowed(borrowed) => borrowed.set.len(),
            Source::Plain { set, .. } => set.len(),
        }
    }

    fn score_of(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::Ranked(view) => view.score_of(member),
            Source::Borrowed(borrowed) => borrowed.score_of(member),
            Source::Plain { set, now } => set.contains(member, *now).then_some(1.0),
        }
    }

    fn walk(&self, each: &mut dyn FnMut(&[u8], f64) -> bool) {
        match self {
            Source::Missing => {}
            Source::Ranked(view) => view.walk(each),
            // Sets with expiring members are not shared.
            Source::Borrowed(borrowed) => borrowed.set.view(0).walk(each),
            Source::Plain { set, now } => {
                let mut buffer = itoa::Buffer::new();
                for member in set.iter(*now) {
                    if !each(member.text(&mut buffer), 1.0) {
                        return;
                    }
                }
            }
        }
    }
}

type Sources<'a> = SmallVec<[Source<'a>; 4]>;

/// A list of arguments.
type Words<'s, 'a> = &'s [&'a [u8]];

/// Parses the number of keys at `args[0]` and splits the rest into keys and options.
fn split_keys<'s, 'a>(
    call: &Call,
    args: &'s [&'a [u8]],
) -> Result<(Words<'s, 'a>, Words<'s, 'a>), CommandError> {
    let count = number::parse_i64(args[0]).ok_or(CommandError::NotAnInteger)?;
    if count < 1 {
        return Err(CommandError::text(format!(
            "ERR at least 1 input key is needed for '{}' command",
            call.command.full_name
        )));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    args[1..].split_at_checked(count).ok_or(CommandError::Syntax)
}

fn find_sources<'s>(keyspace: &'s Txn<'_>, keys: &[&[u8]]) -> Result<Sources<'s>, CommandError> {
    let now = keyspace.now();
    let find = |key: &&[u8]| match keyspace.read(key).map(|entry| entry.value()) {
        None => Ok(Source::Missing),
        Some(ValueRef::Object(object)) => match (object.get::<SortedSet>(), object.get::<Set>()) {
            (Some(set), _) => Ok(Source::Ranked(set.view(now))),
            (_, Some(set)) => Ok(Source::Plain { set, now }),
            _ => Err(CommandError::WrongType),
        },
        Some(_) => Err(CommandError::WrongType),
    };
    keys.iter().map(find).collect()
}

/// The inputs shared for a background computation.
fn sources_of(shared: &[CowValue], now: i64) -> Result<Sources<'_>, CommandError> {
    let source = |value| match value {
        &CowValue::Missing => Ok(Source::Missing),
        value => {
            let object = value.object().ok_or(CommandError::WrongType)?;
            match (object.get::<SortedSet>(), object.get::<Set>()) {
                (Some(set), _) if set.finds_by_name() => Ok(Source::Ranked(set.view(now))),
                (Some(set), _) => Ok(Source::Borrowed(Borrowed { set, scores: OnceCell::new() })),
                (_, Some(set)) => Ok(Source::Plain { set, now }),
                _ => Err(CommandError::WrongType),
            }
        }
    };
    shared.iter().map(source).collect()
}

/// True if the operation is expensive enough for the background.
fn is_much(operation: Operation, sources: &Sources<'_>) -> bool {
    let counts = sources.iter().map(MemberSource::member_count);
    let effort = match operation {
        Operation::Union => counts.sum(),
        Operation::Intersection => counts.min().unwrap_or(0) * sources.len(),
        Operation::Difference => sources.first().map_or(0, MemberSource::member_count) * sources.len(),
    };
    effort >= MANY_MEMBERS
}

/// The options after the keys.
struct Options {
    weights: SmallVec<[f64; 4]>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Options {
    fn parse(
        options: &[&[u8]],
        key_count: usize,
        operation: Operation,
        stores: bool,
    ) -> Result<Options, CommandError> {
        let mut parsed = Options {
            weights: SmallVec::from_elem(1.0, key_count),
            aggregate: Aggregate::Sum,
            with_scores: false,
        };
        let mut rest = options;
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = after;
            if operation != Operation::Difference && is("WEIGHTS") && after.len() >= key_count {
                let (weights, after) = after.split_at(key_count);
                for (place, weight) in parsed.weights.iter_mut().zip(weights) {
                    *place = number::parse_f64(weight)
                        .ok_or(CommandError::text("ERR weight value is not a float"))?;
                }
                rest = after;
            } else if operation != Operation::Difference
                && is("AGGREGATE")
                && let [how, after @ ..] = after
            {
                parsed.aggregate = match how.to_ascii_uppercase().as_slice() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Min,
                    b"MAX" => Aggregate::Max,
                    b"COUNT" => Aggregate::Count,
                    _ => return Err(CommandError::Syntax),
                };
                rest = after;
            } else if !stores && is("WITHSCORES") {
                parsed.with_scores = true;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(parsed)
    }
}

fn inputs<'s>(sources: &'s Sources<'_>, weights: &[f64]) -> SmallVec<[Input<'s>; 4]> {
    let input = |(source, weight): (&'s Source<'_>, &f64)| Input { source, weight: *weight };
    sources.iter().zip(weights).map(input).collect()
}

/// The result, unordered.
fn compute(operation: Operation, inputs: &[Input<'_>], aggregate: Aggregate) -> Vec<(Box<[u8]>, f64)> {
    match operation {
        Operation::Union => union(inputs, aggregate),
        Operation::Intersection => intersection(inputs, aggregate),
        Operation::Difference => difference(inputs),
    }
}

fn reply_with(call: &mut Call, operation: Operation) -> CommandResult {
    let (keys, options) = split_keys(call, &call.args[1..])?;
    let sources = find_sources(call.keyspace, keys)?;
    let options = Options::parse(options, keys.len(), operation, false)?;
    if is_much(operation, &sources) && call.may_precompute() {
        drop(sources);
        return call.answer_from_shared(keys, move |shared, now, reply| {
            write_result(reply, operation, &sources_of(shared, now)?, &options);
            Ok(())
        });
    }
    write_result(call.reply, operation, &sources, &options);
    Ok(())
}

fn write_result(reply: &mut ReplyBuffer, operation: Operation, sources: &Sources<'_>, options: &Options) {
    let mut result = compute(operation, &inputs(sources, &options.weights), options.aggregate);
    result.sort_unstable_by(|one, other| {
        one.1.partial_cmp(&other.1).unwrap_or(Equal).then_with(|| one.0.cmp(&other.0))
    });
    let layout = Layout::with_scores(options.with_scores, reply);
    layout.header(reply, result.len());
    for (member, score) in &result {
        layout.entry(reply, Element::Bytes(member), *score);
    }
}

fn store_result(call: &mut Call, operation: Operation) -> CommandResult {
    let (keys, options) = split_keys(call, &call.args[2..])?;
    let counts = Options::parse(options, keys.len(), operation, true)
        .is_ok_and(|options| options.aggregate == Aggregate::Count);
    let set = if let Some(set) = call.take_precomputed::<SortedSet>() {
        set?
    } else {
        let sources = find_sources(call.keyspace, keys)?;
        let options = Options::parse(options, keys.len(), operation, true)?;
        let limits = limits::sorted_set_limits(call.engine);
        if is_much(operation, &sources) && call.may_precompute() {
            drop(sources);
            return call.precompute(keys, move |shared, now| {
                let sources = sources_of(shared, now).ok()?;
                Some(Ok(combine(operation, &sources, &options, &limits)))
            });
        }
        combine(operation, &sources, &options, &limits)
    };
    let len = store(call.keyspace, Event::zset(call.command.spec.name), call.args[1], set);
    if counts {
        journal_result(call)?;
    } else {
        journal_in_decimal(call, 3 + keys.len()..call.args.len());
    }
    call.reply.integer(len as i64);
    Ok(())
}

/// Journals the stored result itself: not every server knows AGGREGATE COUNT.
fn journal_result(call: &mut Call) -> CommandResult {
    /// The number of members of a request.
    const PIECE: usize = 256;
    if !call.keyspace.journals() {
        return Ok(());
    }
    let (key, now) = (call.args[1], call.now());
    let mut members: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if let Some(set) = call.keyspace.peek_as::<SortedSet>(key)? {
        set.view(now).walk(&mut |member, score| {
            let mut text = Vec::new();
            number::format_f64_shortest(&mut text, score);
            members.push((text, member.to_vec()));
            true
        });
    }
    call.keyspace.journal_as(&[b"DEL", key]);
    for piece in members.chunks(PIECE) {
        let words = piece.iter().flat_map(|(score, member)| [&score[..], &member[..]]);
        let args: Vec<&[u8]> = [&b"ZADD"[..], key].into_iter().chain(words).collect();
        call.keyspace.journal_as(&args);
    }
    call.keyspace.journal_protection(key);
    Ok(())
}

/// The result to store.
fn combine(
    operation: Operation,
    sources: &Sources<'_>,
    options: &Options,
    limits: &PackedLimits,
) -> SortedSet {
    let result = compute(operation, &inputs(sources, &options.weights), options.aggregate);
    let longest = result.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    let mut set = SortedSet::with_hints(result.len(), longest, limits);
    for (member, score) in &result {
        set.add(member, *score, AddRule::default(), limits);
    }
    set
}

pub fn zunion(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Union)
}

pub fn zinter(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Intersection)
}

pub fn zdiff(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Difference)
}

pub fn zunionstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Union)
}

pub fn zinterstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Intersection)
}

pub fn zdiffstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Difference)
}

pub fn zintercard(call: &mut Call) -> CommandResult {
    let (keys, options) = split_keys(call, &call.args[1..])?;
    let sources = find_sources(call.keyspace, keys)?;
    let mut limit = 0;
    let mut rest = options;
    while let [option, value, after @ ..] = rest
        && option.eq_ignore_ascii_case(b"LIMIT")
    {
        limit = number::parse_i64(value)
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
        rest = after;
    }
    if !rest.is_empty() {
        return Err(CommandError::Syntax);
    }
    // A limit may end the count at any moment.
    let is_much = is_much(Operation::Intersection, &sources) && (limit == 0 || limit >= MANY_MEMBERS);
    if is_much && call.may_precompute() {
        drop(sources);
        return call.answer_from_shared(keys, move |shared, now, reply| {
            reply.integer(count_common(&sources_of(shared, now)?, limit));
            Ok(())
        });
    }
    call.reply.integer(count_common(&sources, limit));
    Ok(())
}

/// Number of members common to all inputs, counted up to `limit` (0 means no limit).
fn count_common(sources: &Sources<'_>, limit: usize) -> i64 {
    let weights: SmallVec<[f64; 4]> = SmallVec::from_elem(1.0, sources.len());
    intersection_count(&inputs(sources, &weights), limit) as i64
}
