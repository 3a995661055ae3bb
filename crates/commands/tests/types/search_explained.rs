// SPDX-License-Identifier: BSD-3-Clause
//! What a query is understood as, how scores come about, what a query did, and JSON as values.
//!
//! Replies are those of Redis Stack 7.4, except where docs/search.md says otherwise.

use braid_commands::testing::{Tester, check, check_resp3};
use braid_resp::reply::Protocol;

#[test]
fn queries_are_explained() {
    check(&[
        ("FT.CREATE i SCHEMA t TEXT g TAG n NUMERIC", "+OK\r\n"),
        (
            "FT.EXPLAIN i \"hello worlds\"",
            "$125\r\nINTERSECT {\n  UNION {\n    hello\n    +hello(expanded)\n  }\n  UNION {\n    worlds\n    \
             +world(expanded)\n    world(expanded)\n  }\n}\n\r\n",
        ),
        ("FT.EXPLAIN i hello VERBATIM", "$6\r\nhello\n\r\n"),
        ("FT.EXPLAINCLI i he* DIALECT 2", "*2\r\n+PREFIX{he*}\r\n+\r\n"),
        ("FT.EXPLAINCLI i -he*", "*4\r\n+NOT{\r\n+  PREFIX{he*}\r\n+}\r\n+\r\n"),
        ("FT.EXPLAIN i nosuch EXTRA", "-Unknown argument `EXTRA` at position 1 for <main>\r\n"),
        ("FT.EXPLAIN nosuch hello", "-nosuch: no such index\r\n"),
        ("FT.EXPLAIN i", "-ERR wrong number of arguments for 'FT.EXPLAIN' command\r\n"),
    ]);
}

const HELLO: &str = "hello: (0.69 = IDF 0.47 * (F 3.00 * (k1 1.2 + 1)) / (F 3.00 + k1 1.2 * (1 - b 0.5 + \
                     b 0.5 * Doc Len 7 / Average Doc Len 4.67)))";

#[test]
fn scores_are_explained() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i SCHEMA t TEXT u TEXT WEIGHT 2 n NUMERIC", "+OK\r\n"),
        ("HSET d1 t \"hello world foo\" u \"running hello\" n 5", ":3\r\n"),
        ("HSET d2 t \"hello hello big world of text\" n 7", ":2\r\n"),
        ("HSET d3 t \"other words\" n 1", ":2\r\n"),
        ("FT.SEARCH i hello EXPLAINSCORE", "-EXPLAINSCORE must be accompanied with WITHSCORES\r\n"),
        (
            "FT.SEARCH i \"@n:[5 5]\" SCORER DOCSCORE WITHSCORES EXPLAINSCORE NOCONTENT",
            "*3\r\n:1\r\n$2\r\nd1\r\n*2\r\n$1\r\n1\r\n+Document's score is 1.00\r\n",
        ),
        (
            "FT.SEARCH i hello SCORER TFIDF WITHSCORES EXPLAINSCORE NOCONTENT LIMIT 0 1",
            "*3\r\n:2\r\n$2\r\nd1\r\n*2\r\n$1\r\n1\r\n*2\r\n+Final TFIDF : words TFIDF 3.00 * document score 1.00 \
             / norm 3 / slop 1\r\n*1\r\n+(TFIDF 3.00 = Weight 1.00 * TF 3 * IDF 1.00)\r\n",
        ),
        (
            "FT.SEARCH i \"hello world\" SCORER DISMAX WITHSCORES EXPLAINSCORE NOCONTENT LIMIT 0 1",
            "*3\r\n:2\r\n$2\r\nd1\r\n*2\r\n$1\r\n4\r\n*2\r\n+4.00 = Weight 1.00 * children DISMAX 4.00\r\n*2\r\n\
             +DISMAX 3.00 = Weight 1.00 * Frequency 3\r\n+DISMAX 1.00 = Weight 1.00 * Frequency 1\r\n",
        ),
    ]);
    let found = tester.run("FT.SEARCH i hello WITHSCORES EXPLAINSCORE NOCONTENT LIMIT 0 1");
    let whole = "*2\r\n+Final BM25 : words BM25 0.69 * document score 1.00\r\n*1\r\n+";
    assert!(found.ends_with(&format!("{whole}{HELLO}\r\n")), "{found}");
    let found = tester.run("FT.SEARCH i \"hello world\" WITHSCORES EXPLAINSCORE NOCONTENT LIMIT 0 1");
    let several =
        format!("*1\r\n*2\r\n+(Weight 1.00 * children BM25 1.10)\r\n*2\r\n+{HELLO}\r\n+world: (0.41 = ");
    assert!(found.contains(&several), "{found}");
}

/// A reply with all times as `T`; none of them may be negative.
fn timed(tester: &mut Tester, command: &str) -> String {
    let reply = tester.run(command);
    let mut lines: Vec<String> = reply.split("\r\n").map(str::to_owned).collect();
    for at in 0..lines.len() {
        if !matches!(
            &*lines[at],
            "+Total profile time" | "+Parsing time" | "+Pipeline creation time" | "+Time"
        ) {
            continue;
        }
        let is_map = lines[at + 1].starts_with(',');
        let time = if is_map { &lines[at + 1][1..] } else { &lines[at + 2] };
        assert!(time.parse::<f64>().is_ok_and(|time| time >= 0.0), "{reply}");
        lines[at + 1] = "T".to_owned();
        if !is_map {
            lines[at + 2].clear();
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join(" ")
}

const TIMES: &str = "*2 +Total profile time T *2 +Parsing time T *2 +Pipeline creation time T *1 +Warning";

#[test]
fn queries_are_profiled() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i SCHEMA t TEXT n NUMERIC SORTABLE g TAG", "+OK\r\n"),
        ("HSET a t \"hello world\" n 1 g x", ":3\r\n"),
        ("HSET b t hello n 2 g y", ":3\r\n"),
        ("HSET c t help n 3 g xy", ":3\r\n"),
        ("FT.PROFILE i BOGUS QUERY hello", "-No `SEARCH` or `AGGREGATE` provided\r\n"),
        ("FT.PROFILE i SEARCH hello", "-ERR wrong number of arguments for 'FT.PROFILE' command\r\n"),
        ("FT.PROFILE i SEARCH LIMITED BOGUS x", "-The QUERY keyword is expected\r\n"),
        ("FT.PROFILE nosuch SEARCH QUERY hello", "-nosuch: no such index\r\n"),
        ("FT.PROFILE i SEARCH QUERY hello BOGUS", "-Unknown argument `BOGUS` at position 1 for <main>\r\n"),
        ("FT.PROFILE i AGGREGATE QUERY hello WITHCURSOR", "-FT.PROFILE does not support cursor\r\n"),
    ]);
    let text = |term: &str, count: u32, size: u32| {
        format!("*10 +Type +TEXT +Term +{term} +Time T +Counter :{count} +Size :{size}")
    };
    let done = |kind: &str, count: u32| format!("*6 +Type +{kind} +Time T +Counter :{count}");
    let hits = |count: u32| {
        format!(
            "+Result processors profile {} {} {}",
            done("Index", count),
            done("Scorer", count),
            done("Sorter", count)
        )
    };
    assert_eq!(
        timed(&mut tester, "FT.PROFILE i SEARCH QUERY hello NOCONTENT LIMIT 0 2"),
        format!("*2 *3 :2 $1 a $1 b *6 {TIMES} *2 +Iterators profile {} *4 {}", text("hello", 2, 2), hits(2))
            .replace("$1 a $1 b", "$1 b $1 a")
    );
    let world = timed(&mut tester, "FT.PROFILE i SEARCH QUERY \"hello world\" NOCONTENT");
    let both = format!(
        "*2 +Iterators profile *9 +Type +INTERSECT +Time T +Counter :1 +Child iterators {} {} *4 {}",
        text("world", 1, 1),
        text("hello", 1, 2),
        hits(1)
    );
    assert!(world.ends_with(&both), "{world}");
    let limited = timed(&mut tester, "FT.PROFILE i SEARCH LIMITED QUERY hel* NOCONTENT");
    let union = "*10 +Type +UNION +Query type +PREFIX - hel +Time T +Counter :3 +Child iterators \
                 +The number of iterators in the union is 2";
    assert!(limited.contains(union), "{limited}");
    let without = timed(&mut tester, "FT.PROFILE i SEARCH QUERY -hello SORTBY n NOCONTENT");
    let not = format!("*8 +Type +NOT +Time T +Counter :1 +Child iterator {}", text("hello", 2, 2));
    assert!(without.contains(&not), "{without}");
    let among = timed(&mut tester, "FT.PROFILE i SEARCH QUERY hello INKEYS 1 a NOCONTENT");
    assert!(among.contains("+Child iterators *6 +Type +ID-LIST +Time T +Counter :1"), "{among}");
    let steps = timed(
        &mut tester,
        "FT.PROFILE i AGGREGATE QUERY * LOAD 1 @t APPLY upper(@t) AS x FILTER @n>1 GROUPBY 0 REDUCE COUNT 0 AS c",
    );
    let processors = ["Index", "Loader", "Projector - Function upper"].map(|kind| done(kind, 3)).join(" ");
    let rest = format!("{processors} {} {}", done("Filter - Predicate >", 2), done("Grouper", 1));
    assert!(steps.ends_with(&format!("*6 +Result processors profile {rest}")), "{steps}");
    tester.speak(0, Protocol::Resp3);
    let map = timed(&mut tester, "FT.PROFILE i SEARCH QUERY world NOCONTENT");
    assert_eq!(
        map,
        "%6 +attributes *0 +total_results :1 +format +STRING +results *1 %2 +id $1 a +values *0 +warning *0 \
         +profile %6 +Total profile time T +Parsing time T +Pipeline creation time T +Warning +None \
         +Iterators profile *1 %5 +Type +TEXT +Term +world +Time T +Counter :1 +Size :1 \
         +Result processors profile *3 %3 +Type +Index +Time T +Counter :1 %3 +Type +Scorer +Time T +Counter :1 \
         %3 +Type +Sorter +Time T +Counter :1"
    );
}

/// The form of Redis 8: names as on redis.io/commands/ft.profile, below `Shards` and `Coordinator`
/// as redis-py's tests expect them of servers from 7.9 on.
#[test]
fn queries_are_profiled_as_in_redis_8() {
    let mut tester = Tester::with("redis-version 8.4.0");
    tester.check(&[("FT.CREATE i SCHEMA t TEXT", "+OK\r\n"), ("HSET a t hello", ":1\r\n")]);
    let times = "+Total profile time T +Parsing time T +Pipeline creation time T +Warning +None";
    let done = |head: &str, kind: &str| format!("{head} +Type +{kind} +Time T +Results processed :1");
    let all = |head: &str| ["Index", "Scorer", "Sorter"].map(|kind| done(head, kind)).join(" ");
    let found =
        "+Type +TEXT +Term +hello +Time T +Number of reading operations :1 +Estimated number of matches :1";
    assert_eq!(
        timed(&mut tester, "FT.PROFILE i SEARCH QUERY hello NOCONTENT"),
        format!(
            "*2 *2 :1 $1 a *4 +Shards *1 *12 {times} +Iterators profile *10 {found} \
             +Result processors profile *3 {} +Coordinator *0",
            all("*6")
        )
    );
    let rows = timed(&mut tester, "FT.PROFILE i AGGREGATE QUERY * LOAD 1 t");
    assert!(rows.contains("*4 +Shards *1 *12") && rows.ends_with("+Coordinator *0"), "{rows}");
    tester.speak(0, Protocol::Resp3);
    assert_eq!(
        timed(&mut tester, "FT.PROFILE i SEARCH QUERY hello NOCONTENT"),
        format!(
            "%2 +Results %5 +attributes *0 +total_results :1 +format +STRING +results *1 %2 +id $1 a +values *0 \
             +warning *0 +Profile %2 +Shards *1 %6 {times} +Iterators profile *1 %5 {found} \
             +Result processors profile *3 {} +Coordinator %0",
            all("%3")
        )
    );
    let rows = timed(&mut tester, "FT.PROFILE i AGGREGATE QUERY * LOAD 1 t");
    assert!(rows.starts_with("%2 +Results %5") && rows.ends_with("+Coordinator %0"), "{rows}");
}

#[test]
fn json_is_expanded() {
    check(&[
        ("FT.CREATE j ON JSON SCHEMA $.t AS t TEXT", "+OK\r\n"),
        ("FT.SEARCH j hello FORMAT EXPAND DIALECT 3", "-EXPAND format is only supported with RESP3\r\n"),
    ]);
    let head = "%5\r\n+attributes\r\n*0\r\n+total_results\r\n:1\r\n+format\r\n+EXPAND\r\n+results\r\n*1\r\n";
    let row = |fields: &str| {
        format!(
            "{head}%3\r\n+id\r\n$2\r\nd1\r\n+extra_attributes\r\n{fields}+values\r\n*0\r\n+warning\r\n*0\r\n"
        )
    };
    let document = "*1\r\n%4\r\n$1\r\nt\r\n$5\r\nhello\r\n$1\r\nn\r\n:1\r\n$1\r\na\r\n*2\r\n$1\r\nx\r\n,2.5\r\n\
                    $1\r\no\r\n%2\r\n$1\r\nk\r\n_\r\n$1\r\nb\r\n:1\r\n";
    check_resp3(&[
        ("FT.CREATE j ON JSON SCHEMA $.t AS t TEXT $.n AS n NUMERIC SORTABLE", "+OK\r\n"),
        (
            "JSON.SET d1 $ '{\"t\":\"hello\",\"n\":1,\"a\":[\"x\",2.5],\"o\":{\"k\":null,\"b\":true}}'",
            "+OK\r\n",
        ),
        ("FT.SEARCH j hello FORMAT EXPAND", &row(&format!("%1\r\n$1\r\n$\r\n{document}"))),
        (
            "FT.SEARCH j hello RETURN 2 t n FORMAT EXPAND DIALECT 3",
            &row("%2\r\n$1\r\nt\r\n*1\r\n$5\r\nhello\r\n$1\r\nn\r\n:1\r\n"),
        ),
        ("FT.SEARCH j hello FORMAT EXPAND DIALECT 2", "-EXPAND format requires dialect 3 or greater\r\n"),
        ("FT.SEARCH j hello FORMAT BOGUS DIALECT 3", "-FORMAT BOGUS is not supported\r\n"),
        ("FT.CREATE h SCHEMA t TEXT", "+OK\r\n"),
        ("FT.SEARCH h hello FORMAT EXPAND DIALECT 3", "-EXPAND format is only supported with JSON\r\n"),
    ]);
}

#[test]
fn info_counts_indexes_and_queries() {
    let mut tester = Tester::new();
    let figure = |tester: &mut Tester, name: &str| -> f64 {
        let text = tester.run("INFO search");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    };
    assert_eq!(figure(&mut tester, "search_number_of_indexes"), 0.0);
    tester.check(&[
        ("FT.CREATE i SCHEMA t TEXT n NUMERIC", "+OK\r\n"),
        ("HSET a t hello n 1", ":2\r\n"),
        ("HSET b t hello n bad", ":2\r\n"),
    ]);
    tester.run("FT.SEARCH i hello");
    tester.run("FT.AGGREGATE i *");
    tester.run("FT.SEARCH nosuch hello");
    for (name, value) in [
        ("search_number_of_indexes", 1.0),
        ("search_number_of_indexes_indexing", 0.0),
        ("search_percent_indexed", 100.0),
        ("search_documents", 1.0),
        ("search_errors_indexing_failures", 1.0),
        ("search_total_queries_processed", 2.0),
        ("search_total_queries_late", 0.0),
        ("search_global_total", 0.0),
    ] {
        assert_eq!(figure(&mut tester, name), value, "{name}");
    }
    assert!(figure(&mut tester, "search_used_memory_indexes") > 0.0);
    assert!(!tester.run("INFO").contains("search_documents"));
    assert!(tester.run("INFO everything").contains("search_documents"));
}
