// SPDX-License-Identifier: BSD-3-Clause
//! The generator behind `math.random`: scripts that set a seed rely on its sequence.

/// A 48-bit linear congruential generator, as in `drand48`, so that a seed gives the sequence
/// that scripts have always got.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u32) -> Random {
        Random(u64::from(seed) << 16 | 0x330e)
    }

    /// 31 random bits.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.0 >> 17) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_sequence_of_drand48() {
        // lrand48() after srand48(1), from glibc.
        let mut random = Random::new(1);
        assert_eq!([random.next(), random.next(), random.next()], [89400484, 976015093, 1792756325]);
    }
}
