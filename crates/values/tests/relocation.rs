// SPDX-License-Identifier: BSD-3-Clause
//! Blocks of collections move at random between changes: content, order and encoding stay those of
//! a twin that nothing moves, and copies that share blocks keep theirs.

use braid_base::relocation::Mover;
use braid_keyspace::object::{Collection, DigestSink};
use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::vector_set::VectorSet;
use braid_vectors::{Metric, Quantisation, Shape};

const ROUNDS: usize = if cfg!(miri) { 150 } else { 20_000 };

/// Elements in order, or sorted if their order is that of a table.
#[derive(Default)]
struct Content(Vec<Vec<u8>>);

impl DigestSink for Content {
    fn xor(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }

    fn part(&mut self, texts: &[&[u8]], expires: bool) {
        self.0.push([&texts.join(&b'='), &[u8::from(expires)][..]].concat());
    }
}

fn content(collection: &dyn Collection, in_order: bool) -> Vec<Vec<u8>> {
    let mut content = Content::default();
    collection.digest(&mut content);
    if !in_order {
        content.0.sort();
    }
    content.0
}

/// Moves all blocks, or only as many as a short time allows.
fn relocate(collection: &mut dyn Collection, random: &mut fastrand::Rng) -> u64 {
    let (mut from, mut moved) = (0, 0);
    for _ in 0..random.usize(1..50) {
        let mut mover = Mover::new(10_000, true);
        let next = collection.relocate_blocks(from, &mut mover);
        moved += mover.hits;
        let Some(next) = next else { break };
        assert!(next >= from);
        from = next;
    }
    moved
}

/// Applies each change to a collection whose blocks move and to its twin.
fn check<T: Collection>(
    make: impl Fn() -> T,
    in_order: bool,
    moves_at: &[&str],
    mut change: impl FnMut(&mut T, usize, u64),
) {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut moving, mut twin) = (make(), make());
    let mut moved_at = Vec::new();
    let mut shared = None;
    for round in 0..ROUNDS {
        let number = random.u64(..);
        change(&mut moving, round, number);
        change(&mut twin, round, number);
        if (round < 100 || random.u8(..) < 20) && relocate(&mut moving, &mut random) > 0 {
            moved_at.push(moving.encoding());
        }
        if round % (ROUNDS / 20).max(1) == 0 {
            assert_eq!(content(&moving, in_order), content(&twin, in_order));
            assert_eq!((moving.encoding(), moving.memory_bytes() > 0), (twin.encoding(), true));
            if let Some((copy, expected)) = shared.replace((moving.cow(), content(&moving, in_order))) {
                let found: Vec<Vec<u8>> = content(copy.as_ref().collection(), in_order);
                assert_eq!(found, expected, "a shared copy does not change");
            }
        }
    }
    for encoding in moves_at {
        assert!(cfg!(miri) || moved_at.contains(encoding), "nothing moved in a {encoding}");
    }
}

fn member(number: u64) -> Vec<u8> {
    format!("member:{}", number % 30_000).into_bytes()
}

#[test]
fn hashes() {
    let limits = HashLimits::default();
    check(Hash::new, false, &["listpack", "hashtable"], |hash, round, number| {
        let field = member(number);
        if number >> 60 < 4 {
            hash.remove(&field, i64::MIN);
        } else {
            let value = vec![b'v'; (number >> 40) as usize % if round < 100 { 60 } else { 80 }];
            hash.set(&field, &value, Expiry::Clear, i64::MIN, &limits);
        }
    });
}

#[test]
fn sets() {
    let limits = SetLimits::default();
    let make = || Set::for_member(b"1", 1, &limits);
    check(make, false, &["intset", "listpack", "hashtable"], |set, round, number| {
        let name = if round < 100 { (number % 1000).to_string().into_bytes() } else { member(number) };
        if number >> 60 < 4 {
            set.remove(&name, i64::MIN);
        } else {
            set.add(&name, i64::MIN, &limits);
        }
    });
}

#[test]
fn lists() {
    for compress_depth in [0, 1] {
        let limits = ListLimits { compress_depth, packed_threshold: 3000, ..ListLimits::default() };
        check(List::new, true, &["listpack", "quicklist"], |list, _, number| {
            let end = if number & 1 == 0 { End::Front } else { End::Back };
            if number >> 60 < 4 {
                list.pop(end, &limits, |_| ());
            } else {
                let len = if number >> 50 & 63 == 0 { 4000 } else { (number >> 40) as usize % 200 };
                list.push(end, &vec![b'a' + (number >> 8 & 15) as u8; len], &limits);
            }
        });
    }
}

#[test]
fn sorted_sets() {
    let limits = PackedLimits::default();
    check(SortedSet::new, true, &["listpack"], |set, _, number| {
        let name = member(number);
        if number >> 60 < 4 {
            set.remove(&name);
        } else {
            set.add(&name, (number >> 32) as f64, AddRule::default(), &limits);
        }
    });
}

#[test]
fn vector_sets() {
    let shape = Shape { metric: Metric::Cosine, quantisation: Quantisation::I8, dim: 8, links: 4 };
    let make = || VectorSet::new(shape, None).expect("a shape in range");
    let mut longest = 0;
    check(make, false, &["raw"], |set, _, number| {
        let name = format!("element:{}", number % 3000).into_bytes();
        longest = longest.max(set.len());
        if number >> 60 < 4 {
            set.remove(&name);
        } else {
            let vector: Vec<f32> = (0..8).map(|at| (number >> (8 * at) & 255) as f32 - 127.5).collect();
            let attribute = (number & 64 == 0).then_some(&b"{\"x\":1}"[..]);
            set.put(&name, &vector, 20, attribute).expect("room");
        }
    });
    assert!(longest > ROUNDS / 20);
}

/// The time of a step does not grow with the set.
#[test]
fn a_step_of_a_large_vector_set_ends_in_time() {
    let shape = Shape { metric: Metric::Cosine, quantisation: Quantisation::F32, dim: 512, links: 4 };
    let mut set = VectorSet::new(shape, None).expect("a shape in range");
    let (mut random, mut vector) = (fastrand::Rng::with_seed(3), vec![0.0; 512]);
    for number in 0..if cfg!(miri) { 100 } else { 3000 } {
        vector.fill_with(|| random.f32() - 0.5);
        set.put(format!("element:{number}").as_bytes(), &vector, 4, None).expect("room");
    }
    let (mut from, mut steps, mut moved) = (0, 0, 0);
    loop {
        // Without time a step moves one segment of names at most, and of the graph nothing.
        let mut mover = Mover::new(if steps % 2 == 0 { 0 } else { 20_000 }, true);
        let next = set.relocate_blocks(from, &mut mover);
        assert!(steps % 2 == 1 || from == 0 || mover.hits <= 1, "{} in a step without time", mover.hits);
        moved += mover.hits;
        steps += 1;
        let Some(next) = next else { break };
        from = next;
    }
    assert!(moved as usize >= set.graph().block_count(), "{moved} moved");
    assert!(cfg!(miri) || steps > 10, "{steps} steps");
}

/// This test has the system's allocator, about whose blocks jemalloc must not be asked.
#[test]
fn blocks_of_another_allocator_stay() {
    let limits = ListLimits::default();
    let mut list = List::new();
    for number in 0..if cfg!(miri) { 100 } else { 5000 } {
        list.push(End::Back, &vec![b'a'; number], &limits);
    }
    let mut mover = Mover::new(u64::MAX / 4, false);
    assert_eq!(list.relocate_blocks(0, &mut mover), None);
    assert!(mover.hits == 0 && mover.misses > 0);
}
