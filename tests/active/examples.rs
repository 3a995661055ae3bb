// SPDX-License-Identifier: BSD-3-Clause
//! The worked examples of docs/active-active.md, exactly as documented: each row is run on two
//! servers whose link is cut meanwhile.

use super::{applied, cut, link_all, server, texts, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};

const DOCUMENT: &str = include_str!("../../docs/active-active.md");
const HEADER: &str = "| before | at A | later at B | both show in the end |";

/// A row: commands, and their expected replies at the end.
struct Example<'d> {
    line: &'d str,
    before: Vec<&'d str>,
    at_one: Vec<&'d str>,
    at_two: Vec<&'d str>,
    shown: Vec<(&'d str, &'d str)>,
}

/// The code spans of a cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn examples() -> Vec<Example<'static>> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in DOCUMENT.lines() {
        is_inside = line == HEADER || (is_inside && line.starts_with('|'));
        if !is_inside || line == HEADER || line.starts_with("| --") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 4, "{line}");
        let shown = code(cells[3]);
        assert!(
            !shown.is_empty() && shown.len().is_multiple_of(2),
            "commands and replies must alternate: {line}"
        );
        found.push(Example {
            line,
            before: code(cells[0]),
            at_one: code(cells[1]),
            at_two: code(cells[2]),
            shown: shown.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        });
    }
    found
}

/// A reply in the document's notation: elements separated by blanks, `-` for an empty reply.
fn text(reply: &Value) -> String {
    match reply {
        Value::Array(elements) if elements.is_empty() => "-".into(),
        Value::Array(_) => texts(reply).join(" "),
        reply if reply.is_null() => "-".into(),
        Value::Integer(number) => number.to_string(),
        reply => reply.text(),
    }
}

fn run(example: &Example, client: &mut RawClient, lines: &[&str]) {
    for line in lines {
        let reply = client.call(line);
        assert!(!matches!(reply, Value::Error(_)), "{}: {line}: {reply:?}", example.line);
    }
}

/// HyperLogLogs with equal counts may differ in bytes (sparse or dense).
fn wait_until_alike(example: &Example, servers: &[&TestServer]) {
    if !example.line.contains("PFADD") {
        return wait_until_equal(servers);
    }
    wait_for("equal merge metadata", || {
        let mut shown = servers.iter().map(|server| {
            let mut client = server.connect();
            (client.call("ACTIVE DIGEST"), applied(&mut client))
        });
        let first = shown.next();
        shown.all(|other| Some(&other) == first.as_ref())
    });
}

#[test]
fn every_example_of_the_document_is_true() {
    let examples = examples();
    assert!(examples.len() >= 20, "only {} examples", examples.len());
    let (one, two) = (server(1, &[]), server(2, &[]));
    let servers: [&TestServer; 2] = [&one, &two];
    // Meanwhile all values move from place to place (defragmentation).
    for server in servers {
        server.connect().ok("DEBUG RELOCATE-ALL 1");
    }
    let mut wrong = Vec::new();
    for example in &examples {
        link_all(&servers);
        let (mut of_one, mut of_two) = (one.connect(), two.connect());
        of_one.call("FLUSHALL");
        run(example, &mut of_one, &example.before);
        wait_until_alike(example, &servers);
        cut(&servers);
        run(example, &mut of_one, &example.at_one);
        super::pair::let_time_pass(&one);
        run(example, &mut of_two, &example.at_two);
        link_all(&servers);
        wait_until_alike(example, &servers);
        for (client, name) in [(&mut of_one, "A"), (&mut of_two, "B")] {
            for (command, expected) in &example.shown {
                let found = text(&client.call(command));
                if found != *expected {
                    wrong.push(format!("{}\n  {command} at {name} gives {found}", example.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
