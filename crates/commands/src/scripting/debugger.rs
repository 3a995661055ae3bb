// SPDX-License-Identifier: BSD-3-Clause
//! Sessions of the script debugger (SCRIPT DEBUG): the client's connection as the debugger's
//! console, and the run on a thread of its own.
//!
//! EVAL on a debugged connection makes the connection leave its loop ([`state::Departure`]); the
//! loop forgets the client. A new thread runs the script with the world stopped, talks to the
//! developer, sends the script's reply, and closes the connection.
//!
//! With SYNC the script runs in the server itself: all others wait, as for any long script. With
//! YES it runs in a second engine without clients or files, which gets a copy of each key that the
//! script names ([`Origin`]). Nothing of it comes back, and nobody waits.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_clients::attention::STOPPING;
use braid_durable::saving::payload;
use braid_executor::dispatch::body::run_body;
use braid_executor::dispatch::script::find;
use braid_executor::engine::Engine;
use braid_executor::engine::call::{Call, Others};
use braid_executor::session::Session;
use braid_executor::state::script_debugger::KeySource;
use braid_executor::world;
use braid_executor::{limits, world_change};
use braid_keyspace::{Entry, Expiry, Txn};
use braid_net::stream::Stream;
use braid_resp::reply::ReplyBuffer;
use braid_scripting::{Console, Host, Received, Verdict};
use braid_spec::{Command, CommandError, Flags, Scope, UsedDatabases, keys};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Interval at which the host is asked whether to continue while the developer thinks.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How long output may wait for the developer's socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// A developer's connection.
pub struct StreamConsole {
    stream: Stream,
    is_broken: bool,
}

impl StreamConsole {
    pub fn new(stream: Stream) -> StreamConsole {
        StreamConsole { stream, is_broken: false }
    }

    /// Waits until the socket is ready, for a moment. False if that fails.
    fn wait(&self, what: PollFlags) -> bool {
        match poll(&mut [PollFd::new(&self.stream, what)], Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Calls `act` until it succeeds; waits for room in between.
    fn until_sent(&mut self, mut act: impl FnMut(&mut Stream) -> Result<usize, Errno>) -> Option<usize> {
        let began = Instant::now();
        loop {
            match act(&mut self.stream) {
                Ok(count) => return Some(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && began.elapsed() < PATIENCE => {
                    if !self.wait(PollFlags::OUT) {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }
}

impl Console for StreamConsole {
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_broken {
            match self.until_sent(|stream| stream.send(bytes)) {
                Some(count) => bytes = &bytes[count..],
                None => self.is_broken = true,
            }
        }
        self.is_broken = self.is_broken || self.until_sent(|stream| stream.flush().map(|()| 0)).is_none();
    }

    fn receive(&mut self, input: &mut Vec<u8>, host: &mut dyn Host) -> Received {
        let mut chunk = [0; 4096];
        while !self.is_broken {
            match self.stream.recv(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    input.extend_from_slice(&chunk[..count]);
                    return Received::Bytes;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let verdict = host.interrupt();
                    if verdict != Verdict::Continue {
                        return Received::Ended(verdict);
                    }
                    self.is_broken = !self.wait(PollFlags::IN);
                }
                Err(_) => break,
            }
        }
        self.is_broken = true;
        Received::Closed
    }
}

/// The server whose keys a script in another engine uses. A key is copied when the script first
/// names it, and all keys when it first calls a command that could use any.
pub struct Origin {
    server: Arc<Engine>,
    copy: Arc<Engine>,
    known: HashSet<(u32, Box<[u8]>)>,
    knows_all: bool,
}

impl KeySource for Origin {
    fn provide(&mut self, keyspace: &mut Txn<'_>, db: u32, args: &[&[u8]]) {
        let copy = Arc::clone(&self.copy);
        let Some(command) = find(&copy, args) else { return };
        let spec = command.spec;
        if self.knows_all || !spec.flags.any(Flags::READONLY | Flags::WRITE) {
            return;
        }
        let is_bounded = spec.scope_of(args) == Scope::Keys && !matches!(spec.databases, UsedDatabases::All);
        if !is_bounded {
            return self.provide_all(keyspace);
        }
        let mut databases = vec![db];
        if let UsedDatabases::Named(named) = spec.databases {
            let numbers = named(args).into_iter().filter_map(|index| args.get(index));
            let numbers = numbers.filter_map(|number| braid_base::number::parse_i64(number));
            databases.extend(numbers.filter_map(|number| u32::try_from(number).ok()));
        }
        databases.retain(|db| *db < copy.keyspace.databases());
        for at in keys::find(spec, args).unwrap_or_default() {
            databases.iter().for_each(|&db| self.provide_key(keyspace, db, args[at.index]));
        }
    }
}

impl Origin {
    /// `copy` has as many databases as `server`.
    pub fn new(server: Arc<Engine>, copy: Arc<Engine>) -> Origin {
        Origin { server, copy, known: HashSet::new(), knows_all: false }
    }

    fn provide_key(&mut self, keyspace: &mut Txn<'_>, db: u32, key: &[u8]) {
        if !self.known.insert((db, key.into())) {
            return;
        }
        let now = unix_ms();
        let form = |entry: Entry<'_>| (payload(entry, now), entry.expiry());
        let found = self.server.keyspace.reader().share_or_copy(db, now, key, form);
        let Some((value, watch)) = found else { return };
        self.server.keyspace.reader().unwatch(&watch);
        let (payload, expiry) = value.map_or_else(|copied| copied, |shared| form(shared.entry()));
        if let Some(payload) = payload {
            self.restore(keyspace, db, key, &payload, expiry);
        }
    }

    fn provide_all(&mut self, keyspace: &mut Txn<'_>) {
        self.knows_all = true;
        let (server, now) = (Arc::clone(&self.server), unix_ms());
        for db in 0..server.keyspace.databases() {
            for shard in 0..server.keyspace.shard_count() as u32 {
                // Long values are shared one by one, without holding up the server.
                let mut names: Vec<Box<[u8]>> = Vec::new();
                server.keyspace.reader().visit_shard(shard, db, now, |entry| names.push(entry.key().into()));
                names.iter().for_each(|name| self.provide_key(keyspace, db, name));
            }
        }
    }

    /// Adds a key to the copy. `payload` was made by this process.
    fn restore(&self, keyspace: &mut Txn<'_>, db: u32, key: &[u8], payload: &[u8], expiry: Option<i64>) {
        let Ok(mut decoder) = braid_rdb::open(payload, false) else { return };
        let limits = limits::limits(&self.copy);
        let kind = decoder.kind();
        let value =
            kind.and_then(|kind| braid_persistence::read_value(&mut decoder, kind, &limits, i64::MIN));
        match value {
            Ok(value) => {
                let own = keyspace.db();
                keyspace.set_db(db);
                keyspace.set(key, value, expiry.map_or(Expiry::Clear, Expiry::At));
                keyspace.set_db(own);
            }
            Err(error) => log::error!("A debugged script lacks a key: {error}"),
        }
    }
}

/// Runs a command with the world stopped, on a thread that is not a loop.
///
/// # Errors
/// The server is shutting down.
pub fn run_alone(
    engine: &Engine,
    session: &mut Session,
    command: &Command,
    args: &[&[u8]],
    reply: &mut ReplyBuffer,
) -> Result<(), CommandError> {
    let world = world::stop(engine);
    if engine.attention.get() & STOPPING != 0 {
        return Err(CommandError::text("ERR the server is shutting down"));
    }
    let mut worker = engine.worker(0);
    world_change::change_in_world(engine, world, &mut worker, session.db, unix_ms(), |keyspace| {
        let (blobs, others) = (&[][..], Others::default());
        run_body(&mut Call { engine, command, session, args, blobs, keyspace, reply, others }, true);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use braid_scripting::{Called, Level};

    use super::*;

    /// A host that wants the script to end after some calls.
    struct Patient(u32);

    impl Host for Patient {
        fn call(&mut self, _: &[&[u8]], _: &mut ReplyBuffer) -> Called {
            Called::Refused
        }
        fn log(&mut self, _: Level, _: &[u8]) {}
        fn logs(&self, _: Level) -> bool {
            false
        }
        fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
            None
        }
        fn set_replication(&mut self, _: u8) {}
        fn interrupt(&mut self) -> Verdict {
            self.0 = self.0.saturating_sub(1);
            if self.0 == 0 { Verdict::Kill } else { Verdict::Continue }
        }
    }

    #[test]
    fn console_waits_for_the_developer_until_the_host_has_enough() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("an option");
        let mut console = StreamConsole::new(Stream::new(ours.into(), None));
        let mut input = Vec::new();
        assert_eq!(console.receive(&mut input, &mut Patient(3)), Received::Ended(Verdict::Kill));
        theirs.write_all(b"step").expect("sent");
        assert_eq!(console.receive(&mut input, &mut Patient(3)), Received::Bytes);
        assert_eq!(input, b"step");
        // More than a socket holds.
        let long = vec![b'x'; 4 << 20];
        let expected = long.len();
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; expected];
            theirs.read_exact(&mut bytes).map(|()| bytes)
        });
        console.send(&long);
        assert!(reader.join().expect("no panic").expect("all bytes") == long);
        assert_eq!(console.receive(&mut input, &mut Patient(100)), Received::Closed);
        console.send(b"nobody reads this");
    }
}
