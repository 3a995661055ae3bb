// SPDX-License-Identifier: BSD-3-Clause
//! Tests of VMs with a host that knows a few commands.

mod attacks;
mod data;
mod sandbox;

use std::collections::HashMap;

use braid_resp::reply::{Protocol, ReplyBuffer};

use crate::{Called, Ended, Host, Level, LuaVm, Purpose, Verdict};

/// A server of four commands.
#[derive(Default)]
struct Server {
    values: HashMap<Vec<u8>, Vec<u8>>,
    logged: Vec<String>,
    interrupts: u32,
    kill_after: Option<u32>,
    abandon_on: Option<&'static str>,
}

impl Host for Server {
    fn call(&mut self, args: &[&[u8]], reply: &mut ReplyBuffer) -> Called {
        if self.abandon_on.is_some_and(|name| args[0] == name.as_bytes()) {
            return Called::Abandoned;
        }
        match (args[0], args) {
            (b"get", [_, key]) => match self.values.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"set", [_, key, value]) => {
                self.values.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            (b"fail", _) => reply.error("MYCODE it failed"),
            (b"echo", args) => {
                reply.array(args.len() - 1);
                args[1..].iter().for_each(|arg| reply.bulk(arg));
            }
            (b"raw", [_, bytes]) => reply.raw(bytes),
            _ => {
                reply.error("ERR Unknown Redis command called from script");
                return Called::Refused;
            }
        }
        Called::Replied
    }

    fn log(&mut self, _: Level, text: &[u8]) {
        self.logged.push(String::from_utf8_lossy(text).into_owned());
    }

    fn logs(&self, level: Level) -> bool {
        level != Level::Debug
    }

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        (args[0] == b"get").then_some(true)
    }

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        self.interrupts += 1;
        match self.kill_after {
            Some(after) if self.interrupts > after => Verdict::Kill,
            _ => Verdict::Continue,
        }
    }
}

struct Tester {
    vm: LuaVm,
    server: Server,
    protocol: Protocol,
}

impl Tester {
    fn new() -> Tester {
        Tester {
            vm: LuaVm::new(Purpose::Scripts, 64 << 20, "7.2.4"),
            server: Server::default(),
            protocol: Protocol::Resp2,
        }
    }

    /// Runs a script; returns the reply, or the error line after a `!`.
    fn run_with(&mut self, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> String {
        let function = match self.vm.compile(c"@user_script", script.as_bytes()) {
            Ok(function) => function,
            Err(message) => return format!("compile: {}", String::from_utf8_lossy(&message)),
        };
        let mut reply = ReplyBuffer::new(self.protocol);
        let ended = self.vm.run(function, "sha", keys, args, &mut self.server, &mut reply);
        self.vm.release(function);
        match ended {
            Ended::Replied(_) => String::from_utf8_lossy(reply.as_contiguous().expect("short replies"))
                .replace("\r\n", " ")
                .trim()
                .to_owned(),
            Ended::Failed { line, .. } => format!("!{}", String::from_utf8_lossy(&line)),
            Ended::Abandoned => "abandoned".to_owned(),
        }
    }

    fn run(&mut self, script: &str) -> String {
        self.run_with(script, &[], &[])
    }

    #[track_caller]
    fn check(&mut self, script: &str, expected: &str) {
        assert_eq!(self.run(script), expected, "{script}");
    }
}

#[track_caller]
fn check(script: &str, expected: &str) {
    Tester::new().check(script, expected);
}

#[test]
fn values_become_replies() {
    check("return 100.7", ":100");
    check("return -0.5", ":0");
    check("return 1/0", ":-9223372036854775808");
    check("return 'hello'", "$5 hello");
    check("return true", ":1");
    check("return false", "$-1");
    check("return nil", "$-1");
    check("return", "$-1");
    check("return {1,2,{3,'four'},nil,5}", "*3 :1 :2 *2 :3 $4 four");
    check("return {ok='fine\\n'}", "+fine");
    check("return {err='ERR bad'}", "-ERR bad");
    check("return {1, {err='ERR bad'}}", "*2 :1 -ERR bad");
    check("return {double=3.5}", "$3 3.5");
    check("return {big_number='123\\r\\n4'}", "$6 123  4");
    check("return {map={a=1}}", "*2 $1 a :1");
    check("return {set={a=true}}", "*1 $1 a");
    check("return {verbatim_string={format='txt',string='hi'}}", "$2 hi");
    check("return {verbatim_string={}}", "*0");
    check("return function() end", "$-1");
    check("return _G", "*0");
    check("return setmetatable({}, {__index=function() error('never') end})", "*0");
}

/// CVE-2021-32626. Nesting does not use up the thread's stack: the depth that Lua's stack allows
/// once nearly did.
#[test]
fn deeply_nested_values_take_no_room_on_the_stack() {
    let deep = || {
        // As many levels as Redis 7 allows.
        for (nest, levels) in [("{t}", 7995), ("{map={a=t}}", 2665), ("{set={[t]=1}}", 2665)] {
            let script = format!("local t = {{}} for i = 1, 100000 do t = {nest} end return t");
            let reply = Tester::new().run(&script);
            assert!(reply.ends_with("-ERR reached lua stack limit"), "{nest}");
            assert_eq!(reply.matches('*').count(), levels, "{nest}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(deep).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn values_become_resp3_replies() {
    let mut tester = Tester::new();
    tester.protocol = Protocol::Resp3;
    tester.check("return true", ":1");
    tester.check("redis.setresp(3) return true", "#t");
    tester.check("return {double=3.5}", ",3.5");
    tester.check("return {map={a=1}}", "%1 $1 a :1");
    tester.check("return {set={a=true}}", "~1 $1 a");
    tester.check("return {big_number='123'}", "(123");
    tester.check("return {verbatim_string={format='txt',string='hi'}}", "=6 txt:hi");
    tester.check("return nil", "_");
}

#[test]
fn replies_become_values() {
    let raw = |reply: &str, code: &str| format!("local v = redis.pcall('raw', '{reply}') return {code}");
    for (reply, code, expected) in [
        (r":42\r\n", "type(v) .. v", "$8 number42"),
        (r"$3\r\nabc\r\n", "type(v) .. v", "$9 stringabc"),
        (r"+OK\r\n", "v.ok", "$2 OK"),
        (r"-CODE text\r\n", "v.err", "$9 CODE text"),
        (r"-LONELY\r\n", "v.err", "$10 ERR LONELY"),
        (r"$-1\r\n", "tostring(v)", "$5 false"),
        (r"*-1\r\n", "tostring(v)", "$5 false"),
        (r"_\r\n", "tostring(v)", "$3 nil"),
        (r"*3\r\n:1\r\n$-1\r\n:3\r\n", "{#v, tostring(v[2]), v[3]}", "*3 :3 $5 false :3"),
        (r"%1\r\n$1\r\na\r\n:1\r\n", "v.map.a", ":1"),
        (r"~2\r\n$1\r\na\r\n$1\r\nb\r\n", "tostring(v.set.b)", "$4 true"),
        (r",3.5\r\n", "tostring(v.double)", "$3 3.5"),
        (r"(123\r\n", "v.big_number", "$3 123"),
        (r"=6\r\ntxt:hi\r\n", "v.verbatim_string.format .. v.verbatim_string.string", "$5 txthi"),
        (r"#t\r\n", "tostring(v)", "$4 true"),
        (r"|1\r\n+k\r\n+v\r\n:7\r\n", "v", ":7"),
        (r"%1\r\n_\r\n:1\r\n", "tostring(next(v.map))", "$3 nil"),
    ] {
        check(&raw(reply, code), expected);
    }
}

#[test]
fn commands_are_called() {
    let mut tester = Tester::new();
    assert_eq!(tester.run_with("return redis.call('set', KEYS[1], ARGV[1])", &[b"k"], &[b"v"]), "+OK");
    tester.check("return redis.call('get', 'k')", "$1 v");
    tester.check("return redis.call('get', 'other')", "$-1");
    tester.check(
        "return redis.call('echo', 1, 2.5, 1e20, 0, -3, 100000000, 9007199254740991)",
        "*7 $1 1 $3 2.5 $5 1e+20 $1 0 $2 -3 $9 100000000 $16 9007199254740991",
    );
    tester.check("return redis.pcall('fail')", "-MYCODE it failed");
    tester.check("return redis.call('fail')", "!MYCODE it failed script: sha, on @user_script:1.");
    tester.check(
        "\n\nredis.call('nosuch')",
        "!ERR Unknown Redis command called from script script: sha, on @user_script:3.",
    );
    tester.check(
        "return redis.call()",
        "!ERR Please specify at least one argument for this redis lib call script: sha, on @user_script:1.",
    );
    tester.check(
        "return redis.pcall('get', {})",
        "-ERR Lua redis lib command arguments must be strings or integers",
    );
    tester.check("return {pcall(redis.call, 'fail')}", "*2 $-1 $16 MYCODE it failed");
    tester.check("local ok, e = pcall(redis.call, 'fail') return e", "$16 MYCODE it failed");
    tester.check("local ok, e = pcall(error, {err='x'}) return e", "$1 x");
    tester
        .check("local co = coroutine.wrap(function() return redis.call('get', 'k') end) return co()", "$1 v");
}

#[test]
fn the_redis_table() {
    let mut tester = Tester::new();
    tester.check("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709");
    tester.check("return redis.sha1hex()", "!ERR wrong number of arguments script: sha, on @user_script:1.");
    tester.check("return redis.error_reply('MY err')", "-MY err");
    tester.check("return redis.error_reply('-MY err\\n')", "-MY err");
    tester.check("return redis.error_reply('')", "-ERR");
    tester.check("return redis.error_reply({})", "-ERR wrong number or type of arguments");
    tester.check("return redis.status_reply('fine')", "+fine");
    tester.check("redis.log(redis.LOG_WARNING, 'a', 1, 'b') redis.log(redis.LOG_DEBUG, 'not this')", "$-1");
    assert_eq!(tester.server.logged, ["a 1 b"]);
    tester.check("redis.log(10, 'x')", "!ERR Invalid debug level. script: sha, on @user_script:1.");
    tester.check("return redis.REDIS_VERSION .. redis.REDIS_VERSION_NUM", "$11 7.2.4459268");
    tester.check("redis.set_repl(7)", "!ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. script: sha, on @user_script:1.");
    tester.check("return redis.REPL_ALL", ":3");
    tester.check("return redis.acl_check_cmd('get', 'x')", ":1");
    tester.check(
        "return redis.acl_check_cmd('nosuch')",
        "!ERR Invalid command passed to redis.acl_check_cmd() script: sha, on @user_script:1.",
    );
    tester.check("redis.setresp(4)", "!ERR RESP version must be 2 or 3. script: sha, on @user_script:1.");
    tester.check("return redis.breakpoint()", "$-1");
    tester.check("return redis.replicate_commands()", ":1");
}

#[test]
fn errors_have_their_place() {
    check("\nerror('boom')", "!ERR user_script:2: boom script: sha, on @user_script:2.");
    check(
        "local t = nil; return t.x",
        "!ERR user_script:1: attempt to index local 't' (a nil value) script: sha, on @user_script:1.",
    );
    check(
        "return nosuch",
        "!ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch' script: sha, on @user_script:1.",
    );
    check("error({err='MY own'})", "!MY own script: sha, on @user_script:1.");
    check("error()", "!ERR nil script: sha, on @user_script:1.");
    check("return )", "compile: user_script:1: unexpected symbol near ')'");
    check(
        "string.rep()",
        "!ERR user_script:1: bad argument #1 to 'rep' (string expected, got no value) script: sha, on @user_script:1.",
    );
}

#[test]
fn a_script_can_be_ended() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'get', 'k') end",
        "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
    ] {
        let mut tester = Tester::new();
        tester.server.kill_after = Some(1);
        let found = tester.run(script);
        assert!(found.contains("Script killed by user with SCRIPT KILL..."), "{script}: {found}");
        tester.server.kill_after = None;
        tester.check("return 1", ":1");
    }
}

#[test]
fn a_run_can_be_abandoned() {
    for script in [
        "redis.call('undeclared')",
        "pcall(redis.call, 'undeclared') return 1",
        "while true do pcall(redis.call, 'undeclared') end",
        "local co = coroutine.wrap(function() redis.call('undeclared') end) pcall(co) while true do pcall(co) redis.pcall('set', 'a', 'b') end",
    ] {
        let mut tester = Tester::new();
        tester.server.abandon_on = Some("undeclared");
        tester.check(script, "abandoned");
        assert!(tester.server.values.is_empty());
        tester.check("return 1", ":1");
    }
}
