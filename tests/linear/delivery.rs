// SPDX-License-Identifier: BSD-3-Clause
//! Delivery: producers add elements, consumers on other threads remove them, mostly with blocking
//! commands; no element may be lost or delivered twice, and a queue must not deliver an element
//! before one that was added to it earlier.
//!
//! Consumers time out after a moment and try again, and a meddler ends waits from outside, so
//! that elements arrive at all possible moments of a wait.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use braid_tests::random::number;
use braid_tests::{RawClient, Value};

/// When a command was sent and when it was answered, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
struct Span {
    sent: u64,
    answered: u64,
}

/// The observations of one element.
#[derive(Default, Debug)]
struct Life {
    put: Option<(Span, usize)>,
    taken: Vec<Span>,
    left: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Lost(u64),
    Twice(u64),
    FromNowhere(u64),
    /// The second element was added to the queue after the first, but was delivered before it.
    Overtaken(u64, u64),
}

#[derive(Default)]
struct History {
    puts: Vec<(u64, usize, Span)>,
    takes: Vec<(u64, Span)>,
    /// The elements that are still there at the end.
    left: Vec<u64>,
}

/// Checks a history. `is_queue`: each place delivers its elements in the order in which they were
/// added.
fn check(history: &History, is_queue: bool) -> Result<(), Fault> {
    let mut lives: HashMap<u64, Life> = HashMap::new();
    for &(element, place, span) in &history.puts {
        lives.entry(element).or_default().put = Some((span, place));
    }
    for &(element, span) in &history.takes {
        lives.entry(element).or_default().taken.push(span);
    }
    for &element in &history.left {
        lives.entry(element).or_default().left += 1;
    }
    let mut places: HashMap<usize, Vec<(Span, u64, Option<Span>)>> = HashMap::new();
    for (&element, life) in &lives {
        let Some((put, place)) = life.put else { return Err(Fault::FromNowhere(element)) };
        match life.taken.len() + life.left {
            0 => return Err(Fault::Lost(element)),
            1 => {}
            _ => return Err(Fault::Twice(element)),
        }
        let taken = life.taken.first().copied();
        if taken.is_some_and(|taken| taken.answered < put.sent) {
            return Err(Fault::FromNowhere(element));
        }
        places.entry(place).or_default().push((put, element, taken));
    }
    if !is_queue {
        return Ok(());
    }
    for elements in places.values_mut() {
        elements.sort_by_key(|(put, ..)| put.sent);
        for (index, (earlier, first, first_taken)) in elements.iter().enumerate() {
            for (later, second, second_taken) in &elements[index + 1..] {
                let Some(second_taken) = second_taken else { continue };
                let before = earlier.answered < later.sent;
                if before && first_taken.is_none_or(|first_taken| second_taken.answered < first_taken.sent) {
                    return Err(Fault::Overtaken(*first, *second));
                }
            }
        }
    }
    Ok(())
}

/// How elements are added and removed.
struct Transfer {
    name: &'static str,
    is_queue: bool,
    /// Number of places that producers add elements to.
    places: usize,
    setup: &'static [&'static str],
    /// The command that adds an element, `{e}`, to a place, `{p}`.
    put: &'static str,
    /// The consumers' commands, drawn at random; `{t}` is a short timeout in seconds, `{ms}` in
    /// milliseconds.
    takes: &'static [&'static str],
    /// Commands that other clients send meanwhile.
    moves: &'static [&'static str],
    /// Commands whose replies contain all remaining elements.
    rest: &'static [&'static str],
}

const KINDS: &[Transfer] = &[
    Transfer {
        name: "one list",
        is_queue: true,
        places: 1,
        setup: &[],
        put: "RPUSH l{p} {e}",
        takes: &["BLPOP l0 {t}", "BLPOP l0 {t}", "LPOP l0 1", "BLMPOP {t} 1 l0 LEFT COUNT 2"],
        moves: &[],
        rest: &["LRANGE l0 0 -1"],
    },
    Transfer {
        name: "several lists",
        is_queue: true,
        places: 3,
        setup: &[],
        put: "RPUSH l{p} {e}",
        takes: &["BLPOP l0 l1 l2 {t}", "BLPOP l2 l0 l1 {t}", "BLMPOP {t} 3 l1 l2 l0 LEFT", "BLPOP l1 {t}"],
        moves: &[],
        rest: &["LRANGE l0 0 -1", "LRANGE l1 0 -1", "LRANGE l2 0 -1"],
    },
    Transfer {
        name: "lists behind lists",
        is_queue: true,
        places: 1,
        setup: &[],
        put: "RPUSH l{p} {e}",
        takes: &["BLPOP m {t}", "BLMPOP {t} 1 m LEFT COUNT 3"],
        moves: &["BLMOVE l0 m LEFT RIGHT {t}", "LMOVE l0 m LEFT RIGHT"],
        rest: &["LRANGE l0 0 -1", "LRANGE m 0 -1"],
    },
    Transfer {
        name: "sorted sets",
        is_queue: false,
        places: 2,
        setup: &[],
        put: "ZADD z{p} 1 {e}",
        takes: &[
            "BZPOPMIN z0 z1 {t}",
            "BZPOPMAX z1 z0 {t}",
            "BZMPOP {t} 2 z0 z1 MIN COUNT 2",
            "ZPOPMIN z0 1",
        ],
        moves: &[],
        rest: &["ZRANGE z0 0 -1", "ZRANGE z1 0 -1"],
    },
    Transfer {
        name: "sets",
        is_queue: false,
        places: 2,
        setup: &[],
        put: "SADD s{p} {e}",
        takes: &["SPOP s0 1", "SPOP s1 2", "SPOP s2 1"],
        moves: &[],
        rest: &["SMEMBERS s0", "SMEMBERS s1"],
    },
    Transfer {
        name: "a stream's group",
        is_queue: true,
        places: 1,
        setup: &["XGROUP CREATE x{p} g 0 MKSTREAM"],
        put: "XADD x{p} * e {e}",
        takes: &[
            "XREADGROUP GROUP g c COUNT 1 BLOCK {ms} STREAMS x0 >",
            "XREADGROUP GROUP g d BLOCK {ms} STREAMS x0 >",
        ],
        moves: &[],
        rest: &["XREADGROUP GROUP g c STREAMS x0 >"],
    },
];

/// Elements are numbers starting here, so that no other part of a reply is mistaken for one.
const FIRST: u64 = 1_000_000;

/// Collects all elements in a reply, at any level.
fn elements(value: &Value, found: &mut Vec<u64>) {
    match value.elements() {
        Some(items) => items.iter().for_each(|item| elements(item, found)),
        None => {
            let number = value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
            found.extend(number.filter(|&number: &u64| (FIRST..10 * FIRST).contains(&number)));
        }
    }
}

struct Run<'k> {
    kind: &'k Transfer,
    server: SocketAddr,
    start: Instant,
    next: AtomicU64,
    done: AtomicBool,
}

impl Run<'_> {
    fn connect(&self) -> RawClient {
        RawClient::tcp(self.server).expect("the server accepts connections")
    }

    fn timed(&self, client: &mut RawClient, line: &str) -> (Value, Span) {
        let now = || self.start.elapsed().as_nanos() as u64;
        let sent = now();
        let reply = client.call(line);
        (reply, Span { sent, answered: now() })
    }

    fn produce(&self, count: u64) -> Vec<(u64, usize, Span)> {
        let (mut client, mut random) = (self.connect(), fastrand::Rng::new());
        let mut puts = Vec::new();
        for _ in 0..count {
            let element = FIRST + self.next.fetch_add(1, Ordering::Relaxed);
            let place = random.usize(0..self.kind.places);
            let line = self.kind.put.replace("{p}", &place.to_string()).replace("{e}", &element.to_string());
            let (reply, span) = self.timed(&mut client, &line);
            assert!(!reply.is_error(), "{line}: {reply}");
            puts.push((element, place, span));
            if random.u8(0..4) == 0 {
                // Let the consumers catch up: they block only if there is no element.
                std::thread::sleep(std::time::Duration::from_micros(random.u64(0..2_000)));
            }
        }
        puts
    }

    fn line(&self, lines: &[&str], random: &mut fastrand::Rng) -> String {
        let (seconds, millis) =
            *random.choice([("0.001", "1"), ("0.003", "3"), ("0.02", "20")].iter()).expect("not empty");
        let line = random.choice(lines).expect("not empty");
        line.replace("{t}", seconds).replace("{ms}", millis)
    }

    fn consume(&self, lines: &[&str]) -> Vec<(u64, Span)> {
        let (mut client, mut random) = (self.connect(), fastrand::Rng::new());
        let mut takes = Vec::new();
        while !self.done.load(Ordering::Relaxed) {
            let (reply, span) = self.timed(&mut client, &self.line(lines, &mut random));
            let mut found = Vec::new();
            elements(&reply, &mut found);
            takes.extend(found.into_iter().map(|element| (element, span)));
        }
        takes
    }

    /// Unblocks other clients.
    fn meddle(&self, last_id: i64) {
        let (mut client, mut random) = (self.connect(), fastrand::Rng::new());
        while !self.done.load(Ordering::Relaxed) {
            let reason = if random.bool() { "ERROR" } else { "TIMEOUT" };
            client.call(&format!("CLIENT UNBLOCK {} {reason}", last_id + random.i64(1..16)));
            std::thread::sleep(std::time::Duration::from_micros(random.u64(0..500)));
        }
    }
}

fn run(kind: &Transfer, server: SocketAddr, count: u64) -> History {
    let run =
        Run { kind, server, start: Instant::now(), next: AtomicU64::new(0), done: AtomicBool::new(false) };
    let mut control = run.connect();
    control.call("FLUSHALL");
    for place in 0..kind.places {
        for line in kind.setup {
            control.ok(&line.replace("{p}", &place.to_string()));
        }
    }
    let last_id = control.call("CLIENT ID").integer().expect("an id");
    let mut history = History::default();
    std::thread::scope(|scope| {
        let run = &run;
        let consumers: Vec<_> = (0..5).map(|_| scope.spawn(|| run.consume(kind.takes))).collect();
        if !kind.moves.is_empty() {
            for _ in 0..2 {
                scope.spawn(|| run.consume(kind.moves));
            }
        }
        scope.spawn(|| run.meddle(last_id));
        let producers: Vec<_> = (0..3).map(|_| scope.spawn(|| run.produce(count))).collect();
        for producer in producers {
            history.puts.extend(producer.join().expect("no panic"));
        }
        run.done.store(true, Ordering::Relaxed);
        for consumer in consumers {
            history.takes.extend(consumer.join().expect("no panic"));
        }
    });
    for line in kind.rest {
        elements(&control.call(line), &mut history.left);
    }
    history
}

#[test]
fn every_element_is_delivered_once_and_in_order() {
    let count = number("BRAID_ROUNDS", 400);
    let server = super::start(super::Options::default());
    for kind in KINDS {
        let history = run(kind, server.address(), count);
        let (puts, takes, left) = (history.puts.len(), history.takes.len(), history.left.len());
        println!("{}: {puts} put, {takes} taken, {left} left", kind.name);
        assert_eq!(check(&history, kind.is_queue), Ok(()), "{}", kind.name);
        assert!(takes > puts / 4, "{}: too few elements were taken", kind.name);
    }
}

/// Proves that the test can fail.
#[test]
fn wrong_deliveries_are_noticed() {
    let span = |sent| Span { sent, answered: sent + 10 };
    let right = || History {
        puts: vec![(1, 0, span(0)), (2, 0, span(20)), (3, 0, span(40)), (4, 1, span(60))],
        takes: vec![(1, span(5)), (2, span(70)), (4, span(80))],
        left: vec![3],
    };
    assert_eq!(check(&right(), true), Ok(()));
    let mut lost = right();
    lost.left.clear();
    assert_eq!(check(&lost, false), Err(Fault::Lost(3)));
    let mut twice = right();
    twice.takes.push((1, span(100)));
    assert_eq!(check(&twice, false), Err(Fault::Twice(1)));
    let mut kept = right();
    kept.left.push(2);
    assert_eq!(check(&kept, false), Err(Fault::Twice(2)));
    let mut invented = right();
    invented.left.push(9);
    assert_eq!(check(&invented, false), Err(Fault::FromNowhere(9)));
    let mut early = right();
    early.takes[2].1 = span(40);
    assert_eq!(check(&early, false), Err(Fault::FromNowhere(4)));
    let mut overtaken = right();
    (overtaken.takes[0].1, overtaken.takes[1].1) = (span(90), span(70));
    assert_eq!(check(&overtaken, false), Ok(()));
    assert_eq!(check(&overtaken, true), Err(Fault::Overtaken(1, 2)));
    let mut left_behind = right();
    left_behind.takes[1].0 = 3;
    left_behind.left = vec![2];
    assert_eq!(check(&left_behind, true), Err(Fault::Overtaken(2, 3)));
}
