// SPDX-License-Identifier: BSD-3-Clause
//! The `parallel` model: every thread reads, parses, executes and replies for its own clients, under the locks of just the
//! shards that a command's keys live in.

use super::{Model, Starting};
use crate::pool::Starter;

/// All three steps on the thread that polls the client: what [`Model`] says by itself.
struct Parallel;

impl Model for Parallel {
    const HOLDS_REPLIES: bool = true;
}

/// Starts a loop per thread; the first one accepts connections too.
pub(super) fn starter(starting: Starting) -> Starter {
    Box::new(move |slot| starting.event_loop(slot, || Parallel))
}
