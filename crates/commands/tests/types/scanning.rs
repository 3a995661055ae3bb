// SPDX-License-Identifier: BSD-3-Clause
//! HSCAN, SSCAN and ZSCAN: a value is returned in pages exactly when OBJECT ENCODING names a table
//! or skip list, and as a whole when it names a packed form, so that a client can rely on either.

use std::collections::BTreeSet;

use braid_commands::testing::Tester;

/// The cursor and the members of a page. Members contain no digits alone, unlike values and scores.
fn page(tester: &mut Tester, command: &str, cursor: &str, count: usize) -> (String, Vec<String>) {
    let reply = tester.run(&format!("{command} k {cursor} COUNT {count}"));
    let lines: Vec<&str> = reply.split("\r\n").collect();
    assert_eq!((lines[0], lines[2].parse::<u64>().is_ok()), ("*2", true), "{reply}");
    let members = lines[4..].iter().filter(|line| line.starts_with("member"));
    (lines[2].to_owned(), members.map(|member| (*member).to_owned()).collect())
}

/// Pages of a complete scan.
fn pages(tester: &mut Tester, command: &str, count: usize) -> Vec<Vec<String>> {
    let (mut cursor, mut pages) = ("0".to_owned(), Vec::new());
    loop {
        let (next, members) = page(tester, command, &cursor, count);
        pages.push(members);
        assert!(pages.len() < 10_000, "the scan does not end");
        if next == "0" {
            return pages;
        }
        cursor = next;
    }
}

/// The command that adds a member, and whether a page may exceed its COUNT by some members.
const TYPES: [(&str, &str, bool); 3] =
    [("HSCAN", "HSET k @ 1", false), ("SSCAN", "SADD k @", false), ("ZSCAN", "ZADD k 1 @", true)];

#[test]
fn a_value_is_paged_exactly_when_its_encoding_is_not_packed() {
    for (command, add, is_rough) in TYPES {
        for size in [1, 10, 33, 51, 72, 100, 127, 129, 300, 600, 1500] {
            for tail in ["", "-aaaa-bbbb-cccc-ddddddddddddddddddddddddddddddddddddddddddddddddddddddd"] {
                let mut tester = Tester::new();
                for number in 0..size {
                    tester.run(&add.replace('@', &format!("member:{number}{tail}")));
                }
                let encoding = tester.run("OBJECT ENCODING k");
                let is_packed = encoding.contains("listpack");
                for count in [1, 10, 50, 1000] {
                    let pages = pages(&mut tester, command, count);
                    let about = format!("{command} COUNT {count} of {size}, {encoding}");
                    let members: BTreeSet<&String> = pages.iter().flatten().collect();
                    assert_eq!(members.len(), size, "{about}");
                    if is_packed {
                        assert_eq!(pages.len(), 1, "{about}");
                        continue;
                    }
                    let most = pages.iter().map(Vec::len).max().unwrap_or(0);
                    let allowed = if is_rough { count + count / 2 + 12 } else { count };
                    assert!(most <= allowed, "{about}: a page of {most}");
                    assert!(pages.len() >= size / allowed, "{about}");
                }
            }
        }
    }
}

/// What BullMQ asks of a flow's 72 processed children: two pages of at most 50.
#[test]
fn a_hash_of_72_long_fields_is_two_pages_of_50() {
    for (command, add, _) in TYPES {
        let mut tester = Tester::new();
        for number in 0..72 {
            let name =
                format!("member:{number}-aaaa-bbbb-cccc-ddddddddddddddddddddddddddddddddddddddddddddddddd");
            tester.run(&add.replace('@', &name));
        }
        let sizes: Vec<usize> = pages(&mut tester, command, 50).iter().map(Vec::len).collect();
        assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, 72), "{command}: {sizes:?}");
        assert!(sizes[1] <= 22, "{command}: {sizes:?}");
    }
}

#[test]
fn members_that_stay_are_returned_while_others_come_and_go() {
    let mut random = fastrand::Rng::with_seed(42);
    for (command, add, _) in TYPES {
        let remove = if command == "HSCAN" { "HDEL".to_owned() } else { format!("{}REM", &command[..1]) };
        for _ in 0..60 {
            let mut tester = Tester::new();
            let (stay, count) = (random.usize(0..200), random.usize(1..60));
            tester.run(&add.replace('@', &"x".repeat(100)));
            for number in 0..stay {
                tester.run(&add.replace('@', &format!("member:{number}")));
            }
            let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
            loop {
                let (next, members) = page(&mut tester, command, &cursor, count);
                seen.extend(members);
                calls += 1;
                assert!(calls < 10_000, "the scan does not end");
                if next == "0" {
                    break;
                }
                cursor = next;
                let adds = random.bool();
                for _ in 0..random.usize(0..if calls < 20 { 200 } else { 1 }) {
                    let name = format!("other:{}", random.usize(0..2000));
                    tester.run(&if adds { add.replace('@', &name) } else { format!("{remove} k {name}") });
                }
            }
            for number in 0..stay {
                assert!(seen.contains(&format!("member:{number}")), "{command} misses {number} of {stay}");
            }
        }
    }
}
