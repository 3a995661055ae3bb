// SPDX-License-Identifier: BSD-3-Clause
//! The threads in the background.

use std::sync::mpsc::Sender;

use parking_lot::Mutex;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The threads in the background, started when they are first needed: half as many as execute
/// commands, so that long commands of several clients are worked for side by side, and the others
/// still find a processor.
#[derive(Default)]
pub struct Background {
    pub(super) sender: Mutex<Option<Sender<Job>>>,
}
