// SPDX-License-Identifier: BSD-3-Clause
//! Tests of blocking commands across types: which client is served, in which order, with which
//! reply.

use braid_resp::reply::Protocol;

use crate::testing::Tester;

/// A tester with this many clients in addition to client 0.
fn with_clients(count: usize) -> Tester {
    let mut tester = Tester::new();
    for _ in 0..count {
        tester.client();
    }
    tester
}

const NULL_ARRAY: &str = "*-1\r\n";

fn pair(key: &str, element: &str) -> String {
    format!("*2\r\n${}\r\n{key}\r\n${}\r\n{element}\r\n", key.len(), element.len())
}

/// Numbers of keys with waiters, and of keys whose waiters react to a removal.
fn awaited(tester: &Tester) -> (usize, usize) {
    tester.engine.keyspace.awaited_keys()
}

#[test]
fn available_elements_are_popped_without_blocking() {
    let mut tester = Tester::new();
    tester.check(&[
        ("RPUSH l a b c d e f", ":6\r\n"),
        ("BLPOP none l 0", "*2\r\n$1\r\nl\r\n$1\r\na\r\n"),
        ("BRPOP l none 0", "*2\r\n$1\r\nl\r\n$1\r\nf\r\n"),
        ("BLMPOP 0 2 none l LEFT COUNT 2", "*2\r\n$1\r\nl\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("BLMOVE l m RIGHT LEFT 0", "$1\r\ne\r\n"),
        ("BRPOPLPUSH l m 0", "$1\r\nd\r\n"),
        ("LRANGE m 0 -1", "*2\r\n$1\r\nd\r\n$1\r\ne\r\n"),
        ("EXISTS l", ":0\r\n"),
        ("ZADD z 1 a 2 b 3 c 4 d", ":4\r\n"),
        ("BZPOPMIN none z 0", "*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("BZPOPMAX z 0", "*3\r\n$1\r\nz\r\n$1\r\nd\r\n$1\r\n4\r\n"),
        (
            "BZMPOP 0 1 z MAX COUNT 9",
            "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
        ),
        ("EXISTS z", ":0\r\n"),
    ]);
}

#[test]
fn waitaof_checks_its_arguments_as_stock_servers_do_and_never_waits_in_a_script() {
    let local = "-ERR value is out of range, value must between 0 and 1\r\n";
    let replicas = "-ERR value is out of range, must be positive\r\n";
    let not_an_integer = "-ERR value is not an integer or out of range\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("WAITAOF 2 0 0", local),
        ("WAITAOF -1 0 0", local),
        ("WAITAOF 2 x 0", local),
        ("WAITAOF x 0 0", not_an_integer),
        ("WAITAOF 99999999999999999999 0 0", not_an_integer),
        ("WAITAOF 0 -1 0", replicas),
        ("WAITAOF 0 x 0", replicas),
        ("WAITAOF 0 0 x", "-ERR timeout is not an integer or out of range\r\n"),
        ("WAITAOF 0 0 -1", "-ERR timeout is negative\r\n"),
        ("EVAL \"return redis.call('WAITAOF', 0, 3, 0)\" 0", "*2\r\n:0\r\n:0\r\n"),
        ("EVAL \"return redis.call('WAIT', 3, 0)\" 0", ":0\r\n"),
        ("ACL SETUSER u reset +@all -@blocking", "+OK\r\n"),
        ("ACL DRYRUN u WAIT 0 0", "$51\r\nUser u has no permissions to run the 'wait' command\r\n"),
    ]);
}

#[test]
fn timeouts_are_read_as_stock_servers_read_them() {
    let not_a_float = "-ERR timeout is not a float or out of range\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("BLPOP k x", not_a_float),
        ("BLPOP k nan", not_a_float),
        ("BLPOP k 1e5000", not_a_float),
        ("BLPOP k -1", "-ERR timeout is negative\r\n"),
        ("BLPOP k -0.0011", "-ERR timeout is negative\r\n"),
        ("BLPOP k -inf", "-ERR timeout is negative\r\n"),
        ("BLPOP k inf", "-ERR timeout is out of range\r\n"),
        ("BLPOP k 1e400", "-ERR timeout is out of range\r\n"),
        ("BLPOP k 9223372036854775", "-ERR timeout is out of range\r\n"),
        ("BLMOVE a b LEFT foo x", "-ERR syntax error\r\n"),
        ("BLMOVE a b LEFT LEFT x", not_a_float),
        ("BRPOPLPUSH a b x", not_a_float),
        ("BLMPOP x 1 k foo", "-ERR syntax error\r\n"),
        ("BLMPOP x 1 k LEFT", not_a_float),
        ("BZMPOP x 1 k MIN", not_a_float),
        ("BZPOPMIN k x", not_a_float),
        ("XREAD BLOCK 1.5 STREAMS s $", "-ERR timeout is not an integer or out of range\r\n"),
        ("XREAD BLOCK -1 STREAMS s $", "-ERR timeout is negative\r\n"),
        ("XREAD BLOCK 9223372036854775807 STREAMS s $", "-ERR timeout is out of range\r\n"),
    ]);
    let now = tester.worker.now_ms();
    for (timeout, millis) in [("0x1p-10", 1), ("0.0001", 1), ("0.001", 1), ("1e-400", 1), ("2.0001", 2001)] {
        let client = tester.client();
        tester.wait_as(client, &format!("BLPOP k {timeout}"));
        let deadline = tester.session(client).blocked.as_ref().unwrap().deadline_ms;
        assert!((millis..millis + 1000).contains(&(deadline - now)), "{timeout}: {}", deadline - now);
    }
}

#[test]
fn the_longest_waiter_comes_first_and_each_gets_one() {
    let mut tester = with_clients(4);
    for client in 1..=4 {
        tester.wait_as(client, "BLPOP k 0");
    }
    assert_eq!(awaited(&tester), (1, 0));
    tester.check(&[("RPUSH k a b c", ":3\r\n"), ("EXISTS k", ":0\r\n")]);
    for (client, element) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(tester.told(client), pair("k", element));
    }
    assert!(tester.is_waiting(4));
    tester.time_out(4);
    assert_eq!(tester.told(4), NULL_ARRAY);
    assert_eq!(awaited(&tester), (0, 0));
    tester.check(&[("RPUSH k d", ":1\r\n"), ("LLEN k", ":1\r\n")]);
}

#[test]
fn a_client_waits_for_several_keys_but_is_served_once() {
    let mut tester = with_clients(1);
    tester.wait_as(1, "BLPOP a b a c 0");
    assert_eq!(awaited(&tester), (3, 0));
    tester.check(&[("RPUSH b x", ":1\r\n"), ("RPUSH a y", ":1\r\n"), ("LLEN a", ":1\r\n")]);
    assert_eq!(tester.told(1), pair("b", "x"));
    assert_eq!(awaited(&tester), (0, 0));
}

#[test]
fn transaction_completes_before_blocked_clients_are_served() {
    let mut tester = with_clients(2);
    tester.wait_as(1, "BLPOP a b 0");
    tester.wait_as(2, "BLPOP b 0");
    for line in ["MULTI", "RPUSH b 1", "DEL b", "RPUSH b 2", "RPUSH a 3"] {
        tester.run(line);
    }
    tester.check(&[("EXEC", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"), ("EXISTS a b", ":0\r\n")]);
    // The first key in argument order, not the first key to change.
    assert_eq!(tester.told(1), pair("a", "3"));
    assert_eq!(tester.told(2), pair("b", "2"));
    tester.wait_as(1, "BLPOP a 0");
    for line in ["MULTI", "RPUSH a 1", "DEL a", "EXEC"] {
        tester.run(line);
    }
    assert_eq!(tester.told(1), "");
    assert!(tester.is_waiting(1));
}

#[test]
fn nothing_waits_within_a_transaction() {
    for (line, reply) in [
        ("BLPOP k 0", "*-1"),
        ("BLMPOP 0 1 k LEFT", "*-1"),
        ("BLMOVE k l LEFT LEFT 0", "$-1"),
        ("BLMOVEM k l LEFT LEFT 0", "*-1"),
        ("BLMOVEM k l LEFT LEFT 0 COUNT 2 OBO", "*-1"),
        ("BRPOPLPUSH k l 0", "$-1"),
        ("BZPOPMAX k 0", "*-1"),
        ("BZMPOP 0 1 k MIN", "*-1"),
        ("XREAD BLOCK 0 STREAMS k $", "*-1"),
    ] {
        let reply = format!("*1\r\n{reply}\r\n");
        crate::testing::check(&[("MULTI", "+OK\r\n"), (line, "+QUEUED\r\n"), ("EXEC", &reply)]);
    }
}

#[test]
fn moved_element_wakes_clients_blocked_on_the_destination() {
    let mut tester = with_clients(3);
    tester.wait_as(1, "BLMOVE a b LEFT RIGHT 0");
    tester.wait_as(2, "BLMOVE b c LEFT RIGHT 0");
    tester.wait_as(3, "BLPOP c 0");
    tester.check(&[("RPUSH a x", ":1\r\n"), ("EXISTS a b c", ":0\r\n")]);
    assert_eq!(tester.told(1), "$1\r\nx\r\n");
    assert_eq!(tester.told(2), "$1\r\nx\r\n");
    assert_eq!(tester.told(3), pair("c", "x"));
    assert_eq!(awaited(&tester), (0, 0));
}

/// One that waits for several elements at once leaves them to others until there are enough.
#[test]
fn a_wait_for_several_elements_can_be_overtaken() {
    let mut tester = with_clients(4);
    tester.wait_as(1, "BLMOVEM a b LEFT RIGHT 0 EXACTLY 3 BULK");
    tester.check(&[("RPUSH a 1 2", ":2\r\n")]);
    assert_eq!(tester.told(1), "");
    assert!(tester.is_waiting(1));
    tester.check(&[("BLPOP a 0", &pair("a", "1")), ("RPUSH a 3", ":2\r\n")]);
    assert_eq!(tester.told(1), "");
    // Those that came later get what it leaves.
    tester.wait_as(2, "BLMOVEM a c LEFT RIGHT 0 EXACTLY 9 OBO");
    tester.wait_as(3, "BLPOP none 0");
    tester.check(&[("RPUSH a 4", ":3\r\n"), ("LRANGE b 0 -1", "*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n")]);
    assert_eq!(tester.told(1), "*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n");
    assert!(tester.is_waiting(2));
    tester.time_out(2);
    assert_eq!(tester.told(2), NULL_ARRAY);
    // One that waits for any number takes what is there.
    tester.wait_as(4, "BLMOVEM a a LEFT RIGHT 0 COUNT 5 OBO");
    tester.check(&[("RPUSH a x y", ":2\r\n"), ("LRANGE a 0 -1", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n")]);
    assert_eq!(tester.told(4), "*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
}

#[test]
fn circles_of_moves_end() {
    let mut tester = with_clients(2);
    tester.wait_as(1, "BRPOPLPUSH a b 0");
    tester.wait_as(2, "BRPOPLPUSH b a 0");
    tester.check(&[("RPUSH a x", ":1\r\n"), ("LRANGE a 0 -1", "*1\r\n$1\r\nx\r\n"), ("EXISTS b", ":0\r\n")]);
    assert_eq!((tester.told(1), tester.told(2)), ("$1\r\nx\r\n".to_owned(), "$1\r\nx\r\n".to_owned()));
    tester.check(&[("DEL a", ":1\r\n")]);
    tester.wait_as(1, "BLMOVE a a LEFT RIGHT 0");
    tester.check(&[("RPUSH a x y", ":2\r\n"), ("LRANGE a 0 -1", "*2\r\n$1\r\ny\r\n$1\r\nx\r\n")]);
}

#[test]
fn a_destination_of_the_wrong_type_is_an_error_and_the_element_stays() {
    let mut tester = with_clients(2);
    tester.wait_as(1, "BLMOVE a str LEFT RIGHT 0");
    tester.wait_as(2, "BLPOP a 0");
    tester.check(&[("SET str x", "+OK\r\n"), ("RPUSH a x", ":1\r\n"), ("EXISTS a", ":0\r\n")]);
    assert!(tester.told(1).starts_with("-WRONGTYPE "));
    assert_eq!(tester.told(2), pair("a", "x"));
    tester
        .check(&[("BLPOP str 0", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")]);
}

#[test]
fn each_kind_of_waiter_only_takes_its_own_type() {
    let mut tester = with_clients(3);
    tester.wait_as(1, "BLPOP k 0");
    tester.wait_as(2, "BZPOPMIN k 0");
    tester.wait_as(3, "XREAD BLOCK 0 STREAMS k $");
    tester.check(&[("SET k x", "+OK\r\n"), ("DEL k", ":1\r\n"), ("ZADD k 1 a 2 b", ":2\r\n")]);
    assert_eq!(tester.told(2), "*3\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n");
    // With a set at the key, and a waiter of another kind in front, a new pop is served
    // immediately.
    tester.check(&[("BZPOPMIN k 0", "*3\r\n$1\r\nk\r\n$1\r\nb\r\n$1\r\n2\r\n")]);
    tester.check(&[("XADD k 1-1 f v", "$3\r\n1-1\r\n"), ("DEL k", ":1\r\n"), ("RPUSH k e", ":1\r\n")]);
    assert_eq!(
        tester.told(3),
        "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    );
    assert_eq!(tester.told(1), pair("k", "e"));
}

#[test]
fn every_command_that_fills_a_key_wakes_blocked_clients() {
    let ways: &[(&[&str], &str)] = &[
        (&["RPUSH src e"], "RENAME src k"),
        (&["RPUSH src e"], "RENAMENX src k"),
        (&["RPUSH src e"], "COPY src k"),
        (&["RPUSH src e"], "LMOVE src k LEFT LEFT"),
        (&["RPUSH src e"], "SORT src BY nosort STORE k"),
        (&["SELECT 1", "RPUSH k e"], "MOVE k 0"),
        (&["SELECT 1", "RPUSH k e"], "SWAPDB 1 0"),
        (&[], "RPUSH k e"),
    ];
    for (before, line) in ways {
        let mut tester = with_clients(1);
        tester.wait_as(1, "BLPOP k 0");
        for line in *before {
            tester.run(line);
        }
        assert_eq!(tester.told(1), "");
        let reply = tester.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(tester.told(1), pair("k", "e"), "{line}");
        assert_eq!(tester.run("EXISTS k"), ":0\r\n", "{line}");
    }
    for line in
        ["ZADD k 5 e", "ZADD k INCR 5 e", "ZINCRBY k 5 e", "ZUNIONSTORE k 1 src", "ZRANGESTORE k src 0 -1"]
    {
        let mut tester = with_clients(1);
        tester.run("ZADD src 5 e");
        tester.wait_as(1, "BZMPOP 0 1 k MIN");
        tester.run(line);
        assert_eq!(tester.told(1), "*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$1\r\ne\r\n$1\r\n5\r\n", "{line}");
    }
}

#[test]
fn a_database_is_part_of_the_key() {
    let mut tester = with_clients(1);
    tester.run_as(1, "SELECT 3");
    tester.wait_as(1, "BLPOP k 0");
    tester.check(&[
        ("RPUSH k a", ":1\r\n"),
        ("LLEN k", ":1\r\n"),
        ("SELECT 3", "+OK\r\n"),
        ("RPUSH k b", ":1\r\n"),
    ]);
    assert_eq!(tester.told(1), pair("k", "b"));
}

#[test]
fn streams_are_read_from_where_the_wait_began() {
    let mut tester = with_clients(2);
    tester.check(&[("XADD s 5-0 f old", "$3\r\n5-0\r\n")]);
    tester.wait_as(1, "XREAD COUNT 1 BLOCK 0 STREAMS other s $ $");
    tester.wait_as(2, "XREAD BLOCK 0 STREAMS s 7-0");
    tester.check(&[("XADD s 6-0 f v", "$3\r\n6-0\r\n")]);
    let entry =
        |id: &str| format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    assert_eq!(tester.told(1), entry("6-0"));
    assert_eq!(tester.told(2), "");
    tester.check(&[("XADD s 8-0 f v", "$3\r\n8-0\r\n")]);
    assert_eq!(tester.told(2), entry("8-0"));
}

#[test]
fn a_group_gives_an_entry_to_the_first_consumer_only() {
    let mut tester = with_clients(2);
    tester.check(&[("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n")]);
    tester.wait_as(1, "XREADGROUP GROUP g one BLOCK 0 STREAMS s >");
    tester.wait_as(2, "XREADGROUP GROUP g two BLOCK 0 STREAMS s >");
    assert_eq!(awaited(&tester), (1, 1));
    tester.check(&[("XADD s 1-0 f v", "$3\r\n1-0\r\n")]);
    assert!(tester.told(1).contains("1-0"));
    assert_eq!(tester.told(2), "");
    tester.check(&[("XACK s g 1-0", ":1\r\n"), ("XADD s 2-0 f v", "$3\r\n2-0\r\n")]);
    assert!(tester.told(2).contains("2-0"));
}

#[test]
fn blocked_group_reader_gets_an_error_when_its_group_is_lost() {
    let no_group = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    for (line, error) in [
        ("DEL s", no_group),
        ("XGROUP DESTROY s g", no_group),
        ("RENAME s t", no_group),
        ("FLUSHDB", no_group),
        ("FLUSHALL", no_group),
        ("SWAPDB 0 1", no_group),
        ("PEXPIREAT s 1", no_group),
        ("SET s x", wrong_type),
    ] {
        let mut tester = with_clients(2);
        tester.check(&[("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n")]);
        tester.wait_as(1, "XREAD BLOCK 0 STREAMS s $");
        tester.wait_as(2, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        tester.run(line);
        assert_eq!(tester.told(1), "", "{line}");
        assert_eq!(tester.told(2), error, "{line}");
        assert_eq!(awaited(&tester), (1, 0), "{line}");
    }
}

#[test]
fn blocking_replies_use_resp3_types() {
    let mut tester = with_clients(1);
    tester.speak(1, Protocol::Resp3);
    for line in ["BLPOP k 1", "BLMOVE k l LEFT LEFT 1", "XREAD BLOCK 1 STREAMS s $"] {
        tester.wait_as(1, line);
        tester.time_out(1);
        assert_eq!(tester.told(1), "_\r\n", "{line}");
    }
    tester.wait_as(1, "BZPOPMIN z 0");
    tester.check(&[("ZADD z 1.5 m", ":1\r\n")]);
    assert_eq!(tester.told(1), "*3\r\n$1\r\nz\r\n$1\r\nm\r\n,1.5\r\n");
    tester.wait_as(1, "XREAD BLOCK 0 STREAMS s $");
    tester.check(&[("XADD s 1-0 f v", "$3\r\n1-0\r\n")]);
    assert!(tester.told(1).starts_with("%1\r\n$1\r\ns\r\n*1\r\n"));
}

#[test]
fn a_waiter_that_wants_no_reply_gets_none_but_takes() {
    let mut tester = with_clients(1);
    for (mode, after) in [("SKIP", "+PONG\r\n"), ("OFF", "")] {
        tester.run_as(1, &format!("CLIENT REPLY {mode}"));
        tester.wait_as(1, "BLPOP k 0");
        tester.check(&[("RPUSH k x", ":1\r\n"), ("EXISTS k", ":0\r\n")]);
        assert_eq!(tester.told(1), "");
        assert!(!tester.is_waiting(1));
        assert_eq!(tester.run_as(1, "PING"), after);
    }
}

#[test]
fn a_command_that_waited_is_counted_once() {
    let mut tester = with_clients(1);
    let calls = |tester: &mut Tester| {
        let stats = tester.run("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_blpop:")).map(str::to_owned);
        line.map_or((0, 0), |line| {
            let number = |name: &str| {
                let at = line.find(name).unwrap() + name.len();
                line[at..].split(',').next().unwrap().parse::<u64>().unwrap()
            };
            (number(":calls="), number(",failed_calls="))
        })
    };
    tester.wait_as(1, "BLPOP k 0");
    assert_eq!(calls(&mut tester), (0, 0));
    tester.run("RPUSH k x");
    assert_eq!(calls(&mut tester), (1, 0));
    tester.told(1);
    tester.wait_as(1, "BLPOP k 0");
    tester.time_out(1);
    tester.told(1);
    assert_eq!(calls(&mut tester), (2, 0));
    tester.wait_as(1, "BLPOP k 0");
    tester.run("CLIENT UNBLOCK 2 ERROR");
    tester.told(1);
    assert_eq!(calls(&mut tester), (3, 1));
}

#[test]
fn expired_key_serves_no_blocked_client() {
    let mut tester = with_clients(1);
    tester.run("SELECT 1");
    tester.run("RPUSH k x");
    tester.run("PEXPIRE k 1");
    std::thread::sleep(std::time::Duration::from_millis(5));
    tester.wait_as(1, "BLPOP k 0");
    tester.run("SWAPDB 0 1");
    assert_eq!(tester.told(1), "");
    assert!(tester.is_waiting(1));
}
