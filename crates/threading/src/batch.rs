// SPDX-License-Identifier: BSD-3-Clause
//! A batch: parsed requests of one or more clients, to be executed together.
//!
//! Arguments are slices of the buffer that received the requests: the thread's shared buffer or a
//! client's own. Neither may change while requests of the batch refer to it.

use braid_base::blob::Blob;
use braid_executor::Prepared;
use braid_resp::parse::Span;
use smallvec::SmallVec;

/// Capacity in requests that an empty batch keeps.
const KEPT_REQUESTS: usize = 16 * 1024;

/// The buffer that holds a request's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the thread's shared receive buffer.
    Shared,
    /// In the client's own buffer.
    Own,
    /// An inline request, which had to be unquoted: its index in [`Batch::inline`].
    Inline(u32),
}

/// A parsed request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The client's place in its client set.
    pub client: u32,
    pub source: Source,
    /// Offset of the request in its buffer; its spans are relative to it.
    pub start: usize,
    pub first_span: u32,
    pub span_count: u32,
    pub prepared: Prepared,
}

/// A client's turn in a batch: the input after its last parsed request.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub client: u32,
    pub source: Source,
    /// Range of an incomplete request in the buffer.
    pub rest_start: usize,
    pub rest_end: usize,
    /// End of all received bytes (the bytes of a big argument lie between `rest_end` and here).
    pub received_end: usize,
    /// The rest may hold complete requests: parse it again without waiting for more input.
    pub more: bool,
    /// The turn's request uses the client's big arguments.
    pub used_blobs: bool,
}

impl Turn {
    /// A turn with nothing parsed yet; `start..end` was received.
    #[inline]
    pub fn new(client: u32, source: Source, start: usize, end: usize) -> Turn {
        Turn {
            client,
            source,
            rest_start: start,
            rest_end: end,
            received_end: end,
            more: false,
            used_blobs: false,
        }
    }
}

/// Requests to execute together, in order of arrival.
#[derive(Default)]
pub struct Batch {
    pub requests: Vec<Request>,
    pub spans: Vec<Span>,
    pub inline: Vec<Vec<Vec<u8>>>,
    pub turns: Vec<Turn>,
}

impl Batch {
    /// True if the batch has neither requests nor turns.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.turns.is_empty()
    }

    /// Moves one client's requests out of another batch; `place` is the client's place here.
    /// Their bytes must be in the client's own buffer.
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

    /// Empties the batch. Keeps its memory, except after a rare huge batch.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.requests.shrink_to(KEPT_REQUESTS);
        self.spans.clear();
        self.spans.shrink_to(4 * KEPT_REQUESTS);
        self.inline.clear();
        self.turns.clear();
    }
}

/// Parsed input that a client carries to another thread.
#[derive(Default)]
pub struct ParsedInput {
    /// The requests; their bytes are in the client's own buffer.
    pub batch: Batch,
    /// The loop that polls the client, and the client's place there.
    pub origin: usize,
    pub place: u32,
    /// Number of `Message::Resume` messages that the origin had received when the client left.
    pub resumes: u64,
}

/// A request's arguments, as they are stored.
pub enum Arguments<'a> {
    /// Slices of these bytes; a big argument's span refers to a blob.
    Spans(&'a [Span], &'a [u8]),
    /// The unquoted words of an inline request.
    Words(&'a [Vec<u8>]),
}

#[inline]
pub fn slice_of<'a>(span: Span, buffer: &'a [u8], blobs: &'a [Blob]) -> &'a [u8] {
    if span.is_big() { &blobs[span.len as usize] } else { &buffer[span.range()] }
}

#[inline]
pub fn arguments<'a>(
    batch: &'a Batch,
    request: &Request,
    shared: &'a [u8],
    own: &'a [u8],
    blobs: &'a [Blob],
) -> SmallVec<[&'a [u8]; 8]> {
    match find_arguments(batch, request, shared, own) {
        Arguments::Spans(spans, buffer) => spans.iter().map(|&span| slice_of(span, buffer, blobs)).collect(),
        Arguments::Words(words) => words.iter().map(Vec::as_slice).collect(),
    }
}

#[inline]
pub fn find_arguments<'a>(
    batch: &'a Batch,
    request: &Request,
    shared: &'a [u8],
    own: &'a [u8],
) -> Arguments<'a> {
    let first = request.first_span as usize;
    let spans = &batch.spans[first..first + request.span_count as usize];
    match request.source {
        Source::Shared => Arguments::Spans(spans, &shared[request.start..]),
        Source::Own => Arguments::Spans(spans, &own[request.start..]),
        Source::Inline(index) => Arguments::Words(&batch.inline[index as usize]),
    }
}
