// SPDX-License-Identifier: BSD-3-Clause
//! Text of configuration files: splitting a line into arguments, and quoting an argument.
//!
//! The line syntax is that of redis.conf (and of inline commands): blanks separate arguments,
//! double quotes allow escapes, single quotes only `\'`. This module knows bytes, not directives.

/// Splits one line into its arguments, or `None` when a quote is left open or is followed by more
/// text.
///
/// The line ends at the first NUL byte, because stock servers read their file as C strings.
pub fn split_arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let end = line.iter().position(|&byte| byte == 0).unwrap_or(line.len());
    let mut rest = &line[..end];
    let mut arguments = Vec::new();
    loop {
        rest = skip_blanks(rest);
        if rest.is_empty() {
            return Some(arguments);
        }
        let (argument, after) = take_argument(rest)?;
        arguments.push(argument);
        rest = after;
    }
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&byte| !is_space(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

/// White space as in C's `isspace` in the "C" locale, which unlike Rust's ASCII white space
/// includes vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// One argument: plain and quoted pieces up to the next blank. A closing quote ends it.
fn take_argument(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut argument = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            b'"' => return finish_quoted(take_double_quoted(&mut argument, rest)?, argument),
            b'\'' => return finish_quoted(take_single_quoted(&mut argument, rest)?, argument),
            plain => argument.push(plain),
        }
    }
    Some((argument, rest))
}

/// Nothing but a blank may follow a closing quote.
fn finish_quoted(rest: &[u8], argument: Vec<u8>) -> Option<(Vec<u8>, &[u8])> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => None,
        _ => Some((argument, rest)),
    }
}

fn take_double_quoted<'a>(argument: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                argument.push(hex_value(*high) * 16 + hex_value(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                argument.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            [plain, after @ ..] => {
                argument.push(*plain);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn take_single_quoted<'a>(argument: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'\'', after @ ..] => {
                argument.push(b'\'');
                rest = after;
            }
            [b'\'', after @ ..] => return Some(after),
            [plain, after @ ..] => {
                argument.push(*plain);
                rest = after;
            }
            [] => return None,
        }
    }
}

/// The value of one hexadecimal digit; the caller has checked that it is one.
fn hex_value(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

/// The argument in double quotes with escapes, pure ASCII, as `split_arguments` reads it back.
pub fn quote(bytes: &[u8]) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => {
                quoted.push('\\');
                quoted.push(byte as char);
            }
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            0x07 => quoted.push_str("\\a"),
            0x08 => quoted.push_str("\\b"),
            b' '..=b'~' => quoted.push(byte as char),
            other => quoted.push_str(&format!("\\x{other:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// The word unchanged if it reads back as one argument, otherwise quoted.
pub fn quote_if_needed(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'));
    if plain { word.to_owned() } else { quote(word.as_bytes()) }
}

/// Replaces names in braces by the results of `value`, and `{{` by a brace. `None` if the text is
/// not a valid template, or if `value` does not know a name.
pub fn fill_template<'v>(
    template: &str,
    value: impl Fn(&str) -> Option<std::borrow::Cow<'v, str>>,
) -> Option<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        if let Some(behind) = after.strip_prefix('{') {
            filled.push('{');
            rest = behind;
        } else {
            let (name, behind) = after.split_once('}')?;
            filled.push_str(&value(name)?);
            rest = behind;
        }
    }
    filled.push_str(rest);
    Some(filled)
}

/// Values are texts here; stock servers accept any bytes in passwords.
pub(crate) const NOT_UTF8: &str = "argument must be valid UTF-8 text";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(line: &str) -> Option<Vec<String>> {
        split_arguments(line.as_bytes())
            .map(|words| words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect())
    }

    #[test]
    fn splits_plain_and_quoted_words() {
        assert_eq!(split("  save  900 1 ").unwrap(), ["save", "900", "1"]);
        assert_eq!(split("a \"b c\\n\\x41\\q\" 'd\\'e\\n'").unwrap(), ["a", "b c\nAq", "d'e\\n"]);
        assert_eq!(split("pre\"fix\"").unwrap(), ["prefix"]);
        assert_eq!(split("a \"\" ''").unwrap(), ["a", "", ""]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split("a\0b").unwrap(), ["a"]);
    }

    #[test]
    fn refuses_unbalanced_quotes() {
        for line in ["a \"b", "a 'b", "a \"b\"c", "'a'b", "\"a\\"] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    #[test]
    fn templates() {
        let value = |name: &str| (name == "x").then_some("{y}".into());
        for (template, filled) in
            [("", ""), ("a", "a"), ("{x}", "{y}"), ("-{x}{{x}} {x}-", "-{y}{x}} {y}-"), ("}", "}")]
        {
            assert_eq!(fill_template(template, value).as_deref(), Some(filled), "{template}");
        }
        for bad in ["{", "{x", "{}", "{X}", "a{{{"] {
            assert_eq!(fill_template(bad, value), None, "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
        #[test]
        fn quoting_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let quoted = quote(&bytes);
            prop_assert!(quoted.is_ascii());
            prop_assert_eq!(split_arguments(quoted.as_bytes()), Some(vec![bytes]));
        }

        #[test]
        fn splitting_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = split_arguments(&bytes);
        }
    }
}
