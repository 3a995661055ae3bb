// SPDX-License-Identifier: BSD-3-Clause
//! Random documents and queries, sent both to the server under test and to a Redis Stack 7.4: they
//! must find the same documents, in the same order if they are sorted by a field; those of a single
//! word, range or phrase with the same scores.
//!
//! The program is found as in `json.rs`; `BRAID_QUERIES` is the number of queries (default: a
//! twentieth of `BRAID_COMMANDS`). What differs on purpose is in `docs/search.md`, and is not drawn
//! here: a sign before more than one thing or before a field, a field's name after a `|`, a phrase
//! with the same word twice, and scores of several parts: Redis Stack counts only some of the forms
//! of a word that a document has.

use std::collections::BTreeMap;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::words::{encode, line};
use braid_tests::{RawClient, TestServer, Value};

const WORDS: [&str; 12] =
    ["hello", "world", "running", "run", "cats", "cat", "quick", "brown", "fox", "jumping", "lazy", "dogs"];
/// Queries over the documents of one definition.
const QUERIES: u64 = 60;

struct Draw(fastrand::Rng);

impl Draw {
    fn word(&mut self) -> &'static str {
        WORDS[self.0.usize(..WORDS.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    fn tag(&mut self) -> String {
        ["x", "y", "z"][self.0.usize(..3)].to_owned()
    }

    fn text(&mut self, most: u32) -> String {
        (0..=self.0.u32(..most)).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    /// Definitions differ in what is sortable.
    fn definition(&mut self) -> Vec<String> {
        let sortable = if self.chance(50) { " SORTABLE" } else { "" };
        let text =
            format!("FT.CREATE i SCHEMA t TEXT u TEXT WEIGHT 2 g TAG n NUMERIC{sortable} s TAG SORTABLE");
        text.split(' ').map(str::to_owned).collect()
    }

    fn document(&mut self, number: u32) -> Vec<String> {
        let mut words = vec!["HSET".to_owned(), format!("d{number}"), "t".to_owned(), self.text(8)];
        let mut field = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if self.chance(60) {
            field("u", self.text(4));
        }
        if self.chance(80) {
            field("g", self.tag());
        }
        if self.chance(80) {
            field("n", self.0.u32(..10).to_string());
        }
        if self.chance(80) {
            field("s", self.tag());
        }
        words
    }

    fn leaf(&mut self) -> String {
        match self.0.u32(..10) {
            0..5 => self.word().to_owned(),
            5 => format!("({}*)", &self.word()[..3]),
            6 => {
                let first = self.0.usize(..WORDS.len());
                let second = (first + 1 + self.0.usize(..WORDS.len() - 1)) % WORDS.len();
                format!("\"{} {}\"", WORDS[first], WORDS[second])
            }
            7 => format!("(@g:{{{}|{}}})", self.tag(), self.tag()),
            8 => {
                let low = self.0.u32(..10);
                format!("(@n:[{low} {}])", low + self.0.u32(..5))
            }
            _ => format!("(@{}:{})", if self.chance(50) { "t" } else { "u" }, self.word()),
        }
    }

    fn query(&mut self, depth: u32) -> String {
        if depth > 2 {
            return self.leaf();
        }
        let both = |draw: &mut Draw, between: &str| {
            format!("({}{between}{})", draw.query(depth + 1), draw.query(depth + 1))
        };
        match self.0.u32(..20) {
            0..7 => self.leaf(),
            7..12 => both(self, " "),
            12..16 => both(self, "|"),
            16..18 => format!("(-({}))", self.word()),
            _ => format!("(~({}))", self.query(depth + 1)),
        }
    }
}

/// How results of a query are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Set,
    Order,
    Score,
}

fn request(draw: &mut Draw) -> (Vec<String>, By) {
    let (options, by): (&[&str], By) = match draw.0.u32(..6) {
        0 => (&["SORTBY", "n"], By::Order),
        1 => (&["SORTBY", "n", "DESC"], By::Order),
        2 => (&["SORTBY", "s"], By::Order),
        3 => (&[], By::Set),
        4 => (&["SCORER", "BM25STD", "WITHSCORES"], By::Score),
        _ => (&["SCORER", "DOCSCORE", "WITHSCORES"], By::Score),
    };
    let query = if by == By::Score { draw.leaf() } else { draw.query(0) };
    let head = ["FT.SEARCH", "i", &query, "NOCONTENT", "LIMIT", "0", "1000", "DIALECT", "2"];
    (head.iter().chain(options).map(|word| (*word).to_owned()).collect(), by)
}

/// The total, and the keys with their scores.
fn found(reply: &Value, by: By) -> Option<(String, BTreeMap<String, f64>)> {
    let (total, rest) = reply.elements()?.split_first()?;
    let width = if by == By::Score { 2 } else { 1 };
    let hits = rest.chunks(width).map(|hit| {
        let score = hit.get(1).and_then(|score| score.text().parse().ok()).unwrap_or_default();
        (hit[0].text().to_owned(), score)
    });
    Some((total.to_string(), hits.collect()))
}

fn agree(here: &Value, there: &Value, by: By) -> bool {
    if by == By::Order {
        return here.to_string() == there.to_string();
    }
    let (Some((total, hits)), Some((other_total, others))) = (found(here, by), found(there, by)) else {
        return here.is_error() && there.is_error();
    };
    let near = |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-6 * one.abs().max(1.0);
    total == other_total && hits.keys().eq(others.keys()) && hits.values().zip(others.values()).all(near)
}

fn call(client: &mut RawClient, words: &[String]) -> Value {
    client.send(&encode(words));
    client.read()
}

#[test]
fn queries_find_what_redis_stack_finds() {
    if !is_braid() {
        return;
    }
    let Some(program) = crate::json::program() else {
        println!("skipped: no Redis Stack (BRAID_STACK)");
        return;
    };
    let (ours, stack) = (TestServer::start(&[]), TestServer::start_program(&program, &[]));
    let (mut one, mut other) = (ours.connect(), stack.connect());
    let wanted = number("BRAID_QUERIES", number("BRAID_COMMANDS", 20_000) / 20);
    let mut draw = Draw(source("queries"));
    let mut done = 0;
    let mut different: Vec<String> = Vec::new();
    while done < wanted && different.len() < 5 {
        one.ok("FLUSHALL");
        other.ok("FLUSHALL");
        let documents = 5 + draw.0.u32(..40);
        let mut made = vec![draw.definition()];
        made.extend((0..documents).map(|number| draw.document(number)));
        for words in &made {
            assert_eq!(call(&mut one, words).to_string(), call(&mut other, words).to_string(), "{words:?}");
        }
        for _ in 0..QUERIES {
            let (words, by) = request(&mut draw);
            let (here, there) = (call(&mut one, &words), call(&mut other, &words));
            done += 1;
            if !agree(&here, &there, by) {
                let bytes: Vec<Vec<u8>> = words.iter().map(|word| word.clone().into_bytes()).collect();
                different.push(format!("{}\n  here  {here}\n  there {there}", line(&bytes)));
            }
        }
    }
    println!("{done} queries");
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}
