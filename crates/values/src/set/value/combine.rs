// SPDX-License-Identifier: BSD-3-Clause
//! Intersection, union and difference of sets, starting from the smallest where that helps.

use super::{Form, Set};
use braid_containers::listpack::Element;
use braid_containers::member_table::Table;

/// Passes the members common to all sets to `see` until it returns false. No sets have no common
/// members.
pub fn intersection<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>) -> bool) {
    let mut sets = sets.to_vec();
    // Walking the smallest set and looking members up in the next smallest first rejects earliest.
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    if smallest.is_empty() {
        return;
    }
    if let (Form::Table(small), [Set(Form::Table(other))]) = (&smallest.0, others)
        && !std::ptr::eq(small, other)
    {
        let keys = small.iter().filter(|member| !member.is_expired(now_ms)).map(|member| member.key);
        other.common(keys, |key, there| there.is_expired(now_ms) || see(Element::Bytes(key)));
        return;
    }
    for member in smallest.iter(now_ms) {
        if others
            .iter()
            .all(|other| std::ptr::eq(*other, *smallest) || other.contains_element(member, now_ms))
            && !see(member)
        {
            return;
        }
    }
}

/// Passes the members of any of the sets to `see`, each once, until it returns false.
pub fn union<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>) -> bool) {
    // The largest set comes first and its members need not be recorded as seen: members of the
    // others are looked up in it.
    let Some(largest) = sets.iter().copied().max_by_key(|set| set.len()) else { return };
    if !largest.iter(now_ms).all(&mut see) {
        return;
    }
    let mut seen = Table::<false>::new();
    let mut buffer = itoa::Buffer::new();
    for set in sets.iter().filter(|set| !std::ptr::eq(**set, largest)) {
        for member in set.iter(now_ms) {
            if !largest.contains_element(member, now_ms) && seen.add(member.text(&mut buffer)) && !see(member)
            {
                return;
            }
        }
    }
}

/// Passes the members found only in the first set to `see` until it returns false.
pub fn difference<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>) -> bool) {
    let Some((first, others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = others.iter().copied().filter(|set| !set.is_empty()).collect();
    if others.iter().any(|other| std::ptr::eq(*other, *first)) {
        return;
    }
    // The largest set most likely contains a member: check it first.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let others_len: usize = others.iter().map(|set| set.len()).sum();
    let walk_others = matches!(first.0, Form::Table(_)) && others_len < first.len() / 4;
    if walk_others {
        // Few members to remove from many: collect the common ones and skip those.
        let mut taken = Table::<false>::new();
        let mut buffer = itoa::Buffer::new();
        for member in others.iter().flat_map(|set| set.iter(now_ms)) {
            let text = member.text(&mut buffer);
            if first.contains(text, now_ms) {
                taken.add(text);
            }
        }
        let mut buffer = itoa::Buffer::new();
        first.iter(now_ms).filter(|member| !taken.contains(member.text(&mut buffer))).all(see);
        return;
    }
    for member in first.iter(now_ms) {
        if !others.iter().any(|other| other.contains_element(member, now_ms)) && !see(member) {
            return;
        }
    }
}
