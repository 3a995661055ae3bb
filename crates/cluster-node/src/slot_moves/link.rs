// SPDX-License-Identifier: BSD-3-Clause
//! The source's link to the target of a move: requests in order, answers later, and a new
//! connection if one is lost.
//!
//! The target remembers the number of the last APPLY that it has executed. Requests between two
//! APPLYs set keys to certain values, so executing them twice, in order, does no harm. So the link
//! keeps the requests sent since an answered APPLY, asks the target on a new connection for the
//! number (RESUME), and sends again what followed that APPLY.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::number::write_i64;
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::{Move, MoveState};
use braid_keyspace::eviction::protection_request;
use braid_net::target::Connection;

use super::target_connection::{
    Failure, connect, interrupted, patience, rejected, target_leads, wait_for_answer, wait_for_number,
};
use crate::slot_moves::hold;

/// Maximum bytes of unanswered requests. The target buffers, and copies, data that arrives behind
/// a slow request.
const UNANSWERED_MAX: usize = 1 << 20;
/// Requests since the last APPLY after which another one is due, in bytes, even an empty one.
const MARK_BYTES: usize = 1 << 20;
/// Maximum bytes kept to be sent again. Beyond that a lost connection ends the attempt.
const KEPT_MAX: usize = 32 << 20;
/// Delay between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// A request to the target.
pub(super) enum Request {
    Select(u32),
    Restore {
        key: Box<[u8]>,
        expiry: Option<i64>,
        payload: Vec<u8>,
    },
    Unlink(Box<[u8]>),
    /// The key is not to be evicted.
    Protect(Box<[u8]>),
    /// Units of the journal; the number is given by the link.
    Apply(u64, Vec<u8>),
    /// The answer waits for all changes to reach the target's in-sync members.
    Reveal,
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Restore { key, payload, .. } => key.len() + payload.len(),
            Request::Unlink(key) | Request::Protect(key) => key.len(),
            Request::Apply(_, units) => units.len(),
            Request::Select(_) | Request::Reveal => 0,
        }
    }

    fn send(&self, connection: &mut Connection) -> Result<(), Failure> {
        let mut number = [0; 20];
        match self {
            Request::Select(db) => {
                connection.request(&[b"SELECT", write_i64(&mut number, (*db).into())])?;
            }
            Request::Restore { key, expiry, payload } => {
                let expiry = write_i64(&mut number, expiry.unwrap_or(0));
                connection.request(&[b"RESTORE", key, expiry, payload, b"REPLACE", b"ABSTTL"])?;
            }
            Request::Unlink(key) => connection.request(&[b"UNLINK", key])?,
            Request::Protect(key) => connection.request(&protection_request(key))?,
            Request::Apply(apply, units) => {
                let apply = apply.to_string();
                connection.request(&[b"CLUSTER", b"SYNCSLOTS", b"APPLY", apply.as_bytes(), units])?;
            }
            // The reply depends on all keys.
            Request::Reveal => connection.request(&[b"DBSIZE"])?,
        }
        Ok(())
    }
}

/// See the module documentation.
pub(super) struct Link<'e> {
    engine: &'e Engine,
    job: &'e Move,
    pub(super) connection: Connection,
    /// For each unanswered request its bytes, and the number of an APPLY.
    unanswered: VecDeque<(usize, Option<u64>)>,
    unanswered_bytes: usize,
    /// How long to wait for an answer.
    pub(super) patience: Duration,
    /// A lost connection is replaced.
    pub(super) resumes: bool,
    /// Answers wait for the target's in-sync members.
    is_durable: bool,
    /// The database that the connection has selected.
    selected: u32,
    kept: Kept,
}

/// The requests that may have to be sent again.
#[derive(Default)]
struct Kept {
    /// The last APPLY sent.
    number: u64,
    /// The APPLY after which the kept requests begin; larger than `number` while nothing is kept.
    after: u64,
    /// The database selected before the first of them.
    db: u32,
    requests: VecDeque<Request>,
    bytes: usize,
    /// Bytes since the last APPLY.
    unmarked: usize,
}

impl Kept {
    fn push(&mut self, request: Request, selected: u32) {
        let bytes = request.bytes();
        self.unmarked += bytes;
        if let Request::Apply(number, _) = request {
            self.number = number;
            self.unmarked = 0;
            if number == self.after {
                self.db = selected;
                return;
            }
        }
        if self.number < self.after {
            return;
        }
        self.bytes += bytes;
        self.requests.push_back(request);
        if self.bytes > KEPT_MAX {
            (self.requests, self.bytes) = (VecDeque::new(), 0);
            self.after = self.number + 1;
        }
    }

    /// Drops what the target does not need again. False if it needs more than is kept.
    fn forget_until(&mut self, applied: u64) -> bool {
        while self.after < applied
            && let Some(request) = self.requests.pop_front()
        {
            self.bytes -= request.bytes();
            match request {
                Request::Apply(number, _) => self.after = number,
                Request::Select(db) => self.db = db,
                _ => {}
            }
        }
        self.after == applied && self.after <= self.number
    }
}

impl<'e> Link<'e> {
    /// Announces the move to the target.
    pub(super) fn establish(engine: &'e Engine, job: &'e Move) -> Result<Link<'e>, Failure> {
        let mut connection = connect(engine, job)?;
        let (name, source, slots) = (job.name.as_bytes(), job.source.as_bytes(), job.slots.to_string());
        connection.request(&[b"CLUSTER", b"SYNCSLOTS", b"ESTABLISH", name, source, slots.as_bytes()])?;
        connection.flush()?;
        let patience = patience(engine);
        wait_for_answer(engine, job, &mut connection, patience)?;
        Ok(Link {
            engine,
            job,
            connection,
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            patience,
            resumes: true,
            is_durable: false,
            selected: 0,
            kept: Kept::default(),
        })
    }

    /// Sends a request for a key of a database.
    pub(super) fn send_for(&mut self, db: u32, request: Request) -> Result<(), Failure> {
        if self.selected != db {
            self.selected = db;
            self.send(Request::Select(db))?;
        }
        self.send(request)
    }

    /// Sends units of the journal, or nothing but a mark.
    pub(super) fn apply(&mut self, units: Vec<u8>) -> Result<(), Failure> {
        self.send(Request::Apply(self.kept.number + 1, units))
    }

    /// True if so much was sent since the last APPLY that a mark is due.
    pub(super) fn needs_mark(&self) -> bool {
        self.kept.unmarked >= MARK_BYTES
    }

    /// From now on answers wait for the target's in-sync members.
    pub(super) fn make_durable(&mut self) -> Result<(), Failure> {
        self.drain()?;
        self.is_durable = true;
        let sent = self.send_durable();
        self.unless_lost(sent)
    }

    fn send_durable(&mut self) -> Result<(), Failure> {
        self.connection.request(&[b"CLIENT", b"DURABLE", b"ON"])?;
        self.unanswered.push_back((0, None));
        Ok(())
    }

    /// Sends a request; its answer is read later.
    pub(super) fn send(&mut self, request: Request) -> Result<(), Failure> {
        let (bytes, number) = (request.bytes(), number_of(&request));
        let sent = request.send(&mut self.connection);
        self.kept.push(request, self.selected);
        if sent.is_err() {
            return self.unless_lost(sent);
        }
        self.unanswered.push_back((bytes, number));
        self.unanswered_bytes += bytes;
        if self.unanswered_bytes >= UNANSWERED_MAX { self.read_answers(UNANSWERED_MAX / 2) } else { Ok(()) }
    }

    /// Waits until all sent requests have been answered.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        self.read_answers(0)
    }

    /// Reads answers until the unanswered requests have at most `left` bytes.
    fn read_answers(&mut self, left: usize) -> Result<(), Failure> {
        loop {
            let read = self.try_to_read(left);
            let is_done = read.is_ok();
            self.unless_lost(read)?;
            if is_done {
                self.job.note(|progress| progress.answered_ms = braid_base::clock::unix_ms());
                return Ok(());
            }
        }
    }

    fn try_to_read(&mut self, left: usize) -> Result<(), Failure> {
        self.connection.flush()?;
        while (self.unanswered_bytes > left || left == 0)
            && let Some((bytes, number)) = self.unanswered.pop_front()
        {
            wait_for_answer(self.engine, self.job, &mut self.connection, self.patience)?;
            self.unanswered_bytes -= bytes;
            if let Some(number) = number {
                self.kept.forget_until(number);
            }
        }
        Ok(())
    }

    /// Replaces the connection if it was lost, and sends again what the target lacks. Otherwise,
    /// and if that fails, returns the failure.
    fn unless_lost(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(failure @ (Failure::Broken | Failure::TimedOut)) if self.resumes => self.resume(failure),
            result => result,
        }
    }

    /// Connects again, and sends again what the target lacks. Fails if the target no longer leads
    /// its shard: its successor knows nothing of this copy.
    pub(super) fn resume(&mut self, lost: Failure) -> Result<(), Failure> {
        let (engine, job, began) = (self.engine, self.job, Instant::now());
        let state = job.progress().state;
        self.patience = patience(engine);
        // Nobody knows for how long the target is away.
        hold::let_writes_go(engine, &job.name);
        log::warn!("Move {}: {lost}; connecting again", job.name);
        job.note(|progress| (progress.state, progress.message) = (MoveState::Connecting, lost.to_string()));
        loop {
            check(engine, job)?;
            if !target_leads(engine, &job.target) {
                return Err(interrupted(format!("{lost}, and it no longer leads its shard")));
            }
            match self.try_to_resume() {
                Ok(bytes) => {
                    job.note(|progress| {
                        progress.state = state;
                        progress.message.clear();
                    });
                    log::info!("Move {} is resumed: {bytes} bytes are sent again", job.name);
                    return Ok(());
                }
                Err(failure @ (Failure::Broken | Failure::TimedOut | Failure::Unreachable(_)))
                    if began.elapsed() < patience(engine) =>
                {
                    job.note(|progress| progress.message = failure.to_string());
                    std::thread::sleep(RETRY);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn try_to_resume(&mut self) -> Result<usize, Failure> {
        let (engine, job) = (self.engine, self.job);
        self.connection = connect(engine, job)?;
        (self.unanswered, self.unanswered_bytes) = (VecDeque::new(), 0);
        let (name, source) = (job.name.as_bytes(), job.source.as_bytes());
        self.connection.request(&[b"CLUSTER", b"SYNCSLOTS", b"RESUME", name, source])?;
        self.connection.flush()?;
        let applied = wait_for_number(engine, job, &mut self.connection, patience(engine))?;
        if !self.kept.forget_until(applied) {
            return Err(interrupted("the connection to the target was lost behind a large value"));
        }
        if self.is_durable {
            self.send_durable()?;
        }
        Request::Select(self.kept.db).send(&mut self.connection)?;
        self.unanswered.push_back((0, None));
        for request in &self.kept.requests {
            request.send(&mut self.connection)?;
            self.unanswered.push_back((request.bytes(), number_of(request)));
            self.unanswered_bytes += request.bytes();
        }
        Ok(self.kept.bytes)
    }
}

fn number_of(request: &Request) -> Option<u64> {
    match request {
        Request::Apply(number, _) => Some(*number),
        _ => None,
    }
}

/// Fails if the move is no longer wanted.
pub(super) fn check(engine: &Engine, job: &Move) -> Result<(), Failure> {
    if job.is_cancelled.load(Relaxed) {
        return Err(Failure::Cancelled);
    }
    if engine.shutdown.is_requested() {
        return Err(interrupted("this server is shutting down"));
    }
    let view = engine.cluster_view().unwrap_or_default();
    if !view.leads || engine.replication.link.is_replica() {
        return Err(interrupted("this server is no longer a primary"));
    }
    match view.own_slots().and_then(|own| own.ordered.get(&*job.name)) {
        Some(order) if order.slots == job.slots => Ok(()),
        Some(_) => Err(interrupted("the slots have moved to another node")),
        None if job.slots.iter().all(|slot| view.owns(slot)) => Err(Failure::Cancelled),
        None => Err(rejected("the slots have moved to another node")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64, bytes: usize) -> Request {
        let key = number.to_string().into_bytes().into();
        Request::Restore { key, expiry: None, payload: vec![b'x'; bytes] }
    }

    fn numbers(kept: &Kept) -> Vec<u64> {
        kept.requests.iter().filter_map(number_of).collect()
    }

    #[test]
    fn what_follows_the_last_applied_units_is_kept() {
        let mut kept = Kept::default();
        for number in 1..=3 {
            kept.push(key(number, 100), 0);
            kept.push(Request::Select(number as u32), number as u32);
            kept.push(Request::Apply(number, vec![b'u'; 10]), number as u32);
        }
        kept.push(key(4, 100), 3);
        assert_eq!((numbers(&kept), kept.unmarked), (vec![1, 2, 3], 101));
        assert!(kept.forget_until(0) && numbers(&kept) == [1, 2, 3], "nothing is applied");
        assert!(kept.forget_until(2) && numbers(&kept) == [3] && kept.db == 2);
        assert!(!kept.forget_until(1), "it is no longer kept");
        assert!(kept.forget_until(3) && numbers(&kept).is_empty() && kept.db == 3);
        assert_eq!((kept.requests.len(), kept.bytes), (1, 101));
        assert!(!kept.forget_until(9), "it was never sent");
    }

    #[test]
    fn too_much_is_not_kept() {
        let mut kept = Kept::default();
        kept.push(Request::Apply(1, Vec::new()), 0);
        kept.push(key(1, KEPT_MAX), 0);
        assert!(kept.requests.is_empty() && kept.bytes == 0 && !kept.forget_until(1));
        kept.push(key(2, 100), 5);
        assert!(kept.requests.is_empty(), "the next units have not been sent");
        kept.push(Request::Apply(2, Vec::new()), 5);
        kept.push(key(3, 100), 5);
        assert_eq!((kept.requests.len(), kept.db), (1, 5));
        assert!(kept.forget_until(2) && kept.requests.len() == 1);
    }
}
