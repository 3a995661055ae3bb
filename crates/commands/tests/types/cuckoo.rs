// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the cuckoo filter commands.

use braid_commands::testing::Tester;

use crate::sketches::survives_restore;

#[test]
fn replies_are_those_of_redis() {
    crate::replies::check(include_str!("replies/cuckoo.txt"));
}

#[test]
fn chunks_carry_a_filter() {
    let mut tester = Tester::with("enable-debug-command yes");
    tester.check(&[("CF.RESERVE f 20", "+OK\r\n")]);
    for number in 0..100 {
        tester.check(&[(&format!("CF.ADD f i{number}"), ":1\r\n")]);
    }
    survives_restore(&mut tester, "f");
    let mut iterator = 0;
    loop {
        let words: Vec<Vec<u8>> = vec![b"CF.SCANDUMP".into(), b"f".into(), iterator.to_string().into()];
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = tester.run_args(0, &words);
        let rest = reply.strip_prefix(b"*2\r\n:").expect("an iterator");
        let end = rest.iter().position(|&byte| byte == b'\r').expect("a line");
        iterator = std::str::from_utf8(&rest[..end]).expect("digits").parse::<u64>().expect("a number");
        if iterator == 0 {
            break;
        }
        let chunk = &rest[end + 2..];
        let at = chunk.iter().position(|&byte| byte == b'\n').expect("a bulk string") + 1;
        let data = &chunk[at..chunk.len() - 2];
        let loaded = tester.run_args(0, &[b"CF.LOADCHUNK", b"g", iterator.to_string().as_bytes(), data]);
        assert_eq!(loaded, b"+OK\r\n");
    }
    assert_eq!(tester.run("DEBUG DIGEST-VALUE f"), tester.run("DEBUG DIGEST-VALUE g"));
}

#[test]
fn filters_end_to_grow() {
    let mut tester = Tester::new();
    tester.check(&[("CF.RESERVE m 4", "+OK\r\n")]);
    for _ in 0..63 {
        tester.check(&[("CF.ADD m a", ":1\r\n")]);
    }
    tester.check(&[
        ("CF.ADD m a", "-Maximum expansions reached\r\n"),
        ("CF.ADDNX m a", "-Maximum expansions reached\r\n"),
        ("CF.INSERT m ITEMS b", "-Maximum expansions reached\r\n"),
        ("CF.RESERVE n 4611686018427387904", "-ERR Insufficient memory to create filter\r\n"),
        ("EXISTS n", ":0\r\n"),
    ]);
}
