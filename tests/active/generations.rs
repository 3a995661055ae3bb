// SPDX-License-Identifier: BSD-3-Clause
//! New generations of the files: written while clients and peers continue, and interrupted by
//! kills.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::crash::kept;
use crate::{NEEDS_COPIES, bring_to_log, link, server, texts, wait_until_equal};
use braid_tests::{TestServer, Value, wait_for_within};
use rustix::process::Signal;

/// Number of initial keys, enough for a state that takes a while to write.
const KEYS: usize = 60_000;
/// Size in bytes of repeatedly overwritten values, and their number.
const LONG: usize = 8 << 10;
const LONG_KEYS: usize = 4_000;
/// Time limit for writing 64 MB of units.
const FILLED: Duration = Duration::from_secs(120);

/// The numbers of a client's acknowledged and sent writes.
struct Outcome {
    acknowledged: usize,
    sent: usize,
}

/// Writes until the server is gone or the client is stopped: a list in order, a counter, long
/// values, and new keys, of which every fourth one is deleted.
fn write(server: &TestServer, name: &str, ends: &AtomicBool) -> Outcome {
    const BURST: usize = 10;
    let mut client = server.connect();
    let long = "v".repeat(LONG);
    let mut outcome = Outcome { acknowledged: 0, sent: 0 };
    while !ends.load(Relaxed) {
        let one = |number: usize| {
            let key = number * 7 % LONG_KEYS;
            let brief = if number % 4 != 1 {
                format!("SET new:{name}:{number} x")
            } else {
                format!("DEL new:{name}:{}", number - 1)
            };
            format!(
                "RPUSH {name} {number}\r\nINCR counter\r\nSET long:{key} {long}\r\nINCR count:{key}\r\n{brief}\r\n"
            )
        };
        let lines: String = (outcome.sent..outcome.sent + BURST).map(one).collect();
        if client.try_send(lines.as_bytes()).is_err() {
            return outcome;
        }
        outcome.sent += BURST;
        for _ in 0..BURST {
            for _ in 0..5 {
                match client.try_read() {
                    Ok(Value::Error(error)) => panic!("{error:?}"),
                    Ok(_) => {}
                    Err(_) => return outcome,
                }
            }
            outcome.acknowledged += 1;
        }
    }
    outcome
}

/// The folder's files with this suffix.
fn files(folder: &Path, end: &str) -> Vec<String> {
    let entries = folder.read_dir().expect("a folder").filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("active-") && name.ends_with(end)).collect();
    names.sort();
    names
}

fn fill(server: &TestServer) {
    let mut client = server.connect();
    for first in (0..KEYS).step_by(1000) {
        let words: String = (first..first + 1000).map(|key| format!(" key:{key} value-{key}")).collect();
        client.ok(&format!("MSET{words}"));
    }
}

type Lists = Vec<(String, Outcome)>;

/// Asserts that acknowledged writes are present once and in order, and nothing that was not sent.
fn check_lists<'l>(server: &TestServer, lists: impl IntoIterator<Item = &'l (String, Outcome)>) {
    let mut client = server.connect();
    for (name, outcome) in lists {
        let held = texts(&client.call(&format!("LRANGE {name} 0 -1")));
        let count = held.len();
        assert!((outcome.acknowledged..=outcome.sent).contains(&count), "{count} of {name}");
        assert!(held.into_iter().eq((0..count).map(|number| number.to_string())), "{name}");
        for number in (1..outcome.acknowledged).map(|next| next - 1).filter(|number| number % 4 != 1) {
            let is_there = client.call(&format!("EXISTS new:{name}:{number}")) == Value::Integer(1);
            assert_eq!(is_there, number % 4 != 0, "new:{name}:{number}");
        }
    }
    for key in (0..KEYS).step_by(97) {
        assert_eq!(client.call(&format!("GET key:{key}")).text(), format!("value-{key}"));
    }
}

/// Also checks the counters: nothing was applied twice.
fn check_all(server: &TestServer, lists: &Lists) {
    check_lists(server, lists);
    let mut client = server.connect();
    let sum = |of: fn(&Outcome) -> usize| lists.iter().map(|(_, outcome)| of(outcome)).sum::<usize>();
    let bounds = sum(|outcome| outcome.acknowledged)..=sum(|outcome| outcome.sent);
    let mut number = |key: &str| match client.call(&format!("GET {key}")) {
        one if one.is_null() => 0,
        one => one.text().parse::<usize>().expect("a number"),
    };
    let counter = number("counter");
    assert!(bounds.contains(&counter), "{counter} is not in {bounds:?}");
    let held: usize =
        lists.iter().map(|(name, _)| server.connect().call(&format!("LLEN {name}"))).map(len).sum();
    // An increment may or may not have been the last operation before a kill.
    assert!(counter <= held && held <= counter + lists.len(), "{counter} increments, {held} elements");
    let counted: usize = (0..LONG_KEYS).map(|key| number(&format!("count:{key}"))).sum();
    assert!(counted <= counter && counter <= counted + lists.len(), "{counted} and {counter} increments");
}

fn len(reply: Value) -> usize {
    match reply {
        Value::Integer(len) => usize::try_from(len).expect("a length"),
        other => panic!("{other:?}"),
    }
}

/// Kills the server while a state is being written, twice, and once when it has just been
/// completed.
#[test]
fn a_generation_is_cut_short_by_kills() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &[]);
    let mut lists = Lists::new();
    let mut cut_short = 0;
    for round in 0..3 {
        let mut one = kept(1, &folder, &always);
        if round == 0 {
            fill(&one);
        }
        link(&one, &[two.port()]);
        link(&two, &[one.port()]);
        wait_until_equal(&[&one, &two]);
        let states = files(folder.path(), ".state");
        let is_written = || !files(folder.path(), ".tmp").is_empty();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let list = |number| format!("list:{round}:{number}");
            let start = |server, number| {
                let (name, ends) = (list(number), &ends);
                scope.spawn(move || write(server, &name, ends))
            };
            let (here, there) = ([start(&one, 0), start(&one, 1)], start(&two, 2));
            assert!(wait_for_within(FILLED, is_written), "no generation begins: {}", one.log());
            if round == 2 {
                // The previous state is deleted once the new one is valid.
                let counts = || {
                    let there = files(folder.path(), ".state");
                    !there.is_empty() && there.iter().all(|one| !states.contains(one))
                };
                assert!(wait_for_within(FILLED, counts), "the generation does not complete: {}", one.log());
            }
            one.signal(Signal::KILL);
            cut_short += usize::from(is_written());
            for (number, writer) in here.into_iter().enumerate() {
                lists.push((list(number), writer.join().expect("no panic")));
            }
            ends.store(true, Relaxed);
            lists.push((list(2), there.join().expect("no panic")));
        });
        one.wait();
        let one = kept(1, &folder, &always);
        // From its own files alone.
        check_lists(&one, lists.iter().filter(|(name, _)| !name.ends_with(":2")));
        link(&one, &[two.port()]);
        link(&two, &[one.port()]);
        wait_until_equal(&[&one, &two]);
        check_all(&one, &lists);
    }
    assert!(cut_short > 0, "all generations were complete");
}

/// A kill before a generation includes the copy: the copy is found among the logs. Directories in
/// place of the state files prevent new generations.
#[test]
fn a_full_copy_outlives_a_kill() {
    const COUNT: usize = 3_000;
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &NEEDS_COPIES);
    let fill = |server: &TestServer, name: &str| {
        let mut client = server.connect();
        // More than the peer keeps as units.
        for first in (0..COUNT).step_by(100) {
            let words: String =
                (first..first + 100).map(|key| format!(" {name}:{key} value-of-the-key-{key}")).collect();
            client.ok(&format!("MSET{words}"));
        }
        client.call("INCRBY counter 10");
        client.call(&format!("SADD set {name} both"));
    };
    let mut one = kept(1, &folder, &[]);
    fill(&one, "one");
    fill(&two, "two");
    two.connect().call("HSET hash field value");
    let blocks: Vec<_> = (1..20).map(|number| folder.path().join(format!("active-{number}.tmp"))).collect();
    blocks.iter().for_each(|path| std::fs::create_dir(path).expect("a folder"));
    bring_to_log(&two);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    wait_until_equal(&[&one, &two]);
    let merged = one.connect().info_field("active", "active_full_copies_merged");
    assert_eq!(merged.as_deref(), Some("1"), "{}", one.log());
    assert_eq!(files(folder.path(), ".copy").len(), 1);
    // Changes based on the copy, and a later write from the peer.
    let mut client = one.connect();
    assert_eq!(client.call("DEL two:1 hash"), Value::Integer(2));
    client.call("INCR counter");
    client.call("SREM set both");
    two.connect().ok("SET two:2 later");
    wait_until_equal(&[&one, &two]);
    one.signal(Signal::KILL);
    one.wait();
    blocks.iter().for_each(|path| std::fs::remove_dir(path).expect("it is empty"));
    let mut one = kept(1, &folder, &[]);
    // From its own files alone.
    let mut client = one.connect();
    assert_eq!(client.call("DBSIZE"), Value::Integer(2 * COUNT as i64 + 1), "{}", one.log());
    assert_eq!(
        texts(&client.call("MGET one:7 two:7 two:1 two:2 counter")),
        ["value-of-the-key-7", "value-of-the-key-7", "", "later", "21"],
        "{}",
        one.log()
    );
    let mut members = texts(&client.call("SMEMBERS set"));
    members.sort();
    assert_eq!(members, ["one", "two"]);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    client.call("INCR counter");
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("GET counter").text(), "22");
    // A clean shutdown writes a generation.
    one.signal(Signal::TERM);
    one.wait();
    assert_eq!(files(folder.path(), ".copy"), [] as [&str; 0]);
}
