// SPDX-License-Identifier: BSD-3-Clause
//! Lists checked against a standard deque, under many limits.

use std::collections::VecDeque as Deque;

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn texts(list: &List) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    list.range(0, usize::MAX, |element| out.push(element.to_vec()));
    out
}

fn check(list: &List, model: &Deque<Vec<u8>>, limits: &ListLimits) {
    assert_eq!(list.len(), model.len());
    assert!(texts(list).iter().eq(model));
    if let Form::Nodes(all) = &list.0 {
        assert_eq!(all.nodes.iter().map(|node| node.count).sum::<usize>(), all.len);
        for (number, node) in all.nodes.iter().enumerate() {
            assert!(node.count > 0);
            if let Some(block) = node.view() {
                assert_eq!(block.len(), node.count);
            }
            let inside = number >= limits.compress_depth && all.nodes.len() - number > limits.compress_depth;
            if matches!(node.body(), Body::Compressed(..)) {
                assert!(inside && limits.compress_depth > 0, "ends are never compressed");
            }
        }
    }
}

#[test]
fn forms_follow_the_limits() {
    let limits = ListLimits { max_listpack_size: 3, ..ListLimits::default() };
    let mut list = List::new();
    for text in ["a", "b", "c"] {
        list.push(End::Back, text.as_bytes(), &limits);
    }
    assert_eq!(list.encoding(), "listpack");
    list.push(End::Front, b"z", &limits);
    assert_eq!((list.encoding(), list.node_count()), ("quicklist", 2));
    let pop = |list: &mut List| list.pop(End::Back, &limits, |element| element.to_vec());
    assert_eq!(pop(&mut list), Some(b"c".to_vec()));
    assert_eq!((pop(&mut list), list.encoding()), (Some(b"b".to_vec()), "quicklist"));
    assert_eq!((pop(&mut list), list.encoding()), (Some(b"a".to_vec()), "listpack"));
    assert_eq!((pop(&mut list), pop(&mut list)), (Some(b"z".to_vec()), None));
    let limits = ListLimits::default();
    let mut list = List::new();
    list.push(End::Back, &[b'x'; 8185], &limits);
    assert_eq!(list.encoding(), "listpack");
    let mut list = List::new();
    list.push(End::Back, &[b'x'; 8186], &limits);
    assert_eq!((list.encoding(), list.len()), ("quicklist", 1), "7 bytes of an empty block count");
    let mut list = List::new();
    list.push_all(End::Back, [&[b'x'; 5000][..], &[b'x'; 5000]], &limits);
    assert_eq!(list.encoding(), "quicklist");
    let limits = ListLimits { packed_threshold: 5, ..limits };
    let mut list = List::new();
    list.push_all(End::Back, [&b"long element"[..], b"x"], &limits);
    assert!(matches!(list.nodes().next(), Some(SavedNode::Plain(b"long element"))));
    assert!(list.set(-1, b"also long", &limits) && list.node_count() == 2);
    assert_eq!(ListLimits { max_listpack_size: i32::MIN, ..limits }.node_bytes(), 65536);
}

#[test]
fn long_lists_are_tight_and_reach_every_index() {
    for front in [false, true] {
        let limits = ListLimits::default();
        let mut list = List::new();
        let end = if front { End::Front } else { End::Back };
        for number in 0..100_000 {
            list.push(end, format!("{number:032x}").as_bytes(), &limits);
        }
        let bytes = list.memory_bytes() as f64 / 100_000.0;
        assert!(bytes < 35.0, "{bytes} bytes per element of 32");
        for index in [0i64, 1, 240, 241, 5_000, 49_999, 50_000, 50_001, 99_000, 99_999] {
            let number = if front { 99_999 - index } else { index };
            assert!(list.get(index, |element| element.is_text(format!("{number:032x}").as_bytes())).unwrap());
            assert!(
                list.get(index - 100_000, |element| element.is_text(format!("{number:032x}").as_bytes()))
                    .unwrap()
            );
        }
        assert!(list.get(100_000, |_| ()).is_none() && list.get(i64::MIN, |_| ()).is_none());
        let mut positions = Vec::new();
        list.walk(60_000, false, |position, _| {
            positions.push(position);
            positions.len() < 1000
        });
        assert!(positions.iter().copied().eq((59_001..=60_000).rev()));
    }
}

#[test]
fn inner_nodes_are_compressed_and_everything_still_works() {
    let limits = ListLimits { compress_depth: 1, ..ListLimits::default() };
    let (mut list, mut model) = (List::new(), Deque::new());
    for number in 0..3_000 {
        let text = format!("some text that repeats {number:09}").into_bytes();
        list.push(End::Back, &text, &limits);
        model.push_back(text);
    }
    assert!(list.memory_bytes() * 2 < 3_000 * 35, "{}", list.memory_bytes());
    check(&list, &model, &limits);
    list.insert(1_500, b"in the middle", &limits);
    model.insert(1_500, b"in the middle".to_vec());
    assert_eq!(list.remove_equal(b"in the middle", -1, &limits), 1);
    model.remove(1_500);
    check(&list, &model, &limits);
    let mut copy = List::new();
    list.nodes().for_each(|node| copy.load_node(node));
    copy.loaded(&ListLimits::default());
    check(&copy, &model, &ListLimits::default());
    while let Some(text) = list.pop(End::Front, &limits, |element| element.to_vec()) {
        assert_eq!(Some(text), model.pop_front());
    }
    assert!(model.is_empty() && list.encoding() == "listpack");
}

#[derive(Clone, Debug)]
enum Change {
    Push(bool, Vec<Vec<u8>>),
    Pop(bool),
    Insert(usize, Vec<u8>),
    InsertBy(usize, bool, Vec<u8>),
    Set(i64, Vec<u8>),
    Keep(usize, usize),
    Remove(usize, usize),
    RemoveEqual(usize, i64),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        5 => (0u32..12).prop_map(|number| number.to_string().into_bytes()),
        3 => (0u8..5, 1usize..20).prop_map(|(byte, length)| vec![b'a' + byte; length]),
        1 => (0u8..3, 60usize..400).prop_map(|(byte, length)| vec![b'k' + byte; length]),
        1 => (4000usize..4200).prop_map(|length| vec![b'z'; length]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (any::<bool>(), vec(text(), 1..12)).prop_map(|(front, texts)| Change::Push(front, texts)),
        3 => any::<bool>().prop_map(Change::Pop),
        3 => (any::<usize>(), text()).prop_map(|(at, text)| Change::Insert(at, text)),
        2 => (any::<usize>(), any::<bool>(), text())
            .prop_map(|(at, behind, text)| Change::InsertBy(at, behind, text)),
        3 => (-40i64..40, text()).prop_map(|(at, text)| Change::Set(at, text)),
        1 => (0usize..20, 0usize..100).prop_map(|(start, count)| Change::Keep(start, count)),
        2 => (any::<usize>(), 0usize..12).prop_map(|(at, count)| Change::Remove(at, count)),
        2 => (any::<usize>(), -4i64..5).prop_map(|(at, count)| Change::RemoveEqual(at, count)),
    ]
}

fn limits() -> impl Strategy<Value = ListLimits> {
    let size = prop_oneof![Just(-1), Just(-2), Just(1), Just(3), Just(8), Just(0)];
    let threshold = prop_oneof![3 => Just(1usize << 30), 1 => Just(6usize)];
    (size, 0usize..3, threshold).prop_map(|(max_listpack_size, compress_depth, packed_threshold)| {
        ListLimits { max_listpack_size, compress_depth, packed_threshold }
    })
}

const CASES: u32 = if cfg!(miri) { 2 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
    #[test]
    fn behaves_as_a_deque(limits in limits(), changes in vec(change(), 1..if cfg!(miri) { 20 } else { 60 })) {
        let mut list = List::new();
        let mut model: Deque<Vec<u8>> = Deque::new();
        for change in changes {
            let len = model.len();
            match change {
                Change::Push(front, texts) => {
                    let end = if front { End::Front } else { End::Back };
                    list.push_all(end, texts.iter().map(Vec::as_slice), &limits);
                    for text in texts {
                        if front { model.push_front(text) } else { model.push_back(text) }
                    }
                }
                Change::Pop(front) => {
                    let end = if front { End::Front } else { End::Back };
                    let popped = list.pop(end, &limits, |element| element.to_vec());
                    prop_assert_eq!(popped, if front { model.pop_front() } else { model.pop_back() });
                }
                Change::Insert(at, text) => {
                    let at = at % (len + 1);
                    list.insert(at, &text, &limits);
                    model.insert(at, text);
                }
                Change::InsertBy(at, behind, text) => {
                    let pivot = if len == 0 { b"?".to_vec() } else { model[at % len].clone() };
                    let found = model.iter().position(|other| *other == pivot);
                    prop_assert_eq!(list.insert_by(&pivot, behind, &text, &limits), found.is_some());
                    if let Some(found) = found {
                        model.insert(found + usize::from(behind), text);
                    }
                }
                Change::Set(index, text) => {
                    let position = if index < 0 { index + len as i64 } else { index };
                    let there = (0..len as i64).contains(&position);
                    prop_assert_eq!(list.set(index, &text, &limits), there);
                    if there {
                        model[position as usize] = text;
                    }
                }
                Change::Keep(start, count) => {
                    list.keep_range(start, count, &limits);
                    model = model.into_iter().skip(start).take(count).collect();
                }
                Change::Remove(at, count) => {
                    let at = at % (len + 1);
                    let count = count.min(len - at);
                    prop_assert_eq!(list.remove_range(at, count, &limits), count);
                    model.drain(at..at + count);
                }
                Change::RemoveEqual(at, count) => {
                    let text = if len == 0 { b"?".to_vec() } else { model[at % len].clone() };
                    let mut positions: Vec<usize> = (0..len).filter(|&at| model[at] == text).collect();
                    let mut found = Vec::new();
                    list.find(&text, true, usize::MAX, |position| { found.push(position); true });
                    prop_assert_eq!(&found, &positions);
                    let mut backwards = Vec::new();
                    list.find(&text, false, len / 2, |position| { backwards.push(position); true });
                    let near = positions.iter().rev().filter(|&&position| position >= len - len / 2);
                    prop_assert!(backwards.iter().eq(near));
                    if count < 0 {
                        positions.reverse();
                    }
                    if count != 0 {
                        positions.truncate(count.unsigned_abs() as usize);
                    }
                    prop_assert_eq!(list.remove_equal(&text, count, &limits), positions.len());
                    positions.sort();
                    positions.into_iter().rev().for_each(|position| { model.remove(position); });
                }
            }
            check(&list, &model, &limits);
        }
    }
}
