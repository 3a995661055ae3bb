// SPDX-License-Identifier: BSD-3-Clause
//! FT.AGGREGATE: steps over rows of values.
//!
//! A [`Pipeline`] is parsed from a command's arguments. It says which fields it reads
//! ([`Pipeline::inputs`]); the caller pushes a row of them for each document found, outside all
//! locks, and takes the result, at once or in pieces ([`Rows`], what a cursor holds).

mod error;
mod expression;
mod functions;
mod parse;
mod pipeline;
mod reduce;
mod rows;
mod times;
mod value;

pub use error::AggregateError;
pub use expression::{Expression, parse as parse_expression};
pub use parse::Builder;
pub use pipeline::{Input, Pipeline, ROWS_MAX, StepReport};
pub use rows::Rows;
pub use value::Value;
