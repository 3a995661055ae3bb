// SPDX-License-Identifier: BSD-3-Clause
//! Prefetching: asks the processor to load memory that will be needed soon. Only a hint: never a
//! read, never a fault.

/// Bytes per cache line, the unit of a prefetch.
pub const CACHE_LINE: usize = 64;

/// Starts fetching the cache line at any address.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

/// Starts fetching the cache line at any address for writing: other cores lose their copies.
#[inline]
pub fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(address.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}
