// SPDX-License-Identifier: BSD-3-Clause
//! Read-only commands: sizes, scores, ranks, random members, ZSCAN.

use braid_base::number;
use braid_executor::Call;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use super::range::Selector;
use super::{Layout, find, reply_member};
use crate::scan_options::{ScanExtras, ScanOptions, parse_cursor, reply_cursor};

pub fn zcard(call: &mut Call) -> CommandResult {
    let len = find(call.keyspace, call.args[1])?.map_or(0, |view| view.len());
    call.reply.integer(len as i64);
    Ok(())
}

pub fn zscore(call: &mut Call) -> CommandResult {
    let found = find(call.keyspace, call.args[1])?.and_then(|view| view.score(call.args[2]));
    reply_score(call.reply, found);
    Ok(())
}

pub fn zmscore(call: &mut Call) -> CommandResult {
    let view = find(call.keyspace, call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        reply_score(call.reply, view.as_ref().and_then(|view| view.score(member)));
    }
    Ok(())
}

fn reply_score(reply: &mut ReplyBuffer, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub fn zrank(call: &mut Call) -> CommandResult {
    rank(call, false)
}

pub fn zrevrank(call: &mut Call) -> CommandResult {
    rank(call, true)
}

fn rank(call: &mut Call, reverse: bool) -> CommandResult {
    let with_score = match call.args.len() {
        3 => false,
        4 if call.arg_is(3, "WITHSCORE") => true,
        4 => return Err(CommandError::Syntax),
        _ => return Err(call.wrong_arity()),
    };
    let found = find(call.keyspace, call.args[1])?.and_then(|view| {
        let (rank, score) = view.rank(call.args[2])?;
        Some((if reverse { view.len() - 1 - rank } else { rank }, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            call.reply.array(2);
            call.reply.integer(rank as i64);
            call.reply.double(score);
        }
        Some((rank, _)) => call.reply.integer(rank as i64),
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
    }
    Ok(())
}

pub fn zcount(call: &mut Call) -> CommandResult {
    let selector = Selector::scores(call.args[2], call.args[3])?;
    count(call, &selector)
}

pub fn zlexcount(call: &mut Call) -> CommandResult {
    let selector = Selector::members(call.args[2], call.args[3])?;
    count(call, &selector)
}

fn count(call: &mut Call, selector: &Selector<'_>) -> CommandResult {
    let count = find(call.keyspace, call.args[1])?.map_or(0, |view| selector.ranks(&view, false).len());
    call.reply.integer(count as i64);
    Ok(())
}

pub fn zrandmember(call: &mut Call) -> CommandResult {
    let out_of_range = || CommandError::text("ERR value is out of range");
    if call.args.len() == 2 {
        let mut random = call.keyspace.context.random.fork();
        match find(call.keyspace, call.args[1])?.and_then(|view| view.random(&mut random)) {
            Some((member, _)) => reply_member(call.reply, member),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let count =
        number::parse_i64(call.args[2]).filter(|&count| count != i64::MIN).ok_or_else(out_of_range)?;
    let with_scores = call.args.len() == 4 && call.arg_is(3, "WITHSCORES");
    if call.args.len() > 4 || (call.args.len() == 4 && !with_scores) {
        return Err(CommandError::Syntax);
    }
    // The element count of a flat reply must not overflow either.
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(out_of_range());
    }
    let layout = Layout::with_scores(with_scores, call.reply);
    let mut random = call.keyspace.context.random.fork();
    let Some(view) = find(call.keyspace, call.args[1])?.filter(|_| count != 0) else {
        call.reply.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        layout.header(call.reply, wanted);
        for _ in 0..wanted {
            let chosen = view.random(&mut random).filter(|_| !call.reply.is_full());
            let Some((member, score)) = chosen else { break };
            layout.entry(call.reply, member, score);
        }
    } else if wanted >= view.len() {
        layout.header(call.reply, view.len());
        view.iter(0..view.len()).for_each(|(member, score)| layout.entry(call.reply, member, score));
    } else {
        let chosen = view.random_distinct(wanted, &mut random);
        layout.header(call.reply, chosen.len());
        chosen.into_iter().for_each(|(member, score)| layout.entry(call.reply, member, score));
    }
    Ok(())
}

pub fn zscan(call: &mut Call) -> CommandResult {
    let cursor = parse_cursor(call.args[2])?;
    let view = find(call.keyspace, call.args[1])?;
    let Some(view) = view else {
        reply_cursor(call.reply, 0, 0);
        return Ok(());
    };
    let options = ScanOptions::parse(&call.args[3..], ScanExtras { kind: false, bare: Some("NOSCORES") })?;
    let mut found = Vec::new();
    let next = view.scan(cursor, options.count, |(member, score)| {
        if options.matches(member.text(&mut itoa::Buffer::new())) {
            found.push((member, score));
        }
    });
    reply_cursor(call.reply, next, if options.bare { found.len() } else { found.len() * 2 });
    // In this reply alone stock servers use two formats.
    let format = if view.is_packed() { number::format_f64_shortest } else { number::format_f64_17 };
    let mut text = Vec::new();
    for (member, score) in found {
        reply_member(call.reply, member);
        if !options.bare {
            // A string in both protocols.
            text.clear();
            format(&mut text, score);
            call.reply.bulk(&text);
        }
    }
    Ok(())
}
