// SPDX-License-Identifier: BSD-3-Clause
//! Clients that are slow, stop half-way, or transfer very large values.

use std::time::Duration;

use braid_tests::words::encode;
use braid_tests::{RawClient, TestServer, Value, wait_for};

/// Sends in pieces of `piece` bytes.
fn send_in_pieces(client: &mut RawClient, bytes: &[u8], piece: usize) {
    for part in bytes.chunks(piece) {
        client.send(part);
    }
}

#[test]
fn large_value_sent_in_pieces_arrives_intact() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    // Not periodic in any buffer size, so that a misplaced piece is detected.
    let value: Vec<u8> = (0..1_048_576_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for piece in [1000, 16 * 1024, 16 * 1024 + 1, 65_536, 1_048_576, 4_000_000] {
        send_in_pieces(&mut client, &encode(&[b"SET", &b"big"[..], &value]), piece);
        assert_eq!(client.read(), Value::ok(), "pieces of {piece}");
        assert!(client.call("GET big") == Value::Bulk(value.clone()), "pieces of {piece}");
        assert_eq!(client.call("DEL big"), Value::Integer(1));
    }
}

#[test]
fn big_and_small_commands_in_one_pipeline() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let sizes = [0, 1, 15_000, 16_384, 32_768, 32_767, 40_000, 65_536, 100_000, 7, 500_000, 3];
    let mut request = Vec::new();
    for (place, size) in sizes.iter().enumerate() {
        let value = vec![b'a' + place as u8; *size];
        request.extend(encode(&[b"SET", format!("k{place}").as_bytes(), &value]));
        request.extend(encode(&["STRLEN", &format!("k{place}")]));
        request.extend(encode(&["GET", &format!("k{place}")]));
    }
    for piece in [16_383, 70_000, request.len()] {
        send_in_pieces(&mut client, &request, piece);
        for (place, size) in sizes.iter().enumerate() {
            assert_eq!(client.read(), Value::ok());
            assert_eq!(client.read(), Value::Integer(*size as i64));
            assert!(
                client.read() == Value::Bulk(vec![b'a' + place as u8; *size]),
                "k{place}, pieces of {piece}"
            );
        }
    }
}

#[test]
fn a_long_pipeline_is_answered_in_order_though_replies_are_read_late() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    const COUNT: i64 = 50_000;
    let mut request = Vec::new();
    for _ in 0..COUNT {
        request.extend(encode(&["INCR", "n"]));
    }
    client.send(&request);
    for expected in 1..=COUNT {
        assert_eq!(client.read(), Value::Integer(expected));
    }
}

#[test]
fn half_sent_command_blocks_no_other_client_and_is_dropped_on_close() {
    let server = TestServer::start(&[]);
    let mut halves: Vec<RawClient> = (0..20).map(|_| server.connect()).collect();
    let whole = encode(&["SET", "k", "from a half client"]);
    for (place, client) in halves.iter_mut().enumerate() {
        client.send(&whole[..1 + place]);
    }
    let mut other = server.connect();
    for number in 0..100 {
        assert_eq!(other.call("INCR n"), Value::Integer(number + 1));
    }
    drop(halves);
    wait_for("the clients with half a command to disconnect", || {
        other.info_field("clients", "connected_clients").is_some_and(|count| count == "1")
    });
    assert_eq!(other.call("EXISTS k"), Value::Integer(0));
}

#[test]
fn a_slow_client_gets_its_answer() {
    let server = TestServer::start(&[]);
    let mut slow = server.connect();
    let mut other = server.connect();
    for byte in encode(&["SET", "k", "v"]) {
        slow.send(&[byte]);
        assert_eq!(other.call("PING").text(), "PONG");
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(slow.read(), Value::ok());
}

#[test]
fn a_half_open_connection_still_gets_its_replies() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let value = vec![b'v'; 2_000_000];
    assert_eq!(client.call_arguments(&[b"SET", &b"big"[..], &value]), Value::ok());
    let mut request = encode(&["INCR", "n"]);
    request.extend(encode(&["INCR", "n"]));
    client.send(&request);
    client.finish_sending();
    let rest = client.read_to_close().expect("the server closes when the client has finished");
    // Redis may notice the end before it writes: the received bytes are a prefix of the replies,
    // and the commands have run.
    assert!(b":1\r\n:2\r\n".starts_with(&rest[..]), "{rest:?}");
    let mut other = server.connect();
    wait_for("both commands to have run", || other.call("GET n") == Value::bulk("2"));
}

#[test]
fn a_slow_reader_of_big_replies_gets_every_byte() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let value: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(client.call_arguments(&[b"SET", &b"big"[..], &value]), Value::ok());
    let mut reader = server.connect();
    let request: Vec<u8> = (0..10).map(|_| encode(&["GET", "big"])).collect::<Vec<_>>().concat();
    reader.send(&request);
    // The value changes while replies with its old content are still being sent; those must not
    // change.
    assert_eq!(client.call("SETRANGE big 0 changed"), Value::Integer(2_000_000));
    assert_eq!(client.call("DEL big"), Value::Integer(1));
    let changed: Vec<u8> = [b"changed", &value[7..]].concat();
    for place in 0..10 {
        let got = reader.read();
        let same = got == Value::Bulk(value.clone())
            || got == Value::Bulk(changed.clone())
            || got == Value::NullBulk;
        assert!(same, "reply {place} is neither the old nor the new value");
    }
}

/// An argument of half a gigabyte, the default maximum. Needs about 2 GB of memory.
#[test]
#[ignore = "moves 512 MB; run with --ignored"]
fn the_largest_argument_is_stored_and_returned() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.set_patience(Duration::from_secs(120)).expect("an open connection");
    const LEN: usize = 512 * 1024 * 1024;
    let value = vec![b'x'; LEN];
    client.send(format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${LEN}\r\n").as_bytes());
    send_in_pieces(&mut client, &value, 1_000_000);
    client.send(b"\r\n");
    assert_eq!(client.read(), Value::ok());
    assert_eq!(client.call("STRLEN big"), Value::Integer(LEN as i64));
    assert_eq!(client.call("GETRANGE big -1 -1"), Value::bulk("x"));
    assert_eq!(
        client.call("APPEND big x"),
        Value::Error(b"ERR string exceeds maximum allowed size (proto-max-bulk-len)".to_vec())
    );
    client.send(&encode(&["GET", "big"]));
    let header = format!("${LEN}\r\n");
    assert_eq!(client.read_bytes(header.len()), header.as_bytes());
    let mut left = LEN;
    while left > 0 {
        let part = client.read_bytes(left.min(1_000_000));
        assert!(!part.is_empty() && part.iter().all(|&byte| byte == b'x'));
        left -= part.len();
    }
    assert_eq!(client.read_bytes(2), b"\r\n");
}

#[test]
fn arguments_around_a_big_one_may_arrive_late() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let value = vec![b'v'; 50_000];
    let mut request = encode(&[b"SET", &b"k"[..], &value, b"EX", b"1000"]);
    request.extend(encode(&[b"MSET", &b"a"[..], &value, b"b", &value[..40_000], b"c", b"small"]));
    request.extend(encode(&["STRLEN", "b"]));
    // Cut after each argument, and within line ends, so that the server holds a big argument
    // while it waits for the rest.
    let mut at = 0;
    for (place, _) in request.iter().enumerate().filter(|(_, byte)| **byte == b'\r') {
        client.send(&request[at..place + 1]);
        at = place + 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    client.send(&request[at..]);
    assert_eq!(client.read(), Value::ok());
    assert_eq!(client.read(), Value::ok());
    assert_eq!(client.read(), Value::Integer(40_000));
    assert_eq!(client.call("TTL k"), Value::Integer(1000));
    assert_eq!(client.call("GET c"), Value::bulk("small"));
}

#[test]
fn pause_keeps_pending_input_including_big_arguments() {
    let server = TestServer::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    other.ok("CLIENT PAUSE 60000 WRITE");
    let mut request = encode(&["GET", "k"]);
    for len in [60_000, 3, 60_001] {
        request.extend(encode(&[b"SET", &b"k"[..], &vec![b'x'; len]]));
        request.extend(encode(&["STRLEN", "k"]));
    }
    client.send(&request);
    assert_eq!(client.read(), Value::NullBulk, "a read passes");
    client.send(&encode(&["PING"]));
    assert_eq!(other.call("EXISTS k"), Value::Integer(0));
    other.ok("CLIENT UNPAUSE");
    for len in [60_000, 3, 60_001] {
        assert_eq!(client.read(), Value::ok());
        assert_eq!(client.read(), Value::Integer(len));
    }
    assert_eq!(client.read().text(), "PONG");
}
