// SPDX-License-Identifier: BSD-3-Clause
//! Deferred input: requests that are not executed where they were read. They stay with the client
//! as bytes until it resumes, or are packed as parsed requests for another thread.

use braid_resp::request;

use crate::batch::{Batch, Request, Source, Turn, arguments};
use crate::client::Client;

/// Defers the requests from offset `from` on; none of them has been executed.
pub fn defer_from(client: &mut Client, shared: &[u8], batch: &Batch, turn: &Turn, from: usize) {
    client.input.parser.reset();
    client.input.protocol_error = None;
    let kept = match turn.source {
        Source::Own if client.input.blobs.is_empty() => {
            let mut query = std::mem::take(&mut client.input.query);
            query.truncate(turn.received_end);
            query.drain(..from);
            query
        }
        Source::Own => {
            // The request had big arguments, which the buffer does not hold: re-encode the whole
            // request.
            let request =
                batch.requests.iter().find(|request| request.client == turn.client && request.start == from);
            let mut bytes = Vec::new();
            if let Some(request) = request {
                let args = arguments(batch, request, shared, &client.input.query, &client.input.blobs);
                request::push(&mut bytes, &args);
            }
            bytes.extend_from_slice(&client.input.query[turn.rest_start..turn.received_end]);
            bytes
        }
        _ => shared[from..turn.received_end].to_vec(),
    };
    client.input.blobs.clear();
    client.input.incoming = None;
    client.input.query = kept;
}

/// Packs a client's requests from batch index `first` on for another thread. Their bytes go to
/// the client's own buffer.
pub fn pack_from(
    client: &mut Client,
    to: &mut Batch,
    shared: &[u8],
    batch: &Batch,
    turn: &Turn,
    first: usize,
) {
    // A client's requests are adjacent in a batch.
    let own = batch.requests[first..].iter().take_while(|request| request.client == turn.client);
    let from = batch.requests[first].start;
    for request in own {
        let first_span = to.spans.len() as u32;
        let spans = request.first_span as usize..(request.first_span + request.span_count) as usize;
        to.spans.extend_from_slice(&batch.spans[spans]);
        let source = match request.source {
            Source::Inline(number) => {
                to.inline.push(batch.inline[number as usize].clone());
                Source::Inline(to.inline.len() as u32 - 1)
            }
            _ => Source::Own,
        };
        to.requests.push(Request { source, start: request.start - from, first_span, ..*request });
    }
    to.turns.push(Turn {
        source: Source::Own,
        rest_start: turn.rest_start - from,
        rest_end: turn.rest_end - from,
        received_end: turn.received_end - from,
        ..*turn
    });
    match turn.source {
        Source::Own => drop(client.input.query.drain(..from)),
        _ => client.input.query.extend_from_slice(&shared[from..turn.received_end]),
    }
}

/// Defers the input after the request at offset `start`, which has been executed. The parser
/// starts over with that input.
pub fn defer_after(client: &mut Client, shared: &[u8], batch: &Batch, turn: &Turn, start: usize) {
    let mut own = batch.requests.iter().filter(|request| request.client == turn.client);
    let next = own.find(|request| request.start > start).map_or(turn.rest_start, |request| request.start);
    let buffer = if turn.source == Source::Own { &client.input.query } else { shared };
    let kept = buffer[next..turn.received_end].to_vec();
    client.input.parser.reset();
    client.input.protocol_error = None;
    client.input.blobs.clear();
    client.input.incoming = None;
    client.input.query = kept;
}
