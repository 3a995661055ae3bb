// SPDX-License-Identifier: BSD-3-Clause
//! Changes of part of a collection: peers receive the elements, never the whole, and update their
//! collections without rewriting them.

use super::pair::{all, let_time_pass};
use super::{PATIENCE, cut, link_all, server, texts, wait_until_equal};
use braid_tests::server::{newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value, wait_for, wait_for_within};

/// Number of elements of a collection.
const MANY: usize = 2_000;

/// Commands that change a few elements of a collection; the result must be the same everywhere.
const OF_PARTS: [&str; 46] = [
    "ZADD z GT 9000 m1 1 m2",
    "ZADD z LT 0.1 m3 9000 m4",
    "ZADD z NX 5 m5 6 new1",
    "ZADD z XX CH 7 m6 8 no-member",
    "ZADD z XX GT CH 0x10 m7",
    "ZADD z NX INCR 2 new2",
    "ZADD z GT INCR 2.5 m8",
    "ZADD z LT INCR 2.5 m8",
    "ZADD z XX INCR -3 m9",
    "ZADD z GT 1 m10 +inf m11",
    "ZPOPMIN z",
    "ZPOPMAX z 3",
    "ZMPOP 2 nothing z MIN COUNT 2",
    "BZPOPMIN z 1",
    "BZPOPMAX nothing z 1",
    "BZMPOP 1 1 z MAX COUNT 2",
    "ZREMRANGEBYRANK z 10 12",
    "ZREMRANGEBYSCORE z (100 103",
    "ZREMRANGEBYLEX equal [b [d",
    "GEOADD places 13.361389 38.115556 m20 15.087269 37.502669 there",
    "GEOADD places NX 1 2 there 3 4 new",
    "GEOADD places XX CH 5 6 new 7 8 no-member",
    "SPOP s",
    "SPOP s 3",
    "SMOVE s equal-type m100",
    "SMOVE s equal-type no-member",
    "HSETEX h EX 1000 FIELDS 2 f1 v new v",
    "HSETEX h KEEPTTL FIELDS 2 f1 w f2 w",
    "HSETEX h FNX FIELDS 1 new2 v",
    "HSETEX h FXX PXAT 4102444800000 FIELDS 1 f3 v",
    "HGETEX h EX 2000 FIELDS 1 f4",
    "HGETEX h PERSIST FIELDS 1 f4",
    "HGETDEL h FIELDS 3 f5 f6 no-field",
    "HINCRBYFLOAT h f7 1.5",
    "HEXPIRE h 1000 NX FIELDS 1 f8",
    "XADD x MAXLEN 1990 * f v",
    "XADD x MAXLEN ~ 1500 LIMIT 300 * f v",
    "XADD x NOMKSTREAM MINID 5-100 * f v",
    "XTRIM x MAXLEN 1700",
    "XTRIM x MINID ~ 5-500",
    "XADD emptied MAXLEN 0 * f v",
    "XTRIM emptied MAXLEN 0",
    "LSET l 1000 v",
    "LREM l 1 m900",
    "LINSERT l BEFORE m950 v",
    "LMOVE l l2 RIGHT LEFT",
];

fn fill(server: &TestServer) {
    let mut client = server.connect();
    let mut elements = |head: &str, element: &dyn Fn(usize) -> String| {
        let words: Vec<String> = (0..MANY).map(element).collect();
        client.call(&format!("{head} {}", words.join(" ")));
    };
    elements("ZADD z", &|number| format!("{number} m{number}"));
    elements("ZADD places", &|number| format!("34790{number} m{number}"));
    elements("ZADD equal", &|number| format!("0 {}", ["a", "b", "c", "d", "e"][number % 5]));
    elements("SADD s", &|number| format!("m{number}"));
    elements("SADD equal-type", &|number| format!("e{number}"));
    elements("HSET h", &|number| format!("f{number} {number}"));
    elements("RPUSH l", &|number| format!("m{number}"));
    for number in 1..MANY {
        client.call(&format!("XADD x 5-{number} f v"));
    }
}

fn sent_as_values(client: &mut RawClient) -> String {
    client.info_field("active", "active_sent_as_values").expect("the field")
}

#[test]
fn changes_of_a_part_name_its_elements() {
    let (one, two) = (server(1, &["--repl-diskless-sync-delay", "0"]), server(2, &["--appendonly", "yes"]));
    let port = one.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
    link_all(&[&one, &two]);
    fill(&one);
    wait_until_equal(&[&one, &two]);
    for from in [&one, &two] {
        let mut client = from.connect();
        for line in OF_PARTS {
            let before = sent_as_values(&mut client);
            let reply = client.call(line);
            assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
            client.call("ACTIVE DIGEST");
            assert_eq!(sent_as_values(&mut client), before, "{line} was sent as a whole value");
        }
        wait_until_equal(&[&one, &two]);
    }
    let digest = |server: &TestServer| server.connect().call("DEBUG DIGEST").text().to_string();
    wait_for("the replica to have all data", || digest(&replica) == digest(&one));
    two.connect().ok("DEBUG LOADAOF");
    assert_eq!(digest(&two), digest(&one), "the file is incomplete");
}

/// Both servers add to one stream, part of which a group has read, while they are disconnected.
fn add_on_both(one: &TestServer, two: &TestServer) {
    link_all(&[one, two]);
    all(one, &["XADD x * f first", "XGROUP CREATE x g 0"]);
    wait_until_equal(&[one, two]);
    cut(&[one, two]);
    for round in 0..5 {
        for server in [two, one, two] {
            all(server, &[&format!("XADD x * f {round}")]);
            let_time_pass(server);
        }
    }
    all(one, &["XREADGROUP GROUP g c COUNT 3 STREAMS x >"]);
    link_all(&[one, two]);
    wait_until_equal(&[one, two]);
    let entries = one.connect().call("XRANGE x - +");
    assert_eq!(entries.elements().expect("entries").len(), 16);
    assert_eq!(two.connect().call("XRANGE x - +"), entries);
}

#[test]
fn late_stream_entries_are_inserted_in_id_order() {
    let more = ["--repl-diskless-sync-delay", "0", "--stream-node-max-entries", "4", "--appendonly", "yes"];
    let (one, two) = (server(1, &more), server(2, &more));
    let port = one.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
    add_on_both(&one, &two);
    let digest = |server: &TestServer| server.connect().call("DEBUG DIGEST").text().to_string();
    wait_for("the replica to have all data", || digest(&replica) == digest(&one));
    let mut client = one.connect();
    // Of the sixteen entries the group has read three, and three more were inserted before the
    // last of these.
    let groups = client.call("XINFO GROUPS x");
    let group = groups.elements().and_then(|groups| groups[0].elements()).expect("the group");
    let field = |name: &str| {
        let at = group.iter().position(|one| one.text() == name).expect("the field");
        group[at + 1].clone()
    };
    assert_eq!((field("entries-read"), field("lag")), (Value::Integer(6), Value::Integer(10)));
    client.ok("DEBUG LOADAOF");
    assert_eq!(digest(&one), digest(&two), "the file is incomplete");
    // A client's own XADD with an old ID is refused as always.
    assert!(matches!(client.call("XADD x 1-1 f v"), Value::Error(_)));
}

/// A stock replica cannot insert an entry into the middle of a stream.
#[test]
fn stock_replicas_receive_out_of_order_stream_entries() {
    for peer in stock().into_iter().chain(newer_peers()) {
        let (one, two) = (server(1, &["--repl-diskless-sync-delay", "0"]), server(2, &[]));
        let port = one.port().to_string();
        let usual = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"];
        let replica = TestServer::start_program(&peer.program, &usual);
        wait_for("the replica is in sync", || {
            replica.connect().info_field("replication", "master_link_status").as_deref() == Some("up")
        });
        add_on_both(&one, &two);
        let entries = one.connect().call("XRANGE x - +");
        wait_for("the replica to have all data", || replica.connect().call("XRANGE x - +") == entries);
    }
}

/// The pending entries of a group and their deliveries, without the times.
fn pending(server: &TestServer, key: &str) -> Vec<[String; 3]> {
    let reply = server.connect().call(&format!("XPENDING {key} g - + 100"));
    let entry = |entry: &Value| {
        let words = texts(entry);
        let count = entry.elements().map(|fields| fields[3].to_string());
        [words[0].clone(), words[1].clone(), count.unwrap_or_default()]
    };
    reply.elements().unwrap_or_default().iter().map(entry).collect()
}

/// Deletes a pending entry in several ways, while the server is disconnected or not.
fn delete_pending(one: &TestServer, key: &str) {
    for line in [
        "XADD k 1-0 f v",
        "XADD k 2-0 f v",
        "XADD k 3-0 f v",
        "XADD k 4-0 f v",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g c STREAMS k >",
        "XDEL k 2-0 4-0",
        "XTRIM k MINID = 2-0",
        // Another delivery, of an entry that is there and of three that are not.
        "XREADGROUP GROUP g c STREAMS k 0",
    ] {
        let line = line.split(' ').map(|word| if word == "k" { key } else { word }).collect::<Vec<_>>();
        all(one, &[&line.join(" ")]);
    }
    assert!(pending(one, key).len() >= 4);
}

#[track_caller]
fn wait_for_pending(at: &TestServer, like: &TestServer, key: &str) {
    let expected = pending(like, key);
    let mut seen = Vec::new();
    let equal = wait_for_within(PATIENCE, || {
        seen = pending(at, key);
        seen == expected
    });
    assert!(equal, "{key}: {seen:?}, not {expected:?}");
}

/// As everywhere: an entry that was deleted from its stream stays pending until it is
/// acknowledged.
#[test]
fn deleted_entries_stay_pending_at_the_peer() {
    let more = ["--repl-diskless-sync-delay", "0", "--appendonly", "yes"];
    let (one, two) = (server(1, &more), server(2, &more));
    let port = two.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
    link_all(&[&one, &two]);
    all(&one, &["XADD known 0-1 f v"]);
    wait_until_equal(&[&one, &two]);
    // One by one, and all at once: of a stream that the peer has, and of one that it has not.
    delete_pending(&one, "slowly");
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    delete_pending(&one, "known");
    delete_pending(&one, "new");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    // A third one gets a full copy.
    let three = server(3, &more);
    link_all(&[&one, &two, &three]);
    wait_until_equal(&[&one, &two, &three]);
    for key in ["slowly", "known", "new"] {
        for server in [&two, &three, &replica] {
            wait_for_pending(server, &one, key);
        }
    }
    for server in [&two, &three] {
        server.connect().ok("DEBUG LOADAOF");
        for key in ["slowly", "known", "new"] {
            wait_for_pending(server, &one, key);
        }
    }
    // They can be acknowledged, and by a claim, as everywhere.
    all(&two, &["XACK known g 1-0", "XCLAIM known g d 0 2-0"]);
    wait_until_equal(&[&one, &two, &three]);
    for server in [&one, &two, &three, &replica] {
        wait_for("the rest", || pending(server, "known").len() == 3);
    }
    let refusal = one.connect().call("XCLAIM known g d 0 3-0 DELETED").text().to_string();
    assert_eq!(refusal, "ERR Unrecognized XCLAIM option 'DELETED'");
}

/// Their stream contains no request that only Braid knows.
#[test]
fn deleted_entries_stay_pending_at_a_stock_replica() {
    for peer in stock().into_iter().chain(newer_peers()) {
        let (one, two) = (server(1, &[]), server(2, &["--repl-diskless-sync-delay", "0"]));
        let port = two.port().to_string();
        let usual = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"];
        let replica = TestServer::start_program(&peer.program, &usual);
        wait_for("the replica is in sync", || {
            replica.connect().info_field("replication", "master_link_status").as_deref() == Some("up")
        });
        link_all(&[&one, &two]);
        all(&one, &["XADD known 0-1 f v"]);
        wait_until_equal(&[&one, &two]);
        cut(&[&one, &two]);
        delete_pending(&one, "known");
        delete_pending(&one, "new");
        link_all(&[&one, &two]);
        wait_until_equal(&[&one, &two]);
        for key in ["known", "new"] {
            wait_for_pending(&two, &one, key);
            wait_for_pending(&replica, &one, key);
            let entries = two.connect().call(&format!("XRANGE {key} - +"));
            assert_eq!(replica.connect().call(&format!("XRANGE {key} - +")), entries);
        }
    }
}
