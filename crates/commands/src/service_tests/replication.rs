// SPDX-License-Identifier: BSD-3-Clause
//! REPLICAOF and FAILOVER.

use crate::testing::Tester;

#[test]
fn a_primary_stays_one() {
    Tester::new().check(&[
        ("REPLICAOF NO ONE", "+OK\r\n"),
        ("slaveof no one", "+OK\r\n"),
        ("REPLICAOF a b", "-ERR Invalid master port\r\n"),
        ("REPLICAOF a 65536", "-ERR Invalid master port\r\n"),
        ("FAILOVER ABORT", "-ERR No failover in progress.\r\n"),
        ("FAILOVER ABORT TIMEOUT 1", "-ERR syntax error\r\n"),
        ("FAILOVER", "-ERR FAILOVER requires connected replicas.\r\n"),
        ("FAILOVER TO h 1 FORCE TIMEOUT 1", "-ERR FAILOVER requires connected replicas.\r\n"),
        ("FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0\r\n"),
        ("FAILOVER TO h x", "-ERR value is not an integer or out of range\r\n"),
        ("FAILOVER TO h", "-ERR syntax error\r\n"),
    ]);
}
