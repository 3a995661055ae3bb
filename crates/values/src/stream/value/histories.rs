// SPDX-License-Identifier: BSD-3-Clause
//! Random histories of a stream with groups: what its counters say is compared with what is there.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add(u64),
    Delete(usize),
    Trim(Trim, bool),
    TrimAcknowledged(Trim),
    Read(usize, usize),
    Acknowledge(usize, usize),
    SetId(usize, u64),
    SkipTo(usize, u64),
    Load,
}

const NAMES: [&[u8]; 2] = [b"g", b"h"];
const LIMITS: BlockLimits = BlockLimits { bytes_max: 4096, entries_max: 4 };

fn step() -> impl Strategy<Value = Step> {
    let keep = prop_oneof![
        (0u64..8).prop_map(Trim::MaxLen),
        (1u64..60).prop_map(|ms| Trim::MinId(StreamId::new(ms, 0))),
    ];
    let group = 0usize..NAMES.len();
    prop_oneof![
        8 => (1u64..3).prop_map(Step::Add),
        4 => (0usize..12).prop_map(Step::Delete),
        2 => (keep.clone(), any::<bool>()).prop_map(|(keep, whole)| Step::Trim(keep, whole)),
        3 => keep.prop_map(Step::TrimAcknowledged),
        6 => (group.clone(), 1usize..5).prop_map(|(group, most)| Step::Read(group, most)),
        4 => (group.clone(), 0usize..8).prop_map(|(group, at)| Step::Acknowledge(group, at)),
        1 => (group.clone(), 0u64..60).prop_map(|(group, ms)| Step::SetId(group, ms)),
        1 => (group, 0u64..60).prop_map(|(group, ms)| Step::SkipTo(group, ms)),
        1 => Just(Step::Load),
    ]
}

fn apply(stream: &mut Stream, step: &Step) {
    let last = stream.log().last_id();
    let (log, groups) = stream.split_mut();
    match step {
        Step::Add(by) => {
            let id = StreamId::new(last.ms + by, 0);
            assert_eq!(stream.log_mut().append(id, &[(b"f", b"v")], &LIMITS), Ok(()));
        }
        Step::Delete(at) => {
            let id = log.range(StreamId::MIN, StreamId::MAX).nth(*at).map(|entry| entry.id);
            let before = log.max_deleted_id();
            if let Some(id) = id {
                assert!(stream.log_mut().delete(id));
                assert_eq!(stream.log().max_deleted_id(), before.max(id));
            }
        }
        Step::Trim(keep, whole) => {
            let before = log.max_deleted_id();
            stream.log_mut().trim(*keep, *whole, 0);
            assert_eq!(stream.log().max_deleted_id(), before);
        }
        Step::TrimAcknowledged(keep) => {
            let (len, before) = (log.len(), log.max_deleted_id());
            let removed = stream.trim_acknowledged(*keep, 0);
            assert!(removed.iter().all(|id| stream.is_acknowledged(*id) && !stream.log().contains(*id)));
            assert_eq!(len - removed.len() as u64, stream.log().len());
            assert_eq!(stream.log().max_deleted_id(), before, "a trim is no deletion");
        }
        Step::Read(name, most) => {
            let Some(group) = groups.get_mut(NAMES[*name]) else { return };
            let consumer = group.find_consumer(b"c").or_else(|| group.create_consumer(b"c", 0)).unwrap();
            let start = group.last_id.next().unwrap();
            for entry in log.range(start, StreamId::MAX).take(*most) {
                assert!(group.advance(log, entry.id));
                group.deliver(entry.id, consumer, 1);
            }
        }
        Step::Acknowledge(name, at) => {
            let Some(group) = groups.get_mut(NAMES[*name]) else { return };
            let id = group.pending_range(StreamId::MIN..=StreamId::MAX).nth(*at).map(|(id, _)| id);
            assert!(id.is_none_or(|id| group.acknowledge(id).is_some()));
        }
        Step::SetId(name, ms) => {
            let Some(group) = groups.get_mut(NAMES[*name]) else { return };
            (group.last_id, group.entries_read) = (StreamId::new(*ms, 0), None);
        }
        Step::SkipTo(name, ms) => {
            let Some(group) = groups.get_mut(NAMES[*name]) else { return };
            let to = StreamId::new(*ms, 0);
            let is_forward = to > group.last_id;
            assert_eq!(group.skip_to(log, to), is_forward);
        }
        Step::Load => {
            let mut copy = Log::default();
            log.blocks().for_each(|(first, list)| copy.push_block(first, list.bytes()).unwrap());
            copy.set_last_id(log.last_id());
            copy.set_entries_added(log.entries_added());
            copy.set_max_deleted_id(log.max_deleted_id());
            *stream.log_mut() = copy;
        }
    }
}

fn check(stream: &Stream, added: u64) {
    let log = stream.log();
    assert_eq!(log.entries_added(), added);
    assert_eq!(log.range(StreamId::MIN, StreamId::MAX).count() as u64, log.len());
    assert!(log.blocks().all(|(_, list)| block::Header::live(list) > 0), "a block without live entries");
    for (_, group) in stream.groups().iter() {
        let unread = group.last_id.next().map_or(0, |start| log.range(start, StreamId::MAX).count() as i64);
        if let Some(lag) = group.lag(log) {
            assert_eq!(lag, unread, "{:?} of {:?}", group.last_id, group.entries_read);
        }
    }
}

const CASES: u32 = if cfg!(miri) { 2 } else { 400 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counters_say_what_is_there(
        steps in proptest::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 80 }),
        at in 0usize..20,
    ) {
        let (mut stream, mut added) = (Stream::new(), 0);
        for (number, step) in steps.iter().enumerate() {
            // One group from the beginning, one that comes later; either knows nothing.
            if number == 0 || number == at {
                let last = stream.log().last_id();
                let from = if at.is_multiple_of(2) { StreamId::MIN } else { last };
                stream.split_mut().1.create(NAMES[usize::from(number == at)], Group::new(from, None));
            }
            apply(&mut stream, step);
            added += u64::from(matches!(step, Step::Add(_)));
            check(&stream, added);
        }
    }
}

fn filled(count: u64) -> Stream {
    let mut stream = Stream::new();
    for ms in 1..=count {
        stream.log_mut().append(StreamId::new(ms, 0), &[(b"f", b"v")], &LIMITS).unwrap();
    }
    stream.split_mut().1.create(b"g", Group::new(StreamId::MIN, None));
    stream
}

fn read(stream: &mut Stream, most: usize) -> (Option<u64>, Option<i64>) {
    apply(stream, &Step::Read(0, most));
    progress(stream)
}

fn progress(stream: &Stream) -> (Option<u64>, Option<i64>) {
    let group = stream.groups().get(b"g").unwrap();
    (group.entries_read, group.lag(stream.log()))
}

/// The values are those of Redis 8.0.6 and 8.2.3.
#[test]
fn a_group_that_a_trim_overtook_counts_anew() {
    let mut stream = filled(5);
    assert_eq!(read(&mut stream, 1), (Some(1), Some(4)));
    stream.log_mut().trim(Trim::MaxLen(2), false, 0);
    assert_eq!(progress(&stream), (Some(1), Some(2)));
    assert_eq!(read(&mut stream, 1), (Some(4), Some(1)));
    stream.log_mut().trim(Trim::MaxLen(0), false, 0);
    assert_eq!(progress(&stream), (Some(4), Some(0)), "nothing is left to read");
    let mut stream = filled(2);
    read(&mut stream, 1);
    for ms in [1, 2] {
        stream.log_mut().delete(StreamId::new(ms, 0));
    }
    assert_eq!(progress(&stream), (Some(1), Some(0)));
    for ms in [3, 4] {
        stream.log_mut().append(StreamId::new(ms, 0), &[(b"f", b"v")], &LIMITS).unwrap();
    }
    assert_eq!(progress(&stream), (Some(1), Some(2)));
    assert_eq!(read(&mut stream, 1), (Some(3), Some(1)));
}

#[test]
fn acknowledged_entries_trimmed_from_the_middle_leave_the_lag_known() {
    let mut stream = filled(6);
    assert_eq!(read(&mut stream, 3), (Some(3), Some(3)));
    for ms in [2, 3] {
        stream.split_mut().1.get_mut(b"g").unwrap().acknowledge(StreamId::new(ms, 0));
    }
    assert_eq!(stream.trim_acknowledged(Trim::MaxLen(4), 0).len(), 2);
    assert_eq!((stream.log().max_deleted_id(), progress(&stream)), (StreamId::MIN, (Some(3), Some(3))));
}

#[test]
fn a_group_moved_forward_by_a_claim_counts_what_it_passed() {
    let mut stream = filled(6);
    read(&mut stream, 1);
    let mut skip = |ms| {
        let (log, groups) = stream.split_mut();
        let moved = groups.get_mut(b"g").unwrap().skip_to(log, StreamId::new(ms, 5));
        (moved, progress(&stream))
    };
    assert_eq!(skip(1), (true, (Some(1), Some(5))), "no entry passed");
    assert_eq!(skip(2), (true, (Some(2), Some(4))), "one entry passed");
    assert_eq!(skip(2), (false, (Some(2), Some(4))));
    assert_eq!(skip(4), (true, (None, None)), "two entries passed: unknown, rather than wrong");
}

#[test]
fn blocks_without_live_entries_are_neither_kept_nor_loaded() {
    let mut stream = filled(3);
    let dead = {
        let (_, list) = stream.log().blocks().next().unwrap();
        let mut list = list.clone();
        let header = block::Header::read(&list).unwrap();
        let mut at = header.entries_at;
        while at < list.end() {
            let end = block::entry_at(&list, StreamId::new(1, 0), &header, at).unwrap().end;
            block::mark_deleted(&mut list, at);
            at = end;
        }
        block::change_counts(&mut list, -3, 3);
        list
    };
    // Its last entry was deleted, the others are trimmed away.
    stream.log_mut().delete(StreamId::new(3, 0));
    assert_eq!(stream.log_mut().trim(Trim::MinId(StreamId::new(3, 0)), false, 0), 2);
    assert_eq!((stream.log().len(), stream.log().block_count()), (0, 0));
    // As other servers write it.
    let mut loaded = Log::default();
    loaded.push_block(StreamId::new(1, 0), dead.bytes()).unwrap();
    assert_eq!((loaded.len(), loaded.block_count(), loaded.last_id()), (0, 0, StreamId::new(3, 0)));
    let after = super::block::create(StreamId::new(3, 0), &[(b"f", b"v")]);
    assert_eq!(loaded.push_block(StreamId::new(3, 0), after.bytes()), Err(InvalidBlock), "out of order");
    let after = super::block::create(StreamId::new(3, 1), &[(b"f", b"v")]);
    loaded.push_block(StreamId::new(3, 1), after.bytes()).unwrap();
    assert_eq!((loaded.len(), loaded.first_id()), (1, StreamId::new(3, 1)));
}
