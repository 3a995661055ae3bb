// SPDX-License-Identifier: BSD-3-Clause
//! Background threads.

use std::sync::mpsc::Sender;

use parking_lot::Mutex;

use crate::tenants::Measuring;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Background threads, started on first use: half as many as executing threads, so that long
/// commands of several clients run in parallel and leave processors to the others.
#[derive(Default)]
pub struct Background {
    pub(crate) sender: Mutex<Option<Sender<Job>>>,
    pub(crate) measuring: Mutex<Measuring>,
}
