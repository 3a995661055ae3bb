// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication under a nemesis: three regions that all take writes, each on a
//! machine of its own, while they are cut off from each other, stopped and killed, and their
//! clocks are changed by up to an hour.
//!
//!   tests/jepsen --rounds N --seed S active
//!   cargo test -p braid-tests --test nemesis regions_agree
//!
//! `BRAID_ROUNDS` is the number of rounds (default: 4). In each round clients write to all
//! regions during faults; then everything is repaired, and all regions must show the same state
//! (`ACTIVE DIGEST`, `DEBUG DIGEST`) and contain the acknowledged elements that were not removed.
//!
//! Which writes count as acknowledged: a killed server may lose the writes of its last
//! milliseconds (docs/active-active.md, Limits). So before a kill the server is sent ACTIVE
//! DIGEST, which flushes all acknowledged writes to its log; writes acknowledged between that and
//! the kill may be lost or kept. Without a kill every acknowledged write counts. Expiry times,
//! for which the same section states a limit, and XCLAIM FORCE are not used.

mod asking;
mod clients;
mod ledger;

use std::time::{Duration, Instant};

use braid_tests::process::{set_clock, shifted_clock};
use braid_tests::random::{number, source};
use braid_tests::server::program_under_test;
use braid_tests::wait_for_within;
use fastrand::Rng;
use rustix::process::Signal;
use tempfile::TempDir;

use self::asking::ask;
use self::clients::Clients;
use self::ledger::Kill;
use crate::machines::{Machines, SERVERS};
use crate::system::{PORT, Process};

/// Time limit for all regions to become equal again. Generous: only a failing test reaches it.
const RECOVERY: Duration = Duration::from_secs(180);
/// Maximum change of a clock, in seconds.
const CLOCK_MOST: i64 = 3600;
/// Interval at which libfaketime reads the clock's file.
const CLOCK_CACHE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// From both other regions.
    Isolate,
    /// Two regions, which still reach each other through the third one.
    CutPair,
    /// Nothing that the region sends arrives.
    Mute,
    /// Nothing arrives at the region.
    Deafen,
    Stop,
    Kill,
    SetClock,
}

const FAULTS: [Fault; 7] =
    [Fault::Isolate, Fault::CutPair, Fault::Mute, Fault::Deafen, Fault::Stop, Fault::Kill, Fault::SetClock];

/// Three regions. Dropping them kills their servers.
struct Regions<'m> {
    machines: &'m Machines,
    processes: Vec<Process>,
    folders: Vec<TempDir>,
}

impl<'m> Regions<'m> {
    fn start(machines: &'m Machines) -> Regions<'m> {
        let folders: Vec<TempDir> = (0..SERVERS).map(|_| tempfile::tempdir().expect("a folder")).collect();
        let program = program_under_test().display().to_string();
        let process = |machine: usize| {
            let clock = folders[machine].path().join("clock");
            set_clock(&clock, 0);
            let mut environment = shifted_clock("+0").unwrap_or_default();
            if let Some((name, value)) = environment.iter_mut().find(|(name, _)| *name == "FAKETIME") {
                (*name, *value) = ("FAKETIME_TIMESTAMP_FILE", clock.into());
                environment.push(("FAKETIME_CACHE_DURATION", CLOCK_CACHE.as_secs().to_string().into()));
            }
            Process::new(machine, &program, arguments(machines, machine), environment)
        };
        let processes = (0..SERVERS).map(process).collect();
        let mut regions = Regions { machines, processes, folders };
        for region in 0..SERVERS {
            regions.processes[region].start(machines, regions.folders[region].path());
        }
        regions.wait_until_equal("at the start");
        regions
    }

    fn set_clock(&self, region: usize, seconds: i64) {
        set_clock(&self.folders[region].path().join("clock"), seconds);
    }

    /// A region's visible state: the digests, and the applied units. `None` without a reply.
    fn shown(&self, region: usize) -> Option<[String; 3]> {
        let address = self.machines.address(region).into();
        let one = ask(address, "ACTIVE DIGEST")?;
        let other = ask(address, "DEBUG DIGEST")?;
        let info = ask(address, "INFO active")?;
        let applied = info.lines().find(|line| line.starts_with("active_applied:"))?.to_owned();
        Some([one, other, applied])
    }

    /// Waits until all regions show the same state.
    fn wait_until_equal(&self, when: &str) {
        let mut seen = Vec::new();
        let is_equal = wait_for_within(RECOVERY, || {
            seen = (0..SERVERS).map(|region| self.shown(region)).collect();
            seen.iter().all(|shown| shown.is_some() && *shown == seen[0])
        });
        if !is_equal {
            self.print_logs();
            panic!("regions differ {when}: {seen:#?}");
        }
    }

    /// Repairs all faults.
    fn mend(&mut self) {
        self.machines.heal();
        for region in 0..SERVERS {
            self.processes[region].signal(Signal::CONT);
            if !self.processes[region].is_up() {
                self.processes[region].start(self.machines, self.folders[region].path());
            }
        }
    }

    fn print_logs(&self) {
        for (region, folder) in self.folders.iter().enumerate() {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            println!("---- log of region {}\n{log}", region + 1);
        }
    }

    fn make(&mut self, fault: Fault, region: usize, random: &mut Rng, clients: &Clients) -> Option<Kill> {
        let others = [(region + 1) % SERVERS, (region + 2) % SERVERS];
        match fault {
            Fault::Isolate | Fault::Mute | Fault::Deafen => {
                for other in others {
                    if fault != Fault::Deafen {
                        self.machines.cut(region, other);
                    }
                    if fault != Fault::Mute {
                        self.machines.cut(other, region);
                    }
                }
            }
            Fault::CutPair => {
                self.machines.cut(region, others[0]);
                self.machines.cut(others[0], region);
            }
            Fault::Stop => self.processes[region].signal(Signal::STOP),
            Fault::SetClock => self.set_clock(region, random.i64(-CLOCK_MOST..=CLOCK_MOST)),
            Fault::Kill => {
                // Writes acknowledged before this point must not be lost.
                let safe = clients.now();
                let safe = ask(self.machines.address(region).into(), "ACTIVE DIGEST").map_or(0, |_| safe);
                std::thread::sleep(Duration::from_millis(random.u64(0..1000)));
                self.processes[region].kill();
                return Some(Kill { region, safe, at: clients.now() });
            }
        }
        None
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }
}

fn arguments(machines: &Machines, machine: usize) -> Vec<String> {
    let peers = (0..SERVERS).filter(|&other| other != machine);
    let peers: Vec<String> = peers.map(|other| format!("{}:{PORT}", machines.address(other))).collect();
    let mut words: Vec<String> = format!(
        "--port {PORT} --bind {} --protected-mode no --enable-debug-command yes --active-replica yes \
         --active-region {} --active-peers {} --active-clock-ahead-max {}",
        machines.address(machine),
        machine + 1,
        peers.join(","),
        // Two clocks may be two hours apart.
        3 * CLOCK_MOST * 1000,
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    words.extend(["--save".into(), String::new()]);
    // So peers that were away get units from memory or from disk, or a full copy.
    let keeps: &[&str] = match machine {
        0 => &["--appendonly", "yes"],
        1 => &["--active-backlog-size", "64kb"],
        _ => &["--active-backlog-size", "64kb", "--active-backlog-disk-size", "0"],
    };
    words.extend(keeps.iter().map(|word| (*word).to_owned()));
    words
}

/// Totals of all rounds.
#[derive(Default)]
struct Total {
    writes: usize,
    unknown: usize,
    kills: usize,
    elements: usize,
}

fn round(regions: &mut Regions, random: &mut Rng, number: u64, begin: Instant, total: &mut Total) {
    let first = FAULTS[random.usize(..FAULTS.len())];
    let second = FAULTS[random.usize(..FAULTS.len())];
    let mut faults = vec![first];
    // At most one kill at a time, because the test would wait for the killed server.
    if random.bool() && !(first == Fault::Kill && second == Fault::Kill) {
        faults.push(second);
    }
    let time = Duration::from_millis(random.u64(500..3500));
    println!(
        "active {:7.1} s, round {number}: {faults:?} for {:.1} s",
        begin.elapsed().as_secs_f64(),
        time.as_secs_f64()
    );
    let addresses = (0..SERVERS).map(|region| regions.machines.address(region).into()).collect();
    let clients = Clients::start(addresses, number, random.fork());
    std::thread::sleep(Duration::from_millis(random.u64(100..600)));
    let mut kills = Vec::new();
    for fault in faults {
        let region = random.usize(..SERVERS);
        kills.extend(regions.make(fault, region, random, &clients));
        std::thread::sleep(Duration::from_millis(random.u64(0..300)));
    }
    std::thread::sleep(time);
    regions.mend();
    // Some writes arrive while the regions catch up.
    std::thread::sleep(Duration::from_millis(random.u64(0..600)));
    let operations = clients.stop();
    regions.wait_until_equal(&format!("after round {number}"));
    let found = ledger::judge(&operations, &kills, regions.machines.address(0).into());
    total.writes += found.writes;
    total.unknown += found.unknown;
    total.elements += found.elements;
    total.kills += kills.len();
    if !found.violations.is_empty() {
        regions.print_logs();
        panic!("round {number}: {:#?}", found.violations);
    }
    if random.bool() {
        // FLUSHALL removes everywhere what all regions have seen.
        let region = random.usize(..SERVERS);
        ask(regions.machines.address(region).into(), "FLUSHALL").expect("a reply");
        regions.wait_until_equal("after FLUSHALL");
        let size = ask(regions.machines.address(0).into(), "DBSIZE");
        assert_eq!(size.as_deref(), Some("0"), "keys have survived FLUSHALL");
    }
}

#[test]
fn active_active_regions_agree() {
    let rounds = number("BRAID_ROUNDS", 4);
    let Some(machines) = Machines::build() else { return };
    let mut regions = Regions::start(&machines);
    let mut random = source("active");
    let (begin, mut total) = (Instant::now(), Total::default());
    for number in 0..rounds {
        round(&mut regions, &mut random, number, begin, &mut total);
    }
    println!(
        "active: {rounds} rounds in {:.0} s, {} kills, {} acknowledged writes, {} of unknown outcome, {} elements judged: \
         equal digests after each round, nothing lost, nothing back",
        begin.elapsed().as_secs_f64(),
        total.kills,
        total.writes,
        total.unknown,
        total.elements,
    );
    assert!(total.writes as u64 > 100 * rounds, "too few writes");
}
