// SPDX-License-Identifier: BSD-3-Clause
//! The journal: an ordered in-memory log of all changes to the dataset, encoded as requests, for
//! append-only files and replicas.
//!
//! Flow: a thread that changes keys collects requests in its [`Unit`]; before it releases the
//! keys' locks, [`Journal::append`] reserves a range of the log for the unit and copies it there.
//! Ranges are reserved under the locks, so the order of the log agrees with the order that every
//! client sees, although threads copy in parallel. A [`Reader`] (the append-only file's thread)
//! reads complete ranges, and chunks that all readers have passed are freed.
//!
//! This crate knows nothing of keys, commands or files.

mod log;
mod unit;

pub use log::{Boundary, Journal, Kept, NO_DATABASE, Reader, Writer};
pub use unit::{Stated, Unit, push_select};
