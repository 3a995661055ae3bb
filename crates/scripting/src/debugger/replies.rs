// SPDX-License-Identifier: BSD-3-Clause
//! Replies of commands as text for the developer.

use braid_base::number::parse_i64;
use braid_resp::inline::push_quoted;

/// Maximum nesting.
const DEPTH_MAX: usize = 64;

/// A reply in the form that stock servers show.
pub(super) fn to_text(reply: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), reply);
    push(&mut out, &mut rest, 0);
    out
}

/// Takes a line, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 2..).unwrap_or_default();
    line
}

fn push(out: &mut Vec<u8>, rest: &mut &[u8], depth: usize) {
    let header = line(rest);
    let Some((kind, text)) = header.split_first() else { return };
    let count = || parse_i64(text).and_then(|count| usize::try_from(count).ok());
    match kind {
        b':' | b'(' => out.extend_from_slice(text),
        b'+' | b'-' => push_quoted(out, header),
        b'$' | b'=' => match count() {
            Some(count) => {
                let (bytes, after) = rest.split_at(count.min(rest.len()));
                *rest = after.get(2..).unwrap_or_default();
                push_quoted(out, bytes);
            }
            None => out.extend_from_slice(b"NULL"),
        },
        b'_' => out.extend_from_slice(b"(null)"),
        b'#' => out.extend_from_slice(if text == b"t" { b"#true" } else { b"#false" }),
        b',' => {
            out.extend_from_slice(b"(double) ");
            out.extend_from_slice(text);
        }
        b'*' | b'~' | b'>' | b'%' if depth < DEPTH_MAX => match count() {
            Some(count) => push_elements(out, rest, *kind, count, depth),
            None => out.extend_from_slice(b"NULL"),
        },
        _ => {}
    }
}

fn push_elements(out: &mut Vec<u8>, rest: &mut &[u8], kind: u8, count: usize, depth: usize) {
    let (begin, end) = match kind {
        b'~' => ("~(", ")"),
        b'%' => ("{", "}"),
        _ => ("[", "]"),
    };
    out.extend_from_slice(begin.as_bytes());
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        push(out, rest, depth + 1);
        if kind == b'%' {
            out.extend_from_slice(b" => ");
            push(out, rest, depth + 1);
        }
    }
    out.extend_from_slice(end.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_shown_as_text() {
        for (reply, text) in [
            ("+OK\r\n", "\"+OK\""),
            ("-ERR a\tb\r\n", "\"-ERR a\\tb\""),
            (":-7\r\n", "-7"),
            ("$3\r\na\r\n\r\n", "\"a\\r\\n\""),
            ("$-1\r\n", "NULL"),
            ("*-1\r\n", "NULL"),
            ("_\r\n", "(null)"),
            ("#t\r\n", "#true"),
            (",1.5\r\n", "(double) 1.5"),
            ("*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", "[1,[\"x\"]]"),
            ("~2\r\n:1\r\n:2\r\n", "~(1,2)"),
            ("%1\r\n+a\r\n*0\r\n", "{\"+a\" => []}"),
            ("*2\r\n", "[,]"),
        ] {
            assert_eq!(String::from_utf8_lossy(&to_text(reply.as_bytes())), text);
        }
    }
}
