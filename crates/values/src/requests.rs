// SPDX-License-Identifier: BSD-3-Clause
//! Values as requests: code shared by the types' rewrites.

use std::io;

use braid_containers::listpack::Element;
use braid_keyspace::object::RequestSink;
use braid_rdb::{Format, SavedObject, ValueRef};
use braid_resp::request;

/// Elements per request, as in stock servers.
const BATCH: usize = 64;

/// Writes the elements of a collection as one or more requests.
pub(crate) struct Batches<'o> {
    out: &'o mut dyn RequestSink,
    command: &'static [u8],
    name: &'o [u8],
    /// Arguments left in the current request, and in total.
    now: usize,
    left: usize,
    batch: usize,
    /// After an error nothing more is written.
    outcome: io::Result<()>,
}

impl<'o> Batches<'o> {
    /// Starts requests for `len` elements of `width` arguments each.
    pub(crate) fn new(
        out: &'o mut dyn RequestSink,
        command: &'static [u8],
        name: &'o [u8],
        width: usize,
        len: usize,
    ) -> Batches<'o> {
        Batches { out, command, name, now: 0, left: len * width, batch: BATCH * width, outcome: Ok(()) }
    }

    /// Ends the requests; returns the first error, if any.
    pub(crate) fn outcome(self) -> io::Result<()> {
        self.outcome
    }

    /// Adds an element.
    pub(crate) fn element(&mut self, element: Element<'_>) {
        self.text(element.text(&mut itoa::Buffer::new()));
    }

    /// Adds an argument.
    pub(crate) fn text(&mut self, text: &[u8]) {
        if self.outcome.is_err() {
            return;
        }
        let buffer = self.out.buffer();
        if self.now == 0 {
            self.now = self.left.min(self.batch);
            self.left -= self.now;
            request::push_count(buffer, 2 + self.now);
            request::push_bulk(buffer, self.command);
            request::push_bulk(buffer, self.name);
        }
        self.now -= 1;
        request::push_bulk(buffer, text);
        if self.now == 0 {
            self.outcome = self.out.complete();
        }
    }
}

/// Writes the request for a member's expiry, if it has one.
pub(crate) fn push_expiry(
    out: &mut dyn RequestSink,
    [command, word]: [&[u8]; 2],
    name: &[u8],
    member: Element<'_>,
    expire_at: Option<i64>,
) -> io::Result<()> {
    let Some(time) = expire_at else { return Ok(()) };
    let (mut time_digits, mut digits) = (itoa::Buffer::new(), itoa::Buffer::new());
    let time = time_digits.format(time).as_bytes();
    request::push(out.buffer(), &[command, name, time, word, b"1", member.text(&mut digits)]);
    out.complete()
}

/// Writes a value as a RESTORE of the whole.
pub(crate) fn push_restore(
    value: &dyn SavedObject,
    name: &[u8],
    out: &mut dyn RequestSink,
) -> io::Result<()> {
    let payload = braid_rdb::dump(ValueRef::Object(value), Format::default(), false);
    request::push(out.buffer(), &[b"RESTORE", name, b"0", &payload]);
    out.complete()
}
