// SPDX-License-Identifier: BSD-3-Clause
//! Planning of slot moves: pure functions from the slots' owners to a list of moves.
//!
//! Shards are numbers here. A plan moves each slot at most once, from its owner to another shard,
//! so a partly executed plan leaves every slot with one owner.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Slots to move from one shard to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    pub from: usize,
    pub to: usize,
    /// In ascending order.
    pub slots: Vec<u16>,
}

/// The slots of each shard, in ascending order.
pub type Owned = [Vec<u16>];

/// Gives all shards the same number of slots, or one more, moving as few slots as possible.
pub fn even(owned: &Owned) -> Vec<Move> {
    let total: usize = owned.iter().map(Vec::len).sum();
    let (base, extra) = (total / owned.len().max(1), total % owned.len().max(1));
    let mut by_size: Vec<usize> = (0..owned.len()).collect();
    // The shards with the most slots keep the extra ones, which then need not move.
    by_size.sort_by_key(|&shard| Reverse(owned[shard].len()));
    let mut wanted = vec![base; owned.len()];
    by_size.iter().take(extra).for_each(|&shard| wanted[shard] += 1);
    towards(owned, &wanted)
}

/// Takes all slots from one shard; each goes to the shard with the fewest at that point. No slot of
/// another shard moves.
pub fn emptied(owned: &Owned, shard: usize) -> Vec<Move> {
    let mut wanted: Vec<usize> = owned.iter().map(Vec::len).collect();
    let mut others: BTreeSet<(usize, usize)> =
        (0..owned.len()).filter(|&other| other != shard).map(|other| (wanted[other], other)).collect();
    for _ in 0..wanted[shard] {
        let Some((count, least)) = others.pop_first() else { return Vec::new() };
        wanted[least] = count + 1;
        others.insert((count + 1, least));
    }
    wanted[shard] = 0;
    towards(owned, &wanted)
}

/// Gives these slots to one shard, whatever their owners.
pub fn given(owned: &Owned, slots: &[u16], to: usize) -> Vec<Move> {
    let slots: BTreeSet<u16> = slots.iter().copied().collect();
    let from = |from: usize| {
        let slots: Vec<u16> = owned[from].iter().copied().filter(|slot| slots.contains(slot)).collect();
        Move { from, to, slots }
    };
    let others = (0..owned.len()).filter(|&shard| shard != to);
    others.map(from).filter(|one| !one.slots.is_empty()).collect()
}

/// Balances the weights of the shards' slots (number of keys, for example). Afterwards no two
/// shards differ by more than the heaviest slot. Slots of weight 0 do not move.
pub fn by_weight(owned: &Owned, weights: &[u64]) -> Vec<Move> {
    let weight = |slot: u16| weights.get(usize::from(slot)).copied().unwrap_or(0);
    let mut loads: Vec<u64> =
        owned.iter().map(|slots| slots.iter().map(|&slot| weight(slot)).sum()).collect();
    // The slots that may still move, by weight.
    let mut movable: Vec<BTreeSet<(u64, u16)>> = owned
        .iter()
        .map(|slots| {
            slots.iter().map(|&slot| (weight(slot), slot)).filter(|(weight, _)| *weight > 0).collect()
        })
        .collect();
    let mut donors: BTreeSet<(u64, usize)> = (0..owned.len()).map(|shard| (loads[shard], shard)).collect();
    let mut moved: BTreeMap<(usize, usize), Vec<u16>> = BTreeMap::new();
    while let Some(&(most, donor)) = donors.last() {
        let Some((least, receiver)) = (0..owned.len()).map(|shard| (loads[shard], shard)).min() else {
            break;
        };
        let gap = most - least;
        // Half of the gap is ideal. Anything below the gap is an improvement.
        let slots = &movable[donor];
        let best = slots.range(..=(gap / 2, u16::MAX)).next_back();
        let best = best.or_else(|| slots.range(..(gap, 0)).next()).copied();
        let Some((weight, slot)) = best else {
            // It keeps its slots: the gaps to the other shards are no wider.
            donors.remove(&(most, donor));
            continue;
        };
        movable[donor].remove(&(weight, slot));
        moved.entry((donor, receiver)).or_default().push(slot);
        for (shard, load) in [(donor, most - weight), (receiver, least + weight)] {
            let known = donors.remove(&(loads[shard], shard));
            loads[shard] = load;
            if known {
                donors.insert((load, shard));
            }
        }
    }
    let sorted = |((from, to), mut slots): ((usize, usize), Vec<u16>)| {
        slots.sort_unstable();
        Move { from, to, slots }
    };
    moved.into_iter().map(sorted).collect()
}

/// Moves slots until each shard has the wanted number. Keeps runs of adjacent slots together where
/// possible.
fn towards(owned: &Owned, wanted: &[usize]) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut short = (0..owned.len()).filter_map(|shard| {
        let missing = wanted[shard].checked_sub(owned[shard].len())?;
        (missing > 0).then_some((shard, missing))
    });
    let mut receiver = short.next();
    for (from, slots) in owned.iter().enumerate() {
        // Takes slots from the end.
        let mut end = slots.len();
        while end > wanted[from] {
            let Some((to, missing)) = receiver else { return moves };
            let count = missing.min(end - wanted[from]);
            moves.push(Move { from, to, slots: slots[end - count..end].to_vec() });
            end -= count;
            receiver = if count == missing { short.next() } else { Some((to, missing - count)) };
        }
    }
    moves
}

/// The slots of each shard after a plan.
pub fn after(owned: &Owned, moves: &[Move]) -> Vec<Vec<u16>> {
    let mut sets: Vec<BTreeSet<u16>> = owned.iter().map(|slots| slots.iter().copied().collect()).collect();
    for one in moves {
        for slot in &one.slots {
            sets[one.from].remove(slot);
            sets[one.to].insert(*slot);
        }
    }
    sets.into_iter().map(|set| set.into_iter().collect()).collect()
}

/// The number of slots that a plan moves.
pub fn size(moves: &[Move]) -> usize {
    moves.iter().map(|one| one.slots.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SLOTS;
    use proptest::prelude::*;

    /// All slots, assigned to shards at random, in long runs and singly.
    fn owned() -> impl Strategy<Value = Vec<Vec<u16>>> {
        (1usize..9, any::<u64>(), 1u64..400).prop_map(|(shards, seed, run)| {
            let mut owned = vec![Vec::new(); shards];
            let mut state = seed | 1;
            let mut owner = 0;
            for slot in 0..SLOTS as u16 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (state >> 33).is_multiple_of(run) {
                    // The first shards get more than the others.
                    owner = ((state >> 40) as usize % shards) * ((state >> 20) as usize % 2);
                }
                owned[owner].push(slot);
            }
            owned
        })
    }

    /// Checks that every move is of slots that its source owns, each once, and that every slot
    /// still has one owner.
    fn check(owned: &Owned, moves: &[Move]) -> Vec<Vec<u16>> {
        let mut seen = BTreeSet::new();
        for one in moves {
            assert!(one.from != one.to && !one.slots.is_empty() && one.slots.is_sorted(), "{one:?}");
            for slot in &one.slots {
                assert!(owned[one.from].binary_search(slot).is_ok(), "{slot} does not belong to its source");
                assert!(seen.insert(*slot), "{slot} moves twice");
            }
        }
        let after = after(owned, moves);
        let mut all: Vec<u16> = after.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all.len(), SLOTS);
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "each slot has one owner");
        after
    }

    fn spread(counts: impl Iterator<Item = u64> + Clone) -> u64 {
        counts.clone().max().unwrap_or(0) - counts.min().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn an_even_plan_is_even_and_moves_as_little_as_it_can(owned in owned()) {
            let moves = even(&owned);
            let after = check(&owned, &moves);
            prop_assert!(spread(after.iter().map(|slots| slots.len() as u64)) <= 1);
            // Shards above the base count give away the excess. `extra` of them may keep one more,
            // so as many as can do.
            let (base, extra) = (SLOTS / owned.len(), SLOTS % owned.len());
            let above = owned.iter().filter(|slots| slots.len() > base).count();
            let least: usize = owned.iter().map(|slots| slots.len().saturating_sub(base)).sum();
            prop_assert_eq!(size(&moves), least - above.min(extra));
            prop_assert!(even(&after).is_empty());
        }

        #[test]
        fn a_drained_shard_has_nothing_and_the_others_are_filled_up(owned in owned(), which in any::<usize>()) {
            prop_assume!(owned.len() > 1);
            let shard = which % owned.len();
            let moves = emptied(&owned, shard);
            let after = check(&owned, &moves);
            prop_assert!(after[shard].is_empty());
            prop_assert_eq!(size(&moves), owned[shard].len());
            // No shard that received slots has more than one above the minimum.
            let others = || (0..owned.len()).filter(|&other| other != shard);
            let least = others().map(|other| after[other].len()).min().unwrap();
            for other in others().filter(|&other| after[other].len() > owned[other].len()) {
                prop_assert!(after[other].len() <= least + 1);
            }
        }

        #[test]
        fn weights_are_evened_out(owned in owned(), seed in any::<u64>(), most in 0u64..1_000) {
            let mut state = seed | 1;
            let mut draw = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if state.is_multiple_of(3) { 0 } else { state % (most + 1) }
            };
            let weights: Vec<u64> = (0..SLOTS).map(|_| draw()).collect();
            let moves = by_weight(&owned, &weights);
            let after = check(&owned, &moves);
            let load = |slots: &Vec<u16>| slots.iter().map(|&slot| weights[usize::from(slot)]).sum::<u64>();
            prop_assert!(spread(after.iter().map(load)) <= weights.iter().copied().max().unwrap());
            prop_assert!(moves.iter().flat_map(|one| &one.slots).all(|&slot| weights[usize::from(slot)] > 0));
        }

        #[test]
        fn given_slots_arrive(owned in owned(), which in any::<usize>(), first in 0u16..16_384, len in 1u16..5_000) {
            let to = which % owned.len();
            let slots: Vec<u16> = (first..first.saturating_add(len).min(SLOTS as u16)).collect();
            let moves = given(&owned, &slots, to);
            let after = check(&owned, &moves);
            prop_assert!(slots.iter().all(|slot| after[to].binary_search(slot).is_ok()));
            let already = slots.iter().filter(|slot| owned[to].binary_search(slot).is_ok()).count();
            prop_assert_eq!(size(&moves), slots.len() - already);
        }
    }

    #[test]
    fn a_new_shard_gets_runs() {
        let owned = [(0..8_192).collect::<Vec<u16>>(), (8_192..16_384).collect(), Vec::new()];
        let moves = even(&owned);
        let told: Vec<_> =
            moves.iter().map(|one| (one.from, one.to, crate::slots::ranges(&one.slots))).collect();
        assert_eq!(told, [(0, 2, vec![(5_462, 8_191)]), (1, 2, vec![(13_653, 16_383)])]);
    }

    #[test]
    fn one_heavy_slot_stays() {
        let owned = [vec![0, 1], (2..SLOTS as u16).collect::<Vec<u16>>()];
        let mut weights = vec![0; SLOTS];
        (weights[0], weights[1], weights[2]) = (1_000, 10, 20);
        let moves = by_weight(&owned, &weights);
        assert_eq!(moves, [Move { from: 0, to: 1, slots: vec![1] }]);
        assert!(by_weight(&owned, &vec![0; SLOTS]).is_empty());
    }
}
