// SPDX-License-Identifier: BSD-3-Clause
//! The clients' operations, and the check of the regions' final content.
//!
//! Elements are unique, and only the client that added an element may remove it. So an element
//! that was added and never removed must be there, and an element whose removal was acknowledged
//! must not. Writes without a reply, and writes that a kill may have lost, may or may not have
//! happened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use braid_tests::Value;

use super::asking::reply;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ElementKind {
    Set,
    Hash,
    SortedSet,
    List,
    Stream,
    /// A separate string for each element.
    Key,
    Counter,
}

impl ElementKind {
    pub const WITH_ELEMENTS: [ElementKind; 6] = [
        ElementKind::Set,
        ElementKind::Hash,
        ElementKind::SortedSet,
        ElementKind::List,
        ElementKind::Stream,
        ElementKind::Key,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ElementKind::Set => "set",
            ElementKind::Hash => "hash",
            ElementKind::SortedSet => "sortedset",
            ElementKind::List => "list",
            ElementKind::Stream => "stream",
            ElementKind::Key => "key",
            ElementKind::Counter => "counter",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Add(u64),
    Remove(u64),
    Count(u64),
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub region: usize,
    pub kind: ElementKind,
    pub key: String,
    pub what: What,
    /// Time of the acknowledgement in microseconds, if there was one.
    pub done: Option<u64>,
}

/// A region was killed: writes it acknowledged after `safe` may be lost.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    pub region: usize,
    pub safe: u64,
    pub at: u64,
}

impl Operation {
    /// True if the operation must have taken effect.
    fn is_certain(&self, kills: &[Kill]) -> bool {
        self.done.is_some_and(|done| {
            !kills.iter().any(|kill| kill.region == self.region && kill.safe < done && done <= kill.at)
        })
    }
}

/// Results of the check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of acknowledged writes, and of writes without a reply or shortly before a kill.
    pub writes: usize,
    pub unknown: usize,
    /// Number of elements whose expected state is certain.
    pub elements: usize,
    pub violations: Vec<String>,
}

/// The expected content of a key.
#[derive(Default)]
struct Expected {
    there: BTreeSet<u64>,
    gone: BTreeSet<u64>,
    /// Sum of the certain increments, and of all increments.
    least: u64,
    most: u64,
}

fn expected(operations: &[Operation], kills: &[Kill]) -> BTreeMap<(ElementKind, String), Expected> {
    let mut all: BTreeMap<(ElementKind, String), Expected> = BTreeMap::new();
    for operation in operations {
        let entry = all.entry((operation.kind, operation.key.clone())).or_default();
        let is_certain = operation.is_certain(kills);
        match operation.what {
            What::Add(element) if is_certain => {
                entry.there.insert(element);
            }
            What::Count(by) => {
                entry.most += by;
                entry.least += if is_certain { by } else { 0 };
            }
            _ => {}
        }
    }
    for operation in operations {
        if let What::Remove(element) = operation.what
            && let Some(entry) = all.get_mut(&(operation.kind, operation.key.clone()))
        {
            entry.there.remove(&element);
            if operation.is_certain(kills) {
                entry.gone.insert(element);
            }
        }
    }
    all
}

fn numbers(values: &[Value]) -> Vec<u64> {
    values.iter().filter_map(|value| value.text().parse().ok()).collect()
}

/// The elements of a key.
fn held(kind: ElementKind, key: &str, server: IpAddr) -> Vec<u64> {
    let line = match kind {
        ElementKind::Set => format!("SMEMBERS {key}"),
        ElementKind::Hash => format!("HKEYS {key}"),
        ElementKind::SortedSet => format!("ZRANGE {key} 0 -1"),
        ElementKind::List => format!("LRANGE {key} 0 -1"),
        ElementKind::Stream => format!("XRANGE {key} - +"),
        ElementKind::Key | ElementKind::Counter => format!("MGET {key}"),
    };
    let reply = reply(server, &line).unwrap_or_else(|| panic!("no reply to {line}"));
    let elements = reply.elements().unwrap_or_default();
    if kind != ElementKind::Stream {
        return numbers(elements);
    }
    // The ID, and fields with values.
    let fields = elements.iter().filter_map(|entry| entry.elements()?.get(1)?.elements());
    fields.flat_map(|fields| numbers(&fields[1..])).collect()
}

fn sum(key: &str, server: IpAddr) -> u64 {
    let line = match key.split(':').next() {
        Some("hashes") => format!("HGET {key} f"),
        Some("scores") => format!("ZSCORE {key} f"),
        _ => format!("GET {key}"),
    };
    let reply = reply(server, &line).unwrap_or_else(|| panic!("no reply to {line}"));
    reply.text().parse().unwrap_or(0)
}

/// Checks a server's content; the other servers show the same.
pub fn judge(operations: &[Operation], kills: &[Kill], server: IpAddr) -> Findings {
    let writes = operations.iter().filter(|operation| operation.is_certain(kills)).count();
    let mut found = Findings { writes, unknown: operations.len() - writes, ..Findings::default() };
    for ((kind, key), expected) in expected(operations, kills) {
        if kind == ElementKind::Counter {
            compare_sum(&mut found, &key, &expected, sum(&key, server));
        } else {
            compare(&mut found, &key, &expected, &held(kind, &key, server));
        }
    }
    found
}

fn compare_sum(found: &mut Findings, key: &str, expected: &Expected, sum: u64) {
    found.elements += 1;
    if sum < expected.least || sum > expected.most {
        let Expected { least, most, .. } = expected;
        found.violations.push(format!("{key} is {sum}, not {least} to {most}"));
    }
}

fn compare(found: &mut Findings, key: &str, expected: &Expected, held: &[u64]) {
    found.elements += expected.there.len() + expected.gone.len();
    let once: BTreeSet<u64> = held.iter().copied().collect();
    for element in expected.there.difference(&once) {
        found.violations.push(format!("{key}: {element} is lost"));
    }
    for element in expected.gone.intersection(&once) {
        found.violations.push(format!("{key}: {element} has reappeared"));
    }
    if once.len() < held.len() {
        found.violations.push(format!("{key} has duplicate elements"));
    }
}

/// Proves that the check can fail; otherwise a run without findings would mean nothing.
#[test]
fn ledger_detects_lost_and_resurrected_writes() {
    let kills = [Kill { region: 1, safe: 100, at: 200 }];
    let operation =
        |region, what, done| Operation { region, kind: ElementKind::Set, key: "k".into(), what, done };
    let operations = [
        operation(0, What::Add(1), Some(150)),
        operation(1, What::Add(2), Some(100)),
        operation(1, What::Add(3), Some(150)),
        operation(0, What::Add(4), None),
        operation(0, What::Add(5), Some(10)),
        operation(0, What::Remove(5), Some(20)),
        operation(1, What::Add(6), Some(10)),
        operation(1, What::Remove(6), Some(150)),
    ];
    let all = expected(&operations, &kills);
    let expected = &all[&(ElementKind::Set, "k".to_owned())];
    for (held, violations) in [
        (&[1, 2][..], 0),
        (&[1, 2, 3, 4, 6], 0),
        (&[2], 1),
        (&[1], 1),
        (&[1, 2, 5], 1),
        (&[1, 2, 2], 1),
        (&[], 2),
    ] {
        let mut found = Findings::default();
        compare(&mut found, "k", expected, held);
        assert_eq!(found.violations.len(), violations, "{held:?}: {:?}", found.violations);
    }
    let count =
        |region, done| Operation { kind: ElementKind::Counter, ..operation(region, What::Count(5), done) };
    let operations = [count(0, Some(1)), count(0, None), count(1, Some(150)), count(1, Some(250))];
    let all = self::expected(&operations, &kills);
    let expected = &all[&(ElementKind::Counter, "k".to_owned())];
    for (sum, violations) in [(9, 1), (10, 0), (20, 0), (21, 1)] {
        let mut found = Findings::default();
        compare_sum(&mut found, "k", expected, sum);
        assert_eq!(found.violations.len(), violations, "{sum}");
    }
}
