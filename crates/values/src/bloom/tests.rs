// SPDX-License-Identifier: BSD-3-Clause
//! The false positive rate, and untrusted chunks.

use proptest::prelude::*;

use super::chunks::{HEADER, from_header, header, load_piece, piece_after};
use super::value::{Bloom, Refusal};

#[test]
fn false_positive_rate_stays_within_the_configured_error() {
    for (error, capacity, expansion) in [(0.01, 1_000, 2), (0.05, 100, 2), (0.001, 20_000, 0), (0.02, 500, 1)]
    {
        let mut bloom = Bloom::new(capacity, error, expansion).expect("a filter");
        let items = if expansion == 0 { capacity } else { 8 * capacity };
        let mut new = 0u64;
        for item in 0..items {
            new += u64::from(bloom.add(format!("in:{item}").as_bytes()).expect("room"));
        }
        assert_eq!(bloom.items(), new);
        assert!((0..items).all(|item| bloom.contains(format!("in:{item}").as_bytes())));
        let tries = 50_000;
        let wrong = (0..tries).filter(|item| bloom.contains(format!("out:{item}").as_bytes())).count();
        assert!((wrong as f64) < error * 1.2 * tries as f64, "{wrong} of {tries} at {error}");
    }
}

#[test]
fn a_shared_filter_stays_as_it_was() {
    let mut bloom = Bloom::new(200_000, 0.01, 2).expect("a filter");
    (0..1000).for_each(|item| _ = bloom.add(format!("{item}").as_bytes()));
    let (shared, before) = (bloom.cow(), header(&bloom));
    (1000..3000).for_each(|item| _ = bloom.add(format!("{item}").as_bytes()));
    assert_eq!(header(&shared), before);
    assert!((0..3000).all(|item| bloom.contains(format!("{item}").as_bytes())));
    let there = (1000..3000).filter(|item| shared.contains(format!("{item}").as_bytes())).count();
    assert!(there < 100, "{there} later items found in the shared filter");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn a_filter_goes_through_its_chunks(
        items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..200),
        capacity in 1u64..60, expansion in 0u32..4, most in 1usize..300,
    ) {
        let mut bloom = Bloom::new(capacity, 0.01, expansion).unwrap();
        for item in &items {
            if bloom.add(item) == Err(Refusal::Full) {
                break;
            }
        }
        let mut copy = from_header(&header(&bloom)).unwrap();
        let mut iterator = HEADER;
        while let Some((next, piece)) = piece_after(&bloom, iterator, most) {
            prop_assert!(load_piece(&mut copy, next, &piece));
            iterator = next;
        }
        prop_assert_eq!(header(&copy), header(&bloom));
        let blocks = |bloom: &Bloom| -> Vec<Vec<u8>> {
            bloom.layers().iter().flat_map(|layer| layer.segments()).map(<[u8]>::to_vec).collect()
        };
        prop_assert_eq!(blocks(&copy), blocks(&bloom));
    }

    #[test]
    fn damaged_headers_are_refused_or_harmless(at: prop::sample::Index, flip in 1u8.., cut: prop::sample::Index) {
        let good = header(&Bloom::new(50, 0.01, 2).unwrap());
        let mut bad = good.clone();
        *at.get_mut(&mut bad) ^= flip;
        if let Some(mut bloom) = from_header(&bad) {
            let _ = bloom.add(b"x");
            let _ = bloom.contains(b"y");
        }
        prop_assert!(from_header(&good[..cut.index(good.len())]).is_none());
    }
}
