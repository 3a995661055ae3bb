// SPDX-License-Identifier: BSD-3-Clause
//! Vectors as words: quantisation, distances, and back.
//!
//! ```text
//! f32   the components, a word each
//! i8    the range (f32), for L2 the squared length (f32), then the components, four to a word:
//!       each is a multiple of range / 127
//! bin   the signs, 32 to a word; 1 is positive
//! ```
//! Cosine vectors are scaled to length 1 first; their original length is kept beside them. A
//! distance is smaller for closer vectors: `1 - cosine`, `-product`, or the squared Euclidean
//! distance. For `bin` it is twice the share of signs that differ, whatever the metric.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::kernels::{self, Kernels};
use crate::{Metric, Quantisation, Shape};

/// Encodes, decodes and compares the vectors of one graph.
#[derive(Clone, Copy)]
pub struct Codec {
    shape: Shape,
    kernels: &'static Kernels,
}

fn float(word: &AtomicU32) -> f32 {
    f32::from_bits(word.load(Relaxed))
}

impl Codec {
    pub fn new(shape: Shape) -> Codec {
        Codec { shape, kernels: kernels::best() }
    }

    #[cfg(test)]
    pub fn with_kernels(shape: Shape, kernels: &'static Kernels) -> Codec {
        Codec { shape, kernels }
    }

    /// Words before the components.
    #[inline]
    fn head(&self) -> usize {
        match (self.shape.quantisation, self.shape.metric) {
            (Quantisation::I8, Metric::L2) => 2,
            (Quantisation::I8, _) => 1,
            _ => 0,
        }
    }

    /// A vector as it comes back when it has been stored.
    pub fn stored(&self, vector: &[f32]) -> Vec<f32> {
        let words = self.blank();
        let norm = self.encode(vector, &words);
        self.decode(&words, norm)
    }

    /// Words of a vector.
    pub fn words(&self) -> usize {
        let dim = self.shape.dim as usize;
        match self.shape.quantisation {
            Quantisation::F32 => dim,
            Quantisation::I8 => self.head() + dim.div_ceil(4),
            Quantisation::Bin => dim.div_ceil(64) * 2,
        }
    }

    /// The words of a vector, all zero.
    pub fn blank(&self) -> Box<[AtomicU32]> {
        (0..self.words()).map(|_| AtomicU32::new(0)).collect()
    }

    /// Encodes a vector; returns its length (the Euclidean norm), which [`Codec::decode`] needs.
    pub fn encode(&self, vector: &[f32], out: &[AtomicU32]) -> f32 {
        debug_assert_eq!(vector.len(), self.shape.dim as usize);
        let norm = vector.iter().fold(0.0f32, |sum, x| sum + x * x).sqrt();
        let divisor = if self.shape.metric == Metric::Cosine && norm != 0.0 { norm } else { 1.0 };
        let scaled = vector.iter().map(|x| x / divisor);
        match self.shape.quantisation {
            Quantisation::F32 => {
                scaled.zip(out).for_each(|(x, word)| word.store(x.to_bits(), Relaxed));
            }
            Quantisation::I8 => self.encode_i8(scaled, out),
            Quantisation::Bin => {
                out.iter().for_each(|word| word.store(0, Relaxed));
                for (at, _) in scaled.enumerate().filter(|(_, x)| *x > 0.0) {
                    out[at / 32].fetch_or(1 << (at % 32), Relaxed);
                }
            }
        }
        norm
    }

    fn encode_i8(&self, scaled: impl Iterator<Item = f32> + Clone, out: &[AtomicU32]) {
        let range = scaled.clone().fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = if range == 0.0 { 0.0 } else { 127.0 / range };
        let (mut word, mut squares) = (0u32, 0.0f32);
        let (head, components) = out.split_at(self.head());
        for (at, x) in scaled.enumerate() {
            let level = (x * scale).round() as i8;
            squares += f32::from(level) * f32::from(level);
            word |= u32::from(level as u8) << (at % 4 * 8);
            if at % 4 == 3 || at + 1 == self.shape.dim as usize {
                components[at / 4].store(std::mem::take(&mut word), Relaxed);
            }
        }
        head[0].store(range.to_bits(), Relaxed);
        if let Some(of_squares) = head.get(1) {
            of_squares.store((squares * (range / 127.0) * (range / 127.0)).to_bits(), Relaxed);
        }
    }

    /// Distance between two encoded vectors.
    #[inline]
    pub fn distance(&self, a: &[AtomicU32], b: &[AtomicU32]) -> f32 {
        match (self.shape.quantisation, self.shape.metric) {
            (Quantisation::I8, Metric::Cosine) => 1.0 - self.product_i8(a, b),
            (Quantisation::F32, Metric::Cosine) => 1.0 - self.kernels.dot_f32(a, b),
            (Quantisation::F32, Metric::InnerProduct) => -self.kernels.dot_f32(a, b),
            (Quantisation::F32, Metric::L2) => self.kernels.squares_f32(a, b),
            (Quantisation::I8, Metric::InnerProduct) => -self.product_i8(a, b),
            (Quantisation::I8, Metric::L2) => {
                (float(&a[1]) + float(&b[1]) - 2.0 * self.product_i8(a, b)).max(0.0)
            }
            (Quantisation::Bin, _) => 2.0 * self.kernels.differing_bits(a, b) as f32 / self.shape.dim as f32,
        }
    }

    #[inline]
    fn product_i8(&self, a: &[AtomicU32], b: &[AtomicU32]) -> f32 {
        let dot = self.kernels.dot_i8(&a[self.head()..], &b[self.head()..]);
        dot as f32 * (float(&a[0]) * float(&b[0])) / (127.0 * 127.0)
    }

    /// True if [`Codec::distance`] is a quick estimate, which [`Codec::exact`] betters.
    #[inline]
    pub fn estimates(&self) -> bool {
        self.shape.quantisation == Quantisation::I8 && self.shape.metric == Metric::Cosine
    }

    /// What quantisation has taken from a vector of this length (the Euclidean norm), encoded like
    /// the vector itself; `None` if distances are no estimates.
    pub fn rest(&self, vector: &[f32], norm: f32, encoded: &[AtomicU32]) -> Option<Box<[AtomicU32]>> {
        if !self.estimates() {
            return None;
        }
        let scale = if norm == 0.0 { 0.0 } else { 1.0 / norm };
        let pairs = vector.iter().zip(self.components(encoded));
        let rest: Vec<f32> = pairs.map(|(x, stored)| x * scale - stored).collect();
        let words = self.blank();
        self.encode_i8(rest.iter().copied(), &words);
        Some(words)
    }

    /// Distance between two encoded vectors, the first one with its [rest](Codec::rest) if that is
    /// known, without what quantisation has done to their lengths: with 128 dimensions half as many
    /// of the ten nearest are missed.
    #[inline]
    pub fn exact(&self, a: &[AtomicU32], rest: Option<&[AtomicU32]>, b: &[AtomicU32]) -> f32 {
        if !self.estimates() {
            return self.distance(a, b);
        }
        let head = self.head();
        let dot = |a: &[AtomicU32], b: &[AtomicU32]| f64::from(self.kernels.dot_i8(&a[head..], &b[head..]));
        let (product, squares) = match rest {
            // The two together have length 1.
            Some(rest) => {
                let of = |part: &[AtomicU32]| dot(part, b) * f64::from(float(&part[0])) / 127.0;
                (of(a) + of(rest), dot(b, b))
            }
            None => (dot(a, b), dot(a, a) * dot(b, b)),
        };
        if squares == 0.0 { 1.0 } else { (1.0 - product / squares.sqrt()) as f32 }
    }

    /// The components as they are stored, before they are scaled back to the original length.
    pub fn components(&self, words: &[AtomicU32]) -> Vec<f32> {
        let dim = self.shape.dim as usize;
        match self.shape.quantisation {
            Quantisation::F32 => words.iter().map(float).collect(),
            Quantisation::I8 => {
                let range = float(&words[0]);
                self.levels(words).map(|level| f32::from(level) * range / 127.0).collect()
            }
            Quantisation::Bin => {
                let sign = |at: usize| words[at / 32].load(Relaxed) >> (at % 32) & 1;
                (0..dim).map(|at| if sign(at) == 1 { 1.0 } else { -1.0 }).collect()
            }
        }
    }

    /// The signed bytes of an `i8` vector.
    pub fn levels<'a>(&self, words: &'a [AtomicU32]) -> impl Iterator<Item = i8> + 'a {
        let bytes = words[self.head()..].iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        bytes.map(|byte| byte as i8).take(self.shape.dim as usize)
    }

    /// The range of an `i8` vector.
    pub fn range(&self, words: &[AtomicU32]) -> Option<f32> {
        (self.shape.quantisation == Quantisation::I8).then(|| float(&words[0]))
    }

    /// The vector, as close to the encoded one as quantisation allows.
    pub fn decode(&self, words: &[AtomicU32], norm: f32) -> Vec<f32> {
        let mut vector = self.components(words);
        if self.shape.metric == Metric::Cosine && self.shape.quantisation != Quantisation::Bin {
            vector.iter_mut().for_each(|x| *x *= norm);
        }
        vector
    }
}
