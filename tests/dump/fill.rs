// SPDX-License-Identifier: BSD-3-Clause
//! Random values of every type, small and large, so that every encoding occurs.

use braid_tests::RawClient;
use fastrand::Rng;

/// A text: short or long, repetitive or not, sometimes a number.
fn text(random: &mut Rng) -> Vec<u8> {
    match random.u32(..10) {
        0..=2 => random.i32(-300..300).to_string().into_bytes(),
        3 => random.i64(..).to_string().into_bytes(),
        4 => (0..random.usize(..12)).map(|_| random.u8(..)).collect(),
        5 => b"abc".repeat(random.usize(..80)),
        6 if random.u32(..40) == 0 => {
            (0..random.usize(5000..80_000)).map(|_| random.u8(b'a'..=b'd')).collect()
        }
        _ => format!("text:{}", random.u32(..100_000)).into_bytes(),
    }
}

fn score(random: &mut Rng) -> Vec<u8> {
    match random.u32(..6) {
        0 => b"inf".to_vec(),
        1 => b"-inf".to_vec(),
        2 => random.i32(-5..5).to_string().into_bytes(),
        3 => format!("{:?}", random.f64() * 1e9).into_bytes(),
        4 => format!("{:e}", random.f64() * 1e-200).into_bytes(),
        _ => format!("{}.5", random.i32(-1000..1000)).into_bytes(),
    }
}

/// A size below or above the encoding thresholds.
fn size(random: &mut Rng) -> usize {
    match random.u32(..10) {
        0..=4 => random.usize(1..8),
        5..=7 => random.usize(8..140),
        _ => random.usize(140..900),
    }
}

fn call(client: &mut RawClient, words: Vec<Vec<u8>>) {
    let reply = client.call_arguments(&words);
    assert!(!reply.is_error(), "{reply}");
}

fn words(command: &str, key: &str) -> Vec<Vec<u8>> {
    vec![command.as_bytes().to_vec(), key.as_bytes().to_vec()]
}

/// Fills an empty server. Equal random numbers give equal commands.
pub fn fill(client: &mut RawClient, random: &mut Rng, has_field_expiry: bool) {
    for number in 0..12 {
        let mut set = words("SET", &format!("string:{number}"));
        set.push(text(random));
        call(client, set);
        for (command, width) in [("RPUSH", 1), ("SADD", 1), ("ZADD", 2), ("HSET", 2)] {
            let mut all = words(command, &format!("{command}:{number}"));
            for _ in 0..size(random) {
                if command == "ZADD" {
                    all.push(score(random));
                }
                all.push(text(random));
                if command == "HSET" {
                    all.push(text(random));
                }
            }
            assert!((all.len() - 2).is_multiple_of(width));
            call(client, all);
        }
        let mut integers = words("SADD", &format!("integers:{number}"));
        let range = [100, 100_000, i64::MAX][number % 3];
        integers.extend((0..size(random)).map(|_| random.i64(-range..range).to_string().into_bytes()));
        call(client, integers);
        stream(client, random, number);
        if has_field_expiry {
            for field in 0..random.u32(1..5) {
                let mut set = words("HSET", &format!("expiring:{number}"));
                set.extend([format!("field:{field}").into_bytes(), text(random)]);
                call(client, set);
            }
            let at = 4_000_000_000_000_i64 + random.i64(0..100_000);
            let times = client.call(&format!("HPEXPIREAT expiring:{number} {at} FIELDS 2 field:0 field:2"));
            assert!(!times.is_error(), "{times}");
            client.call(&format!("HPEXPIREAT HSET:{number} {at} FIELDS 1 5"));
        }
    }
}

fn stream(client: &mut RawClient, random: &mut Rng, number: usize) {
    let key = format!("stream:{number}");
    for entry in 0..size(random) {
        let mut add = words("XADD", &key);
        add.push(format!("{}-{}", entry / 3 + 1, entry % 3 + 1).into_bytes());
        for _ in 0..random.u32(1..4) {
            add.extend([text(random), text(random)]);
        }
        call(client, add);
        if random.u32(..12) == 0 {
            client.call(&format!("XDEL {key} {}-{}", random.u32(..20), random.u32(1..4)));
        }
    }
    for group in 0..random.u32(..3) {
        client.ok(&format!("XGROUP CREATE {key} group:{group} {}", random.u32(..9)));
        client.call(&format!("XGROUP CREATECONSUMER {key} group:{group} idle"));
        for reader in 0..random.u32(..4) {
            let count = random.u32(1..30);
            client.call(&format!(
                "XREADGROUP GROUP group:{group} reader:{reader} COUNT {count} STREAMS {key} >"
            ));
        }
        client.call(&format!("XACK {key} group:{group} 1-1 1-2 2-1"));
        client.call(&format!("XDEL {key} 2-2"));
    }
    if random.u32(..6) == 0 {
        client.call(&format!("XTRIM {key} MAXLEN {}", random.u32(..20)));
    }
}
