// SPDX-License-Identifier: BSD-3-Clause
//! Projections to fewer dimensions, with angles roughly kept.

use crate::{DIM_MAX, Error};

/// Maximum number of factors: 256 MB.
const FACTORS_MAX: u64 = 1 << 26;

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
        let count = u64::from(input) * u64::from(output);
        if !is_sound || factors.len() as u64 != count || count > FACTORS_MAX {
            return Err(Error::Shape);
        }
        Ok(Projection { input, output, factors })
    }

    /// A projection by signs, of size 1 / sqrt(input): those of a Hadamard matrix, which are as
    /// good as random ones and need no seed. It is that of Redis 8.
    ///
    /// # Errors
    /// If a dimension, or the number of factors, is out of range.
    pub fn walsh(input: u32, output: u32) -> Result<Projection, Error> {
        let factors = u64::from(input) * u64::from(output);
        if input > DIM_MAX || output > DIM_MAX || factors > FACTORS_MAX {
            return Err(Error::Shape);
        }
        let size = 1.0 / (input as f32).sqrt();
        let sign =
            |row: u32, column: u32| if (row & column).count_ones().is_multiple_of(2) { size } else { -size };
        let factors = (0..output).flat_map(|row| (0..input).map(move |column| sign(row, column))).collect();
        Projection::new(input, output, factors)
    }

    /// True if this is the projection that [`Projection::walsh`] makes.
    pub fn is_walsh(&self) -> bool {
        Projection::walsh(self.input, self.output).is_ok_and(|walsh| walsh == *self)
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
        let projection = Projection::walsh(512, 128).expect("dimensions in range");
        assert!(projection.is_walsh());
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
        assert!(Projection::walsh(0, 4).is_err() && Projection::walsh(u32::MAX, u32::MAX).is_err());
    }
}
