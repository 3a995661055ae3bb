// SPDX-License-Identifier: BSD-3-Clause
//! What every type must survive: kills, rewrites in both forms, saves, and the way to a replica.

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, wait_for};

use super::{DataFolder, rewrite};

/// A folder for servers, one after the other, that lose nothing when they are killed.
pub struct Restarts {
    place: DataFolder,
    /// Whether rewritten append-only files begin with a dump: `yes` or `no`.
    pub preamble: &'static str,
}

impl Restarts {
    /// One folder for each form of rewritten files; none unless Braid is tested.
    pub fn in_both_forms() -> impl Iterator<Item = Restarts> {
        let forms = ["yes", "no"].into_iter().filter(|_| is_braid());
        forms.map(|preamble| Restarts { place: DataFolder::new(), preamble })
    }

    /// Starts a server, and connects. Dropping the server kills it.
    pub fn start(&self) -> (TestServer, RawClient) {
        let form = ["--aof-use-rdb-preamble", self.preamble];
        let server = self
            .place
            .start(&[&form[..], &["--appendfsync", "always", "--enable-debug-command", "yes"]].concat());
        let client = server.connect();
        (server, client)
    }

    /// That `digest` stays as it is through a kill, a rewrite with changes after it, a rewrite
    /// alone, DEBUG RELOAD, and on a replica. `change` makes one part of the changes at each call.
    #[track_caller]
    pub fn keep(self, mut change: impl FnMut(&mut RawClient), digest: impl Fn(&mut RawClient) -> String) {
        let (server, mut client) = self.start();
        change(&mut client);
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = self.start();
        assert_eq!(digest(&mut client), before);
        rewrite(&mut client);
        change(&mut client);
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = self.start();
        assert_eq!(digest(&mut client), before);
        rewrite(&mut client);
        drop(server);
        let (server, mut client) = self.start();
        assert_eq!(digest(&mut client), before, "from the rewrite alone");
        client.ok("DEBUG RELOAD");
        assert_eq!(digest(&mut client), before);
        let port = server.port().to_string();
        let replica =
            TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
        let mut its = replica.connect();
        wait_for("the replica is in sync", || {
            its.info_field("replication", "master_link_status").as_deref() == Some("up")
        });
        wait_for("the replica has all", || digest(&mut its) == before);
        change(&mut client);
        let after = digest(&mut client);
        wait_for("the replica has the changes", || digest(&mut its) == after);
    }
}

/// What DEBUG DIGEST-VALUE replies for each of these keys.
pub fn digests(client: &mut RawClient, keys: &[&str]) -> String {
    let digests = keys.iter().map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}")).to_string());
    digests.collect::<Vec<_>>().join(" ")
}
