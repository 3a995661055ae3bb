// SPDX-License-Identifier: BSD-3-Clause
//! The rows of a result that are still to be sent: all that a cursor is.

use super::value::Value;

#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Of the columns.
    pub names: Vec<String>,
    rows: std::collections::VecDeque<Vec<Value>>,
}

impl Rows {
    pub fn new(names: Vec<String>, rows: Vec<Vec<Value>>) -> Rows {
        Rows { names, rows: rows.into() }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The next rows, at most so many.
    pub fn take(&mut self, count: usize) -> Vec<Vec<Value>> {
        let count = count.min(self.rows.len());
        let taken = self.rows.drain(..count).collect();
        // A long-lived cursor holds no more than what is left.
        self.rows.shrink_to(self.rows.len());
        taken
    }
}
