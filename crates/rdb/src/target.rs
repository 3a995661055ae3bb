// SPDX-License-Identifier: BSD-3-Clause
//! Target servers: the newest version and the types that each of them reads.
//!
//! Not every server supports expiring members. For a server that does not, the times are left
//! out, expired members are left out too, and the remaining members become permanent. The writer
//! reports this to the operator ([`Format::times_left_out`]).

/// The server for which data is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// This server: no information is lost. Stock servers since Redis 7.2 read the values that
    /// they support.
    #[default]
    Own,
    /// Valkey 9.
    Valkey9,
    /// Redis 8.
    Redis8,
    /// Redis 7.2, Valkey 7.2 and 8.
    Redis72,
    /// Redis 7.0.
    Redis70,
    /// KeyDB 6.3, and also Redis 6.
    KeyDb,
}

/// The target of values, and the time (Unix time in ms) that decides which members have expired
/// when the times themselves are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Format {
    pub target: Target,
    pub now_ms: i64,
}

impl Format {
    /// The version of a file; `expiring`: the file may contain expiring members.
    pub fn version(self, expiring: bool) -> u16 {
        match self.target {
            Target::Own if expiring => crate::VERSION_FIELD_EXPIRY,
            Target::Own | Target::Redis72 => crate::VERSION,
            Target::Valkey9 => crate::VERSION_FIELD_EXPIRY,
            Target::Redis8 => crate::VERSION_REDIS_MAX,
            Target::Redis70 => crate::VERSION_REDIS_7_0,
            Target::KeyDb => crate::VERSION_KEYDB,
        }
    }

    /// True if libraries of functions can be written.
    pub fn knows_functions(self) -> bool {
        self.target != Target::KeyDb
    }
}
