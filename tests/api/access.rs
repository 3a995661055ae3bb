// SPDX-License-Identifier: BSD-3-Clause
//! Users and their rights across connections and threads, and their persistence.

use std::thread;
use std::time::{Duration, Instant};

use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, request, wait_for};

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

fn no_key() -> Value {
    error("NOPERM No permissions to access a key")
}

fn is_closed(client: &mut RawClient) -> bool {
    client.set_patience(Duration::from_secs(5)).expect("a socket");
    client.read_to_close().is_some()
}

#[test]
fn acl_change_applies_immediately_on_every_thread() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on nopass ~k* +@all");
    let mut clients: Vec<RawClient> = (0..8).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ok("AUTH app x"));
    for round in 0..50 {
        admin.ok("ACL SETUSER app -set");
        for client in &mut clients {
            let refused = error("NOPERM User app has no permissions to run the 'set' command");
            assert_eq!(client.call("SET k 1"), refused, "round {round}");
        }
        admin.ok("ACL SETUSER app +set");
        clients.iter_mut().for_each(|client| client.ok("SET k 1"));
    }
    admin.ok("ACL SETUSER app allkeys allchannels +@all");
    clients.iter_mut().for_each(|client| client.ok("SET other 1"));
    admin.ok("ACL SETUSER app resetkeys ~k");
    clients.iter_mut().for_each(|client| assert_eq!(client.call("GET other"), no_key()));
}

#[test]
fn deleting_a_user_ends_its_connections() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut admin = server.connect();
    admin.ok("ACL SETUSER app on nopass allkeys allchannels +@all");
    let mut clients: Vec<RawClient> = (0..6).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ok("AUTH app x"));
    clients[0].send(b"BLPOP nothing 0\r\n");
    wait_for("the client waits", || admin.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    let users = admin.call("CLIENT LIST USER app").text();
    assert_eq!(users.lines().filter(|line| line.contains(" user=app ")).count(), 6, "{users}");
    assert_eq!(admin.call("ACL DELUSER app"), Value::Integer(1));
    clients.iter_mut().for_each(|client| assert!(is_closed(client)));
    assert!(admin.call("CLIENT LIST USER app").is_error());
    // A client that deletes its own user is closed after the reply.
    admin.ok("ACL SETUSER own on nopass +@all");
    let mut own = server.connect();
    own.ok("AUTH own x");
    assert_eq!(own.call("ACL DELUSER own"), Value::Integer(1));
    assert!(is_closed(&mut own));
    assert_eq!(admin.call("PING"), Value::Simple(b"PONG".to_vec()));
}

/// With `limit-delay` a client is slowed down instead of being refused: all its requests are
/// served, in order and at the rate, and what it sends meanwhile stays on its side.
#[test]
fn a_user_beyond_its_limit_is_slowed_down() {
    const PER_SECOND: u32 = 1000;
    let server = TestServer::start(&["--io-threads", "2"]);
    if !server.is_braid() {
        println!("skipped: stock servers have no such limits");
        return;
    }
    let mut admin = server.connect();
    admin.ok(&format!("ACL SETUSER app on nopass ~* +@all limit-commands={PER_SECOND} limit-delay=5000"));
    let counts: Vec<u32> = std::thread::scope(|scope| {
        let run = || {
            let mut client = server.connect();
            client.ok("AUTH app x");
            let (mut count, end) = (0, Instant::now() + Duration::from_secs(4));
            while Instant::now() < end {
                // Pipelines, with a part of the next request behind them.
                client.send(&[request("INCR n").repeat(50), b"*2\r\n$4\r\nEC".to_vec()].concat());
                let first = client.read().integer().expect("a number");
                (1..50).for_each(|_| assert!(client.read().integer().expect("a number") > first));
                client.send(b"HO\r\n$2\r\nhi\r\n");
                assert_eq!(client.read().text(), "hi");
                count += 51;
            }
            count
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        // Other users do not wait, nor does this one for other limits.
        for _ in 0..200 {
            let began = Instant::now();
            assert_eq!(admin.call("PING").text(), "PONG");
            assert!(began.elapsed() < Duration::from_millis(500));
        }
        threads.into_iter().map(|thread| thread.join().expect("no error")).collect()
    });
    let (all, expected) = (counts.iter().sum::<u32>(), PER_SECOND * 4);
    println!("{counts:?}");
    // What may be used at once comes on top, and what has waited at the end.
    assert!((expected * 9 / 10..expected * 14 / 10).contains(&all), "{counts:?}");
    assert!(counts.iter().all(|count| *count > all / 8), "all have their share: {counts:?}");
    // A client that sends without reading does not fill the server's memory.
    let mut flood = server.connect();
    flood.ok("AUTH app x");
    flood.set_patience(Duration::from_millis(300)).expect("a socket");
    let requests = request(&format!("SET k {}", "x".repeat(10_000))).repeat(100);
    let sent = (0..100).take_while(|_| flood.try_send(&requests).is_ok()).count();
    let memory = admin.call("CLIENT LIST USER app").text();
    let query = memory.split(" qbuf=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a field");
    assert!(query.parse::<usize>().expect("a number") < 4 << 20, "{sent} MB sent: {memory}");
    // The connection is closed while its request waits, and the server goes on.
    drop(flood);
    wait_for("the client to be gone", || !admin.call("CLIENT LIST").text().contains("user=app"));
}

/// The memory of the keys that a user may change is limited, whoever writes them.
#[test]
fn memory_of_a_users_keys_is_limited() {
    let server = TestServer::start(&["--io-threads", "2"]);
    if !server.is_braid() {
        println!("skipped: stock servers have no such limits");
        return;
    }
    let (mut admin, mut app) = (server.connect(), server.connect());
    let large = "x".repeat(3 << 20);
    admin.ok(&format!("SET other:large {large}"));
    admin.ok("ACL SETUSER app on nopass ~app:* %R~other:* +@all limit-memory=1mb");
    app.ok("AUTH app x");
    let value = "x".repeat(10_000);
    let set = |app: &mut RawClient, number: u32| app.call(&format!("SET app:{number} {value}"));
    let begin = Instant::now();
    let refused = (0..1000).find_map(|number| {
        let reply = set(&mut app, number);
        reply.is_error().then(|| (number, reply.text()))
    });
    let (count, reply) = refused.expect("a refusal");
    println!("{count} values of 10 kB in {:?}", begin.elapsed());
    // What is written while its keys are measured counts twice until they are measured again.
    assert!((45..110).contains(&count), "{count}");
    assert!(reply.starts_with("LIMIT The user has reached limit-memory: its keys take "), "{reply}");
    // It may read and delete, which makes room.
    assert_eq!(app.call("STRLEN other:large").integer(), Some(3 << 20));
    assert_eq!(app.call("STRLEN app:0").integer(), Some(10_000));
    (0..count / 2).for_each(|number| assert_eq!(app.call(&format!("DEL app:{number}")), Value::Integer(1)));
    wait_for("room", || !set(&mut app, 1).is_error());
    // What others write into its keys counts, and what is not its own does not.
    admin.ok(&format!("SET app:large {large}"));
    wait_for("a refusal", || set(&mut app, 1).is_error());
    app.ok("MULTI");
    assert!(app.call("SET app:1 x").is_error());
    assert!(app.call("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(app.call("DEL app:large"), Value::Integer(1));
    wait_for("room", || !set(&mut app, 1).is_error());
    admin.ok("ACL SETUSER app limit-memory=1k");
    assert!(set(&mut app, 2).is_error());
    admin.ok("ACL SETUSER app nolimits");
    assert_eq!(set(&mut app, 2), Value::ok());
}

/// The default user's connections are limited as they arrive.
#[test]
fn connections_of_a_user_are_limited() {
    let server = TestServer::start(&["--io-threads", "2"]);
    if !server.is_braid() {
        println!("skipped: stock servers have no such limits");
        return;
    }
    let mut admin = server.connect();
    admin.ok("ACL SETUSER admin on nopass ~* &* +@all");
    admin.ok("AUTH admin x");
    admin.ok("ACL SETUSER default limit-connections=3");
    wait_for("the connections before to close", || {
        admin.call("CLIENT LIST").text().matches("user=default").count() == 0
    });
    let mut kept: Vec<RawClient> = (0..3).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.call("PING").text(), "PONG"));
    let refused = server.connect().read_to_close().expect("the server closes it");
    assert_eq!(refused, b"-LIMIT The user has reached limit-connections: 3 are in use\r\n");
    kept.pop();
    wait_for("a place", || {
        let mut client = server.connect();
        client.try_send(b"PING\r\n").is_ok() && client.try_read().is_ok_and(|reply| reply.text() == "PONG")
    });
}

/// Two clients of a user ask for as much as they can. What they receive exceeds the limit by no
/// more than what may be sent at once, a quarter of a second's worth, and one value each.
#[test]
fn the_clients_of_a_user_share_the_limits_of_bytes() {
    const PER_SECOND: usize = 2_000_000;
    const VALUE: usize = 50_000;
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut admin = server.connect();
    admin.call_arguments(&[&b"SET"[..], b"k", &[b'x'; VALUE]]);
    admin.ok(&format!("ACL SETUSER app on nopass allkeys +@all limit-output={PER_SECOND}"));
    let begin = Instant::now();
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let mut client = server.connect();
            thread::spawn(move || {
                client.ok("AUTH app x");
                let (mut received, mut refused) = (0, 0);
                while begin.elapsed() < Duration::from_secs(1) {
                    match client.call("GET k") {
                        Value::Bulk(value) => received += value.len(),
                        other => {
                            let text = other.text();
                            assert!(
                                text.starts_with("LIMIT The user has reached limit-output: try again in "),
                                "{text}"
                            );
                            refused += 1;
                        }
                    }
                }
                (received, refused)
            })
        })
        .collect();
    let results: Vec<(usize, u64)> =
        asking.into_iter().map(|client| client.join().expect("it ends")).collect();
    let elapsed = begin.elapsed();
    let received: usize = results.iter().map(|(received, _)| received).sum();
    let allowed = (PER_SECOND as f64 * (elapsed.as_secs_f64() + 0.25)) as usize + 2 * (VALUE + 100);
    assert!(received <= allowed, "{received} bytes in {elapsed:?}");
    let refused: u64 = results.iter().map(|(_, refused)| refused).sum();
    assert!(refused > 0 && received > 0, "{results:?}");
    // Sending counts, too.
    admin.ok("ACL SETUSER app nolimits limit-input=1000");
    let mut client = server.connect();
    client.ok("AUTH app x");
    client.call_arguments(&[&b"SET"[..], b"k", &[b'x'; VALUE]]);
    let text = client.call("PING").text();
    assert!(text.starts_with("LIMIT The user has reached limit-input: try again in "), "{text}");
    assert_eq!(admin.call("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn users_are_kept_in_the_configuration_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("braid.conf");
    std::fs::write(
        &file,
        "user default on nopass ~* &* +@all -flushdb\nuser app on >secret \"(~\\\"a\\\\\\\"b\\\" +get)\" role=app.read-only,two\n\
         role two ~two:* +set\nrole app.read-only ~ro:* +get (+info)\n",
    )
    .expect("a file");
    let options = Options { config_file: Some(file.clone()), ..Options::default() };
    let server = TestServer::start_with(options.clone());
    let mut client = server.connect();
    assert!(client.call("FLUSHDB").is_error());
    let list = client.call("ACL LIST");
    assert_eq!(client.call_arguments(&["ACL", "DRYRUN", "app", "GET", "a\"b"]), Value::ok(), "{list}");
    client.ok("ACL SETUSER new on nopass ~x:* +@read -get");
    client.ok("ACL SETROLE three ~3 +get");
    client.ok("ACL SETUSER new role=three,two");
    for (request, expected) in
        [("GET ro:1", true), ("SET two:1 x", true), ("SET ro:1 x", false), ("INFO", true)]
    {
        let reply = client.call(&format!("ACL DRYRUN app {request}"));
        assert_eq!(reply == Value::ok(), expected, "{request}: {reply}");
    }
    client.ok("CONFIG REWRITE");
    let list_now = client.call("ACL LIST");
    assert_ne!(list, list_now);
    drop(server);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(!text.contains("secret"), "{text}");
    // The first server's folder no longer exists.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("dir ")).collect();
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let server = TestServer::start_with(options);
    let mut client = server.connect();
    assert_eq!(client.call("ACL LIST"), list_now);
    assert!(client.call("FLUSHDB").is_error());
    // A role that is gone leaves no line behind.
    client.ok("ACL SETUSER new resetroles");
    assert_eq!(client.call("ACL DELROLE three"), Value::Integer(1));
    client.ok("CONFIG REWRITE");
    assert!(!std::fs::read_to_string(&file).expect("a file").contains("role three"));
}

/// As Valkey 9.2 tests it (tests/unit/acl-role.tcl).
#[test]
fn roles_are_kept_in_the_users_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.acl");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    // A role may stand behind its users.
    write(
        "user default on nopass ~* &* +@all role=viewer\nuser bob on >p role=viewer\nrole viewer ~v:* +get\n",
    );
    let server = TestServer::start(&["--aclfile", file.to_str().expect("a path")]);
    let mut admin = server.connect();
    for _ in 0..3 {
        admin.ok("ACL LOAD");
        let holders = admin.call("ACL GETROLE viewer").elements().expect("a role")[11].clone();
        assert_eq!(holders, Value::Array(vec![Value::bulk("bob"), Value::bulk("default")]));
    }
    admin.ok("ACL SETROLE app.read-only ~ro:* +get");
    admin.ok("ACL SETUSER bob role=app.read-only,viewer");
    let digest = admin.call("ACL DIGEST");
    admin.ok("ACL SAVE");
    let saved = std::fs::read_to_string(&file).expect("a file");
    assert!(saved.starts_with("role app.read-only ~ro:* resetchannels -@all +get\nrole viewer "), "{saved}");
    admin.ok("ACL SETROLE app.read-only +set");
    admin.ok("ACL LOAD");
    assert_eq!(admin.call("ACL DIGEST"), digest);
    assert_eq!(admin.call("ACL DRYRUN bob GET ro:1"), Value::ok());
    assert!(admin.call("ACL DRYRUN bob SET ro:1 x").text().contains("no permissions"));
    for (text, fault) in [
        ("role badrole >password", ":1: Error in applying operation '(redacted)': Syntax error."),
        ("role", ":1: role requires a role name."),
        ("role dup ~* +@all\nrole dup ~* +@read", "Duplicate role 'dup' found on line 2."),
        ("role a,b +get", ":1: invalid role name: Role names can't contain commas."),
        ("user x on role=nosuch", ":1: The role does not exist."),
        ("role r (+get", ":1: Unmatched parenthesis in selector definition."),
    ] {
        write(text);
        let reply = admin.call("ACL LOAD").text();
        assert!(reply.contains(fault), "{text}: {reply}");
    }
    assert_eq!(admin.call("ACL DIGEST"), digest);
}

#[test]
fn users_are_kept_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.acl");
    let text = "user alice on allcommands allkeys &* >alice\nuser default on nopass ~* &* +@all\n";
    std::fs::write(&file, text).expect("a file");
    let server = TestServer::start(&["--aclfile", file.to_str().expect("a path")]);
    let mut admin = server.connect();
    let mut alice = server.connect();
    alice.ok("AUTH alice alice");
    admin.ok("ACL SETUSER eve on nopass ~e +get");
    admin.ok("ACL SAVE");
    let saved = std::fs::read_to_string(&file).expect("a file");
    assert!(saved.contains("user eve on nopass sanitize-payload ~e resetchannels -@all +get\n"), "{saved}");
    admin.ok("ACL SETUSER eve +set");
    std::fs::write(&file, saved.clone() + "user eve on\n").expect("a file");
    let reply = admin.call("ACL LOAD");
    assert!(reply.text().contains("Duplicate user 'eve' found on line 4"), "{reply}");
    assert_eq!(admin.call("ACL DRYRUN eve SET e 1"), Value::ok());
    std::fs::write(&file, saved).expect("a file");
    admin.ok("ACL LOAD");
    assert!(admin.call("ACL DRYRUN eve SET e 1").text().contains("no permissions"));
    alice.ok("SET still here");
}

/// As in Redis 8 and Valkey, ACL LOAD closes only connections that lose something.
#[test]
fn loading_the_file_closes_connections_of_removed_users_and_lost_channels() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.acl");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    write("user same on nopass +@all &a*\nuser fewer on nopass +@all &*\nuser gone on nopass +@all\n");
    let server = TestServer::start(&["--aclfile", file.to_str().expect("a path")]);
    let connect = |name: &str| {
        let mut client = server.connect();
        client.ok(&format!("AUTH {name} x"));
        client
    };
    let listen = |name: &str| {
        let mut client = connect(name);
        client.call("SUBSCRIBE a1");
        client
    };
    let (mut same, mut fewer) = (listen("same"), listen("fewer"));
    let (mut gone, mut silent) = (connect("gone"), connect("fewer"));
    write("user same on nopass +@all &a*\nuser fewer on nopass -@all +ping &b*\n");
    server.connect().ok("ACL LOAD");
    assert!(is_closed(&mut gone) && is_closed(&mut fewer));
    assert_eq!(silent.call("PING"), Value::Simple("PONG".into()));
    assert!(silent.call("GET k").is_error(), "the new rules apply to old connections");
    server.connect().call("PUBLISH a1 text");
    assert!(same.read().to_string().contains("text"));
}

#[test]
fn wrong_definitions_end_the_start() {
    let start = |arguments: &[&str]| {
        let output = std::process::Command::new(braid_tests::server::program_under_test())
            .args(["--port", "0", "--save", ""])
            .args(arguments)
            .output()
            .expect("the server can be started");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    };
    let text = start(&["--user", "foo", "on", "--user", "foo"]);
    assert!(text.contains("Duplicate user"), "{text}");
    let text = start(&["--user", "foo", "on", ">secret", "+nosuch"]);
    assert!(text.contains("Unknown command or category name in ACL") && !text.contains("secret"), "{text}");
}

#[test]
fn listeners_go_when_they_may_listen_no_more() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let mut admin = server.connect();
    let listen = |what: &str| {
        let mut client = server.connect();
        client.ok("AUTH app x");
        client.call(what);
        client
    };
    admin.ok("ACL SETUSER app on nopass +@pubsub +auth resetchannels &news &log:* &deep:*");
    let mut stays = listen("SUBSCRIBE news log:1");
    let mut pattern = listen("PSUBSCRIBE log:*");
    let mut shard = listen("SSUBSCRIBE deep:1");
    let mut idle = server.connect();
    idle.ok("AUTH app x");
    admin.ok("ACL SETUSER app &more");
    admin.ok("ACL SETUSER app resetchannels &news &log:1 &more");
    assert!(is_closed(&mut pattern), "the client keeps a pattern subscription that its rules no longer list");
    assert!(is_closed(&mut shard));
    assert_eq!(admin.call("PUBLISH news x"), Value::Integer(1));
    // After the reply for its second channel.
    stays.read();
    let message = stays.read().to_string();
    assert!(message.contains("message") && message.contains("news"), "{message}");
    assert!(idle.call("PUBLISH zap x").is_error());
    admin.ok("ACL SETUSER app allchannels");
    admin.ok("ACL SETUSER app resetchannels");
    assert!(is_closed(&mut stays));
}

/// A message published after the reply to the command that took the right away does not arrive.
#[test]
fn listeners_that_must_go_hear_nothing_more() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let mut admin = server.connect();
    for round in 0..50 {
        admin.ok("ACL SETUSER app on nopass +@pubsub +auth allchannels");
        let mut client = server.connect();
        client.ok("AUTH app x");
        client.call("SUBSCRIBE news");
        admin.ok("ACL SETUSER app resetchannels");
        admin.call("PUBLISH news secret");
        client.set_patience(Duration::from_secs(5)).expect("a socket");
        let rest = client.read_to_close().expect("the connection is closed");
        assert!(!String::from_utf8_lossy(&rest).contains("secret"), "round {round}");
    }
}

/// On every thread, with other clients active: a user who may read one key and write another
/// gains no other access through any command.
#[test]
fn rights_by_selectors_hold_on_every_way_to_a_key() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut admin = server.connect();
    for db in [1, 0] {
        admin.ok(&format!("SELECT {db}"));
        for key in ["secret", "source", "target"] {
            admin.call(&format!("RPUSH {key} {key}-content"));
        }
    }
    admin.ok("ACL SETUSER u on nopass +@all (+@all %R~source* %W~target*)");
    let mut clients: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ok("AUTH u x"));
    let allowed = [
        "LRANGE source 0 -1",
        "COPY source target REPLACE",
        "COPY source target DB 1 REPLACE",
        "SORT source STORE target ALPHA",
        "EVAL_RO \"return redis.call('lrange', 'source', 0, -1)\" 0",
        "EVAL \"return redis.call('sort', 'source', 'store', 'target', 'alpha')\" 0",
    ];
    let refused = [
        "LRANGE target 0 -1",
        "LRANGE secret 0 -1",
        "RPUSH source x",
        "COPY target source REPLACE",
        "COPY secret target REPLACE",
        "COPY secret target DB 1 REPLACE",
        "COPY source secret DB 1 REPLACE",
        "SORT source BY secret*",
        "SORT source BY nosort GET secret*",
        "SORT target STORE target",
        "SORT source STORE source",
        "EVAL \"return redis.call('lrange', 'secret', 0, -1)\" 0",
        "EVAL \"redis.call('select', 1) return redis.call('lrange', 'secret', 0, -1)\" 0",
        "EVAL_RO \"redis.call('lrange', 'source', 0, -1) return redis.call('lrange', 'target', 0, -1)\" 1 source",
        "EVAL_RO \"redis.call('lrange', 'source', 0, -1) return redis.call('lrange', 'secret', 0, -1)\" 1 source",
        "EVAL \"return redis.call('copy', 'target', 'source', 'replace')\" 0",
        "EVAL_RO \"return redis.call('lrange', 'source', 0, -1)\" 1 secret",
    ];
    for _ in 0..5 {
        for client in &mut clients {
            for request in allowed {
                let reply = client.call(request);
                assert!(!reply.is_error(), "{request}: {reply}");
            }
            for request in refused {
                let reply = client.call(request).text();
                let is_refusal = ["NOPERM", "No permissions", "denied due to insufficient ACL"];
                assert!(is_refusal.iter().any(|word| reply.contains(word)), "{request}: {reply}");
                client.ok("MULTI");
                let queued = client.call(request).text();
                let ended = client.call("EXEC").to_string();
                let seen = format!("{queued} {ended}");
                assert!(is_refusal.iter().any(|word| seen.contains(word)), "{request}: {seen}");
                assert!(!seen.contains("-content") && !reply.contains("-content"), "{request}: {seen}");
            }
        }
    }
    for db in [1, 0] {
        admin.ok(&format!("SELECT {db}"));
        assert_eq!(admin.call("LRANGE secret 0 -1").to_string(), "[\"secret-content\"]");
        assert_eq!(admin.call("LRANGE source 0 -1").to_string(), "[\"source-content\"]");
    }
}
