// SPDX-License-Identifier: BSD-3-Clause
//! Matches the elements of a list with those of a later version when only the values are known.
//! An unmatched element loses its identity, so a pair must have equal values, and few elements
//! should remain unmatched.
//!
//! Equal ends are matched first. The middle is a longest common subsequence (Hunt and Szymanski):
//! all pairs of equal values are listed, row by row and each row backwards, and the longest
//! rising subsequence is taken. The time depends on the number of pairs. Where values repeat so
//! often that there are too many pairs, only the n-th occurrences of a value are paired with each
//! other, which may match fewer elements than possible.

use std::collections::HashMap;

use crate::Bytes;

/// The maximum number of candidate pairs per element.
const PAIRS: usize = 16;

/// The index pairs of matched elements, in order.
pub fn matching(from: &[Bytes], to: &[Bytes]) -> Vec<(usize, usize)> {
    let (start, end) = common(from, to);
    let (from_end, to_end) = (from.len() - end, to.len() - end);
    let mut places: HashMap<&Bytes, Vec<usize>> = HashMap::new();
    for (index, value) in from.iter().enumerate().take(from_end).skip(start) {
        places.entry(value).or_default().push(index);
    }
    let middle = || {
        let values = to.iter().enumerate().take(to_end).skip(start);
        values.filter_map(|(index, value)| Some((index, value, places.get(value)?)))
    };
    let most = PAIRS * (from_end + to_end - 2 * start);
    let all: usize = middle().map(|(.., places)| places.len()).sum();
    let mut candidates = Vec::with_capacity(all.min(most));
    if all <= most {
        for (index, _, places) in middle() {
            candidates.extend(places.iter().rev().map(|place| (*place, index)));
        }
    } else {
        let mut taken: HashMap<&Bytes, usize> = HashMap::new();
        for (index, value, places) in middle() {
            let count = taken.entry(value).or_default();
            candidates.extend(places.get(*count).map(|place| (*place, index)));
            *count += 1;
        }
    }
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|index| (index, index)).collect();
    pairs.extend(longest_rise(&candidates));
    pairs.extend((0..end).map(|index| (from_end + index, to_end + index)));
    pairs
}

/// The length of the common prefix, and that of the common suffix of the rest.
pub fn common(from: &[Bytes], to: &[Bytes]) -> (usize, usize) {
    let start = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let rest = from[start..].iter().rev().zip(to[start..].iter().rev());
    (start, rest.take_while(|(one, other)| one == other).count())
}

/// The longest subsequence of pairs with rising first numbers. In the input the second numbers
/// never fall, and where they are equal the first numbers fall.
fn longest_rise(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // `ends` has, for each length, the last pair of the subsequence that ends lowest; `before`
    // has the predecessor of each pair in its subsequence.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let len = ends.partition_point(|end| pairs[*end].0 < pair.0);
        before.push(len.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(len) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let last = ends.last().copied();
    let mut row: Vec<_> = std::iter::successors(last, |index| before[*index]).map(|at| pairs[at]).collect();
    row.reverse();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<Bytes> {
        text.bytes().map(|byte| Bytes::from([byte])).collect()
    }

    fn kept(from: &str, to: &str) -> String {
        let (from, to) = (list(from), list(to));
        let pairs = matching(&from, &to);
        assert!(pairs.is_sorted_by(|one, other| one.0 < other.0 && one.1 < other.1), "{pairs:?}");
        assert!(pairs.iter().all(|(one, other)| from[*one] == to[*other]), "{pairs:?}");
        pairs.into_iter().map(|(index, _)| char::from(from[index][0])).collect()
    }

    #[test]
    fn matching_finds_unchanged_elements() {
        for (from, to, expected) in [
            ("", "abc", ""),
            ("abc", "", ""),
            ("abc", "abc", "abc"),
            ("abcdefg", "acefg", "acefg"),
            ("abcdefg", "xabycdzfgw", "abcdfg"),
            ("abcdef", "fabcde", "abcde"),
            ("aabbaabb", "abab", "abab"),
            ("fedcba", "abcdef", "a"),
        ] {
            assert_eq!(kept(from, to).len(), expected.len(), "{from} {to}");
        }
    }

    /// All elements that were not removed are matched, wherever others were inserted.
    #[test]
    fn unique_elements_all_stay() {
        let mut random = fastrand::Rng::with_seed(1);
        let letters: String = (b'a'..=b'z').map(char::from).collect();
        for _ in 0..1_000 {
            let stay: String = letters.chars().filter(|_| random.u8(0..4) > 0).collect();
            let mut to = stay.clone();
            for letter in b'A'..=b'Z' {
                if random.bool() {
                    to.insert(random.usize(0..=to.len()), char::from(letter));
                }
            }
            assert_eq!(kept(&letters, &to), stay, "{to}");
        }
    }

    /// The length of the longest common subsequence, by dynamic programming.
    fn longest(from: &str, to: &str) -> usize {
        let mut row = vec![0; to.len() + 1];
        for one in from.bytes() {
            let mut diagonal = 0;
            for (index, other) in to.bytes().enumerate() {
                let longer = if one == other { diagonal + 1 } else { row[index].max(row[index + 1]) };
                diagonal = std::mem::replace(&mut row[index + 1], longer);
            }
        }
        row[to.len()]
    }

    #[test]
    fn of_equal_values_as_many_as_can_stay() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..1_000 {
            let mut text = || -> String {
                let len = random.usize(0..20);
                (0..len).map(|_| char::from(random.u8(b'a'..b'e'))).collect()
            };
            let (from, to) = (text(), text());
            assert_eq!(kept(&from, &to).len(), longest(&from, &to), "{from} {to}");
        }
    }

    /// If every element equals every second element, not all pairs are listed: they would not fit
    /// into memory.
    #[test]
    fn many_equal_values_take_no_long_time() {
        let text = |first: &str| format!("{first}{}", "ab".repeat(50_000));
        let from = text("cb");
        assert!(kept(&from, &(text("d") + "e")).len() >= 50_000);
    }
}
