// SPDX-License-Identifier: BSD-3-Clause
//! Published escapes from the sandbox of Redis or Lua 5.1: each attempt must end in an error or
//! harmlessly.

use super::{Tester, check};

/// Runs a hostile script; the VM must still work afterwards.
#[track_caller]
fn survive(script: &str) -> String {
    let mut tester = Tester::new();
    tester.server.kill_after = Some(2000);
    let found = tester.run(script);
    tester.check("local t = {} for i = 1, 1000 do t[i] = tostring(i) end return #table.concat(t)", ":2893");
    found
}

#[test]
fn byte_code_is_not_loaded() {
    // Crafted bytecode can read and write any memory.
    let found = survive("return loadstring(string.dump(function() return 1 end))()");
    assert!(found.contains("attempt to call a nil value"), "{found}");
    check("local f, e = load(function() return '\\27Lua' end) return tostring(f)", "$3 nil");
    check(
        "local pieces = {'', '\\27Lua'} local f = load(function() return table.remove(pieces, 1) end) return type(f)",
        "$8 function",
    );
    let found = survive(
        "local d = string.dump(function() end) local i = 0 return load(function() i = i + 1 return d:sub(i, i) end)()",
    );
    assert!(found.starts_with('!'), "{found}");
}

#[test]
fn unpack_does_not_overflow() {
    // CVE-2025-46817.
    for range in [
        "-2147483648, 2147483647",
        "0, 2147483647",
        "1, 1e9",
        "-2147483648, 0",
        "2147483647, 2147483647",
        "1, 100000",
    ] {
        let found = survive(&format!("return {{pcall(unpack, {{1, 2, 3}}, {range})}}"));
        assert!(found.starts_with('*') || found.starts_with('!'), "{range}: {found}");
    }
    check("return {unpack({1, 2, 3}, 2, 3)}", "*2 :2 :3");
    check("return {unpack({1, 2, 3}, 3, 2)}", "*0");
    check("local a = {} for i = 1, 7990 do a[i] = i end return select('#', unpack(a))", ":7990");
}

#[test]
fn a_chunk_name_is_not_freed_while_parsing() {
    // CVE-2025-49844: the collector runs while the parser still holds the only reference to the
    // name.
    survive(
        "for i = 1, 200 do collectgarbage('setpause', 0) \
         local name = 'n' .. i .. string.rep('x', i) \
         pcall(loadstring, string.rep('local a = \"' .. i .. '\" ', 150) .. '=', name) name = nil \
         collectgarbage() end return 1",
    );
}

#[test]
fn long_brackets_do_not_overflow() {
    // CVE-2025-46819.
    let found = survive(
        "return tostring(loadstring('return [' .. string.rep('=', 20000) .. '[x]' .. string.rep('=', 20000) .. ']'))",
    );
    assert_eq!(found, "$3 nil");
    check("return loadstring('return [===[x]]]===]')()", "$3 x]]");
}

#[test]
fn metatables_of_basic_types_are_sealed() {
    // CVE-2022-24735, CVE-2025-46818: code planted there would run in other users' scripts.
    for value in ["''", "nil", "1", "true", "print_", "function() end", "coroutine.create(function() end)"] {
        let value = value.replace("print_", "redis.call");
        let found = survive(&format!(
            "local m = getmetatable({value}) if m then m.__call = function() return 'owned' end end return tostring(m)"
        ));
        assert!(found.contains("readonly") || found == "$3 nil", "{value}: {found}");
    }
}

#[test]
fn many_parameters_and_varargs_fit_the_stack() {
    // CVE-2014-5461.
    let names: Vec<String> = (1..=190).map(|i| format!("p{i}")).collect();
    let code = format!(
        "local function f({}, ...) return select('#', ...) end \
         local function g(n) if n == 0 then return f() end return g(n - 1) + 0 end \
         local out = 0 for n = 1, 150 do out = out + g(n) end return out",
        names.join(",")
    );
    assert_eq!(survive(&code), ":0");
}

#[test]
fn bit_to_hex_of_the_smallest_integer() {
    // CVE-2024-31449.
    check("return bit.tohex(65535, -2147483648)", "$8 0000FFFF");
    check("return bit.tohex(-1, 2147483647)", "$8 ffffffff");
    check("return bit.tohex(255, 0)", "$0");
    check("return bit.tohex(255, -4)", "$4 00FF");
}

#[test]
fn packing_does_not_overflow() {
    // CVE-2015-8080, CVE-2018-11218, CVE-2018-11219, CVE-2020-14147.
    for (script, part) in [
        ("struct.pack('>I2147483648', '10')", "integral size overflow"),
        ("struct.pack('I33', 1)", "integral size 33 is larger than limit of 32"),
        ("struct.unpack('I4294967296', 'xxxxxxxx')", "integral size overflow"),
        ("struct.unpack('c2147483647', 'x')", "data string too short"),
        ("struct.unpack('c0', 'x')", "format 'c0' needs a previous size"),
        ("struct.unpack('dc0', struct.pack('d', -1))", "data string too short"),
        ("struct.unpack('dc0', struct.pack('d', 1e300))", "data string too short"),
        ("struct.unpack('dc0', struct.pack('d', 0/0))", "data string too short"),
        ("struct.unpack('b', 'x', 9223372036854775807)", "data string too short"),
        ("struct.unpack('b', 'x', -1)", "offset must be 1 or greater"),
        ("struct.unpack('!16i', 'x', 2147483647)", "data string too short"),
        ("struct.pack('!3', 1)", "alignment 3 is not a power of 2"),
        ("struct.pack('!0', 1)", "alignment 0 is not a power of 2"),
        ("struct.unpack('s', 'abc')", "unfinished string in data"),
        ("struct.size('c2147483647c2147483647')", ""),
        ("cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes"),
        ("cmsgpack.unpack('\\223\\255\\255\\255\\255')", "Missing bytes"),
        ("cmsgpack.unpack('\\219\\255\\255\\255\\255x')", "Missing bytes"),
        ("cmsgpack.unpack(string.rep('\\145', 100000))", "too many"),
        ("cmsgpack.unpack(string.rep('\\129\\1', 100000))", "too many"),
        ("cmsgpack.unpack('\\129\\192\\1')", "Bad data format"),
        ("cmsgpack.unpack_limit('x', -1, 0)", "Invalid request"),
        ("cmsgpack.unpack_one('x', 5)", "Start offset 5 greater"),
        ("cmsgpack.unpack_one('x', -5)", "Invalid request"),
        ("cmsgpack.pack()", "needs input"),
        ("cjson.decode(string.rep('[', 100000))", "too many nested"),
        ("cjson.decode(string.rep('{\"a\":', 100000))", "too many nested"),
        ("cjson.decode_max_depth(2000000000) cjson.decode(string.rep('[', 100000))", "too many nested"),
        ("local t = {} t.t = t cjson.encode(t)", "excessive nesting"),
        ("cjson.encode_max_depth(2000000000) local t = {} t.t = t cjson.encode(t)", "excessive nesting"),
        ("cjson.encode({[1000000]=1})", "excessively sparse"),
        ("cjson.encode({[2^40]=1})", ""),
        ("cjson.decode('\"\\\\ud800\"')", "invalid unicode"),
        ("cjson.decode('\"\\\\u12\"')", "invalid unicode"),
        ("cjson.decode('\"abc')", "unexpected end of string"),
        ("cjson.decode('')", "Expected value but found T_END at character 1"),
    ] {
        let found = survive(script);
        assert!(found.contains(part), "{script}: {found}");
    }
}

#[test]
fn memory_is_bounded() {
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end",
        "local t = {} for i = 1, 1e8 do t[i] = 'aaaaaaaaaaaaaaaa' end return #table.concat(t)",
        "return string.format('%' .. string.rep('9', 50) .. 'd', 1)",
    ] {
        let found = survive(script);
        assert!(found.starts_with('!'), "{script}: {found}");
    }
    // Counts beyond an int become zero or too large, as C converts them, but never cause a crash.
    for count in ["2^31", "1e18", "-1", "0/0"] {
        survive(&format!("return #string.rep('x', {count})"));
    }
}

#[test]
fn recursion_is_bounded() {
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return tostring(f())",
        "local function f(e) error(e) end return tostring(xpcall(f, f))",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local s = string.rep('(', 10000) return tostring(loadstring(s))",
        "return tostring(loadstring('return ' .. string.rep('{', 10000)))",
        "return string.find(string.rep('a', 300000), string.rep('a?', 300000) .. 'b')",
        "return string.rep('a', 100):gsub('.', function(c) return c:rep(1000000) end)",
        "local co co = coroutine.wrap(function() return co() end) return co()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local a = {} local b = {a} a[1] = b return a",
        "return table.sort({3, 1, 2, 5, 4}, function() return true end)",
        "return tostring(setmetatable({}, {__tostring = function(t) return tostring(t) end}))",
    ] {
        survive(script);
    }
}

#[test]
fn finalizers_do_not_run() {
    let found =
        survive("local p = newproxy(true) getmetatable(p).__gc = function() redis.call('set', 'a', 'b') end");
    assert!(found.contains("newproxy"), "{found}");
    check(
        "local t = setmetatable({}, {__gc = function() error('x') end}) t = nil collectgarbage() return 1",
        ":1",
    );
}

#[test]
fn errors_in_odd_places() {
    for script in [
        "error(setmetatable({}, {__index = function() error('inner') end}))",
        "error(setmetatable({}, {__tostring = function() error('inner') end}))",
        "error(redis)",
        "error(_G)",
        "error({err = {}})",
        "error({err = 'a\\0b', line = {}, source = 1})",
        "return setmetatable({}, {__index = error})",
        "return xpcall(function() error('x') end, function() while true do end end)",
        "return {err = setmetatable({}, {})}",
        "return pcall(pcall)",
        "return pcall()",
        "return coroutine.yield(1)",
        "redis.log(redis.LOG_WARNING, {}, nil, print_)",
        "redis.call(unpack({}, 1, 5000))",
        "redis.pcall(setmetatable({}, {__tostring = function() return 'get' end}))",
        "return redis.sha1hex({})",
        "math.randomseed(0/0) return math.random(-2147483648, 2147483647)",
        "return math.random(2^53)",
        "return redis.setresp('x')",
        "return redis.set_repl({})",
        "for i = 1, 8000 do redis.pcall('echo', unpack({}, 1, i)) end",
        "collectgarbage('stop') collectgarbage('setstepmul', 0) collectgarbage('step', 2147483647)",
    ] {
        survive(script);
    }
}
