// SPDX-License-Identifier: BSD-3-Clause
//! TLS sessions for resumption, stored by the server or in a client's ticket. Each starts with
//! its creation time in seconds and expires after `tls-session-cache-timeout`.

use std::fmt;
use std::sync::Arc;

use rustls::server::{ProducesTickets, StoresServerSessions};

/// A session store or ticket encryption, and the lifetime of sessions in seconds.
pub struct Timed<T: ?Sized> {
    pub inner: Arc<T>,
    pub seconds: u32,
}

const STAMP: usize = size_of::<i64>();

impl<T: ?Sized> Timed<T> {
    fn stamped(session: &[u8]) -> Vec<u8> {
        [&now().to_le_bytes()[..], session].concat()
    }

    fn if_fresh(&self, stamped: &[u8]) -> Option<Vec<u8>> {
        let (stamp, session) = stamped.split_at_checked(STAMP)?;
        let age = now().checked_sub(i64::from_le_bytes(stamp.try_into().ok()?))?;
        (0..i64::from(self.seconds)).contains(&age).then(|| session.to_vec())
    }
}

fn now() -> i64 {
    braid_base::clock::unix_ms() / 1000
}

impl<T: ?Sized> fmt::Debug for Timed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sessions for {} seconds", self.seconds)
    }
}

impl StoresServerSessions for Timed<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, Self::stamped(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_fresh(&self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_fresh(&self.inner.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

impl ProducesTickets for Timed<dyn ProducesTickets> {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime().min(self.seconds)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&Self::stamped(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.if_fresh(&self.inner.decrypt(cipher)?)
    }
}
