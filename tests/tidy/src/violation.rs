// SPDX-License-Identifier: BSD-3-Clause
//! A rule's report.

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule's name, as in [`crate::rules::ALL`].
    pub rule: &'static str,
    /// Path of a file, or of a crate's folder if the violation does not belong to a single file.
    pub place: String,
    /// Line number, from 1; 0 if the violation concerns the place as a whole.
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
