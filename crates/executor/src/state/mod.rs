// SPDX-License-Identifier: BSD-3-Clause
//! States of services above: data that the request path reads, or that several services share.
//! What the services do with it is in their own crates.

pub mod append_only;
pub mod background_save;
pub(crate) mod feed_waiters;
pub mod migrations;
pub mod script_debugger;
pub mod shutdown;
pub mod slot_moves;
pub mod slowed_slots;
pub mod sync_writes;
