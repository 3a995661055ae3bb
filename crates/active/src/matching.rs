// SPDX-License-Identifier: BSD-3-Clause
//! Which elements of a list are still there in a later form of it, when nothing is known but the
//! values. Takes time for n elements as sorting does, whatever they are.
//!
//! Equal ends first. Between them the first of equal values is taken for the first, the second for
//! the second, and of these pairs the longest row stays in which neither list goes back. If values
//! are unique that is the longest there is. Elements that are not paired cost their identity, so a
//! pair must never be of different values.

use std::collections::{HashMap, VecDeque};

use crate::Bytes;

/// Indexes of elements that are the same, in order.
pub fn matching(from: &[Bytes], to: &[Bytes]) -> Vec<(usize, usize)> {
    let (start, end) = common(from, to);
    let (from_end, to_end) = (from.len() - end, to.len() - end);
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|index| (index, index)).collect();
    let mut places: HashMap<&Bytes, VecDeque<usize>> = HashMap::new();
    for (index, value) in from.iter().enumerate().take(from_end).skip(start) {
        places.entry(value).or_default().push_back(index);
    }
    let middle = to.iter().enumerate().take(to_end).skip(start);
    let candidates = middle.filter_map(|(index, value)| Some((places.get_mut(value)?.pop_front()?, index)));
    pairs.extend(longest_rise(&candidates.collect::<Vec<_>>()));
    pairs.extend((0..end).map(|index| (from_end + index, to_end + index)));
    pairs
}

/// How many elements two lists have in common at the begin, and at the end of the rest.
pub fn common(from: &[Bytes], to: &[Bytes]) -> (usize, usize) {
    let start = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let rest = from[start..].iter().rev().zip(to[start..].iter().rev());
    (start, rest.take_while(|(one, other)| one == other).count())
}

/// The longest row of pairs whose first numbers, which differ, rise; the second ones do.
fn longest_rise(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Of the rows of each length, the pair that ends the one with the least end; and before each pair
    // the one before it in its row.
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
    fn what_stays_is_found() {
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
        assert_eq!(kept("abcdefg", "xabycdzfgw"), "abcdfg");
    }

    /// All that was not removed, wherever something was inserted.
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
}
