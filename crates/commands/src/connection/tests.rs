// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the connection commands.

use braid_clients::client_flags;
use braid_resp::reply::Protocol;

use crate::testing::{Tester, check};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn pinging() {
    check(&[
        ("PING", "+PONG\r\n"),
        ("ping \"a b\"", "$3\r\na b\r\n"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ("ECHO \"\"", "$0\r\n\r\n"),
    ]);
    let mut tester = Tester::new();
    tester.session(0).record.set_flag(client_flags::PUBSUB, true);
    tester
        .check(&[("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"), ("PING x", "*2\r\n$4\r\npong\r\n$1\r\nx\r\n")]);
    tester.speak(0, Protocol::Resp3);
    tester.check(&[("PING", "+PONG\r\n")]);
}

#[test]
fn echo_and_ping_return_long_messages_unchanged() {
    let message = vec![b'm'; 100_000];
    let mut tester = Tester::new();
    for name in [&b"ECHO"[..], b"PING"] {
        let reply = tester.run_args(0, &[name, &message]);
        assert_eq!(reply.len(), b"$100000\r\n".len() + 100_000 + 2);
        assert!(reply.starts_with(b"$100000\r\nmmm") && reply.ends_with(b"m\r\n"));
    }
}

#[test]
fn selecting() {
    check(&[
        ("SELECT 15", "+OK\r\n"),
        ("SELECT 16", "-ERR DB index is out of range\r\n"),
        ("SELECT -1", "-ERR DB index is out of range\r\n"),
        ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
        (
            "SELECT 99999999999",
            "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n",
        ),
        ("SET a 1", "+OK\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("EXISTS a", ":0\r\n"),
    ]);
}

#[test]
fn authentication() {
    let mut tester = Tester::with("requirepass \"se cret\"");
    let early = tester.run("HELLO 3");
    assert!(
        early.starts_with("-NOAUTH HELLO must be called with the client already authenticated, otherwise"),
        "{early}"
    );
    tester.check(&[
        ("PING", "-NOAUTH Authentication required.\r\n"),
        ("AUTH wrong", WRONG),
        ("AUTH default wrong", WRONG),
        ("AUTH nosuch \"se cret\"", WRONG),
        ("AUTH a b c", "-ERR syntax error\r\n"),
        ("HELLO 2 AUTH default wrong", WRONG),
        ("PING", "-NOAUTH Authentication required.\r\n"),
        ("AUTH \"se cret\"", "+OK\r\n"),
        ("PING", "+PONG\r\n"),
        ("AUTH wrong", WRONG),
        ("PING", "+PONG\r\n"),
        ("RESET", "+RESET\r\n"),
        ("PING", "-NOAUTH Authentication required.\r\n"),
        ("AUTH default \"se cret\"", "+OK\r\n"),
        ("PING", "+PONG\r\n"),
        ("RESET", "+RESET\r\n"),
    ]);
    assert!(tester.run("HELLO 3 AUTH default \"se cret\" SETNAME n").starts_with("%7\r\n"));
    tester.check(&[("CLIENT GETNAME", "$1\r\nn\r\n")]);
}

#[test]
fn without_a_password_only_the_full_form_is_accepted() {
    let mut tester = Tester::new();
    assert!(
        tester
            .run("AUTH x")
            .starts_with("-ERR AUTH <password> called without any password configured for the")
    );
    tester.check(&[("AUTH default x", "+OK\r\n"), ("AUTH other x", WRONG)]);
}

#[test]
fn greeting_names_the_zone_and_the_role() {
    let mut tester = Tester::new();
    tester.run("CONFIG SET availability-zone east-1");
    let zone = "$17\r\navailability_zone\r\n$6\r\neast-1\r\n";
    let greeting = tester.run("HELLO 3");
    assert!(greeting.starts_with("%8\r\n") && greeting.ends_with(zone), "{greeting}");
    assert!(tester.run("INFO server").contains("availability_zone:east-1\r\n"));
    assert!(greeting.contains("$4\r\nrole\r\n$6\r\nmaster\r\n"), "{greeting}");
    tester.run("REPLICAOF 127.0.0.1 1");
    let greeting = tester.run("HELLO");
    assert!(greeting.contains("$4\r\nrole\r\n$7\r\nreplica\r\n"), "{greeting}");
}

#[test]
fn greeting() {
    let fields = |id: &str, proto: &str| {
        format!(
            "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n:{proto}\r\n\
             $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
             $7\r\nmodules\r\n*0\r\n"
        )
    };
    let mut tester = Tester::new();
    tester.check(&[
        ("HELLO", &format!("*14\r\n{}", fields("1", "2"))),
        ("HELLO 3", &format!("%7\r\n{}", fields("1", "3"))),
        ("HELLO", &format!("%7\r\n{}", fields("1", "3"))),
        ("GET nosuch", "_\r\n"),
        ("HELLO 2", &format!("*14\r\n{}", fields("1", "2"))),
        ("GET nosuch", "$-1\r\n"),
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
        ("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'\r\n"),
        (
            "HELLO 3 SETNAME \"a b\"",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("GET nosuch", "$-1\r\n"),
    ]);
}

#[test]
fn resetting() {
    let mut tester = Tester::new();
    for line in
        ["HELLO 3", "CLIENT SETNAME n", "CLIENT SETINFO LIB-NAME lib", "SELECT 3", "CLIENT NO-TOUCH ON"]
    {
        assert!(!tester.run(line).starts_with('-'));
    }
    tester.check(&[("MULTI", "+OK\r\n"), ("SET a 1", "+QUEUED\r\n")]);
    tester.check(&[
        ("RESET", "+RESET\r\n"),
        ("GET a", "$-1\r\n"),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
    ]);
    let info = tester.run("CLIENT INFO");
    assert!(info.contains(" flags=N db=0 ") && info.contains(" resp=2 lib-name=lib "), "{info}");
}

#[test]
fn quitting() {
    let mut tester = Tester::new();
    tester.check(&[("QUIT now", "+OK\r\n")]);
    assert!(tester.session(0).reply.close_after);
}
