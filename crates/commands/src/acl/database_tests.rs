// SPDX-License-Identifier: BSD-3-Clause
//! Permissions on databases (`db=`, `alldbs`, `resetdbs`), as in Valkey 9.1.

use super::tests::{self, check};
use crate::testing::Tester;

const DENIED: &str = "-NOPERM No permissions to access database\r\n";

/// A tester whose client 1 is user `u`, who may do everything but for these rules.
fn with_user(rules: &str) -> Tester {
    tests::with_user(&format!("+@all ~* {rules}"))
}

/// The text after a field's name in ACL GETUSER; empty without the field.
fn shown(tester: &mut Tester, field: &str) -> String {
    let reply = tester.run("ACL GETUSER u");
    let mut lines = reply.split("\r\n").skip_while(|line| *line != field);
    lines.nth(2).unwrap_or_default().to_owned()
}

#[test]
fn rules_as_given_and_as_shown() {
    let mut tester = with_user("");
    for (rules, shown_rule, listed) in [
        ("alldbs", "", "+@all"),
        ("db=2,0,2", "db=0,2", "db=0,2 +@all"),
        ("DB=1 db=3", "db=3", "db=3 +@all"),
        ("resetdbs", "", "resetdbs +@all"),
        ("db=7 alldbs", "", "+@all"),
        ("db=2147483647", "db=2147483647", "db=2147483647 +@all"),
        ("db=1 reset +@all", "", "+@all"),
        ("(db=1 +get)", "alldbs", "+@all (resetchannels db=1 -@all +get)"),
        ("clearselectors", "", "+@all"),
    ] {
        assert_eq!(tester.run(&format!("ACL SETUSER u {rules}")), "+OK\r\n", "{rules}");
        assert_eq!(shown(&mut tester, "databases"), shown_rule, "{rules}");
        let list = tester.run("ACL LIST");
        assert!(list.contains(&format!(" resetchannels {listed}\r\n")), "{rules}: {list}");
    }
    for (rule, error) in [
        ("db=", "Syntax error"),
        ("db=,1", "Syntax error"),
        ("db=1,,2", "Syntax error"),
        ("db=x", "Syntax error"),
        ("db=-1", "The provided database ID is out of range"),
        ("db=2147483648", "The provided database ID is out of range"),
        ("db=12345678987654321234567", "The provided database ID is out of range"),
    ] {
        let expected = format!("-ERR Error in ACL SETUSER modifier '{rule}': {error}\r\n");
        assert_eq!(tester.run(&format!("ACL SETUSER u {rule}")), expected);
    }
}

#[test]
fn commands_need_the_database_in_which_they_run() {
    let mut tester = with_user("db=1");
    check(
        &mut tester,
        &[
            ("GET k", DENIED),
            ("SCAN 0", DENIED),
            ("DBSIZE", DENIED),
            ("WATCH k", DENIED),
            ("PING", "+PONG\r\n"),
            ("SELECT 2", DENIED),
            ("SELECT 99", "-ERR DB index is out of range\r\n"),
            ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
            ("SELECT 1", "+OK\r\n"),
            ("SET k v", "+OK\r\n"),
            ("DBSIZE", ":1\r\n"),
            ("FLUSHDB", "+OK\r\n"),
            ("FLUSHALL", DENIED),
        ],
    );
}

#[test]
fn commands_that_name_databases_need_all_of_them() {
    let mut tester = with_user("db=0,1");
    tester.run("SET k v");
    check(
        &mut tester,
        &[
            ("MOVE k 2", DENIED),
            ("SWAPDB 0 2", DENIED),
            ("SWAPDB 2 0", DENIED),
            ("COPY k to DB 2", DENIED),
            ("COPY k to DB 1 REPLACE DB 2", DENIED),
            ("COPY k to DB 2 DB 1", DENIED),
            ("COPY k to DB x", "-ERR value is not an integer or out of range\r\n"),
            ("COPY k to DB 1", ":1\r\n"),
            ("MOVE k 1", ":1\r\n"),
            ("SWAPDB 0 1", "+OK\r\n"),
        ],
    );
    // The selected database counts as well: its keys would leave it.
    tester.run("ACL SETUSER u db=1");
    check(&mut tester, &[("COPY k stolen DB 1", DENIED), ("MOVE k 1", DENIED)]);
    let all: Vec<String> = (0..16).map(|database: u8| database.to_string()).collect();
    tester.run(&format!("ACL SETUSER u db={}", all.join(",")));
    check(&mut tester, &[("FLUSHALL", "+OK\r\n")]);
}

#[test]
fn selectors_have_databases_of_their_own() {
    let mut tester = with_user("-@all +get +select db=0,1 (db=2 +select +set ~*)");
    let no_set = "-NOPERM User u has no permissions to run the 'set' command\r\n";
    check(
        &mut tester,
        &[
            ("GET k", "$-1\r\n"),
            ("SET k v", no_set),
            ("SELECT 2", "+OK\r\n"),
            ("SET k v", "+OK\r\n"),
            ("SELECT 3", DENIED),
        ],
    );
    assert!(tester.run("ACL LIST").contains(" db=0,1 -@all +get +select (~* resetchannels db=2 "));
}

#[test]
fn transactions_and_scripts_may_not_leave_the_databases() {
    let mut tester = with_user("db=1");
    check(
        &mut tester,
        &[
            ("MULTI", "+OK\r\n"),
            ("SET k v", DENIED),
            ("DISCARD", "+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("SELECT 1", "+QUEUED\r\n"),
            ("SET k v", "+QUEUED\r\n"),
            ("EXEC", "*2\r\n+OK\r\n+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("GET k", "+QUEUED\r\n"),
        ],
    );
    tester.run("ACL SETUSER u db=2");
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                   command is no longer allowed for the following reason: no permission\r\n";
    check(&mut tester, &[("EXEC", &format!("*1\r\n{changed}")), ("SELECT 2", "+OK\r\n")]);
    for script in ["redis.call('select', 3)", "redis.call('select', 1) redis.call('set', 'k', 1)"] {
        let reply = tester.run_as(1, &format!("EVAL \"{script}\" 0"));
        assert!(
            reply.starts_with("-ERR ACL failure in script: No permissions to access database"),
            "{reply}"
        );
    }
}

#[test]
fn denials_are_logged_and_counted() {
    let mut tester = with_user("db=0,1");
    for (line, object) in
        [("SELECT 2", "2"), ("MOVE k 3", "3"), ("COPY a b DB 1 DB 4", "4"), ("FLUSHALL", "flushall")]
    {
        tester.run("ACL LOG RESET");
        assert_eq!(tester.run_as(1, line), DENIED, "{line}");
        let log = tester.run("ACL LOG");
        let expected = "reason\r\n$8\r\ndatabase\r\n$7\r\ncontext\r\n$8\r\ntoplevel\r\n$6\r\nobject\r\n";
        assert!(log.contains(expected) && log.contains(&format!("\r\n{object}\r\n")), "{line}: {log}");
    }
    assert!(tester.run("INFO stats").contains("acl_access_denied_db:4\r\n"));
    tester.check(&[
        ("ACL DRYRUN u SELECT 2", "$46\r\nUser u has no permissions to access database 2\r\n"),
        ("ACL DRYRUN u GET k", "+OK\r\n"),
    ]);
}
