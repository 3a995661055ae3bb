// SPDX-License-Identifier: BSD-3-Clause
//! For which servers values are written: in the newest version and with the newest types that such
//! a server reads.
//!
//! Not every server has times at which members of collections expire. Where one has none they are
//! left out: members that have expired by then are left out with them, and the others stay for
//! good. Whoever writes tells the operator ([`Format::times_left_out`]).

use braid_containers::listpack::Element;

use crate::kind::Kind;
use crate::write::ValueRef;

/// The servers that are to read what is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// This one: everything is kept. Stock servers from Redis 7.2 on read it as far as they know it.
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
    /// KeyDB 6.3, and with it Redis 6.
    KeyDb,
}

/// How values are written: for whom, and at which time (Unix time in ms), which says what has
/// expired where the times themselves are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Format {
    pub target: Target,
    pub now_ms: i64,
}

impl Format {
    /// The version of a file; `expiring`: there may be members that expire.
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

    /// The version of a value by itself.
    pub(crate) fn version_of(self, value: ValueRef<'_>) -> u16 {
        self.version(value.has_times())
    }

    /// Libraries of functions can be written.
    pub fn knows_functions(self) -> bool {
        self.target != Target::KeyDb
    }

    /// The form under which a value is written.
    pub fn kind(self, value: ValueRef<'_>) -> Kind {
        value.kind_for(self.target)
    }

    /// True if a value has times for which its form has no room.
    fn is_without_times(self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Object(object) => object.has_times() && !object.keeps_times(self.kind(value).0),
            _ => false,
        }
    }

    /// A time at which all members are written that are to be written: the present, or one before all others.
    pub(crate) fn time_for(self, value: ValueRef<'_>) -> i64 {
        if self.is_without_times(value) { self.now_ms } else { i64::MIN }
    }

    /// True if the target has no such type: the key is left out.
    pub fn is_foreign(self, value: ValueRef<'_>) -> bool {
        matches!(value, ValueRef::Object(object) if !object.is_known_to(self.target))
    }

    /// True if the key is left out, since no member is left to be written or the target has no such
    /// type.
    pub fn is_void(self, value: ValueRef<'_>) -> bool {
        self.is_foreign(value) || (self.is_without_times(value) && value.members_at(self.now_ms) == 0)
    }

    /// True if times are written as notes behind the value, as KeyDB does.
    pub(crate) fn has_notes(self, value: ValueRef<'_>) -> bool {
        self.target == Target::KeyDb && self.is_without_times(value)
    }

    /// How many members of a value stay for good, since when they expire cannot be written.
    /// `in_file`: not in a value by itself.
    pub fn times_left_out(self, value: ValueRef<'_>, in_file: bool) -> u64 {
        let mut count = 0;
        if self.is_without_times(value) && !(in_file && self.has_notes(value)) {
            value.for_each_time(|_, time| count += u64::from(time >= self.now_ms));
        }
        count
    }
}

impl ValueRef<'_> {
    /// True if some of its members expire.
    pub(crate) fn has_times(self) -> bool {
        matches!(self, ValueRef::Object(object) if object.has_times())
    }

    /// The members that expire, with their times.
    pub(crate) fn for_each_time(self, mut see: impl FnMut(Element<'_>, i64)) {
        if let ValueRef::Object(object) = self {
            object.for_each_time(&mut see);
        }
    }

    /// How many members a collection has that have not expired at this time.
    pub(crate) fn members_at(self, now_ms: i64) -> usize {
        if let ValueRef::Object(object) = self { object.members_at(now_ms) } else { 0 }
    }
}
