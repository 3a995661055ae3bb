// SPDX-License-Identifier: BSD-3-Clause
//! Tests of INCREX.

use braid_commands::testing::{Tester, check, check_resp3};

use super::WRONG_TYPE;

const SYNTAX: &str = "-ERR syntax error\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NOT_A_FLOAT: &str = "-ERR value is not a valid float\r\n";
const NOT_FINITE: &str = "-ERR increment would produce NaN or Infinity\r\n";

/// The reply for integers.
fn integers(value: i64, added: i64) -> String {
    format!("*2\r\n:{value}\r\n:{added}\r\n")
}

/// The reply for floats in RESP2.
fn floats(value: &str, added: &str) -> String {
    format!("*2\r\n${}\r\n{value}\r\n${}\r\n{added}\r\n", value.len(), added.len())
}

fn ttl(tester: &mut Tester, key: &str) -> i64 {
    let reply = tester.run(&format!("TTL {key}"));
    reply.trim_start_matches(':').trim_end().parse().expect("an integer")
}

#[test]
fn integers_are_added_and_shown_with_the_amount() {
    check(&[
        ("INCREX k", &integers(1, 1)),
        ("INCREX k", &integers(2, 1)),
        ("INCREX k BYINT 5", &integers(7, 5)),
        ("increx k byint -10", &integers(-3, -10)),
        ("GET k", "$2\r\n-3\r\n"),
        ("OBJECT ENCODING k", "$3\r\nint\r\n"),
        ("INCREX k BYINT 0", &integers(-3, 0)),
    ]);
    check_resp3(&[("INCREX k BYINT 5", &integers(5, 5))]);
}

#[test]
fn sums_out_of_bounds_change_nothing_or_become_the_bound() {
    check(&[
        ("SET k 99", "+OK\r\n"),
        ("INCREX k BYINT 5 UBOUND 100", &integers(99, 0)),
        ("INCREX k BYINT 1 UBOUND 100", &integers(100, 1)),
        ("INCREX k UBOUND 100", &integers(100, 0)),
        ("SET k 99", "+OK\r\n"),
        ("INCREX k SATURATE BYINT 5 UBOUND 100", &integers(100, 1)),
        ("INCREX k BYINT -500 LBOUND -7 UBOUND 100 SATURATE", &integers(-7, -107)),
        ("INCREX k BYINT -1 LBOUND -7", &integers(-7, 0)),
        // A value that is out of bounds already.
        ("INCREX k BYINT 1 UBOUND -20", &integers(-7, 0)),
        ("INCREX k BYINT 1 UBOUND -20 SATURATE", &integers(-20, -13)),
        // The limits of the type are bounds as well.
        ("SET k 9223372036854775806", "+OK\r\n"),
        ("INCREX k BYINT 5", &integers(i64::MAX - 1, 0)),
        ("INCREX k BYINT 5 SATURATE", &integers(i64::MAX, 1)),
        ("INCREX k BYINT -9223372036854775808", &integers(-1, i64::MIN)),
        ("INCREX k BYINT -9223372036854775808", &integers(-1, 0)),
        // An amount beyond 64 bits.
        ("SET k -9223372036854775808", "+OK\r\n"),
        ("INCREX k LBOUND 5 SATURATE", "-ERR increment or decrement would overflow\r\n"),
        ("GET k", "$20\r\n-9223372036854775808\r\n"),
        // Nothing is created for nothing.
        ("INCREX none BYINT 5 UBOUND 4", &integers(0, 0)),
        ("EXISTS none", ":0\r\n"),
        ("INCREX none BYINT 5 UBOUND 4 SATURATE", &integers(4, 4)),
        ("EXISTS none", ":1\r\n"),
    ]);
}

#[test]
fn floats_are_added_like_incrbyfloat() {
    check(&[
        ("SET k 1.5", "+OK\r\n"),
        ("INCREX k BYFLOAT 0.25", &floats("1.75", "0.25")),
        ("GET k", "$4\r\n1.75\r\n"),
        ("INCREX k", NOT_AN_INTEGER),
        ("INCREX k BYFLOAT 2 UBOUND 3", &floats("1.75", "0")),
        ("INCREX k BYFLOAT 2 UBOUND 3 SATURATE", &floats("3", "1.25")),
        ("INCREX k BYFLOAT -2e1 LBOUND -0.5 SATURATE", &floats("-0.5", "-3.5")),
        ("INCREX k BYFLOAT -1 LBOUND -0.5", &floats("-0.5", "0")),
        ("INCREX k BYFLOAT 3.5e0", &floats("3", "3.5")),
        ("INCREX k BYFLOAT inf", NOT_FINITE),
        ("INCREX k BYFLOAT 1 UBOUND inf", &floats("4", "1")),
        ("SET i 10", "+OK\r\n"),
        ("INCREX i BYFLOAT 0.1", &floats("10.1", "0.1")),
        ("INCREX none BYFLOAT 5 UBOUND 1", &floats("0", "0")),
        ("EXISTS none", ":0\r\n"),
        ("SET big inf", "+OK\r\n"),
        ("INCREX big BYFLOAT 1", NOT_FINITE),
    ]);
    // The limits of the type are bounds as well.
    let mut tester = Tester::new();
    tester.run("SET big 1e4932");
    let reply = tester.run("INCREX big BYFLOAT 1e4932");
    assert!(reply.starts_with("*2\r\n$4933\r\n1000") && reply.ends_with("\r\n$1\r\n0\r\n"), "{reply}");
    let reply = tester.run("INCREX big BYFLOAT -1.1e4932 LBOUND 0 SATURATE");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n$4934\r\n-1000"), "{reply}");
    check_resp3(&[
        ("INCREX k BYFLOAT 0.5", "*2\r\n,0.5\r\n,0.5\r\n"),
        ("INCREX k BYFLOAT 5 UBOUND 1", "*2\r\n,0.5\r\n,0\r\n"),
    ]);
}

#[test]
fn the_expiry_is_kept_set_or_removed() {
    let mut tester = Tester::new();
    tester.check(&[("INCREX k EX 100", &integers(1, 1))]);
    assert!((99..=100).contains(&ttl(&mut tester, "k")));
    tester.check(&[("INCREX k", &integers(2, 1))]);
    assert!((99..=100).contains(&ttl(&mut tester, "k")));
    tester.check(&[("INCREX k EX 500 ENX", &integers(3, 1))]);
    assert!((99..=100).contains(&ttl(&mut tester, "k")));
    tester.check(&[("INCREX k PX 500000", &integers(4, 1))]);
    assert!((499..=500).contains(&ttl(&mut tester, "k")));
    // Not by an increment that did not take place.
    tester.check(&[("INCREX k EX 9 UBOUND 4", &integers(4, 0))]);
    assert!((499..=500).contains(&ttl(&mut tester, "k")));
    tester.check(&[("INCREX k UBOUND 4 EX 900 SATURATE", &integers(4, 0))]);
    assert!((899..=900).contains(&ttl(&mut tester, "k")));
    tester.check(&[
        ("INCREX k PERSIST", &integers(5, 1)),
        ("TTL k", ":-1\r\n"),
        ("INCREX k PERSIST BYFLOAT 1", &floats("6", "1")),
        ("INCREX k EXAT 99999999999 ENX", &integers(7, 1)),
        ("EXPIRETIME k", ":99999999999\r\n"),
        ("INCREX k BYFLOAT 1 PXAT 99999999999999", &floats("8", "1")),
        ("PEXPIRETIME k", ":99999999999999\r\n"),
        // A time that is past.
        ("INCREX k PXAT 1", &integers(9, 1)),
        ("EXISTS k", ":0\r\n"),
        ("INCREX k EXAT 1", &integers(1, 1)),
        ("EXISTS k", ":0\r\n"),
    ]);
}

#[test]
fn conditions_of_valkey() {
    check(&[
        ("INCREX k XX", "$-1\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("INCREX k NX BYINT 3", &integers(3, 3)),
        ("INCREX k NX BYINT 3", "$-1\r\n"),
        ("INCREX k XX EX 100", &integers(4, 1)),
        ("INCREX k XX NX", SYNTAX),
    ]);
}

#[test]
fn refused_arguments() {
    let invalid = "-ERR invalid expire time in 'increx' command\r\n";
    check(&[
        ("INCREX", "-ERR wrong number of arguments for 'increx' command\r\n"),
        ("INCREX k 5", SYNTAX),
        ("INCREX k NOSUCH 5", SYNTAX),
        ("INCREX k BYINT", SYNTAX),
        ("INCREX k BYINT 1 BYINT 2", SYNTAX),
        ("INCREX k BYINT 1 BYFLOAT 2", SYNTAX),
        ("INCREX k LBOUND 1 LBOUND 2", SYNTAX),
        ("INCREX k BYINT 1.5", NOT_AN_INTEGER),
        ("INCREX k BYINT 9223372036854775808", NOT_AN_INTEGER),
        ("INCREX k UBOUND 1.5", NOT_AN_INTEGER),
        ("INCREX k BYFLOAT x", NOT_A_FLOAT),
        ("INCREX k BYFLOAT 1 LBOUND x", NOT_A_FLOAT),
        ("INCREX k LBOUND 2 UBOUND 1", "-ERR LBOUND can't be greater than UBOUND\r\n"),
        ("INCREX k BYFLOAT 1 LBOUND 2 UBOUND 1.5", "-ERR LBOUND can't be greater than UBOUND\r\n"),
        ("INCREX k EX 10 PX 10", SYNTAX),
        ("INCREX k EX 10 PERSIST", SYNTAX),
        ("INCREX k ENX", SYNTAX),
        ("INCREX k ENX PERSIST", SYNTAX),
        ("INCREX k EX 0", invalid),
        ("INCREX k EX -1", invalid),
        ("INCREX k PX 9223372036854775807", invalid),
        ("INCREX k EX x", NOT_AN_INTEGER),
        ("EXISTS k", ":0\r\n"),
        ("RPUSH l x", ":1\r\n"),
        ("INCREX l", WRONG_TYPE),
        ("INCREX l BYFLOAT 1", WRONG_TYPE),
        ("SET s x", "+OK\r\n"),
        ("INCREX s", NOT_AN_INTEGER),
        ("INCREX s BYFLOAT 1", NOT_A_FLOAT),
    ]);
}
