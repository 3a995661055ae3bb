// SPDX-License-Identifier: BSD-3-Clause
//! Any text is either refused, at a place within it, or a query whose tree is no larger than it may
//! be; any expression is either refused or evaluates to a value or an error.
//!
//! The first byte chooses which.

#![no_main]

use braid_search::aggregate::{AggregateError, Value, parse_expression};
use braid_search::query::{NODES_MAX, Options, QueryError, parse};
use braid_search::schema::{Field, Kind, Schema};
use libfuzzer_sys::fuzz_target;

fn query(text: &str) {
    let mut tag = Field::tag("g");
    tag.index_missing = true;
    let fields = vec![
        Field::text("t"),
        Field::text("u"),
        tag,
        Field::numeric("n"),
        Field::new("l", Kind::Geo),
        Field::new("v", Kind::Vector),
    ];
    let schema = Schema::new(fields).expect("names differ");
    let parameters: [(&[u8], &[u8]); 2] = [(b"a", b"x y"), (b"b", b"(1")];
    match parse(text, &Options { parameters: &parameters, ..Options::new(&schema) }) {
        Ok(query) => {
            let mut nodes = 0;
            query.root.visit(&mut |_| nodes += 1);
            // A sign, and an alternative or conjunction, for each unit.
            assert!(nodes <= 3 * NODES_MAX);
        }
        Err(QueryError::Syntax { offset, .. }) => assert!(offset <= text.len()),
        Err(_) => {}
    }
}

fn expression(text: &str) {
    let column = |name: &str| match name {
        "n" => Ok(0),
        "t" => Ok(1),
        _ => Err(AggregateError::NotInPipeline(name.to_owned())),
    };
    let row = [Value::Number(3.5), Value::text("a text")];
    match parse_expression(text, column) {
        Ok(expression) => drop(expression.evaluate(&row)),
        Err(AggregateError::Syntax { offset, .. }) => assert!(offset <= text.len()),
        Err(_) => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if choice % 2 == 0 { query(text) } else { expression(text) }
});
