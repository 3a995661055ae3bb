// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the hash commands.

use std::time::Duration;

use braid_commands::testing::{Tester, check, check_resp3};

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";
const NUMFIELDS: &str = "-ERR numfields should be greater than 0 and match the provided number of fields\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn fields_are_set_and_read() {
    check(&[
        ("HSET h a 1 b two", ":2\r\n"),
        ("HSET h a 2 c 3", ":1\r\n"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HMSET h d 4", "+OK\r\n"),
        ("HMSET h d 4 e", "-ERR wrong number of arguments for 'hmset' command\r\n"),
        ("HSETNX h a 9", ":0\r\n"),
        ("HSETNX h e 5", ":1\r\n"),
        ("HGET h a", "$1\r\n2\r\n"),
        ("HGET h nosuch", "$-1\r\n"),
        ("HGET none a", "$-1\r\n"),
        ("HMGET h b nosuch c", "*3\r\n$3\r\ntwo\r\n$-1\r\n$1\r\n3\r\n"),
        ("HMGET none a b", "*2\r\n$-1\r\n$-1\r\n"),
        ("HLEN h", ":5\r\n"),
        ("HLEN none", ":0\r\n"),
        ("HSTRLEN h b", ":3\r\n"),
        ("HSTRLEN h nosuch", ":0\r\n"),
        ("HEXISTS h b", ":1\r\n"),
        ("HEXISTS none b", ":0\r\n"),
        ("HDEL h a b nosuch", ":2\r\n"),
        ("HGETALL h", "*6\r\n$1\r\nc\r\n$1\r\n3\r\n$1\r\nd\r\n$1\r\n4\r\n$1\r\ne\r\n$1\r\n5\r\n"),
        ("HKEYS h", "*3\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n"),
        ("HVALS h", "*3\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n"),
        ("HDEL h c d e f", ":3\r\n"),
        ("EXISTS h", ":0\r\n"),
        ("HDEL h c", ":0\r\n"),
        ("HKEYS h", "*0\r\n"),
        ("HGETALL h", "*0\r\n"),
    ]);
    check_resp3(&[
        ("HSET h a 1", ":1\r\n"),
        ("HGETALL h", "%1\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("HGETALL none", "%0\r\n"),
        ("HKEYS h", "*1\r\n$1\r\na\r\n"),
        ("HRANDFIELD h 2 WITHVALUES", "*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
    ]);
}

#[test]
fn numbers_in_fields() {
    check(&[
        ("HINCRBY h n 5", ":5\r\n"),
        ("HINCRBY h n -7", ":-2\r\n"),
        ("HINCRBY h n x", NOT_AN_INTEGER),
        ("HSET h t text big 9223372036854775807", ":2\r\n"),
        ("HINCRBY h t 1", "-ERR hash value is not an integer\r\n"),
        ("HINCRBY h big 1", "-ERR increment or decrement would overflow\r\n"),
        ("HINCRBYFLOAT h t 1", "-ERR hash value is not a float\r\n"),
        ("HINCRBYFLOAT h n x", "-ERR value is not a valid float\r\n"),
        ("HINCRBYFLOAT h n inf", "-ERR value is NaN or Infinity\r\n"),
        ("HINCRBYFLOAT h n 2.25", "$4\r\n0.25\r\n"),
        ("HINCRBYFLOAT h new 3.0e3", "$4\r\n3000\r\n"),
        ("HGET h new", "$4\r\n3000\r\n"),
        ("HINCRBY none x y", NOT_AN_INTEGER),
        ("EXISTS none", ":0\r\n"),
    ]);
}

#[test]
fn forms_follow_the_configuration() {
    let mut tester = Tester::with("hash-max-listpack-entries 3\nhash-max-listpack-value 5");
    tester.run("HSET h a 1 b 2 c 3");
    assert_eq!(tester.encoding("h"), "listpack");
    tester.run("HSET h d 4");
    assert_eq!(tester.encoding("h"), "hashtable");
    tester.run("HSET long a 123456");
    assert_eq!(tester.encoding("long"), "hashtable");
    tester.run("HINCRBY number 123456 1");
    assert_eq!(tester.encoding("number"), "hashtable");
}

#[test]
fn random_fields() {
    let mut tester = Tester::new();
    tester.check(&[
        ("HRANDFIELD h", "$-1\r\n"),
        ("HRANDFIELD h 3", "*0\r\n"),
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HRANDFIELD h 5", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("HRANDFIELD h 5 withvalues", "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HRANDFIELD h 0", "*0\r\n"),
        ("HRANDFIELD h x", NOT_AN_INTEGER),
        ("HRANDFIELD h 1 NOSUCH", SYNTAX),
        ("HRANDFIELD h 1 WITHVALUES 2", SYNTAX),
        ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range\r\n"),
        (
            "HRANDFIELD h -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
    ]);
    assert!(tester.run("HRANDFIELD h -7").starts_with("*7\r\n"));
    assert!(tester.run("HRANDFIELD h -7 WITHVALUES").starts_with("*14\r\n"));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        seen.insert(tester.run("HRANDFIELD h"));
        seen.insert(tester.run("HRANDFIELD h 1").replace("*1\r\n", ""));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["$1\r\na\r\n", "$1\r\nb\r\n"]);
}

#[test]
fn walking() {
    let mut tester = Tester::with("hash-max-listpack-entries 8");
    tester.check(&[
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HSCAN h 0", "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HSCAN h 0 MATCH b NOVALUES", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n"),
        ("HSCAN none 0 NOSUCH", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("HSCAN none x", "-ERR invalid cursor\r\n"),
        ("HSCAN h 0 NOSUCH", SYNTAX),
        ("HSCAN h 0 TYPE x", SYNTAX),
    ]);
    for index in 0..200 {
        tester.run(&format!("HSET many f{index} {index}"));
    }
    let (mut cursor, mut seen) = ("0".to_string(), std::collections::BTreeSet::new());
    loop {
        let reply = tester.run(&format!("HSCAN many {cursor} COUNT 10 NOVALUES"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        cursor = lines[2].to_string();
        seen.extend(
            lines[4..].iter().skip(1).step_by(2).filter(|name| !name.is_empty()).map(|name| name.to_string()),
        );
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 200);
}

#[test]
fn expiry_of_fields_is_set_and_asked_for() {
    let mut tester = Tester::new();
    tester.check(&[
        ("HSET h a 1 b 2 c 3", ":3\r\n"),
        ("HEXPIRE h 100 FIELDS 2 a nosuch", "*2\r\n:1\r\n:-2\r\n"),
        ("HTTL h FIELDS 3 a b nosuch", "*3\r\n:100\r\n:-1\r\n:-2\r\n"),
        ("HPEXPIREAT h 33177117420500 FIELDS 1 b", "*1\r\n:1\r\n"),
        ("HPEXPIRETIME h FIELDS 1 b", "*1\r\n:33177117420500\r\n"),
        ("HEXPIRETIME h FIELDS 1 b", "*1\r\n:33177117421\r\n"),
        ("HEXPIREAT h 33177117420 FIELDS 1 b", "*1\r\n:1\r\n"),
        ("HPEXPIRETIME h FIELDS 1 b", "*1\r\n:33177117420000\r\n"),
        ("HEXPIRE h 100 NX FIELDS 2 a c", "*2\r\n:0\r\n:1\r\n"),
        ("HEXPIRE h 50 GT FIELDS 1 a", "*1\r\n:0\r\n"),
        ("HEXPIRE h 50 LT FIELDS 1 a", "*1\r\n:1\r\n"),
        ("HPERSIST h FIELDS 3 a a nosuch", "*3\r\n:1\r\n:-1\r\n:-2\r\n"),
        ("HEXPIRE h 50 XX GT FIELDS 1 a", "*1\r\n:0\r\n"),
        ("HPEXPIRE h 0 FIELDS 1 a", "*1\r\n:2\r\n"),
        ("HEXISTS h a", ":0\r\n"),
        ("HEXPIREAT h 1 FIELDS 2 b c", "*2\r\n:2\r\n:2\r\n"),
        ("EXISTS h", ":0\r\n"),
        ("HEXPIRE h 1 FIELDS 2 b c", "*2\r\n:-2\r\n:-2\r\n"),
        ("HPTTL h FIELDS 1 b", "*1\r\n:-2\r\n"),
        ("HPERSIST h FIELDS 1 b", "*1\r\n:-2\r\n"),
        ("HSET h a 1", ":1\r\n"),
        ("HEXPIRE h 100 FIELDS 1 a", "*1\r\n:1\r\n"),
        ("HINCRBY h a 1", ":2\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:100\r\n"),
        ("HSET h a 1", ":0\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:-1\r\n"),
    ]);
    assert_eq!(tester.encoding("h"), "hashtable");
}

#[test]
fn refused_expiries() {
    let mut tester = Tester::new();
    tester.check(&[
        ("HSET h a 1", ":1\r\n"),
        ("HEXPIRE h 1 FIELDS 2 a", NUMFIELDS),
        ("HEXPIRE h 1 FIELDS 0 a", NUMFIELDS),
        ("HEXPIRE h 1 NX a b c", NUMFIELDS),
        ("HEXPIRE h 1 NX XX FIELDS", NUMFIELDS),
        ("HEXPIRE h 1 FIELDS x a", NOT_AN_INTEGER),
        ("HEXPIRE h x FIELDS 1 a", NOT_AN_INTEGER),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command\r\n"),
        ("HEXPIRE none 9223372036854776 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command\r\n"),
        ("HEXPIRE h 1 FOO FIELDS 1 a", "-ERR Unsupported option FOO\r\n"),
        (
            "HEXPIRE h 1 NX XX FIELDS 1 a",
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n",
        ),
        ("HEXPIRE h 1 GT LT FIELDS 1 a", "-ERR GT and LT options at the same time are not compatible\r\n"),
        ("HTTL h FOO 1 a", SYNTAX),
        ("HTTL h FIELDS 2 a", SYNTAX),
        ("HTTL h FIELDS x a", NOT_AN_INTEGER),
        ("HPERSIST h FOO 1 a", SYNTAX),
        ("HPERSIST h FIELDS 2 a", NUMFIELDS),
    ]);
}

#[test]
fn expired_fields_are_invisible_to_commands() {
    let mut tester = Tester::new();
    tester.check(&[
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HPEXPIRE h 1 FIELDS 1 a", "*1\r\n:1\r\n"),
        ("HSET gone a 1", ":1\r\n"),
        ("HPEXPIRE gone 1 FIELDS 1 a", "*1\r\n:1\r\n"),
    ]);
    std::thread::sleep(Duration::from_millis(5));
    tester.check(&[
        ("HGET h a", "$-1\r\n"),
        ("HGETALL h", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HMGET h a b", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        ("HEXISTS h a", ":0\r\n"),
        ("HSTRLEN h a", ":0\r\n"),
        ("HKEYS h", "*1\r\n$1\r\nb\r\n"),
        ("HSCAN h 0 NOVALUES", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n"),
        ("HRANDFIELD h 5", "*1\r\n$1\r\nb\r\n"),
        ("HRANDFIELD h -2", "*2\r\n$1\r\nb\r\n$1\r\nb\r\n"),
        ("HRANDFIELD gone", "$-1\r\n"),
        ("HRANDFIELD gone -2", "*0\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HLEN h", ":2\r\n"),
        ("HSETNX h a 5", ":1\r\n"),
        ("HLEN h", ":2\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:-1\r\n"),
        ("HDEL gone a", ":0\r\n"),
        ("EXISTS gone", ":0\r\n"),
    ]);
}

#[test]
fn getting_with_an_expiry() {
    check(&[
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HGETEX h FIELDS 2 a nosuch", "*2\r\n$1\r\n1\r\n$-1\r\n"),
        ("HGETEX h EX 100 FIELDS 1 a", "*1\r\n$1\r\n1\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:100\r\n"),
        ("HGETEX h PERSIST PERSIST FIELDS 1 a", "*1\r\n$1\r\n1\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:-1\r\n"),
        ("HGETEX h PX 0 FIELDS 2 a a", "*2\r\n$1\r\n1\r\n$-1\r\n"),
        ("HGETEX none EX x FIELDS 1 a", NOT_AN_INTEGER),
        ("HGETEX none EX 0 FIELDS 2 a b", "*2\r\n$-1\r\n$-1\r\n"),
        ("HGETEX h EX -1 FIELDS 1 b", "-ERR invalid expire time in 'hgetex' command\r\n"),
        ("HGETEX h EX 1 PX 1 FIELDS 1 b", SYNTAX),
        ("HGETEX h PERSIST EX 1 FIELDS 1 b", SYNTAX),
        ("HGETEX h EX FIELDS 1 b", SYNTAX),
        ("HGETEX h KEEPTTL FIELDS 1 b", SYNTAX),
        ("HGETEX h FIELDS 2 b", NUMFIELDS),
        ("HGETEX h a b c", NUMFIELDS),
        ("HGETEX h PXAT 1 FIELDS 1 b", "*1\r\n$1\r\n2\r\n"),
        ("EXISTS h", ":0\r\n"),
    ]);
}

#[test]
fn setting_with_conditions_and_an_expiry() {
    check(&[
        ("HSETEX h XX FIELDS 1 a 1", ":0\r\n"),
        ("HSETEX h NX EX 100 FIELDS 2 a 1 b 2", ":1\r\n"),
        ("HSETEX h NX FIELDS 1 a 1", ":0\r\n"),
        ("HTTL h FIELDS 2 a b", "*2\r\n:100\r\n:100\r\n"),
        ("HSETEX h KEEPTTL FIELDS 1 a 2", ":1\r\n"),
        ("HSETEX h FIELDS 1 b 3", ":1\r\n"),
        ("HTTL h FIELDS 2 a b", "*2\r\n:100\r\n:-1\r\n"),
        ("HSETEX h FNX FIELDS 2 a 1 c 1", ":0\r\n"),
        ("HSETEX h FXX FIELDS 2 a 1 c 1", ":0\r\n"),
        ("HSETEX h FNX FIELDS 2 c 1 c 2", ":1\r\n"),
        ("HGET h c", "$1\r\n2\r\n"),
        ("HSETEX h PXAT 1 FIELDS 2 c 1 d 2", ":1\r\n"),
        ("HMGET h c d", "*2\r\n$-1\r\n$-1\r\n"),
        ("HSETEX none PXAT 1 FIELDS 1 c 1", ":1\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("HSETEX h NX XX FIELDS 1 a 1", SYNTAX),
        ("HSETEX h FNX FXX FIELDS 1 a 1", SYNTAX),
        ("HSETEX h EX 1 KEEPTTL FIELDS 1 a 1", SYNTAX),
        ("HSETEX h PERSIST FIELDS 1 a 1", SYNTAX),
        ("HSETEX h FIELDS 2 a 1", NUMFIELDS),
        ("HSETEX h FIELDS 1 a 1 b", NUMFIELDS),
        ("HSETEX h EX x FIELDS 1 a 1", NOT_AN_INTEGER),
        // An invalid time matters only if the key meets its condition, whatever the fields are.
        ("HSETEX h NX EX x FIELDS 1 a 1", ":0\r\n"),
        ("HSETEX none XX EX -1 FIELDS 1 a 1", ":0\r\n"),
        ("HSETEX h XX FNX EX x FIELDS 1 a 1", NOT_AN_INTEGER),
        ("HSETEX h EXAT -1 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command\r\n"),
    ]);
}

#[test]
fn getting_and_deleting() {
    check(&[
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HGETDEL h FIELDS 3 a a nosuch", "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n"),
        ("HGETDEL none FIELDS 1 a", "*1\r\n$-1\r\n"),
        ("HGETDEL h FIELDS 2 b", NUMFIELDS),
        ("HGETDEL h FOO 1 b", SYNTAX),
        ("HGETDEL h FIELDS 1 b", "*1\r\n$1\r\n2\r\n"),
        ("EXISTS h", ":0\r\n"),
    ]);
}

/// What Redis 8.2.3 replied, each to the same hash `h` with the fields a and b, and the string
/// `str`.
const AS_IN_REDIS: &[(&str, &str)] = &[
    ("HGETDEL h FIELDS 0 a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HGETDEL h FIELDS x a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HGETDEL h FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
    ("HGETDEL h FOO 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"),
    ("HGETDEL str FOO 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ("HPERSIST h FIELDS -1 a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HPERSIST h FIELDS 1 a b", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
    ("HPERSIST str FIELDS 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ("HTTL h FIELDS x a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HTTL h FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
    ("HPTTL h FOO 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"),
    ("HEXPIRETIME str FIELDS x a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ("HPEXPIRETIME h FIELDS 99999999999999999999 a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HEXPIRE h 99999 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0\r\n"),
    ("HEXPIRE h 99999 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0\r\n"),
    ("HEXPIRE h 99999 FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
    ("HEXPIRE h 99999 FOO 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"),
    (
        "HEXPIRE h 99999 NX NX FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HEXPIRE h 99999 NX XX FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HEXPIRE h 99999 GT LT FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HEXPIRE h 99999 FOO FIELDS 0 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0\r\n"),
    ("HEXPIRE h -1 FOO 1 a", "-ERR invalid expire time, must be >= 0\r\n"),
    ("HEXPIRE h x FIELDS 0 a", "-ERR value is not an integer or out of range\r\n"),
    ("HEXPIRE str x FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ("HEXPIRE h 99999999999 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command\r\n"),
    ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command\r\n"),
    ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1\r\n:1\r\n"),
    ("HEXPIREAT missing 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hexpireat' command\r\n"),
    ("HGETEX h FIELDS 0 a", "-ERR Number of fields must be a positive integer\r\n"),
    ("HGETEX h FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments\r\n"),
    ("HGETEX h FOO FIELDS 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"),
    (
        "HGETEX h KEEPTTL FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HGETEX h PERSIST PERSIST FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HGETEX h EX 10 PERSIST FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    (
        "HGETEX h EX 10 EX 10 FIELDS 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n",
    ),
    ("HGETEX h EX x FIELDS 0 a 9", "-ERR value is not an integer or out of range\r\n"),
    ("HGETEX h EX -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0\r\n"),
    ("HGETEX h EX FIELDS 1 a", "-ERR value is not an integer or out of range\r\n"),
    ("HGETEX h PXAT 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hgetex' command\r\n"),
    ("HGETEX h PXAT 70368744177663 FIELDS 1 a", "*1\r\n$1\r\n1\r\n"),
    ("HGETEX str FOO FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ("HSETEX h EX 10 FIELDS 1 a", "-ERR wrong number of arguments for 'hsetex' command\r\n"),
    ("HSETEX h FIELDS 0 a 9", "-ERR invalid number of fields\r\n"),
    ("HSETEX h FIELDS 2 a 9", "-ERR wrong number of arguments for 'hsetex' command\r\n"),
    ("HSETEX h FIELDS 1 a 9 FNX", "-ERR wrong number of arguments for 'hsetex' command\r\n"),
    ("HSETEX h FIELDS 1 a 9 EX 10", "-ERR wrong number of arguments for 'hsetex' command\r\n"),
    ("HSETEX h FOO 1 a 9", "-ERR unknown argument: FOO\r\n"),
    ("HSETEX h NX FIELDS 1 a 9", "-ERR unknown argument: NX\r\n"),
    ("HSETEX h XX FIELDS 1 a 9", "-ERR unknown argument: XX\r\n"),
    ("HSETEX h PERSIST FIELDS 1 a 9", "-ERR unknown argument: PERSIST\r\n"),
    ("HSETEX h FNX FNX FIELDS 1 a 9", "-ERR Only one of FXX or FNX arguments can be specified\r\n"),
    ("HSETEX h FXX FXX FIELDS 1 a 9", "-ERR Only one of FXX or FNX arguments can be specified\r\n"),
    ("HSETEX h FNX FXX FIELDS 1 a 9", "-ERR Only one of FXX or FNX arguments can be specified\r\n"),
    (
        "HSETEX h KEEPTTL KEEPTTL FIELDS 1 a 9",
        "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified\r\n",
    ),
    (
        "HSETEX h EX 10 EX 10 FIELDS 1 a 9",
        "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified\r\n",
    ),
    (
        "HSETEX h EX 10 KEEPTTL FIELDS 1 a 9",
        "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified\r\n",
    ),
    ("HSETEX h EX -1 FOO 1 a 9", "-ERR invalid expire time, must be >= 0\r\n"),
    ("HSETEX h EX x FIELDS 1 a 9", "-ERR value is not an integer or out of range\r\n"),
    ("HSETEX h EX FIELDS 1 a 9", "-ERR value is not an integer or out of range\r\n"),
    ("HSETEX h PXAT 99999999999999 FIELDS 1 a 9", "-ERR invalid expire time in 'hsetex' command\r\n"),
    ("HSETEX h PXAT 70368744177663 FIELDS 1 a 9", ":1\r\n"),
    ("HSETEX h FNX FIELDS 1 a 9", ":0\r\n"),
    ("HSETEX h FXX FIELDS 1 a 9", ":1\r\n"),
    ("HSETEX str FOO 1 a 9", "-ERR unknown argument: FOO\r\n"),
    ("HSETEX str FIELDS 1 a 9", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
];

#[test]
fn errors_and_options_are_those_of_redis_if_its_version_is_reported() {
    let mut tester = Tester::with("redis-version 8.2.3");
    for (line, reply) in AS_IN_REDIS {
        tester.run("DEL h missing str");
        tester.run("HSET h a 1 b 2");
        tester.run("SET str x");
        assert_eq!(tester.run(line), *reply, "{line}");
    }
    tester.run("HPEXPIREAT h 33177117420001 FIELDS 1 a");
    assert_eq!(tester.run("HEXPIRETIME h FIELDS 1 a"), "*1\r\n:33177117421\r\n");
}

#[test]
fn times_that_redis_refuses_are_refused_for_its_sake_only() {
    const REFUSED: [(&str, &str); 4] = [
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "hpexpireat"),
        ("HGETEX h PXAT 70368744177664 FIELDS 1 a", "hgetex"),
        ("HSETEX h EXAT 70368744178 FIELDS 1 a 1", "hsetex"),
        ("PEXPIREMEMBERAT h a 70368744177664", "pexpirememberat"),
    ];
    for (settings, refuses) in [("", false), ("rdb-target redis-8", true), ("redis-version 8.0.0", true)] {
        let mut tester = Tester::with(settings);
        tester.run("HSET h a 1");
        tester.run("SADD s a");
        for (line, command) in REFUSED {
            let said = tester.run(line);
            let error = format!("-ERR invalid expire time in '{command}' command\r\n");
            assert_eq!(said == error, refuses, "{settings}: {line}: {said}");
            assert_eq!(said.starts_with('-'), refuses, "{settings}: {line}: {said}");
        }
        // Redis has no such times.
        assert_eq!(tester.run("SPEXPIREAT s 70368744177664 MEMBERS 1 a"), "*1\r\n:1\r\n", "{settings}");
        assert_eq!(tester.run("HPEXPIREAT h 70368744177663 FIELDS 1 a"), "*1\r\n:1\r\n", "{settings}");
    }
}

#[test]
fn other_types_are_refused() {
    let mut tester = Tester::new();
    tester.put_set("s");
    for line in [
        "HSET s a 1",
        "HSETNX s a 1",
        "HMSET s a 1",
        "HGET s a",
        "HMGET s a",
        "HGETALL s",
        "HDEL s a",
        "HLEN s",
        "HSTRLEN s a",
        "HEXISTS s a",
        "HKEYS s",
        "HVALS s",
        "HINCRBY s a 1",
        "HINCRBYFLOAT s a 1",
        "HRANDFIELD s",
        "HRANDFIELD s 1",
        "HSCAN s 0 NOSUCH",
        "HEXPIRE s 1 FIELDS 1 a",
        "HTTL s FIELDS 1 a",
        "HPERSIST s FIELDS 1 a",
        "HGETEX s EX x FIELDS 1 a",
        "HSETEX s EX x FIELDS 1 a 1",
        "HGETDEL s FIELDS 1 a",
    ] {
        assert_eq!(tester.run(line), WRONG_TYPE, "{line}");
    }
}

#[test]
fn watchers_learn_of_changes_only() {
    let mut tester = Tester::new();
    tester.run("HSET h a 1 b 2");
    for (line, changes) in [
        ("HSET h a 1", true),
        ("HSETNX h a 1", false),
        ("HDEL h nosuch", false),
        ("HINCRBY h b x", false),
        ("HINCRBY h b 1", true),
        ("HEXPIRE h 100 XX FIELDS 1 a", false),
        ("HEXPIRE h 100 FIELDS 1 a", true),
        ("HPERSIST h FIELDS 1 b", false),
        ("HPERSIST h FIELDS 1 a", true),
        ("HGETEX h FIELDS 1 a", false),
        ("HGETEX h EX 100 FIELDS 1 a", true),
        ("HSETEX h FNX FIELDS 1 a 1", false),
        ("HSETEX h FIELDS 1 a 1", true),
        ("HGETDEL h FIELDS 1 nosuch", false),
        ("HGETDEL h FIELDS 2 a b", true),
    ] {
        let flag = braid_keyspace::txn::new_watch_flag();
        tester.with_keys(&[b"h"], |txn| txn.watch(b"h", &flag));
        tester.run(line);
        tester.with_keys(&[b"h"], |txn| txn.unwatch(b"h", &flag));
        assert_eq!(braid_keyspace::txn::is_raised(&flag), changes, "{line}");
    }
}

/// The examples of redis.io/commands/himport-prepare, himport-set, himport-discard and
/// himport-discardall, and what their pages say.
#[test]
fn hashes_of_equal_fields() {
    let mut tester = Tester::new();
    tester.check(&[
        ("HIMPORT SET user:1 u alice", "-ERR no such fieldset\r\n"),
        ("HIMPORT PREPARE u name email age", "+OK\r\n"),
        ("HIMPORT SET user:1 u alice a@example.com 30", "+OK\r\n"),
        ("HIMPORT SET user:2 u bob b@example.com 25", "+OK\r\n"),
        ("HGET user:1 name", "$5\r\nalice\r\n"),
        ("HGET user:1 email", "$13\r\na@example.com\r\n"),
        ("HGET user:1 age", "$2\r\n30\r\n"),
        ("HIMPORT SET user:3 u a b", "-ERR value count does not match the fieldset's field count\r\n"),
        ("EXISTS user:3", ":0\r\n"),
        // A hash is replaced as a whole, with its expiry; a value of another type is not.
        ("HSET user:2 more x", ":1\r\n"),
        ("EXPIRE user:2 100", ":1\r\n"),
        ("HIMPORT SET user:2 u ben b@example.com 26", "+OK\r\n"),
        ("HLEN user:2", ":3\r\n"),
        ("TTL user:2", ":-1\r\n"),
        ("SET text v", "+OK\r\n"),
        (
            "HIMPORT SET text u a b c",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        ("HIMPORT PREPARE d a b a", "-ERR duplicate field name in fieldset\r\n"),
        ("HIMPORT SET user:4 d a b a", "-ERR no such fieldset\r\n"),
        // A further one of the name takes its place.
        ("HIMPORT PREPARE u name", "+OK\r\n"),
        ("HIMPORT SET user:4 u eve", "+OK\r\n"),
        ("HIMPORT PREPARE o id total", "+OK\r\n"),
        ("HIMPORT DISCARD u", ":1\r\n"),
        ("HIMPORT DISCARD u", ":0\r\n"),
        ("HIMPORT PREPARE u name email age", "+OK\r\n"),
        ("HIMPORT DISCARDALL", ":2\r\n"),
        ("HIMPORT SET user:5 o 1 2", "-ERR no such fieldset\r\n"),
        ("HIMPORT PREPARE u", "-ERR wrong number of arguments for 'himport|prepare' command\r\n"),
        ("HIMPORT SET k u", "-ERR wrong number of arguments for 'himport|set' command\r\n"),
        ("HIMPORT ALL k", "-ERR unknown subcommand 'ALL'. Try HIMPORT HELP.\r\n"),
    ]);
    tester.client();
    // Another connection has its own, RESET forgets them, and they are bounded.
    tester.check(&[("HIMPORT PREPARE u name", "+OK\r\n")]);
    assert_eq!(tester.run_as(1, "HIMPORT SET user:6 u mia"), "-ERR no such fieldset\r\n");
    tester.check(&[("RESET", "+RESET\r\n"), ("HIMPORT SET user:6 u mia", "-ERR no such fieldset\r\n")]);
    let long = "x".repeat(1 << 20);
    let refused = tester.run(&format!("HIMPORT PREPARE long {long}"));
    assert_eq!(refused, "-ERR fieldsets of a connection are limited to 1048576 bytes\r\n");
}
