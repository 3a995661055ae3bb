// SPDX-License-Identifier: BSD-3-Clause
//! Hashes, sets and sorted sets against models, with small limits so that they go through all
//! encodings, and with members that expire. Some start as a listpack of arbitrary content.

#![no_main]

mod input;

use std::collections::BTreeMap;

use braid_containers::listpack::Listpack;
use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, Added, PackedLimits, SortedSet};
use input::Input;
use libfuzzer_sys::fuzz_target;

const HASH: HashLimits = HashLimits { max_listpack_entries: 6, max_listpack_value: 20 };
const SET: SetLimits = SetLimits { max_intset_entries: 5, max_listpack_entries: 7, max_listpack_value: 20 };
const SORTED: PackedLimits = PackedLimits { entries_max: 6, value_bytes_max: 20 };

/// The value (or score) and expiry of each member.
type Model<V> = BTreeMap<Vec<u8>, (V, Option<i64>)>;

fn live<V: Clone>(model: &Model<V>, now: i64) -> BTreeMap<Vec<u8>, V> {
    let live = model.iter().filter(|(_, (_, at))| at.is_none_or(|at| at >= now));
    live.map(|(member, (value, _))| (member.clone(), value.clone())).collect()
}

fn expire<V>(model: &mut Model<V>, now: i64) -> usize {
    let before = model.len();
    model.retain(|_, (_, at)| at.is_none_or(|at| at >= now));
    before - model.len()
}

fn hashes(input: &mut Input<'_>) -> Option<()> {
    let (mut hash, mut model, mut now) = (Hash::new(), Model::<Vec<u8>>::new(), 0);
    for _ in 0..200 {
        let what = input.byte()?;
        now += i64::from(what >> 6);
        match what % 8 {
            0..=2 => {
                assert_eq!(hash.remove_expired(now, usize::MAX, |_| ()), expire(&mut model, now));
                let (field, value) = (input.text()?, input.text()?);
                let at = (what & 8 != 0).then_some(now + i64::from(what >> 4));
                let is_new = hash.set(&field, &value, at.map_or(Expiry::Clear, Expiry::At), now, &HASH);
                assert_eq!(is_new, model.insert(field, (value, at)).is_none());
            }
            3 => {
                let field = input.text()?;
                let there = live(&model, now).contains_key(&field);
                assert_eq!(hash.remove(&field, now), there);
                model.remove(&field);
            }
            4 => {
                let field = input.text()?;
                let at = (what & 8 == 0).then_some(now + i64::from(what >> 4));
                let there = live(&model, now).contains_key(&field);
                let before = there.then(|| model[&field].1);
                assert_eq!(hash.set_expiry(&field, at, now), before);
                if there {
                    model.get_mut(&field)?.1 = at;
                }
            }
            5 => {
                let field = input.text()?;
                let value = hash.get(&field, now).map(|value| value.to_vec());
                assert_eq!(value, live(&model, now).get(&field).cloned());
            }
            6 => assert_eq!(hash.remove_expired(now, usize::MAX, |_| ()), expire(&mut model, now)),
            _ => hash = hash.clone(),
        }
        assert_eq!(hash.len(), model.len());
        assert_eq!(hash.live_len(now), live(&model, now).len());
        let found = hash.iter(now).map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
        assert_eq!(live(&model, now), found);
        assert_eq!(hash.next_expiry(), model.values().filter_map(|(_, at)| *at).min());
    }
    Some(())
}

fn sets(input: &mut Input<'_>) -> Option<()> {
    let (mut set, mut model, mut now) = (Set::default(), Model::<()>::new(), 0);
    for _ in 0..200 {
        let what = input.byte()?;
        now += i64::from(what >> 6);
        match what % 7 {
            0..=2 => {
                assert_eq!(set.remove_expired(now, usize::MAX, |_| ()), expire(&mut model, now));
                let member = input.text()?;
                let is_new = !model.contains_key(&member);
                assert_eq!(set.add(&member, now, &SET), is_new);
                model.entry(member).or_insert(((), None));
            }
            3 => {
                let member = input.text()?;
                assert_eq!(set.remove(&member, now), live(&model, now).contains_key(&member));
                model.remove(&member);
            }
            4 => {
                let member = input.text()?;
                let at = (what & 8 == 0).then_some(now + i64::from(what >> 4));
                let there = live(&model, now).contains_key(&member);
                assert_eq!(set.set_expiry(&member, at, now), there.then(|| model[&member].1));
                if there {
                    model.get_mut(&member)?.1 = at;
                }
            }
            5 => {
                let member = input.text()?;
                assert_eq!(set.contains(&member, now), live(&model, now).contains_key(&member));
            }
            _ => set = set.clone(),
        }
        assert_eq!(set.len(), model.len());
        let found: BTreeMap<Vec<u8>, ()> = set.iter(now).map(|member| (member.to_vec(), ())).collect();
        assert_eq!(live(&model, now), found);
        assert_eq!(set.next_expiry(), model.values().filter_map(|(_, at)| *at).min());
    }
    Some(())
}

fn sorted_sets(input: &mut Input<'_>) -> Option<()> {
    let (mut set, mut model, mut now) = (SortedSet::new(), Model::<f64>::new(), 0);
    for _ in 0..200 {
        let what = input.byte()?;
        now += i64::from(what >> 6);
        match what % 7 {
            0..=2 => {
                assert_eq!(set.remove_expired(now, usize::MAX, |_, _| ()), expire(&mut model, now));
                let (member, score) = (input.text()?, f64::from(input.byte()? as i8) / 2.0);
                let added = set.add(&member, score, AddRule::default(), &SORTED);
                let before = model.insert(member, (score, None));
                assert_eq!(matches!(added, Added::Added(_)), before.is_none());
            }
            3 => {
                let member = input.text()?;
                assert_eq!(set.remove(&member), model.remove(&member).map(|(score, _)| score));
            }
            4 => {
                let member = input.text()?;
                let at = (what & 8 == 0).then_some(now + i64::from(what >> 4));
                assert_eq!(set.set_expiry(&member, at), model.contains_key(&member));
                if let Some((_, old)) = model.get_mut(&member) {
                    *old = at;
                }
            }
            5 => {
                let member = input.text()?;
                assert_eq!(set.view(now).score(&member), live(&model, now).get(&member).copied());
            }
            _ => set = set.clone(),
        }
        assert_eq!(set.len(), model.len());
        assert_eq!(set.next_expiry(), model.values().filter_map(|(_, at)| *at).min());
        let mut expected: Vec<(f64, Vec<u8>)> =
            live(&model, now).into_iter().map(|(member, score)| (score, member)).collect();
        expected.sort_by(|one, other| one.partial_cmp(other).expect("no NaN"));
        let view = set.view(now);
        let found: Vec<(f64, Vec<u8>)> =
            view.iter(0..view.len()).map(|(member, score)| (score, member.to_vec())).collect();
        assert_eq!(found, expected);
        for (rank, (score, member)) in expected.iter().enumerate() {
            assert_eq!(view.rank(member), Some((rank, *score)));
        }
    }
    Some(())
}

/// A listpack from outside is either refused or becomes a collection of exactly its elements.
fn loaded(bytes: &[u8]) {
    let Some(list) = Listpack::from_bytes(bytes) else { return };
    let elements: Vec<Vec<u8>> = list.iter().map(|element| element.to_vec()).collect();
    if let Some(hash) = Hash::from_listpack(list.clone(), &HASH) {
        assert_eq!(hash.len() * 2, elements.len());
        elements.chunks(2).for_each(|pair| {
            assert_eq!(hash.get(&pair[0], 0).map(|value| value.to_vec()).as_ref(), Some(&pair[1]))
        });
    }
    if let Some(set) = Set::from_listpack(list.clone(), &SET) {
        assert_eq!(set.len(), elements.len());
        elements.iter().for_each(|member| assert!(set.contains(member, 0)));
    }
    if let Some(set) = SortedSet::from_listpack(list, &SORTED) {
        let view = set.view(0);
        assert_eq!(view.len() * 2, elements.len());
        let all: Vec<(f64, Vec<u8>)> =
            view.iter(0..view.len()).map(|(member, score)| (score, member.to_vec())).collect();
        assert!(all.is_sorted_by(|one, other| one < other));
        all.iter().for_each(|(score, member)| assert_eq!(view.score(member), Some(*score)));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    match input.byte().map(|choice| choice % 4) {
        Some(0) => _ = hashes(&mut input),
        Some(1) => _ = sets(&mut input),
        Some(2) => _ = sorted_sets(&mut input),
        Some(_) => loaded(input.0),
        None => {}
    }
});
