// SPDX-License-Identifier: BSD-3-Clause
//! Redis's two checksums: CRC-16 maps keys to cluster slots, CRC-64 protects RDB files and DUMP
//! payloads.
//!
//! CRC-16 is the XMODEM variant (polynomial 0x1021, not reflected, initial value 0). CRC-64 uses
//! Jones's polynomial 0xad93d23594c935a9, reflected, initial value 0, no final inversion: check
//! value for "123456789" 0xe9c6d914c4b8d9ca. Long inputs use carry-less multiplication if the
//! processor supports it, short inputs a table.

use crc_fast::{CrcAlgorithm, Digest};

/// Number of hash slots of a cluster.
pub const HASH_SLOTS: u16 = 16384;

static CRC16_TABLES: [[u16; 256]; 8] = crc16_tables();

/// Table `n` advances a byte over `n` further zero bytes, so that eight bytes are looked up in
/// parallel.
const fn crc16_tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut remainder = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder >> 15;
            remainder = (remainder << 1) ^ (0x1021 * carry);
            bit += 1;
        }
        tables[0][index] = remainder;
        index += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut index = 0;
        while index < 256 {
            let shorter = tables[table - 1][index];
            tables[table][index] = (shorter << 8) ^ tables[0][(shorter >> 8) as usize];
            index += 1;
        }
        table += 1;
    }
    tables
}

/// CRC-16/XMODEM of `bytes`. In cluster mode each key is hashed here once; byte by byte, every
/// look-up would have to wait for the previous one.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let tables = &CRC16_TABLES;
    let (words, rest) = bytes.as_chunks::<8>();
    let by_words = words.iter().fold(0, |crc: u16, word| {
        let [high, low] = crc.to_be_bytes();
        tables[7][usize::from(word[0] ^ high)]
            ^ tables[6][usize::from(word[1] ^ low)]
            ^ tables[5][usize::from(word[2])]
            ^ tables[4][usize::from(word[3])]
            ^ tables[3][usize::from(word[4])]
            ^ tables[2][usize::from(word[5])]
            ^ tables[1][usize::from(word[6])]
            ^ tables[0][usize::from(word[7])]
    });
    rest.iter().fold(by_words, |crc, &byte| crc << 8 ^ tables[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// The part of a key that determines its slot: the text between the first `{` and the next `}`,
/// unless that is empty; otherwise the whole key.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let open = match key {
        [b'{', ..] => Some(0),
        _ => find_brace(key),
    };
    if let Some(open) = open {
        let behind = &key[open + 1..];
        match memchr::memchr(b'}', behind) {
            None | Some(0) => {}
            Some(close) => return &behind[..close],
        }
    }
    key
}

/// Maximum length of keys searched word by word. Longer keys are searched by vector code, whose
/// setup would cost more than the search of a short key.
const SHORT_KEY_MAX: usize = 64;

/// The index of the first `{`.
#[inline]
fn find_brace(key: &[u8]) -> Option<usize> {
    if key.len() > SHORT_KEY_MAX {
        return memchr::memchr(b'{', key);
    }
    let (words, rest) = key.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A byte that is 0 here causes a borrow; bytes above the lowest such byte may be false
        // matches.
        let differs = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'{'; 8]);
        let found =
            differs.wrapping_sub(u64::from_le_bytes([1; 8])) & !differs & u64::from_le_bytes([0x80; 8]);
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte == b'{').map(|at| 8 * words.len() + at)
}

/// The cluster slot of a key: 0 to 16383.
#[inline]
pub fn key_hash_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % HASH_SLOTS
}

const CRC64_POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
const CRC64_TABLES: [[u64; 256]; 8] = crc64_tables();

/// Table `n` advances a byte over `n` further zero bytes, so that eight bytes are looked up in
/// parallel.
const fn crc64_tables() -> [[u64; 256]; 8] {
    let polynomial = CRC64_POLYNOMIAL.reverse_bits();
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut remainder = index as u64;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder >> 1) ^ (polynomial * (remainder & 1));
            bit += 1;
        }
        tables[0][index] = remainder;
        index += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut index = 0;
        while index < 256 {
            let shorter = tables[table - 1][index];
            tables[table][index] = (shorter >> 8) ^ tables[0][(shorter & 0xff) as usize];
            index += 1;
        }
        table += 1;
    }
    tables
}

/// Length in bytes from which on the vector code is faster than the tables, despite its setup.
const CRC64_VECTOR_LEN_MIN: usize = 256;

/// Continues a CRC-64 over `bytes`; start with 0. `crc64(crc64(0, a), b)` is the checksum of `a`
/// followed by `b`.
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    if bytes.len() < CRC64_VECTOR_LEN_MIN {
        return crc64_by_table(crc, bytes);
    }
    // Without a start value and a final inversion, the checksum so far is the state to continue
    // from.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Redis, crc);
    digest.update(bytes);
    digest.finalize()
}

fn crc64_by_table(mut crc: u64, bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let mixed = (u64::from_le_bytes(word) ^ crc).to_le_bytes();
        crc = mixed
            .iter()
            .rev()
            .zip(&CRC64_TABLES)
            .fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)]);
    }
    chunks
        .remainder()
        .iter()
        .fold(crc, |crc, &byte| crc >> 8 ^ CRC64_TABLES[0][usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_check_values() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(0, b""), 0);
    }

    #[test]
    fn slots_follow_the_hash_tag() {
        assert_eq!(key_hash_slot(b"123456789"), 0x31c3);
        assert_eq!(key_hash_slot(b"foo"), 12182);
        assert_eq!(hash_tag(b"{user1000}.following"), b"user1000");
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"}{a"), b"}{a");
        assert_eq!(key_hash_slot(b"a{foo}b"), 12182);
    }

    /// Bit by bit, directly from the definition.
    fn crc64_model(bytes: &[u8]) -> u64 {
        let polynomial = CRC64_POLYNOMIAL.reverse_bits();
        bytes.iter().fold(0, |crc, &byte| {
            (0..8).fold(crc ^ u64::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 })
        })
    }

    /// Bit by bit, directly from the definition.
    fn crc16_model(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, &byte| {
            (0..8)
                .fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
        })
    }

    proptest! {
        #[test]
        fn crc16_of_any_length(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(crc16(&bytes), crc16_model(&bytes));
        }

        #[test]
        fn braces_are_found(key in proptest::collection::vec(0x79u8..0x7e, 0..100)) {
            prop_assert_eq!(find_brace(&key), key.iter().position(|&byte| byte == b'{'));
        }

        #[test]
        fn crc64_in_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..3000), cut in 0usize..3000) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let expected = crc64_model(&bytes);
            prop_assert_eq!(crc64(0, &bytes), expected);
            prop_assert_eq!(crc64(crc64(0, head), tail), expected);
            prop_assert_eq!(crc64_by_table(crc64(0, head), tail), expected);
        }
    }
}
