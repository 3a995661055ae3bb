// SPDX-License-Identifier: BSD-3-Clause
//! Hashes as requests: HMSET, HPEXPIREAT.

use std::io;

use braid_keyspace::object::RequestSink;

use super::Hash;
use crate::requests::{Batches, push_expiry};

pub(super) fn rewrite(hash: &Hash, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let mut batches = Batches::new(out, b"HMSET", name, 2, hash.len());
    for (field, value, _) in hash.iter_with_expiry() {
        batches.element(field);
        batches.element(value);
    }
    batches.outcome()?;
    if hash.expiring_len() > 0 {
        for (field, _, expire_at) in hash.iter_with_expiry() {
            push_expiry(out, [b"HPEXPIREAT", b"FIELDS"], name, field, expire_at)?;
        }
    }
    Ok(())
}
