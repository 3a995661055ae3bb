// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the CLIENT commands.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::mailbox::Mailbox;
use braid_clients::{Address, ClientRecord, Message, client_flags};
use braid_executor::session::ReplyMode;

use crate::testing::{Tester, check, check_resp3};

#[test]
fn names_and_numbers() {
    check(&[
        ("CLIENT ID", ":1\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETNAME one", "+OK\r\n"),
        ("client getname", "$3\r\none\r\n"),
        (
            "CLIENT SETNAME \"a b\"",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT SETNAME \"\"", "+OK\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETINFO lib-NAME lib", "+OK\r\n"),
        ("CLIENT SETINFO nosuch x", "-ERR Unrecognized option 'nosuch'\r\n"),
        (
            "CLIENT SETINFO lib-VER \"1 2\"",
            "-ERR lib-VER cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n"),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"),
        ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command\r\n"),
    ]);
}

/// The CLIENT INFO line without the fields that change from run to run.
fn info(tester: &mut Tester) -> String {
    let reply = tester.run("CLIENT INFO");
    let line = reply.split("\r\n").nth(1).expect("a line").to_owned();
    assert!(line.ends_with('\n'));
    line.trim_end().to_owned()
}

#[test]
fn description() {
    let mut tester = Tester::new();
    let expected = "id=1 addr=?:0 laddr=?:0 fd=-1 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 \
                    multi=-1 qbuf=26 qbuf-free=0 argv-mem=10 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
                    tot-mem=0 events=r cmd=client|info user=default redir=-1 resp=2 \
                    lib-name= lib-ver= io-thread=0 watch=0 tot-net-in=0 tot-net-out=0 tot-cmds=0 capa=";
    assert_eq!(info(&mut tester), expected);
    for line in [
        "SELECT 4",
        "HELLO 2 SETNAME n",
        "CLIENT NO-TOUCH ON",
        "CLIENT NO-EVICT ON",
        "CLIENT SETINFO LIB-VER 1",
    ] {
        assert!(!tester.run(line).starts_with('-'), "{line}");
    }
    let line = info(&mut tester);
    assert!(
        line.contains(" name=n ") && line.contains(" flags=eT db=4 ") && line.contains(" lib-ver=1 "),
        "{line}"
    );
    let other = tester.client();
    tester.run_as(other, "GET x");
    let list = tester.run("CLIENT LIST");
    assert!(
        list.contains("\nid=2 ") && list.contains(" cmd=get ") && list.contains(" cmd=client|list "),
        "{list}"
    );
    check_resp3(&[("CLIENT LIST ID 99", "=4\r\ntxt:\r\n")]);
}

#[test]
fn output_beyond_the_first_buffer_is_shown_apart() {
    let mut tester = Tester::new();
    tester.session(0).record.reply_bytes.store(20_000, Relaxed);
    let line = info(&mut tester);
    assert!(line.contains(" obl=16384 oll=1 omem=20480 "), "{line}");
}

/// The IDs that CLIENT LIST shows with these filters, or the error.
fn listed(tester: &mut Tester, filters: &str) -> String {
    let reply = tester.run(&format!("CLIENT LIST {filters}"));
    if reply.starts_with('-') {
        return reply.trim_end().to_owned();
    }
    let id = |line: &str| {
        line.trim_start().strip_prefix("id=").map(|rest| rest.split(' ').next().unwrap_or("").to_owned())
    };
    reply.split('\n').filter_map(id).collect::<Vec<_>>().join(" ")
}

fn with_three_clients() -> Tester {
    let mut tester = Tester::new();
    let (second, third) = (tester.client(), tester.client());
    tester.run_as(second, "CLIENT SETNAME two");
    tester.run_as(second, "SELECT 2");
    tester.run_as(third, "CLIENT SETINFO LIB-NAME lib");
    tester.run_as(third, "MULTI");
    tester.session(third).record.last_active_ms.fetch_sub(30_000, Relaxed);
    tester
}

#[test]
fn filters() {
    let mut tester = with_three_clients();
    for (filters, expected) in [
        ("", "1 2 3"),
        ("TYPE normal", "1 2 3"),
        ("TYPE pubsub", ""),
        ("NOT-TYPE REPLICA", "1 2 3"),
        ("ID 3 1 3 77", "3 1 3"),
        ("ID 0", ""),
        ("ID -5 2", "2"),
        ("NOT-ID 1 3", "2"),
        ("ID 3 NAME two ID 2", "2"),
        ("ID 3 ID 1", "3 1"),
        ("CAPA r", ""),
        ("CAPA \"\" NOT-CAPA r", "1 2 3"),
        ("CAPA x", "-ERR Unknown capa found in the provided filter: x"),
        ("ID 1 2 3 NAME two", "2"),
        ("NAME two", "2"),
        ("NOT-NAME two", "1 3"),
        ("DB 2", "2"),
        ("LIB-NAME lib", "3"),
        ("LIB-VER \"\" SKIPME yes", "2 3"),
        ("FLAGS x", "3"),
        ("FLAGS N NOT-DB 0", "2"),
        ("IDLE 20", "3"),
        ("MAXAGE 1000", ""),
        ("ADDR ?:0", "1 2 3"),
        ("LADDR 1.2.3.4:5", ""),
        ("NOT-IP ?", ""),
        ("USER default", "1 2 3"),
        ("NAME x NAME two", "2"),
        ("USER nosuch", "-ERR No such user 'nosuch'"),
        ("TYPE nosuch", "-ERR Unknown client type 'nosuch'"),
        ("TYPE", "-ERR syntax error"),
        ("ID", "-ERR syntax error"),
        ("ID x", "-ERR Invalid client ID"),
        ("ID 1 x", "-ERR Invalid client ID"),
        ("ID 1 x 2", "-ERR Invalid client ID"),
        ("NOSUCH x", "-ERR syntax error"),
        ("NOT-IDLE 1", "-ERR syntax error"),
        ("SKIPME maybe", "-ERR syntax error"),
        ("FLAGS ?", "-ERR Unknown flags found in the provided filter: ?"),
        ("DB 16", "-ERR DB number should be between 0 and 15"),
        ("DB x", "-ERR DB is not an integer or out of range"),
        ("IDLE 0", "-ERR idle should be greater than 0"),
        ("MAXAGE x", "-ERR maxage is not an integer or out of range"),
    ] {
        assert_eq!(listed(&mut tester, filters), expected, "CLIENT LIST {filters}");
    }
}

#[test]
fn killed_client_is_closed_and_unregistered() {
    let mut tester = with_three_clients();
    let mailbox = Arc::new(Mailbox::new().unwrap());
    let record = Arc::clone(&tester.session(1).record);
    record.set_mailbox(&mailbox);
    tester.check(&[("CLIENT KILL ID 2", ":1\r\n"), ("CLIENT KILL ID 2", ":0\r\n")]);
    assert!(matches!(mailbox.take(), Some(Message::Kill(2))));
    assert!(mailbox.take().is_none() && record.has(client_flags::CLOSE_NOW));
    assert_eq!(listed(&mut tester, ""), "1 3");
    assert_eq!(tester.engine.clients.registry.count(), 2);
    tester.check(&[("CLIENT KILL TYPE normal LIB-NAME lib", ":1\r\n")]);
    assert_eq!(listed(&mut tester, ""), "1");
    assert!(!tester.session(0).reply.close_after);
}

#[test]
fn forms_of_kill() {
    let mut tester = Tester::new();
    let path = Address::Unix("/tmp/s".into());
    let id = tester.engine.clients.registry.next_id();
    tester.engine.clients.registry.add(Arc::new(ClientRecord::new(id, 9, path.clone(), path, 0)));
    tester.check(&[
        ("CLIENT KILL 1.2.3.4:5", "-ERR No such client\r\n"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL ID x", "-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL ID 9 foo", "-ERR syntax error\r\n"),
        ("CLIENT KILL ID 9 0", "-ERR syntax error\r\n"),
        ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0\r\n"),
        ("CLIENT KILL NOSUCH x", "-ERR syntax error\r\n"),
        ("CLIENT KILL USER nosuch", "-ERR No such user 'nosuch'\r\n"),
        ("CLIENT KILL SKIPME yes ID 1", ":0\r\n"),
        ("CLIENT KILL /tmp/s:0", "+OK\r\n"),
        ("CLIENT KILL /tmp/s:0", "-ERR No such client\r\n"),
        ("CLIENT KILL ADDR ?:0", ":0\r\n"),
        ("CLIENT KILL ADDR ?:0 SKIPME no", ":1\r\n"),
    ]);
    assert!(tester.session(0).reply.close_after);
    let mut tester = Tester::new();
    tester.check(&[("CLIENT KILL ?:0", "+OK\r\n")]);
    assert!(tester.session(0).reply.close_after);
}

#[test]
fn replies_are_switched_off_and_on() {
    check(&[
        ("CLIENT REPLY OFF", ""),
        ("SET a 1", ""),
        ("NOSUCH", ""),
        ("CLIENT REPLY SKIP", ""),
        ("PING", ""),
        ("CLIENT REPLY ON", "+OK\r\n"),
        ("GET a", "$1\r\n1\r\n"),
        ("CLIENT REPLY SKIP", ""),
        ("PING", ""),
        ("PING", "+PONG\r\n"),
        ("CLIENT REPLY SKIP", ""),
        ("CLIENT REPLY ON", "+OK\r\n"),
        ("CLIENT REPLY NOSUCH", "-ERR syntax error\r\n"),
        ("CLIENT REPLY OFF", ""),
        ("RESET", "+RESET\r\n"),
    ]);
    let mut tester = Tester::new();
    tester.run("CLIENT REPLY OFF");
    assert_eq!(tester.session(0).reply.mode, ReplyMode::Off);
}

/// As in Redis 7 and 8, each part of a transaction's reply follows the mode at its time. Client
/// libraries switch replies off within transactions.
#[test]
fn replies_are_switched_off_and_on_within_transactions() {
    let transactions: [(&[&str], &str, &str); 6] = [
        (&["MULTI", "SET a 1", "CLIENT REPLY OFF"], "*2\r\n+OK\r\n", ""),
        (
            &["MULTI", "CLIENT REPLY OFF", "SET a 1", "INCR a", "CLIENT REPLY ON"],
            "*4\r\n+OK\r\n",
            "+PONG\r\n",
        ),
        (&["MULTI", "CLIENT REPLY OFF", "SET a 1", "INCR a"], "*3\r\n", ""),
        (&["MULTI", "CLIENT REPLY SKIP", "SET a 1", "INCR a"], "*3\r\n+OK\r\n:2\r\n", ""),
        (
            &["CLIENT REPLY OFF", "MULTI", "SET a 1", "CLIENT REPLY ON", "INCR a"],
            "+OK\r\n:2\r\n",
            "+PONG\r\n",
        ),
        (&["CLIENT REPLY OFF", "MULTI", "SET a 1", "INCR a", "CLIENT REPLY ON"], "+OK\r\n", "+PONG\r\n"),
    ];
    for (requests, reply, next) in transactions {
        let mut tester = Tester::new();
        requests.iter().for_each(|request| drop(tester.run(request)));
        assert_eq!(tester.run("EXEC"), reply, "{requests:?}");
        assert_eq!(tester.run("PING"), next, "{requests:?}");
        assert_eq!(tester.run("CLIENT REPLY ON"), "+OK\r\n");
        assert_eq!(tester.run("PING"), "+PONG\r\n");
    }
}

#[test]
fn switches() {
    let mut tester = Tester::new();
    tester.check(&[
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT NO-TOUCH On", "+OK\r\n"),
        ("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n"),
        ("CLIENT NO-EVICT maybe", "-ERR syntax error\r\n"),
    ]);
    assert!(tester.session(0).options.no_evict && tester.session(0).options.no_touch);
    tester.check(&[("CLIENT NO-EVICT off", "+OK\r\n"), ("CLIENT NO-TOUCH OFF", "+OK\r\n")]);
    assert!(!tester.session(0).options.no_evict && !tester.session(0).options.no_touch);
}

#[test]
fn pausing() {
    let mut tester = Tester::new();
    tester.check(&[
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range\r\n"),
        ("CLIENT PAUSE 1.5", "-ERR timeout is not an integer or out of range\r\n"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative\r\n"),
        ("CLIENT PAUSE 9223372036854775807", "-ERR timeout is out of range\r\n"),
        ("CLIENT PAUSE 10 SOME", "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n"),
        ("SET k v", "+OK\r\n"),
        ("CLIENT PAUSE 60000 write", "+OK\r\n"),
        ("SET k w", ""),
        ("GET k", "$1\r\nv\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET k w", "+QUEUED\r\n"),
        ("EXEC", ""),
        ("DISCARD", "+OK\r\n"),
        ("CLIENT UNPAUSE", "+OK\r\n"),
        ("SET k w", "+OK\r\n"),
        ("CLIENT PAUSE 200", "+OK\r\n"),
        ("GET k", ""),
    ]);
    std::thread::sleep(std::time::Duration::from_millis(205));
    tester.check(&[("GET k", "$1\r\nw\r\n")]);
    let messages: Vec<_> =
        tester.engine.clients.mailboxes.iter().filter_map(|mailbox| mailbox.take()).collect();
    assert_eq!(messages.len(), tester.engine.clients.mailboxes.thread_count());
    assert!(messages.iter().all(|message| matches!(message, Message::Resume)));
}

#[test]
fn unblocking() {
    let mut tester = with_three_clients();
    tester.check(&[
        ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range\r\n"),
        ("CLIENT UNBLOCK 2 NOSUCH", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
        ("CLIENT UNBLOCK 99", ":0\r\n"),
        ("CLIENT UNBLOCK -2", ":0\r\n"),
        ("CLIENT UNBLOCK 2", ":0\r\n"),
    ]);
    tester.wait_as(1, "BLPOP k 0");
    assert!(tester.run("CLIENT LIST ID 2").contains(" flags=b "));
    tester.check(&[("CLIENT UNBLOCK 2 error", ":1\r\n"), ("CLIENT UNBLOCK 2", ":0\r\n")]);
    assert_eq!(tester.told(1), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    tester.wait_as(1, "BLPOP k 0");
    tester.check(&[("CLIENT UNBLOCK 2", ":1\r\n"), ("RPUSH k x", ":1\r\n"), ("LLEN k", ":1\r\n")]);
    assert_eq!(tester.told(1), "*-1\r\n");
    assert!(tester.run("CLIENT LIST ID 2").contains(" flags=N "));
    // A client that is merely paused has no wait to end.
    tester.session(1).record.set_flag(client_flags::BLOCKED | client_flags::POSTPONED, true);
    tester.check(&[("CLIENT UNBLOCK 2", ":0\r\n")]);
}

#[test]
fn a_killed_client_takes_nothing() {
    let mut tester = with_three_clients();
    tester.wait_as(1, "BLPOP k 0");
    tester.check(&[("CLIENT KILL ID 2", ":1\r\n"), ("RPUSH k x", ":1\r\n"), ("LLEN k", ":1\r\n")]);
}

#[test]
fn help_is_framed() {
    let mut tester = Tester::new();
    for container in ["CLIENT", "OBJECT"] {
        let reply = tester.run(&format!("{container} HELP"));
        let first = format!("+{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n");
        assert!(reply.contains(&first) && reply.ends_with("+HELP\r\n+    Print this help.\r\n"), "{reply}");
        let lines = reply.lines().count() - 1;
        assert!(reply.starts_with(&format!("*{lines}\r\n")));
    }
}

#[test]
fn a_changed_watched_key_shows() {
    let mut tester = Tester::new();
    let other = tester.client();
    tester.run("WATCH k");
    assert!(info(&mut tester).contains(" flags=N "));
    tester.run_as(other, "SET k v");
    let line = info(&mut tester);
    assert!(line.contains(" flags=d ") && line.contains(" watch=1 "), "{line}");
    tester.run("MULTI");
    tester.check(&[("EXEC", "*-1\r\n")]);
    assert!(info(&mut tester).contains(" flags=N "));
}

#[test]
fn capabilities() {
    let mut tester = Tester::new();
    assert!(tester.run("CLIENT INFO").contains(" capa=\n"));
    tester.check(&[
        ("CLIENT CAPA", "-ERR wrong number of arguments for 'client|capa' command\r\n"),
        ("CLIENT CAPA nosuch", "+OK\r\n"),
    ]);
    assert!(tester.run("CLIENT INFO").contains(" capa=\n"));
    tester.check(&[("CLIENT CAPA nosuch Redirect", "+OK\r\n"), ("RESET", "+RESET\r\n")]);
    assert!(tester.run("CLIENT INFO").contains(" capa=r\n"));
}
