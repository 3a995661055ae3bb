// SPDX-License-Identifier: BSD-3-Clause
//! The whole request path in process, without sockets: parse, prepare, prefetch, execute, encode
//! the reply; on one thread and on two.
//!
//! `cargo bench -p braid-threading`. Each line shows the work, the threads, nanoseconds per
//! command and thread, million commands per second over all threads, and the ratio to one thread.
//! Batches of 64 requests, 16-byte keys, 32-byte values, 300,000 keys. The last lines compare GET
//! with and without sampling of hot keys, alternating. Figures are the best of several rounds: on
//! a machine with other work, that is the least disturbed round.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use braid_clients::{Address, ClientRecord};
use braid_config::Config;
use braid_executor::engine::Start;
use braid_executor::engine::call::Others;
use braid_executor::{Engine, Prepared, Session, Worker, dispatch};
use braid_resp::parse::{Limits, RequestParser, Span, Step};
use braid_resp::reply::ReplyBuffer;
use braid_telemetry::hot_keys::{Options, Totals};
use smallvec::SmallVec;

#[global_allocator]
static ALLOCATOR: braid_base::alloc::CountingAllocator = braid_base::alloc::CountingAllocator;

const KEYS: u64 = 300_000;
const BATCH: usize = 64;
/// Keys from here on have long values.
const LONG_KEYS: u64 = 1_000_000;
const ROUND: Duration = Duration::from_millis(400);
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
enum Work {
    GetRandom,
    SetRandom,
    Mixed,
    GetHot,
    /// One key with a value of 4 KiB.
    GetHotLong,
    /// One key per thread.
    GetOwn,
    GetOwnLong,
    Script,
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Pipelines of 64 requests; enough different ones that keys do not soon repeat.
fn pipelines(work: Work, seed: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let get = |number| format!("*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", key(number));
    let set = |number| format!("*3\r\n$3\r\nSET\r\n$16\r\n{}\r\n$32\r\n{:032}\r\n", key(number), number);
    // The text shows that the script uses only its declared keys.
    let script = |number| {
        let text = "local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])";
        let (key, count) = (key(number), format!("cnt:{number:012}"));
        format!(
            "*6\r\n$4\r\nEVAL\r\n${}\r\n{text}\r\n$1\r\n2\r\n$16\r\n{key}\r\n$16\r\n{count}\r\n$32\r\n{number:032}\r\n",
            text.len()
        )
    };
    let mut request = |index: usize| match work {
        Work::GetRandom => get(random.u64(0..KEYS)),
        Work::SetRandom => set(random.u64(0..KEYS)),
        Work::Mixed if index.is_multiple_of(10) => set(random.u64(0..KEYS)),
        Work::Mixed => get(random.u64(0..KEYS)),
        Work::GetHot => get(7),
        Work::GetOwn => get(7 + seed),
        Work::GetHotLong => get(LONG_KEYS),
        Work::GetOwnLong => get(LONG_KEYS + seed),
        Work::Script => script(random.u64(0..KEYS)),
    };
    (0..2000).map(|_| (0..BATCH).map(&mut request).collect::<String>().into_bytes()).collect()
}

/// One thread's connection to the engine.
struct Runner {
    engine: Arc<Engine>,
    worker: Worker,
    session: Session,
    reply: ReplyBuffer,
    parser: RequestParser,
    spans: Vec<Span>,
}

impl Runner {
    fn new(engine: &Arc<Engine>, slot: usize) -> Runner {
        let record = ClientRecord::new(slot as u64, 0, Address::Unknown, Address::Unknown, 0);
        Runner {
            worker: engine.worker(slot),
            engine: Arc::clone(engine),
            session: Session::new(Arc::new(record), &engine.attention, &engine.acl),
            reply: ReplyBuffer::default(),
            parser: RequestParser::default(),
            spans: Vec::new(),
        }
    }

    fn run(&mut self, pipeline: &[u8]) {
        let engine = &*self.engine;
        let limits = Limits { authenticated: true, ..Limits::default() };
        let mut requests: Vec<(SmallVec<[&[u8]; 4]>, Prepared)> = Vec::with_capacity(BATCH);
        let mut at = 0;
        while at < pipeline.len() {
            self.spans.clear();
            let Step::Request { consumed } = self.parser.next(&pipeline[at..], &limits, &mut self.spans)
            else {
                panic!("incomplete request");
            };
            let args: SmallVec<[&[u8]; 4]> =
                self.spans.iter().map(|span| &pipeline[at..][span.range()]).collect();
            let prepared = dispatch::prepare(engine, &args);
            requests.push((args, prepared));
            at += consumed;
        }
        engine.keyspace.gate.enter(self.worker.context.slot);
        self.worker.begin_batch();
        for group in requests.chunks(32) {
            group.iter().for_each(|(_, prepared)| engine.keyspace.prefetch_bucket(0, prepared.hash));
            group.iter().for_each(|(_, prepared)| engine.keyspace.prefetch_entry(0, prepared.hash));
            for (args, prepared) in group {
                let (worker, session, reply) = (&mut self.worker, &mut self.session, &mut self.reply);
                let (args, blobs, others) = (&args[..], &[][..], Others::default());
                let mut request = dispatch::Request { engine, worker, session, reply, args, blobs, others };
                dispatch::execute(&mut request, *prepared);
            }
        }
        engine.keyspace.gate.leave(self.worker.context.slot);
        self.worker.context.limbo.reclaim();
        assert!(self.reply.len() >= BATCH * 4, "a reply per request");
        self.reply.clear();
    }
}

/// An engine for this number of threads, filled with keys.
fn filled(threads: usize) -> Arc<Engine> {
    let config = Config::new();
    config.assign("io-threads", &[&threads.to_string()]).expect("a number of threads");
    let engine =
        braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).expect("an engine");
    let mut filler = Runner::new(&engine, 0);
    let numbers: Vec<u64> = (0..KEYS).collect();
    for chunk in numbers.chunks(BATCH) {
        let set =
            |&number: &u64| format!("*3\r\n$3\r\nSET\r\n$16\r\n{}\r\n$32\r\n{number:032}\r\n", key(number));
        filler.run(chunk.iter().chain(chunk).take(BATCH).map(set).collect::<String>().as_bytes());
    }
    let long = |number: u64| {
        let key = key(LONG_KEYS + number % 2);
        format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$4096\r\n{number:04096}\r\n")
    };
    filler.run((0..BATCH as u64).map(long).collect::<String>().as_bytes());
    drop(filler);
    engine
}

/// Nanoseconds of processor time of the calling thread so far (Linux).
fn processor_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux provides schedstat");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Nanoseconds of processor time per GET without and with sampling of hot keys: the best of many
/// short, alternating rounds.
fn measure_sampling(sample: u32) -> (f64, f64) {
    let engine = filled(1);
    let mut runner = Runner::new(&engine, 0);
    let pipelines = pipelines(Work::GetRandom, 0);
    let mut best = [f64::MAX; 2];
    for round in 0..8 * ROUNDS {
        let is_on = round % 2 == 1;
        if is_on {
            let options = Options { cpu: true, net: true, count: 10, sample, duration_ms: None };
            assert!(engine.telemetry.hot_keys.start(&engine.telemetry.threads, options, |threads| {
                Totals::of(threads, Default::default())
            }));
        }
        let (start, mut commands) = (processor_nanos(), 0);
        while commands < 50 * 64 * BATCH {
            for pipeline in pipelines.iter().skip(commands / BATCH % 1900).take(50) {
                runner.run(pipeline);
                commands += BATCH;
            }
        }
        let nanos = (processor_nanos() - start) as f64 / commands as f64;
        best[usize::from(is_on)] = best[usize::from(is_on)].min(nanos);
        if is_on {
            let report = engine.telemetry.hot_keys.report(&engine.telemetry.threads).expect("sampled");
            assert!(!report.by_cpu.is_empty() && engine.telemetry.hot_keys.stop(&engine.telemetry.threads));
        }
    }
    (best[0], best[1])
}

/// Combined commands per second of `threads` threads, best round.
fn measure(threads: usize, work: Work) -> f64 {
    let engine = filled(threads);
    let barrier = Barrier::new(threads);
    let rounds: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|slot| {
                let (engine, barrier) = (&engine, &barrier);
                scope.spawn(move || {
                    braid_base::alloc::register_thread(slot + 1);
                    let mut runner = Runner::new(engine, slot);
                    let pipelines = pipelines(work, slot as u64);
                    let mut rates = Vec::new();
                    for _ in 0..ROUNDS {
                        barrier.wait();
                        let (start, mut commands) = (Instant::now(), 0);
                        while start.elapsed() < ROUND {
                            for pipeline in pipelines.iter().skip(commands / BATCH % 1900).take(50) {
                                runner.run(pipeline);
                                commands += BATCH;
                            }
                        }
                        rates.push(commands as f64 / start.elapsed().as_secs_f64());
                    }
                    rates
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    (0..ROUNDS).map(|round| rounds.iter().map(|rates| rates[round]).sum::<f64>()).fold(0.0, f64::max)
}

fn main() {
    // `cargo test` runs benches too, without this argument; then nothing is measured.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("{:<24}{:>8}{:>16}{:>14}{:>8}", "work", "threads", "ns per command", "M commands/s", "ratio");
    let works = [
        ("GET random keys", Work::GetRandom),
        ("SET random keys", Work::SetRandom),
        ("90% GET, 10% SET", Work::Mixed),
        ("GET one key", Work::GetHot),
        ("GET one key per thread", Work::GetOwn),
        ("GET one key, 4 KiB", Work::GetHotLong),
        ("... one per thread", Work::GetOwnLong),
        ("EVAL, three calls", Work::Script),
    ];
    for (name, work) in works {
        let one = measure(1, work);
        for threads in [1, 2] {
            let rate = if threads == 1 { one } else { measure(threads, work) };
            let nanos = 1e9 * threads as f64 / rate;
            println!("{name:<24}{threads:>8}{nanos:>16.1}{:>14.2}{:>8.2}", rate / 1e6, rate / one);
        }
    }
    println!("{:<24}{:>16}{:>16}{:>8}", "GET, hot keys sampled", "ns without", "ns with", "ratio");
    for sample in [100, 10, 1] {
        let (off, on) = measure_sampling(sample);
        println!("{:<24}{off:>16.1}{on:>16.1}{:>8.3}", format!("one in {sample}"), on / off);
    }
}
