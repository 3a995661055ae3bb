// SPDX-License-Identifier: BSD-3-Clause
//! ZRANGE and its many older forms, and ZRANGESTORE.
//!
//! Each command parses a [`Query`] and turns its [`Selector`] into a range of ranks.

use std::ops::Range;

use braid_base::number;
use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_keyspace::reader::CowValue;
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::{
    AddRule, LexBound, LexRange, PackedLimits, ScoreBound, ScoreRange, SortedSet, View,
};
use smallvec::SmallVec;

use super::{Layout, find, store};
use crate::collection::MANY_MEMBERS;
use crate::decimal::journal_in_decimal;

/// The kind of a range.
#[derive(Clone, Copy, PartialEq)]
enum RangeBy {
    Ranks,
    Scores,
    Members,
}

/// A range of members.
pub enum Selector<'a> {
    /// First and last rank; negative ones count from the end.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'a>),
}

impl<'a> Selector<'a> {
    /// Parses a range of ranks.
    ///
    /// # Errors
    /// If a rank is not an integer.
    pub fn between(start: &[u8], stop: &[u8]) -> Result<Selector<'static>, CommandError> {
        let start = number::parse_i64(start).ok_or(CommandError::NotAnInteger)?;
        let stop = number::parse_i64(stop).ok_or(CommandError::NotAnInteger)?;
        Ok(Selector::Ranks(start, stop))
    }

    /// Parses a range of scores: `1.5`, `(1.5`, `-inf`.
    ///
    /// # Errors
    /// If a bound is not a number.
    pub fn scores(min: &[u8], max: &[u8]) -> Result<Selector<'static>, CommandError> {
        match (score_bound(min), score_bound(max)) {
            (Some(min), Some(max)) => Ok(Selector::Scores(ScoreRange { min, max })),
            _ => Err(CommandError::text("ERR min or max is not a float")),
        }
    }

    /// Parses a range of members: `[a`, `(a`, `-`, `+`.
    ///
    /// # Errors
    /// If a bound has none of these forms.
    pub fn members(min: &'a [u8], max: &'a [u8]) -> Result<Selector<'a>, CommandError> {
        match (lex_bound(min), lex_bound(max)) {
            (Some(min), Some(max)) => Ok(Selector::Members(LexRange { min, max })),
            _ => Err(CommandError::text("ERR min or max not valid string range item")),
        }
    }

    /// The selected ranks, in ascending order even if the range is `reverse` (whose ranks count
    /// from the highest score).
    pub fn ranks(&self, view: &View<'_>, reverse: bool) -> Range<usize> {
        match self {
            Selector::Scores(range) => view.ranks_by_score(range),
            Selector::Members(range) => match (view.get(0), view.get(view.len().saturating_sub(1))) {
                (Some((_, first)), Some((_, last))) if first != last && view.len() <= WALKED_MAX => {
                    walk(view, range, reverse)
                }
                _ => view.ranks_by_member(range),
            },
            Selector::Ranks(start, stop) => {
                let len = view.len() as i64;
                let from_start = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
                let start = from_start(*start).max(0);
                let stop = from_start(*stop).min(len - 1);
                if start > stop {
                    return 0..0;
                }
                let (start, end) = (start as usize, stop as usize + 1);
                if reverse { view.len() - end..view.len() - start } else { start..end }
            }
        }
    }
}

/// Longer sets with differing scores are not walked.
const WALKED_MAX: usize = 128;

/// A member range is undefined in a set whose scores differ. This reproduces stock servers' result
/// for a packed list, which depends on the end where they start.
fn walk(view: &View<'_>, range: &LexRange<'_>, reverse: bool) -> Range<usize> {
    let mut buffer = itoa::Buffer::new();
    // For each member: whether it is above the lower end and below the upper end.
    let sides: SmallVec<[(bool, bool); 64]> = view
        .iter(0..view.len())
        .map(|(member, _)| {
            let member = member.text(&mut buffer);
            (is_above(member, range.min), is_below(member, range.max))
        })
        .collect();
    let (Some((last_above, _)), Some((_, first_below))) = (sides.last(), sides.first()) else { return 0..0 };
    if !last_above || !first_below {
        return 0..0;
    }
    if reverse {
        let end = sides.iter().rposition(|(_, below)| *below).map_or(0, |last| last + 1);
        let run = sides[..end].iter().rev().take_while(|(above, _)| *above).count();
        end - run..end
    } else {
        let start = sides.iter().position(|(above, _)| *above).unwrap_or(sides.len());
        let run = sides[start..].iter().take_while(|(_, below)| *below).count();
        start..start + run
    }
}

fn is_above(member: &[u8], min: LexBound<'_>) -> bool {
    match min {
        LexBound::Minimum => true,
        LexBound::Maximum => false,
        LexBound::Inclusive(bound) => member >= bound,
        LexBound::Exclusive(bound) => member > bound,
    }
}

fn is_below(member: &[u8], max: LexBound<'_>) -> bool {
    match max {
        LexBound::Minimum => false,
        LexBound::Maximum => true,
        LexBound::Inclusive(bound) => member <= bound,
        LexBound::Exclusive(bound) => member < bound,
    }
}

fn score_bound(text: &[u8]) -> Option<ScoreBound> {
    match text.strip_prefix(b"(") {
        Some(rest) => number::parse_f64_bound(rest).map(ScoreBound::Exclusive),
        None => number::parse_f64_bound(text).map(ScoreBound::Inclusive),
    }
}

fn lex_bound(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        b"-" => Some(LexBound::Minimum),
        b"+" => Some(LexBound::Maximum),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}

/// The selection of members, and the layout of the reply.
struct Query<'a> {
    selector: Selector<'a>,
    reverse: bool,
    offset: i64,
    /// Maximum number of members; negative: all.
    limit: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Parses the arguments after the key: two ends, then options. Refuses options for properties
    /// that `kind` and `reverse` fix.
    fn parse(
        args: &[&'a [u8]],
        kind: Option<RangeBy>,
        reverse: Option<bool>,
        may_have_scores: bool,
    ) -> Result<Query<'a>, CommandError> {
        let [start, stop, rest @ ..] = args else { return Err(CommandError::Syntax) };
        let (mut given_kind, mut given_reverse) = (None, false);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut rest = rest;
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = after;
            if may_have_scores && is("WITHSCORES") {
                with_scores = true;
            } else if is("LIMIT")
                && let [first, second, after @ ..] = after
            {
                offset = number::parse_i64(first).ok_or(CommandError::NotAnInteger)?;
                limit = number::parse_i64(second).ok_or(CommandError::NotAnInteger)?;
                rest = after;
            } else if reverse.is_none() && !given_reverse && is("REV") {
                given_reverse = true;
            } else if kind.is_none() && given_kind.is_none() && is("BYLEX") {
                given_kind = Some(RangeBy::Members);
            } else if kind.is_none() && given_kind.is_none() && is("BYSCORE") {
                given_kind = Some(RangeBy::Scores);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let kind = kind.or(given_kind).unwrap_or(RangeBy::Ranks);
        let reverse = reverse.unwrap_or(given_reverse);
        if limit != -1 && kind == RangeBy::Ranks {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && kind == RangeBy::Members {
            return Err(CommandError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (min, max) = if reverse { (stop, start) } else { (start, stop) };
        let selector = match kind {
            RangeBy::Ranks => Selector::between(start, stop)?,
            RangeBy::Scores => Selector::scores(min, max)?,
            RangeBy::Members => Selector::members(min, max)?,
        };
        if matches!(selector, Selector::Ranks(..)) {
            offset = 0;
        }
        Ok(Query { selector, reverse, offset, limit, with_scores })
    }

    /// The selected ranks, in ascending order.
    fn ranks(&self, view: &View<'_>) -> Range<usize> {
        let Range { mut start, mut end } = self.selector.ranks(view, self.reverse);
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if self.reverse {
            end = end.saturating_sub(offset).max(start);
            start = start.max(end.saturating_sub(limit));
        } else {
            start = start.saturating_add(offset).min(end);
            end = end.min(start.saturating_add(limit));
        }
        start..end
    }
}

pub fn zrange(call: &mut Call) -> CommandResult {
    range(call, None, None)
}

pub fn zrevrange(call: &mut Call) -> CommandResult {
    range(call, Some(RangeBy::Ranks), Some(true))
}

pub fn zrangebyscore(call: &mut Call) -> CommandResult {
    range(call, Some(RangeBy::Scores), Some(false))
}

pub fn zrevrangebyscore(call: &mut Call) -> CommandResult {
    range(call, Some(RangeBy::Scores), Some(true))
}

pub fn zrangebylex(call: &mut Call) -> CommandResult {
    range(call, Some(RangeBy::Members), Some(false))
}

pub fn zrevrangebylex(call: &mut Call) -> CommandResult {
    range(call, Some(RangeBy::Members), Some(true))
}

fn range(call: &mut Call, kind: Option<RangeBy>, reverse: Option<bool>) -> CommandResult {
    let query = Query::parse(&call.args[2..], kind, reverse, true)?;
    let Some(view) = find(call.keyspace, call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(&view);
    let layout = Layout::with_scores(query.with_scores, call.reply);
    layout.header(call.reply, ranks.len());
    if query.reverse {
        view.iter_back(ranks).for_each(|(member, score)| layout.entry(call.reply, member, score));
    } else {
        view.iter(ranks).for_each(|(member, score)| layout.entry(call.reply, member, score));
    }
    Ok(())
}

pub fn zrangestore(call: &mut Call) -> CommandResult {
    let args = call.args;
    let query = Query::parse(&args[3..], None, None, false)?;
    if matches!(query.selector, Selector::Scores(..)) {
        journal_in_decimal(call, [3, 4]);
    }
    let result = if let Some(result) = call.take_precomputed::<SortedSet>() {
        result?
    } else {
        let limits = limits::sorted_set_limits(call.engine);
        match find(call.keyspace, args[2])? {
            None => SortedSet::new(),
            Some(view) if query.ranks(&view).len() >= MANY_MEMBERS && call.may_precompute() => {
                return copy_in_background(call, limits);
            }
            Some(view) => copy(&view, query.ranks(&view), &limits),
        }
    };
    let len = store(call.keyspace, Event::zset("zrangestore"), args[1], result);
    call.reply.integer(len as i64);
    Ok(())
}

/// A sorted set of the members with the given ranks.
fn copy(view: &View<'_>, ranks: Range<usize>, limits: &PackedLimits) -> SortedSet {
    let mut result = SortedSet::with_hints(ranks.len(), 0, limits);
    let mut buffer = itoa::Buffer::new();
    for (member, score) in view.iter(ranks) {
        result.add(member.text(&mut buffer), score, AddRule::default(), limits);
    }
    result
}

/// Copies many members in the background, from a shared copy of the source.
fn copy_in_background(call: &mut Call, limits: PackedLimits) -> CommandResult {
    let options: Vec<Box<[u8]>> = call.args[3..].iter().map(|&arg| arg.into()).collect();
    call.precompute(&call.args[2..3], move |shared, now| {
        let options: Vec<&[u8]> = options.iter().map(|option| &**option).collect();
        let query = Query::parse(&options, None, None, false).ok()?;
        let result = match &shared[0] {
            CowValue::Missing => SortedSet::new(),
            value => {
                let set: &SortedSet = value.object()?.get()?;
                let view = set.view(now);
                copy(&view, query.ranks(&view), &limits)
            }
        };
        Some(Ok(result))
    })
}
