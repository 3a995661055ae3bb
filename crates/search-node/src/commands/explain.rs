// SPDX-License-Identifier: BSD-3-Clause
//! FT.EXPLAIN and FT.EXPLAINCLI: what a query is understood as.

use std::sync::Arc;

use braid_executor::Call;
use braid_search::execute::explain;
use braid_spec::{CommandError, CommandResult};

use crate::lookup::{index_for_query, wrong_arity};
use crate::request::SearchRequest;

/// FT.EXPLAIN
pub fn explained(call: &mut Call) -> CommandResult {
    let tree = tree(call)?;
    call.reply.bulk(tree.as_bytes());
    Ok(())
}

/// FT.EXPLAINCLI: a line each.
pub fn explained_lines(call: &mut Call) -> CommandResult {
    let tree = tree(call)?;
    let lines = tree.split('\n');
    call.reply.array(lines.clone().count());
    lines.for_each(|line| call.reply.simple(line));
    Ok(())
}

fn tree(call: &mut Call) -> Result<String, CommandError> {
    if call.args.len() < 3 {
        return Err(wrong_arity(call));
    }
    let index = index_for_query(call, 1)?;
    let (definition, synonyms) = (index.definition(), Arc::clone(&index.synonyms.read()));
    let protocol = call.reply.protocol;
    let request = SearchRequest::parse(index, &call.args[2..], &call.engine.config, protocol)?;
    let language = request.common.language.unwrap_or(definition.language);
    Ok(explain(&request.query, &definition.schema, language, &synonyms))
}
