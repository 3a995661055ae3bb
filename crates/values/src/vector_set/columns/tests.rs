// SPDX-License-Identifier: BSD-3-Clause
//! Columns answer as reading the attributes does, whatever has changed since they were made.

use std::collections::BTreeMap;

use braid_vectors::{Metric, Quantisation, Shape};
use proptest::prelude::*;

use super::super::VectorSet;
use super::super::filter::Filter;
use super::{
    ASKED_MIN, AT_ONCE, AttributeIndex, Attributes, COLUMNS_MAX, Help, LEN_MIN, RECENT_MAX, UNUSED_MIN, bind,
    build, refresh,
};

/// Attributes without vectors.
#[derive(Clone, Default)]
struct Texts(Vec<Option<Vec<u8>>>);

impl Attributes for Texts {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn attribute(&self, id: u32) -> Option<&[u8]> {
        self.0.get(id as usize)?.as_deref()
    }
}

/// Values of members, sound and not.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (-3i32..4).prop_map(|number| number.to_string()),
        2 => prop::sample::select(vec![
            "-0.0", "1e308", "-1e999", "0.5", "1e-310", "1000000.5", "1000001", "true", "false", "null", "1x", "trueish",
            "[]", "[1,2]", "[\"a\",\"2\",0]", "[\"b\",null]", "[[1]]", "{\"a\":1}", "[1 2]", "nul", "\"a\"x", "[1}",
        ]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["", "a", "b", "2", "-1", "1e3", "0", "\\u0061", "é"])
            .prop_map(|text| format!("\"{text}\"")),
        // Not of the dictionary, of two lengths.
        1 => (0..2).prop_map(|number| format!("\"{}{number}\"", "long".repeat(20))),
        1 => (0usize..2).prop_map(|more| format!("[{}1]", "7,".repeat(63 + more))),
    ]
}

fn attribute() -> impl Strategy<Value = Option<Vec<u8>>> {
    let member = (prop::sample::select(vec!["a", "b", "c"]), value())
        .prop_map(|(name, value)| format!("\"{name}\":{value}"));
    prop_oneof![
        8 => prop::collection::vec(member, 0..4).prop_map(|members| Some(format!("{{{}}}", members.join(",")).into_bytes())),
        1 => Just(None),
        1 => Just(Some(b"text".to_vec())),
    ]
}

fn operand() -> impl Strategy<Value = String> {
    let long = format!("'{}0'", "long".repeat(20));
    let constants = [
        ".a",
        ".b",
        ".c",
        "0",
        "1",
        "-2",
        "2",
        "1e308",
        "0.5",
        "1e-320",
        "'a'",
        "'2'",
        "'0'",
        "''",
        "null",
        "true",
        "[1,'a']",
        "['b','2',0]",
        "[]",
    ];
    let mut all: Vec<String> = constants.into_iter().map(str::to_owned).collect();
    all.push(long);
    prop::sample::select(all)
}

fn filter() -> impl Strategy<Value = String> {
    let comparison = (
        operand(),
        prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "in", "in", "+", "*", "%", "and"]),
        operand(),
    );
    let leaf = comparison.prop_map(|(left, operator, right)| format!("({left} {operator} {right})"));
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["and", "or", "=="]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            inner.prop_map(|inner| format!("not {inner}")),
        ]
    })
}

#[derive(Clone, Debug)]
enum Step {
    Push(Option<Vec<u8>>),
    Set(prop::sample::Index, Option<Vec<u8>>),
    Remove(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        attribute().prop_map(Step::Push),
        (any::<prop::sample::Index>(), attribute()).prop_map(|(at, text)| Step::Set(at, text)),
        any::<prop::sample::Index>().prop_map(Step::Remove),
    ]
}

/// The element that has changed.
fn change(texts: &mut Texts, step: &Step) -> u32 {
    let len = texts.0.len();
    match step {
        Step::Push(text) => {
            texts.0.push(text.clone());
            len as u32
        }
        Step::Set(at, text) => {
            let id = at.index(len);
            texts.0[id].clone_from(text);
            id as u32
        }
        Step::Remove(at) => {
            let id = at.index(len);
            texts.0.swap_remove(id);
            id as u32
        }
    }
}

fn names() -> Vec<Box<[u8]>> {
    ["a", "b", "c"].map(|name| name.as_bytes().into()).into()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn columns_answer_as_attributes_do(
        first in prop::collection::vec(attribute(), 1..40), steps in prop::collection::vec(step(), 0..40),
        filters in prop::collection::vec(filter(), 8), at_once in any::<bool>(),
    ) {
        let mut texts = Texts(first);
        let mut columns: Vec<_> = names().iter().map(|name| build(&texts, name)).collect();
        let mut touched = Vec::new();
        for step in &steps {
            if texts.0.is_empty() && !matches!(step, Step::Push(_)) {
                continue;
            }
            touched.push(change(&mut texts, step));
            if at_once {
                refresh(&mut columns, &touched, &texts);
                touched.clear();
            }
        }
        refresh(&mut columns, &touched, &texts);
        for text in filters {
            let filter = Filter::compile(text.as_bytes()).expect("a filter");
            if filter.members.is_empty() {
                continue;
            }
            let bound = bind(&columns, &filter).expect("all columns");
            let is_match = |id: u32| texts.attribute(id).is_some_and(|attribute| filter.matches(attribute));
            let ids = 0..texts.len() as u32;
            for id in ids.clone() {
                let answer = bound.evaluate(&filter, id);
                prop_assert!(answer.is_none_or(|answer| answer == is_match(id)), "{text}, {id}");
            }
            for most in [0, 1, 3, usize::MAX] {
                let Some(few) = bound.lookup(&filter, most) else { continue };
                prop_assert!(few.is_sorted_by(|a, b| a < b) && few.len() <= most, "{text}");
                let missing = ids.clone().find(|&id| is_match(id) && !few.contains(&id));
                prop_assert_eq!(missing, None, "{}", text);
            }
        }
        // Nothing of former values is left.
        let fresh: Vec<_> = names().iter().map(|name| build(&texts, name)).collect();
        for (column, fresh) in columns.iter().zip(&fresh) {
            prop_assert!(column.is_like(fresh));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// The copy was taken before all changes, and asks after each of some.
    #[test]
    fn columns_answer_for_a_copy_as_its_attributes_do(
        first in prop::collection::vec(attribute(), 1..40), steps in prop::collection::vec(step(), 0..40),
        filters in prop::collection::vec(filter(), 1..8),
    ) {
        let (mut texts, index) = (Texts(first), AttributeIndex::default());
        index.write().columns = names().iter().map(|name| build(&texts, name)).collect();
        let (copy, taken) = (texts.clone(), index.now());
        let filters: Vec<_> = filters.iter().map(|text| Filter::compile(text.as_bytes()).expect("a filter")).collect();
        let filters: Vec<_> = filters.iter().filter(|filter| !filter.members.is_empty()).collect();
        let mut behind: Vec<_> = filters.iter().map(|_| index.behind(taken)).collect();
        for number in 0..=steps.len() {
            for (filter, behind) in filters.iter().zip(&mut behind) {
                let is_match = |id: u32| copy.attribute(id).is_some_and(|attribute| filter.matches(attribute));
                let all = 0..copy.len() as u32;
                let mut kept: Vec<u32> = all.clone().collect();
                behind.retain(filter, &mut kept, is_match);
                let expected: Vec<u32> = all.filter(|&id| is_match(id)).collect();
                prop_assert_eq!(&kept, &expected);
                if let Some(few) = behind.lookup(filter, copy.len(), usize::MAX) {
                    prop_assert!(few.is_sorted_by(|a, b| a < b));
                    prop_assert!(few.iter().all(|&id| (id as usize) < copy.len()));
                    prop_assert!(expected.iter().all(|id| few.contains(id)));
                }
            }
            let Some(step) = steps.get(number) else { break };
            if !texts.0.is_empty() || matches!(step, Step::Push(_)) {
                let id = change(&mut texts, step);
                index.touch(&[id, texts.len() as u32], &texts);
            }
        }
    }
}

fn set_of(count: usize) -> VectorSet {
    let shape = Shape { metric: Metric::Cosine, quantisation: Quantisation::I8, dim: 2, links: 4 };
    let mut set = VectorSet::new(shape, None).expect("in range");
    for n in 0..count {
        let attribute = format!("{{\"n\":{n},\"name\":\"element {n}\"}}");
        set.put(format!("e{n}").as_bytes(), &[1.0, n as f32], 4, Some(attribute.as_bytes()))
            .expect("its dimension");
    }
    set
}

fn compiled(text: &str) -> Filter {
    Filter::compile(text.as_bytes()).expect("a filter")
}

/// The names that a filter matches, by a search with this budget.
fn found(set: &VectorSet, filter: &Filter, budget: usize) -> Option<Vec<String>> {
    let query = set.graph().query(&[1.0, 1.0]).expect("its dimension");
    let hits = set.search_matching(&query, set.len(), set.len(), (usize::MAX, budget), filter)?;
    let mut names: Vec<String> =
        hits.iter().map(|hit| String::from_utf8_lossy(set.name(hit.id)).into_owned()).collect();
    names.sort();
    Some(names)
}

fn expected(model: &BTreeMap<usize, usize>, matches: impl Fn(usize) -> bool) -> Vec<String> {
    let mut names: Vec<String> =
        model.iter().filter(|(_, n)| matches(**n)).map(|(name, _)| format!("e{name}")).collect();
    names.sort();
    names
}

fn has_columns(set: &VectorSet, text: &str) -> bool {
    let filter = compiled(text);
    set.index.get().is_some_and(|index| bind(&index.read().columns, &filter).is_some())
}

#[test]
fn small_sets_get_columns_when_filters_have_read_enough() {
    let (count, filter) = (LEN_MIN, compiled(".n < 3"));
    let set = set_of(count);
    let bytes = set.memory_bytes();
    for _ in 0..ASKED_MIN {
        assert!(!has_columns(&set, ".n < 3"));
        assert_eq!(found(&set, &filter, 10_000), Some(vec!["e0".into(), "e1".into(), "e2".into()]));
    }
    assert_eq!(found(&set, &filter, 10_000), Some(vec!["e0".into(), "e1".into(), "e2".into()]));
    assert!(has_columns(&set, ".n < 3"));
    // The set has 8 bytes for the cell, and an entry.
    let grown = set.memory_bytes() - bytes;
    assert!(grown < count * 40, "{grown}");
    let clone = set.clone();
    assert!(!has_columns(&clone, ".n < 3"));
    // A copy that is changed leaves the columns alone.
    let mut copy = set.cow();
    copy.set_attribute(b"e9", Some(b"{\"n\":1}"));
    assert_eq!(found(&copy, &filter, 10_000).map(|names| names.len()), Some(4));
    assert_eq!(found(&set, &filter, 10_000).map(|names| names.len()), Some(3));
}

#[test]
fn no_more_columns_than_allowed() {
    let set = set_of(LEN_MIN);
    for number in 0..2 * COLUMNS_MAX {
        let filter = compiled(&format!(".other{number} == 1 or .n < 0"));
        for _ in 0..=ASKED_MIN {
            assert_eq!(found(&set, &filter, 10_000), Some(Vec::new()));
        }
    }
    assert_eq!(set.index.get().map(|index| index.read().columns.len()), Some(COLUMNS_MAX));
}

#[test]
fn large_sets_get_columns_from_a_copy() {
    let count = AT_ONCE + 100;
    let mut set = set_of(count);
    let mut model: BTreeMap<usize, usize> = (0..count).map(|n| (n, n)).collect();
    let (rule, filter) = (|n: usize| n < 7 || n == 4000, compiled(".n < 7 or .n == 4000"));
    let budget = usize::MAX - 1;
    let mut refused = None;
    for tries in 0..10 {
        if found(&set, &filter, budget).is_none() {
            refused = Some(tries);
            break;
        }
    }
    assert!(refused.is_some_and(|tries| tries > 0), "{refused:?}");
    let early = set.cow();
    // Before the columns arrive elements are changed, removed and added.
    let mut change = |set: &mut VectorSet, n: usize| {
        let attribute = format!("{{\"n\":{}}}", n % 9);
        set.set_attribute(format!("e{n}").as_bytes(), Some(attribute.as_bytes()));
        model.insert(n, n % 9);
        set.remove(format!("e{}", n + 1).as_bytes());
        model.remove(&(n + 1));
        set.put(format!("e{}", count + n).as_bytes(), &[1.0, 2.0], 4, Some(b"{\"n\":4000}")).expect("fits");
        model.insert(count + n, 4000);
    };
    change(&mut set, 3000);
    let copy = set.cow();
    change(&mut set, 4050);
    let before = found(&copy, &filter, usize::MAX);
    assert!(before.is_some_and(|names| names.len() == 8 + 2));
    assert!(!has_columns(&set, ".n"));
    let all = found(&set, &filter, budget);
    assert_eq!(all, Some(expected(&model, rule)));
    assert!(has_columns(&set, ".n"));
    // A late copy for the same ticket changes nothing.
    found(&early, &filter, usize::MAX);
    for n in [10, 20, 4100] {
        let mut again = model.clone();
        let attribute = format!("{{\"n\":{}}}", n % 5);
        set.set_attribute(format!("e{n}").as_bytes(), Some(attribute.as_bytes()));
        again.entry(n).and_modify(|value| *value = n % 5);
        set.remove(format!("e{}", n / 2).as_bytes());
        again.remove(&(n / 2));
        model = again;
        assert_eq!(found(&set, &filter, budget), Some(expected(&model, rule)));
    }
}

#[test]
fn a_copy_of_another_ticket_makes_nothing() {
    let mut set = set_of(AT_ONCE + 1);
    let filter = compiled(".n == 5");
    let early = set.cow();
    while found(&set, &filter, usize::MAX - 1).is_some() {}
    // Without the index when it was taken, or before the ticket.
    found(&early, &filter, usize::MAX);
    set.set_attribute(b"e9", Some(b"{\"n\":5}"));
    assert_eq!(found(&set, &filter, usize::MAX - 1).map(|names| names.len()), Some(2));
    assert!(!has_columns(&set, ".n"));
}

#[test]
fn unused_columns_are_dropped() {
    let mut set = set_of(LEN_MIN);
    let filter = compiled(".n == 5");
    for _ in 0..=ASKED_MIN {
        found(&set, &filter, usize::MAX);
    }
    assert!(has_columns(&set, ".n"));
    for _ in 0..UNUSED_MIN + 2 {
        set.set_attribute(b"e9", Some(b"{}"));
    }
    assert!(!has_columns(&set, ".n"));
    let help = set.index.get().map(|index| matches!(index.help(&set, &filter, true), Help::None));
    assert_eq!(help, Some(true));
}

/// Attributes that filters of a set and its copies have read.
fn asked(set: &VectorSet) -> usize {
    set.index.get().map_or(0, |index| index.asked.load(std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn a_copy_uses_columns_while_the_set_changes() {
    let mut set = set_of(LEN_MIN);
    let filter = compiled(".n < 3 or .n == 255");
    for _ in 0..=ASKED_MIN {
        found(&set, &filter, usize::MAX);
    }
    assert!(has_columns(&set, ".n"));
    let (copy, before) = (set.cow(), asked(&set));
    let expected = Some(["e0", "e1", "e2", "e255"].map(str::to_owned).to_vec());
    assert_eq!(found(&copy, &filter, usize::MAX), expected);
    assert_eq!(asked(&set), before);
    // The last one takes the number of the removed one.
    set.remove(b"e0");
    set.set_attribute(b"e1", Some(b"{\"n\":9}"));
    set.put(b"new", &[1.0, 1.0], 4, Some(b"{\"n\":0}")).expect("fits");
    assert_eq!(found(&copy, &filter, usize::MAX), expected);
    let read = asked(&set) - before;
    assert!((1..10).contains(&read), "{read}");
    // More changes than are known: the copy reads its attributes.
    for _ in 0..RECENT_MAX {
        set.set_attribute(b"e2", Some(b"{}"));
    }
    assert_eq!(found(&copy, &filter, usize::MAX), expected);
    assert!(asked(&set) - before >= LEN_MIN);
    // A copy of now has all changes.
    let (copy, before) = (set.cow(), asked(&set));
    assert_eq!(found(&copy, &filter, usize::MAX), Some(vec!["e255".into(), "new".into()]));
    assert_eq!(asked(&set), before);
}
