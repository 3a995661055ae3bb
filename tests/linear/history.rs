// SPDX-License-Identifier: BSD-3-Clause
//! Runs a round on many connections and records the times of its operations.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::Instant;

use braid_tests::client::ReadError;
use braid_tests::{RawClient, Value, words};

use crate::operation::{Event, Operation, key_name};
use crate::requests;
use crate::workload::Round;

/// The connections of a test.
pub struct Arena {
    clients: Vec<RawClient>,
    control: RawClient,
    start: Instant,
}

/// Number of keys, for all workloads.
const KEYS: u8 = 8;

impl Arena {
    pub fn new(server: SocketAddr, clients: usize) -> Arena {
        Arena::try_new(server, clients).expect("the server accepts connections")
    }

    /// `None` if the server does not accept connections.
    pub fn try_new(server: SocketAddr, clients: usize) -> Option<Arena> {
        let connect = || RawClient::tcp(server).ok();
        let clients = (0..clients).map(|_| connect()).collect::<Option<Vec<_>>>()?;
        let mut control = connect()?;
        // A server without functions replies with an error, which is ignored; only the scripts'
        // workloads call a function.
        control.try_send(&words::encode(&["FUNCTION", "LOAD", "REPLACE", &requests::library()])).ok()?;
        control.try_read().ok()?;
        Some(Arena { clients, control, start: Instant::now() })
    }

    /// Deletes the keys and runs a round, with a thread for each connection.
    pub fn run(&mut self, round: &Round) -> Result<Vec<Event>, ReadError> {
        let keys: Vec<String> = std::iter::once("DEL".to_owned()).chain((0..KEYS).map(key_name)).collect();
        self.control.try_send(&words::encode(&keys)).map_err(|_| ReadError::TimedOut)?;
        self.control.try_read()?;
        let start = self.start;
        let barrier = Barrier::new(self.clients.len());
        let barrier = &barrier;
        let histories: Vec<Result<Vec<Event>, ReadError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .clients
                .iter_mut()
                .zip(round)
                .enumerate()
                .map(|(number, (client, batches))| {
                    scope.spawn(move || {
                        barrier.wait();
                        run_client(number, client, batches, start)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a client thread does not panic")).collect()
        });
        Ok(histories.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }
}

fn run_client(
    number: usize,
    client: &mut RawClient,
    batches: &[Vec<Operation>],
    start: Instant,
) -> Result<Vec<Event>, ReadError> {
    let now = || start.elapsed().as_nanos() as u64;
    let mut events = Vec::new();
    for batch in batches {
        let request: Vec<u8> = batch
            .iter()
            .flat_map(Operation::commands)
            .map(|command| words::encode(&command))
            .collect::<Vec<_>>()
            .concat();
        let sent_ns = now();
        client.try_send(&request).map_err(|_| ReadError::TimedOut)?;
        for operation in batch {
            let mut reply = Value::Null;
            for _ in operation.commands() {
                reply = client.try_read()?;
            }
            let place = events.len();
            events.push(Event {
                client: number,
                place,
                operation: operation.clone(),
                reply,
                sent_ns,
                answered_ns: now(),
            });
        }
    }
    Ok(events)
}

/// A readable history: one line per operation, in the order of the replies.
pub fn describe(history: &[Event]) -> String {
    let mut events: Vec<&Event> = history.iter().collect();
    events.sort_by_key(|event| event.answered_ns);
    let first = events.iter().map(|event| event.sent_ns).min().unwrap_or(0);
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let commands: Vec<String> =
                event.operation.commands().iter().map(|command| words::line(command)).collect();
            format!(
                "  {:>9} to {:>9} us  client {}: {} -> {}",
                (event.sent_ns - first) / 1000,
                (event.answered_ns - first) / 1000,
                event.client,
                commands.join("; "),
                event.reply
            )
        })
        .collect();
    lines.join("\n")
}
