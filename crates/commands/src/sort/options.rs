// SPDX-License-Identifier: BSD-3-Clause
//! The options of SORT.

use std::cmp::Ordering;
use std::ops::Range;

use braid_base::crc::{hash_tag, key_hash_slot};
use braid_executor::Call;
use braid_spec::CommandError;

/// A rule that maps an element to a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// No placeholder: there is never a value.
    Nothing,
    /// A key with the element in its name, or a field of the hash at that key.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    pub fn parse(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|&byte| byte == b'*') else { return Pattern::Nothing };
        let (before, rest) = (&text[..star], &text[star + 1..]);
        match rest.windows(2).position(|pair| pair == b"->") {
            Some(arrow) if arrow + 2 < rest.len() => {
                Pattern::Key { before, after: &rest[..arrow], field: Some(&rest[arrow + 2..]) }
            }
            _ => Pattern::Key { before, after: rest, field: None },
        }
    }
}

/// True if a pattern's keys may be in another cluster slot than `key`. They are in its slot only
/// if a hash tag before the placeholder determines that, or if there is no placeholder.
fn strays(pattern: &[u8], key: &[u8]) -> bool {
    let tag = hash_tag(pattern);
    // The text up to the end of the tag, or the whole pattern.
    let deciding = &pattern[..tag.as_ptr().addr() - pattern.as_ptr().addr() + tag.len()];
    // Redis treats it like a KEYS pattern here.
    let varies = deciding.iter().any(|byte| b"*?[\\".contains(byte));
    varies || key_hash_slot(pattern) != key_hash_slot(key)
}

/// The parsed options of SORT.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub descending: bool,
    pub alphabetical: bool,
    /// BY was given a pattern without a placeholder.
    pub unsorted: bool,
    pub by: Option<Pattern<'a>>,
    pub get: Vec<Pattern<'a>>,
    pub store: Option<&'a [u8]>,
    /// The collection has an order, which DESC reverses if nothing is sorted.
    pub reverses: bool,
    limit: Option<(i64, i64)>,
}

impl<'a> Options<'a> {
    /// # Errors
    /// If an option is unknown or incomplete, or BY or GET would read keys that this user may not
    /// read, or that may be in other slots.
    pub fn parse(call: &Call<'a, '_>, may_store: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        // The keys of BY and GET patterns are not among the checked keys.
        let reads_all = call.session.login.user.check_reading_all(call.command, call.args, call.session.db);
        let denied = |option: &str| {
            CommandError::text(format!(
                "ERR {option} option of SORT denied due to insufficient ACL permissions."
            ))
        };
        let strays = |pattern: &[u8]| call.engine.cluster.is_some() && strays(pattern, call.args[1]);
        let stray = |option: &str| {
            CommandError::text(format!(
                "ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern may be in \
                 different slots."
            ))
        };
        let mut index = 2;
        while index < call.args.len() {
            let left = call.args.len() - index - 1;
            let is = |word: &str| call.arg_is(index, word);
            if is("asc") {
                options.descending = false;
            } else if is("desc") {
                options.descending = true;
            } else if is("alpha") {
                options.alphabetical = true;
            } else if is("limit") && left >= 2 {
                options.limit = Some((call.integer_arg(index + 1)?, call.integer_arg(index + 2)?));
                index += 2;
            } else if may_store && is("store") && left >= 1 {
                options.store = Some(call.args[index + 1]);
                index += 1;
            } else if is("by") && left >= 1 {
                let text = call.args[index + 1];
                // Once BY had a pattern without a placeholder, a later pattern with one does not
                // change that.
                options.unsorted |= !text.contains(&b'*');
                if text.contains(&b'*') && strays(text) {
                    return Err(stray("BY"));
                }
                if text.contains(&b'*') && !reads_all {
                    return Err(denied("BY"));
                }
                options.by = Some(Pattern::parse(text));
                index += 1;
            } else if is("get") && left >= 1 {
                if call.args[index + 1] != b"#" && strays(call.args[index + 1]) {
                    return Err(stray("GET"));
                }
                if !reads_all {
                    return Err(denied("GET"));
                }
                options.get.push(Pattern::parse(call.args[index + 1]));
                index += 1;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        Ok(options)
    }

    /// True if a pattern refers to other keys.
    pub fn looks_up(&self) -> bool {
        self.by.iter().chain(&self.get).any(|pattern| matches!(pattern, Pattern::Key { .. }))
    }

    /// A copy without borrowed key names. STORE's key becomes empty.
    pub fn to_owned_options(&self) -> Options<'static> {
        let owned = |pattern: &Pattern<'_>| match pattern {
            Pattern::Element => Pattern::Element,
            Pattern::Nothing | Pattern::Key { .. } => Pattern::Nothing,
        };
        debug_assert!(!self.looks_up());
        Options {
            by: self.by.as_ref().map(owned),
            get: self.get.iter().map(owned).collect(),
            store: self.store.map(|_| &b""[..]),
            ..*self
        }
    }

    /// The requested range of `len` sorted elements.
    pub fn range(&self, len: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(len);
        let end = match usize::try_from(count) {
            Ok(count) => start.saturating_add(count).min(len),
            Err(_) => len,
        };
        start..end
    }

    /// The requested direction of an ascending order.
    pub fn direct(&self, order: Ordering) -> Ordering {
        if self.descending { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let key = |before, after, field| Pattern::Key { before, after, field };
        assert_eq!(Pattern::parse(b"#"), Pattern::Element);
        assert_eq!(Pattern::parse(b"plain"), Pattern::Nothing);
        assert_eq!(Pattern::parse(b"w_*"), key(b"w_", b"", None));
        assert_eq!(Pattern::parse(b"w_*_x->f"), key(b"w_", b"_x", Some(b"f")));
        assert_eq!(Pattern::parse(b"w*->"), key(b"w", b"->", None));
        assert_eq!(Pattern::parse(b"a->b*"), key(b"a->b", b"", None));
        assert_eq!(Pattern::parse(b"##*"), key(b"##", b"", None));
    }

    #[test]
    fn limits() {
        let range =
            |start, count, len| Options { limit: Some((start, count)), ..Options::default() }.range(len);
        assert_eq!(range(0, -1, 3), 0..3);
        assert_eq!(range(1, 1, 3), 1..2);
        assert_eq!(range(-5, 2, 3), 0..2);
        assert_eq!(range(5, 2, 3), 3..3);
        assert_eq!(range(2, i64::MAX, 3), 2..3);
        assert_eq!(range(2, i64::MIN, 3), 2..3);
        assert_eq!(Options::default().range(0), 0..0);
    }
}
