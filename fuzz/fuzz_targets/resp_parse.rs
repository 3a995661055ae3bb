// SPDX-License-Identifier: BSD-3-Clause
//! Arbitrary bytes must parse to the same requests however they are cut.
//!
//! The first bytes of the input choose the limits and the cuts; the rest is the stream. The driver
//! below is a small event loop that follows the parser's contract and receives big arguments
//! separately.

#![no_main]

use braid_resp::{Limits, ProtocolError, RequestParser, Span, Step};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Request(Vec<Vec<u8>>),
    Error(ProtocolError),
    End { mid_request: bool },
}

#[derive(Default)]
struct Loop {
    parser: RequestParser,
    buf: Vec<u8>,
    spans: Vec<Span>,
    /// Complete big arguments of the current request.
    big: Vec<Vec<u8>>,
    /// A big argument being received, and its length.
    receiving: Option<(Vec<u8>, usize)>,
    events: Vec<Event>,
}

impl Loop {
    /// Receives one piece of the stream; false after an error.
    fn receive(&mut self, mut piece: &[u8], limits: &Limits) -> bool {
        loop {
            if let Some((mut bytes, len)) = self.receiving.take() {
                let (taken, rest) = piece.split_at((len + 2 - bytes.len()).min(piece.len()));
                bytes.extend_from_slice(taken);
                piece = rest;
                if bytes.len() < len + 2 {
                    self.receiving = Some((bytes, len));
                    return true;
                }
                bytes.truncate(len);
                self.big.push(bytes);
                self.parser.big_argument_done();
            }
            self.buf.extend_from_slice(std::mem::take(&mut piece));
            match self.parse(limits) {
                Step::BigArgument { start, len } => {
                    assert!(start <= self.buf.len() && self.buf.len() < start + len + 2);
                    assert!(len >= limits.big_argument_min);
                    self.receiving = Some((self.buf.split_off(start), len));
                }
                Step::Error(error) => {
                    self.events.push(Event::Error(error));
                    return false;
                }
                _ => return true,
            }
        }
    }

    /// Parses complete requests from the buffer. Returns the step that ended the loop.
    fn parse(&mut self, limits: &Limits) -> Step {
        let mut position = 0;
        let last = loop {
            self.spans.clear();
            let rest = &self.buf[position..];
            match self.parser.next(rest, limits, &mut self.spans) {
                Step::Request { consumed } => {
                    let arguments = self.spans.iter().map(|span| match span.is_big() {
                        true => self.big[span.len as usize].clone(),
                        false => rest[..consumed][span.range()].to_vec(),
                    });
                    self.events.push(Event::Request(arguments.collect()));
                    self.big.clear();
                    position += consumed;
                }
                Step::Inline { consumed, arguments } => {
                    assert!(consumed <= rest.len() && !arguments.is_empty());
                    self.events.push(Event::Request(arguments));
                    position += consumed;
                }
                other => {
                    assert!(self.spans.is_empty());
                    break other;
                }
            }
        };
        self.buf.drain(..position);
        last
    }
}

fn meaning(stream: &[u8], piece_lens: impl Iterator<Item = usize>, limits: &Limits) -> Vec<Event> {
    let mut state = Loop::default();
    let mut rest = stream;
    for len in piece_lens {
        let (piece, later) = rest.split_at(len.min(rest.len()));
        rest = later;
        if !state.receive(piece, limits) {
            return state.events;
        }
    }
    if state.receive(rest, limits) {
        let mid_request = state.parser.is_mid_request();
        state.events.push(Event::End { mid_request });
    }
    state.events
}

fuzz_target!(|input: &[u8]| {
    let [flags, cut_count, rest @ ..] = input else { return };
    let (cuts, stream) = rest.split_at((*cut_count as usize % 16).min(rest.len()));
    let limits = Limits {
        bulk_len_max: if flags & 1 == 0 { 512 << 20 } else { 200 },
        authenticated: flags & 2 == 0,
        big_argument_min: [32 * 1024, 100, 10, 1][(flags >> 2 & 3) as usize],
    };
    let whole = meaning(stream, std::iter::empty(), &limits);
    let cut = meaning(stream, cuts.iter().map(|len| *len as usize), &limits);
    assert_eq!(whole, cut, "in pieces of {cuts:?}");
    let single = meaning(stream, std::iter::repeat_n(1, stream.len()), &limits);
    assert_eq!(whole, single, "byte by byte");
});
