// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the pub/sub commands.

use braid_resp::reply::Protocol;

use crate::testing::{Tester, check};

#[test]
fn a_resp2_client_that_listens_may_do_little_else() {
    check(&[
        (
            "SUBSCRIBE a b",
            "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
        ),
        (
            "GET k",
            "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context\r\n",
        ),
        (
            "CONFIG GET port",
            "-ERR Can't execute 'config|get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context\r\n",
        ),
        // A subcommand with the name of an allowed command is a different command.
        (
            "LATENCY RESET",
            "-ERR Can't execute 'latency|reset': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context\r\n",
        ),
        ("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
        ("PING x", "*2\r\n$4\r\npong\r\n$1\r\nx\r\n"),
        ("PSUBSCRIBE p*", "*3\r\n$10\r\npsubscribe\r\n$2\r\np*\r\n:3\r\n"),
        ("SSUBSCRIBE s", "*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n"),
        ("UNSUBSCRIBE a", "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:2\r\n"),
        ("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:1\r\n"),
        ("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:1\r\n"),
        ("SUNSUBSCRIBE", "*3\r\n$12\r\nsunsubscribe\r\n$1\r\ns\r\n:0\r\n"),
        ("PUNSUBSCRIBE p*", "*3\r\n$12\r\npunsubscribe\r\n$2\r\np*\r\n:0\r\n"),
        ("PUNSUBSCRIBE", "*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n"),
        ("GET k", "$-1\r\n"),
        ("SUBSCRIBE", "-ERR wrong number of arguments for 'subscribe' command\r\n"),
    ]);
}

#[test]
fn messages_to_oneself_follow_the_reply() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        ("SUBSCRIBE c", ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"),
        ("PUBLISH c m", ":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PUBLISH c 1", "+QUEUED\r\n"),
        ("PUBLISH c 2", "+QUEUED\r\n"),
        (
            "EXEC",
            "*2\r\n:1\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n",
        ),
        (
            "EVAL \"return redis.call('publish', 'c', 's')\" 0",
            ":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\ns\r\n",
        ),
        ("UNSUBSCRIBE c", ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"),
        ("PUBLISH c m", ":0\r\n"),
    ]);
}

#[test]
fn earlier_messages_precede_the_unsubscribe_reply() {
    let mut tester = Tester::new();
    let other = tester.client();
    tester.run("SUBSCRIBE c");
    tester.run_as(other, "PUBLISH c m");
    tester.check(&[(
        "UNSUBSCRIBE c",
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    )]);
}

#[test]
fn client_reply_off_does_not_suppress_pushes() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        ("CLIENT REPLY OFF", ""),
        ("SUBSCRIBE c", ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"),
        ("PUBLISH c m", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
        ("PING", ""),
        ("CLIENT REPLY ON", "+OK\r\n"),
        ("CLIENT REPLY SKIP", ""),
        ("UNSUBSCRIBE c", ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"),
        ("PING", "+PONG\r\n"),
    ]);
}

#[test]
fn scripts_and_transactions() {
    check(&[
        ("MULTI", "+OK\r\n"),
        ("SUBSCRIBE c", "+QUEUED\r\n"),
        ("SSUBSCRIBE c", "+QUEUED\r\n"),
        ("UNSUBSCRIBE c", "+QUEUED\r\n"),
        (
            "EXEC",
            "*3\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING \
             client\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
        ),
        ("RESET", "+RESET\r\n"),
    ]);
    let reply = Tester::new().run("EVAL \"return redis.call('subscribe', 'c')\" 0");
    assert!(reply.starts_with("-ERR This Redis command is not allowed from script"), "{reply}");
}

#[test]
fn counts_and_names() {
    let mut tester = Tester::new();
    let (listener, both) = (tester.client(), tester.client());
    tester.run_as(listener, "SUBSCRIBE aa");
    tester.run_as(both, "SUBSCRIBE aa");
    tester.run_as(both, "PSUBSCRIBE a* b*");
    tester.run_as(both, "SSUBSCRIBE s");
    tester.check(&[
        ("PUBSUB CHANNELS", "*1\r\n$2\r\naa\r\n"),
        ("PUBSUB CHANNELS b*", "*0\r\n"),
        ("PUBSUB NUMSUB aa bb", "*4\r\n$2\r\naa\r\n:2\r\n$2\r\nbb\r\n:0\r\n"),
        ("PUBSUB NUMSUB", "*0\r\n"),
        ("PUBSUB NUMPAT", ":2\r\n"),
        ("PUBSUB SHARDCHANNELS", "*1\r\n$1\r\ns\r\n"),
        ("PUBSUB SHARDNUMSUB s", "*2\r\n$1\r\ns\r\n:1\r\n"),
        ("PUBLISH aa m", ":3\r\n"),
        ("SPUBLISH s m", ":1\r\n"),
        ("PUBSUB NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try PUBSUB HELP.\r\n"),
    ]);
    let list = tester.run("CLIENT LIST TYPE PUBSUB");
    assert!(list.contains("flags=P db=0 sub=1 psub=0 ssub=0 "), "{list}");
    assert!(list.contains("flags=P db=0 sub=1 psub=2 ssub=1 "), "{list}");
    let info = tester.run("INFO");
    for field in
        ["pubsub_channels:1\r", "pubsub_patterns:2\r", "pubsubshard_channels:1\r", "pubsub_clients:2\r"]
    {
        assert!(info.contains(field), "{field}");
    }
    assert_eq!(tester.run_as(both, "RESET"), "+RESET\r\n");
    tester.check(&[("PUBSUB NUMPAT", ":0\r\n"), ("PUBSUB NUMSUB aa", "*2\r\n$2\r\naa\r\n:1\r\n")]);
}
