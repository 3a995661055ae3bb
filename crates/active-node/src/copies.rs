// SPDX-License-Identifier: BSD-3-Clause
//! Full copies for peers, sent in parts ([`super::serve::copy`]). The thread produces a copy as
//! fast as the peer takes it, so at most one part of it is in memory.

use std::time::{Duration, Instant};

use super::outbox::Answers;

/// Approximate bytes per part.
const AT_ONCE: usize = 4 << 20;
/// A peer that asks for nothing for this long is taken to have given up.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// A client that requests a full copy.
pub(crate) struct CopyRequest {
    pub client: u64,
    pub answer: Box<dyn Answers>,
}

impl CopyRequest {
    /// Tells the client that its copy has failed.
    pub fn refuse(self) {
        answer(self.answer, -1, &[]);
    }
}

/// A copy in progress.
pub(super) struct Copy {
    client: u64,
    /// `None` once the client has been answered.
    answer: Option<Box<dyn Answers>>,
    answered: Instant,
    /// The client has received at least one part.
    has_begun: bool,
    pieces: Vec<Vec<u8>>,
    bytes: usize,
    /// See [`Copy::logged`].
    logged: u64,
}

impl Copy {
    /// `logged`: the number of the last chunk of units queued for the log.
    pub fn begin(request: CopyRequest, logged: u64) -> Copy {
        Copy {
            client: request.client,
            answer: Some(request.answer),
            answered: Instant::now(),
            has_begun: false,
            pieces: Vec::new(),
            bytes: 0,
            logged,
        }
    }

    /// Continues the copy with the client's next request; another client's request is refused.
    pub fn go_on(&mut self, request: CopyRequest) {
        match request.client == self.client {
            true => self.answer = Some(request.answer),
            false => request.refuse(),
        }
    }

    /// True if the client has left or stopped asking.
    pub fn is_given_up(&self, is_connected: impl FnOnce(u64) -> bool) -> bool {
        match &self.answer {
            Some(answer) => !answer.is_wanted(),
            None => self.answered.elapsed() > GIVEN_UP || !is_connected(self.client),
        }
    }

    /// True if the next part is complete and must be sent before more is produced.
    pub fn is_full(&self) -> bool {
        self.bytes >= AT_ONCE
    }

    /// The number of the last chunk of units in the copy; it must be in the log before any part is
    /// sent.
    pub fn logged(&self) -> u64 {
        self.logged
    }

    /// Adds produced bytes to the next part.
    pub fn push(&mut self, piece: Vec<u8>) {
        self.bytes += piece.len();
        self.pieces.push(piece);
    }

    /// Sends the next part if the client waits for it, and returns whether it did. `is_whole`:
    /// this is the last part.
    pub fn send(&mut self, is_whole: bool) -> bool {
        let Some(waits) = self.answer.take() else { return false };
        answer(waits, i64::from(!is_whole), &std::mem::take(&mut self.pieces));
        (self.bytes, self.has_begun, self.answered) = (0, true, Instant::now());
        true
    }

    /// Aborts the copy. Returns the waiting client if it has received no part yet: it can still
    /// be given another copy.
    pub fn end(self) -> Option<CopyRequest> {
        let answer = self.answer.filter(|answer| answer.is_wanted())?;
        let request = CopyRequest { client: self.client, answer };
        if !self.has_begun {
            return Some(request);
        }
        request.refuse();
        None
    }
}

/// Answers with `follows` (1: more parts follow, 0: this is the last one, -1: the copy has
/// failed) and the pieces.
fn answer(answer: Box<dyn Answers>, follows: i64, pieces: &[Vec<u8>]) {
    let mut reply = answer.buffer();
    reply.array(1 + pieces.len());
    reply.integer(follows);
    pieces.iter().for_each(|piece| reply.bulk(piece));
    answer.give(reply);
}
