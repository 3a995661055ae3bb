// SPDX-License-Identifier: BSD-3-Clause
//! Random changes of shared maps, compared with a model, and the drops of their values.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// Leaves so small that a few hundred entries make a tree of several levels.
type Small = CowMap<u32, Arc<u32>, 4>;

fn content(map: &Small) -> Vec<(u32, u32)> {
    map.iter().map(|(key, value)| (*key, **value)).collect()
}

fn model(map: &BTreeMap<u32, u32>) -> Vec<(u32, u32)> {
    map.iter().map(|(key, value)| (*key, *value)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u32),
    /// Inserts many ascending keys.
    Run(u32, u32),
    Remove(u32),
    /// Removes many ascending keys.
    Clear(u32, u32),
    Change(u32, u32),
    PopLast,
    Share,
    EndShare(usize),
    Range(Bound<u32>, Bound<u32>, Vec<bool>),
}

fn bound() -> impl Strategy<Value = Bound<u32>> {
    let key = 0..2000u32;
    prop_oneof![key.clone().prop_map(Bound::Included), key.prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..2000u32;
    prop_oneof![
        6 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (key.clone(), 1..RUN).prop_map(|(from, count)| Step::Run(from, count)),
        4 => key.clone().prop_map(Step::Remove),
        1 => (key.clone(), 1..RUN).prop_map(|(from, count)| Step::Clear(from, count)),
        3 => (key, any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
        1 => Just(Step::PopLast),
        2 => Just(Step::Share),
        1 => (0..8usize).prop_map(Step::EndShare),
        3 => (bound(), bound(), proptest::collection::vec(any::<bool>(), 0..60))
            .prop_map(|(low, high, ends)| Step::Range(low, high, ends)),
    ]
}

/// The model's entries in a range; the standard map panics for some bounds.
fn within(map: &BTreeMap<u32, u32>, low: Bound<u32>, high: Bound<u32>) -> Vec<(u32, u32)> {
    let above = |key: u32| match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    let below = |key: u32| match high {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    };
    model(map).into_iter().filter(|(key, _)| above(*key) && below(*key)).collect()
}

/// Maximum number of steps per case, and number of keys covered by one step.
const STEPS: usize = if cfg!(miri) { 30 } else { 120 };
const RUN: u32 = if cfg!(miri) { 30 } else { 300 };
const CASES: u32 = if cfg!(miri) { 2 } else { 150 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
    #[test]
    fn random_changes_agree_with_a_model_and_copies_stay(steps in proptest::collection::vec(step(), 1..STEPS)) {
        let value = |number: u32| Arc::new(number);
        let (mut map, mut expected) = (Small::default(), BTreeMap::new());
        let mut shared: Vec<(Small, Vec<(u32, u32)>)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(key, number) => {
                    prop_assert_eq!(map.insert(key, value(number)).map(|old| *old), expected.insert(key, number));
                }
                Step::Run(from, count) => (from..from + count).for_each(|key| {
                    map.insert(key, value(key));
                    expected.insert(key, key);
                }),
                Step::Remove(key) => {
                    prop_assert_eq!(map.remove(&key).map(|old| *old), expected.remove(&key));
                }
                Step::Clear(from, count) => {
                    for key in from..from + count {
                        prop_assert_eq!(map.remove(&key).map(|old| *old), expected.remove(&key));
                    }
                }
                Step::Change(key, number) => {
                    prop_assert_eq!(map.get(&key).map(|old| **old), expected.get(&key).copied());
                    if let Some(old) = map.get_mut(&key) {
                        *old = value(number);
                        expected.insert(key, number);
                    }
                }
                Step::PopLast => {
                    prop_assert_eq!(map.pop_last().map(|(key, old)| (key, *old)), expected.pop_last());
                }
                Step::Share => shared.push((map.clone(), model(&expected))),
                Step::EndShare(number) if number < shared.len() => drop(shared.swap_remove(number)),
                Step::EndShare(_) => {}
                Step::Range(low, high, ends) => {
                    let mut there: std::collections::VecDeque<_> = within(&expected, low, high).into();
                    let mut range = map.range(low, high);
                    for front in ends {
                        let (got, want) =
                            if front { (range.next(), there.pop_front()) } else { (range.next_back(), there.pop_back()) };
                        prop_assert_eq!(got.map(|(key, value)| (*key, **value)), want);
                    }
                    prop_assert_eq!(range.map(|(key, value)| (*key, **value)).collect::<Vec<_>>(), Vec::from(there));
                }
            }
            prop_assert_eq!(map.len(), expected.len());
            prop_assert_eq!(map.first_key().copied(), expected.keys().next().copied());
        }
        map.check();
        prop_assert_eq!(content(&map), model(&expected));
        prop_assert!(map.iter().rev().map(|(key, _)| *key).eq(expected.keys().rev().copied()));
        for (value, before) in &shared {
            value.check();
            prop_assert_eq!(&content(value), before);
        }
    }
}

#[test]
fn shared_values_are_dropped_exactly_once() {
    let token = Arc::new(());
    let mut map: CowMap<u32, Arc<()>, 8> = CowMap::default();
    const KEYS: u32 = if cfg!(miri) { 500 } else { 5000 };
    for key in 0..KEYS {
        map.insert(key * 7 % KEYS, Arc::clone(&token));
    }
    let count = KEYS as usize;
    assert_eq!(Arc::strong_count(&token), count + 1);
    let first = map.clone();
    assert_eq!(Arc::strong_count(&token), count + 1, "nothing is copied");
    for key in (0..KEYS).step_by(3) {
        map.remove(&key);
    }
    let second = map.clone();
    for key in 0..KEYS / 2 {
        map.insert(key, Arc::clone(&token));
    }
    assert_eq!((first.len(), second.len()), (count, 2 * count / 3));
    drop(first);
    drop(map);
    assert!(second.iter().all(|(key, _)| key % 3 > 0));
    assert_eq!(Arc::strong_count(&token), 2 * count / 3 + 1);
    drop(second);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_change_of_a_shared_map_copies_a_path() {
    let mut map: CowMap<u64, u64, 63> = CowMap::default();
    (0..200_000).for_each(|key| {
        map.insert(key, key);
    });
    let whole = map.memory_bytes();
    assert!(whole < 200_000 * 16 * 21 / 20, "ascending keys leave full leaves: {whole}");
    let leaf_places = |map: &CowMap<u64, u64, 63>| -> Vec<*const u64> {
        map.iter().filter(|(key, _)| *key % 63 == 0).map(|(_, value)| std::ptr::from_ref(value)).collect()
    };
    let shared = map.clone();
    assert_eq!(leaf_places(&map), leaf_places(&shared));
    map.remove(&100_000);
    let moved =
        leaf_places(&map).iter().zip(leaf_places(&shared)).filter(|(one, other)| **one != *other).count();
    assert_eq!(moved, 1, "only one leaf of thousands is copied");
    // A node that is no longer shared is changed in place.
    drop(shared);
    let before = leaf_places(&map);
    map.insert(100_000, 1);
    *map.get_mut(&63).unwrap() = 1;
    assert_eq!(leaf_places(&map), before);
}

#[test]
fn small_maps_allocate_only_what_they_need() {
    let mut map: CowMap<u64, u64, 63> = CowMap::default();
    assert_eq!(map.memory_bytes(), 0);
    map.insert(1, 1);
    assert_eq!(map.memory_bytes(), 64);
    (0..64).for_each(|key| {
        map.insert(key, key);
    });
    assert!(map.memory_bytes() > 2048, "a tree of two leaves");
    (0..64).for_each(|key| {
        assert_eq!(map.remove(&key), Some(key));
    });
    assert_eq!(map.memory_bytes(), 0);
}

#[test]
fn two_threads_share_a_map() {
    let mut map: CowMap<u32, Arc<u32>, 8> = CowMap::default();
    const KEYS: u32 = if cfg!(miri) { 300 } else { 3000 };
    (0..KEYS).for_each(|key| {
        map.insert(key, Arc::new(key));
    });
    for round in 0..KEYS / 100 {
        let (shared, before) = (map.clone(), map.len());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(shared.iter().filter(|(key, value)| *key == &***value).count(), before);
            });
            for key in 0..KEYS / 10 {
                map.remove(&(key * 7 + round));
                map.insert(key * 9 + round, Arc::new(key * 9 + round));
            }
        });
        map.check();
    }
}
