// SPDX-License-Identifier: BSD-3-Clause
//! The search for an order that explains a history (Wing and Gong's algorithm with Lowe's cache
//! of failures).
//!
//! Operations on unrelated keys are checked separately: a history is linearizable if each
//! connected group of keys is. Within a group the search repeatedly picks an operation that may
//! come next (all earlier ones of its client are placed, and no unplaced operation was answered
//! before it was sent), applies it to the model, and backtracks if its reply does not match. A
//! set of placed operations together with the resulting state is never tried twice.
//!
//! Since the operations of one client run in order, one number per client describes the placed
//! ones.

use std::collections::{BTreeMap, HashSet};

use crate::model::State;
use crate::operation::{Event, Key};

/// The checker's result.
#[derive(Debug)]
pub enum Verdict {
    Linearizable,
    /// No order explains these operations.
    Violation(Vec<Event>),
    /// The search was abandoned.
    Undecided,
}

/// Number of states to try before the search of a group is abandoned.
const STEPS_MAX: usize = 150_000;

/// Checks a history that started with no keys.
pub fn check(history: &[Event]) -> Verdict {
    let mut undecided = false;
    for group in groups(history) {
        match search(&group) {
            Some(true) => {}
            Some(false) => return Verdict::Violation(group),
            None => undecided = true,
        }
    }
    if undecided { Verdict::Undecided } else { Verdict::Linearizable }
}

/// Splits a history into parts that share no keys.
fn groups(history: &[Event]) -> Vec<Vec<Event>> {
    let mut leader: BTreeMap<Key, Key> = BTreeMap::new();
    for event in history {
        let keys = event.operation.keys();
        for key in &keys {
            leader.entry(*key).or_insert(*key);
        }
        let target = leader[&keys[0]];
        for key in &keys {
            let old = leader[key];
            for group in leader.values_mut().filter(|group| **group == old) {
                *group = target;
            }
        }
    }
    let mut parts: BTreeMap<Key, Vec<Event>> = BTreeMap::new();
    for event in history {
        parts.entry(leader[&event.operation.keys()[0]]).or_default().push(event.clone());
    }
    parts.into_values().collect()
}

/// True if an order exists; `None` if the search was abandoned.
fn search(history: &[Event]) -> Option<bool> {
    let mut clients: BTreeMap<usize, Vec<&Event>> = BTreeMap::new();
    for event in history {
        clients.entry(event.client).or_default().push(event);
    }
    let mut clients: Vec<Vec<&Event>> = clients.into_values().collect();
    for events in &mut clients {
        events.sort_by_key(|event| event.place);
    }
    let placed = vec![0_u16; clients.len()];
    let mut seen: HashSet<(Vec<u16>, State)> = HashSet::new();
    // The path to the current point: the placed operations, the state, and the untried
    // candidates.
    let first = candidates(&clients, &placed, &State::new());
    let mut path = vec![(placed, State::new(), first)];
    let mut steps = 0;
    loop {
        let Some((placed, state, untried)) = path.last_mut() else { return Some(false) };
        if placed.iter().zip(&clients).all(|(count, events)| usize::from(*count) == events.len()) {
            return Some(true);
        }
        let Some(client) = untried.pop() else {
            path.pop();
            continue;
        };
        steps += 1;
        if steps > STEPS_MAX {
            return None;
        }
        let event = clients[client][usize::from(placed[client])];
        let mut next_state = state.clone();
        if event.operation.apply(&mut next_state) != event.reply {
            continue;
        }
        let mut next_placed = placed.clone();
        next_placed[client] += 1;
        if seen.insert((next_placed.clone(), next_state.clone())) {
            let next = candidates(&clients, &next_placed, &next_state);
            path.push((next_placed, next_state, next));
        }
    }
}

/// The clients whose next operation may come next; the one answered first comes last, because it
/// is tried first.
///
/// An operation whose reply shows that it changed nothing, and whose reply matches now, may just
/// as well come now: if there is an order in which it comes later, there is one in which it comes
/// now. Then it is the only candidate.
fn candidates(clients: &[Vec<&Event>], placed: &[u16], state: &State) -> Vec<usize> {
    let next = |client: usize| clients[client].get(usize::from(placed[client])).copied();
    // A client's next operation is answered before its later ones, so it alone matters.
    let first_answer =
        (0..clients.len()).filter_map(|client| Some(next(client)?.answered_ns)).min().unwrap_or(u64::MAX);
    let mut found: Vec<usize> = (0..clients.len())
        .filter(|&client| next(client).is_some_and(|event| event.sent_ns <= first_answer))
        .collect();
    let changes_nothing = |&client: &usize| {
        next(client).is_some_and(|event| {
            event.operation.changes_nothing(&event.reply)
                && event.operation.apply(&mut state.clone()) == event.reply
        })
    };
    if let Some(client) = found.iter().copied().find(changes_nothing) {
        return vec![client];
    }
    found.sort_by_key(|&client| std::cmp::Reverse(next(client).map(|event| event.answered_ns)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation::{self, *};
    use braid_tests::Value;

    fn event(client: usize, place: usize, times: (u64, u64), operation: Operation, reply: Value) -> Event {
        Event { client, place, operation, reply, sent_ns: times.0, answered_ns: times.1 }
    }

    fn is_fine(history: &[Event]) -> bool {
        match check(history) {
            Verdict::Linearizable => true,
            Verdict::Violation(_) => false,
            Verdict::Undecided => panic!("undecided"),
        }
    }

    fn bulk(text: &str) -> Value {
        Value::bulk(text)
    }

    #[test]
    fn concurrent_increments_linearize_in_any_order_but_only_once() {
        let increments = |first, second| {
            [
                event(0, 0, (0, 10), Incr(0), Value::Integer(first)),
                event(1, 0, (5, 15), Incr(0), Value::Integer(second)),
            ]
        };
        assert!(is_fine(&increments(1, 2)));
        assert!(is_fine(&increments(2, 1)));
        assert!(!is_fine(&increments(1, 1)), "a lost update");
        assert!(!is_fine(&increments(1, 3)), "an update from nowhere");
    }

    #[test]
    fn a_reply_in_the_past_is_stale() {
        let read = |times, reply| {
            [event(0, 0, (0, 10), Set(0, b"1".to_vec()), Value::ok()), event(1, 0, times, Get(0), reply)]
        };
        assert!(is_fine(&read((5, 8), Value::NullBulk)), "concurrent: before the write");
        assert!(is_fine(&read((5, 8), bulk("1"))), "concurrent: after the write");
        assert!(is_fine(&read((11, 12), bulk("1"))));
        assert!(!is_fine(&read((11, 12), Value::NullBulk)), "a stale read");
    }

    #[test]
    fn two_readers_must_agree_on_the_order_of_two_writes() {
        let writes = [
            event(0, 0, (0, 100), Set(0, b"1".to_vec()), Value::ok()),
            event(1, 0, (0, 100), Set(0, b"2".to_vec()), Value::ok()),
        ];
        let reads = |client, first, second| {
            [
                event(client, 0, (10, 20), Get(0), bulk(first)),
                event(client, 1, (30, 40), Get(0), bulk(second)),
            ]
        };
        let history = |other: [Event; 2]| [&writes[..], &reads(2, "1", "2"), &other].concat();
        assert!(is_fine(&history(reads(3, "1", "2"))));
        assert!(is_fine(&history(reads(3, "2", "2"))));
        assert!(!is_fine(&history(reads(3, "2", "1"))), "seen in both orders");
    }

    #[test]
    fn a_torn_mset_is_seen() {
        let set = |value: &[u8]| MSet(vec![(0, value.to_vec()), (1, value.to_vec())]);
        let history = |one: &str, other: &str| {
            [
                event(0, 0, (0, 10), set(b"1"), Value::ok()),
                event(1, 0, (0, 10), set(b"2"), Value::ok()),
                event(2, 0, (0, 10), MGet(vec![0, 1]), Value::Array(vec![bulk(one), bulk(other)])),
            ]
        };
        assert!(is_fine(&history("1", "1")));
        assert!(is_fine(&history("2", "2")));
        assert!(!is_fine(&history("1", "2")), "half of one and half of the other");
    }

    #[test]
    fn nothing_comes_between_the_commands_of_a_transaction() {
        let history = |seen: i64| {
            [
                event(
                    0,
                    0,
                    (0, 10),
                    Transaction(vec![Incr(0), Incr(0)]),
                    Value::Array(vec![Value::Integer(1), Value::Integer(seen)]),
                ),
                event(1, 0, (0, 10), Incr(0), Value::Integer(if seen == 2 { 3 } else { 2 })),
            ]
        };
        assert!(is_fine(&history(2)));
        assert!(!is_fine(&history(3)), "another client's increment in the middle");
    }

    #[test]
    fn a_rename_moves_and_never_shows_the_value_twice() {
        let history = |seen: Value| {
            [
                event(0, 0, (0, 1), Set(0, b"v".to_vec()), Value::ok()),
                event(0, 1, (2, 10), Rename(0, 1), Value::ok()),
                event(1, 0, (2, 10), MGet(vec![0, 1]), seen),
            ]
        };
        assert!(is_fine(&history(Value::Array(vec![bulk("v"), Value::NullBulk]))));
        assert!(is_fine(&history(Value::Array(vec![Value::NullBulk, bulk("v")]))));
        assert!(!is_fine(&history(Value::Array(vec![bulk("v"), bulk("v")]))), "in both places");
        assert!(!is_fine(&history(Value::Array(vec![Value::NullBulk, Value::NullBulk]))), "in no place");
    }

    #[test]
    fn the_order_of_one_client_holds_within_a_pipeline() {
        let history = |first: i64, second: i64| {
            [
                event(0, 0, (0, 10), Incr(0), Value::Integer(first)),
                event(0, 1, (0, 10), Incr(0), Value::Integer(second)),
            ]
        };
        assert!(is_fine(&history(1, 2)));
        assert!(!is_fine(&history(2, 1)), "executed out of order");
    }

    #[test]
    fn unrelated_keys_are_checked_apart_and_related_ones_together() {
        let history = [
            event(0, 0, (0, 10), Incr(0), Value::Integer(1)),
            event(0, 1, (0, 10), Incr(1), Value::Integer(1)),
            event(1, 0, (0, 10), Rename(1, 2), Value::ok()),
            event(1, 1, (0, 10), Get(2), bulk("1")),
        ];
        assert_eq!(groups(&history).len(), 2);
        assert!(is_fine(&history));
    }
}
