// SPDX-License-Identifier: BSD-3-Clause
//! The facts about one Rust file that the rules need, read from its tokens.
//!
//! Tokens carry no comments, keep string literals apart, and are visible inside macro calls too.
//! Nothing is resolved here: a path is recorded as written.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

/// A path as written, such as `crate::a::b`, with its enclosing inline modules.
#[derive(Debug, Clone)]
pub struct PathUse {
    pub segments: Vec<String>,
    pub line: usize,
    /// The enclosing inline modules (`mod x { .. }`), outermost first.
    pub inside: Vec<String>,
    pub test: bool,
    /// For a `use`: the name that it binds, or `*`.
    pub binds: Option<String>,
    /// True for `pub use`, whatever its visibility.
    pub is_reexport: bool,
}

/// `mod name;`
#[derive(Debug, Clone)]
pub struct Declaration {
    pub name: String,
    /// From `#[path = ".."]`.
    pub path: Option<String>,
    pub inside: Vec<String>,
    pub test: bool,
}

/// A function with a body.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub first: usize,
    pub last: usize,
}

/// A string literal that is an operand of a comparison or part of a pattern.
#[derive(Debug)]
pub struct Compared {
    pub text: String,
    pub line: usize,
    pub test: bool,
}

#[derive(Debug, Default)]
pub struct Facts {
    pub paths: Vec<PathUse>,
    pub declarations: Vec<Declaration>,
    /// Names of the inline modules, as paths from the file's own module.
    pub inline: Vec<Vec<String>>,
    pub functions: Vec<Function>,
    /// Lines with the keyword `unsafe`.
    pub unsafe_lines: Vec<usize>,
    /// Method calls, `.name(`: the name, the line, and whether it is in test code.
    pub method_calls: Vec<(String, usize, bool)>,
    pub compared: Vec<Compared>,
    pub forbids_unsafe: bool,
    /// `#![cfg(test)]`
    pub is_test: bool,
    /// Every identifier, with the first line that has it.
    pub identifiers: BTreeMap<String, usize>,
}

/// Scans a file.
///
/// # Errors
/// If the text is not valid Rust tokens.
pub fn scan(text: &str) -> Result<Facts, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let mut scanner = Scanner { facts: Facts::default(), inside: Vec::new() };
    identifiers(tokens.clone(), &mut scanner.facts.identifiers);
    scanner.walk(tokens, false, false);
    Ok(scanner.facts)
}

fn identifiers(tokens: TokenStream, found: &mut BTreeMap<String, usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => identifiers(group.stream(), found),
            TokenTree::Ident(ident) => {
                found.entry(ident.to_string()).or_insert_with(|| line_of(ident.span()));
            }
            _ => {}
        }
    }
}

struct Scanner {
    facts: Facts,
    inside: Vec<String>,
}

/// The relevant attributes before an item.
#[derive(Default)]
struct Attributes {
    test: bool,
    path: Option<String>,
}

impl Scanner {
    /// `compared`: whether literals at this level are patterns, or arguments of a comparing
    /// method.
    fn walk(&mut self, tokens: TokenStream, test: bool, compared: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut attributes = Attributes::default();
        let mut at = 0;
        while at < tokens.len() {
            let here = test || attributes.test;
            match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let inner = is_punct(tokens.get(at + 1), '!');
                    if let Some(TokenTree::Group(group)) = tokens.get(at + 1 + usize::from(inner)) {
                        self.attribute(group, inner, &mut attributes);
                        at += 2 + usize::from(inner);
                        continue;
                    }
                }
                // The end of an item.
                TokenTree::Punct(punct) if punct.as_char() == ';' => attributes = Attributes::default(),
                TokenTree::Ident(ident) => {
                    let next = self.word(&tokens, at, &ident.to_string(), here, &attributes);
                    // A module or import that has been consumed whole.
                    if next > at + 1 && matches!(ident.to_string().as_str(), "mod" | "use") {
                        attributes = Attributes::default();
                    }
                    at = next;
                    continue;
                }
                TokenTree::Literal(literal) => {
                    if let Some(text) = string(&literal.to_string())
                        && (compared || is_compared(&tokens, at))
                    {
                        let line = literal.span().start().line;
                        self.facts.compared.push(Compared { text, line, test: here });
                    }
                }
                TokenTree::Group(group) => {
                    let patterns = (compared && group.delimiter() != Delimiter::Brace)
                        || compares_content(&tokens, at, group);
                    self.walk(group.stream(), here, patterns);
                    if group.delimiter() == Delimiter::Brace {
                        attributes = Attributes::default();
                    }
                }
                TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }

    fn attribute(&mut self, group: &Group, inner: bool, attributes: &mut Attributes) {
        let text: String = group.stream().to_string().split_whitespace().collect();
        let for_tests = text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,");
        if inner {
            self.facts.is_test |= for_tests && self.inside.is_empty();
            self.facts.forbids_unsafe |= text == "forbid(unsafe_code)";
        } else {
            attributes.test |= for_tests;
            if let Some(path) = text.strip_prefix("path=") {
                attributes.path = Some(path.trim_matches('"').to_owned());
            }
        }
    }

    /// Handles a construct that begins with a word; returns the index of the next token to read.
    fn word(
        &mut self,
        tokens: &[TokenTree],
        at: usize,
        word: &str,
        test: bool,
        attributes: &Attributes,
    ) -> usize {
        let line = tokens[at].span().start().line;
        match word {
            "unsafe" => self.facts.unsafe_lines.push(line),
            "mod" => return self.module(tokens, at, test, attributes),
            "use" => {
                let end =
                    (at..tokens.len()).find(|&at| is_punct(tokens.get(at), ';')).unwrap_or(tokens.len());
                // `use<'a>` in a type is no import.
                if !is_punct(tokens.get(at + 1), '<') {
                    let first = self.facts.paths.len();
                    self.import(&tokens[at + 1..end], &[], line);
                    for path in &mut self.facts.paths[first..] {
                        path.test = test;
                        path.is_reexport = is_public(&tokens[..at]);
                    }
                    return end;
                }
            }
            "fn" => self.function(tokens, at),
            _ => {
                let after_dot = at > 0 && is_punct(tokens.get(at - 1), '.');
                if after_dot && is_call(tokens.get(at + 1)) {
                    self.facts.method_calls.push((word.to_owned(), line, test));
                }
                let after_path = at > 1 && is_separator(tokens, at - 2);
                if !after_path && is_separator(tokens, at + 1) {
                    let mut segments = vec![word.to_owned()];
                    let mut next = at + 1;
                    while is_separator(tokens, next) {
                        let Some(TokenTree::Ident(ident)) = tokens.get(next + 2) else { break };
                        segments.push(ident.to_string());
                        next += 3;
                    }
                    let inside = self.inside.clone();
                    self.facts.paths.push(PathUse {
                        segments,
                        line,
                        inside,
                        test,
                        binds: None,
                        is_reexport: false,
                    });
                    return next;
                }
            }
        }
        at + 1
    }

    fn module(&mut self, tokens: &[TokenTree], at: usize, test: bool, attributes: &Attributes) -> usize {
        let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else { return at + 1 };
        match tokens.get(at + 2) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                self.inside.push(name.to_string());
                self.facts.inline.push(self.inside.clone());
                self.walk(group.stream(), test, false);
                self.inside.pop();
                at + 3
            }
            token if is_punct(token, ';') => {
                self.facts.declarations.push(Declaration {
                    name: name.to_string(),
                    path: attributes.path.clone(),
                    inside: self.inside.clone(),
                    test,
                });
                at + 3
            }
            _ => at + 1,
        }
    }

    fn function(&mut self, tokens: &[TokenTree], at: usize) {
        // A type such as `fn(u8)` has no name.
        let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else { return };
        for token in &tokens[at + 2..] {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let (first, last) = (tokens[at].span().start().line, group.span_close().end().line);
                    self.facts.functions.push(Function { name: name.to_string(), first, last });
                    return;
                }
                token if is_punct(Some(token), ';') => return,
                _ => {}
            }
        }
    }

    /// One branch of a `use`, after the segments of `prefix`.
    fn import(&mut self, tokens: &[TokenTree], prefix: &[String], line: usize) {
        let mut segments = prefix.to_vec();
        let mut binds = None;
        let mut renamed = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if ident == "as" => renamed = true,
                TokenTree::Ident(ident) if renamed => binds = Some(ident.to_string()),
                TokenTree::Ident(ident) => segments.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => binds = Some("*".to_owned()),
                TokenTree::Group(group) => {
                    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in tokens.split(|token| is_punct(Some(token), ',')) {
                        if let Some(first) = branch.first() {
                            self.import(branch, &segments, line_of(first.span()));
                        }
                    }
                    return;
                }
                _ => {}
            }
        }
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        let binds = binds.or_else(|| segments.last().cloned());
        let inside = self.inside.clone();
        self.facts.paths.push(PathUse { segments, line, inside, test: false, binds, is_reexport: false });
    }
}

/// True if the tokens end with `pub` or `pub(..)`.
fn is_public(tokens: &[TokenTree]) -> bool {
    let before = match tokens.split_last() {
        Some((TokenTree::Group(_), before)) => before,
        _ => tokens,
    };
    matches!(before.last(), Some(TokenTree::Ident(word)) if word == "pub")
}

fn line_of(span: Span) -> usize {
    span.start().line
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_call(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let joint = matches!(tokens.get(at), Some(TokenTree::Punct(punct))
        if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
    joint && is_punct(tokens.get(at + 1), ':')
}

/// True if one of these two-character operators is at this index.
fn is_operator(tokens: &[TokenTree], at: usize, operators: &[&str]) -> bool {
    let (Some(TokenTree::Punct(one)), Some(TokenTree::Punct(two))) = (tokens.get(at), tokens.get(at + 1))
    else {
        return false;
    };
    let joint = one.spacing() == Spacing::Joint;
    joint && operators.iter().any(|operator| operator.chars().eq([one.as_char(), two.as_char()]))
}

/// True if the token is an operand of a comparison or (a part of) a pattern.
fn is_compared(tokens: &[TokenTree], at: usize) -> bool {
    let before = at >= 2 && is_operator(tokens, at - 2, &["==", "!="]);
    let behind = is_operator(tokens, at + 1, &["==", "!=", "=>"]);
    let guarded = matches!(tokens.get(at + 1), Some(TokenTree::Ident(word)) if word == "if");
    let alternative =
        guarded || is_punct(tokens.get(at + 1), '|') || (at > 0 && is_punct(tokens.get(at - 1), '|'));
    before || behind || alternative
}

/// True if the literals within a group are compared with a value: patterns, `matches!(..)`,
/// `.eq_ignore_ascii_case(..)`, `[..].contains(..)`.
fn compares_content(tokens: &[TokenTree], at: usize, group: &Group) -> bool {
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    };
    match group.delimiter() {
        Delimiter::Parenthesis => {
            let called = if at > 0 { word(at - 1) } else { String::new() };
            let is_matches = at > 1 && is_punct(tokens.get(at - 1), '!') && word(at - 2) == "matches";
            let is_let = is_punct(tokens.get(at + 1), '=')
                && (at > 1 && word(at - 2) == "let" || at > 0 && word(at - 1) == "let");
            // `Some(..)` is a pattern, `call(..)` is not.
            let is_call = called != "if" && called.starts_with(|c: char| c.is_ascii_lowercase());
            let is_pattern = !is_call && is_compared(tokens, at);
            called == "eq_ignore_ascii_case" || is_matches || is_let || is_pattern
        }
        Delimiter::Bracket => {
            is_punct(tokens.get(at + 1), '.') && word(at + 2) == "contains" || is_compared(tokens, at)
        }
        _ => false,
    }
}

/// The text of a string or byte string literal, with escapes left as they are.
fn string(literal: &str) -> Option<String> {
    let (start, end) = (literal.find('"')?, literal.rfind('"')?);
    let prefix = literal[..start].trim_end_matches('#');
    (end > start && matches!(prefix, "" | "b" | "r" | "br" | "c")).then(|| literal[start + 1..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(text: &str) -> Vec<String> {
        scan(text).expect("tokens").compared.into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn comparisons_are_seen_and_other_literals_are_not() {
        let text = r##"
            fn f(x: &str) -> bool {
                let name = "none"; call("none", b"none"); // == "comment"
                x == "a" || "b" != x || matches!(x, "c" | "d") || x.eq_ignore_ascii_case("e")
                    || ["f", "g"].contains(&x) || match (1, x) { (1, "h") => true, (2, "i") if y("none") => z, _ => q("none") }
                    || match x { "j" => "none", b"k" | b"l" => 0 }
            }"##;
        let found = compared(text);
        for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
            assert!(found.iter().any(|one| one == name), "{name} in {found:?}");
        }
        assert!(!found.iter().any(|one| one == "none" || one == "comment"), "{found:?}");
    }

    #[test]
    fn imports_paths_and_modules() {
        let facts = scan(
            "use crate::{a::{self, B as C}, d::*};\nmod x;\n#[cfg(test)]\nmod tests { use super::Y; fn f() { crate::p::q(); } }\nfn g(a: crate::t::U) { super::r::s::<u8>() }",
        )
        .expect("tokens");
        let show = |path: &PathUse| {
            let test = if path.test { " test" } else { "" };
            format!("{}={}{test}", path.segments.join("::"), path.binds.as_deref().unwrap_or("-"))
        };
        let paths: Vec<String> = facts.paths.iter().map(show).collect();
        assert_eq!(
            paths,
            [
                "crate::a=a",
                "crate::a::B=C",
                "crate::d=*",
                "super::Y=Y test",
                "crate::p::q=- test",
                "crate::t::U=-",
                "super::r::s=-"
            ]
        );
        assert_eq!(facts.declarations.len(), 1);
        assert_eq!(facts.inline, [["tests"]]);
        assert_eq!(facts.paths[3].inside, ["tests"]);
    }

    #[test]
    fn unsafe_is_a_keyword_not_a_word() {
        let text =
            "#![forbid(unsafe_code)]\n// unsafe\nfn f() { let unsafe_ = \"unsafe\"; }\nm!(unsafe { 1 });";
        let facts = scan(text).expect("tokens");
        assert!(facts.forbids_unsafe);
        assert_eq!(facts.unsafe_lines, [4]);
    }
}
