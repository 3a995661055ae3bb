// SPDX-License-Identifier: BSD-3-Clause
//! Size limits of compact encodings, as configured now.

use std::sync::atomic::Ordering::Relaxed;

use braid_config::RdbTarget;
use braid_containers::limits::{HashLimits, ListLimits, PackedLimits, SetLimits};
use braid_rdb::Limits;

use crate::engine::Engine;

/// Limits of all types, for loading values.
pub fn limits(engine: &Engine) -> Limits {
    Limits {
        hash: hash_limits(engine),
        list: list_limits(engine),
        set: set_limits(engine),
        sorted_set: sorted_set_limits(engine),
    }
}

/// True if the server reports Redis 8's version or writes files for it: what Redis 8 could not
/// repeat is refused.
pub fn serves_redis_8(engine: &Engine) -> bool {
    engine.process.follows_redis_8() || engine.config.rdb_target() == RdbTarget::Redis8
}

/// The limits of hashes.
#[inline]
pub fn hash_limits(engine: &Engine) -> HashLimits {
    HashLimits {
        max_listpack_entries: engine.config.hash_max_listpack_entries(),
        max_listpack_value: engine.config.hash_max_listpack_value(),
    }
}

/// The limits of lists.
#[inline]
pub fn list_limits(engine: &Engine) -> ListLimits {
    let config = &engine.config;
    let mut limits = ListLimits {
        max_listpack_size: config.list_max_listpack_size() as i32,
        compress_depth: config.list_compress_depth() as usize,
        ..ListLimits::default()
    };
    let threshold = engine.debug.list_packed_threshold.load(Relaxed);
    if threshold > 0 {
        limits.packed_threshold = threshold;
    }
    limits
}

/// The limits of sets.
#[inline]
pub fn set_limits(engine: &Engine) -> SetLimits {
    SetLimits {
        max_intset_entries: engine.config.set_max_intset_entries(),
        max_listpack_entries: engine.config.set_max_listpack_entries(),
        max_listpack_value: engine.config.set_max_listpack_value(),
    }
}

/// Limits of packed sorted sets.
#[inline]
pub fn sorted_set_limits(engine: &Engine) -> PackedLimits {
    PackedLimits {
        entries_max: engine.config.zset_max_listpack_entries(),
        value_bytes_max: engine.config.zset_max_listpack_value(),
    }
}
