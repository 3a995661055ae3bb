// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for acknowledgements.

use std::sync::Arc;

use parking_lot::Mutex;

use super::copies::Copies;
use crate::blocking::state::Waiter;

/// Who waits, and for what.
#[derive(Default)]
pub struct Durability {
    pub(super) waiters: Mutex<Vec<(Copies, Arc<Waiter>)>>,
}
