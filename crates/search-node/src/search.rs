// SPDX-License-Identifier: BSD-3-Clause
//! FT.SEARCH: what is returned of the documents found, and how.

use std::cmp::Ordering;
use std::sync::Arc;

use braid_executor::Call;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_search::aggregate::Value;
use braid_search::execute::{Explanation, Hit, Matched, Order, Report, SearchOptions};
use braid_search::index::SortValue;
use braid_search::schema::Kind;
use braid_search::text::{highlight, summarize};
use braid_spec::CommandResult;
use braid_values::json::value::Json;

use crate::definition::Definition;
use crate::index::SearchIndex;
use crate::lookup::index_for_query;
use crate::profile::{Measured, Processor, Profiling, nanos};
use crate::request::{Content, SearchRequest};
use crate::run::{DocumentReader, Finish, Found, Running, Sorting, run};
use crate::values::{Source, all_text, compact, reply_json};

pub fn search(call: &mut Call) -> CommandResult {
    let index = index_for_query(call, 1)?;
    let args = call.args;
    search_index(call, index, &args[2..], None)
}

/// Searches an index; the arguments begin with the query.
///
/// # Errors
/// What is wrong with them.
pub fn search_index(
    call: &mut Call,
    index: Arc<SearchIndex>,
    args: &[&[u8]],
    mut profiling: Option<Profiling>,
) -> CommandResult {
    let began = nanos();
    let request = SearchRequest::parse(index, args, &call.engine.config, call.reply.protocol)?;
    let parsed = nanos();
    let definition = request.index.definition();
    let sorting = match &request.sort {
        None => Sorting::Known(Order::Score),
        Some((name, descending)) => Sorting::by(name, *descending, &request.query, &definition)?,
    };
    let mut options = SearchOptions {
        results_max: request.offset.saturating_add(request.count),
        with_scores: request.with_scores,
        explains: request.explains,
        ..SearchOptions::default()
    };
    let loaded_sort = match sorting {
        Sorting::Known(order) => {
            options.order = order;
            None
        }
        Sorting::Loaded { path, is_number, descending } => {
            options.order = Order::Sequence;
            options.results_max = call.engine.config.search_max_search_results();
            Some(LoadedSort { path, is_number, descending })
        }
    };
    let mut running =
        Running::begin(&request.index, &request.query, &request.common, &call.engine.config, options)?;
    if let Some(profiling) = &mut profiling {
        running.measure();
        (profiling.parse_nanos, profiling.plan_nanos) = (parsed - began, nanos() - parsed);
    }
    run(call, running, Rest { request, loaded_sort, profiling })
}

/// Results are sorted by a value that the index does not have.
struct LoadedSort {
    path: String,
    is_number: bool,
    descending: bool,
}

struct Rest {
    request: SearchRequest,
    loaded_sort: Option<LoadedSort>,
    profiling: Option<Profiling>,
}

/// A result as it is returned.
struct Row {
    hit: Hit,
    /// `None`: its content is not asked for.
    fields: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Finish for Rest {
    fn finish(
        self,
        running: Running,
        documents: &dyn DocumentReader,
        reply: &mut ReplyBuffer,
    ) -> CommandResult {
        let Rest { request, loaded_sort, profiling } = self;
        let definition = request.index.definition();
        let is_late = running.is_late;
        let report = running.report();
        let sorted = nanos();
        let (mut found, matched) = running.found();
        if let Some(sort) = &loaded_sort {
            sort.apply(&mut found, &definition, documents, request.offset.saturating_add(request.count));
        }
        let hits = std::mem::take(&mut found.hits);
        let (best, loaded) = (hits.len(), nanos());
        let mut rows = Vec::new();
        let shown = Shown { request: &request, definition: &definition, matched: &matched };
        for hit in hits.into_iter().skip(request.offset) {
            match shown.row(hit, &found.distance_names, documents) {
                Some(row) => rows.push(row),
                // It has expired, or was removed since.
                None => found.total = found.total.saturating_sub(1),
            }
        }
        let ended = nanos();
        let measured = profiling.as_ref().zip(report).map(|(profiling, report)| {
            let times = Times { sort: loaded - sorted, load: ended - loaded };
            let processors = shown.processors(&report, times, best, rows.len());
            Measured { profiling, report, processors, is_late }
        });
        measured.iter().for_each(|measured| measured.begin(reply));
        shown.reply(&rows, found.total, measured.as_ref(), is_late, reply);
        measured.iter().for_each(|measured| measured.reply(reply));
        Ok(())
    }
}

impl LoadedSort {
    fn apply(&self, found: &mut Found, definition: &Definition, documents: &dyn DocumentReader, most: usize) {
        for hit in &mut found.hits {
            documents.read(&hit.key, &mut |entry| {
                let source = entry.and_then(|entry| Source::of(entry, definition.is_json));
                let text = source.and_then(|source| source.text(&self.path, 0));
                let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
                hit.sort = match text {
                    None => SortValue::None,
                    Some(text) if self.is_number => text.parse().map_or(SortValue::None, SortValue::Number),
                    Some(text) => SortValue::Text(text.to_lowercase().into()),
                };
            });
        }
        found.hits.sort_by(|one, other| {
            let order = match self.descending && !one.sort.is_none() && !other.sort.is_none() {
                true => other.sort.compare(&one.sort),
                false => one.sort.compare(&other.sort),
            };
            let by_sequence = match self.descending {
                true => other.sequence.cmp(&one.sequence),
                false => one.sequence.cmp(&other.sequence),
            };
            if order == Ordering::Equal { by_sequence } else { order }
        });
        found.hits.truncate(most);
    }
}

/// Nanoseconds of what is done with the results.
struct Times {
    sort: u64,
    load: u64,
}

struct Shown<'a> {
    request: &'a SearchRequest,
    definition: &'a Definition,
    matched: &'a Matched,
}

impl Shown<'_> {
    /// The result's row; `None` if its document is no more.
    fn row(&self, hit: Hit, distance_names: &[String], documents: &dyn DocumentReader) -> Option<Row> {
        let mut fields = None;
        let mut is_there = false;
        documents.read(&hit.key, &mut |entry| {
            let source = entry.and_then(|entry| Source::of(entry, self.definition.is_json));
            is_there = source.is_some();
            if let Some(source) = source {
                fields = self.fields(&source, &hit, distance_names);
            }
        });
        is_there.then_some(Row { hit, fields })
    }

    fn fields(
        &self,
        source: &Source<'_>,
        hit: &Hit,
        distance_names: &[String],
    ) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let distance = |name: &str| {
            let at = distance_names.iter().position(|one| one == name)?;
            hit.distances.get(at).copied().flatten()
        };
        let shown_distance = |distance: f64| Value::Number(distance).shown().into_bytes();
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        match &self.request.content {
            Content::Nothing => return None,
            Content::These(returned) => {
                // Distances come first, as in RediSearch.
                let is_distance = |name: &str| distance(name).is_some();
                let (first, rest): (Vec<_>, Vec<_>) = returned.iter().partition(|one| is_distance(&one.path));
                for one in first {
                    let value = shown_distance(distance(&one.path).unwrap_or_default());
                    fields.push((one.name.clone().into(), value));
                }
                for one in rest {
                    if let Some(value) = self.value(source, &one.path) {
                        fields.push((one.name.clone().into(), value));
                    }
                }
            }
            Content::All => {
                for name in distance_names {
                    if let Some(distance) = distance(name) {
                        fields.push((name.clone().into(), shown_distance(distance)));
                    }
                }
                if let Some((name, _)) = &self.request.sort
                    && distance(name).is_none()
                    && let Some(value) = self.value(source, name)
                {
                    fields.push((name.clone().into(), value));
                }
                self.push_all(source, &mut fields);
            }
        }
        Some(fields)
    }

    fn push_all(&self, source: &Source<'_>, fields: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        match source {
            Source::Hash(hash) => {
                for (name, value) in hash.iter(braid_base::clock::unix_ms()) {
                    let name = name.to_vec();
                    if fields.iter().any(|(one, _)| *one == name) {
                        continue;
                    }
                    let text = String::from_utf8_lossy(&name).into_owned();
                    fields.push((name, self.marked(&text, value.to_vec())));
                }
            }
            Source::Json(json) => fields.push((b"$".to_vec(), self.whole(json))),
        }
    }

    fn whole(&self, json: &Json) -> Vec<u8> {
        match self.request.common.dialect >= 3 {
            true => all_text(json, "$").unwrap_or_default(),
            false => compact(json),
        }
    }

    /// A value by the name of a field or a path, marked.
    fn value(&self, source: &Source<'_>, name: &str) -> Option<Vec<u8>> {
        let path = self.definition.field(name).map_or(name, |field| &field.path);
        let value = match source {
            Source::Json(json) if self.request.common.dialect >= 3 => all_text(json, path)?,
            // Without a `$` it is the name of a field, and there is none.
            Source::Json(_) if !path.starts_with('$') => return None,
            source => source.text(path, braid_base::clock::unix_ms())?,
        };
        Some(self.marked(name, value))
    }

    /// HIGHLIGHT and SUMMARIZE on the value of a field.
    fn marked(&self, name: &str, value: Vec<u8>) -> Vec<u8> {
        let marks = &self.request.marks;
        let is_text =
            self.definition.field(name).is_some_and(|field| matches!(field.kind, Kind::Text { .. }));
        let is_marked = marks.highlight.is_some() || marks.summarize.is_some();
        if !is_text || !is_marked || self.request.common.is_expanded {
            return value;
        }
        let concerns = |fields: &[String]| fields.is_empty() || fields.iter().any(|one| one == name);
        let highlighter =
            marks.highlight.as_ref().filter(|(fields, _)| concerns(fields)).map(|(_, marks)| marks);
        let summary = marks.summarize.as_ref().filter(|(fields, _)| concerns(fields));
        let text = String::from_utf8_lossy(&value);
        let matched = |word: &str| self.matched.contains(word);
        match (summary, highlighter) {
            (Some((_, summary)), marks) => {
                let stop_words = &self.definition.schema.stop_words;
                let is_counted = |word: &str| !stop_words.contains(word);
                let term = |word: &str| self.matched.term(word);
                summarize(&text, summary, marks, term, is_counted).into_bytes()
            }
            (None, Some(marks)) => highlight(&text, marks, matched).into_bytes(),
            (None, None) => value,
        }
    }

    /// What was done with the results; `best` of them were sorted, the last `rows` read.
    fn processors(&self, report: &Report, times: Times, best: usize, rows: usize) -> Vec<Processor> {
        let request = self.request;
        let (is_nearest, by_score) = (report.is_nearest, request.sort.is_none() || request.with_scores);
        let index =
            Processor { kind: "Index".to_owned(), nanos: report.root.nanos, count: report.root.count };
        let found = report.root.count as usize;
        let mut all = vec![index];
        all.extend(is_nearest.then(|| Processor::new("Metrics Applier", 0, found)));
        all.extend(by_score.then(|| Processor::new("Scorer", report.score_nanos, report.scored as usize)));
        all.push(Processor::new("Sorter", report.sort_nanos + times.sort, best));
        all.extend((request.offset > 0).then(|| Processor::new("Pager/Limiter", 0, rows)));
        if !matches!(request.content, Content::Nothing) {
            all.push(Processor::new("Loader", times.load, rows));
            let marks = &request.marks;
            // Values are marked as they are read.
            let is_marked = marks.highlight.is_some() || marks.summarize.is_some();
            all.extend(is_marked.then(|| Processor::new("Highlighter", 0, rows)));
        }
        all
    }

    fn reply(
        &self,
        rows: &[Row],
        total: usize,
        measured: Option<&Measured<'_>>,
        is_late: bool,
        reply: &mut ReplyBuffer,
    ) {
        if reply.protocol == Protocol::Resp3 {
            let is_expanded = self.request.common.is_expanded;
            let is_profile = measured.is_some_and(|measured| measured.is_among_results(reply.protocol));
            begin_results(reply, total, rows.len(), Shape { is_expanded, is_profile });
            rows.iter().for_each(|row| self.reply_map(row, reply));
            end_results(reply, is_late, is_profile);
            return;
        }
        let request = self.request;
        let per_row = 1
            + usize::from(request.with_scores)
            + usize::from(request.with_payloads)
            + usize::from(request.with_sort_keys)
            + usize::from(!matches!(request.content, Content::Nothing));
        reply.array(1 + rows.len() * per_row);
        reply.integer(total as i64);
        for row in rows {
            reply.bulk(&row.hit.key);
            if request.with_scores {
                reply_score(&row.hit, reply);
            }
            if request.with_payloads {
                reply.null();
            }
            if request.with_sort_keys {
                reply_sort_key(&row.hit.sort, reply);
            }
            if let Some(fields) = &row.fields {
                reply.array(fields.len() * 2);
                for (name, value) in fields {
                    reply.bulk(name);
                    reply.bulk(value);
                }
            }
        }
    }

    /// With FORMAT EXPAND the values of sortable fields are not lists.
    fn is_single(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name);
        self.definition.field(&name).is_some_and(|field| field.sortable)
    }

    fn reply_map(&self, row: &Row, reply: &mut ReplyBuffer) {
        let request = self.request;
        reply.map(
            2 + usize::from(request.with_scores)
                + usize::from(request.with_payloads)
                + usize::from(request.with_sort_keys)
                + usize::from(row.fields.is_some()),
        );
        reply.simple("id");
        reply.bulk(&row.hit.key);
        if request.with_scores {
            reply.simple("score");
            reply_score(&row.hit, reply);
        }
        if request.with_payloads {
            reply.simple("payload");
            reply.null();
        }
        if request.with_sort_keys {
            reply.simple("sortkey");
            reply_sort_key(&row.hit.sort, reply);
        }
        if let Some(fields) = &row.fields {
            reply.simple("extra_attributes");
            reply.map(fields.len());
            for (name, value) in fields {
                reply.bulk(name);
                if self.request.common.is_expanded {
                    reply_json(value, self.is_single(name), reply);
                } else {
                    reply.bulk(value);
                }
            }
        }
        reply.simple("values");
        reply.array(0);
    }
}

/// A score, with its explanation if it is asked for.
fn reply_score(hit: &Hit, reply: &mut ReplyBuffer) {
    if hit.explanation.is_some() {
        reply.array(2);
    }
    if reply.protocol == Protocol::Resp3 {
        reply.double(hit.score);
    } else {
        reply.bulk(shown_score(hit.score).as_bytes());
    }
    if let Some(explanation) = &hit.explanation {
        reply_explanation(explanation, reply);
    }
}

fn reply_explanation(explanation: &Explanation, reply: &mut ReplyBuffer) {
    if explanation.parts.is_empty() {
        return reply.simple(&explanation.line);
    }
    reply.array(2);
    reply.simple(&explanation.line);
    reply.array(explanation.parts.len());
    explanation.parts.iter().for_each(|part| reply_explanation(part, reply));
}

/// Of results in RESP3.
#[derive(Clone, Copy, Default)]
pub struct Shape {
    /// FORMAT EXPAND
    pub is_expanded: bool,
    /// A profile follows them.
    pub is_profile: bool,
}

/// The head of results in RESP3, up to the list of them.
pub fn begin_results(reply: &mut ReplyBuffer, total: usize, rows: usize, shape: Shape) {
    reply.map(5 + usize::from(shape.is_profile));
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.integer(total as i64);
    reply.simple("format");
    reply.simple(if shape.is_expanded { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(rows);
}

/// What follows the results in RESP3; the profile is the caller's.
pub fn end_results(reply: &mut ReplyBuffer, is_late: bool, is_profile: bool) {
    reply.simple("warning");
    reply.array(usize::from(is_late));
    if is_late {
        reply.simple("Timeout limit was reached");
    }
    if is_profile {
        reply.simple("profile");
    }
}

fn reply_sort_key(value: &SortValue, reply: &mut ReplyBuffer) {
    match value {
        SortValue::None => reply.null(),
        SortValue::Number(number) => {
            reply.bulk(format!("#{}", Value::Number(*number).shown()).as_bytes());
        }
        SortValue::Text(text) => reply.bulk(format!("${text}").as_bytes()),
    }
}

/// A score with all its digits.
pub fn shown_score(score: f64) -> String {
    if score == score.trunc() && score.abs() < 1e15 { format!("{}", score as i64) } else { score.to_string() }
}
