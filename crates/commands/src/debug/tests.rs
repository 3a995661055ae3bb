// SPDX-License-Identifier: BSD-3-Clause
//! Tests of DEBUG through the dispatcher.

use std::sync::atomic::Ordering::Relaxed;

use braid_resp::reply::Protocol;

use crate::testing::Tester;

fn tester() -> Tester {
    Tester::with("enable-debug-command yes")
}

#[test]
fn it_is_off_unless_configured() {
    let mut tester = Tester::new();
    assert!(
        tester
            .run("DEBUG DIGEST")
            .starts_with("-ERR DEBUG command not allowed. If the enable-debug-command option")
    );
    // Refused when queued, as in stock servers, so the transaction does not run.
    assert_eq!(tester.run("MULTI"), "+OK\r\n");
    assert!(tester.run("DEBUG SLEEP 100").starts_with("-ERR DEBUG command not allowed."));
    assert!(tester.run("EXEC").starts_with("-EXECABORT"));
    let mut local = Tester::with("enable-debug-command local");
    assert_eq!(local.run("DEBUG DIGEST"), format!("+{}\r\n", "0".repeat(40)));
}

#[test]
fn another_history_has_another_id() {
    let mut tester = tester();
    let id = |tester: &mut Tester| {
        let text = tester.run("INFO replication");
        text.lines().find_map(|line| line.strip_prefix("master_replid:")).map(str::to_owned)
    };
    let before = id(&mut tester);
    assert!(before.is_some());
    assert_eq!(tester.run("DEBUG CHANGE-REPL-ID"), "+OK\r\n");
    assert_ne!(id(&mut tester), before);
}

/// The expected digests are those of a Redis 7 stock server for the same data.
#[test]
fn digests_match_stock_servers() {
    let mut tester = tester();
    tester.run("SET a 1");
    tester.run("SET b hello");
    assert_eq!(tester.run("DEBUG DIGEST"), "+2539797405e828ad7a3aa48c536b3eaf2803a421\r\n");
    assert_eq!(
        tester.run("DEBUG DIGEST-VALUE a b nosuch"),
        format!(
            "*3\r\n+b4fc66738120fba0b5aa500ab5c2bf89cea1c5da\r\n+36b23a1456b2dce2c3ed252c456761301dba8060\r\n+{}\r\n",
            "0".repeat(40)
        )
    );
    tester.session(0).select(3);
    tester.run("SET c \"\" EX 1000");
    assert_eq!(tester.run("DEBUG DIGEST"), "+5f7e22125ef6dd6b516fbb56bf8db35d30211b88\r\n");
    // The walk over all databases must not change the client's database.
    assert_eq!(tester.run("GET c"), "$0\r\n\r\n");
    // Scores that replies show as integers.
    tester.run("ZADD z 1e17 a 1e9 b 1230000000000 c 12300000 d -4e12 e 0 f 0.5 g");
    assert_eq!(tester.run("DEBUG DIGEST-VALUE z"), "*1\r\n+c047c93a567fa3b733a3f233d490fd2016df86cd\r\n");
}

#[test]
fn objects_are_described() {
    let mut tester = tester();
    let long = "x".repeat(54);
    for (value, encoding, bytes) in [
        ("hello", "embstr", 6),
        ("1", "int", 2),
        ("12345", "int", 3),
        ("123456789012", "int", 13),
        (&long, "raw", 8),
    ] {
        tester.run(&format!("SET k {value}"));
        let reply = tester.run("DEBUG OBJECT k");
        let expected = format!(" refcount:1 encoding:{encoding} serializedlength:{bytes} lru:");
        assert!(reply.starts_with("+Value at:0x") && reply.contains(&expected), "{reply}");
    }
    assert_eq!(tester.run("DEBUG OBJECT nosuch"), "-ERR no such key\r\n");
    tester.run("SET k hello");
    assert!(tester.run("DEBUG SDSLEN k").starts_with("+key_sds_len:1, key_sds_avail:0, key_zmalloc: "));
    tester.run("SET k 1");
    assert_eq!(tester.run("DEBUG SDSLEN k"), "-ERR Not an sds encoded string.\r\n");
    assert!(
        tester.run("DEBUG HTSTATS-KEY k").starts_with("-ERR The value stored at the specified key is not")
    );
}

#[test]
fn populating() {
    let mut tester = tester();
    tester.run("SET p:1 mine");
    assert_eq!(tester.run("DEBUG POPULATE 3 p 4"), "+OK\r\n");
    assert_eq!(tester.run("GET p:0"), "$4\r\nvalu\r\n");
    assert_eq!(tester.run("GET p:1"), "$4\r\nmine\r\n");
    assert_eq!(tester.run("DEBUG POPULATE 2000"), "+OK\r\n");
    assert_eq!(tester.run("GET key:1999"), "$10\r\nvalue:1999\r\n");
    assert_eq!(tester.run("DEBUG POPULATE -1"), "-ERR value is out of range, must be positive\r\n");
    assert_eq!(
        tester.run("DEBUG POPULATE 1 p 9999999999"),
        "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
    );
    let statistics = tester.run("DEBUG HTSTATS 0");
    assert!(
        statistics.contains("[Dictionary HT]\nHash table 0 stats (main hash table):\n table size: "),
        "{statistics}"
    );
    assert!(statistics.contains(" number of elements: 2003\n"));
    assert!(
        tester
            .run("DEBUG HTSTATS 9")
            .contains("[Dictionary HT]\nNo stats available for empty dictionaries\n")
    );
    assert_eq!(tester.run("DEBUG HTSTATS 16"), "-ERR Out of range database\r\n");
}

#[test]
fn every_type_of_reply() {
    let mut tester = tester();
    let mut sample = |kind: &str| tester.run(&format!("DEBUG PROTOCOL {kind}"));
    assert_eq!(sample("map"), "*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n");
    assert_eq!(sample("attrib"), "$39\r\nSome real reply following the attribute\r\n");
    assert_eq!(sample("push"), "-ERR RESP2 is not supported by this command\r\n");
    assert_eq!(sample("double"), "$5\r\n3.141\r\n");
    assert_eq!(sample("null"), "$-1\r\n");
    tester.speak(0, Protocol::Resp3);
    let mut sample = |kind: &str| tester.run(&format!("DEBUG PROTOCOL {kind}"));
    assert_eq!(sample("map"), "%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n");
    assert_eq!(sample("set"), "~3\r\n:0\r\n:1\r\n:2\r\n");
    assert_eq!(sample("double"), ",3.141\r\n");
    assert_eq!(sample("bignum"), "(1234567999999999999999999999999999999\r\n");
    assert_eq!(sample("null"), "_\r\n");
    assert_eq!(sample("true"), "#t\r\n");
    assert_eq!(sample("verbatim"), "=29\r\ntxt:This is a verbatim\nstring\r\n");
    let attribute = "|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n";
    assert!(sample("attrib").starts_with(attribute));
    assert!(sample("push").starts_with(">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n$40\r\n"));
    assert!(
        sample("nosuch")
            .starts_with("-ERR Wrong protocol type name. Please use one of the following: string|")
    );
}

#[test]
fn switches_and_the_rest() {
    let mut tester = tester();
    let engine = std::sync::Arc::clone(&tester.engine);
    for (line, ok) in [
        ("DEBUG SET-ACTIVE-EXPIRE 0", true),
        ("DEBUG PAUSE-CRON 1", true),
        ("DEBUG REPLYBUFFER RESIZING 0", true),
        ("DEBUG RELOCATE-ALL 1", true),
    ] {
        assert_eq!(tester.run(line) == "+OK\r\n", ok, "{line}");
    }
    assert_eq!(engine.keyspace.settings.active_expire_off.load(Relaxed), 1);
    assert!(engine.debug.cron_paused.load(Relaxed) && engine.debug.reply_buffer_fixed.load(Relaxed));
    tester.run("DEBUG SET-ACTIVE-EXPIRE 1");
    assert_eq!(engine.keyspace.settings.active_expire_off.load(Relaxed), 0);
    assert_eq!(tester.run("DEBUG REPLYBUFFER PEAK-RESET-TIME 100"), "+OK\r\n");
    assert_eq!(engine.debug.reply_buffer_peak_reset_ms.load(Relaxed), 100);
    assert_eq!(tester.run("DEBUG ERROR \"MY error\\r\\nline\""), "-MY error  line\r\n");
    assert_eq!(tester.run("DEBUG MALLCTL arenas.page"), ":4096\r\n");
    assert_eq!(tester.run("DEBUG MALLCTL nosuch"), "-ERR No such file or directory\r\n");
    assert!(tester.run("DEBUG MALLCTL-STR version").contains("5."));
    assert_eq!(tester.run("DEBUG MALLCTL-STR thread.tcache.flush VOID"), "+OK\r\n");
    assert_eq!(tester.run("DEBUG MALLCTL-STR nosuch VOID"), "-ERR No such file or directory\r\n");
    assert_eq!(tester.run("DEBUG STRINGMATCH-TEST"), "+Apparently Redis did not crash: test passed\r\n");
    let start = std::time::Instant::now();
    assert_eq!(tester.run("DEBUG SLEEP 0.02"), "+OK\r\n");
    assert!(start.elapsed().as_millis() >= 20);
    assert_eq!(tester.run("DEBUG SLEEP x"), "+OK\r\n");
    assert_eq!(
        tester.run("DEBUG nosuch"),
        "-ERR unknown subcommand or wrong number of arguments for 'nosuch'. Try DEBUG HELP.\r\n"
    );
}
