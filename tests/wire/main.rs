// SPDX-License-Identifier: BSD-3-Clause
//! What goes over the wire, byte by byte: exchanges written down as text, and the edges of
//! connections (slow and half-open clients, limits, addresses to listen on).
//!
//!   cargo test -p braid-tests --test wire
//!   cargo test -p braid-tests --test wire -- --ignored   only the test of a string of 512 MB
//!
//! The exchanges are in `exchanges/*.txt`; `exchange.rs` tells their form. Each is run whole, as
//! one pipeline, byte after byte, and split in two at every place.

mod exchange;
mod limits;
mod listening;
mod slow;
