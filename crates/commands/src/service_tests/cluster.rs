// SPDX-License-Identifier: BSD-3-Clause
//! Tests of CLUSTER and its relatives, with cluster mode off and on.

use crate::testing::Tester;

#[test]
fn commands_of_clusters_answer_as_without_cluster_mode() {
    const DISABLED: &str = "-ERR This instance has cluster support disabled\r\n";
    Tester::new().check(&[
        ("CLUSTER INFO", DISABLED),
        ("cluster help", DISABLED),
        ("CLUSTER SLOTS", DISABLED),
        ("CLUSTER KEYSLOT k", DISABLED),
        ("CLUSTER COUNTKEYSINSLOT 1", DISABLED),
        ("CLUSTER GETKEYSINSLOT 1 1", DISABLED),
        ("CLUSTER ADDSLOTS 1", DISABLED),
        ("CLUSTER RESET x y z", DISABLED),
        ("READONLY", DISABLED),
        ("READWRITE", DISABLED),
        ("ASKING", DISABLED),
        ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command\r\n"),
        ("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n"),
        ("CLUSTER FOO", "-ERR unknown subcommand 'FOO'. Try CLUSTER HELP.\r\n"),
        ("READONLY x", "-ERR wrong number of arguments for 'readonly' command\r\n"),
        ("MSET a 1 b 2", "+OK\r\n"),
        (
            "SSUBSCRIBE a b",
            "*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:2\r\n",
        ),
    ]);
}

/// An engine in cluster mode; the folder keeps its file.
fn cluster(settings: &str) -> (Tester, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("dir {}\ncluster-enabled yes\n{settings}", folder.path().display());
    (Tester::with(&settings), folder)
}

const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

#[test]
fn keys_of_several_slots_are_refused() {
    let (mut tester, _folder) = cluster("");
    tester.check(&[
        ("SET {a}1 x", "+OK\r\n"),
        ("MGET {a}1 {a}2", "*2\r\n$1\r\nx\r\n$-1\r\n"),
        ("MGET a b", CROSS_SLOT),
        ("MSET a 1 b 2", CROSS_SLOT),
        ("DEL a b", CROSS_SLOT),
        ("RENAME a b", CROSS_SLOT),
        ("SINTERSTORE a b c", CROSS_SLOT),
        ("XREAD STREAMS a b 0 0", CROSS_SLOT),
        ("ZUNION 2 a b", CROSS_SLOT),
        ("SORT a STORE b", CROSS_SLOT),
        ("WATCH a b", CROSS_SLOT),
        ("BLPOP a b 1", CROSS_SLOT),
        ("EVAL \"return 1\" 2 a b", CROSS_SLOT),
        ("FCALL f 2 a b", CROSS_SLOT),
        ("MIGRATE 127.0.0.1 1 \"\" 0 100 KEYS a b", CROSS_SLOT),
        ("SSUBSCRIBE a b", CROSS_SLOT),
        ("SUNSUBSCRIBE a b", CROSS_SLOT),
        ("SPUBLISH a x", ":0\r\n"),
        // The channels and patterns of PUBLISH have no slot.
        ("PUBSUB NUMSUB a b", "*4\r\n$1\r\na\r\n:0\r\n$1\r\nb\r\n:0\r\n"),
    ]);
}

#[test]
fn a_transaction_is_of_one_slot() {
    let (mut tester, _folder) = cluster("");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    tester.check(&[
        ("MULTI", "+OK\r\n"),
        ("GET {a}1", "+QUEUED\r\n"),
        ("GET {b}1", "+QUEUED\r\n"),
        ("EXEC", CROSS_SLOT),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MGET a b", CROSS_SLOT),
        ("GET a", "+QUEUED\r\n"),
        ("EXEC", aborted),
        ("MULTI", "+OK\r\n"),
        ("GET a", "+QUEUED\r\n"),
        ("FOO", "-ERR unknown command 'FOO', with args beginning with: \r\n"),
        ("GET b", "+QUEUED\r\n"),
        ("EXEC", aborted),
        ("MULTI", "+OK\r\n"),
        ("GET a", "+QUEUED\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("GET {a}", "+QUEUED\r\n"),
        ("EXEC", "*3\r\n$-1\r\n+PONG\r\n$-1\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SPUBLISH a m", "+QUEUED\r\n"),
        ("SPUBLISH b m", "+QUEUED\r\n"),
        ("EXEC", CROSS_SLOT),
        // Watched keys may be in any slots.
        ("WATCH a", "+OK\r\n"),
        ("WATCH b", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("GET c", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n$-1\r\n"),
        // A walk within a transaction, which runs with the world stopped.
        ("SET foo 1", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET {foo}2 1", "+QUEUED\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 12182", "+QUEUED\r\n"),
        ("CLUSTER GETKEYSINSLOT 12182 1", "+QUEUED\r\n"),
    ]);
    let reply = tester.run("EXEC");
    assert!(reply.starts_with("*3\r\n+OK\r\n:2\r\n*1\r\n$"), "{reply}");
}

#[test]
fn scripts_keep_to_their_slot() {
    let (mut tester, _folder) = cluster("redis-version 8.0.0");
    let eval = |tester: &mut Tester, script: &str, keys: &str| {
        let script = script.replace('\n', "\\n");
        tester.run(&format!("EVAL \"{script}\" {keys}"))
    };
    let both = "return {redis.call('get','a'),redis.call('get','b')}";
    let strays = "Script attempted to access keys that do not hash to the same slot";
    let many = "Command 'mget' in script attempted to access keys that don't hash to the same slot";
    let cases = [
        (both.to_owned(), "1 a", "*2"),
        (format!("#!lua\n{both}"), "0", strays),
        (format!("#!lua\n{both}"), "1 a", strays),
        (format!("#!lua flags=allow-cross-slot-keys\n{both}"), "1 a", "*2"),
        ("#!lua\nreturn redis.call('get','{a}x')".to_owned(), "1 a", "$-1"),
        ("#!lua\nreturn redis.pcall('get','b')".to_owned(), "0", "$-1"),
        ("#!lua\nreturn redis.pcall('get','b')".to_owned(), "1 a", strays),
        ("#!lua\nreturn redis.pcall('spublish','b','m')".to_owned(), "1 a", strays),
        ("return redis.pcall('mget','a','b')".to_owned(), "0", many),
        ("#!lua flags=allow-cross-slot-keys\nreturn redis.call('mget','a','b')".to_owned(), "0", many),
        (
            "#!lua flags=no-cluster\nreturn 1".to_owned(),
            "0",
            "Can not run script on cluster, 'no-cluster' flag is set.",
        ),
        ("return redis.pcall('select', '1')".to_owned(), "0", "SELECT is not allowed in cluster mode"),
    ];
    for (script, keys, expected) in cases {
        let reply = eval(&mut tester, &script, keys);
        assert!(reply.contains(expected), "{script} {keys}: {reply}");
    }
    // Without cluster mode, flags on slots have no effect.
    let mut alone = Tester::new();
    let script = format!("#!lua flags=no-cluster\n{both}");
    assert!(eval(&mut alone, &script, "0").starts_with("*2"));
}

#[test]
fn databases() {
    let (mut tester, _folder) = cluster("");
    tester.check(&[
        ("SELECT 0", "+OK\r\n"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n"),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode\r\n"),
        ("MOVE k 1", "-ERR MOVE is not allowed in cluster mode\r\n"),
        ("COPY k {k}2 DB 1", "-ERR DB index is out of range\r\n"),
    ]);
    let (mut tester, _folder) = cluster("cluster-databases 4");
    tester.check(&[
        ("SET foo x", "+OK\r\n"),
        ("COPY foo {foo}2 DB 1", ":1\r\n"),
        ("MOVE foo 1", ":1\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 12182", ":0\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 12182", ":2\r\n"),
        (
            "CLUSTER SLOT-STATS SLOTSRANGE 12182 12182",
            "*1\r\n*2\r\n:12182\r\n*2\r\n$9\r\nkey-count\r\n:2\r\n",
        ),
        ("SELECT 4", "-ERR DB index is out of range\r\n"),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode\r\n"),
    ]);
}

#[test]
fn sort_patterns_stay_within_the_slot() {
    let (mut tester, _folder) = cluster("");
    let denied = |option: &str| {
        format!(
            "-ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.\r\n"
        )
    };
    let (by, get, none) = (denied("BY"), denied("GET"), "*0\r\n");
    tester.check(&[
        ("SORT {k}z BY w_*", by.as_str()),
        ("SORT {k}z BY nosort", none),
        ("SORT {k}z BY {k}w_*", none),
        ("SORT {k}z BY {k}w_* GET {k}*->f GET #", none),
        ("SORT {k}z BY {*}w", by.as_str()),
        ("SORT {k}z BY ?{k}w*", by.as_str()),
        ("SORT {k}z BY w*{k}", by.as_str()),
        ("SORT_RO {k}z BY {j}w_*", by.as_str()),
        ("SORT {k}z GET o_*", get.as_str()),
        ("SORT {k}z GET foo", get.as_str()),
        ("SORT {k}z GET {k}", none),
    ]);
    Tester::new().check(&[("SORT {k}z BY w_* GET o_*", none)]);
}

#[test]
fn this_server_is_the_cluster() {
    let (mut tester, folder) = cluster("cluster-announce-ip 10.1.2.3\ncluster-announce-port 7000");
    let reply = tester.run("CLUSTER MYID");
    let id = reply.strip_prefix("$40\r\n").expect("an id").trim_end().to_owned();
    let nodes = format!("{id} 10.1.2.3:7000@16379 myself,master - 0 0 0 connected 0-16383\n");
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.1.2.3\r\n:7000\r\n$40\r\n{id}\r\n*0\r\n");
    tester.check(&[
        ("CLUSTER NODES", &format!("${}\r\n{nodes}\r\n", nodes.len())),
        ("CLUSTER SLOTS", &slots),
        ("CLUSTER LINKS", "*0\r\n"),
        (&format!("CLUSTER REPLICAS {id}"), "*0\r\n"),
        (&format!("CLUSTER COUNT-FAILURE-REPORTS {id}"), ":0\r\n"),
        ("CLUSTER REPLICAS abc", "-ERR Unknown node abc\r\n"),
        ("CLUSTER KEYSLOT foo", ":12182\r\n"),
        ("CLUSTER KEYSLOT \"\"", ":0\r\n"),
        ("READONLY", "+OK\r\n"),
        ("READWRITE", "+OK\r\n"),
        ("ASKING", "+OK\r\n"),
        ("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed in cluster mode.\r\n"),
        ("FAILOVER", "-ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.\r\n"),
        ("CLUSTER SET-CONFIG-EPOCH 5", "+OK\r\n"),
        ("CLUSTER BUMPEPOCH", "+STILL 5\r\n"),
    ]);
    // A restarted server is the same node.
    drop(tester);
    let settings = format!("dir {}\ncluster-enabled yes", folder.path().display());
    let mut again = Tester::with(&settings);
    again.check(&[("CLUSTER MYID", reply.as_str()), ("CLUSTER BUMPEPOCH", "+STILL 5\r\n")]);
}

#[test]
fn operators_find_nothing_to_change() {
    let (mut tester, _folder) = cluster("");
    let reply = tester.run("CLUSTER MYID");
    let id = reply.strip_prefix("$40\r\n").expect("an id").trim_end().to_owned();
    let alone = |name: &str| {
        format!(
            "-ERR CLUSTER {name} is not possible: this server is a cluster by itself and owns all slots\r\n"
        )
    };
    let invalid = "-ERR Invalid or out of range slot\r\n";
    tester.check(&[
        ("CLUSTER ADDSLOTS 5", "-ERR Slot 5 is already busy\r\n"),
        ("CLUSTER ADDSLOTS 16384", invalid),
        ("CLUSTER ADDSLOTSRANGE 3 5", "-ERR Slot 3 is already busy\r\n"),
        ("CLUSTER ADDSLOTSRANGE 5 3", "-ERR start slot number 5 is greater than end slot number 3\r\n"),
        (
            "CLUSTER ADDSLOTSRANGE 3 5 6",
            "-ERR wrong number of arguments for 'cluster|addslotsrange' command\r\n",
        ),
        ("CLUSTER DELSLOTS 3 4 3", "-ERR Slot 3 specified multiple times\r\n"),
        ("CLUSTER DELSLOTS 3", &alone("DELSLOTS")),
        ("CLUSTER DELSLOTSRANGE 3 5", &alone("DELSLOTSRANGE")),
        ("CLUSTER FLUSHSLOTS", &alone("FLUSHSLOTS")),
        ("CLUSTER MEET 127.0.0.1 6379", &alone("MEET")),
        ("CLUSTER MEET 127.0.0.1 y", "-ERR Invalid base port specified: y\r\n"),
        ("CLUSTER RESET", &alone("RESET")),
        ("CLUSTER RESET X", "-ERR syntax error\r\n"),
        ("CLUSTER FAILOVER FORCE", "-ERR You should send CLUSTER FAILOVER to a replica\r\n"),
        (&format!("CLUSTER FORGET {id}"), "-ERR I tried hard but I can't forget myself...\r\n"),
        (&format!("CLUSTER REPLICATE {id}"), "-ERR Can't replicate myself\r\n"),
        ("CLUSTER FORGET abc", "-ERR Unknown node abc\r\n"),
        ("CLUSTER SETSLOT 5 STABLE", "+OK\r\n"),
        (&format!("CLUSTER SETSLOT 5 NODE {id}"), "+OK\r\n"),
        ("CLUSTER SETSLOT 5 NODE abc", "-ERR Unknown node abc\r\n"),
        ("CLUSTER SETSLOT 5 MIGRATING abc", "-ERR I don't know about node abc\r\n"),
        ("CLUSTER SETSLOT 5 IMPORTING abc", "-ERR I'm already the owner of hash slot 5\r\n"),
        ("CLUSTER SETSLOT x STABLE", invalid),
        ("CLUSTER SAVECONFIG", "+OK\r\n"),
        ("CLUSTER SET-CONFIG-EPOCH -1", "-ERR Invalid config epoch specified: -1\r\n"),
        ("CLUSTER BUMPEPOCH", "+BUMPED 1\r\n"),
    ]);
}

/// All keys of a CLUSTERSCAN walk, and the number of calls.
fn walk_cluster(tester: &mut Tester, options: &str) -> (Vec<String>, usize) {
    let (mut keys, mut cursor, mut calls) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let reply = tester.run(&format!("CLUSTERSCAN {cursor} {options}"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        assert_eq!(lines[0], "*2", "{reply}");
        keys.extend(
            lines[4..].iter().skip(1).step_by(2).filter(|key| !key.is_empty()).map(|&key| key.into()),
        );
        calls += 1;
        cursor = lines[2].to_owned();
        if cursor == "0" {
            return (keys, calls);
        }
    }
}

#[test]
fn clusterscan_walks_slot_after_slot() {
    let (mut tester, _folder) = cluster("");
    for index in 0..500 {
        tester.run(&format!("SET key:{index} v"));
        tester.run(&format!("SET {{a}}:{index} v"));
    }
    tester.run("HSET {a}:hash f v");
    for count in [1, 10, 100_000] {
        let (mut keys, calls) = walk_cluster(&mut tester, &format!("COUNT {count}"));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 1001, "with COUNT {count}");
        assert!(count < 1000 && calls > 50 || calls == 2, "{calls} calls with COUNT {count}");
    }
    // Also key:322, which is in that slot.
    assert_eq!(walk_cluster(&mut tester, "SLOT 15495 COUNT 7").0.len(), 502);
    assert_eq!(walk_cluster(&mut tester, "MATCH {a}:4?").0.len(), 10);
    assert_eq!(walk_cluster(&mut tester, "MATCH *:4?").0.len(), 20);
    assert_eq!(walk_cluster(&mut tester, "MATCH {a}* SLOT 1").0.len(), 0);
    assert_eq!(walk_cluster(&mut tester, "TYPE hash").0, ["{a}:hash"]);
    // Another process's position means the beginning of the slot.
    let all = tester.run("CLUSTERSCAN 0-{a}-0 COUNT 100000");
    assert_eq!(tester.run("CLUSTERSCAN abcdef-{a}-12345678 COUNT 100000"), all);
    tester.check(&[
        ("CLUSTERSCAN x", "-ERR Invalid cursor\r\n"),
        ("CLUSTERSCAN 1", "-ERR Invalid cursor\r\n"),
        ("CLUSTERSCAN abc-{a}-x", "-ERR Invalid cursor\r\n"),
        ("CLUSTERSCAN 0 SLOT 99999", "-ERR Invalid or out of range slot\r\n"),
        ("CLUSTERSCAN 0 SLOT x", "-ERR Invalid or out of range slot\r\n"),
        ("CLUSTERSCAN 0 FOO", "-ERR syntax error\r\n"),
        ("CLUSTERSCAN 0 COUNT 0", "-ERR syntax error\r\n"),
        ("CLUSTERSCAN 0 TYPE foo", "-ERR unknown type name 'foo'\r\n"),
        ("CLUSTERSCAN 0-{a}-0 SLOT 3", "-ERR Cursor slot mismatch with SLOT argument\r\n"),
        ("CLUSTERSCAN 0 SLOT 1 MATCH x", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
    let disabled = "-ERR This instance has cluster support disabled\r\n";
    Tester::new().check(&[("CLUSTERSCAN 0", disabled)]);
}
