// SPDX-License-Identifier: BSD-3-Clause
//! Vectors to add and to search for, and the true nearest ones.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::options::Options;

/// Two similarities differ if they are this far apart.
const EPSILON: f32 = 1e-6;

/// Vectors of length 1, one after the other.
pub struct Vectors {
    pub dim: usize,
    values: Vec<f32>,
}

impl Vectors {
    fn new(dim: usize) -> Vectors {
        Vectors { dim, values: Vec::new() }
    }

    pub fn count(&self) -> usize {
        self.values.len() / self.dim
    }

    pub fn get(&self, index: usize) -> &[f32] {
        &self.values[index * self.dim..][..self.dim]
    }

    /// Adds a vector, scaled to length 1.
    fn push(&mut self, vector: &[f32]) {
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        let scale = if norm > 0.0 { norm.recip() } else { 1.0 };
        self.values.extend(vector.iter().map(|x| x * scale));
    }
}

/// A number of the normal distribution (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f32 {
    let (radius, angle) = (1.0 - random.f32(), random.f32() * std::f32::consts::TAU);
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

/// The vectors to add, and the queries.
///
/// # Errors
/// If a file cannot be read or has too few vectors.
pub fn make(options: &Options) -> Result<(Vectors, Vectors), String> {
    if let Some(path) = &options.data {
        return read(path, options);
    }
    let mut random = fastrand::Rng::with_seed(options.seed);
    let centres: Vec<Vec<f32>> =
        (0..options.clusters).map(|_| (0..options.dim).map(|_| normal(&mut random)).collect()).collect();
    let mut some = |count: usize| {
        let mut vectors = Vectors::new(options.dim);
        for _ in 0..count {
            let centre = &centres[random.usize(..centres.len())];
            let vector: Vec<f32> = centre.iter().map(|x| x + options.spread * normal(&mut random)).collect();
            vectors.push(&vector);
        }
        vectors
    };
    Ok((some(options.count), some(options.queries)))
}

/// Reads an .fvecs file: for each vector its dimension in 4 bytes, and its components as floats,
/// all little-endian. Up to `--count` vectors, then the queries.
fn read(path: &Path, options: &Options) -> Result<(Vectors, Vectors), String> {
    let bytes = std::fs::read(path).map_err(|error| {
        format!("cannot read {}: {}", path.display(), braid_base::system_text::reason(&error))
    })?;
    split(&bytes, options).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn split(bytes: &[u8], options: &Options) -> Result<(Vectors, Vectors), String> {
    let first = bytes.first_chunk().map(|dim| u32::from_le_bytes(*dim) as usize);
    let dim = first.filter(|dim| (1..=65_536).contains(dim)).ok_or("not an .fvecs file")?;
    let record = 4 + 4 * dim;
    let count = bytes.len() / record;
    if count <= options.queries {
        return Err(format!("{count} vectors are too few for {} queries", options.queries));
    }
    let add = options.count.min(count - options.queries);
    let (mut base, mut queries) = (Vectors::new(dim), Vectors::new(dim));
    for (index, record) in bytes.chunks_exact(record).enumerate() {
        let (head, floats) = record.split_at(4);
        if head != &bytes[..4] {
            return Err("its vectors have different dimensions".into());
        }
        let vector: Vec<f32> = floats.as_chunks().0.iter().map(|float| f32::from_le_bytes(*float)).collect();
        if index < add {
            base.push(&vector);
        } else if index >= count - options.queries {
            queries.push(&vector);
        }
    }
    Ok((base, queries))
}

pub fn similarity(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// For each query the similarity of its `nearest`-th vector, by comparing with all, on all
/// processors.
pub fn truth(base: &Vectors, queries: &Vectors, nearest: usize) -> Vec<f32> {
    let next = AtomicUsize::new(0);
    let mut bounds = vec![0.0; queries.count()];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let query = next.fetch_add(1, Relaxed);
                if query >= queries.count() {
                    return done;
                }
                let of = |index| similarity(queries.get(query), base.get(index));
                let mut all: Vec<f32> = (0..base.count()).map(of).collect();
                let last = nearest.min(all.len()) - 1;
                let (_, bound, _) = all.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
                done.push((query, *bound));
            }
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for handle in handles {
            for (query, bound) in handle.join().unwrap_or_default() {
                bounds[query] = bound;
            }
        }
    });
    bounds
}

/// The share of the nearest vectors that a search has found. A vector as similar as the farthest of
/// them counts.
pub fn recall(base: &Vectors, query: &[f32], bound: f32, found: &[usize], nearest: usize) -> f64 {
    let wanted = nearest.min(base.count());
    let hits = found.iter().filter(|&&index| index < base.count());
    let hits = hits.filter(|&&index| similarity(query, base.get(index)) >= bound - EPSILON).count();
    hits.min(wanted) as f64 / wanted as f64
}

#[cfg(test)]
mod tests {
    use braid_client::Arguments;

    use super::super::options::{Request, parse};
    use super::*;

    fn options(words: &[&str]) -> Options {
        match parse(&mut Arguments::from_words(words)) {
            Ok(Request::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn recall_is_that_of_the_nearest() {
        let options = options(&["a:1", "--count", "500", "--dim", "8", "--clusters", "3", "--queries", "20"]);
        let (base, queries) = make(&options).expect("no file");
        assert_eq!((base.count(), queries.count()), (500, 20));
        let bounds = truth(&base, &queries, 10);
        for (query, bound) in bounds.into_iter().enumerate() {
            let query = queries.get(query);
            assert!((similarity(query, query) - 1.0).abs() < 1e-5);
            let mut all: Vec<usize> = (0..500).collect();
            all.sort_by(|&a, &b| similarity(query, base.get(b)).total_cmp(&similarity(query, base.get(a))));
            assert_eq!(recall(&base, query, bound, &all[..10], 10), 1.0);
            assert_eq!(recall(&base, query, bound, &[&all[..7], &all[400..], &[9999]].concat(), 10), 0.7);
        }
    }

    #[test]
    fn files_have_vectors_and_queries() {
        let options = options(&["a:1", "--count", "3", "--queries", "2"]);
        let record = |x: f32| [2u32.to_le_bytes(), x.to_le_bytes(), 0.0f32.to_le_bytes()].concat();
        let file: Vec<u8> = (0..6).flat_map(|n| record(n as f32 - 2.5)).collect();
        let (base, queries) = split(&file, &options).expect("a file");
        assert_eq!((base.count(), queries.count(), base.dim), (3, 2, 2));
        assert_eq!((base.get(0), queries.get(1)), (&[-1.0, 0.0][..], &[1.0, 0.0][..]));
        let (base, _) = split(&file[..36], &options).expect("a file");
        assert_eq!(base.count(), 1);
        for bad in [&file[..20], &[][..], &[255; 40], &[&file[..12], &[3, 0, 0, 0], &file[4..36]].concat()] {
            assert!(split(bad, &options).is_err());
        }
    }
}
