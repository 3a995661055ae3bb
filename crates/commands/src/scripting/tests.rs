//! Tests of scripts, in process.

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
