// SPDX-License-Identifier: BSD-3-Clause
//! Lua scripts: fixed texts with random keys and values, whose results are compared.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "scripts", weight: 10, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
8x (EVAL | EVAL_RO) {script} 2 {key} {key} {value} {int}
EVAL {script} 0
EVAL {script} {int} {key}
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
EVALSHA {value} 0
SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff {field}
SCRIPT LOAD {script}
SCRIPT FLUSH [SYNC | ASYNC | {field}]
SCRIPT KILL
FUNCTION LIST
FUNCTION KILL
FUNCTION STATS
FUNCTION FLUSH
FUNCTION LOAD [REPLACE] {library}
FUNCTION DELETE (lib | {field})
2x (FCALL | FCALL_RO) (put | take | {field}) 1 {key} {value}
";

/// Values of the slot `{script}`. Each script reads KEYS and ARGV that may be missing.
pub const SCRIPTS: &[&str] = &[
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('INCRBY', KEYS[1], ARGV[2])",
    "return redis.call('INCRBY', KEYS[1], ARGV[2])",
    "return {1, 2.9, 'three', true, false, {ok='fine'}, nil, 8}",
    "return {err='MY error'}",
    "return redis.error_reply('My error')",
    "return redis.status_reply('fine')",
    "return {double=3.5}",
    "return ARGV",
    "return #ARGV[1]",
    "return tonumber(ARGV[2])",
    "return KEYS[1] .. ':' .. (ARGV[1] or '')",
    "return redis.call('NOSUCH', KEYS[1])",
    "return redis.call('GET')",
    "return redis.call()",
    "redis.call('APPEND', KEYS[1], 'x'); return redis.call('STRLEN', KEYS[1])",
    "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('TYPE', KEYS[1]) else return false end",
    "return redis.call('MGET', KEYS[1], KEYS[2])",
    "redis.setresp(3); return redis.call('HGETALL', KEYS[1])",
    "return redis.call('LRANGE', KEYS[2], 0, -1)",
    "return redis.sha1hex(ARGV[1])",
    "return cjson.encode({a={1,2,3}, b='x'})",
    "return cjson.decode('[1,2,{\"k\":\"v\"}]')[3].k",
    "return cmsgpack.unpack(cmsgpack.pack({1,'two',3}))",
    "return bit.tohex(bit.band(255, 15))",
    "return struct.unpack('>I2', struct.pack('>I2', 513))",
    "return redis.REDIS_VERSION ~= nil",
    "error('thrown')",
    "error({err='thrown table'})",
    "return nosuchglobal",
    "newglobal = 1",
    "return syntax error here",
    "return string.rep('x', 100)",
    "return redis.call('MULTI')",
    "return redis.call('SUBSCRIBE', 'c')",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')",
    "#!lua\nreturn redis.call('GET', KEYS[1])",
    "#!nosuch\nreturn 1",
];

/// Values of the slot `{library}`.
pub const LIBRARIES: &[&str] = &[
    "#!lua name=lib\nredis.register_function('put', function(keys, args) return \
     redis.call('SET', keys[1], args[1]) end)",
    "#!lua name=lib\nredis.register_function{function_name='take', callback=function(keys, args) return \
     redis.call('GET', keys[1]) end, flags={'no-writes'}}",
    "#!lua name=lib\nreturn 1",
    "#!lua\nredis.register_function('put', 1)",
    "redis.register_function('put', function() end)",
    "#!lua name=lib\nredis.call('SET', 'a', 'b')",
];
