// SPDX-License-Identifier: BSD-3-Clause
//! Tests of COMMAND through the dispatcher. The families' rows are checked in `table_tests.rs`.

use braid_resp::reply::Protocol;

use super::describe::Positions;
use crate::testing::{Tester, check};
use braid_spec::{Find, KeyFlags, KeySpec};

#[test]
fn a_command_is_described_byte_for_byte() {
    let mut tester = Tester::new();
    let get = "*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
        *3\r\n+@read\r\n+@string\r\n+@fast\r\n*0\r\n*1\r\n*6\r\n$5\r\nflags\r\n*2\r\n+RO\r\n+access\r\n\
        $12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n*2\r\n$5\r\nindex\r\n:1\r\n\
        $9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n*6\r\n$7\r\nlastkey\r\n:0\r\n\
        $7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n*0\r\n";
    assert_eq!(tester.run("COMMAND INFO nosuch GET config|nosuch"), format!("*3\r\n$-1\r\n{get}$-1\r\n"));
    tester.speak(0, Protocol::Resp3);
    let time = "*10\r\n$4\r\ntime\r\n:1\r\n~3\r\n+loading\r\n+stale\r\n+fast\r\n:0\r\n:0\r\n:0\r\n\
        ~1\r\n+@fast\r\n~1\r\n$23\r\nnondeterministic_output\r\n~0\r\n~0\r\n";
    assert_eq!(tester.run("COMMAND INFO time nosuch"), format!("*2\r\n{time}_\r\n"));
    let slow_log = tester.run("COMMAND INFO slowlog|len");
    assert!(slow_log.starts_with("*1\r\n*10\r\n$11\r\nslowlog|len\r\n:2\r\n~3\r\n+admin\r\n"), "{slow_log}");
    assert!(tester.run("COMMAND INFO slowlog").contains("~0\r\n~0\r\n*4\r\n*10\r\n$11\r\nslowlog|get\r\n"));
}

#[test]
fn documentation_is_a_tree() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    let docs = tester.run("COMMAND DOCS shutdown nosuch");
    let start = "%1\r\n$8\r\nshutdown\r\n%6\r\n$7\r\nsummary\r\n";
    assert!(docs.starts_with(start), "{docs}");
    let selector = "$9\r\narguments\r\n*6\r\n%4\r\n$4\r\nname\r\n$13\r\nsave-selector\r\n$4\r\ntype\r\n$5\r\noneof\r\n\
        $5\r\nflags\r\n~1\r\n+optional\r\n$9\r\narguments\r\n*2\r\n%4\r\n$4\r\nname\r\n$6\r\nnosave\r\n\
        $4\r\ntype\r\n$10\r\npure-token\r\n$12\r\ndisplay_text\r\n$6\r\nnosave\r\n$5\r\ntoken\r\n$6\r\nNOSAVE\r\n";
    assert!(docs.contains(selector), "{docs}");
    assert!(docs.contains("$5\r\nsince\r\n$5\r\n7.0.0\r\n$5\r\nflags\r\n~1\r\n+optional\r\n"), "{docs}");
    assert!(tester.run("COMMAND DOCS debug").contains("$9\r\ndoc_flags\r\n~1\r\n+syscmd\r\n"));
    assert_eq!(tester.run("COMMAND DOCS nosuch"), "%0\r\n");
    let all = tester.run("COMMAND DOCS");
    assert!(all.starts_with(&format!("%{}\r\n", tester.engine.commands.top_level().len())));
    assert!(all.contains("$11\r\nsubcommands\r\n%4\r\n$11\r\nslowlog|get\r\n"));
}

#[test]
fn counts_and_lists() {
    let mut tester = Tester::new();
    let count = tester.engine.commands.top_level().len();
    assert_eq!(tester.run("COMMAND COUNT"), format!(":{count}\r\n"));
    assert!(tester.run("COMMAND").starts_with(&format!("*{count}\r\n*10\r\n")));
    assert!(tester.run("COMMAND LIST").starts_with(&format!("*{}\r\n", tester.engine.commands.all().len())));
    let list = tester.run("COMMAND LIST FILTERBY PATTERN Slow*g|?e*");
    assert_eq!(
        list,
        "*4\r\n$11\r\nslowlog|get\r\n$12\r\nslowlog|help\r\n$11\r\nslowlog|len\r\n$13\r\nslowlog|reset\r\n"
    );
    assert!(tester.run("COMMAND LIST FILTERBY ACLCAT STRING").contains("$3\r\nget\r\n"));
    assert!(!tester.run("COMMAND LIST FILTERBY ACLCAT string").contains("$4\r\ntime\r\n"));
    check(&[
        ("COMMAND LIST FILTERBY ACLCAT nosuch", "*0\r\n"),
        ("COMMAND LIST FILTERBY MODULE x", "*0\r\n"),
        ("COMMAND LIST FILTERBY PATTERN", "-ERR syntax error\r\n"),
        ("COMMAND LIST FILTERBY x y", "-ERR syntax error\r\n"),
        ("COMMAND LIST x", "-ERR syntax error\r\n"),
        ("COMMAND NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.\r\n"),
    ]);
}

#[test]
fn keys_of_a_request() {
    check(&[
        ("COMMAND GETKEYS get k", "*1\r\n$1\r\nk\r\n"),
        ("COMMAND GETKEYS memory usage k", "*1\r\n$1\r\nk\r\n"),
        ("COMMAND GETKEYSANDFLAGS get k", "*1\r\n*2\r\n$1\r\nk\r\n*2\r\n+RO\r\n+access\r\n"),
        ("COMMAND GETKEYSANDFLAGS set k v", "*1\r\n*2\r\n$1\r\nk\r\n*2\r\n+OW\r\n+update\r\n"),
        ("COMMAND GETKEYSANDFLAGS set k v Get", "*1\r\n*2\r\n$1\r\nk\r\n*3\r\n+RW\r\n+access\r\n+update\r\n"),
        ("COMMAND GETKEYSANDFLAGS bitfield k GET u8 0", "*1\r\n*2\r\n$1\r\nk\r\n*2\r\n+RO\r\n+access\r\n"),
        (
            "COMMAND GETKEYSANDFLAGS bitfield k OVERFLOW SAT SET u8 0 1",
            "*1\r\n*2\r\n$1\r\nk\r\n*3\r\n+RW\r\n+access\r\n+update\r\n",
        ),
        ("COMMAND GETKEYS nosuch k", "-ERR Invalid command specified\r\n"),
        ("COMMAND GETKEYS memory nosuch k", "-ERR Invalid command specified\r\n"),
        ("COMMAND GETKEYS time", "-ERR The command has no key arguments\r\n"),
        ("COMMAND GETKEYS get", "-ERR Invalid number of arguments specified for command\r\n"),
    ]);
}

#[test]
fn positions_as_numbers() {
    let at = |index, flags| KeySpec::at(index, flags);
    let numbers = |keys: &[KeySpec]| {
        let found = Positions::of(keys);
        (found.first, found.last, found.step, found.movable)
    };
    assert_eq!(numbers(&[]), (0, 0, 0, false));
    assert_eq!(numbers(&[at(1, KeyFlags::RW), at(2, KeyFlags::OW)]), (1, 2, 1, false));
    assert_eq!(numbers(&[KeySpec::range(1, -1, 2, KeyFlags::OW)]), (1, -1, 2, false));
    assert_eq!(numbers(&[at(2, KeyFlags::OW), KeySpec::range(3, -1, 1, KeyFlags::RO)]), (2, -1, 1, false));
    assert_eq!(numbers(&[KeySpec::counted(1, KeyFlags::RO)]), (0, 0, 0, true));
    assert_eq!(numbers(&[at(1, KeyFlags::OW), KeySpec::counted(2, KeyFlags::RO)]), (1, 1, 1, true));
    assert_eq!(numbers(&[at(1, KeyFlags::RO.and(KeyFlags::INCOMPLETE))]), (1, 1, 1, true));
    let unknown = KeySpec { find: Find::Unknown, ..at(1, KeyFlags::RW) };
    assert_eq!(numbers(&[at(1, KeyFlags::RO), unknown]), (1, 1, 1, true));
}

#[test]
fn renamed_commands_answer_to_their_new_names_only() {
    let mut table = crate::rows().table;
    let count = table.top_level().len();
    let long = "b840fc02d524045429941cc15f59e41cb7be6c52";
    for (name, new_name) in
        [("config", long), ("get", "foo["), ("set", "FOO{"), ("debug", ""), ("ping", "get")]
    {
        assert_eq!(table.rename(name, new_name), Ok(()), "{name}");
    }
    let called = |name: &str| table.find(name.as_bytes()).map(|command| command.spec.name);
    assert_eq!(called(long), Some("config"));
    assert_eq!(called(&long.to_uppercase()), Some("config"));
    assert_eq!((called("foo["), called("foo{"), called("GET")), (Some("get"), Some("set"), Some("ping")));
    assert_eq!((called("config"), called("debug"), called("set"), called("ping")), (None, None, None, None));
    assert_eq!(table.top_level().len(), count - 1, "one command was removed");
    assert!(table.available().all(|command| command.full_name != "debug"));
    assert!(table.available().any(|command| command.full_name == "config|get"));
    assert_eq!(table.rename("debug", "x"), Err("No such command in rename-command"));
    assert_eq!(table.rename("echo", "GET"), Err("Target command name already exists"));
    // A freed name may be reused.
    assert_eq!((table.rename("GET", ""), table.rename("echo", "get")), (Ok(()), Ok(())));
}
