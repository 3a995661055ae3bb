//! SAVE, BGSAVE and LASTSAVE.

use std::sync::atomic::Ordering::Relaxed;

use braid_engine::{Call, Category, CommandError, CommandResult, Flags, Group, Scope, Spec};

pub const SAVE: Spec = Spec::new("save", Group::Server, save)
    .exactly(1)
    .flags(Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NOSCRIPT).and(Flags::NO_MULTI))
    .scope(Scope::World)
    .docs(
        "1.0.0",
        "Writes all databases to disk; nobody is served meanwhile.",
        "O(N) where N is the total number of keys in all databases",
    );

pub const BGSAVE: Spec = Spec::new("bgsave", Group::Server, bgsave)
    .at_least(1)
    .flags(Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NOSCRIPT))
    .scope(Scope::World)
    .docs("1.0.0", "Writes all databases, as they are now, to disk while the server goes on.", "O(1)")
    .history(&[("3.2.2", "Added the SCHEDULE option.")])
    .syntax("[SCHEDULE@3.2.2]");

pub const LASTSAVE: Spec = Spec::new("lastsave", Group::Server, last_save)
    .exactly(1)
    .flags(Flags::LOADING.and(Flags::STALE).and(Flags::FAST))
    .categories(Category::ADMIN.and(Category::DANGEROUS))
    .docs("1.0.0", "Returns when all databases were last written to disk.", "O(1)")
    .tips(&["nondeterministic_output"]);

fn save(call: &mut Call) -> CommandResult {
    if call.engine.background_save.active.load(Relaxed) {
        return Err(CommandError::text("ERR Background save already in progress"));
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    // Why it failed is in the log.
    call.engine.save(world).map_err(|_| CommandError::text("ERR"))?;
    call.reply.ok();
    Ok(())
}

fn bgsave(call: &mut Call) -> CommandResult {
    if call.args.len() > 1 && !(call.args.len() == 2 && call.arg_is(1, "schedule")) {
        return Err(CommandError::Syntax);
    }
    let state = &call.engine.background_save;
    if state.active.load(Relaxed) {
        return Err(CommandError::text("ERR Background save already in progress"));
    }
    if call.session.deny_blocking {
        // A cut in the middle of a transaction would be no state that anybody may see.
        state.scheduled.store(true, Relaxed);
        call.reply.simple("Background saving scheduled");
        return Ok(());
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    call.engine.save_in_background(world).map_err(|error| {
        log::warn!("Can't save in background: {error}");
        CommandError::text("ERR")
    })?;
    call.reply.simple("Background saving started");
    Ok(())
}

fn last_save(call: &mut Call) -> CommandResult {
    call.reply.integer(call.engine.persistence.last_save_s.load(Relaxed));
    Ok(())
}
