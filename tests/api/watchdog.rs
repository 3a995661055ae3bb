// SPDX-License-Identifier: BSD-3-Clause
//! `watchdog-period`: long commands are logged while they run.

use braid_tests::{TestServer, request, wait_for};
use rustix::process::Signal;

/// Takes a minute unless it is interrupted.
const LONG: &str = "DEBUG SLEEP 60";

#[test]
fn the_log_says_where_a_thread_is_that_takes_long() {
    for threads in ["1", "3"] {
        let server = TestServer::start(&["--enable-debug-command", "yes", "--io-threads", threads]);
        if !server.is_braid() {
            return;
        }
        let mut client = server.connect();
        client.ok("CONFIG SET watchdog-period 60000");
        client.ok("CONFIG SET watchdog-period 0");
        client.ok("CONFIG SET watchdog-period 100");
        client.send(&request(LONG));
        wait_for("the watchdog to report", || server.log().contains("--------\n"));
        let log = server.log();
        for part in
            ["--- WATCHDOG TIMER EXPIRED ---\nThread ", " (io_thd_", "executor/src/dispatch.rs:", "debug"]
        {
            assert!(log.contains(part), "no {part:?} in:\n{log}");
        }
        server.signal(Signal::KILL);
    }
}
