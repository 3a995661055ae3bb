// SPDX-License-Identifier: BSD-3-Clause
//! FT.PROFILE: a query's reply, and what was measured while it ran.

use braid_executor::Call;
use braid_spec::CommandResult;

use crate::aggregate::aggregate_index;
use crate::arguments::error;
use crate::lookup::{index_for_query, wrong_arity};
use crate::profile::Profiling;
use crate::search::search_index;

/// FT.PROFILE index SEARCH|AGGREGATE [LIMITED] QUERY query ...
pub fn profile(call: &mut Call) -> CommandResult {
    let all = call.args;
    let [_, _, _, rest @ ..] = all else { return Err(wrong_arity(call)) };
    if rest.len() < 2 {
        return Err(wrong_arity(call));
    }
    let (is_search, is_aggregation) = (call.arg_is(2, "SEARCH"), call.arg_is(2, "AGGREGATE"));
    if !is_search && !is_aggregation {
        return Err(error("No `SEARCH` or `AGGREGATE` provided"));
    }
    let is_limited = rest[0].eq_ignore_ascii_case(b"LIMITED");
    let rest = &rest[usize::from(is_limited)..];
    let Some(([word], query)) = rest.split_first_chunk() else { return Err(wrong_arity(call)) };
    if !word.eq_ignore_ascii_case(b"QUERY") {
        return Err(error("The QUERY keyword is expected"));
    }
    let profiling = Profiling::new(is_limited, call.engine.process.follows_redis_8());
    let index = index_for_query(call, 1)?;
    if is_search {
        search_index(call, index, query, Some(profiling))
    } else {
        aggregate_index(call, index, query, Some(profiling))
    }
}
