// SPDX-License-Identifier: BSD-3-Clause
//! Key analysis of scripts, with the real command table.

use braid_scripting::key_analysis::{Reach, reach};

use crate::testing::Tester;

#[test]
fn provably_bounded_scripts_are_recognized() {
    let tester = Tester::new();
    for script in [
        "return 1",
        "return redis.call('get', KEYS[1])",
        "return redis.call(\"SET\", KEYS[1], ARGV[1], 'PX', ARGV[2])",
        "local key = KEYS[1]; redis.call('incr', key) return redis.call('get', key)",
        "local a, b = KEYS[1], KEYS[2]\nredis.call('rename', a, b)",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "for i = 1, #KEYS do redis.call('del', KEYS[i]) end",
        "redis.call('del', KEYS[1], KEYS[2]) return redis.call('mget', KEYS[2])",
        "redis.call('rpush', KEYS[1], unpack(ARGV))",
        "-- KEYS _G load\n--[[ redis ]] return redis.call('ping', [==[ redis.call ]==])",
        "local function f(x) return redis.pcall('hincrby', KEYS[1], x, 1) end return f('a')",
        "local t = redis.call('time') redis.log(redis.LOG_NOTICE, t[1]) return redis.sha1hex(t[1])",
        "return redis.error_reply('x')",
        "local n = tonumber(redis.call('zcard', KEYS[1])) redis.call('zadd', KEYS[1], n, cjson.encode({KEYS[1]}))",
        "local x = 1 x = x + 1 redis.call('set', KEYS[1], x)",
        "return server.call('get', KEYS[1])",
    ] {
        assert_ne!(reach(&tester.engine.commands, script.as_bytes()), Reach::Anything, "{script}");
    }
}

#[test]
fn scripts_without_calls_reach_nothing() {
    let tester = Tester::new();
    for script in [
        "return 1",
        "while true do end",
        "KEYS[1] = 'x' return KEYS",
        "local t = {redis = 1} return t.server",
    ] {
        let expected = if script.contains("{redis") { Reach::Anything } else { Reach::Nothing };
        assert_eq!(reach(&tester.engine.commands, script.as_bytes()), expected, "{script}");
    }
    for script in ["return redis.sha1hex('x')", "return server.call('get', KEYS[1])"] {
        assert_eq!(reach(&tester.engine.commands, script.as_bytes()), Reach::DeclaredKeys, "{script}");
    }
}

#[test]
fn unprovable_scripts_may_reach_anything() {
    let tester = Tester::new();
    for script in [
        "return redis.call('get', 'x')",
        "return redis.call('get', KEYS[1] .. 'x')",
        "return redis.call('get', (KEYS[1]))",
        "return redis.call('get', ARGV[1])",
        "return redis.call('mset', KEYS[1], 1)",
        "return redis.call('del', KEYS[1], 'x')",
        "return redis.call('del', KEYS[1], unpack(KEYS))",
        "return redis.call(ARGV[1], KEYS[1])",
        "return redis.call('get' .. '', KEYS[1])",
        "return redis.call('keys', '*')",
        "return redis.call('dbsize')",
        "return redis.call('flushall')",
        "return redis.call('publish', KEYS[1], 1)",
        "return redis.call('config', 'get', 'x')",
        "return redis.call('sort', KEYS[1], 'by', 'w_*')",
        "return redis.call('nosuch', KEYS[1])",
        "return redis.call 'ping'",
        "local call = redis.call return call('get', 'x')",
        "return redis['call']('get', 'x')",
        "local r = redis return r.call('get', 'x')",
        "KEYS[1] = 'x' return redis.call('get', KEYS[1])",
        "KEYS[1], x = 'x', redis.call('get', KEYS[1])",
        "local t = {} KEYS[1], t.x = 'x', 1 redis.call('get', KEYS[1])",
        "local function f() return {} end KEYS[1], f().x = 'x', 1 redis.call('get', KEYS[1])",
        "local t = {} t.x, KEYS[1] = 1, 'x' redis.call('get', KEYS[1])",
        "table.insert(KEYS, 1, 'x') return redis.call('get', KEYS[1])",
        "for _, key in ipairs(KEYS) do redis.call('get', key) end",
        "local key = KEYS[1] key = 'x' return redis.call('get', key)",
        "local key = KEYS[1] local function f() return {} end key, f().x = 'y', 1 return redis.call('get', key)",
        "local key = KEYS[1] .. 'x' return redis.call('get', key)",
        "local key = KEYS[1] or 'x' return redis.call('get', key)",
        "local key = 'x' return redis.call('get', key)",
        "local key = KEYS[1] local key = 'x' return redis.call('get', key)",
        "local key = KEYS[1] local function f(key) return redis.call('get', key) end return f('x')",
        "local key = KEYS[1] for key = 1, 2 do redis.call('get', key) end",
        "local key = KEYS[1] for i, key in pairs({'x'}) do redis.call('get', key) end",
        "local a, b = KEYS[1] return redis.call('get', b)",
        "local key = KEYS[1]\n.x return redis.call('get', key)",
        "local key = KEYS[1]\n('x') return redis.call('get', key)",
        "_G.redis.call('get', 'x')",
        "getfenv(1)['re' .. 'dis'].call('get', 'x')",
        "setfenv(1, {})",
        "loadstring('redis.call(1)')()",
        "redis.call('get', KEYS[1]",
        "return 'unfinished",
        "--[[ unfinished",
        "return server.call('get', 'x')",
        "local s = server return s.call('get', 'x')",
        "redis.call('get', KEYS[1]) server.call('get', 'x')",
        "redis.call('set', KEYS[1], 1) while true do end",
        "repeat redis.call('incr', KEYS[1]) until false",
        "\0",
    ] {
        assert_eq!(reach(&tester.engine.commands, script.as_bytes()), Reach::Anything, "{script}");
    }
}
