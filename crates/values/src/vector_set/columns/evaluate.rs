// SPDX-License-Identifier: BSD-3-Clause
//! A filter on cells: whether an element matches, or that its attribute must be read to say.
//!
//! Steps are those of [`Filter::matches`], with one more value: unknown, what a cell does not have.
//! An `and` with something false is false whatever the other side is, and so on, so few elements
//! end as unknown.

use smallvec::SmallVec;

use super::super::filter::{Filter, Operator, Step, Value};
use super::cell::Content;
use super::column::Column;

#[derive(Clone, Copy)]
enum Operand<'a> {
    Number(f64),
    Text(&'a [u8]),
    /// A text of which a column has the hash.
    Rare(&'a Column, u64),
    List(&'a [Value<'static>]),
    Null,
    Unknown,
}

impl<'a> Operand<'a> {
    fn constant(value: &'a Value<'static>) -> Operand<'a> {
        match value {
            Value::Number(number) => Operand::Number(*number),
            Value::Text(text) => Operand::Text(text),
            Value::List(items) => Operand::List(items),
            Value::Null => Operand::Null,
        }
    }

    /// `None` if the element cannot match.
    #[inline]
    fn member(column: &'a Column, id: u32) -> Option<Operand<'a>> {
        match column.content(id) {
            Content::Missing | Content::Other => None,
            Content::Null => Some(Operand::Null),
            Content::Number(number) => Some(Operand::Number(number)),
            Content::Text(code) => Some(Operand::Text(column.text(code))),
            Content::Rare(hash) => Some(Operand::Rare(column, hash)),
            Content::List | Content::LongList => Some(Operand::Unknown),
        }
    }

    fn truth(truth: Option<bool>) -> Operand<'a> {
        truth.map_or(Operand::Unknown, |truth| Operand::Number(f64::from(u8::from(truth))))
    }

    fn is_true(self) -> Option<bool> {
        match self {
            Operand::Number(number) => Some(number != 0.0),
            Operand::Text(text) => Some(!text.is_empty()),
            // Never empty.
            Operand::Rare(..) | Operand::List(_) => Some(true),
            Operand::Null => Some(false),
            Operand::Unknown => None,
        }
    }

    fn number(self) -> Option<f64> {
        match self {
            Operand::Number(number) => Some(number),
            Operand::Text(text) => Some(braid_base::number::parse_f64(text).unwrap_or(0.0)),
            Operand::List(_) | Operand::Null => Some(0.0),
            Operand::Rare(..) | Operand::Unknown => None,
        }
    }

    fn equals(self, other: Operand<'_>) -> Option<bool> {
        match (self, other) {
            (Operand::Unknown, _) | (_, Operand::Unknown) => None,
            (Operand::Text(a), Operand::Text(b)) => Some(a == b),
            (Operand::Rare(column, hash), Operand::Text(text))
            | (Operand::Text(text), Operand::Rare(column, hash)) => {
                if column.text_hash(text) == hash {
                    None
                } else {
                    Some(false)
                }
            }
            (Operand::Null, Operand::Null) => Some(true),
            (Operand::Null, _) | (_, Operand::Null) => Some(false),
            _ => Some(self.number()? == other.number()?),
        }
    }
}

fn apply<'a>(operator: Operator, left: Operand<'a>, right: Operand<'a>) -> Operand<'a> {
    let numbers = || Some((left.number()?, right.number()?));
    let compared = |holds: fn(&f64, &f64) -> bool| Operand::truth(numbers().map(|(a, b)| holds(&a, &b)));
    let computed = |result: fn(f64, f64) -> f64| {
        numbers().map_or(Operand::Unknown, |(a, b)| Operand::Number(result(a, b)))
    };
    match operator {
        Operator::Or => Operand::truth(either(left.is_true(), right.is_true(), true)),
        Operator::And => Operand::truth(either(left.is_true(), right.is_true(), false)),
        Operator::Greater => compared(f64::gt),
        Operator::GreaterOrEqual => compared(f64::ge),
        Operator::Less => compared(f64::lt),
        Operator::LessOrEqual => compared(f64::le),
        Operator::Equal => Operand::truth(left.equals(right)),
        Operator::NotEqual => Operand::truth(left.equals(right).map(|is_equal| !is_equal)),
        Operator::In => match right {
            Operand::List(items) => {
                let mut answers = items.iter().map(|item| left.equals(Operand::constant(item)));
                Operand::truth(answers.try_fold(false, |found, answer| match (found, answer) {
                    (true, _) | (_, Some(true)) => Some(true),
                    (_, Some(false)) => Some(false),
                    (_, None) => None,
                }))
            }
            Operand::Unknown => Operand::Unknown,
            _ => Operand::truth(Some(false)),
        },
        Operator::Plus => computed(|a, b| a + b),
        Operator::Minus => computed(|a, b| a - b),
        Operator::Times => computed(|a, b| a * b),
        Operator::Divide => computed(|a, b| a / b),
        Operator::Remainder => computed(|a, b| a % b),
        Operator::Power => computed(f64::powf),
        Operator::Not => Operand::truth(right.is_true().map(|truth| !truth)),
    }
}

/// A filter that is one comparison of a member with a number, as many are: it needs no stack.
pub struct Comparison {
    operator: Operator,
    number: f64,
}

impl Comparison {
    pub fn of(filter: &Filter) -> Option<Comparison> {
        let [Step::Member(0), Step::Constant(Value::Number(number)), Step::Apply(operator)] =
            &filter.steps[..]
        else {
            return None;
        };
        let is_one = matches!(
            operator,
            Operator::Greater
                | Operator::GreaterOrEqual
                | Operator::Less
                | Operator::LessOrEqual
                | Operator::Equal
                | Operator::NotEqual
        );
        is_one.then_some(Comparison { operator: *operator, number: *number })
    }

    /// For an element with this number.
    #[inline]
    pub fn holds(&self, number: f64) -> bool {
        match self.operator {
            Operator::Greater => number > self.number,
            Operator::GreaterOrEqual => number >= self.number,
            Operator::Less => number < self.number,
            Operator::LessOrEqual => number <= self.number,
            Operator::NotEqual => number != self.number,
            _ => number == self.number,
        }
    }
}

/// `decisive` if one side is that, the other answer if both are known.
fn either(left: Option<bool>, right: Option<bool>, decisive: bool) -> Option<bool> {
    if left == Some(decisive) || right == Some(decisive) {
        return Some(decisive);
    }
    left.and(right).map(|_| !decisive)
}

/// True or false if the cells of an element say so. `columns` are those of the filter's members.
pub fn evaluate(filter: &Filter, columns: &[&Column], id: u32) -> Option<bool> {
    let mut stack: SmallVec<[Operand<'_>; 6]> = SmallVec::new();
    for step in &filter.steps {
        let value = match step {
            Step::Constant(value) => Operand::constant(value),
            Step::Member(number) => match Operand::member(columns[*number], id) {
                Some(value) => value,
                None => return Some(false),
            },
            Step::Apply(Operator::Not) => {
                let value = stack.pop()?;
                apply(Operator::Not, value, value)
            }
            Step::Apply(operator) => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                apply(*operator, left, right)
            }
        };
        stack.push(value);
    }
    stack.pop()?.is_true()
}
