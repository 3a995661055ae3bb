// SPDX-License-Identifier: BSD-3-Clause
//! Commands on t-digests, with the replies and messages of Redis Stack 7.4.

use std::borrow::Cow;

use crate::family::Family;
use braid_base::number::{parse_f64, parse_i64};
use braid_executor::{Call, Row};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_spec::{Category, CommandError, CommandResult, Flags, KeyFlags, KeySpec};
use braid_values::t_digest::value::{COMPRESSION_DEFAULT, TDigest};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
const INSERT: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::INSERT))];
const MERGE: &[KeySpec] = &[
    KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE)),
    KeySpec::counted(2, KeyFlags::RO.and(KeyFlags::ACCESS)),
];
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const READS: Flags = Flags::READONLY;

/// Stock servers report no events of digests but those of keys.
const SILENT: Event = Event { class: 0, name: "tdigest" };

const MISSING: CommandError = CommandError::Text(Cow::Borrowed("ERR T-Digest: key does not exist"));

const FAMILY: Family = Family::of_module(Category::TDIGEST);

/// Rows of the t-digest commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("tdigest.add", add, GROWS, CHANGE)
        .at_least(3)
        .docs("8.0.0", "Adds numbers to a t-digest.", "O(N), where N is the number of numbers")
        .syntax("key:key#0 values:{value:double}..."),
    FAMILY.row("tdigest.byrank", by_rank, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the numbers at given ranks.", "O(N), where N is the number of ranks")
        .syntax("key:key#0 rank:integer..."),
    FAMILY.row("tdigest.byrevrank", by_rev_rank, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the numbers at given ranks from the largest.", "O(N), where N is the number of ranks")
        .syntax("key:key#0 reverse_rank:integer..."),
    FAMILY.row("tdigest.cdf", cdf, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the shares of numbers up to given ones.", "O(N), where N is the number of numbers")
        .syntax("key:key#0 value:double..."),
    FAMILY.row("tdigest.create", create, GROWS.and(Flags::FAST), INSERT)
        .at_least(2)
        .docs("8.0.0", "Creates an empty t-digest.", "O(1)")
        .syntax("key:key#0 [COMPRESSION compression:integer]"),
    FAMILY.row("tdigest.info", info, READS.and(Flags::FAST), READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the properties of a t-digest.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("tdigest.max", max, READS.and(Flags::FAST), READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the largest number of a t-digest.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("tdigest.merge", merge, GROWS.and(Flags::MOVABLE_KEYS), MERGE)
        .at_least(4)
        .docs("8.0.0", "Adds the numbers of t-digests to another one, or stores them alone.", "O(N*K), where N is the number of centroids and K the number of digests")
        .syntax("destination-key:key#0 numkeys:integer source-key:key#1... [COMPRESSION compression:integer] [OVERRIDE]"),
    FAMILY.row("tdigest.min", min, READS.and(Flags::FAST), READ_ONE)
        .exactly(2)
        .docs("8.0.0", "Returns the least number of a t-digest.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("tdigest.quantile", quantile, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the numbers below which given shares of all lie.", "O(N), where N is the number of quantiles")
        .syntax("key:key#0 quantile:double..."),
    FAMILY.row("tdigest.rank", rank, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the ranks of numbers.", "O(N), where N is the number of numbers")
        .syntax("key:key#0 value:double..."),
    FAMILY.row("tdigest.reset", reset, Flags::WRITE.and(Flags::FAST), CHANGE)
        .exactly(2)
        .docs("8.0.0", "Removes all numbers from a t-digest.", "O(1)")
        .syntax("key:key#0"),
    FAMILY.row("tdigest.revrank", rev_rank, READS, READ_ONE)
        .at_least(3)
        .docs("8.0.0", "Returns estimates of the ranks of numbers from the largest.", "O(N), where N is the number of numbers")
        .syntax("key:key#0 value:double..."),
    FAMILY.row("tdigest.trimmed_mean", trimmed_mean, READS, READ_ONE)
        .exactly(4)
        .docs("8.0.0", "Returns an estimate of the mean of the numbers between two quantiles.", "O(N), where N is the number of centroids")
        .syntax("key:key#0 low_cut_quantile:double high_cut_quantile:double"),
];

fn read<'c>(call: &'c Call) -> Result<&'c TDigest, CommandError> {
    call.keyspace.read_as::<TDigest>(call.args[1])?.ok_or(MISSING)
}

fn number(call: &Call, index: usize, refusal: &'static str) -> Result<f64, CommandError> {
    parse_f64(call.args[index]).ok_or(CommandError::text(refusal))
}

/// The numbers from argument 2 on.
fn numbers(call: &Call, refusal: &'static str) -> Result<Vec<f64>, CommandError> {
    (2..call.args.len()).map(|index| number(call, index, refusal)).collect()
}

fn compression(call: &Call, index: usize) -> Result<u32, CommandError> {
    let number = parse_i64(call.args[index])
        .ok_or(CommandError::text("ERR T-Digest: error parsing compression parameter"))?;
    if number < 1 {
        return Err(CommandError::text("ERR T-Digest: compression parameter needs to be a positive integer"));
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn empty(compression: u32) -> Result<TDigest, CommandError> {
    TDigest::new(compression).ok_or(CommandError::text("ERR T-Digest: allocation failed"))
}

fn create(call: &mut Call) -> CommandResult {
    if !matches!(call.args.len(), 2 | 4) {
        return Err(call.wrong_arity());
    }
    let key = call.args[1];
    if call.keyspace.peek_as::<TDigest>(key)?.is_some() {
        return Err(CommandError::text("ERR T-Digest: key already exists"));
    }
    let mut given = COMPRESSION_DEFAULT;
    if call.args.len() == 4 {
        if !call.arg_is(2, "compression") {
            return Err(CommandError::text("ERR T-Digest: wrong keyword"));
        }
        given = compression(call, 3)?;
    }
    call.keyspace.set_object(SILENT, key, Object::new(empty(given)?), Expiry::Clear);
    call.reply.ok();
    Ok(())
}

fn add(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    call.keyspace.peek_as::<TDigest>(key)?.ok_or(MISSING)?;
    let numbers = numbers(call, "ERR T-Digest: error parsing val parameter")?;
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(CommandError::text("ERR T-Digest: val parameter needs to be a finite number"));
    }
    let digest = call.keyspace.write_as::<TDigest>(key)?.ok_or(MISSING)?;
    numbers.iter().for_each(|&number| digest.add(number));
    call.keyspace.finish_change(SILENT, key, numbers.len() as u64, false);
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    call.keyspace.write_as::<TDigest>(key)?.ok_or(MISSING)?.reset();
    call.keyspace.finish_change(SILENT, key, 1, false);
    call.reply.ok();
    Ok(())
}

/// The options of TDIGEST.MERGE from an argument on: compression, and whether to override.
fn merge_options(call: &Call, mut at: usize) -> Result<(Option<u32>, bool), CommandError> {
    let (mut given, mut is_override) = (None, false);
    while at < call.args.len() {
        if call.arg_is(at, "override") {
            is_override = true;
        } else if call.arg_is(at, "compression") {
            at += 1;
            if at >= call.args.len() {
                return Err(call.wrong_arity());
            }
            given = Some(compression(call, at)?);
        } else {
            return Err(CommandError::text("ERR T-Digest: wrong keyword"));
        }
        at += 1;
    }
    Ok((given, is_override))
}

fn merge(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    // Without a valid number of keys none is locked: even the destination must not be looked at.
    let count = parse_i64(call.args[2]).ok_or(CommandError::text("ERR T-Digest: error parsing numkeys"))?;
    if count < 1 {
        return Err(CommandError::text("ERR T-Digest: numkeys needs to be a positive integer"));
    }
    let room = call.args.len() - 3;
    let Some(count) = usize::try_from(count).ok().filter(|&count| count <= room) else {
        return Err(call.wrong_arity());
    };
    let old = call.keyspace.read_as::<TDigest>(key)?;
    let (given, is_override) = merge_options(call, 3 + count)?;
    let mut sources = Vec::with_capacity(count);
    for source in &call.args[3..3 + count] {
        sources.push(call.keyspace.read_as::<TDigest>(source)?.ok_or(MISSING)?);
    }
    let kept = old.filter(|_| !is_override);
    let largest = sources.iter().map(|source| source.head().compression).max();
    let same = kept.map(|kept| kept.head().compression).or(largest);
    let mut merged = empty(given.or(same).unwrap_or(COMPRESSION_DEFAULT))?;
    kept.into_iter().chain(sources).for_each(|source| merged.absorb(source));
    if old.is_some() {
        *call.keyspace.write_as::<TDigest>(key)?.ok_or(MISSING)? = merged;
        call.keyspace.finish_change(SILENT, key, 1, false);
    } else {
        call.keyspace.set_object(SILENT, key, Object::new(merged), Expiry::Clear);
    }
    call.reply.ok();
    Ok(())
}

fn reply_numbers(call: &mut Call, numbers: &[f64]) {
    call.reply.array(numbers.len());
    numbers.iter().for_each(|&number| call.reply.double(number));
}

fn quantile(call: &mut Call) -> CommandResult {
    let digest = read(call)?;
    let shares = numbers(call, "ERR T-Digest: error parsing quantile")?;
    if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
        return Err(CommandError::text("ERR T-Digest: quantile should be in [0,1]"));
    }
    let found: Vec<f64> = shares.iter().map(|&share| digest.quantile(share)).collect();
    reply_numbers(call, &found);
    Ok(())
}

fn cdf(call: &mut Call) -> CommandResult {
    let digest = read(call)?;
    let numbers = numbers(call, "ERR T-Digest: error parsing cdf")?;
    let found: Vec<f64> = numbers.iter().map(|&number| digest.share_below(number)).collect();
    reply_numbers(call, &found);
    Ok(())
}

/// Ranks of the numbers; -2 if there are none, and -1 beyond the end from which ranks are counted.
fn ranks(call: &mut Call, from_largest: bool) -> CommandResult {
    let digest = read(call)?;
    let numbers = numbers(call, "ERR T-Digest: error parsing value")?;
    let (total, head) = (digest.weight(), digest.head());
    let rank = |number: &f64| {
        if digest.is_without_numbers() {
            return -2;
        }
        if *number < head.min {
            return if from_largest { total as i64 } else { -1 };
        }
        if *number > head.max {
            return if from_largest { -1 } else { total as i64 };
        }
        let below = digest.share_below(*number) * total;
        let place = if from_largest { total - below } else { below };
        (place - 0.5).ceil() as i64
    };
    let found: Vec<i64> = numbers.iter().map(rank).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|rank| call.reply.integer(rank));
    Ok(())
}

fn rank(call: &mut Call) -> CommandResult {
    ranks(call, false)
}

fn rev_rank(call: &mut Call) -> CommandResult {
    ranks(call, true)
}

/// Numbers at ranks; an infinity beyond the last.
fn at_ranks(call: &mut Call, from_largest: bool) -> CommandResult {
    let digest = read(call)?;
    let mut found = Vec::with_capacity(call.args.len() - 2);
    for word in &call.args[2..] {
        let rank = parse_i64(word).ok_or(CommandError::text("ERR T-Digest: error parsing rank"))?;
        if rank < 0 {
            return Err(CommandError::text("ERR T-Digest: rank needs to be non negative"));
        }
        let (total, rank) = (digest.weight(), rank as f64);
        found.push(match from_largest {
            _ if digest.is_without_numbers() => f64::NAN,
            true if rank >= total => f64::NEG_INFINITY,
            false if rank >= total => f64::INFINITY,
            true => digest.quantile((total - rank - 1.0) / total),
            false => digest.quantile(rank / total),
        });
    }
    reply_numbers(call, &found);
    Ok(())
}

fn by_rank(call: &mut Call) -> CommandResult {
    at_ranks(call, false)
}

fn by_rev_rank(call: &mut Call) -> CommandResult {
    at_ranks(call, true)
}

fn trimmed_mean(call: &mut Call) -> CommandResult {
    let digest = read(call)?;
    let low = number(call, 2, "ERR T-Digest: error parsing low_cut_percentile")?;
    let high = number(call, 3, "ERR T-Digest: error parsing high_cut_percentile")?;
    if !(0.0..=1.0).contains(&low) || !(0.0..=1.0).contains(&high) {
        const RANGE: &str = "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]";
        return Err(CommandError::text(RANGE));
    }
    if low >= high {
        const ORDER: &str = "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile";
        return Err(CommandError::text(ORDER));
    }
    let mean = digest.trimmed_mean(low, high);
    call.reply.double(mean);
    Ok(())
}

fn extreme(call: &mut Call, is_max: bool) -> CommandResult {
    let digest = read(call)?;
    let extreme = match digest.head() {
        _ if digest.is_without_numbers() => f64::NAN,
        head if is_max => head.max,
        head => head.min,
    };
    call.reply.double(extreme);
    Ok(())
}

fn min(call: &mut Call) -> CommandResult {
    extreme(call, false)
}

fn max(call: &mut Call) -> CommandResult {
    extreme(call, true)
}

fn info(call: &mut Call) -> CommandResult {
    let digest = read(call)?;
    let fields = [
        ("Compression", i64::from(digest.head().compression)),
        ("Capacity", digest.capacity() as i64),
        ("Merged nodes", digest.merged().len() as i64),
        ("Unmerged nodes", digest.waiting().len() as i64),
        ("Merged weight", digest.merged_weight() as i64),
        ("Unmerged weight", digest.waiting_weight() as i64),
        ("Observations", digest.weight() as i64),
        ("Total compressions", digest.head().merges as i64),
        ("Memory usage", (digest.memory_bytes() + size_of::<TDigest>()) as i64),
    ];
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.simple(name);
        call.reply.integer(value);
    }
    Ok(())
}
