// SPDX-License-Identifier: BSD-3-Clause
//! What a transaction tells the journal: the requests that repeat what it has changed.
//!
//! HOT PATH: nothing but a look at one flag while nobody wants a journal.
//!
//! The dispatcher adds a command's own arguments when its body has changed anything; a body whose
//! arguments would not repeat what it did (they name a span of time, it chose at random, it took
//! what was there) says so itself with [`Txn::journal_as`]. Keys and members that are lost by
//! expiry and eviction are journalled here. All of it gets its place in the log before the locks
//! are released.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::number::write_i64;
use smallvec::SmallVec;

use crate::entry::ValueRef;
use crate::keyspace::Removal;
use crate::object::ExpiredMembers;
use crate::txn::Txn;
use crate::value_type::Type;

/// An argument of a journalled request.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    Text(&'a [u8]),
    Number(i64),
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(text: &'a [u8; N]) -> Arg<'a> {
        Arg::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(text: &'a [u8]) -> Arg<'a> {
        Arg::Text(text)
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Arg::Number(number)
    }
}

/// [`Txn::journal_as_with`] with arguments of either kind.
#[macro_export]
macro_rules! journal_as {
    ($txn:expr, $($arg:expr),+ $(,)?) => {
        if $txn.journals() {
            $txn.journal_as_with(&[$($crate::journal::Arg::from($arg)),+]);
        }
    };
}

impl Txn<'_> {
    /// Whether changes are journalled.
    #[inline]
    pub fn journals(&self) -> bool {
        self.keyspace().settings.journals.load(Relaxed) != 0 && !self.context.unjournalled
    }

    /// Gets ready for changes to be journalled soon.
    #[inline]
    pub fn prefetch_journal(&self) {
        self.keyspace().journal.prefetch();
    }

    /// Has a request repeated for the present command instead of its own arguments; one of several,
    /// perhaps. To be called when what it repeats has happened.
    #[inline]
    pub fn journal_as(&mut self, args: &[&[u8]]) {
        if self.journals() {
            let db = self.db();
            self.context.journal.unit.push_explicit(db, args);
        }
    }

    /// As [`Txn::journal_as`], with numbers among the arguments.
    pub fn journal_as_with(&mut self, args: &[Arg<'_>]) {
        if self.journals() {
            let texts: SmallVec<[SmallVec<[u8; 24]>; 8]> = args
                .iter()
                .map(|arg| match arg {
                    Arg::Text(_) => SmallVec::new(),
                    Arg::Number(number) => write_i64(&mut [0; 20], *number).into(),
                })
                .collect();
            let args: SmallVec<[&[u8]; 8]> = args
                .iter()
                .zip(&texts)
                .map(|(arg, text)| match arg {
                    Arg::Text(text) => text,
                    Arg::Number(_) => &text[..],
                })
                .collect();
            self.journal_as(&args);
        }
    }

    /// Has nothing repeated for the present command, beyond what [`Txn::journal_as`] was told.
    pub fn journal_nothing(&mut self) {
        if self.journals() {
            self.context.journal.unit.set_explicit();
        }
    }

    /// Has one of the present command's own arguments repeated in another spelling, which means the same.
    #[cold]
    pub fn journal_respelled(&mut self, index: usize, text: Vec<u8>) {
        if self.journals() {
            self.context.respelled.push((index, text));
        }
    }

    /// Has a request repeated in addition to whatever the present command leaves.
    #[cold]
    pub fn journal_too(&mut self, args: &[&[u8]]) {
        if self.journals() {
            let db = self.db();
            self.context.journal.unit.push(db, args);
        }
    }

    /// Has the loss of a key repeated.
    #[inline]
    pub(crate) fn journal_loss(&mut self, key: &[u8], why: Removal) {
        if self.journals() {
            let name = self.keyspace().settings.removal(why);
            self.journal_too(&[name, key]);
        }
    }

    /// Has the removal of a key repeated instead of the present command.
    pub fn journal_removal(&mut self, key: &[u8], why: Removal) {
        let name = self.keyspace().settings.removal(why);
        self.journal_as(&[name, key]);
    }

    /// Has the loss of members of a collection repeated.
    pub(crate) fn journal_members_loss(&mut self, kind: Type, key: &[u8], gone: &ExpiredMembers) {
        let words = kind.descriptor().and_then(|descriptor| descriptor.members.as_ref());
        let Some(name) = words.map(|words| words.remove.as_bytes()) else { return };
        let args = [name, key].into_iter().chain(gone.iter().map(|member| &**member));
        self.journal_too(&args.collect::<Vec<_>>());
    }

    /// Has the members repeated as lost that are past their expiry, of collections that the present
    /// command has only read: they were as good as absent for it. They are removed, and journalled
    /// once more, by whoever changes the collection.
    pub fn journal_hidden_members(&mut self) {
        for index in 0..self.keys().len() {
            let Some(key) = self.keys().get(index).filter(|key| !key.write) else { continue };
            let key = key.key;
            let Some((kind, gone)) = self.peek(key).and_then(|entry| match entry.value() {
                ValueRef::Object(object) => Some((entry.value_type(), object.expired_members(self.now()))),
                _ => None,
            }) else {
                continue;
            };
            if !gone.is_empty() {
                self.journal_members_loss(kind, key, &gone);
            }
        }
    }

    /// Has the present command's own arguments repeated. `is_alone`: it is all that happens under
    /// the locks, so that nothing else can belong to its unit.
    #[inline]
    pub fn journal_itself(&mut self, db: u32, args: &[&[u8]], is_alone: bool) {
        let (slot, journal) = (self.context.slot, &mut self.context.journal);
        if is_alone && journal.unit.is_empty() {
            self.keyspace.journal.append_request(slot, journal, db, args);
        } else {
            journal.unit.push(db, args);
        }
    }

    /// Ends a unit: what was collected takes effect together, and what follows under the same locks
    /// is another unit.
    #[inline]
    pub fn journal_now(&mut self) {
        let slot = self.context.slot;
        if !self.context.journal.unit.is_empty() {
            self.keyspace.journal.append(slot, &mut self.context.journal);
        }
    }
}
