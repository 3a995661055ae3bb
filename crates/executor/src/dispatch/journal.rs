// SPDX-License-Identifier: BSD-3-Clause
//! Journalling of commands: the arguments of a command that changed keys, unless its body
//! journals a more exact request.

use std::ops::Range;

use braid_journal::Stated;
use braid_keyspace::keyspace::Removal;
use braid_keyspace::{Stale, Txn};
use braid_spec::{Command, Flags};

use crate::session::Session;

/// State before a body that may change something, while changes are journalled.
pub(crate) struct Before {
    dirty: u64,
    /// Expired keys found by reads.
    stale: usize,
    db: u32,
    /// The commands called by the script are journalled instead.
    runs_scripts: bool,
}

impl Before {
    /// `None` if the command's changes need not be journalled.
    #[inline]
    pub(crate) fn of(keyspace: &Txn<'_>, command: &Command) -> Option<Before> {
        if !keyspace.journals() || !command.spec.flags.any(Flags::WRITE | Flags::MAY_REPLICATE) {
            return None;
        }
        // The cache line arrives while the body runs.
        keyspace.prefetch_journal();
        Some(Before {
            dirty: keyspace.context.counters.dirty.get(),
            stale: keyspace.context.stale.borrow().len(),
            db: keyspace.db(),
            runs_scripts: command.runs_scripts,
        })
    }

    /// Adds the body's changes to the unit of the current locks. `is_alone`: the unit ends with
    /// this command; otherwise the owner of the unit calls [`note_unit`].
    #[inline]
    pub(crate) fn journal(
        self,
        keyspace: &mut Txn<'_>,
        session: &mut Session,
        args: &[&[u8]],
        is_alone: bool,
    ) {
        if !keyspace.context.respelled.is_empty() {
            return self.journal_respelled(keyspace, session, args, is_alone);
        }
        let stated = keyspace.context.journal.unit.take_stated();
        let writes = keyspace.context.counters.dirty.get() != self.dirty || stated == Stated::Addition;
        session.reply.has_written |= writes;
        let runs_scripts = self.runs_scripts;
        if writes && stated != Stated::Requests && !runs_scripts {
            self.journal_arguments(keyspace, args, is_alone);
        }
        // Commands called by a script may journal requests without changing keys.
        if is_alone && (writes || runs_scripts && !keyspace.context.journal.unit.is_empty()) {
            keyspace.journal_now();
            session.written_to = keyspace.context.journal.end;
        }
    }

    /// Like [`Before::journal`], for a command that is journalled with other arguments.
    #[cold]
    fn journal_respelled(
        self,
        keyspace: &mut Txn<'_>,
        session: &mut Session,
        args: &[&[u8]],
        is_alone: bool,
    ) {
        let respelled = std::mem::take(&mut keyspace.context.respelled);
        let mut args = args.to_vec();
        for (index, text) in &respelled {
            args[*index] = text;
        }
        self.journal(keyspace, session, &args, is_alone);
    }

    #[inline]
    fn journal_arguments(self, keyspace: &mut Txn<'_>, args: &[&[u8]], is_alone: bool) {
        let stale = self.stale..keyspace.context.stale.borrow().len();
        if !stale.is_empty() {
            journal_stale(keyspace, stale);
        }
        keyspace.journal_hidden_members();
        keyspace.journal_itself(self.db, args, is_alone);
    }
}

/// Ends a unit of several commands of a client and records its offset. `since`: end of the thread's
/// previous unit (a script may have ended some in between).
pub(crate) fn note_unit(keyspace: &mut Txn<'_>, session: &mut Session, since: u64) {
    keyspace.journal_now();
    let end = keyspace.context.journal.end;
    if end != since {
        session.written_to = end;
    }
}

/// Expired keys that the command has read as missing: a replay must not find them either. They are
/// removed and journalled again when the locks are released.
#[cold]
fn journal_stale(keyspace: &mut Txn<'_>, found: Range<usize>) {
    let stale = keyspace.context.stale.take();
    let name = keyspace.keyspace().settings.removal(Removal::Expired);
    for Stale { db, key, .. } in &stale[found] {
        keyspace.context.journal.unit.push(*db, &[name, key]);
    }
    keyspace.context.stale.replace(stale);
}
