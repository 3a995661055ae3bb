// SPDX-License-Identifier: BSD-3-Clause
//! Full copies for peers, a part at a time ([`super::serve::copy`]). The thread makes a copy as
//! fast as the peer takes it, so that no more of it is in memory than is sent at once.

use std::time::{Duration, Instant};

use super::outbox::Answers;

/// Bytes that are sent at once, about.
const AT_ONCE: usize = 4 << 20;
/// A peer that asks for nothing for so long has given up.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// A client that wants a copy.
pub(crate) struct Taker {
    pub client: u64,
    pub answer: Box<dyn Answers>,
}

impl Taker {
    /// Its copy has come to nothing.
    pub fn refuse(self) {
        answer(self.answer, -1, &[]);
    }
}

/// A copy that has begun.
pub(super) struct Copy {
    client: u64,
    /// Until the client is answered.
    answer: Option<Box<dyn Answers>>,
    answered: Instant,
    /// It has got something.
    has_begun: bool,
    pieces: Vec<Vec<u8>>,
    bytes: usize,
}

impl Copy {
    pub fn begin(taker: Taker) -> Copy {
        Copy {
            client: taker.client,
            answer: Some(taker.answer),
            answered: Instant::now(),
            has_begun: false,
            pieces: Vec::new(),
            bytes: 0,
        }
    }

    /// The client asks for more.
    pub fn go_on(&mut self, taker: Taker) {
        match taker.client == self.client {
            true => self.answer = Some(taker.answer),
            false => taker.refuse(),
        }
    }

    /// Nobody takes it any more.
    pub fn is_given_up(&self, is_connected: impl FnOnce(u64) -> bool) -> bool {
        match &self.answer {
            Some(answer) => !answer.is_wanted(),
            None => self.answered.elapsed() > GIVEN_UP || !is_connected(self.client),
        }
    }

    /// Whether so much has been made that it has to be taken first.
    pub fn is_full(&self) -> bool {
        self.bytes >= AT_ONCE
    }

    /// Adds what has been made.
    pub fn push(&mut self, piece: Vec<u8>) {
        self.bytes += piece.len();
        self.pieces.push(piece);
    }

    /// Sends what has been made, if the client waits for it. `is_whole`: it is the rest.
    pub fn send(&mut self, is_whole: bool) -> bool {
        let Some(waits) = self.answer.take() else { return false };
        answer(waits, i64::from(!is_whole), &std::mem::take(&mut self.pieces));
        (self.bytes, self.has_begun, self.answered) = (0, true, Instant::now());
        true
    }

    /// The copy has come to nothing. If the client has got nothing of it, it still wants another.
    pub fn end(self) -> Option<Taker> {
        let answer = self.answer.filter(|answer| answer.is_wanted())?;
        let taker = Taker { client: self.client, answer };
        if !self.has_begun {
            return Some(taker);
        }
        taker.refuse();
        None
    }
}

/// Answers with what follows, and pieces: 1 if there is more, 0 if not, -1 if it has come to
/// nothing.
fn answer(answer: Box<dyn Answers>, follows: i64, pieces: &[Vec<u8>]) {
    let mut reply = answer.buffer();
    reply.array(1 + pieces.len());
    reply.integer(follows);
    pieces.iter().for_each(|piece| reply.bulk(piece));
    answer.give(reply);
}
