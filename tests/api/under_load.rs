// SPDX-License-Identifier: BSD-3-Clause
//! Clients that send as much as they can: they move from busy threads to idle ones, are paused,
//! disconnect. No reply may be lost, duplicated or reordered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value, request, wait_for, wait_for_within};

/// Rounds per pipeline. A round has INCR and ECHO, a transaction, and a command on several keys.
const ROUNDS: usize = 60;

/// Sends pipelines and checks every reply, until stopped. Returns the number of increments of its
/// key.
pub fn keep_busy(client: &mut RawClient, number: usize, stop: &AtomicBool) -> i64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut pipeline = Vec::new();
        for round in 0..ROUNDS {
            let commands = [
                format!("INCR busy:{number}"),
                format!("ECHO {number}:{count}:{round}"),
                "MULTI".into(),
                format!("INCR busy:{number}"),
                "EXEC".into(),
                format!("MGET busy:{number} nothing:{number}"),
            ];
            commands.iter().for_each(|command| pipeline.extend_from_slice(&request(command)));
        }
        client.send(&pipeline);
        let before = count;
        for round in 0..ROUNDS {
            assert_eq!(client.read(), Value::Integer(count + 1), "client {number}");
            assert_eq!(client.read(), Value::Bulk(format!("{number}:{before}:{round}").into_bytes()));
            assert_eq!(client.read(), Value::Simple(b"OK".to_vec()));
            assert_eq!(client.read(), Value::Simple(b"QUEUED".to_vec()));
            assert_eq!(client.read(), Value::Array(vec![Value::Integer(count + 2)]));
            count += 2;
            let both = vec![Value::Bulk(count.to_string().into_bytes()), Value::NullBulk];
            assert_eq!(client.read(), Value::Array(both));
        }
    }
    count
}

/// The thread that serves each client, by client ID.
fn threads_of(control: &mut RawClient) -> BTreeMap<i64, String> {
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let list = control.call("CLIENT LIST").text();
    list.lines().map(|line| (field(line, "id=").parse().unwrap_or(0), field(line, "io-thread="))).collect()
}

#[test]
fn a_busy_thread_hands_connections_over() {
    let server = TestServer::start(&["--io-threads", "3"]);
    if !server.is_braid() {
        println!("skipped: only Braid reports the thread of a client");
        return;
    }
    let mut control = server.connect();
    if control.info("threads").contains("threading_model:fanout") {
        println!("skipped: in the model fanout one thread polls all clients");
        return;
    }
    let mut clients: Vec<(i64, RawClient)> = (0..24)
        .map(|_| {
            let mut client = server.connect();
            let Value::Integer(id) = client.call("CLIENT ID") else { panic!("not an ID") };
            (id, client)
        })
        .collect();
    // Keep only the clients of a single thread. They all have the same load, so in the end it is
    // spread evenly over the threads.
    let threads = threads_of(&mut control);
    let busy = threads[&clients[0].0].clone();
    clients.retain(|(id, _)| threads[id] == busy);
    assert!(clients.len() >= 6, "{threads:?}");
    clients.truncate(6);
    let ids: Vec<i64> = clients.iter().map(|&(id, _)| id).collect();
    let stop = AtomicBool::new(false);
    let (spread, counts) = std::thread::scope(|scope| {
        let workers: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(number, (_, client))| {
                let stop = &stop;
                scope.spawn(move || keep_busy(client, number, stop))
            })
            .collect();
        let spread = wait_for_within(Duration::from_secs(15), || {
            let threads = threads_of(&mut control);
            ids.iter().map(|id| &threads[id]).collect::<BTreeSet<_>>().len() > 1
        });
        // Let the moves continue for a while.
        let until = Instant::now() + Duration::from_millis(700);
        wait_for_within(Duration::from_secs(5), || Instant::now() > until);
        stop.store(true, Ordering::Relaxed);
        (spread, workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>())
    });
    for (number, count) in counts.into_iter().enumerate() {
        let count = count.expect("every reply arrived once, in order");
        assert_eq!(control.call(&format!("GET busy:{number}")), Value::Bulk(count.to_string().into_bytes()));
    }
    // In the model handoff, the main thread may be the only busy one; then moving clients gains
    // nothing.
    let main_executes = control.info("threads").contains("threading_model:handoff");
    assert!(
        spread || main_executes,
        "no client was moved: {:?}\n{}",
        threads_of(&mut control),
        control.info("threads")
    );
    // The clients are served, listed and killed on their current threads.
    for (id, mut client) in clients {
        assert_eq!(client.call("PING"), Value::Simple(b"PONG".to_vec()));
        assert_eq!(control.call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
        assert!(client.try_read().is_err(), "the connection is closed");
    }
    wait_for("killed clients to be removed", || {
        let left = threads_of(&mut control);
        ids.iter().all(|id| !left.contains_key(id))
    });
}

/// Runs busy clients while `meddle` runs; then all of them must have received all of their
/// replies.
fn busy_during(server: &TestServer, meddle: impl FnOnce()) {
    const CLIENTS: usize = 6;
    let stop = AtomicBool::new(false);
    let counts: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (stop, mut client) = (&stop, server.connect());
                scope.spawn(move || keep_busy(&mut client, number, stop))
            })
            .collect();
        meddle();
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("every reply arrived")).collect()
    });
    let mut control = server.connect();
    for (number, count) in counts.into_iter().enumerate() {
        assert_eq!(control.call(&format!("GET busy:{number}")), Value::Bulk(count.to_string().into_bytes()));
    }
}

#[test]
fn clients_resume_after_every_pause() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let mut control = server.connect();
    busy_during(&server, || {
        // Pauses ended explicitly at all possible moments, and by their timeout.
        for round in 0..300 {
            let kind = if round % 2 == 0 { "WRITE" } else { "ALL" };
            let length = if round % 5 == 0 { 1 } else { 1000 };
            assert_eq!(control.call(&format!("CLIENT PAUSE {length} {kind}")), Value::ok());
            if length == 1000 {
                assert_eq!(control.call("CLIENT UNPAUSE"), Value::ok());
            }
        }
    });
}

#[test]
fn disconnected_or_killed_clients_affect_no_other_client() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let mut control = server.connect();
    busy_during(&server, || {
        for round in 0..200 {
            let mut client = server.connect();
            let Value::Integer(id) = client.call("CLIENT ID") else { panic!("not an ID") };
            let mut pipeline = Vec::new();
            for _ in 0..100 {
                pipeline.extend_from_slice(&request("MSET left:1 a left:2 b"));
                pipeline.extend_from_slice(&request("MGET left:1 left:2"));
            }
            if round % 4 == 0 {
                pipeline.extend_from_slice(&request("BLPOP never 0"));
            }
            client.send(&pipeline);
            if round % 2 == 0 {
                control.call(&format!("CLIENT KILL ID {id}"));
            }
        }
    });
    wait_for("all disconnected clients to be removed", || {
        control.info_field("clients", "connected_clients").as_deref() == Some("1")
    });
}
