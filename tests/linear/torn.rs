// SPDX-License-Identifier: BSD-3-Clause
//! A deliberately wrong server: a proxy in front of a correct one that splits commands, like a
//! server without locks. INCR becomes a read and a write, MSET several writes, MGET several
//! reads, and a script that runs its arguments becomes one command for each of them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use braid_tests::words::encode;
use braid_tests::{RawClient, Value};

use crate::requests;

/// Starts the proxy; it serves until the test process ends.
pub fn start(backend: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let front = RawClient::from_tcp(socket).expect("a connected socket");
            let back = RawClient::tcp(backend).expect("the server accepts connections");
            std::thread::spawn(move || serve(front, back));
        }
    });
    address
}

fn serve(mut front: RawClient, mut back: RawClient) {
    let mut in_transaction = false;
    while let Ok(Value::Array(request)) = front.try_read() {
        let words: Vec<Vec<u8>> =
            request.iter().filter_map(|word| word.bytes().map(<[u8]>::to_vec)).collect();
        let reply = match words[0].as_slice() {
            b"INCR" if !in_transaction => increment(&mut back, &words[1]),
            b"MSET" if !in_transaction => {
                for pair in words[1..].chunks(2) {
                    back.call_arguments(&[b"SET", &pair[0][..], &pair[1]]);
                }
                Some(Value::ok())
            }
            b"MGET" if !in_transaction => {
                let values = words[1..].iter().map(|key| back.call_arguments(&[b"GET", &key[..]])).collect();
                Some(Value::Array(values))
            }
            b"EVAL" | b"EVAL_RO" | b"FCALL_RO" if !in_transaction => requests::interpreted(&words)
                .map(|commands| commands.iter().map(|command| back.call_arguments(command)).collect())
                .map(Value::Array),
            name => {
                in_transaction = name == b"MULTI" || (in_transaction && name != b"EXEC");
                None
            }
        };
        let bytes = match reply {
            Some(reply) => written(&reply),
            None => {
                back.send(&encode(&words));
                let Ok((_, raw)) = back.try_read_raw() else { return };
                raw
            }
        };
        if front.try_send(&bytes).is_err() {
            return;
        }
    }
}

/// Reads, adds, writes back: concurrent changes are lost. `None` for a value that is not a
/// number: the server then runs the command itself.
fn increment(back: &mut RawClient, key: &[u8]) -> Option<Value> {
    let text = match back.call_arguments(&[b"GET", key]) {
        Value::Bulk(text) => String::from_utf8(text).ok()?,
        _ => "0".to_owned(),
    };
    let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text)? + 1;
    back.call_arguments(&[b"SET", key, number.to_string().as_bytes()]);
    Some(Value::Integer(number))
}

fn written(value: &Value) -> Vec<u8> {
    match value {
        Value::Integer(number) => format!(":{number}\r\n").into_bytes(),
        Value::Bulk(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
        Value::NullBulk => b"$-1\r\n".to_vec(),
        Value::Array(items) => {
            [format!("*{}\r\n", items.len()).into_bytes(), items.iter().flat_map(written).collect()].concat()
        }
        Value::Error(text) => [b"-", &text[..], b"\r\n"].concat(),
        other => [b"+", other.bytes().unwrap_or_default(), b"\r\n"].concat(),
    }
}
