// SPDX-License-Identifier: BSD-3-Clause
//! Test harness for command bodies: an in-process engine, text lines in, RESP bytes out.
//!
//! A line is split like an inline request (`"\x00"` and quotes work) and takes a request's full
//! path: lookup, checks, locks, body, reply. Arguments of 32 KiB and more arrive in separate
//! allocations, as from a socket.

use std::sync::Arc;

use braid_base::blob::Blob;
use braid_clients::{Address, ClientRecord, Message};
use braid_config::Config;
use braid_executor::blocking::WaitEnd;
use braid_executor::engine::Start;
use braid_executor::engine::call::Others;
use braid_executor::locks::{LockSet, lock};
use braid_executor::{Engine, Outcome, Session, Worker, dispatch};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry, KeyRef, Txn};
use braid_resp::inline::split_words;
use braid_resp::reply::{Protocol, ReplyBuffer};

/// As in the event loop: arguments this long are received into blobs.
const BLOB_MIN: usize = 32 * 1024;

/// An engine with one worker and any number of clients; client 0 always exists.
pub struct Tester {
    pub engine: Arc<Engine>,
    pub worker: Worker,
    clients: Vec<(Session, ReplyBuffer)>,
    /// The time of every request, Unix ms, if it stands still.
    held_ms: Option<i64>,
}

impl Default for Tester {
    fn default() -> Tester {
        Tester::new()
    }
}

impl Tester {
    /// An engine with the default configuration and few shards.
    pub fn new() -> Tester {
        Tester::with("")
    }

    /// An engine configured by lines of a configuration file.
    pub fn with(settings: &str) -> Tester {
        let config = Config::new();
        config.load_text(&format!("io-threads 2\nshards 16\n{settings}\n")).expect("settings are valid");
        let engine = braid_node::start(Arc::new(config), crate::rows(), Start::default()).expect("an engine");
        let worker = engine.worker(0);
        let mut tester = Tester { engine, worker, clients: Vec::new(), held_ms: None };
        tester.client();
        tester
    }

    /// Stops the clock: idle times stay 0, however busy the machine is.
    pub fn hold_time(&mut self) {
        self.held_ms = Some(braid_base::clock::unix_ms());
    }

    /// Adds a client (RESP2, authenticated, database 0); returns its number for
    /// [`Tester::run_as`].
    pub fn client(&mut self) -> usize {
        let id = self.engine.clients.registry.next_id();
        let now = braid_base::clock::unix_ms();
        let record = Arc::new(ClientRecord::new(id, -1, Address::Unknown, Address::Unknown, now));
        record.set_mailbox(&self.engine.clients.mailboxes[0]);
        self.engine.clients.registry.add(Arc::clone(&record));
        self.clients.push((
            Session::new(record, &self.engine.attention, &self.engine.acl),
            ReplyBuffer::new(Protocol::Resp2),
        ));
        self.clients.len() - 1
    }

    /// The session of a client.
    pub fn session(&mut self, client: usize) -> &mut Session {
        &mut self.clients[client].0
    }

    /// Changes a client's protocol.
    pub fn speak(&mut self, client: usize, protocol: Protocol) {
        let (session, reply) = &mut self.clients[client];
        reply.protocol = protocol;
        let version = if protocol == Protocol::Resp2 { 2 } else { 3 };
        session.record.protocol.store(version, std::sync::atomic::Ordering::Relaxed);
    }

    /// Runs a line as client 0. Returns the reply, with invalid UTF-8 replaced.
    pub fn run(&mut self, line: &str) -> String {
        self.run_as(0, line)
    }

    /// Runs a line as the given client.
    pub fn run_as(&mut self, client: usize, line: &str) -> String {
        let words = split_words(line.as_bytes()).expect("balanced quotes");
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        String::from_utf8_lossy(&self.run_args(client, &words)).into_owned()
    }

    /// Runs a request given as arguments; returns the reply's bytes, none for a postponed request.
    pub fn run_args(&mut self, client: usize, args: &[&[u8]]) -> Vec<u8> {
        let blobs: Vec<Option<Blob>> =
            args.iter().map(|arg| (arg.len() >= BLOB_MIN).then(|| Blob::from_slice(arg))).collect();
        let args: Vec<&[u8]> =
            args.iter().zip(&blobs).map(|(arg, blob)| blob.as_deref().unwrap_or(arg)).collect();
        let given: Vec<Blob> = blobs.iter().flatten().cloned().collect();
        let (session, reply) = &mut self.clients[client];
        let (engine, worker) = (&*self.engine, &mut self.worker);
        let slot = worker.context.slot;
        engine.keyspace.gate.enter(slot);
        worker.begin_batch_at(self.held_ms.unwrap_or_else(braid_base::clock::unix_ms));
        let prepared = dispatch::prepare(engine, &args);
        let others = Others::default();
        let (args, blobs) = (&args[..], &given[..]);
        let mut request = dispatch::Request { engine, worker, session, reply, args, blobs, others };
        let outcome = dispatch::execute(&mut request, prepared);
        engine.keyspace.gate.leave(slot);
        worker.context.limbo.reclaim();
        if outcome == Outcome::Postponed {
            assert!(reply.is_empty(), "a postponed request has not replied");
        }
        let bytes = reply.to_bytes().into_owned();
        reply.clear();
        bytes
    }

    /// Runs a line that must block.
    #[track_caller]
    pub fn wait_as(&mut self, client: usize, line: &str) {
        assert_eq!(self.run_as(client, line), "", "{line}");
        assert!(self.is_waiting(client), "{line}");
    }

    /// True if the client's session is blocked.
    pub fn is_waiting(&mut self, client: usize) -> bool {
        self.session(client).blocked.is_some()
    }

    /// Delivers pending messages, as loops do. Returns a client's pushes.
    pub fn told(&mut self, client: usize) -> String {
        while let Some(message) = self.engine.clients.mailboxes[0].take() {
            let (id, served, ending) = match message {
                Message::Served { id, reply, .. } => (id, reply, None),
                Message::Unblock { id, how } => (id, Vec::new(), Some(how.into())),
                _ => continue,
            };
            let Some(at) = self.clients.iter().position(|(session, _)| session.id() == id) else { continue };
            match ending {
                Some(ending) => self.give_up(at, ending),
                None => {
                    let (session, reply) = &mut self.clients[at];
                    let blocked = session.blocked.take().expect("only a waiting client is served");
                    blocked.answer(&self.engine, 0, session, reply, served);
                }
            }
        }
        let reply = &mut self.clients[client].1;
        let bytes = reply.to_bytes().into_owned();
        reply.clear();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends a client's wait as its loop does on a timeout, unless the client is being served.
    pub fn time_out(&mut self, client: usize) {
        if self.clients[client].0.blocked.as_ref().is_some_and(|blocked| blocked.claim()) {
            self.give_up(client, WaitEnd::Timeout);
        }
    }

    fn give_up(&mut self, client: usize, ending: WaitEnd) {
        let (session, reply) = &mut self.clients[client];
        let blocked = session.blocked.take().expect("a waiting client");
        blocked.leave(&self.engine, &mut self.worker);
        blocked.give_up(&self.engine, &self.worker, session, reply, ending);
    }

    /// Runs lines as client 0 and compares each reply.
    #[track_caller]
    pub fn check(&mut self, exchanges: &[(&str, &str)]) {
        for (index, (line, expected)) in exchanges.iter().enumerate() {
            let found = self.run(line);
            assert_eq!(found, *expected, "reply {index}, to: {line}");
        }
    }

    /// Runs `work` on keys of database 0 with their locks held, without a command.
    pub fn with_keys<R>(&mut self, keys: &[&[u8]], work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
        let keyspace = &self.engine.keyspace;
        let refs: Vec<KeyRef<'_>> =
            keys.iter().map(|key| KeyRef { key, hash: keyspace.hash(key), write: true }).collect();
        let slot = self.worker.context.slot;
        keyspace.gate.enter(slot);
        let now = braid_base::clock::unix_ms();
        let result = work(&mut lock(keyspace, &mut self.worker.context, LockSet::Keys(&refs), 0, now));
        keyspace.gate.leave(slot);
        result
    }

    /// OBJECT ENCODING of a key of database 0; `none` if the key is missing.
    pub fn encoding(&mut self, key: &str) -> &'static str {
        let key = key.as_bytes();
        self.with_keys(&[key], |txn| txn.peek(key).map_or("none", |entry| entry.encoding_name()))
    }

    /// Stores an empty set at a key of database 0 without using commands, as a value of another
    /// type.
    pub fn put_set(&mut self, key: &str) {
        let key = key.as_bytes();
        self.with_keys(&[key], |txn| {
            txn.set_object(
                Event::generic("set"),
                key,
                Object::new(braid_values::set::Set::default()),
                Expiry::Clear,
            )
        });
    }
}

/// Runs lines on a new engine and compares each reply.
#[track_caller]
pub fn check(exchanges: &[(&str, &str)]) {
    Tester::new().check(exchanges);
}

/// [`check`] for a RESP3 client.
#[track_caller]
pub fn check_resp3(exchanges: &[(&str, &str)]) {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(exchanges);
}

#[test]
fn requests_run_from_parsing_to_reply() {
    check(&[
        ("SET k \"a\\x00b\"", "+OK\r\n"),
        ("get k", "$3\r\na\0b\r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("NOSUCH k", "-ERR unknown command 'NOSUCH', with args beginning with: 'k' \r\n"),
        (
            "graph.QUERY k",
            "-ERR unknown command 'graph.QUERY', with args beginning with: 'k' - Braid has no graphs \
             (docs/compatibility.md)\r\n",
        ),
    ]);
}
