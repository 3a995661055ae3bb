// SPDX-License-Identifier: BSD-3-Clause
//! The type's values as requests: RESTORE of the whole.

use std::io;

use braid_keyspace::object::RequestSink;

use super::value::TDigest;
use crate::requests::push_restore;

pub(super) fn rewrite(digest: &TDigest, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    push_restore(digest, name, out)
}
