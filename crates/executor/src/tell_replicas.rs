// SPDX-License-Identifier: BSD-3-Clause
//! What the stream of changes has for replicas besides changes of keys: requests for their offsets,
//! and messages such as PUBLISH.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_base::clock::boot_nanos;
use braid_keyspace::{Context, Txn};
use braid_replication::in_sync::QUESTION_LEN;

use crate::engine::Engine;
use crate::journal_uses::{self, FOR_REPLICAS};

/// Asks the replicas, and records when. False if there are none to ask. Inside of the gate.
pub fn append_question(engine: &Engine, context: &mut Context) -> bool {
    if !journal_uses::journals_for(engine, FOR_REPLICAS) {
        return false;
    }
    let (journal, nanos) = (&engine.keyspace.journal, boot_nanos());
    let question: &[&[u8]] = &[b"REPLCONF", b"GETACK", b"*"];
    let range = journal.append_aside(context.slot, &mut context.journal, question);
    debug_assert_eq!(range.end - range.start, QUESTION_LEN);
    engine.replication.in_sync.asked(range.end, nanos);
    // Before checking which loops are asleep: a sleeping loop must not delay the question.
    engine.replication.asked_at.store(range.end, SeqCst);
    wake_readers(engine, context);
    true
}

/// Asks replicas for their offsets, unless they have been asked and nothing has been
/// journalled since. Inside of the gate.
pub fn ask_replicas(engine: &Engine, context: &mut Context) {
    if engine.replication.asked_at.load(Relaxed) != engine.keyspace.journal.end() {
        append_question(engine, context);
    }
}

/// As [`ask_replicas`], at the next turn of the first loop's cron. May be called on
/// any thread.
pub fn ask_replicas_soon(engine: &Engine) {
    engine.replication.asks_soon.store(true, Relaxed);
}

/// Sends replicas a request that changes no key, such as PUBLISH for the listeners there. It
/// follows the earlier changes of the current transaction or script, which a client that
/// receives the message must find. Inside of the gate.
#[inline]
pub fn tell_replicas(engine: &Engine, txn: &mut Txn<'_>, args: &[&[u8]]) {
    if journal_uses::journals_for(engine, FOR_REPLICAS) {
        let (db, context) = (txn.db(), &mut *txn.context);
        if context.journal.unit.is_empty() {
            let journal = &engine.keyspace.journal;
            journal.append_aside_in(context.slot, &mut context.journal, db, args);
        } else {
            context.journal.unit.push_aside(args);
        }
    }
}

pub fn wake_readers(engine: &Engine, context: &mut Context) {
    context.journal.has_appended = false;
    engine.keyspace.journal.wake();
}
