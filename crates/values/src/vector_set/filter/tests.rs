// SPDX-License-Identifier: BSD-3-Clause
//! Filters as Redis 8 reads them.

use proptest::prelude::*;

use super::Filter;

const ATTRIBUTE: &[u8] = br#"{"y":1980,"n":"bob","b":true,"f":false,"l":[1,2,"x"],"z":null,
    "o":{"q":[1,{"y":7}]},"e":1e3,"s":"12","u":"\u00e9\"\ud83d\ude00"}"#;

fn matches(text: &str) -> bool {
    Filter::compile(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}")).matches(ATTRIBUTE)
}

#[test]
fn filters_that_match() {
    for text in [
        ".y==1980",
        ".y >= 1980 and .n == 'bob'",
        ".y >= 1980 && .n == \"al\" || .b",
        "!.f",
        "not .z",
        "1 in .l",
        "\"x\" in .l",
        ".y in [1980, 5]",
        ".n in ['bob',]",
        "'a'",
        ".y % 100 == 80",
        "2 ** 3 ** 2 == 512",
        ".y > -5",
        ".y == 1.98e3",
        ".e == 1000",
        ".s == 12",
        ".s > 5",
        ".n == 0",
        ".n + 1 == 1",
        ".l in [1, 'x']",
        ".l == [5]",
        ".l == 0",
        ".y == \"1980\"",
        ".b == 1",
        ".l == .l",
        ".y / 0 > 1",
        ".y==1980and.n=='bob'",
        "1 + 2 == 3 == 1",
        ".y in ['1980']",
        "[1]",
        "[ ]",
        "1 or 1 and 0",
        ".y+1 == 1981",
        ".y -1 == 1979",
        "7 - 2 - 1 == 4",
        "not 0 + 5 == 6",
        "!0**2 == 1",
        "2 - -1 == 3",
        "(((1)))",
        "5. == 5",
        "-1",
        ".u == 'é\"😀'",
        "true and not false",
        ".z == null",
        "1e-2 == 0.01",
    ] {
        assert!(matches(text), "{text}");
    }
}

#[test]
fn filters_that_do_not_match() {
    for text in [
        "0",
        "''",
        ".f",
        "!.missing",
        ".z == 0",
        ".o",
        "not .o",
        "'b' in .n",
        ".y in 1980",
        ".n > 5",
        ".n > 'al'",
        ".l == 1",
        ".y / 0 == 1",
        ".y % 0 == 1",
        "not .y > 1980",
        ".y == 1980 or .missing == 3",
        "1 in 1",
        "[1] in [1]",
        ".y in []",
        ".y not in [1]",
        "1 -1",
        ".",
        ".y-1",
        "[1 , 2 ] == 3",
        ".q",
    ] {
        assert!(!matches(text), "{text}");
    }
    for attribute in ["notjson", "", "[1]", "{", "{\"y\"", "{\"y\":", "{}", "{\"x\":{,\"y\":1980}"] {
        let filter = Filter::compile(b".y == 1980").expect("a filter");
        assert!(!filter.matches(attribute.as_bytes()), "{attribute}");
    }
}

#[test]
fn errors_name_the_place() {
    for (text, near) in [
        ("", ""),
        (" ", " "),
        ("y", "y"),
        ("y == 2", " == 2"),
        (".y ==", ".y =="),
        ("== 2", "== 2"),
        (".y = 2", " 2"),
        ("(.y == 1980", "(.y == 1980"),
        (".y == 1980)", ".y == 1980)"),
        ("()", "()"),
        (".y == 1980 .n", ".y == 1980 .n"),
        (".y & 1980", " 1980"),
        ("\"abc", "\"abc"),
        (".y in [1980 5]", "5]"),
        (".y in [1980", ".y in [1980"),
        ("-.y == -1980", "-.y == -1980"),
        (".y AND 1", " 1"),
        ("[1,[2]]", "[2]]"),
        ("[.y]", ".y]"),
        ("3.5.2 + 1", " + 1"),
        ("@", "@"),
        (".y == 1980 @ 3", "@ 3"),
        ("0x10 == 16", "10 == 16"),
        ("1 === 1", " 1"),
        ("1 <> 1", "1 <> 1"),
        ("1 => 1", " 1"),
        ("1 and& 1", " 1"),
        ("[,1]", ",1]"),
        ("1 < 2 and", "1 < 2 and"),
        ("- 1", "- 1"),
        (". == 1", ". == 1"),
        ("1 and .]", ".]"),
        (".o.q == 1", ".o.q == 1"),
        ("((1)", "((1)"),
    ] {
        let error = Filter::compile(text.as_bytes()).expect_err(text);
        assert_eq!(String::from_utf8_lossy(&error.near), near, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_text_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            ".y", ".n", "1", "-", "2e", "'x'", "[1,'a']", "and", "not", "(", ")", "in", "==", "**", "!", "[", "\"", ".",
            "<=", "é", "null", ",", "%",
        ]), 0..12),
        cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut attribute = ATTRIBUTE[..cut.index(ATTRIBUTE.len() + 1)].to_vec();
        if !attribute.is_empty() {
            let at = flip.index(attribute.len());
            attribute[at] = byte;
        }
        if let Ok(filter) = Filter::compile(words.join(" ").as_bytes()) {
            filter.matches(&attribute);
            filter.matches(ATTRIBUTE);
        }
        let members = Filter::compile(b".y and .n and .l and .u and .missing").expect("a filter");
        assert!(!members.matches(&attribute));
    }
}
