// SPDX-License-Identifier: BSD-3-Clause
//! CLIENT CAPA redirect: a replica redirects such clients to its primary. Valkey 9, if available,
//! must reply like the server under test.

use std::path::{Path, PathBuf};

use braid_tests::server::{newer_peers, program_under_test};
use braid_tests::{RawClient, TestServer, Value, request, wait_for};

use crate::wait_until_in_sync;

const USUAL: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--save", ""];

/// The server under test, and Valkey.
fn programs() -> Vec<PathBuf> {
    let valkey = newer_peers().into_iter().filter(|peer| peer.version.starts_with("valkey"));
    std::iter::once(program_under_test().clone()).chain(valkey.map(|peer| peer.program)).collect()
}

struct Pair {
    primary: TestServer,
    replica: TestServer,
}

impl Pair {
    fn start(program: &Path) -> Pair {
        println!("{}", program.display());
        let primary = TestServer::start_program(program, &USUAL);
        let port = primary.port().to_string();
        let replica =
            TestServer::start_program(program, &[&USUAL[..], &["--replicaof", "127.0.0.1", &port]].concat());
        let pair = Pair { primary, replica };
        let mut client = pair.primary.connect();
        client.ok("SET k v");
        client.call(
            "FUNCTION LOAD \"#!lua name=x\\nredis.register_function('f', function() return 1 end)\\n\
             redis.register_function{function_name='g', callback=function() return 1 end, flags={'no-writes'}}\"",
        );
        wait_until_in_sync(&mut client, &mut pair.replica.connect());
        pair
    }

    fn redirection(&self) -> String {
        format!("REDIRECT 127.0.0.1:{}", self.primary.port())
    }
}

fn capable(server: &TestServer) -> RawClient {
    let mut client = server.connect();
    client.ok("CLIENT CAPA redirect");
    client
}

#[track_caller]
fn replies(client: &mut RawClient, exchanges: &[(&str, &str)]) {
    for (line, expected) in exchanges {
        let reply = client.call(line);
        let text = match reply {
            Value::Integer(number) => number.to_string(),
            other => other.text(),
        };
        assert!(text.starts_with(expected), "{line}: {text}, not {expected}");
    }
}

const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

#[test]
fn replica_redirects_clients_with_the_redirect_capability() {
    for program in programs() {
        let pair = Pair::start(&program);
        let redirect = pair.redirection();
        let redirect = redirect.as_str();
        // Other clients are served as usual.
        let mut plain = pair.replica.connect();
        replies(&mut plain, &[("GET k", "v"), ("SET k 1", READ_ONLY)]);
        let mut client = capable(&pair.replica);
        replies(
            &mut client,
            &[
                ("GET k", redirect),
                ("SET k 1", redirect),
                ("KEYS *", redirect),
                ("BLPOP l 1", redirect),
                ("FLUSHALL", redirect),
                ("SWAPDB 0 1", redirect),
                ("XREAD STREAMS s 0", redirect),
                ("PING", "PONG"),
                ("PUBLISH a b", "0"),
                ("WATCH k", "OK"),
                ("SELECT 1", "OK"),
                ("SELECT 0", "OK"),
                ("GET", "ERR wrong number"),
                // A script that declares nothing is started.
                ("EVAL \"return 1\" 0", "1"),
                ("EVAL \"return redis.call('get', KEYS[1])\" 1 k", "v"),
                ("EVAL \"return redis.call('set', KEYS[1], 1)\" 1 k", READ_ONLY),
                ("EVAL \"#!lua\\nreturn 1\" 0", redirect),
                ("EVAL \"#!lua flags=no-writes\\nreturn 1\" 1 k", "1"),
                ("EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k", redirect),
                ("FCALL f 0", redirect),
                ("FCALL g 0", "1"),
                ("FCALL_RO g 0", redirect),
                ("MULTI", "OK"),
                ("GET k", redirect),
                ("PING", "QUEUED"),
                ("EXEC", "EXECABORT Transaction discarded because of previous errors."),
                ("READONLY", "OK"),
                ("GET k", "v"),
                ("SET k 1", redirect),
                ("EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k", "v"),
                ("MULTI", "OK"),
                ("GET k", "QUEUED"),
            ],
        );
        assert_eq!(client.call("EXEC").elements().expect("a list")[0].text(), "v");
        replies(
            &mut client,
            &[("READWRITE", "OK"), ("GET k", redirect), ("READONLY", "OK"), ("RESET", "RESET")],
        );
        // The connection's capabilities persist, its settings do not.
        replies(&mut client, &[("GET k", redirect)]);
        // Writable replicas, and replicas without a link, redirect too.
        plain.ok("CONFIG SET replica-read-only no");
        replies(&mut client, &[("SET k 1", redirect)]);
        plain.ok("CONFIG SET replica-read-only yes replica-serve-stale-data no");
        plain.ok("REPLICAOF 127.0.0.1 1");
        replies(&mut client, &[("GET k", "REDIRECT 127.0.0.1:1"), ("PING", "MASTERDOWN")]);
        plain.ok("REPLICAOF NO ONE");
        replies(&mut client, &[("GET k", "v"), ("SET k 1", "OK")]);
    }
}

#[test]
fn a_failover_sends_waiting_clients_to_the_new_primary() {
    for program in programs() {
        let pair = Pair::start(&program);
        let redirect = format!("REDIRECT 127.0.0.1:{}", pair.replica.port());
        let mut client = pair.primary.connect();
        let waits = |mut waiting: RawClient, line: &str| {
            waiting.send(&request(line));
            waiting
        };
        let mut pops = waits(capable(&pair.primary), "BLPOP l 0");
        let mut reads = waits(capable(&pair.primary), "XREAD BLOCK 0 STREAMS s $");
        let mut stays = capable(&pair.primary);
        stays.ok("READONLY");
        let mut stays = waits(stays, "XREAD BLOCK 0 STREAMS s $");
        let mut plain = waits(pair.primary.connect(), "BLPOP l 0");
        wait_for("all wait", || client.info_field("clients", "blocked_clients").as_deref() == Some("4"));
        let mut queued = capable(&pair.primary);
        replies(&mut queued, &[("MULTI", "OK"), ("SET k 5", "QUEUED")]);
        client.ok(&format!("FAILOVER TO 127.0.0.1 {}", pair.replica.port()));
        let mut writer = capable(&pair.primary);
        replies(&mut writer, &[("SET k 6", &redirect), ("GET k", &redirect)]);
        replies(&mut queued, &[("EXEC", &redirect), ("PING", "PONG")]);
        assert_eq!([pops.read().text(), reads.read().text()], [redirect.clone(), redirect.clone()]);
        assert!(plain.read().text().starts_with("UNBLOCKED"));
        // Clients that read from the replica get the changes it receives.
        wait_for("the new primary takes writes", || {
            pair.replica.connect().call("XADD s 1-1 a b").text() == "1-1"
        });
        assert!(stays.read().to_string().contains("1-1"));
        replies(&mut pops, &[("PING", "PONG"), ("LLEN l", &redirect)]);
    }
}
