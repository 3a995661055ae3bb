// SPDX-License-Identifier: BSD-3-Clause
//! A transaction's side of the journal: collects the requests that repeat its changes.
//!
//! HOT PATH: one test of a flag while nothing reads the journal.
//!
//! The dispatcher adds a command's own arguments if its body has made a change. A body whose
//! arguments would not repeat its effect (relative times, random choices, results that depend on
//! the moment) supplies the requests itself with [`Txn::journal_as`]. Keys and members lost by
//! expiry and eviction are journalled here. Every change gets its place in the log before the
//! locks are released.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::number::write_i64;
use smallvec::SmallVec;

use crate::entry::ValueRef;
use crate::keyspace::Removal;
use crate::object::ExpiredMembers;
use crate::txn::Txn;
use crate::value_type::Type;

/// Reasons for a journalled removal that no client requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    Expired,
    Evicted,
}

/// Decodes the spelling of a journalled request's name
/// ([`crate::keyspace::Settings::tells_losses`]): a lowercase first letter marks an expiry
/// (`dEL`), a lowercase last letter an eviction (`DEl`). All other readers of the journal see the
/// same command.
pub fn loss_of(name: &[u8]) -> Option<Loss> {
    let (first, rest) = name.split_first()?;
    let (last, middle) = rest.split_last()?;
    let is_upper = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_uppercase);
    match (first.is_ascii_lowercase(), last.is_ascii_lowercase()) {
        (true, false) if is_upper(rest) => Some(Loss::Expired),
        (false, true) if is_upper(middle) && first.is_ascii_uppercase() => Some(Loss::Evicted),
        _ => None,
    }
}

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

/// [`Txn::journal_as_with`] with arguments of both kinds.
#[macro_export]
macro_rules! journal_as {
    ($txn:expr, $($arg:expr),+ $(,)?) => {
        if $txn.journals() {
            $txn.journal_as_with(&[$($crate::journal::Arg::from($arg)),+]);
        }
    };
}

impl Txn<'_> {
    /// True if changes are journalled.
    #[inline]
    pub fn journals(&self) -> bool {
        self.keyspace().settings.journals.load(Relaxed) != 0 && !self.context.unjournalled
    }

    /// True if peers write as well and merge the journal. Increments are then journalled as such,
    /// even where their sum would be simpler to repeat, and changes of a part of a collection name
    /// its elements, since comparing the whole with its previous state takes long.
    pub fn journals_for_peers(&self) -> bool {
        self.keyspace().settings.tells_losses.load(Relaxed) && self.journals()
    }

    /// Prefetches the journal's memory for a change that will be journalled soon.
    #[inline]
    pub fn prefetch_journal(&self) {
        self.keyspace().journal.prefetch();
    }

    /// Journals a request in place of the current command's own arguments; may be called several
    /// times. Call it after the change that the request repeats.
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

    /// Journals nothing for the current command except the requests passed to [`Txn::journal_as`].
    pub fn journal_nothing(&mut self) {
        if self.journals() {
            self.context.journal.unit.set_explicit();
        }
    }

    /// Notes that the current command added elements that already existed. Nothing has changed;
    /// but if peers write as well, the arguments are journalled anyway, since the addition counts
    /// against concurrent removals on other servers.
    pub fn journal_addition(&mut self) {
        if self.journals_for_peers() {
            self.context.journal.unit.set_addition();
        }
    }

    /// Journals one of the current command's arguments in an equivalent spelling.
    #[cold]
    pub fn journal_respelled(&mut self, index: usize, text: Vec<u8>) {
        if self.journals() {
            self.context.respelled.push((index, text));
        }
    }

    /// Journals a request in addition to the current command.
    #[cold]
    pub fn journal_too(&mut self, args: &[&[u8]]) {
        if self.journals() {
            let db = self.db();
            self.context.journal.unit.push(db, args);
        }
    }

    /// Journals the loss of a key.
    #[inline]
    pub(crate) fn journal_loss(&mut self, key: &[u8], why: Removal) {
        if self.journals() {
            let name = self.keyspace().settings.removal(why);
            self.journal_too(&[name, key]);
        }
    }

    /// Journals the removal of a key in place of the current command. A client requested it, so it
    /// is not spelled as a loss.
    pub fn journal_removal(&mut self, key: &[u8], why: Removal) {
        let name = self.keyspace().settings.removal(why).to_ascii_uppercase();
        self.journal_as(&[&name, key]);
    }

    /// Journals the loss of members of a collection.
    pub(crate) fn journal_members_loss(&mut self, kind: Type, key: &[u8], gone: &ExpiredMembers) {
        let words = kind.descriptor().and_then(|descriptor| descriptor.members.as_ref());
        let Some(name) = words.map(|words| words.remove.as_bytes()) else { return };
        let mut name = name.to_vec();
        let settings = &self.keyspace().settings;
        if settings.tells_losses.load(Relaxed) || settings.spells_losses.load(Relaxed) {
            name[..1].make_ascii_lowercase();
        }
        let args = [&name[..], key].into_iter().chain(gone.iter().map(|member| &**member));
        self.journal_too(&args.collect::<Vec<_>>());
    }

    /// Journals the loss of expired members of collections that the current command has only read:
    /// the command treated them as absent. The next change of the collection removes them and
    /// journals the loss again.
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

    /// Journals the current command's own arguments. `is_alone`: it is the only command under
    /// these locks, so its unit cannot contain another.
    #[inline]
    pub fn journal_itself(&mut self, db: u32, args: &[&[u8]], is_alone: bool) {
        let (slot, journal) = (self.context.slot, &mut self.context.journal);
        if is_alone && journal.unit.is_empty() {
            self.keyspace.journal.append_request(slot, journal, db, args);
        } else {
            journal.unit.push(db, args);
        }
    }

    /// Ends a unit: the changes collected so far take effect together; later changes under the
    /// same locks belong to another unit.
    #[inline]
    pub fn journal_now(&mut self) {
        let slot = self.context.slot;
        if !self.context.journal.unit.is_empty() {
            self.keyspace.journal.append(slot, &mut self.context.journal);
        }
    }
}
