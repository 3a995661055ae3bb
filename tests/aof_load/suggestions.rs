// SPDX-License-Identifier: BSD-3-Clause
//! Suggestions survive a restart: after a kill, after a rewrite in either form, and after a save;
//! and a replica has them.

use braid_tests::{RawClient, TestServer, wait_for};

use super::{Restarts, rewrite};

fn add(client: &mut RawClient, texts: std::ops::Range<u32>) {
    for number in texts {
        let payload = if number % 3 == 0 { format!(" PAYLOAD p{number}") } else { String::new() };
        let added = client.call(&format!("FT.SUGADD words text:{number} {}{payload}", number % 7 + 1));
        assert!(!added.is_error(), "{added}");
    }
}

fn digest(client: &mut RawClient) -> String {
    let of =
        |client: &mut RawClient, key: &str| client.call(&format!("DEBUG DIGEST-VALUE {key}")).to_string();
    format!("{} {}", of(client, "words"), of(client, "empty"))
}

#[test]
fn suggestions_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        add(&mut client, 0..300);
        assert_eq!(client.call("FT.SUGADD words text:5 1.5 INCR").to_string(), "(integer) 300");
        assert_eq!(client.call("FT.SUGDEL words text:6").to_string(), "(integer) 1");
        assert_eq!(client.call("FT.SUGADD empty x 0").to_string(), "(integer) 0");
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(digest(&mut client), before);
        rewrite(&mut client);
        add(&mut client, 300..400);
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(digest(&mut client), before);
        assert_eq!(client.call("TYPE empty").text(), "trietype0");
        client.ok("DEBUG RELOAD");
        assert_eq!(digest(&mut client), before);
        let port = server.port().to_string();
        let replica =
            TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
        let mut its = replica.connect();
        wait_for("the replica has them", || digest(&mut its) == before);
        add(&mut client, 400..410);
        let after = digest(&mut client);
        wait_for("the replica has the others", || digest(&mut its) == after);
    }
}
