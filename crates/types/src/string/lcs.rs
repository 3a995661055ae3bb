// SPDX-License-Identifier: BSD-3-Clause
//! LCS: the longest common subsequence. The algorithm and its limits are in
//! `braid_containers::lcs`.

use braid_containers::lcs::{self, Match};
use braid_executor::Call;
use braid_keyspace::txn::StringRef;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

pub(super) fn lcs(call: &mut Call) -> CommandResult {
    let read = |key: &[u8]| match call.keyspace.string(key) {
        Ok(value) => Ok(value.unwrap_or(StringRef::Bytes(b""))),
        Err(_) => Err(CommandError::text("ERR The specified keys must contain string values")),
    };
    let (first, second) = (read(call.args[1]), read(call.args[2]));
    let values = (first?, second?);
    let options = Options::parse(call)?;
    let mut scratch = ([0; 20], [0; 20]);
    let (first, second) = (values.0.bytes(&mut scratch.0), values.1.bytes(&mut scratch.1));
    lcs::check_limits(first.len(), second.len(), call.engine.config.proto_max_bulk_len())
        .map_err(|error| CommandError::text(format!("ERR {error}")))?;
    if options.ranges {
        let (matches, total) = lcs::matches(first, second, options.bytes_min);
        reply_ranges(call.reply, &matches, total, options.with_lengths);
    } else if options.length {
        call.reply.integer(lcs::length(first, second) as i64);
    } else {
        call.reply.bulk(&lcs::subsequence(first, second));
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    with_lengths: bool,
    bytes_min: usize,
}

impl Options {
    fn parse(call: &Call) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut index = 3;
        while index < call.args.len() {
            if call.arg_is(index, "IDX") {
                options.ranges = true;
            } else if call.arg_is(index, "LEN") {
                options.length = true;
            } else if call.arg_is(index, "WITHMATCHLEN") {
                options.with_lengths = true;
            } else if call.arg_is(index, "MINMATCHLEN") && index + 1 < call.args.len() {
                index += 1;
                options.bytes_min = usize::try_from(call.integer_arg(index)?).unwrap_or(0);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        if options.length && options.ranges {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(CommandError::text(text));
        }
        Ok(options)
    }
}

fn reply_ranges(reply: &mut ReplyBuffer, matches: &[Match], total: usize, with_lengths: bool) {
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(2 + usize::from(with_lengths));
        for range in [&found.first, &found.second] {
            reply.array(2);
            reply.integer(*range.start() as i64);
            reply.integer(*range.end() as i64);
        }
        if with_lengths {
            reply.integer(found.bytes() as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(total as i64);
}
