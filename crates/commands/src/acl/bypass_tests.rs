// SPDX-License-Identifier: BSD-3-Clause
//! Attempts to bypass key permissions: a user who may run every command, but only on key `a`,
//! tries to reach key `x` with every command that takes keys, at every key position: directly, in
//! a transaction, in scripts and functions, in every database.

use std::collections::BTreeSet;

use braid_spec::{Arity, Command, KeyFlags, KeySpec};

use crate::testing::Tester;

/// Requests that would read or change key `x`, for all commands whose keys are not just their
/// first argument.
const REQUESTS: &[&str] = &[
    "BLESS CLEAR x NO-EVICT",
    "BLESS GET x",
    "BLESS SET x NO-EVICT",
    "BITOP AND x a a",
    "BITOP AND a x a",
    "BITOP AND a a x",
    "BLMOVE x a LEFT LEFT 0.01",
    "BLMOVE a x LEFT LEFT 0.01",
    "BLMOVEM x a LEFT LEFT 0.01",
    "BLMOVEM a x LEFT LEFT 0.01 COUNT 2 OBO",
    "BLMPOP 0.01 2 a x LEFT",
    "BLMPOP 0.01 1 x LEFT",
    "BLPOP x 0.01",
    "BLPOP a x 0.01",
    "BRPOP a x 0.01",
    "BRPOPLPUSH x a 0.01",
    "BRPOPLPUSH a x 0.01",
    "BZMPOP 0.01 2 a x MIN",
    "BZPOPMAX a x 0.01",
    "BZPOPMIN a x 0.01",
    "CMS.MERGE x 1 a",
    "CMS.MERGE a 1 x",
    "COPY x a REPLACE",
    "COPY a x REPLACE",
    "COPY x a DB 1",
    "COPY a x DB 1",
    "COPY a x DB 0 REPLACE",
    "DEL a x",
    "DEL x a",
    "EVAL \"return 1\" 1 x",
    "EVAL \"return 1\" 2 a x",
    "EVAL_RO \"return 1\" 1 x",
    "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 x",
    "EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 2 a x",
    "EXISTS a x",
    "EXPIREMEMBER x m 10",
    "FCALL run 1 x",
    "FCALL_RO look 1 x",
    "FT.DEL index x",
    "FT.GET index x",
    "FT.MGET index a x",
    "GEORADIUS x 1 1 1 m",
    "GEORADIUS a 1 1 1 m STORE x",
    "GEORADIUS a 1 1 1 m STOREDIST x",
    "GEORADIUS a 1 1 1 m STORE a STORE x",
    "GEORADIUSBYMEMBER x m 1 m",
    "GEORADIUSBYMEMBER a m 1 m STORE x",
    "GEOSEARCHSTORE x a FROMLONLAT 1 1 BYRADIUS 1 m",
    "GEOSEARCHSTORE a x FROMLONLAT 1 1 BYRADIUS 1 m",
    "JSON.DEBUG MEMORY x",
    "JSON.MGET a x $",
    "JSON.MGET x a $",
    "JSON.MSET a $ 1 x $ 1",
    "JSON.MSET x $ 1 a $ 1",
    "LCS a x",
    "LCS x a",
    "LMOVE x a LEFT LEFT",
    "LMOVE a x LEFT LEFT",
    "HIMPORT SET x u 1",
    "LMOVEM x a LEFT LEFT",
    "LMOVEM a x LEFT LEFT COUNT 2 OBO",
    "LMPOP 2 a x LEFT",
    "MEMORY USAGE x",
    "MGET a x",
    "MIGRATE h 1 x 0 10",
    "MIGRATE h 1 \"\" 0 10 KEYS a x",
    "MSET a 1 x 2",
    "MSETEX 2 a 1 x 2",
    "MSETNX a 1 x 2",
    "MOVE x 1",
    "MOVE x 1 REPLACE",
    "OBJECT ENCODING x",
    "OBJECT FREQ x",
    "OBJECT IDLETIME x",
    "OBJECT REFCOUNT x",
    "PFCOUNT a x",
    "PFDEBUG ENCODING x",
    "PFMERGE x a",
    "PFMERGE a x",
    "RENAME x a",
    "RENAME a x",
    "RENAMENX x a",
    "RENAMENX a x",
    "RPOPLPUSH x a",
    "RPOPLPUSH a x",
    "SDIFF a x",
    "SDIFFCARD 2 a x",
    "SDIFFSTORE x a",
    "SDIFFSTORE a x",
    "SINTER a x",
    "SINTERCARD 2 a x LIMIT 1",
    "SINTERSTORE x a",
    "SINTERSTORE a a x",
    "SMOVE x a m",
    "SMOVE a x m",
    "SORT x",
    "SORT a BY x*",
    "SORT a BY nosort GET x",
    "SORT a BY nosort GET x*->f",
    "SORT a GET # GET x",
    "SORT a STORE x",
    "SORT a STORE a STORE x",
    "SORT_RO x",
    "SORT_RO a BY x*",
    "SORT_RO a GET x*",
    "SUNION a x",
    "SUNIONCARD 2 a x APPROX",
    "SUNIONSTORE x a",
    "SUNIONSTORE a x",
    "TDIGEST.MERGE x 1 a",
    "TDIGEST.MERGE a 1 x",
    "TOUCH a x",
    "TS.CREATERULE x a AGGREGATION avg 10",
    "TS.CREATERULE a x AGGREGATION avg 10",
    "TS.DELETERULE x a",
    "TS.DELETERULE a x",
    "TS.MADD x 1 1",
    "TS.MADD a 1 1 x 1 1",
    "TS.NRANGE 1 x - +",
    "TS.NRANGE 2 a x - +",
    "TS.NREVRANGE 2 a x - +",
    "UNLINK a x",
    "WATCH a x",
    "XGROUP CREATE x g $ MKSTREAM",
    "XGROUP CREATECONSUMER x g c",
    "XGROUP DELCONSUMER x g c",
    "XGROUP DESTROY x g",
    "XGROUP SETID x g 0",
    "XINFO CONSUMERS x g",
    "XINFO GROUPS x",
    "XINFO STREAM x FULL",
    "XREAD STREAMS x 0",
    "XREAD COUNT 1 STREAMS a x 0 0",
    "XREAD BLOCK 10 STREAMS a x $ $",
    "XREADGROUP GROUP g c STREAMS x >",
    "XREADGROUP GROUP STREAMS STREAMS COUNT 1 STREAMS a x > >",
    "ZDIFF 2 a x",
    "ZDIFFSTORE x 1 a",
    "ZDIFFSTORE a 2 a x",
    "ZINTER 2 a x WEIGHTS 1 2",
    "ZINTERCARD 2 a x",
    "ZINTERSTORE x 1 a",
    "ZINTERSTORE a 2 a x",
    "ZMPOP 2 a x MIN",
    "ZRANGESTORE x a 0 -1",
    "ZRANGESTORE a x 0 -1",
    "ZUNION 2 a x",
    "ZUNIONSTORE x 1 a",
    "ZUNIONSTORE a 2 a x",
];

/// Commands that take channels in key positions.
const CHANNELS: &[&str] = &["spublish", "ssubscribe", "sunsubscribe"];

/// A request of a command whose first argument is its only key, with as many arguments as it
/// requires.
fn on_first_argument(command: &Command) -> Option<String> {
    let count = match command.spec.arity {
        Arity::Exactly(count) => count,
        Arity::AtLeast(count) => count + 1,
    };
    let is_first = command.simple_keys.is_single() && command.parent.is_none() && !command.spec.is_container;
    is_first.then(|| format!("{} x{}", command.spec.name, " 1".repeat((count as usize).saturating_sub(2))))
}

fn all_requests(tester: &Tester) -> Vec<String> {
    let generated = tester.engine.commands.all().iter().filter_map(on_first_argument);
    generated.chain(REQUESTS.iter().map(|line| (*line).to_owned())).collect()
}

/// A script that runs its arguments as a command.
const RUN: &str = "return redis.pcall(unpack(ARGV))";

fn tester() -> Tester {
    let mut tester = Tester::new();
    tester.client();
    tester.run("ACL SETUSER u on nopass allcommands allchannels ~a");
    let library = format!(
        "#!lua name=l\nredis.register_function('run', function(KEYS, ARGV) {RUN} end) \
         redis.register_function{{function_name='look', flags={{'no-writes'}}, callback=function(KEYS, ARGV) {RUN} end}}"
    );
    assert!(tester.run_args(0, &[b"FUNCTION", b"LOAD", library.as_bytes()]).starts_with(b"$1"));
    tester.run("SCRIPT LOAD \"return 1\"");
    for db in [1, 0] {
        tester.run(&format!("SELECT {db}"));
        tester.run("SET x secret");
    }
    assert_eq!(tester.run_as(1, "AUTH u x"), "+OK\r\n");
    tester
}

/// The content and expiry of key `x` in both databases.
fn content(tester: &mut Tester) -> Vec<String> {
    let mut found = Vec::new();
    for db in [1, 0] {
        tester.run(&format!("SELECT {db}"));
        found.extend(["DUMP x", "PTTL x"].map(|line| tester.run(line)));
    }
    found
}

/// Tries a request in one way. The reply must be a permission error, and nothing may have changed.
#[track_caller]
fn attempt(tester: &mut Tester, way: &str, before: &[String], request: &[&str], refusals: &[&str]) {
    let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
    let reply = String::from_utf8_lossy(&tester.run_args(1, &words)).into_owned();
    assert!(refusals.iter().any(|refusal| reply.contains(refusal)), "{way}: {request:?}: {reply}");
    assert!(!reply.contains("secret"), "{way}: {request:?}: {reply}");
    assert_eq!(content(tester), before, "{way}: {request:?}");
}

#[test]
fn no_way_leads_to_a_key_that_is_not_allowed() {
    let mut tester = tester();
    let before = content(&mut tester);
    let direct = [
        "-NOPERM No permissions to access a key",
        "option of SORT denied due to insufficient ACL permissions",
    ];
    let in_script = [
        "ACL failure in script: No permissions",
        direct[1],
        "not allowed from script",
        "Write commands are not allowed",
    ];
    for line in all_requests(&tester) {
        let words = braid_resp::inline::split_words(line.as_bytes()).expect("balanced quotes");
        let words: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        attempt(&mut tester, "directly", &before, &words, &direct);
        tester.run_as(1, "MULTI");
        // SORT checks its options when it runs.
        let refusals = [direct[0], "QUEUED"];
        let is_sort = words[0].starts_with("SORT");
        attempt(&mut tester, "queued", &before, &words, if is_sort { &refusals } else { &refusals[..1] });
        let ended = tester.run_as(1, "EXEC");
        assert!(ended.starts_with("-EXECABORT") || is_sort && ended.contains(direct[1]), "{line}: {ended}");
        for (way, head) in [
            ("in a script", &["EVAL", RUN, "0"][..]),
            ("in a script that declares what is allowed", &["EVAL", RUN, "1", "a"]),
            ("in a script that only reads", &["EVAL_RO", RUN, "0"]),
            ("in a function", &["FCALL", "run", "0"]),
            ("in a function that only reads", &["FCALL_RO", "look", "1", "a"]),
        ] {
            attempt(&mut tester, way, &before, &[head, &words].concat(), &in_script);
        }
        // In another database by a script that has selected it, and within a transaction.
        let elsewhere = format!("redis.call('select', 1) {RUN}");
        let head = ["EVAL", &elsewhere, "0"];
        attempt(&mut tester, "in another database", &before, &[&head[..], &words].concat(), &in_script);
        tester.run_as(1, "MULTI");
        let queued = [&["EVAL", RUN, "0"][..], &words].concat();
        attempt(&mut tester, "queued in a script", &before, &queued, &["QUEUED"]);
        let ended = tester.run_as(1, "EXEC");
        assert!(in_script.iter().any(|refusal| ended.contains(refusal)), "{line}: {ended}");
        assert_eq!(content(&mut tester), before, "{line}");
    }
}

/// Completeness of the test above: each command that takes keys is in it, and its requests would
/// succeed for a user with permissions.
#[test]
fn every_command_that_takes_keys_is_tried() {
    let tester = tester();
    let requests = all_requests(&tester);
    let tried: BTreeSet<String> = requests
        .iter()
        .flat_map(|line| {
            let words: Vec<String> = line.split(' ').map(str::to_ascii_lowercase).collect();
            [words[0].clone(), format!("{}|{}", words[0], words[1])]
        })
        .collect();
    for command in tester.engine.commands.all() {
        // A cursor that names a slot is not a key.
        let is_key = |key: &KeySpec| !key.flags.has(KeyFlags::NOT_KEY);
        let takes_keys = command.spec.keys.iter().any(is_key) || command.spec.key_finder.is_some();
        let name = &command.full_name;
        assert!(!takes_keys || tried.contains(&**name) || CHANNELS.contains(&&**name), "{name} is not tried");
    }
    for line in REQUESTS {
        let mut tester = self::tester();
        let reply = tester.run(line);
        let faulty =
            ["-ERR syntax", "-ERR wrong number", "-ERR unknown", "-ERR Number of keys", "-ERR no such key"];
        let is_about_a = line.starts_with("RENAME") || line.starts_with("COPY");
        assert!(is_about_a || !faulty.iter().any(|fault| reply.starts_with(fault)), "{line}: {reply}");
    }
}
