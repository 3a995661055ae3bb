// SPDX-License-Identifier: BSD-3-Clause
//! Thresholds between the encodings of the types, as configured: plain numbers, passed to the code
//! that loads or changes a value.

/// Thresholds between the encodings of hashes.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// `hash-max-listpack-entries`: number of fields
    pub max_listpack_entries: usize,
    /// `hash-max-listpack-value`: bytes of a field or a value
    pub max_listpack_value: usize,
}

impl Default for HashLimits {
    fn default() -> Self {
        HashLimits { max_listpack_entries: 512, max_listpack_value: 64 }
    }
}

/// Settings of lists.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// `list-max-listpack-size`: positive, elements per node; negative, -1 to -5 for 4, 8, 16, 32
    /// and 64 KB per node
    pub max_listpack_size: i32,
    /// `list-compress-depth`: nodes at each end that are never compressed; 0 compresses none
    pub compress_depth: usize,
    /// Elements of at least this many bytes get their own node, whatever the other limits are
    /// (`DEBUG QUICKLIST-PACKED-THRESHOLD`)
    pub packed_threshold: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        ListLimits { max_listpack_size: -2, compress_depth: 0, packed_threshold: 1 << 30 }
    }
}

/// A node limited by its number of elements is also limited to this size in bytes.
const SAFE_BYTES: usize = 8192;

impl ListLimits {
    /// Maximum number of bytes in a packed block.
    pub fn node_bytes(&self) -> usize {
        match self.max_listpack_size {
            0.. => SAFE_BYTES,
            class => 4096 << (class.unsigned_abs() - 1).min(4),
        }
    }

    /// Maximum number of elements in a packed block.
    pub fn node_count(&self) -> usize {
        match self.max_listpack_size {
            0.. => (self.max_listpack_size as usize).clamp(1, 32_767),
            _ => usize::MAX,
        }
    }

    /// True if a single packed block of this size is small enough to be the whole list.
    pub fn fits(&self, bytes: usize, count: usize) -> bool {
        bytes <= self.node_bytes() && count <= self.node_count()
    }

    /// True if a node may grow to this size; its allocation is then still a power of two.
    #[inline]
    pub fn node_fits(&self, bytes: usize, count: usize) -> bool {
        bytes + crate::listpack::BLOCK_BYTES <= self.node_bytes() && count <= self.node_count()
    }

    /// True if an element of this length gets its own node.
    #[inline]
    pub fn is_large(&self, length: usize) -> bool {
        length >= self.packed_threshold || length >= self.node_bytes()
    }
}

/// Thresholds between the encodings of sets.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`
    pub max_intset_entries: usize,
    /// `set-max-listpack-entries`
    pub max_listpack_entries: usize,
    /// `set-max-listpack-value`: bytes of a member
    pub max_listpack_value: usize,
}

impl Default for SetLimits {
    fn default() -> Self {
        SetLimits { max_intset_entries: 512, max_listpack_entries: 128, max_listpack_value: 64 }
    }
}

impl SetLimits {
    /// Maximum number of members in a set of integers.
    pub fn intset_entries(&self) -> usize {
        self.max_intset_entries.min(crate::int_set::MAX_LEN)
    }
}

/// Limits for a sorted set in one packed list (`zset-max-listpack-entries` and
/// `zset-max-listpack-value`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLimits {
    /// Maximum number of members.
    pub entries_max: usize,
    /// Longest member in bytes.
    pub value_bytes_max: usize,
}

impl Default for PackedLimits {
    fn default() -> PackedLimits {
        PackedLimits { entries_max: 128, value_bytes_max: 64 }
    }
}

/// The limits at which a block is full (`stream-node-max-bytes`, `stream-node-max-entries`); 0
/// means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes of a block, including the new texts, from which on the next entry starts a new block.
    pub bytes_max: usize,
    /// Entries of a block, including deleted ones.
    pub entries_max: usize,
}

impl Default for BlockLimits {
    fn default() -> BlockLimits {
        BlockLimits { bytes_max: 4096, entries_max: 100 }
    }
}
