// SPDX-License-Identifier: BSD-3-Clause
//! The `solo` model, a toy: the first loop serves all clients by itself, the others have none.

use super::{Row, Starting};
use crate::event_loop::Model;
use crate::pool::Starter;

/// A loop per thread, of which the first one is given clients.
pub(super) const ROW: Row = Row { serving: |_| 0..1, ..Row::new(starter) };

struct Solo;

impl Model for Solo {
    const HOLDS_REPLIES: bool = true;
}

fn starter(starting: Starting) -> Starter {
    Box::new(move |slot| starting.event_loop(slot, || Solo))
}
