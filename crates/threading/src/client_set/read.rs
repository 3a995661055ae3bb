// SPDX-License-Identifier: BSD-3-Clause
//! Step one: receives input from clients and parses it into the batch.
//!
//! HOT PATH: one receive per client and turn, into a buffer shared by all clients of a thread.
//! Only incomplete input is copied to a buffer of the client's own, and a big argument is
//! received directly into the allocation that becomes the value.

use braid_base::blob::Blob;
use braid_clients::client_flags;
use braid_executor::engine::access;
use braid_executor::{Engine, dispatch};
use braid_resp::parse::{Limits, Span, Step};
use braid_telemetry::Telemetry;

use super::{ClientSet, Relaxed, WOULD_BLOCK, add, track_for_cron};
use crate::batch::{Request, Source, Turn, slice_of};
use crate::client::{Client, Incoming, Input};

/// Maximum number of bytes received at once from a client.
pub(crate) const READ_CHUNK: usize = 32 * 1024;
/// The same for the source of a slot move, which sends as fast as it can: a turn then has more
/// work, and replicas are woken for more at a time. Received into the client's own buffer.
const IMPORT_CHUNK: usize = 128 * 1024;
/// Arguments of at least this many bytes are received into their own allocations.
const BIG_ARGUMENT: usize = 32 * 1024;
/// First allocation for a big argument. It doubles as bytes arrive, so that an announced length
/// alone costs little.
const BIG_FIRST: usize = 1024 * 1024;

impl ClientSet {
    /// Receives input from a client and parses it into the batch. Returns the bytes received.
    pub fn read(&mut self, engine: &Engine, place: u32) -> usize {
        let received = self.receive(engine, place);
        if let Some(client) = self.slab.get(place)
            && client.socket.is_tls()
        {
            self.check_tls(place);
        }
        received
    }

    /// Checks for TLS state that the poller does not report: pending decrypted bytes and
    /// handshake answers.
    fn check_tls(&mut self, place: u32) {
        let Some(client) = self.slab.get(place) else { return };
        if client.socket.has_unsent() && !client.listed.to_write {
            client.listed.to_write = true;
            self.to_write.push(place);
        }
        if client.socket.has_received()
            && !client.listed.in_batch
            && !client.listed.to_resume
            && !client.is_broken()
        {
            client.listed.to_resume = true;
            self.to_resume.push(place);
        }
    }

    fn receive(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.slab.get(place) else { return 0 };
        if client.listed.in_batch || client.takes_turns() || client.has_just_waited() {
            // The poller will report it again.
            return 0;
        }
        if client.session.record.has(client_flags::CLOSE_NOW) {
            // Killed: its input no longer counts, even if the message is still in flight.
            client.break_off();
            self.to_drop.push(place);
            return 0;
        }
        if client.is_broken() || client.session.reply.close_after {
            // Input of a client that is being closed is discarded; only the end of the connection
            // matters.
            let mut sink = [0; 4096];
            if !matches!(client.socket.recv(&mut sink), Ok(1..) | Err(WOULD_BLOCK)) {
                client.break_off();
                self.to_drop.push(place);
            }
            return 0;
        }
        if let Some(incoming) = &client.input.incoming {
            // A complete argument is kept while the client is held.
            return if incoming.missing() > 0 { self.read_big(engine, place) } else { 0 };
        }
        let is_import = client.session.cluster.import.is_some();
        let own = !client.input.query.is_empty() || client.is_held() || is_import;
        let received = if own {
            client
                .socket
                .recv_onto(&mut client.input.query, if is_import { IMPORT_CHUNK } else { READ_CHUNK })
        } else {
            let room = &mut self.shared[self.shared_used..self.shared_used + READ_CHUNK];
            client.socket.recv(room)
        };
        if client.socket.take_handshake_completion()
            && let Some(certificate) = client.socket.peer_certificate()
        {
            access::log_in_by_certificate(engine, &mut client.session, certificate);
        }
        let Some(received) = self.received(place, received) else { return 0 };
        let Some(client) = self.slab.get(place) else { return received };
        if client.query_bytes() > self.settings.query_bytes_max {
            self.drop_for_query(&engine.telemetry, place);
        } else if client.is_held() {
            // Stored until the client resumes.
            client.publish_sizes(&self.client_bytes);
            track_for_cron(client, &mut self.tracked, place);
        } else if own {
            let end = client.input.query.len();
            self.parse(engine, place, Source::Own, 0, end, false);
        } else {
            let start = self.shared_used;
            self.shared_used += received;
            self.parse(engine, place, Source::Shared, start, start + received, false);
        }
        received
    }

    /// The number of bytes received, or None if there were none; notes the end of the connection.
    fn received(&mut self, place: u32, result: rustix::io::Result<usize>) -> Option<usize> {
        match result {
            Ok(count) if count > 0 => {
                if let Some(client) = self.slab.get(place) {
                    add(&client.session.record.net_in, count as u64);
                }
                return Some(count);
            }
            Err(WOULD_BLOCK | rustix::io::Errno::INTR) => return None,
            _ => {}
        }
        if let Some(client) = self.slab.get(place) {
            client.break_off();
        }
        self.to_drop.push(place);
        None
    }

    #[cold]
    fn drop_for_query(&mut self, telemetry: &Telemetry, place: u32) {
        if let Some(client) = self.slab.get(place) {
            let record = &client.session.record;
            log::warn!(
                "Closing client that reached max query buffer length: id={} addr={}",
                record.id,
                record.address
            );
            telemetry.threads[record.io_thread.load(Relaxed) as usize].query_limit_disconnections.add(1);
            client.break_off();
            self.to_drop.push(place);
        }
    }

    /// Continues to receive a big argument, directly into its allocation.
    fn read_big(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.slab.get(place) else { return 0 };
        let Client { input: Input { incoming: Some(incoming), .. }, socket, .. } = client else { return 0 };
        let missing = incoming.missing();
        if incoming.blob.len() == incoming.blob.capacity() {
            let more = incoming.blob.capacity().max(BIG_FIRST).min(missing);
            incoming.blob.reserve_exact(more);
        }
        let result = incoming.blob.fill_with(missing, |room| socket.recv_uninit(room));
        let Some(received) = self.received(place, result) else { return 0 };
        if self.slab.get(place).is_some_and(|client| client.query_bytes() > self.settings.query_bytes_max) {
            self.drop_for_query(&engine.telemetry, place);
        } else {
            if let Some(client) = self.slab.get(place) {
                client.publish_sizes(&self.client_bytes);
            }
            self.complete_big(engine, place);
        }
        received
    }

    /// Hands a complete big argument to the parser and continues parsing.
    fn complete_big(&mut self, engine: &Engine, place: u32) {
        let Some(client) = self.slab.get(place).filter(|client| !client.is_held()) else { return };
        let Some(mut incoming) = client.input.incoming.take_if(|incoming| incoming.missing() == 0) else {
            return;
        };
        incoming.blob.resize_zeroed(incoming.len);
        client.input.blobs.push(incoming.blob);
        client.input.parser.big_argument_done();
        let end = client.input.query.len();
        self.parse(engine, place, Source::Own, 0, end, true);
    }

    /// Parses input that was received earlier and not executed yet. Returns the number of bytes
    /// received in the process.
    pub fn resume(&mut self, engine: &Engine, place: u32) -> usize {
        let Some(client) = self.slab.get(place) else { return 0 };
        client.listed.to_resume = false;
        let leaves = client.is_broken() || client.session.reply.close_after;
        if client.is_held() || client.listed.in_batch || leaves {
            return 0;
        }
        if client.input.incoming.as_ref().is_some_and(|incoming| incoming.missing() == 0) {
            // The argument became complete while the client was held.
            self.complete_big(engine, place);
            return 0;
        }
        if client.socket.has_received() {
            return self.read(engine, place);
        }
        let end = client.input.query.len();
        if end > 0 && client.input.incoming.is_none() {
            self.parse(engine, place, Source::Own, 0, end, false);
        }
        0
    }

    /// Parses requests in a range of the shared buffer or the client's own. `mid_request`: the
    /// range continues a request whose big argument is complete, and may be empty.
    fn parse(
        &mut self,
        engine: &Engine,
        place: u32,
        source: Source,
        start: usize,
        end: usize,
        mid_request: bool,
    ) {
        let Some(client) = self.slab.get(place) else { return };
        let limits = Limits {
            bulk_len_max: self.settings.bulk_len_max,
            authenticated: client.session.authenticated,
            big_argument_min: BIG_ARGUMENT,
        };
        client.listed.in_batch = true;
        let batch = &mut self.batch;
        let requests_max = batch.requests.len() + client.input.batch_quota as usize;
        let mut turn = Turn::new(place, source, start, end);
        let mut at = start;
        let mut forced = mid_request;
        while at < end || forced {
            forced = false;
            let first_span = batch.spans.len();
            let buffer = match source {
                Source::Own => &client.input.query[at..end],
                _ => &self.shared[at..end],
            };
            match client.input.parser.next(buffer, &limits, &mut batch.spans) {
                Step::Request { consumed } => {
                    let spans = &batch.spans[first_span..];
                    let begin = at;
                    at += consumed;
                    if spans.is_empty() {
                        continue;
                    }
                    let argument = |index| {
                        spans.get(index).map(|&span: &Span| slice_of(span, buffer, &client.input.blobs))
                    };
                    let prepared = dispatch::prepare_by(engine, argument);
                    batch.requests.push(Request {
                        client: place,
                        source,
                        start: begin,
                        first_span: first_span as u32,
                        span_count: spans.len() as u32,
                        prepared,
                    });
                }
                Step::Inline { consumed, arguments } => {
                    let begin = at;
                    at += consumed;
                    if arguments.is_empty() {
                        continue;
                    }
                    let prepared =
                        dispatch::prepare_by(engine, |index| arguments.get(index).map(Vec::as_slice));
                    let source = Source::Inline(batch.inline.len() as u32);
                    batch.inline.push(arguments);
                    batch.requests.push(Request {
                        client: place,
                        source,
                        start: begin,
                        first_span: 0,
                        span_count: 0,
                        prepared,
                    });
                }
                Step::Incomplete => break,
                Step::BigArgument { start, len } => {
                    let from = at + start;
                    let have = &buffer[start..];
                    let mut blob = Blob::with_capacity((len + 2).min(BIG_FIRST.max(have.len())));
                    blob.extend_from_slice(have);
                    client.input.incoming = Some(Incoming { blob, len });
                    turn.rest_end = from;
                    break;
                }
                Step::Error(error) => {
                    client.input.protocol_error = Some(error);
                    turn.rest_end = at;
                    break;
                }
            }
            turn.used_blobs = !client.input.blobs.is_empty();
            // The next request may have other limits once this one has been executed, and blobs
            // belong to a single request.
            if !limits.authenticated || turn.used_blobs || batch.requests.len() >= requests_max {
                turn.more = at < end;
                break;
            }
        }
        turn.rest_start = at.min(turn.rest_end);
        batch.turns.push(turn);
    }
}
