// SPDX-License-Identifier: BSD-3-Clause
//! Tests of CLIENT TRACKING and its relatives.

use braid_resp::reply::Protocol;

use crate::testing::{Tester, check};

/// A tester whose client 0 speaks RESP3, and another client.
fn pair() -> (Tester, usize) {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    let other = tester.client();
    (tester, other)
}

fn invalidate(key: &str) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len())
}

#[test]
fn tracking_invalidates_a_read_key_once() {
    let (mut tester, other) = pair();
    tester.run("CLIENT TRACKING ON");
    for (read, change) in [
        ("GET k", "SET k 1"),
        ("MGET k l", "SETRANGE k 0 x"),
        ("EXISTS k", "EXPIRE k 100"),
        ("STRLEN k", "DEL k"),
        ("EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k", "APPEND k x"),
        ("GET k", "RENAME k l"),
    ] {
        tester.run(read);
        assert_eq!(tester.run("PING"), "+PONG\r\n", "{read}");
        tester.run_as(other, change);
        let told = tester.run("PING");
        assert!(told.contains(&invalidate("k")), "{change}: {told}");
        tester.run_as(other, "SET k again");
        assert!(!tester.run("PING").contains(&invalidate("k")), "{change}");
    }
    // Invalidations of the client's own changes follow the reply.
    tester.check(&[
        ("GET k", "$5\r\nagain\r\n"),
        ("SET k 2", &format!("+OK\r\n{}", invalidate("k"))),
        ("CLIENT TRACKING OFF", "+OK\r\n"),
        ("GET k", "$1\r\n2\r\n"),
        ("SET k 2", "+OK\r\n"),
    ]);
}

#[test]
fn transactions_scripts_and_flushes() {
    let (mut tester, other) = pair();
    tester.run("CLIENT TRACKING ON");
    tester.run("GET k");
    for line in ["MULTI", "SET k 1", "GET l"] {
        tester.run(line);
    }
    assert_eq!(tester.run("EXEC"), format!("*2\r\n+OK\r\n_\r\n{}", invalidate("k")));
    tester.run_as(other, "SET l 1");
    assert_eq!(tester.run("PING"), format!("+PONG\r\n{}", invalidate("l")));
    tester.run("GET k");
    tester.run_as(other, "FLUSHALL");
    assert_eq!(tester.run("PING"), "+PONG\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!((tester.engine.trackers.keys(), tester.engine.trackers.items()), (0, 0));
    tester.run_as(other, "SET k 1");
    assert_eq!(tester.run("PING"), "+PONG\r\n");
}

#[test]
fn expired_and_evicted_keys() {
    let (mut tester, other) = pair();
    tester.run("CLIENT TRACKING ON");
    tester.run_as(other, "SET k 1 PX 1");
    tester.run("GET k");
    std::thread::sleep(std::time::Duration::from_millis(3));
    tester.run_as(other, "GET k");
    assert_eq!(tester.run("PING"), format!("+PONG\r\n{}", invalidate("k")));
}

#[test]
fn bcast_invalidations_are_grouped_by_prefix() {
    let (mut tester, other) = pair();
    tester.run("CLIENT TRACKING ON BCAST PREFIX a PREFIX b NOLOOP");
    tester.run_as(other, "MSET b1 1 a2 1 a1 1 c 1 a1 2");
    let expected = "+PONG\r\n>2\r\n$10\r\ninvalidate\r\n*2\r\n$2\r\na1\r\n$2\r\na2\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nb1\r\n";
    assert_eq!(tester.run("PING"), expected);
    assert_eq!(tester.run("SET a1 own"), "+OK\r\n");
    assert_eq!(tester.engine.trackers.prefixes(), 2);
    tester.run("RESET");
    tester.run_as(other, "SET a1 1");
    assert_eq!(tester.run("PING"), "+PONG\r\n");
    assert_eq!((tester.engine.trackers.prefixes(), tester.engine.trackers.clients()), (0, 0));
}

#[test]
fn invalidations_are_redirected_while_the_target_is_connected() {
    let (mut tester, other) = pair();
    let target = tester.client();
    tester.run_as(target, "SUBSCRIBE __redis__:invalidate");
    let id = tester.session(target).id();
    tester.run(&format!("CLIENT TRACKING ON REDIRECT {id}"));
    tester.run("GET k");
    tester.run_as(other, "SET k 1");
    let told = tester.run_as(target, "PING");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
    assert_eq!(told, format!("*2\r\n$4\r\npong\r\n$0\r\n\r\n{message}"));
    assert_eq!(tester.run("CLIENT GETREDIR"), format!(":{id}\r\n"));
    tester.run("GET k");
    tester.engine.clients.registry.remove(id);
    tester.run_as(other, "SET k 2");
    assert_eq!(tester.run("PING"), format!("+PONG\r\n>2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n"));
    assert!(tester.run("CLIENT TRACKINGINFO").contains("broken_redirect"));
    assert!(tester.run("CLIENT LIST").contains("flags=tR db=0"));
}

#[test]
fn optin_and_optout() {
    let (mut tester, other) = pair();
    tester.run("CLIENT TRACKING ON OPTIN");
    tester.run("GET k");
    tester.run("CLIENT CACHING YES");
    tester.run("GET l");
    tester.run("GET m");
    tester.run_as(other, "MSET k 1 l 1 m 1");
    assert_eq!(tester.run("PING"), format!("+PONG\r\n{}", invalidate("l")));
    tester.run("CLIENT TRACKING OFF");
    tester.run("CLIENT TRACKING ON OPTOUT");
    tester.run("CLIENT CACHING NO");
    tester.run("GET k");
    tester.run("GET l");
    tester.run_as(other, "MSET k 1 l 1 m 1");
    assert_eq!(tester.run("PING"), format!("+PONG\r\n{}", invalidate("l")));
}

#[test]
fn the_table_is_bounded() {
    let (mut tester, _) = pair();
    tester.run("CONFIG SET tracking-table-max-keys 10");
    tester.run("CLIENT TRACKING ON");
    let mut told = 0;
    for number in 0..50 {
        told += tester.run(&format!("GET k{number}")).matches("invalidate").count();
    }
    assert_eq!((tester.engine.trackers.keys(), told), (10, 40));
    let told = tester.run("CONFIG SET tracking-table-max-keys 3");
    assert_eq!(told.matches("invalidate").count(), 7);
}

#[test]
fn refusals() {
    check(&[
        ("CLIENT TRACKING MAYBE", "-ERR syntax error\r\n"),
        ("CLIENT TRACKING ON REDIRECT 99", "-ERR The client ID you want redirect to does not exist\r\n"),
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n"),
        ("CLIENT TRACKING ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n"),
        ("CLIENT TRACKING ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n"),
        (
            "CLIENT TRACKING ON BCAST PREFIX ab PREFIX a",
            "-ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single client must not overlap.\r\n",
        ),
        (
            "CLIENT CACHING YES",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled\r\n",
        ),
        ("CLIENT GETREDIR", ":-1\r\n"),
        (
            "CLIENT TRACKINGINFO",
            "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
        ),
        ("CLIENT TRACKING ON OPTIN", "+OK\r\n"),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n",
        ),
        ("CLIENT GETREDIR", ":0\r\n"),
    ]);
}
