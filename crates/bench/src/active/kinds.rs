// SPDX-License-Identifier: BSD-3-Clause
//! The kinds of keys of a run, by the fate that their writes must have, and the keys' names.

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SET of values that nobody else sets.
    String,
    /// INCRBY.
    Counter,
    /// INCRBYFLOAT, in quarters.
    FloatCounter,
    /// HINCRBY.
    HashCounter,
    /// ZINCRBY.
    ScoreCounter,
    /// Unique elements, and their removal.
    Hash,
    Set,
    SortedSet,
    List,
    Stream,
    /// PFADD of unique elements.
    HyperLogLog,
    /// Keys of all types that are written once, and some of which are deleted.
    Deleted,
    /// Two keys that are always written in one transaction, with the same value.
    Transaction,
    /// All kinds of commands that get in each other's way: servers must agree, no more.
    Mixed,
}

impl Kind {
    pub const ALL: [Kind; 14] = [
        Kind::String,
        Kind::Counter,
        Kind::FloatCounter,
        Kind::HashCounter,
        Kind::ScoreCounter,
        Kind::Hash,
        Kind::Set,
        Kind::SortedSet,
        Kind::List,
        Kind::Stream,
        Kind::HyperLogLog,
        Kind::Deleted,
        Kind::Transaction,
        Kind::Mixed,
    ];

    /// The first part of its keys' names, behind the run's prefix.
    pub fn tag(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Counter => "counter",
            Kind::FloatCounter => "float",
            Kind::HashCounter => "hashcounter",
            Kind::ScoreCounter => "score",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "sortedset",
            Kind::List => "list",
            Kind::Stream => "stream",
            Kind::HyperLogLog => "hyperloglog",
            Kind::Deleted => "once",
            Kind::Transaction => "transaction",
            Kind::Mixed => "mixed",
        }
    }

    /// Its name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Kind::String => "strings (SET)",
            Kind::Counter => "counters (INCRBY)",
            Kind::FloatCounter => "counters (INCRBYFLOAT)",
            Kind::HashCounter => "counters (HINCRBY)",
            Kind::ScoreCounter => "counters (ZINCRBY)",
            Kind::Hash => "hash fields",
            Kind::Set => "set members",
            Kind::SortedSet => "sorted set members",
            Kind::List => "list elements",
            Kind::Stream => "stream entries",
            Kind::HyperLogLog => "HyperLogLogs",
            Kind::Deleted => "whole keys (DEL)",
            Kind::Transaction => "transactions",
            Kind::Mixed => "mixed commands",
        }
    }

    /// The kind of a key, by its name without the prefix.
    pub fn of_key(name: &str) -> Option<Kind> {
        let tag = name.split(':').next()?;
        Kind::ALL.into_iter().find(|kind| kind.tag() == tag)
    }

    /// Whether its keys hold unique elements.
    pub fn has_elements(self) -> bool {
        matches!(self, Kind::Hash | Kind::Set | Kind::SortedSet | Kind::List | Kind::Stream)
    }

    /// Whether its keys hold sums.
    pub fn counts(self) -> bool {
        matches!(self, Kind::Counter | Kind::FloatCounter | Kind::HashCounter | Kind::ScoreCounter)
    }
}

/// The name of a key without the run's prefix.
pub fn name(kind: Kind, key: u32) -> String {
    format!("{}:{key}", kind.tag())
}

/// The second key has a name of its own behind the first one's.
pub fn second(name: &str) -> String {
    format!("{name}:second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_apart() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_key(&name(kind, 3)), Some(kind));
        }
        assert_eq!(Kind::of_key("lag:0:1"), None);
    }
}
