// SPDX-License-Identifier: BSD-3-Clause
//! Commands on sorted sets.
//!
//! Flow: the dispatcher holds the locks of the keys. Reads go through [`find`], whose view hides
//! expired members; changes go through [`change`] (or `add.rs`), which removes expired members
//! first, deletes the key if no member is left and informs watchers. Ranges of any kind become
//! rank ranges (`range.rs`).
//!
//! A key must never hold an empty sorted set.

mod add;
mod blocking;
mod combine;
mod member_expiry;
mod range;
mod read;
mod remove;
mod rows;

use braid_containers::listpack::Element;
use braid_keyspace::object::Object;
use braid_keyspace::txn::WrongType;
use braid_keyspace::{Event, Expiry, Txn};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_values::sorted_set::{SortedSet, View};

use crate::collection::purge;

pub(crate) use add::{Pairs, journal_added, put};
pub use member_expiry::MEMBER_EXPIRY;
pub use rows::COMMANDS;

/// The sorted set at a key, for reading; `None` if it is missing or all its members have expired.
pub(crate) fn find<'s>(keyspace: &'s Txn<'_>, key: &[u8]) -> Result<Option<View<'s>>, WrongType> {
    let set = keyspace.read_as::<SortedSet>(key)?;
    Ok(set.map(|set| set.view(keyspace.now())).filter(|view| !view.is_empty()))
}

/// Like [`find`], for a key that the command has looked up before: counts no second look-up.
pub(crate) fn find_again<'s>(keyspace: &'s Txn<'_>, key: &[u8]) -> Result<Option<View<'s>>, WrongType> {
    let set = keyspace.peek_as::<SortedSet>(key)?;
    Ok(set.map(|set| set.view(keyspace.now())).filter(|view| !view.is_empty()))
}

/// Changes the sorted set at a key, if there is one. `work` gets the set without expired members
/// (possibly empty), and returns its result and the number of its changes, which `event` reports.
/// Deletes the key if no member is left.
fn change<R>(
    keyspace: &mut Txn<'_>,
    event: Event,
    key: &[u8],
    work: impl FnOnce(&mut SortedSet) -> (R, usize),
) -> Result<Option<R>, WrongType> {
    let now = keyspace.now();
    let Some(set) = keyspace.write_as::<SortedSet>(key)? else { return Ok(None) };
    let expired = purge(set, now);
    let (result, changes) = work(set);
    let empty = set.is_empty();
    keyspace.finish_change_expiring(event, key, changes as u64, expired, empty);
    Ok(Some(result))
}

/// Stores a command's resulting sorted set, or deletes the key if the set is empty; returns the
/// number of members.
pub(crate) fn store(keyspace: &mut Txn<'_>, event: Event, key: &[u8], set: SortedSet) -> usize {
    let len = set.len();
    if len == 0 {
        keyspace.delete(key);
    } else {
        keyspace.set_object(event, key, Object::new(set), Expiry::Clear);
    }
    len
}

/// Replies with a member as a string.
#[inline]
pub(crate) fn reply_member(reply: &mut ReplyBuffer, member: Element<'_>) {
    match member {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Int(number) => reply.bulk_integer(number),
    }
}

/// The layout of members and scores in a reply.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Members only.
    Bare,
    /// Member, score, member, score.
    Flat,
    /// Arrays of member and score.
    Pairs,
}

impl Layout {
    /// The layout of replies with an optional WITHSCORES.
    fn with_scores(wanted: bool, reply: &ReplyBuffer) -> Layout {
        match (wanted, reply.protocol) {
            (false, _) => Layout::Bare,
            (true, Protocol::Resp2) => Layout::Flat,
            (true, Protocol::Resp3) => Layout::Pairs,
        }
    }

    /// Writes the array header for `count` members.
    #[inline]
    fn header(self, reply: &mut ReplyBuffer, count: usize) {
        reply.array(if self == Layout::Flat { count * 2 } else { count });
    }

    /// Writes one member.
    #[inline]
    fn entry(self, reply: &mut ReplyBuffer, member: Element<'_>, score: f64) {
        if reply.is_full() {
            return;
        }
        if self == Layout::Pairs {
            reply.array(2);
        }
        reply_member(reply, member);
        if self != Layout::Bare {
            reply.double(score);
        }
    }
}
