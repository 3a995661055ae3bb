// SPDX-License-Identifier: BSD-3-Clause
//! The `parallel` model: every thread reads, parses, executes and replies for its own clients,
//! under the locks of only those shards that hold a command's keys.

use super::{Row, Starting};
use crate::event_loop::{Model, Properties};
use crate::pool::Starter;

/// A loop per thread; the first also accepts connections.
pub(super) const ROW: Row = Row { scripts_run_beside: true, ..Row::new(starter) };

/// All three steps run on the thread that polls the client: the defaults of [`Model`].
struct Parallel;

impl Model for Parallel {
    fn properties(&self) -> Properties {
        Properties { holds_replies: true, ..Properties::default() }
    }
}

fn starter(starting: Starting) -> Starter {
    Box::new(move |slot| starting.event_loop(slot, || Parallel))
}
