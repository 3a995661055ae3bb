// SPDX-License-Identifier: BSD-3-Clause
//! Machines: network namespaces connected by a switch, each with an address of its own. Traffic
//! between two machines can be cut in either direction.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of machines for servers.
pub const SERVERS: usize = 3;
/// Machines for servers, and as many for etcd or Sentinel.
pub const MACHINES: usize = 2 * SERVERS;

/// The namespaces, which are deleted on drop.
pub struct Machines {
    prefix: String,
    subnet: u8,
    /// The names contain the process ID, so only one test may run at a time.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

/// Runs `ip`; true if it succeeds.
fn ip(words: &str) -> bool {
    let ran = Command::new("ip").args(words.split_whitespace()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

impl Machines {
    /// Creates the machines. `None` if that is not possible here, with a note.
    pub fn build() -> Option<Machines> {
        let number = std::process::id() % 10_000;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (prefix, subnet) = (format!("bn{number}"), (number % 250) as u8);
        let machines = Machines { prefix, subnet, _turn: turn };
        let built = machines.link();
        if !built {
            println!("skipped: network namespaces need root and ip (iproute2)");
            let is_wanted =
                ["BRAID_MINUTES", "BRAID_ROUNDS"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!is_wanted, "no network namespaces");
        }
        built.then_some(machines)
    }

    fn link(&self) -> bool {
        let (prefix, switch) = (&self.prefix, self.switch());
        let mut is_built = ip(&format!("netns add {switch}"))
            && ip(&format!("-n {switch} link add name sw type bridge"))
            && ip(&format!("-n {switch} link set sw up"))
            && ip(&format!("link add name {prefix}c type veth peer name pc netns {switch}"))
            && ip(&format!("-n {switch} link set pc master sw up"))
            && ip(&format!("addr add {}/24 dev {prefix}c", self.client_address()))
            && ip(&format!("link set {prefix}c up"));
        for machine in 0..MACHINES {
            let name = self.name(machine);
            is_built = is_built
                && ip(&format!("netns add {name}"))
                && ip(&format!("-n {name} link set lo up"))
                && ip(&format!("-n {name} link add name eth0 type veth peer name p{machine} netns {switch}"))
                && ip(&format!("-n {switch} link set p{machine} master sw up"))
                && ip(&format!("-n {name} addr add {}/24 dev eth0", self.address(machine)))
                && ip(&format!("-n {name} link set eth0 up"));
        }
        is_built
    }

    fn switch(&self) -> String {
        format!("{}sw", self.prefix)
    }

    fn name(&self, machine: usize) -> String {
        format!("{}m{machine}", self.prefix)
    }

    pub fn address(&self, machine: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, machine as u8 + 1)
    }

    fn client_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 100)
    }

    /// A command that runs on a machine. `ip` executes the program in its place, so the process
    /// ID is the program's.
    pub fn command(&self, machine: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(machine), program]);
        command
    }

    /// From now on nothing that `from` sends arrives at `to`.
    pub fn cut(&self, from: usize, to: usize) {
        ip(&format!("-n {} route add blackhole {}/32", self.name(from), self.address(to)));
    }

    /// Restores all connections.
    pub fn heal(&self) {
        for from in 0..MACHINES {
            for to in (0..MACHINES).filter(|&to| to != from) {
                ip(&format!("-n {} route del blackhole {}/32", self.name(from), self.address(to)));
            }
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in (0..MACHINES).map(|machine| self.name(machine)).chain([self.switch()]) {
            ip(&format!("netns del {name}"));
        }
        ip(&format!("link del {}c", self.prefix));
    }
}
