// SPDX-License-Identifier: BSD-3-Clause
//! The wire cost of a request and a reply: divan prints time per pipeline; divide by its depth.
//!
//! Run: `cargo bench -p braid-resp`. The important figures are GET and SET with 16-byte keys, 64
//! requests per pipeline.

use braid_resp::{Limits, Protocol, ReplyBuffer, RequestParser, Span, Step};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        wire.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        wire.extend_from_slice(argument);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

const KEY: &[u8] = b"key:000000012345";
const DEPTHS: [usize; 3] = [1, 16, 64];

/// Parses every request of `stream` as an event loop does. Returns the number of spans.
#[inline(never)]
fn parse_all(parser: &mut RequestParser, stream: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> usize {
    spans.clear();
    let mut position = 0;
    while position < stream.len() {
        match parser.next(&stream[position..], limits, spans) {
            Step::Request { consumed } => position += consumed,
            other => panic!("{other:?}"),
        }
    }
    spans.len()
}

fn bench_parse(bencher: Bencher, one: &[u8], depth: usize) {
    let stream = one.repeat(depth);
    let (mut parser, limits) = (RequestParser::default(), Limits::default());
    let mut spans = Vec::with_capacity(1024);
    bencher
        .counter(ItemsCount::new(depth))
        .bench_local(|| parse_all(&mut parser, black_box(&stream), &limits, &mut spans));
}

#[divan::bench(args = DEPTHS)]
fn parse_get(bencher: Bencher, depth: usize) {
    bench_parse(bencher, &request(&[b"GET", KEY]), depth);
}

#[divan::bench(args = DEPTHS)]
fn parse_set_of_32_bytes(bencher: Bencher, depth: usize) {
    bench_parse(bencher, &request(&[b"SET", KEY, &[b'v'; 32]]), depth);
}

#[divan::bench(args = DEPTHS)]
fn parse_set_of_1000_bytes(bencher: Bencher, depth: usize) {
    bench_parse(bencher, &request(&[b"SET", KEY, &[b'v'; 1000]]), depth);
}

#[divan::bench]
fn parse_mset_of_1000_pairs(bencher: Bencher) {
    let arguments: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(std::iter::repeat_n(KEY, 2000)).collect();
    bench_parse(bencher, &request(&arguments), 1);
}

#[divan::bench]
fn parse_half_a_set(bencher: Bencher) {
    let stream = request(&[b"SET", KEY, &[b'v'; 32]]);
    let (mut parser, limits) = (RequestParser::default(), Limits::default());
    let mut spans = Vec::with_capacity(1024);
    bencher.bench_local(|| {
        let step = parser.next(black_box(&stream[..50]), &limits, &mut spans);
        assert_eq!(step, Step::Incomplete);
    });
}

/// Writes `REPLIES` replies and consumes them as if sent.
const REPLIES: usize = 64;

#[inline(always)]
fn bench_replies(bencher: Bencher, protocol: Protocol, mut write: impl FnMut(&mut ReplyBuffer, usize)) {
    let mut reply = ReplyBuffer::from_vec(protocol, Vec::with_capacity(16 * 1024));
    bencher.counter(ItemsCount::new(REPLIES)).bench_local(|| {
        for index in 0..REPLIES {
            write(black_box(&mut reply), index);
        }
        let sent = reply.len();
        reply.consume(sent);
        sent
    });
}

#[divan::bench]
fn reply_ok(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp2, |reply, _| reply.ok());
}

#[divan::bench]
fn reply_null(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp3, |reply, _| reply.null());
}

#[divan::bench]
fn reply_small_integer(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp2, |reply, index| reply.integer((index & 1) as i64));
}

#[divan::bench]
fn reply_long_integer(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp2, |reply, index| reply.integer(1_234_567_890 + index as i64));
}

#[divan::bench(args = [3, 32, 200, 1000])]
fn reply_bulk(bencher: Bencher, len: usize) {
    let value = vec![b'v'; len];
    bench_replies(bencher, Protocol::Resp2, |reply, _| reply.bulk(black_box(&value)));
}

#[divan::bench(args = [3, 32, 200, 1000])]
fn reply_bulk_reserve(bencher: Bencher, len: usize) {
    let value = vec![b'v'; len];
    bench_replies(bencher, Protocol::Resp2, |reply, _| {
        let value = black_box(&value);
        reply.bulk_reserve(value.len()).copy_from_slice(value);
    });
}

#[divan::bench]
fn reply_array_of_10(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp2, |reply, _| {
        reply.array(10);
        (0..10).for_each(|_| reply.bulk(KEY));
    });
}

#[divan::bench]
fn reply_deferred_array_of_10(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp2, |reply, _| {
        let array = reply.begin_array();
        (0..10).for_each(|_| reply.bulk(KEY));
        reply.end_array(array, 10);
    });
}

#[divan::bench]
fn reply_double(bencher: Bencher) {
    bench_replies(bencher, Protocol::Resp3, |reply, index| reply.double(0.37 + index as f64));
}
