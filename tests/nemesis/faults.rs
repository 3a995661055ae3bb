// SPDX-License-Identifier: BSD-3-Clause
//! The nemesis: in each round one or two faults last for some seconds; then everything is
//! repaired and recovers. The seed determines the faults and their durations.
//!
//! At most one server is killed per round: data that only killed members had in memory is lost by
//! definition. It may be any server, and the others may be stopped or cut off meanwhile.

use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use crate::machines::{MACHINES, Machines, SERVERS};
use crate::system::{System, SystemKind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    KillPrimary,
    KillReplica,
    StopPrimary,
    StopReplica,
    /// From all machines, in both directions.
    IsolatePrimary,
    IsolateReplica,
    /// Nothing that the primary sends arrives.
    MutePrimary,
    /// Nothing arrives at the primary.
    DeafenPrimary,
    /// The primary cannot reach etcd, or the Sentinels; the replicas can.
    CutPrimaryFromArbiters,
    /// A replica and the primary cannot reach each other; both reach etcd.
    CutReplicaFromPrimary,
    KillArbiter,
    /// All arbiters, for a while.
    StopArbiters,
    HandOver,
}

const FAULTS: [Fault; 13] = [
    Fault::KillPrimary,
    Fault::KillReplica,
    Fault::StopPrimary,
    Fault::StopReplica,
    Fault::IsolatePrimary,
    Fault::IsolateReplica,
    Fault::MutePrimary,
    Fault::DeafenPrimary,
    Fault::CutPrimaryFromArbiters,
    Fault::CutReplicaFromPrimary,
    Fault::KillArbiter,
    Fault::StopArbiters,
    Fault::HandOver,
];

impl Fault {
    fn kills_server(self) -> bool {
        matches!(self, Fault::KillPrimary | Fault::KillReplica)
    }
}

pub struct Nemesis<'n> {
    system: &'n mut System,
    machines: &'n Machines,
    random: &'n mut Rng,
}

impl<'n> Nemesis<'n> {
    pub fn new(system: &'n mut System, machines: &'n Machines, random: &'n mut Rng) -> Nemesis<'n> {
        Nemesis { system, machines, random }
    }

    /// Injects faults for this time; returns the number of rounds.
    pub fn run_for(&mut self, time: Duration) -> usize {
        let (begin, mut rounds) = (Instant::now(), 0);
        while begin.elapsed() < time && self.round(rounds, begin) {
            rounds += 1;
        }
        rounds
    }

    /// Runs a round. False if the system did not recover completely.
    fn round(&mut self, number: usize, begin: Instant) -> bool {
        let first = FAULTS[self.random.usize(..FAULTS.len())];
        let second = FAULTS[self.random.usize(..FAULTS.len())];
        let both =
            self.random.u8(0..3) == 0 && first != second && !(first.kills_server() && second.kills_server());
        let faults = if both { vec![first, second] } else { vec![first] };
        let primary = self.system.primary().unwrap_or(0);
        let other = (primary + 1 + self.random.usize(..SERVERS - 1)) % SERVERS;
        let time = Duration::from_millis(self.random.u64(500..6000));
        println!(
            "{} {:7.1} s, round {number}: {faults:?} for {:.1} s, the primary is {primary}, the other {other}",
            self.system.kind.name(),
            begin.elapsed().as_secs_f64(),
            time.as_secs_f64()
        );
        for &fault in &faults {
            self.make(fault, primary, other);
            std::thread::sleep(Duration::from_millis(self.random.u64(0..300)));
        }
        std::thread::sleep(time);
        // A restarted server may come back before or after the network is repaired.
        if self.random.bool() {
            self.machines.heal();
            std::thread::sleep(Duration::from_millis(self.random.u64(0..2000)));
        }
        let is_whole = self.system.recover_and_wait_for_sync(self.machines);
        std::thread::sleep(Duration::from_millis(self.random.u64(0..1500)));
        is_whole
    }

    fn make(&mut self, fault: Fault, primary: usize, other: usize) {
        let arbiter = SERVERS + self.random.usize(..SERVERS);
        match fault {
            Fault::KillPrimary => self.system.kill(primary),
            Fault::KillReplica => self.system.kill(other),
            Fault::StopPrimary => self.system.signal(primary, Signal::STOP),
            Fault::StopReplica => self.system.signal(other, Signal::STOP),
            Fault::IsolatePrimary => self.isolate(primary, true, true),
            Fault::IsolateReplica => self.isolate(other, true, true),
            Fault::MutePrimary => self.isolate(primary, true, false),
            Fault::DeafenPrimary => self.isolate(primary, false, true),
            Fault::CutPrimaryFromArbiters => {
                (SERVERS..MACHINES).for_each(|arbiter| self.cut(primary, arbiter));
            }
            Fault::CutReplicaFromPrimary => self.cut(primary, other),
            Fault::KillArbiter => self.system.kill(arbiter),
            Fault::StopArbiters => {
                (SERVERS..MACHINES).for_each(|arbiter| self.system.signal(arbiter, Signal::STOP));
            }
            Fault::HandOver if self.system.kind == SystemKind::Sentinel => {}
            Fault::HandOver => self.system.hand_over(primary),
        }
    }

    fn cut(&self, one: usize, other: usize) {
        self.machines.cut(one, other);
        self.machines.cut(other, one);
    }

    fn isolate(&self, machine: usize, outwards: bool, inwards: bool) {
        for other in (0..MACHINES).filter(|&other| other != machine) {
            if outwards {
                self.machines.cut(machine, other);
            }
            if inwards {
                self.machines.cut(other, machine);
            }
        }
    }
}
