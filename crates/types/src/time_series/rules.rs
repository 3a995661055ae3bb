// SPDX-License-Identifier: BSD-3-Clause
//! TS.CREATERULE and TS.DELETERULE, and what rules do to their targets.
//!
//! The locks of a key's source and targets are held with the key's own (`keyspace/links.rs`).
//! Targets are changed without a request of their own in the journal: whoever repeats the request
//! on the source has the same rules.

use braid_executor::Call;
use braid_keyspace::{Event, Txn};
use braid_spec::{CommandError, CommandResult};
use braid_values::time_series::links::Rule;
use braid_values::time_series::rules::Effect;
use braid_values::time_series::{Sample, Series};

use super::arguments::{NO_KEY, NOT_SERIES, aggregator, text};

const CREATE_SOURCE: Event = Event::module("ts.createrule:src");
const CREATE_TARGET: Event = Event::module("ts.createrule:dest");
const DELETE_SOURCE: Event = Event::module("ts.deleterule:src");
const DELETE_TARGET: Event = Event::module("ts.deleterule:dest");
const ADD_TARGET: Event = Event::module("ts.add:dest");
/// A change that no event tells of.
const QUIET: Event = Event { class: 0, name: "" };

fn peek<'t>(txn: &'t Txn<'_>, key: &[u8]) -> Option<&'t Series> {
    txn.peek_as::<Series>(key).ok().flatten()
}

/// The source of the series at a key, if it has a rule for it.
pub(super) fn source_of(txn: &Txn<'_>, key: &[u8]) -> Option<Box<[u8]>> {
    let source = peek(txn, key)?.source()?;
    let holds = peek(txn, source).is_some_and(|source| source.rule_for(key).is_some());
    holds.then(|| source.into())
}

/// True if the rule of a source holds: its target names the source.
pub(super) fn holds(txn: &Txn<'_>, source: &[u8], rule: &Rule) -> bool {
    peek(txn, &rule.target).is_some_and(|target| target.source() == Some(source))
}

/// The value of the open bucket for the target at a key.
pub(super) fn latest(txn: &Txn<'_>, key: &[u8]) -> Option<Sample> {
    let source = source_of(txn, key)?;
    peek(txn, &source)?.rule_for(key)?.latest()
}

/// Effects of a change on targets.
pub(super) type Effects = Vec<(Box<[u8]>, Effect)>;

/// Changes the targets of a source. A rule whose target does not name the source is removed.
pub(super) fn apply(call: &mut Call, source: &[u8], effects: Effects, appended: bool) {
    for (target, effect) in effects {
        let series = call.keyspace.write_as::<Series>(&target).ok().flatten();
        match series.filter(|series| series.source() == Some(source)) {
            Some(series) => {
                if series.take_effect(effect) {
                    let event = if appended { ADD_TARGET } else { QUIET };
                    call.keyspace.finish_change(event, &target, 1, false);
                }
            }
            None => {
                if let Ok(Some(series)) = call.keyspace.write_as::<Series>(source) {
                    series.remove_rule(&target);
                }
            }
        }
    }
}

pub(super) fn create(call: &mut Call) -> CommandResult {
    let args = call.args;
    if !(6..=7).contains(&args.len()) || !call.arg_is(3, "AGGREGATION") {
        return Err(call.wrong_arity());
    }
    let (kind, span) = aggregator(args, 3)?;
    let align = match args.get(6) {
        Some(given) => braid_base::number::parse_i64(given)
            .and_then(|align| u64::try_from(align).ok())
            .ok_or(text("ERR TSDB: Couldn't parse alignTimestamp"))?,
        None => 0,
    };
    let (source, target) = (args[1], args[2]);
    if source == target {
        return Err(text("ERR TSDB: the source key and destination key should be different"));
    }
    if call.keyspace.keyspace().is_by_slot() {
        return Err(text("ERR TSDB: compaction rules are not supported in a cluster"));
    }
    check(call, source, target)?;
    call.keyspace.keyspace().note_links();
    let rule = Rule::new(target, kind, span, align);
    if let Some(series) = write(call, source)? {
        series.add_rule(source, rule);
    }
    if let Some(series) = write(call, target)? {
        series.set_source(target, Some(source));
    }
    call.keyspace.finish_change(CREATE_SOURCE, source, 1, false);
    call.keyspace.finish_change(CREATE_TARGET, target, 1, false);
    call.reply.ok();
    Ok(())
}

fn write<'c>(call: &'c mut Call, key: &[u8]) -> Result<Option<&'c mut Series>, CommandError> {
    call.keyspace.write_as::<Series>(key).map_err(|_| text(NOT_SERIES))
}

/// Checks that both keys exist, and may be source and target.
fn check(call: &Call, source: &[u8], target: &[u8]) -> CommandResult {
    let txn = &*call.keyspace;
    for key in [source, target] {
        txn.peek_as::<Series>(key).map_err(|_| text(NOT_SERIES))?.ok_or(text(NO_KEY))?;
    }
    if source_of(txn, source).is_some() {
        return Err(text("ERR TSDB: the source key already has a source rule"));
    }
    if source_of(txn, target).is_some() {
        return Err(text("ERR TSDB: the destination key already has a src rule"));
    }
    let rules = peek(txn, target).map_or(&[][..], Series::rules);
    if rules.iter().any(|rule| holds(txn, target, rule)) {
        return Err(text("ERR TSDB: the destination key already has a dst rule"));
    }
    Ok(())
}

pub(super) fn delete(call: &mut Call) -> CommandResult {
    let (source, target) = (call.args[1], call.args[2]);
    for key in [source, target] {
        call.keyspace.peek_as::<Series>(key).map_err(|_| text(NOT_SERIES))?.ok_or(text(NO_KEY))?;
    }
    if source_of(call.keyspace, target).as_deref() != Some(source) {
        return Err(text("ERR TSDB: compaction rule does not exist"));
    }
    if let Some(series) = write(call, source)? {
        series.remove_rule(target);
    }
    if let Some(series) = write(call, target)? {
        series.set_source(target, None);
    }
    call.keyspace.finish_change(DELETE_SOURCE, source, 1, false);
    call.keyspace.finish_change(DELETE_TARGET, target, 1, false);
    call.reply.ok();
    Ok(())
}
