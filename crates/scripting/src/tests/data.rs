// SPDX-License-Identifier: BSD-3-Clause
//! The libraries: known values, round trips, and arbitrary bytes.

use proptest::prelude::*;

use super::{Tester, check};

#[test]
fn json() {
    check("return cjson.encode({1, 2, 'x', true, cjson.null})", "$19 [1,2,\"x\",true,null]");
    check("return cjson.encode({a = {b = 0.1}})", "$15 {\"a\":{\"b\":0.1}}");
    check("return cjson.encode('a/b\"\\\\\\1\\127')", "$22 \"a\\/b\\\"\\\\\\u0001\\u007f\"");
    check("return cjson.encode({})", "$2 {}");
    check("return cjson.encode({[1] = 1, x = 2}):len()", ":13");
    check("return cjson.encode({1, nil, 3})", "$10 [1,null,3]");
    check(
        "local t = cjson.decode('{\"a\":[1,2,{\"b\":null}]}') return {t.a[1], #t.a, tostring(t.a[3].b == cjson.null)}",
        "*3 :1 :3 $4 true",
    );
    check(
        "return table.concat(cjson.decode('[0.0, -5e3, -1, 0.3e-3, 1023.2, 0e10]'), ' ')",
        "$26 0 -5000 -1 0.0003 1023.2 0",
    );
    check("return cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\"')", "$6 é😀");
    check(
        "return {pcall(cjson.decode, '[1,]')}",
        "*2 $-1 $49 Expected value but found T_ARR_END at character 4",
    );
    check(
        "local ok, e = pcall(cjson.decode, '[1,]') return e",
        "$49 Expected value but found T_ARR_END at character 4",
    );
}

#[test]
fn message_pack() {
    let hex = "local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end ";
    let pack = |value: &str| Tester::new().run(&format!("{hex} return hex(cmsgpack.pack({value}))"));
    for (value, expected) in [
        ("0.1", "$18 cb3fb999999999999a"),
        ("0.5", "$10 ca3f000000"),
        ("-1099511627776", "$18 d3ffffff0000000000"),
        ("127, 128, 256, 65536, 2^32", "$44 7fcc80cd0100ce00010000cf0000000100000000"),
        ("-32, -33, -129, -32769", "$22 e0d0dfd1ff7fd2ffff7fff"),
        ("nil, true, false, 'abc'", "$14 c0c3c2a3616263"),
        ("{1, 2}, {a = 1}, {}", "$16 92010281a1610190"),
        ("2^63", "$10 ca5f000000"),
    ] {
        let found = pack(value);
        let (_, found) = found.split_once(' ').expect("a string");
        let (_, expected) = expected.split_once(' ').expect("a string");
        assert_eq!(found, expected, "{value}");
    }
    check("return {cmsgpack.unpack(cmsgpack.pack(1, 'two', {3}))}", "*3 :1 $3 two *1 :3");
    check("return {cmsgpack.unpack_one(cmsgpack.pack(1, 2))}", "*2 :1 :1");
    check("return {cmsgpack.unpack_one(cmsgpack.pack(1, 2), 1)}", "*2 :-1 :2");
    check("return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 0)}", "*3 :2 :1 :2");
}

#[test]
fn structures() {
    let hex = "local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end ";
    let pack = |args: &str| Tester::new().run(&format!("{hex} return hex(struct.pack({args}))"));
    for (args, expected) in [
        ("'>I2', 258", "0102"),
        ("'<I2', 258", "0201"),
        ("'>i3', -2", "fffffe"),
        ("'bBhH', -1, 255, -2, 65535", "fffffeffffff"),
        ("'>d', 1", "3ff0000000000000"),
        ("'<f', 0.5", "0000003f"),
        ("'s', 'ab'", "616200"),
        ("'c2', 'abc'", "6162"),
        ("'c0', 'abc'", "616263"),
        ("'!4bi', 1, 2", "0100000002000000"),
        ("'bxb', 1, 2", "010002"),
    ] {
        let found = pack(args);
        assert_eq!(found.split_once(' ').map(|(_, text)| text), Some(expected), "{args}");
    }
    check("return {struct.unpack('>I2i2', '\\1\\2\\255\\255')}", "*3 :258 :-1 :5");
    check("return {struct.unpack('>Bc0s', '\\3abcde\\0')}", "*3 $3 abc $2 de :8");
    check("return struct.size('!8bdI5')", ":25");
    check("return {struct.unpack('b', 'abc', 2)}", "*2 :98 :3");
}

#[test]
fn bits() {
    check("return {bit.band(0xff, 0x0f), bit.bor(1, 2, 4), bit.bxor(5, 1), bit.bnot(0)}", "*4 :15 :7 :4 :-1");
    check(
        "return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 2), bit.rol(0x12345678, 12), bit.ror(0x12345678, 12)}",
        "*5 :-2147483648 :15 :-2 :1164411171 :1736516421",
    );
    check(
        "return {bit.tobit(0xffffffff), bit.tobit(2^40 + 1), bit.bswap(0x12345678)}",
        "*3 :-1 :1 :2018915346",
    );
    check("return bit.tohex(1)", "$8 00000001");
    check(
        "return bit.band('x')",
        "!ERR user_script:1: bad argument #1 to 'band' (number expected, got string) script: sha, on @user_script:1.",
    );
}

/// A Lua value as source text.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("false".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        "[a-z]{0,40}".prop_map(|text| format!("'{text}'")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4)
                .prop_map(|items| format!("{{{}}}", items.join(","))),
            proptest::collection::vec(("[a-z]{1,5}", inner), 1..4).prop_map(|pairs| {
                let pairs: Vec<String> =
                    pairs.into_iter().map(|(key, value)| format!("['{key}']={value}")).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}

const SAME: &str = "local function same(a, b) \
    if type(a) == 'number' and type(b) == 'number' then return a == b or math.abs(a - b) <= math.abs(a) * 1e-13 end \
    if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end \
    for k, v in pairs(a) do if not same(v, b[k]) then return false end end \
    for k in pairs(b) do if a[k] == nil then return false end end return true end ";

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn values_survive_packing(value in value()) {
        let mut tester = Tester::new();
        tester.check(&format!("{SAME} local v = {value} return same(v, cmsgpack.unpack(cmsgpack.pack(v)))"), ":1");
        tester.check(&format!("{SAME} local v = {value} return same(v, cjson.decode(cjson.encode(v)))"), ":1");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// No input makes a decoder panic, recurse endlessly, or allocate more than a multiple of its
    /// length.
    #[test]
    fn decoders_withstand_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "[\\[\\]{}:,\"\\\\u0-9a-fx.eE+\\- nulltrfs]{0,200}", format in "[bBhHlLTiIfdsxc0-9!<> ]{0,30}") {
        let mut tester = Tester::new();
        tester.run_with("pcall(cmsgpack.unpack, ARGV[1]) pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1)", &[], &[&bytes]);
        tester.run_with("pcall(cjson.decode, ARGV[1])", &[], &[&bytes]);
        tester.run_with("pcall(cjson.decode, ARGV[1])", &[], &[text.as_bytes()]);
        tester.run_with("pcall(struct.unpack, ARGV[1], ARGV[2]) pcall(struct.size, ARGV[1]) pcall(struct.pack, ARGV[1], 1, 2, 'x', 4)", &[], &[format.as_bytes(), &bytes]);
        prop_assert!(tester.vm.memory_bytes() < 1 << 20, "{} bytes", tester.vm.memory_bytes());
    }
}
