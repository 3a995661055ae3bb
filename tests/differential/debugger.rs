// SPDX-License-Identifier: BSD-3-Clause
//! The script debugger: sessions on the server under test and on a stock server have the same
//! output, byte for byte, except for addresses.

use std::time::Duration;

use braid_tests::server::{Peer, newer_peers, stock};
use braid_tests::{RawClient, TestServer};

/// A session: its name, the script, and the developer's commands, one per line. The first key and
/// argument are `k` and `val`.
struct Session {
    name: &'static str,
    script: &'static str,
    commands: &'static str,
}

const SESSIONS: &[Session] = &[
    Session {
        name: "all commands",
        script: r#"local a = 1
local t = {1,2,'x',{k='v',n=nil},true}
local s = 'he"llo\n'
local function f(x)
  local y = x + 1
  redis.debug('in f', y, t)
  return y
end
local z = f(3)
redis.call('set', KEYS[1], ARGV[1])
redis.breakpoint()
redis.pcall('incr', KEYS[1])
local g = redis.call('lrange', 'nosuch', 0, -1)
for i = 1, 3 do
  a = a + i
end
return {a, z}"#,
        commands: "help
            list
            list 3 1
            l 0 2
            L 99
            whole
            print
            p a
            p KEYS
            p ARGV
            break
            break 15 14 15
            b 99
            b x
            b 5
            b
            b -5 -77 -9223372036854775808
            s
            p t
            n
            p
            next
            NEXT
            p y
            t
            e 1+1
            e x = 1
            e local q = 5
            e error('boo')
            eval return redis.call('ping')
            e {1,2,{3}}
            e syntax error here
            r ping
            redis get nosuch
            r lpush l 1 2 3
            r lrange l 0 -1
            r set
            r echo a b c d e f g h i j k l
            r
            foo
            maxlen
            m 5
            m 100
            r set big xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            r get big
            m 0
            r get big
            c
            p
            s
            s
            s
            c
            p a
            p
            c
            b 0
            b
            c",
    },
    Session {
        name: "functions",
        script: "local function outer(n)\n local function inner(m)\n  return m * 2\n end\n local r = inner(n)\n return r\nend\n\
                 local x = outer(4)\nreturn x",
        commands: "b 3\nc\nt\np\np n\np m\np x\ns\nt\ns\ns\nc",
    },
    Session {
        name: "values",
        script: "local n = -0.5e-7\nlocal big = 123456789012\nlocal inf = 1/0\nlocal e = {}\nlocal bin = '\\0\\1\\255\\t\\\\'\n\
                 local nest={{{{{{{{{{{{1}}}}}}}}}}}}\nlocal st = redis.status_reply('x')\nlocal m = {[1]=1,[3]=3,[true]=false}\n\
                 return 1",
        commands: "b 9\nc\np\np nest\nc",
    },
    Session { name: "an error", script: "local a = 1\nerror('bad')\nreturn 1", commands: "s\ns" },
    Session { name: "abort", script: "local a = 1\nlocal b = 2\nreturn 1", commands: "s\na" },
    Session { name: "no Lua", script: "local a = = 1", commands: "" },
    Session { name: "empty lines", script: "return {1,{2,3},'x'}\n\r\n\n", commands: "w\ns" },
    Session { name: "a written key", script: "return redis.call('set','a','b')", commands: "s" },
    Session { name: "an unknown command", script: "return redis.call('nosuch','a','b')", commands: "s" },
    Session {
        name: "errors of commands",
        script: "redis.pcall('lpush','a')\nredis.pcall()\nredis.pcall({})\nreturn redis.pcall('lpush','str','b')",
        commands: "r set str x\ns\ns\ns\ns",
    },
    Session {
        name: "RESP3",
        script: "redis.setresp(3)\nlocal m = redis.call('hgetall','h')\nlocal s = redis.call('smembers','s')\n\
                 local d=redis.call('zscore','z','a')\nreturn 1",
        commands: "r hset h a 1\nr sadd s 1\nr zadd z 1.5 a\ns\ns\ns\nr get nosuch\ns\ns",
    },
    Session {
        name: "flags",
        script: "#!lua flags=no-writes\nlocal a = 1\nreturn redis.call('set','x','y')",
        commands: "w\ns\ns",
    },
    Session {
        name: "a loop",
        script: "local i = 0\nwhile i < 5 do i = i + 1 end\nreturn i",
        commands: "s\ns\ns\np\nb 3\nc\ns",
    },
    Session {
        name: "breakpoints in the script",
        script: "local x = 1\nredis.breakpoint() local y = 2\nlocal z = 3\nreturn redis.breakpoint()",
        commands: "c\nc",
    },
];

/// Everything that a server sends in a session.
fn output(server: &TestServer, session: &Session, mode: &str) -> Vec<String> {
    let mut client = server.connect();
    client.set_patience(Duration::from_secs(10)).expect("an option");
    assert_eq!(client.call(&format!("SCRIPT DEBUG {mode}")).text(), "OK");
    let mut lines = Vec::new();
    let read = |client: &mut RawClient| match client.try_read_raw() {
        Ok((_, bytes)) => without_addresses(&String::from_utf8_lossy(&bytes)),
        Err(_) => "the end".to_owned(),
    };
    client.send(&braid_tests::words::encode(&["EVAL", session.script, "1", "k", "val"]));
    lines.push(read(&mut client));
    for command in session.commands.lines() {
        let words: Vec<&str> = command.split_whitespace().collect();
        client.send(&braid_tests::words::encode(&words));
        lines.push(format!("{command} -> {}", read(&mut client)));
    }
    // The script's reply, or the last output and the reply.
    while lines.last().is_some_and(|last| last != "the end") {
        lines.push(read(&mut client));
    }
    let mut other = server.connect();
    for key in ["k", "a", "str", "x", "big"] {
        lines.push(other.call(&format!("GET {key}")).to_string());
    }
    lines
}

fn without_addresses(text: &str) -> String {
    let mut parts = text.split("@0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("@address");
        out.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    out
}

#[test]
fn debugging_sessions_have_the_same_output() {
    let mut peers: Vec<Peer> = stock().into_iter().collect();
    // Valkey 9 shows values and replies in another form.
    peers.extend(newer_peers().into_iter().filter(|peer| peer.version.starts_with("redis")));
    if peers.is_empty() {
        println!("skipped, no stock server");
        return;
    }
    for peer in &peers {
        let (ours, theirs) = (TestServer::start(&[]), TestServer::start_program(&peer.program, &[]));
        for mode in ["sync", "yes"] {
            for session in SESSIONS {
                let (found, expected) = (output(&ours, session, mode), output(&theirs, session, mode));
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found, expected, "{}: {mode}, {}", peer.version, session.name);
                }
                assert_eq!(found.len(), expected.len(), "{}: {mode}, {}", peer.version, session.name);
                for server in [&ours, &theirs] {
                    server.connect().ok("FLUSHALL");
                }
            }
        }
    }
}
