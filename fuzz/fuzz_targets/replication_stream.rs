// SPDX-License-Identifier: BSD-3-Clause
//! Arbitrary bytes as a primary's output: replies to the handshake, a full sync, the stream.
//!
//! The first bytes of the input choose the replica's request, the cuts, and whether the rest is the
//! primary's output itself or codes for it ([`spoken`]). However the bytes are cut, the result
//! equals that of the uncut bytes, each input byte is consumed once, and the stream is applied in
//! whole units: never a transaction without its end.

#![no_main]

use std::io::{self, Read, Write};
use std::time::Duration;

use braid_replication::link::LinkError;
use braid_replication::link::handshake::{Introduction, SyncReply, ask_for_stream, introduce};
use braid_replication::link::payload::{Frame, Payload, read_frame};
use braid_replication::link::peer::{Peer, Watch};
use braid_replication::link::units::Units;
use libfuzzer_sys::fuzz_target;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
/// Lines longer than this are refused only if they arrive in pieces.
const INPUT_MAX: usize = 60_000;

/// A primary that sends its bytes in pieces regardless of requests, and then hangs up.
struct Sender<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Lengths of the first pieces.
    pieces: std::slice::Iter<'a, u8>,
}

impl Read for Sender<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let piece = self.pieces.next().map_or(usize::MAX, |&len| usize::from(len) + 1);
        let count = piece.min(to.len()).min(self.bytes.len() - self.at);
        to[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Patient;

impl Watch for Patient {
    fn is_called_off(&self) -> bool {
        false
    }

    fn note_io(&self, _bytes: usize) {}

    fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The result of following a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Applied {
    /// Arguments of the requests.
    requests: Vec<Vec<Vec<u8>>>,
    /// Bytes acknowledged by the replica.
    offset: usize,
    error: Option<String>,
}

/// The result of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reply: SyncReply,
    /// The full sync's payload.
    payload: Vec<u8>,
    /// Offset of the stream in the input.
    stream_at: usize,
    stream: Applied,
}

/// One connection of a replica, from its handshake to the end.
fn attempt(choice: u8, bytes: &[u8], pieces: &[u8]) -> Result<Outcome, String> {
    let mut peer = Peer::new(Sender { bytes, at: 0, pieces: pieces.iter() });
    let text = |error: LinkError| error.to_string();
    let password = if choice & 1 != 0 { "secret" } else { "" };
    let introduction = Introduction { password: password.into(), port: 6379, ..Introduction::default() };
    introduce(&mut peer, &Patient, &introduction).map_err(text)?;
    let position = (choice & 2 != 0).then_some((ID, 99));
    let reply = ask_for_stream(&mut peer, &Patient, position, choice & 4 != 0).map_err(text)?;
    if peer.is_compressed() {
        // The consumed bytes are not those of the input.
        while peer.fill(&Patient, "fuzzing").is_ok() {}
        return Err("compressed".into());
    }
    let mut payload = Vec::new();
    match &reply {
        SyncReply::Continue { id } => {
            assert!(position.is_some(), "a continuation that was not requested");
            assert!(id.as_ref().is_none_or(|id| id.len() == ID.len()));
        }
        SyncReply::Full { id, offset } => {
            assert!(id.len() == ID.len() && i64::try_from(*offset).is_ok());
            payload = full_sync(&mut peer, bytes, usize::from(choice >> 3)).map_err(text)?;
        }
        SyncReply::FullWithoutOffset => {
            payload = full_sync(&mut peer, bytes, usize::from(choice >> 3)).map_err(text)?;
        }
        SyncReply::Sibling(_) | SyncReply::Beside => return Err("another connection".into()),
    }
    let buffer = peer.take_buffer();
    let stream_at = peer.stream().at - buffer.len();
    assert_eq!(buffer, bytes[stream_at..peer.stream().at], "the buffer is not the unconsumed input");
    Ok(Outcome { reply, payload, stream_at, stream: follow(&mut peer, buffer) })
}

/// Receives a full sync in small reads, and checks it against the input.
fn full_sync(peer: &mut Peer<Sender>, input: &[u8], step: usize) -> Result<Vec<u8>, LinkError> {
    let frame = read_frame(peer, &Patient)?;
    let begin = peer.stream().at - peer.buffered().len();
    let mut payload = Payload::new(peer, &Patient, frame.clone());
    let (mut received, mut some) = (Vec::new(), vec![0; step * 7 + 1]);
    loop {
        match payload.read(&mut some) {
            Ok(0) => break,
            Ok(count) => received.extend_from_slice(&some[..count]),
            Err(_) => return Err(payload.failure.take().expect("the reason for the failure")),
        }
    }
    assert!(payload.is_over() && payload.read == received.len() as u64);
    let end = begin + received.len();
    assert_eq!(received, input[begin..end]);
    let rest = peer.stream().at - peer.buffered().len();
    match frame {
        Frame::Len(len) => assert_eq!((len, rest), (received.len() as u64, end)),
        Frame::Mark(mark) => {
            assert_eq!((&input[end..end + mark.len()], rest), (&mark[..], end + mark.len()));
            let first = input[begin..].windows(mark.len()).position(|bytes| bytes == mark);
            assert_eq!(first, Some(received.len()), "the payload does not end at the first mark");
        }
    }
    Ok(received)
}

/// Follows the stream as the link thread does.
fn follow(peer: &mut Peer<Sender>, mut buffer: Vec<u8>) -> Applied {
    let (mut units, mut applied) = (Units::default(), Applied::default());
    loop {
        if let Err(error) = units.parse(&buffer) {
            applied.error = Some(error.to_string());
            return applied;
        }
        let (mut end, mut in_transaction) = (0, false);
        for request in units.requests() {
            assert_eq!(request.bytes.start, end, "a byte was skipped");
            end = request.bytes.end;
            let args: Vec<Vec<u8>> = units.args(request, &buffer).map(<[u8]>::to_vec).collect();
            if args.is_empty() {
                continue;
            }
            match args[0].to_ascii_uppercase().as_slice() {
                b"MULTI" => in_transaction = true,
                b"EXEC" => in_transaction = false,
                _ => {}
            }
            assert_eq!(request.ends_unit, !in_transaction);
            applied.requests.push(args);
        }
        assert!(!in_transaction, "half a transaction would be applied");
        if !units.requests().is_empty() {
            assert_eq!(units.forget(), end);
            buffer.drain(..end);
            applied.offset += end;
        }
        if peer.receive_onto(&mut buffer).is_err() {
            return applied;
        }
    }
}

/// The output of a primary that accepts the replica, built from short codes: requests,
/// transactions, and arbitrary bytes in between.
fn spoken(choice: u8, codes: &[u8]) -> Vec<u8> {
    let mut said = b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n".to_vec();
    if choice & 1 != 0 {
        said.extend(b"+OK\r\n");
    }
    match choice & 2 {
        0 => said.extend(format!("+FULLRESYNC {ID} 17\r\n$EOF:{ID}\r\nREDIS{ID}").into_bytes()),
        _ => said.extend(format!("+CONTINUE {ID}\r\n").into_bytes()),
    }
    let request = |said: &mut Vec<u8>, words: &[&str]| {
        said.extend(format!("*{}\r\n", words.len()).into_bytes());
        words.iter().for_each(|word| said.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
    };
    let mut codes = codes.iter();
    while let Some(&code) = codes.next() {
        match code % 8 {
            0 => request(&mut said, &["MULTI"]),
            1 => request(&mut said, &["exec"]),
            2 => said.extend(b"\r\n"),
            3 => said.extend(codes.next()),
            _ => request(&mut said, &["SET", "key", "value", "PX", "1000"][..usize::from(code / 8 % 6)]),
        }
    }
    said
}

fuzz_target!(|data: &[u8]| {
    let [choice, cuts, rest @ ..] = data else { return };
    let (pieces, rest) = rest.split_at(usize::from(cuts % 32).min(rest.len()));
    let bytes = if cuts & 128 != 0 { spoken(*choice, rest) } else { rest.to_vec() };
    let bytes = &bytes[..bytes.len().min(INPUT_MAX)];
    let whole = attempt(*choice, bytes, &[]);
    let cut = attempt(*choice, bytes, pieces);
    if let (Ok(whole), Ok(cut)) = (&whole, &cut)
        && (whole.stream.error.is_some() || cut.stream.error.is_some())
    {
        // Requests before the error were applied, as far as they had been received.
        assert_eq!((&whole.stream.error, &whole.payload), (&cut.stream.error, &cut.payload));
        assert!(cut.stream.requests.starts_with(&whole.stream.requests));
        assert!(whole.stream.offset <= cut.stream.offset);
        return;
    }
    assert_eq!(whole, cut);
    if let Ok(outcome) = whole {
        assert!(outcome.stream_at + outcome.stream.offset <= bytes.len());
    }
});
