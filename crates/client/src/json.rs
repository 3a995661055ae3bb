// SPDX-License-Identifier: BSD-3-Clause
//! JSON for scripts: values that print themselves.

use std::fmt::{self, Write};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Boolean(bool),
    Integer(i64),
    /// Printed as null if it is no finite number: JSON has no other way.
    Number(f64),
    Text(String),
    Array(Vec<Json>),
    /// Members in the order given.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of these members.
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Adds a member to an object; does nothing to other values.
    pub fn push(&mut self, name: &str, value: impl Into<Json>) {
        if let Json::Object(members) = self {
            members.push((name.to_owned(), value.into()));
        }
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Boolean(yes) => write!(out, "{yes}"),
            Json::Integer(number) => write!(out, "{number}"),
            Json::Number(number) if !number.is_finite() => out.write_str("null"),
            Json::Number(number) => write!(out, "{number}"),
            Json::Text(text) => write_text(out, text),
            Json::Array(elements) => {
                let write = |out: &mut fmt::Formatter<'_>, element: &Json| element.write(out, indent + 1);
                list(out, indent, ('[', ']'), elements, write)
            }
            Json::Object(members) => {
                let write = |out: &mut fmt::Formatter<'_>, (name, value): &(String, Json)| {
                    write_text(out, name)?;
                    out.write_str(": ")?;
                    value.write(out, indent + 1)
                };
                list(out, indent, ('{', '}'), members, write)
            }
        }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self, Json::Array(_) | Json::Object(_))
    }
}

/// Writes elements one a line; arrays of plain values stay on one line.
fn list<T: AsJson>(
    out: &mut fmt::Formatter<'_>,
    indent: usize,
    (open, close): (char, char),
    elements: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    let one_line = open == '[' && elements.iter().all(|element| element.value().is_scalar());
    out.write_char(open)?;
    for (number, element) in elements.iter().enumerate() {
        match (number, one_line) {
            (0, true) => {}
            (_, true) => out.write_str(", ")?,
            (0, false) => write!(out, "\n{:1$}", "", 2 * (indent + 1))?,
            (_, false) => write!(out, ",\n{:1$}", "", 2 * (indent + 1))?,
        }
        write(out, element)?;
    }
    if !one_line && !elements.is_empty() {
        write!(out, "\n{:1$}", "", 2 * indent)?;
    }
    out.write_char(close)
}

/// What [`list`] has to see of an element.
trait AsJson {
    fn value(&self) -> &Json;
}

impl AsJson for Json {
    fn value(&self) -> &Json {
        self
    }
}

impl AsJson for (String, Json) {
    fn value(&self) -> &Json {
        &self.1
    }
}

fn write_text(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            control if control < ' ' => write!(out, "\\u{:04x}", control as u32)?,
            other => out.write_char(other)?,
        }
    }
    out.write_char('"')
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, 0)
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Json {
        Json::Number(number)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        i64::try_from(number).map_or(Json::Number(number as f64), Json::Integer)
    }
}

impl From<usize> for Json {
    fn from(number: usize) -> Json {
        Json::from(number as u64)
    }
}

impl From<bool> for Json {
    fn from(yes: bool) -> Json {
        Json::Boolean(yes)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(values: Vec<T>) -> Json {
        Json::Array(values.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_json() {
        let mut value =
            Json::object([("a", Json::from(vec![1.5, f64::NAN])), ("empty", Json::Object(Vec::new()))]);
        value.push("text", "say \"x\"\\\n\u{1}\u{e9}");
        value.push("nested", vec![Json::object([("n", Json::from(7u64))])]);
        value.push("none", None::<u64>);
        assert_eq!(
            value.to_string(),
            "{\n  \"a\": [1.5, null],\n  \"empty\": {},\n  \"text\": \"say \\\"x\\\"\\\\\\n\\u0001\u{e9}\",\n  \
             \"nested\": [\n    {\n      \"n\": 7\n    }\n  ],\n  \"none\": null\n}"
        );
    }
}
