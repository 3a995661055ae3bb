// SPDX-License-Identifier: BSD-3-Clause
//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.
//!
//! The dispatcher queues commands and runs EXEC (the engine's `dispatch/transaction.rs`); here are
//! the rows and the bodies that start or discard a transaction. Watches lock their keys
//! exclusively, because they change the watch lists of the keys' shards although they only read
//! the keys.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::LOADING;
use braid_clients::client_flags;
use braid_executor::locks::{LockSet, lock};
use braid_executor::session::Watched;
use braid_executor::{Call, Row, dispatch};
use braid_keyspace::KeyRef;
use braid_keyspace::txn::{self, NOTHING_EXPIRED};
use braid_spec::{Behavior, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec, Scope};
use smallvec::SmallVec;

const ANY_TIME: Flags = Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE);
const QUICK: Flags = ANY_TIME.and(Flags::FAST).and(Flags::ALLOW_BUSY);

/// Rows of the transaction commands.
pub const COMMANDS: &[Row] = &[
    Row::new("discard", Group::Transactions, discard)
        .behavior(Behavior::NEVER_QUEUED.and(Behavior::REPLAY_DROPS_TRANSACTION).and(Behavior::DROPS_WATCHES))
        .exactly(1)
        .flags(QUICK)
        .scope(Scope::Walk)
        .docs(
            "2.0.0",
            "Cancels a transaction and drops its queued commands.",
            "O(N), when N is the number of queued commands",
        ),
    Row::new("exec", Group::Transactions, exec_without_multi)
        .behavior(Behavior::EXECUTES_QUEUE.and(Behavior::NEVER_QUEUED))
        .exactly(1)
        .flags(ANY_TIME.and(Flags::SKIP_SLOWLOG))
        .docs(
            "1.2.0",
            "Runs the commands of a transaction atomically.",
            "Depends on commands in the transaction",
        ),
    Row::new("multi", Group::Transactions, multi)
        .behavior(Behavior::NEVER_QUEUED.and(Behavior::REPLAY_OPENS_TRANSACTION))
        .exactly(1)
        .flags(QUICK)
        .docs("1.2.0", "Starts a transaction: further commands are queued.", "O(1)"),
    Row::new("unwatch", Group::Transactions, unwatch)
        .behavior(Behavior::CHANGES_WATCHES)
        .exactly(1)
        .flags(QUICK)
        .scope(Scope::Walk)
        .docs("2.2.0", "Forgets all watched keys.", "O(1)"),
    Row::new("watch", Group::Transactions, watch)
        .behavior(Behavior::NEVER_QUEUED.and(Behavior::CHANGES_WATCHES))
        .at_least(2)
        .flags(QUICK)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .scope(Scope::Walk)
        .docs(
            "2.2.0",
            "Lets the next transaction run only if these keys have not changed.",
            "O(1) for every key.",
        )
        .syntax("key:key#0..."),
];

fn multi(call: &mut Call) -> CommandResult {
    if call.session.in_multi() {
        return Err(CommandError::text("ERR MULTI calls can not be nested"));
    }
    call.session.transaction.queue = Some(Box::default());
    call.session.record.multi_count.store(0, Relaxed);
    call.session.record.set_flag(client_flags::MULTI, true);
    call.reply.ok();
    Ok(())
}

/// The dispatcher runs EXEC itself; only an EXEC outside a transaction reaches this body.
fn exec_without_multi(_: &mut Call) -> CommandResult {
    Err(CommandError::text("ERR EXEC without MULTI"))
}

fn discard(call: &mut Call) -> CommandResult {
    if !call.session.in_multi() {
        return Err(CommandError::text("ERR DISCARD without MULTI"));
    }
    dispatch::discard(call.engine, call.keyspace.context, call.session);
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call) -> CommandResult {
    dispatch::unwatch_all(call.engine, call.keyspace.context, call.session);
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call) -> CommandResult {
    if call.session.in_multi() {
        return Err(CommandError::text("ERR WATCH inside MULTI is not allowed"));
    }
    // A transaction that will not run anyway needs no more watches.
    if !txn::is_raised(&call.session.transaction.watch_flag) {
        add_watches(call);
    }
    call.reply.ok();
    Ok(())
}

fn add_watches(call: &mut Call) {
    let (db, keyspace) = (call.keyspace.db(), call.keyspace.keyspace());
    // An expired key is removed, but not one that is being loaded.
    let is_loading = call.engine.attention.get() & LOADING != 0;
    let now = if is_loading { NOTHING_EXPIRED } else { call.now() };
    let keys: SmallVec<[KeyRef<'_>; 8]> =
        call.args[1..].iter().map(|key| KeyRef { key, hash: keyspace.hash(key), write: true }).collect();
    let session = &mut *call.session;
    let mut locked = lock(keyspace, call.keyspace.context, LockSet::Keys(&keys), db, now);
    for key in &keys {
        let known =
            session.transaction.watched.iter().any(|watched| watched.db == db && *watched.key == *key.key);
        if !known {
            locked.watch(key.key, &session.transaction.watch_flag);
            session.transaction.watched.push(Watched { db, key: key.key.into() });
        }
    }
    drop(locked);
    session.record.watch_count.store(session.transaction.watched.len(), Relaxed);
    session.record.set_flag(client_flags::WATCHING, true);
    *session.record.watch_flag.lock() = Some(Arc::clone(&session.transaction.watch_flag));
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tester, check};

    const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

    #[test]
    fn commands_are_queued_and_run() {
        check(&[
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            ("INCR a", "+QUEUED\r\n"),
            ("GET a", "+QUEUED\r\n"),
            ("EXEC", "*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n"),
            ("EXEC", "-ERR EXEC without MULTI\r\n"),
            ("MULTI", "+OK\r\n"),
            ("EXEC", "*0\r\n"),
        ]);
    }

    #[test]
    fn discarding() {
        check(&[
            ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
            ("SET a 1", "+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("DEL a", "+QUEUED\r\n"),
            ("DISCARD", "+OK\r\n"),
            ("GET a", "$1\r\n1\r\n"),
            ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
        ]);
    }

    #[test]
    fn nesting_and_late_watching_are_refused_without_harm() {
        check(&[
            ("MULTI", "+OK\r\n"),
            ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            ("EXEC", "*1\r\n+OK\r\n"),
        ]);
    }

    #[test]
    fn a_refused_command_breaks_the_transaction_and_a_failing_one_does_not() {
        check(&[
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"),
            ("EXEC", ABORTED),
            ("EXISTS a", ":0\r\n"),
            ("MULTI", "+OK\r\n"),
            ("SET a x", "+QUEUED\r\n"),
            ("INCR a", "+QUEUED\r\n"),
            ("SET b 2", "+QUEUED\r\n"),
            ("EXEC", "*3\r\n+OK\r\n-ERR value is not an integer or out of range\r\n+OK\r\n"),
        ]);
    }

    #[test]
    fn databases_change_within_a_transaction() {
        check(&[
            ("MULTI", "+OK\r\n"),
            ("SELECT 5", "+QUEUED\r\n"),
            ("SET a five", "+QUEUED\r\n"),
            ("SELECT 0", "+QUEUED\r\n"),
            ("SET a zero", "+QUEUED\r\n"),
            ("EXEC", "*4\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"),
            ("GET a", "$4\r\nzero\r\n"),
            ("SELECT 5", "+OK\r\n"),
            ("GET a", "$4\r\nfive\r\n"),
        ]);
    }

    #[test]
    fn wide_commands_run_in_transactions() {
        check(&[
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            ("KEYS *", "+QUEUED\r\n"),
            ("SCAN 0", "+QUEUED\r\n"),
            ("DBSIZE", "+QUEUED\r\n"),
            ("RANDOMKEY", "+QUEUED\r\n"),
            ("UNWATCH", "+QUEUED\r\n"),
            ("FLUSHALL", "+QUEUED\r\n"),
            ("EXISTS a", "+QUEUED\r\n"),
            (
                "EXEC",
                "*8\r\n+OK\r\n*1\r\n$1\r\na\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n:1\r\n\
                 $1\r\na\r\n+OK\r\n+OK\r\n:0\r\n",
            ),
        ]);
    }

    /// Watches `k` and one more key and runs `change` as another client; returns whether EXEC ran.
    #[track_caller]
    fn runs_after(prepare: &[&str], change: &str) -> bool {
        let mut tester = Tester::new();
        let other = tester.client();
        prepare.iter().for_each(|line| drop(tester.run(line)));
        tester.check(&[("WATCH k other k", "+OK\r\n")]);
        let reply = tester.run_as(other, change);
        assert!(!reply.starts_with('-'), "{change}: {reply}");
        tester.check(&[("MULTI", "+OK\r\n"), ("PING", "+QUEUED\r\n")]);
        match tester.run("EXEC").as_str() {
            "*-1\r\n" => false,
            "*1\r\n+PONG\r\n" => true,
            reply => panic!("{reply}"),
        }
    }

    #[test]
    fn watched_keys() {
        for change in [
            "SET k v",
            "SET k w",
            "DEL k",
            "APPEND k x",
            "RENAME k x",
            "RENAME x k",
            "COPY x k REPLACE",
            "MOVE k 3",
            "FLUSHDB",
            "FLUSHALL ASYNC",
            "SWAPDB 0 1",
            "PEXPIRE k 1",
        ] {
            assert!(!runs_after(&["SET k v", "SET x w"], change), "{change} is a change");
        }
        for change in
            ["GET k", "SET x 1", "DEL nosuch", "SWAPDB 2 3", "PERSIST k", "EXPIRE k 10 XX", "FLUSHDB"]
        {
            let prepare: &[&str] = if change == "FLUSHDB" { &[] } else { &["SET k v"] };
            assert!(runs_after(prepare, change), "{change} is no change");
        }
    }

    #[test]
    fn watches_end() {
        for end in ["UNWATCH", "EXEC", "DISCARD", "RESET"] {
            let mut tester = Tester::new();
            let other = tester.client();
            tester.run("WATCH k");
            match end {
                "EXEC" | "DISCARD" => tester.check(&[("MULTI", "+OK\r\n")]),
                _ => {}
            }
            tester.run(end);
            tester.run_as(other, "SET k v");
            assert_eq!(tester.session(0).record.watch_count.load(std::sync::atomic::Ordering::Relaxed), 0);
            tester.check(&[("MULTI", "+OK\r\n"), ("PING", "+QUEUED\r\n"), ("EXEC", "*1\r\n+PONG\r\n")]);
        }
    }

    #[test]
    fn own_changes_count_too() {
        check(&[
            ("WATCH k", "+OK\r\n"),
            ("SET k v", "+OK\r\n"),
            ("WATCH more", "+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("EXEC", "*-1\r\n"),
        ]);
    }

    #[test]
    fn expiring_counts_as_a_change_unless_it_had_happened_before() {
        let wait = || std::thread::sleep(std::time::Duration::from_millis(8));
        let mut tester = Tester::new();
        tester.check(&[("SET k v PX 4", "+OK\r\n"), ("WATCH k", "+OK\r\n"), ("MULTI", "+OK\r\n")]);
        wait();
        tester.check(&[("EXEC", "*-1\r\n"), ("SET k v PX 4", "+OK\r\n")]);
        wait();
        tester.check(&[("WATCH k", "+OK\r\n"), ("MULTI", "+OK\r\n"), ("EXEC", "*0\r\n")]);
    }

    #[test]
    fn swapping_expired_keys_in_is_no_change_where_nothing_was() {
        let expired = "SET k v PX 1";
        let wait = || std::thread::sleep(std::time::Duration::from_millis(4));
        // The content of databases 0 and 1, and whether the transaction of a client that watches
        // database 0 then runs.
        for (zero, one, runs) in [
            ("", expired, true),
            (expired, expired, true),
            (expired, "", true),
            ("", "SET k v", false),
            (expired, "SET k v", false),
            ("SET k v", expired, false),
            ("SET k v", "", false),
            ("", "", true),
        ] {
            let mut tester = Tester::with("enable-debug-command yes");
            tester.run("DEBUG SET-ACTIVE-EXPIRE 0");
            for (line, db) in [(one, "SELECT 1"), (zero, "SELECT 0")] {
                tester.run(db);
                if !line.is_empty() {
                    tester.run(line);
                }
            }
            wait();
            tester.check(&[("WATCH k", "+OK\r\n"), ("SWAPDB 0 1", "+OK\r\n"), ("MULTI", "+OK\r\n")]);
            let reply = if runs { "*0\r\n" } else { "*-1\r\n" };
            assert_eq!(tester.run("EXEC"), reply, "{zero:?} against {one:?}");
        }
        // The key was alive when the watch began, so its expiry is a change, in whichever database
        // it happened.
        let mut tester = Tester::with("enable-debug-command yes");
        tester.run("DEBUG SET-ACTIVE-EXPIRE 0");
        tester.check(&[("SET k v PX 4", "+OK\r\n"), ("WATCH k", "+OK\r\n")]);
        wait();
        wait();
        tester.check(&[("SWAPDB 0 1", "+OK\r\n"), ("MULTI", "+OK\r\n"), ("EXEC", "*-1\r\n")]);
    }

    #[test]
    fn a_watch_is_for_its_database() {
        let mut tester = Tester::new();
        let other = tester.client();
        tester.check(&[("WATCH k", "+OK\r\n"), ("SELECT 1", "+OK\r\n")]);
        tester.run_as(other, "SELECT 1");
        tester.run_as(other, "SET k v");
        tester.check(&[
            ("MULTI", "+OK\r\n"),
            ("EXEC", "*0\r\n"),
            ("WATCH k", "+OK\r\n"),
            ("SELECT 0", "+OK\r\n"),
        ]);
        tester.run_as(other, "SET k w");
        tester.check(&[("MULTI", "+OK\r\n"), ("EXEC", "*-1\r\n")]);
    }
}
