// SPDX-License-Identifier: BSD-3-Clause
//! Arrays beside a sorted map, snapshots, rings, the form in files.

use std::collections::BTreeMap;

use braid_keyspace::object::Collection;
use proptest::prelude::*;

use super::value::{Array, EXHAUSTED, INDEX_MAX, INLINE_MAX, Text};

fn text(array: &Array, index: u64) -> Option<&[u8]> {
    array.get(index).map(Text::bytes)
}

fn latest(array: &Array, most: u64) -> Vec<String> {
    let found = array.latest(most).map(|index| text(array, index).unwrap_or(b"-"));
    found.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn push(array: &mut Array, size: u64, texts: &[&str]) {
    array.use_as_ring(size);
    texts.iter().for_each(|text| _ = array.insert_in_ring(size, Text::Bytes(text.as_bytes())));
    array.check();
}

#[test]
fn a_ring_keeps_the_latest() {
    let mut array = Array::default();
    push(&mut array, 3, &["a", "b", "c", "d"]);
    assert_eq!((array.cursor(), array.ring(), array.count(), array.len()), (1, 3, 3, 3));
    assert_eq!(latest(&array, 9), ["d", "c", "b"]);
    // A larger one begins with what the smaller one had, oldest first.
    push(&mut array, 5, &["e"]);
    assert_eq!((text(&array, 0), text(&array, 3), array.cursor()), (Some(&b"b"[..]), Some(&b"e"[..]), 4));
    push(&mut array, 5, &["f", "g"]);
    assert_eq!(latest(&array, 4), ["g", "f", "e", "d"]);
    push(&mut array, 2, &["h"]);
    assert_eq!((array.count(), array.cursor()), (2, 1));
    assert_eq!(latest(&array, 4), ["h", "g"]);
}

/// Texts that were set, not inserted, stay where they are as long as they fit.
#[test]
fn an_array_becomes_a_ring() {
    let mut array = Array::default();
    (0..3).for_each(|index| _ = array.set(index, Text::Bytes(b"x")));
    push(&mut array, 10, &["a"]);
    assert_eq!((array.count(), text(&array, 0), text(&array, 1)), (3, Some(&b"a"[..]), Some(&b"x"[..])));
    array.set(500, Text::Bytes(b"far"));
    array.set_cursor(9000);
    push(&mut array, 2, &["b"]);
    assert_eq!((array.len(), array.count()), (2, 2));
    assert_eq!(latest(&array, 2), ["b", "far"], "what is unset is no text");
}

#[test]
fn the_last_index_is_the_end_of_insertions() {
    let mut array = Array::default();
    array.set_cursor(INDEX_MAX);
    assert_eq!(array.insert(Text::Bytes(b"last")), Some(INDEX_MAX));
    assert_eq!(
        (array.cursor(), array.len(), array.insert(Text::Bytes(b"more"))),
        (EXHAUSTED, u64::MAX, None)
    );
    assert_eq!(array.latest(9).collect::<Vec<_>>(), [INDEX_MAX]);
    assert_eq!(array.scan(INDEX_MAX, 0).count(), 1);
    assert_eq!(array.remove_range(0, INDEX_MAX), 1);
    assert_eq!((array.is_empty(), array.len(), array.latest(3).next()), (true, 0, None));
    array.check();
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let mut array = Array::default();
    (0..20_000).for_each(|index| _ = array.set(index * 3, Text::Bytes(index.to_string().as_bytes())));
    assert!(Collection::is_large(&array));
    let shared = array.clone();
    let bytes = Collection::memory_bytes(&shared);
    (0..20_000).for_each(|index| _ = array.set(index * 3, Text::Bytes(&[b'z'; 200])));
    assert_eq!(array.remove_range(1000, 50_000), 16_333);
    array.check();
    shared.check();
    assert_eq!((shared.count(), Collection::memory_bytes(&shared)), (20_000, bytes));
    assert!(shared.iter().all(|(index, text)| text.bytes() == (index / 3).to_string().as_bytes()));
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, usize),
    Remove(u64),
    RemoveRange(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = prop_oneof![8 => 0..400u64, 1 => INDEX_MAX - 70..=INDEX_MAX, 1 => any::<u64>().prop_map(|n| n.min(INDEX_MAX))];
    let len = prop_oneof![6 => 0..20usize, 1 => INLINE_MAX - 1..INLINE_MAX + 3, 1 => Just(3000)];
    let step = prop_oneof![
        6 => (index.clone(), len).prop_map(|(index, len)| Step::Set(index, len)),
        2 => index.clone().prop_map(Step::Remove),
        1 => (index.clone(), index).prop_map(|(a, b)| Step::RemoveRange(a.min(b), a.max(b))),
    ];
    prop::collection::vec(step, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn an_array_is_a_sorted_map(steps in steps(), ends in any::<(u64, u64)>(), near in (0..500u64, 0..500u64)) {
        let mut array = Array::default();
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Set(index, len) => {
                    let bytes = vec![number as u8; len];
                    let is_new = array.set(index, Text::Bytes(&bytes));
                    prop_assert_eq!(is_new, model.insert(index, bytes).is_none());
                }
                Step::Remove(index) => prop_assert_eq!(array.remove(index), model.remove(&index).is_some()),
                Step::RemoveRange(first, last) => {
                    let before = model.len();
                    model.retain(|index, _| !(first..=last).contains(index));
                    prop_assert_eq!(array.remove_range(first, last), (before - model.len()) as u64);
                }
            }
            array.check();
        }
        prop_assert_eq!(array.count(), model.len() as u64);
        prop_assert_eq!(array.len(), model.last_key_value().map_or(0, |(index, _)| index + 1));
        for (first, last) in [ends, near, (0, INDEX_MAX)] {
            let (low, high) = (first.min(last).min(INDEX_MAX), first.max(last).min(INDEX_MAX));
            let expected: Vec<(u64, &[u8])> = model.range(low..=high).map(|(index, text)| (*index, &text[..])).collect();
            let found: Vec<(u64, &[u8])> = array.scan(low, high).map(|(index, text)| (index, text.bytes())).collect();
            prop_assert_eq!(&found, &expected);
            if low != high {
                let reverse: Vec<(u64, &[u8])> = array.scan(high, low).map(|(index, text)| (index, text.bytes())).collect();
                prop_assert!(reverse.iter().eq(expected.iter().rev()));
            }
        }
        for index in (0..400).chain(INDEX_MAX - 70..=INDEX_MAX) {
            prop_assert_eq!(text(&array, index), model.get(&index).map(|text| &text[..]));
        }
    }
}
