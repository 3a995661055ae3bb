//! FUNCTION and FCALL: libraries of functions.

use braid_engine::{Call, CommandError, CommandResult, Flags, Group, Spec};

pub(super) const SUBCOMMANDS: &[Spec] = &[Spec::new("flush", Group::Scripting, flush)
    .at_least(2)
    .flags(Flags::NOSCRIPT.and(Flags::WRITE))
    .docs("7.0.0", "Deletes all function libraries.", "O(N) where N is the number of functions deleted")
    .syntax("[flush-type:(ASYNC|SYNC)]")
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])];

fn flush(call: &mut Call) -> CommandResult {
    let known =
        call.args.len() == 2 || (call.args.len() == 3 && (call.arg_is(2, "sync") || call.arg_is(2, "async")));
    if !known {
        return Err(CommandError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    call.reply.ok();
    Ok(())
}
