// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the stream commands.

use braid_commands::testing::{Tester, check, check_resp3};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn adding() {
    let mut tester = Tester::new();
    tester.check(&[
        ("XADD s 1-1 a 1 b 2", "$3\r\n1-1\r\n"),
        ("XADD s 1-* a 1", "$3\r\n1-2\r\n"),
        ("XADD s 5 a 1", "$3\r\n5-0\r\n"),
        (
            "XADD s 5-0 a 1",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n",
        ),
        ("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0\r\n"),
        ("XADD new 0-* a 1", "$3\r\n0-1\r\n"),
        ("XADD s x a 1", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XADD s * a 1 b", "-ERR wrong number of arguments for 'xadd' command\r\n"),
        ("XADD none NOMKSTREAM * a 1", "$-1\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("XLEN s", ":3\r\n"),
        ("XLEN none", ":0\r\n"),
        ("XADD s MAXLEN 2 6-0 a 1", "$3\r\n6-0\r\n"),
        ("XLEN s", ":2\r\n"),
        ("XADD s MINID = 7 7-0 a 1", "$3\r\n7-0\r\n"),
        ("XRANGE s - +", "*1\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        (
            "XADD s MAXLEN 1 MINID 1 * a 1",
            "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible\r\n",
        ),
        ("XADD s MAXLEN -1 * a 1", "-ERR The MAXLEN argument must be >= 0.\r\n"),
        (
            "XADD s MAXLEN 1 LIMIT 3 * a 1",
            "-ERR syntax error, LIMIT cannot be used without the special ~ option\r\n",
        ),
        (
            "XADD s LIMIT 3 * a 1",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n",
        ),
        (
            "XADD full 18446744073709551615-18446744073709551615 a 1",
            "$41\r\n18446744073709551615-18446744073709551615\r\n",
        ),
        (
            "XADD full * a 1",
            "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n",
        ),
        ("SET t v", "+OK\r\n"),
        ("XADD t * a 1", WRONG),
        ("XLEN t", WRONG),
    ]);
    let reply = tester.run("XADD auto * a 1");
    let now = braid_base::clock::unix_ms();
    let ms: i64 =
        reply.lines().nth(1).and_then(|id| id.strip_suffix("-0")).expect("an ID").parse().expect("a time");
    assert!((now - ms).abs() < 10_000, "{ms} at {now}");
}

#[test]
fn trimming_and_deleting() {
    let mut tester = Tester::with("stream-node-max-entries 10");
    for id in 1..=100 {
        tester.run(&format!("XADD s {id} a {id}"));
    }
    tester.check(&[
        ("XTRIM s MAXLEN ~ 55", ":40\r\n"),
        ("XTRIM s MAXLEN ~ 0 LIMIT 25", ":20\r\n"),
        ("XTRIM s MINID 95", ":34\r\n"),
        ("XTRIM s MAXLEN = 5", ":1\r\n"),
        ("XTRIM s MAXLEN 5", ":0\r\n"),
        ("XTRIM none MAXLEN 5", ":0\r\n"),
        ("XTRIM s LIMIT 5 x", "-ERR syntax error\r\n"),
        ("XTRIM s MAXLEN", "-ERR wrong number of arguments for 'xtrim' command\r\n"),
        ("XTRIM s MAXLEN x", "-ERR value is not an integer or out of range\r\n"),
        ("XDEL s 96 97-0 1", ":2\r\n"),
        ("XDEL s 98 x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XLEN s", ":3\r\n"),
        ("XDEL s 98 99 100", ":3\r\n"),
        ("EXISTS s", ":1\r\n"),
        ("XDEL none 1", ":0\r\n"),
        ("XSETID s 99", "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id\r\n"),
        ("XSETID s 200 ENTRIESADDED 150 MAXDELETEDID 120", "+OK\r\n"),
        ("XADD s * a 1 b", "-ERR wrong number of arguments for 'xadd' command\r\n"),
        ("XADD s 200-* a 1", "$5\r\n200-1\r\n"),
        ("XSETID s 200-0", "-ERR The ID specified in XSETID is smaller than the target stream top item\r\n"),
        (
            "XSETID s 300 ENTRIESADDED 0",
            "-ERR The entries_added specified in XSETID is smaller than the target stream length\r\n",
        ),
        (
            "XSETID s 300 MAXDELETEDID 400",
            "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id\r\n",
        ),
        ("XSETID s 300 ENTRIESADDED -1", "-ERR entries_added must be positive\r\n"),
        ("XSETID none 1", "-ERR no such key\r\n"),
    ]);
}

#[test]
fn ranges() {
    let first = "*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    let second = "*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\na\r\n$1\r\n2\r\n";
    let third = "*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\nb\r\n$3\r\n3.5\r\n";
    check(&[
        ("XADD s 1-1 a 1", "$3\r\n1-1\r\n"),
        ("XADD s 1-2 a 2", "$3\r\n1-2\r\n"),
        ("XADD s 2-0 b 3.5", "$3\r\n2-0\r\n"),
        ("XRANGE s - +", &format!("*3\r\n{first}{second}{third}")),
        ("XREVRANGE s + - COUNT 2", &format!("*2\r\n{third}{second}")),
        ("XRANGE s 1 1", &format!("*2\r\n{first}{second}")),
        ("XRANGE s (1-1 (2-0", &format!("*1\r\n{second}")),
        ("XRANGE s 3 9", "*0\r\n"),
        ("XRANGE s - + COUNT 0", "*-1\r\n"),
        ("XRANGE none - +", "*0\r\n"),
        ("XRANGE s - + COUNT", "-ERR syntax error\r\n"),
        ("XRANGE s (- +", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        (
            "XRANGE s (18446744073709551615-18446744073709551615 +",
            "-ERR invalid start ID for the interval\r\n",
        ),
        ("XRANGE s - (0-0", "-ERR invalid end ID for the interval\r\n"),
        ("XREAD COUNT 1 STREAMS s none 1-1 0", &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{second}")),
        ("XREAD STREAMS none 0", "*-1\r\n"),
        (
            "XREAD STREAMS s >",
            "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
             option.\r\n",
        ),
        (
            "XREAD STREAMS s 0 t",
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be \
             specified.\r\n",
        ),
        ("XREAD COUNT 1 2 3", "-ERR syntax error\r\n"),
        (
            "XREAD NOACK STREAMS s 0",
            "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.\r\n",
        ),
        ("XREAD BLOCK -1 STREAMS s 0", "-ERR timeout is negative\r\n"),
        ("XREAD BLOCK x STREAMS s 0", "-ERR timeout is not an integer or out of range\r\n"),
    ]);
    check_resp3(&[
        ("XADD s 1-1 a 1", "$3\r\n1-1\r\n"),
        ("XREAD STREAMS s 0", &format!("%1\r\n$1\r\ns\r\n*1\r\n{first}")),
        ("XREAD STREAMS s 9", "_\r\n"),
    ]);
}

#[test]
fn groups() {
    let first = "*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    let second = "*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\na\r\n$1\r\n2\r\n";
    let no_key = "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want \
     to use the \
                  MKSTREAM option to create an empty stream automatically.\r\n";
    check(&[
        ("XGROUP CREATE s g $", no_key),
        ("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n"),
        ("XGROUP CREATE s g $", "-BUSYGROUP Consumer Group name already exists\r\n"),
        ("XADD s 1-0 a 1", "$3\r\n1-0\r\n"),
        ("XADD s 2-0 a 2", "$3\r\n2-0\r\n"),
        ("XREADGROUP GROUP g STREAMS COUNT 1 STREAMS s >", &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{first}")),
        ("XREADGROUP GROUP g bob STREAMS s >", &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{second}")),
        ("XREADGROUP GROUP g bob STREAMS s >", "*-1\r\n"),
        ("XREADGROUP GROUP g bob STREAMS s 0", &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{second}")),
        (
            "XPENDING s g",
            "*4\r\n:2\r\n$3\r\n1-0\r\n$3\r\n2-0\r\n*2\r\n*2\r\n$7\r\nSTREAMS\r\n$1\r\n1\r\n*2\r\n$3\r\n\
             bob\r\n$1\r\n1\r\n",
        ),
        ("XPENDING s g IDLE 100000 - + 10", "*0\r\n"),
        ("XPENDING s g - + 10 nobody", "*0\r\n"),
        ("XPENDING s g - +", "-ERR syntax error\r\n"),
        ("XACK s g 1-0 9-0", ":1\r\n"),
        ("XACK none g 1-0", ":0\r\n"),
        ("XACK s g x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XDEL s 2-0", ":1\r\n"),
        ("XREADGROUP GROUP g bob STREAMS s 0", "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n2-0\r\n*-1\r\n"),
        ("XAUTOCLAIM s g eve 0 -", "*3\r\n$3\r\n0-0\r\n*0\r\n*1\r\n$3\r\n2-0\r\n"),
        (
            "XREADGROUP GROUP x bob STREAMS s >",
            "-NOGROUP No such key 's' or consumer group 'x' in XREADGROUP with GROUP option\r\n",
        ),
        ("XREADGROUP STREAMS s s s > > >", "-ERR Missing GROUP option for XREADGROUP\r\n"),
        ("XGROUP SETID s x 0", "-NOGROUP No such consumer group 'x' for key name 's'\r\n"),
        ("XGROUP SETID s g 0 ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1\r\n"),
        ("XGROUP SETID s g 0", "+OK\r\n"),
        ("XREADGROUP GROUP g eve NOACK STREAMS s >", &format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{first}")),
        ("XPENDING s g", "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"),
        ("XGROUP CREATECONSUMER s g eve", ":0\r\n"),
        ("XGROUP CREATECONSUMER s g new", ":1\r\n"),
        ("XGROUP DELCONSUMER s g new", ":0\r\n"),
        ("XGROUP DESTROY s g", ":1\r\n"),
        ("XGROUP DESTROY s g", ":0\r\n"),
    ]);
}

#[test]
fn claiming() {
    let first = "*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("XADD s 1-0 a 1", "$3\r\n1-0\r\n"),
        ("XADD s 2-0 a 2", "$3\r\n2-0\r\n"),
        ("XGROUP CREATE s g 0", "+OK\r\n"),
        ("XCLAIM s g bob 0 1-0", "*0\r\n"),
        ("XCLAIM s g bob 0 1-0 FORCE RETRYCOUNT 7 IDLE 5000", &format!("*1\r\n{first}")),
        ("XCLAIM s g eve 10000000 1-0", "*0\r\n"),
        ("XCLAIM s g eve 1000 1-0 JUSTID", "*1\r\n$3\r\n1-0\r\n"),
        ("XCLAIM s g eve x 1-0", "-ERR Invalid min-idle-time argument for XCLAIM\r\n"),
        ("XCLAIM s g eve 0 1-0 NOSUCH", "-ERR Unrecognized XCLAIM option 'NOSUCH'\r\n"),
        ("XCLAIM s x eve 0 1-0", "-NOGROUP No such key 's' or consumer group 'x'\r\n"),
        ("XCLAIM s g eve 0 1-0 LASTID 2-0", &format!("*1\r\n{first}")),
        ("XREADGROUP GROUP g bob STREAMS s >", "*-1\r\n"),
        ("XAUTOCLAIM s g bob 0 0 COUNT 1 JUSTID", "*3\r\n$3\r\n0-0\r\n*1\r\n$3\r\n1-0\r\n*0\r\n"),
        ("XAUTOCLAIM s g bob 0 0 COUNT 0", "-ERR COUNT must be > 0\r\n"),
        ("XAUTOCLAIM s g bob x 0", "-ERR Invalid min-idle-time argument for XAUTOCLAIM\r\n"),
    ]);
    // Delivered seven times, and once more when eve claimed it without JUSTID.
    let pending = tester.run("XPENDING s g - + 10 bob");
    assert!(
        pending.starts_with("*1\r\n*4\r\n$3\r\n1-0\r\n$3\r\nbob\r\n:") && pending.ends_with(":8\r\n"),
        "{pending}"
    );
}

#[test]
fn descriptions() {
    let mut tester = Tester::new();
    tester.check(&[
        ("XADD s 1-0 a 1", "$3\r\n1-0\r\n"),
        ("XADD s 2-0 a 2", "$3\r\n2-0\r\n"),
        ("XGROUP CREATE s g 1-0", "+OK\r\n"),
        (
            "XINFO GROUPS s",
            "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:0\r\n$7\r\npending\r\n:0\r\n\
             $17\r\nlast-delivered-id\r\n\
             $3\r\n1-0\r\n$12\r\nentries-read\r\n$-1\r\n$3\r\nlag\r\n:1\r\n",
        ),
        ("XINFO STREAM none", "-ERR no such key\r\n"),
        ("XINFO CONSUMERS s x", "-NOGROUP No such consumer group 'x' for key name 's'\r\n"),
        ("XINFO CONSUMERS s g", "*0\r\n"),
    ]);
    let reply = tester.run("XINFO STREAM s");
    assert!(reply.starts_with(
        "*20\r\n$6\r\nlength\r\n:2\r\n$15\r\nradix-tree-keys\r\n:1\r\n$16\r\nradix-tree-nodes\r\n:2\r\n"
    ));
    assert!(reply.ends_with("$10\r\nlast-entry\r\n*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\na\r\n$1\r\n2\r\n"));
    tester.run("XREADGROUP GROUP g bob STREAMS s >");
    let reply = tester.run("XINFO STREAM s FULL COUNT 1");
    assert!(reply.starts_with("*18\r\n"), "{reply}");
    assert!(
        reply.contains("$7\r\nentries\r\n*1\r\n") && reply.contains("$11\r\nactive-time\r\n:1"),
        "{reply}"
    );
    let reply = tester.run("XINFO CONSUMERS s g");
    assert!(
        reply.starts_with("*1\r\n*8\r\n$4\r\nname\r\n$3\r\nbob\r\n$7\r\npending\r\n:1\r\n$4\r\nidle\r\n:"),
        "{reply}"
    );
    assert!(
        tester.run("XINFO STREAM s HALF").starts_with("-ERR unknown subcommand or wrong number of arguments")
    );
    assert!(tester.run("XGROUP HELP").starts_with("*17\r\n+XGROUP <subcommand>"));
    assert!(tester.run("XINFO HELP").starts_with("*9\r\n+XINFO <subcommand>"));
}

/// `+` returns only the last entry; without one it waits for the next.
#[test]
fn reading_the_last_entry() {
    let mut tester = Tester::new();
    let last = |id: &str, value: u8| {
        format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\na\r\n$1\r\n{value}\r\n")
    };
    tester.check(&[
        ("XREAD STREAMS s +", "*-1\r\n"),
        ("XADD s 1-1 a 1", "$3\r\n1-1\r\n"),
        ("XADD s 2-0 a 2", "$3\r\n2-0\r\n"),
        ("XREAD STREAMS s +", &last("2-0", 2)),
        ("XREAD COUNT 5 BLOCK 1 STREAMS s +", &last("2-0", 2)),
        ("XDEL s 2-0", ":1\r\n"),
        ("XREAD STREAMS none s + +", &last("1-1", 1)),
        ("XDEL s 1-1", ":1\r\n"),
        ("XREAD STREAMS s +", "*-1\r\n"),
        ("XGROUP CREATE s g 0", "+OK\r\n"),
        (
            "XREADGROUP GROUP g c STREAMS s +",
            "-ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.\r\n",
        ),
    ]);
}

/// A stream with entries 1-0 to 5-0 and groups `g` and `h`: bob of `g` has received all and
/// acknowledged 1-0 and 2-0, eve of `h` has received 1-0 to 3-0 and acknowledged 1-0.
fn with_two_groups() -> Tester {
    let mut tester = Tester::new();
    for id in 1..=5 {
        tester.run(&format!("XADD s {id} a {id}"));
    }
    for line in [
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 0",
        "XREADGROUP GROUP g bob STREAMS s >",
        "XREADGROUP GROUP h eve COUNT 3 STREAMS s >",
        "XACK s g 1-0 2-0",
        "XACK s h 1-0",
    ] {
        assert!(!tester.run(line).starts_with('-'), "{line}");
    }
    tester
}

/// The IDs of a stream's entries, or of a group's pending ones.
fn ids(tester: &mut Tester, line: &str) -> Vec<String> {
    let reply = tester.run(line);
    reply.lines().filter(|line| line.ends_with("-0") && line.len() == 3).map(str::to_owned).collect()
}

#[track_caller]
fn assert_left(tester: &mut Tester, entries: &[&str], of_g: &[&str], of_h: &[&str]) {
    assert_eq!(ids(tester, "XRANGE s - +"), entries);
    assert_eq!(ids(tester, "XPENDING s g - + 10"), of_g);
    assert_eq!(ids(tester, "XPENDING s h - + 10"), of_h);
}

#[test]
fn deleting_with_references() {
    let mut tester = with_two_groups();
    tester.check(&[
        ("XDELEX s IDS 2 3-0 9-0", "*2\r\n:1\r\n:-1\r\n"),
        ("XDELEX s keepref ids 2 4 4", "*2\r\n:1\r\n:-1\r\n"),
    ]);
    assert_left(&mut tester, &["1-0", "2-0", "5-0"], &["3-0", "4-0", "5-0"], &["2-0", "3-0"]);
    // References to entries that no longer exist go as well.
    tester.check(&[("XDELEX s DELREF IDS 3 2-0 3-0 4-0", "*3\r\n:1\r\n:-1\r\n:-1\r\n")]);
    assert_left(&mut tester, &["1-0", "5-0"], &["5-0"], &[]);

    let mut tester = with_two_groups();
    tester.check(&[
        // Acknowledged by both, pending in one, in both, not received by one, later than both read.
        ("XDELEX s ACKED IDS 5 1-0 2-0 3-0 4-0 9-0", "*5\r\n:1\r\n:2\r\n:2\r\n:2\r\n:2\r\n"),
        ("XACK s h 2-0", ":1\r\n"),
        ("XDELEX s IDS 1 2-0 ACKED", "*1\r\n:1\r\n"),
    ]);
    assert_left(&mut tester, &["3-0", "4-0", "5-0"], &["3-0", "4-0", "5-0"], &["3-0"]);
    // Without groups nothing is needed.
    tester.check(&[
        ("XADD t 1 a 1", "$3\r\n1-0\r\n"),
        ("XDELEX t ACKED IDS 1 1", "*1\r\n:1\r\n"),
        ("XDELEX none ACKED IDS 2 1 2", "*2\r\n:-1\r\n:-1\r\n"),
        ("EXISTS none", ":0\r\n"),
    ]);
}

#[test]
fn acknowledging_and_deleting() {
    let mut tester = with_two_groups();
    tester.check(&[
        // Not pending in the group: the entry stays.
        ("XACKDEL s g IDS 2 1-0 9-0", "*2\r\n:-1\r\n:-1\r\n"),
        ("XACKDEL s g IDS 2 3-0 3-0", "*2\r\n:1\r\n:-1\r\n"),
    ]);
    assert_left(&mut tester, &["1-0", "2-0", "4-0", "5-0"], &["4-0", "5-0"], &["2-0", "3-0"]);
    tester.check(&[
        ("XACKDEL s h DELREF IDS 1 2-0", "*1\r\n:1\r\n"),
        // Pending elsewhere only, its entry gone: nothing happens.
        ("XACKDEL s g DELREF IDS 1 3-0", "*1\r\n:-1\r\n"),
    ]);
    assert_left(&mut tester, &["1-0", "4-0", "5-0"], &["4-0", "5-0"], &["3-0"]);

    let mut tester = with_two_groups();
    // The other group has it pending, or has not received it.
    tester.check(&[("XACKDEL s g ACKED IDS 2 3-0 4-0", "*2\r\n:2\r\n:2\r\n")]);
    assert_left(&mut tester, &["1-0", "2-0", "3-0", "4-0", "5-0"], &["5-0"], &["2-0", "3-0"]);
    tester.check(&[
        ("XACKDEL s h ACKED IDS 2 2-0 3-0", "*2\r\n:1\r\n:1\r\n"),
        // Deleted while pending: acknowledged, and nothing is left to delete.
        ("XDEL s 5-0", ":1\r\n"),
        ("XACKDEL s g IDS 1 5-0", "*1\r\n:1\r\n"),
    ]);
    assert_left(&mut tester, &["1-0", "4-0"], &[], &[]);
    tester.check(&[
        ("XACKDEL s nosuch IDS 1 1-0", "*1\r\n:-1\r\n"),
        ("XACKDEL none g IDS 2 1 2", "*2\r\n:-1\r\n:-1\r\n"),
        ("EXISTS none", ":0\r\n"),
    ]);
}

#[test]
fn wrong_lists_of_ids() {
    let count = "-ERR Number of IDs must be a positive integer\r\n";
    let mismatch = "-ERR The `numids` parameter must match the number of arguments\r\n";
    let syntax = "-ERR syntax error\r\n";
    let id = "-ERR Invalid stream ID specified as stream command argument\r\n";
    let mut tester = with_two_groups();
    for head in ["XDELEX s", "XACKDEL s g"] {
        for (rest, expected) in [
            ("IDS 0 1-0", count),
            ("IDS -1 1-0", count),
            ("IDS x 1-0", count),
            ("IDS 99999999999999999999 1-0", count),
            ("IDS 9223372036854775807 1-0", mismatch),
            ("IDS 2 1-0", mismatch),
            ("IDS 1 1-0 2-0", syntax),
            ("KEEPREF ACKED IDS 1 1-0", syntax),
            ("NOREF IDS 1 1-0", syntax),
            ("KEEPREF DELREF ACKED", syntax),
            ("1-0 2-0 3-0", syntax),
            ("IDS 2 1-0 x", id),
        ] {
            let line = format!("{head} {rest}");
            assert_eq!(tester.run(&line), expected, "{line}");
        }
    }
    tester.check(&[
        ("XDELEX s IDS 1", "-ERR wrong number of arguments for 'xdelex' command\r\n"),
        ("XACKDEL s g IDS 1", "-ERR wrong number of arguments for 'xackdel' command\r\n"),
        ("SET t v", "+OK\r\n"),
        ("XDELEX t IDS 1 1-0", WRONG),
        ("XACKDEL t g IDS 1 1-0", WRONG),
    ]);
    assert_left(&mut tester, &["1-0", "2-0", "3-0", "4-0", "5-0"], &["3-0", "4-0", "5-0"], &["2-0", "3-0"]);
}

/// As in Redis 8.2, the last list of IDs counts.
#[test]
fn two_lists_of_ids() {
    let mut tester = with_two_groups();
    tester.check(&[("XDELEX s IDS 1 1-0 IDS 1 2-0", "*1\r\n:1\r\n")]);
    assert_eq!(ids(&mut tester, "XRANGE s - +"), ["1-0", "3-0", "4-0", "5-0"]);
}

#[test]
fn trimming_with_references() {
    let mut tester = with_two_groups();
    tester.check(&[("XTRIM s MAXLEN 3 KEEPREF", ":2\r\n")]);
    assert_left(&mut tester, &["3-0", "4-0", "5-0"], &["3-0", "4-0", "5-0"], &["2-0", "3-0"]);
    // 2-0 was removed earlier, so its reference stays.
    tester.check(&[("XTRIM s DELREF MINID 5", ":2\r\n")]);
    assert_left(&mut tester, &["5-0"], &["5-0"], &["2-0"]);

    let mut tester = with_two_groups();
    tester.check(&[
        ("XTRIM s MAXLEN 0 ACKED", ":1\r\n"),
        ("XACK s g 3-0", ":1\r\n"),
        ("XACK s h 3-0", ":1\r\n"),
        // From between others; 2-0 is pending in one group.
        ("XTRIM s MINID = 5 ACKED", ":1\r\n"),
        ("XTRIM s MAXLEN 0 ACKED DELREF", "-ERR syntax error\r\n"),
        (
            "XTRIM s ACKED LIMIT 3",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n",
        ),
        ("XTRIM s ACKED x", "-ERR syntax error\r\n"),
    ]);
    assert_left(&mut tester, &["2-0", "4-0", "5-0"], &["4-0", "5-0"], &["2-0"]);
    tester.check(&[
        // Stops at the length, although another entry could go.
        ("XACK s h 2-0", ":1\r\n"),
        ("XTRIM s MAXLEN 3 ACKED", ":0\r\n"),
        ("XADD s ACKED MAXLEN 3 6 a 6", "$3\r\n6-0\r\n"),
    ]);
    assert_left(&mut tester, &["4-0", "5-0", "6-0"], &["4-0", "5-0"], &[]);
    tester.check(&[("XADD s DELREF MAXLEN 1 7 a 7", "$3\r\n7-0\r\n")]);
    assert_left(&mut tester, &["7-0"], &[], &[]);
    // Without groups, the options have no effect.
    tester.check(&[
        ("XADD t 1 a 1", "$3\r\n1-0\r\n"),
        ("XADD t ACKED MAXLEN 1 2 a 1", "$3\r\n2-0\r\n"),
        ("XTRIM t MAXLEN 0 ACKED", ":1\r\n"),
        ("XADD t NOMKSTREAM DELREF 3 a 1", "$3\r\n3-0\r\n"),
    ]);
}

/// By whole blocks with `~`, and at most as many as LIMIT allows.
#[test]
fn approximate_trimming_with_references() {
    for (policy, pending) in [("DELREF", ":3"), ("KEEPREF", ":10")] {
        let mut tester = Tester::with("stream-node-max-entries 4");
        (1..=10).for_each(|id| drop(tester.run(&format!("XADD s {id} a {id}"))));
        tester.check(&[("XGROUP CREATE s g 0", "+OK\r\n")]);
        tester.run("XREADGROUP GROUP g bob STREAMS s >");
        tester.check(&[
            ("XTRIM s MAXLEN ~ 5 LIMIT 3", ":0\r\n"),
            (&format!("XTRIM s MAXLEN ~ 5 {policy}"), ":4\r\n"),
            (&format!("XTRIM s MAXLEN = 3 {policy}"), ":3\r\n"),
        ]);
        let summary = tester.run("XPENDING s g");
        assert!(summary.starts_with(&format!("*4\r\n{pending}\r\n")), "{policy}: {summary}");
    }
    let mut tester = Tester::new();
    (1..=10).for_each(|id| drop(tester.run(&format!("XADD s {id} a {id}"))));
    tester.check(&[("XGROUP CREATE s g 10", "+OK\r\n"), ("XTRIM s MAXLEN ~ 0 LIMIT 4 ACKED", ":4\r\n")]);
}

/// An entry in XREADGROUP's reply with CLAIM; the idle time is compared separately.
fn delivery(id: u32, idle: &str, deliveries: u32) -> String {
    let digits = id.to_string();
    format!(
        "*4\r\n${}\r\n{id}-0\r\n*2\r\n$1\r\na\r\n${}\r\n{id}\r\n:{idle}\r\n:{deliveries}\r\n",
        digits.len() + 2,
        digits.len()
    )
}

/// Replaces the idle times, the third elements, by `*` if they are near the expected one.
fn without_idle_times(reply: &str, idle: &[i64]) -> String {
    let mut numbers = 0;
    let lines = reply.split_inclusive("\r\n").map(|line| {
        let Some(number) = line.strip_prefix(':') else { return line.to_owned() };
        numbers += 1;
        if numbers % 2 == 0 {
            return line.to_owned();
        }
        let number: i64 = number.trim_end().parse().expect("a number");
        let expected = idle[numbers / 2];
        let near = (expected..expected + 5000).contains(&number) && (expected > 0 || number == 0);
        if near { ":*\r\n".to_owned() } else { line.to_owned() }
    });
    lines.collect()
}

#[test]
fn reading_idle_entries() {
    let mut tester = Tester::new();
    for id in 1..=5 {
        tester.run(&format!("XADD s {id} a {id}"));
    }
    tester.run("XGROUP CREATE s g 0");
    tester.run("XREADGROUP GROUP g bob COUNT 3 STREAMS s >");
    // 2-0 has been idle for longer than 1-0; 3-0 has just been delivered.
    tester.run("XCLAIM s g bob 0 1-0 IDLE 20000 RETRYCOUNT 4 JUSTID");
    tester.run("XCLAIM s g bob 0 2-0 IDLE 30000 RETRYCOUNT 6 JUSTID");
    let reply = tester.run("XREADGROUP GROUP g eve CLAIM 15000 COUNT 3 STREAMS s >");
    let entries = [delivery(2, "*", 6), delivery(1, "*", 4), delivery(4, "*", 0)].concat();
    assert_eq!(
        without_idle_times(&reply, &[30_000, 20_000, 0]),
        format!("*1\r\n*2\r\n$1\r\ns\r\n*3\r\n{entries}")
    );
    // They now belong to eve, as delivered once more.
    let pending = tester.run("XPENDING s g - + 10 eve");
    for (id, count) in [(1, 5), (2, 7), (4, 1)] {
        assert!(pending.contains(&format!("{id}-0\r\n$3\r\neve\r\n:")), "{pending}");
        assert!(pending.contains(&format!(":{count}\r\n")), "{pending}");
    }
    // Nothing has been idle for long; new entries come, without becoming pending.
    let reply = tester.run("XREADGROUP GROUP g bob NOACK CLAIM 15000 STREAMS s >");
    assert_eq!(
        without_idle_times(&reply, &[0]),
        format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{}", delivery(5, "*", 0))
    );
    assert_eq!(ids(&mut tester, "XPENDING s g - + 10 bob"), ["3-0"]);
    tester.check(&[("XREADGROUP GROUP g bob CLAIM 15000 STREAMS s >", "*-1\r\n")]);
    // NOACK does not apply to claimed entries.
    tester.run("XCLAIM s g bob 0 3-0 IDLE 20000 JUSTID");
    let reply = tester.run("XREADGROUP GROUP g eve NOACK CLAIM 15000 STREAMS s >");
    assert!(reply.contains("3-0"), "{reply}");
    assert_eq!(ids(&mut tester, "XPENDING s g - + 10 eve"), ["1-0", "2-0", "3-0", "4-0"]);
    // A consumer's own history, in its usual form.
    let reply = tester.run("XREADGROUP GROUP g eve CLAIM 0 COUNT 1 STREAMS s 0");
    assert_eq!(reply, "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
}

#[test]
fn idle_entries_that_were_deleted() {
    let mut tester = Tester::new();
    tester.check(&[
        ("XADD s 1 a 1", "$3\r\n1-0\r\n"),
        ("XADD s 2 a 2", "$3\r\n2-0\r\n"),
        ("XGROUP CREATE s g 0", "+OK\r\n"),
    ]);
    tester.run("XREADGROUP GROUP g bob STREAMS s >");
    tester.check(&[("XDEL s 1-0", ":1\r\n")]);
    let reply = tester.run("XREADGROUP GROUP g eve CLAIM 0 COUNT 1 STREAMS s >");
    assert!(!reply.contains("1-0") && reply.contains("2-0"), "{reply}");
    assert_eq!(ids(&mut tester, "XPENDING s g - + 10"), ["2-0"]);
    // The last one: there is nothing to reply, and nothing stays pending.
    tester.check(&[("XDEL s 2-0", ":1\r\n"), ("XREADGROUP GROUP g bob CLAIM 0 STREAMS s >", "*-1\r\n")]);
    assert_eq!(ids(&mut tester, "XPENDING s g - + 10"), [""; 0]);
}

#[test]
fn refused_idle_times() {
    let wrong = "-ERR Invalid min-idle-time argument for XREADGROUP\r\n";
    check(&[
        ("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n"),
        ("XREADGROUP GROUP g bob CLAIM x STREAMS s >", wrong),
        ("XREADGROUP GROUP g bob CLAIM -1 STREAMS s >", wrong),
        ("XREADGROUP GROUP g bob CLAIM 9223372036854775807 STREAMS s >", "*-1\r\n"),
        ("XREADGROUP GROUP g bob STREAMS s > CLAIM", UNBALANCED),
        ("XREADGROUP GROUP CLAIM CLAIM STREAMS s >", NO_GROUP),
        (
            "XREAD CLAIM 1 STREAMS s 0",
            "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.\r\n",
        ),
        ("COMMAND GETKEYS XREADGROUP GROUP g c CLAIM 5 STREAMS a b > >", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    ]);
}

const UNBALANCED: &str = "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be \
                          specified.\r\n";
const NO_GROUP: &str =
    "-NOGROUP No such key 's' or consumer group 'CLAIM' in XREADGROUP with GROUP option\r\n";

/// Pending entries are no news to watchers, deleted ones are.
#[test]
fn watchers_of_streams() {
    let mut tester = with_two_groups();
    for (line, changes) in [
        ("XDELEX s ACKED IDS 1 3-0", false),
        ("XDELEX s IDS 1 3-0", true),
        ("XDELEX s DELREF IDS 1 3-0", false),
        ("XACKDEL s g ACKED IDS 1 4-0", false),
        ("XACKDEL s g IDS 1 5-0", true),
        ("XREADGROUP GROUP h bob CLAIM 0 STREAMS s >", false),
        ("XTRIM s MAXLEN 0 ACKED", true),
        ("XTRIM s MAXLEN 0 ACKED", false),
    ] {
        let flag = braid_keyspace::txn::new_watch_flag();
        tester.with_keys(&[b"s"], |txn| txn.watch(b"s", &flag));
        tester.run(line);
        tester.with_keys(&[b"s"], |txn| txn.unwatch(b"s", &flag));
        assert_eq!(braid_keyspace::txn::is_raised(&flag), changes, "{line}");
    }
}
