// SPDX-License-Identifier: BSD-3-Clause
//! The grammar of queries: what they mean, and what is said of those that mean nothing.

use braid_search::query::{DEPTH_MAX, Node, Options, Query, QueryError, Shape, TagMatch, Wanted, parse};
use braid_search::schema::{Field, Kind, Schema};
use proptest::prelude::*;

fn schema() -> Schema {
    let mut missing = Field::tag("i");
    missing.index_missing = true;
    let exact = Field::new("k", Kind::Tag { separator: Some(b','), case_sensitive: true });
    let fields = vec![
        Field::text("t"),
        Field::text("u"),
        Field::numeric("n"),
        Field::tag("g"),
        exact,
        Field::new("l", Kind::Geo),
        Field::new("v", Kind::Vector),
        missing,
    ];
    Schema::new(fields).unwrap()
}

fn parsed_with(text: &str, parameters: &[(&[u8], &[u8])]) -> Result<Query, QueryError> {
    let schema = schema();
    parse(text, &Options { parameters, ..Options::new(&schema) })
}

fn show_shape(shape: &Shape) -> String {
    match shape {
        Shape::Prefix(text) => format!("{text}*"),
        Shape::Suffix(text) => format!("*{text}"),
        Shape::Infix(text) => format!("*{text}*"),
        Shape::Wildcard(text) => format!("w'{text}'"),
        Shape::Fuzzy(text, distance) => format!("%{distance}{text}"),
    }
}

/// A tree on one line. Words that are expanded end with `+`, those of some fields begin with them.
fn show(node: &Node) -> String {
    let list = |nodes: &[Node]| nodes.iter().map(show).collect::<Vec<_>>().join(" ");
    let scope = |fields: &u128| if *fields == u128::MAX { String::new() } else { format!("{fields}:") };
    let shown = match &node.wanted {
        Wanted::Nothing => "()".to_owned(),
        Wanted::Everything => "*".to_owned(),
        Wanted::Word { word, fields, expand } => {
            format!("{}{word}{}", scope(fields), if *expand { "+" } else { "" })
        }
        Wanted::Words { shape, fields } => scope(fields) + &show_shape(shape),
        Wanted::All { children, slop, in_order } => {
            let slop = slop.map_or(String::new(), |slop| format!("~{slop}"));
            format!("({}){slop}{}", list(children), if *in_order { "<" } else { "" })
        }
        Wanted::Any(children) => format!("[{}]", list(children)),
        Wanted::Not(child) => format!("-{}", show(child)),
        Wanted::Optional(child) => format!("?{}", show(child)),
        Wanted::Tags { field, tags } => {
            let tags = tags.iter().map(|tag| match tag {
                TagMatch::Exactly(tag) => tag.clone(),
                TagMatch::Like(shape) => show_shape(shape),
            });
            format!("#{field}{{{}}}", tags.collect::<Vec<_>>().join("|"))
        }
        Wanted::Numbers { field, range } => {
            let (low, high) =
                (["", "("][usize::from(range.without_min)], ["", "("][usize::from(range.without_max)]);
            format!("#{field}[{low}{} {high}{}]", range.min, range.max)
        }
        Wanted::Near { field, area } => {
            format!("#{field}[{} {} {}]", area.longitude, area.latitude, area.radius)
        }
        Wanted::Missing(field) => format!("missing{field}"),
        Wanted::VectorsWithin { field, radius, vector, .. } => format!("#{field}<{radius} {}>", vector.len()),
    };
    if node.weight == 1.0 { shown } else { format!("{shown}^{}", node.weight) }
}

#[test]
fn queries_become_trees() {
    for (text, expected) in [
        ("hello", "hello+"),
        ("HELLO world", "(hello+ world+)"),
        ("the hello", "hello+"),
        ("the", "()"),
        ("", "()"),
        ("*", "*"),
        ("(*)", "*"),
        ("a1|b1 c1", "[a1+ (b1+ c1+)]"),
        ("-foo bar", "(-foo bar+)"),
        ("~foo|bar", "[?foo bar+]"),
        ("-(foo|bar)", "-[foo bar]"),
        ("foo-bar", "(foo+ -bar)"),
        ("3.14 -5", "(3.14 -5)"),
        ("\"Foo the bar\"", "(foo the bar)~0<"),
        ("\"foo\"", "foo"),
        ("\"foo bar\"=>{$slop:2}", "(foo bar)~2"),
        ("(foo bar)=>{$inorder:true;$weight:2}", "(foo+ bar+)<^2"),
        ("foo bar=>{$weight: 0.5}", "(foo+ bar+^0.5)"),
        ("@t:foo bar", "(1:foo+ bar+)"),
        ("@t:(foo bar)", "(1:foo+ 1:bar+)"),
        ("@t|u:foo", "3:foo+"),
        ("@u:\"foo bar\"", "(2:foo 2:bar)~0<"),
        ("@t:-foo", "-1:foo"),
        ("@nosuch:foo", "()"),
        ("@n:foo", "()"),
        ("hel* *llo *ell* w'h?l*' %helo% %%hlo%%", "(hel* *llo *ell* w'h?l*' %1helo %2hlo)"),
        ("h*", "()"),
        ("@n:[1 (2]", "#2[1 (2]"),
        ("@n:[(-inf +inf]", "#2[(-inf inf]"),
        ("@n:[ 5 , 5 ]", "#2[5 5]"),
        ("@n:[2]", "#2[2 2]"),
        ("@n==2 @n>=1 @n<3", "(#2[2 2] #2[1 inf] #2[-inf (3])"),
        ("@n!=2", "-#2[2 2]"),
        ("@t:[1 2]", "()"),
        ("@g:{Foo bar|x\\-1| ba* | *ca*}", "#3{foo bar|x-1|ba*|*ca*}"),
        ("@g:{\"x-1\"}", "#3{x-1}"),
        ("@g:{a*}", "#3{}"),
        ("@k:{Foo}", "#4{Foo}"),
        ("@l:[1.5 2.5 10 km]", "#5[1.5 2.5 10000]"),
        ("ismissing(@i)", "missing7"),
        ("ismissing", "ismissing+"),
        ("$p", "x y+"),
        ("$p*", "x y*"),
        ("@n:[$low (5]", "#2[(3 (5]"),
        ("@g:{$p}", "#3{x y}"),
        ("@v:[VECTOR_RANGE 2 $p]", "#6<2 3>"),
        ("hello \\", "hello+"),
        ("@", "()"),
    ] {
        let parameters: [(&[u8], &[u8]); 2] = [(b"p", b"x y"), (b"low", b"(3")];
        assert_eq!(show(&parsed_with(text, &parameters).unwrap().root), expected, "{text}");
    }
}

#[test]
fn knn_follows_its_filter() {
    let parameters: [(&[u8], &[u8]); 2] = [(b"q", b"1234"), (b"k", b"7")];
    let query = parsed_with("(@n:[1 2])=>[KNN $k @v $q EF_RUNTIME 9 AS d]", &parameters).unwrap();
    let knn = query.knn.unwrap();
    assert_eq!((show(&query.root).as_str(), knn.field, knn.count, knn.vector.len()), ("#2[1 2]", 6, 7, 4));
    assert_eq!((knn.options.distance_as.as_deref(), knn.options.ef_runtime), (Some("d"), Some(9)));
    let plain = parsed_with("*=>[KNN 2 @v $q]=>{$yield_distance_as: e}", &parameters).unwrap().knn.unwrap();
    assert_eq!(plain.options.distance_as.as_deref(), Some("e"));
    assert_eq!(parsed_with("*=>[KNN 2 @t $q]", &parameters).unwrap().knn.unwrap().count, 0);
    for (text, expected) in [
        ("*=>[KNN 2 @v $q AS n]", "Property `n` already exists in schema"),
        ("*=>[KNN 2 @v $q BOGUS 3]", "Error parsing vector similarity parameters: Invalid option"),
        ("*=>[KNN -1 @v $q]", "Syntax error at offset 8 near -1"),
        ("*=>[KNN x @v $q]", "Syntax error at offset 8 near x"),
        ("*=>[KNN 2 @v $z]", "No such parameter `z`"),
    ] {
        assert_eq!(parsed_with(text, &parameters).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn errors_have_positions() {
    for (text, expected) in [
        ("hello)", "Syntax error at offset 5 near hello"),
        ("(hello", "Syntax error at offset 1 near hello"),
        ("@t:", "Syntax error at offset 2 near t"),
        ("@t", "Syntax error at offset 0 near t"),
        ("\"hello", "Syntax error at offset 0 near "),
        ("()", "Syntax error at offset 1 near "),
        ("foo ()", "Syntax error at offset 5 near foo"),
        ("foo || bar", "Syntax error at offset 5 near foo"),
        ("foo:bar", "Syntax error at offset 3 near foo"),
        ("foo, bar; baz!", "Syntax error at offset 8 near bar"),
        ("hello |", "Syntax error at offset 6 near hello"),
        ("| hello", "Syntax error at offset 0 near "),
        ("hello %", "Syntax error at offset 6 near hello"),
        ("%helo", "Syntax error at offset 1 near helo"),
        ("hello *", "Syntax error at offset 6 near hello"),
        ("* -hello", "Syntax error at offset 0 near "),
        ("-*", "Syntax error at offset 1 near "),
        ("@t:(@u:foo)", "Syntax error at offset 4 near u"),
        ("@g:{x-y}", "Syntax error at offset 5 near x"),
        ("@g:{}", "Syntax error at offset 4 near g"),
        ("@g:{foo ba*}", "Syntax error at offset 10 near ba"),
        ("@n:[abc 2]", "Syntax error at offset 4 near abc"),
        ("@n:[5 5", "Syntax error at offset 6 near 5"),
        ("@n:[1 2 3]", "Syntax error at offset 9 near 3"),
        ("hello =>{$weight}", "Syntax error at offset 16 near weight"),
        ("$zz", "No such parameter `zz`"),
        ("@n:[$p 5]", "Bad lower range: x"),
        ("@n:[5 $p]", "Bad upper range: x"),
        ("foo=>{$bogus:2}", "Invalid attribute bogus"),
        ("(foo bar)=>{$weight:x}", "Invalid value (x) for `weight`"),
        ("@l:[1 2 10 parsec]", "Invalid GeoFilter unit"),
        ("@l:[1 2 -10 km]", "Invalid GeoFilter radius"),
        ("@l:[1000 2 10 km]", "Invalid GeoFilter lat/lon"),
        ("ismissing(@g)", "'ismissing' requires field 'g' to be defined with 'INDEXMISSING'"),
        (
            "@v:[VECTOR_RANGE -1 $p]",
            "Error parsing vector similarity query: negative radius (-1) given in a range query",
        ),
    ] {
        let error = parsed_with(text, &[(b"p", b"x")]).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn nesting_and_size_are_bounded() {
    let nested = |depth: usize| format!("{}foo{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parsed_with(&nested(DEPTH_MAX - 1), &[]).is_ok());
    assert_eq!(parsed_with(&nested(DEPTH_MAX), &[]).unwrap_err(), QueryError::TooDeep);
    assert_eq!(parsed_with(&("-".repeat(100_000) + "foo"), &[]).unwrap_err(), QueryError::TooDeep);
    assert_eq!(parsed_with(&"foo ".repeat(100_000), &[]).unwrap_err(), QueryError::TooLong);
    assert_eq!(parsed_with(&"x".repeat(2 << 20), &[]).unwrap_err(), QueryError::TooLong);
    let tags = format!("@g:{{{}}}", vec!["tag"; 5000].join("|"));
    assert!(parsed_with(&tags, &[]).is_ok(), "long lists of tags are usual");
}

proptest! {
    #[test]
    fn any_text_is_a_query_or_an_error(text in "[a-c@tgnlv:{}()\\[\\]|~*%$\"'w =>0-9;.\\\\é-]{0,40}") {
        let parameters: [(&[u8], &[u8]); 2] = [(b"a", b"x"), (b"b", b"1")];
        if let Err(QueryError::Syntax { offset, .. }) = parsed_with(&text, &parameters) {
            prop_assert!(offset <= text.len());
        }
    }
}

/// As Redis Stack's FT.EXPLAIN says.
#[test]
fn what_the_first_dialect_understands_differently_is_refused() {
    let schema = schema();
    let parsed = |text: &str| parse(text, &Options { first_dialect: true, ..Options::new(&schema) });
    let alike = [
        "hello world | foo",
        "(hello world) | foo",
        "-hello",
        "world -hello",
        "world ~hello",
        "-hello -world",
        "-(hello world)",
        "hello (-world) foo",
        "@t:hello",
        "world @t:hello",
        "@t:hello @u:world",
        "@t:hello @g:{x}",
        "@t:hello -@u:x",
        "@t:(hello | world) foo",
        "@t:hello \"foo bar\"",
        "@t:hel* foo",
        "@t:%hel% foo",
        "@t|u:hello",
        "@g:{foo bar | baz*} hello",
        "@n:[(1 inf] hello",
        "@l:[1 2 3 km]",
        "hello=>{$weight:2}",
        "(hello world)=>{$slop:1} foo",
        "~%%hello%%",
        "the hello",
        "hello 12",
        "*",
        "*llo | \"a b\"",
    ];
    for text in alike {
        let expected = parsed_with(text, &[]).map(|query| show(&query.root));
        assert!(expected.is_ok(), "{text}");
        assert_eq!(parsed(text).map(|query| show(&query.root)), expected, "{text}");
    }
    let different = [
        "-hello world",
        "~hello world",
        "-@t:hello world",
        "~@t:hello @u:x",
        "hello -world foo",
        "hello ~world (foo)",
        "@t:hello world",
        "@t:hello 12",
        "@t:hello | world",
        "@t|u:hello world",
        "@t:hello @u:world foo",
        "@t:(-hello world)",
        "hello the | world",
        "@g:{a} | @g:{b}",
        "@g:{a} @n:[1 2] | hello",
        "(@g:{a} | hello) foo",
        "hello | -foo",
        "w'h?l*'",
        "$q",
        "@g:{\"foo bar\"}",
        "@g:{$q}",
        "@n:[1]",
        "@n:[$a 2]",
        "@n==1",
        "@n>1",
        "ismissing(@i)",
        "*=>[KNN 2 @v $q]",
        "@v:[VECTOR_RANGE 1 $q]",
    ];
    for text in different {
        assert_eq!(parsed(text).map(drop), Err(QueryError::Dialect), "{text}");
    }
    for text in ["@t:", "(hello", "hello)", "@n:[1 2", "=>"] {
        assert!(parsed(text).is_err(), "{text}");
    }
}
