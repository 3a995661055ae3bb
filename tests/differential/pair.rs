// SPDX-License-Identifier: BSD-3-Clause
//! Two servers that receive the same commands: the one under test and its peer.

use std::path::PathBuf;
use std::time::Duration;

use braid_tests::client::{RawClient, ReadError};
use braid_tests::server::{Options, Peer};
use braid_tests::{TestServer, Value, words};

use crate::compare::{agree, name, random_effect};
use crate::generator::Command;
use crate::keyspace;
use crate::known::Known;

/// One command on one of the connections.
#[derive(Clone, Debug)]
pub struct Item {
    pub connection: usize,
    pub command: Command,
}

/// Number of connections: enough for one to interfere with another one's watched keys.
pub const CONNECTIONS: usize = 3;

/// Time limit for a reply; after that it counts as missing.
const PATIENCE: Duration = Duration::from_secs(8);

/// Number of commands between comparisons of the keyspaces.
const KEYSPACE_EVERY: usize = 100;

/// How a sequence is sent.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// RESP version, 2 or 3.
    pub protocol: u8,
    /// Number of commands that one connection sends before it reads their replies.
    pub pipeline: usize,
    /// True if OBJECT ENCODING of every key is compared too.
    pub encodings: bool,
}

/// The first disagreement in a sequence.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// Length of the prefix of the sequence that shows the mismatch.
    pub needed: usize,
    /// The command's name, or `keyspace`: two mismatches with equal signatures count as one.
    pub signature: String,
    pub description: String,
}

struct Side {
    options: Options,
    server: TestServer,
    control: Option<RawClient>,
    clients: Vec<Option<RawClient>>,
}

/// The server under test and its peer.
pub struct Pair {
    /// The server under test, then the peer.
    sides: [Side; 2],
    known: Vec<Known>,
    /// Number of compared replies, and of errors among them: most commands should have an effect.
    compared: u64,
    errors: u64,
}

impl Side {
    fn start(options: Options) -> Side {
        let server = TestServer::start_with(options.clone());
        Side { options, server, control: None, clients: Vec::new() }
    }

    /// Empties the server and opens new connections, restarting it if it has died or does not
    /// reply.
    fn reset(&mut self, protocol: u8) {
        self.clients.clear();
        for _ in 0..3 {
            if self.try_reset(protocol).is_ok() {
                return;
            }
            self.control = None;
            self.clients.clear();
            self.server = TestServer::start_with(self.options.clone());
        }
        panic!("cannot reset a fresh server; its log:\n{}", self.server.log());
    }

    fn try_reset(&mut self, protocol: u8) -> Result<(), ReadError> {
        if !self.server.is_alive() {
            return Err(closed());
        }
        if self.control.is_none() {
            self.control = Some(self.connect()?);
        }
        let control = self.control();
        let commands =
            ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "CONFIG SET maxmemory 0", "CONFIG SET timeout 0"];
        let request: Vec<u8> =
            commands.iter().map(|command| braid_tests::request(command)).collect::<Vec<_>>().concat();
        control.try_send(&request).map_err(|_| closed())?;
        for _ in commands {
            control.try_read()?;
        }
        for _ in 0..CONNECTIONS {
            let client = self.open(protocol)?;
            self.clients.push(Some(client));
        }
        Ok(())
    }

    fn connect(&self) -> Result<RawClient, ReadError> {
        let mut client = RawClient::tcp(self.server.address()).map_err(|_| closed())?;
        client.set_patience(PATIENCE).map_err(|_| closed())?;
        Ok(client)
    }

    fn open(&self, protocol: u8) -> Result<RawClient, ReadError> {
        let mut client = self.connect()?;
        if protocol == 3 {
            client.try_send(b"HELLO 3\r\n").map_err(|_| closed())?;
            let reply = client.try_read()?;
            assert!(matches!(reply, Value::Map(_)), "the reply to HELLO 3 is not a map: {reply}");
        }
        Ok(client)
    }

    fn client(&mut self, connection: usize) -> &mut RawClient {
        self.clients[connection].as_mut().expect("every connection is open")
    }

    fn control(&mut self) -> &mut RawClient {
        self.control.as_mut().expect("reset has opened it")
    }
}

/// True if one of the known differences covers a command's two replies.
fn excuse(known: &[Known]) -> impl Fn(&Command, &Value, &Value) -> bool {
    |command, one, other| known.iter().any(|known| known.excuses(command, one, other))
}

/// Two replies, one below the other; long ones only around the first difference.
fn contrast(one: &str, other: &str) -> String {
    const BEFORE: usize = 150;
    const LEN: usize = 400;
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = same.saturating_sub(BEFORE);
    let [one, other] = [one, other].map(|text| {
        let part: String = text.chars().skip(start).take(LEN).collect();
        let before = if start > 0 { "..." } else { "" };
        let after = if text.chars().count() > start + LEN { "..." } else { "" };
        format!("{before}{part}{after}")
    });
    format!("  under test: {one}\n  peer:       {other}")
}

fn closed() -> ReadError {
    ReadError::Closed(Vec::new())
}

impl Pair {
    /// Starts both servers. Known differences apply only if Braid is under test.
    pub fn start(peer: &Peer) -> Pair {
        let known = if braid_tests::server::is_braid() { crate::known::read() } else { Vec::new() };
        let known = known
            .into_iter()
            .filter(|known| words::glob(known.peer.as_bytes(), peer.version.as_bytes()))
            .collect();
        Pair::of(
            [Options::default(), Options { program: Some(peer.program.clone()), ..Options::default() }],
            known,
        )
    }

    /// Starts one program twice with different arguments, to check that differences are found.
    pub fn of_program(program: PathBuf, arguments: &[&str]) -> Pair {
        let plain = Options { program: Some(program), ..Options::default() };
        let changed =
            Options { arguments: arguments.iter().map(|&text| text.to_owned()).collect(), ..plain.clone() };
        Pair::of([changed, plain], Vec::new())
    }

    fn of(options: [Options; 2], known: Vec<Known>) -> Pair {
        Pair { sides: options.map(Side::start), known, compared: 0, errors: 0 }
    }

    /// A textual summary of the comparisons.
    pub fn summary(&self) -> String {
        let share = 100 * self.errors / self.compared.max(1);
        format!("{} replies compared, {share} % of them errors", self.compared)
    }

    /// The known differences that apply to this peer.
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Runs these commands on emptied servers; returns both replies to the last one.
    pub fn replies(&mut self, commands: &[Command]) -> [Value; 2] {
        self.sides.each_mut().map(|side| {
            side.reset(2);
            let mut last = Value::Null;
            for command in commands {
                last = side.client(0).call_arguments(command);
            }
            last
        })
    }

    /// Runs a sequence from an empty state; the error is the first disagreement.
    pub fn run(&mut self, items: &[Item], manner: Manner) -> Result<(), Mismatch> {
        for side in &mut self.sides {
            side.reset(manner.protocol);
        }
        let mut queues: Vec<Option<Vec<Command>>> = vec![None; CONNECTIONS];
        let mut at = 0;
        let mut compared = 0;
        while at < items.len() {
            let connection = items[at].connection;
            let len = items[at..]
                .iter()
                .take(manner.pipeline)
                .take_while(|item| item.connection == connection)
                .scan(false, |ended, item| {
                    let go_on = !*ended;
                    *ended |= random_effect(&item.command) || name(&item.command) == "EXEC";
                    go_on.then_some(())
                })
                .count();
            let batch = &items[at..at + len];
            self.run_batch(batch, at, &mut queues[connection], manner)?;
            at += len;
            if at - compared >= KEYSPACE_EVERY || at == items.len() {
                compared = at;
                self.compare_keyspaces(at, manner)?;
            }
        }
        Ok(())
    }

    fn run_batch(
        &mut self,
        batch: &[Item],
        first: usize,
        queue: &mut Option<Vec<Command>>,
        manner: Manner,
    ) -> Result<(), Mismatch> {
        let connection = batch[0].connection;
        let request: Vec<u8> =
            batch.iter().map(|item| words::encode(&item.command)).collect::<Vec<_>>().concat();
        let mut replies: [Vec<Result<Value, ReadError>>; 2] = [Vec::new(), Vec::new()];
        for side in &mut self.sides {
            // A connection that accepts no more bytes shows up as a missing reply.
            let _ = side.client(connection).try_send(&request);
        }
        for (side, replies) in self.sides.iter_mut().zip(&mut replies) {
            for _ in batch {
                let reply = side.client(connection).try_read();
                let broken = reply.is_err();
                replies.push(reply);
                if broken {
                    break;
                }
            }
        }
        let [under_test, peer] = replies;
        for (place, item) in batch.iter().enumerate() {
            let mismatch = |description: String| Mismatch {
                needed: first + place + 1,
                signature: name(&item.command),
                description: format!("{}\n{description}", words::line(&item.command)),
            };
            let one = under_test.get(place).unwrap_or(&Err(ReadError::TimedOut));
            let other = peer.get(place).unwrap_or(&Err(ReadError::TimedOut));
            let (one, other) = match (one, other) {
                (Ok(one), Ok(other)) => (one, other),
                (Err(ReadError::Closed(_)), Err(ReadError::Closed(_))) => {
                    for side in &mut self.sides {
                        match side.open(manner.protocol) {
                            Ok(client) => side.clients[connection] = Some(client),
                            Err(_) => {
                                return Err(mismatch(
                                    "  both servers closed the connection, and it cannot be reopened".into(),
                                ));
                            }
                        }
                    }
                    *queue = None;
                    return Ok(());
                }
                (one, other) => {
                    let [one, other] = [one, other].map(|reply| match reply {
                        Ok(value) => value.to_string(),
                        Err(error) => format!("no reply, {error:?}"),
                    });
                    return Err(mismatch(contrast(&one, &other)));
                }
            };
            self.compared += 1;
            self.errors += u64::from(other.is_error());
            if !agree(&item.command, queue.as_deref().unwrap_or(&[]), one, other, &excuse(&self.known)) {
                return Err(mismatch(contrast(&one.to_string(), &other.to_string())));
            }
            self.follow(item, other, queue).map_err(|error| mismatch(format!("  then: {error:?}")))?;
        }
        Ok(())
    }

    /// Tracks the queued commands, and makes the keyspaces equal again after a random effect.
    fn follow(
        &mut self,
        item: &Item,
        reply: &Value,
        queue: &mut Option<Vec<Command>>,
    ) -> Result<(), ReadError> {
        match name(&item.command).as_str() {
            "MULTI" if !reply.is_error() && queue.is_none() => *queue = Some(Vec::new()),
            "EXEC" | "DISCARD" | "RESET" => {
                let random =
                    queue.take().is_some_and(|queued| queued.iter().any(|command| random_effect(command)));
                if random && name(&item.command) == "EXEC" {
                    for side in &mut self.sides {
                        side.control().try_send(b"FLUSHALL\r\n").map_err(|_| closed())?;
                        side.control().try_read()?;
                    }
                }
            }
            _ => match queue {
                Some(queued) if *reply == Value::Simple(b"QUEUED".to_vec()) => {
                    queued.push(item.command.clone())
                }
                Some(_) => {}
                None if random_effect(&item.command) && item.command.len() > 1 => {
                    for side in &mut self.sides {
                        let client = side.client(item.connection);
                        client
                            .try_send(&words::encode(&[&b"DEL"[..], &item.command[1]]))
                            .map_err(|_| closed())?;
                        client.try_read()?;
                    }
                }
                None => {}
            },
        }
        Ok(())
    }

    fn compare_keyspaces(&mut self, needed: usize, manner: Manner) -> Result<(), Mismatch> {
        let [one, other] = &mut self.sides;
        let excuse = excuse(&self.known);
        let description =
            match keyspace::difference(one.control(), other.control(), manner.encodings, &excuse) {
                Ok(None) => return Ok(()),
                Ok(Some(difference)) => difference,
                Err(error) => format!("the keyspace cannot be read: {error:?}"),
            };
        Err(Mismatch {
            needed,
            signature: "keyspace".into(),
            description: format!("keyspaces: {description}"),
        })
    }
}
