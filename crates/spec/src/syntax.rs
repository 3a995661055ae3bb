// SPDX-License-Identifier: BSD-3-Clause
//! The compact notation for the arguments in a command's row, and the tree that COMMAND DOCS
//! builds from it.
//!
//! ```text
//! key:key#0                     an argument: name, type, and for keys the key specification that
//!                               covers it (0 if omitted)
//! addr:string/ip:port           the text to display, if it differs from the name
//! EX seconds:integer            a literal token before its argument
//! NX    change=CH               a token alone; its name is the token in lower case, or stands
//!                               before the equals sign
//! (a:string|b:string)           one of several; `condition:(NX|XX)` names the choice
//! {key:key value:string}        arguments that belong together; `data:{..}` names the block
//! [..]                          optional; several arguments inside form a block
//! member:string...              may be repeated; `...TOKEN` if the token is repeated with it
//! NOW@7.0.0    ip:string!2.8.12 since this version; deprecated since that one
//! ```
//!
//! The notation is parsed only for documentation requests. A mistake in it is a mistake in a
//! command's row, caught by a test that parses every row.

use std::borrow::Cow;

/// Type of an argument, as COMMAND DOCS names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgumentKind {
    /// Name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            ArgumentKind::String => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::Key => "key",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::PureToken => "pure-token",
            ArgumentKind::OneOf => "oneof",
            ArgumentKind::Block => "block",
        }
    }

    fn of(word: &str) -> Option<ArgumentKind> {
        let scalar = [
            ArgumentKind::String,
            ArgumentKind::Integer,
            ArgumentKind::Double,
            ArgumentKind::Key,
            ArgumentKind::Pattern,
            ArgumentKind::UnixTime,
        ];
        scalar.into_iter().find(|kind| kind.name() == word)
    }
}

/// An argument, or a group of arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument<'a> {
    pub name: Cow<'a, str>,
    pub kind: ArgumentKind,
    /// Literal text before the argument, or the token itself.
    pub token: Option<&'a str>,
    /// Displayed instead of the name.
    pub display: Option<&'a str>,
    /// Index of the key specification that covers the argument.
    pub key_spec: Option<u32>,
    pub since: Option<&'a str>,
    pub deprecated: Option<&'a str>,
    pub optional: bool,
    /// The argument may be repeated.
    pub multiple: bool,
    /// The token is repeated as well.
    pub multiple_token: bool,
    /// Members of a choice or block.
    pub arguments: Vec<Argument<'a>>,
}

impl<'a> Argument<'a> {
    fn new(name: impl Into<Cow<'a, str>>, kind: ArgumentKind) -> Argument<'a> {
        Argument {
            name: name.into(),
            kind,
            token: None,
            display: None,
            key_spec: None,
            since: None,
            deprecated: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            arguments: Vec::new(),
        }
    }

    /// An unnamed choice or block: named after its first token or its first argument.
    fn unnamed(kind: ArgumentKind, mut arguments: Vec<Argument<'a>>) -> Argument<'a> {
        let name = match arguments.first_mut() {
            // A token that opens an optional block belongs to the block.
            Some(first) if kind == ArgumentKind::Block && first.kind != ArgumentKind::PureToken => {
                let token = first.token.take();
                let name =
                    token.map_or_else(|| first.name.clone(), |token| token.to_ascii_lowercase().into());
                let mut block = Argument::new(name, kind);
                block.token = token;
                block.arguments = arguments;
                return block;
            }
            Some(first) => first.name.clone(),
            None => Cow::Borrowed(""),
        };
        let mut group = Argument::new(name, kind);
        group.arguments = arguments;
        group
    }
}

/// Parses a row's notation.
///
/// # Errors
/// The first mistake and its byte offset.
pub fn parse(text: &str) -> Result<Vec<Argument<'_>>, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let arguments = parser.sequence()?;
    match parser.peek() {
        None => Ok(arguments),
        Some(byte) => Err(parser.fault(&format!("unexpected '{}'", char::from(byte)))),
    }
}

/// Maximum nesting depth; deeper groups are a mistake.
const DEPTH_MAX: usize = 16;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// True for bytes that end a token or display text.
fn is_end(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' | b'@' | b'!')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn fault(&self, what: &str) -> String {
        format!("{what} at byte {} of '{}'", self.at, self.text)
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) { Ok(()) } else { Err(self.fault(&format!("'{text}' missing"))) }
    }

    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A token or display text up to its end, excluding a repetition mark; never empty.
    fn literal(&mut self) -> Result<&'a str, String> {
        let rest = self.rest();
        let end = rest.char_indices().position(|(at, character)| {
            let ends = u8::try_from(character).is_ok_and(is_end);
            at > 0 && (ends || rest[at..].starts_with("..."))
        });
        let len = end.unwrap_or(rest.len());
        if len == 0 || !rest.is_ascii() {
            return Err(self.fault("a literal text missing"));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// A sequence of arguments up to a closing bracket or the end.
    fn sequence(&mut self) -> Result<Vec<Argument<'a>>, String> {
        let mut arguments = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b')' | b']' | b'}' | b'|') => return Ok(arguments),
                Some(_) => arguments.push(self.item()?),
            }
        }
    }

    fn item(&mut self) -> Result<Argument<'a>, String> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault("groups nested too deeply"));
        }
        self.depth += 1;
        let item = self.item_inner();
        self.depth -= 1;
        item
    }

    fn item_inner(&mut self) -> Result<Argument<'a>, String> {
        match self.peek() {
            Some(b'[') => {
                self.at += 1;
                let mut inside = self.sequence()?;
                self.expect("]")?;
                let mut argument = match inside.len() {
                    0 => return Err(self.fault("empty brackets")),
                    1 => inside.remove(0),
                    _ => Argument::unnamed(ArgumentKind::Block, inside),
                };
                argument.optional = true;
                self.suffixes(&mut argument)?;
                Ok(argument)
            }
            Some(b'(' | b'{') => self.group(None),
            _ => self.named_or_token(),
        }
    }

    /// `(..)` or `{..}`, with the name before it.
    fn group(&mut self, name: Option<&'a str>) -> Result<Argument<'a>, String> {
        let (kind, arguments) = if self.eat("(") {
            let mut choices = Vec::new();
            loop {
                let mut choice = self.sequence()?;
                choices.push(match choice.len() {
                    0 => return Err(self.fault("an empty choice")),
                    1 => choice.remove(0),
                    _ => Argument::unnamed(ArgumentKind::Block, choice),
                });
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")")?;
            (ArgumentKind::OneOf, choices)
        } else {
            self.expect("{")?;
            let arguments = self.sequence()?;
            self.expect("}")?;
            if arguments.is_empty() {
                return Err(self.fault("an empty block"));
            }
            (ArgumentKind::Block, arguments)
        };
        let mut argument = match name {
            Some(name) => Argument { arguments, ..Argument::new(name, kind) },
            None => Argument::unnamed(kind, arguments),
        };
        self.suffixes(&mut argument)?;
        Ok(argument)
    }

    fn named_or_token(&mut self) -> Result<Argument<'a>, String> {
        let word = self.word(is_name);
        if word.is_empty() {
            return Err(self.fault("a name missing"));
        }
        if self.eat(":") {
            return self.typed(word);
        }
        if self.eat("=") {
            let mut argument = Argument::new(word, ArgumentKind::PureToken);
            argument.token = Some(self.literal()?);
            self.suffixes(&mut argument)?;
            return Ok(argument);
        }
        if self.argument_follows() {
            self.skip_blanks();
            let mut argument = self.item()?;
            argument.token = Some(word);
            return Ok(argument);
        }
        // A lone lower-case word is more likely a missing type than a token.
        if word.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return Err(self.fault(&format!("'{word}' is neither a token nor has it a type")));
        }
        let mut argument = Argument::new(word.to_ascii_lowercase(), ArgumentKind::PureToken);
        argument.token = Some(word);
        self.suffixes(&mut argument)?;
        Ok(argument)
    }

    /// True if the token is followed by its argument.
    fn argument_follows(&self) -> bool {
        let rest = self.rest();
        let next = rest.trim_ascii_start();
        if next.len() == rest.len() {
            return false;
        }
        let name = next.bytes().take_while(|byte| is_name(*byte)).count();
        next.starts_with(['(', '{']) || (name > 0 && next[name..].starts_with(':'))
    }

    /// The part after `name:`.
    fn typed(&mut self, name: &'a str) -> Result<Argument<'a>, String> {
        if let Some(b'(' | b'{') = self.peek() {
            return self.group(Some(name));
        }
        let word = self.word(is_name);
        let kind = ArgumentKind::of(word).ok_or_else(|| self.fault(&format!("unknown type '{word}'")))?;
        let mut argument = Argument::new(name, kind);
        if kind == ArgumentKind::Key {
            argument.key_spec = Some(0);
        }
        if self.eat("#") {
            let digits = self.word(|byte| byte.is_ascii_digit());
            argument.key_spec = Some(digits.parse().map_err(|_| self.fault("a number missing"))?);
        }
        if self.eat("/") {
            argument.display = Some(self.literal()?);
        }
        self.suffixes(&mut argument)?;
        Ok(argument)
    }

    fn suffixes(&mut self, argument: &mut Argument<'a>) -> Result<(), String> {
        if self.eat("...") {
            argument.multiple = true;
            argument.multiple_token = self.eat("TOKEN");
        }
        let version = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        if self.eat("@") {
            argument.since = Some(self.word(version));
        }
        if self.eat("!") {
            argument.deprecated = Some(self.word(version));
        }
        if argument.since == Some("") || argument.deprecated == Some("") {
            return Err(self.fault("a version missing"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Argument<'_> {
        let mut arguments = parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(arguments.len(), 1, "{text}");
        arguments.remove(0)
    }

    #[test]
    fn scalars_tokens_and_their_suffixes() {
        let key = one("key:key#1...");
        assert_eq!(
            (&*key.name, key.kind, key.key_spec, key.multiple),
            ("key", ArgumentKind::Key, Some(1), true)
        );
        assert_eq!(one("key:key").key_spec, Some(0));
        let expiry = one("[EX seconds:integer@2.6.12]");
        assert_eq!((expiry.token, expiry.since, expiry.optional), (Some("EX"), Some("2.6.12"), true));
        let shown = one("filter:string/ip:port!2.8.12");
        assert_eq!((shown.display, shown.deprecated), (Some("ip:port"), Some("2.8.12")));
        let repeated = one("[GET get-pattern:pattern#1/pattern...TOKEN]");
        assert!(repeated.multiple && repeated.multiple_token && repeated.optional);
        assert_eq!((repeated.key_spec, repeated.display), (Some(1), Some("pattern")));
        let change = one("[change=CH@3.0.2]");
        assert_eq!(
            (&*change.name, change.token, change.kind),
            ("change", Some("CH"), ArgumentKind::PureToken)
        );
        assert_eq!(one("lib-name libname:string").token, Some("lib-name"));
        let plain = one("NX");
        assert_eq!((&*plain.name, plain.token, plain.kind), ("nx", Some("NX"), ArgumentKind::PureToken));
    }

    #[test]
    fn odd_tokens() {
        let operator = one("operator:(equal==|approximately=~)");
        let tokens: Vec<_> = operator.arguments.iter().map(|choice| choice.token.unwrap()).collect();
        assert_eq!((operator.kind, tokens), (ArgumentKind::OneOf, vec!["=", "~"]));
        let id = one("id-selector:(auto-id=*|id:string)");
        assert_eq!((id.arguments[0].token, id.arguments[1].kind), (Some("*"), ArgumentKind::String));
        assert_eq!(one("(key:key#0|empty-string=\"\")").arguments[1].token, Some("\"\""));
    }

    #[test]
    fn groups() {
        let limit = one("[LIMIT limit:{offset:integer count:integer}]");
        assert_eq!(
            (&*limit.name, limit.token, limit.kind, limit.arguments.len()),
            ("limit", Some("LIMIT"), ArgumentKind::Block, 2)
        );
        assert_eq!(one("[LIMIT offset:integer count:integer]"), limit);
        let data = one("data:{score:double member:string}...");
        assert!(data.multiple && data.arguments.iter().all(|argument| !argument.multiple));
        let nested = one("x:{STREAMS streams:{key:key#0... ID:string...}}");
        assert_eq!(nested.arguments[0].arguments[1].name, "ID");
        let condition = one("[condition:(NX|XX|IFEQ comparison:string)]");
        assert_eq!(condition.arguments[2].token, Some("IFEQ"));
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn mistakes_are_refused() {
        for wrong in [
            "key",
            "key:",
            "key:thing",
            "(a:string",
            "a:string)",
            "[]",
            "()",
            "{}",
            "x=",
            "a:key#",
            "NX@",
            "a b",
            "[(|)]",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&"[".repeat(10_000)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn nothing_makes_it_panic(text in "[a-cA-C:=#/|@!~*.\" (){}\\[\\]-]{0,30}|\\PC{0,12}") {
            let _ = parse(&text);
        }
    }
}
