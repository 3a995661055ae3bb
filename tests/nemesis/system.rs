// SPDX-License-Identifier: BSD-3-Clause
//! The system under test: a group on etcd, with or without synchronous writes, in memory or on
//! disk, or stock Redis under Sentinel. Servers are on the first machines, etcd or Sentinel on the
//! others.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use braid_tests::process::shifted_clock;
use braid_tests::server::{program_under_test, stock};
use braid_tests::small_disk::Place;
use braid_tests::{RawClient, folders, wait_for_within};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::machines::{MACHINES, Machines, SERVERS};

pub const PORT: u16 = 6379;
/// Time limit for complete recovery. Generous: only a failing test reaches it.
const RECOVERY: Duration = Duration::from_secs(120);
/// Bytes of a server's disk, where it has one of its own.
const DISK: u64 = 128 << 20;
/// The file that fills a disk.
const BALLAST: &str = "ballast";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SystemKind {
    Synchronous,
    /// Synchronous, and acknowledged only once it is on disk; each server has a small disk of its
    /// own.
    OnDisk,
    Asynchronous,
    Sentinel,
}

impl SystemKind {
    /// True if no acknowledged write may be lost.
    pub fn is_synchronous(self) -> bool {
        matches!(self, SystemKind::Synchronous | SystemKind::OnDisk)
    }

    pub fn of(name: &str) -> SystemKind {
        match name {
            "sync" => SystemKind::Synchronous,
            "disk" => SystemKind::OnDisk,
            "async" => SystemKind::Asynchronous,
            "sentinel" => SystemKind::Sentinel,
            _ => panic!("unknown system {name}: expected sync, disk, async or sentinel"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SystemKind::Synchronous => "sync",
            SystemKind::OnDisk => "disk",
            SystemKind::Asynchronous => "async",
            SystemKind::Sentinel => "sentinel",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            SystemKind::Synchronous => "group, `sync-writes yes`, `min-sync-replicas 1`",
            SystemKind::OnDisk => "group, `sync-writes yes`, `min-sync-replicas 1`, `sync-level disk`",
            SystemKind::Asynchronous => "group, `sync-writes no`",
            SystemKind::Sentinel => "stock Redis 7.0 and three Sentinels",
        }
    }
}

/// A process that can be killed and restarted.
pub struct Process {
    machine: usize,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, OsString)>,
    child: Option<Child>,
}

impl Process {
    /// A process that has not been started yet.
    pub fn new(
        machine: usize,
        program: &str,
        arguments: Vec<String>,
        environment: Vec<(&'static str, OsString)>,
    ) -> Process {
        Process { machine, program: program.to_owned(), arguments, environment, child: None }
    }

    /// True if it was started and has neither been killed nor ended by itself.
    pub fn is_up(&mut self) -> bool {
        if self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some())) {
            self.child = None;
        }
        self.child.is_some()
    }

    pub fn start(&mut self, machines: &Machines, folder: &Path) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
        let log = log.expect("a log file");
        let mut command = machines.command(self.machine, &self.program);
        command.args(&self.arguments).current_dir(folder);
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.child = Some(command.spawn().expect("ip starts"));
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// The processes. Dropping it kills them.
pub struct System {
    pub kind: SystemKind,
    /// One per machine.
    processes: Vec<Process>,
    folders: Vec<Place>,
    addresses: Vec<SocketAddr>,
}

impl System {
    /// Starts all processes, and waits until all servers are in sync. `None` if a prerequisite is
    /// missing.
    pub fn start(kind: SystemKind, machines: &Machines) -> Option<System> {
        let programs = match kind {
            SystemKind::Sentinel => {
                let Some(redis) = stock() else {
                    println!("skipped: no redis-server");
                    return None;
                };
                let program = redis.program.display().to_string();
                [program.clone(), program]
            }
            _ => [
                program_under_test().display().to_string(),
                braid_tests::etcd::program()?.display().to_string(),
            ],
        };
        let folder = |machine: usize| match kind {
            SystemKind::OnDisk if machine < SERVERS => Place::disk(DISK),
            _ => Some(Place::folder()),
        };
        let folders: Vec<Place> = (0..2 * SERVERS).map(folder).collect::<Option<_>>()?;
        let addresses =
            (0..SERVERS).map(|machine| SocketAddr::new(machines.address(machine).into(), PORT)).collect();
        let mut processes: Vec<Process> = Vec::new();
        for (machine, folder) in folders.iter().enumerate() {
            let is_server = machine < SERVERS;
            let arguments = match (kind, is_server) {
                (SystemKind::Sentinel, true) => redis(machines, machine, folder.path()),
                (SystemKind::Sentinel, false) => sentinel(machines, folder.path()),
                (_, true) => braid(machines, machine, kind),
                (_, false) => etcd(machines, machine),
            };
            let by = match machine {
                1 => Some("+1d"),
                2 => Some("-1d"),
                _ => None,
            };
            let by = by.filter(|_| is_server && kind != SystemKind::Sentinel);
            let environment = by.and_then(shifted_clock).unwrap_or_default();
            let program = programs[usize::from(!is_server)].clone();
            processes.push(Process::new(machine, &program, arguments, environment));
        }
        for (process, folder) in processes.iter_mut().zip(&folders).rev() {
            process.start(machines, folder.path());
        }
        let mut system = System { kind, processes, folders, addresses };
        system.recover_and_wait_for_sync(machines);
        Some(system)
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// A server's INFO; `None` without a reply.
    fn info(&self, server: usize) -> Option<String> {
        let socket =
            std::net::TcpStream::connect_timeout(&self.addresses[server], Duration::from_millis(500)).ok()?;
        let mut client = RawClient::from_tcp(socket).ok()?;
        client.set_patience(Duration::from_millis(500)).ok()?;
        client.try_send(b"INFO everything\r\n").ok()?;
        client.try_read().ok().map(|reply| reply.text())
    }

    /// The server that claims to be the primary.
    pub fn primary(&self) -> Option<usize> {
        (0..SERVERS).find(|&server| self.info(server).is_some_and(|info| info.contains("\r\nrole:master")))
    }

    /// True if one server is the primary, and all others follow it and have all data.
    pub fn is_whole(&self) -> bool {
        let infos: Vec<Option<String>> = (0..SERVERS).map(|server| self.info(server)).collect();
        let says = |what: &str| infos.iter().flatten().filter(|info| info.contains(what)).count();
        let others = SERVERS - 1;
        // Sentinel may leave a replica connected to another replica.
        let is_linked = says("\r\nrole:master") == 1
            && says("\r\nmaster_link_status:up") == others
            && says("master_sync_in_progress:1") == 0;
        let is_in_sync = |info: &String| {
            let set = info.lines().find_map(|line| line.strip_prefix("group_in_sync:"));
            set.is_some_and(|set| set.split(',').count() == SERVERS)
        };
        is_linked && (self.kind == SystemKind::Sentinel || infos.iter().flatten().all(is_in_sync))
    }

    /// Frees full disks, restarts killed processes, resumes stopped ones, and waits until all
    /// servers are in sync. False if that does not happen under Sentinel; for a Braid group it is a
    /// test failure.
    pub fn recover_and_wait_for_sync(&mut self, machines: &Machines) -> bool {
        machines.heal();
        for machine in 0..self.processes.len() {
            self.processes[machine].signal(Signal::CONT);
            self.free_disk(machine);
            if !self.processes[machine].is_up() {
                self.restart(machine, machines);
            }
        }
        let is_whole = wait_for_within(RECOVERY, || self.is_whole());
        if !is_whole {
            self.print_logs();
            println!("{}: it did not become whole", self.kind.name());
            assert!(self.kind == SystemKind::Sentinel);
        }
        is_whole
    }

    pub fn restart(&mut self, machine: usize, machines: &Machines) {
        self.processes[machine].start(machines, self.folders[machine].path());
    }

    pub fn kill(&mut self, machine: usize) {
        self.processes[machine].kill();
    }

    pub fn signal(&self, machine: usize, signal: Signal) {
        self.processes[machine].signal(signal);
    }

    /// Fills a server's disk, so that nothing more can be written to it.
    pub fn fill_disk(&self, server: usize) {
        let mut ballast = std::fs::File::create(self.folders[server].path().join(BALLAST)).expect("a file");
        for len in [1 << 20, 1 << 10] {
            while ballast.write_all(&vec![0; len]).is_ok() {}
        }
    }

    fn free_disk(&self, machine: usize) {
        let _ = std::fs::remove_file(self.folders[machine].path().join(BALLAST));
    }

    /// A copy of a server's folder, taken while it runs.
    pub fn copy_folder(&self, server: usize) -> TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        folders::copy(self.folders[server].path(), copy.path(), is_no_data);
        copy
    }

    /// Puts an earlier copy in place of the folder of a server that does not run. Its log stays.
    pub fn put_copy(&self, server: usize, copy: &TempDir) {
        let folder = self.folders[server].path();
        folders::clear(folder, |name| name == "log" || name == "lost+found");
        folders::copy(copy.path(), folder, is_no_data);
    }

    /// Makes the primary hand over, if it can.
    pub fn hand_over(&self, primary: usize) {
        let Ok(mut client) = RawClient::tcp(self.addresses[primary]) else { return };
        let _ = client.set_patience(Duration::from_secs(1));
        let _ = client.try_send(b"FAILOVER TIMEOUT 1000\r\n");
        let _ = client.try_read();
    }

    pub fn print_logs(&self) {
        for (machine, folder) in self.folders.iter().enumerate().take(SERVERS) {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            println!("---- log of server {machine}\n{log}");
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }
}

/// What is not part of a copy of a server's folder.
fn is_no_data(name: &OsStr) -> bool {
    name == "log" || name == "lost+found" || name == BALLAST
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The addresses of the etcd members.
pub fn etcd_endpoints(machines: &Machines) -> String {
    let endpoints: Vec<String> =
        (SERVERS..MACHINES).map(|other| format!("{}:2379", machines.address(other))).collect();
    endpoints.join(",")
}

fn braid(machines: &Machines, machine: usize, kind: SystemKind) -> Vec<String> {
    let (own, level) = (machines.address(machine), if kind.is_synchronous() { "yes" } else { "no" });
    // The file is rewritten long before it fills the disk.
    let files = match kind {
        SystemKind::OnDisk => {
            "--sync-level disk --appendonly yes --appendfsync always --auto-aof-rewrite-min-size 8mb"
        }
        _ => "",
    };
    words(&format!(
        "--port {PORT} --bind {own} --protected-mode no --save __ --repl-diskless-sync-delay 0 \
         --repl-timeout 10 --group-name nemesis --node-name n{machine} --etcd-endpoints {} --sync-writes {level} \
         --min-sync-replicas {} {files}",
        etcd_endpoints(machines),
        u8::from(kind.is_synchronous())
    ))
    .into_iter()
    .map(|word| if word == "__" { String::new() } else { word })
    .collect()
}

pub fn etcd(machines: &Machines, machine: usize) -> Vec<String> {
    let own = machines.address(machine);
    let members: Vec<String> = (SERVERS..2 * SERVERS)
        .map(|other| format!("e{other}=http://{}:2380", machines.address(other)))
        .collect();
    words(&format!(
        "--name e{machine} --data-dir data --listen-client-urls http://{own}:2379 \
         --advertise-client-urls http://{own}:2379 --listen-peer-urls http://{own}:2380 \
         --initial-advertise-peer-urls http://{own}:2380 --initial-cluster {}",
        members.join(",")
    ))
}

/// With a configuration file, in which Sentinel records the replication topology.
fn redis(machines: &Machines, machine: usize, folder: &Path) -> Vec<String> {
    let own = machines.address(machine);
    let mut settings = format!(
        "port {PORT}\nbind {own}\nprotected-mode no\nsave \"\"\nrepl-diskless-sync-delay 0\nrepl-timeout 10\n"
    );
    if machine > 0 {
        settings += &format!("replicaof {} {PORT}\n", machines.address(0));
    }
    configured(folder, "redis.conf", &settings)
}

/// Writes a configuration file; returns the arguments that name it.
fn configured(folder: &Path, name: &str, settings: &str) -> Vec<String> {
    let path = folder.join(name);
    std::fs::write(&path, settings).expect("a configuration file");
    vec![path.display().to_string()]
}

fn sentinel(machines: &Machines, folder: &Path) -> Vec<String> {
    let settings = format!(
        "port 26379\nprotected-mode no\nsentinel monitor m {} {PORT} 2\n\
         sentinel down-after-milliseconds m 1500\nsentinel failover-timeout m 5000\n",
        machines.address(0)
    );
    let mut arguments = configured(folder, "sentinel.conf", &settings);
    arguments.push("--sentinel".into());
    arguments
}
