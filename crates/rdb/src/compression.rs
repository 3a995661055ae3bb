// SPDX-License-Identifier: BSD-3-Clause
//! String compression that stops trying on incompressible data.
//!
//! An attempt takes several times as long as writing a string uncompressed, and is wasted on
//! images, ciphertext and data that clients have already compressed. Therefore after [`RUN`]
//! failures in a row only a sample is tried, smaller and smaller, until one string of the sample
//! shrinks. Strings are classified by length (names and values differ, say): failures with short
//! strings say nothing about long ones, where more is to be gained.
//!
//! The loss is bounded: fewer than [`EVERY_MAX`] strings of a class after their content changes,
//! and a few compressible strings that are rare among incompressible ones.

use braid_containers::lzf;

/// Failures in a row after which fewer strings are tried.
const RUN: u32 = 128;
/// Failures in a row after which still fewer are tried.
const SAMPLE_RUN: u32 = 8;
/// At least one string of this many is tried.
const EVERY_MAX: u32 = 32;

/// The compressor of one writer.
pub(crate) struct Compressor {
    lzf: lzf::Compressor,
    /// Indexed by the number of bits of the string's length.
    kinds: [Luck; 32],
}

/// Success history of one class of strings.
#[derive(Clone, Copy)]
struct Luck {
    /// One string of this many is tried.
    every: u32,
    /// Strings skipped since the last attempt.
    left_out: u32,
    /// Failed attempts in a row.
    in_vain: u32,
}

impl Luck {
    const NEW: Luck = Luck { every: 1, left_out: 0, in_vain: 0 };

    /// Whether to try the next string.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.left_out += 1;
        self.left_out >= self.every
    }

    fn note(&mut self, shrank: bool) {
        if shrank {
            *self = Luck::NEW;
            return;
        }
        self.left_out = 0;
        self.in_vain += 1;
        if self.in_vain >= if self.every == 1 { RUN } else { SAMPLE_RUN } {
            self.in_vain = 0;
            self.every = (2 * self.every).min(EVERY_MAX);
        }
    }
}

impl Compressor {
    pub(crate) fn new() -> Compressor {
        Compressor { lzf: lzf::Compressor::new(), kinds: [Luck::NEW; 32] }
    }

    /// Compresses `text` to fewer than `most` bytes; `None` if it does not shrink enough or is
    /// skipped.
    #[inline]
    pub(crate) fn compress(&mut self, text: &[u8], most: usize) -> Option<&[u8]> {
        let bits = (usize::BITS - text.len().leading_zeros()) as usize;
        let luck = &mut self.kinds[bits.min(self.kinds.len() - 1)];
        if !luck.is_due() {
            return None;
        }
        let compressed = self.lzf.compress(text, most);
        luck.note(compressed.is_some());
        compressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
        (0..len).map(|_| random.u8(..)).collect()
    }

    fn tries(compressor: &mut Compressor, texts: &[Vec<u8>]) -> Vec<bool> {
        let tried = |text: &Vec<u8>| {
            let bits = (usize::BITS - text.len().leading_zeros()) as usize;
            let before = (compressor.kinds[bits].in_vain, compressor.kinds[bits].every);
            let shrank = compressor.compress(text, text.len() - 3).is_some();
            shrank || before != (compressor.kinds[bits].in_vain, compressor.kinds[bits].every)
        };
        texts.iter().map(tried).collect()
    }

    /// Bytes written for these texts, not counting length fields.
    fn size(texts: &[Vec<u8>], mut compress: impl FnMut(&[u8], usize) -> Option<usize>) -> usize {
        texts.iter().map(|text| compress(text, text.len() - 3).unwrap_or(text.len())).sum()
    }

    fn sizes(texts: &[Vec<u8>]) -> (usize, usize) {
        let (mut adaptive, mut always) = (Compressor::new(), lzf::Compressor::new());
        let adaptively = size(texts, |text, most| adaptive.compress(text, most).map(<[u8]>::len));
        (adaptively, size(texts, |text, most| always.compress(text, most).map(<[u8]>::len)))
    }

    #[test]
    fn compression_is_rarely_tried_on_incompressible_data() {
        let random = &mut fastrand::Rng::with_seed(1);
        let texts: Vec<_> = (0..10_000).map(|_| noise(random, 500)).collect();
        let tried = tries(&mut Compressor::new(), &texts);
        assert!(tried[..RUN as usize].iter().all(|tried| *tried));
        let count = tried.iter().filter(|tried| **tried).count();
        assert!((400..500).contains(&count), "{count} of 10,000");
    }

    #[test]
    fn the_first_of_a_sample_that_shrinks_brings_all_back() {
        let random = &mut fastrand::Rng::with_seed(2);
        let mut compressor = Compressor::new();
        tries(&mut compressor, &(0..10_000).map(|_| noise(random, 500)).collect::<Vec<_>>());
        let texts = vec![b"abcdefgh".repeat(60); 100];
        let compressed: Vec<bool> =
            texts.iter().map(|text| compressor.compress(text, text.len() - 3).is_some()).collect();
        let first = compressed.iter().position(|done| *done).expect("compression resumes");
        assert!(first < EVERY_MAX as usize && compressed[first..].iter().all(|done| *done), "{first}");
    }

    #[test]
    fn adaptive_compression_keeps_the_compression_ratio() {
        let random = &mut fastrand::Rng::with_seed(3);
        // All, half and a tenth of the strings, at random, are compressible.
        let text =
            |random: &mut fastrand::Rng| format!("{{\"user\":{},\"user\":0}}", random.u8(..)).repeat(9);
        for (name, share) in [("all", 1.0), ("half", 0.5), ("a tenth", 0.1)] {
            let texts: Vec<_> = (0..20_000)
                .map(|_| if random.f64() < share { text(random).into_bytes() } else { noise(random, 220) })
                .collect();
            let (adaptively, always) = sizes(&texts);
            assert!(adaptively <= always + always / 1000, "{name}: {adaptively} instead of {always}");
        }
    }

    #[test]
    fn adaptive_compression_loss_is_bounded() {
        let random = &mut fastrand::Rng::with_seed(4);
        for share in [0.05, 0.03, 0.02, 0.01, 0.005, 0.001] {
            let texts: Vec<_> = (0..50_000)
                .map(|_| if random.f64() < share { vec![b'x'; 250] } else { noise(random, 250) })
                .collect();
            let (adaptively, always) = sizes(&texts);
            assert!(adaptively * 50 <= always * 51, "{share}: {adaptively} instead of {always}");
        }
        // Alternating runs: at most `EVERY_MAX` strings of each are lost.
        let texts: Vec<_> = (0..64)
            .flat_map(|run| {
                (0..1000)
                    .map(|_| if run % 2 == 0 { noise(random, 250) } else { vec![b'x'; 250] })
                    .collect::<Vec<_>>()
            })
            .collect();
        let (adaptively, always) = sizes(&texts);
        assert!(adaptively <= always + 32 * 250 * EVERY_MAX as usize, "{adaptively} instead of {always}");
    }

    #[test]
    fn other_lengths_are_another_kind() {
        let random = &mut fastrand::Rng::with_seed(5);
        let mut compressor = Compressor::new();
        for _ in 0..10_000 {
            assert_eq!(compressor.compress(&noise(random, 40), 37), None);
            let long = b"abcdefgh".repeat(60);
            assert!(compressor.compress(&long, 400).is_some());
        }
        assert!(compressor.compress(&vec![b'x'; 100_000], 50_000).is_some());
    }
}
