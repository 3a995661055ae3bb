// SPDX-License-Identifier: BSD-3-Clause
//! Names that producers give a stream's entries, and entries given back by XNACK, survive a
//! restart: after a kill, after a rewrite in either form, and after a save; and replicas have them.

use braid_tests::{RawClient, TestServer, Value, wait_for};

use super::restarts::Restarts;
use super::rewrite;

/// What a server knows of the stream's names and released entries.
fn known(client: &mut RawClient) -> (String, String) {
    let stream = client.call("XINFO STREAM s");
    let fields = stream.elements().expect("a stream");
    let of_names: Vec<String> = fields
        .chunks_exact(2)
        .filter(|pair| {
            ["idmp-duration", "idmp-maxsize", "iids-tracked", "iids-added", "iids-duplicates"]
                .contains(&pair[0].text().as_str())
        })
        .map(|pair| pair[1].integer().unwrap_or_default().to_string())
        .collect();
    (of_names.join(" "), client.call("XPENDING s g - + 10 ").to_string())
}

/// Sends an entry again that the stream has.
#[track_caller]
fn check_found(client: &mut RawClient, name: &str, id: &str) {
    assert_eq!(client.call(&format!("XADD s IDMP p {name} * f v")).text(), id, "{name}");
}

#[test]
fn names_and_releases_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        let one = client.call("XADD s IDMP p one * f v").text();
        client.ok("XCFGSET s IDMP-DURATION 80000 IDMP-MAXSIZE 50");
        let two = client.call("XADD s IDMP p two * f v").text();
        let auto = client.call("XADD s IDMPAUTO p * f unnamed").text();
        assert!(one < two && two < auto);
        client.ok("XGROUP CREATE s g 0");
        client.call("XREADGROUP GROUP g c STREAMS s >");
        assert_eq!(client.call(&format!("XNACK s g FATAL IDS 1 {two}")), Value::Integer(1));
        client.call(&format!("XACK s g {one} {auto}"));
        // The name of a deleted entry is known as well.
        client.call(&format!("XDEL s {auto}"));
        let before = known(&mut client);
        assert_eq!(before.0, "80000 50 2 3 0");
        assert!(before.1.contains("9223372036854775807"), "{}", before.1);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(known(&mut client), before);
        // What was found rather than added is counted, and a rewrite keeps the numbers.
        check_found(&mut client, "two", &two);
        let before = known(&mut client);
        assert_eq!(before.0, "80000 50 2 3 1");
        rewrite(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(known(&mut client), before, "rewritten, preamble {}", restarts.preamble);
        client.ok("DEBUG RELOAD");
        assert_eq!(known(&mut client), before);
        check_found(&mut client, "two", &two);
        assert_eq!(client.call("XADD s IDMPAUTO p * f unnamed").text(), auto);
        // A replica gets them in its full sync, and later ones in the stream.
        let port = server.port().to_string();
        let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
        let mut its = replica.connect();
        wait_for("the full sync", || its.call("EXISTS s") == Value::Integer(1));
        client.call("XADD s IDMP p three * f v");
        let now = known(&mut client);
        wait_for("the replica to know the name", || known(&mut its) == now);
        its.ok("REPLICAOF NO ONE");
        check_found(&mut its, "two", &two);
    }
}
