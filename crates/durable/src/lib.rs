// SPDX-License-Identifier: BSD-3-Clause
//! The dataset on disk: saving and loading dump files, the append-only file, and the place in the
//! replication history that they name.
//!
//! Formats and files are `braid-persistence`'s; this crate decides when they are written and read,
//! and does it beside clients that are served. It never talks to another server.
#![forbid(unsafe_code)]

pub mod aof_load;
pub mod append_only;
pub mod at_start;
pub mod background_save;
pub mod backup;
pub mod commands;
pub mod history;
pub mod load_defrag;
pub mod saving;
