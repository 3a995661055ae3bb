// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG IN-SYNC and SERVE-UNTIL: let a test play the group's part.

use braid_base::clock::boot_nanos;
use braid_base::number;
use braid_executor::Call;
use braid_group::MemberId;
use braid_replica::sync_writes;
use braid_spec::{CommandError, CommandResult};

/// DEBUG IN-SYNC epoch size [node/run ...], or OFF: makes this server the primary of a group with
/// this in-sync set, or ends that role. Without arguments it lists the slow members.
pub(super) fn in_sync(call: &mut Call) -> CommandResult {
    let in_sync = &call.engine.replication.in_sync;
    if call.args.len() == 2 {
        let slow = sync_writes::slow_members(call.engine, boot_nanos());
        call.reply.array(slow.len());
        slow.iter().for_each(|member| call.reply.bulk(member.to_string().as_bytes()));
        return Ok(());
    }
    if call.args.len() == 3 && call.arg_is(2, "off") {
        in_sync.clear();
        call.reply.ok();
        return Ok(());
    }
    if call.args.len() < 4 {
        return Err(call.unknown_subcommand());
    }
    let positive = |at: usize| {
        let number = number::parse_i64(call.args[at]).filter(|&number| number > 0);
        number.and_then(|number| u64::try_from(number).ok()).ok_or(CommandError::NotAnInteger)
    };
    let (epoch, size) = (positive(2)?, positive(3)?);
    let members: Result<Vec<MemberId>, _> =
        call.args[4..].iter().map(|name| String::from_utf8_lossy(name).parse()).collect();
    let members = members.map_err(|error| CommandError::text(format!("ERR {error}")))?;
    sync_writes::debug_sync_writes(call.engine);
    in_sync.begin(call.engine.keyspace.journal.end(), false);
    in_sync.set(epoch, members, usize::try_from(size).unwrap_or(usize::MAX));
    call.reply.ok();
    Ok(())
}

/// DEBUG SERVE-UNTIL milliseconds-from-now, or `never`, or `always`.
pub(super) fn serve_until(call: &mut Call) -> CommandResult {
    let until = if call.arg_is(2, "never") {
        0
    } else if call.arg_is(2, "always") {
        u64::MAX
    } else {
        let milliseconds = number::parse_i64(call.args[2]).and_then(|number| u64::try_from(number).ok());
        let milliseconds = milliseconds.ok_or(CommandError::NotAnInteger)?;
        boot_nanos().saturating_add(milliseconds.saturating_mul(1_000_000))
    };
    call.engine.replication.in_sync.set_serve_until(until);
    call.reply.ok();
    Ok(())
}
