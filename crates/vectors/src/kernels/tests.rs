// SPDX-License-Identifier: BSD-3-Clause
//! All kernels of this processor agree bit for bit, at all lengths.

use std::sync::atomic::AtomicU32;

use super::{available, best};

fn words(bits: impl Iterator<Item = u32>) -> Vec<AtomicU32> {
    bits.map(AtomicU32::new).collect()
}

#[test]
fn kernels_agree_bit_for_bit() {
    let mut random = fastrand::Rng::with_seed(46);
    for len in (0..140).chain([255, 256, 300, 768, 1536]) {
        let mut floats = || words((0..len).map(|_| (random.f32() * 2.0 - 1.0).to_bits()));
        let (a, b) = (floats(), floats());
        let (c, d) = (words((0..len).map(|_| random.u32(..))), words((0..len).map(|_| random.u32(..))));
        let all = available();
        for kernels in &all[1..] {
            let name = kernels.name;
            assert_eq!(kernels.dot_f32(&a, &b).to_bits(), all[0].dot_f32(&a, &b).to_bits(), "{name} {len}");
            assert_eq!(
                kernels.squares_f32(&a, &b).to_bits(),
                all[0].squares_f32(&a, &b).to_bits(),
                "{name} {len}"
            );
            assert_eq!(kernels.dot_i8(&c, &d), all[0].dot_i8(&c, &d), "{name} {len}");
            assert_eq!(kernels.differing_bits(&c, &d), all[0].differing_bits(&c, &d), "{name} {len}");
        }
    }
}

#[test]
fn extremes_do_not_overflow() {
    let low = words((0..16_384).map(|_| 0x8080_8080));
    let high = words((0..16_384).map(|_| 0x7f7f_7f7f));
    for kernels in available() {
        assert_eq!(kernels.dot_i8(&low, &low), 128 * 128 * 65_536, "{}", kernels.name);
        assert_eq!(kernels.dot_i8(&low, &high), -128 * 127 * 65_536, "{}", kernels.name);
        assert_eq!(kernels.dot_i8(&high, &low), -128 * 127 * 65_536, "{}", kernels.name);
        assert_eq!(kernels.differing_bits(&low, &high), 8 * 65_536, "{}", kernels.name);
    }
    assert!(!best().name.is_empty());
}
