// SPDX-License-Identifier: BSD-3-Clause
//! Keys stored as whole structures: all but [plain strings](crate::plain). They are found by hash
//! in short buckets ([`crate::linear`]).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use braid_base::prefetch::{CACHE_LINE, prefetch};

use crate::key::Key;
use crate::linear;

/// Average number of keys in a bucket.
const FILL: usize = 8;

/// A key with its name.
#[derive(Clone, Debug)]
struct Named {
    name: Box<[u8]>,
    key: Key,
}

/// Keys, each with a tag from its hash, so that few names are compared.
#[derive(Clone, Debug, Default)]
struct Bucket(Vec<(u32, Box<Named>)>);

impl Bucket {
    fn find(&self, tag: u32, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|(one, named)| *one == tag && *named.name == *name)
    }

    /// Buckets are short, so they grow in small steps.
    fn push(&mut self, tag: u32, named: Box<Named>) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(2);
        }
        self.0.push((tag, named));
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others {
    buckets: Vec<Bucket>,
    len: usize,
    hasher: RandomState,
}

/// The upper half of a hash, which does not select the bucket.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Others {
    pub fn new(hasher: RandomState) -> Others {
        Others { hasher, ..Others::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The bucket of a name if there are `buckets` buckets.
    pub fn bucket_among(&self, name: &[u8], buckets: usize) -> usize {
        linear::index(self.hasher.hash_one(name), buckets)
    }

    fn find(&self, name: &[u8]) -> Option<(usize, usize)> {
        if self.len == 0 { None } else { self.find_hashed(self.hasher.hash_one(name), name) }
    }

    fn find_hashed(&self, hash: u64, name: &[u8]) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        let bucket = linear::index(hash, self.buckets.len());
        Some((bucket, self.buckets[bucket].find(tag(hash), name)?))
    }

    pub fn get(&self, name: &[u8]) -> Option<&Key> {
        let (bucket, at) = self.find(name)?;
        Some(&self.buckets[bucket].0[at].1.key)
    }

    /// [`Others::get`] for a name with a known hash.
    pub fn get_hashed(&self, hash: u64, name: &[u8]) -> Option<&Key> {
        let (bucket, at) = self.find_hashed(hash, name)?;
        Some(&self.buckets[bucket].0[at].1.key)
    }

    /// [`Others::get_mut`] for a name with a known hash.
    pub fn get_hashed_mut(&mut self, hash: u64, name: &[u8]) -> Option<&mut Key> {
        let (bucket, at) = self.find_hashed(hash, name)?;
        Some(&mut self.buckets[bucket].0[at].1.key)
    }

    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Key> {
        let (bucket, at) = self.find(name)?;
        Some(&mut self.buckets[bucket].0[at].1.key)
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// [`Others::has`] for a name with a known hash.
    pub fn has_hashed(&self, hash: u64, name: &[u8]) -> bool {
        self.find_hashed(hash, name).is_some()
    }

    fn bucket_of(&self, hash: u64) -> Option<&Bucket> {
        (!self.buckets.is_empty()).then(|| &self.buckets[linear::index(hash, self.buckets.len())])
    }

    /// Prefetches the bucket of a hash.
    pub fn prefetch_bucket(&self, hash: u64) {
        if let Some(bucket) = self.bucket_of(hash) {
            prefetch(bucket);
        }
    }

    /// Prefetches the list of keys in the bucket of a hash.
    pub fn prefetch_list(&self, hash: u64) {
        if let Some(bucket) = self.bucket_of(hash) {
            bucket.0.as_slice().chunks(4).for_each(|some| prefetch(some.as_ptr()));
        }
    }

    /// Prefetches the keys with the tag of a hash.
    pub fn prefetch_key(&self, hash: u64) {
        let list = self.bucket_of(hash).into_iter().flat_map(|bucket| &bucket.0);
        for (_, named) in list.filter(|(one, _)| *one == tag(hash)) {
            let start: *const Named = &**named;
            prefetch(start);
            prefetch(start.wrapping_byte_add(CACHE_LINE));
        }
    }

    /// Prefetches the name and the rare marks of the string with the tag of a hash.
    pub fn prefetch_marks(&self, hash: u64) {
        let list = self.bucket_of(hash).into_iter().flat_map(|bucket| &bucket.0);
        for (_, named) in list.filter(|(one, _)| *one == tag(hash)) {
            prefetch(named.name.as_ptr());
            named.key.prefetch_marks();
        }
    }

    /// Adds a key that does not exist.
    pub fn insert(&mut self, name: &[u8], key: Key) {
        if self.buckets.is_empty() {
            self.buckets.push(Bucket::default());
        }
        let hash = self.hasher.hash_one(name);
        let bucket = linear::index(hash, self.buckets.len());
        self.buckets[bucket].push(tag(hash), Box::new(Named { name: name.into(), key }));
        self.len += 1;
        if self.len > self.buckets.len() * FILL {
            self.grow();
        }
    }

    /// Adds a bucket, and moves to it the keys that belong there from the bucket that is split.
    fn grow(&mut self) {
        let new = self.buckets.len();
        let from = linear::split_by(new);
        let hasher = &self.hasher;
        let moves =
            |(_, named): &mut (u32, Box<Named>)| linear::index(hasher.hash_one(&*named.name), new + 1) == new;
        let moved: Vec<(u32, Box<Named>)> = self.buckets[from].0.extract_if(.., moves).collect();
        self.buckets[from].0.shrink_to_fit();
        self.buckets.push(Bucket(moved));
    }

    pub fn remove(&mut self, name: &[u8]) {
        let Some((bucket, at)) = self.find(name) else { return };
        let keys = &mut self.buckets[bucket].0;
        keys.swap_remove(at);
        if keys.len() < keys.capacity() / 2 {
            keys.shrink_to_fit();
        }
        self.len -= 1;
        if self.len == 0 {
            self.buckets = Vec::new();
        }
    }

    /// Changes every key, and keeps those for which `keeps` returns true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8], &mut Key) -> bool) {
        for bucket in &mut self.buckets {
            let before = bucket.0.len();
            bucket.0.retain_mut(|(_, named)| keeps(&named.name, &mut named.key));
            if bucket.0.len() < before {
                bucket.0.shrink_to_fit();
            }
            self.len -= before - bucket.0.len();
        }
        if self.len == 0 {
            self.buckets = Vec::new();
        }
    }

    /// All keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Key)> {
        self.buckets.iter().flat_map(|bucket| &bucket.0).map(|(_, named)| (&*named.name, &named.key))
    }

    /// The present keys whose names are in `bucket` if there are `among` buckets.
    pub fn of_part(&self, bucket: usize, among: usize) -> impl Iterator<Item = (&[u8], &Key)> {
        let now = self.buckets.len();
        let holders = linear::holders(bucket, among, now).into_iter();
        let all = holders.flat_map(|holder| &self.buckets[holder].0);
        let all = all.map(|(_, named)| (&*named.name, &named.key));
        all.filter(move |(name, _)| now >= among || self.bucket_among(name, among) == bucket)
    }

    /// The present keys whose names were in `bucket` when there were `then` buckets.
    pub fn of_bucket(&self, bucket: usize, then: usize) -> impl Iterator<Item = (&[u8], &Key)> {
        let family = linear::family(bucket, then, self.buckets.len()).into_iter();
        family.flat_map(|bucket| &self.buckets[bucket].0).map(|(_, named)| (&*named.name, &named.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use crate::stamp::{Region, Stamp};
    use std::collections::BTreeMap;

    fn key(position: u64) -> Key {
        let stamp = Stamp::of(Region::new(1).unwrap(), position).unwrap();
        Key::of_plain(Plain { stamp, time: None, value: b"" })
    }

    /// Random changes have the same effect as on a map, while buckets are split.
    #[test]
    fn keys_are_a_map() {
        let mut random = fastrand::Rng::with_seed(5);
        for names in [3_u64, 20, 5_000] {
            let (mut others, mut map) = (Others::default(), BTreeMap::<Vec<u8>, Key>::new());
            for position in 1..5 * names {
                let name = random.u64(0..names).to_string().into_bytes();
                if random.u8(0..4) == 0 {
                    others.remove(&name);
                    map.remove(&name);
                    continue;
                }
                match others.get_mut(&name) {
                    Some(there) => *there = key(position),
                    None => others.insert(&name, key(position)),
                }
                map.insert(name, key(position));
            }
            assert_eq!((others.len(), others.iter().count()), (map.len(), map.len()));
            assert!(map.iter().all(|(name, key)| others.get(name) == Some(key) && others.has(name)));
            for buckets in [1, others.buckets().div_ceil(2), others.buckets()] {
                let found: usize = (0..buckets).map(|one| others.of_bucket(one, buckets).count()).sum();
                assert_eq!(found, map.len());
            }
            let keeps = |name: &[u8]| name.last().is_some_and(|digit| digit % 2 == 0);
            others.retain(|name, _| keeps(name));
            map.retain(|name, _| keeps(name));
            assert_eq!((others.len(), others.iter().count()), (map.len(), map.len()));
            map.keys().for_each(|name| others.remove(name));
            assert!(others.len() == 0 && !others.has(b"0") && others.buckets() == 0);
        }
    }
}
