// SPDX-License-Identifier: BSD-3-Clause
//! ZADD and ZINCRBY, and storing members, which GEOADD shares.

use braid_base::number;
use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::{AddRule, Added, SortedSet};
use smallvec::SmallVec;

use crate::collection::purge;
use crate::decimal::journal_in_decimal;

/// Scores and members to store.
pub(crate) type Pairs<'a> = SmallVec<[(f64, &'a [u8]); 8]>;

/// The result of [`put`].
#[derive(Default)]
pub(crate) struct Put<'a> {
    pub added: usize,
    pub updated: usize,
    /// Members that only lost their expiry: changed, but not counted by CH.
    pub persisted: usize,
    /// The score of the last member, unless the rule forbade the change.
    pub score: Option<f64>,
    /// The changed members, if active-active peers need their names.
    changed: Pairs<'a>,
}

impl Put<'_> {
    fn has_changed(&self) -> bool {
        self.added + self.updated + self.persisted > 0
    }
}

const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// Stores members in the sorted set at a key. Creates the set unless the rule allows only changes
/// of existing members.
pub(crate) fn put<'a>(
    call: &mut Call,
    key: &[u8],
    rule: AddRule,
    pairs: &[(f64, &'a [u8])],
) -> Result<Put<'a>, CommandError> {
    let (limits, now) = (limits::sorted_set_limits(call.engine), call.now());
    let names_changed = call.keyspace.journals_for_peers();
    let mut done = Put::default();
    let set = if rule.only_existing {
        match call.keyspace.write_as::<SortedSet>(key)? {
            Some(set) => set,
            None => return Ok(done),
        }
    } else {
        let first_len = pairs.first().map_or(0, |(_, member)| member.len());
        call.keyspace.write_or_create(key, || SortedSet::with_hints(pairs.len(), first_len, &limits))?
    };
    let expired = purge(set, now);
    set.expect(pairs.len(), &limits);
    let mut result = Ok(());
    for (score, member) in pairs {
        let added = set.add(member, *score, rule, &limits);
        if let Added::Added(score) | Added::Updated(score) | Added::Persisted(score) = added
            && names_changed
        {
            done.changed.push((score, member));
        }
        done.score = match added {
            Added::Added(score) => {
                done.added += 1;
                Some(score)
            }
            Added::Updated(score) => {
                done.updated += 1;
                Some(score)
            }
            Added::Persisted(score) => {
                done.persisted += 1;
                Some(score)
            }
            Added::Same(score) => Some(score),
            Added::Refused => None,
            Added::NotANumber => {
                result = Err(CommandError::text(NOT_A_NUMBER));
                break;
            }
        };
    }
    if set.is_empty() {
        call.keyspace.remove(key);
    } else {
        let event = Event::zset(if rule.increment { "zincr" } else { "zadd" });
        let changes = done.added + done.updated + done.persisted;
        call.keyspace.finish_change_expiring(event, key, changes as u64, expired, false);
    }
    result.map(|()| done)
}

pub fn zadd(call: &mut Call) -> CommandResult {
    let args = call.args;
    let mut rule = AddRule::default();
    let mut counts_changes = false;
    let mut first = 2;
    while let Some(option) = args.get(first) {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        if is("NX") {
            rule.only_new = true;
        } else if is("XX") {
            rule.only_existing = true;
        } else if is("CH") {
            counts_changes = true;
        } else if is("INCR") {
            rule.increment = true;
        } else if is("GT") {
            rule.only_greater = true;
        } else if is("LT") {
            rule.only_less = true;
        } else {
            break;
        }
        first += 1;
    }
    let given = args.get(first..).unwrap_or_default();
    if given.is_empty() || !given.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    if rule.only_new && rule.only_existing {
        return Err(CommandError::text("ERR XX and NX options at the same time are not compatible"));
    }
    if [rule.only_new, rule.only_greater, rule.only_less].into_iter().filter(|given| *given).count() > 1 {
        return Err(CommandError::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if rule.increment && given.len() > 2 {
        return Err(CommandError::text("ERR INCR option supports a single increment-element pair"));
    }
    let mut pairs = Pairs::new();
    for (at, pair) in given.chunks_exact(2).enumerate() {
        pairs.push((call.float_arg(first + at * 2)?, pair[1]));
    }
    journal_in_decimal(call, (first..args.len()).step_by(2));
    let done = put(call, args[1], rule, &pairs)?;
    let by = rule.increment.then(|| pairs[0].0);
    match (AddRule { increment: rule.increment, ..AddRule::default() }) == rule {
        true => note_addition(call, &done),
        false => journal_changed(call, args[1], &done, by),
    }
    if rule.increment {
        reply_score(call, done.score);
    } else {
        let count = done.added + if counts_changes { done.updated } else { 0 };
        call.reply.integer(count as i64);
    }
    Ok(())
}

pub fn zincrby(call: &mut Call) -> CommandResult {
    let args = call.args;
    // Stock servers parse ZINCRBY like ZADD: an option leaves too few arguments.
    if ["NX", "XX", "CH", "INCR", "GT", "LT"].iter().any(|word| call.arg_is(2, word)) {
        return Err(CommandError::Syntax);
    }
    let by = call.float_arg(2)?;
    let rule = AddRule { increment: true, ..AddRule::default() };
    journal_in_decimal(call, [2]);
    let done = put(call, args[1], rule, &[(by, args[3])])?;
    note_addition(call, &done);
    reply_score(call, done.score);
    Ok(())
}

/// Without a condition, members that already had their scores count as added for peers.
fn note_addition(call: &mut Call, done: &Put) {
    if !done.has_changed() {
        call.keyspace.journal_addition();
    }
}

/// With active-active peers, journals the members that a condition let change, or the increment of
/// a single member.
fn journal_changed(call: &mut Call, key: &[u8], done: &Put, by: Option<f64>) {
    match (by, done.changed.first()) {
        (Some(by), Some((_, member))) => {
            let text = score_text(by);
            call.keyspace.journal_as(&[b"ZINCRBY", key, &text, member]);
        }
        _ => journal_scores(call, key, &done.changed),
    }
}

fn score_text(score: f64) -> Vec<u8> {
    let mut text = Vec::new();
    number::format_f64_shortest(&mut text, score);
    text
}

/// With active-active peers, journals the added members: all of them, or with a condition only
/// those that changed.
pub(crate) fn journal_added(call: &mut Call, key: &[u8], rule: AddRule, pairs: &[(f64, &[u8])], done: &Put) {
    journal_scores(call, key, if rule == AddRule::default() { pairs } else { &done.changed });
}

/// With active-active peers, journals members and their scores in place of the current command.
fn journal_scores(call: &mut Call, key: &[u8], pairs: &[(f64, &[u8])]) {
    if pairs.is_empty() || !call.keyspace.journals_for_peers() {
        return;
    }
    let scores: Vec<Vec<u8>> = pairs.iter().map(|(score, _)| score_text(*score)).collect();
    let texts = scores.iter().zip(pairs).flat_map(|(score, (_, member))| [&score[..], member]);
    let args: Vec<&[u8]> = [b"ZADD", key].into_iter().chain(texts).collect();
    call.keyspace.journal_as(&args);
}

fn reply_score(call: &mut Call, score: Option<f64>) {
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
}
