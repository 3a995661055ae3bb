// SPDX-License-Identifier: BSD-3-Clause
//! Kernels for AArch64: NEON, which every such processor has.

use std::arch::aarch64::*;

use super::{Kernels, LANES};

static NEON: Kernels = Kernels {
    name: "neon",
    dot_f32: neon_dot_f32,
    squares_f32: neon_squares_f32,
    dot_i8: neon_dot_i8,
    differing_bits: neon_differing_bits,
};

pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    std::iter::once(&NEON)
}

/// # Safety
/// Both pointers are valid for `words` words.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn sum<const SQUARES: bool>(a: *const u32, b: *const u32, words: usize) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); LANES / 4];
    let mut at = 0;
    while at < words {
        for (part, sum) in sums.iter_mut().enumerate() {
            let from = at + 4 * part;
            if from >= words {
                break;
            }
            let (mut left, mut right) = ([0u32; 4], [0u32; 4]);
            let count = (words - from).min(4);
            // SAFETY: `count` words at `from`, within `words`, guaranteed by the caller.
            let (a, b) = unsafe {
                std::ptr::copy_nonoverlapping(a.add(from), left.as_mut_ptr(), count);
                std::ptr::copy_nonoverlapping(b.add(from), right.as_mut_ptr(), count);
                (
                    vreinterpretq_f32_u32(vld1q_u32(left.as_ptr())),
                    vreinterpretq_f32_u32(vld1q_u32(right.as_ptr())),
                )
            };
            let term = if SQUARES {
                let difference = vsubq_f32(a, b);
                vmulq_f32(difference, difference)
            } else {
                vmulq_f32(a, b)
            };
            *sum = vaddq_f32(*sum, term);
        }
        at += LANES;
    }
    let mut half = LANES / 8;
    while half > 0 {
        for part in 0..half {
            sums[part] = vaddq_f32(sums[part], sums[part + half]);
        }
        half /= 2;
    }
    let two = vadd_f32(vget_low_f32(sums[0]), vget_high_f32(sums[0]));
    vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
}

#[target_feature(enable = "neon")]
unsafe fn neon_dot_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { sum::<false>(a, b, words) }
}

#[target_feature(enable = "neon")]
unsafe fn neon_squares_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { sum::<true>(a, b, words) }
}

#[target_feature(enable = "neon")]
unsafe fn neon_dot_i8(a: *const u32, b: *const u32, words: usize) -> i32 {
    let mut sums = vdupq_n_s32(0);
    let mut at = 0;
    while at + 4 <= words {
        // SAFETY: 16 bytes at `at`, within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (vld1q_s8(a.add(at).cast()), vld1q_s8(b.add(at).cast())) };
        sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        sums = vpadalq_s16(sums, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
        at += 4;
    }
    // SAFETY: the words after those above, within `words`.
    vaddvq_s32(sums).wrapping_add(unsafe { super::plain::dot_i8(a.add(at), b.add(at), words - at) })
}

#[target_feature(enable = "neon")]
unsafe fn neon_differing_bits(a: *const u32, b: *const u32, words: usize) -> u32 {
    let (mut total, mut at) = (0, 0);
    while at + 4 <= words {
        // SAFETY: 16 bytes at `at`, within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (vld1q_u8(a.add(at).cast()), vld1q_u8(b.add(at).cast())) };
        total += u32::from(vaddlvq_u8(vcntq_u8(veorq_u8(a, b))));
        at += 4;
    }
    // SAFETY: the words after those above, within `words`.
    total + unsafe { super::plain::differing_bits(a.add(at), b.add(at), words - at) }
}
