// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets as requests: ZADD, ZPEXPIREAT.

use std::io;

use braid_base::number::format_f64_shortest;
use braid_keyspace::object::RequestSink;

use super::SortedSet;
use crate::requests::{Batches, push_expiry};

pub(super) fn rewrite(set: &SortedSet, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let view = set.view(i64::MIN);
    let mut batches = Batches::new(out, b"ZADD", name, 2, view.len());
    let mut score_text = Vec::new();
    for (member, score) in view.iter(0..view.len()) {
        score_text.clear();
        format_f64_shortest(&mut score_text, score);
        batches.text(&score_text);
        batches.element(member);
    }
    batches.outcome()?;
    if set.next_expiry().is_some() {
        for (member, _, expire_at) in set.iter_back_with_expiry() {
            push_expiry(out, [b"ZPEXPIREAT", b"MEMBERS"], name, member, expire_at)?;
        }
    }
    Ok(())
}
