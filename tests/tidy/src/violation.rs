// SPDX-License-Identifier: BSD-3-Clause
//! What a rule reports.

/// One offence against a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Name of the rule, as in [`crate::rules::ALL`].
    pub rule: &'static str,
    /// Path of a file, or of a crate's folder where the offence is not one file's.
    pub place: String,
    /// Line from 1; 0 if it concerns the place as a whole.
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Violation { rule, place, line, message } = self;
        match line {
            0 => write!(out, "{place}: {message} [{rule}]"),
            _ => write!(out, "{place}:{line}: {message} [{rule}]"),
        }
    }
}
