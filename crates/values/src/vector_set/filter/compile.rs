// SPDX-License-Identifier: BSD-3-Clause
//! Compiles filters: tokens, then postfix order by precedence (Dijkstra's shunting yard).

use std::borrow::Cow;

use super::{Filter, Operator, Step, Value};

/// A text that is no filter; with the rest from the first token that is none, or the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub near: Vec<u8>,
}

/// Names of operators, longer ones before those that they begin with.
const OPERATORS: [(&str, Operator); 19] = [
    ("**", Operator::Power),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("&&", Operator::And),
    ("||", Operator::Or),
    ("and", Operator::And),
    ("not", Operator::Not),
    ("or", Operator::Or),
    ("in", Operator::In),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("+", Operator::Plus),
    ("-", Operator::Minus),
    ("*", Operator::Times),
    ("/", Operator::Divide),
    ("%", Operator::Remainder),
    ("!", Operator::Not),
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Constant(Value<'static>),
    Member(Box<[u8]>),
    Operator(Operator),
    Open,
    Close,
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    /// True if the last token ended an operand, so that `-` subtracts.
    after_operand: bool,
}

/// The position at which there is no token.
struct Nothing(usize);

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take_while(&mut self, holds: impl Fn(u8) -> bool) -> &[u8] {
        let from = self.at;
        while self.peek().is_some_and(&holds) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    fn token(&mut self) -> Result<Option<Token>, Nothing> {
        self.skip_spaces();
        let Some(first) = self.peek() else { return Ok(None) };
        let follows = self.text.get(self.at + 1).copied();
        let is_negative =
            first == b'-' && !self.after_operand && follows.is_some_and(|byte| byte.is_ascii_digit());
        let token = match first {
            b'(' => self.single(Token::Open),
            b')' => self.single(Token::Close),
            b'.' => self.member()?,
            b'[' => self.list()?,
            _ if is_negative || first.is_ascii_digit() || first == b'"' || first == b'\'' => {
                Token::Constant(self.scalar()?)
            }
            _ => self.word()?,
        };
        self.after_operand = matches!(token, Token::Constant(_) | Token::Member(_) | Token::Close);
        Ok(Some(token))
    }

    fn single(&mut self, token: Token) -> Token {
        self.at += 1;
        token
    }

    /// A member's name; an empty one only at the end of the text.
    fn member(&mut self) -> Result<Token, Nothing> {
        let from = self.at;
        self.at += 1;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let name: Box<[u8]> = self.take_while(is_part).into();
        if name.is_empty() && self.at < self.text.len() {
            Err(Nothing(from))
        } else {
            Ok(Token::Member(name))
        }
    }

    /// A number or a string.
    fn scalar(&mut self) -> Result<Value<'static>, Nothing> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(byte) if byte.is_ascii_digit() || byte == b'-' => self.number(),
            _ => Err(Nothing(self.at)),
        }
    }

    fn number(&mut self) -> Result<Value<'static>, Nothing> {
        let from = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            let is_sign = matches!(byte, b'+' | b'-') && matches!(self.text[self.at - 1], b'e' | b'E');
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || is_sign) {
                break;
            }
            self.at += 1;
        }
        let number = std::str::from_utf8(&self.text[from..self.at]).ok().and_then(|text| text.parse().ok());
        number.map(Value::Number).ok_or(Nothing(self.at))
    }

    fn string(&mut self, quote: u8) -> Result<Value<'static>, Nothing> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(Nothing(self.at)),
                Some(byte) if byte == quote => break,
                Some(b'\\') if self.text.get(self.at + 1) == Some(&quote) => {
                    text.push(quote);
                    self.at += 2;
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(Value::Text(Cow::Owned(text)))
    }

    fn list(&mut self) -> Result<Token, Nothing> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_spaces();
            if self.peek() == Some(b']') {
                break;
            }
            items.push(self.scalar()?);
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(Nothing(self.at)),
            }
        }
        self.at += 1;
        Ok(Token::Constant(Value::List(items)))
    }

    /// An operator, or a constant that is a word.
    fn word(&mut self) -> Result<Token, Nothing> {
        let from = self.at;
        let run = self.take_while(|byte| byte.is_ascii_alphabetic() || b"+-*%/!()<>=|&".contains(&byte));
        let word = &run[..run.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()];
        let constant = match word {
            b"true" => Some(Value::Number(1.0)),
            b"false" => Some(Value::Number(0.0)),
            b"null" => Some(Value::Null),
            _ => None,
        };
        if let Some(value) = constant {
            self.at = from + word.len();
            return Ok(Token::Constant(value));
        }
        let known = OPERATORS.iter().find(|(name, _)| run.starts_with(name.as_bytes()));
        match known {
            Some((name, operator)) => {
                self.at = from + name.len();
                Ok(Token::Operator(*operator))
            }
            None => Err(Nothing(self.at)),
        }
    }
}

fn precedence(operator: Operator) -> u8 {
    match operator {
        Operator::Or => 0,
        Operator::And => 1,
        Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Equal
        | Operator::NotEqual
        | Operator::In => 2,
        Operator::Plus | Operator::Minus => 3,
        Operator::Times | Operator::Divide | Operator::Remainder => 4,
        Operator::Power => 5,
        Operator::Not => 6,
    }
}

/// True if an operator on the stack is applied before the next one.
fn goes_first(stacked: Operator, next: Operator) -> bool {
    let is_right = matches!(next, Operator::Power | Operator::Not);
    precedence(stacked) > precedence(next) || precedence(stacked) == precedence(next) && !is_right
}

/// The program of a filter, and how many values are on the stack after each step.
struct Program {
    filter: Filter,
    depth: usize,
}

impl Program {
    fn operand(&mut self, step: Step) {
        self.filter.steps.push(step);
        self.depth += 1;
    }

    /// False if there are too few operands.
    fn apply(&mut self, operator: Operator) -> bool {
        let operands = if operator == Operator::Not { 1 } else { 2 };
        if self.depth < operands {
            return false;
        }
        self.depth -= operands - 1;
        self.filter.steps.push(Step::Apply(operator));
        true
    }

    fn member(&mut self, name: Box<[u8]>) {
        let known = self.filter.members.iter().position(|known| *known == name);
        let number = known.unwrap_or_else(|| {
            self.filter.members.push(name);
            self.filter.members.len() - 1
        });
        self.operand(Step::Member(number));
    }
}

pub(super) fn compile(text: &[u8]) -> Result<Filter, SyntaxError> {
    let whole = || SyntaxError { near: text.to_vec() };
    let mut lexer = Lexer { text, at: 0, after_operand: false };
    let mut tokens = Vec::new();
    loop {
        match lexer.token() {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => break,
            Err(Nothing(at)) if at < text.len() => return Err(SyntaxError { near: text[at..].to_vec() }),
            Err(_) => return Err(whole()),
        }
    }
    let mut program = Program { filter: Filter { steps: Vec::new(), members: Vec::new() }, depth: 0 };
    // Operators that wait for their right operand; `None` is an open parenthesis.
    let mut waiting: Vec<Option<Operator>> = Vec::new();
    for token in tokens {
        match token {
            Token::Constant(value) => program.operand(Step::Constant(value)),
            Token::Member(name) => program.member(name),
            Token::Open => waiting.push(None),
            Token::Close => loop {
                match waiting.pop() {
                    Some(Some(operator)) if program.apply(operator) => {}
                    Some(None) => break,
                    _ => return Err(whole()),
                }
            },
            Token::Operator(next) => {
                while let Some(Some(stacked)) = waiting.last().copied()
                    && goes_first(stacked, next)
                {
                    waiting.pop();
                    if !program.apply(stacked) {
                        return Err(whole());
                    }
                }
                waiting.push(Some(next));
            }
        }
    }
    while let Some(stacked) = waiting.pop() {
        if !stacked.is_some_and(|operator| program.apply(operator)) {
            return Err(whole());
        }
    }
    if program.depth == 1 { Ok(program.filter) } else { Err(whole()) }
}
