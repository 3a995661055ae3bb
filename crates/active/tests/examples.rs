// SPDX-License-Identifier: BSD-3-Clause
//! An example for the rule of each type: two or three regions write concurrently, then exchange
//! their units, in either order and by full copies; all must show the same.

use braid_active::amount::Amount;
use braid_active::cell::Time;
use braid_active::effect::Unit;
use braid_active::position::Side;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::stream::Id;
use braid_active::view::View;
use braid_active::wire::{decode, encode};
use braid_active::{Applied, Bytes, Name, Refusal, Region, Replica, Rules, Stamp, Transaction};

const NOW: u64 = 1_800_000_000_000;

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

fn name() -> Name {
    b"key".as_slice().into()
}

fn settings(number: u8) -> Settings {
    let region = Region::new(number).expect("a region");
    Settings { region, members: 0b111, ahead_ms_max: 60_000, rules: Rules::default() }
}

fn replica(number: u8) -> Replica {
    let mut replica = Replica::new(settings(number), State::default());
    replica.raise_ceiling(Stamp::at(NOW + 1_000_000, replica.region()));
    replica
}

/// Three regions, and the units that have not been exchanged.
struct Regions {
    replicas: Vec<Replica>,
    units: Vec<Unit>,
    now_ms: u64,
}

impl Regions {
    fn new() -> Regions {
        Regions { replicas: (0..3).map(replica).collect(), units: Vec::new(), now_ms: NOW }
    }

    fn does(&mut self, region: usize, body: impl FnOnce(&mut Transaction, &Name)) {
        self.now_ms += 1;
        let unit = self.replicas[region].execute(self.now_ms, |transaction| body(transaction, &name()));
        self.units.extend(unit.expect("nothing is refused"));
    }

    /// All regions receive everything: units forwards, backwards, and full copies; the results
    /// must agree.
    fn exchange(&mut self) {
        let copies: Vec<State> = self.replicas.iter().map(|replica| replica.state().clone()).collect();
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            let mut by_copies = replica.clone();
            copies.iter().for_each(|copy| by_copies.merge(self.now_ms, copy).expect("a copy merges"));
            let mut left: Vec<&Unit> = self.units.iter().collect();
            if index % 2 == 1 {
                left.reverse();
            }
            while !left.is_empty() {
                let count = left.len();
                left.retain(|unit| {
                    let applied = replica.apply(self.now_ms, unit).expect("nothing is refused");
                    matches!(applied, Applied::Early(_))
                });
                assert!(left.len() < count, "units wait for each other");
            }
            assert_eq!(
                by_copies.digest(),
                replica.digest(),
                "merging copies and applying units give different states"
            );
        }
        self.units.clear();
        let digests: Vec<u64> = self.replicas.iter().map(Replica::digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "regions differ");
    }

    fn view(&self) -> Option<View> {
        self.replicas[0].view(0, b"key")
    }

    fn shows(&self, text: &str) {
        assert_eq!(self.view(), Some(View::String(bytes(text))));
    }
}

#[test]
fn string_the_last_writer_wins() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set(0, key, bytes("one"), None));
    regions.does(1, |region, key| region.set(0, key, bytes("two"), None));
    regions.exchange();
    regions.shows("two");
    // Equal times: the greater region wins.
    regions.does(2, |region, key| region.set(0, key, bytes("three"), None));
    regions.now_ms -= 1;
    regions.does(1, |region, key| region.set(0, key, bytes("four"), None));
    regions.exchange();
    regions.shows("three");
}

#[test]
fn string_increments_add_up_and_set_overrides_those_it_observed() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set(0, key, bytes("10"), None));
    regions.exchange();
    for region in 0..3 {
        regions.does(region, |region, key| assert!(region.increment(0, key, Amount::of_integer(5))));
    }
    regions.exchange();
    regions.shows("25");
    regions.does(0, |region, key| region.set(0, key, bytes("100"), None));
    let tenth = Amount::parse(b"0.1").expect("an amount");
    regions.does(1, |region, key| assert!(region.increment(0, key, tenth)));
    regions.does(1, |region, key| assert!(region.increment(0, key, tenth.plus(tenth))));
    regions.exchange();
    regions.shows("100.3");
    // DEL against an increment that it had not seen.
    regions.does(2, |region, key| region.remove(0, key));
    regions.does(1, |region, key| assert!(region.increment(0, key, Amount::of_integer(7))));
    regions.exchange();
    regions.shows("7");
}

#[test]
fn hash_a_field_set_meanwhile_survives_hdel() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| {
        region.hash_set(0, key, bytes("f"), bytes("1"), None);
        region.hash_set(0, key, bytes("n"), bytes("1"), None);
    });
    regions.exchange();
    regions.does(0, |region, key| region.hash_remove(0, key, bytes("f")));
    regions.does(1, |region, key| region.hash_set(0, key, bytes("f"), bytes("2"), None));
    regions.does(1, |region, key| assert!(region.hash_increment(0, key, bytes("n"), Amount::of_integer(2))));
    regions.does(2, |region, key| assert!(region.hash_increment(0, key, bytes("n"), Amount::of_integer(3))));
    regions.exchange();
    let fields = vec![(bytes("f"), bytes("2"), None), (bytes("n"), bytes("6"), None)];
    assert_eq!(regions.view(), Some(View::Hash(fields)));
    let (short, long) = (regions.now_ms + 1_000, regions.now_ms + 9_000);
    regions.does(0, |region, key| region.hash_live(0, key, bytes("f"), Time::At(long)));
    regions.does(1, |region, key| region.hash_live(0, key, bytes("f"), Time::At(short)));
    regions.does(2, |region, key| region.hash_remove(0, key, bytes("n")));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::Hash(vec![(bytes("f"), bytes("2"), Some(long))])));
}

#[test]
fn set_an_addition_wins_over_a_removal_that_had_not_seen_it() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set_add(0, key, bytes("m")));
    regions.exchange();
    regions.does(0, |region, key| region.set_remove(0, key, bytes("m")));
    regions.does(1, |region, key| region.set_add(0, key, bytes("m")));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::Set(vec![(bytes("m"), None)])));
    regions.does(2, |region, key| region.set_remove(0, key, bytes("m")));
    regions.exchange();
    assert_eq!(regions.view(), None);
}

#[test]
fn sorted_set_zrem_keeps_the_increment_that_it_had_not_seen() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.sorted_set_add(0, key, bytes("m"), 5.0));
    regions.exchange();
    let two = Amount::of_integer(2);
    regions.does(1, |region, key| assert!(region.sorted_set_increment(0, key, bytes("m"), two)));
    regions.does(2, |region, key| assert!(region.sorted_set_increment(0, key, bytes("m"), two)));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::SortedSet(vec![(bytes("m"), 9.0, None)])));
    regions.does(0, |region, key| region.sorted_set_remove(0, key, bytes("m")));
    regions.does(1, |region, key| assert!(region.sorted_set_increment(0, key, bytes("m"), two)));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::SortedSet(vec![(bytes("m"), 2.0, None)])));
    regions.does(0, |region, key| region.sorted_set_add(0, key, bytes("m"), 1.0));
    regions.does(1, |region, key| region.sorted_set_add(0, key, bytes("m"), 3.0));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::SortedSet(vec![(bytes("m"), 3.0, None)])));
}

fn list(regions: &Regions) -> String {
    match regions.view() {
        Some(View::List(values)) => values
            .iter()
            .map(|value| String::from_utf8_lossy(value).into_owned())
            .collect::<Vec<_>>()
            .join(" "),
        None => String::new(),
        other => panic!("{other:?} is not a list"),
    }
}

#[test]
fn list_pushes_stay_and_removals_affect_only_observed_elements() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.list_push(0, key, Side::Right, vec![bytes("a"), bytes("b")]));
    regions.exchange();
    regions.does(1, |region, key| region.list_push(0, key, Side::Right, vec![bytes("c"), bytes("d")]));
    regions.does(2, |region, key| region.list_push(0, key, Side::Right, vec![bytes("e")]));
    regions.does(0, |region, key| region.list_push(0, key, Side::Left, vec![bytes("f")]));
    regions.does(2, |region, key| region.list_insert(0, key, 1, bytes("x")));
    regions.exchange();
    assert_eq!(list(&regions), "f a x b c d e");
    // Two regions pop the same element; the third changes an element that is concurrently
    // removed.
    regions.does(0, |region, key| region.list_remove(0, key, 0));
    regions.does(1, |region, key| region.list_remove(0, key, 0));
    regions.does(2, |region, key| region.list_set(0, key, 3, bytes("B")));
    regions.does(1, |region, key| region.list_remove(0, key, 2));
    regions.exchange();
    assert_eq!(list(&regions), "a x B c d e");
}

#[test]
fn stream_ids_never_collide_and_a_destroyed_group_stays_destroyed() {
    let mut regions = Regions::new();
    let fields = || vec![bytes("f"), bytes("v")].into_boxed_slice();
    let group = bytes("group");
    regions.does(0, |region, key| {
        region.stream_add(0, key, None, fields());
        region.group_create(0, key, &group, Id::default());
    });
    regions.exchange();
    let first = match regions.view() {
        Some(View::Stream { last, .. }) => last,
        other => panic!("{other:?} is not a stream"),
    };
    regions.now_ms -= 1;
    regions.does(1, |region, key| assert!(region.stream_add(0, key, None, fields()).is_some()));
    regions.now_ms -= 1;
    regions.does(2, |region, key| assert!(region.stream_add(0, key, None, fields()).is_some()));
    regions.does(0, |region, key| region.group_destroy(0, key, &group));
    regions.does(1, |region, key| region.group_deliver(0, key, &group, &bytes("c"), &[(first, 1)]));
    regions.does(2, |region, key| region.stream_remove(0, key, first));
    regions.exchange();
    let Some(View::Stream { entries, groups, .. }) = regions.view() else { panic!("no stream") };
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].0.ms, entries[1].0.ms);
    assert!(groups.is_empty());
}

#[test]
fn stream_an_acknowledgement_removes_the_delivery_that_it_saw() {
    let mut regions = Regions::new();
    let (group, consumer) = (bytes("group"), bytes("c"));
    let mut id = Id::default();
    regions.does(0, |region, key| {
        id = region.stream_add(0, key, None, vec![bytes("f"), bytes("v")].into()).expect("an ID");
        region.group_create(0, key, &group, Id::default());
        region.group_deliver(0, key, &group, &consumer, &[(id, 1)]);
    });
    regions.exchange();
    regions.does(1, |region, key| region.group_acknowledge(0, key, &group, id));
    regions.exchange();
    let Some(View::Stream { groups, .. }) = regions.view() else { panic!("no stream") };
    assert_eq!((groups[0].1.delivered, groups[0].1.pending.len()), (id, 0));
}

#[test]
fn hyperloglog_del_removes_only_observed_registers() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.count(0, key, vec![(1, 5), (2, 3)]));
    regions.does(1, |region, key| region.count(0, key, vec![(2, 4), (3, 1)]));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(1, 5), (2, 4), (3, 1)])));
    regions.does(0, |region, key| region.remove(0, key));
    regions.does(1, |region, key| region.count(0, key, vec![(2, 2)]));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(2, 2)])));
}

#[test]
fn hyperloglogs_that_count_nothing_exist_everywhere() {
    let mut regions = Regions::new();
    let none = || Some(View::HyperLogLog(Vec::new()));
    let before = regions.replicas[0].digest();
    regions.does(0, |region, key| region.count(0, key, Vec::new()));
    assert_ne!(regions.replicas[0].digest(), before, "it is visible");
    regions.does(1, |region, key| region.count(0, key, Vec::new()));
    regions.exchange();
    assert_eq!(regions.view(), none());
    // A removal that has seen both.
    regions.does(2, |region, key| region.remove(0, key));
    regions.exchange();
    assert_eq!(regions.view(), None);
    // One that another region creates meanwhile stays.
    regions.does(0, |region, key| region.count(0, key, Vec::new()));
    regions.exchange();
    regions.does(0, |region, key| region.remove(0, key));
    regions.does(1, |region, key| region.count(0, key, vec![(7, 2)]));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(7, 2)])));
    regions.does(1, |region, key| region.remove(0, key));
    regions.exchange();
    assert_eq!(regions.view(), None);
    // Its creation is hidden once something is counted, and goes when all know both.
    regions.does(0, |region, key| region.count(0, key, Vec::new()));
    regions.does(1, |region, key| region.count(0, key, vec![(7, 2)]));
    regions.exchange();
    let replica = &mut regions.replicas[0];
    assert_eq!((replica.tombstones(), replica.has_forgotten_garbage()), (1, false));
    let vector = replica.vector().clone();
    for number in [1, 2] {
        replica.acknowledge(Region::new(number).expect("a region"), vector.clone());
    }
    assert_eq!((replica.tombstones(), replica.has_forgotten_garbage()), (0, false));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(7, 2)])));
    let unit = regions.replicas[0].execute(regions.now_ms, |region| region.count(0, &name(), Vec::new()));
    assert_eq!(unit, Ok(None), "it exists");
}

#[test]
fn hyperloglog_ranks_that_do_not_show_go_when_all_know_them() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.count(0, key, vec![(1, 5), (2, 3)]));
    regions.does(0, |region, key| region.count(0, key, vec![(1, 2), (2, 3)]));
    regions.exchange();
    let replica = &mut regions.replicas[0];
    assert_eq!((replica.tombstones(), replica.has_forgotten_garbage()), (1, false));
    let vector = replica.vector().clone();
    for number in [1, 2] {
        replica.acknowledge(Region::new(number).expect("a region"), vector.clone());
    }
    assert_eq!((replica.tombstones(), replica.has_forgotten_garbage()), (0, false));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(1, 5), (2, 3)])));
    // A region that still has the hidden ranks removes them with the key.
    regions.does(1, |region, key| region.remove(0, key));
    regions.does(2, |region, key| region.count(0, key, vec![(1, 1)]));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::HyperLogLog(vec![(1, 1)])));
}

#[test]
fn del_and_flush_remove_only_observed_values() {
    for is_flush in [false, true] {
        let mut regions = Regions::new();
        regions.does(0, |region, key| region.set_add(0, key, bytes("old")));
        regions.exchange();
        regions.does(0, |region, key| if is_flush { region.flush(None) } else { region.remove(0, key) });
        regions.does(1, |region, key| region.set_add(0, key, bytes("new")));
        regions.exchange();
        assert_eq!(regions.view(), Some(View::Set(vec![(bytes("new"), None)])));
    }
}

#[test]
fn expiry_the_longest_time_wins_and_persist_over_a_time() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set(0, key, bytes("v"), None));
    regions.exchange();
    let (short, long) = (regions.now_ms + 1_000, regions.now_ms + 9_000);
    regions.does(0, |region, key| region.live(0, key, Time::At(long)));
    regions.does(1, |region, key| region.live(0, key, Time::At(short)));
    regions.exchange();
    let time = |regions: &Regions| {
        let key = regions.replicas[2].key(0, b"key").expect("the key");
        key.time(&Rules::default()).map(|(_, time)| time)
    };
    assert_eq!(time(&regions), Some(long));
    // Every region hides the key; the region that gave the time removes it.
    regions.now_ms = long + 1;
    let end = |region: &mut Transaction, key: &Name| assert!(region.end(0, key, None));
    regions.does(1, end);
    assert!(regions.units.is_empty(), "a region other than the time's origin removed the key");
    assert_eq!((regions.replicas[1].view(0, b"key"), time(&regions)), (None, Some(long)));
    regions.does(0, end);
    regions.exchange();
    assert_eq!(regions.view(), None);
    assert!(
        regions.replicas.iter().all(|replica| replica.key(0, b"key").is_none_or(|key| key.value().is_none()))
    );
    regions.does(0, |region, key| region.set(0, key, bytes("v"), None));
    regions.exchange();
    regions.does(0, |region, key| region.live(0, key, Time::Never));
    regions.does(1, |region, key| region.live(0, key, Time::At(long + 5_000)));
    regions.exchange();
    assert_eq!(time(&regions), None);
}

#[test]
fn types_conflict_in_a_fixed_order() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set_add(0, key, bytes("m")));
    regions.does(1, |region, key| region.set(0, key, bytes("text"), None));
    regions.exchange();
    assert_eq!(regions.view(), Some(View::Set(vec![(bytes("m"), None)])));
    assert!(regions.replicas.iter().all(|replica| replica.type_conflicts() == 1));
    // The writing region has seen both values: the hidden one goes.
    regions.does(2, |region, key| region.set_add(0, key, bytes("n")));
    regions.does(2, |region, key| region.set_remove(0, key, bytes("m")));
    regions.does(2, |region, key| region.set_remove(0, key, bytes("n")));
    regions.exchange();
    assert_eq!(regions.view(), None);
}

#[test]
fn transaction_is_replicated_as_one_unit() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| {
        region.set(0, key, bytes("1"), None);
        region.set(1, key, bytes("2"), None);
    });
    assert_eq!(regions.units.len(), 1);
    assert_eq!(regions.units[0].effects.len(), 2);
    regions.exchange();
    assert_eq!(regions.replicas[2].view(1, b"key"), Some(View::String(bytes("2"))));
}

#[test]
fn garbage_goes_when_all_have_acknowledged() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set(0, key, bytes("one"), None));
    regions.does(1, |region, key| region.set(0, key, bytes("two"), None));
    regions.exchange();
    assert!(regions.replicas.iter().all(|replica| replica.tombstones() == 1));
    let vector = regions.replicas[0].vector().clone();
    let digest = regions.replicas[0].digest();
    let region = |number| Region::new(number).expect("a region");
    regions.replicas[0].acknowledge(region(1), vector.clone());
    assert_eq!(regions.replicas[0].tombstones(), 1);
    regions.replicas[0].acknowledge(region(2), vector.clone());
    assert_eq!(regions.replicas[0].tombstones(), 0);
    assert_eq!(regions.replicas[0].digest(), digest);
    // A removed region is not waited for.
    regions.replicas[1].acknowledge(region(0), vector);
    regions.replicas[1].remove_region(region(2));
    assert_eq!(regions.replicas[1].tombstones(), 0);
}

#[test]
fn refused_units_change_nothing() {
    let mut regions = Regions::new();
    regions.does(0, |region, key| region.set(0, key, bytes("v"), None));
    let unit = regions.units[0].clone();
    let mut other = replica(1);
    let early = other.apply(NOW - 100_000, &unit);
    assert!(matches!(early, Err(Refusal::TooFarAhead(by)) if by.ahead_ms == 100_001));
    // Another server that uses the same region number.
    let mut twin = replica(0);
    let own = Region::new(0).expect("a region");
    assert_eq!(twin.apply(NOW, &unit), Err(Refusal::OwnRegion(own)));
    assert_eq!((other.digest(), twin.digest()), (0, 0));
    assert_eq!(other.apply(NOW, &unit), Ok(Applied::Now));
    assert_eq!(other.apply(NOW, &unit), Ok(Applied::Known));
    // A third one, which contradicts the write that followed.
    regions.does(0, |region, key| region.set(0, key, bytes("w"), None));
    let next = &regions.units[1];
    assert_eq!(other.apply(NOW, next), Ok(Applied::Now));
    let stray = Unit { first: next.last().plus(3), previous: unit.last(), starts_run: true, ..unit };
    let before = other.digest();
    assert_eq!(other.apply(NOW, &stray), Err(Refusal::Contradiction(own)));
    assert_eq!(other.digest(), before);
    // Without a ceiling on disk nothing is written.
    let mut fresh = Replica::new(settings(2), State::default());
    let refused = fresh.execute(NOW, |transaction| transaction.set(0, &name(), bytes("v"), None));
    assert_eq!(refused, Err(Refusal::Ceiling));
    assert_eq!(fresh.digest(), 0);
}

/// Restored files of a backup are older than the state that others have seen of the server.
#[test]
fn restored_server_continues_with_later_stamps() {
    let write = |replica: &mut Replica, now_ms: u64, value: &str| {
        replica.raise_ceiling(Stamp::at(now_ms + 60_000, replica.region()));
        let unit = replica.execute(now_ms, |transaction| transaction.set(0, &name(), bytes(value), None));
        unit.expect("nothing is refused").expect("the write has an effect")
    };
    let (mut own, mut other) = (replica(0), replica(1));
    let first = write(&mut own, NOW, "first");
    let (backup, ceiling) = (own.state().clone(), Stamp::at(NOW + 60_000, own.region()));
    let second = write(&mut own, NOW + 100_000, "second");
    for unit in [&first, &second] {
        assert_eq!(other.apply(NOW + 100_000, unit), Ok(Applied::Now));
    }
    let later = NOW + 200_000;
    // Started as after a clean shutdown, it continues its run, and nothing shows that it was set
    // back.
    let mut twin = Replica::new(settings(0), backup.clone());
    assert_eq!(twin.apply(later, &second), Err(Refusal::OwnRegion(own.region())));
    let stray = write(&mut twin, later, "stray");
    assert_eq!(other.apply(later, &stray), Err(Refusal::Contradiction(own.region())));
    // Started as after a crash, it begins a new run, above everything it has forgotten.
    let above = ceiling_after(ceiling, own.region(), later, 60_000);
    let (mut own, start) =
        Replica::restart(settings(0), backup, ceiling, above, later).expect("the server restarts");
    assert_eq!(other.apply(later, &start.expect("a new run")), Ok(Applied::Now));
    let third = write(&mut own, later + 1, "third");
    assert_eq!(other.apply(later + 1, &third), Ok(Applied::Now));
    assert_eq!(own.apply(later + 1, &second), Ok(Applied::Now));
    let fourth =
        decode(&encode(&write(&mut other, later + 2, "fourth"))).expect("the vector's runs are in order");
    assert_eq!(own.apply(later + 2, &fourth), Ok(Applied::Now));
    assert_eq!(own.digest(), other.digest());
}
