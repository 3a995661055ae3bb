// SPDX-License-Identifier: BSD-3-Clause
//! Encodes requests and strings as arrays of bulk strings, the form that clients send and that
//! the append-only file and replicas use.
//!
//! HOT PATH ([`write()`]): no allocation, no system call. The caller knows the length beforehand.
//!
//! Source: "Sending commands to a Redis server" in
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use crate::decimal::{DECIMAL_LEN_MAX, write_unsigned};

/// Appends a request.
pub fn push(out: &mut Vec<u8>, args: &[&[u8]]) {
    write(room(out, encoded_len(args)), args);
}

/// The request that logs in; none without a password. Without a name, as the default user.
pub fn auth<'a>(user: &'a str, password: &'a str) -> Option<Vec<&'a [u8]>> {
    let words = [&b"AUTH"[..], user.as_bytes(), password.as_bytes()];
    (!password.is_empty()).then(|| words.into_iter().filter(|word| !word.is_empty()).collect())
}

/// Appends the header of a request with this many arguments.
pub fn push_count(out: &mut Vec<u8>, arguments: usize) {
    write_head(&mut room(out, head_len(arguments)), b'*', arguments);
}

/// Appends an argument, or any bulk string.
pub fn push_bulk(out: &mut Vec<u8>, text: &[u8]) {
    write_bulk(&mut room(out, bulk_len(text.len())), text);
}

/// Extends `out` by `len` bytes and returns them for writing.
#[inline]
fn room(out: &mut Vec<u8>, len: usize) -> &mut [u8] {
    let before = out.len();
    out.resize(before + len, 0);
    &mut out[before..]
}

/// Number of bytes that [`write()`] fills.
#[inline]
pub fn encoded_len(args: &[&[u8]]) -> usize {
    head_len(args.len()) + args.iter().map(|arg| bulk_len(arg.len())).sum::<usize>()
}

/// Number of bytes that [`write_bulk`] needs for a string of `len` bytes.
#[inline(always)]
pub fn bulk_len(len: usize) -> usize {
    head_len(len) + len + 2
}

/// Writes a request to `to`, which is exactly [`encoded_len`] long.
#[inline]
pub fn write(mut to: &mut [u8], args: &[&[u8]]) {
    write_head(&mut to, b'*', args.len());
    for arg in args {
        write_bulk(&mut to, arg);
    }
}

/// Writes a bulk string to the front of `to`, and advances `to` past it.
#[inline(always)]
pub fn write_bulk(to: &mut &mut [u8], text: &[u8]) {
    write_head(to, b'$', text.len());
    write_bytes(to, text);
    write_array(to, *b"\r\n");
}

/// Length of a line that holds a type byte and a number.
#[inline(always)]
fn head_len(number: usize) -> usize {
    match number {
        0..10 => 4,
        10..100 => 5,
        _ => 4 + number.ilog10() as usize,
    }
}

#[inline(always)]
fn write_head(to: &mut &mut [u8], kind: u8, number: usize) {
    match number {
        0..10 => write_array(to, [kind, b'0' + number as u8, b'\r', b'\n']),
        10..100 => {
            write_array(to, [kind, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8, b'\r', b'\n']);
        }
        _ => {
            let mut digits = [0; DECIMAL_LEN_MAX];
            let len = write_unsigned(number as u64, &mut digits);
            write_bytes(to, &[kind]);
            write_bytes(to, &digits[..len]);
            write_array(to, *b"\r\n");
        }
    }
}

/// As [`write_bytes`], as stores of whole words. If a function copied the bytes, it would read
/// back bytes assembled just before, while they are still on their way to memory; that stall
/// takes longer than everything else.
#[inline(always)]
fn write_array<const N: usize>(to: &mut &mut [u8], bytes: [u8; N]) {
    let (now, later) = std::mem::take(to).split_first_chunk_mut().expect("room for the whole request");
    *now = bytes;
    *to = later;
}

#[inline(always)]
fn write_bytes(to: &mut &mut [u8], bytes: &[u8]) {
    let (now, later) = std::mem::take(to).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *to = later;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_encoded_as_clients_send_them() {
        let args: [&[u8]; 3] = [b"SET", b"key:12345678", &[b'x'; 100]];
        let expected = [b"*3\r\n$3\r\nSET\r\n$12\r\nkey:12345678\r\n$100\r\n", &[b'x'; 100][..], b"\r\n"];
        let mut out = Vec::new();
        push(&mut out, &args);
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn pushed_parts_equal_the_written_request() {
        for len in [0, 1, 9, 10, 99, 100, 101, 999, 12_345] {
            let text = vec![b'x'; len];
            for args in [vec![&text[..]], vec![&b""[..]; len], vec![&b"GET"[..], &text]] {
                let mut pushed = Vec::new();
                push_count(&mut pushed, args.len());
                args.iter().for_each(|arg| push_bulk(&mut pushed, arg));
                let mut written = vec![0; encoded_len(&args)];
                write(&mut written, &args);
                assert_eq!(pushed, written);
                assert!(written.starts_with(format!("*{}\r\n", args.len()).as_bytes()));
            }
        }
        let mut head = Vec::new();
        push_count(&mut head, usize::MAX);
        assert_eq!(head, format!("*{}\r\n", usize::MAX).as_bytes());
    }
}
