// SPDX-License-Identifier: BSD-3-Clause
//! Limits of users. The rates are tested beside them (`budget.rs` of `braid-clients`).

use super::tests::with_user;
use crate::testing::Tester;

/// Sends a command until it is refused by a limit of one a second.
fn is_refused(tester: &mut Tester, client: usize, line: &str) -> String {
    let refused = (0..1000).map(|_| tester.run_as(client, line)).find(|reply| reply.starts_with("-LIMIT"));
    refused.unwrap_or_else(|| panic!("{line} is never refused"))
}

#[test]
fn requests_beyond_the_limit_are_refused_with_a_time() {
    let mut tester = with_user("limit-commands=1 allcommands allkeys allchannels");
    let reply = is_refused(&mut tester, 1, "SET k v");
    let wait = reply.strip_prefix("-LIMIT The user has reached limit-commands: try again in ");
    let wait =
        wait.and_then(|rest| rest.strip_suffix(" ms\r\n")).and_then(|number| number.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| (1..=1000).contains(&wait)), "{reply}");
    // All clients of the user share the limit; others have none.
    tester.client();
    tester.run_as(2, "AUTH u x");
    is_refused(&mut tester, 2, "GET k");
    assert_eq!(tester.run("GET k"), "$1\r\nv\r\n");
    // A log-in is always possible, and leaves the limit.
    assert_eq!(tester.run_as(2, "AUTH default x"), "+OK\r\n");
    (0..1000).for_each(|_| assert_eq!(tester.run_as(2, "GET k"), "$1\r\nv\r\n"));
    // A change applies at once.
    tester.run("ACL SETUSER u nolimits");
    (0..1000).for_each(|_| assert_eq!(tester.run_as(1, "GET k"), "$1\r\nv\r\n"));
}

#[test]
fn a_refused_command_discards_its_transaction() {
    let mut tester = with_user("limit-commands=1000000000 allcommands allkeys allchannels");
    assert_eq!(tester.run_as(1, "MULTI"), "+OK\r\n");
    assert_eq!(tester.run_as(1, "SET k v"), "+QUEUED\r\n");
    tester.run("ACL SETUSER u limit-commands=1");
    is_refused(&mut tester, 1, "SET k w");
    tester.run("ACL SETUSER u nolimits");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    assert_eq!(tester.run_as(1, "EXEC"), aborted);
    assert_eq!(tester.run("EXISTS k"), ":0\r\n");
}

/// A request waits for as long as it may, and runs once; beyond that it is refused.
#[test]
fn requests_wait_instead_of_being_refused() {
    let mut tester = with_user("limit-commands=20 limit-delay=1000 allcommands allkeys allchannels");
    let mut waited = 0;
    for number in 1..=10 {
        let reply = tester.run_as(1, "INCR k");
        if reply.is_empty() {
            waited += 1;
            let until = tester.session(1).delayed_until_ms().expect("it waits");
            // Nothing is counted twice, whoever resumes the client before.
            (0..100).for_each(|_| assert_eq!(tester.run_as(1, "INCR k"), ""));
            assert_eq!(tester.session(1).delayed_until_ms(), Some(until));
            while braid_base::clock::unix_ms() < until {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert_eq!(tester.run_as(1, "INCR k"), format!(":{number}\r\n"));
        }
    }
    // A quarter of a second's worth may be used at once.
    assert_eq!(waited, 5);
    // One second is the most, and another client waits already.
    tester.run("ACL SETUSER u limit-commands=1");
    tester.client();
    tester.run_as(2, "AUTH u x");
    while !tester.run_as(1, "INCR k").is_empty() {}
    let reply = is_refused(&mut tester, 2, "INCR k");
    assert!(reply.starts_with("-LIMIT The user has reached limit-commands: try again in "), "{reply}");
    let identity = std::sync::Arc::clone(&tester.session(1).login.user.identity);
    assert!(identity.delayed.load(std::sync::atomic::Ordering::Relaxed) >= 5);
}

/// What one long command takes, those that follow make up for.
#[test]
fn processor_time_is_limited() {
    let mut tester = with_user("limit-time=10 allcommands allkeys allchannels");
    let script = "EVAL \"for i = 1, 30000000 do end return 1\" 0";
    assert_eq!(tester.run_as(1, script), ":1\r\n");
    let reply = tester.run_as(1, "PING");
    assert!(reply.starts_with("-LIMIT The user has reached limit-time: try again in "), "{reply}");
    // Others are served, and cheap requests cost next to nothing.
    assert_eq!(tester.run("PING"), "+PONG\r\n");
    tester.run("ACL DELUSER u");
    let mut tester = with_user("limit-time=10 allcommands allkeys allchannels");
    (0..10).for_each(|_| assert_eq!(tester.run_as(1, "PING"), "+PONG\r\n"));
}

#[test]
fn connections_are_limited() {
    let mut tester = with_user("limit-connections=2 allcommands allkeys allchannels");
    for _ in 0..3 {
        tester.client();
    }
    let full = "-LIMIT The user has reached limit-connections: 2 are in use\r\n";
    assert_eq!(tester.run_as(2, "AUTH u x"), "+OK\r\n");
    assert_eq!(tester.run_as(3, "AUTH u x"), full);
    assert_eq!(tester.run_as(3, "ACL WHOAMI"), "$7\r\ndefault\r\n");
    // One that is logged in may log in again, and one that leaves makes room.
    assert_eq!(tester.run_as(2, "AUTH u y"), "+OK\r\n");
    assert!(tester.run_as(2, "HELLO 2 AUTH u x").starts_with("*14\r\n"));
    assert_eq!(tester.run_as(3, "HELLO 2 AUTH u x"), full);
    assert_eq!(tester.run_as(2, "RESET"), "+RESET\r\n");
    assert_eq!(tester.run_as(3, "AUTH u x"), "+OK\r\n");
    assert_eq!(tester.run_as(2, "AUTH u x"), full);
    tester.run("ACL SETUSER u limit-connections=3");
    assert_eq!(tester.run_as(2, "AUTH u x"), "+OK\r\n");
    let identity = std::sync::Arc::clone(&tester.session(2).login.user.identity);
    assert_eq!(identity.connections(), 3);
    drop(tester);
    assert_eq!(identity.connections(), 0);
}

/// The commands of a script do not count.
#[test]
fn a_script_is_one_request() {
    let mut tester = with_user("limit-commands=4 allcommands allkeys allchannels");
    let script = "EVAL \"for i = 1, 1000 do redis.call('INCR', KEYS[1]) end\" 1 k";
    assert_eq!(tester.run_as(1, script), "$-1\r\n");
    assert_eq!(tester.run("GET k"), "$4\r\n1000\r\n");
}

#[test]
fn limits_are_shown_and_reset() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ACL SETUSER u limit-commands=1000 LIMIT-INPUT=1mb limit-output=10k", "+OK\r\n"),
        ("ACL SETUSER u limit-time=0 limit-connections=0 limit-delay=0", "+OK\r\n"),
        ("ACL SETUSER u limit-commands=0", "+OK\r\n"),
    ]);
    assert!(
        tester
            .run("ACL GETUSER u")
            .ends_with("$6\r\nlimits\r\n$38\r\nlimit-input=1048576 limit-output=10000\r\n")
    );
    let list = tester.run("ACL LIST");
    let line = "user u off sanitize-payload limit-input=1048576 limit-output=10000 resetchannels -@all\r\n";
    assert!(list.contains(line), "{list}");
    tester.run("ACL SETUSER u nolimits limit-time=50 limit-connections=7 limit-delay=100");
    let list = tester.run("ACL LIST");
    assert!(list.contains(" limit-time=50 limit-connections=7 limit-delay=100 resetchannels"), "{list}");
    tester.check(&[("ACL SETUSER u reset", "+OK\r\n")]);
    assert!(!tester.run("ACL GETUSER u").contains("limit"));
    for rule in [
        "limit-commands=",
        "limit-commands=-1",
        "limit-commands=1k",
        "limit-input=x",
        "limit-output=1.5",
        "limit-time=1.5",
        "limit-connections=-1",
        "limit-delay=60001",
    ] {
        let refused =
            format!("-ERR Error in ACL SETUSER modifier '{rule}': A limit must be a number, 0 for none\r\n");
        assert_eq!(tester.run(&format!("ACL SETUSER u {rule}")), refused);
    }
    let refused = "-ERR Error in ACL SETUSER modifier 'limit-keys=1': Syntax error\r\n";
    tester.check(&[("ACL SETUSER u limit-keys=1", refused)]);
}
