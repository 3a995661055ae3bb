// SPDX-License-Identifier: BSD-3-Clause
//! Steps over rows: what can be done row by row is, what needs all rows waits for them.

use std::collections::HashMap;

use super::error::AggregateError;
use super::expression::Expression;
use super::reduce::{Kept, Reducer};
use super::rows::Rows;
use super::value::Value;
use crate::execute::Clock;
use crate::schema::FieldId;

/// Rows, groups and values that an aggregation may keep unless the caller says otherwise.
pub const ROWS_MAX: usize = 1_000_000;

/// A value that rows begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What it is called in the pipeline.
    pub name: String,
    /// Where it is: a field of the schema, or a path in the document, or `__key`.
    pub path: String,
    pub field: Option<FieldId>,
    /// LOAD names it; else only steps need it.
    pub loaded: bool,
    pub(super) column: usize,
}

#[derive(Debug)]
pub enum Step {
    Apply {
        expression: Expression,
        column: usize,
    },
    Filter(Expression),
    Group {
        keys: Vec<usize>,
        reducers: Vec<(Reducer, usize)>,
        places: HashMap<Vec<Value>, usize>,
        groups: Groups,
    },
    Sort {
        keys: Vec<(usize, bool)>,
        max: usize,
        rows: Vec<Vec<Value>>,
    },
    Limit {
        offset: usize,
        count: usize,
        seen: usize,
    },
}

/// Groups in the order of their first rows.
pub type Groups = Vec<(Vec<Value>, Vec<Kept>)>;

#[derive(Debug)]
pub struct Pipeline {
    pub(super) inputs: Vec<Input>,
    pub(super) steps: Vec<Step>,
    /// Columns of a row.
    pub(super) width: usize,
    /// What is returned: names and columns.
    pub(super) outputs: Vec<(String, usize)>,
    /// LOAD *: all of the document's fields are returned as well.
    pub(super) loads_all: bool,
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) kept: usize,
    pub rows_max: usize,
    pub(super) measures: Option<Measures>,
}

/// What each step did (FT.PROFILE).
#[derive(Debug)]
pub struct Measures {
    clock: Clock,
    /// Nanoseconds, and rows that it passed on.
    steps: Vec<(u64, u64)>,
}

/// What a step did, in the words of RediSearch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    pub kind: String,
    pub nanos: u64,
    pub rows: u64,
}

impl Pipeline {
    /// The values that a row begins with, in order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    pub fn loads_all(&self) -> bool {
        self.loads_all
    }

    /// Whether the rows pushed so far are enough: the first step that needs no more is a limit.
    pub fn is_full(&self) -> bool {
        for step in &self.steps {
            match step {
                Step::Limit { offset, count, seen } => return *seen >= offset.saturating_add(*count),
                Step::Group { .. } | Step::Sort { .. } => return false,
                Step::Apply { .. } | Step::Filter(_) => {}
            }
        }
        false
    }

    /// Measures what the steps do from now on (FT.PROFILE).
    pub fn measure(&mut self, clock: Clock) {
        self.measures = Some(Measures { clock, steps: vec![(0, 0); self.steps.len()] });
    }

    fn now(&self) -> u64 {
        self.measures.as_ref().map_or(0, |measures| (measures.clock)())
    }

    fn note(&mut self, at: usize, began: u64, rows: usize) {
        if let Some(Measures { clock, steps }) = &mut self.measures {
            steps[at].0 += clock().saturating_sub(began);
            steps[at].1 += rows as u64;
        }
    }

    /// Takes a document's values, as many as there are inputs.
    ///
    /// # Errors
    ///
    /// If an expression fails, or too much would be kept.
    pub fn push(&mut self, values: impl IntoIterator<Item = Value>) -> Result<(), AggregateError> {
        let mut row = vec![Value::None; self.width];
        for (input, value) in self.inputs.iter().zip(values) {
            row[input.column] = value;
        }
        self.run(row, 0)
    }

    fn keep(&mut self, values: usize) -> Result<(), AggregateError> {
        self.kept += values;
        if self.kept > self.rows_max { Err(AggregateError::TooManyRows) } else { Ok(()) }
    }

    /// Brings a row through the steps from one on.
    fn run(&mut self, mut row: Vec<Value>, from: usize) -> Result<(), AggregateError> {
        for at in from..self.steps.len() {
            let began = self.now();
            let passed = self.step(at, row)?;
            self.note(at, began, usize::from(passed.is_some()));
            let Some(next) = passed else { return Ok(()) };
            row = next;
        }
        self.rows.push(row);
        self.keep(1)
    }

    /// Brings a row through one step; the row if it goes on.
    fn step(&mut self, at: usize, mut row: Vec<Value>) -> Result<Option<Vec<Value>>, AggregateError> {
        match &mut self.steps[at] {
            Step::Apply { expression, column } => row[*column] = expression.evaluate(&row)?,
            Step::Filter(expression) => {
                if !expression.evaluate(&row)?.is_true() {
                    return Ok(None);
                }
            }
            Step::Limit { offset, count, seen } => {
                *seen += 1;
                if *seen <= *offset || *seen > offset.saturating_add(*count) {
                    return Ok(None);
                }
            }
            Step::Group { keys, reducers, places, groups } => {
                let key: Vec<Value> = keys.iter().map(|column| row[*column].clone()).collect();
                let mut added = 0;
                let place = *places.entry(key).or_insert_with_key(|key| {
                    added = 1;
                    groups.push((key.clone(), reducers.iter().map(|(reducer, _)| reducer.start()).collect()));
                    groups.len() - 1
                });
                for ((reducer, _), kept) in reducers.iter().zip(&mut groups[place].1) {
                    reducer.add(kept, &row);
                    added += usize::from(!reducer.is_bounded());
                }
                self.keep(added)?;
                return Ok(None);
            }
            Step::Sort { keys, max, rows } => {
                rows.push(row);
                if rows.len() > max.saturating_mul(2).saturating_add(1024) {
                    sort(rows, keys);
                    let dropped = rows.len() - *max;
                    rows.truncate(*max);
                    self.kept = (self.kept + 1).saturating_sub(dropped);
                } else {
                    self.keep(1)?;
                }
                return Ok(None);
            }
        }
        Ok(Some(row))
    }

    /// The result, after all rows were pushed, and what the steps did if that was measured.
    ///
    /// # Errors
    ///
    /// If an expression fails, or too much would be kept.
    pub fn finish(mut self) -> Result<(Rows, Vec<StepReport>), AggregateError> {
        for at in 0..self.steps.len() {
            let width = self.width;
            let began = self.now();
            let rows = match &mut self.steps[at] {
                Step::Sort { keys, max, rows } => {
                    sort(rows, keys);
                    rows.truncate(*max);
                    std::mem::take(rows)
                }
                Step::Group { keys, reducers, places, groups } => {
                    places.clear();
                    let made = std::mem::take(groups).into_iter().map(|(key, kept)| {
                        let mut row = vec![Value::None; width];
                        for (column, value) in keys.iter().zip(key) {
                            row[*column] = value;
                        }
                        for ((reducer, column), kept) in reducers.iter().zip(kept) {
                            row[*column] = reducer.finish(kept);
                        }
                        row
                    });
                    made.collect()
                }
                _ => continue,
            };
            self.kept = 0;
            self.note(at, began, rows.len());
            for row in rows {
                self.run(row, at + 1)?;
            }
        }
        let names = self.outputs.iter().map(|(name, _)| name.clone()).collect();
        let pick = |row: Vec<Value>| self.outputs.iter().map(|(_, column)| row[*column].clone()).collect();
        let measured = self.measures.iter().flat_map(|measures| &measures.steps);
        let report = |(step, &(nanos, rows))| StepReport { kind: kind(step), nanos, rows };
        let reports = self.steps.iter().zip(measured).map(report).collect();
        Ok((Rows::new(names, self.rows.into_iter().map(pick).collect()), reports))
    }
}

fn kind(step: &Step) -> String {
    match step {
        Step::Apply { expression, .. } => format!("Projector - {}", expression.kind()),
        Step::Filter(expression) => format!("Filter - {}", expression.kind()),
        Step::Group { .. } => "Grouper".to_owned(),
        Step::Sort { .. } => "Sorter".to_owned(),
        Step::Limit { .. } => "Pager/Limiter".to_owned(),
    }
}

/// Rows without a value are last in both directions; equal ones stay in their order.
fn sort(rows: &mut [Vec<Value>], keys: &[(usize, bool)]) {
    rows.sort_by(|one, other| {
        let orders = keys.iter().map(|(column, descending)| {
            let (one, other) = (&one[*column], &other[*column]);
            if *descending && !one.is_none() && !other.is_none() {
                other.compare(one)
            } else {
                one.compare(other)
            }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Builder;
    use crate::schema::{Field, Schema};

    /// The result for documents with `g`, `n` and `t`, as text.
    fn run(command: &str) -> Result<String, AggregateError> {
        let schema =
            Schema::new(vec![Field::tag("g").sortable(), Field::numeric("n").sortable(), Field::text("t")]);
        let schema = schema.unwrap();
        let arguments: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut builder = Builder::new(&schema);
        let mut at = 0;
        while at < arguments.len() {
            match builder.step(&arguments[at..])? {
                Some(len) => at += len,
                None => return Err(AggregateError::Argument(String::from_utf8_lossy(arguments[at]).into())),
            }
        }
        let mut pipeline = builder.build();
        let number = Value::Number;
        let documents = [("x", number(1.0)), ("x", Value::None), ("y", number(4.0)), ("", number(2.0))];
        for (g, n) in documents {
            if pipeline.is_full() {
                break;
            }
            let values: Vec<Value> = pipeline
                .inputs()
                .iter()
                .map(|input| match &input.path[..] {
                    "g" if g.is_empty() => Value::None,
                    "g" => Value::text(g),
                    "n" => n.clone(),
                    _ => Value::text("text"),
                })
                .collect();
            pipeline.push(values)?;
        }
        let (mut rows, _) = pipeline.finish()?;
        let names = rows.names.clone();
        let show = |row: Vec<Value>| {
            let pairs = names.iter().zip(row).filter(|(_, value)| !value.is_none());
            pairs.map(|(name, value)| format!("{name}={}", value.shown())).collect::<Vec<_>>().join(" ")
        };
        let mut shown = Vec::new();
        while !rows.is_empty() {
            shown.extend(rows.take(2).into_iter().map(show));
        }
        Ok(shown.join("; "))
    }

    #[test]
    fn steps_follow_each_other() {
        for (command, expected) in [
            ("LOAD 2 @g @n", "g=x n=1; g=x; g=y n=4; n=2"),
            ("LOAD 3 @n AS m", "m=1; ; m=4; m=2"),
            ("LOAD 1 @n LIMIT 1 2", "; n=4"),
            ("LOAD 1 @n APPLY @n+1 AS e", "n=1 e=2; ; n=4 e=5; n=2 e=3"),
            ("LOAD 1 @n FILTER @n>1", "n=4; n=2"),
            ("FILTER exists(@n) LOAD 1 @t LIMIT 0 1", "n=1 t=text"),
            ("SORTBY 2 @n DESC", "n=4; n=2; n=1; "),
            ("SORTBY 1 @n MAX 2", "n=1; n=2"),
            ("SORTBY 2 @n DESC LIMIT 1 2", "n=2; n=1"),
            ("SORTBY 1 @t LIMIT 0 1", "t=text"),
            ("GROUPBY 1 @g REDUCE COUNT 0 AS c", "g=x c=2; g=y c=1; c=1"),
            ("GROUPBY 0 REDUCE SUM 1 @n", "__generated_aliassumn=7"),
            (
                "GROUPBY 1 @g REDUCE AVG 1 @n AS a APPLY @a*2 AS b SORTBY 2 @b DESC",
                "g=y a=4 b=8; a=2 b=4; g=x a=1 b=2",
            ),
            ("GROUPBY 1 @g GROUPBY 0 REDUCE COUNT 0 AS c", "c=3"),
            ("APPLY @n*10 AS x GROUPBY 0 REDUCE MAX 1 @x AS m", "m=40"),
            ("APPLY 5 AS a APPLY @a+@n AS b FILTER @b>6", "a=5 n=4 b=9; a=5 n=2 b=7"),
            ("GROUPBY 0 REDUCE FIRST_VALUE 4 @n BY @n DESC AS f REDUCE QUANTILE 2 @n 0.5 AS q", "f=4 q=2"),
        ] {
            assert_eq!(run(command).as_deref(), Ok(expected), "{command}");
        }
    }

    #[test]
    fn wrong_steps_are_refused_in_redis_words() {
        for (command, expected) in [
            ("GROUPBY 1 g", "Bad arguments for GROUPBY: Unknown property `g`. Did you mean `@g`?"),
            ("GROUPBY 1 @nosuch", "No such property `nosuch`"),
            ("GROUPBY 1 @g REDUCE BOGUS 0", "No such reducer: BOGUS"),
            ("GROUPBY 1 @g REDUCE SUM 0", "Missing arguments for SUM"),
            ("GROUPBY 1 @g REDUCE SUM 1 @z", "Property `z` not present in document or pipeline"),
            ("GROUPBY x", "Bad arguments for GROUPBY: Could not convert argument to expected type"),
            ("GROUPBY 2 @g", "Bad arguments for GROUPBY: Expected an argument, but none provided"),
            ("GROUPBY 1 @g APPLY @n AS x", "Property `n` not loaded nor in pipeline"),
            ("SORTBY 2 n DESC", "MISSING ASC or DESC after sort field (n)"),
            ("SORTBY 2 @n DOWN", "MISSING ASC or DESC after sort field (DOWN)"),
            ("SORTBY 1 @z", "Property `z` not loaded nor in schema"),
            ("LIMIT 0 x", "LIMIT needs two numeric arguments"),
            ("APPLY 1 AS", "AS needs argument"),
            ("BOGUS", "Unknown argument `BOGUS`"),
            ("GROUPBY 0 REDUCE RANDOM_SAMPLE 2 @n 5000", "Sample size too large"),
        ] {
            assert_eq!(run(command).unwrap_err().to_string(), expected, "{command}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let schema = Schema::new(vec![Field::numeric("n").sortable()]).unwrap();
        for command in [&["LOAD", "1", "@n"][..], &["GROUPBY", "1", "@n"]] {
            let arguments: Vec<&[u8]> = command.iter().map(|one| one.as_bytes()).collect();
            let mut builder = Builder::new(&schema);
            builder.step(&arguments).unwrap();
            let mut pipeline = builder.build();
            pipeline.rows_max = 10;
            let mut push = |n: u32| pipeline.push([Value::Number(f64::from(n))]);
            assert!((0..10).all(|n| push(n).is_ok()));
            assert_eq!(push(10), Err(AggregateError::TooManyRows));
        }
    }
}
