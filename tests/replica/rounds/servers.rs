// SPDX-License-Identifier: BSD-3-Clause
//! The servers of a round: each keeps its port and its folder across restarts.

use braid_tests::server::{Options, Peer, free_port};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::peers;
use crate::proxy::Proxy;

/// A kind of server.
#[derive(Clone)]
pub struct ServerKind {
    /// `None`: the program under test.
    peer: Option<Peer>,
    /// As in `Peer::version`.
    pub name: String,
    pub is_under_test: bool,
}

/// The kinds available on this machine; the one under test comes first.
pub fn kinds() -> Vec<ServerKind> {
    let under_test = ServerKind { peer: None, name: "under test".into(), is_under_test: true };
    let stock = peers().into_iter().map(|peer| {
        let name = peer.version.clone();
        ServerKind { peer: Some(peer), name, is_under_test: false }
    });
    std::iter::once(under_test).chain(stock).collect()
}

impl ServerKind {
    /// True if it can load full syncs of another kind. A stock server loads those of its own
    /// version, and of Redis 7.0 if it is newer.
    pub fn can_follow(&self, other: &ServerKind) -> bool {
        self.is_under_test
            || other.is_under_test
            || self.name == other.name
            || other.name.starts_with("redis 7.0")
    }
}

/// A server that may be restarted.
pub struct Node {
    pub kind: ServerKind,
    pub port: u16,
    /// The proxy through which replicas connect.
    pub proxy: Proxy,
    arguments: Vec<String>,
    server: TestServer,
    client: RawClient,
    /// Logs of earlier processes.
    earlier: String,
    _folder: TempDir,
}

impl Node {
    /// Starts a server with some random settings. `rdb_target`: the target of full syncs, for a
    /// server under test.
    pub fn start(kind: ServerKind, rdb_target: Option<&str>, random: &mut fastrand::Rng) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut pick = |some: &[&str]| some[random.usize(..some.len())].to_owned();
        let settings = [
            ("dir", folder.path().to_str().expect("a readable path").to_owned()),
            ("enable-debug-command", "yes".into()),
            ("repl-diskless-sync-delay", "0".into()),
            ("repl-timeout", "20".into()),
            ("shutdown-timeout", "1".into()),
            ("repl-backlog-size", pick(&["16kb", "256kb", "16mb"])),
            ("repl-diskless-sync", pick(&["yes", "no"])),
            ("repl-diskless-load", pick(&["disabled", "on-empty-db", "swapdb"])),
            // Delays of full syncs, in microseconds per key.
            ("rdb-key-save-delay", pick(&["0", "0", "200"])),
            ("key-load-delay", pick(&["0", "0", "200"])),
            ("appendonly", pick(&["yes", "no"])),
            ("appendfsync", pick(&["always", "everysec"])),
        ];
        println!("  {} at {port}: {settings:?}", kind.name);
        let mut arguments: Vec<String> =
            settings.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect();
        if let Some(target) = rdb_target.filter(|_| kind.is_under_test) {
            arguments.extend(["--rdb-target".to_owned(), target.to_owned()]);
        }
        let server = start(&kind, port, &arguments, None);
        let client = server.connect();
        let proxy = Proxy::new(port);
        Node { kind, port, proxy, arguments, server, client, earlier: String::new(), _folder: folder }
    }

    /// Stops the server (`SAVE` and `NOSAVE` of SHUTDOWN, or `kill`), and restarts it, as a
    /// replica if `follows` is given.
    pub fn restart(&mut self, way: &str, follows: Option<u16>) {
        match way {
            "kill" => self.server.signal(Signal::KILL),
            _ => {
                // FORCE, because SHUTDOWN is refused while a dump or the first append-only file
                // is being written.
                let request = braid_tests::request(&format!("SHUTDOWN {way} FORCE"));
                let mut client = self.server.connect();
                client.send(&request);
                let _ = client.read_to_close();
            }
        }
        self.server.wait();
        self.earlier.push_str(&self.server.log());
        self.server = start(&self.kind, self.port, &self.arguments, follows);
        self.client = self.server.connect();
    }

    /// Makes the server a replica of the server on a port, or a primary.
    pub fn follow(&mut self, port: Option<u16>) {
        match port {
            Some(port) => self.ok(&format!("REPLICAOF 127.0.0.1 {port}")),
            None => self.ok("REPLICAOF NO ONE"),
        }
    }

    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    pub fn connect(&self) -> RawClient {
        self.server.connect()
    }

    /// The reply to a request, over a new connection if the last one was killed.
    pub fn call(&mut self, request: &str) -> Value {
        let bytes = braid_tests::request(request);
        for _ in 0..3 {
            if self.client.try_send(&bytes).is_ok()
                && let Ok(reply) = self.client.try_read()
            {
                return reply;
            }
            self.client = self.server.connect();
        }
        panic!("{} does not answer {request}; its log:\n{}", self.kind.name, self.log());
    }

    /// Repeats a request while it is refused because the dataset is being loaded.
    pub fn ok(&mut self, request: &str) {
        wait_for("the server has loaded its dataset", || {
            let reply = self.call(request).text();
            assert!(
                reply.starts_with("OK") || reply.starts_with("LOADING"),
                "{}: reply to {request}: {reply}",
                self.kind.name
            );
            reply.starts_with("OK")
        });
    }

    /// An INFO field; empty if it is missing.
    pub fn info(&mut self, section: &str, field: &str) -> String {
        let text = self.call(&format!("INFO {section}")).text();
        let prefix = format!("{field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_default().to_owned()
    }

    /// The logs of all its processes.
    pub fn log(&self) -> String {
        format!("==== {} at {}\n{}{}", self.kind.name, self.port, self.earlier, self.server.log())
    }
}

fn start(kind: &ServerKind, port: u16, arguments: &[String], follows: Option<u16>) -> TestServer {
    let mut arguments = arguments.to_vec();
    if let Some(follows) = follows {
        arguments.extend(["--replicaof".to_owned(), "127.0.0.1".to_owned(), follows.to_string()]);
    }
    let program = kind.peer.as_ref().map(|peer| peer.program.clone());
    TestServer::start_with(Options { program, arguments, port: Some(port), ..Options::default() })
}
