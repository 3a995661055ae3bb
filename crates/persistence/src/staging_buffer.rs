// SPDX-License-Identifier: BSD-3-Clause
//! Staging buffer: entries copied out of a locked shard, to be written once it is unlocked.
//!
//! Writing a value takes several times as long as copying it, especially with compression, and the
//! thread may be preempted while writing. Therefore only copying happens under the lock: short
//! strings and packed collections are copied, large strings are shared. Tables, trees and streams
//! are written under the lock.

use std::io;

use braid_base::blob::Blob;
use braid_keyspace::eviction::traits;
use braid_keyspace::{Entry, Keyspace, ValueRef};
use braid_rdb::{Format, RdbType, Traits};

use crate::value::to_rdb;
use crate::writer::Writer;

enum Content {
    Integer(i64),
    /// A string; its bytes follow the name.
    Text,
    Blob(Blob),
    /// A packed collection; its bytes follow the name.
    Packed(RdbType),
}

struct StagedEntry {
    /// Ends of the name and of the content in the bytes; they begin at the previous entry's end.
    name_end: usize,
    end: usize,
    content: Content,
    expire_at: Option<i64>,
    traits: Traits,
}

/// Staged entries, in order.
#[derive(Default)]
pub(crate) struct StagingBuffer {
    bytes: Vec<u8>,
    entries: Vec<StagedEntry>,
}

/// Capacity kept between batches, in bytes.
const KEPT_BYTES: usize = 256 * 1024;

impl StagingBuffer {
    /// Stages an entry of a locked shard and returns the bytes copied; `None` if it must be
    /// written under the lock. `packed`: the format that packed collections are written in, if
    /// any.
    pub fn take(&mut self, keyspace: &Keyspace, entry: Entry<'_>, packed: Option<Format>) -> Option<usize> {
        let begin = self.bytes.len();
        let name_end = begin + entry.key().len();
        let content = match entry.value() {
            ValueRef::Integer(number) => Content::Integer(number),
            ValueRef::Blob(blob) => Content::Blob(blob.clone()),
            ValueRef::Bytes(_) => Content::Text,
            ValueRef::Object(_) => {
                let format = packed?;
                self.bytes.extend_from_slice(entry.key());
                let Some(kind) = to_rdb(entry).take_packed(format, &mut self.bytes) else {
                    self.bytes.truncate(begin);
                    return None;
                };
                Content::Packed(kind)
            }
        };
        if self.bytes.len() == begin {
            self.bytes.extend_from_slice(entry.key());
        }
        if let ValueRef::Bytes(text) = entry.value() {
            self.bytes.extend_from_slice(text);
        }
        let (expire_at, traits) = (entry.expiry(), traits(keyspace, entry));
        self.entries.push(StagedEntry { name_end, end: self.bytes.len(), content, expire_at, traits });
        Some(self.bytes.len() - begin)
    }

    /// Writes the staged entries to the current database and clears the buffer.
    ///
    /// # Errors
    /// If the writer fails; the buffer is not cleared then.
    pub fn write(&mut self, writer: &mut Writer) -> io::Result<()> {
        let mut begin = 0;
        for taken in &self.entries {
            let (name, rest) = self.bytes[begin..taken.end].split_at(taken.name_end - begin);
            let value = match &taken.content {
                Content::Integer(number) => ValueRef::Integer(*number),
                Content::Text => ValueRef::Bytes(rest),
                Content::Blob(blob) => ValueRef::Blob(blob),
                Content::Packed(kind) => {
                    writer.packed_key(name, *kind, rest, taken.expire_at, taken.traits)?;
                    begin = taken.end;
                    continue;
                }
            };
            writer.key(name, value, taken.expire_at, taken.traits)?;
            begin = taken.end;
        }
        self.clear();
        Ok(())
    }

    /// Average size of a staged entry, in bytes.
    pub fn average_bytes(&self) -> Option<usize> {
        self.bytes.len().checked_div(self.entries.len())
    }

    /// True if nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops the staged entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}
