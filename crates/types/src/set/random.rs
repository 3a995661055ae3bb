// SPDX-License-Identifier: BSD-3-Clause
//! SPOP and SRANDMEMBER.

use braid_containers::listpack::{Element, Listpack};
use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_keyspace::keyspace::Removal;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::set::{Set, SetLimits};

use super::reply_members;
use crate::collection::{has_expired, pop_count_arg, purge, reply_element, symmetric_arg};

pub(super) fn spop(call: &mut Call) -> CommandResult {
    let (key, now, limits) = (call.args[1], call.now(), limits::set_limits(call.engine));
    let count = match call.args.len() {
        2 => None,
        3 => Some(pop_count_arg(call, 2)?),
        _ => return Err(CommandError::Syntax),
    };
    let mut random = call.keyspace.context.random.fork();
    let journals = call.keyspace.journals();
    let Some(set) = call.keyspace.write_as::<Set>(key)? else {
        match count {
            Some(_) => call.reply.set(0),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let expired = purge(set, now);
    let mut gone = Gone { journals, members: Vec::new() };
    let Some(count) = count else {
        let reply = &mut *call.reply;
        let popped = set.pop_random(&mut random, |member| gone.reply(reply, member)).is_some();
        if !popped {
            call.reply.null();
        }
        let empty = set.is_empty();
        call.keyspace.finish_change_expiring(Event::set("spop"), key, u64::from(popped), expired, empty);
        gone.journal(call, key);
        return Ok(());
    };
    let count = count.min(set.len());
    if count == 0 {
        call.reply.set(0);
        let empty = set.is_empty();
        call.keyspace.finish_change_expiring(Event::set("spop"), key, 0, expired, empty);
        return Ok(());
    }
    let left = set.len() - count;
    let reply = &mut *call.reply;
    if left == 0 {
        reply_members(reply, set, now);
    } else {
        reply.set(count);
        if left.saturating_mul(5) <= count && set.encoding() == "hashtable" {
            keep_few(set, left, &mut random, |member| gone.reply(reply, member), now, &limits);
        } else {
            for _ in 0..count {
                set.pop_random(&mut random, |member| gone.reply(reply, member));
            }
        }
    }
    call.keyspace.finish_change_expiring(Event::set("spop"), key, count as u64, expired, left == 0);
    if left == 0 {
        call.keyspace.journal_removal(key, Removal::Server);
    } else {
        gone.journal(call, key);
    }
    Ok(())
}

/// Members removed at random, to be journalled by name.
struct Gone {
    journals: bool,
    members: Vec<Vec<u8>>,
}

impl Gone {
    fn reply(&mut self, reply: &mut ReplyBuffer, member: Element<'_>) {
        if self.journals {
            self.members.push(member.to_vec());
        }
        reply_element(reply, member);
    }

    fn journal(&self, call: &mut Call, key: &[u8]) {
        // Bounded requests: SPOP may remove millions of members.
        for members in self.members.chunks(1024) {
            let args = [b"SREM", key].into_iter().chain(members.iter().map(|member| &member[..]));
            call.keyspace.journal_as(&args.collect::<Vec<_>>());
        }
    }
}

/// Removes all members but `left` of them, which become the set. This is cheaper than removing
/// most members of a large set one by one, and returns the set to a small encoding, as in Redis.
fn keep_few(
    set: &mut Set,
    left: usize,
    random: &mut fastrand::Rng,
    mut take: impl FnMut(Element<'_>),
    now: i64,
    limits: &SetLimits,
) {
    let mut kept = Set::from_listpack(Listpack::new(), limits).unwrap_or_default();
    let mut text = itoa::Buffer::new();
    set.sample(left, random, |member| {
        let member = member.text(&mut text);
        kept.add(member, now, limits);
        if let Some(at) = set.expiry(member, now).flatten() {
            kept.set_expiry(member, Some(at), now);
        }
    });
    for member in set.iter(now).filter(|member| !kept.contains_element(*member, now)) {
        take(member);
    }
    *set = kept;
}

pub(super) fn srandmember(call: &mut Call) -> CommandResult {
    let now = call.now();
    let count = match call.args.len() {
        2 => None,
        3 => Some(symmetric_arg(call, 2, i64::MAX)?),
        _ => return Err(CommandError::Syntax),
    };
    let mut random = call.keyspace.context.random.fork();
    let set = call.keyspace.read_as::<Set>(call.args[1])?;
    let Some(count) = count else {
        match set.and_then(|set| set.random(now, &mut random)) {
            Some(member) => reply_element(call.reply, member),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let Some(set) = set else {
        call.reply.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        let wanted = if set.random(now, &mut random).is_some() { wanted } else { 0 };
        call.reply.array(wanted);
        for _ in 0..wanted {
            let member = set.random(now, &mut random).filter(|_| !call.reply.is_full());
            let Some(member) = member else { break };
            reply_element(call.reply, member);
        }
    } else if has_expired(set, now) {
        // A reader must not remove expired members, so it chooses among the others.
        let live: Vec<_> = set.iter(now).collect();
        let chosen = random.choose_multiple(live, wanted);
        call.reply.array(chosen.len());
        chosen.into_iter().for_each(|member| reply_element(call.reply, member));
    } else {
        call.reply.array(wanted.min(set.len()));
        set.sample(wanted, &mut random, |member| reply_element(call.reply, member));
    }
    Ok(())
}
