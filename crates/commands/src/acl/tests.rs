// SPDX-License-Identifier: BSD-3-Clause
//! Permissions, checked on every path to a command.

use crate::testing::Tester;

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";

/// A tester whose client 1 is user `u` with these rules.
pub(super) fn with_user(rules: &str) -> Tester {
    let mut tester = Tester::new();
    tester.client();
    assert_eq!(tester.run(&format!("ACL SETUSER u on nopass {rules}")), "+OK\r\n");
    assert_eq!(tester.run_as(1, "AUTH u x"), "+OK\r\n");
    tester
}

#[track_caller]
pub(super) fn check(tester: &mut Tester, exchanges: &[(&str, &str)]) {
    for (line, expected) in exchanges {
        assert_eq!(tester.run_as(1, line), *expected, "{line}");
    }
}

fn no_command(name: &str) -> String {
    format!("-NOPERM User u has no permissions to run the '{name}' command\r\n")
}

#[test]
fn commands_keys_and_both() {
    let mut tester = with_user("+get +set +config|get ~a:* %R~r:* %W~w:*");
    check(
        &mut tester,
        &[
            ("SET a:1 x", "+OK\r\n"),
            ("GET a:1", "$1\r\nx\r\n"),
            ("GET b:1", NO_KEY),
            ("SET r:1 x", NO_KEY),
            ("GET r:1", "$-1\r\n"),
            ("SET w:1 x", "+OK\r\n"),
            ("SET w:1 x GET", NO_KEY),
            ("GET w:1", NO_KEY),
            ("DEL a:1", &no_command("del")),
            ("CONFIG SET maxmemory 1", &no_command("config|set")),
            ("CONFIG GET hz", "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n"),
            // Errors in the request come first, as always.
            ("DEL", "-ERR wrong number of arguments for 'del' command\r\n"),
        ],
    );
}

#[test]
fn acl_changes_apply_immediately_to_existing_connections() {
    let mut tester = with_user("allcommands allkeys allchannels");
    check(&mut tester, &[("SET k 1", "+OK\r\n")]);
    tester.run("ACL SETUSER u -get");
    check(&mut tester, &[("GET k", &no_command("get")), ("SET k 2", "+OK\r\n")]);
    tester.run("ACL SETUSER u +get");
    check(&mut tester, &[("GET k", "$1\r\n2\r\n")]);
    // Disabling a user does not end its existing logins.
    tester.run("ACL SETUSER u off");
    check(&mut tester, &[("GET k", "$1\r\n2\r\n"), ("ACL WHOAMI", "$1\r\nu\r\n")]);
    let refused = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    check(&mut tester, &[("AUTH u x", refused)]);
}

#[test]
fn a_deleted_user_leaves_nothing_behind() {
    let mut tester = with_user("allcommands allkeys allchannels");
    assert_eq!(tester.run("ACL DELUSER u nobody"), ":1\r\n");
    // A user recreated immediately is a different user.
    tester.run("ACL SETUSER u on nopass allcommands allkeys allchannels");
    // Requests that are already received are not executed, not even for the default user.
    assert_eq!(tester.run_as(1, "SET k 1"), "");
    assert_eq!(tester.run("EXISTS k"), ":0\r\n");
    assert!(tester.session(1).reply.close_after);
    assert_eq!(tester.run("ACL DELUSER default"), "-ERR The 'default' user cannot be removed\r\n");
}

#[test]
fn a_deleted_user_may_not_act_as_the_default_user_with_a_password() {
    let mut tester = with_user("allcommands allkeys allchannels");
    tester.run("CONFIG SET requirepass secret");
    tester.run("ACL DELUSER u");
    assert_eq!(tester.run_as(1, "SET k 1"), "");
    assert_eq!(tester.run("EXISTS k"), ":0\r\n");
    assert!(tester.session(1).reply.close_after);
}

#[test]
fn first_arguments() {
    let mut tester = with_user("+select|0 +config|get");
    check(
        &mut tester,
        &[("SELECT 0", "+OK\r\n"), ("SELECT 1", &no_command("select")), ("SELECT 00", &no_command("select"))],
    );
    tester.check(&[
        (
            "ACL SETUSER u +config|get|x",
            "-ERR Error in ACL SETUSER modifier '+config|get|x': Allowing first-arg of a subcommand is not supported\r\n",
        ),
        (
            "ACL SETUSER u +get|x|y",
            "-ERR Error in ACL SETUSER modifier '+get|x|y': Unknown command or category name in ACL\r\n",
        ),
        ("ACL SETUSER u +select|", "-ERR Error in ACL SETUSER modifier '+select|': Syntax error\r\n"),
    ]);
}

#[test]
fn transactions_are_checked_twice() {
    let mut tester = with_user("+multi +exec +set +discard ~a");
    check(
        &mut tester,
        &[
            ("MULTI", "+OK\r\n"),
            ("SET b 1", NO_KEY),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            ("SET a 2", "+QUEUED\r\n"),
        ],
    );
    tester.run("ACL SETUSER u resetkeys");
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                   command is no longer allowed for the following reason: no permission to touch the specified keys\r\n";
    check(&mut tester, &[("EXEC", &format!("*2\r\n{changed}{changed}"))]);
    assert_eq!(tester.run("EXISTS a b"), ":0\r\n");
}

#[test]
fn transaction_revoking_its_own_rights_loses_them_immediately() {
    let mut tester = with_user("allcommands allkeys allchannels");
    check(
        &mut tester,
        &[("MULTI", "+OK\r\n"), ("ACL SETUSER u -set", "+QUEUED\r\n"), ("SET a 1", "+QUEUED\r\n")],
    );
    let reply = tester.run_as(1, "EXEC");
    assert!(reply.starts_with("*2\r\n+OK\r\n-NOPERM ACLs rules changed"), "{reply}");
    assert_eq!(tester.run("EXISTS a"), ":0\r\n");
}

#[test]
fn scripts_run_with_the_permissions_of_the_caller() {
    let mut tester = with_user("+eval +eval_ro +get +fcall ~a %R~r");
    check(
        &mut tester,
        &[
            ("EVAL \"return redis.call('GET', 'a')\" 0", "$-1\r\n"),
            ("EVAL \"return redis.call('GET', 'b')\" 1 b", NO_KEY),
            ("EVAL \"return redis.call('GET', 'r')\" 1 r", NO_KEY),
            ("EVAL_RO \"return redis.call('GET', 'r')\" 1 r", "$-1\r\n"),
            (
                "EVAL \"return redis.pcall('GET', 'b')\" 0",
                "-ERR ACL failure in script: No permissions to access a key\r\n",
            ),
            (
                "EVAL \"return redis.pcall('SET', KEYS[1], '1')\" 1 a",
                "-ERR ACL failure in script: User u has no permissions to run the 'set' command\r\n",
            ),
            ("EVAL \"return redis.acl_check_cmd('GET', 'b')\" 0", "$-1\r\n"),
            ("EVAL \"return redis.acl_check_cmd('GET', 'a')\" 0", ":1\r\n"),
            ("EVAL \"return redis.acl_check_cmd('SET', 'a', 'x')\" 0", "$-1\r\n"),
        ],
    );
    let log = tester.run("ACL LOG");
    assert!(log.contains("lua") && log.contains("cmd=eval "), "{log}");
}

#[test]
fn sort_reads_no_other_keys() {
    let mut tester = with_user("+sort +sort_ro ~l ~w_*");
    tester.run("RPUSH l 1 2");
    let by = "-ERR BY option of SORT denied due to insufficient ACL permissions.\r\n";
    let get = "-ERR GET option of SORT denied due to insufficient ACL permissions.\r\n";
    check(
        &mut tester,
        &[
            ("SORT l BY w_*", by),
            ("SORT_RO l GET w_*", get),
            ("SORT l GET #", get),
            ("SORT l BY nosort", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
            ("SORT l STORE elsewhere", NO_KEY),
        ],
    );
    // A selector that reads all keys must also allow the command itself.
    tester.run("ACL SETUSER u (+get %R~*)");
    check(&mut tester, &[("SORT l BY w_*", by)]);
    tester.run("ACL SETUSER u %R~*");
    check(&mut tester, &[("SORT l GET w_*", "*2\r\n$-1\r\n$-1\r\n")]);
}

#[test]
fn copies_need_rights_at_both_ends_in_every_database() {
    let mut tester = with_user("+copy +select +move %R~r %W~w");
    tester.run("SET r 1");
    tester.run("SET x 1");
    check(
        &mut tester,
        &[
            ("COPY r w DB 1", ":1\r\n"),
            ("COPY x w DB 1", NO_KEY),
            ("COPY r x DB 1", NO_KEY),
            ("COPY w r DB 1", NO_KEY),
            ("MOVE r 2", NO_KEY),
            ("SELECT 1", "+OK\r\n"),
            ("COPY w r", NO_KEY),
        ],
    );
}

#[test]
fn selectors_do_not_add_up() {
    let mut tester = with_user("(%R~r +@all) (%W~w +@all)");
    check(
        &mut tester,
        &[("GET r", "$-1\r\n"), ("LPUSH w x", ":1\r\n"), ("COPY r w", NO_KEY), ("GET w", NO_KEY)],
    );
}

#[test]
fn blocked_client_permissions_are_rechecked_when_served() {
    let mut tester = with_user("+blpop ~l");
    tester.wait_as(1, "BLPOP l 0");
    tester.run("ACL SETUSER u resetkeys");
    assert_eq!(tester.run("LPUSH l x"), ":1\r\n");
    assert_eq!(tester.told(1), NO_KEY);
    assert_eq!(tester.run("LLEN l"), ":1\r\n");
}

#[test]
fn passwords() {
    let mut tester = Tester::new();
    tester.client();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    tester.run("ACL SETUSER u on >one >two +ping");
    tester.run("ACL SETUSER u <one !3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3");
    let reply = tester.run("ACL GETUSER u");
    assert!(reply.contains("passwords\r\n*0\r\n"), "{reply}");
    check(&mut tester, &[("AUTH u one", wrong), ("AUTH u two", wrong), ("AUTH nobody x", wrong)]);
    tester.run("ACL SETUSER u #3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3");
    check(
        &mut tester,
        &[("AUTH u two", "+OK\r\n"), ("AUTH u one", wrong), ("ACL WHOAMI", &no_command("acl|whoami"))],
    );
    // If the default user has a password, a connection has no user until it authenticates.
    tester.run("CONFIG SET requirepass secret");
    let new = tester.client();
    assert_eq!(tester.run_as(new, "PING"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(tester.run_as(new, "HELLO 3 AUTH default secre"), wrong);
    assert_eq!(tester.run_as(new, "AUTH secret"), "+OK\r\n");
    assert_eq!(tester.run_as(new, "PING"), "+PONG\r\n");
    // Without a password it is the default user again.
    let other = tester.client();
    tester.run("CONFIG SET requirepass \"\"");
    assert_eq!(tester.run_as(other, "PING"), "+PONG\r\n");
}

#[test]
fn secrets_are_in_no_log() {
    let mut tester = Tester::with("slowlog-log-slower-than 0");
    for line in [
        "AUTH u secret",
        "HELLO 3 AUTH u secret SETNAME shown",
        "ACL SETUSER u on >secret",
        "CONFIG SET maxmemory 0 requirepass secret",
        "ACL DRYRUN default AUTH u secret",
        "ACL GETUSER secret",
        "ACL DELUSER secret other-secret",
    ] {
        tester.run(line);
    }
    let log = tester.run("SLOWLOG GET 20") + &tester.run("ACL LOG");
    assert!(log.contains("(redacted)") && log.contains("shown") && log.contains("requirepass"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn rules_as_they_are_shown() {
    let mut tester = Tester::new();
    for (rules, commands) in [
        ("+@all -@hash -@slow +hget", "+@all -@hash -@slow +hget"),
        (
            "-@all +client|list +client|list +config|get +config +acl|list -acl",
            "-@all +client|list +config -acl",
        ),
        ("-@all +select|0 +select|0 +debug|segfault +debug", "-@all +select|0 +debug"),
        ("-@all +HGET +hGeT +@HaSh", "-@all +hget +@hash"),
        ("-@all +config +config|get -config|set +config", "-@all +config"),
        ("nocommands +@all", "+@all"),
    ] {
        tester.run(&format!("ACL SETUSER u reset {rules}"));
        let reply = tester.run("ACL GETUSER u");
        assert!(reply.contains(&format!("\r\n{commands}\r\n")), "{rules}: {reply}");
        // The shown rules recreate the same user.
        let list = tester.run("ACL LIST");
        let line = list.lines().find(|line| line.starts_with("user u ")).unwrap();
        tester.run(&line.replacen("user u", "ACL SETUSER again reset", 1));
        let again = tester.run("ACL GETUSER again");
        assert_eq!(again, reply, "{rules}");
    }
}

#[test]
fn channels() {
    let mut tester = with_user("+@pubsub +multi +exec +eval resetchannels &foo:1 &bar:*");
    let refused = "-NOPERM No permissions to access a channel\r\n";
    check(
        &mut tester,
        &[
            ("PUBLISH foo:1 x", ":0\r\n"),
            ("PUBLISH bar:2 x", ":0\r\n"),
            ("PUBLISH zap x", refused),
            ("SPUBLISH zap x", refused),
            ("SUBSCRIBE foo:1 zap", refused),
            ("SSUBSCRIBE zap", refused),
            // A pattern must be allowed literally.
            ("PSUBSCRIBE bar:1*", refused),
            ("EVAL \"return redis.call('PUBLISH', 'bar:1', 'x')\" 0", ":0\r\n"),
            (
                "EVAL \"return redis.pcall('PUBLISH', 'zap', 'x')\" 0",
                "-ERR ACL failure in script: No permissions to access a channel\r\n",
            ),
            ("MULTI", "+OK\r\n"),
            ("PUBLISH zap x", refused),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PUBLISH foo:1 x", "+QUEUED\r\n"),
        ],
    );
    tester.run("ACL SETUSER u resetchannels");
    let reply = tester.run_as(1, "EXEC");
    assert!(reply.ends_with("no permission to access one of the channels used as arguments\r\n"), "{reply}");
    let log = tester.run("ACL LOG 1");
    assert!(log.contains("channel") && log.contains("foo:1") && log.contains("multi"), "{log}");
    tester.check(&[
        ("ACL DRYRUN u PUBLISH zap x", "$53\r\nUser u has no permissions to access the 'zap' channel\r\n"),
        ("ACL DRYRUN u SUNSUBSCRIBE zap", "+OK\r\n"),
    ]);
}
