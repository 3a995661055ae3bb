// SPDX-License-Identifier: BSD-3-Clause
//! MEMORY: memory of keys and of the server, and allocator statistics.

use std::fmt::Write;

use braid_base::number;
use braid_executor::{Call, Row};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec, Scope};

use super::memory_report::{Report, Share};
use super::{BY_SUBCOMMAND, HELP, HELP_SUMMARY, allocator};

pub const MEMORY: Row = Row::container("memory", Group::Server, SUBCOMMANDS).docs(
    "4.0.0",
    "Groups the commands that report memory usage.",
    BY_SUBCOMMAND,
);

const REPORT: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
const SLOW: &str = "Depends on how much memory is allocated, could be slow";

const SUBCOMMANDS: &[Row] = &[
    Row::new("doctor", Group::Server, doctor)
        .exactly(2)
        .scope(Scope::Walk)
        .docs("4.0.0", "Returns a report on how memory is used, with advice.", "O(1)")
        .tips(REPORT),
    Row::new("help", Group::Server, help).exactly(2).flags(HELP).docs("4.0.0", HELP_SUMMARY, "O(1)"),
    Row::new("malloc-stats", Group::Server, malloc_stats)
        .exactly(2)
        .docs("4.0.0", "Returns the allocator's own report.", SLOW)
        .tips(REPORT),
    Row::new("purge", Group::Server, purge)
        .exactly(2)
        .docs("4.0.0", "Makes the allocator return unused pages, and starts a pass of defragmentation.", SLOW)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Row::new("stats", Group::Server, stats)
        .exactly(2)
        .scope(Scope::Walk)
        .docs("4.0.0", "Returns memory usage figures.", "O(1)")
        .tips(REPORT),
    Row::new("usage", Group::Server, usage)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::at(2, KeyFlags::RO)])
        .docs(
            "4.0.0",
            "Returns the memory used by a key and its value.",
            "O(N) where N is the number of samples.",
        )
        .syntax("key:key#0 [SAMPLES count:integer]"),
];

/// A key's bytes in its table, averaged over half-full to full segments.
const SLOT_BYTES: usize = 12;

/// Every value keeps its own size, so no sampling is needed; the option is still validated.
fn usage(call: &mut Call) -> CommandResult {
    let mut options = call.args[3..].iter();
    while let Some(option) = options.next() {
        let value = option.eq_ignore_ascii_case(b"samples").then(|| options.next()).flatten();
        let value = value.ok_or(CommandError::Syntax)?;
        if number::parse_i64(value).ok_or(CommandError::NotAnInteger)? < 0 {
            return Err(CommandError::Syntax);
        }
    }
    match call.keyspace.peek(call.args[2]) {
        Some(entry) => {
            let bytes = entry.memory_bytes() + SLOT_BYTES;
            call.reply.integer(bytes as i64);
        }
        None => call.reply.null(),
    }
    Ok(())
}

fn stats(call: &mut Call) -> CommandResult {
    let report = Report::take(call.engine);
    let is_redis_8 = call.engine.process.follows_redis_8();
    let scripts = crate::scripting::figures(call.engine);
    let reply = &mut *call.reply;
    reply.map(if is_redis_8 { 33 } else { 27 } + report.databases.len());
    let mut integer = |name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    integer("peak.allocated", report.basics.peak as i64);
    integer("total.allocated", report.basics.total as i64);
    integer("startup.allocated", report.startup as i64);
    let backlog = call.engine.keyspace.journal.backlog().map_or(0, |kept| kept.len);
    integer("replication.backlog", backlog as i64);
    if is_redis_8 {
        // Changes that arrive during a full sync are counted with the link's buffers.
        integer("replica.fullsync.buffer", 0);
    }
    integer("clients.slaves", 0);
    integer("clients.normal", report.clients as i64);
    integer("cluster.links", 0);
    integer("aof.buffer", call.engine.keyspace.journal.memory_bytes() as i64);
    integer("lua.caches", 0);
    integer("functions.caches", 0);
    if is_redis_8 {
        integer("script.VMs", (scripts.script_vm_bytes + scripts.function_vm_bytes) as i64);
    }
    for database in &report.databases {
        reply.bulk(format!("db.{}", database.index).as_bytes());
        // Expiries live in the entries and keys are not listed by slot: only the table itself is
        // overhead.
        let parts = [("main", database.table_bytes), ("expires", 0), ("slot-to-keys", 0)];
        let parts = &parts[..if is_redis_8 { 2 } else { 3 }];
        reply.map(parts.len());
        for (name, bytes) in parts {
            reply.bulk(format!("overhead.hashtable.{name}").as_bytes());
            reply.integer(*bytes as i64);
        }
    }
    let mut integer = |name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    if is_redis_8 {
        let tables: usize = report.databases.iter().map(|database| database.table_bytes).sum();
        integer("overhead.db.hashtable.lut", tables as i64);
        // Tables grow in place, in small steps.
        integer("overhead.db.hashtable.rehashing", 0);
    }
    integer("overhead.total", report.overhead as i64);
    if is_redis_8 {
        integer("db.dict.rehashing.count", 0);
    }
    integer("keys.count", report.keys as i64);
    integer("keys.bytes-per-key", report.bytes_per_key as i64);
    integer("dataset.bytes", report.dataset as i64);
    let mut double = |name: &str, value: f64| {
        reply.bulk(name.as_bytes());
        reply.double(value);
    };
    double("dataset.percentage", report.dataset_percent);
    double("peak.percentage", report.peak_percent);
    let mut integer = |name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    integer("allocator.allocated", report.basics.allocator.allocated as i64);
    integer("allocator.active", report.basics.allocator.active as i64);
    integer("allocator.resident", report.basics.allocator.resident as i64);
    if is_redis_8 {
        integer("allocator.muzzy", report.basics.allocator.muzzy as i64);
    }
    let mut both = |ratio: &str, bytes: &str, share: Share| {
        reply.bulk(ratio.as_bytes());
        reply.double(share.ratio);
        reply.bulk(bytes.as_bytes());
        reply.integer(share.bytes);
    };
    both(
        "allocator-fragmentation.ratio",
        "allocator-fragmentation.bytes",
        report.basics.allocator_fragmentation(),
    );
    both("allocator-rss.ratio", "allocator-rss.bytes", report.allocator_resident());
    both("rss-overhead.ratio", "rss-overhead.bytes", report.resident_overhead());
    both("fragmentation", "fragmentation.bytes", report.basics.fragmentation());
    Ok(())
}

fn malloc_stats(call: &mut Call) -> CommandResult {
    call.reply.verbatim("txt", &allocator::report());
    Ok(())
}

fn purge(call: &mut Call) -> CommandResult {
    call.engine.keyspace.defrag.request();
    if !allocator::purge() {
        return Err(CommandError::text("ERR Error purging dirty pages"));
    }
    call.reply.ok();
    Ok(())
}

fn doctor(call: &mut Call) -> CommandResult {
    let report = Report::take(call.engine);
    let clients = call.engine.clients.registry.count();
    call.reply.verbatim("txt", diagnose(&report, clients).as_bytes());
    Ok(())
}

/// Below this size there is nothing to report.
const SMALL_BYTES: usize = 5 << 20;
/// Less waste than this is not worth a remark, whatever the ratio.
const WASTE_BYTES_MIN: i64 = 10 << 20;
/// Bytes per client above which buffers deserve a look.
const CLIENT_BYTES_MAX: usize = 200 << 10;

fn diagnose(report: &Report, clients: usize) -> String {
    if report.basics.total < SMALL_BYTES {
        return "The server uses hardly any memory; there is nothing to examine yet.\n".to_owned();
    }
    let wasteful = |share: Share, ratio: f64| share.ratio > ratio && share.bytes > WASTE_BYTES_MIN;
    let mut text = String::new();
    let mut remark = |title: &str, advice: &str| {
        let _ = writeln!(text, " * {title}: {advice}");
    };
    if report.basics.peak as f64 / report.basics.total as f64 > 1.5 {
        remark(
            "Peak memory",
            "memory usage once peaked at more than one and a half times the present amount. Pages from \
             that time may still be partly in use; they will be reused. MEMORY PURGE returns the free \
             ones.",
        );
    }
    if wasteful(report.basics.fragmentation(), 1.4) {
        remark(
            "Physical memory",
            "the process occupies much more memory than it uses. The other remarks state the cause; after \
             a peak this is harmless.",
        );
    }
    if wasteful(report.basics.allocator_fragmentation(), 1.1) {
        remark(
            "Fragmentation",
            "pages in use are partly empty, as after deleting many values of mixed sizes. MEMORY PURGE \
             starts a pass of defragmentation; activedefrag does so by itself above its thresholds.",
        );
    }
    if wasteful(report.allocator_resident(), 1.1) {
        remark("Free pages", "the allocator holds unused pages. MEMORY PURGE returns them.");
    }
    if wasteful(report.resident_overhead(), 1.1) {
        remark(
            "Other memory",
            "much of the process's memory is outside the allocator: check stacks and libraries.",
        );
    }
    if report.clients / clients.max(1) > CLIENT_BYTES_MAX {
        remark(
            "Client buffers",
            "clients use more than 200 KiB each on average. Check CLIENT LIST for clients that do not read \
             their replies or pipeline heavily.",
        );
    }
    if text.is_empty() {
        return "No problem found with the use of memory.\n".to_owned();
    }
    format!("Remarks on the use of memory:\n\n{text}")
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "DOCTOR",
        "    A report on how memory is used, with advice.",
        "MALLOC-STATS",
        "    The report of the memory allocator.",
        "PURGE",
        "    Return unused pages to the operating system.",
        "STATS",
        "    Memory usage figures.",
        "USAGE <key> [SAMPLES <count>]",
        "    Bytes used by <key> and its value. SAMPLES is accepted; sizes are always exact.",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::memory_report::Basics;

    fn report(total: usize) -> Report {
        let allocator = allocator::Figures { allocated: total, active: total, resident: total, muzzy: 0 };
        Report {
            basics: Basics { total, peak: total, allocator, resident: total },
            startup: 0,
            peak_percent: 100.0,
            clients: 0,
            databases: Vec::new(),
            keys: 0,
            bytes_per_key: 0,
            overhead: 0,
            dataset: total,
            dataset_percent: 100.0,
        }
    }

    #[test]
    fn memory_doctor_reports_only_actual_problems() {
        assert!(diagnose(&report(1 << 20), 1).contains("hardly any"));
        assert!(diagnose(&report(100 << 20), 1).contains("No problem"));
        let mut sick = report(100 << 20);
        sick.basics.peak = 200 << 20;
        sick.clients = 10 << 20;
        sick.basics.resident = 150 << 20;
        let text = diagnose(&sick, 2);
        for title in ["Peak memory", "Physical memory", "Other memory", "Client buffers"] {
            assert!(text.contains(title), "{title} in {text}");
        }
        assert!(!text.contains("Fragmentation") && !text.contains("Free pages"));
    }
}
