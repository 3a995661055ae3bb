// SPDX-License-Identifier: BSD-3-Clause
//! Plain strings: keys that hold only a short string that has been written once, with or without
//! a time. Most keys are plain. All other keys are whole structures in [`crate::keys`].
//!
//! Buckets are found by hash ([`crate::linear`]). A string just written is in its bucket's
//! [block](crate::packed), with eleven bytes in addition to name and value. One that has not been
//! written for a while is *held* ([`Plains::hold`]): name, value and time are those of the
//! keyspace's entry, and only the stamp is kept here. A write puts it back into the block.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use braid_base::prefetch::prefetch;
use braid_keyspace::HeldString;
use smallvec::SmallVec;

use crate::linear;
use crate::packed::{Block, Entry, Span};
use crate::stamp::Stamp;

/// Limit for name and value of a plain string in a block, in bytes; longer ones would make blocks
/// slow to change.
const LEN_MAX: usize = 512;
/// Average number of strings in a bucket.
const FILL: usize = 8;
/// Size of a stamp or time, in bytes.
const WORD: usize = 8;

/// True if a string is short enough for a block.
pub(crate) fn fits_block(name: &[u8], value: &[u8]) -> bool {
    name.len() + value.len() <= LEN_MAX
}

/// A string and its marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plain<'p> {
    pub stamp: Stamp,
    /// The expiry time in Unix ms, given by the same write.
    pub time: Option<u64>,
    pub value: &'p [u8],
}

impl<'p> Plain<'p> {
    /// This module wrote the entry, so it parses.
    fn of(entry: Entry<'p>) -> Option<Plain<'p>> {
        let (stamp, mut value) = entry.content.split_first_chunk::<WORD>()?;
        let mut time = None;
        if entry.is_marked {
            let (until, rest) = value.split_first_chunk::<WORD>()?;
            (time, value) = (Some(u64::from_le_bytes(*until)), rest);
        }
        Some(Plain { stamp: Stamp::from_word(u64::from_le_bytes(*stamp))?, time, value })
    }

    /// True if the string is short enough for a block.
    pub fn fits(&self, name: &[u8]) -> bool {
        fits_block(name, self.value)
    }

    /// True if `string` has the same value and time.
    pub fn equals(&self, string: &HeldString) -> bool {
        self.value == string.value() && self.time == time_of(string)
    }
}

/// A string whose name, value and time are in the keyspace's entry.
#[derive(Debug)]
struct Held {
    stamp: Stamp,
    /// Tagged with bits of the name's hash.
    string: HeldString,
}

impl Held {
    fn plain(&self) -> Plain<'_> {
        Plain { stamp: self.stamp, time: time_of(&self.string), value: self.string.value() }
    }
}

fn time_of(string: &HeldString) -> Option<u64> {
    string.expiry().and_then(|at| u64::try_from(at).ok())
}

/// The bits of a hash that tell held strings apart; those that find the bucket are the low ones.
fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// The place of a string in its bucket, or its insertion point.
#[derive(Clone, Debug)]
enum Spot {
    Packed(Span),
    Held(usize),
}

impl Default for Spot {
    fn default() -> Spot {
        Spot::Packed(Span::default())
    }
}

impl Spot {
    fn is_there(&self) -> bool {
        match self {
            Spot::Packed(place) => place.is_there,
            Spot::Held(_) => true,
        }
    }
}

#[derive(Debug, Default)]
struct Bucket {
    packed: Block,
    held: Box<[Held]>,
}

impl Clone for Bucket {
    /// A copy that holds nothing.
    fn clone(&self) -> Bucket {
        let mut copy = Bucket { packed: self.packed.clone(), held: Box::default() };
        for held in &self.held {
            copy.put(held.string.key(), held.plain());
        }
        copy
    }
}

impl Bucket {
    fn find(&self, hash: u64, name: &[u8]) -> Spot {
        let place = self.packed.place_of(name);
        if place.is_there || self.held.is_empty() {
            return Spot::Packed(place);
        }
        let is_named = |held: &Held| held.string.tag() == tag_of(hash) && held.string.key() == name;
        self.held.iter().position(is_named).map_or(Spot::Packed(place), Spot::Held)
    }

    fn at(&self, spot: &Spot) -> Option<Plain<'_>> {
        match spot {
            Spot::Packed(place) => Plain::of(self.packed.at(place)?),
            Spot::Held(index) => Some(self.held[*index].plain()),
        }
    }

    /// Adds a string that is not held, or replaces it.
    fn put(&mut self, name: &[u8], plain: Plain<'_>) {
        let place = self.packed.place_of(name);
        self.put_at(&place, name, plain);
    }

    fn put_at(&mut self, place: &Span, name: &[u8], plain: Plain<'_>) -> Span {
        // Only marks of evicted keys can be longer.
        let mut content = SmallVec::<[u8; 2 * LEN_MAX]>::new();
        content.extend_from_slice(&plain.stamp.word().to_le_bytes());
        if let Some(time) = plain.time {
            content.extend_from_slice(&time.to_le_bytes());
        }
        content.extend_from_slice(plain.value);
        self.packed.put_at(place, Entry { name, is_marked: plain.time.is_some(), content: &content })
    }

    fn hold(&mut self, held: Held) {
        self.change_held(|all| all.push(held));
    }

    fn change_held<R>(&mut self, change: impl FnOnce(&mut Vec<Held>) -> R) -> R {
        let mut all = std::mem::take(&mut self.held).into_vec();
        all.reserve_exact(1);
        let result = change(&mut all);
        self.held = all.into_boxed_slice();
        result
    }

    fn remove(&mut self, spot: &Spot, name: &[u8]) {
        match spot {
            Spot::Packed(_) => drop(self.packed.remove(name)),
            Spot::Held(index) => drop(self.change_held(|all| all.swap_remove(*index))),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let held = self.held.iter().map(|held| (held.string.key(), held.plain()));
        self.packed.iter().filter_map(|entry| Some((entry.name, Plain::of(entry)?))).chain(held)
    }

    /// Keeps only the strings that `keeps` accepts. Returns the number of dropped ones.
    fn retain(&mut self, mut keeps: impl FnMut(&[u8], Plain<'_>) -> bool) -> usize {
        let gone = self.packed.retain(|entry| Plain::of(entry).is_some_and(|plain| keeps(entry.name, plain)));
        if self.held.is_empty() {
            return gone;
        }
        let had = self.held.len();
        self.change_held(|all| all.retain(|held| keeps(held.string.key(), held.plain())));
        gone + had - self.held.len()
    }

    /// Moves the strings that `moves` accepts to another bucket.
    fn split(&mut self, moves: impl Fn(&[u8]) -> bool) -> Bucket {
        let mut second = Bucket::default();
        self.packed.retain(|entry| {
            let moves = moves(entry.name);
            if moves {
                second.packed.put(entry);
            }
            !moves
        });
        if !self.held.is_empty() {
            let all = std::mem::take(&mut self.held).into_vec();
            let (gone, left): (Vec<Held>, Vec<Held>) =
                all.into_iter().partition(|held| moves(held.string.key()));
            (second.held, self.held) = (gone.into(), left.into());
        }
        second
    }
}

/// The place of a string, or its insertion point. Valid until something changes.
#[derive(Debug)]
pub(crate) struct PlainPlace {
    bucket: usize,
    spot: Spot,
}

/// The last lookup: the place of a name, or its insertion point.
#[derive(Clone, Debug, Default)]
struct Found {
    name: Vec<u8>,
    bucket: usize,
    spot: Spot,
    /// Nothing has changed since the lookup.
    is_current: bool,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Plains {
    buckets: Vec<Bucket>,
    len: usize,
    held: usize,
    hasher: RandomState,
    /// The last name looked up: an effect looks up its own several times.
    last: RefCell<Found>,
}

impl Clone for Plains {
    /// A copy that holds nothing.
    fn clone(&self) -> Plains {
        Plains { buckets: self.buckets.clone(), len: self.len, ..Plains::new(self.hasher.clone()) }
    }
}

impl Plains {
    pub fn new(hasher: RandomState) -> Plains {
        Plains { hasher, ..Plains::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of held strings.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The place of a name, or its insertion point. Requires at least one bucket.
    fn find(&self, name: &[u8]) -> (usize, Spot) {
        let mut last = self.last.borrow_mut();
        if !last.is_current || last.name != name {
            let hash = self.hasher.hash_one(name);
            last.bucket = linear::index(hash, self.buckets.len());
            last.spot = self.buckets[last.bucket].find(hash, name);
            last.name.clear();
            last.name.extend_from_slice(name);
            last.is_current = true;
        }
        (last.bucket, last.spot.clone())
    }

    /// Prefetches the bucket of a hash.
    pub fn prefetch_bucket(&self, hash: u64) {
        if let Some(bucket) = self.bucket_of(hash) {
            prefetch(&self.buckets[bucket]);
        }
    }

    /// Prefetches what the bucket of a hash points to.
    pub fn prefetch_strings(&self, hash: u64) {
        if let Some(bucket) = self.bucket_of(hash) {
            self.buckets[bucket].packed.prefetch();
            prefetch(self.buckets[bucket].held.as_ptr());
        }
    }

    fn bucket_of(&self, hash: u64) -> Option<usize> {
        (!self.buckets.is_empty()).then(|| linear::index(hash, self.buckets.len()))
    }

    /// The place of a name with this hash, or its insertion point; `None` if there are no buckets
    /// yet.
    pub fn place_of(&self, hash: u64, name: &[u8]) -> Option<PlainPlace> {
        let bucket = self.bucket_of(hash)?;
        Some(PlainPlace { bucket, spot: self.buckets[bucket].find(hash, name) })
    }

    /// The stamp of the string at a place.
    pub fn stamp_at(&self, at: &PlainPlace) -> Option<Stamp> {
        Some(self.buckets[at.bucket].at(&at.spot)?.stamp)
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The bucket of a name if there are `buckets` buckets.
    pub fn bucket_among(&self, name: &[u8], buckets: usize) -> usize {
        linear::index(self.hasher.hash_one(name), buckets)
    }

    pub fn get(&self, name: &[u8]) -> Option<Plain<'_>> {
        if self.buckets.is_empty() {
            return None;
        }
        let (bucket, spot) = self.find(name);
        self.buckets[bucket].at(&spot)
    }

    /// [`Plains::put`] of a name with this hash.
    pub fn put_hashed(&mut self, hash: u64, name: &[u8], plain: Plain<'_>) {
        self.make_bucket();
        if let Some(place) = self.place_of(hash, name) {
            self.put_at(&place, name, plain);
        }
    }

    /// Adds a string, or replaces the one with its name.
    pub fn put(&mut self, name: &[u8], plain: Plain<'_>) {
        self.make_bucket();
        let (bucket, spot) = self.find(name);
        self.last.get_mut().spot = self.put_in(bucket, &spot, name, plain);
        self.count_new(!spot.is_there());
    }

    /// [`Plains::put`] at a known place.
    pub fn put_at(&mut self, at: &PlainPlace, name: &[u8], plain: Plain<'_>) {
        self.last.get_mut().is_current = false;
        self.put_in(at.bucket, &at.spot, name, plain);
        self.count_new(!at.spot.is_there());
    }

    fn put_in(&mut self, bucket: usize, spot: &Spot, name: &[u8], plain: Plain<'_>) -> Spot {
        let bucket = &mut self.buckets[bucket];
        Spot::Packed(match spot {
            Spot::Packed(place) => bucket.put_at(place, name, plain),
            Spot::Held(_) => {
                bucket.remove(spot, name);
                self.held -= 1;
                let place = bucket.packed.place_of(name);
                bucket.put_at(&place, name, plain)
            }
        })
    }

    /// Holds `string` for the equal string of its name in a block. Returns false, and changes
    /// nothing, if there is no such string.
    pub fn hold(&mut self, string: HeldString) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let name = string.key();
        let (bucket, spot) = self.find(name);
        let plain = if let Spot::Packed(_) = spot { self.buckets[bucket].at(&spot) } else { None };
        let Some(stamp) = plain.filter(|plain| plain.equals(&string)).map(|plain| plain.stamp) else {
            return false;
        };
        self.buckets[bucket].remove(&spot, name);
        self.hold_in(bucket, stamp, string);
        true
    }

    /// Adds a string whose name is absent.
    pub fn hold_new(&mut self, stamp: Stamp, string: HeldString) {
        self.make_bucket();
        let bucket = self.bucket_among(string.key(), self.buckets.len());
        self.hold_in(bucket, stamp, string);
        self.count_new(true);
    }

    fn hold_in(&mut self, bucket: usize, stamp: Stamp, string: HeldString) {
        let tag = tag_of(self.hasher.hash_one(string.key()));
        self.buckets[bucket].hold(Held { stamp, string: string.with_tag(tag) });
        self.last.get_mut().is_current = false;
        self.held += 1;
    }

    fn make_bucket(&mut self) {
        if self.buckets.is_empty() {
            self.buckets.push(Bucket::default());
        }
    }

    fn count_new(&mut self, is_new: bool) {
        self.len += usize::from(is_new);
        if self.len > self.buckets.len() * FILL {
            self.grow();
        }
    }

    /// Adds a bucket, and moves to it the strings that belong there from the bucket that is split.
    fn grow(&mut self) {
        let new = self.buckets.len();
        let from = linear::split_by(new);
        let hasher = &self.hasher;
        self.last.get_mut().is_current = false;
        let second = self.buckets[from].split(|name| linear::index(hasher.hash_one(name), new + 1) == new);
        self.buckets.push(second);
    }

    pub fn remove(&mut self, name: &[u8]) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let (bucket, spot) = self.find(name);
        let was_there = spot.is_there();
        if was_there {
            self.buckets[bucket].remove(&spot, name);
            self.last.get_mut().is_current = false;
            self.held -= usize::from(matches!(spot, Spot::Held(_)));
            self.count_gone(1);
        }
        was_there
    }

    fn count_gone(&mut self, gone: usize) {
        self.len -= gone;
        if self.len == 0 {
            self.buckets = Vec::new();
        }
    }

    /// All strings, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        self.buckets.iter().flat_map(Bucket::iter)
    }

    /// The strings of a bucket that are not held.
    pub fn packed_of(&self, bucket: usize) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let entries = self.buckets.get(bucket).into_iter().flat_map(|bucket| bucket.packed.iter());
        entries.filter_map(|entry| Some((entry.name, Plain::of(entry)?)))
    }

    /// The present strings of the names that were in `bucket` when there were `then` buckets.
    pub fn of_bucket(&self, bucket: usize, then: usize) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let family = linear::family(bucket, then, self.buckets.len()).into_iter();
        family.flat_map(|bucket| self.buckets[bucket].iter())
    }

    /// The present strings of the names that are in `bucket` if there are `among` buckets.
    pub fn of_part(&self, bucket: usize, among: usize) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let now = self.buckets.len();
        let holders = linear::holders(bucket, among, now).into_iter();
        let all = holders.flat_map(|holder| self.buckets[holder].iter());
        all.filter(move |(name, _)| now >= among || self.bucket_among(name, among) == bucket)
    }

    /// Keeps only the strings that `keeps` accepts.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8], Plain<'_>) -> bool) {
        self.last.get_mut().is_current = false;
        let gone = self.buckets.iter_mut().map(|bucket| bucket.retain(&mut keeps)).sum();
        self.held = self.buckets.iter().map(|bucket| bucket.held.len()).sum();
        self.count_gone(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;
    use braid_base::alloc::size_class;
    use std::collections::BTreeMap;

    fn stamp(position: u64) -> Stamp {
        Stamp::of(Region::new(1).unwrap(), position).unwrap()
    }

    type Map = BTreeMap<Vec<u8>, (Stamp, Option<u64>, Vec<u8>)>;

    fn held(name: &[u8], value: &[u8], time: Option<u64>) -> Option<HeldString> {
        HeldString::alone(name, value, time.map(|time| time as i64))
    }

    /// Random changes have the same effect as on a map, while buckets are split and strings are
    /// held.
    #[test]
    fn plain_strings_are_a_map() {
        let mut random = fastrand::Rng::with_seed(5);
        for names in [3_u64, 20, 5_000] {
            let mut plains = Plains::default();
            let mut map = Map::new();
            let mut was_held = 0;
            for position in 1..8 * names {
                let name = random.u64(0..names).to_string().into_bytes();
                match random.u8(0..8) {
                    0 => {
                        assert_eq!(plains.remove(&name), map.remove(&name).is_some());
                        assert_eq!(plains.get(&name), None);
                        continue;
                    }
                    1..4 => {
                        let Some((stamp, time, value)) = map.get(&name) else { continue };
                        let other_time = time.map_or(Some(7), |_| None);
                        let others = [held(&name, b"another value", *time), held(&name, value, other_time)];
                        assert!(!others.into_iter().flatten().any(|other| plains.hold(other)));
                        let Some(string) = held(&name, value, *time) else { continue };
                        let before = plains.held();
                        let is_held = plains.hold(string);
                        assert_eq!(plains.held(), before + usize::from(is_held));
                        let again = held(&name, value, *time).is_some_and(|string| plains.hold(string));
                        assert!(!again, "it is held now");
                        let plain = Plain { stamp: *stamp, time: *time, value };
                        assert_eq!(plains.get(&name), Some(plain));
                        was_held += usize::from(is_held);
                        continue;
                    }
                    _ => {}
                }
                let other = random.u64(0..names).to_string().into_bytes();
                for name in [&name, &other, &name].into_iter().take(random.usize(0..4)) {
                    assert_eq!(plains.get(name).is_some(), map.contains_key(name));
                }
                let value = vec![b'v'; random.usize(0..500)];
                let time = random.bool().then_some(position);
                let plain = Plain { stamp: stamp(position), time, value: &value };
                let hash = plains.hasher.hash_one(&name[..]);
                match plains.place_of(hash, &name).filter(|_| random.bool()) {
                    Some(place) => {
                        let had = map.get(&name).map(|(stamp, ..)| *stamp);
                        assert_eq!(plains.stamp_at(&place), had);
                        plains.put_at(&place, &name, plain);
                    }
                    None => plains.put(&name, plain),
                }
                map.insert(name, (stamp(position), time, value));
            }
            assert!(was_held > 0 && plains.held() > 0);
            let check = |plains: &Plains, map: &Map| {
                assert_eq!(plains.len(), map.len());
                assert_eq!(plains.iter().count(), map.len());
                let of_buckets =
                    (0..plains.buckets()).flat_map(|bucket| plains.of_bucket(bucket, plains.buckets()));
                assert_eq!(of_buckets.count(), map.len());
                let packed = (0..plains.buckets()).flat_map(|bucket| plains.packed_of(bucket));
                assert_eq!(packed.count() + plains.held(), map.len());
                for (name, (stamp, time, value)) in map {
                    let plain = Plain { stamp: *stamp, time: *time, value };
                    assert_eq!(plains.get(name), Some(plain));
                }
            };
            check(&plains, &map);
            let copy = plains.clone();
            assert_eq!(copy.held(), 0);
            assert!(
                copy.iter().count() == map.len()
                    && copy.iter().all(|(name, plain)| plains.get(name) == Some(plain))
            );
            plains.retain(|_, plain| plain.time.is_some());
            map.retain(|_, (_, time, _)| time.is_some());
            check(&plains, &map);
            plains.retain(|_, _| false);
            assert!(plains.len() == 0 && plains.held() == 0 && plains.get(b"0").is_none());
        }
    }

    /// Memory per string in addition to name and value; if held, altogether.
    #[test]
    fn plain_strings_are_small() {
        const COUNT: usize = 200_000;
        let mut plains = Plains::default();
        let name = |number: usize| format!("key:{number:09}").into_bytes();
        let value = [b'v'; 32];
        for number in 0..COUNT {
            let plain = Plain { stamp: stamp(number as u64 + 1), time: None, value: &value };
            plains.put(&name(number), plain);
        }
        let all = |plains: &Plains| {
            let own = |bucket: &Bucket| {
                bucket.packed.capacity() + size_class(bucket.held.len() * size_of::<Held>())
            };
            plains.buckets.iter().map(own).sum::<usize>() + plains.buckets.len() * size_of::<Bucket>()
        };
        assert!(all(&plains) < COUNT * (13 + 32 + 24), "{}", all(&plains) / COUNT);
        for number in 0..COUNT {
            assert!(plains.hold(held(&name(number), &value, None).expect("a short string")));
        }
        assert!(all(&plains) < COUNT * 23, "{}", all(&plains) / COUNT);
    }
}
