// SPDX-License-Identifier: BSD-3-Clause
//! A thread's own copies of long values that it reads again and again.
//!
//! A short value is read without a lock and without a write to anything shared (`Optimistic`), so
//! any number of threads read the same one as fast as different ones. A long one lies in memory of
//! its own that a writer may free, so it is read under the shard's lock and handed out by reference
//! count: four writes to lines that all its readers want. A thread that reads one often therefore
//! keeps a copy, which is good as long as the state of the shard is the one that it was copied in:
//! every change moves that on before it is answered.
//!
//! HOT PATH: [`HotCopies::find`] is part of each GET of a long value; it allocates nothing. Must
//! never answer without a state that was read in the present command, nor keep more than
//! [`BYTES_MAX`].

use braid_base::blob::Blob;
use braid_keyspace::txn::{KeyRef, State};

/// Values that are watched at a time. A power of two.
const PLACES: usize = 64;
/// Reads of a value, not interrupted by as many of others that share its place, before it is
/// copied, and again after each change. So at most a sixteenth of the reads copies.
const READS: u8 = 16;
/// Longer ones cost far more to send than to share.
const LONGEST: usize = 64 << 10;
/// All copies of a thread.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct Place {
    hash: u64,
    db: u32,
    /// Reads since the copy was made, or since another value had the place.
    reads: u8,
    /// Read since the last [`HotCopies::sweep`].
    used: bool,
    copy: Option<Copy>,
}

struct Copy {
    key: Box<[u8]>,
    state: State,
    value: Blob,
}

/// What there is for a key.
pub enum Found<'a> {
    /// Its value, as it is now.
    Copy(&'a Blob),
    /// Nothing, but it is read often enough for a copy.
    Wanted,
    /// Nothing.
    Nothing,
}

/// The copies of one thread.
#[derive(Default)]
pub struct HotCopies {
    /// [`PLACES`] of them, or none at all as long as nothing long was read.
    places: Box<[Place]>,
    /// Lengths of all values.
    bytes: usize,
}

impl HotCopies {
    /// What there is for a key whose shard is in this state, and one more read of it.
    pub fn find(&mut self, db: u32, key: &KeyRef<'_>, state: State) -> Found<'_> {
        if self.places.is_empty() {
            self.places = (0..PLACES).map(|_| Place::default()).collect();
        }
        let place = &mut self.places[key.hash as usize % PLACES];
        if (place.hash, place.db) != (key.hash, db) {
            if place.reads > 0 {
                place.reads -= 1;
                return Found::Nothing;
            }
            clear(place, &mut self.bytes);
            (place.hash, place.db) = (key.hash, db);
        }
        place.used = true;
        place.reads = place.reads.saturating_add(1);
        let is_good = |copy: &Copy| copy.state == state && *copy.key == *key.key;
        if place.copy.as_ref().is_some_and(|copy| !is_good(copy)) {
            clear(place, &mut self.bytes);
        }
        match &place.copy {
            Some(copy) => Found::Copy(&copy.value),
            None if place.reads >= READS => Found::Wanted,
            None => Found::Nothing,
        }
    }

    /// Keeps a copy of the value that a key has in this state. Nothing if it is too long, or there
    /// is no room.
    pub fn keep(&mut self, db: u32, key: &KeyRef<'_>, state: State, value: &Blob) -> Option<&Blob> {
        let place = self.places.get_mut(key.hash as usize % PLACES)?;
        clear(place, &mut self.bytes);
        place.reads = 0;
        if value.len() > LONGEST || self.bytes + value.len() > BYTES_MAX {
            return None;
        }
        (place.hash, place.db) = (key.hash, db);
        self.bytes += value.len();
        let copy = Copy { key: key.key.into(), state, value: Blob::from_slice(value) };
        Some(&place.copy.insert(copy).value)
    }

    /// Lets go of what was not read since the last time.
    pub fn sweep(&mut self) {
        for place in self.places.iter_mut().filter(|place| place.copy.is_some()) {
            if !std::mem::take(&mut place.used) {
                clear(place, &mut self.bytes);
                place.reads = 0;
            }
        }
    }
}

fn clear(place: &mut Place, bytes: &mut usize) {
    if let Some(copy) = place.copy.take() {
        *bytes -= copy.value.len();
        place.reads = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // States come from a keyspace alone: two of them, one after a change.
    fn states() -> (State, State) {
        use braid_base::hash::KeyHasher;
        use braid_keyspace::context::Context;
        use braid_keyspace::entry::Value;
        use braid_keyspace::keyspace::{Keyspace, Shape};
        use braid_keyspace::txn::{Expiry, Optimistic, Txn};
        let shape = Shape { shards: 1, databases: 1, threads: 1, threads_max: 1 };
        let keyspace = Keyspace::new(shape, KeyHasher::random());
        let mut context = Context::new(&keyspace, 0);
        let value = Blob::from_slice(&[b'v'; 5000]);
        let key = KeyRef { key: b"k", hash: keyspace.hash(b"k"), write: true };
        let mut state = || {
            let keys = [key];
            let mut txn = Txn::lock(&keyspace, &mut context, 0, 1000, &keys);
            txn.set(b"k", Value::Blob(value.clone()), Expiry::Clear);
            drop(txn);
            match keyspace.read_optimistic(&context, 0, 1000, &key, |_| unreachable!("it is long")) {
                Optimistic::Large(state) => state,
                other => panic!("{other:?}"),
            }
        };
        (state(), state())
    }

    #[test]
    fn what_is_read_often_is_kept_until_it_changes() {
        let (before, after) = states();
        assert_ne!(before, after);
        let mut copies = HotCopies::default();
        let (key, value) = (KeyRef { key: b"k", hash: 7, write: false }, Blob::from_slice(&[b'v'; 5000]));
        for _ in 1..READS {
            assert!(matches!(copies.find(0, &key, before), Found::Nothing));
        }
        assert!(matches!(copies.find(0, &key, before), Found::Wanted));
        assert!(copies.keep(0, &key, before, &value).is_some());
        assert!(matches!(copies.find(0, &key, before), Found::Copy(copy) if **copy == *value));
        let collides = KeyRef { key: b"other", ..key };
        assert!(matches!(copies.find(1, &key, before), Found::Nothing), "another database");
        assert!(matches!(copies.find(0, &key, before), Found::Copy(_)));
        assert!(!matches!(copies.find(0, &collides, before), Found::Copy(_)), "another key of the same hash");
        while !matches!(copies.find(0, &key, before), Found::Wanted) {}
        copies.keep(0, &key, before, &value);
        assert!(!matches!(copies.find(0, &key, after), Found::Copy(_)), "it has changed");
        assert_eq!(copies.bytes, 0);
    }

    #[test]
    fn what_is_not_read_any_more_goes_and_nothing_grows() {
        let (state, _) = states();
        let mut copies = HotCopies::default();
        let value = Blob::from_slice(&vec![b'v'; LONGEST]);
        let key = |hash| KeyRef { key: b"k", hash, write: false };
        let mut kept = 0;
        for hash in 0..PLACES as u64 {
            copies.find(0, &key(hash), state);
            kept += usize::from(copies.keep(0, &key(hash), state, &value).is_some());
        }
        assert_eq!((kept, copies.bytes), (BYTES_MAX / LONGEST, BYTES_MAX));
        let longer = Blob::from_slice(&vec![b'v'; LONGEST + 1]);
        assert!(copies.keep(0, &key(0), state, &longer).is_none());
        copies.sweep();
        copies.find(0, &key(5), state);
        copies.sweep();
        assert_eq!(copies.bytes, LONGEST);
        copies.sweep();
        assert_eq!(copies.bytes, 0);
    }
}
