// SPDX-License-Identifier: BSD-3-Clause
//! Sets as requests: SADD, SPEXPIREAT.

use std::io;

use braid_keyspace::object::RequestSink;

use super::Set;
use crate::requests::{Batches, push_expiry};

pub(super) fn rewrite(set: &Set, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let mut batches = Batches::new(out, b"SADD", name, 1, set.len());
    set.iter_with_expiry().for_each(|(member, _)| batches.element(member));
    batches.outcome()?;
    if set.expiring_len() > 0 {
        for (member, expire_at) in set.iter_with_expiry() {
            push_expiry(out, [b"SPEXPIREAT", b"MEMBERS"], name, member, expire_at)?;
        }
    }
    Ok(())
}
