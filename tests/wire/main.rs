// SPDX-License-Identifier: BSD-3-Clause
//! The wire protocol, byte by byte: exchanges written as text, and edge cases of connections
//! (slow and half-open clients, limits, addresses to listen on).
//!
//!   cargo test -p braid-tests --test wire
//!   cargo test -p braid-tests --test wire -- --ignored   only the test of a string of 512 MB
//!
//! The exchanges are in `exchanges/*.txt`, in the format that `exchange.rs` describes. Each is
//! run whole, as one pipeline, byte by byte, and split in two at every position.

mod exchange;
mod limits;
mod listening;
mod slow;
