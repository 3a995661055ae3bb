// SPDX-License-Identifier: BSD-3-Clause
//! Contents of the sandbox.

use super::{Tester, check};

const READ_ONLY: &str = "Attempt to modify a readonly table";

#[test]
fn shared_tables_cannot_be_changed() {
    let mut tester = Tester::new();
    for attempt in [
        "a = 10",
        "redis = 1",
        "_G = {}",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = {}",
        "rawset(_G, 'a', 1)",
        "redis.call = 1",
        "rawset(redis, 'call', 1)",
        "table.insert(redis, 1)",
        "cjson.encode = 1",
        "cmsgpack.pack = 1",
        "bit.lshift = 1",
        "struct.pack = 1",
        "string.rep = 1",
        "math.random = 1",
        "table.insert = 1",
        "os.clock = 1",
        "getmetatable('').__index = 1",
        "getmetatable('').__index.rep = 1",
        "getmetatable('').__add = function() end",
        "setmetatable(string, {})",
        "coroutine.create = 1",
        "_G._G.x = 1",
        "local e = getfenv(0); e.x = 1",
        "getfenv(1).x = 1",
        "getfenv(pcall).x = 1",
    ] {
        let found = tester.run(attempt);
        assert!(found.contains(READ_ONLY), "{attempt}: {found}");
    }
    tester.check("return ('abc').rep('x', 3)", "$3 xxx");
}

#[test]
fn sandbox_lacks_unsafe_functions() {
    let mut tester = Tester::new();
    for name in [
        "dofile",
        "loadfile",
        "print",
        "newproxy",
        "require",
        "module",
        "package",
        "io",
        "debug",
        "load_file",
        "KEYS2",
        "os.execute",
        "os.exit",
        "os.getenv",
        "os.remove",
        "os.tmpname",
        "os.time",
        "io.open",
    ] {
        let found = tester.run(&format!("return {name}()"));
        let refused =
            found.contains("nonexistent global variable") || found.contains("attempt to call field");
        assert!(refused, "{name}: {found}");
    }
    tester.check("return type(os.clock())", "$6 number");
    tester.check("local n = 0 for name in pairs(os) do n = n + 1 end return n", ":1");
}

#[test]
fn nothing_is_carried_over_to_the_next_script() {
    let mut tester = Tester::new();
    tester.run("setfenv(1, {})");
    tester.check("return type(redis)", "$5 table");
    tester.run("setfenv(0, {redis=1})");
    tester.check("return type(redis.call)", "$8 function");
    tester.run("KEYS[1] = 'x' ARGV.y = 1");
    tester.check("return {#KEYS, tostring(ARGV.y)}", "*2 :0 $3 nil");
    tester.run("cjson.encode_max_depth(1)");
    tester.check("return cjson.encode({{{}}})", "$6 [[{}]]");
    tester.run("local function f() end debug = f");
    tester.run("pcall(function() math.floor = nil end)");
    tester.check("return math.floor(1.5)", ":1");
}

#[test]
fn numbers_are_random_unless_seeded() {
    let mut tester = Tester::new();
    let one = tester.run("return tostring(math.random())");
    assert_ne!(one, tester.run("return tostring(math.random())"));
    let seeded = "math.randomseed(10) return tostring(math.random()) .. math.random(5) .. math.random(2, 9)";
    assert_eq!(tester.run(seeded), tester.run(seeded));
    check(
        "return math.random(0)",
        "!ERR user_script:1: bad argument #1 to 'random' (interval is empty) script: sha, on @user_script:1.",
    );
}
