// SPDX-License-Identifier: BSD-3-Clause
//! Writer of a file in either form (`form.rs`): a dump file, or the requests that create the keys.

use std::io;

use braid_keyspace::eviction::traits;
use braid_keyspace::{Entry, Keyspace, ValueRef};
use braid_rdb::{FileWriter, Format, RdbType, Traits};

use crate::aof::RequestWriter;
use crate::synced_file::SyncedFile;
use crate::value::{to_rdb, value_to_rdb};

/// The name of notes with a request that makes an index.
pub(crate) const INDEX_NOTE: &str = "braid-index";

/// A request as a line that [`braid_resp::inline::split_words`] takes apart.
fn quoted(request: &[Vec<u8>]) -> String {
    let mut line = String::new();
    for word in request {
        line.push_str(if line.is_empty() { "\"" } else { " \"" });
        for &byte in word {
            match byte {
                b'"' | b'\\' => line.extend(['\\', char::from(byte)]),
                b' '..=b'~' => line.push(char::from(byte)),
                _ => line.push_str(&format!("\\x{byte:02x}")),
            }
        }
        line.push('"');
    }
    line
}

/// Writes a file of either form. The methods correspond to those of [`FileWriter`].
pub(crate) enum Writer {
    Dump(FileWriter<SyncedFile>),
    Requests(RequestWriter<SyncedFile>),
}

impl Writer {
    /// Writes a note about the file; only dump files have notes.
    pub(crate) fn note(&mut self, name: &str, text: &str) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.note(name, text),
            Writer::Requests(_) => Ok(()),
        }
    }

    pub(crate) fn function(&mut self, code: &[u8]) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.function(code),
            Writer::Requests(writer) => writer.function(code),
        }
    }

    /// Writes a request that makes an index: a note in a dump file.
    pub(crate) fn index(&mut self, request: &[Vec<u8>]) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.note(INDEX_NOTE, &quoted(request)),
            Writer::Requests(writer) => writer.request(request),
        }
    }

    pub(crate) fn select(&mut self, db: u32) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.select(db),
            Writer::Requests(writer) => {
                writer.select(db);
                Ok(())
            }
        }
    }

    pub(crate) fn database(&mut self, db: u32, keys: u64, expiring: u64) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.database(db, keys, expiring),
            Writer::Requests(writer) => {
                writer.select(db);
                Ok(())
            }
        }
    }

    /// Writes a key with its value.
    pub(crate) fn key(
        &mut self,
        name: &[u8],
        value: ValueRef<'_>,
        expire_at: Option<i64>,
        traits: Traits,
    ) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.key(name, value_to_rdb(value), expire_at, traits),
            Writer::Requests(writer) => {
                writer.key(name, value, expire_at)?;
                if traits.is_protected { writer.protect(name) } else { Ok(()) }
            }
        }
    }

    /// The format of packed collections, if [`Writer::packed_key`] can be used.
    pub(crate) fn packed_format(&self) -> Option<Format> {
        match self {
            Writer::Dump(writer) => Some(writer.format()),
            Writer::Requests(_) => None,
        }
    }

    /// Writes a key whose packed value was staged; dump files only.
    pub(crate) fn packed_key(
        &mut self,
        name: &[u8],
        kind: RdbType,
        packed: &[u8],
        expire_at: Option<i64>,
        traits: Traits,
    ) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.packed_key(name, kind, packed, expire_at, traits),
            Writer::Requests(_) => Err(io::Error::other("requests are not made of packed forms")),
        }
    }

    /// Bytes written so far.
    pub(crate) fn written(&mut self) -> u64 {
        match self {
            Writer::Dump(writer) => writer.written(),
            Writer::Requests(writer) => writer.written(),
        }
    }

    #[inline]
    pub(crate) fn entry(&mut self, keyspace: &Keyspace, entry: Entry<'_>) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => {
                writer.key(entry.key(), to_rdb(entry), entry.expiry(), traits(keyspace, entry))
            }
            Writer::Requests(_) => {
                self.key(entry.key(), entry.value(), entry.expiry(), traits(keyspace, entry))
            }
        }
    }

    /// Writes keys encoded by [`Form::encode`](crate::form::Form::encode).
    pub(crate) fn encoded_keys(&mut self, keys: &[u8]) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.encoded_keys(keys),
            Writer::Requests(writer) => writer.encoded_keys(keys),
        }
    }

    pub(crate) fn hold(&mut self) {
        match self {
            Writer::Dump(writer) => writer.hold(),
            Writer::Requests(writer) => writer.hold(),
        }
    }

    pub(crate) fn let_go(&mut self) -> io::Result<()> {
        match self {
            Writer::Dump(writer) => writer.let_go(),
            Writer::Requests(writer) => writer.let_go(),
        }
    }

    /// Ends the file. Returns the sink and the file's size in bytes.
    pub(crate) fn finish(self) -> io::Result<(SyncedFile, u64)> {
        match self {
            Writer::Dump(mut writer) => {
                let bytes = writer.written();
                Ok((writer.finish()?, bytes))
            }
            Writer::Requests(writer) => writer.finish(),
        }
    }
}
