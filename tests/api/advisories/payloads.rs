// SPDX-License-Identifier: BSD-3-Clause
//! Vulnerabilities in RESTORE payloads.

use braid_tests::{TestServer, Value};

/// CVE-2026-63639: a stream entry that is pending for two consumers, and similar payloads
/// (CVE-2026-25243), made by changing every single byte. The checksum is not verified, because an
/// attacker would recompute it.
#[test]
fn forged_streams_are_refused_or_harmless() {
    let server = TestServer::start(&["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.ok("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    for line in [
        "XADD stream 1-1 field value",
        "XADD stream 2-1 field value",
        "XGROUP CREATE stream g 0",
        "XREADGROUP GROUP g a COUNT 1 STREAMS stream >",
        "XREADGROUP GROUP g b COUNT 1 STREAMS stream >",
    ] {
        assert!(!client.call(line).is_error(), "{line}");
    }
    let payload = client.call("DUMP stream").bytes().expect("a payload").to_vec();
    let id = |milliseconds: u64| [milliseconds.to_be_bytes(), 1u64.to_be_bytes()].concat();
    let second = id(2);
    let places: Vec<usize> =
        (0..payload.len() - 16).filter(|&at| payload[at..at + 16] == second[..]).collect();
    assert_eq!(places.len(), 2, "expected one ID in the group's pending list and one in its consumer's");
    let restore = |client: &mut braid_tests::RawClient, payload: &[u8]| {
        client.call_arguments(&[&b"RESTORE"[..], b"copy", b"0", payload, b"REPLACE"])
    };
    assert_eq!(restore(&mut client, &payload), Value::ok());
    let mut forged = payload.clone();
    forged[places[1]..places[1] + 16].copy_from_slice(&id(1));
    let reply = restore(&mut client, &forged);
    assert!(reply.is_error() && reply.text().contains("Bad data format"), "{reply}");
    for at in 0..payload.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut forged = payload.clone();
            forged[at] ^= change;
            if restore(&mut client, &forged) == Value::ok() {
                // An accepted payload works, whatever it contains.
                for line in [
                    "XINFO STREAM copy FULL",
                    "XPENDING copy g",
                    "XAUTOCLAIM copy g c 0 0",
                    "XREADGROUP GROUP g a STREAMS copy 0",
                    "XACK copy g 1-1 2-1",
                    "XGROUP DELCONSUMER copy g a",
                    "XADD copy * field value",
                    "COPY copy other REPLACE",
                    "OBJECT ENCODING copy",
                    "DEL copy other",
                ] {
                    client.call(line);
                }
            }
        }
    }
    assert_eq!(client.call("XLEN stream"), Value::Integer(2));
}

/// Headers that announce impossible sizes, once `proto-max-bulk-len` allows them: memory is
/// allocated only as bytes arrive.
#[test]
fn announced_sizes_allocate_no_memory() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("CONFIG SET proto-max-bulk-len 9223372036854775807");
    for len in ["1125899906842624", "4611686018427387904", "9223372036854775807"] {
        let mut other = server.connect();
        other.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\nsome bytes").as_bytes());
        for _ in 0..3 {
            assert_eq!(client.call("PING"), Value::Simple(b"PONG".to_vec()));
        }
        let used = client.info_field("memory", "used_memory").and_then(|text| text.parse::<u64>().ok());
        assert!(used.is_some_and(|used| used < 64 << 20), "{len}: {used:?}");
    }
}
