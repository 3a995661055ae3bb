// SPDX-License-Identifier: BSD-3-Clause
//! Count-min sketches as requests: RESTORE of the whole.

use std::io;

use braid_keyspace::object::RequestSink;

use super::value::CountMin;
use crate::requests::push_restore;

pub(super) fn rewrite(sketch: &CountMin, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    push_restore(sketch, name, out)
}
