// SPDX-License-Identifier: BSD-3-Clause
//! Requests that bring a list from its former to its present state when some of its places were
//! touched.
//!
//! Changes at the ends are pops and pushes. In the middle commands name an element by its index
//! (LSET), or as the first or last one of its value (LREM, LINSERT). Where neither works,
//! everything between the touched places and the nearer end is rewritten.

use std::collections::{BTreeMap, BTreeSet};

use crate::Bytes;
use crate::list::List;
use crate::position::{Position, Side};
use crate::requests::Requests;
use crate::view::Part;

/// The maximum number of elements inserted or removed one by one: each one scans the list.
const EDITS: usize = 16;

/// `before` has the touched places that had an element, with its value. Returns false if the
/// whole list must be rewritten.
pub(crate) fn bring_list(
    requests: &mut Requests,
    key: &[u8],
    list: &List,
    touched: &BTreeSet<Part>,
    before: &[(Position, Bytes)],
) -> bool {
    if touched.is_empty() {
        return true;
    }
    let is_kept = |place: &Position| !touched.contains(&Part::Item(place.clone()));
    let kept = |(place, _): (Option<Position>, &Bytes)| place.filter(is_kept);
    let (first, last) = (list.placed().find_map(kept), list.placed().rev().find_map(kept));
    let (Some(first), Some(last)) = (first, last) else { return false };
    let gone_left = before.iter().filter(|(place, _)| *place < first).count();
    let gone_right = before.iter().filter(|(place, _)| *place > last).count();
    let is_new = |place: &Option<Position>| place.as_ref().is_some_and(|place| !is_kept(place));
    let new_left: Vec<&Bytes> =
        list.placed().take_while(|(place, _)| is_new(place)).map(|(_, value)| value).collect();
    let new_right: Vec<&Bytes> =
        list.placed().rev().take_while(|(place, _)| is_new(place)).map(|(_, value)| value).collect();
    let places = || touched.iter().filter_map(Part::place);
    let there = places().filter(|place| list.has(place)).count();
    if gone_left + gone_right < before.len() || new_left.len() + new_right.len() < there {
        if change_in_place(requests, key, list, places(), before) {
            return true;
        }
        let had = list.len() - there + before.len();
        return rewrite_shorter_end(requests, key, list, had, list.around(places()));
    }
    let (new_left, new_right) = (outwards(new_left), outwards(new_right));
    let ends = [(Side::Left, gone_left, new_left), (Side::Right, gone_right, new_right)];
    requests.replace_ends(key, ends);
    true
}

/// Changes the values of any number of elements, or adds and removes a few. Returns false if no
/// commands can do it.
fn change_in_place<'p>(
    requests: &mut Requests,
    key: &[u8],
    list: &List,
    touched: impl Iterator<Item = &'p Position>,
    before: &[(Position, Bytes)],
) -> bool {
    let (mut set, mut new) = (Vec::new(), Vec::new());
    let values: BTreeMap<&Position, &Bytes> = before.iter().map(|(place, value)| (place, value)).collect();
    for place in touched {
        let Ok(index) = list.index(place) else { continue };
        let Some(value) = list.value(index) else { continue };
        match values.get(place) {
            Some(was) if *was == value => {}
            Some(_) => set.push((index, value)),
            None => new.push((index, value)),
        }
    }
    let gone = before.iter().filter_map(|(place, value)| Some((list.index(place).err()?, value)));
    let mut gone: Vec<_> = gone.collect();
    gone.sort_by_key(|(index, _)| *index);
    new.sort_unstable_by_key(|(index, _)| *index);
    if gone.is_empty() && new.is_empty() {
        set.iter().for_each(|(index, value)| requests.set_element(key, *index, value));
        return true;
    }
    let had = requests.all.len();
    // Commands name elements by value, so the other values must be those in the keyspace.
    let is_done = set.is_empty()
        && gone.len() + new.len() <= EDITS
        && remove_in_place(requests, key, list, &gone)
        && insert_in_place(requests, key, list, &new);
    if !is_done {
        requests.all.truncate(had);
    }
    is_done
}

fn is_among_first(list: &List, count: usize, value: &Bytes) -> bool {
    list.values().take(count).any(|one| one == value)
}

/// Removes elements that stood before the elements now at these indexes, in order.
fn remove_in_place(requests: &mut Requests, key: &[u8], list: &List, gone: &[(usize, &Bytes)]) -> bool {
    gone.iter().enumerate().all(|(number, (index, value))| {
        let is_first = !is_among_first(list, *index, value);
        let mut behind = gone[number + 1..].iter().map(|(_, value)| *value).chain(list.values_since(*index));
        let is_only_one = is_first || !behind.any(|one| one == *value);
        if is_only_one {
            requests.remove_element(key, if is_first { b"1" } else { b"-1" }, value);
        }
        is_only_one
    })
}

/// Inserts elements, in order, that end up at these indexes.
fn insert_in_place(requests: &mut Requests, key: &[u8], list: &List, new: &[(usize, &Bytes)]) -> bool {
    new.iter().enumerate().all(|(number, (index, value))| {
        // New elements after it are not there yet.
        let next = (*index..).zip(new[number..].iter()).take_while(|(at, (new, _))| at == new).count();
        let next = list.value(index + next).filter(|pivot| !is_among_first(list, *index, pivot));
        let previous = index
            .checked_sub(1)
            .and_then(|previous| list.value(previous).filter(|pivot| !is_among_first(list, previous, pivot)));
        match (next, previous) {
            (Some(pivot), _) => requests.insert_element(key, b"BEFORE", pivot, value),
            (None, Some(pivot)) => requests.insert_element(key, b"AFTER", pivot, value),
            (None, None) => return false,
        }
        true
    })
}

/// Rewrites everything between the touched places and the nearer end. `had` is the former length;
/// `left` and `right` are the numbers of elements kept at the two ends. Returns false if none is
/// kept: a list that is empty in between loses its time.
fn rewrite_shorter_end(
    requests: &mut Requests,
    key: &[u8],
    list: &List,
    had: usize,
    (left, right): (usize, usize),
) -> bool {
    if left.max(right) == 0 {
        return false;
    }
    if left >= right {
        requests.rewrite_end(key, Side::Right, had - left, list.values_since(left).collect());
    } else {
        let values: Vec<&Bytes> = list.values().take(list.len() - right).collect();
        requests.rewrite_end(key, Side::Left, had - right, outwards(values));
    }
    true
}

/// Reverses the elements of an end to push order, from the middle outwards.
fn outwards(mut values: Vec<&Bytes>) -> Vec<&Bytes> {
    values.reverse();
    values
}
