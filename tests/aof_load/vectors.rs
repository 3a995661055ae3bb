// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets survive a restart: after a kill during changes, after a rewrite in either form, and
//! after a save; and the links are then those from before.

use std::collections::BTreeMap;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value, request, wait_for};

use super::restarts::Restarts;
use super::{DataFolder, rewrite};

/// Adds, replaces and removes elements of a plain and of a projected set.
fn change(client: &mut RawClient, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let values = format!("{} {} {} {}", number % 7, number % 11, number % 13, 1.5 - f64::from(number));
        for command in [
            format!("VADD v VALUES 4 {values} e{number} SETATTR '{{\"n\":{number}}}'"),
            format!("VADD v VALUES 4 2 1 {} 3 e{}", number % 5, number / 2),
            format!("VADD p REDUCE 3 VALUES 4 {values} e{number} NOQUANT M 4"),
            format!("VSETATTR v e{} text{number}", number / 3),
            format!("VREM v e{}", number / 4),
        ] {
            let reply = client.call(&command);
            assert!(!reply.is_error(), "{command}: {reply}");
        }
    }
}

/// What there is to see of both sets.
fn look(client: &mut RawClient) -> Vec<String> {
    let mut seen = vec![client.call("DEBUG DIGEST-VALUE v p").to_string()];
    for number in 0..90 {
        for command in [
            format!("VLINKS v e{number}"),
            format!("VGETATTR v e{number}"),
            format!("VEMB p e{number}"),
            format!("VLINKS p e{number} WITHSCORES"),
            format!("VSIM p VALUES 4 1 {number} 2 3 WITHSCORES"),
        ] {
            seen.push(client.call(&command).to_string());
        }
    }
    seen
}

#[test]
fn vector_sets_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        change(&mut client, 0..60);
        let before = look(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(look(&mut client), before);
        rewrite(&mut client);
        change(&mut client, 60..90);
        let before = look(&mut client);
        drop(server);
        let (_server, mut client) = restarts.start();
        assert_eq!(look(&mut client), before);
        client.ok("DEBUG RELOAD");
        assert_eq!(look(&mut client), before);
    }
}

/// Elements of each key, with their attributes.
type Model = BTreeMap<&'static str, BTreeMap<u32, Option<u32>>>;

/// The keys, and what their vectors are added with.
const KEYS: [(&str, &str, &str); 3] =
    [("v", "", "Q8"), ("p", "REDUCE 5 ", "NOQUANT M 5"), ("b", "", "BIN EF 300")];
const STEPS_AT_ONCE: usize = 100;

/// A random command and the reply that it must have.
fn step(random: &mut fastrand::Rng, model: &mut Model, range: u32) -> (String, Value) {
    let (key, reduce, options) = KEYS[random.usize(..KEYS.len())];
    let (id, set) = (random.u32(..range), model.entry(key).or_default());
    let (command, reply) = match random.u32(..100) {
        0..55 => {
            let values: Vec<String> = (0..8).map(|_| random.i32(-50..51).to_string()).collect();
            let attribute = random.bool().then(|| random.u32(..1000));
            let with = attribute.map(|n| format!(" SETATTR '{{\"n\":{n}}}'")).unwrap_or_default();
            let before = set.insert(id, attribute);
            if let (Some(before), None) = (before, attribute) {
                set.insert(id, before);
            }
            let vector = values.join(" ");
            (format!("VADD {key} {reduce}VALUES 8 {vector} e{id} {options}{with}"), before.is_none())
        }
        55..90 => (format!("VREM {key} e{id}"), set.remove(&id).is_some()),
        90..99 => {
            let known = set.get_mut(&id).map(|attribute| *attribute = Some(id));
            (format!("VSETATTR {key} e{id} '{{\"n\":{id}}}'"), known.is_some())
        }
        _ if random.u8(..20) == 0 => {
            let was_there = !set.is_empty();
            set.clear();
            (format!("DEL {key}"), was_there)
        }
        _ => (format!("EXISTS {key}"), !set.is_empty()),
    };
    (command, Value::Integer(i64::from(reply)))
}

/// Compares a server with the model; returns its digest.
fn compare(client: &mut RawClient, model: &Model, range: u32) -> Value {
    for (key, set) in model {
        assert_eq!(client.call(&format!("VCARD {key}")), Value::Integer(set.len() as i64));
        for id in (0..range).step_by(range as usize / 40 + 1) {
            let found = client.call(&format!("VISMEMBER {key} e{id}"));
            assert_eq!(found, Value::Integer(i64::from(set.contains_key(&id))), "{key} e{id}");
            let Some(attribute) = set.get(&id) else { continue };
            let found = client.call(&format!("VGETATTR {key} e{id}"));
            let expected = attribute.map(|n| format!("{{\"n\":{n}}}"));
            assert_eq!(found.text(), expected.unwrap_or_default(), "{key} e{id}");
            let found = client.call(&format!("VSIM {key} ELE e{id} COUNT 1 WITHSCORES"));
            let found = found.elements().expect("an element and its score");
            assert!(found[1].text().parse::<f64>().is_ok_and(|score| score > 0.99), "{key} e{id}: {found:?}");
        }
    }
    client.call("DEBUG DIGEST")
}

/// The links of all elements.
fn links(client: &mut RawClient, model: &Model) -> Vec<String> {
    let all = model.iter().flat_map(|(key, set)| set.keys().map(move |id| format!("VLINKS {key} e{id}")));
    let all: Vec<String> = all.collect();
    client.send(&all.iter().map(|line| request(line)).collect::<Vec<_>>().concat());
    all.iter().map(|_| client.read().to_string()).collect()
}

/// Random steps with kills, reloads and rewrites in between, on a server with a replica. Nightly
/// runs have a million of them.
#[test]
fn random_steps_with_restarts_and_a_replica() {
    if !is_braid() {
        return;
    }
    let steps = number("BRAID_VECTOR_STEPS", 12_000) as usize;
    let mut random = source("vector sets");
    let place = DataFolder::new();
    let arguments = ["--appendfsync", "always", "--enable-debug-command", "yes"];
    let replica = TestServer::start(&["--enable-debug-command", "yes", "--save", ""]);
    let mut replica_client = replica.connect();
    let (mut server, mut model) = (place.start(&arguments), Model::new());
    let mut client = server.connect();
    // A life is short: replaying the file of some of them takes seconds, on a busy machine too.
    let lives = (steps / 1000).max(8);
    let per_life = steps / lives;
    for life in 0..lives {
        replica_client.ok(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
        // Sets are small at times, and then grow.
        let range = [20, 200, 1500, 400][life % 4];
        for _ in 0..per_life / STEPS_AT_ONCE {
            let all: Vec<_> = (0..STEPS_AT_ONCE).map(|_| step(&mut random, &mut model, range)).collect();
            client.send(&all.iter().map(|(command, _)| request(command)).collect::<Vec<_>>().concat());
            for (command, expected) in &all {
                assert_eq!(client.read(), *expected, "{command}");
            }
        }
        let digest = compare(&mut client, &model, range);
        wait_for("the replica to have everything", || replica_client.call("DEBUG DIGEST") == digest);
        compare(&mut replica_client, &model, range);
        let before = links(&mut client, &model);
        match life % 4 {
            0 => client.ok("DEBUG RELOAD"),
            1 => client.ok("DEBUG LOADAOF"),
            2 => {
                rewrite(&mut client);
            }
            _ => {}
        }
        // Dropping the server kills it.
        drop(server);
        server = place.start(&arguments);
        client = server.connect();
        assert_eq!(compare(&mut client, &model, range), digest);
        assert_eq!(links(&mut client, &model), before, "life {life}");
    }
}
