// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for acknowledgements.

use std::sync::Arc;

use parking_lot::Mutex;

use super::acknowledgements::Acknowledgements;
use crate::blocking::state::Waiter;

/// The waiting clients.
#[derive(Default)]
pub struct Durability {
    pub(crate) waiters: Mutex<Vec<(Acknowledgements, Arc<Waiter>)>>,
}
