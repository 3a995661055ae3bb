// SPDX-License-Identifier: BSD-3-Clause
//! Directives of Redis 8 about new time series and sketches.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ConfigEnum, TsDuplicatePolicy, TsEncoding};
use crate::rows::LONG_MAX;

super::directives! {
    "Time series and sketches", after types;

    /// Target size of the chunks of a new time series, in bytes, a multiple of 8, unless
    /// CHUNK_SIZE says otherwise.
    ts_chunk_size_bytes: u32 =>
        integer("ts-chunk-size-bytes", || 4096, 48, 1 << 20, Unit::Plain).integer_check(checks::multiple_of_8);

    /// What becomes of a sample of a new time series whose time the series has already, unless
    /// DUPLICATE_POLICY says otherwise.
    ts_duplicate_policy: TsDuplicatePolicy =>
        choice("ts-duplicate-policy", TsDuplicatePolicy::Block.raw(), TsDuplicatePolicy::WORDS);

    /// How much older than its last sample the samples of a new time series may become, unless
    /// RETENTION says otherwise. 0 keeps all.
    ts_retention_policy: u64 => integer("ts-retention-policy", || 0, 0, LONG_MAX, Unit::Milliseconds);

    /// Samples of a new time series under the duplicate policy `last` that follow the last one by
    /// at most so much time, and differ from it by at most `ts-ignore-max-val-diff`, are left out,
    /// unless IGNORE says otherwise.
    ts_ignore_max_time_diff: u64 =>
        integer("ts-ignore-max-time-diff", || 0, 0, LONG_MAX, Unit::Milliseconds);

    /// See `ts-ignore-max-time-diff`.
    ts_ignore_max_val_diff: text => text("ts-ignore-max-val-diff", "0.0").text_check(checks::difference);

    /// Compaction rules of series that TS.ADD and its kin create. Of Redis 8; rules are made by
    /// TS.CREATERULE here, since a request may only create keys that it names.
    ts_compaction_policy: text => text("ts-compaction-policy", "").no_effect_yet();

    /// Encoding of the series that `ts-compaction-policy` creates.
    ts_encoding: TsEncoding =>
        choice("ts-encoding", TsEncoding::Compressed.raw(), TsEncoding::WORDS).no_effect_yet();

    /// Threads of queries over several series. Of Redis 8; here the threads of clients execute
    /// them.
    ts_num_threads: u32 => integer("ts-num-threads", || 3, 1, 16, Unit::Plain).no_effect_yet();

    /// Share of false positives of a new Bloom filter, between 0 and 1, unless the request states
    /// it. More than 0.25 counts as 0.25.
    bf_error_rate: text => text("bf-error-rate", "0.01").text_check(checks::error_rate);

    /// Capacity of a new Bloom filter, unless the request states it.
    bf_initial_size: u64 => integer("bf-initial-size", || 100, 1, 1 << 20, Unit::Plain);

    /// How much larger each further layer of a new Bloom filter is than the one before, unless the
    /// request states it; 0: there is none.
    bf_expansion_factor: u32 => integer("bf-expansion-factor", || 2, 0, 32_768, Unit::Plain);

    /// Capacity of a new cuckoo filter, unless the request states it; at least twice
    /// `cf-bucket-size`.
    cf_initial_size: u64 => integer("cf-initial-size", || 1024, 2, 1 << 20, Unit::Plain);

    /// Items of a bucket of a new cuckoo filter, unless the request states them.
    cf_bucket_size: u16 => integer("cf-bucket-size", || 2, 1, 255, Unit::Plain);

    /// How often adding an item to a new cuckoo filter moves others, at most, unless the request
    /// states it.
    cf_max_iterations: u16 => integer("cf-max-iterations", || 20, 1, 65_535, Unit::Plain);

    /// How much larger each further part of a new cuckoo filter is than the one before, unless the
    /// request states it.
    cf_expansion_factor: u16 => integer("cf-expansion-factor", || 1, 0, 32_768, Unit::Plain);

    /// Number of parts after which a cuckoo filter takes no more items. Of Redis 8; here it is 32.
    cf_max_expansions: u16 => integer("cf-max-expansions", || 32, 1, 65_535, Unit::Plain).no_effect_yet();
}
