// SPDX-License-Identifier: BSD-3-Clause
//! Blocks of collections move at random between changes: content, order and encoding stay those of
//! a twin that nothing moves, and copies that share blocks keep theirs.

use braid_base::relocation::Mover;
use braid_keyspace::object::{Collection, DigestSink, Object};
use braid_values::array::value::{Array, Text};
use braid_values::bloom::Bloom;
use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::json::Json;
use braid_values::json::parse::parse;
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{BlockLimits, Group, Pending, Stream, StreamId};
use braid_values::suggestions::Suggestions;
use braid_values::t_digest::TDigest;
use braid_values::time_series::labels::Labels;
use braid_values::time_series::value::{Policy, Settings};
use braid_values::time_series::{Sample, Series};
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
                let mut pairs = [content(copy.as_ref().collection(), in_order), expected];
                // Copies of sorted sets, which find nothing by name, do not tell what expires.
                pairs.iter_mut().flatten().for_each(|element| _ = element.pop());
                assert!(pairs[0] == pairs[1], "a shared copy does not change");
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
    check(SortedSet::new, true, &["listpack", "skiplist"], |set, round, number| {
        let name = member(number);
        if number >> 60 < 4 {
            set.remove(&name);
        } else {
            set.add(&name, (number >> 32 & 0xffff) as f64, AddRule::default(), &limits);
        }
        if round > 1000 && number & 15 == 0 {
            set.set_expiry(&name, Some(number as i64 >> 20));
            set.set_expiry(&member(number >> 7), None);
        }
        if round % 500 == 0 {
            let view = set.view(i64::MIN);
            for entry in view.iter(0..view.len()) {
                let name = entry.0.to_vec();
                assert_eq!(view.rank(&name).map(|(_, score)| score), Some(entry.1), "found by name");
            }
        }
    });
}

/// What the groups of a stream wait for.
fn pending(stream: &Stream) -> Vec<Vec<(StreamId, u64, Vec<u8>)>> {
    let of_group = |group: &Group| {
        let owner = |pending: &Pending| group.consumer(pending.consumer).expect("an owner").name().to_vec();
        let all = group.pending_range(StreamId::MIN..=StreamId::MAX);
        all.map(|(id, pending)| (id, pending.delivery_count, owner(pending))).collect()
    };
    stream.groups().iter().map(|(_, group)| of_group(group)).collect()
}

#[test]
fn streams() {
    let limits = BlockLimits { entries_max: 10, ..BlockLimits::default() };
    let groups = [&b"one"[..], b"other"];
    let make = || {
        let mut stream = Stream::new();
        groups.iter().for_each(|name| _ = stream.split_mut().1.create(name, Group::default()));
        stream
    };
    let change = |stream: &mut Stream, round: usize, number: u64| {
        let id = StreamId { ms: round as u64 + 1, seq: 0 };
        let earlier = StreamId { ms: number % (round as u64 + 1), seq: 0 };
        let value = vec![b'v'; (number >> 40) as usize % 60];
        if number >> 60 < 4 {
            stream.log_mut().delete(earlier);
        } else {
            stream.log_mut().append(id, &[(b"field", &value)], &limits).expect("a greater ID");
        }
        let (_, all) = stream.split_mut();
        let group = all.get_mut(groups[round % 2]).expect("made above");
        let name = format!("consumer:{}", number >> 8 & 7);
        group.create_consumer(name.as_bytes(), 0);
        let consumer = group.find_consumer(name.as_bytes()).expect("made above");
        match number >> 50 & 3 {
            0 => _ = group.acknowledge(earlier),
            _ => group.deliver(id, consumer, round as i64),
        }
    };
    check(make, true, &["stream"], change);
    // The groups, which the digest leaves out.
    let (mut moving, mut twin, mut random) = (make(), make(), fastrand::Rng::with_seed(5));
    let mut shared = None;
    for round in 0..ROUNDS / 4 {
        let number = random.u64(..);
        change(&mut moving, round, number);
        change(&mut twin, round, number);
        relocate(&mut moving, &mut random);
        if round % (ROUNDS / 40) == 0 {
            assert_eq!(pending(&moving), pending(&twin));
            if let Some((copy, expected)) = shared.replace((moving.cow(), pending(&moving))) {
                assert_eq!(pending(&copy), expected, "a shared copy does not change");
            }
        }
    }
    assert!(pending(&moving).iter().all(|group| group.len() > ROUNDS / 100));
}

#[test]
fn bloom_filters() {
    check(
        || Bloom::new(50, 0.01, 2).expect("a filter"),
        true,
        &["raw"],
        |filter, _, number| {
            filter.add(&member(number)).expect("room");
            assert!(filter.contains(&member(number)));
        },
    );
}

#[test]
fn time_series() {
    for is_packed in [true, false] {
        let settings = Settings { is_packed, chunk_size: 256, ..Settings::default() };
        let labels = || Labels::new([(&b"sensor"[..], &b"roof"[..])].into_iter()).expect("short texts");
        check(
            || Series::new(settings.clone(), labels()),
            true,
            &["raw"],
            |series, round, number| {
                let time = round as u64 * 100 + number % 100;
                let sample = Sample { time, value: (number >> 30 & 1023) as f64 };
                series.add(sample, Some(Policy::Last)).expect("a sample");
                if number >> 60 == 0 {
                    series.remove(time.saturating_sub(5000), time.saturating_sub(4000));
                }
            },
        );
    }
}

#[test]
fn digests_of_numbers() {
    check(
        || TDigest::new(100).expect("a digest"),
        true,
        &["raw"],
        |digest, round, number| {
            digest.add((number >> 20) as f64);
            if round % 100 == 0 {
                assert!(digest.quantile(0.5) >= 0.0, "merged aside");
            }
        },
    );
}

#[test]
fn suggestions() {
    check(Suggestions::default, true, &["raw"], |suggestions, _, number| {
        let text = format!("{}ext:{}", if number & 1 == 0 { 'T' } else { 't' }, number % 5000);
        if number >> 60 < 4 {
            suggestions.remove(&text);
        } else {
            let payload = (number & 2 == 0).then_some(&b"payload"[..]);
            suggestions.add(&text, (number >> 32) as f32 + 1.0, false, payload);
        }
    });
}

#[test]
fn arrays() {
    check(Array::default, true, &["sliced-array"], |array, _, number| {
        let index = if number & 1 == 0 { number % 3000 } else { number % 3_000_000 };
        match number >> 60 {
            ..4 => _ = array.remove(index),
            4 => _ = array.set(index, Text::Bytes(&[b'x'; 400])),
            _ => _ = array.set(index, Text::Bytes(&number.to_le_bytes()[..(number >> 8 & 7) as usize])),
        }
    });
}

/// A document in one block and one in pieces.
#[test]
fn documents() {
    for items in [100, 30_000] {
        let text = |number: u64| {
            let items = (0..items).map(|item| format!("{{\"number\":{item},\"other\":{}}}", number >> 40));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        };
        let packed = |number| parse(&text(number)).expect("valid");
        let make = || Json::new(&packed(0)).expect("room");
        let mut round = 0;
        let (mut moving, mut random) = (make(), fastrand::Rng::with_seed(3));
        assert_eq!(moving.is_in_pieces(), items > 100);
        let mut shared: Option<(Object, Vec<Vec<u8>>)> = None;
        let mut moved = 0;
        while round < if cfg!(miri) { 1 } else { 20 } {
            round += 1;
            let number = random.u64(..);
            moving.set(&packed(number)).expect("room");
            moved += relocate(&mut moving, &mut random);
            moving.check();
            assert_eq!(String::from_utf8(moving.text()).expect("text"), text(number));
            let copy = (Collection::cow(&mut moving), content(&moving, true));
            relocate(&mut moving, &mut random);
            if let Some((copy, expected)) = shared.replace(copy) {
                assert_eq!(content(copy.as_ref().collection(), true), expected);
            }
        }
        assert!(moved > 0);
    }
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
    let (dim, count) = if cfg!(miri) { (16, 60) } else { (512, 3000) };
    let shape = Shape { metric: Metric::Cosine, quantisation: Quantisation::F32, dim, links: 4 };
    let mut set = VectorSet::new(shape, None).expect("a shape in range");
    let (mut random, mut vector) = (fastrand::Rng::with_seed(3), vec![0.0; dim as usize]);
    for number in 0..count {
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
