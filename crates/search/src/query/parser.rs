// SPDX-License-Identifier: BSD-3-Clause
//! The grammar of dialect 2, by recursive descent:
//!
//! ```text
//! query   = union ["=>" "[" knn "]"]      union = both {"|" both}      both = unit {unit}
//! unit    = bare ["=>" "{" attributes "}"]
//! bare    = "(" union ")" | "-" unit | "~" unit | field | word | phrase | shape | ismissing
//! field   = @name{|name} (":" (value | "[" range "]" | "{" tags "}") | comparison number)
//! ```
//!
//! Stop words are no part of the tree. A field that is unknown, or of another type than what is
//! asked of it, matches nothing.

use super::ast::{Knn, Node, Query, Range, Shape, TagMatch, VectorOptions, Wanted};
use super::dialect::is_alike;
use super::error::QueryError;
use super::lexer::{Lexeme, Placed, lex};
use super::values::{geo_area, parse_number, set_attribute, set_vector_option};
use crate::schema::{Field, FieldId, Kind, Schema};
use crate::text::{fold_case, tokens};

/// Of a query's text, in bytes.
pub const LEN_MAX: usize = 1 << 20;
/// Nesting of parentheses and signs.
pub const DEPTH_MAX: usize = 64;
/// Of the tree.
pub const NODES_MAX: usize = 1 << 16;

/// What a query is parsed with.
pub struct Options<'a> {
    pub schema: &'a Schema,
    /// PARAMS: names and values.
    pub parameters: &'a [(&'a [u8], &'a [u8])],
    /// VERBATIM: words are not expanded.
    pub verbatim: bool,
    /// NOSTOPWORDS: stop words are searched.
    pub keep_stop_words: bool,
    /// INFIELDS: the text fields searched where the query names none.
    pub fields: u128,
    /// Shorter prefixes match nothing.
    pub prefix_len_min: usize,
    /// What dialect 1 understands in another way is an error.
    pub first_dialect: bool,
}

impl<'a> Options<'a> {
    pub fn new(schema: &'a Schema) -> Options<'a> {
        Options {
            schema,
            parameters: &[],
            verbatim: false,
            keep_stop_words: false,
            fields: u128::MAX,
            prefix_len_min: 2,
            first_dialect: false,
        }
    }
}

/// Where a part of a query is.
#[derive(Clone, Copy)]
struct Scope {
    /// The text fields searched.
    fields: u128,
    /// Below a field's name: no other may follow.
    scoped: bool,
    expand: bool,
}

struct Parser<'a> {
    options: &'a Options<'a>,
    lexemes: Vec<Placed>,
    at: usize,
    depth: usize,
    nodes: usize,
}

type Parsed<T = Node> = Result<T, QueryError>;

/// # Errors
///
/// If the text is not a query, or exceeds a limit.
pub fn parse(text: &str, options: &Options<'_>) -> Parsed<Query> {
    if text.len() > LEN_MAX {
        return Err(QueryError::TooLong);
    }
    let lexemes = lex(text);
    let is_stop_word = |word: &str| options.schema.stop_words.contains(&fold_case(word));
    if options.first_dialect && !is_alike(&lexemes, is_stop_word) {
        return Err(QueryError::Dialect);
    }
    let mut parser = Parser { options, lexemes, at: 0, depth: 0, nodes: 0 };
    if *parser.peek() == Lexeme::End {
        return Ok(Query { root: Node::nothing(), knn: None });
    }
    let scope = Scope { fields: options.fields, scoped: false, expand: !options.verbatim };
    let root = if parser.is_everything() {
        parser.take("*");
        Node::new(Wanted::Everything)
    } else {
        parser.union(scope)?.unwrap_or_else(Node::nothing)
    };
    let knn = if parser.take("=>") { Some(parser.knn()?) } else { None };
    let of_filters = |knn: &Knn| knn.options.policy.is_some() || knn.options.batch_size.is_some();
    if root.wanted == Wanted::Everything && knn.as_ref().is_some_and(of_filters) {
        return Err(QueryError::VectorNotFiltered);
    }
    match parser.peek() {
        Lexeme::End => Ok(Query { root, knn }),
        _ => Err(parser.error()),
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Lexeme {
        &self.lexemes[self.at].lexeme
    }

    fn peek_after(&self) -> &Lexeme {
        &self.lexemes[(self.at + 1).min(self.lexemes.len() - 1)].lexeme
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Lexeme::Symbol(found) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is = self.is(symbol);
        self.at += usize::from(is);
        is
    }

    /// Takes a star that directly follows what was taken before.
    fn take_star(&mut self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.lexemes[at].end);
        before == Some(self.lexemes[self.at].offset) && self.take("*")
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.take(symbol) { Ok(()) } else { Err(self.error()) }
    }

    /// Takes the next lexeme; the end stays.
    fn advance(&mut self) -> Lexeme {
        let taken = self.peek().clone();
        self.at += usize::from(taken != Lexeme::End);
        taken
    }

    /// A syntax error at the next lexeme.
    fn error(&self) -> QueryError {
        let text = |placed: &Placed| match &placed.lexeme {
            Lexeme::Word(text) | Lexeme::Number(text) | Lexeme::Parameter(text) | Lexeme::Field(text) => {
                Some(text.clone())
            }
            _ => None,
        };
        let near = self.lexemes[..=self.at].iter().rev().find_map(text);
        QueryError::Syntax { offset: self.lexemes[self.at].offset, near: near.unwrap_or_default() }
    }

    fn count(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX { Err(QueryError::TooLong) } else { Ok(()) }
    }

    fn parameter(&self, name: &str) -> Parsed<&[u8]> {
        let found = self.options.parameters.iter().find(|(one, _)| *one == name.as_bytes());
        found.map(|(_, value)| *value).ok_or_else(|| QueryError::NoParameter(name.to_owned()))
    }

    fn text_parameter(&self, name: &str) -> Parsed<String> {
        self.parameter(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Whether this is a star alone.
    fn is_everything(&self) -> bool {
        self.is("*") && matches!(self.peek_after(), Lexeme::End | Lexeme::Symbol("=>" | ")"))
    }

    /// Alternatives; none if there are only stop words.
    fn union(&mut self, scope: Scope) -> Parsed<Option<Node>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        let mut parts = Vec::from_iter(self.both(scope)?);
        while self.take("|") {
            parts.extend(self.both(scope)?);
        }
        self.depth -= 1;
        if parts.len() > 1 {
            parts.retain(|part| !part.is_nothing());
            if parts.len() != 1 {
                return Ok(Some(any(parts)));
            }
        }
        Ok(parts.pop())
    }

    fn both(&mut self, scope: Scope) -> Parsed<Option<Node>> {
        let mut parts = Vec::new();
        let mut units = 0;
        loop {
            let ends = match self.peek() {
                Lexeme::End => true,
                Lexeme::Symbol("=>") => units > 0,
                Lexeme::Symbol(symbol) => matches!(*symbol, ")" | "|") && units > 0,
                _ => false,
            };
            if ends && units > 0 {
                break;
            }
            units += 1;
            parts.extend(self.unit(scope)?);
        }
        Ok(match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(Node::new(Wanted::All { children: parts, slop: None, in_order: false })),
        })
    }

    /// A part with its attributes; none if it is a stop word, or has only such.
    fn unit(&mut self, scope: Scope) -> Parsed<Option<Node>> {
        self.count()?;
        let mut node = self.bare(scope)?;
        while self.is("=>") && matches!(self.peek_after(), Lexeme::Symbol("{")) {
            self.at += 2;
            self.attributes(node.as_mut().unwrap_or(&mut Node::nothing()))?;
        }
        Ok(node)
    }

    fn bare(&mut self, scope: Scope) -> Parsed<Option<Node>> {
        let start = self.at;
        let found = match self.advance() {
            Lexeme::Symbol("(") => {
                let inner =
                    if !scope.scoped && self.is_everything() && !matches!(self.peek_after(), Lexeme::End) {
                        self.take("*");
                        Some(Node::new(Wanted::Everything))
                    } else {
                        self.union(scope)?
                    };
                self.expect(")")?;
                return Ok(inner);
            }
            Lexeme::Symbol("-") => return self.signed(scope, |node| Wanted::Not(Box::new(node))),
            Lexeme::Symbol("~") => return self.signed(scope, |node| Wanted::Optional(Box::new(node))),
            Lexeme::Symbol("%") => self.fuzzy(scope)?,
            Lexeme::Symbol("*") => self.ending(scope)?,
            Lexeme::Quoted(text) => self.phrase(&text, scope)?,
            Lexeme::Pattern(pattern) => shaped(Shape::Wildcard(fold_case(&pattern).into()), scope),
            Lexeme::Field(name) if !scope.scoped => return self.field(&name, scope),
            Lexeme::Word(word) if word.eq_ignore_ascii_case("ismissing") && self.is("(") => self.missing()?,
            Lexeme::Word(word) => return self.word(&word, scope),
            Lexeme::Parameter(name) => {
                let word = self.text_parameter(&name)?;
                if word.is_empty() {
                    return self.empty(scope).map(Some);
                }
                return self.word(&word, scope);
            }
            Lexeme::Number(number) => {
                if self.take_star() {
                    self.prefix(&number, scope)
                } else {
                    word_node(fold_case(&number).into(), scope, false)
                }
            }
            _ => {
                self.at = start;
                return Err(self.error());
            }
        };
        Ok(Some(found))
    }

    /// What follows a sign. Its words are not expanded.
    fn signed(&mut self, scope: Scope, wanted: impl FnOnce(Node) -> Wanted) -> Parsed<Option<Node>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        let inner = self.unit(Scope { expand: false, ..scope })?;
        self.depth -= 1;
        Ok(inner.map(|node| Node::new(wanted(node))))
    }

    fn word(&mut self, word: &str, scope: Scope) -> Parsed<Option<Node>> {
        if self.take_star() {
            return Ok(Some(self.prefix(word, scope)));
        }
        let word = fold_case(word).into_owned();
        if !self.options.keep_stop_words && self.options.schema.stop_words.contains(&word) {
            return Ok(None);
        }
        Ok(Some(word_node(word, scope, scope.expand)))
    }

    fn prefix(&self, text: &str, scope: Scope) -> Node {
        if text.chars().count() < self.options.prefix_len_min {
            return Node::nothing();
        }
        shaped(Shape::Prefix(fold_case(text).into()), scope)
    }

    /// What follows a star: a suffix, or an infix up to another star.
    fn ending(&mut self, scope: Scope) -> Parsed {
        if self.lexemes[self.at].offset != self.lexemes[self.at - 1].end {
            // A star alone is a query of its own only.
            self.at -= 1;
            return Err(self.error());
        }
        let text = self.plain_text()?;
        let is_infix = self.take_star();
        if text.chars().count() < self.options.prefix_len_min {
            return Ok(Node::nothing());
        }
        let text = fold_case(&text).into_owned();
        Ok(shaped(if is_infix { Shape::Infix(text) } else { Shape::Suffix(text) }, scope))
    }

    fn plain_text(&mut self) -> Parsed<String> {
        match self.peek().clone() {
            Lexeme::Word(text) | Lexeme::Number(text) => {
                self.at += 1;
                Ok(text)
            }
            Lexeme::Parameter(name) => {
                let text = self.text_parameter(&name)?;
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.error()),
        }
    }

    fn fuzzy(&mut self, scope: Scope) -> Parsed {
        let mut distance = 1;
        while distance < 3 && self.take("%") {
            distance += 1;
        }
        let text = self.plain_text()?;
        for _ in 0..distance {
            self.expect("%")?;
        }
        Ok(shaped(Shape::Fuzzy(fold_case(&text).into(), distance), scope))
    }

    /// Texts that are empty: fields that are named must have an index of them.
    fn empty(&mut self, scope: Scope) -> Parsed {
        let schema = self.options.schema;
        let is_not_indexed =
            |(id, field): (FieldId, &Field)| schema.text_mask(id) & scope.fields != 0 && !field.index_empty;
        if scope.scoped && (0..).zip(schema.fields()).any(is_not_indexed) {
            return Err(QueryError::EmptyNotIndexed);
        }
        self.count()?;
        Ok(word_node(String::new(), Scope { expand: false, ..scope }, false))
    }

    fn phrase(&mut self, text: &str, scope: Scope) -> Parsed {
        if text.is_empty() {
            return self.empty(scope);
        }
        let mut children = Vec::new();
        for token in tokens(text) {
            self.count()?;
            children.push(word_node(token.word.into_owned(), Scope { expand: false, ..scope }, false));
        }
        Ok(match children.len() {
            0 => Node::nothing(),
            1 => children.remove(0),
            _ => Node::new(Wanted::All { children, slop: Some(0), in_order: true }),
        })
    }

    fn missing(&mut self) -> Parsed {
        self.expect("(")?;
        let Lexeme::Field(name) = self.peek().clone() else { return Err(self.error()) };
        self.at += 1;
        self.expect(")")?;
        let Some(field) = self.options.schema.find(&name) else { return Ok(Node::nothing()) };
        if !self.options.schema.field(field).index_missing {
            return Err(QueryError::MissingNotIndexed(name));
        }
        Ok(Node::new(Wanted::Missing(field)))
    }

    /// What follows a field's name.
    fn field(&mut self, first: &str, scope: Scope) -> Parsed<Option<Node>> {
        let mut names = vec![first.to_owned()];
        while self.is("|") {
            self.at += 1;
            let Lexeme::Word(name) = self.peek().clone() else { return Err(self.error()) };
            self.at += 1;
            names.push(name);
        }
        let schema = self.options.schema;
        let field = schema.find(first);
        if names.len() == 1
            && let Lexeme::Symbol(symbol @ ("==" | "!=" | ">" | ">=" | "<" | "<=")) = *self.peek()
        {
            self.at += 1;
            return self.comparison(field, symbol).map(Some);
        }
        if !self.is(":") {
            // The error is at the name.
            self.at -= 1;
            return Err(self.error());
        }
        self.at += 1;
        match self.peek() {
            Lexeme::Symbol("[") if names.len() == 1 => {
                self.at += 1;
                self.bracketed(field).map(Some)
            }
            Lexeme::Symbol("{") if names.len() == 1 => {
                self.at += 1;
                self.tags(field).map(Some)
            }
            Lexeme::End => {
                self.at -= 1;
                Err(self.error())
            }
            _ => {
                let mask = |name: &String| schema.find(name).map_or(0, |field| schema.text_mask(field));
                let fields = names.iter().map(mask).fold(0, |all, one| all | one) & self.options.fields;
                self.bare(Scope { fields, scoped: true, ..scope })
            }
        }
    }

    fn numeric(&self, field: Option<FieldId>, range: Range) -> Node {
        let is_number = |field: &FieldId| self.options.schema.field(*field).kind == Kind::Numeric;
        match field.filter(is_number) {
            Some(field) => Node::new(Wanted::Numbers { field, range }),
            None => Node::nothing(),
        }
    }

    fn comparison(&mut self, field: Option<FieldId>, symbol: &str) -> Parsed {
        let number = self.number()?;
        let all =
            Range { min: f64::NEG_INFINITY, max: f64::INFINITY, without_min: false, without_max: false };
        let range = match symbol {
            ">" => Range { min: number, without_min: true, ..all },
            ">=" => Range { min: number, ..all },
            "<" => Range { max: number, without_max: true, ..all },
            "<=" => Range { max: number, ..all },
            _ => Range { min: number, max: number, ..all },
        };
        let node = self.numeric(field, range);
        Ok(if symbol == "!=" { Node::new(Wanted::Not(Box::new(node))) } else { node })
    }

    fn number(&mut self) -> Parsed<f64> {
        let text = match self.peek().clone() {
            Lexeme::Number(text) => text,
            Lexeme::Parameter(name) => {
                let text = self.text_parameter(&name)?;
                let number = parse_number(&text).ok_or(QueryError::LowerRange(text))?;
                self.at += 1;
                return Ok(number);
            }
            _ => return Err(self.error()),
        };
        let number = parse_number(&text).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(number)
    }

    /// What follows `[`: a range, an area or a distance between vectors.
    fn bracketed(&mut self, field: Option<FieldId>) -> Parsed {
        if matches!(self.peek(), Lexeme::Word(word) if word.eq_ignore_ascii_case("VECTOR_RANGE")) {
            self.at += 1;
            return self.vector_range(field);
        }
        // Text and whether `(` precedes.
        let mut values: Vec<(String, bool)> = Vec::new();
        while !self.is("]") {
            let exclusive = self.take("(");
            let text = match self.peek().clone() {
                Lexeme::Number(text) => text,
                Lexeme::Word(unit) if values.len() == 3 => unit,
                Lexeme::Parameter(name) => {
                    // A parameter may hold the parenthesis too.
                    self.text_parameter(&name)?
                }
                _ => return Err(self.error()),
            };
            if values.len() == 4 {
                return Err(self.error());
            }
            self.at += 1;
            match text.strip_prefix('(') {
                Some(text) => values.push((text.to_owned(), true)),
                None => values.push((text, exclusive)),
            }
        }
        let node = match &values[..] {
            [one] => {
                let min = parse_number(&one.0).ok_or_else(|| QueryError::LowerRange(one.0.clone()))?;
                let range = Range { min, max: min, without_min: one.1, without_max: one.1 };
                self.numeric(field, range)
            }
            [low, high] => {
                let min = parse_number(&low.0).ok_or_else(|| QueryError::LowerRange(low.0.clone()))?;
                let max = parse_number(&high.0).ok_or_else(|| QueryError::UpperRange(high.0.clone()))?;
                self.numeric(field, Range { min, max, without_min: low.1, without_max: high.1 })
            }
            [longitude, latitude, radius, unit] => {
                let area = geo_area(&longitude.0, &latitude.0, &radius.0, &unit.0)?;
                match field.filter(|&field| self.options.schema.field(field).kind == Kind::Geo) {
                    Some(field) => Node::new(Wanted::Near { field, area }),
                    None => Node::nothing(),
                }
            }
            _ => return Err(self.error()),
        };
        self.expect("]")?;
        Ok(node)
    }

    fn vector_range(&mut self, field: Option<FieldId>) -> Parsed {
        let radius = self.number()?;
        let Lexeme::Parameter(name) = self.peek().clone() else { return Err(self.error()) };
        let vector = self.parameter(&name)?.to_vec();
        self.at += 1;
        self.expect("]")?;
        if radius < 0.0 {
            return Err(QueryError::NegativeRadius(radius.to_string()));
        }
        Ok(match field.filter(|&field| self.options.schema.field(field).kind == Kind::Vector) {
            Some(field) => {
                let options = VectorOptions { parameter: name, ..VectorOptions::default() };
                Node::new(Wanted::VectorsWithin { field, radius, vector, options })
            }
            None => Node::nothing(),
        })
    }

    /// What follows `{`: tags, each of several words perhaps.
    fn tags(&mut self, field: Option<FieldId>) -> Parsed {
        let known = field.and_then(|field| match self.options.schema.field(field).kind {
            Kind::Tag { case_sensitive, .. } => Some((field, case_sensitive)),
            _ => None,
        });
        let fold = |text: &str| match known {
            Some((_, false)) => fold_case(text).into_owned(),
            _ => text.to_owned(),
        };
        let mut tags = Vec::new();
        loop {
            self.count()?;
            let tag = self.tag(&fold)?;
            let is_empty = matches!(&tag, TagMatch::Exactly(text) if text.is_empty());
            if is_empty && field.is_some_and(|field| !self.options.schema.field(field).index_empty) {
                return Err(QueryError::EmptyNotIndexed);
            }
            // As for words, a shape that is too short matches nothing.
            let too_short = match &tag {
                TagMatch::Like(Shape::Prefix(text) | Shape::Suffix(text) | Shape::Infix(text)) => {
                    text.chars().count() < self.options.prefix_len_min
                }
                _ => false,
            };
            if !too_short {
                tags.push(tag);
            }
            if self.take("}") {
                break;
            }
            self.expect("|")?;
        }
        Ok(known.map_or_else(Node::nothing, |(field, _)| Node::new(Wanted::Tags { field, tags })))
    }

    fn tag(&mut self, fold: &impl Fn(&str) -> String) -> Parsed<TagMatch> {
        if self.take("*") {
            let text = fold(&self.plain_text()?);
            let shape = if self.take_star() { Shape::Infix(text) } else { Shape::Suffix(text) };
            return Ok(TagMatch::Like(shape));
        }
        if let Lexeme::Pattern(pattern) = self.peek().clone() {
            self.at += 1;
            return Ok(TagMatch::Like(Shape::Wildcard(fold(&pattern))));
        }
        if let Lexeme::Quoted(text) = self.peek().clone() {
            self.at += 1;
            return Ok(TagMatch::Exactly(fold(&text.replace("\\\"", "\"")).trim().to_owned()));
        }
        let mut text = fold(&self.plain_text()?);
        if self.take_star() {
            return Ok(TagMatch::Like(Shape::Prefix(text)));
        }
        while matches!(self.peek(), Lexeme::Word(_) | Lexeme::Number(_) | Lexeme::Parameter(_)) {
            text.push(' ');
            text.push_str(&fold(&self.plain_text()?));
        }
        Ok(TagMatch::Exactly(text.trim().to_owned()))
    }

    /// What follows `=>{`.
    fn attributes(&mut self, node: &mut Node) -> Parsed<()> {
        while !self.take("}") {
            let Lexeme::Parameter(name) = self.peek().clone() else { return Err(self.error()) };
            self.at += 1;
            self.expect(":")?;
            let value = self.plain_text()?;
            set_attribute(node, &name, &value)?;
            if !self.take(";") && !self.is("}") {
                return Err(self.error());
            }
        }
        Ok(())
    }

    /// What follows `=>` at the end: the nearest vectors.
    fn knn(&mut self) -> Parsed<Knn> {
        self.expect("[")?;
        match self.peek() {
            Lexeme::Word(word) if word.eq_ignore_ascii_case("KNN") => self.at += 1,
            _ => return Err(self.error()),
        }
        let count = match self.peek().clone() {
            Lexeme::Number(text) => text.parse().map_err(|_| self.error())?,
            Lexeme::Parameter(name) => {
                let text = self.text_parameter(&name)?;
                text.parse().map_err(|_| self.error())?
            }
            _ => return Err(self.error()),
        };
        self.at += 1;
        let Lexeme::Field(name) = self.peek().clone() else { return Err(self.error()) };
        self.at += 1;
        let Lexeme::Parameter(parameter) = self.peek().clone() else { return Err(self.error()) };
        let vector = self.parameter(&parameter)?.to_vec();
        self.at += 1;
        let schema = self.options.schema;
        let field = schema.find(&name).filter(|&field| schema.field(field).kind == Kind::Vector);
        let mut options = VectorOptions { parameter, ..VectorOptions::default() };
        while !self.take("]") {
            let Lexeme::Word(option) = self.peek().clone() else { return Err(self.error()) };
            self.at += 1;
            let value = self.plain_text()?;
            set_vector_option(&mut options, &option, &value)?;
        }
        if self.is("=>") && matches!(self.peek_after(), Lexeme::Symbol("{")) {
            self.at += 2;
            while !self.take("}") {
                let Lexeme::Parameter(name) = self.peek().clone() else { return Err(self.error()) };
                self.at += 1;
                self.expect(":")?;
                let value = self.plain_text()?;
                let option = if name.eq_ignore_ascii_case("yield_distance_as") { "AS" } else { &name };
                set_vector_option(&mut options, option, &value)?;
                if !self.take(";") && !self.is("}") {
                    return Err(self.error());
                }
            }
        }
        let distance_as = options.distance_as.get_or_insert_with(|| format!("__{name}_score"));
        if schema.find(distance_as).is_some() {
            return Err(QueryError::DistanceName(distance_as.clone()));
        }
        // A field that holds no vectors has no nearest ones.
        let count = if field.is_some() { count } else { 0 };
        Ok(Knn { field: field.unwrap_or_default(), count, vector, options })
    }
}

fn any(parts: Vec<Node>) -> Node {
    if parts.is_empty() { Node::nothing() } else { Node::new(Wanted::Any(parts)) }
}

fn word_node(word: String, scope: Scope, expand: bool) -> Node {
    if scope.fields == 0 {
        return Node::nothing();
    }
    Node::new(Wanted::Word { word, fields: scope.fields, expand })
}

fn shaped(shape: Shape, scope: Scope) -> Node {
    if scope.fields == 0 {
        return Node::nothing();
    }
    Node::new(Wanted::Words { shape, fields: scope.fields })
}
