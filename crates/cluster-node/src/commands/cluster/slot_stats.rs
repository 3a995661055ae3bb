// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER SLOT-STATS: the keys in the slots of this node's shard, and the slots' cost.
//!
//! Keys are always counted. Processor time and traffic are reported while
//! `cluster-slot-stats-enabled` turns on their counting. Redis's ORDERBY MEMORY-BYTES computes the
//! memory of the keys on request; no state is kept for it.

use std::cmp::Reverse;

use braid_base::clock::unix_ms;
use braid_base::crc::HASH_SLOTS;
use braid_executor::background::Answer;
use braid_executor::{Call, Engine, settings};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_telemetry::SlotCost;

use super::node_of;
use super::slots::as_slot;

/// A metric of slots, under its name in replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    KeyCount,
    CpuUsec,
    BytesIn,
    BytesOut,
    MemoryBytes,
}

impl Metric {
    const ALL: [Metric; 5] =
        [Metric::KeyCount, Metric::CpuUsec, Metric::BytesIn, Metric::BytesOut, Metric::MemoryBytes];

    fn name(self) -> &'static str {
        match self {
            Metric::KeyCount => "key-count",
            Metric::CpuUsec => "cpu-usec",
            Metric::BytesIn => "network-bytes-in",
            Metric::BytesOut => "network-bytes-out",
            Metric::MemoryBytes => "memory-bytes",
        }
    }

    /// The value by which slots are ordered.
    fn of(self, figures: &Figures) -> u64 {
        match self {
            Metric::KeyCount => figures.keys as u64,
            Metric::CpuUsec => figures.cost.nanos / 1000,
            Metric::BytesIn => figures.cost.bytes_in,
            Metric::BytesOut => figures.cost.bytes_out,
            Metric::MemoryBytes => figures.bytes as u64,
        }
    }
}

/// A slot's statistics.
#[derive(Clone, Copy)]
pub struct Figures {
    pub slot: u16,
    /// Number of keys in all databases.
    pub keys: usize,
    pub cost: SlotCost,
    /// Memory of the keys; 0 unless requested.
    bytes: usize,
}

impl Figures {
    fn of(engine: &Engine, slot: u16) -> Figures {
        let keyspace = &engine.keyspace;
        let keys = (0..keyspace.databases()).map(|db| keyspace.slot_len(slot, db)).sum();
        Figures { slot, keys, cost: engine.telemetry.slot_stats.of(slot), bytes: 0 }
    }
}

/// Statistics of the slots of this node's shard.
pub fn figures(engine: &Engine) -> Vec<Figures> {
    own_slots(engine, 0, HASH_SLOTS - 1).map(|slot| Figures::of(engine, slot)).collect()
}

fn own_slots(engine: &Engine, first: u16, last: u16) -> impl Iterator<Item = u16> + use<> {
    let view = engine.cluster_view();
    (first..=last).filter(move |&slot| view.as_ref().is_none_or(|view| view.owns(slot)))
}

/// The slots that SLOT-STATS reports, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Range(u16, u16),
    By { metric: Metric, limit: usize, ascending: bool },
}

impl Filter {
    fn parse(call: &Call) -> Result<Filter, CommandError> {
        if call.arg_is(2, "slotsrange") && call.args.len() == 5 {
            let slot = |index: usize| {
                let slot = call.integer_arg(index).ok().and_then(as_slot);
                slot.ok_or(CommandError::text("ERR Invalid or out of range slot"))
            };
            let (start, end) = (slot(3)?, slot(4)?);
            if start > end {
                return Err(CommandError::text(format!(
                    "ERR Start slot number {start} is greater than end slot number {end}"
                )));
            }
            return Ok(Filter::Range(start, end));
        }
        if !call.arg_is(2, "orderby") {
            return Err(call.unknown_subcommand());
        }
        let counts = settings::counts_slots(call.engine);
        let is_told = |metric: Metric| counts || matches!(metric, Metric::KeyCount | Metric::MemoryBytes);
        let metric = Metric::ALL.into_iter().find(|metric| call.arg_is(3, metric.name()));
        let metric = metric.filter(|metric| is_told(*metric));
        let metric = metric.ok_or(CommandError::text("ERR Unrecognized sort metric for ORDERBY."))?;
        let (mut limit, mut ascending, mut index) = (None, None, 4);
        while index < call.args.len() {
            let repeated = if call.arg_is(index, "limit") && index + 1 < call.args.len() {
                index += 1;
                let most = i64::from(HASH_SLOTS);
                let given = call.integer_arg(index).ok().filter(|given| (1..=most).contains(given));
                let given = given.ok_or(CommandError::text(
                    "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                ))?;
                limit.replace(given as usize).is_some()
            } else if call.arg_is(index, "asc") || call.arg_is(index, "desc") {
                ascending.replace(call.arg_is(index, "asc")).is_some()
            } else {
                return Err(CommandError::Syntax);
            };
            if repeated {
                return Err(CommandError::text("ERR Multiple filters of the same type are disallowed."));
            }
            index += 1;
        }
        let (limit, ascending) = (limit.unwrap_or(usize::from(HASH_SLOTS)), ascending.unwrap_or(false));
        Ok(Filter::By { metric, limit, ascending })
    }

    fn wants_memory(self) -> bool {
        matches!(self, Filter::By { metric: Metric::MemoryBytes, .. })
    }

    fn apply(self, mut figures: Vec<Figures>) -> Vec<Figures> {
        let Filter::By { metric, limit, ascending } = self else { return figures };
        // Ties are ordered by slot number.
        match ascending {
            true => figures.sort_by_key(|one| metric.of(one)),
            false => figures.sort_by_key(|one| Reverse(metric.of(one))),
        }
        figures.truncate(limit);
        figures
    }
}

pub(super) fn slot_stats(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let filter = Filter::parse(call)?;
    if filter.wants_memory() {
        if !call.may_leave(false) {
            return Err(CommandError::text(
                "ERR ORDERBY MEMORY-BYTES is not allowed in a transaction or script",
            ));
        }
        return call.work_in_background(move |engine, answer| weigh(engine, answer, filter));
    }
    let (first, last) = match filter {
        Filter::Range(first, last) => (first, last),
        Filter::By { .. } => (0, HASH_SLOTS - 1),
    };
    let engine = call.engine;
    let figures = own_slots(engine, first, last).map(|slot| Figures::of(engine, slot)).collect();
    tell(call.reply, &filter.apply(figures), settings::counts_slots(engine), false);
    Ok(())
}

/// Replies with the memory of slots' keys: slot by slot, each at a single moment.
fn weigh(engine: &Engine, answer: Answer, filter: Filter) {
    let (reader, databases) = (engine.keyspace.reader(), engine.keyspace.databases());
    let mut figures = figures(engine);
    for one in &mut figures {
        if !answer.is_wanted() {
            return;
        }
        for db in 0..databases {
            reader.visit_shard(u32::from(one.slot), db, unix_ms(), |entry| one.bytes += entry.memory_bytes());
        }
    }
    drop(reader);
    let mut reply = answer.buffer();
    tell(&mut reply, &filter.apply(figures), settings::counts_slots(engine), true);
    answer.give(reply);
}

fn tell(reply: &mut ReplyBuffer, figures: &[Figures], counts: bool, has_memory: bool) {
    let told = |metric: &Metric| match metric {
        Metric::KeyCount => true,
        Metric::CpuUsec | Metric::BytesIn | Metric::BytesOut => counts,
        Metric::MemoryBytes => has_memory,
    };
    let metrics: Vec<Metric> = Metric::ALL.into_iter().filter(told).collect();
    reply.array(figures.len());
    for one in figures {
        reply.array(2);
        reply.integer(i64::from(one.slot));
        reply.map(metrics.len());
        for metric in &metrics {
            reply.bulk(metric.name().as_bytes());
            reply.integer(i64::try_from(metric.of(one)).unwrap_or(i64::MAX));
        }
    }
}
