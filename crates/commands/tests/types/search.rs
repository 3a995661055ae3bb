// SPDX-License-Identifier: BSD-3-Clause
//! Search: definitions, queries, and that every way to change a key changes what is found.
//!
//! Replies are RediSearch's, as measured, except where docs/search.md says otherwise.

use braid_commands::testing::{Tester, check, check_resp3};

#[test]
fn definitions_are_checked() {
    check(&[
        ("FT.CREATE i PREFIX 1 d: ON HASH LANGUAGE english SCORE 0.5 SCHEMA t TEXT", "+OK\r\n"),
        ("FT.CREATE i ON HASH SCHEMA t TEXT", "-Index already exists\r\n"),
        ("FT._CREATEIFNX i ON HASH SCHEMA t TEXT", "+OK\r\n"),
        ("FT.CREATE j", "-ERR wrong number of arguments for 'FT.CREATE' command\r\n"),
        ("FT.CREATE j NOHL SCHEMA t", "-Field `t` does not have a type\r\n"),
        ("FT.CREATE j NOOFFSETS NOHL SCHEMA", "-Fields arguments are missing\r\n"),
        ("FT.CREATE j SCHEMA t TEXT t TAG", "-Duplicate field in schema - t\r\n"),
        ("FT.CREATE j SCHEMA t STRING", "-Invalid field type for field `t`\r\n"),
        ("FT.CREATE j ON LIST SCHEMA t TEXT", "-Invalid rule type: LIST\r\n"),
        ("FT.CREATE j BOGUS SCHEMA t TEXT", "-Unknown argument `BOGUS`\r\n"),
        ("FT.CREATE j PREFIX 2 a: SCHEMA t TEXT", "-Unknown argument `t`\r\n"),
        ("FT.CREATE j LANGUAGE klingon SCHEMA t TEXT", "-Invalid language\r\n"),
        ("FT.CREATE j SCORE 2 SCHEMA t TEXT", "-Invalid score\r\n"),
        ("FT.CREATE k FILTER @n> SCHEMA n NUMERIC", "-Syntax error at offset 3 near 'n'\r\n"),
        ("FT.CREATE j SCHEMA t TEXT SORTABLE WEIGHT 2", "-Invalid field type for field `WEIGHT`\r\n"),
        ("FT.CREATE k SCHEMA g TAG SEPARATOR ;;", "-Tag separator must be a single character. Got `;;`\r\n"),
        (
            "FT.CREATE a SCHEMA v VECTOR FLAT 4 TYPE FLOAT32 DISTANCE_METRIC L2",
            "-Missing mandatory parameter: cannot create FLAT index without specifying DIM argument\r\n",
        ),
        (
            "FT.CREATE a SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 M 4",
            "-Bad arguments for algorithm FLAT: M\r\n",
        ),
        ("FT.CREATE g SCHEMA s GEOSHAPE", "-GEOSHAPE fields are not supported\r\n"),
        ("FT._LIST", "*1\r\n+i\r\n"),
        ("FT.DROPINDEX nosuch", "-Unknown Index name\r\n"),
        ("FT.DROPINDEX i", "+OK\r\n"),
        ("FT._DROPINDEXIFX i", "+OK\r\n"),
        ("FT._LIST", "*0\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("FT.CREATE j SCHEMA t TEXT", "-Cannot create index on db != 0\r\n"),
    ]);
}

#[test]
fn contents_and_returned_fields() {
    check(&[
        ("FT.CREATE i SCHEMA t TEXT n NUMERIC", "+OK\r\n"),
        ("HSET a t hello n 1 extra z", ":3\r\n"),
        (
            "FT.SEARCH i hello",
            "*3\r\n:1\r\n$1\r\na\r\n*6\r\n$1\r\nt\r\n$5\r\nhello\r\n$1\r\nn\r\n$1\r\n1\r\n$5\r\nextra\r\n$1\r\nz\r\n",
        ),
        ("FT.SEARCH i hello NOCONTENT", "*2\r\n:1\r\n$1\r\na\r\n"),
        ("FT.SEARCH i hello RETURN 0", "*2\r\n:1\r\n$1\r\na\r\n"),
        ("FT.SEARCH i hello RETURN 3 t AS x", "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$1\r\nx\r\n$5\r\nhello\r\n"),
        (
            "FT.SEARCH i hello RETURN 2 extra nosuch",
            "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$5\r\nextra\r\n$1\r\nz\r\n",
        ),
        ("FT.SEARCH i hello RETURN 1 nosuch", "*3\r\n:1\r\n$1\r\na\r\n*0\r\n"),
        (
            "FT.SEARCH i hello RETURN 2 t",
            "-Bad arguments for RETURN: Expected an argument, but none provided\r\n",
        ),
        ("FT.SEARCH i hello RETURN 2 t AS", "-RETURN path AS name - must be accompanied with NAME\r\n"),
        ("FT.SEARCH i hello BOGUS", "-Unknown argument `BOGUS` at position 1 for <main>\r\n"),
        ("FT.SEARCH i", "-No query string provided\r\n"),
        ("FT.SEARCH nosuch hello", "-nosuch: no such index\r\n"),
        ("FT.SEARCH i hello LIMIT 0 0", "*1\r\n:1\r\n"),
        ("FT.SEARCH i hello LIMIT 0", "-LIMIT requires two arguments\r\n"),
        ("FT.SEARCH i hello LIMIT 0 1000001", "-LIMIT exceeds maximum of 1000000\r\n"),
        ("FT.SEARCH i hello SORTBY nosuch", "-Property `nosuch` not loaded nor in schema\r\n"),
        ("FT.SEARCH i \"hello)\"", "-Syntax error at offset 5 near hello\r\n"),
    ]);
    check_resp3(&[
        ("FT.CREATE i SCHEMA t TEXT", "+OK\r\n"),
        ("HSET a t hello", ":1\r\n"),
        (
            "FT.SEARCH i hello",
            "%5\r\n+attributes\r\n*0\r\n+total_results\r\n:1\r\n+format\r\n+STRING\r\n+results\r\n*1\r\n%3\r\n\
             +id\r\n$1\r\na\r\n+extra_attributes\r\n%1\r\n$1\r\nt\r\n$5\r\nhello\r\n+values\r\n*0\r\n+warning\r\n*0\r\n",
        ),
    ]);
}

#[test]
fn results_are_sorted_and_cut() {
    check(&[
        ("FT.CREATE i SCHEMA t TEXT n NUMERIC s TEXT SORTABLE", "+OK\r\n"),
        ("HSET a t hello n 1 s Zed", ":3\r\n"),
        ("HSET b t hello n 2 s abc", ":3\r\n"),
        ("HSET c t hello", ":1\r\n"),
        ("FT.SEARCH i hello SORTBY n DESC NOCONTENT", "*4\r\n:3\r\n$1\r\nb\r\n$1\r\na\r\n$1\r\nc\r\n"),
        (
            "FT.SEARCH i hello SORTBY s WITHSORTKEYS NOCONTENT",
            "*7\r\n:3\r\n$1\r\nb\r\n$4\r\n$abc\r\n$1\r\na\r\n$4\r\n$zed\r\n$1\r\nc\r\n$-1\r\n",
        ),
        (
            "FT.SEARCH i hello SORTBY n LIMIT 0 1",
            "*3\r\n:3\r\n$1\r\na\r\n*6\r\n$1\r\nn\r\n$1\r\n1\r\n$1\r\nt\r\n$5\r\nhello\r\n$1\r\ns\r\n$3\r\nZed\r\n",
        ),
        ("FT.SEARCH i hello SORTBY t LIMIT 1 1 NOCONTENT", "*2\r\n:3\r\n$1\r\nb\r\n"),
    ]);
}

/// The keys that a query finds, in the order of their names.
fn found(tester: &mut Tester, query: &str) -> Vec<String> {
    let reply = tester.run(&format!("FT.SEARCH {query} NOCONTENT LIMIT 0 1000"));
    assert!(reply.starts_with('*'), "{query}: {reply}");
    let lines: Vec<&str> = reply.split("\r\n").collect();
    let mut keys: Vec<String> = lines[2..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()).collect();
    keys.sort();
    keys
}

#[test]
fn every_change_of_a_key_is_found_at_once() {
    let mut tester = Tester::new();
    let mut expect = |line: &str, keys: &[&str]| {
        let reply = tester.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(found(&mut tester, "i hello"), keys, "after {line}");
    };
    expect("FT.CREATE i PREFIX 1 d: SCHEMA t TEXT", &[]);
    expect("HSET d:1 t hello", &["d:1"]);
    expect("HSET e:1 t hello", &["d:1"]);
    expect("HSET d:1 t other", &[]);
    expect("HSET d:1 t hello", &["d:1"]);
    expect("HDEL d:1 t", &[]);
    expect("HSETNX d:1 t hello", &["d:1"]);
    expect("RENAME d:1 f:1", &[]);
    expect("RENAME f:1 d:2", &["d:2"]);
    expect("COPY d:2 d:3", &["d:2", "d:3"]);
    expect("SET d:3 x", &["d:2"]);
    expect("DEL d:3", &["d:2"]);
    expect("MOVE d:2 1", &[]);
    // The keys of the other database are looked at in the background.
    tester.check(&[("SWAPDB 0 1", "+OK\r\n")]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while found(&mut tester, "i hello") != ["d:2"] {
        assert!(std::time::Instant::now() < until, "the index has the keys of the other database");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn transactions_and_scripts_find_their_own_changes() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i SCHEMA t TEXT", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("HSET d:1 t hello", "+QUEUED\r\n"),
        ("FT.SEARCH i hello NOCONTENT", "+QUEUED\r\n"),
        ("DEL d:1", "+QUEUED\r\n"),
        ("FT.SEARCH i hello NOCONTENT", "+QUEUED\r\n"),
        ("EXEC", "*4\r\n:1\r\n*2\r\n:1\r\n$3\r\nd:1\r\n:1\r\n*1\r\n:0\r\n"),
        (
            "EVAL \"redis.call('HSET','d:3','t','hello') return redis.call('FT.SEARCH','i','hello','NOCONTENT')\" 0",
            "*2\r\n:1\r\n$3\r\nd:3\r\n",
        ),
    ]);
}

#[test]
fn expired_keys_and_fields_are_not_found() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i SCHEMA t TEXT", "+OK\r\n"),
        ("HSET d:1 t hello", ":1\r\n"),
        ("HSET d:2 t hello", ":1\r\n"),
        ("PEXPIRE d:1 1", ":1\r\n"),
    ]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(found(&mut tester, "i hello"), ["d:2"]);
    tester.check(&[("HPEXPIRE d:2 1 FIELDS 1 t", "*1\r\n:1\r\n")]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    // The next change of the hash removes the field, and with it what is found.
    tester.check(&[("HSET d:2 u x", ":1\r\n")]);
    assert_eq!(found(&mut tester, "i hello"), [""; 0]);
}

#[test]
fn keys_that_are_there_are_looked_at() {
    let mut tester = Tester::new();
    for number in 0..50 {
        tester.run(&format!("HSET d:{number} t hello n {number}"));
    }
    tester.run("FT.CREATE i PREFIX 1 d: FILTER @n>44 SCHEMA t TEXT");
    assert_eq!(found(&mut tester, "i hello"), ["d:45", "d:46", "d:47", "d:48", "d:49"]);
    tester.run("HSET d:45 n 1");
    assert_eq!(found(&mut tester, "i hello").len(), 4);
    tester.run("FT.CREATE later SKIPINITIALSCAN SCHEMA t TEXT");
    assert_eq!(found(&mut tester, "later hello"), [""; 0]);
    tester.check(&[
        ("FT.ALTER i SCHEMA ADD n NUMERIC", "+OK\r\n"),
        ("FT.SEARCH i \"@n:[46 47]\" NOCONTENT SORTBY n", "*3\r\n:2\r\n$4\r\nd:46\r\n$4\r\nd:47\r\n"),
        ("FT.ALTER i SCHEMA ADD t TAG", "-Duplicate field in schema - t\r\n"),
        ("FT.ALTER i SCHEMA DROP t", "-Unknown action passed to ALTER SCHEMA\r\n"),
        ("FT.DROPINDEX i DD", "+OK\r\n"),
        ("EXISTS d:46", ":0\r\n"),
        ("EXISTS d:1", ":1\r\n"),
        ("FLUSHALL", "+OK\r\n"),
        ("FT._LIST", "*0\r\n"),
    ]);
}

#[test]
fn documents_that_do_not_fit_are_left_out_and_told() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE h SCHEMA n NUMERIC l GEO t TEXT", "+OK\r\n"),
        ("HSET h:1 n abc t one", ":2\r\n"),
        ("HSET h:2 l bad t one", ":2\r\n"),
        ("HSET h:5 n 0x10 t one", ":2\r\n"),
        ("FT.SEARCH h * NOCONTENT", "*2\r\n:1\r\n$3\r\nh:5\r\n"),
        ("HSET h:1 n 1", ":0\r\n"),
        ("FT.SEARCH h \"@n:[-inf inf]\" NOCONTENT SORTBY n", "*3\r\n:2\r\n$3\r\nh:1\r\n$3\r\nh:5\r\n"),
    ]);
    let info = tester.run("FT.INFO h");
    assert!(info.contains("+indexing failures\r\n:2\r\n"), "{info}");
    assert!(info.contains("+num_docs\r\n:2\r\n+max_doc_id"), "{info}");
}

#[test]
fn json_documents() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i ON JSON SCHEMA $.n AS n NUMERIC $.t AS t TEXT $.g AS g TAG $.v[*] AS v TAG", "+OK\r\n"),
        (r#"JSON.SET a $ "{\"n\":1,\"t\":\"hello\",\"g\":\"x,y\",\"v\":[\"p\",\"q\"]}""#, "+OK\r\n"),
        (r#"JSON.SET nulls $ "{\"n\":null,\"t\":null}""#, "+OK\r\n"),
        (r#"JSON.SET badn $ "{\"n\":\"x\",\"t\":\"hello\"}""#, "+OK\r\n"),
        (r#"JSON.SET arr $ "{\"n\":[3,4],\"t\":[\"multi one\",\"two\"]}""#, "+OK\r\n"),
        ("FT.SEARCH i hello NOCONTENT", "*2\r\n:1\r\n$1\r\na\r\n"),
        ("FT.SEARCH i \"@n:[3 5]\" NOCONTENT", "*2\r\n:1\r\n$3\r\narr\r\n"),
        ("FT.SEARCH i \"@v:{q}\" RETURN 1 v", "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$1\r\nv\r\n$1\r\np\r\n"),
        (
            "FT.SEARCH i \"@v:{q}\" RETURN 1 v DIALECT 3",
            "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$1\r\nv\r\n$9\r\n[\"p\",\"q\"]\r\n",
        ),
        ("FT.SEARCH i \"\\\"one two\\\"\" NOCONTENT", "*1\r\n:0\r\n"),
        ("FT.TAGVALS i g", "*1\r\n$3\r\nx,y\r\n"),
        ("JSON.NUMINCRBY a $.n 4", "$3\r\n[5]\r\n"),
        ("FT.SEARCH i \"@n:[5 5]\" RETURN 1 $.n", "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$3\r\n$.n\r\n$1\r\n5\r\n"),
        ("JSON.DEL a $.t", ":1\r\n"),
        ("FT.SEARCH i hello NOCONTENT", "*1\r\n:0\r\n"),
    ]);
    let all = tester.run("FT.SEARCH i @v:{p}");
    assert!(all.contains("$1\r\n$\r\n") && all.contains("\"n\":5"), "{all}");
}

#[test]
fn aliases_synonyms_and_dictionaries() {
    check(&[
        ("FT.CREATE i SCHEMA t TEXT", "+OK\r\n"),
        ("FT.ALIASADD al i", "+OK\r\n"),
        ("FT.ALIASADD al i", "-Alias already exists\r\n"),
        ("FT.ALIASADD x nosuch", "-Unknown index name (or name is an alias itself)\r\n"),
        ("HSET d t child", ":1\r\n"),
        ("FT.SEARCH al child NOCONTENT", "*2\r\n:1\r\n$1\r\nd\r\n"),
        ("FT.SYNUPDATE i g kid child", "+OK\r\n"),
        ("FT.SEARCH i kid NOCONTENT", "*2\r\n:1\r\n$1\r\nd\r\n"),
        ("FT.SYNDUMP i", "*4\r\n$5\r\nchild\r\n*1\r\n$1\r\ng\r\n$3\r\nkid\r\n*1\r\n$1\r\ng\r\n"),
        ("FT.SYNDUMP nosuch", "-Unknown index name\r\n"),
        ("FT.ALIASLIST i", "*1\r\n$2\r\nal\r\n"),
        ("FT.ALIASLIST al", "*1\r\n$2\r\nal\r\n"),
        ("FT.ALIASLIST nosuch", "-Unknown index name\r\n"),
        ("FT.ALIASDEL al", "+OK\r\n"),
        ("FT.ALIASLIST i", "*0\r\n"),
        ("FT.ALIASDEL al", "-Alias does not exist\r\n"),
        ("FT._ALIASDELIFX al", "+OK\r\n"),
        ("FT.SEARCH al child", "-al: no such index\r\n"),
        ("FT.DICTADD dict helo chold", ":2\r\n"),
        ("FT.DICTADD dict helo", ":0\r\n"),
        ("FT.DICTDUMP dict", "*2\r\n$5\r\nchold\r\n$4\r\nhelo\r\n"),
        (
            "FT.SPELLCHECK i chyld",
            "*1\r\n*3\r\n+TERM\r\n$5\r\nchyld\r\n*1\r\n*2\r\n$1\r\n1\r\n$5\r\nchild\r\n",
        ),
        ("FT.SPELLCHECK i chold TERMS EXCLUDE dict", "*0\r\n"),
        ("FT.SPELLCHECK i helo TERMS INCLUDE nosuch", "-Dict does not exist: nosuch\r\n"),
        ("FT.DICTDEL dict helo nosuch", ":1\r\n"),
        ("FT.DICTDUMP nosuch", "*0\r\n"),
    ]);
}

#[test]
fn aggregations_and_cursors() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i SCHEMA g TAG SORTABLE n NUMERIC SORTABLE t TEXT", "+OK\r\n"),
        ("HSET a g x n 1 t one", ":3\r\n"),
        ("HSET b g x n 2 t two", ":3\r\n"),
        ("HSET c g y n 4 t three", ":3\r\n"),
        (
            "FT.AGGREGATE i * GROUPBY 1 @g REDUCE SUM 1 @n AS s SORTBY 2 @g ASC",
            "*3\r\n:2\r\n*4\r\n$1\r\ng\r\n$1\r\nx\r\n$1\r\ns\r\n$1\r\n3\r\n*4\r\n$1\r\ng\r\n$1\r\ny\r\n$1\r\ns\r\n$1\r\n4\r\n",
        ),
        (
            "FT.AGGREGATE i @g:{y} LOAD 1 @__key LOAD 1 @t",
            "*2\r\n:1\r\n*4\r\n$5\r\n__key\r\n$1\r\nc\r\n$1\r\nt\r\n$5\r\nthree\r\n",
        ),
        (
            "FT.AGGREGATE i @g:{y} LOAD *",
            "*2\r\n:1\r\n*6\r\n$1\r\ng\r\n$1\r\ny\r\n$1\r\nn\r\n$1\r\n4\r\n$1\r\nt\r\n$5\r\nthree\r\n",
        ),
        ("FT.AGGREGATE i * GROUPBY 1 @nosuch", "-No such property `nosuch`\r\n"),
        ("FT.AGGREGATE i q BOGUS", "-Unknown argument `BOGUS` at position 1 for <main>\r\n"),
        ("FT.CURSOR READ i 999", "-Cursor not found\r\n"),
        ("FT.CURSOR READ i abc", "-Bad cursor ID\r\n"),
        ("FT.CURSOR BOGUS i 999", "-Unknown subcommand\r\n"),
        (
            "FT.AGGREGATE i * WITHCURSOR COUNT 0",
            "-Bad arguments for COUNT: Value is outside acceptable bounds\r\n",
        ),
    ]);
    let first = tester.run("FT.AGGREGATE i * LOAD 1 @n SORTBY 2 @n ASC WITHCURSOR COUNT 2");
    let id = first.trim_end().rsplit(':').next().expect("a cursor").to_owned();
    let row = |n: &str| format!("*2\r\n$1\r\nn\r\n$1\r\n{n}\r\n");
    assert_eq!(first, format!("*2\r\n*3\r\n:3\r\n{}{}:{id}\r\n", row("1"), row("2")));
    tester.check(&[
        (&format!("FT.CURSOR READ i {id}"), &format!("*2\r\n*2\r\n:0\r\n{}:0\r\n", row("4"))),
        (&format!("FT.CURSOR READ i {id}"), "-Cursor not found\r\n"),
        (&format!("FT.CURSOR DEL i {id}"), "-Cursor does not exist\r\n"),
    ]);
}

#[test]
fn nearest_vectors() {
    for algorithm in ["FLAT 6", "HNSW 6"] {
        let mut tester = Tester::new();
        let query = |q: &str, rest: &str| {
            format!(
                "FT.SEARCH i \"{q}\" PARAMS 2 q \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\" {rest} DIALECT 2"
            )
        };
        tester.check(&[
            (&format!("FT.CREATE i SCHEMA v VECTOR {algorithm} TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 g TAG"), "+OK\r\n"),
            ("HSET c v \"\\x00\\x00\\x00\\x40\\x00\\x00\\x00\\x00\" g x", ":2\r\n"),
            ("HSET a v \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\" g x", ":2\r\n"),
            ("HSET b v \"\\xcd\\xcc\\xcc\\x3d\\x00\\x00\\x00\\x00\" g y", ":2\r\n"),
            ("HSET short v \"\\xcd\\xcc\\xcc\\x3d\" g y", ":2\r\n"),
            (
                &query("*=>[KNN 2 @v $q]", "RETURN 2 g __v_score SORTBY __v_score"),
                "*5\r\n:2\r\n$1\r\na\r\n*4\r\n$9\r\n__v_score\r\n$1\r\n0\r\n$1\r\ng\r\n$1\r\nx\r\n$1\r\nb\r\n*4\r\n$9\r\n__v_score\r\n\
                 $15\r\n0.0100000007078\r\n$1\r\ng\r\n$1\r\ny\r\n",
            ),
            (&query("@g:{x}=>[KNN 2 @v $q AS d]", "NOCONTENT SORTBY d DESC"), "*3\r\n:2\r\n$1\r\nc\r\n$1\r\na\r\n"),
            (&query("@v:[VECTOR_RANGE 1 $q] @g:{x}", "NOCONTENT"), "*2\r\n:1\r\n$1\r\na\r\n"),
            ("DEL a", ":1\r\n"),
            (&query("*=>[KNN 1 @v $q]", "NOCONTENT"), "*2\r\n:1\r\n$1\r\nb\r\n"),
            ("HDEL b v", ":1\r\n"),
            (&query("*=>[KNN 1 @v $q]", "NOCONTENT"), "*2\r\n:1\r\n$1\r\nc\r\n"),
            (
                "FT.SEARCH i \"*=>[KNN 2 @v $q]\" PARAMS 2 q abcd DIALECT 2",
                "-Error parsing vector similarity query: query vector blob size (4) does not match index's \
                 expected size (8).\r\n",
            ),
        ]);
    }
}

#[test]
fn users_find_only_what_they_may_read() {
    let mut tester = Tester::new();
    tester.check(&[
        ("FT.CREATE i PREFIX 1 doc: SCHEMA t TEXT", "+OK\r\n"),
        ("FT.CREATE all SCHEMA t TEXT", "+OK\r\n"),
        ("HSET doc:1 t hello", ":1\r\n"),
        ("ACL SETUSER u on nopass +@search ~doc:*", "+OK\r\n"),
        ("AUTH u x", "+OK\r\n"),
        ("FT.SEARCH i hello NOCONTENT", "*2\r\n:1\r\n$5\r\ndoc:1\r\n"),
        (
            "FT.SEARCH all hello NOCONTENT",
            "-NOPERM User does not have the required permissions to query the index\r\n",
        ),
        ("FT.DROPINDEX all DD", "-NOPERM User does not have the required permissions to query the index\r\n"),
        ("FT.DROPINDEX all", "+OK\r\n"),
        ("FT.DROPINDEX i DD", "+OK\r\n"),
        ("GET k", "-NOPERM User u has no permissions to run the 'get' command\r\n"),
    ]);
}

/// As Redis Stack 7.4 replies: a sortable text is folded where only steps need it, and as it is in
/// the document where it is loaded.
#[test]
fn loaded_texts_are_those_of_the_document() {
    check(&[
        (
            "FT.CREATE i SCHEMA t TEXT SORTABLE u TEXT SORTABLE UNF g TAG SORTABLE n NUMERIC SORTABLE",
            "+OK\r\n",
        ),
        ("HSET a t \"Hello World\" u Hello g Foo n 1.50", ":4\r\n"),
        ("FT.AGGREGATE i * LOAD 1 @t", "*2\r\n:1\r\n*2\r\n$1\r\nt\r\n$11\r\nHello World\r\n"),
        (
            "FT.AGGREGATE i * LOAD 3 @u @g @n",
            "*2\r\n:1\r\n*6\r\n$1\r\nu\r\n$5\r\nHello\r\n$1\r\ng\r\n$3\r\nFoo\r\n$1\r\nn\r\n$3\r\n1.5\r\n",
        ),
        ("FT.AGGREGATE i * GROUPBY 1 @t", "*2\r\n:1\r\n*2\r\n$1\r\nt\r\n$11\r\nhello world\r\n"),
        ("FT.AGGREGATE i * GROUPBY 1 @g", "*2\r\n:1\r\n*2\r\n$1\r\ng\r\n$3\r\nfoo\r\n"),
        ("FT.AGGREGATE i * SORTBY 2 @t ASC LOAD 1 @t", "*2\r\n:1\r\n*2\r\n$1\r\nt\r\n$11\r\nHello World\r\n"),
    ]);
}

/// HYBRID_POLICY and BATCH_SIZE, with the errors of Redis Stack 7.4.
#[test]
fn policies_of_filtered_neighbours() {
    let error = |text: &str| format!("-Error parsing vector similarity parameters: {text}\r\n");
    let mut tester = Tester::new();
    tester.run("FT.CREATE i SCHEMA h TAG v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2");
    tester.run("HSET a h Foo v aaaaaaaa");
    let mut ask = |filter: &str, options: &str| {
        let query = format!("{filter}=>[KNN 1 @v $b {options}]");
        tester.run(&format!("FT.SEARCH i \"{query}\" PARAMS 2 b aaaaaaaa NOCONTENT DIALECT 2"))
    };
    let found = "*2\r\n:1\r\n$1\r\na\r\n";
    for options in ["HYBRID_POLICY ADHOC_BF", "HYBRID_POLICY batches BATCH_SIZE 2", "BATCH_SIZE 3", ""] {
        assert_eq!(ask("@h:{Foo}", options), found, "{options}");
    }
    assert_eq!(ask("@h:{Foo}", "HYBRID_POLICY NONE"), error("invalid hybrid policy was given"));
    let irrelevant = error("'batch size' is irrelevant for 'ADHOC_BF' policy");
    assert_eq!(ask("@h:{Foo}", "HYBRID_POLICY ADHOC_BF BATCH_SIZE 2"), irrelevant);
    assert_eq!(ask("@h:{Foo}", "HYBRID_POLICY BATCHES BATCH_SIZE 0"), error("Invalid value was given"));
    let unfiltered = error("hybrid query attributes were sent for a non-hybrid query");
    assert_eq!(ask("*", "HYBRID_POLICY ADHOC_BF"), unfiltered);
    assert_eq!(ask("*", "BATCH_SIZE 3"), unfiltered);
    assert_eq!(ask("@h:{Foo}", "POLICY ADHOC_BF"), error("Invalid option"));
}
