// SPDX-License-Identifier: BSD-3-Clause
//! The inner loops of distances, chosen once for the processor.
//!
//! Every kernel gives the same bits on every processor, so that servers on different machines
//! build equal graphs from equal requests. Sums of integers are exact. A sum of floats has 32
//! lanes: lane `i` sums the products of elements `i`, `i + 32` ..., each product rounded before it
//! is added (no fused operations); then the upper half of the lanes is added to the lower half
//! until one is left.
//!
//! Words are `AtomicU32`, because a graph that many threads extend stores its vectors in such
//! words. A vector's words are written before the vector is published and never while it is in
//! use, so kernels read them as plain memory.
//!
//! Invariant of the `unsafe` code here and below: each kernel reads exactly `words` words from
//! both pointers, unaligned, and is only called through [`Kernels`], which takes slices of equal
//! length and holds a kernel only if the processor has the instructions that it was compiled for.

#[cfg(target_arch = "aarch64")]
mod arm;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

/// Number of lanes of a sum of floats.
const LANES: usize = 32;

type FloatKernel = unsafe fn(*const u32, *const u32, usize) -> f32;
type CountKernel = unsafe fn(*const u32, *const u32, usize) -> u32;
type IntegerKernel = unsafe fn(*const u32, *const u32, usize) -> i32;

/// The kernels for one kind of processor.
pub struct Kernels {
    /// The instructions that these kernels use.
    #[cfg_attr(not(test), expect(dead_code))]
    pub name: &'static str,
    dot_f32: FloatKernel,
    squares_f32: FloatKernel,
    dot_i8: IntegerKernel,
    differing_bits: CountKernel,
}

static PLAIN: Kernels = Kernels {
    name: "plain",
    dot_f32: plain::dot_f32,
    squares_f32: plain::squares_f32,
    dot_i8: plain::dot_i8,
    differing_bits: plain::differing_bits,
};

/// All kernels that this processor can run, best last.
pub fn available() -> Vec<&'static Kernels> {
    let mut found = vec![&PLAIN];
    #[cfg(target_arch = "x86_64")]
    found.extend(x86::available());
    #[cfg(target_arch = "aarch64")]
    found.extend(arm::available());
    found
}

/// The best kernels that this processor can run.
pub fn best() -> &'static Kernels {
    static BEST: OnceLock<&'static Kernels> = OnceLock::new();
    BEST.get_or_init(|| available().pop().expect("the plain kernels at least"))
}

#[inline]
fn pointers(a: &[AtomicU32], b: &[AtomicU32]) -> (*const u32, *const u32, usize) {
    assert_eq!(a.len(), b.len(), "vectors of one graph have one size");
    (a.as_ptr().cast(), b.as_ptr().cast(), a.len())
}

impl Kernels {
    /// Sum of the products of two vectors of floats.
    #[inline]
    pub fn dot_f32(&self, a: &[AtomicU32], b: &[AtomicU32]) -> f32 {
        let (a, b, words) = pointers(a, b);
        // SAFETY: both are valid for `words` words, which nobody writes now (module head).
        unsafe { (self.dot_f32)(a, b, words) }
    }

    /// Sum of the squared differences of two vectors of floats.
    #[inline]
    pub fn squares_f32(&self, a: &[AtomicU32], b: &[AtomicU32]) -> f32 {
        let (a, b, words) = pointers(a, b);
        // SAFETY: as above.
        unsafe { (self.squares_f32)(a, b, words) }
    }

    /// Sum of the products of two vectors of signed bytes, four to a word.
    #[inline]
    pub fn dot_i8(&self, a: &[AtomicU32], b: &[AtomicU32]) -> i32 {
        let (a, b, words) = pointers(a, b);
        // SAFETY: as above.
        unsafe { (self.dot_i8)(a, b, words) }
    }

    /// Number of bits in which two vectors differ.
    #[inline]
    pub fn differing_bits(&self, a: &[AtomicU32], b: &[AtomicU32]) -> u32 {
        let (a, b, words) = pointers(a, b);
        // SAFETY: as above.
        unsafe { (self.differing_bits)(a, b, words) }
    }
}
