// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE.

use crate::testing::Tester;

#[test]
fn migrate_validates_its_arguments_first() {
    Tester::new().check(&[
        ("SET k v", "+OK\r\n"),
        ("MIGRATE h 1 k 0", "-ERR wrong number of arguments for 'migrate' command\r\n"),
        ("MIGRATE h 1 missing 0 10", "+NOKEY\r\n"),
        ("MIGRATE h 1 '' 0 10 COPY REPLACE KEYS a b", "+NOKEY\r\n"),
        ("MIGRATE h 1 '' 0 10 KEYS", "+NOKEY\r\n"),
        ("MIGRATE h 1 missing 0 10 COPI", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 missing 0 10 AUTH", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 missing 0 10 AUTH2 name", "-ERR syntax error\r\n"),
        ("MIGRATE h 1 missing x 10", "-ERR value is not an integer or out of range\r\n"),
        ("MIGRATE h 1 missing 0 x", "-ERR value is not an integer or out of range\r\n"),
        (
            "MIGRATE h 1 k 0 10 KEYS a",
            "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string\r\n",
        ),
        ("GET k", "$1\r\nv\r\n"),
    ]);
}

#[test]
fn its_keys_are_known() {
    Tester::new().check(&[
        ("COMMAND GETKEYS MIGRATE h 1 k 0 10", "*1\r\n$1\r\nk\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 KEYS", "*1\r\n$0\r\n\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 COPY AUTH KEYS keys a b", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 '' 0 10 AUTH2 KEYS x KEYS a", "*1\r\n$1\r\na\r\n"),
    ]);
}

/// In a transaction the command waits for the target on the spot; nothing listens on port 1.
#[test]
fn a_key_that_cannot_be_sent_stays() {
    Tester::new().check(&[
        ("SET k v", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MIGRATE 127.0.0.1 1 k 0 1000", "+QUEUED\r\n"),
        ("MIGRATE 127.0.0.1 x1 k 0 1000 COPY", "+QUEUED\r\n"),
        ("GET k", "+QUEUED\r\n"),
        (
            "EXEC",
            "*3\r\n-IOERR error or timeout writing to target instance\r\n\
             -IOERR error or timeout writing to target instance\r\n$1\r\nv\r\n",
        ),
    ]);
}
