// SPDX-License-Identifier: BSD-3-Clause
//! Tests of MONITOR.

use braid_clients::attention::MONITORS;

use crate::testing::Tester;

/// The lines sent to a monitoring client while another client runs these lines, without times and
/// addresses.
fn told(lines: &[&str]) -> Vec<String> {
    let mut tester = Tester::new();
    let monitor = tester.client();
    assert_eq!(tester.run_as(monitor, "MONITOR"), "+OK\r\n");
    for line in lines {
        tester.run(line);
    }
    let text = tester.run_as(monitor, "ECHO end");
    let lines = text.strip_prefix("$3\r\nend\r\n").expect("the reply comes first").lines();
    let commands = lines.map(|line| {
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.starts_with('+') && time.split_once('.').is_some_and(|(_, micros)| micros.len() == 6));
        rest.replace("[0 ?:0] ", "")
    });
    commands.collect()
}

#[test]
fn monitor_shows_every_command_in_order() {
    let told = told(&["SET k 1", "get k", "get \"\\x00\\\"\\\\\\n\\xff\"", "nosuch", "SELECT 3", "PING"]);
    let expected = [
        "\"SET\" \"k\" \"1\"",
        "\"get\" \"k\"",
        "\"get\" \"\\x00\\\"\\\\\\n\\xff\"",
        "[3 ?:0] \"SELECT\" \"3\"",
        "[3 ?:0] \"PING\"",
        "\"ECHO\" \"end\"",
    ];
    assert_eq!(told, expected);
}

#[test]
fn monitor_shows_transactions_and_scripts_with_their_commands() {
    let told = told(&[
        "MULTI",
        "SET k 1",
        "EXEC",
        "MULTI",
        "NOSUCH",
        "EXEC",
        "EVAL \"return redis.call('get', KEYS[1])\" 1 k",
        "BLPOP k2 0",
    ]);
    let expected = [
        "\"MULTI\"",
        "\"SET\" \"k\" \"1\"",
        "\"EXEC\"",
        "\"MULTI\"",
        "\"EXEC\"",
        "\"EVAL\" \"return redis.call('get', KEYS[1])\" \"1\" \"k\"",
        "[0 lua] \"get\" \"k\"",
        "\"BLPOP\" \"k2\" \"0\"",
        "\"ECHO\" \"end\"",
    ];
    assert_eq!(told, expected);
}

#[test]
fn monitor_shows_a_restarted_script_once() {
    let told = told(&[
        "EVAL_RO \"redis.call('get', KEYS[1]) return redis.call('get', ARGV[1])\" 1 k other",
        "EVAL \"redis.call('incr', KEYS[1]) return redis.call('get', KEYS[1])\" 1 k",
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function{function_name='f', flags={'no-writes'}, \
         callback=function(keys, args) redis.call('get', keys[1]) return redis.call('exists', args[1]) end}\"",
        "FCALL_RO f 1 k other",
    ]);
    let expected = [
        "\"EVAL_RO\" \"redis.call('get', KEYS[1]) return redis.call('get', ARGV[1])\" \"1\" \"k\" \"other\"",
        "[0 lua] \"get\" \"k\"",
        "[0 lua] \"get\" \"other\"",
        "\"EVAL\" \"redis.call('incr', KEYS[1]) return redis.call('get', KEYS[1])\" \"1\" \"k\"",
        "[0 lua] \"incr\" \"k\"",
        "[0 lua] \"get\" \"k\"",
        "\"FCALL_RO\" \"f\" \"1\" \"k\" \"other\"",
        "[0 lua] \"get\" \"k\"",
        "[0 lua] \"exists\" \"other\"",
        "\"ECHO\" \"end\"",
    ];
    let told: Vec<String> = told.into_iter().filter(|line| !line.starts_with("\"FUNCTION\"")).collect();
    assert_eq!(told, expected);
}

#[test]
fn monitor_hides_passwords_and_admin_commands() {
    let told =
        told(&["AUTH secret", "AUTH user secret", "HELLO 2 AUTH user secret SETNAME n", "CONFIG GET port"]);
    let expected = [
        "\"AUTH\" \"(redacted)\"",
        "\"AUTH\" \"(redacted)\" \"(redacted)\"",
        "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"n\"",
        "\"ECHO\" \"end\"",
    ];
    assert_eq!(told, expected);
}

#[test]
fn it_ends_with_reset_and_forbids_the_keyspace() {
    let mut tester = Tester::new();
    tester.check(&[
        ("MONITOR", "+OK\r\n"),
        ("MONITOR", ""),
        ("GET k", "-ERR Replica can't interact with the keyspace\r\n"),
        ("RESET", "+RESET\r\n"),
        ("GET k", "$-1\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MONITOR", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n"),
    ]);
    assert_eq!(tester.engine.attention.get() & MONITORS, 0);
}
