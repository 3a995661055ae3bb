// SPDX-License-Identifier: BSD-3-Clause
//! CONFIG, configuration files and INFO.

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value, wait_for};

fn get(client: &mut braid_tests::RawClient, name: &str) -> Option<String> {
    client.call(&format!("CONFIG GET {name}")).elements().and_then(|pair| pair.get(1)).map(Value::text)
}

#[test]
fn settings_are_read_changed_and_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("CONFIG SET maxmemory 100mb");
    assert_eq!(get(&mut client, "maxmemory").as_deref(), Some("104857600"));
    client.ok("CONFIG SET maxmemory 0 timeout 100");
    assert_eq!(get(&mut client, "timeout").as_deref(), Some("100"));
    let refused = client.call("CONFIG SET timeout 50 maxmemory-policy nosuch");
    assert!(refused.text().starts_with("ERR CONFIG SET failed"), "{refused}");
    assert_eq!(get(&mut client, "timeout").as_deref(), Some("100"), "all or nothing");
    assert!(client.call("CONFIG SET nosuch 1").text().starts_with("ERR Unknown option"));
    assert!(client.call("CONFIG SET databases 4").is_error(), "fixed at start");
    assert_eq!(get(&mut client, "nosuch"), None);
    let several = client.call("CONFIG GET timeout maxmemory");
    assert_eq!(several.elements().map(<[Value]>::len), Some(4), "{several}");
    let pattern = client.call("CONFIG GET maxmemory*");
    assert!(pattern.elements().is_some_and(|items| items.len() >= 6), "{pattern}");
}

#[test]
fn a_configuration_file_is_read_and_rewritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("server.conf");
    std::fs::write(
        &path,
        "# a comment that stays\nmaxmemory-policy allkeys-lru\ntimeout 77\nrequirepass \"a b\"\n",
    )
    .expect("written");
    let port = braid_tests::server::free_port();
    let program = braid_tests::server::program_under_test();
    let mut child = std::process::Command::new(program)
        .arg(&path)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let address = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let check = std::panic::catch_unwind(|| {
        let mut client = None;
        braid_tests::wait_for("the server to accept connections", || {
            client = braid_tests::RawClient::tcp(address).ok();
            client.is_some()
        });
        let mut client = client.expect("connected");
        client.ok("AUTH \"a b\"");
        assert_eq!(get(&mut client, "timeout").as_deref(), Some("77"));
        client.ok("CONFIG SET timeout 78");
        client.ok("CONFIG REWRITE");
        client.send(&braid_tests::request("SHUTDOWN NOSAVE"));
    });
    let ended = braid_tests::wait_for_within(std::time::Duration::from_secs(10), || {
        matches!(child.try_wait(), Ok(Some(_)))
    });
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    check.expect("the server reads and writes its file");
    assert!(ended, "SHUTDOWN ends the server");
    let text = std::fs::read_to_string(&path).expect("the file is there");
    assert!(text.contains("# a comment that stays"), "{text}");
    assert!(text.contains("timeout 78"), "{text}");
    assert!(text.contains("maxmemory-policy allkeys-lru"), "{text}");
    assert!(!text.contains("timeout 77"), "{text}");
}

#[test]
fn nonsense_in_the_configuration_stops_the_start() {
    for arguments in [["--nosuchoption", "1"], ["--timeout", "abc"], ["--maxmemory-policy", "nosuch"]] {
        let output = std::process::Command::new(braid_tests::server::program_under_test())
            .args(["--port", &braid_tests::server::free_port().to_string()])
            .args(arguments)
            .output()
            .expect("it starts and ends");
        assert!(!output.status.success(), "{arguments:?}");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(
            text.contains(arguments[0].trim_start_matches('-')) || text.contains(arguments[1]),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn info_has_the_sections_and_fields_that_tools_read() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("SET k v");
    client.call("GET k");
    client.call("GET nosuch");
    for (section, fields) in [
        (
            "server",
            &["redis_version", "process_id", "tcp_port", "uptime_in_seconds", "run_id", "config_file"][..],
        ),
        ("clients", &["connected_clients", "blocked_clients", "maxclients"]),
        (
            "memory",
            &[
                "used_memory",
                "used_memory_human",
                "used_memory_rss",
                "used_memory_peak",
                "maxmemory",
                "maxmemory_policy",
                "mem_fragmentation_ratio",
            ],
        ),
        (
            "stats",
            &[
                "total_connections_received",
                "total_commands_processed",
                "keyspace_hits",
                "keyspace_misses",
                "expired_keys",
                "evicted_keys",
                "rejected_connections",
                "instantaneous_ops_per_sec",
            ],
        ),
        ("cpu", &["used_cpu_sys", "used_cpu_user"]),
        ("commandstats", &["cmdstat_set", "cmdstat_get"]),
        ("errorstats", &[]),
        ("keyspace", &["db0"]),
        ("replication", &["role", "connected_slaves", "master_repl_offset"]),
    ] {
        let text = client.info(section);
        assert!(text.to_lowercase().starts_with(&format!("# {section}")), "{section}: {text}");
        for field in fields {
            assert!(
                text.lines().any(|line| line.starts_with(&format!("{field}:"))),
                "{section} has no {field}: {text}"
            );
        }
    }
    assert_eq!(client.info_field("server", "process_id"), Some(server.process_id().to_string()));
    assert_eq!(client.info_field("server", "tcp_port"), Some(server.port().to_string()));
    assert_eq!(client.info_field("stats", "keyspace_hits").as_deref(), Some("1"));
    assert_eq!(client.info_field("stats", "keyspace_misses").as_deref(), Some("1"));
    let keyspace = client.info_field("keyspace", "db0").expect("a line");
    assert!(keyspace.starts_with("keys=1,expires=0"), "{keyspace}");
    let set = client.info_field("commandstats", "cmdstat_set").expect("a line");
    assert!(set.starts_with("calls=1,usec="), "{set}");
}

#[test]
fn statistics_of_all_threads_are_added_up_and_can_be_reset() {
    let server = TestServer::start(&["--io-threads", "4"]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut client = server.connect();
            scope.spawn(move || (0..500).for_each(|_| assert!(client.call("INCR n").integer().is_some())));
        }
    });
    let mut client = server.connect();
    let line = client.info_field("commandstats", "cmdstat_incr").expect("a line");
    assert!(line.starts_with("calls=4000,"), "{line}");
    let processed: u64 = client
        .info_field("stats", "total_commands_processed")
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!(processed >= 4_000, "{processed}");
    client.ok("CONFIG RESETSTAT");
    assert_eq!(client.info_field("commandstats", "cmdstat_incr"), None);
}

/// Starts a server that must fail; returns its error output and its log file.
fn failed_start(folder: &std::path::Path, file: &str, arguments: &[&str]) -> (String, String) {
    let path = folder.join("braid.conf");
    std::fs::write(&path, file).expect("written");
    let log = folder.join("server.log");
    // Remove the log of an earlier start.
    let _ = std::fs::remove_file(&log);
    let port = braid_tests::server::free_port();
    let mut child = std::process::Command::new(braid_tests::server::program_under_test())
        .arg(&path)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(arguments)
        .current_dir(folder)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let ended = braid_tests::wait_for_within(std::time::Duration::from_secs(20), || {
        matches!(child.try_wait(), Ok(Some(_)))
    });
    if !ended {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("it has ended");
    assert!(ended, "{arguments:?}: the server kept running");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    (String::from_utf8_lossy(&output.stderr).into_owned(), log)
}

#[test]
fn every_cause_of_a_failed_start_is_in_the_log() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = folder.path().display().to_string();
    let socket = format!("{here}/socket");
    std::fs::write(folder.path().join("bad.rdb"), b"REDIS0011\xfanonsense").expect("written");
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let occupied_port = occupied.local_addr().expect("an address").port().to_string();
    let log = "logfile server.log\n";
    for (file, arguments, cause) in [
        // Errors before the log file is known, and after.
        ("timeout x\nlogfile server.log\n", &[][..], "argument couldn't be parsed into an integer"),
        (log, &["--timeout", "abc"], "at option --timeout >>> 'timeout \"abc\"' argument couldn't be parsed"),
        ("", &["--nosuch", "1", "--logfile", "server.log"], "unknown directive 'nosuch'"),
        (log, &["--port", &occupied_port], "Address already in use"),
        (log, &["--replicaof", "127.0.0.1", "x"], "Invalid master port"),
        (
            log,
            &["--cluster-enabled", "yes", "--replicaof", "127.0.0.1", "1"],
            "replicaof directive not allowed in cluster mode",
        ),
        (log, &["--unixsocket", "/no/such/place/socket"], "Failed opening Unix socket"),
        (log, &["--unixsocket", &socket, "--unixsocketgroup", "no-such-group"], "not in /etc/group"),
        (log, &["--user", "a", "+nosuch"], "Unknown command or category name in ACL"),
        (log, &["--aclfile", "/no/such/file"], "/no/such/file"),
        (log, &["--rename-command", "nosuch", "x"], "No such command in rename-command"),
        (
            log,
            &["--dir", &here, "--dbfilename", "bad.rdb"],
            "bad.rdb' to see how much of the file can be read",
        ),
        (log, &["--tls-port", "1", "--tls-cert-file", "/no/such/file"], "No tls-key-file configured"),
        (
            log,
            &["--tls-port", "1", "--tls-cert-file", "/no/such/file", "--tls-key-file", "x"],
            "Failed to load certificate: /no/such/file: No such file or directory",
        ),
        (log, &["--metrics-port", &occupied_port], "Address already in use"),
        (log, &["--metrics-port", "1", "--metrics-bind", "localhost"], "metrics-bind takes IP addresses"),
    ] {
        let (said, logged) = failed_start(folder.path(), file, arguments);
        assert!(logged.contains(cause), "{arguments:?}: the log is:\n{logged}\nbut stderr is:\n{said}");
        assert!(!said.trim().is_empty() && !logged.contains("os error"), "{arguments:?}: {logged}");
    }
    // The error is logged once.
    let manifest = folder.path().join("appendonlydir/appendonly.aof.manifest");
    std::fs::create_dir_all(manifest.parent().expect("a folder")).expect("created");
    std::fs::write(manifest, "file a seq 1 type x\n").expect("written");
    let (_, logged) = failed_start(folder.path(), log, &["--dir", &here, "--appendonly", "yes"]);
    assert_eq!(logged.matches("Unknown AOF file type").count(), 1, "{logged}");
    // Also if the log and the errors go to the same terminal.
    let terminal = folder.path().join("terminal");
    let output = std::fs::File::create(&terminal).expect("created");
    let status = std::process::Command::new(braid_tests::server::program_under_test())
        .args(["--port", &occupied_port, "--bind", "127.0.0.1", "--save", ""])
        .stdout(output.try_clone().expect("a second handle"))
        .stderr(output)
        .status()
        .expect("it starts");
    let said = std::fs::read_to_string(&terminal).expect("text");
    assert!(!status.success() && said.matches("Failed listening on port").count() == 1, "{said}");
}

#[test]
fn errors_of_options_name_the_option() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (said, _) = failed_start(folder.path(), "", &["--port", "abc"]);
    assert!(said.contains("COMMAND LINE ERROR") && said.contains("at option --port\n"), "{said}");
    assert!(!said.contains("CONFIG FILE") && !said.contains("line 1") && !said.contains("line 2"), "{said}");
    let (said, _) = failed_start(folder.path(), "\n\ntimeout x\n", &[]);
    let place = format!("Reading the configuration file {}/braid.conf, at line 3\n", folder.path().display());
    assert!(said.contains("CONFIG FILE ERROR") && said.contains(&place), "{said}");
}

#[test]
fn settings_without_effect_say_so() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let warning = "Directives that are set but have no effect in this version: dynamic-hz, ignore-warnings\n";
    let server = TestServer::start(&["--dynamic-hz", "no", "--hz", "20", "--ignore-warnings", "a"]);
    assert_eq!(server.log().matches("no effect").count(), 1, "{}", server.log());
    assert!(server.log().contains(warning), "{}", server.log());
    // As in the configuration files that come with Redis.
    let usual = ["--dynamic-hz", "yes", "--activerehashing", "yes", "--disable-thp", "yes"];
    assert!(!TestServer::start(&usual).log().contains("no effect"));
    let server = TestServer::start(&["--min-sync-replicas", "1"]);
    let warning =
        "Directives that are set but have no effect without group-name or cluster-name: min-sync-replicas\n";
    assert!(server.log().contains(warning), "{}", server.log());
    let server = TestServer::start(&["--hz", "20"]);
    let mut client = server.connect();
    client.ok("CONFIG SET hz 30 loglevel notice");
    assert!(!server.log().contains("no effect"), "{}", server.log());
    client.ok("CONFIG SET hz 40 replica-ignore-disk-write-errors yes");
    braid_tests::wait_for("the warning", || {
        server.log().contains("CONFIG SET replica-ignore-disk-write-errors has no effect in this version")
    });
}

/// ACL rules and renamed commands as in configurations of stock servers.
#[test]
fn configurations_may_name_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("server.conf");
    std::fs::write(
        &path,
        "rename-command SLAVEOF \"\"\nrename-command MIGRATE \"\"\nrename-command CLUSTER hidden\n\
         user other on nopass ~* &* +@all -replicaof -failover -migrate -cluster|reset\n",
    )
    .expect("written");
    let options = braid_tests::server::Options { config_file: Some(path), ..Default::default() };
    let server = TestServer::start_with(options);
    // ACL rules use the commands' original names.
    assert!(server.connect().call("ACL SETUSER u +cluster|slots -migrate -slaveof").text() == "OK");
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for rules in ["+cluster", "-slaveof", "-migrate", "+cluster|slots", "+readonly +readwrite +asking"] {
        client.ok(&format!("ACL SETUSER u {rules}"));
    }
    for command in ["CLUSTER INFO", "CLUSTER HELP", "READONLY", "READWRITE", "ASKING"] {
        assert_eq!(
            client.call(command).text(),
            "ERR This instance has cluster support disabled",
            "{command}"
        );
    }
    client.ok("REPLICAOF NO ONE");
    client.ok("SLAVEOF NO ONE");
    assert_eq!(client.call("FAILOVER ABORT").text(), "ERR No failover in progress.");
    let described = client.call("COMMAND INFO cluster migrate slaveof");
    let described = described.elements().expect("an array");
    assert!(described.iter().all(|command| command.elements().is_some()), "{described:?}");
}

#[test]
fn reported_redis_version_can_be_configured() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let server = TestServer::start(&["--redis-version", "8.0.6"]);
    let mut client = server.connect();
    assert_eq!(client.info_field("server", "redis_version").as_deref(), Some("8.0.6"));
    assert!(client.info_field("server", "braid_version").is_some());
    let greeting = client.call("HELLO 3").to_string();
    assert!(greeting.contains("8.0.6"), "{greeting}");
    assert!(server.log().contains("compatible with Redis 8.0.6"), "{}", server.log());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (said, _) = failed_start(folder.path(), "", &["--redis-version", "8"]);
    assert!(said.contains("argument must be a version such as 7.2.4"), "{said}");
}

/// INFO fields introduced by Redis 7.4, Redis 8 and Valkey 8.
#[test]
fn newer_fields_of_info() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--client-query-buffer-limit", "1mb"]);
    let (mut one, mut other, mut client) = (server.connect(), server.connect(), server.connect());
    let fields = [
        ("memory", "allocator_muzzy"),
        ("memory", "mem_overhead_db_hashtable_rehashing"),
        ("memory", "mem_replica_full_sync_buffer"),
        ("stats", "evicted_scripts"),
        ("stats", "client_output_buffer_limit_disconnections"),
    ];
    for (section, name) in fields {
        let value = client.info_field(section, name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(value.parse::<u64>().is_ok(), "{name}: {value}");
    }
    let watched = |client: &mut RawClient| {
        ["watching_clients", "total_watched_keys"]
            .map(|name| client.info_field("clients", name).expect("the field"))
            .join(" ")
    };
    assert_eq!(watched(&mut client), "0 0");
    one.ok("WATCH a b");
    one.ok("WATCH c");
    other.ok("WATCH a");
    assert_eq!(watched(&mut client), "2 3");
    one.ok("UNWATCH");
    assert_eq!(watched(&mut client), "1 1");
    drop(other);
    wait_for("the other client to disconnect", || watched(&mut client) == "0 0");
    let name = "client_query_buffer_limit_disconnections";
    assert_eq!(client.info_field("stats", name).as_deref(), Some("0"));
    // An endless request.
    let _ = one.try_send(&[&b"*1000000\r\n"[..], &b"$1\r\nx\r\n".repeat(400_000)].concat());
    wait_for("the connection to close", || client.info_field("stats", name).as_deref() == Some("1"));
}

fn oom_score(server: &TestServer) -> i32 {
    let file = format!("/proc/{}/oom_score_adj", server.process_id());
    std::fs::read_to_string(file).expect("a Linux process").trim().parse().expect("a number")
}

#[test]
fn the_kernels_score_follows_mode_and_role() {
    let server = TestServer::start(&["--oom-score-adj-values", "10 20 30"]);
    let (mut client, base) = (server.connect(), oom_score(&server));
    client.ok("CONFIG SET oom-score-adj yes");
    assert_eq!(oom_score(&server), base + 10);
    client.ok("REPLICAOF 127.0.0.1 1");
    assert_eq!(oom_score(&server), base + 20);
    client.ok("REPLICAOF NO ONE");
    client.ok("CONFIG SET oom-score-adj-values \"15 20 30\"");
    assert_eq!(oom_score(&server), base + 15);
    client.ok("CONFIG SET oom-score-adj absolute oom-score-adj-values \"900 0 0\"");
    assert_eq!(oom_score(&server), 900);
    client.ok("CONFIG SET oom-score-adj no");
    assert_eq!(oom_score(&server), base);
    let server = TestServer::start(&["--oom-score-adj", "relative", "--oom-score-adj-values", "7 0 0"]);
    assert_eq!(oom_score(&server), base + 7);
}

#[test]
fn the_allocators_thread_can_be_ended() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&[]);
    let has_thread = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("a process");
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks.flatten().filter_map(|task| name(task).ok()).any(|name| name.starts_with("jemalloc"))
    };
    let mut client = server.connect();
    wait_for("the allocator's thread", has_thread);
    client.ok("CONFIG SET jemalloc-bg-thread no");
    wait_for("the end of the allocator's thread", || !has_thread());
    client.ok("CONFIG SET jemalloc-bg-thread yes");
    wait_for("the allocator's thread", has_thread);
}

#[test]
fn a_seed_determines_the_order_of_keys() {
    if !is_braid() {
        return;
    }
    let order = |seed: &[&str]| {
        let server = TestServer::start(seed);
        let mut client = server.connect();
        for number in 0..50 {
            client.ok(&format!("SET key:{number} x"));
        }
        client.call("KEYS *").to_string()
    };
    let one = order(&["--hash-seed", "a seed"]);
    assert_eq!(order(&["--hash-seed", "a seed"]), one);
    assert_ne!(order(&["--hash-seed", "another seed"]), one);
    assert_ne!(order(&[]), order(&[]), "without a seed it is random");
}
