// SPDX-License-Identifier: BSD-3-Clause
//! The laws of merging, for each type: whatever three regions have done and received from each
//! other, merging their states is commutative, associative and idempotent, and has the same
//! result as applying their effects.

use braid_active::amount::Amount;
use braid_active::cell::Time;
use braid_active::effect::Unit;
use braid_active::position::Side;
use braid_active::replica::{Settings, State};
use braid_active::stream::Id;
use braid_active::view::View;
use braid_active::{Applied, Bytes, Name, Region, Replica, Rules, Stamp, Transaction};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;
const REGIONS: usize = 3;

/// A step of a region: a command, or the arrival of other regions' effects.
#[derive(Clone, Debug)]
struct Step {
    region: usize,
    what: u8,
    element: u8,
    number: i8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..REGIONS, 0..12u8, 0..3u8, any::<i8>());
    let step = step.prop_map(|(region, what, element, number)| Step { region, what, element, number });
    prop::collection::vec(step, 1..40)
}

struct Regions {
    replicas: Vec<Replica>,
    units: Vec<Unit>,
}

impl Regions {
    fn run(steps: &[Step], command: fn(&mut Transaction, &Name, &Step)) -> Regions {
        let replica = |number| {
            let region = Region::new(number).expect("a region");
            let settings = Settings { region, members: 0b111, ahead_ms_max: 60_000, rules: Rules::default() };
            let mut replica = Replica::new(settings, State::default());
            replica.raise_ceiling(Stamp::at(NOW + 1_000_000, region));
            replica
        };
        let mut regions = Regions { replicas: (0..3).map(replica).collect(), units: Vec::new() };
        let name: Name = b"key".as_slice().into();
        for (step, now_ms) in steps.iter().zip(NOW..) {
            let replica = &mut regions.replicas[step.region];
            let time = replica.key(0, &name).and_then(|key| key.time(replica.rules()));
            if time.is_some_and(|(_, time)| time <= now_ms) {
                let end = |transaction: &mut Transaction| assert!(transaction.end(0, &name, None));
                regions.units.extend(replica.execute(now_ms, end).expect("nothing is refused"));
            }
            match step.what {
                // The region receives some of the others' effects.
                0 | 1 => {
                    let count = step.number.unsigned_abs() as usize;
                    for unit in regions.units.iter().take(count) {
                        replica.apply(now_ms, unit).expect("nothing is refused");
                    }
                }
                2 => {
                    let unit = replica.execute(now_ms, |transaction| transaction.remove(0, &name));
                    regions.units.extend(unit.expect("nothing is refused"));
                }
                3 if replica.view(0, &name).is_some() => {
                    let time = Time::At(now_ms + 1 + u64::from(step.number.unsigned_abs()));
                    let unit = replica.execute(now_ms, |transaction| transaction.live(0, &name, time));
                    regions.units.extend(unit.expect("nothing is refused"));
                }
                _ => {
                    let unit = replica.execute(now_ms, |transaction| command(transaction, &name, step));
                    regions.units.extend(unit.expect("nothing is refused"));
                }
            }
        }
        regions
    }

    fn check(&self) {
        let merged = |one: &Replica, other: &Replica| {
            let mut one = one.clone();
            one.merge(NOW, other.state()).expect("a copy merges");
            one
        };
        let show = |replica: &Replica| {
            let views: Vec<_> = replica.views().map(|(_, _, view, time)| (view, time)).collect();
            (replica.digest(), views, replica.vector().clone())
        };
        let [a, b, c] = [0, 1, 2].map(|index| &self.replicas[index]);
        assert_eq!(show(&merged(a, b)), show(&merged(b, a)), "merging is not commutative");
        let left = merged(&merged(a, b), c);
        assert_eq!(show(&left), show(&merged(a, &merged(b, c))), "merging is not associative");
        assert_eq!(show(&merged(a, a)), show(a), "merging is not idempotent");
        assert_eq!(show(&merged(&left, b)), show(&left), "merging is not idempotent");
        let mut applied = a.clone();
        for unit in &self.units {
            let outcome = applied.apply(NOW, unit).expect("nothing is refused");
            assert!(!matches!(outcome, Applied::Early(_)), "units are not in creation order");
        }
        assert_eq!(show(&left), show(&applied), "merging states and applying units give different states");
    }
}

fn element(step: &Step) -> Bytes {
    [b'a' + step.element].as_slice().into()
}

fn value(step: &Step) -> Bytes {
    step.number.to_string().into_bytes().into()
}

fn amount(step: &Step) -> Amount {
    Amount::of_integer(i64::from(step.number))
}

fn string(transaction: &mut Transaction, name: &Name, step: &Step) {
    if step.what < 7 {
        let time = (step.element == 0).then_some(NOW + 500);
        transaction.set(0, name, value(step), time);
    } else {
        assert!(transaction.increment(0, name, amount(step)));
    }
}

fn hash(transaction: &mut Transaction, name: &Name, step: &Step) {
    match step.what {
        4..=6 => transaction.hash_set(0, name, element(step), value(step), None),
        7..=8 => transaction.hash_remove(0, name, element(step)),
        _ => assert!(transaction.hash_increment(0, name, element(step), amount(step))),
    }
}

fn set(transaction: &mut Transaction, name: &Name, step: &Step) {
    if step.what < 9 {
        transaction.set_add(0, name, element(step));
    } else {
        transaction.set_remove(0, name, element(step));
    }
}

fn sorted_set(transaction: &mut Transaction, name: &Name, step: &Step) {
    match step.what {
        4..=6 => transaction.sorted_set_add(0, name, element(step), f64::from(step.number)),
        7..=8 => transaction.sorted_set_remove(0, name, element(step)),
        _ => assert!(transaction.sorted_set_increment(0, name, element(step), amount(step))),
    }
}

fn list(transaction: &mut Transaction, name: &Name, step: &Step) {
    let len = match transaction.view(0, name) {
        Some(View::List(values)) => values.len(),
        _ => 0,
    };
    let index = usize::from(step.number.unsigned_abs()) % len.max(1);
    match step.what {
        4..=5 => transaction.list_push(0, name, Side::Right, vec![value(step), element(step)]),
        6 => transaction.list_push(0, name, Side::Left, vec![value(step)]),
        7..=8 if len > 0 => transaction.list_insert(0, name, index, value(step)),
        9 if len > 0 => transaction.list_set(0, name, index, value(step)),
        10.. if len > 0 => transaction.list_remove(0, name, index),
        _ => {}
    }
}

fn stream(transaction: &mut Transaction, name: &Name, step: &Step) {
    let (entries, groups) = match transaction.view(0, name) {
        Some(View::Stream { entries, groups, .. }) => (entries, groups),
        _ => Default::default(),
    };
    let first = entries.first().map(|(id, _)| *id);
    let group = element(step);
    let is_there = groups.iter().any(|(name, _)| *name == group);
    match (step.what, first) {
        (4..=6, _) | (_, None) => {
            let fields = vec![element(step), value(step)].into_boxed_slice();
            assert!(transaction.stream_add(0, name, None, fields).is_some());
        }
        (7, Some(id)) => transaction.stream_remove(0, name, id),
        (8, _) if !is_there => transaction.group_create(0, name, &group, Id::default()),
        (9, _) if is_there => transaction.group_destroy(0, name, &group),
        (10, Some(id)) if is_there => transaction.group_deliver(0, name, &group, &value(step), &[(id, 1)]),
        (11, Some(id)) if is_there => transaction.group_acknowledge(0, name, &group, id),
        _ => {}
    }
}

fn hyperloglog(transaction: &mut Transaction, name: &Name, step: &Step) {
    let rank = step.number.unsigned_abs() % 5 + 1;
    transaction.count(0, name, vec![(u16::from(step.element), rank)]);
}

/// Commands of all types on one key.
fn any_type(transaction: &mut Transaction, name: &Name, step: &Step) {
    let commands = [string, hash, set, sorted_set, list, stream, hyperloglog];
    let kinds: [fn(&View) -> bool; 7] = [
        |view| matches!(view, View::String(_)),
        |view| matches!(view, View::Hash(_)),
        |view| matches!(view, View::Set(_)),
        |view| matches!(view, View::SortedSet(_)),
        |view| matches!(view, View::List(_)),
        |view| matches!(view, View::Stream { .. }),
        |view| matches!(view, View::HyperLogLog(_)),
    ];
    let index = match transaction.view(0, name) {
        // A command of the key's present type.
        Some(view) => kinds.iter().position(|is| is(&view)).expect("a known type"),
        None => step.number.unsigned_abs() as usize % commands.len(),
    };
    commands[index](transaction, name, step);
}

macro_rules! laws {
    ($($name:ident: $command:ident;)+) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(steps in steps()) {
                    Regions::run(&steps, $command).check();
                }
            )+
        }
    };
}

laws! {
    strings_merge: string;
    hashes_merge: hash;
    sets_merge: set;
    sorted_sets_merge: sorted_set;
    lists_merge: list;
    streams_merge: stream;
    hyperloglogs_merge: hyperloglog;
    keys_of_any_type_merge: any_type;
}
