// SPDX-License-Identifier: BSD-3-Clause
//! `CONFIG SET io-threads` under load: whatever a client is doing at that moment, it gets its
//! replies once and in order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, request, wait_for, wait_for_within};

use crate::under_load::keep_busy;

const MODELS: [&str; 5] = ["parallel", "global-lock", "handoff", "hybrid", "fanout"];
/// A sequence of numbers of threads.
const COUNTS: [usize; 8] = [2, 4, 1, 3, 2, 5, 1, 2];

/// Starts a server with one thread and this model; `None` if it is not Braid.
fn start(model: &str) -> Option<TestServer> {
    let server = TestServer::start(&["--io-threads", "1", "--threading-model", model]);
    if server.is_braid() {
        return Some(server);
    }
    println!("skipped: only Braid changes the number of its threads");
    None
}

/// Number of the server's threads that serve clients.
fn serving_threads(server: &TestServer) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks
        .flatten()
        .filter(|task| task.path().exists())
        .map(name)
        .filter(|name| name.starts_with("io_thd_"))
        .count()
}

/// Changes the number of threads, and waits until the change is complete.
fn change(server: &TestServer, control: &mut RawClient, count: usize) {
    control.ok(&format!("CONFIG SET io-threads {count}"));
    let name = || Value::bulk("io-threads");
    let asked = control.call("CONFIG GET io-threads");
    assert_eq!(asked.elements(), Some(&[name(), Value::bulk(count.to_string())][..]));
    let wanted = count.to_string();
    wait_for("the thread count", || control.info_field("threads", "io_threads").as_ref() == Some(&wanted));
    wait_for("surplus threads to end", || serving_threads(server) == count);
    let lines = control.info("threads").lines().filter(|line| line.starts_with("io_thread_")).count();
    assert_eq!(lines, count);
    for line in control.call("CLIENT LIST").text().lines() {
        let thread = line.split(' ').find_map(|part| part.strip_prefix("io-thread=")).expect("a thread");
        assert!(thread.parse::<usize>().expect("a number") < count, "with {count} threads: {line}");
    }
}

/// Pushes numbers for a client that waits for each of them.
fn block_and_serve(waiter: &mut RawClient, pusher: &mut RawClient, number: usize, stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        // A request after the blocking one, which must wait too; the blocking one has one key or
        // several.
        let key = if round % 2 == 0 { format!("q:{number}") } else { format!("q:{number} other:{number}") };
        let pipeline = [request(&format!("BLPOP {key} 0")), request(&format!("ECHO {round}"))];
        waiter.send(&pipeline.concat());
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pusher.call(&format!("RPUSH q:{number} {round}")), Value::Integer(1));
        let served = vec![Value::bulk(format!("q:{number}")), Value::bulk(round.to_string())];
        assert_eq!(waiter.read(), Value::Array(served));
        assert_eq!(waiter.read(), Value::bulk(round.to_string()));
        round += 1;
    }
}

/// Reads numbered messages up to the end message, and asserts their order.
fn listen_to_the_end(listener: &mut RawClient, seen: &AtomicUsize) {
    let mut next = 0;
    loop {
        let message = listener.read();
        let text = message.elements().expect("a message").last().expect("its text").text();
        if text == "end" {
            return;
        }
        assert_eq!(text, next.to_string());
        next += 1;
        seen.store(next, Ordering::Relaxed);
    }
}

#[test]
fn thread_count_changes_under_load_without_disruption() {
    for model in MODELS {
        let Some(server) = start(model) else { return };
        let mut control = server.connect();
        let (stop, seen) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let busy: Vec<_> = (0..4)
                .map(|number| {
                    let mut client = server.connect();
                    scope.spawn(move || keep_busy(&mut client, number, stop))
                })
                .collect();
            for number in 0..2 {
                let (mut waiter, mut pusher) = (server.connect(), server.connect());
                scope.spawn(move || block_and_serve(&mut waiter, &mut pusher, number, stop));
            }
            let listeners: Vec<_> = (0..4)
                .map(|number| {
                    let mut client = server.connect();
                    // Messages alternate between two channels, one of which a listener receives
                    // by a pattern: they arrive in the order in which they were sent.
                    if number % 2 == 0 {
                        client.call("HELLO 3");
                    }
                    client.call("SUBSCRIBE even odd");
                    client.read();
                    if number == 3 {
                        client.call("UNSUBSCRIBE even");
                        client.call("PSUBSCRIBE ev*n");
                    }
                    scope.spawn(move || listen_to_the_end(&mut client, seen))
                })
                .collect();
            let mut publisher = server.connect();
            let publishing = scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let publish = |number: usize| {
                        let channel = if number.is_multiple_of(2) { "even" } else { "odd" };
                        request(&format!("PUBLISH {channel} {number}"))
                    };
                    // Many in a row, so that some are always in flight.
                    publisher.send(&(number..number + 500).map(publish).collect::<Vec<_>>().concat());
                    (0..500).for_each(|_| assert_eq!(publisher.read(), Value::Integer(4)));
                    number += 500;
                }
                publisher.call("PUBLISH even end");
            });
            for count in COUNTS {
                change(&server, &mut control, count);
                let (before, until) =
                    (seen.load(Ordering::Relaxed), Instant::now() + Duration::from_millis(40));
                wait_for("more messages to arrive", || {
                    seen.load(Ordering::Relaxed) > before && Instant::now() > until
                });
            }
            // Many changes in quick succession: only the last one must take effect.
            for count in [3, 1, 4, 2, 1, 3] {
                control.ok(&format!("CONFIG SET io-threads {count}"));
            }
            change(&server, &mut control, 2);
            stop.store(true, Ordering::Relaxed);
            publishing.join().expect("every message reached all listeners");
            for (number, worker) in busy.into_iter().enumerate() {
                let count = worker.join().expect("every reply arrived once, in order");
                assert_eq!(
                    control.call(&format!("GET busy:{number}")),
                    Value::bulk(count.to_string()),
                    "{model}"
                );
            }
            listeners.into_iter().for_each(|listener| listener.join().expect("messages arrived in order"));
        });
    }
}

#[test]
fn clients_continue_mid_operation_on_another_thread() {
    for model in MODELS {
        let Some(server) = start(model) else { return };
        let mut control = server.connect();
        change(&server, &mut control, 4);
        // One client of each kind on every thread.
        let each = || (0..4).map(|_| server.connect()).collect::<Vec<RawClient>>();
        let (mut waiting, mut timed, mut queueing, mut watching) = (each(), each(), each(), each());
        let (mut half, mut half_big, mut unread, mut monitoring) = (each(), each(), each(), each());
        let (mut both, mut paused, mut named) = (each(), each(), each());
        let big = "b".repeat(1_000_000);
        control.ok(&format!("SET big {big}"));
        for number in 0..4 {
            waiting[number].send(&request(&format!("BLPOP w:{number} 0")));
            timed[number].send(&[request("BLPOP never 1.5"), request("ECHO behind")].concat());
            queueing[number].ok("MULTI");
            assert_eq!(queueing[number].call(&format!("INCR m:{number}")).text(), "QUEUED");
            watching[number].ok(&format!("WATCH watched:{}", number % 2));
            half[number].send(b"*2\r\n$4\r\nECHO\r\n$10\r\nhalf");
            half_big[number].send(format!("*3\r\n$3\r\nSET\r\n$3\r\nb:{number}\r\n$1000000\r\n").as_bytes());
            half_big[number].send(&big.as_bytes()[..300_000]);
            unread[number].send(&request("GET big").repeat(12));
            both[number].call("HELLO 3");
            both[number].call("SUBSCRIBE news");
            both[number].send(&request(&format!("BLPOP both:{number} 0")));
            named[number].ok(&format!("CLIENT SETNAME n{number}"));
            named[number].ok("SELECT 3");
        }
        // On a slow machine, four of them may already have timed out.
        let all_wait = Instant::now();
        wait_for("the clients to block", || {
            let blocked = control.info_field("clients", "blocked_clients");
            let is_late = all_wait.elapsed() > Duration::from_millis(1500);
            blocked.as_deref() == Some(if is_late { "8" } else { "12" })
        });
        monitoring.iter_mut().for_each(|client| client.ok("MONITOR"));
        control.ok("CLIENT PAUSE 100000 WRITE");
        for (number, client) in paused.iter_mut().enumerate() {
            client.send(&[request(&format!("SET p:{number} x")), request("ECHO behind")].concat());
        }
        for count in [2, 3, 1, 4, 1, 2] {
            change(&server, &mut control, count);
        }
        control.ok("CLIENT UNPAUSE");
        for (number, client) in paused.iter_mut().enumerate() {
            assert_eq!(
                (client.read(), client.read()),
                (Value::ok(), Value::bulk("behind")),
                "{model} {number}"
            );
        }
        assert_eq!(control.call("PUBLISH news 1"), Value::Integer(4));
        control.ok("SET watched:0 changed");
        for number in 0..4 {
            control.call(&format!("RPUSH w:{number} {number}"));
            control.call(&format!("RPUSH both:{number} {number}"));
            let pair = |key: &str| Value::Array(vec![Value::bulk(key), Value::bulk(number.to_string())]);
            assert_eq!(waiting[number].read(), pair(&format!("w:{number}")), "{model}");
            assert_eq!(both[number].read().elements().expect("a message")[2], Value::bulk("1"), "{model}");
            assert_eq!(both[number].read(), pair(&format!("both:{number}")), "{model}");
            assert!(timed[number].read().is_null(), "{model}");
            assert_eq!(timed[number].read(), Value::bulk("behind"), "{model}");
            assert_eq!(queueing[number].call("EXEC"), Value::Array(vec![Value::Integer(1)]), "{model}");
            watching[number].ok("MULTI");
            watching[number].call("PING");
            assert_eq!(watching[number].call("EXEC").is_null(), number % 2 == 0, "{model}");
            half[number].send(b"behalf\r\n");
            assert_eq!(half[number].read(), Value::bulk("halfbehalf"), "{model}");
            half_big[number].send(&big.as_bytes()[300_000..]);
            half_big[number].send(b"\r\n");
            assert_eq!(half_big[number].read(), Value::ok(), "{model}");
            assert_eq!(control.call(&format!("STRLEN b:{number}")), Value::Integer(1_000_000), "{model}");
            for _ in 0..12 {
                assert_eq!(unread[number].read(), Value::bulk(&big), "{model}");
            }
            let name = named[number].call("CLIENT GETNAME");
            assert_eq!(name, Value::bulk(format!("n{number}")), "{model}");
            let info = named[number].call("CLIENT INFO").text();
            assert!(info.contains(" db=3 "), "{model}: {info}");
            control.call(&format!("ECHO to:{number}"));
        }
        for client in &mut monitoring {
            let mut heard = 0;
            while heard < 4 {
                // Every line once, in order.
                let line = client.read().text();
                if line.contains("\"ECHO\" \"to:") {
                    assert!(line.ends_with(&format!("\"to:{heard}\"")), "{model}: {line}");
                    heard += 1;
                }
            }
        }
        // Disconnected clients are removed everywhere.
        drop((waiting, timed, queueing, watching, half, half_big, unread, monitoring, both, paused, named));
        wait_for("the other clients to be removed", || {
            control.info_field("clients", "connected_clients").as_deref() == Some("1")
        });
    }
}

#[test]
fn caches_are_not_stale_while_the_number_of_threads_changes() {
    for model in MODELS {
        let Some(server) = start(model) else { return };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut control = server.connect();
                while !stop.load(Ordering::Relaxed) {
                    for count in [4, 1, 3, 2] {
                        change(&server, &mut control, count);
                    }
                }
            });
            crate::messages::check_cache_with_concurrent_writers(&server, model);
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn the_number_of_threads_is_written_down_and_the_server_ends_in_the_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("braid.conf");
    let mut line = "io-threads 1".to_owned();
    for round in 0..15 {
        let arguments = vec!["--threading-model".to_owned(), MODELS[round % 5].to_owned()];
        let options = Options { config_file: Some(file.clone()), arguments, ..Options::default() };
        std::fs::write(&file, format!("{line}\n")).expect("a file");
        let mut server = TestServer::start_with(options);
        if !server.is_braid() {
            return;
        }
        let mut control = server.connect();
        // Unless the common arguments set the number of threads.
        let is_given = std::env::var("BRAID_TEST_ARGS").is_ok_and(|args| args.contains("--io-threads"));
        let before = if round == 0 { 1 } else { 3 };
        let found = control.info_field("threads", "io_threads");
        assert!(is_given || found == Some(before.to_string()), "{found:?}");
        change(&server, &mut control, 3);
        control.ok("CONFIG REWRITE");
        let text = std::fs::read_to_string(&file).expect("the file");
        line = text.lines().find(|line| line.starts_with("io-threads")).unwrap_or_default().to_owned();
        assert_eq!(line, "io-threads 3", "{text}");
        for refused in ["0", "257", "many"] {
            assert!(control.call(&format!("CONFIG SET io-threads {refused}")).is_error(), "{refused}");
        }
        // A shutdown while the number of threads changes.
        let clients: Vec<RawClient> = (0..20).map(|_| server.connect()).collect();
        let count = [16, 1, 2][round / 5];
        control.ok(&format!("CONFIG SET io-threads {count}"));
        control.send(&request("SHUTDOWN NOSAVE"));
        assert!(server.wait().success(), "{}", server.log());
        drop(clients);
    }
}

#[test]
fn maximum_number_of_threads_can_be_started_and_stopped() {
    let Some(server) = start("parallel") else { return };
    let mut control = server.connect();
    let files = braid_tests::process::open_files(server.process_id());
    change(&server, &mut control, 256);
    let mut clients: Vec<RawClient> = (0..300).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert!(!client.call("INCR all").is_error()));
    change(&server, &mut control, 1);
    assert_eq!(control.call("GET all"), Value::bulk("300"));
    clients.iter_mut().for_each(|client| assert_eq!(client.call("PING").text(), "PONG"));
    let commands: u64 =
        control.info_field("stats", "total_commands_processed").expect("a number").parse().unwrap();
    assert!(commands > 600, "counts of ended threads are missing: {commands}");
    drop(clients);
    // Their notifiers stay open.
    let left = || braid_tests::process::open_files(server.process_id());
    assert!(wait_for_within(Duration::from_secs(10), || left() <= files + 256), "{} of {files}", left());
}

/// Background threads start from loops, each of which may be bound to one processor.
#[test]
fn background_threads_have_processors_of_their_own() {
    let list_of = |status: &str| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.map(|list| list.trim().to_owned()).expect("a list")
    };
    let all = list_of(&std::fs::read_to_string("/proc/self/status").expect("this process"));
    let first = all.split(['-', ',']).next().expect("a processor").to_owned();
    let mut arguments = vec!["--io-threads", "2", "--server-thread-affinity", "yes"];
    arguments.extend(["--bgsave_cpulist", &first, "--rdb-key-save-delay", "1000000"]);
    let server = TestServer::start(&arguments);
    if !server.is_braid() {
        return;
    }
    let list_of_thread = |name: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        let task = tasks.flatten().find(named)?;
        Some(list_of(&std::fs::read_to_string(task.path().join("status")).ok()?))
    };
    assert!(!list_of_thread("io_thd_1").expect("a loop").contains(['-', ',']), "the loop is bound");
    let mut client = server.connect();
    client.call("MSET a 1 b 2");
    client.call("BGSAVE");
    wait_for("the snapshot's thread", || list_of_thread("bgsave").as_ref() == Some(&first));
    client.ok("CONFIG SET rdb-key-save-delay 0 appendonly yes");
    wait_for("the append-only file's thread", || list_of_thread("aof").as_ref() == Some(&all));
}
