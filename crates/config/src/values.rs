// SPDX-License-Identifier: BSD-3-Clause
//! Values by row: the storage behind the accessors of `rows/`.
//!
//! Numbers, switches and words are relaxed atomics in one array; all other values are swapped as
//! a whole behind `ArcSwap`. Rows are identified only by index; the table gives them meaning.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::value::Value;

/// Values of `ROWS` directives. [`Config`](crate::Config) dereferences to it.
pub struct Values<const ROWS: usize> {
    scalars: [AtomicI64; ROWS],
    /// By row; unused for scalars.
    others: Box<[ArcSwap<Value>]>,
}

impl<const ROWS: usize> Values<ROWS> {
    /// Zero in every row.
    pub(crate) fn new() -> Values<ROWS> {
        let unused = Arc::new(Value::Scalar(0));
        Values {
            scalars: [const { AtomicI64::new(0) }; ROWS],
            others: (0..ROWS).map(|_| ArcSwap::new(unused.clone())).collect(),
        }
    }

    #[inline]
    pub(crate) fn scalar_at(&self, index: usize) -> i64 {
        self.scalars[index].load(Ordering::Relaxed)
    }

    pub(crate) fn text_at(&self, index: usize) -> Arc<str> {
        match &**self.other_at(index) {
            Value::Text(text) => text.clone(),
            _ => Arc::from(""),
        }
    }

    /// The value of a row that is not a scalar.
    #[inline]
    pub(crate) fn other_at(&self, index: usize) -> Guard<Arc<Value>> {
        self.others[index].load()
    }

    /// Stores a value. The caller holds `writing` or is the only owner.
    pub(crate) fn store(&self, index: usize, value: Value) {
        match value {
            Value::Scalar(raw) => self.scalars[index].store(raw, Ordering::Relaxed),
            other => self.others[index].store(Arc::new(other)),
        }
    }
}
