// SPDX-License-Identifier: BSD-3-Clause
//! Rates, recall and memory of a graph: `cargo bench -p braid-vectors -- [vectors] [dimension]
//! [spread]`. Times are processor time.

use braid_vectors::{Graph, Metric, Quantisation, Shape};

fn normal(random: &mut fastrand::Rng) -> f32 {
    (0..4).map(|_| random.f32() - 0.5).sum::<f32>() * 1.732
}

/// Processor time of this thread, in seconds.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
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
        let start = now();
        for vector in &vectors {
            let level = graph.level_from(levels.u64(..));
            graph.add(vector, 0, 200, level).expect("room");
        }
        let us = |start: f64, times: usize| (now() - start) * 1e6 / times as f64;
        let bytes = graph.memory_bytes() as f64 / count as f64;
        println!("{quantisation:?}: add {:.0} us, {bytes:.0} bytes a vector", us(start, count));
        let encoded: Vec<_> =
            queries.iter().map(|vector| graph.query(vector).expect("its dimension")).collect();
        let truths: Vec<_> = encoded.iter().map(|query| graph.scan(query, 10)).collect();
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
