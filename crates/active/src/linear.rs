// SPDX-License-Identifier: BSD-3-Clause
//! Linear hashing: maps a hash to one of a growing number of buckets. A table whose buckets are
//! full on average gets one more bucket, and only one bucket is split for it, so no change waits
//! for a whole table to be moved.

/// The bucket of a hash: the hash modulo the least power of two that is not below `buckets` if
/// that bucket exists, else the bucket that will be split to create it.
pub(crate) fn index(hash: u64, buckets: usize) -> usize {
    let mask = buckets.next_power_of_two() - 1;
    let index = hash as usize & mask;
    if index < buckets { index } else { hash as usize & (mask >> 1) }
}

/// The bucket to split when bucket `new` is added.
pub(crate) fn split_by(new: usize) -> usize {
    new & !(1 << (usize::BITS - 1 - new.leading_zeros()))
}

/// The buckets that now hold the entries `bucket` had when there were `then` buckets. Empty if
/// there are fewer buckets now: the table has been emptied meanwhile.
pub(crate) fn family(bucket: usize, then: usize, now: usize) -> Vec<usize> {
    if now < then || bucket >= now {
        return Vec::new();
    }
    let (mut all, mut at) = (vec![bucket], 0);
    while at < all.len() {
        let of = all[at];
        let mut bit = (of + 1).next_power_of_two();
        while of + bit < now {
            if of + bit >= then {
                all.push(of + bit);
            }
            bit <<= 1;
        }
        at += 1;
    }
    all
}

/// The buckets that now hold the entries that are in `bucket` if there are `among` buckets. With
/// fewer buckets than that, it is one that has others as well.
pub(crate) fn holders(bucket: usize, among: usize, now: usize) -> Vec<usize> {
    match now {
        0 => Vec::new(),
        _ if now < among => vec![index(bucket as u64, now)],
        _ => family(bucket, among, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket's former entries are all in its family, and families do not overlap.
    #[test]
    fn bucket_families_cover_all_former_entries_without_overlap() {
        let mut random = fastrand::Rng::with_seed(3);
        for then in 1..70 {
            for now in [then, then + 1, 2 * then + 1, 5 * then] {
                let families: Vec<Vec<usize>> = (0..then).map(|bucket| family(bucket, then, now)).collect();
                assert_eq!(families.iter().map(Vec::len).sum::<usize>(), now);
                for _ in 0..100 {
                    let hash = random.u64(..);
                    assert!(families[index(hash, then)].contains(&index(hash, now)));
                }
            }
        }
        assert!(family(3, 10, 9).is_empty());
    }

    /// The same with any number of buckets, which may be smaller.
    #[test]
    fn holders_have_all_entries_of_a_bucket() {
        let mut random = fastrand::Rng::with_seed(4);
        for among in 1..70 {
            for now in 1..150 {
                for _ in 0..50 {
                    let hash = random.u64(..);
                    let holders = holders(index(hash, among), among, now);
                    assert!(holders.contains(&index(hash, now)), "{hash} {among} {now}");
                    assert!(now >= among || holders.len() == 1);
                }
            }
            assert!(holders(0, among, 0).is_empty());
        }
    }

    #[test]
    fn a_new_bucket_takes_from_the_one_that_is_split() {
        for new in 1..200 {
            for hash in 0..1000 {
                let (before, after) = (index(hash, new), index(hash, new + 1));
                assert!(before == after || (after == new && before == split_by(new)));
            }
        }
    }
}
