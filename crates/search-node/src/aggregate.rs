// SPDX-License-Identifier: BSD-3-Clause
//! FT.AGGREGATE and FT.CURSOR.

use std::cell::Cell;
use std::sync::Arc;

use braid_base::clock::unix_ms;
use braid_config::Config;
use braid_executor::Call;
use braid_keyspace::Keyspace;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_search::aggregate::{Builder, Input, Pipeline, Rows, StepReport, Value};
use braid_search::execute::{Hit, Order, Report, SearchOptions};
use braid_search::query::Query;
use braid_search::schema::{Field, Kind};
use braid_spec::{CommandError, CommandResult};

use crate::arguments::{Arguments, error, lossy};
use crate::cursors::{Cursor, Extra};
use crate::definition::Definition;
use crate::index::SearchIndex;
use crate::lookup::{check_rights, index_for_query, wrong_arity};
use crate::profile::{Measured, Processor, Profiling, nanos};
use crate::request::Common;
use crate::run::{DocumentReader, Finish, Found, Running, distance_names, run};
use crate::search::{Shape, begin_results, end_results};
use crate::service::{self, Service};
use crate::values::{Source, all_text, compact, property, reply_json};

/// Rows of a cursor's answer unless COUNT says otherwise.
const COUNT_DEFAULT: usize = 1000;
/// How long a cursor is kept that is not read from.
const IDLE_DEFAULT_MS: i64 = 300_000;

/// The column that says which of the extras belongs to a row (LOAD *).
pub const EXTRA: &str = "\u{0}extra";

/// FT.AGGREGATE's arguments.
struct Request {
    index: Arc<SearchIndex>,
    query: Query,
    common: Common,
    pipeline: Pipeline,
    is_grouped: bool,
    /// Rows at once, and how long the cursor is kept.
    cursor: Option<(usize, i64)>,
    with_scores: bool,
}

pub fn aggregate(call: &mut Call) -> CommandResult {
    let index = index_for_query(call, 1)?;
    let args = call.args;
    aggregate_index(call, index, &args[2..], None)
}

/// Aggregates documents of an index; the arguments begin with the query.
///
/// # Errors
/// What is wrong with them.
pub fn aggregate_index(
    call: &mut Call,
    index: Arc<SearchIndex>,
    args: &[&[u8]],
    mut profiling: Option<Profiling>,
) -> CommandResult {
    let began = nanos();
    let mut request = Request::parse(index, args, &call.engine.config, call.reply.protocol)?;
    let parsed = nanos();
    if profiling.is_some() && request.cursor.is_some() {
        return Err(error("FT.PROFILE does not support cursor"));
    }
    let options = SearchOptions {
        order: Order::Sequence,
        results_max: call.engine.config.search_max_aggregate_results(),
        with_scores: request.with_scores,
        ..SearchOptions::default()
    };
    let mut running =
        Running::begin(&request.index, &request.query, &request.common, &call.engine.config, options)?;
    // A transaction's reply is complete.
    let may_open = !call.session.execution.deny_blocking;
    let Some(engine) = service::of(&call.engine.keyspace).and_then(Service::engine) else {
        return Err(error("The server is shutting down"));
    };
    if let Some(profiling) = &mut profiling {
        running.measure();
        request.pipeline.measure(nanos);
        (profiling.parse_nanos, profiling.plan_nanos) = (parsed - began, nanos() - parsed);
    }
    run(call, running, Rest { request, may_open, engine, profiling })
}

/// PARAMS, before the steps are read: the query's names are known to them.
///
/// # Errors
/// What is wrong with them.
pub fn find_parameters(
    args: &[&[u8]],
    common: &mut Common,
    definition: &Definition,
) -> Result<(), CommandError> {
    for at in 0..args.len() {
        let count = args.get(at + 1).and_then(|text| std::str::from_utf8(text).ok());
        let is_one = args[at].eq_ignore_ascii_case(b"PARAMS")
            && count.is_some_and(|text| text.parse::<usize>().is_ok());
        if is_one {
            common.option(&mut Arguments::new(&args[at..]), definition)?;
        }
    }
    Ok(())
}

/// True if a step is LOAD *.
pub fn loads_all(args: &[&[u8]]) -> bool {
    args.windows(2).any(|pair| pair[0].eq_ignore_ascii_case(b"LOAD") && pair[1] == b"*")
}

impl Request {
    fn parse(
        index: Arc<SearchIndex>,
        all: &[&[u8]],
        config: &Config,
        protocol: Protocol,
    ) -> Result<Request, CommandError> {
        let definition = index.definition();
        let Some((&text, rest)) = all.split_first() else {
            return Err(error("No query string provided"));
        };
        let mut common = Common::new(config, true);
        find_parameters(rest, &mut common, &definition)?;
        let parameters = std::mem::take(&mut common.parameters);
        let mut early = Common::new(config, true);
        early.parameters = parameters;
        let named = early.parse(text, &definition, config)?;
        let mut builder = Builder::new(&definition.schema);
        distance_names(&named).iter().for_each(|name| builder.provide(name));
        if loads_all(rest) {
            builder.provide(EXTRA);
        }
        let (mut cursor, mut is_grouped, mut with_scores) = (None, false, false);
        let mut args = Arguments::new(rest);
        while !args.is_empty() {
            if args.take("WITHCURSOR") {
                cursor = Some(read_cursor(&mut args)?);
            } else if args.take("ADDSCORES") {
                with_scores = true;
                builder.provide("__score");
            } else if !common.option(&mut args, &definition)? {
                is_grouped |= args.is("GROUPBY");
                let step = builder.step(args.rest()).map_err(|wrong| error(wrong.to_string()))?;
                let Some(len) = step else {
                    let word = lossy(args.peek().unwrap_or_default());
                    let position = args.position() + 1;
                    return Err(error(format!(
                        "Unknown argument `{word}` at position {position} for <main>"
                    )));
                };
                args.skip(len);
            }
        }
        common.check_format(&definition, protocol)?;
        let query = common.parse(text, &definition, config)?;
        index.note_use(common.dialect);
        Ok(Request { index, query, common, pipeline: builder.build(), is_grouped, cursor, with_scores })
    }
}

/// What follows WITHCURSOR: rows at once, and for how many milliseconds the cursor is kept.
///
/// # Errors
/// What is wrong with it.
pub fn read_cursor(args: &mut Arguments<'_>) -> Result<(usize, i64), CommandError> {
    let outside = |of: &str| error(format!("Bad arguments for {of}: Value is outside acceptable bounds"));
    let (mut count, mut idle) = (COUNT_DEFAULT, IDLE_DEFAULT_MS);
    loop {
        if args.take("COUNT") {
            count = args.number("COUNT")?;
            if count == 0 {
                return Err(outside("COUNT"));
            }
        } else if args.take("MAXIDLE") {
            idle = args.number("MAXIDLE")?;
            if idle <= 0 {
                return Err(outside("MAXIDLE"));
            }
            idle = idle.min(IDLE_DEFAULT_MS);
        } else {
            return Ok((count, idle));
        }
    }
}

struct Rest {
    request: Request,
    /// A cursor may be opened.
    may_open: bool,
    engine: Arc<braid_executor::Engine>,
    profiling: Option<Profiling>,
}

impl Finish for Rest {
    fn finish(
        self,
        running: Running,
        documents: &dyn DocumentReader,
        reply: &mut ReplyBuffer,
    ) -> CommandResult {
        let Rest { request, may_open, engine, profiling } = self;
        let definition = request.index.definition();
        let is_late = running.is_late;
        let report = running.report();
        let (found, _) = running.found();
        let mut pipeline = request.pipeline;
        let inputs = pipeline.inputs().to_vec();
        let mut extras: Vec<Extra> = Vec::new();
        let loaded = Cell::default();
        let feed = Feed {
            definition: &definition,
            index: &request.index,
            inputs: &inputs,
            found: &found,
            loaded: &loaded,
            is_expanded: request.common.is_expanded,
        };
        for hit in &found.hits {
            if pipeline.is_full() {
                break;
            }
            if let Some(values) = feed.values(hit, documents, &mut extras) {
                pipeline.push(values).map_err(|wrong| error(wrong.to_string()))?;
            }
        }
        let (rows, steps) = pipeline.finish().map_err(|wrong| error(wrong.to_string()))?;
        let total = if request.is_grouped { rows.len() } else { found.total };
        let is_expanded = request.common.is_expanded;
        let mut answer = Answer { rows, extras, is_grouped: request.is_grouped, is_expanded };
        let Some((count, idle_ms)) = request.cursor else {
            let rows = answer.rows.take(usize::MAX);
            let measured = profiling.as_ref().zip(report).map(|(profiling, report)| {
                let processors = processors(&report, loaded.get(), steps);
                Measured { profiling, report, processors, is_late }
            });
            measured.iter().for_each(|measured| measured.begin(reply));
            let is_profile =
                measured.as_ref().is_some_and(|measured| measured.is_among_results(reply.protocol));
            answer.reply(rows, total, is_profile, is_late, reply);
            measured.iter().for_each(|measured| measured.reply(reply));
            return Ok(());
        };
        reply.array(2);
        let rows = answer.rows.take(if may_open { count } else { usize::MAX });
        answer.reply(rows, total, false, is_late, reply);
        let id = if answer.rows.is_empty() {
            Some(0)
        } else {
            answer.open(&request.index, count, idle_ms, &engine.keyspace)
        };
        reply.integer(id.ok_or_else(|| error("Too many cursors allocated for index"))? as i64);
        Ok(())
    }
}

/// What was done with the documents found.
fn processors(report: &Report, (nanos, count): (u64, usize), steps: Vec<StepReport>) -> Vec<Processor> {
    let index = Processor { kind: "Index".to_owned(), nanos: report.root.nanos, count: report.root.count };
    let scorer =
        (report.scored > 0).then(|| Processor::new("Scorer", report.score_nanos, report.scored as usize));
    let loader = (count > 0).then(|| Processor::new("Loader", nanos, count));
    let steps =
        steps.into_iter().map(|step| Processor { kind: step.kind, nanos: step.nanos, count: step.rows });
    std::iter::once(index).chain(scorer).chain(loader).chain(steps).collect()
}

/// Makes rows of documents.
pub struct Feed<'a> {
    pub definition: &'a Definition,
    pub index: &'a SearchIndex,
    pub inputs: &'a [Input],
    pub found: &'a Found,
    /// Nanoseconds for documents that were read, and how many.
    pub loaded: &'a Cell<(u64, usize)>,
    pub is_expanded: bool,
}

impl Feed<'_> {
    /// What the index has of an input; `None` if the document must be read.
    fn known(&self, input: &Input, hit: &Hit, extra: usize) -> Option<Value> {
        match input.path.as_str() {
            EXTRA => return Some(Value::Number(extra as f64)),
            "__key" => return Some(Value::of_bytes(&hit.key)),
            "__score" => return Some(Value::Number(hit.score)),
            _ => {}
        }
        if let Some(at) = self.found.distance_names.iter().position(|name| *name == input.path) {
            return Some(hit.distances.get(at).copied().flatten().map_or(Value::None, Value::Number));
        }
        let field = input.field?;
        let Field { kind, sortable, keep_case, .. } = self.definition.schema.field(field);
        // What a client loads is the document's text, not the one that is sorted by.
        let is_folded = !keep_case && matches!(kind, Kind::Text { .. } | Kind::Tag { .. });
        if !sortable || input.loaded && is_folded {
            return None;
        }
        let part = self.index.index.part(hit.doc.part);
        Some(part.resolve(hit.doc).map_or(Value::None, |doc| part.sort_value(field, doc).into()))
    }

    /// The values of a row. `None` if the document is no more.
    pub fn values(
        &self,
        hit: &Hit,
        documents: &dyn DocumentReader,
        extras: &mut Vec<Extra>,
    ) -> Option<Vec<Value>> {
        let mut values: Vec<Option<Value>> =
            self.inputs.iter().map(|input| self.known(input, hit, extras.len())).collect();
        let wants_all = self.inputs.iter().any(|input| input.path == EXTRA);
        if !wants_all && values.iter().all(Option::is_some) {
            return Some(values.into_iter().flatten().collect());
        }
        let mut is_there = false;
        let (now, began) = (unix_ms(), nanos());
        documents.read(&hit.key, &mut |entry| {
            let Some(source) = entry.and_then(|entry| Source::of(entry, self.definition.is_json)) else {
                return;
            };
            is_there = true;
            for (value, input) in values.iter_mut().zip(self.inputs) {
                if value.is_none() {
                    *value = Some(property(self.definition, &hit.key, &source, &input.path, now));
                }
            }
            if wants_all {
                extras.push(all_fields(&source, now, self.is_expanded));
            }
        });
        let (before, count) = self.loaded.get();
        self.loaded.set((before + nanos().saturating_sub(began), count + usize::from(is_there)));
        is_there.then(|| values.into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn all_fields(source: &Source<'_>, now: i64, is_expanded: bool) -> Extra {
    match source {
        Source::Hash(hash) => hash.iter(now).map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        Source::Json(json) if is_expanded => {
            vec![(b"$".to_vec(), all_text(json, "$").unwrap_or_default())]
        }
        Source::Json(json) => vec![(b"$".to_vec(), compact(json))],
    }
}

/// Rows to be sent.
pub struct Answer {
    pub rows: Rows,
    pub extras: Vec<Extra>,
    pub is_grouped: bool,
    /// FORMAT EXPAND
    pub is_expanded: bool,
}

impl Answer {
    /// Keeps the rows for FT.CURSOR. `None` if the index has too many cursors.
    pub fn open(
        self,
        index: &Arc<SearchIndex>,
        count: usize,
        idle_ms: i64,
        keyspace: &Keyspace,
    ) -> Option<u64> {
        let mut cursor = Cursor::new(Arc::clone(index), self.rows, count, idle_ms);
        (cursor.more, cursor.is_grouped) = (self.extras, self.is_grouped);
        cursor.is_expanded = self.is_expanded;
        service::of(keyspace)?.cursors.lock().open(cursor, unix_ms())
    }

    fn reply(
        &self,
        rows: Vec<Vec<Value>>,
        total: usize,
        is_profile: bool,
        is_late: bool,
        reply: &mut ReplyBuffer,
    ) {
        if reply.protocol == Protocol::Resp3 {
            let shape = Shape { is_expanded: self.is_expanded, is_profile };
            begin_results(reply, total, rows.len(), shape);
            for row in rows {
                reply.map(2);
                reply.simple("extra_attributes");
                self.reply_row(&row, reply);
                reply.simple("values");
                reply.array(0);
            }
            end_results(reply, is_late, is_profile);
            return;
        }
        reply.array(rows.len() + 1);
        reply.integer(total as i64);
        rows.iter().for_each(|row| self.reply_row(row, reply));
    }

    /// Names and values: a map in RESP3.
    pub fn reply_row(&self, row: &[Value], reply: &mut ReplyBuffer) {
        let mut extra: &[(Vec<u8>, Vec<u8>)] = &[];
        let mut shown: Vec<(&str, &Value)> = Vec::new();
        for (name, value) in self.rows.names.iter().zip(row) {
            if name == EXTRA {
                let at = value.number().unwrap_or_default() as usize;
                extra = self.extras.get(at).map_or(&[][..], |extra| extra);
            } else if self.is_grouped || !value.is_none() {
                shown.push((name, value));
            }
        }
        let is_new = |name: &[u8]| !shown.iter().any(|(one, _)| one.as_bytes() == name);
        let extra: Vec<_> = extra.iter().filter(|(name, _)| is_new(name)).collect();
        reply.map(shown.len() + extra.len());
        for (name, value) in &shown {
            reply.bulk(name.as_bytes());
            if self.is_expanded { reply_expanded(value, reply) } else { reply_value(value, reply) }
        }
        for (name, value) in extra {
            reply.bulk(name);
            if self.is_expanded { reply_json(value, false, reply) } else { reply.bulk(value) }
        }
    }
}

fn reply_value(value: &Value, reply: &mut ReplyBuffer) {
    match value {
        Value::None => reply.null(),
        Value::List(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| reply_value(value, reply));
        }
        Value::Bytes(bytes) => reply.bulk(bytes),
        value => reply.bulk(value.shown().as_bytes()),
    }
}

/// With FORMAT EXPAND numbers are numbers.
fn reply_expanded(value: &Value, reply: &mut ReplyBuffer) {
    match value {
        Value::Number(number) if *number == number.trunc() && number.abs() < 1e15 => {
            reply.integer(*number as i64);
        }
        Value::Number(number) => reply.double(*number),
        Value::List(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| reply_expanded(value, reply));
        }
        value => reply_value(value, reply),
    }
}

/// FT.CURSOR READ and DEL.
pub fn cursor(call: &mut Call) -> CommandResult {
    let Some(service) = service::of(&call.engine.keyspace) else { return Err(error("Cursor not found")) };
    let args = call.args;
    let (is_read, is_delete) = (call.arg_is(1, "READ"), call.arg_is(1, "DEL"));
    if !is_read && !is_delete && !call.arg_is(1, "GC") {
        return Err(error("Unknown subcommand"));
    }
    let id = args.get(3).ok_or_else(|| wrong_arity(call))?;
    let id = std::str::from_utf8(id).ok().and_then(|text| text.parse::<u64>().ok());
    let id = id.ok_or_else(|| error("Bad cursor ID"))?;
    let now = unix_ms();
    if !is_read {
        let known = service.cursors.lock().take(id, now);
        known.ok_or_else(|| error("Cursor does not exist"))?;
        call.reply.ok();
        return Ok(());
    }
    let mut options = Arguments::new(&args[4..]);
    let given = if options.take("COUNT") { Some(options.number::<usize>("COUNT")?) } else { None };
    let cursor = service.cursors.lock().take(id, now).ok_or_else(|| error("Cursor not found"))?;
    check_rights(call, &cursor.index)?;
    let Cursor { index, rows, count, idle_ms, more, is_grouped, is_expanded, .. } = cursor;
    let mut answer = Answer { rows, extras: more, is_grouped, is_expanded };
    let rows = answer.rows.take(given.filter(|count| *count > 0).unwrap_or(count));
    call.reply.array(2);
    answer.reply(rows, 0, false, false, call.reply);
    let next = if answer.rows.is_empty() { 0 } else { id };
    call.reply.integer(next as i64);
    if next != 0 {
        let mut cursor = Cursor::new(index, answer.rows, count, idle_ms);
        (cursor.more, cursor.is_grouped) = (answer.extras, answer.is_grouped);
        cursor.is_expanded = answer.is_expanded;
        service.cursors.lock().give_back(id, cursor, now);
    }
    Ok(())
}
