// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the vector set commands: the replies of redis-server 8.0.6, measured.

use braid_commands::testing::Tester;
use braid_resp::reply::Protocol;

fn bulks(texts: &[&str]) -> String {
    let each = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len()));
    format!("*{}\r\n{}", texts.len(), each.collect::<String>())
}

fn error(text: &str) -> String {
    format!("-ERR {text}\r\n")
}

#[test]
fn elements_are_added_and_found() {
    let mut tester = Tester::new();
    tester.check(&[
        ("VADD n VALUES 2 1 0 a NOQUANT", ":1\r\n"),
        ("VADD n VALUES 2 0 1 b NOQUANT", ":1\r\n"),
        ("VADD n VALUES 2 3 4 d NOQUANT CAS", ":1\r\n"),
        ("VADD n VALUES 2 3 4 d NOQUANT", ":0\r\n"),
        ("VCARD n", ":3\r\n"),
        ("VDIM n", ":2\r\n"),
        ("TYPE n", "+vectorset\r\n"),
        ("OBJECT ENCODING n", "$3\r\nraw\r\n"),
        ("VISMEMBER n a", ":1\r\n"),
        ("VISMEMBER n z", ":0\r\n"),
        ("VSIM n ELE a WITHSCORES", &bulks(&["a", "1", "d", "0.800000011920929", "b", "0.5"])),
        ("VSIM n ELE a TRUTH NOTHREAD COUNT 2", &bulks(&["a", "d"])),
        ("VSIM n ELE a EPSILON 0.1 WITHSCORES", &bulks(&["a", "1"])),
        ("VSIM n ELE a EPSILON 0.2", &bulks(&["a", "d"])),
        ("VSIM n VALUES 2 0 7", &bulks(&["b", "d", "a"])),
        ("VSIM nokey ELE a BOGUS", "*0\r\n"),
        ("VEMB n d", &bulks(&["3", "4"])),
        ("VREM n d", ":1\r\n"),
        ("VREM n d", ":0\r\n"),
        ("VLINKS n a WITHSCORES", "*1\r\n*2\r\n$1\r\nb\r\n$3\r\n0.5\r\n"),
        ("VREM n a", ":1\r\n"),
        ("VREM n b", ":1\r\n"),
        ("EXISTS n", ":0\r\n"),
    ]);
}

#[test]
fn quantised_vectors_and_projections() {
    let mut tester = Tester::new();
    tester.check(&[
        ("VADD v VALUES 2 3 4 d", ":1\r\n"),
        ("VEMB v d", &bulks(&["2.992125988006592", "4"])),
        ("VEMB v d RAW", "*4\r\n+int8\r\n$2\r\n_\u{7f}\r\n$1\r\n5\r\n$17\r\n0.800000011920929\r\n"),
        ("VADD b VALUES 4 1 -2 3 4 x BIN", ":1\r\n"),
        ("VEMB b x", &bulks(&["1", "-1", "1", "1"])),
        ("VSIM b VALUES 4 1 1 1 1 WITHSCORES", &bulks(&["x", "0.75"])),
        ("VADD p REDUCE 2 VALUES 4 1 0 0 0 a", ":1\r\n"),
        ("VADD p VALUES 4 0 1 0 0 b", &error("Vector dimension mismatch - got 4 but set has 2")),
        ("VADD p REDUCE 2 VALUES 4 0 1 0 0 c", ":1\r\n"),
        ("VEMB p a", &bulks(&["0.4999999701976776", "0.4999999701976776"])),
        ("VSIM p VALUES 4 1 0 0 0", &bulks(&["a", "c"])),
        (
            "VSIM p VALUES 3 1 0 0",
            &error("Input dimension mismatch for projection - got 3 but projection expects 4"),
        ),
        (
            "VADD v REDUCE 1 VALUES 2 1 0 q",
            &error("cannot add projection to existing set without projection"),
        ),
        ("VADD f VALUES 3 3 4 0 a NOQUANT M 5", ":1\r\n"),
        ("VADD f VALUES 3 1 1 1 b NOQUANT M 9", &error("asked M value mismatch with existing vector set")),
        ("VADD f VALUES 3 1 1 1 b BIN M 9", &error("asked quantization mismatch with existing vector set")),
    ]);
    let info = tester.run("VINFO p");
    for line in ["+quant-type\r\n+int8", "+projection-input-dim\r\n:4", "+size\r\n:2", "+hnsw-m\r\n:16"] {
        assert!(info.starts_with("*18\r\n") && info.contains(line), "{info}");
    }
}

#[test]
fn attributes_and_filters() {
    let mut tester = Tester::new();
    tester.check(&[
        (r#"VADD v VALUES 2 1 0 a SETATTR '{"year":1980}'"#, ":1\r\n"),
        (r#"VADD v VALUES 2 1 1 b SETATTR '{"year":1990}'"#, ":1\r\n"),
        ("VADD v VALUES 2 0 1 c", ":1\r\n"),
        ("VSIM v ELE a FILTER '.year > 1985'", &bulks(&["b"])),
        ("VSIM v ELE a FILTER '.year in [1980]' FILTER-EF 5", &bulks(&["a"])),
        ("VSIM v ELE a FILTER '.year = 2'", &error("syntax error in FILTER expression near:  2")),
        ("VGETATTR v a", "$13\r\n{\"year\":1980}\r\n"),
        ("VGETATTR v c", "$-1\r\n"),
        ("VSETATTR v c notjson", ":1\r\n"),
        ("VSETATTR v nope x", ":0\r\n"),
        ("VSIM v ELE a FILTER 1 COUNT 5", &bulks(&["a", "b", "c"])),
        ("VSIM v ELE c WITHATTRIBS COUNT 1", &bulks(&["c", "notjson"])),
        ("VSETATTR v c ''", ":1\r\n"),
        ("VGETATTR v c", "$-1\r\n"),
        ("VADD v VALUES 2 0 1 a", ":0\r\n"),
        ("VGETATTR v a", "$13\r\n{\"year\":1980}\r\n"),
    ]);
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        (
            "VSIM v ELE c WITHATTRIBS WITHSCORES COUNT 1",
            "%1\r\n$1\r\na\r\n*2\r\n,1\r\n$13\r\n{\"year\":1980}\r\n",
        ),
        ("VISMEMBER v a", "#t\r\n"),
        ("VREM v nope", "#f\r\n"),
        ("VADD v VALUES 2 0 1 a", "#f\r\n"),
        ("VEMB v a", "*2\r\n,0\r\n,1\r\n"),
        ("VINFO nokey", "_\r\n"),
    ]);
}

#[test]
fn errors_are_those_of_redis() {
    let mut tester = Tester::new();
    tester.check(&[("VADD v VALUES 2 1 0 a", ":1\r\n"), ("SET s x", "+OK\r\n")]);
    for (request, text) in [
        (
            "VADD v VALUES 2 0 1 b SETATTR '{\"x\":1}' M 8 EF 100 CAS Q8",
            "asked M value mismatch with existing vector set",
        ),
        ("VADD v VALUES 2 0 1 b FOO", "invalid option after element"),
        ("VADD v VALUES 2 0 1 b M", "invalid option after element"),
        ("VADD v VALUES 2 0 1", "wrong number of arguments for 'VADD' command"),
        ("VADD k FP32 abcd", "wrong number of arguments for 'VADD' command"),
        ("VADD w VALUES 2 0 1 b M 1", "invalid M"),
        ("VADD w VALUES 2 0 1 b M 4097", "invalid M"),
        ("VADD w VALUES 2 0 1 b EF 0", "invalid EF"),
        ("VADD w VALUES 2 0 1 b EF 1000001", "invalid EF"),
        ("VADD v VALUES 3 1 0 0 z", "Vector dimension mismatch - got 3 but set has 2"),
        ("VADD v VALUES 2 1 x z", "invalid vector specification"),
        ("VADD v VALUES 2 1 nan z", "invalid vector specification"),
        ("VADD v FP32 abc z", "invalid vector specification"),
        ("VADD v VALUES 0 z", "invalid vector specification"),
        ("VADD v VALUES -1 z", "invalid vector specification"),
        ("VADD k FOO bar baz", "invalid vector specification"),
        ("VADD k REDUCE x VALUES 2 1 0 a", "invalid vector specification"),
        ("VADD k REDUCE 100000000 VALUES 2 1 0 a", "invalid vector specification"),
        ("VSIM v ELE nope", "element not found in set"),
        ("VSIM v VALUES 3 1 0 0", "Vector dimension mismatch - got 3 but set has 2"),
        ("VSIM v ELE", "wrong number of arguments for 'VSIM' command"),
        ("VSIM v VALUES 2", "invalid vector specification"),
        ("VSIM v ELE a COUNT 0", "invalid COUNT"),
        ("VSIM v ELE a COUNT abc", "invalid COUNT"),
        ("VSIM v ELE a EF 0", "invalid EF"),
        ("VSIM v ELE a EPSILON 0", "invalid EPSILON"),
        ("VSIM v ELE a EPSILON nan", "invalid EPSILON"),
        ("VSIM v ELE a FILTER-EF -1", "invalid FILTER-EF"),
        ("VSIM v ELE a BOGUS", "syntax error in VSIM command"),
        ("VSIM v ELE a COUNT", "syntax error in VSIM command"),
        ("VDIM nokey", "key does not exist"),
        ("VCARD", "wrong number of arguments for 'vcard' command"),
        ("VCARD a b", "wrong number of arguments for 'VCARD' command"),
        ("VEMB nokey a x", "invalid option"),
        ("VLINKS v a FOO", "wrong number of arguments for 'VLINKS' command"),
        ("VRANDMEMBER nokey x", "COUNT value is not an integer"),
    ] {
        assert_eq!(tester.run(request), error(text), "{request}");
    }
    for request in
        ["VADD s VALUES 2 1 0 a", "VSIM s ELE a BOGUS", "VCARD s", "VREM s a", "VSETATTR s a b", "VINFO s"]
    {
        let reply = tester.run(request);
        assert_eq!(
            reply, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "{request}"
        );
    }
}

#[test]
fn random_elements_and_ranges() {
    let mut tester = Tester::new();
    for (at, name) in ["d", "b", "a", "c"].iter().enumerate() {
        assert_eq!(tester.run(&format!("VADD v VALUES 2 1 {at} {name}")), ":1\r\n");
    }
    tester.check(&[
        ("VRANDMEMBER nokey", "$-1\r\n"),
        ("VRANDMEMBER nokey 3", "*0\r\n"),
        ("VRANDMEMBER v 0", "*0\r\n"),
        ("VRANGE v - +", &bulks(&["a", "b", "c", "d"])),
        ("VRANGE v (a [c", &bulks(&["b", "c"])),
        ("VRANGE v [b + 2", &bulks(&["b", "c"])),
        ("VRANGE v - + -1", &bulks(&["a", "b", "c", "d"])),
        ("VRANGE v + -", "*0\r\n"),
        ("VRANGE v a b", &error("min or max not valid string range item")),
        ("VRANGE nokey - +", "*0\r\n"),
    ]);
    assert!(tester.run("VRANDMEMBER v 100").starts_with("*4\r\n"));
    assert!(tester.run("VRANDMEMBER v -9").starts_with("*9\r\n"));
    assert!(tester.run("VRANDMEMBER v").starts_with("$1\r\n"));
}

#[test]
fn sets_are_copied_renamed_and_measured() {
    let mut tester = Tester::new();
    for at in 0..300 {
        assert_eq!(tester.run(&format!("VADD v VALUES 3 {at} {} 7 e{at}", at * at % 101)), ":1\r\n");
    }
    tester.check(&[("COPY v w", ":1\r\n"), ("RENAME w x", "+OK\r\n"), ("VCARD x", ":300\r\n")]);
    let digests = ["v", "x"].map(|key| tester.run(&format!("DEBUG DIGEST-VALUE {key}")));
    assert_eq!(digests[0], digests[1]);
    let memory = tester.run("MEMORY USAGE v");
    let bytes: usize = memory.trim_start_matches(':').trim_end().parse().expect("a number");
    assert!((300 * 170..300 * 260).contains(&bytes), "{bytes}");
    tester.check(&[("VREM x e7", ":1\r\n"), ("VISMEMBER v e7", ":1\r\n"), ("DEL v x", ":2\r\n")]);
}

/// The page's examples: a prompt with the request, then the reply as redis-cli shows it.
#[test]
fn the_documented_examples_reply_what_the_page_says() {
    let page = include_str!("../../../../docs/vector-sets.md");
    let mut tester = Tester::new();
    let mut count = 0;
    for block in page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap_or("")) {
        for example in block.split("> ").filter(|example| !example.trim().is_empty()) {
            let (request, want) = example.split_once('\n').expect("a reply");
            let reply = tester.run(request);
            let show = |line: &str| match line.strip_prefix(':') {
                Some(number) => format!("(integer) {number}"),
                None => line.replace("$-1", "(nil)"),
            };
            let lines = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with('*'));
            let shown: Vec<String> = lines.map(show).filter(|line| !line.starts_with('$')).collect();
            let want: Vec<&str> = want.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert_eq!(shown, want, "{request}");
            count += 1;
        }
    }
    assert!(count >= 8, "{count} examples were found");
}
