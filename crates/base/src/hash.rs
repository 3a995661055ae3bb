// SPDX-License-Identifier: BSD-3-Clause
//! The keyed hash of keys: SipHash-1-3 with a key drawn at start, so that no client can provoke
//! collisions in a table.

use siphasher::sip::SipHasher13;

/// Hashes key names; one per keyspace.
#[derive(Clone, Copy)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// A hasher with a random key from the operating system.
    pub fn random() -> KeyHasher {
        let mut seed = [0u8; 16];
        getrandom::fill(&mut seed).expect("the operating system's random source works");
        KeyHasher::with_key(&seed)
    }

    /// A hasher with a key that depends on a text only.
    pub fn with_seed(seed: &[u8]) -> KeyHasher {
        let half = |number: u8| KeyHasher::with_key(&[number; 16]).hash(seed).to_le_bytes();
        let mut key = [0; 16];
        key[..8].copy_from_slice(&half(1));
        key[8..].copy_from_slice(&half(2));
        KeyHasher::with_key(&key)
    }

    /// A hasher with a given key, for reproducible tests.
    pub fn with_key(key: &[u8; 16]) -> KeyHasher {
        KeyHasher(SipHasher13::new_with_key(key))
    }

    /// The 64-bit hash of a key name.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }
}
