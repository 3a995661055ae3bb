// SPDX-License-Identifier: BSD-3-Clause
//! Sketches as a whole: DUMPs of Redis Stack 7.4 are loaded and keep their answers; what is written
//! here is read again; damaged payloads are refused.

use braid_commands::testing::Tester;

const OK: &[u8] = b"+OK\r\n";

const COUNT_MIN: &[&[u8]] = &[
    b"\x07\x81\x08\xc4\xa4\xf96\x0f\x10\x00\x02\x0a\x02\x03\x02\x80\x00\x01\x12\xa1\x05",
    b"\xc3/@x\x06\x00\x00\x00\x00p\x11\x01 \x05\x80\x00\x00\x05\x80\x06\x01\x00,\xe0\x01",
    b"\x12\xe0\x00\x00\xe0\x03\x13\xc0'\xe0\x03;\xc0\x00\xc0\x1b@\x00\x01\x9c\x12\xe0\x0aH",
    b" \x00\x00\x0c\x00\xd2\xd6\xbc\x17\x05\xf4K\x06",
];

const TOP_K: &[&[u8]] = &[
    b"\x07\x81N\x8aJ\xf96\x0f\x10\x00\x02\x02\x02\x08\x02\x03\x04\xcd\xcc\xcc\xcc\xcc\xcc",
    b"\xec?\x05\xc3=@\xc0\x01\x00\x00\x80\x00\x04\x10\xde\xa5\xae\x04\x80\x0a\xe0\x04\x00",
    b"\x04\x97\xed\xdf*\x03\xe0\x02\x11\x04\x17\xf5<\xf2\x05\xe0\x02\x0f\xc0\x00\xe0\x07'",
    b"\xc0\x00@/\x00\x02\xc0\x0c\xe0\x12\x00@'\xe0\x1bW\xe0\x05\xa7\x01\x00\x00\x05\xc3'0",
    b"\x10\x10\xde\xa5\xae\x01\x00\x00\x00\xb8\x12\x14\xe4\xc3\x7f\x00\x00\x04 \x0b@\x00",
    b"\x03\x17\xf5<\xf2@\x17\x00\xa8\xa0\x17\x00\x05@\x14 \x00\x05\x02c\x00\x05\x02a\x00",
    b"\x00\x0c\x00\xe0\xba\x96\x1dW\xfa\xf0%",
];

const CUCKOO: &[&[u8]] = &[
    b"\x07\x810\x16\xe5\xa2\x89\x82\x14\x04\x02\x02\x02\x04\x02\x0a\x02\x01\x02\x02\x02",
    b"\x14\x02\x01\x02\x04\x05\x08\x00\x00\xbc\x00\xcb\xa9\x10\x06\x02\x04\x05\x08\x00\x00",
    b"\xcd\x00\x15\xbb\x1cK\x00\x0c\x00\xaa\x8f\xc0\x22\x15a~k",
];

const T_DIGEST: &[&[u8]] = &[
    b"\x07\x81L2\x12\xf96\x0f\x10\x00\x04\x00\x00\x00\x00\x00\x004@\x04\x00\x00\x00\x00",
    b"\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00X@\x02@\x82\x02\x0c\x02\x00\x02\x01\x04",
    b"\x00\x00\x00\x00\x00\x00N@\x04\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00",
    b"\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\xf0?\x04\x00\x00\x00\x00\x00\x00\x04@",
    b"\x04\x00\x00\x00\x00\x00\x00\x18@\x04\x00\x00\x00\x00\x00@0@\x04UUUUUUC@\x04m\xdb",
    b"\xb6m\xdb\x96P@\x04\x00\x00\x00\x00\x00\xc0T@\x04\x00\x00\x00\x00\x00\x90V@\x04\x00",
    b"\x00\x00\x00\x00`W@\x04\x00\x00\x00\x00\x00\xc0W@\x04\x00\x00\x00\x00\x00\x00X@\x04",
    b"\x00\x00\x00\x00\x00\x00\xf0?\x04\x00\x00\x00\x00\x00\x00\xf0?\x04\x00\x00\x00\x00",
    b"\x00\x00\x00@\x04\x00\x00\x00\x00\x00\x00\x10@\x04\x00\x00\x00\x00\x00\x00 @\x04\x00",
    b"\x00\x00\x00\x00\x00.@\x04\x00\x00\x00\x00\x00\x00,@\x04\x00\x00\x00\x00\x00\x00\x1c",
    b"@\x04\x00\x00\x00\x00\x00\x00\x10@\x04\x00\x00\x00\x00\x00\x00\x00@\x04\x00\x00\x00",
    b"\x00\x00\x00\xf0?\x04\x00\x00\x00\x00\x00\x00\xf0?\x00\x0c\x00o\xea\x9d\xd58\x1d\x8c",
    b":",
];

const T_DIGEST_OF_ONE: &[&[u8]] = &[
    b"\x07\x81L2\x12\xf96\x0f\x10\x00\x04\x00\x00\x00\x00\x00\x00Y@\x04\x00\x00\x00\x00",
    b"\x00\x00\x1c@\x04\x00\x00\x00\x00\x00\x00\x1c@\x02Bb\x02\x00\x02\x01\x02\x00\x04\x00",
    b"\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\xf0?\x00\x0c\x00\xaa\x11",
    b"\xe1\x8e\x16\x90\x05U",
];

const BLOOM: &[&[u8]] = &[
    b"\x07\x810\x16\xe5\xa2\x89\xbe\xf8\x04\x02\x19\x02\x02\x02\x05\x02\x02\x02\x0a\x04{",
    b"\x14\xaeG\xe1zt?\x02\x08\x04\xe9\x86/\xb25\x0e&@\x02@\x80\x02\x00\x05\x10\xd4>\xf93",
    b"\x18\xc4\x12v\x11#\x91L\xbe\x10\xd8\xfd\x02\x0a\x02\x14\x04{\x14\xaeG\xe1zd?\x02\x09",
    b"\x04J\xf7\xd4\x9e\xde\xf0(@\x02A\x00\x02\x00\x05 \x86\x82\x00z\x18\xb20b\xc6\x82B",
    b"\x9ai\x8e\xcaz\xa8\xee\x9b*\x83\xe2.\xc2p+8\x22A.\x08S\x02\x0f\x00\x0c\x00\xe3>0\x07",
    b"k8\x8bc",
];

const BLOOM_FIXED: &[&[u8]] = &[
    b"\x07\x810\x16\xe5\xa2\x89\xbe\xf8\x04\x02\x03\x02\x01\x02\x0d\x02\x02\x02\x0a\x04{",
    b"\x14\xaeG\xe1z\x84?\x02\x07\x04\x88\x16\x8a\xc5\x8c+#@\x02@\x80\x02\x00\x05\x10\x10",
    b"\x04\x00\x0a\x00P\x01  @ \x84\x10\xc2\x09\x00\x02\x03\x00\x0c\x00\xda\xbd\x85\xcfW",
    b"\xf7\x07\xed",
];

fn payload(reply: &[u8]) -> Vec<u8> {
    let at = reply.iter().position(|&byte| byte == b'\n').expect("a bulk string") + 1;
    reply[at..reply.len() - 2].to_vec()
}

/// Asserts that a value comes back from its DUMP as it was, and that no shortened DUMP is taken.
pub fn survives_restore(tester: &mut Tester, key: &str) {
    let digest = |tester: &mut Tester, key: &str| tester.run(&format!("DEBUG DIGEST-VALUE {key}"));
    let dumped = payload(&tester.run_args(0, &[b"DUMP", key.as_bytes()]));
    tester.run("DEL copy");
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"copy", b"0", &dumped]), OK);
    assert_eq!(digest(tester, key), digest(tester, "copy"), "{key}");
    tester.run("DEL copy");
    assert_eq!(tester.run(&format!("COPY {key} copy")), ":1\r\n");
    assert_eq!(digest(tester, key), digest(tester, "copy"), "{key}");
    tester.run("DEL copy");
    for at in (0..dumped.len() - 10).step_by(1 + dumped.len() / 500) {
        let mut cut = dumped[..at].to_vec();
        braid_rdb::seal(&mut cut, braid_rdb::VERSION);
        let reply = tester.run_args(0, &[b"RESTORE", b"bad", b"0", &cut]);
        assert!(reply.starts_with(b"-ERR Bad data format"), "{key} cut at {at}");
    }
}

#[track_caller]
fn load(tester: &mut Tester, key: &str, pieces: &[&[u8]]) {
    let payload = pieces.concat();
    let reply = tester.run_args(0, &[b"RESTORE", key.as_bytes(), b"0", &payload]);
    assert_eq!(reply.escape_ascii().to_string(), OK.escape_ascii().to_string());
    survives_restore(tester, key);
}

/// The key's DUMP is that of a stock server, but for version and checksum.
#[track_caller]
fn dumps_as(tester: &mut Tester, key: &str, pieces: &[&[u8]]) {
    let value = |payload: &[u8]| payload[..payload.len() - 10].escape_ascii().to_string();
    let own = payload(&tester.run_args(0, &[b"DUMP", key.as_bytes()]));
    assert_eq!(value(&own), value(&pieces.concat()));
}

fn tester() -> Tester {
    Tester::with("enable-debug-command yes")
}

#[test]
fn count_min_sketches_of_redis_are_loaded() {
    let mut tester = tester();
    load(&mut tester, "k", COUNT_MIN);
    tester.check(&[
        ("TYPE k", "+CMSk-TYPE\r\n"),
        ("OBJECT ENCODING k", "$3\r\nraw\r\n"),
        ("CMS.QUERY k a b c", "*3\r\n:5\r\n:300\r\n:70000\r\n"),
        ("CMS.INFO k", "*8\r\n+width\r\n:10\r\n+depth\r\n:3\r\n+count\r\n:70305\r\n+cell_size\r\n:4\r\n"),
    ]);
}

#[test]
fn top_k_values_of_redis_are_loaded() {
    let mut tester = tester();
    load(&mut tester, "k", TOP_K);
    tester.check(&[
        ("TYPE k", "+TopK-TYPE\r\n"),
        ("TOPK.LIST k WITHCOUNT", "*4\r\n$1\r\na\r\n:5\r\n$1\r\nc\r\n:4\r\n"),
        ("TOPK.COUNT k a b c", "*3\r\n:5\r\n:3\r\n:4\r\n"),
        ("TOPK.INCRBY k b 2", "*1\r\n$1\r\nc\r\n"),
    ]);
    survives_restore(&mut tester, "k");
}

#[test]
fn cuckoo_filters_of_redis_are_loaded() {
    let mut tester = tester();
    load(&mut tester, "k", CUCKOO);
    tester.check(&[
        ("TYPE k", "+MBbloomCF\r\n"),
        (
            "CF.MEXISTS k a b c d e f g h i j k",
            "*11\r\n:0\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        ),
        (
            "CF.DEBUG k",
            "$78\r\nbktsize:2 buckets:4 items:10 deletes:1 filters:2 max_iterations:20 expansion:1\r\n",
        ),
    ]);
    dumps_as(&mut tester, "k", CUCKOO);
}

/// The same items in the same order lead to the same filter, fingerprint for fingerprint.
#[test]
fn a_cuckoo_filter_becomes_that_of_redis() {
    let mut tester = tester();
    tester.check(&[("CF.RESERVE k 8", "+OK\r\n")]);
    tester.run("CF.INSERT k ITEMS a b c d e f g h i j k");
    tester.check(&[("CF.DEL k a", ":1\r\n")]);
    dumps_as(&mut tester, "k", CUCKOO);
}

#[test]
fn t_digests_of_redis_are_loaded() {
    let mut tester = tester();
    load(&mut tester, "k", T_DIGEST);
    let quantiles = "*5\r\n$1\r\n0\r\n$1\r\n6\r\n$17\r\n51.07963875205254\r\n$5\r\n90.25\r\n$2\r\n96\r\n";
    tester.check(&[
        ("TYPE k", "+TDIS-TYPE\r\n"),
        ("TDIGEST.QUANTILE k 0 0.1 0.5 0.9 1", quantiles),
        ("TDIGEST.CREATE own COMPRESSION 20", "+OK\r\n"),
    ]);
    let numbers: Vec<String> = (0..60).map(|number| (number * number % 97).to_string()).collect();
    tester.run(&format!("TDIGEST.ADD own {}", numbers.join(" ")));
    tester.check(&[("TDIGEST.QUANTILE own 0 0.1 0.5 0.9 1", quantiles)]);
    // With numbers that wait to be merged.
    survives_restore(&mut tester, "own");
    load(&mut tester, "one", T_DIGEST_OF_ONE);
    tester.check(&[("TDIGEST.QUANTILE one 0.5", "*1\r\n$1\r\n7\r\n")]);
}

#[test]
fn bloom_filters_of_redis_are_loaded() {
    let mut tester = tester();
    load(&mut tester, "k", BLOOM);
    load(&mut tester, "fixed", BLOOM_FIXED);
    tester.check(&[
        // The last is a false positive, there as here.
        ("BF.MEXISTS k i0 i24 zz", "*3\r\n:1\r\n:1\r\n:1\r\n"),
        ("BF.CARD k", ":25\r\n"),
        ("BF.INFO k FILTERS", "*1\r\n:2\r\n"),
        ("BF.INFO fixed EXPANSION", "*1\r\n$-1\r\n"),
        ("BF.MEXISTS fixed a b c d", "*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n"),
    ]);
}

/// The form of Redis 8.12 is not known here: it is refused, not loaded wrongly.
#[test]
fn unknown_versions_of_the_forms_are_refused() {
    let mut tester = tester();
    let mut bytes = COUNT_MIN.concat();
    // The last bits of the module's ID are the version.
    bytes[9] |= 1;
    bytes.truncate(bytes.len() - 10);
    braid_rdb::seal(&mut bytes, braid_rdb::VERSION);
    let reply = tester.run_args(0, &[b"RESTORE", b"k", b"0", &bytes]);
    assert!(reply.starts_with(b"-ERR Bad data format"), "{}", reply.escape_ascii());
}

#[test]
fn access_rules_know_the_categories() {
    let mut tester = tester();
    for (category, commands, one) in [
        ("cms", 6, "cms.merge"),
        ("topk", 7, "topk.list"),
        ("cuckoo", 14, "cf.del"),
        ("tdigest", 14, "tdigest.rank"),
    ] {
        let members = tester.run(&format!("ACL CAT {category}"));
        assert!(members.starts_with(&format!("*{commands}\r\n")) && members.contains(one), "{members}");
    }
}
