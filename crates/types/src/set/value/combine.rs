// SPDX-License-Identifier: BSD-3-Clause
//! Intersection, union and difference of sets, working from the smallest where that helps.

use super::{Form, Set};
use braid_containers::listpack::Element;
use braid_containers::member_table::Table;

/// Gives the members that all sets have to `see`, until it answers false. No set at all has no members.
pub fn intersection<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>) -> bool) {
    let mut sets = sets.to_vec();
    // Walking the smallest and asking the next smaller first rejects earliest.
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

/// Gives the members that any of the sets has to `see`, each once.
pub fn union<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>)) {
    // The largest set needs no memory of what was seen: it comes first, and members of others are looked up
    // in it.
    let Some(largest) = sets.iter().copied().max_by_key(|set| set.len()) else { return };
    largest.iter(now_ms).for_each(&mut see);
    let mut seen = Table::<false>::new();
    let mut buffer = itoa::Buffer::new();
    for set in sets.iter().filter(|set| !std::ptr::eq(**set, largest)) {
        for member in set.iter(now_ms) {
            if !largest.contains_element(member, now_ms) && seen.add(member.text(&mut buffer)) {
                see(member);
            }
        }
    }
}

/// Gives the members of the first set that no other has to `see`.
pub fn difference<'a>(sets: &[&'a Set], now_ms: i64, mut see: impl FnMut(Element<'a>)) {
    let Some((first, others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = others.iter().copied().filter(|set| !set.is_empty()).collect();
    if others.iter().any(|other| std::ptr::eq(*other, *first)) {
        return;
    }
    // The largest most likely has a member: ask it first.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let others_len: usize = others.iter().map(|set| set.len()).sum();
    let walk_others = matches!(first.0, Form::Table(_)) && others_len < first.len() / 4;
    if walk_others {
        // Few to take away from many: collect what both have, and pass those over.
        let mut taken = Table::<false>::new();
        let mut buffer = itoa::Buffer::new();
        for member in others.iter().flat_map(|set| set.iter(now_ms)) {
            let text = member.text(&mut buffer);
            if first.contains(text, now_ms) {
                taken.add(text);
            }
        }
        let mut buffer = itoa::Buffer::new();
        first.iter(now_ms).filter(|member| !taken.contains(member.text(&mut buffer))).for_each(see);
        return;
    }
    for member in first.iter(now_ms) {
        if !others.iter().any(|other| other.contains_element(member, now_ms)) {
            see(member);
        }
    }
}
