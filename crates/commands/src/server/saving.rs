//! SAVE and LASTSAVE.

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

pub const LASTSAVE: Spec = Spec::new("lastsave", Group::Server, last_save)
    .exactly(1)
    .flags(Flags::LOADING.and(Flags::STALE).and(Flags::FAST))
    .categories(Category::ADMIN.and(Category::DANGEROUS))
    .docs("1.0.0", "Returns when all databases were last written to disk.", "O(1)")
    .tips(&["nondeterministic_output"]);

fn save(call: &mut Call) -> CommandResult {
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    // Why it failed is in the log.
    call.engine.save(world).map_err(|_| CommandError::text("ERR"))?;
    call.reply.ok();
    Ok(())
}

fn last_save(call: &mut Call) -> CommandResult {
    call.reply.integer(call.engine.persistence.last_save_s.load(Relaxed));
    Ok(())
}
