// SPDX-License-Identifier: BSD-3-Clause
//! Cursors of FT.AGGREGATE and FT.HYBRID: the rows that are still to be sent. They end when they
//! are read to the end, deleted, or not read for their time.

use std::collections::HashMap;
use std::sync::Arc;

use braid_search::aggregate::Rows;

use crate::index::SearchIndex;

/// Cursors of an index at a time.
pub const CURSORS_MAX: usize = 128;

/// A document's fields, for LOAD *.
pub type Extra = Vec<(Vec<u8>, Vec<u8>)>;

pub struct Cursor {
    pub index: Arc<SearchIndex>,
    pub rows: Rows,
    /// Rows returned at once unless FT.CURSOR READ says otherwise.
    pub count: usize,
    pub idle_ms: i64,
    /// Other fields of documents (LOAD *), for each row.
    pub more: Vec<Extra>,
    /// Its rows are groups.
    pub is_grouped: bool,
    /// FORMAT EXPAND
    pub is_expanded: bool,
    ends_at: i64,
}

impl Cursor {
    pub fn new(index: Arc<SearchIndex>, rows: Rows, count: usize, idle_ms: i64) -> Cursor {
        Cursor {
            index,
            rows,
            count,
            idle_ms,
            more: Vec::new(),
            is_grouped: false,
            is_expanded: false,
            ends_at: 0,
        }
    }
}

#[derive(Default)]
pub struct Cursors {
    open: HashMap<u64, Cursor>,
}

impl Cursors {
    fn end_idle(&mut self, now_ms: i64) {
        self.open.retain(|_, cursor| cursor.ends_at > now_ms);
    }

    /// Keeps a cursor; its number. `None` if the index has too many.
    pub fn open(&mut self, mut cursor: Cursor, now_ms: i64) -> Option<u64> {
        self.end_idle(now_ms);
        if self.count(&cursor.index) >= CURSORS_MAX {
            return None;
        }
        cursor.ends_at = now_ms.saturating_add(cursor.idle_ms);
        // Clients in some languages keep cursors in signed or floating-point numbers.
        let id = loop {
            let id = fastrand::u64(1..1 << 53);
            if !self.open.contains_key(&id) {
                break id;
            }
        };
        self.open.insert(id, cursor);
        Some(id)
    }

    /// Takes a cursor to read from it.
    pub fn take(&mut self, id: u64, now_ms: i64) -> Option<Cursor> {
        self.end_idle(now_ms);
        self.open.remove(&id)
    }

    /// Gives a cursor back.
    pub fn give_back(&mut self, id: u64, mut cursor: Cursor, now_ms: i64) {
        cursor.ends_at = now_ms.saturating_add(cursor.idle_ms);
        self.open.insert(id, cursor);
    }

    /// The number of an index's cursors.
    pub fn count(&self, index: &Arc<SearchIndex>) -> usize {
        self.open.values().filter(|cursor| Arc::ptr_eq(&cursor.index, index)).count()
    }

    /// The number of all cursors.
    pub fn all(&self) -> usize {
        self.open.len()
    }
}
