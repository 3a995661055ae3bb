// SPDX-License-Identifier: BSD-3-Clause
//! A t-digest: numbers as centroids (a mean and a weight), many small ones near the extremes and
//! few large ones in the middle, so that quantiles are estimated well where it matters.
//!
//! Numbers are collected first. Once there is no room for more, they are merged with the centroids:
//! in the order of means, neighbours become one as long as the weight of the result is below
//!
//! ```text
//! 2 pi log(n) / compression * n * q (1 - q)       n: all weight, q: the result's place, 0 to 1
//! ```
//! on both sides of the result (Dunning and Ertl, "Computing extremely accurate quantiles using
//! t-digests", the scale function k2 with normalisation). Reading changes nothing: the first
//! reading after a change makes a merged copy for the following ones (`view`).

use std::f64::consts::PI;
use std::sync::OnceLock;

use braid_base::relocation::Mover;

pub const COMPRESSION_DEFAULT: u32 = 100;
/// The largest compression: merging the numbers is one step.
pub const COMPRESSION_MAX: u32 = 100_000;

/// Several numbers as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centroid {
    pub mean: f64,
    pub weight: f64,
}

/// Everything about a digest but its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    pub compression: u32,
    /// The least and the largest number; the other way round if there is none.
    pub min: f64,
    pub max: f64,
    /// How often numbers were merged.
    pub merges: u64,
}

/// A t-digest.
pub struct TDigest {
    head: Head,
    /// In the order of their means.
    merged: Vec<Centroid>,
    merged_weight: f64,
    /// Numbers not merged yet, as they came.
    waiting: Vec<f64>,
    waiting_weight: f64,
    /// Their weights; empty if all are 1.
    waiting_weights: Vec<f64>,
    view: OnceLock<Box<TDigest>>,
}

impl Clone for TDigest {
    fn clone(&self) -> TDigest {
        TDigest {
            head: self.head,
            merged: self.merged.clone(),
            merged_weight: self.merged_weight,
            waiting: self.waiting.clone(),
            waiting_weight: self.waiting_weight,
            waiting_weights: self.waiting_weights.clone(),
            view: OnceLock::new(),
        }
    }
}

/// The mean of two numbers with weights, which rounding does not carry beyond them.
fn weighted_mean(left: f64, left_weight: f64, right: f64, right_weight: f64) -> f64 {
    if left > right {
        return weighted_mean(right, right_weight, left, left_weight);
    }
    let mean = (left * left_weight + right * right_weight) / (left_weight + right_weight);
    left.max(mean.min(right))
}

impl TDigest {
    /// A digest without numbers; `None` if the compression is out of range.
    pub fn new(compression: u32) -> Option<TDigest> {
        let head = Head { compression, min: f64::MAX, max: -f64::MAX, merges: 0 };
        TDigest::from_parts(head, Vec::new(), Vec::new())
    }

    /// A digest of these parts; `None` if they are invalid.
    pub fn from_parts(head: Head, merged: Vec<Centroid>, waiting: Vec<Centroid>) -> Option<TDigest> {
        let is_sound = |centroid: &Centroid| {
            !centroid.mean.is_nan() && centroid.weight.is_finite() && centroid.weight > 0.0
        };
        let in_order = merged.is_sorted_by(|left, right| left.mean <= right.mean);
        if !(1..=COMPRESSION_MAX).contains(&head.compression)
            || head.min.is_nan()
            || head.max.is_nan()
            || !merged.iter().chain(&waiting).all(is_sound)
            || !in_order
        {
            return None;
        }
        let merged_weight = merged.iter().map(|centroid| centroid.weight).sum();
        let mut digest = TDigest {
            head,
            merged,
            merged_weight,
            waiting: Vec::new(),
            waiting_weight: 0.0,
            waiting_weights: Vec::new(),
            view: OnceLock::new(),
        };
        if digest.merged.len() + waiting.len() > digest.capacity() {
            return None;
        }
        waiting.into_iter().for_each(|centroid| digest.push(centroid));
        Some(digest)
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, _from: u64, mover: &mut Mover) -> Option<u64> {
        mover.relocate_vec(&mut self.merged);
        mover.relocate_vec(&mut self.waiting);
        mover.relocate_vec(&mut self.waiting_weights);
        if let Some(view) = self.view.get_mut() {
            view.relocate_blocks(0, mover);
            mover.relocate_box(view);
        }
        None
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// Number of centroids and waiting numbers for which there is room.
    pub fn capacity(&self) -> usize {
        6 * self.head.compression as usize + 10
    }

    /// The centroids, in the order of their means.
    pub fn merged(&self) -> &[Centroid] {
        &self.merged
    }

    pub fn merged_weight(&self) -> f64 {
        self.merged_weight
    }

    /// The numbers not merged yet, as they came.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = Centroid> {
        let weights = &self.waiting_weights;
        let with_weight =
            move |(at, &mean)| Centroid { mean, weight: weights.get(at).copied().unwrap_or(1.0) };
        self.waiting.iter().enumerate().map(with_weight)
    }

    pub fn waiting_weight(&self) -> f64 {
        self.waiting_weight
    }

    /// The weight of all numbers.
    pub fn weight(&self) -> f64 {
        self.merged_weight + self.waiting_weight
    }

    pub fn is_without_numbers(&self) -> bool {
        self.merged.is_empty() && self.waiting.is_empty()
    }

    /// Removes all numbers.
    pub fn reset(&mut self) {
        let Head { compression, .. } = self.head;
        self.head = Head { compression, min: f64::MAX, max: -f64::MAX, merges: 0 };
        (self.merged, self.waiting, self.waiting_weights) = (Vec::new(), Vec::new(), Vec::new());
        (self.merged_weight, self.waiting_weight) = (0.0, 0.0);
        self.view.take();
    }

    /// Adds a number, which must be finite.
    pub fn add(&mut self, number: f64) {
        self.add_weighted(Centroid { mean: number, weight: 1.0 });
    }

    fn add_weighted(&mut self, centroid: Centroid) {
        debug_assert!(!centroid.mean.is_nan());
        self.view.take();
        if self.merged.len() + self.waiting.len() + 1 >= self.capacity() {
            self.merge();
        }
        self.head.min = self.head.min.min(centroid.mean);
        self.head.max = self.head.max.max(centroid.mean);
        self.push(centroid);
    }

    fn push(&mut self, Centroid { mean, weight }: Centroid) {
        if self.waiting.len() == self.waiting.capacity() {
            // In small steps: few digests are ever full.
            let more = (self.waiting.len() / 2 + 4).min(self.capacity() - self.waiting.len());
            self.waiting.reserve_exact(more);
        }
        if weight != 1.0 && self.waiting_weights.is_empty() {
            self.waiting_weights = vec![1.0; self.waiting.len()];
        }
        if weight != 1.0 || !self.waiting_weights.is_empty() {
            self.waiting_weights.push(weight);
        }
        self.waiting.push(mean);
        self.waiting_weight += weight;
    }

    /// Merges the waiting numbers with the centroids.
    pub fn merge(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut all = Vec::with_capacity(self.merged.len() + self.waiting.len());
        all.extend_from_slice(&self.merged);
        all.extend(self.waiting());
        all.sort_by(|left, right| left.mean.total_cmp(&right.mean));
        let weight = self.weight();
        let scale = f64::from(self.head.compression) / (2.0 * PI * weight * weight.ln());
        let mut last = 0;
        let mut before = 0.0;
        for at in 1..all.len() {
            let together = all[last].weight + all[at].weight;
            let size = together * scale;
            let (from, to) = (before / weight, (before + together) / weight);
            if size <= from * (1.0 - from) && size <= to * (1.0 - to) {
                let Centroid { mean, weight } = all[at];
                let into = &mut all[last];
                into.weight += weight;
                into.mean += (mean - into.mean) * weight / into.weight;
            } else {
                before += all[last].weight;
                last += 1;
                all[last] = all[at];
            }
        }
        all.truncate(last + 1);
        self.merged.clear();
        self.merged.reserve_exact(all.len());
        self.merged.extend_from_slice(&all);
        self.merged_weight = weight;
        self.waiting.clear();
        self.waiting_weights = Vec::new();
        self.waiting_weight = 0.0;
        self.head.merges += 1;
        self.view.take();
    }

    /// The digest with all numbers merged.
    pub fn all_merged(&self) -> &TDigest {
        if self.waiting.is_empty() {
            return self;
        }
        self.view.get_or_init(|| {
            let mut copy = Box::new(self.clone());
            copy.merge();
            (copy.waiting, copy.waiting_weights) = (Vec::new(), Vec::new());
            copy
        })
    }

    /// Adds the numbers of another digest.
    pub fn absorb(&mut self, other: &TDigest) {
        self.merge();
        other.all_merged().merged.iter().for_each(|&centroid| self.add_weighted(centroid));
        // A centroid's mean lies inside the range of its numbers.
        if !other.is_without_numbers() {
            self.head.min = self.head.min.min(other.head.min);
            self.head.max = self.head.max.max(other.head.max);
        }
    }

    /// The number below which a share of all numbers lies; `NaN` if there is none.
    pub fn quantile(&self, share: f64) -> f64 {
        let digest = self.all_merged();
        let (centroids, total) = (&digest.merged, digest.merged_weight);
        let Head { min, max, .. } = digest.head;
        let [first, .., last] = centroids.as_slice() else {
            return centroids.first().map_or(f64::NAN, |only| only.mean);
        };
        let index = share * total;
        if index < 1.0 {
            return min;
        }
        if first.weight > 1.0 && index < first.weight / 2.0 {
            return min + (index - 1.0) / (first.weight / 2.0 - 1.0) * (first.mean - min);
        }
        if index > total - 1.0 {
            return max;
        }
        if last.weight > 1.0 && total - index <= last.weight / 2.0 {
            return max - (total - index - 1.0) / (last.weight / 2.0 - 1.0) * (max - last.mean);
        }
        let mut before = first.weight / 2.0;
        for pair in centroids.windows(2) {
            let (left, right) = (pair[0], pair[1]);
            let step = (left.weight + right.weight) / 2.0;
            if before + step > index {
                // A number that is alone is exactly where it is.
                let (from_left, from_right) = (index - before, before + step - index);
                let (mut left_part, mut right_part) = (0.0, 0.0);
                if left.weight == 1.0 {
                    if from_left < 0.5 {
                        return left.mean;
                    }
                    left_part = 0.5;
                }
                if right.weight == 1.0 {
                    if from_right <= 0.5 {
                        return right.mean;
                    }
                    right_part = 0.5;
                }
                return weighted_mean(left.mean, from_right - right_part, right.mean, from_left - left_part);
            }
            before += step;
        }
        let beyond = index - total - last.weight / 2.0;
        weighted_mean(last.mean, beyond, max, last.weight / 2.0 - beyond)
    }

    /// The share of numbers below a number, with half of those equal to it; `NaN` if there is none.
    pub fn share_below(&self, number: f64) -> f64 {
        let digest = self.all_merged();
        let (centroids, total) = (&digest.merged, digest.merged_weight);
        let Head { min, max, .. } = digest.head;
        let (Some(first), Some(last)) = (centroids.first(), centroids.last()) else { return f64::NAN };
        if number < min {
            return 0.0;
        }
        if number > max {
            return 1.0;
        }
        if number < first.mean {
            let inner = 1.0 + (number - min) / (first.mean - min) * (first.weight / 2.0 - 1.0);
            return if number == min { 0.5 / total } else { inner / total };
        }
        if number > last.mean {
            let inner = 1.0 + (max - number) / (max - last.mean) * (last.weight / 2.0 - 1.0);
            return if number == max { 1.0 - 0.5 / total } else { 1.0 - inner / total };
        }
        let mut before = 0.0;
        for (at, left) in centroids.iter().enumerate() {
            if left.mean == number {
                let equal = centroids[at..].iter().take_while(|centroid| centroid.mean == number);
                return (before + equal.map(|centroid| centroid.weight).sum::<f64>() / 2.0) / total;
            }
            if let Some(right) = centroids.get(at + 1)
                && left.mean < number
                && number < right.mean
            {
                // A number that is alone is exactly where it is.
                let (left_part, right_part) = match (left.weight == 1.0, right.weight == 1.0) {
                    (true, true) => return (before + 1.0) / total,
                    (true, false) => (0.5, 0.0),
                    (false, true) => (0.0, 0.5),
                    (false, false) => (0.0, 0.0),
                };
                let step = (left.weight + right.weight) / 2.0 - left_part - right_part;
                let base = before + left.weight / 2.0 + left_part;
                return (base + step * (number - left.mean) / (right.mean - left.mean)) / total;
            }
            before += left.weight;
        }
        1.0 - 0.5 / total
    }

    /// The mean of the numbers between two shares; `NaN` if there is none.
    pub fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        let digest = self.all_merged();
        let (from, to) = ((digest.merged_weight * low).floor(), (digest.merged_weight * high).ceil());
        let (mut before, mut sum, mut count) = (0.0, 0.0, 0.0);
        for Centroid { mean, weight } in &digest.merged {
            let mut part = *weight;
            part -= part.min((from - before).max(0.0));
            part = part.min((to - before).max(0.0));
            before += weight;
            sum += mean * part;
            count += part;
            if before >= to {
                break;
            }
        }
        sum / count
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let class = braid_base::alloc::size_class;
        let of = |bytes: usize| if bytes == 0 { 0 } else { class(bytes) };
        let view = self.view.get().map_or(0, |view| class(size_of::<TDigest>()) + view.memory_bytes());
        of(self.merged.capacity() * size_of::<Centroid>())
            + of((self.waiting.capacity() + self.waiting_weights.capacity()) * size_of::<f64>())
            + view
    }
}
