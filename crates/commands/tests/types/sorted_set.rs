// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the sorted set commands.

use braid_commands::testing::{Tester, check, check_resp3};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn adding() {
    check(&[
        ("ZADD z 1 a 2 b 3 c", ":3\r\n"),
        ("ZADD z CH 5 a 2 b 9 d", ":2\r\n"),
        ("ZADD z NX 7 a 7 e", ":1\r\n"),
        ("ZADD z XX CH 8 a 8 f", ":1\r\n"),
        ("ZADD z GT CH 1 a 9 b", ":1\r\n"),
        ("ZADD z LT CH 1 a 99 b", ":1\r\n"),
        ("ZADD z INCR 1.5 a", "$3\r\n2.5\r\n"),
        ("ZADD z NX INCR 1.5 a", "$-1\r\n"),
        ("ZADD none XX 1 a", ":0\r\n"),
        ("ZADD none XX INCR 1 a", "$-1\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("ZINCRBY z -2.5 a", "$1\r\n0\r\n"),
        ("ZINCRBY new 3 a", "$1\r\n3\r\n"),
        ("ZCARD z", ":5\r\n"),
        ("ZADD z 1 a 2", "-ERR syntax error\r\n"),
        ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible\r\n"),
        ("ZADD z NX GT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n"),
        ("ZADD z LT GT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n"),
        ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair\r\n"),
        ("ZADD z x a", "-ERR value is not a valid float\r\n"),
        ("ZADD z nan a", "-ERR value is not a valid float\r\n"),
        ("ZADD z inf a", ":0\r\n"),
        ("ZINCRBY z -inf a", "-ERR resulting score is not a number (NaN)\r\n"),
        ("ZSCORE z a", "$3\r\ninf\r\n"),
        ("SET s v", "+OK\r\n"),
        ("ZADD s 1 a", WRONG),
        ("ZADD s XX 1 a", WRONG),
        ("ZCARD s", WRONG),
    ]);
}

#[test]
fn forms_follow_the_limits() {
    let mut tester = Tester::with("zset-max-listpack-entries 2\nzset-max-listpack-value 4");
    tester.check(&[("ZADD z 1 a 2 b", ":2\r\n")]);
    assert_eq!(tester.encoding("z"), "listpack");
    tester.check(&[
        ("ZADD z 3 c", ":1\r\n"),
        ("ZADD long 1 abcde", ":1\r\n"),
        ("ZADD many 1 a 2 b 3 c", ":3\r\n"),
    ]);
    assert_eq!(tester.encoding("z"), "skiplist");
    assert_eq!(tester.encoding("long"), "skiplist");
    assert_eq!(tester.encoding("many"), "skiplist");
    tester.check(&[("ZRANGESTORE few many 0 1", ":2\r\n"), ("ZUNIONSTORE one 1 long", ":1\r\n")]);
    assert_eq!(tester.encoding("few"), "listpack");
    assert_eq!(tester.encoding("one"), "skiplist");
}

#[test]
fn scores_and_ranks() {
    check(&[
        ("ZADD z 1 a 2.5 b 3 c", ":3\r\n"),
        ("ZSCORE z b", "$3\r\n2.5\r\n"),
        ("ZSCORE z none", "$-1\r\n"),
        ("ZMSCORE z a none c", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n"),
        ("ZMSCORE none a", "*1\r\n$-1\r\n"),
        ("ZRANK z a", ":0\r\n"),
        ("ZREVRANK z a", ":2\r\n"),
        ("ZRANK z none", "$-1\r\n"),
        ("ZRANK z none WITHSCORE", "*-1\r\n"),
        ("ZREVRANK z b WITHSCORE", "*2\r\n:1\r\n$3\r\n2.5\r\n"),
        ("ZRANK z a b", "-ERR syntax error\r\n"),
        ("ZRANK z a WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command\r\n"),
        ("ZCOUNT z (1 +inf", ":2\r\n"),
        ("ZCOUNT z 3 1", ":0\r\n"),
        ("ZCOUNT z x 1", "-ERR min or max is not a float\r\n"),
        ("ZLEXCOUNT z - +", ":3\r\n"),
        ("ZLEXCOUNT z [b (c", ":1\r\n"),
        ("ZLEXCOUNT z b c", "-ERR min or max not valid string range item\r\n"),
    ]);
    check_resp3(&[
        ("ZADD z 1 a 2.5 b", ":2\r\n"),
        ("ZSCORE z b", ",2.5\r\n"),
        ("ZRANK z none WITHSCORE", "_\r\n"),
        ("ZMSCORE z a none", "*2\r\n,1\r\n_\r\n"),
    ]);
}

#[test]
fn ranges() {
    check(&[
        ("ZADD z 1 a 2 b 3 c 4 d", ":4\r\n"),
        ("ZRANGE z 0 -1", "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZRANGE z 1 1 WITHSCORES", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZRANGE z 0 1 REV", "*2\r\n$1\r\nd\r\n$1\r\nc\r\n"),
        ("ZREVRANGE z -1 -1", "*1\r\n$1\r\na\r\n"),
        ("ZRANGE z 5 9", "*0\r\n"),
        ("ZRANGE z -100 -4", "*1\r\n$1\r\na\r\n"),
        ("ZRANGE z (1 3 BYSCORE", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGE z 3 (1 BYSCORE REV LIMIT 1 5", "*1\r\n$1\r\nb\r\n"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT 1 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT -1 2", "*0\r\n"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT 3 -1 WITHSCORES", "*2\r\n$1\r\nd\r\n$1\r\n4\r\n"),
        ("ZREVRANGEBYSCORE z +inf 2 LIMIT 0 1", "*1\r\n$1\r\nd\r\n"),
        ("ZRANGE z [b + BYLEX", "*3\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZREVRANGEBYLEX z + [b LIMIT 2 9", "*1\r\n$1\r\nb\r\n"),
        ("ZRANGEBYLEX z - (b", "*1\r\n$1\r\na\r\n"),
        ("ZRANGE z + - BYLEX", "*0\r\n"),
        (
            "ZRANGE z 0 -1 LIMIT 1 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX\r\n",
        ),
        (
            "ZRANGE z - + BYLEX WITHSCORES",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX\r\n",
        ),
        ("ZRANGE z 0 x", "-ERR value is not an integer or out of range\r\n"),
        ("ZREVRANGE z 0 1 REV", "-ERR syntax error\r\n"),
        ("ZRANGE z 0 1 LIMIT 1", "-ERR syntax error\r\n"),
        ("ZRANGESTORE to z 1 2", ":2\r\n"),
        ("ZRANGE to 0 -1 WITHSCORES", "*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("ZRANGESTORE to z 3 4 BYSCORE REV", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("ZRANGESTORE to z 0 1 WITHSCORES", "-ERR syntax error\r\n"),
    ]);
    check_resp3(&[
        ("ZADD z 1 a 2 b", ":2\r\n"),
        ("ZRANGE z 0 -1 WITHSCORES", "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
        ("ZPOPMIN z", "*2\r\n$1\r\na\r\n,1\r\n"),
        ("ZPOPMIN z 1", "*1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
    ]);
}

#[test]
fn removing() {
    check(&[
        ("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f", ":6\r\n"),
        ("ZREM z a none", ":1\r\n"),
        ("ZREMRANGEBYSCORE z 2 (3", ":1\r\n"),
        ("ZREMRANGEBYRANK z -1 -1", ":1\r\n"),
        ("ZREMRANGEBYLEX z [d [d", ":1\r\n"),
        ("ZPOPMAX z 0", "*0\r\n"),
        ("ZPOPMAX z", "*2\r\n$1\r\ne\r\n$1\r\n5\r\n"),
        ("ZPOPMIN z 5", "*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("EXISTS z", ":0\r\n"),
        ("ZPOPMIN z", "*0\r\n"),
        ("ZPOPMIN z -1", "-ERR value is out of range, must be positive\r\n"),
        ("ZPOPMIN z x", "-ERR value is out of range, must be positive\r\n"),
        ("ZADD z 1 a 2 b 3 c", ":3\r\n"),
        ("ZMPOP 2 none z MIN", "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        (
            "ZMPOP 1 z MAX COUNT 9",
            "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
        ),
        ("ZMPOP 1 z MAX", "*-1\r\n"),
        ("ZMPOP 0 z MAX", "-ERR numkeys should be greater than 0\r\n"),
        ("ZMPOP 1 z MAX COUNT 0", "-ERR count should be greater than 0\r\n"),
        ("ZMPOP 9 z MAX", "-ERR syntax error\r\n"),
        ("ZMPOP 1 z MIDDLE", "-ERR syntax error\r\n"),
        ("ZMPOP 1 z MAX COUNT 1 COUNT 2", "-ERR syntax error\r\n"),
    ]);
}

#[test]
fn watchers_learn_of_changes() {
    let mut tester = Tester::new();
    let other = tester.client();
    tester.check(&[("ZADD z 1 a", ":1\r\n"), ("WATCH z", "+OK\r\n")]);
    tester.run_as(other, "ZADD z 1 a");
    tester.check(&[
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n+PONG\r\n"),
        ("WATCH z", "+OK\r\n"),
    ]);
    tester.run_as(other, "ZPOPMIN z");
    tester.check(&[("MULTI", "+OK\r\n"), ("PING", "+QUEUED\r\n"), ("EXEC", "*-1\r\n")]);
}

#[test]
fn random_members() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ZADD z 1 a 2 b 3 c", ":3\r\n"),
        ("ZRANDMEMBER none", "$-1\r\n"),
        ("ZRANDMEMBER none 3", "*0\r\n"),
        ("ZRANDMEMBER z 0", "*0\r\n"),
        (
            "ZRANDMEMBER z 9 WITHSCORES",
            "*6\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n",
        ),
        ("ZRANDMEMBER z x", "-ERR value is out of range\r\n"),
        ("ZRANDMEMBER z -9223372036854775808", "-ERR value is out of range\r\n"),
        ("ZRANDMEMBER z -9223372036854775807 WITHSCORES", "-ERR value is out of range\r\n"),
        ("ZRANDMEMBER z 1 x", "-ERR syntax error\r\n"),
    ]);
    assert!(tester.run("ZRANDMEMBER z -20").starts_with("*20\r\n"));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        seen.insert(tester.run("ZRANDMEMBER z"));
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn scanning() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ZADD z 1.5 a 2 b", ":2\r\n"),
        ("ZSCAN z 0", "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZSCAN z 0 MATCH b", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZSCAN z 0 NOSCORES", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("ZSCAN none 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("ZSCAN z x", "-ERR invalid cursor\r\n"),
        ("ZSCAN z 0 COUNT 0", "-ERR syntax error\r\n"),
    ]);
    for member in 0..500 {
        tester.run(&format!("ZADD big {member} m{member}"));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = tester.run(&format!("ZSCAN big {cursor} COUNT 50"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        cursor = lines[2].to_owned();
        seen.extend(lines.iter().filter(|line| line.starts_with('m')).map(|line| (*line).to_owned()));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 500);
    // Stock servers write the scores of big sets with 17 digits in this reply.
    tester.check(&[
        ("ZADD z 0.1 c", ":1\r\n"),
        ("ZSCAN z 0 MATCH c", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nc\r\n$3\r\n0.1\r\n"),
        ("ZADD big 0.1 c", ":1\r\n"),
        (
            "ZSCAN big 0 MATCH c COUNT 1000",
            "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nc\r\n$19\r\n0.10000000000000001\r\n",
        ),
        ("ZSCORE big c", "$3\r\n0.1\r\n"),
    ]);
}

#[test]
fn combinations() {
    check(&[
        ("ZADD a 1 x 2 y", ":2\r\n"),
        ("ZADD b 10 y 20 z", ":2\r\n"),
        (
            "ZUNION 2 a b WITHSCORES",
            "*6\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$2\r\n12\r\n$1\r\nz\r\n$2\r\n20\r\n",
        ),
        ("ZUNION 2 a b WEIGHTS 100 1", "*3\r\n$1\r\nz\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("ZINTER 2 a b AGGREGATE MIN WITHSCORES", "*2\r\n$1\r\ny\r\n$1\r\n2\r\n"),
        ("ZINTER 2 a none", "*0\r\n"),
        ("ZDIFF 2 a b WITHSCORES", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"),
        ("ZINTERCARD 2 a b", ":1\r\n"),
        ("ZINTERCARD 2 a a LIMIT 1", ":1\r\n"),
        ("ZINTERCARD 2 a a LIMIT 0", ":2\r\n"),
        ("ZINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative\r\n"),
        ("ZUNIONSTORE to 2 a b AGGREGATE MAX", ":3\r\n"),
        ("ZSCORE to y", "$2\r\n10\r\n"),
        ("ZINTERSTORE a 2 a b WEIGHTS 2 3", ":1\r\n"),
        ("ZRANGE a 0 -1 WITHSCORES", "*2\r\n$1\r\ny\r\n$2\r\n34\r\n"),
        ("ZDIFFSTORE to 1 none", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command\r\n"),
        ("ZUNION 3 a b", "-ERR syntax error\r\n"),
        ("ZUNION x a", "-ERR value is not an integer or out of range\r\n"),
        ("ZUNION 1 a WEIGHTS x", "-ERR weight value is not a float\r\n"),
        ("ZUNION 1 a WEIGHTS 1 2", "-ERR syntax error\r\n"),
        ("ZUNIONSTORE to 1 a WITHSCORES", "-ERR syntax error\r\n"),
        ("ZDIFF 1 a WEIGHTS 1", "-ERR syntax error\r\n"),
        ("SET s v", "+OK\r\n"),
        ("ZUNION 2 a s NOSUCH", WRONG),
        // NaN (0 times infinity) counts as 0 in the first input, and in the others only for a sum.
        ("ZADD i inf m", ":1\r\n"),
        ("ZADD j -5 m", ":1\r\n"),
        ("ZINTERSTORE to 2 j i WEIGHTS 1 0 AGGREGATE MAX", ":1\r\n"),
        ("ZSCORE to m", "$2\r\n-5\r\n"),
        ("ZUNIONSTORE to 2 j i WEIGHTS 1 0 AGGREGATE MAX", ":1\r\n"),
        ("ZSCORE to m", "$1\r\n0\r\n"),
        ("ZINTER 2 j i WEIGHTS 1 0 WITHSCORES", "*2\r\n$1\r\nm\r\n$1\r\n0\r\n"),
        ("ZINTER 2 i j WEIGHTS 0 1 AGGREGATE MIN WITHSCORES", "*2\r\n$1\r\nm\r\n$2\r\n-5\r\n"),
    ]);
    let mut tester = Tester::new();
    tester.put_set("empty");
    tester.check(&[("ZADD a 1 x", ":1\r\n"), ("ZUNION 2 a empty", "*1\r\n$1\r\nx\r\n")]);
}

#[test]
fn increments_are_no_options() {
    check(&[
        ("ZINCRBY z XX m", "-ERR syntax error\r\n"),
        ("ZINCRBY z gt m", "-ERR syntax error\r\n"),
        ("ZINCRBY z abc m", "-ERR value is not a valid float\r\n"),
        ("EXISTS z", ":0\r\n"),
    ]);
}

/// AGGREGATE COUNT: scores do not matter, only which sets have a member, and their weights.
#[test]
fn counting_the_sets_of_a_member() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ZADD a 10 x 20 y", ":2\r\n"),
        ("ZADD b inf y 40 z", ":2\r\n"),
        ("SADD s y q", ":2\r\n"),
        ("ZUNIONSTORE to 3 a b s AGGREGATE COUNT", ":4\r\n"),
        (
            "ZRANGE to 0 -1 WITHSCORES",
            "*8\r\n$1\r\nq\r\n$1\r\n1\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\nz\r\n$1\r\n1\r\n$1\r\ny\r\n$1\r\n3\r\n",
        ),
        (
            "ZUNION 2 a b WEIGHTS 2 0.5 AGGREGATE COUNT WITHSCORES",
            "*6\r\n$1\r\nz\r\n$3\r\n0.5\r\n$1\r\nx\r\n$1\r\n2\r\n$1\r\ny\r\n$3\r\n2.5\r\n",
        ),
        ("ZINTER 2 a b AGGREGATE count WITHSCORES", "*2\r\n$1\r\ny\r\n$1\r\n2\r\n"),
        ("ZINTERSTORE to 3 a b s WEIGHTS 1 2 4 AGGREGATE COUNT", ":1\r\n"),
        ("ZSCORE to y", "$1\r\n7\r\n"),
        (
            "ZUNION 2 a b WEIGHTS inf -inf AGGREGATE COUNT WITHSCORES",
            "*6\r\n$1\r\nz\r\n$4\r\n-inf\r\n$1\r\ny\r\n$1\r\n0\r\n$1\r\nx\r\n$3\r\ninf\r\n",
        ),
        ("ZDIFF 2 a b AGGREGATE COUNT", "-ERR syntax error\r\n"),
        ("ZINTERSTORE to 2 a none AGGREGATE COUNT", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
    ]);
}
