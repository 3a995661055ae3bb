// SPDX-License-Identifier: BSD-3-Clause
//! The digits of a double, found in the same way as by Redis 7.2 and later and by Valkey.
//!
//! These servers use Grisu2 (Florian Loitsch, Printing Floating-Point Numbers Quickly and
//! Accurately with Integers, PLDI 2010): all texts between the halfway points to the neighbouring
//! doubles read back as the same double, and Grisu2 finds a short one of them. To get by with
//! 64-bit integers it multiplies the double and both halfway points by a power of ten that is
//! itself rounded to 64 bits, so that the products have between 32 and 60 bits after the binary
//! point, and narrows the interval by the possible error. In about one double of 700 it therefore
//! misses the shortest text, and of two equally near texts it may produce either. Clients compare
//! texts, so each step is the same as theirs: a newer algorithm would be as fast and more often
//! optimal, but would give different texts.

/// Buffer size: more than the maximum number of digits.
const DIGITS_MAX: usize = 24;

/// The leading bit of a normal double, which is implicit.
const HIDDEN_BIT: u64 = 1 << 52;

/// Significant digits of a positive, finite double.
pub(super) struct Digits {
    bytes: [u8; DIGITS_MAX],
    len: usize,
    /// The last digit is worth 10 to this power.
    pub(super) last_power: i32,
}

impl Digits {
    pub(super) fn of(value: f64) -> Digits {
        let (significand, exponent) = parts(value);
        // All three numbers get the exponent with which the upper one fills 64 bits.
        let shift = (2 * significand + 1).leading_zeros();
        let upper = (2 * significand + 1) << shift;
        let middle = (2 * significand) << shift;
        // Below a power of two, doubles are twice as dense.
        let lower = match significand {
            HIDDEN_BIT => (4 * significand - 1) << (shift - 1),
            _ => (2 * significand - 1) << shift,
        };
        let power = Power::for_exponent(exponent - 1 - shift as i32);
        generate(
            power.times(lower) + 1,
            power.times(middle),
            power.times(upper) - 1,
            power.fraction_bits,
            -power.of_ten,
        )
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends a digit, ignoring leading zeros.
    fn push(&mut self, digit: u64) {
        if (digit != 0 || self.len > 0)
            && let Some(place) = self.bytes.get_mut(self.len)
        {
            *place = b'0' + digit as u8;
            self.len += 1;
        }
    }

    /// Decrements the last digit while that brings the text nearer to the double and keeps it
    /// within the interval. Distances are measured down from the upper end: `rest` is the text's,
    /// `middle` the double's, `width` the lower end's; `step` is the value of one unit of the last
    /// digit.
    fn adjust_last_digit(&mut self, mut rest: u64, middle: u64, width: u64, step: u64) {
        while rest < middle
            && width - rest >= step
            && (rest + step < middle || middle - rest > rest + step - middle)
        {
            self.bytes[self.len - 1] -= 1;
            rest += step;
        }
    }
}

/// The integer and the power of two whose product is a positive double.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let stored = bits & (HIDDEN_BIT - 1);
    match (bits >> 52 & 0x7ff) as i32 {
        0 => (stored, -1074),
        exponent => (stored | HIDDEN_BIT, exponent - 1075),
    }
}

/// Generates the digits of `upper`, until the remainder is at most the width of the interval. The
/// numbers have `fraction_bits` bits after the binary point; the last digit of their whole part is
/// worth 10 to `unit_power`.
fn generate(lower: u64, middle: u64, upper: u64, fraction_bits: u32, unit_power: i32) -> Digits {
    let mut digits = Digits { bytes: [0; DIGITS_MAX], len: 0, last_power: unit_power };
    let (mut middle, mut width) = (upper - middle, upper - lower);
    let one = 1 << fraction_bits;
    let mut whole = upper >> fraction_bits;
    let mut fraction = upper & (one - 1);
    for place in (0..10).rev() {
        let unit = 10u64.pow(place);
        digits.push(whole / unit);
        whole %= unit;
        let rest = (whole << fraction_bits) + fraction;
        if rest <= width {
            digits.last_power += place as i32;
            digits.adjust_last_digit(rest, middle, width, unit << fraction_bits);
            return digits;
        }
    }
    // From here on all quantities are scaled to tenths, hundredths ...
    loop {
        fraction *= 10;
        middle *= 10;
        width *= 10;
        digits.last_power -= 1;
        digits.push(fraction >> fraction_bits);
        fraction &= one - 1;
        if fraction < width {
            digits.adjust_last_digit(fraction, middle, width, one);
            return digits;
        }
    }
}

/// A power of ten for the numbers with one binary exponent.
struct Power {
    of_ten: i32,
    significand: u64,
    /// Number of bits of a product after the binary point.
    fraction_bits: u32,
}

impl Power {
    /// The smallest power in the table that leaves at most 60 bits after the binary point.
    fn for_exponent(exponent: i32) -> Power {
        // log10(2) in units of 2^-20, rounded up to a whole power and then to one in the table.
        let least = -(((exponent + 61) * 315_653) >> 20);
        let index = (least - SMALLEST + STEP - 1) / STEP;
        let of_ten = SMALLEST + index * STEP;
        let fraction_bits = -(exponent + exponent_of_power(of_ten) + 64) as u32;
        Power { of_ten, significand: SIGNIFICANDS[index as usize], fraction_bits }
    }

    /// The upper half of the product, rounded.
    fn times(&self, number: u64) -> u64 {
        ((u128::from(number) * u128::from(self.significand) + (1 << 63)) >> 64) as u64
    }
}

/// The power of two in a power of ten whose significand fills 64 bits; log2(10) is in units of
/// 2^-16.
fn exponent_of_power(of_ten: i32) -> i32 {
    ((of_ten * 217_706) >> 16) - 63
}

const SMALLEST: i32 = -348;
const STEP: i32 = 8;

/// 10^-348, 10^-340 ... 10^340, each rounded to 64 bits.
#[rustfmt::skip]
const SIGNIFICANDS: [u64; 87] = [
    0xfa8f_d5a0_081c_0288, 0xbaae_e17f_a23e_bf76, 0x8b16_fb20_3055_ac76, 0xcf42_894a_5dce_35ea,
    0x9a6b_b0aa_5565_3b2d, 0xe61a_cf03_3d1a_45df, 0xab70_fe17_c79a_c6ca, 0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c, 0x8dd0_1fad_907f_fc3c, 0xd351_5c28_3155_9a83, 0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb, 0xaecc_4991_4078_536d, 0x823c_1279_5db6_ce57, 0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f, 0xd774_85cb_2582_3ac7, 0xa086_cfcd_97bf_97f4, 0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e, 0x84c8_d4df_d2c6_3f3b, 0xc5dd_4427_1ad3_cdba, 0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584, 0xa3ab_6658_0d5f_daf6, 0xf3e2_f893_dec3_f126, 0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b, 0xc9bc_ff60_34c1_3053, 0x964e_858c_91ba_2655, 0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f, 0xf8a9_5fcf_8874_7d94, 0xb944_7093_8fa8_9bcf, 0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6, 0x993f_e2c6_d07b_7fac, 0xe45c_10c4_2a2b_3b06, 0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e, 0xbce5_0864_9211_1aeb, 0x8cbc_cc09_6f50_88cc, 0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000, 0xe8d4_a510_0000_0000, 0xad78_ebc5_ac62_0000, 0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3, 0x8f7e_32ce_7bea_5c70, 0xd5d2_38a4_abe9_8068, 0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27, 0xb0de_6538_8cc8_ada8, 0x83c7_088e_1aab_65db, 0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758, 0xda01_ee64_1a70_8dea, 0xa26d_a399_9aef_774a, 0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877, 0x865b_8692_5b9b_c5c2, 0xc835_53c5_c896_5d3d, 0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3, 0xa59b_c234_db39_8c25, 0xf6c6_9a72_a398_9f5c, 0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2, 0xcc20_ce9b_d35c_78a5, 0x9816_5af3_7b21_53df, 0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396, 0xfb9b_7cd9_a4a7_443c, 0xbb76_4c4c_a7a4_4410, 0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c, 0x9b10_a4e5_e991_3129, 0xe710_9bfb_a19c_0c9d, 0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85, 0xbf21_e440_03ac_dd2d, 0x8e67_9c2f_5e44_ff8f, 0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9, 0xeb96_bf6e_badf_77d9, 0xaf87_023b_9bf0_ee6b,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    /// A natural number of any size, lowest 32 bits first.
    struct Big(Vec<u32>);

    impl Big {
        fn times(mut self, factor: u32, count: i32) -> Big {
            for _ in 0..count {
                let mut carry = 0;
                for limb in &mut self.0 {
                    carry += u64::from(*limb) * u64::from(factor);
                    *limb = carry as u32;
                    carry >>= 32;
                }
                if carry > 0 {
                    self.0.push(carry as u32);
                }
            }
            self
        }

        fn compare(&self, other: &Big) -> Ordering {
            self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
        }
    }

    #[test]
    fn powers_of_ten_are_rounded_rightly() {
        for (index, &significand) in SIGNIFICANDS.iter().enumerate() {
            assert!(significand >> 63 == 1);
            let power = SMALLEST + index as i32 * STEP;
            let exponent = exponent_of_power(power);
            // Half a unit below and above: the power lies between the two. Both sides are
            // multiplied until they are whole.
            let half_units = |offset: i128| {
                let doubled = (2 * i128::from(significand) + offset) as u128;
                let limbs = (0..3).map(|limb| (doubled >> (32 * limb)) as u32);
                let mut limbs: Vec<u32> = limbs.collect();
                while limbs.last() == Some(&0) {
                    limbs.pop();
                }
                Big(limbs).times(2, exponent - 1).times(10, -power)
            };
            let exact = Big(vec![1]).times(2, 1 - exponent).times(10, power);
            assert_eq!(half_units(-1).compare(&exact), Ordering::Less, "10^{power}");
            assert_eq!(half_units(1).compare(&exact), Ordering::Greater, "10^{power}");
        }
    }

    #[test]
    fn every_exponent_has_its_power() {
        // From the smallest double to the largest, as upper halfway points that fill 64 bits.
        for exponent in -1137..=960 {
            let power = Power::for_exponent(exponent);
            assert!((32..=60).contains(&power.fraction_bits), "2^{exponent}");
            let one_less = exponent + exponent_of_power(power.of_ten - STEP) + 64;
            assert!(one_less < -60, "2^{exponent}: a smaller power would do");
        }
    }
}
