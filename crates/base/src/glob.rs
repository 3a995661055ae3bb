// SPDX-License-Identifier: BSD-3-Clause
//! Glob patterns of KEYS, SCAN MATCH, PSUBSCRIBE, CONFIG GET and the ACL, with exactly Redis's
//! semantics.
//!
//! - `*` any run of bytes, `?` any byte, `[a-z]` one byte of a class, `[^a]` one byte outside it,
//!   `\x` the byte `x`.
//! - In a class, `\` makes the next byte literal; a range's ends may be in either order; a class
//!   without `]` extends to the end of the pattern. A lone `\` at the end of a pattern matches
//!   itself.
//! - The empty text matches only the empty pattern, not even `*` (callers that mean "everything"
//!   test for that).
//! - Bytes above 127 compare as *negative* numbers in ranges, because Redis uses C's `char`.
//!
//! Every element except `*` consumes exactly one byte, so after a mismatch only the last `*` can
//! help, by consuming one more byte: if an earlier star consumed more, less would be left for the
//! later ones. Therefore the time is at most pattern length times text length, without recursion,
//! for any pattern.

/// True if `pattern` matches all of `text`. With `ignore_case`, ASCII letters match in either case
/// (except, as in Redis, a letter after `\` inside a class).
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let mut pattern_at = 0;
    let mut text_at = 0;
    // Where to resume after a mismatch: after the last star, at the next text byte that the star
    // could consume.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if text_at == text.len() {
            // Only stars may be left; if the last star consumed more, even less would be left for
            // the rest of the pattern.
            return pattern[pattern_at..].iter().all(|&byte| byte == b'*');
        }
        if pattern.get(pattern_at) == Some(&b'*') {
            while pattern.get(pattern_at) == Some(&b'*') {
                pattern_at += 1;
            }
            if pattern_at == pattern.len() {
                return true;
            }
            star = Some((pattern_at, text_at));
        }
        match match_one(pattern, pattern_at, text[text_at], ignore_case) {
            Some(next) => {
                pattern_at = next;
                text_at += 1;
            }
            None => match star {
                None => return false,
                Some((behind_star, left_over)) => {
                    pattern_at = behind_star;
                    text_at = left_over + 1;
                    star = Some((behind_star, text_at));
                }
            },
        }
    }
}

/// Matches the single element at `at` (not a star) against one byte. Returns the index after the
/// element, or `None` if it does not match or the pattern has ended.
#[inline]
fn match_one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte, ignore_case),
        b'\\' if at + 1 < pattern.len() => same(pattern[at + 1], byte, ignore_case).then_some(at + 2),
        literal => same(literal, byte, ignore_case).then_some(at + 1),
    }
}

#[inline]
fn same(left: u8, right: u8, ignore_case: bool) -> bool {
    if ignore_case { left.eq_ignore_ascii_case(&right) } else { left == right }
}

/// Matches the class whose `[` is just before `at`.
fn match_class(pattern: &[u8], mut at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            // Not closed: the class extends to the end of the pattern.
            [] => break,
            // A backslash at the end of the pattern is itself a member, handled by the last arm.
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [start, b'-', end, ..] => {
                found |= in_range(*start, *end, byte, ignore_case);
                at += 3;
            }
            [literal, ..] => {
                found |= same(*literal, byte, ignore_case);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// C's `char` is signed on Redis's platforms, and the ends are sorted before case folding: both
/// affect the result.
fn in_range(start: u8, end: u8, byte: u8, ignore_case: bool) -> bool {
    let (start, end) = (start as i8, end as i8);
    let (low, high) = if start > end { (end, start) } else { (start, end) };
    if ignore_case {
        (fold(low)..=fold(high)).contains(&fold(byte as i8))
    } else {
        (low..=high).contains(&(byte as i8))
    }
}

/// C's `tolower` in the C locale for a signed char: a negative value becomes the byte it
/// represents, except -1, which is EOF.
fn fold(byte: i8) -> i32 {
    match byte {
        -1 => -1,
        _ => i32::from((byte as u8).to_ascii_lowercase()),
    }
}

/// True if the pattern matches only itself: it has no `*`, `?`, `[` or `\`.
pub fn is_literal(pattern: &[u8]) -> bool {
    literal_prefix(pattern).len() == pattern.len()
}

/// The common prefix of all matching texts (if matching is case-sensitive): the pattern up to its
/// first special byte.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end =
        pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The naive semantics: a star matches nothing, or consumes one byte and stays.
    fn model(pattern: &[u8], text: &[u8], ignore_case: bool, top: bool) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (_, []) => !top && pattern.iter().all(|&byte| byte == b'*'),
            ([b'*', rest @ ..], [_, left @ ..]) => {
                model(rest, text, ignore_case, false) || model(pattern, left, ignore_case, false)
            }
            (_, [byte, left @ ..]) => match_one(pattern, 0, *byte, ignore_case)
                .is_some_and(|next| model(&pattern[next..], left, ignore_case, false)),
        }
    }

    #[test]
    fn documented_patterns() {
        let yes: &[(&str, &str)] = &[
            ("h?llo", "hallo"),
            ("h*llo", "hllo"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hbllo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("[a", "a"),
            ("[^", "x"),
            ("[\\]]", "]"),
            ("[a\\", "\\"),
            ("[a-", "-"),
            ("[+--]", "-"),
            ("a**", "a"),
            ("", ""),
            ("*a*b*c", "xxaxxbxxc"),
            ("[[]", "["),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text}");
        }
        let no: &[(&str, &str)] = &[
            ("*", ""),
            ("", "a"),
            ("h[^e]llo", "hello"),
            ("[", "["),
            ("[]a]", "]"),
            ("a?", "a"),
            ("*a", "ab"),
            ("\\a*", "b"),
            ("A", "a"),
            ("[^]", ""),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text}");
        }
    }

    #[test]
    fn letter_case_and_signed_ranges() {
        assert!(matches(b"HeLLo", b"hEllO", true));
        assert!(matches(b"[A-C]x", b"bX", true));
        assert!(!matches(b"[\\A]", b"a", true), "an escaped class member keeps its case");
        assert!(!matches(b"[Z-a]", b"z", true), "ends are ordered before case is folded");
        assert!(matches(b"[a-\xff]", b"\x00", false), "0xff is -1, below every letter");
        assert!(!matches(b"[a-\xff]", b"\x80", false));
        assert!(matches(b"[\x80-\xff]", b"\xc0", false));
    }

    #[test]
    fn hostile_patterns_take_no_exponential_time() {
        let pattern = b"*a".repeat(1000);
        let mut pattern = pattern;
        pattern.push(b'b');
        assert!(!matches(&pattern, &b"a".repeat(5000), false));
    }

    #[test]
    fn literals() {
        assert!(is_literal(b"abc]^-"));
        assert!(!is_literal(b"ab?"));
        assert_eq!(literal_prefix(b"user:\\*"), b"user:");
        assert_eq!(literal_prefix(b"*"), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn equals_the_naive_matcher(
            pattern in "[ab*?\\[\\]^\\\\-]{0,9}", text in "[abA\\]-]{0,7}", ignore_case: bool,
        ) {
            let expected = model(pattern.as_bytes(), text.as_bytes(), ignore_case, true);
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), ignore_case), expected);
        }

        #[test]
        fn any_bytes_are_survived(pattern: Vec<u8>, text: Vec<u8>) {
            matches(&pattern, &text, true);
            prop_assert!(!is_literal(&pattern) || matches(&pattern, &pattern, false));
        }
    }
}
