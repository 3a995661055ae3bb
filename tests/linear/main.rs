// SPDX-License-Identifier: BSD-3-Clause
//! Linearizability: many connections work concurrently on a few keys; there must be a single
//! order of all commands that explains every reply, and in which no command runs before it was
//! sent or after it was answered.
//!
//!   cargo test -p braid-tests --test linear
//!
//! Variables, in addition to those of `support/lib.rs`:
//! - `BRAID_ROUNDS`: rounds of each workload (default 400)
//!
//! A server with assertions can do without its locks; the test then also shows that violations in
//! it are found.
//!
//! Flow: `workload` draws the commands of a round, `history` runs them on many connections and
//! records when each was sent and answered, `checker` looks for the order, using `model` for the
//! effect of each command. Rounds are short, because the search grows quickly, and numerous,
//! because races are rare. The commands of a transaction count as one operation.

mod checker;
mod delivery;
mod history;
mod model;
mod operation;
mod requests;
mod torn;
mod workload;

use braid_tests::random::{number, source};
use braid_tests::server::{Options, without_locks};
use braid_tests::{TestServer, Value, wait_for_within};

use checker::Verdict;
use history::Arena;
use workload::Workload;

const IO_THREADS: &str = "4";

/// Stock servers accept `io-threads` too; Braid runs commands on these threads.
fn start(options: Options) -> TestServer {
    let arguments = ["--io-threads", IO_THREADS].map(str::to_owned).to_vec();
    TestServer::start_with(Options { arguments, ..options })
}

fn check(workload: &Workload) -> TestServer {
    let server = start(Options::default());
    if server.is_braid() {
        let threads = braid_tests::process::threads(server.process_id());
        assert!(threads >= 2, "a server with {IO_THREADS} io-threads has {threads} threads");
    }
    let mut random = source(workload.name);
    let mut arena = Arena::new(server.address(), workload.clients);
    let (mut operations, mut undecided) = (0, 0);
    let rounds = number("BRAID_ROUNDS", 400);
    for round in 0..rounds {
        let history = arena.run(&workload.draw(&mut random)).expect("the server answers");
        operations += history.len();
        match checker::check(&history) {
            Verdict::Linearizable => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Violation(part) => panic!(
                "{}: the operations of round {round} are not linearizable:\n{}",
                workload.name,
                history::describe(&part)
            ),
        }
    }
    println!("{}: {rounds} rounds, {operations} operations, {undecided} rounds undecided", workload.name);
    assert!(undecided * 20 <= rounds, "{undecided} of {rounds} rounds were too hard for the checker");
    server
}

#[test]
fn single_keys() {
    check(&workload::SINGLE_KEYS);
}

#[test]
fn single_keys_in_pipelines() {
    check(&workload::PIPELINES);
}

#[test]
fn many_keys() {
    check(&workload::MANY_KEYS);
}

#[test]
fn transactions() {
    check(&workload::TRANSACTIONS);
}

#[test]
fn everything_together() {
    check(&workload::EVERYTHING);
}

/// Scripts that use only their declared keys, scripts that use others, and scripts for which that
/// is unknown, mixed with commands and transactions.
#[test]
fn scripts_of_all_kinds() {
    let server = check(&workload::SCRIPTS);
    let mut client = server.connect();
    let model = client.call("CONFIG GET threading-model");
    if server.is_braid() && model.elements().is_some_and(|found| found[1].text() == "parallel") {
        // All three ways must have been taken, or the histories would not test how scripts are
        // classified.
        for field in ["scripts_run_beside_others", "scripts_run_alone", "scripts_begun_again"] {
            let count = client.info_field("stats", field).and_then(|count| count.parse::<u64>().ok());
            println!("{field}: {count:?}");
            assert!(count.is_some_and(|count| count > 0), "{field}: {count:?}");
        }
    }
}

/// Proves that these tests can fail: commands that are not atomic must be detected in each kind
/// of workload.
#[test]
fn commands_taken_apart_are_noticed() {
    let server = start(Options::default());
    let torn = torn::start(server.address());
    for workload in [
        &workload::SINGLE_KEYS,
        &workload::PIPELINES,
        &workload::MANY_KEYS,
        &workload::EVERYTHING,
        &workload::SCRIPTS_ALONE,
    ] {
        let mut random = source(workload.name);
        let mut arena = Arena::new(torn, workload.clients);
        let noticed = (0..500).any(|_| {
            let history = arena.run(&workload.draw(&mut random)).expect("the server answers");
            matches!(checker::check(&history), Verdict::Violation(_))
        });
        assert!(
            noticed,
            "{}: no violation found where INCR, MSET, MGET and scripts are not atomic",
            workload.name
        );
    }
}

/// The same proof with a real culprit: a server whose shard locks do nothing must be convicted.
#[test]
fn a_server_without_locks_is_convicted() {
    let Some(options) = without_locks() else { return };
    for workloads in [
        &[&workload::MANY_KEYS, &workload::PIPELINES, &workload::TRANSACTIONS][..],
        &[&workload::SCRIPTS_ALONE, &workload::SCRIPTS],
    ] {
        convict(options, workloads);
    }
}

fn convict(options: fn() -> Options, workloads: &[&Workload]) {
    let mut random = source("without locks");
    let mut crashes = 0;
    for _ in 0..30 {
        let mut server = start(options());
        for workload in workloads {
            let Some(mut arena) = Arena::try_new(server.address(), workload.clients) else { break };
            for _ in 0..200 {
                let Ok(history) = arena.run(&workload.draw(&mut random)) else { break };
                if let Verdict::Violation(part) = checker::check(&history) {
                    println!(
                        "found in {}, after {crashes} crashes:\n{}",
                        workload.name,
                        history::describe(&part)
                    );
                    return;
                }
            }
        }
        // Without locks memory is not safe either: the server may crash before it can be
        // convicted.
        if wait_for_within(std::time::Duration::from_millis(200), || !server.is_alive()) {
            crashes += 1;
        }
    }
    panic!("no violation found in a server without locks ({crashes} crashes)");
}

/// Checks the model itself: it is compared with the server, one command after another.
#[test]
fn the_model_agrees_with_the_server() {
    let server = braid_tests::TestServer::start(&[]);
    let mut client = server.connect();
    let mut random = braid_tests::random::source("model");
    let mut state = model::State::new();
    client.call_arguments(&["FUNCTION", "LOAD", &requests::library()]);
    for number in 0..6_000 {
        let workload = if number < 4_000 { &workload::EVERYTHING } else { &workload::SCRIPTS };
        let operation = workload.operation(&mut random);
        let mut reply = Value::Null;
        for command in operation.commands() {
            reply = client.call_arguments(&command);
        }
        assert_eq!(reply, operation.apply(&mut state), "{operation:?}");
    }
}
