// SPDX-License-Identifier: BSD-3-Clause
//! Queries by labels: TS.QUERYINDEX, TS.QUERYLABELS, TS.MGET, TS.MRANGE and TS.MREVRANGE.
//!
//! The index says which keys to look at (crate `values`, `time_series/index.rs`). Their locks are
//! taken together, and if the index has gained nothing since it was asked, the reply is that of one
//! moment; otherwise it is asked again.

use std::collections::{BTreeMap, BTreeSet};

use braid_executor::Call;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::time_series::fold::{Fold, Kind};
use braid_values::time_series::index::{Found, Indexes};
use braid_values::time_series::labels::Labels;
use braid_values::time_series::{Sample, Series};

use super::arguments::{self, find, text};
use super::filter::Filters;
use super::{reply, rules};

/// How often the index is asked again before what was found is taken.
const ATTEMPTS: usize = 16;

const NO_PERMISSION: &str = "NOPERM No permissions to access a key";
/// The command that a client must be allowed on each key.
const READ_BY_KEY: &[u8] = b"ts.get";

/// Calls `read` with the keys of the series that meet the filters, under their locks, if the client
/// may read all of them.
fn with_series(
    call: &mut Call,
    filters: &Filters<'_>,
    needs_sources: bool,
    read: impl FnOnce(&mut Call, &[Box<[u8]>]) -> CommandResult,
) -> CommandResult {
    with_any_series(call, filters, needs_sources, |call, keys| {
        let permitted = permitted(call, keys).len();
        if permitted == keys.len() { read(call, keys) } else { Err(text(NO_PERMISSION)) }
    })
}

/// Like [`with_series`], whether the client may read them or not.
fn with_any_series(
    call: &mut Call,
    filters: &Filters<'_>,
    needs_sources: bool,
    read: impl FnOnce(&mut Call, &[Box<[u8]>]) -> CommandResult,
) -> CommandResult {
    if !call.keyspace.may_walk() {
        return Err(text("ERR This command cannot run while only some keys are locked"));
    }
    call.keyspace.index_now();
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let indexes = Indexes::of(keyspace).ok_or(text("ERR TSDB: no index"))?;
    let mut attempt = 0;
    loop {
        let mut found: Found = indexes.find(keyspace, db, now, filters.named());
        let wanted = found.keys.clone();
        if needs_sources {
            add_sources(call, &mut found);
        }
        let locked = call.keyspace.lock_found(&found.keys);
        attempt += 1;
        if locked && attempt < ATTEMPTS && !indexes.is_current(db, &found) {
            call.keyspace.unlock_found();
            continue;
        }
        let keys = meeting(call, indexes, filters, wanted);
        let result = read(call, &keys);
        if locked {
            call.keyspace.unlock_found();
        }
        return result;
    }
}

/// Those of the keys that the client may read. The keys of a query are not among its arguments, so
/// nobody has checked them.
fn permitted<'k>(call: &Call, keys: &'k [Box<[u8]>]) -> Vec<&'k [u8]> {
    let (user, db) = (&call.session.login.user, call.keyspace.db());
    let reads_all = user.check_reading_all(call.command, call.args, db);
    let get = call.engine.commands.find(READ_BY_KEY);
    let by_key = |key: &[u8]| get.is_some_and(|get| user.check(get, &[READ_BY_KEY, key], db).is_ok());
    keys.iter().map(|key| &**key).filter(|key| reads_all || by_key(key)).collect()
}

/// Adds the keys of the sources, whose open buckets LATEST reports.
fn add_sources(call: &Call, found: &mut Found) {
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let sources: Vec<Box<[u8]>> = found
        .keys
        .iter()
        .filter_map(|key| {
            keyspace.look_at(db, key, now, |entry| {
                let braid_keyspace::ValueRef::Object(object) = entry?.value() else { return None };
                object.downcast::<Series>()?.source().map(Box::from)
            })
        })
        .collect();
    found.keys.extend(sources);
}

/// Those of the candidates that meet the filters. Candidates that the index should not have named
/// are removed from it.
fn meeting(
    call: &Call,
    indexes: &Indexes,
    filters: &Filters<'_>,
    candidates: Vec<Box<[u8]>>,
) -> Vec<Box<[u8]>> {
    let db = call.keyspace.db();
    let labels = |key: &[u8]| call.keyspace.peek_as::<Series>(key).ok().flatten().map(Series::labels);
    let mut keys = candidates;
    let Some(named) = filters.named() else {
        let is_gone = |key: &&[u8]| labels(key).is_none_or(Labels::is_empty);
        let gone: Vec<&[u8]> = keys.iter().map(|key| &**key).filter(is_gone).collect();
        if !gone.is_empty() {
            indexes.forget_all(db, &gone);
        }
        keys.retain(|key| labels(key).is_some());
        return keys;
    };
    let is_named =
        |labels: &Labels| labels.iter().any(|(name, value)| name == named.0 && named.1.contains(&value));
    keys.retain(|key| {
        let labels = labels(key);
        if !labels.is_some_and(is_named) {
            indexes.forget(db, key, named);
        }
        labels.is_some_and(|labels| filters.meet(labels))
    });
    keys
}

pub(super) fn queryindex(call: &mut Call) -> CommandResult {
    let filters = Filters::parse(&call.args[1..])?;
    with_series(call, &filters, false, |call, keys| {
        call.reply.set(keys.len());
        keys.iter().for_each(|key| call.reply.bulk(key));
        Ok(())
    })
}

/// TS.QUERYLABELS leaves out what the client may not read, unlike the other queries.
pub(super) fn querylabels(call: &mut Call) -> CommandResult {
    let args = call.args;
    let (wanted, from) = match args[1].to_ascii_uppercase().as_slice() {
        b"LABELS" => (None, 2),
        b"VALUES" => (Some(*args.get(2).ok_or_else(|| call.wrong_arity())?), 3),
        _ => return Err(text("ERR TSDB: expected LABELS or VALUES")),
    };
    let filters = match &args[from..] {
        [] => Filters::none(),
        [word, filters @ ..] if !filters.is_empty() && word.eq_ignore_ascii_case(b"FILTER") => {
            Filters::parse(filters)?
        }
        _ => return Err(call.wrong_arity()),
    };
    with_any_series(call, &filters, false, |call, keys| {
        let mut found: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for key in permitted(call, keys) {
            let Ok(Some(series)) = call.keyspace.read_as::<Series>(key) else { continue };
            for (name, value) in series.labels().iter() {
                let text = if wanted.is_some() { value } else { name };
                if wanted.is_none_or(|wanted| wanted == name) && !found.contains(text) {
                    found.insert(text.into());
                }
            }
        }
        call.reply.set(found.len());
        found.iter().for_each(|text| call.reply.bulk(text));
        Ok(())
    })
}

/// Which labels are reported.
enum Shown<'a> {
    None,
    All,
    Selected(Vec<&'a [u8]>),
}

/// Words of TS.MGET and TS.MRANGE that end the labels of SELECTED_LABELS.
const WORDS: [&str; 12] = [
    "FILTER",
    "LATEST",
    "WITHLABELS",
    "COUNT",
    "ALIGN",
    "AGGREGATION",
    "BUCKETTIMESTAMP",
    "EMPTY",
    "FILTER_BY_TS",
    "FILTER_BY_VALUE",
    "GROUPBY",
    "REDUCE",
];

fn shown<'a>(args: &[&'a [u8]], end: usize) -> Result<Shown<'a>, CommandError> {
    let args = &args[..end];
    let all = find(args, 1, "WITHLABELS");
    let Some(at) = find(args, 1, "SELECTED_LABELS") else {
        return Ok(if all.is_some() { Shown::All } else { Shown::None });
    };
    if all.is_some() {
        return Err(text("ERR TSDB: cannot accept WITHLABELS and SELECT_LABELS together"));
    }
    let is_label = |text: &&&[u8]| !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    let labels: Vec<&[u8]> = args[at + 1..].iter().take_while(is_label).copied().collect();
    if labels.is_empty() {
        return Err(text("ERR TSDB: SELECT_LABELS should have at least 1 parameter"));
    }
    Ok(Shown::Selected(labels))
}

impl Shown<'_> {
    fn reply(&self, reply: &mut ReplyBuffer, labels: &Labels) {
        match self {
            Shown::All => reply::labels(reply, labels),
            Shown::None => reply::begin_pairs(reply, 0),
            Shown::Selected(names) => {
                reply::begin_pairs(reply, names.len());
                for name in names {
                    reply::pair(reply, name, labels.get(name));
                }
            }
        }
    }
}

/// Begins the entry of a series; `parts` follow its key.
fn begin_entry(reply: &mut ReplyBuffer, key: &[u8], parts: usize) {
    if reply.protocol == Protocol::Resp2 {
        reply.array(parts + 1);
        reply.bulk(key);
    } else {
        reply.bulk(key);
        reply.array(parts);
    }
}

pub(super) fn mget(call: &mut Call) -> CommandResult {
    let args = call.args;
    let Some(at) = find(args, 1, "FILTER").filter(|_| args.len() > 2) else {
        return Err(call.wrong_arity());
    };
    let shown = shown(args, at)?;
    let with_latest = find(&args[..at], 1, "LATEST").is_some();
    let filters = Filters::parse(&args[at + 1..])?;
    with_series(call, &filters, with_latest, |call, keys| {
        reply::begin_series(call.reply, keys.len());
        for key in keys {
            let Ok(Some(series)) = call.keyspace.read_as::<Series>(key) else { continue };
            begin_entry(call.reply, key, 2);
            shown.reply(call.reply, series.labels());
            let latest = if with_latest { rules::latest(call.keyspace, key) } else { None };
            match latest.or_else(|| series.last()) {
                Some(last) => reply::sample(call.reply, last),
                None => call.reply.array(0),
            }
        }
        Ok(())
    })
}

pub(super) fn mrange(call: &mut Call) -> CommandResult {
    reply_ranges(call, false)
}

pub(super) fn mrevrange(call: &mut Call) -> CommandResult {
    reply_ranges(call, true)
}

/// GROUPBY and REDUCE.
struct Grouping<'a> {
    label: &'a [u8],
    kind: Kind,
}

fn grouping<'a>(call: &Call<'a, '_>, filter: usize) -> Result<Option<(usize, Grouping<'a>)>, CommandError> {
    let args = call.args;
    let Some(at) = find(args, 3, "GROUPBY") else { return Ok(None) };
    if at < filter {
        return Err(text("ERR TSDB: GROUPBY should always come after filter"));
    }
    if args.len() != at + 4 || !call.arg_is(at + 2, "REDUCE") {
        return Err(call.wrong_arity());
    }
    let kind = Kind::named(args[at + 3]);
    let kind = kind.filter(|kind| !matches!(kind, Kind::First | Kind::Last | Kind::Twa));
    let kind = kind.ok_or(text("ERR TSDB: Invalid reducer type"))?;
    Ok(Some((at, Grouping { label: args[at + 1], kind })))
}

fn reply_ranges(call: &mut Call, is_reverse: bool) -> CommandResult {
    let args = call.args;
    let Some(at) = find(args, 3, "FILTER") else {
        arguments::times(args[1], args[2])?;
        return Err(call.wrong_arity());
    };
    let range = arguments::range_within(call, 1, is_reverse, at)?;
    let shown = shown(args, at)?;
    let with_latest = find(&args[..at], 3, "LATEST").is_some();
    let grouping = grouping(call, at)?;
    let end = grouping.as_ref().map_or(args.len(), |(at, _)| *at);
    if at + 1 == end {
        return Err(text("ERR TSDB: missing labels for filter argument"));
    }
    let filters = Filters::parse(&args[at + 1..end])?;
    with_series(call, &filters, with_latest, |call, keys| {
        let mut groups = Groups::default();
        if grouping.is_none() {
            reply::begin_series(call.reply, keys.len());
        }
        for key in keys {
            let Ok(Some(series)) = call.keyspace.read_as::<Series>(key) else { continue };
            let latest = if with_latest { rules::latest(call.keyspace, key) } else { None };
            let found = range.of(series, latest).map_err(|error| CommandError::text(error.to_string()))?;
            if let Some((_, grouping)) = &grouping {
                groups.add(grouping, key, series.labels(), &found);
                continue;
            }
            let is_resp3 = call.reply.protocol == Protocol::Resp3;
            begin_entry(call.reply, key, if is_resp3 { 3 } else { 2 });
            shown.reply(call.reply, series.labels());
            if is_resp3 {
                let kind = range.buckets.as_ref().map(|buckets| buckets.kind);
                reply::kinds(call.reply, "aggregators", kind);
            }
            reply::samples(call.reply, &found);
        }
        if let Some((_, grouping)) = &grouping {
            groups.reply(call.reply, grouping, &shown, range.most, is_reverse);
        }
        Ok(())
    })
}

/// Series with one value of a label.
#[derive(Default)]
struct Group {
    keys: Vec<Box<[u8]>>,
    samples: BTreeMap<u64, Fold>,
}

/// The groups of a query, by value.
#[derive(Default)]
struct Groups(BTreeMap<Box<[u8]>, Group>);

impl Groups {
    fn add(&mut self, grouping: &Grouping<'_>, key: &[u8], labels: &Labels, samples: &[Sample]) {
        let Some(value) = labels.get(grouping.label) else { return };
        let group = self.0.entry(value.into()).or_default();
        group.keys.push(key.into());
        for &sample in samples {
            let fold = group.samples.entry(sample.time).or_insert_with(|| Fold::new(grouping.kind));
            fold.add(sample);
        }
    }

    fn reply(
        self,
        reply: &mut ReplyBuffer,
        grouping: &Grouping<'_>,
        shown: &Shown<'_>,
        most: usize,
        is_reverse: bool,
    ) {
        let kind = grouping.kind.name().to_ascii_lowercase();
        let is_resp3 = reply.protocol == Protocol::Resp3;
        reply::begin_series(reply, self.0.len());
        for (value, group) in self.0 {
            begin_entry(reply, &[grouping.label, b"=", &value].concat(), if is_resp3 { 4 } else { 2 });
            let sources = group.keys.join(&b","[..]);
            let facts: [(&[u8], &[u8]); 3] =
                [(grouping.label, &value), (b"__reducer__", kind.as_bytes()), (b"__source__", &sources)];
            let known = if is_resp3 { &facts[..1] } else { &facts[..] };
            match shown {
                Shown::None => reply::begin_pairs(reply, 0),
                Shown::All => {
                    reply::begin_pairs(reply, known.len());
                    known.iter().for_each(|(name, value)| reply::pair(reply, name, Some(value)));
                }
                Shown::Selected(names) => {
                    reply::begin_pairs(reply, names.len());
                    for name in names {
                        let fact = known.iter().find(|(known, _)| known == name);
                        reply::pair(reply, name, fact.map(|(_, value)| *value));
                    }
                }
            }
            if is_resp3 {
                reply::kinds(reply, "reducers", Some(grouping.kind));
                reply.map(1);
                reply.bulk(b"sources");
                reply.array(group.keys.len());
                group.keys.iter().for_each(|key| reply.bulk(key));
            }
            let reduced = group.samples.into_iter();
            let mut samples: Vec<Sample> =
                reduced.map(|(time, fold)| Sample { time, value: fold.value() }).collect();
            if is_reverse {
                samples.reverse();
            }
            samples.truncate(most);
            reply::samples(reply, &samples);
        }
    }
}
