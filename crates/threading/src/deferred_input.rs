// SPDX-License-Identifier: BSD-3-Clause
//! What becomes of a client's requests that are not executed where they were read: they are kept with the client, as bytes until it may go on,
//! or parsed, for another thread.

use crate::batch::{Batch, Request, Source, Turn};
use crate::client::Client;
use crate::event_loop::run::arguments;

/// Keeps the requests from offset `from` on, none of which has been executed.
pub fn keep(client: &mut Client, shared: &[u8], batch: &Batch, turn: &Turn, from: usize) {
    client.parser.reset();
    client.protocol_error = None;
    let kept = match turn.source {
        Source::Own if client.blobs.is_empty() => {
            let mut query = std::mem::take(&mut client.query);
            query.truncate(turn.received_end);
            query.drain(..from);
            query
        }
        Source::Own => {
            // The request had big arguments: write it down again as a whole.
            let request =
                batch.requests.iter().find(|request| request.client == turn.client && request.start == from);
            let mut bytes = Vec::new();
            if let Some(request) = request {
                let args = arguments(batch, request, shared, &client.query, &client.blobs);
                bytes.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
                for arg in args {
                    bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                    bytes.extend_from_slice(arg);
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            bytes.extend_from_slice(&client.query[turn.rest_start..turn.received_end]);
            bytes
        }
        _ => shared[from..turn.received_end].to_vec(),
    };
    client.blobs.clear();
    client.incoming = None;
    client.query = kept;
}

/// Packs a client's requests from number `first` of the batch on, to be executed elsewhere. Their bytes go to the client's own buffer.
pub fn pack_rest(
    client: &mut Client,
    to: &mut Batch,
    shared: &[u8],
    batch: &Batch,
    turn: &Turn,
    first: usize,
) {
    // A client's requests stand together in a batch.
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
        Source::Own => drop(client.query.drain(..from)),
        _ => client.query.extend_from_slice(&shared[from..turn.received_end]),
    }
}

/// Keeps what follows the request at offset `start`, which has been executed. The parser begins anew with it.
pub fn keep_rest(client: &mut Client, shared: &[u8], batch: &Batch, turn: &Turn, start: usize) {
    let mut own = batch.requests.iter().filter(|request| request.client == turn.client);
    let next = own.find(|request| request.start > start).map_or(turn.rest_start, |request| request.start);
    let buffer = if turn.source == Source::Own { &client.query } else { shared };
    let kept = buffer[next..turn.received_end].to_vec();
    client.parser.reset();
    client.protocol_error = None;
    client.blobs.clear();
    client.incoming = None;
    client.query = kept;
}
