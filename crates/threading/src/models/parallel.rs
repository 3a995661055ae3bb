// SPDX-License-Identifier: BSD-3-Clause
//! The `parallel` model: every thread reads, parses, executes and replies for its own clients,
//! under the locks of just the shards that a command's keys live in.

use super::{Row, Starting};
use crate::event_loop::Model;
use crate::pool::Starter;

/// A loop per thread; the first one accepts connections too.
pub(super) const ROW: Row = Row { scripts_run_beside: true, ..Row::new(starter) };

/// All three steps on the thread that polls the client, as [`Model`] provides.
struct Parallel;

impl Model for Parallel {
    const HOLDS_REPLIES: bool = true;
}

fn starter(starting: Starting) -> Starter {
    Box::new(move |slot| starting.event_loop(slot, || Parallel))
}
