// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the count-min sketch commands.

use braid_commands::testing::Tester;

use crate::sketches::survives_restore;

const OK: &str = "+OK\r\n";

#[test]
fn replies_are_those_of_redis() {
    crate::replies::check(include_str!("replies/count_min.txt"));
}

/// As the documentation of Redis 8.12 has it.
#[test]
fn cells_have_sizes_and_counts_go_down() {
    let mut tester = Tester::with("enable-debug-command yes");
    tester.check(&[
        ("CMS.INITBYDIM a 10 3 CELL_SIZE 1", OK),
        ("CMS.INITBYDIM b 10 3 CELL_SIZE 3", "-CMS: invalid cell size\r\n"),
        ("CMS.INITBYDIM b 10 3 CELL_SIZE", "-ERR wrong number of arguments for 'cms.initbydim' command\r\n"),
        ("CMS.INITBYPROB b 0.2 0.125 CELL_SIZE 8", OK),
        ("CMS.INFO b", "*8\r\n+width\r\n:10\r\n+depth\r\n:3\r\n+count\r\n:0\r\n+cell_size\r\n:8\r\n"),
        ("CMS.INCRBY a x 255", "*1\r\n:255\r\n"),
        ("CMS.INCRBY a x 1 y -1", "*2\r\n-CMS: INCRBY overflow\r\n-CMS: INCRBY underflow\r\n"),
        ("CMS.INCRBY a x -5", "*1\r\n:250\r\n"),
        ("CMS.INFO a", "*8\r\n+width\r\n:10\r\n+depth\r\n:3\r\n+count\r\n:250\r\n+cell_size\r\n:1\r\n"),
        ("CMS.MERGE b 1 a", "-CMS: cell size is not equal\r\n"),
        ("CMS.INCRBY b x 9223372036854775807", "*1\r\n:9223372036854775807\r\n"),
        ("CMS.INCRBY b x 1", "*1\r\n-CMS: INCRBY overflow\r\n"),
    ]);
    survives_restore(&mut tester, "a");
    survives_restore(&mut tester, "b");
}

#[test]
fn sizes_beyond_all_limits_are_refused() {
    Tester::new().check(&[
        ("CMS.INITBYDIM a 4294967296 5", "-CMS: invalid init arguments\r\n"),
        ("CMS.INITBYDIM a 9223372036854775807 9223372036854775807", "-CMS: invalid init arguments\r\n"),
        ("CMS.INITBYPROB a 1e-300 0.5", "-CMS: invalid init arguments\r\n"),
        ("EXISTS a", ":0\r\n"),
    ]);
}
