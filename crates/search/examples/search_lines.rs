// SPDX-License-Identifier: BSD-3-Clause
//! An index driven by lines of JSON on stdin, one answer a line: for comparisons with another
//! server (bench/search), and to try queries by hand.
//!
//! ```text
//! {"op":"create","parts":16,"fields":[{"name":"t","type":"text"},{"name":"n","type":"numeric"}]}
//! {"op":"put","key":"1","values":{"t":"hello world","n":"5"}}
//! {"op":"search","query":"hello @n:[1 9]","scorer":"TFIDF","count":10}
//! {"op":"aggregate","query":"*","steps":["GROUPBY","0","REDUCE","COUNT","0","AS","c"]}
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};

use braid_search::aggregate::{Builder, Value as Cell};
use braid_search::execute::{NoVectors, Order, Plan, PlanOptions, Scorer, Search, SearchOptions};
use braid_search::index::{Analyser, Document, Index, Value};
use braid_search::query::{self, Options};
use braid_search::schema::{Field, FieldId, Kind, Schema};
use braid_search::text::{Highlighter, Language, highlight};
use braid_search::words::{SpellOptions, Synonyms, check};
use serde_json::{Value as Json, json};

// The server's allocator: what is measured is what a server pays.
#[global_allocator]
static ALLOCATOR: braid_base::alloc::CountingAllocator = braid_base::alloc::CountingAllocator;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A key's part, as a server has it from the key's shard.
fn part_of(key: &str, parts: u16) -> u16 {
    let hash = key.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    ((hash ^ hash >> 16) % u32::from(parts)) as u16
}

struct State {
    index: Index,
    documents: HashMap<String, HashMap<String, String>>,
    analyser: Analyser,
    synonyms: Synonyms,
    /// Processor time in the crate, in seconds.
    puts: f64,
    queries: f64,
}

fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn schema_of(fields: &[Json]) -> Result<Schema> {
    let mut schema = Schema::new(Vec::new())?;
    for json in fields {
        let is = |name: &str| json[name].as_bool().unwrap_or(false);
        let kind = match json["type"].as_str() {
            Some("text") => {
                Kind::Text { weight: json["weight"].as_f64().unwrap_or(1.0), stem: !is("nostem") }
            }
            Some("tag") => Kind::Tag {
                separator: json["separator"].as_str().and_then(|text| text.bytes().next()).or(Some(b',')),
                case_sensitive: is("casesensitive"),
            },
            Some("numeric") => Kind::Numeric,
            Some("geo") => Kind::Geo,
            _ => return Err("type".into()),
        };
        let mut field = Field::new(json["name"].as_str().ok_or("name")?, kind);
        field.sortable = is("sortable");
        field.index_missing = is("indexmissing");
        schema.push(field)?;
    }
    Ok(schema)
}

impl State {
    fn new(request: &Json) -> Result<State> {
        let schema = schema_of(request["fields"].as_array().ok_or("fields")?)?;
        let parts = request["parts"].as_u64().unwrap_or(16) as u16;
        Ok(State {
            index: Index::new(schema, parts),
            documents: HashMap::new(),
            analyser: Analyser::default(),
            synonyms: Synonyms::default(),
            puts: 0.0,
            queries: 0.0,
        })
    }

    fn put(&mut self, request: &Json) -> Result<Json> {
        let key = request["key"].as_str().ok_or("key")?;
        let given = request["values"].as_object().ok_or("values")?;
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let given: HashMap<String, String> =
            given.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let started = processor_time();
        let schema = self.index.schema();
        let named = given
            .iter()
            .filter_map(|(name, value)| Some((schema.find(name)?, Value::Text(value.as_bytes()))));
        let values: Vec<(FieldId, Value<'_>)> = named.collect();
        let document =
            Document { key: key.as_bytes(), score: 1.0, language: Language::English, values: &values };
        let done = self.index.put(part_of(key, self.index.parts()), &document, &mut self.analyser);
        self.puts += processor_time() - started;
        if !request["forget"].as_bool().unwrap_or(false) {
            self.documents.insert(key.to_owned(), given);
        }
        Ok(done.map_or_else(|error| json!({"error": error.to_string()}), |_| json!({})))
    }

    fn parse(&self, request: &Json) -> Result<query::Query> {
        let schema = self.index.schema();
        let mut options = Options::new(&schema);
        options.verbatim = request["verbatim"].as_bool().unwrap_or(false);
        Ok(query::parse(request["query"].as_str().ok_or("query")?, &options)?)
    }

    fn plan(&self, request: &Json) -> Result<Plan> {
        let query = self.parse(request)?;
        let mut options = PlanOptions::new(&self.synonyms, &NoVectors);
        if let Some(name) = request["scorer"].as_str() {
            options.scorer = Scorer::parse(name.as_bytes()).ok_or("No such scorer")?;
        }
        options.slop = request["slop"].as_u64().map(|slop| slop as u32);
        options.in_order = request["inorder"].as_bool().unwrap_or(false);
        Ok(Plan::new(&query, &self.index, &options)?)
    }

    fn search(&mut self, request: &Json) -> Result<Json> {
        let started = processor_time();
        let plan = self.plan(request)?;
        let mut options = SearchOptions { with_scores: true, ..SearchOptions::default() };
        if let Some(name) = request["sortby"].as_str() {
            let field = self.index.schema().find(name).ok_or("sortby")?;
            let descending = request["descending"].as_bool().unwrap_or(false);
            (options.order, options.with_scores) = (Order::Field { field, descending }, false);
        }
        let offset = request["offset"].as_u64().unwrap_or(0) as usize;
        let count = request["count"].as_u64().unwrap_or(10) as usize;
        options.results_max = offset + count;
        let matched = plan.matched();
        let mut search = Search::new(plan, options);
        search.run(&self.index, &NoVectors, || true)?;
        let (total, hits) = search.finish();
        self.queries += processor_time() - started;
        let marked = request["highlight"].as_str();
        let show = |hit: &braid_search::execute::Hit| {
            let key = String::from_utf8_lossy(&hit.key).into_owned();
            let Some(field) = marked else { return json!([key, hit.score]) };
            let text =
                self.documents.get(&key).and_then(|values| values.get(field)).cloned().unwrap_or_default();
            json!([key, hit.score, highlight(&text, &Highlighter::default(), |word| matched.contains(word))])
        };
        let hits: Vec<Json> = hits.iter().skip(offset).map(show).collect();
        Ok(json!({"total": total, "hits": hits}))
    }

    fn aggregate(&mut self, request: &Json) -> Result<Json> {
        let schema = self.index.schema();
        let steps = request["steps"].as_array().ok_or("steps")?;
        let steps: Vec<&[u8]> = steps.iter().filter_map(Json::as_str).map(str::as_bytes).collect();
        let started = processor_time();
        let mut builder = Builder::new(&schema);
        let mut at = 0;
        while at < steps.len() {
            at += builder.step(&steps[at..])?.ok_or("not a step")?;
        }
        let mut pipeline = builder.build();
        let options =
            SearchOptions { order: Order::Sequence, results_max: usize::MAX, ..SearchOptions::default() };
        let mut search = Search::new(self.plan(request)?, options);
        search.run(&self.index, &NoVectors, || true)?;
        for hit in search.finish().1 {
            if pipeline.is_full() {
                break;
            }
            let key = String::from_utf8_lossy(&hit.key);
            let value = |path: &str| match path {
                "__key" => Cell::text(&key),
                _ => {
                    self.documents.get(&*key).and_then(|values| values.get(path)).map_or(Cell::None, |text| {
                        let is_number =
                            schema.find(path).is_some_and(|field| schema.field(field).kind == Kind::Numeric);
                        let number = if is_number { text.parse().ok() } else { None };
                        number.map_or_else(|| Cell::text(text), Cell::Number)
                    })
                }
            };
            let values: Vec<Cell> = pipeline.inputs().iter().map(|input| value(&input.path)).collect();
            pipeline.push(values)?;
        }
        let (mut rows, _) = pipeline.finish()?;
        self.queries += processor_time() - started;
        let names = rows.names.clone();
        let cell = |value: Cell| match value {
            Cell::List(list) => json!(list.iter().map(Cell::shown).collect::<Vec<_>>()),
            other => json!(other.shown()),
        };
        let show = |row: Vec<Cell>| -> Json {
            let pairs = names.iter().zip(row).filter(|(_, value)| !value.is_none());
            pairs.map(|(name, value)| (name.clone(), cell(value))).collect::<serde_json::Map<_, _>>().into()
        };
        let all = rows.len();
        Ok(json!({"rows": rows.take(all).into_iter().map(show).collect::<Vec<_>>()}))
    }

    fn answer(&mut self, request: &Json) -> Result<Json> {
        Ok(match request["op"].as_str() {
            Some("put") => self.put(request)?,
            Some("del") => {
                let key = request["key"].as_str().ok_or("key")?;
                self.documents.remove(key);
                json!({"removed": self.index.remove(part_of(key, self.index.parts()), key.as_bytes()).is_some()})
            }
            Some("search") => self.search(request)?,
            Some("aggregate") => self.aggregate(request)?,
            Some("synonyms") => {
                let words = request["words"].as_array().ok_or("words")?;
                self.synonyms
                    .add(request["group"].as_str().ok_or("group")?, words.iter().filter_map(Json::as_str));
                json!({})
            }
            Some("spellcheck") => {
                let distance = request["distance"].as_u64().unwrap_or(1) as u8;
                let options = SpellOptions { distance, include: vec![], exclude: vec![] };
                let terms = check(&self.parse(request)?, &self.index, &options)?;
                json!(terms.iter().map(|term| json!([term.word, term.suggestions])).collect::<Vec<_>>())
            }
            Some("size") => {
                let (parts, dictionary) = self.index.size();
                json!({
                    "total": parts.total() + dictionary, "postings": parts.postings, "tags": parts.tags,
                    "numbers": parts.numbers, "documents": parts.documents, "sortables": parts.sortables,
                    "dictionary": dictionary, "puts": self.puts, "queries": self.queries,
                })
            }
            _ => return Err("op".into()),
        })
    }
}

fn main() -> Result<()> {
    let mut state: Option<State> = None;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let request: Json = serde_json::from_str(&line?)?;
        let answer = if request["op"] == "create" {
            State::new(&request).map(|new| {
                state = Some(new);
                json!({})
            })
        } else {
            state.as_mut().ok_or_else(|| "no index".into()).and_then(|state| state.answer(&request))
        };
        writeln!(out, "{}", answer.unwrap_or_else(|error| json!({"error": error.to_string()})))?;
        out.flush()?;
    }
    Ok(())
}
