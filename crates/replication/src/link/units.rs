// SPDX-License-Identifier: BSD-3-Clause
//! Divides the stream of changes into units: single requests, and transactions from MULTI to
//! EXEC. A unit is applied as a whole or not at all.

use std::ops::Range;

use braid_resp::parse::{Limits, RequestParser, Span, Step};

use super::LinkError;

/// Maximum length of a unit in bytes.
const UNIT_MAX: usize = 2 << 30;

/// A request of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// Its bytes in the buffer.
    pub bytes: Range<usize>,
    /// Its arguments, in [`Units::spans`].
    args: Range<usize>,
    /// This request completes a unit.
    pub ends_unit: bool,
}

/// The requests of complete units at the start of a buffer.
#[derive(Default)]
pub struct Units {
    parser: RequestParser,
    spans: Vec<Span>,
    requests: Vec<StreamRequest>,
    /// Number of requests in complete units: a prefix of `requests`.
    whole: usize,
    /// Number of bytes of the buffer that are parsed.
    parsed: usize,
    in_transaction: bool,
}

impl Units {
    /// Parses the bytes added to the buffer. Earlier bytes must be unchanged.
    ///
    /// # Errors
    /// If the bytes are not requests, or a unit is too long.
    pub fn parse(&mut self, buffer: &[u8]) -> Result<(), LinkError> {
        let limits =
            Limits { bulk_len_max: i64::MAX as u64, authenticated: true, big_argument_min: usize::MAX };
        loop {
            let first = self.spans.len();
            let begin = self.parsed;
            let consumed = match self.parser.next(&buffer[begin..], &limits, &mut self.spans) {
                Step::Request { consumed } => consumed,
                // Primaries may send empty lines to keep a connection open.
                Step::Inline { consumed, arguments } if arguments.is_empty() => consumed,
                Step::Inline { .. } => {
                    return Err(LinkError::Protocol("a line that is not a request".into()));
                }
                Step::Incomplete | Step::BigArgument { .. } => {
                    let unit = self.requests.get(self.whole).map_or(begin, |request| request.bytes.start);
                    if buffer.len() - unit > UNIT_MAX {
                        return Err(LinkError::Protocol(format!("a unit of more than {UNIT_MAX} bytes")));
                    }
                    return Ok(());
                }
                Step::Error(error) => return Err(LinkError::Protocol(error.to_string())),
            };
            self.parsed += consumed;
            for span in &mut self.spans[first..] {
                span.start += begin as u32;
            }
            let args = first..self.spans.len();
            let name = self.spans.get(first).map_or(&b""[..], |name| &buffer[name.range()]);
            if name.eq_ignore_ascii_case(b"MULTI") {
                self.in_transaction = true;
            } else if name.eq_ignore_ascii_case(b"EXEC") {
                self.in_transaction = false;
            }
            let ends_unit = !self.in_transaction;
            self.requests.push(StreamRequest { bytes: begin..self.parsed, args, ends_unit });
            if ends_unit {
                self.whole = self.requests.len();
            }
        }
    }

    /// The requests of complete units.
    pub fn requests(&self) -> &[StreamRequest] {
        &self.requests[..self.whole]
    }

    /// The arguments of a request; none for an empty line.
    pub fn args<'b>(
        &self,
        request: &StreamRequest,
        buffer: &'b [u8],
    ) -> impl ExactSizeIterator<Item = &'b [u8]> {
        self.spans[request.args.clone()].iter().map(|span| &buffer[span.range()])
    }

    /// Drops the complete units and returns the number of buffer bytes they took. Bytes after
    /// them are parsed again.
    pub fn forget(&mut self) -> usize {
        let used = self.requests().last().map_or(0, |request| request.bytes.end);
        let (mut spans, mut requests) = (std::mem::take(&mut self.spans), std::mem::take(&mut self.requests));
        spans.clear();
        requests.clear();
        *self = Units { spans, requests, ..Units::default() };
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n\
        *2\r\n$4\r\nINCR\r\n$1\r\nb\r\n";

    #[test]
    fn units_are_complete_for_any_chunking_of_the_stream() {
        for piece in 1..STREAM.len() {
            let (mut units, mut buffer, mut seen) = (Units::default(), Vec::new(), Vec::new());
            for bytes in STREAM.chunks(piece) {
                buffer.extend_from_slice(bytes);
                units.parse(&buffer).expect("a good stream");
                for request in units.requests() {
                    let words: Vec<_> = units.args(request, &buffer).map(String::from_utf8_lossy).collect();
                    seen.push((words.join(" "), request.ends_unit));
                }
                assert!(seen.last().is_none_or(|(_, ends)| *ends), "a unit was split");
                let used = units.forget();
                buffer.drain(..used);
            }
            let expected = ["PING", "MULTI", "INCR a", "EXEC", "INCR b"];
            assert_eq!(seen.iter().map(|(words, _)| &**words).collect::<Vec<_>>(), expected);
            assert_eq!(seen.iter().filter(|(_, ends)| *ends).count(), 3);
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn garbage_is_an_error_and_an_empty_line_is_none() {
        let mut units = Units::default();
        units.parse(b"\n*1\r\n$4\r\nPING\r\n").expect("good");
        assert_eq!(units.requests().len(), 2);
        assert_eq!(units.forget(), 15);
        for bad in [&b"PING\r\n"[..], b"*x\r\n", b"*1\r\n:5\r\n", b"*1\r\n$-5\r\n"] {
            assert!(matches!(Units::default().parse(bad), Err(LinkError::Protocol(_))), "{bad:?}");
        }
    }
}
