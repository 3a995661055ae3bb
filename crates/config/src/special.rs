// SPDX-License-Identifier: BSD-3-Clause
//! Directives with list values: types, parsing and formatting.
//!
//! The reasons in errors are those of stock servers. Only `value.rs` uses this module.

use crate::number::{c_integer, parse_memory};
use std::path::{Path, PathBuf};

/// A save point: save when `changes` keys changed within `seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds, at least 1.
    pub seconds: i64,
    /// Number of changes, at least 0.
    pub changes: i32,
}

/// Default save points.
pub const DEFAULT_SAVE: &[SavePoint] = &[
    SavePoint { seconds: 3600, changes: 1 },
    SavePoint { seconds: 300, changes: 100 },
    SavePoint { seconds: 60, changes: 10_000 },
];

/// Client classes with separate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Ordinary clients.
    Normal = 0,
    /// Replicas of this server.
    Replica = 1,
    /// Clients with at least one subscription.
    Pubsub = 2,
}

/// Output buffer limits of one class; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// The client is closed above this many bytes.
    pub hard_bytes: u64,
    /// The client is closed after it has been above this many bytes for `soft_seconds`.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: i32,
}

/// Default limits, by class.
pub const DEFAULT_OUTPUT_LIMITS: [OutputLimit; 3] = [
    OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
    OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 },
    OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
];

/// Default OOM scores of master, replica and background child.
pub const DEFAULT_OOM_SCORES: [i32; 3] = [0, 200, 800];
/// Default addresses: all of IPv4, and of IPv6 if available.
pub const DEFAULT_BIND: [&str; 2] = ["*", "-::*"];
/// Default percentiles.
pub const DEFAULT_PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];
/// Maximum number of addresses for `bind`.
const BIND_ADDRESSES_MAX: usize = 16;

/// Words that define a change feed: a name, a pattern, and `keys` or `values`.
pub const CHANGE_FEED_WORDS: usize = 3;

/// Host and port of the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterAddress {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Classes of keyspace events, with stock servers' bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyFlags(pub u32);

impl NotifyFlags {
    /// `K`: channels named after the key.
    pub const KEYSPACE: u32 = 1 << 0;
    /// `E`: channels named after the event.
    pub const KEYEVENT: u32 = 1 << 1;
    /// `g`: commands of no particular type.
    pub const GENERIC: u32 = 1 << 2;
    /// `$`: strings.
    pub const STRING: u32 = 1 << 3;
    /// `l`: lists.
    pub const LIST: u32 = 1 << 4;
    /// `s`: sets.
    pub const SET: u32 = 1 << 5;
    /// `h`: hashes.
    pub const HASH: u32 = 1 << 6;
    /// `z`: sorted sets.
    pub const ZSET: u32 = 1 << 7;
    /// `x`: keys that expired.
    pub const EXPIRED: u32 = 1 << 8;
    /// `e`: keys that were evicted.
    pub const EVICTED: u32 = 1 << 9;
    /// `t`: streams.
    pub const STREAM: u32 = 1 << 10;
    /// `m`: reads of a missing key; not part of `A`.
    pub const KEY_MISS: u32 = 1 << 11;
    /// `d`: module types.
    pub const MODULE: u32 = 1 << 13;
    /// `n`: new keys; not part of `A`.
    pub const NEW: u32 = 1 << 14;
    /// `o`: values that are replaced; not part of `A`.
    pub const OVERWRITTEN: u32 = 1 << 15;
    /// `c`: values that are replaced by one of another type; not part of `A`.
    pub const TYPE_CHANGED: u32 = 1 << 16;
    /// `S`: channels named after the key, with members of hashes.
    pub const MEMBERS_BY_KEY: u32 = 1 << 17;
    /// `T`: channels named after the event, with key and members.
    pub const MEMBERS_BY_EVENT: u32 = 1 << 18;
    /// `I`: channels named after key and member.
    pub const MEMBERS_BY_MEMBER: u32 = 1 << 19;
    /// `V`: channels named after event and key, with members.
    pub const MEMBERS_BY_EVENT_AND_KEY: u32 = 1 << 20;
    /// `S`, `T`, `I` and `V`.
    pub const MEMBERS: u32 = Self::MEMBERS_BY_KEY
        | Self::MEMBERS_BY_EVENT
        | Self::MEMBERS_BY_MEMBER
        | Self::MEMBERS_BY_EVENT_AND_KEY;
    /// `A`: every class of events but `m`, `n`, `o` and `c`.
    pub const ALL: u32 = Self::GENERIC
        | Self::STRING
        | Self::LIST
        | Self::SET
        | Self::HASH
        | Self::ZSET
        | Self::EXPIRED
        | Self::EVICTED
        | Self::STREAM
        | Self::MODULE;

    /// Letters in the order in which they are printed; `A` stands for the first ten if all are set.
    const LETTERS: [(char, u32); 20] = [
        ('g', Self::GENERIC),
        ('$', Self::STRING),
        ('l', Self::LIST),
        ('s', Self::SET),
        ('h', Self::HASH),
        ('z', Self::ZSET),
        ('x', Self::EXPIRED),
        ('e', Self::EVICTED),
        ('t', Self::STREAM),
        ('d', Self::MODULE),
        ('n', Self::NEW),
        ('o', Self::OVERWRITTEN),
        ('c', Self::TYPE_CHANGED),
        ('K', Self::KEYSPACE),
        ('E', Self::KEYEVENT),
        ('m', Self::KEY_MISS),
        ('S', Self::MEMBERS_BY_KEY),
        ('T', Self::MEMBERS_BY_EVENT),
        ('I', Self::MEMBERS_BY_MEMBER),
        ('V', Self::MEMBERS_BY_EVENT_AND_KEY),
    ];

    /// True if the bit is set.
    pub const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// The flags of these letters.
    pub fn parse(letters: &str) -> Option<NotifyFlags> {
        letters.chars().try_fold(NotifyFlags(0), |flags, letter| {
            let bit = match letter {
                'A' => Self::ALL,
                other => Self::LETTERS.iter().find(|entry| entry.0 == other)?.1,
            };
            Some(NotifyFlags(flags.0 | bit))
        })
    }

    /// The letters of these flags. `n` is left out when `A` is printed, as in stock servers.
    pub fn letters(self) -> String {
        let everything = self.0 & Self::ALL == Self::ALL;
        let mut letters = String::from(if everything { "A" } else { "" });
        for (letter, bit) in Self::LETTERS {
            let covered = everything && (bit & Self::ALL != 0 || bit == Self::NEW);
            if self.has(bit) && !covered {
                letters.push(letter);
            }
        }
        letters
    }
}

/// Parses save points. One empty argument means none.
pub(crate) fn parse_save(words: &[&str]) -> Result<Vec<SavePoint>, String> {
    let words = if words == [""] { &[] } else { words };
    let invalid = || "Invalid save parameters".to_owned();
    if !words.len().is_multiple_of(2) {
        return Err(invalid());
    }
    words
        .chunks_exact(2)
        .map(|pair| {
            let seconds = c_integer(pair[0]).filter(|seconds| *seconds >= 1).ok_or_else(invalid)?;
            let changes = c_integer(pair[1]).and_then(|changes| i32::try_from(changes).ok());
            let changes = changes.filter(|changes| *changes >= 0).ok_or_else(invalid)?;
            Ok(SavePoint { seconds, changes })
        })
        .collect()
}

/// Parses the limits of some classes; the other classes keep their current limits.
pub(crate) fn parse_output_limits(
    words: &[&str],
    mut limits: [OutputLimit; 3],
) -> Result<[OutputLimit; 3], String> {
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for group in words.chunks_exact(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => ClientClass::Normal,
            "slave" | "replica" => ClientClass::Replica,
            "pubsub" => ClientClass::Pubsub,
            _ => return Err("Invalid client class specified in buffer limit configuration.".to_owned()),
        };
        let invalid =
            || "Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_owned();
        let soft_seconds = c_integer(group[3]).and_then(|seconds| i32::try_from(seconds).ok());
        limits[class as usize] = OutputLimit {
            hard_bytes: parse_memory(group[1]).ok_or_else(invalid)?,
            soft_bytes: parse_memory(group[2]).ok_or_else(invalid)?,
            soft_seconds: soft_seconds.filter(|seconds| *seconds >= 0).ok_or_else(invalid)?,
        };
    }
    Ok(limits)
}

/// Parses the three kernel scores.
pub(crate) fn parse_oom_scores(words: &[&str]) -> Result<[i32; 3], String> {
    let [_, _, _] = words else { return Err("wrong number of arguments".to_owned()) };
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip(words) {
        *score = c_integer(word)
            .filter(|value| (-2000..=2000).contains(value))
            .and_then(|value| i32::try_from(value).ok())
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(scores)
}

/// The words of change feeds; a single empty word is none.
pub(crate) fn parse_change_feed(words: &[&str]) -> Result<Vec<String>, String> {
    if matches!(words, [] | [""]) {
        return Ok(Vec::new());
    }
    let is_good = |feed: &[&str]| match feed {
        [name, pattern, content] => {
            let is = |word: &str| content.eq_ignore_ascii_case(word);
            !name.is_empty() && !pattern.is_empty() && (is("keys") || is("values"))
        }
        _ => false,
    };
    if !words.chunks(CHANGE_FEED_WORDS).all(is_good) {
        return Err("each feed has a name, a pattern of keys, and 'keys' or 'values'".to_owned());
    }
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

/// Parses addresses to listen on. One empty argument means none.
pub(crate) fn parse_bind(words: &[&str]) -> Result<Vec<String>, String> {
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".to_owned());
    }
    let words = if words == [""] { &[] } else { words };
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Parses the master's address; `no one` means no master.
pub(crate) fn parse_replica_of(words: &[&str]) -> Result<Option<MasterAddress>, String> {
    let [host, port] = words else { return Err("wrong number of arguments".to_owned()) };
    if host.eq_ignore_ascii_case("no") && port.eq_ignore_ascii_case("one") {
        return Ok(None);
    }
    let port = c_integer(port).and_then(|port| u16::try_from(port).ok()).ok_or("Invalid master port")?;
    Ok(Some(MasterAddress { host: (*host).to_owned(), port }))
}

/// Parses percentiles. One empty argument means none.
pub(crate) fn parse_percentiles(words: &[&str]) -> Result<Vec<f64>, String> {
    let words = if words == [""] { &[] } else { words };
    words
        .iter()
        .map(|word| match word.parse::<f64>() {
            Ok(percentile) if (0.0..=100.0).contains(&percentile) => Ok(percentile),
            Ok(percentile) if !percentile.is_nan() => {
                Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned())
            }
            _ => Err("Invalid latency-tracking-info-percentiles parameters".to_owned()),
        })
        .collect()
}

/// Resolves a directory against the current one, following links, as chdir would.
pub(crate) fn parse_directory(word: &str, present: &str) -> Result<String, String> {
    let path: PathBuf = Path::new(present).join(word);
    if word.is_empty() {
        return Err("No such file or directory".to_owned());
    }
    // Looking up "." inside also proves that the path is a directory that may be entered.
    std::fs::metadata(path.join("."))
        .and_then(|_| std::fs::canonicalize(&path))
        .map_err(|error| braid_base::system_text::reason(&error))?
        .into_os_string()
        .into_string()
        .map_err(|_| "the directory's name is not valid UTF-8".to_owned())
}

/// A percentile with at most six decimals and no trailing zeros.
pub(crate) fn format_percentile(percentile: f64) -> String {
    let fixed = format!("{percentile:.6}");
    fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Items separated by blanks.
pub(crate) fn join<T>(items: &[T], each: impl Fn(&T) -> String) -> String {
    items.iter().map(each).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_letters() {
        assert_eq!(NotifyFlags::parse("KEA").unwrap().letters(), "AKE");
        assert_eq!(NotifyFlags::parse("KEgx$nm").unwrap().letters(), "g$xnKEm");
        assert_eq!(NotifyFlags::parse("VITSh").unwrap().letters(), "hSTIV");
        assert_eq!(NotifyFlags::parse("An").unwrap().letters(), "A");
        assert_eq!(NotifyFlags::parse("g$lshzxetd").unwrap().letters(), "A");
        assert_eq!(NotifyFlags::parse("").unwrap().letters(), "");
        assert_eq!(NotifyFlags::parse("AocE").unwrap().letters(), "AocE");
        assert_eq!(NotifyFlags::parse("Z"), None);
    }

    #[test]
    fn percentiles_print_as_stock_servers_do() {
        let texts = [(50.0, "50"), (0.1, "0.1"), (100.0, "100"), (99.999_999_9, "100"), (0.0, "0")];
        for (number, text) in texts {
            assert_eq!(format_percentile(number), text);
        }
    }

    #[test]
    fn save_pairs() {
        assert_eq!(parse_save(&[""]).unwrap(), []);
        assert_eq!(parse_save(&["+900", "01"]).unwrap(), [SavePoint { seconds: 900, changes: 1 }]);
        for wrong in [&["900"][..], &["0", "1"], &["900", "-1"], &["900", "", "1"], &["x", "1"], &["1", "1x"]]
        {
            assert_eq!(parse_save(wrong).unwrap_err(), "Invalid save parameters", "{wrong:?}");
        }
    }

    #[test]
    fn a_directory_must_exist() {
        let here = std::env::temp_dir().canonicalize().unwrap();
        let here = here.to_str().unwrap();
        assert_eq!(parse_directory(".", here).unwrap(), here);
        assert_eq!(parse_directory("no/such/place", here).unwrap_err(), "No such file or directory");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(parse_directory(file.path().to_str().unwrap(), here).unwrap_err(), "Not a directory");
    }
}
