// SPDX-License-Identifier: BSD-3-Clause
//! Commands on time series, with the replies and messages of Redis Stack 7.4.
//!
//! ```text
//! mod.rs        rows
//! arguments.rs  options, times and numbers in requests
//! write.rs      TS.CREATE, ALTER, ADD, MADD, INCRBY, DECRBY, DEL
//! rules.rs      TS.CREATERULE, DELETERULE, and what rules do to their targets
//! read.rs       TS.GET, RANGE, REVRANGE, READ, INFO
//! nrange.rs     TS.NRANGE, NREVRANGE
//! many.rs       TS.QUERYINDEX, QUERYLABELS, MGET, MRANGE, MREVRANGE
//! filter.rs     filters of labels
//! reply.rs      samples and numbers in replies
//! ```

mod arguments;
mod filter;
mod many;
mod nrange;
mod read;
mod reply;
mod rules;
mod write;

use crate::family::Family;
use braid_executor::Row;
use braid_spec::{Category, Flags, KeyFlags, KeySpec, Scope};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const CHANGE_MANY: &[KeySpec] =
    &[KeySpec::range(1, -1, 3, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const CHANGE_TWO: &[KeySpec] =
    &[KeySpec::range(1, 1, 1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const READ_SEVERAL: &[KeySpec] = &[KeySpec::counted(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const NO_KEYS: &[KeySpec] = &[];
const READS: Flags = Flags::READONLY;
const WRITES: Flags = Flags::WRITE;
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);

macro_rules! settings {
    () => {
        "[RETENTION retention:integer] [ENCODING encoding:(UNCOMPRESSED|COMPRESSED)] [CHUNK_SIZE size:integer] [DUPLICATE_POLICY policy:(BLOCK|FIRST|LAST|MIN|MAX|SUM)] "
    };
}
macro_rules! labels {
    () => {
        "[IGNORE ignore:{maxtimediff:integer maxvaldiff:double}] [LABELS labels:{label:string value:string}...]"
    };
}
macro_rules! range {
    () => {
        "fromtimestamp:string totimestamp:string [LATEST] [FILTER_BY_TS timestamp:integer...] [FILTER_BY_VALUE values:{min:double max:double}] "
    };
}
macro_rules! buckets {
    () => {
        "[COUNT count:integer] [aggregation:{[ALIGN align:string] AGGREGATION aggregator:(AVG|FIRST|LAST|MIN|MAX|SUM|RANGE|COUNT|std-p=STD.P|std-s=STD.S|var-p=VAR.P|var-s=VAR.S|TWA) bucketduration:integer [BUCKETTIMESTAMP buckettimestamp:string] [EMPTY]}]"
    };
}
macro_rules! columns {
    () => {
        "[COUNT count:integer] [aggregation:{[ALIGN align:string] AGGREGATION aggregators:string... bucketduration:integer [BUCKETTIMESTAMP buckettimestamp:string] [EMPTY]}]"
    };
}

const FAMILY: Family = Family::of_module(Category::TIMESERIES);

/// Rows of the time series commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("ts.add", write::add, GROWS, CHANGE).at_least(4)
        .docs("8.0.0", "Adds a sample to a time series; creates the series if it does not exist.", "O(M), where M is the number of compaction rules, or O(1) without any")
        .syntax(concat!("key:key#0 timestamp:string value:double ", settings!(), "[ON_DUPLICATE policy_ovr:(BLOCK|FIRST|LAST|MIN|MAX|SUM)] ", labels!())),
    FAMILY.row("ts.alter", write::alter, GROWS, CHANGE).at_least(2)
        .docs("8.0.0", "Changes the settings and labels of a time series.", "O(N), where N is the number of labels that change")
        .syntax(concat!("key:key#0 [RETENTION retention:integer] [CHUNK_SIZE size:integer] [DUPLICATE_POLICY policy:(BLOCK|FIRST|LAST|MIN|MAX|SUM)] ", labels!())),
    FAMILY.row("ts.create", write::create, GROWS, CHANGE).at_least(2)
        .docs("8.0.0", "Creates a time series.", "O(1)")
        .syntax(concat!("key:key#0 ", settings!(), labels!())),
    FAMILY.row("ts.createrule", rules::create, GROWS, CHANGE_TWO).at_least(6)
        .docs("8.0.0", "Creates a compaction rule: the buckets of one series become samples of another.", "O(1)")
        .syntax("sourcekey:key#0 destkey:key#0 aggregation:{AGGREGATION aggregator:(AVG|FIRST|LAST|MIN|MAX|SUM|RANGE|COUNT|std-p=STD.P|std-s=STD.S|var-p=VAR.P|var-s=VAR.S|TWA) bucketduration:integer} [aligntimestamp:integer]"),
    FAMILY.row("ts.decrby", write::decrby, GROWS, CHANGE).at_least(3)
        .docs("8.0.0", "Adds a sample whose value is less than the last one by a difference; creates the series if it does not exist.", "O(M), where M is the number of compaction rules, or O(1) without any")
        .syntax(concat!("key:key#0 subtrahend:double [TIMESTAMP timestamp:string] ", settings!(), labels!())),
    FAMILY.row("ts.del", write::del, WRITES, CHANGE).exactly(4)
        .docs("8.0.0", "Deletes the samples between two times.", "O(N), where N is the number of samples in the chunks that are concerned")
        .syntax("key:key#0 from_timestamp:integer to_timestamp:integer"),
    FAMILY.row("ts.deleterule", rules::delete, WRITES, CHANGE_TWO).exactly(3)
        .docs("8.0.0", "Deletes a compaction rule.", "O(1)")
        .syntax("sourcekey:key#0 destkey:key#0"),
    FAMILY.row("ts.get", read::get, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the last sample of a time series.", "O(1)")
        .syntax("key:key#0 [LATEST]"),
    FAMILY.row("ts.incrby", write::incrby, GROWS, CHANGE).at_least(3)
        .docs("8.0.0", "Adds a sample whose value is greater than the last one by a difference; creates the series if it does not exist.", "O(M), where M is the number of compaction rules, or O(1) without any")
        .syntax(concat!("key:key#0 addend:double [TIMESTAMP timestamp:string] ", settings!(), labels!())),
    FAMILY.row("ts.info", read::info, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the settings and sizes of a time series.", "O(1), or O(N) with DEBUG, where N is the number of chunks")
        .syntax("key:key#0 [DEBUG]"),
    FAMILY.row("ts.madd", write::madd, GROWS, CHANGE_MANY).at_least(4)
        .docs("8.0.0", "Adds samples to time series.", "O(N*M), where N is the number of samples and M is the number of compaction rules, or O(N) without any")
        .syntax("ktv:{key:key#0 timestamp:string value:double}..."),
    FAMILY.row("ts.mget", many::mget, READS, NO_KEYS).at_least(3).scope(Scope::Walk)
        .docs("8.0.0", "Returns the last samples of the time series with given labels.", "O(n), where n is the number of time series that match the filters")
        .syntax("[LATEST] [labels:(WITHLABELS|SELECTED_LABELS label:string...)] FILTER filterexpr:string..."),
    FAMILY.row("ts.mrange", many::mrange, READS, NO_KEYS).at_least(4).scope(Scope::Walk)
        .docs("8.0.0", "Returns the samples between two times of the time series with given labels, or aggregated ones.", "O(n/m+k), where n is the number of samples, m is the size of a chunk and k is the number of samples in the ranges")
        .syntax(concat!(range!(), "[labels:(WITHLABELS|SELECTED_LABELS label:string...)] ", buckets!(), " FILTER filterexpr:string... [group:{GROUPBY label:string REDUCE reducer:string}]")),
    FAMILY.row("ts.mrevrange", many::mrevrange, READS, NO_KEYS).at_least(4).scope(Scope::Walk)
        .docs("8.0.0", "Returns the samples between two times of the time series with given labels, or aggregated ones, from the last one on.", "O(n/m+k), where n is the number of samples, m is the size of a chunk and k is the number of samples in the ranges")
        .syntax(concat!(range!(), "[labels:(WITHLABELS|SELECTED_LABELS label:string...)] ", buckets!(), " FILTER filterexpr:string... [group:{GROUPBY label:string REDUCE reducer:string}]")),
    FAMILY.row("ts.nrange", nrange::nrange, READS.and(Flags::MOVABLE_KEYS), READ_SEVERAL).at_least(5)
        .docs("8.10.0", "Returns the samples between two times of several time series, or aggregated ones, in a row for each time.", "O(numkeys*(n/m+k)), where n is the number of samples, m is the size of a chunk and k is the number of samples in the range")
        .syntax(concat!("numkeys:integer key:key#0... ", range!(), columns!())),
    FAMILY.row("ts.nrevrange", nrange::nrevrange, READS.and(Flags::MOVABLE_KEYS), READ_SEVERAL).at_least(5)
        .docs("8.10.0", "Returns the samples between two times of several time series, or aggregated ones, in a row for each time, from the last one on.", "O(numkeys*(n/m+k)), where n is the number of samples, m is the size of a chunk and k is the number of samples in the range")
        .syntax(concat!("numkeys:integer key:key#0... ", range!(), columns!())),
    FAMILY.row("ts.queryindex", many::queryindex, READS, NO_KEYS).at_least(2).scope(Scope::Walk)
        .docs("8.0.0", "Returns the keys of the time series with given labels.", "O(n), where n is the number of time series that match the filters")
        .syntax("filterexpr:string..."),
    FAMILY.row("ts.querylabels", many::querylabels, READS, NO_KEYS).at_least(2).scope(Scope::Walk)
        .docs("8.10.0", "Returns the names of labels, or the values of a label, of time series.", "O(n), where n is the number of time series that match the filters, or of all that have labels")
        .syntax("subtype:(LABELS|VALUES label:string) [FILTER filterexpr:string...]"),
    FAMILY.row("ts.range", read::range, READS, READ_ONE).at_least(4)
        .docs("8.0.0", "Returns the samples between two times, or aggregated ones.", "O(n/m+k), where n is the number of samples, m is the size of a chunk and k is the number of samples in the range")
        .syntax(concat!("key:key#0 ", range!(), buckets!())),
    FAMILY.row("ts.read", read::read, READS, READ_ONE).at_least(3).locks_exclusively(read::may_wait)
        .docs("8.10.0", "Returns samples of a time series from a time on; may wait until there are enough.", "O(log(n)+k) where n is the number of samples in the series and k is the number of returned samples")
        .syntax("key:key#0 timestamp:string [block:{BLOCK milliseconds:integer min_count:integer}] [MAX_COUNT max_count:integer]"),
    FAMILY.row("ts.revrange", read::revrange, READS, READ_ONE).at_least(4)
        .docs("8.0.0", "Returns the samples between two times, or aggregated ones, from the last one on.", "O(n/m+k), where n is the number of samples, m is the size of a chunk and k is the number of samples in the range")
        .syntax(concat!("key:key#0 ", range!(), buckets!())),
];
