// SPDX-License-Identifier: BSD-3-Clause
//! SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE; BACKUP; WAIT and WAITAOF.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::number;
use braid_executor::durability::{self, AckTarget, NO_FILE};
use braid_executor::{Call, Engine, Row, blocking};
use braid_spec::{Category, CommandError, CommandResult, Flags, Group, Scope};

use crate::append_only::{self, Rewriting};
use crate::{background_save, backup, saving};

/// The rows.
pub const COMMANDS: &[Row] = &[BACKUP, BGREWRITEAOF, BGSAVE, LASTSAVE, SAVE, WAIT, WAITAOF];

const SAVE: Row = Row::new("save", Group::Server, save)
    .exactly(1)
    .flags(Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NOSCRIPT).and(Flags::NO_MULTI))
    .scope(Scope::World)
    .docs(
        "1.0.0",
        "Writes all databases to disk, blocking all clients meanwhile.",
        "O(N) where N is the total number of keys in all databases",
    );

const BGSAVE: Row = Row::new("bgsave", Group::Server, bgsave)
    .at_least(1)
    .flags(Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NOSCRIPT))
    .scope(Scope::World)
    .docs("1.0.0", "Writes a snapshot of all databases to disk in the background.", "O(1)")
    .history(&[("3.2.2", "Added the SCHEDULE option.")])
    .syntax("[SCHEDULE@3.2.2]");

const BGREWRITEAOF: Row = Row::new("bgrewriteaof", Group::Server, bgrewriteaof)
    .exactly(1)
    .flags(Flags::NO_ASYNC_LOADING.and(Flags::ADMIN).and(Flags::NOSCRIPT))
    .docs("1.0.0", "Rewrites the append-only file in the background, to its minimum size.", "O(1)");

const WAIT: Row = Row::new("wait", Group::Generic, wait)
    .exactly(3)
    .ungrouped()
    .flags(Flags::BLOCKING)
    .categories(Category::CONNECTION)
    .docs("3.0.0", "Waits until replicas have all earlier writes of the connection.", "O(1)")
    .syntax("numreplicas:integer timeout:integer")
    .tips(&["request_policy:all_shards", "response_policy:agg_min"]);

const WAITAOF: Row = Row::new("waitaof", Group::Generic, waitaof)
    .exactly(4)
    .ungrouped()
    .flags(Flags::BLOCKING)
    .categories(Category::CONNECTION)
    .docs(
        "7.2.0",
        "Waits until all earlier writes of the connection are in the append-only file on disk, here and on \
         replicas.",
        "O(1)",
    )
    .syntax("numlocal:integer numreplicas:integer timeout:integer")
    .tips(&["request_policy:all_shards", "response_policy:agg_min"]);

const LASTSAVE: Row = Row::new("lastsave", Group::Server, last_save)
    .exactly(1)
    .flags(Flags::LOADING.and(Flags::STALE).and(Flags::FAST))
    .categories(Category::ADMIN.and(Category::DANGEROUS))
    .docs("1.0.0", "Returns the time of the last successful save.", "O(1)")
    .tips(&["nondeterministic_output"]);

const BACKUP: Row = Row::container("backup", Group::Server, BACKUP_SUBCOMMANDS).docs(
    "8.10.0",
    "Groups the commands that make a backup while clients write.",
    "Depends on subcommand.",
);

const BACKUP_CHANGES: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
const BACKUP_SHOWS: Flags = Flags::ADMIN.and(Flags::STALE);

const BACKUP_SUBCOMMANDS: &[Row] = &[
    Row::new("abort", Group::Server, backup_abort).exactly(2).flags(BACKUP_CHANGES).docs(
        "8.10.0",
        "Ends a backup that is not sealed.",
        "O(1)",
    ),
    Row::new("cleanup", Group::Server, backup_cleanup).exactly(2).flags(BACKUP_CHANGES).docs(
        "8.10.0",
        "Removes the files of a backup that is sealed or has failed.",
        "O(1)",
    ),
    Row::new("help", Group::Server, backup_help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "8.10.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    Row::new("list", Group::Server, backup_list).exactly(2).flags(BACKUP_SHOWS).docs(
        "8.10.0",
        "Returns the paths of a backup's complete files.",
        "O(1)",
    ),
    Row::new("seal", Group::Server, backup_seal).exactly(2).flags(BACKUP_CHANGES.and(Flags::NO_MULTI)).docs(
        "8.10.0",
        "Completes a backup with all changes so far.",
        "O(1)",
    ),
    Row::new("start", Group::Server, backup_start).exactly(2).flags(BACKUP_CHANGES).docs(
        "8.10.0",
        "Begins a backup into the folder backupdirname.",
        "O(1)",
    ),
    Row::new("status", Group::Server, backup_status).exactly(2).flags(BACKUP_SHOWS).docs(
        "8.10.0",
        "Returns how far the backup is.",
        "O(1)",
    ),
];

/// Does what may have to wait for the disk in the background, where the client may wait.
fn backup_outcome(call: &mut Call, work: fn(&Engine) -> Result<(), String>) -> CommandResult {
    if call.may_leave(false) {
        return call.work_in_background(move |engine, answer| match work(engine) {
            Ok(()) => answer.give_ok(),
            Err(error) => answer.give_error(&CommandError::text(error)),
        });
    }
    work(call.engine).map_err(CommandError::text)?;
    call.reply.ok();
    Ok(())
}

fn backup_start(call: &mut Call) -> CommandResult {
    backup_outcome(call, backup::start)
}

fn backup_abort(call: &mut Call) -> CommandResult {
    backup_outcome(call, backup::abort)
}

fn backup_cleanup(call: &mut Call) -> CommandResult {
    backup_outcome(call, backup::clean_up)
}

fn backup_seal(call: &mut Call) -> CommandResult {
    if !call.may_leave(false) {
        return Err(CommandError::text("ERR BACKUP SEAL waits for the disk, which a script cannot"));
    }
    backup_outcome(call, backup::seal)
}

fn backup_list(call: &mut Call) -> CommandResult {
    let files = call.engine.persistence.backup.run.lock().files();
    call.reply.array(files.len());
    for path in &files {
        call.reply.bulk(path.as_os_str().as_encoded_bytes());
    }
    Ok(())
}

fn backup_status(call: &mut Call) -> CommandResult {
    let run = call.engine.persistence.backup.run.lock();
    let (start, end) = (run.start_s.to_string(), run.end_s.to_string());
    call.reply.map(4);
    let fields =
        [("state", run.phase.name()), ("error", &*run.error), ("start_time", &*start), ("end_time", &*end)];
    for (name, value) in fields {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn backup_help(call: &mut Call) -> CommandResult {
    call.help(&[
        "ABORT",
        "    End a backup that is not sealed.",
        "CLEANUP",
        "    Remove the files of a backup that is sealed or has failed.",
        "LIST",
        "    Return the paths of the complete files.",
        "SEAL",
        "    Complete the backup with all changes so far.",
        "START",
        "    Begin a backup into the folder backupdirname.",
        "STATUS",
        "    Return how far the backup is.",
    ])
}

fn save(call: &mut Call) -> CommandResult {
    if background_save::is_saving(call.engine) {
        return Err(CommandError::text("ERR Background save already in progress"));
    }
    // A rewrite in progress may continue: the world is stopped, and it writes another file.
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    // The cause of a failure is in the log.
    saving::save(call.engine, world).map_err(|_| CommandError::text("ERR"))?;
    call.reply.ok();
    Ok(())
}

fn bgsave(call: &mut Call) -> CommandResult {
    if call.args.len() > 1 && !(call.args.len() == 2 && call.arg_is(1, "schedule")) {
        return Err(CommandError::Syntax);
    }
    let state = &call.engine.background_save;
    if background_save::is_saving(call.engine) {
        return Err(CommandError::text("ERR Background save already in progress"));
    }
    if call.engine.append_only.rewriting.load(Relaxed) {
        if call.args.len() > 1 || call.session.execution.deny_blocking {
            state.scheduled.store(true, Relaxed);
            call.reply.simple("Background saving scheduled");
            return Ok(());
        }
        return Err(CommandError::text(
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a \
             BGSAVE whenever possible.",
        ));
    }
    if call.session.execution.deny_blocking {
        // A cut in the middle of a transaction would save a state that no client may see.
        state.scheduled.store(true, Relaxed);
        call.reply.simple("Background saving scheduled");
        return Ok(());
    }
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    background_save::save_in_background(call.engine, world).map_err(|error| {
        log::warn!("Can't save in background: {error}");
        CommandError::text("ERR")
    })?;
    call.reply.simple("Background saving started");
    Ok(())
}

fn bgrewriteaof(call: &mut Call) -> CommandResult {
    match append_only::rewrite_append_only(call.engine, call.session.execution.deny_blocking) {
        None => {
            return Err(CommandError::text("ERR Background append only file rewriting already in progress"));
        }
        Some(Rewriting::Begun) => call.reply.simple("Background append only file rewriting started"),
        Some(Rewriting::Scheduled) => call.reply.simple("Background append only file rewriting scheduled"),
    }
    Ok(())
}

/// Parses a relative time in ms as a deadline (ms since the Unix epoch; 0 = none).
fn deadline_arg(call: &Call, index: usize) -> Result<i64, CommandError> {
    let timeout = number::parse_i64(call.args[index])
        .ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    blocking::deadline(Some(timeout), call.clock_ms())
}

fn wait(call: &mut Call) -> CommandResult {
    if call.engine.replication.link.is_replica() {
        return Err(CommandError::text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured \
             to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let replicas = call.integer_arg(1)?;
    let deadline = deadline_arg(call, 2)?;
    durability::wait_for_acknowledgements(call, AckTarget::Replicas(replicas), deadline)
}

fn waitaof(call: &mut Call) -> CommandResult {
    if call.engine.replication.link.is_replica() {
        return Err(CommandError::text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
             not propagated.",
        ));
    }
    let local = call.integer_arg(1)?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::text("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = number::parse_i64(call.args[2])
        .filter(|&replicas| replicas >= 0)
        .ok_or(CommandError::text("ERR value is out of range, must be positive"))?;
    let deadline = deadline_arg(call, 3)?;
    if local > 0 && !call.engine.append_only.on.load(Relaxed) {
        return Err(CommandError::text(NO_FILE));
    }
    durability::wait_for_acknowledgements(call, AckTarget::Files { own: local > 0, replicas }, deadline)
}

fn last_save(call: &mut Call) -> CommandResult {
    call.reply.integer(call.engine.persistence.last_save_s.load(Relaxed));
    Ok(())
}
