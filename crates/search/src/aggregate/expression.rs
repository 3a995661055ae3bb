// SPDX-License-Identifier: BSD-3-Clause
//! Expressions of APPLY and FILTER: parsed once, evaluated for each row.
//!
//! From the loosest to the tightest: `||`, `&&`, comparisons, `+ -`, `* / %`, `^`, `!`. Evaluation
//! is recursion over a tree whose depth parsing bounds. A value that is missing makes the result
//! missing, except in `exists`, `!`, `&&` and `||`.

use super::error::AggregateError;
use super::functions::{Function, call};
use super::value::Value;

const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Constant(Value),
    /// The value in a column of the row.
    Column(usize),
    Not(Box<Expression>),
    Pair(Operator, Box<Expression>, Box<Expression>),
    Call(Function, Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// By how tightly they bind; longer ones before their beginnings.
const OPERATORS: [&[(&str, Operator)]; 6] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
    &[("^", Operator::Power)],
];

struct Parser<'a, F> {
    text: &'a str,
    at: usize,
    /// Where the last value was, for errors.
    last: &'a str,
    depth: usize,
    column: F,
}

type Parsed<T = Expression> = Result<T, AggregateError>;

/// Parses an expression; `column` finds the column of a property, or refuses it.
///
/// # Errors
///
/// If it is no expression, or uses what there is not.
pub fn parse(text: &str, column: impl FnMut(&str) -> Parsed<usize>) -> Parsed {
    let mut parser = Parser { text, at: 0, last: "", depth: 0, column };
    let expression = parser.level(0)?;
    parser.skip_spaces();
    if parser.at < text.len() {
        return Err(parser.error());
    }
    Ok(expression)
}

impl<'a, F: FnMut(&str) -> Parsed<usize>> Parser<'a, F> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.skip_spaces();
        let is = self.rest().starts_with(symbol);
        self.at += if is { symbol.len() } else { 0 };
        is
    }

    fn error(&self) -> AggregateError {
        AggregateError::Syntax { offset: self.at, near: self.last.to_owned() }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(AggregateError::TooDeep);
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn level(&mut self, level: usize) -> Parsed {
        let Some(operators) = OPERATORS.get(level) else { return self.unit() };
        let mut left = self.level(level + 1)?;
        let mut pairs = 0;
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.take(symbol)) {
            // Each pair makes the tree deeper on its left.
            pairs += 1;
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(AggregateError::TooDeep);
            }
            let right = self.level(level + 1)?;
            left = Expression::Pair(*operator, Box::new(left), Box::new(right));
        }
        self.depth -= pairs;
        Ok(left)
    }

    fn unit(&mut self) -> Parsed {
        self.skip_spaces();
        let rest = self.rest();
        if self.take("(") {
            let inner = self.deeper(|parser| parser.level(0))?;
            return if self.take(")") { Ok(inner) } else { Err(self.error()) };
        }
        if self.take("!") {
            return Ok(Expression::Not(Box::new(self.deeper(Self::unit)?)));
        }
        match rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote),
            Some('@') => {
                let name = name_of(&rest[1..]);
                if name.is_empty() {
                    return Err(self.error());
                }
                self.last = name;
                let column = (self.column)(name)?;
                self.at += 1 + name.len();
                Ok(Expression::Column(column))
            }
            Some(first) if first.is_ascii_digit() || matches!(first, '.' | '-' | '+') => self.number(),
            Some(first) if first.is_alphabetic() || first == '_' => self.call(),
            _ => Err(self.error()),
        }
    }

    fn quoted(&mut self, quote: char) -> Parsed {
        let mut found = String::new();
        let mut rest = self.rest().char_indices().skip(1);
        while let Some((at, one)) = rest.next() {
            if one == quote {
                self.last = &self.rest()[1..at];
                self.at += at + 1;
                return Ok(Expression::Constant(Value::text(&found)));
            }
            if one == '\\' {
                found.extend(rest.next().map(|(_, escaped)| escaped));
            } else {
                found.push(one);
            }
        }
        Err(self.error())
    }

    fn number(&mut self) -> Parsed {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut len = usize::from(rest.starts_with(['-', '+']));
        len += digits(len);
        if rest[len..].starts_with('.') {
            len += 1 + digits(len + 1);
        }
        if rest[len..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[len + 1..].starts_with(['-', '+']));
            let exponent = digits(len + 1 + sign);
            len += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let number = rest[..len].parse().map_err(|_| self.error())?;
        self.last = &rest[..len];
        self.at += len;
        Ok(Expression::Constant(Value::Number(number)))
    }

    fn call(&mut self) -> Parsed {
        let name = name_of(self.rest());
        self.last = name;
        self.at += name.len();
        if !self.take("(") {
            return match name {
                "inf" => Ok(Expression::Constant(Value::Number(f64::INFINITY))),
                "NULL" | "null" => Ok(Expression::Constant(Value::None)),
                _ => Err(AggregateError::Symbol(name.to_owned())),
            };
        }
        let function = Function::parse(name).ok_or_else(|| AggregateError::Function(name.to_owned()))?;
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.deeper(|parser| parser.level(0))?);
                if self.take(")") {
                    break;
                }
                if !self.take(",") {
                    return Err(self.error());
                }
            }
        }
        if !function.takes(arguments.len()) {
            return Err(AggregateError::FunctionArguments(name.to_owned()));
        }
        Ok(Expression::Call(function, arguments))
    }
}

/// The name at the beginning of a text.
fn name_of(text: &str) -> &str {
    let end = text.find(|one: char| !(one.is_alphanumeric() || matches!(one, '_' | '.' | '$')));
    &text[..end.unwrap_or(text.len())]
}

impl Expression {
    /// What it is, as FT.PROFILE calls it.
    pub fn kind(&self) -> String {
        match self {
            Expression::Constant(value) => format!("Literal {}", value.shown()),
            Expression::Column(_) => "Property".to_owned(),
            Expression::Not(_) => "Inverted".to_owned(),
            Expression::Pair(operator, ..) => {
                let text = |levels: &[&[(&'static str, Operator)]]| {
                    let mut all = levels.iter().copied().flatten();
                    all.find(|(_, one)| one == operator).map(|(text, _)| *text)
                };
                match text(&OPERATORS[3..]) {
                    Some(text) => format!("Operator {text}"),
                    None => format!("Predicate {}", text(&OPERATORS[..3]).unwrap_or_default()),
                }
            }
            Expression::Call(function, _) => format!("Function {}", function.name()),
        }
    }

    /// Its value for a row.
    ///
    /// # Errors
    ///
    /// If a text is used as a number and is none, or a function refuses its arguments.
    pub fn evaluate(&self, row: &[Value]) -> Result<Value, AggregateError> {
        Ok(match self {
            Expression::Constant(value) => value.clone(),
            Expression::Column(column) => row.get(*column).cloned().unwrap_or_default(),
            Expression::Not(inner) => Value::truth(!inner.evaluate(row)?.is_true()),
            Expression::Pair(Operator::And, left, right) => {
                Value::truth(left.evaluate(row)?.is_true() && right.evaluate(row)?.is_true())
            }
            Expression::Pair(Operator::Or, left, right) => {
                Value::truth(left.evaluate(row)?.is_true() || right.evaluate(row)?.is_true())
            }
            Expression::Pair(operator, left, right) => {
                pair(*operator, &left.evaluate(row)?, &right.evaluate(row)?)?
            }
            Expression::Call(function, arguments) => {
                let arguments: Result<Vec<Value>, _> =
                    arguments.iter().map(|one| one.evaluate(row)).collect();
                call(*function, &arguments?)?
            }
        })
    }
}

fn pair(operator: Operator, left: &Value, right: &Value) -> Result<Value, AggregateError> {
    if left.is_none() || right.is_none() {
        return Ok(Value::None);
    }
    let order = left.compare(right);
    let truth = match operator {
        Operator::Equal => Some(order.is_eq()),
        Operator::Unequal => Some(order.is_ne()),
        Operator::Less => Some(order.is_lt()),
        Operator::LessOrEqual => Some(order.is_le()),
        Operator::Greater => Some(order.is_gt()),
        Operator::GreaterOrEqual => Some(order.is_ge()),
        _ => None,
    };
    if let Some(truth) = truth {
        return Ok(Value::truth(truth));
    }
    let (left, right) = left.number().zip(right.number()).ok_or(AggregateError::Convert)?;
    Ok(Value::Number(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        // Of whole numbers, as the integers they are.
        Operator::Remainder => left.trunc() % right.trunc(),
        _ => left.powf(right),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Result<String, AggregateError> {
        let column = |name: &str| match name {
            "n" => Ok(0),
            "t" => Ok(1),
            "none" => Ok(2),
            _ => Err(AggregateError::NotInPipeline(name.to_owned())),
        };
        let row = [Value::Number(3.5), Value::text("Hello World"), Value::None];
        Ok(parse(text, column)?.evaluate(&row)?.shown())
    }

    #[test]
    fn operators_bind_as_usual() {
        for (text, expected) in [
            ("1+2*3", "7"),
            ("(1+2)*3", "9"),
            ("10-2-3", "5"),
            ("10 - 2 - 3", "5"),
            ("2*-3", "-6"),
            ("7%3", "1"),
            ("1/3", "0.333333333333"),
            ("1/0", "inf"),
            ("1==1 && 2<1 || 3>=3", "1"),
            ("!(1>2)", "1"),
            ("@n*2", "7"),
            ("@t=='Hello World'", "1"),
            ("'10'>9", "1"),
            ("'a'<'b'", "1"),
            ("'5'+1", "6"),
            ("@none+1", ""),
            ("!@none", "1"),
            ("2^3", "8"),
        ] {
            assert_eq!(eval(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_redis() {
        for (text, expected) in [
            ("upper(", "Syntax error at offset 6 near 'upper'"),
            ("1 2", "Syntax error at offset 2 near '1'"),
            ("", "Syntax error at offset 0 near ''"),
            ("abc", "Unknown symbol 'abc'"),
            ("nosuch(1)", "Unknown function name 'nosuch'"),
            ("upper(1,2)", "Invalid arguments for function 'upper'"),
            ("@zz+1", "Property `zz` not loaded nor in pipeline"),
            ("'abc'+1", "Could not convert value to a number"),
            ("to_number('x')", "to_number: cannot convert string 'x'"),
        ] {
            assert_eq!(eval(text).unwrap_err().to_string(), expected, "{text}");
        }
        let deep = "(".repeat(DEPTH_MAX + 1) + "1";
        assert_eq!(eval(&deep).unwrap_err(), AggregateError::TooDeep);
        let long = "1+".repeat(100_000) + "1";
        assert_eq!(eval(&long).unwrap_err(), AggregateError::TooDeep);
        assert_eq!(eval(&"!".repeat(100_000)).unwrap_err(), AggregateError::TooDeep);
    }

    #[test]
    fn functions_give_what_redis_gives() {
        for (text, expected) in [
            ("upper('Hello é')", "HELLO É"),
            ("lower('HeL')", "hel"),
            ("strlen('hello')", "5"),
            ("startswith('Hello','Hel')", "1"),
            ("contains('Hello World','o')", "2"),
            ("contains('Hello World','')", "12"),
            ("substr('Hello World',1,3)", "ell"),
            ("substr('Hello World',-3,2)", "rl"),
            ("substr('Hello World',2,-1)", "llo Worl"),
            ("substr('Hello',9,9)", ""),
            ("format('%s-%s%%','a',3.5)", "a-3.5%"),
            ("split('a, b,c')", "a, b, c"),
            ("split('a|b;c','|;')", "a, b, c"),
            ("to_str(3.5)", "3.5"),
            ("to_number('3.25')", "3.25"),
            ("ceil(1.2)", "2"),
            ("floor(-1.2)", "-2"),
            ("log(10)", "2.30258509299"),
            ("log2(8)", "3"),
            ("upper(1)", ""),
            ("exists(upper(1))", "0"),
            ("timefmt(1517417144)", "2018-01-31T16:45:44Z"),
            ("timefmt(1517417144,'%Y/%m/%d %H:%M:%S')", "2018/01/31 16:45:44"),
            ("parsetime('2018-01-31','%Y-%m-%d')", "1517356800"),
            ("hour(1517417144)", "1517414400"),
            ("month(1517417144)", "1514764800"),
            ("dayofweek(1517417144)", "3"),
            ("dayofyear(1517417144)", "30"),
            ("year(1517417144)", "2018"),
            ("monthofyear(1517417144)", "0"),
            ("geodistance('1,2',3,4)", "314371.93"),
            ("geodistance(1,2,3,4)", "314371.93"),
            ("geodistance(1,2,3)", ""),
        ] {
            assert_eq!(eval(text).as_deref(), Ok(expected), "{text}");
        }
    }
}
