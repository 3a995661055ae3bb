// SPDX-License-Identifier: BSD-3-Clause
//! Published vulnerabilities of Redis, tried on a whole server: none may cause more than an
//! error. Those of the scripting language are also tried one by one in its crate.

use std::time::{Duration, Instant};

use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, request, wait_for_within, words};

/// How a request must end.
enum End {
    /// With an error that contains this text.
    Error(&'static str),
    /// With this reply, as text.
    Reply(&'static str),
    /// With any reply, or none.
    Any,
}

use End::{Any, Error, Reply};

mod connections;
mod payloads;

/// A published vulnerability, and requests that demonstrate it.
struct Advisory {
    name: &'static str,
    requests: &'static [(&'static str, End)],
}

const ADVISORIES: &[Advisory] = &[
    Advisory {
        name: "CVE-2015-4335, byte code",
        requests: &[
            (
                "EVAL \"return loadstring(string.dump(function() return 1 end))()\" 0",
                Error("attempt to call"),
            ),
            ("EVAL \"return tostring(loadstring('\\\\27Lua\\\\81'))\" 0", Reply("nil")),
            (
                "SCRIPT LOAD \"\\x1bLuaQ\\x00\\x01\\x04\\x08\\x04\\x08\\x00\"",
                Error("ERR Error compiling script"),
            ),
        ],
    },
    Advisory {
        name: "CVE-2015-8080, CVE-2018-11219, CVE-2020-14147, struct",
        requests: &[
            ("EVAL \"return struct.pack('>I2147483648', '10')\" 0", Error("integral size overflow")),
            ("EVAL \"return struct.unpack('dc0', struct.pack('d', -1))\" 0", Error("too short")),
        ],
    },
    Advisory {
        name: "CVE-2016-8339, classes of clients by number",
        requests: &[
            ("CONFIG SET client-output-buffer-limit \"3 67108864 0 0\"", Error("ERR")),
            ("CONFIG SET client-output-buffer-limit \"-1 1 1 1\"", Error("ERR")),
            ("CONFIG SET client-output-buffer-limit \"master 1 1 1\"", Error("ERR")),
            ("CONFIG SET client-output-buffer-limit \"normal 1 1\"", Error("ERR")),
        ],
    },
    Advisory {
        name: "CVE-2018-11218, cmsgpack",
        requests: &[
            ("EVAL \"return cmsgpack.unpack(string.rep('\\\\145', 100000))\" 0", Error("too many")),
            ("EVAL \"local t = {} for i = 1, 20000 do t = {t} end return #cmsgpack.pack(t)\" 0", Any),
        ],
    },
    Advisory {
        name: "CVE-2018-12453, stream commands on other types",
        requests: &[
            ("SET text 1", Any),
            ("XGROUP CREATE text g $", Error("WRONGTYPE")),
            ("XREADGROUP GROUP g c STREAMS text >", Error("WRONGTYPE")),
            ("XAUTOCLAIM text g c 0 0", Error("WRONGTYPE")),
        ],
    },
    Advisory {
        name: "CVE-2019-10192, CVE-2019-10193, CVE-2025-32023, HyperLogLog",
        requests: &[
            // Runs longer than the number of registers, and runs that end in the middle.
            (
                "SET hll \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xff\\x7f\\xff\\x7f\\xff\"",
                Any,
            ),
            ("PFCOUNT hll", Error("INVALIDOBJ")),
            ("PFADD hll a b c", Any),
            ("PFMERGE other hll", Error("INVALIDOBJ")),
            ("SET hll \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\"", Any),
            ("PFCOUNT hll", Error("INVALIDOBJ")),
            ("PFADD hll a b c", Any),
            ("PFDEBUG GETREG hll", Error("INVALIDOBJ")),
            ("SET hll \"HYLL\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\"", Any),
            ("PFCOUNT hll", Error("WRONGTYPE")),
        ],
    },
    Advisory {
        name: "CVE-2021-21309, CVE-2021-32627, CVE-2021-41099, sizes above any limit",
        requests: &[
            ("CONFIG SET proto-max-bulk-len 9223372036854775807", Any),
            ("SETRANGE far 9223372036854775800 x", Error("ERR")),
            ("SETRANGE far 9223372036854775807 xx", Error("ERR")),
            ("SETBIT far 9223372036854775807 1", Error("ERR")),
            ("BITFIELD far SET u1 9223372036854775807 1", Error("ERR")),
            ("EXISTS far", Reply("0")),
            ("CONFIG SET proto-max-bulk-len 536870912", Any),
        ],
    },
    Advisory {
        name: "CVE-2021-29477, CVE-2021-32625, LCS",
        requests: &[
            ("SETRANGE one 69999 x", Any),
            ("SETRANGE two 69999 y", Any),
            ("LCS one two IDX MINMATCHLEN -9223372036854775808", Any),
            ("LCS one two LEN IDX", Error("ERR If you want both")),
        ],
    },
    Advisory {
        name: "CVE-2021-29478, CVE-2021-32628, CVE-2021-32687, sizes of packed forms",
        requests: &[
            ("CONFIG SET set-max-intset-entries 4294967295 hash-max-listpack-value 1073741824", Any),
            ("SADD numbers 1 9223372036854775807 -9223372036854775808", Reply("3")),
            ("COPY numbers copied", Reply("1")),
            ("SCARD copied", Reply("3")),
            ("CONFIG SET set-max-intset-entries 512 hash-max-listpack-value 64", Any),
        ],
    },
    Advisory {
        name: "CVE-2021-32626, the script's stack",
        requests: &[
            ("EVAL \"local t = {} for i = 1, 60 do t = {t} end return t\" 0", Any),
            ("EVAL \"return redis.call(unpack({'ping'}, 1, 7999))\" 0", Any),
            (
                "EVAL \"local function f(n) if n == 0 then return redis.call('ping') end return (f(n - 1)) end return f(190)\" 0",
                Any,
            ),
            (
                "EVAL \"return #cjson.encode(cjson.decode(string.rep('[', 900) .. string.rep(']', 900)))\" 0",
                Any,
            ),
        ],
    },
    Advisory {
        name: "CVE-2021-32672, the script debugger",
        requests: &[("SCRIPT DEBUG YES", Any), ("EVAL \"return 1\" 0", Any), ("SCRIPT DEBUG NO", Any)],
    },
    Advisory {
        name: "CVE-2021-32761, CVE-2022-35977, offsets",
        requests: &[
            ("SETBIT bits 34359738368 1", Error("out of range")),
            ("BITFIELD bits SET u8 #9223372036854775807 1", Error("out of range")),
            ("BITFIELD bits GET i64 9223372036854775807", Error("out of range")),
            ("BITPOS bits 1 -9223372036854775808 9223372036854775807 BIT", Any),
            ("SETRANGE far 9223372036854775807 x", Error("maximum allowed size")),
            ("SETRANGE far 536870912 x", Error("maximum allowed size")),
            ("GETRANGE text -9223372036854775808 9223372036854775807", Reply("1")),
            ("RPUSH list 1 2", Any),
            ("SORT list LIMIT 9223372036854775807 9223372036854775807", Reply("[]")),
            ("SORT list LIMIT -9223372036854775808 9223372036854775807", Any),
            ("LRANGE list -9223372036854775808 9223372036854775807", Any),
            ("LPOS list 1 RANK -9223372036854775808", Error("ERR")),
        ],
    },
    Advisory {
        name: "CVE-2022-0543, libraries of the system",
        requests: &[
            (
                "EVAL \"return package.loadlib('libc.so.6', 'system')\" 0",
                Error("nonexistent global variable"),
            ),
            ("EVAL \"return require('os')\" 0", Error("nonexistent global variable")),
            ("EVAL \"return os.execute('id')\" 0", Error("attempt to call")),
            ("EVAL \"return io.popen('id')\" 0", Error("nonexistent global variable")),
            ("EVAL \"return debug.getregistry()\" 0", Error("nonexistent global variable")),
        ],
    },
    Advisory {
        name: "CVE-2022-24735, CVE-2025-46818, code left for other users' scripts",
        requests: &[
            (
                "EVAL \"getmetatable('').__index = function() return redis.call('flushall') end\" 0",
                Error("readonly"),
            ),
            ("EVAL \"function redis.call() end\" 0", Error("readonly")),
            ("EVAL \"rawset(_G, 'KEYS', 1) setmetatable(_G, {})\" 0", Error("readonly")),
            ("EVAL \"getmetatable(nil).__index = 1\" 0", Error("ERR")),
            ("EVAL \"string.format = redis.call\" 0", Error("readonly")),
            ("FUNCTION LOAD \"#!lua name=l\\nfunction redis.call() end\"", Error("readonly")),
        ],
    },
    Advisory {
        name: "CVE-2022-24736, errors without a text",
        requests: &[
            ("EVAL \"error()\" 0", Error("ERR")),
            ("EVAL \"error(nil)\" 0", Error("ERR")),
            ("EVAL \"error({})\" 0", Error("ERR")),
            ("EVAL \"error({err = false})\" 0", Error("ERR")),
            ("EVAL \"error(function() end)\" 0", Error("ERR")),
            ("EVAL \"\" 0", Any),
            ("SCRIPT LOAD \"\\xff\\x00\"", Error("ERR Error compiling script")),
        ],
    },
    Advisory {
        name: "CVE-2022-24834, cjson and cmsgpack output longer than estimated",
        requests: &[
            // Each byte becomes six.
            ("EVAL \"return #cjson.encode(string.rep('\\\\1', 4000000))\" 0", Reply("24000002")),
            (
                "EVAL \"return #cjson.encode({string.rep('\\\\1', 1365), string.rep('/', 4095)})\" 0",
                Reply("16387"),
            ),
            ("EVAL \"return #cmsgpack.pack(string.rep('x', 5000000))\" 0", Reply("5000005")),
            (
                "EVAL \"local t = {} for i = 1, 70000 do t[i] = string.rep('x', i % 300) end return #cmsgpack.unpack(cmsgpack.pack(t))\" 0",
                Reply("70000"),
            ),
            // More than a script's memory limit.
            ("CONFIG SET lua-memory 67108864", Any),
            (
                "EVAL \"local s = string.rep('\\\\1', 8388608) return #cjson.encode({s, s, s, s, s, s, s, s})\" 0",
                Error("not enough memory"),
            ),
            (
                "EVAL \"local s = string.rep('x', 8388608) return #cmsgpack.pack({s, s, s, s, s, s, s, s, s, s})\" 0",
                Error("not enough memory"),
            ),
            ("CONFIG SET lua-memory 1073741824", Any),
        ],
    },
    Advisory {
        name: "CVE-2022-31144, CVE-2022-33105, CVE-2022-35951, XAUTOCLAIM",
        requests: &[
            ("XADD stream 1-1 f v", Any),
            ("XADD stream 2-1 f v", Any),
            ("XGROUP CREATE stream g 0", Any),
            ("XREADGROUP GROUP g c STREAMS stream >", Any),
            ("XDEL stream 1-1", Any),
            ("XAUTOCLAIM stream g d 0 0 COUNT 9223372036854775807", Any),
            ("XAUTOCLAIM stream g d 0 0 COUNT 2147483648 JUSTID", Any),
            ("XAUTOCLAIM stream g d 0 0 COUNT 576460752303423488", Any),
            ("XPENDING stream g - + 9223372036854775807", Any),
        ],
    },
    Advisory {
        name: "CVE-2023-22458, CVE-2023-25155, counts of random members",
        requests: &[
            ("HSET hash f v", Any),
            ("SADD set m", Any),
            ("ZADD zset 1 m", Any),
            ("HRANDFIELD hash -9223372036854775808", Error("out of range")),
            ("HRANDFIELD hash -9223372036854775807 WITHVALUES", Error("out of range")),
            ("ZRANDMEMBER zset -9223372036854775808", Error("out of range")),
            ("ZRANDMEMBER zset -9223372036854775807 WITHSCORES", Error("out of range")),
            ("SRANDMEMBER set -9223372036854775808", Error("out of range")),
            ("SPOP set 9223372036854775807", Any),
        ],
    },
    Advisory {
        name: "CVE-2023-28425, MSETNX with a key twice",
        requests: &[("MSETNX twice 1 twice 2", Reply("1")), ("GET twice", Reply("2"))],
    },
    Advisory {
        name: "CVE-2023-28856, HINCRBYFLOAT by a non-number",
        requests: &[
            ("HINCRBYFLOAT fresh f nan", Error("ERR value is")),
            ("HINCRBYFLOAT fresh f inf", Error("ERR value is")),
            ("EXISTS fresh", Reply("0")),
        ],
    },
    Advisory {
        name: "CVE-2023-36824, keys of requests",
        requests: &[
            ("COMMAND GETKEYS EVAL x 2147483647 k", Reply("[]")),
            ("COMMAND GETKEYS EVAL x -1 k", Reply("[]")),
            ("COMMAND GETKEYSANDFLAGS ZUNION 4294967297 a b", Error("ERR")),
            ("COMMAND GETKEYS MSET a b c", Any),
            ("COMMAND GETKEYS XREADGROUP GROUP g c STREAMS a b c", Any),
            ("COMMAND GETKEYS SORT a BY b GET c STORE", Any),
            ("ACL DRYRUN default EVAL x 9223372036854775807 k", Any),
        ],
    },
    Advisory {
        name: "CVE-2023-41053, the keys of SORT_RO",
        requests: &[
            ("RPUSH own:list 1", Any),
            ("RPUSH list:of:others 1", Any),
            ("SET weight_1 secret", Any),
            ("ACL SETUSER sorter on nopass resetkeys ~own:* +@all", Any),
            ("AUTH sorter any", Reply("OK")),
            ("SORT_RO list:of:others", Error("NOPERM")),
            ("SORT_RO own:list", Reply("[\"1\"]")),
            ("SORT_RO own:list BY weight_*", Error("ERR BY option of SORT denied")),
            ("SORT_RO own:list GET weight_*", Error("ERR GET option of SORT denied")),
            ("EVAL \"return redis.call('sort_ro', 'list:of:others')\" 0", Error("ERR")),
        ],
    },
    Advisory {
        name: "CVE-2024-31227, CVE-2024-51741, malformed selectors",
        requests: &[
            ("ACL SETUSER u %", Error("ERR")),
            ("ACL SETUSER u %~", Error("ERR")),
            ("ACL SETUSER u %R", Any),
            ("ACL SETUSER u (%~)", Error("ERR")),
            ("ACL SETUSER u (% ~a)", Error("ERR")),
            ("ACL SETUSER u (", Error("ERR")),
            ("ACL SETUSER u (+@all ~* (+get))", Error("ERR")),
            ("ACL SETUSER u ((", Error("ERR")),
            ("ACL DRYRUN u GET a", Any),
        ],
    },
    Advisory {
        name: "CVE-2024-31449, bit.tohex",
        requests: &[("EVAL \"return bit.tohex(65535, -2147483648)\" 0", Reply("0000FFFF"))],
    },
    Advisory {
        name: "CVE-2024-46981, the garbage collector",
        requests: &[
            (
                "EVAL \"local p = newproxy(true) getmetatable(p).__gc = function() end\" 0",
                Error("nonexistent global variable"),
            ),
            (
                "EVAL \"collectgarbage('stop') for i = 1, 1000 do local t = setmetatable({}, {__gc = error, __mode = 'kv'}) end return 1\" 0",
                Reply("1"),
            ),
            (
                "EVAL \"collectgarbage('setpause', -1) collectgarbage('setstepmul', -1) return collectgarbage('step', -1) and 1\" 0",
                Any,
            ),
            ("SCRIPT FLUSH SYNC", Any),
            ("EVAL \"return collectgarbage('count') > 0 and 1\" 0", Reply("1")),
            ("FUNCTION FLUSH ASYNC", Any),
        ],
    },
    Advisory {
        name: "CVE-2025-46817, unpack",
        requests: &[
            ("EVAL \"return {unpack({1, 2, 3}, -2147483648, 2147483647)}\" 0", Error("too many results")),
            ("EVAL \"return {unpack({1, 2, 3}, 0, 2147483647)}\" 0", Error("too many results")),
        ],
    },
    Advisory {
        name: "CVE-2025-46819, long brackets",
        requests: &[(
            "EVAL \"return tostring(loadstring('return [' .. string.rep('=', 1000000) .. '[x'))\" 0",
            Reply("nil"),
        )],
    },
    Advisory {
        name: "CVE-2025-49844, the parser and the garbage collector",
        requests: &[(
            "EVAL \"for i = 1, 100 do collectgarbage('setpause', 0) \
             pcall(loadstring, string.rep('local a = ' .. i .. ' ', 150) .. '=', 'n' .. i .. string.rep('x', i)) collectgarbage() end return 1\" 0",
            Reply("1"),
        )],
    },
];

#[test]
fn published_weaknesses_do_no_harm() {
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut witness = server.connect();
    witness.ok("SET witness untouched");
    for advisory in ADVISORIES {
        let mut client = server.connect();
        for (line, end) in advisory.requests {
            let reply = client.call(line);
            let shown = reply.integer().map_or_else(|| reply.text(), |number| number.to_string());
            let fits = match end {
                Error(text) => reply.is_error() && reply.text().contains(text),
                Reply(text) => !reply.is_error() && (shown == *text || reply.to_string() == *text),
                Any => true,
            };
            assert!(fits, "{}: {line}: {reply}", advisory.name);
        }
        // Other users' scripts still work, and stored data is unchanged.
        let check = "local t = {} for word in string.gmatch('a b', '%a') do t[#t + 1] = word:upper() end \
                     return table.concat(t) .. redis.call('GET', KEYS[1])";
        let found = witness.call_arguments(&["EVAL", check, "1", "witness"]);
        assert_eq!(found.text(), "ABuntouched", "after {}", advisory.name);
    }
}

/// CVE-2022-36021, CVE-2024-31228: matching neither hangs nor exhausts the stack.
#[test]
fn patterns_do_not_stop_the_server() {
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut client = server.connect();
    let name = "a".repeat(300);
    assert_eq!(client.call_arguments(&["SADD", &name, &name]), Value::Integer(1));
    let start = Instant::now();
    for pattern in [
        "a*".repeat(100) + "b",
        "*".repeat(1_000_000) + "b",
        "[".repeat(100_000),
        "a?*".repeat(50_000),
        "\\".repeat(99_999),
    ] {
        for request in [
            &["KEYS", &pattern][..],
            &["SCAN", "0", "MATCH", &pattern, "COUNT", "1000"],
            &["SSCAN", &name, "0", "MATCH", &pattern],
            &["CONFIG", "GET", &pattern],
            &["COMMAND", "LIST", "FILTERBY", "PATTERN", &pattern],
            &["FUNCTION", "LIST", "LIBRARYNAME", &pattern],
            &["PUBSUB", "CHANNELS", &pattern],
            &["ACL", "SETUSER", "u", &format!("~{pattern}")],
            &["ACL", "DRYRUN", "u", "GET", &name],
        ] {
            client.call_arguments(request);
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{} bytes of pattern", pattern.len());
    }
    client.call_arguments(&["PSUBSCRIBE", &("a*".repeat(100) + "b")]);
    server.connect().call_arguments(&["PUBLISH", &name, "x"]);
    assert!(start.elapsed() < Duration::from_secs(15));
}

/// CVE-2021-41099, CVE-2021-32627, CVE-2023-41056: growing buffers.
#[test]
fn values_near_buffer_sizes_are_stored_intact() {
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut client = server.connect();
    let mut pipeline = Vec::new();
    let mut lens = Vec::new();
    for base in [512, 1024, 4096, 16 * 1024, 32 * 1024, 64 * 1024, 512 * 1024, 1024 * 1024] {
        for len in base - 3..=base + 3 {
            let value: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            pipeline.extend_from_slice(&words::encode(&[b"SET", &b"k"[..], &value]));
            pipeline.extend_from_slice(&request("GET k"));
            pipeline.extend_from_slice(&words::encode(&[b"EVAL", &b"return #ARGV[1]"[..], b"0", &value]));
            lens.push(len);
        }
    }
    let mut writer = server.connect();
    let sender = std::thread::spawn(move || {
        client.set_patience(Duration::from_secs(60)).expect("a socket");
        client.send(&pipeline);
        client
    });
    // Meanwhile the server serves other clients.
    writer.ok("SET other 1");
    let mut client = sender.join().expect("the whole pipeline is sent");
    for len in lens {
        assert_eq!(client.read(), Value::ok());
        let value = client.read();
        let bytes = value.bytes().expect("a value");
        assert!(
            bytes.len() == len && bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8),
            "{len}"
        );
        assert_eq!(client.read(), Value::Integer(len as i64));
    }
}

/// CVE-2021-32626: a reply nested more deeply than the script's stack, and than any client would
/// follow.
#[test]
fn replies_are_nested_no_deeper_than_the_stack_allows() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let script = "local t = {} for i = 1, 100000 do t = {t} end return t";
    client.send(&words::encode(&["EVAL", script, "0"]));
    client.send(&request("ECHO end"));
    let mut seen = Vec::new();
    while !seen.ends_with(b"$3\r\nend\r\n") {
        let more = client.read_bytes(1);
        assert_eq!(more.len(), 1, "the connection ended after {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&more);
    }
    assert!(seen.len() < 200_000 && String::from_utf8_lossy(&seen).contains("reached lua stack limit"));
}

/// CVE-2021-32675, CVE-2025-21605: an unauthenticated client cannot make the server's memory
/// grow.
#[test]
fn strangers_take_no_memory() {
    let server = TestServer::start_with(Options {
        arguments: ["--requirepass", "secret"].map(str::to_owned).to_vec(),
        ..Options::default()
    });
    let mut admin = server.connect();
    admin.ok("AUTH secret");
    let used = |admin: &mut RawClient| -> u64 {
        admin.info_field("memory", "used_memory").and_then(|bytes| bytes.parse().ok()).expect("a number")
    };
    let before = used(&mut admin);
    for header in ["*1000000\r\n", "*3\r\n$100000000\r\n"] {
        let mut stranger = server.connect();
        stranger.send(header.as_bytes());
        assert!(stranger.read().text().contains("unauthenticated"), "{header:?}");
    }
    // Endless requests from clients that never read the replies.
    let strangers: Vec<RawClient> = (0..4)
        .map(|_| {
            let mut stranger = server.connect();
            stranger.set_patience(Duration::from_millis(300)).expect("a socket");
            let pipeline = request("GET something").repeat(10_000);
            // Until the server stops reading, or closes the connection.
            for _ in 0..400 {
                if stranger.try_send(&pipeline).is_err() {
                    break;
                }
            }
            stranger
        })
        .collect();
    let grown = |admin: &mut RawClient| used(admin).saturating_sub(before);
    let bounded = wait_for_within(Duration::from_secs(5), || grown(&mut admin) < 4 << 20);
    assert!(bounded, "{} unauthenticated clients hold {} bytes", strangers.len(), grown(&mut admin));
    drop(strangers);
}
