// SPDX-License-Identifier: BSD-3-Clause
//! The subset of Markdown that these tests need: links, headings, code spans, fenced blocks.

/// A fenced block: the words after its opening fence, and its lines.
pub struct Block {
    pub info: String,
    pub body: String,
    /// Number of the line with the opening fence, from 1.
    pub line: usize,
}

/// Splits a page into the text without fenced and indented blocks, and the fenced blocks.
pub fn split(text: &str) -> (String, Vec<Block>) {
    let mut prose = String::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            if !inside {
                blocks.push(Block { info: info.trim().to_owned(), body: String::new(), line: number + 1 });
            }
            inside = !inside;
        } else if inside {
            let block = blocks.last_mut().expect("a fence opened the block");
            block.body += line;
            block.body.push('\n');
        } else if !line.starts_with("    ") {
            prose += line;
            prose.push('\n');
        }
    }
    (prose, blocks)
}

/// Targets of links and images.
pub fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        inside ^= line.starts_with("```");
        if inside || line.starts_with("    ") {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            if let Some((target, _)) = line[at + 2..].split_once(')') {
                found.push(target);
            }
        }
    }
    found
}

/// Valid anchors: the headings, converted to identifiers as on GitHub.
pub fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        inside ^= line.starts_with("```");
        let hashes = line.len() - line.trim_start_matches('#').len();
        let Some(title) = line[hashes..].strip_prefix(' ').filter(|_| !inside && (1..=6).contains(&hashes))
        else {
            continue;
        };
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String =
            kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect();
        let again = found.iter().filter(|one| **one == name).count();
        found.push(if again == 0 { name } else { format!("{name}-{again}") });
    }
    found
}

/// Code spans of the prose: the text between backticks within a paragraph.
pub fn spans(prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in prose.split("\n\n") {
        for (index, part) in paragraph.split('`').enumerate() {
            if index % 2 == 1 {
                found.push(part.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    found
}

/// Words of a text that consist of these characters, each with the preceding character.
pub fn words(text: &str, is_part: impl Fn(char) -> bool) -> Vec<(&str, Option<char>)> {
    let mut found = Vec::new();
    let mut start = None;
    let end = [(text.len(), ' ')];
    for (at, c) in text.char_indices().chain(end) {
        match (is_part(c) && at < text.len(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((&text[from..at], text[..from].chars().next_back()));
                start = None;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn markdown_is_read_as_github_does() {
    let text = "# A `b_c`: d, e\n\nsee [x](y.md#z) and `one\ntwo`\n\n```sh runnable\n# no heading [a](b)\n```\n\n    `indented`\n";
    assert_eq!(anchors(text), ["a-b_c-d-e"]);
    assert_eq!(links(text), ["y.md#z"]);
    let (prose, blocks) = split(text);
    assert_eq!(spans(&prose), ["b_c", "one two"]);
    assert_eq!((blocks[0].info.as_str(), blocks[0].line), ("sh runnable", 6));
    assert_eq!(words("a-b, --c", |c| c.is_alphanumeric() || c == '-'), [("a-b", None), ("--c", Some(' '))]);
}
