// SPDX-License-Identifier: BSD-3-Clause
//! A batch: the parsed requests of one or several clients, waiting to be executed together.
//!
//! Arguments are slices of the buffer that the requests were received into: the loop's shared one, or a
//! client's own. Neither may change while requests in the batch refer to it.

use braid_engine::Prepared;
use braid_resp::parse::Span;

/// Requests that room is kept for.
const KEPT_REQUESTS: usize = 16 * 1024;

/// Where a request's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the loop's shared buffer.
    Shared,
    /// In the client's own buffer.
    Own,
    /// An inline request that had to be unquoted: its number in [`Batch::inline`].
    Inline(u32),
}

/// A parsed request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The client's place in the loop.
    pub client: u32,
    pub source: Source,
    /// Offset of the request in its buffer; spans count from here.
    pub start: usize,
    pub first_span: u32,
    pub span_count: u32,
    pub prepared: Prepared,
}

/// What is left in the buffer behind a client's last parsed request.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub client: u32,
    pub source: Source,
    /// Range of the buffer that belongs to the client's incomplete request.
    pub rest_start: usize,
    pub rest_end: usize,
    /// End of all that was received (a big argument's bytes lie between `rest_end` and here).
    pub received_end: usize,
    /// The rest may hold whole requests: parse it again without waiting for more.
    pub more: bool,
    /// The turn's request took the client's big arguments.
    pub used_blobs: bool,
}

/// Requests to be executed together.
#[derive(Default)]
pub struct Batch {
    pub requests: Vec<Request>,
    pub spans: Vec<Span>,
    pub inline: Vec<Vec<Vec<u8>>>,
    pub turns: Vec<Turn>,
}

impl Batch {
    /// True without requests and turns.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.turns.is_empty()
    }

    /// Takes over what another batch holds of one client, which has this place here, and empties that one. Its requests are in the client's
    /// own buffer.
    pub fn append(&mut self, other: &mut Batch, place: u32) {
        let (spans, inline) = (self.spans.len() as u32, self.inline.len() as u32);
        self.requests.extend(other.requests.iter().map(|request| Request {
            client: place,
            first_span: request.first_span + spans,
            source: match request.source {
                Source::Inline(number) => Source::Inline(number + inline),
                source => source,
            },
            ..*request
        }));
        self.spans.extend_from_slice(&other.spans);
        self.inline.append(&mut other.inline);
        self.turns.extend(other.turns.iter().map(|turn| Turn { client: place, ..*turn }));
        other.clear();
    }

    /// Forgets everything; keeps the room, unless a rare huge batch made it huge.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.requests.shrink_to(KEPT_REQUESTS);
        self.spans.clear();
        self.spans.shrink_to(4 * KEPT_REQUESTS);
        self.inline.clear();
        self.turns.clear();
    }
}
