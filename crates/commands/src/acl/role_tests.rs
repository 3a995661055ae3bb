// SPDX-License-Identifier: BSD-3-Clause
//! Roles and ACL DIGEST, as documented for Valkey 9.2 (valkey.io/commands/acl-setrole and its
//! siblings, valkey.io/topics/acl) and tested in its own suite (tests/unit/acl-role.tcl). No stock
//! server of the test peers has them.

use braid_base::digest::{hex, sha256};
use braid_clients::client_flags;

use super::tests::{check, with_user};
use crate::testing::Tester;

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";

/// The example of valkey.io/commands/acl-getrole, with the example of acl-delrole.
#[test]
fn the_documented_examples() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ACL ROLES", "*0\r\n"),
        ("ACL SETROLE reader ~app:* +@read (+info)", "+OK\r\n"),
        ("ACL SETUSER alice on >alicepass role=reader", "+OK\r\n"),
        (
            "ACL GETROLE reader",
            "*12\r\n$8\r\ncommands\r\n$12\r\n-@all +@read\r\n$4\r\nkeys\r\n$6\r\n~app:*\r\n$8\r\nchannels\r\n$0\r\n\r\n\
             $9\r\ndatabases\r\n$6\r\nalldbs\r\n$9\r\nselectors\r\n*1\r\n*8\r\n$8\r\ncommands\r\n$11\r\n-@all +info\r\n\
             $4\r\nkeys\r\n$0\r\n\r\n$8\r\nchannels\r\n$0\r\n\r\n$9\r\ndatabases\r\n$6\r\nalldbs\r\n$5\r\nusers\r\n*1\r\n\
             $5\r\nalice\r\n",
        ),
        ("ACL GETROLE nosuchrole", "$-1\r\n"),
        ("ACL SETROLE reader on", "-ERR Error in ACL SETROLE modifier 'on': Syntax error\r\n"),
        (
            "ACL DELROLE reader",
            "-ERR Role 'reader' is assigned to one or more users. Remove it from them first.\r\n",
        ),
        ("ACL SETUSER alice resetroles", "+OK\r\n"),
        ("ACL DELROLE reader nosuchrole", ":1\r\n"),
    ]);
    // As maps in RESP3.
    tester.run("ACL SETROLE reader ~app:* +@read (+info)");
    tester.run("HELLO 3");
    let reply = tester.run("ACL GETROLE reader");
    assert!(reply.starts_with("%6\r\n$8\r\ncommands\r\n$12\r\n-@all +@read\r\n"), "{reply}");
    assert!(reply.contains("$9\r\nselectors\r\n*1\r\n%4\r\n"), "{reply}");
    assert_eq!(tester.run("ACL GETROLE nosuchrole"), "_\r\n");
}

#[test]
fn a_role_adds_to_what_a_user_may() {
    let mut tester = with_user("+get ~own:*");
    check(&mut tester, &[("GET a:1", NO_KEY)]);
    tester.check(&[
        ("ACL SETROLE a +get ~a:*", "+OK\r\n"),
        ("ACL SETROLE b +set ~b:* (+del ~c:*)", "+OK\r\n"),
        ("ACL SETUSER u role=a,b", "+OK\r\n"),
    ]);
    let no_set = "-NOPERM User u has no permissions to run the 'set' command\r\n";
    check(
        &mut tester,
        &[
            ("GET own:1", "$-1\r\n"),
            ("GET a:1", "$-1\r\n"),
            ("SET b:1 x", "+OK\r\n"),
            ("DEL c:1", ":0\r\n"),
            // No selector allows these as a whole.
            ("GET b:1", NO_KEY),
            ("SET a:1 x", NO_KEY),
            ("DEL b:1", NO_KEY),
        ],
    );
    // A user cannot be confined below its role; `role=` replaces all.
    tester.check(&[
        ("ACL SETUSER u role=b,b -@all", "+OK\r\n"),
        ("ACL DRYRUN u SET b:1 x", "+OK\r\n"),
        ("ACL DELROLE a", ":1\r\n"),
    ]);
    check(&mut tester, &[("SET b:1 y", "+OK\r\n")]);
    tester.run("ACL SETUSER u resetroles");
    check(&mut tester, &[("SET b:1 z", no_set)]);
}

/// A change of a role holds for connected users at once, in both directions, and a role may make a
/// user unrestricted.
#[test]
fn changes_of_a_role_reach_its_users() {
    let mut tester = with_user("-@all");
    tester.check(&[
        ("ACL SETROLE r ~x* +set", "+OK\r\n"),
        ("ACL SETUSER u role=r", "+OK\r\n"),
        ("ACL SETROLE r allkeys allchannels allcommands", "+OK\r\n"),
    ]);
    check(&mut tester, &[("SET other 1", "+OK\r\n"), ("CONFIG GET hz", "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n")]);
    tester.check(&[("ACL SETROLE r resetkeys ~x*", "+OK\r\n")]);
    check(&mut tester, &[("SET other 1", NO_KEY), ("SET x 1", "+OK\r\n")]);
    // A fault changes nothing.
    let unknown = "-ERR Error in ACL SETROLE modifier '+nosuch': Unknown command or category name in ACL\r\n";
    tester.check(&[("ACL SETROLE r ~other +nosuch", unknown)]);
    check(&mut tester, &[("SET other 1", NO_KEY)]);
    tester.check(&[("ACL SETROLE r db=1", "+OK\r\n")]);
    assert!(tester.run_as(1, "SET x 1").starts_with("-NOPERM"), "confined to database 1");
    check(&mut tester, &[("SELECT 1", "+OK\r\n"), ("SET x 1", "+OK\r\n")]);
}

#[test]
fn subscribers_are_disconnected_when_their_role_no_longer_allows_the_channel() {
    let mut tester = with_user("resetchannels");
    tester.run("ACL SETROLE r +subscribe &news:*");
    tester.run("ACL SETUSER u role=r");
    assert!(tester.run_as(1, "SUBSCRIBE news:1").starts_with("*3\r\n$9\r\nsubscribe"));
    tester.run("ACL SETROLE r &more:*");
    assert!(!tester.session(1).record.has(client_flags::CLOSE_NOW));
    tester.run("ACL SETROLE r resetchannels &more:*");
    assert!(tester.session(1).record.has(client_flags::CLOSE_NOW));
}

#[test]
fn what_a_role_may_not_have() {
    let mut tester = Tester::new();
    for rule in [
        "on",
        "off",
        "reset",
        ">p",
        "<p",
        "#12",
        "!12",
        "nopass",
        "resetpass",
        "role=r",
        "resetroles",
        "nolimits",
        "limit-commands=1",
    ] {
        let refused = format!("-ERR Error in ACL SETROLE modifier '{rule}': Syntax error\r\n");
        assert_eq!(tester.run(&format!("ACL SETROLE r {rule}")), refused);
    }
    tester.check(&[
        ("ACL ROLES", "*0\r\n"),
        ("ACL SETROLE", "-ERR wrong number of arguments for 'acl|setrole' command\r\n"),
        ("ACL SETROLE r (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'.\r\n"),
        ("ACL SETROLE \"\" +get", "-ERR Role names can't be empty\r\n"),
        ("ACL SETROLE a,b +get", "-ERR Role names can't contain commas\r\n"),
        ("ACL SETROLE \"q'x\" +get", "-ERR Role names can't contain quotes or backslashes\r\n"),
    ]);
    for name in ["\"bad name\"", "\"tab\\there\"", "\"\\xc3\\xa9\""] {
        let refused = "-ERR Role names must consist of printable ASCII characters without spaces\r\n";
        assert_eq!(tester.run(&format!("ACL SETROLE {name} +get")), refused);
    }
    // Everything else is a name, also that of a user or command.
    for name in ["read-only", "app.reader", "role:admin", "a=b", "get", "default", "Cache", "cache"] {
        assert_eq!(tester.run(&format!("ACL SETROLE {name} +get")), "+OK\r\n");
    }
    tester.check(&[
        ("ACL SETUSER u role=a=b,get,Cache", "+OK\r\n"),
        (
            "ACL SETUSER u role=get,nosuch",
            "-ERR Error in ACL SETUSER modifier 'role=get,nosuch': The role does not exist\r\n",
        ),
        ("AUTH cache x", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        ("ACL GETUSER cache", "$-1\r\n"),
    ]);
    for list in ["role=", "role=,", "role=,get", "role=get,", "role=get,,get"] {
        let refused = format!("-ERR Error in ACL SETUSER modifier '{list}': Syntax error\r\n");
        assert_eq!(tester.run(&format!("ACL SETUSER u {list}")), refused);
    }
    let user = tester.run("ACL GETUSER u");
    assert!(user.ends_with("$5\r\nroles\r\n*3\r\n$3\r\na=b\r\n$3\r\nget\r\n$5\r\nCache\r\n"), "{user}");
    tester.check(&[("ACL SETUSER u reset", "+OK\r\n")]);
    assert!(!tester.run("ACL GETUSER u").contains("roles"));
}

/// The fingerprint is that of valkey.io/commands/acl-digest: its example has the exclusive or of
/// the SHA-256 of all users' lines, each without the word `user`.
#[test]
fn the_digest_covers_users_and_roles_in_any_order() {
    let mut tester = Tester::new();
    let alone = tester.run("ACL DIGEST");
    let line = b"default on nopass sanitize-payload ~* &* +@all";
    assert_eq!(alone, format!("$64\r\n{}\r\n", String::from_utf8_lossy(&hex::<64>(&sha256(line)))));
    let mut seen = vec![alone.clone()];
    for change in [
        "ACL SETUSER a on >a ~key:* +get",
        "ACL SETUSER b on",
        "ACL SETROLE a ~x",
        "ACL SETUSER b role=a",
        "ACL SETROLE a +get",
    ] {
        tester.run(change);
        let digest = tester.run("ACL DIGEST");
        assert!(!seen.contains(&digest), "{change}");
        seen.push(digest);
    }
    let mut other = Tester::new();
    for change in ["ACL SETROLE a ~x +get", "ACL SETUSER b on role=a", "ACL SETUSER a on >a ~key:* +get"] {
        other.run(change);
    }
    assert_eq!(other.run("ACL DIGEST"), seen[5]);
    tester.check(&[("ACL DELUSER a b", ":2\r\n"), ("ACL DELROLE a", ":1\r\n"), ("ACL DIGEST", &alone)]);
}
