// SPDX-License-Identifier: BSD-3-Clause
//! Lists as requests: RPUSH.

use std::io;

use braid_keyspace::object::RequestSink;

use super::List;
use crate::requests::Batches;

pub(super) fn rewrite(list: &List, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let mut batches = Batches::new(out, b"RPUSH", name, 1, list.len());
    list.range(0, list.len(), |element| batches.element(element));
    batches.outcome()
}
