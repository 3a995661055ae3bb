// SPDX-License-Identifier: BSD-3-Clause
//! Lengths in [blocks](crate::packed) and [ordered blocks](crate::ordered_block): varints of seven
//! bits a byte. Blocks are never read from a peer or a file.

/// The bytes that a number takes.
#[inline]
pub(crate) fn number_len(number: usize) -> usize {
    ((usize::BITS - (number | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Writes bytes to the front of `out`, and advances it.
#[inline]
pub(crate) fn put(out: &mut &mut [u8], bytes: &[u8]) {
    let (head, rest) = std::mem::take(out).split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    *out = rest;
}

/// [`put`] of a number.
pub(crate) fn put_number(out: &mut &mut [u8], mut number: usize) {
    while number >= 0x80 {
        put(out, &[number as u8 | 0x80]);
        number >>= 7;
    }
    put(out, &[number as u8]);
}
