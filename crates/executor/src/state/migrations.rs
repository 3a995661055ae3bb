// SPDX-License-Identifier: BSD-3-Clause
//! State shared by all MIGRATEs: their worker threads, the cached connections, and the keys being
//! moved.
//!
//! Threads start on demand and end after being idle for as long as a connection is cached, so the
//! last user of a connection is still there to close it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_clients::attention::{Attention, MIGRATES};
use braid_clients::{Mailboxes, Message};
use braid_net::target::{Connection, Target};
use hashbrown::{Equivalent, HashMap};
use parking_lot::{Condvar, Mutex, MutexGuard};

type Job = Box<dyn FnOnce() + Send>;
/// A key in its database.
type Name = (u32, Box<[u8]>);

/// A borrowed [`Name`] for look-ups; it has the same hash.
#[derive(Hash)]
struct NameRef<'k>(u32, &'k [u8]);

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        self.0 == name.0 && *self.1 == *name.1
    }
}

/// Maximum number of concurrent MIGRATEs; others wait.
const THREADS_MAX: usize = 64;
/// Maximum number of cached connections, as in stock servers.
const CONNECTIONS_MAX: usize = 64;
/// How long an unused connection is cached, as in stock servers.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The threads, connections and claims of all MIGRATEs.
#[derive(Default)]
pub struct Migrations {
    state: Mutex<State>,
    /// A job has been queued.
    called: Condvar,
    /// Claims have been released.
    released: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads waiting for a job.
    idle: usize,
    /// Jobs that have been promised but not yet queued.
    promised: usize,
    connections: Vec<(Target, Connection)>,
    /// The keys claimed by each MIGRATE; true for a key that another MIGRATE has moved meanwhile.
    claims: HashMap<Name, bool, foldhash::fast::RandomState>,
    /// Clients wait for the release of claims.
    is_awaited: bool,
}

impl State {
    fn close_idle(&mut self) {
        self.connections.retain(|(_, connection)| is_fresh(connection));
    }
}

fn is_fresh(connection: &Connection) -> bool {
    connection.last_used.elapsed() < IDLE_MAX
}

impl Migrations {
    /// Reserves a thread for a job. `None` if none can be started.
    pub fn reserve(self: &Arc<Self>) -> Option<Reservation> {
        let mut state = self.state.lock();
        let wanted = state.jobs.len() + state.promised + 1;
        if wanted > state.idle && state.threads < THREADS_MAX {
            let pool = Arc::clone(self);
            match std::thread::Builder::new().name("migrate".into()).spawn(move || pool.work()) {
                Ok(_) => state.threads += 1,
                Err(error) => log::warn!("Cannot start a thread for MIGRATE: {error}"),
            }
        }
        if state.threads == 0 {
            return None;
        }
        state.promised += 1;
        Some(Reservation { pool: Arc::clone(self) })
    }

    /// The main loop of a thread.
    fn work(&self) {
        let mut state = self.state.lock();
        let mut until = Instant::now() + IDLE_MAX;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                MutexGuard::unlocked(&mut state, job);
                until = Instant::now() + IDLE_MAX;
                continue;
            }
            state.idle += 1;
            let timed_out = self.called.wait_until(&mut state, until).timed_out();
            state.idle -= 1;
            state.close_idle();
            if timed_out {
                if state.jobs.is_empty() && state.promised == 0 {
                    state.threads -= 1;
                    return;
                }
                until = Instant::now() + IDLE_MAX;
            }
        }
    }

    /// Takes a cached connection to a target.
    pub fn take(&self, target: &Target) -> Option<Connection> {
        let mut state = self.state.lock();
        state.close_idle();
        let at = state.connections.iter().position(|(place, _)| place == target)?;
        Some(state.connections.swap_remove(at).1)
    }

    /// Caches a connection for the next MIGRATE.
    pub fn keep(&self, target: Target, mut connection: Connection) {
        if !connection.is_clean() {
            return;
        }
        connection.last_used = Instant::now();
        let mut state = self.state.lock();
        state.close_idle();
        if state.connections.len() >= CONNECTIONS_MAX {
            let ages = state.connections.iter().enumerate();
            if let Some((oldest, _)) = ages.min_by_key(|(_, (_, connection))| connection.last_used) {
                state.connections.swap_remove(oldest);
            }
        }
        state.connections.push((target, connection));
    }

    /// Number of cached connections.
    pub fn kept_connections(&self) -> usize {
        self.state.lock().connections.iter().filter(|(_, connection)| is_fresh(connection)).count()
    }

    /// Waits until no other MIGRATE has claimed any of these keys, and claims them. Commands that
    /// write to them are held back until the claims are dropped.
    pub fn claim<'p>(
        &'p self,
        db: u32,
        keys: &[Box<[u8]>],
        attention: &'p Attention,
        mailboxes: &'p Mailboxes,
    ) -> Claims<'p> {
        let names: Vec<Name> = keys.iter().map(|key| (db, key.clone())).collect();
        let mut state = self.state.lock();
        while names.iter().any(|name| state.claims.contains_key(name)) {
            self.released.wait(&mut state);
        }
        state.claims.extend(names.iter().cloned().map(|name| (name, false)));
        if !names.is_empty() {
            attention.set(MIGRATES, true);
        }
        Claims { pool: self, names, attention, mailboxes }
    }

    /// True if a key is claimed. The loops then get a [`Message::Resume`] when it is released.
    pub fn holds(&self, db: u32, key: &[u8]) -> bool {
        let mut state = self.state.lock();
        let holds = state.claims.contains_key(&NameRef(db, key));
        state.is_awaited |= holds;
        holds
    }

    /// Records that keys have been moved by a MIGRATE that cannot wait for the others (in a
    /// transaction or a script). Must be called under the keys' locks.
    pub fn note_moved(&self, db: u32, keys: &[&[u8]]) {
        let mut state = self.state.lock();
        if state.claims.is_empty() {
            return;
        }
        for &key in keys {
            if let Some(moved) = state.claims.get_mut(&NameRef(db, key)) {
                *moved = true;
            }
        }
    }
}

/// A reserved thread.
pub struct Reservation {
    pool: Arc<Migrations>,
}

impl Reservation {
    /// Gives the thread a job.
    pub fn give(self, job: impl FnOnce() + Send + 'static) {
        self.pool.state.lock().jobs.push_back(Box::new(job));
        // The reservation ends when `self` is dropped, after this.
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.state.lock().promised -= 1;
        self.pool.called.notify_one();
    }
}

/// Keys claimed by one MIGRATE.
pub struct Claims<'p> {
    pool: &'p Migrations,
    names: Vec<Name>,
    attention: &'p Attention,
    mailboxes: &'p Mailboxes,
}

impl Claims<'_> {
    /// True if another MIGRATE has moved a key meanwhile.
    pub fn is_moved(&self, db: u32, key: &[u8]) -> bool {
        self.pool.state.lock().claims.get(&NameRef(db, key)).copied().unwrap_or(false)
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        for name in &self.names {
            state.claims.remove(name);
        }
        if state.claims.is_empty() {
            self.attention.set(MIGRATES, false);
        }
        if std::mem::take(&mut state.is_awaited) {
            self.mailboxes.tell_all(|| Message::Resume);
        }
        self.pool.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn keys(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn a_key_is_under_way_once() {
        let shared = Arc::new((Migrations::default(), Attention::default(), Mailboxes::new(0)));
        let (pool, attention, mailboxes) = &*shared;
        let first = pool.claim(0, &keys(&["a", "b", "a"]), attention, mailboxes);
        // The same name in another database is another key.
        drop(pool.claim(1, &keys(&["a"]), attention, mailboxes));
        assert!(pool.holds(0, b"a") && !pool.holds(1, b"a") && attention.get() == MIGRATES);
        let (done, waits) = channel();
        let second = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let second = shared.0.claim(0, &keys(&["b", "c"]), &shared.1, &shared.2);
                done.send(second.is_moved(0, b"b")).expect("sent");
            }
        });
        assert!(waits.recv_timeout(Duration::from_millis(50)).is_err());
        pool.note_moved(0, &[b"b", b"z"]);
        assert!(first.is_moved(0, b"b") && !first.is_moved(0, b"a"));
        drop(first);
        assert_eq!(waits.recv_timeout(Duration::from_secs(10)), Ok(false));
        second.join().expect("no panic");
        assert!(pool.state.lock().claims.is_empty() && attention.get() == 0);
    }

    #[test]
    fn jobs_are_done_by_threads_that_were_promised() {
        let pool = Arc::new(Migrations::default());
        let reservation = pool.reserve().expect("a thread");
        let (done, waits) = channel();
        reservation.give(move || done.send(()).expect("sent"));
        assert_eq!(waits.recv_timeout(Duration::from_secs(10)), Ok(()));
        let state = pool.state.lock();
        assert_eq!((state.threads, state.promised), (1, 0));
    }
}
