// SPDX-License-Identifier: BSD-3-Clause
//! The server under test as the replica of stock servers and of its own kind: full syncs of all
//! kinds, the stream, broken links, chains, promotions, restarts.

use braid_tests::certificates::certificates;
use braid_tests::random::source;
use braid_tests::server::{Options, Peer, free_port, peer, program_under_test, stock};
use braid_tests::{RawClient, TestServer, Value, wait_for, words};
use rustix::process::Signal;

use crate::fill::fill;
use crate::workload::Writers;
use crate::{any_peer, assert_same, assert_same_dataset, figure, peers, wait_until_in_sync};

/// Primaries to follow: the stock servers of this machine, and another instance of the server
/// under test.
fn primaries() -> Vec<Peer> {
    peers().into_iter().chain(peer(program_under_test())).collect()
}

const USUAL: [&str; 6] =
    ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--repl-timeout", "20"];

fn start(program: &Peer, arguments: &[&str]) -> TestServer {
    TestServer::start_program(&program.program, &[&USUAL[..], arguments].concat())
}

/// Starts the server under test as a replica of this primary.
fn follower(of: &TestServer, arguments: &[&str]) -> TestServer {
    follower_at(&of.port().to_string(), arguments)
}

fn follower_at(port: &str, arguments: &[&str]) -> TestServer {
    TestServer::start(&[&USUAL[..], &["--replicaof", "127.0.0.1", port], arguments].concat())
}

/// ZADD with a member's current score removes its expiry, and changes nothing else.
#[test]
fn a_member_that_expires_no_longer_does_so_at_replicas() {
    let primary = TestServer::start(&USUAL);
    let mut client = primary.connect();
    client.call("ZADD z 1 a");
    if client.call("ZPEXPIRE z 1000000 MEMBERS 1 a").is_error() {
        println!("skipped: the server under test has no expiring members");
        return;
    }
    let replica = follower(&primary, &[]);
    let mut its = replica.connect();
    wait_until_in_sync(&mut client, &mut its);
    assert_eq!(client.call("ZADD z CH 1 a"), Value::Integer(0));
    wait_until_in_sync(&mut client, &mut its);
    for client in [&mut client, &mut its] {
        assert_eq!(client.call("ZPTTL z MEMBERS 1 a").to_string(), "[(integer) -1]");
    }
}

fn follow(replica: &mut RawClient, primary: &TestServer) {
    replica.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
}

fn offset(client: &mut RawClient) -> i64 {
    figure(client, "replication", "master_repl_offset")
}

fn id(client: &mut RawClient) -> String {
    client.info_field("replication", "master_replid").expect("a replication ID")
}

#[test]
fn it_follows_every_server_through_cuts_and_full_syncs() {
    for primary in primaries() {
        for (diskless, load, compression) in [
            ("no", "disabled", "no"),
            ("yes", "disabled", "lz4"),
            ("yes", "on-empty-db", "no"),
            ("no", "swapdb", "lz4"),
        ] {
            println!("{}, diskless {diskless}, load {load}, compression {compression}", primary.version);
            let mut random = source("it_follows_every_server_through_cuts_and_full_syncs");
            let server = start(&primary, &["--repl-diskless-sync", diskless, "--repl-backlog-size", "8mb"]);
            let mut client = server.connect();
            // The replica's own data is removed.
            fill(&mut client, &mut random, false);
            let options = ["--repl-diskless-load", load, "--repl-compression", compression];
            let replica = TestServer::start(&[&USUAL[..], &options].concat());
            let mut its = replica.connect();
            if load != "on-empty-db" {
                its.ok("SET only here");
            }
            let writers = Writers::start(&server, 2, &mut random);
            writers.go_on(50);
            follow(&mut its, &server);
            wait_for("the link is up", || {
                its.info_field("replication", "master_link_status").as_deref() == Some("up")
            });
            for round in 1..=3 {
                writers.go_on(100);
                assert_eq!(its.call("CLIENT KILL TYPE master").to_string(), "(integer) 1");
                wait_for("the link is resumed", || figure(&mut client, "stats", "sync_partial_ok") >= round);
            }
            writers.stop();
            assert_same(&mut client, &mut its);
            assert_eq!(figure(&mut client, "stats", "sync_full"), 1, "a reconnect caused a full sync");
            assert!(its.call("SET a 1").text().starts_with("READONLY"));
            assert_eq!(id(&mut client), id(&mut its));
        }
    }
}

/// Valkey 9 omits them from full syncs for replicas that do not announce support for them.
#[test]
fn full_sync_transfers_field_expiries() {
    for primary in primaries() {
        for diskless in ["no", "yes"] {
            let server = start(&primary, &["--repl-diskless-sync", diskless]);
            let mut client = server.connect();
            client.call("HSET hash field 1 other 2");
            let times = "HPEXPIREAT hash 4000000000000 FIELDS 1 field";
            if client.call(times).is_error() {
                println!("{} has no such fields", primary.version);
                continue;
            }
            println!("{}, diskless {diskless}", primary.version);
            let replica = follower(&server, &[]);
            let mut its = replica.connect();
            assert_same(&mut client, &mut its);
            let ask = "HPEXPIRETIME hash FIELDS 2 field other";
            assert_eq!(its.call(ask).to_string(), client.call(ask).to_string());
            assert_eq!(its.call(ask).to_string(), "[(integer) 4000000000000, (integer) -1]");
        }
    }
}

#[test]
fn between_braid_servers_everything_may_be_compressed() {
    for (diskless, load) in [("no", "disabled"), ("yes", "flush-before-load")] {
        let server = TestServer::start(&[&USUAL[..], &["--repl-diskless-sync", diskless]].concat());
        let mut client = server.connect();
        // The dump itself does not compress: each value is short.
        client.ok("DEBUG POPULATE 20000 a:key:with:a:name 40");
        let sent = |client: &mut RawClient| figure(client, "stats", "total_net_repl_output_bytes");
        let mut copied = Vec::new();
        for compression in ["no", "lz4"] {
            let first = sent(&mut client);
            let options = ["--repl-diskless-load", load, "--repl-compression", compression];
            let replica = follower(&server, &options);
            let mut its = replica.connect();
            wait_until_in_sync(&mut client, &mut its);
            let full_sync = sent(&mut client) - first;
            let (value, before) = ("word ".repeat(2000), sent(&mut client));
            let end = offset(&mut client);
            for number in 0..200 {
                client.ok(&format!("SET key:{number} \"{value}\""));
            }
            assert_same(&mut client, &mut its);
            let stream = (sent(&mut client) - before, offset(&mut client) - end);
            assert_eq!(compression == "lz4", stream.0 * 4 < stream.1, "{compression}: {stream:?}");
            // Resumed after a cut, as without compression.
            its.call("CLIENT KILL TYPE master");
            wait_until_in_sync(&mut client, &mut its);
            client.ok("SET last 1");
            assert_same(&mut client, &mut its);
            // The difference is the replies in two handshakes.
            wait_for("the replica has received all sent bytes", || {
                let received = figure(&mut its, "stats", "total_net_repl_input_bytes");
                (0..100).contains(&(received - (sent(&mut client) - first)))
            });
            copied.push(full_sync);
        }
        assert!(copied[1] * 2 < copied[0], "diskless {diskless}: {copied:?}");
    }
}

#[test]
fn a_chain_has_one_stream_and_outlives_its_head() {
    for primary in primaries() {
        println!("{}", primary.version);
        let mut random = source("a_chain_has_one_stream_and_outlives_its_head");
        let head = start(&primary, &[]);
        let (middle, end) = (follower(&head, &[]), TestServer::start(&USUAL));
        let (mut of_head, mut of_middle, mut of_end) = (head.connect(), middle.connect(), end.connect());
        wait_until_in_sync(&mut of_head, &mut of_middle);
        follow(&mut of_end, &middle);
        wait_until_in_sync(&mut of_middle, &mut of_end);
        let writers = Writers::start(&head, 2, &mut random);
        writers.go_on(300);
        writers.stop();
        assert_same(&mut of_head, &mut of_end);
        wait_for("the offsets agree", || offset(&mut of_head) == offset(&mut of_end));
        assert_eq!(id(&mut of_head), id(&mut of_end));
        let (old_id, full_syncs) = (id(&mut of_end), figure(&mut of_middle, "stats", "sync_full"));
        head.signal(Signal::KILL);
        of_middle.ok("REPLICAOF NO ONE");
        let writers = Writers::start(&middle, 2, &mut random);
        writers.go_on(100);
        writers.stop();
        assert_same(&mut of_middle, &mut of_end);
        assert_ne!(id(&mut of_end), old_id);
        assert_eq!(of_end.info_field("replication", "master_replid2"), Some(old_id));
        assert_eq!(figure(&mut of_middle, "stats", "sync_full"), full_syncs, "promotion caused a full sync");
    }
}

#[test]
fn roles_are_exchanged_without_a_full_sync() {
    for primary in primaries() {
        println!("{}", primary.version);
        let mut random = source("roles_are_exchanged_without_a_full_sync");
        let (one, other) = (start(&primary, &[]), TestServer::start(&USUAL));
        let (mut of_one, mut of_other) = (one.connect(), other.connect());
        follow(&mut of_other, &one);
        wait_until_in_sync(&mut of_one, &mut of_other);
        for round in 0..4 {
            let (server, client, replica) = match round % 2 {
                0 => (&one, &mut of_one, &mut of_other),
                _ => (&other, &mut of_other, &mut of_one),
            };
            let writers = Writers::start(server, 2, &mut random);
            writers.go_on(60);
            writers.stop();
            assert_same(client, replica);
            let full_syncs = figure(replica, "stats", "sync_full");
            // Nothing may enter the journal in between, not even a PING.
            client.ok("CONFIG SET repl-ping-replica-period 3600");
            wait_until_in_sync(client, replica);
            client.ok("MULTI");
            client.call("CLIENT PAUSE 5000 WRITE");
            client.call("EXEC");
            wait_until_in_sync(client, replica);
            replica.ok("REPLICAOF NO ONE");
            replica.ok("CONFIG SET repl-ping-replica-period 3600");
            follow(client, if round % 2 == 0 { &other } else { &one });
            client.ok("CLIENT UNPAUSE");
            wait_until_in_sync(replica, client);
            assert_eq!(figure(replica, "stats", "sync_full"), full_syncs, "round {round}");
        }
        assert_same(&mut of_one, &mut of_other);
    }
}

#[test]
fn replica_resumes_partial_sync_after_restart() {
    for primary in primaries() {
        println!("{}", primary.version);
        let mut random = source("it_goes_on_after_a_restart");
        let server = start(&primary, &["--repl-backlog-size", "8mb"]);
        let mut client = server.connect();
        fill(&mut client, &mut random, false);
        client.ok("SELECT 5");
        client.ok("SET here 1");
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().to_str().expect("a readable path").to_owned();
        let arguments = ["--dir", &dir, "--save", "3600 1"];
        let mut replica = follower(&server, &arguments);
        wait_until_in_sync(&mut client, &mut replica.connect());
        replica.signal(Signal::TERM);
        assert_eq!(replica.wait().code(), Some(0));
        // In the database that the stream had selected.
        client.ok("SET while_away 1");
        let full_syncs = figure(&mut client, "stats", "sync_full");
        let replica = follower(&server, &arguments);
        assert_same(&mut client, &mut replica.connect());
        assert_eq!(
            figure(&mut client, "stats", "sync_full"),
            full_syncs,
            "the restarted replica took a full sync"
        );
    }
}

#[test]
fn replica_aof_contains_the_replicated_dataset() {
    let Some(primary) = any_peer() else { return };
    for fsync in ["always", "everysec"] {
        let mut random = source("its_append_only_file_has_what_it_followed");
        let server = start(&primary, &[]);
        let mut client = server.connect();
        fill(&mut client, &mut random, false);
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().to_str().expect("a readable path").to_owned();
        let usual = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", fsync];
        let mut replica = follower(&server, &usual);
        let mut its = replica.connect();
        wait_until_in_sync(&mut client, &mut its);
        client.ok("SELECT 3");
        client.ok("SET chosen before");
        let writers = Writers::start(&server, 2, &mut random);
        writers.go_on(100);
        wait_for("the first base file is written", || {
            its.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
                && its.info_field("persistence", "aof_rewrite_scheduled").as_deref() == Some("0")
        });
        its.call("BGREWRITEAOF");
        writers.go_on(100);
        writers.stop();
        client.ok("SET chosen after");
        assert_same(&mut client, &mut its);
        if fsync == "always" {
            assert_eq!(
                client.call("WAITAOF 0 1 5000").to_string(),
                client.call("WAITAOF 0 1 5000").to_string()
            );
        }
        its.call("DEBUG SLEEP 0");
        wait_for("the AOF is on disk", || {
            its.info_field("persistence", "aof_pending_bio_fsync").as_deref() == Some("0")
                && its.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
        });
        replica.signal(Signal::TERM);
        assert_eq!(replica.wait().code(), Some(0));
        let alone = TestServer::start(&[&USUAL[..], &usual].concat());
        let mut its = alone.connect();
        assert_same_dataset(&mut client, &mut its);
    }
}

/// A replica's append-only file begins with lines that no sync follows. The stream must not wait
/// for one, although they get older than a sync may.
#[test]
fn it_follows_a_quiet_primary_with_an_append_only_file() {
    let Some(primary) = any_peer() else { return };
    let server = start(&primary, &[]);
    let mut client = server.connect();
    let replica = follower(&server, &["--appendonly", "yes"]);
    let mut its = replica.connect();
    wait_until_in_sync(&mut client, &mut its);
    let seconds = |client: &mut RawClient| figure(client, "server", "uptime_in_seconds");
    let then = seconds(&mut its);
    wait_for("the primary has been quiet for longer than a sync may take", || seconds(&mut its) >= then + 4);
    client.ok("SET after it");
    assert_same(&mut client, &mut its);
    assert_eq!(its.info_field("persistence", "aof_delayed_fsync").as_deref(), Some("0"));
}

#[test]
fn it_follows_by_tls_with_a_user_and_a_source_address() {
    for primary in primaries() {
        println!("{}", primary.version);
        let folder = certificates();
        let file = |name: &str| folder.path().join(name).to_str().expect("a readable path").to_owned();
        let tls = |name: &str| {
            let own = ["--tls-cert-file".to_owned(), file(&format!("{name}.pem"))];
            let key = ["--tls-key-file".to_owned(), file(&format!("{name}.key"))];
            [&own[..], &key, &["--tls-ca-cert-file".to_owned(), file("ca.pem")]].concat()
        };
        let words = |arguments: &[String]| -> Vec<String> { arguments.to_vec() };
        let port = free_port().to_string();
        let own = words(&tls("server"));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let server = start(&primary, &[&own[..], &["--tls-port", &port, "--requirepass", "secret"]].concat());
        let mut client = server.connect();
        client.ok("AUTH secret");
        client.ok("ACL SETUSER copier on >word +psync +replconf +ping");
        client.ok("SET large x");
        client.call("SETRANGE large 3000000 x");
        let own = words(&tls("client"));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let more = [
            "--tls-replication",
            "yes",
            "--masteruser",
            "copier",
            "--masterauth",
            "wrong",
            "--bind-source-addr",
            "127.0.0.7",
            "--replica-announce-ip",
            "10.1.2.3",
            "--replica-announce-port",
            "4321",
        ];
        let replica = follower_at(&port, &[&own[..], &more].concat());
        let mut its = replica.connect();
        wait_for("the AUTH failure is logged", || replica.log().contains("Unable to AUTH to MASTER"));
        its.ok("CONFIG SET masterauth word");
        assert_same(&mut client, &mut its);
        wait_for("the replica is online under its announced address", || {
            let line = client.info_field("replication", "slave0");
            line.is_some_and(|line| line.starts_with("ip=10.1.2.3,port=4321,state=online"))
        });
        let list = client.call("CLIENT LIST TYPE replica");
        assert!(list.text().contains("addr=127.0.0.7:"), "{list}");
    }
}

#[test]
fn replica_clients_see_the_same_as_on_a_stock_server() {
    let server = TestServer::start(&USUAL);
    let mut client = server.connect();
    let replica = TestServer::start(&USUAL);
    let (mut its, mut waiting, mut listening) = (replica.connect(), replica.connect(), replica.connect());
    // Clients that are blocked when the server becomes a replica are notified and unblocked.
    waiting.send(&braid_tests::request("BLPOP list 0"));
    wait_for("the client waits", || its.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    follow(&mut its, &server);
    assert!(waiting.read().text().starts_with("UNBLOCKED force unblock"));
    wait_until_in_sync(&mut client, &mut its);
    // Blocking reads are allowed, and the stream wakes them.
    let mut waiting = replica.connect();
    waiting.send(&braid_tests::request("XREAD BLOCK 0 STREAMS stream $"));
    listening.call("SUBSCRIBE news");
    wait_for("the client waits", || its.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    client.call("XADD stream 1-1 f v");
    assert!(waiting.read().to_string().contains("1-1"));
    assert_eq!(client.call("PUBLISH news flash").to_string(), "(integer) 0");
    assert!(listening.read().to_string().contains("flash"));
    // Keys past their expiry are hidden, and stay until the primary deletes them.
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ok("SET soon gone PX 1");
    wait_until_in_sync(&mut client, &mut its);
    wait_for("the expired key is hidden", || its.call("GET soon").is_null());
    assert_eq!(figure(&mut its, "stats", "expired_keys"), 0);
    assert!(its.call("INFO keyspace").text().contains("keys=2"));
    client.call("GET soon");
    wait_for("the primary's deletion arrives", || its.call("INFO keyspace").text().contains("keys=1"));
    // The state of the link.
    assert!(its.call("CLIENT LIST TYPE master").text().contains("flags=M"));
    assert!(its.call("WAIT 0 1").text().starts_with("ERR WAIT cannot be used with replica instances."));
    let role = its.call("ROLE").to_string();
    assert!(role.contains("slave") && role.contains("connected"), "{role}");
    assert!(its.call("FAILOVER").text().contains("not valid when server is a replica"));
    its.ok("CONFIG SET replica-serve-stale-data no");
    server.signal(Signal::KILL);
    wait_for("the link is down", || {
        its.info_field("replication", "master_link_status").as_deref() == Some("down")
    });
    assert!(its.call("GET a").text().starts_with("MASTERDOWN"));
    assert!(its.call("EVAL \"return redis.call('GET', 'a')\" 0").text().starts_with("MASTERDOWN"));
    its.ok("REPLICAOF NO ONE");
    its.ok("SET a 1");
}

/// Scripts that declare their flags, and scripts that declare nothing.
const SCRIPTS: [&str; 5] = [
    "#!lua\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=allow-stale,no-writes\nreturn 1",
    "return redis.call('SET', KEYS[1], 'v')",
    "return 1",
];

/// A replica's replies to these scripts: called directly, and in transactions, with and without
/// its primary.
fn said_to_scripts(program: &Peer) -> Vec<String> {
    let server = TestServer::start(&USUAL);
    let replica = start(program, &["--repl-diskless-sync-delay", "0"]);
    let mut its = replica.connect();
    let mut said = Vec::new();
    let mut ask = |client: &mut RawClient, words: &[&str]| {
        client.send(&words::encode(words));
        said.push(format!("{words:?}: {}", client.read()));
    };
    let script = |script: &'static str| ["EVAL", script, "1", "key"];
    // Queued while the server is still a primary.
    let mut queued: Vec<RawClient> = SCRIPTS.iter().map(|_| replica.connect()).collect();
    for (client, text) in queued.iter_mut().zip(SCRIPTS) {
        ask(client, &["MULTI"]);
        ask(client, &script(text));
    }
    follow(&mut its, &server);
    wait_until_in_sync(&mut server.connect(), &mut its);
    let mut all = |its: &mut RawClient, queued: Vec<RawClient>| {
        for mut client in queued {
            ask(&mut client, &["EXEC"]);
        }
        for text in SCRIPTS {
            ask(its, &script(text));
            ask(its, &["EVAL_RO", text, "1", "key"]);
            ask(its, &["MULTI"]);
            ask(its, &script(text));
            ask(its, &["EXEC"]);
        }
    };
    all(&mut its, queued);
    its.ok("CONFIG SET replica-serve-stale-data no");
    server.signal(Signal::KILL);
    wait_for("the link is down", || {
        its.info_field("replication", "master_link_status").as_deref() == Some("down")
    });
    all(&mut its, Vec::new());
    said
}

#[test]
fn script_refusals_by_flags_match_a_stock_server() {
    let Some((stock, own)) = stock().zip(peer(program_under_test())) else { return };
    assert_eq!(said_to_scripts(&own), said_to_scripts(&stock));
}

#[test]
fn a_writable_replica_expires_its_own_keys() {
    let server = TestServer::start(&USUAL);
    let replica = follower(&server, &["--replica-read-only", "no"]);
    let (mut client, mut its) = (server.connect(), replica.connect());
    wait_until_in_sync(&mut client, &mut its);
    let before = offset(&mut its);
    its.ok("SET own 1 PX 30");
    its.ok("SET kept 1");
    wait_for("the key has expired", || its.call("DBSIZE").to_string() == "(integer) 1");
    assert_eq!(offset(&mut its), before, "a local write advanced the offset");
    client.ok("SET theirs 1");
    wait_until_in_sync(&mut client, &mut its);
    assert_eq!(its.call("DBSIZE").to_string(), "(integer) 2");
}

#[test]
fn a_primary_that_has_restarted_is_resumed() {
    let mut random = source("a_primary_that_has_restarted_is_resumed");
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a readable path").to_owned();
    let arguments = [&USUAL[..], &["--dir", &dir, "--save", "3600 1"]].concat();
    let options = Options {
        port: Some(free_port()),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        ..Options::default()
    };
    let mut server = TestServer::start_with(options.clone());
    let mut client = server.connect();
    fill(&mut client, &mut random, false);
    let replica = follower(&server, &[]);
    let mut its = replica.connect();
    wait_until_in_sync(&mut client, &mut its);
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    for number in 0..50 {
        client.ok(&format!("SET gone{number} 1 PX 1"));
    }
    wait_until_in_sync(&mut client, &mut its);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let server = TestServer::start_with(options);
    let mut client = server.connect();
    assert_same(&mut client, &mut its);
    assert_eq!(figure(&mut client, "stats", "sync_full"), 0);
    assert_eq!(figure(&mut client, "stats", "sync_partial_ok"), 1);
    assert_eq!(figure(&mut client, "persistence", "rdb_last_load_keys_expired"), 50);
}
