// SPDX-License-Identifier: BSD-3-Clause
//! XDELEX and XACKDEL, and what becomes of the groups' references to entries that a command
//! removes (KEEPREF, DELREF, ACKED).
//!
//! The journal describes these changes with XDEL and XACK, which every server knows, and XSETID.

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::rewrite::Numbers;
use braid_values::stream::{References, Stream, StreamId};
use smallvec::SmallVec;

use super::strict_id;

/// What becomes of pending entries whose entry is removed from the stream.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Policy {
    /// KEEPREF: they stay pending.
    #[default]
    Keep,
    /// DELREF: they are no longer pending in any group.
    Drop,
    /// ACKED: only entries that all groups have received and acknowledged are removed.
    Acknowledged,
}

impl Policy {
    pub(super) fn parse(word: &[u8]) -> Option<Policy> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("KEEPREF") => Some(Policy::Keep),
            () if is("DELREF") => Some(Policy::Drop),
            () if is("ACKED") => Some(Policy::Acknowledged),
            () => None,
        }
    }
}

/// The reply for an ID: there is no such entry, or it is not pending in XACKDEL's group.
const MISSING: i64 = -1;
/// The entry was deleted; or acknowledged by XACKDEL, and it did not exist any more.
const DELETED: i64 = 1;
/// The entry is still needed by a group.
const NEEDED: i64 = 2;

/// The arguments after the key (and the group): `[KEEPREF | DELREF | ACKED] IDS numids id ...`.
struct Options<'a> {
    policy: Policy,
    ids: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Options<'a>, CommandError> {
        let (mut policy, mut ids) = (None, None);
        let mut rest = args;
        while let [option, after @ ..] = rest {
            rest = match (Policy::parse(option), after) {
                (Some(given), _) if policy.is_none() => {
                    policy = Some(given);
                    after
                }
                // Of several lists the last one counts.
                (None, [_, ..]) if option.eq_ignore_ascii_case(b"IDS") => {
                    let (given, after) = split_ids(after)?;
                    ids = Some(given);
                    after
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        let ids = ids.ok_or(CommandError::Syntax)?;
        Ok(Options { policy: policy.unwrap_or_default(), ids })
    }

    /// The IDs, of which stock servers see no errors if there is no key or group.
    fn parse_ids(&self) -> Result<SmallVec<[StreamId; 8]>, CommandError> {
        self.ids.iter().map(|id| strict_id(id, 0)).collect()
    }
}

/// A list of arguments.
type Words<'a> = &'a [&'a [u8]];

/// Splits `numids id ...` from the arguments behind it.
pub(super) fn split_ids<'a>(args: Words<'a>) -> Result<(Words<'a>, Words<'a>), CommandError> {
    let count = args
        .first()
        .and_then(|count| number::parse_i64(count))
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or(CommandError::text("ERR Number of IDs must be a positive integer"))?;
    args[1..]
        .split_at_checked(count)
        .ok_or(CommandError::text("ERR The `numids` parameter must match the number of arguments"))
}

/// The changes of a command, collected for the reply and the journal.
#[derive(Default)]
pub(super) struct Removal {
    /// Entries removed from the stream.
    pub entries: Vec<StreamId>,
    /// If they were trimmed rather than deleted: the stream's numbers, which XDEL would change.
    pub numbers: Option<Numbers>,
    /// Entries that are no longer pending, by group.
    pub references: References,
}

impl Removal {
    /// Journals the changes, in place of the current command or in addition to other requests.
    pub(super) fn journal(&self, call: &mut Call, key: &[u8]) {
        if !call.keyspace.journals() {
            return;
        }
        let mut journal = |head: &[&[u8]], ids: &[StreamId]| {
            let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
            let args: Vec<&[u8]> = head.iter().copied().chain(ids.iter().map(String::as_bytes)).collect();
            call.keyspace.journal_as(&args);
        };
        if !self.entries.is_empty() {
            journal(&[b"XDEL", key], &self.entries);
        }
        for (group, ids) in &self.references {
            journal(&[b"XACK", key, group], ids);
        }
        // Peers keep no such numbers.
        if let Some(numbers) = self.numbers
            && !call.keyspace.journals_for_peers()
        {
            numbers.for_each_request(key, true, |request| call.keyspace.journal_as(request));
        }
    }

    /// Deletes an entry as far as the policy allows; returns its reply.
    fn delete(&mut self, stream: &mut Stream, id: StreamId, policy: Policy) -> i64 {
        // Also if the entry does not exist, as on stock servers.
        if policy == Policy::Acknowledged && !stream.is_acknowledged(id) {
            return NEEDED;
        }
        if !stream.log_mut().delete(id) {
            return MISSING;
        }
        self.entries.push(id);
        DELETED
    }

    /// Informs watchers and the journal, and replies for each ID.
    fn finish(self, call: &mut Call, replies: &[i64]) {
        let key = call.args[1];
        if !self.entries.is_empty() {
            call.keyspace.changed(Event::stream("xdel"), key);
        } else if !self.references.is_empty() {
            call.keyspace.count_changes(1);
        }
        self.journal(call, key);
        call.reply.array(replies.len());
        replies.iter().for_each(|reply| call.reply.integer(*reply));
    }
}

pub fn xdelex(call: &mut Call) -> CommandResult {
    // The key's type is checked before the arguments, as on stock servers.
    call.keyspace.peek_as::<Stream>(call.args[1])?;
    let options = Options::parse(&call.args[2..])?;
    let mut removal = Removal::default();
    let mut replies = vec![MISSING; options.ids.len()];
    if let Some(stream) = call.keyspace.write_as::<Stream>(call.args[1])? {
        let ids = options.parse_ids()?;
        for (reply, id) in replies.iter_mut().zip(&ids) {
            *reply = removal.delete(stream, *id, options.policy);
        }
        if options.policy == Policy::Drop {
            removal.references = stream.drop_references(&ids);
        }
    }
    removal.finish(call, &replies);
    Ok(())
}

pub fn xackdel(call: &mut Call) -> CommandResult {
    let exists = call.keyspace.read_as::<Stream>(call.args[1])?.is_some();
    let options = Options::parse(&call.args[3..])?;
    let name = call.args[2];
    let mut removal = Removal::default();
    let mut replies = vec![MISSING; options.ids.len()];
    let stream = if exists { call.keyspace.write_as::<Stream>(call.args[1])? } else { None };
    if let Some(stream) = stream.filter(|stream| stream.groups().get(name).is_some()) {
        let ids = options.parse_ids()?;
        let mut acknowledged = Vec::new();
        for (reply, &id) in replies.iter_mut().zip(&ids) {
            let group = stream.split_mut().1.get_mut(name);
            if group.is_none_or(|group| group.acknowledge(id).is_none()) {
                continue;
            }
            acknowledged.push(id);
            *reply = match removal.delete(stream, id, options.policy) {
                MISSING => DELETED,
                reply => reply,
            };
        }
        // IDs that are not pending in this group are left alone in the others, too.
        if options.policy == Policy::Drop {
            removal.references = stream.drop_references(&acknowledged);
        }
        if !acknowledged.is_empty() {
            removal.references.push((name.into(), acknowledged));
        }
    }
    removal.finish(call, &replies);
    Ok(())
}
