// SPDX-License-Identifier: BSD-3-Clause
//! The journal: one ordered log, in memory, of all changes to the dataset, in the form in which
//! append-only files and replicas take them: requests in the protocol's own encoding.
//!
//! Flow: a thread that changes keys collects the requests that say so in its [`Unit`]; before it
//! releases the locks of these keys, [`Journal::append`] gives the unit a place in the log and
//! copies it there. As the place is given out under the locks, the order of the log agrees with
//! what every client sees, though many threads copy at once. A [`Reader`] (the append-only file's
//! thread) takes what is complete, and what all readers have passed is given back.
//!
//! This crate knows neither keys nor commands nor files.

mod log;
mod unit;

pub use log::{Journal, Kept, NO_DATABASE, Reader, Writer};
pub use unit::Unit;
