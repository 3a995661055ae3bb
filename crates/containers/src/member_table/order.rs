// SPDX-License-Identifier: BSD-3-Clause
//! Which segment a hash belongs to: spiral storage (G. N. N. Martin, 1979), linear hashing without
//! its waves.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.
//!
//! A hash is made a **point** between 0 and 1 (a fraction of 64 bits). Of `m` segments each has a
//! **name**, a number from `m` to `2m - 1`, and holds the points whose binary digits, behind a
//! leading one, begin with those of its name. Another segment is added by splitting the one with
//! the smallest name: `m` goes, `2m` and `2m + 1` come, which leaves the names `m + 1` to `2m + 1`.
//!
//! ```text
//! m = 5:   0        .25       .5        .75        1
//!          |1000|1001|   101   |   110   |   111   |   names, in binary: 8 9 5 6 7
//! m = 6:   |1000|1001|1010|1011|   110   |   111   |   5 was split
//! ```
//!
//! Splitting in turn, all segments of a generation would have the same number of members if points
//! were spread evenly: all would grow through the sizes of the allocator together, and leave nearly
//! empty pages of each size behind (a third of a big hash's memory, once). So points are not spread
//! evenly. They are twice as dense at 0, where the next segment is split, as at 1, so that those
//! not yet split are full in the order in which their turns come: the fullest next. At any moment
//! the segments' fill is spread in the same way between a half-full and a full one, however many
//! there are, and a growing segment reuses the memory that the previous one has left.

/// The point of a hash, as a fraction of 64 bits. A larger hash has a larger point (or the same).
///
/// For a hash `x` between 0 and 1 it is `x (2 + x) / 3`: near enough to `2^x - 1`, which would be
/// exact, and with the same slopes at both ends up to a factor of two.
#[inline]
pub fn point(hash: u64) -> u64 {
    const THIRD: u64 = u64::MAX / 3;
    let product = |one: u64, other: u64| ((u128::from(one) * u128::from(other)) >> u64::BITS) as u64;
    product(hash, 2 * THIRD + product(hash, THIRD))
}

/// The name of the segment in which a point lies, of `segments` (at least one, less than 2^62).
#[inline]
pub fn name(point: u64, segments: usize) -> u64 {
    let level = segments.ilog2();
    let digits = 1 << 63 | point >> 1;
    let name = digits >> (63 - level);
    // Smaller names are split already: one digit more.
    if name < segments as u64 { digits >> (62 - level) } else { name }
}

/// The place of a segment in the table's list.
///
/// Of the two parts of a split one, the even one stays in its place and the odd one, `2m + 1`,
/// comes last, at `m`. So an odd name stands at its half, and an even one where the name stood from
/// which zeros made it.
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
            // The expected share of each segment, in the order of names, to the mean.
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
