// SPDX-License-Identifier: BSD-3-Clause
//! A unit: the changes of one command, transaction or script, as the requests that repeat them.
//!
//! HOT PATH: no allocation once the buffer has grown to the size of a thread's commands, no lock,
//! no system call.

use braid_resp::request;

/// Buffer memory that a thread keeps between units, in bytes.
const KEPT_BYTES: usize = 64 << 10;

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Whether the finished command's own arguments are journalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stated {
    /// They are journalled if the command has changed something.
    #[default]
    Nothing,
    /// They are not journalled: the command has journalled other requests, or nothing.
    Requests,
    /// They are journalled although nothing has changed: the command added an element that
    /// already existed.
    Addition,
}

/// Requests that take effect together. Several become a transaction (MULTI ... EXEC) in the log.
#[derive(Default)]
pub struct Unit {
    bytes: Vec<u8>,
    requests: u32,
    /// The databases of the first and the last request.
    first_db: u32,
    db: u32,
    /// Set by the present command.
    stated: Stated,
    /// Requests after the unit that only some readers see.
    pub(crate) asides: Vec<u8>,
}

impl Unit {
    /// True if no request has been added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Adds a request for a database.
    #[inline]
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        self.begin_request(db);
        request::push(&mut self.bytes, args);
    }

    /// [`Unit::push`] for a command that does not journal its own arguments; see
    /// [`Unit::take_stated`].
    pub fn push_explicit(&mut self, db: u32, args: &[&[u8]]) {
        self.stated = Stated::Requests;
        self.push(db, args);
    }

    /// Adds a request that only replicas see
    /// ([`Journal::append_aside`](crate::Journal::append_aside)), after the unit's changes have
    /// been applied there. The unit must not be empty.
    pub fn push_aside(&mut self, args: &[&[u8]]) {
        debug_assert!(self.requests > 0, "asides without a change are appended directly");
        request::push(&mut self.asides, args);
    }

    /// The present command does not journal its own arguments, but other requests or none.
    pub fn set_explicit(&mut self) {
        self.stated = Stated::Requests;
    }

    /// The present command journals its own arguments, whether or not it changes anything.
    pub fn set_addition(&mut self) {
        self.stated = Stated::Addition;
    }

    /// Returns and resets what the finished command has stated.
    #[inline]
    pub fn take_stated(&mut self) -> Stated {
        std::mem::take(&mut self.stated)
    }

    #[inline]
    fn begin_request(&mut self, db: u32) {
        if self.requests == 0 {
            self.first_db = db;
        } else if self.db != db {
            push_select(&mut self.bytes, db);
        }
        self.db = db;
        self.requests += 1;
    }

    /// The encoded requests, without MULTI and EXEC.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn databases(&self) -> (u32, u32) {
        (self.first_db, self.db)
    }

    /// Empties the unit.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.requests = 0;
        self.stated = Stated::Nothing;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// Appends a SELECT of a database.
pub fn push_select(out: &mut Vec<u8>, db: u32) {
    request::push(out, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_another_database_chooses_it() {
        let mut unit = Unit::default();
        unit.push(3, &[b"A"]);
        unit.push(3, &[b"B"]);
        unit.push(0, &[b"C"]);
        assert_eq!(unit.databases(), (3, 0));
        assert_eq!(
            unit.bytes(),
            b"*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$1\r\nC\r\n"
        );
        unit.clear();
        assert!(unit.is_empty());
    }

    #[test]
    fn stated_effects_apply_to_a_single_command() {
        let mut unit = Unit::default();
        unit.push(0, &[b"A"]);
        assert_eq!(unit.take_stated(), Stated::Nothing);
        unit.push_explicit(0, &[b"B"]);
        assert_eq!(unit.take_stated(), Stated::Requests);
        unit.set_addition();
        assert_eq!(unit.take_stated(), Stated::Addition);
        assert_eq!(unit.take_stated(), Stated::Nothing);
    }
}
