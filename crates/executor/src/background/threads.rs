// SPDX-License-Identifier: BSD-3-Clause
//! Background threads.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use braid_acl::user::User;
use parking_lot::Mutex;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Users whose memory is to be measured (`tenants.rs`).
#[derive(Default)]
pub(crate) struct Measuring {
    pub asked: Vec<Arc<User>>,
    pub has_thread: bool,
}

/// Background threads, started on first use: half as many as executing threads, so that long
/// commands of several clients run in parallel and leave processors to the others.
#[derive(Default)]
pub struct Background {
    pub(crate) sender: Mutex<Option<Sender<Job>>>,
    pub(crate) measuring: Mutex<Measuring>,
}
