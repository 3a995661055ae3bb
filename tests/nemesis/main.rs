// SPDX-License-Identifier: BSD-3-Clause
//! Groups under a nemesis: real servers, a real etcd of three members and real clients, each on a
//! machine of its own (a network namespace), while processes are killed, stopped and cut off from
//! each other.
//!
//!   tests/jepsen --minutes N --seed S [sync|disk|async|sentinel...]
//!   cargo test -p braid-tests --test nemesis
//!
//! Active-active regions and clusters are other kinds of systems (`active.rs`, `sharded.rs`):
//! `tests/jepsen --rounds N active`, `tests/jepsen --rounds N cluster`.
//!
//! Variables, set by `tests/jepsen`:
//! - `BRAID_MINUTES`: how long faults are injected (default: 30 seconds)
//! - `BRAID_SYSTEMS`: any of `sync`, `disk`, `async` and `sentinel`, separated by blanks
//!   (default: `sync`)
//! - `BRAID_HISTORY`: a folder for histories, with one operation per line (`history.rs`)
//!
//! Synchronous writes must lose nothing; losses of asynchronous writes, and of stock Redis under
//! Sentinel, are counted. While two members that were in sync reach each other and etcd,
//! synchronous writes must go on. Needs root, `ip`, and etcd; if libfaketime is available, wall
//! clocks are a day apart. If a prerequisite is missing, the test is skipped with a message.

mod active;
mod check;
mod clients;
mod faults;
mod history;
mod machines;
mod route;
mod sharded;
mod system;

// The linearizability checker of tests/linear.
#[path = "../linear/checker.rs"]
#[allow(dead_code, unused_imports)]
mod checker;
#[path = "../linear/model.rs"]
#[allow(dead_code)]
mod model;
#[path = "../linear/operation.rs"]
#[allow(dead_code)]
mod operation;

use std::time::Duration;

use braid_tests::random::{number, source};

use crate::clients::Workload;
use crate::faults::Nemesis;
use crate::machines::Machines;
use crate::route::Route;
use crate::system::{System, SystemKind};

/// The results of a run.
struct Outcome {
    kind: SystemKind,
    rounds: usize,
    found: check::Findings,
}

fn run(kind: SystemKind, time: Duration) -> Option<Outcome> {
    let machines = Machines::build()?;
    let mut system = System::start(kind, &machines)?;
    let addresses = system.addresses();
    let route = || Route::to_primary(addresses.clone());
    let workload = Workload::start(route, &[]);
    let mut random = source(kind.name());
    let mut nemesis = Nemesis::new(&mut system, &machines, &mut random, &workload);
    let rounds = nemesis.run_for(time);
    let gap = nemesis.longest_gap;
    system.recover_and_wait_for_sync(&machines);
    let history = workload.stop(route());
    history.write(kind.name());
    let found = check::check(&history);
    println!("{}: {rounds} rounds, {found}", kind.name());
    if kind.is_synchronous() {
        println!("{}: longest wait for a write with two servers: {:.1} s", kind.name(), gap.as_secs_f64());
    }
    if kind.is_synchronous() && !found.violations.is_empty() {
        system.print_logs();
    }
    Some(Outcome { kind, rounds, found })
}

#[test]
fn nothing_acknowledged_is_lost() {
    let minutes = number("BRAID_MINUTES", 0);
    let time = if minutes == 0 { Duration::from_secs(30) } else { Duration::from_secs(60 * minutes) };
    let systems = std::env::var("BRAID_SYSTEMS").unwrap_or_else(|_| "sync".into());
    let mut outcomes = Vec::new();
    for kind in systems.split_whitespace().map(SystemKind::of) {
        let Some(outcome) = run(kind, time) else { return };
        outcomes.push(outcome);
    }
    println!("{}", table(&outcomes));
    for Outcome { kind, rounds, found } in &outcomes {
        assert!(*rounds > 0 && found.acknowledged > 100, "{}: too few rounds or writes", kind.name());
        let must_hold = kind.is_synchronous();
        assert!(!must_hold || found.violations.is_empty(), "{:#?}", found.violations);
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| system | rounds of faults | operations | acknowledged writes | of these lost | stale or dirty reads | other violations |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for Outcome { kind, rounds, found } in outcomes {
        text += &format!(
            "| {} | {rounds} | {} | {} | {} | {} | {} |\n",
            kind.title(),
            found.operations,
            found.acknowledged,
            found.lost,
            found.stale,
            found.other
        );
    }
    text
}
