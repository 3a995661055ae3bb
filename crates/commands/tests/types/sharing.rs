// SPDX-License-Identifier: BSD-3-Clause
//! What commands write to memory that other threads write too: the figures of docs/scaling.md.
//!
//! Only debug builds count. A new count here means another limit to the number of threads that are
//! of use: change the page with it.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::sharing::{self, Line};
use braid_commands::testing::Tester;

/// Lines and atomic steps by kind.
type Counts = Vec<Written>;

fn counted() -> Counts {
    let counts = sharing::take().into_iter().filter(|(line, _)| *line != Line::Epoch);
    counts.map(|(line, count)| (line, count.lines, count.steps)).collect()
}

/// A kind of line, lines written, and steps.
type Written = (Line, u32, u32);

/// What a command counts as client 0.
#[track_caller]
fn count(tester: &mut Tester, line: &str) -> Counts {
    // A first time: what only the first command on a key, channel or script does.
    sharing::take();
    let reply = tester.run(line);
    assert!(!reply.starts_with('-'), "{line}: {reply}");
    counted()
}

#[track_caller]
fn check(tester: &mut Tester, cases: &[(&str, &[Written])]) {
    for (line, expected) in cases {
        assert_eq!(count(tester, line), *expected, "{line}");
    }
}

/// A shard's lock, taken and given back.
const ONE_SHARD: Written = (Line::Shard, 1, 2);
/// A range of the journal.
const JOURNAL: Written = (Line::JournalEnd, 1, 1);

fn tester(journals: bool) -> Tester {
    let mut tester = Tester::new();
    tester.engine.keyspace.settings.journals.store(u8::from(journals), Relaxed);
    for line in ["SET key value", "RPUSH list a b c d e f", "SET other{a} 1", "SET another{b} 1"] {
        tester.run(line);
    }
    tester
}

#[test]
fn reads_write_nothing_shared() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut tester = tester(false);
    check(
        &mut tester,
        &[
            ("GET key", &[]),
            ("GET missing", &[]),
            ("PING", &[]),
            // Collections are read under the shard's lock.
            ("LRANGE list 0 -1", &[ONE_SHARD]),
            ("MGET key key", &[ONE_SHARD]),
        ],
    );
}

#[test]
fn writes_write_their_shard_and_the_end_of_the_journal() {
    if !cfg!(debug_assertions) {
        return;
    }
    for journals in [false, true] {
        let mut tester = tester(journals);
        let change: &[_] = if journals { &[ONE_SHARD, JOURNAL] } else { &[ONE_SHARD] };
        check(
            &mut tester,
            &[
                ("SET key value", change),
                ("INCR number", change),
                ("RPUSH list x", change),
                ("DEL missing", &[ONE_SHARD]),
                ("EXPIRE key 100", change),
            ],
        );
    }
}

#[test]
fn transactions_and_scripts_take_each_shard_once() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut tester = tester(true);
    for line in ["MULTI", "SET key 1", "SET key 2", "GET key"] {
        tester.run(line);
    }
    // One unit of the journal, however many commands.
    assert_eq!(count(&mut tester, "EXEC"), [ONE_SHARD, JOURNAL]);
    let script = "EVAL \"redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])\" 1 key";
    tester.run(script);
    assert_eq!(count(&mut tester, script), [ONE_SHARD, JOURNAL]);
}

#[test]
fn messages_write_the_channel_and_the_mailboxes_of_its_subscribers() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut tester = tester(false);
    check(&mut tester, &[("PUBLISH nobody hello", &[])]);
    let subscriber = tester.client();
    tester.run_as(subscriber, "SUBSCRIBE news");
    // The subscriber is this loop's, which need not be woken.
    check(
        &mut tester,
        &[
            ("PUBLISH news hello", &[(Line::Channels, 1, 2), (Line::Mailbox, 1, 2)]),
            ("PUBLISH other hello", &[(Line::Channels, 1, 2)]),
        ],
    );
}

#[test]
fn blocked_pops_write_a_ticket_and_the_queue_of_the_key() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut tester = tester(false);
    let waiting = tester.client();
    sharing::take();
    tester.wait_as(waiting, "BLPOP queue 0");
    assert_eq!(counted(), [ONE_SHARD, (Line::Waiters, 2, 3)]);
    let pushed = count(&mut tester, "RPUSH queue x");
    assert_eq!(pushed, [ONE_SHARD, (Line::Mailbox, 3, 3), (Line::Waiters, 3, 5)]);
    assert_eq!(tester.told(waiting), "*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n");
}
