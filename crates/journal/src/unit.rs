// SPDX-License-Identifier: BSD-3-Clause
//! What one command, transaction or script has changed: the requests that repeat it.
//!
//! HOT PATH: no allocation once the buffer has grown to what a thread's commands need, no lock, no
//! system call.

/// Bytes of buffer that a thread keeps between two units.
const KEPT_BYTES: usize = 64 << 10;

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Requests that take effect together. Several become a transaction (MULTI ... EXEC) in the log.
#[derive(Default)]
pub struct Unit {
    bytes: Vec<u8>,
    requests: u32,
    /// The databases that the first and the last request are for.
    first_db: u32,
    db: u32,
    /// The present command has said itself what is to be repeated.
    explicit: bool,
    /// Requests that come behind it and only some readers see.
    pub(crate) asides: Vec<u8>,
}

impl Unit {
    /// True if nothing has been added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Requests so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Adds a request for a database.
    #[inline]
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        self.begin_request(db);
        push_request(&mut self.bytes, args);
    }

    /// As [`Unit::push`], by a command that knows better than its arguments what is to be repeated:
    /// [`Unit::take_explicit`] tells.
    pub fn push_explicit(&mut self, db: u32, args: &[&[u8]]) {
        self.explicit = true;
        self.push(db, args);
    }

    /// Adds a request that only replicas see
    /// ([`Journal::append_aside`](crate::Journal::append_aside)), when what was added has happened
    /// there. The unit must not be empty.
    pub fn push_aside(&mut self, args: &[&[u8]]) {
        debug_assert!(self.requests > 0, "asides of nothing are appended at once");
        push_request(&mut self.asides, args);
    }

    /// The present command leaves nothing to be repeated, or has said what.
    pub fn set_explicit(&mut self) {
        self.explicit = true;
    }

    /// Whether the command that has just ended has said itself what is to be repeated.
    #[inline]
    pub fn take_explicit(&mut self) -> bool {
        std::mem::take(&mut self.explicit)
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

    /// The encoded requests, without what a transaction has around them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn databases(&self) -> (u32, u32) {
        (self.first_db, self.db)
    }

    /// Begins anew.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.requests = 0;
        self.explicit = false;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// Adds a request in the protocol's encoding.
pub fn push_request(out: &mut Vec<u8>, args: &[&[u8]]) {
    let before = out.len();
    out.resize(before + request_len(args), 0);
    write_request(&mut out[before..], args);
}

/// Bytes that a request takes in the protocol's encoding.
#[inline]
pub(crate) fn request_len(args: &[&[u8]]) -> usize {
    head_len(args.len()) + args.iter().map(|arg| head_len(arg.len()) + arg.len() + 2).sum::<usize>()
}

/// Writes a request to `to`, which is exactly of its length.
#[inline]
pub(crate) fn write_request(mut to: &mut [u8], args: &[&[u8]]) {
    write_head(&mut to, b'*', args.len());
    for arg in args {
        write_head(&mut to, b'$', arg.len());
        write_bytes(&mut to, arg);
        write_bytes(&mut to, b"\r\n");
    }
}

/// Bytes of a line that has a kind and a number.
#[inline(always)]
fn head_len(number: usize) -> usize {
    match number {
        0..10 => 4,
        10..100 => 5,
        _ => 4 + number.ilog10() as usize,
    }
}

#[inline(always)]
fn write_head(to: &mut &mut [u8], kind: u8, number: usize) {
    match number {
        0..10 => write_bytes(to, &[kind, b'0' + number as u8, b'\r', b'\n']),
        10..100 => {
            write_bytes(to, &[kind, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8, b'\r', b'\n']);
        }
        _ => {
            write_bytes(to, &[kind]);
            write_bytes(to, itoa::Buffer::new().format(number).as_bytes());
            write_bytes(to, b"\r\n");
        }
    }
}

#[inline(always)]
fn write_bytes(to: &mut &mut [u8], bytes: &[u8]) {
    let (now, later) = std::mem::take(to).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *to = later;
}

/// Adds the request that chooses a database.
pub(crate) fn push_select(out: &mut Vec<u8>, db: u32) {
    push_request(out, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_encoded_as_clients_send_them() {
        let mut out = Vec::new();
        push_request(&mut out, &[b"SET", b"key:12345678", &[b'x'; 100]]);
        let expected = [b"*3\r\n$3\r\nSET\r\n$12\r\nkey:12345678\r\n$100\r\n", &[b'x'; 100][..], b"\r\n"];
        assert_eq!(out, expected.concat());
        out.clear();
        push_request(&mut out, &[b"", &[0; 12345]]);
        assert!(out.starts_with(b"*2\r\n$0\r\n\r\n$12345\r\n\0") && out.len() == 8 + 2 + 8 + 12345 + 2);
    }

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
    fn what_a_command_says_itself_counts_for_it_alone() {
        let mut unit = Unit::default();
        unit.push(0, &[b"A"]);
        assert!(!unit.take_explicit());
        unit.push_explicit(0, &[b"B"]);
        assert!(unit.take_explicit());
        assert!(!unit.take_explicit());
    }
}
