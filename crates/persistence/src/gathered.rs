// SPDX-License-Identifier: BSD-3-Clause
//! Entries that have been taken out of a shard, to be written when it is free again.
//!
//! To write a value takes several times as long as to copy it, most of all when it is compressed,
//! and a thread may lose its processor meanwhile. So what is done while the shard is held is
//! copying: short strings and packed collections; large strings are shared. The rest (tables,
//! trees, streams) has to be written at once.

use std::io;

use braid_base::blob::Blob;
use braid_keyspace::eviction::access;
use braid_keyspace::{Entry, Keyspace, ValueRef};
use braid_rdb::{Access, Format, Kind};

use crate::value::to_rdb;
use crate::writer::Writer;

enum Content {
    Integer(i64),
    /// Behind the name.
    Text,
    Blob(Blob),
    /// Behind the name.
    Packed(Kind),
}

struct Taken {
    /// Where in the bytes name and content end; they begin where those before end.
    name_end: usize,
    end: usize,
    content: Content,
    expire_at: Option<i64>,
    access: Option<Access>,
}

/// Entries taken, in order.
#[derive(Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    entries: Vec<Taken>,
}

/// Bytes of room that are kept.
const KEPT_BYTES: usize = 256 * 1024;

impl Gathered {
    /// Takes an entry, in a shard that is held; how many bytes were copied. Nothing if it has to be
    /// written at once. `packed`: packed collections can be taken, too, as far as they are written
    /// so.
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
        let (expire_at, access) = (entry.expiry(), access(keyspace, entry));
        self.entries.push(Taken { name_end, end: self.bytes.len(), content, expire_at, access });
        Some(self.bytes.len() - begin)
    }

    /// Writes what was taken, in the database that is chosen, and forgets it.
    pub fn write(&mut self, writer: &mut Writer) -> io::Result<()> {
        let mut begin = 0;
        for taken in &self.entries {
            let (name, rest) = self.bytes[begin..taken.end].split_at(taken.name_end - begin);
            let value = match &taken.content {
                Content::Integer(number) => ValueRef::Integer(*number),
                Content::Text => ValueRef::Bytes(rest),
                Content::Blob(blob) => ValueRef::Blob(blob),
                Content::Packed(kind) => {
                    writer.packed_key(name, *kind, rest, taken.expire_at, taken.access)?;
                    begin = taken.end;
                    continue;
                }
            };
            writer.key(name, value, taken.expire_at, taken.access)?;
            begin = taken.end;
        }
        self.forget();
        Ok(())
    }

    /// Bytes of an entry on average, if any was taken.
    pub fn average_bytes(&self) -> Option<usize> {
        self.bytes.len().checked_div(self.entries.len())
    }

    /// True if nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets what was taken.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}
