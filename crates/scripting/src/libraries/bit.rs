// SPDX-License-Identifier: BSD-3-Clause
//! `bit`: operations on 32-bit integers.

use std::ffi::c_int;

use super::push_functions;
use crate::lua::{Lua, LuaType, Raise, function};
use crate::shared::Shared;

pub(crate) fn push(lua: Lua<'_>, shared: *mut Shared) {
    push_functions(
        lua,
        shared,
        &[
            ("tobit", function!(to_bit)),
            ("bnot", function!(not)),
            ("band", function!(and)),
            ("bor", function!(or)),
            ("bxor", function!(xor)),
            ("lshift", function!(shift_left)),
            ("rshift", function!(shift_right)),
            ("arshift", function!(shift_right_signed)),
            ("rol", function!(rotate_left)),
            ("ror", function!(rotate_right)),
            ("bswap", function!(swap_bytes)),
            ("tohex", function!(to_hex)),
        ],
    );
}

/// An argument as 32 bits: the number rounded to an integer, modulo 2^32.
fn bits(lua: Lua<'_>, index: c_int) -> Result<u32, Raise> {
    // Adding 2^52 + 2^51 leaves the integer in the low bits of the double.
    Ok((lua.check_number(index)? + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn result(lua: Lua<'_>, bits: u32) -> Result<c_int, Raise> {
    lua.push_number(f64::from(bits as i32));
    Ok(1)
}

fn to_bit(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    result(lua, bits(lua, 1)?)
}

fn not(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    result(lua, !bits(lua, 1)?)
}

fn fold(lua: Lua<'_>, combine: fn(u32, u32) -> u32) -> Result<c_int, Raise> {
    let mut all = bits(lua, 1)?;
    for index in 2..=lua.top() {
        all = combine(all, bits(lua, index)?);
    }
    result(lua, all)
}

fn and(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    fold(lua, |a, b| a & b)
}

fn or(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    fold(lua, |a, b| a | b)
}

fn xor(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    fold(lua, |a, b| a ^ b)
}

fn shift(lua: Lua<'_>, by: fn(u32, u32) -> u32) -> Result<c_int, Raise> {
    result(lua, by(bits(lua, 1)?, bits(lua, 2)? & 31))
}

fn shift_left(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    shift(lua, |bits, by| bits << by)
}

fn shift_right(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    shift(lua, |bits, by| bits >> by)
}

fn shift_right_signed(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    shift(lua, |bits, by| (bits as i32 >> by) as u32)
}

fn rotate_left(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    shift(lua, u32::rotate_left)
}

fn rotate_right(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    shift(lua, u32::rotate_right)
}

fn swap_bytes(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    result(lua, bits(lua, 1)?.swap_bytes())
}

fn to_hex(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    let bits_given = bits(lua, 1)?;
    let digits = if lua.kind(2) == LuaType::None { 8 } else { bits(lua, 2)? as i32 };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{bits_given:08X}") } else { format!("{bits_given:08x}") };
    lua.push_string(&text.as_bytes()[8 - count..]);
    Ok(1)
}
