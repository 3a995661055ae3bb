// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the HyperLogLog commands.

use braid_commands::testing::{Tester, check};

#[test]
fn adding_and_counting() {
    check(&[
        ("PFADD h", ":1\r\n"),
        ("PFADD h", ":0\r\n"),
        ("PFCOUNT h", ":0\r\n"),
        ("PFADD h a b c a", ":1\r\n"),
        ("PFADD h a b", ":0\r\n"),
        ("PFCOUNT h", ":3\r\n"),
        ("PFCOUNT h", ":3\r\n"),
        ("PFADD other c d", ":1\r\n"),
        ("PFCOUNT h other none", ":4\r\n"),
        ("PFCOUNT none", ":0\r\n"),
        ("PFMERGE sum h other", "+OK\r\n"),
        ("PFCOUNT sum", ":4\r\n"),
        ("PFMERGE fresh", "+OK\r\n"),
        ("PFCOUNT fresh", ":0\r\n"),
        ("PFSELFTEST", "+OK\r\n"),
    ]);
}

/// The string that stock servers store after the same commands.
#[test]
fn values_of_stock_servers() {
    let mut tester = Tester::new();
    tester.check(&[("PFADD h a b c", ":1\r\n")]);
    let expected =
        b"$27\r\nHYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x60\xf3\x80P\xb1\x84K\xfb\x80BZ\r\n";
    assert_eq!(tester.run_args(0, &[b"GET", b"h"]), expected);
    assert_eq!(tester.encoding("h"), "raw");
    tester.check(&[("PFDEBUG DECODE h", "$44\r\nZ:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603\r\n")]);
}

#[test]
fn encodings() {
    let mut tester = Tester::with("hll-sparse-max-bytes 40");
    tester.check(&[
        ("PFADD h a b c", ":1\r\n"),
        ("EXPIRE h 100", ":1\r\n"),
        ("PFDEBUG ENCODING h", "+sparse\r\n"),
        ("PFADD h d e f g h i j k l m n o p", ":1\r\n"),
        ("PFDEBUG ENCODING h", "+dense\r\n"),
        ("PFCOUNT h", ":16\r\n"),
        ("PFADD h q", ":1\r\n"),
        ("PFCOUNT h", ":17\r\n"),
        ("TTL h", ":100\r\n"),
        ("STRLEN h", ":12304\r\n"),
        ("PFDEBUG DECODE h", "-ERR HLL encoding is not sparse\r\n"),
        ("PFADD s a", ":1\r\n"),
        ("PFDEBUG TODENSE s", ":1\r\n"),
        ("PFDEBUG TODENSE s", ":0\r\n"),
        ("PFCOUNT s", ":1\r\n"),
        ("PFADD t a", ":1\r\n"),
        ("PFMERGE t s", "+OK\r\n"),
        ("PFDEBUG ENCODING t", "+dense\r\n"),
    ]);
    let registers = tester.run("PFDEBUG GETREG s");
    assert!(registers.starts_with("*16384\r\n:0\r\n"));
    assert_eq!(registers.lines().filter(|line| *line != ":0").count(), 2, "the header and one register");
}

#[test]
fn refusals() {
    let mut tester = Tester::new();
    tester.put_set("set");
    tester.check(&[
        ("SET s foo", "+OK\r\n"),
        ("PFADD s a", "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n"),
        ("PFCOUNT s", "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n"),
        ("PFMERGE none s", "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("PFADD set a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("PFCOUNT set", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("PFCOUNT none set", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("PFDEBUG ENCODING none", "-ERR The specified key does not exist\r\n"),
        ("PFADD h a", ":1\r\n"),
        ("PFDEBUG NOSUCH h", "-ERR Unknown PFDEBUG subcommand 'NOSUCH'\r\n"),
        ("APPEND h x", ":22\r\n"),
        ("PFCOUNT h", "-INVALIDOBJ Corrupted HLL object detected\r\n"),
    ]);
}

#[test]
fn dense_values_are_changed_in_place() {
    let mut tester = Tester::new();
    tester.run("PFADD h seed");
    tester.run("PFDEBUG TODENSE h");
    let mut model = braid_containers::hyperloglog::create();
    braid_containers::hyperloglog::add(&mut model, b"seed", 3000).expect("valid");
    braid_containers::hyperloglog::to_dense(&mut model).expect("valid");
    for n in 0..500 {
        let element = format!("element:{n}");
        let changed =
            braid_containers::hyperloglog::add(&mut model, element.as_bytes(), 3000).expect("valid");
        assert_eq!(tester.run(&format!("PFADD h {element}")), format!(":{}\r\n", u8::from(changed)));
    }
    let stored = tester.run_args(0, &[b"GET", b"h"]);
    assert_eq!(&stored[8..stored.len() - 2], &model[..]);
    // Additions to the original do not change a copy.
    tester.run("COPY h copy");
    tester.run("PFADD h more1 more2 more3 more4 more5 more6 more7 more8");
    let copy = tester.run_args(0, &[b"GET", b"copy"]);
    assert_eq!(&copy[8..copy.len() - 2], &model[..]);
}
