// SPDX-License-Identifier: BSD-3-Clause
//! Key analysis: finds scripts whose text proves that they touch no undeclared keys.
//!
//! The proof is simple and conservative. `redis` may only be used as `redis.call(...)`,
//! `redis.pcall(...)` or for a few harmless functions. Each call names its command by a literal,
//! the command has its keys at fixed positions, and each of these arguments is a *key
//! expression*: `KEYS[...]`, or a local variable that is declared once, as
//! `local name = KEYS[...]`, and never assigned. `KEYS` itself may only be indexed. Other paths
//! to the same values (`_G`, `getfenv`, `load` ...) make a script unprovable, as does any syntax
//! not covered here.
//!
//! `server` is another name of `redis`. A script that mentions neither touches no keys.
//!
//! The names of such variables may be used anywhere: out of scope, such a name is an undefined
//! global, and therefore an error.

use braid_spec::{Begin, CommandTable, Find, Flags, KeyFlags, Scope};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Name(&'a [u8]),
    /// A string's content, if it is written without escapes.
    Text(&'a [u8]),
    OddText,
    Number,
    Symbol(u8),
    /// `==`, `~=`, `<=`, `>=`, `..`, `...`
    Operator,
}

/// The tokens of a Lua text; `None` if it cannot be tokenised.
fn tokens(code: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some((&first, after)) = rest.split_first() {
        match first {
            b' ' | b'\t' | b'\n' | b'\r' | 11 | 12 => rest = after,
            b'-' if after.first() == Some(&b'-') => {
                let comment = &after[1..];
                rest = match long_bracket(comment) {
                    Some((_, behind)) => behind?,
                    None => {
                        let end = comment.iter().position(|&byte| byte == b'\n').unwrap_or(comment.len());
                        &comment[end..]
                    }
                };
            }
            b'[' => match long_bracket(rest) {
                Some((content, behind)) => {
                    tokens.push(Token::Text(content));
                    rest = behind?;
                }
                None => {
                    tokens.push(Token::Symbol(first));
                    rest = after;
                }
            },
            b'"' | b'\'' => {
                let mut at = 0;
                let mut odd = false;
                loop {
                    match after.get(at)? {
                        b'\\' => {
                            odd = true;
                            at += 2;
                        }
                        b'\n' => return None,
                        &byte if byte == first => break,
                        _ => at += 1,
                    }
                }
                tokens.push(if odd { Token::OddText } else { Token::Text(&after[..at]) });
                rest = &after[at + 1..];
            }
            b'0'..=b'9' => {
                let len =
                    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count();
                // `1..x` is not a number; valid scripts do not contain it.
                if rest[..len].windows(2).any(|pair| pair == b"..") {
                    return None;
                }
                tokens.push(Token::Number);
                rest = &rest[len..];
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let len =
                    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                tokens.push(Token::Name(&rest[..len]));
                rest = &rest[len..];
            }
            b'.' if after.first() == Some(&b'.') => {
                let len = rest.iter().take_while(|&&byte| byte == b'.').count();
                tokens.push(Token::Operator);
                rest = &rest[len..];
            }
            b'=' | b'~' | b'<' | b'>' if after.first() == Some(&b'=') => {
                tokens.push(Token::Operator);
                rest = &after[1..];
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'#' | b'=' | b'<' | b'>' | b'(' | b')' | b'{'
            | b'}' | b']' | b';' | b':' | b',' | b'.' => {
                tokens.push(Token::Symbol(first));
                rest = after;
            }
            _ => return None,
        }
    }
    Some(tokens)
}

/// The content of the long bracket at the start of `text`, and the rest (`None` if it does not
/// end); `None` if there is no such bracket.
fn long_bracket(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|&&byte| byte == b'=').count();
    if text.get(level + 1) != Some(&b'[') {
        return None;
    }
    let content = &text[level + 2..];
    let end = [&b"]"[..], &vec![b'='; level], b"]"].concat();
    match content.windows(end.len()).position(|window| window == end) {
        Some(at) => Some((&content[..at], Some(&content[at + end.len()..]))),
        None => Some((content, None)),
    }
}

/// The keyword, not the command.
const FUNCTION: &[u8] = b"function";
/// Names that could bypass the analysis.
const FORBIDDEN: &[&[u8]] = &[b"_G", b"getfenv", b"setfenv", b"load", b"loadstring"];
/// Loops that may never end. A long run under locks that has written can neither be abandoned nor
/// release its locks, so a script that might run forever runs alone: then SCRIPT KILL and
/// SHUTDOWN work.
const ENDLESS: &[&[u8]] = &[b"while", b"repeat"];
/// Harmless members of `redis`.
const HARMLESS: &[&[u8]] = &[
    b"error_reply",
    b"status_reply",
    b"sha1hex",
    b"replicate_commands",
    b"breakpoint",
    b"setresp",
    b"REPL_NONE",
    b"REPL_AOF",
    b"REPL_SLAVE",
    b"REPL_REPLICA",
    b"REPL_ALL",
    b"LOG_DEBUG",
    b"LOG_VERBOSE",
    b"LOG_NOTICE",
    b"LOG_WARNING",
    b"REDIS_VERSION",
    b"REDIS_VERSION_NUM",
    b"SERVER_NAME",
    b"SERVER_VERSION",
    b"SERVER_VERSION_NUM",
    b"set_repl",
    b"log",
];

/// Names of the table through which a script calls commands.
const TABLES: [Token<'_>; 2] = [Token::Name(b"redis"), Token::Name(b"server")];
const KEYS: Token<'_> = Token::Name(b"KEYS");

/// The keys that a script can reach, according to its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// No keys: it calls no commands.
    Nothing,
    /// Declared keys only.
    DeclaredKeys,
    /// Any keys: the analysis proved nothing.
    Anything,
}

/// Computes the keys that a script can reach.
pub fn reach(commands: &CommandTable, code: &[u8]) -> Reach {
    match tokens(code) {
        Some(tokens) if calls_nothing(&tokens) => Reach::Nothing,
        Some(tokens) if prove(commands, &tokens).is_some() => Reach::DeclaredKeys,
        _ => Reach::Anything,
    }
}

/// True if the name at `at` is a field name rather than a variable.
fn is_field(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && matches!(tokens[at - 1], Token::Symbol(b'.' | b':'))
}

fn calls_nothing(tokens: &[Token<'_>]) -> bool {
    (0..tokens.len()).all(|at| match tokens[at] {
        Token::Name(_) if is_field(tokens, at) => true,
        Token::Name(name) if FORBIDDEN.contains(&name) => false,
        token => !TABLES.contains(&token),
    })
}

struct Proof<'a, 't> {
    commands: &'a CommandTable,
    tokens: &'t [Token<'t>],
    /// Local variables that hold a declared key.
    aliases: Vec<&'t [u8]>,
}

fn prove(commands: &CommandTable, tokens: &[Token<'_>]) -> Option<()> {
    let mut proof = Proof { commands, tokens, aliases: Vec::new() };
    proof.find_aliases()?;
    for at in 0..tokens.len() {
        match tokens[at] {
            Token::Name(_) if is_field(tokens, at) => {}
            Token::Name(name) if FORBIDDEN.contains(&name) || ENDLESS.contains(&name) => return None,
            token if token == KEYS => proof.keys_use(at)?,
            token if TABLES.contains(&token) => proof.redis_use(at)?,
            _ => {}
        }
    }
    Some(())
}

impl<'t> Proof<'_, 't> {
    fn token(&self, at: usize) -> Option<Token<'t>> {
        self.tokens.get(at).copied()
    }

    fn is(&self, at: usize, symbol: u8) -> bool {
        self.token(at) == Some(Token::Symbol(symbol))
    }

    /// The position after the closing bracket that matches the one at `at`.
    fn behind_brackets(&self, at: usize) -> Option<usize> {
        let mut depth = 0usize;
        for index in at..self.tokens.len() {
            match self.tokens[index] {
                Token::Symbol(b'[' | b'(' | b'{') => depth += 1,
                Token::Symbol(b']' | b')' | b'}') => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Finds `local a, b = KEYS[1], KEYS[2]`: as many keys as names, and no other assignment or
    /// declaration of these names.
    fn find_aliases(&mut self) -> Option<()> {
        let mut candidates: Vec<&[u8]> = Vec::new();
        for at in 0..self.tokens.len() {
            if self.tokens[at] != Token::Name(b"local") {
                continue;
            }
            let mut names = Vec::new();
            let mut next = at + 1;
            while let Some(Token::Name(name)) = self.token(next) {
                names.push(name);
                next += 1;
                if !self.is(next, b',') {
                    break;
                }
                next += 1;
            }
            if !self.is(next, b'=') {
                continue;
            }
            next += 1;
            let mut count = 0;
            while self.token(next) == Some(KEYS) && self.is(next + 1, b'[') {
                next = self.behind_brackets(next + 1)?;
                count += 1;
                if !self.is(next, b',') {
                    break;
                }
                next += 1;
            }
            // The next token must start a new statement, not continue the expression.
            let ends = match self.token(next) {
                None | Some(Token::Symbol(b';')) => true,
                Some(Token::Name(word)) => word != b"and" && word != b"or",
                _ => false,
            };
            if count == names.len() && count > 0 && ends {
                candidates.extend(names);
            }
        }
        self.aliases = candidates.iter().copied().filter(|name| self.is_declared_once(name)).collect();
        Some(())
    }

    /// True if a name is bound once: no other assignment, parameter or loop variable binds it.
    fn is_declared_once(&self, name: &[u8]) -> bool {
        let mut declarations = 0;
        for at in 0..self.tokens.len() {
            if self.tokens[at] != Token::Name(name) {
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| self.token(before));
            if matches!(before, Some(Token::Symbol(b'.' | b':'))) {
                continue;
            }
            if self.in_name_list(at) {
                declarations += 1;
            }
        }
        declarations == 1
    }

    /// True if the name at `at` is declared or may be assigned: it follows `local`, `for` or
    /// `function`, is a parameter, or precedes an assignment's `=`.
    fn in_name_list(&self, at: usize) -> bool {
        // Scan backwards over names and commas to a word that binds names.
        let mut back = at;
        while back > 0 {
            match self.tokens[back - 1] {
                Token::Symbol(b',') if back > 1 && matches!(self.tokens[back - 2], Token::Name(_)) => {
                    back -= 2
                }
                Token::Name(b"local" | b"for" | FUNCTION) => return true,
                Token::Symbol(b'(') => {
                    // `function(a, b)`, `function name(a, b)`, `function a.b:c(a, b)`
                    let mut word = back - 1;
                    while word > 0 {
                        match self.tokens[word - 1] {
                            Token::Name(FUNCTION) => return true,
                            Token::Name(_) | Token::Symbol(b'.' | b':') => word -= 1,
                            _ => break,
                        }
                    }
                    break;
                }
                _ => break,
            }
        }
        self.is_assigned(at + 1)
    }

    /// `KEYS` may be indexed, for reading, or counted.
    fn keys_use(&self, at: usize) -> Option<()> {
        if at > 0 && self.is(at - 1, b'#') && !self.is(at + 1, b'[') {
            let next = self.token(at + 1);
            return (!matches!(next, Some(Token::Symbol(b'.' | b':' | b'(')))).then_some(());
        }
        if !self.is(at + 1, b'[') {
            return None;
        }
        let behind = self.behind_brackets(at + 1)?;
        (!self.is_assigned(behind)).then_some(())
    }

    /// True if the expression that ends before `at` could be the target of an assignment: indices,
    /// calls and further targets may follow, and then `=`.
    fn is_assigned(&self, at: usize) -> bool {
        let mut next = at;
        loop {
            match self.token(next) {
                Some(Token::Symbol(b'=')) => return true,
                Some(Token::Symbol(b'.' | b':')) => next += 2,
                Some(Token::Symbol(b'[' | b'(' | b'{')) => match self.behind_brackets(next) {
                    Some(behind) => next = behind,
                    None => return true,
                },
                Some(Token::Text(_) | Token::OddText) => next += 1,
                Some(Token::Symbol(b',')) => match self.token(next + 1) {
                    Some(Token::Name(_)) => next += 2,
                    // The next iteration handles a bracket.
                    Some(Token::Symbol(b'(')) => next += 1,
                    _ => return false,
                },
                _ => return false,
            }
        }
    }

    /// Parses a declared key at `at` that is an entire argument; returns the position of the next
    /// argument, or of the closing bracket.
    fn key_argument(&self, at: usize) -> Option<usize> {
        let behind = match self.token(at)? {
            token if token == KEYS && self.is(at + 1, b'[') => self.behind_brackets(at + 1)?,
            Token::Name(name) if self.aliases.contains(&name) => at + 1,
            _ => return None,
        };
        self.ends_argument(behind)
    }

    fn ends_argument(&self, at: usize) -> Option<usize> {
        match self.token(at)? {
            Token::Symbol(b',') => Some(at + 1),
            Token::Symbol(b')') => Some(at),
            _ => None,
        }
    }

    /// Accepts `redis.call('name', key ...)` or a harmless use.
    fn redis_use(&self, at: usize) -> Option<()> {
        if !self.is(at + 1, b'.') {
            return None;
        }
        match self.token(at + 2)? {
            Token::Name(b"call" | b"pcall") if self.is(at + 3, b'(') => self.command(at + 4),
            Token::Name(name) if HARMLESS.contains(&name) && !self.is(at + 3, b'=') => Some(()),
            _ => None,
        }
    }

    fn command(&self, at: usize) -> Option<()> {
        let Token::Text(name) = self.token(at)? else { return None };
        let mut next = self.ends_argument(at + 1)?;
        let command = self.commands.find(name).filter(|command| !command.spec.is_container)?;
        let spec = command.spec;
        if spec.scope != Scope::Keys || spec.key_finder.is_some() {
            return None;
        }
        if spec.keys.is_empty() {
            let acts = Flags::ADMIN | Flags::PUBSUB | Flags::MAY_REPLICATE | Flags::WRITE | Flags::NOSCRIPT;
            return (!spec.flags.any(acts) && command.subcommands.is_empty()).then_some(());
        }
        // Keys must come first: an earlier expression could yield several values, or none.
        let mut last = 0;
        for keys in spec.keys {
            let (Begin::Index(first), Find::Range { last: count, step: 1, limit: 0 }) =
                (keys.begin, keys.find)
            else {
                return None;
            };
            if first != last + 1 || keys.flags.any(KeyFlags::INCOMPLETE.and(KeyFlags::NOT_KEY)) {
                return None;
            }
            last = match count {
                0.. => first + count,
                -1 => i32::MAX - 1,
                _ => return None,
            };
        }
        let mut index = 1;
        while index <= last && !self.is(next, b')') {
            next = self.key_argument(next)?;
            index += 1;
        }
        Some(())
    }
}
