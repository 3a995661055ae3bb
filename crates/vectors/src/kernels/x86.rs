// SPDX-License-Identifier: BSD-3-Clause
//! Kernels for x86-64: AVX2, and AVX-512 with VNNI and VPOPCNTDQ.

use std::arch::x86_64::*;

use super::Kernels;

static AVX2: Kernels = Kernels {
    name: "avx2",
    dot_f32: avx2_dot_f32,
    squares_f32: avx2_squares_f32,
    dot_i8: avx2_dot_i8,
    differing_bits: avx2_differing_bits,
};

static AVX512: Kernels = Kernels {
    name: "avx512",
    dot_f32: avx512_dot_f32,
    squares_f32: avx512_squares_f32,
    dot_i8: avx512_dot_i8,
    differing_bits: avx512_differing_bits,
};

pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512vpopcntdq");
    avx2.then_some(&AVX2).into_iter().chain(avx512.then_some(&AVX512))
}

/// Folds eight lanes as `plain::fold` does.
#[inline]
#[target_feature(enable = "avx2")]
fn fold8(lanes: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total8(lanes: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
}

/// A mask of the first `count` of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first8(count: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// # Safety
/// Both pointers are valid for `words` words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn avx2_sum<const SQUARES: bool>(a: *const u32, b: *const u32, words: usize) -> f32 {
    let (a, b) = (a.cast::<f32>(), b.cast::<f32>());
    let mut sums = [_mm256_setzero_ps(); 4];
    let mut at = 0;
    while at < words {
        for (part, sum) in sums.iter_mut().enumerate() {
            let from = at + 8 * part;
            if from >= words {
                break;
            }
            let (a, b) = if from + 8 <= words {
                // SAFETY: eight words at `from`, within `words`, guaranteed by the caller.
                unsafe { (_mm256_loadu_ps(a.add(from)), _mm256_loadu_ps(b.add(from))) }
            } else {
                let mask = first8(words - from);
                // SAFETY: lanes at and beyond `words` are masked and not read.
                unsafe { (_mm256_maskload_ps(a.add(from), mask), _mm256_maskload_ps(b.add(from), mask)) }
            };
            let term = if SQUARES {
                let difference = _mm256_sub_ps(a, b);
                _mm256_mul_ps(difference, difference)
            } else {
                _mm256_mul_ps(a, b)
            };
            *sum = _mm256_add_ps(*sum, term);
        }
        at += 32;
    }
    fold8(_mm256_add_ps(_mm256_add_ps(sums[0], sums[2]), _mm256_add_ps(sums[1], sums[3])))
}

#[target_feature(enable = "avx2")]
unsafe fn avx2_dot_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { avx2_sum::<false>(a, b, words) }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2_squares_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { avx2_sum::<true>(a, b, words) }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2_dot_i8(a: *const u32, b: *const u32, words: usize) -> i32 {
    let mut sums = [_mm256_setzero_si256(); 2];
    let mut at = 0;
    while at + 4 <= words {
        // SAFETY: 16 bytes at `at`, within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (_mm_loadu_si128(a.add(at).cast()), _mm_loadu_si128(b.add(at).cast())) };
        let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b));
        let sum = &mut sums[at / 4 % 2];
        *sum = _mm256_add_epi32(*sum, products);
        at += 4;
    }
    let total = total8(_mm256_add_epi32(sums[0], sums[1]));
    // SAFETY: the words after those above, within `words`.
    total.wrapping_add(unsafe { super::plain::dot_i8(a.add(at), b.add(at), words - at) })
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn avx2_differing_bits(a: *const u32, b: *const u32, words: usize) -> u32 {
    let (mut total, mut at) = (0, 0);
    while at + 2 <= words {
        // SAFETY: eight bytes at `at`, within `words`, guaranteed by the caller.
        let (a, b) =
            unsafe { (a.add(at).cast::<u64>().read_unaligned(), b.add(at).cast::<u64>().read_unaligned()) };
        total += (a ^ b).count_ones();
        at += 2;
    }
    // SAFETY: the words after those above, within `words`.
    total + unsafe { super::plain::differing_bits(a.add(at), b.add(at), words - at) }
}

/// A mask of the first `count` of 16 lanes.
#[inline]
fn first16(count: usize) -> u16 {
    if count >= 16 { u16::MAX } else { (1 << count) - 1 }
}

/// # Safety
/// Both pointers are valid for `words` words.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn avx512_sum<const SQUARES: bool>(a: *const u32, b: *const u32, words: usize) -> f32 {
    let (a, b) = (a.cast::<f32>(), b.cast::<f32>());
    let mut sums = [_mm512_setzero_ps(); 2];
    let mut at = 0;
    while at < words {
        for (part, sum) in sums.iter_mut().enumerate() {
            let from = at + 16 * part;
            let mask = first16(words.saturating_sub(from));
            // SAFETY: lanes at and beyond `words` are masked and not read; the pointers are then
            // only computed, without being dereferenced.
            let (a, b) = unsafe {
                (
                    _mm512_maskz_loadu_ps(mask, a.wrapping_add(from)),
                    _mm512_maskz_loadu_ps(mask, b.wrapping_add(from)),
                )
            };
            let term = if SQUARES {
                let difference = _mm512_sub_ps(a, b);
                _mm512_mul_ps(difference, difference)
            } else {
                _mm512_mul_ps(a, b)
            };
            *sum = _mm512_add_ps(*sum, term);
        }
        at += 32;
    }
    let lanes = _mm512_add_ps(sums[0], sums[1]);
    let upper = _mm512_castps512_ps256(_mm512_shuffle_f32x4::<0b11_10_11_10>(lanes, lanes));
    fold8(_mm256_add_ps(_mm512_castps512_ps256(lanes), upper))
}

#[target_feature(enable = "avx512f")]
unsafe fn avx512_dot_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { avx512_sum::<false>(a, b, words) }
}

#[target_feature(enable = "avx512f")]
unsafe fn avx512_squares_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { avx512_sum::<true>(a, b, words) }
}

/// VNNI multiplies unsigned by signed bytes. Flipping the sign bits of `a` adds 128 to each of its
/// bytes; what this adds to the sum is subtracted again.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512_dot_i8(a: *const u32, b: *const u32, words: usize) -> i32 {
    let offset = _mm512_set1_epi8(i8::MIN);
    let (mut sums, mut added) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut at = 0;
    while at < words {
        let mask = first16(words - at);
        // SAFETY: lanes at and beyond `words` are masked and not read.
        let (a, b) = unsafe {
            (
                _mm512_maskz_loadu_epi32(mask, a.add(at).cast()),
                _mm512_maskz_loadu_epi32(mask, b.add(at).cast()),
            )
        };
        sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(a, offset), b);
        added = _mm512_dpbusd_epi32(added, offset, b);
        at += 16;
    }
    _mm512_reduce_add_epi32(_mm512_sub_epi32(sums, added))
}

#[target_feature(enable = "avx512f,avx512vpopcntdq")]
unsafe fn avx512_differing_bits(a: *const u32, b: *const u32, words: usize) -> u32 {
    let mut counts = _mm512_setzero_si512();
    let mut at = 0;
    while at < words {
        let mask = first16(words - at);
        // SAFETY: lanes at and beyond `words` are masked and not read.
        let (a, b) = unsafe {
            (
                _mm512_maskz_loadu_epi32(mask, a.add(at).cast()),
                _mm512_maskz_loadu_epi32(mask, b.add(at).cast()),
            )
        };
        counts = _mm512_add_epi32(counts, _mm512_popcnt_epi32(_mm512_xor_si512(a, b)));
        at += 16;
    }
    _mm512_reduce_add_epi32(counts) as u32
}
