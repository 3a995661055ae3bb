// SPDX-License-Identifier: BSD-3-Clause
//! Vectors to add and to search for, and the true nearest ones.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::options::Options;

/// Two similarities differ if they are this far apart.
const EPSILON: f32 = 1e-6;
/// Sums that are computed side by side.
const LANES: usize = 16;
/// Queries that are compared with a vector while it is near the processor, and vectors that stay
/// there meanwhile.
const TOGETHER: usize = 32;
const KEPT: usize = 128;

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

/// The product of two vectors, in lanes that do not wait for each other.
pub fn similarity(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

/// Which vectors a search may find: all, or those whose number leaves this rest when it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    pub every: usize,
    pub rest: usize,
}

impl Picked {
    pub const ALL: Picked = Picked { every: 1, rest: 0 };

    fn includes(self, index: usize) -> bool {
        index % self.every == self.rest
    }

    /// Numbers of the picked vectors in a range.
    fn within(self, from: usize, to: usize) -> impl Iterator<Item = usize> + Clone {
        let first = from + (self.every + self.rest - from % self.every) % self.every;
        (first..to).step_by(self.every)
    }
}

/// What searches should find.
pub struct Truth {
    picked: Picked,
    /// How many vectors.
    wanted: usize,
    /// For each query the similarity of the last of them.
    bounds: Vec<f32>,
}

impl Truth {
    /// By comparing all queries with all picked vectors, on all processors.
    pub fn new(base: &Vectors, queries: &Vectors, nearest: usize, picked: Picked) -> Truth {
        let wanted = nearest.min(picked.within(0, base.count()).count());
        let (next, mut bounds) = (AtomicUsize::new(0), vec![0.0; queries.count()]);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let work = || {
                let mut done = Vec::new();
                loop {
                    let first = next.fetch_add(TOGETHER, Relaxed);
                    if first >= queries.count() {
                        return done;
                    }
                    done.push((first, bounds_of(base, queries, first, (wanted, picked))));
                }
            };
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for handle in handles {
                for (first, some) in handle.join().unwrap_or_default() {
                    bounds[first..first + some.len()].copy_from_slice(&some);
                }
            }
        });
        Truth { picked, wanted, bounds }
    }

    /// The share of the nearest vectors that a search has found. A vector as similar as the
    /// farthest of them counts. `None` if the search has found one that was not picked.
    pub fn recall(&self, base: &Vectors, queries: &Vectors, query: usize, found: &[usize]) -> Option<f64> {
        if self.wanted == 0 || found.iter().any(|&index| !self.picked.includes(index)) {
            return found.is_empty().then_some(1.0);
        }
        let (vector, bound) = (queries.get(query), self.bounds[query]);
        let hits = found.iter().filter(|&&index| index < base.count());
        let hits = hits.filter(|&&index| similarity(vector, base.get(index)) >= bound - EPSILON).count();
        Some(hits.min(self.wanted) as f64 / self.wanted as f64)
    }
}

/// The bounds of some queries together: a vector that has been read from memory serves all of them.
fn bounds_of(base: &Vectors, queries: &Vectors, first: usize, (wanted, picked): (usize, Picked)) -> Vec<f32> {
    let numbers = first..(first + TOGETHER).min(queries.count());
    let mut best = vec![Vec::with_capacity(KEPT + wanted); numbers.len()];
    let step = KEPT * picked.every;
    for from in (0..base.count()).step_by(step) {
        let some = picked.within(from, (from + step).min(base.count()));
        for (query, best) in numbers.clone().zip(&mut best) {
            let query = queries.get(query);
            best.extend(some.clone().map(|index| similarity(query, base.get(index))));
            if best.len() > wanted && wanted > 0 {
                best.select_nth_unstable_by(wanted - 1, |a: &f32, b: &f32| b.total_cmp(a));
                best.truncate(wanted);
            }
        }
    }
    best.into_iter().map(|best| best.into_iter().fold(f32::INFINITY, f32::min)).collect()
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
        for picked in [Picked::ALL, Picked { every: 3, rest: 2 }, Picked { every: 100, rest: 7 }] {
            let truth = Truth::new(&base, &queries, 10, picked);
            let wanted = truth.wanted;
            assert_eq!(wanted, if picked.every == 100 { 5 } else { 10 });
            for number in 0..queries.count() {
                let query = queries.get(number);
                assert!((similarity(query, query) - 1.0).abs() < 1e-5);
                let mut all: Vec<usize> = (0..500).filter(|&index| picked.includes(index)).collect();
                let by = |&a: &usize, &b: &usize| {
                    similarity(query, base.get(b)).total_cmp(&similarity(query, base.get(a)))
                };
                all.sort_by(by);
                let share = |found: &[usize]| truth.recall(&base, &queries, number, found);
                assert_eq!(share(&all[..wanted]), Some(1.0));
                let worse = [&all[..3], &all[all.len() - wanted + 3..]].concat();
                let expected = if wanted < all.len() { 3.0 / wanted as f64 } else { 1.0 };
                assert_eq!(share(&worse), Some(expected));
                assert_eq!(share(&[0]).is_none(), picked != Picked::ALL);
            }
        }
        let none = Truth::new(&base, &queries, 10, Picked { every: 1000, rest: 999 });
        assert_eq!(none.recall(&base, &queries, 0, &[]), Some(1.0));
        assert_eq!(none.recall(&base, &queries, 0, &[1]), None);
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
