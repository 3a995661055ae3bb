// SPDX-License-Identifier: BSD-3-Clause
//! What is wrong with an aggregation, in Redis's words.

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AggregateError {
    #[error("Syntax error at offset {offset} near '{near}'")]
    Syntax { offset: usize, near: String },
    #[error("Expression is nested too deeply")]
    TooDeep,
    #[error("Unknown function name '{0}'")]
    Function(String),
    #[error("Invalid arguments for function '{0}'")]
    FunctionArguments(String),
    #[error("Unknown symbol '{0}'")]
    Symbol(String),
    #[error("Property `{0}` not loaded nor in pipeline")]
    NotInPipeline(String),
    #[error("Property `{0}` not loaded nor in schema")]
    NotLoaded(String),
    #[error("No such property `{0}`")]
    NoProperty(String),
    #[error("Property `{0}` not present in document or pipeline")]
    NotPresent(String),
    #[error("Bad arguments for {0}: Could not convert argument to expected type")]
    NotANumber(String),
    #[error("Bad arguments for {0}: Expected an argument, but none provided")]
    TooFew(String),
    #[error("Bad arguments for GROUPBY: Unknown property `{0}`. Did you mean `@{0}`?")]
    NoAt(String),
    #[error("No such reducer: {0}")]
    Reducer(String),
    #[error("Missing arguments for {0}")]
    ReducerArguments(String),
    #[error("Percentage must be between 0.0 and 1.0")]
    Percentage,
    #[error("Sample size too large")]
    SampleSize,
    #[error("MISSING ASC or DESC after sort field ({0})")]
    Direction(String),
    #[error("Multiple SORTBY steps are not allowed. Sort multiple fields in a single step")]
    SortTwice,
    #[error("LIMIT needs two numeric arguments")]
    Limit,
    #[error("AS needs argument")]
    As,
    #[error("Unknown argument `{0}`")]
    Argument(String),
    #[error("Could not convert value to a number")]
    Convert,
    #[error("to_number: cannot convert string '{0}'")]
    ToNumber(String),
    #[error("Invalid format string passed")]
    Format,
    #[error("The aggregation has too many rows")]
    TooManyRows,
}
