// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the t-digest commands.

use braid_commands::testing::Tester;

use crate::sketches::survives_restore;

#[test]
fn replies_are_those_of_redis() {
    crate::replies::check(include_str!("replies/t_digest.txt"));
}

/// 5000 numbers, 18 merges: the estimates of Redis Stack 7.4, measured.
#[test]
fn estimates_are_those_of_redis_after_many_merges() {
    let mut tester = Tester::with("enable-debug-command yes");
    tester.check(&[("TDIGEST.CREATE d COMPRESSION 50", "+OK\r\n")]);
    let mut number = 1u64;
    for _ in 0..500 {
        let mut words = String::from("TDIGEST.ADD d");
        for _ in 0..10 {
            number = number * 16807 % 2_147_483_647;
            words += &format!(" {number}");
        }
        tester.check(&[(&words, "+OK\r\n")]);
    }
    tester.check(&[("TDIGEST.QUANTILE d 0 0.01 0.1 0.3 0.5 0.9 0.999 1", "*8\r\n$5\r\n13456\r\n$21\r\n2.0358788092592597e+7\r\n$21\r\n2.3606825801447645e+8\r\n$20\r\n6.625099818860285e+8\r\n$17\r\n1067258766.201312\r\n$21\r\n1.9222622498298054e+9\r\n$10\r\n2145462286\r\n$10\r\n2147483531\r\n")]);
    survives_restore(&mut tester, "d");
}
