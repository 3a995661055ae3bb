// SPDX-License-Identifier: BSD-3-Clause
//! Tests of what streams got in Redis 8.6 to 8.10: entries that producers name, entries given
//! back, and reads bounded across streams.

use braid_commands::testing::Tester;

/// The numbers of entries in a reply of XREAD or XREADGROUP, by stream.
fn entries_by_stream(tester: &mut Tester, line: &str) -> Vec<(String, usize)> {
    let reply = tester.run(line);
    let mut found: Vec<(String, usize)> = Vec::new();
    for word in reply.split("\r\n") {
        if word.starts_with('s') {
            found.push((word.to_owned(), 0));
        } else if word.ends_with("-0")
            && let Some((_, count)) = found.last_mut()
        {
            *count += 1;
        }
    }
    found
}

/// Three streams of 10 entries.
fn with_three_streams() -> Tester {
    let mut tester = Tester::new();
    for stream in ["s1", "s2", "s3"] {
        for id in 1..=10 {
            tester.run(&format!("XADD {stream} {id} f v"));
        }
        tester.run(&format!("XGROUP CREATE {stream} g 0"));
    }
    tester
}

#[test]
fn reads_are_bounded_across_streams() {
    let of = |counts: &[(&str, usize)]| -> Vec<(String, usize)> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let all: usize = with_three_streams().run("XREAD STREAMS s1 s2 s3 0 0 0").len();
    let one = with_three_streams().run("XREAD COUNT 1 STREAMS s1 0").len();
    for (options, expected) in [
        ("COUNT 5", of(&[("s1", 5), ("s2", 5), ("s3", 5)])),
        ("COUNT 5 MAXCOUNT 8", of(&[("s1", 5), ("s2", 3)])),
        ("MAXCOUNT 5 COUNT 5", of(&[("s1", 5)])),
        ("MAXCOUNT 7", of(&[("s1", 7)])),
        ("MAXCOUNT 25", of(&[("s1", 10), ("s2", 10), ("s3", 5)])),
        ("MAXCOUNT 99", of(&[("s1", 10), ("s2", 10), ("s3", 10)])),
        ("MAXSIZE 1", of(&[("s1", 1)])),
        ("MAXSIZE 100000", of(&[("s1", 10), ("s2", 10), ("s3", 10)])),
        ("MAXCOUNT 5 MAXSIZE 100000", of(&[("s1", 5)])),
        ("MAXCOUNT 29 MAXSIZE 1", of(&[("s1", 1)])),
    ] {
        let mut tester = with_three_streams();
        let found = entries_by_stream(&mut tester, &format!("XREAD {options} STREAMS s1 s2 s3 0 0 0"));
        assert_eq!(found, expected, "{options}");
        let line = format!("XREADGROUP GROUP g c {options} STREAMS s1 s2 s3 > > >");
        assert_eq!(entries_by_stream(&mut tester, &line), expected, "{options}");
        // What was left out has not been delivered.
        let given: usize = expected.iter().map(|(_, count)| count).sum();
        let rest = entries_by_stream(&mut tester, "XREADGROUP GROUP g c STREAMS s1 s2 s3 > > >");
        assert_eq!(rest.iter().map(|(_, count)| count).sum::<usize>(), 30 - given, "{options}");
        // The history is bounded as well.
        let line = format!("XREADGROUP GROUP g c {options} STREAMS s1 s2 s3 0 0 0");
        assert_eq!(entries_by_stream(&mut tester, &line), expected, "{options}");
    }
    // Every size: the reply is never larger, unless it is a single entry.
    for most in (1..all + 20).step_by(7) {
        let mut tester = with_three_streams();
        let reply = tester.run(&format!("XREAD MAXSIZE {most} STREAMS s1 s2 s3 0 0 0"));
        assert!(reply.len() <= most.max(one), "{most}: {}", reply.len());
        assert!(most < all || reply.len() == all, "{most}");
    }
}

#[test]
fn idle_entries_are_bounded_across_streams() {
    let mut tester = with_three_streams();
    tester.hold_time();
    tester.run("XREADGROUP GROUP g c COUNT 4 STREAMS s1 s2 > >");
    let found = entries_by_stream(&mut tester, "XREADGROUP GROUP g d MAXCOUNT 6 CLAIM 0 STREAMS s1 s2 > >");
    assert_eq!(found, [("s1".to_owned(), 6)]);
    let found = entries_by_stream(&mut tester, "XREADGROUP GROUP g d MAXSIZE 1 CLAIM 0 STREAMS s2 > ");
    assert_eq!(found, [("s2".to_owned(), 1)]);
    // Of s2 only the first entry has changed hands.
    tester.check(&[("XPENDING s2 g - + 10 d", "*1\r\n*4\r\n$3\r\n1-0\r\n$1\r\nd\r\n:0\r\n:2\r\n")]);
    // A single entry is never too large, but an empty history is no sign of its end.
    tester.run("XADD big 1 f 12345678901234567890");
    tester.check(&[(
        "XREAD MAXSIZE 10 STREAMS big s1 0 0",
        "*1\r\n*2\r\n$3\r\nbig\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$20\r\n12345678901234567890\r\n",
    )]);
    let integer = "-ERR value is not an integer or out of range\r\n";
    tester.check(&[
        ("XREAD MAXCOUNT 0 STREAMS s1 0", "-ERR MAXCOUNT must be a positive integer\r\n"),
        ("XREAD MAXSIZE -1 STREAMS s1 0", "-ERR MAXSIZE must be a positive integer\r\n"),
        ("XREAD MAXCOUNT x STREAMS s1 0", integer),
        ("XREAD COUNT 3 MAXCOUNT 2 STREAMS s1 0", "-ERR MAXCOUNT must be greater than or equal to COUNT\r\n"),
        ("XREAD MAXCOUNT 2 COUNT 3 STREAMS s1 0", "-ERR MAXCOUNT must be greater than or equal to COUNT\r\n"),
        ("XREAD MAXCOUNT STREAMS s1 0", integer),
        ("COMMAND GETKEYS XREAD MAXCOUNT 2 MAXSIZE 9 STREAMS s1 0", "*1\r\n$2\r\ns1\r\n"),
    ]);
}

/// A stream with entries 1-0 to 4-0, of which a consumer has the first three.
fn with_deliveries() -> Tester {
    let mut tester = Tester::new();
    tester.hold_time();
    for id in 1..=4 {
        tester.run(&format!("XADD s {id} f {id}"));
    }
    tester.run("XGROUP CREATE s g 0");
    tester.run("XREADGROUP GROUP g ann COUNT 3 STREAMS s >");
    tester
}

/// XPENDING's line for an entry that no consumer has.
fn released(id: u32, deliveries: i64) -> String {
    format!("*4\r\n$3\r\n{id}-0\r\n$0\r\n\r\n:-1\r\n:{deliveries}\r\n")
}

#[test]
fn entries_are_given_back() {
    let mut tester = with_deliveries();
    tester.check(&[
        ("XNACK s g FAIL IDS 2 1-0 2-0", ":2\r\n"),
        ("XPENDING s g - + 2", &format!("*2\r\n{}{}", released(1, 1), released(2, 1))),
        ("XPENDING s g IDLE 100000 - + 9", &format!("*2\r\n{}{}", released(1, 1), released(2, 1))),
        ("XPENDING s g", "*4\r\n:3\r\n$3\r\n1-0\r\n$3\r\n3-0\r\n*1\r\n*2\r\n$3\r\nann\r\n$1\r\n1\r\n"),
        ("XNACK s g SILENT IDS 1 1-0", ":1\r\n"),
        ("XPENDING s g 1 1 9", &format!("*1\r\n{}", released(1, 0))),
        ("XNACK s g SILENT IDS 1 1-0", ":1\r\n"),
        ("XPENDING s g 1 1 9", &format!("*1\r\n{}", released(1, 0))),
        ("xnack s g fatal ids 1 1-0", ":1\r\n"),
        ("XPENDING s g 1 1 9", &format!("*1\r\n{}", released(1, i64::MAX))),
        ("XNACK s g FATAL IDS 1 1-0 RETRYCOUNT 7", ":1\r\n"),
        ("XPENDING s g 1 1 9", &format!("*1\r\n{}", released(1, 7))),
        // Not pending: 4-0 was not delivered, and there is no 9-0.
        ("XNACK s g FAIL IDS 2 4-0 9-0", ":0\r\n"),
        ("XNACK s g FAIL IDS 2 4-0 9-0 FORCE", ":1\r\n"),
        ("XPENDING s g 4 4 9", &format!("*1\r\n{}", released(4, 0))),
        ("XNACK s g FAIL FORCE RETRYCOUNT 3 IDS 1 4-0", ":1\r\n"),
        ("XPENDING s g 4 4 9", &format!("*1\r\n{}", released(4, 3))),
        // The consumer still has its other entry, and only that.
        (
            "XREADGROUP GROUP g ann STREAMS s 0",
            "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\nf\r\n$1\r\n3\r\n",
        ),
        ("XACK s g 1-0", ":1\r\n"),
        ("XNACK s g FAIL IDS 1 1-0", ":0\r\n"),
        // One that was deleted stays as it is.
        ("XDEL s 3-0", ":1\r\n"),
        ("XNACK s g FAIL IDS 1 3-0", ":0\r\n"),
    ]);
    assert!(tester.run("XINFO STREAM s FULL").contains("$12\r\nnacked-count\r\n:2\r\n"));
    assert!(!with_deliveries().run("XINFO STREAM s FULL").contains("nacked-count"));
}

#[test]
fn entries_given_back_are_claimed_first_and_at_once() {
    let mut tester = with_deliveries();
    let fields = |id: u32| format!("$3\r\n{id}-0\r\n*2\r\n$1\r\nf\r\n$1\r\n{id}\r\n");
    tester.check(&[
        ("XNACK s g FAIL IDS 1 2-0", ":1\r\n"),
        (
            "XREADGROUP GROUP g bob COUNT 1 CLAIM 9000000000000 STREAMS s >",
            &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n{}:-1\r\n:1\r\n", fields(2)),
        ),
        ("XPENDING s g - + 9 bob", "*1\r\n*4\r\n$3\r\n2-0\r\n$3\r\nbob\r\n:0\r\n:2\r\n"),
        ("XNACK s g SILENT IDS 1 2-0", ":1\r\n"),
        ("XCLAIM s g eve 9000000000000 2-0 1-0", &format!("*1\r\n*2\r\n{}", fields(2))),
        ("XNACK s g FAIL IDS 1 1-0", ":1\r\n"),
        (
            "XAUTOCLAIM s g eve 9000000000000 0",
            &format!("*3\r\n$3\r\n0-0\r\n*1\r\n*2\r\n{}*0\r\n", fields(1)),
        ),
    ]);
    // A reader that waits for idle entries gets it.
    let reader = tester.client();
    tester.run("XREADGROUP GROUP g eve STREAMS s >");
    tester.wait_as(reader, "XREADGROUP GROUP g bob BLOCK 0 CLAIM 100000 STREAMS s >");
    tester.check(&[("XNACK s g FAIL IDS 1 3-0", ":1\r\n")]);
    assert_eq!(tester.told(reader), format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n{}:-1\r\n:1\r\n", fields(3)));
}

#[test]
fn entries_given_back_survive_dumps() {
    let mut tester = with_deliveries();
    tester.run("XNACK s g FAIL IDS 2 1-0 3-0 RETRYCOUNT 5");
    tester.check(&[("COPY s t", ":1\r\n"), ("XPENDING t g 1 1 9", &format!("*1\r\n{}", released(1, 5)))]);
    let dumped = tester.run_args(0, &[b"DUMP", b"s"]);
    let start = dumped.iter().position(|byte| *byte == b'\n').expect("a reply") + 1;
    let payload = &dumped[start..dumped.len() - 2];
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"r", b"0", payload]), b"+OK\r\n");
    tester.check(&[
        ("XPENDING r g 3 3 9", &format!("*1\r\n{}", released(3, 5))),
        ("XPENDING r g", "*4\r\n:3\r\n$3\r\n1-0\r\n$3\r\n3-0\r\n*1\r\n*2\r\n$3\r\nann\r\n$1\r\n1\r\n"),
    ]);
}

#[test]
fn refused_arguments_of_xnack() {
    let positive = "-ERR Number of IDs must be a positive integer\r\n";
    let count = "-ERR The `numids` parameter must match the number of arguments\r\n";
    let integer = "-ERR value is not an integer or out of range\r\n";
    let syntax = "-ERR syntax error\r\n";
    let mut tester = with_deliveries();
    tester.check(&[
        ("XNACK s g FAIL IDS 1", "-ERR wrong number of arguments for 'xnack' command\r\n"),
        ("XNACK s g NOSUCH IDS 1 1-0", syntax),
        ("XNACK s g FAIL NOSUCH 1 1-0", syntax),
        ("XNACK s g FAIL IDS 0 1-0", positive),
        ("XNACK s g FAIL IDS x 1-0", positive),
        ("XNACK s g FAIL IDS 2 1-0", count),
        ("XNACK s g FAIL IDS 1 1-0 2-0", syntax),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT", syntax),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT -1", integer),
        ("XNACK s g FAIL FORCE RETRYCOUNT 1", syntax),
        ("XNACK s g FAIL IDS 1 x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XNACK s none FAIL IDS 1 1-0", ":0\r\n"),
        ("XNACK none g FAIL IDS 1 1-0", ":0\r\n"),
        ("SET str x", "+OK\r\n"),
        (
            "XNACK str g FAIL IDS 1 1-0",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
    ]);
}

/// The ID in a reply of XADD.
fn added(tester: &mut Tester, line: &str) -> String {
    let reply = tester.run(line);
    assert!(reply.starts_with('$'), "{line}: {reply}");
    reply.split("\r\n").nth(1).expect("an ID").to_owned()
}

/// A field of XINFO STREAM.
fn of_stream(tester: &mut Tester, field: &str) -> Option<i64> {
    of_key(tester, "s", field)
}

fn of_key(tester: &mut Tester, key: &str, field: &str) -> Option<i64> {
    let reply = tester.run(&format!("XINFO STREAM {key}"));
    let mut lines = reply.split("\r\n");
    lines.find(|line| *line == field)?;
    lines.next()?.strip_prefix(':')?.parse().ok()
}

#[test]
fn an_entry_that_is_sent_again_is_found() {
    let mut tester = Tester::new();
    tester.run("XADD s 1 f v");
    assert_eq!(of_stream(&mut tester, "idmp-duration"), None);
    let one = added(&mut tester, "XADD s IDMP p 1 * f v");
    assert_eq!(added(&mut tester, "XADD s IDMP p 1 * f other"), one);
    assert_eq!(added(&mut tester, "XADD s MAXLEN 1 idmp p 1 * f other"), one);
    tester.check(&[("XLEN s", ":2\r\n")]);
    let other = added(&mut tester, "XADD s IDMP q 1 * f v");
    let third = added(&mut tester, "XADD s IDMP p 2 MAXLEN 100 * f v");
    assert!(one != other && other != third);
    // Named by its contents.
    let auto = added(&mut tester, "XADD s IDMPAUTO q * f v g w");
    assert_eq!(added(&mut tester, "XADD s NOMKSTREAM IDMPAUTO q KEEPREF * f v g w"), auto);
    assert_ne!(added(&mut tester, "XADD s IDMPAUTO q * f v g x"), auto);
    assert_ne!(added(&mut tester, "XADD s IDMPAUTO p * f v g w"), auto);
    // Also if the entry is gone.
    tester.run(&format!("XDEL s {one}"));
    assert_eq!(added(&mut tester, "XADD s IDMP p 1 * f v"), one);
    let fields =
        ["idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added", "iids-duplicates"];
    let found = fields.map(|field| of_stream(&mut tester, field));
    assert_eq!(found, [100, 100, 2, 6, 6, 4].map(Some));
    tester.check(&[("XLEN s", ":6\r\n")]);
}

#[test]
fn names_have_bounds() {
    let mut tester = Tester::new();
    let ids: Vec<String> =
        (0..3).map(|name| added(&mut tester, &format!("XADD s IDMP p {name} * f v"))).collect();
    tester.check(&[("XCFGSET s IDMP-MAXSIZE 100", "+OK\r\n")]);
    assert_eq!(added(&mut tester, "XADD s IDMP p 2 * f v"), ids[2]);
    // Other bounds forget the names.
    tester.check(&[("XCFGSET s IDMP-MAXSIZE 2 IDMP-DURATION 86400", "+OK\r\n")]);
    assert_ne!(added(&mut tester, "XADD s IDMP p 2 * f v"), ids[2]);
    let kept = added(&mut tester, "XADD s IDMP p 3 * f v");
    added(&mut tester, "XADD s IDMP p 4 * f v");
    assert_eq!(of_stream(&mut tester, "iids-tracked"), Some(2));
    assert_eq!(of_stream(&mut tester, "idmp-duration"), Some(86_400));
    assert_eq!(added(&mut tester, "XADD s IDMP p 3 * f v"), kept);
    // Copies and dumps have them.
    tester.run("COPY s t");
    assert_eq!(added(&mut tester, "XADD t IDMP p 3 * f v"), kept);
    let dumped = tester.run_args(0, &[b"DUMP", b"s"]);
    let start = dumped.iter().position(|byte| *byte == b'\n').expect("a reply") + 1;
    let payload = dumped[start..dumped.len() - 2].to_vec();
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"r", b"0", &payload]), b"+OK\r\n");
    assert_eq!(added(&mut tester, "XADD r IDMP p 3 * f v"), kept);
    for (field, value) in
        [("idmp-duration", 86_400), ("iids-tracked", 2), ("iids-added", 6), ("iids-duplicates", 3)]
    {
        assert_eq!(of_key(&mut tester, "r", field), Some(value), "{field}");
    }
    let mut tester = Tester::with("stream-idmp-duration 7\nstream-idmp-maxsize 1");
    added(&mut tester, "XADD s IDMP p 3 * f v");
    assert_eq!(
        (of_stream(&mut tester, "idmp-duration"), of_stream(&mut tester, "idmp-maxsize")),
        (Some(7), Some(1))
    );
}

#[test]
fn refused_names() {
    let syntax = "-ERR syntax error\r\n";
    let empty = "-ERR the producer ID and the idempotent ID can't be empty\r\n";
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let only_auto = "-ERR IDMP and IDMPAUTO can be used only with the ID *\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("XADD s IDMP p 1 5 f v", only_auto),
        ("XADD s IDMPAUTO p 5-* f v", only_auto),
        ("XADD s IDMP p 1 IDMP p 1 * f v", syntax),
        ("XADD s IDMP p 1 IDMPAUTO p * f v", syntax),
        ("XADD s IDMP \"\" 1 * f v", empty),
        ("XADD s IDMP p \"\" * f v", empty),
        ("XADD s IDMPAUTO \"\" * f v", empty),
        ("XADD s NOMKSTREAM IDMP p 1 * f v", "$-1\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("XCFGSET s IDMP-DURATION 1", "-ERR no such key\r\n"),
        ("XADD s 1 f v", "$3\r\n1-0\r\n"),
        ("XCFGSET s", syntax),
        ("XCFGSET s IDMP-DURATION", syntax),
        ("XCFGSET s NOSUCH 1", syntax),
        ("XCFGSET s IDMP-DURATION 0", "-ERR invalid duration\r\n"),
        ("XCFGSET s IDMP-DURATION 86401", "-ERR invalid duration\r\n"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "-ERR invalid maxsize\r\n"),
        ("XCFGSET s IDMP-MAXSIZE x", "-ERR value is not an integer or out of range\r\n"),
        ("XIDMPRECORD none p 1 1-0", "-ERR no such key\r\n"),
        ("XIDMPRECORD s p 1 2-0", "-ERR no such entry in the stream\r\n"),
        ("XIDMPRECORD s \"\" 1 1-0", empty),
        ("XIDMPRECORD s p 1 x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("SET str x", "+OK\r\n"),
        ("XCFGSET str IDMP-MAXSIZE 1", wrong_type),
        ("XIDMPRECORD str p 1 1-0", wrong_type),
    ]);
    let one = added(&mut tester, "XADD s * f v");
    let two = added(&mut tester, "XADD s * f v");
    tester.check(&[
        (&format!("XIDMPRECORD s p 1 {one}"), "+OK\r\n"),
        (&format!("XIDMPRECORD s p 1 {one}"), "+OK\r\n"),
        (&format!("XIDMPRECORD s p 1 {two}"), "-ERR the idempotent ID belongs to another entry already\r\n"),
    ]);
    assert_eq!(added(&mut tester, "XADD s IDMP p 1 * f v"), one);
}
