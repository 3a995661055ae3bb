// SPDX-License-Identifier: BSD-3-Clause
//! What removed numbers leave while a region is away: nothing of those that the other regions
//! have incremented. And how long an increment takes.

use braid_active::amount::Amount;
use braid_active::effect::Unit;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::{Applied, Bytes, Name, Region, Replica, Rules, Stamp, Transaction};

const NOW: u64 = 1_800_000_000_000;

fn region(number: u8) -> Region {
    Region::new(number).expect("a region")
}

fn settings(number: u8) -> Settings {
    Settings { region: region(number), members: 0b111, ahead_ms_max: 60_000, rules: Rules::default() }
}

fn replica(number: u8) -> Replica {
    let mut replica = Replica::new(settings(number), State::default());
    replica.raise_ceiling(Stamp::at(NOW + 1_000_000, replica.region()));
    replica
}

fn name(number: usize) -> Name {
    format!("rate:{number}").as_bytes().into()
}

fn does(replica: &mut Replica, now_ms: u64, body: impl FnOnce(&mut Transaction)) -> Unit {
    replica.execute(now_ms, body).expect("nothing is refused").expect("something changes")
}

fn add(transaction: &mut Transaction, name: &Name) {
    let by = Amount::of_integer(1);
    assert!(transaction.increment(0, name, by));
    assert!(transaction.hash_increment(0, &Name::from(&b"hash"[..]), Bytes::from(&**name), by));
    assert!(transaction.sorted_set_increment(0, &Name::from(&b"board"[..]), Bytes::from(&**name), by));
}

fn remove(transaction: &mut Transaction, name: &Name) {
    transaction.remove(0, name);
    transaction.hash_remove(0, &Name::from(&b"hash"[..]), Bytes::from(&**name));
    transaction.sorted_set_remove(0, &Name::from(&b"board"[..]), Bytes::from(&**name));
}

fn apply(replica: &mut Replica, unit: &Unit) {
    assert_eq!(replica.apply(NOW + 1000, unit), Ok(Applied::Now));
}

fn is_bare(replica: &Replica) -> bool {
    replica.tombstones() == 0 && replica.state().names().next().is_none()
}

#[test]
fn a_removal_of_the_regions_own_increments_leaves_nothing() {
    let (mut one, mut two) = (replica(0), replica(1));
    for number in 0..50 {
        let added = does(&mut one, NOW, |transaction| add(transaction, &name(number)));
        let removed = does(&mut one, NOW, |transaction| remove(transaction, &name(number)));
        apply(&mut two, &added);
        apply(&mut two, &removed);
        assert!(is_bare(&one) && is_bare(&two));
    }
    // Nor does a flush.
    let added = does(&mut one, NOW, |transaction| add(transaction, &name(1)));
    let flushed = does(&mut one, NOW, |transaction| transaction.flush(None));
    apply(&mut two, &added);
    apply(&mut two, &flushed);
    assert!(is_bare(&one) && is_bare(&two));
}

#[test]
fn a_region_that_is_away_holds_back_its_own_increments_only() {
    let (mut one, mut two) = (replica(0), replica(1));
    // Region 2 has incremented this one, and is away from now on.
    let mut three = replica(2);
    let old = does(&mut three, NOW, |transaction| {
        assert!(transaction.increment(0, &name(99), Amount::of_integer(1)))
    });
    apply(&mut one, &old);
    apply(&mut two, &old);
    for number in 0..50 {
        let of_one = does(&mut one, NOW, |transaction| add(transaction, &name(number)));
        apply(&mut two, &of_one);
        let of_two = does(&mut two, NOW, |transaction| add(transaction, &name(number)));
        apply(&mut one, &of_two);
        let removed = does(&mut two, NOW, |transaction| remove(transaction, &name(number)));
        apply(&mut one, &removed);
    }
    let removed = does(&mut one, NOW, |transaction| transaction.remove(0, &name(99)));
    apply(&mut two, &removed);
    assert!(two.tombstones() > 50, "region 0 may have incremented them since");
    // The two acknowledge what they have.
    let (of_one, of_two) = (one.vector().clone(), two.vector().clone());
    one.acknowledge(region(1), of_two);
    two.acknowledge(region(0), of_one);
    assert_eq!((one.tombstones(), two.tombstones()), (1, 1), "only what region 2 has incremented is left");
    // A copy of the region that was away brings nothing back, and vice versa.
    let copy = three.state().clone();
    one.merge(NOW, &copy).expect("it merges");
    three.merge(NOW, one.state()).expect("it merges");
    assert_eq!((one.views().count(), three.views().count()), (0, 0));
}

/// After a crash a region's increments may come back to it, so tombstones of its earlier runs
/// wait for everyone.
#[test]
fn increments_of_an_earlier_run_leave_a_tombstone() {
    let (mut one, mut two) = (replica(0), replica(1));
    let first = does(&mut one, NOW, |transaction| add(transaction, &name(0)));
    apply(&mut two, &first);
    let file = one.state().clone();
    let lost = does(&mut one, NOW, |transaction| add(transaction, &name(0)));
    apply(&mut two, &lost);
    let last = Stamp::at(NOW + 500, region(0));
    let ceiling = ceiling_after(last, region(0), NOW, 60_000);
    let (mut one, began) = Replica::restart(settings(0), file, last, ceiling, NOW).expect("it starts");
    let removed = does(&mut one, NOW + 1000, |transaction| remove(transaction, &name(0)));
    assert_eq!(one.tombstones(), 3);
    // A copy of the other server, which has the lost increment and not the removal.
    one.merge(NOW + 1000, two.state()).expect("it merges");
    for unit in [&began.expect("a unit"), &removed] {
        apply(&mut two, unit);
    }
    assert_eq!(one.digest(), two.digest());
    let names = one.views().count();
    assert_eq!(names, 3, "the increment that the removal had not seen counts");
}

/// An increment takes as long in a collection of many counters as in one of few. It visited them
/// all.
#[test]
fn increments_do_not_visit_all_counters() {
    let time = |count: usize| {
        let mut replica = replica(0);
        for number in 0..count {
            does(&mut replica, NOW, |transaction| add(transaction, &name(number)));
        }
        let least = (0..20).map(|round| {
            let start = std::time::Instant::now();
            for number in 0..50 {
                does(&mut replica, NOW, |transaction| add(transaction, &name((round * 50 + number) % count)));
            }
            start.elapsed()
        });
        least.min().expect("a time")
    };
    let (few, many) = (time(100), time(10_000));
    assert!(many < few * 8, "{few:?} with 100 counters, {many:?} with 10,000");
}
