// SPDX-License-Identifier: BSD-3-Clause
//! Directives about data types: size limits of compact encodings.

use crate::directive::Unit;
use crate::rows::{INT_MAX, LONG_MAX};

super::directives! {
    "Data types", after cluster;

    /// Maximum number of fields of a hash in compact encoding.
    hash_max_listpack_entries: usize =>
        integer("hash-max-listpack-entries", || 512, 0, LONG_MAX, Unit::Plain)
            .aliases(&["hash-max-ziplist-entries"]);

    /// Maximum size of a field or value of a hash in compact encoding.
    hash_max_listpack_value: usize =>
        integer("hash-max-listpack-value", || 64, 0, LONG_MAX, Unit::Bytes)
            .aliases(&["hash-max-ziplist-value"]);

    /// Maximum size of a list block: a positive number counts elements, -1 to -5 mean 4, 8, 16,
    /// 32 or 64 KiB.
    list_max_listpack_size: i64 =>
        integer("list-max-listpack-size", || -2, -(1 << 31), INT_MAX, Unit::Plain)
            .aliases(&["list-max-ziplist-size"]);

    /// Number of uncompressed blocks at each end of a list; 0 disables compression.
    list_compress_depth: u32 => integer("list-compress-depth", || 0, 0, INT_MAX, Unit::Plain);

    /// Maximum number of members of a set of integers in compact encoding.
    set_max_intset_entries: usize => integer("set-max-intset-entries", || 512, 0, LONG_MAX, Unit::Plain);

    /// Maximum number of members of a set of strings in compact encoding.
    set_max_listpack_entries: usize => integer("set-max-listpack-entries", || 128, 0, LONG_MAX, Unit::Plain);

    /// Maximum size in bytes of a member of a set in compact encoding.
    set_max_listpack_value: usize => integer("set-max-listpack-value", || 64, 0, LONG_MAX, Unit::Plain);

    /// Maximum number of members of a sorted set in compact encoding.
    zset_max_listpack_entries: usize =>
        integer("zset-max-listpack-entries", || 128, 0, LONG_MAX, Unit::Plain)
            .aliases(&["zset-max-ziplist-entries"]);

    /// Maximum size of a member of a sorted set in compact encoding.
    zset_max_listpack_value: usize =>
        integer("zset-max-listpack-value", || 64, 0, LONG_MAX, Unit::Bytes)
            .aliases(&["zset-max-ziplist-value"]);

    /// Maximum size of a HyperLogLog in sparse encoding.
    hll_sparse_max_bytes: usize => integer("hll-sparse-max-bytes", || 3000, 0, LONG_MAX, Unit::Bytes);

    /// Maximum size of a stream block; 0 means no limit.
    stream_node_max_bytes: usize => integer("stream-node-max-bytes", || 4096, 0, LONG_MAX, Unit::Bytes);

    /// Maximum number of entries of a stream block; 0 means no limit.
    stream_node_max_entries: usize => integer("stream-node-max-entries", || 100, 0, LONG_MAX, Unit::Plain);

    /// How long a stream remembers the names that producers give their entries (XADD IDMP), unless
    /// XCFGSET says otherwise.
    stream_idmp_duration: u32 => integer("stream-idmp-duration", || 100, 1, 86_400, Unit::Seconds);

    /// How many such names a stream remembers of each producer.
    stream_idmp_maxsize: u32 => integer("stream-idmp-maxsize", || 100, 1, 10_000, Unit::Plain);

    /// Execute commands of vector sets on one thread. Of Redis 8; here the thread of the
    /// client executes them.
    vset_force_single_threaded_execution: bool =>
        switch("vset-force-single-threaded-execution", false).no_effect_yet();

    /// Maximum time of a search query; then what has been found is returned. 0 means no limit.
    search_timeout: u64 => integer("search-timeout", || 500, 0, LONG_MAX, Unit::Milliseconds);

    /// Minimum length of the prefix in `prefix*`; a shorter one matches nothing.
    search_min_prefix: usize => integer("search-min-prefix", || 2, 1, 64, Unit::Plain);

    /// Maximum number of words that a prefix, a fuzzy word or a pattern stands for.
    search_max_prefix_expansions: usize =>
        integer("search-max-prefix-expansions", || 200, 1, 1 << 24, Unit::Plain);

    /// Maximum offset plus number of results of FT.SEARCH.
    search_max_search_results: usize =>
        integer("search-max-search-results", || 1_000_000, 0, 1 << 24, Unit::Plain);

    /// Maximum number of documents that FT.AGGREGATE reads.
    search_max_aggregate_results: usize =>
        integer("search-max-aggregate-results", || 1_000_000, 1, 1 << 31, Unit::Plain);
}
