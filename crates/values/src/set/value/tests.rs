// SPDX-License-Identifier: BSD-3-Clause
//! Sets checked against standard sets, and their forms against the thresholds.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_000;

fn set_of<T: AsRef<[u8]>>(members: impl IntoIterator<Item = T>) -> Set {
    let mut set = Set::default();
    for member in members {
        set.add(member.as_ref(), NOW, &SetLimits::default());
    }
    set
}

fn texts(set: &Set) -> BTreeSet<Vec<u8>> {
    set.iter(NOW).map(|element| element.to_vec()).collect()
}

#[test]
fn forms_follow_the_thresholds() {
    let limits = SetLimits::default();
    let mut set = set_of((0..512).map(|number| number.to_string()));
    assert_eq!((set.encoding(), set.len()), ("intset", 512));
    assert!(set.add(b"512", NOW, &limits));
    assert_eq!((set.encoding(), set.len()), ("hashtable", 513));
    let mut set = set_of(["1", "2"]);
    assert!(set.add(b"x", NOW, &limits) && !set.add(b"2", NOW, &limits));
    assert_eq!((set.encoding(), set.len()), ("listpack", 3));
    for number in 0..125 {
        assert!(set.add(format!("m{number}").as_bytes(), NOW, &limits));
    }
    assert_eq!((set.encoding(), set.len()), ("listpack", 128));
    assert!(set.add(b"one more", NOW, &limits));
    assert_eq!((set.encoding(), set.len()), ("hashtable", 129));
    assert!(set.contains(b"1", NOW) && set.contains(b"one more", NOW) && !set.contains(b"two more", NOW));
    let mut set = set_of(["1"]);
    assert!(set.add(&[b'x'; 65], NOW, &limits));
    assert_eq!(set.encoding(), "hashtable");
    let mut set = set_of((0..128).map(|number| number.to_string()));
    set.add(b"x", NOW, &limits);
    assert_eq!(set.encoding(), "hashtable", "129 members do not fit a listpack");
    assert_eq!(Set::for_member(b"1", 600, &limits).encoding(), "hashtable");
    assert_eq!(Set::for_member(b"x", 6, &limits).encoding(), "listpack");
    let mut set = set_of(["3", "x"]);
    set.try_make_ints(&limits);
    assert_eq!(set.encoding(), "listpack");
    set.remove(b"x", NOW);
    set.try_make_ints(&limits);
    assert_eq!((set.encoding(), set.len()), ("intset", 1));
}

#[test]
fn loaded_lists_are_checked_for_doubles() {
    let mut list = Listpack::new();
    list.push_back(b"a");
    list.push_back(b"7");
    assert_eq!(Set::from_listpack(list.clone(), &SetLimits::default()).unwrap().encoding(), "listpack");
    list.push_back(b"a");
    assert!(Set::from_listpack(list, &SetLimits::default()).is_none());
}

#[test]
fn expired_members_are_hidden_and_can_be_added_as_new() {
    let limits = SetLimits::default();
    let mut set = set_of(["1", "2", "3"]);
    assert_eq!(set.set_expiry(b"1", None, NOW), Some(None));
    assert_eq!(set.encoding(), "intset");
    assert_eq!(set.set_expiry(b"1", Some(NOW + 5), NOW), Some(None));
    assert_eq!(set.set_expiry(b"2", Some(NOW + 6), NOW), Some(None));
    assert_eq!(set.set_expiry(b"9", Some(NOW + 6), NOW), None);
    assert_eq!((set.encoding(), set.next_expiry()), ("hashtable", Some(NOW + 5)));
    assert!(set.contains(b"1", NOW + 5) && !set.contains(b"1", NOW + 6));
    assert_eq!((set.iter(NOW + 6).count(), set.len()), (2, 3));
    assert_eq!(set.expiry(b"2", NOW), Some(Some(NOW + 6)));
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..50 {
        assert_eq!(set.random(NOW + 100, &mut random), Some(Element::Bytes(b"3")));
    }
    assert!(set.add(b"1", NOW + 6, &limits), "an expired member is new");
    assert_eq!(set.expiry(b"1", NOW + 6), Some(None));
    assert!(!set.remove(b"2", NOW + 7));
    assert_eq!((set.len(), set.next_expiry()), (2, None));
    set.add_expiring(b"4", 10);
    assert_eq!(set.iter_with_expiry().filter(|(_, time)| *time == Some(10)).count(), 1);
    assert_eq!(set.remove_expired(NOW, 10, |member| assert_eq!(member, b"4")), 1);
}

#[test]
fn sampling_small_forms() {
    let mut random = fastrand::Rng::with_seed(3);
    for set in [set_of(["1", "2", "3", "4"]), set_of(["a", "b", "c", "4"])] {
        let mut hits = BTreeMap::<Vec<u8>, u32>::new();
        for _ in 0..4000 {
            let mut count = 0;
            set.sample(2, &mut random, |element| {
                count += 1;
                *hits.entry(element.to_vec()).or_default() += 1;
            });
            assert_eq!(count, 2);
        }
        assert!(hits.len() == 4 && hits.values().all(|&hit| (1850..2150).contains(&hit)), "{hits:?}");
    }
    assert!(Set::default().random(NOW, &mut random).is_none());
    assert!(Set::default().pop_random(&mut random, |_| ()).is_none());
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (-20i64..200).prop_map(|number| number.to_string().into_bytes()),
        3 => (0u32..60).prop_map(|number| format!("m{number}").into_bytes()),
        1 => (0u8..5).prop_map(|byte| vec![byte; 70]),
    ]
}

const CASES: u32 = if cfg!(miri) { 2 } else { 120 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn behaves_as_a_set(changes in proptest::collection::vec((member(), 0u8..6), 1..if cfg!(miri) { 60 } else { 250 })) {
        let limits = SetLimits { max_intset_entries: 40, max_listpack_entries: 30, max_listpack_value: 64 };
        let mut random = fastrand::Rng::with_seed(5);
        let mut set = Set::default();
        let mut model = BTreeSet::new();
        for (member, what) in changes {
            match what {
                0 => prop_assert_eq!(set.remove(&member, NOW), model.remove(&member)),
                1 => {
                    let popped = set.pop_random(&mut random, |element| element.to_vec());
                    prop_assert_eq!(popped.is_none(), model.is_empty());
                    if let Some(popped) = popped {
                        prop_assert!(model.remove(&popped));
                    }
                }
                _ => prop_assert_eq!(set.add(&member, NOW, &limits), model.insert(member.clone())),
            }
            prop_assert_eq!(set.contains(&member, NOW), model.contains(&member));
            prop_assert_eq!(set.len(), model.len());
        }
        prop_assert_eq!(texts(&set), model.clone());
        let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = set.scan(cursor, 5, NOW, |element| { scanned.insert(element.to_vec()); });
            if cursor == 0 { break; }
        }
        prop_assert_eq!(scanned, model.clone());
        if let Some(random) = set.random(NOW, &mut random) {
            prop_assert!(model.contains(&random.to_vec()));
        }
    }

    #[test]
    fn combinations(all in proptest::collection::vec(proptest::collection::vec(member(), 0..120), 1..4)) {
        let models: Vec<BTreeSet<Vec<u8>>> =
            all.iter().map(|members| members.iter().cloned().collect()).collect();
        let owned: Vec<Set> = all.iter().map(set_of).collect();
        let sets: Vec<&Set> = owned.iter().collect();
        type Members = BTreeSet<Vec<u8>>;
        let fold = |combine: fn(&Members, &Members) -> Members| {
            models[1..].iter().fold(models[0].clone(), |one, two| combine(&one, two))
        };
        let mut found = Vec::new();
        intersection(&sets, NOW, |element| { found.push(element.to_vec()); true });
        found.sort();
        prop_assert_eq!(found, fold(|one, two| one & two).into_iter().collect::<Vec<_>>());
        let mut found = Vec::new();
        union(&sets, NOW, |element| {
            found.push(element.to_vec());
            true
        });
        found.sort();
        prop_assert_eq!(found, fold(|one, two| one | two).into_iter().collect::<Vec<_>>());
        let mut found = Vec::new();
        difference(&sets, NOW, |element| {
            found.push(element.to_vec());
            true
        });
        found.sort();
        prop_assert_eq!(found, fold(|one, two| one - two).into_iter().collect::<Vec<_>>());
    }
}
