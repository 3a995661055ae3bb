// SPDX-License-Identifier: BSD-3-Clause
//! A client that increments a counter continuously, follows the primary, and records the
//! acknowledged values.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value};

use crate::says_primary;

/// Time limit for a reply, after which the client tries another server.
const PATIENCE: Duration = Duration::from_millis(300);

/// The client's observations.
#[derive(Debug)]
pub struct Seen {
    /// The highest acknowledged count.
    pub acknowledged: i64,
    /// The longest time without an acknowledgement.
    pub gap: Duration,
    /// True if an acknowledged count was lower than an earlier one.
    pub went_back: bool,
}

/// The running client.
pub struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicI64>,
    thread: JoinHandle<Seen>,
}

impl Writer {
    /// Starts to count with `INCR n`. `durable`: replies wait for the in-sync set.
    pub fn start(servers: &[TestServer], durable: bool) -> Writer {
        let addresses: Vec<SocketAddr> = servers.iter().map(TestServer::address).collect();
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let (ends, count) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let thread = std::thread::spawn(move || run(&addresses, durable, &ends, &count));
        Writer { stop, acknowledged, thread }
    }

    /// The highest acknowledged count so far.
    pub fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Relaxed)
    }

    pub fn stop(self) -> Seen {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("the writer does not panic")
    }
}

fn run(addresses: &[SocketAddr], durable: bool, stop: &AtomicBool, count: &AtomicI64) -> Seen {
    let mut seen = Seen { acknowledged: 0, gap: Duration::ZERO, went_back: false };
    let mut last = Instant::now();
    let mut client = None;
    while !stop.load(Relaxed) {
        let Some(primary) = &mut client else {
            client = addresses.iter().find_map(|&address| primary_at(address, durable));
            continue;
        };
        if primary.try_send(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n").is_err() {
            client = None;
            continue;
        }
        match primary.try_read() {
            Ok(Value::Integer(number)) => {
                seen.went_back |= number <= seen.acknowledged;
                seen.acknowledged = number;
                count.store(number, Relaxed);
                seen.gap = seen.gap.max(last.elapsed());
                last = Instant::now();
            }
            _ => client = None,
        }
    }
    seen
}

/// A connection to the server, if it is a primary that serves.
fn primary_at(address: SocketAddr, durable: bool) -> Option<RawClient> {
    let mut client = RawClient::tcp(address).ok()?;
    client.set_patience(PATIENCE).ok()?;
    if !says_primary(&mut client) {
        return None;
    }
    if durable {
        client.try_send(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nDURABLE\r\n$2\r\nON\r\n").ok()?;
        let reply = client.try_read().ok()?.to_string();
        assert!(reply.contains("OK"), "{reply}");
    }
    Some(client)
}
