// SPDX-License-Identifier: BSD-3-Clause
//! The elements that may match a filter, from the orders of its columns: all that do, and maybe
//! others.

use super::super::filter::{Filter, Operator, Step, Value};
use super::column::Column;

enum Operand<'a> {
    Member(&'a Column),
    Constant(&'a Value<'static>),
    /// A truth, and the elements for which it may hold; `None` if they are not known, or too many.
    Truth(Option<Vec<u32>>),
}

impl Operand<'_> {
    fn elements(self) -> Option<Vec<u32>> {
        match self {
            Operand::Truth(elements) => elements,
            Operand::Member(_) | Operand::Constant(_) => None,
        }
    }
}

fn compared(operator: Operator, column: &Column, value: &Value<'_>, most: usize) -> Option<Vec<u32>> {
    match operator {
        Operator::Equal => column.equal(value, most),
        Operator::Greater | Operator::GreaterOrEqual => column.in_range(value.number()..=f64::INFINITY, most),
        Operator::Less | Operator::LessOrEqual => column.in_range(f64::NEG_INFINITY..=value.number(), most),
        _ => None,
    }
}

/// The same comparison with its sides exchanged.
fn mirrored(operator: Operator) -> Operator {
    match operator {
        Operator::Greater => Operator::Less,
        Operator::GreaterOrEqual => Operator::LessOrEqual,
        Operator::Less => Operator::Greater,
        Operator::LessOrEqual => Operator::GreaterOrEqual,
        other => other,
    }
}

fn apply(operator: Operator, left: Operand<'_>, right: Operand<'_>, most: usize) -> Option<Vec<u32>> {
    match (operator, left, right) {
        (Operator::And, left, right) => match (left.elements(), right.elements()) {
            (Some(a), Some(b)) => Some(if a.len() <= b.len() { a } else { b }),
            (a, b) => a.or(b),
        },
        (Operator::Or, left, right) => {
            let (mut found, more) = (left.elements()?, right.elements()?);
            found.extend(more);
            (found.len() <= most).then_some(found)
        }
        (Operator::In, Operand::Constant(value), Operand::Member(column)) => column.with_item(value, most),
        (Operator::In, Operand::Member(column), Operand::Constant(Value::List(items))) => {
            let mut found = Vec::new();
            for item in items {
                found.extend(column.equal(item, most - found.len())?);
            }
            Some(found)
        }
        (_, Operand::Member(column), Operand::Constant(value)) => compared(operator, column, value, most),
        (_, Operand::Constant(value), Operand::Member(column)) => {
            compared(mirrored(operator), column, value, most)
        }
        _ => None,
    }
}

/// Elements in order, each once; `None` if they are not known, or more than `most`.
pub fn lookup(filter: &Filter, columns: &[&Column], most: usize) -> Option<Vec<u32>> {
    let mut stack: Vec<Operand<'_>> = Vec::with_capacity(6);
    for step in &filter.steps {
        let operand = match step {
            Step::Constant(value) => Operand::Constant(value),
            Step::Member(number) => Operand::Member(columns[*number]),
            Step::Apply(Operator::Not) => {
                stack.pop()?;
                Operand::Truth(None)
            }
            Step::Apply(operator) => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                Operand::Truth(apply(*operator, left, right, most))
            }
        };
        stack.push(operand);
    }
    let mut found = stack.pop()?.elements()?;
    found.sort_unstable();
    found.dedup();
    Some(found)
}
