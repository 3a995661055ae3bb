// SPDX-License-Identifier: BSD-3-Clause
//! SHUTDOWN.

use braid_executor::{Call, Row};
use braid_node::shutdown::{self, ShutdownOptions};
use braid_spec::{CommandError, CommandResult, Flags, Group};

use super::ADMIN;

pub const SHUTDOWN: Row = Row::new("shutdown", Group::Server, shutdown)
    .at_least(1)
    .flags(ADMIN.and(Flags::NO_MULTI).and(Flags::SENTINEL).and(Flags::ALLOW_BUSY))
    .docs(
        "1.0.0",
        "Stops the server.",
        "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    )
    .history(&[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")])
    .syntax("[save-selector:(NOSAVE|SAVE)] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0] [SAFE] [FAILOVER]");

#[derive(Default, Debug, PartialEq, Eq)]
struct Options {
    save: bool,
    no_save: bool,
    /// Do not wait for replicas.
    now: bool,
    /// Shut down even if saving fails.
    force: bool,
    /// Refuse if this node is a primary that owns slots.
    safe: bool,
    /// Have a replica take over first.
    failover: bool,
    abort: bool,
}

fn options(args: &[&[u8]]) -> Result<Options, CommandError> {
    let mut options = Options::default();
    for arg in args {
        let lower = arg.to_ascii_lowercase();
        match lower.as_slice() {
            b"save" => options.save = true,
            b"nosave" => options.no_save = true,
            b"now" => options.now = true,
            b"force" => options.force = true,
            b"safe" => options.safe = true,
            b"failover" => options.failover = true,
            b"abort" => options.abort = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    let others = [options.save, options.no_save, options.now, options.force, options.safe, options.failover];
    if (options.abort && others.contains(&true)) || (options.save && options.no_save) {
        return Err(CommandError::Syntax);
    }
    Ok(options)
}

fn shutdown(call: &mut Call) -> CommandResult {
    let options = options(&call.args[1..])?;
    if options.abort {
        if shutdown::abort_shutdown(call.engine) {
            log::info!("Shutdown manually aborted.");
            call.reply.ok();
            return Ok(());
        }
        return Err(CommandError::text("ERR No shutdown in progress."));
    }
    if let Some(busy) = call.engine.clients.busy.any_error().filter(|_| !options.no_save) {
        return Err(busy);
    }
    if call.session.execution.deny_blocking && !options.now {
        return Err(CommandError::text(
            "ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client",
        ));
    }
    let save = (options.save || options.no_save).then_some(options.save);
    let Options { now, force, safe, failover, .. } = options;
    shutdown::shut_down_server(call, ShutdownOptions { save, now, force, safe, failover })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        assert_eq!(options(&[]), Ok(Options::default()));
        assert!(
            options(&[b"Save", b"now", b"FORCE"])
                .is_ok_and(|options| options.save && options.now && options.force)
        );
        assert!(options(&[b"failover", b"safe"]).is_ok_and(|options| options.failover && options.safe));
        assert!(options(&[b"abort"]).is_ok_and(|options| options.abort));
        for wrong in [
            &[&b"save"[..], b"nosave"][..],
            &[b"abort", b"failover"],
            &[b"abort", b"now"],
            &[b"abort", b"nosave"],
            &[b"later"],
        ] {
            assert_eq!(options(wrong), Err(CommandError::Syntax));
        }
    }
}
