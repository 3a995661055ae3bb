// SPDX-License-Identifier: BSD-3-Clause
//! Search as its clients see it, where no stock server can be compared: FT.HYBRID, which Redis has
//! since 8.4. The figures are those that redis-py's tests expect of that server.

use braid_tests::{RawClient, TestServer, Value};

/// Documents as in redis-py's tests of hybrid searches.
const ITEMS: [([f32; 4], &str); 5] = [
    ([1.0, 2.0, 7.0, 8.0], "red shoes"),
    ([1.0, 4.0, 7.0, 8.0], "green shoes with red laces"),
    ([1.0, 2.0, 6.0, 5.0], "red dress"),
    ([2.0, 3.0, 6.0, 5.0], "orange dress"),
    ([5.0, 6.0, 7.0, 8.0], "black shoes"),
];
const QUERY: [f32; 4] = [1.0, 2.0, 7.0, 6.0];

fn blob(vector: [f32; 4]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A server with an index, and `sets` times the items, put in transactions.
fn filled(sets: usize) -> (TestServer, RawClient) {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok(
        "FT.CREATE idx ON HASH PREFIX 1 item: SCHEMA description TEXT price NUMERIC color TAG embedding \
         VECTOR FLAT 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 cosine VECTOR HNSW 6 TYPE FLOAT32 DIM 4 \
         DISTANCE_METRIC COSINE",
    );
    client.ok("MULTI");
    for number in 0..sets * ITEMS.len() {
        let (vector, description) = ITEMS[number % ITEMS.len()];
        let color = description.split(' ').next().expect("a word");
        let (key, price, vector) = (format!("item:{number}"), (15 + number % 4).to_string(), blob(vector));
        let words: [&[u8]; 12] = [
            b"HSET",
            key.as_bytes(),
            b"description",
            description.as_bytes(),
            b"price",
            price.as_bytes(),
            b"color",
            color.as_bytes(),
            b"embedding",
            &vector,
            b"cosine",
            &vector,
        ];
        client.call_arguments(&words);
    }
    client.call("EXEC");
    (server, client)
}

/// As on Redis Stack 7.4.
#[test]
fn empty_texts_are_found_where_they_are_indexed() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("FT.CREATE i SCHEMA t TEXT g TAG et TEXT INDEXEMPTY eg TAG INDEXEMPTY");
    client.call("HSET a t '' g '' et '' eg ''");
    client.call("HSET b t x g x et hello eg hello");
    let mut search = |query: &str| {
        let words: [&[u8]; 8] =
            [b"FT.SEARCH", b"i", query.as_bytes(), b"NOCONTENT", b"PARAMS", b"2", b"p", b""];
        client.call_arguments(&words)
    };
    for (query, expected) in [
        ("@et:''", "a"),
        ("@et:\"\"", "a"),
        ("''", "a"),
        ("@et:$p", "a"),
        ("@et:(hello|'')", "a b"),
        ("@et:(hello '')", ""),
        ("-@et:''", "b"),
        ("@eg:{''}", "a"),
        ("@eg:{\"\"}", "a"),
        ("-@eg:{$p}", "b"),
    ] {
        let reply = search(query);
        let words = reply.elements().unwrap_or_else(|| panic!("{query}: {reply:?}"));
        let mut keys: Vec<String> = words[1..].iter().map(Value::text).collect();
        keys.sort();
        assert_eq!(keys.join(" "), expected, "{query}");
    }
    let refusal = "Use `INDEXEMPTY` in field creation in order to index and query for empty strings";
    for query in ["@t:''", "@t:(a '')", "@t:$p", "@g:{''}", "@g:{$p}"] {
        assert_eq!(search(query), Value::Error(refusal.into()), "{query}");
    }
    let counted = client.call("FT.SEARCH i * NOCONTENT SORTBY eg DESC WITHCOUNT LIMIT 0 1");
    assert_eq!(counted, Value::Array(vec![Value::Integer(2), Value::bulk("b")]));
    client.ok("FT.CONFIG SET DEFAULT_DIALECT 2");
    let other = client.call("FT.CONFIG SET DEFAULT_DIALECT 3");
    assert_eq!(other, Value::Error("Not modifiable at runtime".into()));
}

/// FT.HYBRID with these arguments, `$vec` among the parameters.
fn hybrid(client: &mut RawClient, line: &str) -> Value {
    let vector = blob(QUERY);
    let mut words: Vec<&[u8]> = vec![b"FT.HYBRID", b"idx"];
    words.extend(line.split(' ').map(str::as_bytes));
    words.extend([&b"PARAMS"[..], b"2", b"vec", &vector]);
    client.call_arguments(&words)
}

/// The rows of a reply in RESP2, each as `name=value`, and the total.
fn rows(reply: &Value) -> (i64, Vec<String>) {
    let all = reply.elements().unwrap_or_else(|| panic!("{reply:?}"));
    assert_eq!(all.len(), 8, "{reply:?}");
    let names: Vec<String> = all.iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, ["total_results", "results", "warnings", "execution_time"]);
    assert!(all[7].text().parse::<f64>().is_ok_and(|took| took > 0.0), "{reply:?}");
    let row = |row: &Value| {
        let words: Vec<String> = row.elements().expect("a row").iter().map(Value::text).collect();
        words.chunks(2).map(|pair| pair.join("=")).collect::<Vec<_>>().join(" ")
    };
    (all[1].integer().expect("a number"), all[3].elements().expect("rows").iter().map(row).collect())
}

#[track_caller]
fn check(client: &mut RawClient, line: &str, total: i64, expected: &[&str]) {
    let reply = hybrid(client, line);
    assert_eq!(rows(&reply), (total, expected.iter().map(|row| (*row).to_owned()).collect()), "{line}");
}

#[test]
fn documents_of_a_transaction_are_in_its_order() {
    let (_server, mut client) = filled(3);
    let found = client.call("FT.SEARCH idx dress NOCONTENT LIMIT 0 20");
    let found: Vec<String> = found.elements().expect("keys").iter().map(Value::text).collect();
    assert_eq!(found[1..], ["item:2", "item:3", "item:7", "item:8", "item:12", "item:13"]);
}

/// The commands of old clients for single documents; the replies are those of Redis Stack 7.4.
#[test]
fn single_documents_of_an_index() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok(
        "FT.CREATE idx ON HASH PREFIX 1 d: SCHEMA t TEXT v VECTOR FLAT 6 TYPE INT8 DIM 2 DISTANCE_METRIC L2",
    );
    client.ok("FT.CREATE json ON JSON PREFIX 1 j: SCHEMA $.a AS a TEXT");
    client.call("HSET d:1 t hello n 5");
    client.call("HSET other t hello");
    client.ok(r#"JSON.SET j:1 $ '{"a":"x"}'"#);
    for (line, reply) in [
        ("FT.GET idx d:1", "[t hello n 5]"),
        ("FT.MGET idx d:1 d:2 other", "[[t hello n 5] - -]"),
        ("FT.GET idx other", "-"),
        ("FT.GET json j:1", "-"),
        ("FT.GET none d:1", "!Unknown Index name"),
        ("FT.GET idx", "!ERR wrong number of arguments for 'FT.GET' command"),
        ("FT.DEL idx d:1", "1"),
        ("FT.DEL idx d:1", "0"),
        ("FT.SEARCH idx hello", "[0]"),
        ("FT.DEL idx other DD", "1"),
        ("EXISTS other", "0"),
        ("FT.DEL idx a b c", "!ERR wrong number of arguments for 'FT.DEL' command"),
    ] {
        assert_eq!(shown(&client.call(line)), reply, "{line}");
    }
    // Numbers of one byte in a vector.
    client.call_arguments(&[&b"HSET"[..], b"d:3", b"v", b"\xff\x02"]);
    let nearest = "*=>[KNN 1 @v $q AS far]".as_bytes();
    let words: [&[u8]; 8] = [b"FT.SEARCH", b"idx", nearest, b"PARAMS", b"2", b"q", b"\x01\x02", b"DIALECT"];
    let found = client.call_arguments(&[&words[..], &[b"2"]].concat());
    assert!(shown(&found).starts_with("[1 d:3 [far 4"), "{found:?}");
}

/// A reply in short: `-` for null, `!` before an error.
fn shown(reply: &Value) -> String {
    match reply {
        Value::Error(_) => format!("!{}", reply.text()),
        Value::Integer(number) => number.to_string(),
        Value::Array(all) => format!("[{}]", all.iter().map(shown).collect::<Vec<_>>().join(" ")),
        reply if reply.is_null() => "-".to_owned(),
        reply => reply.text().to_string(),
    }
}

#[test]
fn hybrid_searches_fuse_by_rank_or_by_score() {
    let (_server, mut client) = filled(10);
    let search = "SEARCH @color:{red} VSIM @embedding $vec";
    check(
        &mut client,
        &format!("{search} COMBINE RRF 4 WINDOW 3 CONSTANT 0.5 LIMIT 0 3"),
        5,
        &[
            "__key=item:2 __score=1.06666666667",
            "__key=item:0 __score=0.666666666667",
            "__key=item:7 __score=0.4",
        ],
    );
    check(
        &mut client,
        &format!("{search} COMBINE LINEAR 4 ALPHA 0.5 BETA 0.5 LIMIT 0 2"),
        20,
        &["__key=item:2 __score=0.166666666667", "__key=item:7 __score=0.166666666667"],
    );
    // The nearest ones alone, with the usual constant.
    check(
        &mut client,
        "SEARCH @color:{none} VSIM @embedding $vec KNN 2 K 3",
        3,
        &[
            "__key=item:2 __score=0.016393442623",
            "__key=item:7 __score=0.0161290322581",
            "__key=item:12 __score=0.015873015873",
        ],
    );
    // Words count, tags do not; ten results unless LIMIT says otherwise.
    let (total, found) = rows(&hybrid(
        &mut client,
        "SEARCH shoes SCORER TFIDF VSIM @embedding $vec COMBINE LINEAR 4 ALPHA 1 BETA 0",
    ));
    assert_eq!((total, found.len(), &*found[0]), (30, 10, "__key=item:0 __score=2"));
    // Ten dresses are that near, and no shoes; a filter is for the vectors only.
    let near = "VSIM @embedding $vec RANGE 2 RADIUS 2 FILTER";
    for (line, total) in [("nothing", 10), ("black", 20)] {
        let within = hybrid(&mut client, &format!("SEARCH {line} {near} @color:{{red}}"));
        assert_eq!(rows(&within).0, total, "{within:?}");
    }
    let none = hybrid(&mut client, &format!("SEARCH nothing {near} @color:{{black}}"));
    assert_eq!(rows(&none), (0, Vec::new()));
}

#[test]
fn scores_have_names_and_steps_follow() {
    let (_server, mut client) = filled(1);
    let names = "SEARCH dress YIELD_SCORE_AS words VSIM @cosine $vec KNN 4 K 2 YIELD_SCORE_AS near COMBINE LINEAR \
                 6 ALPHA 0 BETA 1 YIELD_SCORE_AS both";
    let (total, found) = rows(&hybrid(&mut client, &format!("{names} LOAD 1 @price LIMIT 0 4")));
    assert_eq!((total, found.len()), (3, 3), "{found:?}");
    // Both searches found the first, only the text the last.
    assert!(found[0].contains("words=") && found[0].contains("near=0.99"), "{found:?}");
    assert!(found[0].contains("price=17 near=") && found[0].contains("both=0.99"), "{found:?}");
    assert!(found[2].ends_with("price=18 both=0") && !found[2].contains("near="), "{found:?}");
    let steps = "SEARCH shoes|dress VSIM @embedding $vec LOAD 2 @color @price";
    check(
        &mut client,
        &format!("{steps} APPLY @price*2 AS double FILTER @price>16 SORTBY 2 @double DESC"),
        5,
        &["color=orange price=18 double=36", "color=red price=17 double=34"],
    );
    check(
        &mut client,
        &format!("{steps} GROUPBY 1 @color REDUCE COUNT 0 AS count SORTBY 2 @count DESC LIMIT 0 1"),
        1,
        &["color=red count=2"],
    );
    // A vector comes back as it is.
    let reply = hybrid(&mut client, "SEARCH nothing VSIM @embedding $vec LOAD 1 @embedding LIMIT 0 1");
    let row = reply.elements().expect("a reply")[3].elements().expect("rows")[0].clone();
    assert_eq!(row.elements().expect("a row")[1], Value::Bulk(blob(ITEMS[2].0)), "{reply:?}");
    client.call("HELLO 3");
    let reply = hybrid(&mut client, "SEARCH nothing VSIM @embedding $vec KNN 2 K 1");
    let Value::Map(pairs) = &reply else { panic!("{reply:?}") };
    assert_eq!(pairs[0], (Value::Simple("total_results".into()), Value::Integer(1)));
    assert!(matches!(&pairs[3].1, Value::Double(_)), "{reply:?}");
}

/// Two cursors, one for each search, as redis-py's tests expect.
#[test]
fn each_search_of_a_hybrid_one_has_a_cursor() {
    let (_server, mut client) = filled(4);
    let line =
        "SEARCH shoes YIELD_SCORE_AS s VSIM @embedding $vec WITHCURSOR COUNT 3 MAXIDLE 60000 LOAD 1 @price";
    let reply = hybrid(&mut client, line);
    let words = reply.elements().unwrap_or_else(|| panic!("{reply:?}"));
    let names: Vec<String> = words.iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, ["SEARCH", "VSIM", "warnings"]);
    // Of twenty documents twelve have shoes, and ten are the nearest.
    for (cursor, expected, columns) in [(1, 12, 4), (3, 10, 2)] {
        let mut id = words[cursor].integer().expect("a cursor");
        let (mut rows, mut reads) = (0, 0);
        while id != 0 {
            let reply = client.call(&format!("FT.CURSOR READ idx {id}"));
            let parts = reply.elements().unwrap_or_else(|| panic!("{reply:?}"));
            let found = &parts[0].elements().expect("rows")[1..];
            assert!(found.iter().all(|row| row.elements().expect("a row").len() == columns), "{found:?}");
            (rows, reads) = (rows + found.len(), reads + 1);
            id = parts[1].integer().expect("a cursor");
        }
        assert_eq!((rows, reads), (expected, 4));
    }
    client.call("HELLO 3");
    let none = "SEARCH nothing VSIM @embedding $vec RANGE 2 RADIUS 0 WITHCURSOR";
    let Value::Map(pairs) = hybrid(&mut client, none) else { panic!("no map") };
    assert!(pairs[..2].iter().all(|(_, id)| *id == Value::Integer(0)), "{pairs:?}");
}

#[test]
fn wrong_hybrid_searches_are_refused() {
    let (_server, mut client) = filled(1);
    for (line, expected) in [
        ("VSIM @embedding $vec", "SEARCH parameter is required"),
        ("SEARCH shoes", "VSIM parameter is required"),
        ("SEARCH shoes VSIM embedding $vec", "Missing @ prefix for vector field name"),
        ("SEARCH shoes VSIM @price $vec", "Unknown vector field `price`"),
        ("SEARCH shoes VSIM @embedding $none", "No such parameter `none`"),
        ("SEARCH shoes VSIM @embedding abc", "query vector blob size (3) does not match"),
        ("SEARCH shoes VSIM @embedding $vec KNN 2 K 0", "Value is outside acceptable bounds"),
        ("SEARCH shoes VSIM @embedding $vec KNN 2 EF_RUNTIME 3", "Missing required argument K"),
        ("SEARCH shoes VSIM @embedding $vec KNN 1 K", "Expected pairs of a name and a value"),
        ("SEARCH shoes VSIM @embedding $vec RANGE 2 RADIUS -1", "Value is outside acceptable bounds"),
        ("SEARCH shoes VSIM @embedding $vec COMBINE MEAN 0", "Unknown COMBINE method `MEAN`"),
        (
            "SEARCH shoes VSIM @embedding $vec COMBINE LINEAR 2 ALPHA 1",
            "Missing required argument ALPHA or BETA",
        ),
        ("SEARCH shoes VSIM @embedding $vec COMBINE RRF 2 ALPHA 1", "Unknown argument `ALPHA` in RRF"),
        ("SEARCH shoes SCORER BEST VSIM @embedding $vec", "No such scorer BEST"),
        ("SEARCH ( VSIM @embedding $vec", "Syntax error"),
        ("SEARCH shoes VSIM @embedding $vec WITHCURSOR COUNT 0", "Value is outside acceptable bounds"),
        ("SEARCH shoes VSIM @embedding $vec EXPLAINSCORE", "Unknown argument `EXPLAINSCORE`"),
        ("SEARCH shoes VSIM @embedding $vec FILTER * POLICY ADHOC", "Unknown argument `POLICY`"),
    ] {
        let reply = hybrid(&mut client, line);
        assert!(matches!(reply, Value::Error(_)), "{line}: {reply:?}");
        assert!(reply.text().contains(expected), "{line}: {reply:?}");
    }
    let reply = client.call("FT.HYBRID none SEARCH a VSIM @b c");
    assert_eq!(reply, Value::Error("none: no such index".into()));
}
