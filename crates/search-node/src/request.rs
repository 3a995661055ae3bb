// SPDX-License-Identifier: BSD-3-Clause
//! FT.SEARCH's arguments, and those that FT.AGGREGATE has in common with it.
//!
//! A request owns what it needs, so it can be run on another thread.

use std::sync::Arc;

use braid_config::Config;
use braid_resp::reply::Protocol;
use braid_search::execute::Scorer;
use braid_search::query::{self, GeoArea, Node, Query, Wanted};
use braid_search::schema::Kind;
use braid_search::text::{Highlighter, Language, Summary};
use braid_spec::CommandError;

use crate::arguments::{Arguments, error, lossy};
use crate::definition::Definition;
use crate::index::SearchIndex;

/// A field to return, and under which name.
#[derive(Clone, Debug)]
pub struct Returned {
    /// As the client wrote it: a field's name, a hash's field, a path.
    pub path: String,
    pub name: String,
}

/// What is returned of each document.
#[derive(Clone, Debug)]
pub enum Content {
    Nothing,
    All,
    These(Vec<Returned>),
}

/// HIGHLIGHT and SUMMARIZE.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The fields (none: all), and what is done with them.
    pub highlight: Option<(Vec<String>, Highlighter)>,
    pub summarize: Option<(Vec<String>, Summary)>,
}

/// What FT.SEARCH and FT.AGGREGATE have in common.
pub struct Common {
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    pub verbatim: bool,
    pub keep_stop_words: bool,
    pub in_fields: Option<Vec<String>>,
    pub in_keys: Option<Vec<Box<[u8]>>>,
    pub filters: Vec<Node>,
    pub language: Option<Language>,
    pub scorer: Scorer,
    pub slop: Option<u32>,
    pub in_order: bool,
    pub dialect: u8,
    /// The client chose the dialect.
    has_dialect: bool,
    pub timeout_ms: u64,
    pub is_expanded: bool,
    /// Tags add to scores: not in FT.HYBRID.
    pub tags_score: bool,
    /// FILTER is a step of FT.AGGREGATE.
    is_aggregation: bool,
}

impl Common {
    pub fn new(config: &Config, is_aggregation: bool) -> Common {
        Common {
            is_aggregation,
            parameters: Vec::new(),
            verbatim: false,
            keep_stop_words: false,
            in_fields: None,
            in_keys: None,
            filters: Vec::new(),
            language: None,
            scorer: Scorer::default(),
            slop: None,
            in_order: false,
            dialect: 2,
            has_dialect: false,
            timeout_ms: config.search_timeout(),
            is_expanded: false,
            tags_score: true,
        }
    }

    /// Reads an option from the beginning of the arguments. False, with nothing read, if it is
    /// none of these.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn option(
        &mut self,
        args: &mut Arguments<'_>,
        definition: &Definition,
    ) -> Result<bool, CommandError> {
        let mut ahead = args.clone();
        let word = ahead.next().unwrap_or_default().to_ascii_uppercase();
        match word.as_slice() {
            b"VERBATIM" => self.verbatim = true,
            b"NOSTOPWORDS" => self.keep_stop_words = true,
            b"INORDER" => self.in_order = true,
            // Matches are counted in any case.
            b"WITHCOUNT" | b"WITHOUTCOUNT" => {}
            b"DIALECT" => {
                let wrong = || error("DIALECT requires a non negative integer >=1 and <= 4");
                let text = ahead.next().ok_or_else(|| error("Need an argument for DIALECT"))?;
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                self.dialect = number.filter(|number| (1..=4).contains(number)).ok_or_else(wrong)?;
                self.has_dialect = true;
            }
            b"TIMEOUT" => {
                let text = ahead.next().ok_or_else(|| error("Need argument for TIMEOUT"))?;
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                self.timeout_ms = number.ok_or_else(|| error("TIMEOUT requires a non negative integer"))?;
            }
            b"LANGUAGE" => {
                let language = Language::parse(ahead.value("LANGUAGE")?);
                self.language = Some(language.ok_or_else(|| error("No such language"))?);
            }
            b"SCORER" => {
                let name = ahead.value("SCORER")?;
                let scorer = Scorer::parse(name);
                self.scorer = scorer.ok_or_else(|| error(format!("No such scorer {}", lossy(name))))?;
            }
            b"EXPANDER" => drop(ahead.value("EXPANDER")?),
            b"SLOP" => {
                let slop: i64 = ahead.number("SLOP")?;
                self.slop = u32::try_from(slop).ok();
            }
            b"INFIELDS" => {
                self.in_fields = Some(ahead.counted("INFIELDS")?.iter().map(|name| lossy(name)).collect());
            }
            b"INKEYS" => {
                self.in_keys = Some(ahead.counted("INKEYS")?.iter().map(|&key| key.into()).collect());
            }
            b"PARAMS" => self.read_parameters(&mut ahead)?,
            b"FILTER" | b"GEOFILTER" if self.is_aggregation => return Ok(false),
            b"FILTER" => self.read_filter(&mut ahead, definition)?,
            b"GEOFILTER" => self.read_geo_filter(&mut ahead, definition)?,
            b"FORMAT" => {
                let format = ahead.next().ok_or_else(|| error("Need an argument for FORMAT"))?;
                self.is_expanded = match format.to_ascii_uppercase().as_slice() {
                    b"STRING" => false,
                    b"EXPAND" => true,
                    _ => return Err(error(format!("FORMAT {} is not supported", lossy(format)))),
                };
            }
            _ => return Ok(false),
        }
        *args = ahead;
        Ok(true)
    }

    fn read_parameters(&mut self, args: &mut Arguments<'_>) -> Result<(), CommandError> {
        let found = args.counted("PARAMS")?;
        if found.is_empty() || !found.len().is_multiple_of(2) {
            return Err(error("Parameters must be specified in PARAM VALUE pairs"));
        }
        for pair in found.chunks_exact(2) {
            if self.parameters.iter().any(|(name, _)| name == pair[0]) {
                return Err(error(format!("Duplicate parameter `{}`", lossy(pair[0]))));
            }
            self.parameters.push((pair[0].to_vec(), pair[1].to_vec()));
        }
        Ok(())
    }

    /// FILTER of FT.SEARCH: a field and two bounds.
    fn read_filter(&mut self, args: &mut Arguments<'_>, definition: &Definition) -> Result<(), CommandError> {
        let [name, min, max, ..] = args.rest() else { return Err(error("FILTER requires 3 arguments")) };
        let bound = |text: &[u8], which: &str| {
            let (open, digits) = text.strip_prefix(b"(").map_or((false, text), |rest| (true, rest));
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<f64>().ok());
            let wrong = || error(format!("Bad {which} range: {}", lossy(text)));
            Ok::<_, CommandError>((number.filter(|number| !number.is_nan()).ok_or_else(wrong)?, open))
        };
        let ((min, without_min), (max, without_max)) = (bound(min, "lower")?, bound(max, "upper")?);
        let range = query::Range { min, max, without_min, without_max };
        let field = definition.schema.find(&lossy(name));
        let field = field.filter(|id| definition.schema.field(*id).kind == Kind::Numeric);
        self.filters
            .push(field.map_or_else(Node::nothing, |field| Node::new(Wanted::Numbers { field, range })));
        args.skip(3);
        Ok(())
    }

    fn read_geo_filter(
        &mut self,
        args: &mut Arguments<'_>,
        definition: &Definition,
    ) -> Result<(), CommandError> {
        let [name, longitude, latitude, radius, unit, ..] = args.rest() else {
            return Err(error("GEOFILTER requires 5 arguments"));
        };
        let number = |text: &[u8], what: &str| {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
            number.ok_or_else(|| {
                error(format!("Bad arguments for <{what}>: Could not convert argument to expected type"))
            })
        };
        let (unit, metres) = query::geo_unit(unit).ok_or_else(|| error("Unknown distance unit"))?;
        let area = GeoArea {
            longitude: number(longitude, "lon")?,
            latitude: number(latitude, "lat")?,
            radius: number(radius, "radius")? * metres,
            unit,
        };
        let field = definition.schema.find(&lossy(name));
        let field = field.filter(|id| definition.schema.field(*id).kind == Kind::Geo);
        self.filters.push(field.map_or_else(Node::nothing, |field| Node::new(Wanted::Near { field, area })));
        args.skip(5);
        Ok(())
    }

    /// Whether FORMAT EXPAND is possible, if it is asked for.
    ///
    /// # Errors
    /// If not.
    pub fn check_format(&mut self, definition: &Definition, protocol: Protocol) -> Result<(), CommandError> {
        if !self.is_expanded {
            return Ok(());
        }
        if protocol != Protocol::Resp3 {
            return Err(error("EXPAND format is only supported with RESP3"));
        }
        if !definition.is_json {
            return Err(error("EXPAND format is only supported with JSON"));
        }
        if self.has_dialect && self.dialect < 3 {
            return Err(error("EXPAND format requires dialect 3 or greater"));
        }
        self.dialect = self.dialect.max(3);
        Ok(())
    }

    /// The tree of a query, filters included.
    ///
    /// # Errors
    /// What is wrong with the query.
    pub fn parse(
        &self,
        text: &[u8],
        definition: &Definition,
        config: &Config,
    ) -> Result<Query, CommandError> {
        let schema = &definition.schema;
        let parameters: Vec<(&[u8], &[u8])> =
            self.parameters.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let mut options = query::Options::new(schema);
        options.parameters = &parameters;
        options.verbatim = self.verbatim;
        options.keep_stop_words = self.keep_stop_words;
        options.prefix_len_min = config.search_min_prefix();
        options.first_dialect = self.dialect == 1;
        if let Some(names) = &self.in_fields {
            let masks = names.iter().filter_map(|name| schema.find(name)).map(|id| schema.text_mask(id));
            options.fields = masks.fold(0, |all, one| all | one);
        }
        let parsed = query::parse(&lossy(text), &options);
        let mut query = parsed.map_err(|wrong| error(wrong.to_string()))?;
        if !self.filters.is_empty() {
            let mut children = vec![query.root];
            children.extend(self.filters.iter().cloned());
            query.root = Node::new(Wanted::All { children, slop: None, in_order: false });
        }
        Ok(query)
    }
}

/// FT.SEARCH.
pub struct SearchRequest {
    pub index: Arc<SearchIndex>,
    pub query: Query,
    pub common: Common,
    pub content: Content,
    pub marks: Marks,
    pub with_scores: bool,
    /// EXPLAINSCORE
    pub explains: bool,
    pub with_payloads: bool,
    pub with_sort_keys: bool,
    /// The property, and whether descending.
    pub sort: Option<(String, bool)>,
    pub offset: usize,
    pub count: usize,
}

impl SearchRequest {
    /// Reads the arguments after the name of the index.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(
        index: Arc<SearchIndex>,
        args: &[&[u8]],
        config: &Config,
        protocol: Protocol,
    ) -> Result<SearchRequest, CommandError> {
        let definition = index.definition();
        let Some((&text, rest)) = args.split_first() else {
            return Err(error("No query string provided"));
        };
        let mut request = SearchRequest {
            query: Query { root: Node::nothing(), knn: None },
            common: Common::new(config, false),
            content: Content::All,
            marks: Marks::default(),
            with_scores: false,
            explains: false,
            with_payloads: false,
            with_sort_keys: false,
            sort: None,
            offset: 0,
            count: 10,
            index: Arc::clone(&index),
        };
        let mut args = Arguments::new(rest);
        let mut is_without = false;
        while !args.is_empty() {
            if args.take("NOCONTENT") {
                is_without = true;
            } else if !request.common.option(&mut args, &definition)? && !request.option(&mut args, config)? {
                let word = lossy(args.peek().unwrap_or_default());
                let position = args.position() + 1;
                return Err(error(format!("Unknown argument `{word}` at position {position} for <main>")));
            }
        }
        if is_without {
            request.content = Content::Nothing;
        }
        request.common.check_format(&definition, protocol)?;
        request.check(&definition)?;
        request.query = request.common.parse(text, &definition, config)?;
        index.note_use(request.common.dialect);
        Ok(request)
    }

    fn option(&mut self, args: &mut Arguments<'_>, config: &Config) -> Result<bool, CommandError> {
        if args.take("WITHSCORES") {
            self.with_scores = true;
        } else if args.take("WITHPAYLOADS") {
            self.with_payloads = true;
        } else if args.take("WITHSORTKEYS") {
            self.with_sort_keys = true;
        } else if args.take("EXPLAINSCORE") {
            self.explains = true;
        } else if args.take("LIMIT") {
            (self.offset, self.count) = limit(args)?;
            let most = config.search_max_search_results();
            if self.count > most {
                return Err(error(format!("LIMIT exceeds maximum of {most}")));
            }
            if self.offset > most {
                return Err(error(format!("OFFSET exceeds maximum of {most}")));
            }
        } else if args.take("SORTBY") {
            if self.sort.is_some() {
                return Err(error("Multiple SORTBY steps are not allowed"));
            }
            let name = lossy(args.next().ok_or_else(|| error("Bad SORTBY arguments"))?);
            let descending = args.take("DESC");
            let _ = descending || args.take("ASC");
            self.sort = Some((name, descending));
        } else if args.take("RETURN") {
            self.content = read_returned(args)?;
        } else if args.take("HIGHLIGHT") {
            self.read_highlight(args)?;
        } else if args.take("SUMMARIZE") {
            self.read_summarize(args)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn read_highlight(&mut self, args: &mut Arguments<'_>) -> Result<(), CommandError> {
        let mut marks = Highlighter::default();
        let mut fields = Vec::new();
        loop {
            if args.take("FIELDS") {
                fields = args.counted("HIGHLIGHT")?.iter().map(|name| lossy(name)).collect();
            } else if args.take("TAGS") {
                let wrong = || error("Bad arguments for HIGHLIGHT");
                marks.open = lossy(args.next().ok_or_else(wrong)?).into();
                marks.close = lossy(args.next().ok_or_else(wrong)?).into();
            } else {
                break;
            }
        }
        self.marks.highlight = Some((fields, marks));
        Ok(())
    }

    fn read_summarize(&mut self, args: &mut Arguments<'_>) -> Result<(), CommandError> {
        let mut summary = Summary::default();
        let mut fields = Vec::new();
        loop {
            if args.take("FIELDS") {
                fields = args.counted("SUMMARIZE")?.iter().map(|name| lossy(name)).collect();
            } else if args.take("FRAGS") {
                summary.fragments = args.number("SUMMARIZE")?;
            } else if args.take("LEN") {
                summary.fragment_len = args.number("SUMMARIZE")?;
            } else if args.take("SEPARATOR") {
                summary.separator = lossy(args.value("SUMMARIZE")?).into();
            } else {
                break;
            }
        }
        self.marks.summarize = Some((fields, summary));
        Ok(())
    }

    fn check(&self, definition: &Definition) -> Result<(), CommandError> {
        if self.explains && !self.with_scores {
            return Err(error("EXPLAINSCORE must be accompanied with WITHSCORES"));
        }
        let marked = [
            self.marks.highlight.as_ref().map(|(fields, _)| fields),
            self.marks.summarize.as_ref().map(|(fields, _)| fields),
        ];
        for fields in marked.into_iter().flatten() {
            if !definition.has_highlights {
                return Err(error(
                    "Cannot use highlight/summarize because NOOFSETS was specified at index level",
                ));
            }
            let unknown = fields.iter().find(|name| definition.field(name).is_none());
            if let Some(name) = unknown {
                return Err(error(format!("No such property `{name}`")));
            }
        }
        Ok(())
    }
}

fn limit(args: &mut Arguments<'_>) -> Result<(usize, usize), CommandError> {
    let [offset, count, ..] = args.rest() else { return Err(error("LIMIT requires two arguments")) };
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let wrong = || error("LIMIT needs two numeric arguments");
    let found = (number(offset).ok_or_else(wrong)?, number(count).ok_or_else(wrong)?);
    args.skip(2);
    Ok(found)
}

fn read_returned(args: &mut Arguments<'_>) -> Result<Content, CommandError> {
    let words = args.counted("RETURN")?;
    if words.is_empty() {
        return Ok(Content::Nothing);
    }
    let mut returned: Vec<Returned> = Vec::new();
    let mut words = words.iter();
    while let Some(path) = words.next() {
        let path = lossy(path);
        let mut name = path.clone();
        if words.as_slice().first().is_some_and(|word| word.eq_ignore_ascii_case(b"AS")) {
            words.next();
            let given = words.next();
            name = lossy(given.ok_or_else(|| error("RETURN path AS name - must be accompanied with NAME"))?);
        }
        if !returned.iter().any(|one| one.name == name) {
            returned.push(Returned { path, name });
        }
    }
    Ok(Content::These(returned))
}
