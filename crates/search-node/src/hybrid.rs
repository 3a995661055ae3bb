// SPDX-License-Identifier: BSD-3-Clause
//! FT.HYBRID: a text search and a vector search of the same index, and their results fused.
//!
//! The two are run one after the other ([`Pair`]), each for its best results only: as many as the
//! window of the fusion. What follows is FT.AGGREGATE's: the steps, and the rows of the reply. The
//! scores are given to them as the distances of vectors are there, each under its name. With
//! WITHCURSOR nothing is fused: each search has a cursor of its own.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use braid_config::Config;
use braid_executor::{Call, Engine};
use braid_keyspace::Keyspace;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_search::aggregate::{Builder, Pipeline, Value};
use braid_search::execute::{Fused, Fusion, Order, Scorer, SearchOptions, fuse};
use braid_search::query::{Knn, Node, Query, VectorOptions, Wanted};
use braid_spec::{CommandError, CommandResult};
use braid_vectors::Metric;

use crate::aggregate::{Answer, EXTRA, Feed, find_parameters, loads_all, read_cursor};
use crate::arguments::{Arguments, error, lossy};
use crate::definition::Definition;
use crate::index::SearchIndex;
use crate::lookup::index_for_query;
use crate::profile::nanos;
use crate::request::Common;
use crate::run::{DocumentReader, Finish, Found, Running, Work, run};
use crate::service::{self, Service};

/// The name of the vectors' distance between the two searches and their fusion.
const DISTANCE: &str = "\u{0}distance";
/// Defaults of the documentation.
const NEAREST: usize = 10;
const WINDOW: usize = 20;
const CONSTANT: f64 = 60.0;
const ALPHA: f64 = 0.3;
const BETA: f64 = 0.7;

/// The names under which scores are returned.
#[derive(Default)]
struct Names {
    text: Option<String>,
    vectors: Option<String>,
    combined: Option<String>,
}

/// VSIM's arguments, but for its filter and names.
struct Similar {
    field: String,
    vector: Vec<u8>,
    /// The vectors within this distance; the nearest ones if there is none.
    radius: Option<f64>,
    nearest: usize,
    options: VectorOptions,
}

struct Request {
    index: Arc<SearchIndex>,
    text: Query,
    vectors: Query,
    metric: Metric,
    common: Common,
    fusion: Fusion,
    window: usize,
    names: Names,
    steps: Steps,
    /// Those of the vectors' cursor.
    cursor: Option<(WithCursor, Steps)>,
}

pub fn hybrid(call: &mut Call) -> CommandResult {
    let index = index_for_query(call, 1)?;
    let began = nanos();
    let (config, protocol) = (&call.engine.config, call.reply.protocol);
    let request = Request::parse(index, &call.args[2..], config, protocol)?;
    let options = |order| SearchOptions { order, results_max: request.window, ..SearchOptions::default() };
    let of_text = options(Order::Score);
    let of_vectors = options(Order::Distance { name: DISTANCE.to_owned(), descending: false });
    let begin = |query, options| Running::begin(&request.index, query, &request.common, config, options);
    let (text, vectors) = (begin(&request.text, of_text)?, begin(&request.vectors, of_vectors)?);
    let Some(engine) = service::of(&call.engine.keyspace).and_then(Service::engine) else {
        return Err(error("The server is shutting down"));
    };
    run(call, Pair { text, vectors, is_text_done: false }, Rest { request, engine, began })
}

/// Reads `NAME count`, and pairs of a word and a value, which `read` takes if it knows the word.
fn read_pairs(
    args: &mut Arguments<'_>,
    name: &str,
    mut read: impl FnMut(&str, &[u8]) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    let found = args.counted(name)?;
    let (pairs, rest) = found.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(error(format!("Bad arguments for {name}: Expected pairs of a name and a value")));
    }
    for [word, value] in pairs {
        if !read(&lossy(word).to_ascii_uppercase(), value)? {
            return Err(error(format!("Unknown argument `{}` in {name}", lossy(word))));
        }
    }
    Ok(())
}

fn number<T: std::str::FromStr>(of: &str, text: &[u8]) -> Result<T, CommandError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number
        .ok_or_else(|| error(format!("Bad arguments for {of}: Could not convert argument to expected type")))
}

/// A number that is finite, and not negative.
fn amount(of: &str, text: &[u8]) -> Result<f64, CommandError> {
    let found: f64 = number(of, text)?;
    match found.is_finite() && found >= 0.0 {
        true => Ok(found),
        false => Err(error(format!("Bad arguments for {of}: Value is outside acceptable bounds"))),
    }
}

/// A number of results, at least 1.
fn count(of: &str, text: &[u8]) -> Result<usize, CommandError> {
    let found: usize = number(of, text)?;
    match found {
        0 => Err(error(format!("Bad arguments for {of}: Value is outside acceptable bounds"))),
        found => Ok(found),
    }
}

fn given_name(args: &mut Arguments<'_>, into: &mut Option<String>) -> Result<bool, CommandError> {
    let is_given = args.take("YIELD_SCORE_AS");
    if is_given {
        *into = Some(lossy(args.value("YIELD_SCORE_AS")?));
    }
    Ok(is_given)
}

impl Similar {
    fn read(
        args: &mut Arguments<'_>,
        common: &Common,
        names: &mut Names,
    ) -> Result<(Similar, Option<Vec<u8>>), CommandError> {
        if !args.take("VSIM") {
            return Err(error("VSIM parameter is required"));
        }
        let field = lossy(args.value("VSIM")?);
        let Some(field) = field.strip_prefix('@').map(str::to_owned) else {
            return Err(error("Missing @ prefix for vector field name"));
        };
        let vector = args.value("VSIM")?;
        let vector = match vector.strip_prefix(b"$") {
            None => vector.to_vec(),
            Some(name) => {
                let known = common.parameters.iter().find(|(one, _)| one == name);
                let missing = || error(format!("No such parameter `{}`", lossy(name)));
                known.ok_or_else(missing)?.1.clone()
            }
        };
        let options = VectorOptions { distance_as: Some(DISTANCE.to_owned()), ..VectorOptions::default() };
        let mut similar = Similar { field, vector, radius: None, nearest: NEAREST, options };
        let (mut filter, mut has_method) = (None, false);
        loop {
            if !has_method && (args.is("KNN") || args.is("RANGE")) {
                has_method = true;
                similar.read_method(args, names)?;
            } else if filter.is_none() && args.take("FILTER") {
                filter = Some(args.value("FILTER")?.to_vec());
            } else if !given_name(args, &mut names.vectors)? {
                return Ok((similar, filter));
            }
        }
    }

    fn read_method(&mut self, args: &mut Arguments<'_>, names: &mut Names) -> Result<(), CommandError> {
        let is_range = args.is("RANGE");
        args.skip(1);
        let of = if is_range { "RANGE" } else { "KNN" };
        let (mut has_size, mut name) = (false, None);
        read_pairs(args, of, |word, value| {
            match word {
                "K" if !is_range => (self.nearest, has_size) = (count("K", value)?, true),
                "EF_RUNTIME" if !is_range => self.options.ef_runtime = Some(number("EF_RUNTIME", value)?),
                "RADIUS" if is_range => {
                    (self.radius, has_size) = (Some(amount("RADIUS", value)?), true);
                }
                "EPSILON" if is_range => self.options.epsilon = Some(amount("EPSILON", value)?),
                "YIELD_SCORE_AS" => name = Some(lossy(value)),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if let Some(name) = name {
            names.vectors = Some(name);
        }
        match has_size {
            true => Ok(()),
            false => {
                Err(error(format!("Missing required argument {}", if is_range { "RADIUS" } else { "K" })))
            }
        }
    }

    /// The query for them, among the documents of another one, and the metric of their field.
    fn query(self, among: Query, definition: &Definition) -> Result<(Query, Metric), CommandError> {
        let Similar { field: name, vector, radius, nearest, options } = self;
        let found = definition
            .schema
            .find(&name)
            .and_then(|id| definition.vector_fields().find(|(of_vectors, _)| *of_vectors == id));
        let Some((field, definition)) = found else {
            return Err(error(format!("Unknown vector field `{name}`")));
        };
        let metric = definition.metric;
        if among.knn.is_some() {
            return Err(error("Vector expressions are not allowed in the FILTER of VSIM"));
        }
        let root = among.root;
        let query = match radius {
            None => Query { root, knn: Some(Knn { field, count: nearest, vector, options }) },
            Some(radius) => {
                let within = Node::new(Wanted::VectorsWithin { field, radius, vector, options });
                let children = vec![within, root];
                let root = Node::new(Wanted::All { children, slop: None, in_order: false });
                Query { root, knn: None }
            }
        };
        Ok((query, metric))
    }
}

fn read_combination(args: &mut Arguments<'_>, names: &mut Names) -> Result<(Fusion, usize), CommandError> {
    let (mut constant, mut alpha, mut beta, mut window) = (CONSTANT, None, None, WINDOW);
    if !args.take("COMBINE") {
        return Ok((Fusion::Ranks { constant }, window));
    }
    let is_linear = args.take("LINEAR");
    if !is_linear && !args.take("RRF") {
        let word = lossy(args.peek().unwrap_or_default());
        return Err(error(format!("Unknown COMBINE method `{word}`")));
    }
    // Without parameters there is no count either.
    let has_count = args.peek().is_some_and(|text| text.first().is_some_and(u8::is_ascii_digit));
    let mut name = None;
    if has_count {
        read_pairs(args, if is_linear { "LINEAR" } else { "RRF" }, |word, value| {
            match word {
                "ALPHA" if is_linear => alpha = Some(amount("ALPHA", value)?),
                "BETA" if is_linear => beta = Some(amount("BETA", value)?),
                "CONSTANT" if !is_linear => constant = amount("CONSTANT", value)?,
                "WINDOW" => window = count("WINDOW", value)?,
                "YIELD_SCORE_AS" => name = Some(lossy(value)),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
    }
    if alpha.is_some() != beta.is_some() {
        return Err(error("Missing required argument ALPHA or BETA"));
    }
    names.combined = name;
    given_name(args, &mut names.combined)?;
    let weights = Fusion::Weights { text: alpha.unwrap_or(ALPHA), vectors: beta.unwrap_or(BETA) };
    Ok((if is_linear { weights } else { Fusion::Ranks { constant } }, window))
}

impl Request {
    fn parse(
        index: Arc<SearchIndex>,
        all: &[&[u8]],
        config: &Config,
        protocol: Protocol,
    ) -> Result<Request, CommandError> {
        let definition = index.definition();
        let (mut common, mut names) = (Common::new(config, true), Names::default());
        common.tags_score = false;
        find_parameters(all, &mut common, &definition)?;
        let mut args = Arguments::new(all);
        if !args.take("SEARCH") {
            return Err(error("SEARCH parameter is required"));
        }
        let text = args.next().ok_or_else(|| error("No query string provided for SEARCH"))?;
        loop {
            if args.take("SCORER") {
                let name = args.value("SCORER")?;
                let scorer = Scorer::parse(name);
                common.scorer = scorer.ok_or_else(|| error(format!("No such scorer {}", lossy(name))))?;
            } else if !given_name(&mut args, &mut names.text)? {
                break;
            }
        }
        let (similar, filter) = Similar::read(&mut args, &common, &mut names)?;
        let (fusion, window) = read_combination(&mut args, &mut names)?;
        let of_vectors = args.clone();
        let steps = Steps::read(&mut args, &mut common, &names, &definition)?;
        let cursor = match steps.cursor {
            Some(cursor) => {
                let steps = Steps::read(&mut { of_vectors }, &mut common, &names, &definition)?;
                Some((cursor, steps))
            }
            None => None,
        };
        common.check_format(&definition, protocol)?;
        let text = common.parse(text, &definition, config)?;
        if text.knn.is_some() {
            return Err(error("Vector expressions are not allowed in SEARCH"));
        }
        let among = match filter {
            Some(filter) => common.parse(&filter, &definition, config)?,
            None => Query { root: Node::new(Wanted::Everything), knn: None },
        };
        let (vectors, metric) = similar.query(among, &definition)?;
        index.note_use(common.dialect);
        let window = window.min(config.search_max_aggregate_results());
        Ok(Request { index, text, vectors, metric, common, fusion, window, names, steps, cursor })
    }
}

/// Rows at once, and for how many milliseconds a cursor is kept.
type WithCursor = (usize, i64);

/// What is done with the results.
struct Steps {
    pipeline: Pipeline,
    is_grouped: bool,
    cursor: Option<WithCursor>,
}

impl Steps {
    fn read(
        args: &mut Arguments<'_>,
        common: &mut Common,
        names: &Names,
        definition: &Definition,
    ) -> Result<Steps, CommandError> {
        let mut builder = Builder::new(&definition.schema);
        let combined = names.combined.as_deref().unwrap_or("__score");
        names.text.iter().for_each(|name| builder.provide(name));
        let known = ["__key", combined].into_iter().chain(names.vectors.as_deref());
        known.for_each(|name| builder.know(name));
        if loads_all(args.rest()) {
            builder.provide(EXTRA);
        }
        let (mut is_grouped, mut is_loaded, mut is_limited) = (false, false, false);
        let mut cursor = None;
        // They have been read, but are known again.
        common.parameters.clear();
        while !args.is_empty() {
            if args.take("NOSORT") {
                // The order is by the score all the same.
                continue;
            }
            if args.take("WITHCURSOR") {
                cursor = Some(read_cursor(args)?);
                continue;
            }
            let is_option = ["PARAMS", "TIMEOUT", "FORMAT"].iter().any(|word| args.is(word));
            if is_option && common.option(args, definition)? {
                continue;
            }
            is_grouped |= args.is("GROUPBY");
            is_loaded |= args.is("LOAD");
            is_limited |= args.is("LIMIT");
            let step = builder.step(args.rest()).map_err(|wrong| error(wrong.to_string()))?;
            let Some(len) = step else {
                let word = lossy(args.peek().unwrap_or_default());
                return Err(error(format!("Unknown argument `{word}`")));
            };
            args.skip(len);
        }
        if !is_grouped {
            if !is_loaded {
                builder.provide("__key");
            }
            names.vectors.iter().for_each(|name| builder.provide(name));
            if !is_loaded || names.combined.is_some() {
                builder.provide(combined);
            }
        }
        if !is_limited && cursor.is_none() {
            builder.step(&[b"LIMIT", b"0", b"10"]).map_err(|wrong| error(wrong.to_string()))?;
        }
        Ok(Steps { pipeline: builder.build(), is_grouped, cursor })
    }
}

/// The two searches: first of the text, then of the vectors.
struct Pair {
    text: Running,
    vectors: Running,
    is_text_done: bool,
}

impl Work for Pair {
    fn index(&self) -> &SearchIndex {
        &self.text.index
    }

    fn go_on(&mut self, may_go_on: &mut dyn FnMut(Duration) -> bool) -> Result<bool, CommandError> {
        if !self.is_text_done {
            self.is_text_done = self.text.go_on(may_go_on)?;
        }
        match self.is_text_done {
            true => self.vectors.go_on(may_go_on),
            false => Ok(false),
        }
    }

    fn note(&self, keyspace: &Keyspace) {
        let late = if self.text.is_late { &self.text } else { &self.vectors };
        late.note(keyspace);
    }
}

/// How similar a vector at this distance is: 1 if it is the same.
fn similarity(metric: Metric, distance: f64) -> f64 {
    match metric {
        Metric::L2 => 1.0 / (1.0 + distance),
        Metric::Cosine | Metric::InnerProduct => 1.0 - distance / 2.0,
    }
}

struct Rest {
    request: Request,
    engine: Arc<Engine>,
    /// In nanoseconds.
    began: u64,
}

/// What is the same for all rows of a request.
struct Context<'a> {
    index: &'a Arc<SearchIndex>,
    definition: &'a Definition,
    names: &'a Names,
    is_expanded: bool,
    documents: &'a dyn DocumentReader,
}

impl Context<'_> {
    /// The rows of these results, and how many of them there are before a LIMIT.
    fn answer(&self, results: Vec<Fused>, steps: Steps) -> Result<(Answer, usize), CommandError> {
        let Steps { mut pipeline, is_grouped, .. } = steps;
        let found = found_of(results, self.names);
        let inputs = pipeline.inputs().to_vec();
        let (mut extras, loaded) = (Vec::new(), Cell::default());
        let is_expanded = self.is_expanded;
        let feed = Feed {
            definition: self.definition,
            index: self.index,
            inputs: &inputs,
            found: &found,
            loaded: &loaded,
            is_expanded,
        };
        for hit in &found.hits {
            if let Some(values) = feed.values(hit, self.documents, &mut extras) {
                pipeline.push(values).map_err(|wrong| error(wrong.to_string()))?;
            }
        }
        let (rows, _) = pipeline.finish().map_err(|wrong| error(wrong.to_string()))?;
        let total = if is_grouped { rows.len() } else { found.total };
        Ok((Answer { rows, extras, is_grouped, is_expanded }, total))
    }

    /// A cursor over the rows of these results; 0 if there is none.
    fn open(
        &self,
        results: Vec<Fused>,
        steps: Steps,
        (count, idle_ms): WithCursor,
        keyspace: &Keyspace,
    ) -> Result<u64, CommandError> {
        let (answer, _) = self.answer(results, steps)?;
        if answer.rows.is_empty() {
            return Ok(0);
        }
        let id = answer.open(self.index, count, idle_ms, keyspace);
        id.ok_or_else(|| error("Too many cursors allocated for index"))
    }
}

impl Finish<Pair> for Rest {
    fn finish(self, running: Pair, documents: &dyn DocumentReader, reply: &mut ReplyBuffer) -> CommandResult {
        let Rest { request, engine, began } = self;
        let late = [("SEARCH", running.text.is_late), ("VSIM", running.vectors.is_late)];
        let (text, _) = running.text.found();
        let (vectors, _) = running.vectors.found();
        let at = vectors.distance_names.iter().position(|name| name == DISTANCE);
        let distance = |distances: &[Option<f64>]| at.and_then(|at| distances.get(at).copied().flatten());
        let nearest = vectors.hits.into_iter().filter_map(|hit| {
            let distance = distance(&hit.distances)?;
            Some((hit, similarity(request.metric, distance)))
        });
        let context = Context {
            index: &request.index,
            definition: &request.index.definition(),
            names: &request.names,
            is_expanded: request.common.is_expanded,
            documents,
        };
        if let Some((cursor, steps)) = request.cursor {
            let text = text.hits.into_iter().map(|hit| {
                let score = hit.score;
                Fused { hit, text_score: Some(score), similarity: None, score }
            });
            let nearest = nearest.map(|(hit, similarity)| Fused {
                hit,
                text_score: None,
                similarity: Some(similarity),
                score: similarity,
            });
            let keyspace = &engine.keyspace;
            let text = context.open(text.collect(), request.steps, cursor, keyspace)?;
            let vectors = context.open(nearest.collect(), steps, cursor, keyspace)?;
            reply.map(3);
            for (name, id) in [("SEARCH", text), ("VSIM", vectors)] {
                reply.simple(name);
                reply.integer(id as i64);
            }
            reply_warnings(late, reply);
            return Ok(());
        }
        let fused = fuse(text.hits, nearest.collect(), request.fusion);
        let (mut answer, total) = context.answer(fused, request.steps)?;
        let rows = answer.rows.take(usize::MAX);
        reply_results(&answer, &rows, total, reply);
        reply_warnings(late, reply);
        reply.simple("execution_time");
        let took_ms = nanos().saturating_sub(began) as f64 / 1e6;
        match reply.protocol {
            Protocol::Resp3 => reply.double(took_ms),
            Protocol::Resp2 => reply.bulk(Value::Number(took_ms).shown().as_bytes()),
        }
        Ok(())
    }
}

/// Which of the searches had no time left.
fn reply_warnings(late: [(&str, bool); 2], reply: &mut ReplyBuffer) {
    reply.simple("warnings");
    reply.array(late.iter().filter(|(_, is_late)| *is_late).count());
    for (of, _) in late.iter().filter(|(_, is_late)| *is_late) {
        reply.simple(&format!("Timeout limit was reached ({of})"));
    }
}

/// The results as those of a query: each score is a distance under its name.
fn found_of(fused: Vec<Fused>, names: &Names) -> Found {
    let of_text = names.text.iter().cloned();
    let distance_names = of_text.chain(names.vectors.clone()).chain(names.combined.clone()).collect();
    let hits = fused.into_iter().map(|one| {
        let Fused { mut hit, text_score, similarity, score } = one;
        let text = names.text.iter().map(|_| text_score);
        let vectors = names.vectors.iter().map(|_| similarity);
        let combined = names.combined.iter().map(|_| Some(score));
        (hit.score, hit.distances) = (score, text.chain(vectors).chain(combined).collect());
        hit
    });
    let hits: Vec<_> = hits.collect();
    Found { total: hits.len(), hits, distance_names }
}

/// The beginning of the reply, up to the results: a map in RESP3.
fn reply_results(answer: &Answer, rows: &[Vec<Value>], total: usize, reply: &mut ReplyBuffer) {
    reply.map(4);
    reply.simple("total_results");
    reply.integer(total as i64);
    reply.simple("results");
    reply.array(rows.len());
    rows.iter().for_each(|row| answer.reply_row(row, reply));
}
