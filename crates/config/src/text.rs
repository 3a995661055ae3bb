// SPDX-License-Identifier: BSD-3-Clause
//! Text of configuration files: splitting a line into arguments, and quoting an argument.
//!
//! The line syntax is that of redis.conf and of inline commands ([`braid_resp::inline`]). This
//! module must not know directives.

use braid_resp::inline;

/// Splits a line into its arguments; `None` if a quote is unclosed or directly followed by more
/// text.
///
/// The line ends at the first NUL byte, because stock servers read their file as C strings.
pub fn split_arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let end = line.iter().position(|&byte| byte == 0).unwrap_or(line.len());
    inline::split_words(&line[..end]).ok()
}

/// The argument in double quotes with escapes, pure ASCII; `split_arguments` restores it.
pub fn quote(bytes: &[u8]) -> String {
    let mut quoted = Vec::with_capacity(bytes.len() + 2);
    inline::push_quoted(&mut quoted, bytes);
    String::from_utf8_lossy(&quoted).into_owned()
}

/// The word unchanged if it reads back as one argument, otherwise quoted.
pub fn quote_if_needed(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'));
    if plain { word.to_owned() } else { quote(word.as_bytes()) }
}

/// Replaces names in braces with the results of `value`, and `{{` with a brace. `None` if the
/// text is not a valid template, or if `value` does not know a name.
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

/// Values are UTF-8 here; stock servers accept any bytes in passwords.
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
