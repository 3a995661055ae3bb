// SPDX-License-Identifier: BSD-3-Clause
//! The most frequent items are found, and counts are never too high.

use super::value::{Shape, TopK};

fn value(k: u64, width: u64, depth: u64, decay: f64) -> TopK {
    TopK::new(Shape { k, width, depth, decay }).expect("a value")
}

#[test]
fn frequent_items_are_found_among_many() {
    let mut top = value(10, 500, 5, 0.9);
    for round in 0..2000u32 {
        for frequent in 0..10u32 {
            if round % (frequent + 1) == 0 {
                top.add(format!("often{frequent}").as_bytes(), 1);
            }
        }
        (0..3).for_each(|rare| _ = top.add(format!("{round}-{rare}").as_bytes(), 1));
    }
    let found = (0..10).filter(|frequent| top.contains(format!("often{frequent}").as_bytes())).count();
    assert!(found >= 9, "{found} of 10");
    for frequent in 0..10u64 {
        let truth = 2000u64.div_ceil(frequent + 1);
        assert!(top.count(format!("often{frequent}").as_bytes()) <= truth, "often{frequent}");
    }
}

/// With a decay of 1 chance is certainty: the steps of Redis Stack 7.4 on one cell, measured.
#[test]
fn a_cell_is_lost_and_won_as_in_redis() {
    let mut top = value(2, 1, 1, 1.0);
    let steps = [
        ("a", 3, None, [3, 0, 0]),
        ("b", 2, None, [1, 0, 0]),
        ("b", 2, None, [0, 2, 0]),
        ("a", 1, None, [0, 0, 0]),
        ("a", 5, None, [5, 0, 0]),
        ("b", 1, None, [4, 0, 0]),
        ("c", 10, Some("b"), [0, 0, 7]),
        ("a", 1, None, [0, 0, 6]),
        ("b", 9, None, [0, 4, 0]),
        ("b", 10, Some("a"), [0, 14, 0]),
    ];
    for (item, by, expelled, counts) in steps {
        assert_eq!(top.add(item.as_bytes(), by).as_deref(), expelled.map(str::as_bytes), "{item} {by}");
        assert_eq!([b"a", b"b", b"c"].map(|item| top.count(item)), counts, "{item} {by}");
    }
}

#[test]
fn shapes_beyond_all_limits_are_refused() {
    for (k, width, depth, decay) in [
        (0, 8, 7, 0.9),
        (1, u64::MAX, 2, 0.9),
        (u64::MAX, 8, 7, 0.9),
        (1, 1 << 40, 1, 0.9),
        (1, 8, 7, f64::NAN),
        (1, 8, 7, 1.5),
    ] {
        assert!(TopK::new(Shape { k, width, depth, decay }).is_none());
    }
}
