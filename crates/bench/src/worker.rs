// SPDX-License-Identifier: BSD-3-Clause
//! A thread of the load generator: its connections, one poller, and the loop that keeps them busy.
//!
//! HOT PATH: one receive and one send per connection and batch, no allocation, no lock; one clock
//! reading for each.
//!
//! Closed loop (no rate given): a connection sends a batch of `pipeline` requests, waits for all
//! replies and sends the next, like redis-benchmark. Open loop: requests are due at fixed times, on
//! each connection in turn; a connection sends due requests unless `pipeline` requests are in
//! flight on it, and latency counts from the due time, not from the time of sending. Therefore a
//! stalled server is charged for all requests that had to wait (no coordinated omission).

mod open_loop;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use braid_base::clock::Ticks;
use braid_client::connection::encode;
use braid_client::{Stream, Target, cannot_connect};
use braid_net::poller::{Interest, Poller};
use socket2::SockAddr;

use crate::cluster::ClusterMap;
use crate::recorder::{Live, Recorder, Replies};
use crate::reply_scanner::{Class, ReplyScanner, Sink};
use crate::request::{Generator, Load, Sequences};
use crate::routing::{Flight, Router};
use crate::tally::{Histogram, Tally, new_histogram};

/// The settings of a pass; shared by all threads.
pub struct Pass {
    pub load: Arc<Load>,
    pub sequences: Sequences,
    pub pipeline: usize,
    /// Total requests of all threads; `None`: until the time is over.
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    /// Open loop: the total rate of all threads.
    pub rate: Option<Rate>,
    /// Close and reopen a connection after each batch.
    pub reconnect: bool,
    pub seed: u64,
    /// Requests claimed so far.
    pub claimed: AtomicU64,
    /// Ends the pass early.
    pub stop: Arc<AtomicBool>,
    /// The threads' running counters, for progress.
    pub live: Vec<Live>,
}

/// The rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    /// Arrivals at random (a Poisson process) instead of evenly spaced.
    pub poisson: bool,
}

/// Timeout for the last replies after the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// The same timeout after an interrupt.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum bytes of requests encoded at a time. Unsent bytes are sent before more requests are
/// encoded.
const PIECE_LEN: usize = 256 * 1024;
/// Receive size in bytes.
const RECEIVE_LEN: usize = 256 * 1024;
/// Maximum time between two checks of the stop flag.
const NAP_MAX: Duration = Duration::from_millis(100);

/// A thread's connections and buffers; reused for many passes.
pub struct Worker {
    number: usize,
    threads: usize,
    target: Target,
    address: SockAddr,
    /// Connections are spread over these nodes.
    cluster: Option<Arc<ClusterMap>>,
    poller: Poller,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    /// Cluster: the node's number.
    node: usize,
    /// Cluster: the requests in flight.
    flight: Flight,
    scanner: ReplyScanner,
    interest: Interest,
    /// Bytes that the socket has not accepted yet.
    leftover: Vec<u8>,
    leftover_sent: usize,
    /// Outstanding replies to AUTH, HELLO, SELECT.
    greeting: usize,
    /// A batch is in progress (closed loop).
    is_busy: bool,
    /// Requests of the present batch that are not encoded yet.
    unmade: usize,
    /// Requests in flight.
    under_way: usize,
    /// Their kinds, if there are several.
    kinds: VecDeque<u8>,
    /// Start of the present batch (closed loop).
    begun: Ticks,
    /// Open loop, in nanoseconds from the start of the pass: due times of unsent requests, and of
    /// those in flight.
    due: VecDeque<u64>,
    due_under_way: VecDeque<u64>,
}

/// The reason for a thread's failure.
pub type Failure = String;

impl Worker {
    /// Opens the thread's share of the connections and waits until all are ready.
    ///
    /// # Errors
    /// If a connection fails, or the server refuses the greeting.
    pub fn connect(
        number: usize,
        threads: usize,
        connections: usize,
        target: &Target,
        address: &SockAddr,
        cluster: Option<Arc<ClusterMap>>,
    ) -> Result<Worker, Failure> {
        let poller = Poller::new().map_err(|error| error.to_string())?;
        let mut worker = Worker {
            number,
            threads,
            target: target.clone(),
            address: address.clone(),
            cluster,
            poller,
            connections: Vec::with_capacity(connections),
            buffer: vec![0; RECEIVE_LEN],
        };
        for place in 0..connections {
            let node = worker.cluster.as_ref().map_or(0, |cluster| place % cluster.node_count());
            let connection = worker.open(place, node, true)?;
            worker.connections.push(connection);
            // In small groups, so that the server's accept queue does not overflow.
            if place % 64 == 63 {
                worker.greet()?;
            }
        }
        worker.greet()?;
        Ok(worker)
    }

    fn open(&self, place: usize, node: usize, check: bool) -> Result<Connection, Failure> {
        let at_node = self.cluster.as_ref().map(|cluster| cluster.node(node));
        let (target, address) = match &at_node {
            Some((target, address)) => (target, address),
            None => (&self.target, &self.address),
        };
        let stream =
            target.connect_later(address).map_err(|error| cannot_connect(&target.address, &error))?;
        let mut leftover = Vec::new();
        let mut commands = target.greeting();
        if commands.is_empty() && check {
            // Detects a connection that is accepted but not served now, rather than during the
            // measurement.
            commands.push(vec!["PING".into()]);
        }
        commands.iter().for_each(|command| encode(command, &mut leftover));
        self.poller
            .add(&stream, place as u64, Interest::ReadWrite)
            .map_err(|error| format!("cannot poll a connection: {error}"))?;
        Ok(Connection {
            stream,
            node,
            flight: Flight::default(),
            scanner: ReplyScanner::default(),
            interest: Interest::ReadWrite,
            leftover,
            leftover_sent: 0,
            greeting: commands.len(),
            is_busy: false,
            unmade: 0,
            under_way: 0,
            kinds: VecDeque::new(),
            begun: Ticks::now(),
            due: VecDeque::new(),
            due_under_way: VecDeque::new(),
        })
    }

    /// Runs until all greetings are answered.
    fn greet(&mut self) -> Result<(), Failure> {
        let start = Ticks::now();
        let mut nothing = Recorder::new(0, None);
        let mut routes = None;
        while self.connections.iter().any(|connection| connection.greeting > 0) {
            let count = self.poller.wait(Some(NAP_MAX)).map_err(|error| error.to_string())?;
            for index in 0..count {
                let event = self.poller.event(index);
                let connection = &mut self.connections[event.token as usize];
                if event.writable {
                    connection.send_leftover()?;
                }
                if event.readable {
                    connection.receive(&mut self.buffer, &mut nothing, &mut routes)?;
                }
                connection.watch(&self.poller, event.token)?;
            }
            if Ticks::now().nanos_since(start) > DRAIN_PATIENCE.as_nanos() as u64 {
                return Err("the server does not accept new connections".into());
            }
        }
        Ok(())
    }

    /// Runs this thread's part of a pass.
    ///
    /// # Errors
    /// If a connection fails and is not to be reopened, or a reply is malformed.
    pub fn run(&mut self, pass: &Pass) -> Result<Tally, Failure> {
        let seed = pass.seed.wrapping_add((self.number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let generator = Generator::new(&pass.load, &pass.sequences, seed, pass.pipeline);
        let piece = (PIECE_LEN / generator.request_len().max(1)).clamp(1, pass.pipeline);
        let mut run = Run {
            pass,
            generator,
            router: self.cluster.as_ref().map(|cluster| Router::new(cluster, &pass.load, pass.pipeline)),
            piece,
            recorder: Recorder::new(pass.load.kinds.len(), Some(&pass.live[self.number])),
            start: Ticks::now(),
            sent_bytes: 0,
            waits: 0,
            ended: false,
            lag: new_histogram(),
        };
        let processor_before = thread_processor_time();
        match pass.rate {
            None => self.closed_loop(&mut run)?,
            Some(rate) => self.open_loop(&mut run, rate)?,
        }
        let processor = thread_processor_time().saturating_sub(processor_before);
        let unsent = self.connections.iter().map(|connection| connection.due.len() as u64).sum::<u64>()
            + run
                .router
                .as_ref()
                .filter(|_| pass.rate.is_some())
                .map_or(0, |router| router.waiting_due().count() as u64);
        self.connections.iter_mut().for_each(|connection| connection.due.clear());
        let redirected = run.router.as_ref().map_or(0, |router| router.redirected);
        let recorder = run.recorder;
        Ok(Tally {
            kinds: recorder.kinds,
            error_codes: recorder.error_codes,
            pushes: recorder.pushes,
            received_bytes: recorder.received_bytes,
            sent_bytes: run.sent_bytes,
            begun: run.start,
            ended: recorder.last.unwrap_or(run.start),
            processor,
            waits: run.waits,
            unsent,
            redirected,
            lag: run.lag,
        })
    }

    /// Opens connections to nodes that have none: the cluster has grown.
    fn open_to_new_nodes(&mut self) -> Result<(), Failure> {
        let Some(cluster) = self.cluster.clone() else { return Ok(()) };
        for node in 0..cluster.node_count() {
            if !self.connections.iter().any(|connection| connection.node == node) {
                let connection = self.open(self.connections.len(), node, true)?;
                self.connections.push(connection);
            }
        }
        Ok(())
    }

    fn closed_loop(&mut self, run: &mut Run<'_>) -> Result<(), Failure> {
        let mut busy = 0;
        for connection in &mut self.connections {
            busy += usize::from(connection.next_batch(run)?);
        }
        self.watch_all()?;
        let mut drain = Drain::default();
        let mut idle: Vec<usize> = Vec::with_capacity(self.connections.len());
        while busy > 0 || run.has_routed() {
            if run.router.is_some() {
                busy += self.wake(run)?;
            }
            let count = self.poller.wait(Some(NAP_MAX)).map_err(|error| error.to_string())?;
            run.waits += 1;
            if count == 0 {
                run.look_for_the_end();
            }
            if drain.is_over(count == 0 && run.ended, run.pass)? {
                break;
            }
            for index in 0..count {
                let event = self.poller.event(index);
                let place = event.token as usize;
                let connection = &mut self.connections[place];
                if event.writable && connection.interest == Interest::ReadWrite {
                    connection.send_leftover()?;
                }
                if event.readable {
                    connection.receive(&mut self.buffer, &mut run.recorder, &mut run.router)?;
                }
                if connection.unmade > 0 {
                    connection.make(run)?;
                } else if connection.is_busy && connection.under_way == 0 && connection.greeting == 0 {
                    idle.push(place);
                    continue;
                }
                connection.watch(&self.poller, event.token)?;
            }
            // Sends only after all replies have been received: the server is woken once for many
            // requests, as it would be by many clients.
            for place in idle.drain(..) {
                if run.pass.reconnect {
                    let node = self.connections[place].node;
                    self.connections[place] = self.open(place, node, false)?;
                }
                let connection = &mut self.connections[place];
                busy -= usize::from(!connection.next_batch(run)?);
                connection.watch(&self.poller, place as u64)?;
            }
        }
        if run.pass.reconnect {
            self.greet()?;
        }
        Ok(())
    }

    /// Cluster: starts batches on idle connections that have requests now. Returns the number of
    /// batches.
    fn wake(&mut self, run: &mut Run<'_>) -> Result<usize, Failure> {
        if run.router.as_mut().is_some_and(Router::has_new_nodes) {
            self.open_to_new_nodes()?;
        }
        let mut woken = 0;
        for (place, connection) in self.connections.iter_mut().enumerate() {
            if !connection.is_busy && connection.next_batch(run)? {
                woken += 1;
                connection.watch(&self.poller, place as u64)?;
            }
        }
        Ok(woken)
    }

    fn watch_all(&mut self) -> Result<(), Failure> {
        for (place, connection) in self.connections.iter_mut().enumerate() {
            connection.watch(&self.poller, place as u64)?;
        }
        Ok(())
    }
}

/// Gives up on missing replies.
#[derive(Default)]
struct Drain {
    since: Option<Ticks>,
}

impl Drain {
    /// Called after each wait. True if an interrupted pass has waited long enough.
    fn is_over(&mut self, waiting: bool, pass: &Pass) -> Result<bool, Failure> {
        if !waiting {
            self.since = None;
            return Ok(false);
        }
        let since = *self.since.get_or_insert_with(Ticks::now);
        let waited = Duration::from_nanos(Ticks::now().nanos_since(since));
        if pass.stop.load(Relaxed) {
            return Ok(waited > INTERRUPT_PATIENCE);
        }
        if waited > DRAIN_PATIENCE {
            Err("no reply for 10 seconds after the last request".into())
        } else {
            Ok(false)
        }
    }
}

/// A pass in progress on one thread.
struct Run<'a> {
    pass: &'a Pass,
    generator: Generator,
    /// Cluster: routes requests to nodes.
    router: Option<Router>,
    /// Requests encoded at a time.
    piece: usize,
    recorder: Recorder<'a>,
    start: Ticks,
    sent_bytes: u64,
    waits: u64,
    ended: bool,
    /// Delay of requests that could have been sent: caused by the generator itself.
    lag: Histogram,
}

impl Run<'_> {
    fn nanos(&self, now: Ticks) -> u64 {
        now.nanos_since(self.start)
    }

    fn look_for_the_end(&mut self) {
        let now = Ticks::now();
        self.look_for_the_end_at(now);
    }

    #[inline]
    fn look_for_the_end_at(&mut self, now: Ticks) {
        let over =
            self.pass.duration.is_some_and(|duration| u128::from(self.nanos(now)) >= duration.as_nanos());
        self.ended |= over || self.pass.stop.load(Relaxed);
    }

    /// Cluster: true if drawn requests are still unsent.
    fn has_routed(&self) -> bool {
        !self.ended && self.router.as_ref().is_some_and(Router::has_requests)
    }

    /// Cluster: prepares up to `count` requests for a node and returns how many are ready.
    /// Otherwise claims up to `count` requests.
    #[inline]
    fn prepare(&mut self, node: usize, count: usize) -> usize {
        let Some(mut router) = self.router.take() else { return self.claim(count) };
        router.prepare(node, count, &mut self.generator, |wanted| {
            let Some(requests) = self.pass.requests else { return wanted };
            let before = self.pass.claimed.fetch_add(wanted as u64, Relaxed);
            requests.saturating_sub(before).min(wanted as u64) as usize
        });
        let ready = router.ready(node).min(count);
        self.router = Some(router);
        ready
    }

    /// Claims up to `count` of the remaining requests.
    #[inline]
    fn claim(&mut self, count: usize) -> usize {
        let Some(requests) = self.pass.requests else { return count };
        let before = self.pass.claimed.fetch_add(count as u64, Relaxed);
        requests.saturating_sub(before).min(count as u64) as usize
    }
}

impl Connection {
    /// Starts a batch (closed loop). False if there are no requests left.
    fn next_batch(&mut self, run: &mut Run<'_>) -> Result<bool, Failure> {
        let now = Ticks::now();
        run.look_for_the_end_at(now);
        self.is_busy = false;
        if run.ended {
            return Ok(false);
        }
        self.unmade = run.prepare(self.node, run.pass.pipeline);
        if self.unmade == 0 {
            // In a cluster, other nodes may still have requests.
            run.ended = run.router.is_none();
            return Ok(false);
        }
        self.is_busy = true;
        self.begun = now;
        self.make(run)?;
        Ok(true)
    }

    /// Encodes and sends requests of the present batch while the socket accepts them.
    #[inline]
    fn make(&mut self, run: &mut Run<'_>) -> Result<(), Failure> {
        while self.unmade > 0 && self.leftover.is_empty() && self.greeting == 0 {
            let count = self.unmade.min(run.piece);
            self.unmade -= count;
            self.under_way += count;
            self.send(count, run)?;
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, count: usize, run: &mut Run<'_>) -> Result<(), Failure> {
        let kinds = &mut self.kinds;
        let bytes = match &mut run.router {
            None => run.generator.batch(count, |kind| kinds.push_back(kind)),
            Some(router) => router.take(self.node, count, &mut self.flight, kinds),
        };
        run.sent_bytes += bytes.len() as u64;
        let sent = match self.stream.write(bytes) {
            Ok(sent) => sent,
            Err(error) if is_later(&error) => 0,
            Err(error) => return Err(format!("cannot send: {error}")),
        };
        if sent < bytes.len() {
            self.leftover.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    fn send_leftover(&mut self) -> Result<(), Failure> {
        let result = if self.leftover.is_empty() {
            self.stream.flush()
        } else {
            self.stream.write(&self.leftover[self.leftover_sent..]).map(|sent| self.leftover_sent += sent)
        };
        match result {
            Ok(()) => {}
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(format!("cannot send: {error}")),
        }
        if self.leftover_sent == self.leftover.len() {
            self.leftover.clear();
            self.leftover_sent = 0;
        }
        Ok(())
    }

    /// Receives, scans and records replies while bytes arrive (closed loop and greeting).
    fn receive(
        &mut self,
        buffer: &mut [u8],
        recorder: &mut Recorder<'_>,
        router: &mut Option<Router>,
    ) -> Result<(), Failure> {
        loop {
            let Some(count) = self.receive_once(buffer)? else { return Ok(()) };
            let now = Ticks::now();
            let bytes = &buffer[..count];
            recorder.received_bytes += count as u64;
            if self.greeting > 0 {
                self.receive_greeting(bytes)?;
            } else {
                let latency = now.nanos_since(self.begun);
                let mut sink = Replies { recorder, kinds: &mut self.kinds, latency, count: 0 };
                let (result, redirected) = match router {
                    None => (self.scanner.feed(bytes, &mut sink), 0),
                    Some(router) => {
                        let mut routed = router.watch(&mut self.flight, sink);
                        let result = self.scanner.feed(bytes, &mut routed);
                        let redirected;
                        (sink, redirected) = routed.finish();
                        (result, redirected)
                    }
                };
                let replies = sink.finish(now) + redirected;
                result.map_err(|_| malformed(bytes))?;
                self.under_way = self
                    .under_way
                    .checked_sub(replies)
                    .ok_or("the server sent more replies than requests")?;
            }
            if count < buffer.len() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn receive_once(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self.stream.read(buffer) {
            Ok(0) => Err("the server closed a connection".into()),
            Ok(count) => Ok(Some(count)),
            Err(error) if is_later(&error) => Ok(None),
            Err(error) => Err(format!("cannot receive: {error}")),
        }
    }

    fn receive_greeting(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        #[derive(Default)]
        struct Greeting {
            replies: usize,
            error: Option<String>,
        }
        impl Sink for Greeting {
            fn replies(&mut self, _: Class, count: usize) {
                self.replies += count;
            }
            fn error(&mut self, text: &[u8]) {
                self.error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
            }
            fn push(&mut self) {}
        }
        let mut sink = Greeting::default();
        self.scanner.feed(bytes, &mut sink).map_err(|_| malformed(bytes))?;
        if let Some(error) = sink.error {
            return Err(format!("the server rejects connections: {error}"));
        }
        self.greeting =
            self.greeting.checked_sub(sink.replies).ok_or("the server sent more replies than requests")?;
        Ok(())
    }

    /// Updates the poller's interest if it has changed.
    #[inline]
    fn watch(&mut self, poller: &Poller, token: u64) -> Result<(), Failure> {
        let pending = !self.leftover.is_empty() || self.unmade > 0 || self.stream.wants_write();
        let interest = if pending { Interest::ReadWrite } else { Interest::Read };
        if interest != self.interest {
            poller.modify(&self.stream, token, interest).map_err(|error| error.to_string())?;
            self.interest = interest;
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    // A socket that is still connecting reports NotConnected.
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}

fn malformed(bytes: &[u8]) -> Failure {
    let start = &bytes[..bytes.len().min(60)];
    format!("the server does not speak the Redis protocol: \"{}\"", start.escape_ascii())
}

/// Processor time of the calling thread so far.
fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
