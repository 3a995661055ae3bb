// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the JSON commands: Redis Stack's replies, measured.

use braid_commands::testing::Tester;
use braid_resp::reply::Protocol;

const OK: &str = "+OK\r\n";
const NIL: &str = "$-1\r\n";

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[track_caller]
fn get(tester: &mut Tester, request: &str, want: &str) {
    assert_eq!(tester.run(request), bulk(want), "{request}");
}

#[test]
fn documents_are_set_and_read() {
    let mut tester = Tester::new();
    tester.check(&[
        (r#"JSON.SET d $ '{"a":{}}'"#, OK),
        ("JSON.SET d $.x.y 1", NIL),
        ("JSON.SET d $.a.b 1", OK),
        ("JSON.SET d $.a.b 2 NX", NIL),
        ("JSON.SET d $.a.c 2 XX", NIL),
        ("JSON.SET new $.a 1", "-ERR new objects must be created at the root\r\n"),
        ("JSON.SET new .a 1 XX", NIL),
        ("JSON.SET new $ 1 NX XX", "-ERR syntax error\r\n"),
        ("JSON.SET new $ {bad", "-key must be a string at line 1 column 2\r\n"),
        ("EXISTS new", ":0\r\n"),
        ("TYPE d", "+ReJSON-RL\r\n"),
        ("OBJECT ENCODING d", "$3\r\nraw\r\n"),
        ("SCAN 0 TYPE rejson-rl COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nd\r\n"),
        ("JSON.GET none $", NIL),
        ("SET s x", OK),
        ("JSON.GET s $", "-Existing key has wrong Redis type\r\n"),
        ("JSON.SET s $ 1", "-Existing key has wrong Redis type\r\n"),
        ("GET d", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("COPY d d2", ":1\r\n"),
    ]);
    get(&mut tester, "JSON.GET d2", r#"{"a":{"b":1}}"#);
    get(&mut tester, "JSON.GET d $.a.b", "[1]");
    get(&mut tester, "JSON.GET d .a", r#"{"b":1}"#);
    get(&mut tester, "JSON.GET d $.a .zz", r#"{"$.a":[{"b":1}],".zz":[]}"#);
    get(&mut tester, "JSON.GET d INDENT _ NEWLINE | SPACE . $.a", r#"[|_{|__"b":.1|_}|]"#);
    tester.check(&[
        ("JSON.GET d .zz", "-ERR Path '$.zz' does not exist\r\n"),
        ("JSON.GET d .a .zz", "-ERR Path '.zz' does not exist\r\n"),
        ("JSON.MGET d none s $.a.b", "*3\r\n$3\r\n[1]\r\n$-1\r\n$-1\r\n"),
    ]);
}

#[test]
fn arrays_of_numbers_become_ones_of_a_type() {
    // Replies of Redis 8.8, as its documentation and the tests of fakeredis have them.
    let mut tester = Tester::new();
    for (options, value, want) in [
        ("FPHA FP16", "[[1,2,3,4e3],[5,6.0,7,8]]", "[[1.0,2.0,3.0,4000.0],[5.0,6.0,7.0,8.0]]"),
        ("FPHA fp16", "[1,2,3]", "[1.0,2.0,3.0]"),
        ("FPHA FP16", "[0.123456789]", "[0.1235]"),
        ("fpha BF16", "[0.123456789]", "[0.1235]"),
        ("FPHA FP32", "[0.123456789]", "[0.12345679]"),
        ("FPHA FP64", "[0.123456789,1]", "[0.123456789,1.0]"),
        ("FPHA FP16", "[0.1,0.2,0.3]", "[0.1,0.2,0.3]"),
        ("FPHA FP16", r#"[1.5,"a",70000.0]"#, r#"[1.5,"a",70000.0]"#),
        ("FPHA FP16", r#"{"n":1,"v":[1,18446744073709551615]}"#, "error"),
        ("FPHA FP32", r#"{"n":1,"v":[1,18446744073709551615]}"#, r#"{"n":1,"v":[1.0,1.8446744e19]}"#),
        ("XX FPHA FP16", "[]", "[]"),
        ("FPHA BF16 XX", "[[]]", "[[]]"),
    ] {
        let reply = tester.run(&format!("JSON.SET d $ '{value}' {options}"));
        if want == "error" {
            assert_eq!(reply, "-value out of range for F16 at line 1 column 35\r\n");
            continue;
        }
        assert_eq!(reply, OK, "{value}");
        get(&mut tester, "JSON.GET d", want);
    }
    tester.check(&[
        ("DEL d", ":1\r\n"),
        ("JSON.SET d $ [1.5,70000.0] FPHA FP16", "-value out of range for F16 at line 1 column 13\r\n"),
        ("JSON.SET d $ [-70000.0] FPHA FP16", "-value out of range for F16 at line 1 column 10\r\n"),
        ("JSON.SET d $ [1.5,1e39] FPHA BF16", "-value out of range for BF16 at line 1 column 10\r\n"),
        ("JSON.SET d $ [1.5,1e39] FPHA FP32", "-value out of range for F32 at line 1 column 10\r\n"),
        ("JSON.SET d $ [1.5] FPHA FP8", "-ERR invalid FPHA type\r\n"),
        ("JSON.SET d $ [1.5] FPHA", "-ERR wrong number of arguments for 'json.set' command\r\n"),
        ("EXISTS d", ":0\r\n"),
        ("JSON.SET d $ [1.5] FPHA FP32 NX", OK),
        ("JSON.SET d $ [2.5] NX FPHA FP32", NIL),
        ("JSON.SET d $ '{\"a\":[1]}' FPHA FP16", OK),
        ("JSON.SET d $.b [0.3333] FPHA FP16", OK),
        ("JSON.ARRAPPEND d $.b 100000 0.12345 2", "*1\r\n:4\r\n"),
    ]);
    get(&mut tester, "JSON.GET d", r#"{"a":[1.0],"b":[0.3333,100000,0.12345,2]}"#);
}

#[test]
fn numbers_keep_their_kind() {
    let mut tester = Tester::new();
    tester.check(&[(r#"JSON.SET d $ '{"a":1,"b":1.5,"m":9223372036854775807,"s":"x"}'"#, OK)]);
    for (request, want) in [
        ("JSON.NUMINCRBY d $.a 1", "[2]"),
        ("JSON.NUMINCRBY d .a 1.0", "3.0"),
        ("JSON.NUMINCRBY d $.b 0.5", "[2.0]"),
        ("JSON.NUMINCRBY d $.m 1", "[-9223372036854775808]"),
        ("JSON.NUMMULTBY d $.* 2", "[6.0,4.0,0,null]"),
        ("JSON.NUMPOWBY d $.a 2", "[36.0]"),
    ] {
        get(&mut tester, request, want);
    }
    tester.check(&[
        ("JSON.NUMINCRBY d .s 1", "-ERR Path '$.s' does not exist or does not contains a number\r\n"),
        ("JSON.NUMINCRBY d $.a null", "-bad input number\r\n"),
        (
            "JSON.NUMINCRBY none $.a 1",
            "-ERR could not perform this operation on a key that doesn't exist\r\n",
        ),
        ("JSON.SET d $.a 1e308", OK),
        ("JSON.NUMMULTBY d $.a 10", "-ERR result is not a number\r\n"),
    ]);
    get(&mut tester, "JSON.GET d $.a", "[1e308]");
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        ("JSON.SET d $.a 1", OK),
        ("JSON.NUMINCRBY d $.* 1", "*4\r\n:2\r\n,5\r\n:1\r\n_\r\n"),
        ("JSON.TYPE d $.a", "*1\r\n*1\r\n$7\r\ninteger\r\n"),
        ("JSON.GET d $.a FORMAT EXPAND", "*1\r\n*1\r\n:2\r\n"),
    ]);
}

#[test]
fn arrays_objects_strings_and_booleans() {
    let mut tester = Tester::new();
    tester.check(&[
        (r#"JSON.SET d $ '{"l":[1,"x",{"k":1.0}],"s":"ab","b":true,"o":{"p":1,"q":2}}'"#, OK),
        ("JSON.ARRLEN d $.l", "*1\r\n:3\r\n"),
        ("JSON.ARRPOP d $.l 100", "*1\r\n$9\r\n{\"k\":1.0}\r\n"),
        ("JSON.ARRAPPEND d $.l 5 6", "*1\r\n:4\r\n"),
        ("JSON.ARRINSERT d .l -1 7", ":5\r\n"),
        ("JSON.ARRINSERT d .l 9 7", "-ERR index out of bounds\r\n"),
        ("JSON.ARRINDEX d $.l 7", "*1\r\n:3\r\n"),
        ("JSON.ARRINDEX d $.l 7.0", "*1\r\n:-1\r\n"),
        ("JSON.ARRINDEX d $.l 6 100", "*1\r\n:4\r\n"),
        ("JSON.ARRINDEX d $.l '6 7'", "-ERR trailing characters at line 1 column 3\r\n"),
        ("JSON.ARRTRIM d .l 1 2", ":2\r\n"),
        (r#"JSON.STRAPPEND d .s '"cd"'"#, ":4\r\n"),
        ("JSON.STRLEN d $.s", "*1\r\n:4\r\n"),
        ("JSON.TOGGLE d .b", "$5\r\nfalse\r\n"),
        ("JSON.TOGGLE d $.b", "*1\r\n:1\r\n"),
        ("JSON.OBJKEYS d .o", "*2\r\n$1\r\np\r\n$1\r\nq\r\n"),
        ("JSON.OBJLEN d $.*", "*4\r\n$-1\r\n$-1\r\n$-1\r\n:2\r\n"),
        ("JSON.CLEAR d $.o", ":1\r\n"),
        ("JSON.CLEAR d $.o", ":0\r\n"),
        ("JSON.DEBUG HELP", "*2\r\n$42\r\nMEMORY <key> [path] - reports memory usage\r\n$34\r\nHELP                - this message\r\n"),
        ("JSON.RESP d .l", "*3\r\n+[\r\n$1\r\nx\r\n:5\r\n"),
    ]);
    get(&mut tester, "JSON.GET d", r#"{"l":["x",5],"s":"abcd","b":true,"o":{}}"#);
    tester.check(&[
        ("JSON.DEL d $..l", ":1\r\n"),
        ("JSON.FORGET d .zz", ":0\r\n"),
        ("JSON.MERGE d $ '{\"s\":null,\"n\":{\"z\":1}}'", OK),
    ]);
    get(&mut tester, "JSON.GET d", r#"{"o":{},"b":true,"n":{"z":1}}"#);
    tester.check(&[("JSON.DEL d", ":1\r\n"), ("EXISTS d", ":0\r\n")]);
}

#[test]
fn several_documents_are_set_at_once_or_none() {
    let mut tester = Tester::new();
    tester.check(&[
        ("JSON.MSET a $ 1 b $ 2", OK),
        ("JSON.MSET a $ 3 c $.x 4", "-ERR new objects must be created at the root\r\n"),
        ("JSON.MSET a $ 3 b $ bad", "-expected value at line 1 column 1\r\n"),
        ("JSON.MSET a $ 3 b", "-ERR wrong number of arguments for 'json.mset' command\r\n"),
        ("JSON.MGET a b .", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
    ]);
}

#[test]
fn dumps_have_the_form_of_redis_stack() {
    let mut tester = Tester::new();
    tester.check(&[(r#"JSON.SET d $ '{"a":1}'"#, OK)]);
    // The payload of a Redis Stack 7.4, and its document under another key.
    let dumped = tester.run_args(0, &[b"DUMP", b"d"]);
    let body = b"\x07\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x05\x07{\"a\":1}\x00";
    assert!(dumped.windows(body.len()).any(|window| window == body), "{dumped:?}");
    let stack: &[u8] = b"\x07\x81E\xe2R8\xdf\x91,\x03\x05\x07{\"a\":1}\x00\x0c\x00\xd1\xc1!s\xbe\xfb\xa5\xd5";
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"e", b"0", stack]), b"+OK\r\n");
    get(&mut tester, "JSON.GET e", r#"{"a":1}"#);
}

#[test]
fn hostile_requests_are_refused() {
    let mut tester = Tester::new();
    let deep = "[".repeat(100_000);
    tester.check(&[
        (&format!("JSON.SET d $ {deep}"), "-recursion limit exceeded at line 1 column 128\r\n"),
        ("JSON.SET d $ [[1,2],[3]]", OK),
        ("JSON.ARRPOP d $[9223372036854775807]", "*0\r\n"),
        ("JSON.ARRTRIM d $ -9223372036854775808 9223372036854775807", "*1\r\n:2\r\n"),
        ("JSON.ARRTRIM d $ 9223372036854775807 -9223372036854775808", "*1\r\n:0\r\n"),
        ("JSON.ARRINSERT d $ -9223372036854775808 1", "-ERR index out of bounds\r\n"),
        ("JSON.GET d $[9999999999]", "$2\r\n[]\r\n"),
    ]);
    let path = format!("$[?({}1)]", "(".repeat(50_000));
    assert!(tester.run(&format!("JSON.GET d {path}")).starts_with("-Error occurred on position"));
    let path = format!("$.a{}", "[?(@==1)]".repeat(100_000));
    assert!(tester.run(&format!("JSON.GET d {path}")).starts_with("-Error occurred on position"));
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    assert_eq!(tester.run(&format!("JSON.SET deep $ {deep}")), "+OK\r\n");
    for command in
        ["JSON.GET", "JSON.TYPE", "JSON.ARRLEN", "JSON.CLEAR", "JSON.DEL", "JSON.RESP", "JSON.MGET"]
    {
        let reply = tester.run(&format!("{command} deep $..*..*..*..*..*"));
        assert_eq!(reply, "-ERR the path visits too many values\r\n", "{command}");
    }
    let members = tester.run("ACL CAT json");
    assert!(members.starts_with("*27\r\n"), "{members}");
}

/// The page's table of paths, for its own document.
#[test]
fn the_documented_paths_match_what_the_page_says() {
    let page = include_str!("../../../../docs/json.md");
    let document = page.split("```json\n").nth(1).and_then(|rest| rest.split('\n').next());
    let mut tester = Tester::new();
    let document = document.expect("the page has a document").as_bytes();
    assert_eq!(tester.run_args(0, &[b"JSON.SET", b"d", b"$", document]), b"+OK\r\n");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `$")?.split("` | `").collect();
        Some((format!("${}", cells[0]), cells.get(1)?.strip_suffix("` |")?))
    });
    let mut count = 0;
    for (path, want) in rows {
        let reply = tester.run_args(0, &[b"JSON.GET", b"d", path.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&reply), bulk(want), "{path}");
        count += 1;
    }
    assert!(count >= 15, "{count} rows were found");
}

/// Redis Stack looks for the key first, then at numbers and values, and at the path last; at what a
/// change needs only if there is something to change.
#[test]
fn arguments_are_looked_at_in_the_order_of_redis_stack() {
    const WRONG_TYPE: &str = "-Existing key has wrong Redis type\r\n";
    const NO_KEY: &str = "-ERR could not perform this operation on a key that doesn't exist\r\n";
    const NO_VALUE: &str = "-expected value at line 1 column 1\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("SET text x", OK),
        (r#"JSON.SET d $ '{"a":1,"s":"x","l":[1]}'"#, OK),
        ("JSON.SET text $.a[ x", WRONG_TYPE),
        ("JSON.SET d $.a[ x", NO_VALUE),
        ("JSON.SET none $.a[ 1", "-ERR new objects must be created at the root\r\n"),
        ("JSON.MSET none $.a[ x", "-ERR new objects must be created at the root\r\n"),
        ("JSON.MSET d $..zz x", "-Err wrong static path\r\n"),
        ("JSON.NUMINCRBY none $.a[ x", NO_KEY),
        ("JSON.NUMINCRBY d $.zz x", "$2\r\n[]\r\n"),
        ("JSON.NUMINCRBY d $.s null", "$6\r\n[null]\r\n"),
        ("JSON.NUMINCRBY d $.a '1 2'", "-ERR trailing characters at line 1 column 3\r\n"),
        ("JSON.STRAPPEND d $.a x", "*1\r\n$-1\r\n"),
        ("JSON.STRAPPEND d $.s x", "-ERR expected value at line 1 column 1\r\n"),
        ("JSON.ARRAPPEND none $.a[ x", NO_VALUE),
        ("JSON.ARRAPPEND text $.a[ 1", WRONG_TYPE),
        ("JSON.ARRTRIM none $.a[ x 1", "-Couldn't parse as integer\r\n"),
        ("JSON.ARRPOP none $.a[ x", NO_KEY),
        ("JSON.DEL none $.a[", ":0\r\n"),
        ("JSON.TYPE text $.a[", WRONG_TYPE),
        ("JSON.TYPE d .a[", NIL),
        ("JSON.OBJLEN d .a[", NIL),
        ("JSON.OBJKEYS d .a[", NIL),
        ("JSON.GET none $.a[", NIL),
        ("JSON.GET d FORMAT STRING", "-ERR FORMAT argument is not supported on RESP2\r\n"),
        ("JSON.GET d $.a FORMAT EXPAND", "$3\r\n[1]\r\n"),
        ("JSON.GET d $.a FORMAT expand", "-ERR wrong reply format\r\n"),
        ("JSON.GET d $.a FORMAT", "-ERR wrong number of arguments for 'json.get' command\r\n"),
    ]);
    get(&mut tester, "JSON.GET d $.a[ $.a", r#"{"$.a":[1]}"#);
}
