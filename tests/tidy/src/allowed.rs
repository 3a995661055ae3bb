// SPDX-License-Identifier: BSD-3-Clause
//! The list of offences still in the tree: rule, place and number, one per line.
//!
//! The numbers are exact: more than listed is an offence, and less means that the list must
//! shrink.

use std::collections::BTreeMap;

use crate::Violation;

pub type Counts = BTreeMap<(String, String), usize>;

/// The command that shrinks the list.
pub const HOW: &str = "BLESS=1 cargo test -p braid-tidy";

pub fn count(violations: &[Violation]) -> Counts {
    let mut counts = Counts::new();
    for one in violations {
        *counts.entry((one.rule.to_owned(), one.place.clone())).or_default() += 1;
    }
    counts
}

/// Parses a list.
///
/// # Errors
/// Names the first line that is not `rule place number`.
pub fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rule, place, number] = words.as_slice() else { return Err(format!("malformed line: {line}")) };
        let number = number.parse().map_err(|_| format!("the count is not a number: {line}"))?;
        counts.insert(((*rule).to_owned(), (*place).to_owned()), number);
    }
    Ok(counts)
}

/// Renders the list as text.
pub fn render(counts: &Counts) -> String {
    let mut text = format!(
        "# Offences against the rules of tests/tidy that the tree still has. The list may only shrink.\n# Made by: {HOW}\n"
    );
    for ((rule, place), number) in counts {
        text += &format!("{rule} {place} {number}\n");
    }
    text
}

/// Lowers the numbers of a list to those of what is left. What is new is not added.
pub fn shrink(list: &mut Counts, found: &Counts) {
    list.retain(|place, number| {
        *number = found.get(place).map_or(0, |found| (*number).min(*found));
        *number > 0
    });
}

/// Compares the violations with the list; returns one complaint per place.
pub fn compare(violations: &[Violation], allowed: &Counts) -> Vec<String> {
    let found = count(violations);
    let mut complaints = Vec::new();
    for ((rule, place), number) in &found {
        let most = allowed.get(&(rule.clone(), place.clone())).copied().unwrap_or(0);
        if *number > most {
            let all = violations.iter().filter(|one| one.rule == rule && one.place == *place);
            let all: Vec<String> = all.map(|one| format!("    {one}")).collect();
            complaints.push(format!(
                "{place}: {number} offences against {rule}, allowed are {most}:\n{}",
                all.join("\n")
            ));
        }
    }
    for ((rule, place), most) in allowed {
        let number = found.get(&(rule.clone(), place.clone())).copied().unwrap_or(0);
        if number < *most {
            complaints.push(format!(
                "{place}: {number} offences against {rule}, but the list allows {most}; shrink it: {HOW}"
            ));
        }
    }
    complaints
}
