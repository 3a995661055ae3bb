// SPDX-License-Identifier: BSD-3-Clause
//! The steps among the arguments of FT.AGGREGATE.

use super::error::AggregateError;
use super::expression;
use super::pipeline::{Input, Pipeline, ROWS_MAX, Step};
use super::reduce::Reducer;
use crate::schema::Schema;

/// Results of SORTBY without MAX and LIMIT.
const SORTED_DEFAULT: usize = 10;
const SAMPLE_MAX: usize = 1000;

/// Builds a pipeline, step by step.
pub struct Builder<'a> {
    schema: &'a Schema,
    inputs: Vec<Input>,
    /// The names that steps can use, and their columns.
    names: Vec<(String, usize)>,
    steps: Vec<Step>,
    width: usize,
    outputs: Vec<(String, usize)>,
    loads_all: bool,
    grouped: bool,
    /// The last step is a SORTBY to which a LIMIT belongs.
    sorted: bool,
}

/// Arguments being read.
struct Arguments<'a> {
    all: &'a [&'a [u8]],
    at: usize,
}

impl<'a> Arguments<'a> {
    fn next(&mut self, of: &str) -> Result<&'a [u8], AggregateError> {
        let found = self.all.get(self.at).ok_or_else(|| AggregateError::TooFew(of.to_owned()))?;
        self.at += 1;
        Ok(found)
    }

    fn text(&mut self, of: &str) -> Result<String, AggregateError> {
        self.next(of).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn number(&mut self, of: &str) -> Result<usize, AggregateError> {
        let text = self.next(of)?;
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| AggregateError::NotANumber(of.to_owned()))
    }

    fn is(&self, word: &str) -> bool {
        self.all.get(self.at).is_some_and(|one| one.eq_ignore_ascii_case(word.as_bytes()))
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    /// So many arguments as a number before them says.
    fn counted(&mut self, of: &str) -> Result<Vec<String>, AggregateError> {
        let count = self.number(of)?;
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(self.text(of)?);
        }
        Ok(found)
    }
}

impl<'a> Builder<'a> {
    pub fn new(schema: &'a Schema) -> Builder<'a> {
        Builder {
            schema,
            inputs: Vec::new(),
            names: Vec::new(),
            steps: Vec::new(),
            width: 0,
            outputs: Vec::new(),
            loads_all: false,
            grouped: false,
            sorted: false,
        }
    }

    /// Makes a name known that each row has: a distance, a score.
    pub fn provide(&mut self, name: &str) {
        self.add_input(name, name, true);
    }

    /// Makes a name known that steps may use and that is returned only if they say so.
    pub fn know(&mut self, name: &str) {
        self.add_input(name, name, false);
    }

    /// Reads a step from the beginning of the arguments. Returns how many arguments it has; none if
    /// it is something else.
    ///
    /// # Errors
    ///
    /// If the step is wrong.
    pub fn step(&mut self, arguments: &[&[u8]]) -> Result<Option<usize>, AggregateError> {
        let mut arguments = Arguments { all: arguments, at: 0 };
        let word = arguments.text("")?.to_ascii_uppercase();
        let sorted = std::mem::take(&mut self.sorted);
        match word.as_str() {
            "LOAD" => self.load(&mut arguments)?,
            "APPLY" => self.apply(&mut arguments)?,
            "FILTER" => {
                let text = arguments.text("FILTER")?;
                let expression = expression::parse(&text, |name| self.used(name))?;
                self.steps.push(Step::Filter(expression));
            }
            "GROUPBY" => self.group(&mut arguments)?,
            "SORTBY" => self.sort(&mut arguments)?,
            "LIMIT" => self.limit(&mut arguments, sorted)?,
            _ => {
                self.sorted = sorted;
                return Ok(None);
            }
        }
        Ok(Some(arguments.at))
    }

    /// The pipeline.
    pub fn build(self) -> Pipeline {
        let Builder { inputs, steps, width, outputs, loads_all, .. } = self;
        let (rows, kept, measures) = (Vec::new(), 0, None);
        Pipeline { inputs, steps, width, outputs, loads_all, rows, kept, rows_max: ROWS_MAX, measures }
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().rev().find(|(one, _)| one == name).map(|(_, column)| *column)
    }

    fn new_column(&mut self, name: &str) -> usize {
        self.names.push((name.to_owned(), self.width));
        self.width += 1;
        self.width - 1
    }

    fn output(&mut self, name: &str, column: usize) {
        match self.outputs.iter_mut().find(|(one, _)| one == name) {
            Some(output) => output.1 = column,
            None => self.outputs.push((name.to_owned(), column)),
        }
    }

    /// The column of a value that rows begin with. `shown`: it is returned, unless later steps
    /// leave it out.
    fn add_input(&mut self, name: &str, path: &str, shown: bool) -> usize {
        let known = self.column(name);
        let column = known.unwrap_or_else(|| self.new_column(name));
        if known.is_none() {
            let field = self.schema.find(path);
            let (name, path) = (name.to_owned(), path.to_owned());
            self.inputs.push(Input { name, path, field, loaded: false, column });
        }
        if shown {
            self.output(name, column);
        }
        column
    }

    /// The column of a property that a step uses.
    fn used(&mut self, name: &str) -> Result<usize, AggregateError> {
        match self.column(name) {
            Some(column) => Ok(column),
            None if !self.grouped && self.schema.find(name).is_some() => {
                let is_first = self.schema.find(name).is_some_and(|field| self.schema.field(field).sortable);
                Ok(self.add_input(name, name, is_first))
            }
            None => Err(AggregateError::NotInPipeline(name.to_owned())),
        }
    }

    fn load(&mut self, arguments: &mut Arguments<'_>) -> Result<(), AggregateError> {
        if arguments.take("*") {
            self.loads_all = true;
            return Ok(());
        }
        let wanted = arguments.counted("LOAD")?;
        let mut rest = wanted.iter();
        while let Some(path) = rest.next() {
            let path = path.strip_prefix('@').unwrap_or(path);
            let mut name = path;
            if rest.as_slice().first().is_some_and(|word| word.eq_ignore_ascii_case("AS")) {
                rest.next();
                name = rest.next().ok_or(AggregateError::As)?;
            }
            let column = self.add_input(name, path, true);
            let of_column = self.inputs.iter_mut().filter(|input| input.column == column);
            of_column.for_each(|input| input.loaded = true);
        }
        Ok(())
    }

    fn apply(&mut self, arguments: &mut Arguments<'_>) -> Result<(), AggregateError> {
        let text = arguments.text("APPLY")?;
        let expression = expression::parse(&text, |name| self.used(name))?;
        let name =
            if arguments.take("AS") { arguments.text("AS").map_err(|_| AggregateError::As)? } else { text };
        let column = self.new_column(&name);
        self.output(&name, column);
        self.steps.push(Step::Apply { expression, column });
        Ok(())
    }

    fn property(text: &str) -> Result<&str, AggregateError> {
        text.strip_prefix('@').ok_or_else(|| AggregateError::NoAt(text.to_owned()))
    }

    fn group(&mut self, arguments: &mut Arguments<'_>) -> Result<(), AggregateError> {
        let mut keys = Vec::new();
        for property in arguments.counted("GROUPBY")? {
            let name = Self::property(&property)?.to_owned();
            let column = self.used(&name).map_err(|_| AggregateError::NoProperty(name.clone()))?;
            keys.push((name, column));
        }
        let mut reducers: Vec<(Reducer, String)> = Vec::new();
        while arguments.take("REDUCE") {
            let name = arguments.text("REDUCE")?.to_ascii_uppercase();
            let given = arguments.counted(&name)?;
            let reducer = self.reducer(&name, &given)?;
            let alias = if arguments.take("AS") {
                arguments.text("AS")?
            } else {
                let given: Vec<&str> = given.iter().map(|one| one.trim_start_matches('@')).collect();
                format!("__generated_alias{name}{}", given.join(",")).to_ascii_lowercase()
            };
            reducers.push((reducer, alias));
        }
        // Only groups have values from here on.
        self.grouped = true;
        self.names = keys.clone();
        self.outputs = keys.clone();
        let keys = keys.into_iter().map(|(_, column)| column).collect();
        let mut placed = Vec::new();
        for (reducer, alias) in reducers {
            let column = self.new_column(&alias);
            self.output(&alias, column);
            placed.push((reducer, column));
        }
        self.steps.push(Step::Group {
            keys,
            reducers: placed,
            places: Default::default(),
            groups: Vec::new(),
        });
        Ok(())
    }

    fn reducer(&mut self, name: &str, given: &[String]) -> Result<Reducer, AggregateError> {
        if name == "COUNT" {
            return Ok(Reducer::Count);
        }
        let make: fn(usize) -> Reducer = match name {
            "SUM" => Reducer::Sum,
            "MIN" => Reducer::Min,
            "MAX" => Reducer::Max,
            "AVG" => Reducer::Average,
            "STDDEV" => Reducer::Deviation,
            "TOLIST" => Reducer::List,
            "COUNT_DISTINCT" | "COUNT_DISTINCTISH" => Reducer::CountDistinct,
            "QUANTILE" => |column| Reducer::Quantile(column, 0.0),
            "FIRST_VALUE" => |column| Reducer::First { column, by: None },
            "RANDOM_SAMPLE" => |column| Reducer::Sample { column, size: 0 },
            _ => return Err(AggregateError::Reducer(name.to_owned())),
        };
        let missing = || AggregateError::ReducerArguments(name.to_owned());
        let mut column = |text: &String| {
            let property = text.strip_prefix('@').unwrap_or(text);
            self.used(property).map_err(|_| AggregateError::NotPresent(property.to_owned()))
        };
        let first = column(given.first().ok_or_else(missing)?)?;
        let second = given.get(1);
        Ok(match make(first) {
            Reducer::Quantile(column, _) => {
                let quantile: f64 =
                    second.ok_or_else(missing)?.parse().map_err(|_| AggregateError::Percentage)?;
                if !(0.0..=1.0).contains(&quantile) {
                    return Err(AggregateError::Percentage);
                }
                Reducer::Quantile(column, quantile)
            }
            Reducer::Sample { column, .. } => {
                let size = second.ok_or_else(missing)?.parse();
                let size = size.map_err(|_| AggregateError::NotANumber(name.to_owned()))?;
                if size > SAMPLE_MAX {
                    return Err(AggregateError::SampleSize);
                }
                Reducer::Sample { column, size }
            }
            Reducer::First { column: value, .. } => {
                let by = match second {
                    None => None,
                    Some(word) if word.eq_ignore_ascii_case("BY") => {
                        let descending = given.get(3).is_some_and(|word| word.eq_ignore_ascii_case("DESC"));
                        Some((column(given.get(2).ok_or_else(missing)?)?, descending))
                    }
                    Some(word) => return Err(AggregateError::Argument(word.clone())),
                };
                Reducer::First { column: value, by }
            }
            reducer => reducer,
        })
    }

    fn sort(&mut self, arguments: &mut Arguments<'_>) -> Result<(), AggregateError> {
        if self.steps.iter().any(|step| matches!(step, Step::Sort { .. })) && !self.grouped {
            return Err(AggregateError::SortTwice);
        }
        let wanted = arguments.counted("SORTBY")?;
        let mut keys: Vec<(usize, bool)> = Vec::new();
        for word in &wanted {
            if let Some(name) = word.strip_prefix('@') {
                let column = self.used(name).map_err(|_| AggregateError::NotLoaded(name.to_owned()))?;
                self.output(name, column);
                keys.push((column, false));
                continue;
            }
            let descending = word.eq_ignore_ascii_case("DESC");
            match keys.last_mut() {
                Some(key) if descending || word.eq_ignore_ascii_case("ASC") => key.1 = descending,
                _ => return Err(AggregateError::Direction(word.clone())),
            }
        }
        let mut max = SORTED_DEFAULT;
        if arguments.take("MAX") {
            max = arguments.number("MAX")?;
        }
        arguments.take("WITHCOUNT");
        self.steps.push(Step::Sort { keys, max, rows: Vec::new() });
        self.sorted = true;
        Ok(())
    }

    fn limit(&mut self, arguments: &mut Arguments<'_>, sorted: bool) -> Result<(), AggregateError> {
        let offset = arguments.number("LIMIT").map_err(|_| AggregateError::Limit)?;
        let count = arguments.number("LIMIT").map_err(|_| AggregateError::Limit)?;
        if let Some(Step::Sort { max, .. }) = self.steps.last_mut().filter(|_| sorted) {
            *max = offset.saturating_add(count);
        }
        self.steps.push(Step::Limit { offset, count, seen: 0 });
        Ok(())
    }
}
