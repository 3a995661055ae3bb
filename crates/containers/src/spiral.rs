// SPDX-License-Identifier: BSD-3-Clause
//! The mapping from hashes to the segments of a table: spiral storage (G. N. N. Martin, 1979),
//! linear hashing without its waves.
//!
//! The member tables of sets, hashes and sorted sets split their segments in turn, as described
//! here. The keyspace, whose tables split where they are full, takes only the [`point`]s.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.
//!
//! A hash becomes a **point** between 0 and 1 (a fraction of 64 bits). Each of `m` segments has a
//! **name**, a number from `m` to `2m - 1`, and holds the points whose binary digits, after a
//! leading one, begin with those of its name. A segment is added by splitting the one with the
//! smallest name: `2m` and `2m + 1` replace `m`, which leaves the names `m + 1` to `2m + 1`.
//!
//! ```text
//! m = 5:   0        .25       .5        .75        1
//!          |1000|1001|   101   |   110   |   111   |   names, in binary: 8 9 5 6 7
//! m = 6:   |1000|1001|1010|1011|   110   |   111   |   5 was split
//! ```
//!
//! If points were spread evenly, splitting in turn would give all segments of a generation the same
//! number of members: all would grow through the allocator's size classes together, and leave
//! nearly empty pages of each class behind (at one time a third of a big hash's memory). Therefore
//! points are not spread evenly. They are twice as dense at 0, where the next segment is split, as
//! at 1, so that the fullest of the unsplit segments is always split next. At any moment the
//! segments' fill has the same distribution between half full and full, at any number of segments,
//! and a growing segment reuses the memory that the previous one has freed.

/// The point of a hash, as a fraction of 64 bits. A larger hash has a larger or equal point.
///
/// For a hash `x` between 0 and 1 it is `x (2 + x) / 3`: close enough to `2^x - 1`, which would be
/// exact. Both are twice as steep at 1 as at 0.
#[inline]
pub fn point(hash: u64) -> u64 {
    const THIRD: u64 = u64::MAX / 3;
    let product = |one: u64, other: u64| ((u128::from(one) * u128::from(other)) >> u64::BITS) as u64;
    product(hash, 2 * THIRD + product(hash, THIRD))
}

/// The name of the segment that contains a point, among `segments` (at least 1, less than 2^62).
#[inline]
pub fn name(point: u64, segments: usize) -> u64 {
    let level = segments.ilog2();
    let digits = 1 << 63 | point >> 1;
    let name = digits >> (63 - level);
    // Segments with smaller names are already split: use one more digit.
    if name < segments as u64 { digits >> (62 - level) } else { name }
}

/// The index of a segment in the table's list.
///
/// When a segment is split, the even half keeps its index and the odd half, `2m + 1`, is appended
/// at index `m`. Therefore an odd name's index is half the name (rounded down), and an even name's
/// index is that of the odd name from which appending zeros made it.
#[inline]
pub fn place(name: u64) -> usize {
    (name >> name.trailing_zeros() >> 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_place_and_each_point_a_name() {
        for segments in (1..300).chain([4095, 4096, 4097, 100_000]) {
            let mut taken = vec![false; segments];
            for name in segments..2 * segments {
                let place = place(name as u64);
                assert!(!std::mem::replace(&mut taken[place], true));
            }
            for point in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX] {
                let (before, after) = (name(point, segments), name(point, segments + 1));
                assert!((segments..2 * segments).contains(&(before as usize)));
                let is_split = before == segments as u64;
                assert_eq!(if is_split { after / 2 } else { after }, before, "{point} of {segments}");
                assert_eq!(place(after) == place(before), !is_split || after.is_multiple_of(2));
            }
        }
    }

    #[test]
    fn points_are_in_the_order_of_hashes_and_twice_as_dense_at_the_front() {
        assert_eq!(point(0), 0);
        assert!(point(u64::MAX) >= u64::MAX - 4);
        let step = u64::MAX >> 12;
        let points: Vec<u64> = (0..=1 << 12).map(|number| point(number * step)).collect();
        let widths: Vec<u64> = points.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(widths.is_sorted(), "less and less dense");
        let ratio = widths[widths.len() - 1] as f64 / widths[0] as f64;
        assert!((ratio - 2.0).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn segments_are_as_full_as_their_turn_is_near_at_any_number_of_them() {
        for segments in [64, 77, 90, 100, 111, 127, 128] {
            // The expected share of each segment relative to the mean, in the order of names.
            let mut counts = vec![0.0; segments];
            let samples = 1 << 18;
            for sample in 0..samples {
                counts[name(point(sample * (u64::MAX / samples)), segments) as usize - segments] += 1.0;
            }
            let mean = samples as f64 / segments as f64;
            let relative = |from: usize| counts[from] / mean;
            assert!((1.37..1.53).contains(&relative(0)), "{segments}: {}", relative(0));
            assert!((0.67..0.78).contains(&relative(segments - 1)), "{segments}: {}", relative(segments - 1));
            assert!((0.88..1.02).contains(&relative(segments / 2)), "{segments}: {}", relative(segments / 2));
        }
    }
}
