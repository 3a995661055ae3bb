// SPDX-License-Identifier: BSD-3-Clause
//! In-process tests of scripts.

use braid_base::relocation::Mover;
use braid_scripting::cache::sha_of;
use braid_telemetry::command_log::LogKind;

use crate::testing::{Tester, check};

const NOSCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

#[test]
fn scripts_run() {
    check(&[
        ("EVAL \"return 1\" 0", ":1\r\n"),
        ("EVAL \"return {KEYS[1],KEYS[2],ARGV[1]}\" 2 a b c", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("EVAL \"return redis.call('set', KEYS[1], ARGV[1])\" 1 k v", "+OK\r\n"),
        ("GET k", "$1\r\nv\r\n"),
        ("EVAL \"return redis.call('get', 'k')\" 0", "$1\r\nv\r\n"),
        ("EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k", "$1\r\nv\r\n"),
    ]);
}

#[test]
fn counts_of_keys() {
    check(&[
        ("EVAL \"return 1\"", "-ERR wrong number of arguments for 'eval' command\r\n"),
        ("EVAL \"return 1\" x", "-ERR value is not an integer or out of range\r\n"),
        ("EVAL \"return 1\" 1", "-ERR Number of keys can't be greater than number of args\r\n"),
        ("EVAL \"return 1\" -1", "-ERR Number of keys can't be negative\r\n"),
        ("COMMAND GETKEYS EVAL \"return 1\" 2 a b c", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS EVALSHA x 1 a", "*1\r\n$1\r\na\r\n"),
        ("COMMAND GETKEYS EVAL_RO x 0", "*0\r\n"),
    ]);
}

#[test]
fn the_cache() {
    let sha = "a27e7e8a43702b7046d4f6a7ccf5b60cef6b9bd9";
    check(&[
        (&format!("EVALSHA {sha} 0"), NOSCRIPT),
        ("EVALSHA short 0", NOSCRIPT),
        ("SCRIPT LOAD \"return 1+1\"", &format!("$40\r\n{sha}\r\n")),
        (&format!("EVALSHA {sha} 0"), ":2\r\n"),
        (&format!("EVALSHA {} 0", sha.to_uppercase()), ":2\r\n"),
        (&format!("EVALSHA_RO {sha} 0"), ":2\r\n"),
        (&format!("SCRIPT EXISTS {sha} {}", sha.replace('a', "b")), "*2\r\n:1\r\n:0\r\n"),
        ("SCRIPT FLUSH LATER", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n"),
        ("SCRIPT FLUSH ASYNC", "+OK\r\n"),
        (&format!("EVALSHA {sha} 0"), NOSCRIPT),
        (&format!("SCRIPT EXISTS {sha}"), "*1\r\n:0\r\n"),
        ("EVAL \"return 1+1\" 0", ":2\r\n"),
        (&format!("EVALSHA {sha} 0"), ":2\r\n"),
        (
            "SCRIPT LOAD \"return )\"",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'\r\n",
        ),
        (
            "EVAL \"return )\" 0",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'\r\n",
        ),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.\r\n"),
        ("SCRIPT DEBUG NO", "+OK\r\n"),
        ("SCRIPT DEBUG MAYBE", "-ERR Use SCRIPT DEBUG YES/SYNC/NO\r\n"),
    ]);
}

#[test]
fn a_script_known_to_one_thread_is_known_to_all() {
    let mut tester = Tester::new();
    tester.run("SCRIPT LOAD \"return 7\"");
    let mut other = tester.engine.worker(1);
    std::mem::swap(&mut tester.worker, &mut other);
    let sha = "1b82a92a0fcaab80a1b7e6c5e8dd63c5dbc26c0b";
    let found = tester.run("SCRIPT LOAD \"return 7\"");
    let sha = found.split("\r\n").nth(1).unwrap_or(sha).to_owned();
    tester.check(&[(&format!("EVALSHA {sha} 0"), ":7\r\n"), ("SCRIPT FLUSH", "+OK\r\n")]);
    std::mem::swap(&mut tester.worker, &mut other);
    tester.check(&[(&format!("EVALSHA {sha} 0"), NOSCRIPT)]);
}

/// A script's commands are in the slow log before the script, once each, although a first run that
/// reached an undeclared key was abandoned.
#[test]
fn commands_of_scripts_are_in_the_slow_log() {
    let mut tester = Tester::with("slowlog-log-slower-than 0");
    let logged = |tester: &mut Tester, script: &str| {
        tester.run("SLOWLOG RESET");
        tester.run(script);
        let log = tester.engine.telemetry.logs.of(LogKind::Slow).latest(10);
        let commands = log.iter().rev().map(|entry| String::from_utf8_lossy(&entry.args[0]).to_lowercase());
        commands.collect::<Vec<_>>().join(" ")
    };
    let script = |body: &str| format!("EVAL \"{body}\" 1 k");
    let reads = script("redis.call('get', KEYS[1]) redis.call('strlen', KEYS[1])");
    assert_eq!(logged(&mut tester, &reads), "slowlog get strlen eval");
    let writes = script("redis.call('get', KEYS[1]) redis.call('set', KEYS[1], 1)");
    assert_eq!(logged(&mut tester, &writes), "slowlog get set eval");
    let undeclared = script("redis.call('get', KEYS[1]) redis.call('strlen', 'other')");
    assert_eq!(logged(&mut tester, &undeclared), "slowlog get strlen eval");
    // Only the script is slow here: its own work does not count as its next command's.
    tester.run("CONFIG SET slowlog-log-slower-than 60000");
    tester.run("SLOWLOG RESET");
    tester.run(&script("for i = 1, 5e7 do end redis.call('get', KEYS[1])"));
    let log = tester.run("SLOWLOG GET");
    assert!(log.contains("$4\r\nEVAL\r\n") && log.starts_with("*1\r\n"), "{log}");
}

#[test]
fn commands_are_checked() {
    let mut tester = Tester::with("enable-debug-command yes");
    let error = |tester: &mut Tester, script: &str| {
        let reply = tester.run(&format!("EVAL \"{script}\" 1 k"));
        reply.split(" script: ").next().unwrap_or_default().to_owned()
    };
    for (script, expected) in [
        ("redis.call('nosuch')", "-ERR Unknown Redis command called from script"),
        ("redis.call('client', 'nosuch')", "-ERR Unknown Redis command called from script"),
        ("redis.call('client')", "-ERR Unknown Redis command called from script"),
        ("redis.call('get')", "-ERR Wrong number of args calling Redis command from script"),
        ("redis.call('multi')", "-ERR This Redis command is not allowed from script"),
        ("redis.call('eval', 'return 1', 0)", "-ERR This Redis command is not allowed from script"),
        (
            "redis.call('set', 'k', 'v') redis.call('lpush', 'k', 1)",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("redis.call('select', 99)", "-ERR DB index is out of range"),
    ] {
        assert_eq!(error(&mut tester, script), expected, "{script}");
    }
    tester.check(&[
        (
            "EVAL_RO \"return redis.pcall('set', 'a', 'b')\" 0",
            "-ERR Write commands are not allowed from read-only scripts.\r\n",
        ),
        (
            "EVAL \"#!lua flags=no-writes\\nreturn redis.pcall('set', 'a', 'b')\" 0",
            "-ERR Write commands are not allowed from read-only scripts.\r\n",
        ),
        (
            "EVAL_RO \"#!lua\\nreturn 1\" 0",
            "-ERR Can not execute a script with write flag using *_ro command.\r\n",
        ),
        ("EVAL \"#!lua name=x\\nreturn 1\" 0", "-ERR Unknown lua shebang option: name=x\r\n"),
        ("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK\r\n"),
        (
            "EVAL \"return redis.pcall('eval', 'return 1', 0)\" 0",
            "-ERR A script cannot run another script\r\n",
        ),
        ("EVAL \"return redis.call('multi')\" 0", "+OK\r\n"),
    ]);
}

#[test]
fn databases_are_the_scripts_own() {
    check(&[
        ("SET k zero", "+OK\r\n"),
        (
            "EVAL \"redis.call('select', 5) redis.call('set', 'k', 'five') return redis.call('get', 'k')\" 1 k",
            "$4\r\nfive\r\n",
        ),
        ("GET k", "$4\r\nzero\r\n"),
        ("SELECT 5", "+OK\r\n"),
        ("GET k", "$4\r\nfive\r\n"),
        ("EVAL \"return redis.call('get', 'k')\" 1 k", "$4\r\nfive\r\n"),
    ]);
}

#[test]
fn scripts_in_transactions() {
    check(&[
        ("MULTI", "+OK\r\n"),
        ("EVAL \"return redis.call('incr', KEYS[1])\" 1 n", "+QUEUED\r\n"),
        ("EVAL \"return redis.call('select', 3)\" 0", "+QUEUED\r\n"),
        ("INCR n", "+QUEUED\r\n"),
        ("EXEC", "*3\r\n:1\r\n+OK\r\n:2\r\n"),
    ]);
}

#[test]
fn watched_keys_are_touched() {
    let mut tester = Tester::new();
    let other = tester.client();
    tester.check(&[("WATCH k", "+OK\r\n")]);
    tester.run_as(other, "EVAL \"redis.call('set', 'k', 1)\" 0");
    tester.check(&[("MULTI", "+OK\r\n"), ("EXEC", "*-1\r\n")]);
}

#[test]
fn declared_keys_only() {
    let mut tester = Tester::with("script-undeclared-keys no");
    let refused = "-ERR Script attempted to access a key that it did not declare\r\n";
    tester.check(&[
        ("EVAL \"return redis.call('set', KEYS[1], 1)\" 1 a", "+OK\r\n"),
        ("EVAL \"return redis.pcall('set', 'b', 1)\" 1 a", refused),
        ("EVAL \"return redis.pcall('mset', 'a', 1, 'b', 1)\" 1 a", refused),
        ("EVAL \"return redis.pcall('dbsize')\" 1 a", refused),
        ("EVAL_RO \"return redis.call('get', KEYS[1])\" 1 a", "$1\r\n1\r\n"),
        ("EVAL \"return redis.call('ping')\" 0", "+PONG\r\n"),
        ("EXISTS b", ":0\r\n"),
    ]);
}

#[test]
fn errors_are_counted_once() {
    let mut tester = Tester::new();
    tester.run("EVAL \"return redis.call('select', 99)\" 0");
    tester.run("EVAL \"return redis.pcall('select', 99)\" 0");
    tester.run("EVAL \"redis.pcall('select', 99) return 1\" 0");
    tester.run("EVAL \"return redis.error_reply('MINE x')\" 0");
    let stats = tester.run("INFO errorstats");
    assert!(stats.contains("errorstat_ERR:count=3") && stats.contains("errorstat_MINE:count=1"), "{stats}");
    let stats = tester.run("INFO commandstats");
    let line = |name: &str| stats.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(
        line("cmdstat_eval:").contains("calls=4,") && line("cmdstat_eval:").contains("failed_calls=3"),
        "{stats}"
    );
    assert!(
        line("cmdstat_select:").contains("calls=3,") && line("cmdstat_select:").contains("failed_calls=3"),
        "{stats}"
    );
}

const LIBRARY: &str =
    "#!lua name=lib\\nredis.register_function('f', function(keys, args) return {keys[1], args[1]} end)";

#[test]
fn functions() {
    check(&[
        (&format!("FUNCTION LOAD \"{LIBRARY}\""), "$3\r\nlib\r\n"),
        ("FCALL f 1 k a", "*2\r\n$1\r\nk\r\n$1\r\na\r\n"),
        ("FCALL F 1 k a", "*2\r\n$1\r\nk\r\n$1\r\na\r\n"),
        ("FCALL nosuch 0", "-ERR Function not found\r\n"),
        ("FCALL f x", "-ERR Bad number of keys provided\r\n"),
        ("FCALL f 2 a", "-ERR Number of keys can't be greater than number of args\r\n"),
        ("FCALL f -1", "-ERR Number of keys can't be negative\r\n"),
        ("FCALL_RO f 0", "-ERR Can not execute a script with write flag using *_ro command.\r\n"),
        (&format!("FUNCTION LOAD \"{LIBRARY}\""), "-ERR Library 'lib' already exists\r\n"),
        (&format!("FUNCTION LOAD REPLACE \"{LIBRARY}\""), "$3\r\nlib\r\n"),
        (&format!("FUNCTION LOAD AGAIN \"{LIBRARY}\""), "-ERR Unknown option given: AGAIN\r\n"),
        (
            "FUNCTION LOAD \"#!lua name=other\\nredis.register_function('F', function() end)\"",
            "-ERR Function F already exists\r\n",
        ),
        (
            "FUNCTION LIST",
            "*1\r\n*6\r\n$12\r\nlibrary_name\r\n$3\r\nlib\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*1\r\n*6\r\n\
             $4\r\nname\r\n$1\r\nf\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n",
        ),
        ("FUNCTION LIST LIBRARYNAME x*", "*0\r\n"),
        ("FUNCTION LIST LIBRARYNAME", "-ERR library name argument was not given\r\n"),
        ("FUNCTION LIST WHAT", "-ERR Unknown argument WHAT\r\n"),
        ("FUNCTION DELETE other", "-ERR Library not found\r\n"),
        ("FUNCTION DELETE lib", "+OK\r\n"),
        ("FCALL f 0", "-ERR Function not found\r\n"),
        ("FUNCTION LIST", "*0\r\n"),
        ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now.\r\n"),
        (
            "FUNCTION STATS",
            "*4\r\n$14\r\nrunning_script\r\n$-1\r\n$7\r\nengines\r\n*2\r\n$3\r\nLUA\r\n*4\r\n$15\r\nlibraries_count\r\n:0\r\n\
             $15\r\nfunctions_count\r\n:0\r\n",
        ),
    ]);
}

#[test]
fn libraries_that_are_refused() {
    for (code, expected) in [
        ("return 1", "Missing library metadata"),
        ("#!lua name=x", "Invalid library metadata"),
        ("#!lua\\nx", "Library name was not given"),
        (
            "#!lua name=a-b\\nx",
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
        ("#!python name=a\\nx", "Engine 'python' not found"),
        ("#!lua name=a\\nreturn 1", "No functions registered"),
        ("#!lua name=a\\nreturn )", "Error compiling function: user_function:2: unexpected symbol near ')'"),
        (
            "#!lua name=a\\nredis.call('ping')",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "#!lua name=a\\nreturn math.random()",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'math'",
        ),
        (
            "#!lua name=a\\nredis.register_function('a')",
            "Error registering functions: ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ),
        (
            "#!lua name=a\\nredis.register_function('a b', function() end)",
            "Error registering functions: ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
        (
            "#!lua name=a\\nredis.register_function{function_name='a', callback=function() end, flags={'nosuch'}}",
            "Error registering functions: ERR unknown flag given",
        ),
        (
            "#!lua name=a\\nredis.register_function('a', function() end) redis.register_function('a', function() end)",
            "Error registering functions: ERR Function already exists in the library",
        ),
    ] {
        let reply = Tester::new().run(&format!("FUNCTION LOAD \"{code}\""));
        assert_eq!(reply, format!("-ERR {expected}\r\n"), "{code}");
    }
}

#[test]
fn functions_have_flags_and_descriptions() {
    let mut tester = Tester::new();
    tester.run(
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function{function_name='r', description='reads', \
         callback=function(k) return redis.call('get', k[1]) end, flags={'no-writes'}} \
         redis.register_function{function_name='w', callback=function(k) return redis.call('set', k[1], 1) end, flags={'no-writes'}}\"",
    );
    tester.check(&[
        ("SET k v", "+OK\r\n"),
        ("FCALL_RO r 1 k", "$1\r\nv\r\n"),
        ("FCALL r 1 k", "$1\r\nv\r\n"),
    ]);
    assert!(tester.run("FCALL w 1 k").starts_with(
        "-ERR Write commands are not allowed from read-only scripts. script: w, on @user_function:"
    ));
    let list = tester.run("FUNCTION LIST WITHCODE");
    assert!(
        list.contains("$5\r\nreads\r\n") && list.contains("+no-writes\r\n") && list.contains("library_code"),
        "{list}"
    );
}

#[test]
fn libraries_are_dumped_and_restored() {
    let mut tester = Tester::new();
    tester.run(&format!("FUNCTION LOAD \"{LIBRARY}\""));
    let dump = tester.run_args(0, &[b"FUNCTION", b"DUMP"]);
    let payload: Vec<u8> = {
        let start = dump.iter().position(|&byte| byte == b'\n').expect("a bulk string") + 1;
        dump[start..dump.len() - 2].to_vec()
    };
    let mut restore = |policy: &[&[u8]]| {
        let args: Vec<&[u8]> = [&[&b"FUNCTION"[..], b"RESTORE", &payload], policy].concat();
        String::from_utf8_lossy(&tester.run_args(0, &args)).into_owned()
    };
    assert_eq!(restore(&[]), "-ERR Library lib already exists\r\n");
    assert_eq!(restore(&[b"APPEND"]), "-ERR Library lib already exists\r\n");
    assert_eq!(restore(&[b"REPLACE"]), "+OK\r\n");
    assert_eq!(restore(&[b"FLUSH"]), "+OK\r\n");
    assert_eq!(
        restore(&[b"WHAT"]),
        "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.\r\n"
    );
    tester.check(&[
        ("FCALL f 1 k a", "*2\r\n$1\r\nk\r\n$1\r\na\r\n"),
        ("FUNCTION RESTORE bad", "-ERR DUMP payload version or checksum are wrong\r\n"),
        ("FUNCTION FLUSH", "+OK\r\n"),
        ("FUNCTION LIST", "*0\r\n"),
    ]);
}

#[test]
fn a_library_known_to_one_thread_is_known_to_all() {
    let mut tester = Tester::new();
    tester.run(&format!("FUNCTION LOAD \"{LIBRARY}\""));
    let mut other = tester.engine.worker(1);
    std::mem::swap(&mut tester.worker, &mut other);
    tester.check(&[("FCALL f 1 k a", "*2\r\n$1\r\nk\r\n$1\r\na\r\n"), ("FUNCTION FLUSH", "+OK\r\n")]);
    std::mem::swap(&mut tester.worker, &mut other);
    tester.check(&[("FCALL f 1 k a", "-ERR Function not found\r\n")]);
}

#[test]
fn scripts_reading_undeclared_keys_are_restarted() {
    let mut tester = Tester::new();
    tester.check(&[("SET b two", "+OK\r\n")]);
    for _ in 0..3 {
        tester.check(&[
            (
                "EVAL_RO \"return {redis.call('get', 'b'), pcall(redis.call, 'dbsize')}\" 1 a",
                "*3\r\n$3\r\ntwo\r\n:1\r\n:1\r\n",
            ),
            ("EVAL_RO \"redis.call('select', 1) return redis.call('keys', '*')\" 1 a", "*0\r\n"),
        ]);
    }
}

/// The statistics since their reset, without times.
fn counted(tester: &mut Tester) -> String {
    let info = tester.run("INFO commandstats errorstats stats");
    let mut lines: Vec<String> = info
        .lines()
        .filter(|line| {
            ["cmdstat_", "errorstat_", "keyspace_", "total_error"].iter().any(|begin| line.starts_with(begin))
                && !line.starts_with("cmdstat_info")
        })
        .map(|line| {
            let fields = line.split(',').filter(|field| !field.contains("usec"));
            fields.collect::<Vec<_>>().join(",")
        })
        .collect();
    let latency = tester.run("LATENCY HISTOGRAM get");
    lines.extend(latency.split("histogram_usec").next().map(str::to_owned));
    let hot = tester.run("HOTKEYS GET");
    lines.extend(hot.split("by-net-bytes").nth(1).map(str::to_owned));
    lines.join("\n")
}

#[test]
fn restarted_script_statistics_are_counted_once() {
    let mut tester = Tester::new();
    tester.check(&[("SET a one", "+OK\r\n"), ("SET b two", "+OK\r\n")]);
    let script = "EVAL_RO \"for i = 1, 3 do redis.call('get', 'a') end redis.call('get', 'c') \
                  redis.pcall('llen', 'a') redis.pcall('set', 'a', 1) redis.pcall('nothing') redis.pcall('get') \
                  for i = 1, 10 do redis.call('get', 'undeclared' .. i) end return redis.call('get', 'b')\" 2 a c";
    // An undeclared key that shares a declared key's lock causes no restart; ten keys cannot all
    // do so.
    let mut figures = Vec::new();
    for begun_again in [1, 0] {
        tester.run("CONFIG RESETSTAT");
        tester.run("HOTKEYS START METRICS 1 NET SAMPLE 1");
        assert_eq!(tester.run(script), "$3\r\ntwo\r\n");
        figures.push(counted(&mut tester));
        tester.run("HOTKEYS STOP");
        tester.run("HOTKEYS RESET");
        let again = tester.run("INFO stats");
        // The second time the script runs alone from the start.
        assert!(again.contains(&format!("scripts_begun_again:{begun_again}\r\n")), "{again}");
    }
    assert_eq!(figures[0], figures[1]);
    let first = &figures[0];
    for line in [
        "cmdstat_get:calls=15,rejected_calls=1,failed_calls=0",
        "cmdstat_llen:calls=1,rejected_calls=0,failed_calls=1",
        "cmdstat_set:calls=0,rejected_calls=1,failed_calls=0",
        "keyspace_hits:5",
        "keyspace_misses:11",
        "errorstat_WRONGTYPE:count=1",
        "errorstat_ERR:count=3",
        // From HOTKEYS.
        "$1\r\na\r\n",
    ] {
        assert!(first.contains(line), "{line} in:\n{first}");
    }
}

#[test]
fn refusals_of_a_reader_of_undeclared_keys_are_noted_once() {
    let mut tester = Tester::new();
    tester.check(&[
        ("SET a one", "+OK\r\n"),
        ("ACL SETUSER u on nopass %R~a +@all", "+OK\r\n"),
        ("AUTH u x", "+OK\r\n"),
        (
            "EVAL_RO \"redis.call('get', 'a') redis.pcall('get', 'b') return redis.pcall('dbsize')\" 1 a",
            ":1\r\n",
        ),
    ]);
    let log = tester.run("ACL LOG");
    assert!(log.starts_with("*1\r\n") && log.contains("$5\r\ncount\r\n:1\r\n"), "{log}");
    let stats = tester.run("INFO stats");
    assert!(stats.contains("acl_access_denied_key:1\r\n"), "{stats}");
}

#[test]
fn replies_of_commands_count_as_the_scripts_memory() {
    const ERROR: &str = "not enough memory";
    let mut tester = Tester::with("lua-memory 2mb");
    let big = "x".repeat(1000);
    for _ in 0..20 {
        let mut request: Vec<&[u8]> = vec![b"RPUSH", b"long"];
        request.extend([big.as_bytes()].iter().cycle().take(1000));
        tester.run_args(0, &request);
        let mut request: Vec<&[u8]> = vec![b"RPUSH", b"small"];
        request.extend([&b"1"[..]].iter().cycle().take(10_000));
        tester.run_args(0, &request);
    }
    tester.run(&format!("SET blob {}", "x".repeat(3_000_000)));
    let count = |key: &str, caller: &str| {
        format!("EVAL \"local r = redis.{caller}('lrange', KEYS[1], 0, -1) return #r\" 1 {key}")
    };
    // 20 MB of replies; and 1.4 MB that would take 3.2 MB in Lua.
    for key in ["long", "small"] {
        for caller in ["call", "pcall"] {
            let reply = tester.run(&count(key, caller));
            assert!(reply.starts_with("-ERR") && reply.contains(ERROR), "{key}: {reply}");
        }
    }
    let blob = tester.run("EVAL \"return #redis.call('get', KEYS[1])\" 1 blob");
    assert!(blob.contains(ERROR), "{blob}");
    let caught = tester.run("EVAL \"return {pcall(redis.call, 'lrange', 'long', 0, -1)}\" 1 long");
    assert!(caught.starts_with("*1\r\n$-1\r\n") || caught.starts_with("*2\r\n$-1\r\n"), "{caught}");
    tester.check(&[
        ("EVAL \"return #redis.call('lrange', KEYS[1], 0, 499)\" 1 long", ":500\r\n"),
        ("EVAL \"return #redis.call('lrange', KEYS[1], 0, 9999)\" 1 small", ":10000\r\n"),
    ]);
    let memory = tester.run("INFO memory");
    let field = memory.lines().find_map(|line| line.strip_prefix("used_memory_vm_eval:")).expect("a field");
    assert!(field.parse::<u64>().expect("bytes") < 6 << 20, "{field}");
    tester.check(&[
        ("CONFIG SET lua-memory 64mb", "+OK\r\n"),
        (&count("small", "call"), ":200000\r\n"),
        (&count("long", "call"), ":20000\r\n"),
        ("CONFIG SET lua-memory 0", "+OK\r\n"),
        (&count("long", "call"), ":20000\r\n"),
    ]);
}

/// `maxmemory-scripts` of Valkey 9.2.
#[test]
fn scripts_of_eval_have_a_memory_limit() {
    let mut tester = Tester::with("maxmemory-scripts 10kb");
    let figure = |tester: &mut Tester, name: &str| -> u64 {
        let info = tester.run("INFO everything");
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).expect("a figure")
    };
    let script = |number: usize| format!("return {number} --{}", "x".repeat(1000));
    let loaded = tester.run(&format!("SCRIPT LOAD \"{}\"", script(0)));
    let loaded = loaded.lines().nth(1).expect("a hash").to_owned();
    for number in 1..=100 {
        assert_eq!(tester.run(&format!("EVAL \"{}\" 0", script(number))), format!(":{number}\r\n"));
    }
    let kept = figure(&mut tester, "number_of_cached_scripts") - 1;
    assert!((4..10).contains(&kept), "{kept}");
    assert_eq!(figure(&mut tester, "evicted_scripts"), 100 - kept);
    assert_eq!(tester.run(&format!("EVALSHA {loaded} 0")), ":0\r\n");
    // One that is larger than the limit runs, alone.
    let large = format!("EVAL \"return 7 --{}\" 0", "x".repeat(20_000));
    tester.check(&[(&large, ":7\r\n"), (&large, ":7\r\n")]);
    assert_eq!(figure(&mut tester, "number_of_cached_scripts"), 2);
    // Those that are loaded later do not count.
    tester.run("CONFIG SET maxmemory-scripts 0");
    for number in 200..220 {
        tester.run(&format!("EVAL \"{}\" 0", script(number)));
        tester.run(&format!("SCRIPT LOAD \"{}\"", script(number)));
    }
    tester.run("CONFIG SET maxmemory-scripts 10kb");
    tester.check(&[("EVAL \"return 8\" 0", ":8\r\n"), ("EVAL \"return 9\" 0", ":9\r\n")]);
    assert_eq!(figure(&mut tester, "number_of_cached_scripts"), 23);
    tester.check(&[("SCRIPT FLUSH", "+OK\r\n"), ("EVAL \"return 8\" 0", ":8\r\n")]);
}

/// Of scripts known only through EVAL, the 500 most recently run are kept.
#[test]
fn scripts_of_eval_make_way_for_others() {
    let mut tester = Tester::new();
    let figure = |tester: &mut Tester, name: &str| -> u64 {
        let info = tester.run("INFO everything");
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).expect("a figure")
    };
    let loaded = tester.run("SCRIPT LOAD \"return 'loaded'\"");
    let loaded = loaded.lines().nth(1).expect("a hash").to_owned();
    let sha = |text: &str| {
        braid_scripting::cache::sha_of(text.as_bytes()).map(|byte| format!("{byte:02x}")).concat()
    };
    for number in 0..500 {
        assert_eq!(tester.run(&format!("EVAL \"return {number}\" 0")), format!(":{number}\r\n"));
    }
    let bytes = figure(&mut tester, "used_memory_scripts_eval");
    assert_eq!(
        (figure(&mut tester, "number_of_cached_scripts"), figure(&mut tester, "evicted_scripts")),
        (501, 0)
    );
    // One of the oldest is used again, one is loaded.
    let mut used = tester.run(&format!("EVALSHA {} 0", sha("return 3")));
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        used = tester.run(&format!("EVALSHA {} 0", sha("return 3")));
    }
    assert_eq!(used, ":3\r\n");
    tester.run("SCRIPT LOAD \"return 4\"");
    for number in 500..900 {
        assert_eq!(tester.run(&format!("EVAL \"return {number}\" 0")), format!(":{number}\r\n"));
    }
    assert_eq!(
        (figure(&mut tester, "number_of_cached_scripts"), figure(&mut tester, "evicted_scripts")),
        (502, 399)
    );
    assert!(figure(&mut tester, "used_memory_scripts_eval") < bytes + bytes / 10);
    tester.check(&[
        (&format!("EVALSHA {loaded} 0"), "$6\r\nloaded\r\n"),
        (&format!("EVALSHA {} 0", sha("return 3")), ":3\r\n"),
        (&format!("EVALSHA {} 0", sha("return 4")), ":4\r\n"),
        (&format!("EVALSHA {} 0", sha("return 899")), ":899\r\n"),
    ]);
    let gone: Vec<usize> = (0..900)
        .filter(|number| tester.run(&format!("EVALSHA {} 0", sha(&format!("return {number}")))) == NOSCRIPT)
        .collect();
    assert_eq!(gone.len(), 399);
    assert!(!gone.contains(&3) && !gone.contains(&4));
    // An evicted script is known again once its text is sent.
    let again = gone[0];
    tester.check(&[
        (&format!("SCRIPT EXISTS {}", sha(&format!("return {again}"))), "*1\r\n:0\r\n"),
        (&format!("EVAL \"return {again}\" 0"), &format!(":{again}\r\n")),
        (&format!("EVALSHA {} 0", sha(&format!("return {again}"))), &format!(":{again}\r\n")),
        ("CONFIG RESETSTAT", "+OK\r\n"),
    ]);
    assert_eq!(figure(&mut tester, "evicted_scripts"), 0);
}

/// Defragmentation moves the texts of scripts, whoever knows them.
#[test]
fn texts_move() {
    let mut tester = Tester::new();
    let text = |number: usize| format!("return {number}");
    let shas: Vec<_> = (0..40).map(|number| sha_of(text(number).as_bytes())).collect();
    for number in 0..40 {
        tester.run(&format!("SCRIPT LOAD '{}'", text(number)));
    }
    tester.run("EVAL 'return 7' 0");
    let scripts = |tester: &Tester| -> Vec<_> {
        shas.iter().map(|sha| tester.engine.scripts.cache.script(sha).expect("loaded")).collect()
    };
    let all = scripts(&tester);
    let before: Vec<_> = all.iter().map(|script| script.body()).collect();
    let mut steps = 1;
    // Without time a step moves some texts only.
    while !tester.engine.scripts.relocate(&mut Mover::new(0, true)) {
        steps += 1;
    }
    assert!(steps > 2, "{steps}");
    for (number, old) in before.into_iter().enumerate() {
        let now = all[number].body();
        assert!(now.as_ptr() != old.as_ptr() && *now == *text(number).as_bytes());
        assert!(old.is_unique(), "somebody keeps the old text of {number}");
        assert_eq!(tester.run(&format!("EVAL '{}' 0", text(number))), format!(":{number}\r\n"));
    }
    let figures = |tester: &Tester| tester.engine.scripts.cache.figures(2);
    assert_eq!(figures(&tester).scripts, 40, "found by their moved texts");
    // A text that a thread needs while it runs a script is given up at the next opportunity.
    let old = all[3].body();
    let move_all = |tester: &Tester| while !tester.engine.scripts.relocate(&mut Mover::new(1 << 40, true)) {};
    assert!(tester.engine.scripts.with_vms(0, |_| move_all(&tester)).is_ok() && !old.is_unique());
    move_all(&tester);
    assert!(old.is_unique());
    // Nothing remains of them, and of what was compiled.
    assert!(figures(&tester).script_vm_bytes > 0);
    assert_eq!(tester.run("SCRIPT FLUSH"), "+OK\r\n");
    let bytes = tester.engine.scripts.with_vms(0, |vms| vms.script_bytes());
    assert_eq!(bytes.ok(), Some(0));
    assert!(all.iter().all(|script| std::sync::Arc::strong_count(script) == 1));
}
