// SPDX-License-Identifier: BSD-3-Clause
//! Counts are never too low and rarely much too high; what leaves its range changes nothing.

use super::value::{CountMin, Refusal, Shape};

fn sketch(width: u64, depth: u64, cell: u8) -> CountMin {
    CountMin::new(Shape { width, depth, cell }).expect("a sketch")
}

#[test]
fn counts_are_at_least_the_true_ones() {
    let mut sketch = sketch(2000, 7, 4);
    for item in 0..3000i64 {
        sketch.add(format!("{item}").as_bytes(), item % 7 + 1).expect("room");
    }
    let over = (0..3000i64)
        .map(|item| (sketch.count(format!("{item}").as_bytes()), (item % 7 + 1) as u64))
        .inspect(|(count, truth)| assert!(count >= truth))
        .filter(|(count, truth)| count > &(truth + 8))
        .count();
    assert!(over < 60, "{over} of 3000 are far too high");
    assert_eq!(sketch.total(), (0..3000).map(|item| item % 7 + 1).sum::<i64>());
}

#[test]
fn what_leaves_its_range_changes_nothing() {
    for (cell, most) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff), (8, i64::MAX)] {
        let mut sketch = sketch(10, 3, cell);
        assert_eq!(sketch.add(b"a", most), Ok(most as u64));
        assert_eq!(sketch.add(b"a", 1), Err(Refusal::Overflow));
        assert_eq!(sketch.add(b"a", -most), Ok(0));
        assert_eq!(sketch.add(b"a", -1), Err(Refusal::Underflow));
        assert_eq!((sketch.total(), sketch.count(b"a")), (0, 0));
    }
    assert_eq!(CountMin::new(Shape { width: u64::MAX, depth: 2, cell: 4 }).err(), Some(Refusal::TooLarge));
    assert_eq!(CountMin::new(Shape { width: 1 << 40, depth: 1, cell: 1 }).err(), Some(Refusal::TooLarge));
}

#[test]
fn sums_are_weighted() {
    let (mut a, mut b) = (sketch(50, 3, 4), sketch(50, 3, 4));
    a.add(b"x", 5).expect("room");
    b.add(b"x", 2).expect("room");
    let merged = CountMin::merged(a.shape(), &[(&a, 3), (&b, -2)]).expect("a sum in range");
    assert_eq!((merged.count(b"x"), merged.total()), (11, 11));
    let negative = CountMin::merged(a.shape(), &[(&a, 1), (&b, -3)]);
    assert_eq!(negative.err(), Some(Refusal::MergeOverflow));
    let wide = sketch(50, 3, 8);
    assert_eq!(CountMin::merged(a.shape(), &[(&wide, 1)]).err(), Some(Refusal::OtherCells));
}
