// SPDX-License-Identifier: BSD-3-Clause
//! Hashes checked against standard maps, and their forms against the thresholds.

use std::collections::BTreeMap;

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: i64 = 1_000;

fn get(hash: &Hash, field: &[u8], now_ms: i64) -> Option<Vec<u8>> {
    hash.get(field, now_ms).map(|element| element.to_vec())
}

#[test]
fn forms_follow_the_thresholds() {
    let limits = HashLimits::default();
    let mut hash = Hash::new();
    for number in 0..512 {
        assert!(hash.set(format!("f{number}").as_bytes(), b"1", Expiry::Clear, NOW, &limits));
    }
    assert!(!hash.set(b"f5", b"other", Expiry::Clear, NOW, &limits));
    assert_eq!((hash.encoding(), hash.len()), ("listpack", 512));
    assert!(hash.set(b"one more", b"1", Expiry::Clear, NOW, &limits));
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", 513));
    assert_eq!(get(&hash, b"f5", NOW), Some(b"other".to_vec()));
    let mut hash = Hash::new();
    hash.set(b"f", &[b'v'; 64], Expiry::Clear, NOW, &limits);
    assert_eq!(hash.encoding(), "listpack");
    hash.set(b"f", &[b'v'; 65], Expiry::Clear, NOW, &limits);
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", 1));
    let mut hash = Hash::new();
    hash.expect([&b"short"[..], &[b'x'; 65]], &limits);
    assert_eq!(hash.encoding(), "hashtable");
    assert!(hash.is_empty() && hash.random(NOW, &mut fastrand::Rng::with_seed(1)).is_none());
}

#[test]
fn a_value_that_looks_like_a_field_is_not_one() {
    let mut hash = Hash::new();
    hash.set(b"a", b"b", Expiry::Clear, NOW, &HashLimits::default());
    assert!(!hash.contains(b"b", NOW) && !hash.remove(b"b", NOW) && hash.contains(b"a", NOW));
}

#[test]
fn loaded_lists_are_checked() {
    let limits = HashLimits::default();
    let list = |texts: &[&str]| {
        let mut list = Listpack::new();
        texts.iter().for_each(|text| assert!(list.push_back(text.as_bytes())));
        list
    };
    assert_eq!(Hash::from_listpack(list(&["a", "1", "b", "1"]), &limits).unwrap().len(), 2);
    assert!(Hash::from_listpack(list(&["a", "1", "b"]), &limits).is_none());
    assert!(Hash::from_listpack(list(&["a", "1", "a", "2"]), &limits).is_none());
    let long = "x".repeat(65);
    assert_eq!(Hash::from_listpack(list(&["a", &long]), &limits).unwrap().encoding(), "listpack");
    let limits = HashLimits { max_listpack_entries: 1, ..limits };
    let hash = Hash::from_listpack(list(&["a", &long, "b", "7"]), &limits).unwrap();
    assert_eq!((hash.encoding(), hash.get(b"b", NOW)), ("hashtable", Some(Element::Bytes(b"7"))));
}

#[test]
fn expired_fields_are_hidden_and_can_be_set_as_new() {
    let limits = HashLimits::default();
    let mut hash = Hash::new();
    for field in [b"a", b"b", b"c"] {
        hash.set(field, b"5", Expiry::Clear, NOW, &limits);
    }
    assert_eq!(hash.set_expiry(b"a", None, NOW), Some(None));
    assert_eq!((hash.encoding(), hash.expiry(b"a", NOW)), ("listpack", Some(None)));
    assert_eq!(hash.set_expiry(b"a", Some(NOW + 5), NOW), Some(None));
    assert_eq!(hash.set_expiry(b"b", Some(NOW + 9), NOW), Some(None));
    assert_eq!((hash.encoding(), hash.next_expiry(), hash.expiring_len()), ("hashtable", Some(NOW + 5), 2));
    assert!(hash.contains(b"a", NOW + 5) && !hash.contains(b"a", NOW + 6));
    assert_eq!((hash.len(), hash.live_len(NOW + 6), hash.iter(NOW + 6).count()), (3, 2, 2));
    assert!(!hash.set(b"b", b"6", Expiry::Keep, NOW, &limits));
    assert_eq!(hash.expiry(b"b", NOW), Some(Some(NOW + 9)));
    assert!(hash.set(b"a", b"7", Expiry::Keep, NOW + 6, &limits), "an expired field is new");
    assert_eq!(hash.expiry(b"a", NOW + 6), Some(None));
    assert!(!hash.remove(b"b", NOW + 10));
    assert!(hash.set(b"d", b"1", Expiry::At(NOW + 1), NOW, &limits));
    let mut gone = Vec::new();
    assert_eq!(hash.remove_expired(NOW + 2, 5, |field| gone.push(field.to_vec())), 1);
    assert_eq!((gone, hash.len(), hash.next_expiry()), (vec![b"d".to_vec()], 2, None));
    assert_eq!(hash.set_expiry(b"gone", Some(1), NOW), None);
    assert_eq!(hash.iter_with_expiry().count(), 2);
}

const CASES: u32 = if cfg!(miri) { 2 } else { 120 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
    #[test]
    fn behaves_as_a_map(changes in vec((0u32..50, 0usize..80, any::<i16>(), 0u8..6), 1..if cfg!(miri) { 60 } else { 200 })) {
        let limits = HashLimits { max_listpack_entries: 20, max_listpack_value: 64 };
        let mut random = fastrand::Rng::with_seed(9);
        let mut hash = Hash::new();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (number, length, value, what) in changes {
            let field = if number % 3 == 0 { number.to_string() } else { format!("field:{number}") };
            let field = field.into_bytes();
            let value = if length % 2 == 0 { value.to_string().into_bytes() } else { vec![b'v'; length] };
            match what {
                0 | 1 => prop_assert_eq!(hash.remove(&field, NOW), model.remove(&field).is_some()),
                _ => {
                    let new = hash.set(&field, &value, Expiry::Clear, NOW, &limits);
                    prop_assert_eq!(new, model.insert(field.clone(), value).is_none());
                }
            }
            prop_assert_eq!(get(&hash, &field, NOW), model.get(&field).cloned());
            prop_assert_eq!(hash.len(), model.len());
        }
        let all: BTreeMap<Vec<u8>, Vec<u8>> =
            hash.iter(NOW).map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(&all, &model);
        let (mut scanned, mut cursor) = (BTreeMap::new(), 0);
        loop {
            cursor = hash.scan(cursor, 3, NOW, |field, value| {
                scanned.insert(field.to_vec(), value.to_vec());
            });
            if cursor == 0 { break; }
        }
        prop_assert_eq!(&scanned, &model);
        let mut sampled = BTreeMap::new();
        hash.sample(5, &mut random, |field, value| { sampled.insert(field.to_vec(), value.to_vec()); });
        prop_assert_eq!(sampled.len(), model.len().min(5));
        if let Some((field, value)) = hash.random(NOW, &mut random) {
            prop_assert_eq!(model.get(&field.to_vec()), Some(&value.to_vec()));
        }
        let copy = hash.clone();
        for (field, value, _) in copy.iter_with_expiry() {
            prop_assert_eq!(model.get(&field.to_vec()), Some(&value.to_vec()));
        }
    }
}
