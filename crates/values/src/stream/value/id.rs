// SPDX-License-Identifier: BSD-3-Clause
//! Stream ids: a time in milliseconds and a sequence number, ordered by both.

use std::fmt;

use braid_base::number::parse_u64_lenient;

/// The id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix time in milliseconds.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

/// The id argument of XADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdRequest {
    /// `*`: the current time, or the next id if the stream has already reached that time.
    Auto,
    /// `ms-*`: the next sequence number for a given time.
    Partial(u64),
    /// `ms-seq`.
    Explicit(StreamId),
}

/// Reasons why an entry cannot have an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The id is not greater than the stream's last id.
    NotGreater,
    /// The stream already has the greatest possible id.
    Exhausted,
}

impl StreamId {
    /// `0-0`, which no entry can have.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The least id that an entry can have.
    pub const LEAST: StreamId = StreamId { ms: 0, seq: 1 };
    /// The greatest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// Creates an id from its two parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The next id; `None` for the greatest one.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The previous id; `None` for `0-0`.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Parses `ms-seq`, or `ms` with `missing_seq` as the default. (Commands parse `-`, `+`, `$`,
    /// `>` and a leading `(` themselves.)
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        match text.iter().position(|&byte| byte == b'-') {
            None => Some(StreamId { ms: parse_u64_lenient(text)?, seq: missing_seq }),
            Some(dash) => {
                let (ms, seq) = (text.get(..dash)?, text.get(dash + 1..)?);
                Some(StreamId { ms: parse_u64_lenient(ms)?, seq: parse_u64_lenient(seq)? })
            }
        }
    }

    /// The next id that a region generates in active-active replication: its sequence number
    /// modulo 64 is the region's number, so no two regions generate the same id.
    pub fn next_of_region(last: StreamId, now_ms: u64, region: u8) -> Option<StreamId> {
        let number = u64::from(region);
        if now_ms > last.ms {
            return Some(StreamId { ms: now_ms, seq: number });
        }
        let round = last.seq - last.seq % 64 + number;
        let seq = if round > last.seq { Some(round) } else { round.checked_add(64) };
        match seq {
            Some(seq) => Some(StreamId { ms: last.ms, seq }),
            None => Some(StreamId { ms: last.ms.checked_add(1)?, seq: number }),
        }
    }

    /// The id of a new entry in a stream whose last id is `last`.
    ///
    /// # Errors
    /// If the ID would not be greater than `last`, or no greater ID is left.
    #[inline]
    pub fn for_entry(request: IdRequest, last: StreamId, now_ms: u64) -> Result<StreamId, IdError> {
        let id = match request {
            IdRequest::Auto if now_ms > last.ms => StreamId { ms: now_ms, seq: 0 },
            IdRequest::Auto => last.next().ok_or(IdError::Exhausted)?,
            // Never in the next millisecond: the client asked for this one.
            IdRequest::Partial(ms) if ms == last.ms => {
                StreamId { ms, seq: last.seq.checked_add(1).ok_or(IdError::NotGreater)? }
            }
            IdRequest::Partial(ms) => StreamId { ms, seq: 0 },
            IdRequest::Explicit(id) => id,
        };
        if id > last { Ok(id) } else { Err(IdError::NotGreater) }
    }

    /// The distance from an earlier id as stored in blocks, part by part and modulo 2^64.
    pub(super) fn delta_from(self, first: StreamId) -> (i64, i64) {
        (self.ms.wrapping_sub(first.ms) as i64, self.seq.wrapping_sub(first.seq) as i64)
    }

    pub(super) fn plus(self, (ms, seq): (i64, i64)) -> StreamId {
        StreamId { ms: self.ms.wrapping_add(ms as u64), seq: self.seq.wrapping_add(seq as u64) }
    }
}

impl IdRequest {
    /// Parses an XADD id: `*`, `ms-*`, `ms-seq`, `ms` (with sequence number 0).
    pub fn parse(text: &[u8]) -> Option<IdRequest> {
        if text == b"*" {
            return Some(IdRequest::Auto);
        }
        match text.strip_suffix(b"-*") {
            Some(ms) if !ms.contains(&b'-') => parse_u64_lenient(ms).map(IdRequest::Partial),
            _ => StreamId::parse(text, 0).map(IdRequest::Explicit),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}
