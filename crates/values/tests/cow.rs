// SPDX-License-Identifier: BSD-3-Clause
//! A shared copy of a collection does not change, whatever happens to the original, and nothing is
//! leaked or freed twice.

use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{BlockLimits, Claim, Group, Stream, StreamId, Trim};

const NEVER: i64 = i64::MIN;

fn hash_content(hash: &Hash) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut content: Vec<_> =
        hash.iter_with_expiry().map(|(field, value, _)| (field.to_vec(), value.to_vec())).collect();
    content.sort();
    content
}

fn set_content(set: &Set) -> Vec<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = set.iter_with_expiry().map(|(member, _)| member.to_vec()).collect();
    members.sort();
    members
}

type Scored = (Vec<u8>, u64, Option<i64>);

fn sorted_content(set: &SortedSet) -> Vec<Scored> {
    let all = set.iter_back_with_expiry();
    all.map(|(member, score, expire_at)| (member.to_vec(), score.to_bits(), expire_at)).collect()
}

fn list_content(list: &List) -> Vec<Vec<u8>> {
    let mut content = Vec::new();
    list.range(0, list.len(), |element| content.push(element.to_vec()));
    content
}

/// Entries; each group's pending entries with their consumers; consumers with their pending
/// entries.
type StreamContent =
    (Vec<(StreamId, usize)>, Vec<(StreamId, i64, Vec<u8>)>, Vec<(Vec<u8>, i64, Vec<StreamId>)>);

fn stream_content(stream: &Stream) -> StreamContent {
    let entries =
        stream.log().range(StreamId::MIN, StreamId::MAX).map(|entry| (entry.id, entry.fields.len()));
    let (mut pending, mut consumers) = (Vec::new(), Vec::new());
    for (_, group) in stream.groups().iter() {
        for (id, entry) in group.pending_range(StreamId::MIN..=StreamId::MAX) {
            let owner = group.consumer(entry.consumer).unwrap();
            pending.push((id, entry.delivery_time, owner.name().to_vec()));
        }
        for (_, consumer) in group.consumers() {
            let ids = consumer.pending_from(StreamId::MIN).collect();
            consumers.push((consumer.name().to_vec(), consumer.seen_time, ids));
        }
    }
    (entries.collect(), pending, consumers)
}

/// Repeatedly shares a value from `make`; one thread changes or drops it, while another reads the
/// copy.
fn check<T: Send, C: PartialEq + Send>(
    seed: u64,
    make: impl Fn() -> T,
    share: impl Fn(&mut T) -> T,
    content: impl Fn(&T) -> C + Sync,
    change: impl Fn(&mut T, &mut fastrand::Rng),
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut one = make();
    for round in 0..6 {
        let before = content(&one);
        let shared = share(&mut one);
        let content = &content;
        one = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let seen = content(&shared);
                // The reader may drop the copy first, or keep it.
                (seen, (round % 2 == 0).then_some(shared))
            });
            for _ in 0..2000 {
                change(&mut one, &mut random);
            }
            let after = content(&one);
            let (seen, shared) = reader.join().unwrap();
            assert!(seen == before, "the shared copy is unchanged");
            if let Some(shared) = shared {
                assert!(content(&shared) == before, "the shared copy stays unchanged");
                if round == 2 {
                    drop(one);
                    assert!(content(&shared) == before, "the shared copy outlives its owner unchanged");
                    return make();
                }
            }
            assert!(content(&one) == after, "dropping the copy leaves the owner unchanged");
            one
        });
    }
}

#[test]
fn hashes() {
    let limits = HashLimits::default();
    let name = |number: u32| format!("field {number}");
    let value = |random: &mut fastrand::Rng| vec![random.u8(..); [3, 30, 300, 3000][random.usize(0..4)]];
    check(
        1,
        || {
            let mut random = fastrand::Rng::with_seed(7);
            let mut hash = Hash::new();
            for number in 0..20_000 {
                hash.set(name(number).as_bytes(), &value(&mut random), Expiry::Keep, NEVER, &limits);
            }
            assert!(hash.is_large());
            hash
        },
        |hash| hash.cow(),
        hash_content,
        |hash, random| {
            let field = name(random.u32(0..24_000));
            if random.bool() {
                hash.set(field.as_bytes(), &value(random), Expiry::Keep, NEVER, &limits);
            } else {
                hash.remove(field.as_bytes(), NEVER);
            }
        },
    );
}

#[test]
fn hashes_with_fields_that_expire_say_so() {
    let limits = HashLimits::default();
    let mut hash = Hash::new();
    for number in 0..5000u32 {
        hash.set(&number.to_le_bytes(), b"value", Expiry::At(i64::from(number) + 10), NEVER, &limits);
    }
    let shared = hash.cow();
    assert!(shared.expiring_len() > 0);
    assert_eq!(hash.expiring_len(), 5000);
    assert!(shared.iter_with_expiry().all(|(_, _, expire_at)| expire_at.is_some()));
}

#[test]
fn sets() {
    let limits = SetLimits::default();
    check(
        2,
        || {
            let mut set = Set::for_member(b"text", 5000, &limits);
            for number in 0..20_000u32 {
                set.add(format!("member {number}").as_bytes(), NEVER, &limits);
            }
            assert!(set.is_large());
            set
        },
        |set| set.cow(),
        set_content,
        |set, random| {
            let member = format!("member {}", random.u32(0..24_000));
            if random.bool() {
                set.add(member.as_bytes(), NEVER, &limits);
            } else {
                set.remove(member.as_bytes(), NEVER);
            }
        },
    );
}

#[test]
fn sets_that_grow_and_shrink_through_the_size_of_a_chunk() {
    let limits = SetLimits::default();
    let member = |number: u32| format!("member {number}");
    for (seed, begin, less) in [(11, 7000, 500), (12, 9000, 6000)] {
        check(
            seed,
            || {
                let mut set = Set::for_member(b"text", 5000, &limits);
                (0..begin).for_each(|number| {
                    set.add(member(number).as_bytes(), NEVER, &limits);
                });
                set
            },
            |set| set.cow(),
            set_content,
            |set, random| {
                // The set shrinks for a while, then grows beyond its original size.
                let number = random.u32(0..12_000);
                if set.len() > less && number % 3 > 0 {
                    set.pop_random(random, |_| ());
                } else {
                    set.add(member(number).as_bytes(), NEVER, &limits);
                }
            },
        );
    }
}

#[test]
fn sets_of_integers_and_packed_lists() {
    let limits =
        SetLimits { max_intset_entries: 1 << 20, max_listpack_entries: 1 << 20, max_listpack_value: 64 };
    for (seed, prefix) in [(13, ""), (14, "x")] {
        let member = |number: u32| format!("{prefix}{number}");
        let count = if prefix.is_empty() { 20_000 } else { 12_000 };
        check(
            seed,
            || {
                let numbers: Vec<_> = (0..count).map(|number| member(number * 3)).collect();
                let mut set = if prefix.is_empty() {
                    Set::for_member(b"1", 1, &limits)
                } else {
                    let mut list = braid_containers::listpack::Listpack::new();
                    assert!(numbers.iter().all(|text| list.push_back(text.as_bytes())));
                    Set::from_listpack(list, &limits).unwrap()
                };
                if prefix.is_empty() {
                    for text in &numbers {
                        set.add(text.as_bytes(), NEVER, &limits);
                    }
                }
                assert!(set.is_large() && set.encoding() != "hashtable");
                set
            },
            |set| set.cow(),
            set_content,
            |set, random| {
                let text = member(random.u32(0..100) * 601);
                if random.bool() {
                    set.add(text.as_bytes(), NEVER, &limits);
                } else {
                    set.remove(text.as_bytes(), NEVER);
                }
            },
        );
    }
}

#[test]
fn sorted_sets() {
    let limits = PackedLimits::default();
    for (seed, expiring) in [(3, false), (8, true)] {
        check(
            seed,
            || {
                let mut set = SortedSet::new();
                for number in 0..5000u32 {
                    let member = format!("member {number}");
                    set.add(member.as_bytes(), f64::from(number % 700), AddRule::default(), &limits);
                    if expiring && number % 2 == 0 {
                        set.set_expiry(member.as_bytes(), Some(i64::from(number) + 1000));
                    }
                }
                assert!(set.is_large());
                set
            },
            SortedSet::cow,
            sorted_content,
            |set, random| {
                let member = format!("member {}", random.u32(0..6000));
                match random.u32(0..20) {
                    0..10 => {
                        set.add(
                            member.as_bytes(),
                            f64::from(random.u32(0..700)),
                            AddRule::default(),
                            &limits,
                        );
                    }
                    10..12 => {
                        let at = random.bool().then(|| random.i64(1000..9000));
                        set.set_expiry(member.as_bytes(), at.filter(|_| expiring));
                    }
                    12..18 => {
                        set.remove(member.as_bytes());
                    }
                    18 => {
                        set.remove_expired(random.i64(0..2000), 2, |_, _| ());
                    }
                    _ => {
                        let rank = random.usize(0..set.len().max(1));
                        set.remove_ranks(rank..rank + 3, |_, _| ());
                    }
                }
            },
        );
    }
}

#[test]
fn lists() {
    for (seed, compress_depth) in [(4, 0), (5, 2)] {
        let limits = ListLimits { compress_depth, ..ListLimits::default() };
        check(
            seed,
            || {
                let mut list = List::new();
                for number in 0..20_000u32 {
                    list.push(End::Back, format!("element {number}").as_bytes(), &limits);
                }
                list.push(End::Back, &[b'x'; 20_000], &limits);
                list.push(End::Front, &[b'y'; 20_000], &limits);
                assert!(list.is_large());
                list
            },
            List::cow,
            list_content,
            |list, random| {
                let end = if random.bool() { End::Front } else { End::Back };
                let index = random.usize(0..list.len());
                let text = vec![b'n'; [3, 40, 9000][random.usize(0..3)]];
                match random.u32(0..200) {
                    0..50 => {
                        list.pop(end, &limits, |_| ());
                    }
                    50..100 => list.push(end, &text, &limits),
                    100..195 => {
                        list.set(index as i64, &text, &limits);
                    }
                    195..198 => {
                        list.remove_range(index, 40, &limits);
                    }
                    _ => {
                        list.remove_equal(&text, 3, &limits);
                    }
                }
            },
        );
    }
}

#[test]
fn streams() {
    let limits = BlockLimits::default();
    let append = |stream: &mut Stream| {
        let id = StreamId { ms: stream.log().last_id().ms + 1, seq: 0 };
        stream.log_mut().append(id, &[(b"field", b"value"), (b"other", b"more")], &limits).unwrap();
    };
    check(
        6,
        || {
            let mut stream = Stream::new();
            (0..20_000).for_each(|_| append(&mut stream));
            assert!(stream.is_large());
            stream
        },
        |stream| stream.cow(),
        stream_content,
        |stream, random| match random.u32(0..20) {
            0..10 => append(stream),
            10..19 => {
                let last = stream.log().last_id().ms;
                let id = StreamId { ms: random.u64(last.saturating_sub(20_000)..last + 1), seq: 0 };
                stream.log_mut().delete(id);
            }
            _ => {
                let len = stream.log().len();
                stream.log_mut().trim(Trim::MaxLen(len.saturating_sub(5)), false, 0);
            }
        },
    );
}

#[test]
fn streams_with_groups() {
    const NOW: i64 = 5000;
    let limits = BlockLimits::default();
    let name = |number: u32| format!("consumer {number}").into_bytes();
    let id = |ms: u64| StreamId { ms, seq: 0 };
    let claim = Claim { force: true, ..Claim::new(NOW, 0) };
    check(
        9,
        || {
            let mut stream = Stream::new();
            let mut group = Group::new(StreamId::MIN, None);
            let consumers: Vec<_> =
                (0..5).map(|number| group.create_consumer(&name(number), 1).unwrap()).collect();
            for ms in 1..=10_000 {
                stream.log_mut().append(id(ms), &[(b"field", b"value")], &limits).unwrap();
                group.deliver(id(ms), consumers[ms as usize % 5], 7);
            }
            stream.split_mut().1.create(b"group", group);
            assert!(stream.is_large());
            stream
        },
        |stream| stream.cow(),
        stream_content,
        |stream, random| {
            let (log, groups) = stream.split_mut();
            let group = groups.get_mut(b"group").unwrap();
            let (at, by) = (id(random.u64(1..10_000)), name(random.u32(0..8)));
            let consumer = group.find_consumer(&by).or_else(|| group.create_consumer(&by, NOW)).unwrap();
            match random.u32(0..400) {
                0..150 => {
                    group.acknowledge(at);
                }
                150..250 => group.deliver(at, consumer, NOW),
                250..300 => group.redeliver(at, NOW),
                300..370 => {
                    group.claim(log, at, consumer, &claim);
                }
                370..390 => {
                    group.auto_claim(log, consumer, at, 10, &claim);
                }
                390..399 => group.consumer_mut(consumer).unwrap().seen_time = random.i64(..),
                _ => {
                    group.delete_consumer(&by);
                }
            }
        },
    );
}
