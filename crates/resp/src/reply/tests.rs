// SPDX-License-Identifier: BSD-3-Clause
//! Replies byte for byte in both protocols, and the buffer's bookkeeping against a plain model.

use super::*;
use proptest::prelude::*;

/// All pending bytes, as passed to the kernel.
fn wire(reply: &ReplyBuffer) -> Vec<u8> {
    let mut slices = Vec::new();
    reply.io_slices(&mut slices, usize::MAX);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    assert_eq!(bytes.len(), reply.len());
    assert_eq!(bytes.is_empty(), reply.is_empty());
    bytes
}

#[track_caller]
fn check(write: impl Fn(&mut ReplyBuffer), resp2: &str, resp3: &str) {
    for (protocol, text) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
        let mut reply = ReplyBuffer::new(protocol);
        write(&mut reply);
        assert_eq!(String::from_utf8_lossy(&wire(&reply)), text, "{protocol:?}");
        // The same after earlier replies, in memory full of stale bytes.
        let mut reply = ReplyBuffer::new(protocol);
        reply.raw(&[b'#'; 3000]);
        reply.consume(3000);
        reply.ok();
        write(&mut reply);
        assert_eq!(String::from_utf8_lossy(&wire(&reply)), format!("+OK\r\n{text}"), "{protocol:?}");
    }
}

#[track_caller]
fn check_same(write: impl Fn(&mut ReplyBuffer), text: &str) {
    check(write, text, text);
}

#[test]
fn lines() {
    check_same(ReplyBuffer::ok, "+OK\r\n");
    check_same(|reply| reply.simple("QUEUED"), "+QUEUED\r\n");
    check_same(|reply| reply.simple("a\r\nb\n"), "+a  b \r\n");
    check_same(|reply| reply.error("ERR no such key"), "-ERR no such key\r\n");
    check_same(|reply| reply.error("ERR a\r\nb\n"), "-ERR a  b\r\n");
    check_same(|reply| reply.error_bytes(b"ERR a\rb\r\n"), "-ERR a b\r\n");
    check_same(|reply| reply.error_bytes(b"\n"), "-\r\n");
    let error = ProtocolError::ExpectedDollar(b'x');
    check_same(|reply| reply.protocol_error(&error), "-ERR Protocol error: expected '$', got 'x'\r\n");
    let mut reply = ReplyBuffer::default();
    reply.protocol_error(&ProtocolError::ExpectedDollar(0xff));
    assert_eq!(wire(&reply), b"-ERR Protocol error: expected '$', got '\xff'\r\n");
}

#[test]
fn strings() {
    check_same(|reply| reply.bulk(b""), "$0\r\n\r\n");
    check_same(|reply| reply.bulk(b"hello\r\n"), "$7\r\nhello\r\n\r\n");
    check_same(|reply| reply.bulk(&[b'x'; 1234]), &format!("$1234\r\n{}\r\n", "x".repeat(1234)));
    check_same(|reply| reply.bulk_reserve(3).copy_from_slice(b"abc"), "$3\r\nabc\r\n");
    check_same(|reply| reply.bulk_integer(-42), "$3\r\n-42\r\n");
    check_same(|reply| reply.bulk_integer(i64::MIN), "$20\r\n-9223372036854775808\r\n");
    check_same(|reply| reply.bulk_blob(&Blob::from_slice(b"small")), "$5\r\nsmall\r\n");
    check(|reply| reply.verbatim("txt", b"a\nb"), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n");
    check(|reply| reply.verbatim("m", b""), "$0\r\n\r\n", "=4\r\nm  :\r\n");
    check(|reply| reply.verbatim("mkdown", b"x"), "$1\r\nx\r\n", "=5\r\nmkd:x\r\n");
}

#[test]
fn numbers() {
    check_same(|reply| reply.integer(0), ":0\r\n");
    check_same(|reply| reply.integer(9), ":9\r\n");
    check_same(|reply| reply.integer(10), ":10\r\n");
    check_same(|reply| reply.integer(-1), ":-1\r\n");
    check_same(|reply| reply.integer(i64::MAX), ":9223372036854775807\r\n");
    check_same(|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n");
    check(|reply| reply.double(3.25), "$4\r\n3.25\r\n", ",3.25\r\n");
    check(|reply| reply.double(-5.0), "$2\r\n-5\r\n", ",-5\r\n");
    check(|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|reply| reply.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
    check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
    check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
    check(
        |reply| reply.big_number("1234567999999999999"),
        "$19\r\n1234567999999999999\r\n",
        "(1234567999999999999\r\n",
    );
}

#[test]
fn nothing() {
    check(ReplyBuffer::null, "$-1\r\n", "_\r\n");
    check(ReplyBuffer::null_array, "*-1\r\n", "_\r\n");
}

#[test]
fn aggregates() {
    check_same(|reply| reply.array(0), "*0\r\n");
    check_same(|reply| reply.array(1234567), "*1234567\r\n");
    check(|reply| reply.map(6), "*12\r\n", "%6\r\n");
    check(|reply| reply.set(3), "*3\r\n", "~3\r\n");
    check(|reply| reply.push(2), "*2\r\n", ">2\r\n");
    let attributed = |reply: &mut ReplyBuffer| {
        if reply.attribute(1) {
            reply.bulk(b"k");
            reply.integer(1);
        }
        reply.ok();
    };
    check(attributed, "+OK\r\n", "|1\r\n$1\r\nk\r\n:1\r\n+OK\r\n");
}

#[test]
fn deferred_headers_nest() {
    let write = |reply: &mut ReplyBuffer| {
        let outer = reply.begin_array();
        let map = reply.begin_map();
        (0..12).for_each(|n| reply.integer(n % 2));
        reply.end_map(map, 6);
        let set = reply.begin_set();
        reply.end_set(set, 0);
        reply.end_array(outer, 1000);
    };
    let pairs = ":0\r\n:1\r\n".repeat(6);
    check(write, &format!("*1000\r\n*12\r\n{pairs}*0\r\n"), &format!("*1000\r\n%6\r\n{pairs}~0\r\n"));
}

#[test]
fn large_blobs_are_attached_not_copied() {
    let blob = Blob::from_slice(&vec![b'v'; ATTACH_MIN]);
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.ok();
    assert_eq!(reply.as_contiguous(), Some(&b"+OK\r\n"[..]));
    let array = reply.begin_array();
    reply.bulk_blob(&blob);
    reply.bulk_blob(&blob);
    reply.end_array(array, 12);
    assert!(!blob.is_unique());
    assert_eq!(reply.as_contiguous(), None);
    assert!(reply.memory_bytes() >= 2 * ATTACH_MIN);
    let value = "v".repeat(ATTACH_MIN);
    let expected = format!("+OK\r\n*12\r\n$16384\r\n{value}\r\n$16384\r\n{value}\r\n");
    assert_eq!(wire(&reply), expected.as_bytes());
    let mut slices = Vec::new();
    reply.io_slices(&mut slices, 3);
    assert_eq!(slices.len(), 3);
    assert_eq!(slices[1].as_ptr(), blob.as_ptr());
    reply.clear();
    assert!(blob.is_unique() && reply.is_empty());
}

#[test]
fn rolling_back_drops_attachments_too() {
    let blob = Blob::from_slice(&vec![b'v'; ATTACH_MIN]);
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.ok();
    let mark = reply.mark();
    let array = reply.begin_array();
    reply.bulk_blob(&blob);
    reply.end_array(array, 1);
    reply.truncate(mark);
    reply.null();
    assert!(blob.is_unique());
    assert_eq!(wire(&reply), b"+OK\r\n$-1\r\n");
}

#[test]
fn buffers_can_be_pooled() {
    let mut reply = ReplyBuffer::from_vec(Protocol::Resp3, Vec::with_capacity(1024));
    reply.null();
    let taken = reply.take_vec();
    assert_eq!((&taken[..], taken.capacity()), (&b"_\r\n"[..], 1024));
    assert!(reply.is_empty() && reply.memory_bytes() == 0 && reply.protocol == Protocol::Resp3);
    let mut reply = ReplyBuffer::from_vec(Protocol::Resp2, taken);
    reply.ok();
    assert_eq!(wire(&reply), b"_\r\n+OK\r\n");
    reply.consume(2);
    assert_eq!(reply.take_vec(), b"\n+OK\r\n");
    reply.raw(&[1; 5000]);
    let spare = reply.take_spare();
    assert!(spare.capacity() >= 5000 && reply.is_empty() && reply.memory_bytes() == 0);
    reply.raw(b"dropped");
    reply.reuse(spare);
    assert!(reply.is_empty() && reply.memory_bytes() >= 5000);
    reply.ok();
    assert_eq!(wire(&reply), b"+OK\r\n", "a reused buffer contains another client's reply");
    reply.consume(5);
    reply.raw(&[0; 5000]);
    let mark = reply.mark();
    reply.consume(4000);
    reply.truncate(mark);
    reply.consume(1000);
    reply.shrink(100);
    assert!(reply.memory_bytes() <= 100);
    reply.ok();
    assert_eq!(wire(&reply), b"+OK\r\n");
}

#[test]
fn a_buffer_that_never_runs_empty_does_not_grow_without_end() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.raw(&[b'x'; 100]);
    for _ in 0..10_000 {
        reply.raw(&[b'x'; 100]);
        reply.consume(100);
    }
    assert_eq!(reply.len(), 100);
    assert!(reply.memory_bytes() < 4 * 64 * 1024);
}

#[derive(Clone, Debug)]
enum Action {
    Integer(i64),
    Bulk(usize),
    Blob(usize),
    Nested(usize, bool),
    RolledBack(bool),
    Consume(prop::sample::Index),
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<i64>().prop_map(Action::Integer),
        (0usize..2000).prop_map(Action::Bulk),
        (ATTACH_MIN - 2..ATTACH_MIN + 3000).prop_map(Action::Blob),
        (0usize..2000, any::<bool>()).prop_map(|(count, blob)| Action::Nested(count, blob)),
        any::<bool>().prop_map(Action::RolledBack),
        any::<prop::sample::Index>().prop_map(Action::Consume),
        any::<prop::sample::Index>().prop_map(Action::Consume),
    ]
}

fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(|index| b'a' + (index % 23) as u8).collect()
}

fn model_bulk(model: &mut Vec<u8>, content: &[u8]) {
    model.extend_from_slice(format!("${}\r\n", content.len()).as_bytes());
    model.extend_from_slice(content);
    model.extend_from_slice(b"\r\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn any_history_of_writes_and_partial_sends_matches_a_plain_vector(
        actions in prop::collection::vec(any_action(), 0..30),
    ) {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        let mut model: Vec<u8> = Vec::new();
        let large = Blob::from_slice(&patterned(ATTACH_MIN + 5));
        for action in actions {
            match action {
                Action::Integer(value) => {
                    reply.integer(value);
                    model.extend_from_slice(format!(":{value}\r\n").as_bytes());
                }
                Action::Bulk(len) => {
                    reply.bulk(&patterned(len));
                    model_bulk(&mut model, &patterned(len));
                }
                Action::Blob(len) => {
                    reply.bulk_blob(&Blob::from_slice(&patterned(len)));
                    model_bulk(&mut model, &patterned(len));
                }
                Action::Nested(count, blob) => {
                    let array = reply.begin_array();
                    model.extend_from_slice(format!("*{count}\r\n").as_bytes());
                    if blob {
                        reply.bulk_blob(&large);
                        model_bulk(&mut model, &large);
                    }
                    reply.null();
                    model.extend_from_slice(b"$-1\r\n");
                    reply.end_array(array, count);
                }
                Action::RolledBack(blob) => {
                    let mark = reply.mark();
                    reply.bulk(b"lost");
                    if blob {
                        reply.bulk_blob(&large);
                    }
                    reply.truncate(mark);
                }
                Action::Consume(share) => {
                    let count = share.index(reply.len() + 1);
                    reply.consume(count);
                    model.drain(..count);
                }
            }
            prop_assert_eq!(reply.len(), model.len());
            prop_assert!(wire(&reply) == model);
        }
        let left = reply.len();
        reply.consume(left);
        prop_assert!(reply.is_empty() && large.is_unique());
    }
}
