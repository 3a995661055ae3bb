// SPDX-License-Identifier: BSD-3-Clause
//! The append-only file: every change as a command, in files that only grow.
//!
//! As since Redis 7, the append-only file is a folder:
//!
//! ```text
//! appenddirname/
//!     appendfilename.manifest         the files and their order ([`Manifest`])
//!     appendfilename.N.base.rdb       all keys at the last rewrite (or .base.aof, as commands)
//!     appendfilename.N.incr.aof       the changes since; several during a rewrite, and
//!                                     after one that failed
//! ```
//! A load reads the base and then the increments in their order.

mod appender;
pub mod backup;
mod check;
mod folder;
mod history_position;
mod hole;
mod increment;
mod manifest;
mod reader;
mod requests;

pub use appender::{Appender, Failure, PlaceOf, Policy};
pub use folder::{Folder, FolderError};
pub use history_position::HistoryPosition;
pub use hole::hole_before;
pub use manifest::{FileInfo, FileKind, Manifest, ManifestError, ManifestFault};
pub use reader::{AofRecord, CommandReader, ReadError, data_len, ends_data};
pub(crate) use requests::RequestWriter;
pub use requests::push_key;
pub(crate) use requests::push_protection;
