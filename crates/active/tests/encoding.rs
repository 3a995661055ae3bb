// SPDX-License-Identifier: BSD-3-Clause
//! Decoding accepts any bytes: invalid units are refused with a reason, nothing panics, and a
//! valid unit survives the round trip.

use braid_active::amount::Amount;
use braid_active::change::Kind;
use braid_active::document::{OBJECT, push_member};
use braid_active::effect::{SeenLess, Unit};
use braid_active::position::Side;
use braid_active::replica::{Settings, State};
use braid_active::stream::Id;
use braid_active::vector::Run;
use braid_active::wire::{DecodeError, VERSION, VERSION_MAX, decode, encode};
use braid_active::{Bytes, Name, Region, Replica, Rules, Stamp, Vector};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

/// A unit with an effect of each type.
fn unit() -> Unit {
    let region = Region::new(7).expect("a region");
    let settings = Settings { region, members: 0, ahead_ms_max: 0, rules: Rules::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(Stamp::at(NOW + 10_000, region));
    let name = |text: &str| -> Name { text.as_bytes().into() };
    let unit = replica.execute(NOW, |transaction| {
        transaction.set(0, &name("s"), bytes("1"), Some(NOW + 5));
        assert!(transaction.increment(0, &name("s"), Amount::of_integer(-3)));
        transaction.hash_set(1, &name("h"), bytes("f"), bytes("v"), None);
        transaction.set_add(1, &name("a"), bytes("m"));
        transaction.sorted_set_add(2, &name("z"), bytes("m"), 2.5);
        assert!(transaction.sorted_set_increment(2, &name("z"), bytes("m"), Amount::of_integer(1)));
        transaction.list_push(0, &name("l"), Side::Left, vec![bytes("x"), bytes("y")]);
        transaction.list_insert(0, &name("l"), 1, bytes("i"));
        transaction.list_remove(0, &name("l"), 0);
        let id = transaction.stream_add(0, &name("x"), None, vec![bytes("f"), bytes("v")].into());
        let id = id.expect("an ID");
        transaction.group_create(0, &name("x"), &bytes("g"), Id::default());
        transaction.group_deliver(0, &name("x"), &bytes("g"), &bytes("c"), &[(id, 1)]);
        transaction.group_acknowledge(0, &name("x"), &bytes("g"), id);
        transaction.group_set_id(0, &name("x"), &bytes("g"), id);
        transaction.group_remove_consumer(0, &name("x"), &bytes("g"), &bytes("c"));
        transaction.group_destroy(0, &name("x"), &bytes("g"));
        let mut member = Vec::new();
        push_member(&mut member, b"n");
        let (root, member) = ((bytes(""), OBJECT.into()), (Bytes::from(&member[..]), bytes("1")));
        transaction.bring_parts(0, &name("j"), Kind::Json, &[root, member.clone()]);
        assert!(transaction.part_increment(0, &name("j"), &member.0, 2));
        transaction.part(0, &name("j"), Kind::Json, member.0, None);
        transaction.part(0, &name("v"), Kind::VectorSet, bytes("part"), Some(bytes("value")));
        transaction.count(0, &name("p"), vec![(16_383, 51)]);
        transaction.flush(Some(1));
        transaction.remove(2, &name("z"));
        transaction.flush(None);
    });
    unit.expect("nothing is refused").expect("the unit has effects")
}

/// The same, made while the region was merging a full copy.
fn unit_beside_a_copy() -> Unit {
    let [one, two] = [1, 2].map(|number| Region::new(number).expect("a region"));
    let run = |region, ms| Run { start: Stamp::start(region), last: Stamp::at(NOW - ms, region) };
    let (mut seen, mut less) = (Vector::default(), Vector::default());
    [run(one, 5), run(two, 7)].into_iter().for_each(|run| seen.add(run));
    less.add(run(one, 9));
    let seen_less = Some(Box::new(SeenLess { seen: less, effects: vec![0, 2, 3] }));
    Unit { seen, seen_less, ..unit() }
}

#[test]
fn effects_that_had_seen_less_are_some_and_in_order() {
    let unit = unit_beside_a_copy();
    assert_eq!(decode(&encode(&unit)), Ok(unit.clone()));
    let less = |change: &dyn Fn(&mut SeenLess)| {
        let mut unit = unit.clone();
        change(unit.seen_less.as_mut().expect("some have"));
        decode(&encode(&unit))
    };
    let all: Vec<u32> = (0..unit.effects.len() as u32).collect();
    for effects in [vec![], all, vec![2, 0], vec![3, 3], vec![unit.effects.len() as u32]] {
        assert!(matches!(less(&|less| less.effects = effects.clone()), Err(DecodeError::Damaged(_))));
    }
    let of_all = less(&|less| less.seen = unit.seen.clone());
    assert_eq!(of_all, Err(DecodeError::Damaged("effects that had not seen less")));
}

#[test]
fn decoding_an_invalid_unit_returns_the_reason() {
    for unit in [unit(), unit_beside_a_copy()] {
        check_invalid(&unit);
    }
}

fn check_invalid(unit: &Unit) {
    let good = encode(unit);
    assert_eq!(decode(&good).as_ref(), Ok(unit));
    for len in 0..good.len() {
        let error = decode(&good[..len]).expect_err("a truncated unit is invalid");
        assert!(matches!(error, DecodeError::Short | DecodeError::Damaged(_)), "{len}: {error}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(decode(&longer), Err(DecodeError::Trailing(1)));
    let mut newer = good.clone();
    newer[0] = VERSION_MAX + 1;
    assert_eq!(decode(&newer), Err(DecodeError::Version(VERSION_MAX + 1)));
    let mut stamp = good;
    stamp[8] |= 0x80;
    assert_eq!(decode(&stamp), Err(DecodeError::Damaged("a stamp out of range")));
}

/// Before it crashed, a server may have given the very stamp that it had recorded as its ceiling.
#[test]
fn a_run_may_start_with_the_last_stamp_of_another() {
    let region = Region::new(7).expect("a region");
    let (first, ceiling) = (Stamp::at(NOW, region), Stamp::at(NOW + 10, region));
    let mut unit = unit();
    unit.seen = Vector::default();
    unit.seen.add(Run { start: first, last: ceiling });
    unit.seen.add(Run { start: ceiling, last: ceiling.plus(1) });
    assert_eq!(decode(&encode(&unit)), Ok(unit));
}

#[test]
fn a_small_effect_is_small() {
    let region = Region::new(0).expect("a region");
    let settings = Settings { region, members: 0, ahead_ms_max: 0, rules: Rules::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(Stamp::at(NOW + 100_000, region));
    let name: Name = b"key:12345678".as_slice().into();
    let mut unit = None;
    for now_ms in [NOW, NOW + 3] {
        unit = replica
            .execute(now_ms, |transaction| transaction.set(0, &name, [b'v'; 32], None))
            .expect("nothing is refused");
    }
    // 44 bytes are the name and the value.
    let len = encode(&unit.expect("a unit")).len();
    assert!(len <= 44 + 24, "{len} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        let _ = decode(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = VERSION_MAX;
        }
        let _ = decode(&bytes);
    }

    /// However a valid unit is damaged, one that decodes encodes to the same bytes, and a replica
    /// accepts it.
    #[test]
    fn damage_does_no_harm(is_beside in any::<bool>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = encode(&if is_beside { unit_beside_a_copy() } else { unit() });
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(unit) = decode(&bytes) {
            prop_assert_eq!(encode(&unit), bytes);
            let region = Region::new(9).expect("a region");
            let settings = Settings { region, members: 0, ahead_ms_max: u64::MAX, rules: Rules::default() };
            let mut replica = Replica::new(settings, State::default());
            let _ = replica.apply(NOW, &unit);
            let _ = replica.digest();
            let other = replica.state().clone();
            let _ = replica.merge(NOW, &other);
        }
    }
}
