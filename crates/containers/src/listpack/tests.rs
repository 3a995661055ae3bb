// SPDX-License-Identifier: BSD-3-Clause
//! Packed lists compared with a plain vector, and hostile bytes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn texts(list: &Listpack) -> Vec<Vec<u8>> {
    list.iter().map(|element| element.to_vec()).collect()
}

fn check(list: &Listpack, model: &[Vec<u8>]) {
    assert!(validate(list.bytes(), true), "{:?}", list.bytes());
    assert_eq!(texts(list), model);
    assert_eq!(list.len(), model.len());
    let mut backwards: Vec<_> = list.iter().rev().map(|element| element.to_vec()).collect();
    backwards.reverse();
    assert_eq!(backwards, model);
}

#[test]
fn wire_format_of_a_small_list() {
    let mut list = Listpack::new();
    assert_eq!(list.bytes(), [7, 0, 0, 0, 0, 0, 255]);
    assert!(list.push_back(b"hi") && list.push_front(b"5"));
    assert_eq!(list.bytes(), [13, 0, 0, 0, 2, 0, 5, 1, 0x82, b'h', b'i', 3, 255]);
    assert_eq!(list.get_index(-1), Some(Element::Bytes(b"hi")));
    assert_eq!(list.find(b"hi", 0, 0), Some(8));
    assert_eq!(list.find(b"hi", 0, 1), None, "only fields are compared");
    assert_eq!(list.get(0), None, "the header is not an entry");
}

#[test]
fn pushing_and_popping_at_the_front_does_not_move_the_list() {
    let mut list = Listpack::new();
    for number in 0..2000 {
        list.push_back(format!("element:{number}").as_bytes());
    }
    let memory = list.memory_bytes();
    for number in 0..500 {
        assert!(list.get_index(0).unwrap().is_text(format!("element:{number}").as_bytes()));
        assert!(list.remove(HEADER));
    }
    assert_eq!((list.len(), list.memory_bytes()), (1500, memory));
    assert!(list.start() > 5000, "popping from the front moved the list");
    assert!(list.push_front(b"again") && list.start() > 5000);
    for _ in 0..1490 {
        list.remove(list.last().unwrap());
    }
    assert!(list.memory_bytes() < 500, "memory is released");
}

#[test]
fn long_lists_lose_their_count_and_still_answer() {
    let mut list = Listpack::new();
    for number in 0..70_000i64 {
        list.push_back_int(number);
    }
    assert_eq!((list.header_count(), list.len()), (COUNT_UNKNOWN, 70_000));
    assert_eq!(list.get_index(69_999), Some(Element::Int(69_999)));
    assert_eq!(list.get_index(-70_000), Some(Element::Int(0)));
    assert_eq!((list.seek(70_000), list.seek(-70_001), list.seek(i64::MIN)), (None, None, None));
    assert!(validate(list.bytes(), true));
}

#[test]
fn needlessly_long_encodings_are_rewritten() {
    // The number 5 as 16 bits, and as a string.
    let foreign = [16, 0, 0, 0, 2, 0, 0xF1, 5, 0, 3, 0x81, b'5', 2, 0x00, 1, 255];
    assert_eq!(foreign[0] as usize, foreign.len());
    let wrong_count = Listpack::from_bytes(&foreign);
    assert!(wrong_count.is_none(), "three entries, header says two");
    let mut foreign = foreign;
    foreign[4] = 3;
    let list = Listpack::from_bytes(&foreign).unwrap();
    assert_eq!(list.bytes(), [13, 0, 0, 0, 3, 0, 5, 1, 5, 1, 0, 1, 255]);
}

#[test]
fn split_merge_and_ranges() {
    let mut list = Listpack::new();
    (0..10).for_each(|number| assert!(list.push_back_int(number)));
    let tail = list.split_off(list.seek(6).unwrap());
    assert_eq!((list.len(), tail.len()), (6, 4));
    assert!(list.merge(&tail));
    assert_eq!(list.iter().collect::<Vec<_>>(), (0..10).map(Element::Int).collect::<Vec<_>>());
    assert_eq!(list.remove_range(-3, 100), 3);
    assert_eq!(list.remove_range(0, 2), 2);
    assert_eq!(list.iter().collect::<Vec<_>>(), (2..7).map(Element::Int).collect::<Vec<_>>());
    assert_eq!(list.pairs().count(), 2);
    assert!(validate(list.bytes(), true) && validate(tail.bytes(), true));
    let mut whole = list.split_off(0);
    assert!(list.is_empty() && whole.len() == 5);
    let memory = whole.memory_bytes();
    whole.clear_keeping_room();
    assert!(whole.is_empty() && validate(whole.bytes(), true) && whole.memory_bytes() == memory);
    assert!(whole.push_front(b"x") && whole.push_back(b"y") && whole.len() == 2);
}

#[derive(Clone, Debug)]
enum Change {
    Back(Vec<u8>),
    Front(Vec<u8>),
    Insert(usize, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize),
    Run(usize, usize),
    Reserve(usize, bool),
    Shrink,
    Split(usize),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..20),
        1 => vec(any::<u8>(), 60..300),
        1 => (4000usize..5000).prop_map(|length| vec![b'v'; length]),
        4 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        4 => (0u32..2000).prop_map(|number| number.to_string().into_bytes()),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => text().prop_map(Change::Back),
        4 => text().prop_map(Change::Front),
        3 => (any::<usize>(), text()).prop_map(|(at, text)| Change::Insert(at, text)),
        3 => (any::<usize>(), text()).prop_map(|(at, text)| Change::Replace(at, text)),
        4 => any::<usize>().prop_map(Change::Remove),
        1 => (any::<usize>(), 0usize..5).prop_map(|(at, count)| Change::Run(at, count)),
        1 => (0usize..3000, any::<bool>()).prop_map(|(more, front)| Change::Reserve(more, front)),
        1 => Just(Change::Shrink),
        1 => any::<usize>().prop_map(Change::Split),
    ]
}

const CASES: u32 = if cfg!(miri) { 2 } else { 150 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn behaves_as_a_vector(changes in vec(change(), 1..if cfg!(miri) { 20 } else { 80 })) {
        let mut list = Listpack::new();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for change in changes {
            match change {
                Change::Back(text) => { prop_assert!(list.push_back(&text)); model.push(text); }
                Change::Front(text) => { prop_assert!(list.push_front(&text)); model.insert(0, text); }
                Change::Insert(at, text) => {
                    let at = at % (model.len() + 1);
                    let place = list.seek(at as i64).unwrap_or(list.end());
                    prop_assert!(list.insert(place, &text));
                    model.insert(at, text);
                }
                Change::Replace(at, text) if !model.is_empty() => {
                    let at = at % model.len();
                    prop_assert!(list.replace(list.seek(at as i64 - model.len() as i64).unwrap(), &text));
                    model[at] = text;
                }
                Change::Remove(at) if !model.is_empty() => {
                    let at = at % model.len();
                    prop_assert!(list.remove(list.seek(at as i64).unwrap()));
                    model.remove(at);
                }
                Change::Run(at, count) if !model.is_empty() => {
                    let at = at % model.len();
                    let count = count.min(model.len() - at);
                    prop_assert_eq!(list.remove_range(at as i64, count), count);
                    model.drain(at..at + count);
                }
                Change::Reserve(more, front) => list.reserve(more, front),
                Change::Shrink => list.shrink(),
                Change::Split(at) => {
                    let at = at % (model.len() + 1);
                    let tail = list.split_off(list.seek(at as i64).unwrap_or(list.end()));
                    check(&list, &model[..at]);
                    check(&tail, &model[at..]);
                    let copy = list.clone();
                    list = copy;
                    list.merge(&tail);
                }
                _ => {}
            }
            check(&list, &model);
            if let Some(wanted) = model.get(model.len() / 2) {
                let first = model.iter().position(|text| text == wanted).unwrap();
                prop_assert_eq!(list.find(wanted, 0, 0), list.seek(first as i64));
            }
            let loaded = Listpack::from_bytes(list.bytes());
            prop_assert_eq!(loaded.as_ref(), Some(&list));
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_harmless(
        texts in vec(text(), 0..8),
        damage in vec((any::<usize>(), any::<u8>()), 0..4),
        tail in vec(any::<u8>(), 0..4), keep_total in any::<bool>(),
    ) {
        let mut list = Listpack::new();
        texts.iter().for_each(|text| { list.push_back(text); });
        let mut bytes = list.bytes().to_vec();
        bytes.extend(tail);
        for (at, value) in damage {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        if !keep_total {
            let total = (bytes.len() as u32).to_le_bytes();
            bytes[..4].copy_from_slice(&total);
        }
        if let Some(mut list) = Listpack::from_bytes(&bytes) {
            prop_assert!(validate(list.bytes(), true));
            for index in -10..10 {
                let _ = list.get_index(index);
            }
            for at in 0..bytes.len() + 2 {
                let _ = (list.get(at), list.next(at), list.prev(at), list.find(b"5", at, 1));
            }
            let _ = (list.iter().count(), list.iter().rev().count());
            list.remove_range(1, 2);
            prop_assert!(list.push_front(b"x") && validate(list.bytes(), true));
        } else {
            prop_assert!(!validate(&bytes, true));
        }
    }
}
