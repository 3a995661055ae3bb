// SPDX-License-Identifier: BSD-3-Clause
//! Directives about values: up to which size a collection keeps its compact form.

use crate::directive::Unit;
use crate::rows::{INT_MAX, LONG_MAX};

super::directives! {
    "Data types", after cluster;

    /// Most fields of a hash in compact form.
    hash_max_listpack_entries: usize =>
        integer("hash-max-listpack-entries", || 512, 0, LONG_MAX, Unit::Plain)
            .aliases(&["hash-max-ziplist-entries"]);

    /// Longest field or value of a hash in compact form.
    hash_max_listpack_value: usize =>
        integer("hash-max-listpack-value", || 64, 0, LONG_MAX, Unit::Bytes)
            .aliases(&["hash-max-ziplist-value"]);

    /// Size of a block of a list: a positive number counts elements, -1 to -5 mean 4, 8, 16, 32 or
    /// 64 kilobytes.
    list_max_listpack_size: i64 =>
        integer("list-max-listpack-size", || -2, -(1 << 31), INT_MAX, Unit::Plain)
            .aliases(&["list-max-ziplist-size"]);

    /// Blocks at each end of a list that stay uncompressed; 0 compresses none.
    list_compress_depth: u32 => integer("list-compress-depth", || 0, 0, INT_MAX, Unit::Plain);

    /// Most members of a set of integers in compact form.
    set_max_intset_entries: usize => integer("set-max-intset-entries", || 512, 0, LONG_MAX, Unit::Plain);

    /// Most members of a set of texts in compact form.
    set_max_listpack_entries: usize => integer("set-max-listpack-entries", || 128, 0, LONG_MAX, Unit::Plain);

    /// Longest member of a set in compact form.
    set_max_listpack_value: usize => integer("set-max-listpack-value", || 64, 0, LONG_MAX, Unit::Plain);

    /// Most members of a sorted set in compact form.
    zset_max_listpack_entries: usize =>
        integer("zset-max-listpack-entries", || 128, 0, LONG_MAX, Unit::Plain)
            .aliases(&["zset-max-ziplist-entries"]);

    /// Longest member of a sorted set in compact form.
    zset_max_listpack_value: usize =>
        integer("zset-max-listpack-value", || 64, 0, LONG_MAX, Unit::Bytes)
            .aliases(&["zset-max-ziplist-value"]);

    /// Largest HyperLogLog in sparse form.
    hll_sparse_max_bytes: usize => integer("hll-sparse-max-bytes", || 3000, 0, LONG_MAX, Unit::Bytes);

    /// Most bytes of a block of a stream; 0 means no limit.
    stream_node_max_bytes: usize => integer("stream-node-max-bytes", || 4096, 0, LONG_MAX, Unit::Bytes);

    /// Most entries of a block of a stream; 0 means no limit.
    stream_node_max_entries: usize => integer("stream-node-max-entries", || 100, 0, LONG_MAX, Unit::Plain);
}
