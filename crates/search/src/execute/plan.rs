// SPDX-License-Identifier: BSD-3-Clause
//! From a query to a plan: terms looked up and weighed over the whole index, forms of words
//! expanded, vectors asked for. A plan is then run on one part after another.
//!
//! Making one locks the dictionary for moments only, and no part.

use std::collections::HashMap;
use std::ops::Range as Span;

use braid_containers::geohash;

use super::error::SearchError;
use super::expand::{Matched, Sought, expand};
use super::score::Scorer;
use super::vectors::Vectors;
use crate::index::{DocId, DocRef, Index, Space, Totals};
use crate::query::{GeoArea, Node, Query, Range, Shape, TagMatch, Wanted};
use crate::schema::{FieldId, Schema};
use crate::text::{Language, Stems};
use crate::words::Synonyms;

/// What a plan is made with, beyond the query.
pub struct PlanOptions<'a> {
    pub scorer: Scorer,
    /// Of the query's words.
    pub language: Language,
    /// A form of a word stands for so many words at most.
    pub expansions_max: usize,
    pub synonyms: &'a Synonyms,
    /// SLOP and INORDER of the whole query.
    pub slop: Option<u32>,
    pub in_order: bool,
    /// Tags add to scores, as in RediSearch 2.
    pub tags_score: bool,
    pub vectors: &'a dyn Vectors,
}

impl<'a> PlanOptions<'a> {
    pub fn new(synonyms: &'a Synonyms, vectors: &'a dyn Vectors) -> PlanOptions<'a> {
        PlanOptions {
            scorer: Scorer::default(),
            language: Language::English,
            expansions_max: 200,
            synonyms,
            slop: None,
            in_order: false,
            tags_score: true,
            vectors,
        }
    }
}

/// A word or tag in a plan. Its number is looked up on each part again, since numbers of terms
/// without documents are given away.
#[derive(Debug)]
pub struct Term {
    pub space: Space,
    pub text: String,
    /// The text fields it must be in; words only.
    pub fields: u128,
    pub docs: u32,
    pub rarity: f64,
    pub weight: f64,
}

#[derive(Debug)]
pub enum Step {
    Nothing,
    Everything {
        weight: f64,
    },
    Term(Term),
    Numbers {
        field: FieldId,
        range: Range,
        weight: f64,
    },
    Near {
        field: FieldId,
        area: geohash::Search,
        cells: Vec<Span<f64>>,
        weight: f64,
    },
    /// Documents known beforehand, by part, ascending.
    Docs {
        parts: HashMap<u16, Vec<(DocId, u32)>>,
        weight: f64,
    },
    All {
        children: Vec<Step>,
        slop: Option<u32>,
        in_order: bool,
        weight: f64,
    },
    /// Of a form of a word only the first one found counts.
    Any {
        children: Vec<Step>,
        first_only: bool,
        weight: f64,
        /// What it stands for, as FT.PROFILE calls it; none: for what a client joined by `|`.
        form: Option<String>,
    },
    Not(Box<Step>),
    Optional(Box<Step>),
}

/// A query made ready for an index.
pub struct Plan {
    pub(super) root: Step,
    pub(super) among: Option<Step>,
    pub(super) scorer: Scorer,
    pub(super) totals: Totals,
    /// The names under which distances of vectors are returned, and the distances.
    pub(super) distances: Vec<(String, HashMap<DocRef, f64>)>,
    pub(super) nearest: Option<crate::query::Knn>,
    words: HashMap<String, Sought>,
    language: Language,
}

struct Planner<'a> {
    index: &'a Index,
    schema: &'a Schema,
    options: &'a PlanOptions<'a>,
    totals: Totals,
    stems: Stems,
    words: HashMap<String, Sought>,
    distances: Vec<(String, HashMap<DocRef, f64>)>,
    /// Below a `-`: its words are not marked in texts.
    denied: bool,
}

impl Plan {
    /// # Errors
    ///
    /// What the vectors refuse.
    pub fn new(query: &Query, index: &Index, options: &PlanOptions<'_>) -> Result<Plan, SearchError> {
        let schema = index.schema();
        let mut planner = Planner {
            index,
            schema: &schema,
            options,
            totals: index.totals(),
            stems: Stems::of(options.language),
            words: HashMap::new(),
            distances: Vec::new(),
            denied: false,
        };
        let mut root = planner.step(&query.root)?;
        if let Step::All { slop, in_order, .. } = &mut root {
            *slop = slop.or(options.slop);
            *in_order |= options.in_order;
        }
        let Planner { totals, words, distances, .. } = planner;
        let nearest = query.knn.clone();
        Ok(Plan {
            root,
            among: None,
            scorer: options.scorer,
            totals,
            distances,
            nearest,
            words,
            language: options.language,
        })
    }

    /// Restricts the plan to these documents (INKEYS). Scores stay as they are.
    pub fn among(&mut self, docs: &[DocRef]) {
        self.among = Some(docs_step(docs.iter().copied(), 0.0));
    }

    /// The words that the query looks for, to mark them in texts.
    pub fn matched(&self) -> Matched {
        Matched::new(self.words.clone(), self.language)
    }
}

/// How rare a term is, as SUMMARIZE counts it: found by comparing with Redis Stack.
fn rarity_in_fragments(docs: u32, totals: Totals) -> u32 {
    (1.0 + (totals.docs as f64 + 1.0) / f64::from(docs.max(1))).log2() as u32
}

fn docs_step(docs: impl Iterator<Item = DocRef>, weight: f64) -> Step {
    let mut parts: HashMap<u16, Vec<(DocId, u32)>> = HashMap::new();
    for doc in docs {
        parts.entry(doc.part).or_default().push((doc.doc, doc.generation));
    }
    parts.values_mut().for_each(|docs| docs.sort_unstable());
    Step::Docs { parts, weight }
}

impl Planner<'_> {
    fn step(&mut self, node: &Node) -> Result<Step, SearchError> {
        let weight = node.weight;
        Ok(match &node.wanted {
            Wanted::Nothing => Step::Nothing,
            Wanted::Everything => Step::Everything { weight },
            Wanted::Word { word, fields, expand } => {
                let words = if *expand { self.relatives(word) } else { vec![word.clone()] };
                self.any_term(Space::WORDS, words, *fields, weight, None)
            }
            Wanted::Words { shape, fields } => self.shaped(Space::WORDS, shape, *fields, weight),
            Wanted::All { children, slop, in_order } => self.all(children, *slop, *in_order, weight)?,
            Wanted::Any(children) => {
                let children =
                    children.iter().map(|child| self.step(child)).collect::<Result<Vec<_>, _>>()?;
                any(children, false, weight, None)
            }
            Wanted::Not(child) => {
                let before = std::mem::replace(&mut self.denied, true);
                let inner = self.step(child)?;
                self.denied = before;
                Step::Not(Box::new(inner))
            }
            Wanted::Optional(child) => Step::Optional(Box::new(self.step(child)?)),
            Wanted::Tags { field, tags } => {
                let space = Space::tags(*field);
                let mut children = Vec::new();
                for tag in tags {
                    match tag {
                        TagMatch::Exactly(tag) => children.extend(self.term(space, tag.clone(), 0, 1.0)),
                        TagMatch::Like(shape) => children.push(self.shaped(space, shape, 0, 1.0)),
                    }
                }
                any(children, false, weight, Some("TAG".to_owned()))
            }
            Wanted::Numbers { field, range } => {
                if self.schema.field(*field).no_index {
                    return Ok(Step::Nothing);
                }
                Step::Numbers { field: *field, range: *range, weight }
            }
            Wanted::Near { field, area } => near(*field, area, weight),
            Wanted::Missing(field) => {
                let name = self.schema.field(*field).name.to_string();
                // That a field is missing tells nothing of how well a document matches.
                self.term(Space::MISSING, name, 0, 0.0).unwrap_or(Step::Nothing)
            }
            Wanted::VectorsWithin { field, radius, vector, options } => {
                let found = self.options.vectors.within(*field, vector, *radius, options);
                let found = found.map_err(SearchError::Vectors)?;
                if let Some(name) = &options.distance_as {
                    self.distances.push((name.clone(), found.iter().copied().collect()));
                }
                docs_step(found.into_iter().map(|(doc, _)| doc), weight)
            }
        })
    }

    /// A word, its stem, and what stands for the same.
    fn relatives(&self, word: &str) -> Vec<String> {
        let mut words = vec![word.to_owned()];
        let mut add = |word: String| {
            if !words.contains(&word) {
                words.push(word);
            }
        };
        if let Some(stem) = self.stems.stem_any(word) {
            add(format!("+{stem}"));
            add(stem.into_owned());
        }
        self.options.synonyms.of(word).for_each(|synonym| add(synonym.to_owned()));
        words
    }

    /// A term that some document has.
    fn term(&mut self, space: Space, text: String, fields: u128, weight: f64) -> Option<Step> {
        let dictionary = self.index.dictionary();
        let docs = dictionary.find(space, &text).map_or(0, |term| dictionary.docs(term));
        if docs == 0 {
            return None;
        }
        drop(dictionary);
        let scores = space == Space::WORDS || self.options.tags_score;
        let rarity = if scores { self.options.scorer.rarity(docs, self.totals) } else { 0.0 };
        if space == Space::WORDS && !self.denied {
            let place = self.words.len();
            let sought = || Sought { place, rarity: rarity_in_fragments(docs, self.totals) };
            self.words.entry(text.clone()).or_insert_with(sought);
        }
        Some(Step::Term(Term { space, text, fields, docs, rarity, weight }))
    }

    fn any_term(
        &mut self,
        space: Space,
        texts: Vec<String>,
        fields: u128,
        weight: f64,
        form: Option<String>,
    ) -> Step {
        let children = texts.into_iter().filter_map(|text| self.term(space, text, fields, 1.0)).collect();
        any(children, form.is_some(), weight, form)
    }

    fn shaped(&mut self, space: Space, shape: &Shape, fields: u128, weight: f64) -> Step {
        let texts = expand(self.index, space, shape, self.options.expansions_max);
        let form = match shape {
            Shape::Prefix(text) | Shape::Suffix(text) | Shape::Infix(text) => format!("PREFIX - {text}"),
            Shape::Wildcard(pattern) => format!("WILDCARD - {pattern}"),
            Shape::Fuzzy(text, _) => format!("FUZZY - {text}"),
        };
        self.any_term(space, texts, fields, weight, Some(form))
    }

    fn all(
        &mut self,
        children: &[Node],
        slop: Option<u32>,
        in_order: bool,
        weight: f64,
    ) -> Result<Step, SearchError> {
        let mut children = children.iter().map(|child| self.step(child)).collect::<Result<Vec<_>, _>>()?;
        if children.iter().any(|child| matches!(child, Step::Nothing)) {
            return Ok(Step::Nothing);
        }
        if !in_order && !self.options.in_order {
            // The rarest first: it decides which documents are looked at.
            children.sort_by_key(|child| self.docs(child));
        }
        Ok(Step::All { children, slop, in_order, weight })
    }

    /// About how many documents a step finds.
    fn docs(&self, step: &Step) -> u64 {
        match step {
            Step::Nothing => 0,
            Step::Term(term) => u64::from(term.docs),
            Step::Docs { parts, .. } => parts.values().map(|docs| docs.len() as u64).sum(),
            Step::Any { children, .. } => children.iter().map(|child| self.docs(child)).sum(),
            Step::All { children, .. } => children.iter().map(|child| self.docs(child)).min().unwrap_or(0),
            Step::Numbers { .. } | Step::Near { .. } => self.totals.docs,
            Step::Everything { .. } | Step::Not(_) | Step::Optional(_) => self.totals.docs + 1,
        }
    }
}

fn any(mut children: Vec<Step>, first_only: bool, weight: f64, form: Option<String>) -> Step {
    children.retain(|child| !matches!(child, Step::Nothing));
    match &mut children[..] {
        [] => Step::Nothing,
        [Step::Term(term)] => {
            term.weight *= weight;
            children.remove(0)
        }
        _ => Step::Any { children, first_only, weight, form },
    }
}

fn near(field: FieldId, area: &GeoArea, weight: f64) -> Step {
    let Some(centre) = geohash::Position::new(area.longitude, area.latitude) else { return Step::Nothing };
    let area = geohash::Search::new(centre, geohash::Shape::Circle { radius: area.radius }, 1.0);
    let cells = area.ranges();
    Step::Near { field, area, cells, weight }
}
