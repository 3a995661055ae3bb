// SPDX-License-Identifier: BSD-3-Clause
//! Checks a history.
//!
//! An append-only list reveals the order of all its changes, so it is checked exactly: it is
//! linearizable if every read is a prefix of the final list, contains everything that was
//! acknowledged before the read was sent, and is no shorter than any read that had ended by then;
//! if every acknowledged element is in the final list, once; and if of two pushes, one of which
//! ended before the other was sent, the earlier one comes first. Registers are given to the
//! linearizability checker. A write whose outcome is unknown never ends; if no read has seen it,
//! it is omitted, because it need not have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use braid_tests::Value;

use crate::checker::{self, Verdict};
use crate::history::{Action, History, Operation, Outcome};
use crate::operation::{self, Event};

#[derive(Default, Debug)]
pub struct Findings {
    pub operations: usize,
    pub acknowledged: usize,
    /// Acknowledged writes that are lost.
    pub lost: usize,
    /// Reads that lack writes acknowledged earlier, or that show lost writes.
    pub stale: usize,
    pub other: usize,
    /// Registers whose check was abandoned.
    pub undecided: usize,
    /// Descriptions of violations, not necessarily of all of them.
    pub violations: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { operations, acknowledged, lost, stale, other, undecided, .. } = self;
        write!(
            f,
            "{operations} operations, {acknowledged} writes acknowledged, {lost} lost, {stale} stale or dirty \
             reads, {other} other violations, {undecided} registers undecided"
        )
    }
}

impl Findings {
    fn note(&mut self, what: String) {
        if self.violations.len() < 50 {
            self.violations.push(what);
        }
    }
}

pub fn check(history: &History) -> Findings {
    let operations = &history.operations;
    let mut found = Findings {
        operations: operations.len(),
        acknowledged: operations.iter().filter(|one| one.is_acknowledged()).count(),
        ..Findings::default()
    };
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for one in operations {
        by_key.entry(&one.key).or_default().push(one);
    }
    let left = |list: &[(String, Vec<u64>)], key: &str| {
        list.iter().find(|(name, _)| name == key).map(|(_, values)| values.clone()).unwrap_or_default()
    };
    for (key, operations) in by_key {
        match key.as_bytes()[0] {
            b'l' => check_list(key, &operations, &left(&history.lists, key), &mut found),
            b's' => check_set(key, &operations, &left(&history.sets, key), &mut found),
            b'c' => {
                let count = history.counters.iter().find(|(name, _)| name == key);
                check_counter(key, &operations, count.map_or(0, |(_, count)| *count), &mut found);
            }
            _ => check_register(key, &operations, &mut found),
        }
    }
    found
}

fn check_list(key: &str, operations: &[&Operation], left: &[u64], found: &mut Findings) {
    let places: BTreeMap<u64, usize> = left.iter().enumerate().map(|(at, &value)| (value, at)).collect();
    if places.len() != left.len() {
        found.other += 1;
        found.note(format!("{key}: an element is duplicated"));
    }
    // Acknowledged pushes by end time, each with the furthest index up to then.
    let mut pushes: Vec<&&Operation> =
        operations.iter().filter(|one| one.action == Action::Push && one.is_acknowledged()).collect();
    pushes.sort_by_key(|one| one.ended);
    let mut furthest: Vec<(u64, usize)> = Vec::new();
    for push in pushes {
        match places.get(&push.value) {
            Some(&place) => {
                let before = furthest.last().map_or(0, |(_, len)| *len);
                furthest.push((push.ended, before.max(place + 1)));
            }
            None => {
                found.lost += 1;
                found.note(format!("{key}: {push:?} is lost"));
            }
        }
    }
    // The guaranteed length of the list at a time.
    let until = |furthest: &[(u64, usize)], time: u64| {
        let count = furthest.partition_point(|(ended, _)| *ended < time);
        count.checked_sub(1).map_or(0, |last| furthest[last].1)
    };
    for push in operations.iter().filter(|one| one.action == Action::Push) {
        if let Some(&place) = places.get(&push.value)
            && place < until(&furthest, push.sent)
        {
            found.other += 1;
            found.note(format!("{key}: {push:?} precedes a push that had ended before"));
        }
    }
    let mut reads: Vec<(&&Operation, &Vec<u64>)> = operations
        .iter()
        .filter(|one| one.action == Action::List)
        .filter_map(|one| match &one.outcome {
            Outcome::Ok(read) => Some((one, read)),
            _ => None,
        })
        .collect();
    reads.sort_by_key(|(one, _)| one.ended);
    let mut read_lengths: Vec<(u64, usize)> = Vec::new();
    for (one, read) in reads {
        let at_least = until(&furthest, one.sent).max(until(&read_lengths, one.sent));
        if !left.starts_with(read) {
            found.stale += 1;
            found.note(format!(
                "{key}: {} elements read at {} are no prefix of the final list",
                read.len(),
                one.sent
            ));
        } else if read.len() < at_least {
            found.stale += 1;
            found.note(format!("{key}: {} elements read at {}, not {at_least}", read.len(), one.sent));
        }
        let before = read_lengths.last().map_or(0, |(_, len)| *len);
        read_lengths.push((one.ended, before.max(read.len())));
    }
}

fn check_set(key: &str, operations: &[&Operation], left: &[u64], found: &mut Findings) {
    let left: BTreeSet<u64> = left.iter().copied().collect();
    for one in operations.iter().filter(|one| one.is_acknowledged() && !left.contains(&one.value)) {
        found.lost += 1;
        found.note(format!("{key}: {one:?} is lost"));
    }
}

fn check_counter(key: &str, operations: &[&Operation], left: u64, found: &mut Findings) {
    let mut counts: Vec<(&Operation, u64)> = operations
        .iter()
        .filter_map(|one| match &one.outcome {
            Outcome::Ok(count) => Some((*one, *count.first()?)),
            _ => None,
        })
        .collect();
    counts.sort_by_key(|(one, _)| one.ended);
    let mut seen = BTreeSet::new();
    let mut ended: Vec<(u64, u64)> = Vec::new();
    for (one, count) in counts {
        let lost = count > left;
        let repeated = !seen.insert(count);
        let before = ended.partition_point(|(end, _)| *end < one.sent);
        let went_back = before.checked_sub(1).is_some_and(|last| ended[last].1 >= count);
        if lost || repeated || went_back {
            found.lost += usize::from(lost || repeated);
            found.other += usize::from(!lost && !repeated);
            found.note(format!("{key}: counted {count} at {}, the final count is {left}", one.sent));
        }
        let most = ended.last().map_or(0, |(_, most)| *most);
        ended.push((one.ended, most.max(count)));
    }
}

fn check_register(key: &str, operations: &[&Operation], found: &mut Findings) {
    let read: BTreeSet<u64> = operations
        .iter()
        .filter(|one| one.action == Action::Read)
        .filter_map(|one| match &one.outcome {
            Outcome::Ok(read) => read.first().copied(),
            _ => None,
        })
        .collect();
    let mut events = Vec::new();
    for (place, one) in operations.iter().enumerate() {
        let (operation, reply, ends) = match (&one.outcome, one.action) {
            (Outcome::Ok(read), Action::Read) => {
                let text = |value: &u64| Value::Bulk(value.to_string().into_bytes());
                (operation::Operation::Get(0), read.first().map_or(Value::NullBulk, text), true)
            }
            (Outcome::Ok(_), _) => (set(one.value), Value::ok(), true),
            (Outcome::Unknown, Action::Write) if read.contains(&one.value) => {
                (set(one.value), Value::ok(), false)
            }
            _ => continue,
        };
        events.push(Event {
            client: one.client,
            place,
            operation,
            reply,
            sent_ns: one.sent,
            answered_ns: if ends { one.ended } else { u64::MAX },
        });
    }
    match checker::check(&events) {
        Verdict::Linearizable => {}
        Verdict::Undecided => found.undecided += 1,
        Verdict::Violation(_) => {
            found.stale += 1;
            found.note(format!("{key} is not linearizable: {events:?}"));
        }
    }
}

fn set(value: u64) -> operation::Operation {
    operation::Operation::Set(0, value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(action: Action, value: u64, sent: u64, ended: u64, outcome: Outcome) -> Operation {
        let key = match action {
            Action::Push | Action::List => "l0",
            Action::Count => "c0",
            Action::Add => "s0",
            Action::Write | Action::Read => "r0",
        };
        Operation { client: sent as usize, action, key: key.into(), value, sent, ended, outcome }
    }

    fn ok(read: &[u64]) -> Outcome {
        Outcome::Ok(read.to_vec())
    }

    fn judged(operations: Vec<Operation>, list: &[u64]) -> (usize, usize, usize) {
        let history = History {
            operations,
            lists: vec![("l0".into(), list.to_vec())],
            sets: vec![("s0".into(), vec![1])],
            counters: vec![("c0".into(), 2)],
        };
        let found = check(&history);
        (found.lost, found.stale, found.other)
    }

    #[test]
    fn lists() {
        use Action::{List, Push};
        let push = |value, sent, ended| one(Push, value, sent, ended, ok(&[]));
        let read = |sent, ended, values: &[u64]| one(List, 0, sent, ended, ok(values));
        let unknown = one(Push, 9, 1, 2, Outcome::Unknown);
        let good =
            vec![push(1, 0, 10), push(2, 5, 12), unknown.clone(), read(3, 20, &[2]), read(30, 31, &[2, 1])];
        assert_eq!(judged(good, &[2, 1]), (0, 0, 0));
        assert_eq!(judged(vec![unknown, read(1, 20, &[9])], &[9]), (0, 0, 0));
        assert_eq!(judged(vec![push(1, 0, 10)], &[]), (1, 0, 0));
        assert_eq!(judged(vec![push(1, 0, 10), read(11, 12, &[])], &[1]), (0, 1, 0), "stale");
        assert_eq!(judged(vec![read(11, 12, &[7])], &[1]), (0, 1, 0), "dirty");
        assert_eq!(judged(vec![read(1, 2, &[1]), read(3, 4, &[])], &[1]), (0, 1, 0), "goes back");
        assert_eq!(judged(vec![push(1, 0, 10), push(2, 11, 12)], &[2, 1]), (0, 0, 1), "out of order");
    }

    #[test]
    fn sets_and_counters() {
        use Action::{Add, Count};
        assert_eq!(
            judged(vec![one(Add, 1, 0, 1, ok(&[])), one(Add, 2, 0, 1, Outcome::Unknown)], &[]),
            (0, 0, 0)
        );
        assert_eq!(judged(vec![one(Add, 2, 0, 1, ok(&[]))], &[]), (1, 0, 0));
        let count = |sent, ended, count| one(Count, 0, sent, ended, ok(&[count]));
        assert_eq!(judged(vec![count(0, 5, 2), count(1, 4, 1)], &[]), (0, 0, 0));
        assert_eq!(judged(vec![count(0, 1, 2), count(2, 3, 1)], &[]), (0, 0, 1));
        assert_eq!(judged(vec![count(0, 1, 2), count(2, 3, 2)], &[]), (1, 0, 0));
        assert_eq!(judged(vec![count(0, 1, 3)], &[]), (1, 0, 0));
    }

    #[test]
    fn registers() {
        use Action::{Read, Write};
        let write = |value, sent, ended| one(Write, value, sent, ended, ok(&[]));
        let read = |sent, ended, value: u64| one(Read, 0, sent, ended, ok(&[value]));
        let lost = one(Write, 3, 4, 5, Outcome::Unknown);
        assert_eq!(judged(vec![write(1, 0, 1), read(2, 3, 1), lost.clone(), read(6, 7, 1)], &[]), (0, 0, 0));
        assert_eq!(judged(vec![write(1, 0, 1), lost.clone(), read(6, 7, 1), read(8, 9, 3)], &[]), (0, 0, 0));
        assert_eq!(judged(vec![write(1, 0, 1), lost, read(6, 7, 3), read(8, 9, 1)], &[]), (0, 1, 0));
        assert_eq!(judged(vec![write(1, 0, 1), write(2, 2, 3), read(4, 5, 1)], &[]), (0, 1, 0), "stale");
    }
}
