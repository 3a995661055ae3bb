// SPDX-License-Identifier: BSD-3-Clause
//! A stream against a simple model (a list of entries), its blocks against bytes written by Redis,
//! and the rules of groups.

use proptest::prelude::*;

use super::*;
use braid_containers::listpack::Listpack;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

const LIMITS: BlockLimits = BlockLimits { bytes_max: 4096, entries_max: 100 };

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId::new(ms, seq)
}

fn add(stream: &mut Stream, id: StreamId, pairs: &[(&str, &str)], limits: &BlockLimits) {
    let pairs: Vec<_> = pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())).collect();
    stream.log_mut().append(id, &pairs, limits).unwrap();
}

fn owned(entry: LogEntry<'_>) -> (StreamId, Pairs) {
    (entry.id, entry.fields.map(|(field, value)| (field.to_vec(), value.to_vec())).collect())
}

#[derive(Default)]
struct Model {
    entries: Vec<(StreamId, Pairs)>,
    added: u64,
    last: StreamId,
    max_deleted: StreamId,
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, u64, Vec<(u8, Vec<u8>)>),
    /// Before the last entry, by this many thousandths of its time.
    Insert(u64, u64, Vec<(u8, Vec<u8>)>),
    Delete(usize),
    MaxLen(u64, bool, u64),
    MinId(usize, bool, u64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        (-200i64..200).prop_map(|number| number.to_string().into_bytes()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..90),
    ];
    let pairs = proptest::collection::vec((0u8..3, value), 1..4);
    prop_oneof![
        12 => (0u64..3, 0u64..3, pairs.clone()).prop_map(|(ms, seq, pairs)| Step::Add(ms, seq, pairs)),
        6 => (0u64..1001, 0u64..4, pairs).prop_map(|(part, seq, pairs)| Step::Insert(part, seq, pairs)),
        4 => (0usize..40).prop_map(Step::Delete),
        1 => (0u64..40, any::<bool>(), 0u64..12)
            .prop_map(|(len, whole, limit)| Step::MaxLen(len, whole, limit)),
        1 => (0usize..20, any::<bool>(), 0u64..12)
            .prop_map(|(at, whole, limit)| Step::MinId(at, whole, limit)),
        1 => Just(Step::Reload),
    ]
}

fn reload(stream: &Stream) -> Stream {
    let mut copy = Stream::new();
    for (first, list) in stream.log().blocks() {
        copy.log_mut().push_block(first, list.bytes()).unwrap();
    }
    let log = copy.log_mut();
    assert_eq!((log.len(), log.first_id()), (stream.log().len(), stream.log().first_id()));
    log.set_last_id(stream.log().last_id());
    log.set_entries_added(stream.log().entries_added());
    log.set_max_deleted_id(stream.log().max_deleted_id());
    copy
}

fn apply(stream: &mut Stream, model: &mut Model, step: &Step, limits: &BlockLimits) {
    match step {
        Step::Add(ms, seq, pairs) => {
            let new = if *ms > 0 {
                id(model.last.ms + ms, *seq)
            } else {
                id(model.last.ms, model.last.seq + seq + 1)
            };
            let pairs: Pairs =
                pairs.iter().map(|(field, value)| (vec![b'f', *field], value.clone())).collect();
            let borrowed: Vec<_> = pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect();
            assert_eq!(stream.log_mut().append(new, &borrowed, limits), Ok(()));
            assert_eq!(stream.log_mut().append(new, &borrowed, limits), Err(AppendError::IdNotGreater));
            model.entries.push((new, pairs));
            (model.added, model.last) = (model.added + 1, new);
        }
        Step::Insert(part, seq, pairs) => {
            let new = id(model.last.ms * part / 1000, *seq);
            let pairs: Pairs =
                pairs.iter().map(|(field, value)| (vec![b'f', *field], value.clone())).collect();
            let borrowed: Vec<_> = pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect();
            let at = model.entries.partition_point(|entry| entry.0 < new);
            if model.entries.get(at).is_some_and(|entry| entry.0 == new) {
                assert_eq!(stream.insert(new, &borrowed, limits), Err(AppendError::IdNotGreater));
            } else if new > StreamId::MIN {
                assert_eq!(stream.insert(new, &borrowed, limits), Ok(()));
                model.entries.insert(at, (new, pairs));
                (model.added, model.last) = (model.added + 1, model.last.max(new));
            }
        }
        Step::Delete(at) => match model.entries.get(*at).map(|(id, _)| *id) {
            Some(id) => {
                assert!(stream.log_mut().delete(id) && !stream.log_mut().delete(id));
                model.entries.remove(*at);
                model.max_deleted = model.max_deleted.max(id);
            }
            None => assert!(!stream.log_mut().delete(model.last.next().unwrap())),
        },
        Step::MaxLen(len, whole, limit) => {
            let removed = trim(stream, Trim::MaxLen(*len), *whole, *limit, &model.entries);
            let most = model.entries.len().saturating_sub(*len as usize);
            assert!(removed <= most && (*limit == 0 || removed as u64 <= *limit));
            assert!(*whole || *limit > 0 || removed == most);
            model.entries.drain(..removed);
        }
        Step::MinId(at, whole, limit) => {
            let least = model.entries.get(*at).map_or(model.last, |(id, _)| *id);
            let removed = trim(stream, Trim::MinId(least), *whole, *limit, &model.entries);
            let most = model.entries.iter().filter(|(id, _)| *id < least).count();
            assert!(removed <= most && (*limit == 0 || removed as u64 <= *limit));
            assert!(*whole || *limit > 0 || removed == most);
            model.entries.drain(..removed);
        }
        Step::Reload => *stream = reload(stream),
    }
}

/// Trims a stream with these entries; checks which entries it says are removed.
fn trim(stream: &mut Stream, keep: Trim, whole: bool, limit: u64, entries: &[(StreamId, Pairs)]) -> usize {
    let mut ids = Vec::new();
    let removed = stream.log_mut().trim_into(keep, whole, limit, Some(&mut ids)) as usize;
    assert!(ids.iter().eq(entries.iter().take(removed).map(|(id, _)| id)), "{ids:?} of {removed}");
    removed
}

fn compare(stream: &Stream, model: &Model) {
    let log = stream.log();
    assert_eq!(log.len(), model.entries.len() as u64);
    assert!(log.blocks().all(|(_, list)| block::Header::live(list) > 0));
    assert_eq!((log.last_id(), log.entries_added()), (model.last, model.added));
    assert_eq!(log.max_deleted_id(), model.max_deleted);
    assert_eq!(log.first_id(), model.entries.first().map_or(StreamId::MIN, |entry| entry.0));
    assert_eq!(log.last_entry().map(|entry| entry.id), model.entries.last().map(|entry| entry.0));
    assert_eq!(log.range(StreamId::MIN, StreamId::MAX).map(owned).collect::<Vec<_>>(), model.entries);
    let mut back: Vec<_> = log.range_back(StreamId::MIN, StreamId::MAX).map(owned).collect();
    back.reverse();
    assert_eq!(back, model.entries);
    for (at, (id, pairs)) in model.entries.iter().enumerate() {
        assert_eq!(log.get(*id).map(owned), Some((*id, pairs.clone())));
        let next = id.next().unwrap();
        assert_eq!(log.contains(next), model.entries.iter().any(|entry| entry.0 == next));
        let end = model.entries[at + (model.entries.len() - at) / 2].0;
        let part: Vec<_> =
            model.entries.iter().map(|entry| entry.0).filter(|i| (*id..=end).contains(i)).collect();
        assert_eq!(log.range(*id, end).map(|entry| entry.id).collect::<Vec<_>>(), part);
        let from = id.previous().unwrap();
        let mut back: Vec<_> =
            log.range_back(from, end).map(|entry| entry.id).filter(|i| *i != from).collect();
        back.reverse();
        assert_eq!(back, part);
    }
    assert_eq!(log.range(StreamId::MAX, StreamId::MIN).count(), 0);
}

const CASES: u32 = if cfg!(miri) { 2 } else { 60 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(
        steps in proptest::collection::vec(step(), 1..if cfg!(miri) { 40 } else { 150 }),
        bytes_max in prop_oneof![Just(0usize), 1usize..2000], entries_max in 0usize..12,
    ) {
        let limits = BlockLimits { bytes_max, entries_max };
        let (mut stream, mut model) = (Stream::new(), Model::default());
        for step in &steps {
            apply(&mut stream, &mut model, step, &limits);
        }
        compare(&stream, &model);
        compare(&reload(&stream), &model);
        compare(&stream.clone(), &model);
    }

    #[test]
    fn hostile_blocks_never_panic(
        numbers in proptest::collection::vec(prop_oneof![-3i64..9, any::<i64>()], 0..40),
        change in proptest::option::of((0usize..60, -3i64..200)),
        first in (0u64..3, 0u64..3),
    ) {
        // Either arbitrary numbers, or a block with one element changed.
        let mut list = Listpack::new();
        match change {
            None => numbers.iter().for_each(|number| assert!(list.push_back_int(*number))),
            Some((index, value)) => {
                let mut stream = Stream::new();
                for seq in 1..8 {
                    let other = if seq == 4 { "x" } else { "b" };
                    add(&mut stream, id(5, seq), &[("a", "1"), (other, "2")], &LIMITS);
                }
                list = stream.log().blocks().next().unwrap().1.clone();
                if let Some(at) = list.seek(index as i64) {
                    list.replace_int(at, value);
                }
            }
        }
        let first = if change.is_some() { id(5, 1) } else { id(first.0, first.1) };
        let mut stream = Stream::new();
        if stream.log_mut().push_block(first, list.bytes()).is_ok() {
            let log = stream.log_mut();
            prop_assert_eq!(log.range(StreamId::MIN, StreamId::MAX).count() as u64, log.len());
            prop_assert_eq!(log.range_back(StreamId::MIN, StreamId::MAX).count() as u64, log.len());
            log.delete(id(5, 3));
            log.trim(Trim::MaxLen(2), false, 0);
        }
    }

    #[test]
    fn ids_round_trip(ms: u64, seq: u64) {
        let id = StreamId::new(ms, seq);
        prop_assert_eq!(StreamId::parse(id.to_string().as_bytes(), 9), Some(id));
        prop_assert_eq!(id.next().and_then(StreamId::previous).unwrap_or(id), id);
        prop_assert!(id.next().is_none_or(|next| next > id));
    }
}

#[test]
fn stream_blocks_match_redis() {
    // The block in a DUMP reply of Redis 7.0.15 after the same commands.
    let mut stream = Stream::new();
    add(&mut stream, id(1000, 5), &[("name", "ann"), ("age", "31")], &LIMITS);
    add(&mut stream, id(1000, 6), &[("name", "bob"), ("age", "42")], &LIMITS);
    add(&mut stream, id(2000, 0), &[("other", "x")], &LIMITS);
    stream.log_mut().delete(id(1000, 6));
    let (first, list) = stream.log().blocks().next().unwrap();
    let texts: Vec<String> =
        list.iter().map(|element| String::from_utf8(element.to_vec()).unwrap()).collect();
    assert_eq!(first, id(1000, 5));
    let expected = "2 1 2 name age 0  2 0 0 ann 31 5  3 0 1 bob 42 5  0 1000 -5 1 other x 6";
    assert_eq!(texts, expected.split_whitespace().collect::<Vec<_>>());
    let hex: String = list.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let dumped = "4e0000001900020101010201846e616d65058361676504000102010001000183616e6e041f010501\
                  03010001010183626f62042a0105010001c3e802dffb020101856f74686572068178020601ff";
    assert_eq!(hex, dumped);
}

#[test]
fn blocks_end_at_their_limits() {
    let sizes = |limits: &BlockLimits, value: &str| {
        let mut stream = Stream::new();
        (1..=250).for_each(|seq| add(&mut stream, id(1, seq), &[("f", value)], limits));
        stream.log().blocks().map(|(_, list)| block::Header::live(list)).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&LIMITS, "v"), [100, 100, 50]);
    assert_eq!(sizes(&BlockLimits { bytes_max: 0, entries_max: 0 }, "v"), [250]);
    // 1000 bytes per value: the fifth would reach 4096.
    assert_eq!(sizes(&LIMITS, &"v".repeat(1000))[..2], [4, 4]);
}

#[test]
fn trimming_goes_by_blocks_as_in_redis() {
    let filled = || {
        let mut stream = Stream::new();
        (1..=250).for_each(|seq| add(&mut stream, id(seq, 0), &[("f", "v")], &LIMITS));
        stream
    };
    for (keep, whole, limit, expected) in [
        (Trim::MaxLen(120), true, 0, 100),
        (Trim::MaxLen(50), true, 0, 200),
        (Trim::MaxLen(50), true, 100, 100),
        (Trim::MaxLen(50), true, 99, 0),
        (Trim::MaxLen(120), false, 0, 130),
        (Trim::MaxLen(0), false, 0, 250),
        (Trim::MaxLen(300), false, 0, 0),
        (Trim::MinId(id(101, 0)), true, 0, 100),
        (Trim::MinId(id(100, 0)), true, 0, 0),
        (Trim::MinId(id(180, 0)), false, 0, 179),
        (Trim::MinId(id(999, 0)), true, 0, 250),
    ] {
        let mut stream = filled();
        assert_eq!(stream.log_mut().trim(keep, whole, limit), expected, "{keep:?} {whole} {limit}");
        let log = stream.log();
        let first = if expected == 250 { StreamId::MIN } else { id(expected + 1, 0) };
        assert_eq!((log.len(), log.first_id(), log.last_id()), (250 - expected, first, id(250, 0)));
        assert_eq!(log.max_deleted_id(), StreamId::MIN, "trimming leaves no tombstone");
    }
}

#[test]
fn ids_for_new_entries() {
    let last = id(10, 7);
    let of = |request, now| StreamId::for_entry(request, last, now);
    assert_eq!(of(IdRequest::Auto, 11), Ok(id(11, 0)));
    assert_eq!(of(IdRequest::Auto, 10), Ok(id(10, 8)));
    assert_eq!(of(IdRequest::Auto, 3), Ok(id(10, 8)), "IDs never go back");
    assert_eq!(of(IdRequest::Partial(10), 0), Ok(id(10, 8)));
    assert_eq!(of(IdRequest::Partial(12), 0), Ok(id(12, 0)));
    assert_eq!(of(IdRequest::Partial(9), 0), Err(IdError::NotGreater));
    assert_eq!(of(IdRequest::Explicit(last), 0), Err(IdError::NotGreater));
    assert_eq!(StreamId::for_entry(IdRequest::Auto, StreamId::MAX, 5), Err(IdError::Exhausted));
    assert_eq!(StreamId::for_entry(IdRequest::Auto, id(5, u64::MAX), 5), Ok(id(6, 0)));
    assert_eq!(StreamId::for_entry(IdRequest::Partial(5), id(5, u64::MAX), 5), Err(IdError::NotGreater));
    assert_eq!(IdRequest::parse(b"*"), Some(IdRequest::Auto));
    assert_eq!(IdRequest::parse(b"5-*"), Some(IdRequest::Partial(5)));
    assert_eq!(IdRequest::parse(b"5-6"), Some(IdRequest::Explicit(id(5, 6))));
    assert_eq!(IdRequest::parse(b"5"), Some(IdRequest::Explicit(id(5, 0))));
    for wrong in ["5-6-*", "x", "5-x", "-*", "5-6-7", "18446744073709551616"] {
        assert_eq!(IdRequest::parse(wrong.as_bytes()), None, "{wrong}");
    }
}

/// A stream with entries 1-0 to 6-0 and a group with two consumers; the first consumer got 1-0 to
/// 4-0 at time 100.
fn with_group() -> (Stream, ConsumerId, ConsumerId) {
    let mut stream = Stream::new();
    (1..=6).for_each(|ms| add(&mut stream, id(ms, 0), &[("f", "v")], &LIMITS));
    let (log, groups) = stream.split_mut();
    assert!(groups.create(b"g", Group::new(StreamId::MIN, Some(0))));
    assert!(!groups.create(b"g", Group::default()));
    let group = groups.get_mut(b"g").unwrap();
    let (ann, bob) = (group.create_consumer(b"ann", 50).unwrap(), group.create_consumer(b"bob", 60).unwrap());
    assert_eq!((group.create_consumer(b"ann", 70), group.find_consumer(b"bob")), (None, Some(bob)));
    for entry in log.range(StreamId::MIN, id(4, 0)) {
        assert!(group.advance(log, entry.id));
        group.deliver(entry.id, ann, 100);
    }
    assert!(!group.advance(log, id(2, 0)));
    (stream, ann, bob)
}

fn check_owners(group: &Group) {
    assert_eq!(group.released_len(), 0);
    for (consumer_id, consumer) in group.consumers() {
        for id in consumer.pending_from(StreamId::MIN) {
            assert_eq!(group.pending(id).map(|pending| pending.consumer), Some(consumer_id));
        }
    }
}

const CLAIM: Claim = Claim::new(200, 0);

#[test]
fn pending_entries_change_hands() {
    let (mut stream, ann, bob) = with_group();
    stream.log_mut().delete(id(3, 0));
    let (log, groups) = stream.split_mut();
    let group = groups.get_mut(b"g").unwrap();
    let pending = |time, count, consumer| Pending { delivery_time: time, delivery_count: count, consumer };
    assert_eq!(group.pending(id(1, 0)), Some(&pending(100, 1, ann)));
    assert_eq!(group.claim(log, id(1, 0), bob, &Claim { min_idle: 101, ..CLAIM }), Claimed::No);
    assert_eq!(group.claim(log, id(1, 0), bob, &Claim { min_idle: 100, ..CLAIM }), Claimed::Yes);
    assert_eq!(group.pending(id(1, 0)), Some(&pending(200, 2, bob)));
    assert_eq!(group.consumer(bob).unwrap().active_time, 200);
    assert_eq!(group.claim(log, id(2, 0), bob, &Claim { just_id: true, ..CLAIM }), Claimed::Yes);
    assert_eq!(group.pending(id(2, 0)).unwrap().delivery_count, 1);
    assert_eq!(group.claim(log, id(3, 0), bob, &CLAIM), Claimed::Gone(pending(100, 1, ann)));
    assert_eq!(group.claim(log, id(3, 0), bob, &CLAIM), Claimed::No);
    assert_eq!(group.claim(log, id(5, 0), bob, &CLAIM), Claimed::No);
    assert_eq!(group.claim(log, id(5, 0), bob, &Claim { force: true, min_idle: 999, ..CLAIM }), Claimed::Yes);
    assert_eq!(
        group.claim(log, id(6, 0), bob, &Claim { force: true, retry_count: Some(7), ..CLAIM }),
        Claimed::Yes
    );
    assert_eq!(group.pending(id(6, 0)), Some(&pending(200, 7, bob)));
    group.redeliver(id(4, 0), 300);
    assert_eq!(group.pending(id(4, 0)), Some(&pending(300, 2, ann)));
    check_owners(group);
    assert_eq!([ann, bob].map(|consumer| group.consumer(consumer).unwrap().pending_len()), [1, 4]);
    assert_eq!(group.pending_range(id(2, 0)..=id(5, 0)).count(), 3);
    assert_eq!(group.pending_range(id(5, 0)..=id(2, 0)).count(), 0);
    assert_eq!(group.acknowledge(id(2, 0)), Some(pending(200, 1, bob)));
    assert_eq!(group.acknowledge(id(2, 0)), None);
    assert_eq!(group.delete_consumer(b"bob"), Some(3));
    assert_eq!((group.pending_len(), group.consumers_len()), (1, 1));
    check_owners(group);
    assert_eq!(group.create_consumer(b"cid", 1).and_then(|id| group.consumer(id)).unwrap().name(), b"cid");
}

#[test]
fn auto_claim_walks_the_pending_entries() {
    let (mut stream, ann, bob) = with_group();
    stream.log_mut().delete(id(2, 0));
    let (log, groups) = stream.split_mut();
    let group = groups.get_mut(b"g").unwrap();
    group.redeliver(id(3, 0), 195);
    let claim = Claim { min_idle: 50, ..CLAIM };
    let done = group.auto_claim(log, bob, StreamId::MIN, 2, &claim);
    assert_eq!((done.next, &done.claimed[..], done.gone.len()), (id(3, 0), &[id(1, 0)][..], 1));
    let done = group.auto_claim(log, bob, done.next, 2, &claim);
    assert_eq!((done.next, &done.claimed[..]), (StreamId::MIN, &[id(4, 0)][..]));
    assert_eq!(group.pending(id(3, 0)).unwrap().consumer, ann, "not idle long enough");
    check_owners(group);
}

#[test]
fn the_longest_idle_entries_are_claimed_first() {
    let (mut stream, ann, bob) = with_group();
    stream.log_mut().delete(id(2, 0));
    let (log, groups) = stream.split_mut();
    let group = groups.get_mut(b"g").unwrap();
    let claim = Claim { min_idle: 50, ..CLAIM };
    assert!(group.has_idle(log, 150, 50) && !group.has_idle(log, 149, 50));
    group.redeliver(id(1, 0), 140);
    group.redeliver(id(4, 0), 90);
    group.redeliver(id(3, 0), 160);
    let before = |time, count| Pending { delivery_time: time, delivery_count: count, consumer: ann };
    // 4-0 comes first, 2-0 is gone, and 3-0 has not been idle for long enough.
    let mut seen = Vec::new();
    let mut take = |id: StreamId, pending: &Pending| {
        seen.push((id, *pending));
        true
    };
    let done = group.claim_idle(log, bob, 1, &claim, &mut take);
    assert_eq!((done.claimed, done.gone), (vec![id(4, 0)], vec![]));
    assert_eq!(group.next_idle(50), 150, "2-0, delivered at 100, is left");
    // None is claimed that is refused.
    let refused = group.claim_idle(log, bob, 9, &claim, |_, _| false);
    assert_eq!((refused.claimed, refused.gone), (vec![], vec![id(2, 0)]));
    assert_eq!(group.next_idle(50), 190, "1-0, delivered at 140, is left");
    let done = group.claim_idle(log, bob, 9, &claim, &mut take);
    assert_eq!((done.claimed, done.gone), (vec![id(1, 0)], vec![]));
    assert_eq!(group.pending(id(1, 0)).map(|pending| pending.delivery_count), Some(3));
    assert_eq!(group.consumer(bob).map(|bob| (bob.active_time, bob.pending_len())), Some((200, 2)));
    // Now 3-0 is next, and only then those of bob.
    assert_eq!(group.next_idle(50), 210);
    assert!(!group.has_idle(log, 209, 50) && group.has_idle(log, 210, 50));
    let early = Claim { now: 209, ..claim };
    assert_eq!(group.claim_idle(log, bob, 9, &early, &mut take), IdleClaimed::default());
    let done = group.claim_idle(log, bob, 9, &Claim { now: 210, delivery_time: 210, ..claim }, &mut take);
    assert_eq!(done.claimed, [id(3, 0)]);
    assert_eq!(seen, [(id(4, 0), before(90, 2)), (id(1, 0), before(140, 2)), (id(3, 0), before(160, 2))]);
    assert_eq!(group.next_idle(50), 250);
    check_owners(group);
    // An entry claimed with an older time counts from that time.
    group.claim(log, id(3, 0), ann, &Claim { delivery_time: 20, ..CLAIM });
    assert_eq!(group.next_idle(50), 70);
    for ms in [1, 3, 4] {
        group.acknowledge(id(ms, 0));
    }
    assert_eq!((group.next_idle(0), group.has_idle(log, i64::MAX, 0)), (i64::MAX, false));
}

#[test]
fn acknowledged_entries_are_trimmed() {
    let trim = |keep, limit| {
        let (mut stream, ..) = with_group();
        let (_, groups) = stream.split_mut();
        let group = groups.get_mut(b"g").unwrap();
        assert!([1, 3].iter().all(|ms| group.acknowledge(id(*ms, 0)).is_some()));
        let removed = stream.trim_acknowledged(keep, limit);
        let left: Vec<u64> =
            stream.log().range(StreamId::MIN, StreamId::MAX).map(|entry| entry.id.ms).collect();
        assert_eq!(removed.len() + left.len(), 6);
        (removed, left, stream.log().first_id().ms)
    };
    // 2-0 and 4-0 are pending, 5-0 and 6-0 not received.
    assert_eq!(trim(Trim::MaxLen(0), 0), (vec![id(1, 0), id(3, 0)], vec![2, 4, 5, 6], 2));
    assert_eq!(trim(Trim::MaxLen(5), 0), (vec![id(1, 0)], vec![2, 3, 4, 5, 6], 2));
    assert_eq!(trim(Trim::MaxLen(0), 2).0, [id(1, 0)]);
    assert_eq!(trim(Trim::MinId(id(3, 0)), 0).0, [id(1, 0)]);
    assert_eq!(trim(Trim::MinId(id(1, 0)), 0), (vec![], vec![1, 2, 3, 4, 5, 6], 1));
}

#[test]
fn lag_follows_the_rules_of_redis() {
    let (mut stream, ..) = with_group();
    let lag = |stream: &Stream| stream.groups().get(b"g").unwrap().lag(stream.log());
    assert_eq!(stream.groups().get(b"g").unwrap().entries_read, Some(4));
    assert_eq!(lag(&stream), Some(2));
    stream.log_mut().delete(id(1, 0));
    assert_eq!(lag(&stream), Some(2), "a deletion behind the group does not matter");
    stream.log_mut().delete(id(5, 0));
    assert_eq!(lag(&stream), None, "a deletion ahead of the group makes the lag unknown");
    let advance = |stream: &mut Stream, to| {
        let (log, groups) = stream.split_mut();
        groups.get_mut(b"g").unwrap().advance(log, to);
        groups.get(b"g").unwrap().entries_read
    };
    assert_eq!(advance(&mut stream, id(6, 0)), Some(6), "the count is known again at the end");
    assert_eq!(lag(&stream), Some(0));
    stream.log_mut().trim(Trim::MaxLen(0), false, 0);
    assert_eq!(lag(&stream), Some(0));
    let log = stream.log();
    assert_eq!((log.entries_up_to(id(3, 0)), log.entries_up_to(id(7, 0))), (Some(6), None));
    assert_eq!(Group::default().lag(&Log::default()), Some(0));
}

/// An `entries_read` that was set ahead of the stream has no effect before the first delivery. The
/// expected values are from Redis 8.0.
#[test]
fn lag_by_the_rules_of_redis_8() {
    let mut stream = Stream::default();
    for number in 1..=3 {
        stream.log_mut().append(id(number, 1), &[(b"a", b"1")], &LIMITS).expect("it fits");
    }
    let lags = |stream: &Stream| {
        [(0, 0), (1, 1), (2, 1)].map(|(ms, seq)| Group::new(id(ms, seq), Some(9)).lag(stream.log()))
    };
    assert_eq!(lags(&stream), [Some(3), Some(-6), Some(-6)]);
    stream.log_mut().delete(id(2, 1));
    assert_eq!(lags(&stream), [None; 3]);
    stream.log_mut().delete(id(1, 1));
    assert_eq!(lags(&stream), [Some(1); 3]);
    stream.log_mut().delete(id(3, 1));
    assert_eq!(lags(&stream), [Some(0); 3]);
    assert_eq!(Group::default().lag(&Log::default()), Some(0));
}

#[test]
fn groups_load_in_the_order_of_rdb_files() {
    let mut group = Group::new(id(9, 0), None);
    assert!(group.load_pending(id(1, 0), 10, 3) && group.load_pending(id(2, 0), 20, 1));
    assert!(!group.load_pending(id(2, 0), 20, 1));
    let ann = group.create_consumer(b"ann", 5).unwrap();
    assert!(
        group.load_owner(id(1, 0), ann)
            && !group.load_owner(id(1, 0), ann)
            && !group.load_owner(id(3, 0), ann)
    );
    assert!(!group.end_load(0), "2-0 has no consumer");
    assert!(group.load_owner(id(2, 0), ann) && group.end_load(0));
    check_owners(&group);
}

#[test]
fn a_full_block_has_no_spare_memory() {
    let mut stream = Stream::new();
    (0..1000)
        .for_each(|seq| add(&mut stream, id(1, seq + 1), &[("field", "value"), ("n", "12345")], &LIMITS));
    for (_, list) in stream.log().blocks().take(9) {
        assert!(list.memory_bytes() < list.byte_len() + list.byte_len() / 4 + 16);
    }
}
