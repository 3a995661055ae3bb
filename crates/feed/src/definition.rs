// SPDX-License-Identifier: BSD-3-Clause
//! The definition of a feed: its name, the keys that it is about, and whether it has values.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use braid_base::glob;

/// The words that define a feed in the directive `change-feed`.
pub const WORDS: usize = 3;

/// What has been read of a feed.
#[derive(Default, Debug)]
pub struct Figures {
    /// Entries that readers got.
    pub entries: AtomicU64,
    /// Gaps that readers were told of.
    pub gaps: AtomicU64,
    /// Bytes of the journal that were looked at for them.
    pub bytes: AtomicU64,
}

/// A feed.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The name under which clients read it, in all databases.
    pub name: Box<[u8]>,
    /// A glob pattern of keys.
    pub pattern: Box<[u8]>,
    /// The pattern matches every key.
    is_for_all: bool,
    /// Entries have values, or the arguments of the command.
    pub has_values: bool,
    /// Different for each definition of this process.
    pub number: u64,
    pub figures: Arc<Figures>,
}

impl PartialEq for Feed {
    fn eq(&self, other: &Feed) -> bool {
        let Feed { name, pattern, has_values, number, .. } = self;
        (name, pattern, has_values, number) == (&other.name, &other.pattern, &other.has_values, &other.number)
    }
}

impl Eq for Feed {}

impl Feed {
    pub fn new(name: &[u8], pattern: &[u8], has_values: bool) -> Feed {
        let is_for_all = !pattern.is_empty() && pattern.iter().all(|&byte| byte == b'*');
        let (name, pattern, figures) = (name.into(), pattern.into(), Arc::default());
        Feed { name, pattern, is_for_all, has_values, number: 0, figures }
    }

    /// The same definition under a number.
    pub(crate) fn numbered(self, number: u64) -> Feed {
        Feed { number, ..self }
    }

    /// True if the feed is about a key.
    pub fn matches(&self, key: &[u8]) -> bool {
        self.is_for_all || glob::matches(&self.pattern, key, false)
    }
}

/// The feeds that the words of the directive define.
///
/// # Errors
/// What is wrong with them.
pub fn parse(words: &[String]) -> Result<Vec<Feed>, &'static str> {
    let mut feeds: Vec<Feed> = Vec::new();
    let (groups, rest) = words.as_chunks::<WORDS>();
    if !rest.is_empty() {
        return Err("each feed has a name, a pattern of keys, and 'keys' or 'values'");
    }
    for [name, pattern, content] in groups {
        let has_values = match content {
            word if word.eq_ignore_ascii_case("values") => true,
            word if word.eq_ignore_ascii_case("keys") => false,
            _ => return Err("the third word of a feed is 'keys' or 'values'"),
        };
        if name.is_empty() || pattern.is_empty() {
            return Err("a feed's name and pattern must not be empty");
        }
        if feeds.iter().any(|feed| *feed.name == *name.as_bytes()) {
            return Err("two feeds have one name");
        }
        feeds.push(Feed::new(name.as_bytes(), pattern.as_bytes(), has_values));
    }
    Ok(feeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn definitions_have_three_words() {
        let feeds = parse(&words("orders order:* values all * KEYS")).expect("good");
        assert_eq!(feeds.iter().map(|feed| feed.has_values).collect::<Vec<_>>(), [true, false]);
        assert!(feeds[0].matches(b"order:1") && !feeds[0].matches(b"user:1"));
        assert!(feeds[1].matches(b"user:1") && feeds[1].matches(b""), "also the empty key");
        assert_eq!(parse(&[]), Ok(Vec::new()));
        for bad in ["orders", "orders *", "orders * all", "a * keys a b* keys", "a  keys"] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
