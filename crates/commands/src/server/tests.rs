// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the server commands through the dispatcher.

use braid_resp::reply::Protocol;
use braid_telemetry::command_log::{Entry, LogKind};

use crate::testing::Tester;

/// The text in a bulk or verbatim reply.
fn text(reply: &str) -> &str {
    let body = reply.split_once("\r\n").unwrap_or_else(|| panic!("not a text: {reply}")).1;
    body.strip_suffix("\r\n").unwrap_or(body)
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .unwrap_or_else(|| panic!("no {name} in {info}"))
}

fn titles(info: &str) -> Vec<&str> {
    info.lines().filter_map(|line| line.strip_prefix("# ")).collect()
}

const DEFAULT: [&str; 11] = [
    "Server",
    "Clients",
    "Memory",
    "Persistence",
    "Stats",
    "Replication",
    "CPU",
    "Modules",
    "Errorstats",
    "Cluster",
    "Keyspace",
];

#[test]
fn info_shows_the_sections_that_are_asked_for_in_their_order() {
    let mut tester = Tester::new();
    let mut shown = |line: &str| titles(text(&tester.run(line))).join(" ");
    assert_eq!(shown("INFO"), DEFAULT.join(" "));
    assert_eq!(shown("INFO default"), DEFAULT.join(" "));
    assert_eq!(shown("INFO cpu SERVER cpu nonsense"), "Server CPU");
    assert_eq!(shown("INFO nonsense"), "");
    assert_eq!(shown("INFO modules"), "Modules");
    assert_eq!(shown("INFO debug threads"), "Threads Debug");
    let all = shown("INFO all");
    assert!(all.contains("Commandstats") && all.contains("Latencystats") && !all.contains("Threads"));
    assert!(shown("INFO everything").ends_with("Keyspace Links Group Active Search Feeds Hotkeys"));
    assert!(shown("INFO default commandstats").contains("Modules Commandstats Errorstats"));
    tester.speak(0, Protocol::Resp3);
    assert!(tester.run("INFO cluster").starts_with("=34\r\ntxt:# Cluster\r\n"));
}

#[test]
fn reported_redis_version_follows_the_directive() {
    let mut tester = Tester::new();
    assert!(!tester.engine.process.follows_redis_8());
    assert_eq!(tester.run("CONFIG GET redis-version"), "*2\r\n$13\r\nredis-version\r\n$5\r\n7.2.4\r\n");
    let refused = tester.run("CONFIG SET redis-version 8.0.0");
    assert!(refused.ends_with("can't set immutable config\r\n"), "{refused}");

    let mut tester = Tester::with("redis-version 8.0.6");
    assert!(tester.engine.process.follows_redis_8());
    tester.run("HSET h a 1");
    tester.run("HEXPIRE h 100 FIELDS 1 a");
    let info = tester.run("INFO");
    let info = text(&info);
    assert_eq!(field(info, "redis_version"), "8.0.6");
    assert_eq!(field(info, "db0"), "keys=1,expires=0,avg_ttl=0,subexpiry=1");
    let place = |title: &str| info.find(title).unwrap_or_else(|| panic!("no {title}"));
    assert!(place("# Persistence") < place("# Threads") && place("# Threads") < place("# Stats"));
    assert!(field(info, "io_thread_0").starts_with("clients=1,reads="), "{info}");
    let peak_time: i64 = field(info, "used_memory_peak_time").parse().unwrap();
    assert!((0..100).contains(&(braid_base::clock::unix_ms() / 1000 - peak_time)), "{peak_time}");
    let stats = tester.run("MEMORY STATS");
    for name in [
        "replica.fullsync.buffer",
        "script.VMs",
        "overhead.db.hashtable.lut",
        "overhead.db.hashtable.rehashing",
        "db.dict.rehashing.count",
        "allocator.muzzy",
    ] {
        assert!(stats.contains(&format!("\r\n{name}\r\n:")), "{name}: {stats}");
    }
    assert!(stats.starts_with("*68\r\n") && !stats.contains("slot-to-keys"), "{stats}");
    let unbalanced = "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' \
                      must be specified.\r\n";
    assert_eq!(tester.run("XREAD STREAMS a b 0"), unbalanced);
    assert_eq!(field(info, "braid_version"), env!("CARGO_PKG_VERSION"));
    assert!(tester.run("HELLO").contains("$7\r\nversion\r\n$5\r\n8.0.6\r\n"));
    assert!(tester.run("LOLWUT VERSION 5 10 2").ends_with("(as Redis ver. 8.0.6)\n\r\n"));
    let script = "EVAL \"return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}\" 0";
    assert_eq!(tester.run(script), format!("*2\r\n$5\r\n8.0.6\r\n:{}\r\n", 0x08_00_06));
    let library = "FUNCTION LOAD \"#!lua name=l\nredis.register_function('v', function() return redis.REDIS_VERSION end)\"";
    tester.run(&library.replace('\n', "\\n"));
    assert_eq!(tester.run("FCALL v 0"), "$5\r\n8.0.6\r\n");
}

#[test]
fn info_fields_reflect_executed_commands() {
    let mut tester = Tester::new();
    tester.run("SET k v");
    tester.run("GET k");
    tester.run("GET missing");
    tester.run("NOSUCH");
    tester.run("GET");
    tester.run("SET other v");
    let info = tester.run("INFO everything");
    let info = text(&info);
    assert_eq!(field(info, "redis_version"), "7.2.4");
    assert_eq!(field(info, "connected_clients"), "1");
    assert_eq!(field(info, "keyspace_hits"), "1");
    assert_eq!(field(info, "keyspace_misses"), "1");
    assert_eq!(field(info, "total_error_replies"), "2");
    assert_eq!(field(info, "errorstat_ERR"), "count=2");
    assert_eq!(field(info, "rdb_changes_since_last_save"), "2");
    assert_eq!(field(info, "db0"), "keys=2,expires=0,avg_ttl=0,keys_with_volatile_items=0");
    let get = field(info, "cmdstat_get");
    assert!(get.starts_with("calls=2,usec=") && get.ends_with(",rejected_calls=1,failed_calls=0"), "{get}");
    assert!(field(info, "latency_percentiles_usec_get").starts_with("p50="));
    assert!(field(info, "io_thread_0").contains("commands=4,"), "{}", field(info, "io_thread_0"));

    assert_eq!(tester.run("CONFIG RESETSTAT"), "+OK\r\n");
    let info = tester.run("INFO all");
    let info = text(&info);
    assert_eq!(field(info, "keyspace_hits"), "0");
    assert_eq!(field(info, "total_error_replies"), "0");
    assert!(!info.contains("errorstat_ERR") && !info.contains("cmdstat_get"));
    assert_eq!(field(info, "rdb_changes_since_last_save"), "2");
    tester.run("SET k w");
    assert_eq!(field(text(&tester.run("INFO persistence")), "rdb_changes_since_last_save"), "3");
}

#[test]
fn info_memory_adds_up() {
    let mut tester = Tester::new();
    tester.run("SET k v");
    let info = tester.run("INFO memory");
    let number = |name: &str| -> i64 { field(text(&info), name).parse().unwrap() };
    assert!(number("used_memory_rss") > 1 << 20);
    assert!(number("used_memory_peak") >= number("used_memory"));
    assert_eq!(number("mem_fragmentation_bytes"), number("used_memory_rss") - number("used_memory"));
    assert_eq!(number("allocator_frag_bytes"), number("allocator_active") - number("allocator_allocated"));
    assert_eq!(field(text(&info), "maxmemory_policy"), "noeviction");
}

#[test]
fn config_reads_and_changes() {
    let mut tester = Tester::new();
    assert_eq!(tester.run("CONFIG GET maxmemory"), "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n");
    assert_eq!(tester.run("CONFIG SET maxmemory 100mb slowlog-max-len 7"), "+OK\r\n");
    assert_eq!(tester.run("CONFIG GET maxmemory"), "*2\r\n$9\r\nmaxmemory\r\n$9\r\n104857600\r\n");
    assert_eq!(
        tester.run("CONFIG SET maxmemory"),
        "-ERR wrong number of arguments for 'config|set' command\r\n"
    );
    assert_eq!(tester.run("CONFIG SET maxmemory 1 hz"), "-ERR syntax error\r\n");
    assert_eq!(tester.run("CONFIG REWRITE"), "-ERR The server is running without a config file\r\n");
    assert_eq!(tester.run("CONFIG NOSUCH"), "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n");
    assert!(
        tester.run("CONFIG HELP").starts_with("*11\r\n+CONFIG <subcommand> [<arg> [value] [opt] ...]. Sub")
    );
    tester.speak(0, Protocol::Resp3);
    assert_eq!(tester.run("CONFIG GET databases"), "%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n");
}

#[test]
fn slow_commands_are_listed_newest_first() {
    let mut tester = Tester::with("slowlog-log-slower-than 0");
    tester.run("SLOWLOG RESET");
    // Commands under a microsecond are never slow; add entries as the dispatcher would.
    let log = tester.engine.telemetry.logs.of(LogKind::Slow);
    log.clear();
    log.push(Entry::new(17, 5, &[b"get", b"k"], "1.2.3.4:5".into(), b"me".to_vec()), 10);
    log.push(Entry::new(18, 6, &[b"ping"], "1.2.3.4:5".into(), Vec::new()), 10);
    let entries = log.latest(2);
    let one =
        format!("*6\r\n:{}\r\n:18\r\n:6\r\n*1\r\n$4\r\nping\r\n$9\r\n1.2.3.4:5\r\n$0\r\n\r\n", entries[0].id);
    assert_eq!(tester.run("SLOWLOG GET 1"), format!("*1\r\n{one}"));
    assert!(tester.run("SLOWLOG GET -1").contains("$2\r\nme\r\n"));
    assert_eq!(tester.run("SLOWLOG GET -2"), "-ERR count should be greater than or equal to -1\r\n");
    assert_eq!(tester.run("SLOWLOG GET x"), "-ERR count should be greater than or equal to -1\r\n");
    assert_eq!(
        tester.run("SLOWLOG GET 1 2"),
        "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.\r\n"
    );
    assert_eq!(tester.run("SLOWLOG RESET"), "+OK\r\n");
}

#[test]
fn large_requests_and_replies_are_logged() {
    let mut tester = Tester::with("slowlog-log-slower-than -1");
    let big = "x".repeat(1 << 20);
    tester.run(&format!("SET k {big}"));
    tester.run("SET small 1");
    tester.run("GET k");
    tester.run("GET small");
    let entry = |reply: String| reply.lines().map(str::to_owned).collect::<Vec<String>>();
    let request = entry(tester.run("COMMANDLOG GET -1 large-request"));
    // *3 $3 SET $1 k $1048576 ...
    assert_eq!(request[0], "*1");
    assert_eq!(request[4], format!(":{}", 4 + 9 + 7 + 10 + big.len() + 2));
    assert_eq!(request[7], "SET");
    let reply = entry(tester.run("COMMANDLOG GET 10 LARGE-REPLY"));
    assert_eq!((&*reply[0], &*reply[4]), ("*1", &*format!(":{}", 10 + big.len() + 2)));
    assert_eq!(reply[7], "GET");
    assert_eq!(tester.run("COMMANDLOG LEN slow"), ":0\r\n");
    // With low thresholds small and quick commands are logged, too, and individually in
    // transactions.
    tester.run("CONFIG SET commandlog-reply-larger-than 7 commandlog-request-larger-than 30");
    tester.run("COMMANDLOG RESET large-request");
    tester.run("COMMANDLOG RESET large-reply");
    for line in ["MULTI", "GET small", "SET 12345678 12345678", "EXEC"] {
        tester.run(line);
    }
    // Includes the two resets.
    assert_eq!(tester.run("COMMANDLOG LEN large-request"), ":3\r\n");
    let replies = tester.run("COMMANDLOG GET 9 large-reply");
    assert!(replies.starts_with("*1\r\n") && replies.contains("GET\r\n$5\r\nsmall"), "{replies}");
    tester.check(&[
        (
            "COMMANDLOG GET 1 nosuch",
            "-ERR type should be one of the following: slow, large-request, large-reply\r\n",
        ),
        ("COMMANDLOG GET -2 slow", "-ERR count should be greater than or equal to -1\r\n"),
        ("COMMANDLOG RESET slow", "+OK\r\n"),
    ]);
}

#[test]
fn latency_events_and_histograms() {
    let mut tester = Tester::new();
    tester.engine.telemetry.latency.add("command", 1_000, 30);
    tester.engine.telemetry.latency.add("command", 1_001, 20);
    tester.engine.telemetry.latency.add("fast-command", 1_002, 11);
    assert_eq!(tester.run("LATENCY HISTORY command"), "*2\r\n*2\r\n:1000\r\n:30\r\n*2\r\n:1001\r\n:20\r\n");
    assert_eq!(tester.run("LATENCY HISTORY nothing"), "*0\r\n");
    let latest = tester.run("LATENCY LATEST");
    assert!(latest.starts_with("*2\r\n*4\r\n$7\r\ncommand\r\n:1001\r\n:20\r\n:30\r\n"), "{latest}");
    assert!(
        tester.run("LATENCY GRAPH command").contains("command - high 30 ms, low 20 ms (all time high 30 ms)")
    );
    assert_eq!(tester.run("LATENCY GRAPH x"), "-ERR No samples available for event 'x'\r\n");
    assert!(
        tester
            .run("LATENCY DOCTOR")
            .contains("1. command: 2 latency spikes (average 25ms, mean deviation 5ms")
    );
    assert_eq!(tester.run("LATENCY RESET COMMAND nothing"), ":1\r\n");
    assert_eq!(tester.run("LATENCY RESET nothing"), ":0\r\n");
    assert_eq!(tester.run("LATENCY RESET"), ":1\r\n");

    tester.run("CONFIG RESETSTAT");
    let get = tester.engine.commands.find(b"get").unwrap().id;
    let histogram = tester.engine.telemetry.command_stats(0, get).latency.get_or_init(Box::default);
    [500, 900, 1_500, 40_000].iter().for_each(|&nanos| histogram.record(nanos));
    let expected =
        "*4\r\n$5\r\ncalls\r\n:4\r\n$14\r\nhistogram_usec\r\n*6\r\n:1\r\n:2\r\n:2\r\n:3\r\n:66\r\n:4\r\n";
    assert_eq!(tester.run("LATENCY HISTOGRAM get nosuch"), format!("*2\r\n$3\r\nget\r\n{expected}"));
    assert!(tester.run("LATENCY HISTOGRAM").contains(&format!("$3\r\nget\r\n{expected}")));
    assert_eq!(tester.run("LATENCY HISTOGRAM nosuch"), "*0\r\n");
    assert!(tester.run("LATENCY HISTOGRAM config").contains("config|resetstat"));
}

#[test]
fn memory_of_keys() {
    let mut tester = Tester::new();
    tester.run("SET k v");
    tester.run(&format!("SET long {}", "x".repeat(5_000)));
    let usage = |reply: String| -> i64 { reply.trim_start_matches(':').trim_end().parse().unwrap() };
    let short = usage(tester.run("MEMORY USAGE k"));
    let long = usage(tester.run("MEMORY USAGE long SAMPLES 0"));
    assert!((16..64).contains(&short) && (5_000..8_500).contains(&long), "{short} {long}");
    assert_eq!(tester.run("MEMORY USAGE missing"), "$-1\r\n");
    assert_eq!(tester.run("MEMORY USAGE k SAMPLES"), "-ERR syntax error\r\n");
    assert_eq!(tester.run("MEMORY USAGE k SAMPLES -1"), "-ERR syntax error\r\n");
    assert_eq!(tester.run("MEMORY USAGE k SAMPLES x"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(tester.run("MEMORY PURGE"), "+OK\r\n");
    assert!(tester.run("MEMORY STATS").starts_with("*56\r\n$14\r\npeak.allocated\r\n:"));
    tester.speak(0, Protocol::Resp3);
    let stats = tester.run("MEMORY STATS");
    assert!(
        stats.starts_with("%28\r\n")
            && stats.contains("\r\n$4\r\ndb.0\r\n%3\r\n$23\r\noverhead.hashtable.main\r\n")
    );
    assert!(tester.run("MEMORY DOCTOR").starts_with('='));
}

#[test]
fn the_rest() {
    let mut tester = Tester::new();
    assert_eq!(tester.run("ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    assert!(tester.run("TIME").starts_with("*2\r\n$10\r\n"));
    assert!(tester.run("LOLWUT VERSION 5 10 2").ends_with("(as Redis ver. 7.2.4)\n\r\n"));
    assert_eq!(tester.run("LOLWUT VERSION x"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(tester.run("SHUTDOWN ABORT"), "-ERR No shutdown in progress.\r\n");
    assert_eq!(tester.run("SHUTDOWN SAVE NOSAVE"), "-ERR syntax error\r\n");
    assert!(!tester.engine.shutdown.is_requested());
    assert_eq!(tester.run("SHUTDOWN NOSAVE"), "");
    assert!(tester.engine.shutdown.is_requested());
}
