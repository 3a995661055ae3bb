// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the bitmap commands.

use braid_commands::testing::{Tester, check, check_resp3};

const SYNTAX: &str = "-ERR syntax error\r\n";
const BAD_OFFSET: &str = "-ERR bit offset is not an integer or out of range\r\n";
const BAD_BIT: &str = "-ERR bit is not an integer or out of range\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";

#[test]
fn single_bits() {
    let mut tester = Tester::new();
    tester.check(&[
        ("GETBIT k 100", ":0\r\n"),
        ("SETBIT k 1 1", ":0\r\n"),
        ("GET k", "$1\r\n@\r\n"),
        ("SETBIT k 1 0", ":1\r\n"),
        ("SETBIT k 20 1", ":0\r\n"),
        ("GET k", "$3\r\n\0\0\u{8}\r\n"),
        ("GETBIT k 20", ":1\r\n"),
        ("GETBIT k 4294967295", ":0\r\n"),
        ("GETBIT k 4294967296", BAD_OFFSET),
        ("SETBIT k 4294967296 1", BAD_OFFSET),
        ("SETBIT k -1 1", BAD_OFFSET),
        ("SETBIT k #1 1", BAD_OFFSET),
        ("SETBIT k x 2", BAD_OFFSET),
        ("SETBIT k 0 2", BAD_BIT),
        ("SETBIT k 0 -1", BAD_BIT),
        ("SETBIT k 0 x", BAD_BIT),
        ("SET k 1", "+OK\r\n"),
        ("GETBIT k 2", ":1\r\n"),
        ("SETBIT k 0 0", ":0\r\n"),
        ("GET k", "$1\r\n1\r\n"),
    ]);
    assert_eq!(tester.encoding("k"), "raw");
    tester.check(&[("SETBIT big 8000000 1", ":0\r\n"), ("STRLEN big", ":1000001\r\n")]);
}

#[test]
fn counting() {
    check(&[
        ("BITCOUNT none", ":0\r\n"),
        ("BITCOUNT none x", ":0\r\n"),
        ("SET k foobar", "+OK\r\n"),
        ("BITCOUNT k", ":26\r\n"),
        ("BITCOUNT k 0 0", ":4\r\n"),
        ("BITCOUNT k 1 1", ":6\r\n"),
        ("BITCOUNT k 1 1 byte", ":6\r\n"),
        ("BITCOUNT k 5 30 BIT", ":17\r\n"),
        ("BITCOUNT k -2", ":7\r\n"),
        ("BITCOUNT k x", "-ERR value is not an integer or out of range\r\n"),
        ("BITCOUNT k -2 -1", ":7\r\n"),
        ("BITCOUNT k -1 -2 nonsense", ":0\r\n"),
        ("BITCOUNT k 0 1 nonsense", SYNTAX),
        ("BITCOUNT k 0", ":26\r\n"),
        ("BITCOUNT k 0 1 BIT x", SYNTAX),
        ("BITCOUNT k x 1", NOT_AN_INTEGER),
        ("BITCOUNT k 10 20", ":0\r\n"),
        ("SET k 123", "+OK\r\n"),
        ("BITCOUNT k", ":10\r\n"),
    ]);
}

#[test]
fn positions() {
    check(&[
        ("BITPOS none 0", ":0\r\n"),
        ("BITPOS none 1", ":-1\r\n"),
        ("SET k \"\\xff\\xf0\\x00\"", "+OK\r\n"),
        ("BITPOS k 0", ":12\r\n"),
        ("BITPOS k 1", ":0\r\n"),
        ("BITPOS k 1 1", ":8\r\n"),
        ("BITPOS k 1 2", ":-1\r\n"),
        ("BITPOS k 0 0 0", ":-1\r\n"),
        ("BITPOS k 1 7 15 BIT", ":7\r\n"),
        ("BITPOS k 0 7 11 BIT", ":-1\r\n"),
        ("BITPOS k 0 -12 -1 BIT", ":12\r\n"),
        ("SET k \"\\xff\\xff\\xff\"", "+OK\r\n"),
        ("BITPOS k 0", ":24\r\n"),
        ("BITPOS k 0 1", ":24\r\n"),
        ("BITPOS k 0 0 -1", ":-1\r\n"),
        ("BITPOS k 0 3", ":-1\r\n"),
        ("SET k \"\"", "+OK\r\n"),
        ("BITPOS k 0", ":-1\r\n"),
        ("BITPOS k 2", "-ERR The bit argument must be 1 or 0.\r\n"),
        ("BITPOS k x", NOT_AN_INTEGER),
        ("BITPOS k 1 x", NOT_AN_INTEGER),
        ("BITPOS k 1 0 x", NOT_AN_INTEGER),
        ("BITPOS k 1 0 -1 foo", SYNTAX),
        ("BITPOS k 1 0 -1 BIT x", SYNTAX),
    ]);
}

#[test]
fn combining() {
    let mut tester = Tester::new();
    tester.check(&[
        ("MSET a \"abcd\" b \"ab\" c 12", "+OK\r\n"),
        ("BITOP AND d a b", ":4\r\n"),
        ("GET d", "$4\r\nab\0\0\r\n"),
        ("BITOP or d a b none", ":4\r\n"),
        ("GET d", "$4\r\nabcd\r\n"),
        ("BITOP XOR d a a", ":4\r\n"),
        ("GET d", "$4\r\n\0\0\0\0\r\n"),
        ("BITOP XOR d b c", ":2\r\n"),
        ("GET d", "$2\r\nPP\r\n"),
        ("BITOP NOT d d", ":2\r\n"),
        ("BITOP NOT d d", ":2\r\n"),
        ("GET d", "$2\r\nPP\r\n"),
        ("BITOP DIFF d a b", ":4\r\n"),
        ("GET d", "$4\r\n\0\0cd\r\n"),
        ("BITOP DIFF1 d b a", ":4\r\n"),
        ("GET d", "$4\r\n\0\0cd\r\n"),
        ("BITOP DIFF1 d none b", ":2\r\n"),
        ("GET d", "$2\r\nab\r\n"),
        ("BITOP ANDOR d a none b", ":4\r\n"),
        ("GET d", "$4\r\nab\0\0\r\n"),
        ("BITOP ONE d a b none", ":4\r\n"),
        ("GET d", "$4\r\n\0\0cd\r\n"),
        ("BITOP AND d none", ":0\r\n"),
        ("GET d", "$-1\r\n"),
        ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key.\r\n"),
        ("BITOP ANDOR d a", "-ERR BITOP ANDOR must be called with at least two source keys.\r\n"),
        ("BITOP FOO d a", SYNTAX),
        ("SETEX e 100 x", "+OK\r\n"),
        ("BITOP OR e c", ":2\r\n"),
    ]);
    assert_eq!(tester.encoding("e"), "raw");
    assert_eq!(tester.engine.keyspace.len(0).1, 0, "the result has no expiry");
}

#[test]
fn fields() {
    check(&[
        ("BITFIELD k", "*0\r\n"),
        ("BITFIELD k GET u8 0", "*1\r\n:0\r\n"),
        ("GET k", "$-1\r\n"),
        ("BITFIELD k INCRBY i5 100 1 GET u4 0", "*2\r\n:1\r\n:0\r\n"),
        ("STRLEN k", ":14\r\n"),
        ("BITFIELD k SET u8 #1 255 GET u8 #1 GET i8 8", "*3\r\n:0\r\n:255\r\n:-1\r\n"),
        ("BITFIELD k OVERFLOW SAT INCRBY u8 #1 10 OVERFLOW FAIL INCRBY u8 #1 1", "*2\r\n:255\r\n$-1\r\n"),
        ("BITFIELD_RO k GET u8 #1 GET u4 8", "*2\r\n:255\r\n:15\r\n"),
        ("BITFIELD_RO none GET u8 0", "*1\r\n:0\r\n"),
        ("BITFIELD_RO k OVERFLOW FAIL GET u8 #1", "*1\r\n:255\r\n"),
        ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"),
        ("BITFIELD k GET u8", SYNTAX),
        ("BITFIELD k SET u8 0", SYNTAX),
        ("BITFIELD k OVERFLOW", SYNTAX),
        ("BITFIELD k OVERFLOW x", "-ERR Invalid OVERFLOW type specified\r\n"),
        ("BITFIELD k SET u8 #x 1", BAD_OFFSET),
        ("BITFIELD k SET u8 -1 1", BAD_OFFSET),
        ("BITFIELD k SET u8 4294967296 1", BAD_OFFSET),
        ("BITFIELD k SET u8 #9223372036854775807 1", BAD_OFFSET),
        ("BITFIELD k SET u8 0 z", NOT_AN_INTEGER),
        (
            "BITFIELD k GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. \
             Note that u64 is not supported but i64 is.\r\n",
        ),
    ]);
    check_resp3(&[("BITFIELD k OVERFLOW FAIL SET u1 0 2", "*1\r\n_\r\n")]);
}

/// Forms and words of redis.io/commands/bitrangeintarray: ascending offsets as GETBIT numbers them,
/// whatever the unit; clear bits of the stored value only.
#[test]
fn offsets_in_a_range() {
    Tester::new().check(&[
        ("BITRANGEINTARRAY none 0 -1", "*0\r\n"),
        ("BITRANGEINTARRAY none 0 -1 ZEROS", "*0\r\n"),
        ("SETBIT k 1 1", ":0\r\n"),
        ("SETBIT k 9 1", ":0\r\n"),
        ("SETBIT k 15 1", ":0\r\n"),
        ("SETBIT k 17 1", ":0\r\n"),
        ("BITRANGEINTARRAY k 0 -1", "*4\r\n:1\r\n:9\r\n:15\r\n:17\r\n"),
        ("BITRANGEINTARRAY k 1 1", "*2\r\n:9\r\n:15\r\n"),
        ("BITRANGEINTARRAY k -2 -1 byte", "*3\r\n:9\r\n:15\r\n:17\r\n"),
        ("BITRANGEINTARRAY k 9 15 BIT", "*2\r\n:9\r\n:15\r\n"),
        ("BITRANGEINTARRAY k 10 14 BIT", "*0\r\n"),
        ("BITRANGEINTARRAY k -8 -1 BIT ZEROS LIMIT 3", "*3\r\n:16\r\n:18\r\n:19\r\n"),
        ("BITRANGEINTARRAY k 0 -1 LIMIT 2", "*2\r\n:1\r\n:9\r\n"),
        ("BITRANGEINTARRAY k 0 0 ZEROS BIT", "*1\r\n:0\r\n"),
        ("BITRANGEINTARRAY k 14 17 LIMIT 9 BIT ZEROS", "*2\r\n:14\r\n:16\r\n"),
        ("BITRANGEINTARRAY k 5 2", "*0\r\n"),
        ("BITRANGEINTARRAY k -1 -2", "*0\r\n"),
        ("BITRANGEINTARRAY k 90 99", "*0\r\n"),
        ("BITRANGEINTARRAY k x 1", NOT_AN_INTEGER),
        ("BITRANGEINTARRAY k 0 x", NOT_AN_INTEGER),
        ("BITRANGEINTARRAY k 0 1 LIMIT x", NOT_AN_INTEGER),
        ("BITRANGEINTARRAY k 0 1 LIMIT 0", "-ERR value is out of range, must be positive\r\n"),
        ("BITRANGEINTARRAY k 0 1 LIMIT", SYNTAX),
        ("BITRANGEINTARRAY k 0 1 BIT BYTE", SYNTAX),
        ("BITRANGEINTARRAY k 0 1 ZEROS ZEROS", SYNTAX),
        ("BITRANGEINTARRAY k 0 1 LIMIT 1 LIMIT 1", SYNTAX),
        ("BITRANGEINTARRAY k 0 1 ONES", SYNTAX),
        ("BITRANGEINTARRAY k 0", "-ERR wrong number of arguments for 'bitrangeintarray' command\r\n"),
        ("RPUSH l a", ":1\r\n"),
        ("BITRANGEINTARRAY l 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ]);
    // The offsets are those that GETBIT finds, for random strings and ranges.
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.usize(1..40)).map(|_| random.u8(..)).collect();
        let bits = bytes.len() as u64 * 8;
        let (start, bit) = (random.u64(..bits), random.bool());
        let (end, most) = (random.u64(start..bits), random.u64(1..20));
        let mut found = Vec::new();
        braid_containers::bits::each_offset(&bytes, bit, start..=end, most, |offset| found.push(offset));
        let all = (start..=end).filter(|&offset| braid_containers::bits::get(&bytes, offset) == bit);
        assert_eq!(found, all.take(most as usize).collect::<Vec<_>>());
    }
}
