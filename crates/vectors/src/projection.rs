// SPDX-License-Identifier: BSD-3-Clause
//! Random projections: fewer dimensions, with distances roughly kept.

use crate::{DIM_MAX, Error};

/// A linear map from vectors of one dimension to vectors of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    input: u32,
    output: u32,
    /// `output` rows of `input` factors.
    factors: Box<[f32]>,
}

impl Projection {
    /// A projection from explicit factors: `output` rows of `input` factors each.
    ///
    /// # Errors
    /// If the dimensions are out of range or the number of factors is not their product.
    pub fn new(input: u32, output: u32, factors: Box<[f32]>) -> Result<Projection, Error> {
        let is_sound = (1..=DIM_MAX).contains(&input) && (1..=DIM_MAX).contains(&output);
        if !is_sound || factors.len() as u64 != u64::from(input) * u64::from(output) {
            return Err(Error::Shape);
        }
        Ok(Projection { input, output, factors })
    }

    /// A projection by random signs, of size 1 / sqrt(input); equal for equal arguments.
    ///
    /// # Errors
    /// If the dimensions are out of range.
    pub fn random(input: u32, output: u32, seed: u64) -> Result<Projection, Error> {
        let mut random = fastrand::Rng::with_seed(seed);
        let size = 1.0 / (input.max(1) as f32).sqrt();
        let count = if input <= DIM_MAX && output <= DIM_MAX { input as usize * output as usize } else { 0 };
        let factors = (0..count).map(|_| if random.bool() { size } else { -size }).collect();
        Projection::new(input, output, factors)
    }

    /// Dimension before.
    pub fn input(&self) -> u32 {
        self.input
    }

    /// Dimension after.
    pub fn output(&self) -> u32 {
        self.output
    }

    /// The factors, row by row.
    pub fn factors(&self) -> &[f32] {
        &self.factors
    }

    /// Projects a vector.
    ///
    /// # Errors
    /// If its dimension is not the expected one.
    pub fn apply(&self, vector: &[f32]) -> Result<Vec<f32>, Error> {
        if vector.len() != self.input as usize {
            return Err(Error::Dimension(vector.len(), self.input));
        }
        let product = |row: &[f32]| row.iter().zip(vector).fold(0.0, |sum, (factor, x)| sum + factor * x);
        Ok(self.factors.chunks_exact(vector.len()).map(product).collect())
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        braid_base::alloc::size_class(self.factors.len() * size_of::<f32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_are_roughly_kept() {
        let projection = Projection::random(512, 128, 7).expect("dimensions in range");
        assert_eq!(projection, Projection::random(512, 128, 7).expect("dimensions in range"));
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..50 {
            let a: Vec<f32> = (0..512).map(|_| random.f32() - 0.5).collect();
            let b: Vec<f32> = a.iter().map(|x| x + (random.f32() - 0.5) * 0.8).collect();
            let cosine = |a: &[f32], b: &[f32]| {
                let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
                dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
            };
            let after = cosine(&projection.apply(&a).unwrap(), &projection.apply(&b).unwrap());
            assert!((cosine(&a, &b) - after).abs() < 0.25, "{} {after}", cosine(&a, &b));
        }
        assert!(projection.apply(&[1.0]).is_err());
        assert!(Projection::new(2, 2, Box::new([1.0; 3])).is_err());
        assert!(Projection::random(0, 4, 1).is_err() && Projection::random(u32::MAX, u32::MAX, 1).is_err());
    }
}
