// SPDX-License-Identifier: BSD-3-Clause
//! Clients that change a primary's dataset in all kinds of ways during a test.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::Duration;

use braid_tests::{RawClient, TestServer, wait_for};

/// Pause between two steps of a writer. Without it, on a busy machine, writers starve the
/// servers, and the more they have written, the longer full syncs and rewrites take.
const BREAK: Duration = Duration::from_millis(1);

/// Threads that write until stopped.
pub struct Writers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Starts this many writing threads, each with a random generator of its own.
    pub fn start(server: &TestServer, threads: usize, random: &mut fastrand::Rng) -> Writers {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..threads)
            .map(|number| {
                let (mut client, mut random) = (server.connect(), random.fork());
                let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
                std::thread::spawn(move || {
                    while !stop.load(Relaxed) {
                        write(&mut client, number, &mut random);
                        done.fetch_add(1, Relaxed);
                        std::thread::sleep(BREAK);
                    }
                })
            })
            .collect();
        Writers { stop, done, threads }
    }

    /// Waits until this many more steps are completed.
    #[track_caller]
    pub fn go_on(&self, steps: u64) {
        let from = self.done.load(Relaxed);
        wait_for("the writers make progress", || self.done.load(Relaxed) >= from + steps);
    }

    /// Stops the threads.
    #[track_caller]
    pub fn stop(self) {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the writer did not panic"));
    }
}

/// Related requests of a thread with this number.
pub fn requests(number: usize, random: &mut fastrand::Rng) -> Vec<String> {
    let key = |random: &mut fastrand::Rng| format!("w:{}", random.u32(..300));
    let (a, b) = (key(random), key(random));
    match random.u32(..14) {
        0 => vec![format!("SET s{a} {}", random.u64(..))],
        1 => vec![format!("INCRBY n{a} {}", random.i32(-9..9))],
        2 => vec![
            format!("RPUSH l{a} {} {}", random.u32(..99), random.u32(..99)),
            format!("LTRIM l{a} -40 -1"),
        ],
        3 => vec![
            "MULTI".into(),
            format!("INCR n{a}"),
            format!("HINCRBY h{b} f{} 1", random.u32(..20)),
            format!("SADD x{b} {}", random.u32(..99)),
            "EXEC".into(),
        ],
        4 => vec![format!("SET s{a} gone PX {}", random.u32(1..50))],
        5 => vec![format!(
            "EVAL \"redis.call('INCR', KEYS[1]) redis.call('LPUSH', KEYS[2], redis.call('GET', KEYS[1])) return 1\" 2 n{a} l{b}"
        )],
        6 => vec![format!("DEL s{a} n{b} l{a}")],
        7 => vec![format!("ZINCRBY z{a} 1.5 m{}", random.u32(..30)), format!("ZPOPMIN z{b}")],
        8 => vec![format!("XADD t{a} MAXLEN ~ 100 * f {}", random.u32(..))],
        9 => vec![format!("SPOP x{a}"), format!("RENAME w{number} w{number}x"), format!("SET w{number} 1")],
        10 => vec![
            format!("SELECT {}", 1 + number),
            format!("SET s{a} other"),
            format!("MSET n{a} 1 n{b} 2"),
            "SELECT 0".into(),
        ],
        11 => vec![format!("SETRANGE s{a} 5 {}", "x".repeat(random.usize(1..2000)))],
        12 => vec![format!("APPEND s{b} {}", random.u32(..)), format!("EXPIRE s{b} 100")],
        _ => vec![
            format!("HSET h{a} f{} {}", random.u32(..400), random.u32(..)),
            format!("COPY h{a} c{b} REPLACE"),
        ],
    }
}

/// Performs one step: sends some requests, none of which may fail.
fn write(client: &mut RawClient, number: usize, random: &mut fastrand::Rng) {
    let lines = requests(number, random);
    for line in &lines {
        client.send(&braid_tests::request(line));
    }
    for line in &lines {
        let reply = client.read();
        let is_fine = !reply.is_error() || reply.text().starts_with("ERR no such key");
        // INCR may find a text that APPEND has made, but nothing else.
        assert!(is_fine || reply.text().starts_with("ERR value is not"), "{line}: {reply}");
    }
}
