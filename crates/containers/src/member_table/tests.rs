// SPDX-License-Identifier: BSD-3-Clause
//! Member tables compared with standard maps.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;
use proptest::prelude::*;

fn key(number: usize) -> Vec<u8> {
    format!("member:{number:09}").into_bytes()
}

#[test]
fn a_large_table_grows_and_shrinks_with_all_members() {
    let mut table = Table::<false>::new();
    for number in 0..50_000 {
        assert!(table.add(&key(number)));
    }
    assert!(!table.add(&key(7)));
    table.check();
    let bytes = table.memory_bytes() as f64 / 50_000.0;
    assert!(bytes < 26.0, "{bytes} bytes per member of 16");
    for number in 0..50_000 {
        assert!(table.contains(&key(number)));
        assert!(!table.contains(&key(number + 50_000)));
    }
    for number in 100..50_000 {
        assert!(table.remove(&key(number)));
        if number % 5_000 == 0 {
            table.check();
        }
    }
    table.check();
    assert_eq!(table.len(), 100);
    assert!(table.memory_bytes() < 8_000, "{}", table.memory_bytes());
    assert!((0..100).all(|number| table.contains(&key(number))));
}

#[test]
fn memory_freed_by_growing_segments_is_reused() {
    // Models an allocator that never reuses the memory of one size class for another: it keeps the
    // maximum ever used of each class.
    let mut table = Table::<true>::new();
    let mut most: BTreeMap<usize, usize> = BTreeMap::new();
    for number in 0..200_000 {
        table.set(&key(number), &[b'v'; 32], Expiry::Keep);
        if number % 1000 != 0 || number < 50_000 {
            continue;
        }
        let mut now: BTreeMap<usize, usize> = BTreeMap::new();
        for segment in table.segments.iter() {
            *now.entry(segment.memory_bytes()).or_default() += 1;
        }
        for (&size, &count) in &now {
            let most = most.entry(size).or_default();
            *most = count.max(*most);
        }
        let bytes =
            |sizes: &BTreeMap<usize, usize>| sizes.iter().map(|(size, count)| size * count).sum::<usize>();
        let ratio = bytes(&most) as f64 / bytes(&now) as f64;
        assert!(ratio < 1.12, "{ratio} at {number}: {now:?} of {most:?}");
    }
}

#[test]
fn copying_in_table_order_does_not_crowd_segments() {
    let mut one = Table::<false>::new();
    (0..60_000).for_each(|number| assert!(one.add(&key(number))));
    let mut two = Table::<false>::new();
    let mut cursor = 0;
    loop {
        cursor = one.scan(cursor, 10, |member| assert!(two.add(member.key)));
        if cursor == 0 {
            break;
        }
    }
    two.check();
    assert!(two.count_bound < 150, "{}", two.count_bound);
}

#[test]
fn a_scan_sees_everything_that_stays_once() {
    let sizes = if cfg!(miri) {
        [(100, 600), (600, 50), (100, 100), (5, 200)]
    } else {
        [(3_000, 30_000), (30_000, 600), (1000, 1000), (5, 2_000)]
    };
    for (before, after) in sizes {
        let mut table = Table::<true>::new();
        (0..before).for_each(|number| assert!(table.set(&key(number), b"v", Expiry::Keep)));
        let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
        let (mut cursor, mut step, mut most) = (0, 0, 0);
        let changes_a_step = 37;
        let (mut low, mut high) = (before, before);
        loop {
            let mut now = 0;
            cursor = table.scan(cursor, 10, |member| {
                now += 1;
                *seen.entry(member.key.to_vec()).or_default() += 1;
            });
            most = most.max(now);
            if cursor == 0 {
                break;
            }
            for _ in 0..changes_a_step {
                if after > before && high < after {
                    table.set(&key(high), b"v", Expiry::Keep);
                    high += 1;
                } else if after < before && low > after {
                    low -= 1;
                    table.remove(&key(low));
                }
            }
            step += 1;
        }
        assert!(step > 0 || before < 10);
        for number in 0..low.min(before) {
            assert_eq!(seen.get(&key(number)), Some(&1), "{before} to {after}: {number}");
        }
        assert!(most <= 10, "a count of 10 returned {most} members");
        table.check();
    }
}

#[test]
fn a_scan_returns_pages_of_the_requested_size_at_any_number_of_members() {
    for members in [1, 2, 9, 31, 32, 33, 40, 72, 100, 128, 129, 600, if cfg!(miri) { 700 } else { 5_000 }] {
        let mut table = Table::<true>::new();
        (0..members).for_each(|number| assert!(table.set(&key(number), b"v", Expiry::Keep)));
        for count in [1, 7, 10, 50, 1000, usize::MAX] {
            let (mut cursor, mut seen, mut pages, mut digits) = (0, HashSet::new(), Vec::new(), 0);
            loop {
                let mut page = 0;
                cursor = table.scan(cursor, count, |member| {
                    page += 1;
                    assert!(seen.insert(member.key.to_vec()));
                });
                pages.push(page);
                digits = digits.max(64 - cursor.leading_zeros());
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), members);
            let last = pages.pop().unwrap();
            assert!(pages.iter().all(|&page| page == count) && last <= count, "{members}: {pages:?} {last}");
            assert!(digits <= 40, "{members} by {count}: cursors of {digits} binary digits");
        }
    }
}

#[test]
fn any_cursor_is_harmless() {
    let mut table = Table::<false>::new();
    (0..5_000).for_each(|number| assert!(table.add(&key(number))));
    for cursor in [1, 2, u64::MAX, u64::MAX - 1, 1 << 63, 0x5555_5555_5555_5555] {
        let mut cursor = cursor;
        for _ in 0..10_000 {
            cursor = table.scan(cursor, usize::MAX / 2, |_| ());
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(cursor, 0);
    }
    assert_eq!(Table::<true>::new().scan(0, 10, |_| panic!("the table is empty")), 0);
}

#[test]
fn random_members_are_fair() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut table = Table::<false>::new();
    (0..1000).for_each(|number| assert!(table.add(&key(number))));
    (500..1000).for_each(|number| assert!(table.remove(&key(number))));
    let mut hits: HashMap<Vec<u8>, f64> = HashMap::new();
    let tries = 200_000;
    for _ in 0..tries {
        *hits.entry(table.random(&mut random).unwrap().key.to_vec()).or_default() += 1.0;
    }
    let expected = f64::from(tries) / 500.0;
    let chi_square: f64 = (0..500)
        .map(|number| (hits.get(&key(number)).copied().unwrap_or(0.0) - expected).powi(2) / expected)
        .sum();
    // 499 degrees of freedom: mean 499, deviation 32.
    assert!(chi_square < 499.0 + 5.0 * 32.0, "{chi_square}");
    for count in [0, 1, 10, 124, 125, 400, 499, 500, 900] {
        let mut sample = HashSet::new();
        table.sample(count, &mut random, |member| assert!(sample.insert(member.key.to_vec())));
        assert_eq!(sample.len(), count.min(500));
    }
    let mut popped = HashSet::new();
    while let Some(key) = table.pop_random(&mut random, |member| member.key.to_vec()) {
        assert!(popped.insert(key));
    }
    assert_eq!((popped.len(), table.len()), (500, 0));
    assert!(table.random(&mut random).is_none());
    table.check();
}

#[test]
fn members_expire_in_order_and_others_pay_nothing() {
    let mut table = Table::<true>::new();
    (0..1000).for_each(|number| assert!(table.set(&key(number), b"value", Expiry::Keep)));
    let before = table.memory_bytes();
    table.set_expiry(&key(3), Some(300));
    assert!(table.memory_bytes() < before + 400);
    for number in 0..100 {
        table.set_expiry(&key(number), Some(1000 - number as i64));
    }
    table.check();
    assert_eq!((table.next_expiry(), table.expiring_len()), (Some(901), 100));
    assert_eq!(table.set_expiry(b"absent", Some(1)), None);
    assert_eq!(table.set_expiry(&key(99), None), Some(Some(901)));
    assert_eq!((table.expired_len(902), table.expired_len(903)), (0, 1));
    let mut gone = Vec::new();
    assert_eq!(table.remove_expired(950, 10, |member| gone.push(member.key.to_vec())), 10);
    assert_eq!(gone[0], key(98));
    assert_eq!(table.remove_expired(950, 1000, |_| ()), 38);
    assert_eq!(table.remove_expired(950, 1000, |_| ()), 0);
    table.set(&key(0), b"other", Expiry::Keep);
    assert_eq!(table.get(&key(0)).unwrap().expire_at, Some(1000));
    table.set(&key(0), b"other", Expiry::Clear);
    assert_eq!(table.get(&key(0)).unwrap().expire_at, None);
    table.check();
    assert_eq!(table.len(), 952);
}

#[derive(Clone, Debug)]
enum Change {
    Set(usize, usize, u8, Option<Option<i64>>),
    Remove(usize),
    Expire(usize, Option<i64>),
    RemoveExpired(i64),
    Pop(u64),
    Many(usize),
    Few(usize),
}

/// Number of keys per change.
const MANY: usize = if cfg!(miri) { 60 } else { 300 };

fn change() -> impl Strategy<Value = Change> {
    let length = prop_oneof![4 => 0usize..30, 2 => 150usize..200, 1 => 200usize..3000];
    prop_oneof![
        12 => (0usize..60, length, any::<u8>(), proptest::option::of(proptest::option::of(0i64..100)))
            .prop_map(|(key, length, byte, expiry)| Change::Set(key, length, byte, expiry)),
        4 => (0usize..60).prop_map(Change::Remove),
        3 => (0usize..60, proptest::option::of(0i64..100)).prop_map(|(key, time)| Change::Expire(key, time)),
        1 => (0i64..60).prop_map(Change::RemoveExpired),
        2 => any::<u64>().prop_map(Change::Pop),
        1 => (0..MANY).prop_map(Change::Many),
        1 => (0..MANY).prop_map(Change::Few),
    ]
}

/// Keys of all lengths, some too long to be inline.
fn odd_key(number: usize) -> Vec<u8> {
    let mut key = vec![b'k'; [3, 10, 62, 63, 64, 130, 250][number % 7]];
    key.extend(number.to_le_bytes());
    key
}

const CASES: u32 = if cfg!(miri) { 2 } else { 80 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    /// Members that stay are seen, however many others come and go between the pages, and
    /// whatever the pages' sizes.
    #[test]
    fn a_scan_sees_what_stays_under_random_changes(
        stay in 0usize..300,
        counts in proptest::collection::vec(1usize..80, 1..6),
        steps in proptest::collection::vec((any::<bool>(), 0usize..400), 1..12),
    ) {
        let other = |number: usize| format!("other:{number}").into_bytes();
        let mut table = Table::<false>::new();
        (0..stay).for_each(|number| assert!(table.add(&key(number))));
        let (mut seen, mut cursor, mut page) = (HashMap::new(), 0, 0);
        loop {
            let (count, mut now) = (counts[page % counts.len()], 0);
            cursor = table.scan(cursor, count, |member| {
                now += 1;
                *seen.entry(member.key.to_vec()).or_insert(0) += 1;
            });
            prop_assert!(now <= count);
            if cursor == 0 {
                break;
            }
            let (adds, number) = steps[page % steps.len()];
            for number in 0..number {
                if adds { table.add(&other(number)); } else { table.remove(&other(number)); }
            }
            page += 1;
            prop_assert!(page < 100_000, "the scan does not end");
        }
        for number in 0..stay {
            prop_assert_eq!(seen.get(&key(number)), Some(&1));
        }
    }

    #[test]
    fn behaves_as_a_map(changes in proptest::collection::vec(change(), 1..if cfg!(miri) { 25 } else { 120 })) {
        let mut table = Table::<true>::new();
        let mut model: BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Set(number, length, byte, expiry) => {
                    let (key, value) = (odd_key(number), vec![byte; length]);
                    let (how, time) = match expiry {
                        None => (Expiry::Keep, model.get(&key).and_then(|old| old.1)),
                        Some(None) => (Expiry::Clear, None),
                        Some(Some(time)) => (Expiry::At(time), Some(time)),
                    };
                    prop_assert_eq!(table.set(&key, &value, how), !model.contains_key(&key));
                    model.insert(key, (value, time));
                }
                Change::Remove(number) => {
                    let key = odd_key(number);
                    let removed = table.remove_with(&key, |member| (member.value.to_vec(), member.expire_at));
                    prop_assert_eq!(removed, model.remove(&key));
                }
                Change::Expire(number, time) => {
                    let key = odd_key(number);
                    let old = model.get_mut(&key).map(|entry| std::mem::replace(&mut entry.1, time));
                    prop_assert_eq!(table.set_expiry(&key, time), old);
                }
                Change::RemoveExpired(now) => {
                    let mut gone = Vec::new();
                    table.remove_expired(now, usize::MAX, |member| gone.push(member.key.to_vec()));
                    let before = model.len();
                    model.retain(|_, (_, time)| time.is_none_or(|time| time >= now));
                    prop_assert_eq!(gone.len(), before - model.len());
                }
                Change::Pop(seed) => {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let key = table.pop_random(&mut random, |member| member.key.to_vec());
                    prop_assert_eq!(key.is_some(), !model.is_empty());
                    if let Some(key) = key {
                        prop_assert!(model.remove(&key).is_some());
                    }
                }
                Change::Many(count) => for number in 0..count {
                    table.set(&key(number), &key(number), Expiry::Keep);
                    let time = model.get(&key(number)).and_then(|old| old.1);
                    model.insert(key(number), (key(number), time));
                },
                Change::Few(count) => for number in 0..count {
                    prop_assert_eq!(table.remove(&key(number)), model.remove(&key(number)).is_some());
                },
            }
            table.check();
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.next_expiry(), model.values().filter_map(|entry| entry.1).min());
            for (key, (value, time)) in &model {
                let member = table.get(key);
                prop_assert_eq!(member, Some(Member { key, value, expire_at: *time }));
            }
        }
        let copy = table.clone();
        let mut all: Vec<_> = copy.iter().map(|member| member.key.to_vec()).collect();
        all.sort();
        prop_assert_eq!(all, model.into_keys().collect::<Vec<_>>());
    }
}
