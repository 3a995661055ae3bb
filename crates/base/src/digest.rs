// SPDX-License-Identifier: BSD-3-Clause
//! Digests as lowercase hexadecimal text, and comparison of secrets.
//!
//! SHA-1 names scripts (EVALSHA), SHA-256 stores passwords of ACL rules. Secrets are compared with
//! [`constant_time_eq`], never with `==`, whose duration reveals the number of correct bytes.

use sha1::Digest as _;

/// SHA-1 of `bytes` as 40 hexadecimal digits.
pub fn sha1_hex(bytes: &[u8]) -> [u8; 40] {
    hex(sha1::Sha1::digest(bytes).as_slice())
}

/// SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

/// SHA-256 of `bytes` as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> [u8; 64] {
    hex(&sha256(bytes))
}

/// Bytes as twice as many hexadecimal digits.
pub fn hex<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; LEN];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Equality test whose duration does not depend on where the inputs differ. Their lengths are not
/// kept secret.
pub fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut difference = 0;
    for (left, right) in left.iter().zip(right) {
        // The hint hides the sum from the optimiser, which could otherwise leave the loop early.
        difference = std::hint::black_box(difference | (left ^ right));
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_digests() {
        assert_eq!(&sha1_hex(b"abc"), b"a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(&sha1_hex(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(&sha256_hex(b"abc"), b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn comparison() {
        assert!(constant_time_eq(b"", b""));
        assert!(constant_time_eq(b"secret", b"secret"));
        assert!(!constant_time_eq(b"secret", b"secreT"));
        assert!(!constant_time_eq(b"Secret", b"secret"));
        assert!(!constant_time_eq(b"secret", b"secre"));
    }
}
