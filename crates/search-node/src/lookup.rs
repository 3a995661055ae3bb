// SPDX-License-Identifier: BSD-3-Clause
//! The service and its indexes, for commands: who may use them, and what the others are told.

use std::sync::Arc;

use braid_executor::Call;
use braid_spec::CommandError;

use crate::arguments::{error, lossy};
use crate::index::SearchIndex;
use crate::service::{self, Service};

/// The error for a wrong number of arguments, with the command's name in upper case.
pub fn wrong_arity(call: &Call<'_, '_>) -> CommandError {
    CommandError::WrongArity(call.command.full_name.to_ascii_uppercase().into())
}

/// The service, where search is possible.
///
/// # Errors
/// In cluster mode.
pub fn service<'e>(call: &Call<'e, '_>) -> Result<&'e Service, CommandError> {
    if call.engine.cluster.is_some() {
        return Err(error("ERR search is not supported in cluster mode"));
    }
    service::of(&call.engine.keyspace).ok_or_else(|| error("ERR search is not available"))
}

/// An index by name or alias.
///
/// # Errors
/// If there is none: `missing`.
pub fn find(call: &Call<'_, '_>, at: usize, missing: &str) -> Result<Arc<SearchIndex>, CommandError> {
    let name = call.args.get(at).ok_or_else(|| wrong_arity(call))?;
    let found = service(call)?.registry.read().find(name).cloned();
    found.ok_or_else(|| error(missing))
}

/// The index of a query: changes of the transaction so far are in it, and the client may read its
/// documents.
///
/// # Errors
/// If there is none, or the client may not.
pub fn index_for_query(call: &mut Call<'_, '_>, at: usize) -> Result<Arc<SearchIndex>, CommandError> {
    call.keyspace.index_now();
    let name = lossy(call.args.get(at).ok_or_else(|| wrong_arity(call))?);
    let index = find(call, at, &format!("{name}: no such index"))?;
    check_rights(call, &index)?;
    Ok(index)
}

/// Whether the client may use all keys that may be documents of the index, by its command.
///
/// # Errors
/// If it may not.
pub fn check_rights(call: &Call<'_, '_>, index: &SearchIndex) -> Result<(), CommandError> {
    let user = &call.session.login.user;
    if user.is_unrestricted() {
        return Ok(());
    }
    let definition = index.definition();
    if definition.prefixes.iter().all(|prefix| user.may_use_prefix(call.command, prefix)) {
        return Ok(());
    }
    Err(error("NOPERM User does not have the required permissions to query the index"))
}
