// SPDX-License-Identifier: BSD-3-Clause
//! Rates, recall and memory of a graph: `cargo bench -p braid-vectors -- [vectors] [dimension]
//! [spread]`. Times are processor time.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use braid_vectors::{Graph, Metric, Quantisation, Shape, SharedGraph};
use rustix::time::{ClockId, clock_gettime};

fn normal(random: &mut fastrand::Rng) -> f32 {
    (0..4).map(|_| random.f32() - 0.5).sum::<f32>() * 1.732
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor time of this thread, in seconds.
fn now() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Adds from several threads as VADD does: each looks for the place of its vector without a lock.
fn add_from_threads(shape: Shape, vectors: &[Vec<f32>], threads: usize) {
    let shared = RwLock::new(SharedGraph::new(Graph::new(shape).expect("a valid shape")));
    let (next, alone) = (AtomicUsize::new(0), AtomicU64::new(0));
    let (wall, processor) = (seconds(ClockId::Monotonic), seconds(ClockId::ProcessCPUTime));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(vector) = vectors.get(next.fetch_add(1, Relaxed)) {
                    let (guest, level, len) = {
                        let graph = shared.read().expect("no panic");
                        let level = graph.level_from(fastrand::u64(..));
                        (graph.visit(), level, graph.len() as u32)
                    };
                    let near = guest.map(|guest| guest.look_around(vector, 200, level));
                    let mut near = near.transpose().expect("its dimension");
                    let mut graph = shared.write().expect("no panic");
                    let begin = now();
                    if let Some(near) = &mut near {
                        near.note_added(len..graph.len() as u32);
                    }
                    graph.add_near(vector, 0, 200, level, near.as_ref()).expect("room");
                    alone.fetch_add(((now() - begin) * 1e9) as u64, Relaxed);
                }
            });
        }
    });
    let us = |start: f64, clock| (seconds(clock) - start) * 1e6 / vectors.len() as f64;
    let alone = alone.into_inner() as f64 / 1e3 / vectors.len() as f64;
    let (wall, processor) = (us(wall, ClockId::Monotonic), us(processor, ClockId::ProcessCPUTime));
    println!(
        "  {threads} threads: add {processor:.1} us, {alone:.1} of them alone; an addition each {wall:.1} us"
    );
}

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<f64>().ok());
    let count = numbers.next().unwrap_or(20_000.0) as usize;
    let dim = numbers.next().unwrap_or(128.0) as usize;
    let spread = numbers.next().unwrap_or(0.5) as f32;
    let mut random = fastrand::Rng::with_seed(46);
    let centres: Vec<Vec<f32>> = (0..100).map(|_| (0..dim).map(|_| normal(&mut random)).collect()).collect();
    let mut any = || -> Vec<f32> {
        let centre = &centres[random.usize(..centres.len())];
        centre.iter().map(|x| x + normal(&mut random) * spread).collect()
    };
    let vectors: Vec<_> = (0..count).map(|_| any()).collect();
    let queries: Vec<_> = (0..1000).map(|_| any()).collect();
    for quantisation in [Quantisation::I8, Quantisation::F32, Quantisation::Bin] {
        let shape = Shape { metric: Metric::Cosine, quantisation, dim: dim as u32, links: 16 };
        let mut graph = Graph::new(shape).expect("a valid shape");
        let mut levels = fastrand::Rng::with_seed(1);
        let (start, mut searching) = (now(), 0.0);
        for vector in &vectors {
            let level = graph.level_from(levels.u64(..));
            let before = now();
            let near = graph.look_around(vector, 200, level).expect("its dimension");
            searching += now() - before;
            graph.add_near(vector, 0, 200, level, Some(&near)).expect("room");
        }
        let us = |start: f64, times: usize| (now() - start) * 1e6 / times as f64;
        let bytes = graph.memory_bytes() as f64 / count as f64;
        let (all, searching) = (us(start, count), searching * 1e6 / count as f64);
        println!(
            "{quantisation:?}: add {all:.0} us, {searching:.0} of them searching, {bytes:.0} bytes a vector"
        );
        let encoded: Vec<_> =
            queries.iter().map(|vector| graph.query(vector).expect("its dimension")).collect();
        let truths: Vec<_> = encoded.iter().map(|query| graph.scan(query, 10)).collect();
        for threads in [1, 2] {
            add_from_threads(shape, &vectors, threads);
        }
        for ef in [10, 20, 40, 64, 100, 200, 400] {
            let start = now();
            let found: Vec<_> = encoded.iter().map(|query| graph.search(query, 10, ef)).collect();
            let time = us(start, queries.len());
            let shares = found.iter().zip(&truths).map(|(found, truth)| {
                let farthest = truth.last().expect("vectors").distance;
                found.iter().filter(|hit| hit.distance <= farthest).count() as f64 / 10.0
            });
            let shares: Vec<f64> = shares.collect();
            let (mean, least) =
                (shares.iter().sum::<f64>() / 1000.0, shares.iter().copied().fold(1.0, f64::min));
            println!("  ef {ef}: search {time:.1} us, recall {mean:.4}, least {least:.1}");
        }
    }
}
