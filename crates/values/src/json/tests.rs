// SPDX-License-Identifier: BSD-3-Clause
//! Documents against a model: what is packed prints as it was, paths find what a walk over the
//! text's tree finds, and changes in place give what a new document would be.

use proptest::prelude::*;

use super::builder::{Builder, push_number};
use super::doc::Doc;
use super::edit;
use super::floats::FloatType;
use super::location;
use super::number::Num;
use super::packed::{self, Slot, Value};
use super::parse::{parse, parse_with};
use super::path::{Path, eval};
use super::print::{self, Format};
use super::value::Json;

fn packed(text: &str) -> Vec<u8> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn printed(bytes: Doc<'_>) -> String {
    let mut out = Vec::new();
    print::compact(bytes, Slot::whole(0), &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn found(text: &str, path: &str) -> String {
    let store = packed(text);
    let bytes = Doc::flat(&store);
    let path = Path::parse(path.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut out = Vec::new();
    print::list(
        eval::all(bytes, &path).expect("few visits").into_iter(),
        Format::default(),
        0,
        &mut out,
        |slot, out| {
            print::compact(bytes, slot, out);
        },
    );
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn texts_are_kept() {
    for text in [
        "null",
        "[]",
        "{}",
        r#"{"a":[1,2.0,"x",true,false,null,{}],"b":{"c":[]}}"#,
        "[1,2,300,70000,5000000000,-1]",
        "[1.0,2.5,-0.0,1e300,0.1]",
        "[18446744073709551615,1]",
        "[1,1.0]",
        "[0.5,0.25]",
        "[0.12345679,-0.9876543,0.33333334,1e-7]",
        "[-122.4194155,37.7749295]",
        r#""\u0001\b\f\n\r\t\"\\é""#,
        "[1e16,1e-6,0.00001,1000000000000000.0]",
    ] {
        assert_eq!(printed(Doc::flat(&packed(text))), text);
    }
    let long = format!("{{\"{}\":\"{}\"}}", "n".repeat(300), "s".repeat(70_000));
    assert_eq!(printed(Doc::flat(&packed(&long))), long);
    let many = format!("[{}]", (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert_eq!(printed(Doc::flat(&packed(&many))), many);
    assert!(packed(&many).len() < 2010, "two bytes an element");
}

#[test]
fn numbers_and_repeated_names() {
    for (text, want) in [
        ("1E2", "100.0"),
        ("-0", "-0.0"),
        ("123456789012345678901", "1.2345678901234568e20"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("-9223372036854775808", "-9223372036854775808"),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
        (" [ 1 , 2 ] ", "[1,2]"),
        (r#""\ud83d\ude00\/""#, "\"\u{1f600}/\""),
    ] {
        assert_eq!(printed(Doc::flat(&packed(text))), want, "{text}");
    }
    let names: Vec<String> = (0..40).map(|n| format!("\"k{}\":{n}", n % 20)).collect();
    let want: Vec<String> = (0..20).map(|n| format!("\"k{n}\":{}", n + 20)).collect();
    assert_eq!(
        printed(Doc::flat(&packed(&format!("{{{}}}", names.join(","))))),
        format!("{{{}}}", want.join(","))
    );
}

#[test]
fn errors_name_the_place() {
    for (text, want) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{bad", "key must be a string at line 1 column 2"),
        ("nope", "expected ident at line 1 column 2"),
        ("NaN", "expected value at line 1 column 1"),
        ("01", "invalid number at line 1 column 2"),
        ("5.", "EOF while parsing a value at line 1 column 2"),
        ("1e400", "number out of range at line 1 column 5"),
        ("\"\\ud800\"", "unexpected end of hex escape at line 1 column 8"),
        ("\"\\udc00\"", "lone leading surrogate in hex escape at line 1 column 7"),
        ("\"\\u12\"", "EOF while parsing a string at line 1 column 6"),
        ("\"\\q\"", "invalid escape at line 1 column 3"),
        ("\"a\nb\"", "control character (\\u0000-\\u001F) found while parsing a string at line 2 column 0"),
    ] {
        assert_eq!(parse(text).expect_err(text).to_string(), want);
    }
    assert!(parse(&("[".repeat(127) + &"]".repeat(127))).is_ok());
    let deep = parse(&("[".repeat(128) + &"]".repeat(128))).expect_err("too deep");
    assert_eq!(deep.to_string(), "recursion limit exceeded at line 1 column 128");
}

const DOCUMENT: &str = r#"{"a":[0,1,2,3,4],"b":{"a":null,"c":{"a":7}},"x y":1,"s":"abc"}"#;

#[test]
fn paths_find_what_redis_stack_finds() {
    for (path, want) in [
        ("$", &*format!("[{DOCUMENT}]")),
        ("$..a", "[[0,1,2,3,4],null,7]"),
        ("$.a[::2]", "[0,2,4]"),
        ("$.a[-2:]", "[3,4]"),
        ("$.a[10:]", "[]"),
        ("$.a[3,0,3]", "[3,0,3]"),
        ("$.a[?(@>2)]", "[3,4]"),
        ("$.a[?@>2]", "[3,4]"),
        ("$.b[?(@.a)]", r#"[{"a":7}]"#),
        (r#"$["b","zz"]"#, r#"[{"a":null,"c":{"a":7}}]"#),
        (r#"$["x y"]"#, "[1]"),
        ("a[1]", "[1]"),
        (r#"["a"][-1]"#, "[4]"),
        ("$.a[-100]", "[0]"),
        (r#"$[?(@=="abc")]"#, r#"["abc"]"#),
        (r#"$[?(@ =~ "^a.c$")]"#, r#"["abc"]"#),
        ("$.a[?(@>1 && @<4 || @==0)]", "[0,2,3]"),
        (r#"$.a[?(@ != "x")]"#, "[0,1,2,3,4]"),
        ("$.b[?(@.a == null)]", "[]"),
        ("$..[?(@.a == 7)]", r#"[{"a":7}]"#),
        ("$..*", r#"[[0,1,2,3,4],{"a":null,"c":{"a":7}},1,"abc",0,1,2,3,4,null,{"a":7},7]"#),
        ("$.*.*", r#"[0,1,2,3,4,null,{"a":7}]"#),
        (r#"$.a[?(@ > "1")]"#, "[]"),
        ("$..c..a", "[7]"),
        ("$.a[0:3:2]", "[0,2]"),
        ("$.s[?(@==\"abc\")]", r#"["abc"]"#),
    ] {
        assert_eq!(found(DOCUMENT, path), want, "{path}");
    }
}

#[test]
fn wrong_paths_are_explained_as_in_redis_stack() {
    for (path, at, shown) in [
        ("$.a[::-1]", 6, "$.a[:: ---->>>> -1]\", expected one of the following: pos_number."),
        ("$.x y", 4, "$.x  ---->>>> y\", expected one of the following: EOI, '..'."),
        ("$.", 2, "$. <<<<----\", expected one of the following: <string>, '*'."),
        ("", 2, "$. <<<<----\", expected one of the following: <string>, '*'."),
        ("$.a[?()]", 6, "$.a[?( ---->>>> )]\", expected one of the following: single_filter."),
        (
            "$.a[?(@.x==",
            11,
            "$.a[?(@.x== <<<<----\", expected one of the following: decimal, from_current, \
             from_root, boolean_true, boolean_false, null.",
        ),
    ] {
        let error = Path::parse(path.as_bytes()).expect_err(path).to_string();
        assert_eq!(error, format!("Error occurred on position {at}, \"{shown}"));
    }
    let deep = format!("$[?{}1{}]", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Path::parse(deep.as_bytes()).is_err(), "nesting of conditions is bounded");
}

#[test]
fn a_shared_document_stays_as_it_was() {
    let mut document = Json::new(&packed(DOCUMENT)).expect("small");
    let shared = document.cow();
    let slot = eval::first(document.doc(), &Path::parse(b"$.b.c.a").expect("valid"))
        .expect("few visits")
        .expect("there");
    edit::replace(&mut document, slot, &packed("\"new\"")).expect("small");
    assert_eq!(printed(shared.doc()), DOCUMENT);
    assert_eq!(printed(document.doc()), DOCUMENT.replace('7', "\"new\""));
}

#[test]
fn headers_grow_and_shrink_with_their_content() {
    let mut document = Json::new(&packed(r#"{"a":{"b":["x"]},"z":1}"#)).expect("small");
    let path = Path::parse(b"$.a.b").expect("valid");
    for count in 1..400 {
        let array = eval::first(document.doc(), &path).expect("few visits").expect("there");
        edit::insert(&mut document, array, count, &[packed("\"0123456789\"")]).expect("small");
        document.check();
    }
    for count in (0..400).rev() {
        let array = eval::first(document.doc(), &path).expect("few visits").expect("there");
        let item = packed::item(document.doc(), array, count / 2).expect("there");
        edit::remove(&mut document, item).expect("smaller");
        document.check();
    }
    assert_eq!(printed(document.doc()), r#"{"a":{"b":[]},"z":1}"#);
}

#[test]
fn arrays_of_numbers_grow_in_place_and_give_way_to_other_values() {
    let mut document = Json::new(&packed(r#"{"n":[1,2],"z":1}"#)).expect("small");
    let path = Path::parse(b"$.n").expect("valid");
    let mut want = vec!["1".to_owned(), "2".to_owned()];
    for next in ["3", "4.5", "-7", "\"x\"", "70000", "[1,2]"] {
        let array = eval::first(document.doc(), &path).expect("few visits").expect("there");
        edit::insert(&mut document, array, want.len(), &[packed(next)]).expect("small");
        want.push(next.to_owned());
        document.check();
        assert_eq!(printed(document.doc()), format!("{{\"n\":[{}],\"z\":1}}", want.join(",")));
    }
}

fn arb_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        (-300i64..300).prop_map(|value| value.to_string()),
        any::<u64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(float_text),
        (-9999i32..9999, 0i32..5).prop_map(|(m, s)| float_text(f64::from(m) / 10f64.powi(s))),
        "[a-c\\PC]{0,12}".prop_map(|text| string_text(&text)),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((-200i32..200).prop_map(|n| n.to_string()), 0..300)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[a-e]{1,2}", inner, 0..8).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn float_text(value: f64) -> String {
    let mut out = Vec::new();
    Num::Float(value).print(&mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn string_text(text: &str) -> String {
    let mut out = Vec::new();
    print::string(text.as_bytes(), &mut out);
    String::from_utf8(out).expect("UTF-8")
}

const PATHS: [&str; 16] = [
    "$",
    "$.*",
    "$..*",
    "$..a",
    "$..[0]",
    "$..[-1]",
    "$.a.b",
    "$[0]",
    "$..[1:3]",
    "$..b..c",
    "$..[?(@>1)]",
    "$..[?(@.a)]",
    "$[\"a\",\"b\"]",
    "$..[0,2]",
    ".a",
    "$.a[*].b",
];

proptest! {
    // tests/nightly runs more cases (`PROPTEST_CASES`).
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_print_as_they_were_written(text in arb_json()) {
        prop_assert_eq!(printed(Doc::flat(&packed(&text))), text);
    }

    #[test]
    fn changes_in_place_equal_new_documents(
        text in arb_json(), value in arb_json(), path in 0..PATHS.len(), pick in any::<prop::sample::Index>(),
    ) {
        let store = packed(&text);
        let bytes = Doc::flat(&store);
        let path = Path::parse(PATHS[path].as_bytes()).expect("valid");
        let slots = eval::all(bytes, &path).expect("few visits");
        prop_assume!(!slots.is_empty());
        let slot = *pick.get(&slots);
        let route = location::route(bytes, slot);
        prop_assert_eq!(location::follow(bytes, &route), Some(slot));
        let new = packed(&value);
        let mut document = Json::new(&store).expect("small");
        edit::replace(&mut document, slot, &new).expect("small");
        document.check();
        let want = edit::rebuild(bytes, &[slot], &mut |_, out| out.copy(Doc::flat(&new), Slot::whole(0)));
        prop_assert_eq!(printed(document.doc()), printed(Doc::flat(&want)));
        if !route.is_empty() {
            let mut document = Json::new(&store).expect("small");
            edit::remove(&mut document, slot).expect("smaller");
            document.check();
            let want = edit::without(bytes, &[slot]);
            prop_assert_eq!(printed(document.doc()), printed(Doc::flat(&want)));
        }
    }

    #[test]
    fn removals_in_one_pass_equal_those_one_after_the_other(text in arb_json(), path in 0..PATHS.len()) {
        let store = packed(&text);
        let bytes = Doc::flat(&store);
        let path = Path::parse(PATHS[path].as_bytes()).expect("valid");
        let mut slots = eval::all(bytes, &path).expect("few visits");
        slots.sort_unstable();
        slots.dedup();
        prop_assume!(edit::are_disjoint(bytes, &slots) && slots.iter().all(|slot| *slot != Slot::whole(0)));
        let mut routes: Vec<_> = slots.iter().map(|&slot| location::route(bytes, slot)).collect();
        routes.sort_unstable_by(|one, other| edit::removal_order(one, other));
        let mut document = Json::new(&store).expect("small");
        for route in routes {
            let slot = location::follow(document.doc(), &route).expect("still there");
            edit::remove(&mut document, slot).expect("smaller");
        }
        document.check();
        prop_assert_eq!(printed(document.doc()), printed(Doc::flat(&edit::without(bytes, &slots))));
    }
}

/// Cases of a test with many changes in each: all of them with `PROPTEST_CASES`, as at night.
fn cases_of_many_changes() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 64 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases_of_many_changes(), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Each change is made in the pieces, and in a document that is built anew.
    #[test]
    fn a_document_in_pieces_goes_through_many_changes(
        texts in prop::collection::vec(arb_json(), 12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..6u8, arb_json()), 1..40),
        shared_at in 0..40usize,
    ) {
        let text = format!("{{\"x\":[{}],\"y\":{{\"z\":[1,2,3]}}}}", texts.join(","));
        let mut document = Json::new(&packed(&text)).expect("small");
        let mut text = printed(document.doc());
        let mut shared = None;
        for (turn, (pick, kind, value)) in changes.into_iter().enumerate() {
            if turn == shared_at {
                shared = Some((document.cow(), text.clone()));
            }
            let store = packed(&text);
            let bytes = Doc::flat(&store);
            let slots = eval::all(bytes, &Path::parse(b"$..*").expect("valid")).expect("few visits");
            if slots.is_empty() {
                break;
            }
            let slot = *pick.get(&slots);
            let route = location::route(bytes, slot);
            let here = location::follow(document.doc(), &route).expect("the same place");
            prop_assert_eq!(location::route(document.doc(), here), route);
            let new = packed(&value);
            let len = packed::array_len(bytes, slot);
            let want = match (kind, len, packed::value(bytes, slot)) {
                (0, ..) => {
                    edit::remove(&mut document, here).expect("small");
                    edit::without(bytes, &[slot])
                }
                (1 | 2, Some(len), _) => {
                    let at = pick.index(len + 1);
                    edit::insert(&mut document, here, at, &[new.clone(), new.clone()]).expect("small");
                    let items: Vec<Slot> = packed::items(bytes, slot).collect();
                    edit::rebuild(bytes, &[slot], &mut |_, out| {
                        out.begin_array();
                        items[..at].iter().for_each(|&item| out.copy(bytes, item));
                        (0..2).for_each(|_| out.copy(Doc::flat(&new), Slot::whole(0)));
                        items[at..].iter().for_each(|&item| out.copy(bytes, item));
                        out.end();
                    })
                }
                (3, Some(len), _) => {
                    let kept = pick.index(len + 1) / 2..pick.index(len + 1);
                    edit::keep(&mut document, here, kept.clone()).expect("small");
                    edit::rebuild(bytes, &[slot], &mut |_, out| {
                        out.begin_array();
                        packed::items(bytes, slot)
                            .enumerate()
                            .filter(|(index, _)| kept.contains(index))
                            .for_each(|(_, item)| out.copy(bytes, item));
                        out.end();
                    })
                }
                (1..=3, _, Value::Object(object)) => {
                    let name = format!("new{turn}");
                    edit::add_member(&mut document, here, name.as_bytes(), &new).expect("small");
                    edit::rebuild(bytes, &[slot], &mut |_, out| {
                        out.begin_object();
                        for (name, at) in packed::members(bytes, object) {
                            out.name(name);
                            out.copy(bytes, Slot::whole(at));
                        }
                        out.name(name.as_bytes());
                        out.copy(Doc::flat(&new), Slot::whole(0));
                        out.end();
                    })
                }
                _ => {
                    edit::replace(&mut document, here, &new).expect("small");
                    edit::rebuild(bytes, &[slot], &mut |_, out| out.copy(Doc::flat(&new), Slot::whole(0)))
                }
            };
            document.check();
            text = printed(Doc::flat(&want));
            prop_assert_eq!(printed(document.doc()), text.as_str());
        }
        if let Some((shared, text)) = shared {
            shared.check();
            prop_assert_eq!(printed(shared.doc()), text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elements_are_inserted_where_they_should(
        text in arb_json(), value in arb_json(), at in any::<prop::sample::Index>(),
    ) {
        let store = packed(&format!("{{\"x\":[{text}],\"y\":{text}}}"));
        let bytes = Doc::flat(&store);
        let path = Path::parse(b"$..[?(@)]").expect("valid");
        let arrays: Vec<Slot> = eval::all(bytes, &path).expect("few visits")
            .into_iter()
            .filter(|&slot| packed::array_len(bytes, slot).is_some())
            .collect();
        for array in arrays.into_iter().take(6) {
            let len = packed::array_len(bytes, array).expect("an array");
            let index = at.index(len + 1);
            let mut document = Json::new(&store).expect("small");
            edit::insert(&mut document, array, index, &[packed(&value)]).expect("small");
            document.check();
            let want = edit::rebuild(bytes, &[array], &mut |_, out: &mut Builder| {
                out.begin_array();
                for (place, item) in packed::items(bytes, array).enumerate() {
                    if place == index {
                        out.copy(Doc::flat(&packed(&value)), Slot::whole(0));
                    }
                    out.copy(bytes, item);
                }
                if index == len {
                    out.copy(Doc::flat(&packed(&value)), Slot::whole(0));
                }
                out.end();
            });
            prop_assert_eq!(printed(document.doc()), printed(Doc::flat(&want)));
        }
    }

    #[test]
    fn numbers_are_kept_exactly(value in any::<f64>()) {
        prop_assume!(value.is_finite());
        let mut bytes = Vec::new();
        push_number(&mut bytes, Num::Float(value));
        let Value::Num(Num::Float(read)) = packed::value(Doc::flat(&bytes), Slot::whole(0)) else {
            panic!("not a floating-point number");
        };
        prop_assert_eq!(read.to_bits(), value.to_bits());
    }

    #[test]
    fn any_text_and_path_is_parsed_or_refused(
        text in "[\\[\\]{}\",:0-9a-e.\\\\ntrul-]{0,40}",
        path in "[$.@?()\\[\\]*,:0-9a-c\"'<>=!&|~ -]{0,30}",
    ) {
        super::check(&text, path.as_bytes());
        super::check(DOCUMENT, format!("${path}").as_bytes());
    }
}

#[test]
fn the_work_of_a_path_is_bounded() {
    let numbers = packed(r#"{"a":1}"#);
    let filters = |count: usize| format!("$.a{}", "[?(@==1)]".repeat(count));
    let most = filters(120);
    assert_eq!(
        eval::all(Doc::flat(&numbers), &Path::parse(most.as_bytes()).expect("short")).map(|all| all.len()),
        Ok(1)
    );
    for path in [filters(100_000), format!("$[?(@==1{})]", " || @==1".repeat(1000))] {
        assert!(Path::parse(path.as_bytes()).is_err());
    }
    // Each `..` passes the values inside of a value once for each value around them.
    let deep = packed(&format!("{}{}", "[".repeat(127), "]".repeat(127)));
    let all = |path: &str| eval::all(Doc::flat(&deep), &Path::parse(path.as_bytes()).expect("valid"));
    assert_eq!(all("$..*").map(|all| all.len()), Ok(126));
    assert_eq!(all("$..*..*").map(|all| all.len()), Ok(126 * 125 / 2));
    for path in ["$..*..*..*..*..*", "$..*..*..*..*..*.nothing", "$..[?(@..[?(@..[?(@..[?(@..a)])])])]"] {
        assert_eq!(all(path), Err(eval::TooManyVisits), "{path}");
    }
    // A walk through all of a large document is not too much.
    let wide = packed(&format!("[{}{{\"a\":[0]}}]", "{\"a\":[0]},".repeat(300_000)));
    let path = Path::parse(b"$..a[?(@==0)]").expect("valid");
    assert_eq!(eval::all(Doc::flat(&wide), &path).map(|all| all.len()), Ok(300_001));
}

#[test]
fn arrays_of_short_floats_take_two_bytes_a_number_also_after_they_were_printed() {
    for kind in ["FP16", "BF16"] {
        let numbers: Vec<String> = (1..=200).map(|n| format!("{}", f64::from(n) / 73.0 * 0.3)).collect();
        let text = format!("[{}]", numbers.join(","));
        let bytes = parse_with(&text, FloatType::named(kind.as_bytes())).expect("in range");
        assert_eq!(bytes.len(), 2 + 2 * 200);
        let mut printed = Vec::new();
        print::compact(Doc::flat(&bytes), Slot::whole(0), &mut printed);
        assert_eq!(parse(std::str::from_utf8(&printed).unwrap()).unwrap(), bytes, "{kind}");
    }
}
