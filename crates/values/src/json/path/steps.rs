// SPDX-License-Identifier: BSD-3-Clause
//! A path as steps, and the conditions of filters.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::json::number::Num;

/// A parsed path.
#[derive(Debug)]
pub struct Path<'a> {
    /// As the client wrote it.
    pub text: &'a [u8],
    /// The older syntax: replies are about one value instead of an array of all matches.
    pub is_legacy: bool,
    pub steps: Steps<'a>,
}

pub type Steps<'a> = SmallVec<[Step<'a>; 4]>;

/// One step from values to some of their members.
#[derive(Debug)]
pub struct Step<'a> {
    /// The step applies to a value and all values inside it (`..`).
    pub descends: bool,
    pub selector: Selector<'a>,
}

/// Which members a step selects.
#[derive(Debug)]
pub enum Selector<'a> {
    Name(Cow<'a, [u8]>),
    Names(Vec<Cow<'a, [u8]>>),
    All,
    /// Negative indices count from the end.
    Index(i64),
    Indices(Vec<i64>),
    Slice {
        start: i64,
        end: Option<i64>,
        step: u64,
    },
    Filter(Box<Condition<'a>>),
}

/// The condition of a filter.
#[derive(Debug)]
pub enum Condition<'a> {
    Any(Vec<Condition<'a>>),
    All(Vec<Condition<'a>>),
    /// The term is a literal, or a path that matches something.
    Exists(Term<'a>),
    Compare(Box<(Term<'a>, Comparison, Term<'a>)>),
}

/// A side of a comparison.
#[derive(Debug)]
pub enum Term<'a> {
    Null,
    Bool(bool),
    Num(Num),
    Text(Cow<'a, [u8]>),
    /// A path from the value that is examined.
    Current(Steps<'a>),
    /// A path from the root.
    Root(Steps<'a>),
}

/// How two terms are compared.
#[derive(Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    /// The orderings for which the comparison holds.
    Ordered(&'static [Ordering]),
    /// The text matches a regular expression; `None` if that is a path or invalid.
    Matches(Option<Box<regex::bytes::Regex>>),
}

impl Path<'_> {
    /// The root, in the older syntax: the path of a command without one.
    pub fn root() -> Self {
        Path { text: b".", is_legacy: true, steps: Steps::new() }
    }

    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// True if every step names one member: the path can match at most one value.
    pub fn is_static(&self) -> bool {
        self.steps
            .iter()
            .all(|step| !step.descends && matches!(step.selector, Selector::Name(_) | Selector::Index(_)))
    }
}
