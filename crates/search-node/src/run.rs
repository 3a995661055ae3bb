// SPDX-License-Identifier: BSD-3-Clause
//! Runs queries: slice by slice, first on the thread of the client, then in the background.
//!
//! A query that is done within half a millisecond is answered as any command. A longer one goes on
//! on a background thread, while its client waits and others are served. In transactions and
//! scripts it stays where it is.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::{Ticks, unix_ms};
use braid_config::Config;
use braid_executor::{Call, Engine};
use braid_keyspace::documents::INDEXED_DB;
use braid_keyspace::{Entry, Keyspace};
use braid_resp::reply::ReplyBuffer;
use braid_search::execute::{
    Hit, Matched, Order, Plan, PlanOptions, Report, Search, SearchError, SearchOptions, Status,
};
use braid_search::index::DocRef;
use braid_search::query::{Query, Wanted};
use braid_search::schema::Kind;
use braid_spec::{CommandError, CommandResult};

use crate::arguments::error;
use crate::definition::Definition;
use crate::index::SearchIndex;
use crate::profile::nanos;
use crate::request::Common;
use crate::service;

/// How long a query may keep its client's thread.
const HERE_MAX: Duration = Duration::from_micros(500);

/// Indexes of so many documents are searched where the query is: other threads' work in between
/// would take longer than the query.
const SMALL_DOCS: u64 = 1000;

/// Looks at keys, from wherever a query runs.
pub trait DocumentReader {
    fn read(&self, key: &[u8], look: &mut dyn FnMut(Option<Entry<'_>>));
}

/// On an executing thread that holds nothing, or the world.
pub struct Here<'k>(pub &'k Keyspace, pub i64);

impl DocumentReader for Here<'_> {
    fn read(&self, key: &[u8], look: &mut dyn FnMut(Option<Entry<'_>>)) {
        self.0.look_at(INDEXED_DB, key, self.1, |entry| look(entry));
    }
}

/// On a background thread.
pub struct Apart<'k>(pub &'k Keyspace, pub i64);

impl DocumentReader for Apart<'_> {
    fn read(&self, key: &[u8], look: &mut dyn FnMut(Option<Entry<'_>>)) {
        self.0.reader().look_at(INDEXED_DB, key, self.1, |entry| look(entry));
    }
}

/// How results are put in order.
pub enum Sorting {
    /// By what the index knows.
    Known(Order),
    /// By a value of the documents, at this path.
    Loaded { path: String, is_number: bool, descending: bool },
}

impl Sorting {
    /// By a property that a client names.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn by(
        name: &str,
        descending: bool,
        query: &Query,
        definition: &Definition,
    ) -> Result<Sorting, CommandError> {
        if distance_names(query).iter().any(|one| one == name) {
            return Ok(Sorting::Known(Order::Distance { name: name.to_owned(), descending }));
        }
        let Some(id) = definition.schema.find(name) else {
            return Err(error(SearchError::SortField(name.to_owned()).to_string()));
        };
        let field = definition.schema.field(id);
        if field.sortable {
            return Ok(Sorting::Known(Order::Field { field: id, descending }));
        }
        let is_number = field.kind == Kind::Numeric;
        Ok(Sorting::Loaded { path: field.path.to_string(), is_number, descending })
    }
}

/// The names under which a query returns distances.
pub fn distance_names(query: &Query) -> Vec<String> {
    let mut names = Vec::new();
    query.root.visit(&mut |node| {
        if let Wanted::VectorsWithin { options, .. } = &node.wanted {
            names.extend(options.distance_as.clone());
        }
    });
    names.extend(query.knn.as_ref().and_then(|knn| knn.options.distance_as.clone()));
    names
}

/// What is run slice by slice.
pub trait Work: Send + 'static {
    fn index(&self) -> &SearchIndex;

    /// Runs slices until it is done (true), its time is over (true), or `may_go_on` says no: it is
    /// asked with the time since the beginning.
    ///
    /// # Errors
    /// What the vectors refuse.
    fn go_on(&mut self, may_go_on: &mut dyn FnMut(Duration) -> bool) -> Result<bool, CommandError>;

    /// Counts it: it has ended.
    fn note(&self, keyspace: &Keyspace);
}

/// A query being run.
pub struct Running {
    pub index: Arc<SearchIndex>,
    search: Search,
    matched: Matched,
    began: Ticks,
    timeout: Option<Duration>,
    pub is_late: bool,
}

/// What a query found.
pub struct Found {
    pub total: usize,
    pub hits: Vec<Hit>,
    pub distance_names: Vec<String>,
}

impl Running {
    /// Plans a query.
    ///
    /// # Errors
    /// What the vectors refuse.
    pub fn begin(
        index: &Arc<SearchIndex>,
        query: &Query,
        common: &Common,
        config: &Config,
        options: SearchOptions,
    ) -> Result<Running, CommandError> {
        let definition = index.definition();
        let synonyms = Arc::clone(&index.synonyms.read());
        let mut plan_options = PlanOptions::new(&synonyms, &index.vectors);
        plan_options.scorer = common.scorer;
        plan_options.language = common.language.unwrap_or(definition.language);
        plan_options.expansions_max = config.search_max_prefix_expansions();
        plan_options.slop = common.slop;
        plan_options.in_order = common.in_order;
        plan_options.tags_score = common.tags_score;
        let plan = Plan::new(query, &index.index, &plan_options);
        let mut plan = plan.map_err(|wrong| error(wrong.to_string()))?;
        if let Some(keys) = &common.in_keys {
            plan.among(&documents(index, keys));
        }
        let timeout = (common.timeout_ms > 0).then(|| Duration::from_millis(common.timeout_ms));
        Ok(Running {
            index: Arc::clone(index),
            matched: plan.matched(),
            search: Search::new(plan, options),
            began: Ticks::now(),
            timeout,
            is_late: false,
        })
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Ticks::now().nanos_since(self.began))
    }

    /// Measures what it does from now on.
    pub fn measure(&mut self) {
        self.search.measure(nanos);
    }

    /// What was measured.
    pub fn report(&self) -> Option<Report> {
        self.search.report()
    }

    /// Takes what was found, and the words that matched.
    pub fn found(self) -> (Found, Matched) {
        let distance_names = self.search.distance_names();
        let (total, hits) = self.search.finish();
        (Found { total, hits, distance_names }, self.matched)
    }
}

impl Work for Running {
    fn index(&self) -> &SearchIndex {
        &self.index
    }

    fn go_on(&mut self, may_go_on: &mut dyn FnMut(Duration) -> bool) -> Result<bool, CommandError> {
        loop {
            let status = self.search.slice(&self.index.index, &self.index.vectors);
            if status.map_err(|wrong| error(wrong.to_string()))? == Status::Done {
                return Ok(true);
            }
            let elapsed = self.elapsed();
            if self.timeout.is_some_and(|timeout| elapsed > timeout) {
                self.is_late = true;
                return Ok(true);
            }
            if !may_go_on(elapsed) {
                return Ok(false);
            }
        }
    }

    fn note(&self, keyspace: &Keyspace) {
        if let Some(service) = service::of(keyspace) {
            service.queries.note(Ticks::now().nanos_since(self.began), self.is_late);
        }
    }
}

fn documents(index: &SearchIndex, keys: &[Box<[u8]>]) -> Vec<DocRef> {
    let mut found = Vec::new();
    for number in 0..index.index.parts() {
        let part = index.index.part(number);
        let docs = keys.iter().filter_map(|key| part.find(key));
        found.extend(docs.map(|doc| DocRef { part: number, doc, generation: part.facts(doc).generation }));
    }
    found
}

/// What remains of a command after its query: its reply.
pub trait Finish<W = Running>: Send + 'static {
    /// Replies with what was found.
    ///
    /// # Errors
    /// What the client is told instead.
    fn finish(self, running: W, documents: &dyn DocumentReader, reply: &mut ReplyBuffer) -> CommandResult;
}

/// Runs a query and replies, here or in the background.
///
/// # Errors
/// What the client is told instead.
pub fn run<W: Work>(call: &mut Call<'_, '_>, mut running: W, rest: impl Finish<W>) -> CommandResult {
    let is_small = running.index().index.totals().docs <= SMALL_DOCS;
    let may_leave = !is_small && call.may_leave(true);
    let is_done = running.go_on(&mut |elapsed| !may_leave || elapsed < HERE_MAX)?;
    if is_done {
        let keyspace = &call.engine.keyspace;
        running.note(keyspace);
        return rest.finish(running, &Here(keyspace, call.keyspace.now()), call.reply);
    }
    call.work_in_background(move |engine: &Engine, answer| {
        let mut reply = answer.buffer();
        let done = running.go_on(&mut |_| answer.is_wanted());
        if matches!(done, Ok(false)) {
            return;
        }
        running.note(&engine.keyspace);
        let documents = Apart(&engine.keyspace, unix_ms());
        match done.and_then(|_| rest.finish(running, &documents, &mut reply)) {
            Ok(()) => answer.give(reply),
            Err(wrong) => answer.give_error(&wrong),
        }
    })
}
