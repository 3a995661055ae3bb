// SPDX-License-Identifier: BSD-3-Clause
//! Filters: expressions over the attributes of elements, as VSIM's FILTER takes them.
//!
//! ```text
//! .year >= 1980 and (.genre in ["action", "drama"] or not .seen)
//! ```
//! An attribute is a JSON object. `.name` is one of its members; an element that has no attribute,
//! or lacks a member that the filter names, does not match, whatever the rest says. Values are
//! numbers, strings, lists and null; true and false are 1 and 0.
//!
//! ```text
//! compile    text to a program in postfix order
//! attribute  members of an attribute, without reading more of it than needed
//! mod        the program's execution
//! ```
//! Programs come from clients: execution needs no recursion, and memory in proportion to the
//! program's length.

mod attribute;
mod compile;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use smallvec::SmallVec;

pub(super) use attribute::{Found, member};
pub use compile::SyntaxError;

/// A value in a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(f64),
    Text(Cow<'a, [u8]>),
    List(Vec<Value<'a>>),
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    In,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
    Power,
    Not,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Constant(Value<'static>),
    /// Number of the member in [`Filter::members`].
    Member(usize),
    Apply(Operator),
}

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(super) steps: Vec<Step>,
    /// Names of the members of attributes that it needs.
    pub(super) members: Vec<Box<[u8]>>,
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is none.
    pub fn compile(text: &[u8]) -> Result<Filter, SyntaxError> {
        compile::compile(text)
    }

    /// True if an element with this attribute matches.
    pub fn matches(&self, attribute: &[u8]) -> bool {
        let mut found: SmallVec<[Option<Found<'_>>; 4]> = SmallVec::new();
        found.resize(self.members.len(), None);
        if !self.members.is_empty() && !attribute::members(attribute, &self.members, &mut found) {
            return false;
        }
        let mut stack: SmallVec<[Cow<'_, Value<'_>>; 6]> = SmallVec::new();
        for step in &self.steps {
            let value = match step {
                Step::Constant(value) => Cow::Borrowed(value),
                Step::Member(number) => match &found[*number] {
                    Some(Found::Value(value)) => Cow::Borrowed(value),
                    _ => return false,
                },
                Step::Apply(Operator::Not) => {
                    let Some(value) = stack.pop() else { return false };
                    Cow::Owned(Value::truth(!value.is_true()))
                }
                Step::Apply(operator) => {
                    let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else { return false };
                    Cow::Owned(apply(*operator, &left, &right))
                }
            };
            stack.push(value);
        }
        stack.pop().is_some_and(|value| value.is_true())
    }
}

fn apply(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Value<'static> {
    let (a, b) = (left.number(), right.number());
    match operator {
        Operator::Or => Value::truth(left.is_true() || right.is_true()),
        Operator::And => Value::truth(left.is_true() && right.is_true()),
        Operator::Greater => Value::truth(a > b),
        Operator::GreaterOrEqual => Value::truth(a >= b),
        Operator::Less => Value::truth(a < b),
        Operator::LessOrEqual => Value::truth(a <= b),
        Operator::Equal => Value::truth(left.equals(right)),
        Operator::NotEqual => Value::truth(!left.equals(right)),
        Operator::In => match right {
            Value::List(list) => Value::truth(list.iter().any(|item| left.equals(item))),
            _ => Value::truth(false),
        },
        Operator::Plus => Value::Number(a + b),
        Operator::Minus => Value::Number(a - b),
        Operator::Times => Value::Number(a * b),
        Operator::Divide => Value::Number(a / b),
        Operator::Remainder => Value::Number(a % b),
        Operator::Power => Value::Number(a.powf(b)),
        Operator::Not => Value::truth(!right.is_true()),
    }
}

impl Value<'_> {
    fn truth(truth: bool) -> Value<'static> {
        Value::Number(f64::from(u8::from(truth)))
    }

    fn is_true(&self) -> bool {
        match self {
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(_) => true,
            Value::Null => false,
        }
    }

    /// As a number; a text that is none is 0, and so is a list.
    pub(super) fn number(&self) -> f64 {
        match self {
            Value::Number(number) => *number,
            Value::Text(text) => braid_base::number::parse_f64(text).unwrap_or(0.0),
            Value::List(_) | Value::Null => 0.0,
        }
    }

    /// Two texts are compared as such, anything else as numbers: a list is 0. Null equals only
    /// null.
    fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Null, Value::Null) => true,
            (Value::Null, _) | (_, Value::Null) => false,
            _ => self.number() == other.number(),
        }
    }
}
