// SPDX-License-Identifier: BSD-3-Clause
//! Scores, look-ups beside a plain list, snapshots, the form in files.

use braid_keyspace::object::Collection;
use proptest::prelude::*;

use super::value::{CHARS_MAX, Suggestions};

fn of(texts: &[(&str, f32)]) -> Suggestions {
    let mut all = Suggestions::default();
    texts.iter().for_each(|(text, score)| assert!(all.add(text, *score, false, None)));
    all
}

fn scores(all: &Suggestions, prefix: &str, fuzzy: bool) -> Vec<(String, f64)> {
    let found = all.get(prefix, 5, fuzzy);
    found.into_iter().map(|one| (one.text.to_owned(), f64::from(one.score))).collect()
}

#[track_caller]
fn check(all: &Suggestions, prefix: &str, fuzzy: bool, expected: &[(&str, f64)]) {
    let found = scores(all, prefix, fuzzy);
    let found: Vec<(&str, f64)> = found.iter().map(|(text, score)| (&**text, *score)).collect();
    assert_eq!(found, expected, "{prefix}");
}

/// As Redis Stack 7.4 scores them.
#[test]
fn scores_are_those_of_stack() {
    let all = of(&[("hello", 3.0), ("help me", 5.0), ("Helm", 2.0), ("hel", 0.5)]);
    let hel = [
        ("hel", 2_147_483_648.0),
        ("help me", 2.236_068_010_330_2),
        ("hello", 1.732_050_776_481_628_4),
        ("Helm", 1.414_213_538_169_860_8),
    ];
    check(&all, "HEL", false, &hel);
    check(&all, "hell", false, &[("hello", 2.121_320_247_650_146_5)]);
    check(&all, "hekp", true, &[("help me", 0.338_338_196_277_618_4)]);
    check(&all, "hekp", false, &[]);
    check(&all, "hlp", true, &[("help me", 0.302_618_891_000_747_7)]);
    check(&all, "hellp", true, &[("hello", 290_630_304.0), ("help me", 0.390_679_299_831_390_4)]);
    let all = of(&[("abcde", 3.0)]);
    check(&all, "abcfe", true, &[("abcde", 290_630_304.0)]);
    check(&all, "xbcde", true, &[("abcde", 0.406_005_859_375)]);
    check(&all, "bc", true, &[("abcde", 0.203_002_929_687_5)]);
    check(&all, "", true, &[("abcde", 0.165_751_203_894_615_17)]);
    let all = of(&[("Foo", 1.0), ("foo", 2.0), ("FOO", 3.0)]);
    check(&all, "FOO", false, &[("foo", 2_147_483_648.0), ("FOO", 3.0), ("Foo", 1.0)]);
}

#[test]
fn texts_are_added_and_changed() {
    let mut all = of(&[("a", 1.0)]);
    assert!(all.add("a", 2.0, true, Some(b"p")));
    assert!(all.add("a", 4.0, false, None));
    let entry = all.iter().next().expect("a text");
    assert_eq!((entry.score, entry.payload.as_deref()), (4.0, Some(&b"p"[..])));
    assert!(
        !all.add("a", 0.0, false, None) && !all.add("b", 0.0, true, None) && !all.add("", 1.0, false, None)
    );
    assert!(!all.add(&"x".repeat(CHARS_MAX), 1.0, false, None));
    assert!(all.add(&"x".repeat(CHARS_MAX - 1), 1.0, false, None));
    assert!(all.add("a", f32::INFINITY, false, None) && all.add("a", f32::NEG_INFINITY, true, None));
    assert_eq!(all.iter().next().map(|entry| entry.score), Some(f32::INFINITY));
    assert!(!all.remove("A") && all.remove("a") && !all.remove("a"));
    assert_eq!(all.len(), 1);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let mut all = Suggestions::default();
    (0..5000).for_each(|number| _ = all.add(&format!("text {number}"), 1.0, false, None));
    assert!(Collection::is_large(&all));
    let shared = all.clone();
    let bytes = shared.memory_bytes();
    (0..5000).step_by(3).for_each(|number| assert!(all.remove(&format!("text {number}"))));
    (0..900).for_each(|number| _ = all.add(&format!("other {number}"), 1.0, false, None));
    assert_eq!((shared.len(), shared.memory_bytes()), (5000, bytes));
    assert!(shared.iter().all(|entry| entry.text.starts_with("text") && entry.score == 1.0));
    assert_eq!(shared.iter().count(), 5000);
    (0..5000).for_each(|number| _ = all.remove(&format!("text {number}")));
    (0..900).for_each(|number| assert!(all.remove(&format!("other {number}"))));
    assert_eq!((all.len(), all.iter().count(), all.chunk_count()), (0, 0, 0));
}

/// Edits from one to the other.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = (diagonal + usize::from(a != b)).min(above + 1).min(row[column] + 1);
            diagonal = above;
        }
    }
    row[other.len()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Beside a plain list that is looked through from beginning to end.
    #[test]
    fn look_ups_find_what_a_list_has(
        steps in prop::collection::vec(("[abAé\u{d7ff}\u{e000}]{1,5}", 1..100i32, any::<bool>()), 1..300),
        prefix in "[abcé]{0,4}",
    ) {
        let mut all = Suggestions::default();
        let mut list: Vec<String> = Vec::new();
        for (text, score, removes) in &steps {
            if *removes && list.len() > 70 {
                let is_there = list.contains(text);
                list.retain(|one| one != text);
                prop_assert_eq!(all.remove(text), is_there);
            } else {
                all.add(text, *score as f32, false, None);
                if !list.contains(text) {
                    list.push(text.clone());
                }
            }
        }
        prop_assert_eq!(all.len(), list.len());
        let typed: Vec<char> = prefix.chars().collect();
        for fuzzy in [false, true] {
            let mut found: Vec<&str> = all.get(&prefix, usize::MAX, fuzzy).iter().map(|one| one.text).collect();
            let mut expected: Vec<&str> = list.iter().map(|text| &**text).filter(|text| {
                let text: Vec<char> = text.to_lowercase().chars().collect();
                let near = |len| distance(&typed, &text[..len]) <= usize::from(fuzzy);
                (0..=text.len()).any(near)
            }).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
        let all_found = all.get(&prefix, usize::MAX, true);
        let few: Vec<_> = all.get(&prefix, 3, true);
        prop_assert_eq!(&few[..], &all_found[..few.len()]);
        prop_assert_eq!(few.len(), all_found.len().min(3));
    }
}
