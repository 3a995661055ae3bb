// SPDX-License-Identifier: BSD-3-Clause
//! Lua values as text for the developer.

use std::ffi::c_int;

use braid_resp::inline::push_quoted;

use crate::lua::{Lua, LuaType};

/// Maximum nesting of tables.
const DEPTH_MAX: usize = 10;
/// Significant digits of numbers.
const DIGITS: i32 = 6;

/// Appends the value at an index, in the form that stock servers show.
pub(crate) fn push_value(out: &mut Vec<u8>, lua: Lua<'_>, index: c_int) {
    let index = if index < 0 { lua.top() + index + 1 } else { index };
    push(out, lua, index, 0);
}

fn push(out: &mut Vec<u8>, lua: Lua<'_>, index: c_int, depth: usize) {
    if depth == DEPTH_MAX {
        return out.extend_from_slice(b"<max recursion level reached! Nested table?>");
    }
    match lua.kind(index) {
        LuaType::String => push_quoted(out, lua.string(index).unwrap_or_default()),
        LuaType::Boolean => out.extend_from_slice(lua.boolean(index).to_string().as_bytes()),
        LuaType::Number => push_number(out, lua.number(index).unwrap_or_default()),
        LuaType::None | LuaType::Nil => out.extend_from_slice(b"nil"),
        LuaType::Table => push_table(out, lua, index, depth),
        kind => {
            let name = if kind == LuaType::LightUserdata { "light-userdata" } else { lua.kind_name(index) };
            out.extend_from_slice(format!("\"{name}@{:p}\"", lua.address(index)).as_bytes());
        }
    }
}

fn push_table(out: &mut Vec<u8>, lua: Lua<'_>, index: c_int, depth: usize) {
    if !lua.has_room(3) {
        return out.extend_from_slice(b"{...}");
    }
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut is_array = true;
    lua.push_nil();
    while lua.next(index) {
        let top = lua.top();
        is_array &= lua.number(top - 1) == Some((fields.len() + 1) as f64);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        push(&mut key, lua, top - 1, depth + 1);
        push(&mut value, lua, top, depth + 1);
        fields.push((key, value));
        lua.pop(1);
    }
    out.push(b'{');
    for (number, (key, value)) in fields.iter().enumerate() {
        if number > 0 {
            out.extend_from_slice(b"; ");
        }
        if !is_array {
            out.push(b'[');
            out.extend_from_slice(key);
            out.extend_from_slice(b"]=");
        }
        out.extend_from_slice(value);
    }
    out.push(b'}');
}

/// As C's `%g`.
fn push_number(out: &mut Vec<u8>, number: f64) {
    let text = if number.is_nan() {
        if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned()
    } else if number.is_infinite() {
        if number < 0.0 { "-inf" } else { "inf" }.to_owned()
    } else {
        let scientific = format!("{number:.*e}", DIGITS as usize - 1);
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let trim = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if (-4..DIGITS).contains(&exponent) {
            trim(&format!("{number:.*}", (DIGITS - 1 - exponent) as usize))
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trim(digits), exponent.abs())
        }
    };
    out.extend_from_slice(text.as_bytes());
}

#[test]
fn numbers_are_shown_as_by_c() {
    for (number, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (-5e-8, "-5e-08"),
        (123_456_789_012.0, "1.23457e+11"),
        (999_999.5, "1e+06"),
        (123_456.0, "123456"),
        (0.000_123_456_7, "0.000123457"),
        (0.000_012_3, "1.23e-05"),
        (1e100, "1e+100"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (-f64::NAN, "-nan"),
    ] {
        let mut out = Vec::new();
        push_number(&mut out, number);
        assert_eq!(String::from_utf8_lossy(&out), text);
    }
}
