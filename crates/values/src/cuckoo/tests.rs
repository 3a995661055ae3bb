// SPDX-License-Identifier: BSD-3-Clause
//! Items are found as long as they are there, few others are, and chunks are not trusted.

use proptest::prelude::*;

use super::chunks::{HEADER, from_header, header, load_piece, piece_after};
use super::value::{Cuckoo, ItemHash, Refusal, Shape};

fn item(number: u32) -> ItemHash {
    ItemHash::of(&number.to_le_bytes())
}

fn filter(capacity: u64, bucket: u16, expansion: u16) -> Cuckoo {
    Cuckoo::new(Shape::for_capacity(capacity, bucket, 20, expansion).expect("a shape")).expect("a filter")
}

#[test]
fn items_are_found_until_they_are_deleted() {
    for (bucket, expansion) in [(2, 1), (4, 2), (1, 4), (3, 1)] {
        let mut filter = filter(500, bucket, expansion);
        (0..4000).for_each(|number| filter.add(item(number)).expect("room"));
        assert!((0..4000).all(|number| filter.contains(item(number))));
        let rate = u32::from(bucket) * filter.layer_count() as u32 * 2;
        let wrong = (10_000..20_000).filter(|&number| filter.contains(item(number))).count() as u32;
        assert!(wrong < 10_000 * rate / 255 * 3 / 2, "{wrong} of 10000 at buckets of {bucket}");
        let deleted = (0..3000).filter(|&number| filter.delete(item(number))).count();
        assert_eq!((deleted, filter.items()), (3000, 1000));
        assert!((3000..4000).all(|number| filter.contains(item(number))));
        filter.compact(true);
        assert!((3000..4000).all(|number| filter.contains(item(number))));
        assert_eq!(filter.deleted(), 0);
    }
}

#[test]
fn a_filter_that_must_not_grow_becomes_full() {
    let mut filter = filter(64, 2, 0);
    let added = (0..200).take_while(|&number| filter.add(item(number)).is_ok()).count() as u32;
    assert!((40..=64).contains(&added), "{added} items");
    assert_eq!(filter.add(item(added)), Err(Refusal::Full));
    // What made room in vain is where it was.
    assert!((0..added).all(|number| filter.contains(item(number))));
    assert_eq!((filter.items(), filter.layer_count()), (added.into(), 1));
}

#[test]
fn a_shared_filter_stays_as_it_was() {
    let mut filter = filter(5000, 2, 1);
    (0..1000).for_each(|number| filter.add(item(number)).expect("room"));
    let shared = filter.cow();
    (0..1000).for_each(|number| _ = filter.delete(item(number)));
    assert!((0..1000).all(|number| shared.contains(item(number))));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn a_filter_goes_through_its_chunks(
        count in 0u32..300, capacity in 8u64..60, bucket in 1u16..4, expansion in 1u16..4, most in 1usize..300,
    ) {
        let mut filter = filter(capacity, bucket, expansion);
        (0..count).for_each(|number| _ = filter.add(item(number)));
        let mut copy = from_header(&header(&filter)).unwrap();
        let mut iterator = HEADER;
        while let Some((next, piece)) = piece_after(&filter, iterator, most) {
            prop_assert!(load_piece(&mut copy, next, &piece));
            iterator = next;
        }
        prop_assert_eq!(header(&copy), header(&filter));
        prop_assert_eq!(copy.read(0, 1 << 20), filter.read(0, 1 << 20));
        prop_assert!((0..count).all(|number| filter.contains(item(number)) == copy.contains(item(number))));
    }

    #[test]
    fn damaged_headers_are_refused_or_harmless(at: prop::sample::Index, flip in 1u8.., cut: prop::sample::Index) {
        let good = header(&filter(50, 2, 1));
        let mut bad = good.clone();
        *at.get_mut(&mut bad) ^= flip;
        if let Some(mut filter) = from_header(&bad) {
            let _ = filter.add(item(1));
            let _ = filter.contains(item(2));
        }
        prop_assert!(from_header(&good[..cut.index(good.len())]).is_none());
    }
}

/// Sub-filters of one byte each: their number alone takes memory.
#[test]
fn payloads_have_a_bounded_number_of_sub_filters() {
    let shape = Shape { buckets: 1, bucket_size: 1, iterations: 1, expansion: 1 };
    assert!(Cuckoo::empty_of(shape, u64::MAX, u64::MAX, 65_536).is_none());
    // Without a walk over all of them for each of them, which took 17 s here.
    let most = Cuckoo::empty_of(shape, 0, 0, 65_535).expect("a filter");
    assert_eq!((most.layer_count(), most.bytes_len()), (65_535, 65_535));
    let mut filter = Cuckoo::empty_of(shape, u64::MAX, u64::MAX, 2).expect("a filter");
    assert_eq!(filter.add(item(1)), Ok(()));
    assert_eq!(filter.items(), u64::MAX);
}
