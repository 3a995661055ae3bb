// SPDX-License-Identifier: BSD-3-Clause
//! Cluster-wide settings, users and functions: the scope CLUSTER of CONFIG SET, ACL SETUSER, ACL
//! DELUSER and FUNCTION LOAD, and CLUSTER SETTINGS.
//!
//! The word is recognized only in a multi-node cluster, where it has no other meaning; elsewhere
//! these commands work as in Redis.

use braid_executor::Call;
use braid_group::cluster::shared::SharedKind;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use super::node_of;
use super::operators::{alone, map_of};
use crate::forwarding;
use crate::group::shared;

/// The arguments before the word CLUSTER, if it ends a request to a multi-node cluster.
pub fn for_cluster<'a, 'b>(call: &Call, words: &'b [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
    let (last, rest) = words.split_last()?;
    (last.eq_ignore_ascii_case(b"cluster") && forwarding::of(call.engine).is_some()).then_some(rest)
}

/// Converts bytes to text, since records are UTF-8.
///
/// # Errors
/// If the bytes are not UTF-8.
pub fn text_of(bytes: &[u8], what: &str) -> Result<String, CommandError> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| CommandError::text(format!("ERR {what} must be UTF-8 to apply to the cluster")))
}

/// Writes values (`None`: deleted) for the whole cluster in the background, and replies once this
/// node has applied them.
///
/// # Errors
/// In a transaction or a script. An error of the background work is the reply.
pub fn share(
    call: &mut Call,
    values: Vec<(SharedKind, String, Option<String>)>,
    answer_with: impl FnOnce(&mut ReplyBuffer) + Send + 'static,
) -> CommandResult {
    must_leave(call)?;
    call.work_in_background(move |engine, answer| match shared::share_with_cluster(engine, &values) {
        Ok(()) => {
            let mut reply = answer.buffer();
            answer_with(&mut reply);
            answer.give(reply);
        }
        Err(error) => answer.give_error(&CommandError::text(error.to_string())),
    })
}

fn must_leave(call: &Call) -> Result<(), CommandError> {
    let record = &call.session.record;
    let name = call.command.full_name.replace('|', " ").to_ascii_uppercase();
    if !call.may_leave(false) {
        let error = format!("ERR {name} for the cluster is not allowed in a transaction or script");
        return Err(CommandError::text(error));
    }
    log::info!("{name} for the cluster (user request from 'id={} addr={}')", record.id, record.address);
    Ok(())
}

pub(super) fn settings(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if map_of(call)?.is_none() {
        return Err(alone(call));
    }
    match call.args.len() {
        2 => list(call),
        5 if call.arg_is(2, "forget") => forget(call),
        5 if call.arg_is(2, "delete") && call.arg_is(3, "library") => delete_library(call),
        _ => Err(CommandError::Syntax),
    }
}

fn list(call: &mut Call) -> CommandResult {
    let reports = shared::shared_reports(call.engine);
    let reply = &mut *call.reply;
    reply.array(reports.len());
    for report in reports {
        reply.map(5);
        reply.bulk(b"kind");
        reply.bulk(report.kind.name().as_bytes());
        reply.bulk(b"name");
        reply.bulk(report.name.as_bytes());
        reply.bulk(b"value");
        match &report.value {
            // Shown as by CONFIG GET and ACL LIST, which admins may also use.
            Some(value) => reply.bulk(value.as_bytes()),
            None => reply.null(),
        }
        reply.bulk(b"revision");
        reply.integer(i64::try_from(report.revision).unwrap_or(i64::MAX));
        reply.bulk(b"error");
        reply.bulk(report.error.as_bytes());
    }
    Ok(())
}

/// Deletes a library on all primaries. (FUNCTION DELETE takes only one argument.)
fn delete_library(call: &mut Call) -> CommandResult {
    let name = text_of(call.args[4], "the library's name")?;
    let is_known = shared::shared_reports(call.engine).iter().any(|report| {
        (report.kind, &*report.name) == (SharedKind::Library, name.as_str()) && report.value.is_some()
    });
    if !is_known {
        return Err(CommandError::text("ERR Library not found"));
    }
    share(call, vec![(SharedKind::Library, name, None)], |reply| reply.ok())
}

fn forget(call: &mut Call) -> CommandResult {
    let kind = std::str::from_utf8(call.args[3]).ok().map(str::to_ascii_lowercase);
    let Some(kind) = kind.and_then(|kind| SharedKind::named(&kind)) else { return Err(CommandError::Syntax) };
    let name = text_of(call.args[4], "the name")?;
    must_leave(call)?;
    call.work_in_background(move |engine, answer| match shared::forget_shared(engine, kind, &name) {
        Ok(was_known) => {
            let mut reply = answer.buffer();
            reply.integer(i64::from(was_known));
            answer.give(reply);
        }
        Err(error) => answer.give_error(&CommandError::text(error.to_string())),
    })
}
