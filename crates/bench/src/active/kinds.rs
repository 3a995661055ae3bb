// SPDX-License-Identifier: BSD-3-Clause
//! The kinds of keys in a run, by the expected outcome of writes to them, and the keys' names.

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// SET of unique values.
    String,
    /// INCRBY.
    Counter,
    /// INCRBYFLOAT, in quarters.
    FloatCounter,
    /// HINCRBY.
    HashCounter,
    /// ZINCRBY.
    ScoreCounter,
    /// Unique elements, added and removed.
    Hash,
    Set,
    SortedSet,
    List,
    Stream,
    /// PFADD of unique elements.
    HyperLogLog,
    /// Keys of all types that are written once; some are deleted later.
    Deleted,
    /// Two keys that are always written in one transaction with the same value.
    Transaction,
    /// Conflicting commands of all kinds: the servers only have to agree.
    Mixed,
}

impl KeyKind {
    pub const ALL: [KeyKind; 14] = [
        KeyKind::String,
        KeyKind::Counter,
        KeyKind::FloatCounter,
        KeyKind::HashCounter,
        KeyKind::ScoreCounter,
        KeyKind::Hash,
        KeyKind::Set,
        KeyKind::SortedSet,
        KeyKind::List,
        KeyKind::Stream,
        KeyKind::HyperLogLog,
        KeyKind::Deleted,
        KeyKind::Transaction,
        KeyKind::Mixed,
    ];

    /// The first part of the keys' names, after the run's prefix.
    pub fn tag(self) -> &'static str {
        match self {
            KeyKind::String => "string",
            KeyKind::Counter => "counter",
            KeyKind::FloatCounter => "float",
            KeyKind::HashCounter => "hashcounter",
            KeyKind::ScoreCounter => "score",
            KeyKind::Hash => "hash",
            KeyKind::Set => "set",
            KeyKind::SortedSet => "sortedset",
            KeyKind::List => "list",
            KeyKind::Stream => "stream",
            KeyKind::HyperLogLog => "hyperloglog",
            KeyKind::Deleted => "once",
            KeyKind::Transaction => "transaction",
            KeyKind::Mixed => "mixed",
        }
    }

    /// The kind's name in tables.
    pub fn title(self) -> &'static str {
        match self {
            KeyKind::String => "strings (SET)",
            KeyKind::Counter => "counters (INCRBY)",
            KeyKind::FloatCounter => "counters (INCRBYFLOAT)",
            KeyKind::HashCounter => "counters (HINCRBY)",
            KeyKind::ScoreCounter => "counters (ZINCRBY)",
            KeyKind::Hash => "hash fields",
            KeyKind::Set => "set members",
            KeyKind::SortedSet => "sorted set members",
            KeyKind::List => "list elements",
            KeyKind::Stream => "stream entries",
            KeyKind::HyperLogLog => "HyperLogLogs",
            KeyKind::Deleted => "whole keys (DEL)",
            KeyKind::Transaction => "transactions",
            KeyKind::Mixed => "mixed commands",
        }
    }

    /// The kind of a key, by its name without the prefix.
    pub fn of_key(name: &str) -> Option<KeyKind> {
        let tag = name.split(':').next()?;
        KeyKind::ALL.into_iter().find(|kind| kind.tag() == tag)
    }

    /// True if its keys hold unique elements.
    pub fn has_elements(self) -> bool {
        matches!(self, KeyKind::Hash | KeyKind::Set | KeyKind::SortedSet | KeyKind::List | KeyKind::Stream)
    }

    /// True if its keys are counters.
    pub fn counts(self) -> bool {
        matches!(
            self,
            KeyKind::Counter | KeyKind::FloatCounter | KeyKind::HashCounter | KeyKind::ScoreCounter
        )
    }
}

/// The name of a key without the run's prefix.
pub fn name(kind: KeyKind, key: u32) -> String {
    format!("{}:{key}", kind.tag())
}

/// The name of a transaction's second key, given the first one's.
pub fn second(name: &str) -> String {
    format!("{name}:second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_kinds_are_recognized_by_tag() {
        for kind in KeyKind::ALL {
            assert_eq!(KeyKind::of_key(&name(kind, 3)), Some(kind));
        }
        assert_eq!(KeyKind::of_key("lag:0:1"), None);
    }
}
