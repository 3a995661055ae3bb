// SPDX-License-Identifier: BSD-3-Clause
//! Kernels without special instructions: the definition that the others must equal bit for bit.

use super::LANES;

/// Adds the upper half of the lanes to the lower half until one is left.
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// # Safety
/// Both pointers are valid for `words` words.
#[inline]
unsafe fn sum(a: *const u32, b: *const u32, words: usize, term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for at in 0..words {
        // SAFETY: within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (a.add(at).read_unaligned(), b.add(at).read_unaligned()) };
        lanes[at % LANES] += term(f32::from_bits(a), f32::from_bits(b));
    }
    fold(lanes)
}

pub(super) unsafe fn dot_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { sum(a, b, words, |a, b| a * b) }
}

pub(super) unsafe fn squares_f32(a: *const u32, b: *const u32, words: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { sum(a, b, words, |a, b| (a - b) * (a - b)) }
}

pub(super) unsafe fn dot_i8(a: *const u32, b: *const u32, words: usize) -> i32 {
    let (a, b) = (a.cast::<i8>(), b.cast::<i8>());
    let mut total = 0i32;
    for at in 0..words * 4 {
        // SAFETY: within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (a.add(at).read(), b.add(at).read()) };
        total = total.wrapping_add(i32::from(a) * i32::from(b));
    }
    total
}

pub(super) unsafe fn differing_bits(a: *const u32, b: *const u32, words: usize) -> u32 {
    let mut total = 0;
    for at in 0..words {
        // SAFETY: within `words`, guaranteed by the caller.
        let (a, b) = unsafe { (a.add(at).read_unaligned(), b.add(at).read_unaligned()) };
        total += (a ^ b).count_ones();
    }
    total
}
