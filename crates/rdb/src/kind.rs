// SPDX-License-Identifier: BSD-3-Clause
//! The types of values as numbered in the format.

/// How a value is written. The names say type and form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    String = 0,
    /// Elements one by one.
    List = 1,
    Set = 2,
    /// Scores as text.
    SortedSetText = 3,
    Hash = 4,
    /// Scores as 8 bytes.
    SortedSet = 5,
    /// Modules of pre-releases of Redis 4.
    ModulePreRelease = 6,
    Module = 7,
    HashZipmap = 9,
    ListZiplist = 10,
    SetIntegers = 11,
    SortedSetZiplist = 12,
    HashZiplist = 13,
    /// Nodes of ziplists.
    ListNodesOfZiplists = 14,
    Stream1 = 15,
    HashListpack = 16,
    SortedSetListpack = 17,
    /// Nodes of listpacks or single elements.
    ListNodes = 18,
    /// With counts of entries ever added and read.
    Stream2 = 19,
    SetListpack = 20,
    /// With active times of consumers.
    Stream3 = 21,
    /// Valkey 9: a time with each field.
    HashExpiry = 22,
    /// Redis 7.4: a time with each field, relative to the earliest.
    HashExpiryRelative = 24,
    /// Redis 7.4: triples of field, value and time.
    HashExpiryListpack = 25,
    /// KeyDB: a script to be run at times (KEYDB.CRON).
    KeyDbJob = 64,
    /// Braid: a time with each member. No other server has members of sets that expire, so none reads this.
    SetExpiry = 240,
    /// Braid: a score and a time with each member.
    SortedSetExpiry = 241,
}

impl Kind {
    /// The type of this number in a given version of the format.
    pub fn from_number(number: u8, version: u16) -> Option<Kind> {
        use Kind::*;
        Some(match number {
            0 => String,
            1 => List,
            2 => Set,
            3 => SortedSetText,
            4 => Hash,
            5 => SortedSet,
            6 => ModulePreRelease,
            7 => Module,
            9 => HashZipmap,
            10 => ListZiplist,
            11 => SetIntegers,
            12 => SortedSetZiplist,
            13 => HashZiplist,
            14 => ListNodesOfZiplists,
            15 => Stream1,
            16 => HashListpack,
            17 => SortedSetListpack,
            18 => ListNodes,
            19 => Stream2,
            20 => SetListpack,
            21 => Stream3,
            // Pre-releases of Redis 7.4 had another form under this number.
            22 if version != crate::VERSION_REDIS_MAX => HashExpiry,
            24 => HashExpiryRelative,
            25 => HashExpiryListpack,
            64 if version <= crate::VERSION_KEYDB => KeyDbJob,
            240 => SetExpiry,
            241 => SortedSetExpiry,
            _ => return None,
        })
    }

    /// True for types that are, or contain, lists packed into one string.
    pub fn is_packed(self) -> bool {
        use Kind::*;
        !matches!(
            self,
            String
                | List
                | Set
                | SortedSetText
                | Hash
                | SortedSet
                | HashExpiry
                | HashExpiryRelative
                | SetExpiry
                | SortedSetExpiry
                | KeyDbJob
        )
    }
}
