// SPDX-License-Identifier: BSD-3-Clause
//! A server that loses what it had not forced to disk, while its peer keeps what it was sent of
//! that: the server numbers its changes anew, above those that it has forgotten, and gets these
//! back.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::crash::kept;
use super::{link_all, server, texts, wait_until_equal};
use braid_tests::acknowledged::Known;
use braid_tests::random::{number, source};
use braid_tests::small_disk::Place;
use braid_tests::{RawClient, TestServer, Value, words};
use rustix::process::Signal;

/// Between a client's requests.
const PAUSE: Duration = Duration::from_millis(2);
/// Changes that may be lost, counted back from the failure.
const LOST_MAX: Duration = Duration::from_secs(2);

/// After this many rounds the servers start anew, so that the data stays small.
const ROUNDS_OF_A_DISK: u64 = 3;
const DISK_BYTES: u64 = 256 << 20;

/// Counts from 1 until stopped, or until the server is gone, and adds the numbers to a set.
fn work(server: &TestServer, name: &str, ends: &AtomicBool) -> Known {
    const PIPELINE: u64 = 20;
    let mut client = server.connect();
    let mut work = Known::default();
    while !ends.load(Relaxed) {
        let requests = (work.sent + 1..=work.sent + PIPELINE).flat_map(|number| {
            let add = words::encode(&["SADD", &format!("set:{name}"), &number.to_string()]);
            [words::encode(&["INCR", &format!("count:{name}")]), add].concat()
        });
        if client.try_send(&requests.collect::<Vec<u8>>()).is_err() {
            break;
        }
        work.sent += PIPELINE;
        if (0..2 * PIPELINE).any(|_| client.try_read().is_err()) {
            break;
        }
        work.acknowledged.push((Instant::now(), work.sent));
        std::thread::sleep(PAUSE);
    }
    work
}

/// Lets clients work at both servers for a while, ends the first one, and returns the time of that
/// and the clients' work.
fn end_at_work(one: &mut TestServer, two: &TestServer, round: u64, life: Duration) -> (Instant, [Known; 2]) {
    let ends = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let (one, ends) = (&*one, &ends);
        let of_one = scope.spawn(move || work(one, &format!("one:{round}"), ends));
        let of_two = scope.spawn(move || work(two, &format!("two:{round}"), ends));
        std::thread::sleep(life);
        let failed_at = Instant::now();
        one.signal(Signal::KILL);
        let of_one = of_one.join().expect("no panic");
        ends.store(true, Relaxed);
        (failed_at, [of_one, of_two.join().expect("no panic")])
    });
    one.wait();
    outcome
}

/// Asserts that a client's numbers are there, of which those above `sure` may be missing.
fn check(client: &mut RawClient, name: &str, sure: u64, sent: u64) {
    let count = match client.call(&format!("GET count:{name}")) {
        Value::NullBulk => 0,
        count => count.text().parse::<u64>().expect("a number"),
    };
    let members = client.call(&format!("SCARD set:{name}")).integer().expect("a number") as u64;
    let range = sure..=sent;
    assert!(range.contains(&count) && range.contains(&members), "{name}: {count}, {members} of {range:?}");
    println!("{name}: {count} of {range:?}");
}

#[test]
fn after_a_power_failure_a_server_gets_back_what_its_peer_knows() {
    let mut random = source("active power failure");
    let mut place = None;
    for round in 0..number("BRAID_ROUNDS", 3) {
        if round % ROUNDS_OF_A_DISK == 0 {
            drop(place.take());
            place = Place::disk(DISK_BYTES).map(|disk| (disk, server(2, &[])));
        }
        let Some((disk, two)) = &place else { return };
        let mut one = kept(1, disk.path(), &[]);
        link_all(&[&one, two]);
        let life = Duration::from_millis(random.u64(1..2500));
        let (failed_at, [of_one, of_two]) = end_at_work(&mut one, two, round, life);
        disk.fail_power();
        // The machine has started again.
        std::fs::write(disk.path().join("active.boot"), "another start").expect("written");
        let mut client = two.connect();
        client.ok(&format!("SET meanwhile {round}"));
        let one = kept(1, disk.path(), &[]);
        // Its stamps must not repeat those that it has forgotten.
        one.connect().ok(&format!("SET after {round}"));
        link_all(&[&one, two]);
        wait_until_equal(&[&one, two]);
        assert_eq!(texts(&client.call("MGET meanwhile after")), [round.to_string(), round.to_string()]);
        let synced_at = failed_at.checked_sub(LOST_MAX).unwrap_or(failed_at);
        check(&mut client, &format!("one:{round}"), of_one.acknowledged_by(synced_at), of_one.sent);
        check(&mut client, &format!("two:{round}"), of_two.acknowledged_by(Instant::now()), of_two.sent);
    }
}
