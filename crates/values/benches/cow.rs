// SPDX-License-Identifier: BSD-3-Clause
//! The time to share a collection of a million members, and the time of the first changes
//! afterwards: both delay a client, under a key's lock.
//!
//!     cargo bench -p braid-types --bench cow
//!
//! Prints the minimum and the median of the rounds, in microseconds: a busy machine lengthens the
//! others.

use std::time::Instant;

use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{BlockLimits, Group, Stream, StreamId};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MEMBERS: u32 = 1_000_000;
const ROUNDS: usize = 15;
/// Changes after each sharing, of which the slowest counts.
const CHANGES: u32 = 2000;
const NEVER: i64 = i64::MIN;

fn member(number: u32) -> [u8; 16] {
    let mut name = *b"member:000000000";
    let mut rest = number;
    for digit in name[7..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn us(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}

fn shortest_and_middle(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:9.1} {:9.1}", times[0], times[times.len() / 2])
}

fn measure<T>(name: &str, mut one: T, share: impl Fn(&mut T) -> T, mut change: impl FnMut(&mut T, u32)) {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut sharing, mut first, mut longest) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let shared = share(&mut one);
        sharing.push(us(begin));
        let mut most = 0.0_f64;
        for number in 0..CHANGES {
            let at = random.u32(0..MEMBERS);
            let begin = Instant::now();
            change(&mut one, at);
            let time = us(begin);
            most = most.max(time);
            if number == 0 {
                first.push(time);
            }
        }
        longest.push(most);
        drop(shared);
    }
    let [sharing, first, longest] = [sharing, first, longest].map(shortest_and_middle);
    println!("{name:24} {sharing}   {first}   {longest}");
}

fn main() {
    println!(
        "{:24} {:^19}   {:^19}   {:^19}",
        "us, shortest and middle", "share", "first change", "longest change"
    );
    let limits = HashLimits::default();
    let mut hash = Hash::new();
    for number in 0..MEMBERS {
        hash.set(&member(number), b"value of twenty byte", Expiry::Keep, NEVER, &limits);
    }
    measure(
        "hash",
        hash,
        |hash| hash.cow(),
        |hash, number| {
            hash.set(&member(number), b"value of twenty-byte", Expiry::Keep, NEVER, &limits);
        },
    );
    let limits = SetLimits::default();
    let mut set = Set::for_member(b"text", MEMBERS as usize, &limits);
    for number in 0..MEMBERS {
        set.add(&member(number), NEVER, &limits);
    }
    measure(
        "set",
        set,
        |set| set.cow(),
        |set, number| {
            set.remove(&member(number), NEVER);
            set.add(&member(number), NEVER, &limits);
        },
    );
    let limits = PackedLimits::default();
    for expiring in [false, true] {
        let mut sorted = SortedSet::new();
        for number in 0..MEMBERS {
            sorted.add(&member(number), f64::from(number), AddRule::default(), &limits);
            if expiring {
                sorted.set_expiry(&member(number), Some(i64::from(number)));
            }
        }
        let name = if expiring { "sorted set, expiring" } else { "sorted set" };
        measure(name, sorted, SortedSet::cow, |sorted, number| {
            let score = f64::from(number) + fastrand::f64();
            sorted.add(
                &member(number),
                score,
                AddRule { increment: expiring, ..AddRule::default() },
                &limits,
            );
            if expiring {
                sorted.set_expiry(&member(number), Some(i64::from(number) + fastrand::i64(0..9)));
            }
        });
    }
    let limits = ListLimits::default();
    let mut list = List::new();
    (0..MEMBERS).for_each(|number| list.push(End::Back, &member(number), &limits));
    measure("list", list, List::cow, |list, number| {
        list.set(i64::from(number % 1000), b"other member 016", &limits);
    });
    let limits = BlockLimits::default();
    let id = |number: u32| StreamId { ms: u64::from(number) + 1, seq: 0 };
    for groups in [false, true] {
        let mut stream = Stream::new();
        for number in 0..MEMBERS {
            stream
                .log_mut()
                .append(id(number), &[(b"field", &member(number))], &limits)
                .expect("ascending ids");
        }
        if groups {
            let mut group = Group::new(StreamId::MIN, None);
            let consumers = [0, 1, 2, 3].map(|name| group.create_consumer(&[name], 1).expect("a consumer"));
            (0..MEMBERS).for_each(|number| group.deliver(id(number), consumers[number as usize % 4], 1));
            stream.split_mut().1.create(b"group", group);
        }
        let name = if groups { "stream, all pending" } else { "stream" };
        measure(
            name,
            stream,
            |stream| stream.cow(),
            |stream, number| match stream.split_mut().1.get_mut(b"group") {
                Some(group) => group.redeliver(id(number), 2),
                None => {
                    stream.log_mut().delete(id(number));
                }
            },
        );
    }
}
