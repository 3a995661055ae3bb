// SPDX-License-Identifier: BSD-3-Clause
//! A cluster of processes for a comparison, without replicas; each gets its share of the slots.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use braid_base::crc::HASH_SLOTS;
use braid_client::{Address, Connection, Info, Target};

use crate::server::Server;

/// Offset of a stock server's bus port from its port.
const BUS: u16 = 10_000;
/// Timeout until all nodes know each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts `count` processes and joins them into a cluster. A server that already has all slots
/// (Braid alone) is left unchanged.
///
/// # Errors
/// If a server cannot be started or refuses to join, or the nodes do not form a cluster within a
/// minute.
pub fn start(
    command: &str,
    count: usize,
    base: &Target,
    processors: &[usize],
) -> Result<Vec<Server>, String> {
    let mut line = command.to_owned();
    if !line.contains("cluster-enabled") {
        line += " --cluster-enabled yes";
    }
    let start = |_| Server::start_at(&line, base, processors, port_with_bus);
    let servers: Vec<Server> = (0..count).map(start).collect::<Result<_, _>>()?;
    let mut nodes = Vec::new();
    for server in &servers {
        nodes.push(Connection::open(&server.target).map_err(|error| error.to_string())?);
    }
    if count == 1 && state(&mut nodes[0])?.number("cluster_slots_assigned") == Some(f64::from(HASH_SLOTS)) {
        return Ok(servers);
    }
    for (index, node) in nodes.iter_mut().enumerate() {
        let share = |index: usize| index * usize::from(HASH_SLOTS) / count;
        let (first, last) = (share(index).to_string(), (share(index + 1) - 1).to_string());
        ask(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        if let Address::Tcp { host, port } = &servers[0].target.address
            && index > 0
        {
            ask(node, &["CLUSTER", "MEET", host, &port.to_string()])?;
        }
    }
    let begin = Instant::now();
    for node in &mut nodes {
        loop {
            let state = state(node)?;
            if state.get("cluster_state") == Some("ok")
                && state.number("cluster_size") == Some(count as f64)
                && state.number("cluster_known_nodes") == Some(count as f64)
            {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("{line}: the nodes did not form a cluster within a minute"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(servers)
}

fn ask(node: &mut Connection, words: &[&str]) -> Result<String, String> {
    let reply = node.expect(words).map_err(|error| format!("{}: {error}", words.join(" ")))?;
    Ok(reply.text())
}

fn state(node: &mut Connection) -> Result<Info, String> {
    Ok(Info::parse(&ask(node, &["CLUSTER", "INFO"])?))
}

/// A free port whose bus port is also free.
fn port_with_bus() -> std::io::Result<u16> {
    let listen = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let first = 15_000 + (std::process::id() % 15_000) as u16;
    for port in (first..40_000).chain(10_000..first) {
        if listen(port).is_ok() && listen(port + BUS).is_ok() {
            return Ok(port);
        }
    }
    Err(std::io::Error::from(std::io::ErrorKind::AddrInUse))
}
