// SPDX-License-Identifier: BSD-3-Clause
//! redis-cli and valkey-cli fetch dumps (`--rdb`, `--functions-rdb`) from primaries and replicas.

use std::path::{Path, PathBuf};
use std::process::Command;

use braid_tests::server::{Peer, peer, program_under_test};
use braid_tests::{RawClient, TestServer, wait_for};

use crate::{peers, primary, replica_at, wait_until_in_sync};

/// The command-line clients installed with this machine's stock servers.
fn clients() -> Vec<PathBuf> {
    let beside = |peer: &Peer| {
        let name = if peer.version.starts_with("valkey") { "valkey-cli" } else { "redis-cli" };
        peer.program.with_file_name(name)
    };
    let found: Vec<PathBuf> = peers().iter().map(beside).filter(|program| program.is_file()).collect();
    if found.is_empty() {
        println!("skipped: no redis-cli on PATH");
    }
    found
}

/// A primary with keys in two databases and a function, and a replica of it.
fn pair() -> Option<(TestServer, TestServer)> {
    let server = primary(&[]);
    let mut client = server.connect();
    client.ok("SET k v");
    client.call("RPUSH list a b c");
    client.ok("SELECT 3");
    client.ok("SET other 1");
    client.call(
        "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 'of the function' end)\"",
    );
    let own = peer(program_under_test())?;
    let replica = replica_at(&own, &server.port().to_string(), &[]);
    wait_until_in_sync(&mut client, &mut replica.connect());
    Some((server, replica))
}

fn run(client: &Path, of: &TestServer, arguments: &[&str]) {
    let output = Command::new(client).args(["-p", &of.port().to_string()]).args(arguments).output();
    let output = output.expect("the client starts");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {arguments:?}: {said}", client.display());
}

/// Starts a server that loads a dump file.
fn with_dump(file: &Path) -> TestServer {
    let folder = file.parent().expect("a folder").to_str().expect("text");
    let name = file.file_name().expect("a name").to_str().expect("text");
    TestServer::start(&["--dir", folder, "--dbfilename", name, "--save", ""])
}

#[test]
fn dumps_are_transferred_from_both_roles() {
    let Some((server, replica)) = pair() else { return };
    for client in clients() {
        for of in [&server, &replica] {
            println!("{} of {}", client.display(), of.port());
            let folder = tempfile::tempdir().expect("a folder");
            let all = folder.path().join("all.rdb");
            run(&client, of, &["--rdb", all.to_str().expect("text")]);
            let mut loaded = with_dump(&all).connect_and_keep();
            assert_eq!(loaded.1.call("GET k").text(), "v");
            assert_eq!(loaded.1.call("LLEN list").to_string(), "(integer) 3");
            assert_eq!(loaded.1.call("FCALL f 0").text(), "of the function");
            loaded.1.ok("SELECT 3");
            assert_eq!(loaded.1.call("GET other").text(), "1");
            let functions = folder.path().join("functions.rdb");
            run(&client, of, &["--functions-rdb", functions.to_str().expect("text")]);
            let mut loaded = with_dump(&functions).connect_and_keep();
            assert_eq!(loaded.1.call("FCALL f 0").text(), "of the function");
            assert_eq!(loaded.1.call("DBSIZE").to_string(), "(integer) 0");
        }
    }
    // The server is unchanged.
    wait_for("only the replica is attached", || {
        server.connect().info_field("replication", "connected_slaves").as_deref() == Some("1")
    });
}

trait ConnectAndKeep {
    fn connect_and_keep(self) -> (TestServer, RawClient);
}

impl ConnectAndKeep for TestServer {
    /// A server and a client of it; both are kept alive.
    fn connect_and_keep(self) -> (TestServer, RawClient) {
        let client = self.connect();
        (self, client)
    }
}
