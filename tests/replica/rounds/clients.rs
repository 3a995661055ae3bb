// SPDX-License-Identifier: BSD-3-Clause
//! Clients that send random commands to the current primary, whichever server that is.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64};
use std::thread::JoinHandle;
use std::time::Duration;

use braid_tests::words::{encode, words};
use braid_tests::{RawClient, request, wait_for};

use super::commands::Commands;
use crate::generator::Generator;
use crate::workload::requests;

const THREADS: usize = 3;
/// Number of requests in a burst.
const BURST: usize = 4000;

/// Threads that write until stopped.
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    commands: Commands,
    /// The port of the current primary.
    port: AtomicU16,
    stop: AtomicBool,
    /// Number of completed batches.
    done: AtomicU64,
}

impl Clients {
    /// Starts to write to a server.
    pub fn start(port: u16, seed: u64, commands: &Commands) -> Clients {
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let shared = Shared { commands: commands.clone(), port: port.into(), stop, done };
        let shared = Arc::new(shared);
        let threads = (0..THREADS)
            .map(|number| {
                let (shared, seed) = (Arc::clone(&shared), seed.wrapping_add(number as u64));
                std::thread::spawn(move || run(&shared, number, seed))
            })
            .collect();
        Clients { shared, threads }
    }

    /// Switches to the new primary.
    pub fn go_to(&self, port: u16) {
        self.shared.port.store(port, SeqCst);
    }

    /// Waits until this many more batches are completed.
    pub fn go_on(&self, batches: u64) {
        let from = self.shared.done.load(SeqCst);
        wait_for("the clients make progress", || self.shared.done.load(SeqCst) >= from + batches);
    }

    /// Sends many writes together. Gives up on the replies if the server is slow.
    pub fn burst(&self) {
        let Some(mut client) = connect(self.shared.port.load(SeqCst)) else { return };
        let value = "b".repeat(150);
        let sent: Vec<u8> = (0..BURST)
            .flat_map(|number| match number % 50 {
                49 => request(&format!("MSET burst:{} 1 burst:{number} {number}", number / 2)),
                48 => request(&format!("RPUSH burst:list {number}")),
                _ => request(&format!("SET burst:{} {number}{value}", number % 700)),
            })
            .collect();
        if client.try_send(&sent).is_ok() {
            let _ = (0..BURST).try_for_each(|_| client.try_read().map(drop));
        }
    }

    /// Stops the threads.
    pub fn stop(self) {
        self.shared.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the client did not panic"));
    }
}

fn connect(port: u16) -> Option<RawClient> {
    RawClient::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()
}

fn run(shared: &Shared, number: usize, seed: u64) {
    let families = shared.commands.families();
    let mut generator = Generator::new(seed, &families);
    while !shared.stop.load(SeqCst) {
        let port = shared.port.load(SeqCst);
        let Some(mut client) = connect(port) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        while !shared.stop.load(SeqCst) && shared.port.load(SeqCst) == port {
            let lines = batch(&mut generator, number, &shared.commands);
            let bytes: Vec<u8> = lines.iter().map(|line| encode(line)).collect::<Vec<_>>().concat();
            let is_sent = client.try_send(&bytes).is_ok();
            if !is_sent || lines.iter().any(|_| client.try_read().is_err()) {
                break;
            }
            shared.done.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_micros(generator.random().u64(..3000)));
        }
    }
}

/// A batch of commands that are sent together.
fn batch(generator: &mut Generator, number: usize, commands: &Commands) -> Vec<Vec<Vec<u8>>> {
    if generator.random().bool() {
        return requests(number, generator.random()).iter().map(|line| words(line)).collect();
    }
    let len = generator.random().usize(1..30);
    let lines: Vec<Vec<Vec<u8>>> = (0..len).map(|_| generator.command()).collect();
    lines.into_iter().filter(|line| commands.allow(line, generator.random())).collect()
}
