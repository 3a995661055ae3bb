// SPDX-License-Identifier: BSD-3-Clause
//! Keys that BLESS protects stay so after a kill, a rewrite in either form, and a save; a replica
//! has them, and eviction passes them over.

use braid_tests::{RawClient, TestServer, Value, wait_for};

use super::restarts::Restarts;
use super::rewrite;

const KEYS: [&str; 7] = ["text", "number", "large", "later", "sorted", "ranked", "imported"];

fn protected(client: &mut RawClient) -> Vec<String> {
    let found = client.call("BLESS SCAN 0 NO-EVICT COUNT 100000");
    let keys = found.elements().and_then(|parts| parts[1].elements()).unwrap_or_default();
    let mut keys: Vec<String> = keys.iter().map(Value::text).collect();
    keys.sort();
    keys
}

#[test]
fn protected_keys_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        client.ok("SET text value");
        client.ok("SET number 12");
        client.call("SETRANGE large 100000 end");
        client.ok("SET later v PXAT 4000000000000");
        client.ok("SET other value");
        // The values of these are replaced; files and replicas learn that as a removal and a value.
        client.ok("SET sorted v");
        client.ok("SET ranked v");
        client.call("HSET imported a 1");
        for key in KEYS.iter().chain(&["other"]) {
            assert_eq!(client.call(&format!("BLESS SET {key} NO-EVICT")), Value::Integer(1), "{key}");
        }
        client.call("BLESS CLEAR other NO-EVICT");
        client.call("INCR number");
        client.call("RPUSH list b a");
        client.call("ZADD scores 1 a");
        assert_eq!(client.call("SORT list ALPHA STORE sorted"), Value::Integer(2));
        assert_eq!(client.call("ZUNIONSTORE ranked 1 scores AGGREGATE COUNT"), Value::Integer(1));
        client.ok("HIMPORT PREPARE names a b");
        client.ok("HIMPORT SET imported names 1 2");
        let mut expected = KEYS.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(protected(&mut client), expected);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(protected(&mut client), expected, "preamble {}", restarts.preamble);
        rewrite(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(protected(&mut client), expected, "rewritten, preamble {}", restarts.preamble);
        client.ok("DEBUG RELOAD");
        assert_eq!(protected(&mut client), expected, "saved");
        // A replica gets them in its full sync, and later ones in the stream.
        let port = server.port().to_string();
        let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
        let mut its = replica.connect();
        wait_for("the full sync", || its.call("EXISTS text") == Value::Integer(1));
        assert_eq!(protected(&mut its), expected, "of the replica");
        client.call("BLESS CLEAR text NO-EVICT");
        wait_for("the replica to know", || protected(&mut its).len() == KEYS.len() - 1);
        // What is protected stays, and then there is nothing to evict.
        client.ok("CONFIG SET maxmemory 1 maxmemory-policy allkeys-random");
        wait_for("the eviction of all others", || client.call("DBSIZE") == Value::Integer(6));
        assert!(client.call("SET more v").text().starts_with("OOM"), "all are protected");
        client.call("BLESS CLEAR later NO-EVICT");
        wait_for("the eviction of one more", || client.call("DBSIZE") == Value::Integer(5));
    }
}
