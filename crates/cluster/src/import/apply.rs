// SPDX-License-Identifier: BSD-3-Clause
//! Turns the keys of a snapshot and the changes of a stream into requests to the target cluster.
//!
//! Changes to one slot keep their order; a transaction within one slot stays a transaction. Changes
//! to all keys of the primary (FLUSHALL) apply here only to that primary's slots.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::crc::key_hash_slot;
use braid_client::connection::encode;

use super::Source;
use super::link::Loaded;
use super::target::{Item, Router, Tolerance};

/// Applies the snapshot and stream of one primary.
pub(super) struct Applier<'s> {
    router: Router,
    source: &'s Source,
    db: u64,
    /// Databases seen so far.
    databases: BTreeSet<u64>,
    /// The changes of the open transaction.
    transaction: Option<Vec<Item>>,
}

type Words = Vec<Vec<u8>>;

impl<'s> Applier<'s> {
    pub(super) fn new(router: Router, source: &'s Source) -> Result<Applier<'s>, String> {
        Ok(Applier { router, source, db: 0, databases: BTreeSet::from([0]), transaction: None })
    }

    /// True if changes are still queued.
    pub(super) fn is_pending(&self) -> bool {
        self.router.is_pending()
    }

    /// Sends all queued changes, and waits until they are applied.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        self.router.flush()
    }

    fn select(&mut self, db: u64) {
        self.db = db;
        self.databases.insert(db);
    }

    /// Applies a record of the snapshot.
    pub(super) fn load(&mut self, record: Loaded<'_>) -> Result<(), String> {
        match record {
            Loaded::Database(db) => self.select(db),
            Loaded::Function(code) => {
                let words = [&b"FUNCTION"[..], b"LOAD", b"REPLACE", &code];
                self.router.everywhere(&words, Tolerance::None)?;
            }
            Loaded::Key { name, kind, value, version, expire_at } => {
                let mut payload = Vec::with_capacity(value.len() + 11);
                payload.push(kind.number());
                payload.extend_from_slice(value);
                braid_rdb::seal(&mut payload, version);
                let time = expire_at.unwrap_or(0).to_string();
                let words = [&b"RESTORE"[..], name, time.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
                let mut bytes = Vec::with_capacity(payload.len() + name.len() + 80);
                encode(&words, &mut bytes);
                let slot = key_hash_slot(name);
                self.router.add(Item { slot, db: self.db, bytes, replies: 1, tolerance: Tolerance::None })?;
                self.source.state.keys.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    /// Applies a change from the stream.
    pub(super) fn apply(&mut self, words: Words) -> Result<(), String> {
        let name = words[0].to_ascii_lowercase();
        match name.as_slice() {
            b"ping" | b"replconf" | b"publish" | b"spublish" | b"script" => return Ok(()),
            b"select" => {
                let db = words.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                self.select(db.ok_or("its stream selects no database")?);
                return Ok(());
            }
            b"multi" => {
                self.transaction = Some(Vec::new());
                return Ok(());
            }
            b"exec" => return self.execute(),
            b"flushall" | b"flushdb" => return self.remove_all(name == b"flushall"),
            b"function" => return self.function(words),
            b"swapdb" => return Err("SWAPDB cannot be replicated".into()),
            _ => {}
        }
        self.source.state.changes.fetch_add(1, Relaxed);
        let key = self.router.key_of(&words)?;
        let mut bytes = Vec::new();
        encode(&words, &mut bytes);
        let item = Item {
            slot: key_hash_slot(&words[key]),
            db: self.db,
            bytes,
            replies: 1,
            tolerance: Tolerance::GoneKeys,
        };
        match &mut self.transaction {
            Some(items) => items.push(item),
            None => self.router.add(item)?,
        }
        Ok(())
    }

    /// Ends a transaction. A transaction whose keys are in several slots (from a script) is split
    /// up.
    fn execute(&mut self) -> Result<(), String> {
        let items = self.transaction.take().unwrap_or_default();
        let Some(first) = items.first() else { return Ok(()) };
        let (slot, db) = (first.slot, first.db);
        if items.len() == 1 || items.iter().any(|item| item.slot != slot || item.db != db) {
            return items.into_iter().try_for_each(|item| self.router.add(item));
        }
        let (mut bytes, mut replies) = (Vec::new(), 2);
        encode(&["MULTI"], &mut bytes);
        for item in items {
            bytes.extend_from_slice(&item.bytes);
            replies += 1;
        }
        encode(&["EXEC"], &mut bytes);
        self.router.add(Item { slot, db, bytes, replies, tolerance: Tolerance::GoneKeys })
    }

    /// Removes all keys of this primary's slots.
    fn remove_all(&mut self, everywhere: bool) -> Result<(), String> {
        if self.transaction.is_some() {
            return Err("FLUSHALL in a transaction cannot be replicated".into());
        }
        self.source.state.changes.fetch_add(1, Relaxed);
        let databases: Vec<u64> =
            if everywhere { self.databases.iter().copied().collect() } else { vec![self.db] };
        self.router.flush()?;
        let slots = &self.source.slots;
        for db in databases {
            self.router.remove(db, |key| slots.binary_search(&key_hash_slot(key)).is_ok())?;
        }
        Ok(())
    }

    /// Every primary sends the same libraries, so errors are ignored.
    fn function(&mut self, mut words: Words) -> Result<(), String> {
        if self.transaction.is_some() {
            return Err("FUNCTION in a transaction cannot be replicated".into());
        }
        self.source.state.changes.fetch_add(1, Relaxed);
        let has_replace = words.iter().any(|word| word.eq_ignore_ascii_case(b"replace"));
        if words.len() > 2 && words[1].eq_ignore_ascii_case(b"load") && !has_replace {
            words.insert(2, b"REPLACE".to_vec());
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.router.everywhere(&words, Tolerance::Anything)
    }
}
