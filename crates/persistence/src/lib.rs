// SPDX-License-Identifier: BSD-3-Clause
//! Persistence: writes the keyspace to dump files and append-only files, and loads them; converts
//! values to the format of crate `rdb`.
//!
//! Flow: [`save()`] walks all databases with the world stopped and writes a file that gets its
//! final name once it is complete and on disk; [`write_snapshot`] writes the same file from a
//! [`cut`] while commands continue. Both can also write requests ([`Form`]). [`load()`] reads
//! record after record and adds its key. [`State`] holds statistics for INFO and LASTSAVE.
//!
//! This crate must not know clients, commands or configuration: settings are passed as plain
//! structs.

pub mod active;
pub mod aof;
mod direct_writer;
pub mod files;
pub mod fingerprint;
mod form;
mod load;
mod old_forms;
mod prefetch;
mod save;
mod scheduling;
mod slices;
mod snapshot;
mod staging_buffer;
mod state;
mod synced_file;
pub mod temporary;
mod throttle;
mod value;
mod writer;

pub use aof::{
    AofRecord, CommandReader, FileInfo, FileKind, Folder, FolderError, HistoryPosition, Manifest,
    ManifestError, ManifestFault, ReadError, data_len, ends_data, hole_before,
};
pub use form::Form;
pub use load::verify::verify;
pub use load::{Accepts, ExpiredKeys, LoadError, LoadOptions, Loaded, ReplicationNote, load};
pub use old_forms::OldForms;
pub use prefetch::{Prefetch, PrefetchReader};
pub use save::{SaveError, SaveOptions, Saved, save, send_without_keys};
pub use scheduling::take_short_turns;
pub use slices::{Slices, Stopped};
pub use snapshot::{Cut, SnapshotProgress, cut, send_snapshot, write_snapshot};
pub use state::{Progress, State};
pub use throttle::RequestCount;
pub use value::{read_value, to_rdb};
