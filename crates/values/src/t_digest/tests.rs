// SPDX-License-Identifier: BSD-3-Clause
//! Estimates are close to the truth, closest near the extremes; reading changes nothing.

use super::value::{Centroid, Head, TDigest};

/// The numbers 0 to 9999 in an order without pattern.
fn shuffled() -> impl Iterator<Item = f64> {
    (0..10_000u64).map(|number| (number * 7919 % 10_000) as f64)
}

#[test]
fn estimates_are_close_to_the_truth() {
    let mut digest = TDigest::new(100).expect("a digest");
    shuffled().for_each(|number| digest.add(number));
    assert_eq!(digest.weight(), 10_000.0);
    assert!(digest.all_merged().merged().len() < 120);
    for (share, error) in [(0.0, 0.0), (0.001, 4.0), (0.01, 20.0), (0.5, 150.0), (0.99, 20.0), (1.0, 0.0)] {
        let truth = (share * 10_000.0f64).min(9999.0);
        assert!((digest.quantile(share) - truth).abs() <= error, "{share}: {}", digest.quantile(share));
        assert!((digest.share_below(truth) * 10_000.0 - truth).abs() <= error + 1.0, "{truth}");
    }
    assert!((digest.trimmed_mean(0.1, 0.9) - 4999.5).abs() < 30.0);
}

#[test]
fn reading_changes_nothing() {
    let mut digest = TDigest::new(100).expect("a digest");
    (0..50).for_each(|number| digest.add(f64::from(number)));
    let (head, waiting) = (digest.head(), digest.waiting().len());
    assert!((digest.quantile(0.5) - 24.5).abs() < 1.0);
    assert_eq!((digest.head(), digest.waiting().len()), (head, waiting));
    digest.add(1e6);
    assert_eq!(digest.quantile(1.0), 1e6);
}

#[test]
fn digests_of_few_numbers_have_answers() {
    let mut digest = TDigest::new(100).expect("a digest");
    assert!(digest.quantile(0.5).is_nan() && digest.share_below(1.0).is_nan());
    digest.add(5.0);
    assert_eq!([0.0, 0.5, 1.0].map(|share| digest.quantile(share)), [5.0; 3]);
    assert_eq!([4.0, 5.0, 6.0].map(|number| digest.share_below(number)), [0.0, 0.5, 1.0]);
    digest.reset();
    assert!(digest.is_without_numbers() && digest.quantile(0.5).is_nan());
}

#[test]
fn extreme_numbers_and_damaged_parts_are_harmless() {
    let mut digest = TDigest::new(1).expect("a digest");
    for number in [f64::MAX, -f64::MAX, 0.0, -0.0, f64::MIN_POSITIVE].into_iter().cycle().take(200) {
        digest.add(number);
    }
    for share in [0.0, 0.3, 0.7, 1.0] {
        let _ = (digest.quantile(share), digest.share_below(share), digest.trimmed_mean(0.0, share));
    }
    let head = Head { compression: 10, min: 0.0, max: 1.0, merges: 1 };
    let centroid = |mean, weight| Centroid { mean, weight };
    for merged in [
        vec![centroid(f64::NAN, 1.0)],
        vec![centroid(1.0, 0.0)],
        vec![centroid(1.0, f64::INFINITY)],
        vec![centroid(2.0, 1.0), centroid(1.0, 1.0)],
        vec![centroid(1.0, 1.0); 71],
    ] {
        assert!(TDigest::from_parts(head, merged, Vec::new()).is_none());
    }
    assert!(TDigest::new(0).is_none() && TDigest::new(u32::MAX).is_none());
}

#[test]
fn digests_are_joined() {
    let (mut left, mut right) = (TDigest::new(100).expect("a digest"), TDigest::new(100).expect("a digest"));
    (0..2000).for_each(|number| left.add(f64::from(number)));
    (2000..4000).for_each(|number| right.add(f64::from(number)));
    left.absorb(&right);
    assert_eq!((left.weight(), left.head().min, left.head().max), (4000.0, 0.0, 3999.0));
    assert!((left.quantile(0.5) - 2000.0).abs() < 60.0);
}
