// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: one server that owns all slots, compared with a stock server that does.

use std::process::Command;

use braid_tests::server::{Peer, is_braid, newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value, request};
use rustix::process::Signal;

const CLUSTER: &[&str] = &["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];

fn text(value: &Value) -> String {
    format!("{value}")
}

/// A stock server that owns all slots.
fn stock_cluster(peer: &Peer) -> TestServer {
    let server = TestServer::start_program(&peer.program, CLUSTER);
    let mut client = server.connect();
    let slots: String = (0..16384).map(|slot| format!(" {slot}")).collect();
    client.ok(&format!("CLUSTER ADDSLOTS{slots}"));
    braid_tests::wait_for("the cluster to be ok", || {
        client.call("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    server
}

/// Requests whose replies equal those of every stock server, except for IDs and ports.
const SAME: &[&str] = &[
    "CLUSTER KEYSLOT foo",
    "CLUSTER KEYSLOT {user1000}.following",
    "CLUSTER KEYSLOT foo{}{bar}",
    "CLUSTER KEYSLOT foo{{bar}}zap",
    "CLUSTER KEYSLOT \"\"",
    "CLUSTER NODES",
    "CLUSTER SLOTS",
    "CLUSTER LINKS",
    "CLUSTER COUNTKEYSINSLOT 5",
    "CLUSTER COUNTKEYSINSLOT 16384",
    "CLUSTER COUNTKEYSINSLOT -1",
    "CLUSTER COUNTKEYSINSLOT x",
    "CLUSTER GETKEYSINSLOT 5 x",
    "CLUSTER GETKEYSINSLOT 5 -1",
    "CLUSTER GETKEYSINSLOT 16384 1",
    "CLUSTER REPLICAS abc",
    "CLUSTER COUNT-FAILURE-REPORTS abc",
    "CLUSTER ADDSLOTS 5",
    "CLUSTER ADDSLOTS x",
    "CLUSTER ADDSLOTS 16384",
    "CLUSTER ADDSLOTSRANGE 5 3",
    "CLUSTER ADDSLOTSRANGE 3 5",
    "CLUSTER ADDSLOTSRANGE 3 5 6",
    "CLUSTER DELSLOTS x",
    "CLUSTER DELSLOTS 3 3",
    "CLUSTER DELSLOTSRANGE 5 3",
    "CLUSTER FORGET abc",
    "CLUSTER REPLICATE abc",
    "CLUSTER FAILOVER",
    "CLUSTER FAILOVER X",
    "CLUSTER SET-CONFIG-EPOCH x",
    "CLUSTER SET-CONFIG-EPOCH -1",
    "CLUSTER SET-CONFIG-EPOCH 5",
    "CLUSTER SET-CONFIG-EPOCH 6",
    "CLUSTER BUMPEPOCH",
    "CLUSTER NODES",
    "CLUSTER SAVECONFIG",
    "CLUSTER SETSLOT 5 STABLE",
    "CLUSTER SETSLOT x STABLE",
    "CLUSTER SETSLOT 5 FOO",
    "CLUSTER SETSLOT 5 NODE abc",
    "CLUSTER SETSLOT 5 MIGRATING abc",
    "CLUSTER SETSLOT 5 IMPORTING abc",
    "CLUSTER RESET X",
    "READONLY",
    "READWRITE",
    "ASKING",
    "INFO cluster",
    "REPLICAOF 127.0.0.1 1",
    "REPLICAOF NO ONE",
    "FAILOVER",
    "SELECT 0",
    "SWAPDB 0 1",
    "SET foo v",
    "SET {foo}2 v",
    "CLUSTER COUNTKEYSINSLOT 12182",
    "COPY foo k2 DB 0",
    "MSET a 1 b 2",
    "MGET a b",
    "DEL a b",
    "UNLINK a b",
    "EXISTS a b",
    "TOUCH a b",
    "RENAME a b",
    "RENAMENX a b",
    "SINTERSTORE a b c",
    "SMOVE a b m",
    "PFCOUNT a b",
    "PFMERGE a b",
    "BITOP AND a b",
    "LMOVE a b LEFT LEFT",
    "RPOPLPUSH a b",
    "BLPOP a b 1",
    "LMPOP 2 a b LEFT",
    "ZUNION 2 a b",
    "ZRANGESTORE a b 0 1",
    "ZMPOP 2 a b MIN",
    "XREAD STREAMS a b 0 0",
    "XREADGROUP GROUP g c STREAMS a b > >",
    "GEOSEARCHSTORE a b FROMLONLAT 1 1 BYRADIUS 1 m",
    "GEORADIUS a 1 1 1 m STORE b",
    "SORT a STORE b",
    "LCS a b",
    "WATCH a b",
    "EVAL \"return 1\" 2 a b",
    "EVALSHA abc 2 a b",
    "FCALL f 2 a b",
    "MIGRATE 127.0.0.1 1 \"\" 0 100 KEYS a b",
    "MULTI",
    "GET {a}1",
    "GET {b}1",
    "EXEC",
    "EXEC",
    "MULTI",
    "MGET a b",
    "GET a",
    "EXEC",
    "MULTI",
    "GET a",
    "FOO",
    "GET b",
    "EXEC",
    "MULTI",
    "GET {a}1",
    "GET {a}2",
    "EXEC",
    "MULTI",
    "SPUBLISH a m",
    "SPUBLISH b m",
    "EXEC",
    "WATCH a",
    "WATCH b",
    "MULTI",
    "GET c",
    "EXEC",
    "SORT {k}z BY nosort",
    "SPUBLISH a m",
    "SSUBSCRIBE a b",
    "SUNSUBSCRIBE a b",
    "SUNSUBSCRIBE a",
];

/// Requests whose replies changed with Redis 8.
const SAME_AS_8: &[&str] = &[
    "CLUSTER INFO",
    "CLUSTER SHARDS",
    "SELECT 1",
    "MOVE k 1",
    "COPY foo {foo}3 DB 1",
    "SORT k BY w_*",
    "SORT k GET o_*",
    "SORT {k}z BY {k}w_* GET {k}o_* GET #",
    "SORT {k}z BY {k}w_* GET {k}*->f",
    "SORT {k}z BY {*}w",
    "SORT {k}z BY ?{k}w*",
    "SORT {k}z GET foo",
    "SORT_RO {k}z BY {j}w_*",
    "EVAL \"return {redis.call('get','a'),redis.call('get','b')}\" 1 a",
    "EVAL \"#!lua\\nreturn redis.pcall('mget','a','b')\" 0",
    "EVAL \"#!lua\\nreturn {redis.call('get','a'),redis.pcall('get','b')}\" 0",
    "EVAL \"#!lua\\nreturn redis.pcall('get','b')\" 1 a",
    "EVAL \"#!lua\\nreturn redis.pcall('get','{a}')\" 1 a",
    "EVAL \"#!lua flags=allow-cross-slot-keys\\nreturn redis.pcall('get','b')\" 1 a",
    "EVAL \"#!lua flags=allow-cross-slot-keys\\nreturn redis.pcall('mget','a','b')\" 0",
    "EVAL \"#!lua flags=no-cluster\\nreturn 1\" 0",
    "EVAL \"return redis.pcall('select', '1')\" 0",
];

/// A reply with all server-specific parts replaced.
fn anonymous(server: &TestServer, client: &mut RawClient, request: &str) -> String {
    let id = client.call("CLUSTER MYID").text();
    let port = server.port();
    text(&client.call(request))
        .replace(&id, "ID")
        .replace(&(port + 10_000).to_string(), "BUS")
        .replace(&port.to_string(), "PORT")
}

fn compare(peer: &Peer, requests: &[&str]) {
    let more: &[&str] = if peer.version.starts_with("redis 8") { &["--redis-version", "8.0.6"] } else { &[] };
    let (ours, theirs) = (TestServer::start(&[CLUSTER, more].concat()), stock_cluster(peer));
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut one, mut other) = (ours.connect(), theirs.connect());
        one.call(hello);
        other.call(hello);
        for request in requests {
            // Within a transaction, the query for the ID would be queued.
            if *request == "CLUSTER NODES" || request.starts_with("CLUSTER S") {
                let (mine, stock) =
                    (anonymous(&ours, &mut one, request), anonymous(&theirs, &mut other, request));
                assert_eq!(mine, stock, "{request}, compared with {}", peer.version);
            } else {
                let (mine, stock) = (one.call(request), other.call(request));
                assert_eq!(mine, stock, "{request}, compared with {}", peer.version);
            }
        }
        one.call("FLUSHALL");
        other.call("FLUSHALL");
    }
}

#[test]
fn replies_match_a_stock_single_node_cluster() {
    if !is_braid() {
        return;
    }
    let mut peers: Vec<Peer> = stock().into_iter().collect();
    peers.extend(newer_peers());
    peers.dedup_by(|one, other| one.version == other.version);
    for peer in &peers {
        compare(peer, SAME);
        if peer.version.starts_with("redis 8") {
            compare(peer, SAME_AS_8);
        }
    }
    println!("compared with {} stock servers", peers.len());
}

/// A Valkey to compare with, if the server under test is Braid.
fn valkey() -> Option<Peer> {
    let found = newer_peers().into_iter().find(|peer| peer.version.starts_with("valkey"));
    if found.is_none() {
        println!("skipped: no Valkey");
    }
    found.filter(|_| is_braid())
}

/// Requests that only Valkey supports.
#[test]
fn slot_stats_match_valkey() {
    let Some(peer) = valkey() else { return };
    compare(
        &peer,
        &[
            "SET foo 1",
            "SET {foo}2 1",
            "SET bar 1",
            "CLUSTER SLOT-STATS SLOTSRANGE 12180 12183",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 3",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 3 ASC",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT DESC LIMIT 2",
            "CLUSTER SLOT-STATS",
            "CLUSTER SLOT-STATS SLOTSRANGE 0 16384",
            "CLUSTER SLOT-STATS SLOTSRANGE 5 1",
            "CLUSTER SLOT-STATS SLOTSRANGE x 1",
            "CLUSTER SLOT-STATS SLOTSRANGE 0",
            "CLUSTER SLOT-STATS FOO 1 2",
            "CLUSTER SLOT-STATS ORDERBY FOO",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT x",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 0",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 16385",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 2 LIMIT 1",
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT ASC DESC",
            "CLUSTER SLOT-STATS ORDERBY CPU-USEC",
            "CONFIG SET cluster-slot-stats-enabled yes",
            "CLUSTER SLOT-STATS SLOTSRANGE 0 3",
            "CLUSTER SLOT-STATS ORDERBY CPU-USEC LIMIT 2 ASC",
            "CLUSTER SLOT-STATS ORDERBY network-bytes-in LIMIT 2",
            "CLUSTER SLOT-STATS ORDERBY NETWORK-BYTES-OUT LIMIT 2 DESC",
            "CLUSTER SLOT-STATS ORDERBY NETWORK-BYTES LIMIT 2",
            "CONFIG SET cluster-slot-stats-enabled no",
            "CLUSTER SLOT-STATS SLOTSRANGE 0 0",
            "CLUSTER SLOT-STATS ORDERBY NETWORK-BYTES-OUT",
        ],
    );
}

/// Braid counts the same bytes as Valkey. Processor time is not compared.
#[test]
fn traffic_of_slots_is_that_of_valkey() {
    let Some(peer) = valkey() else { return };
    let told = |peer: Option<&Peer>| {
        let server = peer.map_or_else(|| TestServer::start(CLUSTER), stock_cluster);
        let (mut client, mut subscriber) = (server.connect(), server.connect());
        client.ok("CONFIG SET cluster-slot-stats-enabled yes");
        assert!(matches!(subscriber.call("SSUBSCRIBE {foo}:channel"), Value::Array(_)));
        for text in [
            "SET foo 1",
            "GET foo",
            "LPUSH foo 1",
            "GET foo too-much",
            "MGET foo bar",
            "PING",
            "SPUBLISH {foo}:channel hello",
            "PUBLISH {foo}:channel hello",
            "MULTI",
            "SET {d} 1",
            "DISCARD",
            "RPUSH {bar}:list 1 2 3",
            "LRANGE {bar}:list 0 -1",
            "HSET {bar}:hash field value",
            "HGETALL {bar}:hash",
        ] {
            client.call(text);
        }
        // Once the message has arrived, it has also been counted as sent.
        subscriber.read();
        let mut figures = Vec::new();
        for slot in [12182, 5061, 11298, 0] {
            let reply = client.call(&format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}")).to_string();
            let (before, rest) = reply.split_once("cpu-usec").expect("the reply has cpu-usec");
            let (_, after) = rest.split_once("network-bytes-in").expect("the reply has network-bytes-in");
            figures.push(format!("{before}...{after}"));
        }
        client.ok("CONFIG RESETSTAT");
        figures.push(client.call("CLUSTER SLOT-STATS SLOTSRANGE 12182 12182").to_string());
        figures
    };
    assert_eq!(told(None), told(Some(&peer)));
}

/// Braid deliberately differs from Valkey: a transaction's or a script's bytes and time are
/// counted once, and a blocking command is counted with its total cost.
#[test]
fn transactions_scripts_and_waiting_count_once() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(CLUSTER);
    let mut client = server.connect();
    client.ok("CONFIG SET cluster-slot-stats-enabled yes");
    let figures = |slot: u16| -> Vec<i64> {
        let reply = server.connect().call(&format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}"));
        let Value::Array(mut slots) = reply else { panic!("{reply}") };
        let Some(Value::Array(mut slot)) = slots.pop() else { panic!("one slot") };
        let Some(Value::Array(fields)) = slot.pop() else { panic!("its fields") };
        let numbers = fields.iter().filter_map(|field| match field {
            Value::Integer(number) => Some(*number),
            _ => None,
        });
        numbers.collect()
    };
    for text in ["MULTI", "SET {b}x 1", "GET {b}x", "EXEC"] {
        client.call(text);
    }
    let sent = |requests: &[&str]| requests.iter().map(|text| request(text).len() as i64).sum::<i64>();
    let counted = figures(3300);
    assert_eq!(counted[2], sent(&["MULTI", "SET {b}x 1", "GET {b}x", "EXEC"]));
    assert_eq!(counted[3], "*2\r\n+OK\r\n$1\r\n1\r\n".len() as i64);
    let script = "EVAL \"return redis.call('incr',KEYS[1])\" 1 foo";
    assert_eq!(client.call(script), Value::Integer(1));
    assert_eq!(figures(12182)[2..], [sent(&[script]), ":1\r\n".len() as i64]);
    assert_eq!(client.call("BLPOP {bar} 0.01"), Value::NullArray);
    assert_eq!(figures(5061)[2..], [sent(&["BLPOP {bar} 0.01"]), "*-1\r\n".len() as i64]);
    let mut waiting = server.connect();
    waiting.send(&request("BLPOP {bar} 0"));
    braid_tests::wait_for("the client to block", || client.info("clients").contains("blocked_clients:1"));
    assert_eq!(client.call("RPUSH {bar} x"), Value::Integer(1));
    assert!(matches!(waiting.read(), Value::Array(_)));
    let requests = sent(&["BLPOP {bar} 0.01", "BLPOP {bar} 0", "RPUSH {bar} x"]);
    let replies = "*-1\r\n*2\r\n$5\r\n{bar}\r\n$1\r\nx\r\n:1\r\n".len() as i64;
    assert_eq!(figures(5061)[2..], [requests, replies]);
    // Memory per slot is summed on request.
    client.ok(&format!("SET foo {}", "x".repeat(100_000)));
    let told = client.call("CLUSTER SLOT-STATS ORDERBY MEMORY-BYTES LIMIT 1").to_string();
    assert!(told.contains("12182") && told.contains("memory-bytes"), "{told}");
    let bytes: u64 =
        told.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty()).unwrap().parse().unwrap();
    assert!((100_000..200_000).contains(&bytes), "{told}");
}

/// The addresses announced to clients follow changes of the settings at run time.
#[test]
fn announced_addresses_match_a_stock_cluster() {
    let Some(peer) = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis 8")) else {
        println!("skipped: no Redis 8");
        return;
    };
    if !is_braid() {
        return;
    }
    compare(
        &peer,
        &[
            "CONFIG SET cluster-announce-ip 10.1.2.3 cluster-announce-port 7000 cluster-announce-bus-port 8000",
            "CONFIG SET cluster-announce-hostname foo.example.com",
            "CLUSTER NODES",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CONFIG SET cluster-preferred-endpoint-type hostname",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CONFIG SET cluster-announce-hostname \"\"",
            "CLUSTER NODES",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CONFIG SET cluster-preferred-endpoint-type unknown-endpoint",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CONFIG SET cluster-announce-hostname h.x",
            "CLUSTER SLOTS",
            "CONFIG SET cluster-preferred-endpoint-type ip cluster-announce-port 0 cluster-announce-bus-port 0",
            "CLUSTER NODES",
            "CONFIG SET cluster-announce-hostname \"\" cluster-announce-ip 127.0.0.1",
        ],
    );
}

/// redis-cli's cluster tools, also with the installed stock servers.
#[test]
fn tools_for_clusters_work() {
    if !is_braid() {
        return;
    }
    let ours = TestServer::start(&["--cluster-enabled", "yes"]);
    let address = format!("127.0.0.1:{}", ours.port());
    let mut peers: Vec<Peer> = stock().into_iter().collect();
    peers.extend(newer_peers());
    for peer in &peers {
        let name = peer.program.file_name().expect("a program").to_string_lossy().replace("-server", "-cli");
        let cli = peer.program.with_file_name(name);
        if !cli.exists() {
            println!("skipped: no {}", cli.display());
            continue;
        }
        let tool = |arguments: &[&str]| {
            let output = Command::new(&cli).args(arguments).output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{} {arguments:?}: {text}", cli.display());
            text
        };
        let mut client = ours.connect();
        client.ok("FLUSHALL");
        let checked = tool(&["--cluster", "check", &address]);
        assert!(
            checked.contains("All nodes agree") && checked.contains("All 16384 slots covered"),
            "{checked}"
        );
        assert!(tool(&["--cluster", "info", &address]).contains("16384 slots"));
        assert!(tool(&["--cluster", "call", &address, "PING"]).contains("PONG"));
        let port = ours.port().to_string();
        assert_eq!(tool(&["-c", "-p", &port, "SET", "k", "v"]).trim(), "OK");
        // Imports keys from a server outside of any cluster.
        let source = TestServer::start_program(&peer.program, &[]);
        let mut stock = source.connect();
        for number in 0..100 {
            stock.ok(&format!("SET key:{number} {number}"));
        }
        stock.call("RPUSH list a b c");
        let from = format!("127.0.0.1:{}", source.port());
        tool(&["--cluster", "import", &address, "--cluster-from", &from, "--cluster-copy"]);
        assert_eq!(client.call("DBSIZE"), Value::Integer(102));
        assert_eq!(client.call("GET key:7").text(), "7");
    }
}

#[test]
fn a_node_is_the_same_after_a_restart() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().display().to_string();
    let arguments = [CLUSTER, &["--appendonly", "yes", "--dir", &dir]].concat();
    let before = TestServer::start(&arguments);
    let mut client = before.connect();
    let (id, shard) = (client.call("CLUSTER MYID").text(), client.call("CLUSTER MYSHARDID").text());
    for number in 0..1000 {
        client.ok(&format!("SET {{tag}}{number} x"));
    }
    client.ok("SET other x");
    let Value::Integer(slot) = client.call("CLUSTER KEYSLOT tag") else { panic!("a slot") };
    drop(client);
    drop(before);
    let after = TestServer::start(&arguments);
    let mut client = after.connect();
    assert_eq!(client.call("CLUSTER MYID").text(), id);
    assert_eq!(client.call("CLUSTER MYSHARDID").text(), shard);
    assert_eq!(client.call(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Value::Integer(1000));
    let some = client.call(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
    assert_eq!(some.elements().map(<[Value]>::len), Some(10));
    // Data written without slots is loaded into slots, including commands that span several
    // slots.
    drop(client);
    drop(after);
    let plain = TestServer::start(&["--appendonly", "yes", "--dir", &dir]);
    let mut client = plain.connect();
    assert_eq!(client.call("DBSIZE"), Value::Integer(1001));
    client.ok("MSET a 1 b 2");
    drop(client);
    drop(plain);
    let again = TestServer::start(&arguments);
    let mut client = again.connect();
    assert_eq!(client.call("DBSIZE"), Value::Integer(1003));
    assert_eq!(client.call("CLUSTER COUNTKEYSINSLOT 15495"), Value::Integer(1), "the slot of a");
}

#[test]
fn incompatible_cluster_settings_are_refused_at_startup() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |arguments: &[&str]| {
        let output = Command::new(braid_tests::server::program_under_test())
            .args(["--port", "0", "--cluster-enabled", "yes", "--dir"])
            .arg(folder.path())
            .args(arguments)
            .output()
            .expect("it starts");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(
        refused(&["--replicaof", "127.0.0.1 1"]).contains("replicaof directive not allowed in cluster mode")
    );
    assert!(refused(&["--group-name", "g"]).contains("group-name is only for servers outside a cluster"));
    let id = "4fa43a2a239e0f369eb6fe62fdf94030cbfbfdca";
    let nodes = format!(
        "{id} :1@2 myself,master - 0 0 0 connected 0-5\n{id} 10.0.0.2:1@2 master - 0 0 0 connected 6-16383\n"
    );
    std::fs::write(folder.path().join("nodes.conf"), nodes).expect("written");
    assert!(refused(&[]).contains("names other nodes"));
}

#[test]
fn a_primary_with_slots_does_not_shut_down_with_safe_unless_forced() {
    let valkey = newer_peers().into_iter().find(|peer| peer.version.starts_with("valkey"));
    let ours = TestServer::start(CLUSTER);
    for mut server in [Some(ours), valkey.map(|peer| stock_cluster(&peer))].into_iter().flatten() {
        let mut client = server.connect();
        let refused = Value::Error("ERR Errors trying to SHUTDOWN. Check logs.".into());
        assert_eq!(client.call("SHUTDOWN SAFE"), refused);
        assert_eq!(client.call("SHUTDOWN NOSAVE SAFE NOW"), refused);
        client.ok("SET k v");
        client.ok("CONFIG SET shutdown-on-sigterm \"safe nosave\"");
        server.signal(Signal::TERM);
        // The end of the attempt: a SHUTDOWN before that would share its outcome. Valkey, which
        // does everything on one thread, has no line for the end.
        braid_tests::wait_for("the signal to be refused", || match server.is_braid() {
            true => server.log().contains("SIGTERM received but errors trying to shut down the server"),
            false => server.log().matches("Can't exit").count() == 3,
        });
        assert_eq!(client.call("GET k").text(), "v");
        assert!(client.try_send(&request("SHUTDOWN NOSAVE SAFE FORCE")).is_ok());
        assert_eq!(server.wait().code(), Some(0));
    }
}
