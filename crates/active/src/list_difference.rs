// SPDX-License-Identifier: BSD-3-Clause
//! Requests that bring a list from what it showed to what it shows, where some of its places were
//! touched.
//!
//! At the ends they are pops and pushes. Commands name an element in the middle by its index
//! (LSET), or by being the first or last one of its value (LREM, LINSERT). Where that does not do,
//! all between the touched places and the nearer end is written anew.

use std::collections::BTreeSet;

use crate::Bytes;
use crate::list::List;
use crate::place::{Place, Side};
use crate::requests::Requests;
use crate::view::Part;

/// `before` are those of the touched places that had an element, with its value. False if the list
/// has to be written anew.
pub(crate) fn bring_list(
    requests: &mut Requests,
    key: &[u8],
    list: &List,
    touched: &BTreeSet<Part>,
    before: &[(Place, Bytes)],
) -> bool {
    if touched.is_empty() {
        return true;
    }
    let is_kept = |place: &Place| !touched.contains(&Part::Item(place.clone()));
    let kept = |(place, _): (Option<Place>, &Bytes)| place.filter(is_kept);
    let (first, last) = (list.placed().find_map(kept), list.placed().rev().find_map(kept));
    let (Some(first), Some(last)) = (first, last) else { return false };
    let gone_left = before.iter().filter(|(place, _)| *place < first).count();
    let gone_right = before.iter().filter(|(place, _)| *place > last).count();
    let is_new = |place: &Option<Place>| place.as_ref().is_some_and(|place| !is_kept(place));
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

/// Other values of any number of elements, or one element more or less. False if there is no
/// command that does it.
fn change_in_place<'p>(
    requests: &mut Requests,
    key: &[u8],
    list: &List,
    touched: impl Iterator<Item = &'p Place>,
    before: &[(Place, Bytes)],
) -> bool {
    let (mut set, mut new) = (Vec::new(), Vec::new());
    for place in touched {
        let Ok(index) = list.index(place) else { continue };
        let Some(value) = list.value(index) else { continue };
        match before.iter().find(|(one, _)| one == place) {
            Some((_, was)) if was == value => {}
            Some(_) => set.push((index, value)),
            None => new.push((index, value)),
        }
    }
    let gone: Vec<_> =
        before.iter().filter_map(|(place, value)| Some((list.index(place).err()?, value))).collect();
    let is_among_first = |count: usize, value: &Bytes| list.values().take(count).any(|one| one == value);
    match (&set[..], &new[..], &gone[..]) {
        (set, [], []) => set.iter().for_each(|(index, value)| requests.set_element(key, *index, value)),
        ([], [(index, value)], []) => {
            let after = list.value(index + 1).filter(|pivot| !is_among_first(*index, pivot));
            let before = index
                .checked_sub(1)
                .and_then(|before| list.value(before).filter(|pivot| !is_among_first(before, pivot)));
            match (after, before) {
                (Some(pivot), _) => requests.insert_element(key, b"BEFORE", pivot, value),
                (None, Some(pivot)) => requests.insert_element(key, b"AFTER", pivot, value),
                (None, None) => return false,
            }
        }
        ([], [], [(index, value)]) => {
            let is_first = !is_among_first(*index, value);
            let is_last = || !list.values_since(*index).any(|one| one == *value);
            match is_first || is_last() {
                true => requests.remove_element(key, if is_first { b"1" } else { b"-1" }, value),
                false => return false,
            }
        }
        _ => return false,
    }
    true
}

/// What stands between the touched places and the nearer end is written anew. So many elements were
/// there, and so many are kept on the two sides. False if none are: a list that is empty in between
/// loses its time.
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

/// Elements of an end, from the middle on, as they are pushed.
fn outwards(mut values: Vec<&Bytes>) -> Vec<&Bytes> {
    values.reverse();
    values
}
