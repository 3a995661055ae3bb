// SPDX-License-Identifier: BSD-3-Clause
//! Replies measured on Redis Stack 7.4, as text: a protocol, a command and its reply a line; an
//! empty line empties the dataset. `?` is a reply that differs on purpose (docs/sketches.md), or
//! says how much memory something takes.
//!
//! ```text
//! +simple  :1  -ERR error  "bulk"  nil  #t  ,0.5  [array, ...]  {name=>value, ...}
//! ```

use braid_commands::testing::Tester;
use braid_resp::reply::Protocol;

/// A reply in this notation.
fn shown(reply: &[u8]) -> String {
    let mut rest = reply;
    let text = one(&mut rest);
    assert!(rest.is_empty(), "more than a reply: {}", reply.escape_ascii());
    text
}

fn line<'r>(rest: &mut &'r [u8]) -> &'r [u8] {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a whole line");
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    line
}

fn one(rest: &mut &[u8]) -> String {
    let head = line(rest);
    let text = String::from_utf8_lossy(&head[1..]).into_owned();
    let count = |text: &str| text.parse::<usize>().expect("a count");
    match head[0] {
        b'$' | b'*' if text == "-1" => "nil".into(),
        b'_' => "nil".into(),
        b'$' => {
            let len = count(&text);
            let bulk: String = rest[..len].iter().map(|&byte| escaped(byte)).collect();
            *rest = &rest[len + 2..];
            format!("\"{bulk}\"")
        }
        b'*' => {
            let parts: Vec<String> = (0..count(&text)).map(|_| one(rest)).collect();
            format!("[{}]", parts.join(", "))
        }
        b'%' => {
            let pair = |rest: &mut &[u8]| {
                let name = one(rest);
                format!("{}=>{}", &name[1..], one(rest))
            };
            let parts: Vec<String> = (0..count(&text)).map(|_| pair(rest)).collect();
            format!("{{{}}}", parts.join(", "))
        }
        _ => String::from_utf8_lossy(head).into_owned(),
    }
}

fn escaped(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).into(),
        _ => format!("\\x{byte:02x}"),
    }
}

/// Asserts that all replies are as measured.
pub fn check(measured: &str) {
    let mut tester = Tester::new();
    for step in measured.lines() {
        let Some((protocol, step)) = step.split_once(' ') else {
            tester.run("FLUSHALL");
            continue;
        };
        let protocol = if protocol == "3" { Protocol::Resp3 } else { Protocol::Resp2 };
        tester.speak(0, protocol);
        let (command, reply) = step.split_once(" => ").expect("a command and a reply");
        let words: Vec<&[u8]> = command.split(' ').map(|word| word.trim_matches('"').as_bytes()).collect();
        let given = tester.run_args(0, &words);
        if reply != "?" {
            assert_eq!(shown(&given), reply, "{command}");
        }
    }
}
