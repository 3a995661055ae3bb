// SPDX-License-Identifier: BSD-3-Clause
//! Commands on keys of any type, and on whole databases.
//!
//! Flow: the dispatcher holds the locks of the named keys (FLUSHDB, FLUSHALL and SWAPDB: of
//! everything; KEYS: all shards, shared). KEYS of a large database and the freeing that FLUSHALL
//! and FLUSHDB wait for run on background threads. DBSIZE and RANDOMKEY walk the shards
//! themselves, one lock at a time.
//!
//! Expired keys are never visible here, whether or not they have been removed yet.

use braid_base::{glob, number};
use braid_durable::background_save;
use braid_executor::background::Answer;
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Entry, Keyspace, Txn, eviction, scan};
use braid_spec::{
    Behavior, Category, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec, Scope, UsedDatabases,
};
use braid_types::collection::MANY_MEMBERS;
use braid_values::sorted_set::SortedSet;

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO)];
const READ_SECOND: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RO)];
const READ_ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::RO)];
const DELETE_ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::RM.and(KeyFlags::DELETE))];
const MOVED: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS);
const SUM_OF_SHARDS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const ON_ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const DATABASE_WIDE: Category = Category::KEYSPACE.and(Category::DANGEROUS);
const FLUSH_HISTORY: &[(&str, &str)] = &[
    ("4.0.0", "New modifier `ASYNC`."),
    ("6.2.0", "New modifier `SYNC`, which overrides `ASYNC` as the configured default."),
];

/// Rows of the key commands.
pub const COMMANDS: &[Row] = &[
    Row::new("copy", Group::Generic, copy)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[
            KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS)),
            KeySpec::at(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .docs(
            "6.2.0",
            "Copies a key's value to another key.",
            "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        )
        .databases(UsedDatabases::Named(copy_databases))
        .syntax("source:key#0 destination:key#1 [DB destination-db:integer] [REPLACE]"),
    Row::new("dbsize", Group::Server, dbsize)
        .exactly(1)
        .flags(Flags::READONLY.and(Flags::FAST))
        .categories(Category::KEYSPACE)
        .scope(Scope::AllKeys)
        .docs("1.0.0", "Counts the keys of the selected database.", "O(1)")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
    Row::new("del", Group::Generic, delete)
        .at_least(2)
        .flags(Flags::WRITE)
        .keys(DELETE_ALL)
        .docs(
            "1.0.0",
            "Removes keys.",
            "O(N) where N is the number of keys that will be removed. When a key to remove holds a value \
             other than a string, the individual complexity for this key is O(M) where M is the number of \
             elements in the list, set, sorted set or hash. Removing a single key that holds a string value \
             is O(1).",
        )
        .syntax("key:key#0...")
        .tips(SUM_OF_SHARDS),
    Row::new("exists", Group::Generic, exists)
        .at_least(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ_ALL)
        .docs(
            "1.0.0",
            "Counts how many of the given keys exist.",
            "O(N) where N is the number of keys to check.",
        )
        .syntax("key:key#0...")
        .history(&[("3.0.3", "Accepts several keys.")])
        .tips(SUM_OF_SHARDS),
    Row::new("flushall", Group::Server, flushall)
        .at_least(1)
        .databases(UsedDatabases::All)
        .flags(Flags::WRITE)
        .categories(DATABASE_WIDE)
        .scope(Scope::World)
        .docs(
            "1.0.0",
            "Removes the keys of all databases.",
            "O(N) where N is the total number of keys in all databases",
        )
        .syntax("[flush-type:(ASYNC@4.0.0|SYNC@6.2.0)]")
        .history(FLUSH_HISTORY)
        .tips(ON_ALL_SHARDS),
    Row::new("flushdb", Group::Server, flushdb)
        .at_least(1)
        .flags(Flags::WRITE)
        .categories(DATABASE_WIDE)
        .scope(Scope::World)
        .docs(
            "1.0.0",
            "Removes the keys of the selected database.",
            "O(N) where N is the number of keys in the selected database",
        )
        .syntax("[flush-type:(ASYNC@4.0.0|SYNC@6.2.0)]")
        .history(FLUSH_HISTORY)
        .tips(ON_ALL_SHARDS),
    Row::new("keys", Group::Generic, keys)
        .exactly(2)
        .flags(Flags::READONLY)
        .categories(Category::DANGEROUS)
        .scope(Scope::AllKeys)
        .docs(
            "1.0.0",
            "Lists the keys whose names match a pattern.",
            "O(N) with N being the number of keys in the database, under the assumption that the key names \
             in the database and the given pattern have limited length.",
        )
        .syntax("pattern:pattern")
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    Row::new("move", Group::Generic, move_key)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, MOVED.and(KeyFlags::UPDATE))])
        .docs("1.0.0", "Moves a key to another database.", "O(1)")
        .databases(UsedDatabases::Named(|_| vec![2]))
        .syntax("key:key#0 db:integer [REPLACE@9.2.0]")
        .history(&[("9.2.0", "New modifier `REPLACE`.")]),
    Row::container("object", Group::Generic, OBJECT).docs(
        "2.2.3",
        "Groups commands that inspect how a value is stored.",
        "Depends on subcommand.",
    ),
    Row::new("randomkey", Group::Generic, randomkey)
        .exactly(1)
        .flags(Flags::READONLY)
        .scope(Scope::Walk)
        .docs("1.0.0", "Returns the name of a random key of the selected database.", "O(1)")
        .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"]),
    Row::new("rename", Group::Generic, rename)
        .exactly(3)
        .flags(Flags::WRITE)
        .keys(&[
            KeySpec::at(1, MOVED.and(KeyFlags::DELETE)),
            KeySpec::at(2, KeyFlags::OW.and(KeyFlags::UPDATE)),
        ])
        .docs("1.0.0", "Renames a key, replacing an existing key of the new name.", "O(1)")
        .syntax("key:key#0 newkey:key#1"),
    Row::new("renamenx", Group::Generic, renamenx)
        .exactly(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[
            KeySpec::at(1, MOVED.and(KeyFlags::DELETE)),
            KeySpec::at(2, KeyFlags::OW.and(KeyFlags::INSERT)),
        ])
        .docs("1.0.0", "Renames a key, unless the new name exists.", "O(1)")
        .syntax("key:key#0 newkey:key#1")
        .history(&[("3.2.0", "Equal names are no longer an error.")]),
    Row::new("swapdb", Group::Server, swapdb)
        .exactly(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .categories(DATABASE_WIDE)
        .scope(Scope::World)
        .docs(
            "4.0.0",
            "Swaps the contents of two databases.",
            "O(N) where N is the count of clients watching or blocking on keys from both databases.",
        )
        .databases(UsedDatabases::Named(|_| vec![1, 2]))
        .syntax("index1:integer index2:integer"),
    Row::new("touch", Group::Generic, touch)
        .behavior(Behavior::TOUCHES_ALWAYS)
        .at_least(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ_ALL)
        .docs(
            "3.2.1",
            "Updates the access time of keys and counts those that exist.",
            "O(N) where N is the number of keys that will be touched.",
        )
        .syntax("key:key#0...")
        .tips(SUM_OF_SHARDS),
    Row::new("type", Group::Generic, type_name)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ_ONE)
        .docs("1.0.0", "Returns the type of the value at a key.", "O(1)")
        .syntax("key:key#0"),
    Row::new("unlink", Group::Generic, delete)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(DELETE_ALL)
        .docs(
            "4.0.0",
            "Removes keys and frees their memory in the background.",
            "O(1) for each key removed regardless of its size. Then the command does O(N) work in a \
             different thread in order to reclaim memory, where N is the number of allocations the deleted \
             objects where composed of.",
        )
        .syntax("key:key#0...")
        .tips(SUM_OF_SHARDS),
];

const OBJECT: &[Row] = &[
    object("encoding", object_encoding).docs("2.2.3", "Returns the encoding of a key's value.", "O(1)"),
    object("freq", object_freq).docs(
        "4.0.0",
        "Returns how often a key is used, on a logarithmic scale.",
        "O(1)",
    ),
    Row::new("help", Group::Generic, object_help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "6.2.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    object("idletime", object_idletime).docs(
        "2.2.3",
        "Returns the seconds since a key was last used.",
        "O(1)",
    ),
    object("refcount", object_refcount).docs(
        "2.2.3",
        "Returns the number of references to a key's value.",
        "O(1)",
    ),
];

const fn object(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Generic, handler)
        .exactly(3)
        .flags(Flags::READONLY)
        .keys(READ_SECOND)
        .syntax("key:key#0")
        .tips(&["nondeterministic_output"])
}

/// The entry of a key: counts as a lookup, but does not mark the key as used.
pub(crate) fn look<'k>(keyspace: &'k Txn<'_>, key: &[u8]) -> Option<Entry<'k>> {
    let found = inspect(keyspace, key);
    if found.is_none() {
        keyspace.note_miss(key);
    }
    found
}

/// [`look`] without a keymiss event for a missing key.
fn inspect<'k>(keyspace: &'k Txn<'_>, key: &[u8]) -> Option<Entry<'k>> {
    let found = keyspace.look_at(key);
    let counters = &keyspace.context.counters;
    if found.is_some() {
        counters.hits.add(1)
    } else {
        counters.misses.add(1);
    }
    found
}

/// Parses an argument as a 32-bit integer.
pub(crate) fn small_integer_arg(call: &Call, index: usize) -> Result<i32, CommandError> {
    i32::try_from(call.integer_arg(index)?).map_err(|_| {
        let (least, most) = (i32::MIN, i32::MAX);
        CommandError::text(format!("ERR value is out of range, value must between {least} and {most}"))
    })
}

/// True in cluster mode with a single database, where Redis refuses commands that select another.
pub(crate) fn has_one_database_of_cluster(call: &Call) -> bool {
    call.engine.cluster.is_some() && call.engine.keyspace.databases() == 1
}

/// Validates a number as a database index.
pub(crate) fn database(call: &Call, number: i32) -> Result<u32, CommandError> {
    u32::try_from(number)
        .ok()
        .filter(|&db| db < call.engine.keyspace.databases())
        .ok_or(CommandError::text("ERR DB index is out of range"))
}

fn same_object() -> CommandError {
    CommandError::text("ERR source and destination objects are the same")
}

fn delete(call: &mut Call) -> CommandResult {
    let mut deleted = 0;
    for key in &call.args[1..] {
        deleted += i64::from(call.keyspace.delete(key));
    }
    call.reply.integer(deleted);
    Ok(())
}

fn exists(call: &mut Call) -> CommandResult {
    let found = call.args[1..].iter().filter(|key| look(call.keyspace, key).is_some()).count();
    call.reply.integer(found as i64);
    Ok(())
}

fn touch(call: &mut Call) -> CommandResult {
    let found = call.args[1..].iter().filter(|key| call.keyspace.read(key).is_some()).count();
    call.reply.integer(found as i64);
    Ok(())
}

fn type_name(call: &mut Call) -> CommandResult {
    let name = look(call.keyspace, call.args[1]).map_or("none", |entry| entry.value_type().name());
    call.reply.simple(name);
    Ok(())
}

/// Renames a key; `None` if the new name is taken and `replace` is false. Equal names count as
/// taken.
fn rename_to(call: &mut Call, replace: bool) -> Result<Option<()>, CommandError> {
    let (from, to) = (call.args[1], call.args[2]);
    if call.keyspace.write(from).is_none() {
        return Err(CommandError::NoSuchKey);
    }
    if from == to {
        return Ok(replace.then_some(()));
    }
    if !replace && call.keyspace.look_at(to).is_some() {
        return Ok(None);
    }
    let db = call.keyspace.db();
    call.keyspace.rename(from, db, to);
    Ok(Some(()))
}

fn rename(call: &mut Call) -> CommandResult {
    rename_to(call, true)?;
    call.reply.ok();
    Ok(())
}

fn renamenx(call: &mut Call) -> CommandResult {
    let renamed = rename_to(call, false)?.is_some();
    call.reply.integer(i64::from(renamed));
    Ok(())
}

/// True if a key exists in another database. The key must be in the lock set, which covers all
/// databases.
fn is_in(call: &mut Call, db: u32, key: &[u8]) -> bool {
    let own = call.keyspace.db();
    call.keyspace.set_db(db);
    let found = call.keyspace.peek(key).is_some();
    call.keyspace.set_db(own);
    found
}

fn move_key(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    if has_one_database_of_cluster(call) {
        return Err(CommandError::text("ERR MOVE is not allowed in cluster mode"));
    }
    let replaces = match call.args.len() {
        3 => false,
        4 if call.arg_is(3, "replace") => true,
        _ => return Err(CommandError::Syntax),
    };
    let number = small_integer_arg(call, 2)?;
    let (own, target) = (call.keyspace.db(), database(call, number)?);
    if target == own {
        return Err(same_object());
    }
    let exists = is_in(call, target, key);
    let moved = (replaces || !exists) && call.keyspace.rename(key, target, key);
    if moved && replaces {
        // Servers without REPLACE repeat this as well.
        if exists {
            call.keyspace.set_db(target);
            call.keyspace.journal_as(&[b"DEL", key]);
            call.keyspace.set_db(own);
        }
        call.keyspace.journal_as(&[b"MOVE", key, call.args[2]]);
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}

/// The arguments of COPY that name databases; none if its syntax is wrong.
fn copy_databases(args: &[&[u8]]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 3);
    while at < args.len() {
        if args[at].eq_ignore_ascii_case(b"db") && at + 1 < args.len() {
            at += 1;
            found.push(at);
        } else if !args[at].eq_ignore_ascii_case(b"replace") {
            return Vec::new();
        }
        at += 1;
    }
    found
}

fn copy(call: &mut Call) -> CommandResult {
    let (from, to) = (call.args[1], call.args[2]);
    let (mut target, mut replace) = (call.keyspace.db(), false);
    let mut at = 3;
    while at < call.args.len() {
        if call.arg_is(at, "replace") {
            replace = true;
        } else if call.arg_is(at, "db") && at + 1 < call.args.len() {
            at += 1;
            let number = small_integer_arg(call, at)?;
            target = database(call, number)?;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if target == call.keyspace.db() && from == to {
        return Err(same_object());
    }
    if !replace && is_in(call, target, to) {
        // The source counts as read all the same.
        call.keyspace.read(from);
        call.reply.integer(0);
        return Ok(());
    }
    let copy = call.take_precomputed::<SortedSet>().transpose()?;
    if copy.is_none() && is_long_to_copy(call, from) && call.may_precompute() {
        return call.precompute(&[from], |shared, _| {
            let set = shared[0].object()?.get::<SortedSet>()?;
            Some(Ok(set.clone()))
        });
    }
    let copied = call.keyspace.copy_with(from, target, to, copy.map(Object::new));
    call.reply.integer(i64::from(copied));
    Ok(())
}

/// True if a key's value is copied in the background. Members of a sorted set are copied one by
/// one, other collections by the block.
fn is_long_to_copy(call: &Call, key: &[u8]) -> bool {
    let set = call.keyspace.peek_as::<SortedSet>(key);
    matches!(set, Ok(Some(set)) if set.len() >= MANY_MEMBERS)
}

fn swapdb(call: &mut Call) -> CommandResult {
    if call.engine.cluster.is_some() {
        return Err(CommandError::text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let index_arg = |index: usize| number::parse_i64(call.args[index]).and_then(|db| i32::try_from(db).ok());
    let one = index_arg(1).ok_or(CommandError::text("ERR invalid first DB index"))?;
    let other = index_arg(2).ok_or(CommandError::text("ERR invalid second DB index"))?;
    let (one, other) = (database(call, one)?, database(call, other)?);
    if one != other {
        call.keyspace.swap_databases(one, other);
    }
    call.keyspace.context.counters.dirty.add(1);
    call.reply.ok();
    Ok(())
}

fn flushdb(call: &mut Call) -> CommandResult {
    let db = call.keyspace.db();
    flush(call, Some(db))
}

fn flushall(call: &mut Call) -> CommandResult {
    flush(call, None)
}

fn flush(call: &mut Call, db: Option<u32>) -> CommandResult {
    let background = match call.args.len() {
        1 => call.engine.config.lazyfree_lazy_user_flush(),
        2 if call.arg_is(1, "async") => true,
        2 if call.arg_is(1, "sync") => false,
        _ => return Err(CommandError::Syntax),
    };
    let keyspace = call.keyspace.keyspace();
    let world = call.keyspace.stopped_world().expect("the command's scope is the world");
    let removed = keyspace.flush(world, db);
    // Before the save: changes that the file contains do not count as unsaved.
    call.keyspace.context.counters.dirty.add(removed.keys as u64);
    if db.is_none() {
        background_save::save_after_flush(call.engine, world);
    }
    call.keyspace.databases_changed(|changed| db.is_none_or(|db| db == changed));
    call.engine.trackers.flushed(&call.engine.keyspace, call.keyspace.context.slot);
    // Even if nothing existed here: a replica may have keys.
    let args = call.args;
    call.keyspace.journal_as(args);
    if removed.is_large() {
        let queue = &keyspace.lazy_free;
        if background {
            removed.free_in_background(queue, None);
        } else if call.may_leave(false) {
            // The world resumes; only the client waits.
            if let Some(answer) = call.leave_to_background()? {
                removed.free_in_background(queue, Some(Box::new(|| answer.give_ok())));
            }
            return Ok(());
        }
    }
    call.reply.ok();
    Ok(())
}

fn dbsize(call: &mut Call) -> CommandResult {
    let (count, _) = call.keyspace.keyspace().visible_len(call.keyspace.db());
    call.reply.integer(count as i64);
    Ok(())
}

fn randomkey(call: &mut Call) -> CommandResult {
    crate::scan::check_may_walk(call)?;
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let mut expired = Vec::new();
    match scan::random_key(keyspace, call.keyspace.context, db, now, &mut expired) {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    crate::scan::expire_found(call, &expired);
    Ok(())
}

/// From this many keys in the database on, KEYS walks the shards in the background.
const MANY_KEYS: usize = 50_000;

/// In a small database, and within a transaction or script, the reply has the keys of a single
/// moment. In a large one it has each key that exists throughout exactly once; keys added or
/// removed in the meantime may or may not be in it.
fn keys(call: &mut Call) -> CommandResult {
    let db = call.keyspace.db();
    if call.keyspace.keyspace().len(db).0 >= MANY_KEYS && call.may_leave(true) {
        let pattern = call.args[1].to_vec();
        return call
            .work_in_background(move |engine, answer| walk_keys(&engine.keyspace, answer, db, &pattern));
    }
    let pattern = call.args[1];
    let everything = pattern == b"*";
    let (keyspace, reply) = (&*call.keyspace, &mut *call.reply);
    let header = reply.begin_array();
    let mut count = 0;
    keyspace.for_each(|entry| {
        let key = entry.key();
        if !reply.is_full() && (everything || glob::matches(pattern, key, false)) {
            reply.bulk(key);
            count += 1;
        }
    });
    reply.end_array(header, count);
    Ok(())
}

/// Answers KEYS in the background: shard by shard, each as of a single moment.
fn walk_keys(keyspace: &Keyspace, answer: Answer, db: u32, pattern: &[u8]) {
    let everything = pattern == b"*";
    let (keyspace, reader) = (keyspace, keyspace.reader());
    let mut reply = answer.buffer();
    let header = reply.begin_array();
    let mut count = 0;
    for shard in 0..keyspace.shard_count() as u32 {
        if !answer.is_wanted() || reply.is_full() {
            break;
        }
        reader.visit_shard(shard, db, braid_base::clock::unix_ms(), |entry| {
            let key = entry.key();
            if everything || glob::matches(pattern, key, false) {
                reply.bulk(key);
                count += 1;
            }
        });
    }
    reply.end_array(header, count);
    answer.give(reply);
}

fn object_encoding(call: &mut Call) -> CommandResult {
    match inspect(call.keyspace, call.args[2]) {
        Some(entry) => call.reply.bulk(entry.encoding_name().as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

/// Values are never shared between keys, so each has a single reference, its key's.
fn object_refcount(call: &mut Call) -> CommandResult {
    /// Clients know small integers as shared objects with this count. With an access clock per
    /// key, stock servers do not share them.
    const SHARED: i64 = i32::MAX as i64;
    let config = &call.engine.config;
    let policy = call.keyspace.keyspace().settings.policy();
    let shares = config.maxmemory() == 0 || !(policy.is_lru() || policy.is_lfu());
    match inspect(call.keyspace, call.args[2]) {
        Some(entry) if shares && entry.integer().is_some_and(|number| (0..10_000).contains(&number)) => {
            call.reply.integer(SHARED);
        }
        Some(_) => call.reply.integer(1),
        None => call.reply.null(),
    }
    Ok(())
}

fn object_idletime(call: &mut Call) -> CommandResult {
    let Some(entry) = inspect(call.keyspace, call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    let keyspace = call.keyspace.keyspace();
    if keyspace.settings.policy().is_lfu() {
        return Err(CommandError::text(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
             between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    call.reply.integer(i64::from(eviction::idle_seconds(keyspace, entry.clock())));
    Ok(())
}

fn object_freq(call: &mut Call) -> CommandResult {
    let Some(entry) = inspect(call.keyspace, call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    let keyspace = call.keyspace.keyspace();
    if !keyspace.settings.policy().is_lfu() {
        return Err(CommandError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    call.reply.integer(i64::from(eviction::lfu_counter(keyspace, entry.clock())));
    Ok(())
}

fn object_help(call: &mut Call) -> CommandResult {
    call.help(&[
        "ENCODING <key>",
        "    Return the encoding of the value of <key>.",
        "FREQ <key>",
        "    How often <key> is used: a counter that grows with the logarithm of the",
        "    number of uses and decays with time. Needs an LFU maxmemory-policy.",
        "IDLETIME <key>",
        "    Seconds since <key> was last used. Not with an LFU maxmemory-policy.",
        "REFCOUNT <key>",
        "    Number of references to the value of <key>.",
    ])
}

#[cfg(test)]
mod tests;
