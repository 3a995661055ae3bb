// SPDX-License-Identifier: BSD-3-Clause
//! Strings and bitmaps, through the redis crate.

use braid_tests::TestServer;
use redis::{Commands, ErrorKind, RedisResult};

#[test]
fn binary_values_round_trip() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let all: Vec<u8> = (0..=255).collect();
    let values: [&[u8]; 5] = [b"", b"plain", b"\0\r\n", &all, &[0xff; 5000]];
    for value in values {
        let _: () = connection.set("k", value).unwrap();
        let back: Vec<u8> = connection.get("k").unwrap();
        assert_eq!(back, value);
    }
}

#[test]
fn counters_count_and_refuse_to_overflow() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    assert_eq!(connection.incr::<_, _, i64>("n", 5).unwrap(), 5);
    assert_eq!(connection.decr::<_, _, i64>("n", 7).unwrap(), -2);
    let _: () = connection.set("n", i64::MAX).unwrap();
    let overflow: RedisResult<i64> = connection.incr("n", 1);
    assert!(overflow.unwrap_err().to_string().contains("overflow"));
    assert_eq!(connection.get::<_, i64>("n").unwrap(), i64::MAX);
    let _: () = connection.set("n", "12abc").unwrap();
    let refused: RedisResult<i64> = connection.incr("n", 1);
    assert!(refused.unwrap_err().to_string().contains("not an integer"));
}

#[test]
fn decimal_counters_add_as_people_do() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let add = |connection: &mut redis::Connection, amount: &str| -> String {
        redis::cmd("INCRBYFLOAT").arg("f").arg(amount).query(connection).unwrap()
    };
    assert_eq!(add(&mut connection, "0.1"), "0.1");
    assert_eq!(add(&mut connection, "0.2"), "0.3");
    assert_eq!(add(&mut connection, "-0.3"), "0");
    assert_eq!(add(&mut connection, "5.0e3"), "5000");
    assert_eq!(add(&mut connection, "1.5"), "5001.5");
}

#[test]
fn set_options_work_together() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let set = |connection: &mut redis::Connection, options: &[&str]| -> Option<String> {
        redis::cmd("SET").arg("k").arg("v").arg(options).query(connection).unwrap()
    };
    assert_eq!(set(&mut connection, &["XX"]), None);
    assert_eq!(set(&mut connection, &["NX"]).as_deref(), Some("OK"));
    assert_eq!(set(&mut connection, &["NX"]), None);
    assert_eq!(set(&mut connection, &["NX", "GET"]).as_deref(), Some("v"));
    assert_eq!(set(&mut connection, &["EX", "100"]).as_deref(), Some("OK"));
    assert!((99..=100).contains(&connection.ttl::<_, i64>("k").unwrap()));
    assert_eq!(set(&mut connection, &["KEEPTTL"]).as_deref(), Some("OK"));
    assert!(connection.ttl::<_, i64>("k").unwrap() > 0);
    assert_eq!(set(&mut connection, &[]).as_deref(), Some("OK"));
    assert_eq!(connection.ttl::<_, i64>("k").unwrap(), -1);
    let wrong: RedisResult<String> =
        redis::cmd("SET").arg("k").arg("v").arg("NX").arg("XX").query(&mut connection);
    assert!(wrong.unwrap_err().to_string().contains("syntax error"));
}

#[test]
fn ranges_of_bytes() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    assert_eq!(connection.append::<_, _, i64>("k", "Hello ").unwrap(), 6);
    assert_eq!(connection.append::<_, _, i64>("k", "World").unwrap(), 11);
    assert_eq!(connection.getrange::<_, String>("k", -5, -1).unwrap(), "World");
    assert_eq!(connection.setrange::<_, _, i64>("k", 6, "Redis").unwrap(), 11);
    assert_eq!(connection.setrange::<_, _, i64>("new", 3, "x").unwrap(), 4);
    assert_eq!(connection.get::<_, Vec<u8>>("new").unwrap(), b"\0\0\0x");
    assert_eq!(connection.strlen::<_, i64>("k").unwrap(), 11);
    assert_eq!(connection.get_del::<_, String>("k").unwrap(), "Hello Redis");
    assert!(!connection.exists::<_, bool>("k").unwrap());
}

#[test]
fn mset_mget_and_msetnx() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let _: () = connection.mset(&[("a", "1"), ("b", "2")]).unwrap();
    assert_eq!(
        connection.mget::<_, Vec<Option<String>>>(&["a", "nosuch", "b"]).unwrap(),
        [Some("1".into()), None, Some("2".into())]
    );
    assert!(!connection.mset_nx::<_, _, bool>(&[("b", "3"), ("c", "3")]).unwrap());
    assert!(!connection.exists::<_, bool>("c").unwrap());
    assert!(connection.mset_nx::<_, _, bool>(&[("c", "3"), ("d", "3")]).unwrap());
}

#[test]
fn bits() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    assert!(!connection.setbit::<_, bool>("b", 7, true).unwrap());
    assert!(connection.setbit::<_, bool>("b", 7, true).unwrap());
    assert_eq!(connection.get::<_, Vec<u8>>("b").unwrap(), [1]);
    let _: () = connection.setbit("b", 100, true).unwrap();
    assert_eq!(connection.bitcount::<_, i64>("b").unwrap(), 2);
    let _: () = connection.set("c", &[0xff_u8, 0x0f]).unwrap();
    assert_eq!(connection.bit_and::<_, _, i64>("d", &["b", "c"]).unwrap(), 13);
    let position: i64 = redis::cmd("BITPOS").arg("c").arg(0).query(&mut connection).unwrap();
    assert_eq!(position, 8);
    let fields: Vec<Option<i64>> = redis::cmd("BITFIELD")
        .arg("f")
        .arg(&["SET", "u8", "0", "250", "OVERFLOW", "SAT", "INCRBY", "u8", "0", "10"])
        .arg(&["OVERFLOW", "FAIL", "INCRBY", "u8", "0", "1", "GET", "i8", "0"])
        .query(&mut connection)
        .unwrap();
    assert_eq!(fields, [Some(0), Some(255), None, Some(-1)]);
}

#[test]
fn longest_common_subsequence() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let _: () = connection.mset(&[("a", "ohmytext"), ("b", "mynewtext")]).unwrap();
    let common: String = redis::cmd("LCS").arg("a").arg("b").query(&mut connection).unwrap();
    assert_eq!(common, "mytext");
    let len: i64 = redis::cmd("LCS").arg("a").arg("b").arg("LEN").query(&mut connection).unwrap();
    assert_eq!(len, 6);
}

#[test]
fn wrong_types_are_refused_and_left_alone() {
    let server = TestServer::start(&[]);
    let mut connection = server.connect_redis();
    let _: () = connection.rpush("l", "x").unwrap();
    for command in [
        &["GET", "l"][..],
        &["APPEND", "l", "y"],
        &["INCR", "l"],
        &["GETSET", "l", "y"],
        &["SETBIT", "l", "1", "1"],
    ] {
        let refused: RedisResult<redis::Value> =
            redis::cmd(command[0]).arg(&command[1..]).query(&mut connection);
        let error = refused.expect_err(command[0]);
        assert!(
            error.code() == Some("WRONGTYPE") || matches!(error.kind(), ErrorKind::UnexpectedReturnType),
            "{command:?}: {error}"
        );
    }
    assert_eq!(connection.llen::<_, i64>("l").unwrap(), 1);
    let _: () = connection.set("l", "replaced").unwrap();
    assert_eq!(connection.get::<_, String>("l").unwrap(), "replaced");
}
