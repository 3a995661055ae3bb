// SPDX-License-Identifier: BSD-3-Clause
//! The open loop: requests are due at fixed times, regardless of the server's speed.
//!
//! With a single server, the connections take turns. With a cluster, a request is drawn when it is
//! due and waits for a connection to its key's primary; a redirected request keeps its due time.
//!
//! HOT PATH: as in `worker.rs`.

use std::time::Duration;

use braid_base::clock::Ticks;
use fastrand::Rng;

use super::{Connection, Drain, Failure, NAP_MAX, Rate, Run, Worker, malformed};
use crate::recorder::DueReplies;
use crate::routing::Router;
use braid_net::poller::Interest;

impl Worker {
    pub(super) fn open_loop(&mut self, run: &mut Run<'_>, rate: Rate) -> Result<(), Failure> {
        // Minimal timer slack, to wake exactly when a request is due: a late generator looks like a
        // slow server.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mean_gap = self.threads as f64 * 1e9 / rate.per_second;
        let mut rng = Rng::with_seed(run.pass.seed ^ (self.number as u64 + 1));
        let gap = |rng: &mut Rng| if rate.poisson { -mean_gap * (1.0 - rng.f64()).ln() } else { mean_gap };
        // Threads take turns.
        let mut next = mean_gap * self.number as f64 / self.threads as f64;
        let mut turn = 0;
        let mut touched: Vec<usize> = Vec::new();
        let mut drain = Drain::default();
        // Set once all requested requests have been due; those will still be sent.
        let mut exhausted = false;
        loop {
            let now = run.nanos(Ticks::now());
            run.look_for_the_end();
            while !run.ended && !exhausted && next as u64 <= now {
                let is_over = run.pass.duration.is_some_and(|duration| next as u128 >= duration.as_nanos());
                if is_over || run.claim(1) == 0 {
                    run.ended = is_over;
                    exhausted = !is_over;
                    break;
                }
                self.make_due(run, turn, next as u64, now);
                touched.push(turn);
                turn = (turn + 1) % self.connections.len();
                next += gap(&mut rng);
            }
            if run.router.is_some() {
                touched.clear();
                if !run.ended {
                    self.send_routed(run, turn)?;
                }
            }
            for place in touched.drain(..) {
                self.connections[place].send_due(run)?;
                self.connections[place].watch(&self.poller, place as u64)?;
            }
            // Requests that could not be sent within the duration are dropped; they have waited at
            // least until now.
            let is_over = run.ended || exhausted && !self.has_due(run);
            if is_over && self.connections.iter().all(|connection| connection.under_way == 0) {
                break;
            }
            let nap = if run.ended || exhausted {
                NAP_MAX
            } else {
                let now = run.nanos(Ticks::now());
                Duration::from_nanos((next as u64).saturating_sub(now)).min(NAP_MAX)
            };
            let count = self.poller.wait(Some(nap)).map_err(|error| error.to_string())?;
            run.waits += 1;
            if drain.is_over(count == 0 && (run.ended || exhausted), run.pass)? {
                break;
            }
            self.serve_events(run, count)?;
        }
        let end = run.nanos(Ticks::now());
        let unsent = self.connections.iter().flat_map(|connection| connection.due.iter().copied());
        let routed = run.router.iter().flat_map(|router| router.waiting_due());
        for due in unsent.chain(routed) {
            run.recorder.kinds[0].latency.saturating_record(end.saturating_sub(due));
        }
        Ok(())
    }

    /// True if due requests are unsent.
    fn has_due(&self, run: &Run<'_>) -> bool {
        run.router.as_ref().is_some_and(Router::has_requests)
            || self.connections.iter().any(|connection| !connection.due.is_empty())
    }

    /// Handles a request that is due at `next`.
    fn make_due(&mut self, run: &mut Run<'_>, turn: usize, next: u64, now: u64) {
        let most = run.pass.pipeline;
        let can_be_sent = match &mut run.router {
            None => {
                let connection = &mut self.connections[turn];
                let can_be_sent = connection.due.is_empty() && connection.under_way < most;
                connection.due.push_back(next);
                can_be_sent
            }
            Some(router) => {
                let node = router.draw(next, &mut run.generator);
                let mut of_node = self.connections.iter().filter(|connection| connection.node == node);
                router.ready(node) == 1 && of_node.any(|connection| connection.under_way < most)
            }
        };
        if can_be_sent {
            run.lag.saturating_record(now - next);
        }
    }

    /// Cluster: sends queued requests on connections to their primaries, as far as the pipelines
    /// have room, starting with a different connection each time.
    fn send_routed(&mut self, run: &mut Run<'_>, turn: usize) -> Result<(), Failure> {
        if run.router.as_mut().is_some_and(Router::has_new_nodes) {
            self.open_to_new_nodes()?;
        }
        let all = self.connections.len();
        for place in (turn..all).chain(0..turn.min(all)) {
            let connection = &mut self.connections[place];
            connection.send_due(run)?;
            connection.watch(&self.poller, place as u64)?;
        }
        Ok(())
    }

    fn serve_events(&mut self, run: &mut Run<'_>, count: usize) -> Result<(), Failure> {
        for index in 0..count {
            let event = self.poller.event(index);
            let connection = &mut self.connections[event.token as usize];
            if event.writable && connection.interest == Interest::ReadWrite {
                connection.send_leftover()?;
            }
            if event.readable {
                connection.receive_due(&mut self.buffer, run)?;
            }
            if !run.ended {
                connection.send_due(run)?;
            }
            connection.watch(&self.poller, event.token)?;
        }
        Ok(())
    }
}

impl Connection {
    /// Sends due requests, as far as the pipeline has room.
    fn send_due(&mut self, run: &mut Run<'_>) -> Result<(), Failure> {
        while self.under_way < run.pass.pipeline && self.leftover.is_empty() && self.greeting == 0 {
            let waiting = run.router.as_ref().map_or(self.due.len(), |router| router.ready(self.node));
            let count = waiting.min(run.pass.pipeline - self.under_way).min(run.piece);
            if count == 0 {
                break;
            }
            self.under_way += count;
            if run.router.is_none() {
                self.due_under_way.extend(self.due.drain(..count));
            }
            self.send(count, run)?;
            if run.router.is_some() {
                self.due_under_way.extend(self.flight.last_due(count));
            }
        }
        Ok(())
    }

    /// As [`Connection::receive`], with each request's latency from its due time.
    fn receive_due(&mut self, buffer: &mut [u8], run: &mut Run<'_>) -> Result<(), Failure> {
        loop {
            let Some(count) = self.receive_once(buffer)? else { return Ok(()) };
            let now = Ticks::now();
            let bytes = &buffer[..count];
            run.recorder.received_bytes += count as u64;
            if self.greeting > 0 {
                self.receive_greeting(bytes)?;
                continue;
            }
            let mut sink = DueReplies {
                now: run.nanos(now),
                recorder: &mut run.recorder,
                kinds: &mut self.kinds,
                due: &mut self.due_under_way,
                count: 0,
            };
            let (result, replies, redirected) = match &mut run.router {
                None => (self.scanner.feed(bytes, &mut sink), sink.count, 0),
                Some(router) => {
                    let mut routed = router.watch(&mut self.flight, sink);
                    let result = self.scanner.feed(bytes, &mut routed);
                    let (sink, redirected) = routed.finish();
                    (result, sink.count, redirected)
                }
            };
            run.recorder.flush_live(replies, now);
            result.map_err(|_| malformed(bytes))?;
            let answered = replies + redirected;
            self.under_way =
                self.under_way.checked_sub(answered).ok_or("the server sent more replies than requests")?;
            if count < buffer.len() {
                return Ok(());
            }
        }
    }
}
