// SPDX-License-Identifier: BSD-3-Clause
//! Command templates: one line of text describes a command with all its options, and is expanded
//! at random.
//!
//! - a bare word stands for itself (sometimes in random case): `SET`, `WITHSCORES`
//! - `{name}` is a slot that the generator fills: `{key}`, `{value}`, `{seconds}` (listed in
//!   `generator.rs`)
//! - `[a b]` is optional; `[a | b]` is optional, and one of the two
//! - `(a | b)` is one of them; an alternative may be empty
//! - `%( x y z )` is all its parts in random order (a part is a word, slot or bracket)
//! - `+` right after a bracket or slot repeats it one to four times: `({field} {value})+`
//! - a backslash at the end of a line continues it on the next one
//! - `3x ` at the start of a line makes it three times as likely

/// A part of a template.
#[derive(Debug)]
pub enum Node {
    Word(String),
    Slot(String),
    Optional(Vec<Vec<Node>>),
    Choice(Vec<Vec<Node>>),
    Shuffle(Vec<Node>),
    Repeat(Box<Node>),
}

/// One line of a family's templates.
#[derive(Debug)]
pub struct Template {
    pub weight: u32,
    pub nodes: Vec<Node>,
}

/// Parses a family's templates; blank lines and lines that begin with `#` are skipped. Panics on
/// a malformed template, because templates are part of the program.
pub fn templates(text: &str) -> Vec<Template> {
    let joined = text.replace("\\\n", " ");
    joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(template)
        .collect()
}

fn template(line: &str) -> Template {
    let (weight, rest) = match line.split_once("x ") {
        Some((number, rest)) if number.parse::<u32>().is_ok() => (number.parse().expect("checked"), rest),
        _ => (1, line),
    };
    let tokens = tokens(rest);
    let mut at = 0;
    let mut alternatives = alternatives(&tokens, &mut at, line);
    assert!(at == tokens.len() && alternatives.len() == 1, "brackets do not match in template: {line}");
    Template { weight, nodes: alternatives.remove(0) }
}

fn tokens(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut previous = ' ';
    for byte in text.chars() {
        match byte {
            '(' if previous == '%' => spaced.push_str("( "),
            '[' | ']' | '(' | ')' | '|' | '{' => {
                spaced.push(' ');
                spaced.push(byte);
                if byte != '{' {
                    spaced.push(' ');
                }
            }
            '}' => spaced.push_str("} "),
            // Marks a repetition, to distinguish it from the word `+`.
            '+' if matches!(previous, ']' | ')' | '}') => spaced.push_str(" ++ "),
            other => spaced.push(other),
        }
        previous = byte;
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn alternatives(tokens: &[String], at: &mut usize, line: &str) -> Vec<Vec<Node>> {
    let mut all = vec![Vec::new()];
    while let Some(token) = tokens.get(*at) {
        let last = all.last_mut().expect("never empty");
        let inside = |at: &mut usize, close: &str| {
            *at += 1;
            let found = alternatives(tokens, at, line);
            assert_eq!(tokens.get(*at).map(String::as_str), Some(close), "brackets do not match: {line}");
            found
        };
        let node = match token.as_str() {
            "]" | ")" => return all,
            "|" => {
                all.push(Vec::new());
                *at += 1;
                continue;
            }
            "++" => {
                let repeated = last.pop().expect("something to repeat");
                Node::Repeat(Box::new(repeated))
            }
            "[" => Node::Optional(inside(at, "]")),
            "(" => Node::Choice(inside(at, ")")),
            "%(" => Node::Shuffle(inside(at, ")").remove(0)),
            slot if slot.starts_with('{') => Node::Slot(slot.trim_matches(['{', '}']).to_owned()),
            word => Node::Word(word.to_owned()),
        };
        last.push(node);
        *at += 1;
    }
    all
}

#[test]
fn templates_are_read() {
    let read = templates("# note\n 3x SET {key} %([NX | XX] [EX {seconds}]) ({field} {value})+ +\n");
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].weight, 3);
    let shape = format!("{:?}", read[0].nodes);
    let expected = "[Word(\"SET\"), Slot(\"key\"), Shuffle([Optional([[Word(\"NX\")], [Word(\"XX\")]]), \
                    Optional([[Word(\"EX\"), Slot(\"seconds\")]])]), Repeat(Choice([[Slot(\"field\"), \
                    Slot(\"value\")]])), Word(\"+\")]";
    assert_eq!(shape, expected);
}
