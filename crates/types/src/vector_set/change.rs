// SPDX-License-Identifier: BSD-3-Clause
//! Commands that change or remove elements.

use braid_executor::Call;
use braid_spec::CommandResult;
use braid_values::vector_set::VectorSet;

use super::add::SILENT;
use super::arguments::arity;
use crate::family::reply_bool;

pub(super) fn vrem(call: &mut Call) -> CommandResult {
    arity(call, 3..=3)?;
    let (key, element) = (call.args[1], call.args[2]);
    let is_there = call.keyspace.peek_as::<VectorSet>(key)?.is_some_and(|set| set.find(element).is_some());
    if is_there && let Some(set) = call.keyspace.write_as::<VectorSet>(key)? {
        set.remove(element);
        let is_empty = set.is_empty();
        call.keyspace.finish_change(SILENT, key, 1, is_empty);
    }
    reply_bool(call, is_there);
    Ok(())
}

pub(super) fn vsetattr(call: &mut Call) -> CommandResult {
    arity(call, 4..=4)?;
    let (key, element, text) = (call.args[1], call.args[2], call.args[3]);
    let is_there = call.keyspace.peek_as::<VectorSet>(key)?.is_some_and(|set| set.find(element).is_some());
    if is_there && let Some(set) = call.keyspace.write_as::<VectorSet>(key)? {
        set.set_attribute(element, (!text.is_empty()).then_some(text));
        call.keyspace.finish_change(SILENT, key, 1, false);
    }
    reply_bool(call, is_there);
    Ok(())
}
