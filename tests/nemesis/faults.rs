// SPDX-License-Identifier: BSD-3-Clause
//! The nemesis: in each round one or two faults last for some seconds; then everything is
//! repaired and recovers. The seed determines the faults and their durations.
//!
//! At most one server is killed per round, unless all data is on disk: data that only killed
//! members had in memory is lost by definition. It may be any server, and the others may be
//! stopped or cut off meanwhile.
//!
//! While two servers that were in sync reach each other and etcd, writes must go on.

use std::time::{Duration, Instant};

use braid_tests::wait_for_within;
use fastrand::Rng;
use rustix::process::Signal;

use crate::clients::Workload;
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
    /// The primary reaches no replica; all of them reach etcd.
    CutPrimaryFromReplicas,
    KillArbiter,
    /// All arbiters, for a while.
    StopArbiters,
    HandOver,
    /// A server is killed, and started on a copy of its folder that is a second old.
    OldFolder,
    /// A replica's disk is full.
    FillReplica,
    /// The primary's disk is full.
    FillPrimary,
    /// All servers at once.
    KillAll,
    /// All servers at once; one of them is started first, on a copy of its folder that is a
    /// second old.
    KillAllOldFolder,
}

const FAULTS: [Fault; 15] = [
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
    Fault::CutPrimaryFromReplicas,
    Fault::KillArbiter,
    Fault::StopArbiters,
    Fault::HandOver,
    Fault::OldFolder,
];

/// Further ones where all data is on disk.
const DISK_FAULTS: [Fault; 4] =
    [Fault::FillReplica, Fault::FillPrimary, Fault::KillAll, Fault::KillAllOldFolder];

/// Time limit for the first acknowledged write after a fault that leaves two servers. Generous:
/// only a failing test reaches it.
const FAILOVER: Duration = Duration::from_secs(60);
/// Age of the copies of folders.
const COPY_AGE: Duration = Duration::from_secs(1);
/// Time between the start of a server on an old copy and that of the others.
const HEAD_START: Duration = Duration::from_millis(1500);

impl Fault {
    fn kills_server(self) -> bool {
        use Fault::{KillAll, KillAllOldFolder, KillPrimary, KillReplica, OldFolder};
        matches!(self, KillPrimary | KillReplica | OldFolder | KillAll | KillAllOldFolder)
    }

    /// The servers that need not serve meanwhile; `None` if none need.
    fn disables(self, primary: usize, other: usize) -> Option<Vec<usize>> {
        match self {
            Fault::StopArbiters | Fault::KillAll | Fault::KillAllOldFolder => None,
            Fault::KillReplica
            | Fault::StopReplica
            | Fault::IsolateReplica
            | Fault::CutReplicaFromPrimary
            | Fault::OldFolder
            | Fault::FillReplica => Some(vec![other]),
            Fault::KillArbiter | Fault::HandOver => Some(Vec::new()),
            _ => Some(vec![primary]),
        }
    }
}

pub struct Nemesis<'n> {
    system: &'n mut System,
    machines: &'n Machines,
    random: &'n mut Rng,
    workload: &'n Workload,
    /// The longest time between a fault that leaves two servers and the next acknowledged write.
    pub longest_gap: Duration,
}

impl<'n> Nemesis<'n> {
    pub fn new(
        system: &'n mut System,
        machines: &'n Machines,
        random: &'n mut Rng,
        workload: &'n Workload,
    ) -> Nemesis<'n> {
        Nemesis { system, machines, random, workload, longest_gap: Duration::ZERO }
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
        let mut all = FAULTS.to_vec();
        if self.system.kind == SystemKind::OnDisk {
            all.extend(DISK_FAULTS);
        }
        let first = all[self.random.usize(..all.len())];
        let second = all[self.random.usize(..all.len())];
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
        let disabled: Option<Vec<Vec<usize>>> =
            faults.iter().map(|fault| fault.disables(primary, other)).collect();
        let is_served = disabled.is_some_and(|disabled| {
            let disabled = disabled.concat();
            (0..SERVERS).filter(|server| !disabled.contains(server)).count() >= 2
        });
        if self.system.kind.is_synchronous() && is_served {
            self.expect_writes(&faults);
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

    /// Waits for writes that are sent and acknowledged from now on.
    fn expect_writes(&mut self, faults: &[Fault]) {
        let begin = Instant::now();
        if !wait_for_within(FAILOVER, || self.workload.acknowledged_since(begin)) {
            self.system.print_logs();
            panic!("no write is acknowledged with two servers in sync: {faults:?}");
        }
        self.longest_gap = self.longest_gap.max(begin.elapsed());
    }

    /// Kills servers, and starts one of them on an old copy of its folder.
    fn start_old(&mut self, old: usize, killed: &[usize]) {
        let copy = self.system.copy_folder(old);
        std::thread::sleep(COPY_AGE);
        killed.iter().for_each(|&server| self.system.kill(server));
        self.system.put_copy(old, &copy);
        self.system.restart(old, self.machines);
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
            Fault::CutPrimaryFromReplicas => {
                (0..SERVERS).filter(|&other| other != primary).for_each(|other| self.cut(primary, other));
            }
            Fault::KillArbiter => self.system.kill(arbiter),
            Fault::StopArbiters => {
                (SERVERS..MACHINES).for_each(|arbiter| self.system.signal(arbiter, Signal::STOP));
            }
            Fault::HandOver if self.system.kind == SystemKind::Sentinel => {}
            Fault::HandOver => self.system.hand_over(primary),
            Fault::OldFolder => self.start_old(other, &[other]),
            Fault::FillReplica => self.system.fill_disk(other),
            Fault::FillPrimary => self.system.fill_disk(primary),
            Fault::KillAll => (0..SERVERS).for_each(|server| self.system.kill(server)),
            Fault::KillAllOldFolder => {
                self.start_old(primary, &[0, 1, 2]);
                std::thread::sleep(HEAD_START);
                for server in (0..SERVERS).filter(|&server| server != primary) {
                    self.system.restart(server, self.machines);
                }
            }
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
