// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG RELOAD and LOADAOF: saves and reloads the dataset, for tests of persistence.

use braid_durable::aof_load;
use braid_durable::saving::{self, Manner};
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};

pub fn reload(call: &mut Call) -> CommandResult {
    let (mut flushes, mut saves, mut merges) = (true, true, false);
    for at in 2..call.args.len() {
        if call.arg_is(at, "merge") {
            merges = true;
        } else if call.arg_is(at, "noflush") {
            flushes = false;
        } else if call.arg_is(at, "nosave") {
            saves = false;
        } else {
            return Err(CommandError::text(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    let keyspace = call.keyspace.keyspace();
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    if saves {
        saving::save(call.engine, world).map_err(|_| CommandError::text("ERR"))?;
    }
    if flushes {
        drop(keyspace.flush(world, None));
        call.engine.scripts.clear_libraries();
    }
    let failed = |reason: String| {
        log::warn!("DEBUG RELOAD failed: {reason}");
        CommandError::text("ERR Error trying to load the RDB dump, check server logs.")
    };
    let manner = if merges { Manner::Merge } else { Manner::Strict };
    match saving::load(call.engine, call.keyspace, manner) {
        Ok(true) => {}
        Ok(false) => return Err(failed("there is no dump file".into())),
        Err(error) => return Err(failed(error.to_string())),
    }
    log::warn!("DB reloaded by DEBUG RELOAD");
    call.reply.ok();
    Ok(())
}

pub fn load_append_only(call: &mut Call) -> CommandResult {
    if call.engine.append_only.awaits_base() {
        return Err(CommandError::text(
            "ERR The append-only file has no base yet: try again once its first rewrite is complete",
        ));
    }
    aof_load::reload_append_only(call.engine, call.keyspace)
        .map_err(|_| CommandError::text("ERR Error trying to load the AOF files, check server logs."))?;
    log::warn!("Append Only File loaded by DEBUG LOADAOF");
    call.reply.ok();
    Ok(())
}
