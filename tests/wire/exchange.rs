// SPDX-License-Identifier: BSD-3-Clause
//! Exchanges: requests and their expected replies, as text files.
//!
//! A file holds exchanges separated by blank lines. An exchange is a title line `# ...` and lines
//! of these forms:
//! - `> SET k "a\r\nb"`     a command, sent as an array of bulk strings
//! - `>> "PING\r\n"`        bytes, sent as they are
//! - `< "+PONG\r\n"`        exactly these bytes come back
//! - `<* "-ERR unknown*"`   one reply comes back whose bytes match the pattern
//! - `closed`               the server closes the connection and sends nothing more
//! - `args --name value`    before all other lines: the server is started with these arguments
//! - `braid`                before all other lines: only for Braid (stock servers lack the feature)
//!
//! A server's replies must not depend on how the bytes of the requests arrive, so each exchange
//! is run in four manners. Between two fragments a second connection is served, so that the
//! server has most likely read the first fragment by then.

use std::collections::BTreeMap;
use std::path::Path;

use braid_tests::words::{glob, quote};
use braid_tests::{RawClient, TestServer, request, words};

#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    Expect(Vec<u8>),
    ExpectLike(Vec<u8>),
    Closed,
}

#[derive(Debug)]
struct Exchange {
    title: String,
    arguments: String,
    only_braid: bool,
    steps: Vec<Step>,
}

/// How requests are divided into writes.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Whole,
    Pipelined,
    ByteByByte,
    /// A pause after the first so many bytes of the whole exchange.
    SplitAt(usize),
}

fn read(path: &Path) -> Vec<Exchange> {
    let text = std::fs::read_to_string(path).expect("an exchange file");
    text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()).map(exchange).collect()
}

fn exchange(block: &str) -> Exchange {
    let mut found =
        Exchange { title: String::new(), arguments: String::new(), only_braid: false, steps: Vec::new() };
    for line in block.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let one =
            || words(rest).into_iter().next().unwrap_or_else(|| panic!("nothing after {kind} in {block}"));
        match kind {
            "#" => found.title = format!("{}{rest}", found.title),
            "args" => found.arguments = rest.into(),
            "braid" => found.only_braid = true,
            ">" => found.steps.push(Step::Send(request(rest))),
            ">>" => found.steps.push(Step::Send(one())),
            "<" => found.steps.push(Step::Expect(one())),
            "<*" => found.steps.push(Step::ExpectLike(one())),
            "closed" => found.steps.push(Step::Closed),
            _ => panic!("unknown line in an exchange: {line}"),
        }
    }
    assert!(!found.title.is_empty(), "an exchange without a title:\n{block}");
    found
}

impl Exchange {
    fn sent_len(&self) -> usize {
        self.steps.iter().map(|step| if let Step::Send(bytes) = step { bytes.len() } else { 0 }).sum()
    }

    fn run(&self, server: &TestServer, other: &mut RawClient, manner: Manner) -> Result<(), String> {
        let empty = other.call("FLUSHALL");
        assert!(!empty.is_null());
        let mut client = server.connect();
        let mut sent_before = 0;
        if matches!(manner, Manner::Pipelined) {
            let all: Vec<u8> = self
                .steps
                .iter()
                .flat_map(|step| if let Step::Send(bytes) = step { bytes.clone() } else { Vec::new() })
                .collect();
            client.send(&all);
        }
        for step in &self.steps {
            match step {
                Step::Send(bytes) => {
                    let split = match manner {
                        Manner::Pipelined => continue,
                        Manner::Whole => 0,
                        Manner::ByteByByte => bytes.len(),
                        Manner::SplitAt(at) => at.saturating_sub(sent_before).min(bytes.len()),
                    };
                    sent_before += bytes.len();
                    if matches!(manner, Manner::ByteByByte) {
                        for byte in &bytes[..split] {
                            // The server may have replied and closed before the last byte; the
                            // expectations decide.
                            let _ = client.try_send(&[*byte]);
                            other.call("PING");
                        }
                    } else if split > 0 && split < bytes.len() {
                        let _ = client.try_send(&bytes[..split]);
                        other.call("PING");
                        other.call("PING");
                        let _ = client.try_send(&bytes[split..]);
                    } else {
                        let _ = client.try_send(bytes);
                    }
                }
                Step::Expect(expected) => {
                    let got = client.read_bytes(expected.len());
                    if got != *expected {
                        return Err(format!("expected {}\n     got {}", quote(expected), quote(&got)));
                    }
                }
                Step::ExpectLike(pattern) => match client.try_read_raw() {
                    Ok((_, raw)) if glob(pattern, &raw) => {}
                    Ok((_, raw)) => {
                        return Err(format!("expected {}\n     got {}", quote(pattern), quote(&raw)));
                    }
                    Err(error) => return Err(format!("expected {}\n     got {error:?}", quote(pattern))),
                },
                Step::Closed => match client.read_to_close() {
                    Some(rest) if rest.is_empty() => return Ok(()),
                    Some(rest) => return Err(format!("unexpected bytes before the close: {}", quote(&rest))),
                    None => return Err("the server does not close the connection".into()),
                },
            }
        }
        // No further bytes: the next reply must be the one to a PING.
        client.send(b"*1\r\n$4\r\nPING\r\n");
        match client.try_read_raw() {
            Ok((value, raw)) if value.text() == "PONG" || value.is_error() || value.elements().is_some() => {
                let _ = raw;
                Ok(())
            }
            Ok((_, raw)) => Err(format!("unexpected bytes at the end: {}", quote(&raw))),
            Err(error) => Err(format!("the final PING failed: {error:?}")),
        }
    }
}

/// Runs every exchange of a file in every manner and reports all failures.
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("wire/exchanges").join(file);
    let mut servers: BTreeMap<String, (TestServer, RawClient)> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut runs = 0;
    let exchanges = read(&path);
    for exchange in &exchanges {
        if exchange.only_braid && !braid_tests::server::is_braid() {
            println!("skipped, only for Braid: {}", exchange.title);
            continue;
        }
        let (server, other) = servers.entry(exchange.arguments.clone()).or_insert_with(|| {
            let arguments: Vec<&str> = exchange.arguments.split_whitespace().collect();
            let server = TestServer::start(&arguments);
            let mut other = server.connect();
            if let Some(at) = arguments.iter().position(|&argument| argument == "--requirepass") {
                other.ok(&format!("AUTH {}", arguments[at + 1]));
            }
            (server, other)
        });
        let mut manners = vec![Manner::Whole, Manner::Pipelined, Manner::ByteByByte];
        if exchange.sent_len() <= 300 {
            manners.extend((1..exchange.sent_len()).map(Manner::SplitAt));
        }
        for manner in manners {
            runs += 1;
            if let Err(what) = exchange.run(server, other, manner) {
                failures.push(format!("{} ({manner:?}):\n{what}", exchange.title));
                break;
            }
        }
    }
    println!("{file}: {} exchanges, {runs} runs", exchanges.len());
    assert!(!exchanges.is_empty(), "no exchanges in {file}");
    assert!(failures.is_empty(), "{file}: {} exchanges failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn requests_and_replies() {
    check("requests.txt");
}

#[test]
fn inline_requests() {
    check("inline.txt");
}

#[test]
fn protocol_errors_close_the_connection() {
    check("protocol_errors.txt");
}

#[test]
fn hello_and_resp3() {
    check("hello.txt");
}

#[test]
fn transactions() {
    check("transactions.txt");
}

#[test]
fn passwords() {
    check("passwords.txt");
}
